package telemetry

import (
	"testing"
	"time"

	"assay/resolver/criterion"
)

// shownAbsent says whether the samples show that nothing of an event's signal
// was in the window.
func shownAbsent(reg *criterion.Registry, signal string, samples []Sample, from time.Time, length time.Duration) bool {
	return criterion.Evaluate(criterion.Input{
		Criterion: criterion.Criterion{All: []criterion.Clause{{Signal: signal, Reduce: criterion.ReduceCount, Op: criterion.OpEQ}}},
		Registry:  reg, Window: criterion.Span{Start: from, End: from.Add(length)}, Samples: samples, Closed: true,
	}).Outcome == criterion.True
}

// checkLoss tries windows of many lengths around each moment from first to last.
// If something was lost then none of them may show an absence, wherever its edges
// lie; if nothing was, all that are long enough to be covered must.
func checkLoss(t *testing.T, reg *criterion.Registry, signal string, samples []Sample, first, last time.Time, lost bool) {
	t.Helper()
	interval := mustSignal(t, reg, signal).Interval
	for _, cells := range []time.Duration{1, 2, 3, 6, 12, 30} {
		length := cells*interval - interval/5
		for at := first; !at.After(last); at = at.Add(last.Sub(first) / 15) {
			for back := time.Duration(0); back < length; back += interval * 3 / 10 {
				switch shown := shownAbsent(reg, signal, samples, at.Add(-back), length); {
				case shown && lost:
					t.Fatalf("lost at %v, and the window of %v from %v before shows an absence", at.Sub(conformanceStart), length, back)
				case !shown && !lost && cells >= 6: // the edges take up to one cell
					t.Fatalf("nothing was lost, and the window of %v from %v before %v shows no absence", length, back, at.Sub(conformanceStart))
				}
			}
		}
	}
}

func mustSignal(t *testing.T, reg *criterion.Registry, name string) criterion.Signal {
	t.Helper()
	s, ok := reg.Signal(name)
	if !ok {
		t.Fatalf("no signal %s", name)
	}
	return s
}

// Heartbeats come late and whole or not at all; samples come with them.
func TestHold(t *testing.T) {
	h := newHold([]criterion.Signal{
		{Name: "beat", Heartbeat: "beat", MaxGap: 3 * time.Second}, {Name: "event", Heartbeat: "beat", MaxGap: 10*time.Second - 1},
	}, 20*time.Second)
	h.begin(after(0))
	for sec := range 101 {
		beat, event := Sample{Signal: "beat", Time: after(float64(sec))}, Sample{Signal: "event", Time: after(float64(sec))}
		samples, beats := h.split([]Sample{event, beat})
		h.add(held{time: beat.Time, samples: samples, beats: beats})
	}
	h.gap(after(60), after(50), "why")
	h.gap(after(55), after(56), "within") // takes nothing more away
	if h.doubt(after(69)) != "within" || h.doubt(after(70)) != "" || h.gaps != 2 {
		t.Errorf("doubt %q and %q, %d gaps", h.doubt(after(69)), h.doubt(after(70)), h.gaps)
	}
	if _, n := h.due(after(29)); n != 0 {
		t.Errorf("%d are due too early", n)
	}
	samples, n := h.due(after(105))
	if again, m := h.due(after(105)); m != n || len(again) != len(samples) {
		t.Errorf("%d and then %d are due", n, m)
	}
	events, beats := 0, map[float64]bool{}
	for _, s := range samples {
		if s.Signal == "event" {
			events++
		} else {
			beats[s.Time.Sub(conformanceStart).Seconds()] = true
		}
	}
	if n != 76 || events != 76 { // 0 to 105 − 30
		t.Errorf("%d entries, %d events", n, events)
	}
	for sec := range 76 {
		if want := sec >= 10 && sec <= 40 || sec >= 70; beats[float64(sec)] != want {
			t.Errorf("a heartbeat of %d: %v", sec, !want)
		}
	}
	if mark := h.drop(n); mark != "" || len(h.held) != 25 || h.size != 25*3 {
		t.Errorf("%d left, of size %d", len(h.held), h.size)
	}
}
