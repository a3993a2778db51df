package logger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
)

var (
	// ErrZone means that a name is no IANA time zone, or none that this build knows.
	ErrZone = errors.New("no such time zone")
	// ErrOtherZone means that the ledger was opened with another time zone.
	ErrOtherZone = errors.New("a ledger's time zone is in its first record and never changes")
)

const utc = "UTC"

// LoadZone finds the time zone in which weeks begin; "" is UTC. "Local" is none:
// it would mean another zone on another host.
func LoadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("%w: %q", ErrZone, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", ErrZone, name)
	}
	return zone, nil
}

// week is an ISO 8601 week of a time zone, from its Monday's first instant to
// the next one's.
type week struct{ start, end time.Time }

// weekOf is the week that holds the instant.
func weekOf(t time.Time, zone *time.Location) week {
	local := t.In(zone)
	year, month, day := local.Date()
	monday := day - (int(local.Weekday())+6)%7
	w := week{midnight(year, month, monday, zone), midnight(year, month, monday+7, zone)}
	// Where clocks go back over midnight, one date is met twice.
	switch {
	case t.Before(w.start):
		return week{midnight(year, month, monday-7, zone), w.start}
	case !t.Before(w.end):
		return week{w.end, midnight(year, month, monday+14, zone)}
	}
	return w
}

// midnight is the first instant of a date. Where clocks skip midnight, that is
// where they go on.
func midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	m := time.Date(year, month, day, 0, 0, 0, 0, zone)
	if noon := time.Date(year, month, day, 12, 0, 0, 0, zone); m.Day() != noon.Day() {
		_, m = m.ZoneBounds() // m was before the gap
	}
	return m
}

func (w week) holds(t time.Time) bool { return !t.Before(w.start) && t.Before(w.end) }

// id is such as 2026-W48.
func (w week) id(zone *time.Location) string {
	// Thursday is of the year that the week belongs to; any hour of it is.
	year, n := w.start.In(zone).AddDate(0, 0, 3).ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, n)
}

// bypassing are the types that may stand between the end of a week and its
// week.closed: the one before which nothing may carry the time behind a step,
// and those that go in when the logger writes nothing of its own.
var bypassing = []string{events.TypeClockStepped, events.TypeForeignAcknowledged, events.TypeLedgerRestored}

// turnWeek chains week.closed if the time has come. But for what bypasses it, it
// is the first record of its own week, and it names the last week that held a
// record. So whoever continues the ledger, after a crash, a takeover or a
// month's pause, finds in the last records alone whether a week is to be closed;
// weeks without a record are not. The event's bytes follow from the week.
func (w *writer) turnWeek(b *batch, limit int) {
	if w.quiet() || !w.weekIsOver() {
		return
	}
	for len(w.ownQueue) > 0 && w.ownQueue[0].typ == events.TypeClockStepped && len(b.msgs) < limit {
		w.chainOwn(b)
	}
	if len(b.msgs) >= limit {
		return // there is a next batch
	}
	own, err := w.encodeWeek()
	if err != nil {
		w.l.cfg.Log.Error().Err(err).Msg("encode week.closed")
		return
	}
	w.chain(b, Principal, Namespace, own.typ, own.raw)
}

// weekIsOver says whether the next record is in a later week than the last.
func (w *writer) weekIsOver() bool {
	if w.tip.seq == 0 {
		return false
	}
	if !w.week.holds(w.tip.since) {
		w.week = weekOf(w.tip.since, w.zone)
	}
	return !w.now().Before(w.week.end)
}

func (w *writer) encodeWeek() (ownEvent, error) {
	id := w.week.id(w.zone)
	end := events.FormatTime(w.week.end)
	ev := &events.Event{
		ID: events.DerivedID(events.TypeWeekClosed, w.zone.String(), id).String(), Source: w.l.maker.Source, Type: events.TypeWeekClosed,
		Time: end, DataSchema: events.DataSchema(events.TypeWeekClosed, 1), Version: 1,
		Data: &events.WeekClosed{Context: ownContext(), Week: id, Zone: w.zone.String(), Start: events.FormatTime(w.week.start), End: end},
	}
	return encodeChecked(ev)
}

// zoneOf is the time zone that record 1 names; UTC where it names none.
func zoneOf(opened *events.LedgerOpened) string {
	if opened == nil || opened.WeekZone == nil {
		return utc
	}
	return *opened.WeekZone
}

// ReadZone is the time zone in which the weeks of the ledger begin; body is its
// first record.
func ReadZone(body []byte) string { return zoneOf(openedBy(body)) }

// findSince reads the end of the ledger for the last record that counts for
// weeks, and sets position.since to its time.
func (l *Logger) findSince(ctx context.Context) error {
	acknowledged := map[ledger.Seq]bool{}
	for seq := l.w.head.seq; seq > 0; seq-- {
		if _, waits := l.w.foreign[seq]; waits || acknowledged[seq] {
			continue // somebody else's message, whatever form it has
		}
		body, err := l.cfg.Stream.Get(ctx, seq)
		if err != nil {
			return err
		}
		r, err := ledger.ParseRecord(body)
		if err != nil {
			continue
		}
		if ack, ok := ledger.ParseAcknowledgement(&r); ok {
			acknowledged[ack.Seq] = true
		}
		if ev, err := events.DecodeEnvelope(r.Event); err == nil && slices.Contains(bypassing, ev.Type) {
			continue
		}
		l.w.head.since, l.w.tip.since = r.RecordedAt, r.RecordedAt
		return nil
	}
	return nil
}
