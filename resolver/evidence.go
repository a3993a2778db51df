package resolver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
)

// Segments loads the samples of a sealed segment by the SHA-256 of its bytes.
// It must check that hash.
type Segments interface {
	Load(sha256 string) ([]criterion.Sample, error)
}

// memo loads each segment once while one record is applied, whoever needs it, as
// long as they are not too many.
type memo struct {
	from Segments
	held map[string][]criterion.Sample
	left int // samples that may still be held
}

// maxMemo is how many samples a memo holds at most.
const maxMemo = 500_000

// Load implements Segments.
func (m *memo) Load(sha256 string) ([]criterion.Sample, error) {
	if samples, ok := m.held[sha256]; ok {
		return samples, nil
	}
	samples, err := m.from.Load(sha256)
	if err == nil && len(samples) <= m.left {
		if m.held == nil {
			m.held = make(map[string][]criterion.Sample)
		}
		m.held[sha256] = samples
		m.left -= len(samples)
	}
	return samples, err
}

func (m *memo) reset() { m.held, m.left = nil, maxMemo }

const (
	// horizon is how far back of ledger time sealed segments are remembered: no
	// window is longer. Evidence before it is a gap.
	horizon = criterion.MaxWindow + 24*time.Hour
	// maxKept is how far back they are remembered for predictions that may still
	// be amended: a baseline and a window before that.
	maxKept = 2*criterion.MaxWindow + events.AmendableFor + 24*time.Hour
)

// sealed is what the fold keeps of a telemetry.sealed record.
type sealed struct {
	seq      ledger.Seq
	earliest time.Time // no sample in it is earlier; zero when not known
	end      time.Time // every sample in it is earlier
	samples  int64
	sha      ledger.Hash
}

// source is one source's sealed telemetry, of which only watched series are
// held in memory.
type source struct {
	name      string
	segments  []sealed  // in ledger order, ends never falling
	forgotten time.Time // end of the last segment that is remembered no more
	watermark time.Time
	series    map[string]*bySignal
	watched   int       // series among them
	closing   timeQueue // when a window needs no more waiting for this source
	proving   timeQueue // the same for baselines
	pins      timeQueue // since when predictions that hold series may need segments
	pinned    int       // predictions among them that still may
	needs     needQueue // since when those on its shelves may
	shelved   int       // predictions that are on its shelves
	shelfEnd  stamp     // every shelved prediction of this source rests on earlier samples
}

// bySignal is what is kept of one signal: watched series, and settled
// predictions that its late samples concern.
type bySignal struct {
	any     *series // of whatever labels: a heartbeat's
	exact   map[string]*series
	shelf   *shelf // as any
	shelves map[string]*shelf
}

// series is one watched series: all its samples since from, sorted by
// criterion.Compare, each with the segment that brought it first.
type series struct {
	src       *source
	signal    string
	labels    map[string]string
	anyLabels bool // a heartbeat's
	from      time.Time
	samples   []criterion.Sample
	origins   []origin
	holders   int       // predictions that need it
	needs     timeQueue // since when, those let go of among them
	// Who is to be told of a sample: clauses with an open window, by their
	// screens, and predictions that any sample before eagerTo may decide.
	open    []*watch
	eager   map[*prediction]struct{}
	eagerTo time.Time
}

// origin is the record and segment that brought a sample.
type origin struct {
	seq ledger.Seq
	sha ledger.Hash
}

func newSource(name string) *source {
	return &source{name: name, series: make(map[string]*bySignal)}
}

// add remembers a segment and forgets those that nobody needs any more.
func (src *source) add(s sealed, now time.Time) {
	if n := len(src.segments); n > 0 && s.end.Before(src.segments[n-1].end) {
		s.end = src.segments[n-1].end
	}
	src.segments = append(src.segments, s)
	old := now.Add(-horizon)
	if !src.segments[0].end.Before(old) {
		return
	}
	if since, ok := src.neededSince(); ok && since.Before(old) {
		old = since
		if oldest := now.Add(-maxKept); old.Before(oldest) {
			old = oldest
		}
	}
	n := sort.Search(len(src.segments), func(i int) bool { return !src.segments[i].end.Before(old) })
	if n > 0 {
		src.forgotten = src.segments[n-1].end
		src.segments = slices.Delete(src.segments, 0, n)
	}
}

// neededSince is since when predictions need segments; false without one.
func (src *source) neededSince() (since time.Time, ok bool) {
	if len(src.needs) > 0 {
		since, ok = src.needs[0].since.time(), true
	}
	for len(src.pins) > 0 {
		if first := src.pins[0]; first.pred.pinned {
			if !ok || first.at.Before(since) {
				since, ok = first.at, true
			}
			break
		}
		src.pins.next(func(time.Time) bool { return true })
	}
	return since, ok
}

// labelKey writes labels so that equal ones give equal bytes.
func labelKey(dst []byte, labels map[string]string) []byte {
	var names [16]string // no more are parsed
	keys := names[:0]
	for k := range labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		dst = append(append(append(append(dst, k...), 0), labels[k]...), 0)
	}
	return dst
}

func (src *source) signal(name string) *bySignal {
	by := src.series[name]
	if by == nil {
		by = &bySignal{exact: make(map[string]*series), shelves: make(map[string]*shelf)}
		src.series[name] = by
	}
	return by
}

// tidy drops a signal that nobody is interested in.
func (src *source) tidy(name string) {
	if by := src.series[name]; by != nil && by.any == nil && by.shelf == nil && len(by.exact)+len(by.shelves) == 0 {
		delete(src.series, name)
	}
}

// find finds or makes a series; fresh ones hold nothing yet.
func (src *source) find(signal string, labels map[string]string, anyLabels bool) (se *series, fresh bool) {
	by := src.signal(signal)
	key := ""
	if anyLabels {
		se = by.any
	} else {
		key = string(labelKey(nil, labels))
		se = by.exact[key]
	}
	if se != nil {
		return se, false
	}
	se = &series{src: src, signal: signal, labels: labels, anyLabels: anyLabels, eager: make(map[*prediction]struct{})}
	if anyLabels {
		by.any = se
	} else {
		by.exact[key] = se
	}
	src.watched++
	return se, true
}

// hold makes p a holder of the series.
func (se *series) hold(p *prediction) {
	se.holders++
	se.needs.sweep(se.holders, func(t timed) bool { return slices.Contains(t.pred.series, se) })
	se.needs.add(p.since, p)
}

// release lets go of the series for p, and of what no other prediction needs.
func (se *series) release(p *prediction) {
	se.holders--
	if delete(se.eager, p); len(se.eager) == 0 {
		se.eagerTo = time.Time{}
	}
	if se.holders == 0 {
		by := se.src.series[se.signal]
		if se.anyLabels {
			by.any = nil
		} else {
			delete(by.exact, string(labelKey(nil, se.labels)))
		}
		se.src.watched--
		se.src.tidy(se.signal)
		return
	}
	for !slices.Contains(se.needs[0].pred.series, se) {
		se.needs.next(func(time.Time) bool { return true })
	}
	if from := se.needs[0].at; from.After(se.from) {
		n := se.search(from)
		se.samples, se.origins, se.from = se.samples[n:], se.origins[n:], from
	}
}

// each calls fn for what is interested in a sample: the series of its very
// labels and the one of all labels, either of which may be nil, and so the
// shelves.
func (by *bySignal) each(s *criterion.Sample, buf []byte, fn func(*series, *shelf)) []byte {
	if by.any != nil || by.shelf != nil {
		fn(by.any, by.shelf)
	}
	if len(by.exact)+len(by.shelves) > 0 {
		buf = labelKey(buf[:0], s.Labels)
		if se, sh := by.exact[string(buf)], by.shelves[string(buf)]; se != nil || sh != nil {
			fn(se, sh)
		}
	}
	return buf
}

// search is the place of the first sample at or after t.
func (se *series) search(t time.Time) int {
	return sort.Search(len(se.samples), func(i int) bool { return !se.samples[i].Time.Before(t) })
}

// insert adds a sample in its place; false when it is there already or too
// old. A repeat keeps the segment that brought it first.
func (se *series) insert(s criterion.Sample, o origin) bool {
	if s.Time.Before(se.from) {
		return false
	}
	s.Source, s.Signal = se.src.name, se.signal
	if !se.anyLabels {
		s.Labels = se.labels
	}
	i := len(se.samples)
	if i > 0 && criterion.Compare(&se.samples[i-1], &s) >= 0 {
		i = sort.Search(len(se.samples), func(i int) bool { return criterion.Compare(&se.samples[i], &s) >= 0 })
		if criterion.Compare(&se.samples[i], &s) == 0 {
			if o.seq < se.origins[i].seq {
				se.origins[i] = o
			}
			return false
		}
	}
	se.samples = slices.Insert(se.samples, i, s)
	se.origins = slices.Insert(se.origins, i, o)
	return true
}

// touch marks the predictions whose outcome the sample may change.
func (se *series) touch(s *criterion.Sample, touched map[*prediction]bool) {
	for _, w := range se.open {
		if w.screen.Add(s) {
			touched[w.pred] = true
		}
	}
	if !s.Time.Before(se.eagerTo) {
		return
	}
	for p := range se.eager {
		if !s.Time.Before(p.since) && s.Time.Before(p.eagerTo) {
			touched[p] = true
		}
	}
}

// load fills series of one source from the remembered segments that may hold
// samples in [each one's from, until). Each segment is loaded once.
func (src *source) load(list []*series, until time.Time, segments Segments) error {
	from := slices.MinFunc(list, func(a, b *series) int { return a.from.Compare(b.from) }).from
	wanted := make(map[string][]*series)
	for _, se := range list {
		wanted[se.signal] = append(wanted[se.signal], se)
	}
	first := sort.Search(len(src.segments), func(i int) bool { return src.segments[i].end.After(from) })
	for _, seg := range src.segments[first:] {
		if !seg.earliest.Before(until) {
			continue
		}
		samples, err := segments.Load(seg.sha.String())
		if err != nil {
			return fmt.Errorf("segment of record %d: %w", seg.seq, err)
		}
		for i := range samples {
			if !samples[i].Time.Before(until) {
				continue
			}
			for _, se := range wanted[samples[i].Signal] {
				if se.anyLabels || maps.Equal(se.labels, samples[i].Labels) || len(se.labels)+len(samples[i].Labels) == 0 {
					se.insert(samples[i], origin{seg.seq, seg.sha})
				}
			}
		}
	}
	return nil
}

// evidence are the samples that a prediction may rest on.
type evidence struct {
	samples []criterion.Sample
	origins []origin
}

// gather takes the watched series over all that p rests on.
func (p *prediction) gather() evidence {
	var e evidence
	for i, se := range p.series {
		lo, hi := se.search(p.since), se.search(p.until)
		if i == 0 {
			e = evidence{slices.Clip(se.samples[lo:hi]), slices.Clip(se.origins[lo:hi])}
			continue
		}
		e.samples = append(e.samples, se.samples[lo:hi]...)
		e.origins = append(e.origins, se.origins[lo:hi]...)
	}
	return e
}

// keep is the part of the evidence that ok lets through.
func (e evidence) keep(ok func(*criterion.Sample, origin) bool) evidence {
	var out evidence
	for i := range e.samples {
		if ok(&e.samples[i], e.origins[i]) {
			out.samples = append(out.samples, e.samples[i])
			out.origins = append(out.origins, e.origins[i])
		}
	}
	return out
}

// used are the samples that the clauses rest on, each once, in the order of
// criterion.Compare.
func (e evidence) used(res criterion.Result) []int {
	var out []int
	for _, cr := range res.Clauses {
		out = append(out, cr.Used...)
	}
	compare := func(a, b int) int { return criterion.Compare(&e.samples[a], &e.samples[b]) }
	slices.SortStableFunc(out, compare)
	// A sample of one clause may be a heartbeat of another, and be there twice.
	return slices.CompactFunc(out, func(a, b int) bool { return compare(a, b) == 0 })
}

// refs are the segments of the used samples in ledger order.
func (e evidence) refs(used []int) []string {
	var list []origin
	for _, i := range used {
		list = append(list, e.origins[i])
	}
	slices.SortFunc(list, func(a, b origin) int { return cmp.Compare(a.seq, b.seq) })
	refs := []string{}
	for _, o := range slices.Compact(list) {
		refs = append(refs, o.sha.String())
	}
	return refs
}

// corrects says whether a sample that came after a record contradicts another
// one: the same identity with other content.
func (e evidence) corrects(after ledger.Seq) bool {
	type identity struct {
		source, stream string
		seq            uint64
	}
	first := make(map[identity]int, len(e.samples))
	contradicted := make(map[identity]bool)
	id := func(i int) identity {
		s := &e.samples[i]
		return identity{s.Source, s.Stream, s.Seq}
	}
	for i := range e.samples {
		if j, ok := first[id(i)]; !ok {
			first[id(i)] = i
		} else if criterion.Compare(&e.samples[j], &e.samples[i]) != 0 {
			contradicted[id(i)] = true
		}
	}
	for i := range e.samples {
		if e.origins[i].seq > after && contradicted[id(i)] {
			return true
		}
	}
	return false
}
