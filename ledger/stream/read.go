package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/ledger"
)

// pullBytes is how much one pull of a read may carry: the best of those tried.
const pullBytes = 8 << 20

// Read calls fn for each stored message from from to to in the stream's order;
// with to 0 it goes on with new messages until ctx ends. Messages that the
// stream lost are passed over, so fn must check that seq is contiguous. Bodies
// belong to fn. An error of fn ends the read and is returned.
func (s *Stream) Read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error {
	if from == 0 {
		from = 1
	}
	if to != 0 {
		head, err := s.Head(ctx)
		if err != nil {
			return err
		}
		to = min(to, head.Last)
		if head.Last == 0 || from > to {
			return nil
		}
	}
	cons, err := s.js.OrderedConsumer(ctx, Name, jetstream.OrderedConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(from),
		InactiveThreshold: time.Minute,
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
	var mu sync.Mutex // held while fn runs, so that no call outlives Read
	stopped := false
	defer func() {
		mu.Lock()
		stopped = true
		mu.Unlock()
	}()
	cc, err := cons.Consume(func(m jetstream.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		meta, err := m.Metadata()
		if err == nil {
			seq := ledger.Seq(meta.Sequence.Stream)
			if to == 0 || seq <= to {
				err = fn(seq, m.Data())
			}
			if err == nil && to != 0 && (seq >= to || meta.NumPending == 0) {
				err = errEnd
			}
		}
		if err != nil {
			stopped = true
			finish(err)
		}
	}, jetstream.PullMaxBytes(pullBytes)) // the ordered consumer mends its own interruptions
	if err != nil {
		return fmt.Errorf("read from %d: %w", from, err)
	}
	defer cc.Stop()
	select {
	case err := <-done:
		if errors.Is(err, errEnd) {
			return nil
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-cc.Closed():
		return fmt.Errorf("read from %d: connection closed", from)
	}
}

var errEnd = errors.New("end of the range")
