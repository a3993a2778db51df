package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

const hash64 = "3f0c1d5e9a7b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9010203040506"

// Mix appends n records of a busy agent's day: episodes with tool calls, claims,
// predictions and their resolutions, and now and then a record that refers to
// nothing, repeats an identifier, or is of an unknown type.
func (l *Ledger) Mix(rng *rand.Rand, n int) {
	m := mixer{l: l, rng: rng}
	for i := range n {
		if m.episode == "" || rng.IntN(40) == 0 {
			m.episode = fmt.Sprintf("ep-%d", len(l.bodies))
			m.number = 0
		}
		m.one(i)
	}
}

type mixer struct {
	l       *Ledger
	rng     *rand.Rand
	episode string
	number  int

	opportunity, claim, pred, call, exp, set, query, canary string
}

func (m *mixer) name(kind string) string {
	if m.rng.IntN(200) == 0 {
		return kind + "-again"
	}
	return fmt.Sprintf("%s-%d", kind, len(m.l.bodies))
}

func (m *mixer) context() events.Context {
	c := events.Context{Component: Ptr("worker"), Capture: Ptr("live"), SystemCommit: Ptr("9f2c1ab")}
	if m.opportunity != "" && m.rng.IntN(2) == 0 {
		c.OpportunityID = Ptr(m.opportunity)
	}
	return c
}

func (m *mixer) put(principal string, data events.Payload) {
	m.number += 1 + m.rng.IntN(30)/29
	opts := []Option{Episode(m.episode), Sequence(fmt.Sprint(m.number))}
	if len(m.l.bodies)%100 == 7 {
		opts = append(opts, DataRef(m.ref()))
	}
	m.l.Put(principal, m.namespace(principal), data, opts...)
	if len(m.l.bodies)%500 == 0 {
		m.l.Put("operator/op", "production", &events.BlobErased{Ref: m.ref(), Reason: "subject_request"})
	}
}

// ref is one of a few blobs, so that some are named again and some were erased.
func (m *mixer) ref() string { return fmt.Sprintf("sha256:%064x", len(m.l.bodies)%300) }

func (m *mixer) namespace(principal string) string {
	if strings.HasSuffix(principal, "canary") {
		return "canary"
	}
	return "production"
}

func (m *mixer) one(int) {
	agent := "agent/piper"
	if m.rng.IntN(20) == 0 {
		agent = "agent/canary"
	}
	switch k := m.rng.IntN(100); {
	case k < 36:
		m.toolCall(agent)
	case k < 42:
		m.family(agent)
	case k < 52:
		m.opportunity = m.name("opp")
		m.put("detector/main", &events.OpportunityDetected{
			Context: m.context(), OpportunityID: m.opportunity, Kind: "why", Component: "worker",
			DetectorVersion: "1.0.0", TextSpanHash: hash64, Score: Ptr(m.rng.Float64()),
		})
	case k < 60:
		m.put(agent, &events.GateChosen{Context: m.context(), Action: "INFER", OfferedTools: []string{"causal", "graph_query"}})
	case k < 72:
		m.recordClaim(agent)
	case k < 76:
		m.put(agent, &events.ClaimRevised{Context: m.context(), ClaimID: m.claim, OldStatus: "hypothesis", NewStatus: "asserted"})
	case k < 83:
		m.pred = m.name("pred")
		m.put(agent, &events.PredictionRecorded{
			Context: m.context(), PredID: m.pred, ClaimID: Ptr(m.claim), PredictedEffect: "rss falls below 100 MiB", P: m.rng.Float64(),
			Criterion: jsontext.Value(`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"0s","length":"30s"},"all":[{"signal":"rss","reduce":"max","op":"<=","value":100}]}`),
		})
	case k < 90:
		m.resolve()
	case k < 93:
		m.experiment(agent)
	case k < 95:
		m.put("logger/main", &events.IntakeRejected{Principal: agent, Code: "malformed", Size: 300, Count: 1, HMAC: Ptr(hash64)})
	case k < 97:
		m.writeGraph(agent)
	case k < 98:
		m.put("operator/op", &events.FixRechecked{Context: m.context(), ClaimID: m.claim, Result: "confirmed", Source: "operator_report", EvidenceIDs: []string{m.call}})
	case k < 99:
		m.l.PutEvent(agent, "production", []byte(`{"specversion":"1.0","id":"`+m.l.NextID()+`","source":"urn:x","type":"later.type","time":"2026-10-01T00:00:00Z","dataschema":"urn:assay:later.type:1","data":{"context":{}}}`))
		m.l.ids++
	default:
		m.rare(agent)
	}
}

// rare is what comes once in a hundred records.
func (m *mixer) rare(agent string) {
	switch m.rng.IntN(12) {
	case 0, 1:
		m.set = m.name("set")
		d := &events.HypothesesRecorded{Context: m.context(), SetID: m.set, Alternatives: []events.Alternative{
			{ID: "h1", Edge: &events.AlternativeEdge{Cause: "leak", Effect: "oom"}, P: Ptr(m.rng.Float64())},
			{ID: "h2", Proposition: &events.AlternativeProposition{Variable: "cache", Value: "full"}},
		}}
		if m.rng.IntN(2) == 0 {
			d.ClaimID = Ptr(m.claim)
		}
		m.put(agent, d)
	case 2:
		m.query = m.name("query")
		m.put(agent, &events.QuerySelected{Context: m.context(), QueryID: m.query, SetID: Ptr(m.set), Chosen: "look", Menu: []events.QueryOption{{Option: "look"}}})
	case 3:
		m.put("dispatcher/main", &events.QueryExecuted{QueryID: m.query, ToolCallID: m.call})
	case 4:
		m.put("dispatcher/main", &events.EvidenceDelivered{EvidenceID: "nothing", SourceID: "vmstat", SHA256: hash64})
	case 5:
		m.put("detector/main", &events.DetectorScanned{DetectorVersion: "1.0.0", Turns: 9, Positive: 1, Negative: 8, NegativeTurnIDs: []string{m.name("turn")}})
	case 6:
		week := fmt.Sprintf("2026-W%02d", 1+m.rng.IntN(52))
		m.put("logger/main", &events.WeekClosed{Week: week, Zone: "UTC", Start: events.FormatTime(m.l.now), End: events.FormatTime(m.l.now)})
		m.put("operator/op", &events.AuditSampled{Week: week, Namespace: "production", Method: "audit/2", Seed: hash64, ClosedSeq: uint64(len(m.l.bodies)), Strata: []events.AuditStratum{}})
	case 7:
		m.canary = m.name("canary")
		m.put("operator/op", &events.CanaryStarted{CanaryID: m.canary, Policy: "p", CapPerWeek: 3, Actions: []events.CanaryAction{{Tool: "bash", Reversible: true}}, Criteria: []events.CanaryCriterion{{Metric: "correctness_violation"}}})
	case 8:
		m.put("resolver/main", &events.RollbackTriggered{CanaryID: m.canary, Rule: "action_not_listed", Reason: "graph_query"})
	case 9:
		m.put("dispatcher/main", &events.UsageRecorded{
			MessageID: Ptr(fmt.Sprintf("msg-%d", len(m.l.bodies)/3)), Model: Ptr("model-x"), UsageConvention: Ptr("input_excludes_cached"),
			Tokens: &events.Tokens{Input: Ptr(int64(400)), Output: Ptr(int64(300)), Cached: Ptr(int64(800))},
		})
	case 10:
		m.put("operator/op", &events.PriceRecorded{PriceID: m.name("price"), Model: "model-x", ValidFrom: events.FormatTime(m.l.now), InputUSDPerMTok: Ptr(3.0)})
	default:
		m.put("logger/main", &events.ClockTicked{BootID: "b", MonotonicDeltaNS: 1e10})
	}
}

func (m *mixer) toolCall(agent string) {
	m.call = m.name("call")
	d := &events.ToolCalled{
		Context: m.context(), ToolCallID: m.call, Tool: []string{"bash", "bash", "bash", "causal", "graph_query"}[m.rng.IntN(5)], Status: "ok",
		StartedAt: Ptr("2026-10-01T00:00:00Z"), EndedAt: Ptr("2026-10-01T00:00:01Z"), ArgsHash: Ptr(hash64), ResultHash: Ptr(hash64),
		Tokens: &events.Tokens{Input: Ptr(int64(1200)), Output: Ptr(int64(300)), Cached: Ptr(int64(800))}, CostUSD: Ptr(0.0125),
		UsageConvention: Ptr("input_includes_cached"), LatencyMS: Ptr(812.5),
	}
	if m.rng.IntN(4) == 0 {
		d.MessageID = Ptr(fmt.Sprintf("msg-%d", len(m.l.bodies)/3))
	}
	if m.rng.IntN(8) == 0 {
		m.put(agent, d)
		return
	}
	m.put("dispatcher/main", d)
}

func (m *mixer) recordClaim(agent string) {
	m.claim = m.name("claim")
	m.put(agent, &events.ClaimRecorded{
		Context: m.context(), ClaimID: m.claim, Status: []string{"hypothesis", "asserted"}[m.rng.IntN(2)],
		Edge:          &events.Edge{Rung: "intervention", Cause: "leak", Effect: "oom", Polarity: Ptr("positive")},
		RawConfidence: Ptr(m.rng.Float64()), EvidenceIDs: []string{m.call, "nothing"},
	})
}

func (m *mixer) resolve() {
	who := "resolver/main"
	if m.rng.IntN(50) == 0 {
		who = "agent/piper" // refused by any logger; parked here
	}
	if m.rng.IntN(2) == 0 {
		m.put(who, &events.PredictionArmed{
			PredID: m.pred, RegistrySHA256: hash64, WindowOpen: events.FormatTime(m.l.now), WindowEnd: events.FormatTime(m.l.now), CutSeq: uint64(len(m.l.bodies)),
		})
		return
	}
	m.put(who, &events.PredictionResolved{
		PredID: m.pred, Verdict: []string{"confirmed", "refuted", "void", "unresolved"}[m.rng.IntN(4)],
		Evidence: events.ResolutionEvidence{Refs: []string{hash64}, Digest: hash64, Summary: "max 91"}, CutSeq: uint64(len(m.l.bodies)),
		Engine: "assay/1", CriterionSHA256: hash64, RegistrySHA256: hash64, Foreknowledge: "none", Scorable: true,
		Attribution: events.Attribution{Kind: "temporal_only"}, Resolver: events.ResolverIdentity{ID: "main", Kind: "telemetry", Key: "UABC"},
	})
}

func (m *mixer) experiment(agent string) {
	switch m.rng.IntN(3) {
	case 0:
		m.exp = m.name("exp")
		m.put(agent, &events.ExperimentProposed{Context: m.context(), ExpID: m.exp, Discriminates: []string{m.claim}})
	case 1:
		m.put("dispatcher/main", &events.ExperimentExecuted{ExpID: m.exp, ToolCallID: m.call})
	default:
		m.put("resolver/main", &events.ExperimentObserved{ExpID: m.exp, Observed: "rss fell", EvidenceIDs: []string{hash64}})
	}
}
