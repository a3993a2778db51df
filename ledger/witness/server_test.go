package witness

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"assay/internal/durable"
	"assay/ledger"
)

const testOrigin = "example.com/log"

// TestAddCheckpoint goes through the answers of the protocol, each request
// after one that was cosigned at size 5.
func TestAddCheckpoint(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 20, "a")
	fork := log.fork(t, 3).grow(t, 20, "b")
	stranger := newLog(t, "example.com/other").grow(t, 3, "a")
	impostor := newLog(t, testOrigin).grow(t, 20, "a")
	text := func(p *ledger.ConsistencyProof) string { return string(p.Encode()) }
	edit := func(p *ledger.ConsistencyProof, f func(*ledger.ConsistencyProof)) string {
		f(p)
		return string(p.Encode())
	}
	sign := func(body string) []byte {
		raw, err := note.Sign(&note.Note{Text: body}, log.signer)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	root := strings.Split(string(log.checkpoint(t, 9)), "\n")[2]
	good := text(log.proof(t, 5, 9))
	for _, c := range []struct {
		name, body  string
		status      int
		size        string // the answer of a size conflict
		conflicts   int
		contentType string
	}{
		{name: "growth", body: good, status: 200},
		{name: "the same again", body: text(log.proof(t, 5, 5)), status: 200},
		{name: "a foreign signature beside", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) {
			p.Checkpoint = append(p.Checkpoint, impostor.checkpoint(t, 9)[strings.LastIndex(string(impostor.checkpoint(t, 9)), "\n\n")+2:]...)
		}), status: 200},
		{name: "an extension line", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) {
			p.Checkpoint = sign(testOrigin + "\n9\n" + root + "\nmore\n")
		}), status: 200},
		{name: "unknown origin", body: text(stranger.proof(t, 0, 3)), status: 404},
		{name: "untrusted key", body: text(impostor.proof(t, 5, 9)), status: 403},
		{name: "altered text", body: strings.Replace(good, "\n9\n", "\n8\n", 1), status: 403},
		{name: "old is larger", body: edit(log.proof(t, 3, 4), func(p *ledger.ConsistencyProof) { p.Old = 5 }), status: 400},
		{name: "old is behind", body: text(log.proof(t, 4, 9)), status: 409, size: "5\n"},
		{name: "old is zero", body: text(log.proof(t, 0, 9)), status: 409, size: "5\n"},
		{name: "old is ahead", body: text(log.proof(t, 6, 9)), status: 409, size: "5\n"},
		{name: "smaller than cosigned", body: text(log.proof(t, 3, 4)), status: 409, size: "5\n"},
		{name: "another root of the size", body: text(fork.proof(t, 5, 5)), status: 409, conflicts: 1, contentType: "text/plain; charset=utf-8"},
		{name: "another root, old behind", body: text(fork.proof(t, 4, 5)), status: 409, size: "5\n", conflicts: 1},
		{name: "a fork's growth", body: text(fork.proof(t, 5, 9)), status: 422, conflicts: 1},
		{name: "no proof", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) { p.Path = nil }), status: 422, conflicts: 1},
		{name: "a proof too long", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) { p.Path = append(p.Path, ledger.Hash{}) }), status: 422, conflicts: 1},
		{name: "a proof where none belongs", body: edit(log.proof(t, 5, 5), func(p *ledger.ConsistencyProof) { p.Path = make([]ledger.Hash, 1) }), status: 422, conflicts: 1},
		{name: "64 proof lines", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) { p.Path = make([]ledger.Hash, 64) }), status: 400},
		{name: "empty", body: "", status: 400},
		{name: "no old line", body: good[strings.Index(good, "\n")+1:], status: 400},
		{name: "old with a zero", body: strings.Replace(good, "old 5", "old 05", 1), status: 400},
		{name: "old with a sign", body: strings.Replace(good, "old 5", "old +5", 1), status: 400},
		{name: "a bad hash", body: strings.Replace(good, "\n", "\nAAAA\n", 1), status: 400},
		{name: "size with a zero", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) {
			p.Checkpoint = sign(testOrigin + "\n09\n" + root + "\n")
		}), status: 400},
		{name: "a huge size", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) {
			p.Checkpoint = sign(testOrigin + "\n18446744073709551615\n" + root + "\n")
		}), status: 400},
		{name: "no size", body: edit(log.proof(t, 5, 9), func(p *ledger.ConsistencyProof) {
			p.Checkpoint = sign(testOrigin + "\n")
		}), status: 400},
		{name: "too large", body: "old 5\n" + strings.Repeat("x", maxBody), status: 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDir(t, "w1", log.vkey)
			s := openServer(t, d)
			if r := post(s, text(log.proof(t, 0, 5))); r.StatusCode != 200 {
				t.Fatalf("first: %s", r.Status)
			}
			r := post(s, c.body)
			answer, _ := io.ReadAll(r.Body)
			if r.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", r.StatusCode, c.status, answer)
			}
			if c.size != "" && (string(answer) != c.size || r.Header.Get("Content-Type") != "text/x.tlog.size") {
				t.Errorf("answer %q of type %q, want the size %q", answer, r.Header.Get("Content-Type"), c.size)
			}
			if got := r.Header.Get("Content-Type"); c.contentType != "" && got != c.contentType {
				t.Errorf("content type %q", got)
			}
			filed, err := Conflicts(d)
			if err != nil || len(filed) != c.conflicts {
				t.Errorf("%d conflicts filed (%v), want %d", len(filed), err, c.conflicts)
			}
			want := uint64(5)
			if c.status == 200 {
				p, err := ledger.ParseConsistencyProof([]byte(c.body))
				if err != nil {
					t.Fatal(err)
				}
				n, err := note.Open(append(p.Checkpoint, answer...), note.VerifierList(verifierOf(t, s)))
				if err != nil {
					t.Fatalf("the answer %q does not verify: %v", answer, err)
				}
				cp, err := ledger.ParseCheckpoint(p.Checkpoint)
				if err != nil || n.Text != textOf(p.Checkpoint) {
					t.Fatal(err)
				}
				want = cp.Size
			}
			if st, err := d.loadState(testOrigin); err != nil || st.Size != want {
				t.Errorf("size %d on disk (%v), want %d", st.Size, err, want)
			}
		})
	}
}

func TestFirstCheckpoint(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 3, "a")
	lie := log.fork(t, 0)
	lie.roots[0] = ledger.Hash{1}
	withPath := log.proof(t, 0, 3)
	withPath.Path = make([]ledger.Hash, 1)
	for _, c := range []struct {
		name   string
		proof  *ledger.ConsistencyProof
		status int
	}{
		{"empty tree", log.proof(t, 0, 0), 200},
		{"empty tree of another root", lie.proof(t, 0, 0), 409},
		{"some tree", log.proof(t, 0, 3), 200},
		{"a proof from nothing", withPath, 422},
		{"old ahead of nothing", log.proof(t, 1, 3), 409},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openServer(t, newDir(t, "w1", log.vkey))
			if r := post(s, string(c.proof.Encode())); r.StatusCode != c.status {
				body, _ := io.ReadAll(r.Body)
				t.Fatalf("status %d, want %d: %s", r.StatusCode, c.status, body)
			}
		})
	}
}

func TestOnlyPostIsServed(t *testing.T) {
	s := openServer(t, newDir(t, "w1"))
	r, _ := http.NewRequest("GET", "/add-checkpoint", nil)
	w := &statusOnly{header: http.Header{}}
	s.ServeHTTP(w, r)
	if w.status != http.StatusMethodNotAllowed {
		t.Fatalf("status %d", w.status)
	}
}

type statusOnly struct {
	header http.Header
	status int
}

func (w *statusOnly) Header() http.Header         { return w.header }
func (w *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w *statusOnly) WriteHeader(status int)      { w.status = status }

// TestKeyRotation: a second key of the origin is trusted beside the first, and
// a running witness takes it up.
func TestKeyRotation(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 9, "a")
	next := newLog(t, testOrigin)
	d := newDir(t, "w1", log.vkey)
	s := openServer(t, d)
	if r := post(s, string(log.proof(t, 0, 5).Encode())); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	rotated := log.fork(t, 9)
	rotated.signer, rotated.vkey = next.signer, next.vkey
	if r := post(s, string(rotated.proof(t, 5, 7).Encode())); r.StatusCode != 403 {
		t.Fatalf("before the key is trusted: %s", r.Status)
	}
	if origin, err := AddLog(d, next.vkey); err != nil || origin != testOrigin {
		t.Fatal(origin, err)
	}
	for _, p := range []*ledger.ConsistencyProof{rotated.proof(t, 5, 7), log.proof(t, 7, 8)} {
		if r := post(s, string(p.Encode())); r.StatusCode != 200 {
			t.Fatal(r.Status)
		}
	}
	if got, err := ReadStatus(d); err != nil || len(got.Logs) != 1 || got.Logs[0].Keys != 2 || got.Logs[0].Size != 8 {
		t.Fatalf("%+v %v", got, err)
	}
}

// TestRace submits N and N+K at once, over and over: whatever order they are
// decided in, the size never goes back and both answers fit it.
func TestRace(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 120, "a")
	d := newDir(t, "w1", log.vkey)
	s := openServer(t, d)
	size := 0
	for size+10 < 120 {
		sizes := []int{size + 3, size + 10}
		status := make([]int, 2)
		var wg sync.WaitGroup
		for i, n := range sizes {
			wg.Go(func() { status[i] = post(s, string(log.proof(t, size, n).Encode())).StatusCode })
		}
		wg.Wait()
		switch {
		case status[0] == 200 && status[1] == 409:
			size = sizes[0]
		case status[0] == 409 && status[1] == 200:
			size = sizes[1]
		default:
			t.Fatalf("from size %d: %v, want one of each", size, status)
		}
		if st, err := d.loadState(testOrigin); err != nil || st.Size != uint64(size) {
			t.Fatalf("size %d on disk (%v), cosigned %d", st.Size, err, size)
		}
	}
}

// TestRefusesToStart: what it knew must be there, whole, and of this log.
func TestRefusesToStart(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 9, "a")
	other := newLog(t, "example.com/other").grow(t, 9, "a")
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string, d Dir)
	}{
		{"gone", func(t *testing.T, path string, _ Dir) { os.Remove(path) }},
		{"empty", func(t *testing.T, path string, _ Dir) { os.Truncate(path, 0) }},
		{"torn", func(t *testing.T, path string, _ Dir) { os.Truncate(path, 60) }},
		{"a flipped bit", func(t *testing.T, path string, _ Dir) {
			raw, _ := os.ReadFile(path)
			i := strings.Index(string(raw), `\n5\n`) + 2
			raw[i] = '4'
			os.WriteFile(path, raw, 0o600)
		}},
		{"another version", func(t *testing.T, path string, _ Dir) {
			raw, _ := os.ReadFile(path)
			os.WriteFile(path, []byte(strings.Replace(string(raw), `"v":1`, `"v":2`, 1)), 0o600)
		}},
		{"another log's", func(t *testing.T, path string, d Dir) {
			raw, _ := os.ReadFile(d.state("example.com/other"))
			os.WriteFile(path, raw, 0o600)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDir(t, "w1", log.vkey, other.vkey)
			s := openServer(t, d)
			if r := post(s, string(log.proof(t, 0, 5).Encode())); r.StatusCode != 200 {
				t.Fatal(r.Status)
			}
			s.Close()
			c.damage(t, d.state(testOrigin), d)
			if s, err := Open(Config{Dir: d}); !errors.Is(err, ErrBadState) {
				if err == nil {
					s.Close()
				}
				t.Fatalf("Open: %v, want ErrBadState", err)
			}
			if _, err := AddLog(d, log.vkey); !errors.Is(err, ErrBadState) {
				t.Fatalf("AddLog: %v, want ErrBadState", err)
			}
		})
	}
	d := newDir(t, "w1", log.vkey)
	openServer(t, d)
	if _, err := Open(Config{Dir: d}); !errors.Is(err, durable.ErrLocked) {
		t.Fatalf("a second witness on the directory: %v", err)
	}
	os.Remove(d.key())
	if _, err := Init(d, "w1"); err == nil || !strings.Contains(err.Error(), "restore it") {
		t.Fatalf("a new key over old state: %v", err)
	}
}

// FuzzState: bytes that decode are those that were encoded, but for white space
// and the like around them; nothing panics.
func FuzzState(f *testing.F) {
	log := newLog(f, testOrigin).grow(f, 3, "a")
	for _, raw := range [][]byte{nil, log.checkpoint(f, 3)} {
		body, err := encodeState(testOrigin, raw)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		st, err := decodeState(testOrigin, body)
		if err != nil {
			return
		}
		again, err := encodeState(testOrigin, st.Raw)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeState(testOrigin, again); err != nil || back.Checkpoint != st.Checkpoint {
			t.Fatalf("%+v came back as %+v: %v", st.Checkpoint, back.Checkpoint, err)
		}
	})
}

// TestFailedWrite: nothing is cosigned that is not on disk, and the next
// request goes by what the disk says.
func TestFailedWrite(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 9, "a")
	d := newDir(t, "w1", log.vkey)
	s := openServer(t, d)
	if r := post(s, string(log.proof(t, 0, 5).Encode())); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	if err := os.Rename(d.join("state"), d.join("away")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := post(s, string(log.proof(t, 5, 7).Encode())); r.StatusCode != 500 {
			t.Fatalf("cosigned without storing: %s", r.Status)
		}
	}
	if err := os.Rename(d.join("away"), d.join("state")); err != nil {
		t.Fatal(err)
	}
	if r := post(s, string(log.proof(t, 5, 7).Encode())); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
}

// TestConflictsAreBounded: whoever replays a log's checkpoints with bad proofs
// fills neither the disk nor the room of real evidence.
func TestConflictsAreBounded(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, maxConflicts+20, "a")
	fork := log.fork(t, 3).grow(t, 5, "b")
	d := newDir(t, "w1", log.vkey)
	s := openServer(t, d)
	post(s, string(log.proof(t, 0, 5).Encode()))
	for n := 6; n <= len(log.leaves); n++ {
		p := log.proof(t, 5, n)
		p.Path = p.Path[:0]
		for range 2 {
			if r := post(s, string(p.Encode())); r.StatusCode != 422 {
				t.Fatal(r.Status)
			}
		}
	}
	if r := post(s, string(fork.proof(t, 5, 5).Encode())); r.StatusCode != 409 {
		t.Fatal(r.Status)
	}
	filed, err := Conflicts(d)
	if err != nil {
		t.Fatal(err)
	}
	count := map[Kind]int{}
	for _, c := range filed {
		count[c.Kind]++
	}
	if count[Unproven] != maxConflicts || count[SameSize] != 1 {
		t.Fatalf("filed %v", count)
	}
	// The evidence speaks for itself: two notes, one key, one size, two roots.
	e := filed[0]
	p, err := ledger.ParseConsistencyProof([]byte(e.Request))
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewVerifier(log.vkey)
	if err != nil {
		t.Fatal(err)
	}
	a, err := ledger.OpenCheckpoint([]byte(e.Cosigned), key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ledger.OpenCheckpoint(p.Checkpoint, key)
	if err != nil || a.Size != b.Size || a.Root == b.Root {
		t.Fatalf("no evidence: %+v %+v %v", a, b, err)
	}
}

// TestNeverCosignsNonGrowth: whatever honest and forked logs submit in whatever
// order, with restarts between, what was cosigned is one line of growth.
func TestNeverCosignsNonGrowth(t *testing.T) {
	const top = 24
	rapid.Check(t, func(rt *rapid.T) {
		logs := []*testLog{newLog(t, testOrigin).grow(t, top, "a")}
		for i := range 2 {
			at := rapid.IntRange(0, top-1).Draw(rt, "fork at")
			logs = append(logs, logs[0].fork(t, at).grow(t, top, fmt.Sprint("b", i)))
		}
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		d := Dir(dir)
		if _, err := Init(d, "w1"); err != nil {
			rt.Fatal(err)
		}
		if _, err := AddLog(d, logs[0].vkey); err != nil {
			rt.Fatal(err)
		}
		s, err := Open(Config{Dir: d})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.Close() }()
		size, on := 0, logs[0] // what was cosigned last, and by which log
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			if rapid.IntRange(0, 5).Draw(rt, "restart") == 0 {
				s.Close()
				if s, err = Open(Config{Dir: d}); err != nil {
					rt.Fatal(err)
				}
			}
			l := rapid.SampledFrom(logs).Draw(rt, "log")
			old := rapid.OneOf(rapid.Just(size), rapid.IntRange(0, top)).Draw(rt, "old")
			next := rapid.IntRange(old, top).Draw(rt, "size")
			r := post(s, string(l.proof(t, old, next).Encode()))
			grows := old == size && l.roots[size] == on.roots[size]
			if grows != (r.StatusCode == 200) {
				rt.Fatalf("at size %d: from %d to %d of log with root %s: status %d", size, old, next, l.roots[next], r.StatusCode)
			}
			if grows {
				size, on = next, l
			}
		}
	})
}
