// Command scale fills a ledger with many records and sees that what reads all
// of them stays within a fixed memory, and that a restart does not read them.
//
// It makes a directory with `assay init`, fills the stream as fast as the
// broker takes it, and then runs the assay command itself: the services once
// over the whole backlog, each command that streams the ledger, and, after
// kill -9 of everything, `assay up`. Memory is the largest resident set of each
// process by the kernel's word; the broker is always a process of its own but
// in the restart.
//
// It prints a table, or with --json one object, and exits 1 when a command
// or the resolver took more memory, or the restart more time, than it may.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/house"
)

const (
	// maxMiB is what a command that streams the ledger may take.
	maxMiB = 256
	// resolverMiB and what each record adds to it is what the resolver's first fold
	// may take: 2 GiB over ten million.
	resolverMiB       = 128
	resolverPerRecord = 190 // bytes
	// maxRestart is how long a restart may take until everything has caught up.
	maxRestart = 60 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == fillCommand {
		err = fillMain(ctx, os.Args[2:], os.Stderr)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

type options struct {
	records int
	assay   string
	dir     string
	ledger  string
	keep    bool
	json    bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.IntVar(&o.records, "records", 1_000_000, "records in the ledger")
	f.StringVar(&o.assay, "assay", "", "the assay command (default: built from this tree)")
	f.StringVar(&o.dir, "dir", "", "where the scratch directory is made (default: the system's temporary directory)")
	f.StringVar(&o.ledger, "ledger", "", "go on with the ledger that an earlier run with --keep left in this directory")
	f.BoolVar(&o.keep, "keep", false, "leave the ledger behind and say where")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.records < 1000 {
		return o, errors.New("want at least 1000 records")
	}
	return o, nil
}

// Row is one measured step. A figure of 0 was not measured.
type Row struct {
	Name    string  `json:"name"`
	Records int     `json:"records,omitzero"` // read or written
	Seconds float64 `json:"seconds"`
	PeakMiB float64 `json:"peak_mib,omitzero"`
	// MaxMiB and MaxSeconds are what it may take; 0 sets no limit.
	MaxMiB     float64 `json:"max_mib,omitzero"`
	MaxSeconds float64 `json:"max_seconds,omitzero"`
	Met        bool    `json:"met"`
	Note       string  `json:"note,omitzero"`
}

// Report is what a run found.
type Report struct {
	Records int   `json:"records"`
	Rows    []Row `json:"rows"`
	Met     bool  `json:"met"` // every row
}

func (r *Report) add(row Row) {
	r.Rows = append(r.Rows, row)
	r.judge(len(r.Rows) - 1)
}

// judge holds a row against its limits.
func (r *Report) judge(i int) {
	row := &r.Rows[i]
	row.Met = (row.MaxMiB == 0 || row.PeakMiB <= row.MaxMiB) && (row.MaxSeconds == 0 || row.Seconds <= row.MaxSeconds)
	r.Met = r.Met && row.Met
}

var errMissed = errors.New("a limit was not kept")

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	scratch, assay, done, err := house.Scratch(ctx, o.ledger, o.dir, "assay-scale-", o.keep, o.assay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	o.assay = assay
	report, err := measure(ctx, o, scratch)
	if err != nil {
		return err
	}
	if o.json {
		err = json.MarshalWrite(out, report, jsontext.WithIndent("  "))
	} else {
		err = report.print(out)
	}
	if err == nil && !report.Met {
		err = errMissed
	}
	return err
}

func (r *Report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\trecords\tseconds\trecords/s\tpeak MiB\tlimit\tmet\t  notes")
	for _, row := range r.Rows {
		records, rate, peak, limit, met := "", "", "", "", ""
		if row.Records > 0 {
			records, rate = fmt.Sprint(row.Records), fmt.Sprintf("%.0f", float64(row.Records)/row.Seconds)
		}
		if row.PeakMiB > 0 {
			peak = fmt.Sprintf("%.0f", row.PeakMiB)
		}
		switch {
		case row.MaxMiB > 0:
			limit = fmt.Sprintf("%.0f MiB", row.MaxMiB)
		case row.MaxSeconds > 0:
			limit = fmt.Sprintf("%.0f s", row.MaxSeconds)
		}
		switch {
		case limit == "":
		case row.Met:
			met = "yes"
		default:
			met = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%s\t%s\t%s\t%s\t  %s\n", row.Name, records, row.Seconds, rate, peak, limit, met, row.Note)
	}
	return w.Flush()
}
