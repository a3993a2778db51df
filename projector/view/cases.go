package view

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Cohort is a set of worlds for one split, with what it has been through. Cohorts
// and cases have no namespace: their ids are random.
type Cohort struct {
	CohortID   string         `json:"cohort_id"`
	Imported   bool           `json:"imported"`        // it was opened elsewhere, or before
	Opened     *CohortOpening `json:"opened,omitzero"` // nil: nobody recorded that it was opened
	Exposures  int64          `json:"exposures"`
	Candidates int64          `json:"candidates"` // that were evaluated on it
	OverLimit  int64          `json:"over_limit"` // exposures of candidates beyond exposure_limit
	AfterTime  int64          `json:"after_time"` // exposures after it expired
	AfterEnd   int64          `json:"after_end"`  // exposures after it was retired
	Scans      int64          `json:"scans"`      // for leaks
	Hits       int64          `json:"hits"`       // that they found
	Cases      int64          `json:"cases"`      // committed
	Revealed   int64          `json:"revealed"`   // of them
	Mismatched int64          `json:"mismatched"` // revealed with a salt or an oracle that was not committed
	Breaches   int64          `json:"breaches"`   // cases that were revealed too early
	BreachSeq  ledger.Seq     `json:"breach_seq"` // the first one, which ends the cohort; 0: none
	Retired    *CohortEnd     `json:"retired,omitzero"`
	Repeats    int64          `json:"repeats"` // further records of its opening or end
}

// CohortOpening is the commitment to a cohort.
type CohortOpening struct {
	Seq        ledger.Seq           `json:"seq"`
	RecordedAt time.Time            `json:"recorded_at"`
	Principal  string               `json:"principal"`
	Cohort     *events.CohortOpened `json:"cohort"`
}

// CohortEnd is the first cohort.retired.
type CohortEnd struct {
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	Cause      string     `json:"cause"`
	ScanID     *string    `json:"scan_id,omitzero"`
	Note       *string    `json:"note,omitzero"`
}

// Case is a committed case, and what opened it.
type Case struct {
	CaseID    string          `json:"case_id"`
	Imported  bool            `json:"imported"`           // it was drawn elsewhere, or before
	Committed *CaseCommitment `json:"committed,omitzero"` // nil: revealed, and never committed
	Revealed  *CaseOpening    `json:"revealed,omitzero"`
	// Early flags what was revealed before its cohort was retired, but for split
	// dev; null when the case is not known, or calls itself dev and nobody opened its
	// cohort.
	Early *bool `json:"early"`
	// Opens says whether SHA-256(salt ‖ the hash that oracle_ref names) is what was
	// committed; null until a committed case is revealed.
	Opens *bool `json:"opens"`
	// Late flags what was committed after its cohort was retired, and OtherSplit
	// what names another split than its cohort.
	Late       bool  `json:"late"`
	OtherSplit bool  `json:"other_split"`
	Repeats    int64 `json:"repeats"` // further records of either
}

// CaseCommitment fixes a case.
type CaseCommitment struct {
	Seq          ledger.Seq `json:"seq"`
	RecordedAt   time.Time  `json:"recorded_at"`
	Principal    string     `json:"principal"`
	Namespace    string     `json:"namespace"`
	WorldID      *string    `json:"world_id,omitzero"`
	CohortID     string     `json:"cohort_id"`
	Split        string     `json:"split"`
	PublicSHA256 string     `json:"public_sha256"`
	OracleSHA256 string     `json:"oracle_sha256"`
	Tags         []string   `json:"tags,omitzero"`
}

// CaseOpening opens a case.
type CaseOpening struct {
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	Salt       string     `json:"salt"`
	OracleRef  string     `json:"oracle_ref"`
	PublicRef  *string    `json:"public_ref,omitzero"`
}

const splitDev = "dev"

// cases keeps cohorts and cases.
//
//	c <case>                Case
//	k <cohort>              Cohort
//	x <cohort> <candidate>  counted: it was exposed to the candidate
type cases struct{}

const (
	caseKind     = "c"
	cohortKind   = "k"
	exposureKind = "x"
)

func (cases) Name() string { return Cases }
func (cases) Version() int { return 3 }

// Apply implements projector.Projection.
func (cases) Apply(b *projector.Batch, r *projector.Record) error {
	switch r.Event.Data.(type) {
	case *events.CaseCommitted, *events.CaseRevealed:
		if r.Role() != roleHarness {
			return forbidden(r)
		}
	case *events.CohortOpened, *events.CohortExposed, *events.CohortRetired, *events.LeakageScanned:
		if r.Role() != roleHarness && r.Role() != roleOperator {
			return forbidden(r)
		}
	}
	switch d := r.Event.Data.(type) {
	case *events.CaseCommitted:
		commitCase(b, r, d)
	case *events.CaseRevealed:
		revealCase(b, r, d)
	case *events.CohortOpened:
		c := cohort(b, r, d.CohortID)
		if c.Opened != nil {
			c.Repeats++
			return nil
		}
		c.Opened = &CohortOpening{r.Seq, r.RecordedAt, r.Principal, d}
	case *events.CohortExposed:
		expose(b, r, d)
	case *events.CohortRetired:
		c := openedCohort(b, r, d.CohortID)
		if c.Retired != nil {
			c.Repeats++
			return nil
		}
		c.Retired = &CohortEnd{r.Seq, r.RecordedAt, r.Principal, d.Cause, d.ScanID, d.Note}
	case *events.LeakageScanned:
		c := openedCohort(b, r, d.CohortID)
		c.Scans++
		c.Hits += d.Hits
	}
	return nil
}

func cohort(b *projector.Batch, r *projector.Record, id string) *Cohort {
	c, _ := projector.Edit[Cohort](b, key(cohortKind, idIn(r.Namespace, id)))
	c.CohortID, c.Imported = id, isApart(r.Namespace)
	return c
}

// openedCohort is the cohort that a record names. What is told of one that nobody
// opened is kept as a fact, and the record is an orphan.
func openedCohort(b *projector.Batch, r *projector.Record, id string) *Cohort {
	c := cohort(b, r, id)
	if c.Opened == nil {
		addOrphan(b, r.Namespace, id, orphanUnknown, r)
	}
	return c
}

// counted marks a candidate to which a cohort was exposed.
type counted struct{}

func expose(b *projector.Batch, r *projector.Record, d *events.CohortExposed) {
	c := openedCohort(b, r, d.CohortID)
	c.Exposures++
	count(&c.AfterEnd, c.Retired != nil)
	_, seen := projector.Edit[counted](b, key(exposureKind, idIn(r.Namespace, d.CohortID), d.CandidateID))
	count(&c.Candidates, !seen)
	if c.Opened == nil {
		return
	}
	o := c.Opened.Cohort
	count(&c.OverLimit, o.ExposureLimit != nil && c.Candidates > *o.ExposureLimit)
	expires, ok := events.Time(o.Expires)
	count(&c.AfterTime, ok && r.RecordedAt.After(expires))
}

func commitCase(b *projector.Batch, r *projector.Record, d *events.CaseCommitted) {
	v, _ := projector.Edit[Case](b, key(caseKind, idIn(r.Namespace, d.CaseID)))
	v.CaseID, v.Imported = d.CaseID, isApart(r.Namespace)
	if v.Committed != nil {
		v.Repeats++
		return
	}
	v.Committed = &CaseCommitment{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Namespace: r.Namespace, WorldID: d.WorldID, CohortID: d.CohortID,
		Split: d.Split, PublicSHA256: d.PublicSHA256, OracleSHA256: d.OracleSHA256, Tags: d.Tags,
	}
	c := openedCohort(b, r, d.CohortID)
	c.Cases++
	v.Late = c.Retired != nil
	v.OtherSplit = c.Opened != nil && c.Opened.Cohort.Split != d.Split
	if v.Revealed != nil {
		judgeOpening(c, v)
	}
}

func revealCase(b *projector.Batch, r *projector.Record, d *events.CaseRevealed) {
	v, _ := projector.Edit[Case](b, key(caseKind, idIn(r.Namespace, d.CaseID)))
	v.CaseID, v.Imported = d.CaseID, isApart(r.Namespace)
	if v.Revealed != nil {
		v.Repeats++
		return
	}
	v.Revealed = &CaseOpening{r.Seq, r.RecordedAt, r.Principal, d.Salt, d.OracleRef, d.PublicRef}
	if v.Committed == nil {
		addOrphan(b, r.Namespace, d.CaseID, orphanUnknown, r)
		return
	}
	judgeOpening(cohort(b, r, v.Committed.CohortID), v)
}

// judgeOpening says what the opening of a committed case is worth, whichever of the two
// came first.
func judgeOpening(c *Cohort, v *Case) {
	c.Revealed++
	opens := opensCase(v.Committed.OracleSHA256, v.Revealed)
	v.Opens = &opens
	count(&c.Mismatched, !opens)
	split := v.Committed.Split
	if c.Opened != nil {
		split = c.Opened.Cohort.Split // a case does not choose its own
	}
	early := split != splitDev && (c.Retired == nil || v.Revealed.Seq < c.Retired.Seq)
	if early || c.Opened != nil {
		v.Early = &early
	}
	if early {
		c.Breaches++
		if c.BreachSeq == 0 || v.Revealed.Seq < c.BreachSeq {
			c.BreachSeq = v.Revealed.Seq
		}
	}
}

// opensCase says whether a reveal is of what was committed. It needs the ledger
// alone, not the oracle: its hash binds as well as its bytes do.
func opensCase(committed string, d *CaseOpening) bool {
	salt, err := hex.DecodeString(d.Salt)
	oracle, err2 := hex.DecodeString(strings.TrimPrefix(d.OracleRef, "sha256:"))
	sum := sha256.Sum256(append(salt, oracle...))
	return err == nil && err2 == nil && hex.EncodeToString(sum[:]) == committed
}

// ListCohorts calls fn for all cohorts in the order of ids.
func ListCohorts(s *projector.State, fn func(*Cohort) error) error {
	return list(s, Cases, fn, cohortKind)
}

// ListCases calls fn for all cases in the order of ids.
func ListCases(s *projector.State, fn func(*Case) error) error { return list(s, Cases, fn, caseKind) }

// FindCohort reads the cohorts of an id: a live and an imported one at most.
func FindCohort(s *projector.State, cohortID string) ([]Cohort, error) {
	return both[Cohort](s, Cases, cohortKind, cohortID)
}

// FindCase reads the cases of an id: a live and an imported one at most.
func FindCase(s *projector.State, caseID string) ([]Case, error) {
	return both[Case](s, Cases, caseKind, caseID)
}

// both reads what an id without namespace names: what is live, and what was imported.
func both[T any](s *projector.State, projection, kind, id string) (out []T, err error) {
	for _, id := range []string{id, id + importedMark} {
		v, err := projector.Load[T](s, projection, key(kind, id))
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *v)
	}
	return out, nil
}
