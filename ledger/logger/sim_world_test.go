package logger_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/internal/kv/kvtest"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// sim is one schedule: a ledger in memory, the logger that writes to it, and
// what has been promised. It runs in a bubble of virtual time, and all that
// happens follows from the seed: faults are drawn by ordinal, waits are random
// to the nanosecond, so that no two things happen at one instant.
type sim struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand // of the steps
	dir   string
	key   note.Verifier
	vkey  string
	began time.Time
	clock *simClock
	free  atomic.Uint64
	who   []principal.Principal
	maker events.Maker

	mu        sync.Mutex // guards what follows and every field of stream and watch
	lines     []string
	sum       hash.Hash
	breaches  []string
	calm      bool // no more faults
	hostility hostility
	stream    *simStream
	files     simFiles
	disk      *kvtest.Disk
	crashed   *kvtest.Disk // what a crash left, until the next start
	in        *incarnation // nil when none runs
	starts    uint64
	owns      uint64 // events that other loggers made

	events []*simEvent // all that was ever sent
	byRaw  map[string]*simEvent
	raws   map[string]int // principal and id → how many different bytes
}

// simEvent is one event of one principal.
type simEvent struct {
	who     principal.Principal
	id      string
	raw     []byte
	garbage bool
	acked   bool
	receipt answer
}

// simClock is the bubble's time with the wall clock stepped.
type simClock struct {
	began      time.Time // by the bubble's clock
	start      time.Time // what the wall clock said then
	mu         sync.Mutex
	step, pass time.Duration
}

func (c *simClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.Add(time.Since(c.began) + c.pass + c.step)
}

func (c *simClock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Hour + time.Since(c.began) + c.pass
}

func (c *simClock) BootID() string { return "boot-1" }

// move steps the wall clock, and lets time pass without a tick of anything.
func (c *simClock) move(pass, step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass, c.step = c.pass+pass, c.step+step
}

// seededIDs makes UUIDv7s that follow from the seed.
func (s *sim) seededIDs(stream uint64) func() (uuid.UUID, error) {
	rng := rand.New(rand.NewPCG(s.seed, stream))
	return func() (id uuid.UUID, err error) {
		binary.BigEndian.PutUint64(id[:], uint64(s.clock.Wall().UnixMilli())<<16|rng.Uint64N(1<<16))
		binary.BigEndian.PutUint64(id[8:], rng.Uint64())
		id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
		return id, nil
	}
}

func newSim(t *testing.T, dir string, seed uint64) *sim {
	s := &sim{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), dir: dir, began: time.Now(), sum: sha256.New(),
		byRaw: map[string]*simEvent{}, raws: map[string]int{}, disk: kvtest.NewDisk(),
		files: simFiles{durable: map[string][]byte{}, renamed: map[string][]byte{}},
	}
	// Half of the schedules soon meet the end of a week.
	s.clock = &simClock{began: s.began, start: time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)}
	if seed%2 == 1 {
		s.clock.start = time.Date(2026, 10, 4, 23, 59, 30, 0, time.UTC)
	}
	s.free.Store(1 << 40)
	s.hostility = drawHostility(s.rng)
	s.stream = newSimStream(s, []int{1, 3, 25, 25, 5000}[s.rng.IntN(5)])
	s.maker = events.Maker{Source: "urn:test", Now: s.clock.Wall, NewID: s.seededIDs(3 << 60)}
	quick := principal.New(principal.Agent, "quick", "production")
	quick.ReceiptsSeq, quick.RejectionsPerSecond = false, 1
	s.who = append(principal.Defaults()[:5], quick)
	s.makeKeys()
	return s
}

// makeKeys writes the logger's keys, which are the same in every schedule.
func (s *sim) makeKeys() {
	secret := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	var err error
	if s.vkey, err = note.NewEd25519VerifierKey("example.com/log", secret.Public().(ed25519.PublicKey)); err != nil {
		s.t.Fatal(err)
	}
	if s.key, err = note.NewVerifier(s.vkey); err != nil {
		s.t.Fatal(err)
	}
	skey := fmt.Sprintf("PRIVATE+KEY+example.com/log+%08x+%s", s.key.KeyHash(), base64.StdEncoding.EncodeToString(append([]byte{1}, secret.Seed()...)))
	if err := os.MkdirAll(logger.Files(s.dir).Checkpoints(), 0o700); err != nil {
		s.t.Fatal(err)
	}
	write(s.t, filepath.Join(s.dir, "key"), skey)
	write(s.t, filepath.Join(s.dir, "key.pub"), s.vkey)
	write(s.t, filepath.Join(s.dir, "hmac.key"), strings.Repeat("k", 32))
}

// ownEvent is the event of another logger.
func (s *sim) ownEvent() []byte {
	s.owns++
	m := events.Maker{Source: "urn:assay:logger", Now: s.clock.Wall, NewID: s.seededIDs(4<<60 | s.owns)}
	ev, err := m.New(&events.LoggerStarted{BootID: "boot-2", HeadLeaf: strings.Repeat("0", 64), Software: "another"})
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := events.Encode(ev)
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// log adds to the trace.
func (s *sim) log(format string, args ...any) {
	line := fmt.Sprintf("%12s  ", time.Since(s.began)) + fmt.Sprintf(format, args...)
	s.lines = append(s.lines, line)
	s.sum.Write([]byte(line))
}

// note adds bytes to the digest of the trace alone.
func (s *sim) note(bodies ...[]byte) {
	for _, b := range bodies {
		s.sum.Write(b)
	}
}

func (s *sim) violate(format string, args ...any) {
	s.log("BREACH: "+format, args...)
	s.breaches = append(s.breaches, fmt.Sprintf(format, args...))
}

// trusting takes every signature for a good one: the audit at the end checks
// them all, and here they would be the largest part of the work.
type trusting struct{ note.Verifier }

func (trusting) Verify([]byte, []byte) bool { return true }

// writer is a durable.WriteFile of a test's.
type writer func(path string, data []byte, mode fs.FileMode) error

// prepare leaves all of the work to Commit.
func (w writer) prepare(path string, data []byte, mode fs.FileMode) (logger.Pending, error) {
	return pending(func() error { return w(path, data, mode) }), nil
}

type pending func() error

func (p pending) Commit() error { return p() }
func (p pending) Discard()      {}

// simFiles are the checkpoints on file. The real files are what a reader sees;
// this is what a crash leaves of them.
type simFiles struct {
	durable map[string][]byte
	renamed map[string][]byte // in place, and their directory not synced
	signed  uint64            // size of the durable latest
	writes  uint64
}

func (s *sim) path(name string) string {
	return filepath.Join(logger.Files(s.dir).Checkpoints(), name)
}

// writeFile stands for durable.WriteFile with the steps at which it can fail.
func (in *incarnation) writeFile(path string, data []byte, _ fs.FileMode) error {
	s := in.s
	s.mu.Lock()
	s.files.writes++
	rng := rand.New(rand.NewPCG(s.seed, 5<<60|s.files.writes))
	s.mu.Unlock()
	time.Sleep(between(rng, time.Microsecond, 500*time.Microsecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.dead {
		return errGone
	}
	name := filepath.Base(path)
	cp, err := ledger.OpenCheckpoint(data, trusting{s.key})
	switch {
	case err != nil:
		s.violate("%s is written without a good signature: %v", name, err)
	case name == "latest":
		in.watch.signs(cp)
	case name != fmt.Sprint(cp.Size):
		s.violate("the checkpoint of size %d is kept as %s", cp.Size, name)
	}
	stage := "whole"
	if !s.calm && rng.Float64() < s.hostility.disk {
		stage = []string{"nothing", "torn", "renamed"}[rng.IntN(3)]
		in.faults++
	}
	if in.crashes(atCheckpoint) {
		stage = []string{"nothing", "torn", "renamed", "whole"}[rng.IntN(4)]
		defer s.crash(in, 0)
	}
	s.log("checkpoint %s of size %d: %s", name, cp.Size, stage)
	s.note(data)
	return s.files.write(s, name, cp.Size, data, stage)
}

func (f *simFiles) write(s *sim, name string, size uint64, data []byte, stage string) error {
	switch stage {
	case "nothing":
		return syscall.ENOSPC
	case "torn":
		write(s.t, s.path(fmt.Sprintf(".%s.%d", name, f.writes)), string(data[:len(data)/2]))
		return syscall.ENOSPC
	}
	write(s.t, s.path(name), string(data))
	if stage == "renamed" {
		f.renamed[name] = data
		return syscall.EIO
	}
	f.durable[name] = data
	delete(f.renamed, name)
	if name == "latest" {
		f.signed = size
	}
	return nil
}

// synced makes what is in place durable.
func (f *simFiles) synced(s *sim) {
	maps.Copy(f.durable, f.renamed)
	clear(f.renamed)
	f.measure(s)
}

// measure finds the size of the durable latest.
func (f *simFiles) measure(s *sim) {
	f.signed = 0
	if cp, err := ledger.OpenCheckpoint(f.durable["latest"], trusting{s.key}); err == nil {
		f.signed = cp.Size
	}
}

// crash leaves what was synced and, of what was only renamed, some.
func (f *simFiles) crash(s *sim, rng *rand.Rand) {
	for _, name := range slices.Sorted(maps.Keys(f.renamed)) {
		switch data := f.durable[name]; {
		case rng.IntN(2) == 0:
			f.durable[name] = f.renamed[name]
		case data == nil:
			remove(s.t, s.path(name))
		default:
			write(s.t, s.path(name), string(data))
		}
	}
	clear(f.renamed)
	f.measure(s)
}

// moment is where inside the logger's work a process can end.
type moment string

const (
	atArrival    moment = "the append is at the broker"
	afterStore   moment = "it is stored"
	atAnswer     moment = "its answer is here"
	atReply      moment = "a receipt goes out"
	atCheckpoint moment = "a checkpoint is written"
)

// incarnation is one start of the logger.
type incarnation struct {
	s      *sim
	n      uint64
	l      *logger.Logger
	rng    *rand.Rand // of its crash
	watch  watch
	dead   bool // crashed: nothing that it still does counts
	died   time.Time
	faults int  // that it met
	stale  bool // it was told something old
	// running is set once Open is done.
	running bool
	end     moment // at whose after-th time it crashes
	after   int

	cancel  context.CancelFunc
	ended   chan error
	sources []*logger.Source
	sent    []*simMessage
}

// simMessage is one intake message on its way.
type simMessage struct {
	events   []*simEvent
	array    bool
	answered int
}

// crashes counts down to the crash at this moment.
func (in *incarnation) crashes(m moment) bool {
	if in.dead || in.end != m {
		return false
	}
	in.after--
	return in.after < 0
}

// wasDead says that the process crashed before this instant: what two of its
// goroutines do at one instant must not depend on which is first.
func (in *incarnation) wasDead() bool { return in.dead && in.died.Before(time.Now()) }

// crash ends the process at this instant: of the index what was synced stays,
// or with percent 100 all that was written.
func (s *sim) crash(in *incarnation, percent int) {
	s.log("logger %d crashes", in.n)
	in.dead, in.died = true, time.Now()
	percent *= in.rng.IntN(2)
	s.crashed = s.disk.Crash(percent, rand.New(rand.NewPCG(0, 0))) // takes numbers as it likes
	if in.rng.IntN(12) == 0 {
		s.log("its index is lost")
		s.crashed = kvtest.NewDisk()
	}
	s.files.crash(s, in.rng)
	if !in.running {
		in.cancel() // Open need not wait for answers that will not come
	}
}

// incarnate prepares a start.
func (s *sim) incarnate() (*incarnation, logger.Config, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	in := &incarnation{s: s, n: s.starts, rng: rand.New(rand.NewPCG(s.seed, 6<<60|s.starts)), ended: make(chan error, 1)}
	in.watch = watch{in: in, attempts: map[ledger.Seq]ledger.Hash{}}
	if !s.calm && in.rng.IntN(3) == 0 {
		in.end = []moment{atArrival, afterStore, atAnswer, atReply, atCheckpoint}[in.rng.IntN(5)]
		in.after = in.rng.IntN(6)
		s.log("logger %d will crash when %s, %d times before that", in.n, in.end, in.after)
	}
	var ctx context.Context
	ctx, in.cancel = context.WithTimeout(context.Background(), time.Minute)
	s.in = in
	return in, logger.Config{
		Dir: s.dir, Stream: simLine{in}, Clock: s.clock, NewID: s.seededIDs(7<<60 | s.starts), Software: "sim",
		IndexFS: s.disk.FS(), Prepare: writer(in.writeFile).prepare, LowWater: 1000,
		FreeBytes: func() (uint64, error) { return s.free.Load(), nil },
	}, ctx
}

// start opens and runs the logger. It may fail only if something was in its way.
func (s *sim) start() bool {
	in, cfg, ctx := s.incarnate()
	l, err := logger.Open(ctx, cfg)
	s.mu.Lock()
	in.cancel()
	s.log("logger %d opens: %v", in.n, err)
	if err != nil || in.dead {
		if !in.dead && (in.faults == 0 || errors.Is(err, logger.ErrFork)) {
			s.violate("logger %d does not start: %v", in.n, err)
		}
		s.gone(in)
		s.mu.Unlock()
		if l != nil {
			_ = l.Close() // of a process that is no more
		}
		return false
	}
	in.l, in.running = l, true
	s.mu.Unlock()
	for _, p := range s.who {
		in.sources = append(in.sources, l.AddSource(p))
	}
	ctx, in.cancel = context.WithCancel(context.Background())
	go func() { in.ended <- l.Run(ctx) }()
	return true
}

// gone takes over what the process left behind.
func (s *sim) gone(in *incarnation) {
	if in.dead {
		s.disk = s.crashed
	}
	s.in = nil
}

// reap ends the running logger, if want allows for how it ended.
func (s *sim) reap() {
	in := s.in
	in.cancel()
	var err error
	select {
	case err = <-in.ended:
	case <-time.After(5 * time.Minute):
		s.t.Fatalf("seed %d: logger %d does not stop", s.seed, in.n)
	}
	cerr := in.l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log("logger %d ended: %v", in.n, errors.Join(err, cerr))
	if !in.dead {
		in.mayEnd(err, cerr)
		for _, m := range in.sent {
			if m.answered != 1 {
				s.violate("logger %d answered %d times: %.200s", in.n, m.answered, m.events[0].raw)
			}
		}
	}
	s.gone(in)
}

// mayEnd says whether a logger that did not crash may have ended like this.
func (in *incarnation) mayEnd(err, cerr error) {
	s := in.s
	switch {
	case cerr != nil:
		s.violate("close: %v", cerr)
	case err == nil, errors.Is(err, logger.ErrFenced) && (in.watch.fence != 0 || in.stale):
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EIO): // the last signature
	case errors.Is(err, logger.ErrBehind) && (in.stale || s.stream.frozen):
	case errors.Is(err, ledger.ErrCorrupt) && (in.stale || s.stream.frozen):
	case errors.Is(err, stream.ErrUndecided) && in.faults > 0: // the farewell
	default:
		s.violate("logger %d ended: %v", in.n, err)
	}
}

func isWrong(err error) bool { return errors.Is(err, stream.ErrWrongSequence) }
