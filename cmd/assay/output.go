package main

import (
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"assay/internal/plain"
)

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// print writes v as one line of JSON with --json, and otherwise calls text.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json {
		text(a.stdout)
		return nil
	}
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(body, '\n'))
	return err
}

// printJSON is print for values whose readable form is indented JSON.
func (a *app) printJSON(v any) error {
	return a.print(v, func(w io.Writer) {
		body, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			body = fmt.Appendf(nil, "%v", err)
		}
		fmt.Fprintln(w, visible(string(body)))
	})
}

// visible makes what an agent wrote readable without letting it act on the
// operator's terminal.
func visible(s string) string { return plain.Text(s) }

// progress shows how far long work is, done of total, when stderr is a terminal:
// from the first call of show until end, which comes before anything is printed.
func progress[N ~int64 | ~uint64](a *app, what string) (show func(done, total N), end func()) {
	var bar *progressbar.ProgressBar
	show = func(done, total N) {
		if bar == nil {
			bar = progressbar.NewOptions64(int64(total),
				progressbar.OptionSetWriter(a.stderr),
				progressbar.OptionSetVisibility(isTerminal(a.stderr)),
				progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(),
				progressbar.OptionThrottle(100e6),
				progressbar.OptionClearOnFinish(),
			)
		}
		bar.ChangeMax64(int64(total))
		_ = bar.Set64(int64(done))
	}
	return show, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}
