package view_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"assay/events"
	"assay/ledger"
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
		{"denied by the dispatcher, let run by a hook's word", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, toldBy("hook", "causal", "ok"), ep)
			l.Put(dispatcher, prod, toldBy("", "causal", "denied"), ep)
		}, "none", "", false},
		{"the same, the dispatcher first", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, toldBy("", "causal", "denied"), ep)
			l.Put(dispatcher, prod, toldBy("hook", "causal", "ok"), ep)
		}, "none", "", false},
		{"a denied call leaves what it hid", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, toldBy("hook", "causal", "ok"), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(dispatcher, prod, toldBy("", "causal", "denied"), ep)
		}, "prose", "episode", true},
		{"denied by a hook's word, let run by the dispatcher", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, toldBy("hook", "causal", "denied"), ep)
			l.Put(dispatcher, prod, toldBy("", "causal", "ok"), ep)
		}, "causal_tool", "episode", false},
		{"a call that a hook had seen before", func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, toldBy("hook", "causal", "ok"), ep)
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, toldBy("", "causal", "ok"), ep)
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

// toldBy is a record of call t by the witness that a capture makes of the dispatcher.
func toldBy(capture, tool, status string) *events.ToolCalled {
	d := call("t", tool)
	d.Status = status
	if capture != "" {
		d.Context.Capture = &capture
	}
	return d
}

// TestOrderOfWitnessesRoutesNothing: whatever three witnesses tell of a call, between
// two opportunities, in whatever order, each opportunity leads to the same by the same
// of them, and that is the best one.
func TestOrderOfWitnessesRoutesNothing(t *testing.T) {
	witnesses := []string{"", "hook", "otlp"}
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	l, rng := ledgertest.New(), rand.New(rand.NewPCG(40, 1))
	by := map[ledger.Seq]string{}
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	type draw struct {
		tool, status, names [3]string
		heard               [2]int // before each opportunity
	}
	draws := make([]draw, 400)
	for n := range draws {
		d := &draws[n]
		for i := range witnesses {
			d.tool[i], d.status[i], d.names[i] = one("causal", "graph_query", "bash"), one("ok", "denied"), one("", "", "o1", "o2")
		}
		d.heard[0] = rng.IntN(4)
		d.heard[1] = d.heard[0] + rng.IntN(4-d.heard[0])
		for k, order := range orders {
			id := fmt.Sprintf("-%d-%d", n, k)
			ep := ledgertest.Episode("e" + id)
			for at := range len(order) + 1 {
				for i, heard := range d.heard {
					if heard == at {
						l.Put(detector, prod, opportunity(fmt.Sprint("o", i+1, id)), ep)
					}
				}
				if at == len(order) {
					break
				}
				w := order[at]
				c := toldBy(witnesses[w], d.tool[w], d.status[w])
				if c.ToolCallID += id; d.names[w] != "" {
					c.Context = events.Context{Capture: c.Context.Capture, OpportunityID: ptr(d.names[w] + id)}
				}
				by[l.Put(dispatcher, prod, c, ep)] = "by " + witnesses[w]
			}
		}
	}
	routed := 0
	fold(t, l, func(s *projector.State) {
		for n, d := range draws {
			var first string
			for k, order := range orders {
				var got string
				for _, o := range []string{"o1", "o2"} {
					o := must[*view.Opportunity](t)(view.GetOpportunity(s, prod, fmt.Sprintf("%s-%d-%d", o, n, k)))
					got += fmt.Sprintf("%s %s; ", o.RoutedTo, o.Join)
					if o.Route != nil {
						routed++
						if by[o.Route.Seq] != "by " || d.status[0] == "denied" {
							t.Errorf("%+v in order %v: %s leads to %s %s", d, order, o.OpportunityID, o.RoutedTo, by[o.Route.Seq])
						}
					}
				}
				if first = cmp.Or(first, got); got != first {
					t.Errorf("%+v in order %v: %s, in order %v: %s", d, order, got, orders[0], first)
				}
			}
		}
	})
	if routed < len(draws) {
		t.Errorf("only %d routes", routed)
	}
}
