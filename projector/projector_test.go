package projector_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

var ctx = context.Background()

func mustOpen(t testing.TB, dir string) *kv.DB {
	t.Helper()
	db, err := kv.Open(dir, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func mustRunner(t testing.TB, cfg projector.Config) *projector.Runner {
	t.Helper()
	r, err := projector.NewRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustDigest(t testing.TB, r *projector.Runner) projector.Digest {
	t.Helper()
	d, err := r.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustReplay(t testing.TB, l *ledgertest.Ledger, to ledger.Seq, ps ...projector.Projection) projector.Replayed {
	t.Helper()
	out, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, To: to, Projections: ps, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mixed(seed uint64, n int) *ledgertest.Ledger {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(seed, 7)), n)
	return l
}

// tally counts records by type; it shows when and with what it was built.
type tally struct {
	version int
	fail    func(*projector.Record) error
	early   bool // edit before failing
}

func (p tally) Name() string { return "tally" }
func (p tally) Version() int { return p.version }

func (p tally) Apply(b *projector.Batch, r *projector.Record) error {
	if p.fail != nil {
		if err := p.fail(r); err != nil {
			if p.early {
				projector.Edit[int](b, "edited")
			}
			return err
		}
	}
	n, _ := projector.Edit[int](b, r.Event.Type)
	*n += p.version
	return nil
}

// TestReplayEqualsLive: however the records were batched, stopped and resumed,
// the state is the one that a replay computes, and its root is the ledger's.
func TestReplayEqualsLive(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		l := mixed(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 120).Draw(t, "records"))
		if rapid.Bool().Draw(t, "foreign") {
			l.PutRaw([]byte("not a record"))
			l.Mix(rand.New(rand.NewPCG(9, 9)), 20)
		}
		head, _ := l.Head(ctx)
		db, err := kv.Open(fmt.Sprintf("%s/%d", base, n), kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		stops := rapid.SliceOfN(rapid.IntRange(0, int(head)), 0, 3).Draw(t, "stops")
		for _, to := range append(stops, int(head)) {
			r, err := projector.NewRunner(projector.Config{
				DB: db, Source: l, Projections: view.All(),
				CommitEvery: rapid.IntRange(1, 40).Draw(t, "every"), Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CatchUp(ctx, ledger.Seq(to)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := projector.NewState(db)
		if err != nil {
			t.Fatal(err)
		}
		live, err := s.Digest()
		if err != nil {
			t.Fatal(err)
		}
		again, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, Projections: view.All(), Dir: base})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(live) != fmt.Sprint(again.Digest) {
			t.Fatalf("live   %+v\nreplay %+v", live, again.Digest)
		}
		var tree ledger.Tree
		for seq := range head {
			tree.Append(ledger.Leaf(l.Body(seq + 1)))
		}
		if live.Root != tree.Root().String() {
			t.Fatalf("root %s, want %s", live.Root, tree.Root())
		}
	})
}

// TestCrash kills a process between two commits, several times over, and goes on.
func TestCrash(t *testing.T) {
	l := mixed(3, 400)
	if dir := os.Getenv("PROJECTOR_TEST_CRASH_DIR"); dir != "" {
		after, _ := strconv.Atoi(os.Getenv("PROJECTOR_TEST_CRASH_AFTER"))
		commits := 0
		r := mustRunner(t, projector.Config{DB: mustOpen(t, dir), Source: l, Projections: view.All(), CommitEvery: 9,
			Progress: func(projector.Status) {
				if commits++; commits == after {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}})
		t.Fatal("survived:", r.CatchUp(ctx, 0))
	}
	dir := t.TempDir()
	for _, after := range []int{1, 5, 17} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), "PROJECTOR_TEST_CRASH_DIR="+dir, "PROJECTOR_TEST_CRASH_AFTER="+strconv.Itoa(after))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("child: %v\n%s", err, out)
		}
	}
	db := mustOpen(t, dir)
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	if at := r.Status().Seq; at%9 != 0 || at >= 400 {
		t.Fatalf("after the crashes the views stand at %d, which is no commit", at)
	}
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := mustDigest(t, r), mustReplay(t, l, 0, view.All()...).Digest; got.SHA256 != want.SHA256 {
		t.Errorf("digest %s, want %s", got.SHA256, want.SHA256)
	}
}

func flip(seq ledger.Seq, at func([]byte) int) func(ledger.Seq, []byte) []byte {
	return func(s ledger.Seq, body []byte) []byte {
		if s != seq {
			return body
		}
		body = append([]byte(nil), body...)
		body[at(body)] ^= 1
		return body
	}
}

func TestHalts(t *testing.T) {
	inEvent := func(b []byte) int { return strings.Index(string(b), `"source":"urn`) + 12 }
	tests := []struct {
		name   string
		folded int // before the change
		change func(l *ledgertest.Ledger)
		want   error
		seq    ledger.Seq // of the evidence
		stands ledger.Seq // the views afterwards
	}{
		{"gap", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				if s == 20 {
					return nil
				}
				return b
			}
		}, projector.ErrGap, 21, 19},
		{"feed ends early", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				if s > 40 {
					return nil
				}
				return b
			}
		}, projector.ErrGap, 41, 40},
		{"flipped byte", 0, func(l *ledgertest.Ledger) { l.Mangle = flip(20, inEvent) }, projector.ErrCorrupt, 21, 20},
		{"flipped byte in prev", 0, func(l *ledgertest.Ledger) {
			l.Mangle = flip(20, func(b []byte) int { return strings.Index(string(b), `"prev":"`) + 8 })
		}, projector.ErrCorrupt, 20, 19},
		{"another's sequence", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				return []byte(strings.Replace(string(b), `{"v":1,"seq":20,`, `{"v":1,"seq":19,`, 1))
			}
		}, projector.ErrCorrupt, 20, 19},
		{"later format", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				return []byte(strings.Replace(string(b), `{"v":1,"seq":20,`, `{"v":2,"seq":20,`, 1))
			}
		}, ledger.ErrUnsupportedVersion, 20, 19},
		{"two successors", 0, func(l *ledgertest.Ledger) {
			l.Truncate(30)
			prev := ledger.Leaf(l.Body(29))
			h := ledger.Header{Seq: 31, Prev: prev, RecordedAt: l.Now(), Principal: "agent/piper", Namespace: "production"}
			l.PutRaw(ledger.AppendRecord(nil, h, []byte(`{"a":1}`)))
		}, projector.ErrFork, 31, 30},
		{"history rewritten under the cursor", 50, func(l *ledgertest.Ledger) {
			l.Truncate(49)
			l.Mix(rand.New(rand.NewPCG(8, 8)), 10)
		}, projector.ErrFork, 50, 50},
		{"cursor past the head", 50, func(l *ledgertest.Ledger) { l.Truncate(48) }, projector.ErrAhead, 50, 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := mixed(5, 60)
			db := mustOpen(t, t.TempDir())
			defer db.Close()
			cfg := projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 7}
			if tt.folded > 0 {
				if err := mustRunner(t, cfg).CatchUp(ctx, ledger.Seq(tt.folded)); err != nil {
					t.Fatal(err)
				}
			}
			tt.change(l)
			r := mustRunner(t, cfg)
			err := r.CatchUp(ctx, 0)
			var link *projector.LinkError
			if !errors.Is(err, tt.want) || !errors.As(err, &link) || link.Seq != tt.seq {
				t.Fatalf("got %v, want %v at %d", err, tt.want, tt.seq)
			}
			st := r.Status()
			if st.Seq != tt.stands || st.Halted != err.Error() {
				t.Errorf("status %+v, want seq %d and the error", st, tt.stands)
			}
		})
	}
}

func acknowledge(l *ledgertest.Ledger, who string, seq ledger.Seq) ledger.Seq {
	return l.Put(who, "production", &events.ForeignAcknowledged{Seq: uint64(seq), SHA256: ledger.Leaf(l.Body(seq)).String()})
}

func foreignOf(t *testing.T, r *projector.Runner) (s projector.LedgerState, list []projector.Foreign) {
	t.Helper()
	err := r.View(func(st *projector.State) (err error) {
		if s, err = st.Ledger(); err != nil {
			return err
		}
		return st.Foreign(func(f projector.Foreign) error { list = append(list, f); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

func TestForeignMessage(t *testing.T) {
	l := mixed(5, 30)
	seq := l.PutRaw([]byte("\x00 somebody else's"))
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s, list := foreignOf(t, r)
	if s.Records != 30 || s.Foreign != 1 || s.Unacknowledged != 1 || len(list) != 1 || list[0].Seq != seq || list[0].AcknowledgedAt != 0 {
		t.Errorf("before: %+v %+v", s, list)
	}
	acknowledge(l, "agent/piper", seq) // an agent's word is none
	ack := acknowledge(l, "operator/op", seq)
	l.Mix(rand.New(rand.NewPCG(1, 1)), 10)
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s, list = foreignOf(t, r)
	if s.Records != 42 || s.Foreign != 1 || s.Unacknowledged != 0 || list[0].AcknowledgedAt != ack {
		t.Errorf("after: %+v %+v", s, list)
	}
	if r.Status().Foreign != 1 {
		t.Errorf("status %+v", r.Status())
	}
}

// forge stores a record of somebody else: it parses, but does not link.
func forge(l *ledgertest.Ledger) ledger.Seq {
	head, _ := l.Head(ctx)
	h := ledger.Header{Seq: head + 1, RecordedAt: l.Now(), Principal: "operator/op", Namespace: "production"}
	return l.PutRaw(ledger.AppendRecord(nil, h, []byte(`{"forged":true}`)))
}

func TestForgedRecord(t *testing.T) {
	tests := []struct {
		name  string
		after func(l *ledgertest.Ledger, forged ledger.Seq)
		ok    bool
	}{
		{"nothing follows", func(*ledgertest.Ledger, ledger.Seq) {}, false},
		{"acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			acknowledge(l, "operator/op", f)
			l.Mix(rand.New(rand.NewPCG(1, 1)), 5)
		}, true},
		{"logger restarted, then acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			l.Put("logger/main", "production", &events.LoggerStarted{BootID: "b", HeadSeq: uint64(f), HeadLeaf: l.Leaf().String(), Software: "assay"})
			acknowledge(l, "operator/op", f)
		}, true},
		{"two, both acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			g := forge(l)
			acknowledge(l, "operator/op", g)
			acknowledge(l, "operator/op", f)
		}, true},
		{"two, one acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			forge(l)
			acknowledge(l, "operator/op", f)
			l.Mix(rand.New(rand.NewPCG(1, 1)), 5)
		}, false},
		{"acknowledged by an agent", func(l *ledgertest.Ledger, f ledger.Seq) { acknowledge(l, "agent/piper", f) }, false},
		{"not acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) { l.Mix(rand.New(rand.NewPCG(1, 1)), 5) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := mixed(5, 30)
			forged := forge(l)
			tt.after(l, forged)
			db := mustOpen(t, t.TempDir())
			defer db.Close()
			r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 1})
			err := r.CatchUp(ctx, 0)
			if tt.ok {
				if err != nil {
					t.Fatal(err)
				}
				if s, list := foreignOf(t, r); s.Unacknowledged != 0 || list[0].Seq != forged {
					t.Errorf("%+v %+v", s, list)
				}
				if got, want := mustDigest(t, r).SHA256, mustReplay(t, l, 0, view.All()...).SHA256; got != want {
					t.Errorf("digest %s, replay %s", got, want)
				}
				return
			}
			var link *projector.LinkError
			if !errors.Is(err, projector.ErrCorrupt) && !errors.Is(err, projector.ErrFork) || !errors.As(err, &link) || link.Seq < forged {
				t.Fatalf("got %v", err)
			}
			if at := r.Status().Seq; at != forged-1 {
				t.Errorf("views at %d, want %d: nothing behind a suspect is committed", at, forged-1)
			}
		})
	}
}

func TestParking(t *testing.T) {
	l := mixed(5, 40)
	l.PutEvent("agent/piper", "production", []byte(`{"specversion":"1.0"}`)) // 41: no event
	l.Mix(rand.New(rand.NewPCG(1, 1)), 9)
	odd := errors.New("odd record")
	p := tally{version: 1, fail: func(r *projector.Record) error {
		if r.Seq == 7 || r.Seq == 44 {
			return odd
		}
		return nil
	}}
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	cfg := projector.Config{DB: db, Source: l, Projections: []projector.Projection{p}, CommitEvery: 5}
	r := mustRunner(t, cfg)
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := r.View(func(s *projector.State) error {
		return s.Parked(func(p projector.Parked) error {
			got = append(got, fmt.Sprintf("%s/%d", p.Projection, p.Seq))
			if p.Projection == "tally" && p.Reason != odd.Error() {
				t.Errorf("reason %q", p.Reason)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "[ledger/41 tally/7 tally/44]"; fmt.Sprint(got) != want {
		t.Errorf("parked %v, want %s", got, want)
	}
	if n := r.Status().Parked; n != 3 {
		t.Errorf("counted %d", n)
	}
	if n := mustRunner(t, cfg).Status().Parked; n != 3 {
		t.Errorf("counted %d after a restart", n)
	}
}

func TestPartialApplyHalts(t *testing.T) {
	p := tally{version: 1, early: true, fail: func(r *projector.Record) error {
		if r.Seq == 7 {
			return errors.New("too late")
		}
		return nil
	}}
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: mixed(5, 20), Projections: []projector.Projection{p}, CommitEvery: 5})
	if err := r.CatchUp(ctx, 0); !errors.Is(err, projector.ErrPartialApply) {
		t.Fatalf("got %v", err)
	}
	if at := r.Status().Seq; at != 5 {
		t.Errorf("views at %d, want the commit before", at)
	}
}

// TestVersionRebuild: readers see the old version whole until the new one has
// come as far, through an interruption, and nothing of the old one stays.
func TestVersionRebuild(t *testing.T) {
	l := mixed(5, 200)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	config := func(version int) projector.Config {
		return projector.Config{DB: db, Source: l, Projections: append(view.All(), tally{version: version}), CommitEvery: 10}
	}
	if err := mustRunner(t, config(1)).CatchUp(ctx, 150); err != nil {
		t.Fatal(err)
	}
	read := func() (version int, sum int) {
		s, err := projector.NewState(db)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Cursors() {
			if c.Projection == "tally" {
				version = c.Version
			}
		}
		err = projector.Scan(s, "tally", "", "", func(_ string, n *int) error { sum += *n; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return version, sum
	}
	if v, sum := read(); v != 1 || sum != 150 {
		t.Fatalf("version %d counts %d", v, sum)
	}
	stop, cancel := context.WithCancel(ctx)
	cfg := config(2)
	cfg.Progress = func(st projector.Status) {
		if v, sum := read(); v != 1 || sum != 150 || fmt.Sprint(st.Rebuilding) != "[tally]" {
			t.Errorf("at %d readers see version %d with %d, rebuilding %v", st.Seq, v, sum, st.Rebuilding)
		}
		cancel()
	}
	if err := mustRunner(t, cfg).CatchUp(stop, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	r := mustRunner(t, config(2))
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if v, sum := read(); v != 2 || sum != 400 {
		t.Errorf("swapped to version %d with %d", v, sum)
	}
	err := db.Scan([]byte("s/tally/1/"), nil, func(k, _ []byte) error { return fmt.Errorf("%s is left", k) })
	if err != nil {
		t.Error(err)
	}
	if got, want := mustDigest(t, r).SHA256, mustReplay(t, l, 0, append(view.All(), tally{version: 2})...).SHA256; got != want {
		t.Errorf("digest %s, replay %s", got, want)
	}
}

// TestNewProjection is a rebuild without an old version.
func TestNewProjection(t *testing.T) {
	l := mixed(5, 100)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	if err := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()}).CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithCancel(ctx)
	cfg := projector.Config{DB: db, Source: l, Projections: append(view.All(), tally{version: 1}), CommitEvery: 10,
		Progress: func(projector.Status) { cancel() }}
	if err := mustRunner(t, cfg).CatchUp(stop, 0); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cfg.Progress = nil
	r := mustRunner(t, cfg)
	if _, err := r.Digest(); !errors.Is(err, projector.ErrUneven) {
		t.Errorf("digest while one is behind: %v", err)
	}
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := mustDigest(t, r).SHA256, mustReplay(t, l, 0, append(view.All(), tally{version: 1})...).SHA256; got != want {
		t.Errorf("digest %s, replay %s", got, want)
	}
}

func TestFollow(t *testing.T) {
	l := mixed(5, 50)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	seen := make(chan ledger.Seq, 1000)
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All(), HeadEvery: time.Millisecond,
		Progress: func(s projector.Status) { seen <- s.Seq }})
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(stop) }()
	waitFor := func(seq ledger.Seq) {
		t.Helper()
		for at := range seen {
			if at == seq {
				return
			}
		}
	}
	waitFor(50)
	for i := range 5 {
		l.Mix(rand.New(rand.NewPCG(1, uint64(i))), 1)
		waitFor(ledger.Seq(51 + i)) // a pause in the feed commits
	}
	if got, want := mustDigest(t, r).SHA256, mustReplay(t, l, 55, view.All()...).SHA256; got != want {
		t.Errorf("digest %s, replay %s", got, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run after its context ended: %v", err)
	}
	go func() { done <- r.Run(ctx) }()
	l.Truncate(40) // restored from a backup under a running consumer, or just before it started
	if err := <-done; !errors.Is(err, projector.ErrAhead) {
		t.Errorf("Run over a ledger that was cut back: %v", err)
	}
}

func TestStatusLag(t *testing.T) {
	l := mixed(5, 50)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	if err := r.CatchUp(ctx, 20); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(); s.Seq != 20 || s.Head != 50 || s.Lag != 30 {
		t.Errorf("%+v", s)
	}
	if err := r.CatchUp(ctx, 51); !errors.Is(err, projector.ErrAhead) {
		t.Errorf("CatchUp past the head: %v", err)
	}
}

func TestSnapshot(t *testing.T) {
	l := mixed(5, 120)
	base := t.TempDir()
	db := mustOpen(t, base+"/live")
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	dir := base + "/snapshots"
	if list, err := projector.ListSnapshots(dir); err != nil || len(list) != 0 {
		t.Fatalf("no snapshots: %v, %v", list, err)
	}
	var paths []string
	for _, to := range []ledger.Seq{50, 120} {
		if err := r.CatchUp(ctx, to); err != nil {
			t.Fatal(err)
		}
		path, m, err := r.Snapshot(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := mustReplay(t, l, to, view.All()...).Digest; fmt.Sprint(m.Digest) != fmt.Sprint(want) {
			t.Errorf("manifest %+v, replay %+v", m.Digest, want)
		}
		paths = append(paths, path)
	}
	if again, _, err := r.Snapshot(ctx, dir); err != nil || again != paths[1] {
		t.Errorf("second snapshot of a record: %s, %v", again, err)
	}
	list, err := projector.ListSnapshots(dir)
	if err != nil || len(list) != 2 || list[0].Path != paths[0] || list[1].Manifest.Seq != 120 {
		t.Errorf("list %+v, %v", list, err)
	}
	for _, p := range paths {
		if _, err := projector.VerifySnapshot(p); err != nil {
			t.Error(err)
		}
	}
	s, sdb, err := projector.OpenSnapshot(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if seq, _, err := s.At(); err != nil || seq != 50 {
		t.Errorf("snapshot at %d, %v", seq, err)
	}
	sdb.Close()

	manifest := paths[0] + "/manifest.json"
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(manifest, []byte(strings.Replace(string(data), `"seq":50`, `"seq":51`, 1)), 0o600)
	if _, err := projector.VerifySnapshot(paths[0]); !errors.Is(err, projector.ErrSnapshot) || !strings.Contains(err.Error(), "seq is 50") {
		t.Errorf("altered manifest: %v", err)
	}
	tampered := mustOpen(t, paths[1]+"/store")
	b := tampered.NewBatch()
	b.Put([]byte("s/claims/1/c\x00production\x00forged"), []byte(`{}`))
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	tampered.Close()
	if _, err := projector.VerifySnapshot(paths[1]); !errors.Is(err, projector.ErrSnapshot) || !strings.Contains(err.Error(), "digest is") {
		t.Errorf("altered store: %v", err)
	}
}

// TestDigestFormat computes the documented format by hand.
func TestDigestFormat(t *testing.T) {
	l := mixed(5, 12)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: []projector.Projection{tally{version: 3}}})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	var doc []byte
	number := func(n int) { doc = binary.BigEndian.AppendUint64(doc, uint64(n)) }
	sized := func(s []byte) { number(len(s)); doc = append(doc, s...) }
	for _, p := range []struct {
		name    string
		version int
	}{{"ledger", 1}, {"tally", 3}} {
		doc = append(doc, 'P')
		sized([]byte(p.name))
		number(p.version)
		prefix := fmt.Sprintf("s/%s/%d/", p.name, p.version)
		err := db.Scan([]byte(prefix), nil, func(k, v []byte) error {
			doc = append(doc, 'E')
			sized(k[len(prefix):])
			sized(v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(doc)
	if got := mustDigest(t, r); got.SHA256 != hex.EncodeToString(sum[:]) || got.Seq != 12 || got.Leaf != l.Leaf().String() {
		t.Errorf("%+v, want %x", got, sum)
	}
}

func TestReplayToEarlierRecord(t *testing.T) {
	l := mixed(5, 90)
	var seen ledger.Seq
	out, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, To: 60, Projections: view.All(), Dir: t.TempDir(),
		Inspect: func(s *projector.State) (err error) { seen, _, err = s.At(); return err }})
	if err != nil || out.Seq != 60 || seen != 60 || out.Records != 60 {
		t.Errorf("%+v, inspected at %d, %v", out, seen, err)
	}
	if _, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, To: 91, Projections: view.All(), Dir: t.TempDir()}); !errors.Is(err, projector.ErrAhead) {
		t.Errorf("past the head: %v", err)
	}
	if _, err := projector.Replay(ctx, projector.ReplayConfig{Source: ledgertest.New(), Projections: view.All(), Dir: t.TempDir()}); !errors.Is(err, projector.ErrNoState) {
		t.Errorf("empty ledger: %v", err)
	}
}
