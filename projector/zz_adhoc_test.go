package projector_test

import (
	"context"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/ledger"
	"assay/ledger/stream"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

type src struct{ *stream.Stream }

func (s src) Head(ctx context.Context) (ledger.Seq, error) {
	h, err := s.Stream.Head(ctx)
	return h.Last, err
}

func TestAdhoc(t *testing.T) {
	if os.Getenv("ADHOC") == "" {
		t.Skip()
	}
	const n = 200_000
	dir := t.TempDir()
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Port: -1, NoSigs: true, JetStreamLimits: server.JSLimitOpts{MaxBatchSize: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	srv.ReadyForConnections(5 * time.Second)
	defer srv.Shutdown()
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	js, _ := jetstream.New(nc)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: stream.Name, Subjects: []string{"ledger.>"}, AllowAtomicPublish: true, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), n)
	for i := 1; i <= n; i++ {
		js.PublishAsync("ledger.x", l.Body(ledger.Seq(i)))
		if i%2000 == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	l = nil
	s, err := stream.New(nc, stream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c0, t0 := cpuNow(), time.Now()
		k := 0
		if err := s.Read(ctx, 1, n, func(ledger.Seq, []byte) error { k++; return nil }); err != nil || k != n {
			t.Fatal(k, err)
		}
		bare, bareCPU := time.Since(t0), cpuNow()-c0
		c0, t0 = cpuNow(), time.Now()
		if _, err := projector.Replay(ctx, projector.ReplayConfig{Source: src{s}, Projections: view.All(), Dir: dir}); err != nil {
			t.Fatal(err)
		}
		rep, repCPU := time.Since(t0), cpuNow()-c0
		t.Logf("bare %.0f/s (%.1f cpu-us)  replay %.0f/s (%.1f cpu-us)  ratio %.2f cpu-ratio %.2f", n/bare.Seconds(), bareCPU.Seconds()*1e6/n, n/rep.Seconds(), repCPU.Seconds()*1e6/n, bare.Seconds()/rep.Seconds(), bareCPU.Seconds()/repCPU.Seconds())
	}
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
