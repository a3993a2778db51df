package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// generator collects the Go code for a set of schemas.
type generator struct {
	docs     []*document
	byID     map[string]*document
	methods  []string          // source of each method, in order of need
	exprs    map[string]string // absolute reference to the expression that validates it
	lists    []string          // elements of lists of words; wordsN is lists[N]
	patterns []string          // patternN is patterns[N]
}

func newGenerator(docs []*document) *generator {
	g := &generator{docs: docs, byID: map[string]*document{}, exprs: map[string]string{}}
	for _, d := range docs {
		g.byID[d.root.ID] = d
	}
	return g
}

// place is where a schema stands: references in it are relative to doc, and
// name is what a method for it is called.
type place struct {
	doc  *document
	name string
}

func (p place) child(member string) place { return place{p.doc, p.name + camel(member)} }

// compile makes the methods for the envelope and for every type, and compiles
// all definitions, used or not, so that none escapes the keyword check.
func (g *generator) compile() error {
	for _, d := range g.docs {
		if d.isType() {
			if err := d.root.checkRoles(); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
		if d.name != "common" {
			if _, err := g.reference(d, d.root.ID); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
		for _, def := range slices.Sorted(maps.Keys(d.root.Defs)) {
			if _, err := g.reference(d, "#/$defs/"+def); err != nil {
				return fmt.Errorf("%s: $defs/%s: %w", d.name, def, err)
			}
		}
	}
	if _, ok := g.byID["urn:assay:envelope:1"]; !ok {
		return fmt.Errorf("no envelope.json")
	}
	return nil
}

var roles = []string{"agent", "dispatcher", "detector", "resolver", "sensor", "harness", "operator", "logger"}

func (n *node) checkRoles() error {
	if len(n.Writers) == 0 {
		return fmt.Errorf("x-writers is empty")
	}
	for _, w := range n.Writers {
		if !slices.Contains(roles, w) {
			return fmt.Errorf("x-writers: no role %q", w)
		}
	}
	return nil
}

// reference is the expression for a $ref that stands in doc.
func (g *generator) reference(doc *document, ref string) (string, error) {
	id, def, hasDef := strings.Cut(ref, "#/$defs/")
	if id == "" {
		id = doc.root.ID
	}
	target, ok := g.byID[id]
	if !ok {
		return "", fmt.Errorf("$ref %q: no such schema", ref)
	}
	absolute := id + "#" + def
	if expr, ok := g.exprs[absolute]; ok {
		return expr, nil
	}
	n, p := target.root, place{target, target.method()}
	if hasDef {
		if n, ok = target.root.Defs[def]; !ok {
			return "", fmt.Errorf("$ref %q: no such definition", ref)
		}
		p = p.child(def)
	}
	expr, err := g.expr(p, n)
	if err == nil {
		g.exprs[absolute] = expr
	}
	return expr, err
}

// expr is the Go expression that validates one value against the schema.
func (g *generator) expr(p place, n *node) (string, error) {
	switch {
	case n.Ref != "":
		if err := n.only("$ref"); err != nil {
			return "", err
		}
		return g.reference(p.doc, n.Ref)
	case n.AnyOf != nil:
		return g.nullable(p, n)
	case n.Enum != nil:
		return fmt.Sprintf("s.enum(%s)", g.words(n.Enum)), n.only("enum")
	case n.Const != nil:
		return g.constant(n)
	case len(n.Type) > 1:
		return g.union(p, n)
	case len(n.Type) == 1:
		return g.typed(p, n, n.Type[0])
	}
	return "", fmt.Errorf("schema without type, enum, const, anyOf or $ref")
}

// nullable is the only anyOf: a schema or null.
func (g *generator) nullable(p place, n *node) (string, error) {
	if err := n.only("anyOf"); err != nil {
		return "", err
	}
	if len(n.AnyOf) != 2 || !n.AnyOf[1].isNull() {
		return "", fmt.Errorf(`anyOf must be [schema, {"type":"null"}]`)
	}
	expr, err := g.expr(p, n.AnyOf[0])
	return "s.null() || " + expr, err
}

func (g *generator) constant(n *node) (string, error) {
	if err := n.only("const"); err != nil {
		return "", err
	}
	if n.Const.Kind() == '"' {
		s, err := strconv.Unquote(string(n.Const))
		return fmt.Sprintf("s.enum(%s)", g.words([]string{s})), err
	}
	c, err := strconv.ParseInt(string(n.Const), 10, 64)
	return fmt.Sprintf("s.integer(%s)", boundsLiteral(&c, &c)), err
}

func (g *generator) typed(p place, n *node, typ string) (string, error) {
	switch typ {
	case "string":
		return g.text(n)
	case "integer":
		return fmt.Sprintf("s.integer(%s)", boundsLiteral(n.Minimum, n.Maximum)), n.only("type", "minimum", "maximum")
	case "number":
		return fmt.Sprintf("s.float(%s)", boundsLiteral(n.Minimum, n.Maximum)), n.only("type", "minimum", "maximum")
	case "boolean":
		return "s.boolean()", n.only("type")
	case "array":
		return g.array(p, n)
	case "object":
		return g.object(p, n)
	}
	return "", fmt.Errorf("type %q is not implemented here", typ)
}

func (g *generator) text(n *node) (string, error) {
	if err := n.only("type", "minLength", "maxLength", "pattern", "format"); err != nil {
		return "", err
	}
	if n.MaxLength == nil {
		return "", fmt.Errorf("string without maxLength")
	}
	limits := fmt.Sprintf("%d, %d", orZero(n.MinLength), *n.MaxLength)
	if n.Pattern == "" && n.Format == "" {
		return fmt.Sprintf("s.text(%s)", limits), nil
	}
	pattern, err := g.pattern(n.Pattern)
	if err != nil {
		return "", err
	}
	switch n.Format {
	case "":
		return fmt.Sprintf("s.match(&%s, %s)", pattern, limits), nil
	case "date-time":
		if n.Pattern != timestampPattern {
			return "", fmt.Errorf("format date-time must have the pattern %s", timestampPattern)
		}
		return fmt.Sprintf("s.timestamp(&%s, %s)", pattern, limits), nil
	}
	return "", fmt.Errorf("format %q is not implemented", n.Format)
}

// timestampPattern is the shape that scan.timestamp relies on.
const timestampPattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`

func (g *generator) array(p place, n *node) (string, error) {
	if err := n.only("type", "items", "minItems", "maxItems"); err != nil {
		return "", err
	}
	if n.MaxItems == nil || n.Items == nil {
		return "", fmt.Errorf("array without maxItems or items")
	}
	item, err := g.expr(p.child("item"), n.Items)
	check := "func(s *scan) bool { return " + item + " }"
	if item == "s."+p.child("item").name+"()" {
		check = "(*scan)." + p.child("item").name
	}
	return fmt.Sprintf("s.array(%d, %d, %s)", orZero(n.MinItems), *n.MaxItems, check), err
}

// union is a scalar of several types; each keyword applies to its own type.
func (g *generator) union(p place, n *node) (string, error) {
	if err := n.only("type", "minLength", "maxLength", "pattern", "minimum", "maximum"); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func (s *scan) %s() bool {\nswitch s.next() {\n", p.name)
	for _, typ := range n.Type {
		part := &node{Type: typeList{typ}}
		var first string
		switch typ {
		case "string":
			part.MinLength, part.MaxLength, part.Pattern = n.MinLength, n.MaxLength, n.Pattern
			first = `'"'`
		case "integer":
			part.Minimum, part.Maximum = n.Minimum, n.Maximum
			first = "'-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'"
		case "boolean":
			first = "'t', 'f'"
		default:
			return "", fmt.Errorf("type %q is not implemented among several", typ)
		}
		expr, err := g.typed(p, part, typ)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "case %s:\nreturn %s\n", first, expr)
	}
	fmt.Fprintf(&b, "}\nreturn s.fail(s.i, CodeWrongType, %q)\n}\n", "want one of: "+strings.Join(n.Type, ", "))
	g.methods = append(g.methods, b.String())
	return "s." + p.name + "()", nil
}

func (g *generator) words(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return "words" + strconv.Itoa(index(&g.lists, strings.Join(quoted, ", ")))
}

func (g *generator) pattern(source string) (string, error) {
	if _, err := compilePattern(source); err != nil {
		return "", err
	}
	return "pattern" + strconv.Itoa(index(&g.patterns, source)), nil
}

// index is where v stands in the list; it is appended if it is not there.
func index(list *[]string, v string) int {
	if i := slices.Index(*list, v); i >= 0 {
		return i
	}
	*list = append(*list, v)
	return len(*list) - 1
}

func boundsLiteral(least, most *int64) string {
	var parts []string
	if least != nil {
		parts = append(parts, fmt.Sprintf("hasMin: true, min: %d", *least))
	}
	if most != nil {
		parts = append(parts, fmt.Sprintf("hasMax: true, max: %d", *most))
	}
	return "bounds{" + strings.Join(parts, ", ") + "}"
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// camel joins the words of a wire name: claim.recorded is ClaimRecorded.
func camel(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
