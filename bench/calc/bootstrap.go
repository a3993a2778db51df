package calc

import (
	"math"

	"assay/internal/stats"
)

// resampleCost is what one resample costs beside its draws: it is kept, and sorted.
const resampleCost = 100

func bootstrap(r *struct {
	Data       []float64 `json:"data"`
	Statistic  string    `json:"statistic"`
	NBoot      *float64  `json:"n_boot"`
	Confidence *float64  `json:"confidence"`
	Seed       *float64  `json:"seed"`
}, c *checker) plan {
	if r.Data == nil {
		c.bad("/data", "a list of numbers is required")
	}
	if r.Statistic != "" {
		oneOf(c, "/statistic", r.Statistic, "mean")
	}
	b := int(c.capped("/n_boot", or(r.NBoot, defaultB), 1, maxResamples))
	confidence := c.between("/confidence", or(r.Confidence, 0.95), 0, 1)
	seed := uint64(c.count("/seed", or(r.Seed, 0), 0, maxExact))
	return plan{float64(b) * float64(len(r.Data)+resampleCost), func() (any, *Error) {
		bs, ok := stats.NewBootstrap(r.Data, b, seed)
		out := struct {
			Estimate   *float64    `json:"estimate"`
			Percentile *[2]float64 `json:"percentile"`
			Basic      *[2]float64 `json:"basic"`
			BCa        *[2]float64 `json:"bca"`
			N          int         `json:"n"`
			B          int         `json:"B"`
			Confidence float64     `json:"confidence"`
			Seed       uint64      `json:"seed"`
			unknown
		}{N: len(r.Data), B: b, Confidence: confidence, Seed: seed}
		switch {
		case len(r.Data) == 0:
			out.Unavailable = noCases
			return out, nil
		case !ok:
			out.Unavailable = outOfRange
			return out, nil
		}
		out.Estimate = &bs.Estimate
		out.Percentile = pair(bs.Interval(stats.Percentile, confidence))
		out.Basic = pair(bs.Interval(stats.Basic, confidence))
		out.BCa = pair(bs.Interval(stats.BCa, confidence))
		switch {
		case !bs.Varies():
			out.Unavailable = noVariance
		case out.BCa == nil:
			out.Unavailable = fewResamples
		}
		return out, nil
	}}
}

// clusterRequest is what comparisons over clusters share.
type clusterRequest struct {
	Clusters    stats.Clusters `json:"clusters"`
	Arms        []string       `json:"arms"`
	B           *float64       `json:"B"`
	Method      stats.Method   `json:"method"`
	MinClusters *float64       `json:"min_clusters"`
}

// defaultMinClusters is the least number of pairs that the four-arm protocol lets a
// cohort be judged by, unless more were registered.
const defaultMinClusters = 5

func (r *clusterRequest) read(c *checker, confidence float64) (compare func() stats.Comparison, how stats.Resampling, cost float64) {
	if r.Clusters == nil {
		c.bad("/clusters", "an object of clusters is required")
	}
	if len(r.Arms) != 2 {
		c.bad("/arms", "want the names of two arms")
		return nil, how, 0
	}
	if r.Arms[0] == r.Arms[1] {
		c.bad("/arms/1", "want two arms, not one twice")
	}
	if r.Method == "" {
		r.Method = stats.Percentile
	}
	how = stats.Resampling{
		B:           int(c.capped("/B", or(r.B, defaultB), 1, maxResamples)),
		Confidence:  confidence,
		Method:      oneOf(c, "/method", r.Method, stats.Percentile, stats.Basic, stats.BCa),
		MinClusters: int(c.count("/min_clusters", or(r.MinClusters, defaultMinClusters), 0, maxExact)),
	}
	return func() stats.Comparison { return r.Clusters.Compare(r.Arms[0], r.Arms[1], how) },
		how, float64(how.B) * float64(len(r.Clusters)+resampleCost)
}

// comparisonReply tells a comparison and how it was made.
type comparisonReply struct {
	Estimate    *float64         `json:"estimate"`
	Low         *float64         `json:"low"`
	High        *float64         `json:"high"`
	Suppressed  stats.Suppressed `json:"suppressed,omitzero"`
	Clusters    int              `json:"n_clusters"`
	Incomplete  int              `json:"n_incomplete"`
	MinClusters int              `json:"min_clusters"`
	Method      stats.Method     `json:"method"`
	Confidence  float64          `json:"confidence"`
	B           int              `json:"B"`
	Seed        uint64           `json:"seed"`
}

func compared(cmp stats.Comparison, how stats.Resampling) comparisonReply {
	out := comparisonReply{
		Estimate: cmp.Estimate, Suppressed: cmp.Suppressed, Clusters: cmp.Clusters, Incomplete: cmp.Incomplete,
		MinClusters: how.MinClusters, Method: how.Method, Confidence: how.Confidence, B: how.B, Seed: cmp.Seed,
	}
	if cmp.Interval != nil {
		out.Low, out.High = &cmp.Interval.Low, &cmp.Interval.High
	}
	return out
}

func clusterBootstrap(r *struct {
	clusterRequest
	Confidence *float64 `json:"confidence"`
}, c *checker) plan {
	compare, how, cost := r.read(c, c.between("/confidence", or(r.Confidence, 0.95), 0, 1))
	return plan{cost, func() (any, *Error) { return compared(compare(), how), nil }}
}

func nonInferiority(r *struct {
	clusterRequest
	Margin *float64 `json:"margin"`
	Alpha  *float64 `json:"alpha"`
	Better string   `json:"better"`
}, c *checker) plan {
	margin := c.within("/margin", r.Margin, 0, math.MaxFloat64)
	alpha := c.between("/alpha", or(r.Alpha, 0.025), 0, 0.5)
	better := oneOf(c, "/better", r.Better, "higher", "lower")
	compare, how, cost := r.read(c, 1-2*alpha)
	return plan{cost, func() (any, *Error) {
		cmp := compare()
		verdict, equivalent := stats.Judge(cmp.Interval, margin, better == "higher")
		return struct {
			Verdict    stats.Verdict `json:"verdict"`
			Equivalent *bool         `json:"equivalent"` // null without an interval
			comparisonReply
		}{verdict, known(equivalent, cmp.Interval != nil), compared(cmp, how)}, nil
	}}
}
