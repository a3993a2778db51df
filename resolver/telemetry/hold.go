package telemetry

import (
	"time"

	"assay/resolver/criterion"
)

// maxHeld is how many heartbeats and samples wait; of what is more the oldest
// go, without their heartbeats.
const maxHeld = 100_000

// hold keeps a source's heartbeats until nothing can be found missing around
// them any more, and takes away those around which something is.
//
// Where a window has samples of any signal of the source, a heartbeat vouches
// that there are no others, for as long as that signal's max_gap before and after
// it. So what is missing between from and to takes away all heartbeats from
// longer than any max_gap before from to as long after to: no window that holds
// a part of that time shows an absence, wherever its edges lie.
//
// Samples are not kept back. They are sent at once, and again with the
// heartbeats that vouch for them, so that a batch that was lost on the way does
// not leave the one without the other.
type hold struct {
	lateness time.Duration   // how late it may be found out that something is missing
	reach    time.Duration   // longer than any max_gap of the source's signals
	beats    map[string]bool // the signals that are some signal's heartbeat

	held  []held // in the order in which they came
	size  int    // heartbeats and samples in held, and one more for each
	until time.Time
	gaps  uint64
	why   string // of the newest gap
}

// held waits for its heartbeats, which a gap removes.
type held struct {
	time    time.Time
	samples []Sample
	beats   []Sample
	mark    string // the journal's cursor, "" for other sources
}

func (h *held) size() int { return 1 + len(h.samples) + len(h.beats) }

// newHold is that of a source with these signals.
func newHold(signals []criterion.Signal, lateness time.Duration) hold {
	h := hold{lateness: lateness, beats: make(map[string]bool)}
	for _, s := range signals {
		h.reach = max(h.reach, s.MaxGap+1)
		h.beats[s.Heartbeat] = true
	}
	return h
}

// begin says that nothing is known of the time before.
func (h *hold) begin(at time.Time) { h.until = at.Add(h.reach) }

// split tells heartbeats from other samples, in their order.
func (h *hold) split(samples []Sample) (rest, beats []Sample) {
	for _, s := range samples {
		if h.beats[s.Signal] {
			beats = append(beats, s)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, beats
}

// add keeps an entry, without heartbeats if it lies within a gap.
func (h *hold) add(e held) {
	if e.time.Before(h.until) {
		e.beats = nil
	}
	h.held = append(h.held, e)
	h.size += e.size()
}

// gap says that something may be missing between two times.
func (h *hold) gap(from, to time.Time, why string) {
	h.gaps++
	h.why = why
	if from.After(to) {
		from, to = to, from
	}
	lo, hi := from.Add(-h.reach), to.Add(h.reach)
	for i := range h.held {
		if e := &h.held[i]; e.time.After(lo) && e.time.Before(hi) {
			h.size -= len(e.beats)
			e.beats = nil
		}
	}
	if hi.After(h.until) {
		h.until = hi
	}
}

// doubt says at a time why heartbeats of it are withheld; "" where they are not.
func (h *hold) doubt(at time.Time) string {
	if at.Before(h.until) {
		return h.why
	}
	return ""
}

// due are the samples to send at a time, of the first n entries. They stay until
// drop, so that they can be sent again.
func (h *hold) due(now time.Time) (samples []Sample, n int) {
	for size := h.size; n < len(h.held); n++ {
		e := &h.held[n]
		whole := now.Sub(e.time) >= h.lateness+h.reach
		if !whole && size <= maxHeld {
			break
		}
		size -= e.size()
		samples = append(samples, e.samples...)
		if whole {
			samples = append(samples, e.beats...)
		}
	}
	return samples, n
}

// drop lets go of the first n entries, and returns the mark of the last.
func (h *hold) drop(n int) (mark string) {
	for i := range n {
		h.size -= h.held[i].size()
		mark = h.held[i].mark
	}
	clear(h.held[:n]) // append moves the rest to a new array now and then
	h.held = h.held[n:]
	return mark
}
