package table

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

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

// views are worked out when they are first asked for: that takes longer than the
// start of a program.
var views = sync.OnceValue(func() []viewKind {
	return []viewKind{
		{"abductions", "A use of the agent's abduction module, by its own word.", planOf[view.Abduction](), false},
		{"approvals", "A request for an approval, and what became of it.", planOf[view.Approval](), false},
		{"audits", "The sample of a week that people label.", planOf[view.Audit](), false},
		{"belief_reads", "A reading of a belief, with what was wrong with it at that moment.", planOf[view.BeliefRead](), false},
		{"beliefs", "A belief as the last record that changed it left it.", planOf[view.Belief](), false},
		{"blobs", "Content that records of a namespace name by its hash.", planOf[view.Blob](), false},
		{"canaries", "A bounded rollout.", planOf[view.Canary](), true},
		{"cases", "A committed case, and what opened it.", planOf[view.Case](), true},
		{"challenges", "A challenge of a belief.", planOf[view.Challenge](), false},
		{"claims", "A claim with what became of it.", planOf[view.Claim](), false},
		{"cohorts", "A set of worlds for one split, with what it has been through.", planOf[view.Cohort](), true},
		{"content_changes", "A change of a belief's content, by whatever it became known.", planOf[view.ContentChange](), false},
		{"contradictions", "A contradiction with where it stands.", planOf[view.Contradiction](), false},
		{"controls", "A control with its result.", planOf[view.Control](), false},
		{"decisions", "A decision.", planOf[view.Decision](), false},
		{"deliveries", "A finding that was put into the agent's context.", planOf[view.Delivery](), false},
		{"episode_reports", "A report of an episode.", planOf[view.EpisodeReport](), false},
		{"episodes", "An episode: the records that share an episode id.", planOf[view.Episode](), false},
		{"experiments", "An experiment: proposed, executed, observed.", planOf[view.Experiment](), false},
		{"findings", "A durable conclusion with what became of it.", planOf[view.Finding](), false},
		{"flags", "A change of a flag.", planOf[view.FlagChange](), false},
		{"gates", "An action that the agent's gate chose, beside what it was offered.", planOf[view.Gate](), false},
		{"graph", "An edge that the agent's causal graph holds.", planOf[view.GraphEdge](), false},
		{"graph_writes", "A write to the agent's causal graph.", planOf[view.GraphEdge](), false},
		{"hypotheses", "A set of competing hypotheses.", planOf[view.HypothesisSet](), false},
		{"labels", "A rater's word on one thing.", planOf[view.Label](), false},
		{"lineage", "How one writer treats the lineage of beliefs.", planOf[view.WriterLineage](), false},
		{"lineage_steps", "A belief's lineage passing through a writer.", planOf[view.LineageStep](), false},
		{"offers", "What a turn really offered, as the dispatcher saw it.", planOf[view.Offer](), false},
		{"opportunities", "An opportunity that the detector saw, and where it was routed.", planOf[view.Opportunity](), false},
		{"orphans", "A record that refers to something it has no effect on.", planOf[view.Orphan](), false},
		{"parked", "A record that a projection could not apply.", planOf[projector.Parked](), true},
		{"predictions", "A prediction with its resolution; its criterion is in the event at seq.", planOf[view.Prediction](), false},
		{"preregistrations", "A pre-registration.", planOf[view.Preregistration](), false},
		{"prices", "The price of a model for a time.", planOf[view.Price](), true},
		{"probes", "A probe with its result.", planOf[view.Probe](), false},
		{"queries", "A query that was selected, and its execution.", planOf[view.Query](), false},
		{"ratings", "A rater's word on a finding, or on one delivery of it.", planOf[view.Rating](), false},
		{"rejections", "A refused message, or a run of them.", planOf[view.Rejection](), false},
		{"responses", "What came back for a case at a stage of a run.", planOf[view.Response](), false},
		{"runs", "A run.", planOf[view.Run](), false},
		{"scans", "What a run of the detector looked through.", planOf[view.Scan](), false},
		{"scores", "A score of a response.", planOf[view.Score](), false},
		{"sequences", "The numbers that one source gave to its events in an episode.", planOf[view.SourceSequence](), false},
		{"shadow", "A claim beside the hypotheses and the evidence that were there before it.", planOf[view.ShadowCase](), false},
		{"skews", "A record whose event time is far ahead of the logger's clock.", planOf[view.Skew](), false},
		{"tool_calls", "A tool call, as the dispatcher saw it and as the agent reported it.", planOf[view.ToolCall](), false},
		{"transforms", "A step of consolidation of beliefs.", planOf[view.Transform](), false},
		{"usage", "What an episode used; each sum with how many of its records state the number.", planOf[view.EpisodeUsage](), false},
		{"weeks", "A closed week.", planOf[view.Week](), true},
		{"withheld", "A finding that was a candidate and was not delivered.", planOf[view.Withholding](), false},
	}
})

func viewOf(kind string) (*viewKind, error) {
	i := slices.IndexFunc(views(), func(v viewKind) bool { return v.kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("%w %q, want one of %v", view.ErrKind, kind, Kinds())
	}
	return &views()[i], nil
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
