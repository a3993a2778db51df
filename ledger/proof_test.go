package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	fproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

func rootAt(leaves []Hash, n int) Hash {
	var t Tree
	for _, l := range leaves[:n] {
		t.Append(l)
	}
	return t.Root()
}

func leavesOf(n int) []Hash {
	out := make([]Hash, n)
	for i := range out {
		out[i] = Leaf(fmt.Appendf(nil, "leaf %d", i))
	}
	return out
}

func mustInclusion(t rapid.TB, leaves []Hash, i, size int) []Hash {
	t.Helper()
	want, err := WantInclusion(Index(i), uint64(size))
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(nil, want)
	for _, l := range leaves[:size] {
		c.Add(l)
	}
	path, err := ProveInclusion(Index(i), uint64(size), c)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// mustConsistency proves with nothing but the frontier at old and what follows.
func mustConsistency(t rapid.TB, leaves []Hash, old, size int) []Hash {
	t.Helper()
	want, err := WantConsistency(uint64(old), uint64(size))
	if err != nil {
		t.Fatal(err)
	}
	var frontier Tree
	for _, l := range leaves[:old] {
		frontier.Append(l)
	}
	c := NewCollector(&frontier, want)
	for _, l := range leaves[old:size] {
		c.Add(l)
	}
	path, err := ProveConsistency(uint64(old), uint64(size), c)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func equalPath(got []Hash, want [][]byte) bool {
	return slices.EqualFunc(got, want, func(a Hash, b []byte) bool { return bytes.Equal(a[:], b) })
}

// Facts: the leaves, roots and proofs of transparency-dev/merkle's test tree
// (Certificate Transparency's), and the hashes of x/mod's tlog for the same leaves.
func TestProofVectors(t *testing.T) {
	reference := testonly.New(rfc6962.DefaultHasher)
	reference.AppendData(testonly.LeafInputs()...)
	var leaves []Hash
	for i, in := range testonly.LeafInputs() {
		leaves = append(leaves, Leaf(in))
		if !bytes.Equal(leaves[i][:], testonly.NodeHashes()[0][i]) || leaves[i] != Hash(tlog.RecordHash(in)) {
			t.Errorf("leaf %d hashes to %s", i, leaves[i])
		}
	}
	for size := 1; size <= len(leaves); size++ {
		root := rootAt(leaves, size)
		if !bytes.Equal(root[:], testonly.RootHashes()[size]) {
			t.Errorf("root of %d: %s", size, root)
		}
		for i := range size {
			path := mustInclusion(t, leaves, i, size)
			want, err := reference.InclusionProof(uint64(i), uint64(size))
			if err != nil || !equalPath(path, want) {
				t.Errorf("path of %d in %d: %s, want %x %v", i, size, path, want, err)
			}
			if err := CheckInclusion(path, Index(i), leaves[i], uint64(size), root); err != nil {
				t.Error(err)
			}
		}
		for old := 1; old <= size; old++ {
			path := mustConsistency(t, leaves, old, size)
			want, err := reference.ConsistencyProof(uint64(old), uint64(size))
			if err != nil || !equalPath(path, want) {
				t.Errorf("from %d to %d: %s, want %x %v", old, size, path, want, err)
			}
		}
	}
}

func TestProofsForAnyTwoSizes(t *testing.T) {
	leaves := leavesOf(300)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, len(leaves)).Draw(t, "size")
		i := rapid.IntRange(0, size-1).Draw(t, "leaf")
		old := rapid.IntRange(1, size).Draw(t, "old")
		root := rootAt(leaves, size)
		path := mustInclusion(t, leaves, i, size)
		if err := CheckInclusion(path, Index(i), leaves[i], uint64(size), root); err != nil {
			t.Fatal(err)
		}
		tpath := make(tlog.RecordProof, len(path))
		for k, h := range path {
			tpath[k] = tlog.Hash(h)
		}
		if err := tlog.CheckRecord(tpath, int64(size), tlog.Hash(root), int64(i), tlog.Hash(leaves[i])); err != nil {
			t.Fatalf("tlog refuses the path: %v", err)
		}
		was, is := Checkpoint{origin, uint64(old), rootAt(leaves, old)}, Checkpoint{origin, uint64(size), root}
		cons := mustConsistency(t, leaves, old, size)
		if err := CheckConsistency(cons, was, is); err != nil {
			t.Fatal(err)
		}
		spoilt := rapid.SampledFrom([]string{"path", "root", "old root", "leaf", "index", "length"}).Draw(t, "spoil")
		if err := spoil(spoilt, path, cons, leaves, i, was, is); err == nil {
			t.Fatalf("a proof with another %s passed", spoilt)
		}
	})
}

// spoil changes one part of a good proof and returns what the check says.
func spoil(part string, path, cons []Hash, leaves []Hash, i int, was, is Checkpoint) error {
	other := Leaf([]byte("other"))
	switch part {
	case "path":
		if len(path) == 0 {
			return ErrBadProof
		}
		changed := slices.Clone(path)
		changed[len(changed)/2] = other
		return CheckInclusion(changed, Index(i), leaves[i], is.Size, is.Root)
	case "root":
		is.Root = other
		return CheckConsistency(cons, was, is)
	case "old root":
		was.Root = other
		return CheckConsistency(cons, was, is)
	case "leaf":
		return CheckInclusion(path, Index(i), other, is.Size, is.Root)
	case "index":
		if is.Size == 1 {
			return ErrBadProof
		}
		return CheckInclusion(path, Index((i+1)%int(is.Size)), leaves[i], is.Size, is.Root)
	}
	return CheckConsistency(append(slices.Clone(cons), other), was, is)
}

// Sizes that no proof can be of are refused before any arithmetic: an empty
// proof from size 0 would be "good" for every tree.
func TestProofSizesAreBounded(t *testing.T) {
	leaf := Leaf(nil)
	for _, size := range []uint64{0, 1 << 53, 1 << 63, math.MaxUint64} {
		if err := CheckInclusion(nil, 0, leaf, size, leaf); !errors.Is(err, ErrSize) {
			t.Errorf("inclusion in %d: %v", size, err)
		}
		if err := CheckInclusion(nil, Index(size), leaf, 7, leaf); !errors.Is(err, ErrSize) && size != 0 {
			t.Errorf("inclusion of %d: %v", size, err)
		}
		if _, err := ProveInclusion(0, size, NewCollector(nil, nil)); !errors.Is(err, ErrSize) {
			t.Errorf("prove inclusion in %d: %v", size, err)
		}
		for _, other := range []uint64{0, 1, 5, math.MaxUint64} {
			old, next := Checkpoint{origin, size, EmptyRoot}, Checkpoint{origin, other, leaf}
			if err := CheckConsistency(nil, old, next); !errors.Is(err, ErrSize) {
				t.Errorf("consistency %d to %d: %v", size, other, err)
			}
			if err := CheckConsistency(nil, next, old); !errors.Is(err, ErrSize) {
				t.Errorf("consistency %d to %d: %v", other, size, err)
			}
			if _, err := ProveConsistency(size, other, NewCollector(nil, nil)); !errors.Is(err, ErrSize) {
				t.Errorf("prove consistency %d to %d: %v", size, other, err)
			}
		}
	}
	same := Checkpoint{origin, 5, leaf}
	if err := CheckConsistency(nil, same, same); err != nil {
		t.Errorf("a tree with itself: %v", err)
	}
	if err := CheckConsistency(nil, same, Checkpoint{origin, 5, Leaf([]byte("x"))}); !errors.Is(err, ErrBadProof) {
		t.Errorf("another root of the same size: %v", err)
	}
	if err := CheckConsistency(nil, same, Checkpoint{"example.com/other", 5, leaf}); !errors.Is(err, ErrBadProof) {
		t.Errorf("another log: %v", err)
	}
	if _, err := NewCollector(nil, nil).ReadHashes([]int64{0}); err == nil {
		t.Error("a hash that never passed by was given")
	}
}

// Facts from the documentation of golang.org/x/mod/sumdb/note and tlog.
func TestNoteVectors(t *testing.T) {
	const vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
	const signed = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n" +
		"— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open([]byte(signed), note.VerifierList(v)); err != nil {
		t.Error(err)
	}
	if _, err := OpenCheckpoint([]byte(signed), v); !errors.Is(err, ErrBadCheckpoint) {
		t.Errorf("a note that is no checkpoint: %v", err)
	}
	tree := "go.sum database tree\n123456789012\nTszzRgjTG6xce+z2AG31kAXYKBgQVtCSCE40HmuwBb0=\n"
	cp, err := parseCheckpointText(tree)
	if err != nil || cp.Size != 123456789012 || cp.Root.String()[:8] != "4eccf346" {
		t.Errorf("%+v %v", cp, err)
	}
	for name, text := range map[string]string{
		"leading zero":       strings.Replace(tree, "1234", "01234", 1),
		"sign":               strings.Replace(tree, "1234", "+1234", 1),
		"2^53":               strings.Replace(tree, "123456789012", "9007199254740992", 1),
		"2^63":               strings.Replace(tree, "123456789012", "9223372036854775808", 1),
		"2^64-1":             strings.Replace(tree, "123456789012", "18446744073709551615", 1),
		"2^64":               strings.Replace(tree, "123456789012", "18446744073709551616", 1),
		"short root":         strings.Replace(tree, "Tszz", "", 1),
		"trailing bits":      strings.Replace(tree, "b0=", "b1=", 1),
		"no root":            "go.sum database tree\n12\n",
		"no final newline":   strings.TrimSuffix(tree, "\n"),
		"carriage return":    strings.ReplaceAll(tree, "\n", "\r\n"),
		"white space around": " " + tree + " ",
	} {
		if name == "white space around" {
			text = strings.Replace(tree, "\n123456789012\n", "\n 123456789012 \n", 1)
		}
		if _, err := parseCheckpointText(text); !errors.Is(err, ErrBadCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signedLog is a ledger of n records with its key and signed checkpoint.
type signedLog struct {
	bodies [][]byte
	leaves []Hash
	signer note.Signer
	key    note.Verifier
	vkey   string
}

func newSignedLog(t testing.TB, n int) *signedLog {
	l := &signedLog{}
	l.signer, l.key, l.vkey = mustKey(t)
	l.bodies = build(n, l.vkey)
	for _, b := range l.bodies {
		l.leaves = append(l.leaves, Leaf(b))
	}
	return l
}

func (l *signedLog) checkpoint(t testing.TB, size int) []byte {
	t.Helper()
	raw, err := SignCheckpoint(checkpointOf(l.bodies[:size]), l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (l *signedLog) inclusion(t testing.TB, seq, size int) *InclusionProof {
	t.Helper()
	return &InclusionProof{
		Body: l.bodies[seq-1], Index: Seq(seq).Index(), Path: mustInclusion(t, l.leaves, seq-1, size), Checkpoint: l.checkpoint(t, size),
	}
}

func TestInclusionProofFile(t *testing.T) {
	l := newSignedLog(t, 11)
	p := l.inclusion(t, 7, 10)
	raw := p.Encode()
	got, err := ParseInclusionProof(raw)
	if err != nil {
		t.Fatal(err)
	}
	cp, r, err := got.Check(l.key)
	if err != nil || cp.Size != 10 || r.Seq != 7 || !bytes.Equal(r.Body, l.bodies[6]) {
		t.Errorf("%+v %+v %v", cp, r, err)
	}
	if !IsInclusionProof(raw) {
		t.Error("not taken for an inclusion proof")
	}
	// The format is public: an independent reader takes it.
	var independent fproof.TLogProof
	if err := independent.Unmarshal(raw); err != nil || independent.Index != 6 || !bytes.Equal(independent.ExtraData, l.bodies[6]) || len(independent.Hashes) != len(p.Path) {
		t.Errorf("formats/proof reads %+v, %v", independent, err)
	}
	_, other, _ := mustKey(t)
	if _, _, err := got.Check(other); !errors.Is(err, ErrBadCheckpoint) {
		t.Errorf("another key: %v", err)
	}
	moved := *p
	moved.Index = 5
	if _, _, err := moved.Check(l.key); !errors.Is(err, ErrBadProof) {
		t.Errorf("another index: %v", err)
	}
	changed := *p
	changed.Body = bytes.Replace(p.Body, []byte(`"id":"7"`), []byte(`"id":"8"`), 1)
	if _, _, err := changed.Check(l.key); !errors.Is(err, ErrBadProof) {
		t.Errorf("another body: %v", err)
	}
}

// The largest record that there can be has a proof that can be read.
func TestProofOfTheLargestRecord(t *testing.T) {
	l := newSignedLog(t, 1)
	room := MaxRecord - len(record(2, l.leaves[0], `{"x":""}`))
	l.bodies = append(l.bodies, record(2, l.leaves[0], `{"x":"`+strings.Repeat("y", room)+`"}`))
	l.leaves = append(l.leaves, Leaf(l.bodies[1]))
	if len(l.bodies[1]) != MaxRecord {
		t.Fatalf("%d bytes", len(l.bodies[1]))
	}
	got, err := ParseInclusionProof(l.inclusion(t, 2, 2).Encode())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := got.Check(l.key); err != nil {
		t.Error(err)
	}
}

func TestConsistencyProofFile(t *testing.T) {
	l := newSignedLog(t, 11)
	p := &ConsistencyProof{Old: 4, Path: mustConsistency(t, l.leaves, 4, 11), Checkpoint: l.checkpoint(t, 11)}
	got, err := ParseConsistencyProof(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	old := checkpointOf(l.bodies[:4])
	if cp, err := got.Check(old, l.key); err != nil || cp.Size != 11 {
		t.Errorf("%+v %v", cp, err)
	}
	if _, err := got.Check(checkpointOf(l.bodies[:5]), l.key); !errors.Is(err, ErrBadProof) {
		t.Errorf("an older checkpoint of another size: %v", err)
	}
	old.Root = Leaf(nil)
	if _, err := got.Check(old, l.key); !errors.Is(err, ErrBadProof) {
		t.Errorf("a forked older checkpoint: %v", err)
	}
	_, other, _ := mustKey(t)
	if _, err := got.Check(old, other); !errors.Is(err, ErrBadCheckpoint) {
		t.Errorf("another key: %v", err)
	}
}

func TestMalformedProofFiles(t *testing.T) {
	l := newSignedLog(t, 3)
	inclusion := string(l.inclusion(t, 2, 3).Encode())
	consistency := string((&ConsistencyProof{Old: 2, Path: mustConsistency(t, l.leaves, 2, 3), Checkpoint: l.checkpoint(t, 3)}).Encode())
	hash := base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"
	for name, raw := range map[string]string{
		"empty":            "",
		"another version":  strings.Replace(inclusion, "@v1", "@v2", 1),
		"no extra":         strings.Replace(inclusion, "extra ", "", 1),
		"leading zero":     strings.Replace(inclusion, "index 1", "index 01", 1),
		"negative":         strings.Replace(inclusion, "index 1", "index -1", 1),
		"beyond 64 bits":   strings.Replace(inclusion, "index 1", "index 18446744073709551616", 1),
		"short hash":       strings.Replace(inclusion, "index 1\n", "index 1\nAAAA\n", 1),
		"not base64":       strings.Replace(inclusion, "index 1\n", "index 1\n!\n", 1),
		"carriage returns": strings.ReplaceAll(inclusion, "\n", "\r\n"),
		"too long a path":  strings.Replace(inclusion, "index 1\n", "index 1\n"+strings.Repeat(hash, 64), 1),
		"no checkpoint":    inclusion[:strings.Index(inclusion, "\n\n")+2],
		"cut":              inclusion[:30],
		"too large":        inclusion + strings.Repeat("x", MaxProof),
	} {
		if _, err := ParseInclusionProof([]byte(raw)); !errors.Is(err, ErrMalformedProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, raw := range map[string]string{
		"empty":         "",
		"no old":        strings.Replace(consistency, "old ", "", 1),
		"leading zero":  strings.Replace(consistency, "old 2", "old 02", 1),
		"extra space":   strings.Replace(consistency, "old 2", "old  2", 1),
		"no checkpoint": consistency[:strings.Index(consistency, "\n\n")+2],
		"too large":     consistency + strings.Repeat("x", MaxProof),
	} {
		if _, err := ParseConsistencyProof([]byte(raw)); !errors.Is(err, ErrMalformedProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseInclusionProof(f *testing.F) {
	l := newSignedLog(f, 5)
	f.Add(l.inclusion(f, 3, 5).Encode())
	f.Add([]byte("c2sp.org/tlog-proof@v1\nextra \nindex 0\n\nx\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseInclusionProof(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Encode(), raw) {
			t.Errorf("two encodings of %q", raw)
		}
		if cp, r, err := p.Check(l.key); err == nil && (int(cp.Size) > 5 || !bytes.Equal(r.Body, l.bodies[r.Seq-1])) {
			t.Errorf("a proof of what the log does not hold: %q", raw)
		}
	})
}

func FuzzParseConsistencyProof(f *testing.F) {
	l := newSignedLog(f, 5)
	f.Add((&ConsistencyProof{Old: 2, Path: mustConsistency(f, l.leaves, 2, 5), Checkpoint: l.checkpoint(f, 5)}).Encode())
	f.Add([]byte("old 0\n\nx\n"))
	old := checkpointOf(l.bodies[:2])
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseConsistencyProof(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Encode(), raw) {
			t.Errorf("two encodings of %q", raw)
		}
		if cp, err := p.Check(old, l.key); err == nil && cp.Size != 5 {
			t.Errorf("a checkpoint that was never signed: %q", raw)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	l := newSignedLog(f, 3)
	f.Add(l.checkpoint(f, 3))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseCheckpoint(raw)
		opened, openErr := OpenCheckpoint(raw, l.key)
		if openErr == nil && (err != nil || s.Checkpoint != opened) {
			t.Errorf("opened as %+v, parsed as %+v, %v", opened, s, err)
		}
		if err == nil && s.Size > MaxSize {
			t.Errorf("size %d", s.Size)
		}
	})
}
