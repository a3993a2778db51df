package node

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
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
	"assay/schema"
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

// Hostile texts. Each could act if it were shown as it is.
const forged = `"></td></tr><tr class="forged"><th>999</th><td>signed</td></tr></table><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><style>*{display:none}</style>`

func hostileTexts() map[string][]string {
	return map[string][]string{
		"markup":     {forged, forged[:120], "<b>x</b>"},
		"template":   {"{{.State}}${hacked}javascript:window.hacked=1", "javascript:hacked"},
		"bidi":       {"safe\u202egnp.exe\u2066\u2069\u200e\u200b\ufeff", "a\u202eb"},
		"control":    {"a\x00b\x1b[2J\x07\r\u0085\u2028", "a\x1b[2Jb\u2028", "a\u2028b"},
		"homoglyphs": {"\u0430gent/\u0440iper \u2024\uff0e", "\u0440iper"},
		"long":       {strings.Repeat("W", 60000), strings.Repeat("W", 4000), strings.Repeat("W", 1000), strings.Repeat("W", 200)},
	}
}

// hostile are the examples of all event types that somebody but the logger and the
// resolver writes, with one of the texts at a time wherever the schema lets it.
func hostile(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for kind, texts := range hostileTexts() {
		for _, typ := range schema.Types() {
			example, ok := schema.Example(typ)
			if !ok {
				t.Fatalf("no example of %s", typ)
			}
			if raw, changed := poison(t, example, texts); changed {
				out[kind+" "+typ] = raw
			}
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d hostile events", len(out))
	}
	return out
}

// poison puts the first of the texts that the schema takes into each string of an
// event, the ids of events and names of members left out.
func poison(t *testing.T, raw []byte, texts []string) (out []byte, changed bool) {
	t.Helper()
	var doc map[string]any
	check(t, json.Unmarshal(raw, &doc))
	encode := func() []byte {
		b, err := json.Marshal(doc, json.Deterministic(true))
		check(t, err)
		return b
	}
	id, err := uuid.NewV7()
	check(t, err)
	doc["id"] = id.String()
	try := func(set func(string), was string) {
		for _, text := range texts {
			set(text)
			if b := encode(); len(b) < 60_500 {
				if _, fault := schema.Check(b); fault == nil {
					changed = true
					return
				}
			}
		}
		set(was)
	}
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		switch v := v.(type) {
		case string:
			try(func(s string) { set(s) }, v)
		case []any:
			for i := range v {
				walk(v[i], func(x any) { v[i] = x })
			}
		case map[string]any:
			for k := range v {
				walk(v[k], func(x any) { v[k] = x })
			}
		}
	}
	for _, member := range []string{"source", "subject", "episodeid", "causationid", "correlationid", "data"} {
		if v, ok := doc[member]; ok {
			walk(v, func(x any) { doc[member] = x })
		}
	}
	out = encode()
	if _, fault := schema.Check(out); fault != nil {
		t.Fatalf("%v: %s", fault, out)
	}
	return out, changed
}

// attack publishes all hostile events that a principal here may write.
func (h *pagesHouse) attack() (sent int) {
	h.t.Helper()
	writers := map[schema.Role]string{"agent": "agent/piper", "detector": "detector/main", "dispatcher": "dispatcher/main", "operator": "operator/main", "harness": "harness/main"}
	all := hostile(h.t)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_, typ, _ := strings.Cut(name, " ")
		if strings.HasPrefix(typ, "ledger.") || strings.HasPrefix(typ, "clock.") {
			continue // they govern the log itself
		}
		for _, role := range schema.Writers(typ) {
			who, ok := writers[role]
			if !ok {
				continue
			}
			if _, err := h.publish(who, all[name]); err == nil {
				sent++
			}
			break
		}
	}
	if sent < 150 {
		h.t.Fatalf("only %d hostile events were taken", sent)
	}
	return sent
}

var (
	hrefs = regexp.MustCompile(`(?:href|data-live)="(/[^"#]*)"`)
	tags  = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)
	rows  = regexp.MustCompile(`<tr[ >]`)
)

// crawl gets every page that others lead to, limit at most, and calls fn with each.
func (h *pagesHouse) crawl(limit int, fn func(path, body string)) (visited []string) {
	h.t.Helper()
	queue, seen := []string{"/"}, map[string]bool{"/": true}
	kinds := map[string]int{}
	for len(queue) > 0 && len(visited) < limit {
		path := queue[0]
		queue = queue[1:]
		if strings.HasPrefix(path, "/static/") || strings.HasPrefix(path, "/events/live") {
			continue
		}
		status, body := h.get(path)
		if status != http.StatusOK && status != http.StatusNotFound {
			h.t.Errorf("%s: %d %s", path, status, body)
			continue
		}
		visited = append(visited, path)
		if strings.HasSuffix(path, "/proof") || strings.HasSuffix(path, "/body") || strings.HasPrefix(path, "/reports/") {
			continue
		}
		fn(path, body)
		for _, m := range hrefs.FindAllStringSubmatch(body, -1) {
			next := html.UnescapeString(m[1])
			kind := strings.Join(strings.SplitN(next, "/", 3)[:2], "/")
			if kind, _, _ = strings.Cut(kind, "?"); seen[next] || kinds[kind] >= limit/6 {
				continue
			}
			kinds[kind]++
			seen[next] = true
			queue = append(queue, next)
		}
	}
	return visited
}

// checkInert fails where a page holds anything of what was written into events that
// acts.
func checkInert(t *testing.T, path, body string) {
	t.Helper()
	for i, r := range body {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			t.Errorf("%s holds %U: %q", path, r, body[max(0, i-40):min(len(body), i+40)])
			return
		}
	}
	if n := strings.Count(body, "<script"); n != 1 {
		t.Errorf("%s has %d scripts", path, n)
	}
	for _, tag := range tags.FindAllString(body, -1) {
		// Inside a tag of ours a text stands between quotes, its own quotes escaped.
		bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, "")
		for _, acts := range []string{"forged", "onerror", "<img", "<style", "javascript:"} {
			if strings.Contains(bare, acts) {
				t.Errorf("%s has the tag %q", path, tag)
			}
		}
		if strings.Contains(tag, `href="javascript`) || strings.Contains(tag, ` style="`) {
			t.Errorf("%s has the tag %q", path, tag)
		}
	}
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

// testHostile crawls all pages that lead to one another, over events that attack them.
func (h *pagesHouse) testHostile(t *testing.T) {
	kinds := map[string]int{}
	visited := h.crawl(360, func(path, body string) {
		checkInert(t, path, body)
		kind := strings.SplitN(path, "/", 3)[1]
		kind, _, _ = strings.Cut(kind, "?")
		kinds[kind]++
	})
	for _, kind := range []string{"", "events", "episodes", "predictions", "metrics", "find", "calibration", "coverage", "reports"} {
		if kinds[kind] == 0 {
			t.Errorf("the crawl saw no page %q: %v", kind, kinds)
		}
	}
	if len(visited) < 150 {
		t.Errorf("only %d pages", len(visited))
	}
	// The page of each record shows all of it.
	st, err := h.source.State(t.Context())
	check(t, err)
	for seq := ledger.Seq(1); seq <= st.Head; seq++ {
		path := fmt.Sprintf("/events/%d", seq)
		_, body := h.get(path)
		checkInert(t, path, body)
	}
	// A page of rows has as many as it found records, whatever they hold.
	for before := ledger.Seq(60); before < 400; before += 60 {
		body := h.page(fmt.Sprintf("/events?before=%d", before))
		if n := len(rows.FindAllString(body, -1)); n != 51 {
			t.Errorf("before %d: %d rows of 50 records and a head", before, n)
		}
	}
	// Identifiers are in ASCII, so that none looks like another.
	body := h.page("/events?type=claim.recorded")
	for _, r := range tags.ReplaceAllString(body[strings.Index(body, "<tbody>"):], "") {
		if r > 0x7f && !strings.ContainsRune("…·→", r) && !unicode.Is(unicode.Cyrillic, r) && r != '\uff0e' && r != '\u2024' {
			t.Errorf("%q", r)
		}
	}
	found := regexp.MustCompile(`<td class="nowrap"><a href="/episodes/[^"]*">([^<]*)</a>`).FindAllStringSubmatch(body, -1)
	if len(found) == 0 {
		t.Error("no episode of a hostile claim")
	}
	for _, m := range found {
		for _, r := range html.UnescapeString(m[1]) {
			if r > '~' && r != '…' {
				t.Errorf("the episode's id %q is not in ASCII", m[1])
			}
		}
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
