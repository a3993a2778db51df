package fsck

import (
	"cmp"
	"fmt"
	"slices"

	"assay/ledger"
	"assay/ledger/tiles"
)

// Kind says which check a finding comes from.
type Kind string

// The kinds of findings.
const (
	// Checkpoint: the checkpoint is absent, malformed or not signed by the key.
	Checkpoint Kind = "checkpoint"
	// Missing: a tile or bundle of the checkpoint's tree is not there.
	Missing Kind = "missing"
	// Malformed: a file is no tile or bundle of its width, too large, or not a
	// regular file.
	Malformed Kind = "malformed"
	// Hash: a tile holds another hash than the entries give.
	Hash Kind = "hash"
	// Chain: a record is not linked to the one before, or is none.
	Chain Kind = "chain"
	// Root: the entries hash to another root than the checkpoint signs.
	Root Kind = "root"
	// Stale: a partial tile of a smaller tree is not the beginning of the tile
	// that came after it.
	Stale Kind = "stale"
	// Extra: no tree of the checkpoint's size, nor a smaller one, has the file.
	Extra Kind = "extra"
)

// Finding is something that does not hold.
type Finding struct {
	Kind Kind   `json:"kind"`
	File string `json:"file"`
	// Seq is the first record that the finding is about, and Last the last one
	// if it is about several; 0 when it is about a file alone.
	Seq  ledger.Seq `json:"seq,omitzero"`
	Last ledger.Seq `json:"last,omitzero"`
	Text string     `json:"text"`

	// coarse: one of the records from Seq to Last, but nothing says which.
	coarse bool
}

// Report is the answer of a check.
type Report struct {
	Verdict ledger.Verdict `json:"verdict"`
	Origin  string         `json:"origin"` // as the checkpoint says
	Size    uint64         `json:"size"`   // records that the checkpoint signs
	Root    string         `json:"root"`   // over the entries, hex
	Files   uint64         `json:"files"`  // in the directory
	// FirstBadSeq is the first record that something is wrong with; null when
	// no finding is about a record.
	FirstBadSeq *ledger.Seq `json:"first_bad_seq"`
	Finding     *string     `json:"finding"` // the first in words
	Findings    []Finding   `json:"findings,omitzero"`
	// MoreFindings were made beyond those listed.
	MoreFindings int              `json:"more_findings,omitzero"`
	Foreign      []ledger.Foreign `json:"foreign,omitzero"` // messages of other writers that the operator acknowledged
	Keys         []ledger.Key     `json:"keys,omitzero"`    // in the order in which they were in force, if there was a rotation
	Losses       []ledger.Loss    `json:"losses,omitzero"`  // declared when the ledger was restored from a backup
	// Unfinished is the size of an export that is under way or was cut off;
	// Unchecked files belong to it and to no checkpoint yet.
	Unfinished *uint64 `json:"unfinished,omitzero"`
	Unchecked  uint64  `json:"unchecked,omitzero"`
}

const (
	// listed is how many findings a report lists.
	listed = 100
	// tooMany findings end the check: a checkpoint may claim any size.
	tooMany = 1000
)

// add keeps the finding.
func (r *Report) add(f Finding) {
	if len(r.Findings) == listed {
		r.MoreFindings++
		return
	}
	r.Findings = append(r.Findings, f)
}

func (r *Report) hopeless() bool { return r.MoreFindings+listed >= tooMany }

// conclude orders the findings and gives the verdict; sound is the one without
// findings.
func (r *Report) conclude(sound ledger.Verdict) {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		// A checkpoint that cannot be trusted first, then records, exact ones
		// before those about a range, and what is left of smaller trees last.
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Seq, b.Seq))
	})
	// What nobody signed says nothing about how many records there should be.
	unsigned := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == Checkpoint })
	for _, f := range r.Findings {
		if f.Seq == 0 || unsigned && (f.Kind == Missing || f.Kind == Root) {
			continue
		}
		if !r.explains(f) && (r.FirstBadSeq == nil || f.Seq < *r.FirstBadSeq) {
			r.FirstBadSeq, r.Finding = &f.Seq, &f.Text
		}
	}
	switch {
	case len(r.Findings) == 0:
		r.Verdict = sound
	default:
		r.Verdict = ledger.Inconsistent
		if r.Finding == nil {
			r.Finding = &r.Findings[0].Text
		}
	}
}

// explains says whether an exact finding lies in the range of a coarse one.
func (r *Report) explains(f Finding) bool {
	return f.coarse && slices.ContainsFunc(r.Findings, func(e Finding) bool {
		return !e.coarse && e.Kind != Stale && e.Seq >= f.Seq && e.Seq <= f.Last
	})
}

func rank(f Finding) int {
	switch {
	case f.Kind == Checkpoint:
		return -1
	case f.Seq == 0:
		return 3
	case f.Kind == Stale:
		return 2
	case f.coarse:
		return 1
	}
	return 0
}

// about is a finding about hash i of a tile, or entry i of a bundle.
func about(kind Kind, t tiles.Tile, i int, format string, args ...any) Finding {
	return Finding{
		Kind: kind, File: t.Path(), Seq: ledger.Seq(t.First(i)) + 1, Last: ledger.Seq(t.First(i + 1)),
		Text: t.Path() + ": " + fmt.Sprintf(format, args...), coarse: t.Level > 0,
	}
}
