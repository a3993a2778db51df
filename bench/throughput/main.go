// Command throughput measures what assay costs over its parts, on one machine
// in one run, and prints ratios: a figure alone says more about the machine
// than about assay.
//
//	append  durable append through the logger, against a client that appends the
//	        same record bytes in the same atomic batches to a broker of the same
//	        configuration
//	sqlite  the same append, against SQLite (bench/sqlite, a module of its own)
//	ack     latency of one event at a time, against a synchronous publish to the
//	        same kind of stream
//	verify  an audit of the ledger, against a bare read of it by the same account
//	replay  all views rebuilt, against the same bare read
//	fsck    a check of an export's files, against SHA-256 over the same records
//
// Machines are noisy, so the two sides of a row alternate, and a row gives the
// ratio of their medians with the lowest and highest of each. A first append
// round is not counted. Processor time is measured beside the clock: it depends
// less on what else the machine does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type options struct {
	records    int
	rounds     int
	message    int
	flight     int
	acks       int
	only       string
	json       bool
	dir        string
	cpuProfile string
}

var rowNames = []string{"append", "sqlite", "ack", "verify", "replay", "fsck"}

func main() {
	// The reading sides run in processes of their own, as `assay verify` does.
	if len(os.Args) > 1 && os.Args[1] == readCommand {
		exit(readMain(os.Args[2:], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, os.Args[1:], os.Stdout))
}

func exit(err error) {
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("throughput", flag.ContinueOnError)
	f.IntVar(&o.records, "records", 200_000, "records appended in a round")
	f.IntVar(&o.rounds, "rounds", 3, "times that the two sides of a row alternate")
	f.IntVar(&o.message, "message", 250, "events in an intake message")
	f.IntVar(&o.flight, "flight", 20, "intake messages in flight on each of the three connections")
	f.IntVar(&o.acks, "acks", 1000, "events of the ack row in a round")
	f.StringVar(&o.only, "only", "", "one row: "+strings.Join(rowNames, ", "))
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.StringVar(&o.dir, "dir", "", "where the scratch directories are made (default: the system's temporary directory)")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write profiles of assay's side to files of this prefix")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.only != "" && !slices.Contains(rowNames, o.only):
		return o, fmt.Errorf("no row is called %q; there are %s", o.only, strings.Join(rowNames, ", "))
	case o.records < 1000 || o.rounds < 1 || o.message < 1 || o.flight < 1 || o.acks < 1:
		return o, errors.New("want at least 1000 records and one of everything else")
	case o.message > maxMessage:
		return o, fmt.Errorf("at most %d events fit into a message", maxMessage)
	}
	return o, nil
}

func (o options) wants(row string) bool { return o.only == "" || o.only == row }

// Report is what a run found.
type Report struct {
	Machine string `json:"machine"`
	Records int    `json:"records"` // a round
	Rounds  int    `json:"rounds"`
	Rows    []Row  `json:"rows"`
	// Skipped rows with the reason.
	Skipped map[string]string `json:"skipped,omitzero"`
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(o.dir, "assay-throughput-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	report := Report{Machine: machine(), Records: o.records, Rounds: o.rounds, Skipped: map[string]string{}}
	if err := measure(ctx, o, scratch, &report); err != nil {
		return err
	}
	if o.json {
		return json.MarshalWrite(out, report, jsontext.WithIndent("  "), json.Deterministic(true))
	}
	return report.print(out)
}

func (r Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s; %d records a round, %d rounds; medians (lowest–highest); best is the ratio of the best rounds\n", r.Machine, r.Records, r.Rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tassay\tagainst\tratio\tbest\ttarget\tmet\tCPU µs\tagainst\tnotes")
	for _, row := range r.Rows {
		op := "≥"
		if row.AtMost {
			op = "≤"
		}
		met := "yes"
		if !row.Met {
			met = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%.2f\t%s %.1f\t%s\t%s\t%s\t%s\n", row.Name, row.Assay.text(row.Unit), row.Against.text(row.Unit),
			row.Ratio, row.BestRatio, op, row.Target, met, row.AssayCPU.text("µs"), row.AgainstCPU.text("µs"), row.Note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, name := range rowNames {
		if why := r.Skipped[name]; why != "" {
			fmt.Fprintf(out, "%s was not measured: %s\n", name, why)
		}
	}
	return nil
}
