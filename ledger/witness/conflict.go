package witness

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/internal/durable"
	"assay/ledger"
)

// Kind is how a signed checkpoint conflicts with what was cosigned.
type Kind string

const (
	// SameSize: a trusted key signed two roots of one size. The two notes prove
	// it to anybody.
	SameSize Kind = "same_size"
	// Unproven: a larger checkpoint came without a proof that it extends the
	// one that was cosigned. Anybody can send a good checkpoint with a bad
	// proof, so it proves nothing until the log shows a good one, or cannot.
	Unproven Kind = "unproven"
)

// maxConflicts bounds the files of a kind: the earliest matter most.
const maxConflicts = 64

// Conflict is a checkpoint that a trusted key signed and that was refused.
type Conflict struct {
	V        int       `json:"v"`
	Kind     Kind      `json:"kind"`
	Origin   string    `json:"origin"`
	At       time.Time `json:"at"`
	Size     uint64    `json:"size"`     // of the refused checkpoint
	Cosigned string    `json:"cosigned"` // the signed checkpoint that was cosigned last; "" for none
	Request  string    `json:"request"`  // what was refused: old size, proof, signed checkpoint
	File     string    `json:"-"`
}

// file stores a conflict, unless it is known or there are too many. A failure
// is logged: the request is refused either way.
func (s *Server) file(known state, proof *ledger.ConsistencyProof, cp ledger.SignedCheckpoint, kind Kind) {
	log := s.cfg.Log.Error().Str("origin", cp.Origin).Uint64("size", cp.Size).Str("kind", string(kind))
	names, err := filepath.Glob(s.cfg.Dir.join("conflicts", string(kind)+"-*.json"))
	if err == nil && len(names) >= maxConflicts {
		err = fmt.Errorf("%s is full", s.cfg.Dir.conflicts())
	}
	if err == nil {
		err = s.write(known, proof, cp, kind)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	log.Err(err).Msg("a signed checkpoint does not extend what was cosigned")
}

func (s *Server) write(known state, proof *ledger.ConsistencyProof, cp ledger.SignedCheckpoint, kind Kind) error {
	body, err := json.Marshal(Conflict{
		V: 1, Kind: kind, Origin: cp.Origin, At: s.cfg.Now().UTC(), Size: cp.Size,
		Cosigned: string(known.Raw), Request: string(proof.Encode()),
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	sum := strings.TrimSuffix(filepath.Base(s.cfg.Dir.state(cp.Origin)), ".json")
	name := fmt.Sprintf("%s-%s-%d-%s.json", kind, sum[:16], cp.Size, hex.EncodeToString(cp.Root[:8]))
	return durable.CreateFile(s.cfg.Dir.join("conflicts", name), append(body, '\n'), 0o600)
}

// Conflicts reads what a witness filed, by kind, origin and size.
func Conflicts(d Dir) ([]Conflict, error) {
	names, err := filepath.Glob(d.join("conflicts", "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Conflict
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c := Conflict{File: name}
		if err := json.Unmarshal(body, &c, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Size, b.Size))
	})
	return out, nil
}

// Status is what a witness's directory says, whether it is served or not.
type Status struct {
	Name      string
	VKey      string
	Logs      []LogStatus
	Conflicts []Conflict
}

// LogStatus is one trusted log.
type LogStatus struct {
	Origin string
	Keys   int
	Size   uint64 // cosigned last; 0 before the first
	Root   ledger.Hash
	Err    error // why the state cannot be trusted
}

// ReadStatus reads a witness's directory.
func ReadStatus(d Dir) (Status, error) {
	vkey, v, err := d.verifier()
	if err != nil {
		return Status{}, err
	}
	t, err := d.loadLogs()
	if err != nil {
		return Status{}, err
	}
	s := Status{Name: v.Name(), VKey: vkey}
	for _, origin := range t.origins {
		st, err := d.loadState(origin)
		s.Logs = append(s.Logs, LogStatus{Origin: origin, Keys: len(t.keys[origin]), Size: st.Size, Root: st.Root, Err: err})
	}
	s.Conflicts, err = Conflicts(d)
	return s, err
}
