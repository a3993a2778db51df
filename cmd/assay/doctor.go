package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/doctor"
)

type doctorCmd struct {
	NATS     string `name:"nats" help:"Examine the external broker at this address. Default: the one that serves DIR." placeholder:"URL"`
	Monitor  string `help:"Monitoring address of the external broker (http://host:8222), to see that it fsyncs before it acks." placeholder:"URL"`
	CredsDir string `help:"Directory with the credentials to try. Default: DIR/creds." type:"path" placeholder:"DIR"`
	Pin      string `help:"Pin file of verify, to hold the newest checkpoint against." type:"path" placeholder:"FILE"`
	LowWater int64  `help:"Room in MiB that every disk must have." default:"256"`
}

func (c *doctorCmd) Run(a *app) error {
	if c.LowWater <= 0 || c.LowWater > maxMiB {
		return usageError("--low-water must be positive and in MiB")
	}
	r, err := doctor.Examine(a.ctx, doctor.Config{
		Dir: a.dir, NATS: c.NATS, Monitor: c.Monitor, CredsDir: c.CredsDir, Pin: c.Pin, LowWater: uint64(c.LowWater) * mib, Software: software(),
	})
	if err != nil {
		return err
	}
	if err := a.print(r, func(w io.Writer) { printExamination(w, r) }); err != nil {
		return err
	}
	switch {
	case r.Count(doctor.Fail) > 0:
		return errDoesNotHold
	case !r.Asked:
		return &exitError{code: exitNotCompare}
	}
	return nil
}

func printExamination(w io.Writer, r doctor.Report) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%-7s  %s: %s\n", f.Result, f.Check, visible(f.Seen))
		if f.Do != "" {
			fmt.Fprintf(w, "         → %s\n", visible(f.Do))
		}
	}
	fmt.Fprintf(w, "%d ok, %d warnings, %d failures, %d unknown\n",
		r.Count(doctor.OK), r.Count(doctor.Warn), r.Count(doctor.Fail), r.Count(doctor.Unknown))
	if !r.Asked {
		fmt.Fprintf(w, "nothing that runs could be asked on %s\n", r.Dir)
	}
}
