package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"assay/projector/metric"
)

type metricsCmd struct {
	Name string `arg:"" optional:"" help:"Show this metric alone, in full."`
}

// catalogue is what metrics prints as JSON.
type catalogue struct {
	V       int             `json:"v"` // metric.CatalogueVersion
	Metrics []metric.Metric `json:"metrics"`
}

func (c *metricsCmd) Run(a *app) error {
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
