package view_test

import (
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestAbductions(t *testing.T) {
	l := ledgertest.New()
	start := func(id string) { l.Put(piper, prod, &events.AbductionStarted{AbductionID: id, Context: answers("o")}) }
	cost := &events.Cost{CostUSD: ptr(0.5)}
	start("done")
	start("open")
	start("failed")
	start("done") // the first counts
	l.Put(piper, prod, &events.AbductionCompleted{AbductionID: "done", SetID: ptr("s")})
	l.Put(piper, prod, &events.AbductionFailed{AbductionID: "done", Code: "late"})
	l.Put(piper, prod, &events.AbductionFailed{AbductionID: "failed", Code: "budget", Cost: cost})
	l.Put(piper, prod, &events.AbductionCompleted{AbductionID: "unbegun"})     // 8
	l.Put(dispatcher, prod, &events.AbductionStarted{AbductionID: "not hers"}) // 9: no logger takes that
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		if err := view.ListAbductions(s, prod, func(a *view.Abduction) error {
			end := "open"
			if e := a.Ended; e != nil {
				end = fmt.Sprint("failed=", e.Failed, " ", str(e.Code), " ", e.Cost != nil)
			}
			got[a.AbductionID] = fmt.Sprint(a.Started != nil, " ", end, " ", a.Repeats)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := "map[done:true failed=false ? false 2 failed:true failed=true budget true 0 open:true open 0 unbegun:false failed=false ? false 0]"; fmt.Sprint(got) != want {
			t.Errorf("%v\nwant %s", got, want)
		}
		if o := orphans(t, s, view.Abductions, prod); !slices.Equal(o, []string{"8 unbegun unknown"}) {
			t.Errorf("orphans %q", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"abductions/9"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestResponsesAndScores: a score counts only for the response that it is of.
func TestResponsesAndScores(t *testing.T) {
	l := ledgertest.New()
	respond := func(stage int64, d events.ResponseRecorded) uint64 {
		d.RunID, d.CaseID, d.Stage = "r", "c", &stage
		return uint64(l.Put(harness, bench, &d))
	}
	score := func(stage *int64, of *uint64, scorer string) {
		l.Put(harness, bench, &events.ScoreRecorded{RunID: "r", CaseID: "c", Stage: stage, ResponseSeq: of, Scorer: scorer, ScorerSHA256: scorer})
	}
	one, two := ptr(int64(1)), ptr(int64(2))
	first := respond(1, events.ResponseRecorded{Status: "parsed", DeliveredIDs: []string{"e1"}, Answer: &events.Answer{
		Kind: "answer", EvidenceIDs: []string{"e1", "e2"}, Distribution: []events.AnswerShare{{Hypothesis: "a", P: 0.5}, {Hypothesis: "b", P: 0.75}},
	}})
	second := respond(1, events.ResponseRecorded{Status: "timeout"}) // the first counts
	respond(3, events.ResponseRecorded{Status: "malformed"})
	respond(4, events.ResponseRecorded{Status: "parsed", Answer: &events.Answer{Kind: "abstain", EvidenceIDs: []string{"e1"}}})
	score(one, nil, "by place")
	score(one, &first, "by record")
	score(one, &first, "by record") // the first counts
	score(one, &second, "of another")
	score(two, nil, "of none")
	score(nil, nil, "of no stage")
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListResponses(s, bench, func(r *view.Response) error {
			undelivered, mass := "?", "?"
			if r.Undelivered != nil {
				undelivered = fmt.Sprint(r.Undelivered)
			}
			if r.Mass != nil {
				mass = fmt.Sprint(*r.Mass)
			}
			got = append(got, fmt.Sprintf("%d %s %s %s %d", *r.Response.Stage, r.Response.Status, undelivered, mass, r.Repeats))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1 parsed [e2] 1.25 1", "3 malformed ? ? 0", "4 parsed ? ? 0"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		of := map[string]string{}
		if err := view.ListScores(s, bench, func(v *view.Score) error {
			of[v.Score.Scorer] = fmt.Sprint(v.ResponseSeq, " ", v.Repeats)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := "map[by place:1 0 by record:1 1 of another:0 0 of no stage:0 0 of none:0 0]"; fmt.Sprint(of) != want {
			t.Errorf("%v, want %s", of, want)
		}
		if o := orphans(t, s, view.Results, bench); len(o) != 3 {
			t.Errorf("orphans %q", o)
		}
	})
}

func TestControlsAndProbes(t *testing.T) {
	l := ledgertest.New()
	control := func(condition string, variant *string, outcome string) {
		l.Put(harness, bench, &events.ControlRecorded{RunID: "r", Condition: condition, Variant: variant, CaseID: "c", Tag: "direct", Outcome: outcome})
	}
	control("C0", nil, "crash") // an outcome like any other
	control("C0", nil, "hit")   // the first counts
	control("C0", ptr("v"), "hit")
	control("C4", nil, "miss")
	l.Put(harness, bench, &events.ProbeRecorded{ProbeID: "p", Result: "cleared", N: ptr(int64(40))})
	l.Put(harness, bench, &events.ProbeRecorded{ProbeID: "p", Result: "implicated"})
	l.Put(operator, prod, &events.ProbeRecorded{ProbeID: "q", Result: "cleared"}) // 7: no logger takes that
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListControls(s, bench, func(c *view.Control) error {
			got = append(got, fmt.Sprintf("%s %s %s %d", c.Control.Condition, str(c.Control.Variant), c.Control.Outcome, c.Repeats))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"C0 ? crash 1", "C0 v hit 0", "C4 ? miss 0"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		p := must[[]view.Probe](t)(view.FindProbe(s, "p"))
		if len(p) != 1 || p[0].Probe.Result != "cleared" || p[0].Repeats != 1 {
			t.Errorf("%+v", p)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"results/7"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestEpisodeReports: of what several witnesses report of one call the best counts.
func TestEpisodeReports(t *testing.T) {
	l := ledgertest.New()
	report := func(episode string, capture, call *string, latency float64) {
		l.Put(dispatcher, prod, &events.EpisodeRecorded{Context: events.Context{Capture: capture, ToolCallID: call}, LatencyMS: &latency}, ledgertest.Episode(episode))
	}
	report("e", ptr("imported"), ptr("t"), 1)
	report("e", ptr("hook"), ptr("t"), 2)
	report("e", ptr("otlp"), ptr("t"), 3)
	report("e", ptr("hook"), ptr("t"), 4) // of equals the first
	report("e", nil, nil, 5)              // of the episode itself
	report("f", ptr("live"), ptr("t"), 6) // another's call of the same id
	report("", nil, nil, 7)               // of nothing that can be joined
	report("", nil, nil, 8)
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListEpisodeReports(s, prod, func(r *view.EpisodeReport) error {
			got = append(got, fmt.Sprintf("%s %s %g@%d +%d success %v", r.EpisodeID, str(r.ToolCallID), *r.Report.LatencyMS, r.Seq, r.Others, r.Report.Success))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{" ? 7@7 +0 success <nil>", " ? 8@8 +0 success <nil>", "e ? 5@5 +0 success <nil>", "e t 2@2 +3 success <nil>", "f t 6@6 +0 success <nil>"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
