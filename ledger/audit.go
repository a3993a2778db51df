package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Auditor checks a ledger record by record, in memory constant in its length.
type Auditor struct {
	anchor Anchor
	heads  []head // not yet reached, by size
	keys   keychain

	tree       Tree
	last       Hash
	parent     Hash // the predecessor's leaf of the record that hashes to last
	lastTime   time.Time
	goodSize   uint64 // size of the largest checkpoint whose root matched
	highest    uint64 // size of the largest checkpoint
	anchored   bool   // something trusted was held against the records
	suspect    *suspect
	foreign    []Foreign
	losses     []Loss
	bad        finding // about a place: a link, a gap, a record's content
	rewritten  finding // about a range: a checkpoint's root
	rewriteEnd uint64  // last record of that range
}

// head is a checkpoint to be reached.
type head struct {
	Checkpoint
	raw []byte // signed note to be checked; nil if it is trusted already
}

type finding struct {
	seq   Seq // 0 when there is none
	check Check
	text  string
}

// note keeps the finding with the lowest position.
func (f *finding) note(seq Seq, check Check, format string, args ...any) {
	if f.seq == 0 || seq < f.seq {
		*f = finding{max(seq, 1), check, fmt.Sprintf(format, args...)}
	}
}

// suspect is a message whose link to its predecessor failed. Its successor
// decides which of the two was altered.
type suspect struct {
	seq    Seq
	check  Check
	reason string
	// unlinked: only the link to the predecessor is wrong, so that either of
	// the two may have been altered.
	unlinked bool
}

// NewAuditor starts an audit at record 1.
func NewAuditor(a Anchor) *Auditor {
	d := &Auditor{anchor: a, keys: keychain{pinned: a.Key}}
	for _, cp := range a.Checkpoints {
		d.heads = append(d.heads, head{Checkpoint: cp})
	}
	for _, s := range a.Signed {
		if s.Size > 0 { // of nothing it says nothing
			d.heads = append(d.heads, head{s.Checkpoint, s.Raw})
		}
	}
	slices.SortFunc(d.heads, func(x, y head) int {
		return cmp.Or(cmp.Compare(x.Size, y.Size), bytes.Compare(x.Root[:], y.Root[:]))
	})
	if n := len(d.heads); n > 0 {
		d.highest = d.heads[n-1].Size
	}
	d.reach() // a checkpoint of size 0
	return d
}

// Add checks the message stored at seq. It must be called in the order of the
// stream.
func (d *Auditor) Add(seq Seq, body []byte) { d.AddHashed(seq, body, Leaf(body)) }

// AddHashed is Add for a caller that has computed the body's leaf hash already.
func (d *Auditor) AddHashed(seq Seq, body []byte, leaf Hash) {
	want := Seq(d.tree.Size()) + 1
	if seq != want {
		d.bad.note(want, CheckSequence, "records %d to %d are missing: after record %d the stream continues at %d", want, seq-1, want-1, seq)
		// What follows can still be linked to what it names; the tree cannot.
		return
	}
	r, err := ParseRecord(body)
	linked := err == nil && r.Seq == seq && r.Prev == d.last
	d.settle(err == nil && r.Prev == d.last)
	if !linked {
		d.suspect = d.suspectOf(seq, &r, err)
	} else {
		d.checkContent(&r)
	}
	d.parent, d.last = d.last, leaf
	d.tree.Append(d.last)
	d.reach()
}

// Lost says that the stream claims to go on to last, but that nothing behind what
// was added can be read.
func (d *Auditor) Lost(last Seq) {
	at := Seq(d.tree.Size()) + 1
	d.bad.note(at, CheckSequence, "records %d to %d are missing: the stream says that it ends at %d, but nothing behind record %d can be read", at, last, last, at-1)
}

// suspectOf says what is wrong with a message that does not continue the chain.
func (d *Auditor) suspectOf(seq Seq, r *Record, err error) *suspect {
	switch {
	case err != nil:
		return &suspect{seq: seq, check: CheckForeign, reason: err.Error()}
	case seq > 1 && r.Seq == seq-1 && r.Prev == d.parent:
		return &suspect{seq: seq, check: CheckFork, reason: fmt.Sprintf("the record at position %d says seq %d and names the same predecessor as the record before it: two loggers wrote", seq, r.Seq)}
	case r.Seq != seq:
		return &suspect{seq: seq, check: CheckLink, reason: fmt.Sprintf("the record at position %d says seq %d", seq, r.Seq)}
	}
	return &suspect{seq: seq, check: CheckLink, unlinked: true, reason: fmt.Sprintf("record %d names %s as its predecessor's leaf hash, but record %d hashes to %s", seq, r.Prev, seq-1, d.last)}
}

// settle decides about the pending suspect, now that its successor is known
// to name its leaf hash or not.
func (d *Auditor) settle(confirmed bool) {
	s := d.suspect
	if s == nil {
		return
	}
	d.suspect = nil
	switch {
	case confirmed:
		// Its bytes are what its successor was chained to. The logger chained
		// over somebody else's message, or, if it looks like a record, its
		// predecessor was altered; an acknowledgement will tell.
		f := Foreign{Seq: s.seq, SHA256: d.last.String(), reason: s.reason, check: s.check}
		if s.unlinked && s.seq > 1 {
			f.blame = fmt.Sprintf("record %d was altered: %s", s.seq-1, s.reason)
		}
		d.foreign = append(d.foreign, f)
	default:
		// Its successor does not name it either. Only an acknowledgement of its
		// very bytes explains it: several foreign messages in a row.
		d.foreign = append(d.foreign, Foreign{Seq: s.seq, SHA256: d.last.String(), reason: s.reason, check: s.check, altered: true})
	}
}

// checkContent holds a well-linked record against what the logger promises.
func (d *Auditor) checkContent(r *Record) {
	if r.RecordedAt.Before(d.lastTime) {
		d.bad.note(r.Seq, CheckTime, "record %d goes back in time: %s after %s", r.Seq, FormatTime(r.RecordedAt), FormatTime(d.lastTime))
	}
	d.lastTime = r.RecordedAt
	if r.Seq == 1 {
		if err := d.keys.open(r); err != nil {
			d.bad.note(1, CheckOpening, "%v", err)
		}
	}
	if rot, ok := ParseRotation(r); ok {
		if err := d.keys.rotate(r.Seq, &rot); err != nil {
			d.bad.note(r.Seq, CheckKey, "record %d: %v", r.Seq, err)
		}
	}
	if loss, ok := ParseLoss(r); ok {
		d.losses = append(d.losses, loss)
	}
	if len(d.foreign) > 0 && bytes.Contains(r.Event, []byte("ledger.foreign_acknowledged")) {
		d.acknowledge(r)
	}
}

// acknowledge notes the operator's word about a foreign message.
func (d *Auditor) acknowledge(r *Record) {
	ack, ok := ParseAcknowledgement(r)
	if !ok {
		return
	}
	for i := range d.foreign {
		f := &d.foreign[i]
		if f.Seq == ack.Seq && f.SHA256 == ack.SHA256 {
			f.Acknowledged = true
		}
	}
}

// Acknowledgement is the content of a ledger.foreign_acknowledged event.
type Acknowledgement struct {
	Seq    Seq    `json:"seq"`
	SHA256 string `json:"sha256"`
}

// ParseAcknowledgement reads a ledger.foreign_acknowledged event that an
// operator wrote; ok is false for every other record.
func ParseAcknowledgement(r *Record) (ack Acknowledgement, ok bool) {
	var ev struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	if len(r.Principal) < 9 || r.Principal[:9] != "operator/" {
		return ack, false
	}
	if json.Unmarshal(r.Event, &ev) != nil || ev.Type != "ledger.foreign_acknowledged" {
		return ack, false
	}
	return ack, json.Unmarshal(ev.Data, &ack) == nil
}

// reach holds the tree against the checkpoints of its present size.
func (d *Auditor) reach() {
	var at []head
	for len(d.heads) > 0 && d.heads[0].Size == d.tree.Size() {
		if h := d.heads[0]; d.trusts(h) {
			at = append(at, h)
		}
		d.heads = d.heads[1:]
	}
	if n := len(at); n > 1 && at[0].Root != at[n-1].Root { // they are sorted by root
		d.bad.note(Seq(d.goodSize)+1, CheckFork, "two checkpoints of size %d are signed, with the roots %s and %s: the log was forked behind record %d",
			at[0].Size, at[0].Root, at[n-1].Root, d.goodSize)
	}
	for _, h := range at {
		if root := d.tree.Root(); h.Root != root {
			d.rewriteEnd = max(d.rewriteEnd, h.Size)
			d.rewritten.note(Seq(d.goodSize)+1, CheckRoot, "the checkpoint of size %d signs root %s, but the records hash to %s: records %d to %d, or some of them, were rewritten",
				h.Size, h.Root, root, d.goodSize+1, h.Size)
			return
		}
	}
	if len(at) > 0 {
		d.goodSize = d.tree.Size()
	}
}

// trusts says whether the checkpoint counts, and notes one that is not signed by
// the key that is in force.
func (d *Auditor) trusts(h head) bool {
	if h.raw != nil {
		if err := d.keys.check(h.raw); err != nil {
			d.bad.note(Seq(d.goodSize)+1, CheckSignature, "the checkpoint of size %d cannot be trusted: %v", h.Size, err)
			return false
		}
	}
	// One signed before the pinned key came into force is checked like any
	// other, but who holds that older key could have made it.
	d.anchored = d.anchored || h.raw == nil || d.keys.trusted
	return true
}

// Report ends the audit.
func (d *Auditor) Report() Report {
	if s := d.suspect; s != nil {
		// Nothing follows it, so nothing says which of the two was altered.
		d.suspect = nil
		at := s.seq
		if s.unlinked && at > 1 {
			at--
		}
		d.bad.note(at, s.check, "record %d was altered or its link is broken: %s", at, s.reason)
	}
	d.checkEnd()
	d.judgeForeign()
	if d.anchor.Key != "" && !d.keys.trusted && d.tree.Size() > 0 {
		d.bad.note(1, CheckKey, "record 1 names the key %q, but %q is pinned and no rotation leads to it", d.keys.first(), d.anchor.Key)
	}
	if d.anchor.Broken != nil {
		d.bad.note(Seq(d.goodSize)+1, CheckCheckpoint, "a checkpoint on file cannot be trusted: %v", d.anchor.Broken)
	}
	return d.report()
}

// checkEnd notes what is signed and not there: the heads that were not reached.
// A gap leaves them unreached too, and has been noted already.
func (d *Auditor) checkEnd() {
	if d.bad.seq != 0 {
		return
	}
	size := d.tree.Size()
	for _, h := range d.heads {
		if err := d.keys.checkBeyond(h.raw); err != nil {
			d.bad.note(Seq(size)+1, CheckSignature, "the checkpoint of size %d cannot be trusted: %v", h.Size, err)
			return
		}
	}
	if len(d.heads) > 0 {
		d.bad.note(Seq(size)+1, CheckEnd, "the ledger holds %d records, but a signed checkpoint covers %d: records %d to %d are gone", size, d.highest, size+1, d.highest)
	}
}

func (d *Auditor) judgeForeign() {
	d.foreign = slices.DeleteFunc(d.foreign, func(f Foreign) bool {
		switch {
		case f.Acknowledged:
			return false
		case f.altered:
			check := f.check
			if check == CheckForeign { // it was a record once
				check = CheckLink
			}
			d.bad.note(f.Seq, check, "record %d was altered: %s", f.Seq, f.reason)
			return true
		case f.blame != "":
			d.bad.note(f.Seq-1, f.check, "%s", f.blame)
			return true
		case f.check == CheckFork:
			d.bad.note(f.Seq, CheckFork, "%s", f.reason)
			return true
		}
		d.bad.note(f.Seq, f.check, "message %d was not written there by the logger (%s), and no operator acknowledged it", f.Seq, f.reason)
		return false
	})
}

func (d *Auditor) report() Report {
	size := d.tree.Size()
	r := Report{Size: size, Root: d.tree.Root().String(), Foreign: d.foreign, Losses: d.losses}
	if len(d.keys.keys) > 1 {
		r.Keys = d.keys.keys
	}
	if d.highest > 0 || len(d.anchor.Checkpoints)+len(d.anchor.Signed) > 0 {
		cp := d.highest
		r.CheckpointSize = &cp
		tail := size - min(cp, size)
		r.UnsignedTail = &tail
	}
	f := d.bad
	if explained := f.seq != 0 && f.seq >= d.rewritten.seq && uint64(f.seq) <= d.rewriteEnd; d.rewritten.seq != 0 && !explained {
		if f.seq == 0 || d.rewritten.seq < f.seq {
			f = d.rewritten
		}
	}
	anchored := d.anchor.Key != "" && d.anchored
	switch {
	case f.seq != 0:
		text := f.text + d.declared(f.seq)
		r.Verdict = Inconsistent
		r.FirstBadSeq, r.FailedCheck, r.Finding = &f.seq, &f.check, &text
	case size == 0 && r.CheckpointSize == nil:
		r.Verdict = NothingToVerify
		r.Finding = ptr("the ledger is empty and no checkpoint was given")
	case !anchored:
		r.Verdict = Unanchored
		r.Finding = ptr("internally consistent only: without a checkpoint signed by a pinned key, a whole rewrite would look the same")
	default:
		r.Verdict = Consistent
	}
	return r
}

// declared adds to a finding that its cause is a loss that the operator declared.
func (d *Auditor) declared(at Seq) string {
	for _, l := range d.losses {
		if uint64(at) <= l.KnownSize && d.highest > l.Size {
			return fmt.Sprintf("; record %d declares that records %d to %d were lost when the ledger was restored from a backup (accepted by %q)",
				l.Seq, l.Size+1, l.KnownSize, l.AcceptedBy)
		}
	}
	return ""
}

func ptr[T any](v T) *T { return &v }
