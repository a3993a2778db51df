package logger_test

import (
	"sync"
	"testing"
	"time"

	"assay/ledger/logger"
)

// watcher is an observer that keeps what it is told.
type watcher struct {
	mu       sync.Mutex
	appends  int
	records  int
	bytes    int
	answered int
	worst    time.Duration
}

func (w *watcher) Appended(records, bytes int, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appends, w.records, w.bytes, w.worst = w.appends+1, w.records+records, w.bytes+bytes, max(w.worst, took)
	if took <= 0 {
		w.worst = time.Hour
	}
}

func (w *watcher) Answered(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered, w.worst = w.answered+1, max(w.worst, after)
	if after <= 0 {
		w.worst = time.Hour
	}
}

// TestObserver: an observer is told of each append of the running logger and of
// one answer in each that somebody waited for; the status counts the rest.
func TestObserver(t *testing.T) {
	e := newEnv(t)
	w := &watcher{}
	e.cfg.Observer = w
	l := e.start()
	before := l.Status()
	if before.CheckpointAge == nil || *before.CheckpointAge < 0 {
		t.Errorf("logger.started was signed, its age is %v", before.CheckpointAge)
	}
	piper := l.AddSource(e.Principals.Principals[0])
	answers := make(chan []byte, 16)
	for range 5 {
		piper.Submit(gate(t), func(b []byte) { answers <- b })
		<-answers
	}
	piper.Submit([]byte("{"), func(b []byte) { answers <- b })
	<-answers
	piper.CountDropped(3)
	status := l.Status()
	if status.Dropped != 3 || status.Rejected["bad_json"] != 1 || status.Unavailable != 0 {
		t.Errorf("dropped %d, rejected %v, unavailable %d", status.Dropped, status.Rejected, status.Unavailable)
	}
	if n, ok := status.WaitingBy[e.Principals.Principals[0].ID()]; !ok || n != 0 {
		t.Errorf("waiting by principal: %v", status.WaitingBy)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	piper.Submit(gate(t), func(b []byte) { answers <- b })
	<-answers
	if n := l.Status().Unavailable; n != 1 {
		t.Errorf("unavailable %d after the stop, want 1", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Ticks and the counting record of what was dropped come on top.
	if grown := int(l.Status().Size - before.Size); w.records < 6 || w.records > grown {
		t.Errorf("told of %d records, the ledger grew by %d", w.records, grown)
	}
	if w.appends > w.records || w.answered != 6 || w.bytes < 6*200 || w.worst > time.Minute {
		t.Errorf("%d appends of %d records and %d bytes, %d answers, the longest %s", w.appends, w.records, w.bytes, w.answered, w.worst)
	}
}

// TestStatesAreListed: metrics show every state of the logger.
func TestStatesAreListed(t *testing.T) {
	seen := map[logger.State]bool{}
	for _, s := range logger.States() {
		if seen[s] {
			t.Errorf("%s is listed twice", s)
		}
		seen[s] = true
	}
	if len(seen) != 7 || !seen[logger.StandingBy] || !seen[logger.LowDisk] {
		t.Errorf("states: %v", logger.States())
	}
}
