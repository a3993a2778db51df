package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// need is the size that what counts must reach: newest's, or that of the
	// checkpoint that was newest when the question was asked.
	need uint64
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
	q, err := readQuorum(p, quorumFiles(c))
	if err != nil || q.met() || c.Checkpoint != "" || !loggerRuns(ctx, c.Dir) {
		return q, err
	}
	need := q.need
	for deadline := time.Now().Add(quorumPatience); !q.met() && time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(quorumPoll)
		if q, err = readQuorum(p, quorumFiles(c)); err != nil {
			return nil, err
		}
		q.need = need
	}
	return q, ctx.Err()
}

// met says that what counts goes as far as it must.
func (q *Quorum) met() bool { return q.counts != nil && q.counts.Size >= q.need }

func loggerRuns(ctx context.Context, dir Dir) bool {
	for _, socket := range []string{dir.Socket(), dir.service("logger")} {
		var st Status
		if Ask(ctx, socket, "GET", "/status", nil, &st) == nil && st.Logger != nil {
			return true
		}
	}
	return false
}

// quorumFiles are where the checkpoints are that a policy is about.
func quorumFiles(c AnchorConfig) []string {
	if c.Checkpoint != "" {
		return []string{c.Checkpoint}
	}
	f := c.Dir.Logger()
	return []string{f.Witnessed(), f.Cosigned(), f.Latest()}
}

// readQuorum judges the files. Whether the log's key signed them is the
// audit's business.
func readQuorum(p *witness.Policy, paths []string) (*Quorum, error) {
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
			q.newest, q.by, q.broken, q.need = &cp, by, err, cp.Size
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
	if r.Verdict != ledger.Consistent || q.met() {
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

// counting finds the newest checkpoint that readers may act on, signed by the
// log's key: with a policy, one that meets it. Zero when there is none yet. It
// is asked often, so it leaves the checkpoints that are kept for audits alone.
func counting(dir Dir, p *witness.Policy) (ledger.SignedCheckpoint, error) {
	raw, err := countingNote(dir, p)
	if err != nil || raw == nil {
		return ledger.SignedCheckpoint{}, err
	}
	// The keys after the checkpoint: a rotation puts its key there before it
	// signs with it.
	ring, err := logger.LoadKeyring(dir.Logger())
	if err != nil {
		return ledger.SignedCheckpoint{}, err
	}
	cp, err := ring.OpenCheckpoint(raw)
	if err != nil {
		return ledger.SignedCheckpoint{}, err
	}
	return ledger.SignedCheckpoint{Checkpoint: cp, Raw: raw}, nil
}

func countingNote(dir Dir, p *witness.Policy) ([]byte, error) {
	if p == nil {
		raw, err := os.ReadFile(dir.Logger().Latest())
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return raw, err
	}
	q, err := readQuorum(p, quorumFiles(AnchorConfig{Dir: dir}))
	if err != nil || q.counts == nil {
		return nil, err
	}
	return q.counts.Raw, nil
}
