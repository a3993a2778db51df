package tms

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rule reads "a < b, -c".
func rule(text string) Rule {
	head, body, _ := strings.Cut(text, "<")
	r := Rule{Head: strings.TrimSpace(head)}
	for _, part := range strings.FieldsFunc(body, func(c rune) bool { return c == ',' || c == ' ' }) {
		if name, neg := strings.CutPrefix(part, "-"); neg {
			r.Neg = append(r.Neg, name)
		} else {
			r.Pos = append(r.Pos, part)
		}
	}
	return r
}

func TestModel(t *testing.T) {
	for name, tc := range map[string]struct {
		rules string // "; " between
		want  string // several: "a|b"; "none"
	}{
		"nothing":               {"", ""},
		"a premise":             {"a", "a"},
		"by default":            {"a < -b", "a"},
		"default defeated":      {"a < -b; b", "b"},
		"no support in a ring":  {"a < b; b < a", ""},
		"a ring with a reason":  {"a < b; b < a; b < -c", "a b"},
		"two models":            {"a < -b; b < -a", "a|b"},
		"odd loop":              {"a < -a", "none"},
		"odd loop, not reached": {"a < -a, b", ""},
		"odd loop resolved":     {"a < -a, -b; b < -c", "b"},
		"a choice that must be": {"a < -b; b < -a; c < -c, a", "b"},
		"odd ring of three":     {"a < -b; b < -c; c < -a", "none"},
		"both reasons defeated": {"a < b, -c; b; c < b", "b c"},
		"named twice":           {"a < b, b; b", "a b"},
	} {
		var p Program
		for text := range strings.SplitSeq(tc.rules, "; ") {
			if text != "" {
				p.Add(rule(text))
			}
		}
		model, ok, err := p.Model()
		got := strings.Join(model, " ")
		if !ok {
			got = "none"
		}
		if err != nil || !slices.Contains(strings.Split(tc.want, "|"), got) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

func TestRemove(t *testing.T) {
	var p Program
	for range 2 {
		p.Add(rule("a < b, c, -d"))
	}
	for i, want := range []bool{true, true, false} {
		if got := p.Remove(rule("a < c, b, -d")); got != want {
			t.Errorf("removal %d: %v", i+1, got)
		}
	}
}

// Guesses are bounded: 20 choices, and an odd loop that each of them leaves open and
// only a name that all share has to do with.
func TestTooManyGuesses(t *testing.T) {
	var p Program
	for i := range 20 {
		p.Add(rule(fmt.Sprintf("a%d < -b%d", i, i)))
		p.Add(rule(fmt.Sprintf("b%d < -a%d", i, i)))
	}
	p.Add(rule("z < -z"))
	if model, ok, err := p.Model(); ok || err != nil {
		t.Errorf("an odd loop by itself: %v, %v", model, err)
	}
	for i := range 20 {
		p.Add(rule(fmt.Sprintf("all < a%d, z", i)))
	}
	if _, _, err := p.Model(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

var atoms = []string{"a", "b", "c", "d", "e"}

func drawNames(t *rapid.T, most int, what string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(atoms), 0, most).Draw(t, what)
}

func subsets(names []string) (out [][]string) {
	for mask := range 1 << len(names) {
		s := []string{}
		for i, name := range names {
			if mask>>i&1 == 1 {
				s = append(s, name)
			}
		}
		out = append(out, s)
	}
	return out
}

func holdsIn(in []string, names []string) bool {
	return !slices.ContainsFunc(names, func(a string) bool { return !slices.Contains(in, a) })
}

// follow is what follows from a set by rules without Neg.
func follow(from []string, rules []Rule) []string {
	in := slices.Clone(from)
	for again := true; again; {
		again = false
		for _, r := range rules {
			if !slices.Contains(in, r.Head) && holdsIn(in, r.Pos) {
				in = append(in, r.Head)
				again = true
			}
		}
	}
	slices.Sort(in)
	return in
}

func TestModelIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Program
		for range rapid.IntRange(0, 8).Draw(t, "rules") {
			p.Add(Rule{rapid.SampledFrom(atoms).Draw(t, "head"), drawNames(t, 2, "pos"), drawNames(t, 2, "neg")})
		}
		var stable []string
		for _, s := range subsets(atoms) {
			var reduct []Rule
			for _, r := range p.rules {
				if !slices.ContainsFunc(r.Neg, func(a string) bool { return slices.Contains(s, a) }) {
					reduct = append(reduct, r)
				}
			}
			if slices.Equal(follow(nil, reduct), s) {
				stable = append(stable, fmt.Sprint(s))
			}
		}
		model, ok, err := p.Model()
		if err != nil || ok != (len(stable) > 0) || ok && !slices.Contains(stable, fmt.Sprint(model)) {
			t.Fatalf("model %v %v %v, stable are %v", model, ok, err, stable)
		}
	})
}

func drawJustifications(t *rapid.T) (list []Justification, rules []Rule) {
	for range rapid.IntRange(0, 7).Draw(t, "justifications") {
		j := Justification{rapid.SampledFrom(atoms).Draw(t, "head"), drawNames(t, 2, "ante")}
		list = append(list, j)
		rules = append(rules, Rule{Head: j.Head, Pos: j.Ante})
	}
	return list, rules
}

// What is believed is what follows from the enabled assumptions, also after a
// retraction; each support is well founded, gives the assumptions that suffice, and
// is kept while it holds.
func TestJTMS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, rules := drawJustifications(t)
		assumptions := []string{"a", "b", "c"}
		j := NewJTMS(assumptions, []string{"e"}, list)
		enabled := map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			a := rapid.SampledFrom(assumptions).Draw(t, "assumption")
			before := maps.Clone(j.support)
			if enabled[a] = rapid.Bool().Draw(t, "enable"); enabled[a] {
				if err := j.Enable(a); err != nil {
					t.Fatal(err)
				}
			} else if err := j.Retract(a); err != nil {
				t.Fatal(err)
			}
			var from []string
			for a, on := range enabled {
				if on {
					from = append(from, a)
				}
			}
			want := follow(from, rules)
			if !slices.Equal(j.In(), want) || j.Contradicted() != slices.Contains(want, "e") {
				t.Fatalf("in %v, want %v", j.In(), want)
			}
			for node, under := range j.AssumptionsOf() {
				if !holdsIn(from, under) || !slices.Contains(follow(under, rules), node) {
					t.Fatalf("%s by %v, enabled %v", node, under, from)
				}
			}
			// A support goes only if what it rests on went.
			for node, rule := range before {
				now, in := j.support[node]
				if in && now != rule && enabled[a] {
					t.Fatalf("%s changed its support while %s was enabled", node, a)
				}
			}
		}
	})
}

func TestJTMSKeepsSupport(t *testing.T) {
	j := NewJTMS([]string{"a", "b"}, nil, []Justification{{"x", []string{"a"}}, {"x", []string{"b"}}, {"y", []string{"x"}}, {"x", []string{"y"}}})
	steps := []struct {
		do   func(string) error
		node string
		want []string // under x, nil if it is out
	}{{j.Enable, "b", []string{"b"}}, {j.Enable, "a", []string{"b"}}, {j.Retract, "b", []string{"a"}}, {j.Enable, "b", []string{"a"}}, {j.Retract, "a", []string{"b"}}, {j.Retract, "b", nil}}
	for i, s := range steps {
		if err := s.do(s.node); err != nil {
			t.Fatal(err)
		}
		if got := j.AssumptionsOf()["x"]; !slices.Equal(got, s.want) || (got == nil) != (s.want == nil) {
			t.Errorf("step %d: x under %v, want %v", i+1, got, s.want)
		}
	}
	if err := j.Enable("x"); err == nil {
		t.Error("x is no assumption and was enabled")
	}
	if err := j.Retract("x"); err == nil {
		t.Error("x is no assumption and was retracted")
	}
}

// Labels and nogoods are what trying every environment finds.
func TestATMS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, rules := drawJustifications(t)
		assumptions := []string{"a", "b", "c"}
		contradictions := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom([]string{"c", "d", "e"}), 0, 2).Draw(t, "contradictions"))))
		a := NewATMS(assumptions, contradictions)
		for i, j := range list {
			if err := a.Justify(j); err != nil {
				t.Fatal(err)
			}
			var good [][]string
			nogoods := [][]string{}
			for _, e := range bySize(subsets(assumptions)) {
				if slices.ContainsFunc(follow(e, rules[:i+1]), func(n string) bool { return slices.Contains(contradictions, n) }) {
					nogoods = addMinimal(nogoods, e)
				} else {
					good = append(good, e)
				}
			}
			if fmt.Sprint(a.Nogoods()) != fmt.Sprint(nogoods) {
				t.Fatalf("nogoods %v, want %v", a.Nogoods(), nogoods)
			}
			labels := map[string][][]string{}
			for _, j := range list[:i+1] {
				for _, name := range append([]string{j.Head}, j.Ante...) {
					if slices.Contains(assumptions, name) {
						continue
					}
					labels[name] = [][]string{}
					for _, e := range good {
						if slices.Contains(follow(e, rules[:i+1]), name) {
							labels[name] = addMinimal(labels[name], e)
						}
					}
				}
			}
			if fmt.Sprint(a.Labels()) != fmt.Sprint(labels) {
				t.Fatalf("labels %v, want %v", a.Labels(), labels)
			}
		}
	})
}

func bySize(sets [][]string) [][]string {
	slices.SortStableFunc(sets, func(a, b []string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return slices.Compare(a, b)
	})
	return sets
}

func addMinimal(list [][]string, e []string) [][]string {
	if slices.ContainsFunc(list, func(o []string) bool { return holdsIn(e, o) }) {
		return list
	}
	return append(list, e)
}

// n pairs of reasons, all needed: 2^n environments.
func TestTooManyEnvironments(t *testing.T) {
	const n = 13
	var assumptions []string
	all := Justification{Head: "all"}
	for i := range n {
		assumptions = append(assumptions, fmt.Sprint("x", i), fmt.Sprint("y", i))
		all.Ante = append(all.Ante, fmt.Sprint("z", i))
	}
	a := NewATMS(assumptions, nil)
	for i := range n {
		for _, side := range []string{"x", "y"} {
			if err := a.Justify(Justification{fmt.Sprint("z", i), []string{fmt.Sprint(side, i)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Justify(all); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

// Two labels below the limit can still be too much to hold against each other.
func TestTooManyComparisons(t *testing.T) {
	var assumptions []string
	for i := range 60 {
		assumptions = append(assumptions, fmt.Sprint("x", i))
	}
	a := NewATMS(assumptions, nil)
	for i, x := range assumptions {
		for _, y := range assumptions[:i] {
			for _, head := range []string{"g", "h"} {
				if err := a.Justify(Justification{head, []string{x, y}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if n := len(a.Labels()["g"]); n > MaxEnvironments {
		t.Fatalf("the label has %d environments", n)
	}
	if err := a.Justify(Justification{"both", []string{"g", "h"}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}
