package view_test

import (
	"fmt"
	"slices"
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
		if n := len(orphans(t, s, view.Cases, bench)); n != 2 { // lost's cohort, and what was never committed
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
			if len(found) != 1 || found[0].Allowed() != want {
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
