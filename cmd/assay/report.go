package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/cmd/internal/node"
	"assay/internal/durable"
	"assay/ledger"
	"assay/projector"
	"assay/projector/report"
)

type reportCmd struct {
	Week      string   `help:"Closed ISO week, such as 2026-W48. Default: the last one that was closed." placeholder:"WEEK"`
	TZ        string   `name:"tz" help:"Refuse unless the week was closed in this time zone, such as Europe/Berlin." placeholder:"ZONE"`
	Out       string   `help:"Write WEEK.html, WEEK.md and WEEK.json into this directory." type:"path" placeholder:"DIR"`
	Namespace string   `help:"Namespace to report on." default:"production"`
	Repair    []string `help:"Name of a tool of class repair, whose calls are fixes. May be repeated." placeholder:"TOOL"`
}

func (c *reportCmd) Run(a *app) error {
	switch {
	case c.Out == "" && !a.json:
		return usageError("give --out DIR, or --json")
	case !ledger.IsNamespace(c.Namespace):
		return usageError("%q is no namespace", c.Namespace)
	}
	if err := checkWeek(c.Week); err != nil {
		return err
	}
	q := report.Config{Namespace: c.Namespace, Week: c.Week, Repair: c.Repair}
	r, err := ofViews(a, "/report", node.ReportValues(q), func(s *projector.State) (*report.Report, error) { return report.Build(s, q) })
	if errors.Is(err, node.ErrNoWeek) || errors.Is(err, node.ErrNotFound) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	if c.TZ != "" && c.TZ != r.Week.Zone {
		return usageError("%s was closed in %s, not in %s: a ledger's weeks are those of the zone that it was opened with", r.Week.ID, r.Week.Zone, c.TZ)
	}
	if err := node.SignReport(a.ctx, a.dir, r); err != nil {
		return err
	}
	files, err := c.write(r)
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) {
		for _, path := range files {
			fmt.Fprintln(w, visible(path))
		}
	})
}

// write writes the report in each of its forms, whole or not at all.
func (c *reportCmd) write(r *report.Report) (files []string, err error) {
	if c.Out == "" {
		return nil, nil
	}
	page, err := r.HTML()
	if err != nil {
		return nil, err
	}
	data, err := r.Encode()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		ending string
		data   []byte
	}{{".html", page}, {".md", r.Markdown()}, {".json", data}} {
		path := filepath.Join(c.Out, r.Week.ID+f.ending)
		if err := durable.WriteFile(path, f.data, 0o644); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}
