package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events/publish"
	"assay/internal/blob"
	"assay/internal/otlp"
	"assay/schema"
)

const (
	codeForbidden   = "forbidden"
	codeSpoolFull   = "spool_full"
	codeRateLimited = "rate_limited"
	codeUnavailable = "unavailable"
	codeNoBlobStore = "no_blob_store"
	codeMediaType   = "unsupported_media_type"
	codeBadBody     = "bad_body"
	// fullAfter is when to ask again after a full spool, in seconds.
	fullAfter = 5
	// drain is how much of a body that is too large is read all the same.
	drain = 8 << 20
)

func (g *Gateway) routes(who whoami) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/events", g.as(who, refuseJSON, g.events))
	mux.HandleFunc("PUT /v1/blobs", g.as(who, refuseJSON, g.blob))
	mux.HandleFunc("POST "+otlp.Traces, g.as(who, refuseOTLP, g.otlp(tracesExport)))
	mux.HandleFunc("POST "+otlp.Logs, g.as(who, refuseOTLP, g.otlp(logsExport)))
	mux.HandleFunc("POST "+otlp.Metrics, g.as(who, refuseOTLP, metricsElsewhere))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, jsonType, []byte(`{"ok":true}`+"\n"))
	})
	return mux
}

// handler serves a caller, or says why it does not.
type handler func(http.ResponseWriter, *http.Request, *account) *problem

// as finds the caller before anything else is read, and has one token of its
// rate for each request. A problem is written by say, in the words of the route's
// protocol.
func (g *Gateway) as(who whoami, say func(http.ResponseWriter, *http.Request, *problem), fn handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.stats.Requests++
		g.mu.Unlock()
		a, p := who(r)
		if p == nil {
			p = a.owes(a.bucket.take(g.cfg.Now()))
		}
		if p == nil {
			p = fn(w, r, a)
		}
		if p == nil {
			return
		}
		g.count(p.refusal.Code, 1)
		unread := p.status == http.StatusRequestEntityTooLarge || p.status == http.StatusNotImplemented
		if unread && r.Header.Get("Expect") == "" {
			// Whoever is still sending does not read: let a body that is not much
			// too large pass by, so that its sender learns why.
			_, _ = io.CopyN(io.Discard, r.Body, drain)
		}
		if p.status == http.StatusForbidden || p.status == http.StatusUnauthorized {
			w.Header().Set("Connection", "close")
		}
		if p.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		setRetryAfter(w, p.refusal.RetryAfter)
		say(w, r, p)
	}
}

func refuseJSON(w http.ResponseWriter, _ *http.Request, p *problem) {
	write(w, p.status, jsonType, append(encode(publish.Answer{Refusal: &p.refusal}, nil), '\n'))
}

func (a *account) owes(wait time.Duration, paid bool) *problem {
	if paid {
		return nil
	}
	return refuseFor(http.StatusTooManyRequests, math.Max(0.001, math.Ceil(wait.Seconds()*1000)/1000), codeRateLimited,
		"%s sends more than its rate of events", a.id)
}

func (g *Gateway) events(w http.ResponseWriter, r *http.Request, a *account) *problem {
	s, p := shapeOf(r.Header)
	if p != nil {
		return p
	}
	if r.ContentLength > MaxBody {
		return tooLarge(MaxBody)
	}
	body, release, p := readBody(r.Body, MaxBody, &a.memory)
	defer release()
	if p != nil {
		return p
	}
	events, p := split(s, r.Header, body)
	if p != nil {
		return p
	}
	if len(events) > 1 {
		if p := a.owes(a.bucket.takeRest(float64(len(events)))); p != nil {
			return p
		}
	}
	answers, err := publishAll(r.Context(), a.publisher, events)
	if p := g.undelivered(answers, err); p != nil {
		return p
	}
	g.answer(w, s, events, answers)
	return nil
}

func publishAll(ctx context.Context, p Publisher, events [][]byte) ([]publish.Answer, error) {
	out := make([]publish.Answer, 0, len(events))
	for _, m := range messages(events) {
		if len(m) == 0 {
			break
		}
		answers, err := p.PublishBatch(ctx, m)
		out = append(out, answers...)
		if err != nil {
			return append(out, make([]publish.Answer, len(events)-len(out))...), err
		}
	}
	return out, nil
}

// undelivered gives events that have no answer the reason as theirs, or the
// whole request if none has one.
func (g *Gateway) undelivered(answers []publish.Answer, err error) *problem {
	if err == nil {
		return nil
	}
	var p *problem
	switch {
	case full(err):
		p = refuseFor(http.StatusServiceUnavailable, fullAfter, codeSpoolFull, "the ledger is away and this principal's spool is full: send the same events again later")
	case errors.Is(err, publish.ErrClosed):
		p = refuse(http.StatusForbidden, codeForbidden, "the broker does not let this principal in: it was revoked, or has another key")
	case errors.Is(err, context.Canceled):
		p = refuseFor(http.StatusServiceUnavailable, 1, codeUnavailable, "the request was given up")
	default:
		g.cfg.Log.Error().Err(err).Msg("publish")
		p = refuseFor(http.StatusServiceUnavailable, fullAfter, codeUnavailable, "the gateway cannot publish: its log says why")
	}
	answered := false
	for i := range answers {
		if a := &answers[i]; a.Leaf == "" && !a.Spooled && (a.Refusal == nil || a.Refusal.RetryAfter != nil) {
			a.Refusal = &p.refusal
		} else {
			answered = true
		}
	}
	if answered {
		return nil
	}
	return p
}

// tally counts the answers. retry is when to send again, in seconds, if the
// ledger may yet take one of the events.
func (g *Gateway) tally(answers []publish.Answer) (spooled bool, retry *float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range answers {
		switch {
		case a.Refusal != nil:
			g.stats.Refused[a.Refusal.Code]++
			if retry == nil {
				retry = a.Refusal.RetryAfter
			}
		case a.Spooled:
			g.stats.Spooled++
			spooled = true
		default:
			g.stats.Taken++
		}
	}
	return spooled, retry
}

// answer writes one answer an event.
func (g *Gateway) answer(w http.ResponseWriter, s shape, events [][]byte, answers []publish.Answer) {
	parts := make([][]byte, len(answers))
	for i, a := range answers {
		parts[i] = encode(a, events[i])
	}
	spooled, retry := g.tally(answers)
	status := http.StatusOK
	if spooled {
		status = http.StatusAccepted
	}
	setRetryAfter(w, retry)
	switch s {
	case array:
		write(w, status, jsonType, append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']', '\n'))
	case lines:
		var out []byte
		for _, p := range parts {
			out = append(append(out, p...), '\n')
		}
		write(w, status, linesType, out)
	default:
		if r := answers[0].Refusal; r != nil {
			status = statusOf(r)
		}
		write(w, status, jsonType, append(parts[0], '\n'))
	}
}

// statusOf is the HTTP status of a single event's refusal.
func statusOf(r *publish.Refusal) int {
	switch {
	case r.RetryAfter != nil:
		return http.StatusServiceUnavailable
	case r.Code == string(schema.CodeTooLarge):
		return http.StatusRequestEntityTooLarge
	case r.Code == "conflict":
		return http.StatusConflict
	case r.Code == "forbidden_type":
		return http.StatusForbidden
	case r.Code == string(schema.CodeUnknownType), r.Code == string(schema.CodeUnknownVersion):
		return http.StatusUnprocessableEntity
	}
	return http.StatusBadRequest
}

// spooledAnswer is what a spooled event is answered.
type spooledAnswer struct {
	Spooled bool   `json:"spooled"`
	ID      string `json:"id,omitzero"` // of the event
}

// encode is the answer to an event in JSON.
func encode(a publish.Answer, event []byte) []byte {
	var v any = a
	switch {
	case a.Spooled:
		v = spooledAnswer{true, idOf(event)}
	case a.Refusal != nil:
		v = struct {
			Error *publish.Refusal `json:"error"`
		}{a.Refusal}
	}
	out, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true)) // a message may quote what was sent
	if err != nil {
		return []byte(`{"error":{"code":"internal","pointer":"","message":"encode the answer","retry_after":null}}`)
	}
	return out
}

func idOf(event []byte) string {
	checked, _ := schema.Check(event) // what was spooled has one, or is of an unknown type
	return checked.IDString
}

// blob stores the body as a content blob.
func (g *Gateway) blob(w http.ResponseWriter, r *http.Request, a *account) *problem {
	limit := g.roster.Load().blobBytes
	tooLarge := refuse(http.StatusRequestEntityTooLarge, string(schema.CodeTooLarge), "a blob has at most %d bytes", limit)
	if g.cfg.Blobs == nil {
		return refuse(http.StatusNotImplemented, codeNoBlobStore, "this gateway stores no blobs: put the content into the ledger's store where the resolver runs (assay blob put), and name it by dataref")
	}
	if r.ContentLength > limit {
		return tooLarge
	}
	if g.cfg.Room != nil {
		if err := g.cfg.Room(); err != nil {
			return refuseFor(http.StatusServiceUnavailable, fullAfter, codeUnavailable, "no room for blobs: %v", err)
		}
	}
	select {
	case a.uploads <- struct{}{}:
		defer func() { <-a.uploads }()
	default:
		return refuseFor(http.StatusTooManyRequests, 1, codeRateLimited, "%s is uploading a blob already", a.id)
	}
	control := http.NewResponseController(w)
	deadline := time.Now().Add(blobTimeout)
	if err := errors.Join(control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline.Add(answerTimeout))); err != nil {
		return refuse(http.StatusInternalServerError, "internal", "the connection takes no deadline")
	}
	name, size, err := g.cfg.Blobs.PutContent(http.MaxBytesReader(w, r.Body, limit), g.cfg.Random)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge
	case err != nil:
		g.cfg.Log.Error().Err(err).Msg("put blob")
		return refuseFor(http.StatusServiceUnavailable, fullAfter, codeUnavailable, "the blob was not stored")
	}
	g.mu.Lock()
	g.stats.Blobs++
	g.mu.Unlock()
	body, err := json.Marshal(struct {
		Ref  string `json:"ref"`
		Size int64  `json:"size"` // of the content in bytes
	}{blob.Ref(name), size})
	if err != nil {
		return refuse(http.StatusInternalServerError, "internal", "encode the answer")
	}
	write(w, http.StatusCreated, jsonType, append(body, '\n'))
	return nil
}

// setRetryAfter rounds up: HTTP counts whole seconds.
func setRetryAfter(w http.ResponseWriter, seconds *float64) {
	if seconds != nil {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(*seconds)))))
	}
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
