package logger_test

import (
	"maps"

	"assay/ledger"
	"assay/ledger/stream"
)

// watch holds what one incarnation of the logger does against the rules of the
// append. It knows only what the stream told the logger.
type watch struct {
	in *incarnation

	under    int // appends under way
	open     *openAppend
	mustLook bool                       // told that the stream ends elsewhere, and has not read its end since
	attempts map[ledger.Seq]ledger.Hash // what was sent for a position
	known    ledger.Seq                 // up to here the logger was told that the records are stored
	headed   ledger.Seq                 // the last end that was read
	fence    ledger.Seq                 // another logger's record that came after the start had read the stream; 0 if none
}

// openAppend is an append without an ack.
type openAppend struct {
	first   ledger.Seq
	leaves  []ledger.Hash
	seen    int  // how many of them were read back, in order
	strange bool // another's message was read behind those
}

// append is called when the logger sends.
func (w *watch) append(first ledger.Seq, msgs []stream.Message) {
	s := w.in.s
	if w.under++; w.under != 1 {
		s.violate("two appends at a time")
	}
	if len(msgs) == 0 || len(msgs) > s.stream.max {
		s.violate("append of %d messages, the limit is %d", len(msgs), s.stream.max)
	}
	leaves := make([]ledger.Hash, len(msgs))
	for i, m := range msgs {
		leaves[i] = ledger.Leaf(m.Body)
	}
	// The same bytes at the same place may always be sent again.
	if w.mustLook && (first != w.open.first || !w.open.isRest(first, leaves)) {
		s.violate("append at %d although the stream ends elsewhere and its end was not read since", first)
	}
	if o := w.open; o != nil {
		switch end := o.first + ledger.Seq(len(o.leaves)); {
		case o.strange && first == w.headed+1 && (first > o.first+ledger.Seq(o.seen) || w.in.stale):
		case o.seen == len(o.leaves) && first == end:
		case !o.isRest(first, leaves):
			s.violate("append at %d, but that of %d+%d is undecided and %d of it were read back", first, o.first, len(o.leaves), o.seen)
		}
	} else if w.known > 0 && first != w.known+1 {
		s.violate("append at %d, but %d is the last record that is known", first, w.known)
	}
	for i, leaf := range leaves {
		at := first + ledger.Seq(i)
		if before, again := w.attempts[at]; again && before != leaf {
			s.violate("record %d was rebuilt", at)
		}
		w.attempts[at] = leaf
	}
}

// isRest says whether these are the open append's own bytes, from a record on
// that was not yet seen and behind those that were.
func (o *openAppend) isRest(first ledger.Seq, leaves []ledger.Hash) bool {
	if first < o.first || first > o.first+ledger.Seq(o.seen) {
		return false
	}
	rest := o.leaves[first-o.first:]
	if len(rest) != len(leaves) {
		return false
	}
	for i, l := range rest {
		if leaves[i] != l {
			return false
		}
	}
	return true
}

// answered is called when the logger learns what the broker said.
func (w *watch) answered(first ledger.Seq, msgs []stream.Message, err error) {
	w.under--
	if err == nil {
		w.open, w.mustLook, w.known = nil, false, max(w.known, first+ledger.Seq(len(msgs))-1)
		if w.fence != 0 && w.known >= w.fence {
			w.in.s.violate("a fenced logger appended record %d", w.known)
		}
		return
	}
	o := &openAppend{first: first}
	for _, m := range msgs {
		o.leaves = append(o.leaves, ledger.Leaf(m.Body))
	}
	w.open = o
	w.mustLook = isWrong(err)
}

func (w *watch) head(last ledger.Seq) { w.headed, w.mustLook = last, false }

// reads is called when a start reads the message: it makes it the logger's past.
func (w *watch) reads(seq ledger.Seq, leaf ledger.Hash) {
	if seq == w.fence {
		w.fence = 0
	}
	w.got(seq, leaf)
}

// got is called when the logger reads a message back.
func (w *watch) got(seq ledger.Seq, leaf ledger.Hash) {
	w.known = max(w.known, seq)
	o := w.open
	if o == nil || seq != o.first+ledger.Seq(o.seen) || o.seen == len(o.leaves) {
		return
	}
	if leaf == o.leaves[o.seen] {
		o.seen++
		return
	}
	o.strange = true
	maps.DeleteFunc(w.attempts, func(at ledger.Seq, _ ledger.Hash) bool { return at >= seq })
}

// signs holds a checkpoint that is about to be stored as latest against what
// the logger may sign.
func (w *watch) signs(cp ledger.Checkpoint) {
	s := w.in.s
	size := ledger.Seq(cp.Size)
	switch {
	case size > w.known:
		s.violate("signed size %d, but %d is the last record that is known to be stored", size, w.known)
	case int(size) >= len(s.stream.roots) || cp.Root != s.stream.roots[size]:
		s.violate("signed root %s of size %d, which the stream does not have", cp.Root, size)
	case w.fence != 0 && size >= w.fence:
		s.violate("a fenced logger signed size %d", size)
	case cp.Size < s.files.signed:
		s.violate("signed size %d after %d", size, s.files.signed)
	}
	for _, seq := range s.stream.unacknowledged() {
		if seq <= size {
			s.violate("signed size %d over message %d, which nobody acknowledged", size, seq)
		}
	}
}

// acks holds a receipt against the stream.
func (w *watch) acks(ev *simEvent, a answer, indexed uint64) {
	s := w.in.s
	seq := s.stream.at[a.Leaf]
	switch {
	case ev.garbage:
		s.violate("garbage was acked: %.100s", ev.raw)
		return
	case seq == 0:
		s.violate("a receipt names leaf %s, which the stream does not have", a.Leaf)
		return
	case ev.who.ReceiptsSeq && a.Seq != uint64(seq) || !ev.who.ReceiptsSeq && a.Seq != 0:
		s.violate("a receipt says record %d, its leaf is that of record %d", a.Seq, seq)
	case seq > w.known:
		s.violate("record %d was acked, but %d is the last that is known to be stored", seq, w.known)
	case uint64(seq) > indexed:
		s.violate("record %d was acked before it was indexed", seq)
	case w.fence != 0 && seq >= w.fence:
		s.violate("a fenced logger acked record %d", seq)
	}
	r, err := ledger.ParseRecord(s.stream.stored[seq-1])
	if err != nil || string(r.Event) != string(ev.raw) || r.Principal != ev.who.ID() || ledger.FormatTime(r.RecordedAt) != a.RecordedAt {
		s.violate("record %d is not what its receipt says: %+v", seq, a)
	}
	if ev.acked && a != ev.receipt {
		s.violate("receipt %+v, the first was %+v", a, ev.receipt)
	}
	ev.acked, ev.receipt = true, a
}
