package telemetry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

func mustServer(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10*time.Second) || !s.JetStreamEnabled() {
		t.Fatal("the server did not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

type fixedReader struct{ samples []Sample }

func (r *fixedReader) Read() []Sample {
	for i := range r.samples {
		r.samples[i].Seq += uint64(len(r.samples))
	}
	return r.samples
}

func TestSensorToBuffer(t *testing.T) {
	nc, js := mustServer(t)
	ctx := testContext(t)
	if _, err := js.CreateStream(ctx, bufferConfig(1<<20, time.Hour)); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	in, err := StartIngress(IngressConfig{Conn: nc, Sources: []string{"host", "gpu"}, Now: func() time.Time { return now }, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	reader := &fixedReader{[]Sample{{Signal: "up", Time: now, Value: 1}, {Signal: "beat", Time: now, Value: 1}}}
	sensor, stop := context.WithCancel(ctx)
	sensed := make(chan error, 1)
	go func() {
		sensed <- RunSensor(sensor, SensorConfig{Source: "host", Stream: "b", Reader: reader, Publisher: NATSPublisher{nc}, Interval: time.Millisecond})
	}()

	enough := errors.New("enough")
	seen := 0
	err = Buffer{js}.Read(ctx, "host", 0, func(_ uint64, body []byte) error {
		a, err := ParseArrival("host", body)
		if err != nil {
			return err
		}
		if !a.Arrived.Equal(now) || len(a.Samples) != 2 || a.Samples[0].Source != "host" || a.Samples[0].Stream != "b" {
			t.Errorf("%+v", a)
		}
		if seen++; seen == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	stop()
	if err := <-sensed; !errors.Is(err, context.Canceled) {
		t.Errorf("sensor ended with %v", err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestIngressRefuses(t *testing.T) {
	nc, js := mustServer(t)
	ctx := testContext(t)
	if _, err := js.CreateStream(ctx, bufferConfig(1<<20, time.Hour)); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	in, err := StartIngress(IngressConfig{Conn: nc, Sources: []string{"host"}, Now: func() time.Time { return now }, Keep: 600 * time.Millisecond, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"v":1,"stream":"b","samples":[{"seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":1}]}`
	for _, bad := range []string{
		"", "x", `{"v":1,"stream":"b","samples":[]}`, strings.Replace(good, `"stream"`, `"source":"gpu","stream"`, 1),
		strings.Replace(good, "12:00:00Z", "12:01:01Z", 1),
	} {
		if err := nc.Publish(Subject("host"), []byte(bad)); err != nil {
			t.Fatal(err)
		}
	}
	m := nats.NewMsg(Subject("host"))
	m.Data = []byte(good)
	m.Header.Set(jetstream.MsgIDHeader, "occupied")
	m.Header.Set("Nats-Expected-Last-Sequence", "99")
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	err = Buffer{js}.Read(ctx, "host", 0, func(seq uint64, body []byte) error {
		raw, err := js.Stream(ctx, StreamName)
		if err != nil {
			return err
		}
		stored, err := raw.GetMsg(ctx, seq)
		if err != nil {
			return err
		}
		if len(stored.Header) != 0 || stored.Subject != BufferSubject("host") {
			t.Errorf("header %v on %s", stored.Header, stored.Subject)
		}
		if want := string(EncodeArrival(now, []byte(good))); string(body) != want {
			t.Errorf("%s, want %s", body, want)
		}
		return context.Canceled
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := in.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := in.Stats(), (IngressStats{Received: 6, Refused: 5, Forwarded: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := js.DeleteStream(ctx, StreamName); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(Subject("host"), []byte(good)); err != nil {
		t.Fatal(err)
	}
	for in.Stats().Lost == 0 {
		if err := ctx.Err(); err != nil {
			t.Fatal("a batch without a buffer was not counted as lost")
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := StartIngress(IngressConfig{Conn: nc, Sources: []string{"host.>"}}); err == nil {
		t.Error("a source with a wildcard was accepted")
	}
}

func TestNATSSink(t *testing.T) {
	nc, _ := mustServer(t)
	sub, err := nc.SubscribeSync(Subject("s"))
	if err != nil {
		t.Fatal(err)
	}
	sink := NATSSink{nc, "s"}
	var many []Sample
	for i := range MaxBatchSamples + 1 {
		many = append(many, Sample{Stream: "b", Seq: uint64(i + 1), Signal: "up", Time: conformanceStart, Value: 1})
	}
	if err := sink.Send(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	got := 0
	for got < len(many) {
		m, err := sub.NextMsgWithContext(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		samples, err := ParseBatch("s", m.Data)
		if err != nil {
			t.Fatal(err)
		}
		got += len(samples)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sink.Send(ended, many[:1]); !errors.Is(err, context.Canceled) {
		t.Errorf("without an answer of the broker: %v", err)
	}
	nc.Close()
	if err := sink.Send(t.Context(), many[:1]); !errors.Is(err, ErrNotConnected) {
		t.Errorf("without a broker: %v", err)
	}
}

func TestBufferRewound(t *testing.T) {
	_, js := mustServer(t)
	ctx := testContext(t)
	if _, err := js.CreateStream(ctx, bufferConfig(1<<20, time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(ctx, BufferSubject("host"), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	b := Buffer{js}
	if err := b.Read(ctx, "host", 4, nil); !errors.Is(err, ErrRewound) {
		t.Errorf("a cursor beyond the end: %v", err)
	}
	stop := errors.New("stop")
	var got []uint64
	err := b.Read(ctx, "host", 1, func(seq uint64, _ []byte) error {
		got = append(got, seq)
		if seq == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || len(got) != 2 || got[0] != 2 {
		t.Errorf("read %v, %v", got, err)
	}
	short, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- b.Read(short, "host", 3, func(uint64, []byte) error { return stop }) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
}

// bufferConfig is a small buffer stream.
func bufferConfig(maxBytes int64, maxAge time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamName, Subjects: []string{BufferSubject("*")}, Storage: jetstream.FileStorage,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxBytes: maxBytes, MaxAge: maxAge,
	}
}
