package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// spread has a key for each record, in no order, and changes old ones.
type spread struct{}

func (spread) Name() string { return "spread" }
func (spread) Version() int { return 3 }

func (spread) Apply(b *projector.Batch, r *projector.Record) error {
	n, _ := projector.Edit[int](b, fmt.Sprintf("%x/%d", r.Leaf[:3], r.Seq))
	*n = int(r.Seq)
	seen, _ := projector.Edit[int](b, fmt.Sprintf("seen/%d", r.Leaf[4]))
	*seen++
	return nil
}

// TestKeptDigest: the hashes that are kept give the digest that the bytes do,
// at every commit, however chunks were split, changed, settled and reopened.
func TestKeptDigest(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		l := mixed(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 600).Draw(t, "records"))
		head, _ := l.Head(ctx)
		db, err := kv.Open(fmt.Sprintf("%s/%d", base, n), kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		stops := rapid.SliceOfN(rapid.IntRange(0, int(head)), 0, 3).Draw(t, "stops")
		for _, to := range append(stops, int(head)) {
			var r *projector.Runner
			r, err = projector.NewRunner(projector.Config{
				DB: db, Source: l, Projections: append(view.All(), spread{}), CommitEvery: rapid.IntRange(1, 200).Draw(t, "every"),
				Progress: func(projector.Status) {
					if err := projector.Settle(r, rapid.IntRange(0, 9).Draw(t, "settle")); err != nil {
						t.Fatal(err)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CatchUp(ctx, ledger.Seq(to)); err != nil {
				t.Fatal(err)
			}
			if to == 0 {
				continue
			}
			checkKept(t, r)
		}
	})
}

func checkKept(t rapid.TB, r *projector.Runner) {
	t.Helper()
	err := r.View(func(s *projector.State) error {
		kept, err := s.KeptDigest()
		if err != nil {
			return err
		}
		if want, err := s.Digest(); err != nil || fmt.Sprint(kept) != fmt.Sprint(want) {
			return fmt.Errorf("kept %+v, computed %+v, %v", kept, want, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunSettles: a runner that has caught up leaves no more than a few chunks
// without a hash, and the hashes that it wrote are right.
func TestRunSettles(t *testing.T) {
	l := mixed(5, 3000)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: append(view.All(), spread{}), KeepStale: 20})
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(stop) }()
	for r.Status().Seq < 3000 || projector.Stale(db) > 20 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkKept(t, r)
	l.Mix(rand.New(rand.NewPCG(1, 1)), 300)
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	checkKept(t, r)
}

// TestKeptDigestOfAnOlderStore: a build that knows no chunks folds on without
// them; what is kept of them then counts no more.
func TestKeptDigestOfAnOlderStore(t *testing.T) {
	l := mixed(5, 500)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	cfg := projector.Config{DB: db, Source: l, Projections: append(view.All(), spread{})}
	if err := mustRunner(t, cfg).CatchUp(ctx, 200); err != nil {
		t.Fatal(err)
	}
	if err := mustRunner(t, projector.Scratch(cfg)).CatchUp(ctx, 400); err != nil {
		t.Fatal(err)
	}
	r := mustRunner(t, cfg)
	checkKept(t, r)
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	checkKept(t, r)
	if projector.Stale(db) == 0 {
		t.Error("no chunks are kept")
	}
}

// TestChunksAreEven: the cuts fall where they should among the keys that views
// have most of.
func TestChunksAreEven(t *testing.T) {
	const keys = 200_000
	for _, format := range []string{"production\x00%020d", "c\x00production\x00claim-%d", "0198f3a2-%04x-7000-8000-%012x"} {
		starts, last, longest := 0, 0, 0
		for i := range keys {
			key := fmt.Sprintf(format, i)
			if format[0] == '0' {
				key = fmt.Sprintf(format, i&0xffff, i*7919)
			}
			if projector.StartsChunk(key) {
				longest = max(longest, i-last)
				last = i
				starts++
			}
		}
		if mean := keys / max(starts, 1); mean < 50 || mean > 80 || longest > 2000 {
			t.Errorf("%q: a chunk has %d keys, the longest %d", format, mean, longest)
		}
	}
}
