package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/internal/plain"
	"assay/ledger"
	"assay/ledger/witness"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/ui"
	"assay/projector/view"
	"assay/resolver"
)

// UISource is what the pages read: the ledger as evidence, the files of checkpoints,
// the views of the running projector or those on disk, and the blobs.
type UISource struct {
	dir      Dir
	evidence Evidence
	policy   *witness.Policy
	walk     *walk
}

// OpenUISource reads on until Close: it hashes the ledger from record 1, so that it can
// hold checkpoints against what it read and prove records without a pass.
func OpenUISource(ctx context.Context, dir Dir, e Evidence, log zerolog.Logger) (*UISource, error) {
	policy, err := LoadPolicy(dir)
	if err != nil {
		return nil, err
	}
	u := &UISource{dir: dir, evidence: e, policy: policy}
	u.walk = startWalk(ctx, e, u.checkpoint, log)
	return u, nil
}

// Close ends what reads in the background. The evidence stays open.
func (u *UISource) Close() { u.walk.stop() }

// checkpoint is the last one that counts; size 0 when there is none.
func (u *UISource) checkpoint() (ledger.SignedCheckpoint, error) { return counting(u.dir, u.policy) }

// State implements ui.Source.
func (u *UISource) State(ctx context.Context) (ui.State, error) {
	cp, err := u.checkpoint()
	// The head after the checkpoint: it is never behind it.
	head, herr := u.evidence.Head(ctx)
	if herr != nil {
		return ui.State{}, fmt.Errorf("%w: the head of the ledger cannot be read: %w", ui.ErrNotServed, herr)
	}
	st := ui.State{Origin: u.evidence.Origin(), Head: head}
	st.Read, st.Matched, st.Fault = u.walk.state()
	switch {
	case err != nil:
		st.Trouble = err.Error()
	case cp.Size == 0:
		st.Trouble = "no checkpoint is signed yet"
		if u.policy != nil {
			st.Trouble = "no checkpoint meets the witness policy yet"
		}
	case cp.Size > uint64(head):
		st.Fault = fmt.Sprintf("a checkpoint signs %d records, and the ledger holds %d", cp.Size, head)
	}
	if err == nil && cp.Size > 0 {
		st.Signed, st.Root, st.Note = ledger.Seq(min(cp.Size, uint64(head))), cp.Root.String(), string(cp.Raw)
	}
	return st, nil
}

// Read implements ui.Source.
func (u *UISource) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return u.evidence.Read(ctx, from, to, fn)
}

// Prove implements ui.Source.
func (u *UISource) Prove(ctx context.Context, seq ledger.Seq) ([]byte, error) {
	p, err := u.walk.prove(ctx, seq)
	if errors.Is(err, ErrNotSigned) {
		err = notFound{err}
	}
	if err != nil {
		return nil, err
	}
	return p.Encode(), nil
}

// Services implements ui.Source.
func (u *UISource) Services(ctx context.Context) ([]ui.Service, error) {
	all, err := AskServices(ctx, u.dir)
	out := make([]ui.Service, 0, len(all))
	for _, s := range all {
		out = append(out, ui.Service{Name: s.Services, Ready: len(s.NotReady) == 0, Trouble: s.NotReady, Facts: factsOf(&s.Status)})
	}
	return out, err
}

// factsOf are the lines of a status that a reader of the pages looks for first.
func factsOf(s *Status) (out []ui.Fact) {
	add := func(name, format string, args ...any) {
		out = append(out, ui.Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	if b := s.Broker; b != nil {
		add("broker", "%s %s", b.State, b.Detail)
	}
	if l := s.Logger; l != nil {
		add("logger", "%s, %d records, the checkpoint signs %d, %d events wait, %d rejected since its start",
			l.State, l.Size, l.CheckpointSize, l.Waiting, Total(l.Rejected))
		if l.Warning != "" {
			add("warning", "%s", l.Warning)
		}
	}
	if p := s.Projector; p != nil {
		add("projector", "views at %d of %d, %d parked", p.Seq, p.Head, p.Parked)
		if p.Halted != "" {
			add("halted", "%s", p.Halted)
		}
	}
	if t := s.Telemetry; t != nil {
		add("telemetry", "%d batches received, %d refused, %d lost", t.Received, t.Refused, t.Lost)
	}
	if r := s.Resolver; r != nil {
		add("resolver", "at %d, %d predictions open, %d amendable", r.Applied, r.Open, r.Amendable)
	}
	if g := s.Gateway; g != nil {
		add("gateway", "%d events taken, %d spooled", g.Taken, g.Spooled)
	}
	return out
}

// Total is the sum of counts.
func Total(m map[string]uint64) (sum uint64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// ask is AskViews with the errors that the pages know.
func ask[T any](ctx context.Context, u *UISource, path string, v url.Values, read func(*projector.State) (T, error)) (T, error) {
	out, err := AskViews(ctx, u.dir, path, v, read)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNoWeek) {
		err = notFound{err}
	}
	return out, err
}

// notFound makes an error ui.ErrNotFound as well.
type notFound struct{ error }

func (notFound) Is(target error) bool { return target == ui.ErrNotFound }
func (e notFound) Unwrap() error      { return e.error }

// Find implements ui.Source.
func (u *UISource) Find(ctx context.Context, id string) (view.Found, error) {
	return ask(ctx, u, "/show", url.Values{"ref": {id}}, func(s *projector.State) (view.Found, error) { return Show(s, id) })
}

// FindNamed implements ui.Source.
func (u *UISource) FindNamed(ctx context.Context, n view.Named) (view.Found, error) {
	v := url.Values{"claim": n.Claims, "prediction": n.Predictions, "opportunity": n.Opportunities, "experiment": n.Experiments, "hypotheses": n.Hypotheses}
	return ask(ctx, u, "/named", v, func(s *projector.State) (view.Found, error) { return view.FindNamed(s, n) })
}

// maxNamed is how many identifiers the running projector is asked for at once.
const maxNamed = 100

// named reads what UISource.FindNamed asks for.
func named(v url.Values) (view.Named, error) {
	n := view.Named{Claims: v["claim"], Predictions: v["prediction"], Opportunities: v["opportunity"], Experiments: v["experiment"], Hypotheses: v["hypotheses"]}
	if all := len(n.Claims) + len(n.Predictions) + len(n.Opportunities) + len(n.Experiments) + len(n.Hypotheses); all > maxNamed {
		return n, badRequest{fmt.Errorf("%d identifiers: want up to %d", all, maxNamed)}
	}
	return n, nil
}

// Episode implements ui.Source.
func (u *UISource) Episode(ctx context.Context, namespace, id string) (*view.Episode, error) {
	v := url.Values{"namespace": {namespace}, "id": {id}}
	return ask(ctx, u, "/episode", v, func(s *projector.State) (*view.Episode, error) { return ShowEpisode(s, namespace, id) })
}

// ShowEpisode reads an episode; ErrNotFound when there is none.
func ShowEpisode(s *projector.State, namespace, id string) (*view.Episode, error) {
	e, err := view.GetEpisode(s, namespace, id)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("%w: %q is no episode of %s", ErrNotFound, id, namespace)
	}
	return e, err
}

// Episodes implements ui.Source.
func (u *UISource) Episodes(ctx context.Context, namespace, after string, limit int) ([]view.Episode, bool, error) {
	v := url.Values{"namespace": {namespace}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	page, err := ask(ctx, u, "/episodes", v, func(s *projector.State) (EpisodePage, error) { return ListEpisodes(s, namespace, after, limit) })
	return page.Items, page.More, err
}

// EpisodePage is some of a namespace's episodes, in the order of their ids.
type EpisodePage struct {
	Items []view.Episode `json:"items"`
	More  bool           `json:"more"` // there are others behind the last one
}

// ListEpisodes reads those of view.ListEpisodesAfter, limit at most.
func ListEpisodes(s *projector.State, namespace, after string, limit int) (EpisodePage, error) {
	out := EpisodePage{Items: []view.Episode{}}
	err := view.ListEpisodesAfter(s, namespace, after, func(e *view.Episode) error {
		if out.More = len(out.Items) == limit; out.More {
			return kv.ErrStop
		}
		out.Items = append(out.Items, *e)
		return nil
	})
	return out, err
}

// Weeks implements ui.Source.
func (u *UISource) Weeks(ctx context.Context) ([]view.Week, error) {
	type weeks struct {
		Items []view.Week `json:"items"`
	}
	q := ListQuery{Kind: "weeks", Namespace: metric.DefaultNamespace, Limit: MaxListed}
	out, err := ask(ctx, u, "/list", q.Values(), func(s *projector.State) (out weeks, err error) {
		err = view.ListWeeks(s, func(w *view.Week) error {
			out.Items = append(out.Items, *w)
			return nil
		})
		return out, err
	})
	return out.Items, err
}

// Score implements ui.Source.
func (u *UISource) Score(ctx context.Context, namespace string) (*metric.Score, error) {
	return ask(ctx, u, "/score", url.Values{"namespace": {namespace}}, func(s *projector.State) (*metric.Score, error) { return metric.Compute(s, namespace) })
}

// Explain implements ui.Source.
func (u *UISource) Explain(ctx context.Context, name, namespace string, o metric.Options, limit int) (*ui.Explained, error) {
	q := ExplainQuery{Metric: name, Namespace: namespace, Options: o, Limit: limit}
	out, err := ask(ctx, u, "/explain", q.Values(), func(s *projector.State) (Explained, error) { return Explain(s, q) })
	return &ui.Explained{Explanation: out.Explanation, Records: out.Records, More: out.More}, err
}

// Waiting implements ui.Source.
func (u *UISource) Waiting(ctx context.Context, which ui.Work, after ledger.Seq, limit int) (*ui.WorkList, error) {
	list, err := AskWorkList(ctx, u.dir, resolver.WorkQuery{Which: resolver.Work(which), After: after, Limit: limit})
	if errors.Is(err, ErrNotServed) {
		return nil, fmt.Errorf("%w: %w", ui.ErrNotServed, err)
	}
	if err != nil {
		return nil, err
	}
	out := &ui.WorkList{Seq: list.Seq, More: list.More}
	for _, w := range list.Items {
		out.Items = append(out.Items, ui.Waiting{
			Seq: w.Seq, RecordedAt: w.RecordedAt, Namespace: w.Namespace, Principal: w.Principal, PredID: w.PredID, State: w.State, Why: w.Why,
			WindowOpen: w.WindowOpen, WindowEnd: w.WindowEnd, Sources: sourcesOf(&w), Reports: w.Reports,
		})
	}
	return out, nil
}

func sourcesOf(w *resolver.Waiting) (out []string) {
	for _, s := range w.Sources {
		at := "nothing sealed yet"
		if s.Watermark != nil {
			at = "sealed up to " + s.Watermark.UTC().Format(time.RFC3339)
		}
		out = append(out, fmt.Sprintf("%s: %s, needed to %s", s.Source, at, s.Needed.UTC().Format(time.RFC3339)))
	}
	return out
}

// uiRoutes serve what the pages ask the views for and nobody else does.
func uiRoutes(views func(pattern string, fn func(s *projector.State, v url.Values) (any, error))) {
	views("GET /episode", func(s *projector.State, v url.Values) (any, error) {
		return ShowEpisode(s, v.Get("namespace"), v.Get("id"))
	})
	views("GET /episodes", func(s *projector.State, v url.Values) (any, error) {
		limit, err := limitOf(v, 1, MaxListed)
		if err != nil {
			return nil, badRequest{err}
		}
		return ListEpisodes(s, v.Get("namespace"), v.Get("after"), limit)
	})
}

// Running is a service that answers, and why it does not do its job.
type Running struct {
	Status
	NotReady []string `json:"not_ready"` // empty when it does
}

// AskServices asks every service that runs on this host. One that does not answer is
// left out, as one that is not there.
func AskServices(ctx context.Context, dir Dir) ([]Running, error) {
	sockets, err := dir.StatusSockets()
	if err != nil {
		return nil, err
	}
	out := []Running{}
	for _, s := range sockets {
		r := Running{NotReady: []string{}}
		err := Ask(ctx, s, "GET", "/status", nil, &r.Status)
		if errors.Is(err, ErrNotServed) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		var line []byte
		err = Ask(ctx, s, "GET", "/readyz", nil, &line)
		if a, ok := errors.AsType[*answered](err); ok && a.status == http.StatusServiceUnavailable {
			r.NotReady, err = strings.Split(plain.Text(a.text), "\n"), nil
		}
		if errors.Is(err, ErrNotServed) {
			continue // it ended
		}
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}
