package node

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// TestAServiceEndsWhileItIsAsked: it is as one that is not there, unless it was told to
// do something.
func TestAServiceEndsWhileItIsAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		method, answer string
		want           bool
	}{
		"before the answer": {"GET", "", true},
		"within the answer": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{", true},
		"told to do it":     {"POST", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := Dir(t.TempDir())
			path := filepath.Join(string(dir), "run", "assay.sock")
			ln, err := ListenUnix(path)
			check(t, err)
			defer ln.Close()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go hangUp(c, tt.answer)
				}
			}()
			var out struct{}
			err = Ask(t.Context(), path, tt.method, "/status", nil, &out)
			if err == nil || errors.Is(err, ErrNotServed) != tt.want {
				t.Errorf("%v", err)
			}
			if all, err := AskServices(t.Context(), dir); err != nil || len(all) != 0 {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}

// hangUp reads a request, answers and closes.
func hangUp(c net.Conn, answer string) {
	defer c.Close()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.WriteString(c, answer)
	}
}
