// Command score measures how long the score and the metrics take over the views of a
// long ledger, against a bare scan of the same views, and prints the ratios.
//
//	first    a store that was just opened, as after a start
//	warm     the same store again
//	changed  one record later, before what is kept beside the views was brought up
//	         to it: by turns any record of a busy agent, and a usage.recorded that
//	         takes the place of what a tool call said
//
// Each is asked of the score, of every metric of the catalogue, one after the other,
// and of a week's report; the slowest metrics follow by name. Before, it says how long the fold took and how long
// the first keeping, which a projector does in the background once it has caught up;
// and how long a keeping takes after one record.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/kv"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/report"
	"assay/projector/view"
)

// slowest is how many of the slowest metrics are named.
const slowest = 5

// target is how long an answer may take, in milliseconds (C9: a score from views).
const target = 200

// reportTarget is the same for a week's report.
const reportTarget = 2000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "score:", err)
		os.Exit(1)
	}
}

// Row is one measured answer, in milliseconds.
type Row struct {
	Name   string  `json:"name"`
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
	// Ratio is the median over that of the bare scan.
	Ratio float64 `json:"ratio"`
	// Target is what the median may be; 0 sets none.
	Target float64 `json:"target,omitzero"`
	Met    bool    `json:"met"`
}

// Report is what a run found.
type Report struct {
	Records  int     `json:"records"`
	ViewsMiB float64 `json:"views_mib"` // keys and values of the views
	KeptMiB  float64 `json:"kept_mib"`  // and of what is kept beside them
	Rows     []Row   `json:"rows"`
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("score", flag.ContinueOnError)
	records := f.Int("records", 1_000_000, "records in the ledger")
	rounds := f.Int("rounds", 9, "how often each answer is asked for")
	dir := f.String("dir", "", "where the scratch directory is made (default: the system's temporary directory)")
	asJSON := f.Bool("json", false, "print one JSON object")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *records < weeks || *rounds < 1 {
		return fmt.Errorf("at least %d records and one round", weeks)
	}
	scratch, err := os.MkdirTemp(*dir, "assay-score-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	w := &world{ctx: ctx, path: filepath.Join(scratch, "views"), ledger: ledgertest.New(), rng: rand.New(rand.NewPCG(1, 2)), each: map[string][]float64{}}
	report := &Report{Records: *records}
	if err := w.measure(report, *rounds); err != nil {
		return err
	}
	if *asJSON {
		return json.MarshalWrite(out, report, jsontext.WithIndent("  "))
	}
	return report.print(out)
}

// world is a ledger and its views.
type world struct {
	ctx    context.Context
	path   string
	ledger *ledgertest.Ledger
	rng    *rand.Rand
	db     *kv.DB
	calls  int                  // that a usage took the place of
	each   map[string][]float64 // metric by metric
}

func (w *world) measure(report *Report, rounds int) error {
	w.live(report.Records)
	var fold, keep []float64
	steps := []struct {
		took *[]float64
		keep func(*projector.Keeping) error
	}{{&fold, nil}, {&keep, metric.Keep}}
	for _, s := range steps {
		err := w.opened(func() error { return timed(s.took, func() error { return w.catchUp(s.keep) }) })
		if err != nil {
			return err
		}
	}
	err := w.opened(func() (err error) {
		if report.ViewsMiB, err = w.size("s/"); err == nil {
			report.KeptMiB, err = w.size("k")
		}
		return err
	})
	if err != nil {
		return err
	}
	answers := map[string][]float64{}
	ask := func(name string, fn func() error) error {
		v := answers[name]
		err := timed(&v, fn)
		answers[name] = v
		return err
	}
	for range rounds {
		err := w.opened(func() error { return ask("bare scan", w.scan) })
		for _, q := range []struct {
			name string
			fn   func() error
		}{{"score", w.score}, {"metrics", w.metrics}, {"report", w.report}} {
			err = errors.Join(err, w.opened(func() error {
				if err := errors.Join(ask(q.name+", first", q.fn), ask(q.name+", warm", q.fn)); err != nil {
					return err
				}
				for _, change := range []func() error{w.anything, w.usage} {
					err := errors.Join(change(), w.catchUp(noKeeping))
					if err == nil {
						err = errors.Join(ask(q.name+", changed", q.fn), ask("keeping", func() error { return w.catchUp(metric.Keep) }))
					}
					if err != nil {
						return err
					}
				}
				return nil
			}))
		}
		if err != nil {
			return err
		}
	}
	base := rowOf("bare scan", answers["bare scan"], 0, 0)
	report.Rows = append(report.Rows, rowOf("fold", fold, base.Median, 0), rowOf("first keeping", keep, base.Median, 0), base)
	for _, name := range []string{
		"score, first", "score, warm", "score, changed", "metrics, first", "metrics, warm", "metrics, changed", "report, first", "report, warm", "report, changed", "keeping",
	} {
		limit := float64(0) // a page takes its time
		switch {
		case strings.HasPrefix(name, "score"):
			limit = target
		case strings.HasPrefix(name, "report"):
			limit = reportTarget
		}
		report.Rows = append(report.Rows, rowOf(name, answers[name], base.Median, limit))
	}
	var each []Row
	for name, took := range w.each {
		each = append(each, rowOf(name, took, base.Median, target))
	}
	slices.SortFunc(each, func(a, b Row) int { return cmp.Compare(b.Median, a.Median) })
	report.Rows = append(report.Rows, each[:slowest]...)
	return nil
}

// weeks are how many of them the ledger closes.
const weeks = 13

// live fills the ledger, and closes weeks.
func (w *world) live(records int) {
	for i := range weeks {
		w.ledger.Mix(w.rng, records/weeks)
		now := events.FormatTime(w.ledger.Now())
		w.ledger.Put("logger/main", "system", &events.WeekClosed{Week: fmt.Sprintf("2026-W%02d", 40+i), Zone: "UTC", Start: now, End: now})
	}
}

// noKeeping keeps what is kept where it stands, and has the runner write down what changes.
func noKeeping(*projector.Keeping) error { return nil }

func timed(took *[]float64, fn func() error) error {
	start := time.Now()
	err := fn()
	*took = append(*took, float64(time.Since(start).Microseconds())/1000)
	return err
}

func rowOf(name string, took []float64, base, limit float64) Row {
	slices.Sort(took)
	r := Row{Name: name, Min: took[0], Median: took[len(took)/2], Max: took[len(took)-1], Target: limit}
	if base > 0 {
		r.Ratio = r.Median / base
	}
	r.Met = limit == 0 || r.Median <= limit
	return r
}

// opened calls fn with the store opened anew.
func (w *world) opened(fn func() error) (err error) {
	if w.db, err = kv.Open(w.path, kv.Options{}); err != nil {
		return err
	}
	return errors.Join(fn(), w.db.Close())
}

func (w *world) catchUp(keep func(*projector.Keeping) error) error {
	r, err := projector.NewRunner(projector.Config{DB: w.db, Source: w.ledger, Projections: view.All(), Keep: keep})
	if err != nil {
		return err
	}
	return r.CatchUp(w.ctx, 0)
}

// anything appends one record.
func (w *world) anything() error {
	w.ledger.Mix(w.rng, 1)
	return nil
}

// usage appends a usage of a call's own message.
func (w *world) usage() error {
	n, skip := 0, w.rng.IntN(2000)+w.calls
	return w.state(func(s *projector.State) error {
		return view.ListToolCalls(s, metric.DefaultNamespace, func(t *view.ToolCall) error {
			if n++; n < skip || t.MessageID == nil {
				return nil
			}
			w.calls++
			w.ledger.Put("dispatcher/main", metric.DefaultNamespace, &events.UsageRecorded{MessageID: t.MessageID})
			return kv.ErrStop
		})
	})
}

// scan reads every byte of the views.
func (w *world) scan() error {
	_, err := w.size("s/")
	return err
}

// size is that of the keys with a prefix and their values, in MiB.
func (w *world) size(prefix string) (mib float64, err error) {
	n := 0
	err = w.db.Scan([]byte(prefix), nil, func(k, v []byte) error { n += len(k) + len(v); return nil })
	return float64(n) / (1 << 20), err
}

func (w *world) state(fn func(*projector.State) error) error {
	s, err := projector.NewState(w.db)
	if err != nil {
		return err
	}
	return fn(s)
}

func (w *world) score() error {
	return w.state(func(s *projector.State) error {
		_, err := metric.Compute(s, "")
		return err
	})
}

func (w *world) metrics() error {
	return w.state(func(s *projector.State) error {
		for _, m := range metric.Catalogue() {
			took := w.each[m.Name]
			err := timed(&took, func() error {
				_, err := metric.Explain(s, m.Name, "", metric.Options{}, nil)
				return err
			})
			if w.each[m.Name] = took; err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) report() error {
	return w.state(func(s *projector.State) error {
		r, err := report.Build(s, report.Config{})
		if err == nil {
			_, err = r.HTML()
		}
		return err
	})
}

func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%d records, %.0f MiB of views, %.0f MiB kept beside them\n", r.Records, r.ViewsMiB, r.KeptMiB)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tmedian ms\tmin\tmax\tof a bare scan\ttarget ms\tmet\t")
	for _, row := range r.Rows {
		limit, met := "", ""
		if row.Target > 0 {
			if limit, met = fmt.Sprintf("%.0f", row.Target), "NO"; row.Met {
				met = "yes"
			}
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.4f\t%s\t%s\t\n", row.Name, row.Median, row.Min, row.Max, row.Ratio, limit, met)
	}
	return w.Flush()
}
