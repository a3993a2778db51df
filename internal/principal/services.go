package principal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"

	"assay/internal/durable"
	"assay/internal/versioned"
)

// ServicesVersion is the format of services.json that this build writes and reads.
const ServicesVersion = 1

// The users of assay's own services. Each is one credential and one set of
// permissions in the broker.
const (
	LoggerStore   = "service.logger-store"   // appends to LEDGER and QUARANTINE
	LoggerIntake  = "service.logger-intake"  // hears the principals and answers them
	Ingress       = "service.ingress"        // hears sensors, fills the buffer
	Sealer        = "service.sealer"         // reads the buffer
	ReadProjector = "service.read-projector" // reads LEDGER
	ReadResolver  = "service.read-resolver"  // reads LEDGER
	ReadOperator  = "service.read-operator"  // reads LEDGER
)

// The users whose seeds exist only in the offline directory.
const (
	BootstrapStore     = "bootstrap.store"     // creates LEDGER and QUARANTINE
	BootstrapTelemetry = "bootstrap.telemetry" // creates the buffer
	recovery           = "recovery"
)

var (
	services  = []string{LoggerStore, LoggerIntake, Ingress, Sealer, ReadProjector, ReadResolver, ReadOperator}
	bootstrap = []string{BootstrapStore, BootstrapTelemetry}
)

// ServiceUsers lists the users that have a credential in DIR/creds.
func ServiceUsers() []string { return slices.Clone(services) }

// Services is the content of broker/services.json: the public half of every
// credential that is not a principal's.
//
//	{"v":1,"users":{"service.logger-store":"U…",…,"bootstrap.store":"U…"},"recovery":"O…"}
type Services struct {
	// Users maps each user to its public key.
	Users map[string]string
	// Recovery is the public half of the offline recovery key (an nkeys
	// operator key, so that no broker takes it for a user's).
	Recovery string
}

type wireServices struct {
	V        int               `json:"v"`
	Users    map[string]string `json:"users"`
	Recovery string            `json:"recovery"`
}

// ErrServices means that services.json is incomplete or malformed.
var ErrServices = errors.New("invalid services file")

// Validate checks that exactly the known users are listed, each with its own key.
func (s *Services) Validate() error {
	seen := map[string]bool{}
	for _, user := range slices.Concat(services, bootstrap) {
		key, ok := s.Users[user]
		if !ok {
			return fmt.Errorf("%w: %s has no key", ErrServices, user)
		}
		if !nkeys.IsValidPublicUserKey(key) || seen[key] {
			return fmt.Errorf("%w: key of %s is malformed or used twice", ErrServices, user)
		}
		seen[key] = true
	}
	if len(s.Users) != len(seen) {
		return fmt.Errorf("%w: unknown users among %v", ErrServices, slices.Sorted(maps.Keys(s.Users)))
	}
	if !nkeys.IsValidPublicOperatorKey(s.Recovery) {
		return fmt.Errorf("%w: recovery is not a public operator key", ErrServices)
	}
	return nil
}

// DecodeServices reads services.json strictly.
func DecodeServices(data []byte) (*Services, error) {
	var w wireServices
	if err := versioned.Decode(data, ServicesVersion, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServices, err)
	}
	s := &Services{Users: w.Users, Recovery: w.Recovery}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// LoadServices reads the file at path.
func LoadServices(path string) (*Services, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := DecodeServices(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Save replaces the file at path, durably.
func (s *Services) Save(path string) error {
	if err := s.Validate(); err != nil {
		return err
	}
	w := wireServices{V: ServicesVersion, Users: s.Users, Recovery: s.Recovery}
	data, err := json.Marshal(w, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(data, '\n'), 0o600)
}

// ensureServices makes the services' and offline seeds that are missing.
// services.json is written last, so once it exists every seed was made; they
// may have been moved to their owners since, and are never made again.
func ensureServices(d Dir, offlineDir string) (*Services, error) {
	recorded, err := LoadServices(d.Services())
	if !errors.Is(err, fs.ErrNotExist) {
		return recorded, err
	}
	s := &Services{Users: map[string]string{}}
	for _, user := range services {
		c, err := ensureCredential(d.Creds(), user, nkeys.CreateUser)
		if err != nil {
			return nil, err
		}
		s.Users[user] = c.Public
	}
	if err := s.ensureOffline(offlineDir); err != nil {
		return nil, err
	}
	return s, s.Save(d.Services())
}

func (s *Services) ensureOffline(dir string) error {
	if dir == "" {
		return ErrNoOfflineDir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, user := range bootstrap {
		c, err := ensureCredential(dir, user, nkeys.CreateUser)
		if err != nil {
			return err
		}
		s.Users[user] = c.Public
	}
	c, err := ensureCredential(dir, recovery, nkeys.CreateOperator)
	if err != nil {
		return err
	}
	s.Recovery = c.Public
	return nil
}

// RenewServices makes services.json and DIR/creds agree: a service user without
// a seed there gets a new one, and one whose seed is another than services.json
// lists is listed with it. It names the users that it changed. The offline users
// keep their keys. It is for a directory that was put back without its secrets:
// elsewhere it would lock out services that hold their seeds themselves.
func (d Dir) RenewServices() (renewed []string, err error) {
	l, err := durable.WaitLock(d.lock())
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	s, err := LoadServices(d.Services())
	if err != nil {
		return nil, err
	}
	renewed = []string{}
	for _, user := range services {
		c, err := ensureCredential(d.Creds(), user, nkeys.CreateUser)
		if err != nil {
			return nil, err
		}
		if c.Public != s.Users[user] {
			s.Users[user] = c.Public
			renewed = append(renewed, user)
		}
	}
	if len(renewed) == 0 {
		return renewed, nil
	}
	return renewed, s.Save(d.Services())
}
