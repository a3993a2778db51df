package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/cmd/internal/node"
	"assay/events/importer"
	"assay/internal/principal"
)

type importCmd struct {
	Format  string        `arg:"" help:"What the files are: ${formats}." placeholder:"FORMAT"`
	Files   []string      `arg:"" name:"file" help:"Files to read; - is stdin."`
	As      string        `required:"" help:"Principal in whose name, and in whose namespace, is imported. Only what its role may write is." placeholder:"ROLE/NAME"`
	Source  string        `help:"Name of the file, where its content has none. Default: its own, without directories." placeholder:"NAME"`
	DryRun  bool          `help:"Print the events; send nothing, and keep no content."`
	Timeout time.Duration `help:"How long to ask for the receipts of one batch." default:"1m"`
}

// imported is what import prints.
type imported struct {
	Format string           `json:"format"`
	As     string           `json:"as"`
	Files  []*node.Imported `json:"files"`
}

func (c *importCmd) Run(a *app) error {
	if !slices.Contains(importer.Formats(), c.Format) {
		return usageError("%q is no format: want one of %s", c.Format, strings.Join(importer.Formats(), ", "))
	}
	if c.Source != "" && len(c.Files) > 1 {
		return usageError("--source names one file, and there are %d", len(c.Files))
	}
	im, done, err := c.importer(a)
	if err != nil {
		return err
	}
	defer done()
	out := imported{c.Format, c.As, []*node.Imported{}}
	good := true
	for _, path := range c.Files {
		file, err := c.file(a, im, path)
		if file != nil {
			out.Files = append(out.Files, file)
			good = good && file.Good()
		}
		if err != nil {
			return errors.Join(c.print(a, out), err)
		}
	}
	if err := c.print(a, out); err != nil {
		return err
	}
	if !good {
		return errDoesNotHold
	}
	return nil
}

// importer opens what the import needs.
func (c *importCmd) importer(a *app) (*node.Importer, func(), error) {
	if err := a.dir.Check(); err != nil {
		return nil, nil, err
	}
	if _, _, err := principal.ParseID(c.As); err != nil {
		return nil, nil, err
	}
	all, err := principal.Load(principal.Dir(a.dir).Principals())
	if err != nil {
		return nil, nil, err
	}
	p, ok := all.Find(c.As)
	if !ok || p.Revoked() {
		return nil, nil, usageError("%s is no principal that may publish: `assay principal list`", c.As)
	}
	cfg := node.ImportConfig{Dir: a.dir, Principal: p, Format: c.Format, Patience: c.Timeout}
	if c.DryRun {
		cfg.Show = func(e importer.Event) error {
			_, err := fmt.Fprintf(a.stdout, "%s\n", visible(string(e.Raw)))
			return err
		}
		im, err := node.NewImporter(a.ctx, cfg)
		return im, func() {}, err
	}
	emit := emitCmd{As: c.As}
	var done func()
	if cfg.Client, done, err = emit.dial(a); err != nil {
		return nil, nil, err
	}
	im, err := node.NewImporter(a.ctx, cfg)
	if err != nil {
		done()
		return nil, nil, err
	}
	return im, done, nil
}

func (c *importCmd) file(a *app, im *node.Importer, path string) (*node.Imported, error) {
	in, name := a.stdin, filepath.Base(path)
	if path == "-" {
		name = "stdin"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	if c.Source != "" {
		name = c.Source
	}
	out, err := im.Import(a.ctx, name, in)
	if errors.Is(err, importer.ErrFormat) {
		err = fmt.Errorf("%s, read as %s: %w", visible(path), c.Format, err)
	}
	return out, err
}

// print prints the report; after a dry run the events stand on stdout, and it goes to
// stderr.
func (c *importCmd) print(a *app, out imported) error {
	to := *a
	if c.DryRun {
		to.stdout = a.stderr
	}
	return to.print(out, func(w io.Writer) {
		for _, f := range out.Files {
			printImported(w, f)
		}
	})
}

func printImported(w io.Writer, f *node.Imported) {
	var made, refused int64
	for _, n := range f.Events {
		made += n
	}
	for _, n := range f.Refused {
		refused += n
	}
	fmt.Fprintf(w, "%s: %d lines, %d events", visible(f.Source), f.Lines, made)
	if f.New != nil && f.Already != nil {
		fmt.Fprintf(w, ", %d new, %d already there", *f.New, *f.Already)
	}
	fmt.Fprintf(w, "; %d bad lines, %d refused\n", f.Count(), refused)
	for _, part := range []struct {
		what   string
		counts map[string]int64
	}{{"event", f.Events}, {"left", f.Left}, {"mended", f.Mended}, {"bad", f.Bad}, {"refused", f.Refused}} {
		for _, k := range slices.Sorted(maps.Keys(part.counts)) {
			fmt.Fprintf(w, "  %-8s %-40s %d\n", part.what, visible(k), part.counts[k])
		}
	}
	if f.Kept > 0 || f.Erased > 0 {
		fmt.Fprintf(w, "  %d blobs stored, %d left erased\n", f.Kept, f.Erased)
	}
	for _, b := range f.Listed {
		fmt.Fprintf(w, "  line %d: %s: %s\n", b.Line, b.Kind, visible(b.Message))
	}
	for _, r := range f.Refusal {
		fmt.Fprintf(w, "  line %d: %s refused: %s\n", r.Line, r.Type, visible(r.Refusal.Error()))
	}
}
