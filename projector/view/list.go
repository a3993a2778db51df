package view

import (
	"errors"
	"fmt"
	"slices"

	"assay/projector"
)

// ErrKind means that List was asked for a kind that there is not.
var ErrKind = errors.New("unknown kind")

// Kinds are what List can list.
func Kinds() []string {
	return []string{
		"audits", "blobs", "canaries", "claims", "episodes", "experiments", "hypotheses", "opportunities", "orphans", "parked",
		"predictions", "prices", "queries", "rejections", "scans", "sequences", "shadow", "skews", "tool_calls", "usage", "weeks",
	}
}

// List calls fn for everything of one kind in a namespace, in the order of ids
// or, for canaries, orphans, rejections, scans and skews, of records. Canaries,
// parked records, prices and weeks are those of every namespace: they have none.
func List(s *projector.State, kind, namespace string, fn func(any) error) error {
	switch kind {
	case "audits":
		return ListAudits(s, namespace, func(v *Audit) error { return fn(v) })
	case "canaries":
		return ListCanaries(s, func(v *Canary) error { return fn(v) })
	case "blobs":
		return ListBlobs(s, namespace, func(v *Blob) error { return fn(v) })
	case "claims":
		return ListClaims(s, namespace, func(v *Claim) error { return fn(v) })
	case "episodes":
		return ListEpisodes(s, namespace, func(v *Episode) error { return fn(v) })
	case "experiments":
		return ListExperiments(s, namespace, func(v *Experiment) error { return fn(v) })
	case "hypotheses":
		return ListHypotheses(s, namespace, func(v *HypothesisSet) error { return fn(v) })
	case "opportunities":
		return ListOpportunities(s, namespace, func(v *Opportunity) error { return fn(v) })
	case "orphans":
		return listOrphans(s, namespace, fn)
	case "parked":
		return s.Parked(func(v projector.Parked) error { return fn(v) })
	case "predictions":
		return ListPredictions(s, namespace, func(v *Prediction) error { return fn(v) })
	case "prices":
		return ListPrices(s, func(v *Price) error { return fn(v) })
	case "queries":
		return ListQueries(s, namespace, func(v *Query) error { return fn(v) })
	case "rejections":
		return ListRejections(s, namespace, func(v *Rejection) error { return fn(v) })
	case "scans":
		return ListScans(s, namespace, func(v *Scan) error { return fn(v) })
	case "sequences":
		return listSequences(s, namespace, fn)
	case "shadow":
		return ListShadowCases(s, namespace, func(v *ShadowCase) error { return fn(v) })
	case "skews":
		return ListSkews(s, namespace, func(v *Skew) error { return fn(v) })
	case "tool_calls":
		return ListToolCalls(s, namespace, func(v *ToolCall) error { return fn(v) })
	case "usage":
		return ListEpisodeUsage(s, namespace, func(v *EpisodeUsage) error { return fn(v) })
	case "weeks":
		return ListWeeks(s, func(v *Week) error { return fn(v) })
	}
	return fmt.Errorf("%w %q, want one of %v", ErrKind, kind, Kinds())
}

// listOrphans merges the projections' orphans by record.
func listOrphans(s *projector.State, namespace string, fn func(any) error) error {
	var all []Orphan
	for _, p := range []string{Canaries, Claims, Experiments, Predictions, Queries} {
		err := Orphans(s, p, namespace, func(o *Orphan) error {
			all = append(all, *o)
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b Orphan) int { return int(a.Seq) - int(b.Seq) })
	for i := range all {
		if err := fn(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

func listSequences(s *projector.State, namespace string, fn func(any) error) error {
	return list(s, Episodes, func(v *SourceSequence) error { return fn(v) }, sourceKind, namespace)
}
