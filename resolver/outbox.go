package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/ledger"
	"assay/resolver/telemetry"
)

// A message holds so many events or bytes at most: while the logger stores one,
// everybody else waits for it.
const (
	maxMessage      = 250
	maxMessageBytes = 512 << 10

	// A fold that keeps up sends so few that the logger appends them one at a time
	// and the events of others between them; one that took longer than patience for
	// a checkpoint sends more at once, which is five times as fast.
	gentleMessage = 12
	patience      = 3 * time.Second
)

// outbox is what the fold called for and the ledger does not have yet. What is
// full is delivered beside the fold, one message after another in the order in
// which it was called for; the fold is at most two outboxes ahead of the ledger.
type outbox struct {
	waiting  []Emission
	bytes    int           // of waiting
	delivery chan delivery // of those under way; nil without any
}

// delivery is how one ended: with what the ledger does not have yet, and why that
// will not mend.
type delivery struct {
	left []Emission
	err  error
}

func (o *outbox) empty() bool { return len(o.waiting) == 0 && o.delivery == nil }

func (o *outbox) full() bool { return len(o.waiting) >= maxMessage || o.bytes >= maxMessageBytes }

func (o *outbox) add(e Emission) {
	o.waiting = append(o.waiting, e)
	o.bytes += len(e.Event)
}

// wait ends with the delivery under way. What it left waits again: as long as that
// is so, the fold is not saved.
func (o *outbox) wait() error {
	if o.delivery == nil {
		return nil
	}
	d := <-o.delivery
	o.delivery = nil
	o.waiting = slices.Concat(d.left, o.waiting)
	for _, e := range d.left {
		o.bytes += len(e.Event)
	}
	return d.err
}

// publish puts an emission among those that are sent together, unless the ledger
// has it.
func (s *Service) publish(e Emission) {
	if old, ok := s.news.find(e.ID); ok {
		if old.sum != sumOf(e.Event) {
			s.differs(e)
		}
		return
	}
	s.out.add(e)
}

// dispatch has what waits delivered, once what is under way has been.
func (s *Service) dispatch(ctx context.Context) error {
	if err := s.out.wait(); err != nil {
		return err
	}
	if len(s.out.waiting) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return permanent{ctx.Err()}
	}
	list, begun, done := s.out.waiting, s.begunAt, make(chan delivery, 1)
	s.out = outbox{delivery: done}
	go func() {
		left, err := s.deliver(ctx, begun, list)
		done <- delivery{left, err}
	}()
	return nil
}

// flush ends when the ledger has all that was called for.
func (s *Service) flush(ctx context.Context) error {
	for !s.out.empty() {
		if err := s.dispatch(ctx); err != nil {
			return err
		}
		if err := s.out.wait(); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends a list in its order, message by message, until the ledger has all
// of it or ctx ends, and returns what is left. An error is final. Begun is when the
// fold set out for its checkpoint.
func (s *Service) deliver(ctx context.Context, begun time.Time, list []Emission) (left []Emission, err error) {
	for len(list) > 0 && ctx.Err() == nil {
		n, size, most := 0, 0, maxMessage
		if time.Since(begun) < patience {
			most = gentleMessage
		}
		for n < len(list) && n < most && (n == 0 || size+len(list[n].Event) <= maxMessageBytes) {
			size += len(list[n].Event)
			n++
		}
		again, err := s.send(ctx, list[:n])
		if _, final := errors.AsType[permanent](err); final {
			return list, err
		}
		if list = list[n:]; len(again) > 0 {
			list = slices.Concat(again, list)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn().Err(err).Int("events", len(again)).Msg("publish: trying again")
			_ = telemetry.Wait(ctx, s.cfg.Poll)
		}
	}
	return list, nil
}

// send publishes emissions as one message and returns those that are to be sent
// again, with the reason.
func (s *Service) send(ctx context.Context, list []Emission) (left []Emission, again error) {
	batch := make([][]byte, len(list))
	for i, e := range list {
		batch[i] = e.Event
		if e.Manifest == nil {
			continue
		}
		err := retry(ctx, s.cfg.Poll, s.cfg.Log, "store manifest", func() error {
			_, err := s.cfg.Blobs.Put(e.Manifest)
			return err
		})
		if err != nil {
			return list, err
		}
	}
	for i, err := range s.cfg.Publisher.Publish(ctx, batch...) {
		switch e := list[i]; {
		case err == nil:
		case errors.Is(err, ErrConflict):
			s.differs(e)
		case errors.Is(err, ErrRefused) && e.beside:
			s.leaveUnsaid(e.Cut, fmt.Errorf("publish %s %s: %w", e.Type, e.ID, err))
		case errors.Is(err, ErrRefused):
			return nil, permanent{fmt.Errorf("publish %s %s: %w", e.Type, e.ID, err)}
		default:
			left, again = append(left, e), err
		}
	}
	return left, again
}

// leaveUnsaid goes on without what the companion called for at a record.
func (s *Service) leaveUnsaid(cut ledger.Seq, err error) {
	s.unsaid.Add(1)
	s.cfg.Log.Error().Err(err).Uint64("seq", uint64(cut)).Msg("what this record calls for is not written")
}

func (s *Service) differs(e Emission) {
	s.differed.Add(1)
	s.cfg.Log.Warn().Str("type", e.Type).Str("pred_id", e.PredID).Str("id", e.ID).
		Msg("the ledger has another version of this event, which stands")
}
