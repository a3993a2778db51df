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

// TestGates: her own list of tools is held against the offer that the dispatcher
// saw before it.
func TestGates(t *testing.T) {
	l := ledgertest.New()
	ep := ledgertest.Episode("ep")
	gate := func(c events.Context, opts ...ledgertest.Option) {
		l.Put(piper, prod, &events.GateChosen{Context: c, Action: "TEST", OfferedTools: []string{"bash", "causal"}}, opts...)
	}
	offer := func(c events.Context, tools ...string) {
		l.Put(dispatcher, prod, &events.ToolsOffered{Context: c, Tools: tools}, ep)
	}
	gate(events.Context{}, ep)                                                           // 1: before any offer
	offer(events.Context{}, "bash", "graph_query")                                       // 2
	offer(answers("o"), "bash", "causal")                                                // 3
	gate(events.Context{}, ep)                                                           // 4: the latest of the episode
	offer(events.Context{}, "bash", "graph_query")                                       // 5
	gate(answers("o"), ep)                                                               // 6: the opportunity's
	gate(answers("other"), ep)                                                           // 7
	gate(events.Context{}, ledgertest.Episode("another"))                                // 8
	gate(events.Context{})                                                               // 9
	l.Put(piper, prod, &events.GateChosen{Action: "KNOW"}, ep)                           // 10: she lists nothing
	l.Put(piper, prod, &events.GateChosen{Action: "KNOW", OfferedTools: []string{}}, ep) // 11: she lists none
	l.Put(piper, prod, &events.ToolsOffered{Tools: []string{"x"}}, ep)                   // 12: no logger takes that
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListGates(s, prod, func(g *view.Gate) error {
			invented, omitted := fmt.Sprint(g.Invented), fmt.Sprint(g.Omitted)
			if g.Invented == nil {
				invented = "?"
			}
			if g.Omitted == nil {
				omitted = "?"
			}
			got = append(got, fmt.Sprintf("%d: %s %d %s %s", g.Seq, g.Join, g.OfferSeq, invented, omitted))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{
			"1:  0 ? ?", "4: episode 3 [] []", "6: exact 3 [] []", "7: episode 5 [causal] [graph_query]", "8:  0 ? ?", "9:  0 ? ?",
			"10: episode 5 ? ?", "11: episode 5 [] [bash graph_query]",
		}; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		n := 0
		if err := view.ListOffers(s, prod, func(o *view.Offer) error { n += len(o.Tools); return nil }); err != nil || n != 6 {
			t.Errorf("%d tools offered, %v", n, err)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"offers/12"}) {
			t.Errorf("parked %v", p)
		}
	})
}
