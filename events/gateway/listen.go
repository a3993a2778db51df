package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// peerListener asks the kernel who connects and bounds how many connections
// each uid has. It takes more from nobody: what is over is closed at once.
type peerListener struct {
	*net.UnixListener
	// over is told of a connection that was closed for being one too many.
	over func()

	mu    sync.Mutex
	max   int // of one uid
	conns map[uint32]int
}

// conn is a connection that is counted until it is closed.
type conn struct {
	net.Conn
	uid     uint32 // of the other side, on the Unix socket
	release func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

// CloseWrite lets a client that is still sending read its refusal first.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Accept implements net.Listener.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err != nil { // gone already, or not to be told: nobody is served unknown
			c.Close()
			continue
		}
		if !l.admit(uid) {
			l.over()
			refuseConn(c)
			continue
		}
		return &conn{Conn: c, uid: uid, release: sync.OnceFunc(func() { l.leave(uid) })}, nil
	}
}

func (l *peerListener) admit(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[uid] >= l.max {
		return false
	}
	l.conns[uid]++
	return true
}

// allow is how many connections each uid may open from now on.
func (l *peerListener) allow(max int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = max
}

func (l *peerListener) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[uid]--; l.conns[uid] == 0 {
		delete(l.conns, uid)
	}
}

func (l *peerListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.conns {
		n += c
	}
	return n
}

// peerUID is SO_PEERCRED: the effective uid when the other side connected.
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, cerr); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// refuseConn tells a client that it has too many connections, if that needs no
// waiting.
func refuseConn(c net.Conn) {
	const body = `{"error":{"code":"too_many_connections","pointer":"","message":"close some of your connections first","retry_after":1}}` + "\n"
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	c.Close()
}

// capListener bounds the connections of a listener whose callers are known only
// once they speak.
type capListener struct {
	net.Listener
	slots chan struct{}
	over  func()
}

// Accept implements net.Listener.
func (l *capListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &conn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			l.over()
			refuseConn(c)
		}
	}
}

// listenUnix listens at path. A socket file that nobody answers on is left over
// from a crash and replaced.
func listenUnix(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: another service answers there", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		_ = os.Remove(path)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
