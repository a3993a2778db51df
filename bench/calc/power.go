package calc

import (
	"math"

	"assay/internal/stats"
)

func power(r *powerRequest, c *checker) plan {
	if oneOf(c, "/design", r.Design, "paired_binary", "precision") == "precision" {
		return r.precision(c)
	}
	return r.pairedBinary(c)
}

type powerRequest struct {
	Design      string   `json:"design"`
	Discordance *float64 `json:"discordance"`
	Effect      *float64 `json:"effect"`
	HalfWidth   *float64 `json:"half_width"`
	Alpha       *float64 `json:"alpha"`
	Power       *float64 `json:"power"`
	N           *float64 `json:"n"`
}

func (r *powerRequest) shared(c *checker) (discordance, alpha float64) {
	discordance = c.within("/discordance", r.Discordance, 0, 1)
	if discordance == 0 {
		c.bad("/discordance", "want more than 0")
	}
	return discordance, c.between("/alpha", or(r.Alpha, 0.05), 0, 1)
}

type sizeReply struct {
	N *float64 `json:"n"`
	unknown
}

func (r *powerRequest) pairedBinary(c *checker) plan {
	d := stats.PairedDesign{Effect: c.within("/effect", r.Effect, -1, 1)}
	d.Discordance, d.Alpha = r.shared(c)
	if d.Effect == 0 || math.Abs(d.Effect) > d.Discordance {
		c.bad("/effect", "want an effect other than 0, and no larger than the discordance")
	}
	switch {
	case (r.Power == nil) == (r.N == nil):
		c.bad("", "want either power or n")
		return plan{}
	case r.N != nil:
		n := c.count("/n", r.N, 0, maxExact)
		return planned(tailCost, func() any {
			v, ok := d.Power(float64(n))
			return struct {
				Power *float64 `json:"power"`
				unknown
			}{known(v, ok), because(ok, noCases)}
		})
	}
	want := c.between("/power", r.Power, 0, 1)
	if want <= d.Alpha/2 {
		c.bad("/power", "want more than alpha/2, which no cases at all have")
	}
	return planned(tailCost, func() any {
		n, ok := d.N(want)
		return sizeReply{known(n, ok), because(ok, outOfRange)}
	})
}

func (r *powerRequest) precision(c *checker) plan {
	discordance, alpha := r.shared(c)
	width := c.between("/half_width", r.HalfWidth, 0, 1)
	return planned(tailCost, func() any {
		n, ok := stats.PrecisionN(discordance, width, alpha)
		return sizeReply{known(n, ok), because(ok, outOfRange)}
	})
}
