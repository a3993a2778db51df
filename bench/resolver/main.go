// Command resolver loads the resolver as a busy house would and prints whether
// it keeps up: predictions that are open by the hundred thousand, and telemetry
// that never ends, from sensors to sealed segments to verdicts.
//
// It makes a directory with `assay init`, registers signals of several sources,
// and runs broker, logger, projector, ingress and resolver as the processes that
// `assay serve` makes of them. Sensors of this process publish over loopback;
// the predictions go through the intake. The phases:
//
//	quiet     nothing but the probe, which publishes one event after another
//	          and times each ack; it goes on through all phases
//	intake    the sensors begin, and the predictions are published
//	arming    until the resolver has armed them all
//	restart   the resolver is stopped and started with its saved fold, then
//	          killed and started without
//	open      all predictions are open
//	settling  their windows close one after another
//	after     the last segments are sealed, and the last predictions expire
//
// Then the ledger is read: each prediction must have one verdict, the one that
// its criterion was made for. A last table has the fold alone, in this process:
// what a sample costs by how many predictions there are that do not watch its
// signal, and by how many that do.
//
// It prints tables, or with --json one object, and exits 1 when a limit was not
// kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/house"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "resolver:", err)
		os.Exit(1)
	}
}

type options struct {
	predictions int
	signals     int
	rate        int // samples a second
	sensors     int
	quiet       time.Duration
	open        time.Duration // from the first prediction until the first window opens
	settle      time.Duration // over which the windows' ends are spread
	seal        time.Duration
	segments    int // of the fold's table
	assay       string
	dir         string
	keep        bool
	foldOnly    bool
	json        bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("resolver", flag.ContinueOnError)
	f.IntVar(&o.predictions, "predictions", 100_000, "predictions that are open at a time")
	f.IntVar(&o.signals, "signals", 1000, "signals that they watch")
	f.IntVar(&o.rate, "rate", 10_000, "samples a second; each signal has rate/signals series")
	f.IntVar(&o.sensors, "sensors", 10, "sources, each with its share of the signals")
	f.DurationVar(&o.quiet, "quiet", 10*time.Second, "how long acks are timed before the load begins")
	f.DurationVar(&o.open, "open", 60*time.Second, "time from the first prediction to the first open window")
	f.DurationVar(&o.settle, "settle", 5*time.Minute, "time over which the windows close: as many are open all the time if each lasts so long")
	f.DurationVar(&o.seal, "seal", 10*time.Second, "the resolver's --seal")
	f.IntVar(&o.segments, "segments", 30, "segments of 10,000 samples that the fold's table folds for each row")
	f.StringVar(&o.assay, "assay", "", "the assay command (default: built from this tree)")
	f.StringVar(&o.dir, "dir", "", "where the scratch directory is made (default: the system's temporary directory)")
	f.BoolVar(&o.keep, "keep", false, "leave the scratch directory behind and say where")
	f.BoolVar(&o.foldOnly, "fold-only", false, "measure the fold's table alone")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.predictions < 1 || o.signals < 1 || o.sensors < 1 || o.segments < 1:
		return o, errors.New("want at least one of everything")
	case o.rate < o.signals:
		return o, errors.New("want at least one sample a second of each signal")
	case o.sensors > o.signals || (o.rate+o.sensors-1)/o.sensors > maxPerSensor:
		return o, fmt.Errorf("want at least one signal and at most %d samples a second of a sensor", maxPerSensor)
	case o.quiet <= 0 || o.open <= 0 || o.settle <= 0 || o.seal <= 0:
		return o, errors.New("want positive times")
	}
	return o, nil
}

// Report is what a run found. A phase or figure that was not measured is left
// out.
type Report struct {
	Machine     string    `json:"machine"`
	Predictions int       `json:"predictions"`
	Signals     int       `json:"signals"`
	Series      int       `json:"series"`
	Rate        int       `json:"rate"` // samples a second, wanted
	Sensors     int       `json:"sensors"`
	Seal        string    `json:"seal"`
	Phases      []Phase   `json:"phases,omitzero"`
	Restarts    []Restart `json:"restarts,omitzero"`
	Segments    *Segments `json:"segments,omitzero"`
	Verdicts    *Verdicts `json:"verdicts,omitzero"`
	Fold        []Cost    `json:"fold"`
	Checks      []Check   `json:"checks"`
	Met         bool      `json:"met"` // every check
}

// Check is one thing that must hold.
type Check struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"` // the most that it may be
	Unit  string  `json:"unit,omitzero"`
	Met   bool    `json:"met"`
}

func (r *Report) check(name string, value, limit float64, unit string) {
	met := value <= limit
	r.Checks = append(r.Checks, Check{name, value, limit, unit, met})
	r.Met = r.Met && met
}

var errMissed = errors.New("a limit was not kept")

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	w := newWorld(o)
	report := &Report{
		Machine:     fmt.Sprintf("%d × %s", runtime.NumCPU(), runtime.GOARCH),
		Predictions: o.predictions, Signals: o.signals, Series: o.signals * w.units, Rate: w.rate(), Sensors: o.sensors, Seal: o.seal.String(), Met: true,
	}
	if !o.foldOnly {
		if err := inHouse(ctx, o, w, report); err != nil {
			return err
		}
	}
	if err := measureFold(o, report); err != nil {
		return fmt.Errorf("fold: %w", err)
	}
	if o.json {
		err = json.MarshalWrite(out, report, jsontext.WithIndent("  "), json.Deterministic(true))
	} else {
		err = report.print(out)
	}
	if err == nil && !report.Met {
		err = errMissed
	}
	return err
}

// inHouse runs all that needs processes in a scratch directory.
func inHouse(ctx context.Context, o options, w *world, report *Report) (err error) {
	scratch, assay, done, err := house.Scratch(ctx, "", o.dir, "assay-resolver-", o.keep, o.assay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills what is left
	return measure(ctx, o, w, house.House{Dir: filepath.Join(scratch, "ledger"), Assay: assay}, report)
}
