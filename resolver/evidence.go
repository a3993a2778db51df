package resolver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"assay/ledger"
	"assay/resolver/criterion"
)

// Segments loads the samples of a sealed segment by the SHA-256 of its bytes.
// It must check that hash.
type Segments interface {
	Load(sha256 string) ([]criterion.Sample, error)
}

// horizon is how far back of ledger time sealed segments are remembered: no
// window is longer. Evidence before it is a gap.
const horizon = criterion.MaxWindow + 24*time.Hour

// sealed is what the fold keeps of a telemetry.sealed record.
type sealed struct {
	seq ledger.Seq
	end time.Time // every sample in it is earlier
	sha ledger.Hash
}

// source is one source's sealed telemetry, of which only watched series are
// held in memory.
type source struct {
	name      string
	segments  []sealed // in ledger order, ends never falling
	watermark time.Time
	series    map[string][]*series // by signal
	closing   timeQueue            // when a window needs no more waiting
	streams   map[string]string    // one copy of each name
}

// series is one watched series: all its samples since from, sorted by
// criterion.Compare, each with the segment that brought it first.
type series struct {
	signal    string
	labels    map[string]string
	anyLabels bool // a heartbeat's
	from      time.Time
	samples   []criterion.Sample
	origins   []origin
	watchers  map[*prediction]time.Time // and since when they need samples
}

type origin struct {
	seq ledger.Seq
	sha ledger.Hash
}

func newSource(name string) *source {
	return &source{name: name, series: make(map[string][]*series), streams: make(map[string]string)}
}

func (src *source) add(s sealed, now time.Time) {
	if n := len(src.segments); n > 0 && s.end.Before(src.segments[n-1].end) {
		s.end = src.segments[n-1].end
	}
	src.segments = append(src.segments, s)
	if old := now.Add(-horizon); src.segments[0].end.Before(old) {
		n := sort.Search(len(src.segments), func(i int) bool { return !src.segments[i].end.Before(old) })
		src.segments = slices.Delete(src.segments, 0, n)
	}
}

// watch finds or makes the series and sees that it holds every sealed sample
// since from.
func (src *source) watch(p *prediction, signal string, labels map[string]string, anyLabels bool, from time.Time, load Segments) (*series, error) {
	var se *series
	for _, have := range src.series[signal] {
		if have.anyLabels == anyLabels && (anyLabels || maps.Equal(have.labels, labels)) {
			se = have
		}
	}
	fresh := se == nil
	if fresh {
		se = &series{signal: signal, labels: labels, anyLabels: anyLabels, watchers: make(map[*prediction]time.Time)}
		src.series[signal] = append(src.series[signal], se)
	}
	se.watchers[p] = from
	if !fresh && !from.Before(se.from) {
		return se, nil
	}
	se.from = from
	first := sort.Search(len(src.segments), func(i int) bool { return src.segments[i].end.After(from) })
	for _, seg := range src.segments[first:] {
		samples, err := load.Load(seg.sha.String())
		if err != nil {
			return nil, fmt.Errorf("segment of record %d: %w", seg.seq, err)
		}
		for i := range samples {
			if se.matches(&samples[i]) {
				src.insert(se, samples[i], origin{seg.seq, seg.sha})
			}
		}
	}
	return se, nil
}

// unwatch forgets what no other prediction needs.
func (src *source) unwatch(p *prediction, se *series) {
	delete(se.watchers, p)
	if len(se.watchers) == 0 {
		src.series[se.signal] = slices.DeleteFunc(src.series[se.signal], func(o *series) bool { return o == se })
		if len(src.series[se.signal]) == 0 {
			delete(src.series, se.signal)
		}
		return
	}
	from := time.Time{}
	for _, f := range se.watchers {
		if from.IsZero() || f.Before(from) {
			from = f
		}
	}
	if from.After(se.from) {
		n := se.search(from)
		se.samples = slices.Clone(se.samples[n:])
		se.origins = slices.Clone(se.origins[n:])
		se.from = from
	}
}

func (se *series) matches(s *criterion.Sample) bool {
	return s.Signal == se.signal && (se.anyLabels || len(s.Labels) == len(se.labels) && maps.Equal(s.Labels, se.labels))
}

// search is the place of the first sample at or after t.
func (se *series) search(t time.Time) int {
	return sort.Search(len(se.samples), func(i int) bool { return !se.samples[i].Time.Before(t) })
}

// insert adds a sample in its place; false when it is there already or too
// old. A repeat keeps the segment that brought it first.
func (src *source) insert(se *series, s criterion.Sample, o origin) bool {
	if s.Time.Before(se.from) {
		return false
	}
	s.Source, s.Signal = src.name, se.signal
	if !se.anyLabels {
		s.Labels = se.labels
	}
	if _, ok := src.streams[s.Stream]; !ok {
		src.streams[s.Stream] = s.Stream
	}
	s.Stream = src.streams[s.Stream]
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

// evidence are the samples that a prediction may rest on.
type evidence struct {
	samples []criterion.Sample
	origins []origin
}

// gather takes the watched series from p's first needed sample on.
func (p *prediction) gather() evidence {
	until := p.window.End.Add(p.limits.Skew + 1)
	var e evidence
	for _, se := range []*series{p.own, p.beat} {
		if se == nil {
			continue
		}
		lo, hi := se.search(p.since), se.search(until)
		if e.samples == nil {
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
