package logger

import "time"

// Observer is told what a running logger did, once a batch and from its
// writer's goroutine: it must not wait.
type Observer interface {
	// Appended: the broker confirmed a batch of that many records and bytes,
	// that long after it was first sent.
	Appended(records, bytes int, took time.Duration)
	// Answered: the event of a batch that was taken first got its receipt or
	// refusal that long after its request had come in. The others of the batch
	// waited no longer than about that.
	Answered(after time.Duration)
}

// now is the monotonic time for an observer, zero without one.
func (l *Logger) now() time.Duration {
	if l.cfg.Observer == nil {
		return 0
	}
	return l.cfg.Clock.Monotonic()
}

// observeAppend tells of the batch that was confirmed just now.
func (w *writer) observeAppend(b *batch) {
	if o := w.l.cfg.Observer; o != nil {
		o.Appended(len(b.records), b.bytes, w.l.now()-w.sent)
	}
}

// observeAnswer tells how long the first of the batch waited whom anybody
// asked for; the logger's own records are answered to nobody.
func (w *writer) observeAnswer(records []*written) {
	o := w.l.cfg.Observer
	if o == nil {
		return
	}
	for _, rec := range records {
		if len(rec.waiters) > 0 {
			o.Answered(w.l.now() - rec.waiters[0].r.came)
			return
		}
	}
}

// bySource counts the events that wait, principal by principal, those who
// have none included.
func (q *queues) bySource() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[string]int, len(q.sources))
	for _, s := range q.sources {
		if s.gone && len(s.waiting) == 0 {
			continue
		}
		n := -s.at
		for _, r := range s.waiting {
			n += len(r.items)
		}
		out[s.id] += n
	}
	return out
}
