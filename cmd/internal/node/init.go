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
	// RenderOnly stops before anything is written to a broker, so that an
	// external one can be started on the configuration.
	RenderOnly bool
	Log        zerolog.Logger
	Software   string
}

// InitReport is what init made or found.
type InitReport struct {
	Dir        string   `json:"dir"`
	OfflineDir string   `json:"offline_dir"`
	Config     string   `json:"config"` // the broker's configuration file
	Origin     string   `json:"origin"`
	Key        string   `json:"key"` // verifier key: pin it elsewhere
	Principals []string `json:"principals"`
	Opened     bool     `json:"opened"` // the ledger has its first record
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
	for _, dir := range []string{string(c.Dir), c.Dir.Blobs(), c.Dir.Resolver(), c.Dir.Views(), c.Dir.Snapshots(), c.Dir.Run()} {
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
	for _, p := range file.Principals {
		r.Principals = append(r.Principals, p.ID())
	}
	if c.RenderOnly {
		return r, nil
	}
	if err := openLedger(ctx, c, services); err != nil {
		return InitReport{}, err
	}
	r.Opened = true
	return r, nil
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

// openLedger makes the streams and record 1 through the external broker, or an
// embedded one that runs for the time of it.
func openLedger(ctx context.Context, c InitConfig, services *principal.Services) (err error) {
	var hub *Hub
	if c.NATS != "" {
		hub = RemoteHub(c.NATS, c.Dir.Creds())
	} else {
		b, err := broker.Start(broker.Config{Dir: string(c.Dir), Log: c.Log})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stopBroker(b)) }()
		hub = EmbeddedHub(b, c.Dir.Creds())
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
	if _, err := s.Head(ctx); err != nil {
		if err := createStreams(ctx, hub, c.OfflineDir); err != nil {
			return err
		}
	}
	sum := sha256.Sum256([]byte(services.Recovery))
	return logger.Genesis(ctx, logger.Config{
		Dir: string(c.Dir.Logger()), Stream: s, Software: c.Software, Log: c.Log,
	}, ledger.Hash(sum).String())
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
	return broker.CreateStreams(ctx, store, telemetry)
}

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
