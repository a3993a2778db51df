package set

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"assay/bench/causal/record"
	"assay/internal/durable"
	"assay/internal/versioned"
)

// Manifest says what a set is. It tells nothing of the answers.
type Manifest struct {
	V            int            `json:"v"`
	BenchVersion string         `json:"bench_version"`
	Split        string         `json:"split"`
	Worlds       int            `json:"worlds"`
	Families     map[string]int `json:"families"` // cases by public family
	Skins        map[string]int `json:"skins"`
	Dropped      map[string]int `json:"dropped"` // items that were left out, by reason
	Blobs        int            `json:"blobs"`
	Cases        []Commitment   `json:"cases"`
}

// Commitment is what case.committed says of a case.
type Commitment struct {
	CaseID       string `json:"case_id"`
	WorldID      string `json:"world_id"`
	PublicSHA256 string `json:"public_sha256"` // of the case's line
	OracleSHA256 string `json:"oracle_sha256"` // SHA-256(salt ‖ SHA-256(oracle))
}

// Manifest is the set's.
func (s *Set) Manifest() Manifest {
	m := Manifest{V: record.Version, BenchVersion: BenchVersion, Split: s.Recipe.Split, Worlds: s.Recipe.Worlds, Blobs: len(s.Blobs),
		Families: map[string]int{}, Skins: map[string]int{}, Dropped: s.Dropped, Cases: []Commitment{}}
	for i := range s.Cases {
		c := &s.Cases[i]
		m.Families[c.Public.Family]++
		m.Skins[c.Public.Skin]++
		m.Cases = append(m.Cases, Commitment{c.Public.CaseID, c.Public.WorldID, hash(c.PublicLine), c.Committed()})
	}
	return m
}

// Cohort is the id of a cohort of this set alone.
func (m *Manifest) Cohort() string { return hash(encode(m))[:24] }

// Place says where a set is written.
type Place struct {
	Dir string
	// Private is the directory of the private part; "" is Dir/private.
	Private string
	// Owner is the user whose alone the private part is to be; nil is who writes it.
	Owner *int
}

// Write writes a set to a directory that does not exist or is empty; the manifest
// comes last. The private part goes to a directory that must be new too, neither around
// Dir nor inside Dir/public. The errors are ErrPlace, fs.ErrExist and those of files.
func (s *Set) Write(ctx context.Context, to Place, progress func(done, total int64)) error {
	dir, private := to.Dir, to.Private
	if private == "" {
		private = filepath.Join(dir, "private")
	}
	if to.Owner != nil && *to.Owner != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root can give them to another user", ErrPlace)
	}
	public := filepath.Join(dir, "public")
	if err := apart(dir, private); err != nil {
		return err
	}
	for _, d := range []string{dir, private} {
		if entries, err := os.ReadDir(d); err == nil && len(entries) > 0 {
			return fmt.Errorf("%s: %w", d, fs.ErrExist)
		}
	}
	blobs := filepath.Join(public, "blobs")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	if err := apart(dir, private); err != nil { // again: links may lead somewhere now
		return err
	}
	vault, err := openVault(private)
	if err != nil {
		return err
	}
	defer vault.Close()
	names := make([]string, 0, len(s.Blobs))
	for name := range s.Blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(blobs, name), s.Blobs[name], 0o644); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(i+1), int64(len(names)))
		}
	}
	var cases, oracles bytes.Buffer
	for i := range s.Cases {
		c := &s.Cases[i]
		cases.Write(append(c.PublicLine, '\n'))
		oracles.Write(append(encode(record.Sealed{V: record.Version, Salt: hex.EncodeToString(c.Salt[:]), Oracle: c.OracleLine}), '\n'))
	}
	recipe := append(encode(s.Recipe), '\n')
	if err := errors.Join(vault.write(recipeFile, recipe, to.Owner), vault.write(oraclesFile, oracles.Bytes(), to.Owner)); err != nil {
		return err
	}
	if err := vault.end(to.Owner); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(public, "cases.jsonl"), cases.Bytes(), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, "manifest.json"), append(encode(s.Manifest()), '\n'), 0o644)
}

// apart checks that the private part is neither around a set nor inside what agents get,
// wherever links lead.
func apart(dir, private string) error {
	for _, p := range []struct{ around, inner, why string }{
		{private, dir, "holds what agents get, and would be closed to them"},
		{filepath.Join(dir, "public"), private, "is inside what agents get"},
	} {
		if held, err := holds(p.around, p.inner); err != nil {
			return err
		} else if held {
			return fmt.Errorf("%w: %s %s", ErrPlace, private, p.why)
		}
	}
	return nil
}

// The files of the private part.
const (
	recipeFile  = "recipe.json"
	oraclesFile = "oracles.jsonl"
)

// vault is the directory of a private part while it is written. It is held open:
// whatever others do to the path meanwhile, what was checked is what is written to.
type vault struct{ *os.Root }

// openVault makes the directory, or takes an empty one that is no link and belongs to
// whoever writes: another owner could open it to anybody. It is closed to others before
// anything is looked for in it. The errors are ErrPlace, fs.ErrExist and those of files.
func openVault(path string) (v vault, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return v, err
	}
	if info, err := os.Lstat(path); err != nil {
		return v, err
	} else if !info.IsDir() {
		return v, fmt.Errorf("%w: %s is a link", ErrPlace, path)
	}
	if v.Root, err = os.OpenRoot(path); err != nil {
		return v, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close())
		}
	}()
	info, err := v.Stat(".")
	if err != nil {
		return v, err
	}
	if ownerOf(info) != os.Geteuid() {
		return v, fmt.Errorf("%w: %s belongs to another user", ErrPlace, path)
	}
	if err := v.Chmod(".", 0o700); err != nil { // whatever it was
		return v, err
	}
	if entries, err := fs.ReadDir(v.FS(), "."); err != nil {
		return v, err
	} else if len(entries) > 0 {
		return v, fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return v, nil
}

// write writes a new file, synced, for the owner alone; nil is who writes it.
func (v vault) write(name string, data []byte, owner *int) error {
	f, err := v.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && owner != nil {
		err = f.Chown(*owner, -1)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// end gives the directory away, the last of it: until then nobody else can put anything
// in the files' place.
func (v vault) end(owner *int) error {
	d, err := v.Open(".")
	if err != nil {
		return err
	}
	if owner != nil {
		err = d.Chown(*owner, -1)
	}
	if err == nil {
		err = d.Sync()
	}
	return errors.Join(err, d.Close())
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// Closed checks that a private part is one user's alone.
func Closed(private string) Check {
	c := Check{Name: "Private part", Method: "directory and files are open to their one owner alone"}
	owner := -1
	for _, path := range []string{private, filepath.Join(private, recipeFile), filepath.Join(private, oraclesFile)} {
		c.N++
		info, err := os.Lstat(path)
		if err != nil {
			c.fault("%v", err)
			continue
		}
		if owner < 0 {
			owner = ownerOf(info)
		}
		if uid := ownerOf(info); uid != owner {
			c.fault("%s belongs to user %d, and not to %d", filepath.Base(path), uid, owner)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			c.fault("%s is a link", filepath.Base(path))
		} else if info.Mode().Perm()&0o077 != 0 {
			c.fault("%s has mode %v", filepath.Base(path), info.Mode().Perm())
		}
	}
	return c.end(1, "of user %d", owner)
}

// InLedger holds each case against what a ledger commits to, which of says; nil is a
// case that it does not know.
func (s *Set) InLedger(of func(caseID string) (*Commitment, error)) (Check, error) {
	c := Check{Name: "Ledger", Method: "each case against the case.committed of the ledger"}
	for _, want := range s.Manifest().Cases {
		got, err := of(want.CaseID)
		if err != nil {
			return c, err
		}
		c.N++
		if got == nil {
			c.fault("case %s was not committed", want.CaseID)
		} else if *got != want {
			c.fault("case %s was committed as %s of world %s with the oracle %s", want.CaseID, got.PublicSHA256, got.WorldID, got.OracleSHA256)
		}
	}
	return c.end(1, "%d cases", c.N), nil
}

// holds says whether a directory is another, or around it, wherever links lead.
func holds(dir, other string) (bool, error) {
	from, err := resolved(dir)
	if err != nil {
		return false, err
	}
	to, err := resolved(other)
	if err != nil {
		return false, err
	}
	way, err := filepath.Rel(from, to)
	return filepath.IsLocal(way), err
}

// resolved is a path without links, as far as there is anything yet.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	to, err := filepath.EvalSymlinks(path)
	if up := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && up != path {
		to, err = resolved(up)
		to = filepath.Join(to, filepath.Base(path))
	}
	return to, err
}

// ErrPlace is a private directory that is not apart from the public one.
var ErrPlace = errors.New("bad place for oracles")

// ErrBroken is a set whose files are not what they should be.
var ErrBroken = errors.New("the set is broken")

// Read reads a set and holds each of its files against the manifest. private is where
// its private part is, "" in dir. The errors are ErrBroken, and those of files.
func Read(dir, private string) (*Set, *Manifest, error) {
	if private == "" {
		private = filepath.Join(dir, "private")
	}
	s, m, err := ReadPublic(dir)
	if err != nil {
		return nil, nil, err
	}
	raw, err := os.ReadFile(filepath.Join(private, recipeFile))
	if err != nil {
		return nil, nil, err
	}
	if err := versioned.Decode(raw, record.Version, &s.Recipe); err != nil {
		return nil, nil, fmt.Errorf("%w: recipe.json: %w", ErrBroken, err)
	}
	err = lines(filepath.Join(private, oraclesFile), len(m.Cases), func(i int, line []byte) error {
		return s.Cases[i].open(line, m.Cases[i])
	})
	if err != nil {
		return nil, nil, err
	}
	told := s.Manifest()
	told.BenchVersion = s.Recipe.BenchVersion // perhaps another than this one
	if !bytes.Equal(encode(told), encode(m)) {
		return nil, nil, fmt.Errorf("%w: manifest.json does not say what the set is", ErrBroken)
	}
	return s, m, nil
}

// open reads the line of oracles.jsonl that belongs to a case.
func (c *Case) open(line []byte, committed Commitment) error {
	var sealed record.Sealed
	if err := versioned.Decode(line, record.Version, &sealed); err != nil {
		return err
	}
	salt, err := hex.DecodeString(sealed.Salt)
	if err != nil || len(salt) != len(c.Salt) {
		return errors.New("the salt is not 32 bytes in hex")
	}
	c.Salt, c.OracleLine = [32]byte(salt), bytes.Clone(sealed.Oracle)
	if c.Committed() != committed.OracleSHA256 {
		return errors.New("it is not the oracle that the manifest commits to")
	}
	if c.Oracle, err = record.Decode[record.PrivateOracle](c.OracleLine); err != nil {
		return err
	}
	if c.Oracle.CaseID != c.Public.CaseID {
		return errors.New("it is another case's")
	}
	return c.checkOracle()
}

// ReadPublic reads what agents may: cases without their oracles.
func ReadPublic(dir string) (*Set, *Manifest, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, nil, err
	}
	var m Manifest
	if err := versioned.Decode(raw, record.Version, &m); err != nil {
		return nil, nil, fmt.Errorf("%w: manifest.json: %w", ErrBroken, err)
	}
	s := &Set{Blobs: map[string][]byte{}, Dropped: m.Dropped, Cases: make([]Case, len(m.Cases))}
	err = lines(filepath.Join(dir, "public", "cases.jsonl"), len(m.Cases), func(i int, line []byte) error {
		if hash(line) != m.Cases[i].PublicSHA256 {
			return errors.New("it is not the case of the manifest")
		}
		c := &s.Cases[i]
		c.PublicLine = bytes.Clone(line)
		c.Public, err = record.Decode[record.PublicCase](line)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	shown := map[record.Evidence]map[string]int{} // by kind and ref
	for i := range s.Cases {
		k := &s.Cases[i].Public
		for _, e := range k.Evidence {
			e.ID = ""
			cards, read := shown[e]
			if !read {
				if cards, err = s.readBlob(dir, e); err != nil {
					return nil, nil, err
				}
				shown[e] = cards
			}
			if cards == nil {
				continue
			}
			if err := checkQuery(k.Query, cards); err != nil {
				return nil, nil, fmt.Errorf("%w: case %s: %w", ErrBroken, k.CaseID, err)
			}
		}
	}
	if len(s.Blobs) != m.Blobs {
		return nil, nil, fmt.Errorf("%w: the cases show %d blobs, the manifest says %d", ErrBroken, len(s.Blobs), m.Blobs)
	}
	return s, &m, nil
}

// readBlob reads a blob and checks that it is evidence of its kind; cards are the
// variables that it shows, as checkEvidence says.
func (s *Set) readBlob(dir string, e record.Evidence) (cards map[string]int, err error) {
	name := e.Ref[len("sha256:"):]
	b, err := os.ReadFile(filepath.Join(dir, "public", "blobs", name))
	if err != nil {
		return nil, err
	}
	if hash(b) != name {
		return nil, fmt.Errorf("%w: blob %s has other bytes", ErrBroken, name)
	}
	s.Blobs[name] = b
	if cards, err = checkEvidence(e.Kind, b); err != nil {
		return nil, fmt.Errorf("%w: blob %s is no %s: %w", ErrBroken, name, e.Kind, err)
	}
	return cards, nil
}

// maxLine is the longest line of a set's files.
const maxLine = 16 << 20

// lines reads a file of n lines.
func lines(path string, n int, each func(i int, line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, maxLine)
	i := 0
	for ; scan.Scan(); i++ {
		if i == n {
			i++ // one more at least
			break
		}
		if err := each(i, scan.Bytes()); err != nil {
			return fmt.Errorf("%w: %s, line %d: %w", ErrBroken, filepath.Base(path), i+1, err)
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if i != n {
		return fmt.Errorf("%w: %s does not have the manifest's %d lines", ErrBroken, filepath.Base(path), n)
	}
	return nil
}
