package view

import "assay/projector"

// PriceList is every price of the ledger that was not imported.
type PriceList []Price

// ReadPrices reads the price list.
func ReadPrices(s *projector.State) (all PriceList, err error) {
	err = ListPrices(s, func(p *Price) error {
		if !p.Imported {
			all = append(all, *p)
		}
		return nil
	})
	return all, err
}

// Cost is what a usage's tokens cost at the price of their date, in billionths of
// a dollar; nil where a number of tokens, or the price of any, is unknown.
func (l PriceList) Cost(u *Spent) *int64 { return priceOf(l, u).cost(&u.Usage) }

// ChargedNanoUSD is what the usage was reported to cost, in billionths of a dollar.
func (u *Usage) ChargedNanoUSD() *int64 { return fixed(u.CostUSD, nanoPerUSD) }

// CPUUS and GPUUS are the usage's times of computation in microseconds.
func (u *Spent) CPUUS() *int64 { return fixed(u.CPUSeconds, 1e6) }

// GPUUS is described with CPUUS.
func (u *Spent) GPUUS() *int64 { return fixed(u.GPUSeconds, 1e6) }

// LatencyUS is the usage's latency in microseconds.
func (u *Usage) LatencyUS() *int64 { return fixed(u.LatencyMS, 1e3) }
