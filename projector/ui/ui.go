// Package ui serves the ledger as pages: read-only, rendered on the server, for
// one operator on the same host.
//
// What agents wrote is on every page, so a page trusts none of it. Templates escape
// by context; the finished page passes plain.Text, so that no text can reorder or
// hide what stands beside it; identifiers are shown in ASCII. The
// Content-Security-Policy allows one style sheet and one script of our own and
// nothing inline, and the script sets text, never markup.
//
// Any process of the host can connect to a loopback address, an agent's too, and an
// agent must not read the ledger. A page is served only to who shows the key that
// the operator was given at the start, by the cookie that the key is exchanged for,
// and only under the name that was listened on, so that a foreign site cannot have a
// name of its own resolve to it.
//
// A page has a bound: it shows a page of rows, reads a bounded stretch of the ledger,
// and does not wait long for figures that take a pass over the views (figures).
// Nothing beyond the last checkpoint is shown as final.
package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/plain"
)

//go:embed pages static
var files embed.FS

// Config says what is served and to whom.
type Config struct {
	Source Source
	// Addr is the address that is listened on, host:port. Requests for any other
	// host are refused.
	Addr string
	// Key is the secret that opens the pages; "" serves everybody, for tests.
	Key string
	// Reports is the directory of the weekly reports, "" for none.
	Reports string
	Log     zerolog.Logger
}

// Server is the handler of all pages.
type Server struct {
	cfg     Config
	source  Source
	pages   map[string]*template.Template
	mux     *http.ServeMux
	door    *door
	figures figures
	live    chan struct{} // one for each connection that gets live rows
}

// patience is how long a page may take.
const patience = 10 * time.Second

// maxLive is how many connections get live rows at most.
const maxLive = 32

// New makes the handler.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, source: cfg.Source, mux: http.NewServeMux(), live: make(chan struct{}, maxLive)}
	var err error
	if s.pages, err = parsePages("pages"); err != nil {
		return nil, err
	}
	if s.door, err = newDoor(cfg.Addr, cfg.Key); err != nil {
		return nil, err
	}
	s.mux.Handle("GET /static/", http.FileServerFS(files))
	s.routes()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.door.admits(w, r, http.MethodGet, http.MethodHead) {
		s.mux.ServeHTTP(w, r)
	}
}

// page is what every page is rendered from.
type page struct {
	Title   string // identifiers in it are plain.ID
	Section string // of the navigation
	State   State
	Refresh bool // its figures are still being counted
	Body    any

	wait context.Context // ends when figures are waited for no longer
}

// view answers with a page: fn fills it in, and names its template.
func (s *Server) view(pattern, name string, fn func(ctx context.Context, r *http.Request, p *page) error) {
	s.mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		wait, stop := context.WithTimeout(ctx, waitFor)
		defer stop()
		p := &page{Section: name, wait: wait}
		var err error
		if p.State, err = s.source.State(ctx); err == nil {
			err = fn(ctx, r, p)
		}
		if err != nil {
			status := statusOf(err)
			p.Title, p.Body, p.Refresh = http.StatusText(status), err.Error(), false
			s.write(w, status, "error", p)
			return
		}
		s.write(w, http.StatusOK, name, p)
	})
}

func (s *Server) write(w http.ResponseWriter, status int, name string, p *page) {
	render(w, s.cfg.Log, status, s.pages[name], p)
}

// render answers with a page of the template "layout".
func render(w http.ResponseWriter, log zerolog.Logger, status int, t *template.Template, data any) {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "layout", data); err != nil {
		log.Error().Err(err).Str("page", t.Name()).Msg("render")
		http.Error(w, "this page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(plain.Text(b.String())))
}

// badRequest marks an error as the asker's.
type badRequest struct{ error }

func bad(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

func statusOf(err error) int {
	var asked badRequest
	switch {
	case errors.As(err, &asked):
		return http.StatusBadRequest
	case errors.Is(err, ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, ErrNotServed):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
