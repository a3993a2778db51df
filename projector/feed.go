package projector

import (
	"context"
	"sync"
	"time"

	"assay/events"
	"assay/ledger"
)

const (
	chunkMessages = 512     // most messages of one chunk
	chunkBytes    = 1 << 20 // a chunk takes no more once it has as many
	chunksAhead   = 4       // chunks decoded ahead of the fold
)

// item is one message on its way to the fold.
type item struct {
	Record
	at        ledger.Seq // in the stream
	body      []byte
	parseErr  error // not a record
	decodeErr error // a record whose event cannot be decoded
}

// chunk is a run of messages that one worker decodes.
type chunk struct {
	items []item
	ready chan struct{} // closed when decoded
}

// feed reads ahead of the fold: one goroutine receives, the workers hash and
// decode, and chunks come out in the order of the messages. What is in flight
// is bounded, so a slow fold slows the reader down.
type feed struct {
	ordered chan *chunk
	work    chan *chunk
	spare   chan []item // emptied chunks to be filled again

	mu      sync.Mutex
	cond    sync.Cond
	pending []item // received, not yet in a chunk
	bytes   int
	last    ledger.Seq // received last
	ended   bool       // no more is received, or wanted
	err     error      // why the source ended

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func startFeed(ctx context.Context, src Source, from, to ledger.Seq, workers int) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{ordered: make(chan *chunk, chunksAhead), work: make(chan *chunk, chunksAhead), spare: make(chan []item, chunksAhead), cancel: cancel}
	f.cond.L = &f.mu
	f.wg.Go(func() { f.end(src.Read(ctx, from, to, f.add)) })
	f.wg.Go(func() { f.dispatch(ctx) })
	for range workers {
		f.wg.Go(f.decode)
	}
	return f
}

// stop ends the feed and waits for its goroutines.
func (f *feed) stop() {
	f.cancel()
	f.end(context.Canceled)
	for range f.ordered { // lets dispatch finish
	}
	f.wg.Wait()
}

func (f *feed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended, f.err = true, err
	}
	f.cond.Broadcast()
}

// result is why the source ended; valid once ordered is closed.
func (f *feed) result() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// received is the last message that came in.
func (f *feed) received() ledger.Seq {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *feed) add(seq ledger.Seq, body []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.ended && (len(f.pending) >= chunkMessages || f.bytes >= chunkBytes) {
		f.cond.Wait()
	}
	if f.ended {
		return f.err
	}
	f.pending = append(f.pending, item{at: seq, body: body})
	f.bytes += len(body)
	f.last = seq
	if len(f.pending) == 1 {
		f.cond.Broadcast()
	}
	return nil
}

// dispatch turns whatever is pending into a chunk as soon as there is room
// downstream: single messages on a quiet ledger, full chunks on a busy one.
func (f *feed) dispatch(ctx context.Context) {
	defer close(f.ordered)
	defer close(f.work)
	for {
		f.mu.Lock()
		for !f.ended && len(f.pending) == 0 {
			f.cond.Wait()
		}
		items := f.pending
		f.pending, f.bytes = f.empty(), 0
		f.cond.Broadcast()
		f.mu.Unlock()
		if len(items) == 0 {
			return
		}
		c := &chunk{items: items, ready: make(chan struct{})}
		select {
		case f.ordered <- c:
		case <-ctx.Done():
			return
		}
		f.work <- c
	}
}

func (f *feed) empty() []item {
	select {
	case items := <-f.spare:
		return items
	default:
		return nil
	}
}

// recycle gives a folded chunk's space back.
func (f *feed) recycle(c *chunk) {
	clear(c.items)
	select {
	case f.spare <- c.items[:0]:
	default:
	}
}

func (f *feed) decode() {
	for c := range f.work {
		for i := range c.items {
			c.items[i].parse()
		}
		close(c.ready)
	}
}

func (it *item) parse() {
	it.Leaf = ledger.Leaf(it.body)
	it.Record.Record, it.parseErr = ledger.ParseRecord(it.body)
	if it.parseErr != nil {
		return
	}
	if it.Event, it.decodeErr = events.Decode(it.Record.Record.Event); it.decodeErr != nil {
		it.Event = nil
		return
	}
	if t, err := time.Parse(time.RFC3339Nano, it.Event.Time); err == nil {
		it.EventTime = t
	}
}
