package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Run is one arm's run over a split, with what shows that it left production
// alone.
type Run struct {
	RunFacts
	// Isolation is clean, differs, or incomplete where a store was not counted
	// both before and after; none where nothing was counted. Whatever is not clean
	// fails the run. Breaches are the tables behind it, as store/table.
	Isolation string   `json:"isolation"`
	Breaches  []string `json:"breaches,omitzero"`
}

// RunFacts are what the records say of one run.
type RunFacts struct {
	Namespace string     `json:"namespace"`
	RunID     string     `json:"run_id"`
	Started   *RunStart  `json:"started,omitzero"` // nil: its manifest is not in the ledger
	Finished  *RunFinish `json:"finished,omitzero"`
	Repeats   int64      `json:"repeats"` // further records of its start, its end or a count
}

func (r *RunFacts) introducedBy() string {
	if r.Started == nil {
		return ""
	}
	return r.Started.EventID
}

// RunStart is the manifest.
type RunStart struct {
	EventID    string             `json:"event_id"`
	Seq        ledger.Seq         `json:"seq"`
	RecordedAt time.Time          `json:"recorded_at"`
	Principal  string             `json:"principal"`
	Manifest   *events.RunStarted `json:"manifest"`
}

// RunFinish is how the run ended.
type RunFinish struct {
	Seq        ledger.Seq          `json:"seq"`
	RecordedAt time.Time           `json:"recorded_at"`
	Principal  string              `json:"principal"`
	End        *events.RunFinished `json:"end"`
}

// TableRows are the rows of one table of production's memory before and after a
// run; the first count of each phase holds.
type TableRows struct {
	Store  *string            `json:"store,omitzero"`
	Table  string             `json:"table"`
	Before *events.TableCount `json:"before,omitzero"`
	After  *events.TableCount `json:"after,omitzero"`
}

// What Run.Isolation can be.
const (
	IsolationNone       = "none"
	IsolationClean      = "clean"
	IsolationDiffers    = "differs"
	IsolationIncomplete = "incomplete"
)

const phaseBefore = "before"

// runs keeps runs and the rows that were counted around them.
//
//	r <namespace> <run>                   RunFacts
//	t <namespace> <run> <store> <table>   TableRows
type runs struct{}

const (
	runKind       = "r"
	tableRowsKind = "t"
)

func (runs) Name() string { return Runs }
func (runs) Version() int { return 2 }

// Apply implements projector.Projection.
func (runs) Apply(b *projector.Batch, r *projector.Record) error {
	switch r.Event.Data.(type) {
	case *events.RunStarted, *events.RunFinished, *events.IsolationCounted:
		if r.Role() != roleHarness {
			return forbidden(r)
		}
	}
	switch d := r.Event.Data.(type) {
	case *events.RunStarted:
		run, _ := projector.Edit[RunFacts](b, key(runKind, r.Namespace, d.RunID))
		run.Namespace, run.RunID = r.Namespace, d.RunID
		if run.Started != nil {
			run.Repeats++
			return nil
		}
		addPlace(b, r.Namespace)
		run.Started = &RunStart{r.Event.ID, r.Seq, r.RecordedAt, r.Principal, d}
	case *events.RunFinished:
		run := runOf(b, r, d.RunID)
		if run.Finished != nil {
			run.Repeats++
			return nil
		}
		run.Finished = &RunFinish{r.Seq, r.RecordedAt, r.Principal, d}
	case *events.IsolationCounted:
		countRows(b, runOf(b, r, d.RunID), d)
	}
	return nil
}

// runOf is the run that a record names. What is told of one that nobody started is
// kept as a fact, and the record is an orphan.
func runOf(b *projector.Batch, r *projector.Record, id string) *RunFacts {
	ns, reason := namespaceOf[RunFacts](b, runKind, id, r)
	if reason != "" {
		addOrphan(b, ns, id, reason, r)
	}
	addPlace(b, ns)
	run, _ := projector.Edit[RunFacts](b, key(runKind, ns, id))
	run.Namespace, run.RunID = ns, id
	return run
}

func countRows(b *projector.Batch, run *RunFacts, d *events.IsolationCounted) {
	for i := range d.Tables {
		t := &d.Tables[i]
		rows, _ := projector.Edit[TableRows](b, key(tableRowsKind, run.Namespace, run.RunID, stated(d.Store), t.Table))
		rows.Store, rows.Table = d.Store, t.Table
		side := &rows.After
		if d.Phase == phaseBefore {
			side = &rows.Before
		}
		if *side != nil {
			run.Repeats++
			continue
		}
		*side = t
	}
}

// breaks says how a table speaks against the isolation; "" when it does not.
func (t *TableRows) breaks() string {
	switch {
	case t.Before == nil || t.After == nil:
		return IsolationIncomplete
	case t.Before.Rows != t.After.Rows, t.Before.SHA256 != nil && t.After.SHA256 != nil && *t.Before.SHA256 != *t.After.SHA256:
		return IsolationDiffers
	}
	return ""
}

// FoundRun is a run with the rows that were counted.
type FoundRun struct {
	Run
	Tables []TableRows `json:"tables"`
}

func (r *RunFacts) check(s *projector.State) (out FoundRun, err error) {
	out.RunFacts, out.Isolation = *r, IsolationNone
	out.Tables, err = all[TableRows](s, Runs, tableRowsKind, r.Namespace, r.RunID)
	for _, t := range out.Tables {
		how := t.breaks()
		if how == "" {
			if out.Isolation == IsolationNone {
				out.Isolation = IsolationClean
			}
			continue
		}
		if out.Isolation != IsolationDiffers {
			out.Isolation = how
		}
		out.Breaches = append(out.Breaches, deref(t.Store)+"/"+t.Table)
	}
	return out, err
}

// ListRuns calls fn for a namespace's runs in the order of ids.
func ListRuns(s *projector.State, namespace string, fn func(*Run) error) error {
	return list(s, Runs, func(r *RunFacts) error {
		f, err := r.check(s)
		if err != nil {
			return err
		}
		return fn(&f.Run)
	}, runKind, namespace)
}

// FindRun reads the runs of an id in all namespaces.
func FindRun(s *projector.State, runID string) (out []FoundRun, err error) {
	found, err := find[RunFacts](s, Runs, runKind, runID)
	for i := range found {
		f, err := found[i].check(s)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, err
}
