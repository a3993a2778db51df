package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// captured are the envelope members whose offsets schema.Check needs, and the
// fields of schema.members that hold them.
var captured = map[string]string{"id": "id", "type": "typ", "time": "time", "dataschema": "dataschema", "data": "data"}

// maxBits bounds the listed members of one object: each has a bit.
const maxBits = 64

// object makes a method for the schema. One that says nothing but the type is
// the event's data, which another schema describes.
func (g *generator) object(p place, n *node) (string, error) {
	if n.only("type") == nil {
		if p.name != "envelopeData" {
			return "", fmt.Errorf("an object that says nothing of its members")
		}
		return "s.data()", nil
	}
	if err := n.only("type", "properties", "required", "additionalProperties", "propertyNames", "maxProperties", "oneOf"); err != nil {
		return "", err
	}
	if n.AdditionalProperties == nil {
		return "", fmt.Errorf("object without additionalProperties")
	}
	if n.AdditionalProperties.schema != nil && n.PropertyNames == nil {
		return "", fmt.Errorf("additionalProperties without propertyNames")
	}
	for _, r := range n.Required {
		if n.Properties[r] == nil {
			return "", fmt.Errorf("required member %q has no schema", r)
		}
	}
	choice, err := n.choice()
	if err != nil {
		return "", err
	}
	if len(n.Properties) > maxBits {
		return "", fmt.Errorf("more than %d members", maxBits)
	}
	// The slot is taken before the members' methods are made, so that the
	// source reads from the whole to its parts.
	slot := len(g.methods)
	g.methods = append(g.methods, "")
	body, err := g.members(p, n, choice)
	if err != nil {
		return "", err
	}
	g.methods[slot] = fmt.Sprintf("func (s *scan) %s() bool {\n%s}\n", p.name, body)
	return "s." + p.name + "()", nil
}

// members is the body of an object's method.
func (g *generator) members(p place, n *node, choice []string) (string, error) {
	var b strings.Builder
	declareVars(&b, n, choice)
	b.WriteString("for s.more('}') {\n")
	if n.MaxProperties != nil {
		fmt.Fprintf(&b, "if count++; count > %[1]d {\nreturn s.tooMany(start, %[1]d)\n}\n", *n.MaxProperties)
	}
	b.WriteString("name, off := s.name()\nswitch string(name) {\n")
	free := len(n.Required) // the required members have the low bits
	for _, member := range slices.Sorted(maps.Keys(n.Properties)) {
		bit := slices.Index(n.Required, member)
		if bit < 0 {
			bit = free
			free++
		}
		if err := g.member(&b, p, n, choice, member, bit); err != nil {
			return "", fmt.Errorf("%s: %w", member, err)
		}
	}
	b.WriteString("default:\n")
	if err := g.otherMember(&b, p, n); err != nil {
		return "", err
	}
	b.WriteString("}\nif !ok {\nreturn false\n}\n}\n")
	if len(n.Required) > 0 {
		fmt.Fprintf(&b, "const required = 1<<%d - 1\nif seen&required != required {\nreturn s.missing(start, seen, required, %s)\n}\n",
			len(n.Required), g.words(n.Required))
	}
	if choice != nil {
		fmt.Fprintf(&b, "if given == 0 || given&(given-1) != 0 {\nreturn s.fail(start, CodeBadValue, %q)\n}\n",
			"want exactly one of "+strings.Join(choice, ", "))
	}
	b.WriteString("return true\n")
	return b.String(), nil
}

func declareVars(b *strings.Builder, n *node, choice []string) {
	start := "start"
	if len(n.Required) == 0 && choice == nil && n.PropertyNames == nil {
		start = "_"
	}
	fmt.Fprintf(b, "%s, ok := s.enter('{', \"an object\")\nif !ok {\nreturn false\n}\n", start)
	if len(n.Properties) > 0 {
		b.WriteString("var seen uint64\n")
	}
	if choice != nil {
		b.WriteString("var given uint64\n")
	}
	if n.MaxProperties != nil {
		b.WriteString("count := 0\n")
	}
}

func (g *generator) member(b *strings.Builder, p place, n *node, choice []string, member string, bit int) error {
	if n.PropertyNames != nil {
		if err := n.acceptsName(member); err != nil {
			return err
		}
	}
	fmt.Fprintf(b, "case %s:\ns.once(&seen, %d)\n", strconv.Quote(member), bit)
	if i := slices.Index(choice, member); i >= 0 {
		fmt.Fprintf(b, "if s.next() != 'n' {\ngiven |= 1 << %d\n}\n", i)
	}
	if field, ok := captured[member]; ok && p.name == "envelope" {
		fmt.Fprintf(b, "s.found.%s = s.i\n", field)
	}
	expr, err := g.expr(p.child(member), n.Properties[member])
	fmt.Fprintf(b, "ok = %s\n", expr)
	return err
}

// acceptsName makes sure that propertyNames, which the generated code applies
// only to members that are not listed, holds for a listed one.
func (n *node) acceptsName(member string) error {
	d, err := compilePattern(n.PropertyNames.Pattern)
	if err != nil {
		return err
	}
	if !d.match(member) {
		return fmt.Errorf("propertyNames refuses the listed member %q", member)
	}
	return nil
}

func (d *dfa) match(s string) bool {
	state := 1
	for i := range len(s) {
		state = int(d.next[state*d.width+int(d.classes[s[i]])])
	}
	return d.final[state]
}

func (g *generator) otherMember(b *strings.Builder, p place, n *node) error {
	if n.PropertyNames == nil {
		b.WriteString("ok = s.unknown(name, off)\n")
		return nil
	}
	if err := n.PropertyNames.only("pattern"); err != nil {
		return fmt.Errorf("propertyNames: %w", err)
	}
	if n.AdditionalProperties.schema == nil {
		return fmt.Errorf("propertyNames beside additionalProperties false")
	}
	if n.MaxProperties == nil {
		return fmt.Errorf("members of any name without maxProperties")
	}
	pattern, err := g.pattern(n.PropertyNames.Pattern)
	if err != nil {
		return err
	}
	expr, err := g.expr(p.child("other"), n.AdditionalProperties.schema)
	if err != nil {
		return err
	}
	if strings.Contains(expr, "||") {
		expr = "(" + expr + ")"
	}
	code := "CodeBadValue"
	if p.name == "envelope" {
		code = "CodeUnknownField" // a member that CloudEvents does not have
	}
	fmt.Fprintf(b, "ok = s.propertyName(name, start, off, &%s, %s) && %s\n", pattern, code, expr)
	return nil
}

// choice reads the only oneOf: exactly one of some nullable members is given
// and not null. Each branch is {"required":[m],"properties":{m:{"type":t}}}
// where m is listed as anyOf of a schema of type t and null.
func (n *node) choice() ([]string, error) {
	var names []string
	for _, branch := range n.OneOf {
		if len(branch.Required) != 1 || len(branch.Properties) != 1 || branch.only("required", "properties") != nil {
			return nil, fmt.Errorf("oneOf: a branch must require one member and state its type")
		}
		member := branch.Required[0]
		want, have := branch.Properties[member], n.Properties[member]
		if want == nil || len(want.Type) != 1 || want.only("type") != nil {
			return nil, fmt.Errorf("oneOf: %s: only a type can be asked for", member)
		}
		if have == nil || len(have.AnyOf) != 2 || !have.AnyOf[1].isNull() || !slices.Equal(have.AnyOf[0].Type, want.Type) {
			return nil, fmt.Errorf("oneOf: %s is not listed as a nullable %s", member, want.Type[0])
		}
		names = append(names, member)
	}
	if n.OneOf != nil && len(names) < 2 {
		return nil, fmt.Errorf("oneOf with fewer than two branches")
	}
	return names, nil
}
