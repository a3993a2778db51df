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
	items, total, err := d.Waiting(most)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		texts = append(texts, string(i.Event))
	}
	return texts, total
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
	items, _, err := d.Waiting(1)
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

// TestOnlyFilesAreRead: a link leads nowhere, and a pipe keeps nobody waiting.
func TestOnlyFilesAreRead(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		d := Dir(t.TempDir())
		if err := make(filepath.Join(string(d), "0"+suffix)); err != nil {
			t.Fatal(err)
		}
		if items, _, err := d.Waiting(9); err == nil {
			t.Errorf("%s: %q", name, items)
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
}
