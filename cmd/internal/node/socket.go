package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"assay/internal/durable"
	"assay/projector/metric"
	"assay/projector/report"
	"assay/projector/view"
)

// Socket serves HTTP with JSON on a Unix socket that only its owner may open,
// and the group of its directory where that is set-gid.
type Socket struct {
	srv  *http.Server
	path string
}

// ErrNotServed means that no running service answers on the socket.
var ErrNotServed = errors.New("no service is running on this directory")

// ListenSocket serves mux at path, as ListenUnix has it.
func ListenSocket(path string, mux *http.ServeMux) (*Socket, error) {
	path = durable.Target(path)
	ln, err := ListenUnix(path)
	if err != nil {
		return nil, err
	}
	s := &Socket{srv: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, path: path}
	go func() { _ = s.srv.Serve(ln) }()
	return s, nil
}

// ListenUnix opens a Unix socket for its owner, or for the directory's group where
// that is inherited. A socket file that nobody answers on is left over from a
// crash and replaced.
func ListenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o600)
	if dir.Mode()&fs.ModeSetgid != 0 {
		mode = 0o660 // Permissions made it so for those who may connect
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: another service answers there", path)
	}
	_ = os.Remove(path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// Close ends the service and removes the socket. On nil it does nothing.
func (s *Socket) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.srv.Shutdown(ctx)
}

// badRequest marks an error as the caller's.
type badRequest struct{ error }

// handle answers fn's result as JSON, or its error as {"error": text}: 400 for
// what cannot be asked, 404 for what is not there, 500 for everything else.
func handle(mux *http.ServeMux, pattern string, fn func(*http.Request) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := fn(r)
		status := http.StatusOK
		if err != nil {
			status = statusOf(err)
			v = map[string]string{"error": err.Error()}
		}
		body, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			status, body = http.StatusInternalServerError, []byte(`{"error":"encode answer"}`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n'))
	})
}

func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, view.ErrKind), errors.Is(err, metric.ErrNoMetric), errors.Is(err, report.ErrWeek):
		return http.StatusBadRequest
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrNoWeek):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// ErrNotFound is the answer of a service that does not know what was asked for.
var ErrNotFound = errors.New("not found")

// Ask sends a request to the service at a socket and decodes the answer into
// out; *[]byte takes it raw. ErrNotServed when nobody answers, as of one that ends
// meanwhile.
func Ask(ctx context.Context, socket, method, path string, query url.Values, out any) error {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://assay"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unserved(err, method, socket)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return unserved(err, method, socket)
	}
	if resp.StatusCode != http.StatusOK {
		return answeredError(resp.StatusCode, body)
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = bytes.TrimSpace(body)
		return nil
	}
	return json.Unmarshal(body, out)
}

// unserved makes ErrNotServed of what a caller sees of a service that is not there, or
// that ends before it has answered a question; of another request nobody knows then what
// it did.
func unserved(err error, method, socket string) error {
	op, ok := errors.AsType[*net.OpError](err)
	away := ok && op.Op == "dial"
	if method == http.MethodGet {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
			away = away || errors.Is(err, end)
		}
	}
	if away {
		return fmt.Errorf("%w (%s)", ErrNotServed, socket)
	}
	return err
}

func answeredError(status int, body []byte) error {
	var e struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Error == "" {
		e.Error = strings.TrimSpace(string(body))
	}
	if status == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, strings.TrimPrefix(e.Error, ErrNotFound.Error()+": "))
	}
	return &answered{status, e.Error}
}

// answered is a service's answer that is neither a result nor ErrNotFound.
type answered struct {
	status int
	text   string
}

func (a *answered) Error() string { return "the running service answered: " + a.text }

// userOf turns role/name into role.name.
func userOf(principal string) string { return strings.Replace(principal, "/", ".", 1) }
