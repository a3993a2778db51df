package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/events/publish"
	"assay/ledger/logger"
	"assay/projector/view"
)

var (
	// ErrCohort means that a cohort takes no cases: it was retired, or is of another
	// split.
	ErrCohort = errors.New("the cohort takes no such cases")
	// ErrOtherwise means that the ledger holds something else of a case.
	ErrOtherwise = errors.New("the ledger says otherwise")
	// ErrSealed means that an oracle is to stay closed: its cohort is not retired.
	ErrSealed = errors.New("the cohort is not retired")
)

// splitDev is the split whose oracles are nobody's secret.
const splitDev = "dev"

// Cases commits to the cases of a benchmark, and opens them, in the name of a harness.
// What the views hold already is left out, and an event's id follows from what it says:
// a repeat, also one after a crash, writes nothing twice.
type Cases struct {
	As string // harness/NAME
	// Find looks an id up in the views; ErrNotFound where they know nothing of it.
	Find func(id string) (view.Found, error)
	// Publish sends events as As.
	Publish func(ctx context.Context, batch [][]byte) ([]publish.Answer, error)
	// Progress is told how many cases are done. It may be nil.
	Progress func(done, total int64)
}

// CasesWritten is what Commit and Reveal did.
type CasesWritten struct {
	Cohort  string `json:"cohort"`
	Opened  bool   `json:"opened"`  // by this
	Written int    `json:"written"` // cases
	Already int    `json:"already"` // that the ledger had
}

// Commit opens the cohort that nobody opened before, and commits to its cases. The
// errors are ErrCohort, ErrOtherwise and those of Find and Publish; nothing is written
// where one of the first two is found.
func (c Cases) Commit(ctx context.Context, opened *events.CohortOpened, cases []*events.CaseCommitted) (CasesWritten, error) {
	out := CasesWritten{Cohort: opened.CohortID}
	found, err := c.cohort(opened.CohortID)
	switch {
	case err != nil:
		return out, err
	case found != nil && found.Opened != nil && found.Opened.Cohort.Split != opened.Split:
		return out, fmt.Errorf("%w: %s is of split %s, and not %s", ErrCohort, opened.CohortID, found.Opened.Cohort.Split, opened.Split)
	}
	var batch []events.Payload
	for i, d := range cases {
		v, err := c.find(d.CaseID)
		if err != nil {
			return out, err
		}
		if v == nil || v.Committed == nil {
			batch = append(batch, d)
		} else if h := v.Committed; h.OracleSHA256 != d.OracleSHA256 || h.PublicSHA256 != d.PublicSHA256 || h.CohortID != d.CohortID || h.Split != d.Split {
			return out, fmt.Errorf("%w: record %d commits to case %s in another way (cohort %s, split %s)", ErrOtherwise, h.Seq, d.CaseID, h.CohortID, h.Split)
		}
		c.progress(i+1, len(cases))
	}
	out.Already = len(cases) - len(batch)
	if len(batch) > 0 && found != nil && found.Retired != nil {
		return out, fmt.Errorf("%w: %s was retired by record %d", ErrCohort, opened.CohortID, found.Retired.Seq)
	}
	if found == nil || found.Opened == nil {
		out.Opened = true
		batch = append([]events.Payload{opened}, batch...)
	}
	n, err := c.write(ctx, batch)
	if out.Opened {
		n--
	}
	out.Written = max(n, 0)
	return out, err
}

// Opening is a case with the bytes of its oracle.
type Opening struct {
	*events.CaseRevealed
	Oracle []byte
}

// Reveal opens cases: store puts an oracle where the ledger's blobs are, before anything
// refers to it. Unless all of it may be opened, nothing is: ErrSealed for a cohort that
// is not retired and whose split is not dev, ErrOtherwise for a case that was not
// committed, or as something else. committed says what each case commits to.
func (c Cases) Reveal(ctx context.Context, committed []string, cases []Opening, store func(oracle []byte) error) (CasesWritten, error) {
	var out CasesWritten
	var batch []events.Payload
	open := map[string]error{} // by cohort: whether its cases may be opened
	var oracles [][]byte
	for i, d := range cases {
		v, err := c.find(d.CaseID)
		if err != nil {
			return out, err
		}
		switch {
		case v == nil || v.Committed == nil:
			return out, fmt.Errorf("%w: no record commits to case %s", ErrOtherwise, d.CaseID)
		case v.Committed.OracleSHA256 != committed[i]:
			return out, fmt.Errorf("%w: record %d commits to another oracle of case %s", ErrOtherwise, v.Committed.Seq, d.CaseID)
		case v.Revealed != nil && (v.Revealed.Salt != d.Salt || v.Revealed.OracleRef != d.OracleRef):
			return out, fmt.Errorf("%w: record %d opens case %s with something else", ErrOtherwise, v.Revealed.Seq, d.CaseID)
		}
		out.Cohort = v.Committed.CohortID
		may, known := open[out.Cohort]
		if !known {
			if may, err = c.mayOpen(v.Committed); err != nil {
				return out, err
			}
			open[out.Cohort] = may
		}
		if may != nil {
			return out, may
		}
		if v.Revealed == nil {
			batch, oracles = append(batch, d.CaseRevealed), append(oracles, d.Oracle)
		}
		c.progress(i+1, len(cases))
	}
	out.Already = len(cases) - len(batch)
	for _, oracle := range oracles {
		if err := store(oracle); err != nil {
			return out, err
		}
	}
	var err error
	out.Written, err = c.write(ctx, batch)
	return out, err
}

// mayOpen says why the cases of a cohort may not be opened; nil if they may.
func (c Cases) mayOpen(of *view.CaseCommitment) (may, err error) {
	cohort, err := c.cohort(of.CohortID)
	if err != nil {
		return nil, err
	}
	switch {
	case cohort == nil || cohort.Opened == nil:
		return fmt.Errorf("%w: nobody opened %s", ErrSealed, of.CohortID), nil
	case cohort.Opened.Cohort.Split != splitDev && cohort.Retired == nil: // a case does not choose its own
		return fmt.Errorf("%w: %s is of split %s; its oracles stay closed until cohort.retired", ErrSealed, of.CohortID, cohort.Opened.Cohort.Split), nil
	}
	return nil, nil
}

func (c Cases) progress(done, total int) {
	if c.Progress != nil {
		c.Progress(int64(done), int64(total))
	}
}

// find is the live case of an id; nil where there is none.
func (c Cases) find(id string) (*view.Case, error) {
	found, err := c.Find(id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	for i := range found.Cases {
		if !found.Cases[i].Imported {
			return &found.Cases[i], nil
		}
	}
	return nil, nil
}

func (c Cases) cohort(id string) (*view.Cohort, error) {
	found, err := c.Find(id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	for i := range found.Cohorts {
		if !found.Cohorts[i].Imported {
			return &found.Cohorts[i], nil
		}
	}
	return nil, nil
}

// casesInFlight is how many events one message holds.
const casesInFlight = 64

// write publishes events in order and says how many the ledger has; one that the views
// had not seen yet is there already.
func (c Cases) write(ctx context.Context, data []events.Payload) (written int, err error) {
	maker := events.Maker{Source: "urn:assay:bench:" + c.As}
	for len(data) > 0 {
		n := min(len(data), casesInFlight)
		batch := make([][]byte, n)
		for i, d := range data[:n] {
			if batch[i], err = encodeOnce(maker, d); err != nil {
				return written, err
			}
		}
		answers, err := c.Publish(ctx, batch)
		if err != nil {
			return written, err
		}
		for _, a := range answers {
			if a.Refusal != nil && a.Refusal.Code != string(logger.CodeConflict) {
				return written, a.Refusal
			}
			written++
		}
		data = data[n:]
	}
	return written, nil
}

// encodeOnce makes an event whose id follows from what it says.
func encodeOnce(maker events.Maker, d events.Payload) ([]byte, error) {
	component, capture := "assay bench", "live"
	common := d.Common()
	common.Component, common.Capture = &component, &capture
	ev, err := maker.New(d)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	ev.ID = events.DerivedID(ev.Type, string(raw)).String()
	return events.Encode(ev)
}
