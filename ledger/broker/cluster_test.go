package broker

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"assay/internal/principal"
)

func TestParsePeer(t *testing.T) {
	for text, want := range map[string]Peer{
		"n1=10.0.0.1":           {"n1", "10.0.0.1", 4222, 6222},
		"n1=10.0.0.1:4300":      {"n1", "10.0.0.1", 4300, 6222},
		"a-b=host.example:1:2":  {"a-b", "host.example", 1, 2},
		"n1=[fd00::1]":          {"n1", "fd00::1", 4222, 6222},
		"n1=[fd00::1]:4300:7":   {"n1", "fd00::1", 4300, 7},
		"n1":                    {},
		"n1=":                   {},
		"=10.0.0.1":             {},
		"N1=10.0.0.1":           {},
		"n1=10.0.0.1:":          {},
		"n1=10.0.0.1:0":         {},
		"n1=10.0.0.1:x":         {},
		"n1=10.0.0.1:1:2:3":     {},
		"n1=10.0.0.1:7:7":       {},
		"n1=10.0.0.1:65536":     {},
		"n1=[fd00::1":           {},
		"n1=a\"b":               {},
		"n1=a b":                {},
		"../n1=10.0.0.1":        {},
		"n1=nats://10.0.0.1:42": {},
	} {
		got, err := ParsePeer(text)
		if want == (Peer{}) {
			if !errors.Is(err, ErrPeer) {
				t.Errorf("%q: %+v, %v", text, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func threePeers() []Peer {
	return []Peer{{"n1", "10.0.0.1", 4222, 6222}, {"n2", "10.0.0.2", 4222, 6222}, {"n3", "10.0.0.3", 4222, 6222}}
}

func TestClusterFile(t *testing.T) {
	if c, err := LoadCluster(t.TempDir()); c != nil || err != nil {
		t.Errorf("a directory without: %+v, %v", c, err)
	}
	c := must1(NewCluster(threePeers()))
	dir := t.TempDir()
	must(t, c.Save(dir))
	if got := must1(LoadCluster(dir)); got.Secret != c.Secret || !got.SamePeers(c.Peers) || got.URLs() != "nats://10.0.0.1:4222,nats://10.0.0.2:4222,nats://10.0.0.3:4222" {
		t.Errorf("%+v", got)
	}
	if raw := must1(os.ReadFile(Dir(dir).Cluster())); bytes.Contains(raw, []byte(c.Secret)) {
		t.Errorf("every service can read the secret: %s", raw)
	}
	if info := must1(os.Stat(Dir(dir).ClusterSecret())); info.Mode().Perm() != 0o600 {
		t.Errorf("cluster.secret has mode %s", info.Mode())
	}
	good := string(must1(c.of("n1").encode()))
	must1(DecodeCluster([]byte(good)))
	for name, bad := range map[string]string{
		"version":      strings.Replace(good, `"v": 1`, `"v": 2`, 1),
		"unknown":      strings.Replace(good, `"v": 1`, `"v": 1, "w": 1`, 1),
		"two peers":    strings.Replace(good, `"name": "n3"`, `"name": "n2"`, 1),
		"same address": strings.Replace(good, "10.0.0.3", "10.0.0.2", 1),
		"no such node": strings.Replace(good, `"node": "n1"`, `"node": "n4"`, 1),
		"no node":      string(must1(c.encode())),
		"short secret": strings.Replace(good, c.Secret, c.Secret[2:], 1),
		"no secret":    strings.Replace(good, c.Secret, "", 1),
		"no hex":       strings.Replace(good, c.Secret, strings.Repeat("x", len(c.Secret)), 1),
		"cut off":      good[:len(good)/2],
		"empty":        "",
	} {
		if _, err := DecodeCluster([]byte(bad)); !errors.Is(err, ErrCluster) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewCluster(threePeers()[:2]); !errors.Is(err, ErrCluster) {
		t.Errorf("two brokers: %v", err)
	}
}

// A cluster whose secret is not there gets one, and its brokers the same; one that
// is there and no secret is an error.
func TestClusterWithoutSecret(t *testing.T) {
	dir, _ := initDir(t)
	c := must1(NewCluster(threePeers()))
	must(t, c.Save(dir))
	must(t, os.Remove(Dir(dir).ClusterSecret()))
	must1(WriteConfig(dir))
	made := must1(LoadCluster(dir))
	if made.Secret == "" || made.Secret == c.Secret {
		t.Fatalf("its secret is %q", made.Secret)
	}
	for _, p := range c.Peers {
		if own := must1(LoadCluster(string(Dir(dir).Node(p.Name)))); own.Secret != made.Secret {
			t.Errorf("%s has the secret %s, want %s", p.Name, own.Secret, made.Secret)
		}
	}
	for _, bad := range []string{"", "\n", "abc\n"} {
		must(t, os.WriteFile(Dir(dir).ClusterSecret(), []byte(bad), 0o600))
		if _, err := WriteConfig(dir); !errors.Is(err, ErrCluster) {
			t.Errorf("secret %q: %v", bad, err)
		}
	}
}

// Each broker's directory has what it needs to run, and nothing that another
// broker or service keeps to itself.
func TestNodeDirectories(t *testing.T) {
	dir, _ := initDir(t)
	c := must1(NewCluster(threePeers()))
	must(t, c.Save(dir))
	if changed, err := WriteConfig(dir); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if changed, err := WriteConfig(dir); err != nil || changed {
		t.Errorf("again: %v, %v", changed, err)
	}
	for _, p := range c.Peers {
		d := Dir(dir).Node(p.Name)
		opts, err := server.ProcessConfigFile(d.Config())
		if err != nil {
			t.Fatal(err)
		}
		if opts.ServerName != p.Name || opts.Host != p.Host || opts.Cluster.Host != p.Host || opts.Cluster.Port != p.Route || opts.Cluster.Password != c.Secret ||
			len(opts.Routes) != 2 || !opts.SyncAlways || opts.StoreDir != d.Store() || opts.Cluster.Name == "" {
			t.Errorf("%s: %+v", p.Name, opts)
		}
		for _, r := range opts.Routes {
			if r.Hostname() == p.Host {
				t.Errorf("%s has a route to itself", p.Name)
			}
		}
		for path, mode := range map[string]os.FileMode{d.Config(): 0o600, d.Cluster(): 0o600} {
			if info := must1(os.Stat(path)); info.Mode().Perm() != mode {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
		}
		files := must1(os.ReadDir(string(d)))
		if len(files) != 3 { // broker, cluster.json, principals.json
			t.Errorf("%s has %v", p.Name, files)
		}
	}
	if _, err := Start(Config{Dir: dir}); !errors.Is(err, ErrClustered) {
		t.Errorf("a broker on the cluster's own directory: %v", err)
	}
	// A new principal is known to every broker.
	before := must1(os.ReadFile(Dir(dir).Node("n2").Config()))
	must1(principal.Dir(dir).Add(principal.New(principal.Agent, "late", "production")))
	if changed, err := WriteConfig(dir); err != nil || !changed {
		t.Errorf("a new principal: %v, %v", changed, err)
	}
	if bytes.Equal(before, must1(os.ReadFile(Dir(dir).Node("n2").Config()))) {
		t.Error("n2 does not know the new principal")
	}
}

// freePeers are three brokers on loopback.
func freePeers(t testing.TB) []Peer {
	t.Helper()
	peers := threePeers()
	for i := range peers {
		peers[i].Host = "127.0.0.1"
		for _, port := range []*int{&peers[i].Client, &peers[i].Route} {
			ln := must1(net.Listen("tcp", "127.0.0.1:0"))
			t.Cleanup(func() { ln.Close() })
			*port = ln.Addr().(*net.TCPAddr).Port
			defer ln.Close() // all of them are chosen by then
		}
	}
	return peers
}

// TestClusterHasDoors: clients come to a broker of a cluster by its door, at the
// address that the others tell of, and by no other way.
func TestClusterHasDoors(t *testing.T) {
	dir, _ := initDir(t)
	c := must1(NewCluster(freePeers(t)))
	must(t, c.Save(dir))
	must1(WriteConfig(dir))
	nodes := map[string]*Broker{}
	for _, p := range c.Peers {
		b := must1(Start(Config{Dir: string(Dir(dir).Node(p.Name))}))
		t.Cleanup(func() { must(t, b.Stop(context.Background())) })
		nodes[p.Name] = b
	}
	agent := must1(principal.LoadCredential(principal.Dir(dir).Credential("agent.piper")))
	check := func(when string, users ...string) {
		t.Helper()
		for _, p := range c.Peers {
			b := nodes[p.Name]
			if want := "nats://" + p.client(); b.ClientURL() != want {
				t.Errorf("%s: %s is at %s, want %s", when, p.Name, b.ClientURL(), want)
			}
			for _, user := range users {
				cred := must1(principal.LoadCredential(principal.Dir(dir).Credential(user)))
				nc, err := Dial(b.ClientURL(), cred)
				if err != nil {
					t.Fatalf("%s: %s at the door of %s: %v", when, user, p.Name, err)
				}
				for deadline := time.Now().Add(20 * time.Second); len(nc.DiscoveredServers()) < len(c.Peers)-1; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s: %s tells of %v alone", when, p.Name, nc.DiscoveredServers())
					}
				}
				for _, at := range nc.DiscoveredServers() {
					if !slices.Contains(strings.Split(c.URLs(), ","), at) {
						t.Errorf("%s: %s tells of %s", when, p.Name, at)
					}
				}
				nc.Close()
				// Past the door.
				if nc, err := Dial("nats://"+b.srv.Addr().String(), cred, nats.IgnoreDiscoveredServers()); !errors.Is(err, nats.ErrAuthorization) {
					t.Errorf("%s: %s lets %s in by its own port: %v", when, p.Name, user, err)
					nc.Close()
				}
			}
			// At all of them together it may send what one lets in that is alone.
			if l := b.door.Load().limiter(agent.Public); l == nil || l.Limit()*3 != doorRate || l.Burst() != doorBurst/3 {
				t.Errorf("%s: the agent's limit at %s is %+v", when, p.Name, l)
			}
		}
	}
	check("at first", "agent.piper", principal.LoggerStore)
	must1(principal.Dir(dir).Add(principal.New(principal.Agent, "late", "production")))
	must1(WriteConfig(dir))
	for _, b := range nodes {
		must(t, b.Reload())
	}
	check("after a reload", "agent.late", "agent.piper")
	must(t, nodes["n2"].Restart(t.Context()))
	check("after a restart", "agent.late")
}

func FuzzDecodeCluster(f *testing.F) {
	c := must1(NewCluster(threePeers()))
	f.Add(must1((&Cluster{V: 1, Peers: threePeers()}).encode()))
	f.Add(must1(c.of("n2").encode()))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCluster(data)
		if err != nil {
			return
		}
		again, err := DecodeCluster(must1(c.encode()))
		if err != nil || !again.SamePeers(c.Peers) || again.Secret != c.Secret || again.Node != c.Node {
			t.Fatalf("%+v comes back as %+v, %v", c, again, err)
		}
	})
}
