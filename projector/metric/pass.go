package metric

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/internal/kv"
	"assay/internal/stats"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// pass is one reading of the views for one metric: it is what both the value and
// the records behind it come from.
type pass struct {
	reading
	options  Options
	from, to ledger.Seq   // records of the week: [from, to); to is 0 without one
	weeks    []ledger.Seq // that closed one each, in order: what is added up is told apart by them
	fn       func(Record) error
	sums     sums
	why      string
	withheld string // why there is to be no value, whatever the records come to; else empty
	common   *shared
	bounds   map[string]stats.Interval // of groups, where an interval needs more than their sums
}

// stand notes where the views stand, and what the week's records are.
func (p *pass) stand(out *Explanation) error {
	seq, leaf, err := p.state.At()
	if err != nil {
		return err
	}
	out.At.Seq, out.At.Leaf = seq, leaf.String()
	if !p.now.IsZero() {
		text := ledger.FormatTime(p.now)
		out.At.LedgerTime = &text
	}
	for _, c := range p.state.Cursors() {
		out.At.Versions = append(out.At.Versions, projector.Version{Projection: c.Projection, Version: c.Version})
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

// closings are the records that closed a week each, in order.
func closings(s *projector.State) (all []ledger.Seq, err error) {
	err = view.ListWeeks(s, func(w *view.Week) error {
		all = append(all, w.Seq)
		return nil
	})
	slices.Sort(all)
	return all, err
}

// weekOf is the first record of the week that a record is of, 0 for the first week.
// It is the same whenever it is asked for.
func weekOf(closings []ledger.Seq, seq ledger.Seq) ledger.Seq {
	i, found := slices.BinarySearch(closings, seq)
	switch {
	case found:
		return seq
	case i == 0:
		return 0
	}
	return closings[i-1]
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
	week  ledger.Seq // the first record of the week that it is added up with
	ref
}

// item takes a thing up if it is to be counted: its record is of the week, and was
// not imported, which is an exclusion.
func (p *pass) item(id, group, typ string, seq ledger.Seq) (it item, ok bool, err error) {
	it = item{p, id, group, weekOf(p.weeks, seq), ref{seq, typ}}
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

// denominator counts the item by its own record, numerator by the record that puts
// it there; one that was imported puts it nowhere.
func (it item) denominator() error { return it.put(Denominator, it.ref, 1, "") }

func (it item) numerator(by ref) error { return it.amount(by, 1) }

// putIf counts the item in the denominator and, if it is so, in the numerator, both
// by its own record; putBy takes another one for the numerator.
func (it item) putIf(so bool) error { return it.putBy(so, it.ref) }

func (it item) putBy(so bool, by ref) error {
	if err := it.denominator(); err != nil || !so {
		return err
	}
	return it.numerator(by)
}

// putKnown is putIf, and excludes the item where what it asks for is unknown.
func (it item) putKnown(so *bool, what string) error {
	if so == nil {
		return it.exclude(unknown + what)
	}
	return it.putIf(*so)
}

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

// waits counts by how long something has been waiting, in seconds of ledger time,
// and goes on to count while the ledger grows.
func (it item) waits(since time.Time) error {
	imported, err := it.isImported(it.seq)
	if err != nil {
		return err
	}
	if imported {
		return it.exclude(whyImported)
	}
	return it.add(it.ref, Numerator, it.age(since), "", &since)
}

func (it item) put(role Role, by ref, n int64, reason string) error {
	return it.add(by, role, n, reason, nil)
}

func (it item) add(by ref, role Role, n int64, reason string, since *time.Time) error {
	r := Record{Seq: by.seq, Type: by.typ, Role: role, Item: it.id, Group: it.group, Count: n, Reason: reason}
	it.sums.week(it.week).add(&r, since)
	if it.fn == nil {
		return nil
	}
	err := it.fn(r)
	if errors.Is(err, kv.ErrStop) {
		err = errEnough // which ends no scan as if it were whole
	}
	return err
}
