package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/report"
)

type scoreCmd struct {
	evidenceFlags
	Namespace string `help:"Namespace to score." default:"production"`
	At        string `help:"Score as of a record, a time (RFC 3339, or a day for its end in UTC) or the end of a closed week: replayed, from the nearest snapshot on." placeholder:"SEQ|TIME|WEEK"`
	Against   string `help:"Say what changed since a snapshot (record number, name, path or latest), and which records did it." placeholder:"SNAPSHOT"`
	Check     string `help:"Compute a score that score --json printed again, from the ledger, and compare." type:"existingfile" placeholder:"FILE"`
	Replay    bool   `help:"Begin at record 1, whatever snapshots there are."`
	Steps     int    `help:"With --against: how often to score at most. Beyond as many records, causes are ranges of records." default:"1000" placeholder:"N"`
}

func (c *scoreCmd) Run(a *app) error {
	switch {
	case !ledger.IsNamespace(c.Namespace):
		return usageError("%q is no namespace", c.Namespace)
	case c.Steps < 1:
		return usageError("--steps is %d", c.Steps)
	case c.Check != "" && (c.At != "" || c.Against != ""):
		return usageError("--check takes record and namespace from the file")
	case c.Check != "":
		return c.check(a)
	case c.Against != "":
		return c.against(a)
	case c.At != "":
		return c.at(a)
	case c.evidenceFlags != evidenceFlags{} || c.Replay:
		return usageError("what is read from elsewhere is replayed: give --at, --against or --check")
	}
	return c.live(a)
}

// live scores the views as they stand.
func (c *scoreCmd) live(a *app) error {
	score, err := ofViews(a, "/score", url.Values{"namespace": {c.Namespace}}, func(s *projector.State) (*metric.Score, error) {
		return metric.Compute(s, c.Namespace)
	})
	if err != nil {
		return err
	}
	return a.printScore(scored{Score: score})
}

func (a *app) printScore(out scored) error {
	if anchor, err := node.LoadAnchor(node.AnchorConfig{Dir: a.dir}); err == nil && len(anchor.Signed) > 0 {
		out.CheckpointSize = &anchor.Signed[0].Size
	}
	return a.print(out, func(w io.Writer) {
		_, _ = io.WriteString(w, visible(out.Text()))
		out.printSigned(w)
	})
}

// scored says beside a score how much of what it rests on is signed: views may
// run ahead of the last checkpoint.
type scored struct {
	*metric.Score
	CheckpointSize *uint64 `json:"checkpoint_size"` // null without a readable checkpoint
	// ComputedFrom is where a replay began; absent for the live views.
	ComputedFrom string `json:"computed_from,omitzero"`
}

func (s scored) printSigned(w io.Writer) {
	switch seq := uint64(s.Inputs.Seq); {
	case s.CheckpointSize == nil:
		fmt.Fprintf(w, "%-22s no checkpoint was found to hold these records against\n", "signed")
	case *s.CheckpointSize < seq:
		fmt.Fprintf(w, "%-22s up to record %d; the last %d that this score rests on are not yet\n", "signed", *s.CheckpointSize, seq-*s.CheckpointSize)
	default:
		fmt.Fprintf(w, "%-22s every record that this score rests on\n", "signed")
	}
	if s.ComputedFrom != "" {
		fmt.Fprintf(w, "%-22s from %s\n", "replayed", s.ComputedFrom)
	}
}

// fold opens the ledger and says where to fold it to.
func (c *scoreCmd) fold(a *app) (node.FoldConfig, func(), error) {
	e, err := c.open(a)
	if err != nil {
		return node.FoldConfig{}, nil, notCompared(err)
	}
	f := node.FoldConfig{Evidence: e, Log: a.log}
	if !c.Replay && a.dir.Check() == nil {
		f.Snapshots = a.dir.Snapshots()
	}
	return f, func() { _ = e.Close() }, nil
}

func (c *scoreCmd) at(a *app) error {
	point, err := parsePoint(c.At)
	if err != nil {
		return err
	}
	f, done, err := c.fold(a)
	if err != nil {
		return err
	}
	defer done()
	if f.To, err = point.find(a, f.Evidence); err != nil {
		return err
	}
	score, from, err := c.scoreAt(a, f, c.Namespace)
	if err != nil {
		return err
	}
	out := scored{Score: score, ComputedFrom: "record 1"}
	if from != nil {
		out.ComputedFrom = "snapshot " + from.Path
	}
	return a.printScore(out)
}

func (c *scoreCmd) scoreAt(a *app, f node.FoldConfig, namespace string) (*metric.Score, *projector.SnapshotInfo, error) {
	show, end := progress[ledger.Seq](a, "replaying")
	defer end()
	f.Progress = show
	score, from, err := node.ScoreAt(a.ctx, f, namespace)
	return score, from, foldError(err)
}

// foldError tells evidence that does not hold from such that cannot be read.
func foldError(err error) error {
	var broken *projector.LinkError
	if err == nil || errors.As(err, &broken) || errors.Is(err, projector.ErrSnapshot) {
		return err
	}
	return notCompared(err)
}

// point is a place in the ledger as a user names it.
type point struct {
	seq  ledger.Seq
	time time.Time
	week string
}

var daysPattern = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

func parsePoint(text string) (p point, err error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		return point{seq: ledger.Seq(n)}, nil
	}
	if report.CheckWeek(text) == nil {
		return point{week: text}, nil
	}
	if daysPattern.MatchString(text) {
		if p.time, err = time.Parse(time.DateOnly, text); err == nil {
			p.time = p.time.AddDate(0, 0, 1).Add(-1)
			return p, nil
		}
	}
	if p.time, err = time.Parse(time.RFC3339Nano, text); err == nil {
		return p, nil
	}
	return p, usageError("%q is no record number, no time such as 2026-11-30T12:00:00Z, no day and no week such as 2026-W48", text)
}

func (p point) find(a *app, e node.Evidence) (seq ledger.Seq, err error) {
	switch {
	case p.seq > 0:
		var head ledger.Seq
		if head, err = e.Head(a.ctx); err == nil && p.seq > head {
			err = fmt.Errorf("the ledger ends at record %d", head)
		}
		seq = p.seq
	case p.week != "":
		seq, err = node.SeqOfWeek(a.ctx, e, p.week)
	default:
		seq, err = node.SeqAt(a.ctx, e, p.time)
	}
	if err != nil {
		return 0, notCompared(err)
	}
	return seq, nil
}

// compared is a comparison with what was compared.
type compared struct {
	Snapshot projector.SnapshotInfo `json:"snapshot"`
	// Recomputed says that the snapshot was taken by another build's scorer: both
	// scores are this build's.
	Recomputed *string `json:"recomputed,omitzero"`
	*metric.Comparison
}

func (c *scoreCmd) against(a *app) error {
	snapshot, err := a.findSnapshot(c.Against)
	if err != nil {
		return err
	}
	var at point
	if c.At != "" {
		if at, err = parsePoint(c.At); err != nil {
			return err
		}
	}
	f, done, err := c.fold(a)
	if err != nil {
		return err
	}
	defer done()
	to, err := f.Evidence.Head(a.ctx)
	if c.At != "" {
		to, err = at.find(a, f.Evidence)
	}
	if err != nil {
		return notCompared(err)
	}
	f.To = snapshot.Manifest.Seq
	if to < f.To {
		return usageError("record %d is older than the snapshot, which is of %d", to, f.To)
	}
	show, end := progress[ledger.Seq](a, "scoring")
	defer end()
	f.Progress = show
	step := max(1, (int(to-f.To)+c.Steps-1)/c.Steps)
	got, err := node.CompareScores(a.ctx, f, to, step, c.Namespace)
	if err != nil {
		return foldError(err)
	}
	if got.From.Leaf != snapshot.Manifest.Leaf {
		return &exitError{exitDoesNot, fmt.Errorf("record %d is not the one that the snapshot stands at: it has leaf %s, the snapshot says %s", f.To, got.From.Leaf, snapshot.Manifest.Leaf)}
	}
	out := compared{Snapshot: snapshot, Comparison: got}
	if was := snapshot.Manifest.Scorer; was != metric.Version {
		out.Recomputed = ptr(fmt.Sprintf("the snapshot was taken by scorer %d; both scores are of scorer %d", was, metric.Version))
	}
	return a.print(out, out.text)
}

// fewCauses is how many causes of a figure the readable form names.
const fewCauses = 10

func (c compared) text(w io.Writer) {
	fmt.Fprintf(w, "namespace   %s, record %d to %d, by scorer %d\n", c.Namespace, c.From.Seq, c.To.Seq, c.V)
	if c.Recomputed != nil {
		fmt.Fprintf(w, "RECOMPUTED  %s\n", *c.Recomputed)
	}
	if len(c.Figures) == 0 {
		fmt.Fprintln(w, "unchanged   every figure is the same")
	}
	for _, f := range c.Figures {
		fmt.Fprintf(w, "\n%s: %s, now %s\n", f.Name, f.Before, f.After)
		for i, cause := range f.Causes {
			if i == fewCauses {
				fmt.Fprintf(w, "  and %d more\n", len(f.Causes)-i)
				break
			}
			which := fmt.Sprintf("record %d", cause.From)
			if cause.From != cause.To {
				which = fmt.Sprintf("records %d to %d", cause.From, cause.To)
			}
			fmt.Fprintf(w, "  %s %s: %s\n", which, visible(strings.Join(cause.Types, ", ")), cause.Value)
		}
	}
}

// scoreCheck says whether a score is the one that the ledger leads to; Match is
// null when it is of another scorer or of views of other versions.
type scoreCheck struct {
	Match       *bool      `json:"match"`
	Seq         ledger.Seq `json:"seq"`
	Namespace   string     `json:"namespace"`
	Scorer      int        `json:"scorer"` // that computed the file
	ThisScorer  int        `json:"this_scorer"`
	Other       []string   `json:"other"`       // what makes them incomparable
	Differences []string   `json:"differences"` // figures
}

func (c *scoreCmd) check(a *app) error {
	raw, err := os.ReadFile(c.Check)
	if err != nil {
		return notCompared(err)
	}
	var was metric.Score
	var head struct {
		V         int            `json:"v"`
		Namespace string         `json:"namespace"`
		Inputs    jsontext.Value `json:"inputs"`
	}
	err = json.Unmarshal(raw, &head)
	if err == nil {
		err = json.Unmarshal(head.Inputs, &was.Inputs)
	}
	if err == nil && was.Inputs.Seq == 0 {
		err = errors.New("it names no record")
	}
	if err != nil {
		return notCompared(fmt.Errorf("%s is no score that was printed with --json: %w", c.Check, err))
	}
	f, done, err := c.fold(a)
	if err != nil {
		return err
	}
	defer done()
	f.To = was.Inputs.Seq
	now, _, err := c.scoreAt(a, f, head.Namespace)
	if err != nil {
		return err
	}
	data, err := now.Encode()
	if err != nil {
		return err
	}
	out := scoreCheck{Seq: f.To, Namespace: head.Namespace, Scorer: head.V, ThisScorer: metric.Version, Other: []string{}}
	if head.V != metric.Version {
		out.Other = append(out.Other, fmt.Sprintf("it is of scorer %d, this build's is %d", head.V, metric.Version))
	}
	if got, want := fmt.Sprint(was.Inputs.Versions), fmt.Sprint(now.Inputs.Versions); got != want {
		out.Other = append(out.Other, fmt.Sprintf("it was computed from views %s, this build's are %s", got, want))
	}
	if out.Differences, err = metric.Differences(bytes.TrimSpace(raw), data); err != nil {
		return err
	}
	if was.Inputs.Leaf != now.Inputs.Leaf {
		out.Differences = append([]string{"inputs.leaf"}, out.Differences...)
	}
	match := len(out.Differences) == 0
	code := error(&exitError{code: exitNotCompare})
	if len(out.Other) == 0 {
		out.Match, code = &match, nil
		if !match {
			code = errDoesNotHold
		}
	}
	return errors.Join(a.print(out, out.text), code)
}

func (s scoreCheck) text(w io.Writer) {
	for _, o := range s.Other {
		fmt.Fprintf(w, "OTHER       %s\n", visible(o))
	}
	switch {
	case len(s.Differences) == 0:
		fmt.Fprintf(w, "match       the ledger leads to the same figures at record %d\n", s.Seq)
		return
	case s.Match == nil:
		fmt.Fprintf(w, "recomputed  at record %d these figures are others now:\n", s.Seq)
	default:
		fmt.Fprintf(w, "MISMATCH    at record %d the ledger leads to other figures:\n", s.Seq)
	}
	for _, d := range s.Differences {
		fmt.Fprintf(w, "  %s\n", visible(d))
	}
}
