package metric_test

import (
	"assay/events"
)

var findingByHand = []byHand{
	{
		// 100 + 50 tokens; i3's are not known.
		metric: "finding_tokens", build: findings, want: "150 (150) unknown tokens 1", rows: "3n f1=100, 7n f1=50, 8e f2",
	},
	{
		metric: "finding_shadow_tokens", build: findings, want: "70 (70) withheld: cooldown 1", rows: "9n f2=70, 10e f2",
	},
	{
		// Three ratings, of which one rater's word on the same counts once.
		metric: "harmful_ratings", build: findings, want: "0.666667 (2/3)", rows: "6d f1, 6n f1, 4d f1, 4n f1, 11d f2",
		groups: "agent/piper 1 (1/1); operator/op 0.5 (1/2)",
	},
	{
		// f1 has two harmful ratings from record 6 on.
		metric: "quarantined_findings", build: findings, want: "0.5 (1/2)", rows: "1d f1, 6n f1, 2d f2",
	},
	{
		// Of three deliveries, record 7 comes after f1's quarantine.
		metric: "quarantined_deliveries", build: findings, want: "0.333333 (1/3)", rows: "3d f1, 7d f1, 7n f1, 8d f2",
	},
	{
		// f2 says what f1 had said.
		metric: "duplicate_findings", build: findings, want: "0.5 (1/2)", rows: "1d f1, 2d f2, 2n f2",
	},
}

func findings(b book) {
	write := func(id string) {
		b.Put(piper, prod, &events.FindingWritten{FindingID: id, Claim: "The cache is full.", ConfidenceLabel: "probable", Scope: "project", ClaimSHA256: ptr(sha(1))})
	}
	deliver := func(id, injection string, tokens *int64) {
		b.Put(dispatcher, prod, &events.FindingDelivered{FindingID: id, InjectionID: injection, Tokens: tokens})
	}
	rate := func(who, id, rating string) { b.Put(who, prod, &events.FindingRated{FindingID: id, Rating: rating}) }
	write("f1")
	write("f2")
	deliver("f1", "i1", ptr(int64(100))) // 3
	rate(operator, "f1", "harmful")
	rate(operator, "f1", "helpful") // 5: he has said so already
	rate(piper, "f1", "harmful")    // 6
	deliver("f1", "i2", ptr(int64(50)))
	deliver("f2", "i3", nil)
	b.Put(dispatcher, prod, &events.FindingWithheld{FindingID: "f2", Cause: "holdout", ShadowTokens: ptr(int64(70))})
	b.Put(dispatcher, prod, &events.FindingWithheld{FindingID: "f2", Cause: "cooldown", ShadowTokens: ptr(int64(70))})
	rate(operator, "f2", "helpful") // 11
}
