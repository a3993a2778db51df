package node

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/blob"
	"assay/ledger/broker"
)

// Quarantine is what QUARANTINE holds: raw bytes of refused messages, which may
// have the same text in them as an erased blob. The oldest make way for new ones.
type Quarantine struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Oldest   string `json:"oldest,omitzero"` // RFC 3339; absent without messages
}

// Quarantine asks the broker.
func (l *Logger) Quarantine(ctx context.Context) (Quarantine, error) {
	js, err := jetstream.New(l.store)
	if err != nil {
		return Quarantine{}, err
	}
	s, err := js.Stream(ctx, broker.QuarantineStream)
	if err != nil {
		return Quarantine{}, err
	}
	state := s.CachedInfo().State
	q := Quarantine{Messages: state.Msgs, Bytes: state.Bytes}
	if state.Msgs > 0 {
		q.Oldest = state.FirstTime.UTC().Format(time.RFC3339)
	}
	return q, nil
}

func (l *Logger) routes(mux *http.ServeMux) {
	handle(mux, "GET /quarantine", func(r *http.Request) (any, error) { return l.Quarantine(r.Context()) })
}

// askQuarantine is nil when no logger answers on the directory.
func askQuarantine(ctx context.Context, dir Dir) (*Quarantine, error) {
	for _, socket := range []string{dir.Socket(), dir.service("logger")} {
		var q Quarantine
		err := Ask(ctx, socket, "GET", "/quarantine", nil, &q)
		if err == nil {
			return &q, nil
		}
		if !errors.Is(err, ErrNotServed) && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return nil, nil
}

// Residue is where the content of erased blobs may still be.
type Residue struct {
	// Present are refs that are erased but whose file is in DIR.
	Present []string `json:"present"`
	// Unfinished are files that an interrupted put left in the store; they have
	// no name and may hold anything.
	Unfinished Files         `json:"unfinished"`
	Copies     []CopyResidue `json:"copies"`
	Snapshots  int           `json:"snapshots"` // of the views, which never hold a blob's content
	// Quarantine is null when no logger runs to ask.
	Quarantine *Quarantine `json:"quarantine"`
	Note       string      `json:"note"`
}

// CopyResidue is a copy that assay made and what it still holds.
type CopyResidue struct {
	Copy
	Reachable bool     `json:"reachable"` // from here; else nothing is known of it
	Holds     []string `json:"holds"`     // refs of those asked for whose file is in it
}

const otherCopies = "copies made by other means (file system snapshots, tail --raw, producers' own files) are not known"

// FindResidue looks for what stays behind after blobs with these refs were erased.
func FindResidue(ctx context.Context, dir Dir, refs []string) (Residue, error) {
	r := Residue{Copies: []CopyResidue{}, Note: otherCopies}
	store, err := blob.Open(dir.Blobs())
	if err != nil {
		return r, err
	}
	if r.Present, err = heldBy(store, refs); err != nil {
		return r, err
	}
	if r.Unfinished.Count, r.Unfinished.Bytes, err = store.Leftovers(); err != nil {
		return r, err
	}
	noted, err := Copies(dir)
	if err != nil {
		return r, err
	}
	for _, c := range noted {
		found, err := lookInto(c, refs)
		if err != nil {
			return r, err
		}
		r.Copies = append(r.Copies, found)
	}
	snapshots, err := os.ReadDir(dir.Snapshots())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	r.Snapshots = len(snapshots)
	r.Quarantine, err = askQuarantine(ctx, dir)
	return r, err
}

func lookInto(c Copy, refs []string) (CopyResidue, error) {
	out := CopyResidue{Copy: c, Holds: []string{}}
	if _, err := os.Stat(c.Path); err != nil {
		return out, nil // gone, not mounted, or not ours to read
	}
	out.Reachable = true
	if c.Kind != CopyBackup {
		return out, nil
	}
	store, err := blob.OpenExisting(filepath.Join(c.Path, backupBlobs))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		out.Holds, err = heldBy(store, refs)
	}
	return out, err
}

// heldBy are the refs of which a store has the file, whole or not.
func heldBy(store *blob.Store, refs []string) ([]string, error) {
	held := []string{}
	for _, ref := range refs {
		name, ok := blob.ParseRef(ref)
		if !ok {
			continue
		}
		_, err := store.Size(name)
		if err == nil {
			held = append(held, ref)
		} else if !errors.Is(err, blob.ErrNotFound) {
			return nil, err
		}
	}
	return held, nil
}
