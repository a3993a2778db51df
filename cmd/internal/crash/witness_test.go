package crash

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/ledger/witness"
)

// signedLog is a log without records: leaves and a key.
type signedLog struct {
	t      testing.TB
	key    note.Signer
	leaves []ledger.Hash
}

func (l *signedLog) grow(n int, text string) {
	for range n {
		l.leaves = append(l.leaves, ledger.Leaf(fmt.Appendf(nil, "%s %d", text, len(l.leaves))))
	}
}

// proof takes a witness from size old to size.
func (l *signedLog) proof(old, size uint64) ledger.ConsistencyProof {
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
	cp := ledger.Checkpoint{Origin: l.key.Name(), Size: size, Root: nodes.Tree().Root()}
	if p.Checkpoint, err = ledger.SignCheckpoint(cp, l.key); err != nil {
		l.t.Fatal(err)
	}
	return p
}

// TestWitnessSurvivesKills kills a witness while it is asked, over and over:
// what it cosigned stays cosigned, and after no kill does it take a smaller
// size or another root for it.
func TestWitnessSurvivesKills(t *testing.T) {
	h := &house{t: t, dir: node.Dir(filepath.Join(t.TempDir(), "house")), port: freePort(t)}
	skey, vkey, err := note.GenerateKey(crand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	h.must("witness", "init", "--name", "witness.example/w1")
	h.must("witness", "add-log", vkey)
	raw, err := os.ReadFile(filepath.Join(string(h.dir.Witness()), "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := witness.NewVerifier(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", h.port)
	p := h.supervise("witness", []string{assay, "--dir", string(h.dir), "witness", "serve", "--listen", address})
	c := &witness.Client{URL: "http://" + address, Verifier: verifier}
	ask := func(proof ledger.ConsistencyProof) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.AddCheckpoint(ctx, proof)
		return err
	}
	log := &signedLog{t: t, key: key}
	cosigned := uint64(0) // by an answer that arrived
	rounds := envInt(t, "ASSAY_CRASH_ROUNDS", 4) * 2
	for round := range rounds {
		kill := time.AfterFunc(time.Duration(rand.IntN(40))*time.Millisecond, func() { p.kill() })
		for died := false; !died; {
			log.grow(1+rand.IntN(5), "a")
			size := uint64(len(log.leaves))
			var other *witness.ConflictError
			switch err := ask(log.proof(cosigned, size)); {
			case err == nil:
				cosigned = size
			case errors.As(err, &other):
				// An answer of the round before got lost, not what it said.
				if other.Size < cosigned || other.Size >= size {
					t.Fatalf("round %d: size %d after %d was cosigned", round, other.Size, cosigned)
				}
				cosigned = other.Size
			case errors.Is(err, witness.ErrRefused), errors.Is(err, witness.ErrForked), errors.Is(err, witness.ErrBadAnswer):
				t.Fatalf("round %d: from %d to %d: %v", round, cosigned, size, err)
			default:
				died = true
			}
		}
		kill.Stop()
		h.await("the witness to be back", func() bool {
			err := ask(log.proof(0, 0))
			var other *witness.ConflictError
			if errors.As(err, &other) && other.Size >= cosigned {
				cosigned = other.Size
				return true
			}
			if err == nil && cosigned == 0 {
				return true
			}
			if err == nil || errors.As(err, &other) {
				t.Fatalf("round %d: the witness came back with less than %d: %v", round, cosigned, err)
			}
			return false
		})
		if cosigned == 0 {
			continue
		}
		fork := &signedLog{t: t, key: key, leaves: append([]ledger.Hash(nil), log.leaves[:cosigned-1]...)}
		fork.grow(1, "b")
		if err := ask(fork.proof(cosigned, cosigned)); !errors.Is(err, witness.ErrForked) {
			t.Fatalf("round %d: another root of size %d: %v", round, cosigned, err)
		}
	}
	p.stop()
	if cosigned == 0 {
		t.Fatal("nothing was cosigned")
	}
	t.Logf("%d kills, %d records cosigned", rounds, cosigned)
}
