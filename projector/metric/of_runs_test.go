package metric_test

import (
	"fmt"

	"assay/events"
	"assay/ledger"
	"assay/projector/ledgertest"
)

const (
	harness = "harness/h"
	bench   = "bench/r1"
)

func (b book) run(id, arm, split string) ledger.Seq {
	return b.Put(harness, bench, &events.RunStarted{RunID: id, Arm: arm, Split: split})
}

// commit commits to a case of a world.
func (b book) commit(id, world string, tags ...string) ledger.Seq {
	d := &events.CaseCommitted{CaseID: id, CohortID: "k", Split: "dev", OracleSHA256: sha(9), Tags: tags}
	if world != "" {
		d.WorldID = &world
	}
	return b.Put(harness, bench, d)
}

func (b book) respond(run, id string, index int64, change ...func(*events.ResponseRecorded)) ledger.Seq {
	d := &events.ResponseRecorded{RunID: run, CaseID: id, RunIndex: &index, Status: "parsed"}
	for _, c := range change {
		c(d)
	}
	return b.Put(harness, bench, d)
}

func (b book) score(run, id string, index int64, outcome *string, values ...events.ScoreValue) ledger.Seq {
	return b.Put(harness, bench, &events.ScoreRecorded{
		RunID: run, CaseID: id, RunIndex: &index, Scorer: "s/1", ScorerSHA256: sha(1), Outcome: outcome, Values: values,
	})
}

func value(name string, v float64) events.ScoreValue {
	return events.ScoreValue{Metric: name, Value: &v}
}

func action(a string) func(*events.ResponseRecorded) {
	return func(d *events.ResponseRecorded) { d.Answer = &events.Answer{Kind: "answer", Action: &a} }
}

func malformed(d *events.ResponseRecorded) { d.Status = "malformed" }

// trialOf is a response with a score of its correctness.
func (b book) trialOf(run, id string, index int64, correct float64) {
	b.respond(run, id, index)
	b.score(run, id, index, nil, value("correct", correct))
}

var runByHand = []byHand{
	// Six diagnoses were scored, and d6 gave no answer; d7 was not scored, and d8 is none.
	{metric: "justified_correct", build: diagnosed, want: "null (1/6) unknown score 1", groups: "A2, dev 0.166667 (1/6) unknown score 1"},
	{
		metric: "lucky_diagnoses", build: diagnosed, want: "null (1/6) unknown score 1",
		rows: "3d d1, 6d d2, 7n d2, 9d d3, 12d d4, 15d d5, 18d d6, 21e d7",
	},
	{metric: "wrong_diagnoses", build: diagnosed, want: "null (2/6) unknown score 1", groups: "A2, dev 0.333333 (2/6) unknown score 1"},
	{metric: "unresolved_diagnoses", build: diagnosed, want: "null (2/6) unknown score 1", groups: "A2, dev 0.333333 (2/6) unknown score 1"},
	{
		// A run that nobody started, one that changed production, one that leaves d1 out,
		// and a case that does not open.
		metric: "justified_correct", name: "left out",
		build: func(b book) {
			b.commit("d1", "", "diagnosis")
			b.commit("d2", "", "diagnosis")
			b.Put(harness, bench, &events.CaseRevealed{CaseID: "d2", Salt: sha(1), OracleRef: "sha256:" + sha(2)})
			b.run("changed", "A2", "dev")
			for i, phase := range []string{"before", "after"} {
				b.Put(harness, bench, &events.IsolationCounted{RunID: "changed", Phase: phase, Tables: []events.TableCount{{Table: "beliefs", Rows: int64(i)}}})
			}
			b.Put(harness, bench, &events.RunStarted{RunID: "fine", Arm: "A2", Split: "dev", Exclusions: []events.Exclusion{{CaseID: "d1", Code: "leaked"}}})
			for _, run := range []string{"changed", "fine", "nobody"} {
				b.respond(run, "d1", 0)
				b.score(run, "d1", 0, ptr("correct"))
			}
			b.respond("fine", "d2", 0)
			b.score("fine", "d2", 0, ptr("correct"))
		},
		want: "null (0/0) case does not open 1 left out of the run 1 run that changed production 1 run without manifest 1",
	},
	// A query was worth its cost for n1 and n2, for n3 and n4 none was; n5's is not known,
	// and n6 states no action.
	{metric: "infer_when_look_was_better", build: decided, want: "null (1/2) unknown action 1 unknown value of a query 1", groups: "A2, dev 0.5 (1/2) unknown action 1 unknown value of a query 1"},
	{metric: "unnecessary_queries", build: decided, want: "null (1/2) unknown value of a query 1", groups: "A2, dev 0.5 (1/2) unknown value of a query 1"},
	{
		// (0.5 + 0.25) ÷ 2; what does not apply to d3 is no 0.
		metric: "decision_regret",
		build:  valuedBook("regret", ptr(0.5), ptr(0.25), nil),
		want:   "null (750000/2) unknown regret 1", groups: "A2, dev 0.375 (750000/2) unknown regret 1", rows: "3n d1=500000, 5n d2=250000, 7e d3",
	},
	{
		// (0 + 0.5) ÷ 2; a share above 1 is none, and what has no value is no 0.
		metric: "strawman_rate",
		build:  valuedBook("strawman_rate", ptr(0.0), ptr(0.5), ptr(1.5), nil),
		want:   "null (500000/2) unknown strawman rate 2", groups: "A2, dev 0.25 (500000/2) unknown strawman rate 2", rows: "3n d1=0, 5n d2=500000, 7e d3, 9e d4",
	},
	{
		// (30 + 12.5) ÷ 2 s; there is no time before the start.
		metric: "time_to_first_useful_action",
		build:  valuedBook("time_to_first_useful_action", ptr(30.0), ptr(12.5), ptr(-1.0), nil),
		want:   "null (42500000/2) unknown time to first useful action 2", groups: "A2, dev 21.25 (42500000/2) unknown time to first useful action 2",
		rows: "3n d1=30000000, 5n d2=12500000, 7e d3, 9e d4",
	},
	{
		// Of three repetitions one is malformed; the first response to each counts.
		metric: "protocol_failures",
		build: func(b book) {
			b.run("r", "A2", "dev")
			b.respond("r", "d1", 0, malformed)
			b.respond("r", "d1", 0)
			b.respond("r", "d1", 1)
			b.respond("r", "d2", 0)
		},
		want: "null (1/3)", groups: "A2, dev 0.333333 (1/3)", rows: "2d d1, 2n d1, 4d d1, 5d d2",
	},
	{
		// d1 answers, d2 says that nothing can; d3 asks for more, and d4 was malformed.
		metric: "answer_coverage",
		build: func(b book) {
			b.run("r", "A2", "dev")
			for i, kind := range []string{"answer", "not_identifiable", "need_info", ""} {
				b.respond("r", fmt.Sprint("d", i+1), 0, func(d *events.ResponseRecorded) {
					if kind != "" {
						d.Answer = &events.Answer{Kind: kind}
					}
				})
			}
		},
		want: "null (2/4)", groups: "A2, dev 0.5 (2/4)", rows: "2d d1, 2n d1, 3d d2, 3n d2, 4d d3, 5d d4",
	},
	{
		// Of e3 nobody says how it ended; e4 was in a benchmark, and of e1 one call is no
		// episode.
		metric: "sandbox_success",
		build: func(b book) {
			ended := func(ns, episode string, well *bool, call *string) {
				b.Put(harness, ns, &events.EpisodeRecorded{Context: events.Context{ToolCallID: call}, Success: well}, ledgertest.Episode(episode))
			}
			ended("sandbox", "e1", ptr(true), nil)
			ended("sandbox", "e1", ptr(true), ptr("t"))
			ended("sandbox", "e2", ptr(false), nil)
			ended("sandbox", "e3", nil, nil)
			ended(bench, "e4", ptr(true), nil)
		},
		want: "null (1/2) unknown outcome 1", groups: "no arm 0.5 (1/2) unknown outcome 1", rows: "1d e1, 1n e1, 3d e2, 4e e3",
	},
	{
		metric: "undelivered_answer_citations",
		build: func(b book) {
			b.run("r", "A2", "dev")
			cites := func(d *events.ResponseRecorded) {
				d.Answer = &events.Answer{Kind: "answer", EvidenceIDs: []string{"e1", "e2", "e2"}}
			}
			b.respond("r", "d1", 0, cites, func(d *events.ResponseRecorded) { d.DeliveredIDs = []string{"e1"} })
			b.respond("r", "d2", 0, cites) // nobody says what was delivered
		},
		want: "null (1/2) unknown deliveries 1", rows: "2d d1, 2d d1, 2n d1, 3e d2",
	},
	{
		metric: "control_passes", build: controls, want: "0.5 (2/4)", groups: "C1 0.5 (1/2); C2 1 (1/1); C3 0 (0/1)",
		rows: "1d a, 1n a, 2d b, 3d a, 3n a, 4d a",
	},
	{metric: "control_false_accepts", build: controls, want: "0.333333 (1/3)", groups: "C4 0 (0/1); C5 reversed 0 (0/1); C5 sign 1 (1/1)"},
}

func diagnosed(b book) {
	b.run("r", "A2", "dev")
	for i, outcome := range []string{"correct", "lucky", "wrong", "consistent_unjustified", "justified_abstain", "malformed", "", "correct"} {
		id, tags := fmt.Sprint("d", i+1), []string{"diagnosis"}
		if id == "d8" {
			tags = nil
		}
		b.commit(id, "", tags...) // 2, 5, …
		if outcome == "malformed" {
			b.respond("r", id, 0, malformed)
		} else {
			b.respond("r", id, 0)
		}
		if outcome != "" {
			b.score("r", id, 0, &outcome)
		}
	}
}

func decided(b book) {
	b.run("r", "A2", "dev")
	for i, tt := range []struct {
		net    *float64
		action string
	}{{ptr(0.5), "INFER"}, {ptr(0.5), "RETRIEVE"}, {ptr(-0.1), "TEST"}, {ptr(0.0), "INFER"}, {nil, "INFER"}, {ptr(0.5), ""}} {
		id := fmt.Sprint("n", i+1)
		if tt.action == "" {
			b.respond("r", id, 0)
		} else {
			b.respond("r", id, 0, action(tt.action))
		}
		b.score("r", id, 0, nil, events.ScoreValue{Metric: "net_voi", Value: tt.net})
	}
}

func controls(b book) {
	control := func(condition, id, variant, outcome string) {
		d := &events.ControlRecorded{RunID: "r", Condition: condition, CaseID: id, Tag: "direct", Outcome: outcome}
		if variant != "" {
			d.Variant = &variant
		}
		b.Put(harness, bench, d)
	}
	control("C1", "a", "", "hit")
	control("C1", "b", "", "miss")
	control("C2", "a", "", "hit")
	control("C3", "a", "", "crash")
	control("C4", "a", "", "miss")
	control("C5", "a", "reversed", "miss")
	control("C5", "a", "sign", "hit")
	control("C0", "a", "", "miss")
}

// valuedBook has a score with each of the values.
func valuedBook(metric string, values ...*float64) func(book) {
	return func(b book) {
		b.run("r", "A2", "dev")
		for i, v := range values {
			id := fmt.Sprint("d", i+1)
			b.respond("r", id, 0)
			b.score("r", id, 0, nil, events.ScoreValue{Metric: metric, Value: v})
		}
	}
}
