package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/events/detector"
	"assay/events/publish"
	"assay/internal/durable"
	"assay/internal/principal"
	"assay/internal/stats"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/projector"
	"assay/projector/metric"
)

type detectCmd struct {
	Run    detectRunCmd    `cmd:"" default:"withargs" help:"Read transcripts and tell the ledger which turns hold an opportunity to reason about causes."`
	Serve  detectServeCmd  `cmd:"" help:"Take turns from agents and dispatchers over the broker, and tell the ledger of them."`
	Send   detectSendCmd   `cmd:"" help:"Send transcripts to a detector that serves."`
	Train  detectTrainCmd  `cmd:"" help:"Learn the detector's weights from labelled turns."`
	Label  detectLabelCmd  `cmd:"" help:"Label a sample of detected turns and others in the terminal, without seeing the verdict."`
	Report detectReportCmd `cmd:"" help:"Say how good the detector is: precision and recall from labels, by version."`
}

type weightsFlag struct {
	Weights string `help:"File of weights that train wrote. Default: those of this build." type:"existingfile" placeholder:"FILE"`
}

func (f weightsFlag) detector() (*detector.Detector, error) {
	if f.Weights == "" {
		return detector.Default()
	}
	raw, err := os.ReadFile(f.Weights)
	if err != nil {
		return nil, err
	}
	d, err := detector.New(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Weights, err)
	}
	return d, nil
}

// tellFlags are what telling the ledger of turns takes.
type tellFlags struct {
	weightsFlag
	As       string `help:"Detector in whose name it is told." default:"detector/main" placeholder:"ROLE/NAME"`
	State    string `help:"Directory that keeps which turns were told of, and the salt of their hashes. Default: DIR/detect/NAME." type:"path" placeholder:"DIR"`
	Texts    string `help:"Keep the text of each turn in DIR/ID.txt, for whoever labels them." type:"existingdir" placeholder:"DIR"`
	NATS     string `name:"nats" help:"Publish to the broker at this address." placeholder:"URL"`
	CredsDir string `help:"Directory with the credential of --as, for --nats." type:"path" placeholder:"DIR"`
	NKey     string `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
}

func (c *tellFlags) check() error {
	switch role, _, err := principal.ParseID(c.As); {
	case err != nil:
		return usageError("%w", err)
	case role != principal.Detector:
		return usageError("only a detector tells of opportunities, not %s", c.As)
	}
	return nil
}

// open connects the detector and takes its state up, what an earlier run left included.
func (c *tellFlags) open(a *app) (t *detector.Teller, nc *nats.Conn, done func(), err error) {
	if c.NATS != "" && c.State == "" {
		return nil, nil, nil, usageError("--nats needs --state: without it the state stands in DIR")
	}
	d, err := c.detector()
	if err != nil {
		return nil, nil, nil, err
	}
	if c.State == "" {
		if err := a.dir.Check(); err != nil {
			return nil, nil, nil, err
		}
		_, name, _ := strings.Cut(c.As, "/")
		c.State = filepath.Join(string(a.dir), "detect", name)
	}
	if nc, err = (&emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}).conn(a); err != nil {
		return nil, nil, nil, err
	}
	client := publish.New(nc, c.As)
	t, err = detector.Open(detector.Config{
		Detector: d, Dir: c.State, Author: c.As, Keep: c.keep(),
		Publish: func(ctx context.Context, event []byte) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			_, err := client.Publish(ctx, event)
			if r, ok := errors.AsType[*publish.Refusal](err); ok && r.Code == string(logger.CodeConflict) {
				a.log.Warn().Str("as", c.As).Msg("a turn was told of before in other bytes: is the state that " + c.State + " has the detector's own?")
				return detector.ErrTold
			}
			return err
		},
	})
	if errors.Is(err, durable.ErrLocked) {
		err = fmt.Errorf("another detector holds %s: %w", c.State, err)
	}
	if err != nil {
		nc.Close()
		return nil, nil, nil, err
	}
	done = func() {
		_ = t.Close()
		nc.Close()
	}
	if err := t.Resume(a.ctx); err != nil {
		done()
		return nil, nil, nil, err
	}
	return t, nc, done, nil
}

// keep writes texts for raters, if anybody wants them.
func (c *tellFlags) keep() func(id string, t detector.Turn) error {
	if c.Texts == "" {
		return nil
	}
	return func(id string, t detector.Turn) error {
		return os.WriteFile(filepath.Join(c.Texts, url.PathEscape(id)+".txt"), []byte(t.Text), 0o600)
	}
}

// print says what was told.
func (c *tellFlags) print(a *app, t *detector.Teller) error {
	out := detected{t.Detector.Version(), t.Scanned, t.Opportunities, t.Known, t.Unscanned, t.Sent}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d turns scanned, %d opportunities; %d turns known, %d not scanned; %d events sent\n",
			out.DetectorVersion, out.Scanned, out.Opportunities, out.Known, out.Unscanned, out.Sent)
	})
}

// transcripts are files, or stdin.
type transcripts struct {
	Files  []string `arg:"" optional:"" name:"file" help:"Transcripts. Default: stdin." type:"existingfile"`
	Format string   `help:"How the transcripts are written: turns (one JSON object a line), claude-code or messages (an array of role and content)." default:"turns" enum:"turns,claude-code,messages"`
}

type detectRunCmd struct {
	tellFlags
	transcripts
	DryRun bool `help:"Print what is said of each turn; publish nothing and keep nothing."`
}

// judged is what is said of a turn.
type judged struct {
	Episode     string  `json:"episode"`
	TurnID      string  `json:"turn_id"`
	ID          string  `json:"id"` // in the ledger
	Opportunity bool    `json:"opportunity"`
	Kind        string  `json:"kind,omitzero"`
	Score       float64 `json:"score"` // [0, 1]
	// Span is the bytes of the sentence that the verdict rests on; null without one.
	Span *[2]int `json:"span"`
}

// detected is what a run did.
type detected struct {
	DetectorVersion string `json:"detector_version"`
	Scanned         int64  `json:"scanned"`
	Opportunities   int64  `json:"opportunities"`
	Known           int64  `json:"known"`     // told of before
	Unscanned       int64  `json:"unscanned"` // of tools and system prompts
	Sent            int64  `json:"sent"`      // events
}

func (c *detectRunCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.DryRun {
		d, err := c.detector()
		if err != nil {
			return err
		}
		return c.read(a, func(t detector.Turn) error { return show(a, d, t) })
	}
	teller, _, done, err := c.open(a)
	if err != nil {
		return err
	}
	defer done()
	err = c.read(a, func(t detector.Turn) error {
		_, err := teller.Add(a.ctx, t)
		return err
	})
	if err == nil {
		err = teller.Flush(a.ctx)
	}
	if err != nil {
		return err
	}
	return c.print(a, teller)
}

// read calls fn for each turn of the transcripts.
func (c *transcripts) read(a *app, fn func(detector.Turn) error) error {
	each := func(t detector.Turn) error {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		return fn(t)
	}
	if len(c.Files) == 0 {
		return detector.Read(a.stdin, c.Format, "stdin", each)
	}
	for _, path := range c.Files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = detector.Read(f, c.Format, filepath.Base(path), each)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func show(a *app, d *detector.Detector, t detector.Turn) error {
	role, err := detector.ParseRole(t.Role)
	if err != nil || role == detector.RoleTool {
		return err
	}
	v := d.Judge(role, t.Text)
	out := judged{t.Episode, t.ID, detector.Name(t, v.Opportunity), v.Opportunity, v.Kind, float64(v.Score) / 1e6, nil}
	if v.End > v.Start {
		out.Span = &[2]int{v.Start, v.End}
	}
	return a.print(out, func(w io.Writer) {
		kind := out.Kind
		if kind == "" {
			kind = "-"
		}
		fmt.Fprintf(w, "%-12s %.3f  %s %s  %s\n", kind, out.Score, visible(t.Episode), visible(t.ID), visible(strings.Join(strings.Fields(t.Text[v.Start:v.End]), " ")))
	})
}

type detectServeCmd struct {
	tellFlags
	Wait time.Duration `help:"How long turns are gathered before they are told of in one batch." default:"1s"`
}

func (c *detectServeCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Wait <= 0 {
		return usageError("--wait must be positive")
	}
	teller, nc, done, err := c.open(a)
	if err != nil {
		return err
	}
	defer done()
	queue := detector.NewQueue()
	_, err = nc.Subscribe("transcript.>", func(m *nats.Msg) {
		queue.Put(detector.Message{ // which never waits, so that the broker drops nothing
			Principal: strings.Replace(strings.TrimPrefix(m.Subject, "transcript."), ".", "/", 1), Data: m.Data,
			Respond: func(answer detector.Answer) {
				body, err := json.Marshal(answer)
				if err == nil && m.Reply != "" {
					err = m.Respond(body)
				}
				if err != nil {
					a.log.Warn().Err(err).Str("subject", m.Subject).Msg("a sender was not answered and sends again")
				}
			},
		})
	})
	if err == nil {
		err = errors.Join(nc.Flush(), nc.LastError()) // the broker may not let it hear
	}
	if err == nil {
		err = detector.Serve(a.ctx, teller, queue, c.Wait)
	}
	if err != nil && a.ctx.Err() == nil {
		return err
	}
	return c.print(a, teller)
}

type detectSendCmd struct {
	transcripts
	To       string        `help:"Detector that serves." default:"detector/main" placeholder:"ROLE/NAME"`
	As       string        `help:"Agent or dispatcher whose turns they are." default:"agent/piper" placeholder:"ROLE/NAME"`
	NATS     string        `name:"nats" help:"Send to the broker at this address." placeholder:"URL"`
	CredsDir string        `help:"Directory with the credential of --as, for --nats." type:"path" placeholder:"DIR"`
	NKey     string        `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
	Timeout  time.Duration `help:"How long to wait for an answer to one message." default:"30s"`
}

// A message has so many turns and bytes at most.
const (
	sendTurns = 64
	sendBytes = 1 << 20
)

// sent is what became of the turns of transcripts.
type sent struct {
	detector.Answer
	// TooLarge are turns that no message of the broker can hold, and were not sent.
	TooLarge int64 `json:"too_large"`
}

func (c *detectSendCmd) Run(a *app) error {
	role, _, err := principal.ParseID(c.As)
	to, name, toErr := principal.ParseID(c.To)
	switch {
	case err != nil || toErr != nil:
		return usageError("%w", errors.Join(err, toErr))
	case role != principal.Agent && role != principal.Dispatcher:
		return usageError("agents and dispatchers send turns, not %s", c.As)
	case to != principal.Detector:
		return usageError("turns go to a detector, not to %s", c.To)
	case c.Timeout <= 0:
		return usageError("--timeout must be positive")
	}
	nc, err := (&emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}).conn(a)
	if err != nil {
		return err
	}
	defer nc.Close()
	var total sent
	var turns []jsontext.Value
	size := 0
	send := func() error {
		if len(turns) == 0 {
			return nil
		}
		answer, err := c.send(a, nc, name, turns)
		total.Scanned, total.Known, total.Unscanned = total.Scanned+answer.Scanned, total.Known+answer.Known, total.Unscanned+answer.Unscanned
		turns, size = nil, 0
		return err
	}
	err = c.read(a, func(t detector.Turn) error {
		raw, err := json.Marshal(t)
		if err != nil {
			return err
		}
		if int64(len(raw)) > nc.MaxPayload()-2 { // in an array
			a.log.Warn().Str("episode", t.Episode).Str("turn", t.ID).Int("bytes", len(raw)).Msg("the turn is larger than a message of the broker")
			total.TooLarge++
			return nil
		}
		if len(turns) == sendTurns || size+len(raw) > sendBytes {
			if err := send(); err != nil {
				return err
			}
		}
		turns, size = append(turns, raw), size+len(raw)
		return nil
	})
	if err == nil {
		err = send()
	}
	if err != nil {
		return err
	}
	err = a.print(total, func(w io.Writer) {
		fmt.Fprintf(w, "%d turns scanned; %d known, %d not scanned\n", total.Scanned, total.Known, total.Unscanned)
	})
	if err == nil && total.TooLarge > 0 {
		err = fmt.Errorf("%d turns are larger than a message of the broker and were not sent: let the detector read the transcript", total.TooLarge)
	}
	return err
}

// send is one message and its answer.
func (c *detectSendCmd) send(a *app, nc *nats.Conn, to string, turns []jsontext.Value) (answer detector.Answer, err error) {
	body, err := json.Marshal(turns)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(a.ctx, c.Timeout)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, broker.TranscriptSubject(to), body)
	if errors.Is(err, nats.ErrNoResponders) {
		return answer, fmt.Errorf("%s does not serve: %w", c.To, err)
	}
	if err != nil {
		return answer, fmt.Errorf("the detector did not answer, send again: %w", err)
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return answer, fmt.Errorf("the detector's answer: %w", err)
	}
	if answer.Error != "" {
		return answer, fmt.Errorf("refused: %s", answer.Error)
	}
	return answer, nil
}

type detectTrainCmd struct {
	Turns string `arg:"" help:"Labelled turns, one JSON object a line: a turn with its label." type:"existingfile"`
	Out   string `help:"File to write the weights to." required:"" type:"path" placeholder:"FILE"`
}

// trained is what training came to.
type trained struct {
	DetectorVersion string    `json:"detector_version"`
	Turns           int       `json:"turns"`
	CrossChecked    qualified `json:"cross_checked"`
}

func (c *detectTrainCmd) Run(a *app) error {
	turns, err := readLabelled(c.Turns)
	if err != nil {
		return err
	}
	t, err := detector.Train(turns)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Turns, err)
	}
	raw, err := t.Weights.MarshalBinary()
	if err != nil {
		return err
	}
	d, err := detector.New(raw)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(c.Out, raw, 0o644); err != nil {
		return err
	}
	out := trained{d.Version(), len(turns), qualify(t.Checked)}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s of %d turns, in %s\n", out.DetectorVersion, out.Turns, visible(c.Out))
		fmt.Fprintln(w, "each tenth of them, judged by weights of the others:")
		out.CrossChecked.text(w)
	})
}

func readLabelled(path string) (turns []detector.Labelled, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = detector.ReadLabelled(f, func(l detector.Labelled) error { turns = append(turns, l); return nil })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return turns, nil
}

// qualified is a count of verdicts with the shares that it comes to; null where
// nothing can be shared out.
type qualified struct {
	detector.Quality
	Recall    ratio `json:"recall"`
	Precision ratio `json:"precision"`
	Kind      ratio `json:"kind"` // of the opportunities that were found
}

// ratio is a share with Wilson's 95 % interval.
type ratio struct {
	Num   int64    `json:"num"`
	Den   int64    `json:"den"`
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

func ratioOf(num, den int64) ratio {
	r := ratio{Num: num, Den: den}
	if iv, ok := stats.Wilson(float64(num), float64(den), stats.Z(0.05)); ok {
		value := float64(num) / float64(den)
		r.Value, r.Low, r.High = &value, &iv.Low, &iv.High
	}
	return r
}

func (r ratio) String() string {
	if r.Value == nil {
		return fmt.Sprintf("n/a (%d/%d)", r.Num, r.Den)
	}
	return fmt.Sprintf("%.3f (%d/%d), 95 %% from %.3f to %.3f", *r.Value, r.Num, r.Den, *r.Low, *r.High)
}

func qualify(q detector.Quality) qualified {
	return qualified{
		q, ratioOf(q.TruePositive, q.TruePositive+q.FalseNegative), ratioOf(q.TruePositive, q.TruePositive+q.FalsePositive), ratioOf(q.Kinds, q.TruePositive),
	}
}

func (q qualified) text(w io.Writer) {
	fmt.Fprintf(w, "  recall     %s\n  precision  %s\n  kind       %s\n", q.Recall, q.Precision, q.Kind)
}

type detectLabelCmd struct {
	evidenceFlags
	Week      string `help:"ISO week, such as 2026-W48. Default: the last one that was closed." placeholder:"WEEK"`
	Namespace string `help:"Namespace of the sample." default:"production"`
	As        string `help:"Rater: the operator in whose name the labels are written." default:"operator/main" placeholder:"ROLE/NAME"`
	NKey      string `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
	Texts     string `help:"Directory with the texts of the turns, as run --texts kept them." required:"" type:"existingdir" placeholder:"DIR"`
	DryRun    bool   `help:"Print the events; publish nothing."`
}

// Run labels the sample of the detector's set, as audit label does.
func (c *detectLabelCmd) Run(a *app) error {
	return (&auditLabelCmd{
		auditFlags: auditFlags{evidenceFlags: c.evidenceFlags, Week: c.Week, Namespace: c.Namespace, Set: metric.SetDetector},
		As:         c.As, NKey: c.NKey, Texts: c.Texts, DryRun: c.DryRun,
	}).Run(a)
}

type detectReportCmd struct {
	weightsFlag
	Week      string `help:"Count what is of this closed ISO week, such as 2026-W48. Default: all of the ledger." placeholder:"WEEK"`
	Namespace string `help:"Namespace to count in." default:"production"`
	Labelled  string `help:"Judge these labelled turns, one JSON object a line, instead of reading the ledger." type:"existingfile" placeholder:"FILE"`
}

// assessed is how well a detector does on labelled turns.
type assessed struct {
	DetectorVersion string `json:"detector_version"`
	Turns           int    `json:"turns"`
	qualified
}

func (c *detectReportCmd) Run(a *app) error {
	switch {
	case c.Labelled != "" && c.Week != "":
		return usageError("--labelled reads no ledger, and so has no --week")
	case c.Labelled != "":
		return c.assess(a)
	case c.Weights != "":
		return usageError("--weights is for --labelled: what the ledger holds was judged already")
	case !ledger.IsNamespace(c.Namespace):
		return usageError("%q is no namespace", c.Namespace)
	}
	if err := checkWeek(c.Week); err != nil {
		return err
	}
	out, err := ofViews(a, "/detector", url.Values{"namespace": {c.Namespace}, "week": {c.Week}}, func(s *projector.State) (*metric.Detection, error) {
		return metric.Detect(s, c.Namespace, c.Week)
	})
	if errors.Is(err, node.ErrNoWeek) || errors.Is(err, node.ErrNotFound) {
		return notCompared(err)
	}
	if err != nil {
		return err
	}
	if err := a.print(out, func(w io.Writer) { detectionText(w, out) }); err != nil {
		return err
	}
	if out.All.Precision.Value == nil && out.All.Recall.Value == nil {
		return &exitError{code: exitNotCompare}
	}
	return nil
}

func (c *detectReportCmd) assess(a *app) error {
	d, err := c.detector()
	if err != nil {
		return err
	}
	turns, err := readLabelled(c.Labelled)
	if err != nil {
		return err
	}
	q, err := d.Assess(turns)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Labelled, err)
	}
	out := assessed{d.Version(), len(turns), qualify(q)}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s on %d labelled turns\n", out.DetectorVersion, out.Turns)
		out.text(w)
	})
}

func detectionText(w io.Writer, d *metric.Detection) {
	of := "all records"
	if d.Week != "" {
		of = d.Week
	}
	fmt.Fprintf(w, "%s, %s, as of record %d\n", d.Namespace, of, d.At.Seq)
	for _, q := range slices.Concat([]metric.DetectorQuality{d.All}, d.Versions, d.Components) {
		name := "all versions"
		switch {
		case q.Version != "":
			name = q.Version
		case q.Component != "":
			name = "component " + q.Component
		}
		fmt.Fprintf(w, "\n%s\n  scanned    %d turns in %d scans", visible(name), q.Turns, q.Scans)
		if q.Inconsistent > 0 {
			fmt.Fprintf(w, "; %d scans contradict themselves and are left out", q.Inconsistent)
		}
		fmt.Fprintln(w)
		for _, s := range q.Strata {
			fmt.Fprintf(w, "    %-20s %d turns, %d with an opportunity\n", visible(s.Stratum), s.Turns, s.Positive)
		}
		fmt.Fprintf(w, "  detected   %d opportunities, %d labelled, %d of them rightly\n", q.Detected.Population, q.Detected.Labelled, q.Detected.Eligible)
		fmt.Fprintf(w, "  undetected %d turns, %d labelled, %d of them wrongly\n", q.Undetected.Population, q.Undetected.Labelled, q.Undetected.Eligible)
		fmt.Fprintf(w, "  precision  %s\n  recall     %s\n", shareText(q.Precision), shareText(q.Recall))
		if q.Caveat != "" {
			fmt.Fprintf(w, "  caveat     %s\n", q.Caveat)
		}
	}
}

func shareText(s metric.Share) string {
	if s.Value == nil {
		return "n/a: " + s.Why
	}
	return fmt.Sprintf("%.3f, 95 %% from %.3f to %.3f", *s.Value, *s.Low, *s.High)
}
