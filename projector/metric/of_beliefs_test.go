package metric_test

import (
	"time"

	"assay/events"
)

var beliefByHand = []byHand{
	{
		// Record 2 is a revision with a version, 3 one without, 4 an edit of metadata.
		metric: "unversioned_content_changes", build: beliefs, want: "0.5 (1/2)", rows: "2d b1, 3d b1, 3n b1",
	},
	{
		// b2 rests on b1, which was revised at record 3: stale in record 7. b1 rests on
		// nothing, and nobody recorded b9.
		metric: "stale_retrievals", build: beliefs, want: "0.5 (1/2) unknown belief 1", rows: "7d b2, 7n b2, 8d b1, 9e b9",
	},
	{
		// s1 rests on b2, which is derived; s2 names no input, and has lost what it had. s3
		// rests on what nobody recorded.
		metric: "derived_lineage_lost", build: transforms, want: "0.5 (1/2) unknown origin of what it rests on 1",
		rows: "3d s1, 3d s2, 3n s2, 4e s3", groups: "w1 0.5 (1/2); w2 null (0/0) unknown origin of what it rests on 1",
	},
	{
		// s1 is still called derived, s2 an observation.
		metric: "derived_origin_kept", build: transforms, want: "0.5 (1/2) unknown origin of what it rests on 1",
		rows: "3d s1, 3n s1, 3d s2, 4e s3",
	},
	{
		// k5 is k1 again while that is open.
		metric: "contradictions", build: conflicts, want: "4 (4) duplicate 1", rows: "2n k1, 3n k2, 4n k3, 5n k4, 6e k5",
		groups: "detected 1 (1) duplicate 1; resolved 2 (2); unresolved 1 (1)",
	},
	{
		// k1, k2 and k3 are valid, k4 is not known, for two raters differ.
		metric: "valid_contradictions", build: conflicts, want: "1 (3/3) duplicate 1 unknown validity 1",
		rows: "2d k1, 2n k1, 3d k2, 3n k2, 4d k3, 4n k3, 5e k4, 6e k5",
	},
	{
		// What r1 says of k1 was imported, and says nothing against r2.
		metric: "valid_contradictions", name: "imported labels",
		build: func(b book) {
			b.Put(piper, prod, &events.ContradictionDetected{
				ContradictionID: "k1", Left: events.ContradictionSide{Kind: "belief", ID: "b1"}, Right: events.ContradictionSide{Kind: "belief", ID: "b2"},
			})
			b.audit("contradiction", "k1", "r1", func(d *events.AuditLabelled) { d.Context, d.ContradictionValid = importedContext, ptr(false) })
			b.audit("contradiction", "k1", "r2", func(d *events.AuditLabelled) { d.ContradictionValid = ptr(true) })
		},
		want: "1 (1/1)", rows: "1d k1, 1n k1",
	},
	{
		// k1 was resolved on evidence that was delivered, k2 on none; k3 waits.
		metric: "verified_dispositions", build: conflicts, want: "0.333333 (1/3) duplicate 1 unknown validity 1",
		rows: "2d k1, 7n k1, 3d k2, 4d k3, 5e k4, 6e k5",
	},
	{
		metric: "false_resolutions", build: conflicts, want: "0.5 (1/2) duplicate 1", rows: "2d k1, 3d k2, 3n k2, 6e k5",
	},
	{
		// At record 15, a day and 4 seconds behind the first, k3 of second 3 is a day and a
		// second old, and k4 of second 4 a day: the younger is the median of two.
		metric: "open_contradiction_age", build: func(b book) {
			conflicts(b)
			b.Advance(day - 10*time.Second)
			b.call("t", "look", "")
		},
		want: "1 (172801/2) closed 2 duplicate 1", rows: "2e k1, 3e k2, 4n k3=86401, 5n k4=86400, 6e k5",
	},
}

func beliefs(b book) {
	derived := func(parents ...string) *events.Provenance {
		return &events.Provenance{Origin: ptr("derived"), Lineage: &events.Lineage{Parents: parents}}
	}
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: ptr(int64(1)), ContentSHA256: sha(1)})
	b.Put(piper, prod, &events.BeliefRevised{BeliefID: "b1", Change: "content", OldVersion: ptr(int64(1)), NewVersion: ptr(int64(2)), ContentSHA256: sha(2)})
	b.Put(dispatcher, prod, &events.BeliefRevised{BeliefID: "b1", Change: "content", OldVersion: ptr(int64(2)), NewVersion: ptr(int64(2)), ContentSHA256: sha(3)})
	b.Put(piper, prod, &events.BeliefRevised{BeliefID: "b1", Change: "metadata", OldVersion: ptr(int64(2)), NewVersion: ptr(int64(2)), ContentSHA256: sha(3)})
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b2", Version: ptr(int64(1)), ContentSHA256: sha(9), Provenance: derived("b1")}) // 5
	b.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "c1", BeliefID: "b1"})                                                     // 6
	b.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "b2"})                                                                         // 7
	b.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "b1"})                                                                         // 8
	b.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "b9"})                                                                         // 9
}

func transforms(b book) {
	output := func(id, origin string, from ...string) events.BeliefOutput {
		return events.BeliefOutput{BeliefID: id, From: from, Provenance: &events.Provenance{Origin: &origin}}
	}
	input := []events.BeliefInput{{BeliefID: "b2"}}
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: ptr(int64(1)), ContentSHA256: sha(1), Provenance: &events.Provenance{Origin: ptr("observation")}})
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b2", Version: ptr(int64(1)), ContentSHA256: sha(2), Provenance: &events.Provenance{Origin: ptr("derived")}})
	b.Put(dispatcher, prod, &events.BeliefTransformed{
		TransformID: "t1", Op: "summarised", Writer: ptr("w1"), Inputs: input, Outputs: []events.BeliefOutput{output("s1", "derived", "b2"), output("s2", "observation")},
	})
	b.Put(dispatcher, prod, &events.BeliefTransformed{
		TransformID: "t2", Op: "copied", Writer: ptr("w2"), Inputs: []events.BeliefInput{{BeliefID: "b9"}}, Outputs: []events.BeliefOutput{output("s3", "derived", "b9")},
	})
}

func conflicts(b book) {
	side := func(id string) events.ContradictionSide { return events.ContradictionSide{Kind: "belief", ID: id} }
	found := func(id, left, right string) {
		b.Put(piper, prod, &events.ContradictionDetected{ContradictionID: id, Left: side(left), Right: side(right)})
	}
	b.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: "ev"})
	found("k1", "b1", "b2")
	found("k2", "b3", "b4")
	found("k3", "b5", "b6")
	found("k4", "b7", "b8")
	found("k5", "b2", "b1")                                                                                                   // 6
	b.Put(piper, prod, &events.ContradictionResolved{ContradictionID: "k1", Resolution: "left", EvidenceIDs: []string{"ev"}}) // 7
	b.Put(piper, prod, &events.ContradictionResolved{ContradictionID: "k2", Resolution: "left"})                              // 8
	b.Put(piper, prod, &events.ContradictionUnresolved{ContradictionID: "k3", Cause: "no_evidence"})                          // 9
	valid := func(id, rater string, is bool) {
		b.audit("contradiction", id, rater, func(d *events.AuditLabelled) { d.ContradictionValid = &is })
	}
	valid("k1", "r1", true)
	valid("k2", "r1", true)
	valid("k3", "r1", true)
	valid("k4", "r1", true)
	valid("k4", "r2", false)
}
