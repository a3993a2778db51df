package ledger

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"
)

const origin = "example.com/log"

var epoch = time.Date(2026, 10, 3, 12, 0, 0, 1, time.UTC)

func mustKey(t testing.TB) (note.Signer, note.Verifier, string) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier, vkey
}

// build makes a ledger of n records, the first of which opens it with key.
func build(n int, key string) [][]byte {
	var out [][]byte
	var prev Hash
	for i := 1; i <= n; i++ {
		event := fmt.Sprintf(`{"type":"clock.ticked","id":"%d"}`, i)
		if i == 1 {
			event = `{"type":"ledger.opened","data":{"public_key":"` + key + `"}}`
		}
		out = append(out, record(Seq(i), prev, event))
		prev = Leaf(out[i-1])
	}
	return out
}

func record(seq Seq, prev Hash, event string) []byte {
	return AppendRecord(nil, Header{
		Seq: seq, Prev: prev, RecordedAt: epoch.Add(time.Duration(seq) * time.Second),
		Principal: "logger/main", Namespace: "production",
	}, []byte(event))
}

func rootOf(bodies [][]byte) Hash {
	var t Tree
	for _, b := range bodies {
		t.Append(Leaf(b))
	}
	return t.Root()
}

func checkpointOf(bodies [][]byte) Checkpoint {
	return Checkpoint{Origin: origin, Size: uint64(len(bodies)), Root: rootOf(bodies)}
}

func audit(a Anchor, bodies [][]byte) Report {
	d := NewAuditor(a)
	for i, b := range bodies {
		d.Add(Seq(i+1), b)
	}
	return d.Report()
}

func TestRecordBytesAreFrozen(t *testing.T) {
	got := AppendRecord(nil, Header{
		Seq: 42, Prev: Leaf([]byte("x")), RecordedAt: epoch, Principal: "agent/piper", Namespace: "bench/2026-10",
	}, []byte(`{"id":"a"}`))
	want := `{"v":1,"seq":42,"prev":"` + Leaf([]byte("x")).String() +
		`","recorded_at":"2026-10-03T12:00:00.000000001Z","principal":"agent/piper","namespace":"bench/2026-10","event":{"id":"a"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r, err := ParseRecord(got)
	if err != nil {
		t.Fatal(err)
	}
	if r.Seq != 42 || r.Principal != "agent/piper" || r.Namespace != "bench/2026-10" || !r.RecordedAt.Equal(epoch) || string(r.Event) != `{"id":"a"}` {
		t.Errorf("parsed %+v", r)
	}
}

// Facts from RFC 6962 and FIPS 180: the leaf hash of nothing and the root of nothing.
func TestHashVectors(t *testing.T) {
	if got, want := Leaf(nil).String(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"; got != want {
		t.Errorf("leaf of empty: %s, want %s", got, want)
	}
	if got, want := EmptyRoot.String(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("empty root: %s, want %s", got, want)
	}
	if got := (&Tree{}).Root(); got != EmptyRoot {
		t.Errorf("zero tree: %s", got)
	}
}

func TestParseRecordRefuses(t *testing.T) {
	good := string(record(7, Hash{}, `{"a":1}`))
	cases := []struct {
		name, body string
		want       error
	}{
		{"empty", "", ErrCorrupt},
		{"other version", strings.Replace(good, `"v":1`, `"v":2`, 1), ErrUnsupportedVersion},
		{"white space", strings.Replace(good, `,"seq"`, `, "seq"`, 1), ErrCorrupt},
		{"leading zero", strings.Replace(good, `"seq":7`, `"seq":07`, 1), ErrCorrupt},
		{"upper-case hash", strings.Replace(good, strings.Repeat("0", 64), strings.Repeat("0", 63)+"A", 1), ErrCorrupt},
		{"zone", strings.Replace(good, `01Z"`, `01+"`, 1), ErrCorrupt},
		{"impossible date", strings.Replace(good, "2026-10-03", "2026-13-03", 1), ErrCorrupt},
		{"principal", strings.Replace(good, "logger/main", "logger main", 1), ErrCorrupt},
		{"namespace", strings.Replace(good, "production", `prod"x`, 1), ErrCorrupt},
		{"event is no object", strings.Replace(good, `{"a":1}`, `[1]`, 1), ErrCorrupt},
		{"cut short", good[:len(good)-1], ErrCorrupt},
		{"too long", strings.Replace(good, `{"a":1}`, `{"a":"`+strings.Repeat("x", MaxRecord)+`"}`, 1), ErrCorrupt},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRecord([]byte(c.body))
			if err == nil {
				err = r.CheckEvent()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A member smuggled in behind the event parses as framing, not as an event.
func TestEventCannotHideMembers(t *testing.T) {
	body := record(7, Hash{}, `{"id":"a"},"principal":"operator/x"`)
	body[len(body)-1] = '}'
	r, err := ParseRecord(body)
	if err == nil {
		err = r.CheckEvent()
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(record(7, Hash{}, `{"a":1}`)))
	f.Add([]byte(`{"v":1,"seq":`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseRecord(body)
		if err != nil {
			return
		}
		if again := AppendRecord(nil, r.Header, r.Event); !bytes.Equal(again, body) {
			t.Errorf("two encodings of one record:\n%q\n%q", body, again)
		}
	})
}

func FuzzOpenCheckpoint(f *testing.F) {
	signer, verifier, _ := mustKey(f)
	good, err := SignCheckpoint(Checkpoint{Origin: origin, Size: 3, Root: Leaf(nil)}, signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		cp, err := OpenCheckpoint(raw, verifier)
		if err == nil && (cp.Size != 3 || cp.Root != Leaf(nil)) {
			t.Errorf("accepted an unsigned checkpoint %+v", cp)
		}
	})
}

func TestCheckpointRefuses(t *testing.T) {
	signer, verifier, _ := mustKey(t)
	_, other, _ := mustKey(t)
	raw, err := SignCheckpoint(Checkpoint{Origin: origin, Size: 5, Root: Leaf(nil)}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cp, err := OpenCheckpoint(raw, verifier); err != nil || cp.Size != 5 || cp.Root != Leaf(nil) {
		t.Fatalf("open: %+v, %v", cp, err)
	}
	if _, err := OpenCheckpoint(raw, other); !errors.Is(err, ErrBadCheckpoint) {
		t.Errorf("another key of the same name: %v", err)
	}
	if _, err := OpenCheckpoint(bytes.Replace(raw, []byte("\n5\n"), []byte("\n6\n"), 1), verifier); !errors.Is(err, ErrBadCheckpoint) {
		t.Errorf("altered size: %v", err)
	}
}

func TestTreeEqualsIndependentImplementation(t *testing.T) {
	rf := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	ref := rf.NewEmptyRange(0)
	var tree Tree
	for i := range 1100 {
		leaf := Leaf(fmt.Append(nil, i))
		tree.Append(leaf)
		if err := ref.Append(leaf[:], nil); err != nil {
			t.Fatal(err)
		}
		want, err := ref.GetRootHash(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Root(); !bytes.Equal(got[:], want) {
			t.Fatalf("size %d: %s, want %x", i+1, got, want)
		}
		back, err := DecodeFrontier(tree.Size(), tree.EncodeFrontier())
		if err != nil || back.Root() != tree.Root() {
			t.Fatalf("frontier of size %d: %v", i+1, err)
		}
	}
	if _, err := DecodeFrontier(3, make([]byte, 32)); !errors.Is(err, ErrBadFrontier) {
		t.Errorf("short frontier: %v", err)
	}
}

func TestAuditNamesWhatAndWhere(t *testing.T) {
	_, _, key := mustKey(t)
	good := build(10, key)
	cp := checkpointOf(good)
	anchor := Anchor{Key: key, Checkpoints: []Checkpoint{cp, checkpointOf(good[:4])}}
	flipped := func(i int) [][]byte {
		out := slices.Clone(good)
		out[i] = slices.Clone(out[i])
		out[i][len(out[i])-3] ^= 1
		return out
	}
	rewritten := build(10, key)
	rewritten[6] = record(7, Leaf(rewritten[5]), `{"type":"clock.ticked","id":"forged"}`)
	for i := 7; i < 10; i++ {
		r, err := ParseRecord(rewritten[i])
		if err != nil {
			t.Fatal(err)
		}
		rewritten[i] = record(r.Seq, Leaf(rewritten[i-1]), string(r.Event))
	}
	cases := []struct {
		name    string
		anchor  Anchor
		bodies  [][]byte
		verdict Verdict
		bad     Seq
		finding string
	}{
		{"untouched", anchor, good, Consistent, 0, ""},
		{"unsigned tail", Anchor{Key: key, Checkpoints: []Checkpoint{checkpointOf(good[:4])}}, good, Consistent, 0, ""},
		{"flipped byte", anchor, flipped(4), Inconsistent, 5, "record 5 was altered"},
		{"flipped byte in the first", anchor, flipped(0), Inconsistent, 1, "record 1"},
		{"flipped byte in the last", anchor, flipped(9), Inconsistent, 5, "records 5 to 10"},
		{"removed middle, renumbered", anchor, slices.Delete(slices.Clone(good), 4, 5), Inconsistent, 5, "record at position 5 says seq 6"},
		{"swapped", anchor, append(append(slices.Clone(good[:4]), good[5], good[4]), good[6:]...), Inconsistent, 5, "position 5 says seq 6"},
		{"truncated", anchor, good[:8], Inconsistent, 9, "records 9 to 10 are gone"},
		{"whole rewrite", anchor, rewritten, Inconsistent, 5, "were rewritten"},
		{"whole rewrite without a checkpoint", Anchor{Key: key}, rewritten, Unanchored, 0, "internally consistent only"},
		{"without a key", Anchor{}, good, Unanchored, 0, "internally consistent only"},
		{"empty with a checkpoint", anchor, nil, Inconsistent, 1, "records 1 to 10 are gone"},
		{"empty", Anchor{Key: key}, nil, NothingToVerify, 0, "empty"},
		{"another ledger's key", Anchor{Key: origin + "+00000000+x", Checkpoints: []Checkpoint{cp}}, good, Inconsistent, 1, "is pinned"},
		{"broken checkpoint file", Anchor{Key: key, Checkpoints: []Checkpoint{cp}, Broken: ErrBadCheckpoint}, good, Inconsistent, 11, "cannot be trusted"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := audit(c.anchor, c.bodies)
			var bad Seq
			if r.FirstBadSeq != nil {
				bad = *r.FirstBadSeq
			}
			finding := ""
			if r.Finding != nil {
				finding = *r.Finding
			}
			if r.Verdict != c.verdict || bad != c.bad || !strings.Contains(finding, c.finding) {
				t.Errorf("%s at %d: %s\nwant %s at %d: %s", r.Verdict, bad, finding, c.verdict, c.bad, c.finding)
			}
		})
	}
}

func TestAuditMissingInStream(t *testing.T) {
	_, _, key := mustKey(t)
	good := build(6, key)
	d := NewAuditor(Anchor{Key: key, Checkpoints: []Checkpoint{checkpointOf(good)}})
	for i, b := range good {
		if i != 2 {
			d.Add(Seq(i+1), b)
		}
	}
	r := d.Report()
	if r.Verdict != Inconsistent || *r.FirstBadSeq != 3 || !strings.Contains(*r.Finding, "3 to 3 are missing") {
		t.Errorf("%+v %v", r, *r.Finding)
	}
}

func TestAuditForeign(t *testing.T) {
	_, _, key := mustKey(t)
	bodies := build(3, key)
	foreign := []byte("not a record at all")
	bodies = append(bodies, foreign)
	bodies = append(bodies, AppendRecord(nil, Header{Seq: 5, Prev: Leaf(foreign), RecordedAt: epoch.Add(time.Minute), Principal: "operator/main", Namespace: "production"},
		fmt.Appendf(nil, `{"type":"ledger.foreign_acknowledged","data":{"seq":4,"sha256":"%s"}}`, Leaf(foreign))))
	anchor := Anchor{Key: key, Checkpoints: []Checkpoint{checkpointOf(bodies)}}
	r := audit(anchor, bodies)
	if r.Verdict != Consistent || len(r.Foreign) != 1 || !r.Foreign[0].Acknowledged || r.Foreign[0].Seq != 4 {
		t.Errorf("acknowledged: %+v", r)
	}
	bodies[4] = AppendRecord(nil, Header{Seq: 5, Prev: Leaf(foreign), RecordedAt: epoch.Add(time.Minute), Principal: "agent/piper", Namespace: "production"},
		fmt.Appendf(nil, `{"type":"ledger.foreign_acknowledged","data":{"seq":4,"sha256":"%s"}}`, Leaf(foreign)))
	anchor = Anchor{Key: key, Checkpoints: []Checkpoint{checkpointOf(bodies)}}
	if r := audit(anchor, bodies); r.Verdict != Inconsistent || *r.FirstBadSeq != 4 {
		t.Errorf("an agent's acknowledgement counted: %+v", r)
	}
}

// Any change to any byte that a checkpoint covers is found, and never later
// than where it is.
func TestAuditFindsEveryChange(t *testing.T) {
	_, _, key := mustKey(t)
	good := build(9, key)
	anchor := Anchor{Key: key, Checkpoints: []Checkpoint{checkpointOf(good)}}
	rapid.Check(t, func(t *rapid.T) {
		bodies := slices.Clone(good)
		i := rapid.IntRange(0, len(bodies)-1).Draw(t, "record")
		body := slices.Clone(bodies[i])
		at := rapid.IntRange(0, len(body)-1).Draw(t, "byte")
		body[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "mask"))
		bodies[i] = body
		r := audit(anchor, bodies)
		if r.Verdict != Inconsistent || *r.FirstBadSeq > Seq(i+1) {
			t.Fatalf("record %d byte %d: %+v", i+1, at, r)
		}
	})
}

func TestKeepCheckpoint(t *testing.T) {
	for _, c := range []struct {
		older, newer uint64
		want         bool
	}{{5, 6, false}, {7, 8, true}, {4095, 4097, true}, {5000, 5001, false}, {8000, 8200, true}} {
		if got := KeepCheckpoint(c.older, c.newer); got != c.want {
			t.Errorf("%d then %d: %v", c.older, c.newer, got)
		}
	}
}

func BenchmarkAudit(b *testing.B) {
	_, _, key := mustKey(b)
	pad := strings.Repeat("x", 400)
	d := NewAuditor(Anchor{Key: key})
	var prev Hash
	bodies := make([][]byte, 10000)
	for i := range bodies {
		bodies[i] = record(Seq(i+1), prev, `{"type":"clock.ticked","id":"`+pad+`"}`)
		prev = Leaf(bodies[i])
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(bodies[0])))
	for i := range b.N {
		if i%len(bodies) == 0 {
			d = NewAuditor(Anchor{Key: key})
		}
		d.Add(Seq(i%len(bodies)+1), bodies[i%len(bodies)])
	}
}

func TestParseHash(t *testing.T) {
	h := Leaf([]byte("a"))
	if got, err := ParseHash(h.String()); err != nil || got != h {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "00", strings.ToUpper(h.String()), hex.EncodeToString(make([]byte, 33)), strings.Repeat("g", 64)} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}
