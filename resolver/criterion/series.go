package criterion

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// series is the evidence of a clause, wherever it lies in time: the valid
// samples of its own series and its source's heartbeats, as indices that are
// sorted by Compare, without repeats.
type series struct {
	samples    []Sample
	lim        Limits
	own, beats []int
	clashes    [][]int // samples of one identity and different contents
}

// gather finds the clause's evidence that lies within reach.
func gather(samples []Sample, clause Clause, lim Limits, reach Span) *series {
	s := &series{samples: samples, lim: lim}
	beat := lim.beat()
	var all []int
	for i := range samples {
		p := &samples[i]
		if p.Source == lim.Signal.Source && reach.Contains(p.Time) && (clause.matches(p) || p.Signal == beat) {
			all = append(all, i)
		}
	}
	all = s.sorted(all)
	s.clashes = s.findClashes(all)
	for _, i := range all {
		p := &samples[i]
		if !p.IsValid() {
			continue
		}
		if clause.matches(p) {
			s.own = append(s.own, i)
		}
		if p.Signal == beat {
			s.beats = append(s.beats, i)
		}
	}
	return s
}

// matches says whether the sample is of the clause's series, its source aside.
func (c *Clause) matches(p *Sample) bool {
	return p.Signal == c.Signal && (len(p.Labels) == 0 && len(c.Labels) == 0 || maps.Equal(p.Labels, c.Labels))
}

// sorted sorts indices by Compare and drops repeats of a sample. What comes from
// a segment is sorted already, which one pass finds.
func (s *series) sorted(list []int) []int {
	order := func(a, b int) int { return Compare(&s.samples[a], &s.samples[b]) }
	for k := 1; k < len(list); k++ {
		if order(list[k-1], list[k]) >= 0 {
			slices.SortFunc(list, order)
			return slices.CompactFunc(list, func(a, b int) bool { return order(a, b) == 0 })
		}
	}
	return list
}

// findClashes takes sorted indices without repeats, so that two samples of one
// identity differ. Where each stream's numbers rise with time, as a sensor's
// do, there is nothing to look for.
func (s *series) findClashes(all []int) [][]int {
	if s.rising(all) {
		return nil
	}
	type identity struct {
		stream string
		seq    uint64
	}
	id := func(i int) identity { return identity{s.samples[i].Stream, s.samples[i].Seq} }
	count := make(map[identity]int, len(all))
	clash := false
	for _, i := range all {
		count[id(i)]++
		clash = clash || count[id(i)] > 1
	}
	if !clash {
		return nil
	}
	var out [][]int
	place := make(map[identity]int)
	for _, i := range all {
		if count[id(i)] == 1 {
			continue
		}
		at, ok := place[id(i)]
		if !ok {
			at = len(out)
			place[id(i)] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], i)
	}
	return out
}

func (s *series) rising(all []int) bool {
	last := make(map[string]uint64)
	for _, i := range all {
		p := &s.samples[i]
		if seq, ok := last[p.Stream]; ok && p.Seq <= seq {
			return false
		}
		last[p.Stream] = p.Seq
	}
	return true
}

// clashesIn are the clashes of samples within reach, of which near has one at
// least.
func (s *series) clashesIn(reach, near Span) [][]int {
	var out [][]int
	for _, group := range s.clashes {
		if in := s.within(group, reach); len(in) > 1 && len(s.within(in, near)) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// within is the part of sorted indices that lies in the span.
func (s *series) within(list []int, span Span) []int {
	lo := s.search(list, span.Start)
	return list[lo:max(lo, s.search(list, span.End))]
}

// search is the place of the first sample at or after t.
func (s *series) search(list []int, t time.Time) int {
	return sort.Search(len(list), func(k int) bool { return !s.samples[list[k]].Time.Before(t) })
}
