package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// What a principal may send over all its connections together, at all brokers of
// a ledger together, in bytes a second. A line costs lineCost more, since a
// message of a few bytes takes the broker and the logger as long as one of some
// hundred. It is eight thousand single events a second, or fifty thousand in
// batches, which is all that a logger takes.
const (
	doorRate  = 32 << 20
	doorBurst = 4 << 20
	lineCost  = 2 << 10
	doorChunk = 64 << 10
	// doorBuffer is what may wait in a socket on this side. A client whose pings
	// waited behind megabytes would take the broker for dead.
	doorBuffer = 128 << 10
	// doorPatience is how long a client may leave what the server says unread. The
	// server gives a slow consumer up after half of it, and says so.
	doorPatience = 2 * server.DEFAULT_FLUSH_DEADLINE
	// maxHello is the most that a client may say before its CONNECT is complete.
	maxHello = 8 << 10
)

// door is where the clients of other processes come in, of a broker that is alone
// as of each one of a cluster. The server has no limit of its own for what a
// client publishes, and one that floods would take the processor from all the
// others; behind the door it waits in its own socket.
//
// A client is known by the key that it names in its CONNECT. The server holds
// it to that key, so that nobody passes for another, or for a service, for longer
// than a signature takes to check.
type door struct {
	ln    net.Listener
	enter func() (net.Conn, error) // a new connection of the server's
	// patience is doorPatience, but for tests.
	patience time.Duration
	doors    int // of the ledger, this one included: each lets in its part

	ctx   context.Context
	close context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.Mutex
	visits   map[*visit]bool
	accounts map[string]string        // by the key of a user that the server lets in
	limiters map[string]*rate.Limiter // by key; those who have none have no limit
	stranger *rate.Limiter            // of everyone else together
	// keys are what the clients that are here named, and the last that left: the
	// server may speak of one that read its refusal and went.
	keys map[uint64]string // by the server's number for a client
	left [lastLeft]uint64
	next int // in left
}

// lastLeft is how many clients that left are remembered.
const lastLeft = 1024

// visit is one client's connection.
type visit struct {
	client, server net.Conn
	id             atomic.Uint64 // the server's number for it, 0 until it greeted
}

func (v *visit) end() {
	v.client.Close()
	v.server.Close() // which may have stopped reading
}

// openDoor listens at a host's port, or at any with port 0, for users of a server.
// It is one of as many doors to the ledger as there are brokers.
func openDoor(host string, port, doors int, users []*server.NkeyUser, enter func() (net.Conn, error)) (*door, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	d := &door{ln: ln, enter: enter, patience: doorPatience, doors: doors, visits: map[*visit]bool{}, keys: map[uint64]string{}}
	d.stranger = d.newLimiter()
	d.know(users)
	d.ctx, d.close = context.WithCancel(context.Background())
	d.wg.Go(d.accept)
	return d, nil
}

func (d *door) newLimiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(doorRate)/rate.Limit(d.doors), doorBurst/d.doors)
}

// know takes the users that the server lets in: principals have a limit, and
// assay's own services none.
func (d *door) know(users []*server.NkeyUser) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.limiters
	d.accounts, d.limiters = map[string]string{}, map[string]*rate.Limiter{}
	for _, u := range users {
		account := u.Account.GetName()
		d.accounts[u.Nkey] = account
		if _, ok := PrincipalOf(account); !ok {
			continue
		}
		if d.limiters[u.Nkey] = before[u.Nkey]; before[u.Nkey] == nil {
			d.limiters[u.Nkey] = d.newLimiter()
		}
	}
}

// limiter is nil for a key without limit.
func (d *door) limiter(key string) *rate.Limiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.accounts[key]; !known {
		return d.stranger
	}
	return d.limiters[key]
}

// name notes which key a client named.
func (d *door) name(v *visit, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys[v.id.Load()] = key
}

// accountOf is the account whose key the client named that the server knows by
// that number; "" for none.
func (d *door) accountOf(id uint64) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.accounts[d.keys[id]]
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
	v := &visit{client: c, server: up}
	if !d.admit(v) {
		return
	}
	defer d.leave(v)
	d.wg.Go(func() {
		d.down(v)
		v.end()
	})
	d.up(v)
}

// admit registers a visit, which Close ends.
func (d *door) admit(v *visit) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		v.end()
		return false
	}
	d.visits[v] = true
	return true
}

func (d *door) leave(v *visit) {
	v.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.visits, v)
	delete(d.keys, d.left[d.next])
	d.left[d.next] = v.id.Load()
	d.next = (d.next + 1) % lastLeft
}

// down passes on what the server says, and notes the number that its greeting
// gives the client. Nobody can sign before having read the greeting.
func (d *door) down(v *visit) {
	buf := make([]byte, doorChunk)
	n, err := v.server.Read(buf) // all of it: the server writes it at once
	v.id.Store(clientID(buf[:n]))
	for err == nil {
		if err = v.client.SetWriteDeadline(time.Now().Add(d.patience)); err != nil {
			return
		}
		if _, err = v.client.Write(buf[:n]); err == nil {
			n, err = v.server.Read(buf)
		}
	}
}

// up passes on what the client sends, no faster than its principal may.
func (d *door) up(v *visit) {
	buf := make([]byte, doorChunk)
	var hello []byte
	limit, known := d.stranger, false
	for {
		n, err := v.client.Read(buf)
		if n > 0 {
			if !known {
				hello = append(hello, buf[:n]...)
				var key string
				if key, known = clientKey(hello); known {
					limit, hello = d.limiter(key), nil
					d.name(v, key)
				}
			}
			if limit != nil && d.wait(limit, cost(buf[:n])) != nil {
				return
			}
			if _, err := v.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits until a limit allows what costs so much, which may be more than it
// allows at once.
func (d *door) wait(limit *rate.Limiter, cost int) error {
	for cost > 0 {
		part := min(cost, limit.Burst())
		if err := limit.WaitN(d.ctx, part); err != nil {
			return err
		}
		cost -= part
	}
	return nil
}

func cost(sent []byte) int { return len(sent) + lineCost*bytes.Count(sent, []byte{'\n'}) }

// clientID is the number that a server's greeting gives the client, 0 for none.
func clientID(greeting []byte) uint64 {
	var info struct {
		ID uint64 `json:"client_id"`
	}
	if json.Unmarshal(bytes.TrimPrefix(greeting, []byte("INFO ")), &info) != nil {
		return 0
	}
	return info.ID
}

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
	for v := range d.visits {
		v.end()
	}
	d.mu.Unlock()
	d.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // a second call
	}
	return err
}
