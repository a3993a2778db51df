package canary

import (
	"strings"
	"testing"

	"assay/events"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *book) // record 1 starts canary a
		want string
	}{
		{"what is listed", func(b *book) {
			b.call("1", "restart", "svc/x")
			b.call("2", "set_flag", "any")
			b.call("3", "set_flag", "")
		}, ""},
		{"another tool", func(b *book) { b.call("1", "reboot", "") }, "a action_not_listed@2 [2]"},
		{"another target", func(b *book) { b.call("1", "restart", "svc/y") }, "a action_not_listed@2 [2]"},
		{"no target where one is listed", func(b *book) { b.call("1", "restart", "") }, "a action_not_listed@2 [2]"},
		{"not reversible", func(b *book) { b.call("1", "drop", "table") }, "a action_irreversible@2 [2]"},
		{"a failed call acts too", func(b *book) { b.call("1", "reboot", "", func(d *events.ToolCalled) { d.Status = "failed" }) }, "a action_not_listed@2 [2]"},
		{"a denied call does not", func(b *book) { b.call("1", "reboot", "", func(d *events.ToolCalled) { d.Status = "denied" }) }, ""},
		{"nor the agent's own word", func(b *book) {
			b.put(agent, Namespace, &events.ToolCalled{ToolCallID: "1", Tool: "reboot", Status: "ok"})
		}, ""},
		{"nor a call in another namespace", func(b *book) {
			b.put(dispatcher, "production", &events.ToolCalled{ToolCallID: "1", Tool: "reboot", Status: "ok"})
		}, ""},
		{"a further record of the call that ended it", func(b *book) { b.call("1", "reboot", ""); b.call("1", "reboot", "") }, "a action_not_listed@2 [2]"},
		{"a further record of a call behind the end", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("1", "set_flag", "")
		}, ""},
		{"another tool under the id of such a call", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("1", "restart", "svc/x")
		}, "a action_after_end@4 [4]"},
		{"a further record of it while the next one runs", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", capped(1))
			b.call("1", "set_flag", "")
			b.call("2", "set_flag", "")
		}, ""},
		{"and 30 days later it is another call", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.now = b.now.Add(remember)
			b.start("b", capped(1))
			b.call("1", "set_flag", "")
			b.call("2", "set_flag", "")
		}, "b action_beyond_cap@6 [6]"},
		{"told once", func(b *book) { b.call("1", "reboot", ""); b.call("2", "reboot", ""); b.call("3", "reboot", "") },
			"a action_not_listed@2 [2]; a action_after_rollback@3 [3]"},
		{"ended", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("2", "set_flag", "")
			b.call("3", "set_flag", "")
		}, "a action_after_end@4 [4]"},
		{"ended by nobody who may", func(b *book) {
			b.put(agent, Namespace, &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "b", Reason: "accepted"})
			b.call("2", "set_flag", "")
		}, ""},
		{"rolled back by a person", func(b *book) {
			b.put(operator, "production", &events.RollbackTriggered{CanaryID: "a", Rule: "operator", Reason: "enough"})
			b.call("2", "set_flag", "")
		}, "a action_after_rollback@3 [3]"},
		{"another while one runs has no effect", func(b *book) {
			b.start("b", func(d *events.CanaryStarted) { d.Actions[1].Tool = "reboot" })
			b.call("1", "reboot", "")
		}, "a action_not_listed@3 [3]"},
		{"the next one, and the first again", func(b *book) {
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("a")
			b.start("b")
			b.call("1", "set_flag", "")
			b.call("2", "reboot", "")
		}, "b action_not_listed@6 [6]"},
		{"a criterion that makes no sense", func(b *book) {
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", criteria(events.CanaryCriterion{Metric: LatencyRatio, Threshold: ptr(2.0), MinN: ptr(int64(1)), WindowS: ptr(int64(60))}))
			b.call("1", "set_flag", "")
		}, "b invalid_canary@3 [3]; b action_after_rollback@4 [4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.start("a")
			c.do(b)
			if got := b.said(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestNoCanaryNoRule(t *testing.T) {
	b := newBook(t)
	b.call("1", "reboot", "")
	b.put(agent, Namespace, &events.CanaryStarted{CanaryID: "a", Policy: "p", Actions: []events.CanaryAction{{Tool: "x", Reversible: true}}, CapPerWeek: 1, Criteria: []events.CanaryCriterion{{Metric: Violation}}})
	b.call("2", "reboot", "")
	if got := b.said(); got != "" {
		t.Error(got)
	}
}

func TestCapIsPerWeek(t *testing.T) {
	b := newBook(t)
	b.start("a", capped(2))
	b.call("1", "set_flag", "")
	b.call("2", "set_flag", "")
	b.call("2", "set_flag", "") // a repeat is no other call
	b.week("2026-W48")
	b.call("3", "set_flag", "")
	b.call("4", "set_flag", "", func(d *events.ToolCalled) { d.Status = "denied" })
	b.call("5", "set_flag", "")
	b.put(operator, "production", &events.WeekClosed{Week: "2026-W49", Zone: "UTC", Start: "2026-11-30T00:00:00Z", End: "2026-12-07T00:00:00Z"})
	if got := b.said(); got != "" {
		t.Fatal(got)
	}
	b.call("6", "set_flag", "x")
	d := b.rollbacks()
	if got := b.said(); got != "a action_beyond_cap@10 [10]" || *d[0].Value != 3 || *d[0].Threshold != 2 || *d[0].N != 3 {
		t.Errorf("%s, %+v", got, d[0])
	}
	if d[0].Reason != "set_flag on x: call 3 of this week, of 2" {
		t.Error(d[0].Reason)
	}
}

func TestLint(t *testing.T) {
	n, w := ptr(int64(1)), ptr(int64(60))
	half, two := ptr(0.5), ptr(2.0)
	for _, c := range []struct {
		name string
		c    events.CanaryCriterion
		ok   bool
	}{
		{"violation", events.CanaryCriterion{Metric: Violation}, true},
		{"violation with figures", events.CanaryCriterion{Metric: Violation, MinN: n}, false},
		{"rate", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n, WindowS: w}, true},
		{"rate over one", events.CanaryCriterion{Metric: FailureRate, Threshold: two, MinN: n, WindowS: w}, false},
		{"rate with a baseline", events.CanaryCriterion{Metric: FailureRate, Threshold: half, Baseline: half, MinN: n, WindowS: w}, false},
		{"rate of a tool", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n, WindowS: w, Tool: ptr("x")}, false},
		{"no threshold", events.CanaryCriterion{Metric: FailureRate, MinN: n, WindowS: w}, false},
		{"no min_n", events.CanaryCriterion{Metric: FailureRate, Threshold: half, WindowS: w}, false},
		{"min_n 0", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: ptr(int64(0)), WindowS: w}, false},
		{"no window", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n}, false},
		{"an endless window", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n, WindowS: ptr(int64(1 << 53))}, false},
		{"drop", events.CanaryCriterion{Metric: SuccessDrop, Threshold: two, Baseline: half, MinN: n, WindowS: w}, true},
		{"drop without baseline", events.CanaryCriterion{Metric: SuccessDrop, Threshold: two, MinN: n, WindowS: w}, false},
		{"drop from over one", events.CanaryCriterion{Metric: SuccessDrop, Threshold: two, Baseline: two, MinN: n, WindowS: w}, false},
		{"latency", events.CanaryCriterion{Metric: LatencyRatio, Threshold: two, Baseline: two, MinN: n, WindowS: w, Tool: ptr("x")}, true},
		{"latency beside next to nothing", events.CanaryCriterion{Metric: LatencyRatio, Threshold: two, Baseline: ptr(1e-9), MinN: n, WindowS: w}, false},
		{"latency without baseline", events.CanaryCriterion{Metric: LatencyRatio, Threshold: two, MinN: n, WindowS: w}, false},
		{"another metric", events.CanaryCriterion{Metric: "mood", Threshold: two, MinN: n, WindowS: w}, false},
	} {
		err := Lint(&events.CanaryStarted{Criteria: []events.CanaryCriterion{c.c}})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "/criteria/0: "+c.c.Metric+": ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLintBoundsTheCap, and what is wrong with everything still fits the event.
func TestLintBoundsTheCap(t *testing.T) {
	for _, c := range []struct {
		n  int64
		ok bool
	}{{0, true}, {maxCap, true}, {maxCap + 1, false}} {
		err := Lint(&events.CanaryStarted{CapPerWeek: c.n})
		if (err == nil) != c.ok || err != nil && !strings.HasPrefix(err.Error(), "/cap_per_week: ") {
			t.Errorf("%d: %v", c.n, err)
		}
	}
	b := newBook(t)
	b.start("a", capped(maxCap+1), func(d *events.CanaryStarted) {
		d.Criteria = nil
		for range 16 {
			d.Criteria = append(d.Criteria, events.CanaryCriterion{Metric: SuccessDrop, Threshold: ptr(1.0), MinN: ptr(int64(1)), WindowS: ptr(int64(1))})
		}
	})
	if d := b.rollbacks(); len(d) != 1 || strings.Count(d[0].Reason, "\n") != 16 {
		t.Errorf("%+v", d)
	}
}
