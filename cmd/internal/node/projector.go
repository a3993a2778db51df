package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/kv"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/stream"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/report"
	"assay/projector/view"
)

// ledgerSource makes a stream the projector's feed.
type ledgerSource struct{ *stream.Stream }

func (s ledgerSource) Head(ctx context.Context) (ledger.Seq, error) {
	h, err := s.Stream.Head(ctx)
	return h.Last, err
}

// Projector is a running projector with its store.
type Projector struct {
	cfg    UpConfig
	source ledgerSource
	nc     *nats.Conn
	done   chan struct{}
	err    error

	mu     sync.Mutex // guards what follows, which is made anew when the store failed
	runner *projector.Runner
	db     *kv.DB
}

// StartProjector folds the ledger into DIR/views and goes on with new records.
func StartProjector(ctx context.Context, hub *Hub, cfg UpConfig) (*Projector, error) {
	s, nc, err := hub.OpenReader(principal.ReadProjector)
	if err != nil {
		return nil, err
	}
	p := &Projector{cfg: cfg, source: ledgerSource{s}, nc: nc, done: make(chan struct{})}
	if err := p.open(); err != nil {
		nc.Close()
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = p.follow(ctx)
		if p.err != nil {
			// Views that stand still still answer; a halt is seen in the status.
			<-ctx.Done()
		}
	}()
	return p, nil
}

func (p *Projector) open() error {
	db, err := kv.Open(p.cfg.Dir.Views(), kv.Options{Logger: p.cfg.Log})
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	r, err := projector.NewRunner(projector.Config{DB: db, Source: p.source, Projections: view.All(), Keep: metric.Keep, Logger: p.cfg.Log})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runner, p.db = r, db
	return nil
}

// Runner is the present runner.
func (p *Projector) Runner() *projector.Runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runner
}

// follow runs the projector until ctx ends. A broker that is away for a while
// or a full disk does not end it; what is wrong with the ledger or the views does.
func (p *Projector) follow(ctx context.Context) error {
	for {
		err := p.Runner().Run(ctx)
		if err == nil || ctx.Err() != nil || lasting(err) {
			return err
		}
		if failed := p.db.Err(); failed != nil {
			if err := p.reopen(ctx, failed); err != nil {
				return err
			}
			continue
		}
		p.cfg.Log.Warn().Err(err).Msg("projector reads on in a second")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// reopen opens views that a write error stopped, once there is room. What was
// not stored is folded again.
func (p *Projector) reopen(ctx context.Context, failed error) error {
	p.cfg.Log.Error().Err(failed).Msg("the views' store failed: open it again once there is room")
	free := func() (uint64, error) { return freeBytes(p.cfg.Dir.Views()) }
	closed := false
	for pause := firstReopen; ; pause = min(2*pause, lastReopen) {
		if awaitRoom(ctx, free, p.cfg.lowWater(), pause) != nil {
			return nil
		}
		if !closed {
			_ = p.db.Close() // it says again why it failed
			closed = true
		}
		err := p.open()
		if err == nil || !fullDisk(err) && !errors.Is(err, kv.ErrFailed) {
			return err
		}
		p.cfg.Log.Error().Err(err).Msg("open the views again")
	}
}

// lasting says whether running again would end the same way.
func lasting(err error) bool {
	for _, fault := range []error{
		projector.ErrGap, projector.ErrFork, projector.ErrAhead, projector.ErrCorrupt,
		projector.ErrPartialApply, ledger.ErrUnsupportedVersion, ledger.ErrBadFrontier,
	} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// Wait returns once the projector has stopped.
func (p *Projector) Wait() error {
	<-p.done
	p.nc.Close()
	err := p.db.Close()
	if errors.Is(err, kv.ErrClosed) {
		err = nil // it could not be opened again, which p.err says
	}
	return errors.Join(p.err, err)
}

// ProjectorStatus is where the views stand.
type ProjectorStatus = projector.Status

// StatusOf is the runner's status.
func (p *Projector) StatusOf() *ProjectorStatus {
	s := p.Runner().Status()
	return &s
}

// ready says why the projector does not do its job; nothing if it does.
func (p *Projector) ready() []string {
	reasons := disconnected("projector", p.nc)
	if s := p.StatusOf(); s.Halted != "" {
		reasons = append(reasons, "the views stand still: "+s.Halted)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.db.Err(); err != nil {
		reasons = append(reasons, fmt.Sprintf("the views' store failed: %v", err))
	}
	return reasons
}

func (p *Projector) routes(mux *http.ServeMux) {
	// views answers from the views of one moment.
	views := func(pattern string, fn func(s *projector.State, v url.Values) (any, error)) {
		handle(mux, pattern, func(r *http.Request) (out any, err error) {
			err = p.Runner().View(func(s *projector.State) error {
				out, err = fn(s, r.URL.Query())
				return err
			})
			return out, err
		})
	}
	handle(mux, "GET /digest", func(*http.Request) (any, error) { return p.Runner().Digest() })
	views("GET /score", func(s *projector.State, v url.Values) (any, error) { return metric.Compute(s, v.Get("namespace")) })
	views("GET /explain", func(s *projector.State, v url.Values) (any, error) {
		q, err := explainQuery(v)
		if err != nil {
			return nil, badRequest{err}
		}
		return Explain(s, q)
	})
	views("GET /detector", func(s *projector.State, v url.Values) (any, error) {
		return metric.Detect(s, v.Get("namespace"), v.Get("week"))
	})
	views("GET /values", func(s *projector.State, v url.Values) (any, error) { return Values(s, valuesQuery(v)) })
	views("GET /report", func(s *projector.State, v url.Values) (any, error) { return report.Build(s, reportQuery(v)) })
	views("GET /show", func(s *projector.State, v url.Values) (any, error) { return Show(s, v.Get("ref")) })
	views("GET /named", func(s *projector.State, v url.Values) (any, error) {
		n, err := named(v)
		if err != nil {
			return nil, err
		}
		return view.FindNamed(s, n)
	})
	views("GET /calls", func(s *projector.State, v url.Values) (any, error) {
		if n := len(v["call"]); n > maxCalls || n != len(v["episode"]) {
			return nil, badRequest{fmt.Errorf("%d calls and %d episodes: want as many, up to %d", n, len(v["episode"]), maxCalls)}
		}
		return recordedCalls(s, v["episode"], v["call"])
	})
	views("GET /shadow", func(s *projector.State, v url.Values) (any, error) {
		return ShowShadow(s, v.Get("namespace"), v.Get("claim"))
	})
	views("GET /list", func(s *projector.State, v url.Values) (any, error) {
		q, err := listQuery(v)
		if err != nil {
			return nil, badRequest{err}
		}
		return List(p.cfg.Dir, s, q)
	})
	views("GET /blobs", func(s *projector.State, _ url.Values) (any, error) { return ListBlobs(p.cfg.Dir, s) })
	views("GET /blob", func(s *projector.State, v url.Values) (any, error) { return StatBlob(p.cfg.Dir, s, v.Get("ref")) })
	uiRoutes(views)
	(&snapshots{p: p}).routes(mux)
}

// ErrNoViews means that no projector ever ran on the directory.
var ErrNoViews = errors.New("no views yet: run `assay up` once")

// OpenViews opens the views of a directory on which nothing runs.
func OpenViews(dir Dir, fn func(*projector.State) error) error {
	db, err := kv.Open(dir.Views(), kv.Options{ReadOnly: true})
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNoViews
	}
	if err != nil {
		return err
	}
	s, err := projector.NewState(db)
	if errors.Is(err, projector.ErrNoState) {
		err = ErrNoViews
	}
	if err == nil {
		err = fn(s)
	}
	return errors.Join(err, db.Close())
}
