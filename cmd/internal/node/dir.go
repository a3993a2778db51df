package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/witness"
)

// Dir is assay's directory.
type Dir string

func (d Dir) join(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// The rooms of the directory. Each has one owning service.
func (d Dir) Creds() string        { return d.join("creds") }
func (d Dir) Blobs() string        { return d.join("blobs") }
func (d Dir) Views() string        { return d.join("views") }
func (d Dir) Snapshots() string    { return d.join("snapshots") }
func (d Dir) Registry() string     { return d.join("registry.json") }
func (d Dir) Resolver() string     { return d.join("resolver") }
func (d Dir) Telemetry() string    { return d.join("telemetry") }
func (d Dir) Run() string          { return d.join("run") }
func (d Dir) Gateway() string      { return d.join("gateway") }
func (d Dir) Socket() string       { return d.join("run", "assay.sock") }
func (d Dir) Logger() logger.Files { return logger.Files(d.join("logger")) }

// Policy is the file that says which cosignatures a checkpoint needs before it
// counts; without it, none.
func (d Dir) Policy() string { return d.join("witness-policy.txt") }

// Witness is where a witness keeps its state unless it is told otherwise. It
// needs nothing else of the directory.
func (d Dir) Witness() witness.Dir { return witness.Dir(d.join("witness")) }

// GatewayFile says who may call the gateway.
func (d Dir) GatewayFile() string { return d.join("gateway.json") }

// Hooks holds the drops in which the hooks of agents' clients leave events.
func (d Dir) Hooks() string { return d.join("hooks") }

// GatewaySocket is the gateway's door for callers.
func (d Dir) GatewaySocket() string { return d.join("run", "gateway.sock") }

// service is the socket of a service that runs alone.
func (d Dir) service(name string) string {
	if name == "gateway" {
		name = "gateway-status" // gateway.sock is for its callers
	}
	return d.join("run", name+".sock")
}

// StatusSockets are the sockets on which services tell their status, the brokers
// of a cluster that run on this host included.
func (d Dir) StatusSockets() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(d.Run(), "*.sock"))
	if err != nil {
		return nil, err
	}
	nodes, err := filepath.Glob(d.join("nodes", "*", "run", "*.sock"))
	all = append(all, nodes...)
	return slices.DeleteFunc(all, func(s string) bool { return s == d.GatewaySocket() }), err
}

// ErrNotInitialised means that init was never run, or not finished, on a directory.
var ErrNotInitialised = errors.New("not initialised: run `assay init` first")

// Check says whether the directory was initialised. What this process may not
// see is another user's, and so is there.
func (d Dir) Check() error {
	for _, path := range []string{principal.Dir(d).Principals(), principal.Dir(d).Services(), d.Logger().PublicKey()} {
		if _, err := os.Stat(path); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%s: %w", d, ErrNotInitialised)
		}
	}
	return nil
}

// storeBytes is the size of the broker's store on disk.
func (d Dir) storeBytes() (int64, error) {
	var sum int64
	err := filepath.WalkDir(filepath.Join(broker.Dir(d).Store(), "jetstream"), func(_ string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
