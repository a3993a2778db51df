package view

import (
	"errors"
	"slices"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Label is one rater's word on one thing, by opportunity.labelled or
// audit.labelled. Of several under one rubric from one rater the first counts. Nil is
// what was not asked, or could not be told.
type Label struct {
	// Namespace is that of what is labelled: of the sample that drew it, or of
	// where it was recorded.
	Namespace     string     `json:"namespace"`
	Type          string     `json:"type"`
	Kind          string     `json:"kind"` // what the id names
	ID            string     `json:"id"`
	RubricVersion string     `json:"rubric_version"`
	Rater         string     `json:"rater"`
	Blind         bool       `json:"blind"`
	EventID       string     `json:"event_id"`
	Seq           ledger.Seq `json:"seq"`
	RecordedAt    time.Time  `json:"recorded_at"`
	Principal     string     `json:"principal"`
	RecordedIn    string     `json:"recorded_in"` // the label's own namespace
	CausationID   string     `json:"causation_id,omitzero"`
	SampleSeq     *uint64    `json:"sample_seq,omitzero"`
	Stratum       *string    `json:"stratum,omitzero"` // as the label says
	// DrawnStratum is the stratum in which the sample that it names drew the thing;
	// "" where none did: it counts for no stratum.
	DrawnStratum string `json:"drawn_stratum"`
	// Orphan says why it is not known what is labelled: unknown, ambiguous; "" if it
	// is. Turns are not recorded by themselves, and are never orphans.
	Orphan string `json:"orphan"`

	Eligible            *bool             `json:"eligible"`
	OpportunityKind     *string           `json:"opportunity_kind"`
	AbductionWarranted  *bool             `json:"abduction_warranted"`
	ContradictionValid  *bool             `json:"contradiction_valid"`
	DispositionCorrect  *bool             `json:"disposition_correct"`
	RevisionRequired    *bool             `json:"revision_required"`
	RevisionCorrect     *bool             `json:"revision_correct"`
	CommitmentSupported *bool             `json:"commitment_supported"`
	LineagePreserved    *bool             `json:"lineage_preserved"`
	Edge                *events.EdgeLabel `json:"edge"`
	Note                *string           `json:"note,omitzero"`
	Repeats             int64             `json:"repeats"`
}

// Kinds of things that are labelled.
const (
	LabelClaim         = "claim"
	LabelPrediction    = "prediction"
	LabelTurn          = "turn"
	LabelOpportunity   = "opportunity"
	LabelContradiction = "contradiction"
	LabelChallenge     = "challenge"
	LabelBelief        = "belief"
	LabelEdge          = "edge"
	LabelTransform     = "transform"
)

// labels keeps the labels of a thing beside each other. Where it was recorded, and
// so the namespace, is found when they are read.
//
//	l <kind> <id> <rubric> <rater> <type> <namespace of the record>  Label
type labels struct{}

const labelKind = "l"

func (labels) Name() string { return Labels }
func (labels) Version() int { return 2 }

// Apply implements projector.Projection.
func (labels) Apply(b *projector.Batch, r *projector.Record) error {
	l, ok := LabelOf(r.Event.Data)
	if !ok {
		return nil
	}
	if r.Role() != roleOperator {
		return forbidden(r)
	}
	v, ok := projector.Edit[Label](b, key(labelKind, l.Kind, l.ID, l.RubricVersion, l.Rater, r.Event.Type, r.Namespace))
	if ok {
		v.Repeats++
		return nil
	}
	l.Type, l.EventID, l.Seq, l.RecordedAt, l.Principal = r.Event.Type, r.Event.ID, r.Seq, r.RecordedAt, r.Principal
	l.RecordedIn, l.CausationID = r.Namespace, r.Event.CausationID
	*v = l
	return nil
}

// LabelOf is what a payload says; false for one that is no label.
func LabelOf(data events.Payload) (Label, bool) {
	switch d := data.(type) {
	case *events.OpportunityLabelled:
		return Label{
			Kind: d.Kind, ID: d.ID, RubricVersion: d.RubricVersion, Rater: d.Rater, Blind: d.Blind, SampleSeq: d.SampleSeq, Stratum: d.Stratum,
			Eligible: d.Eligible, OpportunityKind: d.OpportunityKind, Note: d.Note,
		}, true
	case *events.AuditLabelled:
		return Label{
			Kind: d.Kind, ID: d.ID, RubricVersion: d.RubricVersion, Rater: d.Rater, Blind: d.Blind, SampleSeq: d.SampleSeq, Stratum: d.Stratum,
			Eligible: d.Eligible, AbductionWarranted: d.AbductionWarranted, ContradictionValid: d.ContradictionValid,
			DispositionCorrect: d.DispositionCorrect, RevisionRequired: d.RevisionRequired, RevisionCorrect: d.RevisionCorrect,
			CommitmentSupported: d.CommitmentSupported, LineagePreserved: d.LineagePreserved, Edge: d.Edge, Note: d.Note,
		}, true
	}
	return Label{}, false
}

// labelReader finds out where labels belong.
type labelReader struct {
	s      *projector.State
	audits map[ledger.Seq]*events.AuditSampled
}

func newLabelReader(s *projector.State) (*labelReader, error) {
	lr := &labelReader{s, map[ledger.Seq]*events.AuditSampled{}}
	err := list(s, Weeks, func(a *Audit) error { lr.audits[a.Seq] = a.Sampled; return nil }, auditKind)
	return lr, err
}

// list calls fn for the labels whose keys start with the parts and that belong to
// a namespace of which in is true.
func (lr *labelReader) list(in func(namespace string) bool, fn func(*Label) error, parts ...string) error {
	return list(lr.s, Labels, func(l *Label) error {
		if err := lr.place(l); err != nil || !in(l.Namespace) {
			return err
		}
		return fn(l)
	}, append([]string{labelKind}, parts...)...)
}

// of calls fn for the labels of one thing.
func (lr *labelReader) of(namespace, kind, id string, fn func(*Label) error) error {
	return lr.list(func(ns string) bool { return ns == namespace }, fn, kind, id)
}

// place finds a label's namespace and stratum.
func (lr *labelReader) place(l *Label) error {
	l.Namespace = l.RecordedIn
	if l.SampleSeq != nil {
		if a := lr.audits[ledger.Seq(*l.SampleSeq)]; a != nil && isApart(a.Namespace) == isApart(l.RecordedIn) {
			l.Namespace, l.DrawnStratum = a.Namespace, StratumOf(a, l)
			return nil
		}
	}
	if l.Kind == LabelTurn {
		return nil
	}
	found, err := recordings(lr.s, l.Kind, l.ID)
	if err != nil {
		return err
	}
	// A label that was imported is of what was, and a live one of what is live, if
	// there is any.
	among := isApart(l.RecordedIn) || !slices.ContainsFunc(found, func(f recording) bool { return !isApart(f.namespace) })
	found = slices.DeleteFunc(found, func(f recording) bool { return isApart(f.namespace) != among })
	own := ""
	for _, f := range found {
		if f.eventID == l.CausationID {
			l.Namespace = f.namespace
			return nil
		}
		if RecordedIn(f.namespace) == RecordedIn(l.RecordedIn) {
			own = f.namespace
		}
	}
	switch {
	case len(found) == 0:
		l.Orphan = orphanUnknown
	case len(found) == 1:
		l.Namespace = found[0].namespace
	case own == "":
		l.Orphan = orphanAmbiguous
	default:
		l.Namespace = own
	}
	return nil
}

// StratumOf is the stratum in which a sample drew what a label is of; "" for none.
func StratumOf(a *events.AuditSampled, l *Label) string {
	for _, st := range a.Strata {
		for _, c := range st.Cases {
			if c.Kind == l.Kind && c.ID == l.ID {
				return st.Stratum
			}
		}
	}
	return ""
}

// recording is where something was recorded, and by which event.
type recording struct{ namespace, eventID string }

// recordings are the places in which a thing of a kind was recorded.
func recordings(s *projector.State, kind, id string) ([]recording, error) {
	switch kind {
	case LabelClaim:
		return recordingsOf(s, Claims, claimKind, id, func(v *Claim) recording { return recording{v.Namespace, v.EventID} })
	case LabelPrediction:
		return recordingsOf(s, Predictions, predictionKind, id, func(v *Prediction) recording { return recording{v.Namespace, v.introducedBy()} })
	case LabelOpportunity:
		return recordingsOf(s, Opportunities, opportunityKind, id, func(v *OpportunityFacts) recording { return recording{v.Namespace, v.EventID} })
	case LabelContradiction:
		return recordingsOf(s, Contradictions, contradictionKind, id, func(v *ContradictionFacts) recording { return recording{v.Namespace, v.EventID} })
	case LabelChallenge:
		return recordingsOf(s, Beliefs, challengeKind, id, func(v *Challenge) recording { return recording{v.Namespace, v.EventID} })
	case LabelBelief:
		return recordingsOf(s, Beliefs, beliefKind, id, func(v *Belief) recording { return recording{v.Namespace, v.EventID} })
	case LabelTransform:
		return recordingsOf(s, Beliefs, transformKind, id, func(v *Transform) recording { return recording{v.Namespace, v.EventID} })
	case LabelEdge:
		return recordingsOf(s, Graph, edgeKind, key("i", id), func(v *GraphEdge) recording { return recording{v.Namespace, v.EventID} })
	}
	return nil, nil
}

func recordingsOf[T any](s *projector.State, projection, kind, id string, of func(*T) recording) (out []recording, err error) {
	found, err := find[T](s, projection, kind, id)
	for i := range found {
		if r := of(&found[i]); r.eventID != "" {
			out = append(out, r)
		}
	}
	return out, err
}

// ListLabels calls fn for the labels of what belongs to a namespace, thing by
// thing, rubric by rubric, rater by rater.
func ListLabels(s *projector.State, namespace string, fn func(*Label) error) error {
	lr, err := newLabelReader(s)
	if err != nil {
		return err
	}
	return lr.list(func(ns string) bool { return RecordedIn(ns) == namespace }, fn)
}

// LabelsOf are the labels of one thing of a namespace.
func LabelsOf(s *projector.State, namespace, kind, id string) (out []Label, err error) {
	lr, err := newLabelReader(s)
	if err != nil {
		return nil, err
	}
	err = lr.of(namespace, kind, id, func(l *Label) error { out = append(out, *l); return nil })
	return out, err
}

// LabelledCase is what all raters say of one thing under one rubric.
type LabelledCase struct {
	Namespace     string
	Kind, ID      string
	RubricVersion string
	Labels        []Label // in the order of raters
}

// ListLabelled calls fn for every thing that was labelled under a rubric, with
// the labels of all raters: what the agreement of two of them is counted from.
func ListLabelled(s *projector.State, namespace string, fn func(*LabelledCase) error) error {
	var cases []*LabelledCase // of one id under one rubric: what is live, what was imported
	done := func() (err error) {
		for _, c := range cases {
			if err == nil {
				err = fn(c)
			}
		}
		cases = nil
		return err
	}
	err := ListLabels(s, namespace, func(l *Label) error {
		if len(cases) > 0 && (cases[0].Kind != l.Kind || cases[0].ID != l.ID || cases[0].RubricVersion != l.RubricVersion) {
			if err := done(); err != nil {
				return err
			}
		}
		i := slices.IndexFunc(cases, func(c *LabelledCase) bool { return c.Namespace == l.Namespace })
		if i < 0 {
			i = len(cases)
			cases = append(cases, &LabelledCase{Namespace: l.Namespace, Kind: l.Kind, ID: l.ID, RubricVersion: l.RubricVersion})
		}
		cases[i].Labels = append(cases[i].Labels, *l)
		return nil
	})
	if err == nil {
		err = done()
	}
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}
