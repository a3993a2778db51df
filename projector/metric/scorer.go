package metric

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// A score is a sum over values: each opportunity, claim, prediction and so on
// adds to it what it is worth by itself. They are gone through in pages, cut where
// the state's chunks are (projector.Page), and summed page by page, so that the
// floating-point sums too are a function of the state.
//
// What a page adds changes only when a value changed that it was computed from, or
// when one of its values grows old. A Scorer keeps what pages added, which chunks
// were read for it, and when it falls due, and goes through the others again.

// part is what a page of values adds to a score: counts and sums, and of ratios
// the numerators and denominators. All of its numbers add up.
type part struct {
	Imported    int64
	Routing     Routing
	Useful      Useful
	Coverage    Coverage
	Calibration Calibration
	Experiments Experiments
	Shadow      Shadow
	Cost        Cost
	Brier       loss
	LogLoss     loss
}

// computer computes the part of one page.
type computer struct {
	part
	reading  // sees the page alone
	page     projector.Page
	due      time.Time // from when on the part may be another; zero for never
	captured captures  // of claims of the page, as far as they are known
	captures captures  // of all of them, once it was gone through
}

type captures = map[string]captured // by claim id

// counts says whether what a record brought up counts: what was imported does not.
func (c *computer) counts(seq ledger.Seq) (bool, error) {
	imported, err := c.isImported(seq)
	count(&c.Imported, imported)
	return !imported && err == nil, err
}

// young says whether what was recorded then is too young to count for coverage.
// It notes when that ends.
func (c *computer) young(recorded time.Time) bool {
	return !c.ages(recorded.Add(Settled))
}

// ages says whether now is behind t, and notes t if not.
func (c *computer) ages(t time.Time) bool {
	if c.now.After(t) {
		return true
	}
	// What falls due at t itself counts with it: see view.StandingOf.
	if t.Equal(c.now) {
		t = t.Add(1)
	}
	if c.due.IsZero() || t.Before(c.due) {
		c.due = t
	}
	return false
}

// sections are what a score is the sum of.
var sections = []struct {
	view.Listing
	add func(*computer) error
}{
	{view.AllOpportunities, func(c *computer) error {
		return view.ListOpportunities(c.state, c.namespace, c.routing)
	}},
	{view.AllClaims, func(c *computer) error {
		c.captures = make(captures)
		later, err := view.LaterSets(c.state, c.page)
		if err != nil {
			return err
		}
		return view.ListClaims(c.state, c.namespace, func(cl *view.Claim) error {
			if ok, err := c.counts(cl.Seq); !ok {
				return err
			}
			sc := &view.ShadowCase{Claim: *cl, LaterSets: later[cl.ClaimID]}
			if err := sc.Follow(c.state); err != nil {
				return err
			}
			if err := c.claim(sc); err != nil {
				return err
			}
			c.ages(cl.RecordedAt.Add(view.UndecidedAfter))
			return c.shadow(sc)
		})
	}},
	{view.AllPredictions, func(c *computer) error {
		return view.ListPredictions(c.state, c.namespace, c.prediction)
	}},
	{view.AllExperiments, func(c *computer) error {
		return view.ListExperiments(c.state, c.namespace, c.experiment)
	}},
	{view.AllHypotheses, func(c *computer) error {
		return view.ListHypotheses(c.state, c.namespace, func(h *view.HypothesisSet) error {
			ok, err := c.counts(h.Seq)
			if ok {
				c.Shadow.Sets++
				count(&c.Shadow.OverOne, h.OverOne)
			}
			return err
		})
	}},
	{view.AllQueries, func(c *computer) error { return view.ListQueries(c.state, c.namespace, c.query) }},
	{view.AllTold, func(c *computer) error { return view.ListTold(c.state, c.namespace, c.cost) }},
	{view.AllToolCalls, func(c *computer) error { return view.ListUntold(c.state, c.namespace, c.cost) }},
}

// score sets what follows from the sums.
func (p *part) score(out *Score) {
	p.Routing.Rate.settle()
	detected := p.Routing.Rate.Denominator
	u := &p.Useful
	u.Per100 = Ratio{u.Count, detected, divide(100*float64(u.Count), detected)}
	p.Coverage.Claims.Rate.settle()
	p.Coverage.Predictions.Rate.settle()
	cal := &p.Calibration
	cal.N, cal.Filled, cal.Coverage = p.Brier.N, p.Brier.Filled, p.Coverage.Predictions.Rate
	cal.Brier, cal.LogLoss = p.Brier.result(), p.LogLoss.result()
	p.Experiments.Rate.settle()
	p.Shadow.WithAlternatives.settle()
	p.Shadow.Queries.Rate.settle()
	p.Cost.settle(u.Count)
	out.Imported = p.Imported
	out.Routing, out.Useful, out.Coverage, out.Calibration = p.Routing, p.Useful, p.Coverage, p.Calibration
	out.Experiments, out.Shadow, out.Cost = p.Experiments, p.Shadow, p.Cost
}

// add adds another part's numbers.
func (p *part) add(q *part) { addNumbers(reflect.ValueOf(p).Elem(), reflect.ValueOf(q).Elem()) }

// addNumbers adds every number of src to its place in dst; one that is absent in
// both stays so.
func addNumbers(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Int64:
		dst.SetInt(dst.Int() + src.Int())
	case reflect.Float64:
		dst.SetFloat(dst.Float() + src.Float())
	case reflect.Struct:
		for i := range src.NumField() {
			addNumbers(dst.Field(i), src.Field(i))
		}
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		if dst.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
		}
		addNumbers(dst.Elem(), src.Elem())
	}
}

// Compute scores a namespace; "" is DefaultNamespace. The views must stand at
// one record, else projector.ErrUneven.
func Compute(s *projector.State, namespace string) (*Score, error) {
	return new(Scorer).Score(s, namespace)
}

// keepNamespaces is how many namespaces a Scorer keeps parts of.
const keepNamespaces = 4

// Scorer is Compute for views that are scored again and again as they change.
// Its zero value is ready; its methods may be called from several goroutines.
type Scorer struct {
	mu   sync.Mutex
	kept map[string]*parts // by namespace
	read int               // pages that were gone through last
}

// parts are what the pages of a namespace added at a record.
type parts struct {
	seq      ledger.Seq
	versions string
	pages    map[pageID]*kept
}

type pageID struct {
	section int
	from    string
}

type kept struct {
	part
	to       string
	due      time.Time
	reads    []projector.ChunkID
	captures captures
}

// Score scores a namespace; "" is DefaultNamespace. The views must stand at
// one record, else projector.ErrUneven. The result is that of Compute.
func (m *Scorer) Score(s *projector.State, namespace string) (*Score, error) {
	r, err := readingOf(s, namespace)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	out := &Score{V: Version, Namespace: r.namespace, Parameters: parameters}
	if out.Inputs, err = inputsOf(s, r.now, r.namespace); err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var total part
	if err := m.sum(r, &total); err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	total.score(out)
	return out, nil
}

// sum adds up the pages: those that are kept and still hold, and the others.
func (m *Scorer) sum(r reading, total *part) error {
	s := r.state
	next := &parts{pages: make(map[pageID]*kept)}
	for _, c := range s.Cursors() {
		next.seq = c.Seq // of all of them
		next.versions += fmt.Sprintf("%s/%d ", c.Projection, c.Version)
	}
	traced, chunks, err := s.Traced()
	if errors.Is(err, projector.ErrNoState) {
		traced, err = s, nil
	}
	if err != nil {
		return err
	}
	m.read = 0
	holds := m.holding(chunks, next, r.namespace)
	for i, section := range sections {
		pages, err := section.Pages(s, r.namespace)
		if err != nil {
			return err
		}
		for _, page := range pages {
			id := pageID{i, page.From}
			old, ok := holds(id)
			k := old
			if !ok || k.to != page.To || !k.due.IsZero() && !r.now.Before(k.due) {
				m.read++
				c := computer{page: page, reading: r}
				c.state = traced.On(page)
				if old != nil {
					c.captured = old.captures
				}
				if err := section.add(&c); err != nil {
					return err
				}
				k = &kept{part: c.part, to: page.To, due: c.due, captures: c.captures}
				if chunks != nil {
					k.reads = chunks.Take()
				}
			}
			total.add(&k.part)
			if chunks != nil {
				next.pages[id] = k
			}
		}
	}
	if chunks == nil {
		return nil
	}
	if m.kept == nil || len(m.kept) > keepNamespaces {
		m.kept = make(map[string]*parts)
	}
	m.kept[r.namespace] = next
	return nil
}

// holding finds what is kept of a page, and says whether nothing changed that it
// was computed from.
func (m *Scorer) holding(chunks *projector.Chunks, next *parts, namespace string) func(pageID) (*kept, bool) {
	was := m.kept[namespace]
	if chunks == nil || was == nil || was.versions != next.versions || was.seq > next.seq {
		return func(pageID) (*kept, bool) { return nil, false }
	}
	changed := make(map[projector.ChunkID]bool)
	chunks.Changed(was.seq, func(id projector.ChunkID) { changed[id] = true })
	return func(id pageID) (*kept, bool) {
		k := was.pages[id]
		return k, k != nil && !slices.ContainsFunc(k.reads, func(read projector.ChunkID) bool { return changed[read] })
	}
}
