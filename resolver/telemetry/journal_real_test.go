package telemetry

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

// follower runs the adapter over a journal directory, again and again.
type follower struct {
	t   *testing.T
	dir string
	out *recorder
	cur *memoryCursor
}

func mustFindJournalctl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("journalctl"); err != nil {
		t.Skip("SKIPPED: there is no journalctl here (Debian package systemd)")
	}
}

// run follows the journal until the condition holds.
func (f *follower) run(what string, until func(*Journald) bool) *Journald {
	f.t.Helper()
	d, err := NewJournald(JournaldConfig{
		Source: criterion.Source{Name: "s", Kind: criterion.JournaldKind, RateLimit: time.Second, Directory: f.dir},
		Signals: []criterion.Signal{
			{Name: "up_to", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Interval: time.Second, MaxGap: time.Second},
			{Name: "level", Source: "s", Kind: criterion.Event, Heartbeat: "up_to", Interval: time.Second, MaxGap: time.Second,
				Match: map[string]string{"_SYSTEMD_UNIT": "x.service", "MESSAGE": "this"}, LabelsFrom: map[string]string{"from": "SYSLOG_IDENTIFIER"}},
		},
		Cursor: f.cur, Log: zerolog.New(zerolog.NewTestWriter(f.t)),
	})
	mustDo(f.t, err)
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, f.out) }()
	for deadline := time.Now().Add(90 * time.Second); !until(d); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			cancel()
			<-ended
			f.t.Fatalf("waited in vain: %s; %+v", what, d.Stats())
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.t.Errorf("ended with %v", err)
	}
	f.out.checkIdentities(f.t)
	return d
}

// written makes entries of a journal file by systemd-journal-remote.
func written(t *testing.T, file, boot string, from time.Time, n int) {
	t.Helper()
	const remote = "/lib/systemd/systemd-journal-remote"
	if _, err := os.Stat(remote); err != nil {
		t.Skip("SKIPPED: there is no systemd-journal-remote here (Debian package systemd-journal-remote)")
	}
	var in bytes.Buffer
	for i := range n {
		at := from.Add(time.Duration(i) * time.Second).UnixMicro()
		fmt.Fprintf(&in, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n", at, i+1, boot)
		fmt.Fprintf(&in, "MESSAGE=this\n_SYSTEMD_UNIT=x.service\nSYSLOG_IDENTIFIER=n%d\nOTHER=1\nOTHER=2\n", i%2)
		fmt.Fprintf(&in, "BINARY\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\nLARGE=%s\n\n", strings.Repeat("x", 10_000))
	}
	cmd := exec.Command(remote, "--output="+file, "-")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("systemd-journal-remote: %v\n%s", err, out)
	}
}

// Two boots in one journal, entries that come while nobody reads and while
// somebody does, and a file of the same entries as journalctl prints them.
func TestJournaldOverTwoBoots(t *testing.T) {
	mustFindJournalctl(t)
	f := &follower{t, t.TempDir(), &recorder{}, &memoryCursor{}}
	file := filepath.Join(f.dir, "system.journal")
	start := time.Now().Add(-10 * time.Minute)
	written(t, file, bootA, start, 20)
	written(t, file, bootB, start.Add(20*time.Second), 20)
	levels := func(n int) func(*Journald) bool {
		return func(*Journald) bool { return len(f.out.of("level")) >= n }
	}
	f.run("two boots", levels(40))
	streams := map[string]int{}
	for _, s := range f.out.of("level") {
		streams[s.Stream]++
	}
	if len(streams) != 4 { // two labels, two boots
		t.Errorf("streams %v", streams)
	}
	written(t, file, bootB, start.Add(40*time.Second), 20)
	d := f.run("entries from before", levels(60))
	if d.Stats().Warnings != 0 {
		t.Errorf("%+v", d.Stats())
	}
	more := false
	f.run("entries of now", func(d *Journald) bool {
		if !more && d.Stats().Sent > 0 {
			more = true
			written(t, file, bootB, start.Add(60*time.Second), 20)
		}
		return levels(80)(d)
	})
	if got := len(f.out.of("level")); got != 80 {
		t.Errorf("%d samples, want 80", got)
	}

	printed, err := exec.Command("journalctl", "--output=json", "--file="+file).Output()
	mustDo(t, err)
	out := &recorder{}
	d, err = NewJournald(JournaldConfig{Source: d.cfg.Source, Signals: d.cfg.Signals, Cursor: &memoryCursor{}, Input: bytes.NewReader(printed), Log: zerolog.Nop()})
	mustDo(t, err)
	mustDo(t, d.Run(t.Context(), out))
	followed, read := f.out.of("level"), out.of("level")
	if len(read) != len(followed) || d.Stats().Refused+d.Stats().Warnings != 0 {
		t.Fatalf("%d samples of the file, %d of the journal; %+v", len(read), len(followed), d.Stats())
	}
	for i := range read {
		if criterion.Compare(&read[i], &followed[i]) != 0 {
			t.Errorf("%+v of the file, %+v of the journal", read[i], followed[i])
		}
	}
}

// journald is one that runs for the test alone, with directories of its own.
type journald struct {
	t       *testing.T
	base    string
	cmd     *exec.Cmd
	loggers map[string]saying // by control group
}

// journaldScript puts the test's directories over those of the host, where
// nobody else sees it.
const journaldScript = `set -e
mkdir -p /run/log/journal /run/systemd
mount --bind "$1/log" /run/log/journal
mount --bind "$1/run" /run/systemd
mount --bind "$1/journald.conf" /etc/systemd/journald.conf
exec /lib/systemd/systemd-journald`

func startJournald(t *testing.T) *journald {
	t.Helper()
	mustFindJournalctl(t)
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		t.Skip("SKIPPED: a journald of the test's own needs a mount namespace, that is root")
	}
	if _, err := os.Stat("/lib/systemd/systemd-journald"); err != nil {
		t.Skip("SKIPPED: there is no systemd-journald here (Debian package systemd)")
	}
	j := &journald{t: t, base: t.TempDir(), loggers: map[string]saying{}}
	for _, dir := range []string{"log", "run/journal"} {
		mustDo(t, os.MkdirAll(filepath.Join(j.base, dir), 0o755))
	}
	mustDo(t, os.WriteFile(filepath.Join(j.base, "journald.conf"),
		[]byte("[Journal]\nStorage=volatile\nRateLimitIntervalSec=1s\nRateLimitBurst=20\nReadKMsg=no\nAudit=no\n"), 0o644))
	j.start()
	return j
}

func (j *journald) start() {
	j.t.Helper()
	const started = "MESSAGE_ID=f77379a8490b408bbe5f6940505a777b"
	before := j.count(started)
	j.cmd = exec.Command("unshare", "--mount", "sh", "-c", journaldScript, "sh", j.base)
	j.cmd.Stderr = os.Stderr
	mustDo(j.t, j.cmd.Start())
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if j.count(started) > before {
			return
		}
		if time.Now().After(deadline) {
			j.t.Skip("SKIPPED: systemd-journald does not run here")
		}
	}
}

func (j *journald) stop() {
	for procs, said := range j.loggers {
		said.stdin.Close()
		_ = said.cmd.Wait()
		delete(j.loggers, procs)
	}
	_ = j.cmd.Process.Signal(syscall.SIGTERM)
	_ = j.cmd.Wait()
}

// count is how many stored entries match; none before there is a journal.
func (j *journald) count(match string) int {
	out, _ := exec.Command("journalctl", "--directory="+j.logs(), "--quiet", "--output=cat", match).Output()
	return bytes.Count(out, []byte("\n"))
}

func (j *journald) logs() string { return filepath.Join(j.base, "log") }

// unit is a control group that makes its processes a unit's.
func (j *journald) unit(name string) string {
	j.t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(root, fmt.Sprintf("assay%d.slice", os.Getpid()), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			continue
		}
		j.t.Cleanup(func() { _ = os.Remove(dir); _ = os.Remove(filepath.Dir(dir)) })
		return filepath.Join(dir, "cgroup.procs")
	}
	j.t.Skip("SKIPPED: no control group can be made here")
	return ""
}

// say logs lines as a process of that control group, "" for none. The process
// stays: of one that is gone when journald looks, nobody knows the unit.
func (j *journald) say(procs string, lines ...string) {
	j.t.Helper()
	l, ok := j.loggers[procs]
	if !ok {
		script := `[ -z "$2" ] || echo $$ > "$2"; exec logger --socket "$1" --tag said`
		l.cmd = exec.Command("sh", "-c", script, "sh", filepath.Join(j.base, "run/journal/dev-log"), procs)
		l.cmd.Stderr = os.Stderr
		var err error
		l.stdin, err = l.cmd.StdinPipe()
		mustDo(j.t, err)
		mustDo(j.t, l.cmd.Start())
		j.loggers[procs] = l
	}
	_, err := io.WriteString(l.stdin, strings.Join(lines, "\n")+"\n")
	mustDo(j.t, err)
}

// saying is a process that logs the lines of its input.
type saying struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// A real journald: a unit's flood is suppressed, files are rotated, journald
// restarts, and files are removed with entries that nobody read.
func TestJournaldOverARealJournald(t *testing.T) {
	j := startJournald(t)
	unit := j.unit("x.service")
	t.Cleanup(j.stop) // before its group is removed
	f := &follower{t, j.logs(), &recorder{}, &memoryCursor{}}
	said := 0
	tick := func() { // another process shows the journal alive
		j.say("", "tick "+strconv.Itoa(said))
		said++
		time.Sleep(100 * time.Millisecond)
	}
	levels := func() int { return len(f.out.of("level")) }

	j.say(unit, "this", "that", "this")
	d := f.run("the unit's entries", func(*Journald) bool { tick(); return levels() == 2 && !f.out.watermark().IsZero() })
	if st := d.Stats(); st.Warnings != 0 || f.out.of("level")[0].Labels["from"] != "said" {
		t.Errorf("%+v, %+v", st, f.out.of("level"))
	}

	// Rotated between two entries, and restarted.
	mustDo(t, signalJournald(j, syscall.SIGUSR2))
	j.say(unit, "this")
	j.stop()
	j.start()
	j.say(unit, "this")
	d = f.run("entries after rotation and restart", func(*Journald) bool { tick(); return levels() == 4 })
	if st := d.Stats(); st.Warnings != 0 {
		t.Errorf("a rotation or a restart made a gap: %+v", st)
	}

	// Suppressed: "this" may be among what was lost.
	flood := make([]string, 2000)
	for i := range flood {
		flood[i] = "flood"
	}
	from := time.Now()
	f.run("journald's word that it suppressed messages", func(d *Journald) bool {
		if d.Stats().Warnings == 0 {
			j.say(unit, flood...)
		}
		tick()
		return d.Stats().Warnings > 0
	})
	to := time.Now()
	f.run("heartbeats after the flood", func(*Journald) bool { tick(); return f.out.watermark().After(to.Add(4 * time.Second)) })
	if beats := f.out.of("up_to"); longestSilence(beats, from.Add(-2*time.Second), to.Add(2*time.Second)) <= time.Second {
		t.Errorf("suppressed messages and no gap: %v", beats)
	}

	// Vacuumed with entries that nobody read.
	time.Sleep(1100 * time.Millisecond)
	mustDo(t, signalJournald(j, syscall.SIGUSR2))
	stored := j.count("MESSAGE=this")
	j.say(unit, "this", "this")
	for deadline := time.Now().Add(30 * time.Second); j.count("MESSAGE=this") < stored+2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("journald does not store the entries")
		}
	}
	mustDo(t, signalJournald(j, syscall.SIGUSR2))
	j.say("", "afterwards")
	before := levels()
	archived, err := filepath.Glob(filepath.Join(j.logs(), "*", "system@*.journal"))
	mustDo(t, err)
	if len(archived) < 2 {
		t.Fatalf("archived %v", archived)
	}
	for _, file := range archived {
		mustDo(t, os.Remove(file))
	}
	d = f.run("what is left", func(d *Journald) bool { tick(); return d.Stats().Warnings > 0 })
	if !strings.Contains(d.Stats().Doubt, "missing") || levels() != before {
		t.Errorf("%+v, %d entries more", d.Stats(), levels()-before)
	}
}

// signalJournald asks for a rotation and waits for it.
func signalJournald(j *journald, sig os.Signal) error {
	files := func() int {
		list, _ := filepath.Glob(filepath.Join(j.logs(), "*", "system@*.journal"))
		return len(list)
	}
	before := files()
	if err := j.cmd.Process.Signal(sig); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); files() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("journald did not rotate")
		}
	}
	return nil
}

// longestSilence is the longest time without a heartbeat in a span, its edges
// included.
func longestSilence(beats []Sample, from, to time.Time) time.Duration {
	var longest time.Duration
	last := from
	for _, s := range beats {
		if s.Time.After(from) && s.Time.Before(to) {
			longest = max(longest, s.Time.Sub(last))
			last = s.Time
		}
	}
	return max(longest, to.Sub(last))
}
