package view

import (
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Offer is what a turn really offered, as the dispatcher saw it.
type Offer struct {
	Namespace       string     `json:"namespace"`
	Seq             ledger.Seq `json:"seq"`
	RecordedAt      time.Time  `json:"recorded_at"`
	Principal       string     `json:"principal"`
	EpisodeID       string     `json:"episode_id,omitzero"`
	OpportunityID   *string    `json:"opportunity_id,omitzero"`
	TurnID          *string    `json:"turn_id,omitzero"`
	Tools           []string   `json:"tools"`
	Withheld        []string   `json:"withheld,omitzero"` // nil: not known
	CatalogueSHA256 *string    `json:"catalogue_sha256,omitzero"`
}

// Gate is an action that the agent's gate chose, with her own list of tools held
// against the offer that the dispatcher saw before it.
type Gate struct {
	Namespace     string     `json:"namespace"`
	Seq           ledger.Seq `json:"seq"`
	RecordedAt    time.Time  `json:"recorded_at"`
	Principal     string     `json:"principal"`
	EpisodeID     string     `json:"episode_id,omitzero"`
	OpportunityID *string    `json:"opportunity_id,omitzero"`
	Action        string     `json:"action"`
	Reason        *string    `json:"reason,omitzero"`
	// OfferedTools is her own report; nil: she said nothing.
	OfferedTools []string `json:"offered_tools,omitzero"`
	// OfferSeq is the dispatcher's offer, and Join how it was found: exact by the
	// opportunity, episode by order; 0 and "" for none.
	OfferSeq ledger.Seq `json:"offer_seq"`
	Join     string     `json:"join"`
	// Invented are tools that she lists and that were not offered, Omitted offered
	// ones that she does not list; nil unless both lists are known.
	Invented []string `json:"invented,omitzero"`
	Omitted  []string `json:"omitted,omitzero"`
}

// lastOffer is the latest offer of an opportunity or an episode.
type lastOffer struct {
	Seq ledger.Seq `json:"seq"`
}

// offers keeps offers and gates by record.
//
//	o <namespace> <seq>          Offer
//	q <namespace> <opportunity>  lastOffer
//	l <namespace> <episode>      lastOffer
//	g <namespace> <seq>          Gate
type offers struct{}

const (
	offerKind              = "o"
	offerOfOpportunityKind = "q"
	offerOfEpisodeKind     = "l"
	gateKind               = "g"
)

func (offers) Name() string { return Offers }
func (offers) Version() int { return 2 }

// Apply implements projector.Projection.
func (offers) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.ToolsOffered:
		if !observer(r) {
			return forbidden(r)
		}
		offer(b, r, d)
	case *events.GateChosen:
		if r.Role() != roleAgent {
			return forbidden(r)
		}
		choose(b, r, d)
	}
	return nil
}

func offer(b *projector.Batch, r *projector.Record, d *events.ToolsOffered) {
	o, _ := projector.Edit[Offer](b, key(offerKind, r.Namespace, projector.SeqKey(r.Seq)))
	*o = Offer{
		Namespace: r.Namespace, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		OpportunityID: d.Context.OpportunityID, TurnID: d.TurnID, Tools: d.Tools, Withheld: d.Withheld, CatalogueSHA256: d.CatalogueSHA256,
	}
	if id := opportunityOf(r.Event); id != "" {
		l, _ := projector.Edit[lastOffer](b, key(offerOfOpportunityKind, r.Namespace, id))
		l.Seq = r.Seq
	}
	if r.Event.EpisodeID != "" {
		l, _ := projector.Edit[lastOffer](b, key(offerOfEpisodeKind, r.Namespace, r.Event.EpisodeID))
		l.Seq = r.Seq
	}
}

func choose(b *projector.Batch, r *projector.Record, d *events.GateChosen) {
	g, _ := projector.Edit[Gate](b, key(gateKind, r.Namespace, projector.SeqKey(r.Seq)))
	*g = Gate{
		Namespace: r.Namespace, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		OpportunityID: d.Context.OpportunityID, Action: d.Action, Reason: d.Reason, OfferedTools: d.OfferedTools,
	}
	g.OfferSeq, g.Join = offerFor(b, r)
	if g.OfferSeq == 0 || d.OfferedTools == nil {
		return
	}
	o, _ := projector.View[Offer](b, key(offerKind, r.Namespace, projector.SeqKey(g.OfferSeq)))
	g.Invented, g.Omitted = without(d.OfferedTools, o.Tools), without(o.Tools, d.OfferedTools)
}

// offerFor is the offer that a choice was made from.
func offerFor(b *projector.Batch, r *projector.Record) (ledger.Seq, string) {
	if id := opportunityOf(r.Event); id != "" {
		if l, ok := projector.View[lastOffer](b, key(offerOfOpportunityKind, r.Namespace, id)); ok {
			return l.Seq, JoinExact
		}
	}
	if r.Event.EpisodeID != "" {
		if l, ok := projector.View[lastOffer](b, key(offerOfEpisodeKind, r.Namespace, r.Event.EpisodeID)); ok {
			return l.Seq, JoinEpisode
		}
	}
	return 0, ""
}

// without are the elements of a that b lacks.
func without(a, b []string) []string {
	out := []string{}
	for _, v := range a {
		if !slices.Contains(b, v) {
			out = append(out, v)
		}
	}
	return out
}

// ListOffers calls fn for a namespace's offers in the order of records.
func ListOffers(s *projector.State, namespace string, fn func(*Offer) error) error {
	return list(s, Offers, fn, offerKind, namespace)
}

// ListGates calls fn for a namespace's choices in the order of records.
func ListGates(s *projector.State, namespace string, fn func(*Gate) error) error {
	return list(s, Offers, fn, gateKind, namespace)
}
