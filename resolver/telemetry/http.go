package telemetry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"assay/resolver/criterion"
)

// transport adds the source's credentials to requests and bounds the answers.
type transport struct {
	source criterion.Source
	base   http.RoundTripper
}

func newTransport(src criterion.Source) (*transport, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	if src.CAFile != "" {
		pem, err := os.ReadFile(src.CAFile)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", src.Name, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("source %s: %s holds no certificate", src.Name, src.CAFile)
		}
		base.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &transport{src, base}, nil
}

// RoundTrip reads the secrets anew, so that they can be changed while it runs.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	switch {
	case t.source.TokenFile != "":
		token, err := secret(t.source.TokenFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	case t.source.User != "":
		password, err := secret(t.source.PasswordFile)
		if err != nil {
			return nil, err
		}
		req.SetBasicAuth(t.source.User, password)
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{resp.Body, MaxAnswer}
	return resp, nil
}

// secret is the file's text without the white space around it.
func secret(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(raw))
	if s == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return s, nil
}

// boundedBody fails with errTooLarge once left bytes were read and there are more.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: an answer of over %d bytes", errTooLarge, MaxAnswer)
	}
	return n, err
}

// maxRequests is how many requests a door works on at once.
const maxRequests = 4

// door guards the handler of a source that is sent to: POST alone, the token if
// one is configured, bodies of up to limit bytes, and few at a time. A browser
// is turned away: the pages of any site may make it send to loopback. Refusals
// are said by refuse, in the words of the source's protocol.
func door(src criterion.Source, limit int64, refuse func(w http.ResponseWriter, r *http.Request, code int, why string), h http.Handler) http.Handler {
	slots := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch ok, err := authorised(r, src.TokenFile); {
		case err != nil:
			refuse(w, r, http.StatusInternalServerError, "the token cannot be read here")
			return
		case !ok:
			refuse(w, r, http.StatusUnauthorized, "token missing or wrong")
			return
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, r, http.StatusMethodNotAllowed, "want POST")
			return
		case r.Header.Get("Origin") != "":
			refuse(w, r, http.StatusForbidden, "not for browsers")
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			refuse(w, r, http.StatusServiceUnavailable, "too many requests at once")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		h.ServeHTTP(w, r)
	})
}

func authorised(r *http.Request, tokenFile string) (bool, error) {
	if tokenFile == "" {
		return true, nil
	}
	token, err := secret(tokenFile)
	if err != nil {
		return false, err
	}
	got, want := sha256.Sum256([]byte(r.Header.Get("Authorization"))), sha256.Sum256([]byte("Bearer "+token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1, nil
}

// serveDoor serves the handler at addr until ctx ends, and returns ctx's error
// or why it cannot.
func serveDoor(ctx context.Context, addr string, h http.Handler) error {
	srv := &http.Server{
		Addr: addr, Handler: h,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		// What is not answered by then is sent again by its sender.
		_ = srv.Shutdown(grace)
	})
	defer stop()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen at %s: %w", addr, err)
	}
	<-stopped
	return ctx.Err()
}
