package metric_test

import (
	"assay/events"
	"assay/projector/ledgertest"
)

var labelByHand = []byHand{
	{
		// Blind raters call o1 and o5 eligible and o2 not; o3's did not judge blindly, and
		// o4's differ.
		metric: "detector_precision", build: detection, want: "0.666667 (2/3) not blind 1 unknown eligibility 1",
		rows: "3e o3, 4e o4, 1d o1, 9n o1, 2d o2, 5d o5, 11n o5",
	},
	{
		// Of 5 opportunities 3 were labelled, so that o1 and o5 stand for 1.666667 each; of
		// 16 turns without one 2 were, so that n1, which is eligible, stands for 8. That is
		// 3.333334 of 11.333334.
		metric: "detector_recall", build: detection, want: "0.294118 (3333334/11333334) not blind 1 unknown eligibility 1",
		rows: "3e o3, 4e o4, 9d o1=1666667, 1n o1=1666667, 11d o5=1666667, 5n o5=1666667, 15d n1=8000000",
	},
	{
		metric: "detector_recall", name: "no turn was labelled",
		build: func(b book) {
			b.opportunity("o1", "why", "e")
			b.eligible("opportunity", "o1", "r1", true, ptr(true))
		},
		want: "null (0/0)",
	},
	{
		// Of o1 and o5, o5 alone was routed: 1.666667 of the same 11.333334.
		metric: "trigger_recall", build: detection, want: "0.147059 (1666667/11333334) not blind 1 unknown eligibility 1",
	},
	{
		// The call that followed o1 was imported: nobody saw it routed. o2 was.
		metric: "trigger_recall", name: "imported",
		build: func(b book) {
			for _, id := range []string{"o1", "o2"} {
				b.opportunity(id, "why", id)
				b.eligible("opportunity", id, "r1", true, ptr(true))
			}
			b.call("t1", "causal", "o1", imported)
			b.call("t2", "causal", "o2")
			b.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 3, Positive: 2, Negative: 1, NegativeTurnIDs: []string{"n1"}})
			b.eligible("turn", "n1", "r1", true, ptr(false))
		},
		want: "0.5 (1000000/2000000)",
	},
	{
		// An abduction names o1, one without a question follows o2 in its episode. The one of
		// o3's episode came before it, o4 needed none, and nothing is known of turn n1's.
		metric: "engagement",
		build: func(b book) {
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a3"}, ledgertest.Episode("e3"))
			for _, n := range []string{"1", "2", "3", "4"} {
				b.opportunity("o"+n, "why", "e"+n) // 2, 3, 4, 5
			}
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a1", QuestionID: ptr("o1")}) // 6
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a2"}, ledgertest.Episode("e2"))
			for _, of := range []struct {
				kind, id string
				is       bool
			}{{"opportunity", "o1", true}, {"opportunity", "o2", true}, {"opportunity", "o3", true}, {"opportunity", "o4", false}, {"turn", "n1", true}} {
				b.audit(of.kind, of.id, "r1", func(d *events.AuditLabelled) { d.AbductionWarranted = &of.is }) // 8 to 12
			}
		},
		want: "0.5 (2/4) not warranted 1", rows: "8d o1, 6n o1, 9d o2, 7n o2, 10d o3, 11e o4, 12d n1",
	},
	{
		// The evidence bears c2, but neither c1 nor p1; of c3 the raters differ.
		metric: "unsupported_commitments", build: commitments, want: "0.666667 (2/3) unknown support 1",
		rows: "5d c1, 5n c1, 10d c2, 7e c3, 9d p1, 9n p1", groups: "claim 0.5 (1/2) unknown support 1; prediction 1 (1/1)",
	},
	{
		// c1 and c2 are of one episode, p1 of another: two in two cases.
		metric: "unsupported_commitments_per_case", build: commitments, want: "1 (2/2) unknown support 1",
		rows: "5d e, 5n c1, 7e c3, 9d f, 9n p1",
	},
	{
		// Rubric 2 came first to this claim, by r2 in record 2, whatever r1 adds under it;
		// rubric 1 is the later one, and says that the evidence bears it.
		metric: "unsupported_commitments", name: "the latest rubric is that of the latest first label",
		build: func(b book) {
			say := func(rubric, rater string, is bool) {
				b.audit("claim", "c1", rater, func(d *events.AuditLabelled) { d.RubricVersion, d.CommitmentSupported = rubric, &is })
			}
			b.claim("c1", "asserted")
			say("2", "r2", false) // 2
			say("1", "r1", true)  // 3
			say("2", "r1", false) // 4
		},
		want: "0 (0/1)", rows: "3d c1",
	},
	{
		// c1 and its label are live; c2 was imported, and c3's first label.
		metric: "unsupported_commitments", name: "imported",
		build: func(b book) {
			no, yes := false, true
			for _, id := range []string{"c1", "c2", "c3"} {
				b.claim(id, "asserted", func(d *events.ClaimRecorded) {
					if id == "c2" {
						d.Context = importedContext
					}
				})
			}
			b.audit("claim", "c1", "r1", func(d *events.AuditLabelled) { d.CommitmentSupported = &no }) // 4
			b.audit("claim", "c2", "r1", func(d *events.AuditLabelled) { d.CommitmentSupported = &no }) // 5
			b.audit("claim", "c3", "r1", func(d *events.AuditLabelled) { d.Context, d.CommitmentSupported = importedContext, &no })
			b.audit("claim", "c3", "r2", func(d *events.AuditLabelled) { d.CommitmentSupported = &yes }) // 7
		},
		want: "0.5 (1/2) imported 1", rows: "4d c1, 4n c1, 5e c2, 7d c3",
	},
	{
		// The first abduction was imported, the second was not; o2 was.
		metric: "engagement", name: "imported",
		build: func(b book) {
			b.opportunity("o1", "why", "e1")
			b.Put(detector, prod, &events.OpportunityDetected{Context: importedContext, OpportunityID: "o2", Kind: "why"})
			b.Put(piper, prod, &events.AbductionStarted{Context: importedContext, AbductionID: "a1", QuestionID: ptr("o1")})
			b.Put(piper, prod, &events.AbductionStarted{AbductionID: "a2", QuestionID: ptr("o1")}) // 4
			for _, id := range []string{"o1", "o2"} {
				b.audit("opportunity", id, "r1", func(d *events.AuditLabelled) { d.AbductionWarranted = ptr(true) }) // 5, 6
			}
		},
		want: "1 (1/1) imported 1", rows: "5d o1, 4n o1, 6e o2",
	},
	{
		metric: "correct_revisions", name: "imported",
		build: func(b book) {
			b.Put(piper, prod, &events.BeliefCreated{Context: importedContext, BeliefID: "b1", Version: ptr(int64(1)), ContentSHA256: sha(1)})
			b.Put(piper, prod, &events.BeliefChallenged{Context: importedContext, ChallengeID: "x1", BeliefID: "b1"})
			b.audit("challenge", "x1", "r1", func(d *events.AuditLabelled) { d.RevisionRequired, d.RevisionCorrect = ptr(true), ptr(true) }) // 3
		},
		want: "null (0/0) imported 1", rows: "3e x1",
	},
	{
		// x1 was answered rightly and x2 not; x3 called for nothing, and of x4 nobody says
		// what became of it.
		metric: "correct_revisions",
		build: func(b book) {
			b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: ptr(int64(1)), ContentSHA256: sha(1)})
			label := func(id string, required bool, correct *bool) {
				b.Put(piper, prod, &events.BeliefChallenged{ChallengeID: id, BeliefID: "b1"})
				b.audit("challenge", id, "r1", func(d *events.AuditLabelled) { d.RevisionRequired, d.RevisionCorrect = &required, correct })
			}
			label("x1", true, ptr(true))  // 2, 3
			label("x2", true, ptr(false)) // 4, 5
			label("x3", false, ptr(true)) // 6, 7
			label("x4", true, nil)        // 8, 9
		},
		want: "0.5 (1/2) none required 1 unknown outcome 1", rows: "3d x1, 3n x1, 5d x2, 7e x3, 9e x4",
	},
}

func detection(b book) {
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		b.opportunity("o"+n, "why", "e"+n) // 1 to 5
	}
	b.call("t", "causal", "e5")
	b.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 21, Positive: 5, Negative: 16, NegativeTurnIDs: []string{"n1", "n2", "n3"}})
	b.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 1, Positive: 5, Negative: 160}) // contradicts itself
	b.eligible("opportunity", "o1", "r1", true, ptr(true))                                                     // 9
	b.eligible("opportunity", "o2", "r1", true, ptr(false))
	b.eligible("opportunity", "o5", "r1", true, ptr(true)) // 11
	b.eligible("opportunity", "o3", "r1", false, ptr(true))
	b.eligible("opportunity", "o4", "r1", true, ptr(true))
	b.eligible("opportunity", "o4", "r2", true, ptr(false))
	b.eligible("turn", "n1", "r1", true, ptr(true)) // 15
	b.eligible("turn", "n2", "r1", true, ptr(false))
	b.eligible("turn", "n9", "r1", true, ptr(true)) // which no scan names
	b.eligible("opportunity", "o9", "r1", true, ptr(true))
	b.audit("turn", "n3", "r1", func(d *events.AuditLabelled) { d.AbductionWarranted = ptr(true) }) // says nothing of eligibility
}

func commitments(b book) {
	supported := func(kind, id, rater, rubric string, is bool) {
		b.audit(kind, id, rater, func(d *events.AuditLabelled) { d.CommitmentSupported, d.RubricVersion = &is, rubric })
	}
	for _, id := range []string{"c1", "c2", "c3"} {
		b.Put(piper, prod, claim(id, "asserted"), ledgertest.Episode("e"))
	}
	b.Put(piper, prod, prediction("p1", "", 0.5), ledgertest.Episode("f"))
	supported("claim", "c1", "r1", "b", false) // 5
	supported("claim", "c2", "r1", "b", false)
	supported("claim", "c3", "r1", "b", true) // 7
	supported("claim", "c3", "r2", "b", false)
	supported("prediction", "p1", "r1", "b", false) // 9
	supported("claim", "c2", "r1", "a", true)       // 10: the rubric that came last
	supported("claim", "c9", "r1", "b", false)      // which nobody recorded
}
