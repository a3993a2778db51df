package witness

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"assay/internal/durable"
	"assay/internal/versioned"
	"assay/ledger"
)

var (
	// ErrNotInitialised means that a directory has no witness key.
	ErrNotInitialised = errors.New("no witness key here: run `assay witness init` first")
	// ErrBadState means that what a witness knew of a log is gone or
	// unreadable. It must be restored: from size 0 a witness would cosign
	// anything.
	ErrBadState = errors.New("the witness's state cannot be trusted")
)

// Dir is a witness's directory; see the package comment.
type Dir string

func (d Dir) join(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

func (d Dir) key() string       { return d.join("key") }
func (d Dir) publicKey() string { return d.join("key.pub") }
func (d Dir) logs() string      { return d.join("logs") }
func (d Dir) lock() string      { return d.join("lock") }
func (d Dir) conflicts() string { return d.join("conflicts") }

func (d Dir) state(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return d.join("state", hex.EncodeToString(sum[:])+".json")
}

// Init makes the directory and the key of a witness named name and returns the
// vkey of its cosignatures. On a directory that has the key of that name it
// changes nothing.
func Init(d Dir, name string) (vkey string, err error) {
	for _, dir := range []string{string(d), d.join("state"), d.conflicts()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(d.key()); errors.Is(err, fs.ErrNotExist) {
		if err := d.createKey(name); err != nil {
			return "", err
		}
	}
	signer, vkey, err := d.loadKey()
	if err != nil {
		return "", err
	}
	if signer.Name() != name {
		return "", fmt.Errorf("%s is the witness %q, not %q", d, signer.Name(), name)
	}
	return vkey, nil
}

func (d Dir) createKey(name string) error {
	if known, err := os.ReadDir(d.join("state")); err != nil || len(known) > 0 {
		return errors.Join(err, fmt.Errorf("%s is gone, but %s holds what it cosigned: restore it", d.key(), d.join("state")))
	}
	skey, logKey, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return fmt.Errorf("make key of %q: %w", name, err)
	}
	vkey, err := fnote.VKeyToCosignatureV1(logKey)
	if err == nil {
		_, err = NewVerifier(vkey)
	}
	if err != nil {
		return fmt.Errorf("make key of %q: %w", name, err)
	}
	// The signing key last: it marks the other as whole.
	if err := durable.WriteFile(d.publicKey(), []byte(vkey+"\n"), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(d.key(), []byte(skey+"\n"), 0o600)
}

func (d Dir) loadKey() (signer *fnote.Signer, vkey string, err error) {
	skey, err := os.ReadFile(d.key())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%s: %w", d, ErrNotInitialised)
	}
	if err != nil {
		return nil, "", err
	}
	if signer, err = fnote.NewSignerForCosignatureV1(strings.TrimSpace(string(skey))); err != nil {
		return nil, "", fmt.Errorf("%s: %w", d.key(), err)
	}
	vkey, v, err := d.verifier()
	if err != nil {
		return nil, "", err
	}
	if v.Name() != signer.Name() || v.KeyHash() != signer.KeyHash() {
		return nil, "", fmt.Errorf("%s does not belong to %s", d.publicKey(), d.key())
	}
	return signer, vkey, nil
}

// verifier reads the public key alone.
func (d Dir) verifier() (vkey string, v note.Verifier, err error) {
	raw, err := os.ReadFile(d.publicKey())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s: %w", d, ErrNotInitialised)
	}
	if err != nil {
		return "", nil, err
	}
	vkey = strings.TrimSpace(string(raw))
	if v, err = NewVerifier(vkey); err != nil {
		return "", nil, fmt.Errorf("%s: %w", d.publicKey(), err)
	}
	return vkey, v, nil
}

// trusted are the keys of the logs file, by origin, in its order.
type trusted struct {
	origins []string
	keys    map[string][]note.Verifier
	vkeys   []string
}

func (d Dir) loadLogs() (trusted, error) {
	t := trusted{keys: map[string][]note.Verifier{}}
	raw, err := os.ReadFile(d.logs())
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return t, fmt.Errorf("%s: line %d: %w", d.logs(), i+1, err)
		}
		if t.keys[v.Name()] == nil {
			t.origins = append(t.origins, v.Name())
		}
		t.keys[v.Name()] = append(t.keys[v.Name()], v)
		t.vkeys = append(t.vkeys, line)
	}
	return t, nil
}

// AddLog trusts a log's vkey from now on; a running witness takes it up with
// its next request. A second key of an origin is trusted beside the first. It
// returns the origin.
func AddLog(d Dir, vkey string) (origin string, err error) {
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return "", fmt.Errorf("log key %q: %w", vkey, err)
	}
	if _, _, err := d.verifier(); err != nil {
		return "", err
	}
	lock, err := durable.WaitLock(d.join("logs.lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	t, err := d.loadLogs()
	if err != nil {
		return "", err
	}
	origin = v.Name()
	if len(t.keys[origin]) == 0 {
		// The state first: a listed log without one is an error.
		body, err := encodeState(origin, nil)
		if err == nil {
			err = durable.CreateFile(d.state(origin), body, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if _, err := d.loadState(origin); err != nil {
		return "", err
	}
	if slices.Contains(t.vkeys, vkey) {
		return origin, nil
	}
	raw, err := os.ReadFile(d.logs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		raw = append(raw, '\n')
	}
	return origin, durable.WriteFile(d.logs(), append(raw, vkey+"\n"...), 0o644)
}

// state is what a witness cosigned last of a log: of size 0, the empty root and
// without a note before the first.
type state = ledger.SignedCheckpoint

const stateVersion = 1

type stateFile struct {
	V          int    `json:"v"`
	Origin     string `json:"origin"`
	Checkpoint string `json:"checkpoint"`
	SHA256     string `json:"sha256"`
}

func stateSum(origin, checkpoint string) string {
	sum := sha256.Sum256([]byte(origin + "\n" + checkpoint))
	return hex.EncodeToString(sum[:])
}

func encodeState(origin string, raw []byte) ([]byte, error) {
	f := stateFile{V: stateVersion, Origin: origin, Checkpoint: string(raw), SHA256: stateSum(origin, string(raw))}
	body, err := json.Marshal(f, json.Deterministic(true))
	return append(body, '\n'), err
}

func (d Dir) loadState(origin string) (state, error) {
	path := d.state(origin)
	body, err := os.ReadFile(path)
	if err != nil {
		return state{}, fmt.Errorf("%w: what was cosigned of %q: %w: restore it from a copy", ErrBadState, origin, err)
	}
	st, err := decodeState(origin, body)
	if err != nil {
		return state{}, fmt.Errorf("%w: %s: %w", ErrBadState, path, err)
	}
	return st, nil
}

func decodeState(origin string, body []byte) (state, error) {
	var f stateFile
	if err := versioned.Decode(body, stateVersion, &f); err != nil {
		return state{}, err
	}
	switch {
	case f.SHA256 != stateSum(f.Origin, f.Checkpoint):
		return state{}, errors.New("its sha256 does not match")
	case f.Origin != origin:
		return state{}, fmt.Errorf("it is of %q, not of %q", f.Origin, origin)
	case f.Checkpoint == "":
		return state{Checkpoint: ledger.Checkpoint{Origin: origin, Root: ledger.EmptyRoot}}, nil
	}
	cp, err := ledger.ParseCheckpoint([]byte(f.Checkpoint))
	if err != nil {
		return state{}, err
	}
	if cp.Origin != origin {
		return state{}, fmt.Errorf("its checkpoint is of %q", cp.Origin)
	}
	return cp, nil
}
