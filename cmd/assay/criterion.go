package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"assay/resolver/criterion"
	"assay/schema"
)

type criterionCmd struct {
	Lint criterionLintCmd `cmd:"" help:"Say what would make a prediction with this criterion void. Exit 0: nothing, 1: each fault is printed with its place."`
	Eval criterionEvalCmd `cmd:"" help:"Judge a criterion by a file of samples, and explain the verdict. Exit 0: confirmed, 1: refuted, 3: unknown, 2: it cannot be judged."`
}

type criterionLintCmd struct {
	File     string `arg:"" help:"File with the criterion; - is stdin."`
	Registry string `help:"Signal registry. Default: DIR/registry.json." type:"existingfile" placeholder:"FILE"`
}

// linted is what is wrong with a criterion.
type linted struct {
	OK     bool              `json:"ok"`
	Faults []criterion.Fault `json:"faults"`
}

func (c *criterionLintCmd) Run(a *app) error {
	raw, err := readCriterion(a, c.File)
	if err != nil {
		return err
	}
	registry, err := loadRegistry(a, c.Registry)
	if err != nil {
		return err
	}
	parsed, faults := parseCriterion(raw)
	if len(faults) == 0 {
		faults = criterion.Lint(parsed, registry)
	}
	out := linted{len(faults) == 0, append([]criterion.Fault{}, faults...)}
	err = a.print(out, func(w io.Writer) {
		for _, f := range faults {
			fmt.Fprintln(w, visible(f.Error()))
		}
		if out.OK {
			fmt.Fprintln(w, "ok")
		}
	})
	if err == nil && !out.OK {
		err = errDoesNotHold
	}
	return err
}

// readCriterion reads a file or stdin, no further than Parse needs to see that
// it is too long.
func readCriterion(a *app, file string) ([]byte, error) {
	from := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usageError("%w", err)
		}
		defer f.Close()
		from = f
	}
	return io.ReadAll(io.LimitReader(from, schema.MaxEvent+1))
}

func parseCriterion(raw []byte) (criterion.Criterion, []criterion.Fault) {
	c, err := criterion.Parse(raw)
	if err == nil {
		return c, nil
	}
	if f, ok := errors.AsType[criterion.Fault](err); ok {
		return c, []criterion.Fault{f}
	}
	return c, []criterion.Fault{{Message: err.Error()}}
}

// loadRegistry reads the named registry or the one of the ledger's directory.
func loadRegistry(a *app, file string) (*criterion.Registry, error) {
	if file == "" {
		file = a.dir.Registry()
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError("there is no %s; name a signal registry with --registry", file)
	}
	if err != nil {
		return nil, usageError("%w", err)
	}
	r, err := criterion.ParseRegistry(raw)
	if err != nil {
		return nil, usageError("%s: %w", file, err)
	}
	return r, nil
}

// faultError is a usage error that names each fault.
func faultError(faults []criterion.Fault) error {
	lines := []string{"the criterion is not valid"}
	for _, f := range faults {
		lines = append(lines, "  "+visible(f.Error()))
	}
	return usageError("%s", strings.Join(lines, "\n"))
}
