package metric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// The score and most metrics are sums over values. Beside the views is kept what
// each page of values adds to them, what was read for it, when one of its values
// grows old, and what all pages come to. Whoever asks takes the totals, goes again
// through the pages that something changed in since, takes away what they had
// added and adds what they add now. All sums are of whole numbers: nothing depends on
// how often that was done.
//
//	d/<namespace> <projection> <first key>         how a page stands (standing)
//	p/<unit> <namespace> <projection> <first key>  what it adds, by week
//	t/<unit> <namespace> <first record of a week>  what all of them add
//
// What cannot be taken away again, such as the values of a quantile, is kept with the
// pages alone.

// unit is one thing that is kept: the score, a metric, or what one rests on.
type unit struct {
	name string
	over []view.Listing
	keep bool // something that cannot be taken away again, such as the values of a quantile
	add  func(r reading, weeks []ledger.Seq, into *sums) error
}

// theScore is the score as a unit.
func theScore() unit {
	u := unit{name: "score", add: func(r reading, _ []ledger.Seq, into *sums) error { return addScore(r, into) }}
	for _, s := range sections {
		u.over = append(u.over, s.Listing)
	}
	return u
}

// unit is the metric as one.
func (m *Metric) unit() unit {
	return unit{m.Name, m.over, m.quantile(), func(r reading, weeks []ledger.Seq, into *sums) error {
		p := &pass{reading: r, weeks: weeks, sums: *into}
		err := m.count(p)
		*into = p.sums
		return err
	}}
}

// units are the score, every metric that is a sum over listings, and what the others
// rest on.
func units() []unit {
	out := []unit{theScore(), openings(), episodeCosts()}
	for _, m := range Catalogue() {
		if len(m.over) > 0 {
			out = append(out, m.unit())
		}
	}
	return out
}

// listings are those that units are over.
func listings(units []unit) (all []view.Listing) {
	for _, u := range units {
		for _, l := range u.over {
			if !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
	}
	return all
}

func parts(names ...string) string { return strings.Join(names, "\x00") }

func standingKey(namespace string, p projector.Page) string {
	return "d/" + parts(namespace, p.Projection, p.From)
}

func pageKey(unit, namespace string, p projector.Page) string {
	return pagesOf(unit, namespace) + parts(p.Projection, p.From)
}

func pagesOf(unit, namespace string) string { return "p/" + parts(unit, namespace, "") }

func totalsOf(unit, namespace string) string { return "t/" + parts(unit, namespace, "") }

// standing is how a page stood when it was gone through.
type standing struct {
	at    ledger.Seq
	due   time.Time // from when on it may add something else; zero for never
	marks []byte    // of what was read for it
}

func (s standing) encode() []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(s.at))
	due := int64(0)
	if !s.due.IsZero() {
		due = s.due.UnixNano()
	}
	return append(binary.BigEndian.AppendUint64(out, uint64(due)), s.marks...)
}

func decodeStanding(data []byte) (s standing, err error) {
	if len(data) < 16 {
		return s, fmt.Errorf("%w: %d bytes of a page's standing", projector.ErrCorrupt, len(data))
	}
	s.at, s.marks = ledger.Seq(binary.BigEndian.Uint64(data)), data[16:]
	if due := int64(binary.BigEndian.Uint64(data[8:])); due != 0 {
		s.due = time.Unix(0, due)
	}
	return s, nil
}

// note says with what is kept whose it is.
type note struct {
	Software   string    `json:"software"` // versions of the scores, the catalogue and the views
	Units      []string  `json:"units"`
	Namespaces []string  `json:"namespaces"` // of which every page stands
	Whole      bool      `json:"whole"`      // those are all of which anything is to be kept
	Due        time.Time `json:"due"`        // when the first of them grows old; zero for never
}

func noteOf(s *projector.State, units []unit) note {
	n := note{Software: fmt.Sprint(Version, CatalogueVersion)}
	for _, c := range s.Cursors() {
		n.Software += fmt.Sprintf(" %s/%d", c.Projection, c.Version)
	}
	for _, u := range units {
		n.Units = append(n.Units, u.name)
	}
	return n
}

// books are what is kept, seen from where the views stand.
type books struct {
	reading
	note
	weeks   []ledger.Seq
	at      ledger.Seq // at which every page stood that is kept
	seq     ledger.Seq // at which the views stand
	changed *projector.Changes
}

// openBooks finds what is kept; nil when there is nothing that this build can use.
func openBooks(r reading) (*books, error) {
	b := &books{reading: r}
	at, data, changed, err := r.state.KeptAt()
	if errors.Is(err, projector.ErrNoState) {
		return nil, nil
	}
	b.at, b.changed = at, changed
	if err == nil {
		b.seq, _, err = r.state.At()
	}
	if err == nil {
		err = json.Unmarshal(data, &b.note)
	}
	if err == nil {
		b.weeks, err = closings(r.state)
	}
	if err != nil || b.Software != noteOf(r.state, nil).Software {
		return nil, err
	}
	return b, nil
}

// stands says that every page of the namespace stands at the views' record.
func (b *books) stands() bool {
	return b.at == b.seq && slices.Contains(b.Namespaces, b.namespace) && (b.Due.IsZero() || b.now.Before(b.Due))
}

// stale are the pages of a listing that may add something else than is kept, and due
// is when the first of the others grows old.
func (b *books) stale(l view.Listing) (pages []projector.Page, due time.Time, err error) {
	all, err := l.Pages(b.state, b.namespace)
	if err != nil {
		return nil, due, err
	}
	whole := l.Whole(b.namespace)
	since := map[string]ledger.Seq{} // that a page is known to have stood at, by its first key
	prefix := standingKey(b.namespace, whole)
	skip := len(prefix) - len(whole.From)
	dues := map[string]time.Time{}
	err = b.state.ScanKept(prefix, func(key string, data []byte) error {
		s, err := decodeStanding(data)
		if err != nil {
			return err
		}
		at := max(s.at, b.at)
		if (s.due.IsZero() || b.now.Before(s.due)) && !b.changed.Since(at, s.marks) {
			since[key[skip:]], dues[key[skip:]] = at, s.due
		}
		return nil
	})
	for _, p := range all {
		if at, ok := since[p.From]; !ok || p.Changed > at {
			pages = append(pages, p)
		} else {
			due = sooner(due, dues[p.From])
		}
	}
	return pages, due, err
}

// sooner is the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// visit goes through a page for each of the units that are over its listing.
func (b *books) visit(l view.Listing, page projector.Page, units []unit) (map[string]*sums, standing, error) {
	traced, trace := b.state.Traced()
	out, st := map[string]*sums{}, standing{at: b.seq}
	for _, u := range units {
		if !slices.Contains(u.over, l) {
			continue
		}
		var others []projector.Page
		for _, o := range u.over {
			others = append(others, o.Whole(b.namespace))
		}
		r := b.reading
		r.state, r.due = traced.On(page, others...), &st.due
		s := &sums{keep: u.keep}
		if err := u.add(r, b.weeks, s); err != nil {
			return nil, st, fmt.Errorf("%s: %w", u.name, err)
		}
		out[u.name] = s
	}
	st.marks = trace.Marks()
	return out, st, nil
}

// keptPage is what is kept of what a page adds to a unit; nothing where it is not
// known.
func (b *books) keptPage(unit string, p projector.Page) (*sums, error) {
	data, err := b.state.Kept(pageKey(unit, b.namespace, p))
	if errors.Is(err, kv.ErrNotFound) {
		return &sums{}, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeSums(data)
}

func decodeSums(data []byte) (*sums, error) {
	s := &sums{}
	if err := json.Unmarshal(data, &s.weeks); err != nil {
		return nil, fmt.Errorf("%w: what a page adds: %w", projector.ErrCorrupt, err)
	}
	return s, nil
}

// keptSums is what a unit comes to by what is kept; ok is false where nothing is.
func keptSums(r reading, u unit) (total sums, ok bool, err error) {
	b, err := openBooks(r)
	if err != nil || b == nil || !slices.Contains(b.Units, u.name) {
		return total, false, err
	}
	total.keep = u.keep
	fresh := map[string]*sums{} // pages, by key
	if !b.stands() {
		if err := b.freshen(u, fresh); err != nil {
			return total, false, err
		}
	}
	if u.keep {
		err = b.addPages(u.name, fresh, &total)
	} else {
		err = b.addTotals(u.name, fresh, &total)
	}
	return total, err == nil, err
}

// freshen goes through the pages that may add something else than is kept.
func (b *books) freshen(u unit, fresh map[string]*sums) error {
	for _, l := range u.over {
		pages, _, err := b.stale(l)
		if err != nil {
			return err
		}
		for _, p := range pages {
			got, _, err := b.visit(l, p, []unit{u})
			if err != nil {
				return err
			}
			if !u.keep {
				was, err := b.keptPage(u.name, p)
				if err != nil {
					return err
				}
				got[u.name].take(was)
			}
			fresh[pageKey(u.name, b.namespace, p)] = got[u.name]
		}
	}
	return nil
}

// addTotals adds the totals, and what fresh pages add to them.
func (b *books) addTotals(unit string, fresh map[string]*sums, total *sums) error {
	prefix := totalsOf(unit, b.namespace)
	err := b.state.ScanKept(prefix, func(_ string, data []byte) error {
		s, err := decodeSums(data)
		if err == nil {
			total.merge(s)
		}
		return err
	})
	for _, s := range fresh {
		total.merge(s)
	}
	return err
}

// addPages adds what every page adds.
func (b *books) addPages(unit string, fresh map[string]*sums, total *sums) error {
	for _, s := range fresh {
		total.merge(s)
	}
	return b.state.ScanKept(pagesOf(unit, b.namespace), func(key string, data []byte) error {
		if fresh[key] != nil {
			return nil
		}
		s, err := decodeSums(data)
		if err == nil {
			total.merge(s)
		}
		return err
	})
}

// keepFrom is how many records a namespace has of which something is kept. Fewer are
// gone through faster than one would look for what changed, and of test runs there
// may be many.
const keepFrom = 1000

// Keep brings what is kept of the score and of the metrics up to the views, in every
// namespace of some size; it is for projector.Config.
func Keep(k *projector.Keeping) error { return keeper{units: units(), least: keepFrom}.keep(k) }

// KeepScore is Keep for the score of one namespace.
func KeepScore(namespace string) func(*projector.Keeping) error {
	return keeper{units: []unit{theScore()}, namespace: namespace}.keep
}

type keeper struct {
	units     []unit
	least     int64 // records of a namespace of which something is kept; 0 for the one
	namespace string
}

// namespaces are those of which something is kept, in order.
func (c keeper) namespaces(r reading) (names []string, err error) {
	if c.least == 0 {
		return []string{r.namespace}, nil
	}
	l, err := r.state.Ledger()
	for name, records := range l.Namespaces {
		if records >= c.least {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, err
}

// flushPages is how many pages are gone through before what they add is committed.
const flushPages = 16

func (c keeper) keep(k *projector.Keeping) error {
	r, err := readingOf(k.State, c.namespace)
	if err != nil {
		return err
	}
	want := noteOf(k.State, c.units)
	b, err := openBooks(r)
	if err != nil || b == nil || !slices.Equal(b.Units, want.Units) {
		if b, err = begin(k, r, want); err != nil {
			return err
		}
	} else if b.at == b.seq && b.Whole {
		return nil
	}
	if want.Namespaces, err = c.namespaces(r); err != nil {
		return err
	}
	w := writer{k: k, books: b, units: c.units, totals: map[string]*sums{}}
	for _, b.namespace = range want.Namespaces {
		for _, l := range listings(c.units) {
			if done, err := w.listing(l); err != nil {
				return err
			} else if !done {
				return w.flush()
			}
		}
	}
	want.Due, want.Whole = w.due, true
	if err := w.flush(); err != nil {
		return err
	}
	return stand(k, want)
}

// begin keeps nothing yet.
func begin(k *projector.Keeping, r reading, n note) (*books, error) {
	k.Forget()
	if err := stand(k, n); err != nil {
		return nil, err
	}
	return openBooks(r)
}

func stand(k *projector.Keeping, n note) error {
	data, err := json.Marshal(n)
	if err == nil {
		err = k.Stand(data)
	}
	if err != nil {
		return err
	}
	return k.Commit()
}

// writer writes what pages add.
type writer struct {
	*books
	k      *projector.Keeping
	units  []unit
	totals map[string]*sums // what is to be added, by totalsOf
	pages  int              // since the last flush
	due    time.Time
}

// listing goes through what is stale of a listing until something else is to be
// done.
func (w *writer) listing(l view.Listing) (done bool, err error) {
	pages, due, err := w.stale(l)
	w.due = sooner(w.due, due)
	if err != nil {
		return false, err
	}
	for _, p := range pages {
		if w.k.Interrupted() {
			return false, nil
		}
		if err := w.page(l, p); err != nil {
			return false, err
		}
		if w.pages++; w.pages >= flushPages {
			if err := w.flush(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (w *writer) page(l view.Listing, p projector.Page) error {
	got, st, err := w.visit(l, p, w.units)
	if err != nil {
		return err
	}
	w.due = sooner(w.due, st.due)
	for _, u := range w.units {
		s := got[u.name]
		if s == nil {
			continue
		}
		data, err := json.Marshal(s.weeks, json.Deterministic(true))
		if err != nil {
			return err
		}
		was, err := w.keptPage(u.name, p)
		if err != nil {
			return err
		}
		w.k.Put(pageKey(u.name, w.namespace, p), data)
		if u.keep {
			continue
		}
		key := totalsOf(u.name, w.namespace)
		if w.totals[key] == nil {
			w.totals[key] = &sums{}
		}
		s.take(was)
		w.totals[key].merge(s)
	}
	w.k.Put(standingKey(w.namespace, p), st.encode())
	return nil
}

// flush commits the pages together with what they add to the totals.
func (w *writer) flush() error {
	for prefix, add := range w.totals {
		for week, s := range add.weeks {
			key := prefix + projector.SeqKey(week)
			total := &sums{}
			data, err := w.k.Kept(key)
			if err == nil {
				total, err = decodeSums(data)
			}
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				return err
			}
			total.week(week).merge(s)
			if data, err = json.Marshal(total.weeks, json.Deterministic(true)); err != nil {
				return err
			}
			w.k.Put(key, data)
		}
	}
	clear(w.totals)
	w.pages = 0
	return w.k.Commit()
}
