package metric_test

import (
	"fmt"

	"assay/events"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

var opportunityByHand = []byHand{
	{
		// Two opportunities; the second o1 repeats the first, ox was imported.
		metric: "opportunities",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.opportunity("o2", "gap", "e")
			b.opportunity("o1", "gap", "e")
			b.Put(detector, prod, &events.OpportunityDetected{Context: importedContext, OpportunityID: "ox", Kind: "why"})
		},
		want: "2 (2) imported 1", rows: "1n o1, 2n o2, 4e ox", groups: "gap 1 (1); why 1 (1) imported 1",
	},
	{
		// o1 is routed by the call behind it and before o2. o2 is followed by prose
		// alone. What follows o3 is an imported call: it routes nothing.
		metric: "routing_rate",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.call("t1", "causal", "e")
			b.opportunity("o2", "why", "e")
			b.claim("c", "asserted", func(d *events.ClaimRecorded) { d.Context.OpportunityID = ptr("o2") })
			b.opportunity("o3", "gap", "f")
			b.call("t2", "causal", "f", imported)
			b.opportunity("o4", "gap", "g")
		},
		want: "0.25 (1/4)", rows: "1d o1, 2n o1, 3d o2, 5d o3, 7d o4",
		groups: "gap 0 (0/2); why 0.5 (1/2)",
	},
	{
		// A claim names o1 and o2. o1 led further: to a call that names nothing. o2's came
		// after the next opportunity.
		metric: "routing_rate", name: "prose that names it hides no call",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.call("t1", "causal", "e")
			b.claim("c1", "asserted", func(d *events.ClaimRecorded) { d.Context.OpportunityID = ptr("o1") })
			b.opportunity("o2", "why", "f")
			b.claim("c2", "asserted", func(d *events.ClaimRecorded) { d.Context.OpportunityID = ptr("o2") })
			b.opportunity("o3", "why", "f")
			b.call("t2", "causal", "f")
		},
		want: "0.666667 (2/3)", rows: "1d o1, 2n o1, 4d o2, 6d o3, 7n o3",
	},
	{
		// o1 is named by the call, o2 is followed by one in its episode, o3 by nothing.
		metric: "join_coverage",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.call("t1", "causal", "e", func(d *events.ToolCalled) { d.Context.OpportunityID = ptr("o1") })
			b.opportunity("o2", "why", "f")
			b.call("t2", "causal", "f")
			b.opportunity("o3", "why", "g")
		},
		want: "0.5 (1/2) nothing followed 1", rows: "1d o1, 2n o1, 3d o2, 5e o3",
	},
	{
		// What was imported followed nothing, be it named or not.
		metric: "join_coverage", name: "imported",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.call("t1", "causal", "e", func(d *events.ToolCalled) {
				d.Context = events.Context{Capture: ptr("imported"), OpportunityID: ptr("o1")}
			})
			b.opportunity("o2", "why", "f")
			b.call("t2", "causal", "f", imported)
		},
		want: "null (0/0) nothing followed 2", rows: "1e o1, 3e o2",
	},
	{
		// Episode e has two of the kinds and is one incident, f has one, g has none.
		metric: "incidents",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.opportunity("o2", "which_fix", "e")
			b.opportunity("o3", "root_cause", "e")
			b.opportunity("o4", "root_cause", "f")
			b.opportunity("o5", "gap", "g")
			b.opportunity("o6", "root_cause", "")
		},
		want: "2 (2)", rows: "2n e, 4n f",
	},
	{
		// a1 was completed, a2 failed, a3 has not ended.
		metric: "abductions_completed",
		build: func(b book) {
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a1", Mode: ptr("full")})
			b.Put(piper, prod, &events.AbductionCompleted{AbductionID: "a1"})
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a2", Mode: ptr("full")})
			b.Put(piper, prod, &events.AbductionFailed{AbductionID: "a2", Code: "budget"})
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a3"})
			b.Put(piper, prod, &events.AbductionCompleted{AbductionID: "a4"}) // which was never entered
		},
		want: "0.333333 (1/3)", rows: "1d a1, 2n a1, 3d a2, 5d a3", groups: "full 0.5 (1/2); unknown 0 (0/1)",
	},
	{
		// In e the first repair is record 5: before it there were h1 and h2, and c9; h2
		// again and h3 come too late or are known. f had no repair, and a denied one is
		// none. So 3 causes for 1 incident.
		metric: "competitors_before_first_fix", options: metric.Options{Repair: []string{"restart"}},
		build: func(b book) {
			ep := ledgertest.Episode("e")
			set := func(id string, alternatives ...string) {
				d := &events.HypothesesRecorded{SetID: id}
				for _, a := range alternatives {
					d.Alternatives = append(d.Alternatives, events.Alternative{ID: a})
				}
				b.Put(piper, prod, d, ep)
			}
			b.opportunity("o1", "root_cause", "e")
			b.call("t0", "restart", "e", status("denied"))
			set("s1", "h1", "h2")
			d := claim("c", "hypothesis")
			d.CompetingIDs = []string{"h2", "c9"}
			b.Put(piper, prod, d, ep)
			b.call("t1", "restart", "e")
			set("s2", "h3")
			b.call("t2", "restart", "e")
			b.opportunity("o2", "which_fix", "f")
			b.call("t3", "look", "f")
		},
		want: "3 (3/1) no repair 1", rows: "5d e, 3n e=2, 4n e, 8e f",
	},
	{
		// h1 was imported first, and counts by the live record.
		metric: "competitors_before_first_fix", name: "imported", options: metric.Options{Repair: []string{"restart"}},
		build: func(b book) {
			b.opportunity("o1", "root_cause", "e")
			for i, c := range []events.Context{importedContext, {}} {
				b.Put(piper, prod, &events.HypothesesRecorded{
					Context: c, SetID: fmt.Sprint("s", i), Alternatives: []events.Alternative{{ID: "h1"}},
				}, ledgertest.Episode("e"))
			}
			b.call("t1", "restart", "e") // 4
		},
		want: "1 (1/1) imported 1", rows: "4d e, 2e e, 3n e",
	},
	{
		metric: "competitors_before_first_fix", name: "no tool is named as a repair",
		build: func(b book) { b.opportunity("o1", "root_cause", "e"); b.call("t1", "restart", "e") },
		want:  "null (0/0)",
	},
}
