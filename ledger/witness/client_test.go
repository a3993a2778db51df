package witness

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
)

func TestClient(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 9, "a")
	fork := log.fork(t, 3).grow(t, 9, "b")
	s := openServer(t, newDir(t, "w1", log.vkey))
	srv := httptest.NewServer(http.StripPrefix("/some/prefix", s))
	defer srv.Close()
	c := &Client{URL: srv.URL + "/some/prefix/", Verifier: verifierOf(t, s)}
	ctx := t.Context()
	for _, step := range []struct {
		name  string
		proof *ledger.ConsistencyProof
		want  error
	}{
		{"first", log.proof(t, 0, 5), nil},
		{"forgotten", log.proof(t, 0, 7), ErrConflict},
		{"growth", log.proof(t, 5, 7), nil},
		{"again", log.proof(t, 7, 7), nil},
		{"rolled back", log.proof(t, 3, 5), ErrConflict},
		{"forked", fork.proof(t, 7, 7), ErrForked},
		{"forked growth", fork.proof(t, 7, 9), ErrRefused},
		{"unknown log", newLog(t, "x").proof(t, 0, 0), ErrRefused},
	} {
		sigs, err := c.AddCheckpoint(ctx, *step.proof)
		if !errors.Is(err, step.want) {
			t.Fatalf("%s: %v, want %v", step.name, err, step.want)
		}
		if err == nil {
			if _, err := note.Open(append(step.proof.Checkpoint, sigs...), note.VerifierList(c.Verifier)); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		var conflict *ConflictError
		if size := map[string]uint64{"forgotten": 5, "rolled back": 7}[step.name]; size != 0 && (!errors.As(err, &conflict) || conflict.Size != size) {
			t.Fatalf("%s: %v, want size %d", step.name, err, size)
		}
	}
}

// TestClientDoubtsTheWitness: nothing of an answer is kept that is not the
// witness's signature on this very checkpoint.
func TestClientDoubtsTheWitness(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 9, "a")
	w1, w2 := newWitness(t, "w1"), newWitness(t, "w1")
	v, err := NewVerifier(w1.vkey)
	if err != nil {
		t.Fatal(err)
	}
	p := log.proof(t, 0, 5)
	sigBy := func(w testWitness, raw []byte) string {
		return strings.TrimPrefix(string(cosigned(t, raw, w)), string(raw))
	}
	good := sigBy(w1, p.Checkpoint)
	bad := strings.Replace(good, "A", "B", 1)
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"good", answer(200, "text/plain", good), nil},
		{"good among others", answer(200, "", sigBy(w2, p.Checkpoint)+bad+"junk\n"+good+sigBy(w2, p.Checkpoint)), nil},
		{"nothing", answer(200, "", ""), ErrBadAnswer},
		{"another key", answer(200, "", sigBy(w2, p.Checkpoint)), ErrBadAnswer},
		{"another checkpoint", answer(200, "", sigBy(w1, log.checkpoint(t, 4))), ErrBadAnswer},
		{"a whole note", answer(200, "", string(cosigned(t, log.checkpoint(t, 4), w1))), ErrBadAnswer},
		{"a signature that does not verify", answer(200, "", bad), ErrBadAnswer},
		{"a line without end", answer(200, "", strings.Repeat("x", 2*maxAnswer)), ErrBadAnswer},
		{"good after too much", answer(200, "", strings.Repeat("\n", maxLines)+good), ErrBadAnswer},
		{"conflict", answer(409, "text/x.tlog.size", "7\n"), ErrConflict},
		{"conflict with a charset", answer(409, "text/x.tlog.size; charset=utf-8", "7\n"), ErrConflict},
		{"conflict of no number", answer(409, "text/x.tlog.size", "seven\n"), ErrBadAnswer},
		{"conflict of a huge number", answer(409, "text/x.tlog.size", "18446744073709551615\n"), ErrBadAnswer},
		{"fork", answer(409, "text/plain", "no\n"), ErrForked},
		{"forbidden", answer(403, "text/plain", "no\n"), ErrRefused},
		{"unprocessable", answer(422, "text/plain", "no\n"), ErrRefused},
		{"broken", answer(500, "text/plain", "no\n"), ErrRefused},
		{"no content", answer(204, "", ""), ErrRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(c.answer)
			defer srv.Close()
			sigs, err := (&Client{URL: srv.URL, Verifier: v}).AddCheckpoint(t.Context(), *p)
			if !errors.Is(err, c.want) || (err == nil) != (string(sigs) == good) {
				t.Fatalf("%q %v, want %v", sigs, err, c.want)
			}
		})
	}
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer srv.Close()
	defer close(hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (&Client{URL: srv.URL, Verifier: v}).AddCheckpoint(ctx, *p); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a witness that hangs: %v", err)
	}
}

// TestSplitView: two forks of one log, each shown to a witness of its own, are
// cosigned by both; comparing what the witnesses cosigned shows the fork, and
// either witness refuses the other's side.
func TestSplitView(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 9, "a")
	fork := log.fork(t, 5).grow(t, 9, "b")
	d1, d2 := newDir(t, "w1", log.vkey), newDir(t, "w2", log.vkey)
	s1, s2 := openServer(t, d1), openServer(t, d2)
	for _, step := range []struct {
		s      *Server
		proof  *ledger.ConsistencyProof
		status int
	}{
		{s1, log.proof(t, 0, 5), 200},
		{s2, log.proof(t, 0, 5), 200},
		{s1, log.proof(t, 5, 9), 200},
		{s2, fork.proof(t, 5, 9), 200},
		{s1, fork.proof(t, 9, 9), 409},
		{s2, log.proof(t, 9, 9), 409},
	} {
		if r := post(step.s, string(step.proof.Encode())); r.StatusCode != step.status {
			t.Fatalf("%s, want %d", r.Status, step.status)
		}
	}
	a, err := d1.loadState(testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d2.loadState(testOrigin)
	if err != nil || a.Size != b.Size || a.Root == b.Root {
		t.Fatalf("the witnesses' records do not show the fork: %+v %+v %v", a.Checkpoint, b.Checkpoint, err)
	}
	for _, d := range []Dir{d1, d2} {
		if filed, err := Conflicts(d); err != nil || len(filed) != 1 || filed[0].Kind != SameSize {
			t.Fatalf("filed %+v %v", filed, err)
		}
	}
	// A policy of both is met on neither side.
	p, err := ParsePolicy([]byte("witness w1 " + s1.VKey() + "\nwitness w2 " + s2.VKey() + "\ngroup g all w1 w2\nquorum g\n"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s1.signature(textOf(a.Raw))
	if err != nil {
		t.Fatal(err)
	}
	if ok, cosigners, err := p.Satisfied(append(a.Raw, sig...)); ok || err != nil || len(cosigners) != 1 {
		t.Fatalf("%v %v %v", ok, cosigners, err)
	}
}
