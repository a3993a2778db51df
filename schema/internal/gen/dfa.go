package main

import (
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// dfa is an anchored ASCII pattern as a deterministic automaton over bytes.
// State 0 is dead and state 1 the start.
type dfa struct {
	classes [256]uint8
	width   int
	next    []uint8
	final   []bool
}

// compilePattern builds the automaton by the subset construction on the
// program that package regexp would run.
func compilePattern(pattern string) (*dfa, error) {
	if !strings.HasPrefix(pattern, "^") || !strings.HasSuffix(pattern, "$") {
		return nil, fmt.Errorf("pattern %q is not anchored at both ends", pattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	for _, in := range prog.Inst {
		if err := checkInst(in); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	d := &dfa{}
	samples := d.classify(prog)
	return d, d.build(prog, samples)
}

// checkInst refuses what has no meaning byte by byte.
func checkInst(in syntax.Inst) error {
	switch in.Op {
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return fmt.Errorf("any character is not supported")
	case syntax.InstRune, syntax.InstRune1:
		if syntax.Flags(in.Arg)&syntax.FoldCase != 0 || slices.Max(in.Rune) > unicode.MaxASCII {
			return fmt.Errorf("only ASCII and exact case are supported")
		}
	case syntax.InstEmptyWidth:
		if op := syntax.EmptyOp(in.Arg); op != syntax.EmptyBeginText && op != syntax.EmptyEndText {
			return fmt.Errorf("only the anchors ^ and $ are supported")
		}
	}
	return nil
}

// classify puts bytes that no instruction tells apart into one class and
// returns one byte of each.
func (d *dfa) classify(prog *syntax.Prog) (samples []byte) {
	ids := map[string]uint8{}
	for b := range d.classes {
		var signature strings.Builder
		for i := range prog.Inst {
			if isRune(prog.Inst[i].Op) {
				fmt.Fprint(&signature, b <= unicode.MaxASCII && prog.Inst[i].MatchRune(rune(b)), " ")
			}
		}
		id, ok := ids[signature.String()]
		if !ok {
			id = uint8(len(ids))
			ids[signature.String()] = id
			samples = append(samples, byte(b))
		}
		d.classes[b] = id
	}
	d.width = len(samples)
	return samples
}

func isRune(op syntax.InstOp) bool { return op == syntax.InstRune || op == syntax.InstRune1 }

func (d *dfa) build(prog *syntax.Prog, samples []byte) error {
	start := closure(prog, []uint32{uint32(prog.Start)}, syntax.EmptyBeginText)
	sets := [][]uint32{nil, start}
	numbers := map[string]int{fmt.Sprint([]uint32(nil)): 0, fmt.Sprint(start): 1}
	for state := 0; state < len(sets); state++ {
		ends := closure(prog, sets[state], syntax.EmptyEndText)
		d.final = append(d.final, slices.ContainsFunc(ends, func(pc uint32) bool { return prog.Inst[pc].Op == syntax.InstMatch }))
		for _, b := range samples {
			var after []uint32
			for _, pc := range sets[state] {
				in := &prog.Inst[pc]
				if isRune(in.Op) && b <= unicode.MaxASCII && in.MatchRune(rune(b)) {
					after = append(after, in.Out)
				}
			}
			set := closure(prog, after, 0)
			key := fmt.Sprint(set)
			to, ok := numbers[key]
			if !ok {
				to = len(sets)
				numbers[key] = to
				sets = append(sets, set)
			}
			if to > math.MaxUint8 {
				return fmt.Errorf("more than %d states", math.MaxUint8)
			}
			d.next = append(d.next, uint8(to))
		}
	}
	return nil
}

// closure is every instruction that is reached without a byte where the given
// conditions hold, sorted. A condition that may hold later stays in the set.
func closure(prog *syntax.Prog, from []uint32, holds syntax.EmptyOp) []uint32 {
	seen := map[uint32]bool{}
	var kept []uint32
	var visit func(uint32)
	visit = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		in := &prog.Inst[pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(in.Out)
			visit(in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^holds == 0 {
				visit(in.Out)
			} else if syntax.EmptyOp(in.Arg) == syntax.EmptyEndText {
				kept = append(kept, pc)
			}
		case syntax.InstFail:
		default:
			kept = append(kept, pc)
		}
	}
	for _, pc := range from {
		visit(pc)
	}
	slices.Sort(kept)
	return kept
}
