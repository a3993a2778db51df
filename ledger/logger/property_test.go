package logger_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// world is what a property knows of one ledger under random faults.
type world struct {
	*house
	t        *rapid.T
	scratch  string
	s        *session
	sent     [][]byte
	receipts map[string]answer
	foreign  []ledger.Seq
	saved    string // copy of the logger's directory from some earlier stop
	copies   int
}

var outcomes = []outcome{stored, unacked, lost, prefix, late, misleading}

// TestAnyFaultsKeepThePromises: whatever faults, restarts and lost directories
// come between, an event that was acked is in the stream once, where its first
// receipt says, no event is there twice, and the checkpoints hold.
func TestAnyFaultsKeepThePromises(t *testing.T) {
	t.Parallel()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		// A round opens a logger several times, with its fsyncs.
		if err := f.Value.Set("15"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		w := &world{house: houseIn(rt, dir), t: rt, scratch: dir, receipts: map[string]answer{}}
		w.s = w.start()
		defer func() { w.s.end() }()
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"submit", "submit", "submit", "again", "restart", "crash", "foreign", "time"}).Draw(rt, "step") {
			case "submit":
				w.submit(gates(rt, rapid.SampledFrom([]int{1, 2, 30}).Draw(rt, "events")))
			case "again":
				if len(w.sent) > 0 {
					w.submit([][]byte{rapid.SampledFrom(w.sent).Draw(rt, "which")})
				}
			case "restart":
				w.restart(false)
			case "crash":
				w.restart(true)
			case "foreign":
				w.meetForeign()
			case "time":
				w.clock.move(rapid.SampledFrom(durations).Draw(rt, "passed"), rapid.SampledFrom(durations).Draw(rt, "jump")-durations[2])
			}
		}
		w.finish()
	})
}

var durations = []time.Duration{0, time.Second, 11 * time.Second, time.Hour, 80 * time.Hour}

// submit sends the events, as one batch or one by one, into random faults.
func (w *world) submit(raws [][]byte) {
	w.misfortune()
	if len(raws) > 1 && rapid.Bool().Draw(w.t, "batch") {
		for i, a := range w.s.submitBatch(principal.Agent, raws).all(len(raws)) {
			w.note(raws[i], a)
		}
		return
	}
	ps := make([]*promise, len(raws))
	for i, raw := range raws {
		ps[i] = w.s.submit(principal.Agent, raw)
	}
	for i, p := range ps {
		w.note(raws[i], p.wait())
	}
}

func (w *world) note(raw []byte, a answer) {
	w.sent = append(w.sent, raw)
	if a.Error != nil {
		w.t.Fatalf("%+v", *a.Error)
	}
	if first, again := w.receipts[string(raw)]; again && a != first {
		w.t.Fatalf("receipt %+v, the first was %+v", a, first)
	}
	w.receipts[string(raw)] = a
}

// misfortune scripts up to three faults, some failing reads included.
func (w *world) misfortune() {
	for range rapid.IntRange(0, 3).Draw(w.t, "faults") {
		w.house.s.then(fault{outcome: rapid.SampledFrom(outcomes).Draw(w.t, "outcome"), k: rapid.IntRange(0, 29).Draw(w.t, "k")})
	}
	w.house.s.mu.Lock()
	w.house.s.failing = rapid.SampledFrom([]int{0, 0, 1}).Draw(w.t, "failing reads")
	w.house.s.mu.Unlock()
}

// restart stops the logger, perhaps with an append undecided. After a crash
// the directories of the index and the checkpoint may be those of an earlier
// stop, or the index be gone.
func (w *world) restart(crash bool) {
	w.misfortune()
	for range 50 {
		w.house.s.then(fault{outcome: lost})
	}
	raw := gate(w.t)
	p := w.s.submit(principal.Agent, raw)
	if err := w.s.end(); err != nil {
		w.t.Fatal(err)
	}
	w.sent = append(w.sent, raw) // stored or not; if acked, then for good
	if a := p.wait(); a.Error == nil {
		w.receipts[string(raw)] = a
	} else if a.code() != "unavailable" {
		w.t.Fatalf("%+v", *a.Error)
	}
	if crash {
		w.crash()
	} else {
		w.save()
	}
	w.house.s.mu.Lock()
	landing := w.house.s.landing
	w.house.s.mu.Unlock()
	w.house.s.forget()
	w.house.s.mu.Lock()
	w.house.s.landing, w.house.s.failing = landing, 0
	w.house.s.mu.Unlock()
	w.s = w.start()
}

func (w *world) save() {
	w.copies++
	w.saved = filepath.Join(w.scratch, "copy", strings.Repeat("i", w.copies))
	copyDir(w.t, w.cfg.Dir, w.saved)
}

func (w *world) crash() {
	names := rapid.SampledFrom([][]string{{"index"}, {"checkpoint"}, {"index", "checkpoint"}, {}}).Draw(w.t, "rewound")
	for _, name := range names {
		if w.saved == "" {
			continue
		}
		remove(w.t, filepath.Join(w.cfg.Dir, name))
		copyDir(w.t, filepath.Join(w.saved, name), filepath.Join(w.cfg.Dir, name))
	}
	if rapid.Bool().Draw(w.t, "index lost") {
		w.removeIndex()
	}
}

// meetForeign has somebody else write, here and there across a restart, and
// the operator acknowledge it.
func (w *world) meetForeign() {
	body := []byte("foreign " + string(rune('a'+len(w.foreign))))
	w.house.s.mu.Lock()
	w.house.s.script, w.house.s.failing = nil, 0
	w.house.s.mu.Unlock()
	seq := w.house.s.write(body)
	raw := gate(w.t)
	if a := w.s.ask(principal.Agent, raw); a.code() != "unavailable" {
		w.t.Fatalf("%+v", a)
	}
	w.s.awaitState(logger.ForeignIn)
	w.house.s.forget()
	if rapid.Bool().Draw(w.t, "restart while foreign") {
		if err := w.s.end(); err != nil {
			w.t.Fatal(err)
		}
		w.house.s.forget()
		w.s = w.start()
	}
	if n := w.s.l.Status().CheckpointSize; n >= uint64(seq) {
		w.t.Fatalf("signed %d over message %d", n, seq)
	}
	w.misfortune()
	w.s.must(principal.Operator, ackOf(w.t, seq, ledger.Leaf(body).String()))
	w.foreign = append(w.foreign, seq)
	w.note(raw, w.s.ask(principal.Agent, raw))
}

func (w *world) finish() {
	w.house.s.mu.Lock()
	w.house.s.script, w.house.s.failing = nil, 0
	w.house.s.mu.Unlock()
	for _, raw := range w.sent { // the index agrees with the stream
		a := w.s.must(principal.Agent, raw)
		if first, acked := w.receipts[string(raw)]; acked && a != first {
			w.t.Fatalf("receipt %+v, the first was %+v", a, first)
		}
		w.receipts[string(raw)] = a
	}
	if err := w.s.end(); err != nil {
		w.t.Fatal(err)
	}
	w.fullySigned()
	at := w.positions()
	for raw, a := range w.receipts {
		w.checkReceipt(at, []byte(raw), a)
	}
	for raw, seqs := range at {
		if len(seqs) != 1 {
			w.t.Fatalf("stored at %v: %s", seqs, raw)
		}
	}
	if r := w.audit(); len(r.Foreign) != len(w.foreign) {
		w.t.Fatalf("%+v, want messages %v", r.Foreign, w.foreign)
	}
}
