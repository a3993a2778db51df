package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/projector/audit"
	"assay/projector/metric"
	"assay/projector/view"
)

type auditLabelCmd struct {
	auditFlags
	As     string            `help:"Rater: the operator in whose name the labels are written." default:"operator/main" placeholder:"ROLE/NAME"`
	NKey   string            `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
	Label  map[string]string `help:"Label a case with answers in the order of the questions, such as claim-7=yes or edge-1=causal_claim,right,asserted,yes,?,no,no,no. May be repeated." placeholder:"ID=ANSWER,…" mapsep:"none"`
	Stdin  bool              `help:"Read labels from stdin, one JSON object a line: {\"id\":…,\"answers\":{FIELD:ANSWER,…},\"note\":…}."`
	Blind  bool              `help:"With --label or --stdin: the rater saw neither the system's verdict nor another's labels."`
	Texts  string            `help:"Directory with the text of each case in a file ID.txt (the id percent-encoded), shown with it; detector and abduction need it." type:"existingdir" placeholder:"DIR"`
	DryRun bool              `help:"Print the events; publish nothing."`
}

// given is a case's answers as a script gives them.
type given struct {
	ID      string            `json:"id"`
	Kind    string            `json:"kind,omitzero"` // needed where two kinds have the id
	Answers map[string]string `json:"answers"`
	Note    *string           `json:"note,omitzero"`
}

// labelled is what came of a label.
type labelled struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Written is false where the rater had labelled the case before, in the record Seq.
	Written bool    `json:"written"`
	Seq     *uint64 `json:"seq,omitzero"`
	Event   any     `json:"event,omitzero"` // with --dry-run
}

// labelling is one run of the command.
type labelling struct {
	*auditLabelCmd
	a       *app
	sample  *node.Labels
	cases   []audit.Case
	publish func(context.Context, []byte) (publish.Receipt, error)
}

func (c *auditLabelCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	scripted := len(c.Label) > 0 || c.Stdin
	hidden := c.Set == metric.SetDetector || c.Set == metric.SetAbduction
	switch {
	case !strings.HasPrefix(c.As, "operator/"):
		return usageError("only an operator labels, not %s", c.As)
	case len(c.Label) > 0 && c.Stdin:
		return usageError("give --label or --stdin, not both")
	case !c.DryRun && (c.File != "" || c.Export != ""):
		return usageError("an export cannot be written to: give --dry-run")
	case c.Blind && !scripted:
		return usageError("--blind is for --label and --stdin: the terminal hides what a rater must not see")
	case !scripted && hidden && c.Texts == "":
		return usageError("the id alone would give the detector's verdict away: give the texts of the cases with --texts")
	}
	l := &labelling{auditLabelCmd: c, a: a}
	err := c.with(a, func(cfg node.AuditConfig) (err error) {
		if l.sample, err = node.ReadLabels(a.ctx, cfg); err == nil {
			l.cases, err = node.ReadCases(a.ctx, cfg, l.sample.Sampled)
		}
		return err
	})
	if errors.Is(err, node.ErrNotSampled) || errors.Is(err, node.ErrNoWeek) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	if !c.DryRun {
		emit := emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}
		client, done, err := emit.dial(a)
		if err != nil {
			return err
		}
		defer done()
		l.publish = client.Publish
	}
	switch {
	case c.Stdin:
		return l.fromLines()
	case scripted:
		return l.fromFlags()
	}
	return l.ask()
}

// mine is the rater's own label of a case; nil when there is none.
func (l *labelling) mine(c *audit.Case) *view.Label {
	for i := range l.sample.Labels {
		v := &l.sample.Labels[i]
		if v.Kind == c.Kind && v.ID == c.ID && v.Rater == l.As && v.RubricVersion == audit.Rubric && v.Type == audit.TypeOf(l.Set) {
			return v
		}
	}
	return nil
}

// find is the case that a script means.
func (l *labelling) find(g *given) (found *audit.Case, err error) {
	for i := range l.cases {
		c := &l.cases[i]
		switch {
		case c.ID != g.ID || g.Kind != "" && g.Kind != c.Kind:
		case found != nil:
			return nil, fmt.Errorf("%s is a %s and a %s: say which kind", g.ID, found.Kind, c.Kind)
		default:
			found = c
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%q is no case of the %s of %s", g.ID, l.Set, l.sample.Sampled.Week)
	}
	return found, nil
}

func (l *labelling) fromFlags() error {
	var all []given
	for id, text := range l.Label {
		c, err := l.find(&given{ID: id})
		if err != nil {
			return err
		}
		answers, err := audit.Listed(l.Set, c.Kind, text)
		if err != nil {
			return usageError("%s: %v", id, err)
		}
		all = append(all, given{ID: id, Answers: answers})
	}
	slices.SortFunc(all, func(a, b given) int { return strings.Compare(a.ID, b.ID) })
	return l.write(all)
}

func (l *labelling) fromLines() error {
	var all []given
	in := bufio.NewReaderSize(l.a.stdin, 64<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text := strings.TrimSpace(string(line)); text != "" || tooLong {
			var g given
			if tooLong {
				return fmt.Errorf("line %d is too long", n)
			}
			if err := json.Unmarshal([]byte(text), &g, json.RejectUnknownMembers(true)); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			all = append(all, g)
		}
		if err != nil {
			return l.write(all)
		}
	}
}

// write checks all labels before it writes any, so that a mistake writes none.
func (l *labelling) write(all []given) error {
	type ready struct {
		c *audit.Case
		v *view.Label
	}
	var todo []ready
	for i := range all {
		c, err := l.find(&all[i])
		if err != nil {
			return err
		}
		v := l.label(c, l.Blind)
		v.Note = all[i].Note
		if err := audit.Fill(v, l.Set, all[i].Answers); err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		if slices.ContainsFunc(todo, func(r ready) bool { return r.c == c }) {
			return fmt.Errorf("%s is labelled twice", c.ID)
		}
		if was := l.mine(c); was != nil {
			for _, q := range audit.QuestionsOf(l.Set, c.Kind) {
				if q.Get(was) != q.Get(v) {
					return fmt.Errorf("%s has your label in record %d, which says otherwise of %s: the first counts", c.ID, was.Seq, q.Field)
				}
			}
		}
		todo = append(todo, ready{c, v})
	}
	for _, r := range todo {
		out, err := l.put(r.c, r.v)
		if err != nil {
			return err
		}
		if err := l.a.print(out, func(w io.Writer) { out.text(w, "") }); err != nil {
			return err
		}
	}
	return nil
}

func (o *labelled) text(w io.Writer, indent string) {
	switch {
	case o.Event != nil:
		fmt.Fprintf(w, "%s%s %s: not written\n", indent, o.Kind, visible(o.ID))
	case !o.Written:
		fmt.Fprintf(w, "%s%s %s: labelled before, in record %d\n", indent, o.Kind, visible(o.ID), *o.Seq)
	case o.Seq != nil:
		fmt.Fprintf(w, "%s%s %s: record %d\n", indent, o.Kind, visible(o.ID), *o.Seq)
	default:
		fmt.Fprintf(w, "%s%s %s: written\n", indent, o.Kind, visible(o.ID))
	}
}

// label is a label of a case without answers.
func (l *labelling) label(c *audit.Case, blind bool) *view.Label {
	seq := uint64(l.sample.Seq)
	return &view.Label{
		Type: audit.TypeOf(l.Set), Kind: c.Kind, ID: c.ID, SampleSeq: &seq, Stratum: &c.Stratum, Rater: l.As, Principal: l.As, RubricVersion: audit.Rubric,
		// In the outcomes a turn is one that the detector found nothing in.
		Blind: blind && !(l.Set == metric.SetOutcomes && c.Kind == view.LabelTurn),
	}
}

// put writes a label. Its id follows from sample, case, rater and rubric, so that two
// runs at once cannot label a case twice.
func (l *labelling) put(c *audit.Case, v *view.Label) (*labelled, error) {
	out := &labelled{ID: c.ID, Kind: c.Kind}
	if was := l.mine(c); was != nil {
		n := uint64(was.Seq)
		out.Seq = &n
		return out, nil
	}
	data := audit.Data(l.Set, v)
	if l.DryRun {
		out.Event = data
		return out, nil
	}
	ev, err := events.Maker{Source: "urn:assay:operator"}.New(data)
	if err != nil {
		return nil, err
	}
	ev.ID = events.DerivedID(ev.Type, strconv.FormatUint(*v.SampleSeq, 10), v.Kind, v.ID, v.Rater, v.RubricVersion).String()
	raw, err := events.Encode(ev)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.a.ctx, 30*time.Second)
	defer cancel()
	r, err := l.publish(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ID, err)
	}
	out.Written, out.Seq = true, r.Seq
	l.sample.Labels = append(l.sample.Labels, *v)
	return out, nil
}

// ask goes through the cases that the rater has not labelled yet, and writes each
// label before the next case is shown: whoever breaks off goes on there.
func (l *labelling) ask() error {
	in := bufio.NewReader(l.a.stdin)
	w := l.a.stderr // stdout is for what was written
	fmt.Fprintf(w, "%d cases of %s, drawn by the seed %s\n", len(l.cases), l.sample.Sampled.Week, l.sample.Sampled.Seed)
	for i := range l.cases {
		c := &l.cases[i]
		if l.mine(c) != nil {
			continue
		}
		fmt.Fprintf(w, "\ncase %d of %d\n", i+1, len(l.cases))
		if err := l.show(w, c); err != nil {
			return err
		}
		v, err := l.answer(in, w, c)
		if errors.Is(err, errSkip) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := l.put(c, v)
		if err != nil {
			return err
		}
		if c.Hidden {
			out.ID, out.Kind = strconv.Itoa(i+1), "case"
		}
		if err := l.a.print(out, func(w io.Writer) { out.text(w, "") }); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nall cases were shown")
	return nil
}

func (l *labelling) show(w io.Writer, c *audit.Case) error {
	if !c.Hidden {
		fmt.Fprintf(w, "  %-14s %s\n", c.Kind, visible(c.ID))
	}
	showFacts(w, c.Before)
	if l.Texts == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(l.Texts, url.PathEscape(c.ID)+".txt"))
	if errors.Is(err, os.ErrNotExist) && !c.Hidden {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the text of a case: %w", err)
	}
	fmt.Fprintf(w, "%s\n", visible(string(text)))
	return nil
}

func showFacts(w io.Writer, facts []audit.Fact) {
	for _, f := range facts {
		fmt.Fprintf(w, "  %-14s %s\n", visible(f.Name), visible(f.Value))
	}
}

// errSkip means that the rater leaves a case for later.
var errSkip = errors.New("skipped")

// answer asks a case's questions. io.EOF means that the rater breaks off, and nothing
// of the case is kept.
func (l *labelling) answer(in *bufio.Reader, w io.Writer, c *audit.Case) (*view.Label, error) {
	v, before, followed := l.label(c, true), "", false
	for _, q := range audit.QuestionsOf(l.Set, c.Kind) {
		if !q.Asked(before) {
			continue
		}
		if q.After && !followed {
			followed = true
			fmt.Fprintln(w, "what followed:")
			showFacts(w, c.After)
		}
		for {
			fmt.Fprintf(w, "%s\n  [%s, %s: cannot tell, s: later, q: quit] ", q.Text, choices(q.Options), audit.Unknown)
			line, err := in.ReadString('\n')
			given := strings.TrimSpace(line)
			if err != nil && given == "" {
				return nil, err
			}
			if given == "s" {
				return nil, errSkip
			}
			if given == "q" {
				return nil, io.EOF
			}
			before = chosen(q.Options, given)
			if err := q.Set(v, before); err == nil {
				break
			}
			fmt.Fprintf(w, "%s is no answer\n", visible(strconv.Quote(given)))
		}
	}
	return v, nil
}

// choices are options with their numbers.
func choices(options []string) string {
	var out []string
	for i, o := range options {
		out = append(out, fmt.Sprintf("%d: %s", i+1, o))
	}
	return strings.Join(out, ", ")
}

// chosen is the option of a number, a word or the start of one word alone.
func chosen(options []string, given string) string {
	if n, err := strconv.Atoi(given); err == nil && n >= 1 && n <= len(options) {
		return options[n-1]
	}
	var found []string
	for _, o := range options {
		if o == given {
			return o
		}
		if given != "" && strings.HasPrefix(o, given) {
			found = append(found, o)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return given
}

type auditReportCmd struct {
	evidenceFlags
	Week      string   `help:"ISO week, such as 2026-W48. Default: the last one that was closed." placeholder:"WEEK"`
	Namespace string   `help:"Namespace of the samples." default:"production"`
	Set       []string `help:"What was labelled: ${sets}. May be repeated. Default: all that was sampled." enum:"${sets}"`
}

func (c *auditReportCmd) Run(a *app) error {
	flags := auditFlags{evidenceFlags: c.evidenceFlags, Week: c.Week, Namespace: c.Namespace}
	if err := flags.check(); err != nil {
		return err
	}
	var reports []*audit.Report
	err := flags.with(a, func(cfg node.AuditConfig) error {
		all, err := node.ReadAllLabels(a.ctx, cfg)
		for _, l := range all {
			if set := metric.SetOf(l.Sampled); len(c.Set) == 0 || slices.Contains(c.Set, set) {
				reports = append(reports, audit.ReportOf(l.Sampled, l.Seq, l.Labels))
			}
		}
		if err == nil && len(reports) == 0 {
			err = fmt.Errorf("%w of the %s", node.ErrNotSampled, strings.Join(c.Set, " and the "))
		}
		return err
	})
	if errors.Is(err, node.ErrNoWeek) || errors.Is(err, node.ErrNotSampled) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	return a.print(struct {
		Reports []*audit.Report `json:"reports"`
	}{reports}, func(w io.Writer) {
		for i, r := range reports {
			if i > 0 {
				fmt.Fprintln(w)
			}
			_, _ = io.WriteString(w, visible(r.Text()))
		}
	})
}
