package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/answerkeys"
	"assay/resolver/criterion"
)

func alertSignals(lateness, maxGap time.Duration) []criterion.Signal {
	match := func(name string) map[string]string { return map[string]string{"alertname": name} }
	return []criterion.Signal{
		{Name: "up_to", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Match: match("Watchdog"), AllowedLateness: lateness, MaxGap: maxGap},
		{Name: "level", Source: "s", Kind: criterion.Event, Heartbeat: "up_to", Match: match("Level")},
		{Name: "memory", Source: "s", Kind: criterion.Event, Heartbeat: "up_to", Match: match("high_memory_load")},
	}
}

func newAlerts(w *world, cur Cursor, src criterion.Source) (*Alertmanager, error) {
	src.Name, src.Kind = "s", criterion.AlertmanagerKind
	return NewAlertmanager(AlertmanagerConfig{Source: src, Signals: alertSignals(0, 0), Cursor: cur, Now: w.clock, Log: zerolog.Nop()})
}

const never = "0001-01-01T00:00:00Z"

// firing and resolved are alerts of a payload; labels is the inside of a JSON
// object.
func firing(name, labels string, since time.Time) string {
	return fmt.Sprintf(`{"status":"firing","labels":{"alertname":%q%s},"annotations":{},"startsAt":%q,"endsAt":%q,"fingerprint":"f"}`,
		name, labels, since.Format(time.RFC3339Nano), never)
}

func resolved(name, labels string, since, until time.Time) string {
	return strings.NewReplacer(`"firing"`, `"resolved"`, never, until.Format(time.RFC3339Nano)).Replace(firing(name, labels, since))
}

func payload(group string, truncated int, alerts ...string) string {
	return fmt.Sprintf(`{"version":"4","groupKey":%q,"truncatedAlerts":%d,"status":"firing","receiver":"r","groupLabels":{},"commonLabels":{},"externalURL":"x","alerts":[%s]}`,
		group, truncated, strings.Join(alerts, ","))
}

// post sends a body and returns the status.
func post(h http.Handler, body string, header ...string) int {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// watchdog has fired ever since.
var watchdog = firing("Watchdog", "", conformanceStart.Add(-time.Hour))

func mustPost(t *testing.T, h http.Handler, body string) {
	t.Helper()
	if got := post(h, body); got != http.StatusOK {
		t.Fatalf("answered %d to %s", got, body)
	}
}

var alertmanagerConformer = conformer{
	name: "alertmanager",
	open: func(t *testing.T, w *world, cur Cursor, out Sink) (*rig, error) {
		a, err := newAlerts(w, cur, criterion.Source{})
		if err != nil {
			return nil, err
		}
		h := a.Handler(out)
		send := func(body string) error {
			if got := post(h, body); got != http.StatusOK {
				return fmt.Errorf("answered %d", got)
			}
			return nil
		}
		var waiting []string // the first is sent again until it is taken; the last one also later
		deliver := func() error {
			for {
				if err := send(waiting[0]); err != nil {
					return err
				}
				if len(waiting) == 1 {
					return nil
				}
				waiting = waiting[1:]
			}
		}
		return &rig{
			adapter: a, retell: deliver,
			tell: func(points ...point) error {
				waiting = nil
				for _, p := range points {
					labels := fmt.Sprintf(`,"series":%q`, p.series)
					al := firing("Level", labels, p.at)
					if p.value == 0 {
						al = resolved("Level", labels, p.at.Add(-5*time.Second), p.at)
					}
					waiting = append(waiting, payload("{}:{series}", 0, al))
					if p.at.After(w.now) {
						w.now = p.at
					}
				}
				return deliver()
			},
			beat: func() error { // the second lets the first go
				var err error
				for range 2 {
					w.now = w.now.Add(time.Second / 2)
					err = errors.Join(err, send(payload("{}:{}", 0, watchdog)))
				}
				return err
			},
			fail: func() error { // it fell silent, and its last word is that
				return send(`{"version":"4","alerts":`)
			},
			garble: func() error { return send(`<alert/>`) },
			flood: func() error {
				return send(payload("{}:{}", 0, firing("Level", `,"x":"`+strings.Repeat("x", MaxWebhook)+`"`, w.now)))
			},
		}, nil
	},
}

// The real payload is of an old version, whose alerts have no status.
func TestAlertmanagerRealPayload(t *testing.T) {
	raw, err := os.ReadFile(answerkeys.Need(t, "telemetry/alertmanager_webhook_firing.json"))
	mustDo(t, err)
	w, out := newWorld(t), &recorder{}
	a, err := newAlerts(w, &memoryCursor{}, criterion.Source{})
	mustDo(t, err)
	h := a.Handler(out)
	mustPost(t, h, string(raw))
	mustPost(t, h, string(raw))
	got := out.of("memory")
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	s := got[0]
	if want := time.Date(2018, 3, 7, 11, 33, 21, 873077559, time.UTC); !s.Time.Equal(want) || s.Value != 1 {
		t.Errorf("%v at %v, want 1 at %v", s.Value, s.Time, want)
	}
	if s.Labels["instance"] != "instance-with-hyphen_and_underscore" || s.Labels["alertname"] != "" || len(s.Labels) != 4 {
		t.Errorf("labels %v", s.Labels)
	}
	if len(out.of("up_to")) != 0 {
		t.Error("a heartbeat of an alert that is none")
	}
}

func TestAlertmanagerGroups(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	a, err := newAlerts(w, &memoryCursor{}, criterion.Source{})
	mustDo(t, err)
	var alerts []string
	for i := range 300 {
		alerts = append(alerts, firing("Level", fmt.Sprintf(`,"series":"%d"`, i), after(-float64(i))))
	}
	alerts = append(alerts, firing("Other", "", after(-1)), firing("Watchdog", "", after(-1)), resolved("Level", `,"series":"x"`, after(-9), after(-3)))
	w.now = after(1)
	mustPost(t, a.Handler(out), payload("g", 0, alerts...))
	if got := out.of("level"); len(got) != 301 || len(out.samples) != 301 {
		t.Errorf("%d samples", len(got))
	}
	// They come again with the heartbeat that vouches for them, were they lost.
	out.samples = nil
	w.now = after(2)
	mustPost(t, a.Handler(out), payload("watch", 0, watchdog))
	if got := out.of("level"); len(got) != 301 || len(out.samples) != 302 {
		t.Errorf("%d samples again", len(got))
	}
	if last := out.samples[len(out.samples)-1]; last.Signal != "up_to" || !last.Time.Equal(after(1)) {
		t.Errorf("the heartbeat is not last: %+v", last)
	}
	out.checkIdentities(t)
}

// An alert that fires although its end was told: the two contradict each other,
// also after a restart.
func TestAlertmanagerSilenceIsNoRecovery(t *testing.T) {
	w, out, cur := newWorld(t), &recorder{}, &memoryCursor{}
	a, err := newAlerts(w, cur, criterion.Source{})
	mustDo(t, err)
	w.now = after(100)
	mustPost(t, a.Handler(out), payload("g", 0, firing("Level", "", after(1))))
	mustPost(t, a.Handler(out), payload("g", 0, resolved("Level", "", after(1), after(50))))
	if got := out.of("level"); len(got) != 2 || got[1].Value != 0 {
		t.Fatalf("%+v", got)
	}
	if a, err = newAlerts(w, cur, criterion.Source{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustPost(t, a.Handler(out), payload("g", 0, firing("Level", "", after(1))))
	}
	got := out.of("level")
	if len(got) != 3 || !got[1].SameID(&got[2]) || got[1].Value == got[2].Value || !got[1].Time.Equal(after(50)) {
		t.Fatalf("want the end twice, with both values: %+v", got)
	}
	mustPost(t, a.Handler(out), payload("g", 0, resolved("Level", "", after(1), after(90))))
	mustPost(t, a.Handler(out), payload("g", 0, firing("Level", "", after(95))))
	if got = out.of("level"); len(got) != 5 || got[3].Value != 0 || got[4].Value != 1 || got[4].SameID(&got[0]) {
		t.Errorf("%+v", got)
	}
}

// newLateAlerts holds heartbeats back for a minute and a half.
func newLateAlerts(t *testing.T, w *world, cur Cursor) *Alertmanager {
	t.Helper()
	a, err := NewAlertmanager(AlertmanagerConfig{
		Source: criterion.Source{Name: "s", Kind: criterion.AlertmanagerKind}, Signals: alertSignals(time.Minute, 30*time.Second),
		Cursor: cur, Now: w.clock, Log: zerolog.Nop(),
	})
	mustDo(t, err)
	return a
}

// A webhook that is not whole takes the heartbeats of the lateness before it,
// and of max_gap around that; those of the start are taken too.
func TestAlertmanagerVoids(t *testing.T) {
	long := fmt.Sprintf(`,"series":%q`, strings.Repeat("x", 257))
	for _, tc := range []struct {
		name   string
		body   string
		answer int
		want   string // doubt
		told   int    // samples of level
		prep   func(*recorder)
	}{
		{name: "truncated", body: payload("g", 2, firing("Level", "", after(-5))), answer: 200, want: "left 2 alerts", told: 1},
		{name: "truncated, with the Watchdog itself", body: payload("g", 2, firing("Watchdog", "", after(-5))), answer: 200, want: "left 2 alerts"},
		{name: "an alert that no sample can stand for", answer: 200, want: "257 bytes", told: 1,
			body: payload("g", 0, firing("Level", long, after(-5)), firing("Level", "", after(-5)))},
		{name: "an alert of the future", body: payload("g", 0, resolved("Level", "", after(-5), after(900))), answer: 200, want: "ahead"},
		{name: "malformed", body: `{"version":"4"}`, answer: 400, want: "refused"},
		{name: "too large", body: strings.Repeat(" ", MaxWebhook+1), answer: 413, want: "refused"},
		{name: "not delivered", body: payload("g", 0, firing("Level", "", after(-5))), answer: 503, want: "no broker",
			prep: func(r *recorder) { r.err = errors.New("no broker") }},
		{name: "whole", body: payload("g", 0, firing("Level", "", after(-5))), answer: 200, told: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, out := newWorld(t), &recorder{}
			a := newLateAlerts(t, w, &memoryCursor{})
			beat := func(sec float64) {
				t.Helper()
				w.now = after(sec)
				mustPost(t, a.Handler(out), payload("watch", 0, firing("Watchdog", "", after(-900))))
			}
			for sec := range 11 { // 0, 20 … 200
				beat(20 * float64(sec))
			}
			if tc.prep != nil {
				tc.prep(out)
			}
			w.now = after(210)
			if got := post(a.Handler(out), tc.body); got != tc.answer {
				t.Fatalf("answered %d, want %d", got, tc.answer)
			}
			if got := a.Stats().Doubt; (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("doubt %q, want %q", got, tc.want)
			}
			if got := len(out.of("level")); got != tc.told {
				t.Errorf("%d samples, want %d", got, tc.told)
			}
			for sec := range 8 { // 220 … 360
				beat(220 + 20*float64(sec))
			}
			var got []string
			for _, s := range out.of("up_to") {
				got = append(got, fmt.Sprint(s.Time.Sub(conformanceStart).Seconds()))
			}
			want := "40 60 80 100 260"
			if tc.want == "" {
				want = "40 60 80 100 120 140 160 180 200 220 240 260"
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("heartbeats at %s, want %s", got, want)
			}
			if st := a.Stats(); st.Doubt != "" || !st.UpTo.Equal(after(260)) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// What waits when the process ends is not sent by the next one: webhooks may
// have been lost in between.
func TestAlertmanagerRestartVoids(t *testing.T) {
	w, out, cur := newWorld(t), &recorder{}, &memoryCursor{}
	watch := payload("watch", 0, firing("Watchdog", "", after(-900)))
	a := newLateAlerts(t, w, cur)
	for sec := range 11 {
		w.now = after(20 * float64(sec))
		mustPost(t, a.Handler(out), watch)
	}
	a = newLateAlerts(t, w, cur)
	for sec := range 8 {
		w.now = after(220 + 20*float64(sec))
		mustPost(t, a.Handler(out), watch)
	}
	var got []float64
	for _, s := range out.of("up_to") {
		got = append(got, s.Time.Sub(conformanceStart).Seconds())
	}
	if want := []float64{40, 60, 80, 100, 240, 260}; !slices.Equal(got, want) {
		t.Errorf("heartbeats at %v, want %v", got, want)
	}
}

const alertsRegistry = `{"v":1,"sources":[{"name":"s","kind":"alertmanager","listen":"127.0.0.1:9095"}],"signals":[
 {"name":"up_to","source":"s","unit":"1","kind":"gauge","heartbeat":"up_to","writer":"sensor/s","match":{"alertname":"Watchdog"},
  "interval":"10s","max_staleness":"5m","coverage_floor":0.8,"max_gap":"20s","allowed_lateness":"1m","max_skew":"0s"},
 {"name":"level","source":"s","unit":"1","kind":"event","heartbeat":"up_to","writer":"sensor/s","match":{"alertname":"Level"},
  "interval":"10s","max_staleness":"5m","coverage_floor":0.8,"max_gap":"30s","allowed_lateness":"0s","max_skew":"0s"}]}`

// Whatever loses an alert, no window that holds its beginning shows that none
// began, wherever its edges lie; and without the loss every such window does.
func TestAlertmanagerNoAbsenceAcrossALoss(t *testing.T) {
	reg := mustRegistry(t, alertsRegistry)
	open := func(w *world) *Alertmanager {
		a, err := NewAlertmanager(AlertmanagerConfig{
			Source: reg.Source("s"), Signals: reg.SignalsOf("s"), Cursor: &memoryCursor{}, Now: w.clock, Log: zerolog.Nop(),
		})
		mustDo(t, err)
		return a
	}
	refused := func(body string, want int) func(*world, **Alertmanager, *recorder) {
		return func(_ *world, a **Alertmanager, out *recorder) {
			if got := post((*a).Handler(out), body); got != want {
				t.Fatalf("answered %d, want %d", got, want)
			}
		}
	}
	for _, tc := range []struct {
		name string
		lose func(w *world, a **Alertmanager, out *recorder)
	}{
		{"nothing", nil},
		{"truncated", refused(payload("g", 1, firing("Other", "", after(595))), 200)},
		{"truncated, with the Watchdog itself", refused(payload("g", 1, watchdog), 200)},
		{"malformed", refused(payload("g", 0), 400)},
		{"no broker", func(w *world, a **Alertmanager, out *recorder) {
			out.err = errors.New("no broker")
			refused(payload("g", 0, firing("Level", "", after(595))), 503)(w, a, out)
		}},
		{"a restart", func(w *world, a **Alertmanager, _ *recorder) { *a = open(w) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, out := newWorld(t), &recorder{}
			w.now = after(0)
			a := open(w)
			for sec := 10; sec <= 1200; sec += 10 {
				w.now = after(float64(sec))
				mustPost(t, a.Handler(out), payload("watch", 0, watchdog))
				if sec == 600 && tc.lose != nil {
					w.now = after(600.5)
					tc.lose(w, &a, out)
				}
			}
			checkLoss(t, reg, "level", out.samples, after(540.5), after(600.5), tc.lose != nil)
			for _, from := range []float64{100, 800} {
				if !shownAbsent(reg, "level", out.samples, after(from), 2*time.Minute) {
					t.Errorf("far away, the window from %v shows no absence", from)
				}
			}
		})
	}
}

func TestAlertmanagerState(t *testing.T) {
	w, out, cur := newWorld(t), &recorder{}, &memoryCursor{}
	a, err := newAlerts(w, cur, criterion.Source{})
	mustDo(t, err)
	for i := range maxRemembered {
		a.state.Resolved[fmt.Sprint("alert", i)] = after(float64(i) / 1000)
	}
	mustPost(t, a.Handler(out), payload("one more", 0, resolved("Level", "", after(-100), after(30))))
	if _, oldest := a.state.Resolved["alert0"]; oldest || len(a.state.Resolved) != maxRemembered {
		t.Errorf("%d resolutions are kept, the oldest: %v", len(a.state.Resolved), oldest)
	}
}

func TestAlertmanagerRefuses(t *testing.T) {
	good := payload("g", 0, firing("Level", "", after(-5)))
	for _, tc := range []struct {
		name, body string
		header     []string
		want       int
	}{
		{name: "good", body: good, want: 200},
		{name: "members of another version", body: strings.Replace(good, `"version"`, `"notificationReason":"new","version"`, 1), want: 200},
		{name: "not JSON", body: `x`, want: 400},
		{name: "empty", body: ``, want: 400},
		{name: "another version", body: strings.Replace(good, `"4"`, `"5"`, 1), want: 400},
		{name: "no alerts", body: payload("g", 0), want: 400},
		{name: "no group", body: strings.Replace(good, `"groupKey":"g"`, `"groupKey":""`, 1), want: 400},
		{name: "no labels", body: strings.Replace(good, `{"alertname":"Level"}`, `{}`, 1), want: 400},
		{name: "a label twice", body: strings.Replace(good, `"alertname":"Level"`, `"alertname":"Level","alertname":"x"`, 1), want: 400},
		{name: "no start", body: strings.Replace(good, after(-5).Format(time.RFC3339Nano), never, 1), want: 400},
		{name: "a bad time", body: strings.Replace(good, never, "yesterday", 1), want: 400},
		{name: "another status", body: strings.Replace(good, `"status":"firing","labels"`, `"status":"suppressed","labels"`, 1), want: 400},
		{name: "resolved without end", body: strings.Replace(good, `"status":"firing","labels"`, `"status":"resolved","labels"`, 1), want: 400},
		{name: "resolved before it started", body: payload("g", 0, resolved("Level", "", after(-5), after(-6))), want: 400},
		{name: "too large", body: good + strings.Repeat(" ", MaxWebhook), want: 413},
		{name: "from a browser", body: good, header: []string{"Origin", "https://example.com"}, want: 403},
		{name: "with a token that nobody asked for", body: good, header: []string{"Authorization", "Bearer x"}, want: 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, out := newWorld(t), &recorder{}
			a, err := newAlerts(w, &memoryCursor{}, criterion.Source{})
			mustDo(t, err)
			if got := post(a.Handler(out), tc.body, tc.header...); got != tc.want {
				t.Errorf("answered %d, want %d", got, tc.want)
			}
			if refused := tc.want == 400 || tc.want == 413; refused != (a.Stats().Refused == 1) {
				t.Errorf("%+v", a.Stats())
			}
			if (tc.want == 200) != (len(out.samples) == 1) {
				t.Errorf("%d samples", len(out.samples))
			}
		})
	}
	t.Run("GET", func(t *testing.T) {
		a, err := newAlerts(newWorld(t), &memoryCursor{}, criterion.Source{})
		mustDo(t, err)
		rec := httptest.NewRecorder()
		a.Handler(&recorder{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		if rec.Code != http.StatusMethodNotAllowed {
			t.Errorf("answered %d", rec.Code)
		}
	})
	t.Run("token", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		mustDo(t, os.WriteFile(file, []byte("secret\n"), 0o600))
		a, err := newAlerts(newWorld(t), &memoryCursor{}, criterion.Source{TokenFile: file})
		mustDo(t, err)
		h := a.Handler(&recorder{})
		for auth, want := range map[string]int{"Bearer secret": 200, "Bearer secre": 401, "secret": 401, "": 401} {
			if got := post(h, good, "Authorization", auth); got != want {
				t.Errorf("%q: answered %d, want %d", auth, got, want)
			}
		}
		mustDo(t, os.Remove(file))
		if got := post(h, good, "Authorization", "Bearer secret"); got != http.StatusInternalServerError {
			t.Errorf("without its token it answered %d", got)
		}
		if got := a.Stats().Doubt; !strings.Contains(got, "token") {
			t.Errorf("doubt %q", got)
		}
	})
}

// Run listens where the source says, and ends with its context; a port that is
// taken ends it at once.
func TestAlertmanagerRuns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustDo(t, err)
	w, out := newWorld(t), &recorder{}
	a, err := newAlerts(w, &memoryCursor{}, criterion.Source{Listen: l.Addr().String()})
	mustDo(t, err)
	if err := a.Run(t.Context(), out); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("on a taken port: %v", err)
	}
	mustDo(t, l.Close())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, out) }()
	for {
		resp, err := http.Post("http://"+a.cfg.Source.Listen, "application/json", strings.NewReader(payload("g", 0, firing("Level", "", after(-5)))))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("answered %s", resp.Status)
			}
			break
		}
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if len(out.of("level")) != 1 {
		t.Errorf("%d samples", len(out.samples))
	}
}

// A state that cannot be saved is no success: the webhook must come again.
func TestAlertmanagerSaveFails(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	cur := &failingCursor{}
	a, err := newAlerts(w, cur, criterion.Source{})
	mustDo(t, err)
	body := payload("g", 0, resolved("Level", "", after(-5), after(-1)))
	if got := post(a.Handler(out), body); got != http.StatusServiceUnavailable {
		t.Errorf("answered %d", got)
	}
	cur.fine = true
	mustPost(t, a.Handler(out), body)
	if len(out.of("level")) != 1 || len(a.state.Resolved) != 1 {
		t.Errorf("%+v", a.state)
	}
}

type failingCursor struct {
	memoryCursor
	fine bool
}

func (c *failingCursor) Save(raw []byte) error {
	if !c.fine {
		return os.ErrPermission
	}
	return c.memoryCursor.Save(raw)
}
