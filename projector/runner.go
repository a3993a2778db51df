package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/ledger"
)

const (
	defaultCommitEvery = 4096
	defaultHeadEvery   = 5 * time.Second
	defaultKeepStale   = 1024
	// settleChunks is how many are hashed before the feed is looked at again.
	settleChunks = 256
	// keepPause is how many times as long as a keeping took the next one waits.
	keepPause = 4
)

// Config is what a Runner is made of.
type Config struct {
	DB          *kv.DB
	Source      Source
	Projections []Projection
	// CommitEvery is how many messages are folded between commits at most; 0
	// means 4096. The state does not depend on it.
	CommitEvery int
	// Workers hash and decode ahead of the fold; 0 means GOMAXPROCS.
	Workers int
	// HeadEvery is how often Run asks the source for its head, to notice a
	// ledger that was cut back under it; 0 means five seconds.
	HeadEvery time.Duration
	// KeepStale is how many chunks of the state a Run that has nothing else to do
	// leaves without a hash: what is hot is not hashed at each commit, and a
	// snapshot has no more to compute. 0 means 1024.
	KeepStale int
	// Keep, if set, brings what is kept beside the views up to them. It is called
	// when there is nothing else to do.
	Keep func(*Keeping) error
	// Progress, if set, is called after each commit.
	Progress func(Status)
	// Logger is for what is parked and halted; the zero value discards it.
	Logger zerolog.Logger

	maxMarks int // 0 means maxMarks
	// scratch stores are digested once, from their bytes: no hash is kept.
	scratch bool
}

// Status is where a runner stands.
type Status struct {
	Seq        ledger.Seq `json:"seq"`  // last message in the views
	Head       ledger.Seq `json:"head"` // last message of the source when it was last asked or heard from
	Lag        uint64     `json:"lag"`  // messages between them
	Parked     int        `json:"parked"`
	Foreign    int64      `json:"foreign"`
	Rebuilding []string   `json:"rebuilding,omitzero"` // projections that are built behind what readers see
	// Views is where each projection stands.
	Views  map[string]ledger.Seq `json:"views,omitzero"`
	Halted string                `json:"halted,omitzero"` // why the views stand still
}

// Runner folds a source into the views of one store. One goroutine at a time
// may be in Run or CatchUp; the other methods may be called from any.
type Runner struct {
	cfg     Config
	views   []*view // by name
	served  ledger.Seq
	others  []Cursor // what the store holds besides: other versions, other projections
	chain   chain
	anchor  ledger.Hash // leaf at the chain's start, to be found there again
	pending int         // messages since the last commit
	parked  int         // pairs parked since then
	foreign int64       // foreign messages since then
	waits   bool        // the chain has a suspect
	keeps   bool        // something is kept: what changes is written down
	marks   int         // that were written down since what is kept stood at a record

	mu     sync.Mutex
	status Status
}

// view is one projection with its place.
type view struct {
	Projection
	cursor Cursor
	batch  *Batch
	chunks *chunkIndex // nil in a scratch store
	ledger bool
	active bool // readers see this version
}

// NewRunner reads the cursors of the store. Nothing is written before Run.
func NewRunner(cfg Config) (*Runner, error) {
	cfg.CommitEvery = cmp.Or(cfg.CommitEvery, defaultCommitEvery)
	cfg.Workers = cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0))
	cfg.HeadEvery = cmp.Or(cfg.HeadEvery, defaultHeadEvery)
	cfg.KeepStale = cmp.Or(cfg.KeepStale, defaultKeepStale)
	cfg.maxMarks = cmp.Or(cfg.maxMarks, maxMarks)
	r := &Runner{cfg: cfg}
	for _, p := range append([]Projection{ledgerProjection{}}, cfg.Projections...) {
		if err := checkName(p.Name()); err != nil {
			return nil, err
		}
		_, isLedger := p.(ledgerProjection)
		r.views = append(r.views, &view{Projection: p, batch: newBatch(cfg.DB, stateOf(p.Name(), p.Version())), ledger: isLedger})
	}
	slices.SortFunc(r.views, func(a, b *view) int { return cmp.Compare(a.Name(), b.Name()) })
	for i, v := range r.views[1:] {
		if v.Name() == r.views[i].Name() {
			return nil, fmt.Errorf("two projections named %s", v.Name())
		}
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	if err := r.loadStatus(); err != nil {
		return nil, err
	}
	return r, nil
}

// load reads what the store holds: the cursors of the views, where readers
// stand, and what is there besides.
func (r *Runner) load() error {
	actives := make(map[string]int)
	r.served, r.others = 0, nil
	s, err := NewState(r.cfg.DB)
	if err != nil && !errors.Is(err, ErrNoState) {
		return err
	}
	if s != nil {
		for _, c := range s.cursors {
			actives[c.Projection] = c.Version
			r.served = max(r.served, c.Seq)
		}
	}
	for _, v := range r.views {
		v.batch.reset() // what an earlier, halted run left uncommitted
		if v.cursor, err = loadCursor(r.cfg.DB, v.Name(), v.Version()); err != nil {
			return err
		}
		version, ok := actives[v.Name()]
		v.active = ok && version == v.Version()
		if v.batch.known == nil && v.cursor.Seq == 0 {
			v.batch.known = newKeyFilter()
		}
	}
	return r.cfg.DB.Scan([]byte(cursorPrefix), nil, func(k, _ []byte) error {
		name, text, _ := strings.Cut(string(k[len(cursorPrefix):]), "/")
		version, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("cursor %s: %w", k, err)
		}
		if !slices.ContainsFunc(r.views, func(v *view) bool { return v.Name() == name && v.Version() == version }) {
			r.others = append(r.others, Cursor{Projection: name, Version: version})
		}
		return nil
	})
}

func (r *Runner) loadStatus() error {
	s, err := NewState(r.cfg.DB)
	if errors.Is(err, ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	parked, err := s.CountParked()
	if err != nil {
		return err
	}
	l, err := s.Ledger()
	if err != nil {
		return err
	}
	r.update(func(st *Status) {
		st.Parked, st.Foreign = parked, l.Foreign
		st.Seq, st.Rebuilding, st.Views = r.lowestView().cursor.Seq, r.rebuilding(), r.places()
	})
	return nil
}

// lowestView has the cursor that the feed starts behind.
func (r *Runner) lowestView() *view {
	return slices.MinFunc(r.views, func(a, b *view) int { return cmp.Compare(a.cursor.Seq, b.cursor.Seq) })
}

// highest is the last record that anything was folded up to.
func (r *Runner) highest() ledger.Seq {
	seq := r.served
	for _, v := range r.views {
		seq = max(seq, v.cursor.Seq)
	}
	return seq
}

// rebuilding are the projections that readers do not see yet, or see behind the
// others.
func (r *Runner) rebuilding() (names []string) {
	for _, v := range r.views {
		if r.served > 0 && (!v.active || v.cursor.Seq < r.served) {
			names = append(names, v.Name())
		}
	}
	return names
}

// places is where each projection stands, in a map of its own.
func (r *Runner) places() map[string]ledger.Seq {
	out := make(map[string]ledger.Seq, len(r.views))
	for _, v := range r.views {
		out[v.Name()] = v.cursor.Seq
	}
	return out
}

// Status is where the runner stands.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Head = max(s.Head, s.Seq)
	s.Lag = uint64(s.Head - s.Seq)
	s.Rebuilding = slices.Clone(s.Rebuilding)
	s.Views = maps.Clone(s.Views)
	return s
}

func (r *Runner) update(fn func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.status)
}

// View calls fn with the views of one moment between two commits.
func (r *Runner) View(fn func(*State) error) error {
	snap, err := r.cfg.DB.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	s, err := NewState(snap)
	if err != nil {
		return err
	}
	return fn(s)
}

// Digest is the live views' digest, from their bytes, and the record it is of.
func (r *Runner) Digest() (d Digest, err error) {
	err = r.View(func(s *State) error {
		d, err = s.Digest()
		return err
	})
	return d, err
}

// Run follows the source until ctx ends, which gives nil, or until something is
// wrong with the ledger or the store, which Status then shows as well.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watchHead(ctx, cancel)
	}()
	err := r.process(ctx, 0)
	if cause := context.Cause(ctx); ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		err = cause
		if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
			err = nil
		}
	}
	cancel(nil)
	<-watched
	return r.halted(err)
}

// watchHead ends the run when the ledger ends before what was folded: a
// consumer would wait for ever for records whose sequences are taken.
func (r *Runner) watchHead(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(r.cfg.HeadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		seen := r.Status().Seq // before the head is asked for, so that a moving head is no alarm
		head, err := r.cfg.Source.Head(ctx)
		if err != nil {
			continue // the feed itself reports a source that is gone
		}
		if head < seen {
			cancel(aheadError(seen, head))
			return
		}
		r.update(func(s *Status) { s.Head = head })
	}
}

// CatchUp folds up to the message to, or up to the head when to is 0, and brings what
// is kept beside the views up to it. Views that are already there stay as they are.
func (r *Runner) CatchUp(ctx context.Context, to ledger.Seq) error {
	head, err := r.cfg.Source.Head(ctx)
	if err != nil {
		return fmt.Errorf("head of the ledger: %w", err)
	}
	if to == 0 {
		to = head
	}
	if to > head {
		return r.halted(aheadError(to, head))
	}
	if to == 0 && r.highest() == 0 {
		return nil
	}
	err = r.process(ctx, to)
	if err == nil {
		err = r.keep(func() bool { return ctx.Err() != nil })
	}
	return r.halted(err)
}

func (r *Runner) halted(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		r.update(func(s *Status) { s.Halted = err.Error() })
		r.cfg.Logger.Error().Err(err).Msg("projector halted")
	}
	return err
}

func aheadError(seq, head ledger.Seq) error {
	return &LinkError{Seq: seq, Kind: ErrAhead, What: "head", Want: fmt.Sprintf("at least %d", seq), Got: fmt.Sprint(head)}
}

// process reads the feed from the lowest cursor to to, or for ever.
func (r *Runner) process(ctx context.Context, to ledger.Seq) error {
	head, err := r.start(ctx)
	if err != nil {
		return err
	}
	from := max(r.chain.seq, 1)
	if to != 0 && to < from {
		return nil
	}
	f := startFeed(ctx, r.cfg.Source, from, to, r.cfg.Workers)
	defer f.stop()
	if err := r.foldFeed(ctx, f, head, to); err != nil {
		return err
	}
	if err := r.commit(); err != nil {
		return err
	}
	var lost *ledger.LostError
	if err := f.result(); errors.As(err, &lost) {
		return &LinkError{Seq: lost.After + 1, Kind: ErrGap, What: "end of the feed", Want: fmt.Sprint(lost.Last), Got: fmt.Sprint(lost.After)}
	} else if err != nil {
		return fmt.Errorf("read the ledger behind message %d: %w", r.chain.seq, err)
	}
	if err := r.chain.settled(); err != nil {
		return err
	}
	if r.chain.seq < to {
		return &LinkError{Seq: r.chain.seq + 1, Kind: ErrGap, What: "end of the feed", Want: fmt.Sprint(to), Got: fmt.Sprint(r.chain.seq)}
	}
	return nil
}

// foldFeed folds what the feed brings. Whenever nothing waits, it hashes, and lets the
// owner of what is kept bring it up to the views, for a fifth of the time at most.
func (r *Runner) foldFeed(ctx context.Context, f *feed, head, to ledger.Seq) error {
	busy := func() bool { return len(f.ordered) > 0 || ctx.Err() != nil }
	var due <-chan time.Time // when it may; nil when nothing was committed since
	var pause time.Duration
	for {
		select {
		case c, ok := <-f.ordered:
			if !ok {
				return nil
			}
			<-c.ready
			if err := r.foldChunk(ctx, c); err != nil {
				return err
			}
			f.recycle(c)
			if to == 0 && r.chain.seq >= head && r.chain.seq == f.received() {
				if err := r.commit(); err != nil {
					return err
				}
				if err := r.settle(busy); err != nil {
					return err
				}
				if due == nil && r.cfg.Keep != nil {
					due = time.After(pause)
				}
			}
		case <-due:
			start := time.Now()
			if err := r.keep(busy); err != nil {
				return err
			}
			due, pause = nil, keepPause*time.Since(start)
		}
	}
}

// start puts the chain at the lowest cursor. The message there is read again,
// to see that the ledger still holds what was folded.
func (r *Runner) start(ctx context.Context) (head ledger.Seq, err error) {
	if err := r.load(); err != nil {
		return 0, err
	}
	if head, err = r.cfg.Source.Head(ctx); err != nil {
		return 0, fmt.Errorf("head of the ledger: %w", err)
	}
	if top := r.highest(); head < top {
		return 0, aheadError(top, head)
	}
	tree, err := r.frontier()
	if err != nil {
		return 0, err
	}
	low := r.lowestView().cursor
	r.chain, r.anchor = chain{seq: low.Seq, leaf: low.Leaf, tree: *tree}, low.Leaf
	r.pending, r.parked, r.foreign, r.waits = 0, 0, 0, false
	if err := r.findKept(); err != nil {
		return 0, err
	}
	r.update(func(s *Status) { s.Head, s.Halted = head, "" })
	if r.cfg.scratch {
		return head, nil
	}
	return head, r.openChunks()
}

// frontier is the Merkle frontier at the lowest cursor. It is lost when another
// build of the software began to build something else meanwhile; what was being
// built then begins anew.
func (r *Runner) frontier() (*ledger.Tree, error) {
	low := r.lowestView().cursor.Seq
	if low == 0 {
		return &ledger.Tree{}, nil
	}
	for _, key := range []string{servedKey, buildKey} {
		if tree, err := loadFrontier(r.cfg.DB, key); err != nil || tree.Size() == uint64(low) {
			return tree, err
		}
	}
	if low >= r.served {
		return nil, fmt.Errorf("%w: no feed position at record %d, where the views stand", ErrCorrupt, low)
	}
	w := r.cfg.DB.NewBatch()
	defer w.Close()
	for _, v := range r.views {
		if v.cursor.Seq < r.served {
			drop(w, v.cursor)
		}
	}
	if err := w.Commit(false); err != nil {
		return nil, fmt.Errorf("begin a build anew: %w", err)
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	return &ledger.Tree{}, nil
}

// openChunks reads which chunks there are. Views that were folded without are
// cut into chunks here, which reads all of their keys, once.
func (r *Runner) openChunks() error {
	w := r.cfg.DB.NewBatch()
	defer w.Close()
	for _, v := range r.views {
		var err error
		if v.chunks, err = openChunks(r.cfg.DB, w, v.cursor); err != nil {
			return err
		}
		if v.cursor.Seq > 0 && !v.cursor.chunked {
			v.cursor.chunked = true
			if err := putCursor(w, v.cursor); err != nil {
				return err
			}
		}
	}
	if err := w.Commit(false); err != nil {
		return fmt.Errorf("chunks of the views: %w", err)
	}
	return nil
}

// settle hashes chunks that changed until few enough are left or something else
// is to be done.
func (r *Runner) settle(interrupted func() bool) error {
	for !interrupted() {
		stale := 0
		for _, v := range r.views {
			stale += v.chunks.stale
		}
		if stale <= r.cfg.KeepStale {
			return nil
		}
		if err := r.settleSome(min(settleChunks, stale-r.cfg.KeepStale)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) settleSome(n int) error {
	w := r.cfg.DB.NewBatch()
	defer w.Close()
	for _, v := range r.views {
		done, err := v.chunks.settle(r.cfg.DB, w, n)
		if err != nil {
			return err
		}
		n -= done
	}
	if err := w.Commit(false); err != nil {
		return fmt.Errorf("hashes of the views: %w", err)
	}
	return nil
}
