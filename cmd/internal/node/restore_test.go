package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/events/eventstest"
	"assay/events/publish"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// past is a ledger of this machine, with two backups of it.
type past struct {
	t            *testing.T
	dir          Dir
	offline      string
	old, current string // backups
	oldSize      uint64
	size         uint64
}

func newPast(t *testing.T) *past {
	p := &past{t: t, dir: Dir(filepath.Join(t.TempDir(), "ledger")), offline: t.TempDir()}
	p.old, p.current = filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "current")
	if _, err := Init(t.Context(), InitConfig{Dir: p.dir, OfflineDir: p.offline, Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	p.live(p.dir, 3)
	p.oldSize = p.backup(p.old)
	p.live(p.dir, 3)
	p.size = p.backup(p.current)
	return p
}

// live starts broker and logger, records n events and stops.
func (p *past) live(dir Dir, n int) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), time.Minute)
	defer stop()
	up, err := StartUp(ctx, UpConfig{Dir: dir, Software: "test", Seal: time.Hour, Sensor: time.Hour, Log: zerolog.Nop()})
	if err != nil {
		p.t.Fatal(err)
	}
	nc, err := up.Hub.Connect("agent.piper")
	if err != nil {
		p.t.Fatal(err)
	}
	client := publish.New(nc, "agent/piper")
	for range n {
		if _, err := client.Publish(ctx, eventstest.Gate(p.t)); err != nil {
			p.t.Fatal(err)
		}
	}
	nc.Close()
	if err := up.Stop(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) evidence() (Evidence, error) {
	return OpenEvidence(p.t.Context(), EvidenceConfig{Dir: p.dir, Scratch: p.t.TempDir()})
}

func (p *past) backup(to string) uint64 {
	p.t.Helper()
	w, err := Backup(p.t.Context(), BackupConfig{Dir: p.dir, To: to, Secrets: true}, p.evidence)
	if err != nil {
		p.t.Fatal(err)
	}
	return w.Size
}

// lose copies the directory to a new one, without the broker's store.
func (p *past) lose() Dir {
	dir := Dir(filepath.Join(p.t.TempDir(), "lost"))
	if err := os.CopyFS(string(dir), os.DirFS(string(p.dir))); err != nil {
		p.t.Fatal(err)
	}
	for _, name := range []string{"broker/jetstream", "run"} {
		if err := os.RemoveAll(dir.join(name)); err != nil {
			p.t.Fatal(err)
		}
	}
	return dir
}

func (p *past) config(dir Dir, src string) RestoreConfig {
	c := RestoreConfig{Dir: dir, Src: src, OfflineDir: p.offline, Software: "test", Log: zerolog.Nop()}
	if src == p.old {
		c.AcceptLoss, c.As = true, "ops"
	}
	return c
}

func TestRestore(t *testing.T) {
	p := newPast(t)
	for _, test := range []struct {
		name string
		run  func(*past)
	}{
		{"cut off", interruptedRestore},
		{"half is stored", restoreGoesOn},
		{"unsigned loss", unsignedLoss},
		{"running", restoreOnARunningLedger}, // last: the ledger grows
	} {
		t.Run(test.name, func(t *testing.T) {
			p := *p
			p.t = t
			test.run(&p)
		})
	}
}

// A restore that is cut off behind any of its steps keeps the logger from
// starting, and is finished by the next; the ledger then goes on.
func interruptedRestore(p *past) {
	// Behind prepare (0), putBlobs, appendRecords, putCheckpoints, declare (4).
	for name, steps := range map[string][]int{"whole": {1, 3}, "with a loss": {0, 2, 3, 4}} {
		src := p.current
		if name != "whole" {
			src = p.old
		}
		for _, at := range steps {
			p.t.Run(fmt.Sprintf("%s, behind step %d", name, at), func(t *testing.T) {
				p := *p
				p.t = t
				dir := p.lose()
				p.cutOff(p.config(dir, src), at)
				if _, err := StartUp(t.Context(), UpConfig{Dir: dir, Log: zerolog.Nop()}); !errors.Is(err, logger.ErrRestoring) {
					t.Fatalf("up in between: %v, want ErrRestoring", err)
				}
				out, err := Restore(t.Context(), p.config(dir, src))
				if err != nil {
					t.Fatal(err)
				}
				want := p.size
				if src == p.old {
					want = p.oldSize + 1
					if l := out.Loss; l == nil || l.Size != p.oldSize || l.KnownSize < p.size || uint64(l.Seq) != want {
						t.Errorf("declared loss: %+v", l)
					}
				}
				if out.Report.Verdict != ledger.Consistent || out.Report.Size != want {
					t.Errorf("report %+v, want %d records", out.Report, want)
				}
				if at == 4 {
					p.live(dir, 1)
				}
			})
		}
	}
}

// cutOff runs a restore up to its step at, counted from prepare.
func (p *past) cutOff(c RestoreConfig, at int) {
	p.t.Helper()
	r, err := newRestore(c)
	if err != nil {
		p.t.Fatal(err)
	}
	before := r.before()
	for _, step := range before[:min(len(before), len(before)-1+at)] {
		if err := step(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
	if at < 2 {
		return
	}
	if err := r.onBroker(p.t.Context(), r.after()[:at-1]); err != nil {
		p.t.Fatal(err)
	}
}

// Half of the records are there: the rest is appended, and nothing twice. One
// that is not the backup's is refused, and the directory stays as it was.
func restoreGoesOn(p *past) {
	t := p.t
	dir := p.lose()
	p.cutOff(p.config(dir, p.current), 1)
	r, err := newRestore(p.config(dir, p.current))
	if err != nil {
		t.Fatal(err)
	}
	half := ledger.Seq(p.size / 2)
	err = r.onBroker(t.Context(), []func(context.Context, *stream.Stream) error{func(ctx context.Context, s *stream.Stream) error {
		a := &appender{to: s, next: 1, progress: r.progress("")}
		if err := r.backup.Read(ctx, 1, half, func(seq ledger.Seq, body []byte) error { return a.add(ctx, seq, body) }); err != nil {
			return err
		}
		return a.flush(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := Restore(t.Context(), p.config(dir, p.current))
	if err != nil || out.Written != p.size-uint64(half) || out.Report.Size != p.size {
		t.Errorf("%+v, %v; want %d records appended behind %d", out, err, p.size-uint64(half), half)
	}

	other := p.lose()
	p.cutOff(p.config(other, p.current), 1)
	if err := os.Remove(other.Logger().Restoring()); err != nil {
		t.Fatal(err)
	}
	err = r.elsewhere(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), p.config(other, p.current)); !errors.Is(err, ErrOtherLedger) {
		t.Errorf("over another record 1: %v, want ErrOtherLedger", err)
	}
	if began, err := other.restoring(); began != nil || err != nil {
		t.Errorf("a refused restore left its mark: %+v, %v", began, err)
	}
}

// elsewhere stores one message in the stream of a directory.
func (r *restore) elsewhere(ctx context.Context, dir Dir) error {
	there := *r
	there.Dir = dir
	return there.onBroker(ctx, []func(context.Context, *stream.Stream) error{func(ctx context.Context, s *stream.Stream) error {
		return s.Append(ctx, 1, []stream.Message{{Subject: "ledger.x", Body: []byte("another")}})
	}})
}

// What only the index knew was acked too: its loss is refused as well.
func unsignedLoss(p *past) {
	t := p.t
	dir := p.lose()
	names, err := dir.below("logger/checkpoint", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(dir.join(n)); err != nil {
			t.Fatal(err)
		}
	}
	c := p.config(dir, p.old)
	c.AcceptLoss = false
	if _, err := Restore(t.Context(), c); !errors.Is(err, ErrOlder) {
		t.Fatalf("restore of %d records where %d were acked: %v, want ErrOlder", p.oldSize, p.size, err)
	}
	out, err := Restore(t.Context(), p.config(dir, p.old))
	if err != nil || out.Loss == nil || out.Loss.KnownSize < p.size {
		t.Errorf("%+v, %v", out, err)
	}
}

// Nothing is restored onto a directory on which services run.
func restoreOnARunningLedger(p *past) {
	t := p.t
	up, err := StartUp(t.Context(), UpConfig{Dir: p.dir, Software: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), p.config(p.dir, p.current)); !errors.Is(err, ErrRunning) {
		t.Errorf("restore: %v, want ErrRunning", err)
	}
	if err := up.Stop(); err != nil {
		t.Fatal(err)
	}
	if began, err := p.dir.restoring(); began != nil || err != nil {
		t.Errorf("it left its mark: %+v, %v", began, err)
	}
}

// startNodes starts the brokers of a cluster's directory, until the test ends or stop
// is called.
func startNodes(t *testing.T, dir Dir) (stop func()) {
	t.Helper()
	cluster, err := broker.LoadCluster(string(dir))
	if err != nil || cluster == nil {
		t.Fatalf("%+v, %v", cluster, err)
	}
	var running []*broker.Broker
	stop = sync.OnceFunc(func() {
		for _, b := range running {
			if err := b.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(stop)
	for _, p := range cluster.Peers {
		b, err := broker.Start(broker.Config{Dir: string(broker.Dir(dir).Node(p.Name))})
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, b)
	}
	return stop
}

// TestRestoreACluster: a backup carries the layout of the cluster, and its secret
// only among the secrets.
func TestRestoreACluster(t *testing.T) {
	dir, offline := Dir(filepath.Join(t.TempDir(), "ledger")), t.TempDir()
	cfg := InitConfig{Dir: dir, OfflineDir: offline, Origin: "example.com/log", Software: "test", Peers: brokertest.Peers(t)}
	if _, err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	stop := startNodes(t, dir)
	cfg.Peers = nil
	if _, err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	hub, err := LocalHub(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l, err := StartLogger(ctx, hub, UpConfig{Dir: dir, Software: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := l.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	whole, open := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "open")
	sizes := map[string]uint64{}
	for to, secrets := range map[string]bool{whole: true, open: false} {
		w, err := Backup(t.Context(), BackupConfig{Dir: dir, To: to, Secrets: secrets}, func() (Evidence, error) {
			return OpenEvidence(t.Context(), EvidenceConfig{Dir: dir, Scratch: t.TempDir()})
		})
		if err != nil {
			t.Fatal(err)
		}
		sizes[to] = w.Size
	}
	stop()
	before, err := broker.LoadCluster(string(dir))
	if err != nil {
		t.Fatal(err)
	}
	for src, secret := range map[string]bool{whole: true, open: false} {
		again := Dir(filepath.Join(t.TempDir(), "again"))
		c := RestoreConfig{Dir: again, Src: src, OfflineDir: offline, Software: "test", Log: zerolog.Nop()}
		if _, err := Restore(t.Context(), c); !errors.Is(err, nats.ErrNoServers) || !strings.Contains(err.Error(), "start them, and restore again") {
			t.Fatalf("no broker runs yet: %v", err)
		}
		after, err := broker.LoadCluster(string(again))
		if err != nil || after == nil || !after.SamePeers(before.Peers) || (after.Secret == before.Secret) != secret {
			t.Fatalf("secrets %v: the layout is %+v, %v; was %+v", secret, after, err, before)
		}
		stop := startNodes(t, again)
		out, err := Restore(t.Context(), c)
		if err != nil || out.Written != sizes[src] || out.Report.Verdict != ledger.Consistent {
			t.Errorf("secrets %v: %+v, %v", secret, out, err)
		}
		stop()
		if kept, err := broker.LoadCluster(string(again)); err != nil || kept.Secret != after.Secret {
			t.Errorf("the second restore changed the layout: %v", err)
		}
		// Which broker gets the records is not left to what an earlier try put there.
		c.Embedded = true
		if _, err := Restore(t.Context(), c); !errors.Is(err, broker.ErrClustered) || !strings.Contains(err.Error(), "in a new directory") {
			t.Errorf("embedded in the directory of a cluster: %v", err)
		}
		c.Embedded, c.NATS = false, "nats://127.0.0.1:1"
		if _, err := Restore(t.Context(), c); !errors.Is(err, nats.ErrNoServers) || strings.Contains(err.Error(), "cluster") {
			t.Errorf("to another broker, which does not run: %v", err)
		}
	}
	// To one broker, if one says so.
	alone := Dir(filepath.Join(t.TempDir(), "alone"))
	c := RestoreConfig{Dir: alone, Src: whole, OfflineDir: offline, Software: "test", Embedded: true, Log: zerolog.Nop()}
	for range 2 {
		out, err := Restore(t.Context(), c)
		if err != nil || out.Report.Verdict != ledger.Consistent {
			t.Fatalf("%+v, %v", out, err)
		}
		if cluster, err := broker.LoadCluster(string(alone)); cluster != nil || err != nil {
			t.Errorf("%+v, %v", cluster, err)
		}
		c.Embedded = false // its own broker is found now
	}
}
