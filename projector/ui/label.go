package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"assay/internal/plain"
	"assay/projector/audit"
)

// LabelConfig says whose session is served and to whom.
type LabelConfig struct {
	Session *audit.Session // the labelling's own from here on
	// Addr and Key are those of Config; without a key nobody labels.
	Addr, Key string
	// Wrote is told what came of the label of the case n, counted from 1.
	Wrote func(n int, c *audit.Case, o *audit.Outcome) error
	Log   zerolog.Logger
}

// Labelling are the pages of one rater, and the only ones that write: the cases of a
// session one by one, each with what audit.Cases leaves a rater to see. They show
// nothing else of the ledger, since what stands there answers the questions.
//
// A form is taken from a page of this process alone: it carries the token of the
// process, and its request says that it comes from these pages.
type Labelling struct {
	cfg   LabelConfig
	door  *door
	pages map[string]*template.Template
	mux   *http.ServeMux
	token string

	mu sync.Mutex // guards the session and fixed
	// fixed are, by case, the answers to the questions that are asked before what
	// followed is shown: nobody takes one back who has seen that.
	fixed map[int]map[string]string
}

// NewLabelling makes the handler.
func NewLabelling(cfg LabelConfig) (*Labelling, error) {
	if cfg.Key == "" {
		return nil, errors.New("labels need a key")
	}
	l := &Labelling{cfg: cfg, mux: http.NewServeMux(), token: rand.Text(), fixed: map[int]map[string]string{}}
	var err error
	if l.pages, err = parsePages("pages/label"); err != nil {
		return nil, err
	}
	if l.door, err = newDoor(cfg.Addr, cfg.Key); err != nil {
		return nil, err
	}
	l.mux.Handle("GET /static/", http.FileServerFS(files))
	l.mux.HandleFunc("GET /{$}", l.serveProgress)
	l.mux.HandleFunc("GET /cases/{n}", l.serveCase)
	l.mux.HandleFunc("POST /cases/{n}", l.takeAnswers)
	l.mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		l.fail(w, http.StatusNotFound, "There is no such page.")
	})
	return l, nil
}

// ServeHTTP implements http.Handler.
func (l *Labelling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.door.admits(w, r, http.MethodGet, http.MethodHead, http.MethodPost) {
		return
	}
	// Under no-referrer a browser would not say either where a form comes from.
	w.Header().Set("Referrer-Policy", "same-origin")
	l.mux.ServeHTTP(w, r)
}

// labelPage is what every page is rendered from.
type labelPage struct {
	Title          string
	Set, Week      string
	Rater          string
	Labelled, Left int
	Body           any
}

func (l *Labelling) page(title string, body any) *labelPage {
	s := l.cfg.Session
	left := s.Left()
	return &labelPage{Title: title, Set: s.Set, Week: s.Week, Rater: s.Rater, Labelled: len(s.Cases) - left, Left: left, Body: body}
}

func (l *Labelling) fail(w http.ResponseWriter, status int, why string) {
	l.mu.Lock()
	p := l.page(http.StatusText(status), why)
	l.mu.Unlock()
	render(w, l.cfg.Log, status, l.pages["error"], p)
}

// casePath is the address of the case n, counted from 1.
func casePath(n int) string { return "/cases/" + strconv.Itoa(n) }

// after is the address of the first case behind n that has no label; "" when there is
// none.
func (l *Labelling) after(n int) string {
	s := l.cfg.Session
	for i := n; i < len(s.Cases); i++ {
		if s.Mine(&s.Cases[i]) == nil {
			return casePath(i + 1)
		}
	}
	return ""
}

// progressBody is the first page: where to go on, and what was labelled.
type progressBody struct {
	Next string // address of the first case without a label; "" when all have one
	List []progress
}

type progress struct {
	N        int
	Path     string
	Labelled bool
	Seq      uint64 // record of the label; 0 where it is not known
}

func (l *Labelling) serveProgress(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	s := l.cfg.Session
	b := progressBody{Next: l.after(0)}
	for i := range s.Cases {
		p := progress{N: i + 1, Path: casePath(i + 1)}
		if v := s.Mine(&s.Cases[i]); v != nil {
			p.Labelled, p.Seq = true, uint64(v.Seq)
		}
		b.List = append(b.List, p)
	}
	p := l.page("Labels", b)
	l.mu.Unlock()
	render(w, l.cfg.Log, http.StatusOK, l.pages["progress"], p)
}

// caseBody is one case: what a rater may see now, and what she is asked now.
type caseBody struct {
	Path, Later string // addresses of this case and of the next one without a label
	Token       string
	Kind, ID    string // "" where they would answer the question
	Before      []audit.Fact
	Text        string
	// Given are answers that stand; After is what followed, once they do.
	Given []answered
	After []audit.Fact
	// Labelled says that the case has its label, of the record Seq unless that is 0.
	Labelled bool
	Seq      uint64
	Asked    []asked
	More     bool   // others are asked behind them
	Fault    string // why what was sent is no label
}

type answered struct{ Text, Answer string }

// asked is a question of a form.
type asked struct {
	audit.Question
	N       int
	Answers []answer
}

// answer is one that can be picked, by its key.
type answer struct {
	Key, Value, Text string
	Picked           bool
}

// open finds the case that is asked for; it answers itself where there is none.
func (l *Labelling) open(w http.ResponseWriter, r *http.Request) (n int, c *audit.Case) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 1 || n > len(l.cfg.Session.Cases) {
		l.fail(w, http.StatusNotFound, fmt.Sprintf("The sample has %d cases, and this is none of them.", len(l.cfg.Session.Cases)))
		return 0, nil
	}
	return n, &l.cfg.Session.Cases[n-1]
}

func (l *Labelling) serveCase(w http.ResponseWriter, r *http.Request) {
	if n, c := l.open(w, r); c != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.show(w, http.StatusOK, n, c, nil, "")
	}
}

// show answers with the page of a case, on which the sent answers are picked.
func (l *Labelling) show(w http.ResponseWriter, status, n int, c *audit.Case, sent url.Values, fault string) {
	s := l.cfg.Session
	b := caseBody{Path: casePath(n), Later: cmp.Or(l.after(n), "/"), Token: l.token, Before: c.Before, Fault: fault}
	if !c.Hidden {
		b.Kind, b.ID = c.Kind, plain.ID(c.ID)
	}
	var err error
	if b.Text, err = s.Text(c); err != nil {
		b.Fault = err.Error()
	}
	label := s.Mine(c)
	for i, q := range audit.QuestionsOf(s.Set, c.Kind) {
		stands, ok := l.fixed[n][q.Field]
		if label != nil {
			stands, ok = cmp.Or(q.Get(label), audit.Unknown), true
		}
		switch {
		case ok:
			b.Given = append(b.Given, answered{q.Text, answerText(stands)})
		case err == nil && l.asks(n, &q):
			b.Asked = append(b.Asked, askedOf(i+1, q, sent.Get(q.Field)))
		default:
			b.More = true
		}
	}
	if label != nil {
		b.Labelled, b.Seq = true, uint64(label.Seq)
	}
	if label != nil || l.fixed[n] != nil {
		b.After = c.After
	}
	render(w, l.cfg.Log, status, l.pages["case"], l.page(fmt.Sprintf("Case %d of %d", n, len(s.Cases)), b))
}

// asks says whether a question is asked of a case without a label now: first those
// that what followed would answer.
func (l *Labelling) asks(n int, q *audit.Question) bool { return q.After == (l.fixed[n] != nil) }

func askedOf(n int, q audit.Question, picked string) asked {
	a := asked{Question: q, N: n}
	for i, o := range q.Options {
		a.Answers = append(a.Answers, answer{strconv.Itoa(i + 1), o, answerText(o), picked == o})
	}
	a.Answers = append(a.Answers, answer{audit.Unknown, audit.Unknown, answerText(audit.Unknown), picked == audit.Unknown})
	return a
}

func answerText(a string) string {
	if a == audit.Unknown {
		return "cannot tell"
	}
	return a
}

// maxForm is how long the answers to a case may be, in bytes.
const maxForm = 16 << 10

// takeAnswers takes the answers to what a case's page asks. The last ones make the
// label, which is written before the next case is shown.
func (l *Labelling) takeAnswers(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	switch {
	case !fromHere(r):
		l.fail(w, http.StatusForbidden, "Labels are taken from these pages alone.")
		return
	case r.ParseForm() != nil:
		l.fail(w, http.StatusBadRequest, "That is no form of these pages.")
		return
	case subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(l.token)) != 1:
		l.fail(w, http.StatusForbidden, "The page is of another start of the command: load it again.")
		return
	}
	n, c := l.open(w, r)
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.Session.Mine(c) != nil {
		http.Redirect(w, r, casePath(n), http.StatusSeeOther) // says that the first counts
		return
	}
	if status, err := l.answer(r, n, c); err != nil {
		l.show(w, status, n, c, r.PostForm, err.Error())
		return
	}
	to := casePath(n) // what followed
	if l.cfg.Session.Mine(c) != nil {
		to = cmp.Or(l.after(n), "/")
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fromHere says whether a browser sent the request from a page of the host that it
// asks.
func fromHere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") == "http://"+r.Host && (site == "" || site == "same-origin")
}

// answer adds the sent answers to those of the case, and writes the label once all of
// its questions are answered. The status is for the error.
func (l *Labelling) answer(r *http.Request, n int, c *audit.Case) (status int, err error) {
	s := l.cfg.Session
	if _, err := s.Text(c); err != nil {
		return http.StatusConflict, err
	}
	all := maps.Clone(l.fixed[n])
	if all == nil {
		all = map[string]string{}
	}
	before, more := "", false
	for _, q := range audit.QuestionsOf(s.Set, c.Kind) {
		given := r.PostForm.Get(q.Field)
		switch {
		case !l.asks(n, &q) && given != "":
			return http.StatusConflict, errors.New("these answers are to another page of this case: answer what is asked now")
		case !l.asks(n, &q):
			more = more || q.After
		case given != "":
			all[q.Field] = given
		case q.Asked(before):
			return http.StatusBadRequest, fmt.Errorf("not answered: %s", q.Text)
		}
		before = all[q.Field]
	}
	v := s.Label(c, true)
	if err := audit.Fill(v, s.Set, all); err != nil {
		return http.StatusBadRequest, err
	}
	if more {
		l.fixed[n] = all
		return http.StatusOK, nil
	}
	out, err := s.Put(context.WithoutCancel(r.Context()), c, v) // whoever leaves the page has answered
	if err != nil {
		return http.StatusBadGateway, fmt.Errorf("the label was not written: %w", err)
	}
	delete(l.fixed, n)
	if l.cfg.Wrote == nil {
		return http.StatusOK, nil
	}
	return http.StatusInternalServerError, l.cfg.Wrote(n, c, out)
}
