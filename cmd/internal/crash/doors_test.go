package crash

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"assay/ledger"
)

// says wants an exit code and a text that the command must print somewhere.
func (r result) says(t testing.TB, what string, code int, text string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.out+r.err, text) {
		t.Errorf("%s: exit %d, want %d and %q\n%s%s", what, r.code, code, text, r.out, r.err)
	}
}

// A second service on a directory is refused, says why, and harms nothing.
func TestSecondServiceIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.serve("broker", "--port", strconv.Itoa(h.port))
	h.awaitServed("broker")
	l, p := h.serve("logger"), h.serve("projector")
	h.awaitServed("logger", "assay")
	for _, args := range [][]string{
		{"serve", "broker"}, {"serve", "logger"}, {"serve", "projector"}, {"up"},
	} {
		h.run("", args...).says(t, strings.Join(args, " "), 1, "already runs on this directory")
	}
	event := string(mustTemplate(t, "gate.chosen").next().raw)
	h.run(event, "emit").says(t, "emit", 0, "3 ") // behind ledger.opened and one logger.started
	for _, s := range []*process{p, l, b} {
		s.stop()
		if s.starts != 1 {
			t.Errorf("%s was started %d times", s.name, s.starts)
		}
	}
	h.run("", "verify").says(t, "verify", 0, "consistent")

	up := h.supervise("up", []string{assay, "--dir", string(h.dir), "up"})
	h.awaitServed("assay")
	for _, args := range [][]string{{"up"}, {"serve", "broker"}, {"serve", "logger"}, {"serve", "projector"}} {
		h.run("", args...).says(t, strings.Join(args, " ")+" beside up", 1, "already runs on this directory")
	}
	h.run("", "status").says(t, "status", 0, "serving")

	// A store that is being written to is never copied: torn, it would look
	// tampered with.
	if err := os.Remove(filepath.Join(h.dir.Run(), "nats.url")); err != nil {
		t.Fatal(err)
	}
	h.run("", "verify").says(t, "verify without the address", 3, "a broker runs on "+string(h.dir)+" but cannot be read from")
	up.stop()
}

// Killed services leave sockets and an address behind; commands see that
// nothing answers there, say so, or do without.
func TestLeftoversOfKilledServices(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	up := h.supervise("up", []string{assay, "--dir", string(h.dir), "up"})
	h.awaitServed("assay")
	gate := mustTemplate(t, "gate.chosen")
	h.run(string(gate.next().raw), "emit").says(t, "emit", 0, "")
	h.awaitViews("assay")
	up.stop() // views that were never flushed would be built anew

	up = h.supervise("up", []string{assay, "--dir", string(h.dir), "up"})
	h.awaitServed("assay")
	h.run(string(gate.next().raw), "emit").says(t, "emit", 0, "")
	up.end(syscall.SIGKILL)
	<-up.done
	for _, name := range []string{"assay.sock", "nats.url"} {
		if m, err := filepath.Glob(filepath.Join(h.dir.Run(), name)); err != nil || len(m) != 1 {
			t.Fatalf("%s was not left behind: %v", name, err)
		}
	}
	event := string(gate.next().raw)
	h.run("", "status").says(t, "status", 1, "nothing runs on")
	h.run(event, "emit").says(t, "emit", 1, "no broker runs on this directory: start `assay up`")
	h.run("", "serve", "logger").says(t, "serve logger", 1, "no broker runs on this directory")
	h.run("", "snapshot").says(t, "snapshot", 1, "no service is running on this directory")
	h.run("", "score").says(t, "score", 0, "")
	h.run("", "tail").says(t, "tail", 0, "gate.chosen")
	h.mustReplay("views of a killed up")
	report := mustDecode[ledger.Report](t, h.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.Size < 5 {
		t.Errorf("verify: %+v", report)
	}

	// The next one starts over them.
	again := h.supervise("up", []string{assay, "--dir", string(h.dir), "up"})
	h.awaitServed("assay")
	h.run(event, "emit").says(t, "emit again", 0, "")
	again.stop()
	h.run("", "status").says(t, "status at the end", 1, "nothing runs on")
	h.run(event, "emit").says(t, "emit at the end", 1, "no broker runs on this directory: start `assay up`")
}

// Services find a broker that comes back at another port.
func TestServicesFollowTheBroker(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.serve("broker", "--port", "0") // any free one, each time
	h.awaitServed("broker")
	l, p := h.serve("logger"), h.serve("projector")
	h.awaitServed("logger", "assay")
	gate := mustTemplate(t, "gate.chosen")
	for range 3 {
		st, _ := h.status("broker")
		url := st.URL
		h.await("the broker to be there to be killed", b.kill)
		h.await("another broker", func() bool {
			st, ok := h.status("broker")
			return ok && st.URL != url
		})
		h.run(string(gate.next().raw), "emit").says(t, "emit", 0, "")
		h.awaitViews("logger")
	}
	for _, s := range []*process{p, l, b} {
		s.stop()
	}
	if l.starts != 1 || p.starts != 1 {
		t.Errorf("logger was started %d times, projector %d times", l.starts, p.starts)
	}
	h.run("", "verify").says(t, "verify", 0, "consistent")
}
