package metric_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/internal/kv"
	"assay/internal/kv/kvtest"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

// outcome is what must not depend on how a prefix was folded.
type outcome struct {
	digest string
	score  []byte
}

func outcomeOf(t rapid.TB, s *projector.State) outcome {
	t.Helper()
	d, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.KeptDigest()
	if err != nil || fmt.Sprint(kept) != fmt.Sprint(d) {
		t.Fatalf("kept %+v, %v; the bytes give %+v", kept, err, d)
	}
	score, err := metric.Compute(s, "")
	if err != nil {
		t.Fatal(err)
	}
	data, err := score.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return outcome{fmt.Sprint(d), data}
}

func (o outcome) check(t rapid.TB, how string, want outcome) {
	t.Helper()
	if o.digest != want.digest {
		t.Errorf("%s: %s, a replay has %s", how, o.digest, want.digest)
	}
	if !bytes.Equal(o.score, want.score) {
		t.Errorf("%s: %s\na replay has %s", how, o.score, want.score)
	}
}

// TestAnyPrefix: views, digest and score of any prefix of a ledger are the same
// to the bit, in whatever batches it was folded, wherever it stopped or crashed,
// whatever of what is kept beside the views was lost with that, and from whatever
// snapshot a replay goes on.
func TestAnyPrefix(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
		l := ledgertest.New()
		for range rapid.IntRange(1, 4).Draw(t, "days") { // so that claims grow old
			l.Mix(rng, rapid.IntRange(1, 80).Draw(t, "records"))
			l.Advance(4 * 24 * time.Hour)
		}
		head, _ := l.Head(t.Context())
		to := ledger.Seq(rapid.IntRange(1, int(head)).Draw(t, "prefix"))
		var want outcome
		_, err := projector.Replay(t.Context(), projector.ReplayConfig{Source: l, Projections: view.All(), To: to, Dir: base,
			Inspect: func(s *projector.State) error { want = outcomeOf(t, s); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		crashed(t, l, to, rng).check(t, "with crashes", want)
		fromSnapshot(t, l, to, filepath.Join(base, fmt.Sprint(n))).check(t, "from a snapshot", want)
	})
}

// crashed folds in several lives, each ended by a stop or by a crash that leaves
// what was not synced, or part of it.
func crashed(t *rapid.T, l *ledgertest.Ledger, to ledger.Seq, rng *rand.Rand) (out outcome) {
	disk := kvtest.NewDisk()
	lives := rapid.SliceOfN(rapid.IntRange(1, int(to)), 0, 3).Draw(t, "lives")
	for _, stop := range append(lives, int(to)) {
		db, err := kv.Open("views", kv.Options{FS: disk.FS()})
		if err != nil {
			t.Fatal(err)
		}
		r, err := projector.NewRunner(projector.Config{
			DB: db, Source: l, Projections: view.All(), Keep: metric.KeepAll,
			CommitEvery: rapid.IntRange(1, 40).Draw(t, "every"), Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CatchUp(t.Context(), ledger.Seq(stop)); err != nil {
			t.Fatal(err)
		}
		if ledger.Seq(stop) == to && r.Status().Seq == to {
			err = r.View(func(s *projector.State) error { out = outcomeOf(t, s); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if percent := rapid.IntRange(-1, 100).Draw(t, "crash"); percent >= 0 {
			disk = disk.Crash(percent, rng)
		}
		db.Close()
	}
	return out
}

// fromSnapshot replays from a snapshot of an earlier record.
func fromSnapshot(t *rapid.T, l *ledgertest.Ledger, to ledger.Seq, dir string) (out outcome) {
	db, err := kv.Open(filepath.Join(dir, "views"), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), Keep: metric.KeepAll, CommitEvery: rapid.IntRange(1, 40).Draw(t, "snapshot every")})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context(), ledger.Seq(rapid.IntRange(1, int(to)).Draw(t, "snapshot"))); err != nil {
		t.Fatal(err)
	}
	path, _, err := r.Snapshot(t.Context(), filepath.Join(dir, "snapshots"), metric.Version)
	if err != nil {
		t.Fatal(err)
	}
	_, err = projector.Replay(t.Context(), projector.ReplayConfig{From: path, Source: l, Projections: view.All(), To: to, Dir: dir,
		Inspect: func(s *projector.State) error { out = outcomeOf(t, s); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := projector.VerifySnapshot(path); err != nil {
		t.Fatal(err) // the replay shares its files
	}
	return out
}
