package metric

import (
	"maps"
	"math"
	"slices"
	"strings"

	"assay/events"
	"assay/ledger"
	"assay/projector/view"
)

// What runs show. Oracles exist in benchmarks alone: of live behaviour these figures
// are not available.

const (
	perScore  = 1_000_000 // in how many parts the values of scorers are counted
	ofArms    = "arm and split"
	ofPair    = "measure, split, for episodes their surface, and the two arms"
	leftOutOf = imported + "; runs without a manifest, or that changed production; cases that the manifest or a scorer leaves out, or that their reveal does not open"
	noOracle  = "not available without an oracle's score; " + leftOut
	unpaired  = leftOut + ": a cluster in which an arm is missing, or any of its values unknown, is no pair, and counted"
	judged    = "scored responses to cases with the tag diagnosis that a harness committed to"
)

var runMetrics = []Metric{
	diagnoses("justified_correct", "How often is the named cause the true one, and the only one that the evidence leaves?", "of those, the oracle calls correct", Outcome, "correct"),
	diagnoses("lucky_diagnoses", "How often is the named cause the true one by luck?", "of those, the oracle calls lucky: the evidence left several causes", Diagnostic, "lucky"),
	diagnoses("wrong_diagnoses", "How often is a cause named that is not the true one?", "of those, the oracle calls wrong, or consistent_unjustified", Guardrail, "wrong", "consistent_unjustified"),
	diagnoses("unresolved_diagnoses", "How often is no cause named?", "of those, the oracle calls justified_abstain, abstain, need_info or unresolved, or that are no answer", Diagnostic,
		"justified_abstain", "abstain", "need_info", "unresolved"),
	policy("infer_when_look_was_better", "How often does the agent infer where to look first was worth its cost?", "INFER",
		"the best query's net value is above 0", func(net float64) bool { return net > 0 }, "INFER"),
	policy("unnecessary_queries", "How often does the agent look where that was not worth its cost?", "RETRIEVE, ASK or TEST",
		"no query's net value is above 0", func(net float64) bool { return net <= 0 }, "RETRIEVE", "ASK", "TEST"),
	valued("decision_regret", "How much more than the best choice does what the agent chose cost?", "regret", "the loss table's", Outcome, "C8 7.4, 14; C9 Scoring", math.Inf(-1), math.Inf(1)),
	valued("strawman_rate", "How often is a competing hypothesis one that the evidence had ruled out?", "strawman_rate", "share", Diagnostic, "C9 Proposal details, P2", 0, 1),
	valued("time_to_first_useful_action", "How soon does the agent do something that helps?", "time_to_first_useful_action", "s", Guardrail, "C9 Proposal details, P2", 0, math.Inf(1)),
	responses("protocol_failures", "How often does an arm give no answer that can be read?", "of those, responses that are malformed, empty, timed out or crashed",
		"C8 7.3; C9 Run each case through four separated stages", func(r *events.ResponseRecorded) bool { return r.Status != responseParsed }),
	responses("answer_coverage", "How much of what it is asked does an arm answer?",
		"of those, responses that are an answer, or say that there is none to be had (answer, not_identifiable)",
		"C8 7.3: a rate that improves by saying less", func(r *events.ResponseRecorded) bool {
			return r.Answer != nil && (r.Answer.Kind == "answer" || r.Answer.Kind == "not_identifiable")
		}),
	{
		Name:        "sandbox_success",
		Question:    "How many incidents replayed in the sandbox ended well?",
		Numerator:   "of those, episodes that ended well",
		Denominator: "episodes of the sandbox of which that was recorded",
		Groups:      "arm", Apart: true,
		Kind: Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: leftOut + "; the sandbox is one namespace: it is read whatever namespace is asked for",
		Source:  "C9 Weekly report, Diagnosis and repair",
		count: func(p *pass) error {
			return view.ListEpisodeReports(p.state, "sandbox", func(v *view.EpisodeReport) error {
				if v.ToolCallID != nil {
					return nil
				}
				arm := "no arm"
				if v.Report.Arm != nil {
					arm = *v.Report.Arm
				}
				it, ok, err := p.item(v.EpisodeID, arm, events.TypeEpisodeRecorded, v.Seq)
				if !ok {
					return err
				}
				return it.putKnown(v.Report.Success, "outcome")
			})
		},
	},
	{
		Name:        "undelivered_answer_citations",
		Question:    "How much of the evidence that answers cite had nobody put before the agent?",
		Numerator:   "of those, pieces that were not delivered",
		Denominator: "pieces of evidence that answers cite, each once an answer, of which it is known what was delivered",
		Groups:      ofArms, Apart: true,
		Kind: Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: leftOutOf, Missing: leftOut,
		Source: "C8 7.3, Invalid citation",
		count: func(p *pass) error {
			return p.trials(func(t *trial) error {
				a := t.response.Answer
				if a == nil || len(a.EvidenceIDs) == 0 {
					return nil
				}
				if t.response.DeliveredIDs == nil {
					return t.exclude(unknown + "deliveries")
				}
				for _, id := range slices.Compact(slices.Sorted(slices.Values(a.EvidenceIDs))) {
					if err := t.putIf(!slices.Contains(t.response.DeliveredIDs, id)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	},
	control("control_passes", "Does the instrument find what is there?", "C1, C2 and C3", "condition", "C1", "C2", "C3"),
	control("control_false_accepts", "Does the instrument accept what is not there?", "C4 and C5", "condition and variant", "C4", "C5"),
}

// valued is the mean of a value of the score that counts. One beyond least and most is
// none.
func valued(name, question, value, unit string, kind Kind, source string, least, most float64) Metric {
	return Metric{
		Name: name, Question: question, Numerator: "value " + value + " of scored responses",
		Denominator: "scored responses with a known " + strings.ReplaceAll(value, "_", " "),
		Groups:      ofArms, Apart: true,
		Kind: kind, Form: FormMean, Unit: unit, Per: perScore,
		Exclusions: leftOutOf, Missing: noOracle,
		Source: source,
		count: func(p *pass) error {
			return p.scored(func(t *trial, s *view.Score) error {
				it := t.item
				it.ref = ref{s.Seq, events.TypeScoreRecorded}
				v := valueOf(s, value)
				if v != nil && (*v < least || *v > most) {
					v = nil
				}
				return it.known(fixedPoint(v, perScore), strings.ReplaceAll(value, "_", " "))
			})
		},
	}
}

// policy is how often a response has one of the actions where the net value of a query
// is what eligible asks for.
func policy(name, question, action, where string, eligible func(net float64) bool, actions ...string) Metric {
	return Metric{
		Name: name, Question: question, Numerator: "of those, responses with action " + action,
		Denominator: "responses that state an action, to cases in which " + where + " by the oracle (value net_voi of the score)",
		Groups:      ofArms, Apart: true,
		Kind: Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson, Exclusions: leftOutOf, Missing: noOracle,
		Source: "C8 14, Evidence policy; 7.5",
		count:  func(p *pass) error { return p.policies(eligible, actions...) },
	}
}

// responses is how often a response, whatever an oracle says of it, is what is asked for.
func responses(name, question, numerator, source string, is func(*events.ResponseRecorded) bool) Metric {
	return Metric{
		Name: name, Question: question, Numerator: numerator, Denominator: "responses, each repetition of a case once", Groups: ofArms, Apart: true,
		Kind: Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson, Exclusions: leftOutOf, Source: source,
		count: func(p *pass) error {
			return p.trials(func(t *trial) error { return t.putIf(is(t.response)) })
		},
	}
}

// control is how often a case of the conditions came out a hit.
func control(name, question, named, groups string, conditions ...string) Metric {
	return Metric{
		Name: name, Question: question, Numerator: "of those, cases that came out a hit",
		Denominator: "cases of the control conditions " + named + ", whatever came of them", Groups: groups,
		Kind: Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson, Source: "C9 The control matrix; Weekly report, Query reliability",
		count: func(p *pass) error { return p.controls(conditions...) },
	}
}

func diagnoses(name, question, numerator string, kind Kind, outcomes ...string) Metric {
	return Metric{
		Name: name, Question: question, Numerator: numerator, Denominator: judged, Groups: ofArms, Apart: true,
		Kind: kind, Form: FormRatio, Unit: "share", Interval: Wilson, Exclusions: leftOutOf + "; other cases", Missing: noOracle,
		Source: "C9 Scoring, Diagnosis outcomes; Weekly report, Diagnosis and repair",
		count: func(p *pass) error {
			return p.trials(func(t *trial) error {
				if t.world == nil || !slices.Contains(t.world.Tags, tagDiagnosis) {
					return nil
				}
				s, err := t.score()
				if err != nil || s == nil {
					return err
				}
				if t.response.Status != responseParsed {
					return t.putIf(slices.Contains(outcomes, outcomeUnresolved))
				}
				if s.Score.Outcome == nil {
					return t.exclude(unknown + "outcome")
				}
				return t.putBy(slices.Contains(outcomes, *s.Score.Outcome), ref{s.Seq, events.TypeScoreRecorded})
			})
		},
	}
}

// Words that the harness uses.
const (
	responseParsed    = "parsed"
	tagDiagnosis      = "diagnosis"
	outcomeCorrect    = "correct"
	outcomeUnresolved = "unresolved"
	measureCorrect    = "correct"
	controlHit        = "hit"
)

// trial is what one arm did once: with a case of a run, or in an episode that is
// one of a pair.
type trial struct {
	item
	arm, split, cluster string
	surface             string                   // of an episode: client, model, task
	world               *view.CaseCommitment     // of a case; nil where it was never committed
	response            *events.ResponseRecorded // nil for an episode
	report              *events.EpisodeRecorded  // nil for a case
	scores              []view.Score             // in the order of scorers
	scorer              *string                  // that the manifest names
}

// isBench says whether a namespace holds runs.
func isBench(ns string) bool { return ns == "sandbox" || strings.HasPrefix(ns, "bench/") }

// benches are the namespaces whose runs are counted: of a bench its own, of any other
// those of every bench, for the arms of a comparison may each have their own.
func (p *pass) benches() (all []string, err error) {
	if isBench(p.namespace) {
		return []string{p.namespace}, nil
	}
	l, err := p.state.Ledger()
	for ns := range maps.Keys(l.Namespaces) {
		if isBench(ns) {
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	return all, err
}

// inRuns is the key of something of a run; a view keeps imports under a namespace
// of their own.
type inRuns struct{ namespace, run string }

// trials takes up every response to a case, each repetition once, with arm and split
// as group.
func (p *pass) trials(fn func(*trial) error) error {
	namespaces, err := p.benches()
	if err != nil {
		return err
	}
	cases, err := p.cases()
	if err != nil {
		return err
	}
	for _, ns := range namespaces {
		runs, err := p.runs(ns)
		if err != nil {
			return err
		}
		scores := map[ledger.Seq][]view.Score{}
		err = view.ListScores(p.state, ns, func(s *view.Score) error {
			imported, err := p.isImported(s.Seq)
			if err == nil && !imported && s.ResponseSeq > 0 {
				scores[s.ResponseSeq] = append(scores[s.ResponseSeq], *s)
			}
			return err
		})
		if err != nil {
			return err
		}
		err = view.ListResponses(p.state, ns, func(v *view.Response) error {
			it, ok, err := p.item(v.Response.CaseID, "", events.TypeResponseRecorded, v.Seq)
			if !ok {
				return err
			}
			t := &trial{item: it, response: v.Response, scores: scores[v.Seq], cluster: v.Response.CaseID}
			if c := cases[v.Response.CaseID]; c != nil {
				t.world = c.Committed
				if c.Opens != nil && !*c.Opens {
					return it.exclude("case does not open")
				}
			}
			if t.world != nil && t.world.WorldID != nil {
				t.cluster = *t.world.WorldID
			}
			if why := t.join(runs[inRuns{v.Namespace, v.Response.RunID}]); why != "" {
				return it.exclude(why)
			}
			t.group = t.arm + ", " + t.split
			return fn(t)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cases are the committed cases that were not imported, by id.
func (p *pass) cases() (map[string]*view.Case, error) {
	all := map[string]*view.Case{}
	err := view.ListCases(p.state, func(c *view.Case) error {
		if !c.Imported && c.Committed != nil {
			all[c.CaseID] = c
		}
		return nil
	})
	return all, err
}

func (p *pass) runs(ns string) (map[inRuns]*view.Run, error) {
	all := map[inRuns]*view.Run{}
	err := view.ListRuns(p.state, ns, func(r *view.Run) error {
		all[inRuns{r.Namespace, r.RunID}] = r
		return nil
	})
	return all, err
}

// join takes from its run whose trial it is, or says why it does not count.
func (t *trial) join(r *view.Run) string {
	if r == nil || r.Started == nil {
		return "run without manifest"
	}
	if r.Isolation == view.IsolationDiffers {
		return "run that changed production"
	}
	m := r.Started.Manifest
	t.arm, t.split, t.scorer = m.Arm, m.Split, m.ScorerSHA256
	left := func(list []events.Exclusion) bool {
		return slices.ContainsFunc(list, func(x events.Exclusion) bool { return x.CaseID == t.response.CaseID })
	}
	if left(m.Exclusions) || r.Finished != nil && left(r.Finished.End.Exclusions) {
		return "left out of the run"
	}
	return ""
}

// score is that of the scorer which the manifest names, else the first; nil where
// there is none, which is an exclusion.
func (t *trial) score() (*view.Score, error) {
	var found *view.Score
	for i := range t.scores {
		s := &t.scores[i]
		if t.scorer == nil && (found == nil || s.Seq < found.Seq) || t.scorer != nil && s.Score.ScorerSHA256 == *t.scorer {
			found = s
		}
	}
	if found == nil {
		return nil, t.exclude(unknown + "score")
	}
	if found.Score.Exclusion != nil {
		return nil, t.exclude("left out by the scorer")
	}
	return found, nil
}

// scored takes up the trials that have a score.
func (p *pass) scored(fn func(*trial, *view.Score) error) error {
	return p.trials(func(t *trial) error {
		s, err := t.score()
		if err != nil || s == nil {
			return err
		}
		return fn(t, s)
	})
}

// valueOf is a value of a score; nil where it is not known, or does not apply.
func valueOf(s *view.Score, name string) *float64 {
	for _, v := range s.Score.Values {
		if v.Metric == name {
			return v.Value
		}
	}
	return nil
}

// policies counts responses to cases whose best query is worth what eligible asks
// for, and of those the ones with one of the actions.
func (p *pass) policies(eligible func(net float64) bool, actions ...string) error {
	return p.scored(func(t *trial, s *view.Score) error {
		net := valueOf(s, "net_voi")
		if net == nil {
			return t.exclude(unknown + "value of a query")
		}
		if !eligible(*net) {
			return nil
		}
		if a := t.response.Answer; a == nil || a.Action == nil {
			return t.exclude(unknown + "action")
		}
		return t.putIf(slices.Contains(actions, *t.response.Answer.Action))
	})
}

func (p *pass) controls(conditions ...string) error {
	namespaces, err := p.benches()
	for _, ns := range namespaces {
		if err != nil {
			return err
		}
		err = view.ListControls(p.state, ns, func(c *view.Control) error {
			d := c.Control
			if !slices.Contains(conditions, d.Condition) {
				return nil
			}
			group := d.Condition
			if d.Variant != nil {
				group += " " + *d.Variant
			}
			it, ok, err := p.item(d.CaseID, group, events.TypeControlRecorded, c.Seq)
			if !ok {
				return err
			}
			return it.putIf(d.Outcome == controlHit)
		})
	}
	return err
}
