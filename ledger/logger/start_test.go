package logger_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"assay/internal/durable"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

func (h *house) removeIndex() {
	h.t.Helper()
	if err := os.RemoveAll(h.indexDir()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) checkpoint(name string) string { return filepath.Join(h.files().Checkpoints(), name) }

// past is a ledger with events of three runs, and copies of its directories as
// they were after the first and the second.
type past struct {
	*house
	raws     [][]byte
	receipts []answer
	copies   [3]string // of the logger's directory after each run
	sizes    [3]int    // of the stream
}

func newPast(t testing.TB) *past {
	h := newHouse(t)
	p := &past{house: h}
	for run := range 3 {
		h.s.forget()
		s := h.start()
		for _, raw := range gates(t, 6) {
			p.raws = append(p.raws, raw)
			p.receipts = append(p.receipts, s.must(principal.Agent, raw))
		}
		s.stop()
		p.copies[run] = t.TempDir()
		copyDir(t, h.cfg.Dir, p.copies[run])
		p.sizes[run] = h.s.len()
	}
	h.s.forget()
	return p
}

// again is the same past in directories of its own.
func (p *past) again(t testing.TB) *past {
	t.Helper()
	q := *p
	q.house = looseHouse(t, t.TempDir())
	q.s.bodies = p.s.all()
	copyDir(t, p.cfg.Dir, q.cfg.Dir)
	return &q
}

// rewind brings back a directory as it was after a run.
func (p *past) rewind(name string, run int) {
	p.t.Helper()
	remove(p.t, filepath.Join(p.cfg.Dir, name))
	copyDir(p.t, filepath.Join(p.copies[run], name), filepath.Join(p.cfg.Dir, name))
}

// works starts the logger: every event still has its first receipt, and new
// ones are taken and signed.
func (p *past) works() {
	p.t.Helper()
	s := p.start()
	for i, raw := range p.raws {
		if again := s.must(principal.Agent, raw); again != p.receipts[i] {
			p.t.Fatalf("event %d: %+v, first %+v", i, again, p.receipts[i])
		}
	}
	s.must(principal.Agent, gate(p.t))
	s.stop()
	p.fullySigned()
}

func TestStartAfterACrash(t *testing.T) {
	before := newPast(t)
	for name, crash := range map[string]func(*past){
		"nothing lost":                          func(*past) {},
		"index rewound, checkpoint current":     func(p *past) { p.rewind("index", 0) },
		"index lost":                            func(p *past) { p.removeIndex() },
		"between index and signature":           func(p *past) { p.rewind("checkpoint", 1) },
		"two signatures behind the index":       func(p *past) { p.rewind("checkpoint", 0) },
		"index and checkpoint rewound":          func(p *past) { p.rewind("index", 0); p.rewind("checkpoint", 0) },
		"checkpoint rewound further than index": func(p *past) { p.rewind("index", 1); p.rewind("checkpoint", 0) },
		"index rewound further than checkpoint": func(p *past) { p.rewind("index", 0); p.rewind("checkpoint", 1) },
		"index lost, checkpoint rewound":        func(p *past) { p.removeIndex(); p.rewind("checkpoint", 0) },
		"a checkpoint write was interrupted":    func(p *past) { write(p.t, p.checkpoint(".latest.123"), "half") },
		"tail lost that was neither signed nor indexed": func(p *past) {
			p.rewind("index", 1)
			p.rewind("checkpoint", 1)
			p.s.truncate(p.sizes[1])
			p.raws, p.receipts = p.raws[:12], p.receipts[:12]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := before.again(t)
			crash(p)
			p.works()
			p.s.forget()
			p.works() // and the next start finds all in order
		})
	}
}

func TestStartRefuses(t *testing.T) {
	before := newPast(t)
	for name, c := range map[string]struct {
		spoil func(*past)
		want  error
		says  string
	}{
		"no key":                  {func(p *past) { remove(p.t, filepath.Join(p.cfg.Dir, "key")) }, logger.ErrNoKey, "recovery key"},
		"no public key":           {func(p *past) { remove(p.t, p.files().PublicKey()) }, logger.ErrNotInitialised, "assay init"},
		"no HMAC key":             {func(p *past) { remove(p.t, filepath.Join(p.cfg.Dir, "hmac.key")) }, fs.ErrNotExist, "hmac.key"},
		"no checkpoint directory": {func(p *past) { remove(p.t, p.files().Checkpoints()) }, logger.ErrNoCheckpoint, "checkpoint"},
		"no checkpoint": {func(p *past) {
			remove(p.t, p.files().Checkpoints())
			if err := os.Mkdir(p.files().Checkpoints(), 0o700); err != nil {
				p.t.Fatal(err)
			}
		}, logger.ErrNoCheckpoint, "checkpoint"},
		"checkpoint empty":     {func(p *past) { write(p.t, p.checkpoint("latest"), "") }, ledger.ErrBadCheckpoint, "latest"},
		"checkpoint truncated": {func(p *past) { p.cut(p.checkpoint("latest")) }, ledger.ErrBadCheckpoint, "latest"},
		"checkpoint of another key": {func(p *past) {
			write(p.t, p.checkpoint("latest"), "example.com/log\n1\nAAAA\n\n— example.com/log AAAA\n")
		}, ledger.ErrBadCheckpoint, "latest"},
		"kept checkpoint spoilt": {func(p *past) { write(p.t, p.checkpoint("4"), "x") }, ledger.ErrBadCheckpoint, "4"},
		"stream empty":           {func(p *past) { p.s.truncate(0) }, logger.ErrBehind, "ends at 0"},
		"stream ends before the checkpoint": {func(p *past) {
			p.removeIndex()
			p.s.truncate(p.sizes[2] - 1)
		}, logger.ErrBehind, "checkpoint"},
		"stream ends before the index": {func(p *past) {
			p.rewind("checkpoint", 0)
			p.s.truncate(p.sizes[2] - 1)
		}, logger.ErrBehind, "index"},
		"signed record altered":             {func(p *past) { p.rewind("index", 0); p.s.alter(p.sizes[1]) }, logger.ErrFork, "checkpoint"},
		"signed record altered, index lost": {func(p *past) { p.removeIndex(); p.s.alter(5) }, logger.ErrFork, "checkpoint"},
		"indexed record altered":            {func(p *past) { p.rewind("checkpoint", 0); p.s.alter(p.sizes[1] + 2) }, logger.ErrFork, "indexed"},
		"last record altered":               {func(p *past) { p.s.alter(p.sizes[2]) }, logger.ErrFork, "record"},
		"records exchanged": {func(p *past) {
			p.rewind("index", 0)
			b := p.s.bodies
			b[p.sizes[1]-1], b[p.sizes[1]-2] = b[p.sizes[1]-2], b[p.sizes[1]-1]
		}, logger.ErrFork, "checkpoint"},
		"two checkpoints of one size": {func(p *past) {
			raw, err := os.ReadFile(filepath.Join(p.cfg.Dir, "key"))
			if err != nil {
				p.t.Fatal(err)
			}
			signer, err := note.NewSigner(strings.TrimSpace(string(raw)))
			if err != nil {
				p.t.Fatal(err)
			}
			forked, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: signer.Name(), Size: uint64(p.sizes[2]), Root: ledger.EmptyRoot}, signer)
			if err != nil {
				p.t.Fatal(err)
			}
			write(p.t, p.checkpoint(strconv.Itoa(p.sizes[2])), string(forked))
		}, logger.ErrFork, "two checkpoints of size"},
		"stream starts late": {func(p *past) { p.s.first = 2 }, ledger.ErrCorrupt, "starts at 2"},
		"stream has a gap":   {func(p *past) { p.s.missing = map[int]int{3: 1} }, ledger.ErrCorrupt, "lacks 1"},
		"another logger runs": {func(p *past) {
			lock, err := durable.TryLock(filepath.Join(p.cfg.Dir, "lock"))
			if err != nil {
				p.t.Fatal(err)
			}
			p.t.Cleanup(func() { lock.Unlock() })
		}, durable.ErrLocked, "lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := before.again(t)
			size := p.sizes[2]
			c.spoil(p)
			size = min(size, p.s.len())
			err := p.refuses(c.want)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			if p.s.len() != size {
				t.Error("appended to a ledger that it refuses")
			}
			if again := p.refuses(c.want); again.Error() != err.Error() { // and nothing was left locked or changed
				t.Errorf("the second time: %v", again)
			}
		})
	}
}

// TestARefusedStreamLeavesNoMark: once the right stream is back in its place,
// the index that was being made from the wrong one does no harm. The ledger is
// long enough for that index to be written in parts.
func TestARefusedStreamLeavesNoMark(t *testing.T) {
	p := &past{house: newHouse(t), raws: gates(t, 6000)}
	s := p.start()
	p.receipts = s.submitBatch(principal.Agent, p.raws).all(len(p.raws))
	s.stop()
	p.s.forget()
	right := p.s.all()
	p.removeIndex()
	p.s.alter(5)
	p.s.alter(5500)
	p.refuses(logger.ErrFork)
	p.s.mu.Lock()
	p.s.bodies = right
	p.s.mu.Unlock()
	p.raws, p.receipts = p.raws[:100], p.receipts[:100]
	p.works()
}

func TestSigningFails(t *testing.T) {
	p := newPast(t)
	s := p.start()
	remove(t, p.files().Checkpoints())
	a := gate(t)
	receipt := s.must(principal.Agent, a)
	if err := s.end(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("stop: %v", err)
	}
	if _, err := os.Stat(p.files().Checkpoints()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the checkpoint directory came back by itself")
	}
	p.rewind("checkpoint", 2)
	p.s.forget()
	p.raws, p.receipts = append(p.raws, a), append(p.receipts, receipt)
	p.works()
}

func TestNothingHereYet(t *testing.T) {
	h := emptyHouse(t, t.TempDir())
	h.refuses(logger.ErrNotInitialised)
	if h.s.len() != 0 {
		t.Error("a start opened a ledger")
	}
}

func TestGenesisGoesOn(t *testing.T) {
	for name, script := range map[string][]fault{
		"at once":           {{}},
		"undecided":         {{outcome: unacked}},
		"lost, then stored": {{outcome: lost}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			h := emptyHouse(t, t.TempDir())
			h.s.then(script...)
			genesis := func() error { return logger.Genesis(context.Background(), h.cfg, recoveryHash) }
			if err := genesis(); err != nil {
				t.Fatal(err)
			}
			// Interrupted before the checkpoint, with and without an index.
			for _, lose := range []func(){func() {}, h.removeIndex, func() {}} {
				remove(t, h.checkpoint("latest"))
				h.refuses(logger.ErrNoCheckpoint)
				lose()
				if err := genesis(); err != nil {
					t.Fatal(err)
				}
			}
			if err := genesis(); err != nil {
				t.Errorf("on an opened ledger: %v", err)
			}
			s := h.start()
			s.must(principal.Agent, gate(t))
			s.stop()
			h.fullySigned()
			if n := h.s.len(); n != 3 {
				t.Errorf("%d records", n)
			}
		})
	}
}

func TestGenesisRefuses(t *testing.T) {
	other := newHouse(t)
	record := other.s.all()[0]
	for name, c := range map[string]struct {
		bodies [][]byte
		want   error
	}{
		"somebody else's ledger":          {[][]byte{record}, logger.ErrFork},
		"something that is no record":     {[][]byte{[]byte("x")}, ledger.ErrCorrupt},
		"a ledger without its checkpoint": {[][]byte{record, record}, logger.ErrNoCheckpoint},
	} {
		t.Run(name, func(t *testing.T) {
			h := emptyHouse(t, t.TempDir())
			for _, b := range c.bodies {
				h.s.write(b)
			}
			if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if h.s.len() != len(c.bodies) {
				t.Error("it wrote there")
			}
		})
	}
	t.Run("another recovery key", func(t *testing.T) {
		remove(t, other.checkpoint("latest"))
		if err := logger.Genesis(context.Background(), other.cfg, strings.Repeat("1", 64)); !errors.Is(err, logger.ErrFork) {
			t.Error(err)
		}
	})
	t.Run("a stranger is quicker", func(t *testing.T) {
		h := emptyHouse(t, t.TempDir())
		h.s.then(fault{outcome: stranger, body: []byte("x")})
		if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); err == nil {
			t.Error("opened a ledger behind a stranger's message")
		}
		if entries, err := os.ReadDir(h.files().Checkpoints()); err != nil || len(entries) > 0 {
			t.Errorf("checkpoints %v %v", entries, err)
		}
	})
}

func TestKeysAreKept(t *testing.T) {
	h := newHouse(t)
	a, err := logger.CreateKeys(h.files(), "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	b, err := logger.LoadKeys(h.files())
	if err != nil || a.Verifier() != b.Verifier() {
		t.Errorf("%v: %s, before %s", err, b.Verifier(), a.Verifier())
	}
	remove(t, filepath.Join(h.cfg.Dir, "key"))
	if _, err := logger.CreateKeys(h.files(), "example.com/log"); err == nil {
		t.Error("made a new key for a ledger that the old one signed")
	}
	if raw, err := os.ReadFile(h.files().PublicKey()); err != nil || strings.TrimSpace(string(raw)) != a.Verifier() {
		t.Errorf("the public key changed: %s %v", raw, err)
	}
}

// A checkpoint directory that was put back is made good by the next signature;
// the operator is told.
func TestStartTellsOfAnOlderCheckpoint(t *testing.T) {
	p := newPast(t).again(t)
	p.rewind("checkpoint", 0)
	s := p.start()
	if w := s.l.Status().Warning; !strings.Contains(w, "put back to an older state") {
		t.Errorf("warning %q", w)
	}
	s.stop()
	s = p.start()
	if w := s.l.Status().Warning; w != "" {
		t.Errorf("warning %q after another start", w)
	}
	s.stop()
	p.consistent()
}

func TestStartWaitsForTheBrokerNoLongerThanItMay(t *testing.T) {
	h := newHouse(t)
	h.s.then(fault{outcome: lost}, fault{outcome: lost}, fault{outcome: lost}, fault{outcome: lost}, fault{outcome: lost}, fault{outcome: lost})
	if l, err := h.openWithin(1); !errors.Is(err, context.DeadlineExceeded) {
		l.Close()
		t.Fatal(err)
	}
	h.s.forget()
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.stop()
	h.fullySigned()
}

func remove(t tb, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func write(t tb, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cut removes the last byte but one of a file.
func (p *past) cut(path string) {
	p.t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-9)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
