package logger_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/witness"
)

// post is a witness at an address; what it does can be changed.
type post struct {
	t    testing.TB
	url  string
	vkey string
	dir  witness.Dir
	s    *witness.Server
	// instead answers in the witness's place while it is set.
	instead atomic.Pointer[http.HandlerFunc]
}

func newPost(t testing.TB, name string, logKey string) *post {
	t.Helper()
	p := &post{t: t}
	p.open(name, logKey)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := p.instead.Load(); h != nil {
			(*h)(w, r)
			return
		}
		p.s.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// open starts on a new directory, with the key of the old one if there is one.
func (p *post) open(name, logKey string) {
	p.t.Helper()
	old := p.dir
	p.dir = witness.Dir(p.t.TempDir())
	var err error
	if p.vkey, err = witness.Init(p.dir, name); err != nil {
		p.t.Fatal(err)
	}
	if old != "" {
		for _, f := range []string{"key", "key.pub"} {
			raw, err := os.ReadFile(filepath.Join(string(old), f))
			if err == nil {
				err = os.WriteFile(filepath.Join(string(p.dir), f), raw, 0o600)
			}
			if err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if _, err := witness.AddLog(p.dir, logKey); err != nil {
		p.t.Fatal(err)
	}
	if p.s, err = witness.Open(witness.Config{Dir: p.dir, Log: zerolog.Nop()}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.s.Close() })
}

// do answers in the witness's place; nil lets it answer again.
func (p *post) do(h http.HandlerFunc) {
	if h == nil {
		p.instead.Store(nil)
		return
	}
	p.instead.Store(&h)
}

// size is what the witness cosigned last.
func (p *post) size() uint64 {
	p.t.Helper()
	st, err := witness.ReadStatus(p.dir)
	if err != nil || len(st.Logs) != 1 || st.Logs[0].Err != nil {
		p.t.Fatal(st, err)
	}
	return st.Logs[0].Size
}

// withWitnesses gives the house witnesses named w0, w1, … and a quorum line.
func (h *house) withWitnesses(t testing.TB, quorum string, n int) []*post {
	t.Helper()
	vkey, _, err := logger.LoadVerifier(h.files())
	if err != nil {
		t.Fatal(err)
	}
	policy := "log " + vkey + "\n"
	names := ""
	var posts []*post
	for i := range n {
		name := fmt.Sprint("w", i)
		p := newPost(t, "witness.example/"+name, vkey)
		policy += fmt.Sprintf("witness %s %s %s\n", name, p.vkey, p.url)
		names += " " + name
		posts = append(posts, p)
	}
	policy += fmt.Sprintf("group g %s%s\nquorum g\n", quorum, names)
	if h.cfg.Witnesses, err = witness.ParsePolicy([]byte(policy)); err != nil {
		t.Fatal(err)
	}
	return posts
}

// witnessed is the size of the checkpoint on file, which must meet the policy;
// 0 when there is none.
func (h *house) witnessed() uint64 {
	h.t.Helper()
	raw, err := os.ReadFile(h.files().Witnessed())
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		h.t.Fatal(err)
	}
	if ok, cosigners, err := h.cfg.Witnesses.Satisfied(raw); !ok || err != nil {
		h.t.Fatalf("the checkpoint on file has only %v: %v", cosigners, err)
	}
	_, v, err := logger.LoadVerifier(h.files())
	if err != nil {
		h.t.Fatal(err)
	}
	cp, err := ledger.OpenCheckpoint(raw, v)
	if err != nil {
		h.t.Fatal(err)
	}
	return cp.Size
}

func (s *session) statusOf(name string) logger.WitnessStatus {
	s.h.t.Helper()
	for _, w := range s.l.Status().Witnessing.Witnesses {
		if w.Name == name {
			return w
		}
	}
	s.h.t.Fatalf("no status of witness %s", name)
	return logger.WitnessStatus{}
}

func TestCheckpointsAreWitnessed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	posts := h.withWitnesses(t, "all", 2)
	s := h.start()
	await(t, "the first quorum", func() bool { return h.witnessed() == 2 })
	for range 20 {
		s.must(principal.Agent, gate(t))
	}
	// A stop waits for the cosignatures of the last checkpoint.
	s.stop()
	if got := h.witnessed(); got != 22 {
		t.Fatalf("witnessed %d of 22", got)
	}
	st := s.l.Status()
	if w := st.Witnessing; w == nil || w.Size != 22 || w.Quorum != "g" || len(w.Witnesses) != 2 || w.Witnesses[0].Size != 22 || w.Witnesses[0].AgeSeconds == nil {
		t.Fatalf("status %+v", w)
	}

	// One witness away: it counts no more, and nothing else suffers.
	posts[1].do(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	s = h.start()
	await(t, "the witness is missed", func() bool { return s.statusOf("w1").Error != "" && s.statusOf("w0").Size == 23 })
	s.must(principal.Agent, gate(t))
	s.stop()
	if got := h.witnessed(); got != 22 || posts[0].size() != 24 || posts[1].size() != 22 {
		t.Fatalf("witnessed %d, cosigned %d and %d", got, posts[0].size(), posts[1].size())
	}
	// Back again, further behind: proved from what the index and the stream hold.
	posts[1].do(nil)
	s = h.start()
	s.stop()
	if got := h.witnessed(); got != 25 {
		t.Fatalf("witnessed %d of 25", got)
	}
	h.fullySigned()
}

// TestWitnessThatLostItsState begins at size 0 and is taken along from there.
func TestWitnessThatLostItsState(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	posts := h.withWitnesses(t, "all", 1)
	s := h.start()
	await(t, "the first quorum", func() bool { return h.witnessed() == 2 })
	vkey, _, err := logger.LoadVerifier(h.files())
	if err != nil {
		t.Fatal(err)
	}
	posts[0].open("witness.example/w0", vkey)
	s.must(principal.Agent, gate(t))
	s.stop()
	if got := h.witnessed(); got != 3 {
		t.Fatalf("witnessed %d of 3", got)
	}
}

// TestRollbackIsSeenByTheWitness: disk, index and checkpoints of an older day
// fit each other; only the witness knows more.
func TestRollbackIsSeenByTheWitness(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	posts := h.withWitnesses(t, "all", 1)
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	copyDir(t, h.cfg.Dir, h.cfg.Dir+".old")
	s = h.start()
	for range 10 {
		s.must(principal.Agent, gate(t))
	}
	s.stop()
	if posts[0].size() != 14 {
		t.Fatalf("cosigned %d", posts[0].size())
	}
	h.s.truncate(3)
	h.s.forget()
	if err := errors.Join(os.RemoveAll(h.cfg.Dir), os.Rename(h.cfg.Dir+".old", h.cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	await(t, "the rollback is noticed", func() bool { return strings.Contains(s.l.Status().Warning, "cosigned size 14, but this log signs 4") })
	// Grown past the witness's size, it is a fork.
	for range 20 {
		s.must(principal.Agent, gate(t))
	}
	s.stop()
	s = h.start()
	await(t, "the fork is noticed", func() bool {
		return strings.Contains(s.l.Status().Warning, "cosigned another root of size 14")
	})
	s.stop()
	if posts[0].size() != 14 || h.witnessed() != 3 {
		t.Fatalf("cosigned %d, witnessed %d", posts[0].size(), h.witnessed())
	}
	filed, err := witness.Conflicts(posts[0].dir)
	if err != nil || len(filed) == 0 {
		t.Fatalf("the witness filed nothing: %v", err)
	}
}

// TestWitnessesFailApart: a dead, a slow and a lying witness do not keep the
// others' quorum from being met, nor the log from being written.
func TestWitnessesFailApart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	posts := h.withWitnesses(t, "2", 5)
	hang := make(chan struct{})
	defer close(hang)
	posts[0].do(func(http.ResponseWriter, *http.Request) { <-hang })
	posts[1].do(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	posts[2].do(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		posts[3].s.ServeHTTP(rec, r) // somebody else's signature
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
	s := h.start()
	await(t, "the first quorum", func() bool { return h.witnessed() == 2 })
	for range 50 {
		s.must(principal.Agent, gate(t))
	}
	await(t, "the next quorum", func() bool { return h.witnessed() == 52 })
	await(t, "the failures are shown", func() bool {
		return s.statusOf("w1").Error != "" && s.statusOf("w2").Error != "" && s.statusOf("w3").Size == 52 && s.statusOf("w4").Size == 52
	})
	s.stop()
	h.fullySigned()
}

// TestFarBehind: a witness that was away for longer than leaves are at hand,
// and longer than the logger runs, gets its proof from frontiers and stream.
func TestFarBehind(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	posts := h.withWitnesses(t, "all", 1)
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	away := h.cfg.Witnesses
	h.cfg.Witnesses = nil
	for range 3 {
		s = h.start()
		for _, a := range s.submitBatch(principal.Agent, gates(t, 3000)).all(3000) {
			if a.Seq == 0 {
				t.Fatal("no receipt")
			}
		}
		s.stop()
	}
	if posts[0].size() != 3 {
		t.Fatalf("cosigned %d", posts[0].size())
	}
	h.cfg.Witnesses = away
	s = h.start()
	s.stop()
	if got, all := h.witnessed(), uint64(h.s.len()); got != all {
		t.Fatalf("witnessed %d of %d", got, all)
	}
}

// TestWitnessedIsOneOfTheCheckpoints: the file is a checkpoint of this log like
// the others, so that whoever reads them all reads it too.
func TestWitnessedIsOneOfTheCheckpoints(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.withWitnesses(t, "all", 1)
	h.start().stop()
	raw, err := os.ReadFile(h.files().Witnessed())
	if err != nil {
		t.Fatal(err)
	}
	_, v, err := logger.LoadVerifier(h.files())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(raw, note.VerifierList(v))
	if err != nil || len(n.UnverifiedSigs) != 1 {
		t.Fatalf("%v %v", n, err)
	}
	cps, err := logger.LoadCheckpoints(h.files())
	if err != nil || len(cps) < 2 || cps[0] != cps[1] {
		t.Fatalf("%v %v", cps, err)
	}
}
