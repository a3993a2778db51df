package calc

import (
	"math"

	"assay/internal/stats"
)

// forecasts are probabilities and what happened.
type forecasts struct {
	P []float64 `json:"p"`
	Y []float64 `json:"y"`
}

func (f *forecasts) read(c *checker) (p []float64, y []bool) {
	p = c.probabilities("/p", f.P)
	return p, c.outcomes("/y", f.Y, len(p))
}

func brier(r *forecasts, c *checker) plan {
	p, y := r.read(c)
	return planned(len(p), func() any {
		v, ok := stats.Brier(p, y)
		return struct {
			Brier *float64 `json:"brier"`
			N     int      `json:"n"`
			unknown
		}{known(v, ok), len(p), because(ok, noCases)}
	})
}

func logLoss(r *struct {
	forecasts
	Clamp *float64 `json:"clamp"`
}, c *checker) plan {
	p, y := r.read(c)
	clamp := c.between("/clamp", or(r.Clamp, 1e-6), 0, 0.5)
	return planned(len(p), func() any {
		v, clamped, ok := stats.LogLoss(p, y, clamp)
		return struct {
			LogLoss *float64 `json:"log_loss"`
			Clamped int      `json:"clamped"`
			N       int      `json:"n"`
			unknown
		}{known(v, ok), clamped, len(p), because(ok, noCases)}
	})
}

func auroc(r *struct {
	P []float64 `json:"p"`
	Y []float64 `json:"y"`
}, c *checker) plan {
	if r.P == nil {
		c.bad("/p", "a list of scores is required")
	}
	y := c.outcomes("/y", r.Y, len(r.P))
	return planned(len(r.P), func() any {
		v, ok := stats.AUROC(r.P, y)
		return struct {
			AUROC *float64 `json:"auroc"`
			N     int      `json:"n"`
			unknown
		}{known(v, ok), len(r.P), because(ok, oneClass)}
	})
}

// binReply is one bin (Low, High] of a reliability diagram.
type binReply struct {
	Low        float64  `json:"low"`
	High       float64  `json:"high"`
	N          int      `json:"n"`
	Confidence *float64 `json:"confidence"` // null in an empty bin
	Frequency  *float64 `json:"frequency"`
}

func ece(r *struct {
	forecasts
	Probs [][]float64 `json:"probs"`
	Label []float64   `json:"label"`
	Bins  *float64    `json:"bins"`
	Norm  stats.Norm  `json:"norm"`
}, c *checker) plan {
	bins := int(c.capped("/bins", or(r.Bins, 10), 1, maxBins))
	if r.Norm == "" {
		r.Norm = stats.L1
	}
	norm := oneOf(c, "/norm", r.Norm, stats.L1, stats.L2, stats.Max)
	var p []float64
	var y []bool
	switch {
	case r.Probs != nil && r.P != nil:
		c.bad("", "want p and y, or probs and label")
	case r.Probs != nil:
		p, y = c.topLabels(r.Probs, r.Label)
	default:
		p, y = r.read(c)
	}
	return planned(len(p)+bins, func() any {
		v, diagram, ok := stats.ECE(p, y, bins, norm)
		out := struct {
			ECE  *float64   `json:"ece"`
			N    int        `json:"n"`
			Norm stats.Norm `json:"norm"`
			Bins []binReply `json:"bins"`
			unknown
		}{known(v, ok), len(p), norm, []binReply{}, because(ok, noCases)}
		for _, b := range diagram {
			out.Bins = append(out.Bins, binReply{b.Low, b.High, b.N, known(b.Confidence, b.N > 0), known(b.Frequency, b.N > 0)})
		}
		return out
	})
}

// topLabels reads probabilities of classes as statements about the likeliest.
func (c *checker) topLabels(probs [][]float64, labels []float64) (p []float64, y []bool) {
	if len(labels) != len(probs) {
		c.bad("/label", "want %d labels, one a list of probabilities", len(probs))
		return nil, nil
	}
	for i, row := range probs {
		at := item("/probs", i)
		var sum float64
		for _, x := range c.probabilities(at, row) {
			sum += x
		}
		if math.Abs(sum-1) > 1e-6 {
			c.bad(at, "want probabilities that add up to 1")
			return nil, nil
		}
		truth := c.count(item("/label", i), &labels[i], 0, int64(len(row)-1))
		confidence, correct, _ := stats.TopLabel(row, int(truth))
		p, y = append(p, confidence), append(y, correct)
	}
	return p, y
}
