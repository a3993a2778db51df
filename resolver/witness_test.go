package resolver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
)

// TestWhatACallArms: of one call the best witness counts, and what is said stands. The
// prediction, of a kill of 9 within five minutes, is record 1 unless a case records it.
func TestWhatACallArms(t *testing.T) {
	const dispatcher = "dispatcher/main"
	predict := func(b *book, when float64) { b.predict(when, "p", killed) }
	tell := func(b *book, when float64, capture, status string) {
		b.call("c", when, dispatcher, capture, "kill", "9", status, when)
	}
	for _, tc := range []struct {
		name  string
		write func(b *book)
		want  string // state, verdict, reason, cut, records that armed it
	}{
		{"a hook's ok", func(b *book) {
			predict(b, 0)
			tell(b, 20, "hook", "ok")
		}, "window_open [2]"},
		{"confirmed by the dispatcher, later and otherwise dated", func(b *book) {
			predict(b, 0)
			tell(b, 20, "hook", "ok")
			b.call("c", 21, dispatcher, "live", "kill", "9", "ok", 15)
		}, "window_open [2]"},
		{"recorded between two records of a call", func(b *book) {
			tell(b, 10, "hook", "ok")
			predict(b, 15)
			tell(b, 20, "live", "ok")
		}, "awaiting_action []"},
		{"recorded between two records of a call that failed", func(b *book) {
			tell(b, 10, "hook", "ok")
			predict(b, 15)
			tell(b, 20, "live", "failed")
		}, "awaiting_action []"},
		{"a hook's ok behind the dispatcher's denial", func(b *book) {
			tell(b, 10, "live", "denied")
			predict(b, 15)
			tell(b, 20, "hook", "ok")
		}, "awaiting_action []"},
		{"a denial, whoever calls it ok behind it", func(b *book) {
			predict(b, 0)
			tell(b, 20, "live", "denied")
			tell(b, 21, "hook", "ok")
		}, "settled void action_failed 2 []"},
		{"a denial behind a hook's ok", func(b *book) {
			predict(b, 0)
			tell(b, 20, "hook", "ok")
			tell(b, 21, "live", "denied")
			b.seal(31, 30, ticks(15, 100, 99)...)
		}, "settled void action_failed 3 [2]"},
		{"a failure behind a client's telemetry", func(b *book) {
			predict(b, 0)
			tell(b, 20, "otlp", "ok")
			tell(b, 21, "hook", "failed")
		}, "settled void action_failed 3 [2]"},
		{"another target than the hook's", func(b *book) {
			predict(b, 0)
			tell(b, 20, "hook", "ok")
			b.call("c", 21, dispatcher, "live", "kill", "8", "ok", 20)
		}, "settled void action_failed 3 [2]"},
		{"the target that the hook did not know", func(b *book) {
			predict(b, 0)
			b.call("c", 20, dispatcher, "hook", "mcp__kill", "", "ok", 20)
			tell(b, 21, "live", "ok")
		}, "window_open [3]"},
		{"a denial behind the verdict", func(b *book) {
			predict(b, 0)
			tell(b, 20, "hook", "ok")
			b.seal(41, 40, ticks(35, 40, 99)...)
			tell(b, 42, "live", "denied")
		}, "settled refuted 3 [2]"},
		{"an ok behind a hook's failure", func(b *book) {
			predict(b, 0)
			tell(b, 20, "hook", "failed")
			tell(b, 21, "live", "ok")
		}, "settled void action_failed 2 []"},
		{"an agent's word, as what she passes for a hook", func(b *book) {
			predict(b, 0)
			b.call("c", 20, "agent/piper", "hook", "kill", "9", "ok", 20)
			b.call("c", 21, "agent/piper", "live", "kill", "9", "failed", 21)
		}, "awaiting_action []"},
		{"the dispatcher's behind it", func(b *book) {
			predict(b, 0)
			b.call("c", 20, "agent/piper", "hook", "kill", "9", "failed", 20)
			tell(b, 21, "live", "ok")
		}, "window_open [3]"},
		{"an imported call", func(b *book) {
			predict(b, 0)
			tell(b, 20, "imported", "ok")
			tell(b, 21, "imported", "failed")
		}, "awaiting_action []"},
		{"the live one behind its import", func(b *book) {
			predict(b, 0)
			tell(b, 20, "imported", "failed")
			tell(b, 21, "live", "ok")
		}, "window_open [3]"},
		{"an imported withdrawal", func(b *book) {
			predict(b, 0)
			b.add(10, "agent/piper", &events.PredictionWithdrawn{Context: imported(), PredID: "p"})
		}, "awaiting_action []"},
		{"an imported promise takes no name", func(b *book) {
			b.add(0, "agent/piper", &events.PredictionRecorded{Context: imported(), PredID: "p", PredictedEffect: "x", P: 0.7, Criterion: jsontext.Value(low)})
			predict(b, 10)
			tell(b, 20, "live", "ok")
		}, "window_open [3]"},
		{"an imported report", func(b *book) {
			predict(b, 0)
			tell(b, 20, "live", "ok")
			principal, pred, verdict := "agent/piper", "p", Confirmed
			b.add(30, "operator/main", &events.OutcomeRecorded{
				Context: imported(), What: "x", Source: "operator_report", PredID: &pred, PredPrincipal: &principal, Verdict: &verdict,
			})
			b.tick(100_000)
		}, "settled unresolved source_silent 4 [2]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t)
			tc.write(b)
			m := machineOf(b, testRegistry(t))
			out := b.fold(m)
			state, _ := m.State("agent/piper", "p")
			got := []string{state.String()}
			if d := resolutions(t, out)["p"]; d != nil {
				got = append(got, d.Verdict)
				if d.Reason != nil {
					got = append(got, *d.Reason)
				}
				got = append(got, fmt.Sprint(d.CutSeq))
			}
			var armed []ledger.Seq
			for _, e := range out {
				if e.Type == events.TypePredictionArmed {
					armed = append(armed, e.Cut)
				}
			}
			if s := strings.Join(append(got, fmt.Sprint(armed)), " "); s != tc.want || len(amendments(t, out)) > 0 {
				t.Errorf("%s, want %s", s, tc.want)
			}
		})
	}
}

// imported is the common block of what was imported.
func imported() events.Context {
	capture := events.WitnessImported
	return events.Context{Capture: &capture}
}

// TestVoidedWindowHoldsNothing: a prediction whose window was opened for nothing lets
// go of all that it held.
func TestVoidedWindowHoldsNothing(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", strings.Replace(killed, `"expires_after"`, `"baseline":{"length":"30s","reduce":"max","op":">","value":60},"expires_after"`, 1))
	b.call("c", 20, "dispatcher/main", "hook", "kill", "9", "ok", 20)
	b.call("c", 21, "dispatcher/main", "live", "kill", "9", "denied", 20)
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	if s := m.sources["s"]; len(m.preds) != 0 || s.watched != 0 || s.pinned != 0 || len(s.series) != 0 || m.past.live != 0 {
		t.Errorf("%d open, %d watched, %d pinned, %d series, %d amendable", len(m.preds), s.watched, s.pinned, len(s.series), m.past.live)
	}
	b.seal(200, 199, ticks(25, 190, 99)...) // its deadlines and queues find nothing
	b.tick(100_000)
	if out := b.fold(m); len(out) > 0 {
		t.Errorf("%d more emissions", len(out))
	}
}

// TestImportsActOnNothing: a ledger in which records were imported again calls for what
// it calls for with ticks of the clock in their places.
func TestImportsActOnNothing(t *testing.T) {
	r := testRegistry(t)
	ticking := newBook(t)
	ticking.tick(0)
	first, err := ledger.ParseRecord(ticking.bodies[0])
	if err != nil {
		t.Fatal(err)
	}
	tick := first.Event
	rapid.Check(t, func(t *rapid.T) {
		plain := genBook(t)
		with, without := newBook(t), newBook(t)
		with.blobs, without.blobs = plain.blobs, plain.blobs
		var recs []ledger.Record
		for _, body := range plain.bodies {
			rec, err := ledger.ParseRecord(body)
			if err != nil {
				t.Fatal(err)
			}
			recs = append(recs, rec)
		}
		for i, rec := range recs {
			if again := recs[rapid.IntRange(0, len(recs)-1).Draw(t, "import")]; role(again) != "logger" && rapid.Bool().Draw(t, "imports") {
				ev, err := events.Decode(again.Event)
				if err != nil {
					t.Fatal(err)
				}
				ev.ID, *ev.Data.Common() = events.DerivedID("import", fmt.Sprint(i)).String(), imported()
				raw, err := events.Encode(ev)
				if err != nil {
					t.Fatal(err)
				}
				with.event(rec.RecordedAt, again.Principal, raw)
				without.event(rec.RecordedAt, "logger/main", tick)
			}
			with.event(rec.RecordedAt, rec.Principal, rec.Event)
			without.event(rec.RecordedAt, rec.Principal, rec.Event)
		}
		said := func(b *book) (out []string) {
			for _, e := range b.fold(machineOf(b, r)) {
				o, _ := outcomeOf(e.Event)
				out = append(out, fmt.Sprint(e.ID, e.Type, e.PredID, e.Cut, o.verdict, o.reason))
			}
			return out
		}
		if got, want := said(with), said(without); !slices.Equal(got, want) {
			t.Fatalf("with imports\n%q\nwant\n%q", got, want)
		}
	})
}
