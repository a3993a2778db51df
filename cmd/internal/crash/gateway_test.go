package crash

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/cmd/internal/node"
	"assay/ledger"
)

// poster sends one event after another through the gateway and asks again,
// with the same bytes, until it has an answer.
type poster struct {
	h        *house
	client   *http.Client
	mu       sync.Mutex
	answered []string // events, in order
	taken    atomic.Int64
	spooled  atomic.Int64
}

func (h *house) startPosting() (p *poster, end func()) {
	p = &poster{h: h, client: &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", h.dir.GatewaySocket())
		},
	}}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	gate := mustTemplate(h.t, "gate.chosen")
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			e := gate.next()
			for deadline := time.Now().Add(patience); !p.post(string(e.raw)); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					h.t.Errorf("no answer within %s", patience)
					return
				}
			}
		}
	})
	end = sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
		p.client.CloseIdleConnections()
	})
	h.t.Cleanup(end)
	return p, end
}

// post says whether the event is promised to be in the ledger, or is.
func (p *poster) post(event string) bool {
	resp, err := p.client.Post("http://gateway/v1/events", "application/cloudevents+json", strings.NewReader(event))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false
	}
	switch resp.StatusCode {
	case http.StatusOK:
		p.taken.Add(1)
	case http.StatusAccepted:
		p.spooled.Add(1)
	default:
		if resp.StatusCode != http.StatusServiceUnavailable {
			p.h.t.Errorf("%d %s", resp.StatusCode, body)
		}
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = append(p.answered, event)
	return true
}

// TestSpooledEventsSurviveKills: what the gateway promised while the logger was
// away is in the ledger exactly once and in order, although gateway and broker
// were killed meanwhile.
func TestSpooledEventsSurviveKills(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	gw := h.serve("gateway") // before there is a broker
	h.awaitServed("gateway-status")
	br := h.serve("broker", "--port", strconv.Itoa(h.port))
	h.awaitServed("broker")
	l := h.serve("logger")
	h.awaitServed("logger")
	p, end := h.startPosting()
	h.await("receipts", func() bool { return p.taken.Load() >= 20 })

	l.stop()
	h.await("events to be spooled", func() bool { return p.spooled.Load() >= 20 })
	for round := range 4 {
		n := p.spooled.Load()
		h.await("the gateway to be killed", gw.kill)
		if round == 1 {
			h.await("the broker to be killed", br.kill)
		}
		h.await("more events to be spooled", func() bool { return p.spooled.Load() > n+int64(rand.IntN(30)) })
	}
	l = h.serve("logger")
	h.awaitServed("logger")
	h.await("the gateway to be killed while it delivers", gw.kill)
	n := p.taken.Load()
	h.await("receipts again", func() bool { return p.taken.Load() >= n+20 })
	end()
	h.await("the spool to be delivered", func() bool {
		st, ok := h.status("gateway-status")
		return ok && st.Gateway.Spools["agent/piper"].Events == 0
	})
	h.run("", "status").says(t, "status", 0, "spool of agent/piper: 0 events")
	for _, s := range []*process{gw, l, br} {
		s.stop()
	}
	recorded := h.recordedBy("agent/piper")
	for i, e := range p.answered {
		if i >= len(recorded) || recorded[i] != e {
			t.Fatalf("record %d of %d is not event %d of %d", i, len(recorded), i, len(p.answered))
		}
	}
	if len(recorded) != len(p.answered) {
		t.Errorf("%d events were answered, %d are recorded", len(p.answered), len(recorded))
	}
	t.Logf("%d with receipts, %d spooled", p.taken.Load(), p.spooled.Load())
}

// TestGatewayReloadsOnHangup: SIGHUP has the gateway read its file again, also
// while events wait in its spool, and a wrong file is only told of.
func TestGatewayReloadsOnHangup(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	put := func(file string) {
		t.Helper()
		if err := os.WriteFile(h.dir.GatewayFile(), fmt.Appendf(nil, file, os.Getuid()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"v":1,"callers":[{"uid":%d,"principal":"agent/piper"}]}`)
	gw := h.serve("gateway")
	h.awaitServed("gateway-status")
	p, end := h.startPosting()
	h.await("events to be spooled", func() bool { return p.spooled.Load() >= 3 })
	limit := func() int64 {
		st, ok := h.status("gateway-status")
		if !ok {
			return 0
		}
		return st.Gateway.Spools["agent/piper"].Limit
	}
	before := limit()
	put(`{"v":1,"spool_bytes":1000000,"callers":[{"uid":%d,"principal":"agent/piper"},{"uid":77,"principal":"agent/nobody"}]}`)
	gw.signal(syscall.SIGHUP)
	h.await("the wrong file to be told of", func() bool {
		return strings.Contains(gw.tail(), "not reloaded") && strings.Contains(gw.tail(), "agent/nobody")
	})
	if got := limit(); got != before || before == 0 {
		t.Errorf("after a wrong file the spool takes %d bytes, before %d", got, before)
	}
	put(`{"v":1,"spool_bytes":1000000,"callers":[{"uid":%d,"principal":"agent/piper"}]}`)
	gw.signal(syscall.SIGHUP)
	h.await("the right file to hold", func() bool { return limit() == 1_000_000 })

	br := h.serve("broker", "--port", strconv.Itoa(h.port))
	h.awaitServed("broker")
	l := h.serve("logger")
	h.await("receipts", func() bool { return p.taken.Load() >= 3 })
	end()
	for _, s := range []*process{gw, l, br} {
		s.stop()
		if s.starts != 1 {
			t.Errorf("%s was started %d times", s.name, s.starts)
		}
	}
	if recorded := h.recordedBy("agent/piper"); !slices.Equal(recorded, p.answered) {
		t.Errorf("%d events were answered, %d are recorded, or others", len(p.answered), len(recorded))
	}
}

// recordedBy are the events of a principal in the order of the ledger.
func (h *house) recordedBy(principal string) (out []string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := node.OpenEvidence(ctx, node.EvidenceConfig{Dir: h.dir, Scratch: h.t.TempDir()})
	if err != nil {
		h.t.Fatal(err)
	}
	defer e.Close()
	head, err := e.Head(ctx)
	if err == nil {
		err = e.Read(ctx, 1, head, func(_ ledger.Seq, body []byte) error {
			r, err := ledger.ParseRecord(body)
			if err == nil && r.Principal == principal {
				out = append(out, string(r.Event))
			}
			return err
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}
