package metric

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/events"
	"assay/internal/stats"
	"assay/projector/view"
)

// How an interval over clusters is made, unless a pre-registration asks for more of
// them (EP, Metrics and sufficiency: five paired runs).
var resampling = stats.Resampling{B: 1999, Confidence: 0.95, Method: stats.Percentile, MinClusters: 5}

var armMetrics = []Metric{
	delta("arm_delta_scores", "What does one arm score above another?", "the scorer's", perScore, Outcome, (*trial).scoredMeasures),
	delta("arm_delta_cost", "What does one arm cost above another?", "USD", perDollar, Guardrail, func(t *trial) []measure {
		return []measure{{"cost", t.cost()}}
	}),
	delta("arm_delta_tokens", "How many tokens does one arm take above another?", "tokens", perScore, Guardrail, func(t *trial) []measure {
		return []measure{{"tokens", t.tokens()}}
	}),
	delta("arm_delta_latency", "How much longer does one arm take than another?", "ms", perScore, Guardrail, func(t *trial) []measure {
		return []measure{{"latency", t.latency()}}
	}),
	{
		Name:        "arm_discordance",
		Question:    "Where two arms differ, how often is it the one that is right?",
		Numerator:   "of those, clusters in which the first arm is right",
		Denominator: "clusters in which one arm is right each time and the other never",
		Groups:      ofPair, Apart: true,
		Kind: Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: leftOutOf + "; clusters in which both do the same, or an arm is right at times",
		Missing:    unpaired,
		Source:     "C9 Rules; Proposal details, P2",
		count:      (*pass).discordance,
	},
}

func delta(name, question, unit string, per int64, kind Kind, of func(*trial) []measure) Metric {
	return Metric{
		Name: name, Question: question,
		Numerator:   "difference of the arms' values, each cluster's averaged first; a value is the first arm's if it adds, the second's if it takes away",
		Denominator: "clusters (worlds; of episodes the pair) in which both arms' values are known",
		Groups:      ofPair, Apart: true,
		Kind: kind, Form: FormRatio, Unit: unit, Per: per, Interval: ClusterBootstrap,
		Exclusions: leftOutOf, Missing: unpaired,
		Source: "C9 Baseline and ablation matrix; Weekly report, Bench; EP Metrics and sufficiency",
		count: func(p *pass) error {
			return p.pairs(within(of, per), func(c *comparison) error { return c.difference(p, per) })
		},
	}
}

// within is what can be counted in 1/per: what cannot is unknown.
func within(of func(*trial) []measure, per int64) func(*trial) []measure {
	return func(t *trial) []measure {
		all := of(t)
		for i := range all {
			if fixedPoint(all[i].value, per) == nil {
				all[i].value = nil
			}
		}
		return all
	}
}

// measure is something that a trial shows; nil is unknown.
type measure struct {
	name  string
	value *float64
}

// scoredMeasures are the values of each scorer, and whether it calls the response
// correct; of an episode whether it was correct and ended well.
func (t *trial) scoredMeasures() (all []measure) {
	if t.report != nil {
		return []measure{{measureCorrect, indicator(t.report.Correct)}, {"success", indicator(t.report.Success)}}
	}
	for i := range t.scores {
		s := &t.scores[i]
		name := func(metric string) string { return s.Score.Scorer + " " + metric }
		if s.Score.Exclusion != nil {
			continue
		}
		for _, v := range s.Score.Values {
			if v.Metric != measureCorrect {
				all = append(all, measure{name(v.Metric), v.Value})
			}
		}
		all = append(all, measure{name(measureCorrect), correct(s)})
	}
	return all
}

// correct is 1 or 0: by the value of that name, else by the outcome.
func correct(s *view.Score) *float64 {
	if v := valueOf(s, measureCorrect); v != nil || s.Score.Outcome == nil {
		return v
	}
	is := *s.Score.Outcome == outcomeCorrect
	return indicator(&is)
}

func indicator(b *bool) *float64 {
	if b == nil {
		return nil
	}
	v := 0.0
	if *b {
		v = 1
	}
	return &v
}

func (t *trial) cost() *float64 {
	if t.report != nil {
		return t.report.CostUSD
	}
	if c := t.response.Cost; c != nil {
		return c.CostUSD
	}
	return nil
}

// tokens are all that the trial took; parts of which one is unknown are no sum.
func (t *trial) tokens() *float64 {
	if t.report != nil {
		return asFloat(t.report.TotalTokens)
	}
	c := t.response.Cost
	if c == nil || c.InputTokens == nil || c.OutputTokens == nil {
		return nil
	}
	sum := *c.InputTokens + *c.OutputTokens
	return asFloat(&sum)
}

func asFloat(n *int64) *float64 {
	if n == nil {
		return nil
	}
	v := float64(*n)
	return &v
}

func (t *trial) latency() *float64 {
	if t.report != nil {
		return t.report.LatencyMS
	}
	if c := t.response.Cost; t.response.ElapsedMS == nil && c != nil {
		return c.LatencyMS
	}
	return t.response.ElapsedMS
}

// fixedPoint is a number in 1/per; nil where it is unknown or beyond 2^53 of them.
func fixedPoint(v *float64, per int64) *int64 {
	if v == nil || !(math.Abs(*v)*float64(per) <= 1<<53) {
		return nil
	}
	n := int64(math.Round(*v * float64(per)))
	return &n
}

// sighting is a measure of one trial.
type sighting struct {
	*trial
	value *float64
}

// comparison is two arms over the clusters of one measure, split and surface.
type comparison struct {
	group    string
	a, b     string
	clusters map[string]map[string][]sighting // by cluster and arm, in the order of records
	min      int                              // clusters that an interval takes
}

// isolating are the comparisons of C9's matrix that are looked at wherever both arms
// were run. So is every arm above one of controlArms.
var isolating = [][2]string{
	{"A1", "A0"}, {"A2", "A1"}, {"A2", "A3"}, {"A10", "A9"}, {"A9", "A3"}, {"A10", "A5"}, {"A5", "A2"}, {"A6", "A5"}, {"A7", "A2"},
}

var controlArms = []string{"A2", "A9", "baseline", "empty"}

// registered is what pre-registrations say of comparisons.
type registered map[[2]string]int // pairs of arms, with how many clusters they take

func (p *pass) registered() (registered, error) {
	all, err := p.registrations()
	out := registered{}
	for _, r := range all {
		for _, arm := range r.Committed.Arms[1:] {
			pair := [2]string{arm, r.Committed.Arms[0]}
			out[pair] = max(out[pair], int(r.Committed.N))
		}
	}
	return out, err
}

// registrations are those of two arms or more that were not imported, in the order of
// records.
func (p *pass) registrations() (all []view.Preregistration, err error) {
	namespaces, err := p.compared()
	if err != nil {
		return nil, err
	}
	for _, ns := range namespaces {
		err := view.ListPreregistrations(p.state, ns, func(r *view.Preregistration) error {
			imported, err := p.isImported(r.Seq)
			if err == nil && !imported && len(r.Committed.Arms) > 1 {
				all = append(all, *r)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b view.Preregistration) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// of are the pairs among arms, each once: as it was registered, else as C9 has it.
func (r registered) of(arms []string) (pairs [][2]string) {
	add := func(pair [2]string) {
		here := pair[0] != pair[1] && slices.Contains(arms, pair[0]) && slices.Contains(arms, pair[1])
		if here && !slices.Contains(pairs, pair) && !slices.Contains(pairs, [2]string{pair[1], pair[0]}) {
			pairs = append(pairs, pair)
		}
	}
	for _, pair := range slices.SortedFunc(maps.Keys(r), func(x, y [2]string) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }) {
		add(pair)
	}
	for _, pair := range isolating {
		add(pair)
	}
	for _, control := range controlArms {
		for _, arm := range arms {
			add([2]string{arm, control})
		}
	}
	return pairs
}

// pairs compares arms by what the trials of runs and the reports of paired episodes
// show.
func (p *pass) pairs(of func(*trial) []measure, fn func(*comparison) error) error {
	measured := map[string]map[string]map[string][]sighting{} // by measure and split, cluster, arm
	var all []*trial
	take := func(t *trial) error { all = append(all, t); return nil }
	if err := p.trials(take); err != nil {
		return err
	}
	if err := p.episodes(take); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b *trial) int { return cmp.Compare(a.seq, b.seq) })
	names := map[string][]string{} // of measures, by split and surface
	for _, t := range all {
		for _, m := range of(t) {
			if !slices.Contains(names[t.place()], m.name) {
				names[t.place()] = append(names[t.place()], m.name)
			}
		}
	}
	for _, t := range all {
		shown := of(t)
		for _, name := range names[t.place()] { // what a trial does not show is unknown
			var value *float64
			if i := slices.IndexFunc(shown, func(m measure) bool { return m.name == name }); i >= 0 {
				value = shown[i].value
			}
			where := name + ", " + t.place()
			if measured[where] == nil {
				measured[where] = map[string]map[string][]sighting{}
			}
			c := measured[where]
			if c[t.cluster] == nil {
				c[t.cluster] = map[string][]sighting{}
			}
			c[t.cluster][t.arm] = append(c[t.cluster][t.arm], sighting{t, value})
		}
	}
	reg, err := p.registered()
	if err != nil {
		return err
	}
	for _, where := range slices.Sorted(maps.Keys(measured)) {
		arms := map[string]bool{}
		for _, byArm := range measured[where] {
			for arm := range byArm {
				arms[arm] = true
			}
		}
		for _, pair := range reg.of(slices.Sorted(maps.Keys(arms))) {
			c := &comparison{
				group: where + ": " + pair[0] + " − " + pair[1], a: pair[0], b: pair[1], clusters: measured[where],
				min: max(resampling.MinClusters, reg[pair], reg[[2]string{pair[1], pair[0]}]),
			}
			if err := fn(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// compared are the namespaces in which arms are compared: the benches', and the one that
// is asked for.
func (p *pass) compared() ([]string, error) {
	all, err := p.benches()
	if !slices.Contains(all, p.namespace) {
		all = append(all, p.namespace)
	}
	return all, err
}

// place is what is never pooled: dev with validation, one client or model with
// another.
func (t *trial) place() string {
	if t.surface == "" {
		return t.split
	}
	return t.split + ", " + t.surface
}

// episodes takes up the reports of whole episodes that name an arm and a pair.
func (p *pass) episodes(fn func(*trial) error) error {
	namespaces, err := p.compared()
	if err != nil {
		return err
	}
	for _, ns := range namespaces {
		runs, err := p.runs(ns)
		if err != nil {
			return err
		}
		err = view.ListEpisodeReports(p.state, ns, func(v *view.EpisodeReport) error {
			d := v.Report
			if d.Arm == nil || d.PairID == nil || v.ToolCallID != nil {
				return nil
			}
			it, ok, err := p.item(v.EpisodeID, "", events.TypeEpisodeRecorded, v.Seq)
			if !ok {
				return err
			}
			t := &trial{item: it, report: d, arm: *d.Arm, cluster: *d.PairID, split: "no split"}
			for i, part := range []*string{d.Client, d.ClientVersion, d.Model, d.ModelVersion, d.TaskID} {
				if i > 0 {
					t.surface += "/"
				}
				if part == nil {
					t.surface += "?"
				} else {
					t.surface += *part
				}
			}
			if d.RunID != nil {
				r := runs[inRuns{v.Namespace, *d.RunID}]
				switch {
				case r == nil || r.Started == nil:
					return it.exclude("run without manifest")
				case r.Isolation == view.IsolationDiffers:
					return it.exclude("run that changed production")
				}
				t.split = r.Started.Manifest.Split
			}
			return fn(t)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for the clusters in which both arms' values are known, in order, and
// excludes the others by their first record, or the first whose value is unknown.
func (c *comparison) each(fn func(cluster string, a, b []sighting) error) error {
	for _, id := range slices.Sorted(maps.Keys(c.clusters)) {
		a, b := c.clusters[id][c.a], c.clusters[id][c.b]
		both := slices.Concat(a, b)
		if len(both) == 0 {
			continue
		}
		first := c.of(both[0])
		first.id = id
		var err error
		switch missing := slices.IndexFunc(both, func(s sighting) bool { return s.value == nil }); {
		case len(a) == 0:
			err = first.exclude("no run of " + c.a)
		case len(b) == 0:
			err = first.exclude("no run of " + c.b)
		case missing >= 0:
			first.ref = both[missing].ref
			err = first.exclude(unknown + "value")
		default:
			err = fn(id, a, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// of is a sighting's item in the comparison's group.
func (c *comparison) of(s sighting) item {
	it := s.item
	it.group = c.group
	return it
}

// difference counts what the arms differ by, and bootstraps it over the clusters.
func (c *comparison) difference(p *pass, per int64) error {
	compared := stats.Clusters{}
	err := c.each(func(id string, a, b []sighting) error {
		compared[id] = map[string][]*float64{c.a: values(a), c.b: values(b)}
		first := c.of(a[0])
		first.id = id
		if err := first.denominator(); err != nil {
			return err
		}
		for _, side := range []struct {
			seen []sighting
			sign float64
		}{{a, 1}, {b, -1}} {
			for _, s := range side.seen {
				part := side.sign * *s.value / float64(len(side.seen))
				if err := c.of(s).amount(s.ref, int64(math.Round(part*float64(per)))); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || len(compared) == 0 {
		return err
	}
	how := resampling
	how.MinClusters = c.min
	got := compared.Compare(c.a, c.b, how)
	if got.Interval == nil {
		p.note(fmt.Sprintf("%s: no interval, %s (%d of %d clusters)", c.group, got.Suppressed, got.Clusters, c.min))
		return nil
	}
	p.bound(c.group, *got.Interval)
	return nil
}

func values(seen []sighting) (out []*float64) {
	for _, s := range seen {
		out = append(out, s.value)
	}
	return out
}

// note adds to what is to be kept in mind with the value.
func (p *pass) note(text string) {
	if p.why != "" {
		p.why += "; "
	}
	p.why += text
}

// bound keeps the interval of a group.
func (p *pass) bound(group string, iv stats.Interval) {
	if p.bounds == nil {
		p.bounds = map[string]stats.Interval{}
	}
	p.bounds[group] = iv
}

// discordance counts the clusters in which one arm is right and the other is not, and
// says how likely the split would be between equals (exact McNemar).
func (p *pass) discordance() error {
	binary := func(t *trial) (out []measure) {
		for _, m := range t.scoredMeasures() {
			if m.name == measureCorrect || strings.HasSuffix(m.name, " "+measureCorrect) {
				out = append(out, m)
			}
		}
		return out
	}
	return p.pairs(binary, func(c *comparison) error {
		var better, worse int64
		err := c.each(func(id string, a, b []sighting) error {
			it := c.of(a[0])
			it.id = id
			rightA, sureA := unanimous(a)
			rightB, sureB := unanimous(b)
			switch {
			case !sureA || !sureB:
				return it.exclude("right at times")
			case rightA == rightB:
				return it.exclude("the same")
			case rightA:
				better++
			default:
				worse++
			}
			return it.putIf(rightA)
		})
		if err != nil {
			return err
		}
		if m, ok := stats.McNemar(better, worse); ok {
			p.note(fmt.Sprintf("%s: %d and %d, exact McNemar p = %.4g", c.group, better, worse, m.ExactP))
		}
		return nil
	})
}

// unanimous is whether all values are 1, or else all 0.
func unanimous(seen []sighting) (right, sure bool) {
	for _, s := range seen {
		if *s.value != *seen[0].value || *s.value != 0 && *s.value != 1 {
			return false, false
		}
	}
	return *seen[0].value == 1, true
}
