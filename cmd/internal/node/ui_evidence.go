package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/projector/ui"
	"assay/projector/view"
	"assay/resolver"
	"assay/resolver/criterion"
)

// What a drawing reads and shows at most.
const (
	maxDrawnSegments = 500
	maxDrawnSamples  = 50_000
	maxDrawnPoints   = 1000
)

// Evidence implements ui.Source: the sealed samples of the prediction's window, and
// what the criterion makes of them.
func (u *UISource) Evidence(ctx context.Context, p *view.Prediction) (*ui.Evidence, error) {
	out := &ui.Evidence{}
	final := p.Final()
	if final == nil || p.Armed == nil {
		out.Note = "Its window never opened, so that no telemetry was looked at."
		return out, nil
	}
	c, err := u.criterionOf(ctx, p.Seq)
	if err != nil {
		return nil, err
	}
	registry, err := LoadRegistry(u.dir)
	if errors.Is(err, fs.ErrPermission) {
		out.Note = "The signal registry belongs to another user: nothing can be drawn."
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	var ok [2]bool
	out.Open, ok[0] = events.Time(&p.Armed.WindowOpen)
	out.End, ok[1] = events.Time(&p.Armed.WindowEnd)
	if !ok[0] || !ok[1] {
		return nil, fmt.Errorf("prediction %s: record %d names no window", p.PredID, p.Armed.Seq)
	}
	samples, err := u.samples(final.Evidence, wantedBy(c, registry), out)
	if err != nil {
		return nil, err
	}
	// The baseline is left out: the view does not say where the action began.
	in := criterion.Input{Registry: registry, Window: criterion.Span{Start: out.Open, End: out.End}, Samples: samples, Closed: true, Principal: p.Principal}
	in.Criterion = c
	in.Criterion.Baseline = nil
	res := criterion.Evaluate(in)
	for i, clause := range c.Clauses() {
		out.Clauses = append(out.Clauses, seriesOf(in, clause, res.Clauses[i]))
	}
	out.Note = noteOn(p, final, registry, res, out)
	return out, nil
}

// noteOn says what keeps the drawing from being the whole of what decided.
func noteOn(p *view.Prediction, final *view.Resolution, registry *criterion.Registry, res criterion.Result, out *ui.Evidence) string {
	var notes []string
	if final.IsReport() {
		notes = append(notes, "Operators reported the outcome; telemetry left it unknown.")
	}
	if registry.HashString() != p.Armed.RegistrySHA256 {
		notes = append(notes, "The signal registry is another one than when the window was named.")
	}
	verdict := map[criterion.Outcome]string{criterion.True: view.VerdictConfirmed, criterion.False: view.VerdictRefuted, criterion.Unknown: view.VerdictUnresolved}
	if got := verdict[res.Outcome]; !final.IsReport() && got != final.Verdict && out.Missing == 0 && !out.Cut {
		notes = append(notes, fmt.Sprintf("The window's samples alone would give %s; the resolution weighs the baseline and the whole ledger: assay resolve recomputes it.", got))
	}
	return strings.Join(notes, " ")
}

func (u *UISource) criterionOf(ctx context.Context, seq ledger.Seq) (c criterion.Criterion, err error) {
	found := false
	err = u.evidence.Read(ctx, seq, seq, func(_ ledger.Seq, body []byte) error {
		rec, perr := ledger.ParseRecord(body)
		if perr != nil {
			return perr
		}
		ev, perr := events.Decode(rec.Event)
		if perr != nil {
			return perr
		}
		d, ok := ev.Data.(*events.PredictionRecorded)
		if !ok {
			return fmt.Errorf("record %d is no prediction", seq)
		}
		found = true
		c, perr = criterion.Parse(d.Criterion)
		return perr
	})
	if err == nil && !found {
		err = ErrNotThere
	}
	return c, err
}

// wantedBy are the signals that the clauses and their heartbeats are of.
func wantedBy(c criterion.Criterion, r *criterion.Registry) map[string]bool {
	wanted := map[string]bool{}
	for _, clause := range c.Clauses() {
		wanted[clause.Signal] = true
		if s, ok := r.Signal(clause.Signal); ok {
			wanted[s.Heartbeat] = true
		}
	}
	if h := c.Coverage.Heartbeat; h != nil {
		wanted[*h] = true
	}
	return wanted
}

// samples are those of the wanted signals in the segments that a resolution names.
// out says how many segments there are, and what is missing.
func (u *UISource) samples(refs []string, wanted map[string]bool, out *ui.Evidence) ([]criterion.Sample, error) {
	store, err := blob.OpenExisting(u.dir.Blobs())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		out.Segments, out.Missing = len(refs), len(refs)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if refs, err = expand(store, refs); err != nil {
		return nil, err
	}
	out.Segments = len(refs)
	var samples []criterion.Sample
	for i, ref := range refs {
		if out.Cut = i >= maxDrawnSegments || len(samples) > maxDrawnSamples; out.Cut {
			break
		}
		raw, err := store.Get(ref)
		if errors.Is(err, blob.ErrNotFound) || errors.Is(err, fs.ErrPermission) {
			out.Missing++
			continue
		}
		if err != nil {
			return nil, err
		}
		_, list, err := resolver.DecodeSegment(raw)
		if err != nil {
			return nil, fmt.Errorf("segment %s: %w", ref, err)
		}
		for _, s := range list {
			if wanted[s.Signal] {
				samples = append(samples, s)
			}
		}
	}
	return samples, nil
}

// expand reads the manifest that a resolution names in place of many segments.
func expand(store *blob.Store, refs []string) ([]string, error) {
	if len(refs) != 1 {
		return refs, nil
	}
	raw, err := store.Get(refs[0])
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, fs.ErrPermission) {
		return refs, nil
	}
	if err != nil {
		return nil, err
	}
	if list, ok := resolver.DecodeManifest(raw); ok {
		return list, nil
	}
	return refs, nil
}

func seriesOf(in criterion.Input, clause criterion.Clause, cr criterion.ClauseResult) ui.Series {
	s := ui.Series{
		Signal: clause.Signal, Labels: labelsText(clause.Labels), Value: clause.Value, Outcome: cr.Outcome.String(), Reason: cr.Reason.String(),
		OnValue: clause.Reduce != criterion.ReduceCount && clause.Reduce != criterion.ReduceIncrease,
		Test:    fmt.Sprintf("%s %s %s", clause.Reduce, clause.Op, strconv.FormatFloat(clause.Value, 'f', -1, 64)),
	}
	if clause.HoldFor > 0 {
		s.Test += fmt.Sprintf(" held for %v", clause.HoldFor)
	}
	if cr.Outcome != criterion.Unknown {
		s.Reason = ""
	}
	if signal, ok := in.Registry.Signal(clause.Signal); ok {
		s.Unit = signal.Unit
	}
	if cr.Witness >= 0 {
		w := in.Samples[cr.Witness]
		s.Witness = &ui.Point{At: w.Time, Value: w.Value}
	}
	for i := range in.Samples {
		if x := &in.Samples[i]; x.Signal == clause.Signal && maps.Equal(x.Labels, clause.Labels) && x.IsValid() {
			s.Points = append(s.Points, ui.Point{At: x.Time, Value: x.Value})
		}
	}
	slices.SortFunc(s.Points, func(a, b ui.Point) int { return a.At.Compare(b.At) })
	s.Points = thin(slices.Compact(s.Points), maxDrawnPoints)
	return s
}

// thin keeps of many points the lowest and the highest of each run, so that no peak is
// lost.
func thin(points []ui.Point, limit int) []ui.Point {
	if len(points) <= limit {
		return points
	}
	run := (2*len(points) + limit - 1) / limit
	out := make([]ui.Point, 0, limit+2)
	for part := range slices.Chunk(points, run) {
		lo, hi := 0, 0
		for i, p := range part {
			if p.Value < part[lo].Value {
				lo = i
			}
			if p.Value > part[hi].Value {
				hi = i
			}
		}
		out = append(out, part[min(lo, hi)])
		if lo != hi {
			out = append(out, part[max(lo, hi)])
		}
	}
	return out
}

func labelsText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ", ")
}
