package canary

import (
	"fmt"
	"testing"

	"assay/events"
	"assay/resolver/calls"
)

// TestOneCallItsBestWitness: record 1 starts a canary with two calls a week.
func TestOneCallItsBestWitness(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *book)
		want string
	}{
		{"told by three", func(b *book) {
			for _, id := range []string{"1", "2"} {
				b.call(id, "set_flag", "", by("hook"))
				b.call(id, "set_flag", "")
				b.call(id, "set_flag", "", by("otlp"))
			}
		}, ""},
		{"a hook's ok of what the dispatcher had denied", func(b *book) {
			b.call("1", "reboot", "", denied)
			b.call("1", "reboot", "", by("hook"))
		}, ""},
		{"and of what it had denied behind the end", func(b *book) {
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("1", "set_flag", "", denied)
			b.call("1", "set_flag", "", by("hook"))
		}, ""},
		{"a hook's ok that the dispatcher denies is counted no more", func(b *book) {
			for i := range 5 {
				b.call(fmt.Sprint(i), "set_flag", "", by("hook"))
				b.call(fmt.Sprint(i), "set_flag", "", denied)
			}
			b.call("x", "set_flag", "")
			b.call("y", "set_flag", "")
		}, ""},
		{"and is none of the next week's", func(b *book) {
			b.call("1", "set_flag", "", by("hook"))
			b.week("2026-W48")
			b.call("1", "set_flag", "", denied)
			b.call("x", "set_flag", "")
			b.call("y", "set_flag", "")
			b.call("z", "set_flag", "")
		}, "a action_beyond_cap@7 [7]"},
		{"a rollback stands, whatever was denied behind it", func(b *book) {
			b.call("1", "reboot", "", by("hook"))
			b.call("1", "reboot", "", denied)
		}, "a action_not_listed@2 [2]"},
		{"what a hook calls denied and the dispatcher ok", func(b *book) {
			b.call("1", "set_flag", "", by("hook"), denied)
			b.call("1", "set_flag", "")
			b.call("2", "set_flag", "")
			b.call("3", "set_flag", "")
		}, "a action_beyond_cap@5 [5]"},
		{"another target than the hook's", func(b *book) {
			b.call("1", "restart", "svc/x", by("hook"))
			b.call("1", "restart", "svc/y")
		}, "a action_not_listed@3 [3]"},
		{"one id in two episodes is two calls", func(b *book) {
			for _, episode := range []string{"e", "f", "g"} {
				b.episode = episode
				b.call("1", "set_flag", "")
			}
		}, "a action_beyond_cap@4 [4]"},
		{"one that an earlier canary counted", func(b *book) {
			b.call("1", "restart", "svc/x", by("hook"))
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", capped(1))
			b.call("1", "restart", "svc/y")
			b.call("2", "set_flag", "")
		}, ""},
		{"one that an earlier canary counted and is denied now", func(b *book) {
			b.call("1", "set_flag", "", by("hook"))
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", capped(1))
			b.call("2", "set_flag", "")
			b.call("1", "set_flag", "", denied)
			b.call("3", "set_flag", "")
		}, "b action_beyond_cap@7 [7]"},
		{"imported calls", func(b *book) { b.call("1", "reboot", "", by("imported")) }, ""},
		{"an imported end, rollback and start", func(b *book) {
			capture := events.WitnessImported
			imported := events.Context{Capture: &capture}
			b.put(operator, "production", &events.CanaryEnded{Context: imported, CanaryID: "a", Reason: "accepted"})
			b.put(operator, "production", &events.RollbackTriggered{Context: imported, CanaryID: "a", Rule: "operator", Reason: "enough"})
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", func(d *events.CanaryStarted) { d.Context = imported })
			b.call("2", "reboot", "")
		}, "a action_after_end@7 [7]"},
		{"an imported week", func(b *book) {
			capture := events.WitnessImported
			b.call("1", "set_flag", "")
			b.call("2", "set_flag", "")
			b.put(logger, "production", &events.WeekClosed{
				Context: events.Context{Capture: &capture}, Week: "2026-W48", Zone: "UTC", Start: "2026-11-23T00:00:00Z", End: "2026-11-30T00:00:00Z",
			})
			b.call("3", "set_flag", "")
		}, "a action_beyond_cap@5 [5]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.start("a", capped(2))
			c.do(b)
			if got := b.said(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestFiguresOfTheBestWitness: a latency is the best witness's, and what did not run
// has neither latency nor repair.
func TestFiguresOfTheBestWitness(t *testing.T) {
	lat, drop := rate(LatencyRatio, 2, 2, 3600), rate(SuccessDrop, 50, 2, 3600)
	lat.Baseline, drop.Baseline = ptr(100.0), ptr(1.0)
	b := newBook(t)
	b.start("a", criteria(lat, drop))
	b.call("1", "set_flag", "", by("hook"), took(900))
	b.call("1", "set_flag", "", took(100)) // in its place
	b.call("2", "set_flag", "", by("hook"), took(900))
	b.put(dispatcher, Namespace, &events.ToolCalled{ToolCallID: "2", Tool: "set_flag", Status: "ok"}) // unknown, in its place
	if got := b.said(); got != "a latency_ratio@4 [3 4]" {
		t.Fatal(got) // 100 ms and the hook's 900 ms of the second call, before it was bettered
	}

	b = newBook(t)
	b.start("a", criteria(lat, drop))
	b.call("1", "set_flag", "", by("hook"), took(900))
	b.call("1", "set_flag", "", took(100))
	b.call("2", "set_flag", "", took(100))
	b.call("3", "restart", "svc/x", by("hook"))
	b.recheck("3", "not_confirmed")
	b.call("3", "restart", "svc/x", denied)
	b.recheck("3", "not_confirmed") // of no call any more
	b.call("4", "restart", "svc/x")
	b.recheck("4", "confirmed")
	w := b.f.state.Last.Windows
	if got := b.said(); got != "" || w[0].N != 2 || w[0].Bad != 0 || w[1].N != 1 || w[1].Bad != 0 {
		t.Errorf("%s: %d latencies, %d rechecks", got, w[0].N, w[1].N)
	}
}

// TestDeniedCallsAreBounded: what an agent has denied again and again is forgotten in
// turn, and takes nothing from what is counted.
func TestDeniedCallsAreBounded(t *testing.T) {
	b := newBook(t)
	b.start("a", capped(1))
	b.call("counted", "set_flag", "")
	for i := range calls.MaxCalls + 10 {
		b.call(fmt.Sprint(i), "reboot", "", denied)
	}
	if s := &b.f.state; len(s.Calls) != 1 || len(b.f.heard.List()) != calls.MaxCalls || len(b.f.calls)+len(b.f.byID) != 2 {
		t.Errorf("%d calls, %d heard", len(s.Calls), len(b.f.heard.List()))
	}
	if got := b.said(); got != "" {
		t.Error(got)
	}
}
