package crash

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/ledger"
	"assay/schema"
)

// load publishes from several connections and keeps what it was promised.
type load struct {
	h     *house
	batch int           // events in a message, at most
	pause time.Duration // after each message, on each connection and way
	acks  atomic.Int64
	wg    sync.WaitGroup
	stop  context.CancelFunc
	mu    sync.Mutex
	acked map[string]promise // by event id
	open  map[string]promise // sent, and no answer came: undecided
}

// promise is an event that was sent and, once acked, its receipt.
type promise struct {
	principal string
	hash      [sha256.Size]byte // of the event's bytes
	receipt   publish.Receipt
}

// event is one event on its way.
type event struct {
	id  string
	raw []byte
}

// template makes events of one type that differ in their id.
type template struct{ id, raw string }

func mustTemplate(t testing.TB, typ string) template {
	t.Helper()
	raw, ok := schema.Example(typ)
	if !ok {
		t.Fatalf("no example of %s", typ)
	}
	compact, err := schema.Compact(raw)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := events.DecodeEnvelope(compact)
	if err != nil {
		t.Fatal(err)
	}
	return template{ev.ID, string(compact)}
}

func (e template) next() event {
	id := uuid.Must(uuid.NewV7()).String()
	return event{id, []byte(strings.Replace(e.raw, e.id, id, 1))}
}

// publishers are who publishes, each over a connection of its own with several
// events under way.
var publishers = []struct{ principal, typ string }{
	{"agent/piper", "gate.chosen"}, {"agent/piper", "claim.recorded"}, {"agent/piper", "prediction.recorded"},
	{"dispatcher/main", "tool.called"}, {"detector/main", "opportunity.detected"}, {"agent/piper", "gate.chosen"},
}

func publishes(who string) bool {
	return slices.ContainsFunc(publishers, func(p struct{ principal, typ string }) bool { return p.principal == who })
}

// underWay is how many messages each connection has under way at a time.
const underWay = 4

func (h *house) startLoad(seed uint64) *load {
	h.t.Helper()
	return h.start(&load{h: h, batch: 40, acked: map[string]promise{}, open: map[string]promise{}}, len(publishers), underWay, seed)
}

// startTrickle publishes one event at a time.
func (h *house) startTrickle(seed uint64) *load {
	h.t.Helper()
	return h.start(&load{h: h, batch: 1, acked: map[string]promise{}, open: map[string]promise{}}, 2, 1, seed)
}

func (h *house) start(l *load, connections, underWay int, seed uint64) *load {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	for i, p := range publishers[:connections] {
		client := publish.New(h.connect(strings.Replace(p.principal, "/", ".", 1)), p.principal)
		events := mustTemplate(h.t, p.typ)
		for j := range underWay {
			rng := rand.New(rand.NewPCG(seed, uint64(i*underWay+j)))
			l.wg.Go(func() {
				for ctx.Err() == nil {
					l.publish(ctx, client, p.principal, events, rng)
					time.Sleep(l.pause)
				}
			})
		}
	}
	h.t.Cleanup(func() { cancel(); l.wg.Wait() })
	return l
}

// publish sends one event or a batch. Now and then it gives up early, as an
// impatient client does, and then sends the same bytes again or lets it be.
func (l *load) publish(ctx context.Context, c *publish.Client, who string, events template, rng *rand.Rand) {
	batch := []event{events.next()}
	if rng.IntN(2) == 0 {
		for range rng.IntN(l.batch) {
			batch = append(batch, events.next())
		}
	}
	timeout := 30 * time.Second
	if rng.IntN(4) == 0 {
		timeout = time.Duration(1+rng.IntN(30)) * time.Millisecond
	}
	if !l.send(ctx, c, who, batch, timeout) && rng.IntN(2) == 0 {
		l.send(ctx, c, who, batch, 30*time.Second)
	}
}

func (l *load) send(ctx context.Context, c *publish.Client, who string, batch []event, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make([]publish.Answer, len(batch))
	var err error
	if len(batch) == 1 {
		answers[0].Receipt, err = c.Publish(ctx, batch[0].raw)
	} else {
		raws := make([][]byte, len(batch))
		for i, e := range batch {
			raws[i] = e.raw
		}
		if got, berr := c.PublishBatch(ctx, raws); berr != nil {
			err = berr
		} else {
			answers = got
		}
	}
	if errors.Is(err, publish.ErrRefused) {
		l.h.t.Errorf("%s: %v", batch[0].id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range batch {
		p := promise{who, sha256.Sum256(e.raw), answers[i].Receipt}
		switch {
		case err != nil:
			l.open[e.id] = p
		case answers[i].Refusal != nil:
			l.h.t.Errorf("%s: %v", e.id, answers[i].Refusal)
		default:
			l.acked[e.id] = p
			delete(l.open, e.id)
			l.acks.Add(1)
		}
	}
	return err == nil
}

// end stops the load; what is then under way stays undecided.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// kills is how often each service was killed while it ran.
type kills map[string]int

// storm kills services at random points of the load.
func storm(l *load, services map[string]*process, rounds int, rng *rand.Rand) kills {
	done := kills{}
	// The first rounds meet every kind, so that few rounds do as well.
	kinds := [][]string{{"broker"}, {"logger"}, {"broker", "logger"}, {"broker", "projector"}, {"logger", "projector"}}
	for round := range rounds {
		if rng.IntN(4) > 0 { // else: once more while it recovers
			flowing := l.acks.Load() + 200
			l.h.await("acks to flow again", func() bool { return l.acks.Load() >= flowing })
		}
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		kind := kinds[round%len(kinds)]
		if round >= len(kinds) {
			kind = kinds[[]int{0, 0, 0, 1, 1, 1, 2, 3, 4}[rng.IntN(9)]]
		}
		for _, name := range kind {
			l.h.await(name+" to be there to be killed", services[name].kill)
			done[name]++
		}
	}
	return done
}

// An ack holds through kill -9 of any service at any time: each acked event is
// in the ledger exactly once, where its receipt says.
func TestAckedEventsSurviveKills(t *testing.T) {
	t.Parallel()
	rounds := envInt(t, "ASSAY_CRASH_ROUNDS", 4)
	seed := uint64(envInt(t, "ASSAY_CRASH_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("ASSAY_CRASH_ROUNDS=%d ASSAY_CRASH_SEED=%d", rounds, seed)
	h := newHouse(t)
	services := map[string]*process{"broker": h.serve("broker", "--port", strconv.Itoa(h.port))}
	h.awaitServed("broker")
	services["logger"], services["projector"] = h.serve("logger"), h.serve("projector")
	h.awaitServed("logger", "assay")

	began := time.Now()
	l := h.startLoad(seed)
	killed := storm(l, services, rounds, rand.New(rand.NewPCG(seed, 1<<32)))
	flowing := l.acks.Load() + 200
	h.await("acks after the last kill", func() bool { return l.acks.Load() >= flowing })
	l.end()
	took := time.Since(began)
	ended := time.Now()
	h.awaitViews("logger")
	caughtUp := time.Since(ended)

	h.mustReplay("live views")
	for _, name := range []string{"projector", "logger", "broker"} {
		services[name].stop()
	}
	report := mustDecode[ledger.Report](t, h.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.UnsignedTail == nil || *report.UnsignedTail != 0 {
		t.Errorf("verify: %+v", report)
	}
	h.mustReplay("views at rest")
	stored := l.check()
	t.Logf("%d rounds in %.1fs: killed %v; %d acked, %d undecided of which %d stored; %d records; views caught up %.1fs after",
		rounds, took.Seconds(), killed, len(l.acked), len(l.open), stored, report.Size, caughtUp.Seconds())
}

// awaitViews waits until the projector stands at the end of the logger that
// answers on a socket.
func (h *house) awaitViews(logger string) {
	h.t.Helper()
	h.await("the views to catch up", func() bool {
		lg, ok := h.status(logger)
		pj, ok2 := h.status("assay")
		if ok2 && pj.Projector.Halted != "" {
			h.t.Fatalf("projector halted: %s", pj.Projector.Halted)
		}
		return ok && ok2 && lg.Logger.State == "serving" && uint64(pj.Projector.Seq) == lg.Logger.Size
	})
}

// mustReplay holds the views against a rebuild from record 1.
func (h *house) mustReplay(what string) {
	h.t.Helper()
	r := mustDecode[struct {
		Match *bool `json:"match"`
	}](h.t, h.must("replay", "--json"))
	if r.Match == nil || !*r.Match {
		h.t.Errorf("replay against the %s does not match", what)
	}
}

// check reads the ledger and holds it against every receipt; it returns how
// many undecided events were stored.
func (l *load) check() (stored int) {
	t := l.h.t
	t.Helper()
	seen := map[string]ledger.Seq{} // principal and id
	found := 0
	l.h.each(func(r ledger.Record) error {
		seq := r.Seq
		ev, err := events.DecodeEnvelope(r.Event)
		if err != nil {
			return err
		}
		key := r.Principal + " " + ev.ID
		if first, twice := seen[key]; twice {
			t.Errorf("%s is record %d and record %d", key, first, seq)
		}
		seen[key] = seq
		if p, ok := l.acked[ev.ID]; ok {
			found++
			if p.receipt.Seq == nil || ledger.Seq(*p.receipt.Seq) != seq || p.receipt.Leaf != r.Leaf().String() ||
				p.receipt.RecordedAt != ledger.FormatTime(r.RecordedAt) || p.principal != r.Principal || p.hash != sha256.Sum256(r.Event) {
				t.Errorf("record %d is not what its receipt says: %+v", seq, p.receipt)
			}
			return nil
		}
		p, ok := l.open[ev.ID]
		if ok {
			stored++
		}
		if ok && p.hash != sha256.Sum256(r.Event) || !ok && publishes(r.Principal) {
			t.Errorf("record %d of %s was never sent like this", seq, r.Principal)
		}
		return nil
	})
	if found != len(l.acked) {
		t.Errorf("%d of %d acked events are in the ledger", found, len(l.acked))
	}
	return stored
}

// each calls fn for every record of the ledger, in order.
func (h *house) each(fn func(ledger.Record) error) {
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
		err = e.Read(ctx, 1, head, func(seq ledger.Seq, body []byte) error {
			r, err := ledger.ParseRecord(body)
			if err == nil && r.Seq != seq {
				err = fmt.Errorf("message %d is record %d", seq, r.Seq)
			}
			if err == nil {
				err = fn(r)
			}
			return err
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}
