package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/view"
)

// SnapshotResult is a snapshot's place and manifest.
type SnapshotResult struct {
	Path string `json:"path"`
	projector.Manifest
}

// snapshots writes and prunes the snapshots of a running projector, one at a
// time.
type snapshots struct {
	mu sync.Mutex
	p  *Projector
}

func (s *snapshots) routes(mux *http.ServeMux) {
	handle(mux, "POST /snapshot", func(r *http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		path, m, err := s.p.Runner().Snapshot(r.Context(), s.p.cfg.Dir.Snapshots(), metric.Version)
		return SnapshotResult{path, m}, err
	})
	handle(mux, "POST /snapshot/prune", func(r *http.Request) (out any, err error) {
		q, err := pruneQuery(r.URL.Query())
		if err != nil {
			return nil, badRequest{err}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		err = s.p.Runner().View(func(st *projector.State) error {
			out, err = PruneSnapshots(s.p.cfg.Dir, st, q)
			return err
		})
		return out, err
	})
}

// PruneQuery says which snapshots stay.
type PruneQuery struct {
	Keep   int  // how many of the latest; at least 1
	DryRun bool // nothing is removed
}

// Values is the query as the service takes it.
func (q PruneQuery) Values() url.Values {
	return url.Values{"keep": {strconv.Itoa(q.Keep)}, "dry_run": {strconv.FormatBool(q.DryRun)}}
}

// pruneQuery reads what Values wrote, and takes nothing else for a yes.
func pruneQuery(v url.Values) (q PruneQuery, err error) {
	if q.Keep, err = strconv.Atoi(v.Get("keep")); err != nil || q.Keep < 1 {
		return q, fmt.Errorf("keep=%q: want at least 1, the latest stays in any case", v.Get("keep"))
	}
	if q.DryRun, err = strconv.ParseBool(v.Get("dry_run")); err != nil {
		return q, fmt.Errorf("dry_run=%q: want true or false", v.Get("dry_run"))
	}
	return q, nil
}

// PruneSnapshots removes snapshots but for the latest ones and the last of each
// week that the ledger has closed, as the views say.
func PruneSnapshots(dir Dir, s *projector.State, q PruneQuery) ([]projector.Pruned, error) {
	cfg := projector.PruneConfig{Dir: dir.Snapshots(), Keep: q.Keep, DryRun: q.DryRun}
	err := view.ListWeeks(s, func(w *view.Week) error {
		cfg.Spans = append(cfg.Spans, projector.Span{Name: w.Week, Start: w.Start, End: w.End})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return projector.PruneSnapshots(cfg)
}

// ScoreAt computes the score as of a record, by this build's scorer. It says
// which snapshot it went on from; nil for record 1.
func ScoreAt(ctx context.Context, c FoldConfig, namespace string) (score *metric.Score, from *projector.SnapshotInfo, err error) {
	cfg, from, err := c.replay(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg.Inspect = func(s *projector.State) (err error) {
		score, err = metric.Compute(s, namespace)
		return err
	}
	err = projector.Fold(ctx, cfg)
	return score, from, err
}

// CompareScores scores at c.To, then after every step-th record up to to, and
// says which records changed which figure.
func CompareScores(ctx context.Context, c FoldConfig, to ledger.Seq, step int, namespace string) (*metric.Comparison, error) {
	cfg, _, err := c.replay(ctx)
	if err != nil {
		return nil, err
	}
	var types []string
	err = EachType(ctx, c.Evidence, c.To+1, to, func(t string) { types = append(types, t) })
	if err != nil {
		return nil, err
	}
	out := metric.NewComparison(step, types)
	cfg.Inspect = func(s *projector.State) error {
		score, err := metric.Compute(s, namespace)
		if err != nil {
			return err
		}
		if c.Progress != nil {
			c.Progress(score.Inputs.Seq, to)
		}
		return out.Add(score)
	}
	return out, projector.Walk(ctx, cfg, to, step, metric.KeepScore(namespace))
}

// EachType calls fn with the types of the records from from to to, in order; ""
// for a foreign message.
func EachType(ctx context.Context, e Evidence, from, to ledger.Seq, fn func(string)) error {
	if from > to {
		return nil
	}
	return e.Read(ctx, from, to, func(_ ledger.Seq, body []byte) error {
		fn(typeOf(body))
		return nil
	})
}

func typeOf(body []byte) string {
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return ""
	}
	ev, err := events.DecodeEnvelope(r.Event)
	if err != nil {
		return ""
	}
	return ev.Type
}

// ErrTooEarly means that the ledger holds no record of a time or before it.
var ErrTooEarly = errors.New("no record is as old")

// SeqAt is the last record that was written while ledger time was t or before.
func SeqAt(ctx context.Context, e Evidence, t time.Time) (ledger.Seq, error) {
	last, err := e.Head(ctx)
	if err != nil {
		return 0, err
	}
	var found ledger.Seq
	errLater := errors.New("later")
	if last > 0 {
		err = e.Read(ctx, 1, last, func(seq ledger.Seq, body []byte) error {
			if r, err := ledger.ParseRecord(body); err == nil && r.RecordedAt.After(t) {
				return errLater
			}
			found = seq
			return nil
		})
	}
	if err != nil && !errors.Is(err, errLater) {
		return 0, err
	}
	if found == 0 {
		return 0, fmt.Errorf("%w as %s", ErrTooEarly, ledger.FormatTime(t))
	}
	return found, nil
}

// SeqOfWeek is the record that closed a week; ErrNoWeek when none did.
func SeqOfWeek(ctx context.Context, e Evidence, week string) (ledger.Seq, error) {
	f, err := scanAudits(ctx, &AuditConfig{Evidence: e, Week: week})
	if err != nil {
		return 0, err
	}
	return f.closed, nil
}
