package crash

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/ledger"
	"assay/ledger/logger"
)

// killForGood is kill -9 without a start after it.
func (p *process) killForGood() {
	p.h.t.Helper()
	p.end(syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(sig syscall.Signal) {
	p.h.t.Helper()
	if pid := p.pid(); pid == 0 || syscall.Kill(pid, sig) != nil {
		p.h.t.Fatalf("%s does not run", p.name)
	}
}

// role is what a logger says that it is; "" while it does not answer.
func (h *house) role(socket string) string {
	st, ok := h.status(socket)
	if !ok || st.Logger == nil {
		return ""
	}
	return st.Logger.Role
}

// watchCheckpoint notes the sizes that the checkpoint on file signs, until stop.
func (h *house) watchCheckpoint() (stop func() []uint64) {
	done, out := make(chan struct{}), make(chan []uint64)
	go func() {
		var sizes []uint64
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			raw, err := os.ReadFile(filepath.Join(h.dir.Logger().Checkpoints(), "latest"))
			if err == nil {
				if size, err := strconv.ParseUint(strings.Split(string(raw), "\n")[1], 10, 64); err == nil && (len(sizes) == 0 || sizes[len(sizes)-1] != size) {
					sizes = append(sizes, size)
				}
			}
			select {
			case <-done:
				out <- sizes
				return
			case <-tick.C:
			}
		}
	}()
	return func() []uint64 { close(done); return <-out }
}

// resumes measures from now until another event is acked.
func (l *load) resumes() time.Duration {
	l.h.t.Helper()
	began, acks := time.Now(), l.acks.Load()
	l.h.await("acks to resume", func() bool { return l.acks.Load() > acks })
	return time.Since(began)
}

// settled waits until no ack came for a moment: what was under way at a kill is
// answered.
func (l *load) settled() {
	l.h.t.Helper()
	last, since := l.acks.Load(), time.Now()
	l.h.await("acks to stop", func() bool {
		if now := l.acks.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	})
}

// One of two loggers writes. The other takes over when it is killed, and when
// it is only stopped; then the first wakes up, and stands by.
func TestStandbyTakesOverUnderLoad(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	broker := h.serve("broker", "--port", strconv.Itoa(h.port))
	h.awaitServed("broker")
	a := h.serve("logger", "--standby")
	h.await("the first logger to write", func() bool { return h.role("logger") == logger.RoleActive })
	b := h.serve("logger", "--standby", "--instance", "b")
	h.awaitServed("logger-b")
	sizes := h.watchCheckpoint()

	l := h.startLoad(1)
	h.await("acks", func() bool { return l.acks.Load() > 200 })
	if role := h.role("logger-b"); role != logger.RoleStandby {
		t.Fatalf("the other logger is %q", role)
	}
	began := time.Now()
	a.killForGood()
	l.settled()
	l.resumes()
	killed := time.Since(began)

	// The same again, with the other one stopped in the middle of its work.
	c := h.serve("logger", "--standby", "--instance", "c")
	h.await("a third logger to stand by", func() bool { return h.role("logger-c") == logger.RoleStandby })
	began = time.Now()
	b.signal(syscall.SIGSTOP)
	l.settled()
	l.resumes()
	stopped := time.Since(began)
	b.signal(syscall.SIGCONT)
	h.await("the stopped logger to stand by", func() bool { return h.role("logger-b") == logger.RoleStandby })
	flowing := l.acks.Load() + 200
	h.await("acks after it woke up", func() bool { return l.acks.Load() >= flowing })
	if role := h.role("logger-c"); role != logger.RoleActive {
		t.Errorf("the third logger is %q", role)
	}
	l.end()
	for _, p := range []*process{b, c, broker} {
		p.stop()
	}
	grown := sizes()
	for i := 1; i < len(grown); i++ {
		if grown[i] < grown[i-1] {
			t.Errorf("the checkpoint went back from %d to %d", grown[i-1], grown[i])
		}
	}
	report := mustDecode[ledger.Report](t, h.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.UnsignedTail == nil || *report.UnsignedTail != 0 {
		raw, _ := json.Marshal(report)
		t.Errorf("verify: %s", raw)
	}
	stored := l.check()
	t.Logf("acks resumed %.1fs after kill -9 and %.1fs after SIGSTOP; %d acked, %d undecided of which %d stored; %d records, %d checkpoints seen",
		killed.Seconds(), stopped.Seconds(), len(l.acked), len(l.open), stored, report.Size, len(grown))
	if killed > 10*time.Second || stopped > 10*time.Second {
		t.Log("slower than the ten seconds that a machine of its own keeps")
	}
}
