package main

import (
	"assay/ledger/broker"
)

// roomFlags say how much of a disk the ledger leaves alone. MiB are what
// operators think in here.
type roomFlags struct {
	LowWater int64 `help:"Room in MiB below which only the resolver and the operator may write; below half of it nobody." default:"256"`
	MaxStore int64 `help:"Most that the broker's streams may hold, in MiB. 0: as much as the disk has." default:"0"`
}

const mib = 1 << 20

func (f roomFlags) check() error {
	const least = broker.MinStore / mib
	switch {
	case f.LowWater <= 0:
		return usageError("--low-water must be positive")
	case f.MaxStore != 0 && f.MaxStore < least:
		return usageError("--max-store must be at least %d: the streams beside the ledger may take that much", least)
	case f.MaxStore > maxMiB || f.LowWater > maxMiB:
		return usageError("--low-water and --max-store are in MiB")
	}
	return nil
}

// maxMiB is the rendered store limit, beyond which nothing is meant.
const maxMiB = 1 << 30

func (f roomFlags) lowWater() uint64 { return uint64(f.LowWater) * mib }
func (f roomFlags) maxStore() int64  { return f.MaxStore * mib }
