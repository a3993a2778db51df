package metric

import (
	"cmp"
	"maps"
	"slices"

	"assay/events"
	"assay/ledger"
	"assay/projector/view"
)

// allOpportunities is the place of the metric opportunities.
const allOpportunities = 0

var opportunityMetrics = []Metric{
	allOpportunities: {
		Name:      "opportunities",
		Question:  "How often was there something to reason causally about?",
		Numerator: "opportunities that the detector found",
		Groups:    "kind of opportunity",
		Kind:      Diagnostic, Form: FormCount, Unit: "opportunities",
		Detected: true,
		Source:   "C9 Runtime instrumentation; Weekly report, Coverage",
		over:     []view.Listing{view.AllOpportunities},
		count: func(p *pass) error {
			return p.opportunities(func(it item, _ *view.Opportunity) error { return it.numerator(it.ref) })
		},
	},
	{
		Name:        "routing_rate",
		Question:    "How often did an opportunity lead to a causal tool or to the graph?",
		Numerator:   "of those, opportunities that a causal tool's call or a write to the graph followed until the episode's next one, or that one names",
		Denominator: "opportunities that the detector found",
		Groups:      "kind of opportunity",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Detected: true,
		Source:   "C9 Denominators that do not depend on the router",
		over:     []view.Listing{view.AllOpportunities},
		count: func(p *pass) error {
			return p.opportunities(func(it item, o *view.Opportunity) error {
				if err := it.denominator(); err != nil || !routed(o) {
					return err
				}
				return it.numerator(ref{o.Route.Seq, o.Route.Type})
			})
		},
	},
	{
		Name:        "join_coverage",
		Question:    "How much of what followed an opportunity is known by its id, and not by the episode's order?",
		Numerator:   "of those, what followed names the opportunity",
		Denominator: "opportunities that anything followed: a causal tool, the graph or prose",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; opportunities that nothing followed",
		Detected:   true,
		Source:     "EP Episode schema",
		over:       []view.Listing{view.AllOpportunities},
		count: func(p *pass) error {
			return p.opportunities(func(it item, o *view.Opportunity) error {
				followed, err := p.followed(o)
				switch {
				case err != nil:
					return err
				case !followed:
					return it.exclude("nothing followed")
				}
				if err := it.denominator(); err != nil || o.Join != view.JoinExact {
					return err
				}
				return it.numerator(ref{o.Route.Seq, o.Route.Type})
			})
		},
	},
	{
		Name:      "incidents",
		Question:  "How many incidents were there?",
		Numerator: "episodes with an opportunity of kind root_cause or which_fix",
		Kind:      Diagnostic, Form: FormCount, Unit: "incidents",
		Detected: true,
		Source:   "C9 Weekly report, Cost",
		count: func(p *pass) error {
			return p.incidents(func(it item) error { return it.numerator(it.ref) })
		},
	},
	{
		Name:        "abductions_completed",
		Question:    "Does the abduction module come to a result when it is entered?",
		Numerator:   "of those, abductions that were completed",
		Denominator: "abductions that were started, by the agent's word",
		Groups:      "mode",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: "an abduction without an end stays in the denominator",
		Source:  "C8 8.2",
		over:    []view.Listing{view.AllAbductions},
		count: func(p *pass) error {
			return p.abductions(func(it item, a *view.Abduction) error {
				if err := it.denominator(); err != nil || a.Ended == nil || a.Ended.Failed {
					return err
				}
				return it.numerator(ref{a.Ended.Seq, events.TypeAbductionCompleted})
			})
		},
	},
	{
		Name:        "competitors_before_first_fix",
		Question:    "How many causes were on the table when the first repair was made?",
		Numerator:   "different alternatives and competing claims that the episode had recorded before its first repair",
		Denominator: "incidents with a call of a tool of class repair that was let run",
		Kind:        Diagnostic, Form: FormRatio, Unit: "causes an incident",
		Exclusions: imported + "; incidents without a repair; episodes that are no incident",
		Missing:    "not available unless the tools of class repair are named",
		Source:     "C9 Worker debugging protocol",
		count:      (*pass).competitors,
	},
}

// opportunities takes up each opportunity, with its kind as group.
func (p *pass) opportunities(fn func(item, *view.Opportunity) error) error {
	return view.ListOpportunities(p.state, p.namespace, func(o *view.Opportunity) error {
		it, ok, err := p.item(o.OpportunityID, o.Kind, events.TypeOpportunityDetected, o.Seq)
		if !ok {
			return err
		}
		return fn(it, o)
	})
}

func routed(o *view.Opportunity) bool {
	return o.RoutedTo == view.RoutedCausalTool || o.RoutedTo == view.RoutedGraph
}

// abductions takes up each abduction that was started, with its mode as group.
func (p *pass) abductions(fn func(item, *view.Abduction) error) error {
	return view.ListAbductions(p.state, p.namespace, func(a *view.Abduction) error {
		if a.Started == nil {
			return nil
		}
		mode := "unknown"
		if a.Started.Mode != nil {
			mode = *a.Started.Mode
		}
		it, ok, err := p.item(a.AbductionID, mode, events.TypeAbductionStarted, a.Started.Seq)
		if !ok {
			return err
		}
		return fn(it, a)
	})
}

// openings is, of every episode with an opportunity that makes it an incident, the
// first one that was not imported.
func openings() unit {
	return unit{"openings", []view.Listing{view.AllOpportunities}, true, func(r reading, _ []ledger.Seq, into *sums) error {
		w := into.week(0)
		return view.ListOpportunities(r.state, r.namespace, func(o *view.Opportunity) error {
			if o.EpisodeID == "" || o.Kind != "root_cause" && o.Kind != "which_fix" {
				return nil
			}
			imported, err := r.isImported(o.Seq)
			if err == nil && !imported {
				w.first(o.EpisodeID, o.Seq)
			}
			return err
		})
	}}
}

// incidents takes up each incident by the first opportunity that makes its episode
// one, in the order of episodes. An imported one makes none.
func (p *pass) incidents(fn func(item) error) error {
	all, err := p.sumsOf(openings())
	if err != nil {
		return err
	}
	first := all.week(0).Firsts
	for _, episode := range slices.Sorted(maps.Keys(first)) {
		it, ok, err := p.item(episode, "", events.TypeOpportunityDetected, first[episode])
		if ok {
			err = fn(it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// causes is a record that put causes on the table.
type causes struct {
	ref
	ids []string
}

func (p *pass) competitors() error {
	if len(p.options.Repair) == 0 {
		p.why = "name the tools of class repair"
		return nil
	}
	fixes, err := p.firstRepairs()
	if err != nil {
		return err
	}
	table := map[string][]causes{}
	err = view.ListHypotheses(p.state, p.namespace, func(h *view.HypothesisSet) error {
		c := causes{ref: ref{h.Seq, events.TypeHypothesesRecorded}}
		for _, a := range h.Alternatives {
			c.ids = append(c.ids, a.ID)
		}
		table[h.EpisodeID] = append(table[h.EpisodeID], c)
		return nil
	})
	if err != nil {
		return err
	}
	err = view.ListClaims(p.state, p.namespace, func(c *view.Claim) error {
		if len(c.CompetingIDs) > 0 {
			table[c.EpisodeID] = append(table[c.EpisodeID], causes{ref{c.Seq, events.TypeClaimRecorded}, c.CompetingIDs})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.incidents(func(it item) error {
		fix, ok := fixes[it.id]
		if !ok {
			return it.exclude("no repair")
		}
		if err := it.put(Denominator, fix, 1, ""); err != nil {
			return err
		}
		recorded, seen := table[it.id], map[string]bool{}
		slices.SortFunc(recorded, func(a, b causes) int { return cmp.Compare(a.seq, b.seq) })
		for _, c := range recorded {
			imported, err := p.isImported(c.seq)
			if err != nil {
				return err
			}
			n := int64(0)
			for _, id := range c.ids {
				if c.seq < fix.seq && !seen[id] {
					seen[id] = !imported
					n++
				}
			}
			if n == 0 {
				continue
			}
			if err := it.amount(c.ref, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// firstRepairs are the first repairs that were let run, by episode.
func (p *pass) firstRepairs() (map[string]ref, error) {
	first := map[string]ref{}
	err := view.ListToolCalls(p.state, p.namespace, func(t *view.ToolCall) error {
		if !t.Executed() || !slices.Contains(p.options.Repair, t.Observed.Tool) {
			return nil
		}
		imported, err := p.isImported(t.Observed.Seq)
		have, ok := first[t.EpisodeID]
		if err == nil && !imported && (!ok || t.Observed.Seq < have.seq) {
			first[t.EpisodeID] = ref{t.Observed.Seq, events.TypeToolCalled}
		}
		return err
	})
	return first, err
}
