package metric_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// explain is a metric over a ledger, with the records behind it.
func explain(t testing.TB, st *projector.State, name string, o metric.Options) (*metric.Explanation, []metric.Record) {
	t.Helper()
	var records []metric.Record
	e, err := metric.Explain(st, name, prod, o, func(r metric.Record) error { records = append(records, r); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return e, records
}

// line is a number as the tests write it: value (numerator/denominator), and what
// was excluded.
func line(n metric.Number) string {
	var b strings.Builder
	if b.WriteString("null"); n.Value != nil {
		b.Reset()
		fmt.Fprintf(&b, "%.6g", *n.Value)
	}
	fmt.Fprintf(&b, " (%d", n.Numerator)
	if n.Denominator != nil {
		fmt.Fprintf(&b, "/%d", *n.Denominator)
	}
	b.WriteByte(')')
	for _, why := range slices.Sorted(keys(n.Excluded)) {
		fmt.Fprintf(&b, " %s %d", why, n.Excluded[why])
	}
	return b.String()
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// rows are records as the tests write them: record, role's first letter, item, and
// the count where it is not 1.
func rows(records []metric.Record) string {
	var out []string
	for _, r := range records {
		text := fmt.Sprintf("%d%c %s", r.Seq, r.Role[0], r.Item)
		if r.Role != metric.Excluded && r.Count != 1 {
			text += fmt.Sprintf("=%d", r.Count)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// book writes a ledger by hand. Each method returns the record.
type book struct{ *ledgertest.Ledger }

var importedContext = events.Context{Capture: ptr("imported")}

func (b book) opportunity(id, kind, episode string) ledger.Seq {
	return b.Put(detector, prod, &events.OpportunityDetected{OpportunityID: id, Kind: kind}, ledgertest.Episode(episode))
}

func (b book) call(id, tool, episode string, change ...func(*events.ToolCalled)) ledger.Seq {
	d := &events.ToolCalled{ToolCallID: id, Tool: tool, Status: "ok"}
	for _, c := range change {
		c(d)
	}
	return b.Put(dispatcher, prod, d, ledgertest.Episode(episode))
}

func (b book) claim(id, status string, change ...func(*events.ClaimRecorded)) ledger.Seq {
	d := claim(id, status)
	for _, c := range change {
		c(d)
	}
	return b.Put(piper, prod, d)
}

// promise is a prediction with its verdict.
func (b book) promise(id, claimID string, p float64, verdict string) ledger.Seq {
	at := b.Put(piper, prod, prediction(id, claimID, p))
	if verdict != "" {
		b.Put(resolver, prod, resolved(id, verdict, at))
	}
	return at
}

func (b book) revise(id, from, to string) ledger.Seq {
	return b.Put(piper, prod, &events.ClaimRevised{ClaimID: id, OldStatus: from, NewStatus: to})
}

func (b book) recheck(id, result string) ledger.Seq {
	return b.Put(operator, prod, &events.FixRechecked{ClaimID: id, Result: result, Source: "instrument", Direct: true})
}

func (b book) usage(message, model, episode string, in, out *int64) ledger.Seq {
	return b.Put(dispatcher, prod, &events.UsageRecorded{
		MessageID: &message, Model: &model, Tokens: &events.Tokens{Input: in, Output: out, Cached: ptr(int64(0))},
	}, ledgertest.Episode(episode))
}

func (b book) price(model string, perMTok float64) ledger.Seq {
	return b.Put(operator, prod, &events.PriceRecorded{
		PriceID: "price-" + model, Model: model, ValidFrom: "2026-01-01T00:00:00Z",
		InputUSDPerMTok: &perMTok, CachedUSDPerMTok: &perMTok, OutputUSDPerMTok: &perMTok,
	})
}

// eligible is a rater's word on whether there was an opportunity.
func (b book) eligible(kind, id, rater string, blind bool, is *bool) ledger.Seq {
	return b.Put(operator, prod, &events.OpportunityLabelled{Kind: kind, ID: id, Rater: rater, Blind: blind, RubricVersion: "1", Eligible: is})
}

func (b book) audit(kind, id, rater string, change func(*events.AuditLabelled)) ledger.Seq {
	d := &events.AuditLabelled{Kind: kind, ID: id, Rater: rater, Blind: true, RubricVersion: "1"}
	change(d)
	return b.Put(operator, prod, d)
}

func imported(d *events.ToolCalled) { d.Context = importedContext }

func latency(ms float64) func(*events.ToolCalled) {
	return func(d *events.ToolCalled) { d.LatencyMS = &ms }
}

func status(s string) func(*events.ToolCalled) { return func(d *events.ToolCalled) { d.Status = s } }

// byHand are small ledgers and what each metric must be of them, worked out in the
// comments.
var byHand = []struct {
	metric  string
	name    string
	options metric.Options
	build   func(b book)
	want    string // line
	rows    string // rows; "" is not looked at
	groups  string // name line; …
}{
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
		want: "0.25 (1/4) imported 1", rows: "1d o1, 2n o1, 3d o2, 5d o3, 6e o3, 7d o4",
		groups: "gap 0 (0/2) imported 1; why 0.5 (1/2)",
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
	{
		// c1 is confirmed while asserted, by p1 (record 3) and again by p2: once. c2 is
		// asserted only after its confirmation. c3 has a refuted prediction too. c4 holds
		// by a recheck, and is retracted later, which changes nothing. c5's prediction is
		// void, c6's unresolved, c7 was imported.
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
		want:   "2 (2) imported 1 not asserted then 1 refuted 1",
		rows:   "3n c1, 8e c2, 12e c3, 16n c4, 26e c7",
		groups: "prediction 1 (1) imported 1 not asserted then 1 refuted 1; recheck 1 (1)",
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
		// The claim was imported, whatever became of it here.
		metric: "revision_accuracy", name: "imported", build: importedClaim, want: "null (0/0) imported 1", rows: "3e c1",
	},
	{
		metric: "collateral_retractions", name: "imported", build: importedClaim, want: "null (0/0) imported 1", rows: "4e c1",
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
	{
		// Five old ones, of which two have a verdict of telemetry; a reported one has
		// none. p6 is too young, p7 was imported.
		metric: "prediction_resolution_coverage",
		build: func(b book) {
			for i, verdict := range []string{"confirmed", "refuted", "void", "unresolved", ""} {
				b.promise(fmt.Sprint("p", i+1), "", 0.5, verdict) // 1, 3, 5, 7, 9
			}
			d := prediction("p7", "", 0.5)
			d.Context = importedContext
			b.Put(piper, prod, d) // 10
			b.Advance(8 * day)
			b.promise("p6", "", 0.5, "confirmed") // 11
		},
		want: "0.4 (2/5) imported 1 not older than seven days 1",
		rows: "1d p1, 2n p1, 3d p2, 4n p2, 5d p3, 7d p4, 9d p5, 11e p6, 10e p7",
	},
	{
		// Of one open and one unresolved prediction the younger is the median of two.
		metric: "unresolved_prediction_age",
		build: func(b book) {
			b.promise("p1", "", 0.5, "")
			b.Advance(day - time.Second)
			b.promise("p2", "", 0.5, "unresolved")
			b.promise("p3", "", 0.5, "void")
			b.promise("p4", "", 0.5, "confirmed")
			b.Advance(day - 6*time.Second)
			b.call("t", "look", "")
		},
		want: "1 (259200/2) settled or void 2", rows: "1n p1=172800, 2n p2=86400, 4e p3, 6e p4",
	},
	{
		// Two verdicts, of which one was known beforehand; an unresolved one is none.
		metric: "scorable_share",
		build: func(b book) {
			b.promise("p1", "", 0.5, "confirmed")
			at := b.promise("p2", "", 0.5, "")
			d := resolved("p2", "refuted", at)
			d.Foreknowledge, d.Scorable = "known", false
			b.Put(resolver, prod, d)
			b.promise("p3", "", 0.5, "unresolved")
		},
		want: "0.5 (1/2) no verdict 1", rows: "1d p1, 2n p1, 3d p2, 5e p3",
	},
	{
		// By category: the claims of rung intervention came to one of two, what is on no
		// claim to one of one.
		metric: "confirmed_share",
		build: func(b book) {
			b.claim("c1", "asserted")
			b.promise("p1", "c1", 0.8, "confirmed") // 2, 3
			b.promise("p2", "c1", 0.8, "refuted")   // 4, 5
			b.promise("p3", "", 0.8, "confirmed")   // 6, 7
			b.promise("p4", "", 0.8, "void")        // 8, 9
		},
		want: "0.666667 (2/3) no verdict 1", rows: "2d p1, 3n p1, 4d p2, 6d p3, 7n p3, 8e p4",
		groups: "intervention 0.5 (1/2); no claim 1 (1/1) no verdict 1",
	},
	{
		// (0.8−1)² = 0.04 and (0.8−0)² = 0.64, together 0.68, in mean 0.34; 0.5 of an
		// unresolved one counts for nothing.
		metric: "brier",
		build: func(b book) {
			b.promise("p1", "", 0.8, "confirmed")
			b.promise("p2", "", 0.8, "refuted")
			b.promise("p3", "", 0.5, "unresolved")
		},
		want: "0.34 (680000000/2) no verdict 1", rows: "2n p1=40000000, 4n p2=640000000, 5e p3",
	},
	{
		// 0.8 − 1 = −0.2 and 0.8 − 0 = 0.8: in mean 0.3 too high.
		metric: "overconfidence",
		build: func(b book) {
			b.promise("p1", "", 0.8, "confirmed")
			b.promise("p2", "", 0.8, "refuted")
		},
		want: "0.3 (600000000/2)", rows: "2n p1=-200000000, 4n p2=800000000",
	},
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
		want: "null (0/0) imported 1", rows: "4e x1",
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
		// x1 was answered rightly and x2 not; x3 called for nothing, and of x4 nobody says
		// what became of it.
		metric: "correct_revisions",
		build: func(b book) {
			b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: 1, ContentSHA256: sha(1)})
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
	{
		// 100 + 50; m1 again counts once, m3's input is not known.
		metric: "input_tokens", build: usages, want: "150 (150) unknown tokens 1",
		rows:   "2n m1=100, 4n m2=50, 5e m3",
		groups: "big 100 (100) unknown tokens 1; small 50 (50)",
	},
	{metric: "cached_tokens", build: usages, want: "0 (0)", rows: "2n m1=0, 4n m2=0, 5n m3=0"},
	{metric: "output_tokens", build: usages, want: "30 (30)", rows: "2n m1=10, 4n m2=10, 5n m3=10"},
	{
		// t1, told of by both, is one; t2 failed and t3 timed out; t4 was denied; t5 is
		// the agent's word alone; t6 was imported.
		metric: "tool_calls", build: calls, want: "4 (4) denied 1 imported 1",
		rows:   "1n t1, 3n t2, 4n t3, 5e t4, 6n t5, 7e t6",
		groups: "causal 3 (3) denied 1 imported 1; look 1 (1)",
	},
	{
		// 10 + 20 + 70 ms; t5's is not known.
		metric: "tool_latency", build: calls, want: "100 (100000) denied 1 imported 1 unknown latency 1",
		rows: "1n t1=10000, 3n t2=20000, 4n t3=70000, 5e t4, 6e t5, 7e t6",
	},
	{
		// t1 and t3 are causal calls that the dispatcher saw; 95 % of two are two: 70 ms.
		metric: "causal_query_p95", build: calls, want: "70 (80000/2) denied 1 imported 1 self-reported 1",
		rows: "1n t1=10000, 4n t3=70000, 5e t4, 6e t5, 7e t6",
	},
	{
		// 95 % of 31 calls are 29.45: the thirtieth is the first that so many do not exceed.
		metric: "causal_query_p95", name: "of thirty-one",
		build: func(b book) {
			for i := range 31 {
				b.call(fmt.Sprint("t", i), "causal", "", latency(float64((i*7)%31+1)))
			}
		},
		want: "30 (496000/31)",
	},
	{
		// Five calls, denied ones included; the dispatcher told of all but t5.
		metric: "capture_coverage", build: calls, want: "0.8 (4/5) imported 1",
		rows: "1d t1, 1n t1, 3d t2, 3n t2, 4d t3, 4n t3, 5d t4, 5n t4, 6d t5, 7e t6",
	},
	{
		// big costs 10 dollars a million tokens: m1's 110 cost 0.0011. small has no price,
		// and of m3 the input is not known.
		metric: "cost", build: usages, want: "0.0011 (1100000) unknown cost 2",
		rows: "2n m1=1100000, 4e m2, 5e m3",
	},
	{
		metric: "charged",
		build: func(b book) {
			b.Put(dispatcher, prod, &events.UsageRecorded{MessageID: ptr("m1"), CostUSD: ptr(0.25)})
			b.Put(dispatcher, prod, &events.UsageRecorded{MessageID: ptr("m2")})
			b.call("t1", "look", "", func(d *events.ToolCalled) { d.CostUSD = ptr(0.5) })
		},
		want: "0.75 (750000000) unknown charge 1", rows: "1n m1=250000000, 2e m2, 3n t1=500000000",
		groups: "unknown 0.75 (750000000) unknown charge 1",
	},
	{
		// Two incidents, e with 100,000 tokens at 10 dollars a million and f with none; g
		// is no incident. 1 dollar for two is 0.5.
		metric: "cost_per_incident",
		build: func(b book) {
			b.price("big", 10)
			b.opportunity("o1", "root_cause", "e")
			b.opportunity("o2", "which_fix", "f")
			b.usage("m1", "big", "e", ptr(int64(60_000)), ptr(int64(40_000)))
			b.usage("m2", "big", "g", ptr(int64(60_000)), ptr(int64(40_000)))
		},
		want: "0.5 (1000000000/2)", rows: "2d e, 3d f, 4n e=1000000000",
	},
	{
		// What one of the messages cost is not known: so is the sum.
		metric: "cost_per_incident", name: "a part is unknown",
		build: func(b book) {
			b.opportunity("o1", "root_cause", "e")
			b.price("big", 10)
			b.usage("m1", "big", "e", ptr(int64(60_000)), ptr(int64(40_000)))
			b.usage("m2", "big", "e", nil, ptr(int64(1)))
		},
		want: "null (1000000000/1) unknown cost 1", rows: "1d e, 3n e=1000000000, 4e e",
	},
	{
		// A dollar for one useful conclusion.
		metric: "cost_per_useful_conclusion",
		build: func(b book) {
			b.price("big", 10)
			b.usage("m1", "big", "", ptr(int64(100_000)), ptr(int64(0)))
			b.claim("c1", "asserted")
			b.promise("p1", "c1", 0.8, "confirmed")
		},
		want: "1 (1000000000/1)", rows: "2n m1=1000000000, 5d c1",
	},
	{
		metric: "cost_per_useful_conclusion", name: "nothing useful",
		build: func(b book) {
			b.price("big", 10)
			b.usage("m1", "big", "", ptr(int64(100_000)), ptr(int64(0)))
		},
		want: "null (1000000000/0)",
	},
}

func importedClaim(b book) {
	b.claim("c1", "asserted", func(d *events.ClaimRecorded) { d.Context = importedContext })
	b.promise("p1", "c1", 0.9, "refuted") // 2, 3
	b.revise("c1", "asserted", "retracted")
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

func sha(n int) string { return fmt.Sprintf("%064x", n) }

func beliefs(b book) {
	derived := func(parents ...string) *events.Provenance {
		return &events.Provenance{Origin: ptr("derived"), Lineage: &events.Lineage{Parents: parents}}
	}
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: 1, ContentSHA256: sha(1)})
	b.Put(piper, prod, &events.BeliefRevised{BeliefID: "b1", Change: "content", OldVersion: ptr(int64(1)), NewVersion: ptr(int64(2)), ContentSHA256: sha(2)})
	b.Put(dispatcher, prod, &events.BeliefRevised{BeliefID: "b1", Change: "content", OldVersion: ptr(int64(2)), NewVersion: ptr(int64(2)), ContentSHA256: sha(3)})
	b.Put(piper, prod, &events.BeliefRevised{BeliefID: "b1", Change: "metadata", OldVersion: ptr(int64(2)), NewVersion: ptr(int64(2)), ContentSHA256: sha(3)})
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b2", Version: 1, ContentSHA256: sha(9), Provenance: derived("b1")}) // 5
	b.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "c1", BeliefID: "b1"})                                         // 6
	b.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "b2"})                                                             // 7
	b.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "b1"})                                                             // 8
	b.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "b9"})                                                             // 9
}

func transforms(b book) {
	output := func(id, origin string, from ...string) events.BeliefOutput {
		return events.BeliefOutput{BeliefID: id, From: from, Provenance: &events.Provenance{Origin: &origin}}
	}
	input := []events.BeliefInput{{BeliefID: "b2"}}
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b1", Version: 1, ContentSHA256: sha(1), Provenance: &events.Provenance{Origin: ptr("observation")}})
	b.Put(piper, prod, &events.BeliefCreated{BeliefID: "b2", Version: 1, ContentSHA256: sha(2), Provenance: &events.Provenance{Origin: ptr("derived")}})
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

func usages(b book) {
	b.price("big", 10)
	b.usage("m1", "big", "", ptr(int64(100)), ptr(int64(10)))
	b.usage("m1", "big", "", ptr(int64(100)), ptr(int64(10)))
	b.usage("m2", "small", "", ptr(int64(50)), ptr(int64(10)))
	b.usage("m3", "big", "", nil, ptr(int64(10)))
}

func calls(b book) {
	b.call("t1", "causal", "", latency(10))
	b.Put(piper, prod, &events.ToolCalled{ToolCallID: "t1", Tool: "causal", Status: "ok", LatencyMS: ptr(99.0)})
	b.call("t2", "look", "", latency(20), status("failed"))
	b.call("t3", "causal", "", latency(70), status("timeout"))
	b.call("t4", "causal", "", latency(40), status("denied"))
	b.Put(piper, prod, &events.ToolCalled{ToolCallID: "t5", Tool: "causal", Status: "ok"})
	b.call("t6", "causal", "", latency(5000), imported)
}

func TestMetrics(t *testing.T) {
	tested := map[string]bool{}
	for _, tt := range byHand {
		tested[tt.metric] = true
		t.Run(strings.TrimRight(tt.metric+" "+tt.name, " "), func(t *testing.T) {
			l := ledgertest.New()
			tt.build(book{l})
			fold(t, l, func(st *projector.State) {
				e, records := explain(t, st, tt.metric, tt.options)
				if got := line(e.Number); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if got := rows(records); tt.rows != "" && got != tt.rows {
					t.Errorf("records\n%s, want\n%s", got, tt.rows)
				}
				var groups []string
				for _, g := range e.Groups {
					groups = append(groups, g.Name+" "+line(g.Number))
				}
				if got := strings.Join(groups, "; "); tt.groups != "" && got != tt.groups {
					t.Errorf("groups %s, want %s", got, tt.groups)
				}
			})
		})
	}
	for _, m := range metric.Catalogue() {
		if !tested[m.Name] {
			t.Errorf("%s has no ledger made by hand", m.Name)
		}
	}
}

// TestCatalogue: each row says everything, and once.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metric.Catalogue() {
		if seen[m.Name] {
			t.Errorf("%s stands twice", m.Name)
		}
		seen[m.Name] = true
		for what, text := range map[string]string{
			"question": m.Question, "numerator": m.Numerator, "exclusions": m.Exclusions, "missing values": m.Missing,
			"kind": string(m.Kind), "form": string(m.Form), "unit": m.Unit, "interval": string(m.Interval), "source": m.Source,
		} {
			if text == "" {
				t.Errorf("%s has no %s", m.Name, what)
			}
		}
		if (m.Form == metric.FormRatio) != (m.Denominator != "") && m.Form != metric.FormMean && m.Form != metric.FormP95 {
			t.Errorf("%s is a %s of %q and %q", m.Name, m.Form, m.Numerator, m.Denominator)
		}
	}
	if _, err := metric.Find("nothing"); !errors.Is(err, metric.ErrNoMetric) {
		t.Error(err)
	}
}

// TestNothingToCount: of a ledger that was only opened, and of records that were
// imported alone, a count is 0 and everything else not available.
func TestNothingToCount(t *testing.T) {
	opened, live := ledgertest.New(), ledgertest.New()
	opened.Put("logger/main", "logger", &events.LedgerOpened{Origin: "test"})
	for _, tt := range byHand {
		tt.build(book{live})
	}
	for name, l := range map[string]*ledgertest.Ledger{"opened": opened, "imported": importedCopy(t, live, func(ledger.Seq) bool { return true })} {
		fold(t, l, func(st *projector.State) {
			for _, m := range metric.Catalogue() {
				e, rs := explain(t, st, m.Name, metric.Options{Repair: []string{"restart"}})
				if m.Form == metric.FormCount && (e.Value == nil || *e.Value != 0) || m.Form != metric.FormCount && e.Value != nil {
					t.Errorf("%s: %s is %s", name, m.Name, line(e.Number))
				}
				if at := slices.IndexFunc(rs, func(r metric.Record) bool { return r.Role != metric.Excluded }); at >= 0 {
					t.Errorf("%s: %s counts %+v", name, m.Name, rs[at])
				}
			}
		})
	}
}

// importedCopy has the events of a ledger at their times, some as they would be
// imported.
func importedCopy(t *testing.T, from *ledgertest.Ledger, imported func(ledger.Seq) bool) *ledgertest.Ledger {
	t.Helper()
	last, err := from.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := ledgertest.New()
	for seq := ledger.Seq(1); seq <= last; seq++ {
		r, e := decode(t, from, seq)
		if imported(seq) {
			e.Data.Common().Capture = ptr("imported")
		}
		to.Advance(r.RecordedAt.Sub(to.Now()))
		raw, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		to.PutEvent(r.Principal, r.Namespace, raw)
	}
	return to
}

func decode(t *testing.T, l *ledgertest.Ledger, seq ledger.Seq) (ledger.Record, *events.Event) {
	t.Helper()
	r, err := ledger.ParseRecord(l.Body(seq))
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(r.Event)
	if err != nil {
		t.Fatal(err)
	}
	return r, e
}

// TestValueIsItsRecords: over a busy ledger the number of every metric, and of each
// of its groups, is what its records add up to, each record is there and of the type
// that it says, and the same pass gives the same again.
func TestValueIsItsRecords(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(6, 1)), 3000)
	fold(t, l, func(st *projector.State) {
		nonempty := 0
		for _, m := range metric.Catalogue() {
			e, rs := explain(t, st, m.Name, metric.Options{Repair: []string{"bash"}})
			if len(rs) > 0 {
				nonempty++
			}
			checkSums(t, &m, e.Number, rs)
			for _, g := range e.Groups {
				in := slices.DeleteFunc(slices.Clone(rs), func(r metric.Record) bool { return r.Group != g.Name })
				checkSums(t, &m, g.Number, in)
			}
			for _, r := range rs {
				if _, e := decode(t, l, r.Seq); e.Type != r.Type {
					t.Fatalf("%s: record %d is a %s, not a %s", m.Name, r.Seq, e.Type, r.Type)
				}
			}
			again, ra := explain(t, st, m.Name, metric.Options{Repair: []string{"bash"}})
			if line(again.Number) != line(e.Number) || rows(ra) != rows(rs) {
				t.Errorf("%s differs from itself", m.Name)
			}
		}
		if nonempty < 20 {
			t.Errorf("only %d metrics count anything here", nonempty)
		}
	})
}

func checkSums(t *testing.T, m *metric.Metric, n metric.Number, rs []metric.Record) {
	t.Helper()
	var num, den, values, excluded int64
	for _, r := range rs {
		switch r.Role {
		case metric.Numerator:
			num += r.Count
			values++
		case metric.Denominator:
			den += r.Count
		case metric.Excluded:
			excluded++
		}
	}
	for _, k := range n.Excluded {
		excluded -= k
	}
	if m.Form != metric.FormRatio {
		den = values
	}
	if n.Numerator != num || n.Denominator != nil && *n.Denominator != den || excluded != 0 {
		t.Errorf("%s: %s, the records say %d/%d and %d more exclusions", m.Name, line(n), num, den, excluded)
	}
}

// TestScoreAgrees: where score and catalogue mean the same, they say the same, also
// over a ledger of which every seventh record was imported.
func TestScoreAgrees(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(6, 2)), 3000)
	l.Advance(5 * day)
	l.Mix(rand.New(rand.NewPCG(6, 3)), 3000)
	l.Advance(4 * day)
	l.Mix(rand.New(rand.NewPCG(6, 4)), 1000)
	t.Run("live", func(t *testing.T) { checkAgrees(t, l, false) })
	t.Run("imports", func(t *testing.T) {
		checkAgrees(t, importedCopy(t, l, func(seq ledger.Seq) bool { return seq%7 == 3 }), true)
	})
}

func checkAgrees(t *testing.T, l *ledgertest.Ledger, imports bool) {
	s := score(t, l, prod)
	if imports != (s.Imported > 0) || imports != strings.Contains(s.Text(), "no live behaviour") {
		t.Errorf("%d are imported: %s", s.Imported, s.Text())
	}
	fold(t, l, func(st *projector.State) {
		for name, want := range map[string]metric.Ratio{
			"routing_rate": s.Routing.Rate, "prediction_resolution_coverage": s.Coverage.Predictions.Rate,
			"experiments_executed": s.Experiments.Rate, "executed_queries": s.Shadow.Queries.Rate,
			"claim_resolution_coverage": s.Coverage.Claims.Rate, "useful_per_100_opportunities": s.Useful.Per100,
		} {
			e, _ := explain(t, st, name, metric.Options{})
			if want.Denominator == 0 || e.Numerator != want.Numerator || *e.Denominator != want.Denominator {
				t.Errorf("%s: %s, the score says %s", name, line(e.Number), want)
			}
		}
		u := s.Useful
		e, _ := explain(t, st, "useful_conclusions", metric.Options{})
		if e.Numerator != u.Count || u.Count == 0 || e.Excluded["refuted"] != u.Refuted || u.Refuted == 0 {
			t.Errorf("useful: %s, the score says %+v", line(e.Number), u)
		}
		for _, g := range e.Groups {
			if want := map[string]int64{"prediction": u.ByPrediction, "recheck": u.ByRecheck}[g.Name]; g.Numerator != want {
				t.Errorf("useful by %s: %s, the score says %d", g.Name, line(g.Number), want)
			}
		}
		if e, _ := explain(t, st, "brier", metric.Options{}); *e.Denominator != s.Calibration.N || fmt.Sprintf("%.6f", *e.Value) != fmt.Sprintf("%.6f", *s.Calibration.Brier.Value) {
			t.Errorf("brier: %s, the score says %v", line(e.Number), s.Calibration.Brier)
		}
		if e, _ := explain(t, st, "input_tokens", metric.Options{}); e.Numerator != *s.Cost.InputTokens.Sum {
			t.Errorf("input tokens: %s, the score says %s", line(e.Number), s.Cost.InputTokens)
		}
	})
}

// TestWeeks: an item is of the week that the ledger's time was in at its first
// record; what became of it may come later. A week that is not closed has no figure.
func TestWeeks(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	closeWeek := func(week string, start, end time.Time) {
		b.Put("logger/main", prod, &events.WeekClosed{Week: week, Zone: "UTC", Start: events.FormatTime(start), End: events.FormatTime(end)})
	}
	monday := ledgertest.Start.Add(4 * day) // 1 October 2026 is a Thursday
	b.opportunity("o1", "why", "e")         // 1, W40
	b.claim("c1", "asserted")               // 2
	l.Advance(monday.Sub(l.Now()))
	closeWeek("2026-W40", monday.Add(-7*day), monday) // 3, the first of W41
	b.opportunity("o2", "why", "f")                   // 4
	b.call("t1", "causal", "e")                       // 5
	b.promise("p1", "c1", 0.9, "confirmed")           // 6, 7
	l.Advance(monday.Add(14 * day).Sub(l.Now()))
	closeWeek("2026-W41", monday, monday.Add(7*day)) // 8: nothing was recorded in W42
	b.opportunity("o3", "why", "g")                  // 9, W43, which is open
	fold(t, l, func(st *projector.State) {
		for _, tt := range []struct{ metric, week, want string }{
			{"opportunities", "2026-W40", "1n o1"},
			{"opportunities", "2026-W41", "4n o2"},
			{"opportunities", "", "1n o1, 4n o2, 9n o3"},
			{"routing_rate", "2026-W40", "1d o1, 5n o1"},
			{"routing_rate", "2026-W41", "4d o2"},
			{"useful_conclusions", "2026-W40", ""},
			{"useful_conclusions", "2026-W41", "7n c1"},
			{"useful_per_100_opportunities", "2026-W41", "7n c1, 4d o2"},
		} {
			e, rs := explain(t, st, tt.metric, metric.Options{Week: tt.week})
			if got := rows(rs); got != tt.want || e.Week != tt.week {
				t.Errorf("%s of %s: %s, want %s", tt.metric, tt.week, got, tt.want)
			}
		}
		for _, week := range []string{"2026-W42", "2026-W43"} {
			if _, err := metric.Explain(st, "opportunities", prod, metric.Options{Week: week}, nil); !errors.Is(err, metric.ErrNoWeek) {
				t.Errorf("%s: %v", week, err)
			}
		}
	})
}

// TestInterval: Wilson's for 2 of 4 with z² = 3.8415 is
// (0.5 + z²/8 ± z·√(0.25/4 + z²/64)) ÷ (1 + z²/4) = (0.98018 ± 0.68605) ÷ 1.96037.
// A rate that can exceed its denominator has none.
func TestInterval(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	for i := range 4 {
		b.opportunity(fmt.Sprint("o", i), "why", fmt.Sprint("e", i))
		if i < 2 {
			b.call(fmt.Sprint("t", i), "causal", fmt.Sprint("e", i))
		}
	}
	fold(t, l, func(st *projector.State) {
		e, _ := explain(t, st, "routing_rate", metric.Options{})
		near(t, "low", e.Low, "0.150039")
		near(t, "high", e.High, "0.849961")
		e, _ = explain(t, st, "useful_per_100_opportunities", metric.Options{})
		near(t, "low", e.Low, "null")
		near(t, "value", e.Value, "0")
	})
}

// TestCaveat: figures that rest on what the detector found say so where its recall is
// known to be under 0.8.
func TestCaveat(t *testing.T) {
	poor, good, unknown := ledgertest.New(), ledgertest.New(), ledgertest.New()
	detection(book{poor})
	for _, l := range []*ledgertest.Ledger{good, unknown} {
		b := book{l}
		b.opportunity("o1", "why", "e")
		b.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 2, Positive: 1, Negative: 1, NegativeTurnIDs: []string{"n1"}})
		b.eligible("opportunity", "o1", "r1", true, ptr(true))
	}
	book{good}.eligible("turn", "n1", "r1", true, ptr(false))
	for name, tt := range map[string]struct {
		l    *ledgertest.Ledger
		want string
	}{"poor": {poor, "the detector finds 0.29 of the opportunities that there are, under 0.8"}, "good": {good, ""}, "unknown": {unknown, ""}} {
		fold(t, tt.l, func(st *projector.State) {
			for _, m := range metric.Catalogue() {
				e, _ := explain(t, st, m.Name, metric.Options{})
				if want := tt.want; m.Detected && e.Why != want || !m.Detected && want != "" && e.Why == want {
					t.Errorf("%s: %s says %q", name, m.Name, e.Why)
				}
			}
		})
	}
}

// TestSumsDoNotWrap: more than 64 bits of microseconds are no value.
func TestSumsDoNotWrap(t *testing.T) {
	l := ledgertest.New()
	for i := range 1100 {
		book{l}.call(fmt.Sprint("t", i), "look", "", latency(9e12))
	}
	fold(t, l, func(st *projector.State) {
		if e, _ := explain(t, st, "tool_latency", metric.Options{}); e.Value != nil {
			t.Errorf("%s", line(e.Number))
		}
	})
}
