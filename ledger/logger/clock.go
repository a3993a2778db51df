package logger

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"assay/events"
)

// Clock is the wall clock and, to check it, the monotonic one.
type Clock interface {
	Wall() time.Time
	// Monotonic is the time since some fixed point; it never steps.
	Monotonic() time.Duration
	// BootID names the running boot of the host; "unknown" where it has none.
	BootID() string
}

// SystemClock is the host's clock.
func SystemClock() Clock { return &systemClock{start: time.Now(), boot: bootID()} }

type systemClock struct {
	start time.Time
	boot  string
}

func (c *systemClock) Wall() time.Time          { return time.Now().Round(0) }
func (c *systemClock) Monotonic() time.Duration { return time.Since(c.start) }
func (c *systemClock) BootID() string           { return c.boot }

func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return cmp.Or(strings.TrimSpace(string(raw)), "unknown")
}

// maxDrift is how far wall and monotonic clock may disagree between two
// readings, beside the 500 µs a second by which NTP slews at most, before it
// counts as a step.
const maxDrift = 500 * time.Millisecond

// maxStep keeps a step within what clock.stepped can say.
const maxStep = 284 * 365 * 24 * time.Hour

// watch compares the two clocks between readings.
type watch struct {
	wall time.Time
	mono time.Duration
}

// read returns how far the wall clock stepped since the last reading, and how
// much time passed.
func (w *watch) read(c Clock) (step, passed time.Duration) {
	wall, mono := c.Wall(), c.Monotonic()
	if !w.wall.IsZero() {
		passed = mono - w.mono
		step = wall.Sub(w.wall) - passed
	}
	w.wall, w.mono = wall, mono
	if step.Abs() < maxDrift+passed/2000 {
		step = 0
	}
	return min(max(step, -maxStep), maxStep), passed
}

// readClock takes the time of the records that are chained next. A step since
// the last reading is recorded before any record that carries the time behind it.
func (w *writer) readClock() {
	step, passed := w.watch.read(w.l.cfg.Clock)
	w.idle += passed
	if step != 0 {
		w.stepped(step)
	}
}

// tick records after ten idle seconds that time went on; with standbys, after
// so few that none of them takes over.
func (w *writer) tick() {
	idle := idleTick
	if w.l.cfg.standby {
		idle = leaseTick
	}
	if w.idle >= idle {
		w.ticked()
	}
}

func (w *writer) ticked() {
	w.own(&events.ClockTicked{Context: ownContext(), BootID: w.l.cfg.Clock.BootID(), MonotonicDeltaNS: int64(w.idle)})
}

// compareClock records that the clock stands before the ledger's end: time went
// back while no logger ran.
func (w *writer) compareClock() {
	if step := w.l.cfg.Clock.Wall().Sub(w.head.time); step < -maxDrift {
		w.stepped(max(step, -maxStep))
	}
}

// stepped puts the step before whatever else the logger has to say.
func (w *writer) stepped(step time.Duration) {
	w.own(&events.ClockStepped{Context: ownContext(), BootID: w.l.cfg.Clock.BootID(), StepNS: int64(step)})
	if n := len(w.ownQueue); n > 1 {
		w.ownQueue = slices.Insert(w.ownQueue[:n-1:n-1], 0, w.ownQueue[n-1])
	}
}
