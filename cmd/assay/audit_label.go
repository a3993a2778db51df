package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/projector/audit"
	"assay/projector/metric"
	"assay/projector/ui"
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
	Pages  bool              `help:"Label on pages instead of in the terminal, by keyboard or mouse; they show the cases alone and are served on loopback."`
	Listen string            `help:"With --pages: their address." default:"127.0.0.1:7778" placeholder:"[HOST:]PORT"`
	DryRun bool              `help:"Print the events; publish nothing."`
}

// given is a case's answers as a script gives them.
type given struct {
	ID      string            `json:"id"`
	Kind    string            `json:"kind,omitzero"` // needed where two kinds have the id
	Answers map[string]string `json:"answers"`
	Note    *string           `json:"note,omitzero"`
}

// labelling is one run of the command.
type labelling struct {
	*auditLabelCmd
	a       *app
	session *audit.Session
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
	case c.Pages && scripted:
		return usageError("--pages asks for the labels: give neither --label nor --stdin")
	case !c.DryRun && (c.File != "" || c.Export != ""):
		return usageError("an export cannot be written to: give --dry-run")
	case c.Blind && !scripted:
		return usageError("--blind is for --label and --stdin: terminal and pages hide what a rater must not see")
	case !scripted && hidden && c.Texts == "":
		return usageError("the id alone would give the detector's verdict away: give the texts of the cases with --texts")
	}
	l := &labelling{c, a, &audit.Session{Set: c.Set, Rater: c.As}}
	if c.Texts != "" {
		l.session.Texts = os.DirFS(c.Texts)
	}
	err := c.with(a, func(cfg node.AuditConfig) error {
		s := l.session
		sample, err := node.ReadLabels(a.ctx, cfg)
		if err == nil {
			s.Week, s.Seed, s.Sample, s.Labels = sample.Sampled.Week, sample.Sampled.Seed, uint64(sample.Seq), sample.Labels
			s.Cases, err = node.ReadCases(a.ctx, cfg, sample.Sampled)
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
		l.session.Publish = func(ctx context.Context, event []byte) (*uint64, error) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			r, err := client.Publish(ctx, event)
			return r.Seq, err
		}
	}
	switch {
	case c.Stdin:
		return l.fromLines()
	case scripted:
		return l.fromFlags()
	case c.Pages:
		return l.serve()
	}
	return l.ask()
}

// find is the case that a script means.
func (l *labelling) find(g *given) (found *audit.Case, err error) {
	for i := range l.session.Cases {
		c := &l.session.Cases[i]
		switch {
		case c.ID != g.ID || g.Kind != "" && g.Kind != c.Kind:
		case found != nil:
			return nil, fmt.Errorf("%s is a %s and a %s: say which kind", g.ID, found.Kind, c.Kind)
		default:
			found = c
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%q is no case of the %s of %s", g.ID, l.Set, l.session.Week)
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
		v := l.session.Label(c, l.Blind)
		v.Note = all[i].Note
		if err := audit.Fill(v, l.Set, all[i].Answers); err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		if slices.ContainsFunc(todo, func(r ready) bool { return r.c == c }) {
			return fmt.Errorf("%s is labelled twice", c.ID)
		}
		if was := l.session.Mine(c); was != nil {
			for _, q := range audit.QuestionsOf(l.Set, c.Kind) {
				if q.Get(was) != q.Get(v) {
					return fmt.Errorf("%s has your label in record %d, which says otherwise of %s: the first counts", c.ID, was.Seq, q.Field)
				}
			}
		}
		todo = append(todo, ready{c, v})
	}
	for _, r := range todo {
		out, err := l.session.Put(l.a.ctx, r.c, r.v)
		if err != nil {
			return fmt.Errorf("%s: %w", r.c.ID, err)
		}
		if err := l.wrote(out); err != nil {
			return err
		}
	}
	return nil
}

// wrote prints what came of a label.
func (l *labelling) wrote(o *audit.Outcome) error {
	return l.a.print(o, func(w io.Writer) {
		what := o.Kind + " " + visible(o.ID)
		switch {
		case o.Event != nil:
			fmt.Fprintf(w, "%s: not written\n", what)
		case o.Written && o.Seq != nil:
			fmt.Fprintf(w, "%s: record %d\n", what, *o.Seq)
		case o.Written:
			fmt.Fprintf(w, "%s: written\n", what)
		case o.Seq != nil:
			fmt.Fprintf(w, "%s: labelled before, in record %d\n", what, *o.Seq)
		default:
			fmt.Fprintf(w, "%s: labelled before\n", what)
		}
	})
}

// asked is wrote of the case n, counted from 1, whose id may be hidden from who was
// asked.
func (l *labelling) asked(n int, c *audit.Case, o *audit.Outcome) error {
	if c.Hidden {
		o.ID, o.Kind = strconv.Itoa(n), "case"
	}
	return l.wrote(o)
}

// ask goes through the cases that the rater has not labelled yet, and writes each
// label before the next case is shown: whoever breaks off goes on there.
func (l *labelling) ask() error {
	in := bufio.NewReader(l.a.stdin)
	w := l.a.stderr // stdout is for what was written
	fmt.Fprintf(w, "%d cases of %s, drawn by the seed %s\n", len(l.session.Cases), l.session.Week, l.session.Seed)
	for i := range l.session.Cases {
		c := &l.session.Cases[i]
		if l.session.Mine(c) != nil {
			continue
		}
		fmt.Fprintf(w, "\ncase %d of %d\n", i+1, len(l.session.Cases))
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
		out, err := l.session.Put(l.a.ctx, c, v)
		if err != nil {
			return fmt.Errorf("case %d: %w", i+1, err)
		}
		if err := l.asked(i+1, c, out); err != nil {
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
	text, err := l.session.Text(c)
	if text != "" {
		fmt.Fprintf(w, "%s\n", visible(text))
	}
	return err
}

// serve asks on pages until it is stopped.
func (l *labelling) serve() error {
	addr, err := node.ListenAddress(l.Listen, false)
	if err != nil {
		return usageError("--listen: %w", err)
	}
	return servePages(l.a, addr, func(addr, key string) (http.Handler, error) {
		return ui.NewLabelling(ui.LabelConfig{Session: l.session, Addr: addr, Key: key, Wrote: l.asked, Log: l.a.log})
	}, "who has it labels as "+l.As)
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
	v, before, followed := l.session.Label(c, true), "", false
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
