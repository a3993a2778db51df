package metric_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

func TestShadowScore(t *testing.T) {
	l := ledgertest.New()
	ep := ledgertest.Episode("ep")
	set := func(id string, ps ...float64) *events.HypothesesRecorded {
		d := &events.HypothesesRecorded{SetID: id}
		for _, p := range ps {
			d.Alternatives = append(d.Alternatives, events.Alternative{ID: "h", Proposition: &events.AlternativeProposition{Variable: "v", Value: "x"}, P: &p})
		}
		return d
	}
	claim := func(ns, id string, evidence ...string) {
		l.Put("agent/piper", ns, &events.ClaimRecorded{ClaimID: id, Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}, EvidenceIDs: evidence}, ep)
	}
	l.Put("agent/piper", "shadow", set("one", 0.5, 0.5), ep)
	claim("shadow", "held", "ghost")
	named := set("two", 0.9, 0.9)
	named.ClaimID = ledgertest.Ptr("open")
	l.Put("agent/piper", "shadow", named)
	claim("shadow", "open")
	l.Put("agent/piper", "shadow", named, ep) // a repeat
	later := set("three", 1)
	later.ClaimID = ledgertest.Ptr("open")
	l.Put("agent/piper", "shadow", later)
	l.Put("operator/op", "production", &events.FixRechecked{ClaimID: "held", Result: "confirmed", Source: "instrument", Direct: true})
	claim("production", "elsewhere")
	query := func(id, chosen string) {
		l.Put("agent/piper", "shadow", &events.QuerySelected{QueryID: id, Chosen: chosen, Menu: []events.QueryOption{{Option: "look"}}})
	}
	query("made", "look")
	query("idle", "guess")
	l.Put("dispatcher/main", "shadow", &events.ToolCalled{ToolCallID: "call", Tool: "bash", Status: "ok"})
	l.Put("dispatcher/main", "shadow", &events.QueryExecuted{QueryID: "made", ToolCallID: "call"})
	l.Put("dispatcher/main", "shadow", &events.QueryExecuted{QueryID: "ghost", ToolCallID: "call"})
	l.Put("dispatcher/main", "shadow", &events.QueryExecuted{QueryID: "early", ToolCallID: "call"})
	query("early", "look")

	s := score(t, l, "shadow").Shadow
	got := fmt.Sprintf("%v competing %d by claim %d question %d episode %d, later %d, sets %d over %d, undelivered %d, standing %+v, queries %v %d %d %d %d",
		s.WithAlternatives, s.Competing, s.ByClaim, s.ByQuestion, s.ByEpisode, s.LaterSets, s.Sets, s.OverOne, s.Undelivered, s.Standing,
		s.Queries.Rate, s.Queries.WithoutCall, s.Queries.BeforeSelection, s.Queries.Unselected, s.Queries.Unlisted)
	want := "1 (2/2) competing 2 by claim 1 question 0 episode 1, later 1, sets 3 over 1, undelivered 1, standing {Success:1 Both:0 Contradicted:0 Unresolved:0 Open:1}, queries 0.3333 (1/3) 0 1 1 1"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if p := score(t, l, "production").Shadow; p.Standing.Open != 1 || p.Sets != 0 || p.WithAlternatives.Denominator != 1 || p.WithAlternatives.Numerator != 0 {
		t.Errorf("production counts the shadow: %+v", p)
	}
	if e := score(t, l, "sandbox").Shadow; e.WithAlternatives.Value != nil || e.Queries.Rate.Value != nil {
		t.Errorf("a rate of nothing: %+v", e)
	}
}

// closeWeek closes the week that ends now, and returns where.
func closeWeek(l *ledgertest.Ledger, id string, length time.Duration) {
	end := l.Now()
	l.Put("logger/main", "production", &events.WeekClosed{
		Week: id, Zone: "UTC", Start: events.FormatTime(end.Add(-length)), End: events.FormatTime(end),
	})
}

// outcomes is how many to draw of the set of outcomes.
func outcomes(success, unresolved, negative int64) []metric.Wanted {
	out := metric.WantedOf(metric.SetOutcomes)
	out[0].Cases, out[1].Cases, out[2].Cases = success, unresolved, negative
	return out
}

func sample(t *testing.T, l *ledgertest.Ledger, week, ns string, wanted []metric.Wanted) *events.AuditSampled {
	t.Helper()
	return sampleSet(t, l, week, ns, metric.SetOutcomes, wanted)
}

func sampleSet(t *testing.T, l *ledgertest.Ledger, week, ns, set string, wanted []metric.Wanted) *events.AuditSampled {
	t.Helper()
	var out *events.AuditSampled
	fold(t, l, func(s *projector.State) {
		w, err := view.GetWeek(s, week)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = metric.Sample(s, w, ns, set, wanted); err != nil {
			t.Fatal(err)
		}
	})
	return out
}

// names are the drawn cases of a stratum, sorted.
func names(s events.AuditStratum) string {
	var out []string
	for _, c := range s.Cases {
		out = append(out, fmt.Sprintf("%s %s@%d", c.Kind, c.ID, c.Seq))
	}
	slices.Sort(out)
	return fmt.Sprintf("%d of %d (%d): %s", len(s.Cases), s.Population, s.Unlisted, strings.Join(out, ", "))
}

// TestSampleStrata: a case is of the week in which it came to stand as it does.
func TestSampleStrata(t *testing.T) {
	const week = 7 * 24 * time.Hour
	l := ledgertest.New()
	claim := func(ns, id string) {
		l.Put("agent/piper", ns, &events.ClaimRecorded{ClaimID: id, Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}})
	}
	predict := func(ns, id, claim string) {
		d := &events.PredictionRecorded{PredID: id, PredictedEffect: "x", P: 0.5, Criterion: []byte(`{}`)}
		if claim != "" {
			d.ClaimID = &claim
		}
		l.Put("agent/piper", ns, d)
	}
	resolve := func(id, verdict string) {
		l.Put("resolver/main", "production", &events.PredictionResolved{PredID: id, Verdict: verdict, Engine: "e", Foreknowledge: "none"})
	}
	scan := func(negative int64, ids ...string) {
		l.Put("detector/main", "production", &events.DetectorScanned{DetectorVersion: "1", Turns: 100, Negative: negative, NegativeTurnIDs: ids})
	}
	// Before the week.
	claim("production", "held-before")
	l.Put("operator/op", "production", &events.FixRechecked{ClaimID: "held-before", Result: "confirmed", Source: "instrument", Direct: true})
	claim("production", "gets-old") // seven days old within the week
	scan(5, "turn-before")
	l.Advance(24 * time.Hour)
	closeWeek(l, "2026-W39", 24*time.Hour)
	// Within it.
	claim("production", "held")
	l.Put("operator/op", "production", &events.FixRechecked{ClaimID: "held", Result: "confirmed", Source: "instrument", Direct: true})
	claim("production", "held-no-more")
	for _, r := range []string{"confirmed", "not_confirmed"} {
		l.Put("operator/op", "production", &events.FixRechecked{ClaimID: "held-no-more", Result: r, Source: "instrument", Direct: true})
	}
	claim("production", "promised")
	predict("production", "of-promised", "promised")
	resolve("of-promised", "confirmed")
	predict("production", "alone", "")
	resolve("alone", "confirmed")
	predict("production", "undecided", "")
	resolve("undecided", "unresolved")
	predict("production", "void", "")
	resolve("void", "void")
	predict("production", "pending", "")
	claim("production", "young")
	claim("shadow", "shadowed")
	l.Put("operator/op", "production", &events.FixRechecked{ClaimID: "shadowed", Result: "confirmed", Source: "instrument", Direct: true})
	scan(3, "turn-1", "turn-2")
	scan(1, "turn-1")
	l.Put("operator/op", "production", &events.FixRechecked{ClaimID: "held-before", Result: "confirmed", Source: "instrument", Direct: true}) // once more
	// Nothing of what was imported is drawn.
	past := events.Context{Capture: ptr("imported")}
	l.Put("agent/piper", "production", &events.ClaimRecorded{Context: past, ClaimID: "past", Status: "asserted"})
	l.Put("operator/op", "production", &events.FixRechecked{Context: past, ClaimID: "past", Result: "confirmed", Source: "instrument", Direct: true})
	l.Put("detector/main", "production", &events.DetectorScanned{Context: past, DetectorVersion: "1", Turns: 9, Negative: 9, NegativeTurnIDs: []string{"turn-past"}})
	l.Advance(week - l.Now().Sub(ledgertest.Start.Add(24*time.Hour)))
	closeWeek(l, "2026-W40", week)

	s := sample(t, l, "2026-W40", "production", outcomes(10, 10, 10))
	for i, want := range []string{
		"3 of 3 (0): claim held@6, claim promised@11, prediction alone@14",
		"2 of 2 (0): claim gets-old@3, prediction undecided@16",
		"2 of 3 (1): turn turn-1@24, turn turn-2@24",
	} {
		if got := names(s.Strata[i]); got != want {
			t.Errorf("%s: %s, want %s", s.Strata[i].Stratum, got, want)
		}
	}
	if s.ClosedSeq != 30 || s.Week != "2026-W40" || s.Namespace != "production" || s.Method != metric.SampleMethod || s.Seed != l.Leaf().String() {
		t.Errorf("%+v", s)
	}
	shadow := sample(t, l, "2026-W40", "shadow", outcomes(10, 10, 10))
	if got := names(shadow.Strata[0]); got != "1 of 1 (0): claim shadowed@22" || shadow.Strata[2].Population != 0 || shadow.Strata[1].Cases == nil {
		t.Errorf("%s, %+v", got, shadow.Strata)
	}
	// One record later the views cannot draw it: more may be known.
	l.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"})
	fold(t, l, func(st *projector.State) {
		w, err := view.GetWeek(st, "2026-W40")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := metric.Sample(st, w, "production", metric.SetOutcomes, outcomes(0, 0, 0)); !errors.Is(err, metric.ErrNotAtWeek) {
			t.Errorf("drawn behind the week: %v", err)
		}
	})
}

// TestSampleSets: each set draws its own things of the week, the census of edges all
// that the graph holds; nothing of what was imported.
func TestSampleSets(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	edge := func(op, cause string, id *string, ctx events.Context) {
		l.Put(dispatcher, prod, &events.GraphWritten{Context: ctx, Op: op, EdgeID: id, Cause: cause, Effect: "y"})
	}
	edge("add", "a", ptr("edge-a"), events.Context{})
	unnamed := l.NextID()
	l.Put(dispatcher, prod, &events.GraphWritten{Op: "add", Cause: "b", Effect: "y"}, ledgertest.ID(unnamed))
	edge("add", "c", ptr("edge-c"), events.Context{})
	edge("add", "d", ptr("edge-d"), importedContext)
	side := func(id string) events.ContradictionSide { return events.ContradictionSide{Kind: "belief", ID: id} }
	detect := func(id, left string, ctx events.Context) {
		l.Put(piper, prod, &events.ContradictionDetected{Context: ctx, ContradictionID: id, Left: side(left), Right: side("z")})
	}
	l.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: ptr(int64(1)), ContentSHA256: sha(1)})
	detect("before", "o", events.Context{})
	b.opportunity("o-before", "why", "e")
	l.Advance(time.Hour)
	closeWeek(l, "2026-W39", time.Hour) // 8
	from := l.Now()
	edge("remove", "c", ptr("edge-c"), events.Context{})
	edge("add", "e", ptr("edge-e"), events.Context{}) // 10
	b.opportunity("o1", "why", "e")
	l.Put(detector, prod, &events.OpportunityDetected{Context: importedContext, OpportunityID: "o2", Kind: "why"})
	l.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 4, Negative: 3, NegativeTurnIDs: []string{"t1"}}) // 13
	detect("x1", "p", events.Context{})
	detect("x2", "p", events.Context{}) // the same pair
	detect("x3", "q", importedContext)
	l.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "ch", BeliefID: "b1"}) // 17
	l.Put(dispatcher, prod, &events.BeliefTransformed{TransformID: "tr", Op: "summarised", Inputs: []events.BeliefInput{{BeliefID: "b1"}}, Outputs: []events.BeliefOutput{{BeliefID: "s1", From: []string{"b1"}}}})
	for range 2 {
		l.Put(piper, prod, &events.LineageChanged{BeliefID: "b1", NewLineage: &events.Lineage{Parents: []string{"p1"}}}) // 19
	}
	l.Advance(time.Hour)
	closeWeek(l, "2026-W40", l.Now().Sub(from))
	for _, tt := range []struct {
		set  string
		want []string
	}{
		{metric.SetDetector, []string{"1 of 1 (0): opportunity o1@11", "1 of 3 (2): turn t1@13"}},
		{metric.SetAbduction, []string{"1 of 1 (0): opportunity o1@11", "1 of 3 (2): turn t1@13"}},
		{metric.SetEdges, []string{fmt.Sprintf("3 of 3 (0): edge %s@2, edge edge-a@1, edge edge-e@10", unnamed)}},
		{metric.SetContradictions, []string{"1 of 1 (0): contradiction x1@14"}},
		{metric.SetChallenges, []string{"1 of 1 (0): challenge ch@17"}},
		{metric.SetLineage, []string{"1 of 1 (0): transform tr@18", "1 of 1 (0): belief b1@19"}},
	} {
		s := sampleSet(t, l, "2026-W40", prod, tt.set, metric.WantedOf(tt.set))
		var got []string
		for i, st := range s.Strata {
			got = append(got, names(st))
			if w := metric.WantedOf(tt.set)[i]; st.Stratum != w.Stratum || st.Wanted != w.Cases {
				t.Errorf("%s: %+v", tt.set, st)
			}
		}
		if !slices.Equal(got, tt.want) || metric.SetOf(s) != tt.set || s.Set == nil {
			t.Errorf("%s: %q, want %q", tt.set, got, tt.want)
		}
	}
	fold(t, l, func(st *projector.State) {
		w, err := view.GetWeek(st, "2026-W40")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := metric.Sample(st, w, prod, "nothing", nil); err == nil {
			t.Error("a set that there is not was drawn")
		}
	})
}

// TestSampleAfterWeeksWithoutRecords: what grew old in a week that nobody closed
// is of the next one that was.
func TestSampleAfterWeeksWithoutRecords(t *testing.T) {
	const week = 7 * 24 * time.Hour
	l := ledgertest.New()
	l.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: "old", Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}})
	l.Advance(time.Hour)
	end := l.Now()
	l.Advance(4 * week) // without a record; then the week before is closed
	l.Put("logger/main", "production", &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: events.FormatTime(end.Add(-week)), End: events.FormatTime(end)})
	if s := sample(t, l, "2026-W40", "production", outcomes(0, 10, 0)); s.Strata[1].Population != 0 {
		t.Errorf("it was no week old then: %+v", s.Strata[1])
	}
	l.Advance(time.Hour)
	closeWeek(l, "2026-W44", week)
	if s := sample(t, l, "2026-W44", "production", outcomes(0, 10, 0)); names(s.Strata[1]) != "1 of 1 (0): claim old@1" {
		t.Errorf("%+v", s.Strata[1])
	}
}

// TestSampleIsDrawnBySeed computes the documented order by hand.
func TestSampleIsDrawnBySeed(t *testing.T) {
	build := func(salt string) *ledgertest.Ledger {
		l := ledgertest.New()
		for i := range 40 {
			id := fmt.Sprint("claim-", i)
			l.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: id, Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: salt}})
			l.Put("operator/op", "production", &events.FixRechecked{ClaimID: id, Result: "confirmed", Source: "instrument", Direct: true})
		}
		closeWeek(l, "2026-W40", time.Hour)
		return l
	}
	l := build("x")
	s := sample(t, l, "2026-W40", "production", outcomes(10, 0, 0))
	type ranked struct{ rank, id string }
	var all []ranked
	seed := l.Leaf()
	for i := range 40 {
		id := fmt.Sprint("claim-", i)
		sum := sha256.Sum256([]byte(string(seed[:]) + "claim\x00" + id))
		all = append(all, ranked{hex.EncodeToString(sum[:]), id})
	}
	slices.SortFunc(all, func(a, b ranked) int { return strings.Compare(a.rank, b.rank) })
	if n := len(s.Strata[0].Cases); n != 10 || s.Strata[0].Population != 40 {
		t.Fatalf("%d of %d", n, s.Strata[0].Population)
	}
	var drawn []string
	for i, c := range s.Strata[0].Cases {
		if c.ID != all[i].id {
			t.Errorf("case %d is %s, want %s", i, c.ID, all[i].id)
		}
		drawn = append(drawn, c.ID)
	}
	// More of them begin with the same.
	more := sample(t, l, "2026-W40", "production", outcomes(20, 0, 0))
	for i, c := range more.Strata[0].Cases[:10] {
		if c.ID != drawn[i] {
			t.Errorf("of 20, case %d is %s", i, c.ID)
		}
	}
	// Another leaf draws others.
	var others []string
	for _, c := range sample(t, build("y"), "2026-W40", "production", outcomes(10, 0, 0)).Strata[0].Cases {
		others = append(others, c.ID)
	}
	if slices.Equal(drawn, others) {
		t.Error("the seed does not matter")
	}
	if text := metric.SampleText(s); !strings.Contains(text, "apparent_success: 10 of 40\n  claim          "+drawn[0]+"  (record ") {
		t.Error(text)
	}
}
