package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/eventstest"
	"assay/events/publish"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/ui"
	"assay/projector/view"
	"assay/resolver/criterion"
)

// pagesHouse is a running ledger with its pages: a prediction that real telemetry
// refuted, one that waits, and events with hostile text wherever the schema lets it.
type pagesHouse struct {
	t      *testing.T
	dir    Dir
	up     *Up
	source *UISource
	url    string // of the pages
	key    string
	client *http.Client
	sent   map[string]*publish.Client // by principal
}

const (
	pagesEpisode = "episode-pages"
	pagesPred    = "pred-refuted"
)

func newPagesHouse(t *testing.T) *pagesHouse {
	t.Helper()
	h := &pagesHouse{t: t, dir: Dir(filepath.Join(t.TempDir(), "ledger")), key: "a-key-of-the-test", sent: map[string]*publish.Client{}}
	every := 250 * time.Millisecond
	reg, err := criterion.DefaultRegistry(every)
	check(t, err)
	check(t, os.MkdirAll(string(h.dir), 0o700))
	check(t, os.WriteFile(h.dir.Registry(), reg, 0o600))
	_, err = Init(t.Context(), InitConfig{Dir: h.dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"})
	check(t, err)
	h.up, err = StartUp(t.Context(), UpConfig{Dir: h.dir, Software: "test", Sensor: every, Seal: time.Second, Watch: []int{os.Getpid()}, Log: zerolog.Nop()})
	check(t, err)
	t.Cleanup(func() { check(t, h.up.Stop()) })
	h.incident()
	h.serve()
	return h
}

// serve serves the pages of the ledger.
func (h *pagesHouse) serve() {
	t := h.t
	t.Helper()
	e, err := OpenEvidence(t.Context(), EvidenceConfig{Dir: h.dir})
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	h.source, err = OpenUISource(t.Context(), h.dir, e, zerolog.Nop())
	check(t, err)
	t.Cleanup(h.source.Close)
	reports := t.TempDir()
	check(t, os.WriteFile(filepath.Join(reports, "2026-W48.html"), []byte(`<!doctype html><title>report</title><p>Week</p><script>document.title="hacked"</script>`), 0o600))
	check(t, os.WriteFile(filepath.Join(reports, "2026-W48.json"), []byte(`{}`), 0o600))
	check(t, os.Symlink(h.dir.Registry(), filepath.Join(reports, "out.json")))
	srv := httptest.NewUnstartedServer(nil)
	handler, err := ui.New(ui.Config{Source: h.source, Addr: srv.Listener.Addr().String(), Key: h.key, Reports: reports, Log: zerolog.New(zerolog.NewTestWriter(t))})
	check(t, err)
	srv.Config.Handler = handler
	srv.Start()
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections) // live rows go on for ever
	h.url = srv.URL
	jar, err := cookiejar.New(nil)
	check(t, err)
	h.client = &http.Client{Jar: jar}
	if status, _ := h.get("/?key=" + h.key); status != http.StatusOK {
		t.Fatalf("the key does not open the pages: %d", status)
	}
}

func (h *pagesHouse) get(path string) (status int, body string) {
	h.t.Helper()
	resp, err := h.client.Get(h.url + path)
	check(h.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check(h.t, err)
	return resp.StatusCode, string(raw)
}

// page is a page that is there, once its figures are counted.
func (h *pagesHouse) page(path string) (body string) {
	h.t.Helper()
	eventually(h.t, path+" is whole", func() bool {
		var status int
		if status, body = h.get(path); status != http.StatusOK {
			h.t.Fatalf("%s: %d %s", path, status, body)
		}
		return !strings.Contains(body, `http-equiv="refresh"`)
	})
	return body
}

func (h *pagesHouse) publish(who string, raw []byte) (publish.Receipt, error) {
	h.t.Helper()
	if h.sent[who] == nil {
		nc, err := h.up.Hub.Connect(userOf(who))
		check(h.t, err)
		h.t.Cleanup(nc.Close)
		h.sent[who] = publish.New(nc, who)
	}
	return h.sent[who].Publish(h.t.Context(), raw)
}

// say publishes an event of the episode.
func (h *pagesHouse) say(who string, p events.Payload) publish.Receipt {
	h.t.Helper()
	ev, err := events.Maker{Source: "urn:test"}.New(p)
	check(h.t, err)
	ev.EpisodeID = pagesEpisode
	raw, err := events.Encode(ev)
	check(h.t, err)
	r, err := h.publish(who, raw)
	check(h.t, err)
	return r
}

// incident is an episode of which telemetry decides a prediction: this process has
// more memory than one byte.
func (h *pagesHouse) incident() {
	t := h.t
	t.Helper()
	ptr := func(s string) *string { return &s }
	proc, err := h.up.Tele.Host.Watch(os.Getpid())
	check(t, err)
	labels := fmt.Sprintf(`{"pid":"%d","start":"%d"}`, proc.PID, proc.Start)
	ctx := events.Context{OpportunityID: ptr("opp-1")}
	h.say("detector/main", &events.OpportunityDetected{Context: ctx, OpportunityID: "opp-1", Kind: "root_cause", Component: "memory", DetectorVersion: "1", TextSpanHash: strings.Repeat("0", 64)})
	h.say("agent/piper", &events.ClaimRecorded{
		Context: ctx, ClaimID: "claim-1", Status: "hypothesis", CompetingIDs: []string{"claim-2"},
		Edge: &events.Edge{Rung: "intervention", Cause: "leak", Effect: "memory"},
	})
	h.say("agent/piper", &events.ExperimentProposed{Context: ctx, ExpID: "exp-1", Discriminates: []string{"claim-1", "claim-2"}})
	h.say("agent/piper", &events.PredictionRecorded{
		Context: ctx, PredID: pagesPred, ClaimID: ptr("claim-1"), PredictedEffect: "it stays small", P: 0.8,
		Criterion: []byte(`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"1s","length":"2s"},` +
			`"all":[{"signal":"process_rss_bytes","labels":` + labels + `,"reduce":"max","op":"<=","value":1}],"expires_after":"60s"}`),
	})
	h.say("agent/piper", &events.PredictionRecorded{
		Context: ctx, PredID: "pred-waits", PredictedEffect: "it will be killed", P: 0.5, Action: ptr("kill"),
		Criterion: []byte(`{"criterion_version":1,"action":{"tool":"kill","target":"hog","execute_by":"1h"},"window":{"anchor":"action_end","offset":"1s","length":"4s"},` +
			`"all":[{"signal":"process_up","labels":` + labels + `,"reduce":"max","op":"==","value":0}],"expires_after":"20s"}`),
	})
	eventually(t, "telemetry refutes the prediction", func() bool {
		found, err := h.find(pagesPred)
		return err == nil && len(found.Predictions) == 1 && found.Predictions[0].Resolution != nil
	})
	found, _ := h.find(pagesPred)
	if v := found.Predictions[0].Resolution.Verdict; v != view.VerdictRefuted {
		t.Fatalf("the prediction is %s", v)
	}
}

func (h *pagesHouse) find(id string) (f view.Found, err error) {
	err = h.up.Views.Runner().View(func(s *projector.State) error {
		f, err = view.Find(s, id)
		return err
	})
	return f, err
}

// settle waits until everything is signed, viewed and read by the pages' process.
func (h *pagesHouse) settle() {
	h.t.Helper()
	eventually(h.t, "the pages have everything", func() bool {
		st, err := h.source.State(h.t.Context())
		check(h.t, err)
		if st.Fault != "" {
			h.t.Fatal(st.Fault)
		}
		return st.Matched > 0 && st.Signed >= st.Head && h.up.Views.StatusOf().Seq >= st.Head
	})
}

func TestPages(t *testing.T) {
	h := newPagesHouse(t)
	h.run(t, "incident", h.testIncident)
	h.run(t, "figures", h.testFigures)
	h.run(t, "doors", h.testDoors)
	h.run(t, "proof", h.testProof)
	h.run(t, "filters", h.testFilters)
	h.run(t, "reports", h.testReports)
	h.run(t, "unsigned", h.testUnsigned)
	h.attack()
	h.settle()
	h.run(t, "hostile", h.testHostile)
	h.run(t, "browser", h.testBrowser)
}

// run is a part of the test; what h does fails that part.
func (h *pagesHouse) run(t *testing.T, name string, part func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		defer func(was *testing.T) { h.t = was }(h.t)
		h.t = t
		part(t)
	})
}

// testIncident wants the episode's page to tell the whole story, with the telemetry
// that decided it.
func (h *pagesHouse) testIncident(t *testing.T) {
	h.settle()
	body := h.page("/episodes/production/" + pagesEpisode)
	for _, want := range []string{
		"opp-1", "claim-1", "leak → memory", "claim-2", "exp-1", pagesPred, "pred-waits", "it stays small", "refuted",
		"process_rss_bytes", `class="witness"`, `class="threshold"`, `class="window"`, "The ring is the witness",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the episode's page does not say %q", want)
		}
	}
	if strings.Contains(body, "not yet signed</span>") || !strings.Contains(body, "hash to the signed root") {
		t.Error("an episode that ended before the checkpoint has rows that are not signed")
	}
	body = h.page("/predictions/production/" + pagesPred)
	if !strings.Contains(body, `class="witness"`) || !strings.Contains(body, "max &lt;= 1") {
		t.Errorf("the prediction's page: %s", body)
	}
	body = h.page("/predictions")
	if !strings.Contains(body, "pred-waits") || !strings.Contains(body, "awaits the dispatcher&#39;s kill of hog") || strings.Contains(body, pagesPred) {
		t.Errorf("open predictions: %s", body)
	}
	// What is drawn is what the resolution says.
	found, err := h.find(pagesPred)
	check(t, err)
	ev, err := h.source.Evidence(t.Context(), &found.Predictions[0].Prediction)
	check(t, err)
	w := ev.Clauses[0].Witness
	if w == nil || ev.Note != "" || ev.Missing != 0 {
		t.Fatalf("%+v", ev)
	}
	summary := found.Predictions[0].Resolution.Summary
	if said := fmt.Sprintf("witness %g at %s", w.Value, events.FormatTime(w.At)); !strings.Contains(summary, said) {
		t.Errorf("drawn: %s; resolved by: %s", said, summary)
	}
}

// testFigures holds every metric's page to explain, and calibration to the catalogue.
func (h *pagesHouse) testFigures(t *testing.T) {
	h.settle()
	for _, m := range metric.Catalogue() {
		body := h.page("/metrics/" + m.Name)
		var e *metric.Explanation
		records := 0
		err := h.up.Views.Runner().View(func(s *projector.State) (err error) {
			e, err = metric.Explain(s, m.Name, "production", metric.Options{}, func(metric.Record) error { records++; return nil })
			return err
		})
		check(t, err)
		want := "not available"
		if e.Value != nil {
			want = fmt.Sprintf(">%.6g", *e.Value)
		}
		if !strings.Contains(body, want) {
			t.Errorf("%s: the page does not say %s", m.Name, want)
		}
		if n := strings.Count(body, `<tr><th scope="row"><a href="/events/`); n != min(records, 200) {
			t.Errorf("%s: the page names %d records, explain %d", m.Name, n, records)
		}
	}
	// The one prediction with a verdict said 0.8, and was refuted.
	const row = `<tr><th scope="row">0.7–0.8</th><td class="num">1</td><td class="num">0.8</td><td class="num">0`
	if body := h.page("/calibration"); !strings.Contains(body, row) || !strings.Contains(body, `>calibration_error</a></th><td class="num">0.8</td>`) {
		t.Errorf("the calibration page does not say %s: %s", row, body)
	}
	h.page("/coverage")
	if status, _ := h.get("/metrics/none"); status != http.StatusNotFound {
		t.Errorf("an unknown metric: %d", status)
	}
	if status, _ := h.get("/metrics/brier?week=2020-W01"); status != http.StatusNotFound {
		t.Errorf("a week that was not closed: %d", status)
	}
}

// testDoors tries to get in without the key, under another name, and to write.
func (h *pagesHouse) testDoors(t *testing.T) {
	try := func(method, host, cookie, path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, nil)
		check(t, err)
		if host != "" {
			req.Host = host
		}
		if cookie != "" {
			u, _ := url.Parse(h.url)
			req.Header.Set("Cookie", "assay-ui-"+u.Port()+"="+cookie)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		check(t, err)
		resp.Body.Close()
		return resp
	}
	port := h.url[strings.LastIndex(h.url, ":"):]
	for _, tt := range []struct {
		method, host, cookie, path string
		want                       int
	}{
		{"GET", "", h.key, "/", 200},
		{"HEAD", "", h.key, "/events", 200},
		{"GET", "localhost" + port, h.key, "/", 200},
		{"GET", "", "", "/", 403},
		{"GET", "", "", "/static/style.css", 403},
		{"GET", "", "wrong", "/events", 403},
		{"GET", "", "", "/?key=wrong", 403},
		{"GET", "", "", "/events?key=" + h.key, 403},
		{"GET", "", "", "/?key=" + h.key, 303},
		{"GET", "evil.example" + port, h.key, "/", 421},
		{"GET", "127.0.0.1", h.key, "/", 421},
		{"GET", "127.0.0.1.evil.example" + port, h.key, "/?key=" + h.key, 421},
		{"POST", "", h.key, "/", 405},
		{"PUT", "", h.key, "/events/1", 405},
		{"DELETE", "", h.key, "/events/1", 405},
		{"OPTIONS", "", h.key, "/", 405},
		{"GET", "", h.key, "/events/0", 400},
		{"GET", "", h.key, "/events/x", 400},
		{"GET", "", h.key, "/events/99999999", 404},
		{"GET", "", h.key, "/events?before=-1", 400},
		{"GET", "", h.key, "/events/live", 400},
		{"GET", "", h.key, "/episodes?namespace=a%00b", 400},
		{"GET", "", h.key, "/episodes/production/none", 404},
		{"GET", "", h.key, "/predictions?which=all", 400},
		{"GET", "", h.key, "/nothing", 404},
	} {
		resp := try(tt.method, tt.host, tt.cookie, tt.path)
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s for %q: %d, want %d", tt.method, tt.path, tt.host, resp.StatusCode, tt.want)
		}
		if p := resp.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: policy %q", tt.path, p)
		}
	}
	c := try("GET", "", "", "/?key="+h.key).Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %+v", c)
	}
}

// testProof downloads bytes and proof and checks them as somebody else would.
func (h *pagesHouse) testProof(t *testing.T) {
	h.settle()
	key, err := LoadKey(AnchorConfig{Dir: h.dir})
	check(t, err)
	st, err := h.source.State(t.Context())
	check(t, err)
	for _, seq := range []ledger.Seq{1, 2, st.Matched} {
		status, raw := h.get(fmt.Sprintf("/events/%d/proof", seq))
		if status != http.StatusOK {
			t.Fatalf("proof of %d: %d %s", seq, status, raw)
		}
		p, err := ledger.ParseInclusionProof([]byte(raw))
		check(t, err)
		_, rec, err := p.Check(key)
		check(t, err)
		_, body := h.get(fmt.Sprintf("/events/%d/body", seq))
		if rec.Seq != seq || !bytes.Equal(rec.Body, []byte(body)) {
			t.Errorf("the proof of %d is of record %d", seq, rec.Seq)
		}
		page := h.page(fmt.Sprintf("/events/%d", seq))
		if !strings.Contains(page, ledger.Leaf([]byte(body)).String()) || !strings.Contains(page, rec.Principal) {
			t.Errorf("the page of %d names another leaf or principal", seq)
		}
	}
}

func (h *pagesHouse) testFilters(t *testing.T) {
	for query, want := range map[string]int{
		"type=prediction.recorded":                              2,
		"type=prediction.*&principal=agent/piper":               2,
		"principal=detector/main":                               1,
		"episode=" + pagesEpisode + "&type=claim.recorded":      1,
		"namespace=sandbox":                                     0,
		"type=claim.recorded&principal=detector/main":           0,
		"episode=" + pagesEpisode + "&type=experiment.proposed": 1,
	} {
		body := h.page("/events?" + query)
		if n := len(rows.FindAllString(body, -1)) - 1; n != max(want, 1) || (want == 0) != strings.Contains(body, `class="none"`) {
			t.Errorf("%s: %d rows, want %d", query, n, want)
		}
	}
	// Pages follow on one another.
	body := h.page("/events?before=4")
	if n := len(rows.FindAllString(body, -1)) - 1; n != 3 || !strings.Contains(body, "This is the beginning") {
		t.Errorf("the first three records: %d rows", n)
	}
}

func (h *pagesHouse) testReports(t *testing.T) {
	body := h.page("/reports")
	if !strings.Contains(body, "2026-W48.html") || strings.Contains(body, "out.json") {
		t.Errorf("reports: %s", body)
	}
	resp, err := h.client.Get(h.url + "/reports/2026-W48.html")
	check(t, err)
	resp.Body.Close()
	if p := resp.Header.Get("Content-Security-Policy"); resp.StatusCode != 200 || !strings.HasPrefix(p, "sandbox; default-src 'none'") {
		t.Errorf("report: %d, policy %q", resp.StatusCode, p)
	}
	for _, path := range []string{"/reports/out.json", "/reports/..%2fledger.html", "/reports/.html", "/reports/none.html", "/reports/x.txt"} {
		if status, _ := h.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// testUnsigned shows pages while nothing is signed any more: what came behind the last
// checkpoint is nowhere final, and a forged or foreign checkpoint counts for nothing.
func (h *pagesHouse) testUnsigned(t *testing.T) {
	h.settle()
	st, err := h.source.State(t.Context())
	check(t, err)
	old := h.source.dir
	elsewhere := Dir(t.TempDir())
	check(t, os.MkdirAll(elsewhere.Logger().Checkpoints(), 0o700))
	for _, name := range []string{old.Logger().PublicKey(), old.Logger().Latest()} {
		raw, err := os.ReadFile(name)
		check(t, err)
		rel, err := filepath.Rel(string(old), name)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(string(elsewhere), rel), raw, 0o600))
	}
	e, err := OpenEvidence(t.Context(), EvidenceConfig{Dir: old})
	check(t, err)
	defer e.Close()
	source := &UISource{dir: elsewhere, evidence: e}
	source.walk = startWalk(t.Context(), e, source.checkpoint, zerolog.Nop())
	defer source.Close()
	receipt := h.say("agent/piper", &events.GateChosen{Action: "KNOW"})
	seq := ledger.Seq(*receipt.Seq)
	now, err := source.State(t.Context())
	check(t, err)
	if now.Head < seq || now.Signed >= seq || now.Signed < st.Signed {
		t.Errorf("head %d, signed %d: record %d is behind the checkpoint of %d", now.Head, now.Signed, seq, st.Signed)
	}
	if _, err := source.Prove(t.Context(), seq); err == nil {
		t.Error("a record that is not signed is proved")
	}
	handler, err := ui.New(ui.Config{Source: source, Addr: "127.0.0.1:1"})
	check(t, err)
	show := func(path string) string {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:1"+path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	if body := show(fmt.Sprintf("/events/%d", seq)); !strings.Contains(body, "not yet signed</span>") || strings.Contains(body, "/proof") {
		t.Errorf("the page of a record that is not signed: %s", body)
	}
	if body := show("/events?type=gate.chosen"); !strings.Contains(body, fmt.Sprintf(`warn" data-seq="%d"`, seq)) {
		t.Error("its row does not say that it is not signed")
	}
	// A checkpoint that claims one record more: its signature no longer holds, and
	// nothing is final.
	latest := elsewhere.Logger().Latest()
	raw, err := os.ReadFile(latest)
	check(t, err)
	size := fmt.Sprintf("\n%d\n", st.Signed)
	check(t, os.WriteFile(latest, bytes.Replace(raw, []byte(size), fmt.Appendf(nil, "\n%d\n", st.Signed+1), 1), 0o600))
	now, err = source.State(t.Context())
	check(t, err)
	if now.Signed != 0 || now.Trouble == "" {
		t.Errorf("a forged checkpoint counts: %+v", now)
	}
	if body := show("/events"); strings.Contains(body, ">signed<") || !strings.Contains(body, "no checkpoint counts") {
		t.Error("rows are final without a checkpoint")
	}
}

// TestPagesWithoutServices shows what is on disk when nothing runs.
func TestPagesWithoutServices(t *testing.T) {
	dir := newHouse(t)
	up, err := StartUp(t.Context(), UpConfig{Dir: dir, Software: "test", Log: zerolog.Nop()})
	check(t, err)
	publishAs(t, up.Hub, "agent/piper", eventstest.Gate(t))
	eventually(t, "views", func() bool { return up.Views.StatusOf().Seq >= 3 })
	check(t, up.Stop())
	e, err := OpenEvidence(t.Context(), EvidenceConfig{Dir: dir})
	check(t, err)
	defer e.Close()
	source, err := OpenUISource(t.Context(), dir, e, zerolog.Nop())
	check(t, err)
	defer source.Close()
	handler, err := ui.New(ui.Config{Source: source, Addr: "127.0.0.1:1"})
	check(t, err)
	for path, want := range map[string]string{
		"/": "Nothing runs on this directory", "/events": "gate.chosen", "/predictions": "No resolver runs here", "/episodes": "None.",
		"/metrics/brier": "not available", "/coverage": "not available", "/events/3": "gate.chosen",
	} {
		eventually(t, path+" says "+want, func() bool {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), "GET", "http://127.0.0.1:1"+path, nil))
			return w.Code == http.StatusOK && strings.Contains(w.Body.String(), want)
		})
	}
}
