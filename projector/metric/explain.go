package metric

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"assay/internal/kv"
	"assay/internal/stats"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

var (
	// ErrNoMetric means that the catalogue has no metric of this name.
	ErrNoMetric = errors.New("no such metric")
	// ErrNoWeek means that the logger closed no such week: it is not over, or held
	// no record.
	ErrNoWeek = errors.New("the ledger has closed no such week")
)

// Role says what a record is to a metric.
type Role string

// Roles of a record.
const (
	Numerator   Role = "numerator"
	Denominator Role = "denominator"
	Excluded    Role = "excluded"
)

// Record is a ledger record as a metric counted it: once for each role and item.
// The records in a role are what the number in that role is counted from.
type Record struct {
	Seq   ledger.Seq `json:"seq"`
	Type  string     `json:"type"`
	Role  Role       `json:"role"`
	Item  string     `json:"item"`           // id of what is counted: a claim, a call, an episode
	Group string     `json:"group,omitzero"` // of the item
	Count int64      `json:"count"`          // what the record adds, in the metric's Unit ÷ Per; 0 if excluded
	// Reason is why it is excluded; else empty.
	Reason string `json:"reason,omitzero"`
}

// Number is what the records of a metric, or of a group of its items, come to.
type Number struct {
	// Numerator is the sum of what the records in that role count; of a mean or a
	// quantile, of the values that it is of.
	Numerator int64 `json:"numerator"`
	// Denominator is the same of the other role, or how many values a mean or a
	// quantile is of; null for a count or a sum.
	Denominator *int64 `json:"denominator"`
	// Value is null where it is not available: 0 of 0, a sum or quantile of
	// nothing, or one of which a part is unknown that must be known.
	Value *float64 `json:"value"`
	// Low and High are the 95 % interval that the metric's method gives, or null.
	Low      *float64         `json:"low"`
	High     *float64         `json:"high"`
	Excluded map[string]int64 `json:"excluded,omitzero"` // records by reason
}

// Group is the number of the items of one group.
type Group struct {
	Name string `json:"name"`
	Number
}

// Explanation is the value of a metric over the views at one record.
type Explanation struct {
	V         int     `json:"v"` // CatalogueVersion
	Metric    string  `json:"metric"`
	Namespace string  `json:"namespace"`
	Week      string  `json:"week,omitzero"` // empty: all of the ledger
	Unit      string  `json:"unit"`
	Options   Options `json:"options"`
	At        struct {
		Seq        ledger.Seq          `json:"seq"`
		Leaf       string              `json:"leaf"`
		LedgerTime *string             `json:"ledger_time"` // null before the first record
		Versions   []projector.Version `json:"versions"`
	} `json:"at"`
	Number
	// Why says why a value is not available, or what to keep in mind with it.
	Why    string  `json:"why,omitzero"`
	Groups []Group `json:"groups"`
}

// Options are what a metric can be asked for beside its namespace.
type Options struct {
	// Week is a closed ISO week, such as 2026-W48: of the metric's items those are
	// counted whose first record is of the week by ledger time. Empty is all.
	Week string `json:"-"`
	// Repair names the tools of class repair: a call of one of them is a fix.
	Repair []string `json:"repair,omitzero"`
}

// Explain computes a metric and calls fn, if not nil, for each record behind it, in
// the order of the views. The views must stand at one record, else
// projector.ErrUneven. A namespace of "" is DefaultNamespace.
func Explain(s *projector.State, name, namespace string, o Options, fn func(Record) error) (*Explanation, error) {
	m, err := Find(name)
	if err != nil {
		return nil, err
	}
	if namespace == "" {
		namespace = DefaultNamespace
	}
	out := &Explanation{V: CatalogueVersion, Metric: m.Name, Namespace: namespace, Week: o.Week, Unit: m.Unit, Options: o}
	p := &pass{state: s, namespace: namespace, options: o, fn: fn, groups: map[string]*tally{}}
	p.all.keep = m.Form == FormMedian || m.Form == FormP95
	if err := p.stand(out); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := m.count(p); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out.Number, out.Why, out.Groups = m.number(&p.all), p.why, []Group{}
	for _, g := range slices.Sorted(maps.Keys(p.groups)) {
		out.Groups = append(out.Groups, Group{g, m.number(p.groups[g])})
	}
	return out, nil
}

// pass is one reading of the views for one metric: it is what both the value and
// the records behind it come from.
type pass struct {
	state     *projector.State
	namespace string
	options   Options
	from, to  ledger.Seq // records of the week: [from, to); to is 0 without one
	now       time.Time  // of the ledger
	imports   bool       // there are some
	fn        func(Record) error
	all       tally
	groups    map[string]*tally
	why       string
}

// stand notes where the views stand, and what the week's records are.
func (p *pass) stand(out *Explanation) error {
	seq, leaf, err := p.state.At()
	if err != nil {
		return err
	}
	l, err := p.state.Ledger()
	if err != nil {
		return err
	}
	p.now = l.Time
	out.At.Seq, out.At.Leaf = seq, leaf.String()
	if !l.Time.IsZero() {
		text := ledger.FormatTime(l.Time)
		out.At.LedgerTime = &text
	}
	for _, c := range p.state.Cursors() {
		out.At.Versions = append(out.At.Versions, projector.Version{Projection: c.Projection, Version: c.Version})
	}
	if p.imports, err = view.HasImports(p.state); err != nil {
		return err
	}
	return p.findWeek(p.options.Week)
}

// findWeek sets the records of a week. The record that closes a week is the first
// one of a later week, so that weeks by ledger time are ranges of records.
func (p *pass) findWeek(id string) error {
	if id == "" {
		return nil
	}
	week, err := view.GetWeek(p.state, id)
	if errors.Is(err, kv.ErrNotFound) {
		return fmt.Errorf("%w: %s", ErrNoWeek, id)
	}
	if err != nil {
		return err
	}
	p.to = week.Seq
	return view.ListWeeks(p.state, func(w *view.Week) error {
		if w.Seq < week.Seq {
			p.from = max(p.from, w.Seq)
		}
		return nil
	})
}

// ref names a record.
type ref struct {
	seq ledger.Seq
	typ string
}

// item is one thing to count, known by the record that brought it up.
type item struct {
	*pass
	id    string
	group string
	ref
}

// item takes a thing up if it is to be counted: its record is of the week, and was
// not imported, which is an exclusion.
func (p *pass) item(id, group, typ string, seq ledger.Seq) (it item, ok bool, err error) {
	it = item{p, id, group, ref{seq, typ}}
	if p.to > 0 && (seq < p.from || seq >= p.to) {
		return it, false, nil
	}
	imported, err := p.isImported(seq)
	if err == nil && imported {
		err = it.exclude(whyImported)
	}
	return it, !imported && err == nil, err
}

// whyImported is why a record is excluded that tells of what happened before it.
const whyImported = "imported"

func (p *pass) isImported(seq ledger.Seq) (bool, error) {
	if !p.imports {
		return false, nil
	}
	return view.IsImported(p.state, seq)
}

// denominator counts the item by its own record, numerator by the record that puts
// it there; one that was imported puts it nowhere.
func (it item) denominator() error { return it.put(Denominator, it.ref, 1, "") }

func (it item) numerator(by ref) error { return it.amount(by, 1) }

func (it item) amount(by ref, n int64) error {
	imported, err := it.isImported(by.seq)
	if err != nil {
		return err
	}
	if imported {
		return it.put(Excluded, by, 0, whyImported)
	}
	return it.put(Numerator, by, n, "")
}

// known counts an amount, and excludes one that is unknown with what is.
func (it item) known(n *int64, what string) error {
	if n == nil {
		return it.exclude(unknown + what)
	}
	return it.amount(it.ref, *n)
}

// unknown starts the reason of what is left out because a value is not known.
const unknown = "unknown "

func (it item) exclude(reason string) error { return it.put(Excluded, it.ref, 0, reason) }

func (it item) put(role Role, by ref, n int64, reason string) error {
	r := Record{Seq: by.seq, Type: by.typ, Role: role, Item: it.id, Group: it.group, Count: n, Reason: reason}
	it.all.add(&r)
	if it.group != "" {
		g := it.groups[it.group]
		if g == nil {
			g = &tally{keep: it.all.keep}
			it.groups[it.group] = g
		}
		g.add(&r)
	}
	if it.fn == nil {
		return nil
	}
	return it.fn(r)
}

// tally adds records up.
type tally struct {
	num, den int64
	n        int64   // records in the numerator
	keep     bool    // their counts, for a quantile
	values   []int64 // kept
	excluded map[string]int64
	unknown  int64
	overflow bool
}

func (t *tally) add(r *Record) {
	switch r.Role {
	case Numerator:
		t.sum(&t.num, r.Count)
		t.n++
		if t.keep {
			t.values = append(t.values, r.Count)
		}
	case Denominator:
		t.sum(&t.den, r.Count)
	case Excluded:
		if t.excluded == nil {
			t.excluded = map[string]int64{}
		}
		t.excluded[r.Reason]++
		if strings.HasPrefix(r.Reason, unknown) {
			t.unknown++
		}
	}
}

// sum never wraps: a sum beyond 64 bits is no value.
func (t *tally) sum(into *int64, n int64) {
	if n > 0 && *into > math.MaxInt64-n || n < 0 && *into < math.MinInt64-n {
		t.overflow = true
		return
	}
	*into += n
}

// number is what a tally comes to under the metric's form. A part of a single
// operation each, it is the same on every machine.
func (m *Metric) number(t *tally) Number {
	n := Number{Numerator: t.num, Excluded: t.excluded}
	den, values := t.den, t.n
	switch m.Form {
	case FormCount:
		n.Value = m.scaled(t.num, 1)
	case FormSum:
		if values > 0 {
			n.Value = m.scaled(t.num, 1)
		}
	case FormRatio:
		n.Denominator, n.Value = &den, m.scaled(t.num, den)
		if m.Interval == Wilson {
			n.wilson()
		}
	case FormMean:
		n.Denominator, n.Value = &values, m.scaled(t.num, values)
	case FormMedian, FormP95:
		n.Denominator = &values
		if values > 0 {
			n.Value = m.scaled(quantile(t.values, m.Form), 1)
		}
	}
	if t.overflow || m.Whole && t.unknown > 0 {
		n.Value = nil
	}
	return n
}

// scaled is num ÷ den in the metric's unit; nil for a denominator of 0.
func (m *Metric) scaled(num, den int64) *float64 {
	if den == 0 {
		return nil
	}
	v := float64(num) / float64(den)
	switch {
	case m.Times > 1:
		v *= float64(m.Times)
	case m.Per > 1:
		v /= float64(m.Per)
	}
	return &v
}

func (n *Number) wilson() {
	if iv, ok := stats.Wilson(float64(n.Numerator), float64(*n.Denominator), stats.Z95); ok {
		n.Low, n.High = &iv.Low, &iv.High
	}
}

// quantile is the nearest rank: the smallest value that at least that share of the
// values does not exceed.
func quantile(values []int64, form Form) int64 {
	sorted := slices.Sorted(slices.Values(values))
	share := 50
	if form == FormP95 {
		share = 95
	}
	return sorted[(len(sorted)*share+99)/100-1]
}
