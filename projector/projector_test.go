package projector_test

import (
	"context"
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
	first := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	if err := first.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	before := mustDigest(t, first)
	stop, cancel := context.WithCancel(ctx)
	cfg := projector.Config{DB: db, Source: l, Projections: append(view.All(), tally{version: 1}), CommitEvery: 10,
		Progress: func(projector.Status) { cancel() }}
	if err := mustRunner(t, cfg).CatchUp(stop, 0); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cfg.Progress = nil
	r := mustRunner(t, cfg)
	if got := mustDigest(t, r); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("while one is built readers see %+v, before it was %+v", got, before)
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
