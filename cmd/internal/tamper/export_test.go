package tamper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/ledger/tiles"
)

// exportRow is one change of an export.
type exportRow struct {
	target, change string
	do             func(b *exportBench)
	fsck, pin      string // the kinds of finding, and the first bad record
}

// exportBench is a copy of an export that is tampered with.
type exportBench struct {
	*lab
	t     testing.TB
	dir   string
	older string // the same export when the ledger was shorter
}

func (b *exportBench) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b *exportBench) edit(name string, fn func([]byte) []byte) {
	b.t.Helper()
	raw, err := os.ReadFile(b.path(name))
	check(b.t, err)
	check(b.t, os.WriteFile(b.path(name), fn(raw), 0o600))
}

func (b *exportBench) swap(one, two string) {
	b.t.Helper()
	check(b.t, os.Rename(b.path(one), b.path("aside")))
	check(b.t, os.Rename(b.path(two), b.path(one)))
	check(b.t, os.Rename(b.path("aside"), b.path(two)))
}

// entries changes the records of a bundle.
func (b *exportBench) entries(name string, fn func([][]byte) [][]byte) {
	b.t.Helper()
	b.edit(name, func(raw []byte) []byte {
		var bodies [][]byte
		for len(raw) > 0 {
			n := int(binary.BigEndian.Uint16(raw))
			bodies = append(bodies, raw[2:2+n])
			raw = raw[2+n:]
		}
		var out []byte
		for _, body := range fn(bodies) {
			out = binary.BigEndian.AppendUint16(out, uint16(len(body)))
			out = append(out, body...)
		}
		return out
	})
}

// rewrite exports other records in the place of these.
func (b *exportBench) rewrite(bodies [][]byte, checkpoint []byte) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "records")
	check(b.t, os.WriteFile(file, append(bytes.Join(bodies, []byte("\n")), '\n'), 0o600))
	e, err := node.OpenEvidence(b.t.Context(), node.EvidenceConfig{File: file})
	check(b.t, err)
	defer e.Close()
	cp, err := ledger.ParseCheckpoint(checkpoint)
	check(b.t, err)
	check(b.t, os.RemoveAll(b.dir))
	_, err = node.Export(b.t.Context(), e, cp, b.dir, nil)
	check(b.t, err)
}

func (b *exportBench) look(pin *node.Pin) string {
	b.t.Helper()
	r, err := node.Fsck(b.t.Context(), node.AnchorConfig{Dir: b.lab.dir, Pin: pin}, b.dir, nil)
	check(b.t, err)
	if r.Verdict != ledger.Inconsistent {
		return string(r.Verdict)
	}
	var kinds []string
	for _, f := range r.Findings {
		if !slices.Contains(kinds, string(f.Kind)) {
			kinds = append(kinds, string(f.Kind))
		}
	}
	slices.Sort(kinds)
	out := strings.Join(kinds, ", ")
	if r.FirstBadSeq != nil {
		out += fmt.Sprintf(" %d", *r.FirstBadSeq)
	}
	return out
}

func exportRows() []exportRow {
	const bundle, tile = "tile/entries/000", "tile/0/000"
	log := func(b *exportBench) *bench { return &bench{b.lab, b.t, b.lab.dir} }
	return []exportRow{
		{"nothing", "untouched", func(*exportBench) {}, "consistent", "consistent"},
		{"bundle", "a record altered", func(b *exportBench) {
			b.entries(bundle, func(bs [][]byte) [][]byte { bs[target-1] = altered(b.t, bs[target-1]); return bs })
		}, "chain, hash, root {t}", "chain, hash, root {t}"},
		{"bundle", "a record deleted", func(b *exportBench) {
			b.entries(bundle, func(bs [][]byte) [][]byte { return slices.Delete(bs, target-1, target) })
		}, "chain, hash, malformed, root {t}", "chain, hash, malformed, root {t}"},
		{"bundle", "a record inserted", func(b *exportBench) {
			b.entries(bundle, func(bs [][]byte) [][]byte { return slices.Insert(bs, target-1, bs[target-1]) })
		}, "chain, hash, malformed, root {t+1}", "chain, hash, malformed, root {t+1}"},
		{"bundle", "two records swapped", func(b *exportBench) {
			b.entries(bundle, func(bs [][]byte) [][]byte { bs[target-1], bs[target] = bs[target], bs[target-1]; return bs })
		}, "chain, hash, root {t}", "chain, hash, root {t}"},
		{"bundle", "cut short", func(b *exportBench) { b.edit(bundle, func(raw []byte) []byte { return raw[:len(raw)-5] }) }, "chain, malformed, root 256", "chain, malformed, root 256"},
		{"bundle", "deleted", func(b *exportBench) { check(b.t, os.Remove(b.path(bundle))) }, "chain, missing, root 1", "chain, missing, root 1"},
		{"tile", "a bit flipped", func(b *exportBench) {
			b.edit(tile, func(raw []byte) []byte { raw[32*(target-1)] ^= 1; return raw })
		}, "hash {t}", "hash {t}"},
		{"tile", "deleted", func(b *exportBench) { check(b.t, os.Remove(b.path(tile))) }, "missing", "missing"},
		{"tile", "cut short", func(b *exportBench) { b.edit(tile, func(raw []byte) []byte { return raw[:len(raw)-32] }) }, "malformed", "malformed"},
		{"tile", "inserted: one of a larger tree", func(b *exportBench) {
			check(b.t, os.WriteFile(b.path("tile/0/002"), make([]byte, 8192), 0o600))
		}, "extra", "extra"},
		{"tile", "the upper level flipped", func(b *exportBench) {
			b.edit("tile/1/000.p/1", func(raw []byte) []byte { raw[0] ^= 1; return raw })
		}, "hash 1", "hash 1"},
		{"tile", "swapped with its bundle", func(b *exportBench) { b.swap(tile, bundle) }, "chain, malformed, root 1", "chain, malformed, root 1"},
		{"export", "suffix rewritten, tiles made anew, checkpoint by a key of one's own", func(b *exportBench) {
			bs := rewritten(log(b), slices.Clone(b.bodies), target)
			b.rewrite(bs, signed(log(b), bs, stranger(log(b))))
		}, "checkpoint", "checkpoint, root"},
		{"export", "suffix rewritten, tiles made anew, the old checkpoint kept", func(b *exportBench) {
			bs := rewritten(log(b), slices.Clone(b.bodies), target)
			kept, err := os.ReadFile(b.path(tiles.CheckpointName))
			check(b.t, err)
			b.rewrite(bs, signed(log(b), bs, stranger(log(b))))
			check(b.t, os.WriteFile(b.path(tiles.CheckpointName), kept, 0o600))
		}, "root 1", "root 1"},
		{"export", "forked, signed with the stolen key", func(b *exportBench) {
			bs := rewritten(log(b), slices.Clone(b.bodies), target)
			b.rewrite(bs, signed(log(b), bs, thief(log(b))))
		}, "consistent", "root 1"},
		{"export", "replaced by an older copy", func(b *exportBench) {
			check(b.t, os.RemoveAll(b.dir))
			check(b.t, os.CopyFS(b.dir, os.DirFS(b.older)))
		}, "consistent", "chain {o+1}"},
		{"export", "checkpoint gone", func(b *exportBench) { check(b.t, os.Remove(b.path(tiles.CheckpointName))) }, "checkpoint", "checkpoint"},
		{"export", "checkpoint of an older copy", func(b *exportBench) {
			raw, err := os.ReadFile(filepath.Join(b.older, tiles.CheckpointName))
			check(b.t, err)
			check(b.t, os.WriteFile(b.path(tiles.CheckpointName), raw, 0o600))
		}, "extra, missing, root 1", "chain, extra, missing, root 1"},
	}
}

// TestTamperedExports: what is done to an export, and what fsck says of it, with
// the key alone and with a remembered head.
func TestTamperedExports(t *testing.T) {
	l := newLab(t, 150, 0)
	export := func(from node.Dir) string {
		to := filepath.Join(t.TempDir(), "export")
		cp, err := node.NewestCheckpoint(node.AnchorConfig{Dir: from})
		check(t, err)
		e, err := node.OpenEvidence(t.Context(), node.EvidenceConfig{Dir: from})
		check(t, err)
		defer e.Close()
		_, err = node.Export(t.Context(), e, cp, to, nil)
		check(t, err)
		return to
	}
	whole, older := export(l.dir), export(l.older)
	places := strings.NewReplacer("{t}", strconv.Itoa(target), "{t+1}", strconv.Itoa(target+1), "{o+1}", strconv.Itoa(l.before+1))
	for _, r := range exportRows() {
		t.Run(r.target+"/"+r.change, func(t *testing.T) {
			b := &exportBench{l, t, filepath.Join(t.TempDir(), "export"), older}
			check(t, os.CopyFS(b.dir, os.DirFS(whole)))
			r.do(b)
			if got, want := b.look(nil), places.Replace(r.fsck); got != want {
				t.Errorf("fsck: %s, want %s", got, want)
			}
			if got, want := b.look(l.pin), places.Replace(r.pin); got != want {
				t.Errorf("fsck --pin: %s, want %s", got, want)
			}
		})
	}
}
