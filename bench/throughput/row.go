package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Row is one comparison.
type Row struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Assay   Spread `json:"assay"`
	Against Spread `json:"against"`
	// Ratio is that of the medians, assay's over the other's.
	Ratio float64 `json:"ratio"`
	// BestRatio is that of each side's best round, which a busy machine
	// disturbed least.
	BestRatio float64 `json:"best_ratio"`
	Target    float64 `json:"target"`
	AtMost    bool    `json:"at_most"` // the target is an upper bound
	Met       bool    `json:"met"`
	// Processor time in microseconds a record, over all processes that took
	// part, the load's included; zero where it was not measured.
	AssayCPU   Spread `json:"assay_cpu_us"`
	AgainstCPU Spread `json:"against_cpu_us"`
	// PeakMiB is the most memory that the assay side's process had, where it
	// is a process of its own.
	PeakMiB float64 `json:"peak_mib,omitzero"`
	Note    string  `json:"note"`
}

// Spread is what several rounds gave.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return Spread{v[0], median, v[len(v)-1]}
}

func (s Spread) text(unit string) string {
	if s.Median == 0 {
		return "–"
	}
	format := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	if unit == "/s" {
		format = func(v float64) string { return fmt.Sprintf("%.1fk", v/1000) }
	}
	return fmt.Sprintf("%s%s (%s–%s)", format(s.Median), unit, format(s.Min), format(s.Max))
}

// sample is one timed run of one side.
type sample struct {
	records int
	wall    time.Duration
	cpu     time.Duration
}

func (s sample) rate() float64  { return float64(s.records) / s.wall.Seconds() }
func (s sample) cpuUS() float64 { return float64(s.cpu.Nanoseconds()) / 1e3 / float64(s.records) }

// side collects the rounds of one side.
type side []sample

func (s side) rates() Spread {
	var v []float64
	for _, x := range s {
		v = append(v, x.rate())
	}
	return spread(v)
}

func (s side) cpu() Spread {
	var v []float64
	for _, x := range s {
		v = append(v, x.cpuUS())
	}
	return spread(v)
}

func rateRow(name string, assay, against side, target float64, note string) Row {
	r := Row{
		Name: name, Unit: "/s", Assay: assay.rates(), Against: against.rates(), Target: target,
		AssayCPU: assay.cpu(), AgainstCPU: against.cpu(), Note: note,
	}
	r.Ratio = r.Assay.Median / r.Against.Median
	r.BestRatio = r.Assay.Max / r.Against.Max
	r.Met = r.Ratio >= target
	return r
}

// stopwatch measures wall and processor time of this process.
type stopwatch struct {
	wall time.Time
	cpu  time.Duration
}

func start() stopwatch {
	runtime.GC() // the other side's garbage is not this one's
	return stopwatch{time.Now(), cpuTime()}
}

func (w stopwatch) stop(records int) sample {
	return sample{records: records, wall: time.Since(w.wall), cpu: cpuTime() - w.cpu}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machine names the processors and how busy they were at the start.
func machine() string {
	text := fmt.Sprintf("%d × %s", runtime.NumCPU(), runtime.GOARCH)
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return text
	}
	load, _, _ := strings.Cut(string(raw), " ")
	return text + ", load average " + load + " at the start"
}
