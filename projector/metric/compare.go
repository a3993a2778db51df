package metric

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/ledger"
)

// Comparison says which figures of a score changed from one record to a later
// one, and which records between did it.
type Comparison struct {
	V         int    `json:"v"` // Version: of the scorer that computed both
	Namespace string `json:"namespace"`
	From      Inputs `json:"from"`
	To        Inputs `json:"to"`
	// Step is how many records lie between two scores that were compared. With 1
	// a cause is one record.
	Step    int      `json:"step"`
	Figures []Figure `json:"figures"` // that changed, by name

	types []string // of the records behind From
	last  map[string]string
}

// Figure is one number of a score, by its place in the score's JSON, such as
// routing.rate.numerator. One that came back to what it was has causes and the
// same value before and after.
type Figure struct {
	Name   string         `json:"figure"`
	Before jsontext.Value `json:"before"`
	After  jsontext.Value `json:"after"`
	Causes []Cause        `json:"causes"`
}

// Cause is the records From to To, at whose end the figure had another value
// than before them. What a record did may be no more than to move ledger time,
// by which claims grow old.
type Cause struct {
	From  ledger.Seq     `json:"from"`
	To    ledger.Seq     `json:"to"`
	Types []string       `json:"types"` // of these records, each once
	Value jsontext.Value `json:"value"` // after them
}

// NewComparison begins a comparison; types are those of the records behind the
// first score that is added.
func NewComparison(step int, types []string) *Comparison {
	return &Comparison{V: Version, Step: step, Figures: []Figure{}, types: types}
}

// Add takes the score at the next record that is looked at.
func (c *Comparison) Add(s *Score) error {
	data, err := s.Encode()
	if err != nil {
		return err
	}
	now, err := Figures(data)
	if err != nil {
		return err
	}
	if c.last == nil {
		c.Namespace, c.From = s.Namespace, s.Inputs
	} else {
		c.note(now, c.To.Seq+1, s.Inputs.Seq)
	}
	c.To, c.last = s.Inputs, now
	return nil
}

// note sets what changed over the records from to to.
func (c *Comparison) note(now map[string]string, from, to ledger.Seq) {
	var types []string
	for _, name := range changed(c.last, now) {
		if types == nil {
			types = slices.Clone(c.types[from-c.From.Seq-1 : to-c.From.Seq])
			slices.Sort(types)
			types = slices.Compact(types)
		}
		i, ok := slices.BinarySearchFunc(c.Figures, name, func(f Figure, name string) int { return strings.Compare(f.Name, name) })
		if !ok {
			c.Figures = slices.Insert(c.Figures, i, Figure{Name: name, Before: figure(c.last[name])})
		}
		f := &c.Figures[i]
		f.After = figure(now[name])
		f.Causes = append(f.Causes, Cause{from, to, types, f.After})
	}
}

// figure is a value that may be absent, which is null.
func figure(text string) jsontext.Value {
	if text == "" {
		text = "null"
	}
	return jsontext.Value(text)
}

// changed names the figures that differ, in order.
func changed(a, b map[string]string) (names []string) {
	for name, v := range b {
		if a[name] != v {
			names = append(names, name)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Differences names the figures in which two encoded scores differ, in order.
func Differences(a, b []byte) ([]string, error) {
	x, err := Figures(a)
	if err != nil {
		return nil, err
	}
	y, err := Figures(b)
	if err != nil {
		return nil, err
	}
	return changed(x, y), nil
}

// sections of a score's JSON that hold its figures are all but these.
var noFigures = []string{"v", "namespace", "inputs", "parameters", "checkpoint_size", "computed_from"}

// Figures are the numbers of an encoded score, as text, by their place in it.
func Figures(data []byte) (map[string]string, error) {
	out := make(map[string]string)
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		kind, n := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && n%2 == 0
		switch next := dec.PeekKind(); {
		case next == '{' || next == '[' || next == '}' || next == ']' || isName:
			if _, err := dec.ReadToken(); err != nil {
				return nil, err
			}
		default:
			v, err := dec.ReadValue()
			if errors.Is(err, io.EOF) && dec.StackDepth() == 0 {
				return out, nil
			}
			if err != nil {
				return nil, err
			}
			name := strings.ReplaceAll(strings.TrimPrefix(string(dec.StackPointer()), "/"), "/", ".")
			section, _, _ := strings.Cut(name, ".")
			if !slices.Contains(noFigures, section) {
				out[name] = string(v)
			}
		}
	}
}
