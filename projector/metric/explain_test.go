package metric_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// explain is a metric over a ledger, with the records behind it.
func explain(t testing.TB, st *projector.State, name string, o metric.Options) (*metric.Explanation, []metric.Record) {
	t.Helper()
	var records []metric.Record
	e, err := metric.Explain(st, name, prod, o, func(r metric.Record) error { records = append(records, r); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return e, records
}

// line is a number as the tests write it: value (numerator/denominator), and what
// was excluded.
func line(n metric.Number) string {
	var b strings.Builder
	if b.WriteString("null"); n.Value != nil {
		b.Reset()
		fmt.Fprintf(&b, "%.6g", *n.Value)
	}
	fmt.Fprintf(&b, " (%d", n.Numerator)
	if n.Denominator != nil {
		fmt.Fprintf(&b, "/%d", *n.Denominator)
	}
	b.WriteByte(')')
	for _, why := range slices.Sorted(keys(n.Excluded)) {
		fmt.Fprintf(&b, " %s %d", why, n.Excluded[why])
	}
	return b.String()
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// rows are records as the tests write them: record, role's first letter, item, and
// the count where it is not 1.
func rows(records []metric.Record) string {
	var out []string
	for _, r := range records {
		text := fmt.Sprintf("%d%c %s", r.Seq, r.Role[0], r.Item)
		if r.Role != metric.Excluded && r.Count != 1 {
			text += fmt.Sprintf("=%d", r.Count)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// book writes a ledger by hand. Each method returns the record.
type book struct{ *ledgertest.Ledger }

var importedContext = events.Context{Capture: ptr("imported")}

func (b book) opportunity(id, kind, episode string) ledger.Seq {
	return b.Put(detector, prod, &events.OpportunityDetected{OpportunityID: id, Kind: kind}, ledgertest.Episode(episode))
}

func (b book) call(id, tool, episode string, change ...func(*events.ToolCalled)) ledger.Seq {
	d := &events.ToolCalled{ToolCallID: id, Tool: tool, Status: "ok"}
	for _, c := range change {
		c(d)
	}
	return b.Put(dispatcher, prod, d, ledgertest.Episode(episode))
}

func (b book) claim(id, status string, change ...func(*events.ClaimRecorded)) ledger.Seq {
	d := claim(id, status)
	for _, c := range change {
		c(d)
	}
	return b.Put(piper, prod, d)
}

// promise is a prediction with its verdict.
func (b book) promise(id, claimID string, p float64, verdict string) ledger.Seq {
	at := b.Put(piper, prod, prediction(id, claimID, p))
	if verdict != "" {
		b.Put(resolver, prod, resolved(id, verdict, at))
	}
	return at
}

func (b book) revise(id, from, to string) ledger.Seq {
	return b.Put(piper, prod, &events.ClaimRevised{ClaimID: id, OldStatus: from, NewStatus: to})
}

func (b book) recheck(id, result string) ledger.Seq {
	return b.Put(operator, prod, &events.FixRechecked{ClaimID: id, Result: result, Source: "instrument", Direct: true})
}

func (b book) usage(message, model, episode string, in, out *int64) ledger.Seq {
	return b.Put(dispatcher, prod, &events.UsageRecorded{
		MessageID: &message, Model: &model, Tokens: &events.Tokens{Input: in, Output: out, Cached: ptr(int64(0))},
	}, ledgertest.Episode(episode))
}

func (b book) price(model string, perMTok float64) ledger.Seq {
	return b.Put(operator, prod, &events.PriceRecorded{
		PriceID: "price-" + model, Model: model, ValidFrom: "2026-01-01T00:00:00Z",
		InputUSDPerMTok: &perMTok, CachedUSDPerMTok: &perMTok, OutputUSDPerMTok: &perMTok,
	})
}

// eligible is a rater's word on whether there was an opportunity.
func (b book) eligible(kind, id, rater string, blind bool, is *bool) ledger.Seq {
	return b.Put(operator, prod, &events.OpportunityLabelled{Kind: kind, ID: id, Rater: rater, Blind: blind, RubricVersion: "1", Eligible: is})
}

func (b book) audit(kind, id, rater string, change func(*events.AuditLabelled)) ledger.Seq {
	d := &events.AuditLabelled{Kind: kind, ID: id, Rater: rater, Blind: true, RubricVersion: "1"}
	change(d)
	return b.Put(operator, prod, d)
}

func imported(d *events.ToolCalled) { d.Context = importedContext }

func latency(ms float64) func(*events.ToolCalled) {
	return func(d *events.ToolCalled) { d.LatencyMS = &ms }
}

func status(s string) func(*events.ToolCalled) { return func(d *events.ToolCalled) { d.Status = s } }

// byHand is a small ledger and what a metric must be of it, worked out in a comment
// beside it. The tables stand in of_*_test.go, as the metrics do in of_*.go.
type byHand struct {
	metric  string
	name    string
	options metric.Options
	build   func(b book)
	want    string // line
	rows    string // rows; "" is not looked at
	groups  string // name line; …
}

var allByHand = slices.Concat(
	opportunityByHand, labelByHand, claimByHand, predictionByHand, calibrationByHand, experimentByHand, beliefByHand, findingByHand, usageByHand, runByHand, armByHand, graphByHand,
)

func sha(n int) string { return fmt.Sprintf("%064x", n) }

func TestMetrics(t *testing.T) {
	tested := map[string]bool{}
	for _, tt := range allByHand {
		tested[tt.metric] = true
		t.Run(strings.TrimRight(tt.metric+" "+tt.name, " "), func(t *testing.T) {
			l := ledgertest.New()
			tt.build(book{l})
			fold(t, l, func(st *projector.State) {
				e, records := explain(t, st, tt.metric, tt.options)
				if got := line(e.Number); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if got := rows(records); tt.rows != "" && got != tt.rows {
					t.Errorf("records\n%s, want\n%s", got, tt.rows)
				}
				var groups []string
				for _, g := range e.Groups {
					groups = append(groups, g.Name+" "+line(g.Number))
				}
				if got := strings.Join(groups, "; "); tt.groups != "" && got != tt.groups {
					t.Errorf("groups %s, want %s", got, tt.groups)
				}
			})
		})
	}
	for _, m := range metric.Catalogue() {
		if !tested[m.Name] {
			t.Errorf("%s has no ledger made by hand", m.Name)
		}
	}
}

// TestCatalogue: each row says everything, and once.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metric.Catalogue() {
		if seen[m.Name] {
			t.Errorf("%s stands twice", m.Name)
		}
		seen[m.Name] = true
		for what, text := range map[string]string{
			"question": m.Question, "numerator": m.Numerator, "exclusions": m.Exclusions, "missing values": m.Missing,
			"kind": string(m.Kind), "form": string(m.Form), "unit": m.Unit, "interval": string(m.Interval), "source": m.Source,
		} {
			if text == "" {
				t.Errorf("%s has no %s", m.Name, what)
			}
		}
		if (m.Form == metric.FormRatio) != (m.Denominator != "") && m.Form != metric.FormMean && m.Form != metric.FormP95 {
			t.Errorf("%s is a %s of %q and %q", m.Name, m.Form, m.Numerator, m.Denominator)
		}
	}
	if _, err := metric.Find("nothing"); !errors.Is(err, metric.ErrNoMetric) {
		t.Error(err)
	}
}

// TestNothingToCount: of a ledger that was only opened, and of records that were
// imported alone, a count is 0 and everything else not available.
func TestNothingToCount(t *testing.T) {
	opened, live := ledgertest.New(), ledgertest.New()
	opened.Put("logger/main", "logger", &events.LedgerOpened{Origin: "test"})
	for _, tt := range allByHand {
		tt.build(book{live})
	}
	for name, l := range map[string]*ledgertest.Ledger{"opened": opened, "imported": importedCopy(t, live, func(ledger.Seq) bool { return true })} {
		fold(t, l, func(st *projector.State) {
			for _, m := range metric.Catalogue() {
				e, rs := explain(t, st, m.Name, metric.Options{Repair: []string{"restart"}})
				if m.Form == metric.FormCount && (e.Value == nil || *e.Value != 0) || m.Form != metric.FormCount && e.Value != nil {
					t.Errorf("%s: %s is %s", name, m.Name, line(e.Number))
				}
				if at := slices.IndexFunc(rs, func(r metric.Record) bool { return r.Role != metric.Excluded }); at >= 0 {
					t.Errorf("%s: %s counts %+v", name, m.Name, rs[at])
				}
			}
		})
	}
}

// importedCopy has the events of a ledger at their times, some as they would be
// imported.
func importedCopy(t *testing.T, from *ledgertest.Ledger, imported func(ledger.Seq) bool) *ledgertest.Ledger {
	t.Helper()
	last, err := from.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := ledgertest.New()
	for seq := ledger.Seq(1); seq <= last; seq++ {
		r, e := decode(t, from, seq)
		if imported(seq) {
			e.Data.Common().Capture = ptr("imported")
		}
		to.Advance(r.RecordedAt.Sub(to.Now()))
		raw, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		to.PutEvent(r.Principal, r.Namespace, raw)
	}
	return to
}

func decode(t *testing.T, l *ledgertest.Ledger, seq ledger.Seq) (ledger.Record, *events.Event) {
	t.Helper()
	r, err := ledger.ParseRecord(l.Body(seq))
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(r.Event)
	if err != nil {
		t.Fatal(err)
	}
	return r, e
}

// TestValueIsItsRecords: over a busy ledger the number of every metric, and of each
// of its groups, is what its records add up to, each record is there and of the type
// that it says, and the same pass gives the same again.
func TestValueIsItsRecords(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(6, 1)), 3000)
	fold(t, l, func(st *projector.State) {
		nonempty := 0
		for _, m := range metric.Catalogue() {
			e, rs := explain(t, st, m.Name, metric.Options{Repair: []string{"bash"}})
			if len(rs) > 0 {
				nonempty++
			}
			checkSums(t, &m, e.Number, rs)
			for _, g := range e.Groups {
				in := slices.DeleteFunc(slices.Clone(rs), func(r metric.Record) bool { return r.Group != g.Name })
				checkSums(t, &m, g.Number, in)
			}
			for _, r := range rs {
				if _, e := decode(t, l, r.Seq); e.Type != r.Type {
					t.Fatalf("%s: record %d is a %s, not a %s", m.Name, r.Seq, e.Type, r.Type)
				}
			}
			again, ra := explain(t, st, m.Name, metric.Options{Repair: []string{"bash"}})
			if line(again.Number) != line(e.Number) || rows(ra) != rows(rs) {
				t.Errorf("%s differs from itself", m.Name)
			}
		}
		if nonempty < 20 {
			t.Errorf("only %d metrics count anything here", nonempty)
		}
	})
}

func checkSums(t *testing.T, m *metric.Metric, n metric.Number, rs []metric.Record) {
	t.Helper()
	var num, den, values, excluded int64
	for _, r := range rs {
		switch r.Role {
		case metric.Numerator:
			num += r.Count
			values++
		case metric.Denominator:
			den += r.Count
		case metric.Excluded:
			excluded++
		}
	}
	for _, k := range n.Excluded {
		excluded -= k
	}
	if m.Form != metric.FormRatio {
		den = values
	}
	if n.Numerator != num || n.Denominator != nil && *n.Denominator != den || excluded != 0 {
		t.Errorf("%s: %s, the records say %d/%d and %d more exclusions", m.Name, line(n), num, den, excluded)
	}
}

// TestScoreAgrees: where score and catalogue mean the same, they say the same, also
// over a ledger of which every seventh record was imported.
func TestScoreAgrees(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(6, 2)), 3000)
	l.Advance(5 * day)
	l.Mix(rand.New(rand.NewPCG(6, 3)), 3000)
	l.Advance(4 * day)
	l.Mix(rand.New(rand.NewPCG(6, 4)), 1000)
	t.Run("live", func(t *testing.T) { checkAgrees(t, l, false) })
	t.Run("imports", func(t *testing.T) {
		checkAgrees(t, importedCopy(t, l, func(seq ledger.Seq) bool { return seq%7 == 3 }), true)
	})
}

func checkAgrees(t *testing.T, l *ledgertest.Ledger, imports bool) {
	s := score(t, l, prod)
	if imports != (s.Imported > 0) || imports != strings.Contains(s.Text(), "no live behaviour") {
		t.Errorf("%d are imported: %s", s.Imported, s.Text())
	}
	fold(t, l, func(st *projector.State) {
		for name, want := range map[string]metric.Ratio{
			"routing_rate": s.Routing.Rate, "prediction_resolution_coverage": s.Coverage.Predictions.Rate,
			"experiments_executed": s.Experiments.Rate, "executed_queries": s.Shadow.Queries.Rate,
			"claim_resolution_coverage": s.Coverage.Claims.Rate, "useful_per_100_opportunities": s.Useful.Per100,
		} {
			e, _ := explain(t, st, name, metric.Options{})
			if want.Denominator == 0 || e.Numerator != want.Numerator || *e.Denominator != want.Denominator {
				t.Errorf("%s: %s, the score says %s", name, line(e.Number), want)
			}
		}
		u := s.Useful
		e, _ := explain(t, st, "useful_conclusions", metric.Options{})
		if e.Numerator != u.Count || u.Count == 0 || e.Excluded["refuted"] != u.Refuted || u.Refuted == 0 {
			t.Errorf("useful: %s, the score says %+v", line(e.Number), u)
		}
		for _, g := range e.Groups {
			if want := map[string]int64{"prediction": u.ByPrediction, "recheck": u.ByRecheck}[g.Name]; g.Numerator != want {
				t.Errorf("useful by %s: %s, the score says %d", g.Name, line(g.Number), want)
			}
		}
		if e, _ := explain(t, st, "brier", metric.Options{}); *e.Denominator != s.Calibration.N || fmt.Sprintf("%.6f", *e.Value) != fmt.Sprintf("%.6f", *s.Calibration.Brier.Value) {
			t.Errorf("brier: %s, the score says %v", line(e.Number), s.Calibration.Brier)
		}
		if e, _ := explain(t, st, "input_tokens", metric.Options{}); e.Numerator != *s.Cost.InputTokens.Sum {
			t.Errorf("input tokens: %s, the score says %s", line(e.Number), s.Cost.InputTokens)
		}
	})
}

// TestWeeks: an item is of the week that the ledger's time was in at its first
// record; what became of it may come later. A week that is not closed has no figure.
func TestWeeks(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	closeWeek := func(week string, start, end time.Time) {
		b.Put("logger/main", prod, &events.WeekClosed{Week: week, Zone: "UTC", Start: events.FormatTime(start), End: events.FormatTime(end)})
	}
	monday := ledgertest.Start.Add(4 * day) // 1 October 2026 is a Thursday
	b.opportunity("o1", "why", "e")         // 1, W40
	b.claim("c1", "asserted")               // 2
	l.Advance(monday.Sub(l.Now()))
	closeWeek("2026-W40", monday.Add(-7*day), monday) // 3, the first of W41
	b.opportunity("o2", "why", "f")                   // 4
	b.call("t1", "causal", "e")                       // 5
	b.promise("p1", "c1", 0.9, "confirmed")           // 6, 7
	l.Advance(monday.Add(14 * day).Sub(l.Now()))
	closeWeek("2026-W41", monday, monday.Add(7*day)) // 8: nothing was recorded in W42
	b.opportunity("o3", "why", "g")                  // 9, W43, which is open
	fold(t, l, func(st *projector.State) {
		for _, tt := range []struct{ metric, week, want string }{
			{"opportunities", "2026-W40", "1n o1"},
			{"opportunities", "2026-W41", "4n o2"},
			{"opportunities", "", "1n o1, 4n o2, 9n o3"},
			{"routing_rate", "2026-W40", "1d o1, 5n o1"},
			{"routing_rate", "2026-W41", "4d o2"},
			{"useful_conclusions", "2026-W40", ""},
			{"useful_conclusions", "2026-W41", "7n c1"},
			{"useful_per_100_opportunities", "2026-W41", "7n c1, 4d o2"},
		} {
			e, rs := explain(t, st, tt.metric, metric.Options{Week: tt.week})
			if got := rows(rs); got != tt.want || e.Week != tt.week {
				t.Errorf("%s of %s: %s, want %s", tt.metric, tt.week, got, tt.want)
			}
		}
		for _, week := range []string{"2026-W42", "2026-W43"} {
			if _, err := metric.Explain(st, "opportunities", prod, metric.Options{Week: week}, nil); !errors.Is(err, metric.ErrNoWeek) {
				t.Errorf("%s: %v", week, err)
			}
		}
	})
}

// TestInterval: Wilson's for 2 of 4 with z² = 3.8415 is
// (0.5 + z²/8 ± z·√(0.25/4 + z²/64)) ÷ (1 + z²/4) = (0.98018 ± 0.68605) ÷ 1.96037.
// A rate that can exceed its denominator has none.
func TestInterval(t *testing.T) {
	l := ledgertest.New()
	b := book{l}
	for i := range 4 {
		b.opportunity(fmt.Sprint("o", i), "why", fmt.Sprint("e", i))
		if i < 2 {
			b.call(fmt.Sprint("t", i), "causal", fmt.Sprint("e", i))
		}
	}
	fold(t, l, func(st *projector.State) {
		e, _ := explain(t, st, "routing_rate", metric.Options{})
		near(t, "low", e.Low, "0.150039")
		near(t, "high", e.High, "0.849961")
		e, _ = explain(t, st, "useful_per_100_opportunities", metric.Options{})
		near(t, "low", e.Low, "null")
		near(t, "value", e.Value, "0")
	})
}

// TestCaveat: figures that rest on what the detector found say so where its recall is
// known to be under 0.8.
func TestCaveat(t *testing.T) {
	poor, good, unknown := ledgertest.New(), ledgertest.New(), ledgertest.New()
	detection(book{poor})
	for _, l := range []*ledgertest.Ledger{good, unknown} {
		b := book{l}
		b.opportunity("o1", "why", "e")
		b.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "1", Turns: 2, Positive: 1, Negative: 1, NegativeTurnIDs: []string{"n1"}})
		b.eligible("opportunity", "o1", "r1", true, ptr(true))
	}
	book{good}.eligible("turn", "n1", "r1", true, ptr(false))
	for name, tt := range map[string]struct {
		l    *ledgertest.Ledger
		want string
	}{"poor": {poor, "the detector finds 0.29 of the opportunities that there are, under 0.8"}, "good": {good, ""}, "unknown": {unknown, ""}} {
		fold(t, tt.l, func(st *projector.State) {
			for _, m := range metric.Catalogue() {
				e, _ := explain(t, st, m.Name, metric.Options{})
				if want := tt.want; m.Detected && e.Why != want || !m.Detected && want != "" && e.Why == want {
					t.Errorf("%s: %s says %q", name, m.Name, e.Why)
				}
			}
		})
	}
}

// TestSumsDoNotWrap: more than 64 bits of microseconds are no value.
func TestSumsDoNotWrap(t *testing.T) {
	l := ledgertest.New()
	for i := range 1100 {
		book{l}.call(fmt.Sprint("t", i), "look", "", latency(9e12))
	}
	fold(t, l, func(st *projector.State) {
		if e, _ := explain(t, st, "tool_latency", metric.Options{}); e.Value != nil {
			t.Errorf("%s", line(e.Number))
		}
	})
}
