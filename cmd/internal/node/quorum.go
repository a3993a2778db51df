package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/witness"
)

// LoadPolicy is the directory's witness policy; nil when there is none.
func LoadPolicy(dir Dir) (*witness.Policy, error) {
	p, err := witness.LoadPolicy(dir.Policy())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// Quorum is what a witness policy makes of the checkpoints on file.
type Quorum struct {
	policy *witness.Policy
	newest *ledger.SignedCheckpoint // nil without any
	counts *ledger.SignedCheckpoint // newest that meets the policy; nil without any
	by     []string                 // cosigners of newest, as far as is known
	broken error                    // why newest could not be judged
}

const (
	// quorumPatience is how long a running logger gets to have its newest
	// checkpoint cosigned: its own patience with a witness, and a little more.
	quorumPatience = 6 * time.Second
	quorumPoll     = 50 * time.Millisecond
)

// LoadQuorum holds the checkpoints that LoadAnchor takes against the policy in
// c.Policy, or DIR's; nil without any. A running logger gets a moment: its
// newest checkpoint may be on its way to the witnesses.
func LoadQuorum(ctx context.Context, c AnchorConfig) (*Quorum, error) {
	path := c.Policy
	if path == "" {
		path = c.Dir.Policy()
	}
	p, err := witness.LoadPolicy(path)
	if errors.Is(err, fs.ErrNotExist) && c.Policy == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	first, err := readQuorum(p, c)
	if err != nil || first.met(first) || c.Checkpoint != "" || !loggerRuns(ctx, c.Dir) {
		return first, err
	}
	for deadline := time.Now().Add(quorumPatience); time.Now().Before(deadline); time.Sleep(quorumPoll) {
		q, err := readQuorum(p, c)
		if err != nil || q.met(first) {
			return q, err
		}
	}
	return readQuorum(p, c)
}

// met says that what counts covers the newest checkpoint that first saw.
func (q *Quorum) met(first *Quorum) bool {
	return q.counts != nil && first.newest != nil && q.counts.Size >= first.newest.Size
}

func loggerRuns(ctx context.Context, dir Dir) bool {
	for _, socket := range []string{dir.Socket(), dir.service("logger")} {
		var st Status
		if Ask(ctx, socket, "GET", "/status", nil, &st) == nil && st.Logger != nil {
			return true
		}
	}
	return false
}

// readQuorum judges the files. Whether the log's key signed them is the
// audit's business.
func readQuorum(p *witness.Policy, c AnchorConfig) (*Quorum, error) {
	f := c.Dir.Logger()
	paths := []string{f.Witnessed(), f.Cosigned(), f.Latest()}
	if c.Checkpoint != "" {
		paths = []string{c.Checkpoint}
	}
	q := &Quorum{policy: p}
	for _, path := range paths {
		cp, err := ReadCheckpoint(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ledger.ErrBadCheckpoint) {
			continue // the audit misses it
		}
		if err != nil {
			return nil, err
		}
		ok, by, err := p.Satisfied(cp.Raw)
		if ok && (q.counts == nil || cp.Size > q.counts.Size) {
			q.counts = &cp
		}
		if q.newest == nil || cp.Size > q.newest.Size {
			q.newest, q.by, q.broken = &cp, by, err
		}
	}
	return q, nil
}

// Judge lowers the verdict of a ledger whose newest checkpoint lacks the
// quorum to unanchored, and says whose cosignatures are missing. The report's
// checkpoint becomes the one that counts.
func (q *Quorum) Judge(r *ledger.Report) {
	if q == nil || r.CheckpointSize == nil {
		return
	}
	signed := *r.CheckpointSize
	if q.newest != nil {
		signed = q.newest.Size
	}
	r.CheckpointSize, r.UnsignedTail = nil, nil
	if q.counts != nil {
		size := min(q.counts.Size, r.Size)
		tail := r.Size - size
		r.CheckpointSize, r.UnsignedTail = &q.counts.Size, &tail
	}
	if r.Verdict != ledger.Consistent || q.met(q) {
		return
	}
	r.Verdict = ledger.Unanchored
	text := q.lacks(signed)
	r.Finding = &text
}

func (q *Quorum) lacks(signed uint64) string {
	by := "nobody"
	if len(q.by) > 0 {
		by = strings.Join(q.by, ", ")
	}
	newest := "no checkpoint has it"
	if q.counts != nil {
		newest = fmt.Sprintf("the newest that has it signs %d", q.counts.Size)
	}
	if q.broken != nil {
		return fmt.Sprintf("the checkpoint of size %d cannot be held against the witness policy: %v; %s", signed, q.broken, newest)
	}
	return fmt.Sprintf("the checkpoint of size %d lacks the quorum %q of the witness policy: cosigned by %s, missing %s; %s",
		signed, q.policy.Quorum(), by, strings.Join(q.policy.Missing(q.by), ", "), newest)
}

// counting finds the newest checkpoint that readers may act on: with a policy,
// the one that meets it. Zero when there is none yet.
func counting(f logger.Files, p *witness.Policy, all []ledger.Checkpoint) (ledger.Checkpoint, error) {
	if p == nil {
		if len(all) == 0 {
			return ledger.Checkpoint{}, nil
		}
		return all[0], nil
	}
	raw, err := os.ReadFile(f.Witnessed())
	if errors.Is(err, fs.ErrNotExist) {
		return ledger.Checkpoint{}, nil
	}
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	cp, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	if ok, _, err := p.Satisfied(raw); err != nil || !ok {
		return ledger.Checkpoint{}, err // the policy asks more than it did
	}
	// The log's signature was checked with the others', of which it is one,
	// unless it was replaced meanwhile.
	if !slices.Contains(all, cp.Checkpoint) {
		return ledger.Checkpoint{}, nil
	}
	return cp.Checkpoint, nil
}
