package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
	"assay/ledger/logger"
)

// otherClock is the host's clock at another time.
type otherClock struct {
	logger.Clock
	off time.Duration
}

func (c otherClock) Wall() time.Time { return c.Clock.Wall().Add(c.off) }

func clockAt(at time.Time) logger.Clock {
	c := logger.SystemClock()
	return otherClock{c, at.Sub(c.Wall())}
}

// fortnight is how long closedWeek stands still.
const fortnight = 14 * 24 * time.Hour

// closedWeek is a house in which three useful claims were made at a time, whose week
// was closed when it started again a fortnight later; zone "" is UTC. Before the week
// is over, fn is called. The house runs until stop.
func closedWeek(t *testing.T, zone string, at time.Time, fn func(c command)) (c command, stop func()) {
	t.Helper()
	c = command{t, filepath.Join(t.TempDir(), "ledger")}
	clock := clockAt(at)
	if _, err := node.Init(t.Context(), node.InitConfig{Dir: node.Dir(c.dir), OfflineDir: t.TempDir(), WeekZone: zone, Clock: clock, Software: "test", Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	up := func(clock logger.Clock) (stop func()) {
		u, err := node.StartUp(t.Context(), node.UpConfig{Dir: node.Dir(c.dir), Software: "test", Seal: time.Hour, Clock: clock, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := u.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	stop = up(clock)
	for i := range 3 {
		c.must(0, fmt.Sprintf(`{"type":"claim.recorded","data":{"context":{},"claim_id":"claim-%d","status":"asserted","proposition":{"variable":"v","value":"x"}}}`, i), "emit")
		c.must(0, fmt.Sprintf(`{"type":"fix.rechecked","data":{"context":{},"claim_id":"claim-%d","result":"confirmed","source":"instrument","direct":true}}`, i), "emit", "--as", "operator/main")
	}
	fn(c)
	stop()
	return c, up(clockAt(at.Add(fortnight)))
}

// TestAuditSampleIsPublished: in a house that has closed a week the sample goes into
// the ledger once, whoever asks for it again gets the first receipt, and what is
// published holds.
func TestAuditSampleIsPublished(t *testing.T) {
	c, stop := closedWeek(t, "", time.Now().Add(-fortnight), func(command) {})
	defer stop()
	deadline := time.Now().Add(30 * time.Second)
	sample := func(args ...string) (r sampleResult) {
		t.Helper()
		code, out, errs := c.run("", append([]string{"--json", "audit", "sample"}, args...)...)
		for code != 0 && strings.Contains(errs, node.ErrUnsigned.Error()) && time.Now().Before(deadline) { // the checkpoint follows once a second
			time.Sleep(50 * time.Millisecond)
			code, out, errs = c.run("", append([]string{"--json", "audit", "sample"}, args...)...)
		}
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
		}
		return r
	}
	if r := sample("--dry-run"); r.Published || r.Seq != nil || len(r.Sample.Strata[0].Cases) != 3 {
		t.Fatalf("%+v", r)
	}
	c.must(3, "", "audit", "check") // nothing was published
	c.must(1, "", "audit", "sample", "--as", "operator/nobody")
	c.must(3, "", "audit", "check")

	first := sample("--wanted", "apparent_success=2")
	if !first.Published || first.Seq == nil || len(first.Leaf) != 64 || first.RecordedAt == "" || len(first.Sample.Strata[0].Cases) != 2 {
		t.Fatalf("%+v", first)
	}
	for _, args := range [][]string{{"--wanted", "apparent_success=2"}, {"--wanted", "apparent_success=2", "--week", first.Sample.Week}, {"--wanted", "apparent_success=2", "--dry-run"}} {
		if again := sample(args...); !again.Published || *again.Seq != *first.Seq || again.Leaf != first.Leaf || again.RecordedAt != first.RecordedAt {
			t.Errorf("%v: %+v, first %+v", args, again, first)
		}
	}
	if out := c.must(1, "", "audit", "sample"); !strings.Contains(out, fmt.Sprintf("were sampled by operator/main in record %d, and otherwise: stratum 1", *first.Seq)) {
		t.Error(out)
	}
	if out := c.must(0, "", "audit", "check"); !strings.Contains(out, fmt.Sprintf("match       record %d (operator/main)", *first.Seq)) {
		t.Error(out)
	}
	shown := c.must(0, "", "show", fmt.Sprint(*first.Seq))
	for _, want := range []string{first.Leaf, `"audit.sampled"`, `"author": "operator/main"`, first.Sample.Seed, first.Sample.Week} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in\n%s", want, shown)
		}
	}
	// Another namespace is another sample.
	if r := sample("--namespace", "shadow"); *r.Seq == *first.Seq || r.Sample.Namespace != "shadow" || r.Sample.Strata[0].Population != 0 {
		t.Errorf("%+v", r)
	}
	// A set of its own is a sample of its own, beside the outcomes of the same week.
	if r := sample("--set", "edges"); *r.Seq == *first.Seq || *r.Sample.Set != "edges" {
		t.Errorf("%+v", r)
	}
	// Labels go into the ledger once; a rater goes on where she was.
	id := first.Sample.Strata[0].Cases[0].ID
	out := c.must(0, "", "audit", "label", "--label", id+"=no", "--blind")
	if !strings.Contains(out, "claim "+id+": record ") {
		t.Error(out)
	}
	if out := c.must(0, "", "audit", "label", "--label", id+"=no"); !strings.Contains(out, "claim "+id+": labelled before, in record ") {
		t.Error(out)
	}
	if out := c.must(0, "y\n", "audit", "label"); strings.Contains(out, "claim "+id) || strings.Count(out, ": record ") != 1 {
		t.Error(out)
	}
	if out := c.must(0, "", "audit", "report"); !strings.Contains(out, "2 of 3 drawn; labelled 2, by two raters 0") || !strings.Contains(out, "edges of "+first.Sample.Week) {
		t.Error(out)
	}
	for { // the views follow
		code, out, errs := c.run("", "explain", "unsupported_commitments")
		if strings.Contains(out, "0.5 (1/2)") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
