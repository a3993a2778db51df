// Package calc answers exact questions, one JSON object a line: what `assay calc`
// speaks on stdin or a socket. docs/calc.md describes the requests.
//
// An op is a line of the table ops. Its function gets the decoded request, checks
// it, and hands back a plan: what the answer costs, and how to work it out. So a
// request that is wrong or too large is refused before any work.
package calc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Code says what is wrong with a request.
type Code string

// The codes of an error.
const (
	BadJSON         Code = "bad_json"         // the line is no JSON: also after a repeated name, or bad UTF-8
	BadRequest      Code = "bad_request"      // Pointer says where
	UnsupportedOp   Code = "unsupported_op"   // there is no such op
	TooLarge        Code = "too_large"        // the line, a count or the cost is past its limit
	ZeroProbability Code = "zero_probability" // the condition cannot happen
	CyclicGraph     Code = "cyclic_graph"     // the arrows go round
)

// Error is the answer to a request that cannot be answered.
type Error struct {
	Code    Code   `json:"code"`
	Pointer string `json:"pointer"` // JSON Pointer (RFC 6901) into the request; "" is all of it
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s at %q: %s", e.Code, e.Pointer, e.Message) }

// Limits bound what one request may take.
type Limits struct {
	// Cost is the most that answering may cost, in elementary steps; docs/calc.md
	// says how each op counts them. A step takes a few nanoseconds.
	Cost float64
	// Line is the longest request, in bytes without its newline.
	Line int
}

// DefaultLimits let a request take some seconds and some hundred MiB.
var DefaultLimits = Limits{Cost: 1e9, Line: 16 << 20}

// plan is what an op makes of a request that is right: the cost of its answer, and
// the answer, a struct or an Error.
type plan struct {
	cost   float64
	answer func() (any, *Error)
}

// op reads a request. On a fault the plan is not used.
type op func(raw jsontext.Value) (plan, *Error)

// opOf is the op that decodes a request into R and hands it to prepare, which
// notes its faults on the checker.
func opOf[R any](prepare func(*R, *checker) plan) op {
	return func(raw jsontext.Value) (plan, *Error) {
		var r R
		if err := json.Unmarshal(raw, &r, json.WithUnmarshalers(noNull)); err != nil {
			return plan{}, decodeError(err)
		}
		var c checker
		p := prepare(&r, &c)
		return p, c.fault
	}
}

// Answer is the reply to one line, without newlines.
func Answer(line []byte, limits Limits) []byte {
	if len(line) > limits.Line {
		return refuse(nil, tooLong(limits))
	}
	var request struct {
		Op jsontext.Value `json:"op"`
		ID jsontext.Value `json:"id"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return refuse(nil, decodeError(err))
	}
	body, fault := answer(request.Op, line, limits)
	if fault != nil {
		return refuse(request.ID, fault)
	}
	return reply(request.ID, true, body)
}

func answer(name, raw jsontext.Value, limits Limits) (body []byte, fault *Error) {
	if name.Kind() != '"' {
		return nil, &Error{BadRequest, "/op", "want the name of an op"}
	}
	var text string
	if err := json.Unmarshal(name, &text); err != nil {
		return nil, decodeError(err)
	}
	read, ok := ops[text]
	if !ok {
		return nil, &Error{UnsupportedOp, "/op", "there is no such op"}
	}
	p, fault := read(raw)
	if fault != nil {
		return nil, fault
	}
	if p.cost > limits.Cost {
		return nil, &Error{TooLarge, "", fmt.Sprintf("the answer costs %.0f steps, the limit is %.0f", p.cost, limits.Cost)}
	}
	v, fault := p.answer()
	if fault != nil {
		return nil, fault
	}
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil { // the one value that the ops may make and JSON cannot hold
		return nil, &Error{BadRequest, "", "the answer is not a finite number"}
	}
	return body, nil
}

// refuse is the reply that holds an error.
func refuse(id jsontext.Value, e *Error) []byte {
	body, err := json.Marshal(struct {
		Error *Error `json:"error"`
	}{e}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // three strings
	}
	return reply(id, false, body)
}

// reply puts id and ok before the members of body.
func reply(id jsontext.Value, ok bool, body []byte) []byte {
	if len(id) == 0 {
		id = jsontext.Value("null")
	}
	out := fmt.Appendf(nil, `{"id":%s,"ok":%t`, id, ok)
	if len(body) > len("{}") {
		out = append(out, ',')
	}
	return append(out, body[1:]...)
}

func tooLong(limits Limits) *Error {
	return &Error{TooLarge, "", fmt.Sprintf("a request may have %d bytes", limits.Line)}
}

// Run answers each line of in on out, in order, each before the next is read. It
// ends with in.
func Run(in io.Reader, out io.Writer, limits Limits) error {
	return run(in, out, limits, func(work func()) { work() })
}

func run(in io.Reader, out io.Writer, limits Limits, do func(work func())) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := readLine(r, limits.Line)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil && len(line) == 0 && !long {
			return nil
		}
		answered := refuse(nil, tooLong(limits))
		if !long {
			do(func() { answered = Answer(line, limits) })
		}
		if _, werr := out.Write(append(answered, '\n')); werr != nil {
			return werr
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads up to the next newline or the end; a line of more than limit
// bytes is skipped, and long. err is io.EOF after the last line.
func readLine(r *bufio.Reader, limit int) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		more := errors.Is(err, bufio.ErrBufferFull)
		if err == nil {
			part = part[:len(part)-1]
		}
		if long = long || len(line)+len(part) > limit; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !more {
			return line, long, err
		}
	}
}

// acceptPause is how long Serve waits after a connection that it could not take.
const acceptPause = 50 * time.Millisecond

// Serve answers on every connection that ln accepts, as Run does, until ctx is
// done; then it closes them and ln. As many answers are worked out at a time as
// there are processors. A connection that could not be taken, as when there are no file
// descriptors left, ends nothing: the error is that of a listener that somebody closed.
func Serve(ctx context.Context, ln net.Listener, limits Limits) error {
	ctx, stop := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { ln.Close() })
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(acceptPause):
			}
			continue
		}
		wg.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			// A connection that breaks is its caller's loss alone.
			_ = run(conn, conn, limits, func(work func()) {
				free <- struct{}{}
				defer func() { <-free }()
				work()
			})
		})
	}
}
