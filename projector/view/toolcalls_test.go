package view_test

import (
	"fmt"
	"strings"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// TestOneCallOfManyWitnesses: whatever the order in which they are heard, the best
// witness's record counts, everywhere, and who else saw the call is told.
func TestOneCallOfManyWitnesses(t *testing.T) {
	type told struct {
		principal string
		capture   *string
		tokens    int64
	}
	byDispatcher, byHook, byOTLP := told{dispatcher, nil, 1}, told{dispatcher, ptr("hook"), 2}, told{dispatcher, ptr("otlp"), 3}
	byAgent, byImport := told{piper, ptr("hook"), 4}, told{dispatcher, ptr("imported"), 5}
	for _, tc := range []struct {
		told   []told
		tokens int64
		seen   string // in order; what counts is the first
	}{
		{[]told{byDispatcher, byHook, byOTLP, byAgent, byImport}, 1, "dispatcher 1 hook 2 otlp 3 agent 4 imported 5"},
		{[]told{byImport, byAgent, byOTLP, byHook, byDispatcher}, 1, "dispatcher 5 hook 4 otlp 3 agent 2 imported 1"},
		{[]told{byAgent, byOTLP, byHook, byHook}, 2, "hook 3 otlp 2 agent 1"},
		{[]told{byAgent, byOTLP}, 3, "otlp 2 agent 1"},
		{[]told{byImport, byAgent}, 4, "agent 2 imported 1"},
		{[]told{byImport}, 5, "imported 1"},
	} {
		l := ledgertest.New()
		for _, w := range tc.told {
			l.Put(w.principal, prod, &events.ToolCalled{
				Context: events.Context{Capture: w.capture}, ToolCallID: "t", Tool: "bash", Status: "ok", MessageID: ptr("m"),
				Tokens: &events.Tokens{Output: &w.tokens},
			}, ledgertest.Episode("e"))
		}
		// The same id in another episode is another call.
		l.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: "t", Tool: "bash", Status: "ok"}, ledgertest.Episode("f"))
		fold(t, l, func(s *projector.State) {
			var calls []view.ToolCall
			if err := view.ListToolCalls(s, prod, func(c *view.ToolCall) error { calls = append(calls, *c); return nil }); err != nil {
				t.Fatal(err)
			}
			byEpisode := map[string]view.ToolCall{}
			for _, c := range calls {
				byEpisode[c.EpisodeID] = c
			}
			c := byEpisode["e"]
			if len(calls) != 2 || len(byEpisode["f"].SeenBy) != 1 {
				t.Fatalf("%d calls: %+v", len(calls), calls)
			}
			var seen []string
			for _, w := range c.SeenBy {
				seen = append(seen, fmt.Sprint(w.Witness, " ", w.Seq))
			}
			if got := strings.Join(seen, " "); got != tc.seen || !strings.HasPrefix(tc.seen, c.Witness+" ") || *c.Witnessed().Usage.OutputTokens != tc.tokens {
				t.Errorf("%s, seen by %s, tokens %d; want %s, %d", c.Witness, got, *c.Witnessed().Usage.OutputTokens, tc.seen, tc.tokens)
			}
			var counted []view.Spent
			if err := view.ListUsage(s, prod, func(u *view.Spent) error {
				if u.EpisodeID == "e" {
					counted = append(counted, *u)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if len(counted) != 1 || *counted[0].Usage.OutputTokens != tc.tokens || counted[0].Witness != c.Witness {
				t.Errorf("counted %+v, want %d tokens once", counted, tc.tokens)
			}
			if found := must[[]view.ToolCall](t)(view.FindToolCall(s, "t")); len(found) != 2 {
				t.Errorf("show finds %d", len(found))
			}
		})
	}
}

// TestMessageOfACall: the best witness who names one says which message asked for a
// call, whichever came first; of one witness only the first record is heard.
func TestMessageOfACall(t *testing.T) {
	type told struct{ principal, capture, message string }
	dispatcherSays, hookSays, agentSays := told{dispatcher, "", ""}, told{dispatcher, "hook", "m-hook"}, told{piper, "", "m-agent"}
	for _, tc := range []struct {
		told []told
		want string
	}{
		{[]told{dispatcherSays, hookSays, agentSays}, "m-hook"},
		{[]told{agentSays, hookSays, dispatcherSays}, "m-hook"},
		{[]told{hookSays, {dispatcher, "", "m"}, agentSays}, "m"},
		{[]told{dispatcherSays, agentSays, {dispatcher, "", "m"}}, "m-agent"},
	} {
		l := ledgertest.New()
		for _, w := range tc.told {
			d := &events.ToolCalled{ToolCallID: "t", Tool: "bash", Status: "ok"}
			if w.capture != "" {
				d.Context.Capture = &w.capture
			}
			if w.message != "" {
				d.MessageID = &w.message
			}
			l.Put(w.principal, prod, d)
		}
		fold(t, l, func(s *projector.State) {
			if c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "", "t")); c.MessageID == nil || *c.MessageID != tc.want {
				t.Errorf("%v: %+v, want %s", tc.told, c, tc.want)
			}
		})
	}
}

// TestImportedCallIsItsFirst: of imports of one call the first counts, a dispatcher's
// before the agent's, though both are imports.
func TestImportedCallIsItsFirst(t *testing.T) {
	l := ledgertest.New()
	for i, principal := range []string{piper, dispatcher, dispatcher} {
		l.Put(principal, prod, &events.ToolCalled{
			Context: events.Context{Capture: ptr("imported")}, ToolCallID: "t", Tool: "bash", Status: "ok", Tokens: &events.Tokens{Output: ptr(int64(i))},
		})
	}
	fold(t, l, func(s *projector.State) {
		c := must[[]view.ToolCall](t)(view.FindToolCall(s, "t"))[0]
		if *c.Observed.Usage.OutputTokens != 1 || *c.SelfReported.Usage.OutputTokens != 0 || c.Repeats != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// TestCallWithoutEpisode: a record that names no episode is of the call of that id,
// and the join says so.
func TestCallWithoutEpisode(t *testing.T) {
	for _, first := range []string{"", "e"} {
		l := ledgertest.New()
		for _, episode := range []string{first, map[string]string{"": "e", "e": ""}[first], "f"} {
			l.Put(dispatcher, prod, &events.ToolCalled{Context: events.Context{Capture: ptr("hook")}, ToolCallID: "t", Tool: "bash", Status: "ok"}, ledgertest.Episode(episode))
		}
		fold(t, l, func(s *projector.State) {
			e := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "e", "t"))
			f := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "f", "t"))
			if e.EpisodeID != "e" || e.Join != view.JoinID || e.Repeats != 1 || f.EpisodeID != "f" || f.Join != view.JoinExact || f.Repeats != 0 {
				t.Errorf("%q first: %+v, %+v", first, e, f)
			}
		})
	}
}

// TestLateWitnessRoutesNothing: what a second witness says of a call behind the next
// opportunity is still of the first.
func TestLateWitnessRoutesNothing(t *testing.T) {
	l := ledgertest.New()
	put := func(principal string, d events.Payload) { l.Put(principal, prod, d, ledgertest.Episode("e")) }
	put(detector, &events.OpportunityDetected{OpportunityID: "o1", Kind: "why"})
	put(dispatcher, &events.ToolCalled{Context: events.Context{Capture: ptr("otlp")}, ToolCallID: "t", Tool: "graph", Status: "ok"})
	put(detector, &events.OpportunityDetected{OpportunityID: "o2", Kind: "why"})
	put(dispatcher, &events.ToolCalled{ToolCallID: "t", Tool: "causal", Status: "ok"})
	fold(t, l, func(s *projector.State) {
		o1 := must[*view.Opportunity](t)(view.GetOpportunity(s, prod, "o1"))
		o2 := must[*view.Opportunity](t)(view.GetOpportunity(s, prod, "o2"))
		if o1.RoutedTo != view.RoutedCausalTool || o1.Route.Seq != 4 || o2.RoutedTo != view.RoutedNone {
			t.Errorf("o1 %s by %+v, o2 %s", o1.RoutedTo, o1.Route, o2.RoutedTo)
		}
	})
}

// TestBestUsageCounts: of several records of one message that of the best witness.
func TestBestUsageCounts(t *testing.T) {
	l := ledgertest.New()
	for i, capture := range []*string{ptr("imported"), ptr("otlp"), nil, ptr("hook")} {
		l.Put(dispatcher, prod, &events.UsageRecorded{Context: events.Context{Capture: capture}, MessageID: ptr("m"), Tokens: &events.Tokens{Output: ptr(int64(i))}})
	}
	fold(t, l, func(s *projector.State) {
		var got []string
		err := view.ListUsage(s, prod, func(u *view.Spent) error {
			got = append(got, fmt.Sprintf("%s %d by %s, %d others", u.Namespace, *u.Usage.OutputTokens, u.Witness, u.Repeats))
			return nil
		})
		if want := "production 2 by dispatcher, 2 others; production~imported 0 by imported, 0 others"; err != nil || strings.Join(got, "; ") != want {
			t.Errorf("%s, %v; want %s", strings.Join(got, "; "), err, want)
		}
	})
}

// TestUsageOfACall: a call's usage is one for each episode, whoever told of it, and
// whether the best witness names the episode or not.
func TestUsageOfACall(t *testing.T) {
	type told struct{ capture, episode string }
	for _, order := range [][]told{
		{{"hook", "e"}, {"", ""}, {"", "f"}},
		{{"", ""}, {"hook", "e"}, {"", "f"}},
	} {
		l := ledgertest.New()
		for i, w := range order {
			d := &events.UsageRecorded{Context: events.Context{ToolCallID: ptr("t")}, Tokens: &events.Tokens{Output: ptr(int64(i))}}
			if w.capture != "" {
				d.Context.Capture = &w.capture
			}
			l.Put(dispatcher, prod, d, ledgertest.Episode(w.episode))
		}
		fold(t, l, func(s *projector.State) {
			got := map[string]string{}
			for _, u := range usage(t, s, prod) {
				got[u.EpisodeID] = fmt.Sprintf("%s, %d others", u.Witness, u.Repeats)
			}
			if len(got) != 2 || got["e"] != "dispatcher, 1 others" || got["f"] != "dispatcher, 0 others" {
				t.Errorf("%v: %v", order, got)
			}
		})
	}
}

// TestDeliveredByAnyWitness: a call counts as evidence from its first observation
// on, whichever witness is believed later.
func TestDeliveredByAnyWitness(t *testing.T) {
	l := ledgertest.New()
	l.Put(dispatcher, prod, &events.ToolCalled{Context: events.Context{Capture: ptr("hook")}, ToolCallID: "t", Tool: "bash", Status: "ok"})
	l.Put(piper, prod, &events.ClaimRecorded{ClaimID: "c", Status: "asserted", EvidenceIDs: []string{"t"}})
	l.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: "t", Tool: "bash", Status: "ok"})
	fold(t, l, func(s *projector.State) {
		c := must[*view.Claim](t)(view.GetClaim(s, prod, "c"))
		if uses := must[[]view.EvidenceUse](t)(view.EvidenceOf(s, c)); uses[0].DeliveredSeq != ledger.Seq(1) {
			t.Errorf("%+v, want delivered by record 1", uses)
		}
	})
}
