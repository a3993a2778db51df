package view_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestUsage(t *testing.T) {
	tokens := func(in, out, cached *int64) *events.Tokens {
		return &events.Tokens{Input: in, Output: out, Cached: cached}
	}
	n := func(v int64) *int64 { return &v }
	tests := []struct {
		name                    string
		call                    events.ToolCalled
		input, cached, uncached *int64
		inconsistent            bool
	}{
		{"nothing known", events.ToolCalled{}, nil, nil, nil, false},
		{"zero is known", events.ToolCalled{Tokens: tokens(n(0), n(0), n(0))}, n(0), n(0), n(0), false},
		{"includes", events.ToolCalled{Tokens: tokens(n(100), n(5), n(80)), UsageConvention: ptr("input_includes_cached")}, n(100), n(80), n(20), false},
		{"excludes", events.ToolCalled{Tokens: tokens(n(20), n(5), n(80)), UsageConvention: ptr("input_excludes_cached")}, n(100), n(80), n(20), false},
		{"includes, cached unknown", events.ToolCalled{Tokens: tokens(n(100), nil, nil), UsageConvention: ptr("input_includes_cached")}, n(100), nil, nil, false},
		{"excludes, cached unknown", events.ToolCalled{Tokens: tokens(n(20), nil, nil), UsageConvention: ptr("input_excludes_cached")}, nil, nil, n(20), false},
		{"no convention, cached", events.ToolCalled{Tokens: tokens(n(100), nil, n(80))}, nil, n(80), nil, false},
		{"no convention, nothing cached", events.ToolCalled{Tokens: tokens(n(100), nil, n(0))}, n(100), n(0), n(100), false},
		{"more cached than all", events.ToolCalled{Tokens: tokens(n(20), nil, n(80)), UsageConvention: ptr("input_includes_cached")}, nil, n(80), nil, true},
		{"context's cost block", events.ToolCalled{Context: events.Context{Cost: &events.Cost{InputTokens: n(7), CachedTokens: n(0)}}}, n(7), n(0), n(7), false},
	}
	l := ledgertest.New()
	for i, tt := range tests {
		d := tt.call
		d.ToolCallID, d.Tool, d.Status = fmt.Sprintf("t%02d", i), "bash", "ok"
		l.Put(dispatcher, prod, &d)
		l.Put(dispatcher, "shadow", &events.UsageRecorded{
			Context: d.Context, MessageID: &d.ToolCallID, Tokens: d.Tokens, UsageConvention: d.UsageConvention,
		})
	}
	fold(t, l, func(s *projector.State) {
		recorded := usage(t, s, "shadow")
		for i, tt := range tests {
			c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "", fmt.Sprintf("t%02d", i)))
			for _, u := range []view.Usage{c.Observed.Usage, recorded[i].Usage} {
				if !reflect.DeepEqual(u.InputTokens, tt.input) || !reflect.DeepEqual(u.CachedTokens, tt.cached) ||
					!reflect.DeepEqual(u.UncachedTokens, tt.uncached) || u.Inconsistent != tt.inconsistent {
					t.Errorf("%s: %+v", tt.name, u)
				}
			}
		}
	})
}

func usage(t *testing.T, s *projector.State, ns string) (out []view.Spent) {
	t.Helper()
	if err := view.ListUsage(s, ns, func(u *view.Spent) error { out = append(out, *u); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUsageIsCountedOnce(t *testing.T) {
	l := ledgertest.New()
	put := func(who, id, message string, usd float64) {
		d := call(id, "bash")
		d.CostUSD = ptr(usd)
		if message != "" {
			d.MessageID = ptr(message)
		}
		l.Put(who, prod, d)
	}
	put(piper, "a", "m1", 1)        // self-report first,
	put(dispatcher, "a", "m1", 2)   // the dispatcher's word counts
	put(dispatcher, "b", "m1", 4)   // same message
	put(dispatcher, "c", "", 8)     // no message: by call
	put(dispatcher, "c", "", 16)    // a repeat of the call
	put(piper, "d", "m2", 32)       // only self-reported
	put(piper, "e", "m3", 64)       // self-report of m3
	put(dispatcher, "f", "m3", 128) // the dispatcher's
	put(dispatcher, "g", "m4", 256)
	put(piper, "g", "", 512) // the other side of a counted call
	fold(t, l, func(s *projector.State) {
		sum, self := 0.0, 0
		if err := view.ListUsage(s, prod, func(u *view.Spent) error {
			sum += *u.Usage.CostUSD
			if u.SelfReported {
				self++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := float64(2 + 8 + 32 + 128 + 256); sum != want || self != 1 {
			t.Errorf("sum %v with %d self-reported, want %v with 1", sum, self, want)
		}
		if c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "", "c")); c.Repeats != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestUsageJoins: what usage.recorded tells of a message or a call takes the
// place of what the tool call says for itself, and of nothing else.
func TestUsageJoins(t *testing.T) {
	l := ledgertest.New()
	spent := func(usd float64, message, call *string) *events.UsageRecorded {
		return &events.UsageRecorded{Context: events.Context{ToolCallID: call}, MessageID: message, CostUSD: &usd}
	}
	called := func(id string, usd float64, message *string) *events.ToolCalled {
		d := call(id, "bash")
		d.CostUSD, d.MessageID = &usd, message
		return d
	}
	l.Put(dispatcher, prod, called("t1", 1, ptr("m1")))           // m1 is told below
	l.Put(dispatcher, prod, spent(2, ptr("m1"), nil))             //
	l.Put(dispatcher, prod, spent(4, ptr("m1"), nil))             // a repeat
	l.Put(dispatcher, prod, spent(8, nil, ptr("t2")))             // t2 is told here
	l.Put(dispatcher, prod, called("t2", 16, nil))                //
	l.Put(dispatcher, prod, spent(32, ptr("m3"), ptr("t3")))      // a message sent from inside of t3,
	l.Put(dispatcher, prod, called("t3", 64, nil))                // which costs besides
	l.Put(piper, prod, called("t4", 128, ptr("m4")))              // known from the agent alone
	l.Put(dispatcher, prod, spent(256, nil, nil))                 // neither message nor call: each counts
	l.Put(dispatcher, prod, spent(512, nil, nil))                 //
	l.Put("harness/main", "bench/r", spent(1024, ptr("m4"), nil)) // messages of another namespace
	l.Put(dispatcher, "bench/r", called("t5", 2048, ptr("m1")))   //
	l.Put(piper, prod, spent(4096, nil, nil))                     // an agent's is no usage
	fold(t, l, func(s *projector.State) {
		for ns, want := range map[string]float64{prod: 2 + 8 + 32 + 64 + 128 + 256 + 512, "bench/r": 1024 + 2048, "canary": 0} {
			sum, self := 0.0, 0.0
			for _, u := range usage(t, s, ns) {
				sum += *u.Usage.CostUSD
				if u.SelfReported {
					self += *u.Usage.CostUSD
				}
			}
			if sum != want || ns == prod && self != 128 {
				t.Errorf("%s: %v, %v of it self-reported, want %v", ns, sum, self, want)
			}
		}
		if u := usage(t, s, prod)[1]; u.Repeats != 1 || u.Seq != 2 {
			t.Errorf("%+v", u)
		}
		if p := parked(t, s); !reflect.DeepEqual(p, []string{"usage/13"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestPrices: what tokens cost is reckoned by the price in force when the message
// ended, whenever the price was recorded.
func TestPrices(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	used := func(ended string, uncached, cached, output *int64, change ...func(*events.UsageRecorded)) *events.UsageRecorded {
		u := &events.UsageRecorded{
			Model: ptr("m"), EndedAt: &ended, UsageConvention: ptr("input_excludes_cached"),
			Tokens: &events.Tokens{Input: uncached, Cached: cached, Output: output},
		}
		for _, c := range change {
			c(u)
		}
		return u
	}
	version := func(v string) func(*events.UsageRecorded) {
		return func(u *events.UsageRecorded) { u.ModelVersion = &v }
	}
	provider := func(v string) func(*events.UsageRecorded) {
		return func(u *events.UsageRecorded) { u.Provider = &v }
	}
	const day5 = "2026-10-05T00:00:00Z"
	tests := []struct {
		name string
		u    *events.UsageRecorded
		want *int64 // billionths of a dollar
	}{
		{"before any price", used("2026-09-30T23:59:59Z", n(1), n(0), n(0)), nil},
		{"from its first moment", used("2026-10-01T00:00:00Z", n(1_000_000), n(0), n(0)), n(3e9)},
		{"a moment of another zone", used("2026-10-01T01:30:00+02:00", n(1), n(0), n(0)), nil},
		{"all parts", used("2026-10-02T00:00:00Z", n(1000), n(2000), n(10)), n(3_000_000 + 600_000 + 150_000)},
		{"half a billionth is one", used("2026-10-03T00:00:00Z", n(5), n(0), n(0)), n(1)},
		{"less is none", used("2026-10-03T00:00:00Z", n(4), n(0), n(0)), n(0)},
		{"nothing costs nothing, whatever the price", used(day5, n(1), n(0), n(0)), n(1000)},
		{"a price that is not known", used(day5, n(1), n(1), n(0)), nil},
		{"unknown output", used(day5, n(1), n(0), nil), nil},
		{"unknown cached", used(day5, n(1), nil, n(0)), nil},
		{"the version's own", used(day5, n(1), n(0), n(0), version("2")), n(7000)},
		{"not another version's", used(day5, n(1), n(0), n(0), version("1")), n(1000)},
		{"the provider's own", used(day5, n(1), n(0), n(0), provider("p")), n(5000)},
		{"the version before the provider", used(day5, n(1), n(0), n(0), provider("p"), version("2")), n(7000)},
		{"from its end on, an earlier one does not come back", used("2026-10-09T00:00:00Z", n(1), n(0), n(0)), nil},
		{"a version's that ended gives way to the model's", used("2026-10-05T12:00:00Z", n(1), n(0), n(0), version("3")), n(1000)},
		{"another model", used(day5, n(1), n(0), n(0), func(u *events.UsageRecorded) { u.Model = ptr("n") }), nil},
		{"no model", used(day5, n(1), n(0), n(0), func(u *events.UsageRecorded) { u.Model = nil }), nil},
		{"no convention", used(day5, n(1), n(1), n(0), func(u *events.UsageRecorded) { u.UsageConvention = nil }), nil},
		{"when it was recorded", used("", n(1), n(0), n(0), func(u *events.UsageRecorded) { u.EndedAt = nil }), n(3000)},
		{"beyond 2^53", used(day5, n(1<<53), n(0), n(0)), nil},
		{"beyond 2^64", used("2026-10-01T00:00:00Z", n(1<<53), n(0), n(1<<53)), nil},
	}
	l := ledgertest.New() // on 2026-10-01
	for i, tt := range tests {
		l.Put(dispatcher, prod, tt.u, ledgertest.Episode(fmt.Sprintf("%02d", i)))
	}
	for _, p := range []events.PriceRecorded{
		{PriceID: "first", ValidFrom: "2026-10-01T00:00:00Z", InputUSDPerMTok: ptr(3.0), CachedUSDPerMTok: ptr(0.3), OutputUSDPerMTok: ptr(15.0)},
		{PriceID: "tiny", ValidFrom: "2026-10-03T00:00:00Z", ValidTo: ptr("2026-10-04T00:00:00Z"), InputUSDPerMTok: ptr(0.0001)},
		{PriceID: "third", ValidFrom: "2026-10-04T00:00:00Z", ValidTo: ptr("2026-10-09T00:00:00Z"), InputUSDPerMTok: ptr(1.0)},
		{PriceID: "third", ValidFrom: "2026-10-04T00:00:00Z", InputUSDPerMTok: ptr(99.0)},
		{PriceID: "version", ModelVersion: ptr("2"), ValidFrom: "2026-10-02T00:00:00Z", InputUSDPerMTok: ptr(7.0)},
		{PriceID: "ended", ModelVersion: ptr("3"), ValidFrom: "2026-10-02T00:00:00Z", ValidTo: ptr("2026-10-05T12:00:00Z"), InputUSDPerMTok: ptr(8.0)},
		{PriceID: "provider", Provider: ptr("p"), ValidFrom: "2026-10-02T00:00:00Z", InputUSDPerMTok: ptr(5.0)},
	} {
		p.Model = "m"
		l.Put(operator, prod, &p)
	}
	l.Put(dispatcher, prod, &events.PriceRecorded{PriceID: "forged", Model: "m", ValidFrom: day5, InputUSDPerMTok: ptr(0.0)})
	fold(t, l, func(s *projector.State) {
		i := 0
		if err := view.ListEpisodeUsage(s, prod, func(e *view.EpisodeUsage) error {
			if got := e.PricedNanoUSD; e.EpisodeID != fmt.Sprintf("%02d", i) || !reflect.DeepEqual(got.Sum, tests[i].want) || got.Total != 1 {
				t.Errorf("%s: %v", tests[i].name, got)
			}
			i++
			return nil
		}); err != nil || i != len(tests) {
			t.Fatalf("%d episodes, %v", i, err)
		}
		if p := parked(t, s); len(p) != 1 || p[0] != fmt.Sprintf("usage/%d", len(tests)+8) {
			t.Errorf("parked %v", p)
		}
		repeats := map[string]int64{}
		if err := view.ListPrices(s, func(p *view.Price) error { repeats[p.PriceID] = p.Repeats; return nil }); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int64{"first": 0, "tiny": 0, "third": 1, "version": 0, "provider": 0, "ended": 0}; !reflect.DeepEqual(repeats, want) {
			t.Errorf("prices %v", repeats)
		}
	})
}

// TestEpisodeUsage: sums by episode, what is unknown left out and counted, and
// the same in whatever order the records came.
func TestEpisodeUsage(t *testing.T) {
	put := []func(l *ledgertest.Ledger){
		func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, &events.UsageRecorded{
				MessageID: ptr("m1"), Status: ptr("ok"), Attempts: ptr(int64(3)), LedgerWrites: ptr(int64(2)), LatencyMS: ptr(1500.25), CPUSeconds: ptr(0.5),
				Tokens: &events.Tokens{Input: ptr(int64(100)), Cached: ptr(int64(80)), Output: ptr(int64(5))}, UsageConvention: ptr("input_includes_cached"), CostUSD: ptr(0.1),
			}, ledgertest.Episode("a"))
		},
		func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, &events.UsageRecorded{MessageID: ptr("m2"), Status: ptr("timeout"), LatencyMS: ptr(30000.0), CostUSD: ptr(0.2)}, ledgertest.Episode("a"))
		},
		func(l *ledgertest.Ledger) {
			d := call("t1", "bash")
			d.Status, d.CostUSD = "unknown", ptr(0.3) // not a failure that anybody saw
			l.Put(piper, prod, d, ledgertest.Episode("a"))
		},
		func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, &events.UsageRecorded{MessageID: ptr("m3"), Background: ptr(true), GPUSeconds: ptr(2.0), CostUSD: ptr(1e9)})
		},
	}
	sum := func(v, known, total int64) view.Sum { return view.Sum{Sum: &v, Known: known, Total: total, Low: v} }
	unknown := func(total int64) view.Sum { return view.Sum{Total: total} }
	want := []view.EpisodeUsage{{
		Namespace: prod, Counted: 1, Background: 1,
		InputTokens: unknown(1), CachedTokens: unknown(1), UncachedTokens: unknown(1), OutputTokens: unknown(1), Attempts: unknown(1), LedgerWrites: unknown(1),
		LatencyUS: unknown(1), CPUUS: unknown(1), GPUUS: sum(2_000_000, 1, 1), ChargedNanoUSD: unknown(1), PricedNanoUSD: unknown(1),
	}, {
		Namespace: prod, EpisodeID: "a", Counted: 3, SelfReported: 1, Failed: 1,
		InputTokens: sum(100, 1, 3), CachedTokens: sum(80, 1, 3), UncachedTokens: sum(20, 1, 3), OutputTokens: sum(5, 1, 3),
		Attempts: sum(3, 1, 3), LedgerWrites: sum(2, 1, 3), LatencyUS: sum(31_500_250, 2, 3), CPUUS: sum(500_000, 1, 3), GPUUS: unknown(3),
		ChargedNanoUSD: sum(600_000_000, 3, 3), PricedNanoUSD: unknown(3),
	}}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		l := ledgertest.New()
		for _, i := range order {
			put[i](l)
		}
		fold(t, l, func(s *projector.State) {
			var got []view.EpisodeUsage
			if err := view.ListEpisodeUsage(s, prod, func(e *view.EpisodeUsage) error { got = append(got, *e); return nil }); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("in order %v: %+v\nwant %+v", order, got, want)
			}
		})
	}
}

// TestSumAtTheEdge: a sum is exact as long as 64 bits hold it, and not known beyond.
func TestSumAtTheEdge(t *testing.T) {
	const most = 1 << 53 // of what an event can say
	var s view.Sum
	for range 1023 {
		s.Add(ptr(int64(most)))
	}
	s.Add(nil)
	s.Add(ptr(int64(most - 1)))
	if s.Sum == nil || *s.Sum != math.MaxInt64 || s.Known != 1024 || s.Total != 1025 {
		t.Errorf("%s, want 2^63 − 1", s)
	}
	s.Add(ptr(int64(1)))
	if s.Sum != nil || s.Known != 1025 || s.String() != "unknown (known for 1025 of 1026)" {
		t.Errorf("%s, want unknown", s)
	}
	for range 2000 {
		s.Add(ptr(int64(most)))
	}
	if s.Sum != nil {
		t.Errorf("%s, want unknown", s)
	}
}
