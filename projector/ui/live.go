package ui

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"assay/internal/plain"
	"assay/ledger"
)

const (
	// liveEvery is how often live rows are sent, and liveRows how many at a time:
	// a page that nobody could read anyway is told how many passed by.
	liveEvery = 200 * time.Millisecond
	liveRows  = 40
	// stateEvery is how often a page is told how far the ledger is signed.
	stateEvery = time.Second
	// liveBehind is how many records before the head live rows begin at most.
	liveBehind = 4 * searchRows
	// sendWithin is how long a slow reader may hold a connection up.
	sendWithin = 10 * time.Second
)

// batch collects the rows of one connection between two sends.
type batch struct {
	mu     sync.Mutex
	rows   []Row      // the last liveRows of those that came
	passed int        // others that came since the last send
	read   ledger.Seq // last record that was looked at
}

// saw notes that a record was read, with its row if the filter picks it: both at once,
// so that a connection that goes on behind it does not get the row again.
func (b *batch) saw(seq ledger.Seq, r *Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read = seq
	if r == nil {
		return
	}
	if len(b.rows) == liveRows {
		b.rows = append(b.rows[:0], b.rows[1:]...)
		b.passed++
	}
	b.rows = append(b.rows, *r)
}

// take is what came since it was last called, and how far was read.
func (b *batch) take() (rows []Row, passed int, read ledger.Seq) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows, passed = b.rows, b.passed
	b.rows, b.passed = nil, 0
	return rows, passed, b.read
}

// liveState is what a page is told of the ledger.
type liveState struct {
	Head   ledger.Seq `json:"head"`
	Signed ledger.Seq `json:"signed"`
	Fault  bool       `json:"fault"`
}

// serveLive sends the records behind ?after= that the filter picks, as server-sent
// events: rows (a JSON array of Row), passed (how many were left out) and state.
func (s *Server) serveLive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // would take a place and send nothing
	}
	select {
	case s.live <- struct{}{}:
		defer func() { <-s.live }()
	default:
		http.Error(w, fmt.Sprintf("%d pages get live rows already", maxLive), http.StatusServiceUnavailable)
		return
	}
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 63)
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after, err = strconv.ParseUint(last, 10, 63) // the browser connects again
	}
	if err != nil {
		http.Error(w, "after: want the record behind which to begin", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	st, err := s.source.State(ctx)
	if err != nil {
		http.Error(w, plain.Text(err.Error()), statusOf(err))
		return
	}
	var b batch
	if least := uint64(st.Head - min(st.Head, liveBehind)); after < least {
		b.passed, after = int(least-after), least
	}
	ended := make(chan error, 1)
	filter := filterOf(r.URL.Query())
	go func() {
		ended <- s.source.Read(ctx, ledger.Seq(after)+1, 0, func(seq ledger.Seq, body []byte) error {
			var picked *Row
			if p, ok := filter.pick(seq, body); ok {
				r := p.row(body)
				picked = &r
			}
			b.saw(seq, picked)
			return nil
		})
	}()
	s.send(ctx, &stream{w: w, rc: http.NewResponseController(w)}, &b, ended)
}

// send writes what collects until the connection or the read ends.
func (s *Server) send(ctx context.Context, out *stream, b *batch, ended <-chan error) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var told time.Time
	for {
		rows, passed, read := b.take()
		if len(rows) > 0 {
			out.event("rows", rows, read)
		}
		if passed > 0 {
			out.event("passed", passed, read)
		}
		if time.Since(told) >= stateEvery {
			told = time.Now()
			if st, err := s.source.State(ctx); err == nil {
				out.event("state", liveState{st.Head, st.Signed, st.Fault != ""}, read)
			}
		}
		if out.flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ended: // the broker is away: the browser comes back
			return
		case <-tick.C:
		}
	}
}

// stream writes server-sent events. After an error it writes nothing.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

// event writes one, with the record from which a new connection goes on unless it is 0.
func (s *stream) event(name string, v any, id ledger.Seq) {
	data, err := json.Marshal(v)
	if s.err != nil || err != nil {
		return
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(sendWithin))
	if id > 0 {
		_, s.err = fmt.Fprintf(s.w, "id: %d\n", id)
	}
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data)
	}
}

func (s *stream) flush() error {
	if s.err == nil {
		s.err = s.rc.Flush()
	}
	return s.err
}
