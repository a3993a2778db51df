package view_test

import (
	"strings"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestExperiments(t *testing.T) {
	l := ledgertest.New()
	propose := func(id string) {
		l.Put(piper, prod, &events.ExperimentProposed{ExpID: id, Discriminates: []string{"c"}})
	}
	execute := func(id, callID string) {
		l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: id, ToolCallID: callID})
	}
	denied := call("denied", "bash")
	denied.Status = "denied"
	for _, id := range []string{"done", "idle", "nocall", "self", "denied", "later"} {
		propose(id)
	}
	l.Put(dispatcher, prod, call("t", "bash"))
	l.Put(piper, prod, call("mine", "bash"))
	l.Put(dispatcher, prod, denied)
	execute("done", "t")
	execute("done", "none") // the first counts
	execute("nocall", "none")
	execute("self", "mine")
	execute("denied", "denied")
	execute("later", "t2")
	l.Put(dispatcher, prod, call("t2", "bash"))
	execute("unproposed", "t")
	l.Put(resolver, prod, &events.ExperimentObserved{ExpID: "done", Observed: "fell"})
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]string{
			"done": view.Executed, "idle": view.NotExecuted, "nocall": view.ExecutedNoCall, "self": view.ExecutedNoCall,
			"denied": view.ExecutedDenied, "later": view.Executed, "unproposed": view.Executed,
		} {
			e := must[*view.Experiment](t)(view.GetExperiment(s, prod, id))
			if got := must[string](t)(view.CheckExecution(s, e)); got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
		}
		e := must[*view.Experiment](t)(view.GetExperiment(s, prod, "done"))
		if e.Observed == nil || e.Observed.Outcome != "fell" || e.Repeats != 1 {
			t.Errorf("%+v", e)
		}
		if got := orphans(t, s, view.Experiments, prod); len(got) != 1 || !strings.HasSuffix(got[0], "unproposed unknown") {
			t.Errorf("orphans %q", got)
		}
	})
}
