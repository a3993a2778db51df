package resolver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
)

const (
	// low promises that level stays at 60 or under for a minute from now.
	low = `{"criterion_version":1,"window":{"anchor":"recorded_at","length":"1m"},"all":[{"signal":"level","reduce":"max","op":"<=","value":60}],"expires_after":"10m"}`
	// killed promises it for the minute that begins 10 s after the kill.
	killed = `{"criterion_version":1,"action":{"tool":"kill","target":"9","execute_by":"5m"},"window":{"anchor":"action_end","offset":"10s","length":"1m"},` +
		`"all":[{"signal":"level","reduce":"max","op":"<=","value":60}],"expires_after":"10m"}`
)

func TestStates(t *testing.T) {
	type want struct {
		state     State // where it is in the end
		verdict   string
		reason    string
		cut       ledger.Seq
		pointer   string
		foreknown string // "" is none
		armed     bool
	}
	both := strings.Replace(low, `"value":60}`, `"value":60},{"signal":"heat","reduce":"max","op":"<=","value":60}`, 1)
	either := strings.Replace(both, `"all"`, `"any"`, 1)
	proven := strings.Replace(killed, `"expires_after"`, `"baseline":{"length":"30s","reduce":"max","op":">","value":60},"expires_after"`, 1)
	heats := func(from, to, value float64) (out []criterion.Sample) {
		for s := from; s < to; s += 10 {
			out = append(out, sample("heat", s, value))
			out[len(out)-1].Source = "hot"
		}
		return out
	}
	silentGPU := strings.Replace(low, `"level"`, `"gpu_temperature_celsius"`, 1)
	for _, tc := range []struct {
		name      string
		criterion string
		write     func(b *book) // from record 2 on; record 1 is the prediction at 0 s
		want      want
	}{
		{"lint fails", strings.Replace(low, `"level"`, `"nothing"`, 1), func(*book) {},
			want{Settled, Void, "invalid", 1, "/all/0/signal", "", false}},
		{"parse fails", strings.Replace(low, `"max"`, `"quantile"`, 1), func(*book) {},
			want{Settled, Void, "invalid", 1, "/all/0/q", "", false}},
		{"a baseline longer than the cap", strings.Replace(low, `"expires_after"`, `"baseline":{"length":"8d","reduce":"max","op":">=","value":1},"expires_after"`, 1),
			func(*book) {}, want{Settled, Void, "invalid", 1, "/baseline/length", "", false}},
		{"no action needed", low, func(*book) {}, want{state: WindowOpen, armed: true}},
		{"awaiting", killed, func(b *book) { b.tick(300) }, want{state: AwaitingAction}},
		{"not executed", killed, func(b *book) { b.tick(300); b.tick(301) },
			want{Settled, Void, "not_executed", 3, "", "", false}},
		{"executed too late", killed, func(b *book) { b.tool(301, "dispatcher/main", "kill", "9", "ok", 299) },
			want{Settled, Void, "not_executed", 2, "", "", false}},
		{"action failed", killed, func(b *book) { b.tool(20, "dispatcher/main", "kill", "9", "failed", 20) },
			want{Settled, Void, "action_failed", 2, "", "", false}},
		{"action denied", killed, func(b *book) { b.tool(20, "dispatcher/main", "kill", "9", "denied", 20) },
			want{Settled, Void, "action_failed", 2, "", "", false}},
		{"withdrawn", killed, func(b *book) {
			b.add(20, "agent/piper", &events.PredictionWithdrawn{PredID: "p"})
			b.tool(30, "dispatcher/main", "kill", "9", "ok", 30)
		}, want{Settled, Void, "withdrawn", 2, "", "", false}},
		{"withdrawn by another", killed, func(b *book) {
			b.add(20, "agent/other", &events.PredictionWithdrawn{PredID: "p"})
		}, want{state: AwaitingAction}},
		{"withdrawn after the window opened", killed, func(b *book) {
			b.tool(20, "dispatcher/main", "kill", "9", "ok", 20)
			b.add(25, "agent/piper", &events.PredictionWithdrawn{PredID: "p"})
		}, want{state: WindowOpen, armed: true}},
		{"the agent's own word is no action", killed, func(b *book) {
			b.tool(20, "agent/piper", "kill", "9", "ok", 20)
		}, want{state: AwaitingAction}},
		{"nor a harness's in production of another namespace", killed, func(b *book) {
			b.tool(20, "sensor/s", "kill", "9", "ok", 20)
		}, want{state: AwaitingAction}},
		{"the agent's own word, from her client's hook", killed, func(b *book) {
			capture, target, begin, end := "hook", "9", events.FormatTime(at(18)), events.FormatTime(at(20))
			b.add(20, "agent/piper", &events.ToolCalled{
				Context: events.Context{Capture: &capture}, ToolCallID: "toolu_1", Tool: "kill", Target: &target, Status: "ok", StartedAt: &begin, EndedAt: &end,
			})
		}, want{state: AwaitingAction}},
		{"another target", killed, func(b *book) { b.tool(20, "dispatcher/main", "kill", "8", "ok", 20) }, want{state: AwaitingAction}},
		{"another tool", killed, func(b *book) { b.tool(20, "dispatcher/main", "restart", "9", "ok", 20) }, want{state: AwaitingAction}},
		{"any target", strings.Replace(killed, `"target":"9",`, ``, 1), func(b *book) {
			b.tool(20, "dispatcher/main", "kill", "8", "ok", 20)
		}, want{state: WindowOpen, armed: true}},
		{"a witness refutes early", low, func(b *book) {
			b.seal(11, 10, ticks(5, 10, 1)...)
			b.seal(21, 20, ticks(15, 20, 61)...)
		}, want{Settled, Refuted, "", 3, "", "", true}},
		{"a witness before the window does not", killed, func(b *book) {
			b.seal(11, 10, ticks(5, 10, 99)...)
			b.tool(20, "dispatcher/main", "kill", "9", "ok", 20)
			b.seal(31, 30, ticks(15, 30, 99)...)
		}, want{state: WindowOpen, armed: true}},
		{"confirmed when the watermark passes end and lateness", low, func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.seal(65, 64.9)
			b.seal(66, 65)
			b.tick(70)
		}, want{Settled, Confirmed, "", 4, "", "", true}},
		{"a watermark is capped at ledger time", low, func(b *book) {
			b.seal(61, 65, ticks(5, 60, 1)...)
			b.tick(64)
			b.tick(65)
		}, want{Settled, Confirmed, "", 4, "", "", true}},
		{"an idle source does not advance its own", low, func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.tick(600)
		}, want{state: WindowOpen, armed: true}},
		{"another source's watermark is not its own", low, func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			s := sample("gpu_temperature_celsius", 65, 1)
			s.Source = "gpu"
			b.seal(66, 65, s)
		}, want{state: WindowOpen, armed: true}},
		{"evaluable and waiting", low, func(b *book) {
			b.seal(66, 65, ticks(5, 20, 1)...)
			b.tick(100)
		}, want{state: Evaluable, armed: true}},
		{"evaluable, then late samples", low, func(b *book) {
			b.seal(66, 65, ticks(5, 20, 1)...)
			b.seal(100, 99, ticks(25, 60, 1)...)
		}, want{Settled, Confirmed, "", 3, "", "", true}},
		{"evaluable, then a late witness", low, func(b *book) {
			b.seal(66, 65, ticks(5, 20, 1)...)
			b.seal(100, 99, sample("level", 30, 61))
		}, want{Settled, Refuted, "", 3, "", "", true}},
		{"coverage short until it expires", low, func(b *book) {
			b.seal(66, 65, ticks(5, 20, 1)...)
			b.tick(660)
			b.tick(660.001)
		}, want{Settled, Unresolved, "coverage_short", 4, "", "", true}},
		{"a live and blind sensor", low, func(b *book) {
			b.seal(66, 65, sample("beat", 5, 1), sample("beat", 15, 1), sample("beat", 25, 1), sample("beat", 35, 1), sample("beat", 45, 1))
			b.tick(700)
		}, want{Settled, Unresolved, "sensor_unproven", 3, "", "", true}},
		{"a silent sensor", silentGPU, func(b *book) {
			b.seal(66, 65, ticks(5, 60, 1)...)
			b.tick(700)
		}, want{Settled, Unresolved, "source_silent", 3, "", "", true}},
		{"its own telemetry", strings.Replace(low, `"level"`, `"own"`, 1), func(b *book) {
			s := sample("own", 5, 99)
			s.Source = "piper"
			b.seal(6, 5, s)
			b.tick(700)
		}, want{Settled, Unresolved, "sensor_unproven", 3, "", "", true}},
		{"two contents of one id", low, func(b *book) {
			a := sample("level", 5, 1)
			c := a
			c.Value = 61
			b.seal(11, 10, a)
			b.seal(66, 65, append(ticks(15, 60, 1), c, sample("beat", 5, 1))...)
			b.tick(700)
		}, want{Settled, Unresolved, "sources_conflict", 4, "", "", true}},
		{"evidence that came in time decides before the expiry of the same record", low, func(b *book) {
			b.seal(61, 700, ticks(5, 60, 1)...)
			b.tick(700)
		}, want{Settled, Confirmed, "", 3, "", "", true}},
		{"evidence that comes after the expiry does not", low, func(b *book) {
			b.seal(700, 700, ticks(5, 60, 1)...)
		}, want{Settled, Unresolved, "source_silent", 2, "", "", true}},
		{"an expiry holds across a clock step", low, func(b *book) {
			b.add(3600, "logger/main", &events.ClockStepped{BootID: "b", StepNS: 36e11})
			b.tick(3700)
		}, want{state: WindowOpen, armed: true}},
		{"until the operator confirms", low, func(b *book) {
			n := b.add(500, "logger/main", &events.ClockStepped{BootID: "b", StepNS: 5e11})
			b.tick(3700)
			b.add(3701, "operator/main", &events.ClockConfirmed{SteppedSeq: uint64(n) + 1})
			b.add(3702, "operator/main", &events.ClockConfirmed{SteppedSeq: uint64(n)})
		}, want{Settled, Unresolved, "source_silent", 5, "", "", true}},
		{"or a source's watermark does", low, func(b *book) {
			b.add(500, "logger/main", &events.ClockStepped{BootID: "b", StepNS: 5e11})
			b.tick(3700)
			b.seal(3701, 499, ticks(5, 20, 1)...)
			b.seal(3702, 500)
		}, want{Settled, Unresolved, "coverage_short", 5, "", "", true}},
		{"execute_by holds too", killed, func(b *book) {
			b.add(200, "logger/main", &events.ClockStepped{BootID: "b", StepNS: 2e11})
			b.tick(3700)
			b.tool(3701, "dispatcher/main", "kill", "9", "ok", 3701)
		}, want{state: WindowOpen, armed: true}},
		{"time does not run back", killed, func(b *book) {
			b.tick(301)
			b.tool(20, "dispatcher/main", "kill", "9", "ok", 20)
		}, want{Settled, Void, "not_executed", 2, "", "", false}},
		{"two sources: both are waited for", both, func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.seal(70, 69)
			b.sealOf("hot", 71, 64, heats(5, 60, 1)...)
			b.tick(72)
		}, want{state: WindowOpen, armed: true}},
		{"two sources: the last one closes it", both, func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.sealOf("hot", 71, 65, heats(5, 60, 1)...)
			b.seal(72, 64)
			b.seal(73, 65)
		}, want{Settled, Confirmed, "", 5, "", "", true}},
		{"two sources: a witness of one refutes all", both, func(b *book) {
			b.sealOf("hot", 21, 20, heats(5, 20, 99)...)
		}, want{Settled, Refuted, "", 2, "", "", true}},
		{"two sources: a witness of one does not refute any", either, func(b *book) {
			b.sealOf("hot", 21, 20, heats(5, 20, 99)...)
			b.seal(31, 30, ticks(5, 30, 1)...)
		}, want{state: WindowOpen, armed: true}},
		{"two sources: witnesses of both refute any", either, func(b *book) {
			b.sealOf("hot", 21, 20, heats(5, 20, 99)...)
			b.seal(31, 30, ticks(5, 30, 99)...)
		}, want{Settled, Refuted, "", 3, "", "", true}},
		{"two sources: of two reasons the first listed", both, func(b *book) {
			b.seal(66, 65, ticks(5, 20, 1)...)
			b.tick(700)
		}, want{Settled, Unresolved, "coverage_short", 3, "", "", true}},
		{"a baseline that shows the symptom", proven, func(b *book) {
			b.seal(21, 20, ticks(5, 20, 99)...)
			b.tool(22, "dispatcher/main", "kill", "9", "ok", 22)
			b.seal(92, 91, ticks(35, 92, 1)...)
			b.seal(98, 97)
		}, want{Settled, Confirmed, "", 5, "", "", true}},
		{"a baseline that does not blocks confirmation", proven, func(b *book) {
			b.seal(21, 20, ticks(5, 20, 1)...)
			b.tool(22, "dispatcher/main", "kill", "9", "ok", 22)
			b.seal(98, 97, ticks(35, 92, 1)...)
			b.tick(800)
		}, want{Settled, Unresolved, "sensor_unproven", 5, "", "", true}},
		{"and nothing else", proven, func(b *book) {
			b.seal(21, 20, ticks(5, 20, 1)...)
			b.tool(22, "dispatcher/main", "kill", "9", "ok", 22)
			b.seal(41, 40, ticks(35, 40, 99)...)
		}, want{Settled, Refuted, "", 4, "", "", true}},
		{"a baseline's late sample", proven, func(b *book) {
			b.seal(21, 20, ticks(5, 20, 1)...)
			b.tool(22, "dispatcher/main", "kill", "9", "ok", 22)
			b.seal(98, 97, ticks(35, 92, 1)...)
			b.seal(99, 98, sample("level", 16, 99))
		}, want{Settled, Confirmed, "", 5, "", "", true}},
		{"a witness waits for the baseline's lateness", strings.Replace(strings.Replace(proven, `"max","op":"<="`, `"min","op":"<="`, 1), `"max","op":">"`, `"avg","op":">"`, 1), func(b *book) {
			b.seal(21, 20, ticks(5, 20, 99)...)
			b.tool(22, "dispatcher/main", "kill", "9", "ok", 22)
			b.seal(36, 24, ticks(35, 40, 1)...) // the witness: it is at most 60 at 35 s
			b.seal(37, 24.9)
			b.seal(38, 25) // the action started at 20 s, and 5 s of lateness
		}, want{Settled, Confirmed, "", 6, "", "", true}},
		{"forged segments have no effect", low, func(b *book) {
			b.seal(11, 10, ticks(5, 10, 99)...)
			body := strings.Replace(string(b.bodies[1]), `"resolver/main"`, `"agent/piper"`, 1)
			b.bodies[1] = []byte(body)
		}, want{state: WindowOpen, armed: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t)
			b.predict(0, "p", tc.criterion)
			tc.write(b)
			m := machineOf(b, testRegistry(t))
			out := b.fold(m)
			if got, ok := m.State("agent/piper", "p"); !ok || got != tc.want.state {
				t.Errorf("state %v, want %v", got, tc.want.state)
			}
			armed := slices.ContainsFunc(out, func(e Emission) bool { return e.Type == events.TypePredictionArmed })
			if armed != tc.want.armed {
				t.Errorf("armed %v, want %v", armed, tc.want.armed)
			}
			d := resolutions(t, out)["p"]
			if tc.want.verdict == "" {
				if d != nil {
					t.Errorf("resolved: %+v", d)
				}
				return
			}
			if d == nil {
				t.Fatal("not resolved")
			}
			if d.Verdict != tc.want.verdict || text(d.Reason) != tc.want.reason || d.CutSeq != uint64(tc.want.cut) || text(d.Pointer) != tc.want.pointer {
				t.Errorf("%s %q at %d %q, want %s %q at %d %q: %s", d.Verdict, text(d.Reason), d.CutSeq, text(d.Pointer),
					tc.want.verdict, tc.want.reason, tc.want.cut, tc.want.pointer, d.Evidence.Summary)
			}
			if want := d.Verdict == Confirmed || d.Verdict == Refuted; d.Scorable != want || d.Foreknowledge != "none" {
				t.Errorf("scorable %v, foreknowledge %s", d.Scorable, d.Foreknowledge)
			}
			if (d.Verdict == Confirmed || d.Verdict == Refuted) && (len(d.Evidence.Refs) == 0 || d.Evidence.Digest == hexSHA256(nil)) {
				t.Errorf("a verdict without evidence: %+v", d.Evidence)
			}
		})
	}
}

func TestForeknowledge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(b *book)
		want  string
		cut   ledger.Seq
	}{
		{"evidence already in", func(b *book) {
			b.seal(21, 20, ticks(5, 20, 99)...)
			b.predict(40, "p", killed)
			b.tool(41, "dispatcher/main", "kill", "9", "ok", -8)
		}, "known", 3},
		{"evidence of earlier event time, sealed later", func(b *book) {
			b.predict(40, "p", killed)
			b.tool(41, "dispatcher/main", "kill", "9", "ok", -8)
			b.seal(51, 50, ticks(5, 50, 99)...)
		}, "knowable", 3},
		{"the window had opened, the evidence is new", func(b *book) {
			b.predict(40, "p", killed)
			b.tool(41, "dispatcher/main", "kill", "9", "ok", -8)
			b.seal(51, 50, append(ticks(5, 45, 1), ticks(45, 50, 99)...)...)
		}, "window_open", 3},
		{"a whole window gone by and sealed", func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.seal(71, 70)
			b.predict(80, "p", killed)
			b.tool(81, "dispatcher/main", "kill", "9", "ok", -12)
		}, "known", 4},
		{"a whole window gone by, not waited out", func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.predict(63, "p", killed)
			b.tool(64, "dispatcher/main", "kill", "9", "ok", -12)
			b.seal(71, 70)
		}, "knowable", 4},
		{"of two sources, by what one had in", func(b *book) {
			b.seal(21, 20, ticks(5, 20, 99)...)
			b.predict(40, "p", strings.Replace(killed, `"value":60}`, `"value":60},{"signal":"heat","reduce":"max","op":"<=","value":60}`, 1))
			b.tool(41, "dispatcher/main", "kill", "9", "ok", -8)
		}, "known", 3},
		{"of two sources, one not sealed yet", func(b *book) {
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.seal(71, 70)
			b.predict(80, "p", strings.Replace(killed, `"value":60}`, `"value":60},{"signal":"heat","reduce":"max","op":"<=","value":60}`, 1))
			b.tool(81, "dispatcher/main", "kill", "9", "ok", -12)
			var late []criterion.Sample
			for s := 5.0; s < 60; s += 10 {
				late = append(late, sample("heat", s, 1))
				late[len(late)-1].Source = "hot"
			}
			b.sealOf("hot", 90, 89, late...)
		}, "knowable", 5},
		{"whatever its baseline", func(b *book) {
			b.seal(21, 20, ticks(5, 20, 1)...)
			b.predict(40, "p", strings.NewReplacer(`"op":"<=","value":60}`, `"op":">=","value":1}`, `"expires_after"`, `"baseline":{"length":"30s","reduce":"min","op":"<","value":1},"expires_after"`).Replace(killed))
			b.tool(41, "dispatcher/main", "kill", "9", "ok", -8)
			b.seal(50, 49, sample("level", -11, 0.5))
		}, "known", 4},
		{"a promise", func(b *book) {
			b.predict(0, "p", killed)
			b.tool(1, "dispatcher/main", "kill", "9", "ok", 1)
			b.seal(31, 30, ticks(15, 30, 99)...)
		}, "none", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t)
			tc.write(b)
			d := resolutions(t, b.fold(machineOf(b, testRegistry(t))))["p"]
			if d == nil {
				t.Fatal("not resolved")
			}
			if d.Foreknowledge != tc.want || d.CutSeq != uint64(tc.cut) || d.Scorable != (tc.want == "none") {
				t.Errorf("%s at %d, scorable %v; want %s at %d", d.Foreknowledge, d.CutSeq, d.Scorable, tc.want, tc.cut)
			}
		})
	}
}

func TestArmedNamesTheWindow(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", killed)
	b.tool(25, "dispatcher/main", "kill", "9", "ok", 20.5)
	r := testRegistry(t)
	out := b.fold(machineOf(b, r))
	ev, err := events.Decode(out[0].Event)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := ev.Data.(*events.PredictionArmed)
	if !ok || d.WindowOpen != "2026-10-03T12:00:30.5Z" || d.WindowEnd != "2026-10-03T12:01:30.5Z" || d.CutSeq != 2 || d.RegistrySHA256 != r.HashString() {
		t.Errorf("%+v", ev.Data)
	}
	if ev.Time != "2026-10-03T12:00:25Z" || ev.CausationID == "" || ev.ID != out[0].ID {
		t.Errorf("%+v", ev)
	}
}

// An id that another principal used first occupies nothing, and a repeat by
// the same one changes nothing.
func TestPredictionIDs(t *testing.T) {
	b := newBook(t)
	b.add(0, "agent/other", &events.PredictionRecorded{PredID: "p", PredictedEffect: "x", P: 0.5, Criterion: []byte(strings.Replace(low, "60}", "1000}", 1))})
	b.predict(0, "p", low)
	b.predict(1, "p", strings.Replace(low, "60}", "1000}", 1))
	b.seal(11, 10, ticks(5, 10, 99)...)
	m := machineOf(b, testRegistry(t))
	out := b.fold(m)
	if s, _ := m.State("agent/piper", "p"); s != Settled {
		t.Errorf("piper's p is %v", s)
	}
	if s, _ := m.State("agent/other", "p"); s != WindowOpen {
		t.Errorf("the other's p is %v", s)
	}
	if len(out) != 3 || out[0].ID == out[1].ID {
		t.Errorf("%d emissions, want two armed and one resolved", len(out))
	}
}

func TestSegmentsAreLoadedOnlyWhenWatched(t *testing.T) {
	b := newBook(t)
	for i := range 1000 {
		b.seal(float64(i+1), float64(i), sample("beat", float64(i), 1))
	}
	b.predict(1001, "p", low)
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	// Two series, each back over the staleness of a minute.
	if b.loads == 0 || b.loads > 2*62 {
		t.Errorf("%d segments loaded", b.loads)
	}
}

// A counter's start sample may have been sealed long before the prediction.
func TestStartSampleFromHistory(t *testing.T) {
	b := newBook(t)
	b.seal(-49, -50, sample("total", -50, 7))
	b.seal(-1, -2, sample("beat", -2, 1))
	b.predict(0, "p", strings.Replace(low, `"level","reduce":"max","op":"<=","value":60`, `"total","reduce":"increase","op":"==","value":0`, 1))
	for s := 5.0; s < 60; s += 10 {
		b.seal(s+1, s, sample("total", s, 7), sample("beat", s, 1))
	}
	b.seal(66, 65)
	d := resolutions(t, b.fold(machineOf(b, testRegistry(t))))["p"]
	if d == nil || d.Verdict != Confirmed {
		t.Errorf("%+v", d)
	}
}

func TestManyRefsGoToAManifest(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", strings.Replace(low, `"1m"`, `"100m"`, 1))
	for i := range 600 {
		b.seal(float64(i*10+6), float64(i*10+5), ticks(float64(i*10+5), float64(i*10+6), 1)...)
	}
	b.seal(6010, 6006)
	var last Emission
	for _, e := range b.fold(machineOf(b, testRegistry(t))) {
		last = e
	}
	d := resolutions(t, []Emission{last})["p"]
	if d == nil || d.Verdict != Confirmed || len(d.Evidence.Refs) != 1 {
		t.Fatalf("%+v", d)
	}
	refs, ok := DecodeManifest(last.Manifest)
	if hexSHA256(last.Manifest) != d.Evidence.Refs[0] || !ok || len(refs) != 600 {
		t.Errorf("a manifest of %d segments, %v", len(refs), ok)
	}
	if _, ok := DecodeManifest(last.Manifest[:len(last.Manifest)-1]); ok {
		t.Error("a manifest that was cut off is read")
	}
	for _, sha := range refs {
		if b.blobs[sha] == nil {
			t.Fatalf("the manifest names %s, which is no segment", sha)
		}
	}
}

// genBook draws a ledger of predictions, actions, segments and clock trouble.
func genBook(t *rapid.T) *book {
	b := newBook(t)
	criteria := []string{
		low, killed, strings.Replace(low, `"max","op":"<="`, `"avg","op":"<="`, 1), strings.Replace(killed, `"max","op":"<="`, `"last","op":">"`, 1),
		strings.Replace(low, `"level","reduce":"max","op":"<=","value":60`, `"total","reduce":"increase","op":"==","value":0`, 1),
		strings.Replace(low, `"level","reduce":"max","op":"<=","value":60`, `"happening","reduce":"count","op":"<","value":2`, 1),
		strings.Replace(low, `"value":60`, `"value":60,"hold_for":"20s"`, 1), strings.Replace(low, `"level"`, `"nothing"`, 1),
		strings.Replace(low, `"value":60}`, `"value":60},{"signal":"happening","reduce":"count","op":"<","value":3}`, 1),
		strings.Replace(low, `"value":60}`, `"value":60},{"signal":"heat","reduce":"max","op":"<=","value":61}`, 1),
		strings.Replace(strings.Replace(low, `"value":60}`, `"value":50},{"signal":"heat","reduce":"min","op":"<","value":55}`, 1), `"all"`, `"any"`, 1),
		strings.Replace(killed, `"expires_after"`, `"baseline":{"length":"1m","reduce":"max","op":">","value":58},"expires_after"`, 1),
		strings.Replace(low, `"expires_after"`, `"baseline":{"length":"1m","reduce":"avg","op":">","value":55},"expires_after"`, 1),
		strings.Replace(killed, `"expires_after"`, `"controls":[{"labels":{"unit":"y"}}],"expires_after"`, 1),
	}
	var sent []criterion.Sample
	now, mark := 0.0, 0.0
	var steps []ledger.Seq
	for i := range rapid.IntRange(5, 60).Draw(t, "records") {
		now += float64(rapid.IntRange(0, 30).Draw(t, "later"))
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0, 1:
			b.predict(now, fmt.Sprint("p", i), rapid.SampledFrom(criteria).Draw(t, "criterion"))
		case 2:
			b.call(fmt.Sprint("c", rapid.IntRange(0, 5).Draw(t, "call")), now, "dispatcher/main", rapid.SampledFrom([]string{"live", "live", "hook", "otlp", "imported"}).Draw(t, "capture"), "kill",
				rapid.SampledFrom([]string{"9", "9", "8"}).Draw(t, "target"), rapid.SampledFrom([]string{"ok", "ok", "failed"}).Draw(t, "status"), now-float64(rapid.IntRange(0, 40).Draw(t, "ago")))
		case 3:
			b.add(now, "agent/piper", &events.PredictionWithdrawn{PredID: fmt.Sprint("p", rapid.IntRange(0, i).Draw(t, "withdrawn"))})
		case 4:
			steps = append(steps, b.add(now, "logger/main", &events.ClockStepped{BootID: "b", StepNS: 1}))
		case 5:
			if len(steps) > 0 {
				b.add(now, "operator/main", &events.ClockConfirmed{SteppedSeq: uint64(rapid.SampledFrom(steps).Draw(t, "confirmed"))})
			}
		case 6:
			now += rapid.SampledFrom([]float64{100, 500, 500, 500, 4 * 24 * 3600}).Draw(t, "idle")
			b.tick(now)
		case 7:
			b.report(now, "operator/main", fmt.Sprint("p", rapid.IntRange(0, i).Draw(t, "reported")), rapid.SampledFrom([]string{Confirmed, Refuted}).Draw(t, "said"))
		default:
			mark = max(mark, now-float64(rapid.IntRange(-5, 20).Draw(t, "behind")))
			source := rapid.SampledFrom([]string{"s", "s", "s", "hot"}).Draw(t, "source")
			signals := map[string][]string{"s": {"beat", "level", "total", "happening"}, "hot": {"heat"}}[source]
			var list []criterion.Sample
			for range rapid.IntRange(0, 8).Draw(t, "samples") {
				s := sample(rapid.SampledFrom(signals).Draw(t, "signal"),
					now-float64(rapid.IntRange(0, 80).Draw(t, "age")), float64(rapid.IntRange(50, 62).Draw(t, "value")))
				if s.Source = source; s.Signal == "level" && rapid.IntRange(0, 3).Draw(t, "peer") == 0 {
					s.Labels = map[string]string{"unit": "y"}
				}
				list = append(list, s)
			}
			if len(sent) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
				// Sent again, now and then with other content, long after it was first.
				s := rapid.SampledFrom(sent).Draw(t, "repeat")
				if rapid.IntRange(0, 2).Draw(t, "changed") == 0 {
					s.Value++
				}
				if s.Source == source {
					list = append(list, s)
				}
			}
			sent = append(sent, list...)
			b.dated = rapid.IntRange(0, 4).Draw(t, "dated") > 0
			b.sealOf(source, now, mark, list...)
		}
	}
	return b
}

func equalEmissions(a, b []Emission) bool {
	return slices.EqualFunc(a, b, func(x, y Emission) bool {
		return x.ID == y.ID && string(x.Event) == string(y.Event) && string(x.Manifest) == string(y.Manifest)
	})
}

// A machine that starts again anywhere emits the same bytes, and the cut of
// each is the record at which it was first possible.
func TestRestartEmitsTheSame(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		b := genBook(t)
		whole := b.fold(machineOf(b, r))
		bodies := b.bodies
		for _, k := range []int{rapid.IntRange(0, len(bodies)).Draw(t, "restart"), len(bodies)} {
			b.bodies = bodies[:k]
			prefix := b.fold(machineOf(b, r))
			b.bodies = bodies
			n := slices.IndexFunc(whole, func(e Emission) bool { return e.Cut > ledger.Seq(k) })
			if n < 0 {
				n = len(whole)
			}
			if !equalEmissions(prefix, whole[:n]) {
				t.Fatalf("up to record %d: %d emissions, want the first %d of %d", k, len(prefix), n, len(whole))
			}
		}
	})
}

// Screens, lazy loading and shelves must not move a cut: a machine that evaluates
// every prediction, settled ones too, at every record finds the same.
func TestCutsAreFirst(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		b := genBook(t)
		whole := b.fold(machineOf(b, r))
		eager := machineOf(b, r)
		var out []Emission
		for _, body := range b.bodies {
			rec, err := ledger.ParseRecord(body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := eager.Apply(rec)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, got...)
			eager.out = nil
			for _, p := range eager.preds {
				if p.state == WindowOpen || p.state == Evaluable {
					if err := eager.look(p, cut{rec.Seq, rec.RecordedAt}); err != nil {
						t.Fatal(err)
					}
				}
			}
			watching, late := make(map[*prediction]bool), make(map[int]bool)
			for i, k := range eager.past.list {
				if p := eager.past.watching[eager.past.first+i]; p != nil && p.ruling.verdict == Unresolved {
					watching[p] = true
				} else if k.terms != nil {
					late[eager.past.first+i] = true
				}
			}
			if err := eager.lookAt(watching, late, cut{rec.Seq, rec.RecordedAt}); err != nil {
				t.Fatal(err)
			}
			if len(eager.out) > 0 {
				t.Fatalf("record %d decides %s, which Apply did not see", rec.Seq, eager.out[0].PredID)
			}
		}
		if !equalEmissions(out, whole) {
			t.Fatal("the emissions differ")
		}
	})
}

// However the samples are cut into segments, in whatever order those come and
// however often, a prediction ends the same way.
func TestDeliveryDoesNotMatter(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		reduce := rapid.SampledFrom([]string{"max", "min", "avg", "last", "count"}).Draw(t, "reduce")
		crit := strings.Replace(low, `"max"`, `"`+reduce+`"`, 1)
		if reduce == "count" {
			crit = strings.Replace(crit, `"value":60`, `"value":4`, 1)
		}
		var all []criterion.Sample
		for cell := range 6 {
			if rapid.IntRange(0, 4).Draw(t, "there") > 0 {
				s := float64(cell*10 + rapid.IntRange(0, 9).Draw(t, "at"))
				all = append(all, sample("beat", s, 1), sample("level", s, float64(rapid.IntRange(50, 62).Draw(t, "value"))))
			}
		}
		verdict := func(segments [][]criterion.Sample) string {
			b := newBook(t)
			b.predict(0, "p", crit)
			for i, list := range segments {
				b.seal(61+float64(i)/1000, 60, slices.Clone(list)...)
			}
			b.seal(66, 65)
			b.tick(700)
			d := resolutions(t, b.fold(machineOf(b, r)))["p"]
			return d.Verdict + " " + text(d.Reason)
		}
		want := verdict([][]criterion.Sample{all})
		shuffled := rapid.Permutation(all).Draw(t, "order")
		var segments [][]criterion.Sample
		for len(shuffled) > 0 {
			n := rapid.IntRange(1, len(shuffled)).Draw(t, "cut")
			segments = append(segments, shuffled[:n])
			if rapid.Bool().Draw(t, "again") {
				segments = append(segments, shuffled[:n])
			}
			shuffled = shuffled[n:]
		}
		if got := verdict(segments); got != want {
			t.Fatalf("%s, delivered otherwise %s", want, got)
		}
	})
}
