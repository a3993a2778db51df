package tamper

import (
	"bytes"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"assay/cmd/internal/node"

	"assay/internal/kv"
	"assay/ledger"
)

// row is one change of one target.
type row struct {
	target, change string
	do             func(b *bench)
	want           seen
}

// target is the record that most changes are about.
const target = 9

// chain links bodies from position i on anew, as somebody would who rewrites
// the ledger without its key.
func chain(t testing.TB, bodies [][]byte, i int) [][]byte {
	t.Helper()
	var prev ledger.Hash
	if i > 0 {
		prev = ledger.Leaf(bodies[i-1])
	}
	for ; i < len(bodies); i++ {
		r, err := ledger.ParseRecord(bodies[i])
		check(t, err)
		h := r.Header
		h.Seq, h.Prev = ledger.Seq(i+1), prev
		bodies[i] = ledger.AppendRecord(nil, h, r.Event)
		prev = ledger.Leaf(bodies[i])
	}
	return bodies
}

// altered is the record with another word in its event.
func altered(t testing.TB, body []byte) []byte {
	t.Helper()
	out := bytes.Replace(body, []byte(`"hypothesis"`), []byte(`"asserted"`), 1)
	if bytes.Equal(out, body) {
		t.Fatalf("nothing to alter in %s", body)
	}
	return out
}

// onRecords makes the store hold what fn makes of the records.
func onRecords(fn func(b *bench, bodies [][]byte) [][]byte) func(b *bench) {
	return func(b *bench) { b.store(fn(b, slices.Clone(b.bodies))) }
}

// inBlock flips a bit of a record where the broker keeps it.
func inBlock(b *bench, seq int) {
	b.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(b.msgs(), "*.blk"))
	check(b.t, err)
	for _, path := range blocks {
		if at := bytes.Index(b.readFile(path), b.bodies[seq-1]); at >= 0 {
			b.flip(path, at+len(b.bodies[seq-1])-10)
			return
		}
	}
	b.t.Fatalf("record %d is in no block", seq)
}

// cutBlock ends the broker's block within a record.
func cutBlock(b *bench, seq int) {
	b.t.Helper()
	path := filepath.Join(b.msgs(), "1.blk")
	raw := b.readFile(path)
	at := bytes.Index(raw, b.bodies[seq-1])
	if at < 0 {
		b.t.Fatalf("record %d is not in the block", seq)
	}
	b.write(path, raw[:at+10])
}

// signed is a checkpoint over bodies by a key named like the log's.
func signed(b *bench, bodies [][]byte, signer note.Signer) []byte {
	b.t.Helper()
	var tree ledger.Tree
	for _, body := range bodies {
		tree.Append(ledger.Leaf(body))
	}
	raw, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: signer.Name(), Size: tree.Size(), Root: tree.Root()}, signer)
	check(b.t, err)
	return raw
}

func stranger(b *bench) note.Signer {
	b.t.Helper()
	skey, _, err := note.GenerateKey(rand.Reader, b.pin.Origin)
	check(b.t, err)
	signer, err := note.NewSigner(skey)
	check(b.t, err)
	return signer
}

// thief is the log's own key in other hands.
func thief(b *bench) note.Signer {
	b.t.Helper()
	signer, err := note.NewSigner(strings.TrimSpace(string(b.readFile(b.path("logger", "key")))))
	check(b.t, err)
	return signer
}

func rewritten(b *bench, bodies [][]byte, from int) [][]byte {
	bodies[from-1] = altered(b.t, bodies[from-1])
	return chain(b.t, bodies, from)
}

// forgeCheckpoints replaces every checkpoint on file by those of other records.
func forgeCheckpoints(b *bench, bodies [][]byte, signer note.Signer) {
	for _, size := range b.kept {
		name := strconv.FormatUint(size, 10)
		if size == b.kept[len(b.kept)-1] {
			name = "latest"
		}
		b.write(b.checkpoint(name), signed(b, bodies[:size], signer))
	}
}

// cursor changes what every projection believes to have folded.
func cursor(b *bench, change func(seq ledger.Seq, leaf string) (ledger.Seq, string)) {
	b.views(func(db *kv.DB, batch *kv.Batch) {
		check(b.t, db.Scan([]byte("c/"), nil, func(k, v []byte) error {
			var seq ledger.Seq
			var leaf string
			if _, err := fmt.Sscanf(strings.NewReplacer(`"`, " ", ",", " ", "}", " ").Replace(string(v)), "{ seq :%d  leaf : %s ", &seq, &leaf); err != nil {
				return fmt.Errorf("cursor %s: %w", v, err)
			}
			seq, leaf = change(seq, leaf)
			batch.Put(bytes.Clone(k), fmt.Appendf(nil, `{"seq":%d,"leaf":"%s"}`, seq, leaf))
			return nil
		}))
	})
}

// firstView is a stored value of the claims view.
func firstView(b *bench, db *kv.DB) (key, value []byte) {
	check(b.t, db.Scan([]byte("s/claims/"), nil, func(k, v []byte) error {
		key, value = bytes.Clone(k), bytes.Clone(v)
		return kv.ErrStop
	}))
	if key == nil {
		b.t.Fatal("the claims view is empty")
	}
	return key, value
}

func rows() []row {
	return []row{
		{"nothing", "untouched", func(*bench) {}, seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"record body", "a bit flipped in the broker's block", func(b *bench) { inBlock(b, target) }, seen{"sequence {t}", "sequence {t}", "serves", "goes on", "gap {t+1}"}},
		{"record body", "a bit flipped in the broker's block, index.db gone", func(b *bench) {
			inBlock(b, target)
			check(b.t, os.Remove(filepath.Join(b.msgs(), "index.db")))
		}, seen{"end {t}", "end {t}", "behind", "ahead {n}", "ahead {n}"}},
		{"record body", "altered, the broker's checksums mended", onRecords(func(b *bench, bs [][]byte) [][]byte {
			bs[target-1] = altered(b.t, bs[target-1])
			return bs
		}), seen{"link {t}", "link {t}", "serves", "goes on", "corrupt {t+1}"}},
		{"record body", "the last one altered", onRecords(func(b *bench, bs [][]byte) [][]byte {
			bs[len(bs)-1] = altered(b.t, bs[len(bs)-1])
			return bs
		}), seen{"root {bn}", "root {bn}", "fork", "fork {n}", "differs"}},
		{"record body", "deleted", onRecords(func(_ *bench, bs [][]byte) [][]byte { return slices.Delete(bs, target-1, target) }), seen{"link {t}", "link {t}", "behind", "ahead {n}", "ahead {n}"}},
		{"record body", "inserted", onRecords(func(_ *bench, bs [][]byte) [][]byte { return slices.Insert(bs, target-1, []byte("not a record")) }), seen{"link {t}", "link {t}", "fork", "fork {n}", "corrupt {t+1}"}},
		{"record body", "swapped with the next", onRecords(func(_ *bench, bs [][]byte) [][]byte {
			bs[target-1], bs[target] = bs[target], bs[target-1]
			return bs
		}), seen{"link {t}", "link {t}", "serves", "goes on", "corrupt {t}"}},
		{"record body", "the last one cut off", onRecords(func(_ *bench, bs [][]byte) [][]byte { return bs[:len(bs)-1] }), seen{"end {n}", "end {n}", "behind", "ahead {n}", "ahead {n}"}},
		{"record body", "the last five cut off", onRecords(func(_ *bench, bs [][]byte) [][]byte { return bs[:len(bs)-5] }), seen{"end {n-4}", "end {n-4}", "behind", "ahead {n}", "ahead {n}"}},
		{"record body", "all but one cut off", onRecords(func(_ *bench, bs [][]byte) [][]byte { return bs[:1] }), seen{"end 2", "end 2", "behind", "ahead {n}", "ahead {n}"}},
		{"record body", "all gone", onRecords(func(*bench, [][]byte) [][]byte { return nil }), seen{"end 1", "end 1", "behind", "ahead {n}", "ahead {n}"}},
		{"link", "names another predecessor", onRecords(func(b *bench, bs [][]byte) [][]byte {
			r, err := ledger.ParseRecord(bs[target-1])
			check(b.t, err)
			h := r.Header
			h.Prev = ledger.Leaf([]byte("other"))
			bs[target-1] = ledger.AppendRecord(nil, h, r.Event)
			return bs
		}), seen{"link {t}", "link {t}", "serves", "goes on", "corrupt {t}"}},
		{"link", "deleted and the rest linked anew", onRecords(func(b *bench, bs [][]byte) [][]byte {
			return chain(b.t, slices.Delete(bs, target-1, target), target-1)
		}), seen{"end {n}", "end {n}", "behind", "ahead {n}", "ahead {n}"}},
		{"link", "inserted and the rest linked anew", onRecords(func(b *bench, bs [][]byte) [][]byte {
			return chain(b.t, slices.Insert(bs, target-1, bytes.Clone(bs[target-1])), target-1)
		}), seen{"root {b}", "root {b}", "fork", "fork {n}", "differs"}},
		{"link", "swapped and the rest linked anew", onRecords(func(b *bench, bs [][]byte) [][]byte {
			bs[target-1], bs[target] = bs[target], bs[target-1]
			return chain(b.t, bs, target-1)
		}), seen{"time {t+1}", "time {t+1}", "fork", "fork {n}", "differs"}},
		{"link", "suffix rewritten", onRecords(func(b *bench, bs [][]byte) [][]byte { return rewritten(b, bs, target) }), seen{"root {b}", "root {b}", "fork", "fork {n}", "differs"}},
		{"link", "whole ledger rewritten", onRecords(func(b *bench, bs [][]byte) [][]byte {
			bs[0] = bytes.Replace(bs[0], []byte(`"software":"test"`), []byte(`"software":"text"`), 1)
			return chain(b.t, bs, 1)
		}), seen{"root 1", "root 1", "fork", "fork {n}", "match"}},
		{"link", "whole ledger rewritten with a key of one's own", func(b *bench) {
			signer := stranger(b)
			bs := slices.Clone(b.bodies)
			bs = rewritten(b, bs, target)
			b.store(bs)
			forgeCheckpoints(b, bs, signer)
		}, seen{"signature 1", "signature 1", "bad checkpoint", "fork {n}", "differs"}},
		{"link", "another logger's record behind the last", onRecords(func(b *bench, bs [][]byte) [][]byte {
			r, err := ledger.ParseRecord(bs[len(bs)-1])
			check(b.t, err)
			h := r.Header
			h.Principal = "agent/other"
			return append(bs, ledger.AppendRecord(nil, h, r.Event))
		}), seen{"fork {n+1}", "fork {n+1}", "waits for an acknowledgement", "corrupt {n+1}", "match"}},
		{"link", "a record linked on by another writer", onRecords(func(b *bench, bs [][]byte) [][]byte {
			r, err := ledger.ParseRecord(bs[len(bs)-1])
			check(b.t, err)
			h := r.Header
			h.Seq, h.Prev = ledger.Seq(len(bs)+1), r.Leaf()
			return append(bs, ledger.AppendRecord(nil, h, r.Event))
		}), seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"link", "a message that is no record behind the last", onRecords(func(_ *bench, bs [][]byte) [][]byte {
			return append(bs, []byte("not a record"))
		}), seen{"foreign {n+1}", "foreign {n+1}", "waits for an acknowledgement", "goes on", "match"}},
		{"link", "forked: another suffix, signed with the stolen key", func(b *bench) {
			bs := rewritten(b, slices.Clone(b.bodies), target)
			b.store(bs)
			b.write(b.checkpoint("latest"), signed(b, bs, thief(b)))
		}, seen{"consistent", "fork {b}", "fork", "fork {n}", "differs"}},
		{"link", "forked, every checkpoint signed anew with the stolen key", func(b *bench) {
			bs := rewritten(b, slices.Clone(b.bodies), target)
			b.store(bs)
			forgeCheckpoints(b, bs, thief(b))
		}, seen{"consistent", "fork {b}", "fork", "fork {n}", "differs"}},
		{"stream state", "replaced by an older copy", func(b *bench) {
			check(b.t, os.RemoveAll(b.path("broker", "jetstream")))
			check(b.t, os.CopyFS(b.path("broker", "jetstream"), os.DirFS(filepath.Join(string(b.older), "broker", "jetstream"))))
		}, seen{"end {o+1}", "end {o+1}", "behind", "ahead {n}", "ahead {n}"}},
		{"stream state", "index.db flipped", func(b *bench) { b.flip(filepath.Join(b.msgs(), "index.db"), 20) }, seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"stream state", "index.db gone", func(b *bench) { check(b.t, os.Remove(filepath.Join(b.msgs(), "index.db"))) }, seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"stream state", "index.db of an older copy", func(b *bench) {
			older := &bench{b.lab, b.t, b.older}
			b.write(filepath.Join(b.msgs(), "index.db"), b.readFile(filepath.Join(older.msgs(), "index.db")))
		}, seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"stream state", "block cut short", func(b *bench) {
			cutBlock(b, target)
		}, seen{"sequence {t}", "sequence {t}", "corrupt", "gap {n}", "gap {t}"}},
		{"stream state", "block cut short, index.db gone", func(b *bench) {
			cutBlock(b, target)
			check(b.t, os.Remove(filepath.Join(b.msgs(), "index.db")))
		}, seen{"end {t}", "end {t}", "behind", "ahead {n}", "ahead {n}"}},
		{"stream state", "meta.inf flipped", func(b *bench) { b.flip(filepath.Join(filepath.Dir(b.msgs()), "meta.inf"), 30) }, seen{"end 1", "end 1", "no stream", "no stream", "ahead {n}"}},
		{"stream state", "meta.inf gone", func(b *bench) { check(b.t, os.Remove(filepath.Join(filepath.Dir(b.msgs()), "meta.inf"))) }, seen{"end 1", "end 1", "no stream", "no stream", "ahead {n}"}},
		{"checkpoint", "root flipped", func(b *bench) {
			b.exchange(b.checkpoint("latest"), strings.LastIndex(string(b.readFile(b.checkpoint("latest"))), "=\n\n")-8)
		}, seen{"signature {bn}", "signature {bn}", "bad checkpoint", "goes on", "match"}},
		{"checkpoint", "signature flipped", func(b *bench) { b.exchange(b.checkpoint("latest"), len(b.readFile(b.checkpoint("latest")))-8) }, seen{"signature {bn}", "signature {bn}", "bad checkpoint", "goes on", "match"}},
		{"checkpoint", "cut short", func(b *bench) { b.write(b.checkpoint("latest"), b.readFile(b.checkpoint("latest"))[:40]) }, seen{"checkpoint {bn}", "checkpoint {n+1}", "bad checkpoint", "goes on", "match"}},
		{"checkpoint", "the newest deleted", func(b *bench) { check(b.t, os.Remove(b.checkpoint("latest"))) }, seen{"consistent", "consistent", "serves, warns", "goes on", "match"}},
		{"checkpoint", "replaced by an older copy", func(b *bench) {
			older := &bench{b.lab, b.t, b.older}
			b.write(b.checkpoint("latest"), older.readFile(older.checkpoint("latest")))
		}, seen{"consistent", "consistent", "serves, warns", "goes on", "match"}},
		{"checkpoint", "all deleted", func(b *bench) {
			check(b.t, os.RemoveAll(b.path("logger", "checkpoint")))
			check(b.t, os.Mkdir(b.path("logger", "checkpoint"), 0o700))
		}, seen{"unanchored", "consistent", "no checkpoint", "goes on", "match"}},
		{"checkpoint", "directory gone", func(b *bench) { check(b.t, os.RemoveAll(b.path("logger", "checkpoint"))) }, seen{"unanchored", "consistent", "no checkpoint", "goes on", "match"}},
		{"checkpoint", "inserted: of a larger size, by a key of one's own", func(b *bench) {
			b.write(b.checkpoint("4096"), signed(b, append(slices.Clone(b.bodies), []byte("x")), stranger(b)))
		}, seen{"signature {n+1}", "signature {n+1}", "bad checkpoint", "goes on", "match"}},
		{"checkpoint", "swapped: two sizes' contents exchanged", func(b *bench) {
			name := strconv.FormatUint(b.kept[0], 10)
			one, two := b.readFile(b.checkpoint(name)), b.readFile(b.checkpoint("latest"))
			b.write(b.checkpoint(name), two)
			b.write(b.checkpoint("latest"), one)
		}, seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"checkpoint", "forked: a second one of the newest size, signed with the stolen key", func(b *bench) {
			bs := rewritten(b, slices.Clone(b.bodies), target)
			b.write(b.checkpoint(strconv.Itoa(len(bs))), signed(b, bs, thief(b)))
		}, seen{"fork {bn}", "fork {bn}", "fork", "goes on", "match"}},
		{"view", "a value altered", func(b *bench) {
			b.views(func(db *kv.DB, batch *kv.Batch) {
				k, v := firstView(b, db)
				batch.Put(k, bytes.Replace(v, []byte("hypothesis"), []byte("asserted!!"), 1))
			})
		}, seen{"consistent", "consistent", "serves", "goes on", "differs"}},
		{"view", "a key deleted", func(b *bench) {
			b.views(func(db *kv.DB, batch *kv.Batch) {
				k, _ := firstView(b, db)
				batch.Delete(k)
			})
		}, seen{"consistent", "consistent", "serves", "goes on", "differs"}},
		{"view", "a key inserted", func(b *bench) {
			b.views(func(db *kv.DB, batch *kv.Batch) {
				k, v := firstView(b, db)
				batch.Put(append(k, '0'), v)
			})
		}, seen{"consistent", "consistent", "serves", "goes on", "differs"}},
		{"view", "a bit flipped in every file of the store", func(b *bench) {
			files, err := filepath.Glob(filepath.Join(b.dir.Views(), "*.log"))
			check(b.t, err)
			tables, err := filepath.Glob(filepath.Join(b.dir.Views(), "*.sst"))
			check(b.t, err)
			for _, f := range append(files, tables...) {
				if len(b.readFile(f)) > 200 {
					b.flip(f, len(b.readFile(f))/2)
				}
			}
		}, seen{"consistent", "consistent", "serves", "unreadable", "unreadable"}},
		{"view", "replaced by an older copy", func(b *bench) { copyDir(b.t, node.Dir(b.older.Views()), node.Dir(b.dir.Views())) }, seen{"consistent", "consistent", "serves", "goes on", "match"}},
		{"view", "gone", func(b *bench) { check(b.t, os.RemoveAll(b.dir.Views())) }, seen{"consistent", "consistent", "serves", "goes on", "no views"}},
		{"cursor", "moved past the end", func(b *bench) {
			cursor(b, func(seq ledger.Seq, leaf string) (ledger.Seq, string) { return seq + 1, leaf })
		}, seen{"consistent", "consistent", "serves", "ahead {n+1}", "uneven"}},
		{"cursor", "moved back", func(b *bench) {
			cursor(b, func(seq ledger.Seq, _ string) (ledger.Seq, string) {
				return seq - 5, ledger.Leaf(b.bodies[seq-6]).String()
			})
		}, seen{"consistent", "consistent", "serves", "corrupt", "uneven"}},
		{"cursor", "another leaf", func(b *bench) {
			cursor(b, func(seq ledger.Seq, leaf string) (ledger.Seq, string) { return seq, ledger.Leaf(nil).String() })
		}, seen{"consistent", "consistent", "serves", "fork {n}", "match"}},
	}
}

// TestTamperMatrix: whatever is changed, those notice who are said to, by the
// check and at the record that are said, and nobody else raises an alarm.
func TestTamperMatrix(t *testing.T) {
	l := newLab(t, 14, 0)
	n := len(l.bodies)
	places := strings.NewReplacer(
		"{t}", strconv.Itoa(target), "{t+1}", strconv.Itoa(target+1), "{n}", strconv.Itoa(n), "{n+1}", strconv.Itoa(n+1), "{n-4}", strconv.Itoa(n-4),
		"{b}", strconv.Itoa(l.behind(target)), "{bn}", strconv.Itoa(l.behind(n)), "{o+1}", strconv.Itoa(l.before+1))
	for i, r := range rows() {
		t.Run(fmt.Sprintf("%s/%s", r.target, r.change), func(t *testing.T) {
			t.Parallel()
			b := &bench{l, t, node.Dir(filepath.Join(t.TempDir(), "copy"))}
			copyDir(t, l.dir, b.dir)
			r.do(b)
			got := b.look()
			for k, cell := range got.cells() {
				if want := places.Replace(r.want.cells()[k]); cell != want {
					t.Errorf("%s: %s, want %s", observers[k], cell, want)
				}
			}
			t.Logf("%2d %s", i, strings.Join(got.cells(), " | "))
		})
	}
}

// observers are those who look, in the order of seen.
var observers = []string{"verify", "verify --pin", "logger", "projector", "replay"}

var update = flag.Bool("update", false, "write the table of docs/threat-model.md")

// TestThreatModelHasTheTables: the page shows what the tests hold to.
func TestThreatModelHasTheTables(t *testing.T) {
	var ledgers, exports [][]string
	for _, r := range rows() {
		ledgers = append(ledgers, append([]string{r.target, r.change}, r.want.cells()...))
	}
	for _, r := range exportRows() {
		exports = append(exports, []string{r.target, r.change, r.fsck, r.pin})
	}
	checkTable(t, "tamper matrix", append([]string{"changed", "how"}, observers...), ledgers)
	checkTable(t, "tampered exports", []string{"changed", "how", "fsck", "fsck --pin"}, exports)
}

// position is a record's number at the end of a cell: it differs from run to run.
var position = regexp.MustCompile(` (\d+|\{[^}]*\})$`)

func checkTable(t *testing.T, name string, head []string, lines [][]string) {
	t.Helper()
	const path = "../../../docs/threat-model.md"
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	raw, err := os.ReadFile(path)
	check(t, err)
	before, rest, ok := strings.Cut(string(raw), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table %s", path, name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n%s|\n", strings.Join(head, " | "), strings.Repeat("|---", len(head)))
	for _, cells := range lines {
		for i, c := range cells {
			if i >= 2 {
				cells[i] = position.ReplaceAllString(c, "")
			}
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	if *update {
		check(t, os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o644))
		return
	}
	if have != b.String() {
		t.Errorf("the table %s is stale: run go test ./cmd/internal/tamper -run ThreatModel -update", name)
	}
}
