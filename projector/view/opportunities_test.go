package view_test

import (
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestRouting(t *testing.T) {
	ep := ledgertest.Episode("ep")
	denied := call("t", "causal")
	denied.Status = "denied"
	edges := call("t", "lookup")
	edges.ReturnedEdges = []events.ReturnedEdge{{Cause: "a", Effect: "b"}}
	exact := func(c events.Context, tool string) *events.ToolCalled {
		d := call("t-"+tool, tool)
		d.Context = c
		return d
	}
	graph := &events.GraphWritten{Op: "add", Cause: "a", Effect: "b"}
	tests := []struct {
		name      string
		build     func(l *ledgertest.Ledger)
		to, join  string
		selfWords bool
	}{
		{"nothing follows", func(l *ledgertest.Ledger) { l.Put(detector, prod, opportunity("o"), ep) }, "none", "", false},
		{"causal tool, exact", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, exact(answers("o"), "causal"))
		}, "causal_tool", "exact", false},
		{"counterfactual in the episode", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "counterfactual"), ep)
		}, "causal_tool", "episode", false},
		{"edges came back", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, edges, ep)
		}, "causal_tool", "episode", false},
		{"graph tool", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "graph_query"), ep)
		}, "graph", "episode", false},
		{"agent's own graph write", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, graph, ep)
		}, "graph", "episode", true},
		{"graph write, later seen by the dispatcher", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, graph, ep)
			l.Put(dispatcher, prod, graph, ep)
		}, "graph", "episode", false},
		{"prose", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "prose", "episode", true},
		{"prose and then the tool", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ep)
		}, "causal_tool", "episode", false},
		{"prose that names it hides no call that names none", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ep)
			c := claim("c", "asserted")
			c.Context = answers("o")
			l.Put(piper, prod, c, ep)
		}, "causal_tool", "episode", false},
		{"of equals the exact one", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "graph_query"), ep)
			g := *graph
			g.Context = answers("o")
			l.Put(piper, prod, &g, ep)
		}, "graph", "exact", true},
		{"self-reported call", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, exact(answers("o"), "causal"), ep)
		}, "none", "", false},
		{"denied call", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, denied, ep)
		}, "none", "", false},
		{"other tool", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "bash"), ep)
		}, "none", "", false},
		{"before the opportunity", func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, call("t", "causal"), ep)
			l.Put(detector, prod, opportunity("o"), ep)
		}, "none", "", false},
		{"exact, before the detector reported", func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, exact(answers("o"), "causal"), ep)
			l.Put(detector, prod, opportunity("o"), ep)
		}, "causal_tool", "exact", false},
		{"the later opportunity takes the episode's call", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(detector, prod, opportunity("o2"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ep)
		}, "none", "", false},
		{"another episode", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ledgertest.Episode("ep2"))
		}, "none", "", false},
		{"another namespace's agent", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			g := *graph
			g.Context = answers("o")
			l.Put(piper, "sandbox", &g, ep)
		}, "none", "", false},
		{"another namespace's dispatcher, exact", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, "sandbox", exact(answers("o"), "causal"), ep)
		}, "causal_tool", "exact", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			tt.build(l)
			fold(t, l, func(s *projector.State) {
				o := must[*view.Opportunity](t)(view.GetOpportunity(s, prod, "o"))
				self := o.Route != nil && o.Route.SelfReported
				if o.RoutedTo != tt.to || o.Join != tt.join || self != tt.selfWords {
					t.Errorf("routed to %q, join %q, self-reported %v", o.RoutedTo, o.Join, self)
				}
			})
		})
	}
}
