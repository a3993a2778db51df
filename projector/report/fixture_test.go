package report_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/report"
	"assay/projector/view"
)

const (
	prod       = "production"
	bench      = "bench/r1"
	piper      = "agent/piper"
	detector   = "detector/main"
	dispatcher = "dispatcher/main"
	operator   = "operator/main"
	resolver   = "resolver/main"
	harness    = "harness/bench"
	logger     = "logger/main"
)

func ptr[T any](v T) *T { return &v }

// book writes a ledger by hand. Times are of the clock of the ledger.
type book struct {
	*ledgertest.Ledger
	zone *time.Location
	n    int
}

func newBook(t testing.TB, zone string) *book {
	t.Helper()
	z, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return &book{Ledger: ledgertest.New(), zone: z}
}

func (b *book) id(kind string) string { b.n++; return fmt.Sprintf("%s-%d", kind, b.n) }

// until moves the clock.
func (b *book) until(at time.Time) { b.Advance(at.Sub(b.Now())) }

// close closes the week that ends at a date's midnight, at that instant.
func (b *book) close(week string, year int, month time.Month, day int) {
	end := time.Date(year, month, day, 0, 0, 0, 0, b.zone)
	start := time.Date(year, month, day-7, 0, 0, 0, 0, b.zone)
	if b.Now().Before(end) {
		b.until(end)
	}
	b.Put(logger, "system", &events.WeekClosed{Week: week, Zone: b.zone.String(), Start: events.FormatTime(start), End: events.FormatTime(end)})
}

func (b *book) claim(opts ...func(*events.ClaimRecorded)) string {
	d := &events.ClaimRecorded{ClaimID: b.id("claim"), Status: "asserted", Edge: &events.Edge{Cause: "disk", Effect: "errors", Rung: "intervention"}}
	for _, o := range opts {
		o(d)
	}
	b.Put(piper, prod, d)
	return d.ClaimID
}

// promise is a prediction on a claim and its verdict, "" for none.
func (b *book) promise(claim string, p float64, verdict string) {
	id := b.id("prediction")
	at := b.Put(piper, prod, &events.PredictionRecorded{PredID: id, ClaimID: &claim, PredictedEffect: "fewer errors", P: p, Criterion: jsontext.Value(`{}`)})
	if verdict != "" {
		b.Put(resolver, prod, &events.PredictionResolved{PredID: id, Verdict: verdict, CutSeq: uint64(at), Foreknowledge: "none", Scorable: true})
	}
}

func (b *book) usage(tokens int64) {
	b.Put(dispatcher, prod, &events.UsageRecorded{
		MessageID: ptr(b.id("message")), Model: ptr("m1"), Tokens: &events.Tokens{Input: &tokens, Output: ptr(tokens / 4), Cached: ptr(int64(0))}, LatencyMS: ptr(900.0),
	}, ledgertest.Episode("episode-1"))
}

// arms runs a case of each of worlds with both arms; gain is what the first scores
// above the second.
func (b *book) arms(split, first, second, measure string, worlds int, gain func(world int) float64) {
	for _, arm := range []string{first, second} {
		run := first + second + split + arm + measure
		b.Put(harness, bench, &events.RunStarted{RunID: run, Arm: arm, Split: split, BenchVersion: ptr("bench-3"), Model: ptr("m1"), ModelVersion: ptr("2026-10"), SubjectCommit: ptr("4f0c"), ScorerSHA256: ptr(fmt.Sprintf("%064x", 7))})
	}
	for w := range worlds {
		id := fmt.Sprintf("%s-%s-%s-%s-%d", split, first, second, measure, w)
		b.Put(harness, bench, &events.CaseCommitted{CaseID: id, WorldID: &id, CohortID: "k", Split: split, OracleSHA256: fmt.Sprintf("%064x", w)})
		for i, arm := range []string{first, second} {
			value := 0.25
			if i == 0 {
				value += gain(w)
			}
			run := first + second + split + arm + measure
			b.Put(harness, bench, &events.ResponseRecorded{RunID: run, CaseID: id, RunIndex: ptr(int64(0)), Status: "parsed", Answer: &events.Answer{Kind: "answer"}, ElapsedMS: ptr(float64(1000 + 100*i*(1+w%4)))})
			b.Put(harness, bench, &events.ScoreRecorded{RunID: run, CaseID: id, RunIndex: ptr(int64(0)), Scorer: "s/1", ScorerSHA256: fmt.Sprintf("%064x", 7), Values: []events.ScoreValue{{Metric: measure, Value: &value}}})
		}
	}
}

func (b *book) register(id, metric, better string, effect float64, arms ...string) {
	b.Put(operator, prod, &events.PreregistrationCommitted{
		PreregID: id, Arms: arms, Endpoint: events.Endpoint{Metric: metric, Better: better, UsefulEffect: effect}, N: 6, StoppingRule: "all worlds", AnalysisSHA256: fmt.Sprintf("%064x", 9),
	})
}

// rich is a ledger of three weeks that has something for every block.
func rich(t testing.TB) *book {
	b := newBook(t, "Europe/Berlin")
	b.until(time.Date(2026, 11, 9, 8, 0, 0, 0, b.zone))
	b.Put(operator, prod, &events.PriceRecorded{PriceID: "price-1", Model: "m1", ValidFrom: "2026-01-01T00:00:00Z", InputUSDPerMTok: ptr(3.0), CachedUSDPerMTok: ptr(0.3), OutputUSDPerMTok: ptr(15.0)})
	b.register("prereg-1", "accuracy", "higher", 0.08, "A1", "A2")
	b.register("prereg-2", "accuracy", "higher", 0.08, "A9", "A10")
	b.register("prereg-3", "repair_loss", "lower", 0.1, "A2", "A7")
	for week := range 3 {
		b.liveWeek(week)
		if week == 1 {
			b.arms("dev", "A2", "A1", "accuracy", 8, func(w int) float64 { return 0.1 + float64(w%3)/20 })
			b.arms("validation", "A2", "A1", "accuracy", 12, func(w int) float64 { return 0.2 + float64(w%5)/50 })
			b.arms("validation", "A10", "A9", "accuracy", 12, func(w int) float64 { return float64(w%3)/20 - 0.05 })
			b.arms("validation", "A7", "A2", "repair_loss", 12, func(w int) float64 { return float64(w%4)/8 - 0.25 })
		}
		b.close(fmt.Sprintf("2026-W%d", 46+week), 2026, 11, 16+7*week)
	}
	b.until(time.Date(2026, 12, 9, 6, 0, 0, 0, b.zone))
	b.usage(10)
	return b
}

// liveWeek is a week of an agent at work.
func (b *book) liveWeek(week int) {
	for i := range 5 + week {
		episode := fmt.Sprintf("episode-%d-%d", week, i)
		b.Put(detector, prod, &events.OpportunityDetected{OpportunityID: b.id("opportunity"), Kind: "root_cause"}, ledgertest.Episode(episode))
		if i%2 == 0 {
			b.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: b.id("call"), Tool: "causal", Status: "ok", LatencyMS: ptr(40.0 + float64(10*i))}, ledgertest.Episode(episode))
		}
		c := b.claim()
		verdict := []string{"confirmed", "confirmed", "refuted", "", "confirmed"}[i%5]
		b.promise(c, []float64{0.9, 0.75, 0.4, 0.6, 0.95}[i%5], verdict)
		b.usage(int64(20_000 * (i + 1 + week)))
		b.Put(piper, prod, &events.ExperimentProposed{ExpID: b.id("experiment")}, ledgertest.Episode(episode))
		b.Advance(11 * time.Hour)
	}
	for i, condition := range []string{"C1", "C2", "C3", "C4", "C5"} {
		outcome := "hit"
		if i > 2 {
			outcome = "miss"
		}
		b.Put(harness, bench, &events.ControlRecorded{RunID: "control", Condition: condition, CaseID: b.id("control"), Tag: "direct", Outcome: outcome})
	}
}

// opened folds a ledger and shows its views at one record.
func opened(t testing.TB, l *ledgertest.Ledger, fn func(*projector.State)) {
	t.Helper()
	db, err := kv.Open(t.TempDir(), kv.Options{NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := r.View(func(s *projector.State) error { fn(s); return nil }); err != nil {
		t.Fatal(err)
	}
}

// reported is the report of a week, under a checkpoint made up for the test.
func reported(t testing.TB, l *ledgertest.Ledger, c report.Config) (r *report.Report) {
	t.Helper()
	opened(t, l, func(s *projector.State) {
		var err error
		if r, err = report.Build(s, c); err != nil {
			t.Fatal(err)
		}
	})
	r.Sign(&ledger.SignedCheckpoint{Checkpoint: ledger.Checkpoint{Origin: "log.example", Size: uint64(r.At.Seq), Root: ledger.Leaf([]byte("root"))}, Raw: []byte("log.example\n1\nroot\n\n— log.example AAAA\n")})
	return r
}

func episodeOf(b *book) ledgertest.Option { return ledgertest.Episode(b.id("episode")) }

// crowd runs many arms in two splits, with a scorer that has much to say.
func (b *book) crowd() {
	outcomes := []string{"correct", "lucky", "wrong", "abstain"}
	for i, arm := range []string{"A0", "A1", "A2", "A3", "A5", "A7", "A9", "A10"} {
		for _, split := range []string{"dev", "validation"} {
			run := "big" + arm + split
			b.Put(harness, bench, &events.RunStarted{RunID: run, Arm: arm, Split: split, ScorerSHA256: ptr(fmt.Sprintf("%064x", 7)), BenchVersion: ptr("bench-4"), Model: ptr("gpt-5.6-sol")})
			for w := range 7 {
				id := fmt.Sprint("bigw", w)
				b.Put(harness, bench, &events.CaseCommitted{CaseID: id, WorldID: &id, CohortID: "k", Split: split, OracleSHA256: fmt.Sprintf("%064x", w), Tags: []string{"diagnosis"}})
				b.Put(harness, bench, &events.ResponseRecorded{RunID: run, CaseID: id, RunIndex: ptr(int64(0)), Status: "parsed", Answer: &events.Answer{Kind: "answer", Action: ptr([]string{"INFER", "ASK"}[w%2])}, ElapsedMS: ptr(float64(1000 + 37*i*w)), Cost: &events.Cost{CostUSD: ptr(0.01 * float64(i*w)), InputTokens: ptr(int64(100 * i)), OutputTokens: ptr(int64(10 + w))}})
				b.Put(harness, bench, &events.ScoreRecorded{RunID: run, CaseID: id, RunIndex: ptr(int64(0)), Scorer: "strict/1", ScorerSHA256: fmt.Sprintf("%064x", 7), Outcome: ptr(outcomes[(i+w)%4]),
					Values: []events.ScoreValue{{Metric: "correct", Value: ptr(float64((w * i) % 2))}, {Metric: "regret", Value: ptr(float64(w*i) / 10)}, {Metric: "net_voi", Value: ptr(float64(w%3 - 1))}, {Metric: "strawman_rate", Value: ptr(float64(w%3) / 3)}}})
			}
		}
	}
}
