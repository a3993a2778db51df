package broker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"assay/internal/principal"
)

const (
	// DefaultListen is the address in the rendered file. It is loopback; an
	// external server is given another port with nats-server -p.
	DefaultListen = "127.0.0.1:4222"
	// MaxPayload is the largest message in bytes, headers included.
	MaxPayload = 2 << 20
	// MaxBatch is the largest atomic batch in messages.
	MaxBatch = 5000

	// The server's own default for file storage is 75 % of the space free at
	// each start, which a growing ledger would fall under. The logger's
	// low-water mark is what guards the disk.
	maxFileStore = 1 << 50
	// Bytes for the state of consumers; no stream is kept in memory.
	maxMemoryStore = 64 << 20
)

// Dir is assay's directory; its methods name the broker's files in it.
type Dir string

// Config is the server's configuration file.
func (d Dir) Config() string { return filepath.Join(string(d), "broker", "nats.conf") }

// Store is the server's store_dir; the streams are in its folder jetstream.
func (d Dir) Store() string { return filepath.Join(string(d), "broker") }

// URLFile names the running broker's address.
func (d Dir) URLFile() string { return filepath.Join(string(d), "run", "nats.url") }

func (d Dir) lock() string { return filepath.Join(string(d), "broker", "lock") }

// RenderConfig is what the configuration file is made from.
type RenderConfig struct {
	Principals *principal.File
	Services   *principal.Services
	// StoreDir is the absolute path of the streams' directory.
	StoreDir string
	// Listen is host:port; "" is DefaultListen.
	Listen string
	// Cluster makes the server the one that its Node names; nil is a server
	// that is alone. Listen is then the peer's own.
	Cluster *Cluster
}

// Render is the complete configuration of a nats-server, embedded or not. The
// same input gives the same bytes.
func Render(c RenderConfig) ([]byte, error) {
	if !filepath.IsAbs(c.StoreDir) || strings.ContainsFunc(c.StoreDir, unicode.IsControl) {
		return nil, fmt.Errorf("store directory %q: want an absolute path without control characters", c.StoreDir)
	}
	if err := errors.Join(c.Principals.Validate(), c.Services.Validate()); err != nil {
		return nil, err
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	name := "assay"
	if c.Cluster != nil {
		self, ok := c.Cluster.self()
		if err := c.Cluster.Validate(); err != nil || !ok {
			return nil, errors.Join(err, fmt.Errorf("render a broker of a cluster: %w: %q", ErrNoNode, c.Cluster.Node))
		}
		name, c.Listen = self.Name, self.client()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Made by assay from principals.json and services.json, and made again whenever
# a principal changes. Do not edit.
server_name: %s
listen: %s
max_payload: %d

jetstream {
  store_dir: %s
  sync_interval: always
  max_file_store: %d
  max_memory_store: %d
  limits { batch { max_msgs: %d } }
}

`, quote(name), quote(c.Listen), MaxPayload, quote(c.StoreDir), int64(maxFileStore), maxMemoryStore, MaxBatch)
	if c.Cluster != nil {
		c.Cluster.render(&b)
	}
	b.WriteString("accounts {\n")
	for _, a := range layout(c.Principals, c.Services) {
		a.render(&b)
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

func (a account) render(b *bytes.Buffer) {
	fmt.Fprintf(b, "  %s {\n", quote(a.name))
	if a.jetStream {
		b.WriteString("    jetstream: enabled\n")
	}
	if a.limited {
		fmt.Fprintf(b, "    limits { max_connections: %d, max_subscriptions: %d, max_leafnodes: 0 }\n",
			principalMaxConns, principalMaxSubs)
	}
	b.WriteString("    users = [\n")
	for _, u := range a.users {
		fmt.Fprintf(b, "      { nkey: %s, permissions {\n        publish { allow: %s }\n        subscribe { allow: %s } } }\n",
			u.nkey, list(u.publish), list(u.subscribe))
	}
	b.WriteString("    ]\n")
	if len(a.exports) > 0 {
		b.WriteString("    exports = [\n")
		for _, e := range a.exports {
			kind := "singleton"
			if e.stream {
				kind = "stream"
			}
			fmt.Fprintf(b, "      { service: %s, response_type: %s, accounts: %s }\n", quote(e.subject), kind, list(e.to))
		}
		b.WriteString("    ]\n")
	}
	if len(a.imports) > 0 {
		b.WriteString("    imports = [\n")
		for _, i := range a.imports {
			fmt.Fprintf(b, "      { service: { account: %s, subject: %s }", quote(i.account), quote(i.subject))
			if i.as != "" {
				fmt.Fprintf(b, ", to: %s", quote(i.as))
			}
			b.WriteString(" }\n")
		}
		b.WriteString("    ]\n")
	}
	b.WriteString("  }\n")
}

// quote is a string in the server's configuration language, in which a bare
// $JS would be a variable.
func quote(s string) string { return strconv.Quote(s) }

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// rendered is what DIR/broker/nats.conf must hold by the principals, services and
// cluster of DIR.
func rendered(d Dir, cluster *Cluster) ([]byte, error) {
	names := principal.Dir(d)
	f, err := principal.Load(names.Principals())
	if err != nil {
		return nil, err
	}
	s, err := principal.LoadServices(names.Services())
	if err != nil {
		return nil, err
	}
	return Render(RenderConfig{Principals: f, Services: s, StoreDir: d.Store(), Cluster: cluster})
}

// CompareConfig returns what DIR/broker/nats.conf holds and what it would be
// rendered as.
func CompareConfig(dir string) (have, want []byte, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := LoadCluster(abs)
	if err != nil {
		return nil, nil, err
	}
	if want, err = rendered(Dir(abs), cluster); err != nil {
		return nil, nil, err
	}
	have, err = os.ReadFile(Dir(abs).Config())
	return have, want, err
}

// WriteConfig renders DIR/broker/nats.conf from the principals and services of
// DIR, and says whether the file changed. Of a cluster's directory, it renders
// those of every broker below DIR/nodes.
func WriteConfig(dir string) (changed bool, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	cluster, err := LoadCluster(abs)
	if err != nil {
		return false, err
	}
	if cluster != nil && cluster.Node == "" {
		return cluster.writeNodes(abs)
	}
	want, err := rendered(Dir(abs), cluster)
	if err != nil {
		return false, err
	}
	return writeChanged(Dir(abs).Config(), want)
}
