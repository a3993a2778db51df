package resolver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
)

// reload saves the machine, writes that out and restores another from it.
func reload(t fataler, m *Machine) *Machine {
	raw, err := json.Marshal(m.save())
	if err != nil {
		t.Fatal(err)
	}
	var s savedMachine
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	settled := pastBytes(t, m)
	p, err := stateReader{bufio.NewReader(bytes.NewReader(settled)), int64(len(settled))}.past(m.past.names.len(), s.First)
	if err != nil {
		t.Fatal(err)
	}
	out, err := restoreMachine(m.cfg, s, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pastBytes(t fataler, m *Machine) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	m.past.write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func savedText(t fataler, m *Machine) string {
	raw, err := json.Marshal(m.save(), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, %d settled, %d amendable: %q", raw, m.past.names.len(), m.past.live, pastBytes(t, m))
}

// checkOldest holds the oldest open prediction against a search for it.
func checkOldest(t fataler, m *Machine) {
	var want *prediction
	for _, p := range m.preds {
		if want == nil || p.seq < want.seq {
			want = p
		}
	}
	if got := m.oldest(); got != want {
		t.Fatalf("the oldest of %d open predictions is %+v, want %+v", len(m.preds), got, want)
	}
}

// TestSettledPredictionsAreLetGo: one that stays open does not keep those that
// were recorded and settled behind it.
func TestSettledPredictionsAreLetGo(t *testing.T) {
	m := NewMachine(MachineConfig{})
	add := func(seq int) *prediction {
		p := &prediction{key: predKey{"agent/a", fmt.Sprint(seq)}, seq: ledger.Seq(seq)}
		m.enter(p)
		return p
	}
	first := add(1)
	for seq := 2; seq < 10_000; seq++ {
		m.forget(add(seq))
	}
	if len(m.ages) > 2+minSweep+1 || m.oldest() != first {
		t.Errorf("%d predictions are kept; the oldest is %+v", len(m.ages), m.oldest())
	}
	m.forget(first)
	if m.oldest() != nil {
		t.Errorf("the oldest of none is %+v", m.oldest())
	}
}

// A machine that is restored, wherever and however often, emits the same bytes
// as one that folds from record 1, and ends in the same state.
func TestRestoredFoldEmitsTheSame(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		b := genBook(t)
		straight := machineOf(b, r)
		whole := b.fold(straight)
		bodies := b.bodies
		m := machineOf(b, r)
		var out []Emission
		for len(out) < len(whole) || int(m.Seq()) < len(bodies) {
			k := rapid.IntRange(int(m.Seq()), len(bodies)).Draw(t, "cut")
			b.bodies = bodies[:k]
			out = append(out, b.fold(m)...)
			b.bodies = bodies
			checkOldest(t, m)
			before := savedText(t, m)
			m = reload(t, m)
			if after := savedText(t, m); after != before {
				t.Fatalf("saved at %d\n%s\nrestored\n%s", k, before, after)
			}
			if k == len(bodies) {
				break
			}
		}
		if !equalEmissions(out, whole) {
			t.Fatalf("%d emissions, want %d or others", len(out), len(whole))
		}
		if a, b := savedText(t, m), savedText(t, straight); a != b {
			t.Fatalf("in the end\n%s\nwant\n%s", a, b)
		}
	})
}

// What a segment does not hold any more is in the state: samples outlive the
// segments that a source remembers.
func TestRestoredSamplesOutliveSegments(t *testing.T) {
	const day = 24 * 3600
	late := strings.Replace(low, `"10m"`, `"60d"`, 1)
	for _, restored := range []bool{false, true} {
		b := newBook(t)
		b.predict(0, "p", late)
		b.seal(66, 65, ticks(5, 30, 1)...)
		b.seal(40*day, 40*day-1, sample("beat", 40*day-2, 1))
		m := machineOf(b, testRegistry(t))
		b.fold(m)
		if n := len(m.order[0].segments); n != 1 {
			t.Fatalf("%d segments remembered, want the last one", n)
		}
		if restored {
			m = reload(t, m)
		}
		b.blobs = make(map[string][]byte) // those of the past are not asked for
		b.seal(40*day+1, 40*day, ticks(35, 60, 1)...)
		d := resolutions(t, b.fold(m))["p"]
		if d == nil || d.Verdict != Confirmed || len(d.Evidence.Refs) != 2 {
			t.Errorf("restored %v: %+v", restored, d)
		}
	}
}

// stateOf is a service that keeps its state and saves it at each checkpoint.
func stateOf(t testing.TB, m *memory, blobs Blobs, r *criterion.Registry, path string) *Service {
	s := serviceOf(t, m, blobs, r)
	s.cfg.State, s.saveEvery = path, 1
	return s
}

// A registry that predictions pin is read and parsed once, by a fold as by one that
// is restored.
func TestRegistryIsParsedOnce(t *testing.T) {
	old, parsed := testRegistry(t), 0
	b := newBook(t)
	m := machineOf(b, mustRegistry(t, signalOf("beat", criterion.Gauge, "beat")))
	m.cfg.Pinned = func(string) (string, bool) { return old.HashString(), true }
	m.cfg.Registries = func(sha string) (*criterion.Registry, error) {
		parsed++
		return criterion.ParseRegistry(old.Bytes())
	}
	for i := range 5 {
		b.predict(float64(i), fmt.Sprint("p", i), low)
	}
	b.fold(m)
	if parsed != 1 || len(m.preds) != 5 {
		t.Errorf("parsed %d times for %d open predictions", parsed, len(m.preds))
	}
	parsed = 0
	if again := reload(t, m); parsed != 1 || len(again.preds) != 5 {
		t.Errorf("restored: parsed %d times for %d open predictions", parsed, len(again.preds))
	}
}

// A service that is killed and started anywhere, with its state or an older
// one, leaves the same resolutions as one that was never interrupted.
func TestServiceResumes(t *testing.T) {
	r := testRegistry(t)
	blobs := make(memoryBlobs)
	dir := t.TempDir()
	resumed := 0
	rapid.Check(t, func(rt *rapid.T) {
		source := genBook(rt)
		copyBlobs(rt, source, blobs)
		run := func(path string) string {
			m := newMemory(rt)
			start := func() *Service {
				if path == "" {
					return serviceOf(t, m, blobs, r)
				}
				s := stateOf(t, m, blobs, r, path)
				s.saveEvery = 20 // a save is fsynced
				return s
			}
			s, old := start(), []byte(nil)
			for _, body := range source.bodies {
				m.take(body)
				restart := 2
				if path != "" {
					restart = rapid.IntRange(0, 9).Draw(rt, "restart")
				}
				switch {
				case restart == 0:
					old, _ = os.ReadFile(path)
				case restart == 1 && old != nil:
					if err := os.WriteFile(path, old, 0o600); err != nil {
						rt.Fatal(err)
					}
				}
				if restart < 2 {
					before := s.Applied()
					if s = start(); before > 0 {
						s.Advance(t.Context())
						if s.saved > 0 {
							resumed++
						}
					}
				}
				m.catchUp(s)
				if s.Differed() != 0 {
					rt.Fatal("a restart made other bytes")
				}
			}
			os.Remove(path)
			var out strings.Builder
			for _, body := range m.book.bodies {
				rec, _ := ledger.ParseRecord(body)
				out.WriteString(rec.Principal)
				out.Write(rec.Event)
			}
			return out.String()
		}
		if whole, restarted := run(""), run(filepath.Join(dir, "state")); whole != restarted {
			rt.Fatalf("%s\nwith restarts\n%s", whole, restarted)
		}
	})
	if resumed == 0 {
		t.Error("no run began at a saved state")
	}
}

// reseal makes the checksum of a changed state hold again.
func reseal(raw []byte) []byte {
	raw = raw[:len(raw)-sha256.Size]
	sum := sha256.Sum256(raw)
	return append(raw, sum[:]...)
}

// A state that does not fit the ledger, or this build, is dropped: the fold
// begins at record 1 and ends where it would have ended.
func TestStateIsTrustedOnlyAsFarAsTheLedgerBearsItOut(t *testing.T) {
	r := testRegistry(t)
	another := mustRegistry(t, signalOf("beat", criterion.Gauge, "beat"))
	for name, tc := range map[string]struct {
		state   func(raw []byte) []byte
		ledger  func(m *memory)
		reg     *criterion.Registry
		resumed bool
	}{
		"as it was":       {resumed: true},
		"longer by now":   {ledger: func(m *memory) { m.book.tick(100); m.sign() }, resumed: true},
		"absent":          {state: func([]byte) []byte { return nil }},
		"empty":           {state: func([]byte) []byte { return []byte{} }},
		"cut off":         {state: func(raw []byte) []byte { return raw[:len(raw)-1] }},
		"a flipped bit":   {state: func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }},
		"another version": {state: func(raw []byte) []byte { return reseal(bytes.Replace(raw, []byte("state 4"), []byte("state 3"), 1)) }},
		"an unknown field": {state: func(raw []byte) []byte {
			return reseal(bytes.Replace(raw, []byte(`"rules"`), []byte(`"later":1,"rules"`), 1))
		}},
		"another registry": {reg: another},
		"another frontier, and the ledger grew": {
			state: func(raw []byte) []byte {
				at := bytes.Index(raw, []byte(`"frontier":"`)) + len(`"frontier":"`)
				raw[at] ^= 1
				return reseal(raw)
			},
			ledger: func(m *memory) { m.book.tick(100); m.sign() },
		},
		"another frontier": {state: func(raw []byte) []byte {
			at := bytes.Index(raw, []byte(`"frontier":"`)) + len(`"frontier":"`)
			raw[at] ^= 1
			return reseal(raw)
		}},
		"another ledger of the same length": {ledger: func(m *memory) {
			n := len(m.book.bodies)
			m.book.bodies, m.book.head = nil, ledger.Hash{}
			for i := range n {
				m.book.tick(float64(i))
			}
		}},
		"a shorter ledger": {ledger: func(m *memory) {
			m.book.bodies = m.book.bodies[:2]
			m.book.head = ledger.Leaf(m.book.bodies[1])
			m.sign()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			m, blobs := newMemory(t), make(memoryBlobs)
			m.book.predict(0, "p", low)
			m.book.seal(11, 10, ticks(5, 10, 1)...)
			m.book.tick(12)
			copyBlobs(t, m.book, blobs)
			m.sign()
			if ok, err := stateOf(t, m, blobs, r, path).Advance(t.Context()); !ok || err != nil {
				t.Fatal(ok, err)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if tc.state != nil {
				if raw = tc.state(raw); raw == nil {
					err = os.Remove(path)
				} else {
					err = os.WriteFile(path, raw, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if tc.ledger != nil {
				tc.ledger(m)
			}
			reg := r
			if tc.reg != nil {
				reg = tc.reg
			}
			s := stateOf(t, m, blobs, reg, path)
			s.saveEvery = 1 << 40
			for range 2 { // the first may drop the state
				if ok, err := s.Advance(t.Context()); err != nil {
					t.Fatal(ok, err)
				}
			}
			if resumed := s.saved > 0; resumed != tc.resumed {
				t.Errorf("resumed %v, want %v", resumed, tc.resumed)
			}
			if int(s.Applied()) != m.signed {
				t.Errorf("applied %d of %d", s.Applied(), m.signed)
			}
			straight := serviceOf(t, m, blobs, reg)
			if ok, err := straight.Advance(t.Context()); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if a, b := savedText(t, s.machine), savedText(t, straight.machine); a != b || s.tree.Root() != straight.tree.Root() {
				t.Errorf("it is\n%s\nwant\n%s", a, b)
			}
		})
	}
}

// Records that are not those which the checkpoint signs stop the service.
func TestServiceStopsAtAnUnsignedRoot(t *testing.T) {
	m := newMemory(t)
	m.book.tick(0)
	m.book.tick(1)
	m.sign()
	s := serviceOf(t, m, make(memoryBlobs), testRegistry(t))
	s.cfg.Ledger = otherRoot{m}
	if _, err := s.Advance(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("%v, want ErrBroken", err)
	}
	if s.Applied() != 0 {
		t.Errorf("%d records were applied", s.Applied())
	}
}

// otherRoot signs something else.
type otherRoot struct{ *memory }

func (o otherRoot) Checkpoint(ctx context.Context) (ledger.Checkpoint, error) {
	cp, err := o.memory.Checkpoint(ctx)
	cp.Root[0] ^= 1
	return cp, err
}

// A service that is stopped saves where it stands.
func TestServiceSavesAtItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	m, blobs := newMemory(t), make(memoryBlobs)
	m.book.tick(0)
	m.sign()
	s := serviceOf(t, m, blobs, testRegistry(t))
	s.cfg.State = path
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	wait(t, "the fold", func() bool { return s.Applied() == 1 })
	time.Sleep(5 * time.Millisecond)
	cancel()
	<-done
	again := stateOf(t, m, blobs, testRegistry(t), path)
	if ok, err := again.Advance(t.Context()); !ok || err != nil || again.saved != 1 {
		t.Errorf("%v %v, saved at %d", ok, err, again.saved)
	}
}

// A service that is stopped at any record of a checkpoint goes on behind it, and
// leaves the ledger as one that was never interrupted.
func TestServiceStopsBetweenCheckpoints(t *testing.T) {
	r := testRegistry(t)
	blobs := make(memoryBlobs)
	path := filepath.Join(t.TempDir(), "state")
	rapid.Check(t, func(rt *rapid.T) {
		source := genBook(rt)
		copyBlobs(rt, source, blobs)
		run := func(stopAt int) [][]byte {
			m := newMemory(rt)
			for _, body := range source.bodies {
				rec, err := ledger.ParseRecord(body)
				if err != nil {
					rt.Fatal(err)
				}
				m.now = max(m.now, rec.RecordedAt.Sub(epoch).Seconds())
				m.book.event(rec.RecordedAt, rec.Principal, rec.Event)
			}
			m.sign()
			s := serviceOf(t, m, blobs, r)
			if stopAt > 0 {
				s.cfg.State = path
				cp, _ := m.Checkpoint(t.Context())
				if err := s.look(t.Context(), cp); err != nil {
					rt.Fatal(err)
				}
				for _, body := range s.bodies[:stopAt] {
					if err := s.apply(t.Context(), s.Applied()+1, body); err != nil {
						rt.Fatal(err)
					}
				}
				s.stop(t.Context())
				s = serviceOf(t, m, blobs, r)
				s.cfg.State = path
				if err := s.begin(t.Context(), cp); err != nil || int(s.Applied()) != stopAt {
					rt.Fatalf("%v: it goes on behind record %d, stopped at %d", err, s.Applied(), stopAt)
				}
			}
			for last := -1; last != len(m.book.bodies); {
				m.sign()
				last = len(m.book.bodies)
				if ok, err := s.Advance(t.Context()); err != nil || !ok {
					rt.Fatal(ok, err)
				}
			}
			return m.book.bodies
		}
		whole := run(0)
		stopped := run(rapid.IntRange(1, len(source.bodies)).Draw(rt, "stop"))
		if !slices.EqualFunc(whole, stopped, bytes.Equal) {
			rt.Fatalf("%s\nstopped\n%s", bytes.Join(whole, []byte("\n")), bytes.Join(stopped, []byte("\n")))
		}
	})
}

// What the ledger does not have, and what an error cut in two, is not saved.
func TestServiceSavesNothingHalf(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Service, m *memory)
		saved  bool
	}{
		"whole":                  {func(*Service, *memory) {}, true},
		"an intake that is away": {func(_ *Service, m *memory) { m.failing = 1 << 30 }, false},
		"a missing segment": {func(s *Service, _ *memory) {
			s.cfg.Blobs = make(memoryBlobs)
			s.machine = NewMachine(s.machineConfig())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, blobs := newMemory(t), make(memoryBlobs)
			m.book.predict(0, "p", low)
			m.book.seal(11, 10, ticks(5, 10, 1)...)
			copyBlobs(t, m.book, blobs)
			m.sign()
			path := filepath.Join(t.TempDir(), "state")
			s := serviceOf(t, m, blobs, testRegistry(t))
			s.cfg.State = path
			tc.change(s, m)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if m.failing > 0 { // for ever, unless it ends
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			_, err := s.Advance(ctx)
			if (err == nil) != tc.saved {
				t.Fatal(err)
			}
			s.stop(ctx)
			if _, err := os.Stat(path); (err == nil) != tc.saved {
				t.Errorf("saved: %v", err)
			}
		})
	}
}

// A state that cannot be written is tried again after as many records as lie
// between two that can, and once it can it is.
func TestServiceSavesRarelyInVain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "away")
	m, blobs := newMemory(t), make(memoryBlobs)
	for i := range 95 {
		m.book.tick(float64(i))
	}
	m.sign()
	var log bytes.Buffer
	s := stateOf(t, m, blobs, testRegistry(t), filepath.Join(dir, "state"))
	s.cfg.Log, s.saveEvery = zerolog.New(&log), 10
	if ok, err := s.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if n := strings.Count(log.String(), "state was not saved"); n != 9 {
		t.Errorf("tried %d times in 95 records, want 9", n)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		m.book.tick(float64(95 + i))
	}
	m.sign()
	if ok, err := s.Advance(t.Context()); !ok || err != nil || s.saved != 100 {
		t.Errorf("%v %v, saved at %d", ok, err, s.saved)
	}
}

// A service that keeps no state publishes together however many records it has
// folded.
func TestServiceWithoutStatePublishesTogether(t *testing.T) {
	m, blobs := newMemory(t), make(memoryBlobs)
	for i := range 50 {
		m.book.predict(float64(i), fmt.Sprint("p", i), low)
	}
	m.sign()
	s := serviceOf(t, m, blobs, testRegistry(t))
	s.saveEvery = 10
	if ok, err := s.Advance(t.Context()); !ok || err != nil || m.calls != 5 {
		t.Errorf("%v %v, %d messages for 50 events, want 5", ok, err, m.calls)
	}
}

func FuzzReadState(f *testing.F) {
	m, blobs := newMemory(f), make(memoryBlobs)
	m.book.predict(0, "p", low)
	m.book.predict(0, "q", strings.Replace(low, `"level"`, `"nothing"`, 1))
	m.book.predict(0, "r", strings.Replace(low, `"1m"`, `"5s"`, 1))
	m.book.seal(11, 10, ticks(1, 5, 1)...) // r is settled
	copyBlobs(f, m.book, blobs)
	m.sign()
	path := filepath.Join(f.TempDir(), "state")
	s := stateOf(f, m, blobs, testRegistry(f), path)
	if ok, err := s.Advance(f.Context()); !ok || err != nil || s.machine.past.live != 1 {
		f.Fatal(ok, err, s.machine.past.live)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[len(stateMagic) : len(raw)-sha256.Size])
	f.Fuzz(func(t *testing.T, body []byte) {
		raw := reseal(append(append([]byte(stateMagic), body...), make([]byte, sha256.Size)...))
		st, err := readState(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			if !errors.Is(err, errState) {
				t.Fatal(err)
			}
			return
		}
		cfg := MachineConfig{Registry: testRegistry(t), Segments: m.book, Resolver: events.ResolverIdentity{}}
		if _, err := restoreMachine(cfg, st.Machine, st.past); err == nil && st.tree.Size() != uint64(st.Machine.Seq) {
			t.Fatal("the frontier is of another size")
		}
	})
}

// Settled predictions that are not those which were saved are refused.
func TestRestoreRefusesOtherSettled(t *testing.T) {
	b := newBook(t)
	b.predict(0, "p", low)
	b.predict(0, "q", strings.Replace(low, `"1m"`, `"50s"`, 1))
	b.predict(0, "watching", strings.Replace(low, `"1m"`, `"1h"`, 1))
	b.seal(66, 65, append(ticks(5, 60, 1), sample("level", 64, 99))...)
	m := machineOf(b, testRegistry(t))
	b.fold(m)
	if len(m.past.list) != 3 || len(m.past.watching) != 1 || len(m.terms) != 2 {
		t.Fatalf("%d settled, %d watching, %d terms", len(m.past.list), len(m.past.watching), len(m.terms))
	}
	for name, tc := range map[string]struct {
		change func(s *savedMachine, p *savedPast)
		want   bool
	}{
		"as they were":                   {func(*savedMachine, *savedPast) {}, true},
		"of another name":                {func(_ *savedMachine, p *savedPast) { p.names.at(2).key[0] ^= 1 }, false},
		"cut off":                        {func(_ *savedMachine, p *savedPast) { p.list[1].packed = p.list[1].packed[:80] }, false},
		"in each other's place":          {func(_ *savedMachine, p *savedPast) { p.list[1], p.list[2] = p.list[2], p.list[1] }, false},
		"with terms that no lint passes": {func(_ *savedMachine, p *savedPast) { p.terms[0].raw = strings.Replace(low, "level", "nothing", 1) }, false},
		"with the same terms twice":      {func(_ *savedMachine, p *savedPast) { p.terms[1].raw = p.terms[0].raw }, false},
		"by another registry":            {func(_ *savedMachine, p *savedPast) { p.terms[0].registry[0] ^= 1 }, false},
		"watching in another's place":    {func(s *savedMachine, _ *savedPast) { s.Past[0].Settled.Nth = 1 }, false},
		"watching beyond all":            {func(s *savedMachine, _ *savedPast) { s.Past[0].Settled.Nth = 3 }, false},
		"watching before all":            {func(s *savedMachine, _ *savedPast) { s.Past[0].Settled.Nth = -1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, settled := m.save(), pastBytes(t, m)
			p, err := stateReader{bufio.NewReader(bytes.NewReader(settled)), int64(len(settled))}.past(3, 0)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(&s, p)
			if _, err := restoreMachine(m.cfg, s, p); (err == nil) != tc.want {
				t.Errorf("%v, want it taken: %v", err, tc.want)
			}
		})
	}
}
