package metric_test

import (
	"fmt"
	"strings"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// census samples edges e1 to e<n> of a week that is over, and labels them in two records each:
// the first ones as something other than a causal claim.
func (b book) census(week string, n, other int) (sample uint64) {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-e%d", week, i+1))
	}
	sample = b.sampled(week, ids...)
	for i, id := range ids {
		kind := metric.CausalClaim
		if i < other {
			kind = "correlation"
		}
		for _, rater := range []string{"r1", "r2"} {
			b.relation(sample, id, rater, kind)
		}
	}
	return sample
}

// sampled closes a week, and samples these edges of it.
func (b book) sampled(week string, ids ...string) (sample uint64) {
	st := events.AuditStratum{Stratum: "edge", Population: 1000, Wanted: 100}
	for _, id := range ids {
		st.Cases = append(st.Cases, events.AuditCase{Kind: "edge", ID: id, Seq: 1})
	}
	b.Put("logger/main", prod, &events.WeekClosed{Week: week, Zone: "UTC", Start: events.FormatTime(b.Now()), End: events.FormatTime(b.Now())})
	return uint64(b.Put(operator, prod, &events.AuditSampled{
		Week: week, Namespace: prod, Set: ptr(metric.SetEdges), Method: metric.SampleMethod, Strata: []events.AuditStratum{st},
	}))
}

func (b book) relation(sample uint64, id, rater, kind string, change ...func(*events.AuditLabelled)) {
	b.audit("edge", id, rater, func(d *events.AuditLabelled) {
		d.SampleSeq, d.Edge = &sample, &events.EdgeLabel{RelationKind: &kind}
		for _, c := range change {
			c(d)
		}
	})
}

func (b book) control(condition, id, outcome string) {
	b.Put(harness, bench, &events.ControlRecorded{RunID: "run", Condition: condition, CaseID: id, Tag: "direct", Outcome: outcome})
}

// recalled is a graph of which half of what was withheld comes back.
func (b book) recalled() {
	b.control("C0", "c1", "hit")
	b.control("C0", "c2", "miss")
	b.control("C1", "c1", "hit")
}

var graphByHand = []byHand{
	{
		// Of 25 edges 4 are correlations by both raters' word. Of those that were drawn
		// besides, e26 has one rater, of e27 two who differ, of e28 one who was not blind;
		// what r2 calls e29 outside of the sample does not count, and e30 has no label.
		metric: "graph_validity",
		build: func(b book) {
			var ids []string
			for i := range 30 {
				ids = append(ids, fmt.Sprint("e", i+1))
			}
			s := b.sampled("2026-W40", ids...)
			for i := range 25 {
				for _, rater := range []string{"r1", "r2"} {
					kind := metric.CausalClaim
					if i < 4 {
						kind = map[string]string{"r1": "correlation", "r2": "dependency"}[rater] // neither is one
					}
					b.relation(s, fmt.Sprint("e", i+1), rater, kind)
				}
			}
			b.relation(s, "e26", "r1", metric.CausalClaim)
			b.relation(s, "e27", "r1", metric.CausalClaim)
			b.relation(s, "e27", "r2", "part_of")
			b.relation(s, "e28", "r1", metric.CausalClaim)
			b.relation(s, "e28", "r2", metric.CausalClaim, func(d *events.AuditLabelled) { d.Blind = false })
			b.relation(s, "e29", "r1", metric.CausalClaim)
			b.relation(s, "e29", "r2", metric.CausalClaim, func(d *events.AuditLabelled) { d.SampleSeq = nil })
		},
		want: "0.84 (21/25) not blind 1 unknown relation 3",
	},
	{
		// A sample from before the week's end counts for nothing, and neither does what is
		// said of it: its seed was not known.
		metric: "graph_validity", name: "sampled too early",
		build: func(b book) {
			early := uint64(b.Put(operator, prod, &events.AuditSampled{
				Week: "2026-W40", Namespace: prod, Set: ptr(metric.SetEdges), Method: metric.SampleMethod,
				Strata: []events.AuditStratum{{Stratum: "edge", Cases: []events.AuditCase{{Kind: "edge", ID: "e", Seq: 1}}}},
			}))
			b.relation(early, "e", "r1", "correlation")
			b.relation(early, "e", "r2", "correlation")
			b.census("2026-W40", metric.EnoughEdges, 5)
		},
		want: "0.75 (15/20)",
	},
	{
		metric: "graph_validity", name: "too few",
		build: func(b book) { b.census("2026-W40", metric.EnoughEdges-1, 0) },
		want:  "null (19/19)",
	},
	{
		metric: "graph_validity", name: "the latest that is far enough",
		build: func(b book) {
			b.census("2026-W40", 20, 10)
			b.census("2026-W41", 40, 10)
			b.census("2026-W42", 3, 3)
		},
		want: "0.75 (30/40)",
	},
	{
		// e1 counts from r2's word, which is the first; e2 from r1's, for r0's was not blind,
		// and e3, that nothing decides, from r2's.
		metric: "graph_validity", name: "by the first label that counts",
		build: func(b book) {
			s := b.sampled("2026-W40", "e1", "e2", "e3") // 1
			unblind := func(d *events.AuditLabelled) { d.Blind = false }
			b.relation(s, "e1", "r2", metric.CausalClaim)
			b.relation(s, "e1", "r1", metric.CausalClaim)
			b.relation(s, "e2", "r0", "part_of", unblind) // 4
			b.relation(s, "e2", "r1", "part_of")
			b.relation(s, "e2", "r2", "part_of")
			b.relation(s, "e3", "r2", metric.CausalClaim, unblind) // 7
			b.relation(s, "e3", "r1", metric.CausalClaim, unblind)
		},
		want: "null (1/2) not blind 1", rows: "3d e1, 3n e1, 6d e2, 8e e3",
	},
	{metric: "graph_validity", name: "no census", build: func(b book) { b.audit("edge", "e", "r1", func(*events.AuditLabelled) {}) }, want: "null (0/0)"},
	{metric: "causal_recall", build: book.recalled, want: "0.5 (1/2)", groups: "C0 0.5 (1/2)"},
	{
		// Five of 25 are exactly the fifth that may be something else.
		metric: "causal_recall", name: "a fifth", want: "0.5 (1/2)",
		build: func(b book) { b.census("2026-W40", 25, 5); b.recalled() },
	},
	{
		metric: "causal_recall", name: "more than a fifth", want: "null (1/2)", groups: "C0 null (1/2)",
		build: func(b book) { b.census("2026-W40", 25, 6); b.recalled() },
	},
	{
		// All of 19 are correlations, and 19 say nothing yet.
		metric: "causal_recall", name: "too few edges", want: "0.5 (1/2)",
		build: func(b book) { b.census("2026-W40", 19, 19); b.recalled() },
	},
}

// TestWithheld: where the census finds a mixed store, what takes its edges for causes
// has no value and says why, also of a bench; nothing else is touched.
func TestWithheld(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	b.recalled()
	b.census("2026-W40", 20, 5)
	const why = "withheld: 5 of 20 edges of the census of 2026-W40 are no causal claims, over 0.2: the graph is a mixed store of relations"
	fold(t, l, func(st *projector.State) {
		for _, ns := range []string{prod, bench} {
			for _, m := range metric.Catalogue() {
				e, err := metric.Explain(st, m.Name, ns, metric.Options{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if m.OfCauses != (e.Why == why) || m.OfCauses && (e.Value != nil || e.Low != nil || e.High != nil) {
					t.Errorf("%s of %s: %v, %q", m.Name, ns, e.Value, e.Why)
				}
			}
		}
		// Together they are what each is alone, whichever asks for the labels first.
		for _, names := range [][]string{nil, {"causal_recall", "graph_validity", "unsupported_commitments"}, {"unsupported_commitments", "graph_validity", "causal_recall"}} {
			values, err := metric.Values(st, bench, metric.Options{}, names...)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				if alone, err := metric.Explain(st, v.Metric, bench, metric.Options{}, nil); err != nil || v.Why != alone.Why || line(v.Number) != line(alone.Number) {
					t.Errorf("%s together %s %q, alone %s %q, %v", v.Metric, line(v.Number), v.Why, line(alone.Number), alone.Why, err)
				}
			}
		}
		// Another namespace has no census.
		if e, err := metric.Explain(st, "causal_recall", "shadow", metric.Options{}, nil); err != nil || e.Why != "" || e.Value == nil {
			t.Errorf("%+v, %v", e, err)
		}
		if e, _ := explain(t, st, "control_passes", metric.Options{}); e.Value == nil {
			t.Errorf("the controls C1 to C3: %+v", e)
		}
		if e, _ := explain(t, st, "graph_validity", metric.Options{}); e.Low == nil || e.Why != "" {
			t.Errorf("%+v", e)
		}
	})
	few := ledgertest.New()
	book{few}.census("2026-W40", 3, 0)
	fold(t, few, func(st *projector.State) {
		e, _ := explain(t, st, "graph_validity", metric.Options{})
		if !strings.HasPrefix(e.Why, "two raters decide 3 of the 3 edges of the census of 2026-W40") || e.Low != nil {
			t.Errorf("%+v", e)
		}
	})
}
