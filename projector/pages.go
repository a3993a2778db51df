package projector

import (
	"bytes"
	"errors"
	"slices"

	"assay/internal/kv"
	"assay/ledger"
)

// Whoever computes something from many values need not do all of it again when a
// few of them changed: it goes through them page by page, and keeps what each page
// gave and the marks of what was read for it (kept.go).

// Page is a chunk of the values of one prefix of a projection: those whose keys
// are at From or behind it, and before To. An empty To is the prefix's end.
type Page struct {
	Projection, Prefix string
	From, To           string
	// Changed is the record of the last commit that changed a value of the page or
	// brought one. Of a prefix's first page, which is part of a chunk, it is 0: what
	// is read of it is noted as all of the prefix.
	Changed ledger.Seq
}

// Pages cuts the values of a prefix where the projection's chunks are cut, so that
// equal states have equal pages; ErrNoState when the store does not keep chunks.
func (s *State) Pages(projection, prefix string) ([]Page, error) {
	c, err := s.cursor(projection)
	if err != nil {
		return nil, err
	}
	if !c.chunked {
		return nil, ErrNoState
	}
	chunks := chunksOf(c.Projection, c.Version)
	pages := []Page{{Projection: projection, Prefix: prefix, From: prefix}}
	err = s.r.Scan([]byte(chunks+prefix), nil, func(k, v []byte) error {
		stamp, _, _, err := decodeChunk(v)
		if err != nil {
			return err
		}
		if start := string(k[len(chunks):]); start != prefix {
			pages[len(pages)-1].To = start
			pages = append(pages, Page{Projection: projection, Prefix: prefix, From: start, Changed: stamp})
		}
		return nil
	})
	return pages, err
}

// On is the state of which a Scan of the page's prefix sees the page alone. Of the
// prefixes of the others a Scan sees nothing.
func (s *State) On(page Page, others ...Page) *State {
	out := *s
	out.page, out.hidden = &page, others
	return &out
}

func (s *State) hides(projection, prefix string) bool {
	return slices.ContainsFunc(s.hidden, func(p Page) bool {
		return p.Projection == projection && p.Prefix == prefix && (s.page == nil || s.page.Projection != projection || s.page.Prefix != prefix)
	})
}

// scanPage is the scan of s.page's prefix.
func (s *State) scanPage(state string, each func(k, data []byte) error) error {
	g := s.page
	var after []byte
	if g.From == g.Prefix {
		s.trace.note(g.Projection, g.Prefix)
	} else { // it is the first key of its chunk
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

// Traced is the state through which what is read is noted in the Trace, and decoded
// once: of a value only its own fields may be changed, not what they refer to. What a
// page shows is not noted (Page.Changed), nor are the ledger's own numbers, which
// change with every record.
func (s *State) Traced() (*State, *Trace) {
	out := *s
	out.trace = &Trace{marks: map[uint32]struct{}{}}
	out.memo = memo{}
	return &out, out.trace
}

// Settled is the state for reads whose result cannot change any more, whatever
// is recorded: they are not noted.
func (s *State) Settled() *State {
	out := *s
	out.trace = nil
	return &out
}
