package resolver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"assay/events"
	"assay/resolver/criterion"
)

// maxRefs is how many segments an event names itself; more go to a manifest.
const maxRefs = 256

const manifestMagic = "assay-evidence 1"

// encodeManifest lists segments, one a line behind the magic.
func encodeManifest(refs []string) []byte {
	return []byte(manifestMagic + "\n" + strings.Join(refs, "\n") + "\n")
}

// DecodeManifest are the segments of a manifest, which a resolution names in place of
// them where they are many; false for other bytes.
func DecodeManifest(raw []byte) (refs []string, ok bool) {
	text, ok := strings.CutPrefix(string(raw), manifestMagic+"\n")
	if !ok || !strings.HasSuffix(text, "\n") {
		return nil, false
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), true
}

// Verdicts of a resolution.
const (
	Confirmed  = "confirmed"
	Refuted    = "refuted"
	Void       = "void"
	Unresolved = "unresolved"
)

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// armedID and resolvedID follow from the prediction alone, so that the ledger
// itself lets only the first of each stand; amendedID also from what the
// amendment supersedes.
func (p *prediction) armedID() string {
	return events.DerivedID(events.TypePredictionArmed, p.key.principal, p.eventID).String()
}

func (p *prediction) resolvedID() string {
	return events.DerivedID(events.TypePredictionResolved, p.key.principal, p.eventID).String()
}

func (p *prediction) amendedID(supersedes string) string {
	return events.DerivedID(events.TypePredictionResolutionAmended, p.key.principal, p.eventID, supersedes).String()
}

func (m *Machine) emitArmed(p *prediction, c cut) error {
	return m.emit(p, c, p.armedID(), &events.PredictionArmed{
		Context: p.context(), PredID: p.key.predID, RegistrySHA256: p.registry.HashString(),
		WindowOpen: events.FormatTime(p.window.Start), WindowEnd: events.FormatTime(p.window.End), CutSeq: uint64(c.seq),
	}, nil)
}

func (p *prediction) context() events.Context {
	component, capture := "resolver", "live"
	return events.Context{Component: &component, Capture: &capture, OpportunityID: p.opp}
}

func (m *Machine) emit(p *prediction, c cut, id string, data events.Payload, manifest []byte) error {
	typ := data.Type()
	raw, err := events.Encode(&events.Event{
		ID: id, Source: m.cfg.Source, Type: typ, Time: events.FormatTime(c.at), DataSchema: events.DataSchema(typ, 1), Version: 1,
		EpisodeID: p.episode, CausationID: p.eventID, Data: data,
	})
	if err != nil {
		return fmt.Errorf("prediction %s of %s: %w", p.key.predID, p.key.principal, err)
	}
	m.out = append(m.out, Emission{
		ID: id, Type: typ, Principal: p.key.principal, PredID: p.key.predID, Cut: c.seq, Event: raw, Manifest: manifest,
	})
	return nil
}

// resolution is what every verdict has in common.
func (m *Machine) resolution(p *prediction, c cut, r ruling) *events.PredictionResolved {
	out := &events.PredictionResolved{
		Context: p.context(), PredID: p.key.predID, Verdict: r.verdict, CutSeq: uint64(c.seq), Engine: Engine,
		CriterionSHA256: hexSHA256(p.raw), RegistrySHA256: p.registry.HashString(), Foreknowledge: "none",
		Evidence:    events.ResolutionEvidence{Refs: []string{}, Digest: hexSHA256(nil)},
		Attribution: events.Attribution{Kind: criterion.TemporalOnly}, Resolver: m.cfg.Resolver,
	}
	out.Resolver.Kind = r.kind
	if r.reason != "" {
		out.Reason = &r.reason
	}
	return out
}

// void ends a prediction whose promise was never put to the test.
func (m *Machine) void(p *prediction, c cut, reason string, pointer *string, summary string) error {
	r := m.resolution(p, c, ruling{Void, reason, byTelemetry})
	if pointer != nil {
		at := clip(*pointer, 1024)
		r.Pointer = &at
	}
	r.Evidence.Summary = clip(summary, 1000)
	err := m.emit(p, c, p.resolvedID(), r, nil)
	m.forget(p)
	return err
}

// resolve ends a prediction by its evidence or, where that leaves it unknown, by
// what was reported.
func (m *Machine) resolve(p *prediction, c cut, ev evidence, res criterion.Result) error {
	now := telemetryRuling(res)
	r, manifest, err := m.byEvidence(p, c, now, ev, res)
	if err != nil {
		return err
	}
	if now.verdict == Unresolved && len(p.reports) > 0 {
		unknown := r
		now = p.reported()
		r, manifest = m.byReport(p, c, now), nil
		r.Foreknowledge = unknown.Foreknowledge
		r.Evidence.Summary = clip(r.Evidence.Summary+"; telemetry: "+text(unknown.Reason)+", "+unknown.Evidence.Summary, 1000)
	}
	if err := m.emit(p, c, p.resolvedID(), r, manifest); err != nil {
		return err
	}
	p.ruling, p.foreknown, p.lastID, p.lastCut = now, r.Foreknowledge, p.resolvedID(), c.seq
	m.settleDown(p)
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// byEvidence is a resolution that telemetry alone brings about.
func (m *Machine) byEvidence(p *prediction, c cut, now ruling, ev evidence, res criterion.Result) (r *events.PredictionResolved, manifest []byte, err error) {
	r = m.resolution(p, c, now)
	used := ev.used(res)
	r.Evidence.Refs = ev.refs(used)
	if len(r.Evidence.Refs) > maxRefs {
		manifest = encodeManifest(r.Evidence.Refs)
		r.Evidence.Refs = []string{hexSHA256(manifest)}
	}
	r.Evidence.Digest = ev.digest(used)
	r.Evidence.Summary = clip(p.summary(ev, res), 1000)
	r.Foreknowledge = p.foreknowledge(ev)
	r.Scorable = now.verdict != Unresolved && r.Foreknowledge == "none"
	r.Attribution, err = m.attribute(p, ev, res)
	return r, manifest, err
}

// byReport is a resolution that rests on reports; it is never scored.
func (m *Machine) byReport(p *prediction, c cut, now ruling) *events.PredictionResolved {
	r := m.resolution(p, c, now)
	r.Evidence = p.reportEvidence()
	r.Foreknowledge = p.foreknown
	return r
}

// amend replaces the standing ruling because of telemetry.
func (m *Machine) amend(p *prediction, c cut, cause string, now ruling, ev evidence, res criterion.Result) error {
	r, manifest, err := m.byEvidence(p, c, now, ev, res)
	if err != nil {
		return err
	}
	return m.emitAmended(p, c, cause, now, r, manifest)
}

func (m *Machine) amendByReport(p *prediction, c cut, now ruling) error {
	return m.emitAmended(p, c, causeReport, now, m.byReport(p, c, now), nil)
}

func (m *Machine) emitAmended(p *prediction, c cut, cause string, now ruling, r *events.PredictionResolved, manifest []byte) error {
	id := p.amendedID(p.lastID)
	err := m.emit(p, c, id, &events.PredictionResolutionAmended{
		Context: r.Context, PredID: r.PredID, Supersedes: p.lastID, Cause: cause, Verdict: r.Verdict, Reason: r.Reason, Evidence: r.Evidence,
		CutSeq: r.CutSeq, Engine: r.Engine, CriterionSHA256: r.CriterionSHA256, RegistrySHA256: r.RegistrySHA256,
		Foreknowledge: r.Foreknowledge, Scorable: r.Scorable, Attribution: r.Attribution, Resolver: r.Resolver,
	}, manifest)
	p.ruling, p.foreknown, p.lastID, p.lastCut = now, r.Foreknowledge, id, c.seq
	return err
}

// digest is the SHA-256 over the used samples, each "<source> <canonical>\n".
func (e evidence) digest(used []int) string {
	h := sha256.New()
	var line []byte
	for _, i := range used {
		line = append(append(line[:0], e.samples[i].Source...), ' ')
		line = append(criterion.AppendSample(line, &e.samples[i]), '\n')
		h.Write(line)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (p *prediction) summary(ev evidence, res criterion.Result) string {
	var b strings.Builder
	for i, cr := range res.Clauses {
		clause := p.watches[i].clause
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s %s %g", clause.Signal, clause.Reduce, clause.Op, clause.Value)
		unit := ""
		if clause.HoldFor > 0 {
			fmt.Fprintf(&b, " held for %v", clause.HoldFor)
			unit = " s"
		}
		fmt.Fprintf(&b, ": %v, in [%g, %g]%s over %d samples, coverage %d of %d, longest gap %v",
			cr.Outcome, cr.Range.Lo, cr.Range.Hi, unit, cr.Count, cr.Seen.Occupied, cr.Seen.Cells, cr.Seen.MaxGap)
		if cr.Witness >= 0 {
			w := &ev.samples[cr.Witness]
			fmt.Fprintf(&b, ", witness %g at %s", w.Value, events.FormatTime(w.Time))
		}
	}
	return b.String()
}

// foreknowledge says what could be known of the outcome when the prediction
// was recorded: of the samples with an event time up to then, those that were
// sealed by then decide (known), all of them decide (knowable), or they do
// not, though the window had opened (window_open). The baseline is left out:
// who knows the outcome knows it whether or not the sensor was proven.
func (p *prediction) foreknowledge(ev evidence) string {
	if p.window.Start.After(p.recordedAt) {
		return "none"
	}
	past := ev.keep(func(s *criterion.Sample, _ origin) bool { return !s.Time.After(p.recordedAt) })
	sealed := past.keep(func(_ *criterion.Sample, o origin) bool { return o.seq < p.seq })
	closed := true // by what was known of the sources then
	for i, w := range p.watches {
		closed = closed && !p.window.End.Add(w.limits.Lateness).After(p.knownTo[i])
	}
	decided := func(ev evidence, closed bool) bool {
		in := p.input(ev)
		in.Criterion.Baseline, in.Baseline, in.Closed = nil, criterion.Span{}, closed
		return criterion.Evaluate(in).Outcome != criterion.Unknown
	}
	switch {
	case decided(sealed, closed):
		return "known"
	case decided(past, !p.window.End.After(p.recordedAt)):
		return "knowable"
	case p.window.Start.Before(p.recordedAt):
		return "window_open"
	}
	return "none"
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
