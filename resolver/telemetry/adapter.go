package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/resolver/criterion"
)

// Adapter turns a foreign source into samples.
//
// A sample's identity follows from what the source says alone: read twice, also
// by an adapter that started again, it has the same stream, sequence number and
// content, so that repeats do no harm. What a source leaves out is a gap and is
// never filled. The adapter's own heartbeat, the signal of its source for which
// criterion.Signal.IsOwnHeartbeat is true, tells how far it has come; it is sent
// with or after everything that it vouches for, and not at all for a time that
// the adapter cannot vouch for.
type Adapter interface {
	// Run reads and sends until ctx ends, and returns ctx's error or one that
	// no waiting mends. What fails for now it logs and tries again.
	Run(ctx context.Context, out Sink) error
	// Stats counts what happened so far.
	Stats() AdapterStats
}

// AdapterStats counts since the start.
type AdapterStats struct {
	Sent     uint64    `json:"sent"`           // samples that the broker took
	Failed   uint64    `json:"failed"`         // reads or deliveries that failed; they are tried again
	Refused  uint64    `json:"refused"`        // inputs that were malformed or too large
	LeftOut  uint64    `json:"left_out"`       // series, alerts, entries or records that no sample can stand for
	Warnings uint64    `json:"warnings"`       // remarks of the source on its own answers
	UpTo     time.Time `json:"up_to,omitzero"` // newest heartbeat
	Error    string    `json:"error,omitzero"` // why the last read or delivery failed; empty once one succeeded
	Doubt    string    `json:"doubt,omitzero"` // why the newest heartbeats were withheld; empty once they are taken again
}

// Sink takes an adapter's samples; each carries its stream.
type Sink interface {
	// Send hands the samples over in their order and returns nil once the
	// broker has them all. After an error any part of them may have arrived,
	// and they may be sent again.
	Send(ctx context.Context, samples []Sample) error
}

// Cursor keeps what an adapter needs to go on after a restart.
type Cursor interface {
	// Load returns nil if nothing was saved.
	Load() ([]byte, error)
	// Save replaces what was saved; it survives a crash.
	Save([]byte) error
}

// loadState reads what a cursor keeps into a struct, whose member v must be 1;
// false if nothing was saved. The error names what it is, and says what happens
// without it.
func loadState(c Cursor, into any, v *int64, what, without string) (bool, error) {
	raw, err := c.Load()
	if err != nil || raw == nil {
		return false, err
	}
	err = json.Unmarshal(raw, into, json.RejectUnknownMembers(true))
	if err == nil && *v != 1 {
		err = fmt.Errorf("version %d, want 1", *v)
	}
	if err != nil {
		return false, fmt.Errorf("%s cannot be read: %w; without it %s", what, err, without)
	}
	return true, nil
}

// Wait pauses for d, and returns ctx's error if that ends first.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNotConnected means that the broker cannot be reached now.
var ErrNotConnected = errors.New("not connected to the broker")

// flushTimeout is how long the broker may take to answer for what it was sent.
const flushTimeout = 5 * time.Second

// NATSSink sends on a sensor's own connection.
type NATSSink struct {
	Conn   *nats.Conn
	Source string
}

// Send implements Sink: nothing is left to the client's buffer.
func (s NATSSink) Send(ctx context.Context, samples []Sample) error {
	if !s.Conn.IsConnected() {
		return ErrNotConnected
	}
	batches, err := encodeBatches(samples)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := s.Conn.Publish(Subject(s.Source), b); err != nil {
			return fmt.Errorf("publish telemetry: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := s.Conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("publish telemetry: %w", err)
	}
	return nil
}

// encodeBatches cuts samples into batches within the limits, in their order.
func encodeBatches(samples []Sample) ([][]byte, error) {
	var out [][]byte
	for part := range slices.Chunk(samples, MaxBatchSamples) {
		batch, err := EncodeBatch("", part)
		if err != nil {
			return nil, err
		}
		if len(batch) <= MaxBatch {
			out = append(out, batch)
			continue
		}
		if len(part) == 1 {
			return nil, fmt.Errorf("%w: a sample of %d bytes", ErrBatch, len(batch))
		}
		for _, half := range [][]Sample{part[:len(part)/2], part[len(part)/2:]} {
			batches, err := encodeBatches(half)
			if err != nil {
				return nil, err
			}
			out = append(out, batches...)
		}
	}
	return out, nil
}

// streamOf names the stream of one series. What else tells two streams of its
// labels apart, such as the start of an alert, goes into also.
func streamOf(kind, signal string, labels map[string]string, also string) string {
	h := sha256.New()
	h.Write(criterion.AppendLabels(nil, labels))
	h.Write([]byte(signal + "\n" + also))
	return kind + "-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// tally keeps an adapter's AdapterStats.
type tally struct {
	mu sync.Mutex
	st AdapterStats
}

// Stats implements Adapter.
func (t *tally) Stats() AdapterStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.st
}

func (t *tally) note(change func(*AdapterStats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.st)
}

// sent notes samples that the broker took, and how far heartbeats have come.
func (t *tally) sent(samples []Sample, heartbeat string) {
	t.note(func(st *AdapterStats) {
		st.Sent += uint64(len(samples))
		for i := range samples {
			if s := &samples[i]; s.Signal == heartbeat && s.Time.After(st.UpTo) {
				st.UpTo = s.Time
			}
		}
	})
}
