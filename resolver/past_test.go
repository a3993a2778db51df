package resolver

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
)

const days = 24 * 3600.0

// told is a ruling as a test writes it: verdict, reason, cause, cut.
func told(verdict string, reason *string, cause string, cut uint64) string {
	return strings.Join(strings.Fields(fmt.Sprint(verdict, " ", text(reason), " ", cause, " at ", cut)), " ")
}

// rulings are all that a prediction was told, in order.
func rulings(t fataler, emissions []Emission, predID string) []string {
	var out []string
	if d := resolutions(t, emissions)[predID]; d != nil {
		out = append(out, told(d.Verdict, d.Reason, d.Resolver.Kind, d.CutSeq))
	}
	for _, d := range amendments(t, emissions)[predID] {
		out = append(out, told(d.Verdict, d.Reason, d.Cause, d.CutSeq))
	}
	return out
}

func checkRulings(t *testing.T, b *book, want ...string) []Emission {
	t.Helper()
	out := b.fold(machineOf(b, testRegistry(t)))
	if got := rulings(t, out, "p"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	return out
}

// confirmedBy60 seals a quiet minute and closes it at record 3, 66 s.
func confirmedBy60(b *book) {
	b.seal(61, 60, ticks(5, 60, 1)...)
	b.seal(66, 65)
}

func TestAmendments(t *testing.T) {
	late := func(b *book, when, second, value float64) ledger.Seq {
		return b.seal(when, when-1, sample("level", second, value))
	}
	conflict := sample("level", 15, 2)
	for _, tc := range []struct {
		name  string
		write func(b *book) // from record 2 on; record 1 predicts low at 0 s
		want  []string
	}{
		{"a late witness", func(b *book) {
			confirmedBy60(b)
			late(b, 3600, 30, 99)
		}, []string{"confirmed telemetry at 3", "refuted late_telemetry at 4"}},
		{"at the last moment", func(b *book) {
			confirmedBy60(b)
			late(b, 66+7*days, 30, 99)
		}, []string{"confirmed telemetry at 3", "refuted late_telemetry at 4"}},
		{"too late", func(b *book) {
			confirmedBy60(b)
			late(b, 66.001+7*days, 30, 99)
		}, []string{"confirmed telemetry at 3"}},
		{"a late sample that changes nothing", func(b *book) {
			confirmedBy60(b)
			late(b, 3600, 30, 2)
		}, []string{"confirmed telemetry at 3"}},
		{"a late sample before and behind all that counts", func(b *book) {
			confirmedBy60(b)
			late(b, 3600, -70, 99)
			late(b, 3601, 60, 99)
		}, []string{"confirmed telemetry at 3"}},
		{"another series", func(b *book) {
			confirmedBy60(b)
			s := sample("level", 30, 99)
			s.Labels = map[string]string{"unit": "y"}
			b.seal(3600, 3599, s)
		}, []string{"confirmed telemetry at 3"}},
		{"a corrected sample", func(b *book) {
			b.seal(61, 60, append(ticks(5, 10, 1), append(ticks(15, 60, 1), conflict)...)...)
			b.seal(66, 65)
			s := conflict
			s.Value = 99
			b.seal(3600, 3599, s)
			s.Value = 98
			b.seal(3601, 3600, s)
		}, []string{"confirmed telemetry at 3", "unresolved sources_conflict corrected_telemetry at 4"}},
		{"one sent again", func(b *book) {
			b.seal(61, 60, append(ticks(5, 60, 1), conflict)...)
			b.seal(66, 65)
			b.seal(3600, 3599, conflict)
		}, []string{"confirmed telemetry at 3"}},
		{"again and again", func(b *book) {
			b.seal(66, 65, ticks(5, 20, 1)...)
			b.tick(700) // unresolved at record 3
			b.seal(800, 799, ticks(25, 60, 1)...)
			late(b, 900, 30, 99)
			late(b, 901, 31, 99)
		}, []string{"unresolved coverage_short telemetry at 3", "confirmed late_telemetry at 4", "refuted late_telemetry at 5"}},
		{"another reason", func(b *book) {
			b.seal(66, 65, sample("beat", 5, 1))
			b.tick(700)
			b.seal(800, 799, ticks(35, 40, 1)...)
		}, []string{"unresolved sensor_unproven telemetry at 3", "unresolved coverage_short late_telemetry at 4"}},
		{"a source that wakes up: no reason before it has caught up", func(b *book) {
			b.tick(700)
			b.seal(800, 20, ticks(5, 20, 1)...)
			b.seal(801, 64, ticks(25, 60, 1)...)
			b.seal(802, 65)
		}, []string{"unresolved source_silent telemetry at 2", "confirmed late_telemetry at 5"}},
		{"a source that wakes up: a witness does not wait", func(b *book) {
			b.tick(700)
			b.seal(800, 20, ticks(5, 20, 99)...)
			b.seal(801, 65, ticks(25, 60, 1)...)
		}, []string{"unresolved source_silent telemetry at 2", "refuted late_telemetry at 3"}},
		{"an early verdict holds when its window closes", func(b *book) {
			b.seal(11, 10, ticks(5, 10, 99)...)
			b.seal(61, 60, ticks(15, 60, 1)...)
			b.seal(66, 65)
		}, []string{"refuted telemetry at 2"}},
		{"unless something contradicts it", func(b *book) {
			s := sample("level", 5, 99)
			b.seal(11, 10, s, sample("beat", 5, 1))
			s.Value = 1
			b.seal(12, 11, s)
			b.seal(61, 60, ticks(15, 60, 1)...)
			b.seal(66, 65)
		}, []string{"refuted telemetry at 2", "unresolved sources_conflict corrected_telemetry at 5"}},
		{"or after it closed", func(b *book) {
			s := sample("level", 5, 99)
			b.seal(11, 10, s, sample("beat", 5, 1))
			b.seal(66, 65, ticks(15, 60, 1)...)
			s.Value = 1
			b.seal(3600, 3599, s)
		}, []string{"refuted telemetry at 2", "unresolved sources_conflict corrected_telemetry at 4"}},
		{"time to amend holds across a clock step", func(b *book) {
			confirmedBy60(b)
			b.add(3600+9*days, "logger/main", &events.ClockStepped{BootID: "b", StepNS: 1})
			late(b, 3601+9*days, 30, 99)
		}, []string{"confirmed telemetry at 3", "refuted late_telemetry at 5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, dated := range []bool{true, false} {
				b := newBook(t)
				b.dated = dated
				b.predict(0, "p", low)
				tc.write(b)
				checkRulings(t, b, tc.want...)
			}
		})
	}
}

// A report is no instrument: it counts where telemetry says nothing, and never
// otherwise.
func TestReports(t *testing.T) {
	say := func(b *book, when float64, verdict string) { b.report(when, "operator/main", "p", verdict) }
	unresolved := func(b *book) { b.seal(66, 65, ticks(5, 20, 1)...); b.tick(700) } // records 2 and 3
	for _, tc := range []struct {
		name      string
		criterion string
		write     func(b *book)
		want      []string
	}{
		{"waits while the prediction is open", low, func(b *book) { say(b, 10, Refuted) }, nil},
		{"counts where it stays unknown", low, func(b *book) {
			say(b, 10, Refuted)
			b.tick(700)
		}, []string{"refuted operator at 3"}},
		{"never overrides a verdict", low, func(b *book) {
			say(b, 10, Refuted)
			b.seal(61, 60, ticks(5, 60, 1)...)
			b.seal(66, 65)
			say(b, 70, Refuted)
		}, []string{"confirmed telemetry at 4"}},
		{"amends what was unresolved", low, func(b *book) {
			unresolved(b)
			say(b, 800, Confirmed)
			say(b, 801, Confirmed)
		}, []string{"unresolved coverage_short telemetry at 3", "confirmed operator_report at 4"}},
		{"two that contradict each other", low, func(b *book) {
			say(b, 10, Confirmed)
			say(b, 11, Refuted)
			b.tick(700)
		}, []string{"unresolved sources_conflict operator at 4"}},
		{"the second after the verdict", low, func(b *book) {
			unresolved(b)
			say(b, 800, Confirmed)
			say(b, 801, Refuted)
		}, []string{"unresolved coverage_short telemetry at 3", "confirmed operator_report at 4", "unresolved sources_conflict operator_report at 5"}},
		{"late telemetry overrides it", low, func(b *book) {
			unresolved(b)
			say(b, 800, Confirmed)
			b.seal(900, 899, sample("level", 30, 99))
		}, []string{"unresolved coverage_short telemetry at 3", "confirmed operator_report at 4", "refuted late_telemetry at 5"}},
		{"and does not while it says nothing", low, func(b *book) {
			unresolved(b)
			say(b, 800, Confirmed)
			b.seal(900, 899, sample("level", 30, 2))
		}, []string{"unresolved coverage_short telemetry at 3", "confirmed operator_report at 4"}},
		{"it comes back when telemetry is contradicted", low, func(b *book) {
			s := sample("level", 5, 99)
			b.seal(66, 65, append(ticks(15, 60, 1), s, sample("beat", 5, 1))...)
			say(b, 100, Confirmed)
			s.Value = 1
			b.seal(900, 899, s)
		}, []string{"refuted telemetry at 2", "unresolved sources_conflict corrected_telemetry at 4", "confirmed operator_report at 4"}},
		{"a void stays void", killed, func(b *book) {
			say(b, 10, Confirmed)
			b.tick(301)
			say(b, 302, Confirmed)
		}, []string{"void not_executed telemetry at 3"}},
		{"by the predicting principal", low, func(b *book) {
			b.report(10, "agent/piper", "p", Confirmed)
			b.tick(700)
		}, []string{"unresolved source_silent telemetry at 3"}},
		{"by another agent, or a dispatcher", low, func(b *book) {
			b.report(10, "agent/other", "p", Confirmed)
			b.report(11, "dispatcher/main", "p", Confirmed)
			b.tick(700)
		}, []string{"unresolved source_silent telemetry at 4"}},
		{"of another prediction", low, func(b *book) {
			b.report(10, "operator/main", "q", Confirmed)
			b.tick(700)
		}, []string{"unresolved source_silent telemetry at 3"}},
		{"of nobody's prediction", low, func(b *book) {
			verdict, id := Confirmed, "p"
			b.add(10, "operator/main", &events.OutcomeRecorded{What: "seen", Source: "operator_report", PredID: &id, Verdict: &verdict})
			b.tick(700)
		}, []string{"unresolved source_silent telemetry at 3"}},
		{"too late", low, func(b *book) {
			unresolved(b)
			say(b, 701+7*days, Confirmed)
		}, []string{"unresolved coverage_short telemetry at 3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t)
			b.predict(0, "p", tc.criterion)
			tc.write(b)
			out := checkRulings(t, b, tc.want...)
			for _, d := range amendments(t, out)["p"] {
				if byReport := d.Cause == causeReport; byReport && (d.Scorable || len(d.Evidence.Outcomes) == 0 || d.Resolver.Kind != byOperator || d.Foreknowledge != "none") {
					t.Errorf("%+v", d)
				}
			}
			if d := resolutions(t, out)["p"]; d != nil && d.Resolver.Kind == byOperator {
				if d.Scorable || len(d.Evidence.Outcomes) == 0 || len(d.Evidence.Refs) > 0 || !strings.Contains(d.Evidence.Summary, "operator/main reported") {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

func TestSandboxReport(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", low)
	verdict, id, whose := Confirmed, "p", "agent/piper"
	n := b.add(10, "resolver/main", &events.OutcomeRecorded{
		What: "the same in a sandbox", Source: "sandbox", Direct: true, PredID: &id, PredPrincipal: &whose, Verdict: &verdict,
	})
	b.tick(700)
	d := resolutions(t, checkRulings(t, b, "confirmed sandbox at 3"))["p"]
	if d.Resolver.Kind != bySandbox || d.Scorable || !slices.Equal(d.Evidence.Outcomes, []uint64{uint64(n)}) {
		t.Errorf("%+v", d)
	}
}

// Segments in order cost a settled prediction nothing; a late one loads again
// what the prediction rests on.
func TestSegmentsInOrderAreNotLoadedForSettledPredictions(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", low)
	confirmedBy60(b)
	for i := range 1000 {
		b.seal(float64(100+i), float64(99+i), ticks(float64(99+i), float64(100+i), 1)...)
	}
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	if b.loads != 2 {
		t.Errorf("%d segments loaded, want the two of the window", b.loads)
	}
	b.seal(2000, 1999, sample("level", 30, 99))
	out := b.fold(m)
	if b.loads != 2+3 || len(out) != 1 {
		t.Errorf("%d segments loaded, %d emissions; want the late one and the two of the window again", b.loads, len(out))
	}
	for _, src := range m.order {
		if src.watched != 0 {
			t.Errorf("%d series are still watched", src.watched)
		}
	}
	b.tick(2000 + 8*days)
	b.fold(m)
	if m.past.live != 0 || len(m.order[0].series) != 0 || m.order[0].shelved != 0 || m.order[0].pinned != 0 {
		t.Errorf("%d past, %d signals, %d shelved, %d pinned after all is over", m.past.live, len(m.order[0].series), m.order[0].shelved, m.order[0].pinned)
	}
}

func TestTooLateIsCounted(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", low)
	confirmedBy60(b)
	b.seal(8*days, 8*days-1, sample("level", 30, 99))
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	if m.TooLate() != 1 {
		t.Errorf("%d segments came too late", m.TooLate())
	}
}

// What a window of seven days and a baseline of as long rest on is remembered
// until seven days after the verdict, and no longer than that.
func TestLongPredictionsCanBeAmended(t *testing.T) {
	long := strings.NewReplacer(`"length":"1m"`, `"length":"7d"`, `"expires_after"`, `"baseline":{"length":"7d","reduce":"max","op":">=","value":1},"expires_after"`, `"10m"`, `"1d"`).Replace(low)
	coarse := signalOf("level", criterion.Gauge, "level")
	coarse.Interval, coarse.MaxGap = 3600e9, 7200e9
	r := mustRegistry(t, coarse)
	b := newBook(t)
	hour := func(i int) { b.seal(float64(i*3600+1), float64(i*3600), sample("level", float64(i*3600), 1)) }
	for i := -7 * 24; i < 0; i++ {
		hour(i)
	}
	b.predict(0, "p", long)
	for i := 0; i <= 7*24+24*6; i++ {
		hour(i)
	}
	late := b.seal(13.5*days, 13.5*days-1, sample("level", 10, 99))
	m := machineOf(b, r)
	out := b.fold(m)
	if got := rulings(t, out, "p"); len(got) != 2 || !strings.HasPrefix(got[0], "confirmed") || got[1] != fmt.Sprint("refuted late_telemetry at ", late) {
		t.Errorf("%q", got)
	}
	b.seal(30*days, 30*days-1, sample("level", 30*days-2, 1))
	b.fold(m)
	b.seal(30*days+1, 30*days, sample("level", 30*days, 1))
	b.fold(m)
	if n := len(m.order[0].segments); n != 2 {
		t.Errorf("%d segments are remembered in the end, want the last two", n)
	}
}

// However the samples are cut into segments, in whatever order those come and
// however often, late ones included, a prediction is told the same in the end.
func TestDeliveryDoesNotMatterInTheEnd(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		crit := rapid.SampledFrom([]string{
			low, strings.Replace(low, `"max"`, `"min"`, 1), strings.Replace(low, `"max"`, `"avg"`, 1), strings.Replace(low, `"max"`, `"last"`, 1),
			strings.Replace(low, `"reduce":"max","op":"<=","value":60`, `"reduce":"count","op":"<=","value":4`, 1),
			strings.Replace(low, `"level","reduce":"max","op":"<=","value":60`, `"total","reduce":"increase","op":"<=","value":3`, 1),
			strings.Replace(low, `"value":60}`, `"value":60},{"signal":"total","reduce":"increase","op":">=","value":3}`, 1),
			strings.Replace(low, `"expires_after"`, `"baseline":{"length":"1m","reduce":"max","op":">","value":58},"expires_after"`, 1),
		}).Draw(t, "criterion")
		var all []criterion.Sample
		total := 0.0
		for cell := -6; cell < 6; cell++ {
			if rapid.IntRange(0, 6).Draw(t, "there") == 0 {
				continue
			}
			s := float64(cell*10 + rapid.IntRange(0, 9).Draw(t, "at"))
			total += float64(rapid.IntRange(0, 2).Draw(t, "gain"))
			all = append(all, sample("beat", s, 1), sample("level", s, float64(rapid.IntRange(55, 61).Draw(t, "value"))), sample("total", s, total))
			if rapid.IntRange(0, 20).Draw(t, "conflict") == 0 {
				c := all[len(all)-1]
				c.Value++
				all = append(all, c)
			}
		}
		end := func(segments [][]criterion.Sample, when func(i int) (when, mark float64)) string {
			b := newBook(t)
			b.predict(0, "p", crit)
			for i, list := range segments {
				w, mark := when(i)
				b.seal(w, mark, slices.Clone(list)...)
			}
			b.seal(3600, 3599)
			out := b.fold(machineOf(b, r))
			list := rulings(t, out, "p")
			last := strings.Fields(list[len(list)-1])
			return last[0] + " " + strings.Join(slices.DeleteFunc(last[1:len(last)-2], func(s string) bool {
				return s == byTelemetry || s == causeLate || s == causeCorrected
			}), " ")
		}
		want := end([][]criterion.Sample{all}, func(int) (float64, float64) { return 64, 60 })
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
		step := float64(rapid.IntRange(1, 400).Draw(t, "step")) // up to long after it expired
		got := end(segments, func(i int) (float64, float64) { w := 1 + float64(i)*step; return w, w - 1 })
		if got != want {
			t.Fatalf("%s, delivered otherwise %s", want, got)
		}
	})
}

// What is told of a prediction changes by an amendment alone, and a verdict never
// turns into unknown but by samples that contradict each other.
func TestConfirmedStaysUnlessContradicted(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		b := genBook(t)
		verdicts := make(map[string]string)
		for _, e := range b.fold(machineOf(b, r)) {
			ev, err := events.Decode(e.Event)
			if err != nil {
				t.Fatal(err)
			}
			key := e.Principal + e.PredID
			switch d := ev.Data.(type) {
			case *events.PredictionResolved:
				if _, ok := verdicts[key]; ok {
					t.Fatal("resolved twice")
				}
				verdicts[key] = d.Verdict + d.Resolver.Kind
			case *events.PredictionResolutionAmended:
				was := verdicts[key]
				verdicts[key] = d.Verdict + d.Resolver.Kind
				if was == "" || strings.HasPrefix(was, Void) {
					t.Fatalf("%q is amended", was)
				}
				decided := was == Confirmed+byTelemetry || was == Refuted+byTelemetry
				if decided && d.Cause == causeReport {
					t.Fatalf("a report changes %s", was)
				}
				// A baseline that was not, a sample near an edge; or a counter that fell
				// and a run that was cut, which leave their ranges open.
				other := slices.Contains([]string{"sensor_unproven", "clock_ambiguous"}, text(d.Reason)) ||
					strings.Contains(d.Evidence.Summary, "increase") || strings.Contains(d.Evidence.Summary, "held for")
				if decided && d.Verdict == Unresolved && d.Cause != causeCorrected && !other {
					t.Fatalf("%s turned into %s %s", was, d.Verdict, text(d.Reason))
				}
			}
		}
	})
}

// A heartbeat that is a clause's own signal too is one sample, not two that
// contradict each other.
func TestSampleOfTwoClauses(t *testing.T) {
	beats := strings.Replace(low, `"value":60}`, `"value":60},{"signal":"beat","reduce":"count","op":">=","value":3}`, 1)
	b := newBook(t)
	b.predict(0, "p", beats)
	b.seal(66, 65, ticks(5, 20, 1)...)
	b.tick(700)
	b.seal(800, 799, ticks(25, 60, 1)...)
	out := checkRulings(t, b, "unresolved coverage_short telemetry at 3", "confirmed late_telemetry at 4")
	d := amendments(t, out)["p"][0]
	one := newBook(t)
	one.predict(0, "p", strings.Replace(beats, `},{"signal":"beat"`, `},{"signal":"beat","labels":{}`, 1))
	one.seal(66, 65, ticks(5, 60, 1)...)
	if want := resolutions(t, one.fold(machineOf(one, testRegistry(t))))["p"]; want.Verdict != Confirmed || len(d.Evidence.Refs) != 2 {
		t.Errorf("%+v, and in one segment %+v", d, want)
	}
}

// A source that is never heard of keeps nothing of what waited for it.
func TestDeadSourceKeepsNothing(t *testing.T) {
	silent := strings.Replace(low, `"level"`, `"gpu_temperature_celsius"`, 1)
	b := newBook(t)
	for i := range 1000 {
		b.predict(float64(i)*3600, fmt.Sprint("p", i), silent)
	}
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	src := m.sources["gpu"]
	// Those of the last seven days may be amended yet.
	const amendable = 7*24 + 1
	if m.past.live > amendable || len(m.preds) > 1 {
		t.Errorf("%d open, %d amendable", len(m.preds), m.past.live)
	}
	for name, n := range map[string]int{
		"closing": len(src.closing), "pins": len(src.pins), "deadlines": len(m.deadlines), "ages": len(m.ages),
		"needs": len(src.series["gpu_temperature_celsius"].exact[""].needs),
	} {
		if n > 2*(amendable+2)+minSweep {
			t.Errorf("%d entries in %s", n, name)
		}
	}
}

// longStreams has a segment of ten samples for each call, every one of a stream of
// its own with a name of a kibibyte.
type longStreams struct {
	second float64 // of the last segment's end
	made   int
}

func (l *longStreams) Load(string) ([]criterion.Sample, error) {
	var out []criterion.Sample
	for i := range 5 {
		for _, s := range ticks(l.second-5+float64(i), l.second-4+float64(i), 1) {
			l.made++
			s.Stream = fmt.Sprintf("%01024d", l.made)
			out = append(out, s)
		}
	}
	return out, nil
}

// What a sensor calls its streams goes with their samples: one that calls each
// otherwise fills no memory.
func TestStreamsAreForgotten(t *testing.T) {
	b, l := newBook(t), &longStreams{}
	m := machineOf(b, testRegistry(t))
	m.cfg.Segments, m.segments = l, memo{from: l}
	heap := func() int64 {
		runtime.GC()
		var st runtime.MemStats
		runtime.ReadMemStats(&st)
		return int64(st.HeapAlloc)
	}
	before := heap()
	for i := range 200 {
		minute := 60 * float64(i)
		b.predict(minute, fmt.Sprint("p", i), low)
		for s := minute + 5; s <= minute+60; s += 5 {
			l.second = s
			b.seal(s, s)
			b.fold(m)
		}
	}
	names, grown := int64(l.made)<<10, heap()-before
	if m.past.live < 190 || names < 20<<20 {
		t.Fatalf("%d settled, names of %d bytes", m.past.live, names)
	}
	if grown > names/4 {
		t.Errorf("%d bytes are held after names of %d", grown, names)
	}
	runtime.KeepAlive(m)
}

// However predictions come to the shelves of a source, it remembers its segments
// since the earliest that one of those needs which are not let go of yet.
func TestNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := newSource("s")
		waiting := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(t, "order")
		needed := make(map[int]time.Time)
		for first := 0; len(waiting) > 0; {
			if n := waiting[0]; rapid.IntRange(0, 3).Draw(t, "step") > 0 {
				waiting = waiting[1:]
				if n >= first {
					needed[n] = at(float64(rapid.IntRange(-5, 5).Draw(t, "since")))
					src.need(placed{since: stampOf(needed[n]), nth: n}, first)
					src.shelved++
				}
			} else {
				if _, ok := needed[first]; ok {
					src.shelved--
					src.outlive(first)
					delete(needed, first)
				}
				first++
			}
			var want time.Time
			for _, since := range needed {
				if want.IsZero() || since.Before(want) {
					want = since
				}
			}
			if got, ok := src.neededSince(); ok != (len(needed) > 0) || !got.Equal(want) {
				t.Fatalf("since %v, want %v of %v", got, want, needed)
			}
		}
	})
}

// What is late for many predictions amends each, in the order of their records,
// and no segment is loaded more than once for those that are looked at together.
func TestLateForMany(t *testing.T) {
	const n = 2*lookTogether + 1
	b := newBook(t)
	for i := range n {
		b.predict(0, fmt.Sprint("p", i), low)
	}
	b.seal(66, 65, ticks(5, 60, 1)...)
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	b.loads = 0
	b.seal(100, 99, sample("level", 30, 99))
	out := b.fold(m)
	if len(out) != n || b.loads != 2 {
		t.Fatalf("%d amendments, want %d; %d segments loaded, want both once", len(out), n, b.loads)
	}
	for i, e := range out {
		if e.PredID != fmt.Sprint("p", i) {
			t.Fatalf("amendment %d is of %s", i, e.PredID)
		}
	}
	// The second correction supersedes the first: what it made of them was kept.
	b.seal(200, 199, sample("level", 31, 99))
	if out := b.fold(reload(t, m)); len(out) != 0 {
		t.Errorf("%d are refuted again", len(out))
	}
}

// TestSettledTakesLittle holds what docs/resolution.md promises of the memory.
func TestSettledTakesLittle(t *testing.T) {
	const n = 4000
	w := newWeighed(t)
	settle := func(from int) float64 {
		start := float64(from) * 20 * days
		for i := range n {
			if i%100 == 0 {
				w.seal(start+float64(i)+0.5, start+float64(i), ticks(start+float64(i)-1, start+float64(i), 1)...)
			}
			w.predict(start+float64(i)+1, fmt.Sprintf("prediction-%d-%d", from, i), strings.Replace(low, `"value":60`, fmt.Sprintf(`"value":%d`, 60+i), 1))
			w.apply()
		}
		w.tick(start + n + 3600) // every one has expired
		w.seal(start+n+3601, start+n+3601)
		w.apply()
		if w.m.past.live != n || len(w.m.past.watching) > 0 {
			t.Fatalf("%d are settled, %d of them not on the shelves", w.m.past.live, len(w.m.past.watching))
		}
		return w.weight()
	}
	settled := settle(0)
	if got := settled / n; got < 100 || got > 1024 {
		t.Errorf("a settled prediction takes %.0f bytes, want 1024 at most", got)
	}
	if got := (settle(1) - settled) / n; got < 32 || got > 64 {
		t.Errorf("one past amending takes %.0f bytes, want 64 at most", got)
	}
}

// Stamps are ordered as their times, however far those lie.
func TestStamp(t *testing.T) {
	for _, year := range []int{1, 1677, 1678, 1970, 2026, 2261, 2263, 9999} {
		tm := time.Date(year, 6, 1, 0, 0, 0, 7, time.UTC)
		if exact := stampOf(tm).time().Equal(tm); exact != (year >= 1678 && year < 2262) {
			t.Errorf("year %d: exact %v", year, exact)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := genTime().Draw(t, "a"), genTime().Draw(t, "b")
		if a.Before(b) && stampOf(a) > stampOf(b) {
			t.Fatalf("%v is before %v, and %d after %d", a, b, stampOf(a), stampOf(b))
		}
	})
}
