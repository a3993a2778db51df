package detector

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// None is the label of a turn without an opportunity.
const None = "none"

// Labelled is a turn with the label that a rater gave it: one of Kinds, or None.
type Labelled struct {
	Turn
	Label string `json:"label"`
}

// ErrLabel means that a label is neither one of Kinds nor None.
var ErrLabel = errors.New("no such label")

func isLabel(s string) bool { return s == None || slices.Contains(Kinds, s) }

// ErrNoTurns means that there is nothing to learn: a kind or None has no turn.
var ErrNoTurns = errors.New("too few labelled turns")

// Trained is what training comes to.
type Trained struct {
	Weights *Weights
	// Checked is how well weights of nine tenths of the turns do on the last tenth, over
	// all tenths, at the threshold.
	Checked Quality
}

const (
	folds  = 10
	epochs = 40
	// one is 1 in the fixed-point numbers of training.
	one = 1 << 20
	// wantedRecall is the recall in the cross-check that sets the threshold: missed
	// opportunities are worse than false ones, which a rater's label takes out again.
	wantedRecall = 0.93
)

// Train learns weights from labelled turns. The same turns in the same order give the
// same weights on every machine.
func Train(turns []Labelled) (*Trained, error) {
	p, err := parsePatterns(patternText)
	if err != nil {
		return nil, err
	}
	examples, err := examplesOf(p, turns)
	if err != nil {
		return nil, err
	}
	// Each turn is judged by weights that never saw it; the threshold is set on that.
	var judged []judgement
	for fold := range folds {
		var seen []*example
		for i, e := range examples {
			if i%folds != fold {
				seen = append(seen, e)
			}
		}
		w := fit(seen)
		for i, e := range examples {
			if i%folds == fold {
				judged = append(judged, e.judge(w))
			}
		}
	}
	w := fit(examples)
	w.Threshold = threshold(judged)
	out := &Trained{Weights: w}
	for _, j := range judged {
		out.Checked.add(j.label, j.verdict(w.Threshold))
	}
	return out, nil
}

// example is a turn as training sees it: the features of its sentences that a pattern
// matches.
type example struct {
	label     int // index into Kinds; -1 for none
	sentences [][]uint16
}

func examplesOf(p *patterns, turns []Labelled) ([]*example, error) {
	var out []*example
	var count [heads]int
	for i, t := range turns {
		e := &example{label: slices.Index(Kinds, t.Label)}
		if !isLabel(t.Label) {
			return nil, fmt.Errorf("turn %d: %w: %q", i+1, ErrLabel, t.Label)
		}
		role, err := ParseRole(t.Role)
		if err != nil {
			return nil, fmt.Errorf("turn %d: %w", i+1, err)
		}
		var r reader
		r.read(p, []byte(t.Text))
		for k := range r.sentences {
			if r.take(p, role, k) {
				e.sentences = append(e.sentences, slices.Clone(r.features))
			}
		}
		out = append(out, e)
		count[1+e.label]++
	}
	for k, n := range count {
		if n < folds {
			return nil, fmt.Errorf("%w: %d of %s, and %d are needed of each label", ErrNoTurns, n, append([]string{None}, Kinds...)[k], folds)
		}
	}
	return out, nil
}

// judgement is a score of weights that did not see the turn.
type judgement struct {
	label string
	score int32
	kind  int
	any   bool // a pattern matched
}

func (j judgement) verdict(threshold int32) string {
	if !j.any || j.score < threshold {
		return None
	}
	return Kinds[j.kind]
}

func (e *example) judge(w *Weights) judgement {
	j := judgement{label: None}
	if e.label >= 0 {
		j.label = Kinds[e.label]
	}
	if len(e.sentences) == 0 {
		return j
	}
	best := e.best(func(f []uint16) int64 { return int64(w.score(0, f)) })
	j.any, j.score, j.kind = true, w.score(0, best), w.kind(best)
	return j
}

// best is the sentence with the highest score, of equals the first.
func (e *example) best(score func([]uint16) int64) []uint16 {
	best, most := e.sentences[0], score(e.sentences[0])
	for _, s := range e.sentences[1:] {
		if n := score(s); n > most {
			best, most = s, n
		}
	}
	return best
}

// threshold is the highest at which the recall wanted is reached among what a pattern
// matches.
func threshold(judged []judgement) int32 {
	var scores []int32
	for _, j := range judged {
		if j.any && j.label != None {
			scores = append(scores, j.score)
		}
	}
	slices.Sort(scores)
	return scores[int(float64(len(scores))*(1-wantedRecall))]
}

// fit learns by stochastic gradient descent on the logistic loss, in whole numbers.
// Of a turn with an opportunity its best sentence is an example for it; of one without,
// each sentence is one against.
func fit(examples []*example) *Weights {
	var w [heads][buckets]int64 // in 1/one
	order := make([]int, len(examples))
	for i := range order {
		order[i] = i
	}
	random := uint64(1)
	for epoch := range epochs {
		rate := int64(one / 4 / (4 + epoch))
		for i := len(order) - 1; i > 0; i-- {
			random = random*6364136223846793005 + 1442695040888963407
			k := int(random>>33) % (i + 1)
			order[i], order[k] = order[k], order[i]
		}
		for _, i := range order {
			e := examples[i]
			if len(e.sentences) == 0 {
				continue
			}
			if e.label < 0 {
				for _, s := range e.sentences {
					step(&w[0], s, false, rate)
				}
				continue
			}
			best := e.best(func(f []uint16) int64 { return sum(&w[0], f) })
			step(&w[0], best, true, rate)
			for k := range Kinds {
				step(&w[1+k], best, k == e.label, rate)
			}
		}
	}
	out := new(Weights)
	for h := range w {
		for i, v := range w[h] {
			out.heads[h][i] = int16(max(math.MinInt16, min(math.MaxInt16, v/(one/scale))))
		}
	}
	return out
}

func sum(w *[buckets]int64, features []uint16) (s int64) {
	for _, f := range features {
		s += w[f]
	}
	return s
}

// step moves weights towards what an example says.
func step(w *[buckets]int64, features []uint16, yes bool, rate int64) {
	want := int64(0)
	if yes {
		want = one
	}
	p := logistic(sum(w, features)/(one/scale)) * one / 1e6
	move := (want - p) * rate / one
	for _, f := range features {
		w[f] += move
	}
}
