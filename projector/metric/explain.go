package metric

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/ledger"
	"assay/projector"
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

// withhold leaves what was counted, and no value.
func (n *Number) withhold() { n.Value, n.Low, n.High = nil, nil, nil }

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
	At        Place   `json:"at"`
	Number
	// Why says why a value is not available, or what to keep in mind with it.
	Why    string  `json:"why,omitzero"`
	Groups []Group `json:"groups"`
}

// Of is the number of all items, or of those of a group: empty where the group has no
// record.
func (e *Explanation) Of(group string) Number {
	if group == "" {
		return e.Number
	}
	for _, g := range e.Groups {
		if g.Name == group {
			return g.Number
		}
	}
	return Number{}
}

// Place is where views stand.
type Place struct {
	Seq        ledger.Seq          `json:"seq"`
	Leaf       string              `json:"leaf"`
	LedgerTime *string             `json:"ledger_time"` // null before the first record
	Versions   []projector.Version `json:"versions"`
}

// Options are what a metric can be asked for beside its namespace.
type Options struct {
	// Week is a closed ISO week, such as 2026-W48: of the metric's items those are
	// counted whose first record is of the week by ledger time. Empty is all.
	Week string `json:"-"`
	// Repair names the tools of class repair: a call of one of them is a fix.
	Repair []string `json:"repair,omitzero"`
}

// errEnough means that nobody wants to know further records.
var errEnough = errors.New("enough records")

// Explain computes a metric and calls fn, if not nil, for each record behind it, in
// the order of the views, until it returns kv.ErrStop; the value is of all of them.
// Without records, or beyond the last one that is wanted, what is kept beside the
// views spares it to go through them, and changes nothing in the result. The views
// must stand at one record, else projector.ErrUneven. A namespace of "" is
// DefaultNamespace.
func Explain(s *projector.State, name, namespace string, o Options, fn func(Record) error) (*Explanation, error) {
	return explain(s, name, namespace, o, fn, &shared{})
}

func explain(s *projector.State, name, namespace string, o Options, fn func(Record) error, common *shared) (*Explanation, error) {
	m, err := Find(name)
	if err != nil {
		return nil, err
	}
	r, err := readingOf(s, namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := &Explanation{V: CatalogueVersion, Metric: m.Name, Namespace: r.namespace, Week: o.Week, Unit: m.Unit, Options: o}
	p := &pass{reading: r, options: o, fn: fn, common: common}
	if err := p.explain(m, out); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// shared is what metrics that are computed together, in one namespace and week, need
// to find out once.
type shared struct {
	labels *[]*labelled
	caveat *string
}

// ofDetector is what to keep in mind with whatever rests on the detector.
func (s *shared) ofDetector(p *pass) (string, error) {
	if s.caveat == nil {
		why, err := p.caveat()
		if err != nil {
			return "", err
		}
		s.caveat = &why
	}
	return *s.caveat, nil
}

func (p *pass) explain(m *Metric, out *Explanation) error {
	if err := p.stand(out); err != nil {
		return err
	}
	total, err := p.total(m)
	if errors.Is(err, errEnough) {
		p = p.quiet()
		total, err = p.total(m)
	}
	if err == nil && m.Detected {
		p.why, err = p.common.ofDetector(p)
	}
	if err == nil && m.OfCauses {
		p.withheld, err = p.mixed()
	}
	if err != nil {
		return err
	}
	out.Number, out.Why, out.Groups = m.number(&total.All, p.now), p.why, []Group{}
	for _, g := range slices.Sorted(maps.Keys(total.Groups)) {
		n := m.number(total.Groups[g], p.now)
		if iv, ok := p.bounds[g]; ok {
			n.Low, n.High = &iv.Low, &iv.High
		}
		out.Groups = append(out.Groups, Group{g, n})
	}
	if p.withheld != "" {
		out.Why = p.withheld
		for i := range out.Groups {
			out.Groups[i].withhold()
		}
	}
	if m.Apart || p.withheld != "" {
		out.withhold()
	}
	return nil
}

// total is what a metric's records add up to: by what is kept, if nobody wants to
// know the records.
func (p *pass) total(m *Metric) (*weekSums, error) {
	if p.fn == nil && len(m.over) > 0 {
		switch kept, ok, err := keptSums(p.reading, m.unit()); {
		case err != nil:
			return nil, err
		case ok && p.to > 0:
			return kept.week(p.from), nil
		case ok:
			return kept.all(), nil
		}
	}
	p.sums.keep = m.quantile()
	err := m.count(p)
	return p.sums.all(), err
}

// sumsOf is what a unit comes to: by what is kept, if nobody wants to know the
// records, else afresh.
func (p *pass) sumsOf(u unit) (total sums, err error) {
	ok := false
	if p.fn == nil {
		total, ok, err = keptSums(p.reading, u)
	}
	if err == nil && !ok {
		total = sums{keep: u.keep}
		err = u.add(p.reading, nil, &total)
	}
	return total, err
}

// numerator is that of another metric.
func (p *pass) numerator(m *Metric) (int64, error) {
	total, err := p.quiet().total(m)
	if err != nil {
		return 0, err
	}
	n, _ := total.All.Num.int64()
	return n, nil
}
