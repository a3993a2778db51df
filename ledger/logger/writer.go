package logger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/ledger/stream"
)

// writer is the state of Run's goroutine. Nothing in it is shared.
type writer struct {
	l *Logger

	head position // confirmed and indexed
	tree *ledger.Tree
	tip  position // last record built; equal to head when nothing is under way

	pending map[idKey]*written // built, not yet indexed
	// recent ids of each principal that was heard.
	recent   map[string]*recent
	foreign  map[ledger.Seq]ledger.Hash // messages of others without acknowledgement
	ownQueue []ownEvent                 // events of the logger itself
	started  bool                       // logger.started is built
	watch    watch
	idle     time.Duration // since the last record, by the monotonic clock
	kept     time.Duration // monotonic time of the last housekeeping
	room     room
	free     uint64        // bytes free when room was last looked at
	built    *batch        // the next batch, while one is under way
	sent     time.Duration // monotonic time at which the append under way began
	held     bool          // nobody waits for the append under way any more
	spare    [][]byte      // arenas of finished batches, to be filled again

	zone *time.Location // in which weeks begin; set by recover
	week week           // of some record before; see weekIsOver
}

// ownEvent is an encoded event of the logger itself.
type ownEvent struct {
	typ string
	raw []byte
}

// room is what the low-water mark leaves open.
type room int

const (
	roomForAll     room = iota
	roomForClosing      // resolver and operator only
	roomForNone
)

// written is a record on its way.
type written struct {
	keyed   bool
	key     idKey
	entry   entry
	answer  []byte     // nil: the receipt
	acks    ledger.Seq // foreign message that this record acknowledges
	own     ownEvent   // of the logger, and nobody waits for it
	starts  bool       // logger.started
	passes  bool       // it is one of bypassing
	waiters []waiter
	first   [1]waiter // room of waiters, which are rarely more
}

type waiter struct {
	r *request
	i int
}

// batch is one append.
type batch struct {
	first   ledger.Seq
	msgs    []stream.Message
	records []*written
	bytes   int
	sent    time.Duration // when it was last sent, by the monotonic clock
	// arenas hold the bodies; the last one is being filled.
	arenas [][]byte
	slab   []written // room for the coming records
}

// slabRecords is how many records of a batch share an allocation.
const slabRecords = 128

// add makes room for one more record.
func (b *batch) add() *written {
	if len(b.slab) == 0 {
		n := slabRecords
		if len(b.records) == 0 {
			n = 1 // most batches of a quiet ledger have no other
		}
		b.slab = make([]written, n)
	}
	rec := &b.slab[0]
	b.slab = b.slab[1:]
	b.records = append(b.records, rec)
	return rec
}

// await answers r's item i with the record.
func (rec *written) await(r *request, i int) {
	rec.first[0] = waiter{r, i}
	rec.waiters = rec.first[:]
}

// floodBatch is the largest batch while a principal sends more than its queue
// holds. Another's event waits for the batch under way, the one that is built
// and its own: what fills them is the flood's, and the broker takes seventy
// milliseconds for the largest.
const floodBatch = 256

const (
	arenaBytes = 256 << 10
	// maxSpare keeps what three batches of the usual size need.
	maxSpare = 64
)

func (w *writer) init(l *Logger) {
	w.l = l
	w.tree = &ledger.Tree{}
	w.pending = map[idKey]*written{}
	w.recent = map[string]*recent{}
	w.foreign = map[ledger.Seq]ledger.Hash{}
	l.queues.wake = make(chan struct{}, 1)
}

// errForeign means that the stream goes on with somebody else's message.
var errForeign = errors.New("foreign record")

// loop is the append pipeline: while one batch is under way, the one before it
// is indexed and answered and the next one is built and staged. The order of a batch's
// own steps never changes. It returns nil once ctx has ended and everything
// that was sent is settled.
func (w *writer) loop(ctx context.Context) (err error) {
	tick := time.NewTicker(housekeep)
	defer tick.Stop()
	var confirmed, cur, next *batch
	defer func() {
		// Whatever ended the loop, nobody is left without an answer.
		w.drop(confirmed)
		w.drop(cur)
		w.drop(next)
	}()
	for {
		if cur == nil {
			if err := w.finish(confirmed); err != nil {
				return err
			}
			if cur, err = w.await(ctx, tick); cur == nil {
				return err
			}
		}
		acked := w.send(ctx, cur)
		err := w.finish(confirmed)
		if err == nil && ctx.Err() == nil {
			next, err = w.tryBuild()
			w.built = next
		}
		if next != nil {
			w.l.cfg.Stream.Stage(next.first, next.msgs)
		}
		outcome := w.outcome(acked, cur, tick)
		if err != nil {
			return err
		}
		err = w.settle(ctx, cur, outcome)
		if errors.Is(err, errForeign) {
			w.drop(next)
			next, err = nil, nil
			w.tip = w.head
		}
		if errors.Is(err, ErrFenced) {
			w.l.fence() // before anything is answered
		}
		if err != nil {
			return err
		}
		w.observeAppend(cur)
		confirmed, cur, next, w.built = cur, next, nil, nil
	}
}

// await waits until there is something to append; nil once ctx has ended.
func (w *writer) await(ctx context.Context, tick *time.Ticker) (*batch, error) {
	for ctx.Err() == nil {
		b, err := w.tryBuild()
		if b != nil || err != nil {
			return b, err
		}
		if w.l.queues.waiting() > 0 {
			continue // what was looked at needed no record
		}
		select {
		case <-ctx.Done():
		case <-w.l.queues.wake:
		case <-tick.C:
		}
	}
	return nil, nil
}

// send appends in the background. The append is not cut short by a stop: its
// outcome is worth a few seconds.
func (w *writer) send(ctx context.Context, b *batch) <-chan error {
	done := make(chan error, 1)
	w.sent = w.l.cfg.Clock.Monotonic()
	b.sent = w.l.cfg.Clock.Monotonic()
	go func() { done <- w.l.cfg.Stream.Append(context.WithoutCancel(ctx), b.first, b.msgs) }()
	return done
}

// finish makes a confirmed batch visible: index, then receipts. Done once, it
// does nothing more.
func (w *writer) finish(b *batch) error {
	if b == nil || len(b.records) == 0 {
		return nil
	}
	kb := w.l.index.db.NewBatch()
	defer kb.Close()
	acked, since := false, w.head.since
	for _, rec := range b.records {
		if !rec.passes {
			since = rec.entry.time
		}
		w.tree.Append(rec.entry.leaf)
		if rec.keyed {
			putEntry(kb, rec.key, rec.entry)
		}
		if rec.acks != 0 {
			acked = true
			delete(w.foreign, rec.acks)
			kb.Delete(foreignKey(rec.acks))
		}
	}
	last := b.records[len(b.records)-1].entry
	w.head = position{last.seq, last.leaf, last.time, since}
	if err := w.commit(kb); err != nil {
		return err
	}
	w.l.cosign.remember(b.records)
	if acked {
		w.rest()
	}
	receipts := make([]byte, 0, receiptBytes*len(b.records))
	for _, rec := range b.records {
		if rec.keyed {
			delete(w.pending, rec.key)
		}
		receipts = rec.reply(receipts)
	}
	w.observeAnswer(b.records)
	b.records = nil
	w.recycle(b)
	return nil
}

func (w *writer) commit(kb *kv.Batch) error {
	putHead(kb, w.head, w.tree)
	if err := kb.Commit(false); err != nil {
		return fmt.Errorf("logger index: %w", err)
	}
	w.publish()
	return nil
}

// publish shows the confirmed end to signer and status.
func (w *writer) publish() {
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snap = snapshot{tree: w.tree.Clone(), head: w.head, foreign: len(w.foreign) > 0}
}

// rest sets the state that holds between appends.
func (w *writer) rest() {
	switch {
	case len(w.foreign) > 0:
		w.l.setState(ForeignIn, w.foreignDetail())
	case w.room != roomForAll:
		w.l.setState(LowDisk, w.roomDetail())
	default:
		w.l.setState(Serving, "")
	}
}

func (w *writer) roomDetail() string {
	return fmt.Sprintf("%d bytes free, the mark is %d", w.free, w.l.cfg.LowWater)
}

// reply answers everyone who waits for the record, building receipts in buf.
func (rec *written) reply(buf []byte) []byte {
	for _, wt := range rec.waiters {
		body := rec.answer
		if body == nil {
			start := len(buf)
			buf = appendReceipt(buf, rec.entry, wt.r.source.principal.ReceiptsSeq)
			body = buf[start:len(buf):len(buf)]
		}
		wt.r.answer(wt.i, body)
	}
	return buf
}

// drop answers what was built but will not be appended by this logger, and
// keeps the logger's own events for another batch. After finish it does nothing.
func (w *writer) drop(b *batch) {
	if b == nil {
		return
	}
	why := unavailable("the logger could not append; publish the same event again")
	body := why.encode()
	for _, rec := range b.records {
		if rec.keyed {
			delete(w.pending, rec.key)
		}
		switch {
		case rec.own.raw != nil:
			w.ownQueue = append(w.ownQueue, rec.own)
		case rec.starts:
			w.started = false
		}
		for _, wt := range rec.waiters {
			w.l.queues.refuseItem(wt.r, wt.i, why.Code, body)
		}
	}
	b.records = nil
}

// receiptBytes is about the length of a receipt.
const receiptBytes = 150

// appendReceipt appends the ack: this event is fsynced and chained at this
// position.
func appendReceipt(out []byte, e entry, withSeq bool) []byte {
	out = append(out, '{')
	if withSeq {
		out = append(out, `"seq":`...)
		out = strconv.AppendUint(out, uint64(e.seq), 10)
		out = append(out, ',')
	}
	out = append(out, `"leaf":"`...)
	out = hex.AppendEncode(out, e.leaf[:])
	out = append(out, `","recorded_at":"`...)
	out = ledger.AppendTime(out, e.time)
	return append(out, '"', '}')
}

// housekeeping runs about once a second: clocks, counters, room on the disk.
func (w *writer) housekeeping() {
	now := w.l.cfg.Clock.Monotonic()
	if w.kept != 0 && now-w.kept < housekeep {
		return
	}
	w.kept = now
	w.checkRoom()
	if w.quiet() {
		return
	}
	w.readClock()
	w.tick()
	w.recordCounts()
}

func (w *writer) recordCounts() {
	w.l.queues.drainCounts(func(k countKey, c count) {
		w.own(&events.IntakeRejected{Context: ownContext(), Principal: k.principal, Code: string(k.code), Size: c.bytes, Count: c.events})
	})
}

// farewell writes down what was counted since the last housekeeping. The
// queues are empty and take nothing more.
func (w *writer) farewell() error {
	w.recordCounts()
	ctx, cancel := context.WithTimeout(context.Background(), farewellTimeout)
	defer cancel()
	for len(w.ownQueue) > 0 && !w.quiet() {
		b := w.build()
		err := w.settle(ctx, b, <-w.send(ctx, b))
		if err == nil {
			err = w.finish(b)
		}
		if err != nil {
			w.drop(b)
			return fmt.Errorf("record what was counted: %w", err)
		}
	}
	return nil
}

func (w *writer) checkRoom() {
	if w.l.cfg.FreeBytes == nil {
		return
	}
	free, err := w.l.cfg.FreeBytes()
	if err != nil {
		w.l.cfg.Log.Error().Err(err).Msg("free disk space")
		return
	}
	before := w.room
	w.free = free
	switch {
	case free < w.l.cfg.LowWater/2:
		w.room = roomForNone
	case free < w.l.cfg.LowWater:
		w.room = roomForClosing
	default:
		w.room = roomForAll
	}
	if w.room != before {
		w.rest()
	}
}
