package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"assay/bench/house"
)

const (
	// maxAckRatio is how much slower the ack's p99 may be under the load than
	// when it is quiet.
	maxAckRatio = 5
	// slack is how late a watermark or a verdict may be beyond the time for
	// which samples stay unsealed.
	slack = 5 * time.Second
	// patience bounds every wait for what has to come.
	patience = 15 * time.Minute
)

// Restart is how long a resolver takes that starts with all predictions open.
type Restart struct {
	Name      string  `json:"name"`
	Stop      float64 `json:"stop_s,omitzero"` // until it had saved its fold and ended
	Seconds   float64 `json:"seconds"`         // until it had caught up again
	Records   uint64  `json:"records"`         // in the ledger then
	Open      int     `json:"open"`            // predictions
	StateMiB  float64 `json:"state_mib,omitzero"`
	PeakMiB   float64 `json:"peak_mib"`
	SavedFold bool    `json:"saved_fold"`
}

// measure runs the phases; a failure of one ends the run.
func measure(ctx context.Context, o options, w *world, h house.House, report *Report) error {
	if err := w.prepare(ctx, &h); err != nil {
		return err
	}
	r := newRecorder(&h)
	for _, name := range services {
		var args []string
		switch name {
		case "broker":
			args = []string{"--port", "0"}
		case "resolver":
			args = []string{"--seal", o.seal.String()}
		}
		if err := r.start(ctx, name, args...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	during, stop := context.WithCancel(ctx)
	defer stop()
	go r.watch(during)
	type probed struct {
		acks []ack
		err  error
	}
	probing := make(chan probed, 1)
	go func() {
		acks, err := probe(during, &h)
		probing <- probed{acks, err}
	}()
	err := r.phasesOf(ctx, o, w, report)
	ingress, askErr := h.Ask(ctx, socketOf("ingress"))
	stop()
	p := <-probing
	if err := errors.Join(err, askErr, p.err); err != nil {
		return err
	}
	if err := w.readLedger(ctx, &h, o.predictions, r.phases, report); err != nil {
		return err
	}
	r.acks(p.acks, report)
	if err := r.checks(o, w, ingress, report); err != nil {
		return err
	}
	return r.stop()
}

// phasesOf puts the load on and takes it away.
func (r *recorder) phasesOf(ctx context.Context, o options, w *world, report *Report) error {
	r.begin("quiet")
	if err := sleep(ctx, o.quiet); err != nil {
		return err
	}
	r.begin("intake")
	sensing, silence := context.WithCancel(ctx)
	wait, err := w.sense(sensing, r.h, &r.offered)
	if err != nil {
		silence()
		return err
	}
	defer wait()
	defer silence()
	opens := time.Now().Add(o.open)
	if err := w.predict(ctx, r.h, o.predictions, opens, o.settle); err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	r.begin("arming")
	if err := r.armed(ctx, o.predictions); err != nil {
		return fmt.Errorf("arming: %w", err)
	}
	r.begin("restart")
	for _, saved := range []bool{true, false} {
		again, err := r.restart(ctx, o, saved)
		if err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		report.Restarts = append(report.Restarts, again)
	}
	r.begin("open")
	if err := sleep(ctx, time.Until(opens)); err != nil {
		return err
	}
	r.begin("settling")
	if err := sleep(ctx, time.Until(opens.Add(o.settle+windowLength))); err != nil {
		return err
	}
	r.begin("after")
	if err := r.settled(ctx); err != nil {
		return err
	}
	r.begin("")
	return nil
}

// armed waits until every prediction is open, and until the resolver has folded
// what it said of that itself.
func (r *recorder) armed(ctx context.Context, n int) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := r.h.Until(within, r.process("resolver"), socketOf("resolver"), func(s house.Status) bool {
		return s.Resolver != nil && s.Resolver.Open >= n
	})
	if err == nil {
		_, err = r.caughtUp(ctx)
	}
	return err
}

// caughtUp waits until the resolver has folded what the ledger holds now.
func (r *recorder) caughtUp(ctx context.Context) (house.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	st, err := r.h.Ask(ctx, socketOf("logger"))
	if err != nil {
		return st, err
	}
	size, last := st.Logger.Size, house.Status{}
	_, err = r.h.Until(ctx, r.process("resolver"), socketOf("resolver"), func(s house.Status) bool {
		last = s
		// Before the first catching up there is no ledger time.
		return s.Resolver != nil && s.Resolver.Applied >= size && !s.Resolver.LedgerTime.IsZero()
	})
	return last, err
}

// settled waits until no prediction is open, and takes the phase's last look then.
func (r *recorder) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, at := house.Status{}, time.Time{}
	_, err := r.h.Until(ctx, r.process("resolver"), socketOf("resolver"), func(s house.Status) bool {
		last, at = s, time.Now()
		return s.Resolver != nil && s.Resolver.Open == 0
	})
	if err != nil {
		return err
	}
	logger, err := r.h.Ask(ctx, socketOf("logger"))
	if err != nil {
		return err
	}
	r.note(at, logger, last)
	return nil
}

// restart stops the resolver and starts it with its saved fold, or kills it and
// starts it without.
func (r *recorder) restart(ctx context.Context, o options, saved bool) (Restart, error) {
	state := filepath.Join(r.h.Dir, "resolver", "state")
	out := Restart{Name: "killed, fold from record 1", SavedFold: saved}
	old := r.process("resolver")
	began := time.Now()
	if saved {
		out.Name = "stopped, saved fold"
		if err := old.Stop(syscall.SIGTERM); err != nil {
			return out, err
		}
		out.Stop = time.Since(began).Seconds()
		info, err := os.Stat(state)
		if err != nil {
			return out, err
		}
		out.StateMiB = float64(info.Size()) / (1 << 20)
	} else {
		if err := old.Stop(os.Kill); err != nil {
			return out, err
		}
		if err := os.Remove(state); err != nil {
			return out, err
		}
	}
	began = time.Now()
	if err := r.start(ctx, "resolver", "--seal", o.seal.String()); err != nil {
		return out, err
	}
	st, err := r.caughtUp(ctx)
	if err != nil {
		return out, err
	}
	out.Seconds, out.Records, out.Open = time.Since(began).Seconds(), st.Resolver.Applied, st.Resolver.Open
	out.PeakMiB = r.process("resolver").Usage().PeakMiB
	return out, nil
}

// acks sorts the probe's acks into the phases.
func (r *recorder) acks(acks []ack, report *Report) {
	for i := range report.Phases {
		p := &report.Phases[i]
		var took []time.Duration
		for _, a := range acks {
			if p.contains(a.at) {
				took = append(took, a.took)
			}
		}
		p.Acks = latencyOf(took)
	}
}

// lostBatches names the check that nothing was lost on the way to the buffer.
const lostBatches = "batches that the ingress refused, dropped or lost"

func (r *recorder) checks(o options, w *world, ingress house.Status, report *Report) error {
	t, v := ingress.Telemetry, report.Verdicts
	if t == nil {
		return errors.New("the ingress's status has no figures of its telemetry")
	}
	report.check("predictions without their one right verdict", float64(v.Wrong+v.Twice+v.Missing), 0, "")
	report.check(lostBatches, float64(t.Refused+t.Dropped+t.Lost), 0, "")
	unsealed := float64(r.offered.Load()-report.Segments.Samples) / float64(w.rate()+w.sensors)
	report.check("samples offered and not sealed at the end", unsealed, (o.seal + slack).Seconds(), "s")
	report.check("verdict after it was due, p99", v.Lag.P99/1e3, (o.seal + slack).Seconds(), "s")
	var quiet float64
	for _, p := range report.Phases {
		switch p.Name {
		case "quiet":
			quiet = p.Acks.P99
		case "open", "settling":
			if p.Acks.N == 0 {
				report.check(p.Name+": too short to be measured, raise --open", 1, 0, "")
				continue
			}
			behind := p.Watermark
			if p.Name == "open" {
				behind = p.WatermarkEnd // before, it may still make up for the restarts
			}
			report.check("watermark behind the clock, "+p.Name, behind, (o.seal + slack).Seconds(), "s")
			report.check("ack p99 against quiet, "+p.Name, p.Acks.P99/quiet, maxAckRatio, "×")
		}
	}
	return nil
}

// stop ends the services, the last one first.
func (r *recorder) stop() error {
	for i := range services {
		name := services[len(services)-1-i]
		if err := r.process(name).Stop(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
