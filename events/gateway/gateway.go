// Package gateway is the intake over HTTP, for programs that do not speak NATS:
// on a Unix socket, where the kernel says who connects (SO_PEERCRED), and
// optionally on a loopback port with bearer tokens. Each caller is one
// principal, whose events go over that principal's own connection to the
// broker: the gateway adds no identity of its own, and it cannot lend one that
// it holds no credential of.
//
//	POST /v1/events   one CloudEvent, a JSON batch, JSON Lines, or binary mode;
//	                  the answers are the intake's, one an event, in order
//	POST /v1/traces   OTLP over HTTP: what spans and log records say of tools and
//	POST /v1/logs     models becomes events (package genai)
//	PUT  /v1/blobs    content that events name by dataref: {"ref":…,"size":…}
//	GET  /healthz     whether the gateway answers
//
// A caller can use up its own connections, memory, rate and spool and no other
// principal's: each is bounded for itself.
package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"assay/events/publish"
	"assay/events/publish/spool"
)

const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 20 * time.Second // of events
	blobTimeout   = 5 * time.Minute  // of a blob
	answerTimeout = 60 * time.Second // from the body's end to that of the answer
	idleTimeout   = 60 * time.Second
	maxHeader     = 64 << 10
	// memory is what one principal's requests may hold, bodies alone; decoding
	// them takes as much again.
	memory = 16 << 20
	// tcpConnections is how many connections the loopback port has together.
	tcpConnections = 256
)

// Publisher is a principal's way to the ledger; *publish.Client with a spool
// implements it.
type Publisher interface {
	PublishBatch(ctx context.Context, batch [][]byte) ([]publish.Answer, error)
}

// Blobs is the store of PUT /v1/blobs; *blob.Store implements it.
type Blobs interface {
	PutContent(content, random io.Reader) (name string, size int64, err error)
}

// Config is what a gateway needs.
type Config struct {
	// File is the configuration, and Dir the directory that its paths start in.
	File *File
	Dir  string
	// Socket is where to listen if the file names no other path.
	Socket string
	// Publishers has one for each principal that the file names. What it gives no
	// answer for, with publish.ErrClosed, spool.ErrFull or another error, is
	// answered accordingly.
	Publishers map[string]Publisher
	// Blobs may be nil: there is no store here. Room says why a blob would not
	// fit; nil: it always does. Random makes salts.
	Blobs  Blobs
	Room   func() error
	Random io.Reader
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// HeaderTimeout and BodyTimeout are how long headers, and a body of events,
	// may take; zero is five and twenty seconds.
	HeaderTimeout, BodyTimeout time.Duration
	Log                        zerolog.Logger
}

// Stats counts what the gateway did since it started.
type Stats struct {
	Connections int               `json:"connections"` // open on the Unix socket
	Requests    uint64            `json:"requests"`
	Taken       uint64            `json:"taken"`   // events answered with a receipt
	Spooled     uint64            `json:"spooled"` // events answered with a spooled
	Blobs       uint64            `json:"blobs"`
	Refused     map[string]uint64 `json:"refused"` // events, or requests that were refused in whole, by code
}

// account is what the gateway holds for one principal.
type account struct {
	id        string
	publisher Publisher
	bucket    *bucket
	memory    budget
	uploads   chan struct{} // one blob at a time
	decoding  sync.Mutex    // of one export request at a time
}

type bearer struct {
	sum     [sha256.Size]byte
	account *account
}

// roster is who may call. It is never changed: a reload makes another.
type roster struct {
	accounts  map[string]*account // by role/name
	uids      map[uint32]*account
	bearers   []bearer
	blobBytes int64
}

// Gateway is a running gateway.
type Gateway struct {
	cfg     Config
	roster  atomic.Pointer[roster]
	servers []*http.Server
	peers   *peerListener
	tcp     net.Listener
	ended   sync.WaitGroup

	mu    sync.Mutex
	stats Stats
}

// Start listens.
func Start(cfg Config) (*Gateway, error) {
	if err := cfg.File.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.HeaderTimeout == 0 {
		cfg.HeaderTimeout = headerTimeout
	}
	if cfg.BodyTimeout == 0 {
		cfg.BodyTimeout = bodyTimeout
	}
	g := &Gateway{cfg: cfg, stats: Stats{Refused: map[string]uint64{}}}
	g.roster.Store(&roster{})
	if err := g.introduce(cfg.File, cfg.Publishers); err != nil {
		return nil, err
	}
	if err := g.listen(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Reload goes by another file from the next request on: its callers, rates and
// limits. Connections stay, and requests under way end as they began. A principal
// that stays keeps its publisher and what is left of its rate. With an error
// nothing changes: ErrConfig also for another socket, mode or TCP address, which
// hold from the next Start. One call at a time.
func (g *Gateway) Reload(f *File, publishers map[string]Publisher) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if old := g.cfg.File; f.Socket != old.Socket || f.Mode != old.Mode || f.TCP != old.TCP {
		return fmt.Errorf("%w: socket, mode and tcp change only with a restart", ErrConfig)
	}
	if err := g.introduce(f, publishers); err != nil {
		return err
	}
	g.peers.allow(cmp.Or(f.Connections, DefaultConnections))
	return nil
}

// introduce reads who the callers are.
func (g *Gateway) introduce(f *File, publishers map[string]Publisher) error {
	before := g.roster.Load()
	next := &roster{accounts: map[string]*account{}, uids: map[uint32]*account{}, blobBytes: cmp.Or(f.BlobBytes, DefaultBlob)}
	limits := map[*account]Caller{}
	for _, c := range f.Callers {
		a := next.accounts[c.Principal]
		if a == nil {
			if a = before.accounts[c.Principal]; a == nil {
				p := publishers[c.Principal]
				if p == nil {
					return fmt.Errorf("%w: no way to publish as %s", ErrConfig, c.Principal)
				}
				a = &account{id: c.Principal, publisher: p, bucket: newBucket(g.cfg.Now()), memory: budget{left: memory}, uploads: make(chan struct{}, 1)}
			}
			next.accounts[c.Principal], limits[a] = a, c
		}
		if c.TokenFile != "" {
			token, err := c.token(g.cfg.Dir)
			if err != nil {
				return err
			}
			next.bearers = append(next.bearers, bearer{sha256.Sum256(token), a})
			continue
		}
		uid, err := c.resolve()
		if err != nil {
			return err
		}
		if next.uids[uid] != nil {
			return fmt.Errorf("%w: uid %d is listed twice", ErrConfig, uid)
		}
		next.uids[uid] = a
	}
	for a, c := range limits { // only now that nothing can fail
		rate := cmp.Or(c.Rate, DefaultRate)
		a.bucket.limit(rate, cmp.Or(c.Burst, max(1, 2*rate)))
	}
	g.roster.Store(next)
	return nil
}

func (g *Gateway) listen() error {
	f := g.cfg.File
	mode, err := f.mode()
	if err != nil {
		return err
	}
	path := f.Socket
	switch {
	case path == "":
		path = g.cfg.Socket
	case !filepath.IsAbs(path):
		path = filepath.Join(g.cfg.Dir, path)
	}
	ln, err := listenUnix(path, mode)
	if err != nil {
		return err
	}
	over := func() { g.count("too_many_connections", 1) }
	g.peers = &peerListener{UnixListener: ln, max: cmp.Or(f.Connections, DefaultConnections), over: over, conns: map[uint32]int{}}
	g.serve(g.peers, g.byPeer)
	if f.TCP == "" {
		return nil
	}
	if g.tcp, err = net.Listen("tcp", f.TCP); err != nil {
		return err
	}
	g.serve(&capListener{g.tcp, make(chan struct{}, tcpConnections), over}, g.byToken)
	return nil
}

// TCPAddr is the loopback port's address, "" without one.
func (g *Gateway) TCPAddr() string {
	if g.tcp == nil {
		return ""
	}
	return g.tcp.Addr().String()
}

// whoami finds the caller of a request.
type whoami func(*http.Request) (*account, *problem)

type connKey struct{}

func (g *Gateway) byPeer(r *http.Request) (*account, *problem) {
	c, _ := r.Context().Value(connKey{}).(*conn)
	if c == nil {
		return nil, refuse(http.StatusForbidden, "unknown_caller", "the caller is not known")
	}
	if a := g.roster.Load().uids[c.uid]; a != nil {
		return a, nil
	}
	return nil, refuse(http.StatusForbidden, "unknown_caller", "no principal belongs to uid %d", c.uid)
}

// SpeaksAs says whether a Unix user may publish as a principal.
func (g *Gateway) SpeaksAs(uid uint32, principal string) bool {
	a := g.roster.Load().uids[uid]
	return a != nil && a.id == principal
}

func (g *Gateway) byToken(r *http.Request) (*account, *problem) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	var found *account
	for _, b := range g.roster.Load().bearers { // each, so that the time tells nothing
		if subtle.ConstantTimeCompare(b.sum[:], sum[:]) == 1 {
			found = b.account
		}
	}
	if !ok || found == nil {
		return nil, refuse(http.StatusUnauthorized, "unknown_caller", "want Authorization: Bearer and a token of the gateway")
	}
	return found, nil
}

func (g *Gateway) serve(ln net.Listener, who whoami) {
	srv := &http.Server{
		Handler:           g.routes(who),
		ReadHeaderTimeout: g.cfg.HeaderTimeout,
		ReadTimeout:       g.cfg.HeaderTimeout + g.cfg.BodyTimeout,
		WriteTimeout:      g.cfg.HeaderTimeout + g.cfg.BodyTimeout + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          log.New(g.cfg.Log, "", 0),
	}
	g.servers = append(g.servers, srv)
	g.ended.Go(func() { _ = srv.Serve(ln) })
}

func (g *Gateway) count(code string, n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.Refused[code] += n
}

// Stats is what happened so far.
func (g *Gateway) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Refused = maps.Clone(s.Refused)
	if g.peers != nil {
		s.Connections = g.peers.count()
	}
	return s
}

// Close takes no more requests and waits a while for those under way.
func (g *Gateway) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	for _, s := range g.servers {
		err := s.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = s.Close()
		}
		errs = append(errs, err)
	}
	g.ended.Wait()
	return errors.Join(errs...)
}

// full says whether an error is the spool's word that it has no room.
func full(err error) bool { return errors.Is(err, spool.ErrFull) }
