package view

import (
	"errors"
	"time"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Standing is what sources other than the agent say, at the record that the
// views stand at, of a claim or of a prediction that was made on none.
type Standing struct {
	Status string `json:"status"`
	// Since is the ledger time from which on it holds, and Seq the record that
	// brought it; 0 for what became unresolved by its age.
	Since time.Time  `json:"since,omitzero"`
	Seq   ledger.Seq `json:"seq,omitzero"`
	By    string     `json:"by,omitzero"` // prediction, recheck or age
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
	promises, err := promisesOf(s, c)
	if err != nil {
		return Standing{}, err
	}
	l, err := s.Ledger()
	if err != nil {
		return Standing{}, err
	}
	return standingOf(c, promises, l.Time), nil
}

// StandingOfPrediction says where a prediction stands by itself.
func StandingOfPrediction(p *Prediction) Standing {
	f := p.Final()
	if f == nil {
		return Standing{Status: Open}
	}
	st := Standing{Since: f.RecordedAt, Seq: f.Seq, By: "prediction"}
	switch f.Verdict {
	case VerdictConfirmed:
		st.Status = ApparentSuccess
	case VerdictRefuted:
		st.Status = Contradicts
	case VerdictVoid:
		st.Status = Voided
	default:
		st.Status = Undecided
	}
	return st
}

// standingOf takes the earliest record of the status that counts: success,
// else contradiction, else no decision.
func standingOf(c *Claim, promises []Prediction, now time.Time) Standing {
	first := make(map[string]Standing)
	note := func(st Standing) {
		if have, ok := first[st.Status]; !ok || st.Seq < have.Seq {
			first[st.Status] = st
		}
	}
	for i := range promises {
		note(StandingOfPrediction(&promises[i]))
	}
	if r := c.Recheck; r != nil {
		st := Standing{Status: Contradicts, Since: r.RecordedAt, Seq: r.Seq, By: "recheck"}
		if r.Result == RecheckHeld {
			st.Status = ApparentSuccess
		}
		note(st)
	}
	against, contradicted := first[Contradicts]
	if st, ok := first[ApparentSuccess]; ok {
		st.Contradicted = contradicted
		return st
	}
	if contradicted {
		return against
	}
	due := c.RecordedAt.Add(UndecidedAfter)
	if st, ok := first[Undecided]; ok && st.Since.Before(due) {
		return st
	}
	if !due.After(now) {
		return Standing{Status: Undecided, Since: due, By: "age"}
	}
	return Standing{Status: Open}
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
