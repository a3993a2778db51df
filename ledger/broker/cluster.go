package broker

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats-server/v2/server"

	"assay/internal/durable"
	"assay/internal/principal"
	"assay/internal/versioned"
)

// ClusterSize is how many brokers a cluster has, and how many copies of each
// stream: one may be lost, and the other two are a majority.
const ClusterSize = 3

const (
	clusterVersion = 1
	clusterName    = "assay"
	routeUser      = "assay"
	secretBytes    = 24

	defaultClient = 4222
	defaultRoute  = 6222

	// A route that is silent for about eight seconds is cut: sooner than a leader
	// without followers steps down.
	routePing  = 2 * time.Second
	routePings = 3
	// shedAfter is how long a broker without routes keeps its clients: one that
	// just started, or whose network blinked, finds the others by then.
	shedAfter = 3 * time.Second
)

var (
	// ErrPeer means that a peer's name or address is malformed.
	ErrPeer = errors.New("invalid peer")
	// ErrCluster means that cluster.json is incomplete or malformed.
	ErrCluster = errors.New("invalid cluster file")
	// ErrClustered means that a directory has no broker of its own, but those of a cluster.
	ErrClustered = errors.New("the directory's brokers are those of a cluster")
	// ErrNoNode means that a cluster has no broker of a name.
	ErrNoNode = errors.New("the cluster has no such broker")
)

// Peer is one broker of a cluster.
type Peer struct {
	Name string `json:"name"`
	// Host is the address at which clients and the other brokers reach it, and
	// on which it listens.
	Host   string `json:"host"`
	Client int    `json:"client"` // port for clients
	Route  int    `json:"route"`  // port for the other brokers
}

var (
	peerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9:.-]+$`)
)

// ParsePeer reads NAME=HOST, NAME=HOST:CLIENT or NAME=HOST:CLIENT:ROUTE; the
// ports are 4222 and 6222 where they are not given. A host that is an IPv6
// address stands in brackets.
func ParsePeer(text string) (Peer, error) {
	name, at, ok := strings.Cut(text, "=")
	p := Peer{Name: name, Client: defaultClient, Route: defaultRoute}
	var ports string
	if rest, six := strings.CutPrefix(at, "["); six {
		var closed bool
		p.Host, ports, closed = strings.Cut(rest, "]")
		ok = ok && closed
	} else {
		p.Host, ports = at, ""
		if i := strings.IndexByte(at, ':'); i >= 0 {
			p.Host, ports = at[:i], at[i:]
		}
	}
	// What is left is nothing, or a colon and a port, once or twice.
	for i, port := range strings.Split(ports, ":") {
		n, err := strconv.Atoi(port)
		switch {
		case i == 0:
			ok = ok && port == ""
		case err != nil || i > 2:
			ok = false
		case i == 1:
			p.Client = n
		default:
			p.Route = n
		}
	}
	if !ok {
		return Peer{}, fmt.Errorf("%w: %q: want NAME=HOST[:CLIENT[:ROUTE]]", ErrPeer, text)
	}
	return p, p.validate()
}

func (p Peer) validate() error {
	switch {
	case !peerName.MatchString(p.Name):
		return fmt.Errorf("%w: name %q: want up to 32 of a-z, 0-9 and -", ErrPeer, p.Name)
	case !hostName.MatchString(p.Host):
		return fmt.Errorf("%w: %s: host %q", ErrPeer, p.Name, p.Host)
	case p.Client < 1 || p.Client > 65535 || p.Route < 1 || p.Route > 65535 || p.Client == p.Route:
		return fmt.Errorf("%w: %s: want two different ports, not %d and %d", ErrPeer, p.Name, p.Client, p.Route)
	}
	return nil
}

func (p Peer) client() string { return net.JoinHostPort(p.Host, strconv.Itoa(p.Client)) }
func (p Peer) route() string  { return net.JoinHostPort(p.Host, strconv.Itoa(p.Route)) }

// Cluster is the content of cluster.json: the brokers that hold a ledger
// together. DIR has one, and so has the directory of each broker, which says
// which one it is and has the secret. DIR's is read by every service and has none:
// it stands in cluster.secret beside it, for whoever renders the brokers'
// configurations.
//
//	{"v":1,"peers":[{"name":"n1","host":"10.0.0.1","client":4222,"route":6222},…]}
//	{"v":1,"peers":[…],"secret":"<hex>","node":"n1"}
type Cluster struct {
	V     int    `json:"v"`
	Peers []Peer `json:"peers"`
	// Secret is what the brokers show each other on their routes; whoever knows it
	// may pass for one. "" where this process may not read it, or has none yet.
	Secret string `json:"secret,omitzero"`
	Node   string `json:"node,omitzero"`
}

// NewCluster makes a cluster of peers, with a secret of its own.
func NewCluster(peers []Peer) (*Cluster, error) {
	secret, err := newSecret()
	if err != nil {
		return nil, err
	}
	c := &Cluster{V: clusterVersion, Peers: peers, Secret: secret}
	return c, c.Validate()
}

func newSecret() (string, error) {
	var secret [secretBytes]byte
	_, err := rand.Read(secret[:])
	return hex.EncodeToString(secret[:]), err
}

// Validate checks that there are ClusterSize peers, each with a name and
// addresses of its own.
func (c *Cluster) Validate() error {
	if len(c.Peers) != ClusterSize {
		return fmt.Errorf("%w: %d brokers, want %d", ErrCluster, len(c.Peers), ClusterSize)
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, p := range c.Peers {
		if err := p.validate(); err != nil {
			return err
		}
		if names[p.Name] || addresses[p.client()] || addresses[p.route()] {
			return fmt.Errorf("%w: %s has the name or an address of another", ErrCluster, p.Name)
		}
		names[p.Name], addresses[p.client()], addresses[p.route()] = true, true, true
	}
	if c.Node != "" && !names[c.Node] {
		return fmt.Errorf("%w: %w: %s", ErrCluster, ErrNoNode, c.Node)
	}
	if c.Node == "" && c.Secret == "" {
		return nil
	}
	if raw, err := hex.DecodeString(c.Secret); err != nil || len(raw) != secretBytes {
		return fmt.Errorf("%w: secret: want %d hex bytes", ErrCluster, secretBytes)
	}
	return nil
}

// URLs are the addresses of every broker, for a client.
func (c *Cluster) URLs() string {
	urls := make([]string, len(c.Peers))
	for i, p := range c.Peers {
		urls[i] = "nats://" + p.client()
	}
	return strings.Join(urls, ",")
}

// SamePeers says whether the brokers are these.
func (c *Cluster) SamePeers(peers []Peer) bool { return slices.Equal(c.Peers, peers) }

// of is the same cluster as the broker of that name sees it.
func (c *Cluster) of(node string) *Cluster {
	own := *c
	own.Node = node
	return &own
}

func (c *Cluster) self() (Peer, bool) {
	i := slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == c.Node })
	if i < 0 {
		return Peer{}, false
	}
	return c.Peers[i], true
}

// DecodeCluster reads cluster.json strictly.
func DecodeCluster(data []byte) (*Cluster, error) {
	var c Cluster
	if err := versioned.Decode(data, clusterVersion, &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCluster, err)
	}
	if c.Node == "" && c.Secret != "" {
		return nil, fmt.Errorf("%w: a secret that every service reads", ErrCluster)
	}
	return &c, c.Validate()
}

func (c *Cluster) encode() ([]byte, error) {
	data, err := json.Marshal(c, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(data, '\n'), err
}

// LoadCluster reads DIR/cluster.json, and the secret where this process may; nil
// when the directory has a broker of its own.
func LoadCluster(dir string) (*Cluster, error) {
	path := Dir(dir).Cluster()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := DecodeCluster(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.Node != "" {
		return c, nil
	}
	secret, err := os.ReadFile(Dir(dir).ClusterSecret())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if c.Secret = strings.TrimSpace(string(secret)); c.Secret == "" {
		return nil, fmt.Errorf("%s: %w: empty", Dir(dir).ClusterSecret(), ErrCluster)
	}
	return c, c.Validate()
}

// Save writes DIR/cluster.json and DIR/cluster.secret, durably.
func (c *Cluster) Save(dir string) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := durable.WriteFile(Dir(dir).ClusterSecret(), []byte(c.Secret+"\n"), 0o600); err != nil {
		return err
	}
	open := *c
	open.Secret = ""
	data, err := open.encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(Dir(dir).Cluster(), data, 0o640)
}

// render is the part of the server's configuration that makes it one of c.
func (c *Cluster) render(b *bytes.Buffer) {
	self, _ := c.self()
	fmt.Fprintf(b, "cluster {\n  name: %s\n  listen: %s\n  authorization { user: %s, password: %s, timeout: 5 }\n  ping_interval: %s\n  ping_max: %d\n  routes = [\n",
		quote(clusterName), quote(self.route()), quote(routeUser), quote(c.Secret), quote(routePing.String()), routePings)
	for _, p := range c.Peers {
		if p.Name != c.Node {
			fmt.Fprintf(b, "    %s\n", quote("nats-route://"+routeUser+":"+c.Secret+"@"+p.route()))
		}
	}
	b.WriteString("  ]\n}\n\n")
}

// shed sends clients away from a broker that no other is connected to, until it
// stops: it can store nothing, and who stays with it is heard by nobody. They
// come back if no other broker takes them.
func shed(srv *server.Server) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	since := time.Now()
	for srv.Running() {
		<-tick.C
		if srv.NumRoutes() > 0 {
			since = time.Now()
			continue
		}
		if time.Since(since) < shedAfter {
			continue
		}
		clients, err := srv.Connz(nil)
		if err != nil {
			continue
		}
		for _, c := range clients.Conns {
			_ = srv.DisconnectClientByID(c.Cid) // it may have left by itself
		}
	}
}

// writeNodes makes, below DIR/nodes, a directory for each broker: what it needs
// to run, and nothing else of DIR. A cluster without a secret, as it comes out of
// a backup, gets one.
func (c *Cluster) writeNodes(dir string) (changed bool, err error) {
	if c.Secret == "" {
		if c.Secret, err = newSecret(); err != nil {
			return false, err
		}
		// It fails on one that is there and cannot be read.
		if err := durable.CreateFile(Dir(dir).ClusterSecret(), []byte(c.Secret+"\n"), 0o600); err != nil {
			return false, err
		}
	}
	for _, p := range c.Peers {
		to := Dir(dir).Node(p.Name)
		if err := os.MkdirAll(to.Store(), 0o700); err != nil {
			return changed, err
		}
		files := map[string][]byte{}
		if files[to.Cluster()], err = c.of(p.Name).encode(); err != nil {
			return changed, err
		}
		from, into := principal.Dir(dir), principal.Dir(to)
		if files[into.Principals()], err = os.ReadFile(from.Principals()); err != nil {
			return changed, err
		}
		if files[into.Services()], err = os.ReadFile(from.Services()); err != nil {
			return changed, err
		}
		for path, data := range files {
			wrote, err := writeChanged(path, data)
			changed = changed || wrote
			if err != nil {
				return changed, err
			}
		}
		wrote, err := WriteConfig(string(to))
		changed = changed || wrote
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// writeChanged replaces a file unless it holds data already.
func writeChanged(path string, data []byte) (changed bool, err error) {
	have, err := os.ReadFile(path)
	if err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, durable.WriteFile(path, data, 0o600)
}

// Cluster is the file that names the brokers of a cluster.
func (d Dir) Cluster() string { return filepath.Join(string(d), "cluster.json") }

// ClusterSecret is the file with what the brokers of a cluster show each other.
func (d Dir) ClusterSecret() string { return filepath.Join(string(d), "cluster.secret") }

// Node is the directory of one broker of a cluster.
func (d Dir) Node(name string) Dir { return Dir(filepath.Join(string(d), "nodes", name)) }
