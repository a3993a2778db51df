package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/cmd/internal/node"
	"assay/ledger/logger"
)

type topCmd struct {
	Once  bool          `help:"Print once and end. So it is with --json, and when the output is no terminal."`
	Every time.Duration `help:"Time between two looks." default:"2s"`
}

// look is what top shows of one moment. What no running service knows is null.
type look struct {
	At       string     `json:"at"`
	Services []topState `json:"services"`

	Records     *uint64 `json:"records"`      // in the ledger
	Unsigned    *uint64 `json:"unsigned"`     // behind the last checkpoint
	Waiting     *int    `json:"waiting"`      // events at the intake
	ViewsBehind *uint64 `json:"views_behind"` // records
	Folded      *uint64 `json:"folded"`       // records, by the resolver
	Open        *int    `json:"open_predictions"`
	Spooled     *int64  `json:"spooled"` // events, at the gateway
	// Rejected are the events that the logger refused since its start, by code.
	Rejected map[string]uint64 `json:"rejected"`
	// Rate is how many records a second were taken, and Refusals how many events
	// were refused, since the look before; null in the first.
	Rate     *float64 `json:"records_per_second"`
	Refusals *float64 `json:"rejected_per_second"`
}

// topState is one process and what keeps it from its job.
type topState struct {
	Services string   `json:"services"`
	NotReady []string `json:"not_ready"`
}

func (c *topCmd) Run(a *app) error {
	if c.Every < 100*time.Millisecond {
		return usageError("--every must be 100ms at least")
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	live := !c.Once && !a.json && isTerminal(a.stdout)
	var last *look
	var at time.Time
	for {
		running, err := node.AskServices(a.ctx, a.dir)
		if err != nil {
			return err
		}
		now := time.Now()
		l := lookAt(running, now)
		l.since(last, now.Sub(at))
		if !live {
			if err := a.print(l, func(w io.Writer) { l.text(w) }); err != nil || len(running) > 0 {
				return err
			}
			return errDoesNotHold // nothing runs
		}
		last, at = &l, now
		var b bytes.Buffer
		b.WriteString("\x1b[H\x1b[2J") // home, and clear
		l.text(&b)
		if _, err := a.stdout.Write(b.Bytes()); err != nil {
			return err
		}
		select {
		case <-a.ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

func lookAt(running []node.Running, now time.Time) look {
	l := look{At: now.UTC().Format(time.RFC3339), Services: []topState{}}
	for _, r := range running {
		l.Services = append(l.Services, topState{r.Services, r.NotReady})
		if s := r.Logger; s != nil && s.Role != logger.RoleStandby {
			unsigned := s.Size - min(s.Size, s.CheckpointSize)
			l.Records, l.Unsigned, l.Waiting, l.Rejected = &s.Size, &unsigned, &s.Waiting, s.Rejected
		}
		if p := r.Projector; p != nil {
			l.ViewsBehind = &p.Lag
		}
		if s := r.Resolver; s != nil {
			folded := uint64(s.Applied)
			l.Folded, l.Open = &folded, &s.Open
		}
		if g := r.Gateway; g != nil {
			spooled := int64(0)
			for _, s := range g.Spools {
				spooled += int64(s.Events)
			}
			l.Spooled = &spooled
		}
	}
	return l
}

// since sets the rates since the look before. A logger that started anew meanwhile
// counts from 0 again, so that its refusals are not known.
func (l *look) since(last *look, passed time.Duration) {
	if last == nil || passed <= 0 {
		return
	}
	if l.Records != nil && last.Records != nil && *l.Records >= *last.Records {
		rate := float64(*l.Records-*last.Records) / passed.Seconds()
		l.Rate = &rate
	}
	if now, before := node.Total(l.Rejected), node.Total(last.Rejected); l.Rejected != nil && last.Rejected != nil && now >= before {
		rate := float64(now-before) / passed.Seconds()
		l.Refusals = &rate
	}
}

func (l *look) text(w io.Writer) {
	fmt.Fprintf(w, "%s\n", l.At)
	if len(l.Services) == 0 {
		fmt.Fprintln(w, "nothing runs on this directory")
		return
	}
	for _, s := range l.Services {
		state := "ready"
		if len(s.NotReady) > 0 {
			state = "NOT READY: " + visible(strings.Join(s.NotReady, "; "))
		}
		fmt.Fprintf(w, "%-12s %s\n", s.Services, state)
	}
	fmt.Fprintf(w, "\nrecords      %s, %s a second\nunsigned     %s behind the last checkpoint\nwaiting      %s events at the intake\n",
		orUnknown(l.Records), rateText(l.Rate), orUnknown(l.Unsigned), orUnknown(l.Waiting))
	fmt.Fprintf(w, "views        %s records behind\nresolver     folded up to %s, %s predictions open\nspooled      %s events at the gateway\n",
		orUnknown(l.ViewsBehind), orUnknown(l.Folded), orUnknown(l.Open), orUnknown(l.Spooled))
	fmt.Fprintf(w, "rejected     %s a second\n", rateText(l.Refusals))
	for _, code := range slices.Sorted(maps.Keys(l.Rejected)) {
		fmt.Fprintf(w, "             %d %s\n", l.Rejected[code], visible(code))
	}
}

func orUnknown[T any](v *T) string {
	if v == nil {
		return "?"
	}
	return fmt.Sprint(*v)
}

func rateText(v *float64) string {
	if v == nil {
		return "?"
	}
	return fmt.Sprintf("%.1f", *v)
}
