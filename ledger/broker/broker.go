package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/internal/durable"
	"assay/internal/principal"
)

var (
	// ErrLocked means that another broker runs on the same store.
	ErrLocked = errors.New("another broker holds the store")
	// ErrNotRunning means that the broker was stopped, or failed to restart.
	ErrNotRunning = errors.New("broker is not running")
	// ErrRestartNeeded means that the running server cannot take the change up.
	ErrRestartNeeded = errors.New("the broker must be restarted for this change")
	// ErrSmallStore means a store limit that the streams do not fit into.
	ErrSmallStore = errors.New("the store limit is too small")
)

const (
	startTimeout = 60 * time.Second // a large stream is read at start
	startPoll    = 100 * time.Millisecond
	stopTimeout  = 10 * time.Second
)

// Config says how an embedded broker runs.
type Config struct {
	// Dir is assay's directory, with principals.json and broker/services.json.
	Dir string
	// Port is the loopback port; 0 lets the system choose one.
	Port int
	// MaxStore is how many bytes the streams may hold, at least MinStore; 0 is
	// the rendered limit, which no disk reaches.
	MaxStore int64
	// Log takes the server's log. The zero value drops it.
	Log zerolog.Logger
}

// Broker is an embedded server on the store of one directory. Its methods may
// be called from several goroutines.
type Broker struct {
	dir  Dir
	lock *durable.Lock
	log  *serverLog

	maxStore int64 // 0: as rendered
	self     *Peer // its address as one of a cluster; nil for one that is alone

	// live is srv while it serves, for those who must not wait for a restart.
	live atomic.Pointer[server.Server]
	door atomic.Pointer[door] // nil while stopped

	mu   sync.Mutex // one start, stop or reload at a time
	port int
	srv  *server.Server  // nil while stopped
	keys map[string]bool // the users that srv lets in
}

// Start renders DIR/broker/nats.conf, starts a server on that very file and
// writes its address to DIR/run/nats.url. ErrLocked if the store is in use. The
// directory of one broker of a cluster fixes the port; ErrClustered for that of
// the cluster itself.
func Start(c Config) (*Broker, error) {
	if c.MaxStore != 0 && c.MaxStore < MinStore {
		return nil, fmt.Errorf("%w: %d bytes, want at least %d", ErrSmallStore, c.MaxStore, int64(MinStore))
	}
	abs, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	cluster, err := LoadCluster(abs)
	if err != nil {
		return nil, err
	}
	if cluster != nil && cluster.Node == "" {
		return nil, fmt.Errorf("%w: %s", ErrClustered, abs)
	}
	b := &Broker{dir: Dir(abs), maxStore: c.MaxStore, port: c.Port}
	if cluster != nil {
		self, _ := cluster.self()
		b.self, b.port = &self, self.Client
	}
	b.log = newServerLog(c.Log, b.accountBehind)
	b.lock, err = durable.TryLock(b.dir.lock())
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, b.dir.Store())
	}
	if err != nil {
		return nil, err
	}
	if err := b.start(); err != nil {
		return nil, errors.Join(err, b.lock.Unlock())
	}
	return b, nil
}

// options reads the rendered file; only what embedding needs is set on top.
func (b *Broker) options() (*server.Options, error) {
	if _, err := WriteConfig(string(b.dir)); err != nil {
		return nil, err
	}
	opts, err := server.ProcessConfigFile(b.dir.Config())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.dir.Config(), err)
	}
	opts.NoSigs = true
	b.behindDoor(opts)
	if b.maxStore != 0 {
		opts.JetStreamMaxStore = b.maxStore
	}
	return opts, nil
}

// inProcessOnly are the connections that a user may come by.
var inProcessOnly = map[string]struct{}{"IN_PROCESS": {}}

// behindDoor takes the clients' address from the server, which listens nowhere if
// it is alone. One of a cluster opens its routes only after it listens for
// clients: that is at some loopback port, where it lets none of its users in.
func (b *Broker) behindDoor(opts *server.Options) {
	if b.self == nil {
		opts.DontListen = true
		return
	}
	opts.Host, opts.Port = "127.0.0.1", server.RANDOM_PORT
	opts.ClientAdvertise = b.self.client() // the door's, for every client of the cluster
	for _, u := range opts.Nkeys {
		u.AllowedConnectionTypes = inProcessOnly
	}
}

func (b *Broker) start() error {
	opts, err := b.options()
	if err != nil {
		return err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	b.log.clearFatal()
	srv.SetLoggerV2(b.log, false, false, false)
	go srv.Start()
	if err := b.awaitReady(srv); err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return err
	}
	b.srv, b.keys = srv, keysOf(opts)
	b.live.Store(srv)
	if b.self != nil {
		go shed(srv)
	}
	if err := b.open(opts); err != nil {
		return errors.Join(err, b.shutdown(context.Background()))
	}
	return nil
}

// open lets clients of other processes in and writes down where.
func (b *Broker) open(opts *server.Options) error {
	host, doors := opts.Host, 1
	if b.self != nil {
		host, doors = b.self.Host, ClusterSize
	}
	d, err := openDoor(host, b.port, doors, opts.Nkeys, b.srv.InProcessConn)
	if err != nil {
		return err
	}
	b.door.Store(d)
	b.port = d.port() // a restart keeps the address
	return b.writeURL(d.url())
}

// awaitReady waits until the server serves. What ends its start is only
// logged by it, a failed JetStream included.
func (b *Broker) awaitReady(srv *server.Server) error {
	for deadline := time.Now().Add(startTimeout); ; {
		ready := srv.ReadyForConnections(startPoll)
		switch fatal := b.log.fatalError(); {
		case fatal != "":
			return fmt.Errorf("broker did not start: %s", fatal)
		case ready && srv.JetStreamEnabled():
			return nil
		case ready:
			return errors.New("broker did not start: JetStream is off")
		case time.Now().After(deadline):
			return fmt.Errorf("broker did not start within %s", startTimeout)
		}
	}
}

func (b *Broker) writeURL(url string) error {
	path := durable.Target(b.dir.URLFile())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// An address is no secret, and every service's user reads it.
	return durable.WriteFile(path, []byte(url+"\n"), 0o644)
}

func (b *Broker) shutdown(ctx context.Context) error {
	if b.srv == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	b.live.Store(nil)
	srv, d, done := b.srv, b.door.Swap(nil), make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	select {
	case <-done:
		b.srv = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop broker: %w", ctx.Err())
	}
}

// Stop ends the server within ten seconds and frees the store. Clients should
// have drained their connections before. If it fails the store stays locked
// until the process ends.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lock == nil {
		return nil
	}
	if err := b.shutdown(ctx); err != nil {
		return err
	}
	removed := os.Remove(durable.Target(b.dir.URLFile()))
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil
	}
	err := errors.Join(removed, b.lock.Unlock())
	b.lock = nil
	return err
}

// Restart stops the server and starts it again at the same address;
// connections reconnect by themselves. After a full disk the streams refuse
// writes until this is done.
func (b *Broker) Restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lock == nil {
		return ErrNotRunning
	}
	if err := b.shutdown(ctx); err != nil {
		return err
	}
	return b.start()
}

// Reload renders the configuration again and has the running server take it
// up: new principals can connect at once, revoked ones are cut off, and
// everybody else's connections and streams go on. While it lasts, a request
// may be answered with "no responders". ErrRestartNeeded if the server cannot.
func (b *Broker) Reload() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.srv == nil {
		return ErrNotRunning
	}
	// Twice, as an external server needs SIGHUP twice: a reload starts the
	// imports of the accounts that were there before it, so those of a new
	// account begin to work with the second (nats-server 2.15.3).
	for range 2 {
		opts, err := b.options()
		if err != nil {
			return err
		}
		keys := keysOf(opts) // the server keeps opts
		err = b.srv.ReloadOptions(opts)
		if errors.Is(err, server.ErrConfigReloadNotSupported) {
			return fmt.Errorf("%w: %w", ErrRestartNeeded, err)
		}
		if err != nil {
			return err
		}
		b.keys = keys
		if d := b.door.Load(); d != nil { // not if a start failed to open one
			d.know(opts.Nkeys)
		}
	}
	return nil
}

func keysOf(opts *server.Options) map[string]bool {
	keys := map[string]bool{}
	for _, u := range opts.Nkeys {
		keys[u.Nkey] = true
	}
	return keys
}

// server is the serving server; it does not wait for a restart to end.
func (b *Broker) server() (*server.Server, error) {
	srv := b.live.Load()
	if srv == nil {
		return nil, ErrNotRunning
	}
	return srv, nil
}

// ClientURL is the address for clients in other processes.
func (b *Broker) ClientURL() string {
	if d := b.door.Load(); d != nil {
		return d.url()
	}
	return ""
}

// accountBehind is the account of a connection, by the server's number for it,
// whose key the server found right and said no more of; "" if it came by no door.
func (b *Broker) accountBehind(id uint64) string {
	if d := b.door.Load(); d != nil {
		return d.accountOf(id)
	}
	return ""
}

// inProcess provides connections for one user. A pipe has no buffer: over it
// the server closes on a user that it refuses before its answer can be read,
// after ten seconds of waiting. So the key is looked at here first.
type inProcess struct {
	b   *Broker
	key string
}

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) {
	p.b.mu.Lock()
	srv, known := p.b.srv, p.b.keys[p.key]
	p.b.mu.Unlock()
	if srv == nil {
		return nil, ErrNotRunning
	}
	if !known {
		return nil, nats.ErrAuthorization
	}
	return srv.InProcessConn()
}

// Connect connects within the process; the connection survives Restart. It is
// for assay's own services: unlike one made by Dial, it goes on trying when
// its user is revoked.
func (b *Broker) Connect(c principal.Credential, opts ...nats.Option) (*nats.Conn, error) {
	return Dial("", c, append([]nats.Option{nats.InProcessServer(inProcess{b, c.Public})}, opts...)...)
}

// Refusals counts, by account, what the broker itself refused since Start:
// publishes, subscriptions, payloads and connections. None of it reached the
// logger. Use PrincipalOf to name the principals.
func (b *Broker) Refusals() map[string]uint64 { return b.log.counts() }
