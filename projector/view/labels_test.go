package view_test

import (
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func listedLabels(t *testing.T, s *projector.State, ns string) (out []string) {
	t.Helper()
	if err := view.ListLabels(s, ns, func(l *view.Label) error {
		out = append(out, fmt.Sprintf("%s %s by %s: stratum %q orphan %q repeats %d", l.Kind, l.ID, l.Rater, l.DrawnStratum, l.Orphan, l.Repeats))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLabelsBelong: a label counts where the thing was recorded, or drawn, and in a
// stratum only if the sample that it names drew it.
func TestLabelsBelong(t *testing.T) {
	l := ledgertest.New()
	l.Put(detector, "sandbox", opportunity("only"))
	l.Put(detector, "sandbox", opportunity("both"))
	l.Put(detector, prod, opportunity("both"))
	l.Put(detector, "sandbox", opportunity("two"))
	inCanary := l.NextID()
	l.Put(detector, "canary", opportunity("two"))
	l.Put(piper, "sandbox", claim("c", "asserted"))
	l.Put("logger/main", prod, &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: "2026-09-28T00:00:00Z", End: "2026-10-05T00:00:00Z"})
	sample := l.Put(operator, prod, &events.AuditSampled{Week: "2026-W40", Namespace: "sandbox", Method: "audit/2", Strata: []events.AuditStratum{
		{Stratum: "apparent_success", Cases: []events.AuditCase{{Kind: "claim", ID: "c"}}},
		{Stratum: "detector_negative", Cases: []events.AuditCase{{Kind: "turn", ID: "t1"}}},
	}})
	label := func(d events.OpportunityLabelled, opts ...ledgertest.Option) ledger.Seq {
		d.RubricVersion = "1"
		return l.Put(operator, prod, &d, opts...)
	}
	drawn := uint64(sample)
	label(events.OpportunityLabelled{Kind: "opportunity", ID: "only", Rater: "ann", Eligible: ptr(true)})
	label(events.OpportunityLabelled{Kind: "opportunity", ID: "only", Rater: "ann", Eligible: ptr(false)}) // the first counts
	label(events.OpportunityLabelled{Kind: "opportunity", ID: "both", Rater: "ann"})
	label(events.OpportunityLabelled{Kind: "opportunity", ID: "two", Rater: "ann"}) // which?
	label(events.OpportunityLabelled{Kind: "opportunity", ID: "two", Rater: "bob"}, ledgertest.CausedBy(inCanary))
	label(events.OpportunityLabelled{Kind: "opportunity", ID: "none", Rater: "ann"})
	label(events.OpportunityLabelled{Kind: "turn", ID: "t1", Rater: "ann", SampleSeq: &drawn})
	label(events.OpportunityLabelled{Kind: "turn", ID: "t2", Rater: "ann", SampleSeq: &drawn}) // was not drawn
	label(events.OpportunityLabelled{Kind: "turn", ID: "t1", Rater: "bob"})
	l.Put(operator, prod, &events.AuditLabelled{Kind: "claim", ID: "c", Rater: "bob", RubricVersion: "1", SampleSeq: &drawn, CommitmentSupported: ptr(false)})
	l.Put(operator, prod, &events.AuditLabelled{Kind: "claim", ID: "c", Rater: "cyd", RubricVersion: "1", SampleSeq: ptr(uint64(1))}) // no sample
	own := l.Put(piper, prod, &events.AuditLabelled{Kind: "claim", ID: "c", Rater: "piper", RubricVersion: "1"})
	fold(t, l, func(s *projector.State) {
		for ns, want := range map[string][]string{
			"sandbox": {
				`claim c by bob: stratum "apparent_success" orphan "" repeats 0`,
				`claim c by cyd: stratum "" orphan "" repeats 0`,
				`opportunity only by ann: stratum "" orphan "" repeats 1`,
				`turn t1 by ann: stratum "detector_negative" orphan "" repeats 0`,
				`turn t2 by ann: stratum "" orphan "" repeats 0`,
			},
			prod: {
				`opportunity both by ann: stratum "" orphan "" repeats 0`,
				`opportunity none by ann: stratum "" orphan "unknown" repeats 0`,
				`opportunity two by ann: stratum "" orphan "ambiguous" repeats 0`,
				`turn t1 by bob: stratum "" orphan "" repeats 0`,
			},
			"canary": {`opportunity two by bob: stratum "" orphan "" repeats 0`},
		} {
			if got := listedLabels(t, s, ns); !slices.Equal(got, want) {
				t.Errorf("%s: %q\nwant %q", ns, got, want)
			}
		}
		got := must[[]view.Label](t)(view.LabelsOf(s, "sandbox", "opportunity", "only"))
		if len(got) != 1 || !*got[0].Eligible || got[0].CommitmentSupported != nil {
			t.Errorf("%+v", got)
		}
		if p := parked(t, s); !slices.Equal(p, []string{fmt.Sprintf("labels/%d", own)}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestRatersAreJoined: what two raters say of one thing under one rubric stands
// together, and nothing else with it.
func TestRatersAreJoined(t *testing.T) {
	l := ledgertest.New()
	for _, id := range []string{"a", "b"} {
		l.Put(piper, prod, conflict(id, "l"+id, "r"))
	}
	label := func(id, rater, rubric string, valid *bool) {
		l.Put(operator, prod, &events.AuditLabelled{Kind: "contradiction", ID: id, Rater: rater, RubricVersion: rubric, ContradictionValid: valid})
	}
	label("b", "bob", "1", ptr(true))
	label("a", "bob", "1", ptr(true))
	label("a", "ann", "1", ptr(false))
	label("a", "ann", "2", nil)
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListLabelled(s, prod, func(c *view.LabelledCase) error {
			text := fmt.Sprintf("%s/%s:", c.ID, c.RubricVersion)
			for _, l := range c.Labels {
				text += " " + l.Rater
				if l.ContradictionValid != nil {
					text += fmt.Sprint("=", *l.ContradictionValid)
				}
			}
			got = append(got, text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"a/1: ann=false bob=true", "a/2: ann", "b/1: bob=true"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestContradictionValidity: raters decide whether a conflict is genuine, unless
// they differ or have a part in it.
func TestContradictionValidity(t *testing.T) {
	yes, no := ptr(true), ptr(false)
	type said struct {
		who, rater string
		valid      *bool
	}
	for _, tt := range []struct {
		name string
		said []said
		want string
	}{
		{"nobody looked", nil, "? 0 0"},
		{"genuine", []said{{"operator/a", "a", yes}, {"operator/b", "b", yes}}, "true 2 0"},
		{"not genuine", []said{{"operator/a", "a", no}}, "false 0 1"},
		{"they differ", []said{{"operator/a", "a", yes}, {"operator/b", "b", no}}, "? 1 1"},
		{"who could not tell", []said{{"operator/a", "a", nil}}, "? 0 0"},
		{"who detected it", []said{{operator, "op", yes}}, "? 0 0"},
		{"who closed it", []said{{"operator/closer", "c", yes}, {"operator/a", "a", no}}, "false 0 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(operator, prod, conflict("c", "l", "r"))
			l.Put("operator/closer", prod, resolves("c", "left_holds", "e"))
			for _, v := range tt.said {
				l.Put(v.who, prod, &events.AuditLabelled{Kind: "contradiction", ID: "c", Rater: v.rater, RubricVersion: "1", ContradictionValid: v.valid})
			}
			fold(t, l, func(s *projector.State) {
				c := must[[]view.FoundContradiction](t)(view.FindContradiction(s, "c"))[0]
				valid := "?"
				if c.Valid != nil {
					valid = fmt.Sprint(*c.Valid)
				}
				if got := fmt.Sprint(valid, " ", c.LabelledValid, " ", c.LabelledInvalid); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
}
