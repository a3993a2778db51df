package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Prediction is a promise and what became of it. Its criterion stands in the
// record at Seq.
type Prediction struct {
	Namespace       string     `json:"namespace"`
	PredID          string     `json:"pred_id"`
	EventID         string     `json:"event_id"`
	Seq             ledger.Seq `json:"seq"`
	RecordedAt      time.Time  `json:"recorded_at"`
	Principal       string     `json:"principal"`
	EpisodeID       string     `json:"episode_id,omitzero"`
	ClaimID         *string    `json:"claim_id,omitzero"`
	Action          *string    `json:"action,omitzero"`
	PredictedEffect string     `json:"predicted_effect"`
	P               float64    `json:"p"`

	State     string      `json:"state"` // recorded, armed, withdrawn, resolved, amended
	Armed     *Armed      `json:"armed,omitzero"`
	Withdrawn *Withdrawal `json:"withdrawn,omitzero"`
	// Promise is whether the prediction was recorded before its window opened;
	// nil until the resolver has named the window.
	Promise *bool `json:"promise"`
	// Resolution is the first prediction.resolved and never changes.
	Resolution *Resolution `json:"resolution,omitzero"`
	// Amendment is the latest amendment because of telemetry; one by another
	// engine is listed, not scored.
	Amendment *Resolution `json:"amendment,omitzero"`
	// Report is the ruling that rests on what operators reported, where telemetry
	// left the prediction unknown; it is never scored.
	Report *Resolution `json:"report,omitzero"`
	// LastChange is the event id that an amendment has to supersede.
	LastChange string `json:"last_change,omitzero"`
	// Duplicates counts further resolutions and armings; they have no effect.
	Duplicates int64 `json:"duplicates"`
	Notes      int64 `json:"notes"`   // amendments that came too late
	Repeats    int64 `json:"repeats"` // later predictions of the same id
}

// Armed is the resolver's naming of the window [Open, End).
type Armed struct {
	Seq            ledger.Seq `json:"seq"`
	RegistrySHA256 string     `json:"registry_sha256"`
	WindowOpen     string     `json:"window_open"`
	WindowEnd      string     `json:"window_end"`
	CutSeq         ledger.Seq `json:"cut_seq"`
}

// Withdrawal is the agent's; after the window opened it has no effect.
type Withdrawal struct {
	Seq       ledger.Seq `json:"seq"`
	Reason    *string    `json:"reason,omitzero"`
	Effective bool       `json:"effective"`
}

// Resolution is a verdict of the resolver.
type Resolution struct {
	Seq           ledger.Seq              `json:"seq"`
	EventID       string                  `json:"event_id"`
	RecordedAt    time.Time               `json:"recorded_at"`
	Principal     string                  `json:"principal"`
	Verdict       string                  `json:"verdict"`
	Reason        *string                 `json:"reason,omitzero"`
	Cause         string                  `json:"cause,omitzero"` // of an amendment
	CutSeq        ledger.Seq              `json:"cut_seq"`
	CutAt         time.Time               `json:"cut_at"` // ledger time of the cut, by the resolver's word
	Engine        string                  `json:"engine"`
	Foreknowledge string                  `json:"foreknowledge"`
	Scorable      bool                    `json:"scorable"`
	Attribution   string                  `json:"attribution"`
	Others        []uint64                `json:"others,omitzero"` // other actions on the target
	BaseRate      *events.Placebo         `json:"base_rate,omitzero"`
	Controls      *events.Controls        `json:"controls,omitzero"`
	Evidence      []string                `json:"evidence,omitzero"` // segment digests
	Outcomes      []uint64                `json:"outcomes,omitzero"` // records of the reports that it rests on
	Summary       string                  `json:"summary"`
	Resolver      events.ResolverIdentity `json:"resolver"`
}

// KnownAt is the record from which on the outcome was decided: a claim asserted
// later was asserted in its knowledge.
func (r *Resolution) KnownAt() ledger.Seq {
	if r.CutSeq > 0 && r.CutSeq < r.Seq {
		return r.CutSeq
	}
	return r.Seq
}

// IsReport says that the ruling rests on what operators reported, for telemetry
// left the prediction unknown.
func (r *Resolution) IsReport() bool { return r.Resolver.IsReport() }

// decides says that an amendment in time changes what the prediction is scored by:
// another engine's opinion and a report do not.
func (r *Resolution) decides() bool { return r.Cause != causeEngine && r.Cause != causeReport }

// Verdicts and states.
const (
	VerdictConfirmed  = "confirmed"
	VerdictRefuted    = "refuted"
	VerdictVoid       = "void"
	VerdictUnresolved = "unresolved"

	stateRecorded  = "recorded"
	stateArmed     = "armed"
	stateWithdrawn = "withdrawn"
	stateResolved  = "resolved"
	stateAmended   = "amended"

	causeEngine = "engine"
	causeReport = "operator_report"

	orphanUnresolved = "unresolved" // an amendment of nothing
	orphanSupersedes = "supersedes" // an amendment of something else than the last change
	orphanForeign    = "principal"  // a withdrawal by another principal
)

const (
	predictionKind = "p"
	amendmentKind  = "a"
)

// Final is what a prediction is scored by: the latest telemetry amendment, else
// the resolution; nil while it is open. A report among them stands for what
// telemetry left unknown.
func (p *Prediction) Final() *Resolution {
	if p.Amendment != nil {
		return p.Amendment
	}
	return p.Resolution
}

func (p *Prediction) introducedBy() string { return p.EventID }

type predictions struct{}

func (predictions) Name() string { return Predictions }
func (predictions) Version() int { return 3 }

// Apply implements projector.Projection.
func (predictions) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.PredictionRecorded:
		recordPrediction(b, r, d)
	case *events.PredictionWithdrawn:
		withdraw(b, r, d)
	case *events.PredictionArmed:
		return byResolver(b, r, d.PredID, func(p *Prediction) { arm(p, r, d) })
	case *events.PredictionResolved:
		return byResolver(b, r, d.PredID, func(p *Prediction) { resolve(p, r, d) })
	case *events.PredictionResolutionAmended:
		return byResolver(b, r, d.PredID, func(p *Prediction) { amend(b, p, r, d) })
	}
	return nil
}

func recordPrediction(b *projector.Batch, r *projector.Record, d *events.PredictionRecorded) {
	p, ok := projector.Edit[Prediction](b, key(predictionKind, r.Namespace, d.PredID))
	if ok {
		p.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	*p = Prediction{
		Namespace: r.Namespace, PredID: d.PredID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt,
		Principal: r.Principal, EpisodeID: r.Event.EpisodeID, ClaimID: d.ClaimID, Action: d.Action,
		PredictedEffect: d.PredictedEffect, P: d.P, State: stateRecorded,
	}
}

func withdraw(b *projector.Batch, r *projector.Record, d *events.PredictionWithdrawn) {
	k := key(predictionKind, r.Namespace, d.PredID)
	p, ok := projector.View[Prediction](b, k)
	if !ok {
		addOrphan(b, r.Namespace, d.PredID, orphanUnknown, r)
		return
	}
	if p.Principal != r.Principal {
		addOrphan(b, r.Namespace, d.PredID, orphanForeign, r)
		return
	}
	p, _ = projector.Edit[Prediction](b, k)
	if p.Withdrawn != nil {
		p.Duplicates++
		return
	}
	open, armed := time.Time{}, false
	if p.Armed != nil {
		open, armed = events.Time(&p.Armed.WindowOpen)
	}
	effective := p.Resolution == nil && (!armed || r.RecordedAt.Before(open))
	p.Withdrawn = &Withdrawal{Seq: r.Seq, Reason: d.Reason, Effective: effective}
	if effective {
		p.State = stateWithdrawn
	}
}

// byResolver finds the prediction that the resolver means; anybody else's word
// is parked.
func byResolver(b *projector.Batch, r *projector.Record, predID string, fn func(*Prediction)) error {
	if r.Role() != roleResolver {
		return forbidden(r)
	}
	ns, reason := namespaceOf[Prediction](b, predictionKind, predID, r)
	if reason != "" {
		addOrphan(b, ns, predID, reason, r)
		return nil
	}
	p, _ := projector.Edit[Prediction](b, key(predictionKind, ns, predID))
	fn(p)
	return nil
}

func arm(p *Prediction, r *projector.Record, d *events.PredictionArmed) {
	if p.Armed != nil || p.Resolution != nil {
		p.Duplicates++
		return
	}
	p.Armed = &Armed{
		Seq: r.Seq, RegistrySHA256: d.RegistrySHA256, WindowOpen: d.WindowOpen, WindowEnd: d.WindowEnd, CutSeq: ledger.Seq(d.CutSeq),
	}
	if open, ok := events.Time(&d.WindowOpen); ok {
		promise := p.RecordedAt.Before(open)
		p.Promise = &promise
	}
	if p.State == stateRecorded {
		p.State = stateArmed
	}
}

func resolve(p *Prediction, r *projector.Record, d *events.PredictionResolved) {
	if p.Resolution != nil {
		p.Duplicates++
		return
	}
	p.State, p.LastChange = stateResolved, r.Event.ID
	p.Resolution = &Resolution{
		Seq: r.Seq, EventID: r.Event.ID, RecordedAt: r.RecordedAt, Principal: r.Principal,
		Verdict: d.Verdict, Reason: d.Reason, CutSeq: ledger.Seq(d.CutSeq), CutAt: events.CutTime(r.Event, r.RecordedAt), Engine: d.Engine,
		Foreknowledge: d.Foreknowledge, Scorable: d.Scorable, Resolver: d.Resolver,
	}
	p.Resolution.rest(d.Attribution, d.Evidence)
	if p.Resolution.IsReport() {
		p.Report = p.Resolution
	}
}

// rest takes what the ruling rests on.
func (r *Resolution) rest(a events.Attribution, e events.ResolutionEvidence) {
	r.Attribution, r.Others, r.BaseRate, r.Controls = a.Kind, a.Others, a.Placebo, a.Controls
	r.Evidence, r.Outcomes, r.Summary = e.Refs, e.Outcomes, e.Summary
}

func amend(b *projector.Batch, p *Prediction, r *projector.Record, d *events.PredictionResolutionAmended) {
	switch {
	case p.Resolution == nil:
		addOrphan(b, p.Namespace, p.PredID, orphanUnresolved, r)
		return
	case d.Supersedes != p.LastChange:
		addOrphan(b, p.Namespace, p.PredID, orphanSupersedes, r)
		return
	}
	a := Resolution{
		Seq: r.Seq, EventID: r.Event.ID, RecordedAt: r.RecordedAt, Principal: r.Principal, Cause: d.Cause,
		Verdict: d.Verdict, Reason: d.Reason, CutSeq: ledger.Seq(d.CutSeq), CutAt: events.CutTime(r.Event, r.RecordedAt), Engine: d.Engine,
		Foreknowledge: d.Foreknowledge, Scorable: d.Scorable, Resolver: d.Resolver,
	}
	a.rest(d.Attribution, d.Evidence)
	entry, _ := projector.Edit[Resolution](b, key(amendmentKind, p.Namespace, p.PredID, projector.SeqKey(r.Seq)))
	*entry = a
	if events.TooLate(p.Resolution.CutAt, a.CutAt) {
		p.Notes++
		return
	}
	p.LastChange = r.Event.ID
	switch {
	case a.decides():
		p.State, p.Amendment, p.Report = stateAmended, &a, nil
	case a.Cause == causeReport:
		p.State, p.Report = stateAmended, &a
	}
}

// GetPrediction reads one prediction; kv.ErrNotFound when there is none.
func GetPrediction(s *projector.State, namespace, predID string) (*Prediction, error) {
	return projector.Load[Prediction](s, Predictions, key(predictionKind, namespace, predID))
}

// FindPrediction reads the predictions of an id in all namespaces.
func FindPrediction(s *projector.State, predID string) ([]Prediction, error) {
	return find[Prediction](s, Predictions, predictionKind, predID)
}

// ListPredictions calls fn for a namespace's predictions in the order of ids.
func ListPredictions(s *projector.State, namespace string, fn func(*Prediction) error) error {
	return list(s, Predictions, fn, predictionKind, namespace)
}

// ListAmendments calls fn for a prediction's amendments in order, those without
// effect included.
func ListAmendments(s *projector.State, namespace, predID string, fn func(*Resolution) error) error {
	return list(s, Predictions, fn, amendmentKind, namespace, predID)
}
