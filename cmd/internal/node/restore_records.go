package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// appendRecords appends what the stream lacks, as often as it takes: an append
// whose outcome is unknown, as at each change of a cluster's leader, is settled
// by holding what is stored against the backup and going on from there. The
// bytes are the same each time.
func (r *restore) appendRecords(ctx context.Context, s *stream.Stream) error {
	var first, before ledger.Seq // where the stream ended at first, and the last time
	for tries := 0; ; tries++ {
		head, err := r.appendRest(ctx, s)
		if tries == 0 && before == 0 {
			first = head
		}
		if err == nil {
			r.out.Written = r.size() - min(uint64(first), r.size())
			return nil
		}
		if !errors.Is(err, stream.ErrUndecided) && !errors.Is(err, stream.ErrWrongSequence) && !errors.Is(err, stream.ErrNoLeader) {
			return err
		}
		if head > before {
			before, tries = head, 0
		}
		if tries >= appendTries {
			return fmt.Errorf("%w (restore again: it goes on from what is stored)", err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(appendPause):
		}
	}
}

const (
	appendTries = 10
	appendPause = time.Second
)

// appendRest appends what the stream lacks behind its end, which it returns. What
// it holds must be the backup's, byte for byte.
func (r *restore) appendRest(ctx context.Context, s *stream.Stream) (last ledger.Seq, err error) {
	head, err := s.Head(ctx)
	if err != nil {
		return 0, err
	}
	if head.Last > 0 && (head.First != 1 || head.Deleted > 0) {
		return head.Last, fmt.Errorf("%w: its stream has holes; move %s away", ErrOtherLedger, filepath.Join(broker.Dir(r.Dir).Store(), "jetstream"))
	}
	if err := r.compare(ctx, s, head.Last); err != nil {
		if r.began == nil && errors.Is(err, ErrOtherLedger) {
			err = errors.Join(err, r.unmark(ctx, s)) // nothing was added but what was not there
		}
		return head.Last, err
	}
	a := &appender{to: s, next: head.Last + 1, progress: r.progress("restoring"), total: r.size()}
	if uint64(head.Last) >= r.size() {
		return head.Last, nil
	}
	err = r.backup.Read(ctx, head.Last+1, 0, func(seq ledger.Seq, body []byte) error { return a.add(ctx, seq, body) })
	if err == nil {
		err = a.flush(ctx)
	}
	return head.Last, err
}

// compare holds the records that are there against the backup.
func (r *restore) compare(ctx context.Context, s *stream.Stream, last ledger.Seq) error {
	switch {
	case last == 0:
		return nil
	case uint64(last) > r.size()+1 || uint64(last) > r.size() && (r.began == nil || !r.began.Aside):
		return fmt.Errorf("%w: it has %d records, the backup %d; nothing is lost that this backup could bring back", ErrOtherLedger, last, r.size())
	}
	stop, ended := context.WithCancel(ctx)
	defer ended()
	there := make(chan []byte, 64)
	var readErr error
	go func() {
		defer close(there)
		readErr = s.Read(stop, 1, last, func(_ ledger.Seq, body []byte) error {
			select {
			case there <- body:
				return nil
			case <-stop.Done():
				return stop.Err()
			}
		})
	}()
	// One more than the backup has is the declaration of a loss; the logger
	// looks at it.
	err := r.backup.Read(ctx, 1, min(last, ledger.Seq(r.size())), func(seq ledger.Seq, body []byte) error {
		got, ok := <-there
		if !ok {
			return fmt.Errorf("read the stream: it ended before record %d: %w", seq, readErr)
		}
		if !bytes.Equal(got, body) {
			return fmt.Errorf("%w: record %d is not the backup's", ErrOtherLedger, seq)
		}
		return nil
	})
	ended()
	for range there { // until the reader has stopped
	}
	return err
}

// appender gathers records into batches.
type appender struct {
	to       *stream.Stream
	next     ledger.Seq // of the first that is gathered
	msgs     []stream.Message
	bytes    int
	total    uint64
	progress func(done, total uint64)
}

const appendBytes = 8 << 20

func (a *appender) add(ctx context.Context, seq ledger.Seq, body []byte) error {
	a.msgs = append(a.msgs, stream.Message{Subject: subjectOf(body), Body: bytes.Clone(body)})
	a.bytes += len(body)
	if len(a.msgs) < a.to.MaxBatch() && a.bytes < appendBytes {
		return nil
	}
	return a.flush(ctx)
}

func (a *appender) flush(ctx context.Context) error {
	if len(a.msgs) == 0 {
		return nil
	}
	if err := a.to.Append(ctx, a.next, a.msgs); err != nil {
		return err
	}
	a.next += ledger.Seq(len(a.msgs))
	a.msgs, a.bytes = a.msgs[:0], 0
	a.progress(uint64(a.next-1), a.total)
	return nil
}

// subjectOf is where the logger published a record. A foreign message was
// published elsewhere below the same prefix, nobody knows where.
func subjectOf(body []byte) string {
	if r, err := ledger.ParseRecord(body); err == nil {
		if ev, err := events.DecodeEnvelope(r.Event); err == nil {
			return stream.SubjectPrefix + ev.Type
		}
	}
	return stream.SubjectPrefix + "foreign"
}
