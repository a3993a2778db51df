package witness

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"assay/ledger"
)

// testLog is a log in memory; forks of it share the key.
type testLog struct {
	signer note.Signer
	vkey   string
	leaves []ledger.Hash
	hashes []tlog.Hash
	roots  []ledger.Hash
}

func newLog(tb testing.TB, origin string) *testLog {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		tb.Fatal(err)
	}
	return &testLog{signer: signer, vkey: vkey, roots: []ledger.Hash{ledger.EmptyRoot}}
}

// fork is the same log up to size, and free to go on otherwise.
func (l *testLog) fork(tb testing.TB, size int) *testLog {
	f := &testLog{signer: l.signer, vkey: l.vkey, roots: []ledger.Hash{ledger.EmptyRoot}}
	for _, leaf := range l.leaves[:size] {
		f.add(tb, leaf)
	}
	return f
}

func (l *testLog) add(tb testing.TB, leaf ledger.Hash) {
	tb.Helper()
	stored, err := tlog.StoredHashesForRecordHash(int64(len(l.leaves)), tlog.Hash(leaf), l)
	if err != nil {
		tb.Fatal(err)
	}
	l.leaves = append(l.leaves, leaf)
	l.hashes = append(l.hashes, stored...)
	root, err := tlog.TreeHash(int64(len(l.leaves)), l)
	if err != nil {
		tb.Fatal(err)
	}
	l.roots = append(l.roots, ledger.Hash(root))
}

// grow adds records that say text, until the log has size of them.
func (l *testLog) grow(tb testing.TB, size int, text string) *testLog {
	tb.Helper()
	for len(l.leaves) < size {
		l.add(tb, ledger.Leaf(fmt.Appendf(nil, "%s %d", text, len(l.leaves))))
	}
	return l
}

func (l *testLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = l.hashes[x]
	}
	return out, nil
}

func (l *testLog) checkpoint(tb testing.TB, size int) []byte {
	tb.Helper()
	raw, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: l.signer.Name(), Size: uint64(size), Root: l.roots[size]}, l.signer)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// proof is the request that takes a witness from old to size.
func (l *testLog) proof(tb testing.TB, old, size int) *ledger.ConsistencyProof {
	tb.Helper()
	p := &ledger.ConsistencyProof{Old: uint64(old), Checkpoint: l.checkpoint(tb, size)}
	if old > 0 && old < size {
		path, err := tlog.ProveTree(int64(size), int64(old), l)
		if err != nil {
			tb.Fatal(err)
		}
		for _, h := range path {
			p.Path = append(p.Path, ledger.Hash(h))
		}
	}
	return p
}

func newDir(tb testing.TB, name string, vkeys ...string) Dir {
	tb.Helper()
	d := Dir(tb.TempDir())
	if _, err := Init(d, name); err != nil {
		tb.Fatal(err)
	}
	for _, k := range vkeys {
		if _, err := AddLog(d, k); err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

func openServer(tb testing.TB, d Dir) *Server {
	tb.Helper()
	s, err := Open(Config{Dir: d, Log: zerolog.Nop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func post(s http.Handler, body string) *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/add-checkpoint", strings.NewReader(body)))
	return w.Result()
}

func verifierOf(tb testing.TB, s *Server) note.Verifier {
	tb.Helper()
	v, err := NewVerifier(s.VKey())
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// vkeyOf encodes a public key under a name and type.
func vkeyOf(tb testing.TB, name string, typ byte, key string) string {
	tb.Helper()
	material := append([]byte{typ}, key...)
	sum := sha256.Sum256(append([]byte(name+"\n"), material...))
	return fmt.Sprintf("%s+%08x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(material))
}
