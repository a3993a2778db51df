package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// What a principal may send over all its connections together, in bytes a
// second. A line costs lineCost more, since a message of a few bytes takes the
// broker and the logger as long as one of some hundred. It is eight thousand
// single events a second, or fifty thousand in batches, which is all that a
// logger takes.
const (
	doorRate  = 32 << 20
	doorBurst = 4 << 20
	lineCost  = 2 << 10
	doorChunk = 64 << 10
	// doorBuffer is what may wait in a socket on this side. A client whose pings
	// waited behind megabytes would take the broker for dead.
	doorBuffer = 128 << 10
	// maxHello is the most that a client may say before its CONNECT is complete.
	maxHello = 8 << 10
)

// door is where the clients of other processes come in. The server has no limit
// of its own for what a client publishes, and one that floods would take the
// processor from all the others; behind the door it waits in its own socket.
//
// A client is known by the key that it names in its CONNECT. The server holds
// it to that key, so that nobody passes for another, or for a service, for longer
// than a signature takes to check.
type door struct {
	ln    net.Listener
	enter func() (net.Conn, error) // a new connection of the server's

	ctx   context.Context
	close context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]net.Conn    // client to server
	free     map[string]bool          // keys without limit
	limiters map[string]*rate.Limiter // by key
	stranger *rate.Limiter            // of everyone else together
}

// openDoor listens at a host's port, or at any with port 0.
func openDoor(host string, port int, enter func() (net.Conn, error)) (*door, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	d := &door{ln: ln, enter: enter, conns: map[net.Conn]net.Conn{}, stranger: newLimiter()}
	d.ctx, d.close = context.WithCancel(context.Background())
	d.wg.Go(d.accept)
	return d, nil
}

func newLimiter() *rate.Limiter { return rate.NewLimiter(doorRate, doorBurst) }

// know takes the users that the server lets in: principals have a limit, and
// assay's own services none.
func (d *door) know(users []*server.NkeyUser) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.limiters
	d.free, d.limiters = map[string]bool{}, map[string]*rate.Limiter{}
	for _, u := range users {
		if _, ok := PrincipalOf(u.Account.GetName()); !ok {
			d.free[u.Nkey] = true
		} else if d.limiters[u.Nkey] = before[u.Nkey]; before[u.Nkey] == nil {
			d.limiters[u.Nkey] = newLimiter()
		}
	}
}

// limiter is nil for a key without limit.
func (d *door) limiter(key string) *rate.Limiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch l := d.limiters[key]; {
	case d.free[key]:
		return nil
	case l != nil:
		return l
	}
	return d.stranger
}

func (d *door) port() int { return d.ln.Addr().(*net.TCPAddr).Port }

func (d *door) accept() {
	for {
		c, err := d.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-d.ctx.Done():
				return
			case <-time.After(acceptPause): // out of file descriptors, as a rule
			}
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(doorBuffer) // a larger one costs the client time, and nobody else
		}
		d.wg.Go(func() { d.serve(c) })
	}
}

// acceptPause is how long the door waits after a connection it could not take.
const acceptPause = 50 * time.Millisecond

// serve passes a client's bytes on in both directions until either side ends.
func (d *door) serve(c net.Conn) {
	up, err := d.enter()
	if err != nil {
		c.Close()
		return
	}
	if !d.admit(c, up) {
		return
	}
	defer d.leave(c, up)
	d.wg.Go(func() {
		_, _ = io.CopyBuffer(onlyWriter{c}, up, make([]byte, doorChunk))
		c.Close()
		up.Close()
	})
	d.pass(c, up)
}

// onlyWriter hides ReadFrom, which would take the buffer's place.
type onlyWriter struct{ io.Writer }

// admit registers the two ends, which Close closes.
func (d *door) admit(c, up net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		c.Close()
		up.Close()
		return false
	}
	d.conns[c] = up
	return true
}

func (d *door) leave(c, up net.Conn) {
	c.Close()
	up.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// pass passes on what the client sends, no faster than its principal may.
func (d *door) pass(c, up net.Conn) {
	buf := make([]byte, doorChunk)
	var hello []byte
	limit, known := d.stranger, false
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if !known {
				hello = append(hello, buf[:n]...)
				var key string
				if key, known = clientKey(hello); known {
					limit, hello = d.limiter(key), nil
				}
			}
			if limit != nil && limit.WaitN(d.ctx, min(cost(buf[:n]), limit.Burst())) != nil {
				return
			}
			if _, err := up.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func cost(sent []byte) int { return len(sent) + lineCost*bytes.Count(sent, []byte{'\n'}) }

// clientKey is the public key that a client names in its CONNECT, "" for none;
// known is false while more of the line may come.
func clientKey(hello []byte) (key string, known bool) {
	line, _, complete := bytes.Cut(hello, []byte{'\n'})
	if !complete {
		return "", len(hello) > maxHello
	}
	const verb = "CONNECT "
	if len(line) < len(verb) || !bytes.EqualFold(line[:len(verb)], []byte(verb)) {
		return "", true
	}
	var connect struct {
		Nkey string `json:"nkey"`
	}
	// By the library that the server reads it with, which takes a member in any
	// case and the last of several: a stricter one would read another key.
	if json.Unmarshal(bytes.TrimSpace(line[len(verb):]), &connect) != nil {
		return "", true
	}
	return connect.Nkey, true
}

// url is the address for clients.
func (d *door) url() string { return "nats://" + d.ln.Addr().String() }

// Close ends every connection and waits for it.
func (d *door) Close() error {
	if d == nil {
		return nil
	}
	d.close()
	err := d.ln.Close()
	d.mu.Lock()
	for c, up := range d.conns {
		c.Close()
		up.Close() // whose server may have stopped reading
	}
	d.mu.Unlock()
	d.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // a second call
	}
	return err
}
