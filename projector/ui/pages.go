package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/plain"
	"assay/ledger"
	"assay/projector/metric"
	"assay/projector/view"
)

const (
	pageRows   = 50   // rows of a page
	searchRows = 4096 // records that a filter looks at before it asks to go on
)

func (s *Server) routes() {
	s.view("/{$}", "ledger", s.ledgerPage)
	s.view("/events", "events", s.eventsPage)
	s.mux.HandleFunc("GET /events/live", s.serveLive)
	s.view("/events/{seq}", "event", s.eventPage)
	s.mux.HandleFunc("GET /events/{seq}/body", s.serveBody)
	s.mux.HandleFunc("GET /events/{seq}/proof", s.serveProof)
	s.view("/find", "find", s.findPage)
	s.view("/episodes", "episodes", s.episodesPage)
	s.view("/episodes/{namespace}/{id}", "episode", s.episodePage)
	s.view("/predictions", "predictions", s.predictionsPage)
	s.view("/predictions/{namespace}/{id}", "prediction", s.predictionPage)
	s.view("/calibration", "calibration", s.calibrationPage)
	s.view("/coverage", "coverage", s.coveragePage)
	s.view("/metrics", "metrics", s.metricsPage)
	s.view("/metrics/{name}", "metric", s.metricPage)
	s.view("/reports", "reports", s.reportsPage)
	s.mux.HandleFunc("GET /reports/{file}", s.serveReport)
	s.view("/", "error", func(_ context.Context, r *http.Request, _ *page) error {
		return fmt.Errorf("%w: there is no page %s", ErrNotFound, r.URL.Path)
	})
}

// namespaceOf is the namespace that a page is asked for.
func namespaceOf(r *http.Request) (string, error) {
	ns := r.URL.Query().Get("namespace")
	if ns == "" {
		return metric.DefaultNamespace, nil
	}
	if !ledger.IsNamespace(ns) {
		return "", bad("%q is no namespace", plain.ID(ns))
	}
	return ns, nil
}

// seqOf reads a record's number.
func seqOf(text string) (ledger.Seq, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, bad("%q is no number of a record", plain.ID(text))
	}
	return ledger.Seq(n), nil
}

// ledgerBody is the first page.
type ledgerBody struct {
	Services []Service
	Rows     []Row
}

func (s *Server) ledgerPage(ctx context.Context, _ *http.Request, p *page) (err error) {
	p.Title = "Ledger"
	var b ledgerBody
	if b.Services, err = s.source.Services(ctx); err != nil {
		return err
	}
	if b.Rows, _, err = s.rows(ctx, p.State.Head+1, Filter{}, 12, searchRows); err != nil {
		return err
	}
	p.Body = b
	return nil
}

func (s *Server) rows(ctx context.Context, before ledger.Seq, f Filter, want, budget int) (rows []Row, from ledger.Seq, err error) {
	found, from, err := Latest(ctx, s.source.Read, before, f, want, budget)
	for _, m := range found {
		rows = append(rows, RowOf(m.Seq, m.Body))
	}
	return rows, from, err
}

// eventsBody is a page of records, the newest first.
type eventsBody struct {
	Filter Filter
	Rows   []Row
	Newest bool // it begins at the head, so that new rows belong above it
	// Older is the address of what comes before, "" at the beginning, and From the
	// first record that was looked at.
	Older string
	From  ledger.Seq
	Live  string // address of the live rows
}

func (s *Server) eventsPage(ctx context.Context, r *http.Request, p *page) (err error) {
	p.Title = "Events"
	b := eventsBody{Filter: filterOf(r.URL.Query()), Newest: true}
	before := p.State.Head + 1
	if text := r.URL.Query().Get("before"); text != "" {
		if before, err = seqOf(text); err != nil {
			return err
		}
		before, b.Newest = min(before, p.State.Head+1), false
	}
	if b.Rows, b.From, err = s.rows(ctx, before, b.Filter, pageRows, searchRows); err != nil {
		return err
	}
	if b.From > 1 {
		v := b.Filter.values()
		v.Set("before", strconv.FormatUint(uint64(b.From), 10))
		b.Older = "/events?" + v.Encode()
	}
	v := b.Filter.values()
	v.Set("after", strconv.FormatUint(uint64(p.State.Head), 10))
	b.Live = "/events/live?" + v.Encode()
	p.Body = b
	return nil
}

// eventBody is one record.
type eventBody struct {
	Row
	Leaf, Prev        string
	EventID, Time     string
	Causation, Source string
	DataRef           string
	Version           int
	Body              string // the stored bytes
	Pretty            string // the event, indented
	Size              int
}

// message reads one stored message.
func (s *Server) message(ctx context.Context, text string) (seq ledger.Seq, body []byte, err error) {
	if seq, err = seqOf(text); err != nil {
		return seq, nil, err
	}
	err = s.source.Read(ctx, seq, seq, func(at ledger.Seq, b []byte) error {
		if at == seq {
			body = b
		}
		return nil
	})
	if err == nil && body == nil {
		err = fmt.Errorf("%w: the ledger holds no record %d", ErrNotFound, seq)
	}
	return seq, body, err
}

func (s *Server) eventPage(ctx context.Context, r *http.Request, p *page) error {
	seq, body, err := s.message(ctx, r.PathValue("seq"))
	if err != nil {
		return err
	}
	m := parse(seq, body)
	b := eventBody{Row: m.row(body), Leaf: ledger.Leaf(body).String(), Body: string(body), Size: len(body)}
	if m.err == nil {
		b.Prev = m.rec.Prev.String()
		pretty := jsontext.Value(bytes.Clone(m.rec.Event))
		if pretty.Indent(jsontext.WithIndent("  ")) == nil {
			b.Pretty = string(pretty)
		}
	}
	if e := m.event; e != nil {
		b.EventID, b.Time, b.Causation, b.Source, b.DataRef, b.Version = e.ID, e.Time, e.CausationID, e.Source, e.DataRef, e.Version
	}
	p.Title, p.Body = fmt.Sprintf("Record %d", seq), b
	return nil
}

// serveBody gives the stored bytes, of which the leaf is the hash.
func (s *Server) serveBody(w http.ResponseWriter, r *http.Request) {
	seq, body, err := s.message(r.Context(), r.PathValue("seq"))
	download(w, fmt.Sprintf("%d.record", seq), body, err)
}

func (s *Server) serveProof(w http.ResponseWriter, r *http.Request) {
	seq, err := seqOf(r.PathValue("seq"))
	var proof []byte
	if err == nil {
		proof, err = s.source.Prove(r.Context(), seq)
	}
	download(w, fmt.Sprintf("%d.tlog-proof", seq), proof, err)
}

func download(w http.ResponseWriter, name string, body []byte, err error) {
	if err != nil {
		http.Error(w, plain.Text(err.Error()), statusOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(body)
}

// findBody says what an identifier names.
type findBody struct {
	ID    string
	Links []link
}

// link leads to a page.
type link struct{ Kind, Text, To string }

// findPage looks an identifier up; a number is a record, and what names one thing
// leads straight to it.
func (s *Server) findPage(ctx context.Context, r *http.Request, p *page) error {
	id := strings.TrimSpace(r.URL.Query().Get("id"))
	b := findBody{ID: id}
	p.Title = "Find"
	p.Body = &b
	if id == "" {
		return nil
	}
	if seq, err := seqOf(id); err == nil {
		b.Links = append(b.Links, link{"record", id, eventPath(seq)})
	}
	f, err := s.source.Find(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	b.Links = append(b.Links, linksOf(&f)...)
	return nil
}

func eventPath(seq ledger.Seq) string { return "/events/" + strconv.FormatUint(uint64(seq), 10) }

func pathOf(kind, namespace, id string) string {
	return "/" + kind + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(id)
}

// linksOf are the pages of what was found. What has none of its own is shown by its
// record.
func linksOf(f *view.Found) (out []link) {
	add := func(kind, namespace, id string, seq ledger.Seq) {
		out = append(out, link{kind, plain.ID(id) + " in " + plain.ID(namespace), eventPath(seq)})
	}
	for _, seq := range f.Events {
		out = append(out, link{"event", fmt.Sprintf("record %d", seq), eventPath(seq)})
	}
	for _, v := range f.Predictions {
		out = append(out, link{"prediction", plain.ID(v.PredID) + " in " + plain.ID(v.Namespace), pathOf("predictions", v.Namespace, v.PredID)})
	}
	for _, v := range f.Claims {
		add("claim", v.Namespace, v.ClaimID, v.Seq)
	}
	for _, v := range f.Opportunities {
		add("opportunity", v.Namespace, v.OpportunityID, v.Seq)
	}
	for _, v := range f.Hypotheses {
		add("hypotheses", v.Namespace, v.SetID, v.Seq)
	}
	for _, v := range f.Experiments {
		if v.Proposed != nil {
			add("experiment", v.Namespace, v.ExpID, v.Proposed.Seq)
		}
	}
	for _, v := range f.ToolCalls {
		for _, c := range []*view.Call{v.Observed, v.SelfReported} {
			if c != nil {
				add("tool call", v.Namespace, v.ToolCallID, c.Seq)
			}
		}
	}
	return out
}

// episodesBody is a page of episodes in the order of their ids.
type episodesBody struct {
	Namespace string
	After     string
	List      []view.Episode
	Next      string // address of the next page
}

func (s *Server) episodesPage(ctx context.Context, r *http.Request, p *page) (err error) {
	p.Title = "Episodes"
	b := episodesBody{After: r.URL.Query().Get("after")}
	if b.Namespace, err = namespaceOf(r); err != nil {
		return err
	}
	in := r.URL.Query().Get("in") // which After is of: b.Namespace, or what was imported into it
	if view.RecordedIn(in) != b.Namespace {
		in = b.Namespace
	}
	var more bool
	if b.List, more, err = s.source.Episodes(ctx, in, b.After, pageRows); err != nil {
		return err
	}
	if n := len(b.List); more && n > 0 {
		last := &b.List[n-1]
		b.Next = "/episodes?" + url.Values{"namespace": {b.Namespace}, "in": {last.Namespace}, "after": {last.EpisodeID}}.Encode()
	}
	p.Body = b
	return nil
}

// predictionsBody is a page of predictions that wait.
type predictionsBody struct {
	Which Work
	*WorkList
	Next string
	// Absent says that no resolver runs, which alone knows why they wait.
	Absent bool
}

func (s *Server) predictionsPage(ctx context.Context, r *http.Request, p *page) (err error) {
	p.Title = "Open predictions"
	b := predictionsBody{Which: Work(r.URL.Query().Get("which"))}
	switch b.Which {
	case "":
		b.Which = WorkOpen
	case WorkOpen, WorkDue, WorkUnresolved:
	default:
		return bad("there is no list %q of predictions", plain.ID(string(b.Which)))
	}
	var after ledger.Seq
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = seqOf(text); err != nil {
			return err
		}
	}
	b.WorkList, err = s.source.Waiting(ctx, b.Which, after, pageRows)
	if errors.Is(err, ErrNotServed) {
		b.Absent, err = true, nil
	}
	if err != nil {
		return err
	}
	if !b.Absent && b.More && len(b.Items) > 0 {
		last := b.Items[len(b.Items)-1].Seq
		b.Next = "/predictions?" + url.Values{"which": {string(b.Which)}, "after": {strconv.FormatUint(uint64(last), 10)}}.Encode()
	}
	p.Body = b
	return nil
}

// scoreBody is a page of figures of a namespace.
type scoreBody struct {
	Namespace   string
	Score       *metric.Score // nil while it is counted
	Reliability *reliability  // of the calibration page, nil while it is counted
	Explained   []*Explained  // by the metrics of the page
}

// calibrationMetrics and coverageMetrics are shown with their intervals beside the
// score.
var (
	calibrationMetrics = []string{"brier", "calibration_error", "overconfidence", "confirmed_share", "scorable_share", "prediction_resolution_coverage"}
	coverageMetrics    = []string{"prediction_resolution_coverage", "claim_resolution_coverage", "routing_rate", "join_coverage", "capture_coverage", "unresolved_prediction_age", "unresolved_claim_age"}
)

func (s *Server) calibrationPage(_ context.Context, r *http.Request, p *page) error {
	p.Title = "Calibration"
	b, err := s.score(r, p, calibrationMetrics)
	if err != nil {
		return err
	}
	stated, ok, err := s.explain(p.wait, "stated_probability", b.Namespace, "", 0)
	if err != nil {
		return err
	}
	observed, both, err := s.explain(p.wait, "observed_share", b.Namespace, "", 0)
	if err != nil {
		return err
	}
	if !ok || !both {
		p.Refresh = true
		return nil
	}
	b.Reliability = &reliability{stated, observed}
	return nil
}

// reliability is what a reliability diagram is of. Each was counted at its own record.
type reliability struct{ Stated, Observed *Explained }

// Bins are those of the diagram.
func (r *reliability) Bins() []metric.Bin {
	return metric.Reliability(r.Stated.Explanation, r.Observed.Explanation)
}

func (s *Server) coveragePage(_ context.Context, r *http.Request, p *page) error {
	p.Title = "Coverage"
	_, err := s.score(r, p, coverageMetrics)
	return err
}

func (s *Server) score(r *http.Request, p *page, names []string) (*scoreBody, error) {
	b := &scoreBody{}
	p.Body = b
	var err error
	if b.Namespace, err = namespaceOf(r); err != nil {
		return nil, err
	}
	score, ok, err := get(p.wait, &s.figures, "score "+b.Namespace, func(ctx context.Context) (*metric.Score, error) {
		return s.source.Score(ctx, b.Namespace)
	})
	if err != nil {
		return nil, err
	}
	b.Score, p.Refresh = score, !ok
	for _, name := range names {
		e, ok, err := s.explain(p.wait, name, b.Namespace, "", 0)
		if err != nil {
			return nil, err
		}
		if p.Refresh = p.Refresh || !ok; ok {
			b.Explained = append(b.Explained, e)
		}
	}
	return b, nil
}

func (s *Server) explain(wait context.Context, name, namespace, week string, limit int) (*Explained, bool, error) {
	key := fmt.Sprintf("explain %s %s %s %d", name, namespace, week, limit)
	return get(wait, &s.figures, key, func(ctx context.Context) (*Explained, error) {
		return s.source.Explain(ctx, name, namespace, metric.Options{Week: week}, limit)
	})
}

func (s *Server) metricsPage(_ context.Context, _ *http.Request, p *page) error {
	p.Title, p.Body = "Metrics", metric.Catalogue()
	return nil
}

// metricBody is a metric with the records behind it.
type metricBody struct {
	Metric          *metric.Metric
	Namespace, Week string
	Weeks           []string   // that are closed, the last first
	Explained       *Explained // nil while it is counted
}

// metricRecords is how many records a metric's page names.
const metricRecords = 200

func (s *Server) metricPage(ctx context.Context, r *http.Request, p *page) error {
	m, err := metric.Find(r.PathValue("name"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	b := metricBody{Metric: m, Week: r.URL.Query().Get("week")}
	if b.Namespace, err = namespaceOf(r); err != nil {
		return err
	}
	weeks, err := s.source.Weeks(ctx)
	if err != nil {
		return err
	}
	for _, w := range slices.Backward(weeks) {
		b.Weeks = append(b.Weeks, w.Week)
	}
	if b.Week != "" && !slices.Contains(b.Weeks, b.Week) {
		return fmt.Errorf("%w: the ledger has closed no week %s", ErrNotFound, plain.ID(b.Week))
	}
	e, ok, err := s.explain(p.wait, m.Name, b.Namespace, b.Week, metricRecords)
	if err != nil {
		return err
	}
	b.Explained, p.Refresh = e, !ok
	p.Title, p.Body = "Metric "+m.Name, b
	return nil
}

// Report is a file of the directory of reports.
type reportFile struct {
	Name string
	Size int64
}

// reportName is what a report's file is called: nothing that leads elsewhere.
var reportName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*\.(html|md|json)$`)

// maxReports are listed, the last by name.
const maxReports = 200

func (s *Server) reportsPage(_ context.Context, _ *http.Request, p *page) error {
	p.Title = "Weekly reports"
	b := struct {
		Dir  string
		List []reportFile
		More bool
	}{Dir: s.cfg.Reports}
	p.Body = &b
	if b.Dir == "" {
		return nil
	}
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(entries) {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !reportName.MatchString(e.Name()) {
			continue
		}
		if b.More = len(b.List) == maxReports; b.More {
			break
		}
		b.List = append(b.List, reportFile{e.Name(), info.Size()})
	}
	return nil
}

// serveReport gives a report: HTML in a sandbox, the others to be saved.
func (s *Server) serveReport(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if s.cfg.Reports == "" || !reportName.MatchString(name) {
		http.Error(w, "there is no such report", http.StatusNotFound)
		return
	}
	root, err := os.OpenRoot(s.cfg.Reports)
	if err != nil {
		http.Error(w, "the directory of reports cannot be read", http.StatusInternalServerError)
		return
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		http.Error(w, "there is no such report", http.StatusNotFound)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.Error(w, "there is no such report", http.StatusNotFound)
		return
	}
	if filepath.Ext(name) == ".html" {
		w.Header().Set("Content-Security-Policy", sandboxed)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	}
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// sortedCounts are the entries of a map in the order of their names.
func sortedCounts(m map[string]int64) (out []Fact) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Fact{name, strconv.FormatInt(m[name], 10)})
	}
	return out
}
