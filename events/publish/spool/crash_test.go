package spool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

var errDisk = errors.New("disk failed")

// disk is a directory in memory. A power cut keeps what was synced, and of the
// rest any prefix, with or without zeros behind it.
type disk struct {
	mu    sync.Mutex
	files map[string]*inode
	named map[string]bool // names that are durable
	fail  int             // steps until one fails; 0: none does
	dead  bool            // each step fails
	steps int
	syncs int
}

type inode struct {
	data   []byte
	synced int
}

func newDisk() *disk { return &disk{files: map[string]*inode{}, named: map[string]bool{}} }

// step counts what may fail.
func (d *disk) step() error {
	d.steps++
	if d.dead {
		return errDisk
	}
	if d.fail > 0 {
		if d.fail--; d.fail == 0 {
			return errDisk
		}
	}
	return nil
}

func (d *disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.files)), nil
}

func (d *disk) ReadFile(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return nil, fmt.Errorf("no file %s", name)
	}
	return slices.Clone(f.data), nil
}

func (d *disk) Create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return nil, err
	}
	if d.files[name] != nil {
		return nil, fmt.Errorf("file %s exists", name)
	}
	f := &inode{}
	d.files[name] = f
	return &handle{d, f}, nil
}

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	delete(d.files, name)
	return nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	for name := range d.files {
		d.named[name] = true
	}
	return nil
}

type handle struct {
	d *disk
	f *inode
}

// Write may write a part before it fails.
func (h *handle) Write(p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.step(); err != nil {
		n := len(p) / 2
		h.f.data = append(h.f.data, p[:n]...)
		return n, err
	}
	h.f.data = append(h.f.data, p...)
	return len(p), nil
}

func (h *handle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.syncs++
	if err := h.d.step(); err != nil {
		return err
	}
	h.f.synced = len(h.f.data)
	return nil
}

func (h *handle) Close() error { return nil }

// cut is the disk after a loss of power, or with intact after a kill -9.
func (d *disk) cut(intact bool, below func(int) int) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newDisk()
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		if !d.named[name] && !intact && below(2) == 0 {
			continue
		}
		data := slices.Clone(f.data)
		if !intact {
			kept := f.synced + below(len(f.data)-f.synced+1)
			if below(2) == 0 {
				clear(data[kept:]) // the size reached the disk and the bytes did not
			} else {
				data = data[:kept]
			}
		}
		after.files[name] = &inode{data, len(data)}
		after.named[name] = true
	}
	return after
}

func mustOpen(t testing.TB, d *disk) *Spool {
	t.Helper()
	s, err := Open(Config{Principal: "agent/piper", FS: d})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rest takes everything out of a spool.
func rest(t testing.TB, s *Spool) (out []string) {
	t.Helper()
	for !s.Empty() {
		b, err := s.Peek(context.Background(), 10, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			out = append(out, string(e))
		}
		s.Done(b)
	}
	return out
}

// TestSpoolSurvivesCrashes: whatever fails and wherever the power goes, what
// was taken and not delivered is handed out again, in order.
func TestSpoolSurvivesCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDisk()
		s, err := Open(Config{Principal: "agent/piper", FS: d})
		if err != nil {
			rt.Fatal(err)
		}
		var taken []string // not delivered
		maybe := map[string]bool{}
		n := 0
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "deliver", "fail"}).Draw(rt, "step") {
			case "append":
				var group [][]byte
				for range rapid.IntRange(1, 4).Draw(rt, "events") {
					n++
					size := rapid.SampledFrom([]int{1, 100, 60_000, 100_000}).Draw(rt, "size")
					group = append(group, fmt.Appendf(nil, "%d %0*d", n, size, 7))
				}
				err := s.Append(group...)
				for _, e := range group {
					if err == nil {
						taken = append(taken, string(e))
					} else {
						maybe[string(e)] = true
					}
				}
			case "deliver":
				if s.Empty() {
					continue
				}
				b, err := s.Peek(context.Background(), 3, 1<<20)
				if err != nil {
					rt.Fatal(err)
				}
				for i, e := range b.Events {
					if string(e) != taken[i] {
						rt.Fatalf("delivered %.20q, want %.20q", e, taken[i])
					}
					maybe[string(e)] = true // may come again
				}
				s.Done(b)
				taken = taken[len(b.Events):]
			case "fail":
				d.fail = rapid.IntRange(1, 6).Draw(rt, "in")
			}
		}
		after := d.cut(rapid.Bool().Draw(rt, "kill"), func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "cut") })
		again, err := Open(Config{Principal: "agent/piper", FS: after})
		if err != nil {
			rt.Fatal(err)
		}
		var got []string
		for _, e := range rest(t, again) {
			if !maybe[e] {
				got = append(got, e)
			}
		}
		if !slices.Equal(got, taken) {
			rt.Fatalf("%d events came back, %d were taken", len(got), len(taken))
		}
		for _, torn := range again.Torn() {
			if torn.Damaged {
				rt.Fatalf("a crash passes for damage: %+v", torn)
			}
		}
		if len(after.files) != 0 {
			rt.Fatalf("files are left: %v", slices.Collect(maps.Keys(after.files)))
		}
	})
}

// TestEachStepFails: each step of an append fails once; what follows is taken
// and nothing that was taken is lost.
func TestEachStepFails(t *testing.T) {
	for fail := 1; ; fail++ {
		d := newDisk()
		s := mustOpen(t, d)
		d.fail = fail
		var want []string
		refused := 0
		for i := range 4 {
			e := fmt.Sprintf("event %d", i)
			if err := s.Append([]byte(e)); err == nil {
				want = append(want, e)
			} else if refused++; !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
		}
		if d.fail > 0 {
			break // no step was left to fail
		}
		if refused != 1 {
			t.Fatalf("step %d: %d appends failed", fail, refused)
		}
		if got := rest(t, s); !slices.Equal(got, want) {
			t.Errorf("step %d: got %q, want %q", fail, got, want)
		}
		if st := s.Stats(); st.Events != 0 || st.Bytes != 0 {
			t.Errorf("step %d: an empty spool has %+v", fail, st)
		}
	}
}

// TestWaitingCallersShareAnFsync: the callers that come while one fsync is under
// way are written by the next one.
func TestWaitingCallersShareAnFsync(t *testing.T) {
	d := newDisk()
	s := mustOpen(t, d)
	const callers = 50
	s.commit.Lock() // an fsync that is under way
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := s.Append(fmt.Appendf(nil, "%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < callers; {
		s.mu.Lock()
		waiting = s.waiting.events
		s.mu.Unlock()
	}
	s.commit.Unlock()
	wg.Wait()
	if got := rest(t, s); len(got) != callers || d.syncs != 1 {
		t.Errorf("%d events in %d fsyncs", len(got), d.syncs)
	}
}

// TestOrderUnderLoad: each caller's events come out in its order, while others
// append and the head is taken out.
func TestOrderUnderLoad(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), Principal: "agent/piper"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const callers, each = 8, 50
	pad := make([]byte, 2000+rand.IntN(10))
	for i := range pad {
		pad[i] = 'x'
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				if err := s.Append(fmt.Appendf(nil, "%d %d %s", c, i, pad)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, callers)
	for got := 0; got < callers*each; {
		b, err := s.Peek(t.Context(), 7, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			var c, i int
			fmt.Sscan(string(e), &c, &i)
			if next[c] != i {
				t.Fatalf("caller %d: event %d, want %d", c, i, next[c])
			}
			next[c]++
			got++
		}
		s.Done(b)
	}
	wg.Wait()
	if !s.Empty() {
		t.Errorf("left: %+v", s.Stats())
	}
}
