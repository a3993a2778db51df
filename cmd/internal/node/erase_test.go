package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/events"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/projector/ledgertest"
)

// bookEvidence is a ledger in memory.
type bookEvidence struct{ *ledgertest.Ledger }

func (bookEvidence) Close() error   { return nil }
func (bookEvidence) Origin() string { return "a test" }

type eraseTest struct {
	t     *testing.T
	dir   Dir
	store *blob.Store
	book  *ledgertest.Ledger
	lost  error // what Publish says after it stored the event
	sent  int
}

func newEraseTest(t *testing.T) *eraseTest {
	e := &eraseTest{t: t, dir: Dir(t.TempDir()), book: ledgertest.New()}
	var err error
	if e.store, err = blob.Open(e.dir.Blobs()); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *eraseTest) put(content string) (name string) {
	name, _, err := e.store.PutContent(strings.NewReader(content), rand.Reader)
	if err != nil {
		e.t.Fatal(err)
	}
	return name
}

func (e *eraseTest) erase(ref string) (Erased, error) {
	return Erase(e.t.Context(), EraseConfig{
		Dir: e.dir, Evidence: bookEvidence{e.book}, Ref: ref, Reason: "subject_request", As: "operator/main",
		Publish: func(_ context.Context, event []byte) (publish.Receipt, error) {
			e.sent++
			seq := uint64(e.book.PutEvent("operator/main", "production", event))
			return publish.Receipt{Seq: &seq, Leaf: e.book.Leaf().String()}, e.lost
		},
	})
}

// An erasure that was cut off between its record and the removal is visible, and
// the next one finishes it with the receipt of the first.
func TestErasureCutOff(t *testing.T) {
	e := newEraseTest(t)
	name := e.put("private")
	e.book.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"}, ledgertest.DataRef(blob.Ref(name)))
	e.lost = errors.New("no answer")
	if _, err := e.erase(blob.Ref(name)); !errors.Is(err, e.lost) {
		t.Fatalf("erase without an answer: %v", err)
	}
	if _, err := e.store.Check(name); err != nil {
		t.Fatalf("the file went before the record was known to be stored: %v", err)
	}
	state, err := stateOf(e.store, name, true)
	if err != nil || state != BlobErasedButPresent {
		t.Errorf("in between: %s, %v", state, err)
	}
	leaf := e.book.Leaf().String()
	for _, removed := range []bool{true, false} {
		out, err := e.erase(blob.Ref(name))
		if err != nil || out.Removed != removed || *out.Seq != 2 || out.Leaf != leaf || out.Records != 1 {
			t.Errorf("again: %+v, %v; want receipt 2 %s and removed %v", out, err, leaf, removed)
		}
	}
	if e.sent != 1 {
		t.Errorf("%d events published, want 1", e.sent)
	}
	if _, err := e.store.Check(name); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestEraseRefuses(t *testing.T) {
	hash := strings.Repeat("0", 64)
	cases := map[string]struct {
		set  func(e *eraseTest) (name string)
		want error
	}{
		"a sealed segment": {func(e *eraseTest) string {
			name := e.put("x") // even in the form of content
			e.book.Put("resolver/main", "production", &events.TelemetrySealed{SHA256: name})
			return name
		}, ErrEvidence},
		"what a resolution cites": {func(e *eraseTest) string {
			name := e.put("x")
			e.book.Put("resolver/main", "production", &events.PredictionResolved{RegistrySHA256: hash, Evidence: events.ResolutionEvidence{Refs: []string{hash, name}}})
			return name
		}, ErrEvidence},
		"what an amendment cites": {func(e *eraseTest) string {
			name := e.put("x")
			e.book.Put("resolver/main", "production", &events.PredictionResolutionAmended{Evidence: events.ResolutionEvidence{Refs: []string{name}}})
			return name
		}, ErrEvidence},
		"the registry of a prediction": {func(e *eraseTest) string {
			name := e.put("x")
			e.book.Put("resolver/main", "production", &events.PredictionArmed{RegistrySHA256: name})
			return name
		}, ErrEvidence},
		"a segment that no record names yet": {func(e *eraseTest) string {
			name, err := e.store.Put([]byte("segment"))
			if err != nil {
				e.t.Fatal(err)
			}
			return name
		}, ErrEvidence},
		"what nobody knows": {func(e *eraseTest) string { return hash }, ErrNoBlob},
		"what only an agent says was erased": {func(e *eraseTest) string {
			e.book.Put("agent/piper", "production", &events.BlobErased{Ref: blob.Ref(hash)})
			return hash
		}, ErrNoBlob},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := newEraseTest(t)
			blobName := c.set(e)
			_, before := e.store.Check(blobName)
			if _, err := e.erase(blob.Ref(blobName)); !errors.Is(err, c.want) {
				t.Errorf("erase: %v, want %v", err, c.want)
			}
			if _, after := e.store.Check(blobName); e.sent != 0 || (before == nil) != (after == nil) {
				t.Errorf("%d events were published; file before: %v, after: %v", e.sent, before, after)
			}
		})
	}
	if _, err := newEraseTest(t).erase("sha256:xyz"); err == nil {
		t.Error("a malformed ref was taken")
	}
}

// A producer may spell the ref with escapes; it names the blob all the same.
func TestEscapedMentionsCount(t *testing.T) {
	e := newEraseTest(t)
	name := e.put("private")
	e.book.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"}, ledgertest.DataRef(blob.Ref(name)))
	raw := bytes.Replace(e.book.Body(1), []byte(name), []byte(`\u00`+"3"+string("0123456789abcdef"[name[0]&0xf])+name[1:]), 1)
	if name[0] >= 'a' {
		raw = bytes.Replace(e.book.Body(1), []byte(name), []byte(`\u006`+string("0123456789abcdef"[name[0]&0xf])+name[1:]), 1)
	}
	book := ledgertest.New()
	book.PutRaw(raw)
	book.PutRaw([]byte(`not a record that names ` + name))
	m, err := findMentions(t.Context(), bookEvidence{book}, name, nil)
	if err != nil || m.records != 1 {
		t.Errorf("%d records name the blob, %v; want 1", m.records, err)
	}
}

func TestCopiesAreRemembered(t *testing.T) {
	dir := Dir(t.TempDir())
	backup, export := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "e")
	for _, n := range []struct {
		kind CopyKind
		path string
		size uint64
	}{{CopyBackup, backup, 10}, {CopyExport, export, 20}, {CopyBackup, backup, 30}, {CopyExport, backup, 40}} {
		if err := NoteCopy(dir, n.kind, n.path, n.size); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Copies(dir)
	if err != nil || len(all) != 3 || all[0].Size != 30 || all[0].Path != backup || all[1].Kind != CopyExport || all[2].Size != 40 {
		t.Errorf("copies: %+v, %v", all, err)
	}
	for name, raw := range map[string]string{
		"another version":   `{"v":2,"copies":[]}`,
		"an unknown member": `{"v":1,"copies":[],"more":1}`,
		"no JSON":           `{`,
	} {
		if err := os.WriteFile(dir.copies(), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Copies(dir); err == nil {
			t.Errorf("%s was read", name)
		}
		if err := NoteCopy(dir, CopyBackup, backup, 50); err == nil {
			t.Errorf("%s was overwritten", name)
		}
	}
}

func TestResidueOfCopies(t *testing.T) {
	e := newEraseTest(t)
	name := e.put("private")
	there, gone, export := t.TempDir(), filepath.Join(t.TempDir(), "unplugged"), t.TempDir()
	old, err := blob.Open(filepath.Join(there, backupBlobs))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := e.store.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Put(raw); err != nil {
		t.Fatal(err)
	}
	for kind, paths := range map[CopyKind][]string{CopyBackup: {there, gone}, CopyExport: {export}} {
		for _, path := range paths {
			if err := NoteCopy(e.dir, kind, path, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.store.Remove(name); err != nil {
		t.Fatal(err)
	}
	r, err := FindResidue(t.Context(), e.dir, []string{blob.Ref(name)})
	if err != nil || len(r.Present) != 0 || len(r.Copies) != 3 || r.Quarantine != nil {
		t.Fatalf("residue: %+v, %v", r, err)
	}
	for _, c := range r.Copies {
		if reachable, holds := c.Path != gone, c.Path == there; c.Reachable != reachable || (len(c.Holds) == 1) != holds {
			t.Errorf("copy %s: %+v", c.Path, c)
		}
	}
}
