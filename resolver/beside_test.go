package resolver

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
)

// countingFold tells at every third record of an agent how many there were. For one
// number it has no bytes, and another it tells in a way that no intake takes.
type countingFold struct {
	rules string
	mute  int
	rude  int
	n     int
	seen  []ledger.Seq // by this fold, whatever was restored
	saved string       // what Restore got
}

func (f *countingFold) Rules() string         { return f.rules }
func (f *countingFold) Save() ([]byte, error) { return strconv.AppendInt(nil, int64(f.n), 10), nil }

func (f *countingFold) Restore(raw []byte) (err error) {
	f.saved = string(raw)
	f.n, err = strconv.Atoi(string(raw))
	return err
}

func (f *countingFold) Apply(rec ledger.Record) ([]Emission, error) {
	f.seen = append(f.seen, rec.Seq)
	if rec.Principal != "agent/piper" {
		return nil, nil
	}
	if f.n++; f.n%3 != 0 {
		return nil, nil
	}
	if f.n == f.mute {
		return nil, fmt.Errorf("%w: %d", ErrUnencodable, f.n)
	}
	d := &events.RollbackTriggered{CanaryID: fmt.Sprint("c", f.n), Rule: "operator", Reason: "counted"}
	if f.n == f.rude {
		d.Rule = "no such rule"
	}
	id := events.DerivedID(d.Type(), d.CanaryID).String()
	raw, err := events.Encode(&events.Event{
		ID: id, Source: "test", Type: d.Type(), Time: events.FormatTime(rec.RecordedAt), DataSchema: events.DataSchema(d.Type(), 1), Data: d,
	})
	return []Emission{{ID: id, Type: d.Type(), Cut: rec.Seq, Event: raw}}, err
}

// TestFoldBeside: what runs beside the machine sees every record once, its
// emissions are published once, and its state is kept and dropped with the
// machine's.
func TestFoldBeside(t *testing.T) {
	r, blobs, m := testRegistry(t), make(memoryBlobs), newMemory(t)
	path := filepath.Join(t.TempDir(), "state")
	var f *countingFold // the present one
	start := func(rules string) *Service {
		s := stateOf(t, m, blobs, r, path)
		s.cfg.Beside = func() Companion { f = &countingFold{rules: rules}; return f }
		s.reset()
		return s
	}
	catchUp := func(s *Service) {
		t.Helper()
		for range 2 { // its own records are under the next checkpoint
			m.sign()
			if ok, err := s.Advance(t.Context()); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
	}
	record := func(n int) {
		for range n {
			m.now++
			m.book.add(m.now, "agent/piper", &events.GateChosen{Action: "KNOW"})
		}
	}
	told := func() (n int) {
		for _, body := range m.book.bodies {
			rec, err := ledger.ParseRecord(body)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Principal == "resolver/main" {
				n++
			}
		}
		return n
	}
	s := start("one")
	record(7)
	catchUp(s)
	if told() != 2 || len(f.seen) != 9 || f.n != 7 {
		t.Fatalf("%d told, %v seen, %d counted", told(), f.seen, f.n)
	}
	s = start("one") // goes on from the saved state
	record(1)
	catchUp(s)
	if told() != 2 || len(f.seen) != 1 || f.n != 8 || f.saved != "7" {
		t.Fatalf("%d told, %v seen, %d counted", told(), f.seen, f.n)
	}
	s = start("two") // other rules fold from record 1, and publish nothing twice
	record(1)
	catchUp(s)
	if told() != 3 || len(f.seen) != 12 || f.n != 9 || f.saved != "" {
		t.Fatalf("%d told, %v seen, %d counted", told(), f.seen, f.n)
	}
	if s.Differed() != 0 {
		t.Errorf("%d differed", s.Differed())
	}
}

// TestWhatCannotBeSaidStopsNothing: an event of the companion without bytes, or one
// that is refused, is counted and logged, and those before and behind it are published.
func TestWhatCannotBeSaidStopsNothing(t *testing.T) {
	blobs, m := make(memoryBlobs), newMemory(t)
	var log bytes.Buffer
	s := stateOf(t, m, blobs, testRegistry(t), filepath.Join(t.TempDir(), "state"))
	s.cfg.Log = zerolog.New(&log)
	s.cfg.Beside = func() Companion { return &countingFold{rules: "one", mute: 6, rude: 9} }
	s.reset()
	for range 12 {
		m.now++
		m.book.add(m.now, "agent/piper", &events.GateChosen{Action: "KNOW"})
	}
	m.sign()
	if ok, err := s.Advance(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	var told []string
	for i, body := range m.book.bodies {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Principal == "resolver/main" {
			ev, err := events.Decode(rec.Event)
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, fmt.Sprint(i+1, " ", ev.Data.(*events.RollbackTriggered).CanaryID))
		}
	}
	if !slices.Equal(told, []string{"13 c3", "14 c12"}) || s.Unsaid() != 2 {
		t.Errorf("%q, %d unsaid", told, s.Unsaid())
	}
	for seq, want := range map[int]error{6: ErrUnencodable, 9: ErrRefused} {
		if got := log.String(); strings.Count(got, want.Error()) != 1 || strings.Count(got, fmt.Sprintf(`"seq":%d,`, seq)) != 1 {
			t.Errorf("%v at %d:\n%s", want, seq, got)
		}
	}
}
