package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Verdict is the answer of an audit.
type Verdict string

// The verdicts. Only Consistent is a yes.
const (
	// Consistent: every link holds and a checkpoint signed by the pinned key
	// commits to the records it covers.
	Consistent Verdict = "consistent"
	// Inconsistent: something that the key signed, or the format promises,
	// does not hold.
	Inconsistent Verdict = "inconsistent"
	// Unanchored: internally consistent only; there was no checkpoint or no
	// key to hold the records against, so a whole rewrite would look the same.
	Unanchored Verdict = "unanchored"
	// NothingToVerify: no records and no checkpoint.
	NothingToVerify Verdict = "nothing_to_verify"
)

// Report is what an audit found.
type Report struct {
	Verdict        Verdict   `json:"verdict"`
	Size           uint64    `json:"size"`            // records read
	Root           string    `json:"root"`            // Merkle root over them, hex
	CheckpointSize *uint64   `json:"checkpoint_size"` // null without a checkpoint
	UnsignedTail   *uint64   `json:"unsigned_tail"`   // records after the checkpoint; null without one
	FirstBadSeq    *Seq      `json:"first_bad_seq"`
	Finding        *string   `json:"finding"`
	Foreign        []Foreign `json:"foreign,omitzero"` // messages of other writers that the operator acknowledged
}

// Foreign is a stored message that the logger did not write.
type Foreign struct {
	Seq          Seq    `json:"seq"`
	SHA256       string `json:"sha256"` // leaf hash
	Acknowledged bool   `json:"acknowledged"`

	reason  string // why it is no record of the logger
	altered bool   // no record names it as its predecessor
	blame   string // the finding about the predecessor when not acknowledged
}

// Anchor is what an audit trusts: the log's public key and checkpoints.
type Anchor struct {
	Key         string       // note verifier key; "" when there is none
	Checkpoints []Checkpoint // opened with Key, in any order
	// Broken is why a checkpoint that is on file could not be opened; such a
	// ledger is inconsistent, since only the logger writes there.
	Broken error
}

// Auditor checks a ledger record by record, in memory constant in its length.
type Auditor struct {
	anchor      Anchor
	checkpoints []Checkpoint // not yet reached, by size

	tree       Tree
	last       Hash
	lastTime   time.Time
	goodSize   uint64 // size of the largest checkpoint whose root matched
	highest    uint64 // size of the largest checkpoint
	suspect    *suspect
	foreign    []Foreign
	bad        finding // about a place: a link, a gap, a record's content
	rewritten  finding // about a range: a checkpoint's root
	rewriteEnd uint64  // last record of that range
}

type finding struct {
	seq  Seq // 0 when there is none
	text string
}

// note keeps the finding with the lowest position.
func (f *finding) note(seq Seq, format string, args ...any) {
	if f.seq == 0 || seq < f.seq {
		*f = finding{max(seq, 1), fmt.Sprintf(format, args...)}
	}
}

// suspect is a message whose link to its predecessor failed. Its successor
// decides which of the two was altered.
type suspect struct {
	seq    Seq
	reason string
	// unlinked: only the link to the predecessor is wrong, so that either of
	// the two may have been altered.
	unlinked bool
}

// NewAuditor starts an audit at record 1.
func NewAuditor(a Anchor) *Auditor {
	cps := slices.Clone(a.Checkpoints)
	slices.SortFunc(cps, func(x, y Checkpoint) int {
		switch {
		case x.Size < y.Size:
			return -1
		case x.Size > y.Size:
			return 1
		}
		return bytes.Compare(x.Root[:], y.Root[:])
	})
	d := &Auditor{anchor: a, checkpoints: cps}
	if n := len(cps); n > 0 {
		d.highest = cps[n-1].Size
	}
	d.reach() // a checkpoint of size 0
	return d
}

// Add checks the message stored at seq. It must be called in the order of the
// stream.
func (d *Auditor) Add(seq Seq, body []byte) {
	want := Seq(d.tree.Size()) + 1
	if seq != want {
		d.bad.note(want, "records %d to %d are missing: after record %d the stream continues at %d", want, seq-1, want-1, seq)
		// What follows can still be linked to what it names; the tree cannot.
		return
	}
	r, err := ParseRecord(body)
	linked := err == nil && r.Seq == seq && r.Prev == d.last
	d.settle(err == nil && r.Prev == d.last)
	switch {
	case err != nil:
		d.suspect = &suspect{seq: seq, reason: err.Error()}
	case r.Seq != seq:
		d.suspect = &suspect{seq: seq, reason: fmt.Sprintf("the record at position %d says seq %d", seq, r.Seq)}
	case r.Prev != d.last:
		d.suspect = &suspect{seq: seq, unlinked: true, reason: fmt.Sprintf("record %d names %s as its predecessor's leaf hash, but record %d hashes to %s", seq, r.Prev, seq-1, d.last)}
	}
	if linked {
		d.checkContent(&r)
	}
	d.last = Leaf(body)
	d.tree.Append(d.last)
	d.reach()
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
		f := Foreign{Seq: s.seq, SHA256: d.last.String(), reason: s.reason}
		if s.unlinked && s.seq > 1 {
			f.blame = fmt.Sprintf("record %d was altered: %s", s.seq-1, s.reason)
		}
		d.foreign = append(d.foreign, f)
	default:
		// Its successor does not name it either. Only an acknowledgement of its
		// very bytes explains it: several foreign messages in a row.
		d.foreign = append(d.foreign, Foreign{Seq: s.seq, SHA256: d.last.String(), reason: s.reason, altered: true})
	}
}

// checkContent holds a well-linked record against what the logger promises.
func (d *Auditor) checkContent(r *Record) {
	if r.RecordedAt.Before(d.lastTime) {
		d.bad.note(r.Seq, "record %d goes back in time: %s after %s", r.Seq, FormatTime(r.RecordedAt), FormatTime(d.lastTime))
	}
	d.lastTime = r.RecordedAt
	if r.Seq == 1 {
		d.checkOpening(r)
	}
	if len(d.foreign) > 0 && bytes.Contains(r.Event, []byte("ledger.foreign_acknowledged")) {
		d.acknowledge(r)
	}
}

func (d *Auditor) checkOpening(r *Record) {
	var ev struct {
		Type string `json:"type"`
		Data struct {
			PublicKey string `json:"public_key"`
		} `json:"data"`
	}
	if err := json.Unmarshal(r.Event, &ev); err != nil || ev.Type != "ledger.opened" {
		d.bad.note(1, "record 1 is not a ledger.opened event")
		return
	}
	if d.anchor.Key != "" && ev.Data.PublicKey != d.anchor.Key {
		d.bad.note(1, "record 1 names the key %q, but %q is pinned", ev.Data.PublicKey, d.anchor.Key)
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

// reach compares the tree with the checkpoints of its present size.
func (d *Auditor) reach() {
	for len(d.checkpoints) > 0 && d.checkpoints[0].Size == d.tree.Size() {
		cp := d.checkpoints[0]
		d.checkpoints = d.checkpoints[1:]
		if root := d.tree.Root(); cp.Root != root {
			d.rewriteEnd = max(d.rewriteEnd, cp.Size)
			d.rewritten.note(Seq(d.goodSize)+1, "the checkpoint of size %d signs root %s, but the records hash to %s: records %d to %d, or some of them, were rewritten",
				cp.Size, cp.Root, root, d.goodSize+1, cp.Size)
			continue
		}
		d.goodSize = cp.Size
	}
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
		d.bad.note(at, "record %d was altered or its link is broken: %s", at, s.reason)
	}
	size := d.tree.Size()
	if d.highest > size && d.bad.seq == 0 {
		d.bad.note(Seq(size)+1, "the ledger holds %d records, but a signed checkpoint covers %d: records %d to %d are gone", size, d.highest, size+1, d.highest)
	}
	d.foreign = slices.DeleteFunc(d.foreign, func(f Foreign) bool {
		switch {
		case f.Acknowledged:
			return false
		case f.altered:
			d.bad.note(f.Seq, "record %d was altered: %s", f.Seq, f.reason)
			return true
		case f.blame != "":
			d.bad.note(f.Seq-1, "%s", f.blame)
			return true
		}
		d.bad.note(f.Seq, "message %d was not written there by the logger (%s), and no operator acknowledged it", f.Seq, f.reason)
		return false
	})
	if d.anchor.Broken != nil {
		d.bad.note(Seq(d.goodSize)+1, "a checkpoint on file cannot be trusted: %v", d.anchor.Broken)
	}
	return d.report(size)
}

func (d *Auditor) report(size uint64) Report {
	r := Report{Size: size, Root: d.tree.Root().String(), Foreign: d.foreign}
	anchored := d.anchor.Key != "" && len(d.anchor.Checkpoints) > 0
	if anchored {
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
	switch {
	case f.seq != 0:
		r.Verdict = Inconsistent
		r.FirstBadSeq, r.Finding = &f.seq, &f.text
	case size == 0 && !anchored:
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

func ptr[T any](v T) *T { return &v }
