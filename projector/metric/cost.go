package metric

import (
	"math"

	"assay/projector/view"
)

// Cost sums what tool calls are known to have cost. Each message id is counted
// once, and of a call the dispatcher's record before the agent's.
type Cost struct {
	Counted        int64   `json:"counted"`       // usages, after removing repeats of a message
	SelfReported   int64   `json:"self_reported"` // of them, known from the agent alone
	Inconsistent   int64   `json:"inconsistent"`  // more cached tokens than input that includes them
	InputTokens    Sum     `json:"input_tokens"`  // cached included
	CachedTokens   Sum     `json:"cached_tokens"`
	UncachedTokens Sum     `json:"uncached_tokens"`
	OutputTokens   Sum     `json:"output_tokens"`
	USD            SumUSD  `json:"usd"`
	USDPerUseful   PerItem `json:"usd_per_useful_conclusion"`
}

// Sum adds the known values; it is null when none is known, and Known ÷ Total
// says how much it leaves out.
type Sum struct {
	Sum   *int64 `json:"sum"`
	Known int64  `json:"known"`
	Total int64  `json:"total"`
}

func (s *Sum) add(v *int64) {
	s.Total++
	if v == nil {
		return
	}
	s.Known++
	if s.Sum == nil {
		s.Sum = new(int64)
	}
	*s.Sum += *v
}

// SumUSD is a Sum of US dollars, with the mean of the known values.
type SumUSD struct {
	Sum   *float64 `json:"sum"`
	Mean  *float64 `json:"mean_of_known"`
	Known int64    `json:"known"`
	Total int64    `json:"total"`
}

func (s *SumUSD) add(v *float64) {
	s.Total++
	if v == nil {
		return
	}
	s.Known++
	if s.Sum == nil {
		s.Sum = new(float64)
	}
	*s.Sum += *v
}

// settle is null where the sum is beyond what can be written.
func (s *SumUSD) settle() {
	if s.Sum != nil && math.IsInf(*s.Sum, 0) {
		s.Sum = nil
	}
	if s.Sum != nil {
		s.Mean = divide(*s.Sum, s.Known)
	}
}

// PerItem is a sum for each of Items; null unless every part of the sum is
// known and there is an item.
type PerItem struct {
	Sum   *float64 `json:"sum"`
	Items int64    `json:"items"`
	Value *float64 `json:"value"`
}

func (c *computer) cost(call *view.Call, selfReported bool) {
	k := &c.Cost
	k.Counted++
	count(&k.SelfReported, selfReported)
	count(&k.Inconsistent, call.Usage.Inconsistent)
	k.InputTokens.add(call.Usage.InputTokens)
	k.CachedTokens.add(call.Usage.CachedTokens)
	k.UncachedTokens.add(call.Usage.UncachedTokens)
	k.OutputTokens.add(call.Usage.OutputTokens)
	k.USD.add(call.Usage.CostUSD)
}

func (k *Cost) settle(useful int64) {
	k.USD.settle()
	k.USDPerUseful = PerItem{Sum: k.USD.Sum, Items: useful}
	if k.USD.Sum != nil && k.USD.Known == k.USD.Total {
		k.USDPerUseful.Value = divide(*k.USD.Sum, useful)
	}
}
