package metric_test

import (
	"fmt"

	"assay/events"
	"assay/projector/ledgertest"
)

var experimentByHand = []byHand{
	{metric: "experiments_proposed", build: experiments, want: "5 (5)", rows: "4n x1, 7n x2, 9n x3, 11n x4, 14n x5"},
	{
		// x1 and x4 ran. x2's call is not the dispatcher's, x3 was not run, x5 ran before
		// it was proposed, and nobody proposed x6.
		metric: "experiments_executed", build: experiments, want: "0.4 (2/5)",
		rows: "4d x1, 5n x1, 7d x2, 9d x3, 11d x4, 12n x4, 14d x5",
	},
	{
		// For x1, c1 and c2 say different things. For x4, c3 had been retracted.
		metric: "experiments_discriminating", build: experiments, want: "0.5 (1/2) not executed 3",
		rows: "5d x1, 4n x1, 7e x2, 9e x3, 12d x4, 14e x5",
	},
	{
		// x1 came out as c2 had said; x4 has not been observed.
		metric: "experiments_matched", build: experiments, want: "1 (1/1) not executed 3 not observed 1",
		rows: "6d x1, 6n x1, 7e x2, 9e x3, 11e x4, 14e x5",
	},
	{
		// What was observed is known from an import alone.
		metric: "experiments_matched", name: "imported",
		build: func(b book) {
			b.call("t1", "try", "")
			b.Put(piper, prod, &events.ExperimentProposed{ExpID: "x1", Discriminates: []string{}, Predicted: []events.PredictedOutcome{{ClaimID: "c1", Outcome: "falls"}}})
			b.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: "x1", ToolCallID: "t1"})
			b.Put(resolver, prod, &events.ExperimentObserved{Context: importedContext, ExpID: "x1", Observed: "falls"}) // 4
		},
		want: "null (0/0) not observed 1", rows: "2e x1",
	},
	{
		// The id t is of two calls: e's was denied, f's was not. x1 was run by e's, x2 by f's,
		// and x3 by the one that had the id first.
		metric: "experiments_executed", name: "a call of each episode",
		build: func(b book) {
			b.call("t", "try", "e", status("denied"))
			b.call("t", "try", "f")
			for i, episode := range []string{"e", "f", ""} {
				id := fmt.Sprint("x", i+1)
				b.Put(piper, prod, &events.ExperimentProposed{ExpID: id, Discriminates: []string{}})
				b.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: id, ToolCallID: "t"}, ledgertest.Episode(episode))
			}
		},
		want: "0.333333 (1/3)", rows: "3d x1, 5d x2, 6n x2, 7d x3",
	},
	{
		// q1 was made; q2's call was denied; q3 was made before it was selected; nobody
		// selected q4.
		metric: "executed_queries",
		build: func(b book) {
			b.call("t1", "look", "")
			b.call("t2", "look", "", status("denied"))
			selected := func(id string) { b.Put(piper, prod, &events.QuerySelected{QueryID: id, Chosen: "look"}) }
			ran := func(id, call string) { b.Put(dispatcher, prod, &events.QueryExecuted{QueryID: id, ToolCallID: call}) }
			selected("q1") // 3
			ran("q1", "t1")
			selected("q2") // 5
			ran("q2", "t2")
			ran("q3", "t1")
			selected("q3") // 8
			ran("q4", "t1")
		},
		want: "0.333333 (1/3)", rows: "3d q1, 4n q1, 5d q2, 8d q3",
	},
	{
		// k1 was ended, k2 rolled back, k3 runs, and k4 was refused because k3 ran.
		metric: "canary_success",
		build: func(b book) {
			start := func(id string) { b.Put(operator, prod, &events.CanaryStarted{CanaryID: id, CapPerWeek: 1}) }
			start("k1")
			b.Put(operator, prod, &events.CanaryEnded{CanaryID: "k1", Reason: "done"})
			start("k2")
			b.Put(operator, prod, &events.RollbackTriggered{CanaryID: "k2", Rule: "operator", Reason: "no"})
			start("k3")
			start("k4")
		},
		want: "0.5 (1/2) refused 1 running 1", rows: "1d k1, 2n k1, 3d k2, 5e k3, 6e k4",
	},
	{
		// What was imported of k1 neither started nor rolled it back, and k0, which still runs
		// elsewhere, keeps nothing from running here.
		metric: "canary_success", name: "imported",
		build: func(b book) {
			b.Put(operator, prod, &events.CanaryStarted{Context: importedContext, CanaryID: "k1"})
			b.Put(operator, prod, &events.CanaryStarted{Context: importedContext, CanaryID: "k0"})
			b.Put(operator, prod, &events.CanaryStarted{CanaryID: "k1", CapPerWeek: 1})
			b.Put(operator, prod, &events.RollbackTriggered{Context: importedContext, CanaryID: "k1", Rule: "operator", Reason: "no"})
			b.Put(operator, prod, &events.CanaryEnded{CanaryID: "k1", Reason: "done"})
		},
		want: "1 (1/1) imported 2", rows: "1e k1, 2e k0, 3d k1, 5n k1",
	},
}

func experiments(b book) {
	predicted := func(outcomes ...string) (out []events.PredictedOutcome) {
		for i, o := range outcomes {
			out = append(out, events.PredictedOutcome{ClaimID: fmt.Sprint("c", i+1), Outcome: o})
		}
		return out
	}
	propose := func(id string, outcomes ...string) {
		b.Put(piper, prod, &events.ExperimentProposed{ExpID: id, Discriminates: []string{"c1", "c2"}, Predicted: predicted(outcomes...)})
	}
	ran := func(id, call string) {
		b.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: id, ToolCallID: call})
	}
	b.call("t1", "try", "")
	b.claim("c1", "asserted")
	b.claim("c2", "hypothesis")
	propose("x1", "falls", "stays") // 4
	ran("x1", "t1")
	b.Put(resolver, prod, &events.ExperimentObserved{ExpID: "x1", Observed: "stays"})
	propose("x2", "falls", "stays") // 7
	ran("x2", "nowhere")
	propose("x3", "falls", "stays") // 9
	b.revise("c2", "hypothesis", "retracted")
	propose("x4", "falls", "stays") // 11
	ran("x4", "t1")
	ran("x5", "t1")
	propose("x5", "falls") // 14
	ran("x6", "t1")
}
