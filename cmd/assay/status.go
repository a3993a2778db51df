package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"assay/cmd/internal/node"
	"assay/ledger/logger"
)

func isNotServed(err error) bool { return errors.Is(err, node.ErrNotServed) }

type statusCmd struct{}

func (c *statusCmd) Run(a *app) error {
	if err := a.dir.Check(); err != nil {
		return err
	}
	running, err := node.AskServices(a.ctx, a.dir)
	if err != nil {
		return err
	}
	all := []node.Status{}
	for _, r := range running {
		all = append(all, r.Status)
	}
	if err := a.print(all, func(w io.Writer) { printStatus(w, all, string(a.dir)) }); err != nil {
		return err
	}
	if len(all) == 0 {
		return errDoesNotHold
	}
	return nil
}

func printWitnessing(w io.Writer, s *logger.Witnessing) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "             quorum %q met up to %d", s.Quorum, s.Size)
	if s.Trouble != "" {
		fmt.Fprintf(w, ", TROUBLE: %s", visible(s.Trouble))
	}
	fmt.Fprintln(w)
	for _, p := range s.Witnesses {
		fmt.Fprintf(w, "             witness %s", visible(p.Name))
		if p.AgeSeconds != nil {
			fmt.Fprintf(w, " cosigned %d %.0f s ago", p.Size, *p.AgeSeconds)
		}
		if p.Error != "" {
			fmt.Fprintf(w, ", failed: %s", visible(p.Error))
		}
		fmt.Fprintln(w)
	}
}

func printGateway(w io.Writer, g *node.GatewayStatus) {
	if g == nil {
		return
	}
	fmt.Fprintf(w, "  gateway    %d events taken, %d spooled, %d blobs, %d connections\n", g.Taken, g.Spooled, g.Blobs, g.Connections)
	for _, id := range slices.Sorted(maps.Keys(g.Spools)) {
		s := g.Spools[id]
		fmt.Fprintf(w, "             spool of %s: %d events, %d of %d bytes, %d refused when they were delivered\n", id, s.Events, s.Bytes, s.Limit, s.Refused)
		if s.Trouble != "" {
			fmt.Fprintf(w, "             TROUBLE: %s\n", visible(s.Trouble))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(g.Refused)) {
		fmt.Fprintf(w, "             refused %d: %s\n", g.Refused[code], code)
	}
}

func printHooks(w io.Writer, of map[string]node.HookStatus) {
	for _, id := range slices.Sorted(maps.Keys(of)) {
		h := of[id]
		fmt.Fprintf(w, "  hooks      of %s: %d delivered, %d waiting, %d refused, %d errors\n", id, h.Delivered, h.Waiting, h.Refused, h.Errors)
		if h.LastError != "" {
			fmt.Fprintf(w, "             last error: %s\n", visible(h.LastError))
		}
		if h.Trouble != "" {
			fmt.Fprintf(w, "             TROUBLE: %s\n", visible(h.Trouble))
		}
	}
}

func printStatus(w io.Writer, all []node.Status, dir string) {
	if len(all) == 0 {
		fmt.Fprintf(w, "nothing runs on %s\n", dir)
	}
	for _, s := range all {
		fmt.Fprintf(w, "%s  broker at %s", s.Services, s.URL)
		if s.Sync != "" {
			fmt.Fprintf(w, ", fsync before ack: %s", s.Sync)
		}
		fmt.Fprintln(w)
		if b := s.Broker; b != nil {
			fmt.Fprintf(w, "  broker     %s %s\n", b.State, visible(b.Detail))
			if b.FreeBytes != nil && b.StoreRoom != nil {
				fmt.Fprintf(w, "             %d MiB free on its disk, %d MiB before its store limit\n", *b.FreeBytes>>20, *b.StoreRoom>>20)
			}
			if b.Restarts > 0 {
				fmt.Fprintf(w, "             restarted %d times, last since %s\n", b.Restarts, visible(b.Restarted))
			}
		}
		if l := s.Logger; l != nil {
			fmt.Fprintf(w, "  logger     %s %s\n             %d records, the checkpoint signs %d, %d events wait\n             root %s\n", l.State, visible(l.Detail), l.Size, l.CheckpointSize, l.Waiting, l.Root)
			if l.Warning != "" {
				fmt.Fprintf(w, "             warning: %s\n", visible(l.Warning))
			}
			if l.LeaseAge != nil {
				fmt.Fprintf(w, "             %s, instance %q, the lease is %.1f s old\n", l.Role, l.Instance, *l.LeaseAge)
			}
			for _, code := range slices.Sorted(maps.Keys(l.Rejected)) {
				fmt.Fprintf(w, "             rejected %d: %s\n", l.Rejected[code], code)
			}
			printWitnessing(w, l.Witnessing)
		}
		if p := s.Projector; p != nil {
			fmt.Fprintf(w, "  projector  at %d of %d, %d parked", p.Seq, p.Head, p.Parked)
			if p.Halted != "" {
				fmt.Fprintf(w, ", HALTED: %s", visible(p.Halted))
			}
			fmt.Fprintln(w)
		}
		if t := s.Telemetry; t != nil {
			fmt.Fprintf(w, "  telemetry  %d batches received, %d refused, %d lost, %d dropped\n", t.Received, t.Refused, t.Lost, t.Dropped)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
			src := s.Sources[name]
			fmt.Fprintf(w, "  source     %s: %d samples sent, %d left out, %d inputs refused", name, src.Sent, src.LeftOut, src.Refused)
			if !src.UpTo.IsZero() {
				fmt.Fprintf(w, ", up to %s", src.UpTo.Format(time.RFC3339))
			}
			fmt.Fprintln(w)
			for _, trouble := range []string{src.Error, src.Doubt} {
				if trouble != "" {
					fmt.Fprintf(w, "             TROUBLE: %s\n", visible(trouble))
				}
			}
		}
		if r := s.Resolver; r != nil {
			fmt.Fprintf(w, "  resolver   at %d, %d stored events differ from this engine's, %d records skipped\n", r.Applied, r.Differed, r.Skipped)
			if r.Unsaid > 0 {
				fmt.Fprintf(w, "             TROUBLE: %d rollbacks that the ledger calls for are not written: its log says why\n", r.Unsaid)
			}
			fmt.Fprintf(w, "             %d predictions open, %d amendable; %d segments with telemetry too late to amend\n", r.Open, r.Amendable, r.TooLate)
		}
		printGateway(w, s.Gateway)
		printHooks(w, s.Hooks)
		for _, account := range slices.Sorted(maps.Keys(s.Refused)) {
			fmt.Fprintf(w, "  refused by the broker: %d of %s\n", s.Refused[account], account)
		}
	}
}
