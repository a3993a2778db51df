// Package tilestest makes ledgers and directories for tests of exports.
package tilestest

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
)

// Origin is that of every Log.
const Origin = "example.com/log"

// Log is a ledger in memory whose checkpoints can be signed at any size. It
// implements tiles.Source.
type Log struct {
	Key      string // note verifier key
	Verifier note.Verifier
	Bodies   [][]byte
	Leaves   []ledger.Hash
	roots    []ledger.Hash // by size - 1
	signers  []note.Signer // the last is in force
	tree     ledger.Tree
	last     ledger.Hash
}

// New makes a ledger of n records with a key of its own.
func New(t testing.TB, n int) *Log {
	t.Helper()
	l := &Log{}
	l.newKey(t)
	for i := 1; i <= n; i++ {
		event := fmt.Sprintf(`{"type":"clock.ticked","id":"%d"}`, i)
		if i == 1 {
			event = `{"type":"ledger.opened","data":{"public_key":"` + l.Key + `"}}`
		}
		l.Add(event)
	}
	return l
}

func (l *Log) newKey(t testing.TB) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, Origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	if l.Verifier, err = note.NewVerifier(vkey); err != nil {
		t.Fatal(err)
	}
	l.Key, l.signers = vkey, append(l.signers, signer)
}

// Rotate records a change of the key; both keys sign it.
func (l *Log) Rotate(t testing.TB) {
	t.Helper()
	old := l.Key
	l.newKey(t)
	text := ledger.RotationText(Origin, old, l.Key)
	n := len(l.signers)
	oldSig, err := ledger.SignRotation(text, l.signers[n-2])
	if err != nil {
		t.Fatal(err)
	}
	newSig, err := ledger.SignRotation(text, l.signers[n-1])
	if err != nil {
		t.Fatal(err)
	}
	l.Add(fmt.Sprintf(`{"type":"ledger.key_rotated","data":{"old_key":"%s","new_key":"%s","old_signature":"%s","new_signature":"%s"}}`, old, l.Key, oldSig, newSig))
}

// Fork is a ledger of the same key whose history differs from record n on.
func (l *Log) Fork(n, size int) *Log {
	f := &Log{Key: l.Key, Verifier: l.Verifier, signers: l.signers}
	for _, body := range l.Bodies[:n-1] {
		f.AddRaw(body)
	}
	for len(f.Bodies) < size {
		f.Add(fmt.Sprintf(`{"type":"clock.ticked","id":"fork %d"}`, len(f.Bodies)))
	}
	return f
}

// Add appends a record of the event.
func (l *Log) Add(event string) {
	seq := ledger.Seq(len(l.Bodies) + 1)
	l.AddRaw(ledger.AppendRecord(nil, ledger.Header{
		Seq: seq, Prev: l.last, RecordedAt: time.Date(2026, 10, 3, 12, 0, 0, int(seq), time.UTC),
		Principal: "logger/main", Namespace: "production",
	}, []byte(event)))
}

// AddRaw appends a message that need not be a record.
func (l *Log) AddRaw(body []byte) {
	l.Bodies = append(l.Bodies, body)
	l.last = ledger.Leaf(body)
	l.Leaves = append(l.Leaves, l.last)
	l.tree.Append(l.last)
	l.roots = append(l.roots, l.tree.Root())
}

// Root is that of the first size records.
func (l *Log) Root(size int) ledger.Hash { return l.roots[size-1] }

// Sign signs a checkpoint of the first size records.
func (l *Log) Sign(t testing.TB, size int) ledger.SignedCheckpoint {
	t.Helper()
	return l.SignWith(t, len(l.signers)-1, size)
}

// SignWith is Sign with the key after i rotations.
func (l *Log) SignWith(t testing.TB, i, size int) ledger.SignedCheckpoint {
	t.Helper()
	root := ledger.EmptyRoot
	if size > 0 {
		root = l.Root(size)
	}
	return sign(t, ledger.Checkpoint{Origin: Origin, Size: uint64(size), Root: root}, l.signers[i])
}

// SignAs signs any checkpoint of the origin.
func (l *Log) SignAs(t testing.TB, cp ledger.Checkpoint) ledger.SignedCheckpoint {
	t.Helper()
	return sign(t, cp, l.signers[len(l.signers)-1])
}

func sign(t testing.TB, cp ledger.Checkpoint, signer note.Signer) ledger.SignedCheckpoint {
	t.Helper()
	raw, err := ledger.SignCheckpoint(cp, signer)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.SignedCheckpoint{Checkpoint: cp, Raw: raw}
}

// Read implements tiles.Source.
func (l *Log) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	for seq := max(from, 1); seq <= to && int(seq) <= len(l.Bodies); seq++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(seq, l.Bodies[seq-1]); err != nil {
			return err
		}
	}
	return nil
}
