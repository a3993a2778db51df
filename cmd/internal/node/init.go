package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/internal/durable"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/resolver/criterion"
)

// InitConfig says what init makes.
type InitConfig struct {
	Dir Dir
	// OfflineDir gets the bootstrap and recovery seeds, and nothing else does.
	OfflineDir string
	// Origin names the log in its checkpoints; "" makes one up.
	Origin string
	// NATS is the address of an external broker that already runs on the
	// rendered configuration; "" starts the embedded one for the time of init.
	NATS string
	// Peers are the brokers of a cluster. Their directories are made below
	// DIR/nodes, and Init stops there, as with RenderOnly; a later call without
	// them opens the ledger on the running cluster.
	Peers []broker.Peer
	// WeekZone is the IANA time zone in which the ledger's weeks begin; "" is UTC
	// for a new ledger, and whatever an opened one has.
	WeekZone string
	// RenderOnly stops before anything is written to a broker, so that an
	// external one can be started on the configuration.
	RenderOnly bool
	// Clock dates record 1; nil is the host's.
	Clock    logger.Clock
	Log      zerolog.Logger
	Software string
}

// InitReport is what init made or found.
type InitReport struct {
	Dir        string   `json:"dir"`
	OfflineDir string   `json:"offline_dir"`
	Config     string   `json:"config"`         // the broker's configuration file; of a cluster, the one that names its brokers
	Nodes      []Node   `json:"nodes,omitzero"` // the brokers of a cluster
	Origin     string   `json:"origin"`
	Key        string   `json:"key"` // verifier key: pin it elsewhere
	Principals []string `json:"principals"`
	WeekZone   string   `json:"week_zone,omitzero"` // by record 1
	Opened     bool     `json:"opened"`             // the ledger has its first record
}

// Node is a broker of a cluster and the directory to be copied to its host.
type Node struct {
	broker.Peer
	Dir string `json:"dir"`
}

// Init makes a directory, its keys and credentials, the broker's streams and
// record 1. Interrupted, it goes on where it was; on a whole directory it
// changes nothing.
func Init(ctx context.Context, c InitConfig) (InitReport, error) {
	abs, err := filepath.Abs(string(c.Dir))
	if err != nil {
		return InitReport{}, err
	}
	c.Dir = Dir(abs)
	if err := c.Dir.Logger().CheckRestored(); err != nil {
		return InitReport{}, err
	}
	if _, err := logger.LoadZone(c.WeekZone); err != nil {
		return InitReport{}, err
	}
	for _, dir := range []string{string(c.Dir), c.Dir.Blobs(), c.Dir.Resolver(), c.Dir.Views(), c.Dir.Snapshots(), c.Dir.Gateway(), c.Dir.Telemetry(), c.Dir.Run()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return InitReport{}, err
		}
	}
	file, services, err := principal.Dir(c.Dir).Init(c.OfflineDir)
	if err != nil {
		return InitReport{}, err
	}
	if err := initRegistry(c.Dir.Registry()); err != nil {
		return InitReport{}, err
	}
	cluster, err := initCluster(c)
	if err != nil {
		return InitReport{}, err
	}
	if _, err := broker.WriteConfig(string(c.Dir)); err != nil {
		return InitReport{}, err
	}
	keys, err := initKeys(c)
	if err != nil {
		return InitReport{}, err
	}
	r := InitReport{
		Dir: abs, OfflineDir: c.OfflineDir, Config: broker.Dir(abs).Config(),
		Key: keys.Verifier(), Origin: strings.SplitN(keys.Verifier(), "+", 2)[0],
	}
	if cluster != nil {
		r.Config = broker.Dir(abs).Cluster()
		for _, p := range cluster.Peers {
			r.Nodes = append(r.Nodes, Node{p, string(broker.Dir(abs).Node(p.Name))})
		}
	}
	for _, p := range file.Principals {
		r.Principals = append(r.Principals, p.ID())
	}
	if c.RenderOnly || len(c.Peers) > 0 {
		return r, nil
	}
	if r.WeekZone, err = openLedger(ctx, c, services); err != nil {
		return InitReport{}, err
	}
	r.Opened = true
	return r, nil
}

// initCluster makes cluster.json of the peers that are given; nil for a broker
// that is alone.
func initCluster(c InitConfig) (*broker.Cluster, error) {
	have, err := broker.LoadCluster(string(c.Dir))
	if err != nil || len(c.Peers) == 0 {
		return have, err
	}
	if have != nil {
		if !have.SamePeers(c.Peers) {
			return nil, fmt.Errorf("%s names other brokers; remove it to lay the cluster out anew", broker.Dir(c.Dir).Cluster())
		}
		return have, nil
	}
	made, err := broker.NewCluster(c.Peers)
	if err != nil {
		return nil, err
	}
	// A broker that runs on DIR would go on as the only one.
	return made, explain(c.Dir.whileIdle(func() error { return made.Save(string(c.Dir)) }))
}

func initKeys(c InitConfig) (*logger.Keys, error) {
	keys, err := logger.LoadKeys(c.Dir.Logger())
	if !errors.Is(err, logger.ErrNotInitialised) {
		return keys, err
	}
	if c.Origin == "" {
		var suffix [4]byte
		if _, err := rand.Read(suffix[:]); err != nil {
			return nil, err
		}
		host, err := os.Hostname()
		if err != nil || strings.ContainsAny(host, " +") {
			host = "localhost"
		}
		c.Origin = host + "/assay/" + hex.EncodeToString(suffix[:])
	}
	return logger.CreateKeys(c.Dir.Logger(), c.Origin)
}

func initRegistry(path string) error {
	raw, err := criterion.DefaultRegistry(time.Second)
	if err != nil {
		return err
	}
	err = durable.CreateFile(path, raw, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// openLedger makes the streams and record 1 through the external broker or
// cluster, or an embedded broker that runs for the time of it. It returns the
// time zone that record 1 names.
func openLedger(ctx context.Context, c InitConfig, services *principal.Services) (zone string, err error) {
	err = onBroker(ctx, c.Dir, c.NATS, c.Log, func(hub *Hub, s *stream.Stream) error {
		head, err := s.Head(ctx)
		if err != nil {
			if err := createStreams(ctx, hub, c.OfflineDir); err != nil {
				return err
			}
			if head, err = s.Head(ctx); err != nil {
				return err
			}
		}
		if signed, err := logger.ReadCheckpoints(c.Dir.Logger()); err == nil && len(signed) > 0 && head.Last == 0 && hub.embedded == nil {
			return fmt.Errorf("%w: its checkpoint signs %d records, and the broker has none; bring them there with `assay restore`", ErrElsewhere, signed[0].Size)
		}
		sum := sha256.Sum256([]byte(services.Recovery))
		err = logger.Genesis(ctx, logger.Config{
			Dir: string(c.Dir.Logger()), Stream: s, Software: c.Software, Log: c.Log, WeekZone: c.WeekZone, Clock: c.Clock,
		}, ledger.Hash(sum).String())
		if err != nil {
			return err
		}
		body, err := s.Get(ctx, 1)
		if err != nil {
			return err
		}
		if zone = logger.ReadZone(body); c.WeekZone != "" && c.WeekZone != zone {
			return fmt.Errorf("%w: it is %s", logger.ErrOtherZone, zone)
		}
		return nil
	})
	return zone, err
}

// ErrElsewhere means that a ledger was opened on another broker.
var ErrElsewhere = errors.New("the ledger was opened elsewhere")

// onBroker calls fn with the stream on the broker or cluster that nats or dir
// names, or on one that is embedded for the time of it.
func onBroker(ctx context.Context, dir Dir, nats string, log zerolog.Logger, fn func(*Hub, *stream.Stream) error) (err error) {
	hub, err := ServiceConfig{UpConfig: UpConfig{Dir: dir}, NATS: nats}.hub()
	if err != nil || nats == "" && !hub.Cluster {
		b, failed := broker.Start(broker.Config{Dir: string(dir), Log: log})
		if failed != nil {
			return explain(failed)
		}
		defer func() { err = errors.Join(err, stopBroker(b)) }()
		hub = EmbeddedHub(b, dir.Creds())
	}
	nc, err := hub.Connect(principal.LoggerStore)
	if err != nil {
		return err
	}
	defer nc.Close()
	s, err := stream.New(nc, stream.Config{})
	if err != nil {
		return err
	}
	return fn(hub, s)
}

func createStreams(ctx context.Context, hub *Hub, offlineDir string) error {
	connect := func(user string) (*nats.Conn, error) {
		c, err := bootstrapSeed(offlineDir, user)
		if err != nil {
			return nil, err
		}
		return hub.DialAs(c, false)
	}
	store, err := connect(principal.BootstrapStore)
	if err != nil {
		return err
	}
	defer store.Close()
	telemetry, err := connect(principal.BootstrapTelemetry)
	if err != nil {
		return err
	}
	defer telemetry.Close()
	if !hub.Cluster {
		return broker.CreateStreams(ctx, store, telemetry, 1)
	}
	// Brokers that just started have to find each other first.
	for deadline := time.Now().Add(meetWithin); ; {
		err := broker.CreateStreams(ctx, store, telemetry, broker.ClusterSize)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

const meetWithin = time.Minute

func bootstrapSeed(offlineDir, user string) (principal.Credential, error) {
	c, err := principal.LoadCredential(principal.CredentialPath(offlineDir, user))
	if err != nil {
		err = fmt.Errorf("bootstrap seed (give the directory that init wrote as --offline-dir): %w", err)
	}
	return c, err
}

func stopBroker(b *broker.Broker) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return b.Stop(ctx)
}
