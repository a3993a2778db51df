package crash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/ledger"
)

// Most memory in bytes, whatever the amount of garbage: emit has at most 64
// messages of at most 2 MiB under way, and up holds them in broker, client
// library and queue. A quarter of the garbage are such messages one after
// another, so that 1 GiB fills every one of these places. Measured at 64 MiB
// of garbage: 69 and 128 MiB; at 1 GiB: 90 and 178 MiB.
const (
	emitMost = 320 << 20
	upMost   = 640 << 20
)

// TestGarbageLeavesMemoryFlat sends garbage of every kind through emit: each
// line is answered and accounted for in the ledger, the logger goes on, and
// neither process grows with the amount.
func TestGarbageLeavesMemoryFlat(t *testing.T) {
	t.Parallel()
	size := int64(envInt(t, "ASSAY_GARBAGE_MB", 64)) << 20
	h := newHouse(t)
	up := h.supervise("up", []string{assay, "--dir", string(h.dir), "up", "--port", strconv.Itoa(h.port)})
	h.awaitServed("assay")

	g := &garbage{rng: rand.New(rand.NewPCG(1, 2)), event: mustTemplate(t, "claim.recorded"), left: size, burst: size / 4}
	began := time.Now()
	emit := h.emitGarbage(g)
	took := time.Since(began)
	if emit.answers != g.lines || emit.refused != g.lines || emit.unsent != g.tooLong {
		t.Errorf("%d answers, %d refused, %d not sent; want %d for as many lines, %d of them too long", emit.answers, emit.refused, emit.unsent, g.lines, g.tooLong)
	}
	if emit.lost > 0 {
		t.Errorf("%d lines got no receipt: %s", emit.lost, emit.lastLost)
	}
	// The service goes on as if nothing had been.
	if r := h.run(string(mustTemplate(t, "gate.chosen").next().raw)+"\n", "emit"); r.code != 0 {
		t.Errorf("an event after the garbage: exit %d\n%s%s", r.code, r.out, r.err)
	}
	upPeak := peakRSS(up.pid())
	if emit.peak > emitMost || upPeak > upMost {
		t.Errorf("peak memory: emit %d MiB, up %d MiB; at most %d and %d", emit.peak>>20, upPeak>>20, emitMost>>20, upMost>>20)
	}
	if up.starts != 1 {
		t.Errorf("up was started %d times", up.starts)
	}
	up.stop()
	h.must("verify")
	if counted := h.countRejected("agent/piper"); counted != g.lines-g.tooLong {
		t.Errorf("the ledger counts %d rejections, %d lines were sent", counted, g.lines-g.tooLong)
	}
	t.Logf("%d MiB in %d lines (%d too long to send) took %.1fs; peak memory: emit %d MiB, up %d MiB",
		size>>20, g.lines, g.tooLong, took.Seconds(), emit.peak>>20, upPeak>>20)
}

// emission is what emit said about its input.
type emission struct {
	answers, refused, unsent, lost int
	lastLost                       string
	peak                           int64
}

func (h *house) emitGarbage(g *garbage) (e emission) {
	t := h.t
	t.Helper()
	cmd := exec.Command(assay, "--dir", string(h.dir), "--json", "emit")
	// Not tied to a thread's life, like the services: this test's goroutine may
	// be on any thread. Its input ends with this process, and it with that.
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = g, &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if e.answers%1000 == 0 {
			e.peak = max(e.peak, peakRSS(cmd.Process.Pid))
		}
		e.answers++
		var a struct {
			Line int `json:"line"`
			publish.Answer
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if a.Line != e.answers {
			t.Fatalf("answer %d is of line %d", e.answers, a.Line)
		}
		if a.Refusal == nil {
			continue
		}
		e.refused++
		switch {
		case a.Refusal.Code == "no_receipt":
			e.lost++
			e.lastLost = a.Refusal.Message
		case strings.Contains(a.Refusal.Message, "was not sent"):
			e.unsent++
		}
	}
	// At its end the process still has the peak, unless it is gone already.
	e.peak = max(e.peak, peakRSS(cmd.Process.Pid))
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("emit of garbage: %v\n%s", err, errs.String())
	}
	return e
}

var vmHWM = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakRSS is the most memory in bytes that the process ever had resident; 0
// when it has ended.
func peakRSS(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	m := vmHWM.FindSubmatch(raw)
	if m == nil {
		return 0
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}

// countRejected adds up the rejections of a principal in a ledger at rest.
func (h *house) countRejected(who string) (n int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := node.OpenEvidence(ctx, node.EvidenceConfig{Dir: h.dir, Scratch: h.t.TempDir()})
	if err != nil {
		h.t.Fatal(err)
	}
	defer e.Close()
	head, err := e.Head(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	err = e.Read(ctx, 1, head, func(_ ledger.Seq, body []byte) error {
		r, err := ledger.ParseRecord(body)
		if err != nil {
			return err
		}
		ev, err := events.Decode(r.Event)
		if err != nil {
			return err
		}
		if rej, ok := ev.Data.(*events.IntakeRejected); ok && rej.Principal == who {
			n += int(rej.Count)
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// garbage is an input of lines of which none is an event.
type garbage struct {
	rng   *rand.Rand
	event template
	left  int64 // bytes still to come
	burst int64 // of which so many, first, are lines as long as a message may be

	lines, tooLong int
	rest           []byte
}

// Read implements io.Reader.
func (g *garbage) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		if g.left <= 0 {
			return 0, io.EOF
		}
		line := g.line()
		if len(line) > publish.MaxMessage {
			g.tooLong++
		}
		g.lines++
		g.left -= int64(len(line)) + 1
		g.rest = append(line, '\n')
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// line makes the next line; it is never blank.
func (g *garbage) line() []byte {
	if g.burst > 0 {
		g.burst -= publish.MaxMessage
		return g.noise(publish.MaxMessage)
	}
	raw := g.event.next().raw
	switch n := g.rng.IntN(10_000); {
	case n < 2: // longer than a message may be
		return g.noise(publish.MaxMessage + 1 + g.rng.IntN(4<<20))
	case n < 12:
		return g.noise(100_000 + g.rng.IntN(1_000_000))
	case n < 500:
		return bytes.Repeat([]byte{0}, 1+g.rng.IntN(4096))
	case n < 1500: // cut off
		return raw[:1+g.rng.IntN(len(raw)-1)]
	case n < 2000: // one byte is another
		raw[g.rng.IntN(len(raw))] = 0xff
		return raw
	case n < 2500:
		return append(raw, raw...)
	case n < 2600:
		return append(bytes.Repeat([]byte{'['}, 5000), bytes.Repeat([]byte{']'}, 5000)...)
	case n < 2700:
		return append(append(bytes.Repeat([]byte(`{"a":`), 3000), '1'), bytes.Repeat([]byte{'}'}, 3000)...)
	case n < 3000: // an array is no event, whatever is in it
		return append(append([]byte{'['}, raw...), ']')
	case n < 3500:
		return []byte(strings.Replace(string(raw), `"data":{`, `"data":{"context":1,"context":2,`, 1))
	case n < 4000:
		return []byte(strings.Replace(string(raw), "claim.recorded", "prediction.resolved", 2))
	case n < 4500:
		return []byte("\x1b]0;owned\a\x1b[2J" + strings.Repeat("\u202e", 1+g.rng.IntN(50)))
	case n < 5000:
		return []byte(`{"id":` + strings.Repeat("9", 1+g.rng.IntN(2000)) + `}`)
	}
	return g.noise(8 + g.rng.IntN(1024))
}

// noise is random bytes without a newline.
func (g *garbage) noise(n int) []byte {
	out := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		v := g.rng.Uint64()
		for j := range 8 {
			out[i+j] = byte(v >> (8 * j))
		}
	}
	out = out[:n]
	for i, b := range out {
		if b == '\n' || b == '\r' {
			out[i] = '\v'
		}
	}
	out[0] = 'x' // not blank
	return out
}
