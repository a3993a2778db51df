package telemetry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"assay/resolver/criterion"
)

// ErrNoProcess means that no live process has the pid.
var ErrNoProcess = errors.New("no such process")

// HostConfig says where a Host reads.
type HostConfig struct {
	// FS is the root of a proc file system; nil is /proc.
	FS fs.FS
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// PageSize in bytes; 0 is the system's.
	PageSize int64
}

// Process is a process, told from others that had or will have its pid by the
// time at which it started, in clock ticks since boot.
type Process struct {
	PID   int
	Start uint64
}

// Labels are those of the process's series.
func (p Process) Labels() map[string]string {
	return map[string]string{"pid": strconv.Itoa(p.PID), "start": strconv.FormatUint(p.Start, 10)}
}

// Host reads what the kernel says of this machine and of watched processes.
type Host struct {
	cfg  HostConfig
	boot time.Time // zero when unknown

	mu      sync.Mutex
	watched []Process
	seq     uint64
}

// NewHost makes a sensor that watches no process yet.
func NewHost(cfg HostConfig) *Host {
	if cfg.FS == nil {
		cfg.FS = os.DirFS("/proc")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.PageSize = cmp.Or(cfg.PageSize, int64(os.Getpagesize()))
	// Read once: the kernel derives the boot time from the wall clock anew on
	// every read, and a counter must not seem to restart.
	return &Host{cfg: cfg, boot: bootTime(cfg.FS)}
}

// hostCursor is the boot time that the first sensor of a boot read.
type hostCursor struct {
	V      int64     `json:"v"`
	BootID string    `json:"boot_id"`
	Boot   time.Time `json:"boot"`
}

// PinBoot gives all sensors of one boot the same boot time, that of the first:
// a sensor that starts after the clock was set would read another, and its
// counters would seem to have restarted.
func (h *Host) PinBoot(c Cursor) error {
	id := h.BootID()
	if id == "" || h.boot.IsZero() {
		return nil
	}
	var saved hostCursor
	if _, err := loadState(c, &saved, &saved.V, "cursor of the host's sensor", "the boot time is read again"); err != nil {
		return err
	}
	if saved.BootID == id {
		h.boot = saved.Boot.UTC()
		return nil
	}
	raw, err := json.Marshal(hostCursor{1, id, h.boot})
	if err != nil {
		return err
	}
	return c.Save(raw)
}

// BootID is the kernel's id of this boot, "" when it does not say.
func (h *Host) BootID() string {
	id, err := fs.ReadFile(h.cfg.FS, "sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Watch adds the process that now has the pid: ErrNoProcess when there is none.
// It stays watched, as gone, after its end.
func (h *Host) Watch(pid int) (Process, error) {
	start, ok := h.startOf(pid)
	if !ok {
		return Process{}, fmt.Errorf("%w: pid %d", ErrNoProcess, pid)
	}
	p := Process{pid, start}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watched {
		if w == p {
			return p, nil
		}
	}
	h.watched = append(h.watched, p)
	return p, nil
}

// Unwatch forgets a process.
func (h *Host) Unwatch(p Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range h.watched {
		if w == p {
			h.watched = append(h.watched[:i:i], h.watched[i+1:]...)
			return
		}
	}
}

// Read takes one tick of samples, all of the same event time and with
// consecutive sequence numbers, the heartbeat last. What cannot be read is left
// out; it is never 0.
func (h *Host) Read() []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.cfg.Now().UTC().Round(0)
	var out []Sample
	add := func(signal string, labels map[string]string, start time.Time, value float64) {
		h.seq++
		out = append(out, Sample{
			Source: criterion.HostSource, Seq: h.seq, Signal: signal, Labels: labels, Time: now, Start: start, Value: value,
		})
	}
	for _, p := range h.watched {
		rss, up := h.process(p)
		if rss > 0 {
			add(criterion.SignalProcessRSS, p.Labels(), time.Time{}, float64(rss))
		}
		alive := 0.0
		if up {
			alive = 1
		}
		add(criterion.SignalProcessUp, p.Labels(), time.Time{}, alive)
	}
	if kills, ok := h.oomKills(); ok {
		add(criterion.SignalOOMKill, nil, h.boot, kills)
	}
	if stall, ok := h.memoryStall(); ok {
		add(criterion.SignalMemoryStall, nil, time.Time{}, stall)
	}
	add(criterion.SignalHeartbeat, nil, time.Time{}, 1)
	return out
}

// process reads a process's resident bytes between two looks at its start
// time, so that a reused pid's memory is never taken for its own. A process
// that is exiting or whose memory cannot be read has rss 0, which means unknown.
func (h *Host) process(p Process) (rss int64, up bool) {
	if start, ok := h.startOf(p.PID); !ok || start != p.Start {
		return 0, false
	}
	statm, err := fs.ReadFile(h.cfg.FS, strconv.Itoa(p.PID)+"/statm")
	if start, ok := h.startOf(p.PID); !ok || start != p.Start {
		return 0, false
	}
	if err != nil {
		return 0, true
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0, true
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil || pages < 0 {
		return 0, true
	}
	return pages * h.cfg.PageSize, true
}

// startOf is field 22 of /proc/<pid>/stat; false when the process is gone or
// only its exit status is left of it.
func (h *Host) startOf(pid int) (uint64, bool) {
	stat, err := fs.ReadFile(h.cfg.FS, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return 0, false
	}
	// The command, field 2, may hold spaces and parentheses: count from its end.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	const state, start = 0, 22 - 3 // of what follows field 2
	if len(fields) <= start || bytes.ContainsAny(fields[state], "ZXx") {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[start]), 10, 64)
	return n, err == nil
}

func (h *Host) oomKills() (float64, bool) {
	vmstat, err := fs.ReadFile(h.cfg.FS, "vmstat")
	if err != nil {
		return 0, false
	}
	return field(vmstat, "oom_kill")
}

func bootTime(fsys fs.FS) time.Time {
	stat, err := fs.ReadFile(fsys, "stat")
	if err != nil {
		return time.Time{}
	}
	seconds, ok := field(stat, "btime")
	if !ok {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}

// field finds the number on the line "<name> <number>".
func field(file []byte, name string) (float64, bool) {
	for line := range bytes.Lines(file) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			v, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return float64(v), err == nil
		}
	}
	return 0, false
}

// memoryStall is avg10 of the "some" line; kernels without PSI have no file.
func (h *Host) memoryStall() (float64, bool) {
	psi, err := fs.ReadFile(h.cfg.FS, "pressure/memory")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(psi) {
		fields := bytes.Fields(line)
		if len(fields) < 2 || string(fields[0]) != "some" {
			continue
		}
		avg, ok := strings.CutPrefix(string(fields[1]), "avg10=")
		if !ok {
			return 0, false
		}
		v, err := strconv.ParseFloat(avg, 64)
		return v, err == nil
	}
	return 0, false
}
