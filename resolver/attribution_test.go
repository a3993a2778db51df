package resolver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/resolver/calls"
	"assay/resolver/criterion"
)

// sawtooth is a level that falls by itself from time to time, from bad to good.
func sawtooth(b *book, from, to float64) {
	for s := from; s < to; s += 10 {
		value := 100.0
		if (int(s/10)+1200)%12 < 3 {
			value = 10
		}
		b.seal(s+1, s, sample("level", s, value), sample("beat", s, 1))
	}
}

func TestAttribution(t *testing.T) {
	// dips promises that the level is low at some time of the minute after the kill.
	dips := strings.Replace(strings.Replace(killed, `"max"`, `"min"`, 1), `"offset":"10s"`, `"offset":"0s"`, 1)
	peers := strings.Replace(killed, `"expires_after"`, `"controls":[{"labels":{"unit":"y"}},{"labels":{"unit":"z"}}],"expires_after"`, 1)
	peer := func(unit string, second, value float64) criterion.Sample {
		s := sample("level", second, value)
		s.Labels = map[string]string{"unit": unit}
		return s
	}
	quiet := func(b *book) { // a bad minute, the kill at 100 s, a good minute from 110 s on
		b.seal(96, 95, ticks(5, 100, 99)...)
		b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
		b.seal(171, 170, ticks(105, 170, 1)...)
		b.seal(176, 175)
	}
	for _, tc := range []struct {
		name  string
		write func(b *book)
		want  string // kind, others, placebo, controls
	}{
		{"nothing known of earlier", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.seal(171, 170, ticks(105, 170, 1)...)
			b.seal(176, 175)
		}, "temporal_only [] null null"},
		{"no action", func(b *book) {
			b.predict(0, "p", low)
			confirmedBy60(b)
		}, "temporal_only null null null"},
		{"an action on no target", func(b *book) {
			b.predict(0, "p", strings.Replace(killed, `"target":"9",`, ``, 1))
			b.tool(100, "dispatcher/main", "kill", "", "ok", 100)
			b.seal(171, 170, ticks(105, 170, 1)...)
			b.seal(176, 175)
		}, "temporal_only null null null"},
		{"another action in the window", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.tool(120, "dispatcher/main", "restart", "9", "ok", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "confounded [3] null null"},
		{"another target, a failure, an agent's word, before and after", func(b *book) {
			b.tool(50, "dispatcher/main", "restart", "9", "ok", 50)
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.tool(120, "dispatcher/main", "restart", "8", "ok", 120)
			b.tool(121, "dispatcher/main", "restart", "9", "failed", 121)
			b.tool(122, "agent/piper", "restart", "9", "ok", 122)
			b.tool(173, "dispatcher/main", "restart", "9", "ok", 173)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "temporal_only [] null null"},
		{"its own call, told by three", func(b *book) {
			b.predict(90, "p", killed)
			b.call("own", 100, "dispatcher/main", "hook", "kill", "9", "ok", 100)
			b.call("own", 101, "dispatcher/main", "otlp", "kill", "9", "ok", 100)
			b.call("own", 102, "dispatcher/main", "live", "kill", "9", "ok", 100)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "temporal_only [] null null"},
		{"another call, told by two", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.call("other", 120, "dispatcher/main", "hook", "restart", "9", "ok", 120)
			b.call("other", 121, "dispatcher/main", "live", "restart", "9", "ok", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "confounded [4] null null"},
		{"another act under its own id", func(b *book) {
			b.predict(90, "p", killed)
			b.call("own", 100, "dispatcher/main", "live", "kill", "9", "ok", 100)
			b.call("own", 120, "dispatcher/main", "live", "restart", "9", "ok", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "confounded [3] null null"},
		{"a hook's ok of what the dispatcher had denied", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.call("other", 120, "dispatcher/main", "live", "restart", "9", "denied", 120)
			b.call("other", 121, "dispatcher/main", "hook", "restart", "9", "ok", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "temporal_only [] null null"},
		{"a hook's ok of what the dispatcher denied then", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.call("other", 120, "dispatcher/main", "hook", "restart", "9", "ok", 120)
			b.call("other", 121, "dispatcher/main", "live", "restart", "9", "denied", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "temporal_only [] null null"},
		{"a hook's word of another target", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.call("other", 120, "dispatcher/main", "hook", "restart", "8", "ok", 120)
			b.call("other", 121, "dispatcher/main", "live", "restart", "9", "ok", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "confounded [4] null null"},
		{"an imported action", func(b *book) {
			b.predict(90, "p", killed)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.call("other", 120, "dispatcher/main", "imported", "restart", "9", "ok", 120)
			b.seal(176, 175, ticks(105, 170, 1)...)
		}, "temporal_only [] null null"},
		{"untouched peers", func(b *book) {
			b.predict(90, "p", peers)
			for s := 5.0; s < 195; s += 10 {
				v := 99.0
				if s > 100 {
					v = 1
				}
				if s == 105 {
					b.tool(104, "dispatcher/main", "kill", "9", "ok", 104)
				}
				b.seal(s+1, s, sample("level", s, v), peer("y", s, 99), peer("z", s, 2), sample("beat", s, 1))
			}
		}, "controlled [] some {2 0}"},
		{"a peer that changed too", func(b *book) {
			b.predict(90, "p", peers)
			for s := 5.0; s < 195; s += 10 {
				v := 99.0
				if s > 100 {
					v = 1
				}
				if s == 105 {
					b.tool(104, "dispatcher/main", "kill", "9", "ok", 104)
				}
				b.seal(s+1, s, sample("level", s, v), peer("y", s, v), peer("z", s, 2), sample("beat", s, 1))
			}
		}, "temporal_only [] some {2 1}"},
		{"a peer that is not known", func(b *book) {
			b.predict(90, "p", peers)
			quiet(b)
		}, "temporal_only [] some {2 null}"},
		{"it comes true without an action", func(b *book) {
			sawtooth(b, -1435, 75)
			b.predict(90, "p", dips)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			b.seal(171, 170, ticks(105, 170, 1)...)
			b.seal(176, 175)
		}, "temporal_only [] some null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t)
			tc.write(b)
			d := resolutions(t, b.fold(machineOf(b, testRegistry(t))))["p"]
			if d == nil || d.Verdict != Confirmed {
				t.Fatalf("%+v", d)
			}
			a := d.Attribution
			got := a.Kind + " "
			if a.Others == nil {
				got += "null "
			} else {
				got += fmt.Sprint(a.Others, " ")
			}
			if a.Placebo == nil {
				got += "null "
			} else {
				got += "some "
				if p := a.Placebo; tc.name == "it comes true without an action" && (p.Windows < 50 || p.Confirmed == 0 || p.Confirmed >= p.Windows || p.Episodes == 0 || p.Upper == nil || *p.Upper < 0.7) {
					t.Errorf("placebo %+v", p)
				}
			}
			switch {
			case a.Controls == nil:
				got += "null"
			case a.Controls.Changed == nil:
				got += fmt.Sprintf("{%d null}", a.Controls.N)
			default:
				got += fmt.Sprintf("{%d %d}", a.Controls.N, *a.Controls.Changed)
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// A criterion that never comes true by itself is above its base rate.
func TestAboveBaseRate(t *testing.T) {
	b := newBook(t)
	for s := -1400.0; s < 95; s += 10 {
		b.seal(s+1, s, ticks(s, s+1, 99)...)
	}
	b.predict(96, "p", killed)
	b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
	b.seal(171, 170, ticks(105, 170, 1)...)
	b.seal(176, 175)
	d := resolutions(t, b.fold(machineOf(b, testRegistry(t))))["p"]
	p := d.Attribution.Placebo
	if p == nil || p.Confirmed != 0 || p.Windows == 0 || p.Upper == nil {
		t.Fatalf("%s, placebo %+v", d.Attribution.Kind, p)
	}
	if above := *p.Upper < 0.7; above != (d.Attribution.Kind == criterion.AboveBaseRate) {
		t.Errorf("%s with an upper bound of %g", d.Attribution.Kind, *p.Upper)
	}
}

// The placebo looks back over 24 windows, not over an earlier action on the
// target, and over 2,000 segments and 500,000 samples at most, those of all
// sources together.
func TestPlaceboIsBounded(t *testing.T) {
	both := strings.Replace(killed, `"value":60}`, `"value":60},{"signal":"heat","reduce":"max","op":"<=","value":60}`, 1)
	many := func(b *book, from float64, sources ...string) { // 3,000 segments of each, a hundred a second
		for i := range 3000 {
			for _, source := range sources {
				b.sealOf(source, from+float64(i)/100, from+float64(i)/100)
			}
		}
	}
	for _, tc := range []struct {
		name      string
		criterion string
		write     func(b *book)
		want      time.Time
	}{
		{"windows", killed, func(*book) {}, at(-24*60 + 98)},
		{"an earlier action", killed, func(b *book) { b.tool(50, "dispatcher/main", "restart", "9", "ok", 50) }, at(50)},
		{"segments", killed, func(b *book) { many(b, -100, "s") }, at(-100 + 9.99)},
		{"segments of two sources", both, func(b *book) { many(b, -100, "s", "hot") }, at(-100 + 19.99)},
		{"segments of two sources, first one's and then the other's", both, func(b *book) {
			many(b, -100, "s")
			many(b, -50, "hot")
		}, at(-50 + 9.99)},
		{"and the other way round", both, func(b *book) {
			many(b, -100, "hot")
			many(b, -50, "s")
		}, at(-50 + 9.99)},
		{"samples of two sources", both, func(b *book) {
			for i, source := range []string{"s", "hot", "s", "hot"} {
				second := -100 + 10*float64(i)
				b.sealCounted(source, second, second, placeboSamples/2)
			}
		}, at(-90)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t)
			b.dated = false
			tc.write(b)
			b.predict(90, "p", tc.criterion)
			b.tool(100, "dispatcher/main", "kill", "9", "ok", 100)
			m := machineOf(b, testRegistry(t))
			b.fold(m)
			p := m.preds[predKey{"agent/piper", "p"}]
			var before time.Time
			for _, a := range m.actions.others(p) {
				before = a.end
			}
			loads := b.loads
			span, _, err := m.placebo(p, before)
			if err != nil || span == nil || !span.End.Equal(at(98)) || span.Start.Sub(tc.want).Abs() > 20*time.Millisecond {
				t.Errorf("%+v, %v; want from %v", span, err, tc.want)
			}
			if n := b.loads - loads; n > placeboSegments {
				t.Errorf("%d segments loaded", n)
			}
		})
	}
}

func TestActionLogIsBounded(t *testing.T) {
	l := newActionLog()
	for i := range maxActions + 10 {
		l.note(action{call: ledger.Seq(i + 1), seq: ledger.Seq(i + 1), target: fmt.Sprint(i % 7), end: at(float64(i)), start: at(float64(i))})
		l.forget(at(float64(i)))
	}
	if len(l.list) != maxActions || !l.gone.Equal(at(9)) {
		t.Errorf("%d actions, all known from %v", len(l.list), l.gone)
	}
	p := &prediction{act: &action{call: 20, target: "3"}}
	others := l.others(p)
	if n := len(others); n < maxActions/7-1 || slices.ContainsFunc(others, func(a action) bool { return a.target != "3" || a.seq == 20 }) {
		t.Errorf("%d others", n)
	}
	l.forget(at(30 * days))
	if len(l.list)+len(l.byTarget) != 0 {
		t.Errorf("%d actions of %d targets are left", len(l.list), len(l.byTarget))
	}
	a := actionOf(ledger.Record{Header: ledger.Header{RecordedAt: at(100)}}, "dispatcher", &calls.Call{}, &events.ToolCalled{StartedAt: textOf(at(90)), EndedAt: textOf(at(-9 * days))})
	if !a.end.Equal(at(100)) || !a.start.Equal(at(90)) {
		t.Errorf("%+v", a)
	}
}

func textOf(t time.Time) *string {
	s := events.FormatTime(t)
	return &s
}
