package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/bench/house"
	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// Segments are those that the ledger names.
type Segments struct {
	N          int     `json:"n"`
	Samples    int64   `json:"samples"`
	MaxSamples int64   `json:"max_samples"`
	MaxBytes   int64   `json:"max_bytes"`
	Bytes      float64 `json:"bytes_per_sample"`
	// Delay is from a segment's watermark to its record.
	Delay Latency `json:"delay"`
}

// Verdicts are those of the predictions, held against what their criteria were
// made for.
type Verdicts struct {
	Given map[string]int `json:"given"` // by verdict
	// Wrong ones are another verdict, Twice a second one, Missing none.
	Wrong   int `json:"wrong"`
	Twice   int `json:"twice"`
	Missing int `json:"missing"`
	// Reasons of the wrong ones.
	Reasons map[string]int `json:"reasons,omitzero"`
	// Lag is from when the clock reached the window's end and the lateness, or
	// the expiry, to the verdict's record; of those that no sample decided.
	Lag Latency `json:"lag"`
}

// readLedger fills in what only the ledger tells.
func (w *world) readLedger(ctx context.Context, h *house.House, n int, phases []*Phase, report *Report) error {
	nc, err := dial(h, principal.ReadOperator)
	if err != nil {
		return err
	}
	defer nc.Close()
	s, err := stream.New(nc, stream.Config{APIPrefix: broker.ReadPrefix})
	if err != nil {
		return err
	}
	l := &reading{
		w: w, blobs: filepath.Join(h.Dir, "blobs"), phases: phases, ends: make(map[string]time.Time, n), seen: make(map[string]bool, n),
		segments: &Segments{}, verdicts: &Verdicts{Given: map[string]int{}, Reasons: map[string]int{}}, report: report,
	}
	head, err := s.Head(ctx)
	if err != nil {
		return err
	}
	if err := s.Read(ctx, 1, head.Last, l.record); err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	l.verdicts.Missing = n - len(l.seen)
	l.verdicts.Lag = latencyOf(l.lags)
	l.segments.Delay = latencyOf(l.delays)
	if l.segments.Samples > 0 {
		l.segments.Bytes = float64(l.bytes) / float64(l.segments.Samples)
	}
	report.Segments, report.Verdicts = l.segments, l.verdicts
	for _, p := range phases {
		p.Sealed /= p.Seconds
		p.Records /= p.Seconds
		report.Phases = append(report.Phases, *p)
	}
	return nil
}

// reading folds the ledger.
type reading struct {
	w        *world
	blobs    string
	phases   []*Phase
	ends     map[string]time.Time // of the windows, by prediction
	seen     map[string]bool      // has a verdict
	lags     []time.Duration
	delays   []time.Duration
	bytes    int64
	segments *Segments
	verdicts *Verdicts
	report   *Report
}

func (l *reading) phase(t time.Time) *Phase {
	for _, p := range l.phases {
		if p.contains(t) {
			return p
		}
	}
	return &Phase{} // between two
}

func (l *reading) record(seq ledger.Seq, body []byte) error {
	rec, err := ledger.ParseRecord(body)
	if err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	p := l.phase(rec.RecordedAt)
	p.Records++
	if rec.Principal != "resolver/main" {
		return nil
	}
	ev, err := events.Decode(rec.Event)
	if err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	switch d := ev.Data.(type) {
	case *events.PredictionArmed:
		end, _ := events.Time(&d.WindowEnd)
		l.ends[d.PredID] = end
	case *events.TelemetrySealed:
		p.Sealed += float64(d.Samples)
		return l.segment(rec, d)
	case *events.PredictionResolved:
		p.Given++
		return l.verdict(rec, d)
	}
	return nil
}

func (l *reading) segment(rec ledger.Record, d *events.TelemetrySealed) error {
	l.segments.N++
	l.segments.Samples += d.Samples
	l.segments.MaxSamples = max(l.segments.MaxSamples, d.Samples)
	if mark, ok := events.Time(&d.Watermark); ok {
		l.delays = append(l.delays, rec.RecordedAt.Sub(mark))
	}
	info, err := os.Stat(filepath.Join(l.blobs, d.SHA256[:2], d.SHA256))
	if err != nil {
		return err
	}
	l.bytes += info.Size()
	l.segments.MaxBytes = max(l.segments.MaxBytes, info.Size())
	return nil
}

func (l *reading) verdict(rec ledger.Record, d *events.PredictionResolved) error {
	var i int
	if _, err := fmt.Sscanf(d.PredID, "p-%d", &i); err != nil {
		return errors.New("a verdict on a prediction that nobody made: " + d.PredID)
	}
	if l.seen[d.PredID] {
		l.verdicts.Twice++
	}
	l.seen[d.PredID] = true
	l.verdicts.Given[d.Verdict]++
	p, _, _ := l.w.promiseOf(i)
	if p.verdict != d.Verdict {
		l.verdicts.Wrong++
		reason := "none"
		if d.Reason != nil {
			reason = *d.Reason
		}
		l.verdicts.Reasons[d.Verdict+" for "+reason]++
	}
	due := l.ends[d.PredID].Add(lateness)
	switch d.Verdict {
	case "refuted": // by a sample
		return nil
	case "unresolved":
		expires, err := time.ParseDuration(p.expires)
		if err != nil {
			return err
		}
		due = l.ends[d.PredID].Add(expires)
	}
	l.phase(due).Due++
	l.lags = append(l.lags, rec.RecordedAt.Sub(due))
	return nil
}
