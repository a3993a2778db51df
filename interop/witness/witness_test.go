package witness

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"assay/ledger"
	"assay/ledger/witness"
)

const origin = "example.com/log"

// log is a log without records: leaves and a key.
type log struct {
	t      testing.TB
	key    note.Signer
	vkey   string
	leaves []ledger.Hash
}

func newLog(t testing.TB, n int) *log {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return (&log{t: t, key: key, vkey: vkey}).grow(n, "a")
}

// grow adds leaves until there are n.
func (l *log) grow(n int, text string) *log {
	for len(l.leaves) < n {
		l.leaves = append(l.leaves, ledger.Leaf(fmt.Appendf(nil, "%s %d", text, len(l.leaves))))
	}
	return l
}

// fork is the same log up to n leaves.
func (l *log) fork(n int) *log {
	return &log{t: l.t, key: l.key, vkey: l.vkey, leaves: append([]ledger.Hash(nil), l.leaves[:n]...)}
}

// proof takes a witness from size old to size.
func (l *log) proof(old, size uint64) ledger.ConsistencyProof {
	l.t.Helper()
	p := ledger.ConsistencyProof{Old: old}
	var want []int64
	var err error
	if old > 0 && old < size {
		if want, err = ledger.WantConsistency(old, size); err != nil {
			l.t.Fatal(err)
		}
	}
	nodes := ledger.NewCollector(nil, want)
	for _, leaf := range l.leaves[:size] {
		nodes.Add(leaf)
	}
	if want != nil {
		if p.Path, err = ledger.ProveConsistency(old, size, nodes); err != nil {
			l.t.Fatal(err)
		}
	}
	p.Checkpoint, err = ledger.SignCheckpoint(ledger.Checkpoint{Origin: origin, Size: size, Root: nodes.Tree().Root()}, l.key)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// TestTorchwoodVerifiesOurs: what our witness answers is a cosignature to
// torchwood, under the vkey that init prints.
func TestTorchwoodVerifiesOurs(t *testing.T) {
	l := newLog(t, 9)
	d := witness.Dir(t.TempDir())
	vkey, err := witness.Init(d, "witness.example/w1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := witness.AddLog(d, l.vkey); err != nil {
		t.Fatal(err)
	}
	s, err := witness.Open(witness.Config{Dir: d})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	theirs := torchwoodVerifier(t, d)
	if theirs.String() != vkey {
		t.Fatalf("torchwood writes the key %s, we %s", theirs, vkey)
	}
	for _, sizes := range [][2]uint64{{0, 1}, {1, 5}, {5, 9}, {9, 9}} {
		p := l.proof(sizes[0], sizes[1])
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/add-checkpoint", bytes.NewReader(p.Encode())))
		if w.Code != 200 {
			t.Fatalf("%v: %d %s", sizes, w.Code, w.Body)
		}
		n, err := note.Open(append(p.Checkpoint, w.Body.Bytes()...), note.VerifierList(theirs))
		if err != nil || len(n.Sigs) != 1 {
			t.Fatalf("%v: %v", sizes, err)
		}
		cp, err := torchwood.ParseCheckpoint(n.Text)
		if err != nil || cp.Origin != origin || uint64(cp.N) != sizes[1] {
			t.Fatalf("%+v %v", cp, err)
		}
		at, err := torchwood.CosignatureTimestamp(n.Sigs[0])
		if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
			t.Fatalf("timestamp %d %v", at, err)
		}
	}
}

// torchwoodVerifier makes torchwood's verifier from our witness's key file: it
// reads no vkeys.
func torchwoodVerifier(t testing.TB, d witness.Dir) *torchwood.CosignatureVerifier {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(string(d), "key"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(strings.TrimSpace(string(raw)), "+", 5) // PRIVATE+KEY+name+id+material
	material, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(material) != 1+ed25519.SeedSize {
		t.Fatalf("key of %d bytes: %v", len(material), err)
	}
	s, err := torchwood.NewCosignatureSigner(parts[2], ed25519.NewKeyFromSeed(material[1:]))
	if err != nil {
		t.Fatal(err)
	}
	return s.Verifier()
}

// TestWeVerifyTorchwoods: torchwood's cosignatures meet our policy, under the
// vkey that torchwood prints.
func TestWeVerifyTorchwoods(t *testing.T) {
	l := newLog(t, 9)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := torchwood.NewCosignatureSigner("witness.example/theirs", key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := witness.ParsePolicy([]byte(fmt.Sprintf("log %s\nwitness a %s\nquorum a\n", l.vkey, signer.Verifier())))
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(l.proof(0, 9).Checkpoint, note.VerifierList(verifier(t, l.vkey)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := note.Sign(n, signer)
	if err != nil {
		t.Fatal(err)
	}
	if ok, by, err := p.Satisfied(raw); !ok || err != nil {
		t.Fatalf("%v %v %v in %s", ok, by, err, raw)
	}
	if ok, _, err := p.Satisfied(l.proof(0, 9).Checkpoint); ok || err != nil {
		t.Fatalf("without it: %v %v", ok, err)
	}
}

func verifier(t testing.TB, vkey string) note.Verifier {
	t.Helper()
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestLitewitness runs our client against torchwood's litewitness.
func TestLitewitness(t *testing.T) {
	w := startLitewitness(t)
	l := newLog(t, 400)
	w.trust(l)
	v, err := witness.NewVerifier(w.vkey)
	if err != nil {
		t.Fatal(err)
	}
	c := &witness.Client{URL: w.url, Verifier: v}
	fork := l.fork(100).grow(400, "b")
	for _, step := range []struct {
		name  string
		proof ledger.ConsistencyProof
		want  error
	}{
		{"first", l.proof(0, 1), nil},
		{"growth", l.proof(1, 2), nil},
		{"growth to an odd size", l.proof(2, 77), nil},
		{"growth to a power of two", l.proof(77, 256), nil},
		{"the same again", l.proof(256, 256), nil},
		{"forgotten", l.proof(0, 300), witness.ErrConflict},
		{"rolled back", l.proof(77, 100), witness.ErrConflict},
		{"a fork", fork.proof(256, 300), witness.ErrRefused},
		{"another root", fork.proof(256, 256), witness.ErrRefused}, // litewitness answers 422 where we answer 409
		{"further growth", l.proof(256, 400), nil},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		sig, err := c.AddCheckpoint(ctx, step.proof)
		cancel()
		if !errors.Is(err, step.want) {
			t.Fatalf("%s: %v, want %v\n%s", step.name, err, step.want, w.log())
		}
		var other *witness.ConflictError
		if errors.As(err, &other) && other.Size != 256 {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err == nil {
			if _, err := note.Open(append(step.proof.Checkpoint, sig...), note.VerifierList(v)); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
	}
}

type litewitness struct {
	t             testing.TB
	url, vkey, db string
	logFile       string
}

func (w *litewitness) log() string {
	raw, err := os.ReadFile(w.logFile)
	return fmt.Sprint(string(raw), err)
}

// trust does what witnessctl does, which does not build without a module that
// the proxy does not have.
func (w *litewitness) trust(l *log) {
	w.t.Helper()
	db, err := sqlite.OpenConn(w.db, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	empty := "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	for _, q := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", []any{origin, empty}},
		{"INSERT INTO key (origin, key) VALUES (?, ?)", []any{origin, l.vkey}},
	} {
		if err := sqlitex.Execute(db, q.query, &sqlitex.ExecOptions{Args: q.args}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func startLitewitness(t *testing.T) *litewitness {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "litewitness")
	if out, err := exec.Command("go", "build", "-o", bin, "filippo.io/torchwood/cmd/litewitness").CombinedOutput(); err != nil {
		t.Fatalf("build litewitness: %v\n%s", err, out)
	}
	socket, fingerprint := serveAgent(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	w := &litewitness{t: t, url: "http://" + address, db: filepath.Join(dir, "db"), logFile: filepath.Join(dir, "log")}
	out, err := os.Create(w.logFile)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-name", "witness.example/lite", "-db", w.db, "-ssh-agent", socket, "-listen", address, "-key", fingerprint)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Close()
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("litewitness does not answer: %s", w.log())
		}
	}
	for _, word := range strings.Fields(w.log()) {
		if k, ok := strings.CutPrefix(word, "vkey="); ok {
			w.vkey = strings.Trim(k, `"`)
		}
	}
	return w
}

// serveAgent holds a fresh key the way ssh-agent does.
func serveAgent(t *testing.T) (socket, fingerprint string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: &key}); err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "agent")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = agent.ServeAgent(ring, c)
			}()
		}
	}()
	return socket, ssh.FingerprintSHA256(public)
}
