package view

import (
	"slices"
	"strconv"
	"time"

	"assay/ledger"
	"assay/projector"
)

// MaxSkew is how far an event's time may lie ahead of the logger's clock before
// it is flagged.
const MaxSkew = 5 * time.Minute

// maxMissing bounds the ranges of missing sequences that are remembered for one
// source in one episode.
const maxMissing = 64

// Episode is what is known of an episode without reading its records.
type Episode struct {
	Namespace string           `json:"namespace"`
	EpisodeID string           `json:"episode_id"`
	FirstSeq  ledger.Seq       `json:"first_seq"`
	LastSeq   ledger.Seq       `json:"last_seq"`
	FirstAt   time.Time        `json:"first_at"` // recorded_at
	LastAt    time.Time        `json:"last_at"`
	Records   int64            `json:"records"`
	Counts    map[string]int64 `json:"counts"` // by event type
	Skewed    int64            `json:"skewed"` // records whose event time is over MaxSkew ahead
}

// Range is an inclusive range of a source's own sequence numbers.
type Range struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// SourceSequence follows the sequence attribute of one source in one episode.
// Gaps and repeats are reported, not repaired.
type SourceSequence struct {
	Namespace string  `json:"namespace"`
	EpisodeID string  `json:"episode_id"`
	Principal string  `json:"principal"`
	Source    string  `json:"source"`
	First     uint64  `json:"first"` // lowest sequence seen
	Last      uint64  `json:"last"`  // highest
	Records   int64   `json:"records"`
	Missing   []Range `json:"missing,omitzero"` // not seen so far, in order
	// Forgotten counts the missing ranges beyond the first 64; a late record of
	// one of those is taken for a repeat.
	Forgotten int64 `json:"forgotten,omitzero"`
	Late      int64 `json:"late"` // arrived after a higher one
	Repeats   int64 `json:"repeats"`
	Malformed int64 `json:"malformed"` // not a number of 64 bits
}

// Skew is a record whose event time is more than MaxSkew ahead of the logger.
type Skew struct {
	Seq        ledger.Seq `json:"seq"`
	Principal  string     `json:"principal"`
	Type       string     `json:"type"`
	EventTime  time.Time  `json:"event_time"`
	RecordedAt time.Time  `json:"recorded_at"`
}

const (
	episodeKind = "e"
	sourceKind  = "s"
	skewKind    = "k"
)

type episodes struct{}

func (episodes) Name() string { return Episodes }
func (episodes) Version() int { return 2 }

// Apply implements projector.Projection.
func (episodes) Apply(b *projector.Batch, r *projector.Record) error {
	skewed := !r.EventTime.IsZero() && r.EventTime.After(r.RecordedAt.Add(MaxSkew))
	if skewed {
		k, _ := projector.Edit[Skew](b, key(skewKind, r.Namespace, projector.SeqKey(r.Seq)))
		*k = Skew{Seq: r.Seq, Principal: r.Principal, Type: r.Event.Type, EventTime: r.EventTime.UTC(), RecordedAt: r.RecordedAt}
	}
	if r.Event.EpisodeID == "" {
		return nil
	}
	e, ok := projector.Edit[Episode](b, key(episodeKind, r.Namespace, r.Event.EpisodeID))
	if !ok {
		*e = Episode{
			Namespace: r.Namespace, EpisodeID: r.Event.EpisodeID,
			FirstSeq: r.Seq, FirstAt: r.RecordedAt, Counts: make(map[string]int64),
		}
	}
	e.LastSeq, e.LastAt = r.Seq, r.RecordedAt
	e.Records++
	e.Counts[r.Event.Type]++
	if skewed {
		e.Skewed++
	}
	if r.Event.Sequence != "" {
		followSequence(b, r)
	}
	return nil
}

func followSequence(b *projector.Batch, r *projector.Record) {
	s, ok := projector.Edit[SourceSequence](b, key(sourceKind, r.Namespace, r.Event.EpisodeID, r.Principal, r.Event.Source))
	if !ok {
		s.Namespace, s.EpisodeID, s.Principal, s.Source = r.Namespace, r.Event.EpisodeID, r.Principal, r.Event.Source
	}
	n, err := strconv.ParseUint(r.Event.Sequence, 10, 64)
	if err != nil {
		s.Malformed++
		return
	}
	s.take(n)
}

func (s *SourceSequence) take(n uint64) {
	s.Records++
	switch {
	case s.Records == 1:
		s.First, s.Last = n, n
	case n > s.Last:
		if n > s.Last+1 {
			s.miss(Range{s.Last + 1, n - 1})
		}
		s.Last = n
	case n < s.First:
		// What lies before the first record seen was no gap until now.
		s.Late++
		if n+1 < s.First {
			s.miss(Range{n + 1, s.First - 1})
		}
		s.First = n
	case s.fill(n):
		s.Late++
	default:
		s.Repeats++
	}
}

func (s *SourceSequence) miss(r Range) {
	if len(s.Missing) >= maxMissing {
		s.Forgotten++
		return
	}
	at, _ := slices.BinarySearchFunc(s.Missing, r.From, func(m Range, from uint64) int {
		if m.From < from {
			return -1
		}
		return 1
	})
	s.Missing = slices.Insert(s.Missing, at, r)
}

// fill takes n out of the missing ranges; false when it is not missing.
func (s *SourceSequence) fill(n uint64) bool {
	for i, m := range s.Missing {
		if n < m.From || n > m.To {
			continue
		}
		var rest []Range
		if m.From < n {
			rest = append(rest, Range{m.From, n - 1})
		}
		if n < m.To {
			rest = append(rest, Range{n + 1, m.To})
		}
		s.Missing = slices.Replace(s.Missing, i, i+1, rest...)
		return true
	}
	return false
}

// GetEpisode reads one episode; kv.ErrNotFound when there is none.
func GetEpisode(s *projector.State, namespace, episodeID string) (*Episode, error) {
	return projector.Load[Episode](s, Episodes, key(episodeKind, namespace, episodeID))
}

// ListEpisodes calls fn for a namespace's episodes in the order of their ids.
func ListEpisodes(s *projector.State, namespace string, fn func(*Episode) error) error {
	return list(s, Episodes, fn, episodeKind, namespace)
}

// ListEpisodesAfter is ListEpisodes behind an episode; "" is before the first one. The
// namespace is that episode's own, as its row has it: an import of an id stands elsewhere
// than what is live.
func ListEpisodesAfter(s *projector.State, namespace, after string, fn func(*Episode) error) error {
	return projector.Scan(s, Episodes, prefix(episodeKind, RecordedIn(namespace)), key(episodeKind, namespace, after), func(_ string, v *Episode) error { return fn(v) })
}

// ListSequences calls fn for the sources of an episode that number their events.
func ListSequences(s *projector.State, namespace, episodeID string, fn func(*SourceSequence) error) error {
	return list(s, Episodes, fn, sourceKind, namespace, episodeID)
}

// ListSkews calls fn for a namespace's records with a time too far ahead.
func ListSkews(s *projector.State, namespace string, fn func(*Skew) error) error {
	return list(s, Episodes, fn, skewKind, namespace)
}
