package logger_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// closings are the weeks that the ledger closes.
func (h *house) closings() (out []string) {
	h.t.Helper()
	for i, body := range h.s.all() {
		r, err := ledger.ParseRecord(body)
		if err != nil {
			continue
		}
		ev, err := events.Decode(r.Event)
		if err != nil {
			h.t.Fatal(err)
		}
		d, ok := ev.Data.(*events.WeekClosed)
		if ok {
			if want := events.DerivedID(events.TypeWeekClosed, d.Zone, d.Week).String(); ev.ID != want || ev.Time != d.End || r.Principal != logger.Principal {
				h.t.Errorf("record %d: %s", i+1, r.Event)
			}
			out = append(out, d.Week)
		}
	}
	return out
}

func (h *house) wantClosings(want ...string) {
	h.t.Helper()
	if got := h.closings(); !slices.Equal(got, want) {
		h.t.Errorf("closed are %v, want %v", got, want)
	}
}

const day = 24 * time.Hour

// The house's clock begins on a Saturday, in 2026-W40.

func TestWeekIsClosedBeforeTheNextRecord(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	h.clock.pass(36*time.Hour - time.Minute)
	s.must(principal.Agent, gate(t))
	h.wantClosings()
	h.clock.pass(time.Minute)
	s.must(principal.Agent, gate(t))
	h.wantClosings("2026-W40")
	s.stop()
	s = h.start() // nothing is left to close
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40")
	h.fullySigned()
}

// Nobody has to write anything for a week to be closed.
func TestWeekIsClosedInSilence(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	h.clock.pass(36 * time.Hour)
	await(t, "week.closed", func() bool { return len(own[*events.WeekClosed](h)) > 0 })
	s.stop()
	h.wantClosings("2026-W40")
	h.consistent()
}

// A step is recorded before anything carries the time behind it: week.closed too.
func TestWeekIsClosedBehindAStep(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	h.clock.move(time.Second, 20*day)
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40")
	h.fullySigned()
	var got []string
	for _, body := range h.s.all()[3:] {
		r, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := events.DecodeEnvelope(r.Event)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Type)
	}
	want := []string{events.TypeClockStepped, events.TypeWeekClosed}
	if !slices.Equal(got[:2], want) {
		t.Errorf("%v", got)
	}
}

// A logger that starts behind a step, a foreign message and its acknowledgement
// still finds the week that is to be closed.
func TestWeekIsFoundBehindWhatBypassesIt(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	h.clock.pass(2 * day)
	h.s.then(fault{outcome: stranger, body: []byte("x")})
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	s.awaitState(logger.ForeignIn)
	h.s.forget()
	release := make(chan struct{})
	took := make(chan struct{})
	h.s.then(fault{}, fault{outcome: lost, hold: release, took: took}) // the ack, and whatever is next
	s.must(principal.Operator, ackOf(t, 3, ledger.Leaf([]byte("x")).String()))
	<-took
	s.cancel()
	close(release)
	_ = s.end() // undecided
	h.s.forget()
	h.wantClosings()
	s = h.start()
	s.stop()
	h.wantClosings("2026-W40")
	h.fullySigned()
}

// Only weeks that held a record are closed, however long nobody ran.
func TestWeeksWithoutRecordsAreNotClosed(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	h.clock.pass(100 * day)
	s = h.start()
	h.wantClosings("2026-W40")
	if started := own[*events.LoggerStarted](h); started[1].HeadSeq != 4 { // week.closed
		t.Errorf("logger.started names head %d", started[1].HeadSeq)
	}
	h.clock.pass(7 * day)
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40", "2027-W02")
	h.fullySigned()
}

func TestWeekIsClosedOnceWhateverHappens(t *testing.T) {
	for name, fs := range map[string][]fault{
		"lost":       {{outcome: lost}, {outcome: lost}},
		"unacked":    {{outcome: unacked}},
		"a part":     {{outcome: prefix, k: 1}},
		"late":       {{outcome: late}},
		"misleading": {{outcome: misleading}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			s := h.start()
			h.clock.pass(2 * day)
			h.s.then(fs...)
			s.must(principal.Agent, gate(t))
			s.stop()
			s = h.start()
			s.must(principal.Agent, gate(t))
			s.stop()
			h.wantClosings("2026-W40")
			h.fullySigned()
		})
	}
}

// A stop between week.closed and what it was chained for leaves nothing open.
func TestWeekClosedAloneIsEnough(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	h.clock.pass(2 * day)
	h.s.then(fault{outcome: prefix, k: 1}, fault{outcome: lost})
	l, err := h.openWithin(300 * time.Millisecond) // the rest of its batch does not arrive
	if err == nil {
		l.Close()
	}
	h.s.forget()
	s = h.start()
	s.stop()
	h.wantClosings("2026-W40")
	h.fullySigned()
}

// A foreign message gets between: the week is closed with the operator's word.
func TestWeekIsClosedBehindAForeignMessage(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	h.clock.pass(2 * day)
	h.s.then(fault{outcome: stranger, body: []byte("x")})
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	s.awaitState(logger.ForeignIn)
	h.wantClosings()
	s.must(principal.Operator, ackOf(t, 3, ledger.Leaf([]byte("x")).String()))
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40")
	h.fullySigned()
}

// Ledger time does not go back, and so no week ends twice.
func TestWeekAndAClockThatIsSetBack(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	h.clock.pass(2 * day)
	s.must(principal.Agent, gate(t))
	h.clock.move(time.Second, -5*day)
	s.must(principal.Agent, gate(t))
	s.stop()
	s = h.start()
	s.must(principal.Agent, gate(t))
	h.clock.pass(13 * day)
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40", "2026-W41")
}

func TestWeekOfAZone(t *testing.T) {
	h := emptyHouse(t, t.TempDir())
	h.cfg.WeekZone = "Nowhere/At_All"
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); !errors.Is(err, logger.ErrZone) {
		t.Fatalf("genesis: %v", err)
	}
	h.cfg.WeekZone = "Pacific/Auckland" // Sunday, 01:00
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); err != nil {
		t.Fatal(err)
	}
	if zone := logger.ReadZone(h.s.all()[0]); zone != "Pacific/Auckland" {
		t.Errorf("record 1 says %q", zone)
	}
	h.cfg.WeekZone = "" // a start reads it from record 1
	s := h.start()
	h.clock.pass(23*time.Hour - time.Second)
	s.must(principal.Agent, gate(t))
	h.wantClosings()
	h.clock.pass(time.Second)
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40")
	closed := own[*events.WeekClosed](h)[0]
	if closed.Zone != "Pacific/Auckland" || closed.Start != "2026-09-27T11:00:00Z" || closed.End != "2026-10-04T11:00:00Z" {
		t.Errorf("%+v", closed)
	}
}

func TestOpeningNamesOneZone(t *testing.T) {
	h := emptyHouse(t, t.TempDir())
	h.cfg.WeekZone = "Europe/Berlin"
	h.cfg.Prepare = func(string, []byte, fs.FileMode) (logger.Pending, error) { return nil, errors.New("no checkpoint") }
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); err == nil {
		t.Fatal("the first attempt was to fail")
	}
	h.cfg.Prepare = nil
	h.cfg.WeekZone = "Europe/Paris"
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); !errors.Is(err, logger.ErrOtherZone) {
		t.Fatalf("genesis: %v", err)
	}
	h.cfg.WeekZone = ""
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); err != nil {
		t.Fatal(err)
	}
}

// ledger.restored stands right behind what the backup held; the week of that is
// closed behind it.
func TestWeekIsClosedBehindALoss(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	h.clock.pass(9 * day)
	size := uint64(h.s.len())
	loss := logger.Loss{Size: size, KnownSize: size + 3, KnownRoot: ledger.Leaf([]byte("lost")), AcceptedBy: "operator/main"}
	for range 2 {
		if err := logger.Restored(context.Background(), h.cfg, loss); err != nil {
			t.Fatal(err)
		}
	}
	h.wantClosings()
	s = h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	h.wantClosings("2026-W40")
	h.fullySigned()
	r, err := ledger.ParseRecord(h.s.all()[size])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := ledger.ParseLoss(&r); !ok {
		t.Errorf("record %d declares no loss: %s", size+1, r.Event)
	}
	s = h.start()
	s.stop()
	h.wantClosings("2026-W40")
}
