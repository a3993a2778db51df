package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/internal/principal"
	"assay/schema"
)

type emitCmd struct {
	As       string        `help:"Publish as this principal." placeholder:"ROLE/NAME" default:"agent/piper"`
	DryRun   bool          `help:"Check and print the events; send nothing."`
	NATS     string        `name:"nats" help:"Publish to the broker at this address." placeholder:"URL"`
	CredsDir string        `help:"Directory with the credential of --as, for --nats." type:"path" placeholder:"DIR"`
	NKey     string        `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
	Timeout  time.Duration `help:"How long to ask for one receipt." default:"30s"`
}

// inFlight is how many events wait for their receipts at a time.
const inFlight = 64

// emitted is one line of emit's output.
type emitted struct {
	Line int `json:"line"`
	publish.Answer
	Event jsontext.Value `json:"event,omitzero"` // with --dry-run
}

func (c *emitCmd) Run(a *app) error {
	role, _, err := principal.ParseID(c.As)
	if err != nil {
		return err
	}
	maker := events.Maker{Source: "urn:assay:emit:" + c.As}
	send := func(raw []byte) func(context.Context) emitted {
		return func(context.Context) emitted { return c.check(role, raw) }
	}
	if !c.DryRun {
		client, done, err := c.dial(a)
		if err != nil {
			return err
		}
		defer done()
		send = func(raw []byte) func(context.Context) emitted {
			p := client.Send(raw)
			return func(ctx context.Context) emitted { return c.wait(ctx, p) }
		}
	}
	out := bufio.NewWriter(a.stdout)
	refused, err := pipeline(a.ctx, a.stdin, maker, send, func(e emitted) error {
		return a.printEmitted(out, e)
	})
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	if refused > 0 {
		return errDoesNotHold
	}
	return nil
}

// dial opens the connection of the principal.
func (c *emitCmd) dial(a *app) (*publish.Client, func(), error) {
	nc, err := c.conn(a)
	if err != nil {
		return nil, nil, err
	}
	return publish.New(nc, c.As), nc.Close, nil
}

func (c *emitCmd) conn(a *app) (*nats.Conn, error) {
	var hub *node.Hub
	switch {
	case c.NATS != "" && c.NKey == "" && c.CredsDir == "":
		hub = node.RemoteHub(c.NATS, a.dir.Creds())
	case c.NATS != "":
		hub = node.RemoteHub(c.NATS, c.CredsDir)
	default:
		if err := a.dir.Check(); err != nil {
			return nil, err
		}
		var err error
		if hub, err = node.LocalHub(a.dir); err != nil {
			return nil, err
		}
	}
	return c.connect(hub)
}

// publish sends one event and waits for its receipt.
func (c *emitCmd) publish(ctx context.Context, a *app, event []byte) (publish.Receipt, error) {
	client, done, err := c.dial(a)
	if err != nil {
		return publish.Receipt{}, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return client.Publish(ctx, event)
}

func (c *emitCmd) connect(hub *node.Hub) (*nats.Conn, error) {
	user := strings.Replace(c.As, "/", ".", 1)
	if c.NKey == "" {
		return hub.Connect(user)
	}
	seed, err := os.ReadFile(c.NKey)
	if err != nil {
		return nil, err
	}
	cred, err := principal.ParseCredential(user, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.NKey, err)
	}
	return hub.DialAs(cred, false)
}

// check is the dry run's stand-in for an answer.
func (c *emitCmd) check(role principal.Role, raw []byte) emitted {
	e := emitted{}
	checked, fault := schema.Check(raw)
	switch {
	case fault != nil:
		e.Refusal = &publish.Refusal{Code: string(fault.Code), Pointer: fault.Pointer, Message: fault.Message}
	case !schema.MayWrite(schema.Role(role), checked.Type, "sandbox") && !schema.MayWrite(schema.Role(role), checked.Type, "production"):
		e.Refusal = &publish.Refusal{Code: "forbidden_type", Pointer: "/type", Message: "a principal of role " + string(role) + " may not write " + checked.Type}
	default:
		e.Event = raw
	}
	return e
}

func (c *emitCmd) wait(ctx context.Context, p *publish.Pending) emitted {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	receipt, err := p.Wait(ctx)
	e := emitted{Answer: publish.Answer{Receipt: receipt}}
	var r *publish.Refusal
	switch {
	case errors.As(err, &r):
		e.Refusal = r
	case err != nil:
		e.Refusal = &publish.Refusal{Code: "no_receipt", Message: err.Error()}
	}
	return e
}

// pipeline sends each line, in order, and prints the answers in that order.
// send starts an event on its way and returns what waits for its answer.
// Memory is bounded by inFlight lines.
func pipeline(ctx context.Context, in io.Reader, maker events.Maker, send func([]byte) func(context.Context) emitted, print func(emitted) error) (refused int, err error) {
	type slot chan emitted
	slots := make(chan slot, inFlight)
	readErr := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(slots)
		var wg sync.WaitGroup
		defer wg.Wait()
		readErr <- eachEvent(in, func(n int, line []byte, tooLong bool) error {
			s := make(slot, 1)
			select {
			case slots <- s:
			case <-ctx.Done():
				return ctx.Err()
			}
			if tooLong {
				s <- emitted{Line: n, Answer: publish.Answer{Refusal: &publish.Refusal{
					Code: string(schema.CodeTooLarge), Message: fmt.Sprintf("a line of more than %d bytes was not sent", publish.MaxMessage),
				}}}
				return nil
			}
			raw, err := maker.Fill(line)
			if err != nil {
				raw = line // not an object: the ledger's refusal is the answer
			}
			wait := send(raw)
			wg.Go(func() {
				e := wait(ctx)
				e.Line = n
				s <- e
			})
			return nil
		})
	}()
	for s := range slots {
		e := <-s
		if e.Refusal != nil {
			refused++
		}
		if err == nil {
			if err = print(e); err != nil {
				stop()
			}
		}
	}
	return refused, errors.Join(err, <-readErr)
}

// eachEvent cuts the input into lines. An input whose first line is a lone {
// is one event printed over several lines. Empty lines are passed over.
func eachEvent(in io.Reader, fn func(n int, line []byte, tooLong bool) error) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 1 && string(bytes.TrimSpace(line)) == "{" && err == nil {
			rest, rerr := io.ReadAll(io.LimitReader(r, publish.MaxMessage))
			if rerr != nil {
				return rerr
			}
			whole := append(append(line, '\n'), rest...)
			if jsontext.Value(whole).IsValid() {
				return fn(1, whole, false)
			}
			if ferr := fn(1, line, false); ferr != nil {
				return ferr
			}
			r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), r), 64<<10)
			continue
		}
		if len(bytes.TrimSpace(line)) > 0 || tooLong {
			if ferr := fn(n, line, tooLong); ferr != nil {
				return ferr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads up to the next newline; a line longer than a message may be
// is skipped to its end.
func readLine(r *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
		}
		if len(line) > publish.MaxMessage+len("\r\n") {
			line, tooLong = nil, true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line = bytes.TrimRight(line, "\r\n")
		return line, tooLong || len(line) > publish.MaxMessage, err
	}
}

func (a *app) printEmitted(w io.Writer, e emitted) error {
	if a.json {
		body, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = w.Write(append(body, '\n'))
		return err
	}
	var err error
	switch {
	case e.Refusal != nil:
		_, err = fmt.Fprintf(w, "line %d refused: %s\n", e.Line, visible(e.Refusal.Error()))
	case e.Event != nil:
		_, err = fmt.Fprintf(w, "%s\n", visible(string(e.Event)))
	case e.Seq != nil:
		_, err = fmt.Fprintf(w, "%d %s %s\n", *e.Seq, e.Leaf, e.RecordedAt)
	default:
		_, err = fmt.Fprintf(w, "- %s %s\n", e.Leaf, e.RecordedAt)
	}
	return err
}
