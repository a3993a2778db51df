package table

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"assay/projector"
	"assay/projector/view"
)

// viewKind is a kind of view.Kinds as a table.
type viewKind struct {
	kind    string
	meaning string
	*plan
	// everywhere says that the kind has no namespace: it is of the whole ledger.
	everywhere bool
}

var views = []viewKind{
	{"audits", "The sample of a week that people label.", planOf[view.Audit](), false},
	{"blobs", "Content that records of a namespace name by its hash.", planOf[view.Blob](), false},
	{"canaries", "A bounded rollout.", planOf[view.Canary](), true},
	{"claims", "A claim with what became of it.", planOf[view.Claim](), false},
	{"episodes", "An episode: the records that share an episode id.", planOf[view.Episode](), false},
	{"experiments", "An experiment: proposed, executed, observed.", planOf[view.Experiment](), false},
	{"hypotheses", "A set of competing hypotheses.", planOf[view.HypothesisSet](), false},
	{"opportunities", "An opportunity that the detector saw, and where it was routed.", planOf[view.Opportunity](), false},
	{"orphans", "A record that refers to something it has no effect on.", planOf[view.Orphan](), false},
	{"parked", "A record that a projection could not apply.", planOf[projector.Parked](), true},
	{"predictions", "A prediction with its resolution; its criterion is in the event at seq.", planOf[view.Prediction](), false},
	{"prices", "The price of a model for a time.", planOf[view.Price](), true},
	{"queries", "A query that was selected, and its execution.", planOf[view.Query](), false},
	{"rejections", "A refused message, or a run of them.", planOf[view.Rejection](), false},
	{"scans", "What a run of the detector looked through.", planOf[view.Scan](), false},
	{"sequences", "The numbers that one source gave to its events in an episode.", planOf[view.SourceSequence](), false},
	{"shadow", "A claim beside the hypotheses and the evidence that were there before it.", planOf[view.ShadowCase](), false},
	{"skews", "A record whose event time is far ahead of the logger's clock.", planOf[view.Skew](), false},
	{"tool_calls", "A tool call, as the dispatcher saw it and as the agent reported it.", planOf[view.ToolCall](), false},
	{"usage", "What an episode used; each sum with how many of its records state the number.", planOf[view.EpisodeUsage](), false},
	{"weeks", "A closed week.", planOf[view.Week](), true},
}

func viewOf(kind string) (*viewKind, error) {
	i := slices.IndexFunc(views, func(v viewKind) bool { return v.kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("%w %q, want one of %v", view.ErrKind, kind, Kinds())
	}
	return &views[i], nil
}

// addsNamespace says that the rows' own type does not name the namespace.
func (v *viewKind) addsNamespace() bool {
	return !v.everywhere && !slices.ContainsFunc(v.columns, func(c Column) bool { return c.Name == "namespace" })
}

func (v *viewKind) table() *Table {
	if v.addsNamespace() {
		return v.plan.table(v.kind, v.meaning, Column{Name: "namespace", Type: Text, Meaning: common["namespace"]})
	}
	return v.plan.table(v.kind, v.meaning)
}

// ScanView calls fn for every row of a kind of view, in the order of namespaces
// and within one in that of view.List. It holds one row at a time, beside what
// view.List holds: of usage, one sum an episode.
func ScanView(s *projector.State, kind string, fn func(Row) error) error {
	v, err := viewOf(kind)
	if err != nil {
		return err
	}
	namespaces := []string{""}
	if !v.everywhere {
		l, err := s.Ledger()
		if err != nil {
			return err
		}
		namespaces = slices.Sorted(maps.Keys(l.Namespaces))
	}
	row := make(Row, len(v.table().Columns))
	rest := row
	if v.addsNamespace() {
		rest = row[1:]
	}
	for _, ns := range namespaces {
		err := view.List(s, kind, ns, func(item any) error {
			if err := v.row(rest, reflect.ValueOf(item)); err != nil {
				return fmt.Errorf("table %s: %w", kind, err)
			}
			if len(rest) < len(row) {
				row[0] = ns
			}
			return fn(row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ScanForeign calls fn for every row of the table Foreign.
func ScanForeign(s *projector.State, fn func(Row) error) error {
	row := make(Row, len(foreignPlan.columns))
	return s.Foreign(func(f projector.Foreign) error {
		if err := foreignPlan.row(row, reflect.ValueOf(f)); err != nil {
			return err
		}
		return fn(row)
	})
}
