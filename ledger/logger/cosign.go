package logger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/ledger"
	"assay/ledger/witness"
)

const (
	// cosignTimeout bounds one request to a witness, and how long a slow one
	// holds the others back from the next checkpoint.
	cosignTimeout = 5 * time.Second
	// retryMin and retryMax bound the pause after a witness failed.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// lastRound is how long a stop may wait for the cosignatures of the last
	// checkpoint.
	lastRound = 3 * time.Second
	// recentLeaves is how many leaf hashes are at hand (8 MiB): a few seconds
	// at full speed. A witness that lags further costs a read of the stream.
	recentLeaves = 1 << 18
)

// cosigner asks the witnesses of a policy to cosign what the logger signed.
// One goroutine decides, and asks each witness in another; appends and
// signatures only leave notes for it. All its methods do nothing on nil.
//
// The witnesses are asked about one checkpoint at a time, so that their
// cosignatures meet on the same size: the next one is taken when the quorum is
// met, when nobody is left to answer, or when a slow witness has held it up
// for cosignTimeout.
type cosigner struct {
	l      *Logger
	policy *witness.Policy
	web    *http.Client
	recent leafRing
	wake   chan struct{}
	peers  []*peer
	landed chan landing
	// cosigned is the size of the checkpoint on file that lacks the quorum.
	cosigned uint64

	mu        sync.Mutex
	newest    *signed // what the logger signed last
	witnessed uint64  // size of the checkpoint on file that meets the quorum
	trouble   string  // why the quorum cannot be judged
}

// signed is a checkpoint on its way through the witnesses.
type signed struct {
	cp    ledger.Checkpoint
	raw   []byte
	tree  *ledger.Tree
	since time.Time         // taken up
	sigs  map[string][]byte // by witness
	met   bool              // the quorum, and stored
}

// peer is one witness. Its first part belongs to whoever asks it.
type peer struct {
	name   string
	client *witness.Client
	size   uint64       // what it cosigned last, as far as is known
	tree   *ledger.Tree // of that size; nil when it must be looked up

	busy    bool
	asked   *signed // last; it is not asked twice, unless it failed
	failed  bool
	failing int // failures in a row
	retry   time.Time

	// Guarded by cosigner.mu, for the status.
	cosigned   uint64
	cosignedAt time.Duration // monotonic; meaningful if cosigned > 0
	lastErr    string
	alarm      string
}

// landing is a witness's answer.
type landing struct {
	p   *peer
	t   *signed
	sig []byte
	err error
}

func newCosigner(l *Logger) *cosigner {
	if l.cfg.Witnesses == nil {
		return nil
	}
	c := &cosigner{l: l, policy: l.cfg.Witnesses, wake: make(chan struct{}, 1)}
	c.web = &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, w := range c.policy.Witnesses {
		if w.URL == "" {
			continue // somebody else asks it, or nobody
		}
		c.peers = append(c.peers, &peer{name: w.Name, client: &witness.Client{URL: w.URL, Verifier: w.Verifier, HTTP: c.web}})
	}
	c.landed = make(chan landing, len(c.peers))
	// For the status alone: what is signed from now on is no smaller, since a
	// logger starts on nothing less than what it signed.
	if raw, err := os.ReadFile(l.files.Witnessed()); err == nil {
		if cp, err := l.keys.ring.OpenCheckpoint(raw); err == nil {
			c.witnessed = cp.Size
		}
	}
	return c
}

const (
	witnessed = "witnessed"
	cosigned  = "cosigned"
)

// Witnessed is the file of the newest checkpoint that met the witness policy,
// with the cosignatures.
func (f Files) Witnessed() string { return filepath.Join(f.Checkpoints(), witnessed) }

// Latest is the file of the newest checkpoint, signed by the logger alone.
func (f Files) Latest() string { return filepath.Join(f.Checkpoints(), latest) }

// Cosigned is the file of the newest checkpoint that got a cosignature and does
// not meet the policy: it tells whose are missing.
func (f Files) Cosigned() string { return filepath.Join(f.Checkpoints(), cosigned) }

// remember keeps the leaves of confirmed records.
func (c *cosigner) remember(records []*written) {
	if c == nil {
		return
	}
	c.recent.mu.Lock()
	defer c.recent.mu.Unlock()
	for _, r := range records {
		c.recent.add(r.entry.seq, r.entry.leaf)
	}
}

// offer takes up a checkpoint that is signed and stored. tree is of its size
// and never changes.
func (c *cosigner) offer(cp ledger.Checkpoint, raw []byte, tree *ledger.Tree) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.newest = &signed{cp: cp, raw: raw, tree: tree, sigs: map[string][]byte{}}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// start asks until stop is called, which gives the last checkpoint a moment
// to be cosigned.
func (c *cosigner) start() (stop func()) {
	if c == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.run(ctx, stopping)
	}()
	return func() {
		close(stopping)
		last := time.AfterFunc(lastRound, cancel)
		<-done
		last.Stop()
		cancel()
		c.web.CloseIdleConnections()
	}
}

func (c *cosigner) run(ctx context.Context, stopping <-chan struct{}) {
	var t *signed
	leaving := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	flying := 0
	defer func() {
		for ; flying > 0; flying-- {
			<-c.landed // their contexts have ended
		}
	}()
	for {
		t = c.next(t)
		flying += c.ask(ctx, t)
		if leaving && (ctx.Err() != nil || !c.pending(t)) {
			return
		}
		timer.Reset(c.pause(t))
		select {
		case <-c.wake:
		case <-timer.C:
		case <-stopping:
			leaving, stopping = true, nil
		case <-ctx.Done():
			leaving = true
		case a := <-c.landed:
			flying--
			c.land(a)
		}
	}
}

// pending says that a witness is being asked about t.
func (c *cosigner) pending(t *signed) bool {
	for _, p := range c.peers {
		if p.busy && p.asked == t {
			return true
		}
	}
	return false
}

// next is the checkpoint to ask about: t until it is settled.
func (c *cosigner) next(t *signed) *signed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == t || t != nil && !t.met && c.pending(t) && time.Since(t.since) < cosignTimeout {
		return t
	}
	c.newest.since = time.Now()
	return c.newest
}

// ask starts a request to every witness that is free and due, and says to how
// many.
func (c *cosigner) ask(ctx context.Context, t *signed) (n int) {
	if t == nil {
		return 0
	}
	for _, p := range c.peers {
		if p.busy || p.asked == t && !p.failed || time.Now().Before(p.retry) {
			continue
		}
		p.busy, p.asked = true, t
		n++
		go func() {
			sig, err := c.submit(ctx, p, t)
			c.landed <- landing{p, t, sig, err}
		}()
	}
	return n
}

// pause is how long nothing has to be done without news: until the next retry,
// or until a slow witness stops holding t up.
func (c *cosigner) pause(t *signed) time.Duration {
	d := retryMax
	for _, p := range c.peers {
		switch {
		case p.busy && p.asked == t:
			d = min(d, max(cosignTimeout-time.Since(t.since), retryMin))
		case p.failed && !p.busy:
			d = min(d, max(time.Until(p.retry), 0))
		}
	}
	return d
}

// submit asks one witness. What it cosigned last is learned from its answer if
// it is not known.
func (c *cosigner) submit(ctx context.Context, p *peer, t *signed) ([]byte, error) {
	for try := 1; ; try++ {
		proof, err := c.prove(ctx, p, t)
		if err != nil {
			return nil, fmt.Errorf("prove the growth from size %d to %d: %w", p.size, t.cp.Size, err)
		}
		one, cancel := context.WithTimeout(ctx, cosignTimeout)
		sig, err := p.client.AddCheckpoint(one, proof)
		cancel()
		var other *witness.ConflictError
		switch {
		case err == nil:
			p.size, p.tree = t.cp.Size, t.tree
			return sig, nil
		case errors.As(err, &other) && other.Size <= t.cp.Size && other.Size != p.size && try < 3:
			// Another size than was thought: of an earlier run, or of a
			// witness that lost its state.
			p.size, p.tree = other.Size, nil
		default:
			return nil, err
		}
	}
}

// prove makes the request that takes the witness from its size to t.
func (c *cosigner) prove(ctx context.Context, p *peer, t *signed) (ledger.ConsistencyProof, error) {
	proof := ledger.ConsistencyProof{Old: min(p.size, t.cp.Size), Checkpoint: t.raw}
	if proof.Old == 0 || proof.Old == t.cp.Size {
		return proof, nil
	}
	if p.tree == nil {
		tree, err := c.treeAt(ctx, p.size)
		if err != nil {
			return proof, err
		}
		p.tree = tree
	}
	want, err := ledger.WantConsistency(proof.Old, t.cp.Size)
	if err != nil {
		return proof, err
	}
	nodes := ledger.NewCollector(p.tree.Clone(), want)
	if err := c.leaves(ctx, proof.Old, t.cp.Size, nodes.Add); err != nil {
		return proof, err
	}
	if proof.Path, err = ledger.ProveConsistency(proof.Old, t.cp.Size, nodes); err != nil {
		return proof, err
	}
	// A stream that does not hold what was signed is no witness's fault.
	old := ledger.Checkpoint{Origin: t.cp.Origin, Size: proof.Old, Root: p.tree.Root()}
	return proof, ledger.CheckConsistency(proof.Path, old, t.cp)
}

// treeAt is the tree of a size that was signed: from the nearest frontier that
// the index kept, and the leaves from there on.
func (c *cosigner) treeAt(ctx context.Context, size uint64) (*ledger.Tree, error) {
	_, tree, err := c.l.index.frontierUpTo(size)
	if err != nil {
		return nil, err
	}
	return tree, c.leaves(ctx, tree.Size(), size, tree.Append)
}

// leaves calls add with the leaves that take a tree from one size to another.
func (c *cosigner) leaves(ctx context.Context, from, to uint64, add func(ledger.Hash)) error {
	if from == to {
		return nil
	}
	if recent := c.recent.copy(from, to); recent != nil {
		for _, leaf := range recent {
			add(leaf)
		}
		return nil
	}
	at := from
	err := c.l.cfg.Stream.Read(ctx, ledger.Seq(from+1), ledger.Seq(to), func(seq ledger.Seq, body []byte) error {
		if at++; uint64(seq) != at {
			return fmt.Errorf("%w: record %d is missing", ledger.ErrCorrupt, at)
		}
		add(ledger.Leaf(body))
		return nil
	})
	if err == nil && at != to {
		err = fmt.Errorf("%w: the stream gave %d records of %d", ledger.ErrCorrupt, at, to)
	}
	return err
}

// land notes a witness's answer and stores the checkpoint once the quorum is
// met.
func (c *cosigner) land(a landing) {
	p := a.p
	p.busy = false
	if p.failed = a.err != nil; p.failed {
		c.fail(a)
		return
	}
	p.failing, p.retry = 0, time.Time{}
	a.t.sigs[p.name] = a.sig
	c.mu.Lock()
	p.cosigned, p.cosignedAt, p.lastErr, p.alarm = a.t.cp.Size, c.l.cfg.Clock.Monotonic(), "", ""
	c.mu.Unlock()
	trouble := ""
	if err := c.store(a.t); err != nil {
		trouble = err.Error()
		c.l.cfg.Log.Error().Err(err).Uint64("size", a.t.cp.Size).Msg("witnessed checkpoint")
	}
	c.mu.Lock()
	c.trouble = trouble
	c.mu.Unlock()
}

// fail notes a failure. What a witness says against the log itself is an
// alarm, and stays one until it cosigns again.
func (c *cosigner) fail(a landing) {
	p := a.p
	p.retry = time.Now().Add(min(retryMin<<min(p.failing, 10), retryMax))
	p.failing++
	alarm := accusation(a)
	c.mu.Lock()
	news := a.err.Error() != p.lastErr
	p.lastErr = a.err.Error()
	if alarm != "" {
		p.alarm = alarm
	}
	c.mu.Unlock()
	switch {
	case !news:
	case alarm != "":
		c.l.cfg.Log.Error().Err(a.err).Str("witness", p.name).Msg(alarm)
	default:
		c.l.cfg.Log.Warn().Err(a.err).Str("witness", p.name).Msg("no cosignature")
	}
}

// accusation is what a witness's answer says against this log; "" for a
// failure of another kind.
func accusation(a landing) string {
	var other *witness.ConflictError
	var refused *witness.RefusedError
	switch {
	case errors.As(a.err, &other) && other.Size > a.t.cp.Size:
		return fmt.Sprintf("witness %s cosigned size %d, but this log signs %d: the log was rolled back, or somebody else signs with its key", a.p.name, other.Size, a.t.cp.Size)
	case errors.Is(a.err, witness.ErrForked):
		return fmt.Sprintf("witness %s cosigned another root of size %d: the log was rewritten, or somebody else signs with its key", a.p.name, a.t.cp.Size)
	case errors.As(a.err, &refused) && refused.Status == http.StatusUnprocessableEntity:
		return fmt.Sprintf("witness %s cosigned another root of size %d than this log has: the log was rolled back and went on otherwise, or somebody else signs with its key", a.p.name, a.p.size)
	}
	return ""
}

// store merges the cosignatures of t into its note and puts it on file, where
// it belongs with or without the quorum: never a smaller size over a larger.
func (c *cosigner) store(t *signed) error {
	raw := bytes.Clone(t.raw)
	for _, p := range c.peers {
		raw = append(raw, t.sigs[p.name]...)
	}
	ok, _, err := c.policy.Satisfied(raw)
	switch {
	case err != nil:
		return err
	case t.cp.Size < c.witnessed || !ok && t.cp.Size < c.cosigned:
		return nil
	case !ok:
		c.cosigned = t.cp.Size
		return c.l.store(c.l.files.Cosigned(), raw)
	}
	if err := c.l.store(c.l.files.Witnessed(), raw); err != nil {
		return err
	}
	t.met = true
	c.mu.Lock()
	c.witnessed = t.cp.Size
	c.mu.Unlock()
	return nil
}

// Witnessing is how a logger stands with its witnesses.
type Witnessing struct {
	Quorum    string          `json:"quorum"`
	Size      uint64          `json:"size"` // of the newest checkpoint that met the quorum; 0 before the first
	Trouble   string          `json:"trouble,omitzero"`
	Witnesses []WitnessStatus `json:"witnesses"`
}

// WitnessStatus is how a logger stands with one witness.
type WitnessStatus struct {
	Name string `json:"name"`
	Size uint64 `json:"size"` // cosigned last in this run; 0 for none
	// AgeSeconds is how long ago that was; null for never.
	AgeSeconds *float64 `json:"age_seconds"`
	Error      string   `json:"error,omitzero"` // of the last attempt
}

// status is nil without witnesses; alarm is what a witness says against the log.
func (c *cosigner) status() (w *Witnessing, alarm string) {
	if c == nil {
		return nil, ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w = &Witnessing{Quorum: c.policy.Quorum(), Size: c.witnessed, Trouble: c.trouble, Witnesses: []WitnessStatus{}}
	for _, p := range c.peers {
		s := WitnessStatus{Name: p.name, Size: p.cosigned, Error: p.lastErr}
		if p.cosigned > 0 {
			age := (c.l.cfg.Clock.Monotonic() - p.cosignedAt).Seconds()
			s.AgeSeconds = &age
		}
		if alarm == "" {
			alarm = p.alarm
		}
		w.Witnesses = append(w.Witnesses, s)
	}
	return w, alarm
}

// leafRing holds the newest leaf hashes.
type leafRing struct {
	mu     sync.Mutex
	leaves []ledger.Hash // leaf of seq s at (s-1) % recentLeaves
	first  uint64        // smallest size whose next leaf is held
	size   uint64        // of the tree that ends with the newest
}

// add takes the leaf of record seq; mu is held.
func (r *leafRing) add(seq ledger.Seq, leaf ledger.Hash) {
	if r.leaves == nil {
		r.leaves = make([]ledger.Hash, recentLeaves)
	}
	if uint64(seq) != r.size+1 {
		r.first = uint64(seq) - 1
	}
	r.size = uint64(seq)
	r.leaves[(r.size-1)%recentLeaves] = leaf
	if r.size-r.first > recentLeaves {
		r.first = r.size - recentLeaves
	}
}

// copy returns the leaves that take a tree from one size to another; nil if
// not all of them are held.
func (r *leafRing) copy(from, to uint64) []ledger.Hash {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaves == nil || from < r.first || to > r.size {
		return nil
	}
	out := make([]ledger.Hash, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, r.leaves[i%recentLeaves])
	}
	return out
}
