package ledgertest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"assay/events"
)

// bench is something of a run: few runs of few arms, over few cases of few worlds.
func (t *tangler) bench() {
	place, run, id := pick(t.rng, "bench/a", "bench/a", "bench/b", "sandbox"), t.one("run", 6), t.one("case", 6)
	put := func(d events.Payload) {
		*d.Common() = t.circumstances(d)
		t.l.Put("harness/h", place, d, Episode(t.episode))
	}
	switch t.rng.IntN(16) {
	case 0, 1:
		put(&events.RunStarted{RunID: run, Arm: t.arm(), Split: pick(t.rng, "dev", "dev", "dev", "final"), ScorerSHA256: pick(t.rng, nil, nil, Ptr(t.scorer())), Exclusions: t.exclusions()})
	case 2:
		put(&events.RunFinished{RunID: run, Status: "completed", Exclusions: t.exclusions()})
	case 3:
		put(&events.IsolationCounted{RunID: run, Phase: pick(t.rng, "before", "after"), Store: pick(t.rng, nil, Ptr("main")), Tables: []events.TableCount{
			{Table: pick(t.rng, "beliefs", "edges"), Rows: int64(t.rng.IntN(20) / 19), SHA256: pick(t.rng, nil, Ptr(hash64))},
		}})
	case 4:
		put(&events.CaseCommitted{
			CaseID: id, CohortID: "cohort", Split: "dev", OracleSHA256: pick(t.rng, committed, committed, hash64),
			WorldID: pick(t.rng, nil, Ptr(t.one("world", 3))), Tags: pick(t.rng, nil, []string{"diagnosis"}, []string{"large", "diagnosis"}),
		})
	case 5:
		if t.rng.IntN(4) == 0 {
			put(&events.CaseRevealed{CaseID: id, Salt: hash64, OracleRef: "sha256:" + hash64})
		}
	case 6:
		put(&events.ControlRecorded{
			RunID: run, CaseID: id, Condition: fmt.Sprintf("C%d", t.rng.IntN(6)), Variant: pick(t.rng, nil, Ptr("sign")), Tag: "direct", Outcome: pick(t.rng, "hit", "miss", "crash"),
		})
	case 7, 8:
		put(&events.EpisodeRecorded{
			RunID: pick(t.rng, nil, nil, &run), PairID: maybe(t, t.one("pair", 4)), Arm: maybe(t, t.arm()), Client: pick(t.rng, nil, Ptr("codex")), TaskID: Ptr("fix"),
			Success: maybe(t, t.half()), Correct: maybe(t, t.half()), LatencyMS: maybe(t, t.rng.Float64()*1e5), CostUSD: maybe(t, t.rng.Float64()), TotalTokens: maybe(t, int64(t.rng.IntN(9000))),
		})
	case 9:
		t.say("operator", &events.PreregistrationCommitted{PreregID: t.one("prereg", 9), Arms: pick(t.rng, []string{t.arm()}, []string{t.arm(), t.arm()}, []string{t.arm(), t.arm(), t.arm()}), N: int64(t.rng.IntN(9))})
	default:
		t.answer(put, run, id)
	}
}

// committed is what a case is committed by that hash64 opens.
var committed = func() string {
	half, err := hex.DecodeString(hash64)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(append(half[:len(half):len(half)], half...))
	return hex.EncodeToString(sum[:])
}()

func (t *tangler) arm() string { return pick(t.rng, "A1", "A2", "A9", "A10", "baseline") }

func (t *tangler) scorer() string { return pick(t.rng, hash64, committed) }

func (t *tangler) exclusions() []events.Exclusion {
	return pick(t.rng, nil, nil, nil, []events.Exclusion{{CaseID: t.one("case", 6), Code: "leaked"}})
}

// answer is a response, its score, or both.
func (t *tangler) answer(put func(events.Payload), run, id string) {
	stage, index := pick(t.rng, nil, nil, Ptr(int64(1))), pick(t.rng, nil, Ptr(int64(t.rng.IntN(2))))
	if t.rng.IntN(8) > 0 {
		d := &events.ResponseRecorded{RunID: run, CaseID: id, Stage: stage, RunIndex: index, Status: pick(t.rng, "parsed", "parsed", "parsed", "malformed", "timeout"), ElapsedMS: maybe(t, t.rng.Float64()*1e4)}
		if d.Status == "parsed" {
			d.Answer = &events.Answer{Kind: pick(t.rng, "answer", "answer", "not_identifiable", "need_info"), Action: pick(t.rng, nil, Ptr("INFER"), Ptr("RETRIEVE"), Ptr("TEST"))}
			d.Answer.EvidenceIDs = pick(t.rng, nil, []string{t.one("evidence", 4), t.one("evidence", 4), t.one("evidence", 4)})
			d.DeliveredIDs = pick(t.rng, nil, []string{}, []string{t.one("evidence", 4), t.one("evidence", 4)})
		}
		if t.half() {
			d.Cost = &events.Cost{InputTokens: maybe(t, int64(t.rng.IntN(900))), OutputTokens: maybe(t, int64(t.rng.IntN(90))), LatencyMS: maybe(t, 7.5), CostUSD: maybe(t, t.rng.Float64())}
		}
		put(d)
	}
	for range t.rng.IntN(3) {
		d := &events.ScoreRecorded{RunID: run, CaseID: id, Stage: stage, RunIndex: index, Scorer: pick(t.rng, "s/1", "s/1", "s/2"), ScorerSHA256: t.scorer()}
		d.Outcome = pick(t.rng, nil, Ptr("correct"), Ptr("lucky"), Ptr("wrong"), Ptr("consistent_unjustified"), Ptr("abstain"))
		d.Exclusion = pick(t.rng, nil, nil, nil, nil, nil, Ptr("leaked"))
		d.ResponseSeq = pick(t.rng, nil, nil, nil, nil, nil, Ptr(uint64(t.rng.IntN(len(t.l.bodies)+1))))
		for range t.rng.IntN(4) {
			v := events.ScoreValue{Metric: pick(t.rng, "correct", "regret", "net_voi", "strawman_rate", "time_to_first_useful_action"), Value: maybe(t, t.rng.Float64()*3-1)}
			if v.Metric == "correct" {
				v.Value = maybe(t, float64(t.rng.IntN(2)))
			}
			d.Values = append(d.Values, v)
		}
		put(d)
	}
}
