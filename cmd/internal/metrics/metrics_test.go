package metrics

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"assay/ledger"
	"assay/ledger/logger"
	"assay/projector"
	"assay/resolver/telemetry"
)

func scrape(t *testing.T, s *Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	problems, err := promlint.New(bytes.NewReader(w.Body.Bytes())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	return w.Body.String()
}

// TestScrape: every part of a snapshot has its numbers, and what is absent or
// unknown has none.
func TestScrape(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	age, free := 1.5, uint64(7)
	snap := Snapshot{}
	s := New(Config{Software: `a "build"`, Snapshot: func() Snapshot { return snap }})
	if text := scrape(t, s); strings.Contains(text, "assay_ledger") || strings.Contains(text, "assay_broker") ||
		!strings.Contains(text, "assay_ready 0\n") || !strings.Contains(text, `version="a \"build\""`) {
		t.Errorf("nothing runs:\n%s", text)
	}
	observer := s.Observer()
	observer.Appended(100, 5000, 15*time.Millisecond)
	observer.Answered(20 * time.Millisecond)
	s.Gauge("gateway_spooled_events", "Events that wait in the spool.", func() float64 { return 42 })
	s.Counter("gateway_events_total", "Events that came in.", func() float64 { return 43 })
	snap = Snapshot{
		Ready:  true,
		Broker: &Broker{Serving: true, FreeBytes: &free, Refused: map[string]uint64{"agent/piper": 3}},
		Logger: &logger.Status{
			State: logger.LowDisk, Size: 12, CheckpointSize: 11, LedgerTime: "2026-11-30T12:00:00.500000000Z", LeaseAge: &age,
			WaitingBy: map[string]int{"agent/piper": 4}, Rejected: map[string]uint64{"conflict": 2}, Unavailable: 5, Dropped: 6, Warning: "w",
			Witnessing: &logger.Witnessing{Size: 10, Witnesses: []logger.WitnessStatus{{Name: "w\"1", Size: 9, AgeSeconds: &age, Error: "x"}, {Name: "w2"}}},
		},
		Projector: &projector.Status{Seq: 8, Head: 12, Parked: 1, Halted: "h"},
		Ingress:   &telemetry.IngressStats{Received: 9, Refused: 1, Forwarded: 5, Lost: 2, Dropped: 3},
		Resolver: &Resolver{
			Applied: 11, Differed: 1, Skipped: 2, LedgerTime: at.Add(time.Minute), Open: 3, Oldest: at,
			Watermarks: map[string]time.Time{"host": at.Add(30 * time.Second), "silent": {}},
		},
	}
	snap.Projector.Views = map[string]ledger.Seq{"claims": 8, "episodes": 12}
	text := scrape(t, s)
	for _, line := range []string{
		`assay_ready 1`, `assay_broker_disk_free_bytes 7`, `assay_broker_refused_total{principal="agent/piper"} 3`,
		`assay_logger_state{state="low_disk"} 1`, `assay_logger_state{state="serving"} 0`, `assay_ledger_records 12`, `assay_checkpoint_records 11`,
		`assay_ledger_time_timestamp_seconds 1.7960400005e+09`, `assay_logger_lease_age_seconds 1.5`, `assay_logger_warning 1`,
		`assay_intake_waiting_events{principal="agent/piper"} 4`, `assay_intake_rejected_total{code="conflict"} 2`,
		`assay_intake_rejected_total{code="bad_json"} 0`, `assay_intake_unavailable_total 5`, `assay_intake_dropped_total 6`,
		`assay_witnessed_records 10`, `assay_witness_cosigned_records{witness="w\"1"} 9`, `assay_witness_failing{witness="w\"1"} 1`,
		`assay_witness_failing{witness="w2"} 0`, `assay_projector_lag_records{projection="claims"} 4`, `assay_projector_lag_records{projection="episodes"} 0`,
		`assay_projector_halted 1`, `assay_telemetry_batches_total{outcome="lost"} 2`, `assay_predictions_open 3`,
		`assay_prediction_oldest_open_age_seconds 60`, `assay_telemetry_watermark_lag_seconds{source="host"} 30`,
		`assay_append_records_total 100`, `assay_append_batch_records_sum 100`, `assay_append_duration_seconds_bucket{le="0.02"} 1`,
		`assay_intake_answer_duration_seconds_count 1`, `assay_gateway_spooled_events 42`, `assay_gateway_events_total 43`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, absent := range []string{"assay_checkpoint_age_seconds", `witness="w2"} 1.5`, "assay_broker_store_bytes", `source="silent"`} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is shown", absent)
		}
	}
}

// TestObserverIsCheap: what the writer does for a batch allocates nothing.
func TestObserverIsCheap(t *testing.T) {
	o := New(Config{Snapshot: func() Snapshot { return Snapshot{} }}).Observer()
	if n := testing.AllocsPerRun(1000, func() {
		o.Appended(3500, 2<<20, 60*time.Millisecond)
		o.Answered(70 * time.Millisecond)
	}); n != 0 {
		t.Errorf("%g allocations a batch", n)
	}
}

func BenchmarkObserver(b *testing.B) {
	o := New(Config{Snapshot: func() Snapshot { return Snapshot{} }}).Observer()
	b.ReportAllocs()
	for b.Loop() {
		o.Appended(3500, 2<<20, 60*time.Millisecond)
		o.Answered(70 * time.Millisecond)
	}
}
