package view

import (
	"errors"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// HypothesisSet is what an agent held possible at one record.
type HypothesisSet struct {
	Namespace    string               `json:"namespace"`
	SetID        string               `json:"set_id"`
	EventID      string               `json:"event_id"`
	Seq          ledger.Seq           `json:"seq"`
	RecordedAt   time.Time            `json:"recorded_at"`
	Principal    string               `json:"principal"`
	EpisodeID    string               `json:"episode_id,omitzero"`
	ClaimID      *string              `json:"claim_id,omitzero"`
	QuestionID   *string              `json:"question_id,omitzero"`
	Alternatives []events.Alternative `json:"alternatives"`
	OtherP       *float64             `json:"other_p,omitzero"`
	// Mass sums the probabilities that were given, other_p included; nil when
	// none was. Unknown counts the alternatives without one.
	Mass    *float64 `json:"mass"`
	Unknown int      `json:"without_probability"`
	// OverOne flags a mass over 1, which no probabilities of exclusive
	// alternatives have.
	OverOne bool  `json:"over_one"`
	Repeats int64 `json:"repeats"` // later sets of the same id
}

// massTolerance is how far a mass may lie over 1 by rounding.
const massTolerance = 1e-9

func (h *HypothesisSet) introducedBy() string { return h.EventID }

// weigh sums the probabilities in their order.
func (h *HypothesisSet) weigh() {
	sum, given := 0.0, false
	for _, a := range h.Alternatives {
		if a.P == nil {
			h.Unknown++
			continue
		}
		sum, given = sum+*a.P, true
	}
	if h.OtherP != nil {
		sum, given = sum+*h.OtherP, true
	}
	if given {
		h.Mass = &sum
		h.OverOne = sum > 1+massTolerance
	}
}

// How a claim's hypotheses were found.
const (
	JoinClaim    = "claim"    // the set names the claim
	JoinQuestion = "question" // the set names the opportunity that the claim answers
	// JoinEpisode is the fallback: the latest set of the episode.
)

// capture is what stood when a claim was recorded. It never changes but for
// LaterSets.
type capture struct {
	Seq       ledger.Seq `json:"seq"`
	SetID     string     `json:"set_id,omitzero"`
	Join      string     `json:"join,omitzero"`
	LaterSets int64      `json:"later_sets"`
}

// latestSet names the last set of a claim, question or episode.
type latestSet struct {
	SetID string `json:"set_id"`
}

const (
	setKind       = "h"
	captureKind   = "c"
	setOfClaim    = "lc"
	setOfQuestion = "lq"
	setOfEpisode  = "le"
)

type shadow struct{}

func (shadow) Name() string { return Shadow }
func (shadow) Version() int { return 2 }

// Apply implements projector.Projection.
func (shadow) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.HypothesesRecorded:
		recordSet(b, r, d)
	case *events.ClaimRecorded:
		captureClaim(b, r, d)
	}
	return nil
}

func recordSet(b *projector.Batch, r *projector.Record, d *events.HypothesesRecorded) {
	h, ok := projector.Edit[HypothesisSet](b, key(setKind, r.Namespace, d.SetID))
	if ok {
		h.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	*h = HypothesisSet{
		Namespace: r.Namespace, SetID: d.SetID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
		EpisodeID: r.Event.EpisodeID, ClaimID: d.ClaimID, QuestionID: d.QuestionID, Alternatives: d.Alternatives, OtherP: d.OtherP,
	}
	h.weigh()
	note := func(kind, id string) {
		if id != "" {
			l, _ := projector.Edit[latestSet](b, key(kind, r.Namespace, id))
			l.SetID = d.SetID
		}
	}
	note(setOfClaim, deref(d.ClaimID))
	note(setOfQuestion, deref(d.QuestionID))
	note(setOfEpisode, r.Event.EpisodeID)
	if k := key(captureKind, r.Namespace, deref(d.ClaimID)); d.ClaimID != nil {
		if _, claimed := projector.View[capture](b, k); claimed {
			c, _ := projector.Edit[capture](b, k)
			c.LaterSets++
		}
	}
}

// captureClaim joins a claim with the latest set before it: one that names the
// claim, else one that names what it answers, else the episode's.
func captureClaim(b *projector.Batch, r *projector.Record, d *events.ClaimRecorded) {
	k := key(captureKind, r.Namespace, d.ClaimID)
	if _, ok := projector.View[capture](b, k); ok {
		return // the first claim of an id counts
	}
	c, _ := projector.Edit[capture](b, k)
	c.Seq = r.Seq
	for _, way := range []struct{ join, kind, id string }{
		{JoinClaim, setOfClaim, d.ClaimID},
		{JoinQuestion, setOfQuestion, opportunityOf(r.Event)},
		{JoinEpisode, setOfEpisode, r.Event.EpisodeID},
	} {
		if way.id == "" {
			continue
		}
		if l, ok := projector.View[latestSet](b, key(way.kind, r.Namespace, way.id)); ok {
			c.SetID, c.Join = l.SetID, way.join
			return
		}
	}
}

// ShadowCase is a claim as it stood before its outcome was known, with what
// independent sources said of it later.
type ShadowCase struct {
	Claim Claim `json:"claim"`
	// Hypotheses is the latest set recorded before the claim, and Join says how
	// it was found: claim, question, or by the episode's order; nil and "" when
	// there was none.
	Hypotheses *HypothesisSet `json:"hypotheses"`
	Join       string         `json:"join"`
	// LaterSets counts sets that name the claim and were recorded after it: they
	// are hindsight, and not shown here.
	LaterSets   int64         `json:"later_sets"`
	Evidence    []EvidenceUse `json:"evidence"`
	Predictions []Prediction  `json:"predictions"`
	Rechecks    []Recheck     `json:"rechecks"`
	Outcomes    []Outcome     `json:"outcomes"`
	Standing    Standing      `json:"standing"`
}

// GetShadowCase reads the case of a claim; kv.ErrNotFound when there is none.
func GetShadowCase(s *projector.State, namespace, claimID string) (*ShadowCase, error) {
	c, err := GetClaim(s, namespace, claimID)
	if err != nil {
		return nil, err
	}
	return shadowCase(s, c)
}

// ListShadowCases calls fn for a namespace's cases in the order of claim ids.
func ListShadowCases(s *projector.State, namespace string, fn func(*ShadowCase) error) error {
	return ListClaims(s, namespace, func(c *Claim) error {
		sc, err := shadowCase(s, c)
		if err != nil {
			return err
		}
		return fn(sc)
	})
}

func shadowCase(s *projector.State, c *Claim) (*ShadowCase, error) {
	out := &ShadowCase{Claim: *c}
	if err := out.Capture(s); err != nil {
		return nil, err
	}
	return out, out.Follow(s)
}

// Capture fills in what was there when the claim was made: alternatives and
// evidence. All of it was recorded before, and the first record of each counts,
// so that it never changes again.
func (sc *ShadowCase) Capture(s *projector.State) (err error) {
	s, c := s.Settled(), &sc.Claim
	sc.Hypotheses, sc.Join, err = HypothesesBefore(s, c)
	if err == nil {
		sc.Evidence, err = EvidenceOf(s, c)
	}
	return err
}

// HypothesesBefore is the latest set of hypotheses before a claim that names it, or
// what it answers, or is of its episode, and how it was found (ShadowCase.Join);
// nil when there is none.
func HypothesesBefore(s *projector.State, c *Claim) (set *HypothesisSet, join string, err error) {
	p, err := projector.Load[capture](s, Shadow, key(captureKind, c.Namespace, c.ClaimID))
	if err != nil || p.SetID == "" {
		return nil, "", err
	}
	set, err = projector.Load[HypothesisSet](s, Shadow, key(setKind, c.Namespace, p.SetID))
	return set, p.Join, err
}

// Follow fills in what happened since.
func (sc *ShadowCase) Follow(s *projector.State) (err error) {
	c := &sc.Claim
	p, err := projector.Load[capture](s, Shadow, key(captureKind, c.Namespace, c.ClaimID))
	if err != nil {
		return err
	}
	sc.LaterSets = p.LaterSets
	if sc.Predictions, err = PromisesOf(s, c); err != nil {
		return err
	}
	if c.Rechecks > 0 {
		if sc.Rechecks, err = collect[Recheck](s, recheckKind, c); err != nil {
			return err
		}
	}
	if c.Outcomes > 0 {
		if sc.Outcomes, err = collect[Outcome](s, outcomeKind, c); err != nil {
			return err
		}
	}
	sc.Standing, err = standingOf(s, c, sc.Predictions, sc.Rechecks)
	return err
}

// PromisesOf are the predictions made on a claim with what became of each, but for
// those whose id another prediction had first.
func PromisesOf(s *projector.State, c *Claim) (out []Prediction, err error) {
	if c.Predictions == 0 {
		return nil, nil
	}
	refs, err := PredictionsOf(s, c)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		p, err := GetPrediction(s, c.Namespace, ref.PredID)
		if errors.Is(err, kv.ErrNotFound) || err == nil && p.Seq != ref.Seq {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *p)
	}
	return out, nil
}

// FindHypotheses reads the sets of an id in all namespaces.
func FindHypotheses(s *projector.State, setID string) ([]HypothesisSet, error) {
	return find[HypothesisSet](s, Shadow, setKind, setID)
}

// ListHypotheses calls fn for a namespace's sets in the order of their ids.
func ListHypotheses(s *projector.State, namespace string, fn func(*HypothesisSet) error) error {
	return list(s, Shadow, fn, setKind, namespace)
}
