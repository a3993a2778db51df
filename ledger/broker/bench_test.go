package broker

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
)

// BenchmarkRead reads a stream of 600-byte records from end to end through an
// ordered consumer: in the STORE account and through a READ account, within
// the process and over loopback TCP.
func BenchmarkRead(b *testing.B) {
	const records = 200_000
	h := startHouse(b)
	fillBatches(b, h.connect(b, principal.LoggerStore), records)
	direct := func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.New(nc) }
	type connect func(testing.TB, string, ...nats.Option) *nats.Conn
	for _, c := range []struct {
		name, user string
		connect    connect
		api        func(*nats.Conn) (jetstream.JetStream, error)
	}{
		{"store/in-process", principal.LoggerStore, h.connect, direct},
		{"store/tcp", principal.LoggerStore, h.dial, direct},
		{"read/in-process", principal.ReadProjector, h.connect, ReadAPI},
		{"read/tcp", principal.ReadProjector, h.dial, ReadAPI},
	} {
		for _, o := range []struct {
			name string
			opt  []jetstream.PullConsumeOpt
		}{
			{"default", nil},
			{"8MiB", []jetstream.PullConsumeOpt{pullOptions}},
		} {
			b.Run(c.name+"/"+o.name, func(b *testing.B) {
				js, err := c.api(c.connect(b, c.user))
				must(b, err)
				for b.Loop() {
					countRecords(b, js, records, o.opt)
				}
				b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

func countRecords(b *testing.B, js jetstream.JetStream, records int, opts []jetstream.PullConsumeOpt) {
	c, err := js.OrderedConsumer(b.Context(), LedgerStream, readFrom(1))
	must(b, err)
	done, n := make(chan struct{}), 0
	cc, err := c.Consume(func(jetstream.Msg) {
		if n++; n == records {
			close(done)
		}
	}, opts...)
	must(b, err)
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		b.Fatalf("stopped at %d records", n)
	}
	cc.Stop()
	<-cc.Closed()
}

func fillBatches(b *testing.B, nc *nats.Conn, records int) {
	b.Helper()
	body := bytes.Repeat([]byte("x"), 600)
	for first := 0; first < records; first += MaxBatch {
		for i := range MaxBatch {
			m := &nats.Msg{Subject: "ledger.claim.recorded", Data: body, Header: nats.Header{
				"Nats-Batch-Id": {fmt.Sprint(first)}, "Nats-Batch-Sequence": {fmt.Sprint(i + 1)}}}
			if i < MaxBatch-1 {
				must(b, nc.PublishMsg(m))
				continue
			}
			m.Header.Set("Nats-Batch-Commit", "1")
			must1(nc.RequestMsg(m, 30*time.Second))
		}
	}
}
