package crash

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const tracedCalls = "openat,write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg,fsync,fdatasync"

// call is one system call. Begin and end are places in the trace: a call whose
// end is before another's begin returned before the other was made, since the
// traced thread waits for the tracer at both.
type call struct {
	name       string
	args       string
	file       string // what the first argument, or an openat's result, stands for
	fd         string
	ok         bool // it did not fail
	begin, end int
}

var (
	errNoWrite = errors.New("the record was never written to a block file of the ledger")
	errNoReply = errors.New("the receipt was never sent")
	errNoFsync = errors.New("no fsync of the record's block file ended between its write and the receipt")

	callStart  = regexp.MustCompile(`^(\d+) +[\d.]+ (\w+)\((.*)$`)
	callResume = regexp.MustCompile(`^(\d+) +[\d.]+ <\.\.\. (\w+) resumed>(.*)$`)
	fdArg      = regexp.MustCompile(`^(\d+)<([^>]*)>`)
	// betweenBuffers is what stands between two buffers of one writev.
	betweenBuffers = regexp.MustCompile(`", iov_len=\d+\}, \{iov_base="`)
	callResult     = regexp.MustCompile(`\) += (-?\d+)(?:<([^>]*)>)?[^"]*$`)
)

const unfinished = " <unfinished ...>"

// parseTrace reads the output of strace -f -ttt -y. A call that never returned
// has no end and is left out.
func parseTrace(r io.Reader) ([]*call, error) {
	var calls []*call
	under := map[string]*call{} // by thread
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return calls, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		line = strings.TrimRight(line, "\n")
		if m := callStart.FindStringSubmatch(line); m != nil {
			c := &call{name: m[2], args: m[3], begin: n}
			if cut, is := strings.CutSuffix(c.args, unfinished); is {
				c.args = cut
				under[m[1]] = c
				continue
			}
			c.finish(n)
			calls = append(calls, c)
		} else if m := callResume.FindStringSubmatch(line); m != nil && under[m[1]] != nil {
			c := under[m[1]]
			delete(under, m[1])
			c.args += m[3]
			c.finish(n)
			calls = append(calls, c)
		}
	}
}

// finish takes a whole call apart.
func (c *call) finish(end int) {
	c.end = end
	c.args = betweenBuffers.ReplaceAllString(c.args, "") // what writev sends is one text
	result := callResult.FindStringSubmatch(c.args)
	if result == nil {
		return
	}
	c.ok = !strings.HasPrefix(result[1], "-")
	if c.name == "openat" {
		c.fd, c.file = result[1], result[2]
	} else if m := fdArg.FindStringSubmatch(c.args); m != nil {
		c.fd, c.file = m[1], m[2]
	}
}

// checkFsyncBeforeReply holds the order that an ack promises against a trace:
// the record with the event's id is written to a block file of LEDGER, that
// file is synced, and only then is the reply with these leaves sent: that of a
// batch may go out in several writes, of which the first counts.
func checkFsyncBeforeReply(calls []*call, id string, leaves ...string) error {
	var wrote, replied *call
	for _, c := range calls {
		if !c.ok {
			continue
		}
		switch c.name {
		case "fsync", "fdatasync", "openat":
			continue
		}
		onDisk := strings.HasPrefix(c.file, "/")
		if onDisk && wrote == nil && strings.Contains(c.file, "/LEDGER/msgs/") && strings.HasSuffix(c.file, ".blk") && strings.Contains(c.args, id) {
			wrote = c
		}
		if !onDisk && (replied == nil || c.begin < replied.begin) && slices.ContainsFunc(leaves, func(leaf string) bool {
			return strings.Contains(c.args, `leaf\":\"`+leaf)
		}) {
			replied = c
		}
	}
	switch {
	case wrote == nil:
		return errNoWrite
	case replied == nil:
		return errNoReply
	}
	synced := false // by the way the file was opened
	for _, c := range calls {
		switch {
		case !c.ok || c.file != wrote.file:
		case c.name == "openat" && c.fd == wrote.fd && c.end < wrote.begin:
			synced = strings.Contains(c.args, "O_SYNC") || strings.Contains(c.args, "O_DSYNC")
		case (c.name == "fsync" || c.name == "fdatasync") && wrote.end < c.begin && c.end < replied.begin:
			return nil
		}
	}
	if synced && wrote.end < replied.begin {
		return nil
	}
	return fmt.Errorf("%w: written at line %d of the trace, sent at line %d", errNoFsync, wrote.end, replied.begin)
}
