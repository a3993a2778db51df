package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Abduction is one use of the agent's abduction module, by her own word.
type Abduction struct {
	Namespace   string           `json:"namespace"`
	AbductionID string           `json:"abduction_id"`
	Started     *AbductionEntry  `json:"started,omitzero"` // nil: ended, and never begun
	Ended       *AbductionResult `json:"ended,omitzero"`   // nil: still under way, or broken off without a word
	Repeats     int64            `json:"repeats"`          // further records of either
}

// AbductionEntry is the entry into the module.
type AbductionEntry struct {
	EventID       string     `json:"event_id"`
	Seq           ledger.Seq `json:"seq"`
	RecordedAt    time.Time  `json:"recorded_at"`
	Principal     string     `json:"principal"`
	EpisodeID     string     `json:"episode_id,omitzero"`
	OpportunityID *string    `json:"opportunity_id,omitzero"`
	QuestionID    *string    `json:"question_id,omitzero"`
	Module        *string    `json:"module,omitzero"`
	Mode          *string    `json:"mode,omitzero"`
	EvidenceIDs   []string   `json:"evidence_ids,omitzero"`
}

// AbductionResult is the first record of its end.
type AbductionResult struct {
	Seq        ledger.Seq   `json:"seq"`
	RecordedAt time.Time    `json:"recorded_at"`
	Failed     bool         `json:"failed"`
	SetID      *string      `json:"set_id,omitzero"`
	ClaimIDs   []string     `json:"claim_ids,omitzero"`
	Code       *string      `json:"code,omitzero"` // why it failed
	Error      *string      `json:"error,omitzero"`
	Cost       *events.Cost `json:"cost,omitzero"` // of a failed one as well
}

const abductionKind = "a"

type abductions struct{}

func (abductions) Name() string { return Abductions }
func (abductions) Version() int { return 2 }

// Apply implements projector.Projection.
func (abductions) Apply(b *projector.Batch, r *projector.Record) error {
	var id string
	var end *AbductionResult
	d, starts := r.Event.Data.(*events.AbductionStarted)
	switch d := r.Event.Data.(type) {
	case *events.AbductionStarted:
		id = d.AbductionID
	case *events.AbductionCompleted:
		id = d.AbductionID
		end = &AbductionResult{Seq: r.Seq, RecordedAt: r.RecordedAt, SetID: d.SetID, ClaimIDs: d.ClaimIDs, Cost: or(d.Cost, d.Context.Cost)}
	case *events.AbductionFailed:
		id = d.AbductionID
		end = &AbductionResult{Seq: r.Seq, RecordedAt: r.RecordedAt, Failed: true, Code: &d.Code, Error: d.Error, Cost: or(d.Cost, d.Context.Cost)}
	default:
		return nil
	}
	if r.Role() != roleAgent {
		return forbidden(r)
	}
	a, ok := projector.Edit[Abduction](b, key(abductionKind, r.Namespace, id))
	if !ok {
		addPlace(b, r.Namespace)
		a.Namespace, a.AbductionID = r.Namespace, id
	}
	switch {
	case starts && a.Started == nil:
		a.Started = &AbductionEntry{
			EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
			OpportunityID: d.Context.OpportunityID, QuestionID: d.QuestionID, Module: d.Module, Mode: d.Mode, EvidenceIDs: d.EvidenceIDs,
		}
	case !starts && a.Ended == nil:
		if a.Started == nil {
			addOrphan(b, r.Namespace, id, orphanUnknown, r)
		}
		a.Ended = end
	default:
		a.Repeats++
	}
	return nil
}

// ListAbductions calls fn for a namespace's abductions in the order of ids.
func ListAbductions(s *projector.State, namespace string, fn func(*Abduction) error) error {
	return list(s, Abductions, fn, abductionKind, namespace)
}

// FindAbduction reads the abductions of an id in all namespaces.
func FindAbduction(s *projector.State, abductionID string) ([]Abduction, error) {
	return find[Abduction](s, Abductions, abductionKind, abductionID)
}
