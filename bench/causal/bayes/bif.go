package bayes

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/bench/causal"
)

// ParseBIF reads a network in the Bayesian Interchange Format (0.15, and what the
// repository of bnlearn has): blocks `network`, `variable` and `probability`.
//
// A probability block lists a row for each combination of the parents' states,
// `(a, b) 0.1, 0.9;`, perhaps with a `default` row for those that it does not list, or
// all numbers in one `table`, the states of the variable itself slowest. Commas and
// the bar before the parents may be left out; properties are skipped.
//
// An error is a *causal.Fault whose message begins with line and column.
func ParseBIF(text string) (*Network, error) {
	p := &bifParser{text: text, line: 1, column: 1}
	var fault *causal.Fault
	if err := p.file(); errors.As(err, &fault) {
		return nil, fault
	}
	nodes := make([]Node, len(p.variables))
	for i, v := range p.variables {
		if v.rows == nil {
			return nil, bifFault(v.at, "there is no probability block for variable %q", v.Name)
		}
		nodes[i] = v.Node
	}
	network, err := New(nodes)
	if errors.As(err, &fault) {
		placed := bifFault(p.place(fault), "%s", fault.Message)
		placed.Kind = fault.Kind
		return nil, placed
	}
	return network, err
}

func bifFault(at position, format string, args ...any) *causal.Fault {
	return &causal.Fault{Kind: causal.Invalid, Message: fmt.Sprintf("line %d, column %d: ", at.line, at.column) + fmt.Sprintf(format, args...)}
}

type position struct{ line, column int }

// bifVariable is a variable, and where its parts stand.
type bifVariable struct {
	Node
	index     map[string]int // of the states
	at, given position
	rows      []position // of each row; nil before there is a probability block
}

type bifParser struct {
	text         string
	line, column int
	token        string // the one under the cursor; "" at the end
	quoted       bool
	at           position // of the token
	variables    []*bifVariable
	byName       map[string]*bifVariable
}

// place finds the position of a fault that New saw.
func (p *bifParser) place(f *causal.Fault) position {
	v := p.byName[f.At[1]]
	switch {
	case f.At[0] == "variables":
		return v.at
	case len(f.At) > 3 && f.At[2] == "rows":
		if row, err := strconv.Atoi(f.At[3]); err == nil && row < len(v.rows) {
			return v.rows[row]
		}
	}
	return v.given
}

const bifPunctuation = "{}()[],;|"

// next moves to the next token.
func (p *bifParser) next() error {
	if err := p.skip(); err != nil {
		return err
	}
	p.at, p.token, p.quoted = position{p.line, p.column}, "", false
	switch {
	case p.text == "":
	case p.text[0] == '"':
		end := strings.IndexByte(p.text[1:], '"')
		if end < 0 {
			return bifFault(p.at, "the quotation does not end")
		}
		p.token, p.quoted = p.text[1:1+end], true
		p.advance(end + 2)
	case strings.IndexByte(bifPunctuation, p.text[0]) >= 0:
		p.token = p.text[:1]
		p.advance(1)
	default:
		end := strings.IndexAny(p.text, bifPunctuation+"\" \t\r\n")
		if end < 0 {
			end = len(p.text)
		}
		p.token = p.text[:end]
		p.advance(end)
	}
	return nil
}

// skip passes white space and comments.
func (p *bifParser) skip() error {
	for p.text != "" {
		switch {
		case strings.IndexByte(" \t\r\n", p.text[0]) >= 0:
			p.advance(1)
		case strings.HasPrefix(p.text, "//"):
			end := strings.IndexByte(p.text, '\n')
			if end < 0 {
				end = len(p.text)
			}
			p.advance(end)
		case strings.HasPrefix(p.text, "/*"):
			end := strings.Index(p.text, "*/")
			if end < 0 {
				return bifFault(position{p.line, p.column}, "the comment does not end")
			}
			p.advance(end + 2)
		default:
			return nil
		}
	}
	return nil
}

func (p *bifParser) advance(n int) {
	for i := range n {
		if p.column++; p.text[i] == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
	p.text = p.text[n:]
}

// is says whether the token is this punctuation or keyword.
func (p *bifParser) is(token string) bool { return p.token == token && !p.quoted }

// ended says whether there is no token left.
func (p *bifParser) ended() bool { return p.token == "" && !p.quoted }

// found is the token in an error.
func (p *bifParser) found() string {
	if p.ended() {
		return "the end"
	}
	return strconv.Quote(p.token)
}

// expect moves past tokens that must stand here.
func (p *bifParser) expect(tokens ...string) error {
	for _, token := range tokens {
		if !p.is(token) {
			return bifFault(p.at, "want %q, found %s", token, p.found())
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

// word moves past a name.
func (p *bifParser) word(what string) (string, error) {
	if p.ended() || !p.quoted && strings.Contains(bifPunctuation, p.token) {
		return "", bifFault(p.at, "want %s, found %s", what, p.found())
	}
	word := p.token
	return word, p.next()
}

// words moves past names, with commas between or without, up to one of the tokens
// of end.
func (p *bifParser) words(what string, end ...string) (words []string, err error) {
	for !slices.ContainsFunc(end, p.is) {
		word, err := p.word(what)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
		if err := p.comma(); err != nil {
			return nil, err
		}
	}
	return words, nil
}

func (p *bifParser) comma() error {
	if p.is(",") {
		return p.next()
	}
	return nil
}

func (p *bifParser) file() error {
	p.byName = map[string]*bifVariable{}
	if err := p.next(); err != nil {
		return err
	}
	for !p.ended() {
		var err error
		switch {
		case p.is("network"):
			err = p.network()
		case p.is("variable"):
			err = p.variable()
		case p.is("probability"):
			err = p.probability()
		default:
			err = bifFault(p.at, "want network, variable or probability, found %s", p.found())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *bifParser) network() error {
	if err := p.next(); err != nil {
		return err
	}
	for !p.is("{") { // a name of any number of words
		if _, err := p.word("the network's name"); err != nil {
			return err
		}
	}
	return p.block(func() error { return bifFault(p.at, "want a property, found %s", p.found()) })
}

// block reads what stands in braces: properties, which it skips, and what entry
// reads.
func (p *bifParser) block(entry func() error) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for !p.is("}") {
		if !p.is("property") {
			if err := entry(); err != nil {
				return err
			}
			continue
		}
		for !p.is(";") {
			if p.ended() {
				return bifFault(p.at, "the property does not end")
			}
			if err := p.next(); err != nil {
				return err
			}
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	return p.next()
}

func (p *bifParser) variable() error {
	if err := p.next(); err != nil {
		return err
	}
	at := p.at
	name, err := p.word("the variable's name")
	if err != nil {
		return err
	}
	if p.byName[name] != nil {
		return bifFault(at, "there are two variables named %q", name)
	}
	v := &bifVariable{Node: Node{Name: name}, at: at}
	p.variables, p.byName[name] = append(p.variables, v), v
	if err := p.block(func() error { return p.states(v) }); err != nil {
		return err
	}
	if v.States == nil {
		return bifFault(at, "variable %q has no type", name)
	}
	return nil
}

// states reads `type discrete [ n ] { a, b };`.
func (p *bifParser) states(v *bifVariable) error {
	if v.States != nil {
		return bifFault(p.at, "want a property, found %s", p.found())
	}
	if err := p.expect("type", "discrete", "["); err != nil {
		return err
	}
	at := p.at
	word, err := p.word("the number of states")
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(word)
	if err != nil {
		return bifFault(at, "want the number of states, found %q", word)
	}
	if err := p.expect("]", "{"); err != nil {
		return err
	}
	if v.States, err = p.words("a state", "}"); err != nil {
		return err
	}
	if i, twice := causal.Repeated(v.States); twice {
		return bifFault(at, "variable %q has two states named %q", v.Name, v.States[i])
	}
	v.index = make(map[string]int, len(v.States))
	for i, state := range v.States {
		v.index[state] = i
	}
	if len(v.States) != count {
		return bifFault(at, "variable %q has %d states, not %d", v.Name, len(v.States), count)
	}
	return p.expect("}", ";")
}

func (p *bifParser) probability() error {
	if err := p.next(); err != nil {
		return err
	}
	if err := p.expect("("); err != nil {
		return err
	}
	at := p.at
	name, err := p.word("a variable")
	if err != nil {
		return err
	}
	v := p.byName[name]
	switch {
	case v == nil:
		return bifFault(at, "there is no variable %q before this", name)
	case v.rows != nil:
		return bifFault(at, "variable %q has two probability blocks", name)
	}
	v.given = at
	if p.is("|") {
		if err := p.next(); err != nil {
			return err
		}
	} else if err := p.comma(); err != nil {
		return err
	}
	if v.Parents, err = p.words("a parent", ")"); err != nil {
		return err
	}
	if err := p.next(); err != nil {
		return err
	}
	return p.rows(v)
}

// maxRows bounds what the names of a probability block alone can ask for.
const maxRows = 1 << 20

// rows reads the block of a variable's probabilities.
func (p *bifParser) rows(v *bifVariable) error {
	count := 1
	for _, name := range v.Parents {
		parent := p.byName[name]
		if parent == nil {
			return bifFault(v.given, "there is no variable %q before this", name)
		}
		if count *= len(parent.States); count > maxRows {
			return &causal.Fault{Kind: causal.TooLarge, Message: fmt.Sprintf("line %d, column %d: the limit is %d combinations of parents' states", v.given.line, v.given.column, maxRows)}
		}
	}
	v.Rows, v.rows = make([][]float64, count), make([]position, count)
	var otherwise []float64
	var otherwiseAt position
	err := p.block(func() (err error) {
		at := p.at
		switch {
		case p.is("("):
			var row int
			if row, err = p.row(v); err != nil {
				return err
			}
			if v.Rows[row] != nil {
				return bifFault(at, "the row stands twice")
			}
			v.rows[row] = at
			v.Rows[row], err = p.numbers()
		case p.is("default"):
			if err = p.next(); err == nil {
				otherwiseAt = at
				otherwise, err = p.numbers()
			}
		case p.is("table"):
			if err = p.next(); err == nil {
				err = p.table(v, at)
			}
		default:
			err = bifFault(at, "want a row, a table or a default, found %s", p.found())
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range v.Rows {
		if v.Rows[i] == nil && otherwise == nil {
			return bifFault(v.given, "variable %q has no row for (%s)", v.Name, strings.Join(p.combination(v, i), ", "))
		}
		if v.Rows[i] == nil {
			v.Rows[i], v.rows[i] = otherwise, otherwiseAt
		}
	}
	return nil
}

// combination is the combination of the parents' states of a row.
func (p *bifParser) combination(v *bifVariable, row int) []string {
	out := make([]string, len(v.Parents))
	for k, name := range slices.Backward(v.Parents) {
		states := p.byName[name].States
		out[k] = states[row%len(states)]
		row /= len(states)
	}
	return out
}

// row reads the parents' states before a row.
func (p *bifParser) row(v *bifVariable) (int, error) {
	at := p.at
	if err := p.next(); err != nil {
		return 0, err
	}
	states, err := p.words("a state", ")")
	if err != nil {
		return 0, err
	}
	if len(states) != len(v.Parents) {
		return 0, bifFault(at, "want %d states, one a parent, found %d", len(v.Parents), len(states))
	}
	row := 0
	for k, name := range v.Parents {
		i, ok := p.byName[name].index[states[k]]
		if !ok {
			return 0, bifFault(at, "variable %q has no state %q", name, states[k])
		}
		row = row*len(p.byName[name].States) + i
	}
	return row, p.next()
}

// numbers reads numbers up to a semicolon.
func (p *bifParser) numbers() (out []float64, err error) {
	for !p.is(";") {
		at := p.at
		word, err := p.word("a number")
		if err != nil {
			return nil, err
		}
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, bifFault(at, "want a number, found %q", word)
		}
		out = append(out, x)
		if err := p.comma(); err != nil {
			return nil, err
		}
	}
	return out, p.next()
}

// table reads all rows at once, the variable's own states slowest.
func (p *bifParser) table(v *bifVariable, at position) error {
	all, err := p.numbers()
	if err != nil {
		return err
	}
	if len(all) != len(v.Rows)*len(v.States) {
		return bifFault(at, "want %d numbers, found %d", len(v.Rows)*len(v.States), len(all))
	}
	for row := range v.Rows {
		if v.Rows[row] != nil {
			return bifFault(at, "the row stands twice")
		}
		for s := range v.States {
			v.Rows[row] = append(v.Rows[row], all[s*len(v.Rows)+row])
		}
		v.rows[row] = at
	}
	return nil
}
