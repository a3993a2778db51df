package stream_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/ledger"
	"assay/ledger/stream"
)

// asked opens the stream by way of an API that passes each request on to the
// server, except those that instead says true of, which it has dealt with.
func asked(t testing.TB, nc *nats.Conn, instead func(api string, m *nats.Msg) bool) *stream.Stream {
	t.Helper()
	const prefix = "ASKED.API"
	pass := func(m *nats.Msg) {
		api := strings.TrimPrefix(m.Subject, prefix+".")
		if instead(api, m) {
			return
		}
		if err := nc.PublishRequest("$JS.API."+api, m.Reply, m.Data); err != nil {
			t.Error(err)
		}
	}
	if _, err := nc.Subscribe(prefix+".>", pass); err != nil {
		t.Fatal(err)
	}
	return open(t, nc, stream.Config{APIPrefix: prefix, Timeout: 500 * time.Millisecond})
}

// What servers say while they elect a leader: nothing, if the one that ought to
// answer is gone, or that there is none.
const (
	noServersLeader = `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	noStreamsLeader = `{"config":{"num_replicas":3},"cluster":{}}`
)

// TestReadWaitsOutAnElection: of the stream's leader, who says where it ends, and
// of the servers' own, who makes consumers.
func TestReadWaitsOutAnElection(t *testing.T) {
	for _, c := range []struct{ name, api, answer string }{
		{"silence on where it ends", "STREAM.INFO.", ""},
		{"silence on a consumer", "CONSUMER.CREATE.", ""},
		{"no leader of the servers on where it ends", "STREAM.INFO.", noServersLeader},
		{"no leader of the servers on a consumer", "CONSUMER.CREATE.", noServersLeader},
		{"no leader of the stream", "STREAM.INFO.", noStreamsLeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nc := plainServer(t, 0)
			mustAppend(t, open(t, nc, stream.Config{}), 1, 10)
			var seen atomic.Int64
			s := asked(t, nc, func(api string, m *nats.Msg) bool {
				if !strings.HasPrefix(api, c.api) || seen.Add(1) > 3 {
					return false
				}
				if c.answer != "" {
					if err := m.Respond([]byte(c.answer)); err != nil {
						t.Error(err)
					}
				}
				return true
			})
			var last ledger.Seq
			err := s.Read(t.Context(), 1, 10, func(seq ledger.Seq, _ []byte) error { last = seq; return nil })
			if err != nil || last != 10 || seen.Load() != 4 {
				t.Errorf("read up to %d, asked %d times: %v", last, seen.Load(), err)
			}
		})
	}
}

// TestReadLeavesACopyThatStandsStill: a consumer delivers what its server's copy
// has. Here that is a stream which is given no more than the first five messages.
func TestReadLeavesACopyThatStandsStill(t *testing.T) {
	t.Parallel()
	const behind = "BEHIND"
	nc := plainServer(t, 0)
	mustAppend(t, open(t, nc, stream.Config{}), 1, 10)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: behind, Subjects: []string{"behind"}}); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages(1, 5) {
		if _, err := js.Publish(t.Context(), "behind", m.Body); err != nil {
			t.Fatal(err)
		}
	}
	var consumers atomic.Int64
	s := asked(t, nc, func(api string, m *nats.Msg) bool {
		if strings.HasPrefix(api, "CONSUMER.CREATE.") {
			consumers.Add(1)
		}
		if !strings.HasPrefix(api, "CONSUMER.") || consumers.Load() > 1 {
			return false
		}
		body := bytes.ReplaceAll(m.Data, []byte(stream.Name), []byte(behind))
		if err := nc.PublishRequest("$JS.API."+strings.Replace(api, stream.Name, behind, 1), m.Reply, body); err != nil {
			t.Error(err)
		}
		return true
	})
	var got []string
	err = s.Read(t.Context(), 1, 10, func(seq ledger.Seq, body []byte) error {
		got = append(got, fmt.Sprintf("%d %s", seq, body))
		return nil
	})
	if err != nil || consumers.Load() != 2 {
		t.Errorf("%d consumers: %v", consumers.Load(), err)
	}
	for i, m := range messages(1, 10) {
		if want := fmt.Sprintf("%d %s", i+1, m.Body); i >= len(got) || got[i] != want {
			t.Fatalf("read %q, want %s in place %d", got, want, i)
		}
	}
	if len(got) != 10 {
		t.Errorf("read %q", got)
	}
}
