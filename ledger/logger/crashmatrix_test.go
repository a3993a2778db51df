package logger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/kv/kvtest"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// matrixErrors are what a disk says.
var matrixErrors = []error{syscall.ENOSPC, syscall.EIO}

// plainWrite stands for durable.WriteFile where no power fails.
func plainWrite(path string, data []byte, mode fs.FileMode) error {
	return os.WriteFile(path, data, mode)
}

// diskHouse is a ledger whose index is on a disk in memory.
func diskHouse(t tb, dir string) (*house, *kvtest.Disk) {
	h, disk := looseHouse(t, dir), kvtest.NewDisk()
	h.cfg.IndexFS, h.cfg.Prepare = disk.FS(), writer(plainWrite).prepare
	if _, err := logger.CreateKeys(h.files(), "example.com/log"); err != nil {
		t.Fatal(err)
	}
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); err != nil {
		t.Fatal(err)
	}
	return h, disk
}

// promises are events and what was answered.
type promises struct {
	raws [][]byte
	acks map[int]answer
}

// work publishes events one by one and as a batch, and lets the logger sign.
func (p *promises) work(s *session) {
	for range 3 {
		p.raws = append(p.raws, gate(s.h.t))
		p.note(len(p.raws)-1, s.ask(principal.Agent, p.raws[len(p.raws)-1]))
	}
	first := len(p.raws)
	p.raws = append(p.raws, gates(s.h.t, 30)...)
	for i, a := range s.submitBatch(principal.Agent, p.raws[first:]).all(30) {
		p.note(first+i, a)
	}
}

func (p *promises) note(i int, a answer) {
	if p.acks == nil {
		p.acks = map[int]answer{}
	}
	if a.Error == nil {
		p.acks[i] = a
	}
}

// hold starts the logger on a disk that works: everything that was acked is
// there, and everything else is taken now.
func (p *promises) hold(h *house) {
	h.t.Helper()
	h.s.forget()
	s := h.start()
	for i, raw := range p.raws {
		a := s.must(principal.Agent, raw)
		if first, acked := p.acks[i]; acked && a != first {
			h.t.Fatalf("receipt %+v, the first was %+v", a, first)
		}
		p.acks[i] = a
	}
	s.stop()
	h.fullySigned()
	at := h.positions()
	for i, raw := range p.raws {
		h.checkReceipt(at, raw, p.acks[i])
	}
}

// TestCrashMatrixIndex fails each operation of the index's files in turn, from
// the start on, in each way, and then crashes.
func TestCrashMatrixIndex(t *testing.T) {
	t.Parallel()
	h, disk := diskHouse(t, t.TempDir())
	before := disk.Operations()
	(&promises{}).runOn(h)
	last := disk.Operations() + 1
	if last-before < 10 {
		t.Fatalf("only %d operations", last-before)
	}
	// A store that failed may take seconds to let go, so the cases wait together.
	slots := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for at := 1; at <= last-before; at++ {
		for _, outcome := range []kvtest.Outcome{kvtest.Failed, kvtest.Persisted, kvtest.Torn} {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				h, disk := diskHouse(t, t.TempDir())
				disk.Fail(kvtest.Fault{At: disk.Operations() + at, Err: matrixErrors[at%2], Outcome: outcome})
				p := &promises{}
				p.runOn(h)
				// The store may be held until the process ends; the next one
				// would not know of it.
				left := looseHouse(t, t.TempDir())
				left.s.bodies = h.s.all()
				copyDir(t, h.cfg.Dir, left.cfg.Dir)
				left.cfg.IndexFS, left.cfg.Prepare = disk.Crash([]int{0, 50, 100}[at%3], rand.New(rand.NewPCG(uint64(at), 0))).FS(), writer(plainWrite).prepare
				p.hold(left)
			})
		}
	}
	wg.Wait()
}

// runOn works on a disk that may fail at any time.
func (p *promises) runOn(h *house) {
	l, err := h.open()
	if err != nil {
		return
	}
	s := h.run(l)
	p.work(s)
	n := h.s.len()
	if err := s.end(); err != nil && h.s.len() != n {
		h.t.Fatalf("appended after %v", err)
	}
}

// checkpointFault is how one write of a checkpoint's file fails.
type checkpointFault struct {
	stage string
	do    func(path string, data []byte) error // what is on disk then
}

var checkpointFaults = []checkpointFault{
	{"failed", func(string, []byte) error { return nil }},
	{"torn", func(path string, data []byte) error {
		return os.WriteFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".1"), data[:len(data)/2], 0o600)
	}},
	{"failed but persisted", func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) }},
}

// TestCrashMatrixCheckpoint fails each write of a checkpoint in turn: the
// latest, and the copy that is kept. The logger goes on acking, and signs once
// it can; after a restart at that moment it does too.
func TestCrashMatrixCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range checkpointFaults {
		for _, cause := range matrixErrors {
			for at := 1; at <= 6; at++ {
				for _, restart := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						matrixCheckpoint(t, filepath.Join(dir, fmt.Sprint(c.stage, cause, at, restart)), c, cause, at, restart)
					})
				}
			}
		}
	}
}

func matrixCheckpoint(t *testing.T, dir string, c checkpointFault, cause error, at int, restart bool) {
	h, _ := diskHouse(t, dir)
	writes := 0
	h.cfg.Prepare = writer(func(path string, data []byte, mode fs.FileMode) error {
		if writes++; writes == at {
			return errors.Join(cause, c.do(path, data))
		}
		return plainWrite(path, data, mode)
	}).prepare
	p := &promises{acks: map[int]answer{}}
	for range 3 {
		l, err := h.open()
		if errors.Is(err, cause) { // the write of the start
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s := h.run(l)
		p.work(s)
		if len(p.acks) != len(p.raws) {
			t.Fatalf("%d of %d were acked", len(p.acks), len(p.raws))
		}
		if !restart {
			time.Sleep(3 * time.Second)
			if st := s.l.Status(); st.CheckpointSize != st.Size {
				t.Errorf("%s at write %d: signed %d of %d", c.stage, at, st.CheckpointSize, st.Size)
			}
		}
		if err := s.end(); err != nil && !errors.Is(err, cause) {
			t.Fatal(err)
		}
		h.s.forget()
	}
	if writes < 6 {
		t.Fatalf("only %d writes", writes)
	}
	p.hold(h)
}

// TestCrashMatrixGenesis interrupts the making of keys and ledger at each of
// its writes; doing it again completes it.
func TestCrashMatrixGenesis(t *testing.T) {
	t.Parallel()
	t.Run("keys", func(t *testing.T) {
		files := []string{"key.pub", "hmac.key", "key"} // in this order
		for n := range len(files) {
			h := emptyHouse(t, t.TempDir())
			for _, name := range files[n:] {
				remove(t, filepath.Join(h.cfg.Dir, name))
			}
			write(t, filepath.Join(h.cfg.Dir, "."+files[n]+".7"), "PRIV")
			if _, err := logger.LoadKeys(h.files()); !errors.Is(err, logger.ErrNotInitialised) {
				t.Errorf("%d files: %v", n, err)
			}
			if _, err := logger.CreateKeys(h.files(), "example.com/log"); err != nil {
				t.Fatalf("%d files: %v", n, err)
			}
			if err := logger.Genesis(t.Context(), h.cfg, recoveryHash); err != nil {
				t.Fatalf("%d files: %v", n, err)
			}
			h.start().stop()
			h.fullySigned()
		}
	})
	for _, c := range checkpointFaults {
		for _, o := range []outcome{stored, unacked, lost, prefix, late, misleading} {
			t.Run(fmt.Sprintf("checkpoint %s, append %d", c.stage, o), func(t *testing.T) {
				h := emptyHouse(t, t.TempDir())
				h.s.then(fault{outcome: o, k: 1})
				h.cfg.Prepare = writer(func(path string, data []byte, _ fs.FileMode) error {
					return errors.Join(syscall.EIO, c.do(path, data))
				}).prepare
				if err := logger.Genesis(t.Context(), h.cfg, recoveryHash); !errors.Is(err, syscall.EIO) {
					t.Fatal(err)
				}
				h.cfg.Prepare = nil
				h.s.forget()
				if err := logger.Genesis(t.Context(), h.cfg, recoveryHash); err != nil {
					t.Fatal(err)
				}
				s := h.start()
				s.must(principal.Agent, gate(t))
				s.stop()
				h.fullySigned()
			})
		}
	}
}

// TestACheckpointIsKeptUnderItsOwnSize has a checkpoint in place whose write
// failed at the sync of its directory, so that the logger does not count it.
func TestACheckpointIsKeptUnderItsOwnSize(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h, _ := diskHouse(t, dir)
		fails := false
		h.cfg.Prepare = writer(func(path string, data []byte, mode fs.FileMode) error {
			err := plainWrite(path, data, mode)
			if fails {
				err = errors.Join(err, syscall.EIO)
			}
			return err
		}).prepare
		s := h.start()
		fails = true
		s.must(principal.Agent, gate(t))
		time.Sleep(1100 * time.Millisecond)
		fails = false
		for range 5 {
			s.must(principal.Agent, gate(t))
		}
		s.stop()
		_, v, err := logger.LoadVerifier(h.files())
		if err != nil {
			t.Fatal(err)
		}
		for size := range uint64(9) {
			raw, err := os.ReadFile(h.checkpoint(fmt.Sprint(size)))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if cp, err := ledger.OpenCheckpoint(raw, v); err != nil || cp.Size != size {
				t.Errorf("the file %d holds the checkpoint of size %d (%v)", size, cp.Size, err)
			}
		}
		h.fullySigned()
	})
}
