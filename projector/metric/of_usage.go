package metric

import (
	"fmt"
	"hash/crc32"

	"assay/events"
	"assay/ledger"
	"assay/projector/view"
)

// perDollar is in how many parts money is counted.
const perDollar = 1_000_000_000

var usageMetrics = []Metric{
	{
		Name:      "input_tokens",
		Question:  "How many tokens did the models read?",
		Numerator: "input tokens of each message, job and call once, cached ones included",
		Groups:    "model",
		Kind:      Guardrail, Form: FormSum, Unit: "tokens",
		Missing: leftOut,
		Source:  "C8 14; C9 Weekly report, Cost",
		over:    []view.Listing{view.AllTold, view.AllToolCalls},
		count:   func(p *pass) error { return p.tokens(func(u *view.Usage) *int64 { return u.InputTokens }) },
	},
	{
		Name:      "cached_tokens",
		Question:  "How much of what the models read was cached?",
		Numerator: "cached input tokens of each message, job and call once",
		Groups:    "model",
		Kind:      Diagnostic, Form: FormSum, Unit: "tokens",
		Missing: leftOut,
		Source:  "C8 14",
		over:    []view.Listing{view.AllTold, view.AllToolCalls},
		count:   func(p *pass) error { return p.tokens(func(u *view.Usage) *int64 { return u.CachedTokens }) },
	},
	{
		Name:      "output_tokens",
		Question:  "How many tokens did the models write?",
		Numerator: "output tokens of each message, job and call once",
		Groups:    "model",
		Kind:      Guardrail, Form: FormSum, Unit: "tokens",
		Missing: leftOut,
		Source:  "C8 14; C9 Weekly report, Cost",
		over:    []view.Listing{view.AllTold, view.AllToolCalls},
		count:   func(p *pass) error { return p.tokens(func(u *view.Usage) *int64 { return u.OutputTokens }) },
	},
	{
		Name:      "tool_calls",
		Question:  "How many tool calls were made?",
		Numerator: "tool calls, each id of an episode once, failed and repeated ones included",
		Groups:    "tool",
		Kind:      Guardrail, Form: FormCount, Unit: "calls",
		Exclusions: imported + "; calls that were denied",
		Source:     "C8 14; C9 Weekly report, Cost",
		over:       []view.Listing{view.AllToolCalls},
		count: func(p *pass) error {
			return p.calls(func(it item, _ *view.ToolCall, _ *view.Call) error { return it.numerator(it.ref) })
		},
	},
	{
		Name:      "tool_latency",
		Question:  "How long did the agent wait for its tools?",
		Numerator: "latency of tool calls, failed and repeated ones included",
		Groups:    "tool",
		Kind:      Guardrail, Form: FormSum, Unit: "ms", Per: 1000,
		Exclusions: imported + "; calls that were denied",
		Missing:    leftOut,
		Source:     "C8 14; C9 Weekly report, Cost",
		over:       []view.Listing{view.AllToolCalls},
		count: func(p *pass) error {
			return p.calls(func(it item, _ *view.ToolCall, c *view.Call) error { return it.known(c.Usage.LatencyUS(), "latency") })
		},
	},
	{
		Name:        "causal_query_p95",
		Question:    "How long do the slowest causal queries take?",
		Numerator:   "latency of calls of a causal tool that the dispatcher saw, failed ones included",
		Denominator: "such calls with a known latency",
		Kind:        Guardrail, Form: FormP95, Unit: "ms", Per: 1000,
		Exclusions: imported + "; calls that were denied, or that only the agent told of",
		Missing:    leftOut,
		Source:     "C9 Proposal details, P1",
		over:       []view.Listing{view.AllToolCalls},
		count: func(p *pass) error {
			return p.calls(func(it item, t *view.ToolCall, c *view.Call) error {
				it.group = ""
				switch {
				case !c.IsCausal():
					return nil
				case t.Observed == nil:
					return it.exclude("self-reported")
				}
				return it.known(c.Usage.LatencyUS(), "latency")
			})
		},
	},
	{
		Name:        "capture_coverage",
		Question:    "How many of the tool calls did the dispatcher see itself?",
		Numerator:   "of those, calls that the dispatcher recorded, itself or from a client's hook or telemetry",
		Denominator: "tool calls that the dispatcher or the agent told of",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: "a call that nobody told of is not known",
		Source:  "EP Causal evidence protocol, claim 1",
		over:    []view.Listing{view.AllToolCalls},
		count: func(p *pass) error {
			return view.ListToolCalls(p.state, p.namespace, func(t *view.ToolCall) error {
				it, ok, err := p.call(t)
				if !ok {
					return err
				}
				it.group = ""
				return it.putIf(t.Observed != nil)
			})
		},
	},
	{
		Name:      "model_latency",
		Question:  "How long did the agent wait for the models?",
		Numerator: "latency of messages and jobs, each once, failed ones included",
		Groups:    "model",
		Kind:      Guardrail, Form: FormSum, Unit: "ms", Per: 1000,
		Exclusions: imported + "; tool calls that count for themselves",
		Missing:    leftOut,
		Source:     "C8 14",
		over:       []view.Listing{view.AllTold, view.AllToolCalls},
		count: func(p *pass) error {
			return p.messages(func(it item, u *view.Spent) error { return it.known(u.Usage.LatencyUS(), "latency") })
		},
	},
	told("attempts", "How often was a model asked, retries included?", "attempts", "attempts", 1, func(u *view.Spent) *int64 { return u.Attempts }),
	told("ledger_writes", "How much did the agent write to its memory?", "ledger writes", "writes", 1, func(u *view.Spent) *int64 { return u.LedgerWrites }),
	told("cpu_time", "How much computation did it take?", "CPU time", "s", 1_000_000, (*view.Spent).CPUUS),
	told("gpu_time", "How much computation on GPUs did it take?", "GPU time", "s", 1_000_000, (*view.Spent).GPUUS),
	{
		Name:        "background_share",
		Question:    "How much is done outside of any turn?",
		Numerator:   "of those, background jobs",
		Denominator: "messages and jobs of which it is known",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: leftOut,
		Source:  "C8 14",
		over:    []view.Listing{view.AllTold, view.AllToolCalls},
		count: func(p *pass) error {
			return p.messages(func(it item, u *view.Spent) error {
				it.group = ""
				return it.putKnown(u.Background, "background")
			})
		},
	},
	{
		Name:      "cost",
		Question:  "What did the models cost?",
		Numerator: "tokens of each message, job and call once, at the price record of their date",
		Groups:    "model",
		Kind:      Guardrail, Form: FormSum, Unit: "USD", Per: perDollar,
		Missing: leftOut + "; without a price, or with a number of tokens unknown, a cost is unknown",
		Source:  "C8 14",
		over:    []view.Listing{view.AllTold, view.AllToolCalls},
		count: func(p *pass) error {
			return p.costs(func(it item, u *view.Spent, cost *int64) error { return it.known(cost, "cost") })
		},
	},
	{
		Name:      "charged",
		Question:  "What were the models reported to cost?",
		Numerator: "cost of each message, job and call once, as it was reported",
		Groups:    "model",
		Kind:      Diagnostic, Form: FormSum, Unit: "USD", Per: perDollar,
		Missing: leftOut,
		Source:  "C8 14",
		over:    []view.Listing{view.AllTold, view.AllToolCalls},
		count: func(p *pass) error {
			return p.usage(func(it item, u *view.Spent) error { return it.known(u.Usage.ChargedNanoUSD(), "charge") })
		},
	},
	{
		Name:        "cost_per_incident",
		Question:    "What does an incident cost?",
		Numerator:   "cost of what was used in the episodes of incidents, at the price record of its date",
		Denominator: "incidents",
		Kind:        Outcome, Form: FormRatio, Unit: "USD an incident", Per: perDollar, Whole: true,
		Exclusions: imported,
		Missing:    mustBeKnown,
		Source:     "C9 Weekly report, Cost",
		count:      (*pass).costOfIncidents,
	},
	{
		Name:        "cost_per_useful_conclusion",
		Question:    "What does a useful conclusion cost?",
		Numerator:   "cost of everything that was used, at the price record of its date",
		Denominator: "useful_conclusions",
		Kind:        Outcome, Form: FormRatio, Unit: "USD a conclusion", Per: perDollar, Whole: true,
		Exclusions: imported + "; confirmed claims that were not asserted then, or that anything refuted",
		Missing:    mustBeKnown,
		Source:     "C9 Weekly report, Cost",
		over:       []view.Listing{view.AllTold, view.AllToolCalls, view.AllClaims},
		count: func(p *pass) error {
			err := p.costs(func(it item, u *view.Spent, cost *int64) error {
				it.group = ""
				return it.known(cost, "cost")
			})
			if err != nil {
				return err
			}
			return p.useful(Denominator, false)
		},
	},
}

// told sums what usage.recorded tells of messages and jobs, each once.
func told(name, question, what, unit string, per int64, of func(*view.Spent) *int64) Metric {
	return Metric{
		Name: name, Question: question, Numerator: what + " of messages and jobs, each once, by usage.recorded", Groups: "model",
		Kind: Guardrail, Form: FormSum, Unit: unit, Per: per, Missing: leftOut, Source: "C8 14",
		over: []view.Listing{view.AllTold, view.AllToolCalls},
		count: func(p *pass) error {
			return p.messages(func(it item, u *view.Spent) error { return it.known(of(u), what) })
		},
	}
}

// usage takes up everything that counts as usage, with the model as group.
func (p *pass) usage(fn func(item, *view.Spent) error) error {
	return view.ListUsage(p.state, p.namespace, func(u *view.Spent) error {
		it, ok, err := p.spent(u)
		if !ok {
			return err
		}
		return fn(it, u)
	})
}

// messages takes up of that what is no tool call's: messages and jobs.
func (p *pass) messages(fn func(item, *view.Spent) error) error {
	return p.usage(func(it item, u *view.Spent) error {
		if u.ToolCallID != "" {
			return nil
		}
		return fn(it, u)
	})
}

func (p *pass) spent(u *view.Spent) (item, bool, error) {
	id, typ, model := fmt.Sprintf("record %d", u.Seq), events.TypeUsageRecorded, "unknown"
	if u.MessageID != nil {
		id = *u.MessageID
	}
	if u.ToolCallID != "" {
		id, typ = u.ToolCallID, events.TypeToolCalled
	}
	if u.Model != nil {
		model = *u.Model
	}
	return p.item(id, model, typ, u.Seq)
}

func (p *pass) tokens(of func(*view.Usage) *int64) error {
	return p.usage(func(it item, u *view.Spent) error { return it.known(of(&u.Usage), "tokens") })
}

// costs takes up every usage with what its tokens cost; nil is unknown.
func (p *pass) costs(fn func(item, *view.Spent, *int64) error) error {
	prices, err := view.ReadPrices(p.state)
	if err != nil {
		return err
	}
	return p.usage(func(it item, u *view.Spent) error { return fn(it, u, prices.Cost(u)) })
}

// costOfIncidents counts each incident, and what was used in its episode whenever
// that was.
func (p *pass) costOfIncidents() error {
	incidents := map[string]item{}
	err := p.incidents(func(it item) error {
		incidents[it.id] = it
		return it.denominator()
	})
	if err != nil {
		return err
	}
	if p.fn != nil {
		return p.episodeCosts(func(episode string) (item, bool) {
			it, ok := incidents[episode]
			return it, ok
		})
	}
	all, err := p.sumsOf(episodeCosts())
	if err != nil {
		return err
	}
	for episode, it := range incidents {
		if cost := all.week(shardOf(episode)).Groups[episode]; cost != nil {
			it.sums.week(it.week).All.add(cost)
		}
	}
	return nil
}

// episodeCosts is what was used in each episode. What one record changes is one of
// many sums: in place of the weeks stand shards of the episodes.
func episodeCosts() unit {
	over := []view.Listing{view.AllTold, view.AllToolCalls}
	return unit{"episode_costs", over, false, func(r reading, _ []ledger.Seq, into *sums) error {
		p := &pass{reading: r}
		err := p.episodeCosts(func(episode string) (item, bool) {
			return item{pass: p, id: episode, group: episode, week: shardOf(episode)}, episode != ""
		})
		*into = p.sums
		return err
	}}
}

const costShards = 1 << 12

func shardOf(episode string) ledger.Seq {
	return ledger.Seq(crc32.ChecksumIEEE([]byte(episode)) % costShards)
}

// episodeCosts counts what was used in each episode with the item that of has for it.
func (p *pass) episodeCosts(of func(episode string) (item, bool)) error {
	prices, err := view.ReadPrices(p.state)
	if err != nil {
		return err
	}
	return view.ListUsage(p.state, p.namespace, func(u *view.Spent) error {
		it, ok := of(u.EpisodeID)
		if !ok {
			return nil
		}
		if it.typ = events.TypeUsageRecorded; u.ToolCallID != "" {
			it.typ = events.TypeToolCalled
		}
		it.seq = u.Seq
		switch imported, err := p.isImported(u.Seq); {
		case err != nil:
			return err
		case imported:
			return it.exclude(whyImported)
		}
		return it.known(prices.Cost(u), "cost")
	})
}

// calls takes up each tool call that was let run, with its tool as group.
func (p *pass) calls(fn func(item, *view.ToolCall, *view.Call) error) error {
	return view.ListToolCalls(p.state, p.namespace, func(t *view.ToolCall) error {
		it, ok, err := p.call(t)
		if !ok {
			return err
		}
		c := t.Witnessed()
		if c.Denied() {
			return it.exclude("denied")
		}
		return fn(it, t, c)
	})
}

// call takes a tool call up by its best witness.
func (p *pass) call(t *view.ToolCall) (item, bool, error) {
	c := t.Witnessed()
	return p.item(t.ToolCallID, c.Tool, events.TypeToolCalled, c.Seq)
}
