package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// TestMarks: whoever reads a key, or everything behind a prefix of it that ends in
// 0x00, notes a mark that a change of the key leaves.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		projection := rapid.StringMatching("[a-z]{1,4}").Draw(t, "projection")
		key := strings.Join(rapid.SliceOfN(rapid.StringMatching("[a-z=]{0,3}"), 1, 5).Draw(t, "parts"), "\x00")
		left := projector.MarksOf(projection, key)
		for i := range len(key) {
			if key[i] == 0 && !slices.Contains(left, projector.MarkOf(projection, key[:i+1])) {
				t.Fatalf("%q leaves no mark of %q", key, key[:i+1])
			}
		}
		if key != "" && !slices.Contains(left, projector.MarkOf(projection, key)) {
			t.Fatalf("%q leaves no mark of its own", key)
		}
	})
}

// standing keeps that everything stands at a record, if so is true.
func standing(so *bool) func(*projector.Keeping) error {
	return func(k *projector.Keeping) error {
		if !*so {
			return nil
		}
		k.Put("x", []byte("what was computed"))
		if err := k.Stand([]byte("note")); err != nil {
			return err
		}
		return k.Commit()
	}
}

// keptAt is where what is kept stands, by a runner's views.
func keptAt(t testing.TB, db *kv.DB) (at ledger.Seq, changed *projector.Changes, err error) {
	t.Helper()
	s, err := projector.NewState(db)
	if err != nil {
		t.Fatal(err)
	}
	at, note, changed, err := s.KeptAt()
	if err == nil && string(note) != "note" {
		t.Errorf("the note is %q", note)
	}
	return at, changed, err
}

// TestKeptKnowsWhatChanged: what changed since something was kept is known from
// commits however they were cut, and over restarts.
func TestKeptKnowsWhatChanged(t *testing.T) {
	l, so := mixed(1, 300), true
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	catchUp := func(to ledger.Seq) {
		t.Helper()
		cfg := projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 7, Keep: standing(&so)}
		if err := mustRunner(t, cfg).CatchUp(ctx, to); err != nil {
			t.Fatal(err)
		}
	}
	before := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		if err := db.Scan([]byte("s/"), nil, func(k, v []byte) error { out[string(k)] = string(v); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	catchUp(100)
	was := before()
	so = false
	catchUp(150)
	catchUp(190)
	at, changed, err := keptAt(t, db)
	if err != nil || at != 100 {
		t.Fatalf("kept at %d, %v", at, err)
	}
	n := 0
	for k, v := range before() {
		_, rest, _ := strings.Cut(k, "/")
		projection, rest, _ := strings.Cut(rest, "/")
		_, key, _ := strings.Cut(rest, "/")
		if was[k] == v || projection == "ledger" {
			continue
		}
		n++
		for _, mark := range projector.MarksOf(projection, key) {
			raw := []byte{byte(mark >> 24), byte(mark >> 16), byte(mark >> 8), byte(mark)}
			if !changed.Since(100, raw) || changed.Since(190, raw) {
				t.Errorf("%s %q changed: %v since 100, %v since 190", projection, key, changed.Since(100, raw), changed.Since(190, raw))
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d values changed", n)
	}
}

// TestKeptIsNotBelieved: where it is not known what changed since, nothing is kept.
func TestKeptIsNotBelieved(t *testing.T) {
	for name, happen := range map[string]func(testing.TB, *kv.DB, *ledgertest.Ledger){
		"somebody who keeps nothing folded on": func(t testing.TB, db *kv.DB, l *ledgertest.Ledger) {
			foldTo(t, db, l, 0, 0, 150)
		},
		"too much changed": func(t testing.TB, db *kv.DB, l *ledgertest.Ledger) {
			no := false
			cfg := projector.Config{DB: db, Source: l, Projections: view.All(), Keep: standing(&no), CommitEvery: 10}
			if err := mustRunner(t, projector.FewMarks(cfg, 200)).CatchUp(ctx, 150); err != nil {
				t.Fatal(err)
			}
			err := db.Scan([]byte("k"), nil, func(k, _ []byte) error { return fmt.Errorf("%q is left", k) })
			if err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, yes := mixed(1, 300), true
			db := mustOpen(t, t.TempDir())
			defer db.Close()
			cfg := projector.Config{DB: db, Source: l, Projections: view.All(), Keep: standing(&yes)}
			if err := mustRunner(t, cfg).CatchUp(ctx, 100); err != nil {
				t.Fatal(err)
			}
			if at, _, err := keptAt(t, db); err != nil || at != 100 {
				t.Fatalf("kept at %d, %v", at, err)
			}
			happen(t, db, l)
			if at, _, err := keptAt(t, db); !errors.Is(err, projector.ErrNoState) {
				t.Errorf("kept at %d, %v", at, err)
			}
			// It goes on from there like anew.
			if err := mustRunner(t, cfg).CatchUp(ctx, 200); err != nil {
				t.Fatal(err)
			}
			if at, _, err := keptAt(t, db); err != nil || at != 200 {
				t.Errorf("then kept at %d, %v", at, err)
			}
		})
	}
}

// TestReplayHasNothingKept: a snapshot brings what is kept along, which its digest
// does not cover; a replay from it has nothing of that.
func TestReplayHasNothingKept(t *testing.T) {
	l, yes, dir := mixed(1, 300), true, t.TempDir()
	db := mustOpen(t, filepath.Join(dir, "views"))
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All(), Keep: standing(&yes)})
	if err := r.CatchUp(ctx, 100); err != nil {
		t.Fatal(err)
	}
	path, _, err := r.Snapshot(ctx, filepath.Join(dir, "snapshots"), 1)
	if err != nil {
		t.Fatal(err)
	}
	err = projector.ReadSnapshot(path, func(s *projector.State) error {
		_, _, _, err := s.KeptAt()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []ledger.Seq{100, 150} {
		_, err := projector.Replay(ctx, projector.ReplayConfig{From: path, Source: l, Projections: view.All(), To: to, Dir: dir, Inspect: func(s *projector.State) error {
			if v, err := s.Kept("x"); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("a replay to %d has %q, %v", to, v, err)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunKeeps: a run brings what is kept up to the views once it has caught up, and
// again after what comes later.
func TestRunKeeps(t *testing.T) {
	l := mixed(1, 300)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	kept := make(chan ledger.Seq, 100)
	keep := func(k *projector.Keeping) error {
		err := k.Stand(nil)
		if err == nil {
			err = k.Commit()
		}
		at, _, aerr := k.At()
		kept <- at
		return errors.Join(err, aerr)
	}
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All(), Keep: keep})
	run, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- r.Run(run) }()
	for round := range 3 {
		head, _ := l.Head(ctx)
		for at := ledger.Seq(0); at < head; {
			select {
			case at = <-kept:
			case <-time.After(time.Minute):
				t.Fatalf("round %d: nothing is kept at %d", round, head)
			}
		}
		l.Mix(rand.New(rand.NewPCG(2, uint64(round))), 20)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
