package logger_test

import (
	"slices"
	"testing"
	"time"

	"assay/internal/principal"
	"assay/ledger/logger"
)

// Nobody hangs behind an append that has no outcome: at once where the reason is
// a full disk or a storage limit, else after a while, everybody is answered
// `unavailable`, and whoever asks again later gets the receipt of what was stored.
func TestNobodyHangsBehindAnUndecidedAppend(t *testing.T) {
	for _, c := range []struct {
		name string
		then outcome // of the append that is held
		why  func(h *house)
		want logger.State // while it is undecided
		mend func(h *house)
	}{
		{"full disk, not stored", lost, func(h *house) { h.free.Store(0) }, logger.LowDisk, func(h *house) { h.free.Store(1 << 40) }},
		{"full disk, stored", unacked, func(h *house) { h.free.Store(0) }, logger.LowDisk, func(h *house) { h.free.Store(1 << 40) }},
		{"no answer", unacked, func(h *house) { h.clock.pass(6 * time.Second) }, logger.Undecided, func(*house) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.s.max = 4
			s := h.start()
			f := fault{outcome: c.then, hold: make(chan struct{}), took: make(chan struct{})}
			again := fault{outcome: lost, hold: make(chan struct{}), took: make(chan struct{})}
			h.s.then(f, again)
			// Three in one message, of which the first is under way, the next
			// are built, and two more that stay in the queue.
			raws := gates(t, 30)
			first := s.submit(principal.Agent, raws[0])
			<-f.took
			batch := s.submitBatch(principal.Agent, raws[1:28])
			alone := s.submit(principal.Agent, raws[28])
			silent := gate(t)
			s.sources[principal.Dispatcher].Submit(toolWithID(t, idOf(t, silent)), nil)
			c.why(h)
			for _, a := range append(batch.all(27), first.wait(), alone.wait()) {
				if a.code() != "unavailable" || a.Error.RetryAfter == nil {
					t.Fatalf("%+v", a)
				}
			}
			// What comes later waits for nothing either.
			s.mustRefuse(principal.Agent, raws[29], "unavailable")
			close(f.hold)
			<-again.took
			if st := s.l.Status(); st.State != c.want || st.Waiting != 0 {
				t.Errorf("undecided: %+v", st)
			}
			s.mustRefuse(principal.Operator, gate(t), "unavailable")
			c.mend(h)
			close(again.hold)
			h.clock.pass(time.Second) // the room is looked at once a second
			s.awaitState(logger.Serving)
			answers := make([]answer, len(raws))
			for i, raw := range raws {
				answers[i] = s.must(principal.Agent, raw)
			}
			at := h.positions()
			for i, raw := range raws {
				h.checkReceipt(at, raw, answers[i])
			}
			s.stop()
			h.fullySigned()
		})
	}
}

// A storage limit is known from the broker's answer alone.
func TestStorageLimit(t *testing.T) {
	h := newHouse(t)
	h.cfg.FreeBytes = nil
	s := h.start()
	h.s.then(slices.Repeat([]fault{{outcome: limit}}, 5)...)
	raw := gate(t)
	s.mustRefuse(principal.Agent, raw, "unavailable")
	if st := s.l.Status(); st.State != logger.LowDisk {
		t.Errorf("%+v", st)
	}
	s.awaitState(logger.Serving)
	h.checkReceipt(h.positions(), raw, s.must(principal.Agent, raw))
	s.stop()
	h.fullySigned()
}

// A logger that starts on a full disk writes nothing, not even that it started,
// until there is room; then that comes first.
func TestStartOnAFullDisk(t *testing.T) {
	h := newHouse(t)
	h.free.Store(0)
	s := h.start()
	if st := s.l.Status(); st.State != logger.LowDisk || h.s.len() != 1 {
		t.Fatalf("%d records, %+v", h.s.len(), st)
	}
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	h.free.Store(1 << 40)
	h.clock.pass(time.Second)
	raw := gate(t)
	if a := s.must(principal.Agent, raw); a.Seq != 3 {
		t.Errorf("the first event is record %d, behind ledger.opened and logger.started it is 3", a.Seq)
	}
	s.stop()
	h.fullySigned()
}
