package principal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nkeys"

	"assay/internal/durable"
)

// ErrNoOfflineDir means that the offline seeds must be made and there is no
// directory for them.
var ErrNoOfflineDir = errors.New("no offline directory for the bootstrap and recovery seeds")

// Dir is assay's directory; its methods name the files of this package in it.
type Dir string

// Principals is the principals file.
func (d Dir) Principals() string { return filepath.Join(string(d), "principals.json") }

// Creds is the directory of the credentials.
func (d Dir) Creds() string { return filepath.Join(string(d), "creds") }

// Services is the file with the public keys of services and offline users.
func (d Dir) Services() string { return filepath.Join(string(d), "broker", "services.json") }

// Credential is the file of the user's seed.
func (d Dir) Credential(user string) string { return CredentialPath(d.Creds(), user) }

func (d Dir) lock() string { return filepath.Join(string(d), "principals.lock") }

// Defaults are the principals that a new directory gets. Keys are still to be made.
func Defaults() []Principal {
	return []Principal{
		New(Agent, "piper", "production"),
		New(Dispatcher, "main", "production"),
		New(Detector, "main", "production"),
		New(Resolver, "main", "production"),
		New(Operator, "main", "production"),
		New(Sensor, "host", "production"),
		New(Harness, "main", "sandbox"),
	}
}

// Init makes what is missing of the default principals, of the credentials and
// of services.json, and returns what DIR then holds. Bootstrap and recovery
// seeds go to offlineDir alone, which may be "" once they were made. An
// interrupted Init is resumed by calling it again with the same directories;
// on a complete directory it changes nothing.
func (d Dir) Init(offlineDir string) (*File, *Services, error) {
	for _, dir := range []string{string(d), d.Creds(), filepath.Dir(d.Services())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, err
		}
	}
	l, err := durable.WaitLock(d.lock())
	if err != nil {
		return nil, nil, err
	}
	defer l.Unlock()
	s, err := ensureServices(d, offlineDir)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.initPrincipals()
	return f, s, err
}

// initPrincipals writes the defaults if there is no principals file yet. One
// that exists is never added to: the operator may have left a default out.
func (d Dir) initPrincipals() (*File, error) {
	f, err := Load(d.Principals())
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f = &File{}
	for _, p := range Defaults() {
		if err := d.addTo(f, p); err != nil {
			return nil, err
		}
	}
	return f, f.Save(d.Principals())
}

// addTo gives the principal a key and appends it.
func (d Dir) addTo(f *File, p Principal) error {
	if _, ok := f.Find(p.ID()); ok {
		return f.Add(p) // names the reason, and leaves no seed behind
	}
	if _, _, err := ParseID(p.ID()); err != nil {
		return err
	}
	c, err := ensureCredential(d.Creds(), p.User(), nkeys.CreateUser)
	if err != nil {
		return err
	}
	p.NKey = c.Public
	return f.Add(p)
}

// Add makes the principal's credential and appends it to the principals file.
// The broker must reload before the credential works.
func (d Dir) Add(p Principal) (Principal, error) {
	var added Principal
	err := d.edit(func(f *File) error {
		if err := d.addTo(f, p); err != nil {
			return err
		}
		added, _ = f.Find(p.ID())
		return nil
	})
	return added, err
}

// Revoke marks the principal as revoked and removes its seed. The broker must
// reload before open connections are cut.
func (d Dir) Revoke(id string, at time.Time) error {
	return d.edit(func(f *File) error {
		if err := f.Revoke(id, at); err != nil {
			return err
		}
		p, _ := f.Find(id)
		err := os.Remove(d.Credential(p.User()))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the seed was moved to its user
		}
		return err
	})
}

func (d Dir) edit(change func(*File) error) error {
	l, err := durable.WaitLock(d.lock())
	if err != nil {
		return fmt.Errorf("principals: %w", err)
	}
	defer l.Unlock()
	f, err := Load(d.Principals())
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	return f.Save(d.Principals())
}
