package projector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/internal/kv"
	"assay/ledger"
)

// Whoever computes something from many values need not do all of it again when a
// few of them changed: it goes through them page by page, keeps what each page
// gave and which chunks were read for it, and asks later which of these changed.

// Page is a chunk of the values of one prefix of a projection: those whose keys
// are at From or behind it, and before To. An empty To is the prefix's end.
type Page struct {
	Projection, Prefix string
	From, To           string
}

// Pages cuts the values of a prefix where the projection's chunks are cut, so
// that equal states have equal pages.
func (s *State) Pages(projection, prefix string) ([]Page, error) {
	c, err := s.cursor(projection)
	if err != nil {
		return nil, err
	}
	pages := []Page{{Projection: projection, Prefix: prefix, From: prefix}}
	cut := func(start []byte) {
		if string(start) != prefix {
			pages[len(pages)-1].To = string(start)
			pages = append(pages, Page{Projection: projection, Prefix: prefix, From: string(start)})
		}
	}
	if !c.chunked {
		state := stateOf(c.Projection, c.Version)
		err = s.r.Scan([]byte(state+prefix), nil, func(k, _ []byte) error {
			if k = k[len(state):]; startsChunk(k) {
				cut(k)
			}
			return nil
		})
		return pages, err
	}
	chunks := chunksOf(c.Projection, c.Version)
	err = s.r.Scan([]byte(chunks+prefix), nil, func(k, _ []byte) error {
		cut(k[len(chunks):])
		return nil
	})
	return pages, err
}

// On is the state of which a Scan of the page's prefix sees the page alone.
func (s *State) On(page Page) *State {
	out := *s
	out.page = &page
	return &out
}

// scanPage is the scan of s.page's prefix.
func (s *State) scanPage(state string, each func(k, data []byte) error) error {
	g := s.page
	s.trace.note(g.Projection, g.From, cmp.Or(g.To, prefixEnd(g.Prefix)))
	var after []byte
	if g.From != g.Prefix { // it is the first key of its chunk
		after = []byte(state + g.From)
		data, err := s.r.Get(after)
		if err == nil {
			err = each(after, data)
		}
		if errors.Is(err, kv.ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	end := []byte(state + g.To)
	return s.r.Scan([]byte(state+g.Prefix), after, func(k, data []byte) error {
		if g.To != "" && bytes.Compare(k, end) >= 0 {
			return kv.ErrStop
		}
		return each(k, data)
	})
}

// prefixEnd is behind every key with the prefix.
func prefixEnd(prefix string) string {
	return cmp.Or(string(kv.PrefixEnd([]byte(prefix))), "\xff") // keys are UTF-8
}

// Chunks says when the chunks of the state last changed, and what a reader of it
// read.
type Chunks struct {
	starts map[string][]chunkAt // by projection
	reads  map[ChunkID]struct{}
}

// ChunkID names a chunk.
type ChunkID struct{ Projection, Start string }

// Traced is the state with its chunks: what is read through it is noted there.
// The ledger's own numbers change with every record and are not. ErrNoState when
// the store does not keep chunks.
func (s *State) Traced() (*State, *Chunks, error) {
	out := &Chunks{starts: make(map[string][]chunkAt), reads: make(map[ChunkID]struct{})}
	for _, c := range s.cursors {
		if !c.chunked {
			return nil, nil, fmt.Errorf("%w with chunks", ErrNoState)
		}
		x, err := openChunks(s.r, nil, c)
		if err != nil {
			return nil, nil, err
		}
		out.starts[c.Projection] = x.list
	}
	traced := *s
	traced.trace = out
	return &traced, out, nil
}

// Changed calls fn for each chunk that a commit behind the record since changed.
func (c *Chunks) Changed(since ledger.Seq, fn func(ChunkID)) {
	for projection, list := range c.starts {
		for _, at := range list {
			if at.stamp > since {
				fn(ChunkID{projection, at.start})
			}
		}
	}
}

// Take are the chunks that were read since it was last called.
func (c *Chunks) Take() []ChunkID {
	out := slices.Collect(maps.Keys(c.reads))
	clear(c.reads)
	return out
}

// Settled is the state for reads whose result cannot change any more, whatever
// is recorded: they are not noted.
func (s *State) Settled() *State {
	out := *s
	out.trace = nil
	return &out
}

// note that the keys from from to to were read; an empty to is from alone.
func (c *Chunks) note(projection, from, to string) {
	if c == nil || projection == ledgerName {
		return
	}
	list := c.starts[projection]
	i, found := slices.BinarySearchFunc(list, from, func(at chunkAt, key string) int { return cmp.Compare(at.start, key) })
	if !found {
		i--
	}
	c.reads[ChunkID{projection, list[i].start}] = struct{}{}
	for i++; i < len(list) && list[i].start < to; i++ {
		c.reads[ChunkID{projection, list[i].start}] = struct{}{}
	}
}
