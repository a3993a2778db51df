package projector_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestSnapshot(t *testing.T) {
	l := mixed(5, 120)
	base := t.TempDir()
	db := mustOpen(t, base+"/live")
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	dir := base + "/snapshots"
	if list, err := projector.ListSnapshots(dir); err != nil || len(list) != 0 {
		t.Fatalf("no snapshots: %v, %v", list, err)
	}
	var paths []string
	for _, to := range []ledger.Seq{50, 120} {
		if err := r.CatchUp(ctx, to); err != nil {
			t.Fatal(err)
		}
		path, m, err := r.Snapshot(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := mustReplay(t, l, to, view.All()...).Digest; fmt.Sprint(m.Digest) != fmt.Sprint(want) {
			t.Errorf("manifest %+v, replay %+v", m.Digest, want)
		}
		paths = append(paths, path)
	}
	if again, _, err := r.Snapshot(ctx, dir); err != nil || again != paths[1] {
		t.Errorf("second snapshot of a record: %s, %v", again, err)
	}
	list, err := projector.ListSnapshots(dir)
	if err != nil || len(list) != 2 || list[0].Path != paths[0] || list[1].Manifest.Seq != 120 {
		t.Errorf("list %+v, %v", list, err)
	}
	for _, p := range paths {
		if _, err := projector.VerifySnapshot(p); err != nil {
			t.Error(err)
		}
	}
	s, sdb, err := projector.OpenSnapshot(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if seq, _, err := s.At(); err != nil || seq != 50 {
		t.Errorf("snapshot at %d, %v", seq, err)
	}
	sdb.Close()

	manifest := paths[0] + "/manifest.json"
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(manifest, []byte(strings.Replace(string(data), `"seq":50`, `"seq":51`, 1)), 0o600)
	if _, err := projector.VerifySnapshot(paths[0]); !errors.Is(err, projector.ErrSnapshot) || !strings.Contains(err.Error(), "seq is 50") {
		t.Errorf("altered manifest: %v", err)
	}
	tampered := mustOpen(t, paths[1]+"/store")
	b := tampered.NewBatch()
	b.Put([]byte("s/claims/3/c\x00production\x00forged"), []byte(`{}`))
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	tampered.Close()
	if _, err := projector.VerifySnapshot(paths[1]); !errors.Is(err, projector.ErrSnapshot) || !strings.Contains(err.Error(), "digest is") {
		t.Errorf("altered store: %v", err)
	}
}

// TestDigestFormat computes the documented format by hand.
func TestDigestFormat(t *testing.T) {
	l := mixed(5, 12)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: []projector.Projection{tally{version: 3}}})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	var doc []byte
	number := func(n int) { doc = binary.BigEndian.AppendUint64(doc, uint64(n)) }
	sized := func(s []byte) { number(len(s)); doc = append(doc, s...) }
	for _, p := range []struct {
		name    string
		version int
	}{{"ledger", 1}, {"tally", 3}} {
		doc = append(doc, 'P')
		sized([]byte(p.name))
		number(p.version)
		prefix := fmt.Sprintf("s/%s/%d/", p.name, p.version)
		err := db.Scan([]byte(prefix), nil, func(k, v []byte) error {
			doc = append(doc, 'E')
			sized(k[len(prefix):])
			sized(v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(doc)
	if got := mustDigest(t, r); got.SHA256 != hex.EncodeToString(sum[:]) || got.Seq != 12 || got.Leaf != l.Leaf().String() {
		t.Errorf("%+v, want %x", got, sum)
	}
}

func TestReplayToEarlierRecord(t *testing.T) {
	l := mixed(5, 90)
	var seen ledger.Seq
	out, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, To: 60, Projections: view.All(), Dir: t.TempDir(),
		Inspect: func(s *projector.State) (err error) { seen, _, err = s.At(); return err }})
	if err != nil || out.Seq != 60 || seen != 60 || out.Records != 60 {
		t.Errorf("%+v, inspected at %d, %v", out, seen, err)
	}
	if _, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, To: 91, Projections: view.All(), Dir: t.TempDir()}); !errors.Is(err, projector.ErrAhead) {
		t.Errorf("past the head: %v", err)
	}
	if _, err := projector.Replay(ctx, projector.ReplayConfig{Source: ledgertest.New(), Projections: view.All(), Dir: t.TempDir()}); !errors.Is(err, projector.ErrNoState) {
		t.Errorf("empty ledger: %v", err)
	}
}
