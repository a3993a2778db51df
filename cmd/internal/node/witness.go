package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"assay/ledger/witness"
)

// Witness is a witness that answers at an address.
type Witness struct {
	server *witness.Server
	srv    *http.Server
	ln     net.Listener
}

// StartWitness opens a witness's directory and listens on address; port 0 lets
// the system choose.
func StartWitness(dir witness.Dir, address string, log zerolog.Logger) (*Witness, error) {
	s, err := witness.Open(witness.Config{Dir: dir, Log: log})
	if err != nil {
		return nil, explain(err)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Witness{server: s, ln: ln, srv: &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}}, nil
}

// URL is the submission prefix, for a policy.
func (w *Witness) URL() string { return "http://" + w.ln.Addr().String() }

// VKey is the verifier key of the cosignatures.
func (w *Witness) VKey() string { return w.server.VKey() }

// Serve answers until ctx ends.
func (w *Witness) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- w.srv.Serve(w.ln) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err = w.srv.Shutdown(last); err != nil {
			err = errors.Join(err, w.srv.Close())
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, w.server.Close())
}
