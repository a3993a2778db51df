package logger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/stream"
	"assay/schema"
)

func (w *writer) tryBuild() (*batch, error) {
	w.housekeeping()
	b := w.build()
	if err := w.l.index.db.Err(); err != nil {
		return nil, err
	}
	if len(b.msgs) == 0 {
		return nil, nil
	}
	return b, nil
}

// build chains what waits: week.closed if it is due, the logger's other events,
// then the queues in turn.
func (w *writer) build() *batch {
	w.readClock()
	b := &batch{first: w.tip.seq + 1}
	limit := w.l.cfg.Stream.MaxBatch()
	if waiting := w.l.queues.waiting() + len(w.ownQueue); waiting < singlesBelow {
		limit = 1
	} else if w.l.queues.flooding(w.l.cfg.Clock.Monotonic()) {
		limit = min(limit, floodBatch)
	}
	w.turnWeek(b, limit)
	if !w.quiet() && w.started && w.l.lapsed() {
		// Another may have taken over. A record of this logger's own tells,
		// before anybody is answered.
		if len(b.msgs)+len(w.ownQueue) == 0 {
			w.ticked()
		}
		w.buildOwn(b, 1)
		return b
	}
	w.buildOwn(b, limit)
	for taken := 0; taken < maxTaken && len(b.msgs) < limit && b.bytes < maxBatchBytes; taken++ {
		r, i, ok := w.l.queues.take()
		if !ok {
			break
		}
		w.take(b, r, i)
	}
	return b
}

// quiet says that not even the logger's own events are written at present.
func (w *writer) quiet() bool { return len(w.foreign) > 0 || w.room == roomForNone }

// buildOwn chains the logger's own events; logger.started is the first.
func (w *writer) buildOwn(b *batch, limit int) {
	if w.quiet() {
		return
	}
	if !w.started && len(b.msgs) < limit {
		own, err := w.encode(&events.LoggerStarted{
			Context: ownContext(), BootID: w.l.cfg.Clock.BootID(),
			HeadSeq: uint64(w.tip.seq), HeadLeaf: w.tip.leaf.String(), Software: w.l.cfg.Software,
		})
		if err != nil {
			w.l.cfg.Log.Error().Err(err).Msg("encode logger.started")
		} else {
			w.chain(b, Principal, Namespace, own.typ, own.raw).starts = true
		}
		w.started = true
	}
	for len(w.ownQueue) > 0 && len(b.msgs) < limit {
		w.chainOwn(b)
	}
}

// chainOwn chains the first of the logger's own events.
func (w *writer) chainOwn(b *batch) {
	own := w.ownQueue[0]
	w.ownQueue = w.ownQueue[1:]
	w.chain(b, Principal, Namespace, own.typ, own.raw).own = own
}

// take decides about one event: refused, seen before, or chained.
func (w *writer) take(b *batch, r *request, i int) {
	it := &r.items[i]
	if why := w.closed(r.source, it); why != nil {
		w.l.queues.refuseItem(r, i, why.Code, why.encode())
		return
	}
	if it.refused != nil {
		w.reject(b, r, i, it.refused)
		return
	}
	key := idKey{r.source.id, it.checked.ID}
	seen, known := w.pending[key]
	if known && seen.entry.has(key.principal, it.raw) {
		seen.waiters = append(seen.waiters, waiter{r, i})
		return
	}
	if !known {
		e, indexed, err := w.lookup(key)
		if err != nil {
			w.l.cfg.Log.Error().Err(err).Msg("look up event id")
			why := unavailable("the logger's index failed")
			w.l.queues.refuseItem(r, i, why.Code, why.encode())
			return
		}
		if indexed && e.has(key.principal, it.raw) {
			r.answer(i, appendReceipt(nil, e, r.source.principal.ReceiptsSeq))
			return
		}
		known = indexed
	}
	if known {
		w.reject(b, r, i, &refusal{Code: CodeConflict, Pointer: "/id", Message: "this id was used for other bytes"})
		return
	}
	rec := w.chain(b, r.source.id, r.source.principal.Namespace, it.checked.Type, it.raw)
	rec.keyed, rec.key = true, key
	rec.await(r, i)
	if len(w.foreign) > 0 {
		rec.acks = w.acknowledges(r.source.id, it.raw)
	}
	w.pending[key] = rec
}

// lookup finds the event among those that were taken.
func (w *writer) lookup(key idKey) (entry, bool, error) {
	r := w.recent[key.principal]
	if r == nil {
		largest, err := w.l.index.largest(key.principal)
		if err != nil {
			return entry{}, false, err
		}
		r = newRecent(largest)
		w.recent[key.principal] = r
	}
	if r.isNew(key.id) {
		return entry{}, false, nil
	}
	return w.l.index.lookup(key)
}

// closed says why nothing of this kind is taken at present; nil if it is.
func (w *writer) closed(s *Source, it *item) *refusal {
	switch {
	case len(w.foreign) > 0 && (it.refused != nil || w.acknowledges(s.id, it.raw) == 0):
		return unavailable("somebody else wrote to the ledger; it waits for the operator's acknowledgement")
	case w.room == roomForNone, w.room == roomForClosing && s.principal.Role != principal.Resolver && s.principal.Role != principal.Operator:
		return unavailable("the ledger's disk is nearly full")
	}
	return nil
}

// now is the time of the next record. Ledger time never goes back;
// clock.stepped tells.
func (w *writer) now() time.Time {
	if w.watch.wall.Before(w.tip.time) {
		return w.tip.time
	}
	return w.watch.wall
}

// chain adds one record to the batch.
func (w *writer) chain(b *batch, who, namespace, typ string, event []byte) *written {
	now := w.now()
	h := ledger.Header{Seq: w.tip.seq + 1, Prev: w.tip.leaf, RecordedAt: now, Principal: who, Namespace: namespace}
	body := w.appendBody(b, h, event)
	rec := b.add()
	rec.entry = entry{seq: h.Seq, time: now, leaf: ledger.Leaf(body), prev: h.Prev, namespace: namespace}
	b.msgs = append(b.msgs, stream.Message{Subject: stream.SubjectPrefix + typ, Body: body})
	b.bytes += len(body)
	since := now
	if rec.passes = slices.Contains(bypassing, typ); rec.passes {
		since = w.tip.since
	}
	w.tip = position{h.Seq, rec.entry.leaf, now, since}
	w.idle = 0
	return rec
}

// appendBody builds the record in the batch's arenas.
func (w *writer) appendBody(b *batch, h ledger.Header, event []byte) []byte {
	const overhead = 512 // more than the record around an event
	last := len(b.arenas) - 1
	if last < 0 || cap(b.arenas[last])-len(b.arenas[last]) < len(event)+overhead {
		b.arenas = append(b.arenas, w.arena(len(event)+overhead))
		last++
	}
	start := len(b.arenas[last])
	arena := ledger.AppendRecord(b.arenas[last], h, event)
	b.arenas[last] = arena
	return arena[start:len(arena):len(arena)]
}

func (w *writer) arena(need int) []byte {
	if n := len(w.spare); n > 0 && cap(w.spare[n-1]) >= need {
		a := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return a
	}
	return make([]byte, 0, max(need, arenaBytes))
}

// recycle takes the arenas of a batch that is confirmed and indexed, so that
// its bytes will not be sent again: fresh memory costs a page fault every few
// records.
func (w *writer) recycle(b *batch) {
	for _, a := range b.arenas {
		if len(w.spare) < maxSpare {
			w.spare = append(w.spare, a[:0])
		}
	}
	b.arenas, b.msgs = nil, nil
}

// own queues an event of the logger itself.
func (w *writer) own(p events.Payload) {
	own, err := w.encode(p)
	if err != nil {
		w.l.cfg.Log.Error().Err(err).Str("type", p.Type()).Msg("encode own event")
		return
	}
	w.ownQueue = append(w.ownQueue, own)
}

// encode makes an event of the logger's, which obeys the schemas like any other.
func (w *writer) encode(p events.Payload) (ownEvent, error) {
	ev, err := w.l.maker.New(p)
	if err != nil {
		return ownEvent{}, err
	}
	return encodeChecked(ev)
}

func encodeChecked(ev *events.Event) (ownEvent, error) {
	raw, err := events.Encode(ev)
	if err != nil {
		return ownEvent{}, err
	}
	if _, fault := schema.Check(raw); fault != nil {
		return ownEvent{}, fault
	}
	return ownEvent{ev.Type, raw}, nil
}

// reject records a refusal and answers once the record is durable. Past the
// principal's rate it is counted instead and answered at once.
func (w *writer) reject(b *batch, r *request, i int, why *refusal) {
	it := &r.items[i]
	q := &w.l.queues
	q.noteRejected(why.Code)
	answer := why.encode()
	own, ok := ownEvent{}, q.allow(r.source, w.l.cfg.Clock.Monotonic())
	if ok {
		own, ok = w.rejection(r.source.id, it, why)
	}
	if !ok {
		q.count(r.source, why.Code, 1, int64(len(it.raw)))
		r.answer(i, answer)
		return
	}
	rec := w.chain(b, Principal, Namespace, own.typ, own.raw)
	rec.answer = answer
	rec.await(r, i)
	if w.l.cfg.Quarantine != nil {
		w.l.cfg.Quarantine(r.source.id, it.raw)
	}
}

// rejection is the intake.rejected of one item.
func (w *writer) rejection(who string, it *item, why *refusal) (own ownEvent, ok bool) {
	mac := hmac.New(sha256.New, w.l.keys.hmac)
	mac.Write(it.raw)
	sum := hex.EncodeToString(mac.Sum(nil))
	p := &events.IntakeRejected{
		Context: ownContext(), Principal: who, Code: string(why.Code),
		HMAC: &sum, Size: int64(len(it.raw)), Count: 1,
	}
	if why.Pointer != "" {
		p.Pointer = &why.Pointer
	}
	if it.checked.IDString != "" {
		p.EventID = &it.checked.IDString
	}
	own, err := w.encode(p)
	if err != nil && p.Pointer != nil {
		p.Pointer = nil // made of hostile names
		own, err = w.encode(p)
	}
	if err != nil {
		w.l.cfg.Log.Error().Err(err).Msg("encode intake.rejected")
	}
	return own, err == nil
}
