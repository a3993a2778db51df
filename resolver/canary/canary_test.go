package canary

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"assay/events"
	"assay/resolver"
)

// TestOrder: records come in ledger order.
func TestOrder(t *testing.T) {
	b := newBook(t)
	b.start("a")
	if _, err := b.f.Apply(b.recs[0]); err == nil {
		t.Error("applied twice")
	}
}

func TestRestoreRefusesOthers(t *testing.T) {
	for _, raw := range []string{
		"", "null0", `{"seq":1,"mood":2}`, `[]`,
		`{"seq":1,"calls":[{"id":"1","first":1,"seq":1}]}`, `{"seq":1,"heard":[{"id":"1","first":1,"seq":1}]}`, `{"seq":1,"last":{"start":{"criteria":[{"metric":"latency_ratio"}]}}}`,
	} {
		if err := testFold().Restore([]byte(raw)); err == nil {
			t.Errorf("%q was taken", raw)
		}
	}
}

// genBook draws a ledger of a few canaries that do all kinds of things.
func genBook(t *rapid.T) *book {
	b := newBook(t)
	drop, lat := rate(SuccessDrop, 20, 3, 50), rate(LatencyRatio, 2, 3, 50)
	drop.Baseline, lat.Baseline = ptr(0.9), ptr(100.0)
	all := criteria(rate(FailureRate, 0.6, 3, 50), drop, lat, events.CanaryCriterion{Metric: Violation})
	ids := []string{"a", "b", "c", "d", "e"}
	last := map[string]string{} // prediction → event id of its last change
	for i := range rapid.IntRange(5, 60).Draw(t, "records") {
		n := rapid.IntRange(0, 9).Draw(t, "n")
		id := fmt.Sprint(n)
		switch rapid.SampledFrom([]string{"start", "end", "call", "call", "call", "recheck", "recheck", "predict", "predict", "amend", "week", "wait"}).Draw(t, "what") {
		case "start":
			b.start(ids[n%len(ids)], all, capped(int64(n)+3))
		case "end":
			if n < 2 {
				b.put(operator, "production", &events.CanaryEnded{CanaryID: ids[n%len(ids)], Reason: "x"})
			}
		case "call":
			tool := rapid.SampledFrom([]string{"set_flag", "set_flag", "set_flag", "set_flag", "restart", "drop"}).Draw(t, "tool")
			change := []func(*events.ToolCalled){took(float64(n * 40)), by(rapid.SampledFrom([]string{"live", "live", "hook", "otlp", "imported"}).Draw(t, "by"))}
			if rapid.IntRange(0, 3).Draw(t, "denied") == 0 {
				change = append(change, denied)
			}
			b.call(id, tool, "svc/x", change...)
		case "recheck":
			if n == 9 {
				b.reportedRecheck("1", "not_confirmed")
			}
			b.recheck(id, rapid.SampledFrom([]string{"confirmed", "not_confirmed", "inconclusive"}).Draw(t, "result"))
		case "predict":
			p := fmt.Sprint("p", i)
			last[p], _ = b.predict(p, rapid.SampledFrom([]string{"confirmed", "refuted", "void"}).Draw(t, "verdict"))
		case "amend":
			if ps := slices.Sorted(maps.Keys(last)); len(ps) > 0 {
				p := ps[n%len(ps)]
				last[p], _ = b.amend(p, last[p], rapid.SampledFrom([]string{"late_telemetry", "late_telemetry", "operator_report", "engine"}).Draw(t, "cause"), rapid.SampledFrom([]string{"confirmed", "refuted"}).Draw(t, "verdict"))
			}
		case "week":
			b.week("2026-W48")
		case "wait":
			b.now = b.now.Add(time.Duration(n*5) * time.Second)
			if n == 9 {
				b.now = b.now.Add(remember / 2)
			}
		}
	}
	return b
}

// TestSplitAnywhere: a fold that is saved and taken up again, wherever and
// however often, emits the same bytes as one from record 1 and ends in the same
// state; and one that sees its own emissions in the ledger says no more.
func TestSplitAnywhere(t *testing.T) {
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		b := genBook(t)
		whole, err := b.f.Save()
		if err != nil {
			t.Fatal(err)
		}
		f := testFold()
		var out []resolver.Emission
		for i, rec := range b.recs {
			if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
				raw, err := f.Save()
				if err != nil {
					t.Fatal(err)
				}
				f = testFold()
				if err := f.Restore(raw); err != nil {
					t.Fatalf("at %d: %v", i, err)
				}
			}
			es, err := f.Apply(rec)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, es...)
		}
		same := slices.EqualFunc(out, b.out, func(x, y resolver.Emission) bool {
			return x.ID == y.ID && x.Cut == y.Cut && string(x.Event) == string(y.Event)
		})
		if !same {
			t.Fatalf("%d emissions, want %d or others", len(out), len(b.out))
		}
		if raw, err := f.Save(); err != nil || string(raw) != string(whole) {
			t.Fatalf("in the end\n%s\nwant\n%s", raw, whole)
		}
		b.rollbacks()
		told += len(out)
		ids := map[string]bool{}
		for _, e := range out {
			if ids[e.ID] {
				t.Fatalf("%s was emitted twice", e.ID)
			}
			ids[e.ID] = true
		}
	})
	if told == 0 {
		t.Error("no ledger called for a rollback")
	}
}

// TestGolden holds the bytes of a rollback: the ledger knows them by their hash.
func TestGolden(t *testing.T) {
	b := newBook(t)
	b.start("a", capped(1))
	b.call("1", "set_flag", "")
	b.call("2", "set_flag", "mode")
	want := `{"specversion":"1.0","id":"ID","source":"assay/resolver","type":"rollback.triggered","time":"2026-11-23T12:00:03Z","datacontenttype":"application/json",` +
		`"dataschema":"urn:assay:rollback.triggered:1","causationid":"` + events.DerivedID("test", "2").String() + `","data":{"context":{"component":"resolver","capture":"live"},` +
		`"canary_id":"a","rule":"action_beyond_cap","reason":"set_flag on mode: call 2 of this week, of 1","value":2,"threshold":1,"n":2,"cut_seq":3,"evidence_seqs":[3],` +
		`"resolver":{"id":"resolver/main","kind":"telemetry","key":"UABC"}}}`
	id := events.DerivedID(events.TypeRollbackTriggered, operator, events.DerivedID("test", "0").String(), BeyondCap).String()
	if len(b.out) != 1 || string(b.out[0].Event) != strings.Replace(want, "ID", id, 1) {
		t.Errorf("%d emissions: %s", len(b.out), b.said())
	}
	var s state
	raw, err := b.f.Save()
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Last.Over != AfterRollback || len(s.Last.Windows)+len(s.Last.Promises) > 0 {
		t.Errorf("%s, %v", raw, err)
	}
}
