package metric

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// SampleMethod names the rules below. Other rules are another method: a sample
// that was published by one is not checked by another.
const SampleMethod = "audit/3"

// MaxWanted is how many cases of a stratum a sample can hold.
const MaxWanted = 256

// ErrNotAtWeek means that the views do not stand where a week was closed.
var ErrNotAtWeek = errors.New("the views do not stand at the week's end")

// Strata of a sample.
const (
	stratumSuccess       = view.ApparentSuccess
	stratumOpen          = view.Undecided
	stratumNegative      = "detector_negative"
	stratumDetected      = "detected"
	stratumEdge          = "edge"
	stratumContradiction = "contradiction"
	stratumChallenge     = "challenge"
	stratumTransform     = "transform"
	stratumLineage       = "lineage_change"
)

// Sets of strata, each of which is sampled by itself.
const (
	SetOutcomes       = "outcomes"       // what became of conclusions
	SetDetector       = "detector"       // what the detector found and what it did not
	SetAbduction      = "abduction"      // whether an abduction was called for
	SetEdges          = "edges"          // the census of the causal graph
	SetContradictions = "contradictions" // whether conflicts are genuine, and were dealt with rightly
	SetChallenges     = "challenges"     // whether a revision was called for, and done
	SetLineage        = "lineage"        // whether derivations survive consolidation
)

// Wanted is how many cases to draw of a stratum.
type Wanted struct {
	Stratum string
	Cases   int64
}

// Sets are the names of the sets.
func Sets() []string {
	return []string{SetOutcomes, SetDetector, SetAbduction, SetEdges, SetContradictions, SetChallenges, SetLineage}
}

// WantedOf are the strata of a set, in the order in which they stand in a sample, with
// how many cases are drawn unless something else is asked for: of the detector 100
// turns and of the graph 100 edges (C9). It is nil for no set.
func WantedOf(set string) []Wanted {
	switch set {
	case SetOutcomes:
		return []Wanted{{stratumSuccess, 10}, {stratumOpen, 10}, {stratumNegative, 10}}
	case SetDetector:
		return []Wanted{{stratumDetected, 50}, {stratumNegative, 50}}
	case SetAbduction:
		return []Wanted{{stratumDetected, 20}, {stratumNegative, 20}}
	case SetEdges:
		return []Wanted{{stratumEdge, 100}}
	case SetContradictions:
		return []Wanted{{stratumContradiction, 20}}
	case SetChallenges:
		return []Wanted{{stratumChallenge, 20}}
	case SetLineage:
		return []Wanted{{stratumTransform, 20}, {stratumLineage, 20}}
	}
	return nil
}

// SetOf is the set of a sample.
func SetOf(d *events.AuditSampled) string {
	if d.Set == nil {
		return SetOutcomes
	}
	return *d.Set
}

// Sample draws what is to be labelled of a week: of each stratum of a set
// (WantedOf) as many cases as are wanted. The views must stand at the record that
// closed the week, so that nothing later can tell cases apart.
//
// A case is of the week if its record is, or if it came to stand as it does, within
// the week, or since the last week that was closed before: in weeks without a record
// claims grow old too. What was imported is no case.
//
//	apparent_success   claims, and predictions that were made on none
//	                   (view.Standing), which became a success in the week and
//	                   still were one at the end; whatever says the same again moves
//	                   them to no other week
//	unresolved         the same for those that became unresolved
//	detected           opportunities that the detector found in the week
//	detector_negative  turns that a detector.scanned of the week found without an
//	                   opportunity; a turn that is named twice is one
//	edge               every edge that the graph held at the end of the week
//	contradiction      those that were detected in the week, but for duplicates of one
//	                   that was open
//	challenge          challenges of beliefs in the week
//	transform          steps of consolidation in the week
//	lineage_change     beliefs whose lineage something else changed in the week
//
// Each stratum is sorted by SHA-256(seed ‖ kind ‖ 0x00 ‖ id), where the seed is
// the 32 bytes of the leaf of week.closed; the first ones are drawn. Nobody
// knows that leaf before the week is over, and everybody can compute it after.
func Sample(s *projector.State, week *view.Week, namespace, set string, wanted []Wanted) (*events.AuditSampled, error) {
	if at, _, err := s.At(); err != nil || at != week.Seq {
		return nil, errors.Join(err, fmt.Errorf("%w: %s was closed by record %d, they stand at %d", ErrNotAtWeek, week.Week, week.Seq, at))
	}
	seed, err := ledger.ParseHash(week.Leaf)
	if err != nil {
		return nil, err
	}
	d := drawer{state: s, namespace: namespace, seed: seed, from: week.Start, to: week.End, strata: map[string][]events.AuditCase{}}
	err = view.ListWeeks(s, func(w *view.Week) error {
		if w.Seq < week.Seq { // in the order of weeks
			d.from = w.End
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := d.collect(set); err != nil {
		return nil, err
	}
	out := &events.AuditSampled{
		Week: week.Week, Namespace: namespace, Method: SampleMethod, Seed: week.Leaf, ClosedSeq: uint64(week.Seq),
	}
	if set != SetOutcomes {
		out.Set = &set
	}
	for _, w := range wanted {
		st := d.draw(w.Stratum, w.Cases)
		if w.Stratum == stratumNegative {
			st.Unlisted = d.unlisted
			st.Population += d.unlisted
		}
		out.Strata = append(out.Strata, st)
	}
	return out, nil
}

// drawer collects the cases of a week by stratum.
type drawer struct {
	state     *projector.State
	namespace string
	seed      ledger.Hash
	from, to  time.Time
	strata    map[string][]events.AuditCase
	unlisted  int64 // negative turns that were counted and not named: they cannot be drawn
}

func (d *drawer) holds(t time.Time) bool { return !t.Before(d.from) && t.Before(d.to) }

// add takes a case up; one of another namespace was imported.
func (d *drawer) add(stratum, namespace string, at time.Time, kind, id string, seq ledger.Seq) {
	if namespace == d.namespace && d.holds(at) {
		d.strata[stratum] = append(d.strata[stratum], events.AuditCase{Kind: kind, ID: id, Seq: uint64(seq)})
	}
}

// collect looks for the cases of a set.
func (d *drawer) collect(set string) error {
	s, ns := d.state, d.namespace
	switch set {
	case SetOutcomes:
		return errors.Join(d.claims(), d.predictions(), d.turns())
	case SetDetector, SetAbduction:
		err := view.ListOpportunities(s, ns, func(v *view.Opportunity) error {
			d.add(stratumDetected, v.Namespace, v.RecordedAt, view.LabelOpportunity, v.OpportunityID, v.Seq)
			return nil
		})
		return errors.Join(err, d.turns())
	case SetEdges:
		return view.ListGraph(s, ns, view.GraphQuery{}, func(v *view.GraphEdge) error {
			if v.Namespace == ns {
				d.strata[stratumEdge] = append(d.strata[stratumEdge], events.AuditCase{Kind: view.LabelEdge, ID: v.Name(), Seq: uint64(v.FirstSeq)})
			}
			return nil
		})
	case SetContradictions:
		return view.ListContradictions(s, ns, func(v *view.Contradiction) error {
			if v.DuplicateOf == nil {
				d.add(stratumContradiction, v.Namespace, v.RecordedAt, view.LabelContradiction, v.ContradictionID, v.Seq)
			}
			return nil
		})
	case SetChallenges:
		return view.ListChallenges(s, ns, func(v *view.Challenge) error {
			d.add(stratumChallenge, v.Namespace, v.RecordedAt, view.LabelChallenge, v.ChallengeID, v.Seq)
			return nil
		})
	case SetLineage:
		return d.lineage()
	}
	return fmt.Errorf("no set of cases is called %q", set)
}

func (d *drawer) claims() error {
	return view.ListClaims(d.state, d.namespace, func(c *view.Claim) error {
		st, err := view.StandingOf(d.state, c)
		d.add(st.Status, c.Namespace, st.Since, view.LabelClaim, c.ClaimID, c.Seq)
		return err
	})
}

func (d *drawer) predictions() error {
	return view.ListPredictions(d.state, d.namespace, func(p *view.Prediction) error {
		onClaim, err := view.OnClaim(d.state, p)
		if err != nil || onClaim {
			return err
		}
		st, err := view.StandingOfPrediction(d.state, p)
		d.add(st.Status, p.Namespace, st.Since, view.LabelPrediction, p.PredID, p.Seq)
		return err
	})
}

func (d *drawer) turns() error {
	seen := make(map[string]bool)
	return view.ListScans(d.state, d.namespace, func(v *view.Scan) error {
		if v.Namespace != d.namespace || !d.holds(v.RecordedAt) { // imported, or of another week
			return nil
		}
		for _, id := range v.NegativeTurnIDs {
			if !seen[id] {
				seen[id] = true
				d.add(stratumNegative, v.Namespace, v.RecordedAt, view.LabelTurn, id, v.Seq)
			}
		}
		d.unlisted += max(0, v.Negative-int64(len(v.NegativeTurnIDs)))
		return nil
	})
}

// lineage collects each step of consolidation once, and each belief whose lineage
// changed otherwise, by the first such change of the week.
func (d *drawer) lineage() error {
	err := view.ListTransforms(d.state, d.namespace, func(v *view.Transform) error {
		d.add(stratumTransform, v.Namespace, v.RecordedAt, view.LabelTransform, v.TransformID, v.Seq)
		return nil
	})
	seen := map[string]bool{}
	return errors.Join(err, view.ListLineage(d.state, d.namespace, func(v *view.LineageStep) error {
		if v.TransformID == nil && d.holds(v.RecordedAt) && !seen[v.BeliefID] {
			seen[v.BeliefID] = true
			d.add(stratumLineage, v.Namespace, v.RecordedAt, view.LabelBelief, v.BeliefID, v.Seq)
		}
		return nil
	}))
}

// Rank is a case's place in the order of a seed.
func Rank(seed ledger.Hash, kind, id string) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat(seed[:], []byte(kind), []byte{0}, []byte(id)))
}

// draw takes the first cases of a stratum in the seed's order.
func (d *drawer) draw(stratum string, wanted int64) events.AuditStratum {
	type ranked struct {
		rank [sha256.Size]byte
		c    events.AuditCase
	}
	cases := make([]ranked, 0, len(d.strata[stratum]))
	for _, c := range d.strata[stratum] {
		cases = append(cases, ranked{Rank(d.seed, c.Kind, c.ID), c})
	}
	slices.SortFunc(cases, func(a, b ranked) int { return bytes.Compare(a.rank[:], b.rank[:]) })
	out := events.AuditStratum{Stratum: stratum, Population: int64(len(cases)), Wanted: wanted, Cases: []events.AuditCase{}}
	for _, r := range cases[:min(int64(len(cases)), wanted)] {
		out.Cases = append(out.Cases, r.c)
	}
	return out
}

// SampleText is a sample for a terminal.
func SampleText(d *events.AuditSampled) string {
	var b strings.Builder
	fmt.Fprintf(&b, "week        %s, closed by record %d\nnamespace   %s\nset         %s\nseed        %s (%s)\n", d.Week, d.ClosedSeq, d.Namespace, SetOf(d), d.Seed, d.Method)
	for _, s := range d.Strata {
		fmt.Fprintf(&b, "\n%s: %d of %d", s.Stratum, len(s.Cases), s.Population)
		if s.Unlisted > 0 {
			fmt.Fprintf(&b, " (%d were counted and not named, so that they cannot be drawn)", s.Unlisted)
		}
		b.WriteByte('\n')
		for _, c := range s.Cases {
			fmt.Fprintf(&b, "  %-13s  %s  (record %d)\n", c.Kind, c.ID, c.Seq)
		}
	}
	return b.String()
}
