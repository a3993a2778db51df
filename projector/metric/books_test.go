package metric_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"assay/events"
	"assay/internal/kv"
	"assay/internal/kv/kvtest"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

// TestScorerIsCompute: whatever happened since something was kept, and however often
// that was interrupted, the score and every metric, of all of the ledger and of a week,
// are what they come to afresh, to the bit.
func TestScorerIsCompute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
		l := ledgertest.New()
		db, err := kv.Open("views", kv.Options{FS: kvtest.NewDisk().FS()})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var weeks []string
		for range rapid.IntRange(2, 4).Draw(t, "rounds") {
			if n := rapid.IntRange(1, 300).Draw(t, "records"); rapid.Bool().Draw(t, "tangled") {
				l.Tangle(rng, n)
			} else {
				l.Mix(rng, n)
			}
			rare(l, rng)
			if rapid.Bool().Draw(t, "later") { // to where something falls due, now and then
				due := ledgertest.Start.Add(metric.Settled + time.Duration(rapid.IntRange(0, 2000).Draw(t, "seconds"))*time.Second)
				if d := due.Sub(l.Now()); d > 0 {
					l.Advance(d)
				} else {
					l.Advance(3 * day)
				}
			}
			if rapid.Bool().Draw(t, "week") {
				weeks = append(weeks, fmt.Sprintf("2026-W%02d", 40+len(weeks)))
				l.Put("logger/main", "production", &events.WeekClosed{Week: weeks[len(weeks)-1], Zone: "UTC", Start: events.FormatTime(l.Now()), End: events.FormatTime(l.Now())})
			}
			cfg := projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: rapid.IntRange(1, 300).Draw(t, "every")}
			switch pages := rapid.IntRange(-1, 60).Draw(t, "pages"); {
			case pages < 0: // somebody who keeps nothing
			case pages == 0:
				cfg.Keep = metric.KeepAll
			default:
				cfg.Keep = func(k *projector.Keeping) error {
					left := pages
					k.Interrupted = func() bool { left--; return left < 0 }
					return metric.KeepAll(k)
				}
			}
			r, err := projector.NewRunner(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CatchUp(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			namespace := rapid.SampledFrom([]string{"", "canary", "nosuch"}).Draw(t, "namespace")
			asked := []string{""} // all of the ledger, and a week
			if len(weeks) > 0 {
				asked = append(asked, rapid.SampledFrom(weeks).Draw(t, "asked"))
			}
			err = r.View(func(s *projector.State) error { checkKept(t, s, namespace, asked); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// rare appends what a Mix does not hold: incidents and what is spent in them, prices,
// imports, and labels.
func rare(l *ledgertest.Ledger, rng *rand.Rand) {
	for range rng.IntN(8) {
		n := rng.IntN(6)
		episode, call := ledgertest.Episode(fmt.Sprintf("incident-%d", n)), fmt.Sprintf("fix-%d", n)
		var c events.Context
		if rng.IntN(4) == 0 {
			c.Capture = ledgertest.Ptr("imported")
		}
		switch rng.IntN(7) {
		case 0:
			l.Put("detector/main", prod, &events.OpportunityDetected{Context: c, OpportunityID: l.NextID(), Kind: "which_fix", DetectorVersion: "1"}, episode)
		case 1:
			l.Put(dispatcher, prod, &events.ToolCalled{Context: c, ToolCallID: call, Tool: "bash", Status: "ok", MessageID: ledgertest.Ptr("m-" + call),
				Tokens: &events.Tokens{Input: ledgertest.Ptr(int64(rng.IntN(9))), Output: ledgertest.Ptr(int64(7)), Cached: ledgertest.Ptr(int64(0))}}, episode)
		case 2:
			l.Put(dispatcher, prod, &events.UsageRecorded{Context: c, MessageID: ledgertest.Ptr("m-" + call), Model: ledgertest.Ptr("m"),
				Tokens: &events.Tokens{Input: ledgertest.Ptr(int64(rng.IntN(9))), Output: ledgertest.Ptr(int64(5)), Cached: ledgertest.Ptr(int64(0))}}, episode)
		case 3:
			l.Put(operator, prod, &events.PriceRecorded{PriceID: fmt.Sprint("price-", n), Model: "m", ValidFrom: "2026-01-01T00:00:00Z",
				InputUSDPerMTok: ledgertest.Ptr(float64(n)), OutputUSDPerMTok: ledgertest.Ptr(1.5)})
		case 4:
			l.Put("detector/main", prod, &events.DetectorScanned{Context: c, DetectorVersion: "1", Turns: 2, Negative: 2, NegativeTurnIDs: []string{fmt.Sprint("turn-", n)}})
		case 5:
			l.Put("operator/op", prod, &events.OpportunityLabelled{Context: c, Kind: "turn", ID: fmt.Sprint("turn-", n), Rater: "r", RubricVersion: "1", Blind: true, Eligible: ledgertest.Ptr(n%2 == 0)})
		default:
			l.Put("agent/piper", prod, &events.HypothesesRecorded{Context: c, SetID: l.NextID(), Alternatives: []events.Alternative{{ID: "a"}}}, episode)
		}
	}
}

// TestScoreBeyond64Bits: amounts that agents choose can come to more than 64 bits hold.
// Such a sum is not available, by what is kept as well as afresh, and comes back when
// what was too much is gone.
func TestScoreBeyond64Bits(t *testing.T) {
	const most, charge = 1 << 53, 9_007_199.254740992 // 2^53 tokens, and billionths of a dollar
	l := ledgertest.New()
	use := func(id int, capture *string, tokens int64, usd float64) {
		l.Put(dispatcher, prod, &events.UsageRecorded{
			Context: events.Context{Capture: capture}, MessageID: ledgertest.Ptr(fmt.Sprint("m-", id)), CostUSD: &usd, Tokens: &events.Tokens{Output: &tokens},
		})
	}
	db, err := kv.Open("views", kv.Options{FS: kvtest.NewDisk().FS()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, step := range []struct {
		put   func()
		known bool
	}{
		{func() {
			for id := range 1023 {
				use(id, ledgertest.Ptr("otlp"), most, charge)
			}
		}, true},
		{func() { use(1023, ledgertest.Ptr("otlp"), most, charge) }, false},
		{func() { use(1023, ledgertest.Ptr("hook"), 1, 0) }, true}, // a better witness
	} {
		step.put()
		r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 100, Keep: metric.KeepAll})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CatchUp(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		err = r.View(func(s *projector.State) error {
			checkKept(t, s, prod, []string{""})
			got, err := metric.Compute(s, prod)
			if err != nil {
				return err
			}
			c := got.Cost
			if known := c.OutputTokens.Sum != nil && c.USD.Sum != nil && c.USD.Mean != nil; known != step.known || c.OutputTokens.Known != c.OutputTokens.Total {
				t.Errorf("%s tokens, %+v: known %v, want %v", c.OutputTokens, c.USD, known, step.known)
			}
			if !step.known && (c.OutputTokens.Sum != nil || c.USD.Sum != nil || c.USD.Mean != nil) {
				t.Errorf("%s tokens, %+v", c.OutputTokens, c.USD)
			}
			tokens, err := metric.Explain(s, "output_tokens", prod, metric.Options{}, nil)
			if err == nil && (tokens.Value != nil) != step.known {
				t.Errorf("metric %v, want known %v", tokens.Value, step.known)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkKept holds what is computed by what is kept against what the values come to.
func checkKept(t rapid.TB, s *projector.State, namespace string, weeks []string) {
	t.Helper()
	got, err := metric.Compute(s, namespace)
	if err != nil {
		t.Fatal(err)
	}
	want, err := metric.Afresh(s, namespace)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, got, want)
	for _, m := range metric.Catalogue() {
		for _, week := range weeks {
			o := metric.Options{Week: week}
			got, err := metric.Explain(s, m.Name, namespace, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			var all, first []metric.Record
			want, err := metric.Explain(s, m.Name, namespace, o, func(r metric.Record) error { all = append(all, r); return nil })
			if err != nil {
				t.Fatal(err)
			}
			stopped, err := metric.Explain(s, m.Name, namespace, o, func(r metric.Record) error {
				if first = append(first, r); len(first) == 5 {
					return kv.ErrStop
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			a, b, c := encode(t, got), encode(t, want), encode(t, stopped)
			if !bytes.Equal(a, b) || !bytes.Equal(c, b) {
				t.Fatalf("%s of week %q is %s\nof the first records %s\nwant %s", m.Name, week, a, c, b)
			}
			if !slices.Equal(first, all[:min(5, len(all))]) {
				t.Fatalf("%s of week %q: the first records are %v of %v", m.Name, week, first, all)
			}
		}
	}
}

func encode(t rapid.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func checkSame(t rapid.TB, got, want *metric.Score) {
	t.Helper()
	a, err := got.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		names, _ := metric.Differences(a, b)
		t.Fatalf("%v differ:\n%s\nwant\n%s", names, a, b)
	}
}

// TestScorerReadsWhatChanged: over a long ledger, a few records more make few pages be
// gone through again, and the score is the one that is computed afresh all the same:
// nothing that a page rests on is overlooked.
func TestScorerReadsWhatChanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := ledgertest.New()
	l.Mix(rng, 8000)
	db, err := kv.Open("views", kv.Options{FS: kvtest.NewDisk().FS()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waits := false // with keeping, so that what is asked finds pages that are stale
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), Keep: func(k *projector.Keeping) error {
		if waits {
			return nil
		}
		return metric.KeepAll(k)
	}})
	if err != nil {
		t.Fatal(err)
	}
	check := func() (pages, all int) {
		t.Helper()
		for _, waits = range []bool{true, false} {
			if err := r.CatchUp(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			err := r.View(func(s *projector.State) error {
				stale, n, ok, err := metric.Stale(s, prod)
				if err != nil || !ok && !waits {
					t.Fatalf("kept %v, %v", ok, err)
				}
				if waits {
					pages, all = stale, n
				} else if stale != 0 {
					t.Errorf("%d pages are stale after what is kept was brought up", stale)
				}
				got, err := metric.Compute(s, "")
				if err != nil {
					return err
				}
				want, err := metric.Afresh(s, "")
				if err == nil {
					checkSame(t, got, want)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return pages, all
	}
	check()
	again, all := check()
	if again != 0 || all < 80 {
		t.Errorf("%d pages of %d are stale at once", again, all)
	}
	sum := 0
	const rounds = 60
	for range rounds {
		l.Mix(rng, 1+rng.IntN(3))
		pages, _ := check()
		sum += pages
	}
	if mean := sum / rounds; mean == 0 || mean > all/10 {
		t.Errorf("after two records or so %d pages of %d are gone through", mean, all)
	}
	// What rests on values of other kinds, or of other views.
	var later []func()
	err = r.View(func(s *projector.State) error {
		err := view.ListPredictions(s, prod, func(p *view.Prediction) error {
			if p.Resolution == nil && p.ClaimID != nil {
				later = append(later, func() { l.Put(resolver, prod, resolved(p.PredID, "confirmed", 1)) })
			}
			return nil
		})
		return errors.Join(err, view.ListExperiments(s, prod, func(e *view.Experiment) error {
			if e.Proposed != nil && e.Executed == nil {
				later = append(later, func() {
					call := "late-" + e.ExpID
					l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: e.ExpID, ToolCallID: call})
					check()
					l.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: call, Tool: "bash", Status: "ok"})
				})
			}
			return nil
		}), view.ListToolCalls(s, prod, func(c *view.ToolCall) error {
			if c.Observed == nil && c.MessageID != nil {
				later = append(later, func() {
					l.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: "other-" + c.ToolCallID, Tool: "bash", Status: "ok", MessageID: c.MessageID})
				})
			}
			return nil
		}), view.ListClaims(s, prod, func(c *view.Claim) error {
			if c.Rechecks == 0 && c.Status == view.StatusAsserted {
				later = append(later, func() {
					l.Put(operator, prod, &events.FixRechecked{ClaimID: c.ClaimID, Result: view.RecheckHeld, Source: "telemetry", Direct: true})
				})
			}
			return nil
		}))
	})
	if err != nil || len(later) < 100 {
		t.Fatalf("%d things to happen, %v", len(later), err)
	}
	rng.Shuffle(len(later), func(i, j int) { later[i], later[j] = later[j], later[i] })
	for _, happen := range later[:60] {
		happen()
		check()
	}
	l.Advance(metric.Settled - 4000*time.Second) // half of them grow old
	l.Mix(rng, 1)
	if pages, _ := check(); pages < all/8 {
		t.Errorf("when claims grow old %d pages of %d are gone through", pages, all)
	}
}

// older is a projection of the build before.
type older struct{ projector.Projection }

func (o older) Version() int { return o.Projection.Version() - 1 }

// TestScoreDuringRebuild: while a view is built anew the score is of the old
// one, whole, and says so.
func TestScoreDuringRebuild(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), 600)
	db, err := kv.Open("views", kv.Options{FS: kvtest.NewDisk().FS()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	before := view.All()
	for i, p := range before {
		if p.Name() == view.Claims || p.Name() == view.Predictions {
			before[i] = older{p}
		}
	}
	var r *projector.Runner
	score := func() (s *metric.Score) {
		t.Helper()
		err := r.View(func(st *projector.State) (err error) {
			if s, err = metric.Compute(st, ""); err != nil {
				return err
			}
			want, err := metric.Afresh(st, "")
			if err == nil {
				checkSame(t, s, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if r, err = projector.NewRunner(projector.Config{DB: db, Source: l, Projections: before, Keep: metric.KeepAll}); err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context(), 500); err != nil {
		t.Fatal(err)
	}
	old, looked := score(), 0
	r, err = projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 50, Keep: metric.KeepAll,
		Progress: func(st projector.Status) {
			if len(st.Rebuilding) > 0 {
				looked++
				if got := score(); fmt.Sprint(got.Inputs.Outdated) != "[claims predictions]" || got.Inputs.Seq != 500 || !strings.Contains(got.Text(), "REBUILDING") {
					t.Errorf("at %d: %+v", st.Seq, got.Inputs)
				} else {
					checkSame(t, got, old)
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := score(); looked != 9 || len(got.Inputs.Outdated) != 0 || got.Inputs.Seq <= 500 {
		t.Errorf("looked %d times, then %+v", looked, got.Inputs)
	}
}
