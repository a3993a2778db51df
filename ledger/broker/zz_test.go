package broker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
)

func testZZ(t *testing.T, tcp bool) {
	t.Parallel()
	h := startHouse(t)
	h.fill(t, 3)
	con := h.connect
	if tcp {
		con = h.dial
	}
	nc := con(t, principal.ReadProjector)
	js := must1(ReadAPI(nc))
	c := must1(js.OrderedConsumer(t.Context(), LedgerStream, ReadFrom(1)))
	got := make(chan uint64, 100)
	cc := must1(c.Consume(func(m jetstream.Msg) { md, _ := m.Metadata(); got <- md.Sequence.Stream }, PullOptions(), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { t.Log(time.Now(), err) })))
	defer cc.Stop()
	step := func(what string, do func()) {
		do()
		t0 := time.Now()
		h.fill(t, 1)
		for {
			select {
			case s := <-got:
				if s > 3 {
					t.Logf("%s: seq %d after %s", what, s, time.Since(t0))
					return
				}
			case <-time.After(100 * time.Second):
				t.Errorf("%s: nothing", what)
				return
			}
		}
	}
	step("plain", func() {})
	step("reload", func() { must(t, h.Reload()) })
	step("reload again", func() { must(t, h.Reload()) })
	step("restart", func() { must(t, h.Restart(t.Context())) })
	step("idle 150s", func() { time.Sleep(150 * time.Second) })
	step("add", func() {
		must1(principal.Dir(h.dir).Add(principal.New(principal.Agent, "zz", "production")))
		must(t, h.Reload())
	})
}
func TestZZin(t *testing.T)  { testZZ(t, false) }
func TestZZtcp(t *testing.T) { testZZ(t, true) }
