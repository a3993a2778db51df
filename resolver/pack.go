package resolver

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/google/uuid"

	"assay/ledger"
)

// A settled prediction that only late samples or reports still concern is kept
// packed: all that it is but for its terms, in some 200 bytes. The form is that of
// the state file too.
//
//	integers   varints, the record's number unsigned
//	times      seconds and nanoseconds beyond recorded_at, both signed, which itself
//	           is beyond the Unix epoch
//	texts      a number of packedWords; else len(packedWords) and a UUID's 16 bytes;
//	           else the length + len(packedWords) + 1, and the bytes
//
// What a look over all of them asks for comes first.

// packedWords are texts that most have. Their order is part of the form.
var packedWords = []string{
	"", Confirmed, Refuted, Unresolved, byTelemetry, byOperator, bySandbox, "none", "known", "knowable", "window_open",
	"coverage_short", "sensor_unproven", "clock_ambiguous", "sources_conflict", "source_silent", "criterion_error", "production",
}

type packer struct {
	b    []byte
	base time.Time
}

func (w *packer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *packer) time(t time.Time) {
	w.b = binary.AppendVarint(w.b, t.Unix()-w.base.Unix())
	w.b = binary.AppendVarint(w.b, int64(t.Nanosecond()-w.base.Nanosecond()))
}

func (w *packer) text(s string) {
	for i, word := range packedWords {
		if s == word {
			w.uint(uint64(i))
			return
		}
	}
	if len(s) == 36 {
		if u, err := uuid.Parse(s); err == nil && u.String() == s {
			w.uint(uint64(len(packedWords)))
			w.b = append(w.b, u[:]...)
			return
		}
	}
	w.uint(uint64(len(packedWords) + 1 + len(s)))
	w.b = append(w.b, s...)
}

// pack is a prediction on the shelves.
func (p *prediction) pack() string {
	w := packer{make([]byte, 0, 256), time.Unix(0, 0)}
	w.uint(uint64(p.seq))
	w.time(p.recordedAt)
	w.base = p.recordedAt
	w.time(p.deadline)
	w.text(p.ruling.verdict)
	w.text(p.key.principal)
	w.time(p.since)
	w.time(p.until)
	w.text(p.key.predID)
	w.text(p.eventID)
	w.text(p.episode)
	w.text(p.namespace)
	if p.opp == nil {
		w.uint(0)
	} else {
		w.uint(1)
		w.text(*p.opp)
	}
	w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(p.p))
	w.time(p.window.Start)
	w.time(p.window.End)
	w.text(p.ruling.reason)
	w.text(p.ruling.kind)
	w.text(p.lastID)
	w.uint(uint64(p.lastCut))
	w.text(p.foreknown)
	w.uint(uint64(len(p.knownTo)))
	for _, t := range p.knownTo {
		w.time(t)
	}
	w.uint(uint64(len(p.reports)))
	for _, r := range p.reports {
		w.uint(uint64(r.seq))
		w.b = append(w.b, r.leaf[:]...)
		w.text(r.who)
		w.text(r.verdict)
		w.text(r.kind)
	}
	if a := p.act; a == nil {
		w.uint(0)
	} else {
		w.uint(1)
		w.uint(uint64(a.call))
		w.uint(uint64(a.seq))
		w.text(a.target)
		w.text(a.namespace)
		w.time(a.start)
		w.time(a.end)
	}
	return string(w.b)
}

// unpacker reads what a packer wrote; bad says that it cannot have.
type unpacker struct {
	b    string
	base time.Time
	bad  bool
}

func (r *unpacker) uint() (n uint64) {
	for shift := 0; shift < 64 && len(r.b) > 0; shift += 7 {
		c := r.b[0]
		r.b = r.b[1:]
		if n |= uint64(c&0x7f) << shift; c < 0x80 {
			return n
		}
	}
	r.bad = true
	return 0
}

func (r *unpacker) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *unpacker) take(n uint64) string {
	if n > uint64(len(r.b)) {
		r.bad, n = true, uint64(len(r.b))
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *unpacker) hash() (h ledger.Hash) {
	copy(h[:], r.take(uint64(len(h))))
	return h
}

func (r *unpacker) time() time.Time {
	sec, nsec := r.base.Unix()+r.int(), int64(r.base.Nanosecond())+r.int()
	if nsec < 0 || nsec >= 1e9 {
		r.bad = true
		return time.Time{}
	}
	return time.Unix(sec, nsec).UTC()
}

func (r *unpacker) text() string {
	n, words := r.uint(), uint64(len(packedWords))
	switch {
	case n < words:
		return packedWords[n]
	case n == words:
		var u uuid.UUID
		copy(u[:], r.take(uint64(len(u))))
		return u.String()
	}
	return r.take(n - words - 1)
}

// count is how many items follow, each of a byte at least.
func (r *unpacker) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

// unpack is the prediction that was packed, without its terms; false if none was.
func unpack(packed string) (*prediction, bool) {
	r := unpacker{b: packed, base: time.Unix(0, 0)}
	p := &prediction{state: Settled, shelved: true}
	p.seq, p.recordedAt = ledger.Seq(r.uint()), r.time()
	r.base = p.recordedAt
	p.deadline, p.ruling.verdict, p.key.principal = r.time(), r.text(), r.text()
	p.since, p.until = r.time(), r.time()
	p.key.predID, p.eventID, p.episode, p.namespace = r.text(), r.text(), r.text(), r.text()
	if r.uint() != 0 {
		opp := r.text()
		p.opp = &opp
	}
	var bits [8]byte
	copy(bits[:], r.take(8))
	p.p = math.Float64frombits(binary.LittleEndian.Uint64(bits[:]))
	p.window.Start, p.window.End = r.time(), r.time()
	p.ruling.reason, p.ruling.kind = r.text(), r.text()
	p.lastID, p.lastCut, p.foreknown = r.text(), ledger.Seq(r.uint()), r.text()
	for range r.count() {
		p.knownTo = append(p.knownTo, r.time())
	}
	for range r.count() {
		p.reports = append(p.reports, report{ledger.Seq(r.uint()), r.hash(), r.text(), r.text(), r.text()})
	}
	if r.uint() != 0 {
		p.act = &action{ledger.Seq(r.uint()), ledger.Seq(r.uint()), r.text(), r.text(), r.time(), r.time()}
	}
	return p, !r.bad && r.b == ""
}

// glance is what a look over all packed predictions asks for.
type glance struct {
	seq                ledger.Seq
	deadline           time.Time
	verdict, principal string
}

func glanceAt(packed string) glance {
	r := unpacker{b: packed, base: time.Unix(0, 0)}
	g := glance{seq: ledger.Seq(r.uint())}
	r.base = r.time()
	g.deadline, g.verdict, g.principal = r.time(), r.text(), r.text()
	return g
}
