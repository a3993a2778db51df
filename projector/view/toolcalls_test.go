package view_test

import (
	"fmt"
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
	}
	fold(t, l, func(s *projector.State) {
		for i, tt := range tests {
			c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, fmt.Sprintf("t%02d", i)))
			u := c.Observed.Usage
			if !reflect.DeepEqual(u.InputTokens, tt.input) || !reflect.DeepEqual(u.CachedTokens, tt.cached) ||
				!reflect.DeepEqual(u.UncachedTokens, tt.uncached) || u.Inconsistent != tt.inconsistent {
				t.Errorf("%s: %+v", tt.name, u)
			}
		}
	})
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
		if err := view.ListUsage(s, prod, func(c *view.Call, selfReported bool) error {
			sum += *c.Usage.CostUSD
			if selfReported {
				self++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := float64(2 + 8 + 32 + 128 + 256); sum != want || self != 1 {
			t.Errorf("sum %v with %d self-reported, want %v with 1", sum, self, want)
		}
		if c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "c")); c.Repeats != 1 {
			t.Errorf("%+v", c)
		}
	})
}
