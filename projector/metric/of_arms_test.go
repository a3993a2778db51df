package metric_test

import (
	"fmt"
	"strings"
	"testing"

	"assay/events"
	"assay/internal/kv"
	"assay/internal/stats"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

var armByHand = []byHand{
	{
		// dev: w1's A2 is right once of two, 1/2 − 0; w2 1 − 1/4, in two cases of one
		// world each; together (0.5 + 0.75) ÷ 2. Of w3 A1 has no run, and a response to
		// w4 was not scored. validation stands apart.
		metric: "arm_delta_scores",
		build: func(b book) {
			for _, w := range []string{"w1", "w2", "w3", "w4", "w5"} {
				b.commit(w+"a", w)
				b.commit(w+"b", w)
			}
			for _, arm := range []string{"A1", "A2"} {
				for _, split := range []string{"dev", "validation"} {
					b.run(arm+split, arm, split)
				}
			}
			b.trialOf("A2dev", "w1a", 0, 1) // 15
			b.trialOf("A2dev", "w1a", 1, 0)
			b.trialOf("A1dev", "w1a", 0, 0)
			b.trialOf("A2dev", "w2a", 0, 1)
			b.trialOf("A2dev", "w2b", 0, 1)
			b.trialOf("A1dev", "w2a", 0, 0)
			b.trialOf("A1dev", "w2b", 0, 0.5)
			b.trialOf("A2dev", "w3a", 0, 1) // 29
			b.trialOf("A1dev", "w4a", 0, 1) // 31
			b.respond("A2dev", "w4a", 0)
			b.trialOf("A2validation", "w5a", 0, 1)
			b.trialOf("A1validation", "w5a", 0, 1)
		},
		want: "null (1250000/3) no run of A1 1 unknown value 1",
		rows: "15d w1, 15n w1a=500000, 17n w1a=0, 19n w1a=0, 21d w2, 21n w2a=500000, 23n w2b=500000, 25n w2a=0, 27n w2b=-250000, 29e w3, 33e w4, " +
			"34d w5, 34n w5a=1000000, 36n w5a=-1000000",
		groups: "s/1 correct, dev: A2 − A1 0.625 (1250000/2) no run of A1 1 unknown value 1; s/1 correct, validation: A2 − A1 0 (0/1)",
	},
	{
		// A registered pair stands as it was registered; A9 was not compared with B.
		metric: "arm_delta_scores", name: "registered",
		build: func(b book) {
			b.Put(operator, prod, &events.PreregistrationCommitted{PreregID: "p", Arms: []string{"B", "C"}, N: 200})
			for i, arm := range []string{"A9", "B", "C"} {
				b.run(arm, arm, "dev")
				b.trialOf(arm, "w", 0, float64(i)/4)
			}
		},
		want:   "null (1000000/3)",
		groups: "s/1 correct, dev: B − A9 0.25 (250000/1); s/1 correct, dev: C − A9 0.5 (500000/1); s/1 correct, dev: C − B 0.25 (250000/1)",
	},
	{
		// What the five arms of one handoff were seen to cost (keys, transcripts): nothing
		// is known of it, which is no 0.
		metric: "arm_delta_cost", build: handoffs, want: "null (0/0) unknown value 4",
		groups: "cost, no split, codex/0.147.0/gpt-5.6-sol/?/verification-entry-point: irrelevant − empty null (0/0) unknown value 1; " +
			"cost, no split, codex/0.147.0/gpt-5.6-sol/?/verification-entry-point: natural − empty null (0/0) unknown value 1; " +
			"cost, no split, codex/0.147.0/gpt-5.6-sol/?/verification-entry-point: oracle − empty null (0/0) unknown value 1; " +
			"cost, no split, codex/0.147.0/gpt-5.6-sol/?/verification-entry-point: stale − empty null (0/0) unknown value 1",
	},
	{
		// 110 − 60 tokens; a part that is not known leaves w2 out.
		metric: "arm_delta_tokens",
		build: func(b book) {
			b.run("a", "A1", "dev")
			b.run("z", "A0", "dev")
			used := func(in, out *int64) func(*events.ResponseRecorded) {
				return func(d *events.ResponseRecorded) { d.Cost = &events.Cost{InputTokens: in, OutputTokens: out} }
			}
			b.respond("a", "w1", 0, used(ptr(int64(100)), ptr(int64(10))))
			b.respond("z", "w1", 0, used(ptr(int64(50)), ptr(int64(10))))
			b.respond("a", "w2", 0, used(ptr(int64(100)), nil))
			b.respond("z", "w2", 0, used(ptr(int64(50)), ptr(int64(10))))
		},
		want: "null (50000000/1) unknown value 1", groups: "tokens, dev: A1 − A0 50 (50000000/1) unknown value 1",
	},
	{
		// Of w1 a cost is more than can be counted: all of the cluster is unknown.
		metric: "arm_delta_cost", name: "too much",
		build: func(b book) {
			b.run("a", "A1", "dev")
			b.run("z", "A0", "dev")
			cost := func(usd float64) func(*events.ResponseRecorded) {
				return func(d *events.ResponseRecorded) { d.Cost = &events.Cost{CostUSD: &usd} }
			}
			b.respond("a", "w1", 0, cost(1)) // 3
			b.respond("a", "w1", 1, cost(1e8))
			b.respond("z", "w1", 0, cost(1))
			b.respond("a", "w2", 0, cost(2)) // 6
			b.respond("z", "w2", 0, cost(0.5))
		},
		want: "null (1500000000/1) unknown value 1", rows: "4e w1, 6d w2, 6n w2=2000000000, 7n w2=-500000000",
	},
	{
		// natural took 74,203 ms, empty 94,234.
		metric: "arm_delta_latency", build: func(b book) {
			handoff(b, "empty", 94234)
			handoff(b, "natural", 74203)
		},
		want: "null (-20031000000/1)", groups: "latency, no split, codex/0.147.0/gpt-5.6-sol/?/verification-entry-point: natural − empty -20031 (-20031000000/1)",
	},
	{
		// Of an import nothing counts, though it would make a pair.
		metric: "arm_delta_latency", name: "imported", build: func(b book) {
			handoff(b, "empty", 94234)
			handoff(b, "natural", 74203, func(d *events.EpisodeRecorded) { d.Context = importedContext })
		},
		want: "null (0/0) imported 1", rows: "2e e-natural",
	},
	{
		// A2 alone is right in w1 and w2, A1 alone in w3; both in w4; w5's A2 at times.
		metric: "arm_discordance", build: discordant, want: "null (2/3) right at times 1 the same 1",
		groups: "s/1 correct, dev: A2 − A1 0.666667 (2/3) right at times 1 the same 1",
		rows:   "3d w1, 3n w1, 7d w2, 7n w2, 11d w3, 15e w4, 19e w5",
	},
}

func handoff(b book, arm string, ms float64, change ...func(*events.EpisodeRecorded)) {
	d := &events.EpisodeRecorded{
		Client: ptr("codex"), ClientVersion: ptr("0.147.0"), Model: ptr("gpt-5.6-sol"), TaskID: ptr("verification-entry-point"),
		PairID: ptr("verification-entry-point-1"), Arm: &arm, Correct: ptr(true), LatencyMS: &ms,
	}
	for _, c := range change {
		c(d)
	}
	b.Put(harness, bench, d, ledgertest.Episode("e-"+arm))
}

func handoffs(b book) {
	for _, seen := range []struct {
		arm string
		ms  float64
	}{{"empty", 94234}, {"natural", 74203}, {"oracle", 62278}, {"irrelevant", 112690}, {"stale", 78059}} {
		handoff(b, seen.arm, seen.ms)
	}
}

func discordant(b book) {
	b.run("A2", "A2", "dev")
	b.run("A1", "A1", "dev")
	for i, right := range [][2]float64{{1, 0}, {1, 0}, {0, 1}, {1, 1}, {1, 0}} {
		w := fmt.Sprint("w", i+1)
		b.trialOf("A2", w, 0, right[0])
		b.trialOf("A1", w, 0, right[1])
	}
	b.trialOf("A2", "w5", 1, 0)
}

// TestArmInterval: an interval over whole clusters is there from five on, and from as
// many as were registered. Why there is none is said.
func TestArmInterval(t *testing.T) {
	differences := []float64{1, 0.5, -0.25, 0.75, 0, 0.5}
	for _, tt := range []struct {
		clusters, registered int64
		why                  string
	}{
		{1, 0, "too_few_clusters (1 of 5 clusters)"}, {4, 0, "too_few_clusters (4 of 5 clusters)"}, {6, 0, ""}, {6, 6, ""},
		{6, 7, "too_few_clusters (6 of 7 clusters)"},
	} {
		l := ledgertest.New()
		b, c := book{l}, stats.Clusters{}
		if tt.registered > 0 {
			b.Put(operator, prod, &events.PreregistrationCommitted{PreregID: "p", Arms: []string{"A9", "A10"}, N: tt.registered})
		}
		b.run("A9", "A9", "dev")
		b.run("A10", "A10", "dev")
		for i, d := range differences[:tt.clusters] {
			w := fmt.Sprint("w", i)
			b.trialOf("A10", w, 0, d)
			b.trialOf("A9", w, 0, 0)
			c[w] = map[string][]*float64{"A10": {&d}, "A9": {ptr(0.0)}}
		}
		fold(t, l, func(st *projector.State) {
			e, _ := explain(t, st, "arm_delta_scores", metric.Options{})
			if len(e.Groups) != 1 || e.Groups[0].Name != "s/1 correct, dev: A10 − A9" || e.Value != nil || e.Low != nil {
				t.Fatalf("%+v", e)
			}
			g := e.Groups[0]
			want := c.Compare("A10", "A9", stats.Resampling{B: 1999, Confidence: 0.95, Method: stats.Percentile, MinClusters: 2})
			switch {
			case tt.why != "" && (g.Low != nil || !strings.Contains(e.Why, tt.why)):
				t.Errorf("%d clusters, %d registered: %v, why %q, want %q", tt.clusters, tt.registered, g.Low, e.Why, tt.why)
			case tt.why == "" && (g.Low == nil || *g.Low != want.Interval.Low || *g.High != want.Interval.High || *g.Low >= *g.Value || e.Why != ""):
				t.Errorf("%d clusters: %+v, why %q, want %+v", tt.clusters, g, e.Why, want.Interval)
			}
		})
	}
}

// TestMcNemar: 2 and 1 of three discordant clusters are as likely as not between
// equals.
func TestMcNemar(t *testing.T) {
	l := ledgertest.New()
	discordant(book{l})
	fold(t, l, func(st *projector.State) {
		e, _ := explain(t, st, "arm_discordance", metric.Options{})
		if want := "s/1 correct, dev: A2 − A1: 2 and 1, exact McNemar p = 1"; e.Why != want {
			t.Errorf("%q, want %q", e.Why, want)
		}
	})
}

// TestWhyOfTheFirstRecords: what is to be kept in mind is said once, however many of the
// records are wanted.
func TestWhyOfTheFirstRecords(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	discordant(b)
	for i, arm := range []string{"A1", "A2"} { // a second comparison, behind the first
		b.run(arm+"v", arm, "validation")
		b.trialOf(arm+"v", "w1", 0, float64(i))
	}
	fold(t, l, func(st *projector.State) {
		all, records := explain(t, st, "arm_discordance", metric.Options{})
		for n := range records {
			left := n
			some, err := metric.Explain(st, "arm_discordance", prod, metric.Options{}, func(metric.Record) error {
				if left--; left < 0 {
					return kv.ErrStop
				}
				return nil
			})
			if err != nil || some.Why != all.Why || all.Why == "" {
				t.Errorf("of %d records: %q, %v; want %q", n, some.Why, err, all.Why)
			}
		}
	})
}
