package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"

	"assay/events"
	"assay/ledger"
	"assay/projector/metric"
	"assay/projector/view"
)

// Session is what one rater makes of a published sample: what she has labelled, what
// is left, and the writing of labels, wherever she is asked. It is for one caller at a
// time.
type Session struct {
	Week, Set string
	Sample    uint64 // record that has the sample
	Seed      string // by which it was drawn
	Rater     string // operator in whose name labels are written
	Cases     []Case
	Labels    []view.Label // of any rater; those of others are never shown
	// Texts has the text of a case in a file ID.txt, the id percent-encoded; nil for
	// none.
	Texts fs.FS
	// Publish sends an event in the rater's name and returns its record's number, nil
	// where the ledger had it already and does not say. Without it nothing is written.
	Publish func(ctx context.Context, event []byte) (*uint64, error)
}

// Outcome is what came of a label.
type Outcome struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Written is false where the rater had labelled the case before, in the record Seq
	// as far as it is known.
	Written bool           `json:"written"`
	Seq     *uint64        `json:"seq,omitzero"`
	Event   events.Payload `json:"event,omitzero"` // what would be written, without Publish
}

// Mine is the rater's own label of a case; nil when there is none.
func (s *Session) Mine(c *Case) *view.Label {
	for i := range s.Labels {
		v := &s.Labels[i]
		if v.Kind == c.Kind && v.ID == c.ID && v.Rater == s.Rater && v.RubricVersion == Rubric && v.Type == TypeOf(s.Set) {
			return v
		}
	}
	return nil
}

// Left is how many cases the rater has not labelled yet.
func (s *Session) Left() (n int) {
	for i := range s.Cases {
		if s.Mine(&s.Cases[i]) == nil {
			n++
		}
	}
	return n
}

// ErrNoText means that the text of a case is not there, without which it must not be
// labelled.
var ErrNoText = errors.New("the text of a case cannot be read")

// Text is the text of a case; "" where there is none and none is needed. An error does
// not name the file, since its name is the id.
func (s *Session) Text(c *Case) (string, error) {
	if s.Texts == nil {
		return "", nil
	}
	text, err := fs.ReadFile(s.Texts, url.PathEscape(c.ID)+".txt")
	if errors.Is(err, fs.ErrNotExist) && !c.Hidden {
		return "", nil
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoText, err)
	}
	if c.Hidden && len(bytes.TrimSpace(text)) == 0 { // no turn that was judged is empty: it was lost
		return "", fmt.Errorf("%w: it is empty", ErrNoText)
	}
	return string(text), nil
}

// Label is a label of a case without answers.
func (s *Session) Label(c *Case, blind bool) *view.Label {
	return &view.Label{
		Type: TypeOf(s.Set), Kind: c.Kind, ID: c.ID, SampleSeq: &s.Sample, Stratum: &c.Stratum, Rater: s.Rater, Principal: s.Rater, RubricVersion: Rubric,
		// In the outcomes a turn is one that the detector found nothing in.
		Blind: blind && !(s.Set == metric.SetOutcomes && c.Kind == view.LabelTurn),
	}
}

// Put writes a label, unless the rater has labelled the case. Its id follows from
// sample, case, rater and rubric, so that two runs at once cannot label a case twice.
func (s *Session) Put(ctx context.Context, c *Case, v *view.Label) (*Outcome, error) {
	out := &Outcome{ID: c.ID, Kind: c.Kind}
	if was := s.Mine(c); was != nil {
		if n := uint64(was.Seq); n > 0 {
			out.Seq = &n
		}
		return out, nil
	}
	data := Data(s.Set, v)
	if s.Publish == nil {
		out.Event = data
		s.Labels = append(s.Labels, *v)
		return out, nil
	}
	ev, err := events.Maker{Source: "urn:assay:operator"}.New(data)
	if err != nil {
		return nil, err
	}
	ev.ID = events.DerivedID(ev.Type, strconv.FormatUint(*v.SampleSeq, 10), v.Kind, v.ID, v.Rater, v.RubricVersion).String()
	raw, err := events.Encode(ev)
	if err != nil {
		return nil, err
	}
	if out.Seq, err = s.Publish(ctx, raw); err != nil {
		return nil, err
	}
	out.Written = true
	if out.Seq != nil {
		v.Seq = ledger.Seq(*out.Seq)
	}
	s.Labels = append(s.Labels, *v)
	return out, nil
}
