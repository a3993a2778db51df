// Package detector reads turns of transcripts and says which of them hold an
// opportunity to reason about causes, and which question it is: the denominator that
// does not depend on what an agent did with it (docs/detector.md). It shares no code,
// prompt or model with what routes questions, and nothing but a command imports it.
//
// A turn is cut into sentences without what its author only quotes (lexed). Fixed
// patterns (patterns.txt) say which sentences may hold an opportunity; a linear
// classifier over words, word classes and patterns (Weights) says which do, and of
// which kind. A turn holds an opportunity if its best sentence does; it has one verdict.
//
// Code, patterns and weights are frozen together: their hash is the detector's version.
package detector

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Detector is the patterns with weights. It may be used by several goroutines.
type Detector struct {
	version  string
	patterns *patterns
	weights  *Weights
}

// New makes a detector of trained weights, as MarshalBinary wrote them.
func New(weights []byte) (*Detector, error) {
	d := &Detector{weights: new(Weights)}
	if err := d.weights.UnmarshalBinary(weights); err != nil {
		return nil, err
	}
	var err error
	if d.patterns, err = parsePatterns(patternText); err != nil {
		return nil, err
	}
	hash := sha256.Sum256(weights) // which hold the hash of method and patterns
	d.version = method + "-" + hex.EncodeToString(hash[:6])
	return d, nil
}

// Default is the detector of this build.
var Default = sync.OnceValues(func() (*Detector, error) { return New(defaultWeights) })

// Version names code, patterns and weights, such as d2-0123456789ab.
func (d *Detector) Version() string { return d.version }

// Verdict is what the detector says of a turn.
type Verdict struct {
	Opportunity bool
	Kind        string // of Kinds; "" without an opportunity
	// Score is how sure the classifier is of the best sentence, in millionths; 0 where
	// no pattern matches.
	Score int64
	// Start and End are the bytes of the sentence that the verdict rests on.
	Start, End int
}

// Judge says whether a turn holds an opportunity.
func (d *Detector) Judge(role Role, text string) Verdict {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	best, score, ok := r.best(d.patterns, d.weights, role, []byte(text))
	if !ok {
		return Verdict{}
	}
	v := Verdict{Score: logistic(int64(score)), Start: best.start, End: best.end, Opportunity: score >= d.weights.Threshold}
	if v.Opportunity {
		v.Kind = Kinds[d.weights.kind(r.kept)]
	}
	return v
}

// kind is the head with the highest score.
func (w *Weights) kind(features []uint16) int {
	best, most := 0, w.score(1, features)
	for k := 1; k < len(Kinds); k++ {
		if s := w.score(1+k, features); s > most {
			best, most = k, s
		}
	}
	return best
}
