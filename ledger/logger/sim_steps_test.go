package logger_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/internal/kv/kvtest"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// Who publishes, by their place in sim.who.
const (
	simAgent    = 0
	simOperator = 4
	simQuick    = 5 // few rejections of its own, receipts without seq
)

// schedule runs the whole of it: some steps under faults, then a start without
// any, which has to make everything good.
func (s *sim) schedule(o *opening) {
	if s.rng.IntN(8) == 0 {
		s.genesis()
	} else {
		s.opened(o)
	}
	for range 3 + s.rng.IntN(14) {
		s.rest(s.pause())
		if s.in == nil {
			s.whileDown()
		} else {
			s.whileUp()
		}
		s.rest(0)
		s.notice()
	}
	s.heal()
}

func (s *sim) pause() time.Duration {
	top := []time.Duration{50 * time.Microsecond, 3 * time.Millisecond, 60 * time.Millisecond, 2500 * time.Millisecond}[s.rng.IntN(4)]
	return between(s.rng, time.Microsecond, top)
}

// rest lets everything go on for d, until nothing moves.
func (s *sim) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// notice reaps a logger that ended by itself or crashed.
func (s *sim) notice() {
	if s.in == nil {
		return
	}
	s.mu.Lock()
	dead := s.in.dead
	s.mu.Unlock()
	if dead || len(s.in.ended) > 0 {
		s.reap()
	}
}

// opening is what an undisturbed Genesis leaves.
type opening struct {
	body  []byte
	disk  *kvtest.Disk
	files map[string][]byte
}

// opened takes over an opening, as if Genesis had just made it.
func (s *sim) opened(o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream.store(o.body)
	s.disk = o.disk.Crash(100, s.rng)
	for name, data := range o.files {
		s.files.durable[name] = data
		write(s.t, s.path(name), string(data))
	}
	s.files.measure(s)
}

// genesis opens the ledger, under faults unless the schedule is calm.
func (s *sim) genesis() {
	fates := s.hostility.fates
	s.hostility.fates = slices.DeleteFunc(slices.Clone(fates), func(f fate) bool { return f == fateStranger || f == fateIntruder })
	calm := s.calm
	for try := 0; ; try++ {
		s.calm = calm || try > 8
		in, cfg, ctx := s.incarnate()
		err := logger.Genesis(ctx, cfg, recoveryHash)
		in.cancel()
		s.mu.Lock()
		s.log("genesis: %v", err)
		done := err == nil && !in.dead
		if done {
			s.files.synced(s) // as Genesis does with what it finds
		}
		if !done && in.faults == 0 && !in.dead {
			s.violate("genesis: %v", err)
			done = true
		}
		s.gone(in)
		s.mu.Unlock()
		if done {
			break
		}
		s.rest(s.pause())
	}
	s.calm, s.hostility.fates = calm, fates
}

func (s *sim) whileDown() {
	switch s.rng.IntN(10) {
	case 0:
		s.strange()
	case 1:
		s.mu.Lock()
		s.intrude()
		s.mu.Unlock()
	case 2:
		s.refuses()
	case 3:
		s.clock.move(time.Duration(s.rng.IntN(20))*time.Second, s.jump())
	default:
		s.start()
	}
}

func (s *sim) whileUp() {
	switch s.rng.IntN(24) {
	default:
		s.submit(s.fresh(1)...)
	case 4, 5:
		for _, ev := range s.fresh(2 + s.rng.IntN(30)) {
			s.submit(ev)
		}
	case 6, 7:
		s.submit(s.fresh(2 + s.rng.IntN(40))...)
	case 8, 9:
		s.again()
	case 10:
		s.conflict()
	case 11, 12:
		s.rubbish()
	case 13:
		s.stop()
	case 14:
		s.mu.Lock()
		if !s.in.dead {
			s.crash(s.in, 100)
		}
		s.mu.Unlock()
		s.reap()
	case 15:
		s.clock.move(time.Duration(s.rng.IntN(20))*time.Second, s.jump())
	case 16:
		s.free.Store([]uint64{1 << 40, 1 << 40, 999, 400}[s.rng.IntN(4)])
	case 17:
		if s.rng.IntN(2) == 0 {
			s.strange()
		}
	case 18, 19:
		s.acknowledge()
	case 20:
		if s.rng.IntN(3) == 0 {
			s.mu.Lock()
			s.intrude()
			s.mu.Unlock()
		}
	case 21:
		s.rollsBack()
	}
}

// jump is how far the wall clock steps.
func (s *sim) jump() time.Duration {
	return []time.Duration{0, 0, time.Second, -time.Second, -time.Hour, 24 * time.Hour}[s.rng.IntN(6)]
}

func (s *sim) stop() {
	s.mu.Lock()
	s.log("logger %d is stopped", s.in.n)
	s.mu.Unlock()
	s.reap()
}

// fresh makes n new events of one principal.
func (s *sim) fresh(n int) []*simEvent {
	at := []int{simAgent, simAgent, simOperator, simQuick}[s.rng.IntN(4)]
	out := make([]*simEvent, n)
	for i := range out {
		var p events.Payload = &events.GateChosen{Action: "KNOW"}
		if at == simOperator {
			p = &events.OutcomeRecorded{What: "it works", Source: "operator_report"}
		}
		out[i] = s.event(s.who[at], p)
	}
	return out
}

func (s *sim) event(who principal.Principal, p events.Payload) *simEvent {
	return s.remember(s.build(who, p))
}

func (s *sim) build(who principal.Principal, p events.Payload) *simEvent {
	ev, err := s.maker.New(p)
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := events.Encode(ev)
	if err != nil {
		s.t.Fatal(err)
	}
	return &simEvent{who: who, id: ev.ID, raw: raw}
}

// remember keeps an event, once for each principal and bytes.
func (s *sim) remember(ev *simEvent) *simEvent {
	key := ev.who.ID() + string(ev.raw)
	if known := s.byRaw[key]; known != nil {
		return known
	}
	s.byRaw[key] = ev
	s.events = append(s.events, ev)
	if !ev.garbage {
		s.raws[ev.who.ID()+" "+ev.id]++
	}
	return ev
}

// submit sends events of one principal as one message: an array if there are
// several.
func (s *sim) submit(evs ...*simEvent) {
	in := s.in
	m := &simMessage{events: evs, array: len(evs) > 1}
	raw := evs[0].raw
	if m.array {
		var raws [][]byte
		for _, ev := range evs {
			raws = append(raws, ev.raw)
		}
		raw = batchOf(raws)
	}
	s.mu.Lock()
	s.log("%s sends %d events, the first is %s", evs[0].who.ID(), len(evs), evs[0].id)
	in.sent = append(in.sent, m)
	s.mu.Unlock()
	in.sources[slices.IndexFunc(s.who, func(p principal.Principal) bool { return p == evs[0].who })].Submit(raw, in.reply(m))
	synctest.Wait() // or the next one would race with the answer
}

// reply is what gets the answer to m.
func (in *incarnation) reply(m *simMessage) func([]byte) {
	return func(body []byte) {
		s := in.s
		indexed := in.l.Status().Size
		s.mu.Lock()
		defer s.mu.Unlock()
		if in.dead {
			return
		}
		if bytes.Contains(body, []byte(`"leaf"`)) && in.crashes(atReply) {
			s.crash(in, 0)
			return
		}
		m.answered++
		s.note(body)
		answers := make([]answer, 1)
		var err error
		if m.array {
			err = json.Unmarshal(body, &answers)
		} else {
			err = json.Unmarshal(body, &answers[0])
		}
		if err != nil || len(answers) != len(m.events) {
			s.violate("%d events are answered with %.300s", len(m.events), body)
			return
		}
		for i, a := range answers {
			s.log("answer to %s: %d %s", m.events[i].id, a.Seq, a.code())
			in.answered(m.events[i], a, indexed)
		}
	}
}

func (in *incarnation) answered(ev *simEvent, a answer, indexed uint64) {
	s := in.s
	switch a.code() {
	case "":
		in.watch.acks(ev, a, indexed)
	case "unavailable":
		if a.Error.RetryAfter == nil {
			s.violate("unavailable for ever: %.200s", ev.raw)
		}
	case "conflict":
		if s.raws[ev.who.ID()+" "+ev.id] < 2 {
			s.violate("%s conflicts with nothing", ev.id)
		}
	default:
		if !ev.garbage {
			s.violate("%s for a good event: %.200s", a.code(), ev.raw)
		}
	}
}

// some is an event that was sent before; nil if there is none.
func (s *sim) some(ok func(*simEvent) bool) *simEvent {
	var out []*simEvent
	for _, ev := range s.events {
		if ok(ev) {
			out = append(out, ev)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out[s.rng.IntN(len(out))]
}

func (ev *simEvent) isGood() bool { return !ev.garbage }

// again sends events a second time, alone or twice in one message.
func (s *sim) again() {
	for range 1 + s.rng.IntN(3) {
		if ev := s.some((*simEvent).isGood); ev != nil && s.rng.IntN(3) == 0 {
			s.submit(ev, ev)
		} else if ev != nil {
			s.submit(ev)
		}
	}
}

// conflict sends other bytes under an id that was used.
func (s *sim) conflict() {
	ev := s.some(func(ev *simEvent) bool { return ev.isGood() && bytes.Contains(ev.raw, []byte(`"KNOW"`)) })
	if ev == nil {
		return
	}
	raw := bytes.Replace(ev.raw, []byte(`"KNOW"`), []byte(`"TEST"`), 1)
	s.submit(s.remember(&simEvent{who: ev.who, id: ev.id, raw: raw}))
}

// rubbish sends what no intake takes, more of it than gets records of its own.
func (s *sim) rubbish() {
	who := s.who[[]int{simAgent, simQuick}[s.rng.IntN(2)]]
	for range 1 + s.rng.IntN(6) {
		bad := s.build(who, &events.GateChosen{Action: "KNOW"})
		bad.garbage = true
		switch s.rng.IntN(4) {
		case 0:
			bad.raw = bad.raw[:len(bad.raw)-1-s.rng.IntN(20)]
		case 1:
			bad.raw = bytes.Replace(bad.raw, []byte(`"KNOW"`), []byte(`"NO"`), 1)
		case 2:
			bad.raw = bytes.ReplaceAll(bad.raw, []byte(`gate.chosen`), []byte(`ledger.opened`))
		case 3:
			bad.raw = []byte(strings.Repeat("x", 1+s.rng.IntN(300)))
		}
		s.submit(s.remember(bad))
	}
}

// strange stores a message that nobody knows.
func (s *sim) strange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hostility.appends == 0 {
		return // a schedule without strangers
	}
	s.log("somebody else writes message %d", s.stream.len()+1)
	s.stream.store([]byte("somebody else's " + time.Since(s.began).String()))
	if s.in != nil {
		s.in.faults++
	}
}

// intrude has another logger write one or two records, perhaps of an event
// that was sent to this one.
func (s *sim) intrude() {
	for range 1 + s.rng.IntN(2) {
		ev := s.some(func(ev *simEvent) bool {
			_, stored := s.stream.ids[ev.who.ID()+" "+ev.id]
			return ev.isGood() && !stored
		})
		if s.rng.IntN(2) == 0 {
			ev = nil
		}
		s.log("another logger writes record %d", s.stream.len()+1)
		s.stream.intrude(ev)
	}
}

// acknowledge has the operator name what somebody else wrote.
func (s *sim) acknowledge() {
	s.mu.Lock()
	waiting := s.stream.unacknowledged()
	s.mu.Unlock()
	for _, seq := range waiting {
		s.submit(s.ackOf(seq))
	}
}

func (s *sim) ackOf(seq ledger.Seq) *simEvent {
	s.mu.Lock()
	leaf := s.stream.leaves[seq-1]
	s.mu.Unlock()
	return s.event(s.who[simOperator], &events.ForeignAcknowledged{Seq: uint64(seq), SHA256: leaf.String()})
}

// replace puts another copy of the stream in place of what was stored: an
// older one, or one whose records from seq on were made anew.
func (s *sim) replace(keep ledger.Seq, forged bool) {
	st := s.stream
	st.frozen = true
	st.bodies = slices.Clone(st.stored[:keep])
	if !forged {
		s.log("the stream is rolled back to %d", keep)
		return
	}
	s.log("the stream is forged behind %d", keep)
	prev := ledger.Hash{}
	if keep > 0 {
		prev = st.leaves[keep-1]
	}
	for i, body := range st.stored[keep:] {
		r, err := ledger.ParseRecord(body)
		if err != nil {
			r.Header = ledger.Header{RecordedAt: s.clock.Wall(), Principal: "logger/main", Namespace: "production"}
			r.Event = []byte("{}")
		}
		r.Header.Seq, r.Header.Prev = keep+ledger.Seq(i)+1, prev
		if i == 0 {
			r.Header.RecordedAt = r.Header.RecordedAt.Add(time.Nanosecond)
		}
		forgery := ledger.AppendRecord(nil, r.Header, r.Event)
		st.bodies = append(st.bodies, forgery)
		prev = ledger.Leaf(forgery)
	}
}

func (s *sim) restore() {
	s.stream.bodies, s.stream.frozen = s.stream.stored, false
	s.log("the stream is restored")
}

// refuses has a stopped logger find a stream that lost what was signed, or
// that says something else.
func (s *sim) refuses() {
	s.mu.Lock()
	signed := s.files.signed
	forged := s.rng.IntN(2) == 0
	s.replace(ledger.Seq(s.rng.Uint64N(signed)), forged)
	calm := s.calm
	s.calm = true
	s.mu.Unlock()
	in, cfg, ctx := s.incarnate()
	l, err := logger.Open(ctx, cfg)
	in.cancel()
	s.mu.Lock()
	s.log("logger %d opens: %v", in.n, err)
	switch {
	case l != nil:
		s.violate("opened a stream that is not what was signed")
	case forged && !errors.Is(err, logger.ErrFork), !forged && !errors.Is(err, logger.ErrBehind):
		s.violate("opening a stream that is not what was signed (forged: %v): %v", forged, err)
	}
	s.gone(in)
	s.restore()
	s.calm = calm
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}

// rollsBack takes the end of the stream away from a running logger.
func (s *sim) rollsBack() {
	s.mu.Lock()
	in := s.in
	confirmed := in.watch.known
	if o := in.watch.open; o != nil {
		confirmed = min(confirmed, o.first-1) // what is undecided is not missed
	}
	if in.dead || in.watch.fence != 0 || confirmed < 2 || len(s.stream.unacknowledged()) > 0 {
		s.mu.Unlock()
		return
	}
	s.replace(confirmed-1-ledger.Seq(s.rng.Uint64N(uint64(min(confirmed-1, 5)))), false)
	s.calm = true
	s.mu.Unlock()
	evs := s.fresh(1)
	s.submit(evs...)
	s.rest(20*time.Second + s.pause())
	s.mu.Lock()
	if evs[0].acked {
		s.violate("acked by a logger whose stream was rolled back")
	}
	s.mu.Unlock()
	s.reap()
	s.mu.Lock()
	s.restore()
	s.calm = false
	s.mu.Unlock()
}

// heal ends the faults, and holds everything that was promised against what is
// there then.
func (s *sim) heal() {
	s.mu.Lock()
	s.calm = true
	s.log("no more faults")
	s.mu.Unlock()
	s.free.Store(1 << 40)
	s.rest(12 * time.Second)
	s.notice()
	if s.in != nil {
		s.stop()
	}
	if !s.start() {
		return
	}
	s.rest(15*time.Second + s.pause())
	s.nothingIsLost()
	s.stop()
	s.audit()
}

// nothingIsLost sends everything once more.
func (s *sim) nothingIsLost() {
	s.acknowledge()
	s.rest(5 * time.Second)
	// Whoever was first with an id keeps it.
	for _, ev := range slices.Clone(s.events) {
		if !ev.garbage {
			s.submit(ev)
		}
	}
	s.rest(30 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range s.events {
		if ev.isGood() && !ev.acked && s.raws[ev.who.ID()+" "+ev.id] < 2 {
			s.violate("%s is not taken: %.200s", ev.id, ev.raw)
		}
	}
}

// audit is what a sceptic does at the end.
func (s *sim) audit() {
	cps, err := logger.LoadCheckpoints(logger.Files(s.dir))
	a := ledger.NewAuditor(ledger.Anchor{Key: s.vkey, Checkpoints: cps, Broken: err})
	at := map[string]int{}
	for i, b := range s.stream.stored {
		a.Add(ledger.Seq(i+1), b)
		if r, err := ledger.ParseRecord(b); err == nil {
			at[r.Principal+" "+string(r.Event)]++
		}
	}
	r := a.Report()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Verdict != ledger.Consistent || *r.UnsignedTail != 0 || len(r.Foreign) != len(s.stream.foreign) {
		s.violate("audit: %s %s, %d records are not signed, %d are foreign, want %d",
			r.Verdict, deref(r.Finding), *r.UnsignedTail, len(r.Foreign), len(s.stream.foreign))
	}
	if faults := weekFaults(s.stream.stored, s.stream.intruded); len(faults) > 0 {
		s.violate("weeks: %s", strings.Join(faults, "; "))
	}
	for _, ev := range s.events {
		if n := at[ev.who.ID()+" "+string(ev.raw)]; ev.acked && n != 1 || n > 1 {
			s.violate("%s is stored %d times (acked: %v)", ev.id, n, ev.acked)
		}
	}
	s.log("audit: %s, size %d, %d checkpoints", r.Verdict, r.Size, len(cps))
}

// run runs a schedule and leaves nothing behind.
func (s *sim) run(schedule func()) {
	defer func() {
		if s.in != nil { // the test failed
			s.in.cancel()
			if s.in.l != nil {
				<-s.in.ended
				_ = s.in.l.Close()
			}
		}
	}()
	schedule()
}
