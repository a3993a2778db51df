package logger

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"assay/events"
	"assay/internal/principal"
)

// SubjectPrefix goes before <role>.<name> in an intake subject.
const SubjectPrefix = "intake."

// serverHeader is what the broker itself puts on a request that crosses
// accounts, over anything that the client wrote there.
const serverHeader = "Nats-Request-Info"

const (
	pendingMessages = 1 << 16
	pendingBytes    = 64 << 20
)

// Connect opens one connection of the logger's intake user.
type Connect func(opts ...nats.Option) (*nats.Conn, error)

// Intake is the logger's side of the intake subjects: one connection and one
// bounded queue for each principal, since with a shared subscription a flood
// starves everyone. The subscription, not the message, names the principal.
type Intake struct {
	l       *Logger
	connect Connect

	mu    sync.Mutex
	lines map[string]*line
	done  chan struct{}
}

// line is one principal's connection.
type line struct {
	principal principal.Principal
	source    *Source
	nc        *nats.Conn
	sub       *nats.Subscription
	dropped   int
}

// Listen subscribes for each principal that is not revoked. It is the last
// step of a start.
func (l *Logger) Listen(connect Connect, principals []principal.Principal) (*Intake, error) {
	in := &Intake{l: l, connect: connect, lines: map[string]*line{}, done: make(chan struct{})}
	if err := in.Update(principals); err != nil {
		in.Close()
		return nil, err
	}
	go in.watchDrops()
	return in, nil
}

// Update brings the subscriptions in line with a changed principals file.
func (in *Intake) Update(principals []principal.Principal) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	wanted := map[string]principal.Principal{}
	for _, p := range principals {
		if !p.Revoked() {
			wanted[p.ID()] = p
		}
	}
	for id, ln := range in.lines {
		if wanted[id] != ln.principal {
			ln.close()
			delete(in.lines, id)
		}
	}
	for id, p := range wanted {
		if in.lines[id] != nil {
			continue
		}
		ln, err := in.open(p)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", id, err)
		}
		in.lines[id] = ln
	}
	return nil
}

func (in *Intake) open(p principal.Principal) (*line, error) {
	nc, err := in.connect(nats.Name("intake " + p.ID()))
	if err != nil {
		return nil, err
	}
	ln := &line{principal: p, source: in.l.AddSource(p), nc: nc}
	ln.sub, err = nc.Subscribe(SubjectPrefix+p.User(), ln.receive)
	if err == nil {
		err = ln.sub.SetPendingLimits(pendingMessages, pendingBytes)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		ln.close()
		return nil, err
	}
	return ln, nil
}

func (ln *line) receive(m *nats.Msg) {
	var reply func([]byte)
	if m.Reply != "" {
		reply = func(body []byte) {
			// A receipt that cannot be sent is a receipt that was lost on the
			// way: the client asks again with the same id.
			_ = ln.nc.Publish(m.Reply, body)
		}
	}
	for name := range m.Header {
		if name == serverHeader {
			continue
		}
		if strings.HasPrefix(strings.ToLower(name), "nats-") || strings.EqualFold(name, "traceparent") {
			ln.source.RefuseHeader(m.Data, name, reply)
			return
		}
	}
	if events.IsBinary(m.Header) {
		ln.source.SubmitBinary(m.Header, m.Data, reply)
		return
	}
	ln.source.Submit(m.Data, reply)
}

func (ln *line) close() {
	ln.source.Close()
	if ln.sub != nil {
		ln.countDrops()
	}
	_ = ln.nc.FlushTimeout(time.Second) // receipts on their way; a lost one is asked for again
	ln.nc.Close()
}

// watchDrops counts what the client library dropped because the queue was full.
func (in *Intake) watchDrops() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-in.done:
			return
		case <-t.C:
		}
		in.mu.Lock()
		for _, ln := range in.lines {
			ln.countDrops()
		}
		in.mu.Unlock()
	}
}

func (ln *line) countDrops() {
	if n, err := ln.sub.Dropped(); err == nil && n > ln.dropped {
		ln.source.CountDropped(int64(n - ln.dropped))
		ln.dropped = n
	}
}

// Close ends every subscription.
func (in *Intake) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	select {
	case <-in.done:
		return
	default:
	}
	close(in.done)
	for id, ln := range in.lines {
		ln.close()
		delete(in.lines, id)
	}
}
