package witness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"assay/internal/durable"
	"assay/ledger"
)

const (
	// maxBody is room for 63 proof lines and a checkpoint with more signatures
	// than a log collects.
	maxBody = ledger.MaxProof
	// sizeType is the content type of an answer that tells the witness's size.
	sizeType = "text/x.tlog.size"
)

// Config says where a witness lives.
type Config struct {
	Dir Dir
	// Now is the time that conflicts are filed under; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// Server answers POST /add-checkpoint. Each log's size is checked and stored
// under one lock, and stored before the cosignature leaves, so that no two
// requests and no crash can make the witness cosign anything but growth.
type Server struct {
	cfg    Config
	signer *fnote.Signer
	vkey   string
	lock   *durable.Lock
	mux    *http.ServeMux

	mu   sync.Mutex // guards what follows
	seen fs.FileInfo
	logs map[string]*logState
}

// logState is one origin's.
type logState struct {
	origin string
	keys   []note.Verifier // guarded by Server.mu

	mu    sync.Mutex
	state // what it cosigned last
	// stale means that a write failed, so that only the file knows the state.
	stale bool
}

// Open reads key, logs and every log's state. It refuses a directory that
// another witness serves, and a log whose state is gone or unreadable:
// ErrBadState.
func Open(cfg Config) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, logs: map[string]*logState{}}
	var err error
	if s.signer, s.vkey, err = cfg.Dir.loadKey(); err != nil {
		return nil, err
	}
	if s.lock, err = durable.TryLock(cfg.Dir.lock()); err != nil {
		return nil, fmt.Errorf("witness directory %s: %w", cfg.Dir, err)
	}
	if err := s.refresh(); err != nil {
		return nil, errors.Join(err, s.lock.Unlock())
	}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /add-checkpoint", s.addCheckpoint)
	return s, nil
}

// Close lets another process serve the directory; no request may be under way.
func (s *Server) Close() error { return s.lock.Unlock() }

// VKey is the verifier key of the cosignatures.
func (s *Server) VKey() string { return s.vkey }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refresh takes the logs file up if it changed.
func (s *Server) refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.cfg.Dir.logs())
	if errors.Is(err, fs.ErrNotExist) && s.seen == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if s.seen != nil && os.SameFile(info, s.seen) && info.ModTime().Equal(s.seen.ModTime()) && info.Size() == s.seen.Size() {
		return nil
	}
	t, err := s.cfg.Dir.loadLogs()
	if err != nil {
		return err
	}
	logs := map[string]*logState{}
	for _, origin := range t.origins {
		l := s.logs[origin]
		if l == nil {
			l = &logState{origin: origin}
			if l.state, err = s.cfg.Dir.loadState(origin); err != nil {
				return err
			}
		}
		logs[origin] = l
	}
	// Only now, so that a fault changes nothing.
	for origin, l := range logs {
		l.keys = t.keys[origin]
	}
	s.logs, s.seen = logs, info
	return nil
}

// trusts finds a log and the keys that are trusted for it.
func (s *Server) trusts(origin string) (*logState, []note.Verifier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[origin]
	if l == nil {
		return nil, nil
	}
	return l, l.keys
}

// refusal is an answer that is no cosignature.
type refusal struct {
	status int
	text   string
	// size, if set, is the size that the witness cosigned last.
	size *uint64
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

func (s *Server) addCheckpoint(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	sigs, err := s.cosign(body)
	var no *refusal
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(sigs)
	case errors.As(err, &no) && no.size != nil:
		w.Header().Set("Content-Type", sizeType)
		w.WriteHeader(no.status)
		fmt.Fprintf(w, "%d\n", *no.size)
	case errors.As(err, &no):
		http.Error(w, no.text, no.status)
	default:
		s.cfg.Log.Error().Err(err).Msg("add-checkpoint")
		http.Error(w, "the witness failed; its operator's log says why", http.StatusInternalServerError)
	}
}

// cosign decides about one request, in the order that the protocol gives:
// form, origin, signature, sizes, consistency.
func (s *Server) cosign(body []byte) ([]byte, error) {
	proof, err := ledger.ParseConsistencyProof(body)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	cp, err := ledger.ParseCheckpoint(proof.Checkpoint)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	if err := s.refresh(); err != nil {
		return nil, err
	}
	l, keys := s.trusts(cp.Origin)
	if l == nil {
		return nil, refuse(http.StatusNotFound, "unknown log")
	}
	n := openNote(cp.Raw, keys)
	if n == nil {
		return nil, refuse(http.StatusForbidden, "no signature by a trusted key of this log")
	}
	if proof.Old > cp.Size {
		return nil, refuse(http.StatusBadRequest, "the old size %d is larger than the checkpoint's %d", proof.Old, cp.Size)
	}
	if err := s.advance(l, proof, cp); err != nil {
		return nil, err
	}
	return s.signature(n.Text)
}

// openNote finds a trusted key whose signature verifies; what the others say
// does not matter. nil if there is none.
func openNote(raw []byte, keys []note.Verifier) *note.Note {
	for _, key := range keys {
		if n, err := note.Open(raw, note.VerifierList(key)); err == nil {
			return n
		}
	}
	return nil
}

// advance checks a checkpoint against what was cosigned and stores it. When it
// returns nil, the checkpoint is on disk and may be cosigned.
func (s *Server) advance(l *logState, proof *ledger.ConsistencyProof, cp ledger.SignedCheckpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale {
		st, err := s.cfg.Dir.loadState(l.origin)
		if err != nil {
			return err
		}
		l.state, l.stale = st, false
	}
	forked := cp.Size == l.Size && cp.Root != l.Root
	if forked {
		// Two signed roots of one size, whatever the request claims besides.
		s.file(l.state, proof, cp, SameSize)
	}
	switch {
	case proof.Old != l.Size:
		size := l.Size
		return &refusal{status: http.StatusConflict, text: "another size was cosigned last", size: &size}
	case forked:
		return refuse(http.StatusConflict, "another root of size %d was cosigned", cp.Size)
	case !extends(proof, l.Checkpoint, cp.Checkpoint):
		s.file(l.state, proof, cp, Unproven)
		return refuse(http.StatusUnprocessableEntity, "the proof does not lead from size %d to this checkpoint", l.Size)
	case cp.Size == l.Size:
		return nil // known; a cosignature with a newer time
	}
	body, err := encodeState(l.origin, cp.Raw)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(s.cfg.Dir.state(l.origin), body, 0o600); err != nil {
		l.stale = true // it may have been replaced all the same
		return fmt.Errorf("store size %d of %q: %w", cp.Size, l.origin, err)
	}
	l.state = cp
	return nil
}

// extends checks the proof from what was cosigned to a checkpoint that is not
// smaller. From nothing, and to the same tree, the only proof is the empty one.
func extends(proof *ledger.ConsistencyProof, old, cp ledger.Checkpoint) bool {
	if old.Size == 0 || old.Size == cp.Size {
		return len(proof.Path) == 0
	}
	return ledger.CheckConsistency(proof.Path, old, cp) == nil
}

// signature is the cosignature line of a checkpoint's text.
func (s *Server) signature(text string) ([]byte, error) {
	signed, err := note.Sign(&note.Note{Text: text}, s.signer)
	if err != nil {
		return nil, err
	}
	return signed[bytes.LastIndex(signed, []byte("\n\n"))+2:], nil
}
