package metric

import (
	"cmp"
	"fmt"
	"slices"

	"assay/projector/view"
)

const (
	// EnoughEdges is how many edges of a census must be decided before it says
	// anything of the graph.
	EnoughEdges = 20
	// MaxNonCausal is the share of edges that are no causal claims above which the
	// graph is a mixed store of relations, and causal recall the wrong metric for it
	// (C9).
	MaxNonCausal = 0.2
	// Raters is how many must have labelled an edge, each blind to the other.
	Raters = 2
)

// CausalClaim is the relation kind of an edge that states a cause.
const CausalClaim = "causal_claim"

var graphMetrics = []Metric{
	{
		Name:        "graph_validity",
		Question:    "How many edges of the causal graph are causal claims by their source?",
		Numerator:   "of those, edges that the raters call causal claims",
		Denominator: "edges of the latest census that is far enough of which two blind raters say whether they are causal claims, and do not differ",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; labels that were not blind; edges that nobody labelled yet",
		Missing:    fmt.Sprintf("%s: edges that fewer than two raters decided, or that they differ on. Not available under %d edges", leftOut, EnoughEdges),
		Source:     "C9 Edge semantics census",
		count: func(p *pass) error {
			c, err := p.census(p.namespace)
			if err != nil {
				return err
			}
			p.withheld = c.why()
			for _, e := range c.edges {
				it, ok, err := p.labelItem(e.labelled, "", e.by)
				switch {
				case !ok:
				case e.excluded != "":
					err = it.exclude(e.excluded)
				default:
					err = it.putIf(e.causal)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name:        "causal_recall",
		Question:    "How many of the withheld causes does the production graph give back?",
		Numerator:   "of those, cases that came out a hit",
		Denominator: "cases of the control condition C0, whatever came of them",
		Groups:      "condition and variant", OfCauses: true,
		Kind: Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C9 The control matrix, C0; Edge semantics census",
		count:  func(p *pass) error { return p.controls("C0") },
	},
}

// judgedEdge is an edge of a census with what its raters make of it.
type judgedEdge struct {
	*labelled
	causal   bool
	excluded string      // why it decides nothing; else empty
	by       *view.Label // the first that counts; where none does, the first
}

// census is a sample of the graph's edges as far as it is labelled.
type census struct {
	sample          *view.Audit // nil without one
	drawn           int
	edges           []judgedEdge // those with a label
	decided, causal int64
}

// mixed says why causal recall is the wrong metric; "" where it is not known to be. A
// bench is run against the graph of production.
func (p *pass) mixed() (string, error) {
	namespace := p.namespace
	if isBench(namespace) {
		namespace = DefaultNamespace
	}
	c, err := p.census(namespace)
	return c.mixed(), err
}

// census is the latest one of a namespace of which enough edges are decided; without
// such a one the latest.
func (p *pass) census(namespace string) (c census, err error) {
	var samples []*view.Audit
	err = view.ListAudits(p.state, namespace, func(a *view.Audit) error {
		if a.Sampled.Namespace == namespace && SetOf(a.Sampled) == SetEdges { // not imported
			samples = append(samples, a)
		}
		return nil
	})
	if err != nil || len(samples) == 0 {
		return census{}, err
	}
	edges := map[string]*labelled{}
	q := p.quiet()
	if q.namespace != namespace {
		q.namespace, q.common = namespace, &shared{} // what is shared is of one namespace
	}
	err = q.labelled(func(l *labelled) error {
		if l.Kind == view.LabelEdge {
			edges[l.ID] = l
		}
		return nil
	})
	if err != nil {
		return census{}, err
	}
	slices.SortFunc(samples, func(a, b *view.Audit) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, s := range samples {
		if c = censusOf(s, edges); c.decided >= EnoughEdges {
			return c, nil
		}
	}
	return censusOf(samples[0], edges), nil
}

func censusOf(a *view.Audit, edges map[string]*labelled) census {
	c := census{sample: a}
	for _, st := range a.Sampled.Strata {
		for _, drawn := range st.Cases {
			c.drawn++
			l := edges[drawn.ID]
			if l == nil {
				continue
			}
			e := judgedEdge{labelled: l, by: firstJudgement(l.Labels)}
			e.causal, e.excluded = JudgeEdge(l.Labels)
			c.edges = append(c.edges, e)
			if e.excluded == "" {
				c.decided++
				if e.causal {
					c.causal++
				}
			}
		}
	}
	return c
}

// JudgeEdge asks whether two raters who judged blindly call an edge a causal claim;
// excluded says why they decide nothing, else it is empty. Whoever labelled it outside
// of a sample is none of them.
func JudgeEdge(labels []view.Label) (causal bool, excluded string) {
	raters, seen := map[string]bool{}, false
	for i := range labels {
		l := &labels[i]
		switch {
		case !judges(l):
		case !l.Blind:
			seen = true
		default:
			is := *l.Edge.RelationKind == CausalClaim
			if len(raters) > 0 && is != causal {
				excluded = unknown + "relation"
			}
			causal = is
			raters[l.Rater] = true
		}
	}
	switch {
	case len(raters) < Raters && seen:
		excluded = "not blind"
	case len(raters) < Raters:
		excluded = unknown + "relation"
	}
	return causal, excluded
}

// judges says whether a label tells the relation of an edge that a sample drew.
func judges(l *view.Label) bool {
	return l.Edge != nil && l.Edge.RelationKind != nil && l.DrawnStratum != ""
}

// firstJudgement is the first label that was blind and judges; where none is, the first.
func firstJudgement(labels []view.Label) (by *view.Label) {
	counts := func(l *view.Label) bool { return l.Blind && judges(l) }
	for i := range labels {
		l := &labels[i]
		if by == nil || counts(l) && !counts(by) || counts(l) == counts(by) && l.Seq < by.Seq {
			by = l
		}
	}
	return by
}

// why says why a census gives no figure; "" if it does.
func (c census) why() string {
	switch {
	case c.sample == nil:
		return "no census of the graph was sampled"
	case c.decided < EnoughEdges:
		return fmt.Sprintf("two raters decide %d of the %d edges of the census of %s, of at least %d", c.decided, c.drawn, c.sample.Sampled.Week, EnoughEdges)
	}
	return ""
}

// mixed says that too many edges are no causal claims; "" where that is not known.
func (c census) mixed() string {
	if c.why() != "" {
		return ""
	}
	if other := c.decided - c.causal; float64(other)/float64(c.decided) > MaxNonCausal {
		return fmt.Sprintf("withheld: %d of %d edges of the census of %s are no causal claims, over %g: the graph is a mixed store of relations",
			other, c.decided, c.sample.Sampled.Week, MaxNonCausal)
	}
	return ""
}
