package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Abduction is one run of the agent's abduction module, by her own word.
type Abduction struct {
	Namespace   string     `json:"namespace"`
	AbductionID string     `json:"abduction_id"`
	Seq         ledger.Seq `json:"seq"` // of its start
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	EpisodeID   string     `json:"episode_id,omitzero"`
	// QuestionID is what it says it answers, else the opportunity of its context.
	QuestionID *string `json:"question_id,omitzero"`
	Module     *string `json:"module,omitzero"`
	Mode       *string `json:"mode,omitzero"`
	// Ended is its first abduction.completed or abduction.failed; nil without one.
	Ended   *AbductionEnd `json:"ended,omitzero"`
	Repeats int64         `json:"repeats"` // later starts and ends of the same id
}

// AbductionEnd is how an abduction ended.
type AbductionEnd struct {
	Seq        ledger.Seq   `json:"seq"`
	RecordedAt time.Time    `json:"recorded_at"`
	Completed  bool         `json:"completed"`
	Code       string       `json:"code,omitzero"` // of a failure
	SetID      *string      `json:"set_id,omitzero"`
	Cost       *events.Cost `json:"cost,omitzero"`
}

const abductionKind = "a"

type abductions struct{}

func (abductions) Name() string { return Abductions }
func (abductions) Version() int { return 1 }

// Apply implements projector.Projection.
func (abductions) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.AbductionStarted:
		a, ok := projector.Edit[Abduction](b, key(abductionKind, r.Namespace, d.AbductionID))
		if ok {
			a.Repeats++
			return nil
		}
		*a = Abduction{
			Namespace: r.Namespace, AbductionID: d.AbductionID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
			EpisodeID: r.Event.EpisodeID, QuestionID: or(d.QuestionID, d.Context.OpportunityID), Module: d.Module, Mode: d.Mode,
		}
	case *events.AbductionCompleted:
		endAbduction(b, r, d.AbductionID, AbductionEnd{Completed: true, SetID: d.SetID, Cost: or(d.Cost, d.Context.Cost)})
	case *events.AbductionFailed:
		endAbduction(b, r, d.AbductionID, AbductionEnd{Code: d.Code, Cost: or(d.Cost, d.Context.Cost)})
	}
	return nil
}

func endAbduction(b *projector.Batch, r *projector.Record, id string, end AbductionEnd) {
	k := key(abductionKind, r.Namespace, id)
	if _, ok := projector.View[Abduction](b, k); !ok {
		addOrphan(b, r.Namespace, id, orphanUnknown, r)
		return
	}
	a, _ := projector.Edit[Abduction](b, k)
	if a.Ended != nil {
		a.Repeats++
		return
	}
	end.Seq, end.RecordedAt = r.Seq, r.RecordedAt
	a.Ended = &end
}

// ListAbductions calls fn for a namespace's abductions in the order of their ids.
func ListAbductions(s *projector.State, namespace string, fn func(*Abduction) error) error {
	return list(s, Abductions, fn, abductionKind, namespace)
}
