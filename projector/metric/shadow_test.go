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

func sample(t *testing.T, l *ledgertest.Ledger, week, ns string, wanted metric.Wanted) *events.AuditSampled {
	t.Helper()
	var out *events.AuditSampled
	fold(t, l, func(s *projector.State) {
		w, err := view.GetWeek(s, week)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = metric.Sample(s, w, ns, wanted); err != nil {
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

	s := sample(t, l, "2026-W40", "production", metric.Wanted{Success: 10, Unresolved: 10, Negative: 10})
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
	shadow := sample(t, l, "2026-W40", "shadow", metric.Wanted{Success: 10, Unresolved: 10, Negative: 10})
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
		if _, err := metric.Sample(st, w, "production", metric.Wanted{}); !errors.Is(err, metric.ErrNotAtWeek) {
			t.Errorf("drawn behind the week: %v", err)
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
	if s := sample(t, l, "2026-W40", "production", metric.Wanted{Unresolved: 10}); s.Strata[1].Population != 0 {
		t.Errorf("it was no week old then: %+v", s.Strata[1])
	}
	l.Advance(time.Hour)
	closeWeek(l, "2026-W44", week)
	if s := sample(t, l, "2026-W44", "production", metric.Wanted{Unresolved: 10}); names(s.Strata[1]) != "1 of 1 (0): claim old@1" {
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
	s := sample(t, l, "2026-W40", "production", metric.Wanted{Success: 10})
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
	more := sample(t, l, "2026-W40", "production", metric.Wanted{Success: 20})
	for i, c := range more.Strata[0].Cases[:10] {
		if c.ID != drawn[i] {
			t.Errorf("of 20, case %d is %s", i, c.ID)
		}
	}
	// Another leaf draws others.
	var others []string
	for _, c := range sample(t, build("y"), "2026-W40", "production", metric.Wanted{Success: 10}).Strata[0].Cases {
		others = append(others, c.ID)
	}
	if slices.Equal(drawn, others) {
		t.Error("the seed does not matter")
	}
	if text := metric.SampleText(s); !strings.Contains(text, "apparent_success: 10 of 40\n  claim       "+drawn[0]+"  (record ") {
		t.Error(text)
	}
}
