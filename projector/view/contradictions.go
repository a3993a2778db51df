package view

import (
	"cmp"
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Contradiction is a conflict as its records tell of it, with where it stands in
// ledger time.
type Contradiction struct {
	ContradictionFacts
	// State is the recorded one, or unresolved where the time to look at it again
	// has passed while it was open: what merely expired is never resolved.
	State   string `json:"state"`
	Expired bool   `json:"expired"`
	Open    bool   `json:"open"` // neither resolved nor scoped
	// AgeSeconds runs from its detection until it was closed, or until now.
	AgeSeconds int64 `json:"age_seconds"`
	// Verified says that what became of it rests on evidence other than the
	// agent's word, and VerifiedBy on what: evidence, operator; "" for nothing.
	Verified   bool   `json:"verified"`
	VerifiedBy string `json:"verified_by"`
	// FalseClosings counts the times it was resolved or scoped without verified
	// evidence, or in a way that did not last.
	FalseClosings int64 `json:"false_closings"`
	// Valid is what raters other than whoever detected it or made a step about it
	// say of whether the conflict is genuine; nil when none does, or they differ.
	Valid           *bool `json:"valid"`
	LabelledValid   int64 `json:"labelled_valid"`
	LabelledInvalid int64 `json:"labelled_invalid"`
}

// ContradictionFacts are what the records say of one contradiction.
type ContradictionFacts struct {
	Namespace       string                   `json:"namespace"`
	ContradictionID string                   `json:"contradiction_id"`
	EventID         string                   `json:"event_id"`
	Seq             ledger.Seq               `json:"seq"`
	RecordedAt      time.Time                `json:"recorded_at"`
	Principal       string                   `json:"principal"`
	EpisodeID       string                   `json:"episode_id,omitzero"`
	Left            events.ContradictionSide `json:"left"`
	Right           events.ContradictionSide `json:"right"`
	Variable        *string                  `json:"variable,omitzero"`
	Scope           *string                  `json:"scope,omitzero"`
	ValidTime       *string                  `json:"valid_time,omitzero"`
	Detector        *string                  `json:"detector,omitzero"`
	Score           *float64                 `json:"score,omitzero"`
	// DuplicateOf is the contradiction of the same pair that was open when this one
	// was detected, and Reopens one that had been closed.
	DuplicateOf *string `json:"duplicate_of,omitzero"`
	Reopens     *string `json:"reopens,omitzero"`

	RecordedState  string     `json:"recorded_state"`
	StateSeq       ledger.Seq `json:"state_seq"`
	StateAt        time.Time  `json:"state_at"`
	Owner          *string    `json:"owner,omitzero"`
	Priority       *string    `json:"priority,omitzero"`
	NextAction     *string    `json:"next_action,omitzero"`
	RevisitBy      *time.Time `json:"revisit_by,omitzero"`
	Investigations int64      `json:"investigations"`
	ClosedSeq      ledger.Seq `json:"closed_seq,omitzero"` // the last resolved or scoped
	Reopened       int64      `json:"reopened"`            // closings that did not last
	Repeats        int64      `json:"repeats"`             // further detections while it was open
}

func (c *ContradictionFacts) introducedBy() string { return c.EventID }

// States of a contradiction.
const (
	ContradictionDetected     = "detected"
	ContradictionOwned        = "owned"
	ContradictionInvestigated = "investigated"
	ContradictionResolved     = "resolved"
	ContradictionScoped       = "scoped"
	ContradictionUnresolved   = "unresolved"
)

const causeExpired = "expired"

// What verifies a step.
const (
	VerifiedByEvidence = "evidence" // that a dispatcher delivered, or a resolver or operator recorded
	VerifiedByOperator = "operator" // who cites evidence of a step of his own
)

func isClosed(state string) bool {
	return state == ContradictionResolved || state == ContradictionScoped
}

// ContradictionStep is one record about a contradiction behind its detection.
type ContradictionStep struct {
	Seq         ledger.Seq `json:"seq"`
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	To          string     `json:"to"` // the state that it brings
	Owner       *string    `json:"owner,omitzero"`
	NextAction  *string    `json:"next_action,omitzero"`
	EvidenceIDs []string   `json:"evidence_ids,omitzero"`
	QueryIDs    []string   `json:"query_ids,omitzero"`
	BeliefIDs   []string   `json:"belief_ids,omitzero"` // revised or superseded by it
	Finding     *string    `json:"finding,omitzero"`
	Resolution  *string    `json:"resolution,omitzero"`
	LeftScope   *string    `json:"left_scope,omitzero"`
	RightScope  *string    `json:"right_scope,omitzero"`
	Cause       *string    `json:"cause,omitzero"`
	Reason      *string    `json:"reason,omitzero"`
	// Late says that it came after the time at which it was to be looked at again.
	Late bool `json:"late"`
	// UndoneSeq is the record that opened again what this one closed, or closed it
	// otherwise; 0 for none.
	UndoneSeq ledger.Seq `json:"undone_seq"`
}

// closesAs says whether two closings say the same.
func (st *ContradictionStep) closesAs(o *ContradictionStep) bool {
	return st.To == o.To && same(st.Resolution, o.Resolution) && same(st.LeftScope, o.LeftScope) && same(st.RightScope, o.RightScope)
}

// lastOfPair is the latest contradiction of two sides.
type lastOfPair struct {
	ContradictionID string `json:"contradiction_id"`
}

// contradictions keeps the conflicts and every step that was made about them.
//
//	c <namespace> <contradiction>        ContradictionFacts
//	h <namespace> <contradiction> <seq>  ContradictionStep
//	p <namespace> <the two sides, variable, scope, time>  lastOfPair
type contradictions struct{}

const (
	contradictionKind     = "c"
	contradictionStepKind = "h"
	pairKind              = "p"
)

func (contradictions) Name() string { return Contradictions }
func (contradictions) Version() int { return 2 }

// Apply implements projector.Projection.
func (contradictions) Apply(b *projector.Batch, r *projector.Record) error {
	d, isDetection := r.Event.Data.(*events.ContradictionDetected)
	id, step, isStep := stepOf(r)
	if !isDetection && !isStep {
		return nil
	}
	if r.Role() != roleAgent && r.Role() != roleOperator {
		return forbidden(r)
	}
	if isDetection {
		detect(b, r, d)
		return nil
	}
	ns, reason := namespaceOf[ContradictionFacts](b, contradictionKind, id, r)
	if reason != "" {
		addOrphan(b, ns, id, reason, r)
		return nil
	}
	c, _ := projector.Edit[ContradictionFacts](b, key(contradictionKind, ns, id))
	c.take(b, r, step)
	return nil
}

// stepOf reads what a record says about a contradiction, and of which.
func stepOf(r *projector.Record) (id string, st ContradictionStep, ok bool) {
	st = ContradictionStep{Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal}
	switch d := r.Event.Data.(type) {
	case *events.ContradictionOwned:
		id, st.To, st.Owner, st.NextAction = d.ContradictionID, ContradictionOwned, &d.Owner, d.NextAction
	case *events.ContradictionInvestigated:
		id, st.To, st.EvidenceIDs, st.QueryIDs = d.ContradictionID, ContradictionInvestigated, d.EvidenceIDs, d.QueryIDs
		st.Finding, st.NextAction = d.Finding, d.NextAction
	case *events.ContradictionResolved:
		id, st.To, st.Resolution, st.EvidenceIDs, st.BeliefIDs, st.Reason =
			d.ContradictionID, ContradictionResolved, &d.Resolution, d.EvidenceIDs, d.BeliefIDs, d.Reason
	case *events.ContradictionScoped:
		id, st.To, st.LeftScope, st.RightScope, st.EvidenceIDs, st.Reason =
			d.ContradictionID, ContradictionScoped, &d.LeftScope, &d.RightScope, d.EvidenceIDs, d.Reason
	case *events.ContradictionUnresolved:
		id, st.To, st.Cause, st.EvidenceIDs, st.Reason = d.ContradictionID, ContradictionUnresolved, &d.Cause, d.EvidenceIDs, d.Reason
	default:
		return "", st, false
	}
	return id, st, true
}

func detect(b *projector.Batch, r *projector.Record, d *events.ContradictionDetected) {
	ns := r.Namespace
	c, ok := projector.Edit[ContradictionFacts](b, key(contradictionKind, ns, d.ContradictionID))
	if ok {
		if !isClosed(c.RecordedState) {
			c.Repeats++
			return
		}
		c.take(b, r, ContradictionStep{Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, To: ContradictionDetected})
		return
	}
	addPlace(b, ns)
	*c = ContradictionFacts{
		Namespace: ns, ContradictionID: d.ContradictionID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
		EpisodeID: r.Event.EpisodeID, Left: d.Left, Right: d.Right, Variable: d.Variable, Scope: d.Scope, ValidTime: d.ValidTime,
		Detector: d.Detector, Score: d.Score, RecordedState: ContradictionDetected, StateSeq: r.Seq, StateAt: r.RecordedAt,
	}
	last, had := projector.Edit[lastOfPair](b, pairKey(ns, d))
	if had {
		other := last.ContradictionID
		k := key(contradictionKind, ns, other)
		if before, _ := projector.View[ContradictionFacts](b, k); !isClosed(before.RecordedState) {
			c.DuplicateOf = &other
		} else {
			c.Reopens = &other
			before, _ = projector.Edit[ContradictionFacts](b, k)
			before.undo(b, r)
		}
	}
	last.ContradictionID = d.ContradictionID
}

// pairKey is the same for the same conflict, whichever side it is seen from.
func pairKey(ns string, d *events.ContradictionDetected) string {
	sides := []string{sideKey(&d.Left), sideKey(&d.Right)}
	slices.Sort(sides)
	return key(pairKind, ns, sides[0], sides[1], stated(d.Variable), stated(d.Scope), stated(d.ValidTime))
}

func sideKey(s *events.ContradictionSide) string {
	return key(s.Kind, s.ID, stated(s.Version), stated(s.ContentSHA256))
}

// take makes a step. Whatever says again how it was closed changes nothing, and
// to look into what is closed does not open it.
func (c *ContradictionFacts) take(b *projector.Batch, r *projector.Record, st ContradictionStep) {
	st.Late = c.RevisitBy != nil && r.RecordedAt.After(*c.RevisitBy)
	again := false
	if isClosed(c.RecordedState) {
		last, _ := projector.View[ContradictionStep](b, c.stepKey(c.ClosedSeq))
		again = st.closesAs(last) || st.To == ContradictionInvestigated
		if !again {
			c.undo(b, r)
		}
	}
	if !again {
		c.RecordedState, c.StateSeq, c.StateAt = st.To, r.Seq, r.RecordedAt
	}
	if isClosed(st.To) {
		c.ClosedSeq = r.Seq
	}
	switch d := r.Event.Data.(type) {
	case *events.ContradictionOwned:
		c.Owner, c.Priority, c.NextAction = &d.Owner, or(d.Priority, c.Priority), or(d.NextAction, c.NextAction)
		c.revisit(d.RevisitBy)
	case *events.ContradictionInvestigated:
		c.Investigations++
		c.NextAction = or(d.NextAction, c.NextAction)
	case *events.ContradictionUnresolved:
		c.RevisitBy = nil // the new date, or none
		c.revisit(d.RevisitBy)
	}
	at, _ := projector.Edit[ContradictionStep](b, c.stepKey(r.Seq))
	*at = st
}

func (c *ContradictionFacts) stepKey(seq ledger.Seq) string {
	return key(contradictionStepKind, c.Namespace, c.ContradictionID, projector.SeqKey(seq))
}

func (c *ContradictionFacts) revisit(by *string) {
	if t, ok := events.Time(by); ok {
		t = t.UTC()
		c.RevisitBy = &t
	}
}

// undo notes of the last closing that it did not last.
func (c *ContradictionFacts) undo(b *projector.Batch, r *projector.Record) {
	last, _ := projector.Edit[ContradictionStep](b, c.stepKey(c.ClosedSeq))
	if last.UndoneSeq == 0 {
		last.UndoneSeq = r.Seq
		c.Reopened++
	}
}

// CheckedStep is a step with what its evidence is worth.
type CheckedStep struct {
	ContradictionStep
	Evidence   []EvidenceUse `json:"evidence"`
	VerifiedBy string        `json:"verified_by"` // as in Contradiction; "" unless it disposes of the contradiction
}

// IsFalse says that a step closed the contradiction without verified evidence, or
// not for good.
func (st *CheckedStep) IsFalse() bool {
	return isClosed(st.To) && (st.VerifiedBy == "" || st.UndoneSeq > 0)
}

// StepsOf are a contradiction's steps in order. A step is verified by evidence
// that was delivered before it, or by evidence that an operator cites for a step of
// his own. What is itself a side of the conflict decides nothing, and what
// expired is never verified.
func StepsOf(s *projector.State, c *ContradictionFacts) ([]CheckedStep, error) {
	steps, err := all[ContradictionStep](s, Contradictions, contradictionStepKind, c.Namespace, c.ContradictionID)
	var out []CheckedStep
	for _, st := range steps {
		checked := CheckedStep{ContradictionStep: st}
		for _, id := range st.EvidenceIDs {
			use := EvidenceUse{EvidenceID: id}
			if err := use.look(s, c.Namespace, st.Seq); err != nil {
				return nil, err
			}
			checked.Evidence = append(checked.Evidence, use)
			if id != c.Left.ID && id != c.Right.ID {
				checked.verify(&use)
			}
		}
		out = append(out, checked)
	}
	return out, err
}

func (st *CheckedStep) verify(use *EvidenceUse) {
	disposes := isClosed(st.To) || st.To == ContradictionUnresolved && deref(st.Cause) != causeExpired
	switch {
	case !disposes:
	case use.DeliveredSeq > 0:
		st.VerifiedBy = VerifiedByEvidence
	case st.VerifiedBy == "" && projector.RoleOf(st.Principal) == roleOperator:
		st.VerifiedBy = VerifiedByOperator
	}
}

// contradictionReader reads contradictions as of the views' ledger time.
type contradictionReader struct {
	s      *projector.State
	now    time.Time
	labels *labelReader
}

func newContradictionReader(s *projector.State) (*contradictionReader, error) {
	l, err := s.Ledger()
	if err != nil {
		return nil, err
	}
	lr, err := newLabelReader(s)
	return &contradictionReader{s, l.Time, lr}, err
}

// read says where a contradiction stands.
func (cr *contradictionReader) read(c *ContradictionFacts) (out FoundContradiction, err error) {
	now := cr.now
	out.ContradictionFacts, out.State, out.Open = *c, c.RecordedState, !isClosed(c.RecordedState)
	until := now
	if !out.Open {
		until = c.StateAt
	}
	out.AgeSeconds = max(0, int64(until.Sub(c.RecordedAt)/time.Second)) // a clock can be stepped back
	if out.Open && c.RevisitBy != nil && !c.RevisitBy.After(now) {
		out.State, out.Expired = ContradictionUnresolved, true
	}
	if out.Steps, err = StepsOf(cr.s, c); err != nil {
		return out, err
	}
	for i := range out.Steps {
		st := &out.Steps[i]
		count(&out.FalseClosings, st.IsFalse())
		// Of steps that say the same each may be the one that is verified.
		if st.To == c.RecordedState && st.Seq >= c.StateSeq && !out.Expired && out.VerifiedBy != VerifiedByEvidence {
			out.VerifiedBy = cmp.Or(st.VerifiedBy, out.VerifiedBy)
		}
	}
	out.Verified = out.VerifiedBy != ""
	return out, cr.validity(&out)
}

// validity counts the labels of raters who have no part in the contradiction. One
// that was imported is none.
func (cr *contradictionReader) validity(c *FoundContradiction) error {
	parties := []string{c.Principal}
	for _, st := range c.Steps {
		parties = append(parties, st.Principal)
	}
	err := cr.labels.list(c.Namespace, func(l *Label) error {
		if l.ContradictionValid == nil || l.Orphan != "" || slices.Contains(parties, l.Principal) {
			return nil
		}
		if imported, err := IsImported(cr.s, l.Seq); err != nil || imported {
			return err
		}
		count(&c.LabelledValid, *l.ContradictionValid)
		count(&c.LabelledInvalid, !*l.ContradictionValid)
		return nil
	}, LabelContradiction, c.ContradictionID)
	if valid := c.LabelledValid > 0; valid != (c.LabelledInvalid > 0) {
		c.Valid = &valid
	}
	return err
}

// FoundContradiction is a contradiction with all steps that were made about it.
type FoundContradiction struct {
	Contradiction
	Steps []CheckedStep `json:"steps"`
}

// ListContradictions calls fn for a namespace's contradictions in the order of ids.
func ListContradictions(s *projector.State, namespace string, fn func(*Contradiction) error) error {
	cr, err := newContradictionReader(s)
	if err != nil {
		return err
	}
	return list(s, Contradictions, func(c *ContradictionFacts) error {
		f, err := cr.read(c)
		if err != nil {
			return err
		}
		return fn(&f.Contradiction)
	}, contradictionKind, namespace)
}

// FindContradiction reads the contradictions of an id in all namespaces.
func FindContradiction(s *projector.State, contradictionID string) (out []FoundContradiction, err error) {
	found, err := find[ContradictionFacts](s, Contradictions, contradictionKind, contradictionID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	cr, err := newContradictionReader(s)
	if err != nil {
		return nil, err
	}
	for i := range found {
		f, err := cr.read(&found[i])
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}
