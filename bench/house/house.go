// Package house runs the assay command on a directory, as processes whose
// memory and processor time the kernel tells.
package house

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// House is a directory and the command that is measured on it.
type House struct {
	Dir   string
	Assay string // the assay command
}

// build compiles the assay command of this tree to path.
func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "assay/cmd/assay")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build assay: %w", err)
	}
	return nil
}

// Scratch is where a measurement works, and the assay command that it measures: dir,
// which is kept, or else a new directory of that name below parent; and assay, or
// else what this tree compiles to there. done removes a new directory unless keep.
func Scratch(ctx context.Context, dir, parent, name string, keep bool, assay string) (scratch, command string, done func() error, err error) {
	done = func() error { return nil }
	if scratch = dir; scratch == "" {
		if scratch, err = os.MkdirTemp(parent, name); err != nil {
			return "", "", nil, err
		}
		if !keep {
			done = func() error { return os.RemoveAll(scratch) }
		}
	}
	if keep || dir != "" {
		fmt.Fprintln(os.Stderr, "scratch directory:", scratch)
	}
	if command = assay; command == "" {
		command = filepath.Join(scratch, "assay")
		if err := build(ctx, command); err != nil {
			return "", "", nil, errors.Join(err, done())
		}
	}
	return scratch, command, done, nil
}

// Offline is where the bootstrap seeds of a directory are.
func Offline(dir string) string { return dir + "-offline" }

// Process is a running child.
type Process struct {
	Since time.Time     // when it was started
	Done  chan struct{} // closed when it has ended

	cmd    *exec.Cmd
	stderr *bytes.Buffer
	err    error
}

// Start starts a command; the end of ctx kills it.
func Start(ctx context.Context, name string, args ...string) (*Process, error) {
	return start(ctx, nil, name, args...)
}

func start(ctx context.Context, stdout io.Writer, name string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...), stderr: new(bytes.Buffer), Since: time.Now(), Done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Done)
		if p.err = p.cmd.Wait(); p.err != nil {
			p.err = fmt.Errorf("%s: %w\n%s", p.cmd.Args[1:], p.err, p.stderr)
		}
	}()
	return p, nil
}

// Start starts the assay command on the house's directory.
func (h *House) Start(ctx context.Context, args ...string) (*Process, error) {
	return Start(ctx, h.Assay, append([]string{"--dir", h.Dir}, args...)...)
}

// StartTo is Start with a place for what the command prints.
func (h *House) StartTo(ctx context.Context, stdout io.Writer, args ...string) (*Process, error) {
	return start(ctx, stdout, h.Assay, append([]string{"--dir", h.Dir}, args...)...)
}

// Run runs the assay command to its end.
func (h *House) Run(ctx context.Context, args ...string) error {
	p, err := h.Start(ctx, args...)
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// Wait returns when the child has ended, with how long it took.
func (p *Process) Wait() (time.Duration, error) {
	<-p.Done
	return time.Since(p.Since), p.err
}

// Err is how the child ended; Done must be closed.
func (p *Process) Err() error { return p.err }

// Stop ends the child with a signal and waits for it.
func (p *Process) Stop(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Done
	if s == os.Kill {
		return nil
	}
	return p.err
}

// PeakMiB is the child's largest resident set; it must have ended.
func (p *Process) PeakMiB() float64 {
	u, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(u.Maxrss) / 1024
}

// Usage is what a running process took so far.
type Usage struct {
	CPU     time.Duration // of all its threads, user and system
	RSSMiB  float64       // resident now
	PeakMiB float64       // the largest that ever was
}

// Usage is that of a running child.
func (p *Process) Usage() Usage { return UsageOf(p.cmd.Process.Pid) }

// UsageOf reads it from the kernel; the zero Usage once the process has ended.
func UsageOf(pid int) Usage {
	var u Usage
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			u.PeakMiB = kib / 1024
		}
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			u.RSSMiB = kib / 1024
		}
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u
	}
	// The command's name, in parentheses, may hold spaces; utime and stime are
	// the 12th and 13th field behind it, in the kernel's fixed hundredths.
	_, rest, _ := strings.Cut(string(stat), ") ")
	if f := strings.Fields(rest); len(f) > 12 {
		for _, ticks := range f[11:13] {
			n, _ := strconv.ParseInt(ticks, 10, 64)
			u.CPU += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return u
}

// Status is what the benchmarks need of a service's status.
type Status struct {
	Logger *struct {
		State          string `json:"state"`
		Size           uint64 `json:"size"`
		CheckpointSize uint64 `json:"checkpoint_size"`
	} `json:"logger"`
	Projector *struct {
		Seq    uint64 `json:"seq"`
		Halted string `json:"halted"`
	} `json:"projector"`
	Telemetry *struct {
		Received uint64 `json:"received"`
		Refused  uint64 `json:"refused"`
		Lost     uint64 `json:"lost"`
		Dropped  uint64 `json:"dropped"`
	} `json:"telemetry"`
	Resolver *struct {
		Applied    uint64               `json:"applied"`
		Differed   uint64               `json:"differed"`
		Open       int                  `json:"open"`
		LedgerTime time.Time            `json:"ledger_time"`
		Watermarks map[string]time.Time `json:"watermarks"`
	} `json:"resolver"`
}

// Ask reads a service's status from its socket in DIR/run; an error while it
// does not answer yet.
func (h *House) Ask(ctx context.Context, socket string) (Status, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(h.Dir, "run", socket))
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://assay/status", nil)
	if err != nil {
		return Status{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return Status{}, err
	}
	defer resp.Body.Close()
	var s Status
	return s, json.UnmarshalRead(resp.Body, &s)
}

// Until polls the status of a running child until ok says so, and returns the
// time since the child was started.
func (h *House) Until(ctx context.Context, p *Process, socket string, ok func(Status) bool) (time.Duration, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := h.Ask(ctx, socket); err == nil {
			if s.Projector != nil && s.Projector.Halted != "" {
				return 0, errors.New(s.Projector.Halted)
			}
			if ok(s) {
				return time.Since(p.Since), nil
			}
		}
		select {
		case <-tick.C:
		case <-p.Done:
			return 0, fmt.Errorf("it ended: %w", p.err)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
