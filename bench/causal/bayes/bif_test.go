package bayes

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"assay/bench/causal"
	"assay/internal/answerkeys"
)

// Every way in which a file may write a network.
const bif = `network "any name" { // a comment
  property version 1.0;
}
/* another
   comment */
variable "X" {
  property "position = (1, 2)";
  type discrete[2] { low, ">= 7.5" };
}
variable Y {
  type discrete [ 3 ] { a, b, c };
}
variable Z { type discrete [ 2 ] { true, false }; }
probability ( X ) { table 0.25, 7.5e-1; }
probability ( Y | X ) {
  (low) 0.1, 0.2, 0.7;
  property note;
  (">= 7.5") 0.5 0.25 0.25;
}
probability ( "Z" X, Y ) {
  default 0.5, 0.5;
  (low, c) 0.9, 0.1;
}
`

func TestBIF(t *testing.T) {
	n, err := ParseBIF(bif)
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.Joint("X", "Y", "Z")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{
		0.25 * 0.1 / 2, 0.25 * 0.1 / 2, 0.25 * 0.2 / 2, 0.25 * 0.2 / 2, 0.25 * 0.7 * 0.9, 0.25 * 0.7 * 0.1,
		0.75 * 0.5 / 2, 0.75 * 0.5 / 2, 0.75 * 0.25 / 2, 0.75 * 0.25 / 2, 0.75 * 0.25 / 2, 0.75 * 0.25 / 2,
	} {
		if math.Abs(got.P[i]-want) > 1e-15 {
			t.Errorf("P[%d] = %v, want %v", i, got.P[i], want)
		}
	}
	// A table with parents has the states of its own variable slowest.
	n, err = ParseBIF(strings.Replace(bif, "  (low) 0.1, 0.2, 0.7;\n  property note;\n  (\">= 7.5\") 0.5 0.25 0.25;", "table 0.1 0.5 0.2 0.25 0.7 0.25;", 1))
	if err != nil {
		t.Fatal(err)
	}
	if other, err := n.Joint("X", "Y", "Z"); err != nil || math.Abs(other.P[4]-got.P[4]) > 1e-15 || math.Abs(other.P[8]-got.P[8]) > 1e-15 {
		t.Errorf("the table reads as %v, %v; want %v", other.P, err, got.P)
	}
}

func TestBIFErrors(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, want string }{
		"another word":      {"variable Y", "varible Y", `line 10, column 1: want network, variable or probability, found "varible"`},
		"a name twice":      {"variable Y", "variable X", `line 10, column 10: there are two variables named "X"`},
		"no type":           {"{ type discrete [ 2 ] { true, false }; }", "{ }", `line 13, column 10: variable "Z" has no type`},
		"another type":      {"type discrete [ 3 ]", "type continuous [ 3 ]", `line 11, column 8: want "discrete", found "continuous"`},
		"a wrong count":     {"[ 3 ]", "[ 4 ]", `line 11, column 19: variable "Y" has 3 states, not 4`},
		"no count":          {"[ 3 ]", "[ x ]", `line 11, column 19: want the number of states, found "x"`},
		"a state twice":     {"a, b, c", "a, b, a", `line 11, column 19: variable "Y" has two states named "a"`},
		"unknown variable":  {"( X )", "( Q )", `line 14, column 15: there is no variable "Q" before this`},
		"unknown parent":    {"( Y | X )", "( Y | Q )", `line 15, column 15: there is no variable "Q" before this`},
		"a block twice":     {"( Y | X )", "( X )", `line 15, column 15: variable "X" has two probability blocks`},
		"unknown state":     {"(low) 0.1", "(high) 0.1", `line 16, column 3: variable "X" has no state "high"`},
		"states too many":   {"(low) 0.1", "(low, low) 0.1", `line 16, column 3: want 1 states, one a parent, found 2`},
		"a row twice":       {`(">= 7.5") 0.5`, "(low) 0.5", `line 18, column 3: the row stands twice`},
		"a row less":        {"(low) 0.1, 0.2, 0.7;", "", `line 15, column 15: variable "Y" has no row for (low)`},
		"a number less":     {"0.1, 0.2, 0.7", "0.1, 0.2", `line 16, column 3: want 3 probabilities, one a state, not 2`},
		"no number":         {"0.1, 0.2", "0.1, often", `line 16, column 14: want a number, found "often"`},
		"off by 1e-3":       {"0.1, 0.2, 0.7", "0.1, 0.2, 0.701", `line 16, column 3: the probabilities add to 1.001, not to 1`},
		"a table too short": {"table 0.25, 7.5e-1", "table 1", `line 14, column 21: want 2 numbers, found 1`},
		"another entry":     {"default", "else", `line 21, column 3: want a row, a table or a default, found "else"`},
		"a parent twice":    {`( "Z" X, Y )`, `( Z | X, X )`, `line 22, column 3: variable "X" has no state "c"`},
		"no end":            {"(low, c) 0.9, 0.1;\n}\n", "(low, c) 0.9, 0.1", `line 22, column 20: want a number, found the end`},
		"an open comment":   {"comment */", "comment", `line 4, column 1: the comment does not end`},
		"an open quotation": {`"Z"`, `"Z`, `line 20, column 15: the quotation does not end`},
	} {
		text := strings.Replace(bif, tc.old, tc.new, 1)
		_, err := ParseBIF(text)
		var f *causal.Fault
		if !errors.As(err, &f) || !strings.HasPrefix(f.Message, tc.want) {
			t.Errorf("%s: %v\nwant %s", name, err, tc.want)
		}
	}
	_, err := ParseBIF(`variable A { type discrete [ 1 ] { a }; }
variable B { type discrete [ 1 ] { b }; }
probability ( A | B ) { (b) 1; }
probability ( B | A ) { (a) 1; }`)
	if err == nil || !errors.Is(err, causal.ErrCyclic) || !strings.Contains(err.Error(), "line 3, column 15: the variable is its own ancestor") {
		t.Errorf("a cycle: %v", err)
	}
	cut := strings.Index(bif, `probability ( "Z"`)
	if _, err := ParseBIF(bif[:cut]); err == nil || !strings.Contains(err.Error(), `line 13, column 10: there is no probability block for variable "Z"`) {
		t.Errorf("no probabilities: %v", err)
	}
}

// No text makes the parser panic or run on.
func FuzzBIF(f *testing.F) {
	f.Add(bif)
	f.Add("variable A { type discrete [ 1 ] { a }; } probability ( A ) { table 1; }")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseBIF(text)
		if err == nil {
			for _, v := range n.Variables() {
				if len(n.States(v)) == 0 {
					t.Errorf("variable %q has no states", v)
				}
			}
		}
	})
}

// The published networks are read whole: their posteriors are compared by bench/calc.
func TestPublishedBIF(t *testing.T) {
	for name, want := range map[string]struct{ variables, arrows int }{
		"alarm": {37, 46}, "asia": {8, 8}, "child": {20, 25}, "insurance": {27, 52}, "sachs": {11, 17},
	} {
		text, err := os.ReadFile(answerkeys.Need(t, "bayesnet/"+name+".bif"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := ParseBIF(string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		arrows := 0
		for _, v := range n.Variables() {
			arrows += len(n.Parents(v))
		}
		if got := len(n.Variables()); got != want.variables || arrows != want.arrows {
			t.Errorf("%s: %d variables, %d arrows; want %v", name, got, arrows, want)
		}
	}
}
