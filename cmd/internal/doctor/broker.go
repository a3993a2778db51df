package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/cmd/internal/node"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// oldestBroker is the first version in which a publish-only user cannot reach
// JetStream by headers and reply subjects.
var oldestBroker = [3]int{2, 15, 3}

// connect finds the broker and connects as the operator's reader, or as whoever
// has a credential here.
func (e *exam) connect(context.Context) {
	const check = "broker"
	var err error
	if e.NATS != "" {
		e.hub = node.RemoteHub(e.NATS, e.CredsDir)
		e.hub.Monitor = e.Monitor
	} else if e.hub, err = node.LocalHub(e.Dir); err != nil {
		e.hub = nil
		e.add(check, Unknown, "no broker runs on this directory", "start `assay up` or `assay serve broker`, or name an external broker with --nats")
		return
	}
	nc, err := e.dial(principal.ReadOperator)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		for _, user := range append(principal.ServiceUsers(), "operator.main", "agent.piper") {
			if nc, err = e.dial(user); err == nil {
				defer nc.Close()
				break
			}
		}
	} else if err == nil {
		e.reader = nc
		if e.ledger, err = stream.New(nc, stream.Config{APIPrefix: broker.ReadPrefix, Timeout: patience}); err != nil {
			e.add(check, Fail, err.Error(), "")
			return
		}
	}
	if err != nil {
		e.hub = nil
		e.add(check, unreadable(err), err.Error(), "see whether the broker runs, and whether it was started on DIR/broker/nats.conf")
		return
	}
	e.report.Asked = true
	e.version(nc)
}

func (e *exam) dial(user string, opts ...nats.Option) (*nats.Conn, error) {
	return e.hub.Connect(user, append([]nats.Option{nats.NoReconnect(), nats.Timeout(patience)}, opts...)...)
}

func (e *exam) version(nc *nats.Conn) {
	const check = "broker"
	seen := fmt.Sprintf("nats-server %s answers at %s", nc.ConnectedServerVersion(), e.hub.URL())
	switch v, ok := parseVersion(nc.ConnectedServerVersion()); {
	case !ok:
		e.add(check, Warn, seen+": no version that this build understands", "")
	case older(v, oldestBroker):
		e.add(check, Fail, seen+": before 2.15.3 a principal that may only publish can delete a stream", "upgrade the broker to 2.15.3 or newer")
	default:
		e.add(check, OK, seen, "")
	}
}

func parseVersion(text string) (v [3]int, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "-")
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

func older(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// config holds the configuration file of each broker against what it is made from.
func (e *exam) config(context.Context) {
	for _, b := range e.brokers() {
		e.configOf(b)
	}
}

func (e *exam) configOf(b broker.Dir) {
	const check = "broker configuration"
	path := b.Config()
	have, want, err := broker.CompareConfig(string(b))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.add(check, Unknown, fmt.Sprintf("%v", err), "")
	case err != nil:
		e.add(check, unreadable(err), err.Error(), "")
	case !strings.Contains(string(have), "sync_interval: always"):
		e.add(check, Fail, path+" does not say sync_interval: always: a broker started on it acks before it fsyncs",
			"run `assay init --render-only` and start the broker on the file as it is rendered")
	case string(have) != string(want):
		e.add(check, Warn, path+" is not what principals.json and services.json make",
			"run `assay init --render-only`, then reload the broker")
	default:
		e.add(check, OK, path+" is as rendered", "")
	}
}

// settings asks when the broker fsyncs, and holds the streams' settings against
// what assay relies on.
func (e *exam) settings(ctx context.Context) {
	const fsync, check = "fsync", "stream settings"
	if !e.report.Asked || e.hub == nil {
		e.add(fsync, Unknown, "no broker to ask", "")
		e.add(check, Unknown, "no broker to ask", "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch mode, err := e.hub.SyncMode(ctx); {
	case err != nil:
		e.add(fsync, Unknown, err.Error(), "give the broker's monitoring address with --monitor")
	case mode == broker.SyncAlways:
		e.add(fsync, OK, "the broker fsyncs before it acks", "")
	case mode == broker.SyncInterval:
		e.add(fsync, Fail, "the broker acks up to minutes before it fsyncs: acknowledged records can be lost",
			"set jetstream { sync_interval: always } and restart the broker")
	default:
		e.add(fsync, Unknown, "the broker does not tell its clients when it fsyncs", "give its monitoring address with --monitor")
	}
	e.streamSettings(ctx, check, principal.LoggerStore, broker.LedgerStream, broker.QuarantineStream)
	e.streamSettings(ctx, check, principal.Ingress, broker.TelemetryStream)
}

func (e *exam) streamSettings(ctx context.Context, check, user string, names ...string) {
	listed := strings.Join(names, " and ")
	nc, err := e.dial(user)
	api := jetstream.New
	if err != nil && e.reader != nil && names[0] == broker.LedgerStream {
		// The operator's reader may ask for LEDGER alone.
		nc, err, names, listed = e.reader, nil, names[:1], broker.LedgerStream
		api = func(nc *nats.Conn, _ ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
			return broker.ReadAPI(nc)
		}
	}
	if err != nil {
		e.add(check, Unknown, fmt.Sprintf("%s: %v", listed, err), "")
		return
	}
	if nc != e.reader {
		defer nc.Close()
	}
	js, err := api(nc)
	if err != nil {
		e.add(check, Unknown, err.Error(), "")
		return
	}
	deviations, err := broker.CheckStreams(ctx, js, e.hub.Replicas(), names...)
	if err != nil {
		e.add(check, Unknown, fmt.Sprintf("%s: %v", listed, err), "")
		return
	}
	for _, d := range deviations {
		do := "run `assay init --offline-dir OFFLINE` with the bootstrap seeds: it sets the streams to what they must be"
		if e.NATS != "" {
			do += " (with --nats)"
		}
		e.add(check, Fail, d.String(), do)
	}
	if len(deviations) == 0 {
		e.add(check, OK, listed+" as they must be", "")
	}
}

// stream looks for signs that the ledger's messages are not whole.
func (e *exam) stream(ctx context.Context) {
	const check = "stream"
	if e.reader == nil {
		e.add(check, Unknown, "the stream cannot be read", "")
		return
	}
	info, err := e.info(ctx)
	if err != nil {
		e.add(check, Fail, err.Error(), "see whether the broker has the stream: `assay init` made it")
		return
	}
	e.head = ledger.Seq(info.State.Last)
	e.judgeStream(info)
	e.replicas(info)
}

func (e *exam) judgeStream(info streamInfo) {
	const check = "stream"
	s := info.State
	seen := fmt.Sprintf("records %d to %d, %d in all", s.First, s.Last, s.Messages)
	const do = "stop the logger, keep the store as it is and run `assay verify`: it names the first record that is missing"
	switch {
	case s.Messages == 0:
		e.add(check, Fail, "the stream is empty", "the ledger was opened and is gone: `assay restore` brings it back from a backup")
	case s.Lost != nil:
		e.add(check, Fail, seen+": the broker reports lost messages", do)
	case s.Deleted > 0:
		e.add(check, Fail, fmt.Sprintf("%s: %d messages are missing between them", seen, s.Deleted), do)
	case s.First != 1:
		e.add(check, Fail, seen+": the first records are missing", do)
	case s.Messages != s.Last-s.First+1:
		e.add(check, Fail, seen+": the numbers do not agree", do)
	default:
		e.add(check, OK, seen, "")
	}
}

// streamInfo is what the broker answers to STREAM.INFO, in part.
type streamInfo struct {
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
	State struct {
		Messages uint64         `json:"messages"`
		First    uint64         `json:"first_seq"`
		Last     uint64         `json:"last_seq"`
		Deleted  int            `json:"num_deleted"`
		Lost     jsontext.Value `json:"lost"`
	} `json:"state"`
	Cluster struct {
		Leader   string `json:"leader"`
		Replicas []struct {
			Name    string `json:"name"`
			Current bool   `json:"current"`
			Offline bool   `json:"offline"`
			Lag     uint64 `json:"lag"`
		} `json:"replicas"`
	} `json:"cluster"`
}

func (e *exam) info(ctx context.Context) (info streamInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := e.reader.RequestWithContext(ctx, broker.ReadPrefix+".STREAM.INFO."+broker.LedgerStream, nil)
	if err != nil {
		return info, fmt.Errorf("ask for the stream: %w", err)
	}
	// The answer is the server's, with members that change between versions.
	if err := json.Unmarshal(m.Data, &info, jsontext.AllowDuplicateNames(true)); err != nil {
		return info, fmt.Errorf("ask for the stream: %w", err)
	}
	if info.Error != nil {
		return info, fmt.Errorf("ask for the stream: %s", info.Error.Description)
	}
	return info, nil
}

func (e *exam) replicas(info streamInfo) {
	const check = "replicas"
	for _, r := range info.Cluster.Replicas {
		seen := fmt.Sprintf("%s is %d operations behind", r.Name, r.Lag)
		switch {
		case r.Offline:
			e.add(check, Fail, r.Name+" is offline", "start this broker again: one more that fails stops the ledger")
		case !r.Current:
			e.add(check, Warn, seen, "wait, and look again: it catches up by itself")
		default:
			e.add(check, OK, seen, "")
		}
	}
}
