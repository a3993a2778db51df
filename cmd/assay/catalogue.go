package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
)

type metricsCmd struct {
	Name      string   `arg:"" optional:"" help:"Show this metric alone, in full."`
	Values    bool     `help:"Show what metrics come to instead: value, interval, numerator and denominator, and why there is none."`
	SQL       bool     `name:"sql" help:"Print the metric as a script for an export of the whole ledger as SQLite, written apart from what explain runs."`
	Week      string   `help:"With --values or --sql: of this closed ISO week, such as 2026-W48. Default: all of the ledger." placeholder:"WEEK"`
	Namespace string   `help:"With --values or --sql: namespace to count in." default:"production"`
	Repair    []string `help:"With --values or --sql: name of a tool of class repair. May be repeated." placeholder:"TOOL"`
}

// catalogue is what metrics prints as JSON.
type catalogue struct {
	V       int             `json:"v"` // metric.CatalogueVersion
	Metrics []metric.Metric `json:"metrics"`
}

func (c *metricsCmd) Run(a *app) error {
	if err := checkWeek(c.Week); err != nil {
		return err
	}
	switch {
	case c.SQL && c.Values:
		return usageError("--sql and --values are two different things to print")
	case !c.SQL && !c.Values && (c.Week != "" || len(c.Repair) > 0):
		return usageError("--week and --repair are of --values and --sql")
	case !ledger.IsNamespace(c.Namespace):
		return usageError("%q is no namespace", c.Namespace)
	case c.SQL:
		return c.script(a)
	case c.Values:
		return c.values(a)
	}
	if c.Name == "" {
		all := metric.Catalogue()
		return a.print(catalogue{metric.CatalogueVersion, all}, func(w io.Writer) {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			for _, m := range all {
				fmt.Fprintf(t, "%s\t%s\t%s\n", m.Name, m.Kind, m.Question)
			}
			t.Flush()
		})
	}
	m, err := metric.Find(c.Name)
	if err != nil {
		return noMetric(err)
	}
	return a.print(catalogue{metric.CatalogueVersion, []metric.Metric{*m}}, func(w io.Writer) { printMetric(w, m) })
}

// metricScript is a metric's query as --sql --json prints it.
type metricScript struct {
	V      int    `json:"v"` // metric.CatalogueVersion
	Metric string `json:"metric"`
	SQL    string `json:"sql"`
}

func (c *metricsCmd) script(a *app) error {
	if c.Name == "" {
		return usageError("--sql is of one metric: name it")
	}
	s, err := metric.SQL(c.Name, c.Namespace, metric.Options{Week: c.Week, Repair: c.Repair})
	if err != nil {
		return noMetric(err)
	}
	out := metricScript{metric.CatalogueVersion, c.Name, s.String()}
	return a.print(out, func(w io.Writer) { _, _ = io.WriteString(w, out.SQL) })
}

// values shows what metrics come to.
func (c *metricsCmd) values(a *app) error {
	q := node.ValuesQuery{Namespace: c.Namespace, Options: metric.Options{Week: c.Week, Repair: c.Repair}}
	if c.Name != "" {
		if _, err := metric.Find(c.Name); err != nil {
			return noMetric(err)
		}
		q.Metrics = []string{c.Name}
	}
	out, err := ofViews(a, "/values", q.Values(), func(s *projector.State) (*node.MetricValues, error) { return node.Values(s, q) })
	if errors.Is(err, node.ErrNoWeek) || errors.Is(err, node.ErrNotFound) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, e := range out.Values {
			value := numberText(e.Number)
			if e.Why != "" {
				value += "; " + e.Why
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", e.Metric, e.Unit, visible(value))
			for _, g := range e.Groups {
				fmt.Fprintf(t, "  %s\t\t%s\n", visible(g.Name), visible(numberText(g.Number)))
			}
		}
		t.Flush()
	})
}

func noMetric(err error) error {
	return usageError("%w; `assay metrics` lists them", err)
}

// printMetric prints a row of the catalogue.
func printMetric(w io.Writer, m *metric.Metric) {
	withheld := ""
	if m.OfCauses {
		withheld = fmt.Sprintf("where the census finds over %g of the graph's edges to be no causal claims", metric.MaxNonCausal)
	}
	for _, l := range [][2]string{
		{"metric", fmt.Sprintf("%s (%s, %s of %s)", m.Name, m.Kind, m.Form, m.Unit)}, {"question", m.Question},
		{"numerator", m.Numerator}, {"denominator", m.Denominator}, {"groups", m.Groups}, {"left out", m.Exclusions},
		{"unknown", m.Missing}, {"withheld", withheld}, {"interval", string(m.Interval)}, {"source", m.Source},
	} {
		if l[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", l[0], l[1])
		}
	}
}
