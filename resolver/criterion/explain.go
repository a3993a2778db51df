package criterion

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// maxListed is how many conflicts an explanation lists, and samples of each.
const maxListed = 16

// Explanation is a Result in terms of the criterion and the samples. Times are
// UTC, durations seconds; null is what does not exist or is not bounded.
type Explanation struct {
	Outcome string              `json:"outcome"` // true, false, unknown
	Reason  *string             `json:"reason"`  // of unknown
	Combine string              `json:"combine"` // all, any
	Clauses []ClauseExplanation `json:"clauses"`
}

// ClauseExplanation explains one clause or, without a Baseline of its own, the
// baseline over its series.
type ClauseExplanation struct {
	Signal     string            `json:"signal"`
	Source     *string           `json:"source"` // null: the registry does not have the signal
	Labels     map[string]string `json:"labels"`
	Reduce     Reducer           `json:"reduce"`
	Quantile   *float64          `json:"q"`
	Op         Op                `json:"op"`
	Value      float64           `json:"value"`
	HoldFor    *float64          `json:"hold_for_seconds"`
	MinSamples int64             `json:"min_samples"`
	Window     *Interval         `json:"window"` // null: it cannot be placed

	Outcome     string             `json:"outcome"`
	Reason      *string            `json:"reason"`
	DecidedBy   string             `json:"decided_by"` // witness, coverage, nothing
	Range       *Bounds            `json:"range"`      // of the reducer, or of the longest run in seconds; null: nothing was evaluated
	Samples     int                `json:"samples"`
	Coverage    *CoverageReached   `json:"coverage"`
	Gap         *GapReached        `json:"longest_gap"`
	Witness     *SampleName        `json:"witness"`
	Skew        []SkewedOutcome    `json:"skew"`        // the edges, moved by the skew, that give another outcome
	Conflicts   [][]SampleName     `json:"conflicts"`   // samples of one identity and different contents; the first 16 of each
	Conflicting int                `json:"conflicting"` // how many identities there are
	Unproven    bool               `json:"unproven"`    // the window alone would have passed
	Baseline    *ClauseExplanation `json:"baseline"`
}

// Interval is a half-open interval of time.
type Interval struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Bounds are those of a Range.
type Bounds struct {
	Lo *float64 `json:"lo"` // null: not bounded
	Hi *float64 `json:"hi"`
}

// CoverageReached compares coverage with what is asked.
type CoverageReached struct {
	Occupied int64   `json:"occupied"`
	Cells    int64   `json:"cells"`
	Interval float64 `json:"interval_seconds"`
	Ratio    float64 `json:"ratio"`
	Min      float64 `json:"min"`
}

// GapReached compares the longest silence with what is allowed.
type GapReached struct {
	Seconds float64   `json:"seconds"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Max     float64   `json:"max_seconds"`
}

// SampleName is a sample with its identity.
type SampleName struct {
	Time   time.Time `json:"time"`
	Value  *float64  `json:"value"` // null: NaN or infinite
	Source string    `json:"source"`
	Stream string    `json:"stream"`
	Seq    uint64    `json:"seq"`
}

// SkewedOutcome is a Variant.
type SkewedOutcome struct {
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Outcome string    `json:"outcome"`
}

// Explain explains what Evaluate made of the input.
func Explain(in Input, res Result) Explanation {
	out := Explanation{Outcome: res.Outcome.String(), Reason: wire(res.Reason), Combine: "all"}
	if len(in.Criterion.Any) > 0 {
		out.Combine = "any"
	}
	for i, clause := range in.Criterion.Clauses() {
		cr := res.Clauses[i]
		e := explain(in, clause, in.Window, cr)
		if cr.Baseline != nil {
			base := explain(in, in.Criterion.Baseline.on(clause), in.Baseline, *cr.Baseline)
			e.Baseline = &base
		}
		out.Clauses = append(out.Clauses, e)
	}
	return out
}

func explain(in Input, clause Clause, span Span, cr ClauseResult) ClauseExplanation {
	e := ClauseExplanation{
		Signal: clause.Signal, Labels: clause.Labels, Reduce: clause.Reduce, Op: clause.Op, Value: clause.Value, MinSamples: clause.MinSamples,
		Outcome: cr.Outcome.String(), Reason: wire(cr.Reason), DecidedBy: "nothing", Samples: cr.Count, Unproven: cr.Unproven,
		Skew: []SkewedOutcome{}, Conflicts: [][]SampleName{}, Conflicting: len(cr.Conflicts),
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	if clause.Reduce == ReduceQuantile {
		e.Quantile = &clause.Quantile
	}
	if clause.HoldFor > 0 {
		seconds := clause.HoldFor.Seconds()
		e.HoldFor = &seconds
	}
	if !span.IsZero() {
		e.Window = &Interval{span.Start, span.End}
	}
	lim, ok := LimitsOf(in.Criterion, clause, in.Registry)
	if ok {
		e.Source = &lim.Signal.Source
	}
	if cr.Seen.Cells > 0 {
		e.Range = &Bounds{finite(cr.Range.Lo), finite(cr.Range.Hi)}
		e.Coverage = &CoverageReached{cr.Seen.Occupied, cr.Seen.Cells, lim.Interval.Seconds(), cr.Seen.Ratio, lim.Min}
		e.Gap = &GapReached{cr.Seen.MaxGap.Seconds(), cr.Seen.Gap.Start, cr.Seen.Gap.End, lim.MaxGap.Seconds()}
	}
	switch {
	case cr.Witness >= 0:
		w := nameSample(&in.Samples[cr.Witness])
		e.Witness, e.DecidedBy = &w, "witness"
	case cr.Outcome != Unknown:
		e.DecidedBy = "coverage"
	}
	for _, v := range cr.Disagreed {
		e.Skew = append(e.Skew, SkewedOutcome{v.Span.Start, v.Span.End, v.Outcome.String()})
	}
	for _, group := range cr.Conflicts[:min(len(cr.Conflicts), maxListed)] {
		var names []SampleName
		for _, i := range group[:min(len(group), maxListed)] {
			names = append(names, nameSample(&in.Samples[i]))
		}
		e.Conflicts = append(e.Conflicts, names)
	}
	return e
}

func wire(r Reason) *string {
	if r == NoReason {
		return nil
	}
	s := r.String()
	return &s
}

func finite(f float64) *float64 {
	if !isFinite(f) {
		return nil
	}
	return &f
}

func nameSample(s *Sample) SampleName {
	return SampleName{s.Time, finite(s.Value), s.Source, s.Stream, s.Seq}
}

// WriteText writes the explanation for people.
func (e Explanation) WriteText(w io.Writer) {
	for i, c := range e.Clauses {
		fmt.Fprintf(w, "/%s/%d  ", e.Combine, i)
		c.write(w, "")
		if c.Baseline != nil {
			fmt.Fprint(w, "  baseline  ")
			c.Baseline.write(w, "  ")
		}
	}
}

func (c *ClauseExplanation) write(w io.Writer, indent string) {
	fmt.Fprintf(w, "%s: %s\n", c.test(), c.verdict())
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s  %-12s%s\n", indent, name, fmt.Sprintf(format, args...))
	}
	if c.Window == nil {
		line("window", "it cannot be placed: there is no action")
		return
	}
	line("window", "from %s to %s", stamp(c.Window.Start), stamp(c.Window.End))
	if c.Range == nil {
		return
	}
	unit := ""
	if c.HoldFor != nil {
		unit = " s, the longest run"
	}
	line("range", "%s%s", c.Range, unit)
	least := ""
	if c.MinSamples > 0 {
		least = fmt.Sprintf(", at least %d to show an absence", c.MinSamples)
	}
	line("samples", "%d%s", c.Samples, least)
	line("coverage", "%d of %d cells of %v: %.4g, at least %g", c.Coverage.Occupied, c.Coverage.Cells, seconds(c.Coverage.Interval), c.Coverage.Ratio, c.Coverage.Min)
	line("longest gap", "%v from %s to %s, at most %v", seconds(c.Gap.Seconds), stamp(c.Gap.Start), stamp(c.Gap.End), seconds(c.Gap.Max))
	if c.Witness != nil {
		line("witness", "%s", c.Witness)
	}
	for _, s := range c.Skew {
		line("skew", "from %s to %s it is %s", stamp(s.Start), stamp(s.End), s.Outcome)
	}
	for _, group := range c.Conflicts {
		var names []string
		for i := range group {
			names = append(names, group[i].String())
		}
		line("conflict", "%s", strings.Join(names, " and "))
	}
	if more := c.Conflicting - len(c.Conflicts); more > 0 {
		line("conflict", "and %d more", more)
	}
}

// test is the clause as a person would write it.
func (c *ClauseExplanation) test() string {
	var b strings.Builder
	b.WriteString(c.Signal)
	if len(c.Labels) > 0 {
		b.Write(AppendLabels(nil, c.Labels))
	}
	fmt.Fprintf(&b, " %s", c.Reduce)
	if c.Quantile != nil {
		fmt.Fprintf(&b, " %g", *c.Quantile)
	}
	fmt.Fprintf(&b, " %s %g", c.Op, c.Value)
	if c.HoldFor != nil {
		fmt.Fprintf(&b, " held for %v", seconds(*c.HoldFor))
	}
	return b.String()
}

func (c *ClauseExplanation) verdict() string {
	s := c.Outcome
	if c.Reason != nil {
		s += " (" + *c.Reason + ")"
	}
	switch {
	case c.Unproven:
		s += ": the window passes, and the baseline does not show that the sensor sees the symptom"
	case c.DecidedBy != "nothing":
		s += ", by " + c.DecidedBy
	}
	return s
}

// String is [lo, hi], a bound that there is not written as an infinity.
func (b *Bounds) String() string {
	lo, hi := math.Inf(-1), math.Inf(1)
	if b.Lo != nil {
		lo = *b.Lo
	}
	if b.Hi != nil {
		hi = *b.Hi
	}
	return fmt.Sprintf("[%g, %g]", lo, hi)
}

// String gives value, time and identity.
func (s *SampleName) String() string {
	value := "no number"
	if s.Value != nil {
		value = fmt.Sprintf("%g", *s.Value)
	}
	return fmt.Sprintf("%s at %s (%s %s %d)", value, stamp(s.Time), s.Source, s.Stream, s.Seq)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
