package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// house is an initialised directory and the command that is measured on it.
type house struct {
	dir   string
	assay string
}

// offlineOf is where the bootstrap seeds of a directory are.
func offlineOf(dir string) string { return dir + "-offline" }

// process is a running child.
type process struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	since  time.Time
	done   chan struct{} // closed when it has ended
	err    error
}

func start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), stderr: new(bytes.Buffer), since: time.Now(), done: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		if p.err = p.cmd.Wait(); p.err != nil {
			p.err = fmt.Errorf("%s: %w\n%s", p.cmd.Args[1:], p.err, p.stderr)
		}
	}()
	return p, nil
}

// assayArgs are the arguments of the assay command on the house's directory.
func (h *house) assayArgs(args ...string) []string { return append([]string{"--dir", h.dir}, args...) }

func (h *house) start(ctx context.Context, args ...string) (*process, error) {
	return start(ctx, h.assay, h.assayArgs(args...)...)
}

// wait returns when the child has ended, with how long it took.
func (p *process) wait() (time.Duration, error) {
	<-p.done
	return time.Since(p.since), p.err
}

// stop ends the child with a signal and waits for it.
func (p *process) stop(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	if s == os.Kill {
		return nil
	}
	return p.err
}

// peakMiB is the child's largest resident set; it must have ended.
func (p *process) peakMiB() float64 {
	u, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(u.Maxrss) / 1024
}

// status is what the rows need of a service's status.
type status struct {
	Logger *struct {
		State string `json:"state"`
		Size  uint64 `json:"size"`
	} `json:"logger"`
	Projector *struct {
		Seq    uint64 `json:"seq"`
		Halted string `json:"halted"`
	} `json:"projector"`
	Resolver *struct {
		Applied  uint64 `json:"applied"`
		Differed uint64 `json:"differed"`
	} `json:"resolver"`
}

// ask reads a service's status from its socket; an error while it does not
// answer yet.
func (h *house) ask(ctx context.Context, socket string) (status, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(h.dir, "run", socket))
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://assay/status", nil)
	if err != nil {
		return status{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return status{}, err
	}
	defer resp.Body.Close()
	var s status
	return s, json.UnmarshalRead(resp.Body, &s)
}

// until polls the status of a running child until ok says so, and returns the
// time since the child was started.
func (h *house) until(ctx context.Context, p *process, socket string, ok func(status) bool) (time.Duration, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := h.ask(ctx, socket); err == nil {
			if s.Projector != nil && s.Projector.Halted != "" {
				return 0, errors.New(s.Projector.Halted)
			}
			if ok(s) {
				return time.Since(p.since), nil
			}
		}
		select {
		case <-tick.C:
		case <-p.done:
			return 0, fmt.Errorf("it ended: %w", p.err)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
