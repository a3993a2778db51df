// Package usertest lets a test act as another user of the machine.
package usertest

import (
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// Dial connects to a Unix socket as uid. Only root can be another user: anyone
// else's test is skipped.
func Dial(tb testing.TB, socket string, uid int) (net.Conn, error) {
	tb.Helper()
	if uid == os.Getuid() {
		return net.Dial("unix", socket)
	}
	if os.Getuid() != 0 {
		tb.Skip("SKIPPED: not root: connections of another user are not tried")
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		// The raw call changes this thread alone, which ends with the goroutine
		// because it stays locked.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			done <- result{nil, errno}
			return
		}
		c, err := net.Dial("unix", socket)
		// The main thread would not end, and so stay the other user's.
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(os.Getuid()), ^uintptr(0)); errno != 0 {
			err = errors.Join(err, errno)
		}
		done <- result{c, err}
	}()
	r := <-done
	return r.conn, r.err
}
