package crash

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/internal/disktest"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
)

const (
	diskMiB = 768
	// lowWater is the mark in production. Index, views and their successors set
	// 17 MiB aside each, at once: a mark of 64 was passed in one jump.
	lowWater = 256
	mib      = 1 << 20
)

// closed publishes one event and says whether the intake answers that the
// ledger is unavailable, with a time after which to try again. It waits for an
// answer no longer than a client of the intake has to.
func (h *house) closed(user string, e event) bool {
	h.t.Helper()
	reply, err := h.connect(user).Request("intake."+user, e.raw, patience)
	if err != nil || len(reply.Data) == 0 {
		return false // the broker is being restarted
	}
	var a struct {
		Error *struct {
			Code       string   `json:"code"`
			RetryAfter *float64 `json:"retry_after"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		h.t.Fatalf("%v: %s", err, reply.Data)
	}
	return a.Error != nil && a.Error.Code == "unavailable" && a.Error.RetryAfter != nil
}

// crowd are the services of a house on a small disk and the load on them.
type crowd struct {
	*house
	disk         string
	load         *load
	services     []*process
	broker, logr string // sockets that know of them
}

func (c *crowd) brokerStatus() node.BrokerStatus {
	st, ok := c.status(c.broker)
	if !ok || st.Broker == nil {
		return node.BrokerStatus{}
	}
	return *st.Broker
}

func (c *crowd) loggerStatus() node.LoggerStatus {
	st, ok := c.status(c.logr)
	if !ok || st.Logger == nil {
		return node.LoggerStatus{}
	}
	return *st.Logger
}

func (c *crowd) flows(what string) {
	c.t.Helper()
	flowing := c.load.acks.Load() + 200
	c.await("acks "+what, func() bool { return c.load.acks.Load() >= flowing })
}

// fillSlowly lets the load itself eat up the room: the intake closes at the
// mark, long before the disk is full, and the operator may still write.
func (c *crowd) fillSlowly() {
	c.t.Helper()
	disktest.Leave(c.t, c.disk, (lowWater+2)*mib)
	c.await("the mark to be hit", func() bool { return c.loggerStatus().State == logger.LowDisk })
	if free := disktest.Free(c.t, c.disk); free == 0 {
		c.t.Error("the mark was hit when nothing was left")
	}
	if !c.closed("agent.piper", mustTemplate(c.t, "gate.chosen").next()) {
		c.t.Error("the agent is not told that the ledger is unavailable")
	}
	// What the services still set aside may take them past the operator's half of
	// the room: aim at its middle again.
	disktest.Leave(c.t, c.disk, lowWater*3/4*mib)
	word := string(mustTemplate(c.t, "outcome.recorded").next().raw)
	c.await("the operator's word to be taken", func() bool { return c.run(word, "emit", "--as", "operator/main").code == 0 })
	if b := c.brokerStatus(); b.State != "serving" || b.Restarts != 0 {
		c.t.Errorf("the broker met the end of the disk: %+v", b)
	}
	disktest.Release(c.t, c.disk)
	c.flows("when the disk has room again")
}

// fillSuddenly takes all room at once, under an append, and gives it back:
// everything resumes by itself. It reports whether the broker's store failed;
// where the disk ends while a batch is still being gathered it does not.
func (c *crowd) fillSuddenly() (failed bool) {
	c.t.Helper()
	before := c.brokerStatus().Restarts
	disktest.Leave(c.t, c.disk, 0)
	c.await("the logger to say that the disk is full", func() bool { return c.loggerStatus().State == logger.LowDisk })
	gate := mustTemplate(c.t, "gate.chosen").next()
	c.await("the agent to be told", func() bool { return c.closed("agent.piper", gate) })
	full := c.brokerStatus()
	c.t.Logf("full: broker %s %s\nlogger %s", full.State, full.Detail, c.loggerStatus().Detail)
	disktest.Release(c.t, c.disk)
	began := time.Now()
	c.flows("after the disk was full")
	c.t.Logf("service resumed %.1fs after there was room", time.Since(began).Seconds())
	after := c.brokerStatus()
	if failed = after.Restarts > before; failed && after.Restarted == "" || full.State == "failed" && !failed {
		c.t.Errorf("after the disk was full: %+v", after)
	}
	if after.State != "serving" {
		c.t.Errorf("after the disk was full: %+v", after)
	}
	return failed
}

// mends counts what was opened again since the start.
func (c *crowd) mends() map[string]int {
	out := map[string]int{}
	for _, s := range c.services {
		raw, err := os.ReadFile(s.log)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, text := range []string{"restart the broker", "the logger's index failed", "the views' store failed"} {
			out[text] += strings.Count(string(raw), text)
		}
	}
	return out
}

// settle ends the load and holds everything against every promise.
func (c *crowd) settle() {
	c.t.Helper()
	c.load.end()
	// Views whose store failed stand still until it is open again.
	c.await("the projector to go on", func() bool {
		st, ok := c.status("assay")
		return ok && st.Projector != nil && st.Projector.Halted == ""
	})
	c.awaitViews(c.logr)
	c.mustReplay("live views")
	for _, s := range c.services {
		s.stop()
		if s.starts != 1 {
			c.t.Errorf("%s was started %d times", s.name, s.starts)
		}
	}
	report := mustDecode[ledger.Report](c.t, c.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.UnsignedTail == nil || *report.UnsignedTail != 0 {
		c.t.Errorf("verify: %+v", report)
	}
	stored := c.load.check()
	c.t.Logf("in the logs: %v", c.mends())
	c.t.Logf("%d acked, %d undecided of which %d stored; %d records", len(c.load.acked), len(c.load.open), stored, report.Size)
	if len(c.load.acked) < 400 {
		c.t.Errorf("only %d events were acked", len(c.load.acked))
	}
}

// A disk that fills up closes the intake and loses nothing that was acked, and
// service comes back by itself: every service in one process.
func TestFullDiskUnderUp(t *testing.T) {
	t.Parallel()
	c := &crowd{disk: disktest.Mount(t, diskMiB), broker: "assay", logr: "assay"}
	c.house = newHouseIn(t, c.disk)
	c.services = []*process{c.supervise("up", []string{assay, "--dir", string(c.dir), "up",
		"--port", strconv.Itoa(c.port), "--low-water", strconv.Itoa(lowWater)})}
	c.awaitServed("assay")
	c.load = c.startLoad(1)
	c.flows("at first")
	c.fillSlowly()
	for range 3 { // until an append meets it
		if c.fillSuddenly() {
			break
		}
	}
	c.settle()
}

// The same with each service in a process of its own.
func TestFullDiskUnderServices(t *testing.T) {
	t.Parallel()
	c := &crowd{disk: disktest.Mount(t, diskMiB), broker: "broker", logr: "logger"}
	c.house = newHouseIn(t, c.disk)
	mark := []string{"--low-water", strconv.Itoa(lowWater)}
	b := c.serve("broker", append(mark, "--port", strconv.Itoa(c.port))...)
	c.awaitServed("broker")
	l, p := c.serve("logger", mark...), c.serve("projector", mark...)
	c.services = []*process{p, l, b}
	c.awaitServed("logger", "assay")
	// One event at a time: a single append meets the end of the disk in the
	// ledger itself, unless the room was looked at just before.
	c.load = c.startTrickle(2)
	c.flows("at first")
	for try := 1; !c.fillSuddenly(); try++ {
		if try == 4 {
			t.Fatal("the ledger's store never failed")
		}
	}
	c.settle()
}

// Index and views on a disk of their own that fills up: both stores fail for
// good, and are opened again when there is room. Once one has failed little is
// left to be written to the other, so the disk is filled until each has.
func TestFullDiskOfIndexAndViews(t *testing.T) {
	t.Parallel()
	disk, dir := disktest.Mount(t, 12), t.TempDir()
	for _, room := range []string{"logger", "views"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "house"), 0o700), os.Mkdir(filepath.Join(disk, room), 0o700),
			os.Symlink(filepath.Join(disk, room), filepath.Join(dir, "house", room))); err != nil {
			t.Fatal(err)
		}
	}
	c := &crowd{house: newHouseIn(t, dir), disk: disk, broker: "assay", logr: "assay"}
	c.services = []*process{c.supervise("up", []string{assay, "--dir", string(c.dir), "up", "--port", strconv.Itoa(c.port), "--low-water", "2"})}
	c.awaitServed("assay")
	c.load = c.startLoad(4)
	c.flows("at first")
	for try := 1; ; try++ {
		disktest.Leave(t, disk, 0)
		c.await("the logger to say that the disk is full", func() bool { return c.loggerStatus().State == logger.LowDisk })
		gate := mustTemplate(t, "gate.chosen").next()
		c.await("the agent to be told", func() bool { return c.closed("agent.piper", gate) })
		disktest.Release(t, disk)
		c.flows("after the disk was full")
		m := c.mends()
		if m["the logger's index failed"] > 0 && m["the views' store failed"] > 0 {
			break
		}
		if try == 8 {
			t.Fatalf("not both stores failed: %v", m)
		}
	}
	c.settle()
}

// A store limit closes the intake at the mark before it, whatever the disk has.
func TestStoreLimit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const limit = broker.MinStore / mib
	up := h.supervise("up", []string{assay, "--dir", string(h.dir), "up", "--port", strconv.Itoa(h.port),
		"--max-store", strconv.Itoa(limit), "--low-water", strconv.Itoa(limit - 2)})
	h.awaitServed("assay")
	l := h.startLoad(3)
	state := func() logger.State { st, _ := h.status("assay"); return st.Logger.State }
	h.await("the mark to be hit", func() bool { return state() == logger.LowDisk })
	if !h.closed("agent.piper", mustTemplate(t, "gate.chosen").next()) {
		t.Error("the agent is not told that the ledger is unavailable")
	}
	h.run(string(mustTemplate(t, "outcome.recorded").next().raw), "emit", "--as", "operator/main").says(t, "the operator's word", 0, "")
	l.end()
	up.stop()
	h.run("", "verify").says(t, "verify", 0, "consistent")
	l.check()
	if len(l.acked) == 0 {
		t.Error("nothing was acked")
	}
}
