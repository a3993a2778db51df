package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

const (
	harness = "harness/h"
	bench   = "bench/r1"
)

// TestRuns: a run is isolated only if every table was counted before and after,
// and is the same.
func TestRuns(t *testing.T) {
	table := func(name string, rows int64, content *string) events.TableCount {
		return events.TableCount{Table: name, Rows: rows, SHA256: content}
	}
	type counted struct {
		phase  string
		tables []events.TableCount
	}
	a, b := ptr(sha(1)), ptr(sha(2))
	for _, tt := range []struct {
		name    string
		counted []counted
		want    string
	}{
		{"not counted", nil, "none []"},
		{"the same", []counted{{"before", []events.TableCount{table("t", 3, a)}}, {"after", []events.TableCount{table("t", 3, a)}}}, "clean []"},
		{"content not known", []counted{{"before", []events.TableCount{table("t", 3, a)}}, {"after", []events.TableCount{table("t", 3, nil)}}}, "clean []"},
		{"other rows", []counted{{"before", []events.TableCount{table("t", 3, nil)}}, {"after", []events.TableCount{table("t", 4, nil)}}}, "differs [/t]"},
		{"other content", []counted{{"before", []events.TableCount{table("t", 3, a)}}, {"after", []events.TableCount{table("t", 3, b)}}}, "differs [/t]"},
		{"never after", []counted{{"before", []events.TableCount{table("t", 3, a)}}}, "incomplete [/t]"},
		{"a new table", []counted{{"before", []events.TableCount{table("t", 3, a)}}, {"after", []events.TableCount{table("t", 3, a), table("u", 1, a)}}}, "incomplete [/u]"},
		{"the worst holds", []counted{{"before", []events.TableCount{table("t", 3, a), table("u", 1, a)}}, {"after", []events.TableCount{table("t", 4, a)}}}, "differs [/t /u]"},
		{"counted again", []counted{
			{"before", []events.TableCount{table("t", 3, a)}}, {"after", []events.TableCount{table("t", 4, a)}}, {"after", []events.TableCount{table("t", 3, a)}},
		}, "differs [/t]"}, // the first of each phase holds
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(harness, bench, &events.RunStarted{RunID: "r", Arm: "full", Split: "dev"})
			for _, c := range tt.counted {
				l.Put(harness, bench, &events.IsolationCounted{RunID: "r", Phase: c.phase, Tables: c.tables})
			}
			fold(t, l, func(s *projector.State) {
				if err := view.ListRuns(s, bench, func(r *view.Run) error {
					if got := fmt.Sprint(r.Isolation, " ", r.Breaches); got != tt.want {
						t.Errorf("%s, want %s", got, tt.want)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestRunFacts(t *testing.T) {
	l := ledgertest.New()
	l.Put(harness, bench, &events.RunStarted{RunID: "r", Arm: "full", Split: "final"})
	l.Put(harness, bench, &events.RunStarted{RunID: "r", Arm: "baseline"}) // the first counts
	l.Put(harness, bench, &events.RunFinished{RunID: "r", Status: "completed", Answered: ptr(int64(4))})
	l.Put(harness, bench, &events.RunFinished{RunID: "r", Status: "failed"})
	l.Put(harness, bench, &events.RunFinished{RunID: "nobody", Status: "failed"}) // 5: an orphan, and a fact
	l.Put(piper, bench, &events.RunStarted{RunID: "mine"})                        // 6: no logger takes that
	fold(t, l, func(s *projector.State) {
		r := must[[]view.FoundRun](t)(view.FindRun(s, "r"))[0]
		if r.Started.Manifest.Arm != "full" || r.Finished.End.Status != "completed" || *r.Finished.End.Answered != 4 || r.Repeats != 2 {
			t.Errorf("%+v", r)
		}
		if r := must[[]view.FoundRun](t)(view.FindRun(s, "nobody"))[0]; r.Started != nil || r.Finished == nil {
			t.Errorf("%+v", r)
		}
		if o := orphans(t, s, view.Runs, bench); !slices.Equal(o, []string{"5 nobody unknown"}) {
			t.Errorf("orphans %q", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"runs/6"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestCases: a case that is opened before its cohort is retired is a breach, unless
// it is for development.
func TestCases(t *testing.T) {
	l := ledgertest.New()
	open := func(id, split string) {
		l.Put(operator, prod, &events.CohortOpened{CohortID: id, Split: split, ExposureLimit: ptr(int64(1)), Expires: ptr(events.FormatTime(ledgertest.Start.Add(time.Hour)))})
	}
	commit := func(id, cohort, split string) {
		l.Put(harness, bench, &events.CaseCommitted{CaseID: id, CohortID: cohort, Split: split})
	}
	reveal := func(id string) { l.Put(harness, bench, &events.CaseRevealed{CaseID: id}) }
	expose := func(cohort, candidate string) {
		l.Put(harness, bench, &events.CohortExposed{CohortID: cohort, CandidateID: candidate})
	}
	retire := func(id string) { l.Put(operator, prod, &events.CohortRetired{CohortID: id, Cause: "released"}) }
	open("f", "final")
	open("d", "dev")
	open("f", "dev") // the first counts
	for _, id := range []string{"early", "fine", "shut"} {
		commit(id, "f", "final")
	}
	commit("early", "d", "dev")
	commit("dev", "d", "dev")
	commit("sly", "f", "dev") // calls itself dev
	commit("lost", "nobody", "final")
	reveal("early")
	reveal("sly")
	reveal("dev")
	expose("f", "x")
	expose("f", "x")
	expose("f", "y") // beyond the limit
	l.Put(operator, prod, &events.LeakageScanned{CohortID: "f", ScanID: "s", Hits: 2})
	l.Advance(2 * time.Hour)
	expose("f", "x") // too late
	retire("f")
	retire("f")
	expose("f", "x") // far too late
	reveal("fine")
	reveal("fine")
	commit("late", "f", "final")
	reveal("uncommitted")
	open("g", "final")
	reveal("before") // and only then committed to
	commit("before", "g", "final")
	commit("hasty", "own", "dev") // in a cohort that nobody opened yet
	reveal("hasty")
	open("own", "final")
	l.Put(piper, prod, &events.CaseRevealed{CaseID: "shut"}) // no logger takes that
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		if err := view.ListCases(s, func(c *view.Case) error {
			early := "?"
			if c.Early != nil {
				early = fmt.Sprint(*c.Early)
			}
			got[c.CaseID] = fmt.Sprintf("revealed %t early %s late %t other %t repeats %d", c.Revealed != nil, early, c.Late, c.OtherSplit, c.Repeats)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]string{
			"early":       "revealed true early true late false other false repeats 1",
			"fine":        "revealed true early false late false other false repeats 1",
			"shut":        "revealed false early ? late false other false repeats 0",
			"dev":         "revealed true early false late false other false repeats 0",
			"sly":         "revealed true early true late false other true repeats 0",
			"lost":        "revealed false early ? late false other false repeats 0",
			"late":        "revealed false early ? late true other false repeats 0",
			"before":      "revealed true early true late false other false repeats 0",
			"hasty":       "revealed true early ? late false other false repeats 0",
			"uncommitted": "revealed true early ? late false other false repeats 0",
		} {
			if got[id] != want {
				t.Errorf("%s: %s, want %s", id, got[id], want)
			}
		}
		f := must[[]view.Cohort](t)(view.FindCohort(s, "f"))[0]
		if got := fmt.Sprint(f.Exposures, f.Candidates, f.OverLimit, f.AfterTime, f.AfterEnd, f.Scans, f.Hits, f.Cases, f.Revealed, f.Breaches, f.Repeats); got != "5 2 3 2 1 1 2 5 3 2 2" {
			t.Errorf("%s: %+v", got, f)
		}
		if f.Opened.Cohort.Split != "final" || f.BreachSeq != 11 || f.Retired == nil {
			t.Errorf("%+v", f)
		}
		g := must[[]view.Cohort](t)(view.FindCohort(s, "g"))[0]
		if got := fmt.Sprint(g.Cases, g.Revealed, g.Mismatched, g.Breaches, g.BreachSeq); got != "1 1 1 1 27" {
			t.Errorf("%s: %+v", got, g)
		}
		if n := len(orphans(t, s, view.Cases, bench)); n != 4 { // cohorts of lost and hasty; what was not committed, or not yet
			t.Errorf("%d orphans", n)
		}
		if p := parked(t, s); len(p) != 1 {
			t.Errorf("parked %v", p)
		}
	})
}

func TestDecisions(t *testing.T) {
	l := ledgertest.New()
	prereg := &events.PreregistrationCommitted{PreregID: "p", Endpoint: events.Endpoint{Metric: "regret"}, AnalysisSHA256: sha(1), N: 200}
	decide := func(id string, d events.DecisionRecorded) {
		d.DecisionID, d.Decision = id, "accept"
		l.Put(operator, prod, &d)
	}
	decide("before", events.DecisionRecorded{PreregID: ptr("p")}) // 1
	l.Put(operator, prod, prereg)                                 // 2
	l.Put(operator, prod, &events.PreregistrationCommitted{PreregID: "p", N: 20})
	decide("fine", events.DecisionRecorded{PreregID: ptr("p"), Metric: ptr("regret"), AnalysisSHA256: ptr(sha(1))})
	decide("fine", events.DecisionRecorded{})
	decide("switched", events.DecisionRecorded{PreregID: ptr("p"), Metric: ptr("accuracy"), AnalysisSHA256: ptr(sha(2))})
	decide("exploratory", events.DecisionRecorded{Metric: ptr("accuracy")})
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		if err := view.ListDecisions(s, prod, func(d *view.Decision) error {
			got[d.DecisionID] = fmt.Sprint(d.PreregSeq, d.OtherMetric, d.OtherAnalysis, d.Repeats)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := "map[before:0 false false 0 exploratory:0 false false 0 fine:2 false false 1 switched:2 true true 0]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		p := must[[]view.Preregistration](t)(view.FindPreregistration(s, "p"))[0]
		if p.Committed.N != 200 || p.Repeats != 1 {
			t.Errorf("%+v", p)
		}
		if o := orphans(t, s, view.Decisions, prod); !slices.Equal(o, []string{"1 p unknown"}) {
			t.Errorf("orphans %q", o)
		}
	})
}

func TestApprovalsAndFlags(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, &events.ApprovalRequested{ApprovalID: "asked", What: "restart", Why: "stuck"})
	l.Put(harness, bench, &events.ApprovalRequested{ApprovalID: "run", What: "run", Why: "budget", Limit: &events.Limit{CostUSD: ptr(50.0)}})
	l.Put(operator, prod, &events.ApprovalGranted{ApprovalID: "run", Limit: &events.Limit{CostUSD: ptr(20.0)}}) // where it was asked for
	l.Put(operator, prod, &events.ApprovalGranted{ApprovalID: "run"})                                           // the first counts
	l.Put(operator, prod, &events.ApprovalGranted{ApprovalID: "unasked"})                                       // 5
	l.Put(piper, prod, &events.ApprovalRequested{ApprovalID: "unasked", What: "x", Why: "y"})                   // too late
	l.Put(piper, prod, &events.ApprovalGranted{ApprovalID: "asked"})                                            // 7: no logger takes that
	flag := func(old *string, value string, where *string) {
		l.Put(operator, prod, &events.FlagChanged{Flag: "gate", OldValue: old, NewValue: value, AppliesTo: where})
	}
	flag(ptr("off"), "on", nil)           // 8: nothing is known of before
	flag(ptr("on"), "half", nil)          // 9
	flag(nil, "off", nil)                 // 10: not said
	flag(ptr("on"), "half", nil)          // 11: somebody had switched it on
	flag(ptr("off"), "on", ptr("canary")) // 12: another place
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]bool{"asked": false, "run": true, "unasked": false} {
			found := must[[]view.Approval](t)(view.FindApproval(s, id))
			if len(found) != 1 || found[0].Allowed != want {
				t.Errorf("%s: %+v, want %t", id, found, want)
			}
		}
		if a := must[[]view.Approval](t)(view.FindApproval(s, "run"))[0]; a.Namespace != bench || *a.Granted.Limit.CostUSD != 20 || a.Repeats != 1 {
			t.Errorf("%+v", a)
		}
		var got []string
		if err := view.ListFlags(s, prod, func(f *view.FlagChange) error {
			got = append(got, fmt.Sprintf("%d %t", f.Seq, f.Unrecorded))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"8 false", "9 false", "10 false", "11 true", "12 false"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if o := orphans(t, s, view.Decisions, prod); !slices.Equal(o, []string{"5 unasked unknown"}) {
			t.Errorf("orphans %q", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"decisions/7"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestApprovalLimits: a grant ends with its time and with its calls. Each call
// counts once, a denied one not, and what was asked for holds where the grant
// states no limit of its own.
func TestApprovalLimits(t *testing.T) {
	l := ledgertest.New() // a record a second
	grant := func(id string, asked, granted *events.Limit) string {
		l.Put(piper, prod, &events.ApprovalRequested{ApprovalID: id, What: "restart", Why: "stuck", Limit: asked})
		event := l.NextID()
		l.Put(operator, prod, &events.ApprovalGranted{ApprovalID: id, Limit: granted})
		return event
	}
	call := func(under, id, status string) {
		l.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: id, Tool: "restart", Status: status}, ledgertest.CausedBy(under))
	}
	until := ptr(events.FormatTime(ledgertest.Start.Add(10 * time.Second)))
	twice := grant("twice", &events.Limit{ToolCalls: ptr(int64(5))}, &events.Limit{ToolCalls: ptr(int64(2))})
	once := grant("once", &events.Limit{ToolCalls: ptr(int64(1))}, nil)
	timed := grant("timed", &events.Limit{Until: until}, &events.Limit{Tokens: ptr(int64(1))})
	brief := grant("brief", nil, &events.Limit{Seconds: ptr(3.0)}) // granted at 7 s
	call(twice, "t1", "ok")                                        // 8 s
	call(twice, "t1", "ok")                                        // seen again
	call(timed, "t2", "error")                                     // 10 s: at the end
	call(brief, "t3", "ok")                                        // 11 s: the fourth second
	call(timed, "t4", "ok")                                        // 12 s: late
	call(once, "t5", "denied")
	for _, id := range []string{"t6", "t7"} {
		call(once, id, "ok")
		call(twice, id+"x", "ok")
	}
	fold(t, l, func(s *projector.State) {
		var got []string
		err := view.ListApprovals(s, prod, func(a *view.Approval) error {
			got = append(got, fmt.Sprintf("%s %d/%d %v %t", a.ApprovalID, a.CallsOver, a.Calls, a.Passed, a.Allowed))
			return nil
		})
		want := []string{"brief 1/1 [seconds] false", "once 1/2 [tool_calls] false", "timed 1/2 [until] false", "twice 1/3 [tool_calls] false"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	})
}

// TestApprovalByBestWitness: whether a call was let run under a grant is what its best
// witness says, whoever was heard first; it counts from where the first one named the
// grant, and once, though one of them names no episode.
func TestApprovalByBestWitness(t *testing.T) {
	for _, order := range [][]string{{"", "hook", "otlp"}, {"otlp", "hook", ""}, {"hook", "", "otlp"}} {
		l := ledgertest.New()
		l.Put(piper, prod, &events.ApprovalRequested{ApprovalID: "a", What: "restart", Why: "stuck", Limit: &events.Limit{ToolCalls: ptr(int64(1))}})
		event := l.NextID()
		l.Put(operator, prod, &events.ApprovalGranted{ApprovalID: "a"})
		for _, capture := range order {
			tell := func(id, status, episode string) {
				d := toldBy(capture, "restart", status)
				d.ToolCallID = id
				l.Put(dispatcher, prod, d, ledgertest.CausedBy(event), ledgertest.Episode(episode))
			}
			best := capture == ""
			tell("denied", map[bool]string{true: "denied", false: "ok"}[best], "e")
			tell("ran", map[bool]string{true: "ok", false: "denied"}[best], map[bool]string{true: "", false: "e"}[best])
		}
		for _, id := range []string{"denied", "over"} {
			d := toldBy("", "restart", "ok")
			d.ToolCallID = id
			l.Put(dispatcher, prod, d, ledgertest.CausedBy(event), ledgertest.Episode("f"))
		}
		fold(t, l, func(s *projector.State) {
			a := must[[]view.Approval](t)(view.FindApproval(s, "a"))[0]
			if a.Calls != 3 || a.CallsOver != 2 || !slices.Equal(a.Passed, []string{"tool_calls"}) {
				t.Errorf("in order %q: %d calls, %d over, passed %v; want 3, 2 over", order, a.Calls, a.CallsOver, a.Passed)
			}
		})
	}
}

// TestCaseOpens: a reveal opens what was committed, or is flagged. The hash is that of
// 32 bytes 0x01 and 32 bytes 0x02, worked out with sha256sum.
func TestCaseOpens(t *testing.T) {
	salt, oracle := strings.Repeat("01", 32), "sha256:"+strings.Repeat("02", 32)
	const committed = "f818afd37a6dc3bc92fb44731011277006db4efa6e9023cd7468c02335d22a4d"
	l := ledgertest.New()
	l.Put(operator, prod, &events.CohortOpened{CohortID: "k", Split: "dev"})
	for _, tc := range []struct{ id, salt, oracle string }{
		{"opens", salt, oracle}, {"other-salt", strings.Repeat("03", 32), oracle}, {"other-oracle", salt, "sha256:" + strings.Repeat("03", 32)}, {"shut", "", ""},
	} {
		l.Put(harness, bench, &events.CaseCommitted{CaseID: tc.id, CohortID: "k", Split: "dev", OracleSHA256: committed})
		if tc.salt != "" {
			l.Put(harness, bench, &events.CaseRevealed{CaseID: tc.id, Salt: tc.salt, OracleRef: tc.oracle})
		}
	}
	l.Put(harness, bench, &events.CaseRevealed{CaseID: "never", Salt: salt, OracleRef: oracle})
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]*bool{"opens": ptr(true), "other-salt": ptr(false), "other-oracle": ptr(false), "shut": nil, "never": nil} {
			c := must[[]view.Case](t)(view.FindCase(s, id))[0]
			if (c.Opens == nil) != (want == nil) || want != nil && *c.Opens != *want {
				t.Errorf("%s: opens %v, want %v", id, c.Opens, want)
			}
		}
		if k := must[[]view.Cohort](t)(view.FindCohort(s, "k"))[0]; k.Mismatched != 2 || k.Revealed != 3 {
			t.Errorf("%+v, want 2 of 3 mismatched", k)
		}
	})
}
