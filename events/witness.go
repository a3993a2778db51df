package events

import "slices"

// IsImported says whether the record was written down elsewhere and brought in later:
// what it says of the order of things is nobody's observation, and it acts on nothing
// live.
func (c *Context) IsImported() bool { return c.Capture != nil && *c.Capture == WitnessImported }

// Witnesses of a tool call, a charge or an episode, the best first; all but the first
// and the agent's are words of context.capture. Of one thing the best witness's record
// counts whole, whichever came first, and of one witness the first.
const (
	WitnessDispatcher = "dispatcher" // or harness, where it stands in for it
	WitnessHook       = "hook"       // a client's hook, as an observer passed it on
	WitnessOTLP       = "otlp"       // a client's telemetry, as an observer passed it on
	WitnessAgent      = "agent"      // her own word
	WitnessImported   = "imported"   // whoever wrote it down
)

var witnesses = []string{WitnessDispatcher, WitnessHook, WitnessOTLP, WitnessAgent, WitnessImported}

// WitnessRank is smaller for a better witness.
func WitnessRank(witness string) int { return slices.Index(witnesses, witness) }

// WitnessOf says whose word a record is. The role of its writer decides, which the
// logger vouches for; context.capture can only say that a record is worth less than
// what an observer saw for itself.
func WitnessOf(role string, c *Context) string {
	switch {
	case c.IsImported():
		return WitnessImported
	case role != "dispatcher" && role != "harness":
		return WitnessAgent
	case c.Capture != nil && (*c.Capture == WitnessHook || *c.Capture == WitnessOTLP):
		return *c.Capture
	}
	return WitnessDispatcher
}

// SameEpisode says whether two records, "" for one that names no episode, can tell of
// one thing.
func SameEpisode(a, b string) bool { return a == b || a == "" || b == "" }
