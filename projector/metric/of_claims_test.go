package metric_test

import (
	"fmt"
	"time"

	"assay/events"
)

var claimByHand = []byHand{
	{
		// c1 is confirmed while asserted, by p1 (record 3) and again by p2: once. c2 is
		// asserted only after its confirmation. c3 has a refuted prediction too. c4 holds
		// by a recheck, and is retracted later, which changes nothing. c5's prediction is
		// void, c6's unresolved, c7 was imported, and what is live says nothing of it.
		metric: "useful_conclusions",
		build: func(b book) {
			b.claim("c1", "asserted")               // 1
			b.promise("p1", "c1", 0.8, "confirmed") // 2, 3
			b.promise("p2", "c1", 0.8, "confirmed") // 4, 5
			b.claim("c2", "hypothesis")             // 6
			b.promise("p3", "c2", 0.8, "confirmed") // 7, 8
			b.revise("c2", "hypothesis", "asserted")
			b.claim("c3", "asserted")               // 10
			b.promise("p4", "c3", 0.8, "confirmed") // 11, 12
			b.promise("p5", "c3", 0.8, "refuted")   // 13, 14
			b.claim("c4", "asserted")               // 15
			b.recheck("c4", "confirmed")            // 16
			b.revise("c4", "asserted", "retracted")
			b.claim("c5", "asserted")
			b.promise("p6", "c5", 0.8, "void")
			b.claim("c6", "asserted")
			b.promise("p7", "c6", 0.8, "unresolved")
			b.claim("c7", "asserted", func(d *events.ClaimRecorded) { d.Context = importedContext }) // 24
			b.promise("p8", "c7", 0.8, "confirmed")                                                  // 25, 26
		},
		want:   "2 (2) not asserted then 1 refuted 1",
		rows:   "3n c1, 8e c2, 12e c3, 16n c4",
		groups: "prediction 1 (1) not asserted then 1 refuted 1; recheck 1 (1)",
	},
	{
		// A confirmation that an amendment took back confirms nothing; one that an
		// amendment brought counts from there, when c2 was no longer asserted.
		metric: "useful_conclusions", name: "amendments",
		build: func(b book) {
			amend := func(id, of, verdict string) {
				b.Put(resolver, prod, &events.PredictionResolutionAmended{
					PredID: id, Supersedes: of, Cause: "late_telemetry", Verdict: verdict, Foreknowledge: "none", Scorable: true,
				})
			}
			for _, c := range []struct{ id, was, is string }{{"1", "confirmed", "refuted"}, {"2", "refuted", "confirmed"}} {
				b.claim("c"+c.id, "asserted")
				at := b.Put(piper, prod, prediction("p"+c.id, "c"+c.id, 0.8))
				ruling := b.NextID()
				b.Put(resolver, prod, resolved("p"+c.id, c.was, at))
				b.revise("c"+c.id, "asserted", "hypothesis")
				amend("p"+c.id, ruling, c.is)
			}
		},
		want: "0 (0) not asserted then 1", rows: "10e c2",
	},
	{
		// What an operator reported confirms nothing, what telemetry amended it to does.
		metric: "useful_conclusions", name: "a report, and then telemetry",
		build: func(b book) {
			for _, id := range []string{"1", "2"} {
				b.claim("c"+id, "asserted")
				at := b.Put(piper, prod, prediction("p"+id, "c"+id, 0.8))
				d := resolved("p"+id, "confirmed", at)
				d.Resolver.Kind = "operator"
				ruling := b.NextID()
				b.Put(resolver, prod, d)
				if id == "2" {
					b.Put(resolver, prod, &events.PredictionResolutionAmended{
						PredID: "p2", Supersedes: ruling, Cause: "late_telemetry", Verdict: "confirmed", Foreknowledge: "none", Scorable: true,
					})
				}
			}
		},
		want: "1 (1)", rows: "7n c2",
	},
	{
		// c1 was asserted after the record at which its outcome was decided, though before
		// the verdict. c2's recheck held and later did not; c3's held after it had not.
		metric: "useful_conclusions", name: "what was known, and what did not last",
		build: func(b book) {
			b.claim("c1", "hypothesis")
			cut := b.promise("p1", "c1", 0.8, "") // 2
			b.revise("c1", "hypothesis", "asserted")
			b.Put(resolver, prod, resolved("p1", "confirmed", cut)) // 4
			for _, c := range []struct{ id, first, last string }{{"c2", "confirmed", "not_confirmed"}, {"c3", "not_confirmed", "confirmed"}} {
				b.claim(c.id, "asserted")
				b.recheck(c.id, c.first)
				b.recheck(c.id, c.last)
			}
		},
		want: "1 (1) not asserted then 1 refuted 1", rows: "4e c1, 6e c2, 10n c3",
	},
	{
		// What was imported says nothing: of c1 that it did not hold, of c2 that it held
		// before it did so, of c3 that a verdict confirmed it.
		metric: "useful_conclusions", name: "imported words",
		build: func(b book) {
			recheck := func(id, result string) {
				b.Put(operator, prod, &events.FixRechecked{Context: importedContext, ClaimID: id, Result: result, Source: "instrument", Direct: true})
			}
			b.claim("c1", "asserted")               // 1
			b.promise("p1", "c1", 0.8, "confirmed") // 2, 3
			recheck("c1", "not_confirmed")
			b.claim("c2", "asserted") // 5
			recheck("c2", "confirmed")
			b.recheck("c2", "confirmed") // 7
			b.claim("c3", "asserted")
			d := resolved("p3", "confirmed", b.promise("p3", "c3", 0.8, ""))
			d.Context = importedContext
			b.Put(resolver, prod, d)
		},
		want: "2 (2)", rows: "3n c1, 7n c2",
	},
	{
		// One useful conclusion for four opportunities: 25 for a hundred.
		metric: "useful_per_100_opportunities",
		build: func(b book) {
			opportunities(b.Ledger, 4)
			b.claim("c1", "asserted")
			b.promise("p1", "c1", 0.8, "confirmed")
		},
		want: "25 (1/4)", rows: "7n c1, 1d o0, 2d o1, 3d o2, 4d o3",
	},
	{
		// c1 is confirmed and c2 refuted; c3's prediction is void, c4's unresolved, c5
		// has none, and c6 held by a recheck, which is no prediction. c7 is too young.
		metric: "claim_resolution_coverage",
		build: func(b book) {
			for i, verdict := range []string{"confirmed", "refuted", "void", "unresolved"} {
				b.claim(fmt.Sprint("c", i+1), "asserted") // 1, 4, 7, 10
				b.promise(fmt.Sprint("p", i+1), fmt.Sprint("c", i+1), 0.5, verdict)
			}
			b.claim("c5", "asserted") // 13
			b.claim("c6", "asserted") // 14
			b.recheck("c6", "confirmed")
			b.Advance(8 * day)
			b.claim("c7", "asserted") // 16
		},
		want: "0.333333 (2/6) not older than seven days 1",
		rows: "1d c1, 3n c1, 4d c2, 6n c2, 7d c3, 10d c4, 13d c5, 14d c6, 16e c7",
	},
	{
		// At the last record c1 is 4 days old and c2 2 days; c3 is settled. The median of
		// two is the first of them by nearest rank.
		metric: "unresolved_claim_age",
		build: func(b book) {
			b.claim("c1", "asserted")
			b.Advance(2*day - time.Second)
			b.claim("c2", "asserted")
			b.claim("c3", "asserted")
			b.promise("p", "c3", 0.5, "refuted")
			b.Advance(2*day - 4*time.Second)
			b.call("t", "look", "")
		},
		want: "2 (518400/2) settled 1", rows: "1n c1=345600, 2n c2=172800, 3e c3",
	},
	{
		// Of three causal claims c1 alone names evidence; c4 is of a value.
		metric: "claims_with_evidence",
		build: func(b book) {
			b.claim("c1", "asserted", func(d *events.ClaimRecorded) { d.EvidenceIDs = []string{"ev"} })
			b.claim("c2", "asserted")
			b.claim("c3", "asserted", func(d *events.ClaimRecorded) { d.Edge.Rung = "observation" })
			b.claim("c4", "asserted", func(d *events.ClaimRecorded) {
				d.Edge, d.Proposition, d.EvidenceIDs = nil, &events.Proposition{Variable: "v", Value: "x"}, []string{"ev"}
			})
		},
		want: "0.333333 (1/3) not of an edge 1", rows: "1d c1, 1n c1, 2d c2, 3d c3, 4e c4",
		groups: "intervention 0.5 (1/2); observation 0 (0/1)",
	},
	{
		metric: "claims_with_rung",
		build: func(b book) {
			b.claim("c1", "asserted")
			b.claim("c2", "asserted", func(d *events.ClaimRecorded) {
				d.Edge, d.Proposition = nil, &events.Proposition{Variable: "v", Value: "x"}
			})
		},
		want: "0.5 (1/2)", rows: "1d c1, 1n c1, 2d c2",
	},
	{
		// c1 has none, c2 a set of two before it, c3 a set of one, c4 names a competitor;
		// the set for c1 came too late.
		metric: "claims_with_competitors",
		build: func(b book) {
			set := func(id, claimID string, n int) {
				d := &events.HypothesesRecorded{SetID: id, ClaimID: &claimID}
				for i := range n {
					d.Alternatives = append(d.Alternatives, events.Alternative{ID: fmt.Sprint("h", i)})
				}
				b.Put(piper, prod, d)
			}
			b.claim("c1", "asserted") // 1
			set("s1", "c1", 2)
			set("s2", "c2", 2)        // 3
			b.claim("c2", "asserted") // 4
			set("s3", "c3", 1)
			b.claim("c3", "asserted")                                                                    // 6
			b.claim("c4", "asserted", func(d *events.ClaimRecorded) { d.CompetingIDs = []string{"c1"} }) // 7
		},
		want: "0.5 (2/4)", rows: "1d c1, 4d c2, 3n c2, 6d c3, 7d c4, 7n c4",
	},
	{
		// A set that was imported does not stand before the one that was there, c1's; of c2
		// nothing else is known, and it does not count.
		metric: "claims_with_competitors", name: "imported sets",
		build: func(b book) {
			set := func(id, claimID string, c events.Context) {
				b.Put(piper, prod, &events.HypothesesRecorded{Context: c, SetID: id, ClaimID: &claimID, Alternatives: []events.Alternative{{ID: "h1"}, {ID: "h2"}}})
			}
			set("s1", "c1", events.Context{})
			set("s2", "c1", importedContext)
			set("s3", "c2", importedContext)
			b.claim("c1", "asserted") // 4
			b.claim("c2", "asserted") // 5
		},
		want: "0.5 (1/2)", rows: "4d c1, 1n c1, 5d c2",
	},
	{
		// c1 cites t1, which the dispatcher had seen, and ev, which came later: 1 of 2.
		metric: "undelivered_citations",
		build: func(b book) {
			b.call("t1", "look", "")
			b.claim("c1", "asserted", func(d *events.ClaimRecorded) { d.EvidenceIDs = []string{"t1", "ev", "t1"} })
			b.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: "ev"})
			b.claim("c2", "asserted")
		},
		want: "0.5 (1/2)", rows: "2d c1, 2d c1, 2n c1",
	},
	{
		// c1 is retracted after its refutation, c2 weakened after a recheck, c3 kept. c4
		// was a hypothesis, and asserting it is no revision. c5 had been retracted before.
		metric: "revision_accuracy",
		build: func(b book) {
			b.claim("c1", "asserted")             // 1
			b.promise("p1", "c1", 0.9, "refuted") // 2, 3
			b.revise("c1", "asserted", "retracted")
			b.claim("c2", "asserted")        // 5
			b.recheck("c2", "not_confirmed") // 6
			b.revise("c2", "asserted", "hypothesis")
			b.claim("c3", "asserted")             // 8
			b.promise("p3", "c3", 0.9, "refuted") // 9, 10
			b.claim("c4", "hypothesis")           // 11
			b.promise("p4", "c4", 0.9, "refuted") // 12, 13
			b.revise("c4", "hypothesis", "asserted")
			b.claim("c5", "asserted") // 15
			b.revise("c5", "asserted", "retracted")
			b.promise("p5", "c5", 0.9, "refuted") // 17, 18
		},
		want: "0.5 (2/4) not held then 1", rows: "3d c1, 4n c1, 6d c2, 7n c2, 10d c3, 13d c4, 18e c5",
	},
	{
		// The claim was imported, and what became of it.
		metric: "revision_accuracy", name: "imported", build: importedClaim, want: "null (0/0)",
	},
	{
		metric: "collateral_retractions", name: "imported", build: importedClaim, want: "null (0/0) imported 1", rows: "4e c1",
	},
	{
		// c1 is asserted and refuted, c2 was let go, c3 did not hold at last, and c4 did.
		metric: "stale_beliefs",
		build: func(b book) {
			b.claim("c1", "asserted")
			b.promise("p1", "c1", 0.9, "refuted") // 2, 3
			b.claim("c2", "asserted")
			b.promise("p2", "c2", 0.9, "refuted")
			b.revise("c2", "asserted", "retracted")
			b.claim("c3", "asserted") // 8
			b.recheck("c3", "refuted")
			b.claim("c4", "asserted") // 10
			b.recheck("c4", "refuted")
			b.recheck("c4", "confirmed")
		},
		want: "0.666667 (2/3)", rows: "1d c1, 3n c1, 8d c3, 9n c3, 10d c4",
	},
	{
		// e1 and e2 are copies of one report, e3 is another; e4 came only later, and c4
		// cites one piece.
		metric: "source_duplication",
		build: func(b book) {
			deliver := func(id string, content int) {
				b.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: id, SourceID: "s", SHA256: sha(content)})
			}
			deliver("e1", 1)
			deliver("e2", 1)
			deliver("e3", 3)
			for i, cited := range [][]string{{"e1", "e2"}, {"e1", "e3"}, {"e1", "e4"}, {"e1", "e1"}} {
				b.claim(fmt.Sprint("c", i+1), "asserted", func(d *events.ClaimRecorded) { d.EvidenceIDs = cited }) // 4, …
			}
			deliver("e4", 1)
		},
		want: "0.5 (1/2) unknown content 1", rows: "4d c1, 4n c1, 5d c2, 6e c3",
	},
	{
		// c1 was confirmed and is retracted all the same; c2 was refuted, c3 never
		// settled, and c4 confirmed only afterwards.
		metric: "collateral_retractions",
		build: func(b book) {
			for i, verdict := range []string{"confirmed", "refuted", ""} {
				id := fmt.Sprint("c", i+1)
				b.claim(id, "asserted")
				b.promise(fmt.Sprint("p", i+1), id, 0.9, verdict)
				b.revise(id, "asserted", "retracted") // 4, 8, 11
			}
			b.claim("c4", "asserted")
			b.revise("c4", "asserted", "retracted") // 13
			b.promise("p4", "c4", 0.9, "confirmed")
		},
		want: "0.25 (1/4)", rows: "4d c1, 3n c1, 8d c2, 11d c3, 13d c4",
	},
}

func importedClaim(b book) {
	b.claim("c1", "asserted", func(d *events.ClaimRecorded) { d.Context = importedContext })
	p, r := prediction("p1", "c1", 0.9), resolved("p1", "refuted", 2)
	p.Context, r.Context = importedContext, importedContext
	b.Put(piper, prod, p)
	b.Put(resolver, prod, r)
	b.Put(piper, prod, &events.ClaimRevised{Context: importedContext, ClaimID: "c1", OldStatus: "asserted", NewStatus: "retracted"})
}
