package report_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden: the report of a rich ledger, in its three forms, is the same to the byte.
func TestGolden(t *testing.T) {
	r := reported(t, rich(t).Ledger, report.Config{})
	if r.Week.ID != "2026-W48" || r.LastWeek == nil || r.LastWeek.ID != "2026-W47" {
		t.Fatalf("of %+v, last %+v", r.Week, r.LastWeek)
	}
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"rich.html": html, "rich.md": r.Markdown(), "rich.json": encoded} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs: look at it and run with -update", name)
		}
	}
}

// TestEveryFigureIsExplained: whatever number the report has is what Explain gives for
// the metric that it names.
func TestEveryFigureIsExplained(t *testing.T) {
	for name, l := range map[string]*book{"rich": rich(t), "hostile": hostile(t)} {
		t.Run(name, func(t *testing.T) {
			opened(t, l.Ledger, func(s *projector.State) {
				r, err := report.Build(s, report.Config{Repair: []string{"restart"}})
				if err != nil {
					t.Fatal(err)
				}
				w := walker{t: t, s: s, repair: r.Repair}
				for _, b := range r.Blocks {
					for _, f := range b.Figures {
						w.want(f.Week.Number, f.Metric, f.Group, r.Week.ID)
						w.want(f.All.Number, f.Metric, f.Group, "")
						if (f.LastWeek == nil) != (r.LastWeek == nil) {
							t.Errorf("%s has last week %v", f.Metric, f.LastWeek)
						}
						if f.LastWeek != nil {
							w.want(f.LastWeek.Number, f.Metric, f.Group, r.LastWeek.ID)
						}
					}
				}
				w.want(r.Cap.Coverage.Number, r.Cap.Metric, "", "")
				for _, b := range r.Reliability {
					w.want(b.Stated, "stated_probability", b.Tenth, "")
					w.want(b.Observed, "observed_share", b.Tenth, "")
				}
				for _, p := range r.Trend {
					w.want(p.Coverage, "claim_resolution_coverage", "", p.Week)
					w.want(p.Cost, "cost", "", p.Week)
				}
				for _, q := range r.Questions {
					for _, e := range q.Endpoints {
						for _, f := range e.Figures {
							w.want(f.Number, f.Metric, f.Group, "")
						}
					}
				}
				if w.n < 150 {
					t.Errorf("only %d figures", w.n)
				}
			})
		})
	}
}

type walker struct {
	t      *testing.T
	s      *projector.State
	repair []string
	n      int
}

func (w *walker) want(got metric.Number, name, group, week string) {
	w.t.Helper()
	w.n++
	e, err := metric.Explain(w.s, name, "", metric.Options{Week: week, Repair: w.repair}, func(metric.Record) error { return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	want := e.Number
	if group != "" {
		want = metric.Number{}
		if i := slices.IndexFunc(e.Groups, func(g metric.Group) bool { return g.Name == group }); i >= 0 {
			want = e.Groups[i].Number
		}
	}
	if !reflect.DeepEqual(got, want) {
		w.t.Errorf("%s %q in %q: %+v, want %+v", name, group, week, got, want)
	}
}

// TestPageKeepsToASheet: however many arms were run, the page has as many rows as fit,
// those that questions are bound to first; the JSON has all.
func TestPageKeepsToASheet(t *testing.T) {
	b := rich(t)
	b.crowd()
	r := reported(t, b.Ledger, report.Config{})
	groups := 0
	for _, f := range r.Blocks[0].Figures {
		if f.Metric == "arm_delta_scores" {
			groups++
		}
	}
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if rows := bytes.Count(html, []byte("<tr>")); groups < 150 || rows < 100 || rows > 140 {
		t.Errorf("%d comparisons, %d rows", groups, rows)
	}
	for _, want := range []string{"· s/1 accuracy, validation: A2 − A1<", "other groups, "} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("%q is not on the page", want)
		}
	}
}

// TestEmptyWeek: a ledger without anything says so of every block, and answers nothing.
func TestEmptyWeek(t *testing.T) {
	b := newBook(t, "UTC")
	b.usageless()
	b.close("2026-W40", 2026, 10, 5)
	r := reported(t, b.Ledger, report.Config{Week: "2026-W40"})
	for _, block := range r.Blocks {
		if !slices.ContainsFunc(block.Notes, func(n string) bool { return strings.HasPrefix(n, "No data: nothing of this") }) {
			t.Errorf("%s: %v", block.Title, block.Notes)
		}
		for _, f := range block.Figures {
			if f.Week.Value == nil && f.Week.NotAvailable == "" {
				t.Errorf("%s is not available, and nothing says why", f.Metric)
			}
		}
	}
	for _, q := range r.Questions {
		if q.Answer != report.Inconclusive || !strings.Contains(q.Why, "coverage") {
			t.Errorf("%s: %s, %s", q.Text, q.Answer, q.Why)
		}
	}
	if r.LastWeek != nil {
		t.Errorf("last week %+v", r.LastWeek)
	}
	for _, want := range []string{"No data: strawman rate", "No data: time to first useful action"} {
		if !slices.ContainsFunc(r.Blocks[0].Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
			t.Errorf("%q is not among %q", want, r.Blocks[0].Notes)
		}
	}
}

func (b *book) usageless() { b.Put(logger, "system", &events.LedgerOpened{Origin: "log.example"}) }

// TestStand: the page says which of its records are signed.
func TestStand(t *testing.T) {
	r := reported(t, rich(t).Ledger, report.Config{})
	r.LastWeek = nil
	for _, tt := range []struct {
		size uint64
		want string
	}{
		{uint64(r.At.Seq), "All of it is in the checkpoint of size 366"},
		{uint64(r.At.Seq) - 1, "only those up to 365 are in the last checkpoint"},
		{0, "No checkpoint was found"},
	} {
		r.Sign(nil)
		if tt.size > 0 {
			r.Sign(&ledger.SignedCheckpoint{Checkpoint: ledger.Checkpoint{Size: tt.size}, Raw: []byte("log.example\n<i>\n")})
		}
		page, err := r.HTML()
		if err != nil || !bytes.Contains(page, []byte(tt.want)) || !bytes.Contains(r.Markdown(), []byte(tt.want)) || bytes.Contains(page, []byte("<i>")) {
			t.Errorf("%v; %q is not on the page", err, tt.want)
		}
		if covers := r.Checkpoint != nil && r.Checkpoint.Covers; covers != (tt.size == uint64(r.At.Seq)) {
			t.Errorf("a checkpoint of %d covers %d: %v", tt.size, r.At.Seq, covers)
		}
	}
}

// TestNoWeek: what the ledger did not close has no report.
func TestNoWeek(t *testing.T) {
	b := newBook(t, "UTC")
	b.usageless()
	for _, week := range []string{"", "2026-W40"} {
		opened(t, b.Ledger, func(s *projector.State) {
			if _, err := report.Build(s, report.Config{Week: week}); !errors.Is(err, metric.ErrNoWeek) {
				t.Errorf("%q: %v", week, err)
			}
		})
	}
}

// TestWeeks: what happens one nanosecond before a week ends is of it, and what happens
// then is of the next, also where clocks change, years have 53 weeks and zones half
// hours.
func TestWeeks(t *testing.T) {
	for _, tt := range []struct {
		zone, week, next string
		end              [3]int // the date that the week ends before
		hours            float64
	}{
		{"UTC", "2026-W48", "2026-W49", [3]int{2026, 11, 30}, 168},
		{"Europe/Berlin", "2027-W12", "2027-W13", [3]int{2027, 3, 29}, 167},
		{"Europe/Berlin", "2026-W43", "2026-W44", [3]int{2026, 10, 26}, 169},
		{"America/New_York", "2026-W44", "2026-W45", [3]int{2026, 11, 2}, 169},
		{"Asia/Kolkata", "2026-W53", "2027-W01", [3]int{2027, 1, 4}, 168},
		{"Australia/Lord_Howe", "2027-W13", "2027-W14", [3]int{2027, 4, 5}, 168.5},
	} {
		t.Run(tt.zone+" "+tt.week, func(t *testing.T) {
			b := newBook(t, tt.zone)
			end := time.Date(tt.end[0], time.Month(tt.end[1]), tt.end[2], 0, 0, 0, 0, b.zone)
			opportunity := func() {
				b.Put(detector, prod, &events.OpportunityDetected{OpportunityID: b.id("o"), Kind: "root_cause"}, episodeOf(b))
			}
			b.until(end.Add(-time.Nanosecond))
			opportunity()
			b.until(end)
			b.close(tt.week, tt.end[0], time.Month(tt.end[1]), tt.end[2])
			b.until(end)
			opportunity()
			opportunity()
			b.close(tt.next, tt.end[0], time.Month(tt.end[1]), tt.end[2]+7)
			first, second := reported(t, b.Ledger, report.Config{Week: tt.week}), reported(t, b.Ledger, report.Config{})
			if first.Week.Hours != tt.hours || second.Week.ID != tt.next || second.LastWeek == nil || second.LastWeek.ID != tt.week {
				t.Errorf("%+v, then %+v after %+v", first.Week, second.Week, second.LastWeek)
			}
			one, two := figure(t, first, "opportunities"), figure(t, second, "opportunities")
			if *one.Week.Value != 1 || *two.Week.Value != 2 || *two.LastWeek.Value != 1 || *two.All.Value != 3 {
				t.Errorf("%v, then %v after %v of %v", *one.Week.Value, *two.Week.Value, *two.LastWeek.Value, *two.All.Value)
			}
		})
	}
}

func figure(t *testing.T, r *report.Report, name string) report.Figure {
	t.Helper()
	for _, b := range r.Blocks {
		for _, f := range b.Figures {
			if f.Metric == name {
				return f
			}
		}
	}
	t.Fatalf("no figure %s", name)
	return report.Figure{}
}

func TestWeekBefore(t *testing.T) {
	for week, want := range map[string]string{
		"2026-W48": "2026-W47", "2027-W01": "2026-W53", "2026-W01": "2025-W52", "2021-W01": "2020-W53",
		"2025-W53": "", "2026-W00": "", "2026-W54": "", "2026-W4": "", "2026W48": "", "-026-W01": "", "2026-W+1": "", "": "",
	} {
		got, err := report.WeekBefore(week)
		if want == "" && errors.Is(err, report.ErrWeek) {
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", week, got, err)
		}
	}
}

// TestQuestions: an answer follows from interval, registered effect and margin, of what
// was registered first, outside of dev, and with half of the old claims settled.
func TestQuestions(t *testing.T) {
	around := func(mid float64) func(int) float64 { return func(w int) float64 { return mid + float64(w%3-1)/100 } }
	for _, tt := range []struct {
		name     string
		register func(b *book)
		split    string
		gain     float64
		late     bool
		resolved bool
		want     report.Answer
		why      string
	}{
		{"reaches", higher, "validation", 0.2, false, true, report.Yes, "reaches the registered effect of 0.08"},
		{"final", higher, "final", 0.2, false, true, report.Yes, "reaches"},
		{"inside", higher, "validation", 0.02, false, true, report.No, "inside the registered margin of 0.08"},
		{"wrong side", higher, "validation", -0.3, false, true, report.No, "wrong side"},
		{"between", higher, "validation", 0.08, false, true, report.Inconclusive, "neither reaches"},
		{"dev decides nothing", higher, "dev", 0.2, false, true, report.Inconclusive, "no data"},
		{"dev that is called otherwise", higher, "dev", 0.2, false, true, report.Inconclusive, "no data"},
		{"too late", higher, "validation", 0.2, true, true, report.Inconclusive, "after the first measurement"},
		{"unregistered", func(*book) {}, "validation", 0.2, false, true, report.Inconclusive, "no effect was registered"},
		{"other pair", func(b *book) { b.register("p", "accuracy", "higher", 0.08, "A0", "A2") }, "validation", 0.2, false, true, report.Inconclusive, "no effect was registered"},
		{"lower is better", func(b *book) { b.register("p", "accuracy", "lower", 0.08, "A1", "A2") }, "validation", -0.2, false, true, report.Yes, "reaches"},
		{"few are settled", higher, "validation", 0.2, false, false, report.Inconclusive, "coverage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook(t, "UTC")
			verdict := "confirmed"
			if !tt.resolved {
				verdict = ""
			}
			b.promise(b.claim(), 0.8, verdict)
			b.promise(b.claim(), 0.8, "")
			if !tt.late {
				tt.register(b)
			}
			measure := "accuracy"
			if tt.name == "dev that is called otherwise" {
				measure = "accuracy, validation"
			}
			b.arms(tt.split, "A2", "A1", measure, 12, around(tt.gain))
			if tt.late {
				tt.register(b)
			}
			b.Advance(8 * 24 * time.Hour)
			b.close("2026-W41", 2026, 10, 12)
			q := reported(t, b.Ledger, report.Config{}).Questions
			if q[0].Answer != tt.want || !strings.Contains(q[0].Why, tt.why) {
				t.Errorf("%s: %s; want %s for %q", q[0].Answer, q[0].Why, tt.want, tt.why)
			}
			for _, other := range q[1:] {
				if other.Answer != report.Inconclusive {
					t.Errorf("%s: %s, %s", other.Text, other.Answer, other.Why)
				}
			}
		})
	}
}

func higher(b *book) { b.register("p", "accuracy", "higher", 0.08, "A1", "A2") }

// TestThirdQuestion: it takes both endpoints, and one that is no suffices for a no.
func TestThirdQuestion(t *testing.T) {
	for _, tt := range []struct {
		loss, success float64
		want          report.Answer
	}{{-0.3, 0.3, report.Yes}, {-0.3, -0.3, report.No}, {0.3, 0.3, report.No}, {-0.3, 0.1, report.Inconclusive}} {
		b := newBook(t, "UTC")
		b.promise(b.claim(), 0.8, "confirmed")
		b.register("p1", "repair_loss", "lower", 0.1, "A2", "A7")
		b.register("p2", "success_per_dollar", "higher", 0.1, "A2", "A7")
		for measure, mid := range map[string]float64{"repair_loss": tt.loss, "success_per_dollar": tt.success} {
			b.arms("validation", "A7", "A2", measure, 12, func(w int) float64 { return mid + float64(w%3-1)/100 })
		}
		b.Advance(8 * 24 * time.Hour)
		b.close("2026-W41", 2026, 10, 12)
		if q := reported(t, b.Ledger, report.Config{}).Questions[2]; q.Answer != tt.want {
			t.Errorf("%v and %v: %s, %s; want %s", tt.loss, tt.success, q.Answer, q.Why, tt.want)
		}
	}
}

const evil = "<script>alert(1)</script>\u202egnp.\u202c\x00\x1b[31m](javascript:x)|`*_ https://evil.example \u0410"

// hostile is a ledger in which every text that reaches a report is as bad as its type
// lets it be, whatever the intake would have refused.
func hostile(t testing.TB) *book {
	b := newBook(t, "UTC")
	id := strings.ReplaceAll(evil, "\x00", "") // which would end a part of a key
	long := evil + strings.Repeat("А", 30<<10)
	b.promise(b.claim(), 0.8, "confirmed")
	b.register(id, evil, evil, 0.1, "A1", "A2", id)
	run := func(id, arm string) {
		b.Put(harness, bench, &events.RunStarted{
			RunID: id, Arm: arm, Split: "validation", BenchVersion: &long, Model: ptr(evil), ModelVersion: ptr(evil), SubjectCommit: ptr(evil), ScorerSHA256: ptr(evil),
		})
	}
	for _, arm := range []string{"A1", "A2", id} {
		run(id+arm, arm)
		for w := range 6 {
			b.Put(harness, bench, &events.ResponseRecorded{RunID: id + arm, CaseID: fmt.Sprint("w", w), RunIndex: ptr(int64(0)), Status: "parsed"})
			b.Put(harness, bench, &events.ScoreRecorded{RunID: id + arm, CaseID: fmt.Sprint("w", w), RunIndex: ptr(int64(0)), Scorer: long, Values: []events.ScoreValue{{Metric: evil, Value: ptr(0.5)}}})
		}
	}
	for _, arm := range []string{"empty", id} {
		b.Put(harness, bench, &events.EpisodeRecorded{Client: ptr(evil), Model: &long, TaskID: ptr(evil), PairID: &id, Arm: &arm, Correct: ptr(true)}, episodeOf(b))
	}
	b.Advance(8 * 24 * time.Hour)
	b.close("2026-W41", 2026, 10, 12)
	return b
}

var (
	tags    = regexp.MustCompile(`<(/?[A-Za-z!][^\s>]*)`)
	inCode  = regexp.MustCompile("`[^`\n]*`")
	allowed = strings.Fields(`!DOCTYPE html head meta title style body header h1 p div figure figcaption svg line circle text rect main section h2 small
		table thead tbody tr th td span br pre code footer`)
)

// TestHostile: nothing that an event says is markup, a control character, a letter that
// passes for another or longer than a line; and no page asks for anything.
func TestHostile(t *testing.T) {
	r := reported(t, hostile(t).Ledger, report.Config{Namespace: prod, Repair: []string{evil}})
	r.Week.Zone, r.Namespace = evil, evil
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(html), `\u202e`); n < 10 {
		t.Errorf("only %d of the hostile names are on the page", n)
	}
	for _, m := range tags.FindAllSubmatch(html, -1) {
		if !slices.Contains(allowed, strings.TrimPrefix(string(m[1]), "/")) {
			t.Errorf("the page has a tag %s", m[0])
		}
	}
	md := r.Markdown()
	for name, page := range map[string][]byte{"html": html, "md": md} {
		if len(page) > 256<<10 {
			t.Errorf("%s has %d bytes", name, len(page))
		}
		for _, bad := range []string{"\u202e", "\x00", "\x1b", "\u0410", "<script", "javascript:x)</a"} {
			if bytes.Contains(page, []byte(bad)) && (name == "html" || bad != "<script") {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
	outside := inCode.ReplaceAll(md, nil)
	for _, bad := range []string{"<", "evil", "javascript", "http"} {
		if bytes.Contains(outside, []byte(bad)) {
			t.Errorf("the Markdown has %q outside of code", bad)
		}
	}
	for _, ask := range []string{"src=", "href=", "url(", "@import", "<script", "<link"} {
		if bytes.Contains(html, []byte(ask)) {
			t.Errorf("the page has %q", ask)
		}
	}
}
