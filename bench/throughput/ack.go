package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/bench/workload"
	"assay/internal/principal"
)

// latencies of one side, in microseconds, over all rounds: the median of each
// round, and the 99th percentile of each.
type latencies struct{ p50, p99 []float64 }

func (l *latencies) add(took []time.Duration) {
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	l.p50 = append(l.p50, us(took[len(took)/2]))
	l.p99 = append(l.p99, us(took[len(took)*99/100]))
}

// timed calls fn n times, one after another.
func timed(n int, fn func(i int) error) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range n {
		t := time.Now()
		if err := fn(i); err != nil {
			return nil, err
		}
		took[i] = time.Since(t)
	}
	return took, nil
}

// ackRow publishes one event at a time as an agent, and, on the other side,
// the same bytes straight to a stream; both over loopback.
func ackRow(ctx context.Context, o options, h, bare *house, m *workload.Mix) (Row, error) {
	agent := workload.Authors[1]
	client, err := h.dial(agent.User)
	if err != nil {
		return Row{}, err
	}
	defer client.Close()
	nc, err := bare.dial(principal.LoggerStore)
	if err != nil {
		return Row{}, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return Row{}, err
	}
	var ours, theirs latencies
	for range o.rounds {
		events := make([][]byte, o.acks)
		for i := range events {
			if events[i], _, err = m.Event(agent); err != nil {
				return Row{}, err
			}
		}
		took, err := timed(o.acks, func(i int) error {
			n, err := request(ctx, client, "intake."+agent.User, events[i])
			if err == nil && n != 1 {
				err = fmt.Errorf("%d receipts for one event", n)
			}
			return err
		})
		if err != nil {
			return Row{}, err
		}
		ours.add(took)
		took, err = timed(o.acks, func(i int) error {
			_, err := js.Publish(ctx, "ledger.claim.recorded", events[i])
			return err
		})
		if err != nil {
			return Row{}, err
		}
		theirs.add(took)
	}
	r := Row{Name: "ack", Unit: "µs", Assay: spread(ours.p50), Against: spread(theirs.p50), Target: 2, AtMost: true}
	r.Ratio = r.Assay.Median / r.Against.Median
	r.BestRatio = r.Assay.Min / r.Against.Min
	r.Met = r.Ratio <= r.Target
	p, q := spread(ours.p99), spread(theirs.p99)
	r.Note = fmt.Sprintf("p50; p99 %.0f µs against %.0f µs, %.2f", p.Median, q.Median, p.Median/q.Median)
	return r, nil
}
