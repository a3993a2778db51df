package projector_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// built is the views with tally of a version; 0 is without it.
func built(version int) []projector.Projection {
	if version == 0 {
		return view.All()
	}
	return append(view.All(), tally{version: version})
}

// foldTo goes to the record to, or until a first commit behind stop.
func foldTo(t testing.TB, db *kv.DB, l *ledgertest.Ledger, version int, stop, to ledger.Seq) *projector.Runner {
	t.Helper()
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: built(version), CommitEvery: 10,
		Progress: func(s projector.Status) {
			if stop > 0 && s.Seq >= stop {
				cancel()
			}
		}})
	if err := r.CatchUp(until, to); err != nil && (stop == 0 || !errors.Is(err, context.Canceled)) {
		t.Fatal(err)
	}
	return r
}

func versionOf(t testing.TB, db *kv.DB, projection string) int {
	t.Helper()
	s, err := projector.NewState(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Cursors() {
		if c.Projection == projection {
			return c.Version
		}
	}
	return 0
}

// checkEnd wants the state that a replay has and nothing else in the store.
func checkEnd(t testing.TB, r *projector.Runner, db *kv.DB, l *ledgertest.Ledger, version int) {
	t.Helper()
	if got, want := mustDigest(t, r), mustReplay(t, l, 0, built(version)...).Digest; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("digest %+v, replay %+v", got, want)
	}
	checkKept(t, r)
	if s := r.Status(); len(s.Rebuilding) > 0 {
		t.Errorf("still rebuilding %v", s.Rebuilding)
	}
	for _, prefix := range []string{"s/", "d/", "c/"} {
		err := db.Scan([]byte(prefix+"tally/"), nil, func(k, _ []byte) error {
			if !strings.HasPrefix(string(k), fmt.Sprintf("%stally/%d", prefix, version)) {
				return fmt.Errorf("%s is left", k)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestServedDuringRebuild: while another version is built readers have the old
// views whole: their digest, their root, and snapshots of them.
func TestServedDuringRebuild(t *testing.T) {
	l := mixed(5, 300)
	base := t.TempDir()
	db := mustOpen(t, base+"/views")
	defer db.Close()
	before := mustDigest(t, foldTo(t, db, l, 1, 0, 200))
	seen := 0
	var r *projector.Runner
	r = mustRunner(t, projector.Config{DB: db, Source: l, Projections: built(2), CommitEvery: 10,
		Progress: func(s projector.Status) {
			if len(s.Rebuilding) == 0 {
				return
			}
			seen++
			if got := mustDigest(t, r); fmt.Sprint(got) != fmt.Sprint(before) {
				t.Errorf("at %d readers see %+v, want %+v", s.Seq, got, before)
			}
			if seen == 3 {
				path, m, err := r.Snapshot(ctx, base+"/snapshots", 4)
				if err != nil || m.SHA256 != before.SHA256 || m.Root != before.Root {
					t.Fatalf("snapshot %+v, %v", m, err)
				}
				if _, err := projector.VerifySnapshot(path); err != nil {
					t.Error(err)
				}
			}
		}})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if seen < 15 {
		t.Errorf("looked %d times", seen)
	}
	checkEnd(t, r, db, l, 2)
}

// TestRebuildSurvivesKills: kill -9 in the middle of a rebuild, several times.
// What was served is served on, and the build goes on where it was.
func TestRebuildSurvivesKills(t *testing.T) {
	l := mixed(3, 400)
	if dir := os.Getenv("PROJECTOR_TEST_REBUILD_DIR"); dir != "" {
		commits := 0
		db := mustOpen(t, dir)
		r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: built(2), CommitEvery: 10,
			Progress: func(projector.Status) {
				switch commits++; commits {
				case 6: // what is behind it may be lost
					if err := db.Sync(); err != nil {
						t.Fatal(err)
					}
				case 7:
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}})
		t.Fatal("survived:", r.CatchUp(ctx, 0))
	}
	dir := t.TempDir()
	db := mustOpen(t, dir)
	before := mustDigest(t, foldTo(t, db, l, 1, 0, 300))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var stood ledger.Seq
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRebuildSurvivesKills$")
		cmd.Env = append(os.Environ(), "PROJECTOR_TEST_REBUILD_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("child: %v\n%s", err, out)
		}
		db := mustOpen(t, dir)
		r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: built(2)})
		if got := mustDigest(t, r); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("after a kill readers see %+v, want %+v", got, before)
		}
		if s := r.Status(); s.Seq < stood || s.Seq >= 300 || fmt.Sprint(s.Rebuilding) != "[tally]" {
			t.Errorf("the build stands at %d, before at %d, rebuilding %v", s.Seq, stood, s.Rebuilding)
		} else {
			stood = s.Seq
		}
		db.Close()
	}
	if stood == 0 {
		t.Error("every build began anew")
	}
	db = mustOpen(t, dir)
	defer db.Close()
	checkEnd(t, foldTo(t, db, l, 2, 0, 0), db, l, 2)
}

// TestBuildsThatWereGivenUp: builds of the software come and go while something
// is built; each finds a store that it can go on with, and the last one leaves
// nothing of the others.
func TestBuildsThatWereGivenUp(t *testing.T) {
	for _, steps := range []string{
		"2@100 3@50 2",         // another one began a build of its own, from the start
		"2@100 3@50 3@180 2@5", // and both went on
		"2@100 1 2",            // back to the one before, which goes on with the ledger
		"2@100 1@350 2@120 3",
		"0@100 1", // the projection is dropped, and comes back
		"0 1",
		"0 0",
	} {
		t.Run(strings.ReplaceAll(steps, " ", "_"), func(t *testing.T) {
			l := mixed(5, 400)
			db := mustOpen(t, t.TempDir())
			defer db.Close()
			foldTo(t, db, l, 1, 0, 300)
			last := 0
			for _, step := range strings.Fields(steps) {
				version, at, _ := strings.Cut(step, "@")
				last, _ = strconv.Atoi(version)
				stop, _ := strconv.Atoi(at)
				foldTo(t, db, l, last, ledger.Seq(stop), 0)
				if _, err := mustRunner(t, projector.Config{DB: db, Source: l, Projections: built(last)}).Digest(); err != nil {
					t.Errorf("after %s: %v", step, err)
				}
			}
			checkEnd(t, foldTo(t, db, l, last, 0, 0), db, l, last)
			if got := versionOf(t, db, "tally"); got != last {
				t.Errorf("readers see version %d", got)
			}
		})
	}
}
