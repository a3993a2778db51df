package canary

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
)

// TestWindowCountsWhatItHolds: whatever comes and goes, the kept numbers are those
// of a list that is gone through.
func TestWindowCountsWhatItHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		var all []value
		now, since, seq := epoch, time.Time{}, ledger.Seq(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "add", "remove", "expire", "wait"}).Draw(t, "what") {
			case "add":
				seq += ledger.Seq(rapid.IntRange(1, 3).Draw(t, "gap"))
				v := value{Seq: seq, At: now, Bad: rapid.Bool().Draw(t, "bad"), MS: float64(100 - seq)}
				w.add(v)
				all = append(all, v)
			case "remove":
				old := ledger.Seq(rapid.Uint64Range(0, uint64(seq+1)).Draw(t, "seq"))
				w.remove(old)
				all = slices.DeleteFunc(all, func(v value) bool { return v.Seq == old })
			case "expire":
				since = now.Add(-5 * time.Second)
				w.expire(since)
				all = slices.DeleteFunc(all, func(v value) bool { return !v.At.After(since) })
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "seconds")) * time.Second)
			}
			var bad int64
			var seqs []ledger.Seq
			var ms []float64
			for _, v := range all {
				seqs, ms = append(seqs, v.Seq), append([]float64{v.MS}, ms...)
				if v.Bad {
					bad++
				}
			}
			if w.N != int64(len(all)) || w.Bad != bad || !slices.Equal(w.seqs(), seqs) || !slices.Equal(w.latencies(), ms) {
				t.Fatalf("%d with %d bad of %v, want %d with %d of %v", w.N, w.Bad, w.seqs(), len(all), bad, seqs)
			}
		}
	})
}

// TestNothingIsKeptForGood: what a running canary has at hand does not grow with
// its age.
func TestNothingIsKeptForGood(t *testing.T) {
	drop, lat := rate(SuccessDrop, 100, 1000, 3600), rate(LatencyRatio, 2, 1000, 3600)
	drop.Baseline, lat.Baseline = ptr(1.0), ptr(100.0)
	b := newBook(t)
	b.start("a", criteria(rate(FailureRate, 1, 1000, 3600), drop, lat))
	size := func() string {
		s := &b.f.state
		return fmt.Sprint(len(s.Calls), len(b.f.calls), len(b.f.byID), len(s.Last.Promises), len(s.Last.Windows[0].Values), len(s.Last.Windows[1].Values), len(s.Last.Windows[2].Values))
	}
	var after []string
	for week := range 12 {
		for day := range 7 {
			id := fmt.Sprint(week, "-", day)
			b.call(id, "set_flag", "", took(5))
			b.recheck(id, "confirmed")
			b.recheck(id, "not_confirmed")
			res, _ := b.predict(id, "confirmed")
			b.amend(id, res, "late_telemetry", "refuted")
			b.now = b.now.Add(24 * time.Hour)
		}
		b.week("2026-W48")
		after = append(after, size())
	}
	if last := after[len(after)-1]; last != after[5] || last != "29 29 29 7 2 2 1" {
		t.Errorf("%q", after)
	}
	if got := b.said(); got != "" {
		t.Error(got)
	}
}

// TestOverIsDeaf: once a canary is over nothing is looked at that cannot matter.
func TestOverIsDeaf(t *testing.T) {
	b := newBook(t)
	hears := func() string {
		out := ""
		for _, p := range []struct{ role, ns string }{
			{"operator", "production"}, {"resolver", "production"}, {"logger", "production"}, {"agent", Namespace}, {"dispatcher", Namespace},
			{"agent", "production"}, {"dispatcher", "production"}, {"sensor", "production"}, {"harness", Namespace},
		} {
			if b.f.hears(p.role, p.ns) {
				out += p.role + " "
			}
		}
		return out
	}
	if got := hears(); got != "operator " {
		t.Errorf("before the first: %s", got)
	}
	b.start("a")
	if got := hears(); got != "operator resolver logger agent dispatcher " {
		t.Errorf("while it runs: %s", got)
	}
	b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
	if got := hears(); got != "operator dispatcher " {
		t.Errorf("behind its end: %s", got)
	}
	b.call("1", "set_flag", "")
	if got := hears(); got != "operator " {
		t.Errorf("once a call behind it was told: %s", got)
	}
}
