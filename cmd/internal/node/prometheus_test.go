package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/eventstest"
	"assay/events/publish"
	"assay/internal/answerkeys"
	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/projector"
	"assay/projector/view"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

// mustFind is a program that Debian packages; without it the test is skipped.
func mustFind(t *testing.T, program, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("SKIPPED: there is no %s here (Debian package %s)", program, pkg)
	}
	return path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// program is a server of others that the test starts, kills and starts again.
type program struct {
	t    *testing.T
	path string
	args []string
	url  string // answers 200 once it is ready
	cmd  *exec.Cmd
	out  bytes.Buffer
}

func (p *program) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	check(p.t, p.cmd.Start())
	exited := make(chan error, 1)
	go func() { exited <- p.cmd.Wait() }()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error means that it has ended
		<-exited
		exited <- nil
		if p.t.Failed() {
			p.t.Logf("%s\n%s", p.path, p.out.String())
		}
	})
	eventually(p.t, p.path+" answers", func() bool {
		select {
		case err := <-exited:
			exited <- nil
			p.t.Fatalf("%s ended: %v\n%s", p.path, err, p.out.String())
		default:
		}
		resp, err := http.Get(p.url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (p *program) kill() { check(p.t, p.cmd.Process.Kill()) }

// target is what the Prometheus of a test scrapes.
type target struct {
	*httptest.Server
	extra []byte // real metrics beside the test's own

	mu      sync.Mutex
	total   int
	started time.Time
	level   float64
	down    bool
	scrapes int
}

func newTarget(t *testing.T) *target {
	s := &target{started: time.Now().Add(-time.Hour), level: 50, total: 10}
	if path, ok := answerkeys.Find(t, "telemetry/node_exporter_oom_excerpt.prom"); ok {
		var err error
		s.extra, err = os.ReadFile(path)
		check(t, err)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *target) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scrapes++
	if s.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "probe_total{unit=\"x\"} %d\nprobe_level %v\nprocess_start_time_seconds %.3f\n", s.total, s.level, float64(s.started.UnixMilli())/1000)
	_, _ = w.Write(s.extra)
}

// change changes the target and waits until that was scraped n times.
func (s *target) change(t *testing.T, n int, do func()) {
	t.Helper()
	s.mu.Lock()
	do()
	from := s.scrapes
	s.mu.Unlock()
	eventually(t, "the target is scraped", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.scrapes >= from+n+1 // the first may have begun before
	})
}

func newProgram(t *testing.T, path, url string, args ...string) *program {
	p := &program{t: t, path: path, args: args, url: url}
	p.start()
	return p
}

// startPrometheus scrapes the target every second.
func startPrometheus(t *testing.T, addr, targetURL, more string) *program {
	t.Helper()
	path := mustFind(t, "prometheus", "prometheus")
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}\nscrape_configs:\n- job_name: target\n  static_configs: [{targets: [%q], labels: {instance: probe}}]\n%s",
		strings.TrimPrefix(targetURL, "http://"), more)
	file := filepath.Join(dir, "prometheus.yml")
	check(t, os.WriteFile(file, []byte(config), 0o600))
	return newProgram(t, path, "http://"+addr+"/-/ready", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--query.lookback-delta=999ms", "--rules.alert.resend-delay=1s", "--log.level=warn")
}

// signalLimits leave room for a machine that is busy with other tests.
const signalLimits = `"writer":"sensor/%s","interval":"%s","max_staleness":"20s","coverage_floor":0.4,"max_gap":"10s","allowed_lateness":"3s","max_skew":"1s","lo":0,"hi":null`

// observed is a running assay whose registry has more sources.
type observed struct {
	t    *testing.T
	dir  Dir
	up   *Up
	nc   *publish.Client
	made int
}

func observe(t *testing.T, sources, signals string, sensors ...string) *observed {
	t.Helper()
	o := &observed{t: t, dir: Dir(filepath.Join(t.TempDir(), "ledger"))}
	raw, err := criterion.DefaultRegistry(time.Second)
	check(t, err)
	text := strings.Replace(string(raw), `"signals": [`, `"sources": [`+sources+`], "signals": [`+signals+`,`, 1)
	check(t, os.MkdirAll(string(o.dir), 0o700))
	check(t, os.WriteFile(o.dir.Registry(), []byte(text), 0o600))
	_, err = Init(t.Context(), InitConfig{Dir: o.dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"})
	check(t, err)
	for _, name := range sensors {
		_, err := principal.Dir(o.dir).Add(principal.New(principal.Sensor, name, "production"))
		check(t, err)
	}
	_, err = broker.WriteConfig(string(o.dir))
	check(t, err)
	o.up, err = StartUp(t.Context(), UpConfig{Dir: o.dir, Software: "test", Seal: time.Second, Sources: true, Log: zerolog.Nop()})
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("sources %+v, ingress %+v, resolver %+v", o.up.Tele.SourcesOf(), o.up.Tele.StatusOf(), o.up.Judge.Stats())
		}
		if err := o.up.Stop(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	nc, err := o.up.Hub.Connect("agent.piper")
	check(t, err)
	t.Cleanup(nc.Close)
	o.nc = publish.New(nc, "agent/piper")
	return o
}

// predict records a prediction over a window that begins a second later, and
// returns its id and when the window ends.
func (o *observed) predict(window time.Duration, clause, expires string) (id string, end time.Time) {
	o.t.Helper()
	o.made++
	id = fmt.Sprintf("0195d3c0-0000-7000-8000-%012d", o.made)
	receipt, err := o.nc.Publish(o.t.Context(), eventstest.Encode(o.t, &events.PredictionRecorded{
		PredID: id, PredictedEffect: "as the clause says", P: 0.5,
		Criterion: fmt.Appendf(nil, `{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"1s","length":"%ds"},"all":[%s],"expires_after":%q}`,
			int(window.Seconds()), clause, expires),
	}))
	check(o.t, err)
	at, ok := events.Time(&receipt.RecordedAt)
	if !ok {
		o.t.Fatalf("receipt %+v", receipt)
	}
	return id, at.Add(time.Second + window)
}

// verdict is a prediction's verdict and reason; "" while it is open.
func (o *observed) verdict(id string) (out string) {
	o.t.Helper()
	err := o.up.Views.Runner().View(func(st *projector.State) error {
		found, err := view.FindPrediction(st, id)
		if err == nil && len(found) == 1 && found[0].Resolution != nil {
			out = found[0].Resolution.Verdict
			if r := found[0].Resolution.Reason; r != nil {
				out += " " + *r
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, projector.ErrNoState) {
		o.t.Fatal(err)
	}
	return out
}

func (o *observed) want(id, verdict string) {
	o.t.Helper()
	eventually(o.t, "prediction "+id+" is resolved", func() bool { return o.verdict(id) != "" })
	if got := o.verdict(id); got != verdict {
		o.t.Errorf("prediction %s: %q, want %q; sources %+v", id, got, verdict, o.up.Tele.SourcesOf())
	}
}

// sealed waits until the source is sealed up to a time.
func (o *observed) sealed(source string, to time.Time) {
	o.t.Helper()
	eventually(o.t, source+" is sealed", func() bool { return o.up.Judge.Stats().Watermarks[source].After(to) })
}

// TestPrometheus takes a real Prometheus through the whole path: scraped,
// queried, sealed, resolved.
func TestPrometheus(t *testing.T) {
	mustFind(t, "prometheus", "prometheus")
	t.Parallel()
	s := newTarget(t)
	addr := freeAddress(t)
	prom := startPrometheus(t, addr, s.URL, "")
	limits := fmt.Sprintf(signalLimits, "prom", "1s")
	o := observe(t, `{"name":"prom","kind":"prometheus","url":"http://`+addr+`","step":"1s","query_offset":"2s"}`,
		`{"name":"prom_up_to","source":"prom","unit":"1","kind":"gauge","heartbeat":"prom_up_to",`+limits+`},`+
			`{"name":"total","source":"prom","unit":"1","kind":"counter","heartbeat":"prom_up_to","selector":"probe_total","start":"process_start_time_seconds",`+limits+`},`+
			`{"name":"level","source":"prom","unit":"1","kind":"gauge","heartbeat":"prom_up_to","selector":"probe_level",`+limits+`},`+
			`{"name":"worst","source":"prom","unit":"1","kind":"gauge","heartbeat":"prom_up_to","query":"max(probe_level)",`+limits+`},`+
			`{"name":"oom_kills","source":"prom","unit":"1","kind":"counter","heartbeat":"prom_up_to","selector":"node_vmstat_oom_kill",`+limits+`}`, "prom")
	s.change(t, 3, func() {}) // a counter needs a sample before its window
	o.sealed("prom", time.Now())
	const (
		labels  = `"labels":{"instance":"probe","job":"target"}`
		unit    = `"labels":{"instance":"probe","job":"target","unit":"x"}`
		levelOK = `{"signal":"level",` + labels + `,"reduce":"max","op":"<=","value":60}`
	)

	grows, _ := o.predict(60*time.Second, `{"signal":"total",`+unit+`,"reduce":"increase","op":">=","value":6}`, "1m")
	stays, _ := o.predict(60*time.Second, `{"signal":"total",`+unit+`,"reduce":"increase","op":"==","value":0}`, "1m")
	low, _ := o.predict(10*time.Second, levelOK, "1m")
	worst, _ := o.predict(10*time.Second, `{"signal":"worst","reduce":"max","op":"<=","value":60}`, "1m")
	kills := ""
	if s.extra != nil {
		kills, _ = o.predict(10*time.Second, `{"signal":"oom_kills",`+labels+`,"reduce":"increase","op":"==","value":0}`, "1m")
	}
	s.change(t, 3, func() {})
	s.change(t, 2, func() { s.total += 3 })
	s.change(t, 3, func() { s.total, s.started = 1, time.Now() }) // it restarted
	s.change(t, 2, func() { s.total = 4 })
	o.want(grows, "confirmed") // 3 before and 4 after the restart
	o.want(stays, "refuted")
	o.want(low, "confirmed")
	o.want(worst, "confirmed")
	if kills != "" {
		o.want(kills, "confirmed")
	}

	// The target is down for longer than any gap may be.
	gap, _ := o.predict(30*time.Second, levelOK, "4s")
	high, _ := o.predict(60*time.Second, `{"signal":"worst","reduce":"max","op":"<=","value":60}`, "1m")
	s.change(t, 2, func() {})
	s.change(t, 12, func() { s.down = true })
	s.change(t, 1, func() { s.down = false })
	o.want(gap, "unresolved coverage_short")
	s.change(t, 2, func() { s.level = 90 })
	o.want(high, "refuted") // one sample is enough, gap or not
	s.change(t, 1, func() { s.level = 50 })

	// Prometheus is killed in the middle of a window.
	waits, end := o.predict(20*time.Second, levelOK, "1h")
	gives, _ := o.predict(20*time.Second, levelOK, "4s")
	s.change(t, 7, func() {})
	prom.kill()
	o.sealed("host", end.Add(6*time.Second))
	if at := o.up.Judge.Stats().Watermarks["prom"]; !at.Before(end) {
		t.Errorf("Prometheus is dead and sealed up to %v", at)
	}
	if got := o.verdict(waits); got != "" {
		t.Errorf("verdict %q by silence", got)
	}
	o.want(gives, "unresolved coverage_short")
	if why := o.up.Tele.ready(); len(why) == 0 {
		t.Error("with Prometheus dead the sensor is said to do its job")
	}
	prom.start()
	o.sealed("prom", end.Add(4*time.Second)) // end plus lateness, and the seal after
	if got := o.verdict(waits); got != "" {
		t.Errorf("verdict %q over a window that nobody saw the end of", got)
	}
	eventually(t, "the sensor does its job again", func() bool { return len(o.up.Tele.ready()) == 0 })
}

// history is a Sink that keeps everything.
type history struct {
	mu      sync.Mutex
	samples []telemetry.Sample
}

func (h *history) Send(_ context.Context, samples []telemetry.Sample) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples = append(h.samples, samples...)
	return nil
}

// noCursor starts at a time of its own and forgets.
type noCursor string

func (c noCursor) Load() ([]byte, error) { return []byte(c), nil }
func (c noCursor) Save([]byte) error     { return nil }

// TestPrometheusHistory reads what a real Prometheus stored, whole and again:
// gaps, special values and created series come out as they went in.
func TestPrometheusHistory(t *testing.T) {
	mustFind(t, "prometheus", "prometheus")
	tool := mustFind(t, "promtool", "prometheus")
	dir := t.TempDir()
	base := time.Now().Add(-30 * time.Minute).Truncate(time.Minute).UTC()
	minute := func(n int) int64 { return base.Add(time.Duration(n) * time.Minute).Unix() }
	text := "# TYPE level gauge\n"
	for n, v := range []string{"1", "2", "NaN", "+Inf", "", "", "7"} {
		if v != "" {
			text += fmt.Sprintf("level %s %d\n", v, minute(n))
		}
	}
	text += "# TYPE made counter\n"
	for n := range 7 {
		text += fmt.Sprintf("made_total %d %d\nmade_created %d %d\n", n, minute(n), minute(-5), minute(n))
	}
	check(t, os.WriteFile(filepath.Join(dir, "in"), []byte(text+"# EOF\n"), 0o600))
	data := filepath.Join(dir, "data")
	if out, err := exec.Command(tool, "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "in"), data).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	check(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), nil, 0o600))
	addr := freeAddress(t)
	newProgram(t, mustFind(t, "prometheus", "prometheus"), "http://"+addr+"/-/ready", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+data, "--web.listen-address="+addr, "--query.lookback-delta=59s", "--log.level=warn")

	read := func() []telemetry.Sample {
		h := &history{}
		p, err := telemetry.NewPrometheus(telemetry.PrometheusConfig{
			Source: criterion.Source{Name: "prom", URL: "http://" + addr, Step: time.Minute, QueryOffset: time.Second},
			Signals: []criterion.Signal{
				{Name: "up_to", Source: "prom", Heartbeat: "up_to"},
				{Name: "level", Source: "prom", Heartbeat: "up_to", Selector: "level"},
				{Name: "twice", Source: "prom", Heartbeat: "up_to", Query: "2 * level"},
				{Name: "made", Source: "prom", Heartbeat: "up_to", Kind: criterion.Counter, Selector: "made_total", Start: "made_created"},
			},
			Cursor: noCursor(`{"v":1,"up_to":"` + base.Add(-time.Minute).Format(time.RFC3339) + `"}`), Log: zerolog.Nop(),
		})
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx, h) }()
		eventually(t, "the history is read", func() bool { return p.Stats().UpTo.After(base.Add(10*time.Minute)) || p.Stats().Error != "" })
		cancel()
		<-done
		if why := p.Stats().Error; why != "" {
			t.Fatal(why)
		}
		return h.samples
	}
	samples := read()
	var got []string
	for _, s := range samples {
		if s.Signal == "up_to" {
			continue
		}
		text := fmt.Sprintf("%s@%v=%v", s.Signal, s.Time.Sub(base), s.Value)
		if !s.Start.IsZero() {
			text += fmt.Sprint(" since ", s.Start.Sub(base))
		}
		got = append(got, text)
	}
	var want []string
	for n, v := range []string{"1", "2", "NaN", "+Inf", "", "", "7"} {
		at := time.Duration(n) * time.Minute
		if v != "" {
			want = append(want, fmt.Sprintf("level@%v=%s", at, v))
		}
		want = append(want, fmt.Sprintf("made@%v=%d since -5m0s", at, n))
		if twice := map[string]string{"1": "2", "2": "4", "NaN": "NaN", "+Inf": "+Inf", "7": "14"}[v]; twice != "" {
			want = append(want, fmt.Sprintf("twice@%v=%s", at, twice))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	again := read()
	for i := range samples {
		if i >= len(again) || criterion.Compare(&samples[i], &again[i]) != 0 {
			t.Fatalf("read again, sample %d differs: %+v", i, samples[i])
		}
	}
}
