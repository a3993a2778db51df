package metric_test

import (
	"fmt"
	"strings"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

// TestComparison: each figure that changed names the records that changed it,
// the one that only let time pass too.
func TestComparison(t *testing.T) {
	l := ledgertest.New()
	claim := func(id string) {
		l.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: id, Status: "hypothesis"})
	}
	claim("claim-1")                                                                                                             // 1
	claim("claim-2")                                                                                                             // 2
	l.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"})                                                       // 3: changes no figure
	l.Put("agent/piper", "production", &events.ClaimRevised{ClaimID: "claim-1", OldStatus: "hypothesis", NewStatus: "asserted"}) // 4
	l.Put("agent/piper", "production", &events.ClaimRevised{ClaimID: "claim-1", OldStatus: "asserted", NewStatus: "retracted"})  // 5
	l.Advance(metric.Settled)
	l.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"}) // 6: both claims are old
	types := []string{"claim.recorded", "gate.chosen", "claim.revised", "claim.revised", "gate.chosen"}
	compare := func(step int) map[string]metric.Figure {
		t.Helper()
		c := metric.NewComparison(step, types)
		err := projector.Walk(t.Context(), projector.ReplayConfig{Source: l, Projections: view.All(), To: 1, Dir: t.TempDir(),
			Inspect: func(s *projector.State) error {
				score, err := metric.Compute(s, "")
				if err != nil {
					return err
				}
				return c.Add(score)
			}}, 6, step, metric.KeepScore(""))
		if err != nil {
			t.Fatal(err)
		}
		if c.From.Seq != 1 || c.To.Seq != 6 || c.V != metric.Version || c.Namespace != metric.DefaultNamespace {
			t.Errorf("%+v", c)
		}
		out := make(map[string]metric.Figure)
		last := ""
		for _, f := range c.Figures {
			if f.Name <= last {
				t.Errorf("%s comes behind %s", f.Name, last)
			}
			last = f.Name
			out[f.Name] = f
		}
		return out
	}
	text := func(f metric.Figure) string {
		out := fmt.Sprintf("%s→%s:", f.Before, f.After)
		for _, c := range f.Causes {
			out += fmt.Sprintf(" %d-%d %s=%s", c.From, c.To, strings.Join(c.Types, ","), c.Value)
		}
		return out
	}
	for _, c := range []struct {
		step         int
		figure, want string
	}{
		{1, "useful_conclusions.claims", "1→2: 2-2 claim.recorded=2"},
		{1, "useful_conclusions.asserted", "0→0: 4-4 claim.revised=1 5-5 claim.revised=0"},
		{1, "resolution_coverage.claims.rate.denominator", "0→2: 6-6 gate.chosen=2"},
		{1, "resolution_coverage.claims.rate.value", "null→0: 6-6 gate.chosen=0"},
		{2, "useful_conclusions.claims", "1→2: 2-3 claim.recorded,gate.chosen=2"},
		{2, "resolution_coverage.claims.rate.denominator", "0→2: 6-6 gate.chosen=2"},
		{5, "resolution_coverage.claims.rate.denominator", "0→2: 2-6 claim.recorded,claim.revised,gate.chosen=2"},
	} {
		if got := text(compare(c.step)[c.figure]); got != c.want {
			t.Errorf("step %d: %s is %s, want %s", c.step, c.figure, got, c.want)
		}
	}
	for _, name := range []string{"useful_conclusions.asserted", "routing.rate.value", "inputs.seq"} {
		if f, ok := compare(2)[name]; ok {
			t.Errorf("%s is listed: %s", name, text(f))
		}
	}
}
