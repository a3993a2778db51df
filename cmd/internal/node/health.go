package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"assay/cmd/internal/metrics"
	"assay/ledger/logger"
)

// Health is what a process shows of itself to those who watch over it:
// GET /healthz (it answers), GET /readyz (it does its job, or 503 and why not)
// and GET /metrics.
type Health struct {
	software string
	set      *metrics.Set
	ready    func() []string
}

// newHealth asks status and ready at each request, and not before.
func newHealth(cfg UpConfig, status func() Status, ready func() []string) *Health {
	return &Health{software: cfg.Software, ready: ready, set: metrics.New(metrics.Config{
		Software: cfg.Software, Log: cfg.Log,
		Snapshot: func() metrics.Snapshot { return snapshotOf(status(), len(ready()) == 0) },
	})}
}

func (h *Health) observer() logger.Observer { return h.set.Observer() }

// Gauge and Counter let another part of the process show a number, which is
// read at each scrape; see metrics.Set. They are for its start.
func (h *Health) Gauge(name, help string, read func() float64) { h.set.Gauge(name, help, read) }

// Counter is Gauge for what never falls.
func (h *Health) Counter(name, help string, read func() float64) { h.set.Counter(name, help, read) }

func (h *Health) routes(mux *http.ServeMux) {
	mux.Handle("GET /metrics", h.set.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reasons := h.ready(); len(reasons) > 0 {
			answer(w, http.StatusServiceUnavailable, reasons...)
			return
		}
		answer(w, http.StatusOK, "ready")
	})
}

// answer writes one line for each reason.
func answer(w http.ResponseWriter, status int, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	for _, l := range lines {
		fmt.Fprintln(w, strings.ReplaceAll(l, "\n", "; "))
	}
}

// disconnected names the service if one of its connections is down.
func disconnected(service string, conns ...*nats.Conn) []string {
	for _, nc := range conns {
		if s := nc.Status(); s != nats.CONNECTED {
			return []string{fmt.Sprintf("the %s is not connected to the broker as %s: %s", service, nc.Opts.Name, s)}
		}
	}
	return nil
}

func snapshotOf(st Status, ready bool) metrics.Snapshot {
	snap := metrics.Snapshot{Ready: ready, Logger: st.Logger, Projector: st.Projector, Ingress: st.Telemetry}
	if b := st.Broker; b != nil {
		snap.Broker = &metrics.Broker{
			Serving: b.State == brokerServing, FreeBytes: b.FreeBytes, StoreUsed: b.StoreUsed, StoreRoom: b.StoreRoom,
			Restarts: b.Restarts, Refused: st.Refused,
		}
	}
	if r := st.Resolver; r != nil {
		snap.Resolver = &metrics.Resolver{
			Applied: uint64(r.Applied), Differed: r.Differed, Skipped: r.Skipped,
			LedgerTime: r.LedgerTime, Open: r.Open, Oldest: r.Oldest, Watermarks: r.Watermarks,
		}
	}
	return snap
}

// ErrPublic means an address that others than this host can reach.
var ErrPublic = errors.New("others than this host can reach")

// ListenAddress makes HOST:PORT, :PORT or PORT an address to listen on. No
// host is loopback; one that is not loopback is refused unless public.
func ListenAddress(text string, public bool) (string, error) {
	if text == "" {
		return "", nil
	}
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", err
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return "", fmt.Errorf("address %s: want an IP address, not a name", text)
	}
	if !ip.IsLoopback() && !public {
		return "", fmt.Errorf("%w %s", ErrPublic, host)
	}
	return net.JoinHostPort(host, port), nil
}

// scrapeServer serves metrics and health over TCP.
type scrapeServer struct {
	srv  *http.Server
	addr net.Addr
}

// listen serves on address; nil for "".
func (h *Health) listen(address string) (*scrapeServer, error) {
	if address == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	h.routes(mux)
	s := &scrapeServer{addr: ln.Addr(), srv: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
	}}
	go func() { _ = s.srv.Serve(ln) }()
	return s, nil
}

// Close ends it. On nil it does nothing.
func (s *scrapeServer) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.srv.Shutdown(ctx)
}
