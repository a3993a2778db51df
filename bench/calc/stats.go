package calc

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/stats"
)

// Why a reply's values are null.
const (
	noTrials     = "no_trials"
	noCases      = "no_cases"
	noDiscordant = "no_discordant_pairs"
	noChance     = "chance_agrees_always" // no case, or both raters with one category
	oneClass     = "one_class"
	noVariance   = "no_variance" // fewer than two values, or values all alike
	outOfRange   = "not_finite"
	fewResamples = "too_few_resamples" // for the confidence, or for the correction of BCa
)

// Limits that hold whatever the cost may be, beside stats.MaxCount.
const (
	maxCases      = math.MaxInt32 // that a table may count
	maxCategories = 1000
	maxBins       = 10_000
	maxResamples  = 100_000_000 // which are kept: 800 MB
)

// defaultB makes (B + 1)·α whole for the usual confidences.
const defaultB = 9999

// unknown is part of a reply that may have no value: its fields are null then, and
// Unavailable says why.
type unknown struct {
	Unavailable string `json:"unavailable,omitzero"`
}

func because(ok bool, reason string) unknown {
	if ok {
		return unknown{}
	}
	return unknown{reason}
}

// known is v, or null.
func known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// done is a plan whose answer is worth about as much work as its request.
func done(size int, answer func() any) plan {
	return plan{float64(size), func() (any, *Error) { return answer(), nil }}
}

type limits struct {
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	unknown
}

func interval(iv stats.Interval, ok bool, reason string) limits {
	return limits{known(iv.Low, ok), known(iv.High, ok), because(ok, reason)}
}

func proportionCI(r *struct {
	Method string   `json:"method"`
	K      *float64 `json:"k"`
	N      *float64 `json:"n"`
	Alpha  *float64 `json:"alpha"`
}, c *checker) plan {
	method := oneOf(c, "/method", r.Method, "wilson", "clopper_pearson", "agresti_coull")
	most := int64(maxExact)
	if method == "clopper_pearson" {
		most = stats.MaxCount
	}
	n := c.capped("/n", r.N, 0, most)
	k := c.count("/k", r.K, 0, n)
	alpha := c.between("/alpha", or(r.Alpha, 0.05), 0, 1)
	return done(tailCost, func() any {
		var iv stats.Interval
		var ok bool
		switch method {
		case "wilson":
			iv, ok = stats.Wilson(float64(k), float64(n), stats.Z(alpha))
		case "agresti_coull":
			iv, ok = stats.AgrestiCoull(float64(k), float64(n), stats.Z(alpha))
		default:
			iv, ok = stats.ClopperPearson(k, n, alpha)
		}
		return interval(iv, ok, noTrials)
	})
}

func binomialTest(r *struct {
	K *float64 `json:"k"`
	N *float64 `json:"n"`
	P *float64 `json:"p"`
}, c *checker) plan {
	n := c.capped("/n", r.N, 0, stats.MaxCount)
	k := c.count("/k", r.K, 0, n)
	p := c.within("/p", r.P, 0, 1)
	return done(tailCost, func() any {
		v, ok := stats.BinomialTest(k, n, p)
		return struct {
			TwoSided *float64 `json:"two_sided_p"`
			unknown
		}{known(v, ok), because(ok, noTrials)}
	})
}

// square checks a square table of counts.
func (c *checker) square(pointer string, table [][]float64, most int64) [][]int64 {
	out := make([][]int64, len(table))
	var total int64
	for i, row := range table {
		if len(row) != len(table) {
			c.bad(item(pointer, i), "want %d counts, one a row", len(table))
			continue
		}
		out[i] = make([]int64, len(row))
		for j := range row {
			at := item(item(pointer, i), j)
			out[i][j] = c.capped(at, &row[j], 0, most)
			if total += out[i][j]; total > most {
				c.note(TooLarge, pointer, "the limit is %d cases", most)
				return out
			}
		}
	}
	return out
}

func mcnemar(r *struct {
	Table [][]float64 `json:"table"`
}, c *checker) plan {
	if len(r.Table) != 2 {
		c.bad("/table", "want two rows of two counts")
	}
	table := c.square("/table", r.Table, maxCases)
	if c.fault != nil {
		return plan{}
	}
	b, d := table[0][1], table[1][0]
	if b+d > stats.MaxCount {
		c.note(TooLarge, "/table", "the limit is %d discordant pairs", stats.MaxCount)
	}
	return done(tailCost, func() any {
		t, ok := stats.McNemar(b, d)
		return struct {
			Exact       *float64 `json:"exact_p"`
			Chi2        *float64 `json:"chi2"`
			Chi2P       *float64 `json:"chi2_p"`
			ContinuityP *float64 `json:"chi2_continuity_p"`
			unknown
		}{known(t.ExactP, ok), known(t.Chi2, ok), known(t.Chi2P, ok), known(t.ContinuityP, ok), because(ok, noDiscordant)}
	})
}

func cohenKappa(r *struct {
	Table [][]float64 `json:"table"`
	Pairs *struct {
		A []jsontext.Value `json:"a"`
		B []jsontext.Value `json:"b"`
	} `json:"pairs"`
}, c *checker) plan {
	var table [][]int64
	switch {
	case (r.Table == nil) == (r.Pairs == nil):
		c.bad("", "want a table or pairs")
	case len(r.Table) > maxCategories:
		c.note(TooLarge, "/table", "the limit is %d categories", maxCategories)
	case r.Table != nil:
		table = c.square("/table", r.Table, maxCases)
	default:
		table = c.tabulate(r.Pairs.A, r.Pairs.B)
	}
	return done(len(table)*len(table), func() any {
		a, ok := stats.Kappa(table, stats.Z95)
		out := struct {
			Kappa *float64 `json:"kappa"`
			ASE   *float64 `json:"ase"`
			Low   *float64 `json:"low"`
			High  *float64 `json:"high"`
			ASE0  *float64 `json:"ase0"`
			Z     *float64 `json:"z"`
			P     *float64 `json:"p_two_sided"`
			unknown
		}{Kappa: known(a.Kappa, ok), ASE: known(a.ASE, ok), unknown: because(ok, noChance)}
		if a.Interval != nil {
			out.Low, out.High = &a.Interval.Low, &a.Interval.High
		}
		if a.Null != nil {
			out.ASE0, out.Z, out.P = &a.Null.ASE0, &a.Null.Z, &a.Null.P
		}
		return out
	})
}

// tabulate counts pairs of labels, which are numbers or texts.
func (c *checker) tabulate(a, b []jsontext.Value) [][]int64 {
	if len(a) != len(b) {
		c.bad("/pairs/b", "want %d labels, as many as in a", len(a))
		return nil
	}
	index := map[string]int{}
	read := func(pointer string, labels []jsontext.Value) []int {
		out := make([]int, len(labels))
		for i, l := range labels {
			key, ok := label(l)
			if !ok {
				c.bad(item(pointer, i), "want a number or a text")
			}
			if _, ok := index[key]; !ok {
				index[key] = len(index)
			}
			out[i] = index[key]
		}
		return out
	}
	first, second := read("/pairs/a", a), read("/pairs/b", b)
	if len(index) > maxCategories {
		c.note(TooLarge, "/pairs", "the limit is %d categories", maxCategories)
		return nil
	}
	table := make([][]int64, len(index))
	for i := range table {
		table[i] = make([]int64, len(index))
	}
	for i := range first {
		table[first[i]][second[i]]++
	}
	return table
}

// label is what tells a category from others: 1 and 1.0 are one, "1" is another.
func label(v jsontext.Value) (key string, ok bool) {
	switch v.Kind() {
	case '"':
		var text string
		err := json.Unmarshal(v, &text)
		return "s" + text, err == nil
	case '0':
		var x float64
		err := json.Unmarshal(v, &x)
		return "n" + strconv.FormatFloat(x, 'g', -1, 64), err == nil
	}
	return "", false
}

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
	return done(len(p), func() any {
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
	return done(len(p), func() any {
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
	return done(len(r.P), func() any {
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
	return done(len(p)+bins, func() any {
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
	return done(tailCost, func() any { return tostReplied(stats.TOSTOneSample(m, mu, sd, n, low, high)) })
}

func (r *tostRequest) welch(c *checker) plan {
	a := stats.Sample{Mean: c.number("/m1", r.M1), SD: c.within("/sd1", r.SD1, 0, math.MaxFloat64), N: c.capped("/n1", r.N1, 0, stats.MaxCount)}
	b := stats.Sample{Mean: c.number("/m2", r.M2), SD: c.within("/sd2", r.SD2, 0, math.MaxFloat64), N: c.capped("/n2", r.N2, 0, stats.MaxCount)}
	low, high := r.bounds(c)
	return done(tailCost, func() any { return tostReplied(stats.TOSTWelch(a, b, low, high)) })
}

func (r *tostRequest) paired(c *checker) plan {
	if len(r.X) != len(r.Y) {
		c.bad("/y", "want %d values, as many as in x", len(r.X))
	}
	if len(r.X) > stats.MaxCount {
		c.note(TooLarge, "/x", "the limit is %d values", stats.MaxCount)
	}
	eps := c.between("/eps", r.Eps, 0, math.Inf(1))
	return done(len(r.X), func() any {
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
	return done(tailCost, func() any {
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
	return done(len(alternatives)*tailCost, func() any {
		power, ok := stats.BinomialTOSTPower(n, low, high, alpha, alternatives)
		return struct {
			Power *[]float64 `json:"power"`
			unknown
		}{known(power, ok), because(ok, noTrials)}
	})
}

// tailCost is what an exact tail of a large count costs.
const tailCost = 1000

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
		return done(tailCost, func() any {
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
	return done(tailCost, func() any {
		n, ok := d.N(want)
		return sizeReply{known(n, ok), because(ok, outOfRange)}
	})
}

func (r *powerRequest) precision(c *checker) plan {
	discordance, alpha := r.shared(c)
	width := c.between("/half_width", r.HalfWidth, 0, 1)
	return done(tailCost, func() any {
		n, ok := stats.PrecisionN(discordance, width, alpha)
		return sizeReply{known(n, ok), because(ok, outOfRange)}
	})
}
