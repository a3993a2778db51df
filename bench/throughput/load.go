package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"assay/events"
	"assay/schema"
)

// maxMessage keeps a message of the largest events below the broker's limit.
const maxMessage = 2000

// load is what the publishers send in one round: for each of three principals
// JSON batches of the events of an agent's day, about 600 bytes each.
type load struct {
	users    []string // role.name
	messages [][][]byte
	events   int
	bytes    int
}

const hash64 = "3f0c1d5e9a7b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9010203040506"

func ptr[T any](v T) *T { return &v }

// author writes the events of one principal.
type author struct {
	user  string
	role  schema.Role
	share int // of a hundred events
	next  func(m *mix) events.Payload
}

var authors = []author{
	{"dispatcher.main", "dispatcher", 45, (*mix).toolCall},
	{"agent.piper", "agent", 45, (*mix).agentEvent},
	{"detector.main", "detector", 10, (*mix).opportunity},
}

// mix makes payloads that refer to one another. Its names go on from round to
// round.
type mix struct {
	rng *rand.Rand
	n   int
}

func newMix() *mix { return &mix{rng: rand.New(rand.NewPCG(1, 2))} }

func (m *mix) name(kind string) string { return fmt.Sprintf("%s-%d", kind, m.n) }

// recent is the name of something made a while ago.
func (m *mix) recent(kind string) string {
	return fmt.Sprintf("%s-%d", kind, max(0, m.n-1-m.rng.IntN(50)))
}

func (m *mix) context() events.Context {
	return events.Context{Component: ptr("checkout-worker"), Capture: ptr("live"), SystemCommit: ptr("9f2c1ab"), OpportunityID: ptr(m.recent("opp"))}
}

func (m *mix) toolCall() events.Payload {
	return &events.ToolCalled{
		Context: m.context(), ToolCallID: m.name("call"), Tool: []string{"bash", "causal", "graph_query"}[m.rng.IntN(3)], Status: "ok",
		ArgsHash: ptr(hash64), Tokens: &events.Tokens{Input: ptr(int64(1200)), Output: ptr(int64(300))}, CostUSD: ptr(0.0125),
		LatencyMS: ptr(float64(m.rng.IntN(5000))),
	}
}

func (m *mix) opportunity() events.Payload {
	return &events.OpportunityDetected{
		Context: m.context(), OpportunityID: m.name("opp"), Kind: "why", Component: "checkout-worker",
		DetectorVersion: "1.0.0", TextSpanHash: hash64, Score: ptr(m.rng.Float64()),
	}
}

func (m *mix) agentEvent() events.Payload {
	switch k := m.rng.IntN(100); {
	case k < 30:
		return &events.GateChosen{Context: m.context(), Action: "INFER", OfferedTools: []string{"causal", "graph_query"}, Reason: ptr("the memory of the worker grows after each deploy, and the graph has an edge for it")}
	case k < 65:
		return &events.ClaimRecorded{
			Context: m.context(), ClaimID: m.name("claim"), Status: "asserted",
			Edge:          &events.Edge{Rung: "intervention", Cause: "leak", Effect: "oom", Polarity: ptr("positive")},
			RawConfidence: ptr(m.rng.Float64()), EvidenceIDs: []string{m.recent("call"), m.recent("call")},
		}
	case k < 80:
		return &events.ClaimRevised{Context: m.context(), ClaimID: m.recent("claim"), OldStatus: "hypothesis", NewStatus: "asserted"}
	default:
		return &events.PredictionRecorded{
			Context: m.context(), PredID: m.name("pred"), ClaimID: ptr(m.recent("claim")), PredictedEffect: "rss falls below 100 MiB", P: m.rng.Float64(),
			Criterion: jsontext.Value(`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"0s","length":"30s"},"all":[{"signal":"rss","reduce":"max","op":"<=","value":100}]}`),
		}
	}
}

// event encodes the next event of the author.
func (m *mix) event(a author) ([]byte, error) {
	m.n++
	e, err := events.Maker{Source: "urn:bench:" + a.user}.New(a.next(m))
	if err != nil {
		return nil, err
	}
	e.EpisodeID, e.Sequence = fmt.Sprintf("ep-%d", m.n/40), fmt.Sprint(m.n)
	raw, err := events.Encode(e)
	if err != nil {
		return nil, err
	}
	checked, fault := schema.Check(raw)
	if fault != nil {
		return nil, fmt.Errorf("event of %s: %w", a.user, fault)
	}
	if !schema.MayWrite(a.role, checked.Type, "production") {
		return nil, fmt.Errorf("%s may not write %s", a.user, checked.Type)
	}
	return raw, nil
}

// load makes the messages of one round.
func (m *mix) load(records, message int) (*load, error) {
	l := &load{events: records}
	made := 0
	for i, a := range authors {
		n := records * a.share / 100
		if i == len(authors)-1 {
			n = records - made
		}
		made += n
		var messages [][]byte
		for left := n; left > 0; {
			k := min(left, message)
			left -= k
			body := []byte{'['}
			for j := range k {
				raw, err := m.event(a)
				if err != nil {
					return nil, err
				}
				if j > 0 {
					body = append(body, ',')
				}
				body = append(body, raw...)
				l.bytes += len(raw)
			}
			messages = append(messages, append(body, ']'))
		}
		l.users, l.messages = append(l.users, a.user), append(l.messages, messages)
	}
	return l, nil
}

// publish sends the load over one connection a principal, with flight messages
// unanswered on each, and returns when the last receipt is there.
func (l *load) publish(ctx context.Context, h *house, flight int) (sample, error) {
	conns := make([]*nats.Conn, len(l.users))
	for i, user := range l.users {
		nc, err := h.dial(user)
		if err != nil {
			return sample{}, err
		}
		defer nc.Close()
		conns[i] = nc
	}
	var (
		wg     sync.WaitGroup
		once   sync.Once
		failed error
		taken  atomic.Int64
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := start()
	for i, nc := range conns {
		subject := "intake." + l.users[i]
		var next atomic.Int64
		for range flight {
			wg.Go(func() {
				for {
					k := int(next.Add(1)) - 1
					if k >= len(l.messages[i]) || ctx.Err() != nil {
						return
					}
					n, err := request(ctx, nc, subject, l.messages[i][k])
					taken.Add(int64(n))
					if err != nil {
						once.Do(func() { failed = err; cancel() })
					}
				}
			})
		}
	}
	wg.Wait()
	s := watch.stop(l.events)
	if failed == nil && int(taken.Load()) != l.events {
		failed = fmt.Errorf("%d receipts for %d events", taken.Load(), l.events)
	}
	return s, failed
}

// request publishes one message and counts its receipts.
func request(ctx context.Context, nc *nats.Conn, subject string, body []byte) (receipts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	if i := bytes.Index(m.Data, []byte(`"error"`)); i >= 0 {
		return 0, fmt.Errorf("an event was refused: %s", strings.ToValidUTF8(string(m.Data[i:min(len(m.Data), i+200)]), ""))
	}
	return bytes.Count(m.Data, []byte(`"leaf"`)), nil
}
