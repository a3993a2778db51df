package criterion

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// genClause draws a clause that passes the linter for the test's registry.
func genClause(t *rapid.T) Clause {
	c := Clause{
		Signal: rapid.SampledFrom([]string{"alone", "gauge", "total", "happening", "skewed", "bounded"}).Draw(t, "signal"),
		Op:     rapid.SampledFrom([]Op{OpEQ, OpNE, OpLT, OpLE, OpGT, OpGE}).Draw(t, "op"),
		Value:  float64(rapid.IntRange(0, 4).Draw(t, "value")),
		Reduce: rapid.SampledFrom([]Reducer{ReduceCount, ReduceMax, ReduceMin, ReduceAvg, ReduceLast, ReduceQuantile}).Draw(t, "reduce"),
	}
	switch {
	case c.Signal == "total" && rapid.Bool().Draw(t, "increase"):
		c.Reduce = ReduceIncrease
	case c.Reduce == ReduceQuantile:
		c.Quantile = rapid.Float64Range(0, 1).Draw(t, "q")
	case (c.Reduce == ReduceMax || c.Reduce == ReduceMin) && c.Signal != "total" && c.Signal != "happening" && rapid.Bool().Draw(t, "hold"):
		c.HoldFor = time.Duration(rapid.IntRange(1, 50).Draw(t, "hold_for")) * time.Second
	}
	c.MinSamples = int64(rapid.IntRange(0, 3).Draw(t, "min_samples"))
	return c
}

func genSamples(t *rapid.T, signal string) []Sample {
	n := rapid.IntRange(0, 30).Draw(t, "n")
	var out []Sample
	for i := range n {
		p := point{at: float64(rapid.IntRange(-80, 140).Draw(t, "at")) / 2, value: float64(rapid.IntRange(0, 5).Draw(t, "v")), start: miss}
		if signal == "bounded" {
			p.value = min(p.value, 1)
		}
		if signal == "total" && rapid.Bool().Draw(t, "started") {
			p.start = float64(rapid.IntRange(-3, 2).Draw(t, "start")) * 20
		}
		name := signal
		if rapid.IntRange(0, 3).Draw(t, "which") == 0 {
			name = "beat"
		}
		out = append(out, sampleOf(name, uint64(i+1), p))
	}
	return out
}

// Taking samples away, as a sensor that misses ticks would, may leave a
// criterion undecided; it must never turn one verdict into the other, and what
// an open window decides must stand whatever comes.
func TestFewerSamplesNeverDecideOtherwise(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		clause := genClause(t)
		in := Input{Criterion: Criterion{Window: Window{Length: time.Minute}, All: []Clause{clause}}, Registry: r,
			Window: Span{epoch, epoch.Add(time.Minute)}, Samples: genSamples(t, clause.Signal)}
		full := in
		full.Closed = true
		whole := Evaluate(full)
		fewer := in
		fewer.Samples = nil
		for _, s := range in.Samples {
			if rapid.Bool().Draw(t, "kept") {
				fewer.Samples = append(fewer.Samples, s)
			}
		}
		early := Evaluate(fewer)
		if early.Outcome != Unknown && whole.Outcome != Unknown && early.Outcome != whole.Outcome {
			t.Fatalf("early %v %+v, in the end %v %+v", early.Outcome, early.Clauses[0], whole.Outcome, whole.Clauses[0])
		}
	})
}

// An absence is confirmed by coverage alone: thinning heartbeat and samples
// below it never confirms.
func TestShrinkingCoverageNeverConfirms(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		clause := Clause{Signal: "gauge", Reduce: ReduceMax, Op: OpLE, Value: 5}
		var samples []Sample
		kept := 0
		for cell := range 6 {
			if rapid.Bool().Draw(t, "kept") {
				kept++
				samples = append(samples, beats(cell)...)
				samples = append(samples, sampleOf("gauge", uint64(cell+1), ticks(1)[0]))
				samples[len(samples)-1].Time = at(5 + 10*float64(cell))
			}
		}
		res := Evaluate(Input{Criterion: Criterion{Window: Window{Length: time.Minute}, All: []Clause{clause}}, Registry: r,
			Window: Span{epoch, epoch.Add(time.Minute)}, Samples: samples, Closed: true})
		if kept < 3 && res.Outcome != Unknown {
			t.Fatalf("%d of 6 cells and %v", kept, res.Outcome)
		}
		if kept == 6 && res.Outcome != True {
			t.Fatalf("full coverage and %v %v", res.Outcome, res.Reason)
		}
	})
}

// A screen that says no must be right: the evaluation would not have decided.
func TestScreenNeverHidesADecision(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		clause := genClause(t)
		in := Input{Criterion: Criterion{Window: Window{Length: time.Minute}, All: []Clause{clause}}, Registry: r,
			Window: Span{epoch, epoch.Add(time.Minute)}}
		lim, _ := LimitsOf(in.Criterion, clause, r)
		screen := NewScreen(clause, lim, in.Window)
		samples := genSamples(t, clause.Signal)
		if rapid.Bool().Draw(t, "sorted") {
			slices.SortFunc(samples, func(a, b Sample) int { return Compare(&a, &b) })
		}
		for i := range samples {
			s := &samples[i]
			may := s.Signal == clause.Signal && screen.Add(s)
			before := Evaluate(in)
			in.Samples = samples[:i+1]
			after := Evaluate(in)
			if before.Outcome == Unknown && after.Outcome != Unknown && !may {
				t.Fatalf("sample %d (%+v) decided %v unseen", i, s, after.Outcome)
			}
			if after.Outcome != Unknown {
				return
			}
		}
	})
}

// genCriterion draws a criterion of one to three clauses, with or without a
// baseline.
func genCriterion(t *rapid.T) Criterion {
	c := Criterion{Window: Window{Anchor: AnchorActionEnd, Length: time.Minute}}
	var list []Clause
	for range rapid.IntRange(1, 3).Draw(t, "clauses") {
		list = append(list, genClause(t))
	}
	if rapid.Bool().Draw(t, "any") {
		c.Any = list
	} else {
		c.All = list
	}
	if rapid.Bool().Draw(t, "baseline") {
		c.Baseline = &Baseline{
			Length: time.Duration(rapid.IntRange(1, 4).Draw(t, "length")) * 10 * time.Second,
			Reduce: rapid.SampledFrom([]Reducer{ReduceCount, ReduceMax, ReduceMin, ReduceLast, ReduceAvg}).Draw(t, "base reduce"),
			Op:     rapid.SampledFrom([]Op{OpEQ, OpLT, OpGE}).Draw(t, "base op"), Value: float64(rapid.IntRange(0, 3).Draw(t, "base value")),
		}
	}
	return c
}

// genInput draws an input whose samples are those of the criterion's series.
func genInput(t *rapid.T, r *Registry) Input {
	c := genCriterion(t)
	in := Input{
		Criterion: c, Registry: r, Window: Span{epoch, epoch.Add(time.Minute)}, Baseline: c.BaselineSpan(epoch),
		Closed: rapid.Bool().Draw(t, "closed"), BaselineClosed: rapid.Bool().Draw(t, "baseline closed"),
	}
	for i, clause := range c.Clauses() {
		for _, s := range genSamples(t, clause.Signal) {
			s.Seq += uint64(i) * 1000
			in.Samples = append(in.Samples, s)
		}
	}
	return in
}

// describe is a result with samples in place of indices.
func describe(in Input, r Result) string {
	raw, err := json.Marshal(Explain(in, r), json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	for _, c := range r.Clauses {
		for _, i := range c.Used {
			raw = append(AppendSample(append(raw, '\n'), &in.Samples[i]), '\n')
		}
	}
	return string(raw)
}

// The order of delivery and identical repeats change nothing: not the outcome,
// not its explanation, not the evidence.
func TestOrderAndRepeatsDoNotMatter(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t, r)
		other := in
		other.Samples = rapid.Permutation(in.Samples).Draw(t, "order")
		for range rapid.IntRange(0, 4).Draw(t, "repeats") {
			if len(in.Samples) > 0 {
				other.Samples = append(other.Samples, rapid.SampledFrom(in.Samples).Draw(t, "again"))
			}
		}
		if want, got := describe(in, Evaluate(in)), describe(other, Evaluate(other)); got != want {
			t.Fatalf("%s\nthen %s", want, got)
		}
	})
}

// The outcome of a criterion is Kleene's over its clauses, each on its own.
func TestClausesAreJudgedAlone(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t, r)
		res := Evaluate(in)
		combined, count := Unknown, map[Outcome]int{}
		for i, clause := range in.Criterion.Clauses() {
			alone := in
			alone.Criterion.All, alone.Criterion.Any = []Clause{clause}, nil
			one := Evaluate(alone)
			if describe(alone, one) != describe(alone, Result{one.Outcome, one.Reason, res.Clauses[i : i+1]}) {
				t.Fatalf("clause %d: alone %+v, among others %+v", i, one.Clauses[0], res.Clauses[i])
			}
			count[one.Outcome]++
		}
		decisive, other := False, True
		if len(in.Criterion.Any) > 0 {
			decisive, other = True, False
		}
		switch {
		case count[decisive] > 0:
			combined = decisive
		case count[Unknown] == 0:
			combined = other
		}
		if res.Outcome != combined || (res.Outcome == Unknown) != (res.Reason != NoReason) {
			t.Fatalf("%v %v of %v", res.Outcome, res.Reason, count)
		}
	})
}

// A baseline takes True away and nothing else.
func TestBaselineOnlyBlocksTrue(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t, r)
		bare := in
		bare.Criterion.Baseline = nil
		with, without := Evaluate(in), Evaluate(bare)
		for i := range with.Clauses {
			a, b := with.Clauses[i], without.Clauses[i]
			switch {
			case a.Outcome == b.Outcome && a.Reason == b.Reason:
				if a.Outcome == True && a.Baseline != nil && a.Baseline.Outcome != True {
					t.Fatalf("unproven and True: %+v", a)
				}
			case b.Outcome == True && a.Outcome == Unknown && a.Unproven && a.Baseline.Outcome != True:
				if a.Reason != SensorUnproven && a.Reason != a.Baseline.Reason || a.Reason > SensorUnproven {
					t.Fatalf("reason %v, the baseline's %v", a.Reason, a.Baseline.Reason)
				}
			default:
				t.Fatalf("%+v with a baseline, %+v without", a, b)
			}
		}
	})
}

// history is what truthful draws beside values.
type history struct {
	restarts bool // counters say since when they count, and may start again
	edges    bool // samples may lie within the skew of an edge, and on it
}

// truthful are the samples that a sensor with a steady clock could have sent of
// one history: counters only rise while they run, and no identity is used twice.
func truthful(t *rapid.T, c Criterion, h history) []Sample {
	var out []Sample
	seen := map[string]bool{}
	seq := uint64(0)
	for _, clause := range c.Clauses() {
		if seen[clause.Signal] {
			continue
		}
		seen[clause.Signal] = true
		total, start := 0.0, miss
		if h.restarts {
			start = -100
		}
		for second := -40; second < 70; second++ {
			into := (second + 100) % 10 // no edge of a window or baseline is anywhere but at 0
			if clause.Signal == "total" && h.restarts && rapid.IntRange(0, 19).Draw(t, "restart") == 0 {
				total, start = 0, float64(second)-0.5
			}
			if !h.edges && (into < 3 || into > 7) || rapid.IntRange(0, 4).Draw(t, "sent") > 0 {
				continue
			}
			v := float64(rapid.IntRange(0, 5).Draw(t, "value"))
			switch clause.Signal {
			case "bounded":
				v = min(v, 1)
			case "total":
				total += v
				v = total
			}
			seq++
			since := miss
			if clause.Signal == "total" {
				since = start
			}
			out = append(out, sampleOf(clause.Signal, seq, point{float64(second), v, since}))
			seq++
			out = append(out, sampleOf("beat", seq, point{float64(second), 1, miss}))
		}
	}
	return out
}

// subset draws some of the samples.
func subset(t *rapid.T, samples []Sample) []Sample {
	var out []Sample
	for _, s := range samples {
		if rapid.Bool().Draw(t, "kept") {
			out = append(out, s)
		}
	}
	return out
}

// More samples of the same history may refute what was confirmed, and never
// make it unknown, unless they refute the baseline. (A conflict of identities
// does: TestConflictAndDuplicate.)
func TestMoreSamplesNeverTurnConfirmedIntoUnknown(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		c := genCriterion(t)
		in := Input{Criterion: c, Registry: r, Window: Span{epoch, epoch.Add(time.Minute)}, Baseline: c.BaselineSpan(epoch), Closed: true, BaselineClosed: true}
		all := truthful(t, c, history{})
		in.Samples = subset(t, all)
		before := Evaluate(in)
		in.Samples = all
		after := Evaluate(in)
		for i, cr := range before.Clauses {
			if base := after.Clauses[i].Baseline; cr.Outcome == True && after.Clauses[i].Outcome == Unknown && (base == nil || base.Outcome != False) {
				t.Fatalf("%+v\nbecame %+v", cr, after.Clauses[i])
			}
		}
	})
}

// What a witness decided before the window closed stands when it has closed,
// whatever else of the same history came.
func TestWitnessStands(t *testing.T) {
	r := testRegistry(t)
	for _, row := range []struct {
		name string
		history
	}{
		{"in the middle of cells", history{}},
		{"counters restart", history{restarts: true}},
		{"on the edges", history{edges: true}},
		{"counters restart on the edges", history{restarts: true, edges: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			decided := 0
			rapid.Check(t, func(t *rapid.T) {
				c := genCriterion(t)
				in := Input{Criterion: c, Registry: r, Window: Span{epoch, epoch.Add(time.Minute)}, Baseline: c.BaselineSpan(epoch)}
				all := truthful(t, c, row.history)
				in.Samples = subset(t, all)
				early := Evaluate(in)
				in.Samples, in.Closed, in.BaselineClosed = all, true, true
				late := Evaluate(in)
				if early.Outcome != Unknown {
					decided++
					if late.Outcome != early.Outcome {
						t.Fatalf("early %v, late %v: %+v", early.Outcome, late.Outcome, late.Clauses)
					}
				}
			})
			if decided == 0 {
				t.Error("no draw was decided early")
			}
		})
	}
}

// Taking heartbeats away never confirms anything.
func TestFewerHeartbeatsNeverConfirm(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t, r)
		more := Evaluate(in)
		in.Samples = slices.DeleteFunc(slices.Clone(in.Samples), func(s Sample) bool { return s.Signal == "beat" && rapid.Bool().Draw(t, "lost") })
		if fewer := Evaluate(in); fewer.Outcome == True && more.Outcome != True {
			t.Fatalf("%v %v, and with fewer heartbeats %v: %+v", more.Outcome, more.Reason, fewer.Outcome, fewer.Clauses)
		}
	})
}
