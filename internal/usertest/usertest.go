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
	var conn net.Conn
	err := As(tb, uid, func() (err error) {
		conn, err = net.Dial("unix", socket)
		return err
	})
	return conn, err
}

// As runs what the system lets another user do. Only root can be another user: anyone
// else's test is skipped.
func As(tb testing.TB, uid int, do func() error) error {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("SKIPPED: not root: nothing is tried as another user")
	}
	done := make(chan error)
	go func() {
		// The raw calls change this thread alone, which ends with the goroutine because it
		// stays locked.
		runtime.LockOSThread()
		if err := become(uid); err != nil {
			done <- err
			return
		}
		err := do()
		// The main thread would not end, and so stay the other user's.
		done <- errors.Join(err, become(os.Getuid()))
	}()
	return <-done
}

// become makes the calling thread act as a user.
func become(uid int) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
		return errno
	}
	return nil
}
