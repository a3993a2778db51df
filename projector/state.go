package projector

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/internal/kv"
	"assay/ledger"
)

const (
	activePrefix = "a/"
	cursorPrefix = "c/"
	statePrefix  = "s/"
	servedKey    = "f"
	buildKey     = "b"
)

func stateOf(name string, version int) string {
	return statePrefix + name + "/" + strconv.Itoa(version) + "/"
}

func cursorKey(name string, version int) string {
	return cursorPrefix + name + "/" + strconv.Itoa(version)
}

// State reads the views that a store holds. Over a kv.Snapshot all of its
// answers are of one moment.
type State struct {
	r       kv.Reader
	cursors []Cursor     // of the active versions, by name
	ledger  *LedgerState // once it was read
	trace   *Trace       // notes what is read; may be nil
	memo    memo         // what was decoded; nil to decode each time
	page    *Page        // the part of its prefix that a Scan sees; nil for all
	hidden  []Page       // prefixes of which a Scan sees nothing
}

// NewState finds the active versions; ErrNoState when there are none.
func NewState(r kv.Reader) (*State, error) {
	s := &State{r: r}
	err := r.Scan([]byte(activePrefix), nil, func(k, v []byte) error {
		version, err := strconv.Atoi(string(v))
		if err != nil {
			return fmt.Errorf("active version of %s: %w", k, err)
		}
		s.cursors = append(s.cursors, Cursor{Projection: string(k[len(activePrefix):]), Version: version})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(s.cursors) == 0 {
		return nil, ErrNoState
	}
	for i, c := range s.cursors {
		if s.cursors[i], err = loadCursor(r, c.Projection, c.Version); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// storedCursor is a Cursor as it stands under its key.
type storedCursor struct {
	Seq  ledger.Seq `json:"seq"`
	Leaf string     `json:"leaf"`
	// Chunked says that the hashes of the state's chunks are kept. A build that
	// does not know them leaves it out, and they count no more.
	Chunked bool `json:"chunked,omitzero"`
}

func loadCursor(r kv.Reader, name string, version int) (Cursor, error) {
	c := Cursor{Projection: name, Version: version}
	data, err := r.Get([]byte(cursorKey(name, version)))
	if errors.Is(err, kv.ErrNotFound) {
		return c, nil
	}
	var stored storedCursor
	if err == nil {
		err = json.Unmarshal(data, &stored)
	}
	if err == nil {
		c.Seq, c.chunked = stored.Seq, stored.Chunked
		c.Leaf, err = ledger.ParseHash(stored.Leaf)
	}
	if err != nil {
		return Cursor{}, fmt.Errorf("cursor of %s: %w", name, err)
	}
	return c, nil
}

// Cursors are the active projections' cursors in the order of names.
func (s *State) Cursors() []Cursor { return slices.Clone(s.cursors) }

// At is the record that all views stand at; ErrUneven when they differ.
func (s *State) At() (ledger.Seq, ledger.Hash, error) {
	first := s.cursors[0]
	for _, c := range s.cursors[1:] {
		if c.Seq != first.Seq || c.Leaf != first.Leaf {
			return 0, ledger.Hash{}, fmt.Errorf("%w: %s is at %d, %s at %d", ErrUneven, first.Projection, first.Seq, c.Projection, c.Seq)
		}
	}
	return first.Seq, first.Leaf, nil
}

// Root is the Merkle root over every message that the views stand at.
func (s *State) Root() (ledger.Hash, error) {
	seq, _, err := s.At()
	if err != nil {
		return ledger.Hash{}, err
	}
	tree, err := loadFrontier(s.r, servedKey)
	if err != nil {
		return ledger.Hash{}, err
	}
	if tree.Size() != uint64(seq) {
		return ledger.Hash{}, fmt.Errorf("%w: the feed is at %d, views at %d", ErrUneven, tree.Size(), seq)
	}
	return tree.Root(), nil
}

func loadFrontier(r kv.Reader, key string) (*ledger.Tree, error) {
	data, err := r.Get([]byte(key))
	if errors.Is(err, kv.ErrNotFound) {
		return &ledger.Tree{}, nil
	}
	if err == nil && len(data) < 8 {
		err = ledger.ErrBadFrontier
	}
	if err != nil {
		return nil, fmt.Errorf("feed position: %w", err)
	}
	return ledger.DecodeFrontier(binary.BigEndian.Uint64(data), data[8:])
}

func encodeFrontier(t *ledger.Tree) []byte {
	return append(binary.BigEndian.AppendUint64(nil, t.Size()), t.EncodeFrontier()...)
}

func (s *State) cursor(projection string) (Cursor, error) {
	for _, c := range s.cursors {
		if c.Projection == projection {
			return c, nil
		}
	}
	return Cursor{}, fmt.Errorf("%w: no projection %s", ErrNoState, projection)
}

func (s *State) prefix(projection string) (string, error) {
	c, err := s.cursor(projection)
	return stateOf(projection, c.Version), err
}

// Load reads one value of a projection; kv.ErrNotFound when it is absent.
func Load[T any](s *State, projection, key string) (*T, error) {
	p, err := s.prefix(projection)
	if err != nil {
		return nil, err
	}
	s.trace.note(projection, key)
	return remember(s, p+key, func() (*T, error) {
		data, err := s.r.Get([]byte(p + key))
		if err != nil {
			return nil, err
		}
		v := new(T)
		if err := decodeValue(data, v); err != nil {
			return nil, fmt.Errorf("state %s %s: %w", projection, key, err)
		}
		return v, nil
	})
}

// Scan calls fn in key order for a projection's values whose keys start with
// prefix and, if after is not empty, sort behind it. fn may return kv.ErrStop;
// Bytes are valid during the call only.
func Scan[T any](s *State, projection, prefix, after string, fn func(key string, v *T) error) error {
	p, err := s.prefix(projection)
	if err != nil {
		return err
	}
	if s.hides(projection, prefix) {
		return nil
	}
	paged := s.page != nil && s.page.Projection == projection && s.page.Prefix == prefix && after == ""
	if !paged && s.trace != nil {
		if prefix == "" || prefix[len(prefix)-1] != 0 {
			return fmt.Errorf("scan of %s %q: no mark is left for such a prefix", projection, prefix)
		}
		s.trace.note(projection, prefix)
	}
	scan := func(fn func(string, *T) error) error {
		each := func(k, data []byte) error {
			key, v := string(k[len(p):]), new(T)
			if err := decodeValue(data, v); err != nil {
				return fmt.Errorf("state %s %s: %w", projection, key, err)
			}
			return fn(key, v)
		}
		if paged {
			return s.scanPage(p, each)
		}
		var from []byte
		if after != "" {
			from = []byte(p + after)
		}
		return s.r.Scan([]byte(p+prefix), from, each)
	}
	if s.memo == nil || after != "" {
		return scan(fn)
	}
	return replay(s, p+prefix, scan, fn)
}

// memo are the values that were decoded, by key, and scans, by prefix.
type memo map[string]any

// remember returns a copy of the value that get gives, which is asked once.
func remember[T any](s *State, key string, get func() (*T, error)) (*T, error) {
	if s.memo == nil {
		return get()
	}
	type answer struct {
		v   *T
		err error
	}
	a, ok := s.memo[key].(answer)
	if !ok {
		a.v, a.err = get()
		s.memo[key] = a
	}
	if a.err != nil {
		return nil, a.err
	}
	v := *a.v
	return &v, nil
}

// found is a value of a scan.
type found[T any] struct {
	key string
	v   *T
}

// replay calls fn with copies of what a scan finds, which is run once.
func replay[T any](s *State, prefix string, scan func(func(string, *T) error) error, fn func(string, *T) error) error {
	key := prefix + "*" // is the key of no value: prefixes end in 0x00
	all, ok := s.memo[key].([]found[T])
	if !ok {
		err := scan(func(key string, v *T) error {
			all = append(all, found[T]{key, v})
			return nil
		})
		if err != nil {
			return err
		}
		s.memo[key] = all
	}
	for _, f := range all {
		v := *f.v
		if err := fn(f.key, &v); err != nil {
			if errors.Is(err, kv.ErrStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// Version names one projection of a digest.
type Version struct {
	Projection string `json:"projection"`
	Version    int    `json:"version"`
}

// Versions are those of the projections and of the runner's own, by name.
func Versions(ps []Projection) []Version {
	out := []Version{{ledgerName, ledgerProjection{}.Version()}}
	for _, p := range ps {
		out = append(out, Version{p.Name(), p.Version()})
	}
	slices.SortFunc(out, func(a, b Version) int { return strings.Compare(a.Projection, b.Projection) })
	return out
}

// Digest is the views' state at a record, in one hash.
type Digest struct {
	Seq      ledger.Seq `json:"seq"`
	Leaf     string     `json:"leaf"`     // hex leaf hash of the message at Seq
	Root     string     `json:"root"`     // hex Merkle root over messages 1 to Seq
	SHA256   string     `json:"digest"`   // the state digest, hex
	Versions []Version  `json:"versions"` // by name
}

// Digest computes the state digest from every key-value; its cost grows with
// the views.
func (s *State) Digest() (Digest, error) {
	return s.digest(func(c Cursor, fn func([]byte, [sha256.Size]byte) error) error {
		return scanChunks(s.r, stateOf(c.Projection, c.Version), fn)
	})
}

// KeptDigest is the state digest by the hashes that the runner keeps of the
// chunks; only those that changed lately are computed. It believes the store:
// bytes that changed under the runner show in Digest alone.
func (s *State) KeptDigest() (Digest, error) {
	return s.digest(func(c Cursor, fn func([]byte, [sha256.Size]byte) error) error {
		return keptChunks(s.r, c, fn)
	})
}

func (s *State) digest(chunks func(Cursor, func(start []byte, sum [sha256.Size]byte) error) error) (Digest, error) {
	seq, leaf, err := s.At()
	if err != nil {
		return Digest{}, err
	}
	root, err := s.Root()
	if err != nil {
		return Digest{}, err
	}
	d := Digest{Seq: seq, Leaf: leaf.String(), Root: root.String()}
	h := sha256.New()
	h.Write([]byte{stateTag})
	for _, c := range s.cursors {
		d.Versions = append(d.Versions, Version{c.Projection, c.Version})
		head := appendSized([]byte{'P'}, c.Projection)
		h.Write(binary.BigEndian.AppendUint64(head, uint64(c.Version)))
		err := chunks(c, func(_ []byte, sum [sha256.Size]byte) error {
			h.Write([]byte{'C'})
			h.Write(sum[:])
			return nil
		})
		if err != nil {
			return Digest{}, err
		}
	}
	d.SHA256 = hex.EncodeToString(h.Sum(nil))
	return d, nil
}

func appendSized[S string | []byte](dst []byte, s S) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(s)))
	return append(dst, s...)
}

// parkedPrefix starts the keys of parked records in each projection's state.
const parkedPrefix = "!parked/"

// Parked is a record that a projection could not apply.
type Parked struct {
	Projection string     `json:"projection"`
	Seq        ledger.Seq `json:"seq"`
	Reason     string     `json:"reason"`
}

// Parked calls fn for every parked record, projection by projection.
func (s *State) Parked(fn func(Parked) error) error {
	for _, c := range s.cursors {
		err := Scan(s, c.Projection, parkedPrefix, "", func(_ string, p *Parked) error { return fn(*p) })
		if err != nil {
			return err
		}
	}
	return nil
}

// CountParked is how many (record, projection) pairs are parked.
func (s *State) CountParked() (n int, err error) {
	err = s.Parked(func(Parked) error { n++; return nil })
	return n, err
}

func checkName(name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return fmt.Errorf("projection name %q: want lower-case letters and _", name)
	}
	return nil
}
