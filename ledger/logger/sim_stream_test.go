package logger_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/ledger/stream"
)

// simStream is a stream that fails as the seed says. Everything in it is
// guarded by the simulation's mutex.
type simStream struct {
	s   *sim
	max int // messages in one append

	stored  [][]byte
	bodies  [][]byte // what a reader sees: stored, unless frozen
	leaves  []ledger.Hash
	roots   []ledger.Hash // of each size
	tree    ledger.Tree
	time    time.Time             // of the last record
	at      map[string]ledger.Seq // leaf → where it is
	ids     map[string]ledger.Seq // principal and event id → where it is
	foreign map[ledger.Seq]bool   // messages of others; true when acknowledged

	// frozen says that bodies are not what was stored: the operator put an
	// older or another copy in place. Nothing may be appended to it.
	frozen         bool
	intruded       map[ledger.Seq]bool // records of another logger, which closes no week
	appends, reads uint64
}

func newSimStream(s *sim, limit int) *simStream {
	return &simStream{
		s: s, max: limit, roots: []ledger.Hash{(&ledger.Tree{}).Root()},
		at: map[string]ledger.Seq{}, ids: map[string]ledger.Seq{}, foreign: map[ledger.Seq]bool{}, intruded: map[ledger.Seq]bool{},
	}
}

func (st *simStream) len() ledger.Seq { return ledger.Seq(len(st.bodies)) }

func (st *simStream) last() (leaf ledger.Hash) {
	if n := len(st.leaves); n > 0 {
		leaf = st.leaves[n-1]
	}
	return leaf
}

// store appends one message, whoever sent it.
func (st *simStream) store(body []byte) {
	body = bytes.Clone(body)
	seq, leaf := st.len()+1, ledger.Leaf(body)
	if st.frozen {
		st.s.violate("message %d was appended to a stream that is not the logger's", seq)
		return
	}
	r, err := ledger.ParseRecord(body)
	switch {
	case err != nil || r.Seq != seq || r.Prev != st.last():
		st.foreign[seq] = false
	default:
		st.time = r.RecordedAt
		if r.Principal == "logger/main" {
			break
		}
		ev, err := events.DecodeEnvelope(r.Event)
		if err != nil {
			st.s.violate("record %d: %v", seq, err)
			break
		}
		key := r.Principal + " " + ev.ID
		if first, twice := st.ids[key]; twice {
			st.s.violate("event %s is record %d and record %d", key, first, seq)
		}
		st.ids[key] = seq
		if ack, ok := ledger.ParseAcknowledgement(&r); ok && ledger.Leaf(st.bodies[ack.Seq-1]).String() == ack.SHA256 {
			if _, is := st.foreign[ack.Seq]; is {
				st.foreign[ack.Seq] = true
			}
		}
	}
	st.stored, st.leaves = append(st.stored, body), append(st.leaves, leaf)
	st.bodies = st.stored
	st.tree.Append(leaf)
	st.roots = append(st.roots, st.tree.Root())
	st.at[leaf.String()] = seq
}

// unacknowledged are the messages of others that wait for the operator's word.
func (st *simStream) unacknowledged() (out []ledger.Seq) {
	for seq := ledger.Seq(1); seq <= st.len(); seq++ {
		if acked, is := st.foreign[seq]; is && !acked {
			out = append(out, seq)
		}
	}
	return out
}

// fate is what becomes of one append.
type fate string

const (
	fateStored     fate = "stored"
	fateUnacked    fate = "stored, no answer"
	fateRepeated   fate = "stored, a repeat is answered"
	fateLost       fate = "lost"
	fatePrefix     fate = "a part is stored, no answer"
	fateRest       fate = "a part is stored, the rest later, no answer"
	fateLate       fate = "stored later, no answer"
	fateMisleading fate = "wrong sequence, although it is not"
	fateStranger   fate = "another's message is first"
	fateIntruder   fate = "another logger's record is first"
)

var fates = []fate{fateUnacked, fateRepeated, fateLost, fatePrefix, fateRest, fateLate, fateMisleading, fateStranger, fateIntruder}

// hostility is which faults a schedule has, and how often.
type hostility struct {
	fates                       []fate
	appends, reads, stale, disk float64 // probabilities
	slow                        bool    // answers may take seconds
}

func drawHostility(rng *rand.Rand) (h hostility) {
	level := []float64{0, 0.05, 0.15, 0.3, 0.6}
	h.appends, h.reads, h.disk = level[rng.IntN(5)], level[rng.IntN(4)], level[rng.IntN(4)]
	if rng.IntN(3) == 0 {
		h.stale = level[rng.IntN(3)]
	}
	h.slow = rng.IntN(3) == 0
	for _, f := range fates {
		rare := f == fateStranger || f == fateIntruder
		if rng.IntN(2) == 0 && (!rare || rng.IntN(3) == 0) {
			h.fates = append(h.fates, f)
		}
	}
	return h
}

// draw decides about one append from the seed and its ordinal alone.
func (st *simStream) draw(n uint64, size int) (f fate, k int, there, back, landing time.Duration) {
	s := st.s
	rng := rand.New(rand.NewPCG(s.seed, 1<<60|n))
	there, back = between(rng, 50*time.Microsecond, 4*time.Millisecond), between(rng, 50*time.Microsecond, 4*time.Millisecond)
	h := &s.hostility
	if h.slow && !s.calm && rng.IntN(4) == 0 {
		back = between(rng, time.Millisecond, 3*time.Second)
	}
	f = fateStored
	if !s.calm && len(h.fates) > 0 && rng.Float64() < h.appends {
		f = h.fates[rng.IntN(len(h.fates))]
	}
	switch f {
	case fateStored, fateRepeated, fateMisleading, fateStranger, fateIntruder:
	default:
		back = between(rng, 2*time.Millisecond, 5*time.Second)
	}
	return f, rng.IntN(size + 1), there, back, between(rng, time.Millisecond, 9*time.Second)
}

func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(rng.Int64N(int64(hi-lo)))
}

// line is one incarnation's connection to the stream.
type simLine struct{ in *incarnation }

var errGone = fmt.Errorf("the process is gone: %w", stream.ErrUndecided)

func (ln simLine) MaxBatch() int { return ln.in.s.stream.max }

// Stage stores nothing.
func (ln simLine) Stage(_ ledger.Seq, msgs []stream.Message) {
	s := ln.in.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(msgs) == 0 || len(msgs) > s.stream.max {
		s.violate("%d messages were staged, the limit is %d", len(msgs), s.stream.max)
	}
}

func (ln simLine) Append(_ context.Context, first ledger.Seq, msgs []stream.Message) error {
	in, s := ln.in, ln.in.s
	st := s.stream
	s.mu.Lock()
	if in.wasDead() {
		s.mu.Unlock()
		return errGone
	}
	in.watch.append(first, msgs)
	st.appends++
	n := st.appends
	f, k, there, back, landing := st.draw(n, len(msgs))
	s.mu.Unlock()
	bodies := make([][]byte, len(msgs))
	for i, m := range msgs {
		bodies[i] = bytes.Clone(m.Body)
	}

	time.Sleep(there)
	s.mu.Lock()
	if in.crashes(atArrival) {
		s.crash(in, 100)
	}
	err := st.arrive(in, n, f, k, landing, first, bodies)
	if in.crashes(afterStore) {
		s.crash(in, 100)
	}
	s.mu.Unlock()

	time.Sleep(back)
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.crashes(atAnswer) {
		s.crash(in, 100)
	}
	if in.dead {
		return errGone
	}
	in.watch.answered(first, msgs, err)
	return err
}

// arrive is the moment at which an append is at the broker.
func (st *simStream) arrive(in *incarnation, n uint64, f fate, k int, landing time.Duration, first ledger.Seq, bodies [][]byte) error {
	s := st.s
	if f != fateStored {
		in.faults++
	}
	if f == fateStranger && !st.frozen {
		st.store([]byte(fmt.Sprintf("not a record %d", n)))
	}
	if f == fateIntruder && !st.frozen {
		st.intrude(nil)
	}
	fits := first == st.len()+1
	s.log("append %d of records %d+%d: %s (fits: %v)", n, first, len(bodies), f, fits)
	s.note(bodies...)
	if f == fateMisleading || !fits {
		return fmt.Errorf("append at %d: %w", first, stream.ErrWrongSequence)
	}
	switch f {
	case fateStored, fateUnacked, fateRepeated:
		st.storeAll(bodies)
	case fatePrefix:
		st.storeAll(bodies[:k])
	case fateRest:
		st.storeAll(bodies[:k])
		st.landLater(in, landing, first+ledger.Seq(k), bodies[k:])
	case fateLate:
		st.landLater(in, landing, first, bodies)
	}
	switch f {
	case fateStored:
		return nil
	case fateRepeated:
		return fmt.Errorf("append at %d: %w", first, stream.ErrWrongSequence)
	}
	return fmt.Errorf("append at %d: %w: timeout", first, stream.ErrUndecided)
}

func (st *simStream) storeAll(bodies [][]byte) {
	for _, b := range bodies {
		st.store(b)
	}
}

// landLater stores the bodies after a while, if the stream then ends before first.
func (st *simStream) landLater(from *incarnation, after time.Duration, first ledger.Seq, bodies [][]byte) {
	s := st.s
	time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		fits := first == st.len()+1 && !st.frozen
		s.log("records %d+%d land (fit: %v)", first, len(bodies), fits)
		if fits {
			if from != s.in && len(bodies) > 0 {
				st.fence(first) // its own past is another logger too
			}
			st.storeAll(bodies)
		}
	})
}

// fence notes that a record at seq is not the running logger's.
func (st *simStream) fence(seq ledger.Seq) {
	in := st.s.in
	if in == nil {
		return
	}
	in.faults++ // it may meet a start
	if in.watch.fence == 0 {
		in.watch.fence = seq
	}
}

// intrude stores a record of another logger: ev, or an event of its own.
func (st *simStream) intrude(ev *simEvent) {
	s := st.s
	seq := st.len() + 1
	h := ledger.Header{Seq: seq, Prev: st.last(), RecordedAt: s.clock.Wall(), Principal: "logger/main", Namespace: "production"}
	raw := s.ownEvent()
	if ev != nil {
		h.Principal, raw = ev.who.ID(), ev.raw
	}
	if h.RecordedAt.Before(st.time) {
		h.RecordedAt = st.time
	}
	st.intruded[seq] = true
	h.RecordedAt = h.RecordedAt.Add(time.Nanosecond) // never the very bytes that this one may send
	st.fence(seq)
	st.store(ledger.AppendRecord(nil, h, raw))
}

// trouble is the fault of one read: the wait before it, and whether it fails
// or answers from the past.
func (ln simLine) trouble() (fails, stale bool, behind ledger.Seq, err error) {
	in, s := ln.in, ln.in.s
	s.mu.Lock()
	if in.wasDead() {
		s.mu.Unlock()
		return false, false, 0, errGone
	}
	s.stream.reads++
	rng := rand.New(rand.NewPCG(s.seed, 2<<60|s.stream.reads))
	s.mu.Unlock()
	time.Sleep(between(rng, 20*time.Microsecond, 2*time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.dead {
		return false, false, 0, errGone
	}
	if s.calm {
		return false, false, 0, nil
	}
	fails, stale = rng.Float64() < s.hostility.reads, rng.Float64() < s.hostility.stale
	if fails || stale {
		in.faults++
		in.stale = in.stale || stale
	}
	return fails, stale, ledger.Seq(1 + rng.IntN(3)), nil
}

func (ln simLine) Head(context.Context) (stream.Head, error) {
	fails, stale, behind, err := ln.trouble()
	s := ln.in.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || fails {
		s.log("head fails")
		return stream.Head{}, firstOf(err, errLink)
	}
	last := s.stream.len()
	if stale {
		last -= min(last, behind)
	}
	s.log("head %d (stale: %v)", last, stale)
	ln.in.watch.head(last)
	return stream.Head{First: min(1, last), Last: last}, nil
}

func (ln simLine) Get(_ context.Context, seq ledger.Seq) ([]byte, error) {
	fails, stale, _, err := ln.trouble()
	s := ln.in.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || fails {
		s.log("get %d fails", seq)
		return nil, firstOf(err, errLink)
	}
	if seq == 0 || seq > s.stream.len() || stale {
		s.log("get %d: none (stale: %v)", seq, stale)
		return nil, fmt.Errorf("message %d: %w", seq, stream.ErrNotFound)
	}
	body := bytes.Clone(s.stream.bodies[seq-1])
	s.log("get %d", seq)
	ln.in.watch.got(seq, ledger.Leaf(body))
	return body, nil
}

func (ln simLine) Read(_ context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	fails, _, behind, err := ln.trouble()
	if err != nil {
		return err
	}
	s := ln.in.s
	s.mu.Lock()
	bodies := s.stream.bodies
	s.log("read %d to %d (fails: %v)", from, to, fails)
	s.mu.Unlock()
	for seq := max(from, 1); seq <= min(to, ledger.Seq(len(bodies))); seq++ {
		if fails && seq-from == behind {
			return errLink
		}
		s.mu.Lock()
		ln.in.watch.reads(seq, ledger.Leaf(bodies[seq-1]))
		s.mu.Unlock()
		if err := fn(seq, bytes.Clone(bodies[seq-1])); err != nil {
			return err
		}
	}
	if fails {
		return errLink
	}
	return nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
