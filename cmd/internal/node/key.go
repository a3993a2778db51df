package node

import (
	"fmt"
	"os"
	"strings"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// KeyRange is one of the log's keys and the checkpoints that it signs.
type KeyRange struct {
	Key  string     `json:"key"`  // note verifier key
	From ledger.Seq `json:"from"` // 0 for one that waits for the logger's start
	To   ledger.Seq `json:"to,omitzero"`
	// State is retired, in_force or prepared.
	State string `json:"state"`
}

// Keys lists the log's keys as DIR knows them, the oldest first.
func Keys(dir Dir) ([]KeyRange, error) {
	if err := dir.Check(); err != nil {
		return nil, err
	}
	ring, err := logger.LoadKeyring(dir.Logger())
	if err != nil {
		return nil, err
	}
	var out []KeyRange
	for i, k := range ring.Keys() {
		if i > 0 {
			out[i-1].To, out[i-1].State = k.From-1, "retired"
		}
		out = append(out, KeyRange{Key: k.Verifier, From: k.From, State: "in_force"})
	}
	next, err := logger.PreparedKey(dir.Logger())
	if next != "" && next != out[len(out)-1].Key {
		out = append(out, KeyRange{Key: next, State: "prepared"})
	}
	return out, err
}

// RotateKey prepares a new key, signed by the one in force; the logger's next
// start takes it.
func RotateKey(dir Dir) (KeyRange, error) {
	if err := dir.Check(); err != nil {
		return KeyRange{}, err
	}
	vkey, err := logger.Rotate(dir.Logger())
	return KeyRange{Key: vkey, State: "prepared"}, err
}

// RecoverKey is RotateKey for a lost or stolen key, signed by the recovery seed
// in a file.
func RecoverKey(dir Dir, seedFile string) (KeyRange, error) {
	if err := dir.Check(); err != nil {
		return KeyRange{}, err
	}
	services, err := principal.LoadServices(principal.Dir(dir).Services())
	if err != nil {
		return KeyRange{}, err
	}
	seed, err := os.ReadFile(seedFile)
	if err != nil {
		return KeyRange{}, fmt.Errorf("recovery seed: %w", err)
	}
	vkey, err := logger.Recover(dir.Logger(), []byte(strings.TrimSpace(string(seed))), services.Recovery)
	return KeyRange{Key: vkey, State: "prepared"}, err
}
