package metric_test

import (
	"fmt"

	"assay/events"
	"assay/projector/ledgertest"
)

var usageByHand = []byHand{
	{
		// 100 + 50; m1 again counts once, m3's input is not known.
		metric: "input_tokens", build: usages, want: "150 (150) unknown tokens 1",
		rows:   "2n m1=100, 4n m2=50, 5e m3",
		groups: "big 100 (100) unknown tokens 1; small 50 (50)",
	},
	{
		// The agent says that m1 asked for t1, the dispatcher that m2 did: so m1 is t2's.
		// t3 is another of m2's, and counts with it.
		metric: "input_tokens", name: "the dispatcher says whose message it was",
		build: func(b book) {
			of := func(who, id, message string, n int64) {
				b.Put(who, prod, &events.ToolCalled{
					ToolCallID: id, Tool: "look", Status: "ok", MessageID: &message, Tokens: &events.Tokens{Input: &n, Cached: ptr(int64(0))},
				})
			}
			of(piper, "t1", "m1", 1)
			of(piper, "t2", "m1", 10)
			of(dispatcher, "t1", "m2", 100)
			of(dispatcher, "t3", "m2", 1000)
		},
		want: "110 (110)", rows: "3n t1=100, 2n t2=10",
	},
	{
		// The same in another order.
		metric: "input_tokens", name: "the dispatcher said whose message it was",
		build: func(b book) {
			of := func(who, id, message string, n int64) {
				b.Put(who, prod, &events.ToolCalled{
					ToolCallID: id, Tool: "look", Status: "ok", MessageID: &message, Tokens: &events.Tokens{Input: &n, Cached: ptr(int64(0))},
				})
			}
			of(dispatcher, "t1", "m2", 100)
			of(dispatcher, "t3", "m2", 1000)
			of(piper, "t1", "m1", 1)
			of(piper, "t2", "m1", 10)
		},
		want: "110 (110)", rows: "1n t1=100, 4n t2=10",
	},
	{
		// The dispatcher does not say which message asked for t1. The hook's word goes before
		// the agent's: it is m2's, and m1 is t2's.
		metric: "input_tokens", name: "whose message it was, by the hook",
		build: func(b book) {
			of := func(who, capture, id, message string, n int64) {
				d := &events.ToolCalled{ToolCallID: id, Tool: "look", Status: "ok", Tokens: &events.Tokens{Input: &n, Cached: ptr(int64(0))}}
				if d.Context.Capture = &capture; message != "" {
					d.MessageID = &message
				}
				b.Put(who, prod, d)
			}
			of(dispatcher, "live", "t1", "", 100)
			of(piper, "live", "t1", "m1", 1)
			of(dispatcher, "hook", "t1", "m2", 1000)
			of(piper, "live", "t2", "m1", 10)
		},
		want: "110 (110)", rows: "1n t1=100, 4n t2=10",
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
		// Two messages and a job; m2's latency is not known, and a tool call counts apart.
		metric: "model_latency", build: resources, want: "350 (350000) unknown latency 1", groups: "unknown 350 (350000) unknown latency 1",
		rows: "1n m1=100000, 2e m2, 3n record 3=250000",
	},
	{metric: "attempts", build: resources, want: "4 (4) unknown attempts 1"},
	{metric: "ledger_writes", build: resources, want: "7 (7) unknown ledger writes 2"},
	{metric: "cpu_time", build: resources, want: "1.5 (1500000) unknown CPU time 2"},
	{metric: "gpu_time", build: resources, want: "0.25 (250000) unknown GPU time 2"},
	{metric: "background_share", build: resources, want: "0.5 (1/2) unknown background 1", rows: "1d m1, 2e m2, 3d record 3, 3n record 3"},
	{
		// big costs 10 dollars a million tokens: m1's 110 cost 0.0011. small has no price,
		// and of m3 the input is not known.
		metric: "cost", build: usages, want: "0.0011 (1100000) unknown cost 2",
		rows: "2n m1=1100000, 4e m2, 5e m3",
	},
	{
		// By an imported price nothing is reckoned, whether its id is also that of a live
		// one or of none.
		metric: "cost", name: "imported price",
		build: func(b book) {
			for _, model := range []string{"big", "small"} {
				d := &events.PriceRecorded{PriceID: "price-" + model, Model: model, ValidFrom: "2026-02-01T00:00:00Z", InputUSDPerMTok: ptr(99.0), CachedUSDPerMTok: ptr(99.0), OutputUSDPerMTok: ptr(99.0)}
				d.Capture = ptr("imported")
				b.Put(operator, prod, d)
			}
			b.price("big", 10)
			b.usage("m1", "big", "e", ptr(int64(60_000)), ptr(int64(40_000)))
			b.usage("m2", "small", "e", ptr(int64(60_000)), ptr(int64(40_000)))
		},
		want: "1 (1000000000) unknown cost 1", rows: "4n m1=1000000000, 5e m2",
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
		// A cost that is unknown, of a usage that was imported, leaves the sum as it is.
		metric: "cost_per_incident", name: "imported",
		build: func(b book) {
			b.opportunity("o1", "root_cause", "e")
			b.price("big", 10)
			b.usage("m1", "big", "e", ptr(int64(60_000)), ptr(int64(40_000)))
			b.Put(dispatcher, prod, &events.UsageRecorded{Context: importedContext, MessageID: ptr("m2")}, ledgertest.Episode("e"))
		},
		want: "1 (1000000000/1) imported 1", rows: "1d e, 3n e=1000000000, 4e e",
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

func resources(b book) {
	b.Put(dispatcher, prod, &events.UsageRecorded{MessageID: ptr("m1"), LatencyMS: ptr(100.0), Attempts: ptr(int64(3)), Background: ptr(false)})
	b.Put(dispatcher, prod, &events.UsageRecorded{MessageID: ptr("m2")})
	b.Put(dispatcher, prod, &events.UsageRecorded{
		LatencyMS: ptr(250.0), Attempts: ptr(int64(1)), LedgerWrites: ptr(int64(7)), CPUSeconds: ptr(1.5), GPUSeconds: ptr(0.25), Background: ptr(true),
	})
	b.call("t", "look", "", latency(7))
}
