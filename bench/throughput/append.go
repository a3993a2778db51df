package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// message is a stored record with its subject.
type message struct {
	subject string
	body    []byte
}

// collect reads what the logger stored from seq first on, n messages.
func collect(ctx context.Context, h *house, first uint64, n int) ([]message, error) {
	nc, err := h.dial(principal.ReadOperator)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := broker.ReadAPI(nc)
	if err != nil {
		return nil, err
	}
	out := make([]message, 0, n)
	err = consume(ctx, js, first, func(m jetstream.Msg) bool {
		out = append(out, message{m.Subject(), m.Data()})
		return len(out) == n
	})
	return out, err
}

// consume hands out the messages of LEDGER from seq first on until fn says that
// it was the last.
func consume(ctx context.Context, js jetstream.JetStream, first uint64, fn func(jetstream.Msg) (last bool)) error {
	cons, err := js.OrderedConsumer(ctx, broker.LedgerStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(first, 1),
	})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	ended := false
	cc, err := cons.Consume(func(m jetstream.Msg) {
		if !ended && fn(m) {
			ended = true
			close(done)
		}
	}, jetstream.PullMaxBytes(stream.PullBytes))
	if err != nil {
		return err
	}
	defer cc.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Minute):
		return fmt.Errorf("the read from %d does not end", first)
	}
}

// bareAppend appends the messages to the stream of a fresh broker, in atomic
// batches of the sizes that the logger's were.
func bareAppend(ctx context.Context, scratch string, msgs []message, sizes []int) (s sample, err error) {
	h, err := openHouse(ctx, scratch, "bare")
	if err != nil {
		return s, err
	}
	defer func() {
		if cerr := h.close(); err == nil {
			err = cerr
		}
	}()
	nc, err := h.connect(principal.LoggerStore)
	if err != nil {
		return s, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return s, err
	}
	watch := start()
	n := 0
	for _, size := range sizes {
		size = min(size, len(msgs)-n)
		if size == 0 {
			break
		}
		if err := bareBatch(ctx, js, msgs[n:n+size]); err != nil {
			return s, fmt.Errorf("bare batch at %d: %w", n, err)
		}
		n += size
	}
	if n != len(msgs) {
		return s, fmt.Errorf("bare append: %d of %d messages", n, len(msgs))
	}
	return watch.stop(n), nil
}

func bareBatch(ctx context.Context, js jetstream.JetStream, msgs []message) error {
	if len(msgs) == 1 {
		_, err := js.Publish(ctx, msgs[0].subject, msgs[0].body)
		return err
	}
	out := make([]*nats.Msg, len(msgs))
	for i, m := range msgs {
		out[i] = &nats.Msg{Subject: m.subject, Data: m.body, Header: make(nats.Header, 2)}
	}
	_, err := jetstreamext.PublishMsgBatch(ctx, js, out, jetstreamext.BatchFlowControl{AckTimeout: 30 * time.Second})
	return err
}
