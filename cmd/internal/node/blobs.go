package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/internal/blob"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// BlobState is what the store and the ledger together say of a blob.
type BlobState string

// The states of a blob.
const (
	BlobPresent BlobState = "present"
	// BlobMissing: a record names it, nobody erased it, and it is not there.
	BlobMissing BlobState = "missing"
	BlobErased  BlobState = "erased"
	// BlobErasedButPresent: the ledger says that it was erased, but the file is
	// there: the erasure was cut off, or a copy was put back.
	BlobErasedButPresent BlobState = "erased_but_present"
	BlobCorrupt          BlobState = "corrupt" // the file's bytes are not those it is named for
)

// BlobStatus is one blob.
type BlobStatus struct {
	Ref      string        `json:"ref"`
	State    BlobState     `json:"state"`
	Size     *int64        `json:"size"`      // of the file in bytes, its header included; null without one
	FirstSeq ledger.Seq    `json:"first_seq"` // first record that names it; 0 if none does
	Records  int64         `json:"records"`   // that name it
	Erased   *view.Erasure `json:"erased,omitzero"`
}

// Files sums files by number and bytes.
type Files struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (f *Files) add(size int64) {
	f.Count++
	f.Bytes += size
}

// BlobList is everything that stands in the store or that records name.
type BlobList struct {
	Blobs []BlobStatus `json:"blobs"`
	// Others are files without a content blob's header that no record names in
	// its dataref: telemetry segments and signal registries.
	Others Files `json:"others"`
}

// stateOf reads the file, if there is one.
func stateOf(store *blob.Store, name string, erased bool) (BlobState, error) {
	_, err := store.Check(name)
	switch {
	case errors.Is(err, blob.ErrNotFound) && erased:
		return BlobErased, nil
	case errors.Is(err, blob.ErrNotFound):
		return BlobMissing, nil
	case erased && (err == nil || errors.Is(err, blob.ErrCorrupt)):
		return BlobErasedButPresent, nil
	case errors.Is(err, blob.ErrCorrupt):
		return BlobCorrupt, nil
	}
	return BlobPresent, err
}

// ListBlobs joins the views with the store; s is nil when there are no views
// yet. It reads every content blob through.
func ListBlobs(dir Dir, s *projector.State) (BlobList, error) {
	store, err := blob.Open(dir.Blobs())
	if err != nil {
		return BlobList{}, err
	}
	known, err := namedBlobs(s)
	if err != nil {
		return BlobList{}, err
	}
	out := BlobList{Blobs: []BlobStatus{}}
	err = store.List(func(f blob.File) error {
		b, named := known[blob.Ref(f.Name)]
		if !named {
			content, err := store.IsContent(f.Name)
			if errors.Is(err, blob.ErrNotFound) {
				return nil // erased meanwhile
			}
			if err != nil {
				return err
			}
			if !content {
				out.Others.add(f.Size)
				return nil
			}
			b = &BlobStatus{Ref: blob.Ref(f.Name)}
			known[b.Ref] = b
		}
		b.Size = &f.Size
		return nil
	})
	if err != nil {
		return BlobList{}, err
	}
	for _, ref := range slices.Sorted(maps.Keys(known)) {
		b := known[ref]
		name, ok := blob.ParseRef(ref)
		if !ok {
			continue // an erasure of something that was never a blob here
		}
		if b.State, err = stateOf(store, name, b.Erased != nil); err != nil {
			return BlobList{}, err
		}
		out.Blobs = append(out.Blobs, *b)
	}
	return out, nil
}

// namedBlobs are those that records of any namespace name or erase, by ref.
func namedBlobs(s *projector.State) (map[string]*BlobStatus, error) {
	known := map[string]*BlobStatus{}
	if s == nil {
		return known, nil
	}
	namespaces, err := view.BlobNamespaces(s)
	if err != nil {
		return nil, err
	}
	for _, ns := range namespaces {
		err := view.ListBlobs(s, ns, func(v *view.Blob) error {
			b, ok := known[v.Ref]
			if !ok {
				b = &BlobStatus{Ref: v.Ref, FirstSeq: v.FirstSeq, Erased: v.Erased}
				known[v.Ref] = b
			}
			b.FirstSeq = min(b.FirstSeq, v.FirstSeq)
			b.Records += v.Records
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	err = view.ListErasures(s, func(e *view.Erasure) error {
		if known[e.Ref] == nil {
			known[e.Ref] = &BlobStatus{Ref: e.Ref, Erased: e}
		}
		return nil
	})
	return known, err
}

// StatBlob says what became of the blob of a dataref; ErrNotFound for a ref of
// another form. s is nil when there are no views yet.
func StatBlob(dir Dir, s *projector.State, ref string) (BlobStatus, error) {
	name, ok := blob.ParseRef(ref)
	if !ok {
		return BlobStatus{}, fmt.Errorf("%w: %q is no ref of the blob store (sha256: and 64 hex digits)", ErrNotFound, ref)
	}
	store, err := blob.Open(dir.Blobs())
	if err != nil {
		return BlobStatus{}, err
	}
	b := BlobStatus{Ref: ref}
	if s != nil {
		found, err := view.FindBlob(s, ref)
		if err != nil {
			return BlobStatus{}, err
		}
		for _, v := range found {
			if b.FirstSeq == 0 || v.FirstSeq < b.FirstSeq {
				b.FirstSeq = v.FirstSeq
			}
			b.Records += v.Records
		}
		if b.Erased, err = view.GetErasure(s, ref); err != nil {
			return BlobStatus{}, err
		}
	}
	if size, err := store.Size(name); err == nil {
		b.Size = &size
	} else if !errors.Is(err, blob.ErrNotFound) {
		return BlobStatus{}, err
	}
	b.State, err = stateOf(store, name, b.Erased != nil)
	return b, err
}

// listedBlob is a blob of a namespace with its state in the store.
type listedBlob struct {
	view.Blob
	State BlobState `json:"state"`
}

// withState joins what view.List lists with the store.
func withState(dir Dir, fn func(any) error) (func(any) error, error) {
	store, err := blob.Open(dir.Blobs())
	if err != nil {
		return nil, err
	}
	return func(v any) error {
		b, ok := v.(*view.Blob)
		if !ok {
			return fn(v)
		}
		name, _ := blob.ParseRef(b.Ref)
		state, err := stateOf(store, name, b.Erased != nil)
		if err != nil {
			return err
		}
		return fn(listedBlob{*b, state})
	}, nil
}
