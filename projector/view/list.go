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

// listOrphans merges the projections' orphans by record, one of each at a time.
func listOrphans(s *projector.State, namespace string, fn func(any) error) error {
	var feeds []*orphanFeed
	for _, p := range []string{Canaries, Claims, Experiments, Predictions, Queries} {
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
