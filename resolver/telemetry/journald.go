package telemetry

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

const (
	// maxJournalLine is the longest entry in bytes; a longer one is a gap.
	maxJournalLine = 1 << 20
	// maxJournalBatch is how many samples are sent at once.
	maxJournalBatch = 1000

	journalSaveEvery = time.Second
	journalMinPause  = time.Second
	journalMaxPause  = 30 * time.Second
	journalStopGrace = 2 * time.Second
)

// errEnded means a journalctl that ended without saying why.
var errEnded = errors.New("journalctl ended")

// JournaldConfig is one journald source.
type JournaldConfig struct {
	Source  criterion.Source
	Signals []criterion.Signal // of the source
	Cursor  Cursor
	// Input is a file of entries in JSON lines that is read to its end; nil
	// follows the journal by journalctl.
	Input io.Reader
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// Journald reads a journal that another process writes: the entries of a file,
// or those that a journalctl prints, which is started again when it ends. Where
// it stands is saved after the broker has what came before.
type Journald struct {
	tally
	cfg     JournaldConfig
	journal *Journal
	own     string
	saved   []byte
	savedAt time.Time
}

// NewJournald goes on where the last run stopped.
func NewJournald(cfg JournaldConfig) (*Journald, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	d := &Journald{cfg: cfg, own: criterion.OwnHeartbeat(cfg.Signals).Name}
	var from JournalState
	_, err := loadState(cfg.Cursor, &from, &from.V, "cursor of source "+cfg.Source.Name, fmt.Sprintf("the journal is read from %v ago", MaxCatchUp))
	if err != nil {
		return nil, err
	}
	d.journal, err = NewJournal(cfg.Source, cfg.Signals, from)
	return d, err
}

// Run implements Adapter; it returns nil at the end of a file.
func (d *Journald) Run(ctx context.Context, out Sink) error {
	if d.cfg.Input != nil {
		done := make(chan error, 1)
		go func() { done <- d.read(ctx, d.cfg.Input, out) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done(): // the reader may wait for ever for its next line
			return ctx.Err()
		}
	}
	pause := journalMinPause
	for {
		before := d.journal.Read()
		err := d.follow(ctx, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.failed(cmp.Or(err, errEnded), "the journal is read again")
		if d.journal.Read() != before {
			pause = journalMinPause
		}
		if err := Wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, journalMaxPause)
	}
}

// follow reads the journal to its end and then as it grows.
func (d *Journald) follow(ctx context.Context, out Sink) error {
	// journalctl --follow shows one boot alone.
	if err := d.run(ctx, out, false); err != nil {
		return err
	}
	return d.run(ctx, out, true)
}

// run reads what one journalctl prints behind the newest entry that was read.
func (d *Journald) run(ctx context.Context, out Sink, follow bool) error {
	cmd := exec.CommandContext(ctx, "journalctl", d.args(follow)...)
	// Whatever it starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = journalStopGrace
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
	cmd.Stderr = logLines{d.cfg.Log.With().Str("source", d.cfg.Source.Name).Logger()}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("journalctl: %w", err)
	}
	err = d.read(ctx, stdout, out)
	if err != nil {
		_ = cmd.Cancel() // nobody reads it any more
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("journalctl: %w", ended)
	}
	return err
}

// args asks for the fields that the registry names and no others, so that no
// entry is larger than it must be. What is printed beside them is not optional.
func (d *Journald) args(follow bool) []string {
	fields := []string{"MESSAGE_ID"}
	for _, s := range d.cfg.Signals {
		for f := range s.Match {
			fields = append(fields, f)
		}
		for _, f := range s.LabelsFrom {
			fields = append(fields, f)
		}
		if s.ValueField != "" {
			fields = append(fields, s.ValueField)
		}
	}
	slices.Sort(fields)
	args := []string{"--output=json", "--no-pager", "--output-fields=" + strings.Join(slices.Compact(fields), ",")}
	if follow {
		args = append(args, "--follow", "--no-tail")
	}
	if dir := d.cfg.Source.Directory; dir != "" {
		// Another machine's: it may boot again meanwhile.
		args = append(args, "--directory="+dir, "--merge")
	}
	if after := d.journal.Read(); after != "" {
		return append(args, "--after-cursor="+after)
	}
	return append(args, fmt.Sprintf("--since=-%ds", int(MaxCatchUp/time.Second)))
}

// read sends what the lines of r say, as they come.
func (d *Journald) read(ctx context.Context, r io.Reader, out Sink) error {
	in := bufio.NewReaderSize(r, maxJournalLine)
	var batch []Sample
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = d.skip(in)
			line = nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			batch = append(batch, d.add(line)...)
		}
		if err != nil || len(batch) >= maxJournalBatch || !hasLine(in) {
			if err := d.send(ctx, batch, out, err != nil); err != nil {
				return err
			}
			batch = batch[:0]
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the journal: %w", err)
		}
	}
}

// hasLine says whether a whole line has come already.
func hasLine(in *bufio.Reader) bool {
	buffered, _ := in.Peek(in.Buffered()) // nothing is read for it
	return bytes.IndexByte(buffered, '\n') >= 0
}

// skip passes over the rest of a line that is too long.
func (d *Journald) skip(in *bufio.Reader) error {
	d.note(func(st *AdapterStats) { st.Refused++ })
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (d *Journald) add(line []byte) []Sample {
	samples, err := d.journal.Add(line, d.cfg.Now())
	d.note(func(st *AdapterStats) {
		st.Error = ""
		if err != nil {
			st.Refused++
		}
		st.LeftOut, st.Warnings, st.Doubt = d.journal.LeftOut(), d.journal.Gaps(), d.journal.Doubt()
	})
	return samples
}

// send hands the samples over, however long it takes, and then saves where the
// journal stands: once a second, and at the end.
func (d *Journald) send(ctx context.Context, samples []Sample, out Sink, end bool) error {
	pause := journalMinPause
	for len(samples) > 0 {
		err := out.Send(ctx, samples)
		if err == nil {
			d.sent(samples, d.own)
			d.note(func(st *AdapterStats) { st.Error = "" })
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.failed(err, "the broker takes nothing; the same is sent again")
		if err := Wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, journalMaxPause)
	}
	if now := d.cfg.Now(); end || now.Sub(d.savedAt) >= journalSaveEvery {
		d.savedAt = now
		if err := d.save(); err != nil {
			d.failed(err, "where the journal stands is not saved: a restart would read more again")
		}
	}
	return nil
}

func (d *Journald) save() error {
	state := d.journal.State()
	if state.Cursor == "" {
		return nil
	}
	raw, err := json.Marshal(state)
	if err != nil || bytes.Equal(raw, d.saved) {
		return err
	}
	if err := d.cfg.Cursor.Save(raw); err != nil {
		return err
	}
	d.saved = raw
	return nil
}

func (d *Journald) failed(err error, what string) {
	d.note(func(st *AdapterStats) { st.Failed++; st.Error = err.Error() })
	d.cfg.Log.Warn().Err(err).Str("source", d.cfg.Source.Name).Msg(what)
}

// logLines logs what a child says.
type logLines struct{ log zerolog.Logger }

func (l logLines) Write(p []byte) (int, error) {
	const most = 500
	l.log.Warn().Str("journalctl", string(p[:min(len(p), most)])).Msg("journalctl says")
	return len(p), nil
}
