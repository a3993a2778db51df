package detector

import "sync"

// reader takes the features of a turn's sentences; it is scratch space.
type reader struct {
	lexed
	known    []*word // what the patterns know of the tokens
	skeleton []uint32
	features []uint16 // of the sentence at hand
	kept     []uint16 // of the best one
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// The spaces of features, which begin their hashes so that they do not collide by rule.
const (
	spaceBias = iota + 1
	spaceWord
	spacePair
	spaceSkeleton
	spaceFirst
	spacePattern
	spaceQuestion // pattern in a question
	spaceNegated  // pattern behind a negation
	spaceKind     // kind of a pattern
	spaceTurn
)

// Words that turn what follows into its opposite.
var negations = []string{
	"not", "no", "never", "don't", "doesn't", "didn't", "won't", "wouldn't", "can't", "cannot", "isn't", "wasn't", "aren't", "without", "skip", "neither",
	"forget",
}

// negationReach is how many tokens behind a negation a pattern may begin.
const negationReach = 4

// read cuts a turn and looks its words up.
func (r *reader) read(p *patterns, text []byte) {
	r.lex(text)
	r.known = r.known[:0]
	for _, t := range r.tokens {
		r.known = append(r.known, p.look(t))
	}
}

// best is the sentence with the highest score among those that a pattern matches, its
// features in r.kept.
func (r *reader) best(p *patterns, w *Weights, role Role, text []byte) (best sentence, score int32, ok bool) {
	r.read(p, text)
	for i, s := range r.sentences {
		if !r.take(p, role, i) {
			continue
		}
		if n := w.score(0, r.features); !ok || n > score {
			best, score, ok = s, n, true
			r.kept, r.features = r.features, r.kept
		}
	}
	return best, score, ok
}

// hash makes a feature of a space and two or three tokens.
func hash(space, a, b, c uint32) uint16 {
	h := uint32(hashBasis)
	for _, x := range [...]uint32{space, a, b, c} {
		h = (h ^ x) * hashPrime
		h ^= h >> 15
	}
	h *= 0x85ebca6b
	return uint16((h ^ h>>13) & (buckets - 1))
}

func (r *reader) put(space, a, b, c uint32) {
	r.features = append(r.features, hash(space, a, b, c))
}

// take takes the features of sentence i; false where no pattern matches.
func (r *reader) take(p *patterns, role Role, i int) bool {
	s := r.sentences[i]
	tokens, known := r.tokens[s.from:s.to], r.known[s.from:s.to]
	r.features = r.features[:0]
	kinds, question := r.patterns(p, tokens, known, s.question), uint32(0)
	if s.question {
		question = 1
	}
	if kinds == 0 {
		return false
	}
	r.put(spaceBias, 0, 0, 0)
	r.put(spaceTurn, uint32(role), question, 0)
	r.put(spaceTurn, 8, uint32(min(len(tokens)/4, 5)), 0)
	if len(r.sentences) == 1 {
		r.put(spaceTurn, 9, question, 0)
	}
	for k := range Kinds {
		if kinds&(1<<k) != 0 {
			r.put(spaceKind, uint32(k), question, 0)
		}
	}
	r.words(tokens, known, question)
	return true
}

// patterns takes the patterns that match, and says of which kinds they are.
func (r *reader) patterns(p *patterns, tokens []uint32, known []*word, question bool) (kinds int) {
	reach := 0 // up to where a negation reaches
	for at, w := range known {
		for _, n := range w.begins {
			pt := &p.all[n]
			if !pt.matchAt(tokens, known, at, question) {
				continue
			}
			kinds |= 1 << pt.kind
			r.put(spacePattern, uint32(n), 0, 0)
			if question {
				r.put(spaceQuestion, uint32(n), 0, 0)
			}
			if at < reach {
				r.put(spaceNegated, uint32(n), 0, 0)
			}
		}
		if w.negates {
			reach = at + 1 + negationReach
		}
	}
	return kinds
}

// words takes words and pairs of them, and the sentence's skeleton: its function words
// as they are, the others by their class.
func (r *reader) words(tokens []uint32, known []*word, question uint32) {
	r.skeleton = append(r.skeleton[:0], tokenEdge, tokenEdge)
	var seen uint8
	for k, t := range tokens {
		r.put(spaceWord, t, 0, 0)
		if k > 0 {
			r.put(spacePair, tokens[k-1], t, 0)
		}
		seen |= known[k].class
		switch c := known[k].class; {
		case t < firstWord:
		case c&(classBad|classAct) != 0:
			t = firstWord + uint32(c&(classBad|classAct))
		case c&classSelf == 0:
			t = tokenWord
		}
		r.skeleton = append(r.skeleton, t)
	}
	r.skeleton = append(r.skeleton, tokenEdge)
	for k := 2; k < len(r.skeleton); k++ {
		r.put(spaceSkeleton, r.skeleton[k-2], r.skeleton[k-1], r.skeleton[k])
		r.put(spaceSkeleton, r.skeleton[k-1], r.skeleton[k], 0)
	}
	first := r.skeleton[2]
	r.put(spaceFirst, first, question, 0)
	r.put(spaceFirst, first, r.skeleton[3], 2+question)
	r.put(spaceTurn, 10, uint32(seen&(classBad|classAct)), question)
}
