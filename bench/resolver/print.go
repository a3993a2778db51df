package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s; %d predictions over %d signals of %d sources, %d series, %d samples/s, sealed every %s\n",
		r.Machine, r.Predictions, r.Signals, r.Sensors, r.Series, r.Rate, r.Seal)
	for _, table := range []func(w *tabwriter.Writer){r.printPhases, r.printProcesses, r.printRestarts, r.printFold, r.printChecks} {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		table(w)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) printPhases(w *tabwriter.Writer) {
	if len(r.Phases) == 0 {
		return
	}
	fmt.Fprintln(w, "\nphase\ts\tsamples/s\tsealed/s\trecords/s\tdue\tverdicts\topen\tbehind\tat end\twatermark\tat end\tack p50\tp99\t")
	for _, p := range r.Phases {
		fmt.Fprintf(w, "%s\t%.1f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t%d\t%d\t%.1f s\t%.1f s\t%.1f ms\t%.1f ms\t\n", p.Name, p.Seconds, p.Offered, p.Sealed, p.Records,
			p.Due, p.Given, p.Open, p.Behind, p.BehindEnd, p.Watermark, p.WatermarkEnd, p.Acks.P50, p.Acks.P99)
	}
	if s := r.Segments; s != nil {
		fmt.Fprintf(w, "\n%d segments of %d samples, at most %d and %.1f MiB, %.0f bytes a sample; in the ledger %.1f s behind their watermarks, p99 %.1f s\n",
			s.N, s.Samples, s.MaxSamples, float64(s.MaxBytes)/(1<<20), s.Bytes, s.Delay.P50/1e3, s.Delay.P99/1e3)
	}
	v := r.Verdicts
	if v == nil {
		return
	}
	for _, verdict := range slices.Sorted(maps.Keys(v.Given)) {
		fmt.Fprintf(w, "%d %s, ", v.Given[verdict], verdict)
	}
	fmt.Fprintf(w, "%d wrong, %d twice, %d missing; %.1f s after they were due, p99 %.1f s, at most %.1f s\n", v.Wrong, v.Twice, v.Missing, v.Lag.P50/1e3, v.Lag.P99/1e3, v.Lag.Max/1e3)
	for _, reason := range slices.Sorted(maps.Keys(v.Reasons)) {
		fmt.Fprintf(w, "wrong: %d %s\n", v.Reasons[reason], reason)
	}
}

func (r *Report) printProcesses(w *tabwriter.Writer) {
	if len(r.Phases) == 0 {
		return
	}
	names := append(slices.Clone(services), "load")
	fmt.Fprint(w, "\ncores, MiB")
	for _, name := range names {
		fmt.Fprintf(w, "\t%s", name)
	}
	fmt.Fprintln(w, "\t")
	for _, p := range r.Phases {
		fmt.Fprint(w, p.Name)
		for _, name := range names {
			u := p.Processes[name]
			fmt.Fprintf(w, "\t%.2f, %.0f", u.Cores, u.RSSMiB)
		}
		fmt.Fprintln(w, "\t")
	}
	fmt.Fprint(w, "peak")
	for _, name := range names {
		peak := 0.0
		for _, p := range r.Phases {
			peak = max(peak, p.Processes[name].PeakMiB)
		}
		fmt.Fprintf(w, "\t%.0f", peak)
	}
	fmt.Fprintln(w, "\t")
}

func (r *Report) printRestarts(w *tabwriter.Writer) {
	if len(r.Restarts) == 0 {
		return
	}
	fmt.Fprintln(w, "\nrestart of the resolver\tstop\tcaught up\trecords\topen\tstate\tpeak\t")
	for _, s := range r.Restarts {
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%d\t%d\t%.1f MiB\t%.0f MiB\t\n", s.Name, s.Stop, s.Seconds, s.Records, s.Open, s.StateMiB, s.PeakMiB)
	}
}

func (r *Report) printFold(w *tabwriter.Writer) {
	fmt.Fprintln(w, "\nfold alone: bystanders\twatchers a series\tns a sample\tdecoding it\tµs a prediction\t")
	for _, c := range r.Fold {
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%.0f\t%.0f\t\n", c.Bystanders, c.Watchers, c.Sample, c.Decode, c.Prediction)
	}
}

func (r *Report) printChecks(w *tabwriter.Writer) {
	fmt.Fprintln(w, "\nmust hold\tis\tat most\tmet\t")
	for _, c := range r.Checks {
		met := "yes"
		if !c.Met {
			met = "NO"
		}
		fmt.Fprintf(w, "%s\t%.2f %s\t%.2f %s\t%s\t\n", c.Name, c.Value, c.Unit, c.Limit, c.Unit, met)
	}
}
