package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"assay/events"
)

// family is one record of a family that says something of what came before:
// beliefs, contradictions, findings, runs, decisions, labels, and what was done to
// them.
func (m *mixer) family(agent string) {
	switch m.rng.IntN(6) {
	case 0:
		m.contradict(agent)
	case 1:
		m.find(agent)
	case 2:
		m.run()
	case 3:
		m.govern(agent)
	default:
		m.believe(agent)
	}
}

// pick is one of a few values.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// observed is the agent or, as often, the dispatcher.
func (m *mixer) observed(agent string) string { return pick(m.rng, agent, "dispatcher/main") }

func (m *mixer) writeGraph(agent string) {
	d := &events.GraphWritten{Context: m.context(), Op: pick(m.rng, "add", "add", "update", "remove"), Cause: "leak", Effect: pick(m.rng, "oom", "swap")}
	if m.rng.IntN(2) == 0 {
		d.EdgeID = Ptr(fmt.Sprintf("edge-%d", m.rng.IntN(8)))
	}
	m.put(m.observed(agent), d)
}

// content is one of a few hashes, so that some contents come again.
func (m *mixer) content() string { return fmt.Sprintf("%064x", m.rng.IntN(5)) }

func (m *mixer) provenance() *events.Provenance {
	return &events.Provenance{
		Origin: pick(m.rng, nil, Ptr("derived"), Ptr("observation")), Lineage: &events.Lineage{EvidenceIDs: []string{m.call}, Parents: []string{m.aBelief()}},
	}
}

// aBelief is one of a few, or one that nobody recorded.
func (m *mixer) aBelief() string { return fmt.Sprintf("belief-%d", m.rng.IntN(12)) }

func (m *mixer) believe(agent string) {
	id, version := m.aBelief(), int64(1+m.rng.IntN(4))
	switch m.rng.IntN(10) {
	case 0, 1, 2:
		m.put(m.observed(agent), &events.BeliefCreated{Context: m.context(), BeliefID: id, Version: &version, ContentSHA256: m.content(), Provenance: m.provenance()})
	case 3:
		m.put(m.observed(agent), &events.BeliefChallenged{Context: m.context(), ChallengeID: fmt.Sprintf("challenge-%d", m.rng.IntN(30)), BeliefID: id})
	case 4, 5:
		m.put(m.observed(agent), &events.BeliefRevised{
			Context: m.context(), BeliefID: id, Change: pick(m.rng, "content", "metadata"), NewVersion: pick(m.rng, nil, &version), ContentSHA256: m.content(),
			OldContentSHA256: pick(m.rng, nil, Ptr(m.content())), ChallengeID: pick(m.rng, nil, Ptr(fmt.Sprintf("challenge-%d", m.rng.IntN(30)))),
		})
	case 6:
		m.put(agent, &events.BeliefSuperseded{Context: m.context(), BeliefID: id, SupersededBy: m.aBelief()})
	case 7:
		m.put(agent, &events.LineageChanged{Context: m.context(), BeliefID: id, NewLineage: &events.Lineage{Parents: []string{m.aBelief()}}})
	case 8:
		m.put("dispatcher/main", &events.BeliefTransformed{
			TransformID: m.name("transform"), Op: "summarised", Inputs: []events.BeliefInput{{BeliefID: id}, {BeliefID: m.aBelief()}},
			Outputs: []events.BeliefOutput{{BeliefID: m.aBelief(), Version: &version, ContentSHA256: Ptr(m.content()), From: []string{id}}, {BeliefID: m.aBelief()}},
		})
	default:
		m.put("dispatcher/main", &events.BeliefRead{BeliefID: id, Version: &version, ContentSHA256: pick(m.rng, nil, Ptr(m.content()))})
	}
}

func (m *mixer) contradict(agent string) {
	id, evidence := fmt.Sprintf("conflict-%d", m.rng.IntN(10)), []string{m.call}
	who := pick(m.rng, agent, "operator/op")
	switch m.rng.IntN(7) {
	case 0, 1:
		m.put(who, &events.ContradictionDetected{
			Context: m.context(), ContradictionID: id,
			Left: events.ContradictionSide{Kind: "belief", ID: m.aBelief()}, Right: events.ContradictionSide{Kind: "belief", ID: m.aBelief()},
		})
	case 2:
		m.put(who, &events.ContradictionOwned{Context: m.context(), ContradictionID: id, Owner: "piper", RevisitBy: pick(m.rng, nil, Ptr(events.FormatTime(m.l.now.Add(time.Minute))))})
	case 3:
		m.put(who, &events.ContradictionInvestigated{Context: m.context(), ContradictionID: id, EvidenceIDs: evidence})
	case 4:
		m.put(who, &events.ContradictionScoped{Context: m.context(), ContradictionID: id, LeftScope: "host a", RightScope: pick(m.rng, "host b", "host c"), EvidenceIDs: evidence})
	case 5:
		m.put(who, &events.ContradictionUnresolved{Context: m.context(), ContradictionID: id, Cause: pick(m.rng, "expired", "deferred")})
	default:
		m.put(who, &events.ContradictionResolved{Context: m.context(), ContradictionID: id, Resolution: pick(m.rng, "left_holds", "right_holds"), EvidenceIDs: evidence})
	}
}

func (m *mixer) find(agent string) {
	id, injection := fmt.Sprintf("finding-%d", m.rng.IntN(8)), fmt.Sprintf("injection-%d", m.rng.IntN(20))
	tokens := pick(m.rng, nil, Ptr(int64(m.rng.IntN(200))))
	switch m.rng.IntN(5) {
	case 0:
		m.put(agent, &events.FindingWritten{Context: m.context(), FindingID: id, Claim: "the cache leaks", ClaimSHA256: pick(m.rng, nil, Ptr(m.content()))})
	case 1, 2:
		m.put("dispatcher/main", &events.FindingDelivered{FindingID: id, InjectionID: injection, Tokens: tokens})
	case 3:
		m.put("dispatcher/main", &events.FindingWithheld{FindingID: id, Cause: pick(m.rng, "holdout", "budget"), ShadowTokens: tokens})
	default:
		m.put(pick(m.rng, agent, "operator/op"), &events.FindingRated{Context: m.context(), FindingID: id, InjectionID: pick(m.rng, nil, &injection), Rating: pick(m.rng, "harmful", "helpful")})
	}
}

func (m *mixer) run() {
	run, cohort, id := fmt.Sprintf("run-%d", m.rng.IntN(4)), fmt.Sprintf("cohort-%d", m.rng.IntN(3)), fmt.Sprintf("case-%d", m.rng.IntN(12))
	split := pick(m.rng, "dev", "final")
	put := func(d events.Payload) { m.l.Put("harness/h", "bench/"+run, d, Episode(m.episode)) }
	switch m.rng.IntN(15) {
	case 0:
		put(&events.RunStarted{RunID: run, Arm: "full", Split: split})
	case 1:
		put(&events.RunFinished{RunID: run, Status: "completed"})
	case 2:
		put(&events.IsolationCounted{RunID: run, Phase: pick(m.rng, "before", "after"), Tables: []events.TableCount{{Table: "beliefs", Rows: int64(m.rng.IntN(2))}}})
	case 3:
		put(&events.CohortOpened{CohortID: cohort, Split: split, ExposureLimit: Ptr(int64(1))})
	case 4:
		put(&events.CohortExposed{CohortID: cohort, CandidateID: run})
	case 5:
		put(&events.CohortRetired{CohortID: cohort, Cause: "age"})
	case 6:
		put(&events.LeakageScanned{ScanID: m.name("scan"), CohortID: cohort, Hits: int64(m.rng.IntN(2))})
	case 7:
		put(&events.CaseCommitted{CaseID: id, CohortID: cohort, Split: split, PublicSHA256: hash64, OracleSHA256: hash64})
	case 8:
		put(&events.ResponseRecorded{RunID: run, CaseID: id, Status: "parsed", Answer: &events.Answer{Kind: "answer", Distribution: []events.AnswerShare{{Hypothesis: "h", P: m.rng.Float64()}}}})
	case 9, 10:
		put(&events.ScoreRecorded{RunID: run, CaseID: id, Scorer: "s/1", ScorerSHA256: hash64, Values: []events.ScoreValue{
			{Metric: "regret", Value: Ptr(m.rng.Float64())}, {Metric: "strawman_rate", Value: Ptr(0.25)}, {Metric: "time_to_first_useful_action", Value: Ptr(12.5)},
		}})
	case 11:
		put(&events.ControlRecorded{RunID: run, CaseID: id, Condition: "C0", Tag: "direct", Outcome: pick(m.rng, "hit", "miss")})
	case 12:
		put(&events.EpisodeRecorded{Context: events.Context{Capture: pick(m.rng, nil, Ptr("hook"), Ptr("imported"))}, Arm: Ptr("full"), Correct: pick(m.rng, nil, Ptr(true))})
	case 13:
		put(&events.ProbeRecorded{ProbeID: fmt.Sprintf("probe-%d", m.rng.IntN(4)), Result: "cleared"})
	default:
		put(&events.CaseRevealed{CaseID: id, Salt: hash64, OracleRef: "sha256:" + hash64})
	}
}

// govern is what an operator says of everything, what he is asked, and what the
// agent's turn was like.
func (m *mixer) govern(agent string) {
	prereg, approval := fmt.Sprintf("prereg-%d", m.rng.IntN(3)), fmt.Sprintf("approval-%d", m.rng.IntN(5))
	rater := pick(m.rng, "ann", "bob")
	put := func(d events.Payload) { m.put("operator/op", d) }
	switch m.rng.IntN(10) {
	case 8:
		m.put(agent, &events.AbductionStarted{Context: m.context(), AbductionID: fmt.Sprintf("abduction-%d", m.rng.IntN(6))})
	case 9:
		m.put(agent, &events.AbductionFailed{Context: m.context(), AbductionID: fmt.Sprintf("abduction-%d", m.rng.IntN(6)), Code: "budget"})
	case 0:
		put(&events.PreregistrationCommitted{PreregID: prereg, Arms: []string{"baseline", "full"}, Endpoint: events.Endpoint{Metric: "regret"}, N: 200})
	case 1:
		put(&events.DecisionRecorded{DecisionID: m.name("decision"), CandidateID: "x", PreregID: &prereg, Decision: "reject", Metric: Ptr(pick(m.rng, "regret", "cost"))})
	case 2:
		m.put(agent, &events.ApprovalRequested{ApprovalID: approval, What: "restart", Why: "stuck"})
	case 3:
		put(&events.ApprovalGranted{ApprovalID: approval})
	case 4:
		put(&events.FlagChanged{Flag: "gate", OldValue: pick(m.rng, nil, Ptr("on")), NewValue: pick(m.rng, "on", "off")})
	case 5:
		put(&events.OpportunityLabelled{Kind: "opportunity", ID: m.opportunity, Eligible: Ptr(m.rng.IntN(2) == 0), Rater: rater, RubricVersion: "1"})
	case 6:
		put(&events.AuditLabelled{Kind: "contradiction", ID: fmt.Sprintf("conflict-%d", m.rng.IntN(10)), ContradictionValid: Ptr(m.rng.IntN(2) == 0), Rater: rater, RubricVersion: "1"})
	default:
		m.put("dispatcher/main", &events.ToolsOffered{Context: m.context(), Tools: []string{"bash", "causal"}})
	}
}
