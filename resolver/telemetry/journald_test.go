package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

func newJournald(w *world, cur Cursor, input io.Reader) (*Journald, error) {
	return NewJournald(JournaldConfig{
		Source: criterion.Source{Name: "s", Kind: criterion.JournaldKind, RateLimit: time.Second},
		Signals: []criterion.Signal{
			{Name: "up_to", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Interval: time.Second, MaxGap: 5 * time.Second},
			{Name: "level", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Interval: 5 * time.Second, MaxGap: 5 * time.Second,
				Match: map[string]string{"_SYSTEMD_UNIT": "x.service"}, ValueField: "LEVEL", LabelsFrom: map[string]string{"series": "SERIES"}},
		},
		Cursor: cur, Input: input, Now: w.clock, Log: zerolog.Nop(),
	})
}

// journaldConformer's source is a journal that is read to its end for each act.
// What a reader could not deliver is read again by another one, as after a
// restart.
var journaldConformer = conformer{
	name: "journald",
	open: func(t *testing.T, w *world, cur Cursor, out Sink) (*rig, error) {
		d, err := newJournald(w, cur, nil)
		if err != nil {
			return nil, err
		}
		r := &rig{adapter: d}
		read := func(lines []byte) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			refused := d.Stats().Refused
			err := d.read(ctx, bytes.NewReader(lines), failing{out, cancel})
			if err == nil && d.Stats().Refused > refused {
				err = errors.New("refused")
			}
			return err
		}
		all := func() []byte {
			var out bytes.Buffer
			for _, e := range w.journal {
				out.Write(append(e.line(t), '\n'))
			}
			return out.Bytes()
		}
		add := func(at time.Time, fields map[string]any) {
			w.journal = append(w.journal, testEntry{journalA, bootA, uint64(len(w.journal) + 1), at, fields})
		}
		restart := func() error {
			if d, err = newJournald(w, cur, nil); err != nil {
				return err
			}
			r.adapter = d
			return read(all())
		}
		r.tell = func(points ...point) error {
			for _, p := range points {
				if slices.Contains(w.told, p) {
					continue
				}
				w.told = append(w.told, p)
				add(p.at, map[string]any{"_SYSTEMD_UNIT": "x.service", "LEVEL": strconv.FormatFloat(p.value, 'g', -1, 64), "SERIES": p.series})
			}
			return read(all())
		}
		r.retell = restart
		r.beat = func() error {
			for ago := 10 * time.Second; ago >= 0; ago -= time.Second {
				add(w.now.Add(-ago), nil)
			}
			return read(all())
		}
		r.fail = func() error { return d.read(t.Context(), iotest.ErrReader(errors.New("gone")), out) }
		r.garble = func() error { return read([]byte("{\n")) }
		r.flood = func() error { return read(append(bytes.Repeat([]byte("x"), maxJournalLine+1), '\n')) }
		return r, nil
	},
}

// failing ends the reader at the first failure instead of waiting for the sink.
type failing struct {
	Sink
	end context.CancelFunc
}

func (f failing) Send(ctx context.Context, samples []Sample) error {
	err := f.Sink.Send(ctx, samples)
	if err != nil {
		f.end()
	}
	return err
}

func TestJournaldFile(t *testing.T) {
	w, out, cur := newWorld(t), &recorder{}, &memoryCursor{}
	var input bytes.Buffer
	for i := range 30 {
		e := testEntry{journalA, bootA, uint64(i + 1), conformanceStart.Add(time.Duration(i-30) * time.Second), nil}
		input.Write(append(e.line(t), '\n'))
	}
	d, err := newJournald(w, cur, &input)
	mustDo(t, err)
	mustDo(t, d.Run(t.Context(), out))
	if got, want := out.watermark(), conformanceStart.Add(-8*time.Second); !got.Equal(want) {
		t.Errorf("up to %v, want %v", got, want)
	}
	if c, err := parseCursor(d.journal.State().Cursor); err != nil || c.seq != 23 || !bytes.Contains(cur.raw, []byte(d.journal.State().Cursor)) {
		t.Errorf("cursor %+v, %v; saved %s", c, err, cur.raw)
	}
}

// A sink that fails is asked again with the same, and nothing is saved until it
// has it.
func TestJournaldWaitsForTheBroker(t *testing.T) {
	w, out, cur := newWorld(t), &recorder{err: ErrNotConnected}, &memoryCursor{}
	var input bytes.Buffer
	for i := range 30 {
		e := testEntry{journalA, bootA, uint64(i + 1), conformanceStart.Add(time.Duration(i-30) * time.Second), nil}
		input.Write(append(e.line(t), '\n'))
	}
	d, err := newJournald(w, cur, &input)
	mustDo(t, err)
	mustDo(t, d.Run(t.Context(), out))
	if len(out.of("up_to")) != 23 || d.Stats().Failed != 1 || d.Stats().Error != "" || cur.raw == nil {
		t.Errorf("%d heartbeats, %+v, saved %s", len(out.of("up_to")), d.Stats(), cur.raw)
	}
}
