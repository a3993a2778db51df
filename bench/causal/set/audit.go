package set

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// The bounds of the audits.
const (
	MaxCue     = 0.55 // how often a surface cue may agree, or disagree, with the truth
	MinEdges   = 1000 // that a cue is measured on
	MinGap     = 0.10 // median |P(y|do x) - P(y|x)| of confounded items
	MaxLeftOut = 0.15 // share of items that were drawn and left out
	MinGaps    = 20   // that their median is taken of
	MaxPrior   = 0.30 // share of numbers that the prior of the target gives, within the tolerance
	MaxChoice  = 0.65 // share of the most frequent label
	MinItems   = 100  // that a share is measured on
)

// cue counts how often a surface feature agrees with the truth.
type cue struct{ agree, all int }

func (c *cue) add(agrees bool) {
	c.all++
	if agrees {
		c.agree++
	}
}

// share is the larger of agreement and disagreement: both tell the answer.
func (c cue) share() float64 {
	p := float64(c.agree) / float64(max(c.all, 1))
	return max(p, 1-p)
}

func (c cue) String() string {
	if c.all == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3f of %d", c.share(), c.all)
}

func (c cue) check(name, method string) Check {
	out := Check{Name: name, Method: method, N: c.all}
	if p := c.share(); c.all >= MinEdges && p > MaxCue {
		out.fault("%.3f is more than %.2f", p, MaxCue)
	}
	return out.end(MinEdges, "%s", c)
}

// atMost is a share that may not be larger than a bound.
func atMost(name, method string, k, n, least int, bound float64) Check {
	out := Check{Name: name, Method: method, N: n}
	p := float64(k) / float64(max(n, 1))
	if n >= least && p > bound {
		out.fault("%.3f is more than %.2f", p, bound)
	}
	if n == 0 {
		return out.end(least, "none")
	}
	return out.end(least, "%.3f of %d", p, n)
}

// audits look for what gives the answers away without any reasoning.
func (s *Set) audits() []Check {
	listing, alphabet, dealt := s.listingCues()
	out := []Check{
		listing.check("Listing order", "a cause is listed before its effect"),
		alphabet.check("Names", "a cause comes before its effect in the alphabet"),
		dealt.check("Place in the skin", "a cause's name stands before its effect's in the list of names"),
		s.mentions().check("Order in the question", "the variable that is named first is a cause of the other"),
	}
	out = append(out, s.variances()...)
	out = append(out,
		gaps("Confounding", "median |P(y|do x) - P(y|x)| before any item is dropped", s.Gaps),
		gaps("Gaps of witnesses", "median difference of the two answers", s.witnessGaps()),
		s.leftOut())
	return append(out, s.baselines()...)
}

// listingCues goes through what each case shows, each blob once.
func (s *Set) listingCues() (listing, alphabet, dealt cue) {
	seen := map[string]bool{}
	for i := range s.Cases {
		k := &s.Cases[i]
		skin, _ := world.SkinNamed(k.Public.Skin)
		for _, e := range k.Public.Evidence {
			if seen[e.Ref] {
				continue
			}
			seen[e.Ref] = true
			blob := s.Blobs[strings.TrimPrefix(e.Ref, "sha256:")]
			var names []string
			switch e.Kind {
			case record.KindMechanism:
				m, err := Mechanism(blob)
				if err != nil {
					continue // records says so
				}
				for _, v := range m.Nodes {
					names = append(names, v.Name)
				}
			case record.KindJoint, record.KindSamples:
				var shown struct {
					Variables []string `json:"variables"`
				}
				if json.Unmarshal(blob, &shown) != nil {
					continue
				}
				names = shown.Variables
			}
			for _, v := range k.Oracle.Model.Nodes {
				for _, p := range v.Parents {
					a, b := slices.Index(names, p), slices.Index(names, v.Name)
					if a < 0 || b < 0 {
						continue
					}
					listing.add(a < b)
					alphabet.add(p < v.Name)
					if a, b := slices.Index(skin.Names, p), slices.Index(skin.Names, v.Name); a >= 0 && b >= 0 {
						dealt.add(a < b)
					}
				}
			}
		}
	}
	return listing, alphabet, dealt
}

// ancestors says who is an ancestor of whom in a model.
func ancestors(m record.Mechanism) map[[2]string]bool {
	out := map[[2]string]bool{}
	for _, v := range m.Nodes { // causes first
		for _, p := range v.Parents {
			out[[2]string{p, v.Name}] = true
			for _, w := range m.Nodes {
				if out[[2]string{w.Name, p}] {
					out[[2]string{w.Name, v.Name}] = true
				}
			}
		}
	}
	return out
}

// mentions looks at the order of the two variables that a question is about.
func (s *Set) mentions() cue {
	var c cue
	for i := range s.Cases {
		k := &s.Cases[i]
		a, b := subjects(k.Public.Query)
		if a == "" || b == "" {
			continue
		}
		above := ancestors(k.Oracle.Model)
		if !above[[2]string{a, b}] && !above[[2]string{b, a}] {
			continue
		}
		text := k.Public.Question
		if at, bt := strings.Index(text, a), strings.Index(text, b); at > bt {
			a, b = b, a
		}
		c.add(above[[2]string{a, b}])
	}
	return c
}

// subjects are the variable that is moved or seen, and the one that is asked for.
func subjects(q record.Query) (a, b string) {
	if q.Treatment != "" {
		return q.Treatment, q.Outcome
	}
	only := func(sets ...record.Values) string {
		for _, set := range sets {
			if len(set) == 1 {
				for name := range set {
					return name
				}
			}
		}
		return ""
	}
	return only(q.Do, q.Given), only(q.Target)
}

// variances looks, where numbers are shown, whether variance rises along the arrows
// (varsortability), and whether who sorts by variance gets the edges right.
func (s *Set) variances() []Check {
	var paths, edges cue
	seen := map[string]bool{}
	for i := range s.Cases {
		k := &s.Cases[i]
		j, ok := s.joint(k)
		ref := hash(k.PublicLine)
		if ok {
			ref = k.Oracle.SCMHash
		}
		if !ok || seen[ref] {
			continue
		}
		seen[ref] = true
		variance := map[string]float64{}
		for v, name := range j.Variables {
			p := j.Marginal([]int{v})
			variance[name] = p[0] * p[1]
		}
		arrow := map[[2]string]bool{}
		for _, v := range k.Oracle.Model.Nodes {
			for _, p := range v.Parents {
				arrow[[2]string{p, v.Name}] = true
			}
		}
		for pair := range ancestors(k.Oracle.Model) {
			a, okA := variance[pair[0]]
			b, okB := variance[pair[1]]
			if !okA || !okB {
				continue
			}
			paths.add(a < b)
			if arrow[pair] {
				edges.add(a < b)
			}
		}
	}
	return []Check{
		varianceCheck("Varsortability", "variance rises along a directed path", paths),
		varianceCheck("Sort by variance", "edges whose direction the order of variances gives", edges),
	}
}

// MaxVariance is how much sorting by variance may tell.
const MaxVariance = 0.65

func varianceCheck(name, method string, of cue) Check {
	c := Check{Name: name, Method: method, N: of.all}
	if of.all >= MinItems && of.share() > MaxVariance {
		c.fault("%.3f is more than %.2f", of.share(), MaxVariance)
	}
	return c.end(MinItems, "%s", of)
}

// gaps is a check that a mistake is costly: the median of what it is off by.
func gaps(name, method string, of []float64) Check {
	c := Check{Name: name, Method: method, N: len(of)}
	if len(of) == 0 {
		return c.end(MinGaps, "none")
	}
	m := median(of)
	if len(of) >= MinGaps && m < MinGap {
		c.fault("%.3f is less than %.2f", m, MinGap)
	}
	return c.end(MinGaps, "%.3f", m)
}

// witnessGaps are those of the cases that are not identifiable.
func (s *Set) witnessGaps() []float64 {
	var out []float64
	for i := range s.Cases {
		if w := s.Cases[i].Oracle.Witness; w != nil {
			out = append(out, w.Gap)
		}
	}
	return out
}

// leftOut says how many items were no cases.
func (s *Set) leftOut() Check {
	kept, out := 0, 0
	for i := range s.Cases {
		if s.Cases[i].Oracle.Variant == base {
			kept++
		}
	}
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(s.Dropped)) {
		out += s.Dropped[reason]
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, s.Dropped[reason]))
	}
	c := atMost("Left out", "items that are no cases, of all", out, kept+out, MinItems, MaxLeftOut)
	if len(reasons) > 0 {
		c.Result += ": " + strings.Join(reasons, ", ")
	}
	return c
}

// baselines are what one gets without looking at the evidence.
func (s *Set) baselines() []Check {
	var prior, half, yes, open, first, cheap cue
	for i := range s.Cases {
		k := &s.Cases[i]
		o := &k.Oracle
		if o.Variant != base {
			continue
		}
		switch {
		case k.Public.Query.Kind == record.Probability && o.Value != nil:
			m, err := scm.New(o.Model.Nodes, o.Model.Latent)
			if err != nil {
				continue
			}
			if p, err := m.Ask(scm.Association, scm.Query{Target: k.Public.Query.Target}); err == nil {
				prior.add(math.Abs(p-*o.Value) <= o.Tol)
			}
			half.add(math.Abs(0.5-*o.Value) <= o.Tol)
		case k.Public.Query.Kind == record.Causes:
			yes.add(o.Label == "yes")
		case k.Public.Query.Kind == record.Diagnosis:
			first.add(len(k.Public.Hypotheses) > 0 && o.Label == k.Public.Hypotheses[0])
		case k.Public.Query.Kind == record.Choice && o.Live != nil:
			cheap.add(o.Label == cheapest(k.Public.Experiments))
		}
		if k.Public.Family == "identification" && k.Public.Query.Kind == record.Probability {
			open.add(o.Status == record.NotIdentifiable)
		}
	}
	return []Check{
		atMost("Prior alone", "the unconditional probability of the target is right", prior.agree, prior.all, MinItems, MaxPrior),
		atMost("One half", "0.5 is right", half.agree, half.all, MinItems, MaxPrior),
		atMost("Majority of yes and no", "the more frequent label", int(math.Round(yes.share()*float64(yes.all))), yes.all, MinItems, MaxChoice),
		atMost("Majority of statuses", "of the identification items, the more frequent status", int(math.Round(open.share()*float64(open.all))), open.all, MinItems, MaxChoice),
		atMost("First hypothesis", "the hypothesis that is listed first is true", first.agree, first.all, MinItems, 0.4),
		atMost("Cheapest check", "the permitted intervention that costs least tells most", cheap.agree, cheap.all, MinItems, MaxChoice),
	}
}

func cheapest(list []record.Experiment) string {
	at := 0
	for i, e := range list {
		if e.Cost < list[at].Cost {
			at = i
		}
	}
	if len(list) == 0 {
		return ""
	}
	return list[at].ID
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
