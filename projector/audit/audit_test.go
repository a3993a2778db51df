package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/events/eventstest"
	"assay/ledger"
	"assay/projector"
	"assay/projector/audit"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
	"assay/schema"
)

const (
	piper      = "agent/piper"
	dispatcher = "dispatcher/main"
	detector   = "detector/main"
	operator   = "operator/main"
	prod       = "production"
)

func ptr[T any](v T) *T { return &v }

// inspect folds a ledger up to a record, 0 is all of it.
func inspect(t *testing.T, l *ledgertest.Ledger, to ledger.Seq, fn func(*projector.State)) {
	t.Helper()
	if to == 0 {
		var err error
		if to, err = l.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := projector.Replay(t.Context(), projector.ReplayConfig{
		Source: l, Projections: view.All(), To: to, Inspect: func(s *projector.State) error { fn(s); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// closeWeek closes a week that holds all there is, and returns where.
func closeWeek(l *ledgertest.Ledger, id string) ledger.Seq {
	start := events.FormatTime(ledgertest.Start.Add(-time.Hour))
	return l.Put("logger/main", prod, &events.WeekClosed{Week: id, Zone: "UTC", Start: start, End: events.FormatTime(l.Now())})
}

// draw samples a set of the week that a record closed.
func draw(t *testing.T, l *ledgertest.Ledger, closed ledger.Seq, id, set string) (d *events.AuditSampled, cases []audit.Case) {
	t.Helper()
	inspect(t, l, closed, func(s *projector.State) {
		w, err := view.GetWeek(s, id)
		if err != nil {
			t.Fatal(err)
		}
		if d, err = metric.Sample(s, w, prod, set, metric.WantedOf(set)); err != nil {
			t.Fatal(err)
		}
		if cases, err = audit.Cases(s, d); err != nil {
			t.Fatal(err)
		}
	})
	return d, cases
}

// secret is what must not reach a rater before an answer.
const secret = "tell-tale"

// house is a ledger with a case of every kind, with secret wherever the agent or the
// detector says what a rater is asked for.
func house() *ledgertest.Ledger {
	l := ledgertest.New()
	sha := func(n int) string { return fmt.Sprintf("%064x", n) }
	l.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: "ev-1", SHA256: sha(1)})
	l.Put(piper, prod, &events.ClaimRecorded{
		ClaimID: "claim-1", Status: "asserted", RawConfidence: ptr(0.875), EvidenceIDs: []string{"ev-1", "ev-2"}, Action: ptr(secret),
		Edge: &events.Edge{Rung: "intervention", Cause: "leak", Effect: "oom"},
	})
	l.Put(operator, prod, &events.FixRechecked{ClaimID: "claim-1", Result: "confirmed", Source: "instrument", Direct: true})
	l.Put(detector, prod, &events.OpportunityDetected{OpportunityID: "opp-1", Kind: "why", Component: secret, DetectorVersion: secret})
	l.Put(detector, prod, &events.DetectorScanned{DetectorVersion: secret, Turns: 2, Positive: 1, Negative: 1, NegativeTurnIDs: []string{"turn-1"}})
	l.Put(dispatcher, prod, &events.GraphWritten{
		Op: "add", Cause: "leak", Effect: "oom", RelationKind: ptr(secret), Status: ptr(secret), SourceID: ptr("log-7"), ContraryIDs: []string{"ev-9"},
	})
	side := func(id string) events.ContradictionSide { return events.ContradictionSide{Kind: "belief", ID: id} }
	l.Put(piper, prod, &events.ContradictionDetected{ContradictionID: "con-1", Left: side("b-left"), Right: side("b-right"), Detector: ptr(secret), Score: ptr(0.5)})
	l.Put(piper, prod, &events.ContradictionScoped{ContradictionID: "con-1", LeftScope: secret, RightScope: "else"})
	l.Put(piper, prod, &events.BeliefCreated{BeliefID: "b-1", ContentSHA256: sha(2), Provenance: &events.Provenance{Lineage: &events.Lineage{Parents: []string{"b-0"}}}})
	l.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "ch-1", BeliefID: "b-1", EvidenceIDs: []string{"ev-1"}})
	l.Put(piper, prod, &events.BeliefRevised{BeliefID: "b-1", Change: "content", NewVersion: ptr(int64(2)), ContentSHA256: sha(3), ChallengeID: ptr("ch-1"), Reason: ptr(secret)})
	l.Put(dispatcher, prod, &events.BeliefTransformed{TransformID: "tr-1", Op: "summarised", Inputs: []events.BeliefInput{{BeliefID: "b-1"}}, Outputs: []events.BeliefOutput{{BeliefID: "s-1"}, {BeliefID: "s-2", From: []string{"b-1"}}}})
	l.Put(piper, prod, &events.LineageChanged{BeliefID: "b-1", NewLineage: &events.Lineage{Parents: []string{"b-7"}}})
	l.Advance(time.Hour)
	return l
}

func text(facts []audit.Fact) string {
	var b strings.Builder
	for _, f := range facts {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	return b.String()
}

// TestRatersAreBlind: what a rater sees before a question does not answer it.
func TestRatersAreBlind(t *testing.T) {
	l := house()
	closed := closeWeek(l, "2026-W40")
	for _, tt := range []struct {
		set, kind string
		before    []string // shown at once
		after     string   // shown for the later question; "" for nothing
	}{
		{metric.SetOutcomes, "claim", []string{"asserted: leak -> oom (intervention)\n", "evidence: ev-1, delivered in record 1\n", "evidence: ev-2, which nobody had delivered\n"}, ""},
		{metric.SetOutcomes, "turn", nil, ""},
		{metric.SetDetector, "opportunity", nil, ""},
		{metric.SetDetector, "turn", nil, ""},
		{metric.SetAbduction, "opportunity", nil, ""},
		{metric.SetEdges, "edge", []string{"edge: leak -> oom\n", "source: log-7\n", "contrary: ev-9\n"}, ""},
		{metric.SetContradictions, "contradiction", []string{`left: {"kind":"belief","id":"b-left"}`, "right: "}, "left scope: " + secret},
		{metric.SetChallenges, "challenge", []string{"belief: b-1\n", "evidence: ev-1\n"}, "answered: by the revision in record 11"},
		{metric.SetLineage, "transform", []string{"operation: summarised\n", "output: s-1, which rests on nothing that it names\n", "output: s-2, which rests on b-1\n"}, ""},
		{metric.SetLineage, "belief", []string{`lineage before: {"parents":["b-0"]}`, `lineage after: {"parents":["b-7"]}`, "changed by: lineage.changed in record 13\n"}, ""},
	} {
		t.Run(tt.set+" "+tt.kind, func(t *testing.T) {
			_, cases := draw(t, l, closed, "2026-W40", tt.set)
			i := slices.IndexFunc(cases, func(c audit.Case) bool { return c.Kind == tt.kind })
			if i < 0 {
				t.Fatalf("none in %+v", cases)
			}
			c := cases[i]
			before, after := text(c.Before), text(c.After)
			for _, hidden := range []string{secret, "confirmed", "0.875", "0.5", "apparent_success", "scoped"} {
				if strings.Contains(before, hidden) {
					t.Errorf("%s is shown in\n%s", hidden, before)
				}
			}
			for _, want := range tt.before {
				if !strings.Contains(before, want) {
					t.Errorf("no %q in\n%s", want, before)
				}
			}
			if (tt.after == "") != (after == "") || !strings.Contains(after, tt.after) {
				t.Errorf("what followed is\n%s, want %q", after, tt.after)
			}
			if c.Hidden != (tt.set == metric.SetDetector || tt.set == metric.SetAbduction) || c.Hidden && before+after != "" {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestLaterIsNotSeen: what became known behind the week is in no case.
func TestLaterIsNotSeen(t *testing.T) {
	l := house()
	closed := closeWeek(l, "2026-W40")
	d, want := draw(t, l, closed, "2026-W40", metric.SetContradictions)
	l.Put(piper, prod, &events.ContradictionResolved{ContradictionID: "con-1", Resolution: "left_holds"})
	if _, got := draw(t, l, closed, "2026-W40", metric.SetContradictions); text(got[0].After) != text(want[0].After) || strings.Contains(text(got[0].After), "left_holds") {
		t.Errorf("%+v", got)
	}
	inspect(t, l, 0, func(s *projector.State) {
		cases, err := audit.Cases(s, d)
		if err != nil || !strings.Contains(text(cases[0].After), "left_holds") {
			t.Errorf("at the head it would be seen: %+v, %v", cases, err)
		}
	})
}

// TestOrderHidesStrata: cases come in the seed's order over all strata.
func TestOrderHidesStrata(t *testing.T) {
	l := ledgertest.New()
	var negatives []string
	for i := range 12 {
		l.Put(detector, prod, &events.OpportunityDetected{OpportunityID: fmt.Sprint("o", i), Kind: "why"})
		negatives = append(negatives, fmt.Sprint("t", i))
	}
	l.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 24, Positive: 12, Negative: 12, NegativeTurnIDs: negatives})
	l.Advance(time.Hour)
	closed := closeWeek(l, "2026-W40")
	d, cases := draw(t, l, closed, "2026-W40", metric.SetDetector)
	seed, err := ledger.ParseHash(d.Seed)
	if err != nil || len(cases) != 24 {
		t.Fatal(err, len(cases))
	}
	changes := 0
	for i, c := range cases[1:] {
		x, y := metric.Rank(seed, cases[i].Kind, cases[i].ID), metric.Rank(seed, c.Kind, c.ID)
		if bytes.Compare(x[:], y[:]) >= 0 {
			t.Errorf("case %d stands behind case %d", i, i+1)
		}
		if cases[i].Stratum != c.Stratum {
			changes++
		}
	}
	if changes < 4 {
		t.Errorf("the strata are changed only %d times", changes)
	}
}

// kindsOf are the kinds of things in each set.
var kindsOf = map[string][]string{
	metric.SetOutcomes: {"claim", "prediction", "turn"}, metric.SetDetector: {"opportunity", "turn"}, metric.SetAbduction: {"opportunity", "turn"},
	metric.SetEdges: {"edge"}, metric.SetContradictions: {"contradiction"}, metric.SetChallenges: {"challenge"}, metric.SetLineage: {"transform", "belief"},
}

// TestAnswersTravel: every answer to every question goes into an event that the schema
// takes, and comes back out of it.
func TestAnswersTravel(t *testing.T) {
	for _, set := range metric.Sets() {
		if len(kindsOf[set]) == 0 {
			t.Errorf("%s is not tested", set)
		}
		for _, kind := range kindsOf[set] {
			questions := audit.QuestionsOf(set, kind)
			most := 0
			for _, q := range questions {
				most = max(most, len(q.Options))
			}
			for n := range most + 1 { // the last round cannot tell
				answers := map[string]string{}
				before := ""
				for _, q := range questions {
					a := audit.Unknown
					if n < most {
						a = q.Options[n%len(q.Options)]
					}
					if !q.Asked(before) {
						continue
					}
					answers[q.Field], before = a, a
				}
				l := &view.Label{Kind: kind, ID: "x", SampleSeq: ptr(uint64(7)), Stratum: ptr("s"), Rater: operator, Principal: operator, RubricVersion: audit.Rubric, Blind: true}
				if err := audit.Fill(l, set, answers); err != nil {
					t.Fatal(err)
				}
				raw := eventstest.Encode(t, audit.Data(set, l))
				if _, fault := schema.Check(raw); fault != nil {
					t.Fatalf("%v in %s", fault, raw)
				}
				ev, err := events.Decode(raw)
				if err != nil || ev.Type != audit.TypeOf(set) {
					t.Fatalf("%s: %v", ev.Type, err)
				}
				back, ok := view.LabelOf(ev.Data)
				if !ok || back.Rater != operator || !back.Blind || *back.SampleSeq != 7 || back.RubricVersion != audit.Rubric {
					t.Errorf("%+v", back)
				}
				for _, q := range questions {
					want := answers[q.Field]
					if want == audit.Unknown {
						want = ""
					}
					if got := q.Get(&back); got != want {
						t.Errorf("%s of a %s: %q, want %q", q.Field, kind, got, want)
					}
				}
			}
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, tt := range []struct {
		name, set, kind string
		answers         map[string]string
	}{
		{"no option", metric.SetEdges, "edge", map[string]string{"edge.relation_kind": "causal"}},
		{"of another question", metric.SetEdges, "edge", map[string]string{"edge.direction": "yes"}},
		{"of another set", metric.SetEdges, "edge", map[string]string{"eligible": "yes"}},
		{"of another kind", metric.SetOutcomes, "turn", map[string]string{"commitment_supported": "yes"}},
		{"empty", metric.SetLineage, "belief", map[string]string{"lineage_preserved": ""}},
		{"in another case", metric.SetLineage, "belief", map[string]string{"lineage_preserved": "Yes"}},
		{"does not arise", metric.SetDetector, "turn", map[string]string{"eligible": "no", "opportunity_kind": "why"}},
	} {
		if err := audit.Fill(&view.Label{Kind: tt.kind}, tt.set, tt.answers); !errors.Is(err, audit.ErrAnswer) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := audit.Listed(metric.SetLineage, "belief", "yes,no"); !errors.Is(err, audit.ErrAnswer) {
		t.Error(err)
	}
	got, err := audit.Listed(metric.SetContradictions, "contradiction", "yes, ?")
	if err != nil || got["contradiction_valid"] != "yes" || got["disposition_correct"] != "?" || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
