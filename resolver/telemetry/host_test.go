package telemetry

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"assay/resolver/criterion"
)

// stat is a line of /proc/<pid>/stat whose command tries to confuse a parser.
func stat(pid int, state string, start uint64) *fstest.MapFile {
	fields := make([]string, 52)
	for i := range fields {
		fields[i] = "0"
	}
	fields[0], fields[1], fields[2], fields[21] = fmt.Sprint(pid), "(a) R 1 2 (b", state, fmt.Sprint(start)
	fields[1] += ")"
	return &fstest.MapFile{Data: []byte(strings.Join(fields, " ") + "\n")}
}

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func bySignal(samples []Sample) map[string]Sample {
	out := make(map[string]Sample)
	for _, s := range samples {
		out[s.Signal] = s
	}
	return out
}

func TestHostOnFakeProc(t *testing.T) {
	proc := fstest.MapFS{
		"stat":            file("cpu 1 2\nbtime 1700000000\nprocesses 3\n"),
		"vmstat":          file("nr_free 5\noom_kill_disable 9\noom_kill 4\nnr_x 1\n"),
		"pressure/memory": file("some avg10=1.25 avg60=0.00 avg300=0.00 total=7\nfull avg10=9.00 avg60=0 avg300=0 total=1\n"),
		"7/stat":          stat(7, "S", 555), "7/statm": file("1000 30 5 1 0 1 0\n"),
	}
	now := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	h := NewHost(HostConfig{FS: proc, Now: func() time.Time { return now }, PageSize: 4096})
	if _, err := h.Watch(8); !errors.Is(err, ErrNoProcess) {
		t.Fatalf("watch of nothing: %v", err)
	}
	p, err := h.Watch(7)
	if err != nil || p != (Process{7, 555}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := h.Watch(7); err != nil {
		t.Fatal(err)
	}
	first := h.Read()
	got := bySignal(first)
	if len(first) != 5 || len(got) != 5 {
		t.Fatalf("%d samples of %d signals, want 5: %+v", len(first), len(got), first)
	}
	for signal, want := range map[string]float64{
		criterion.SignalProcessRSS: 30 * 4096, criterion.SignalProcessUp: 1, criterion.SignalOOMKill: 4,
		criterion.SignalMemoryStall: 1.25, criterion.SignalHeartbeat: 1,
	} {
		if s := got[signal]; s.Value != want || !s.Time.Equal(now) {
			t.Errorf("%s: %+v, want %v", signal, s, want)
		}
	}
	if !got[criterion.SignalOOMKill].Start.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("the counter's start: %v", got[criterion.SignalOOMKill].Start)
	}
	if l := got[criterion.SignalProcessRSS].Labels; l["pid"] != "7" || l["start"] != "555" {
		t.Errorf("labels %v", l)
	}
	if first[4].Signal != criterion.SignalHeartbeat || first[4].Seq != 5 || h.Read()[0].Seq != 6 {
		t.Error("sequence numbers do not go on, or the heartbeat is not last")
	}

	gone := func(t *testing.T) {
		t.Helper()
		got := bySignal(h.Read())
		up, ok := got[criterion.SignalProcessUp]
		if !ok || up.Value != 0 || up.Labels["start"] != "555" {
			t.Errorf("process_up %+v", up)
		}
		if rss, ok := got[criterion.SignalProcessRSS]; ok {
			t.Errorf("a gone process has an RSS: %+v", rss)
		}
	}
	for name, change := range map[string]func(){
		"a zombie":          func() { proc["7/stat"] = stat(7, "Z", 555); proc["7/statm"] = file("0 0 0 0 0 0 0\n") },
		"another process":   func() { proc["7/stat"] = stat(7, "S", 556); proc["7/statm"] = file("1000 30 5 1 0 1 0\n") },
		"no process":        func() { delete(proc, "7/stat"); delete(proc, "7/statm") },
		"an unreadable pid": func() { proc["7/stat"] = file("7 (a R") },
	} {
		t.Run(name, func(t *testing.T) { change(); gone(t) })
	}
	t.Run("exiting, its memory gone already", func(t *testing.T) {
		proc["7/stat"], proc["7/statm"] = stat(7, "R", 555), file("0 0 0 0 0 0 0\n")
		got := bySignal(h.Read())
		if rss, ok := got[criterion.SignalProcessRSS]; ok {
			t.Errorf("RSS %+v, want none", rss)
		}
		if got[criterion.SignalProcessUp].Value != 1 {
			t.Error("it is not gone yet")
		}
	})
	t.Run("what cannot be read is left out", func(t *testing.T) {
		delete(proc, "vmstat")
		delete(proc, "pressure/memory")
		got := bySignal(h.Read())
		if _, ok := got[criterion.SignalOOMKill]; ok {
			t.Error("oom_kill without vmstat")
		}
		if _, ok := got[criterion.SignalMemoryStall]; ok {
			t.Error("pressure without PSI")
		}
		if got[criterion.SignalHeartbeat].Value != 1 {
			t.Error("no heartbeat")
		}
	})
	h.Unwatch(p)
	if _, ok := bySignal(h.Read())[criterion.SignalProcessUp]; ok {
		t.Error("still watched")
	}
}

func TestHostOnRealProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this system")
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := NewHost(HostConfig{})
	p, err := h.Watch(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	got := bySignal(h.Read())
	if got[criterion.SignalProcessRSS].Value <= 0 || got[criterion.SignalProcessUp].Value != 1 {
		t.Errorf("alive: %+v", got)
	}
	if vmstat, err := os.ReadFile("/proc/vmstat"); err == nil && strings.Contains(string(vmstat), "\noom_kill ") {
		if s, ok := got[criterion.SignalOOMKill]; !ok || s.Start.IsZero() {
			t.Errorf("oom_kill: %+v, %v", s, ok)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		got := bySignal(h.Read())
		if up, ok := got[criterion.SignalProcessUp]; !ok || up.Value != 0 {
			t.Errorf("%s: process_up %+v, %v", when, up, ok)
		}
		if rss, ok := got[criterion.SignalProcessRSS]; ok {
			t.Errorf("%s: RSS %+v, want none", when, rss)
		}
	}
	for { // until the kernel has made it a zombie, which keeps its pid
		if _, ok := h.startOf(p.PID); !ok {
			break
		}
		time.Sleep(time.Millisecond)
	}
	check("killed and not reaped")
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended well")
	}
	check("reaped")
}
