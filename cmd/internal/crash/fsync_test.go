package crash

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"assay/events/publish"
)

// TestFsyncBeforeReply traces the system calls of the broker, through which
// every receipt goes, and shows for each event that the block file which holds
// its record was fsynced after the record was written and before the receipt
// left. Kill -9 cannot show this: the page cache outlives the process.
func TestFsyncBeforeReply(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: that the broker fsyncs before it replies is not shown")
	}
	t.Parallel()
	h := newHouse(t)
	trace := filepath.Join(t.TempDir(), "trace")
	// -D makes the broker, not strace, the supervisor's child.
	b := h.supervise("broker", []string{
		strace, "-D", "-f", "-ttt", "-y", "-s", "200000", "-o", trace, "-e", "trace=" + tracedCalls,
		assay, "--dir", string(h.dir), "serve", "broker", "--port", strconv.Itoa(h.port),
	})
	h.awaitServed("broker")
	l := h.serve("logger")
	h.awaitServed("logger")

	acked := publishTraced(t, h)
	l.stop()
	b.stop()
	var raw []byte
	h.await("the end of the trace", func() bool {
		raw, err = os.ReadFile(trace)
		return err == nil && bytes.Contains(raw, []byte("+++ exited with 0 +++"))
	})
	calls, err := parseTrace(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for id, leaves := range acked {
		if err := checkFsyncBeforeReply(calls, id, leaves...); err != nil {
			t.Errorf("event %s: %v", id, err)
		}
	}
	t.Logf("%d receipts, %d system calls", len(acked), len(calls))
}

// publishTraced publishes events one at a time, and then a batch. It returns
// the leaves of the reply that acked each event.
func publishTraced(t *testing.T, h *house) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := publish.New(h.connect("agent.piper"), "agent/piper")
	gate := mustTemplate(t, "gate.chosen")
	acked := map[string][]string{}
	for range 20 {
		e := gate.next()
		r, err := client.Publish(ctx, e.raw)
		if err != nil {
			t.Fatal(err)
		}
		acked[e.id] = []string{r.Leaf}
		time.Sleep(time.Millisecond) // so that appends do not share their fsync
	}
	var raws [][]byte
	var ids []string
	for range 60 {
		e := gate.next()
		ids, raws = append(ids, e.id), append(raws, e.raw)
	}
	answers, err := client.PublishBatch(ctx, raws)
	if err != nil {
		t.Fatal(err)
	}
	var leaves []string
	for _, a := range answers {
		leaves = append(leaves, a.Leaf)
	}
	for _, id := range ids {
		acked[id] = leaves
	}
	return acked
}

// A checker that always says yes would pass the test above.
func TestFsyncChecker(t *testing.T) {
	const (
		id, leaf = "0197-id", "00ff"
		blk      = `/d/broker/jetstream/STORE/streams/LEDGER/msgs/1.blk`
		write    = `7 1.0 pwrite64(9<` + blk + `>, "\1\2{\"id\":\"0197-id\"}", 20, 0) = 20`
		sync     = `7 1.1 fsync(9<` + blk + `>) = 0`
		reply    = `8 1.2 write(5<socket:[77]>, "MSG x {\"seq\":3,\"leaf\":\"00ff\"}", 30) = 30`
	)
	for _, c := range []struct {
		name  string
		lines []string
		want  error
	}{
		{"fsync between", []string{write, sync, reply}, nil},
		{"fdatasync between", []string{write, `7 1.1 fdatasync(9<` + blk + `>) = 0`, reply}, nil},
		{"none", []string{write, reply}, errNoFsync},
		{"after the reply", []string{write, reply, sync}, errNoFsync},
		{"before the write", []string{sync, write, reply}, errNoFsync},
		{"of another file", []string{write, `7 1.1 fsync(9</d/broker/jetstream/STORE/streams/LEDGER/msgs/2.blk>) = 0`, reply}, errNoFsync},
		{"failed", []string{write, `7 1.1 fsync(9<` + blk + `>) = -1 EIO (Input/output error)`, reply}, errNoFsync},
		{"returns before the reply begins", []string{
			write, `7 1.1 fsync(9<` + blk + `> <unfinished ...>`, `7 1.15 <... fsync resumed>) = 0`, reply,
		}, nil},
		{"still runs when the reply begins", []string{
			write, `7 1.1 fsync(9<` + blk + `> <unfinished ...>`, reply, `7 1.3 <... fsync resumed>) = 0`,
		}, errNoFsync},
		{"begins before the write has ended", []string{
			`6 1.0 pwrite64(9<` + blk + `>, "\"0197-id\"", 20, 0 <unfinished ...>`, `7 1.1 fsync(9<` + blk + `> <unfinished ...>`,
			`6 1.2 <... pwrite64 resumed>) = 20`, `7 1.3 <... fsync resumed>) = 0`, reply,
		}, errNoFsync},
		{"opened with O_SYNC", []string{
			`6 0.5 openat(AT_FDCWD</d>, "` + blk + `", O_RDWR|O_CREAT|O_SYNC|O_CLOEXEC, 0600) = 9<` + blk + `>`, write, reply,
		}, nil},
		{"opened without O_SYNC", []string{
			`6 0.5 openat(AT_FDCWD</d>, "` + blk + `", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 9<` + blk + `>`, write, reply,
		}, errNoFsync},
		{"reply before the write", []string{reply, write, sync}, errNoFsync},
		{"never written", []string{sync, reply}, errNoWrite},
		{"never replied", []string{write, sync}, errNoReply},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text bytes.Buffer
			for _, line := range c.lines {
				text.WriteString(line + "\n")
			}
			calls, err := parseTrace(&text)
			if err != nil {
				t.Fatal(err)
			}
			if got := checkFsyncBeforeReply(calls, id, leaf); !errors.Is(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
