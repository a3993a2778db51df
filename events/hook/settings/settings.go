// Package settings edits the files in which agents' clients are told of their
// hooks: JSON objects with a member hooks,
//
//	{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "…"}]}]}}
//
// What else stands in a file keeps its bytes. It is pure.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events/hook"
)

// ErrUnknownForm means that a file is not what its client reads: it is left alone.
var ErrUnknownForm = errors.New("not a client's settings as they are known here")

// timeout is how many seconds a client waits for a hook. It takes milliseconds.
const timeout = 10

// Points are the hooks that are recorded of a client.
func Points(c hook.Client) []string {
	if c == hook.Codex {
		return []string{"PreToolUse", "PostToolUse"} // the second tells of failures too
	}
	return []string{"PreToolUse", "PostToolUse", "PostToolUseFailure"}
}

// Command is the shell's command line of a hook: program are the words that start
// it, and args follow the client's name.
func Command(program []string, c hook.Client, args ...string) string {
	words := slices.Concat(program, []string{string(c)}, args)
	for i, w := range words {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

// quote makes one word of the shell's of any text.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// isOurs says whether a command line is one of Command's, of any build: by the
// program's name, or where that was changed by the flags that an installation gives.
func isOurs(command string) bool {
	words := split(command)
	n := len(words)
	installed := n == 7 && words[n-4] == "--dir" && words[n-2] == "--as"
	if n > 1 && words[1] == "hook" && (path.Base(words[0]) == "assay" || installed) {
		words = words[1:]
	} else if len(words) == 0 || path.Base(words[0]) != "assay-hook" {
		return false
	}
	return len(words) > 1 && hook.IsClient(words[1])
}

// split undoes quote: it cuts a command line at its spaces.
func split(command string) (words []string) {
	var word strings.Builder
	quoted, some := false, false
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\'':
			quoted, some = !quoted, true
		case quoted:
			word.WriteByte(c)
		case c == '\\' && i+1 < len(command):
			i++
			word.WriteByte(command[i])
		case c == ' ':
			if some || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteByte(c)
		}
	}
	if some || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// Add has the client run command at its points, and nothing else of ours. A file
// of no byte is one that is not there.
func Add(file []byte, c hook.Client, command string) ([]byte, error) {
	if has, err := runs(file, c, command); err != nil || has {
		return file, err
	}
	file, err := Remove(file)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(file)) == 0 {
		file = []byte("{}\n")
	}
	for _, point := range Points(c) {
		if file, err = add(file, point, command); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// runs says whether the file has the command at every point of the client's, once,
// and nothing else of ours.
func runs(file []byte, c hook.Client, command string) (bool, error) {
	found, err := ours(file)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if f.command != command || !slices.Contains(Points(c), f.point) {
			return false, nil
		}
	}
	return len(found) == len(Points(c)), nil
}

// add appends a group with the command to the groups of a point.
func add(file []byte, point, command string) ([]byte, error) {
	root, err := parse(file)
	if err != nil {
		return nil, err
	}
	in := indentOf(file)
	quoted, err := jsontext.AppendQuote(nil, command)
	if err != nil {
		return nil, err
	}
	group := fmt.Sprintf(`{"hooks": [{"type": "command", "command": %s, "timeout": %d}]}`, quoted, timeout)
	groups := fmt.Sprintf("[\n%s%s\n%s]", strings.Repeat(in, 3), group, strings.Repeat(in, 2))
	all := root.member("hooks")
	if all == nil {
		return root.insert(file, fmt.Sprintf("\"hooks\": {\n%s\"%s\": %s\n%s}", strings.Repeat(in, 2), point, groups, in), in, 1), nil
	}
	if list := all.member(point); list != nil {
		return list.insert(file, group, in, 3), nil
	}
	return all.insert(file, fmt.Sprintf("%q: %s", point, groups), in, 2), nil
}

// Remove takes out whatever Add put in, of any build and client, and the lists
// that are empty then.
func Remove(file []byte) ([]byte, error) {
	for {
		found, err := ours(file)
		if err != nil || len(found) == 0 {
			return file, err
		}
		// From within: a list that loses its only item is one item less itself.
		cut := found[0].path
		last := cut[len(cut)-1]
		for len(cut) > 1 && len(last.of.items) == 1 {
			cut = cut[:len(cut)-1]
			last = cut[len(cut)-1]
		}
		file = last.of.cut(file, last.at)
	}
}

// step is an item of an object or array.
type step struct {
	of *value
	at int
}

// handler is a hook of ours in a file.
type handler struct {
	point, command string
	path           []step // from the root down
}

// ours finds the hooks that are ours, and that the file is what the client reads.
func ours(file []byte) (found []handler, err error) {
	if len(bytes.TrimSpace(file)) == 0 {
		return nil, nil
	}
	root, err := parse(file)
	if err != nil {
		return nil, err
	}
	all := root.member("hooks")
	if all == nil {
		return nil, nil
	}
	if all.kind != '{' {
		return nil, fmt.Errorf("%w: /hooks is no object", ErrUnknownForm)
	}
	top := step{root, root.index("hooks")}
	for i, point := range all.items {
		if point.kind != '[' {
			return nil, fmt.Errorf("%w: /hooks/%s is no array", ErrUnknownForm, point.name)
		}
		for j, group := range point.items {
			list := group.member("hooks")
			if list == nil || list.kind != '[' {
				return nil, fmt.Errorf("%w: /hooks/%s/%d has no array hooks", ErrUnknownForm, point.name, j)
			}
			for k, h := range list.items {
				var command string
				if c := h.member("command"); c != nil && json.Unmarshal(file[c.start:c.end], &command) == nil && isOurs(command) {
					// A group is gone with its only hook, whatever its other members.
					to := []step{top, {all, i}, {point, j}}
					if len(list.items) > 1 {
						to = append(to, step{group, group.index("hooks")}, step{list, k})
					}
					found = append(found, handler{point.name, command, to})
				}
			}
		}
	}
	return found, nil
}

// value is a JSON value by where it stands in a file.
type value struct {
	kind       jsontext.Kind
	name       string // of a member
	first      int    // where the item begins: a member's name, else the value
	start, end int
	items      []*value // of an object or array
}

// parse reads a file that is one object.
func parse(file []byte) (*value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(file))
	root, err := read(dec)
	if err == nil && root.kind != '{' {
		err = errors.New("not an object")
	}
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			return root, nil
		}
		err = errors.New("something stands behind the object")
	}
	return nil, fmt.Errorf("%w: %w", ErrUnknownForm, err)
}

func read(dec *jsontext.Decoder) (*value, error) {
	v := &value{kind: dec.PeekKind()}
	if v.kind != '{' && v.kind != '[' {
		raw, err := dec.ReadValue()
		v.end = int(dec.InputOffset())
		v.start = v.end - len(raw)
		v.first = v.start
		return v, err
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	v.start = int(dec.InputOffset()) - 1
	v.first = v.start
	for closing := v.kind + 2; dec.PeekKind() != closing; { // } and ] in ASCII
		var name string
		first := -1
		if v.kind == '{' {
			raw, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			first = int(dec.InputOffset()) - len(raw)
			if err := json.Unmarshal(raw, &name); err != nil {
				return nil, err
			}
		}
		item, err := read(dec)
		if err != nil {
			return nil, err
		}
		if first >= 0 {
			item.name, item.first = name, first
		}
		v.items = append(v.items, item)
	}
	_, err := dec.ReadToken()
	v.end = int(dec.InputOffset())
	return v, err
}

// member is nil where there is none.
func (v *value) member(name string) *value {
	if i := v.index(name); i >= 0 {
		return v.items[i]
	}
	return nil
}

func (v *value) index(name string) int {
	if v.kind != '{' {
		return -1
	}
	return slices.IndexFunc(v.items, func(m *value) bool { return m.name == name })
}

// insert puts an item at the end of an object or array, on a line of its own.
func (v *value) insert(file []byte, text, indent string, depth int) []byte {
	at := v.start + 1
	text = "\n" + strings.Repeat(indent, depth) + text
	if n := len(v.items); n > 0 {
		at, text = v.items[n-1].end, ","+text
	} else {
		text += "\n" + strings.Repeat(indent, depth-1)
	}
	return slices.Concat(file[:at], []byte(text), file[at:])
}

// cut takes an item out.
func (v *value) cut(file []byte, i int) []byte {
	from, to := v.items[i].first, v.items[i].end
	switch {
	case len(v.items) == 1:
		from, to = v.start+1, v.end-1
	case i > 0:
		from = v.items[i-1].end
	default:
		to = v.items[1].first
	}
	return slices.Concat(file[:from], file[to:])
}

// indentOf is the white space before the first member, two spaces if it stands on
// no line of its own.
func indentOf(file []byte) string {
	rest := bytes.TrimLeft(file, " \t\r\n")
	rest = bytes.TrimPrefix(rest, []byte("{"))
	rest = bytes.TrimLeft(rest, "\r")
	if !bytes.HasPrefix(rest, []byte("\n")) {
		return "  "
	}
	n := len(rest[1:]) - len(bytes.TrimLeft(rest[1:], " \t"))
	if n == 0 {
		return "  "
	}
	return string(rest[1 : 1+n])
}
