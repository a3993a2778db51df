package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"assay/internal/principal"
	"assay/internal/versioned"
)

// FileVersion is the format of gateway.json that this build reads.
const FileVersion = 1

// ErrConfig means that gateway.json breaks a rule or is of another version; the text
// names it.
var ErrConfig = errors.New("invalid gateway configuration")

// Defaults of a caller and of the file.
const (
	DefaultRate        = 1000 // events a second
	DefaultConnections = 64
	DefaultSpool       = 64 << 20
	DefaultBlob        = 64 << 20
	defaultMode        = 0o660
	minToken           = 32 // bytes
	maxToken           = 4096
)

// File is the content of gateway.json:
//
//	{"v":1,"mode":"0660","callers":[
//	  {"user":"piper","principal":"agent/piper","rate":200,"burst":400},
//	  {"uid":1002,"principal":"dispatcher/main"},
//	  {"token_file":"creds/agent.far.token","principal":"agent/far"}],
//	 "tcp":"127.0.0.1:7070"}
//
// Unknown members are errors.
type File struct {
	// Socket is the path of the Unix socket; "" is DIR/run/gateway.sock. Callers
	// under other users must be able to reach it.
	Socket string `json:"socket,omitzero"`
	// Mode is the socket's file mode in octal digits; "" is 0660. Who connects is
	// known by the kernel, whatever the mode.
	Mode string `json:"mode,omitzero"`
	// TCP is a loopback address, host:port, to listen on as well; callers there
	// show a bearer token. "" is none.
	TCP     string   `json:"tcp,omitzero"`
	Callers []Caller `json:"callers"`
	// Connections is how many one caller may have open; 0 is DefaultConnections.
	Connections int `json:"connections,omitzero"`
	// SpoolBytes and BlobBytes bound a principal's spool and one blob; 0 are the
	// defaults.
	SpoolBytes int64 `json:"spool_bytes,omitzero"`
	BlobBytes  int64 `json:"blob_bytes,omitzero"`
}

// Caller is who may publish, and as whom. Exactly one of UID, User and
// TokenFile is set.
type Caller struct {
	UID  *uint32 `json:"uid,omitzero"`
	User string  `json:"user,omitzero"` // name of a Unix user
	// TokenFile holds one token of at least 32 bytes on one line; a path without
	// leading slash starts in DIR. Only its owner may read it.
	TokenFile string `json:"token_file,omitzero"`
	Principal string `json:"principal"` // role/name
	// Rate is in events a second, Burst how many may come at once; 0 are
	// DefaultRate and twice the rate. Callers of one principal share one bucket,
	// the first one's.
	Rate  float64 `json:"rate,omitzero"`
	Burst float64 `json:"burst,omitzero"`
}

type wireFile struct {
	V int `json:"v"`
	File
}

// Decode reads gateway.json.
func Decode(data []byte) (*File, error) {
	var w wireFile
	if err := versioned.Decode(data, FileVersion, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := w.File.Validate(); err != nil {
		return nil, err
	}
	return &w.File, nil
}

// Load reads the file at path.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Own is the configuration of a directory without a file: whoever runs the
// gateway is agent/piper.
func Own() *File {
	uid := uint32(os.Getuid())
	return &File{Callers: []Caller{{UID: &uid, Principal: "agent/piper"}}}
}

// Validate checks every field.
func (f *File) Validate() error {
	if _, err := f.mode(); err != nil {
		return err
	}
	if f.Connections < 0 || f.SpoolBytes < 0 || f.BlobBytes < 0 {
		return fmt.Errorf("%w: a limit is negative", ErrConfig)
	}
	if f.TCP != "" {
		if err := checkLoopback(f.TCP); err != nil {
			return err
		}
	}
	if len(f.Callers) == 0 {
		return fmt.Errorf("%w: no callers", ErrConfig)
	}
	for i, c := range f.Callers {
		if err := c.validate(f.TCP != ""); err != nil {
			return fmt.Errorf("%w: caller %d: %w", ErrConfig, i+1, err)
		}
	}
	return nil
}

func (f *File) mode() (fs.FileMode, error) {
	if f.Mode == "" {
		return defaultMode, nil
	}
	n, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("%w: mode %q is not of the form 0660", ErrConfig, f.Mode)
	}
	return fs.FileMode(n), nil
}

func (c Caller) validate(tcp bool) error {
	given := 0
	for _, is := range []bool{c.UID != nil, c.User != "", c.TokenFile != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return errors.New("want one of uid, user and token_file")
	}
	if c.TokenFile != "" && !tcp {
		return errors.New("a token is for the tcp listener, and there is none")
	}
	if _, _, err := principal.ParseID(c.Principal); err != nil {
		return err
	}
	if c.Rate < 0 || c.Burst < 0 || c.Burst > 0 && c.Burst < 1 {
		return errors.New("rate and burst must be positive, and a burst at least 1")
	}
	return nil
}

// checkLoopback refuses an address that other machines can reach.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: tcp: %w", ErrConfig, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%w: tcp: %q is no loopback address: tokens would cross a network in the clear", ErrConfig, host)
	}
	return nil
}

// resolve is the uid of a caller known by one.
func (c Caller) resolve() (uint32, error) {
	if c.UID != nil {
		return *c.UID, nil
	}
	u, err := user.Lookup(c.User)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: user %s has the uid %q", ErrConfig, c.User, u.Uid)
	}
	return uint32(n), nil
}

// Users are the Unix users of those callers who have one, by principal: of several
// the first.
func (f *File) Users() (map[string]uint32, error) {
	users := map[string]uint32{}
	for _, c := range f.Callers {
		if _, ok := users[c.Principal]; ok || c.TokenFile != "" {
			continue
		}
		uid, err := c.resolve()
		if err != nil {
			return nil, err
		}
		users[c.Principal] = uid
	}
	return users, nil
}

// token reads the caller's token.
func (c Caller) token(dir string) ([]byte, error) {
	path := c.TokenFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %#o: others may read it", ErrConfig, path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	token := trimLine(data)
	if len(token) < minToken || len(token) > maxToken || !printable(token) {
		return nil, fmt.Errorf("%w: %s: want one token of %d to %d printable bytes without spaces", ErrConfig, path, minToken, maxToken)
	}
	return token, nil
}

func trimLine(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

func printable(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
