package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

// Tangle appends n records that say much of few things: identifiers come again, in
// several namespaces, rulings are amended, raters differ under several rubrics, a thing
// has several witnesses, what is referred to comes late or never, numbers are missing, and
// every twelfth record was imported. Mix is a day as it should be; this is what
// definitions are tried on.
func (l *Ledger) Tangle(rng *rand.Rand, n int) {
	t := tangler{mixer: mixer{l: l, rng: rng}, ruled: map[string]string{}}
	for range n {
		t.episode = pick(rng, "", "ep-1", "ep-2", "ep-3", "ep-4", "ep-5")
		t.claim, t.pred, t.opportunity = t.one("claim", 40), t.one("pred", 60), t.one("opp", 60)
		t.call, t.exp, t.query, t.set = t.one("call", 90), t.one("exp", 25), t.one("query", 15), t.one("set", 30)
		l.Advance(time.Duration(rng.IntN(3600)) * time.Second)
		t.step()
	}
}

type tangler struct {
	mixer
	ruled map[string]string // the event that last ruled on a prediction
	ran   [2]string         // the latest call and its episode
}

// one is one of n things of a kind.
func (t *tangler) one(kind string, n int) string { return fmt.Sprintf("%s-%d", kind, t.rng.IntN(n)) }

func (t *tangler) half() bool { return t.rng.IntN(2) == 0 }

// maybe is a value, or unknown.
func maybe[T any](t *tangler, v T) *T { return pick(t.rng, nil, &v, &v) }

func (t *tangler) circumstances(d events.Payload) events.Context {
	c := events.Context{OpportunityID: pick(t.rng, nil, nil, &t.opportunity), ToolCallID: d.Common().ToolCallID}
	switch t.rng.IntN(12) {
	case 0:
		c.Capture = Ptr("imported")
	case 1, 2:
		c.Capture = Ptr(pick(t.rng, "hook", "otlp"))
	}
	return c
}

// say records what one of a role says, mostly in production.
func (t *tangler) say(role string, d events.Payload, opts ...Option) string {
	*d.Common() = t.circumstances(d)
	name, ns := "/main", "production"
	if t.rng.IntN(8) == 0 {
		name, ns = "/canary", "canary"
	}
	id := t.l.NextID()
	t.l.Put(role+name, ns, d, append([]Option{Episode(t.episode)}, opts...)...)
	return id
}

func (t *tangler) step() {
	for _, s := range []struct {
		share int
		do    func()
	}{
		{20, t.bench}, {8, t.detect}, {14, t.toolCall}, {8, t.claims}, {6, t.revise}, {8, t.predict}, {12, t.rule}, {4, t.recheck},
		{14, t.experiment}, {4, t.queries}, {9, t.hypothesise}, {4, t.abduce}, {12, t.label}, {5, t.usage}, {2, t.price},
		{4, t.canaries}, {2, t.scan}, {8, t.deliver}, {9, func() { t.find("agent/piper") }}, {6, func() { t.believe("agent/piper") }},
		{4, func() { t.contradict("agent/piper") }}, {2, func() { t.writeGraph("agent/piper") }}, {4, t.challenge}, {5, t.collide}, {6, t.consolidate}, {2, t.census},
	} {
		if t.rng.IntN(116) < s.share {
			s.do()
			return
		}
	}
}

func (t *tangler) detect() {
	t.say("detector", &events.OpportunityDetected{
		OpportunityID: t.opportunity, Kind: pick(t.rng, "why", "root_cause", "which_fix", "gap"), Component: "worker", DetectorVersion: pick(t.rng, "1", "2"), TextSpanHash: hash64,
	})
}

func (t *tangler) tokens() *events.Tokens {
	return &events.Tokens{Input: maybe(t, int64(t.rng.IntN(900))), Output: maybe(t, int64(t.rng.IntN(300))), Cached: pick(t.rng, nil, Ptr(int64(0)), Ptr(int64(t.rng.IntN(900))))}
}

func (t *tangler) convention() *string {
	return pick(t.rng, nil, Ptr("input_includes_cached"), Ptr("input_excludes_cached"))
}

func (t *tangler) toolCall() {
	d := &events.ToolCalled{
		ToolCallID: t.call, Tool: pick(t.rng, "bash", "restart", "causal", "counterfactual", "graph_query", "lookup"), Status: pick(t.rng, "ok", "ok", "failed", "timeout", "denied"),
		Tokens: t.tokens(), UsageConvention: t.convention(), LatencyMS: maybe(t, t.rng.Float64()*500), CostUSD: maybe(t, t.rng.Float64()), MessageID: pick(t.rng, nil, Ptr(t.one("msg", 30))),
	}
	if d.Tool == "lookup" && t.half() {
		d.ReturnedEdges = []events.ReturnedEdge{{Cause: "leak", Effect: "oom"}}
	}
	t.ran = [2]string{t.call, t.episode}
	t.say(pick(t.rng, "dispatcher", "dispatcher", "agent"), d)
}

// latestCall is half of the time what an execution names, and where.
func (t *tangler) latestCall() {
	if t.ran[0] != "" && t.half() {
		t.call, t.episode = t.ran[0], t.ran[1]
	}
}

func (t *tangler) claims() {
	d := &events.ClaimRecorded{
		ClaimID: t.claim, Status: pick(t.rng, "hypothesis", "asserted", "asserted"), EvidenceIDs: pick(t.rng, nil, []string{t.call, t.call, t.one("evidence", 20)}, []string{t.one("evidence", 20), t.one("evidence", 20), t.one("evidence", 20)}),
		CompetingIDs: pick(t.rng, nil, nil, []string{t.one("h", 6), t.one("h", 6)}),
	}
	if t.half() {
		d.EvidenceSnapshots = []events.EvidenceSnapshot{{EvidenceID: t.one("evidence", 20), SHA256: t.content()}}
	}
	if d.Edge = (&events.Edge{Rung: pick(t.rng, "observation", "intervention"), Cause: "leak", Effect: "oom"}); t.rng.IntN(4) == 0 {
		d.Edge, d.Proposition = nil, &events.Proposition{Variable: "cache", Value: "full"}
	}
	t.say("agent", d)
}

func (t *tangler) revise() {
	t.say("agent", &events.ClaimRevised{
		ClaimID: t.claim, OldStatus: pick(t.rng, "hypothesis", "asserted", "asserted"), NewStatus: pick(t.rng, "hypothesis", "asserted", "retracted"),
	})
}

func (t *tangler) predict() {
	t.say("agent", &events.PredictionRecorded{
		PredID: t.pred, ClaimID: maybe(t, t.claim), PredictedEffect: "rss falls", P: t.rng.Float64(),
		Criterion: jsontext.Value(`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"0s","length":"30s"},"all":[{"signal":"rss","reduce":"max","op":"<=","value":100}]}`),
	})
}

// rule is a word of the resolver: most of them on predictions that it has ruled on
// before, in the order that it should have, or not.
func (t *tangler) rule() {
	if t.rng.IntN(4) == 0 {
		open := events.FormatTime(t.l.now.Add(time.Duration(t.rng.IntN(48)-40) * time.Hour))
		t.say("resolver", &events.PredictionArmed{PredID: t.pred, RegistrySHA256: hash64, WindowOpen: open, WindowEnd: open, CutSeq: 1})
		return
	}
	d := &events.PredictionResolved{
		PredID: t.pred, Verdict: pick(t.rng, "confirmed", "confirmed", "refuted", "void", "unresolved"), CutSeq: uint64(t.rng.IntN(len(t.l.bodies) + 2)),
		Engine: "assay/1", Scorable: t.rng.IntN(4) > 0, Resolver: events.ResolverIdentity{ID: "main", Kind: pick(t.rng, "telemetry", "telemetry", "telemetry", "operator"), Key: "UABC"},
	}
	at := At(t.l.now.Add(-time.Duration(t.rng.IntN(72)) * time.Hour))
	before, ruled := t.ruled[t.pred]
	if !ruled || t.rng.IntN(4) == 0 {
		if id := t.say("resolver", d, at); !ruled {
			t.ruled[t.pred] = id
		}
		return
	}
	id := t.say("resolver", &events.PredictionResolutionAmended{
		PredID: d.PredID, Supersedes: before, Cause: pick(t.rng, "late_telemetry", "corrected_telemetry", "engine", "operator_report"),
		Verdict: d.Verdict, CutSeq: d.CutSeq, Engine: d.Engine, Scorable: d.Scorable, Resolver: d.Resolver,
	}, at)
	if t.rng.IntN(5) > 0 {
		t.ruled[t.pred] = id
	}
}

func (t *tangler) recheck() {
	t.say(pick(t.rng, "operator", "resolver"), &events.FixRechecked{
		ClaimID: t.claim, Result: pick(t.rng, "confirmed", "not_confirmed", "inconclusive"), Source: "instrument", Direct: t.rng.IntN(4) > 0, EvidenceIDs: []string{t.one("evidence", 20)},
	})
}

func (t *tangler) experiment() {
	switch t.rng.IntN(3) {
	case 0:
		d := &events.ExperimentProposed{ExpID: t.exp, Discriminates: []string{t.claim}}
		for range t.rng.IntN(4) {
			d.Predicted = append(d.Predicted, events.PredictedOutcome{ClaimID: t.one("claim", 40), Outcome: pick(t.rng, "up", "down")})
		}
		t.say("agent", d)
	case 1:
		t.latestCall()
		t.say("dispatcher", &events.ExperimentExecuted{ExpID: t.exp, ToolCallID: t.call})
	default:
		t.say("resolver", &events.ExperimentObserved{ExpID: t.exp, Observed: pick(t.rng, "up", "down", "none"), EvidenceIDs: []string{t.one("evidence", 20)}})
	}
}

func (t *tangler) queries() {
	if t.half() {
		t.say("agent", &events.QuerySelected{QueryID: t.query, Chosen: "look"})
		return
	}
	t.latestCall()
	t.say("dispatcher", &events.QueryExecuted{QueryID: t.query, ToolCallID: t.call})
}

func (t *tangler) hypothesise() {
	d := &events.HypothesesRecorded{SetID: t.set, ClaimID: pick(t.rng, nil, nil, &t.claim), QuestionID: pick(t.rng, nil, nil, &t.opportunity)}
	for range t.rng.IntN(4) {
		d.Alternatives = append(d.Alternatives, events.Alternative{ID: t.one("h", 6)})
	}
	t.say("agent", d)
}

func (t *tangler) abduce() {
	id := t.one("abduction", 25)
	switch t.rng.IntN(4) {
	case 0, 1:
		t.say("agent", &events.AbductionStarted{AbductionID: id, QuestionID: pick(t.rng, nil, nil, &t.opportunity), Mode: pick(t.rng, nil, Ptr("full"))})
	case 2:
		t.say("agent", &events.AbductionCompleted{AbductionID: id})
	default:
		t.say("agent", &events.AbductionFailed{AbductionID: id, Code: "budget"})
	}
}

func (t *tangler) label() {
	rater, rubric, blind := pick(t.rng, "ann", "bob", "cai"), pick(t.rng, "1", "1", "2"), t.rng.IntN(4) > 0
	is := func() *bool { return pick(t.rng, nil, Ptr(true), Ptr(true), Ptr(true), Ptr(false)) }
	if t.half() {
		d := &events.OpportunityLabelled{Kind: "opportunity", ID: t.opportunity, Eligible: is(), Rater: rater, Blind: blind, RubricVersion: rubric}
		if t.half() {
			d.Kind, d.ID = "turn", t.one("turn", 12)
		}
		t.say("operator", d)
		return
	}
	d := &events.AuditLabelled{Rater: rater, Blind: blind, RubricVersion: rubric}
	switch t.rng.IntN(5) {
	case 0:
		d.Kind, d.ID, d.CommitmentSupported = "claim", t.claim, is()
	case 1:
		d.Kind, d.ID, d.CommitmentSupported = "prediction", t.pred, is()
	case 2:
		d.Kind, d.ID, d.RevisionRequired, d.RevisionCorrect = "challenge", t.one("challenge", 12), is(), is()
	case 3:
		d.Kind, d.ID, d.ContradictionValid = "contradiction", t.one("conflict", 10), is()
	default:
		d.Kind, d.ID, d.AbductionWarranted, d.Eligible = "opportunity", t.opportunity, is(), is()
	}
	t.say("operator", d)
}

// census samples edges, of which some are no causal claims, and has each labelled by two
// who mostly agree.
func (t *tangler) census() {
	d := &events.AuditSampled{Week: pick(t.rng, "2026-W40", "2026-W41", "2026-W42"), Namespace: pick(t.rng, "production", "production", "canary"), Set: pick(t.rng, nil, Ptr("edges"), Ptr("edges"), Ptr("edges"))}
	st := events.AuditStratum{Stratum: "edge"}
	// A rater's first word on an edge counts, whatever sample it names.
	first := 40 * t.rng.IntN(20)
	for i := range 40 {
		st.Cases = append(st.Cases, events.AuditCase{Kind: "edge", ID: fmt.Sprintf("edge-%d", first+i)})
	}
	d.Strata = append(d.Strata, st)
	t.say("operator", d)
	sample, others := Ptr(uint64(len(t.l.bodies))), t.rng.IntN(20)
	rarely := func() bool { return t.rng.IntN(32) == 0 }
	for i, c := range st.Cases {
		raters := []string{"ann", "bob", "cai"}
		t.rng.Shuffle(len(raters), func(i, j int) { raters[i], raters[j] = raters[j], raters[i] })
		for _, rater := range raters[:2] {
			relation := "causal_claim"
			if (i < others) != rarely() {
				relation = pick(t.rng, "correlation", "part_of")
			}
			l := &events.AuditLabelled{SampleSeq: sample, Kind: c.Kind, ID: c.ID, Rater: rater, Blind: !rarely(), RubricVersion: "1", Edge: &events.EdgeLabel{RelationKind: &relation}}
			if rarely() {
				l.Edge.RelationKind = nil
			}
			if rarely() {
				l.SampleSeq = nil
			}
			if rarely() {
				l.RubricVersion = "2"
			}
			t.say("operator", l)
		}
	}
}

func (t *tangler) challenge() {
	t.say("dispatcher", &events.BeliefChallenged{ChallengeID: t.one("challenge", 12), BeliefID: t.aBelief()})
}

// consolidate makes beliefs of beliefs, called derived or something else.
func (t *tangler) consolidate() {
	from := []string{t.aBelief()}
	t.say("dispatcher", &events.BeliefTransformed{
		TransformID: t.one("transform", 40), Op: "summarised", Inputs: []events.BeliefInput{{BeliefID: from[0]}},
		Outputs: []events.BeliefOutput{{BeliefID: t.aBelief(), From: pick(t.rng, nil, from), Provenance: &events.Provenance{Origin: pick(t.rng, nil, Ptr("derived"), Ptr("observation"))}}},
	})
}

// collide detects conflicts of few pairs, from either side.
func (t *tangler) collide() {
	side := func() events.ContradictionSide {
		return events.ContradictionSide{Kind: "belief", ID: t.one("belief", 3)}
	}
	t.say(pick(t.rng, "agent", "operator"), &events.ContradictionDetected{ContradictionID: t.one("conflict", 10), Left: side(), Right: side()})
}

func (t *tangler) usage() {
	d := &events.UsageRecorded{
		MessageID: pick(t.rng, nil, Ptr(t.one("msg", 30)), Ptr(t.one("msg", 30))), Model: pick(t.rng, nil, Ptr("big"), Ptr("small")), ModelVersion: pick(t.rng, nil, Ptr("v1")),
		Provider: pick(t.rng, nil, Ptr("here")), Tokens: t.tokens(), UsageConvention: t.convention(), CostUSD: maybe(t, t.rng.Float64()),
		LatencyMS: maybe(t, t.rng.Float64()*900), Attempts: maybe(t, int64(t.rng.IntN(4))), LedgerWrites: maybe(t, int64(t.rng.IntN(9))),
		Background: maybe(t, t.half()), CPUSeconds: maybe(t, t.rng.Float64()*3), GPUSeconds: maybe(t, t.rng.Float64()),
		EndedAt: pick(t.rng, nil, Ptr(events.FormatTime(t.l.now.Add(-time.Duration(t.rng.IntN(1e9))*time.Microsecond)))),
	}
	d.Context.ToolCallID = pick(t.rng, nil, &t.call)
	t.say("dispatcher", d)
}

func (t *tangler) price() {
	d := &events.PriceRecorded{
		PriceID: t.one("price", 40), Model: pick(t.rng, "big", "small"), ModelVersion: pick(t.rng, nil, nil, Ptr("v1")), Provider: pick(t.rng, nil, nil, Ptr("here")),
		ValidFrom: events.FormatTime(t.l.now.Add(-time.Duration(t.rng.IntN(200)) * time.Hour)), InputUSDPerMTok: maybe(t, t.rng.Float64()*9),
		CachedUSDPerMTok: maybe(t, t.rng.Float64()), OutputUSDPerMTok: maybe(t, t.rng.Float64()*20),
	}
	if t.rng.IntN(4) == 0 {
		d.ValidTo = Ptr(events.FormatTime(t.l.now.Add(time.Duration(t.rng.IntN(100)) * time.Hour)))
	}
	t.say("operator", d)
}

func (t *tangler) canaries() {
	id := t.one("canary", 6)
	switch t.rng.IntN(4) {
	case 0, 1:
		t.say("operator", &events.CanaryStarted{CanaryID: id, Policy: "p", CapPerWeek: 3})
	case 2:
		t.say("operator", &events.CanaryEnded{CanaryID: id, Reason: "done"})
	default:
		t.say(pick(t.rng, "operator", "resolver"), &events.RollbackTriggered{
			CanaryID: id, Rule: "cap", Reason: "over", CutSeq: pick(t.rng, nil, Ptr(uint64(t.rng.IntN(len(t.l.bodies)+2)))),
		})
	}
}

func (t *tangler) scan() {
	t.say("detector", &events.DetectorScanned{
		DetectorVersion: "1", Turns: 10, Positive: int64(t.rng.IntN(4)), Negative: int64(t.rng.IntN(9)), NegativeTurnIDs: []string{t.one("turn", 12), t.one("turn", 12)},
	})
}

func (t *tangler) deliver() {
	id := t.one("evidence", 20)
	if t.half() {
		t.say("dispatcher", &events.EvidenceDelivered{EvidenceID: id, SourceID: "vmstat", SHA256: t.content()})
		return
	}
	t.say(pick(t.rng, "operator", "resolver"), &events.OutcomeRecorded{What: "seen", Source: "instrument", Direct: true, ClaimID: maybe(t, t.claim), EvidenceIDs: []string{id}})
}
