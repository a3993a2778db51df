package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"assay/bench/house"
	"assay/bench/workload"
	"assay/events"
	"assay/events/publish"
	"assay/internal/principal"
	"assay/ledger/broker"
)

const (
	// messageEvents are in one intake message, of which messageFlight are
	// unanswered at a time.
	messageEvents = 200
	messageFlight = 4
	// probePause is between an ack and the next event of the probe.
	probePause = 10 * time.Millisecond
)

// dial connects as a principal, as a client of its own would.
func dial(h *house.House, user string) (*nats.Conn, error) {
	url, err := broker.ReadURL(h.Dir)
	if err != nil {
		return nil, err
	}
	cred, err := principal.LoadCredential(principal.Dir(h.Dir).Credential(user))
	if err != nil {
		return nil, err
	}
	return broker.Dial(url, cred)
}

const predictor = "agent/piper"

func predID(i int) string { return fmt.Sprintf("p-%07d", i) }

// predict publishes n predictions. The window of prediction i opens at
// first + i/n × spread by the clock, however long all this takes.
func (w *world) predict(ctx context.Context, h *house.House, n int, first time.Time, spread time.Duration) error {
	nc, err := dial(h, "agent.piper")
	if err != nil {
		return err
	}
	defer nc.Close()
	client := publish.New(nc, predictor)
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		mu    sync.Mutex
		fault error
	)
	for range messageFlight {
		wg.Go(func() {
			for ctx.Err() == nil {
				from := int(next.Add(messageEvents)) - messageEvents
				if from >= n {
					return
				}
				if err := w.publish(ctx, client, from, min(n, from+messageEvents), func(i int) time.Time {
					return first.Add(time.Duration(float64(spread) * float64(i) / float64(n)))
				}); err != nil {
					mu.Lock()
					fault = errors.Join(fault, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(fault, ctx.Err())
}

// publish sends the predictions of [from, to) as one message.
func (w *world) publish(ctx context.Context, c *publish.Client, from, to int, opens func(int) time.Time) error {
	var batch [][]byte
	for i := from; i < to; i++ {
		e, err := events.Maker{Source: "urn:bench:piper"}.New(&events.PredictionRecorded{
			PredID: predID(i), PredictedEffect: "the level stays where it is said to", P: 0.7,
			Criterion: jsontext.Value(w.criterion(i, max(0, time.Until(opens(i))))),
		})
		if err != nil {
			return err
		}
		raw, err := events.Encode(e)
		if err != nil {
			return err
		}
		batch = append(batch, raw)
	}
	answers, err := c.PublishBatch(ctx, batch)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Refusal != nil {
			return a.Refusal
		}
	}
	return nil
}

// ack is one event of the probe.
type ack struct {
	at   time.Time // when it was sent
	took time.Duration
}

// probe publishes one event at a time as the dispatcher and times each ack,
// until ctx ends.
func probe(ctx context.Context, h *house.House) ([]ack, error) {
	who := workload.Authors[0]
	nc, err := dial(h, who.User)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	client := publish.New(nc, "dispatcher/main")
	mix := workload.New()
	var acks []ack
	for {
		raw, _, err := mix.Event(who)
		if err != nil {
			return acks, err
		}
		sent := time.Now()
		_, err = client.Publish(ctx, raw)
		if ctx.Err() != nil {
			return acks, nil
		}
		if err != nil {
			return acks, fmt.Errorf("probe: %w", err)
		}
		acks = append(acks, ack{sent, time.Since(sent)})
		time.Sleep(probePause)
	}
}

// Latency is the spread of some times, in milliseconds.
type Latency struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func latencyOf(took []time.Duration) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return Latency{len(took), ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1])}
}
