package logger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// TestAppendEdges sends one batch of 30 events through each outcome of an
// append. Whatever happens, every event is stored once, where its receipt says.
func TestAppendEdges(t *testing.T) {
	for name, script := range map[string][]fault{
		"stored and acked":               {{}},
		"timed out but stored":           {{outcome: unacked}},
		"none stored":                    {{outcome: lost}},
		"none stored, three times":       {{outcome: lost}, {outcome: lost}, {outcome: lost}},
		"prefix stored":                  {{outcome: prefix, k: 7}},
		"prefix stored, twice":           {{outcome: prefix, k: 7}, {}, {outcome: prefix, k: 3}},
		"prefix stored, rest unacked":    {{outcome: prefix, k: 29}, {outcome: misleading}, {outcome: unacked}},
		"prefix stored, rest lost":       {{outcome: prefix, k: 1}, {}, {outcome: lost}},
		"lands after the end was read":   {{outcome: late}, {outcome: misleading}},
		"wrong sequence, yet not there":  {{outcome: misleading}},
		"lost, then stored without ack":  {{outcome: lost}, {outcome: unacked}},
		"stored without ack, twice late": {{outcome: late}, {outcome: misleading}, {outcome: misleading}},
	} {
		for _, failing := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("%s, %d reads fail", name, failing), func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				s := h.start()
				release := s.held()
				raws := gates(t, 30)
				p := s.submitBatch(principal.Agent, raws)
				h.s.then(script...)
				h.s.mu.Lock()
				h.s.failing = failing
				h.s.mu.Unlock()
				release()
				answers := p.all(len(raws))
				at := h.positions()
				for i, raw := range raws {
					h.checkReceipt(at, raw, answers[i])
				}
				if got := s.l.Status().State; got != logger.Serving {
					t.Errorf("state %s", got)
				}
				h.s.mu.Lock()
				h.s.failing = 0
				h.s.mu.Unlock()
				s.stop()
				h.fullySigned()
				h.s.forget()
				s = h.start()
				for i, raw := range raws {
					if again := s.must(principal.Agent, raw); again != answers[i] {
						t.Fatalf("after a restart %+v, first %+v", again, answers[i])
					}
				}
			})
		}
	}
}

func TestNothingIsAckedWhileUndecided(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	hold := make(chan struct{})
	h.s.then(fault{outcome: unacked}, fault{hold: hold})
	raw := gate(t)
	first := s.submit(principal.Agent, raw)
	s.awaitState(logger.Undecided)
	twin := s.submit(principal.Agent, raw)
	other := s.submit(principal.Agent, []byte(strings.Replace(string(raw), "KNOW", "TEST", 1)))
	next := s.submit(principal.Agent, gate(t))
	size, signed := s.l.Status().Size, s.l.Status().CheckpointSize
	for _, p := range []*promise{first, twin, other, next} {
		if !p.waits() {
			t.Error("answered while the append is undecided")
		}
	}
	if size != 2 || signed != 2 || h.s.len() != 3 {
		t.Errorf("size %d, signed %d, stream %d", size, signed, h.s.len())
	}
	close(hold)
	a := first.wait()
	h.checkReceipt(h.positions(), raw, a)
	if b := twin.wait(); b != a {
		t.Errorf("same bytes: %+v, want %+v", b, a)
	}
	if b := other.wait(); b.code() != "conflict" || b.Error.RetryAfter != nil {
		t.Errorf("other bytes: %+v", b)
	}
	if b := next.wait(); b.Error != nil {
		t.Errorf("%+v", b)
	}
	s.stop()
	h.fullySigned()
}

func TestDuplicateAndConflictWhileWaiting(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	release := s.held()
	raw := gate(t)
	other := []byte(strings.Replace(string(raw), "KNOW", "TEST", 1))
	ps := []*promise{s.submit(principal.Agent, raw), s.submit(principal.Agent, raw), s.submit(principal.Agent, other), s.submit(principal.Agent, raw)}
	batch := s.submit(principal.Agent, []byte("["+string(raw)+","+string(other)+"]"))
	// Another principal's use of the id is none of its business.
	foreign := s.submit(principal.Dispatcher, toolWithID(t, idOf(t, raw)))
	release()
	a := ps[0].wait()
	h.checkReceipt(h.positions(), raw, a)
	for i, want := range []string{"", "", "conflict", ""} {
		if b := ps[i].wait(); b.code() != want || want == "" && b != a {
			t.Errorf("%d: %+v", i, b)
		}
	}
	var as []answer
	if err := json.Unmarshal(batch.raw(), &as); err != nil || len(as) != 2 || as[0] != a || as[1].code() != "conflict" {
		t.Errorf("%s", batch.raw())
	}
	if b := foreign.wait(); b.Error != nil {
		t.Errorf("%+v", b)
	}
	// A refused id is not consumed.
	bad := []byte(strings.Replace(string(gate(t)), "KNOW", "NO", 1))
	s.mustRefuse(principal.Agent, bad, "bad_value")
	s.must(principal.Agent, []byte(strings.Replace(string(bad), `"NO"`, `"KNOW"`, 1)))
	s.stop()
	h.fullySigned()
}

func TestAnotherLoggerFences(t *testing.T) {
	for name, withPrefix := range map[string]bool{"instead of the batch": false, "behind a part of it": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.s.max = 25
			s := h.start()
			before := s.l.Status().CheckpointSize
			release := s.held()
			p := s.submitBatch(principal.Agent, gates(t, 25))
			next := s.submit(principal.Agent, gate(t)) // for the batch behind it
			barrier := fault{hold: make(chan struct{}), took: make(chan struct{})}
			if withPrefix {
				h.s.then(fault{outcome: prefix, k: 4})
			}
			h.s.then(barrier)
			release()
			<-barrier.took
			h.s.write(h.s.linked(t))
			close(barrier.hold)
			if err := s.wait(); !errors.Is(err, logger.ErrFenced) {
				t.Fatalf("run: %v", err)
			}
			for _, a := range p.all(25) {
				if a.code() != "unavailable" || a.Error.RetryAfter == nil {
					t.Errorf("%+v", a)
				}
			}
			if a := next.wait(); a.code() != "unavailable" {
				t.Errorf("%+v", a)
			}
			s.mustRefuse(principal.Agent, gate(t), "unavailable")
			st := s.l.Status()
			if st.State != logger.Stopped || st.Detail == "" {
				t.Errorf("%+v", st)
			}
			if r := h.audit(); *r.CheckpointSize > before+1 || r.Verdict != ledger.Consistent {
				t.Errorf("signed %d, before %d; %s", *r.CheckpointSize, before, r.Verdict)
			}
		})
	}
}

func TestRolledBackStreamStopsTheLogger(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	for range 5 {
		s.must(principal.Agent, gate(t))
	}
	h.s.truncate(4)
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	if err := s.wait(); !errors.Is(err, logger.ErrBehind) {
		t.Fatalf("run: %v", err)
	}
	if h.s.len() != 4 {
		t.Error("appended to a stream that was rolled back")
	}
	s.end()
	h.refuses(logger.ErrBehind)
}

func TestLostMessageStopsTheLogger(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	h.s.then(fault{outcome: unacked})
	h.s.mu.Lock()
	h.s.missing = map[int]int{3: 1}
	h.s.mu.Unlock()
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	if err := s.wait(); !errors.Is(err, ledger.ErrCorrupt) {
		t.Fatalf("run: %v", err)
	}
}

func TestForeignMessageWhileRunning(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	release := s.held()
	raws := gates(t, 25)
	p := s.submitBatch(principal.Agent, raws)
	// Four of ours are stored, then come two that nobody knows; their first
	// reading fails.
	barrier := fault{hold: make(chan struct{}), took: make(chan struct{})}
	h.s.then(fault{outcome: prefix, k: 4}, barrier)
	release()
	<-barrier.took
	one := h.s.write([]byte("somebody else's"))
	strange := ledger.AppendRecord(nil, ledger.Header{
		Seq: one, Prev: ledger.Leaf([]byte("somebody else's")), RecordedAt: h.clock.Wall(), Principal: "logger/main", Namespace: "production",
	}, gate(t)) // linked, but at another position than it says
	two := h.s.write(strange)
	h.s.mu.Lock()
	h.s.failing = 3
	h.s.mu.Unlock()
	close(barrier.hold)
	s.awaitState(logger.ForeignIn)
	at := h.positions()
	for i, a := range p.all(len(raws)) {
		switch {
		case i < 4:
			h.checkReceipt(at, raws[i], a)
		case a.code() != "unavailable" || a.Error.RetryAfter == nil:
			t.Errorf("%d: %+v", i, a)
		}
	}
	h.s.forget()

	// Nothing but the operator's right word is taken, and nothing is signed.
	shaOne, shaTwo := ledger.Leaf([]byte("somebody else's")).String(), ledger.Leaf(strange).String()
	refuseAll := func(s *session) {
		t.Helper()
		n := h.s.len()
		for who, raw := range map[principal.Role][]byte{
			principal.Agent:    gate(t),
			principal.Resolver: []byte("garbage"),
			principal.Operator: ackOf(t, one, shaTwo),
			principal.Harness:  ackOf(t, one, shaOne),
		} {
			s.mustRefuse(who, raw, "unavailable")
		}
		s.mustRefuse(principal.Operator, ackOf(t, one+7, shaOne), "unavailable")
		s.mustRefuse(principal.Operator, []byte("garbage"), "unavailable")
		s.mustRefuse(principal.Agent, raws[0], "unavailable")
		if h.s.len() != n {
			t.Errorf("the stream grew to %d", h.s.len())
		}
	}
	refuseAll(s)
	s.stop()
	if r := h.audit(); *r.CheckpointSize >= uint64(one) {
		t.Errorf("signed %d over a foreign message", *r.CheckpointSize)
	}

	s = h.start() // the state survives
	if st := s.l.Status(); st.State != logger.ForeignIn || !strings.Contains(st.Detail, shaOne) {
		t.Errorf("%+v", st)
	}
	refuseAll(s)
	s.sources[principal.Agent].Submit(gate(t), nil) // counted, once something may be written
	ack := ackOf(t, one, shaOne)
	h.s.then(fault{outcome: lost}, fault{outcome: unacked}) // undecided in between
	receipt := s.must(principal.Operator, ack)
	if st := s.l.Status(); st.State != logger.ForeignIn || st.CheckpointSize >= uint64(one) {
		t.Errorf("after the first of two: %+v", st)
	}
	refuseAll(s)
	s.must(principal.Operator, ackOf(t, two, shaTwo))
	s.awaitState(logger.Serving)
	if again := s.must(principal.Operator, ack); again != receipt {
		t.Errorf("%+v, want %+v", again, receipt)
	}
	for _, raw := range raws {
		s.must(principal.Agent, raw)
	}
	s.stop()
	h.fullySigned()
	r := h.audit()
	if len(r.Foreign) != 2 || !r.Foreign[0].Acknowledged || !r.Foreign[1].Acknowledged {
		t.Errorf("%+v", r.Foreign)
	}
	at = h.positions()
	for _, raw := range raws {
		if len(at[string(raw)]) != 1 {
			t.Errorf("stored at %v", at[string(raw)])
		}
	}
	counted := int64(0)
	for _, p := range own[*events.IntakeRejected](h) {
		if p.Code == "unavailable" && p.Principal == "agent/piper" {
			counted += p.Count
		}
	}
	if counted != 1 {
		t.Errorf("%d events without reply were counted", counted)
	}
	if n := len(own[*events.LoggerStarted](h)); n != 2 {
		t.Errorf("%d logger.started, want one for each start", n)
	}
}

func TestForeignMessageAtStart(t *testing.T) {
	for name, indexLost := range map[string]bool{"with its index": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			s := h.start()
			raw := gate(t)
			first := s.must(principal.Agent, raw)
			s.stop()
			seq := h.s.write([]byte("{}"))
			if indexLost {
				h.removeIndex()
			}
			s = h.start()
			if st := s.l.Status(); st.State != logger.ForeignIn || st.CheckpointSize != uint64(seq-1) {
				t.Errorf("%+v", st)
			}
			s.mustRefuse(principal.Agent, gate(t), "unavailable")
			h.clock.pass(time.Minute) // not even a tick is written
			s.mustRefuse(principal.Agent, gate(t), "unavailable")
			if h.s.len() != int(seq) {
				t.Errorf("the stream grew to %d", h.s.len())
			}
			s.must(principal.Operator, ackOf(t, seq, ledger.Leaf([]byte("{}")).String()))
			if again := s.must(principal.Agent, raw); again != first {
				t.Errorf("%+v, want %+v", again, first)
			}
			s.stop()
			h.fullySigned()
			if r := h.audit(); len(r.Foreign) != 1 || !r.Foreign[0].Acknowledged {
				t.Errorf("%+v", r.Foreign)
			}
			h.s.forget()
			if indexLost {
				h.removeIndex()
			}
			s = h.start() // an acknowledged message is no news
			s.awaitState(logger.Serving)
		})
	}
}

func TestForeignMessageBesideTheStart(t *testing.T) {
	h := newHouse(t)
	h.s.then(fault{outcome: stranger, body: []byte("x")})
	s := h.start()
	s.awaitState(logger.ForeignIn)
	s.must(principal.Operator, ackOf(t, 2, ledger.Leaf([]byte("x")).String()))
	s.must(principal.Agent, gate(t))
	s.stop()
	h.fullySigned()
	if n := len(own[*events.LoggerStarted](h)); n != 1 {
		t.Errorf("%d logger.started", n)
	}
}

func TestLowWaterMark(t *testing.T) {
	h := newHouse(t)
	h.cfg.LowWater = 1000
	s := h.start()
	s.must(principal.Agent, gate(t))
	happened := func() []byte {
		return encode(t, &events.OutcomeRecorded{What: "it works", Source: "operator_report"})
	}
	for _, step := range []struct {
		free                      uint64
		state                     logger.State
		agent, operator, resolver string
	}{
		{999, logger.LowDisk, "unavailable", "", ""},
		{500, logger.LowDisk, "unavailable", "", ""},
		{499, logger.LowDisk, "unavailable", "unavailable", "unavailable"},
		{0, logger.LowDisk, "unavailable", "unavailable", "unavailable"},
		{700, logger.LowDisk, "unavailable", "", ""},
		{1000, logger.Serving, "", "", ""},
	} {
		h.free.Store(step.free)
		h.clock.pass(time.Second)
		before := h.s.len()
		for role, want := range map[principal.Role]string{principal.Operator: step.operator, principal.Resolver: step.resolver} {
			if a := s.ask(role, happened()); a.code() != want {
				t.Errorf("%d free: %s %+v", step.free, role, a)
			}
		}
		a := s.ask(principal.Agent, gate(t))
		if a.code() != step.agent || step.agent != "" && a.Error.RetryAfter == nil {
			t.Errorf("%d free: agent %+v", step.free, a)
		}
		if st := s.l.Status(); st.State != step.state {
			t.Errorf("%d free: %+v", step.free, st)
		}
		if step.operator != "" {
			h.clock.pass(time.Minute) // no tick either
			s.mustRefuse(principal.Agent, []byte("garbage"), "unavailable")
			if n := h.s.len(); n != before {
				t.Errorf("%d free: the stream grew by %d", step.free, n-before)
			}
		}
	}
	// An undecided append ends in the state that the disk is in.
	h.free.Store(700)
	h.clock.pass(time.Second)
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	h.s.then(fault{outcome: lost}, fault{outcome: unacked})
	s.must(principal.Operator, happened())
	if st := s.l.Status(); st.State != logger.LowDisk {
		t.Errorf("%+v", st)
	}
	s.stop()
	h.fullySigned()
}

func TestClock(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	touch := func() time.Time {
		t.Helper()
		a := s.must(principal.Agent, gate(t))
		at, err := time.Parse(time.RFC3339Nano, a.RecordedAt)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	start := touch()
	for range 3 { // readings at ease: no step
		h.clock.pass(2 * time.Second)
		touch()
	}
	if n := len(own[*events.ClockStepped](h)); n != 0 {
		t.Fatalf("%d steps", n)
	}
	h.clock.move(time.Second, -time.Hour)
	back := touch()
	if back.Before(start.Add(6 * time.Second)) {
		t.Errorf("recorded_at went back from %s to %s", start, back)
	}
	h.clock.move(time.Second, 3*time.Hour)
	if forth := touch(); !forth.Equal(start.Add(2*time.Hour + 8*time.Second)) {
		t.Errorf("%s", forth)
	}
	h.clock.pass(10 * time.Second)
	touch()
	steps, ticks := own[*events.ClockStepped](h), own[*events.ClockTicked](h)
	if len(steps) != 2 || steps[0].StepNS != int64(-time.Hour) || steps[1].StepNS != int64(3*time.Hour) {
		t.Errorf("%+v", steps)
	}
	if len(ticks) != 1 || ticks[0].BootID != "boot-1" || ticks[0].MonotonicDeltaNS != int64(10*time.Second) {
		t.Errorf("%+v", ticks)
	}
	s.stop()

	h.clock.move(0, -24*time.Hour) // while no logger runs
	h.s.forget()
	s = h.start()
	touch()
	if steps = own[*events.ClockStepped](h); len(steps) != 3 || steps[2].StepNS != int64(-24*time.Hour) {
		t.Errorf("%+v", steps)
	}
	s.stop()
	h.fullySigned() // which includes that recorded_at never goes back
}

// TestIdleTick needs no event to wake the logger.
func TestIdleTick(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	h.clock.pass(time.Second)
	s.must(principal.Agent, gate(t))
	h.clock.pass(11 * time.Second)
	await(t, "clock.ticked", func() bool { return len(own[*events.ClockTicked](h)) == 1 })
	s.stop()
	h.fullySigned()
}

func TestAnAppendLandsBesideAStart(t *testing.T) {
	// The last append of a logger that was killed lands after the next one
	// has read the end.
	h := newHouse(t)
	s := h.start()
	a := gate(t)
	h.s.then(fault{outcome: lost}, fault{outcome: late})
	h.s.then(slices.Repeat([]fault{{outcome: lost}}, 100)...)
	p := s.submit(principal.Agent, a)
	await(t, "a late append", func() bool {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		return h.s.landing != nil
	})
	s.cancel()
	if got := p.wait(); got.code() != "unavailable" {
		t.Fatalf("%+v", got)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	h.s.mu.Lock()
	clear(h.s.attempts)
	h.s.script = nil
	h.s.mu.Unlock()
	s = h.start()
	h.checkReceipt(h.positions(), a, s.must(principal.Agent, a))
	s.stop()
	h.fullySigned()
}

func TestAStartGivesWayToAnotherLogger(t *testing.T) {
	h := newHouse(t)
	h.s.then(fault{outcome: stranger, body: h.s.linked(t)})
	l, err := h.open()
	if err != nil {
		t.Fatal(err) // one record may be what a killed logger left
	}
	l.Close()
	h.cfg.Stream = racer{h.s, t}
	h.s.forget()
	h.refuses(logger.ErrFenced)
}

// racer is a stream to which another logger is always quicker to append.
type racer struct {
	*memStream
	t tb
}

func (r racer) Append(ctx context.Context, first ledger.Seq, msgs []stream.Message) error {
	r.write(r.linked(r.t))
	return r.memStream.Append(ctx, first, msgs)
}

func idOf(t tb, raw []byte) string {
	t.Helper()
	ev, err := events.DecodeEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	return ev.ID
}

func toolWithID(t tb, id string) []byte {
	t.Helper()
	return []byte(strings.Replace(string(mustTool(t)), `"ID"`, `"`+id+`"`, 1))
}

// A step is in the ledger before any record that carries the time behind it,
// however little time passed since the clocks were last compared.
func TestAStepComesBeforeTheTimeBehindIt(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	h.clock.move(10*time.Millisecond, 3*time.Hour)
	a := s.must(principal.Agent, gate(t))
	s.stop()
	steps := own[*events.ClockStepped](h)
	if len(steps) != 1 || steps[0].StepNS != int64(3*time.Hour) {
		t.Fatalf("%+v", steps)
	}
	before, err := ledger.ParseRecord(h.s.all()[a.Seq-2])
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := events.Decode(before.Event); err != nil || ev.Type != events.TypeClockStepped {
		t.Errorf("before the stepped record stands %v, %v", ev, err)
	}
	h.fullySigned()
}
