package detector

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed patterns.txt
var patternText []byte

// Kinds are what an opportunity can be, in the order of the weights' heads.
var Kinds = []string{"why", "root_cause", "what_if", "which_fix", "will_x_help", "gap"}

// maxGap is how many tokens a * may pass over.
const maxGap = 4

// A class of words, one bit each.
const (
	classBad  = 1 << iota // what goes wrong
	classAct              // what one does about it
	classSelf             // words that a skeleton keeps as they are
)

var classNames = map[string]uint8{"bad": classBad, "act": classAct, "self": classSelf}

// element is one part of a pattern: words, a class, or a gap.
type element struct {
	words []uint32
	class uint8
	gap   bool
}

func (e *element) matches(token uint32, class uint8) bool {
	return class&e.class != 0 || slices.Contains(e.words, token)
}

// pattern is one line of patterns.txt.
type pattern struct {
	kind     int
	elements []element
	start    bool // only at the beginning of a sentence
	question bool // only in a question
}

// patterns is the file, ready to be matched.
type patterns struct {
	all   []pattern
	words map[uint32]*word
	// slots is words as a table with linear probing, which one look-up a token is too
	// many for a map.
	slots []slot
}

// word is what the file knows of a token. All patterns that can begin with it are here,
// also those that begin with one of its classes.
type word struct {
	class   uint8
	negates bool
	begins  []uint16
}

type slot struct {
	token uint32 // 0: free
	word  *word
}

// unknown is a word that the file does not have.
var unknown = new(word)

// parsePatterns reads a file of classes and patterns.
func parsePatterns(text []byte) (*patterns, error) {
	p := &patterns{words: map[uint32]*word{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.add(line); err != nil {
			return nil, fmt.Errorf("patterns, line %d: %w", n, err)
		}
	}
	for _, w := range negations {
		p.word(hashWord(w)).negates = true
	}
	p.file()
	return p, lines.Err()
}

// word is the entry of a token, made where there is none.
func (p *patterns) word(token uint32) *word {
	w, ok := p.words[token]
	if !ok {
		w = new(word)
		p.words[token] = w
	}
	return w
}

// look is the entry of a token.
func (p *patterns) look(token uint32) *word {
	for at := token; ; at++ {
		s := &p.slots[at&uint32(len(p.slots)-1)]
		switch s.token {
		case token:
			return s.word
		case 0:
			return unknown
		}
	}
}

// file lists under each word the patterns that can begin with it.
func (p *patterns) file() {
	for n, pt := range p.all {
		first := &pt.elements[0]
		for _, w := range first.words {
			p.word(w)
		}
		for token, w := range p.words {
			if first.matches(token, w.class) {
				w.begins = append(w.begins, uint16(n))
			}
		}
	}
	size := 1
	for size < 4*len(p.words) {
		size *= 2
	}
	p.slots = make([]slot, size)
	for token, w := range p.words {
		at := token
		for p.slots[at&uint32(size-1)].token != 0 {
			at++
		}
		p.slots[at&uint32(size-1)] = slot{token, w}
	}
}

func (p *patterns) add(line string) error {
	head, rest, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("no colon in %q", line)
	}
	if name, isClass := strings.CutPrefix(head, "class "); isClass {
		class, known := classNames[name]
		if !known {
			return fmt.Errorf("no class %q", name)
		}
		for word := range strings.FieldsSeq(rest) {
			stem, suffixes, _ := strings.Cut(word, "+")
			for suffix := range strings.SplitSeq("+"+suffixes, "+") {
				p.word(hashWord(stem + suffix)).class |= class
			}
		}
		return nil
	}
	pt := pattern{kind: slices.Index(Kinds, head)}
	if pt.kind < 0 {
		return fmt.Errorf("no kind %q", head)
	}
	for word := range strings.FieldsSeq(rest) {
		switch {
		case word == "^":
			pt.start = true
		case word == "?":
			pt.question = true
		case word == "*":
			pt.elements = append(pt.elements, element{gap: true})
		case word[0] == '<':
			class, known := classNames[strings.Trim(word, "<>")]
			if !known {
				return fmt.Errorf("no class %s", word)
			}
			pt.elements = append(pt.elements, element{class: class})
		default:
			e, err := wordsOf(word)
			if err != nil {
				return err
			}
			pt.elements = append(pt.elements, e)
		}
	}
	return p.keep(pt)
}

func wordsOf(alternatives string) (e element, err error) {
	for word := range strings.SplitSeq(alternatives, "|") {
		switch word {
		case ",":
			e.words = append(e.words, tokenComma)
		case ":":
			e.words = append(e.words, tokenColon)
		default:
			var l lexed
			l.lex([]byte(word))
			if len(l.tokens) != 1 || l.tokens[0] != hashWord(word) {
				return e, fmt.Errorf("%q is not one word", word)
			}
			e.words = append(e.words, l.tokens[0])
		}
	}
	return e, nil
}

// keep takes a pattern up, without gaps at its ends.
func (p *patterns) keep(pt pattern) error {
	for len(pt.elements) > 0 && pt.elements[0].gap { // behind ^ anything may come first
		pt.elements, pt.start = pt.elements[1:], false
	}
	for len(pt.elements) > 0 && pt.elements[len(pt.elements)-1].gap {
		pt.elements = pt.elements[:len(pt.elements)-1]
	}
	if len(pt.elements) == 0 {
		return fmt.Errorf("a pattern needs a word")
	}
	p.all = append(p.all, pt)
	return nil
}

// matchAt says whether the pattern matches with its first element, which is known to,
// at this word.
func (pt *pattern) matchAt(tokens []uint32, words []*word, at int, question bool) bool {
	if pt.start && at > 0 || pt.question && !question {
		return false
	}
	return matchRest(pt.elements[1:], tokens, words, at+1)
}

func matchRest(elements []element, tokens []uint32, words []*word, at int) bool {
	for k := range elements {
		e := &elements[k]
		if e.gap {
			for skip := 0; skip <= maxGap && at+skip < len(tokens); skip++ {
				if matchRest(elements[k+1:], tokens, words, at+skip) {
					return true
				}
			}
			return false
		}
		if at >= len(tokens) || !e.matches(tokens[at], words[at].class) {
			return false
		}
		at++
	}
	return true
}
