package doctor

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/cmd/internal/node"
	"assay/events/publish/spool"
	"assay/ledger/logger"
)

func gatewayOf(s node.SpoolStatus) node.Status {
	if s.Limit == 0 {
		s.Limit = 1
	}
	return node.Status{Gateway: &node.GatewayStatus{Spools: map[string]node.SpoolStatus{"agent/piper": s}}}
}

// TestStatuses: what a service says of itself becomes a finding.
func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		status node.Status
		want   want
	}{
		{"broker failed", node.Status{Broker: &node.BrokerStatus{State: "failed", Detail: "write error"}}, want{"broker store", Fail, "write error"}},
		{"broker restarted", node.Status{Broker: &node.BrokerStatus{State: "serving", Restarts: 2, Restarted: "no space"}}, want{"broker store", Warn, "2 times"}},
		{"foreign record", node.Status{Logger: &node.LoggerStatus{State: logger.ForeignIn, Detail: "record 7"}}, want{"logger", Fail, "record 7"}},
		{"low disk", node.Status{Logger: &node.LoggerStatus{State: logger.LowDisk}}, want{"logger", Fail, "low_disk"}},
		{"undecided", node.Status{Logger: &node.LoggerStatus{State: logger.Undecided}}, want{"logger", Warn, "undecided"}},
		{"standing by", node.Status{Logger: &node.LoggerStatus{State: logger.StandingBy}}, want{"logger", OK, "standby"}},
		{"stopped", node.Status{Logger: &node.LoggerStatus{State: logger.Stopped}}, want{"logger", Fail, "stopped"}},
		{"logger warns", node.Status{Logger: &node.LoggerStatus{State: logger.Serving, Warning: "the index was rolled back"}}, want{"logger", Warn, "rolled back"}},
		{"halted", node.Status{Projector: &node.ProjectorStatus{Seq: 3, Head: 9, Halted: "gap at 4"}}, want{"projector", Fail, "gap at 4"}},
		{"rebuilding", node.Status{Projector: &node.ProjectorStatus{Rebuilding: []string{"claims"}}}, want{"projector", Warn, "rebuilding claims"}},
		{"behind", node.Status{Projector: &node.ProjectorStatus{Head: 20_000, Lag: 20_000}}, want{"projector", Warn, "20000 records behind"}},
		{"parked", node.Status{Projector: &node.ProjectorStatus{Parked: 2}}, want{"projector", Warn, "2 records could not be applied"}},
		{"resolver behind", node.Status{Resolver: &node.ResolverStatus{Applied: 5}}, want{"resolver", Warn, "50000 records are signed"}},
		{"resolver differs", node.Status{Resolver: &node.ResolverStatus{Differed: 1}}, want{"resolver", Warn, "1 stored events differ"}},
		{"resolver skips", node.Status{Resolver: &node.ResolverStatus{Skipped: 1}}, want{"resolver", Warn, "1 records do not decode"}},
		{"resolver cannot say", node.Status{Resolver: &node.ResolverStatus{Unsaid: 1}}, want{"resolver", Fail, "1 rollbacks that the ledger calls for"}},
		{"telemetry lost", node.Status{Telemetry: &node.TelemetryStatus{Received: 3, Lost: 1}}, want{"telemetry", Warn, "1 lost"}},
		{"gateway", gatewayOf(node.SpoolStatus{}), want{"gateway", OK, "nothing is spooled"}},
		{"spooled", gatewayOf(node.SpoolStatus{Stats: spool.Stats{Events: 3, Bytes: 900, Limit: 1000}}), want{"gateway", Warn, "3 events in 900 of 1000 bytes"}},
		{"spool full", gatewayOf(node.SpoolStatus{Stats: spool.Stats{Events: 3, Bytes: 1000, Limit: 1000}}), want{"gateway", Fail, "it is full"}},
		{"spool stuck", gatewayOf(node.SpoolStatus{Stats: spool.Stats{Limit: 1000}, Trouble: "torn"}), want{"gateway", Fail, "not delivered: torn"}},
		{"spooled and refused", gatewayOf(node.SpoolStatus{Stats: spool.Stats{Limit: 1000}, Refused: 2}), want{"gateway", Warn, "refused 2 events of agent/piper"}},
		{"none of them", node.Status{}, want{"logger", Unknown, "does not answer here"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &exam{statuses: []node.Status{c.status}, signed: 50_000}
			e.services(t.Context())
			if !e.report.has(c.want) {
				t.Errorf("want %v\n%s", c.want, e.report.text())
			}
		})
	}
}

// TestStreamSigns: what the broker says of a stream that is not whole.
func TestStreamSigns(t *testing.T) {
	for _, c := range []struct {
		name, info string
		want       want
	}{
		{"whole", `{"state":{"messages":9,"first_seq":1,"last_seq":9}}`, want{"stream", OK, "records 1 to 9"}},
		{"empty", `{"state":{"messages":0,"first_seq":0,"last_seq":0}}`, want{"stream", Fail, "empty"}},
		{"deleted", `{"state":{"messages":8,"first_seq":1,"last_seq":9,"num_deleted":1}}`, want{"stream", Fail, "1 messages are missing between"}},
		{"begins late", `{"state":{"messages":8,"first_seq":2,"last_seq":9}}`, want{"stream", Fail, "first records are missing"}},
		{"lost", `{"state":{"messages":9,"first_seq":1,"last_seq":9,"lost":{"msgs":[3],"bytes":100}}}`, want{"stream", Fail, "lost messages"}},
		{"numbers", `{"state":{"messages":8,"first_seq":1,"last_seq":9}}`, want{"stream", Fail, "do not agree"}},
		{"replica offline", `{"cluster":{"replicas":[{"name":"b","offline":true,"active":1000}]}}`, want{"replicas", Fail, "b is offline"}},
		{"replica behind", `{"cluster":{"replicas":[{"name":"b","current":false,"active":1000,"lag":7}]}}`, want{"replicas", Warn, "7 operations behind"}},
		{"replica", `{"cluster":{"leader":"a","replicas":[{"name":"b","current":true,"active":1000}]}}`, want{"replicas", OK, "b is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var info streamInfo
			if err := json.Unmarshal([]byte(c.info), &info, jsontext.AllowDuplicateNames(true)); err != nil {
				t.Fatal(err)
			}
			e := &exam{}
			e.judgeStream(info)
			e.replicas(info)
			if !e.report.has(c.want) {
				t.Errorf("want %v\n%s", c.want, e.report.text())
			}
		})
	}
}
