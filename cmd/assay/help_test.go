package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestHelpNamesDefaults: the help of every flag that has a default names it, whether it
// stands in the place of the value or behind the text.
func TestHelpNamesDefaults(t *testing.T) {
	var all cli
	parser, err := newParser(&all, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = kong.Visit(parser.Model, func(n kong.Visitable, next kong.Next) error {
		if f, ok := n.(*kong.Flag); ok && f.HasDefault && f.Default != "" && !f.Hidden {
			seen++
			if help := f.FormatPlaceHolder() + " " + helpOf(f.Value); !strings.Contains(help, f.Default) && !strings.Contains(help, "Default:") && !f.IsBool() {
				t.Errorf("--%s does not name its default %s: %s", f.Name, f.Default, help)
			}
		}
		return next(nil)
	})
	if err != nil || seen < 50 {
		t.Errorf("%d flags have defaults, %v", seen, err)
	}
}
