package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/events"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/ledger"
)

var (
	// ErrEvidence means that a blob may not be erased: it is a telemetry segment
	// or signal registry, which verdicts rest on.
	ErrEvidence = errors.New("evidence may not be erased")
	// ErrNoBlob means that neither a file nor a record knows a ref.
	ErrNoBlob = errors.New("no file and no record has this ref")
)

// EraseConfig says what to erase.
type EraseConfig struct {
	Dir      Dir
	Evidence Evidence // the ledger of Dir
	Ref      string
	Reason   string // a code
	As       string // operator/NAME
	// Publish sends an event as As; called once at most, and not for a blob
	// whose erasure is recorded already.
	Publish  func(ctx context.Context, event []byte) (publish.Receipt, error)
	Progress func(done, total ledger.Seq)
}

// Erased is what Erase did.
type Erased struct {
	Ref     string `json:"ref"`
	Reason  string `json:"reason"`  // as recorded
	Records int64  `json:"records"` // that name the blob
	Removed bool   `json:"removed"` // its file was there
	publish.Receipt
}

// Erase records that the content of a blob is erased and then removes it:
//
//  1. The whole ledger is read for records that name the blob. A sealed
//     segment, or a file that is none of this store's content, is refused.
//  2. blob.erased is published, and stored before Publish returns.
//  3. The file is removed, durably.
//
// Cut off between 2 and 3, the blob is listed as erased_but_present, and erasing
// it again does 3. The other order would leave a blob that is gone and that
// nobody answers for. The event's id follows from the ref, so that two who erase
// at a time cannot both record it; a repeat gives the receipt of the first.
func Erase(ctx context.Context, c EraseConfig) (Erased, error) {
	name, ok := blob.ParseRef(c.Ref)
	if !ok {
		return Erased{}, fmt.Errorf("%q is no ref of the blob store (sha256: and 64 hex digits)", c.Ref)
	}
	store, err := blob.Open(c.Dir.Blobs())
	if err != nil {
		return Erased{}, err
	}
	content, err := store.Check(name)
	absent := errors.Is(err, blob.ErrNotFound)
	if err != nil && !absent && !errors.Is(err, blob.ErrCorrupt) {
		return Erased{}, err
	}
	if err == nil && !content {
		return Erased{}, fmt.Errorf("%w: %s is no content blob but a segment or registry that verdicts rest on", ErrEvidence, c.Ref)
	}
	m, err := findMentions(ctx, c.Evidence, name, c.Progress)
	if err != nil {
		return Erased{}, err
	}
	switch {
	case m.evidence != nil:
		return Erased{}, fmt.Errorf("%w: %s names %s", ErrEvidence, m.evidence, c.Ref)
	case absent && m.records == 0 && m.erased == nil:
		return Erased{}, fmt.Errorf("%w: %s", ErrNoBlob, c.Ref)
	}
	out := Erased{Ref: c.Ref, Reason: c.Reason, Records: m.records, Removed: !absent}
	if m.erased != nil {
		out.Reason, out.Receipt = m.erased.reason, m.erased.receipt
	} else if out.Receipt, err = c.publish(ctx); err != nil {
		return Erased{}, err
	}
	if err := store.Remove(name); err != nil {
		return Erased{}, fmt.Errorf("the erasure is recorded, but the file is still there (erase it again): %w", err)
	}
	return out, nil
}

func (c EraseConfig) publish(ctx context.Context) (publish.Receipt, error) {
	component, capture := "assay erase", "live"
	ev, err := events.Maker{Source: "urn:assay:operator"}.New(&events.BlobErased{
		Context: events.Context{Component: &component, Capture: &capture, Author: &c.As}, Ref: c.Ref, Reason: c.Reason,
	})
	if err != nil {
		return publish.Receipt{}, err
	}
	ev.ID = events.DerivedID(events.TypeBlobErased, c.Ref).String()
	raw, err := events.Encode(ev)
	if err != nil {
		return publish.Receipt{}, err
	}
	return c.Publish(ctx, raw)
}

// mentions are the records that name a blob.
type mentions struct {
	records  int64 // by their dataref
	evidence *mention
	erased   *erasedBy // the first erasure
}

type mention struct {
	seq ledger.Seq
	typ string
}

func (m *mention) String() string { return fmt.Sprintf("record %d (%s)", m.seq, m.typ) }

type erasedBy struct {
	reason  string
	receipt publish.Receipt
}

// findMentions reads the ledger and not the views: what decides about evidence
// must not lag behind. Records without the name in them are not decoded.
func findMentions(ctx context.Context, e Evidence, name string, progress func(done, total ledger.Seq)) (m mentions, err error) {
	last, err := e.Head(ctx)
	if err != nil || last == 0 {
		return m, err
	}
	plain, escaped := []byte(name), []byte(`\u00`) // JSON may spell any letter so
	err = e.Read(ctx, 1, last, func(seq ledger.Seq, body []byte) error {
		if progress != nil && seq%4096 == 0 {
			progress(seq, last)
		}
		if bytes.Contains(body, plain) || bytes.Contains(body, escaped) {
			m.add(seq, body, name)
		}
		return nil
	})
	return m, err
}

func (m *mentions) add(seq ledger.Seq, body []byte, name string) {
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return // a foreign message names nothing
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		if ev, err = events.DecodeEnvelope(r.Event); err != nil {
			return
		}
	}
	if ev.DataRef == blob.Ref(name) {
		m.records++
	}
	var cites bool
	switch d := ev.Data.(type) {
	case *events.TelemetrySealed:
		cites = d.SHA256 == name
	case *events.PredictionResolved:
		cites = d.RegistrySHA256 == name || slices.Contains(d.Evidence.Refs, name)
	case *events.PredictionResolutionAmended:
		cites = d.RegistrySHA256 == name || slices.Contains(d.Evidence.Refs, name)
	case *events.PredictionArmed:
		cites = d.RegistrySHA256 == name
	case *events.BlobErased:
		if d.Ref == blob.Ref(name) && m.erased == nil && strings.HasPrefix(r.Principal, "operator/") {
			n := uint64(seq)
			m.erased = &erasedBy{d.Reason, publish.Receipt{Seq: &n, Leaf: r.Leaf().String(), RecordedAt: ledger.FormatTime(r.RecordedAt)}}
		}
	}
	if cites && m.evidence == nil {
		m.evidence = &mention{seq, ev.Type}
	}
}
