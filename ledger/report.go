package ledger

import "fmt"

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
	// CouldNotCompare: the records or what to hold them against could not be
	// read; neither a yes nor a no.
	CouldNotCompare Verdict = "could_not_compare"
)

// Check names what an audit looks at; a report says which check failed first.
type Check string

// The checks.
const (
	CheckSequence   Check = "sequence"   // positions are contiguous
	CheckLink       Check = "link"       // each record names its predecessor's leaf
	CheckFork       Check = "fork"       // no two records, or checkpoints, take one place
	CheckTime       Check = "time"       // recorded_at never goes back
	CheckOpening    Check = "opening"    // record 1 opens the ledger
	CheckKey        Check = "key"        // the pinned key was in force; rotations are signed
	CheckForeign    Check = "foreign"    // messages of others are acknowledged
	CheckSignature  Check = "signature"  // checkpoints are signed by the key in force
	CheckRoot       Check = "root"       // the records hash to the signed roots
	CheckEnd        Check = "end"        // nothing that was signed is missing at the end
	CheckCheckpoint Check = "checkpoint" // checkpoint files can be read
)

// Report is what an audit found.
type Report struct {
	Verdict        Verdict   `json:"verdict"`
	Size           uint64    `json:"size"`            // records read
	Root           string    `json:"root"`            // Merkle root over them, hex
	CheckpointSize *uint64   `json:"checkpoint_size"` // null without a checkpoint
	UnsignedTail   *uint64   `json:"unsigned_tail"`   // records after the checkpoint; null without one
	FirstBadSeq    *Seq      `json:"first_bad_seq"`
	FailedCheck    *Check    `json:"failed_check"` // null unless inconsistent
	Finding        *string   `json:"finding"`
	Foreign        []Foreign `json:"foreign,omitzero"` // messages of other writers that the operator acknowledged
	Keys           []Key     `json:"keys,omitzero"`    // in the order in which they were in force, if there was a rotation
	Losses         []Loss    `json:"losses,omitzero"`  // declared when the ledger was restored from a backup
}

// Key is a key of the log and the first record from which on it signs.
type Key struct {
	From     Seq    `json:"from"`
	Verifier string `json:"verifier"`
	// Recovered: the offline recovery key put it in force, not its predecessor.
	Recovered bool `json:"recovered,omitzero"`
}

// LostError means that a store says that it holds messages up to Last and gives
// none behind After: a block is gone, or cannot be read.
type LostError struct{ After, Last Seq }

func (e *LostError) Error() string {
	return fmt.Sprintf("the stream says that it ends at %d, but nothing behind %d can be read", e.Last, e.After)
}

// Unwrap makes it a case of ErrCorrupt.
func (e *LostError) Unwrap() error { return ErrCorrupt }

// Foreign is a stored message that the logger did not write.
type Foreign struct {
	Seq          Seq    `json:"seq"`
	SHA256       string `json:"sha256"` // leaf hash
	Acknowledged bool   `json:"acknowledged"`

	check   Check
	reason  string // why it is no record of the logger
	altered bool   // no record names it as its predecessor
	blame   string // the finding about the predecessor when not acknowledged
}

// Anchor is what an audit trusts: the log's public key and checkpoints.
type Anchor struct {
	// Key is the pinned note verifier key, "" when there is none: any key that
	// was ever in force, since rotations are followed through the ledger.
	Key string
	// Checkpoints are trusted already, such as a head that was remembered.
	Checkpoints []Checkpoint
	// Signed are notes whose signatures the audit checks itself, each with the
	// key that is in force at its size. In any order.
	Signed []SignedCheckpoint
	// Broken is why a checkpoint that is on file could not be read; such a
	// ledger is inconsistent, since only the logger writes there.
	Broken error
}
