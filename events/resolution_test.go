package events

import (
	"testing"
	"time"
)

func TestTooLateIsByCut(t *testing.T) {
	cut := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name           string
		time           string
		recorded, want time.Time
		late           bool // as an amendment of a resolution at cut
	}{
		{"recorded at once", FormatTime(cut), cut, cut, false},
		{"recorded after a long pause", FormatTime(cut.Add(AmendableFor)), cut.Add(30 * 24 * time.Hour), cut.Add(AmendableFor), false},
		{"cut a moment later", FormatTime(cut.Add(AmendableFor + 1)), cut.Add(30 * 24 * time.Hour), cut.Add(AmendableFor + 1), true},
		{"a time behind its record", FormatTime(cut.Add(time.Hour)), cut, cut, false},
		{"no time", "yesterday", cut.Add(AmendableFor + 1), cut.Add(AmendableFor + 1), true},
		{"another zone", "2026-11-23T13:00:00+01:00", cut.Add(time.Hour), cut, false},
	} {
		got := CutTime(&Event{Time: c.time}, c.recorded)
		if !got.Equal(c.want) || got.Location() != time.UTC || TooLate(cut, got) != c.late {
			t.Errorf("%s: %v, late %v", c.name, got, TooLate(cut, got))
		}
	}
}
