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

// TestQueries: a choice is never an execution, whatever the agent says of it.
func TestQueries(t *testing.T) {
	l := ledgertest.New()
	selectIt := func(id, chosen string) *events.QuerySelected {
		return &events.QuerySelected{QueryID: id, Chosen: chosen, Menu: []events.QueryOption{{Option: "look", ExpectedCost: ptr(2.0)}, {Option: "ask"}}}
	}
	execute := func(id, callID string) {
		l.Put(dispatcher, prod, &events.QueryExecuted{QueryID: id, ToolCallID: callID})
	}
	for _, id := range []string{"made", "idle", "nocall", "self", "denied"} {
		l.Put(piper, prod, selectIt(id, "look"))
	}
	l.Put(piper, prod, selectIt("offmenu", "guess"))
	l.Put(piper, prod, selectIt("made", "ask")) // the first choice counts
	l.Put(dispatcher, prod, call("c1", "bash"))
	execute("made", "c1")
	execute("made", "c1")
	execute("nocall", "c2")
	l.Put(piper, prod, call("c3", "bash"))
	execute("self", "c3")
	denied := call("c4", "bash")
	denied.Status = "denied"
	l.Put(dispatcher, prod, denied)
	execute("denied", "c4")
	unselected := l.Put(dispatcher, prod, &events.QueryExecuted{QueryID: "unselected", ToolCallID: "c1"})
	own := l.Put(piper, prod, &events.QueryExecuted{QueryID: "idle", ToolCallID: "c1"}) // no logger takes that
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		err := view.ListQueries(s, prod, func(q *view.Query) error {
			what, err := view.CheckQuery(s, q)
			got[q.QueryID] = what
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]string{
			"made": view.Executed, "idle": view.NotExecuted, "nocall": view.ExecutedNoCall, "self": view.ExecutedNoCall, "denied": view.ExecutedDenied,
			"unselected": view.Executed, "offmenu": view.NotExecuted,
		} {
			if got[id] != want {
				t.Errorf("%s: %q, want %q", id, got[id], want)
			}
		}
		made := must[[]view.Query](t)(view.FindQuery(s, "made"))[0]
		if made.Selected.Chosen != "look" || made.Selected.Unlisted || made.Repeats != 2 || *made.Selected.Menu[0].ExpectedCost != 2 {
			t.Errorf("%+v %+v", made, made.Selected)
		}
		if !must[[]view.Query](t)(view.FindQuery(s, "offmenu"))[0].Selected.Unlisted {
			t.Error("a choice off the menu is not flagged")
		}
		if o := orphans(t, s, view.Queries, prod); !slices.Equal(o, []string{fmt.Sprintf("%d unselected unknown", unselected)}) {
			t.Errorf("orphans %v", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{fmt.Sprintf("queries/%d", own)}) {
			t.Errorf("parked %v", p)
		}
	})
}
