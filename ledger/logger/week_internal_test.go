package logger

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustZone(t interface{ Fatal(...any) }, name string) *time.Location {
	zone, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestWeekOf(t *testing.T) {
	for _, c := range []struct {
		name, zone, at string
		id, start, end string
		hours          float64
	}{
		{"UTC", "", "2026-11-30T15:00:00Z", "2026-W49", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z", 168},
		{"the first instant", "UTC", "2026-11-30T00:00:00Z", "2026-W49", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z", 168},
		{"the last one", "UTC", "2026-11-29T23:59:59.999999999Z", "2026-W48", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z", 168},
		{"summer time begins", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-W13", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z", 167},
		{"summer time ends", "Europe/Berlin", "2026-10-19T12:00:00Z", "2026-W43", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z", 169},
		{"west of the sea", "America/New_York", "2026-11-30T04:59:59Z", "2026-W48", "2026-11-23T05:00:00Z", "2026-11-30T05:00:00Z", 168},
		{"fifty-three weeks", "UTC", "2027-01-01T12:00:00Z", "2026-W53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z", 168},
		{"December in the next year", "UTC", "2024-12-30T00:00:00Z", "2025-W01", "2024-12-30T00:00:00Z", "2025-01-06T00:00:00Z", 168},
		{"midnight is skipped", "Asia/Tehran", "2021-03-22T00:00:00Z", "2021-W12", "2021-03-21T20:30:00Z", "2021-03-28T19:30:00Z", 167},
		{"the hour before midnight is met twice", "Asia/Tehran", "2020-09-20T20:00:00Z", "2020-W38", "2020-09-13T19:30:00Z", "2020-09-20T20:30:00Z", 169},
		{"a day is skipped", "Pacific/Apia", "2011-12-28T12:00:00Z", "2011-W52", "2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z", 144},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			zone := mustZone(t, c.zone)
			w := weekOf(at, zone)
			start, end := w.start.UTC().Format(time.RFC3339Nano), w.end.UTC().Format(time.RFC3339Nano)
			if id := w.id(zone); id != c.id || start != c.start || end != c.end || w.end.Sub(w.start).Hours() != c.hours {
				t.Errorf("%s, %s to %s, %v hours", id, start, end, w.end.Sub(w.start).Hours())
			}
		})
	}
}

// TestWeeksTile: every instant is in its week, the weeks before and behind it
// touch it, and it begins on a Monday, in zones that do odd things at midnight.
func TestWeeksTile(t *testing.T) {
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "America/Asuncion", "Asia/Tehran", "Asia/Beirut",
		"Asia/Amman", "Asia/Kathmandu", "Africa/Cairo", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kwajalein", "Antarctica/Troll",
	}
	rapid.Check(t, func(t *rapid.T) {
		zone := mustZone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		w := weekOf(at, zone)
		if !w.holds(at) {
			t.Fatalf("%v is not in %v to %v", at.In(zone), w.start, w.end)
		}
		for _, other := range []time.Time{w.start, w.end.Add(-1)} {
			if weekOf(other, zone) != w {
				t.Fatalf("%v has another week than %v", other.In(zone), at.In(zone))
			}
		}
		if before := weekOf(w.start.Add(-1), zone); !before.end.Equal(w.start) {
			t.Fatalf("the week before ends at %v, not at %v", before.end, w.start)
		}
		if after := weekOf(w.end, zone); !after.start.Equal(w.end) {
			t.Fatalf("the next week starts at %v, not at %v", after.start, w.end)
		}
		if w.start.In(zone).Weekday() != time.Monday {
			t.Fatalf("it starts on %v", w.start.In(zone))
		}
		if d := w.end.Sub(w.start); d < 143*time.Hour || d > 193*time.Hour {
			t.Fatalf("it lasts %v", d)
		}
	})
}

func TestLoadZone(t *testing.T) {
	for _, name := range []string{"Local", "Mars/Olympus", "../etc/passwd", "Europe"} {
		if zone, err := LoadZone(name); !errors.Is(err, ErrZone) {
			t.Errorf("%q is %v, %v", name, zone, err)
		}
	}
	if mustZone(t, "").String() != "UTC" {
		t.Error("no name is not UTC")
	}
}
