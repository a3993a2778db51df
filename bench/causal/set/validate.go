package set

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/bench/causal/montecarlo"
	"assay/bench/causal/record"
	"assay/internal/stats"
)

// Check is a line of the validation table.
type Check struct {
	Name   string `json:"check"`
	Method string `json:"method"`
	N      int    `json:"n"` // what was compared
	Result string `json:"result"`
	// Pass is nil where the set is too small to say.
	Pass   *bool    `json:"pass"`
	Faults []string `json:"faults,omitempty"` // the first few
}

// maxFaults is how many faults a check names.
const maxFaults = 5

func (c *Check) fault(format string, args ...any) {
	if len(c.Faults) < maxFaults {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
	failed := false
	c.Pass = &failed
}

// end passes a check that found no fault and compared at least so many.
func (c *Check) end(least int, format string, args ...any) Check {
	c.Result = fmt.Sprintf(format, args...)
	if c.Pass == nil && c.N >= least {
		passed := true
		c.Pass = &passed
	}
	if c.Pass == nil {
		c.Result += fmt.Sprintf("; at least %d are needed", least)
	}
	return *c
}

// Options of Validate.
type Options struct {
	// Draws of the simulation, for each model.
	Draws int
	// Progress is told how many models are simulated. It may be nil.
	Progress func(done, total int64)
	// Whole says that the set must be large enough for each check: too few is a fault.
	Whole bool
}

// Draws is C9's number of draws.
const Draws = 200_000

// Alarm is how many standard errors an estimate may be off.
const Alarm = 5.0

// Exact is how far numbers that are the same may be apart.
const Exact = 1e-12

// Validate is C9's validation table for a set with its oracles.
func Validate(ctx context.Context, s *Set, o Options) ([]Check, error) {
	simulated, err := s.simulate(ctx, o)
	if err != nil {
		return nil, err
	}
	records, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	checks := []Check{handCases(), simulated, records, s.backDoor(), s.estimands(), s.witnesses(), s.decisions(), s.pairs(), s.labels()}
	checks = append(checks, s.audits()...)
	if o.Whole {
		for i := range checks {
			if checks[i].Pass == nil {
				checks[i].fault("too few")
			}
		}
	}
	return checks, ctx.Err()
}

// Passed says whether no check failed.
func Passed(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.Pass != nil && !*c.Pass })
}

// simulate holds every number asked for under a mechanism against the independent
// simulation.
func (s *Set) simulate(ctx context.Context, o Options) (Check, error) {
	c := Check{Name: "Oracle against simulation", Method: fmt.Sprintf("twin networks, %d draws a model, from the public cases alone", o.Draws)}
	cases := map[string][]*Case{}
	var refs []string
	for i := range s.Cases {
		k := &s.Cases[i]
		ref, err := montecarlo.Mechanism(k.PublicLine)
		if err != nil {
			return c, err
		}
		if ref == "" || k.Oracle.Value == nil {
			continue
		}
		if cases[ref] == nil {
			refs = append(refs, ref)
		}
		cases[ref] = append(cases[ref], k)
	}
	estimates := make([][]montecarlo.Estimate, len(refs))
	err := each(ctx, len(refs), o.Progress, func(i int) (err error) {
		var public [][]byte
		for _, k := range cases[refs[i]] {
			public = append(public, k.PublicLine)
		}
		estimates[i], err = montecarlo.Run(s.Blobs[strings.TrimPrefix(refs[i], "sha256:")], public, o.Draws)
		return err
	})
	if err != nil {
		return c, err
	}
	worst := 0.0
	for i, ref := range refs {
		for j, e := range estimates[i] {
			k := cases[ref][j]
			c.N++
			z := deviation(e, *k.Oracle.Value)
			worst = max(worst, math.Abs(z))
			if !(math.Abs(z) <= Alarm) {
				c.fault("case %s: %s is %v, the simulation has %v of %d draws, z = %.2f", k.Public.CaseID, k.Oracle.Formula, *k.Oracle.Value, e.Value(), e.N, z)
			}
		}
	}
	return c.end(1, "max |z| %.2f", worst), nil
}

// few is how much variance a count has at least for the normal law to be taken.
const few = 25

// deviation is how many standard errors an estimate is from the truth. The variance
// is that of the truth; where that makes a count rare, the exact tail decides, as the
// number of standard errors with the same tail. Of an effect, which is a difference in
// each draw, the variance is what the draws show.
func deviation(e montecarlo.Estimate, truth float64) float64 {
	n := float64(e.N)
	if e.N == 0 {
		return math.NaN()
	}
	if e.Effect {
		off := e.Value() - truth
		variance := float64(e.Plus+e.Minus)/n - float64(e.Value()*e.Value())
		if variance <= 0 {
			if math.Abs(off) < 1e-9 {
				return 0
			}
			variance = 1 / n // it would show once in so many draws
		}
		return off / math.Sqrt(variance/n)
	}
	p := min(max(truth, 0), 1)
	if p < 1e-9 || p > 1-1e-9 { // certain
		if float64(e.Plus) == math.Round(n*p) {
			return 0
		}
		return math.Inf(1)
	}
	variance := n * p * (1 - p)
	if variance >= few {
		return (float64(e.Plus) - float64(n*p)) / math.Sqrt(variance)
	}
	tail, ok := stats.BinomialTest(e.Plus, e.N, p)
	if !ok {
		return math.NaN()
	}
	if tail >= 1 {
		return 0
	}
	return stats.Z(tail)
}

// records reads each case and oracle again by its schema, and looks for the evidence.
func (s *Set) records(ctx context.Context) (Check, error) {
	c := Check{Name: "Records", Method: "every case and oracle against its JSON Schema, every blob by its hash", N: len(s.Cases)}
	faults := make([]error, len(s.Cases))
	err := each(ctx, len(s.Cases), nil, func(i int) error {
		faults[i] = s.recordsOf(&s.Cases[i])
		return nil
	})
	for i, fault := range faults {
		if fault != nil {
			c.fault("case %s: %v", s.Cases[i].Public.CaseID, fault)
		}
	}
	return c.end(1, "%d cases, %d blobs", len(s.Cases), len(s.Blobs)), err
}

func (s *Set) recordsOf(k *Case) error {
	p, err := record.Decode[record.PublicCase](k.PublicLine)
	if err != nil {
		return err
	}
	if _, err := record.Decode[record.PrivateOracle](k.OracleLine); err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	for _, e := range p.Evidence {
		name := strings.TrimPrefix(e.Ref, "sha256:")
		if b, ok := s.Blobs[name]; !ok || hash(b) != name {
			return fmt.Errorf("blob %s is not there", name)
		}
	}
	return nil
}

// Repeats makes the set anew from its recipe, and compares each byte. It leaves what
// only the making shows, the gaps of the items left out too, in s.
func (s *Set) Repeats(ctx context.Context, progress func(done, total int64)) (Check, error) {
	c := Check{Name: "Made anew", Method: "from the recipe, each case, oracle, salt and blob byte for byte"}
	again, err := Generate(ctx, s.Recipe, progress)
	if errors.Is(err, ErrRecipe) {
		c.Result = err.Error() // another version's: nothing to compare with
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if len(again.Cases) != len(s.Cases) {
		c.fault("%d cases, not %d", len(again.Cases), len(s.Cases))
		return c.end(1, "other cases"), nil
	}
	for i := range s.Cases {
		c.N++
		a, b := &s.Cases[i], &again.Cases[i]
		if !bytes.Equal(a.PublicLine, b.PublicLine) || !bytes.Equal(a.OracleLine, b.OracleLine) || a.Salt != b.Salt {
			c.fault("case %s is another one", a.Public.CaseID)
		}
	}
	for name, b := range again.Blobs {
		if !bytes.Equal(b, s.Blobs[name]) {
			c.fault("blob %s has other bytes", name)
		}
	}
	if !maps.Equal(again.Dropped, s.Dropped) {
		c.fault("%v was left out, the manifest says %v", again.Dropped, s.Dropped)
	}
	s.Gaps = again.Gaps
	return c.end(1, "%d cases", c.N), nil
}
