package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"assay/events/gateway"
	"assay/events/publish"
	"assay/events/publish/spool"
	"assay/internal/blob"
	"assay/internal/durable"
	"assay/internal/principal"
)

// GatewayConfig says how the gateway runs; who may call it is in DIR/gateway.json.
type GatewayConfig struct {
	// LowWater is the room in bytes that the logger needs; 0 is DefaultLowWater.
	LowWater uint64
	// Patience is how long an event is tried before it is spooled; 0 is the
	// client's default.
	Patience time.Duration
	Log      zerolog.Logger
}

// Gateway is a running gateway with a connection and a spool for each principal.
type Gateway struct {
	dir      Dir
	hub      *Hub
	cfg      GatewayConfig
	door     *gateway.Gateway
	ctx      context.Context // ends with the gateway
	cancel   context.CancelFunc
	forwards sync.WaitGroup

	loading sync.Mutex // one load of the file at a time, and none once it closes

	mu        sync.Mutex
	outlets   map[string]*outlet // by role/name; none is taken away
	blobBytes int64              // of one blob, at most
}

// outlet is one principal's way out.
type outlet struct {
	conn    *nats.Conn
	spool   *spool.Spool
	client  *publish.Client
	refused atomic.Uint64 // by the ledger, of what was spooled
	trouble atomic.Pointer[string]
}

// StartGateway listens for callers. The broker may be away: events are spooled
// meanwhile.
func StartGateway(ctx context.Context, dir Dir, hub *Hub, cfg GatewayConfig) (*Gateway, error) {
	ctx, cancel := context.WithCancel(ctx)
	g := &Gateway{dir: dir, hub: hub, cfg: cfg, outlets: map[string]*outlet{}, ctx: ctx, cancel: cancel}
	if err := g.Reload(); err != nil {
		cancel()
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// Reload reads gateway.json again and goes by it: callers, rates and limits. With
// an error everything stays as it was. Connections stay, and so does the spool of
// a principal that no caller has any more, until it is delivered. It does nothing
// where no gateway runs.
func (g *Gateway) Reload() error {
	if g == nil {
		return nil
	}
	g.loading.Lock()
	defer g.loading.Unlock()
	if err := g.ctx.Err(); err != nil {
		return err
	}
	file, err := gateway.Load(g.dir.GatewayFile())
	if errors.Is(err, fs.ErrNotExist) {
		file, err = gateway.Own(), nil
	}
	if err != nil {
		return err
	}
	fresh := map[string]*outlet{}
	if err := g.take(file, fresh); err != nil {
		for _, o := range fresh {
			err = errors.Join(err, o.close())
		}
		return err
	}
	g.mu.Lock()
	maps.Copy(g.outlets, fresh)
	g.blobBytes = cmp.Or(file.BlobBytes, gateway.DefaultBlob)
	for _, o := range g.outlets {
		o.spool.SetLimit(file.SpoolBytes)
	}
	g.mu.Unlock()
	for id, o := range fresh {
		g.forwards.Go(func() { g.forward(id, o) })
	}
	return nil
}

// take opens what a file names and is not open yet, and starts the door with it or
// has it take the file up.
func (g *Gateway) take(file *gateway.File, fresh map[string]*outlet) error {
	publishers := map[string]gateway.Publisher{}
	for _, c := range file.Callers {
		o := cmp.Or(g.outlets[c.Principal], fresh[c.Principal])
		if o == nil {
			var err error
			if o, err = g.outlet(c.Principal); err != nil {
				return err
			}
			fresh[c.Principal] = o
		}
		publishers[c.Principal] = o.client
	}
	if g.door != nil {
		return g.door.Reload(file, publishers)
	}
	g.adopt(fresh)
	var err error
	g.door, err = gateway.Start(gateway.Config{
		File: file, Dir: string(g.dir), Socket: durable.Target(g.dir.GatewaySocket()), Publishers: publishers,
		Blobs: g.blobs(), Room: g.room, Random: rand.Reader, Log: g.cfg.Log,
	})
	return err
}

// speaksAs says whether a Unix user may publish as a principal; nobody may where no
// gateway runs.
func (g *Gateway) speaksAs(uid uint32, id string) bool { return g != nil && g.door.SpeaksAs(uid, id) }

// blobs is the store of the directory, where resolver, backup and erasure find what
// is in it; nil where it is another user's, or another host's. None is made: on a
// host of its own nobody would look into it.
func (g *Gateway) blobs() gateway.Blobs {
	store, err := blob.OpenExisting(g.dir.Blobs())
	if err == nil {
		err = unix.Access(g.dir.Blobs(), unix.W_OK|unix.X_OK)
	}
	if err != nil {
		g.cfg.Log.Info().Err(err).Msg("the gateway stores no blobs")
		return nil
	}
	return store
}

// outlet opens a principal's connection and spool.
func (g *Gateway) outlet(id string) (*outlet, error) {
	cred, err := principal.LoadCredential(principal.CredentialPath(g.hub.creds, userOf(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the gateway has no credential of %s, whom %s names: %w", id, g.dir.GatewayFile(), err)
	}
	if err != nil {
		return nil, err
	}
	o := &outlet{}
	if o.spool, err = spool.Open(spool.Config{Dir: g.spoolOf(id), Principal: id}); err != nil {
		return nil, err
	}
	for _, t := range o.spool.Torn() {
		log := g.cfg.Log.Warn().Str("principal", id).Str("segment", t.Segment).Int64("offset", t.Offset).Int64("bytes", t.Bytes)
		if t.Damaged {
			log.Msg("events of the spool were altered on disk; the segment is kept as .damaged")
		} else {
			log.Msg("a crash cut the spool's last event off; nobody was told that it was taken")
		}
	}
	// Not in process: there, a revoked principal's connection is never closed.
	if o.conn, err = g.hub.DialAs(cred, false, nats.RetryOnFailedConnect(true)); err != nil {
		return nil, errors.Join(err, o.spool.Close())
	}
	o.client = publish.NewClient(publish.Config{
		Conn: o.conn, Principal: id, Spool: o.spool, Patience: g.cfg.Patience,
		Refused: func(event []byte, r *publish.Refusal) {
			o.refused.Add(1)
			g.cfg.Log.Warn().Str("principal", id).Str("code", r.Code).Str("pointer", r.Pointer).Msg("the ledger refused a spooled event")
		},
	})
	return o, nil
}

func (o *outlet) close() error {
	o.conn.Close()
	return o.spool.Close()
}

func (g *Gateway) spoolOf(id string) string {
	return filepath.Join(g.dir.Gateway(), "spool", userOf(id))
}

// adopt opens the spools of principals that no caller has any more: what was
// promised is delivered, if the credential is still there.
func (g *Gateway) adopt(fresh map[string]*outlet) {
	entries, err := os.ReadDir(filepath.Join(g.dir.Gateway(), "spool"))
	if err != nil {
		return
	}
	for _, e := range entries {
		id := strings.Replace(e.Name(), ".", "/", 1)
		if _, _, err := principal.ParseID(id); err != nil || fresh[id] != nil {
			continue
		}
		o, err := g.outlet(id)
		if err != nil {
			g.cfg.Log.Error().Err(err).Str("principal", id).Msg("its spool stays as it is")
			continue
		}
		fresh[id] = o
	}
}

// forward delivers what is spooled until the gateway ends. A connection that the broker
// closed for good, as it does with a revoked principal's, leaves the spool as
// it is.
func (g *Gateway) forward(id string, o *outlet) {
	err := o.client.Forward(g.ctx)
	if g.ctx.Err() != nil {
		return
	}
	text := fmt.Sprintf("nothing more is delivered until the gateway starts again: %v", err)
	o.trouble.Store(&text)
	g.cfg.Log.Error().Err(err).Str("principal", id).Msg("the spool is not delivered until the gateway starts again")
}

// room keeps blobs off a disk that is nearly full. They leave twice what the
// logger needs, however many are being uploaded: an agent must not be able to
// close the ledger with them.
func (g *Gateway) room() error {
	free, err := freeBytes(g.dir.Blobs())
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	mark := 2*cmp.Or(g.cfg.LowWater, DefaultLowWater) + uint64(len(g.outlets))*uint64(g.blobBytes)
	if free < mark {
		return fmt.Errorf("%d bytes free, uploads leave %d", free, mark)
	}
	return nil
}

// Wait returns once the gateway has stopped, after the context it was started
// with ended.
func (g *Gateway) Wait() error {
	<-g.ctx.Done()
	return g.close()
}

func (g *Gateway) close() error {
	var errs []error
	if g.door != nil {
		errs = append(errs, g.door.Close())
	}
	g.cancel()
	g.loading.Lock() // behind a load that is under way
	defer g.loading.Unlock()
	g.forwards.Wait()
	for _, o := range g.outlets {
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}

// GatewayStatus is what the gateway did, and what waits in its spools.
type GatewayStatus struct {
	gateway.Stats
	TCP    string                 `json:"tcp,omitzero"` // address of the loopback port
	Spools map[string]SpoolStatus `json:"spools"`       // by principal
}

// SpoolStatus is one principal's spool.
type SpoolStatus struct {
	spool.Stats
	Refused uint64 `json:"refused"`          // by the ledger, of what was spooled
	Trouble string `json:"trouble,omitzero"` // why nothing is delivered
}

// StatusOf is nil where no gateway runs.
func (g *Gateway) StatusOf() *GatewayStatus {
	if g == nil {
		return nil
	}
	st := &GatewayStatus{Stats: g.door.Stats(), TCP: g.door.TCPAddr(), Spools: map[string]SpoolStatus{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, o := range g.outlets {
		s := SpoolStatus{Stats: o.spool.Stats(), Refused: o.refused.Load()}
		if t := o.trouble.Load(); t != nil {
			s.Trouble = *t
		}
		st.Spools[id] = s
	}
	return st
}

// ready says what keeps the gateway from taking events. That the ledger is away
// does not: they are spooled.
func (g *Gateway) ready() (why []string) {
	for id, s := range g.StatusOf().Spools {
		if s.Bytes >= s.Limit {
			why = append(why, fmt.Sprintf("the spool of %s is full", id))
		}
	}
	slices.Sort(why)
	return why
}

// show lets the gateway's numbers be scraped.
func (g *Gateway) show(h *Health) {
	spools := func(of func(SpoolStatus) float64) func() float64 {
		return func() (sum float64) {
			for _, s := range g.StatusOf().Spools {
				sum += of(s)
			}
			return sum
		}
	}
	h.Gauge("spool_events", "Events that wait in the gateway's spools for the ledger.", spools(func(s SpoolStatus) float64 { return float64(s.Events) }))
	h.Gauge("spool_bytes", "Size of the gateway's spools.", spools(func(s SpoolStatus) float64 { return float64(s.Bytes) }))
	h.Counter("gateway_requests_total", "Requests to the gateway.", func() float64 { return float64(g.door.Stats().Requests) })
	h.Counter("gateway_events_taken_total", "Events that the gateway answered with a receipt.", func() float64 { return float64(g.door.Stats().Taken) })
	h.Counter("gateway_events_spooled_total", "Events that the gateway took without a receipt yet.", func() float64 { return float64(g.door.Stats().Spooled) })
	h.Counter("gateway_refused_total", "Events, or whole requests, that the gateway refused.", func() (sum float64) {
		for _, n := range g.door.Stats().Refused {
			sum += float64(n)
		}
		return sum
	})
}
