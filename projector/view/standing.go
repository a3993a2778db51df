package view

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Standing is what sources other than the agent say, at the record that the
// views stand at, of a claim or of a prediction that was made on none. What
// somebody reported is no independent evidence and decides nothing: a verdict that
// rests on a report leaves a prediction unresolved, and a recheck that nobody saw
// directly leaves a claim as it stood.
type Standing struct {
	Status string `json:"status"`
	// Since is the ledger time from which on the status has held without a break,
	// and Seq the record that brought it; 0 for what became unresolved by its age,
	// and for what is open from its start on.
	Since time.Time  `json:"since,omitzero"`
	Seq   ledger.Seq `json:"seq,omitzero"`
	// By is what brought it: prediction, recheck or age. Another may uphold it now.
	By string `json:"by,omitzero"`
	// Contradicted says of a success that another source says the opposite.
	Contradicted bool `json:"contradicted,omitzero"`
}

// What Standing.Status can be. Whatever is no success may still become one.
const (
	// ApparentSuccess: a prediction was confirmed, or the latest conclusive
	// recheck held. It is apparent because nobody has looked whether the claim is
	// why: that is what an audit is for.
	ApparentSuccess = "apparent_success"
	// Contradicts: no success, and a prediction was refuted or the latest
	// conclusive recheck did not hold.
	Contradicts = "contradicted"
	// Undecided: a prediction ended unresolved, or the claim is older than
	// UndecidedAfter, and nothing above applies.
	Undecided = "unresolved"
	Voided    = "void" // a prediction that was not put to the test
	Open      = "open"
)

// UndecidedAfter is the age in ledger time at which a claim that nobody settled
// is unresolved.
const UndecidedAfter = 7 * 24 * time.Hour

// StandingOf says where a claim stands.
func StandingOf(s *projector.State, c *Claim) (Standing, error) {
	promises, err := PromisesOf(s, c)
	if err != nil {
		return Standing{}, err
	}
	rechecks, err := RechecksOf(s, c)
	if err != nil {
		return Standing{}, err
	}
	return standingOf(s, c, promises, rechecks)
}

// StandingOfPrediction says where a prediction stands by itself.
func StandingOfPrediction(s *projector.State, p *Prediction) (Standing, error) {
	st := Standing{Status: Open}
	turns, err := turnsOf(s, p)
	for _, t := range turns {
		if t.Status != st.Status {
			st = t.Standing
		}
	}
	return st, err
}

// turn is what a source says from a record on.
type turn struct {
	Standing
	source string
}

// turnsOf are the turns of a prediction, in order: its resolution, and what
// telemetry amended in time.
func turnsOf(s *projector.State, p *Prediction) ([]turn, error) {
	if p.Resolution == nil {
		return nil, nil
	}
	source := "prediction " + p.PredID
	turns := []turn{{p.Resolution.standing(), source}}
	if p.Amendment == nil {
		return turns, nil
	}
	err := ListAmendments(s, p.Namespace, p.PredID, func(a *Resolution) error {
		if a.decides() && !events.TooLate(p.Resolution.CutAt, a.CutAt) {
			turns = append(turns, turn{a.standing(), source})
		}
		return nil
	})
	return turns, err
}

// standing is that of a prediction with this ruling.
func (r *Resolution) standing() Standing {
	st := Standing{Status: Undecided, Since: r.RecordedAt, Seq: r.Seq, By: "prediction"}
	switch {
	case r.Verdict == VerdictVoid:
		st.Status = Voided
	case r.IsReport():
	case r.Verdict == VerdictConfirmed:
		st.Status = ApparentSuccess
	case r.Verdict == VerdictRefuted:
		st.Status = Contradicts
	}
	return st
}

// standingOf goes through all that was said of a claim, in the ledger's order.
func standingOf(s *projector.State, c *Claim, promises []Prediction, rechecks []Recheck) (Standing, error) {
	var turns []turn
	for i := range promises {
		list, err := turnsOf(s, &promises[i])
		if err != nil {
			return Standing{}, err
		}
		turns = append(turns, list...)
	}
	for _, r := range rechecks {
		if !r.Decides() {
			continue
		}
		st := Standing{Status: Contradicts, Since: r.RecordedAt, Seq: r.Seq, By: "recheck"}
		if r.Result == RecheckHeld {
			st.Status = ApparentSuccess
		}
		turns = append(turns, turn{st, "recheck"})
	}
	l, err := s.Ledger()
	if err != nil {
		return Standing{}, err
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.Seq, b.Seq) })
	return stand(turns, c.RecordedAt.Add(UndecidedAfter), l.Time), nil
}

// stand is where the turns of all sources lead to at now. From due on, what
// nobody has decided is undecided.
func stand(turns []turn, due, now time.Time) Standing {
	st, says := Standing{Status: Open}, make(map[string]string)
	take := func(t turn) {
		says[t.source] = t.Status
		status, contradicted := sum(says)
		if status != st.Status {
			st = t.Standing
			st.Status = status
		}
		st.Contradicted = contradicted
	}
	age := turn{Standing{Status: Undecided, Since: due, By: "age"}, "age"}
	aged := false
	for _, t := range turns {
		if !aged && !t.Since.Before(due) {
			take(age)
			aged = true
		}
		take(t)
	}
	if !aged && !due.After(now) {
		take(age)
	}
	return st
}

// sum is the status that what the sources say comes to: success, else
// contradiction, else no decision. A success can be contradicted as well.
func sum(says map[string]string) (status string, contradicted bool) {
	heard := make(map[string]bool)
	for _, s := range says {
		heard[s] = true
	}
	for _, s := range []string{ApparentSuccess, Contradicts, Undecided} {
		if heard[s] {
			return s, s == ApparentSuccess && heard[Contradicts]
		}
	}
	return Open, false
}

// OnClaim says whether a prediction was made on a claim that was recorded before
// it. Such a prediction stands with its claim, any other for itself.
func OnClaim(s *projector.State, p *Prediction) (bool, error) {
	if p.ClaimID == nil {
		return false, nil
	}
	c, err := GetClaim(s, p.Namespace, *p.ClaimID)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil && c.Seq < p.Seq, err
}
