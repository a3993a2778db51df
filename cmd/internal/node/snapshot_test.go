package node

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

// TestSeqAt: ledger time is the running maximum, so that a record which the
// clock dates back belongs to where it stands.
func TestSeqAt(t *testing.T) {
	l := ledgertest.New()
	put := func() {
		l.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"})
	}
	put()                  // 1 at 0 s
	put()                  // 2 at 1 s
	l.Advance(time.Hour)   //
	put()                  // 3 at 1 h 2 s
	l.Advance(-time.Hour)  //
	put()                  // 4 at 3 s, by a clock that was set back
	l.PutRaw([]byte("no")) // 5 foreign
	l.Advance(2 * time.Hour)
	put() // 6 at 2 h 4 s
	for _, c := range []struct {
		after time.Duration
		want  ledger.Seq
	}{{0, 1}, {time.Second, 2}, {time.Hour, 2}, {time.Hour + 2*time.Second, 5}, {2 * time.Hour, 5}, {3 * time.Hour, 6}} {
		got, err := SeqAt(t.Context(), bookEvidence{l}, ledgertest.Start.Add(c.after))
		if err != nil || got != c.want {
			t.Errorf("%v after the start is record %d, %v; want %d", c.after, got, err, c.want)
		}
	}
	for _, l := range []*ledgertest.Ledger{l, ledgertest.New()} {
		if _, err := SeqAt(t.Context(), bookEvidence{l}, ledgertest.Start.Add(-1)); !errors.Is(err, ErrTooEarly) {
			t.Errorf("before the start: %v", err)
		}
	}
}

// TestSeqOfWeek: the logger's word alone closes a week.
func TestSeqOfWeek(t *testing.T) {
	l := auditBook()
	for week, want := range map[string]ledger.Seq{"2026-W39": 32, "2026-W40": 64} {
		if got, err := SeqOfWeek(t.Context(), bookEvidence{l}, week); err != nil || got != want {
			t.Errorf("%s is record %d, %v; want %d", week, got, err, want)
		}
	}
	if _, err := SeqOfWeek(t.Context(), bookEvidence{l}, "2026-W41"); !errors.Is(err, ErrNoWeek) {
		t.Errorf("an open week: %v", err)
	}
}

// TestScoreAtGoesOnFromTheNearest: of the snapshots before the record the last
// that this build can read; one that was altered is not believed.
func TestScoreAtGoesOnFromTheNearest(t *testing.T) {
	l := auditBook()
	base := t.TempDir()
	db, err := kv.Open(filepath.Join(base, "views"), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All()})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "snapshots")
	paths := map[ledger.Seq]string{}
	for _, seq := range []ledger.Seq{10, 30, 50} {
		if err := r.CatchUp(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		if paths[seq], _, err = r.Snapshot(t.Context(), dir, metric.Version); err != nil {
			t.Fatal(err)
		}
	}
	score := func(at ledger.Seq, snapshots string) (string, string, error) {
		t.Helper()
		s, from, err := ScoreAt(t.Context(), FoldConfig{Evidence: bookEvidence{l}, Snapshots: snapshots, To: at, Log: zerolog.Nop()}, "")
		if err != nil {
			return "", "", err
		}
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if from == nil {
			return string(data), "", nil
		}
		return string(data), from.Path, nil
	}
	for at, want := range map[ledger.Seq]string{9: "", 10: paths[10], 49: paths[30], 64: paths[50]} {
		replayed, _, err := score(at, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, from, err := score(at, dir); err != nil || from != want || got != replayed {
			t.Errorf("score at %d from %q, %v: %s, a replay has %s", at, from, err, got, replayed)
		}
	}
	altered, err := kv.Open(filepath.Join(paths[30], "store"), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := altered.NewBatch()
	b.DeletePrefix([]byte("s/claims/"))
	if err := errors.Join(b.Commit(true), altered.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := score(49, dir); !errors.Is(err, projector.ErrSnapshot) || !strings.Contains(err.Error(), "--replay") {
		t.Errorf("from an altered snapshot: %v", err)
	}
}

// TestScoresAtOnce: several that go on from the same snapshot wait for each other,
// and each has the score that it would have alone. The snapshot stays as it was.
func TestScoresAtOnce(t *testing.T) {
	l := auditBook()
	base := t.TempDir()
	db, err := kv.Open(filepath.Join(base, "views"), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "snapshots")
	path, m, err := r.Snapshot(t.Context(), dir, metric.Version)
	if err != nil {
		t.Fatal(err)
	}
	score := func(snapshots string) (string, string, error) {
		s, from, err := ScoreAt(t.Context(), FoldConfig{Evidence: bookEvidence{l}, Snapshots: snapshots, To: 64, Log: zerolog.Nop()}, "")
		if err != nil {
			return "", "", err
		}
		data, err := s.Encode()
		if from == nil {
			from = &projector.SnapshotInfo{}
		}
		return string(data), from.Path, err
	}
	alone, _, err := score("")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if got, from, err := score(dir); err != nil || from != path || got != alone {
				t.Errorf("from %q, %v: %s, alone %s", from, err, got, alone)
			}
		})
	}
	all.Wait()
	if now, err := projector.VerifySnapshot(path); err != nil || now.SHA256 != m.SHA256 {
		t.Errorf("the snapshot: %+v, %v", now, err)
	}
}
