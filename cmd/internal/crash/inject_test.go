package crash

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"assay/events/publish"
	"assay/ledger"
)

// injections are system calls of the logger that fail: the first, or a later
// one, of its kind in each of its lives. What writes is the index's log; what
// is renamed is a checkpoint; fsync and fdatasync are of both.
var injections = []struct {
	call, err string
	when      int
}{
	{"fdatasync", "EIO", 1}, {"fdatasync", "ENOSPC", 4}, {"fsync", "EIO", 2}, {"fsync", "ENOSPC", 6},
	{"renameat", "ENOSPC", 1}, {"renameat", "EIO", 2}, {"write", "ENOSPC", 2}, {"write", "EIO", 9},
}

// TestInjectedErrors runs the logger while the kernel says that its disk is
// full or broken. It may end, or take nothing; whatever it acked is there once
// when the disk is well again.
func TestInjectedErrors(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: errors of system calls are not injected")
	}
	if out, err := exec.Command(strace, "-f", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO", "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here (%v): errors of system calls are not injected\n%s", err, out)
	}
	t.Parallel()
	h := newHouse(t)
	b := h.serve("broker", "--port", strconv.Itoa(h.port))
	h.awaitServed("broker")
	load := &load{h: h, acked: map[string]promise{}, open: map[string]promise{}}
	client, gate := publish.New(h.connect("agent.piper"), "agent/piper"), mustTemplate(t, "gate.chosen")
	send := func(timeout time.Duration) (acked int) {
		for range 8 {
			if load.send(t.Context(), client, "agent/piper", []event{gate.next(), gate.next()}, timeout) {
				acked++
			}
		}
		return acked
	}
	for _, in := range injections {
		argv := []string{strace, "-D", "-f", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "trace=" + in.call,
			"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", in.call, in.err, in.when)}
		if in.call == "write" {
			for n := range 40 {
				argv = append(argv, "-P", filepath.Join(string(h.dir.Logger()), "index", fmt.Sprintf("%06d.log", n)))
			}
		}
		l := h.supervise("logger", append(argv, assay, "--dir", string(h.dir), "serve", "logger"))
		h.await("the logger to be started", func() bool { return l.pid() != 0 })
		time.Sleep(300 * time.Millisecond)
		acked := send(200 * time.Millisecond)
		l.kill()
		l.end(9)
		<-l.done
		t.Logf("%s %s, number %d: %d of 8 acked, %d starts", in.call, in.err, in.when, acked, l.starts)
	}
	l := h.serve("logger")
	h.awaitServed("logger")
	if n := send(30 * time.Second); n != 8 {
		t.Errorf("%d of 8 acked by a logger on a disk that works", n)
	}
	l.stop()
	b.stop()
	report := mustDecode[ledger.Report](t, h.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.UnsignedTail == nil || *report.UnsignedTail != 0 {
		t.Errorf("verify: %+v", report)
	}
	stored := load.check()
	t.Logf("%d acked, %d undecided of which %d stored", len(load.acked), len(load.open), stored)
}
