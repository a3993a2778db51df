package metric

import "assay/projector/view"

// Cost sums what messages, background jobs and tool calls are known to have cost,
// as it was reported; view.ListUsage says what counts.
type Cost struct {
	Counted        int64    `json:"counted"`       // usages, after removing repeats of a message
	SelfReported   int64    `json:"self_reported"` // of them, known from the agent alone
	Inconsistent   int64    `json:"inconsistent"`  // more cached tokens than input that includes them
	InputTokens    view.Sum `json:"input_tokens"`  // cached included
	CachedTokens   view.Sum `json:"cached_tokens"`
	UncachedTokens view.Sum `json:"uncached_tokens"`
	OutputTokens   view.Sum `json:"output_tokens"`
	USD            SumUSD   `json:"usd"`
	USDPerUseful   PerItem  `json:"usd_per_useful_conclusion"`
}

// SumUSD is a view.Sum of US dollars, with the mean of the known values.
type SumUSD struct {
	Sum   *float64 `json:"sum"`
	Mean  *float64 `json:"mean_of_known"`
	Known int64    `json:"known"`
	Total int64    `json:"total"`
}

// usd makes dollars of a sum of billionths.
func usd(s view.Sum) SumUSD {
	out := SumUSD{Known: s.Known, Total: s.Total}
	if s.Sum != nil {
		sum := float64(*s.Sum) / perDollar
		out.Sum, out.Mean = &sum, divide(sum, s.Known)
	}
	return out
}

// PerItem is a sum for each of Items; null unless every part of the sum is
// known and there is an item.
type PerItem struct {
	Sum   *float64 `json:"sum"`
	Items int64    `json:"items"`
	Value *float64 `json:"value"`
}

func (c *computer) cost(u *view.Spent) error {
	if ok, err := c.counts(u.Seq); !ok {
		return err
	}
	k := &c.Cost
	k.Counted++
	count(&k.SelfReported, u.SelfReported)
	count(&k.Inconsistent, u.Usage.Inconsistent)
	k.InputTokens.Add(u.Usage.InputTokens)
	k.CachedTokens.Add(u.Usage.CachedTokens)
	k.UncachedTokens.Add(u.Usage.UncachedTokens)
	k.OutputTokens.Add(u.Usage.OutputTokens)
	c.Charged.Add(u.Usage.ChargedNanoUSD())
	return nil
}

func (k *Cost) settle(useful int64) {
	k.USDPerUseful = PerItem{Sum: k.USD.Sum, Items: useful}
	if k.USD.Sum != nil && k.USD.Known == k.USD.Total {
		k.USDPerUseful.Value = divide(*k.USD.Sum, useful)
	}
}
