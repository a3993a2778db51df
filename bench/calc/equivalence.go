package calc

import (
	"math"

	"assay/internal/stats"
)

func tost(r *tostRequest, c *checker) plan {
	kind := oneOf(c, "/kind", r.Kind, "one_sample_t", "welch_t", "paired_t", "z_proportion", "binomial_tost_power")
	return map[string]func(*checker) plan{
		"one_sample_t": r.oneSample, "welch_t": r.welch, "paired_t": r.paired, "z_proportion": r.proportion, "binomial_tost_power": r.power,
	}[kind](c)
}

// tostRequest has the fields of every kind.
type tostRequest struct {
	Kind      string    `json:"kind"`
	M         *float64  `json:"m"`
	Mu        *float64  `json:"mu"`
	SD        *float64  `json:"sd"`
	N         *float64  `json:"n"`
	M1        *float64  `json:"m1"`
	M2        *float64  `json:"m2"`
	SD1       *float64  `json:"sd1"`
	SD2       *float64  `json:"sd2"`
	N1        *float64  `json:"n1"`
	N2        *float64  `json:"n2"`
	Low       *float64  `json:"low"`
	High      *float64  `json:"high"`
	X         []float64 `json:"x"`
	Y         []float64 `json:"y"`
	Eps       *float64  `json:"eps"`
	Successes *float64  `json:"successes"`
	Alpha     *float64  `json:"alpha"`
	PAlt      []float64 `json:"p_alt"`
}

func (r *tostRequest) bounds(c *checker) (low, high float64) {
	low, high = c.number("/low", r.Low), c.number("/high", r.High)
	c.ordered(low, high)
	return low, high
}

type tostReply struct {
	Diff *float64 `json:"diff"`
	T1   *float64 `json:"t1"`
	P1   *float64 `json:"p1"`
	T2   *float64 `json:"t2"`
	P2   *float64 `json:"p2"`
	DF   *float64 `json:"df"`
	P    *float64 `json:"p"`
	unknown
}

func tostReplied(t stats.TOST, ok bool) any {
	return tostReply{
		known(t.Diff, ok), known(t.T1, ok), known(t.P1, ok), known(t.T2, ok), known(t.P2, ok), known(t.DF, ok), known(t.P, ok),
		because(ok, noVariance),
	}
}

func (r *tostRequest) oneSample(c *checker) plan {
	m, mu := c.number("/m", r.M), c.number("/mu", r.Mu)
	sd := c.within("/sd", r.SD, 0, math.MaxFloat64)
	n := c.capped("/n", r.N, 0, stats.MaxCount)
	low, high := r.bounds(c)
	return planned(tailCost, func() any { return tostReplied(stats.TOSTOneSample(m, mu, sd, n, low, high)) })
}

func (r *tostRequest) welch(c *checker) plan {
	a := stats.Sample{Mean: c.number("/m1", r.M1), SD: c.within("/sd1", r.SD1, 0, math.MaxFloat64), N: c.capped("/n1", r.N1, 0, stats.MaxCount)}
	b := stats.Sample{Mean: c.number("/m2", r.M2), SD: c.within("/sd2", r.SD2, 0, math.MaxFloat64), N: c.capped("/n2", r.N2, 0, stats.MaxCount)}
	low, high := r.bounds(c)
	return planned(tailCost, func() any { return tostReplied(stats.TOSTWelch(a, b, low, high)) })
}

func (r *tostRequest) paired(c *checker) plan {
	if len(r.X) != len(r.Y) {
		c.bad("/y", "want %d values, as many as in x", len(r.X))
	}
	if len(r.X) > stats.MaxCount {
		c.note(TooLarge, "/x", "the limit is %d values", stats.MaxCount)
	}
	eps := c.between("/eps", r.Eps, 0, math.Inf(1))
	return planned(len(r.X), func() any {
		t, iv, ok := stats.TOSTPaired(r.X, r.Y, eps)
		return struct {
			Mean *float64    `json:"mean_diff"`
			SE   *float64    `json:"se"`
			T1   *float64    `json:"t1"`
			P1   *float64    `json:"p1"`
			T2   *float64    `json:"t2"`
			P2   *float64    `json:"p2"`
			P    *float64    `json:"p"`
			DF   *float64    `json:"df"`
			CI90 *[2]float64 `json:"ci90"`
			unknown
		}{
			known(t.Diff, ok), known(t.SE, ok), known(t.T1, ok), known(t.P1, ok), known(t.T2, ok), known(t.P2, ok), known(t.P, ok), known(t.DF, ok),
			pair(iv, ok), because(ok, noVariance),
		}
	})
}

func pair(iv stats.Interval, ok bool) *[2]float64 { return known([2]float64{iv.Low, iv.High}, ok) }

func (r *tostRequest) proportion(c *checker) plan {
	n := c.count("/n", r.N, 0, maxExact)
	k := c.count("/successes", r.Successes, 0, n)
	low, high := r.bounds(c)
	return planned(tailCost, func() any {
		t, ok := stats.TOSTProportion(k, n, low, high)
		return struct {
			Z1   *float64    `json:"z1"`
			Z2   *float64    `json:"z2"`
			P    *float64    `json:"p"`
			CI90 *[2]float64 `json:"ci90"`
			unknown
		}{known(t.Z1, ok), known(t.Z2, ok), known(t.P, ok), pair(t.Interval, ok), because(ok, noVariance)}
	})
}

func (r *tostRequest) power(c *checker) plan {
	n := c.capped("/n", r.N, 0, stats.MaxCount)
	low, high := c.within("/low", r.Low, 0, 1), c.within("/high", r.High, 0, 1)
	c.ordered(low, high)
	alpha := c.between("/alpha", or(r.Alpha, 0.05), 0, 1)
	alternatives := c.probabilities("/p_alt", r.PAlt)
	return planned(len(alternatives)*tailCost, func() any {
		power, ok := stats.BinomialTOSTPower(n, low, high, alpha, alternatives)
		return struct {
			Power *[]float64 `json:"power"`
			unknown
		}{known(power, ok), because(ok, noTrials)}
	})
}
