package ui

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/projector/audit"
	"assay/projector/metric"
	"assay/projector/view"
)

// labelHouse serves a session whose labels are collected.
type labelHouse struct {
	t       *testing.T
	pages   *Labelling
	written [][]byte
	failing error // of the next label
}

const labelAddr = "127.0.0.1:7778"

func newLabelHouse(t *testing.T, s *audit.Session) *labelHouse {
	t.Helper()
	h := &labelHouse{t: t}
	s.Week, s.Sample, s.Rater = "2026-W40", 5, "operator/zoe"
	s.Publish = func(_ context.Context, event []byte) (*uint64, error) {
		if h.failing != nil {
			return nil, h.failing
		}
		h.written = append(h.written, event)
		seq := uint64(100 + len(h.written))
		return &seq, nil
	}
	var err error
	if h.pages, err = NewLabelling(LabelConfig{Session: s, Addr: labelAddr, Key: "key", Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	return h
}

// do asks as a browser that has the key; change makes another request of it.
func (h *labelHouse) do(method, path string, form url.Values, change func(*http.Request)) (status int, body string, header http.Header) {
	h.t.Helper()
	r := httptest.NewRequest(method, "http://"+labelAddr+path, strings.NewReader(form.Encode()))
	r.AddCookie(&http.Cookie{Name: h.pages.door.cookie(), Value: "key"})
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+labelAddr)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.pages.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

func (h *labelHouse) get(path string) string {
	h.t.Helper()
	_, body, _ := h.do("GET", path, nil, nil)
	return body
}

func (h *labelHouse) form(answers ...string) url.Values {
	v := url.Values{"token": {h.pages.token}}
	for i := 0; i < len(answers); i += 2 {
		v.Set(answers[i], answers[i+1])
	}
	return v
}

func caseOf(kind, id string) audit.Case {
	return audit.Case{AuditCase: events.AuditCase{Kind: kind, ID: id}, Stratum: "the-stratum", Before: []audit.Fact{{Name: "asserted", Value: "before-it"}}, After: []audit.Fact{{Name: "state", Value: "what-came"}}}
}

// TestLabelsAreGuarded: nothing is written for who has no key, who comes from
// elsewhere, or who sends what is no answer; and these pages show nothing else.
func TestLabelsAreGuarded(t *testing.T) {
	h := newLabelHouse(t, &audit.Session{Set: metric.SetDetector, Cases: []audit.Case{caseOf(view.LabelTurn, "turn-1"), caseOf(view.LabelTurn, "turn-2")}})
	good := h.form("eligible", "yes", "opportunity_kind", "why")
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, tt := range []struct {
		name, method, path string
		form               url.Values
		change             func(*http.Request)
		want               int
	}{
		{"no key", "POST", "/cases/1", good, func(r *http.Request) { r.Header.Del("Cookie") }, 403},
		{"another key", "POST", "/cases/1", good, header("Cookie", h.pages.door.cookie()+"=kez"), 403},
		{"another host", "POST", "/cases/1", good, func(r *http.Request) { r.Host = "evil.example:7778" }, 421},
		{"no origin", "POST", "/cases/1", good, func(r *http.Request) { r.Header.Del("Origin") }, 403},
		{"an origin without a name", "POST", "/cases/1", good, header("Origin", "null"), 403},
		{"another origin", "POST", "/cases/1", good, header("Origin", "http://127.0.0.1:7777"), 403},
		{"another site", "POST", "/cases/1", good, header("Sec-Fetch-Site", "same-site"), 403},
		{"no token", "POST", "/cases/1", url.Values{"eligible": {"no"}}, nil, 403},
		{"another token", "POST", "/cases/1", url.Values{"token": {"x"}, "eligible": {"no"}}, nil, 403},
		{"another type", "POST", "/cases/1", good, header("Content-Type", "text/plain"), 403},
		{"too long", "POST", "/cases/1", h.form("eligible", strings.Repeat("y", maxForm)), nil, 400},
		{"put", "PUT", "/cases/1", good, nil, 405},
		{"a post elsewhere", "POST", "/", good, nil, 405},
		{"no such case", "POST", "/cases/3", good, nil, 404},
		{"no number", "POST", "/cases/0", good, nil, 404},
		{"no answer", "POST", "/cases/1", h.form(), nil, 400},
		{"an answer is missing", "POST", "/cases/1", h.form("eligible", "yes"), nil, 400},
		{"an answer to no question", "POST", "/cases/1", h.form("eligible", "no", "opportunity_kind", "why"), nil, 400},
		{"an answer that is none", "POST", "/cases/1", h.form("eligible", "maybe"), nil, 400},
		{"the ledger", "GET", "/events", nil, nil, 404},
		{"a record", "GET", "/events/1", nil, nil, 404},
	} {
		if status, body, _ := h.do(tt.method, tt.path, tt.form, tt.change); status != tt.want {
			t.Errorf("%s: %d, want %d\n%s", tt.name, status, tt.want, body)
		}
	}
	if len(h.written) > 0 {
		t.Fatalf("written: %s", h.written)
	}
	_, body, head := h.do("GET", "/cases/1", nil, nil)
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := head.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if strings.Contains(body, "the-stratum") {
		t.Errorf("the stratum is shown:\n%s", body)
	}
	// What is refused for an answer keeps the others; the whole of it is written once.
	if _, body, _ := h.do("POST", "/cases/1", h.form("eligible", "yes"), nil); !strings.Contains(body, "not answered: Which question was it?") || !strings.Contains(body, `value="yes" data-key="1" required checked`) {
		t.Error(body)
	}
	h.failing = errors.New("the broker is away")
	if status, body, _ := h.do("POST", "/cases/1", good, nil); status != 502 || !strings.Contains(body, "the label was not written: the broker is away") || !strings.Contains(body, `value="why" data-key="1" required checked`) {
		t.Error(status, body)
	}
	h.failing = nil
	status, _, head := h.do("POST", "/cases/1", good, nil)
	if status != 303 || head.Get("Location") != "/cases/2" || len(h.written) != 1 {
		t.Fatal(status, head, len(h.written))
	}
	ev, err := events.Decode(h.written[0])
	if err != nil {
		t.Fatal(err)
	}
	d := ev.Data.(*events.OpportunityLabelled)
	if !*d.Eligible || *d.OpportunityKind != "why" || d.Rater != "operator/zoe" || *d.Context.Author != "operator/zoe" || !d.Blind || *d.SampleSeq != 5 || *d.Stratum != "the-stratum" {
		t.Errorf("%s", h.written[0])
	}
	if status, _, head := h.do("POST", "/cases/1", h.form("eligible", "no"), nil); status != 303 || head.Get("Location") != "/cases/1" || len(h.written) != 1 {
		t.Error("another label of a case was written")
	}
	if body := h.get("/cases/1"); !strings.Contains(body, "has your label, record 101") || strings.Contains(body, "<form") {
		t.Error(body)
	}
}

// TestWhatFollowedComesLater: what followed is shown behind the first answer, and that
// one stands from then on.
func TestWhatFollowedComesLater(t *testing.T) {
	h := newLabelHouse(t, &audit.Session{Set: metric.SetChallenges, Cases: []audit.Case{caseOf(view.LabelChallenge, "ch-1")}})
	if body := h.get("/cases/1"); strings.Contains(body, "what-came") || strings.Contains(body, "revision_correct") || !strings.Contains(body, "before-it") || !strings.Contains(body, "ch-1") {
		t.Fatal(body)
	}
	if status, _, _ := h.do("POST", "/cases/1", h.form("revision_required", "no", "revision_correct", "yes"), nil); status != 409 {
		t.Errorf("both at once: %d", status)
	}
	if status, _, head := h.do("POST", "/cases/1", h.form("revision_required", "no"), nil); status != 303 || head.Get("Location") != "/cases/1" {
		t.Fatal(status, head)
	}
	body := h.get("/cases/1")
	if !strings.Contains(body, "what-came") || strings.Contains(body, `name="revision_required"`) || !strings.Contains(body, `name="revision_correct"`) {
		t.Fatal(body)
	}
	if status, body, _ := h.do("POST", "/cases/1", h.form("revision_required", "yes"), nil); status != 409 || !strings.Contains(body, "answer what is asked now") {
		t.Errorf("the first answer again: %d %s", status, body)
	}
	if len(h.written) > 0 {
		t.Fatal("half a label was written")
	}
	if status, _, head := h.do("POST", "/cases/1", h.form("revision_correct", "?"), nil); status != 303 || head.Get("Location") != "/" {
		t.Fatal(status, head)
	}
	ev, err := events.Decode(h.written[0])
	if err != nil {
		t.Fatal(err)
	}
	if d := ev.Data.(*events.AuditLabelled); *d.RevisionRequired || d.RevisionCorrect != nil {
		t.Errorf("%s", h.written[0])
	}
	if body := h.get("/"); !strings.Contains(body, "All cases have your label.") {
		t.Error(body)
	}
}

// TestHiddenCasesAreTheirText: of a case whose id would answer the question neither id
// nor kind is shown, and without its text it is not asked.
func TestHiddenCasesAreTheirText(t *testing.T) {
	known, lost, empty := caseOf(view.LabelOpportunity, "opp/7"), caseOf(view.LabelOpportunity, "opp-8"), caseOf(view.LabelTurn, "turn-9")
	for _, c := range []*audit.Case{&known, &lost, &empty} {
		c.Hidden, c.Before, c.After = true, nil, nil
	}
	texts := fstest.MapFS{"opp%2F7.txt": {Data: []byte("why did it\n<b>restart</b>\u202e?")}, "turn-9.txt": {}}
	h := newLabelHouse(t, &audit.Session{Set: metric.SetAbduction, Cases: []audit.Case{known, lost, empty}, Texts: texts})
	body := h.get("/cases/1")
	if !strings.Contains(body, "why did it\n&lt;b&gt;restart&lt;/b&gt;\\u202e?") || !strings.Contains(body, "<form") || strings.Contains(body, "opp") {
		t.Error(body)
	}
	for _, page := range []string{"/cases/2", "/cases/3"} {
		body = h.get(page)
		if !strings.Contains(body, audit.ErrNoText.Error()) || strings.Contains(body, "<form") || strings.Contains(body, "opp") || strings.Contains(body, "turn") {
			t.Error(body)
		}
		if status, body, _ := h.do("POST", page, h.form("abduction_warranted", "yes"), nil); status != 409 || strings.Contains(body, "opp") || len(h.written) > 0 {
			t.Error(status, body)
		}
	}
}
