// Package workload makes the events that the benchmarks send: those of an
// agent's busy day, about 600 bytes each.
package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/schema"
)

const hash64 = "3f0c1d5e9a7b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9010203040506"

func ptr[T any](v T) *T { return &v }

// Author writes the events of one principal.
type Author struct {
	User  string // role.name
	Share int    // of a hundred events
	role  schema.Role
	next  func(m *Mix) events.Payload
}

// Authors share the events between them.
var Authors = []Author{
	{"dispatcher.main", 45, "dispatcher", (*Mix).toolCall},
	{"agent.piper", 45, "agent", (*Mix).agentEvent},
	{"detector.main", 10, "detector", (*Mix).opportunity},
}

// Mix makes payloads that refer to one another; its names never repeat.
type Mix struct {
	// Now is the clock of the events; nil is time.Now.
	Now func() time.Time
	// Criterion is what predictions promise; "" promises something about a
	// signal that no registry has, so that a resolver voids it at once.
	Criterion string

	rng *rand.Rand
	n   int
}

// New is a mix that always makes the same payloads.
func New() *Mix { return &Mix{rng: rand.New(rand.NewPCG(1, 2))} }

const unknownSignal = `{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"0s","length":"30s"},"all":[{"signal":"rss","reduce":"max","op":"<=","value":100}]}`

func (m *Mix) name(kind string) string { return fmt.Sprintf("%s-%d", kind, m.n) }

// recent is the name of something made a while ago.
func (m *Mix) recent(kind string) string {
	return fmt.Sprintf("%s-%d", kind, max(0, m.n-1-m.rng.IntN(50)))
}

func (m *Mix) context() events.Context {
	return events.Context{Component: ptr("checkout-worker"), Capture: ptr("live"), SystemCommit: ptr("9f2c1ab"), OpportunityID: ptr(m.recent("opp"))}
}

func (m *Mix) toolCall() events.Payload {
	return &events.ToolCalled{
		Context: m.context(), ToolCallID: m.name("call"), Tool: []string{"bash", "causal", "graph_query"}[m.rng.IntN(3)], Status: "ok",
		ArgsHash: ptr(hash64), Tokens: &events.Tokens{Input: ptr(int64(1200)), Output: ptr(int64(300))}, CostUSD: ptr(0.0125),
		LatencyMS: ptr(float64(m.rng.IntN(5000))),
	}
}

func (m *Mix) opportunity() events.Payload {
	return &events.OpportunityDetected{
		Context: m.context(), OpportunityID: m.name("opp"), Kind: "why", Component: "checkout-worker",
		DetectorVersion: "1.0.0", TextSpanHash: hash64, Score: ptr(m.rng.Float64()),
	}
}

func (m *Mix) agentEvent() events.Payload {
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
			Criterion: jsontext.Value(cmp.Or(m.Criterion, unknownSignal)),
		}
	}
}

// Event encodes the next event of the author, checked as an intake would, and
// names its type.
func (m *Mix) Event(a Author) (raw []byte, typ string, err error) {
	m.n++
	e, err := events.Maker{Source: "urn:bench:" + a.User, Now: m.Now}.New(a.next(m))
	if err != nil {
		return nil, "", err
	}
	e.EpisodeID, e.Sequence = fmt.Sprintf("ep-%d", m.n/40), fmt.Sprint(m.n)
	raw, err = events.Encode(e)
	if err != nil {
		return nil, "", err
	}
	checked, fault := schema.Check(raw)
	if fault != nil {
		return nil, "", fmt.Errorf("event of %s: %w", a.User, fault)
	}
	if !schema.MayWrite(a.role, checked.Type, "production") {
		return nil, "", fmt.Errorf("%s may not write %s", a.User, checked.Type)
	}
	return raw, checked.Type, nil
}
