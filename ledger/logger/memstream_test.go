package logger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"assay/ledger"
	"assay/ledger/stream"
)

// tb is a test or one round of a property.
type tb interface {
	rapid.TB
	Cleanup(func())
}

// outcome is what becomes of one append.
type outcome int

const (
	stored     outcome = iota // stored and acked
	unacked                   // stored, but the ack is lost
	lost                      // not stored, and no answer
	prefix                    // the first k are stored, and no answer (disk error)
	late                      // no answer; lands after the next Head was read
	misleading                // 10071 although the stream ends as expected, nothing stored
	stranger                  // somebody else's message is stored first
	limit                     // refused at the broker's storage limit
)

// fault is the outcome of one append in a script.
type fault struct {
	outcome outcome
	k       int           // prefix: how many
	body    []byte        // stranger: the message
	hold    chan struct{} // the append waits until this is closed
	took    chan struct{} // closed when the append begins
}

// memStream is a logger.Stream in memory that fails as its script says, and
// that notes every breach of the append's rules.
type memStream struct {
	max int

	mu       sync.Mutex
	bodies   [][]byte
	script   []fault
	landing  func()      // an append that lands after the next Head
	failing  int         // how many reads fail from now on
	first    int         // sequences before it are gone
	missing  map[int]int // sequence → how often Get does not find it
	attempts map[ledger.Seq]ledger.Hash
	sizes    []int // of the appends
	breaches []string

	underWay atomic.Int32
}

var errLink = errors.New("connection lost")

func (s *memStream) MaxBatch() int { return s.max }

func (s *memStream) breach(format string, args ...any) {
	s.breaches = append(s.breaches, fmt.Sprintf(format, args...))
}

// Stage stores nothing.
func (s *memStream) Stage(_ ledger.Seq, msgs []stream.Message) {
	if len(msgs) == 0 || len(msgs) > s.max {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.breach("%d messages were staged, the limit is %d", len(msgs), s.max)
	}
}

func (s *memStream) Append(_ context.Context, first ledger.Seq, msgs []stream.Message) error {
	if s.underWay.Add(1) != 1 {
		s.mu.Lock()
		s.breach("two appends at a time")
		s.mu.Unlock()
	}
	defer s.underWay.Add(-1)
	var f fault
	s.mu.Lock()
	if len(s.script) > 0 {
		f, s.script = s.script[0], s.script[1:]
	}
	s.mu.Unlock()
	if f.took != nil {
		close(f.took)
	}
	if f.hold != nil {
		<-f.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteAttempt(first, msgs)
	if f.outcome == stranger {
		s.bodies = append(s.bodies, f.body)
	}
	if f.outcome == misleading || int(first) != len(s.bodies)+1 {
		return fmt.Errorf("append at %d: %w", first, stream.ErrWrongSequence)
	}
	switch f.outcome {
	case stored:
		s.store(msgs)
		return nil
	case unacked:
		s.store(msgs)
	case prefix:
		s.store(msgs[:min(f.k, len(msgs))])
	case late:
		var bodies [][]byte // the logger may use its memory again
		for _, m := range msgs {
			bodies = append(bodies, bytes.Clone(m.Body))
		}
		s.landing = func() {
			if int(first) == len(s.bodies)+1 {
				s.bodies = append(s.bodies, bodies...)
			}
		}
	}
	if f.outcome == limit {
		return fmt.Errorf("append at %d: %w: %w", first, stream.ErrUndecided, stream.ErrFull)
	}
	return fmt.Errorf("append at %d: %w: timeout", first, stream.ErrUndecided)
}

// noteAttempt holds an append against those before it: the bytes for a
// position never change.
func (s *memStream) noteAttempt(first ledger.Seq, msgs []stream.Message) {
	s.sizes = append(s.sizes, len(msgs))
	if len(msgs) == 0 || len(msgs) > s.max {
		s.breach("append of %d messages, the limit is %d", len(msgs), s.max)
	}
	for i, m := range msgs {
		seq, leaf := first+ledger.Seq(i), ledger.Leaf(m.Body)
		if before, again := s.attempts[seq]; again && before != leaf {
			s.breach("record %d was rebuilt", seq)
		}
		s.attempts[seq] = leaf
		if !strings.HasPrefix(m.Subject, stream.SubjectPrefix) || len(m.Subject) == len(stream.SubjectPrefix) {
			s.breach("record %d goes to subject %q", seq, m.Subject)
		}
	}
}

func (s *memStream) store(msgs []stream.Message) {
	for _, m := range msgs {
		s.bodies = append(s.bodies, bytes.Clone(m.Body))
	}
}

func (s *memStream) fail() error {
	if s.failing > 0 {
		s.failing--
		return errLink
	}
	return nil
}

func (s *memStream) Head(context.Context) (stream.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail(); err != nil {
		return stream.Head{}, err
	}
	h := stream.Head{First: ledger.Seq(max(s.first, min(1, len(s.bodies)))), Last: ledger.Seq(len(s.bodies)), Deleted: len(s.missing)}
	if s.landing != nil {
		s.landing()
		s.landing = nil
	}
	return h, nil
}

func (s *memStream) Get(_ context.Context, seq ledger.Seq) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail(); err != nil {
		return nil, err
	}
	if seq == 0 || int(seq) > len(s.bodies) || s.missing[int(seq)] > 0 {
		return nil, fmt.Errorf("message %d: %w", seq, stream.ErrNotFound)
	}
	return bytes.Clone(s.bodies[seq-1]), nil
}

func (s *memStream) Read(_ context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	for seq := max(from, 1); seq <= to; seq++ {
		s.mu.Lock()
		if int(seq) > len(s.bodies) {
			s.mu.Unlock()
			return nil
		}
		body := bytes.Clone(s.bodies[seq-1])
		s.mu.Unlock()
		if err := fn(seq, body); err != nil {
			return err
		}
	}
	return nil
}

// then adds to the script.
func (s *memStream) then(fs ...fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, fs...)
}

// write stores a message that the logger did not append.
func (s *memStream) write(body []byte) ledger.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	return ledger.Seq(len(s.bodies))
}

func (s *memStream) truncate(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = s.bodies[:n]
}

// alter changes one stored record and keeps its form.
func (s *memStream) alter(seq int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := bytes.Index(s.bodies[seq-1], []byte(`"event":`))
	body := bytes.Clone(s.bodies[seq-1])
	at := i + bytes.Index(body[i:], []byte(`"time":"`)) + len(`"time":"`)
	body[at] ^= 1
	s.bodies[seq-1] = body
}

func (s *memStream) all() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func (s *memStream) len() int { return len(s.all()) }

// forget lets positions be written anew: after a restart or a stranger.
func (s *memStream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.attempts)
	s.script, s.landing = nil, nil
}

// linked is the record that another logger would append next.
func (s *memStream) linked(t tb) []byte {
	bodies := s.all()
	h := ledger.Header{
		Seq: ledger.Seq(len(bodies) + 1), Prev: ledger.Leaf(bodies[len(bodies)-1]),
		RecordedAt: time.Date(2026, 10, 3, 13, 0, 0, 0, time.UTC), Principal: "logger/main", Namespace: "production",
	}
	return ledger.AppendRecord(nil, h, gate(t))
}

// clock is a clock that stands until it is moved.
type clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

func (c *clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *clock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

func (c *clock) BootID() string { return "boot-1" }

// pass lets time pass.
func (c *clock) pass(d time.Duration) { c.move(d, 0) }

// move lets time pass and steps the wall clock on top.
func (c *clock) move(passed, step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(passed+step), c.mono+passed
}
