package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

const (
	// MaxWebhook is the largest webhook in bytes.
	MaxWebhook = 4 << 20

	maxRemembered = 1000 // resolved alerts
)

// AlertmanagerConfig is one alertmanager source.
type AlertmanagerConfig struct {
	Source  criterion.Source
	Signals []criterion.Signal // of the source
	Cursor  Cursor
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// Alertmanager receives an Alertmanager's webhooks of version 4.
//
// An alert that has all labels of a signal's match is a sample of that signal
// with the alert's other labels: 1 at startsAt when it fires, 0 at endsAt when it
// is resolved. Its stream is made of signal, labels and startsAt, so that the
// same notification again is the same sample. Nothing follows from an alert that
// is no longer told of. An alert that fires after its end was told never ended:
// Alertmanager took Prometheus's silence for recovery. The end is then sent
// again as 1, so that the two contradict each other and prove nothing.
//
// The own heartbeat is the arrival of a firing Watchdog, an alert that always
// fires. It is held back (hold) for the allowed lateness, the time in which an
// alert of before may still be told of, and with it what webhooks said is sent
// once more. A webhook that left alerts out, had one that no sample can stand
// for, was refused or could not be delivered is a gap of the lateness before it:
// what it should have told happened then. So is the time before the start of this
// process; what waited at the end of the last one is lost.
type Alertmanager struct {
	tally
	cfg AlertmanagerConfig
	own criterion.Signal // the own heartbeat

	mu    sync.Mutex // held while a webhook is taken
	state alertState
	hold  hold
}

// alertState outlives the process.
type alertState struct {
	V int64 `json:"v"`
	// Resolved are the newest resolved alerts by stream, with their endsAt.
	Resolved map[string]time.Time `json:"resolved"`
}

// NewAlertmanager reads where the last run stopped.
func NewAlertmanager(cfg AlertmanagerConfig) (*Alertmanager, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Alertmanager{cfg: cfg, own: criterion.OwnHeartbeat(cfg.Signals), state: alertState{V: 1}}
	_, err := loadState(cfg.Cursor, &a.state, &a.state.V, "state of source "+cfg.Source.Name, "an alert that fires on after its end was told counts as recovered")
	if err != nil {
		return nil, err
	}
	if a.state.Resolved == nil {
		a.state.Resolved = map[string]time.Time{}
	}
	a.hold = newHold(cfg.Signals, a.own.AllowedLateness)
	a.hold.begin(cfg.Now())
	return a, nil
}

// Run implements Adapter.
func (a *Alertmanager) Run(ctx context.Context, out Sink) error {
	return serveDoor(ctx, a.cfg.Source.Listen, a.Handler(out))
}

// webhook is what is read of a payload; it has more members, and newer versions
// of Alertmanager add some.
type webhook struct {
	Version   string  `json:"version"`
	GroupKey  string  `json:"groupKey"`
	Truncated uint64  `json:"truncatedAlerts"`
	Alerts    []alert `json:"alerts"`
}

type alert struct {
	Status   string            `json:"status"`
	Labels   map[string]string `json:"labels"`
	StartsAt time.Time         `json:"startsAt"`
	EndsAt   time.Time         `json:"endsAt"`
}

// errWebhook means that a body is no webhook of version 4.
var errWebhook = errors.New("not an Alertmanager webhook of version 4")

func parseWebhook(raw []byte) (webhook, error) {
	var w webhook
	if err := json.Unmarshal(raw, &w); err != nil {
		return w, fmt.Errorf("%w: %w", errWebhook, err)
	}
	switch {
	case w.Version != "4":
		return w, fmt.Errorf("%w: version %.20q", errWebhook, w.Version)
	case w.GroupKey == "" || len(w.Alerts) == 0:
		return w, fmt.Errorf("%w: no groupKey or no alerts", errWebhook)
	}
	for i := range w.Alerts {
		if err := w.Alerts[i].check(); err != nil {
			return w, fmt.Errorf("%w: /alerts/%d%w", errWebhook, i, err)
		}
	}
	return w, nil
}

// check also sets the status where an old version gives none: what has not
// ended fires.
func (a *alert) check() error {
	ended := a.EndsAt.Year() > 1
	if a.Status == "" {
		a.Status = "firing"
		if ended {
			a.Status = "resolved"
		}
	}
	switch {
	case len(a.Labels) == 0:
		return errors.New("/labels: none")
	case !criterion.IsEventTime(a.StartsAt):
		return errors.New("/startsAt: missing or out of range")
	case a.Status != "firing" && a.Status != "resolved":
		return fmt.Errorf("/status: %.20q", a.Status)
	case a.Status == "resolved" && (!criterion.IsEventTime(a.EndsAt) || a.EndsAt.Before(a.StartsAt)):
		return errors.New("/endsAt: missing, out of range or before startsAt")
	}
	return nil
}

// Handler takes webhooks. It answers 200 once the broker has the samples, 400 or
// 413 for what sending again does not mend, 503 for what it does.
func (a *Alertmanager) Handler(out Sink) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, code int, why string) {
		if code >= http.StatusInternalServerError { // whoever sent it was allowed to
			a.void("a webhook was not taken: " + why)
		}
		http.Error(w, why, code)
	}
	return door(a.cfg.Source, MaxWebhook, refuse, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			a.refuse(w, http.StatusRequestEntityTooLarge, tooLarge)
			return
		} else if err != nil {
			a.fail(w, err)
			return
		}
		hook, err := parseWebhook(body)
		if err != nil {
			a.refuse(w, http.StatusBadRequest, err)
			return
		}
		if err := a.take(r.Context(), out, hook); err != nil {
			a.fail(w, err)
			return
		}
		a.note(func(st *AdapterStats) { st.Error = "" })
	}))
}

func (a *Alertmanager) refuse(w http.ResponseWriter, status int, err error) {
	a.note(func(st *AdapterStats) { st.Refused++ })
	a.void(fmt.Sprintf("a webhook was refused: %v", err))
	http.Error(w, err.Error(), status)
}

func (a *Alertmanager) fail(w http.ResponseWriter, err error) {
	a.note(func(st *AdapterStats) { st.Failed++; st.Error = err.Error() })
	a.void(fmt.Sprintf("a webhook was not delivered: %v", err))
	http.Error(w, "try again", http.StatusServiceUnavailable)
}

func (a *Alertmanager) void(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gap(why)
	a.cfg.Log.Warn().Str("source", a.cfg.Source.Name).Msg("heartbeats withheld: " + why)
}

// gap says that something of the lateness before now may be untold.
func (a *Alertmanager) gap(why string) {
	now := a.cfg.Now().UTC()
	a.hold.gap(now.Add(-a.hold.lateness), now, why)
	a.note(func(st *AdapterStats) { st.Doubt = a.hold.doubt(now) })
}

// take sends a webhook's samples. A state that cannot be saved is a failure,
// and the webhook comes again.
func (a *Alertmanager) take(ctx context.Context, out Sink, hook webhook) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now().UTC()
	next := &alertState{V: a.state.V, Resolved: maps.Clone(a.state.Resolved)}
	partial := ""
	if hook.Truncated > 0 {
		partial = fmt.Sprintf("a webhook left %d alerts of its group out: raise max_alerts", hook.Truncated)
	}
	var samples []Sample
	alive := false
	for _, al := range hook.Alerts {
		for _, s := range a.cfg.Signals {
			switch {
			case !includes(al.Labels, s.Match):
			case s.IsOwnHeartbeat():
				alive = alive || al.Status == "firing"
			default:
				of, err := a.samples(s, al, now, next)
				if err != nil {
					a.note(func(st *AdapterStats) { st.LeftOut++ })
					partial = fmt.Sprintf("signal %s: an alert is left out: %v", s.Name, err)
					continue
				}
				samples = append(samples, of...)
			}
		}
	}
	if partial != "" {
		a.gap(partial)
		a.cfg.Log.Warn().Str("source", a.cfg.Source.Name).Msg("heartbeats withheld: " + partial)
	}
	due, n := a.hold.due(now)
	if all := slices.Concat(samples, due); len(all) > 0 {
		if err := out.Send(ctx, all); err != nil {
			return err
		}
		a.sent(all, a.own.Name)
	}
	if err := a.save(next); err != nil {
		return err
	}
	a.hold.drop(n)
	e := held{time: now, samples: samples}
	if alive {
		e.beats = []Sample{a.heartbeat(now)}
	}
	if e.size() > 1 {
		a.hold.add(e)
	}
	a.note(func(st *AdapterStats) { st.Doubt = a.hold.doubt(now) })
	return nil
}

func (a *Alertmanager) heartbeat(at time.Time) Sample {
	return Sample{
		Source: a.cfg.Source.Name, Stream: streamOf("alert", a.own.Name, nil, ""), Seq: alertSeq(at), Signal: a.own.Name, Time: at, Value: 1,
	}
}

// alertSeq leaves room for a resolution at the moment of the start.
func alertSeq(t time.Time) uint64 { return 2 * uint64(max(t.UnixMicro(), 1)) }

// samples are what the alert says of the signal; next learns of it.
func (a *Alertmanager) samples(s criterion.Signal, al alert, now time.Time, next *alertState) ([]Sample, error) {
	labels := maps.Clone(al.Labels)
	for name := range s.Match {
		delete(labels, name)
	}
	if len(labels) == 0 {
		labels = nil
	}
	if err := criterion.CheckLabels(labels); err != nil {
		return nil, err
	}
	out := Sample{
		Source: a.cfg.Source.Name, Signal: s.Name, Labels: labels,
		Stream: streamOf("alert", s.Name, labels, al.StartsAt.UTC().Format(time.RFC3339Nano)),
		Time:   al.StartsAt.UTC(), Seq: alertSeq(al.StartsAt), Value: 1,
	}
	end := func(at time.Time, value float64) Sample {
		out := out
		out.Time, out.Seq, out.Value = at.UTC(), alertSeq(at)+1, value
		return out
	}
	resolved := al.Status == "resolved"
	if resolved {
		out = end(al.EndsAt, 0)
	}
	if ahead := out.Time.Sub(now); ahead > DefaultMaxAhead {
		return nil, fmt.Errorf("it is dated %v ahead", ahead)
	}
	ended, contradicted := next.Resolved[out.Stream]
	switch {
	case resolved:
		next.Resolved[out.Stream] = out.Time
	case contradicted:
		return []Sample{out, end(ended, 1)}, nil
	}
	return []Sample{out}, nil
}

// save keeps the newest resolutions; nothing is written if nothing changed.
func (a *Alertmanager) save(next *alertState) error {
	if maps.Equal(next.Resolved, a.state.Resolved) {
		return nil
	}
	if over := len(next.Resolved) - maxRemembered; over > 0 {
		oldest := slices.SortedFunc(maps.Keys(next.Resolved), func(a, b string) int {
			return cmp.Or(next.Resolved[a].Compare(next.Resolved[b]), cmp.Compare(a, b))
		})
		for _, stream := range oldest[:over] {
			delete(next.Resolved, stream)
		}
	}
	raw, err := json.Marshal(next, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := a.cfg.Cursor.Save(raw); err != nil {
		return err
	}
	a.state = *next
	return nil
}
