package projector_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/kv"
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
		path, m, err := r.Snapshot(ctx, dir, 4)
		if err != nil {
			t.Fatal(err)
		}
		if want := mustReplay(t, l, to, view.All()...).Digest; fmt.Sprint(m.Digest) != fmt.Sprint(want) {
			t.Errorf("manifest %+v, replay %+v", m.Digest, want)
		}
		paths = append(paths, path)
	}
	if again, _, err := r.Snapshot(ctx, dir, 4); err != nil || again != paths[1] {
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
	var seq ledger.Seq
	err = projector.ReadSnapshot(paths[0], func(s *projector.State) (err error) {
		if _, err := projector.VerifySnapshot(paths[0]); !errors.Is(err, kv.ErrLocked) {
			t.Errorf("a snapshot that is open elsewhere: %v", err)
		}
		seq, _, err = s.At()
		return err
	})
	if err != nil || seq != 50 {
		t.Errorf("snapshot at %d, %v", seq, err)
	}
	for ref, want := range map[string]string{"latest": paths[1], "50": paths[0], paths[0]: paths[0], filepath.Base(paths[1]): paths[1]} {
		if got, err := projector.FindSnapshot(dir, ref); err != nil || got.Path != want {
			t.Errorf("%s is %s, %v", ref, got.Path, err)
		}
	}
	for _, ref := range []string{"51", "", dir + "/none"} {
		if _, err := projector.FindSnapshot(dir, ref); !errors.Is(err, projector.ErrNoSnapshot) {
			t.Errorf("%q: %v", ref, err)
		}
	}

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
	claims := view.All()[slices.IndexFunc(view.All(), func(p projector.Projection) bool { return p.Name() == view.Claims })]
	b.Put(fmt.Appendf(nil, "s/claims/%d/c\x00production\x00forged", claims.Version()), []byte(`{}`))
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
	l := mixed(5, 400)
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: []projector.Projection{spread{}}})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	doc := []byte{1}
	sized := func(doc []byte, s []byte) []byte {
		return append(binary.BigEndian.AppendUint64(doc, uint64(len(s))), s...)
	}
	chunks := map[string]int{}
	for _, p := range []struct {
		name    string
		version int
	}{{"ledger", 1}, {"spread", 3}} {
		doc = binary.BigEndian.AppendUint64(sized(append(doc, 'P'), []byte(p.name)), uint64(p.version))
		prefix := fmt.Sprintf("s/%s/%d/", p.name, p.version)
		chunk := []byte{0}
		end := func() {
			sum := sha256.Sum256(chunk)
			doc = append(append(doc, 'C'), sum[:]...)
			chunks[p.name]++
			chunk = []byte{0}
		}
		err := db.Scan([]byte(prefix), nil, func(k, v []byte) error {
			k = k[len(prefix):]
			if crc32.Checksum(k, crc32.MakeTable(crc32.Castagnoli))%64 == 0 {
				end()
			}
			chunk = sized(sized(chunk, k), v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		end()
	}
	if chunks["ledger"] != 1 || chunks["spread"] < 4 {
		t.Errorf("chunks %v", chunks)
	}
	sum := sha256.Sum256(doc)
	if got := mustDigest(t, r); got.SHA256 != hex.EncodeToString(sum[:]) || got.Seq != 400 || got.Leaf != l.Leaf().String() {
		t.Errorf("%+v, want %x", got, sum)
	}
}

// TestSnapshotOfAlteredViews: bytes that changed under the runner do not get a
// digest of their own; whoever verifies the snapshot finds them.
func TestSnapshotOfAlteredViews(t *testing.T) {
	l := mixed(5, 300)
	base := t.TempDir()
	db := mustOpen(t, base+"/live")
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for projector.Stale(db) > 0 {
		if err := projector.Settle(r, 1000); err != nil {
			t.Fatal(err)
		}
	}
	var key, value []byte
	err := db.Scan([]byte("s/claims/"), nil, func(k, v []byte) error {
		key, value = bytes.Clone(k), append(bytes.Clone(v), ' ')
		return nil
	})
	b := db.NewBatch()
	b.Put(key, value)
	if err := errors.Join(err, b.Commit(true)); err != nil {
		t.Fatal(err)
	}
	want := mustReplay(t, l, 0, view.All()...).SHA256
	path, m, err := r.Snapshot(ctx, base+"/snapshots", 4)
	if err != nil || m.SHA256 != want {
		t.Fatalf("manifest %+v, %v; a replay has %s", m, err, want)
	}
	if _, err := projector.VerifySnapshot(path); !errors.Is(err, projector.ErrSnapshot) || !strings.Contains(err.Error(), "digest is") {
		t.Errorf("altered views: %v", err)
	}
	if got := mustDigest(t, r).SHA256; got == want {
		t.Error("the live digest does not show the altered views")
	}
}

// TestOlderSnapshot: one of the format before is listed and told apart.
func TestOlderSnapshot(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(dir+"/00000000000000000007", 0o700)
	os.WriteFile(dir+"/00000000000000000007/manifest.json", []byte(`{"v":1,"seq":7,"leaf":"aa","root":"bb","digest":"cc","versions":[]}`), 0o600)
	list, err := projector.ListSnapshots(dir)
	if err != nil || len(list) != 1 || list[0].Manifest.Seq != 7 || list[0].Problem == "" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := projector.VerifySnapshot(list[0].Path); !errors.Is(err, projector.ErrSnapshotFormat) {
		t.Errorf("verify: %v", err)
	}
	if _, err := projector.FindSnapshot(dir, "7"); !errors.Is(err, projector.ErrNoSnapshot) {
		t.Errorf("find: %v", err)
	}
}

func TestDiffStates(t *testing.T) {
	l := mixed(5, 40)
	open := func(to ledger.Seq, version int) *projector.State {
		db := mustOpen(t, t.TempDir())
		t.Cleanup(func() { db.Close() })
		ps := []projector.Projection{tally{version: version}, spread{}}
		if version == 0 {
			ps = ps[1:]
		}
		if err := mustRunner(t, projector.Config{DB: db, Source: l, Projections: ps}).CatchUp(ctx, to); err != nil {
			t.Fatal(err)
		}
		s, err := projector.NewState(db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	diff := func(a, b *projector.State) string {
		list, err := projector.DiffStates(a, b, 2)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, d := range list {
			text := d.Projection
			for _, v := range []*int{d.VersionA, d.VersionB} {
				if v == nil {
					text += " -"
				} else {
					text += fmt.Sprintf(" v%d", *v)
				}
			}
			out = append(out, fmt.Sprintf("%s +%d -%d ~%d %d %v", text, d.Added, d.Removed, d.Changed, len(d.Keys), d.Equal()))
		}
		return strings.Join(out, "; ")
	}
	a, b := open(30, 1), open(40, 1)
	if got, want := diff(a, a), "ledger v1 v1 +0 -0 ~0 0 true; spread v3 v3 +0 -0 ~0 0 true; tally v1 v1 +0 -0 ~0 0 true"; got != want {
		t.Errorf("the same: %s", got)
	}
	seen := func(s *projector.State) map[string]int {
		out := map[string]int{}
		err := projector.Scan(s, "spread", "seen/", "", func(k string, n *int) error { out[k] = *n; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	added, changed := 10, 0
	before := seen(a)
	for k, n := range seen(b) {
		if was, ok := before[k]; !ok {
			added++
		} else if was != n {
			changed++
		}
	}
	if got, want := diff(a, b), fmt.Sprintf("spread v3 v3 +%d -0 ~%d 2 false", added, changed); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := diff(b, a), fmt.Sprintf("spread v3 v3 +0 -%d ~%d 2 false", added, changed); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := diff(a, open(30, 2)); !strings.Contains(got, "tally v1 v2 +0 -0 ~0 0 false") {
		t.Errorf("another version: %s", got)
	}
	if got := diff(open(30, 0), a); !strings.Contains(got, "tally - v1 +0 -0 ~0 0 false") {
		t.Errorf("a projection more: %s", got)
	}
}

// TestPruneSnapshots: the latest stay, the last of each closed week does, and
// what somebody reads; what a crash left does not.
func TestPruneSnapshots(t *testing.T) {
	l := ledgertest.New()
	base := t.TempDir() + "/[house]" // which is no pattern
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := base + "/snapshots"
	db := mustOpen(t, base+"/live")
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	var paths []string
	for i := range 8 { // two a week
		l.Mix(rand.New(rand.NewPCG(1, uint64(i))), 5)
		if err := r.CatchUp(ctx, 0); err != nil {
			t.Fatal(err)
		}
		path, _, err := r.Snapshot(ctx, dir, 4)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Base(path))
		l.Advance(84 * time.Hour)
	}
	for _, left := range []string{"/.tmp-left/store", "/.tmp-" + paths[0] + "/store"} { // by a snapshot, and by a removal
		if err := os.MkdirAll(dir+left, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	week := func(n int) projector.Span {
		start := ledgertest.Start.Add(time.Duration(n) * 7 * 24 * time.Hour)
		return projector.Span{Name: fmt.Sprint("week ", n), Start: start, End: start.Add(7 * 24 * time.Hour)}
	}
	prune := func(keep int, dry bool) (removed []string) {
		t.Helper()
		out, err := projector.PruneSnapshots(projector.PruneConfig{
			Dir: dir, Keep: keep, Spans: []projector.Span{week(0), week(1)}, DryRun: dry,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range out {
			if p.Removed {
				removed = append(removed, filepath.Base(p.Path))
			}
		}
		return removed
	}
	want := fmt.Sprint([]string{paths[0], paths[2], paths[4], paths[5]})
	if got := fmt.Sprint(prune(2, true)); got != want {
		t.Errorf("would remove %s, want %s", got, want)
	}
	if list, _ := os.ReadDir(dir); len(list) != 10 {
		t.Errorf("a dry run left %d entries", len(list))
	}
	err := projector.ReadSnapshot(filepath.Join(dir, paths[4]), func(*projector.State) error {
		if got, want := fmt.Sprint(prune(2, false)), fmt.Sprint([]string{paths[0], paths[2], paths[5]}); got != want {
			t.Errorf("removed %s, want %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := fmt.Sprint([]string{paths[1], paths[3], paths[4], paths[6], paths[7]}); fmt.Sprint(left) != want {
		t.Errorf("left %v, want %s", left, want)
	}
	for _, name := range left {
		if _, err := projector.VerifySnapshot(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
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

// onceRead counts the messages that are read.
type onceRead struct {
	*ledgertest.Ledger
	n int
}

func (s *onceRead) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return s.Ledger.Read(ctx, from, to, func(seq ledger.Seq, body []byte) error { s.n++; return fn(seq, body) })
}

// TestReplayThrough: at every record on the way it is the replay to that record, and
// the ledger is read once. What is wrong behind a record takes nothing from it.
func TestReplayThrough(t *testing.T) {
	l := mixed(5, 90)
	at := []ledger.Seq{1, 20, 21, 60, 90}
	replayed := func(src projector.Source) (got []projector.Replayed, err error) {
		err = projector.ReplayThrough(ctx, projector.ReplayConfig{Source: src, Projections: view.All(), Dir: t.TempDir()}, at,
			func(r projector.Replayed) error { got = append(got, r); return nil })
		return got, err
	}
	once := &onceRead{Ledger: l}
	got, err := replayed(once)
	if err != nil || len(got) != len(at) {
		t.Fatalf("%d of %d, %v", len(got), len(at), err)
	}
	for i, seq := range at {
		want, err := projector.Replay(ctx, projector.ReplayConfig{Source: l, To: seq, Projections: view.All(), Dir: t.TempDir()})
		if err != nil || !reflect.DeepEqual(got[i], want) {
			t.Errorf("at %d: %+v, want %+v, %v", seq, got[i], want, err)
		}
	}
	if most := 90 + len(at); once.n > most { // each leg looks at the record that it goes on from
		t.Errorf("read %d messages, want at most %d", once.n, most)
	}
	l.Mangle = func(seq ledger.Seq, body []byte) []byte {
		if seq == 40 {
			return bytes.Replace(body, []byte("2026"), []byte("2027"), 1)
		}
		return body
	}
	broken, err := replayed(l)
	var link *projector.LinkError
	if !errors.As(err, &link) || len(broken) != 3 || !reflect.DeepEqual(broken, got[:3]) {
		t.Errorf("%d, %v", len(broken), err)
	}
}
