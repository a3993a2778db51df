package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"assay/internal/durable"
)

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir, Principal: "agent/piper", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	event := bytes.Repeat([]byte("x"), 300)
	for range 3 {
		if err := s.Append(event); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(event); !errors.Is(err, ErrFull) {
		t.Fatalf("one too many: %v", err)
	}
	if err := s.Append([]byte("y"), event); !errors.Is(err, ErrFull) || s.Stats().Events != 3 {
		t.Fatalf("a group that does not fit: %v, %+v", err, s.Stats())
	}
	if got := rest(t, s); len(got) != 3 {
		t.Fatalf("%d events", len(got))
	}
	if err := s.Append(event, event, event); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(event); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	// What is on disk counts after a restart.
	s, err = Open(Config{Dir: dir, Principal: "agent/piper", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Append(event); !errors.Is(err, ErrFull) {
		t.Errorf("after a restart: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	header := appendHeader(nil, "agent/piper")
	entry := appendEntry(nil, []byte("event"))
	whole := slices.Concat(header, entry)
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"another principal", slices.Concat(appendHeader(nil, "agent/other"), entry), ErrOtherPrincipal},
		{"a later version", append([]byte("assay spool 2\n"), whole[len(magic):]...), ErrUnsupportedVersion},
		{"no header", []byte("something else altogether"), ErrCorrupt},
		{"altered header", bytes.Replace(whole, []byte("piper"), []byte("pipes"), 1), ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, segmentName(1)), c.raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Config{Dir: dir, Principal: "agent/piper"}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir, Principal: "agent/piper"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Open(Config{Dir: dir, Principal: "agent/piper"}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	for _, e := range [][]byte{nil, make([]byte, MaxEvent+1)} {
		if err := s.Append(e); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes: %v", len(e), err)
		}
	}
}

// TestTornAndDamaged: an end that a crash cut off is passed over, what was
// altered is kept beside the queue, and either is named.
func TestTornAndDamaged(t *testing.T) {
	header := appendHeader(nil, "agent/piper")
	var entries [][]byte
	for i := range 3 {
		entries = append(entries, appendEntry(nil, fmt.Appendf(nil, "event %d", i)))
	}
	whole := slices.Concat(header, entries[0], entries[1], entries[2])
	last := len(whole) - len(entries[2])
	flip := func(at int) []byte {
		raw := slices.Clone(whole)
		raw[at] ^= 0x10
		return raw
	}
	for _, c := range []struct {
		name    string
		raw     []byte
		want    []string
		torn    int
		damaged bool
	}{
		{"whole", whole, []string{"event 0", "event 1", "event 2"}, 0, false},
		{"no byte", nil, nil, 1, false},
		{"within the header", header[:len(header)-1], nil, 1, false},
		{"within the principal", header[:len(magic)+4], nil, 1, false},
		{"header alone", header, nil, 0, false},
		{"within the last event", whole[:len(whole)-1], []string{"event 0", "event 1"}, 1, false},
		{"within its length", whole[:last+3], []string{"event 0", "event 1"}, 1, false},
		{"zeros behind", append(slices.Clone(whole), make([]byte, 100)...), []string{"event 0", "event 1", "event 2"}, 1, false},
		{"zeros for its end", append(slices.Clone(whole[:len(whole)-2]), 0, 0), []string{"event 0", "event 1"}, 1, false},
		{"an event altered", flip(len(header) + len(entries[0]) + entryHead + 1), []string{"event 0", "event 2"}, 1, true},
		{"a length altered", flip(len(header) + len(entries[0]) + 3), []string{"event 0"}, 1, true},
		{"all altered", flip(len(header) + 3), nil, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, segmentName(7)), c.raw, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(Config{Dir: dir, Principal: "agent/piper"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if torn := s.Torn(); len(torn) != c.torn || c.torn > 0 && torn[0].Damaged != c.damaged {
				t.Errorf("named: %+v", torn)
			}
			// New events go behind the old ones, into a segment of their own.
			if err := s.Append([]byte("new")); err != nil {
				t.Fatal(err)
			}
			if got, want := rest(t, s), append(slices.Clone(c.want), "new"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			kept, _ := filepath.Glob(filepath.Join(dir, "*"+damagedSuffix))
			left, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
			if (len(kept) == 1) != c.damaged || len(left) != 0 {
				t.Errorf("kept %v, left %v", kept, left)
			}
		})
	}
}

func TestPeekWaits(t *testing.T) {
	s := mustOpen(t, newDisk())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Peek(ctx, 1, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an empty spool: %v", err)
	}
	got := make(chan Batch, 1)
	go func() {
		b, _ := s.Peek(t.Context(), 10, 3)
		got <- b
	}()
	if err := s.Append([]byte("one"), []byte("two")); err != nil {
		t.Fatal(err)
	}
	b := <-got
	if len(b.Events) != 1 || string(b.Events[0]) != "one" {
		t.Errorf("%q", b.Events)
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drained(t.Context()) }()
	s.Done(b)
	b, err := s.Peek(t.Context(), 10, 3)
	if err != nil || len(b.Events) != 1 {
		t.Fatal(b, err)
	}
	s.Done(b)
	if err := <-drained; err != nil {
		t.Error(err)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := s.Peek(t.Context(), 1, 1)
		closed <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

// An append that waits while the spool is closed writes nothing.
func TestCloseWhileWaiting(t *testing.T) {
	d := newDisk()
	s := mustOpen(t, d)
	s.commit.Lock() // an fsync that is under way
	got := make(chan error, 1)
	go func() { got <- s.Append([]byte("late")) }()
	for waiting := 0; waiting == 0; {
		s.mu.Lock()
		waiting = s.waiting.events
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.commit.Unlock()
	if err := <-got; !errors.Is(err, ErrClosed) || len(d.files) != 0 {
		t.Errorf("%v, %d files", err, len(d.files))
	}
}

func TestSegmentBytesAreFrozen(t *testing.T) {
	got := appendEntry(appendHeader(nil, "agent/piper"), []byte("{}"))
	want := "assay spool 1\n\x00\x0bagent/piper" + "\x91\x24\x70\x02" +
		"\x00\x00\x00\x02" + "\xa9\x5c\x3b\x30" + "\x29\x7b\xd0\xaa" + "{}"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzDecode: no bytes make the decoder panic or give what was not written, and
// what it accepts is written the same way.
func FuzzDecode(f *testing.F) {
	whole := appendEntry(appendEntry(appendHeader(nil, "agent/piper"), []byte("one")), []byte("two"))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		start, err := decodeHeader(raw, "agent/piper")
		if err != nil {
			return
		}
		again := appendHeader(nil, "agent/piper")
		altered := false
		end, _ := decodeEntries(raw, start, func(event []byte) bool {
			if event == nil {
				altered = true
				return true
			}
			again = appendEntry(again, event)
			return true
		})
		if end > len(raw) || !altered && !bytes.Equal(again, raw[:end]) {
			t.Fatalf("decoded %q to %q", raw[:end], again)
		}
	})
}

// BenchmarkAppend is one event of 600 bytes, fsynced, from 32 callers at a time.
func BenchmarkAppend(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), Principal: "agent/piper", Limit: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	event := bytes.Repeat([]byte("x"), 600)
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := s.Append(event); err != nil {
				b.Error(err)
			}
		}
	})
}
