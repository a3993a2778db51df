package logger_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// simSchedules is how many schedules a plain `go test` runs.
	simSchedules = 1500
	// simShards run beside each other.
	simShards = 2
	// simStuck is how long a schedule may take by the real clock: a few
	// milliseconds are usual.
	simStuck = 2 * time.Minute
)

// TestSimulation runs the logger against a stream, a disk, a clock and
// neighbours that do whatever a seed says, in virtual time. ASSAY_SIM_SCHEDULES
// is how many seeds, ASSAY_SIM_SEED runs one of them and prints what happens.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("ASSAY_SIM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("ASSAY_SIM_SEED=%q: %v", text, err)
		}
		s := simulate(t, openOnce(t), seed)
		t.Logf("seed %d, trace %s:\n%s", seed, s.digest(), strings.Join(s.lines, "\n"))
		return
	}
	n := uint64(simSchedules)
	if text := os.Getenv("ASSAY_SIM_SCHEDULES"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ASSAY_SIM_SCHEDULES=%q: %v", text, err)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a logger's life is short here
	opened := openOnce(t)
	var next, failed atomic.Uint64
	for shard := range simShards {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			for seed := next.Add(1); seed <= n && failed.Load() < 3; seed = next.Add(1) {
				if s := simulate(t, opened, seed); len(s.breaches) > 0 {
					failed.Add(1)
				}
			}
		})
	}
}

// openOnce makes what most schedules begin with.
func openOnce(t *testing.T) (o *opening) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, filepath.Join(dir, "logger"), 0)
		s.calm = true
		s.run(s.genesis)
		o = &opening{s.stream.stored[0], s.disk, s.files.durable}
	})
	return o
}

// simulate runs one schedule and reports what it broke.
func simulate(t *testing.T, opened *opening, seed uint64) (s *sim) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	again := fmt.Sprintf("ASSAY_SIM_SEED=%d go test -run '^TestSimulation$' -v ./ledger/logger", seed)
	watchdog := time.AfterFunc(simStuck, func() { panic("the schedule does not end: " + again) })
	defer watchdog.Stop()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("%v\n%s", p, again))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s = newSim(t, filepath.Join(dir, "logger"), seed)
		s.run(func() { s.schedule(opened) })
	})
	if len(s.breaches) > 0 {
		t.Errorf("seed %d: %s\nreplay: %s\n…\n%s", seed, strings.Join(s.breaches, "\n  "), again, strings.Join(s.lines[max(0, len(s.lines)-60):], "\n"))
	}
	return s
}

func (s *sim) digest() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// TestSimulationReplays runs seeds twice: the trace, with the bytes of every
// append, answer and checkpoint, must come out the same.
func TestSimulationReplays(t *testing.T) {
	t.Parallel()
	opened := openOnce(t)
	for seed := uint64(1); seed <= 40; seed++ {
		a, b := simulate(t, opened, seed), simulate(t, opened, seed)
		if a.digest() == b.digest() {
			continue
		}
		for i, line := range a.lines {
			if i >= len(b.lines) || b.lines[i] != line {
				t.Fatalf("seed %d, line %d of the trace:\n%s\n%s", seed, i, line, strings.Join(b.lines[min(i, len(b.lines)):min(i+1, len(b.lines))], ""))
			}
		}
		t.Fatalf("seed %d: the traces differ", seed)
	}
}
