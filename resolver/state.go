package resolver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/durable"
	"assay/ledger"
)

// The state file spares a start the fold from record 1:
//
//	assay-resolver-state 2 \n
//	one line of JSON (savedState) \n
//	settledKey of every settled prediction, 32 bytes each, sorted
//	SHA-256 of all that
//
// It is trusted no further than the ledger bears it out: the record where it
// stands must still have that leaf, and its Merkle frontier must lead to the
// signed checkpoint. Whatever does not fit, another version, rules or registry
// included, is dropped, and the fold begins at record 1.
const stateMagic = "assay-resolver-state 2\n"

// saveEvery is how many records are folded again at most, after a crash: some
// five seconds' worth.
const saveEvery = 250_000

// savedState is what the service knows behind a record that it has applied.
type savedState struct {
	Rules    string         `json:"rules"` // Service.rules
	Leaf     string         `json:"leaf"`  // of the record at Machine.Seq
	Frontier string         `json:"frontier"`
	Sealed   []savedCursor  `json:"sealed"`
	Settled  int            `json:"settled"`
	Machine  savedMachine   `json:"machine"`
	Beside   jsontext.Value `json:"beside,omitzero"` // of the fold beside the machine
	done     map[ledger.Hash]struct{}
	tree     *ledger.Tree
	head     ledger.Hash
}

// savedCursor is where a source's sealing stands.
type savedCursor struct {
	Source    string    `json:"source"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Watermark time.Time `json:"watermark"`
	Last      uint64    `json:"last"`
}

// rules names all that the fold depends on beside the ledger.
func (s *Service) rules() string {
	r := s.cfg.Resolver
	names := []string{Engine, s.cfg.Registry.HashString(), r.ID, r.Kind, r.Key, s.cfg.Source}
	if s.beside != nil {
		names = append(names, s.beside.Rules())
	}
	return hexSHA256([]byte(strings.Join(names, "\n")))
}

// save writes the state file if the service has moved and the ledger has all that
// was called for. A state that cannot be written costs a longer start, nothing
// else; the next one is tried when it is due, as after one that was written.
func (s *Service) save() {
	s.tried = s.Applied()
	if s.cfg.State == "" || s.broken || !s.out.empty() || s.Applied() == s.saved {
		return
	}
	raw, err := s.encodeState()
	if err == nil {
		err = durable.WriteFile(s.cfg.State, raw, 0o600)
	}
	if err != nil {
		s.cfg.Log.Warn().Err(err).Msg("the resolver's state was not saved: the next start will fold more of the ledger")
		return
	}
	s.saved = s.Applied()
}

func (s *Service) encodeState() ([]byte, error) {
	st := savedState{
		Rules: s.rules(), Leaf: s.head.String(), Frontier: hex.EncodeToString(s.folded.EncodeFrontier()),
		Settled: len(s.machine.done), Machine: s.machine.save(),
	}
	if s.beside != nil {
		var err error
		if st.Beside, err = s.beside.Save(); err != nil {
			return nil, err
		}
	}
	st.Machine.Seq = s.Applied() // a foreign message is behind the machine's last record
	for source, sealer := range s.sealers {
		if c, _ := sealer.stored(); c != (cursor{}) {
			st.Sealed = append(st.Sealed, savedCursor{source, c.start, c.end, c.watermark, c.last})
		}
	}
	slices.SortFunc(st.Sealed, func(a, b savedCursor) int { return strings.Compare(a.Source, b.Source) })
	head, err := json.Marshal(st, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(stateMagic)+len(head)+1+(len(s.machine.done)+1)*sha256.Size)
	out = append(append(append(out, stateMagic...), head...), '\n')
	keys := out[len(out):]
	for k := range s.machine.done {
		keys = append(keys, k[:]...)
	}
	sortHashes(keys)
	out = out[:len(out)+len(keys)]
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), nil
}

// sortHashes sorts hashes that lie one behind another.
func sortHashes(raw []byte) {
	hashes := make([]ledger.Hash, 0, len(raw)/sha256.Size)
	for h := range slices.Chunk(raw, sha256.Size) {
		hashes = append(hashes, ledger.Hash(h))
	}
	slices.SortFunc(hashes, func(a, b ledger.Hash) int { return bytes.Compare(a[:], b[:]) })
	for i, h := range hashes {
		copy(raw[i*sha256.Size:], h[:])
	}
}

var errState = errors.New("unusable state")

func decodeState(raw []byte) (*savedState, error) {
	rest, ok := bytes.CutPrefix(raw, []byte(stateMagic))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: not of this version", errState)
	}
	if sum := sha256.Sum256(raw[:len(raw)-sha256.Size]); !bytes.Equal(sum[:], raw[len(raw)-sha256.Size:]) {
		return nil, fmt.Errorf("%w: its checksum does not hold", errState)
	}
	head, keys, _ := bytes.Cut(rest[:len(rest)-sha256.Size], []byte{'\n'})
	st := &savedState{done: make(map[ledger.Hash]struct{}, len(keys)/sha256.Size)}
	if err := json.Unmarshal(head, st, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	if len(keys) != st.Settled*sha256.Size {
		return nil, fmt.Errorf("%w: %d bytes for %d settled predictions", errState, len(keys), st.Settled)
	}
	for k := range slices.Chunk(keys, sha256.Size) {
		st.done[ledger.Hash(k)] = struct{}{}
	}
	var err error
	if st.head, err = ledger.ParseHash(st.Leaf); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	peaks, err := hex.DecodeString(st.Frontier)
	if err == nil {
		st.tree, err = ledger.DecodeFrontier(uint64(st.Machine.Seq), peaks)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	return st, nil
}

// begin takes the saved state up, if there is one that the ledger bears out. An
// error means that the ledger could not be read.
func (s *Service) begin(ctx context.Context, cp ledger.Checkpoint) error {
	if s.cfg.State == "" {
		s.begun = true
		return nil
	}
	raw, err := os.ReadFile(s.cfg.State)
	if errors.Is(err, fs.ErrNotExist) {
		s.begun = true
		return nil
	}
	if err == nil {
		err = s.resume(ctx, raw, cp)
	}
	if err != nil && !errors.Is(err, errState) {
		return err
	}
	s.begun = true
	if err != nil {
		s.cfg.Log.Warn().Err(err).Msg("folding from record 1")
		s.reset()
	}
	return nil
}

func (s *Service) resume(ctx context.Context, raw []byte, cp ledger.Checkpoint) error {
	st, err := decodeState(raw)
	if err != nil {
		return err
	}
	at := st.Machine.Seq
	switch {
	case st.Rules != s.rules():
		return fmt.Errorf("%w: it was made by other rules, or for another resolver or registry", errState)
	case cp.Size < uint64(at):
		return fmt.Errorf("%w: it stands at %d, the checkpoint at %d", errState, at, cp.Size)
	case cp.Size == uint64(at) && cp.Root != st.tree.Root():
		return fmt.Errorf("%w: the checkpoint of size %d signs another root", errState, cp.Size)
	}
	var leaf ledger.Hash
	err = s.cfg.Ledger.Read(ctx, at, at, func(_ ledger.Seq, body []byte) error {
		leaf = ledger.Leaf(body)
		return nil
	})
	if err != nil {
		return err
	}
	if leaf != st.head {
		return fmt.Errorf("%w: record %d is another one", errState, at)
	}
	m, err := restoreMachine(s.machineConfig(), st.Machine, st.done)
	if err != nil {
		return fmt.Errorf("%w: %w", errState, err)
	}
	if s.beside != nil {
		if err := s.beside.Restore(st.Beside); err != nil {
			return fmt.Errorf("%w: %w", errState, err)
		}
	}
	for _, c := range st.Sealed {
		if sealer := s.sealers[c.Source]; sealer != nil {
			sealer.resume(cursor{c.Start.UTC(), c.End.UTC(), c.Watermark.UTC(), c.Last})
		}
	}
	s.mu.Lock()
	s.machine = m
	s.mu.Unlock()
	s.tree, s.tip, s.folded, s.head = *st.tree, st.head, *st.tree.Clone(), st.head
	s.unproven, s.saved, s.tried = cp.Size > uint64(at), at, at
	s.applied.Store(uint64(at))
	s.skipped.Store(uint64(m.Skipped()))
	return nil
}
