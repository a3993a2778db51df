package logger_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/internal/durable"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// keyed is a ledger with some records, and a recovery key.
type keyed struct {
	*house
	seed     []byte
	recovery string
	first    string // the key of record 1
}

func mustSeed(t testing.TB) (seed []byte, public string) {
	t.Helper()
	pair, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	if seed, err = pair.Seed(); err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return seed, public
}

func newKeyed(t testing.TB) *keyed {
	t.Helper()
	k := &keyed{house: emptyHouse(t, t.TempDir())}
	k.seed, k.recovery = mustSeed(t)
	sum := ledger.Hash(sha256.Sum256([]byte(k.recovery)))
	if err := logger.Genesis(context.Background(), k.cfg, sum.String()); err != nil {
		t.Fatal(err)
	}
	k.first = k.current()
	k.work()
	return k
}

func (k *keyed) current() string {
	k.t.Helper()
	vkey, _, err := logger.LoadVerifier(k.files())
	if err != nil {
		k.t.Fatal(err)
	}
	return vkey
}

// work starts the logger, has an event taken and stops.
func (k *keyed) work() {
	k.t.Helper()
	k.s.forget()
	s := k.start()
	s.must(principal.Agent, gate(k.t))
	s.stop()
}

func (k *keyed) rotate() string {
	k.t.Helper()
	vkey, err := logger.Rotate(k.files())
	if err != nil {
		k.t.Fatal(err)
	}
	return vkey
}

// holds audits with every key as the pin, and wants n rotations.
func (k *keyed) holds(n int, pins ...string) {
	k.t.Helper()
	signed, err := logger.ReadCheckpoints(k.files())
	if err != nil {
		k.t.Fatal(err)
	}
	for _, pin := range pins {
		a := ledger.NewAuditor(ledger.Anchor{Key: pin, Signed: signed})
		for i, b := range k.s.all() {
			a.Add(ledger.Seq(i+1), b)
		}
		r := a.Report()
		if r.Verdict != ledger.Consistent || r.UnsignedTail == nil || *r.UnsignedTail != 0 {
			k.t.Fatalf("pin %s: %s %s, tail %v", pin, r.Verdict, deref(r.Finding), r.UnsignedTail)
		}
	}
	if got := len(own[*events.LedgerKeyRotated](k.house)); got != n {
		k.t.Errorf("%d rotations, want %d", got, n)
	}
	if _, err := logger.LoadCheckpoints(k.files()); err != nil {
		k.t.Errorf("checkpoints on file: %v", err)
	}
}

// settledOn checks that key is in force here, alone, and that nothing waits.
func (k *keyed) settledOn(vkey string) {
	k.t.Helper()
	skey, err := os.ReadFile(filepath.Join(k.cfg.Dir, "key"))
	if err != nil {
		k.t.Fatal(err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(skey)))
	if err != nil {
		k.t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		k.t.Fatal(err)
	}
	if signer.KeyHash() != v.KeyHash() || k.current() != vkey {
		k.t.Errorf("the key in place is not %s", vkey)
	}
	if next, err := logger.PreparedKey(k.files()); err != nil || next != "" {
		k.t.Errorf("%q waits, %v", next, err)
	}
	ring, err := logger.LoadKeyring(k.files())
	if err != nil {
		k.t.Fatal(err)
	}
	if keys := ring.Keys(); keys[len(keys)-1].Verifier != vkey {
		k.t.Errorf("keyring %+v", keys)
	}
	entries, err := os.ReadDir(k.cfg.Dir)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".key") {
			k.t.Errorf("%s was left", e.Name())
		}
	}
}

func TestRotate(t *testing.T) {
	k := newKeyed(t)
	pins := []string{k.first}
	for n := range 3 {
		vkey := k.rotate()
		if k.current() != pins[n] {
			t.Error("in force before the logger's start")
		}
		if _, err := logger.Rotate(k.files()); !errors.Is(err, logger.ErrRotating) {
			t.Errorf("a second rotation: %v", err)
		}
		pins = append(pins, vkey)
		k.work()
		k.settledOn(vkey)
		k.holds(n+1, pins...)
		k.work()
		k.holds(n+1, pins...)
	}
	rotated := own[*events.LedgerKeyRotated](k.house)[0]
	if rotated.OldKey != pins[0] || rotated.NewKey != pins[1] || rotated.RecoveryKey != nil {
		t.Errorf("%+v", rotated)
	}
}

func TestRotateWhileTheLoggerRuns(t *testing.T) {
	k := newKeyed(t)
	k.s.forget()
	s := k.start()
	if _, err := logger.Rotate(k.files()); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("rotate: %v", err)
	}
	if _, err := logger.Recover(k.files(), k.seed, k.recovery); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("recover: %v", err)
	}
	s.stop()
}

// A crash between any two steps of a rotation, by the files that it leaves.
func TestRotationSurvivesACrash(t *testing.T) {
	for name, crash := range map[string]struct {
		keep []string // files and directories as they were before the rotation's start
		next bool     // key.next is still there
	}{
		"appended, nothing more":          {[]string{"key", "key.pub", "keyring", "checkpoint", "index"}, true},
		"appended, indexed":               {[]string{"key", "key.pub", "keyring", "checkpoint"}, true},
		"keyring written":                 {[]string{"key", "key.pub", "checkpoint"}, true},
		"public key written":              {[]string{"key", "checkpoint"}, true},
		"swapped, key.next not removed":   {[]string{"checkpoint"}, true},
		"swapped, not signed":             {[]string{"checkpoint"}, false},
		"swapped, not signed, index lost": {[]string{"checkpoint", "index"}, false},
		"signed, key.next came back":      {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeyed(t)
			vkey := k.rotate()
			before := t.TempDir()
			copyDir(t, k.cfg.Dir, before)
			k.s.forget()
			l, err := k.open() // appends the rotation, swaps and signs
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			restore := crash.keep
			if crash.next {
				restore = append(slices.Clone(restore), "key.next")
			}
			for _, f := range restore {
				remove(t, filepath.Join(k.cfg.Dir, f))
				st, err := os.Stat(filepath.Join(before, f))
				switch {
				case errors.Is(err, os.ErrNotExist):
				case st.IsDir():
					copyDir(t, filepath.Join(before, f), filepath.Join(k.cfg.Dir, f))
				default:
					raw, err := os.ReadFile(filepath.Join(before, f))
					if err != nil {
						t.Fatal(err)
					}
					write(t, filepath.Join(k.cfg.Dir, f), string(raw))
				}
			}
			k.work()
			k.settledOn(vkey)
			k.holds(1, k.first, vkey)
		})
	}
}

// A start that the broker does not answer leaves the rotation to the next one.
func TestRotationWaitsForTheAck(t *testing.T) {
	k := newKeyed(t)
	vkey := k.rotate()
	k.s.forget()
	k.s.then(fault{}) // logger.started
	k.s.then(slices.Repeat([]fault{{outcome: lost}}, 100)...)
	if l, err := k.openWithin(300 * time.Millisecond); err == nil {
		l.Close()
		t.Fatal("started")
	}
	if k.current() != k.first {
		t.Error("in force without an ack")
	}
	k.work()
	k.settledOn(vkey)
	k.holds(1, k.first, vkey)
}

// The ack is lost: the same record is found in the stream and not written again.
func TestRotationIsAppendedOnce(t *testing.T) {
	k := newKeyed(t)
	vkey := k.rotate()
	k.s.forget()
	k.s.then(fault{}, fault{outcome: unacked})
	l, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	k.work()
	k.settledOn(vkey)
	k.holds(1, k.first, vkey)
}

func TestRecover(t *testing.T) {
	for name, lose := range map[string]func(*keyed){
		"key lost":                 func(k *keyed) { remove(k.t, filepath.Join(k.cfg.Dir, "key")) },
		"key stolen":               func(*keyed) {},
		"a rotation was prepared":  func(k *keyed) { k.rotate() },
		"key lost after rotations": func(k *keyed) { k.rotate(); k.work(); remove(k.t, filepath.Join(k.cfg.Dir, "key")) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeyed(t)
			lose(k)
			before := len(own[*events.LedgerKeyRotated](k.house))
			other, _ := mustSeed(t)
			if _, err := logger.Recover(k.files(), other, k.recovery); !errors.Is(err, logger.ErrNoRecoveryKey) {
				t.Errorf("another seed: %v", err)
			}
			vkey, err := logger.Recover(k.files(), k.seed, k.recovery)
			if err != nil {
				t.Fatal(err)
			}
			k.work()
			k.settledOn(vkey)
			k.holds(before+1, k.first, vkey)
			if r := own[*events.LedgerKeyRotated](k.house)[before]; r.OldSignature != nil || *r.RecoveryKey != k.recovery {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A seed that record 1 does not commit to changes nothing, even if services.json
// was made to name it.
func TestRecoveryIsHeldAgainstRecord1(t *testing.T) {
	k := newKeyed(t)
	other, public := mustSeed(t)
	if _, err := logger.Recover(k.files(), other, public); err != nil {
		t.Fatal(err)
	}
	k.s.forget()
	k.refuses(ledger.ErrBadRotation)
	if n := len(own[*events.LedgerKeyRotated](k.house)); n != 0 {
		t.Fatalf("%d rotations", n)
	}
	vkey, err := logger.Recover(k.files(), k.seed, k.recovery)
	if err != nil {
		t.Fatal(err)
	}
	k.work()
	k.settledOn(vkey)
	k.holds(1, k.first, vkey)
}

// Whoever stole the key and can write to the stream may rotate it. The logger
// finds out, signs nothing more, and the recovery key takes the log back.
func TestStolenKeyIsRotatedByTheThief(t *testing.T) {
	k := newKeyed(t)
	mine := t.TempDir()
	copyDir(t, k.cfg.Dir, mine)
	stolen := k.rotate()
	k.work() // by the thief, with a copy of the directory
	// The rightful directory is as it was before.
	remove(t, k.cfg.Dir)
	copyDir(t, mine, k.cfg.Dir)
	k.s.forget()
	k.refuses(logger.ErrKeyNotInForce)
	k.refuses(logger.ErrKeyNotInForce)
	vkey, err := logger.Recover(k.files(), k.seed, k.recovery)
	if err != nil {
		t.Fatal(err)
	}
	k.work()
	k.settledOn(vkey)
	k.holds(2, k.first, stolen, vkey)
	if keys := own[*events.LedgerKeyRotated](k.house); len(keys) != 2 || keys[1].OldKey != stolen {
		t.Errorf("%+v", keys)
	}
}

// Standbys of one directory share the keys; the one that takes over finds those
// that are in force.
func TestStandbysShareARotation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		k := newKeyed(t)
		vkey := k.rotate()
		_, first, err := logger.LoadVerifier(k.files())
		if err != nil {
			t.Fatal(err)
		}
		h := &twins{k.house, first}
		a, b := h.standBy(""), h.standBy("b")
		if _, err := logger.Rotate(k.files()); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("beside standbys: %v", err)
		}
		time.Sleep(10 * time.Second)
		if a.l.Status().Role != logger.RoleActive {
			a, b = b, a
		}
		a.active()
		a.must(principal.Agent, gate(t))
		time.Sleep(3 * time.Second)
		k.settledOn(vkey)
		a.p.pause()
		b.active()
		b.must(principal.Agent, gate(t))
		b.stop()
		k.holds(1, k.first, vkey)
	})
}

func TestKeyringText(t *testing.T) {
	k := newKeyed(t)
	second := k.rotate()
	k.work()
	ring, err := logger.LoadKeyring(k.files())
	if err != nil {
		t.Fatal(err)
	}
	good := string(ring.Encode())
	if want := "1 " + k.first + "\n5 " + second + "\n"; good != want {
		t.Fatalf("%q, want %q", good, want)
	}
	_, other, err := note.GenerateKey(rand.Reader, "example.com/other")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":           "",
		"no size":         k.first + "\n",
		"not from 1 on":   "2 " + k.first + "\n",
		"not in order":    "1 " + k.first + "\n1 " + second + "\n",
		"no key":          "1 \n",
		"malformed key":   "1 example.com/log+0+0\n",
		"an empty line":   "1 " + k.first + "\n\n",
		"another log's":   "1 " + k.first + "\n5 " + other + "\n",
		"sign in a size":  "+1 " + k.first + "\n",
		"more than a key": "1 " + k.first + " x\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := logger.ParseKeyring([]byte(text)); !errors.Is(err, logger.ErrBadKeyring) {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzParseKeyring(f *testing.F) {
	_, vkey, err := note.GenerateKey(bytes.NewReader(make([]byte, 64)), "example.com/log")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("1 " + vkey + "\n"))
	f.Add([]byte("1 " + vkey + "\n7 " + vkey + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := logger.ParseKeyring(text)
		if err != nil {
			if !errors.Is(err, logger.ErrBadKeyring) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := logger.ParseKeyring(ring.Encode())
		if err != nil || !slices.Equal(again.Keys(), ring.Keys()) {
			t.Errorf("%q: %v", ring.Encode(), err)
		}
	})
}
