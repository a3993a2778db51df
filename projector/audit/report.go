package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/events"
	"assay/internal/stats"
	"assay/ledger"
	"assay/projector/metric"
	"assay/projector/view"
)

// EnoughCases is how many cases an agreement or a share takes; under it neither is
// given, since its interval would say nothing.
const EnoughCases = 10

// Report is what raters say of a sample. Labels that name another sample which drew the
// same thing count: of one rater's labels of a thing under a rubric there is one.
type Report struct {
	Set       string     `json:"set"`
	Week      string     `json:"week"`
	Namespace string     `json:"namespace"`
	Seq       ledger.Seq `json:"seq"` // of the sample
	Rubric    string     `json:"rubric_version"`
	Strata    []Stratum  `json:"strata"`
	Raters    []Rater    `json:"raters"`
	Questions []Asked    `json:"questions"`
	// Disagreements are the cases on which raters who answer differ.
	Disagreements []Disagreement `json:"disagreements"`
	Census        *Census        `json:"census,omitzero"` // of the set edges
	// OtherRubrics counts labels of the sample's cases under other rubrics, which are in
	// no figure.
	OtherRubrics int64 `json:"other_rubrics"`
}

// Stratum is how far a stratum is labelled.
type Stratum struct {
	Stratum    string `json:"stratum"`
	Population int64  `json:"population"`
	Drawn      int64  `json:"drawn"`
	Labelled   int64  `json:"labelled"` // by anybody
	Twice      int64  `json:"twice"`    // by two raters or more
}

// Rater is one rater's work on the sample.
type Rater struct {
	Rater      string   `json:"rater"`
	Principals []string `json:"principals"` // who wrote the labels down
	Cases      int64    `json:"cases"`
	Blind      int64    `json:"blind"`
}

// Asked is what raters answer to one question.
type Asked struct {
	Field string `json:"field"`
	// Decided counts the cases on which all who answer agree, Split those on which they
	// differ, Unknown the labels whose rater could not tell or was not asked.
	Decided int64    `json:"decided"`
	Split   int64    `json:"split"`
	Unknown int64    `json:"unknown"`
	Answers []Answer `json:"answers"`
	Pairs   []Pair   `json:"pairs"`
}

// Answer is one answer to a question.
type Answer struct {
	Answer string           `json:"answer"`
	Labels map[string]int64 `json:"labels"` // by rater
	Cases  int64            `json:"cases"`  // decided so
	// Share is Cases ÷ Decided with its Wilson interval; null under EnoughCases.
	Share *float64 `json:"share"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// Pair is the agreement of two raters who both answer.
type Pair struct {
	Raters [2]string `json:"raters"`
	Cases  int64     `json:"cases"` // that both answer
	Agreed int64     `json:"agreed"`
	Kappa
	// Answers are the same for each answer against all others, where there are more than
	// two: which of them is the one that raters do not tell apart.
	Answers []OneAnswer `json:"answers,omitzero"`
}

// OneAnswer is the agreement of two raters on whether something is one answer.
type OneAnswer struct {
	Answer string `json:"answer"`
	Kappa
}

// Kappa is Cohen's, with its interval; null as Why says.
type Kappa struct {
	Kappa *float64 `json:"kappa"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Why   string   `json:"why,omitzero"`
}

// Disagreement is a case on which raters differ.
type Disagreement struct {
	Kind    string            `json:"kind"`
	ID      string            `json:"id"`
	Field   string            `json:"field"`
	Answers map[string]string `json:"answers"` // by rater
}

// Census is what a census says of the graph: how many edges are no causal claims. The
// metrics graph_validity and causal_recall go by the same rules.
type Census struct {
	Drawn     int64    `json:"drawn"`
	Decided   int64    `json:"decided"` // by two blind raters
	NonCausal int64    `json:"non_causal"`
	Share     *float64 `json:"share"` // null under metric.EnoughEdges
	Low       *float64 `json:"low"`
	High      *float64 `json:"high"`
	// Mixed says that the share is over metric.MaxNonCausal, so that causal recall is
	// withheld; null where Share is.
	Mixed *bool `json:"mixed"`
}

// ReportOf counts what labels say of a sample, under this build's rubric. Labels are
// those of the ledger in its order, with DrawnStratum set where a sample drew the thing;
// others count for nothing.
func ReportOf(d *events.AuditSampled, seq ledger.Seq, labels []view.Label) *Report {
	set := metric.SetOf(d)
	r := &Report{
		Set: set, Week: d.Week, Namespace: d.Namespace, Seq: seq, Rubric: Rubric,
		Raters: []Rater{}, Questions: []Asked{}, Disagreements: []Disagreement{},
	}
	byCase := r.take(set, labels)
	var cases [][]view.Label
	var kinds []string
	for _, st := range d.Strata {
		s := Stratum{Stratum: st.Stratum, Population: st.Population, Drawn: int64(len(st.Cases))}
		for _, c := range st.Cases {
			ls := byCase[[2]string{c.Kind, c.ID}]
			cases, kinds = append(cases, ls), append(kinds, c.Kind)
			if len(ls) > 0 {
				s.Labelled++
			}
			if len(ls) > 1 {
				s.Twice++
			}
		}
		r.Strata = append(r.Strata, s)
	}
	r.rate(cases)
	var fields []string
	for _, k := range kinds {
		for _, q := range QuestionsOf(set, k) {
			if !slices.Contains(fields, q.Field) {
				fields = append(fields, q.Field)
				r.ask(q, set, cases)
			}
		}
	}
	if set == metric.SetEdges {
		r.Census = censusOf(cases)
	}
	return r
}

// take are the labels that count, by case: under the rubric and of the set's type, of
// each rater the first.
func (r *Report) take(set string, labels []view.Label) map[[2]string][]view.Label {
	out := map[[2]string][]view.Label{}
	for _, l := range labels {
		k := [2]string{l.Kind, l.ID}
		switch {
		case l.Type != TypeOf(set) || l.DrawnStratum == "":
		case l.RubricVersion != r.Rubric:
			r.OtherRubrics++
		case !slices.ContainsFunc(out[k], func(o view.Label) bool { return o.Rater == l.Rater }):
			out[k] = append(out[k], l)
		}
	}
	return out
}

func (r *Report) rate(cases [][]view.Label) {
	raters := map[string]*Rater{}
	for _, ls := range cases {
		for _, l := range ls {
			v := raters[l.Rater]
			if v == nil {
				v = &Rater{Rater: l.Rater}
				raters[l.Rater] = v
			}
			v.Cases++
			if l.Blind {
				v.Blind++
			}
			if !slices.Contains(v.Principals, l.Principal) {
				v.Principals = append(v.Principals, l.Principal)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raters)) {
		slices.Sort(raters[name].Principals)
		r.Raters = append(r.Raters, *raters[name])
	}
}

// ask counts the answers to one question.
func (r *Report) ask(q Question, set string, cases [][]view.Label) {
	a := Asked{Field: q.Field, Answers: []Answer{}, Pairs: []Pair{}}
	place := map[string]int{}
	for i, o := range q.Options {
		place[o] = i
		a.Answers = append(a.Answers, Answer{Answer: o, Labels: map[string]int64{}})
	}
	tables := map[[2]string][][]int64{}
	for _, ls := range cases {
		given := map[string]string{}
		for i := range ls {
			l := &ls[i]
			if !slices.ContainsFunc(QuestionsOf(set, l.Kind), func(o Question) bool { return o.Field == q.Field }) {
				continue
			}
			v := q.Get(l)
			at, ok := place[v]
			if !ok { // unknown, or an answer that this rubric does not have
				a.Unknown++
				continue
			}
			given[l.Rater] = v
			a.Answers[at].Labels[l.Rater]++
		}
		r.settle(&a, q, ls, given, place)
		raters := slices.Sorted(maps.Keys(given))
		for i, first := range raters {
			for _, second := range raters[i+1:] {
				t := tables[[2]string{first, second}]
				if t == nil {
					t = make([][]int64, len(q.Options))
					for k := range t {
						t[k] = make([]int64, len(q.Options))
					}
					tables[[2]string{first, second}] = t
				}
				t[place[given[first]]][place[given[second]]]++
			}
		}
	}
	for i := range a.Answers {
		v := &a.Answers[i]
		v.Share, v.Low, v.High = share(v.Cases, a.Decided, EnoughCases)
	}
	for _, k := range slices.SortedFunc(maps.Keys(tables), func(x, y [2]string) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }) {
		a.Pairs = append(a.Pairs, agree(k, q.Options, tables[k]))
	}
	r.Questions = append(r.Questions, a)
}

// settle says what all who answer make of a case.
func (r *Report) settle(a *Asked, q Question, ls []view.Label, given map[string]string, place map[string]int) {
	answers := slices.Compact(slices.Sorted(maps.Values(given)))
	switch len(answers) {
	case 0:
	case 1:
		a.Decided++
		a.Answers[place[answers[0]]].Cases++
	default:
		a.Split++
		r.Disagreements = append(r.Disagreements, Disagreement{ls[0].Kind, ls[0].ID, q.Field, given})
	}
}

// share is k ÷ n with its interval; nil where n is under enough.
func share(k, n, enough int64) (value, low, high *float64) {
	iv, ok := stats.Wilson(float64(k), float64(n), stats.Z95)
	if n < enough || !ok {
		return nil, nil, nil
	}
	v := float64(k) / float64(n)
	return &v, &iv.Low, &iv.High
}

func agree(raters [2]string, options []string, table [][]int64) Pair {
	p := Pair{Raters: raters}
	for i, row := range table {
		p.Agreed += row[i]
		for _, n := range row {
			p.Cases += n
		}
	}
	p.Kappa = kappaOf(p.Cases, table)
	if len(options) > 2 {
		for i, o := range options {
			p.Answers = append(p.Answers, OneAnswer{o, kappaOf(p.Cases, against(table, i))})
		}
	}
	return p
}

// against folds a table into one answer and all others.
func against(table [][]int64, one int) [][]int64 {
	out := [][]int64{{0, 0}, {0, 0}}
	for i, row := range table {
		for j, n := range row {
			x, y := 1, 1
			if i == one {
				x = 0
			}
			if j == one {
				y = 0
			}
			out[x][y] += n
		}
	}
	return out
}

func kappaOf(cases int64, table [][]int64) Kappa {
	if cases < EnoughCases {
		return Kappa{Why: fmt.Sprintf("both answer for %d cases, of at least %d", cases, EnoughCases)}
	}
	k, ok := stats.Kappa(table, stats.Z95)
	switch {
	case !ok:
		return Kappa{Why: "both give one answer throughout: chance alone would agree as often"}
	case k.Interval == nil:
		return Kappa{Kappa: &k.Kappa, Why: "the table says nothing of the spread"}
	}
	return Kappa{Kappa: &k.Kappa, Low: &k.Interval.Low, High: &k.Interval.High}
}

func censusOf(cases [][]view.Label) *Census {
	c := &Census{Drawn: int64(len(cases))}
	for _, ls := range cases {
		if len(ls) == 0 {
			continue
		}
		if causal, excluded := metric.JudgeEdge(ls); excluded == "" {
			c.Decided++
			if !causal {
				c.NonCausal++
			}
		}
	}
	c.Share, c.Low, c.High = share(c.NonCausal, c.Decided, metric.EnoughEdges)
	if c.Share != nil {
		mixed := *c.Share > metric.MaxNonCausal
		c.Mixed = &mixed
	}
	return c
}

// Text is the report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s in %s, sampled in record %d, by %s\n", r.Set, r.Week, r.Namespace, r.Seq, r.Rubric)
	for _, s := range r.Strata {
		fmt.Fprintf(&b, "  %-18s %d of %d drawn; labelled %d, by two raters %d\n", s.Stratum, s.Drawn, s.Population, s.Labelled, s.Twice)
	}
	for _, v := range r.Raters {
		fmt.Fprintf(&b, "  rater %-12s %d cases, %d of them blind, written by %s\n", v.Rater, v.Cases, v.Blind, strings.Join(v.Principals, ", "))
	}
	for _, a := range r.Questions {
		fmt.Fprintf(&b, "\n%s: decided %d, split %d, labels that could not tell %d\n", a.Field, a.Decided, a.Split, a.Unknown)
		for _, v := range a.Answers {
			fmt.Fprintf(&b, "  %-18s %d of %d %s", v.Answer, v.Cases, a.Decided, estimate(v.Share, v.Low, v.High))
			for _, who := range slices.Sorted(maps.Keys(v.Labels)) {
				fmt.Fprintf(&b, "; %s %d", who, v.Labels[who])
			}
			b.WriteByte('\n')
		}
		for _, p := range a.Pairs {
			fmt.Fprintf(&b, "  kappa of %s and %s: %s (agreed %d of %d)\n", p.Raters[0], p.Raters[1], p.Kappa, p.Agreed, p.Cases)
			for _, o := range p.Answers {
				if o.Kappa.Kappa != nil {
					fmt.Fprintf(&b, "    %-18s %s\n", o.Answer, o.Kappa)
				}
			}
		}
	}
	if c := r.Census; c != nil {
		fmt.Fprintf(&b, "\ncensus: %d of %d edges that two blind raters decide are no causal claims %s", c.NonCausal, c.Decided, estimate(c.Share, c.Low, c.High))
		switch {
		case c.Mixed == nil:
			fmt.Fprintf(&b, ": at least %d are needed\n", metric.EnoughEdges)
		case *c.Mixed:
			fmt.Fprintf(&b, ", over %g: causal recall is withheld\n", metric.MaxNonCausal)
		default:
			fmt.Fprintf(&b, ", not over %g\n", metric.MaxNonCausal)
		}
	}
	for i, d := range r.Disagreements {
		if i == 0 {
			b.WriteString("\nraters differ on\n")
		}
		fmt.Fprintf(&b, "  %s %s, %s:", d.Kind, d.ID, d.Field)
		for _, who := range slices.Sorted(maps.Keys(d.Answers)) {
			fmt.Fprintf(&b, " %s %s", who, d.Answers[who])
		}
		b.WriteByte('\n')
	}
	if r.OtherRubrics > 0 {
		fmt.Fprintf(&b, "\n%d labels under other rubrics are left out\n", r.OtherRubrics)
	}
	return b.String()
}

// String is the estimate, and what is missing of it.
func (k Kappa) String() string {
	out := estimate(k.Kappa, k.Low, k.High)
	if k.Why != "" {
		out += ": " + k.Why
	}
	return out
}

func estimate(value, low, high *float64) string {
	switch {
	case value == nil:
		return "(not available)"
	case low == nil:
		return fmt.Sprintf("(%.3g)", *value)
	}
	return fmt.Sprintf("(%.3g, 95 %% interval %.3g to %.3g)", *value, *low, *high)
}
