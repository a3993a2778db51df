// Package heap bounds the memory of processes that stream a ledger.
package heap

import (
	"os"
	"runtime/debug"
)

const (
	// limit is what such a process may hold, dead objects included, before the
	// collector runs ahead of its schedule. It needs about half of that, whatever
	// the ledger's length; the scratch store of a replay keeps some 50 MiB beside it.
	limit = 128 << 20
	// percent lets the heap grow to the limit: what is collected less often costs less.
	percent = 300
)

// Bound sets the limit, unless the user set GOMEMLIMIT or GOGC.
func Bound() {
	if os.Getenv("GOMEMLIMIT") == "" && os.Getenv("GOGC") == "" {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
