package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"assay/bench/fill"
	"assay/bench/house"
	"assay/bench/workload"
	"assay/internal/principal"
	"assay/ledger/broker"
)

// fillCommand is the hidden command that fills a directory: scale fill DIR N.
// It is a process of its own so that the processes that are measured are not
// started from a large one, whose memory the kernel would count as theirs.
const fillCommand = "fill"

func fillMain(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("fill: want a directory and a number of records")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return fill.Fill(ctx, args[0], n, out)
}

// steps are what is measured on a house.
type steps struct{ house.House }

// measure runs every step; a failure of one ends the run.
func measure(ctx context.Context, o options, scratch string) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills what is left
	h := &steps{house.House{Dir: filepath.Join(scratch, "ledger"), Assay: o.assay}}
	report := &Report{Records: o.records, Met: true}
	if o.ledger == "" {
		if err := h.fill(ctx, o.records, report); err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
	}
	b, err := h.Start(ctx, "serve", "broker", "--port", "0")
	if err != nil {
		return nil, err
	}
	took, err := h.Until(ctx, b, "broker.sock", func(house.Status) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	peaks := map[string]*house.Process{"broker": b}
	report.add(Row{Name: "broker", Seconds: took.Seconds(), Note: "until it serves; peak over all that follows"})
	if err := h.services(ctx, report, peaks); err != nil {
		return nil, err
	}
	if err := h.commands(ctx, o.records, report); err != nil {
		return nil, err
	}
	for _, p := range peaks {
		if err := p.Stop(os.Kill); err != nil {
			return nil, err
		}
	}
	for i, row := range report.Rows {
		if p := peaks[row.Name]; p != nil {
			report.Rows[i].PeakMiB = p.PeakMiB()
			report.judge(i)
		}
	}
	return report, h.restart(ctx, report)
}

// fill makes the directory and its records.
func (h *steps) fill(ctx context.Context, n int, report *Report) error {
	if err := h.Run(ctx, "init", "--render-only", "--offline-dir", house.Offline(h.Dir)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := house.Start(ctx, self, fillCommand, h.Dir, fmt.Sprint(n))
	if err != nil {
		return err
	}
	took, err := p.Wait()
	if err != nil {
		return err
	}
	report.add(Row{Name: "fill", Records: n, Seconds: took.Seconds(), PeakMiB: p.PeakMiB(), Note: "bare atomic batches"})
	return nil
}

// services starts each service that keeps something of the ledger, for the
// first time over the whole backlog, and leaves it running.
func (h *steps) services(ctx context.Context, report *Report, running map[string]*house.Process) error {
	var size uint64
	for _, s := range []struct {
		name, socket, note string
		ready              func(house.Status) bool
	}{
		{"logger", "logger.sock", "first start: indexes every record", func(st house.Status) bool {
			if st.Logger == nil {
				return false
			}
			size = st.Logger.Size
			return true
		}},
		{"projector", "assay.sock", "builds the live views", func(st house.Status) bool { return st.Projector != nil && st.Projector.Seq >= size }},
		{"resolver", "resolver.sock", "first fold", func(st house.Status) bool {
			return st.Resolver != nil && st.Resolver.Applied >= size && st.Resolver.Differed == 0
		}},
	} {
		p, err := h.Start(ctx, "serve", s.name)
		if err != nil {
			return err
		}
		running[s.name] = p
		took, err := h.Until(ctx, p, s.socket, s.ready)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		row := Row{Name: s.name, Records: int(size), Seconds: took.Seconds(), Note: s.note}
		if s.name == "resolver" {
			row.MaxMiB = resolverMiB + resolverPerRecord*float64(size)/(1<<20)
		}
		report.add(row)
	}
	return nil
}

// commands runs what streams the ledger.
func (h *steps) commands(ctx context.Context, n int, report *Report) error {
	export := h.Dir + "-export"
	for _, c := range []struct {
		args []string
		note string
	}{
		{[]string{"verify"}, "every link, the Merkle root, every checkpoint"},
		{[]string{"replay"}, "every view from record 1, compared with the live ones"},
		{[]string{"export", export}, "to tiles"},
		{[]string{"fsck", export}, "of the tiles"},
	} {
		if !h.has(ctx, c.args[0]) {
			continue
		}
		p, err := h.Start(ctx, c.args...)
		if err != nil {
			return err
		}
		took, err := p.Wait()
		if err != nil {
			return err
		}
		report.add(Row{Name: c.args[0], Records: n, Seconds: took.Seconds(), PeakMiB: p.PeakMiB(), MaxMiB: maxMiB, Note: c.note})
	}
	return os.RemoveAll(export)
}

// has says whether the assay command has a subcommand.
func (h *steps) has(ctx context.Context, name string) bool {
	return exec.CommandContext(ctx, h.Assay, name, "--help").Run() == nil
}

// restart runs `assay up` on what a killed machine leaves behind.
func (h *steps) restart(ctx context.Context, report *Report) error {
	if err := os.Remove(broker.Dir(h.Dir).URLFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p, err := h.Start(ctx, "up")
	if err != nil {
		return err
	}
	acked, err := h.firstAck(ctx, p)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	row := func(name string, took time.Duration, note string) {
		report.add(Row{Name: name, Seconds: took.Seconds(), MaxSeconds: maxRestart.Seconds(), Note: note})
	}
	row("restart: first ack", acked, "of an agent's event, after kill -9 of everything")
	var size uint64
	took, err := h.Until(ctx, p, "assay.sock", func(s house.Status) bool {
		if s.Logger == nil {
			return false
		}
		size = s.Logger.Size
		return true
	})
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	row("restart: status answers", took, "")
	took, err = h.Until(ctx, p, "assay.sock", func(s house.Status) bool { return s.Projector != nil && s.Projector.Seq >= size })
	if err != nil {
		return fmt.Errorf("restart: views: %w", err)
	}
	row("restart: views caught up", took, "")
	took, err = h.Until(ctx, p, "assay.sock", func(s house.Status) bool { return s.Resolver != nil && s.Resolver.Applied >= size })
	if err != nil {
		return fmt.Errorf("restart: resolver: %w", err)
	}
	row("restart: resolver caught up", took, "")
	if err := p.Stop(syscall.SIGTERM); err != nil {
		return err
	}
	report.Rows[len(report.Rows)-1].PeakMiB = p.PeakMiB()
	report.Rows[len(report.Rows)-1].Note = "peak of the whole process, broker included"
	return nil
}

// firstAck publishes an agent's event until it is taken.
func (h *steps) firstAck(ctx context.Context, p *house.Process) (time.Duration, error) {
	agent := workload.Authors[1]
	raw, _, err := workload.New().Event(agent)
	if err != nil {
		return 0, err
	}
	cred, err := principal.LoadCredential(principal.Dir(h.Dir).Credential(agent.User))
	if err != nil {
		return 0, err
	}
	try := func() error {
		url, err := broker.ReadURL(h.Dir)
		if err != nil {
			return err
		}
		nc, err := broker.Dial(url, cred)
		if err != nil {
			return err
		}
		defer nc.Close()
		m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: "intake." + agent.User, Data: raw})
		if err == nil && !bytes.Contains(m.Data, []byte(`"leaf"`)) {
			err = fmt.Errorf("refused: %.200s", m.Data)
		}
		return err
	}
	for {
		err := try()
		if err == nil {
			return time.Since(p.Since), nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.Done:
			return 0, fmt.Errorf("it ended: %w", p.Err())
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
