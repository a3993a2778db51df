package importer

import (
	"io"

	"assay/events"
)

// handoffLine is one arm of a hand-over from one client to another: the session that
// produced what was handed over, the same in each arm, and the one that was given it.
type handoffLine struct {
	Kind     str         `json:"kind"`
	Suite    str         `json:"suite"`
	Scenario str         `json:"scenarioId"`
	Pair     str         `json:"pairId"`
	Arm      str         `json:"arm"`
	Commit   str         `json:"repoCommit"`
	Producer *handoffRun `json:"producer"`
	Consumer *handoffRun `json:"consumer"`
	Delivery struct {
		Injection str `json:"injectionId"`
		Tokens    num `json:"deliveredTokens"`
	} `json:"delivery"`
}

type handoffRun struct {
	Client   str  `json:"client"`
	Version  str  `json:"clientVersion"`
	Model    str  `json:"model"`
	Release  str  `json:"modelVersion"`
	Session  str  `json:"sessionId"`
	Correct  flag `json:"correct"`
	Latency  num  `json:"latencyMs"`
	Uncached num  `json:"uncachedInputTokens"`
	Created  num  `json:"cacheCreationInputTokens"`
	Cached   num  `json:"cachedInputTokens"`
	Output   num  `json:"outputTokens"`
	Total    num  `json:"totalTokens"`
	Cost     num  `json:"costUsd"`
}

func readHandoff(m *maker, in io.Reader) error {
	return eachLine(m, in, func(l *handoffLine) error {
		if l.Kind != "handoff-run" || l.Producer == nil || l.Consumer == nil {
			m.bad(badShape, "not a handoff-run with a producer and a consumer")
			return nil
		}
		// The producer was in no arm yet: five lines tell of one session.
		if err := m.handoff(l, l.Producer, &events.EpisodeRecorded{}); err != nil {
			return err
		}
		return m.handoff(l, l.Consumer, &events.EpisodeRecorded{
			PairID: m.known(string(l.Pair)), Arm: m.known(string(l.Arm)),
			InjectionID: m.known(string(l.Delivery.Injection)), DeliveredTokens: m.number(l.Delivery.Tokens.v),
		})
	})
}

func (m *maker) handoff(l *handoffLine, r *handoffRun, e *events.EpisodeRecorded) error {
	e.SystemCommit = m.name(string(l.Commit))
	e.RunID, e.TaskID, e.SessionID = m.known(string(l.Suite)), m.known(string(l.Scenario)), m.known(string(r.Session))
	e.Client, e.ClientVersion = m.name(string(r.Client)), m.name(string(r.Version))
	e.Model, e.ModelVersion = m.name(string(r.Model)), m.name(string(r.Release))
	e.Correct, e.LatencyMS, e.CostUSD = r.Correct.v, m.amount(r.Latency.v), m.amount(r.Cost.v)
	// What was written to the cache was read in full.
	e.UncachedInputTokens = whole(m.number(r.Uncached.v), m.number(r.Created.v))
	e.CachedInputTokens, e.OutputTokens, e.TotalTokens = m.number(r.Cached.v), m.number(r.Output.v), m.number(r.Total.v)
	d := draft{data: e, episode: events.Identifier(string(r.Session))}
	if d.episode == "" {
		m.mended(mendedMissingID)
		d.at = m.at()
	}
	return m.put(d)
}
