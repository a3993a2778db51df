package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/stream"
	"assay/projector"
	"assay/projector/metric"
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
	*projector.Runner
	dir  Dir
	db   *kv.DB
	nc   *nats.Conn
	done chan struct{}
	err  error
}

// StartProjector folds the ledger into DIR/views and goes on with new records.
func StartProjector(ctx context.Context, dir Dir, hub *Hub, log zerolog.Logger) (*Projector, error) {
	db, err := kv.Open(dir.Views(), kv.Options{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	s, nc, err := hub.OpenReader(principal.ReadProjector)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p := &Projector{dir: dir, db: db, nc: nc, done: make(chan struct{})}
	p.Runner, err = projector.NewRunner(projector.Config{DB: db, Source: ledgerSource{s}, Projections: view.All(), Logger: log})
	if err != nil {
		nc.Close()
		return nil, errors.Join(err, db.Close())
	}
	go func() {
		defer close(p.done)
		p.err = p.follow(ctx, log)
		if p.err != nil {
			// Views that stand still still answer; a halt is seen in the status.
			<-ctx.Done()
		}
	}()
	return p, nil
}

// follow runs the projector until ctx ends. A broker that is away for a while
// does not end it; what is wrong with the ledger or the views does.
func (p *Projector) follow(ctx context.Context, log zerolog.Logger) error {
	for {
		err := p.Run(ctx)
		if err == nil || ctx.Err() != nil || lasting(err) || p.db.Err() != nil {
			return err
		}
		log.Warn().Err(err).Msg("projector reads on in a second")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
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
	return errors.Join(p.err, p.db.Close())
}

// ProjectorStatus is where the views stand.
type ProjectorStatus = projector.Status

// StatusOf is the runner's status.
func (p *Projector) StatusOf() *ProjectorStatus {
	s := p.Runner.Status()
	return &s
}

func (p *Projector) routes(mux *http.ServeMux) {
	handle(mux, "GET /digest", func(*http.Request) (any, error) { return p.Digest() })
	handle(mux, "GET /score", func(r *http.Request) (out any, err error) {
		err = p.View(func(s *projector.State) error {
			out, err = metric.Compute(s, r.FormValue("namespace"))
			return err
		})
		return out, err
	})
	handle(mux, "GET /show", func(r *http.Request) (out any, err error) {
		err = p.View(func(s *projector.State) error {
			out, err = Show(s, r.FormValue("ref"))
			return err
		})
		if errors.Is(err, ErrNotFound) {
			err = &httpError{http.StatusNotFound, err}
		}
		return out, err
	})
	handle(mux, "GET /list", func(r *http.Request) (out any, err error) {
		limit, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil {
			return nil, &httpError{http.StatusBadRequest, fmt.Errorf("limit: %w", err)}
		}
		err = p.View(func(s *projector.State) error {
			out, err = List(s, r.FormValue("kind"), r.FormValue("namespace"), limit)
			return err
		})
		return out, err
	})
	handle(mux, "POST /snapshot", func(r *http.Request) (any, error) {
		path, m, err := p.Snapshot(r.Context(), p.dir.Snapshots())
		if err != nil {
			return nil, err
		}
		return struct {
			Path string `json:"path"`
			projector.Manifest
		}{path, m}, nil
	})
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
