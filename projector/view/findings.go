package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Finding is a durable conclusion with what became of it. Two harmful ratings
// quarantine it; it stays in the record.
type Finding struct {
	Namespace string   `json:"namespace"`
	FindingID string   `json:"finding_id"`
	Written   *Writing `json:"written,omitzero"` // nil: nobody recorded that it was written
	// DuplicateOf is the first finding with the same claim in its normal form.
	DuplicateOf *string `json:"duplicate_of,omitzero"`

	Deliveries int64 `json:"deliveries"`
	Tokens     Sum   `json:"tokens"` // that the deliveries took
	// AfterQuarantine counts the deliveries of a finding that was quarantined.
	AfterQuarantine int64            `json:"after_quarantine"`
	Withheld        map[string]int64 `json:"withheld,omitzero"` // by cause
	ShadowTokens    Sum              `json:"shadow_tokens"`     // that it would have taken in holdouts
	Helpful         Ratings          `json:"helpful"`
	Harmful         Ratings          `json:"harmful"`
	QuarantinedSeq  ledger.Seq       `json:"quarantined_seq"` // the second harmful rating; 0: not quarantined
	Repeats         int64            `json:"repeats"`         // further records of the same writing, delivery or rating
}

func (f *Finding) introducedBy() string {
	if f.Written == nil {
		return ""
	}
	return f.Written.EventID
}

// Writing is what a finding says.
type Writing struct {
	EventID         string     `json:"event_id"`
	Seq             ledger.Seq `json:"seq"`
	RecordedAt      time.Time  `json:"recorded_at"`
	Principal       string     `json:"principal"`
	EpisodeID       string     `json:"episode_id,omitzero"`
	Claim           string     `json:"claim"`
	Anchors         []string   `json:"anchors"`
	Evidence        string     `json:"evidence"`
	Applicability   string     `json:"applicability"`
	ConfidenceLabel string     `json:"confidence_label"`
	Scope           string     `json:"scope"`
	Invalidators    []string   `json:"invalidators"`
	ClaimSHA256     *string    `json:"claim_sha256,omitzero"`
	EvidenceIDs     []string   `json:"evidence_ids,omitzero"`
}

// Ratings counts ratings by who gave them.
type Ratings struct {
	Operator int64 `json:"operator"`
	Agent    int64 `json:"agent"`
}

// Delivery is one finding put into the agent's context.
type Delivery struct {
	FindingID       string     `json:"finding_id"`
	InjectionID     string     `json:"injection_id"`
	Seq             ledger.Seq `json:"seq"`
	RecordedAt      time.Time  `json:"recorded_at"`
	Principal       string     `json:"principal"`
	EpisodeID       string     `json:"episode_id,omitzero"`
	SessionID       *string    `json:"session_id,omitzero"`
	TurnID          *string    `json:"turn_id,omitzero"`
	Tokens          *int64     `json:"tokens"`
	Score           *float64   `json:"score"`
	AfterQuarantine bool       `json:"after_quarantine"`
}

// Withholding is one finding that was a candidate and was not delivered.
type Withholding struct {
	FindingID    string     `json:"finding_id"`
	Seq          ledger.Seq `json:"seq"`
	RecordedAt   time.Time  `json:"recorded_at"`
	Principal    string     `json:"principal"`
	EpisodeID    string     `json:"episode_id,omitzero"`
	Cause        string     `json:"cause"`
	SessionID    *string    `json:"session_id,omitzero"`
	TurnID       *string    `json:"turn_id,omitzero"`
	ShadowTokens *int64     `json:"shadow_tokens"`
	Score        *float64   `json:"score"`
}

// Rating is one rater's word on a finding, or on one delivery of it. Of several
// from one rater on the same the first counts.
type Rating struct {
	FindingID   string     `json:"finding_id"`
	InjectionID *string    `json:"injection_id,omitzero"`
	Seq         ledger.Seq `json:"seq"`
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	Rater       *string    `json:"rater,omitzero"`
	Rating      string     `json:"rating"`
	// Undelivered flags the rating of a delivery that nobody recorded before it.
	Undelivered bool    `json:"undelivered"`
	Note        *string `json:"note,omitzero"`
	Repeats     int64   `json:"repeats"`
}

// Values that decide something here.
const (
	RatedHarmful    = "harmful"
	WithheldHoldout = "holdout" // cause of a finding.withheld
	// quarantineAt is how many harmful ratings take a finding out of delivery.
	quarantineAt = 2
)

// sameClaim is the first finding of a claim.
type sameClaim struct {
	FindingID string `json:"finding_id"`
}

// findings keeps what was written, and each delivery, withholding and rating.
//
//	f <namespace> <finding>                              Finding
//	s <namespace> <sha256 of the claim>                  sameClaim
//	d <namespace> <injection> <finding>                  Delivery
//	w <namespace> <seq>                                  Withholding
//	r <namespace> <finding> <principal> <rater> <injection>  Rating
type findings struct{}

const (
	findingKind     = "f"
	sameClaimKind   = "s"
	findingDelivery = "d"
	withheldKind    = "w"
	ratingKind      = "r"
)

func (findings) Name() string { return Findings }
func (findings) Version() int { return 2 }

// Apply implements projector.Projection.
func (findings) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.FindingWritten:
		if r.Role() != roleAgent {
			return forbidden(r)
		}
		writeFinding(b, r, d)
	case *events.FindingDelivered:
		if !observer(r) {
			return forbidden(r)
		}
		deliverFinding(b, r, d)
	case *events.FindingWithheld:
		if !observer(r) {
			return forbidden(r)
		}
		withhold(b, r, d)
	case *events.FindingRated:
		if r.Role() != roleOperator && r.Role() != roleAgent {
			return forbidden(r)
		}
		rate(b, r, d)
	}
	return nil
}

func writeFinding(b *projector.Batch, r *projector.Record, d *events.FindingWritten) {
	f, _ := projector.Edit[Finding](b, key(findingKind, r.Namespace, d.FindingID))
	f.Namespace, f.FindingID = r.Namespace, d.FindingID
	if f.Written != nil {
		f.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	f.Written = &Writing{
		EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		Claim: d.Claim, Anchors: d.Anchors, Evidence: d.Evidence, Applicability: d.Applicability, ConfidenceLabel: d.ConfidenceLabel,
		Scope: d.Scope, Invalidators: d.Invalidators, ClaimSHA256: d.ClaimSHA256, EvidenceIDs: d.EvidenceIDs,
	}
	if d.ClaimSHA256 == nil {
		return
	}
	first, had := projector.Edit[sameClaim](b, key(sameClaimKind, r.Namespace, *d.ClaimSHA256))
	if !had {
		first.FindingID = d.FindingID
		return
	}
	same := first.FindingID
	f.DuplicateOf = &same
}

// findingOf is the finding that a record names. What is told of one that nobody
// wrote is kept as a fact, and the record is an orphan.
func findingOf(b *projector.Batch, r *projector.Record, id string) *Finding {
	ns, reason := namespaceOf[Finding](b, findingKind, id, r)
	if reason != "" {
		addOrphan(b, ns, id, reason, r)
	}
	addPlace(b, ns)
	f, _ := projector.Edit[Finding](b, key(findingKind, ns, id))
	f.Namespace, f.FindingID = ns, id
	return f
}

func deliverFinding(b *projector.Batch, r *projector.Record, d *events.FindingDelivered) {
	f := findingOf(b, r, d.FindingID)
	v, ok := projector.Edit[Delivery](b, key(findingDelivery, f.Namespace, d.InjectionID, d.FindingID))
	if ok {
		f.Repeats++
		return
	}
	*v = Delivery{
		FindingID: d.FindingID, InjectionID: d.InjectionID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		SessionID: d.SessionID, TurnID: d.TurnID, Tokens: d.Tokens, Score: d.Score, AfterQuarantine: f.QuarantinedSeq > 0,
	}
	f.Deliveries++
	f.Tokens.Add(d.Tokens)
	count(&f.AfterQuarantine, v.AfterQuarantine)
}

func withhold(b *projector.Batch, r *projector.Record, d *events.FindingWithheld) {
	f := findingOf(b, r, d.FindingID)
	v, _ := projector.Edit[Withholding](b, key(withheldKind, f.Namespace, projector.SeqKey(r.Seq)))
	*v = Withholding{
		FindingID: d.FindingID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		Cause: d.Cause, SessionID: d.SessionID, TurnID: d.TurnID, ShadowTokens: d.ShadowTokens, Score: d.Score,
	}
	if f.Withheld == nil {
		f.Withheld = make(map[string]int64)
	}
	f.Withheld[d.Cause]++
	if d.Cause == WithheldHoldout {
		f.ShadowTokens.Add(d.ShadowTokens)
	}
}

func rate(b *projector.Batch, r *projector.Record, d *events.FindingRated) {
	f := findingOf(b, r, d.FindingID)
	v, ok := projector.Edit[Rating](b, key(ratingKind, f.Namespace, d.FindingID, r.Principal, stated(d.Rater), stated(d.InjectionID)))
	if ok {
		v.Repeats++
		f.Repeats++
		return
	}
	*v = Rating{
		FindingID: d.FindingID, InjectionID: d.InjectionID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Rater: d.Rater,
		Rating: d.Rating, Note: d.Note,
	}
	if d.InjectionID != nil {
		_, delivered := projector.View[Delivery](b, key(findingDelivery, f.Namespace, *d.InjectionID, d.FindingID))
		v.Undelivered = !delivered
	}
	n := &f.Helpful
	if d.Rating == RatedHarmful {
		n = &f.Harmful
	}
	if r.Role() == roleOperator {
		n.Operator++
	} else {
		n.Agent++
	}
	if f.QuarantinedSeq == 0 && f.Harmful.Operator+f.Harmful.Agent >= quarantineAt {
		f.QuarantinedSeq = r.Seq
	}
}

// ListFindings calls fn for a namespace's findings in the order of ids.
func ListFindings(s *projector.State, namespace string, fn func(*Finding) error) error {
	return list(s, Findings, fn, findingKind, namespace)
}

// ListDeliveries calls fn for a namespace's deliveries, injection by injection.
func ListDeliveries(s *projector.State, namespace string, fn func(*Delivery) error) error {
	return list(s, Findings, fn, findingDelivery, namespace)
}

// ListWithheld calls fn for a namespace's withholdings in the order of records.
func ListWithheld(s *projector.State, namespace string, fn func(*Withholding) error) error {
	return list(s, Findings, fn, withheldKind, namespace)
}

// ListRatings calls fn for a namespace's ratings, finding by finding.
func ListRatings(s *projector.State, namespace string, fn func(*Rating) error) error {
	return list(s, Findings, fn, ratingKind, namespace)
}

// FoundFinding is a finding with its ratings.
type FoundFinding struct {
	Finding
	Ratings []Rating `json:"ratings"`
}

// FindFinding reads the findings of an id in all namespaces.
func FindFinding(s *projector.State, findingID string) (out []FoundFinding, err error) {
	found, err := find[Finding](s, Findings, findingKind, findingID)
	for _, f := range found {
		ratings, err := all[Rating](s, Findings, ratingKind, f.Namespace, findingID)
		if err != nil {
			return nil, err
		}
		out = append(out, FoundFinding{f, ratings})
	}
	return out, err
}
