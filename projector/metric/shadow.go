package metric

import (
	"assay/projector"
	"assay/projector/view"
)

// Shadow says what was captured when claims were made, and what sources other
// than the agent said of them since. It is over all claims of the namespace that
// were not imported, of any age: what is not settled stays in.
type Shadow struct {
	// WithAlternatives is claims with a set of hypotheses recorded before them ÷
	// claims.
	WithAlternatives Ratio `json:"with_alternatives"`
	Competing        int64 `json:"competing"` // of those, with two alternatives or more
	ByClaim          int64 `json:"joined_by_claim"`
	ByQuestion       int64 `json:"joined_by_question"`
	ByEpisode        int64 `json:"joined_by_episode"` // by order alone
	// LaterSets counts sets that name a claim and were recorded after it.
	LaterSets int64 `json:"later_sets"`
	// Sets counts the sets themselves, OverOne those whose probabilities exceed 1.
	Sets    int64 `json:"sets"`
	OverOne int64 `json:"over_one"`
	// Undelivered counts claims that cite evidence which nothing had delivered
	// before, OtherContent those that pin a content which nothing had.
	Undelivered  int64         `json:"undelivered_evidence"`
	OtherContent int64         `json:"other_content"`
	Standing     StandingCount `json:"standing"`
	Queries      Queries       `json:"queries"`
}

// StandingCount counts claims by where they stand.
type StandingCount struct {
	Success      int64 `json:"apparent_success"`
	Both         int64 `json:"also_contradicted"` // of Success
	Contradicted int64 `json:"contradicted"`
	Unresolved   int64 `json:"unresolved"`
	Open         int64 `json:"open"`
}

// Queries sets what was carried out beside what was chosen.
type Queries struct {
	Rate            Ratio `json:"rate"` // executed ÷ selected
	WithoutCall     int64 `json:"executed_without_call"`
	Denied          int64 `json:"call_denied"`
	BeforeSelection int64 `json:"executed_before_selection"`
	Unselected      int64 `json:"unselected"`
	Unlisted        int64 `json:"chosen_off_the_menu"` // of those selected
}

// captured is what a score takes of a claim's capture (view.ShadowCase.Capture).
type captured struct {
	with, competing    bool
	undelivered, other bool
	join               string
}

func capture(s *projector.State, sc *view.ShadowCase) (captured, error) {
	if err := sc.Capture(s); err != nil {
		return captured{}, err
	}
	out := captured{with: sc.Hypotheses != nil, join: sc.Join}
	out.competing = out.with && len(sc.Hypotheses.Alternatives) > 1
	for _, u := range sc.Evidence {
		out.undelivered = out.undelivered || u.DeliveredSeq == 0
		out.other = out.other || u.SHA256 != nil && u.ContentSeq == 0
	}
	return out, nil
}

func (c *computer) shadow(sc *view.ShadowCase) error {
	was, err := capture(c.state, sc)
	if err != nil {
		return err
	}
	s := &c.Shadow
	s.WithAlternatives.Denominator++
	s.LaterSets += sc.LaterSets
	count(&s.WithAlternatives.Numerator, was.with)
	count(&s.Competing, was.competing)
	switch was.join {
	case view.JoinClaim:
		s.ByClaim++
	case view.JoinQuestion:
		s.ByQuestion++
	case view.JoinEpisode:
		s.ByEpisode++
	}
	count(&s.Undelivered, was.undelivered)
	count(&s.OtherContent, was.other)
	s.Standing.add(sc.Standing)
	return nil
}

func (n *StandingCount) add(st view.Standing) {
	switch st.Status {
	case view.ApparentSuccess:
		n.Success++
		count(&n.Both, st.Contradicted)
	case view.Contradicts:
		n.Contradicted++
	case view.Undecided:
		n.Unresolved++
	default:
		n.Open++
	}
}

func (c *computer) query(v *view.Query) error {
	q := &c.Shadow.Queries
	if v.Selected == nil {
		ok, err := c.counts(v.Executed.Seq)
		count(&q.Unselected, ok)
		return err
	}
	if ok, err := c.counts(v.Selected.Seq); !ok {
		return err
	}
	q.Rate.Denominator++
	count(&q.Unlisted, v.Selected.Unlisted)
	what, err := c.madeOf(v)
	switch {
	case err != nil:
		return err
	case what == view.ExecutedNoCall:
		q.WithoutCall++
	case what == view.ExecutedDenied:
		q.Denied++
	case what == executedBefore:
		q.BeforeSelection++
	case what == view.Executed:
		q.Rate.Numerator++
	}
	return nil
}
