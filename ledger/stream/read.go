package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/ledger"
)

// PullBytes is how much one pull of a read may carry: the best of those tried.
const PullBytes = 8 << 20

// shortRead is up to how many messages a bounded read asks for what it wants alone: a
// pull of PullBytes would have the server send thousands more. A longer one pulls ahead.
const shortRead = 4096

// stallAfter is how long a bounded read waits for the next message before it
// asks whether the last one is there at all.
const stallAfter = 2 * time.Second

// Read calls fn for each stored message from from to to in the stream's order;
// with to 0 it goes on with new messages until ctx ends. Messages that the
// stream lost are passed over, so fn must check that seq is contiguous; where
// all up to the end are lost the error is a *ledger.LostError. Bodies belong to
// fn. An error of fn ends the read and is returned. A replicated stream is read
// from any of its copies; one that is behind the leader and stands still is left for
// another, and the start of a read waits out an election (electedWithin).
func (s *Stream) Read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error {
	if from == 0 {
		from = 1
	}
	if to != 0 {
		head, err := s.headWithin(ctx, electedWithin)
		if err != nil {
			return err
		}
		to = min(to, head.Last)
		if head.Last == 0 || from > to {
			return nil
		}
		if from == to { // needs no consumer, unless it is lost
			var body []byte
			err := s.withLeader(ctx, electedWithin, func(ctx context.Context) (err error) {
				body, err = s.Get(ctx, from)
				return err
			})
			switch {
			case err == nil:
				return fn(from, body)
			case !errors.Is(err, ErrNotFound):
				return fmt.Errorf("read %d: %w", from, err)
			}
		}
	}
	for try := 1; ; try++ {
		err := s.read(ctx, from, to, fn)
		behind, lags := errors.AsType[*lagError](err)
		if !lags || try == lagTries {
			return err
		}
		from = behind.after + 1
	}
}

// read reads from one copy, from a place on that the stream has or is to have. The
// error is a *lagError where the copy stands still behind the leader.
func (s *Stream) read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error {
	var cons jetstream.Consumer
	err := s.withLeader(ctx, electedWithin, func(ctx context.Context) (err error) {
		cons, err = s.js.OrderedConsumer(ctx, Name, jetstream.OrderedConsumerConfig{
			DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:       uint64(from),
			InactiveThreshold: time.Minute,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("read from %d: %w", from, err)
	}
	done := make(chan error, 1)
	finish := func(err error) {
		select {
		case done <- err:
		default:
		}
	}
	behind := make(chan struct{}, 1) // the copy that is read has nothing more
	var mu sync.Mutex                // held while fn runs, so that no call outlives Read
	stopped := false
	last, heard := from-1, time.Now() // guarded by mu
	defer func() {
		mu.Lock()
		stopped = true
		mu.Unlock()
	}()
	pull := []jetstream.PullConsumeOpt{jetstream.PullMaxBytes(PullBytes)} // the ordered consumer mends its own interruptions
	if n := to - from + 1; to != 0 && n <= shortRead {
		pull = append(pull, jetstream.StopAfter(n))
	}
	cc, err := cons.Consume(func(m jetstream.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		seq, pending, err := positionOf(m.Reply())
		if err == nil {
			if to == 0 || seq <= to {
				err = fn(seq, m.Data())
			}
			last, heard = seq, time.Now()
			switch {
			case err != nil || to == 0:
			case seq >= to:
				err = errEnd
			case pending == 0:
				select {
				case behind <- struct{}{}:
				default:
				}
			}
		}
		if err != nil {
			stopped = true
			finish(err)
		}
	}, pull...)
	if err != nil {
		return fmt.Errorf("read from %d: %w", from, err)
	}
	defer cc.Stop()
	tick := time.NewTicker(stallAfter / 4)
	defer tick.Stop()
	var lagging lag
	for {
		ended := false
		select {
		case err := <-done:
			return unlessEnd(err)
		case <-ctx.Done():
			return ctx.Err()
		case <-cc.Closed():
			select {
			case err := <-done:
				return unlessEnd(err) // it closed behind the last message
			default:
			}
			return fmt.Errorf("read from %d: connection closed", from)
		case <-behind:
			ended = true
		case <-tick.C:
		}
		switch {
		case to == 0:
			continue
		case ended:
			mu.Lock()
		case !mu.TryLock(): // fn is at work
			continue
		}
		after, stalled := last, time.Since(heard) > stallAfter
		mu.Unlock()
		if !ended && !stalled {
			continue
		}
		// A store whose end is lost still counts it, and delivers nothing.
		_, err := s.Get(ctx, to)
		if errors.Is(err, ErrNotFound) {
			return &ledger.LostError{After: after, Last: to}
		}
		if err == nil && lagging.since(after) > lagLimit {
			return &lagError{after, to}
		}
	}
}

// electedWithin is more than the nine seconds that servers may wait before one
// stands for election (nats-server 2.15.3). The stream has its leader before the
// servers have theirs, who makes consumers.
const electedWithin = 15 * time.Second

// lagLimit is how long a read waits for a copy that does not catch up with the
// leader, and lagTries how many it tries: the server picks one anew each time.
const (
	lagLimit = 10 * time.Second
	lagTries = 5
)

// lagError says that the copy that was read ended at after, and the stream has to.
type lagError struct{ after, to ledger.Seq }

func (e *lagError) Error() string {
	return fmt.Sprintf("the copy that is read has ended at %d for %s, the stream has %d", e.after, lagLimit, e.to)
}

// lag is how long a read has stood at one place although the leader had more.
type lag struct {
	at    ledger.Seq
	start time.Time
}

func (l *lag) since(at ledger.Seq) time.Duration {
	if l.start.IsZero() || l.at != at {
		*l = lag{at, time.Now()}
	}
	return time.Since(l.start)
}

var errEnd = errors.New("end of the range")

func unlessEnd(err error) error {
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// positionOf reads the stream sequence and the number of messages behind it out
// of a delivery's reply subject, which is one of
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<pending>[.<token>…]
//
// The library's Metadata reads all of it, at a cost that a replay notices.
func positionOf(reply string) (seq ledger.Seq, pending uint64, err error) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return 0, 0, fmt.Errorf("reply subject %q is not that of a delivery", reply)
	}
	skip := 3
	if strings.Count(rest, ".") > 6 {
		skip = 5
	}
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	at, rest, _ := strings.Cut(rest, ".")
	_, rest, _ = strings.Cut(rest, ".") // consumer seq
	_, rest, _ = strings.Cut(rest, ".") // time
	behind, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(at, 10, 64)
	if err == nil {
		pending, err = strconv.ParseUint(behind, 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reply subject %q: %w", reply, err)
	}
	return ledger.Seq(n), pending, nil
}
