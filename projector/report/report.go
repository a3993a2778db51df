// Package report puts together what a closed week comes to, for one page: the blocks
// of C9's weekly report and the lines of C8's, and the three questions.
//
// Build reads the views and is pure: the same ledger up to one record gives the same
// report, to the byte. Report is the report; HTML and Markdown show what stands in it.
// No figure is computed here: each is the value of a metric of the catalogue, named by
// it, and Explain of that metric gives the same.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/view"
)

// Version changes whenever a report of the same views would change, or its form.
const Version = 1

// Report is a week of one namespace.
type Report struct {
	V         int    `json:"v"` // Version
	Namespace string `json:"namespace"`
	Week      Week   `json:"week"`
	LastWeek  *Week  `json:"last_week"` // the calendar week before; null where the ledger closed none
	// At is the record that every figure is computed at, with the versions of the views.
	At metric.Place `json:"at"`
	// Catalogue is metric.CatalogueVersion, Scorer metric.Version.
	Catalogue int      `json:"catalogue"`
	Scorer    int      `json:"scorer"`
	Repair    []string `json:"repair,omitzero"` // tools of class repair, as they were named
	// Checkpoint is the last one that counts; null where there is none.
	Checkpoint *Checkpoint `json:"checkpoint"`
	Cap        Cap         `json:"cap"`
	Blocks     []Block     `json:"blocks"`
	// Reliability is what happened at each stated probability, over the whole ledger.
	Reliability []metric.Bin `json:"reliability"`
	Trend       []Point      `json:"trend"` // closed weeks up to this one, the oldest first
	// Runs are the latest run of each split.
	Runs      []Run      `json:"runs"`
	Questions []Question `json:"questions"`
}

// Week is a closed week: [Start, End), records From up to but not Closed.
type Week struct {
	ID     string     `json:"id"`   // ISO 8601, such as 2026-W48
	Zone   string     `json:"zone"` // IANA, of week.closed
	Start  string     `json:"start"`
	End    string     `json:"end"`
	Hours  float64    `json:"hours"`  // 168 but where clocks change
	From   ledger.Seq `json:"from"`   // first record
	Closed ledger.Seq `json:"closed"` // week.closed, the first record of a later week
	Leaf   string     `json:"leaf"`   // hex, of that record
}

// Checkpoint is what the ledger's key signed.
type Checkpoint struct {
	Size uint64 `json:"size"`
	Root string `json:"root"` // hex
	Note string `json:"note"` // the signed note, as it stands
	// Covers says that every record behind the report is in it.
	Covers bool `json:"covers"`
}

// Cell is a number in one column of a figure.
type Cell struct {
	metric.Number
	// NotAvailable says why there is no value; else it is empty.
	NotAvailable string `json:"not_available,omitzero"`
}

// Figure is a metric, or a group of one.
type Figure struct {
	Metric   string      `json:"metric"`
	Group    string      `json:"group,omitzero"`
	Question string      `json:"question"`
	Kind     metric.Kind `json:"kind"`
	Form     metric.Form `json:"form"`
	Unit     string      `json:"unit"`
	Per      int64       `json:"per"`       // counts are in 1/Per of the unit
	Week     Cell        `json:"week"`      // items of the week
	LastWeek *Cell       `json:"last_week"` // of the week before; null where the ledger closed none
	All      Cell        `json:"all"`       // of the whole ledger up to At
}

// Block is a part of the page.
type Block struct {
	Title   string   `json:"title"`
	Of      []string `json:"of"` // the blocks and lines of the requirements that it is
	Figures []Figure `json:"figures"`
	Notes   []string `json:"notes,omitzero"`
}

// Point is a week of the figures over time.
type Point struct {
	Week     string        `json:"week"`
	Coverage metric.Number `json:"claim_resolution_coverage"`
	Cost     metric.Number `json:"cost"`
}

// Run is the latest run of a split by its manifest.
type Run struct {
	Split        string     `json:"split"`
	RunID        string     `json:"run_id"`
	Arm          string     `json:"arm"`
	Seq          ledger.Seq `json:"seq"`
	RecordedAt   string     `json:"recorded_at"`
	BenchVersion *string    `json:"bench_version"`
	Model        *string    `json:"model"`
	ModelVersion *string    `json:"model_version"`
	Subject      *string    `json:"subject_commit"`
	Scorer       *string    `json:"scorer_sha256"`
	Isolation    string     `json:"isolation"`
}

// Config says what to report on.
type Config struct {
	Namespace string   // "" is metric.DefaultNamespace
	Week      string   // "" is the last that the ledger closed
	Repair    []string // names of the tools of class repair
}

// weeksShown is how many weeks the figures over time go back.
const weeksShown = 12

// Build computes a report from views that stand at one record. metric.ErrNoWeek means
// that the ledger closed no such week; the report has no Checkpoint yet.
func Build(s *projector.State, c Config) (*Report, error) {
	b, err := newBuilder(s, c)
	if err == nil {
		err = b.build()
	}
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.out, nil
}

// Sign notes a checkpoint; nil is none.
func (r *Report) Sign(cp *ledger.SignedCheckpoint) {
	r.Checkpoint = nil
	if cp != nil {
		r.Checkpoint = &Checkpoint{cp.Size, cp.Root.String(), string(cp.Raw), cp.Size >= uint64(r.At.Seq)}
	}
}

// Encode is the report as indented JSON with a final newline.
func (r *Report) Encode() ([]byte, error) {
	data, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent(" "))
	return append(data, '\n'), err
}

type builder struct {
	state     *projector.State
	namespace string
	options   metric.Options // of the week
	closed    []view.Week    // in the order of records
	out       *Report

	week, all map[string]*metric.Explanation // by metric
	last      map[string]*metric.Explanation // nil where the ledger did not close the week before
	catalogue map[string]metric.Metric
}

func newBuilder(s *projector.State, c Config) (*builder, error) {
	b := &builder{state: s, namespace: c.Namespace, catalogue: map[string]metric.Metric{}}
	if b.namespace == "" {
		b.namespace = metric.DefaultNamespace
	}
	for _, m := range metric.Catalogue() {
		b.catalogue[m.Name] = m
	}
	err := view.ListWeeks(s, func(w *view.Week) error { b.closed = append(b.closed, *w); return nil })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(b.closed, func(x, y view.Week) int { return cmp.Compare(x.Seq, y.Seq) })
	if c.Week == "" {
		if len(b.closed) == 0 {
			return nil, fmt.Errorf("%w: no week of it is over", metric.ErrNoWeek)
		}
		c.Week = b.closed[len(b.closed)-1].Week
	}
	week, err := b.weekOf(c.Week)
	if err != nil {
		return nil, err
	}
	b.options = metric.Options{Week: c.Week, Repair: c.Repair}
	b.out = &Report{
		V: Version, Namespace: b.namespace, Week: *week, Catalogue: metric.CatalogueVersion, Scorer: metric.Version, Repair: c.Repair,
		Trend: []Point{}, Runs: []Run{},
	}
	before, err := WeekBefore(c.Week)
	if err != nil {
		return nil, err
	}
	b.out.LastWeek, err = b.weekOf(before)
	if errors.Is(err, metric.ErrNoWeek) {
		err = nil
	}
	return b, err
}

// weekOf is a closed week.
func (b *builder) weekOf(id string) (*Week, error) {
	from := ledger.Seq(1)
	for _, w := range b.closed {
		if w.Week == id {
			return &Week{
				ID: w.Week, Zone: w.Zone, Start: w.Start.Format(time.RFC3339Nano), End: w.End.Format(time.RFC3339Nano), Hours: w.End.Sub(w.Start).Hours(),
				From: from, Closed: w.Seq, Leaf: w.Leaf,
			}, nil
		}
		from = w.Seq
	}
	return nil, fmt.Errorf("%w: %s", metric.ErrNoWeek, id)
}

func (b *builder) build() error {
	steps := []func() error{b.values, b.capped, b.blocks, b.reliability, b.trend, b.runs, b.questions}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// values computes what the page shows: of the week, of the one before, and of all.
func (b *builder) values() (err error) {
	names := shownMetrics()
	of := func(week string) map[string]*metric.Explanation {
		if err != nil {
			return nil
		}
		o := b.options
		o.Week = week
		var values []*metric.Explanation
		values, err = metric.Values(b.state, b.namespace, o, names...)
		out := map[string]*metric.Explanation{}
		for _, e := range values {
			out[e.Metric] = e
		}
		return out
	}
	b.week, b.all = of(b.out.Week.ID), of("")
	if b.out.LastWeek != nil {
		b.last = of(b.out.LastWeek.ID)
	}
	if err == nil {
		b.out.At = b.all[coverageMetric].At
	}
	return err
}

// coverageMetric caps every figure that rests on outcomes (C9).
const coverageMetric = "claim_resolution_coverage"

// figures are the rows of a metric: itself, and its groups if they are shown; the groups
// alone where they are no parts of one number.
func (b *builder) figures(name string) (out []Figure) {
	m := b.catalogue[name]
	var groups []string
	if m.Apart || slices.Contains(grouped, name) {
		groups = b.groups(name)
	}
	if !m.Apart || len(groups) == 0 {
		groups = slices.Insert(groups, 0, "")
	}
	for _, g := range groups {
		f := Figure{
			Metric: name, Group: g, Question: m.Question, Kind: m.Kind, Form: m.Form, Unit: m.Unit, Per: m.Per,
			Week: cellOf(b.week[name], g), All: cellOf(b.all[name], g),
		}
		if b.last != nil {
			c := cellOf(b.last[name], g)
			f.LastWeek = &c
		}
		out = append(out, f)
	}
	return out
}

// groups are those that a metric has in any column.
func (b *builder) groups(name string) (groups []string) {
	for _, from := range []map[string]*metric.Explanation{b.week, b.last, b.all} {
		if from == nil {
			continue
		}
		for _, g := range from[name].Groups {
			if !slices.Contains(groups, g.Name) {
				groups = append(groups, g.Name)
			}
		}
	}
	slices.SortFunc(groups, compareGroups)
	return groups
}

// compareGroups puts the comparisons that questions are bound to first, then those with
// A2 and A9 (C9, Bench), then the others by name.
func compareGroups(x, y string) int {
	order := []string{": A2 − A1", ": A10 − A9", minus + "A2", minus + "A9"}
	rank := func(group string) int {
		i := slices.IndexFunc(order, func(end string) bool { return strings.HasSuffix(group, end) })
		if i < 0 {
			i = len(order)
		}
		return i
	}
	return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
}

func cellOf(e *metric.Explanation, group string) Cell {
	c := Cell{Number: e.Of(group)}
	if c.Value != nil {
		return c
	}
	switch {
	case group == "" && e.Why != "":
		c.NotAvailable = e.Why
	case c.Denominator != nil && *c.Denominator == 0:
		c.NotAvailable = "0 of 0"
	case c.Denominator == nil && len(c.Excluded) > 0:
		c.NotAvailable = "not known"
	case c.Denominator == nil:
		c.NotAvailable = "no record"
	default:
		c.NotAvailable = "a part of it is not known"
	}
	for _, why := range sortedKeys(c.Excluded) {
		c.NotAvailable += fmt.Sprintf("; left out: %s %d", why, c.Excluded[why])
	}
	return c
}

func (b *builder) reliability() error {
	b.out.Reliability = metric.Reliability(b.all["stated_probability"], b.all["observed_share"])
	return nil
}

func (b *builder) trend() error {
	var weeks []string
	for _, w := range b.closed {
		if w.Seq <= b.out.Week.Closed {
			weeks = append(weeks, w.Week)
		}
	}
	for _, week := range weeks[max(0, len(weeks)-weeksShown):] {
		values, err := metric.Values(b.state, b.namespace, metric.Options{Week: week}, coverageMetric, "cost")
		if err != nil {
			return err
		}
		b.out.Trend = append(b.out.Trend, Point{week, values[0].Number, values[1].Number})
	}
	return nil
}

func (b *builder) runs() error {
	all, err := metric.RunsOf(b.state, b.namespace)
	if err != nil {
		return err
	}
	latest := map[string]*view.Run{}
	for i := range all {
		r := &all[i]
		split := r.Started.Manifest.Split
		if latest[split] == nil || latest[split].Started.Seq < r.Started.Seq {
			latest[split] = r
		}
	}
	for _, split := range sortedKeys(latest) {
		r, m := latest[split], latest[split].Started.Manifest
		b.out.Runs = append(b.out.Runs, Run{
			Split: split, RunID: r.RunID, Arm: m.Arm, Seq: r.Started.Seq, RecordedAt: ledger.FormatTime(r.Started.RecordedAt),
			BenchVersion: m.BenchVersion, Model: m.Model, ModelVersion: m.ModelVersion, Subject: m.SubjectCommit, Scorer: m.ScorerSHA256,
			Isolation: r.Isolation,
		})
	}
	return nil
}
