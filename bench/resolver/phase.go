package main

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"assay/bench/house"
)

// Phase is what was seen in one phase. Figures of 0 were not seen.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	// Samples and records a second: taken by the sensors, in the segments that
	// the ledger named, and in the ledger.
	Offered float64 `json:"offered"`
	Sealed  float64 `json:"sealed"`
	Records float64 `json:"records"`
	// Verdicts that were due and that were given in the phase.
	Due   int `json:"due"`
	Given int `json:"given"`
	// Open predictions at its end.
	Open int `json:"open"`
	// Behind is how many records the resolver's fold was behind the checkpoint,
	// at most and at the end. Watermark is how far the last sealed heartbeat of
	// the slowest source was behind the clock, in seconds.
	Behind       uint64  `json:"behind_max"`
	BehindEnd    uint64  `json:"behind_end"`
	Watermark    float64 `json:"watermark_max_s"`
	WatermarkEnd float64 `json:"watermark_end_s"`
	Acks         Latency `json:"acks"`
	// Processes by service; load is this process, with the sensors and the probe.
	Processes map[string]Process `json:"processes"`

	began, ended time.Time
	offered      int64
	usage        map[string]house.Usage // at its beginning
}

func (p *Phase) contains(t time.Time) bool { return !t.Before(p.began) && t.Before(p.ended) }

// Process is what a process took in a phase.
type Process struct {
	Cores   float64 `json:"cores"`    // processor time ÷ time
	RSSMiB  float64 `json:"rss_mib"`  // at the end
	PeakMiB float64 `json:"peak_mib"` // since its start
}

// services in the order in which they start.
var services = []string{"broker", "logger", "projector", "ingress", "resolver"}

// sockets are their status sockets in DIR/run.
func socketOf(service string) string {
	if service == "projector" {
		return "assay.sock"
	}
	return service + ".sock"
}

// recorder sees the phases.
type recorder struct {
	h       *house.House
	offered atomic.Int64 // samples that sensors took

	mu        sync.Mutex
	processes map[string]*house.Process
	phases    []*Phase
	now       *Phase
	noted     time.Time // when the resolver gave the last answer that was noted
}

func newRecorder(h *house.House) *recorder {
	return &recorder{h: h, processes: map[string]*house.Process{}}
}

// start starts a service and waits until it answers.
func (r *recorder) start(ctx context.Context, name string, args ...string) error {
	p, err := r.h.Start(ctx, append([]string{"serve", name}, args...)...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.processes[name] = p
	r.mu.Unlock()
	_, err = r.h.Until(ctx, p, socketOf(name), func(house.Status) bool { return true })
	return err
}

func (r *recorder) process(name string) *house.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.processes[name]
}

// begin ends the phase that goes on and begins the next; "" is none.
func (r *recorder) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, usage := time.Now(), r.usage()
	if p := r.now; p != nil {
		p.ended, p.Seconds = at, at.Sub(p.began).Seconds()
		p.Offered = float64(r.offered.Load()-p.offered) / p.Seconds
		for name, u := range usage {
			used := u.CPU - p.usage[name].CPU
			if used < 0 {
				used = u.CPU // it was started anew
			}
			p.Processes[name] = Process{used.Seconds() / p.Seconds, u.RSSMiB, u.PeakMiB}
		}
		r.phases = append(r.phases, p)
		r.now = nil
	}
	if name != "" {
		r.now = &Phase{Name: name, Processes: map[string]Process{}, began: at, offered: r.offered.Load(), usage: usage}
	}
}

func (r *recorder) usage() map[string]house.Usage {
	out := map[string]house.Usage{"load": house.UsageOf(os.Getpid())}
	for name, p := range r.processes {
		out[name] = p.Usage()
	}
	return out
}

// watch looks at logger and resolver four times a second until ctx ends.
func (r *recorder) watch(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		logger, err := r.h.Ask(ctx, socketOf("logger"))
		if err != nil || logger.Logger == nil {
			continue
		}
		resolver, err := r.h.Ask(ctx, socketOf("resolver"))
		if err != nil || resolver.Resolver == nil {
			continue // it starts again
		}
		r.note(time.Now(), logger, resolver)
	}
}

// note takes what the two answered, the resolver at the time at. An answer that
// is older than the last one is passed over.
func (r *recorder) note(at time.Time, logger, resolver house.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.now
	if p == nil || at.Before(r.noted) {
		return
	}
	r.noted = at
	p.BehindEnd = 0
	if at := resolver.Resolver.Applied; at < logger.Logger.CheckpointSize {
		p.BehindEnd = logger.Logger.CheckpointSize - at
	}
	p.Behind = max(p.Behind, p.BehindEnd)
	p.Open = resolver.Resolver.Open
	var slowest time.Time
	for _, at := range resolver.Resolver.Watermarks {
		if slowest.IsZero() || at.Before(slowest) {
			slowest = at
		}
	}
	if slowest.Unix() > 0 {
		p.WatermarkEnd = time.Since(slowest).Seconds()
		p.Watermark = max(p.Watermark, p.WatermarkEnd)
	}
}
