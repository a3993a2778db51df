package drop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func mustWait(t *testing.T, d Dir, most int) (texts []string, total int) {
	t.Helper()
	items, err := d.Waiting(most)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if i.Err != nil {
			t.Error(i.Err)
		}
		texts = append(texts, string(i.Event))
	}
	return texts, mustCount(t, d).Waiting
}

func mustCount(t *testing.T, d Dir) Count {
	t.Helper()
	n, err := d.Count()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEventsWaitInOrder(t *testing.T) {
	d := Dir(t.TempDir())
	for i, text := range []string{"c", "a", "b"} {
		if err := d.Put([]byte(text), noon.Add(time.Duration([]int{30, 10, 20}[i])*time.Nanosecond)); err != nil {
			t.Fatal(err)
		}
	}
	if texts, total := mustWait(t, d, 2); !slices.Equal(texts, []string{"a", "b"}) || total != 3 {
		t.Errorf("%v of %d", texts, total)
	}
	items, err := d.Waiting(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := items[0].Remove(); err != nil {
		t.Fatal(err)
	}
	if texts, total := mustWait(t, d, 9); !slices.Equal(texts, []string{"b", "c"}) || total != 2 {
		t.Errorf("%v of %d", texts, total)
	}
	if texts, total := mustWait(t, Dir(filepath.Join(string(d), "none")), 9); len(texts) != 0 || total != 0 {
		t.Errorf("%v of %d", texts, total)
	}
}

func TestManyPutAtOnce(t *testing.T) {
	d := Dir(t.TempDir())
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if err := d.Put(fmt.Appendf(nil, "%d", i), noon); err != nil { // at the same nanosecond
				t.Error(err)
			}
		})
	}
	all.Wait()
	texts, _ := mustWait(t, d, 1000)
	slices.Sort(texts)
	if len(slices.Compact(texts)) != 64 {
		t.Errorf("%d events", len(texts))
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	d := Dir(t.TempDir())
	for _, event := range [][]byte{nil, bytes.Repeat([]byte("x"), MaxEvent+1)} {
		if err := d.Put(event, noon); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes: %v", len(event), err)
		}
	}
	if err := Dir(filepath.Join(string(d), "none")).Put([]byte("x"), noon); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, total := mustWait(t, d, 9); total != 0 {
		t.Errorf("%d events", total)
	}
}

// traps are what an agent may put in the place of a file.
var traps = map[string]func(path string) error{
	"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
	"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
}

// TestOnlyFilesAreRead: a link leads nowhere, a pipe keeps nobody waiting, and neither
// what stands behind them.
func TestOnlyFilesAreRead(t *testing.T) {
	for name, make := range traps {
		d := Dir(t.TempDir())
		if err := make(filepath.Join(string(d), "0"+suffix)); err != nil {
			t.Fatal(err)
		}
		if err := d.Put([]byte("behind"), noon); err != nil {
			t.Fatal(err)
		}
		if texts, total := mustWait(t, d, 1); !slices.Equal(texts, []string{"behind"}) || total != 1 {
			t.Errorf("%s: %q of %d", name, texts, total)
		}
		if n := mustCount(t, d); n != (Count{Waiting: 1, Strange: 1}) {
			t.Errorf("%s: %+v", name, n)
		}
	}
	// Also where the file was swapped after it was listed.
	for name, make := range traps {
		path := filepath.Join(t.TempDir(), "0"+suffix)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if raw, err := read(path, uint32(os.Getuid()), MaxEvent); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}

// TestAForeignFileIsNobodysEvent, wherever it came from; it can be set aside.
func TestAForeignFileIsNobodysEvent(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: not root: no file can be given to another user")
	}
	d := Dir(t.TempDir())
	for i := range 2 {
		if err := d.Put(fmt.Appendf(nil, "%d", i), noon.Add(time.Duration(i))); err != nil {
			t.Fatal(err)
		}
	}
	items, err := d.Waiting(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(items[0].path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if items, err = d.Waiting(2); err != nil || len(items) != 2 || !errors.Is(items[0].Err, ErrForeign) || items[0].Event != nil || string(items[1].Event) != "1" {
		t.Fatalf("%+v, %v", items, err)
	}
	name, err := items[0].SetAside()
	if raw, readErr := os.ReadFile(filepath.Join(string(d), name)); err != nil || readErr != nil || string(raw) != "0" {
		t.Errorf("%q, %v, %v", raw, err, readErr)
	}
	if texts, _ := mustWait(t, d, 2); !slices.Equal(texts, []string{"1"}) || mustCount(t, d) != (Count{Waiting: 1, Refused: 1}) {
		t.Errorf("%v, %+v", texts, mustCount(t, d))
	}
	if _, err := items[0].SetAside(); err != nil { // somebody was quicker
		t.Error(err)
	}
}

// TestSweepForgetsWhatWasLeftUnfinished, and nothing else.
func TestSweepForgetsWhatWasLeftUnfinished(t *testing.T) {
	d := Dir(t.TempDir())
	if err := d.Put([]byte("x"), noon); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".old.event.1", ".new.event.1"} {
		if err := os.WriteFile(filepath.Join(string(d), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{".old.event.1", "."} {
		if err := os.Chtimes(filepath.Join(string(d), name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	d.Sweep(time.Now().Add(-time.Hour))
	entries, err := os.ReadDir(string(d))
	if err != nil || len(entries) != 2 || entries[0].Name() != ".new.event.1" {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestATrapIsNoLog: what stands in the log's place is not read.
func TestATrapIsNoLog(t *testing.T) {
	for name, make := range traps {
		d := Dir(t.TempDir())
		if err := make(filepath.Join(string(d), logName)); err != nil {
			t.Fatal(err)
		}
		if n, last := d.Complaints(); n != 0 || last != "" {
			t.Errorf("%s: %d, %q", name, n, last)
		}
	}
}

func TestComplaintsAreCounted(t *testing.T) {
	d := Dir(t.TempDir())
	if n, last := d.Complaints(); n != 0 || last != "" {
		t.Errorf("%d, %q", n, last)
	}
	d.Complain(noon, "first\n\xff")
	if n, last := d.Complaints(); n != 1 || last != "2026-12-01T12:00:00Z first \uFFFD" {
		t.Errorf("%d, %q", n, last)
	}
	d.Complain(noon.Add(time.Second), "two\nlines \xff and "+strings.Repeat("ä", 1000))
	n, last := d.Complaints()
	if n != 2 || !strings.HasPrefix(last, "2026-12-01T12:00:01Z two lines \uFFFD and ä") || len([]rune(last)) > 600 {
		t.Errorf("%d, %q", n, last)
	}
	for range 500 { // beyond the size at which the log is begun anew, twice
		d.Complain(noon, strings.Repeat("x", 400))
	}
	var bytes int64
	for _, name := range []string{logName, oldName} {
		info, err := os.Stat(filepath.Join(string(d), name))
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	if n, _ := d.Complaints(); bytes > 2*(maxLog+1000) || n < 100 || n > 400 {
		t.Errorf("%d bytes, %d complaints", bytes, n)
	}
	Dir(filepath.Join(string(d), "none")).Complain(noon, "nobody hears it")
	t.Chdir(t.TempDir())
	Dir("").Complain(noon, "nobody hears it")
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
