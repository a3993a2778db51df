package view

import (
	"errors"
	"time"

	"assay/events"
	"assay/internal/blob"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Blob is a blob that records of a namespace name by their dataref. Whether it
// is there is no matter of the ledger.
type Blob struct {
	Namespace string     `json:"namespace"`
	Ref       string     `json:"ref"`
	FirstSeq  ledger.Seq `json:"first_seq"`
	LastSeq   ledger.Seq `json:"last_seq"`
	Records   int64      `json:"records"`
	Erased    *Erasure   `json:"erased,omitzero"`
}

// Erasure is the operator's word that a blob's content was removed, wherever
// records name it.
type Erasure struct {
	Ref        string     `json:"ref"`
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	Reason     string     `json:"reason"`
	Repeats    int64      `json:"repeats"` // further records; without effect
}

const (
	blobKind    = "b"
	erasureKind = "e"
)

type blobs struct{}

func (blobs) Name() string { return Blobs }
func (blobs) Version() int { return 1 }

// Apply implements projector.Projection. A dataref of another form names
// nothing in the blob store.
func (blobs) Apply(b *projector.Batch, r *projector.Record) error {
	d, erased := r.Event.Data.(*events.BlobErased)
	if erased && r.Role() != roleOperator {
		return forbidden(r)
	}
	if erased {
		e, ok := projector.Edit[Erasure](b, key(erasureKind, d.Ref))
		if ok {
			e.Repeats++
		} else {
			*e = Erasure{Ref: d.Ref, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Reason: d.Reason}
		}
	}
	ref := r.Event.DataRef
	if ref == "" {
		return nil
	}
	if _, ok := blob.ParseRef(ref); !ok {
		return nil
	}
	v, ok := projector.Edit[Blob](b, key(blobKind, r.Namespace, ref))
	if !ok {
		v.Namespace, v.Ref, v.FirstSeq = r.Namespace, ref, r.Seq
		addPlace(b, r.Namespace)
	}
	v.LastSeq = r.Seq
	v.Records++
	return nil
}

// ListBlobs calls fn for the blobs that records of a namespace name, in the
// order of refs.
func ListBlobs(s *projector.State, namespace string, fn func(*Blob) error) error {
	return list(s, Blobs, func(v *Blob) (err error) {
		if v.Erased, err = GetErasure(s, v.Ref); err != nil {
			return err
		}
		return fn(v)
	}, blobKind, namespace)
}

// FindBlob reads what the namespaces say of a ref, one value each.
func FindBlob(s *projector.State, ref string) ([]Blob, error) {
	found, err := find[Blob](s, Blobs, blobKind, ref)
	for i := range found {
		if found[i].Erased, err = GetErasure(s, ref); err != nil {
			return nil, err
		}
	}
	return found, err
}

// BlobNamespaces are the namespaces in which any record names a blob.
func BlobNamespaces(s *projector.State) ([]string, error) {
	v, err := projector.Load[places](s, Blobs, placesKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.Namespaces, nil
}

// GetErasure reads the erasure of a ref; nil when there is none.
func GetErasure(s *projector.State, ref string) (*Erasure, error) {
	e, err := projector.Load[Erasure](s, Blobs, key(erasureKind, ref))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	return e, err
}

// ListErasures calls fn for every erasure in the order of refs.
func ListErasures(s *projector.State, fn func(*Erasure) error) error {
	return list(s, Blobs, fn, erasureKind)
}
