package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

const (
	// MaxCatchUp is how far back a Prometheus is asked for what was missed;
	// what is older stays a gap.
	MaxCatchUp = time.Hour
	// MaxAnswer is the largest answer of a Prometheus in bytes, unpacked, and
	// MaxRead how many samples all signals may have in one read. A range that
	// exceeds them is halved until it is one step.
	MaxAnswer = 16 << 20
	MaxRead   = 100_000

	maxReadSteps = 120
	queryTimeout = 30 * time.Second
)

// errTooLarge means an answer over MaxAnswer or MaxRead.
var errTooLarge = errors.New("more than the limit")

// PrometheusConfig is one prometheus source.
type PrometheusConfig struct {
	Source  criterion.Source
	Signals []criterion.Signal // of the source
	Cursor  Cursor
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// Prometheus asks a server for the registry's signals every step.
//
// A signal with a selector yields the series' stored samples with their own
// times; one with a query yields its value at each multiple of the step since
// 1970, evaluated with a lookback of less than a step. Both leave out what Prometheus
// did not scrape. A read covers (from, to] for all signals or fails as a whole,
// and then nothing of it is sent; an answer that comes with warnings may lack
// something, and so is a failure too. After a failure the same range is read
// again.
//
// Identity: the stream is made of signal and labels, the sequence number is the
// sample's time in milliseconds. The own heartbeat is 1 at each step of a range
// that was read.
type Prometheus struct {
	tally
	cfg     PrometheusConfig
	client  api.Client
	api     promapi.API
	own     string // name of the own heartbeat
	upTo    time.Time
	steps   int             // of one read
	bounded bool            // the server is known not to fill gaps
	said    map[string]bool // what was logged once
}

// NewPrometheus reads the certificates and where the last run stopped.
func NewPrometheus(cfg PrometheusConfig) (*Prometheus, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &Prometheus{cfg: cfg, own: criterion.OwnHeartbeat(cfg.Signals).Name, steps: maxReadSteps, said: map[string]bool{}}
	transport, err := newTransport(cfg.Source)
	if err != nil {
		return nil, err
	}
	p.client, err = api.NewClient(api.Config{Address: cfg.Source.URL, Client: &http.Client{
		Transport: transport,
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server redirects: give its final address")
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("prometheus source %s: %w", cfg.Source.Name, err)
	}
	p.api = promapi.NewAPI(p.client)
	return p, p.load()
}

// promCursor is what is kept between two runs.
type promCursor struct {
	V    int64     `json:"v"`
	UpTo time.Time `json:"up_to"`
}

func (p *Prometheus) load() error {
	var c promCursor
	found, err := loadState(p.cfg.Cursor, &c, &c.V, "cursor of source "+p.cfg.Source.Name, "the next read starts now")
	if found {
		p.upTo = c.UpTo.UTC()
	}
	return err
}

// Run implements Adapter.
func (p *Prometheus) Run(ctx context.Context, out Sink) error {
	step := p.cfg.Source.Step
	for {
		err := p.turn(ctx, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.cfg.Log.Warn().Err(err).Str("source", p.cfg.Source.Name).Time("up_to", p.upTo).Msg("the read failed; its range is read again")
		}
		due := p.grid(p.cfg.Now()).Add(step)
		if err := Wait(ctx, due.Add(p.cfg.Source.QueryOffset).Sub(p.cfg.Now())); err != nil {
			return err
		}
	}
}

// grid is the newest step that may be asked for at t.
func (p *Prometheus) grid(t time.Time) time.Time {
	step := int64(p.cfg.Source.Step / time.Second)
	sec := t.Add(-p.cfg.Source.QueryOffset).Unix()
	return time.Unix(sec-sec%step, 0).UTC()
}

// turn is one poll with its place in the stats.
func (p *Prometheus) turn(ctx context.Context, out Sink) error {
	err := p.poll(ctx, out)
	p.note(func(st *AdapterStats) {
		st.Error = ""
		if err != nil {
			st.Failed++
			st.Error = err.Error()
		}
	})
	return err
}

// poll reads from where the last one stopped to the newest step.
func (p *Prometheus) poll(ctx context.Context, out Sink) error {
	step := p.cfg.Source.Step
	end := p.grid(p.cfg.Now())
	switch oldest := end.Add(-MaxCatchUp); {
	case p.upTo.IsZero():
		p.upTo = end.Add(-step)
	case p.upTo.After(end.Add(step)):
		return fmt.Errorf("it was read up to %s, which this clock has not reached", p.upTo.Format(time.RFC3339))
	case p.upTo.Before(oldest):
		p.cfg.Log.Warn().Str("source", p.cfg.Source.Name).Time("from", p.upTo).Time("to", oldest).Msg("too long ago to catch up with: a gap")
		p.upTo = oldest
	}
	if err := p.checkLookback(ctx); err != nil {
		return err
	}
	for p.upTo.Before(end) {
		to := p.upTo.Add(time.Duration(p.steps) * step)
		if to.After(end) {
			to = end
		}
		samples, err := p.read(ctx, p.upTo, to)
		if errors.Is(err, errTooLarge) {
			p.note(func(st *AdapterStats) { st.Refused++ })
			if n := int(to.Sub(p.upTo) / step); n > 1 {
				p.steps = n / 2
				continue
			}
		}
		if err != nil {
			p.bounded = false // it may be another server when it is back
			return err
		}
		if err := out.Send(ctx, samples); err != nil {
			return err
		}
		p.sent(samples, p.own)
		p.upTo, p.steps = to, min(2*p.steps, maxReadSteps)
		if err := p.save(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Prometheus) save() error {
	raw, err := json.Marshal(promCursor{1, p.upTo})
	if err != nil {
		return err
	}
	return p.cfg.Cursor.Save(raw)
}

// read takes every signal's samples in (from, to], sorted by time, those of one
// step before its heartbeat.
func (p *Prometheus) read(ctx context.Context, from, to time.Time) ([]Sample, error) {
	var out []Sample
	for _, s := range p.cfg.Signals {
		if s.Name == p.own {
			continue
		}
		samples, err := p.signal(ctx, s, from, to)
		if err == nil && len(out)+len(samples) > MaxRead {
			err = fmt.Errorf("%w: over %d samples between %s and %s", errTooLarge, MaxRead, from.Format(time.RFC3339), to.Format(time.RFC3339))
		}
		if err != nil {
			return nil, fmt.Errorf("signal %s: %w", s.Name, err)
		}
		out = append(out, samples...)
	}
	stream := streamOf("prom", p.own, nil, "")
	for t := from.Add(p.cfg.Source.Step); !t.After(to); t = t.Add(p.cfg.Source.Step) {
		out = append(out, Sample{Source: p.cfg.Source.Name, Stream: stream, Seq: seqOf(t), Signal: p.own, Time: t, Value: 1})
	}
	slices.SortStableFunc(out, func(a, b Sample) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// seqOf is a sample's place in its stream; there are none before 1970.
func seqOf(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 1)) }

func (p *Prometheus) signal(ctx context.Context, s criterion.Signal, from, to time.Time) ([]Sample, error) {
	matrix, err := p.ask(ctx, s, from, to)
	if err != nil {
		return nil, err
	}
	starts, err := p.starts(ctx, s, from, to)
	if err != nil {
		return nil, err
	}
	var out []Sample
	seen := map[string]bool{}
	for _, series := range matrix {
		labels := labelsOf(series.Metric)
		if err := criterion.CheckLabels(labels); err != nil {
			p.leaveOut(s.Name, err)
			continue
		}
		if len(series.Histograms) > 0 {
			p.leaveOut(s.Name, errors.New("a histogram is no number"))
		}
		stream := streamOf("prom", s.Name, labels, "")
		if seen[stream] {
			return nil, fmt.Errorf("two series have the labels %s and differ in name alone", criterion.AppendLabels(nil, labels))
		}
		seen[stream] = true
		own := starts.of(labels)
		for _, v := range series.Values {
			t := v.Timestamp.Time().UTC()
			if !t.After(from) || t.After(to) {
				continue // some servers take the left edge in
			}
			out = append(out, Sample{
				Source: p.cfg.Source.Name, Stream: stream, Seq: seqOf(t), Signal: s.Name, Labels: labels,
				Time: t, Start: own[v.Timestamp], Value: float64(v.Value),
			})
		}
	}
	return out, nil
}

func labelsOf(m model.Metric) map[string]string {
	var out map[string]string
	for name, value := range m {
		if name == model.MetricNameLabel {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(m))
		}
		out[string(name)] = string(value)
	}
	return out
}

// leaveOut counts a series that no sample can stand for; it is said once.
func (p *Prometheus) leaveOut(signal string, why error) {
	p.note(func(st *AdapterStats) { st.LeftOut++ })
	p.say(fmt.Sprintf("signal %s: a series is left out: %v", signal, why))
}

func (p *Prometheus) say(text string) {
	const most = 1000
	if !p.said[text] && len(p.said) < most {
		p.said[text] = true
		p.cfg.Log.Warn().Str("source", p.cfg.Source.Name).Msg(text)
	}
}

// ask is one signal's answer for (from, to].
func (p *Prometheus) ask(ctx context.Context, s criterion.Signal, from, to time.Time) (model.Matrix, error) {
	if s.Selector != "" {
		return p.selector(ctx, s.Selector, from, to)
	}
	return p.matrix(ctx, func(ctx context.Context) (model.Value, promapi.Warnings, promapi.Infos, error) {
		step := p.cfg.Source.Step
		return p.api.QueryRange(ctx, s.Query, promapi.Range{Start: from.Add(step), End: to, Step: step}, promapi.WithLookbackDelta(p.lookback()))
	})
}

// lookback is how old a sample may be that a query evaluates: less than a step,
// as some servers take in one that is exactly as old.
func (p *Prometheus) lookback() time.Duration { return p.cfg.Source.Step - time.Millisecond }

// selector asks for stored samples, which PromQL calls a range vector.
func (p *Prometheus) selector(ctx context.Context, selector string, from, to time.Time) (model.Matrix, error) {
	query := fmt.Sprintf("%s[%ds]", selector, to.Sub(from)/time.Second)
	return p.matrix(ctx, func(ctx context.Context) (model.Value, promapi.Warnings, promapi.Infos, error) {
		return p.api.Query(ctx, query, to)
	})
}

func (p *Prometheus) matrix(ctx context.Context, query func(context.Context) (model.Value, promapi.Warnings, promapi.Infos, error)) (model.Matrix, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, warnings, infos, err := query(ctx)
	if n := len(warnings) + len(infos); n > 0 {
		p.note(func(st *AdapterStats) { st.Warnings += uint64(n) })
	}
	for _, info := range infos {
		p.say("the server remarks: " + info)
	}
	if err != nil {
		return nil, err
	}
	if len(warnings) > 0 {
		return nil, fmt.Errorf("the answer may lack something: %s", strings.Join(warnings, "; "))
	}
	m, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("the answer is a %s, not series over time", value.Type())
	}
	return m, nil
}

// startSeries are the start times of one signal's counters.
type startSeries []struct {
	labels map[string]string
	at     map[model.Time]time.Time
}

func (p *Prometheus) starts(ctx context.Context, s criterion.Signal, from, to time.Time) (startSeries, error) {
	if s.Start == "" {
		return nil, nil
	}
	m, err := p.selector(ctx, s.Start, from, to)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	out := make(startSeries, len(m))
	for i, series := range m {
		out[i].labels, out[i].at = labelsOf(series.Metric), make(map[model.Time]time.Time, len(series.Values))
		for _, v := range series.Values {
			// Also false for NaN. A counter cannot count before it starts.
			if sec := float64(v.Value); sec > 0 && sec*1e3 <= float64(v.Timestamp) {
				out[i].at[v.Timestamp] = time.UnixMicro(int64(math.Round(sec * 1e6))).UTC()
			}
		}
	}
	return out, nil
}

// of are the start times, by the time of the sample that they were scraped
// with, of the counter with these labels: those of the one series whose every
// label it shares. With none or with several its start is unknown.
func (s startSeries) of(labels map[string]string) map[model.Time]time.Time {
	var found map[model.Time]time.Time
	for _, series := range s {
		if !includes(labels, series.labels) {
			continue
		}
		if found != nil {
			return nil
		}
		found = series.at
	}
	return found
}

// includes says whether labels has all of part.
func includes(labels, part map[string]string) bool {
	for name, value := range part {
		if have, ok := labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// checkLookback sees that a query does not fill gaps: unless told otherwise a
// server repeats a series' last value for five minutes after its own death, and
// versions before 2.44 pass over the request to do so for one step alone.
func (p *Prometheus) checkLookback(ctx context.Context) error {
	if p.bounded || !slices.ContainsFunc(p.cfg.Signals, func(s criterion.Signal) bool { return s.Query != "" }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	u := p.client.URL("/api/v1/query", nil)
	u.RawQuery = "query=1&lookback_delta=none"
	req, err := http.NewRequest(http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, _, err := p.client.Do(ctx, req)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusBadRequest: // it reads the parameter
		p.bounded = true
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	flags, err := p.api.Flags(ctx)
	if err != nil {
		return fmt.Errorf("ask for the server's lookback: %w", err)
	}
	lookback, err := model.ParseDuration(cmp.Or(flags["query.lookback-delta"], "5m"))
	if err != nil || time.Duration(lookback) > p.lookback() {
		return fmt.Errorf("the server would fill gaps of up to %v: use Prometheus 2.44 or later, start it with --query.lookback-delta=%v, or use selectors and recording rules in place of queries",
			lookback, model.Duration(p.lookback()))
	}
	p.bounded = true
	return nil
}
