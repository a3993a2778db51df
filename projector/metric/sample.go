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

// DefaultWanted is how many cases of each stratum are drawn.
const DefaultWanted = 10

// MaxWanted is how many cases of a stratum a sample can hold.
const MaxWanted = 256

// ErrNotAtWeek means that the views do not stand where a week was closed.
var ErrNotAtWeek = errors.New("the views do not stand at the week's end")

// Strata of a sample, in the order in which they stand.
const (
	stratumSuccess  = view.ApparentSuccess
	stratumOpen     = view.Undecided
	stratumNegative = "detector_negative"
)

// Wanted is how many cases to draw of each stratum.
type Wanted struct{ Success, Unresolved, Negative int64 }

// Sample draws what is to be labelled of a week. The views must stand at the
// record that closed it, so that nothing later can tell cases apart.
//
// A case is a claim, or a prediction that was made on none (view.Standing). It
// is of the week if it came to stand so within it, or since the last week that
// was closed before: in weeks without a record claims grow old too. Whatever says
// the same again moves it to no other week. What was imported is no case.
//
//	apparent_success   it became a success in the week, and still was one at the
//	                   end
//	unresolved         it became unresolved in the week, and still was at the end
//	detector_negative  turns that a detector.scanned of the week found without an
//	                   opportunity; a turn that is named twice is one
//
// Each stratum is sorted by SHA-256(seed ‖ kind ‖ 0x00 ‖ id), where the seed is
// the 32 bytes of the leaf of week.closed; the first ones are drawn. Nobody
// knows that leaf before the week is over, and everybody can compute it after.
func Sample(s *projector.State, week *view.Week, namespace string, wanted Wanted) (*events.AuditSampled, error) {
	if at, _, err := s.At(); err != nil || at != week.Seq {
		return nil, errors.Join(err, fmt.Errorf("%w: %s was closed by record %d, they stand at %d", ErrNotAtWeek, week.Week, week.Seq, at))
	}
	seed, err := ledger.ParseHash(week.Leaf)
	if err != nil {
		return nil, err
	}
	d := drawer{seed: seed, from: week.Start, to: week.End, strata: map[string][]events.AuditCase{}}
	err = view.ListWeeks(s, func(w *view.Week) error {
		if w.Seq < week.Seq { // in the order of weeks
			d.from = w.End
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := d.claims(s, namespace); err != nil {
		return nil, err
	}
	if err := d.predictions(s, namespace); err != nil {
		return nil, err
	}
	negatives, unlisted, err := d.turns(s, namespace)
	if err != nil {
		return nil, err
	}
	out := &events.AuditSampled{
		Week: week.Week, Namespace: namespace, Method: SampleMethod, Seed: week.Leaf, ClosedSeq: uint64(week.Seq),
	}
	out.Strata = []events.AuditStratum{
		d.draw(stratumSuccess, wanted.Success), d.draw(stratumOpen, wanted.Unresolved), d.draw(stratumNegative, wanted.Negative),
	}
	out.Strata[2].Population, out.Strata[2].Unlisted = negatives, unlisted
	return out, nil
}

// drawer collects the cases of a week by stratum.
type drawer struct {
	seed     ledger.Hash
	from, to time.Time
	strata   map[string][]events.AuditCase
}

func (d *drawer) holds(t time.Time) bool { return !t.Before(d.from) && t.Before(d.to) }

func (d *drawer) add(st view.Standing, c events.AuditCase) {
	if d.holds(st.Since) {
		d.strata[st.Status] = append(d.strata[st.Status], c)
	}
}

func (d *drawer) claims(s *projector.State, namespace string) error {
	return view.ListClaims(s, namespace, func(c *view.Claim) error {
		if c.Namespace != namespace { // imported
			return nil
		}
		st, err := view.StandingOf(s, c)
		d.add(st, events.AuditCase{Kind: "claim", ID: c.ClaimID, Seq: uint64(c.Seq)})
		return err
	})
}

func (d *drawer) predictions(s *projector.State, namespace string) error {
	return view.ListPredictions(s, namespace, func(p *view.Prediction) error {
		if p.Namespace != namespace { // imported
			return nil
		}
		onClaim, err := view.OnClaim(s, p)
		if err != nil || onClaim {
			return err
		}
		st, err := view.StandingOfPrediction(s, p)
		d.add(st, events.AuditCase{Kind: "prediction", ID: p.PredID, Seq: uint64(p.Seq)})
		return err
	})
}

// turns collects the negative turns. Those that were counted and not named are
// unlisted: they belong to the population and cannot be drawn.
func (d *drawer) turns(s *projector.State, namespace string) (negatives, unlisted int64, err error) {
	seen := make(map[string]bool)
	err = view.ListScans(s, namespace, func(v *view.Scan) error {
		if v.Namespace != namespace || !d.holds(v.RecordedAt) { // imported, or of another week
			return nil
		}
		named := int64(0)
		for _, id := range v.NegativeTurnIDs {
			named++
			if !seen[id] {
				seen[id] = true
				d.strata[stratumNegative] = append(d.strata[stratumNegative], events.AuditCase{Kind: "turn", ID: id, Seq: uint64(v.Seq)})
			}
		}
		unlisted += max(0, v.Negative-named)
		return nil
	})
	return int64(len(seen)) + unlisted, unlisted, err
}

// draw takes the first cases of a stratum in the seed's order.
func (d *drawer) draw(stratum string, wanted int64) events.AuditStratum {
	type ranked struct {
		rank [sha256.Size]byte
		c    events.AuditCase
	}
	cases := make([]ranked, 0, len(d.strata[stratum]))
	for _, c := range d.strata[stratum] {
		cases = append(cases, ranked{sha256.Sum256(slices.Concat(d.seed[:], []byte(c.Kind), []byte{0}, []byte(c.ID))), c})
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
	fmt.Fprintf(&b, "week        %s, closed by record %d\nnamespace   %s\nseed        %s (%s)\n", d.Week, d.ClosedSeq, d.Namespace, d.Seed, d.Method)
	for _, s := range d.Strata {
		fmt.Fprintf(&b, "\n%s: %d of %d", s.Stratum, len(s.Cases), s.Population)
		if s.Unlisted > 0 {
			fmt.Fprintf(&b, " (%d were counted and not named, so that they cannot be drawn)", s.Unlisted)
		}
		b.WriteByte('\n')
		for _, c := range s.Cases {
			fmt.Fprintf(&b, "  %-10s  %s  (record %d)\n", c.Kind, c.ID, c.Seq)
		}
	}
	return b.String()
}
