package resolver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
//	assay-resolver-state 4 \n
//	one line of JSON (savedState) \n
//	settledKey of every settled prediction, 32 bytes each, in the order in which they were settled
//	each of them from Machine.First on: the length of what is packed (pack.go) and that, or 0 of what is
//	  not on the shelves; then the number of its terms by first appearance and, with the first of them,
//	  the length of the criterion, the criterion, and the 32 bytes of the registry's hash
//	SHA-256 of all that
//
// Lengths and numbers are unsigned varints. It is written and read piece by piece.
//
// It is trusted no further than the ledger bears it out: the record where it
// stands must still have that leaf, and its Merkle frontier must lead to the
// signed checkpoint. Whatever does not fit, another version, rules or registry
// included, is dropped, and the fold begins at record 1.
const stateMagic = "assay-resolver-state 4\n"

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
	past     *savedPast
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
	if err := durable.WriteFrom(s.cfg.State, 0o600, s.writeState); err != nil {
		s.cfg.Log.Warn().Err(err).Msg("the resolver's state was not saved: the next start will fold more of the ledger")
		return
	}
	s.saved = s.Applied()
}

func (s *Service) writeState(to io.Writer) error {
	st := savedState{
		Rules: s.rules(), Leaf: s.head.String(), Frontier: hex.EncodeToString(s.folded.EncodeFrontier()),
		Settled: s.machine.past.names.len(), Machine: s.machine.save(),
	}
	if s.beside != nil {
		var err error
		if st.Beside, err = s.beside.Save(); err != nil {
			return err
		}
	}
	st.Machine.Seq = s.Applied() // a foreign message is behind the machine's last record
	for source, sealer := range s.sealers {
		if c, _ := sealer.stored(); c != (cursor{}) {
			st.Sealed = append(st.Sealed, savedCursor{source, c.start, c.end, c.watermark, c.last})
		}
	}
	slices.SortFunc(st.Sealed, func(a, b savedCursor) int { return strings.Compare(a.Source, b.Source) })
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), stateBuffer)
	w.WriteString(stateMagic)
	if err := json.MarshalWrite(w, st, json.Deterministic(true)); err != nil {
		return err
	}
	w.WriteByte('\n')
	s.machine.past.write(w)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

const stateBuffer = 256 << 10

// write writes the settled predictions; an error shows when w is flushed.
func (p *past) write(w *bufio.Writer) {
	for n := range p.names.len() {
		w.Write(p.names.at(n).key[:])
	}
	var buf []byte
	numbers := make(map[*terms]uint64)
	for _, k := range p.list {
		w.Write(binary.AppendUvarint(buf[:0], uint64(len(k.packed))))
		if k.terms == nil {
			continue
		}
		w.WriteString(k.packed)
		number, ok := numbers[k.terms]
		if !ok {
			number = uint64(len(numbers))
			numbers[k.terms] = number
		}
		w.Write(binary.AppendUvarint(buf[:0], number))
		if !ok {
			w.Write(binary.AppendUvarint(buf[:0], uint64(len(k.terms.raw))))
			w.WriteString(k.terms.raw)
			hash := k.terms.registry.Hash()
			w.Write(hash[:])
		}
	}
}

// savedPast is what write wrote: past with its terms by first appearance, which have
// neither registry nor shelves yet.
type savedPast struct {
	past
	terms []savedTerms
}

type savedTerms struct {
	*terms
	raw      string
	registry ledger.Hash
}

// stateReader reads what the state file holds in pieces of a known length.
type stateReader struct {
	*bufio.Reader
	size int64 // of the file
}

func (r stateReader) hash() (h ledger.Hash, err error) {
	_, err = io.ReadFull(r, h[:])
	return h, err
}

func (r stateReader) text() (string, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return "", err
	}
	if n > uint64(r.size) {
		return "", fmt.Errorf("%w: %d bytes in a file of %d", errState, n, r.size)
	}
	var b strings.Builder
	b.Grow(int(n))
	_, err = io.CopyN(&b, r, int64(n))
	return b.String(), err
}

// past reads what past.write wrote of n settled predictions, of which those from
// first on may be amended.
func (r stateReader) past(n, first int) (*savedPast, error) {
	if first < 0 || first > n {
		return nil, fmt.Errorf("%w: from %d of %d settled predictions", errState, first, n)
	}
	p := &savedPast{past: past{first: first}}
	for i := range n {
		key, err := r.hash()
		if err != nil {
			return nil, err
		}
		if p.names.put(key, struct{}{}) != i {
			return nil, fmt.Errorf("%w: a settled prediction is there twice", errState)
		}
	}
	for range n - first {
		packed, err := r.text()
		if err != nil {
			return nil, err
		}
		k := kept{packed: packed}
		if packed != "" {
			if k.terms, err = r.terms(p); err != nil {
				return nil, err
			}
		}
		p.list = append(p.list, k)
	}
	return p, nil
}

// terms reads the number of a prediction's terms, and with a new one those.
func (r stateReader) terms(p *savedPast) (*terms, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(len(p.terms)) {
		return nil, fmt.Errorf("%w: terms %d of %d", errState, n, len(p.terms))
	}
	if n == uint64(len(p.terms)) {
		t := savedTerms{terms: new(terms)}
		if t.raw, err = r.text(); err == nil {
			t.registry, err = r.hash()
		}
		if err != nil {
			return nil, err
		}
		p.terms = append(p.terms, t)
	}
	return p.terms[n].terms, nil
}

// readState reads a state file of a size.
func readState(from io.Reader, size int64) (*savedState, error) {
	if size < int64(len(stateMagic))+sha256.Size {
		return nil, fmt.Errorf("%w: of %d bytes", errState, size)
	}
	sum := sha256.New()
	r := stateReader{bufio.NewReaderSize(io.TeeReader(io.LimitReader(from, size-sha256.Size), sum), stateBuffer), size}
	magic := make([]byte, len(stateMagic))
	if _, err := io.ReadFull(r, magic); err != nil {
		return nil, short(err)
	}
	if string(magic) != stateMagic {
		return nil, fmt.Errorf("%w: not of this version", errState)
	}
	head, err := r.ReadBytes('\n')
	if err != nil {
		return nil, short(err)
	}
	st := new(savedState)
	if err := json.Unmarshal(head, st, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	if st.past, err = r.past(st.Settled, st.Machine.First); err != nil {
		return nil, short(err)
	}
	switch n, err := io.Copy(io.Discard, r); {
	case err != nil:
		return nil, err
	case n > 0:
		return nil, fmt.Errorf("%w: %d bytes too many", errState, n)
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(from, want[:]); err != nil {
		return nil, short(err)
	}
	if !bytes.Equal(sum.Sum(nil), want[:]) {
		return nil, fmt.Errorf("%w: its checksum does not hold", errState)
	}
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

// short is the error of reading what ends too early, or another one.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut off", errState)
	}
	return err
}

var errState = errors.New("unusable state")

// begin takes the saved state up, if there is one that the ledger bears out. An
// error means that the ledger could not be read.
func (s *Service) begin(ctx context.Context, cp ledger.Checkpoint) error {
	if s.cfg.State == "" {
		s.begun = true
		return nil
	}
	st, err := readStateFile(s.cfg.State)
	if errors.Is(err, fs.ErrNotExist) {
		s.begun = true
		return nil
	}
	if err == nil {
		err = s.resume(ctx, st, cp)
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

func readStateFile(path string) (*savedState, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readState(f, info.Size())
}

func (s *Service) resume(ctx context.Context, st *savedState, cp ledger.Checkpoint) error {
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
	err := s.cfg.Ledger.Read(ctx, at, at, func(_ ledger.Seq, body []byte) error {
		leaf = ledger.Leaf(body)
		return nil
	})
	if err != nil {
		return err
	}
	if leaf != st.head {
		return fmt.Errorf("%w: record %d is another one", errState, at)
	}
	m, err := restoreMachine(s.machineConfig(), st.Machine, st.past)
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
