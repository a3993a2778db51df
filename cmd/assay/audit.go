package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/ledger"
	"assay/projector/metric"
	"assay/projector/report"
)

type auditCmd struct {
	Sample auditSampleCmd `cmd:"" help:"Draw what is to be labelled of a week, by the seed that closed it, and publish it."`
	Check  auditCheckCmd  `cmd:"" help:"Draw a week's sample again from the ledger and compare it with the published one."`
	Label  auditLabelCmd  `cmd:"" help:"Label the cases of a published sample: in the terminal, or from --label or JSON lines."`
	Report auditReportCmd `cmd:"" help:"Say how far samples are labelled, what the raters answer, and how far they agree."`
}

// auditFlags name a sample.
type auditFlags struct {
	evidenceFlags
	Week      string `help:"ISO week, such as 2026-W48. Default: the last one that was closed." placeholder:"WEEK"`
	Namespace string `help:"Namespace to draw from." default:"production"`
	Set       string `help:"What is labelled: ${sets}." default:"outcomes" enum:"${sets}"`
}

func (c *auditFlags) check() error {
	if err := checkWeek(c.Week); err != nil {
		return err
	}
	if !ledger.IsNamespace(c.Namespace) {
		return usageError("%q is no namespace", c.Namespace)
	}
	return nil
}

// checkWeek says whether a --week is one of the calendar, or none was given.
func checkWeek(week string) error {
	if week == "" {
		return nil
	}
	if err := report.CheckWeek(week); err != nil {
		return usageError("%w", err)
	}
	return nil
}

// with opens the ledger and calls fn with where to look in it.
func (c *auditFlags) with(a *app, fn func(node.AuditConfig) error) error {
	e, err := c.open(a)
	if err != nil {
		return err
	}
	defer e.Close()
	show, end := progress[ledger.Seq](a, "replaying")
	defer end()
	return fn(node.AuditConfig{Evidence: e, Week: c.Week, Namespace: c.Namespace, Set: c.Set, Log: a.log, Progress: show})
}

func (c *auditFlags) draw(a *app, wanted []metric.Wanted) (drawn *node.Audit, err error) {
	err = c.with(a, func(cfg node.AuditConfig) (err error) {
		cfg.Wanted = wanted
		drawn, err = node.DrawAudit(a.ctx, cfg)
		return err
	})
	return drawn, err
}

type auditSampleCmd struct {
	auditFlags
	Wanted map[string]int64 `help:"How many cases to draw of a stratum, such as unresolved=20. May be repeated. Default: docs/audits.md." placeholder:"STRATUM=N"`
	DryRun bool             `help:"Print the sample; publish nothing."`
	As     string           `help:"Operator who samples." default:"operator/main" placeholder:"ROLE/NAME"`
	NKey   string           `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
}

// sampleResult is a sample and, once it is published, where it stands.
type sampleResult struct {
	Sample     *events.AuditSampled `json:"sample"`
	Published  bool                 `json:"published"` // it stands in the ledger
	Seq        *uint64              `json:"seq,omitzero"`
	Leaf       string               `json:"leaf,omitzero"`
	RecordedAt string               `json:"recorded_at,omitzero"`
}

func (c *auditSampleCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	wanted, err := c.wanted()
	if err != nil {
		return err
	}
	switch {
	case !strings.HasPrefix(c.As, "operator/"):
		return usageError("only an operator samples, not %s", c.As)
	case !c.DryRun && (c.File != "" || c.Export != ""):
		return usageError("an export cannot be written to: give --dry-run")
	}
	audit, err := c.draw(a, wanted)
	if errors.Is(err, node.ErrNoWeek) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	out := sampleResult{Sample: audit.Drawn}
	switch {
	case audit.Stored != nil:
		if d := audit.Differences(); len(d) > 0 {
			return fmt.Errorf("the %s of %s of %s were sampled by %s in record %d, and otherwise: %s",
				c.Set, audit.Drawn.Week, c.Namespace, audit.Stored.Principal, audit.Stored.Seq, strings.Join(d, "; "))
		}
		n := uint64(audit.Stored.Seq)
		out.Published, out.Seq, out.Leaf, out.RecordedAt = true, &n, audit.Stored.Leaf, ledger.FormatTime(audit.Stored.RecordedAt)
	case !c.DryRun:
		if err := c.publish(a, audit, &out); err != nil {
			return err
		}
	}
	return a.print(out, func(w io.Writer) {
		_, _ = io.WriteString(w, visible(metric.SampleText(out.Sample)))
		switch {
		case out.Seq != nil:
			fmt.Fprintf(w, "\npublished   record %d %s\n", *out.Seq, out.Leaf)
		case out.Published:
			fmt.Fprintf(w, "\npublished   %s\n", out.Leaf)
		default:
			fmt.Fprintln(w, "\nnot published")
		}
	})
}

// wanted is how many cases to draw of each stratum of the set.
func (c *auditSampleCmd) wanted() ([]metric.Wanted, error) {
	out := metric.WantedOf(c.Set)
	for stratum, n := range c.Wanted {
		i := slices.IndexFunc(out, func(w metric.Wanted) bool { return w.Stratum == stratum })
		switch {
		case i < 0:
			return nil, usageError("%s has no stratum %q", c.Set, stratum)
		case n < 0 || n > metric.MaxWanted:
			return nil, usageError("draw between 0 and %d cases of a stratum, not %d", metric.MaxWanted, n)
		}
		out[i].Cases = n
	}
	return out, nil
}

func (c *auditSampleCmd) publish(a *app, audit *node.Audit, out *sampleResult) error {
	if c.NATS == "" { // elsewhere the checkpoints are not at hand
		if err := node.CheckSigned(a.dir, audit.Closed); err != nil {
			return err
		}
	}
	raw, err := audit.Event(c.As)
	if err != nil {
		return err
	}
	emit := emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}
	r, err := emit.publish(a.ctx, a, raw)
	if err != nil {
		return err
	}
	out.Published, out.Seq, out.Leaf, out.RecordedAt = true, r.Seq, r.Leaf, r.RecordedAt
	return nil
}

type auditCheckCmd struct{ auditFlags }

// checkResult says whether a published sample is the one that the ledger calls
// for; null when there was nothing to compare.
type checkResult struct {
	Match       *bool                `json:"match"`
	Week        string               `json:"week"`
	Namespace   string               `json:"namespace"`
	Set         string               `json:"set"`
	Seq         ledger.Seq           `json:"seq,omitzero"` // of the published sample
	Principal   string               `json:"principal,omitzero"`
	Differences []string             `json:"differences"`
	Drawn       *events.AuditSampled `json:"drawn"`
}

func (c *auditCheckCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	audit, err := c.draw(a, nil)
	if errors.Is(err, node.ErrNoWeek) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	out := checkResult{Week: audit.Drawn.Week, Namespace: c.Namespace, Set: c.Set, Differences: []string{}, Drawn: audit.Drawn}
	code := error(&exitError{code: exitNotCompare})
	if s := audit.Stored; s != nil {
		out.Seq, out.Principal = s.Seq, s.Principal
		if s.Sampled.Method == metric.SampleMethod {
			out.Differences = append(out.Differences, audit.Differences()...)
			match := len(out.Differences) == 0
			out.Match, code = &match, nil
			if !match {
				code = errDoesNotHold
			}
		}
	}
	err = a.print(out, func(w io.Writer) { out.text(w, audit) })
	return errors.Join(err, code)
}

func (r checkResult) text(w io.Writer, audit *node.Audit) {
	switch {
	case audit.Stored == nil:
		fmt.Fprintf(w, "nothing was sampled of the %s of %s in %s\n", r.Set, r.Week, r.Namespace)
	case r.Match == nil:
		fmt.Fprintf(w, "record %d samples %s by other rules (%s) than this build's (%s)\n", r.Seq, r.Week, visible(audit.Stored.Sampled.Method), metric.SampleMethod)
	case *r.Match:
		fmt.Fprintf(w, "match       record %d (%s) is the sample of %s that the ledger calls for\n", r.Seq, r.Principal, r.Week)
	default:
		fmt.Fprintf(w, "MISMATCH    record %d (%s) is not the sample of %s:\n", r.Seq, r.Principal, r.Week)
		for _, d := range r.Differences {
			fmt.Fprintf(w, "  %s\n", visible(d))
		}
	}
}
