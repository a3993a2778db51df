package resolver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/ledger"
)

func TestWorkList(t *testing.T) {
	both := strings.Replace(low, `"value":60}`, `"value":60},{"signal":"heat","reduce":"max","op":"<=","value":60}`, 1)
	b := newBook(t)
	b.predict(-2000, "gone", low) // unresolved at −1290 s
	b.tick(-1000)
	b.predict(0, "awaits", killed)
	b.predict(0, "open", strings.Replace(low, `"1m"`, `"1h"`, 1))
	b.predict(0, "short", low)
	b.predict(0, "behind", both)
	b.add(0, "agent/other", &events.PredictionRecorded{PredID: "other", PredictedEffect: "x", P: 0.5, Criterion: []byte(low)})
	b.report(10, "operator/main", "behind", Refuted)
	b.sealOf("hot", 41, 40)
	b.seal(66, 65, ticks(5, 20, 1)...)
	b.tick(100)
	m := machineOf(b, testRegistry(t))
	b.fold(m)

	for _, tc := range []struct {
		which     Work
		principal string
		want      string
	}{
		{WorkOpen, "", "awaits open short behind other"},
		{WorkOpen, "agent/piper", "awaits open short behind"},
		{WorkDue, "", "short behind other"},
		{WorkDue, "agent/other", "other"},
		{WorkUnresolved, "", "gone"},
		{WorkUnresolved, "agent/other", ""},
	} {
		var got []string
		list := m.WorkList(WorkQuery{Which: tc.which, Principal: tc.principal, Limit: 100})
		for _, w := range list.Items {
			got = append(got, w.PredID)
		}
		if strings.Join(got, " ") != tc.want || list.More || list.Seq != ledger.Seq(len(b.bodies)) {
			t.Errorf("%s of %q: %v, want %s", tc.which, tc.principal, got, tc.want)
		}
	}
	var pages []string
	for q := (WorkQuery{Which: WorkOpen, Limit: 2}); ; {
		list := m.WorkList(q)
		for _, w := range list.Items {
			pages = append(pages, w.PredID)
			q.After = w.Seq
		}
		if pages = append(pages, fmt.Sprint(list.More)); !list.More {
			break
		}
	}
	if got := strings.Join(pages, " "); got != "awaits open true short behind true other false" {
		t.Errorf("pages of two: %s", got)
	}

	found := make(map[string]Waiting)
	for _, which := range []Work{WorkOpen, WorkUnresolved} {
		for _, w := range m.WorkList(WorkQuery{Which: which, Limit: 100}).Items {
			found[w.PredID] = w
		}
	}
	if w := found["awaits"]; w.Action == nil || w.Action.Tool != "kill" || w.Action.Target != "9" || !w.ExecuteBy.Equal(at(300)) || !strings.Contains(w.Why, "kill of 9 until") {
		t.Errorf("awaits: %+v", w)
	}
	if w := found["open"]; !w.WindowEnd.Equal(at(3600)) || len(w.Sources) != 1 || !strings.Contains(w.Why, "its window is open until 2026-10-03T13:00:00") {
		t.Errorf("open: %+v", w)
	}
	w := found["short"]
	if w.State != "evaluable" || len(w.Sources) != 0 || w.Reason != "coverage_short" || len(w.Clauses) != 1 || w.Clauses[0].Occupied != 2 || w.Clauses[0].Cells != 6 ||
		!w.Expires.Equal(at(660)) || !strings.Contains(w.Why, "unknown: coverage_short; level has 2 of 6 intervals, longest gap 45s; expires 2026-10-03T12:11:00") {
		t.Errorf("short: %+v", w)
	}
	w = found["behind"]
	if w.State != "window_open" || len(w.Sources) != 1 || w.Sources[0].Source != "hot" || *w.Sources[0].BehindSeconds != 25 || !w.Sources[0].Needed.Equal(at(65)) ||
		!strings.Contains(w.Why, "hot is sealed up to 2026-10-03T12:00:40.000000000Z, 25 s short") || fmt.Sprint(w.Reports) != "[8]" {
		t.Errorf("behind: %+v", w)
	}
	w = found["gone"]
	if w.State != "settled" || w.Reason != "source_silent" || !w.AmendableUntil.Equal(settledOf(m, "gone").deadline) || !strings.Contains(w.Why, "assay confirm") {
		t.Errorf("gone: %+v", w)
	}
}

// A list stays as it was while the fold goes on.
func TestWorkListIsACopy(t *testing.T) {
	text := func(list WorkList) string {
		raw, err := json.Marshal(list, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	b := newBook(t)
	b.predict(0, "p", low)
	b.predict(0, "unknown", strings.Replace(low, `"10m"`, `"1s"`, 1))
	b.report(10, "operator/main", "p", Refuted)
	b.tick(62) // unknown is unresolved
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	lists := []WorkList{m.WorkList(WorkQuery{Which: WorkOpen, Limit: 10}), m.WorkList(WorkQuery{Which: WorkUnresolved, Limit: 10})}
	before := []string{text(lists[0]), text(lists[1])}
	confirmedBy60(b)
	b.tick(8 * days) // both are let go
	if b.fold(m); len(m.preds)+m.past.live > 0 {
		t.Fatal("they are still there")
	}
	for i, list := range lists {
		if len(list.Items) != 1 || text(list) != before[i] {
			t.Errorf("%s\nwas\n%s", text(list), before[i])
		}
	}
}

// The list can be asked for while the fold goes on.
func TestServiceWorkList(t *testing.T) {
	m := newMemory(t)
	m.book.predict(0, "p", low)
	m.sign()
	s := serviceOf(t, m, make(memoryBlobs), testRegistry(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	wait(t, "the fold", func() bool { return len(s.WorkList(WorkQuery{Which: WorkOpen, Limit: 10}).Items) == 1 })
	cancel()
	<-done
}
