package view

import (
	"errors"
	"fmt"
	"iter"

	"assay/internal/kv"
	"assay/projector"
)

// ErrKind means that List was asked for a kind that there is not.
var ErrKind = errors.New("unknown kind")

// Kinds are what List can list.
func Kinds() []string {
	return []string{
		"abductions", "approvals", "audits", "belief_reads", "beliefs", "blobs", "canaries", "cases", "challenges", "claims", "cohorts",
		"content_changes", "contradictions", "controls", "decisions", "deliveries", "episode_reports", "episodes", "experiments", "findings",
		"flags", "gates", "graph", "graph_writes", "hypotheses", "labels", "lineage", "lineage_steps", "offers", "opportunities", "orphans",
		"parked", "predictions", "preregistrations", "prices", "probes", "queries", "ratings", "rejections", "responses", "runs", "scans",
		"scores", "sequences", "shadow", "skews", "tool_calls", "transforms", "usage", "weeks", "withheld",
	}
}

// List calls fn for everything of one kind in a namespace, in the order of ids
// or, for what has none, of records. Canaries, cases, cohorts, parked records,
// prices and weeks are those of every namespace: they have none.
func List(s *projector.State, kind, namespace string, fn func(any) error) error {
	switch kind {
	case "abductions":
		return ListAbductions(s, namespace, func(v *Abduction) error { return fn(v) })
	case "approvals":
		return ListApprovals(s, namespace, func(v *Approval) error { return fn(v) })
	case "audits":
		return ListAudits(s, namespace, func(v *Audit) error { return fn(v) })
	case "belief_reads":
		return ListBeliefReads(s, namespace, func(v *BeliefRead) error { return fn(v) })
	case "beliefs", "graph":
		return ListAsOf(s, kind, namespace, GraphQuery{}, fn)
	case "canaries":
		return ListCanaries(s, func(v *Canary) error { return fn(v) })
	case "blobs":
		return ListBlobs(s, namespace, func(v *Blob) error { return fn(v) })
	case "cases":
		return ListCases(s, func(v *Case) error { return fn(v) })
	case "challenges":
		return ListChallenges(s, namespace, func(v *Challenge) error { return fn(v) })
	case "claims":
		return ListClaims(s, namespace, func(v *Claim) error { return fn(v) })
	case "cohorts":
		return ListCohorts(s, func(v *Cohort) error { return fn(v) })
	case "content_changes":
		return ListContentChanges(s, namespace, func(v *ContentChange) error { return fn(v) })
	case "contradictions":
		return ListContradictions(s, namespace, func(v *Contradiction) error { return fn(v) })
	case "controls":
		return ListControls(s, namespace, func(v *Control) error { return fn(v) })
	case "decisions":
		return ListDecisions(s, namespace, func(v *Decision) error { return fn(v) })
	case "deliveries":
		return ListDeliveries(s, namespace, func(v *Delivery) error { return fn(v) })
	case "episode_reports":
		return ListEpisodeReports(s, namespace, func(v *EpisodeReport) error { return fn(v) })
	case "episodes":
		return ListEpisodes(s, namespace, func(v *Episode) error { return fn(v) })
	case "experiments":
		return ListExperiments(s, namespace, func(v *Experiment) error { return fn(v) })
	case "findings":
		return ListFindings(s, namespace, func(v *Finding) error { return fn(v) })
	case "flags":
		return ListFlags(s, namespace, func(v *FlagChange) error { return fn(v) })
	case "gates":
		return ListGates(s, namespace, func(v *Gate) error { return fn(v) })
	case "graph_writes":
		return ListGraphWrites(s, namespace, func(v *GraphEdge) error { return fn(v) })
	case "hypotheses":
		return ListHypotheses(s, namespace, func(v *HypothesisSet) error { return fn(v) })
	case "labels":
		return ListLabels(s, namespace, func(v *Label) error { return fn(v) })
	case "lineage":
		return ListLineageByWriter(s, namespace, func(v *WriterLineage) error { return fn(v) })
	case "lineage_steps":
		return ListLineage(s, namespace, func(v *LineageStep) error { return fn(v) })
	case "offers":
		return ListOffers(s, namespace, func(v *Offer) error { return fn(v) })
	case "opportunities":
		return ListOpportunities(s, namespace, func(v *Opportunity) error { return fn(v) })
	case "orphans":
		return listOrphans(s, namespace, fn)
	case "parked":
		return s.Parked(func(v projector.Parked) error { return fn(v) })
	case "predictions":
		return ListPredictions(s, namespace, func(v *Prediction) error { return fn(v) })
	case "preregistrations":
		return ListPreregistrations(s, namespace, func(v *Preregistration) error { return fn(v) })
	case "prices":
		return ListPrices(s, func(v *Price) error { return fn(v) })
	case "probes":
		return ListProbes(s, namespace, func(v *Probe) error { return fn(v) })
	case "queries":
		return ListQueries(s, namespace, func(v *Query) error { return fn(v) })
	case "ratings":
		return ListRatings(s, namespace, func(v *Rating) error { return fn(v) })
	case "rejections":
		return ListRejections(s, namespace, func(v *Rejection) error { return fn(v) })
	case "responses":
		return ListResponses(s, namespace, func(v *Response) error { return fn(v) })
	case "runs":
		return ListRuns(s, namespace, func(v *Run) error { return fn(v) })
	case "scans":
		return ListScans(s, namespace, func(v *Scan) error { return fn(v) })
	case "scores":
		return ListScores(s, namespace, func(v *Score) error { return fn(v) })
	case "sequences":
		return listSequences(s, namespace, fn)
	case "shadow":
		return ListShadowCases(s, namespace, func(v *ShadowCase) error { return fn(v) })
	case "skews":
		return ListSkews(s, namespace, func(v *Skew) error { return fn(v) })
	case "tool_calls":
		return ListToolCalls(s, namespace, func(v *ToolCall) error { return fn(v) })
	case "transforms":
		return ListTransforms(s, namespace, func(v *Transform) error { return fn(v) })
	case "usage":
		return ListEpisodeUsage(s, namespace, func(v *EpisodeUsage) error { return fn(v) })
	case "weeks":
		return ListWeeks(s, func(v *Week) error { return fn(v) })
	case "withheld":
		return ListWithheld(s, namespace, func(v *Withholding) error { return fn(v) })
	}
	return fmt.Errorf("%w %q, want one of %v", ErrKind, kind, Kinds())
}

// ListAsOf is List for the two kinds that can be asked for an earlier record: what
// the graph held, and what was believed.
func ListAsOf(s *projector.State, kind, namespace string, q GraphQuery, fn func(any) error) error {
	switch kind {
	case "graph":
		return ListGraph(s, namespace, q, func(v *GraphEdge) error { return fn(v) })
	case "beliefs":
		return ListBeliefs(s, namespace, q.At, func(v *Belief) error { return fn(v) })
	}
	return fmt.Errorf("%w: %s as of a record", ErrKind, kind)
}

// listOrphans merges the projections' orphans by record, one of each at a time.
func listOrphans(s *projector.State, namespace string, fn func(any) error) error {
	var feeds []*orphanFeed
	for _, p := range []string{Abductions, Beliefs, Canaries, Cases, Claims, Contradictions, Decisions, Experiments, Findings, Graph, Predictions, Queries, Results, Runs, Weeks} {
		f := newOrphanFeed(s, p, namespace)
		defer f.stop()
		feeds = append(feeds, f)
	}
	for {
		var first *orphanFeed
		for _, f := range feeds {
			if f.err != nil {
				return f.err
			}
			if f.more && (first == nil || f.head.Seq < first.head.Seq) {
				first = f
			}
		}
		if first == nil {
			return nil
		}
		if err := fn(first.head); err != nil {
			return err
		}
		first.advance()
	}
}

// orphanFeed is the orphans of one projection, with the first that was not taken.
type orphanFeed struct {
	head *Orphan
	err  error // that ended it
	more bool  // there is a head, or an error

	next func() (*Orphan, error, bool)
	stop func()
}

func newOrphanFeed(s *projector.State, projection, namespace string) *orphanFeed {
	f := &orphanFeed{}
	f.next, f.stop = iter.Pull2(func(yield func(*Orphan, error) bool) {
		err := Orphans(s, projection, namespace, func(o *Orphan) error {
			if !yield(o, nil) {
				return kv.ErrStop
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
		}
	})
	f.advance()
	return f
}

func (f *orphanFeed) advance() { f.head, f.err, f.more = f.next() }

func listSequences(s *projector.State, namespace string, fn func(any) error) error {
	return list(s, Episodes, func(v *SourceSequence) error { return fn(v) }, sourceKind, namespace)
}
