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
// itself lets only the first of each stand.
func (p *prediction) armedID() string {
	return events.DerivedID(events.TypePredictionArmed, p.key.principal, p.eventID).String()
}

func (p *prediction) resolvedID() string {
	return events.DerivedID(events.TypePredictionResolved, p.key.principal, p.eventID).String()
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
	m.out = append(m.out, Emission{ID: id, Type: typ, PredID: p.key.predID, Cut: c.seq, Event: raw, Manifest: manifest})
	return nil
}

// resolution is what every verdict has in common.
func (m *Machine) resolution(p *prediction, c cut, verdict, reason string) *events.PredictionResolved {
	r := &events.PredictionResolved{
		Context: p.context(), PredID: p.key.predID, Verdict: verdict, CutSeq: uint64(c.seq), Engine: Engine,
		CriterionSHA256: p.sha, RegistrySHA256: p.registry.HashString(), Foreknowledge: "none",
		Evidence:    events.ResolutionEvidence{Refs: []string{}, Digest: hexSHA256(nil)},
		Attribution: events.Attribution{Kind: "temporal_only"}, Resolver: m.cfg.Resolver,
	}
	if reason != "" {
		r.Reason = &reason
	}
	return r
}

// void ends a prediction whose promise was never put to the test.
func (m *Machine) void(p *prediction, c cut, reason string, pointer *string, summary string) error {
	r := m.resolution(p, c, Void, reason)
	if pointer != nil {
		at := clip(*pointer, 1024)
		r.Pointer = &at
	}
	r.Evidence.Summary = clip(summary, 1000)
	err := m.emit(p, c, p.resolvedID(), r, nil)
	m.forget(p)
	return err
}

// resolve ends a prediction by its evidence.
func (m *Machine) resolve(p *prediction, c cut, ev evidence, res criterion.Result) error {
	verdict := map[criterion.Outcome]string{criterion.True: Confirmed, criterion.False: Refuted, criterion.Unknown: Unresolved}[res.Outcome]
	r := m.resolution(p, c, verdict, res.Reason.String())
	var used []int
	for _, cr := range res.Clauses {
		used = append(used, cr.Used...)
	}
	var manifest []byte
	r.Evidence.Refs = ev.refs(used)
	if len(r.Evidence.Refs) > maxRefs {
		manifest = []byte(manifestMagic + "\n" + strings.Join(r.Evidence.Refs, "\n") + "\n")
		r.Evidence.Refs = []string{hexSHA256(manifest)}
	}
	r.Evidence.Digest = ev.digest(used)
	r.Evidence.Summary = clip(p.summary(ev, res), 1000)
	r.Foreknowledge = p.foreknowledge(ev)
	r.Scorable = verdict != Unresolved && r.Foreknowledge == "none"
	err := m.emit(p, c, p.resolvedID(), r, manifest)
	m.forget(p)
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
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s %s %g", p.clause.Signal, p.clause.Reduce, p.clause.Op, p.clause.Value)
		unit := ""
		if p.clause.HoldFor > 0 {
			fmt.Fprintf(&b, " held for %v", p.clause.HoldFor)
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
// not, though the window had opened (window_open).
func (p *prediction) foreknowledge(ev evidence) string {
	if p.window.Start.After(p.recordedAt) {
		return "none"
	}
	past := ev.keep(func(s *criterion.Sample, _ origin) bool { return !s.Time.After(p.recordedAt) })
	sealed := past.keep(func(_ *criterion.Sample, o origin) bool { return o.seq < p.seq })
	closes := p.window.End.Add(p.limits.Lateness)
	if criterion.Evaluate(p.input(sealed, !closes.After(p.knownTo))).Outcome != criterion.Unknown {
		return "known"
	}
	if criterion.Evaluate(p.input(past, !p.window.End.After(p.recordedAt))).Outcome != criterion.Unknown {
		return "knowable"
	}
	if p.window.Start.Before(p.recordedAt) {
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
