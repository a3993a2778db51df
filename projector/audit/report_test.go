package audit_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/audit"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

// sheet makes the labels of a sample, as a reader of the ledger finds them.
type sheet struct {
	set, kind string
	sample    *events.AuditSampled
	labels    []view.Label
}

func newSheet(set, kind string, n int) *sheet {
	st := events.AuditStratum{Stratum: metric.WantedOf(set)[0].Stratum, Population: 1000, Wanted: int64(n)}
	for i := range n {
		st.Cases = append(st.Cases, events.AuditCase{Kind: kind, ID: fmt.Sprint("x", i), Seq: 1})
	}
	return &sheet{set, kind, &events.AuditSampled{Week: "2026-W40", Namespace: prod, Set: &set, Strata: []events.AuditStratum{st}}, nil}
}

func (s *sheet) label(t *testing.T, i int, rater string, answers map[string]string, change ...func(*view.Label)) {
	t.Helper()
	l := view.Label{
		Type: audit.TypeOf(s.set), Kind: s.kind, ID: fmt.Sprint("x", i), Rater: rater, Principal: "operator/" + rater, Blind: true,
		RubricVersion: audit.Rubric, DrawnStratum: "s", Seq: ledger.Seq(len(s.labels) + 1),
	}
	if err := audit.Fill(&l, s.set, answers); err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&l)
	}
	s.labels = append(s.labels, l)
}

func (s *sheet) report() *audit.Report { return audit.ReportOf(s.sample, 7, s.labels) }

func valid(answer string) map[string]string { return map[string]string{"contradiction_valid": answer} }

// TestReportOfTwoRaters: of 50 cases both say yes to 20 and no to 15, and differ on 15:
// they agree on 0.7, chance would on 0.25 + 0.25, so that kappa is 0.4.
func TestReportOfTwoRaters(t *testing.T) {
	s := newSheet(metric.SetContradictions, "contradiction", 60)
	i := 0
	for _, row := range []struct {
		a, b string
		n    int
	}{{"yes", "yes", 20}, {"yes", "no", 5}, {"no", "yes", 10}, {"no", "no", 15}} {
		for range row.n {
			s.label(t, i, "ann", valid(row.a))
			s.label(t, i, "bob", valid(row.b))
			i++
		}
	}
	s.label(t, 50, "ann", valid("?"))
	s.label(t, 50, "bob", valid("yes"))                                                                  // alone: decides
	s.label(t, 51, "ann", valid("yes"), func(l *view.Label) { l.Blind = false })                         // alone too
	s.label(t, 52, "ann", valid("yes"), func(l *view.Label) { l.RubricVersion = "older" })               // left out
	s.label(t, 53, "ann", valid("yes"), func(l *view.Label) { l.DrawnStratum = "" })                     // was not drawn
	s.label(t, 54, "ann", valid("yes"), func(l *view.Label) { l.Type = events.TypeOpportunityLabelled }) // of another set
	s.label(t, 0, "ann", valid("no"))                                                                    // the first counts
	r := s.report()
	if r.Set != metric.SetContradictions || r.Seq != 7 || r.OtherRubrics != 1 || r.Census != nil {
		t.Errorf("%+v", r)
	}
	if got := fmt.Sprintf("%+v", r.Strata); got != "[{Stratum:contradiction Population:1000 Drawn:60 Labelled:52 Twice:51}]" {
		t.Error(got)
	}
	if got := fmt.Sprintf("%+v", r.Raters); got != "[{Rater:ann Principals:[operator/ann] Cases:52 Blind:51} {Rater:bob Principals:[operator/bob] Cases:51 Blind:51}]" {
		t.Error(got)
	}
	q := r.Questions[0]
	if q.Field != "contradiction_valid" || q.Decided != 37 || q.Split != 15 || q.Unknown != 1 || len(r.Disagreements) != 15 {
		t.Errorf("%+v, %d disagreements", q, len(r.Disagreements))
	}
	yes := q.Answers[0]
	if yes.Cases != 22 || yes.Labels["ann"] != 26 || yes.Labels["bob"] != 31 || yes.Share == nil || math.Abs(*yes.Share-22.0/37) > 1e-15 || !(*yes.Low < *yes.Share && *yes.Share < *yes.High) {
		t.Errorf("%+v", yes)
	}
	if len(q.Pairs) != 1 {
		t.Fatalf("%+v", q.Pairs)
	}
	p := q.Pairs[0]
	if p.Raters != [2]string{"ann", "bob"} || p.Cases != 50 || p.Agreed != 35 || p.Kappa.Kappa == nil || math.Abs(*p.Kappa.Kappa-0.4) > 1e-12 || !(*p.Low < 0.4 && 0.4 < *p.High) {
		t.Errorf("%+v", p)
	}
	d := r.Disagreements[0]
	if d.Kind != "contradiction" || d.ID != "x20" || d.Field != "contradiction_valid" || d.Answers["ann"] != "yes" || d.Answers["bob"] != "no" {
		t.Errorf("%+v", d)
	}
	for _, want := range []string{"kappa of ann and bob: (0.4, 95 % interval 0.1", "(agreed 35 of 50)", "rater ann          52 cases, 51 of them blind", "1 labels under other rubrics", "contradiction x20, contradiction_valid: ann yes bob no"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("no %q in\n%s", want, r.Text())
		}
	}
	// Of the second question nobody said anything.
	if q := r.Questions[1]; q.Decided != 0 || q.Answers[0].Share != nil || len(q.Pairs) != 0 {
		t.Errorf("%+v", q)
	}
}

// TestKappaOfOneAnswer: both say correlation of the same 6 edges, causal claim of the same
// 8, and bob calls dependency what ann calls chronology, 3 edges each way round. Of
// correlation they agree always; of dependency on 14 of 20, chance would on
// (3·3 + 17·17) ÷ 400 = 0.745, so that kappa is (0.7 − 0.745) ÷ 0.255.
func TestKappaOfOneAnswer(t *testing.T) {
	s := newSheet(metric.SetEdges, "edge", 20)
	i := 0
	for _, row := range []struct {
		ann, bob string
		n        int
	}{{"correlation", "correlation", 6}, {metric.CausalClaim, metric.CausalClaim, 8}, {"chronology", "dependency", 3}, {"dependency", "chronology", 3}} {
		for range row.n {
			s.label(t, i, "ann", map[string]string{"edge.relation_kind": row.ann})
			s.label(t, i, "bob", map[string]string{"edge.relation_kind": row.bob})
			i++
		}
	}
	r := s.report()
	got := map[string]audit.Kappa{}
	for _, o := range r.Questions[0].Pairs[0].Answers {
		got[o.Answer] = o.Kappa
	}
	if len(got) != 6 || *got["correlation"].Kappa != 1 || got["correlation"].Low != nil || got["part_of"].Kappa != nil {
		t.Errorf("%+v", got)
	}
	if k := got["dependency"]; k.Kappa == nil || math.Abs(*k.Kappa-(0.7-0.745)/0.255) > 1e-12 || k.Low == nil {
		t.Errorf("dependency %v", k)
	}
	if text := r.Text(); !strings.Contains(text, "    dependency         (-0.176") || strings.Contains(text, "    part_of") {
		t.Error(text)
	}
	// Of two answers the one against the other is the whole.
	if p := r.Questions[3]; p.Field != "edge.keeps_source" || len(p.Pairs) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestReportOfTooLittle: what a few cases would give is not given.
func TestReportOfTooLittle(t *testing.T) {
	for _, tt := range []struct {
		name  string
		n     int
		other bool // the last case is a no of both
		why   string
		kappa bool
	}{
		{"nine cases", 9, true, "both answer for 9 cases, of at least 10", false},
		{"one answer", 10, false, "both give one answer throughout", false},
		{"perfect", 10, true, "the table says nothing of the spread", true},
	} {
		s := newSheet(metric.SetContradictions, "contradiction", 20)
		for i := range tt.n {
			a := "yes"
			if tt.other && i == tt.n-1 {
				a = "no"
			}
			s.label(t, i, "ann", valid(a))
			s.label(t, i, "bob", valid(a))
		}
		q := s.report().Questions[0]
		p := q.Pairs[0]
		if !strings.HasPrefix(p.Why, tt.why) || (p.Kappa.Kappa != nil) != tt.kappa || p.Low != nil || (q.Answers[0].Share != nil) != (tt.n >= 10) {
			t.Errorf("%s: %+v, %+v", tt.name, p, q.Answers[0])
		}
	}
}

// TestCensusAgrees: the report's census and the metrics say the same.
func TestCensusAgrees(t *testing.T) {
	for _, tt := range []struct {
		n, other int
		mixed    string // of the report
	}{{19, 19, "null"}, {20, 4, "false"}, {20, 5, "true"}, {25, 6, "true"}} {
		s := newSheet(metric.SetEdges, "edge", 30)
		l := ledgertest.New()
		closeWeek(l, s.sample.Week)
		at := uint64(l.Put(operator, prod, s.sample))
		for i := range tt.n {
			kind := metric.CausalClaim
			if i < tt.other {
				kind = "chronology"
			}
			for _, rater := range []string{"ann", "bob"} {
				s.label(t, i, rater, map[string]string{"edge.relation_kind": kind}, func(v *view.Label) { v.SampleSeq = &at })
				l.Put(operator, prod, audit.Data(s.set, &s.labels[len(s.labels)-1]))
			}
		}
		s.label(t, 29, "ann", map[string]string{"edge.relation_kind": "other"}) // nobody else labelled it
		c := s.report().Census
		mixed := "null"
		if c.Mixed != nil {
			mixed = fmt.Sprint(*c.Mixed)
		}
		if c.Drawn != 30 || c.Decided != int64(tt.n) || c.NonCausal != int64(tt.other) || mixed != tt.mixed {
			t.Errorf("%+v: %+v, mixed %s", tt, c, mixed)
		}
		inspect(t, l, 0, func(st *projector.State) {
			v, err := metric.Explain(st, "graph_validity", prod, metric.Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if *v.Denominator != c.Decided || v.Numerator != c.Decided-c.NonCausal || (v.Value == nil) != (c.Share == nil) || v.Value != nil && math.Abs(1-*v.Value-*c.Share) > 1e-15 {
				t.Errorf("graph_validity %+v, census %+v", v.Number, c)
			}
			recall, err := metric.Explain(st, "causal_recall", prod, metric.Options{}, nil)
			if err != nil || strings.HasPrefix(recall.Why, "withheld") != (tt.mixed == "true") {
				t.Errorf("causal_recall: %q, %v", recall.Why, err)
			}
		})
	}
}
