package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/cmd/internal/node"
	"assay/internal/durable"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
)

type explainCmd struct {
	Metric    string   `arg:"" help:"Metric to explain; the command metrics lists them."`
	Week      string   `help:"Count what is of this closed ISO week, such as 2026-W48. Default: all of the ledger." placeholder:"WEEK"`
	Namespace string   `help:"Namespace to count in." default:"production"`
	Repair    []string `help:"Name of a tool of class repair, whose calls are fixes. May be repeated." placeholder:"TOOL"`
	Limit     int      `help:"Name at most this many records. The value is of all of them." default:"1000"`
	Proofs    string   `help:"Write the proof of each named record that it is in the log to DIR/SEQ.tlog-proof." type:"path" placeholder:"DIR"`
}

// explained is a metric with the records behind it and where their proofs are.
type explained struct {
	node.Explained
	Proofs *proofFiles `json:"proofs,omitzero"`
}

// proofFiles says where proofs were written, and in which log they prove.
type proofFiles struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"` // one a record, whatever its roles
	Size  uint64 `json:"size"`
	Root  string `json:"root"`
}

func (c *explainCmd) Run(a *app) error {
	m, err := metric.Find(c.Metric)
	switch {
	case err != nil:
		return noMetric(err)
	case !ledger.IsNamespace(c.Namespace):
		return usageError("%q is no namespace", c.Namespace)
	case c.Limit < 0 || c.Limit > node.MaxExplained:
		return usageError("--limit is %d, want 0 to %d", c.Limit, node.MaxExplained)
	}
	if err := checkWeek(c.Week); err != nil {
		return err
	}
	var out explained
	q := node.ExplainQuery{
		Metric: c.Metric, Namespace: c.Namespace, Options: metric.Options{Week: c.Week, Repair: c.Repair}, Limit: c.Limit,
	}
	out.Explained, err = ofViews(a, "/explain", q.Values(), func(s *projector.State) (node.Explained, error) { return node.Explain(s, q) })
	if errors.Is(err, node.ErrNoWeek) || errors.Is(err, node.ErrNotFound) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	if c.Proofs != "" {
		if out.More {
			return fmt.Errorf("there are more than %d records: give a larger --limit to prove all of them", c.Limit)
		}
		if out.Proofs, err = c.prove(a, out.Records); err != nil {
			return err
		}
	}
	if err := a.print(out, func(w io.Writer) { out.text(w, m) }); err != nil {
		return err
	}
	if out.Value == nil {
		return &exitError{code: exitNotCompare}
	}
	return nil
}

// prove writes the proof of each record once.
func (c *explainCmd) prove(a *app, records []metric.Record) (*proofFiles, error) {
	seqs := map[ledger.Seq]bool{}
	for _, r := range records {
		seqs[r.Seq] = true
	}
	cp, err := (&proveCmd{}).checkpoint(a)
	if err != nil {
		return nil, err
	}
	e, err := evidenceFlags{}.open(a)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	show, end := progress[ledger.Seq](a, "proving")
	defer end()
	sorted := slices.Sorted(maps.Keys(seqs))
	proofs, err := node.ProveInclusions(a.ctx, e, cp, sorted, show)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Proofs, 0o755); err != nil {
		return nil, err
	}
	for i, p := range proofs {
		if err := durable.WriteFile(filepath.Join(c.Proofs, fmt.Sprintf("%d.tlog-proof", sorted[i])), p.Encode(), 0o644); err != nil {
			return nil, err
		}
	}
	return &proofFiles{c.Proofs, len(proofs), cp.Size, cp.Root.String()}, nil
}

func (e *explained) text(w io.Writer, m *metric.Metric) {
	printMetric(w, m)
	of := "all of the ledger"
	if e.Week != "" {
		of = "week " + e.Week
	}
	fmt.Fprintf(w, "%-12s %s, namespace %s, as of record %d\n\n", "of", of, visible(e.Namespace), e.At.Seq)
	fmt.Fprintf(w, "%-12s %s\n", "value", numberText(e.Number))
	if e.Why != "" {
		fmt.Fprintf(w, "%-12s %s\n", "note", e.Why)
	}
	for _, g := range e.Groups {
		fmt.Fprintf(w, "  %-28s %s\n", visible(g.Name), numberText(g.Number))
	}
	if len(e.Records) > 0 {
		fmt.Fprintln(w)
	}
	for _, r := range e.Records {
		line := fmt.Sprintf("%10d  %-12s %-30s %s", r.Seq, r.Role, r.Type, r.Item)
		if r.Reason != "" {
			line += ": " + r.Reason
		}
		if r.Role != metric.Excluded && r.Count != 1 {
			line += " = " + strconv.FormatInt(r.Count, 10)
		}
		fmt.Fprintln(w, visible(line))
	}
	if e.More {
		fmt.Fprintln(w, "there are others; give a larger --limit")
	}
	if p := e.Proofs; p != nil {
		fmt.Fprintf(w, "\n%-12s %d files in %s prove these records in the log of size %d\n", "proofs", p.Files, p.Dir, p.Size)
	}
}

// numberText is a value with what it is made of, its interval, and what was left out.
func numberText(n metric.Number) string {
	var b strings.Builder
	b.WriteString("not available")
	if n.Value != nil {
		b.Reset()
		b.WriteString(strconv.FormatFloat(*n.Value, 'g', 6, 64))
	}
	fmt.Fprintf(&b, " (%d", n.Numerator)
	if n.Denominator != nil {
		fmt.Fprintf(&b, "/%d", *n.Denominator)
	}
	b.WriteByte(')')
	if n.Low != nil && n.High != nil {
		fmt.Fprintf(&b, ", 95%% interval %.4g to %.4g", *n.Low, *n.High)
	}
	for i, why := range slices.Sorted(maps.Keys(n.Excluded)) {
		sep := ", "
		if i == 0 {
			sep = "; left out: "
		}
		fmt.Fprintf(&b, "%s%s %d", sep, why, n.Excluded[why])
	}
	return b.String()
}
