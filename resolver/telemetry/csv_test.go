package telemetry

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestReadCSV(t *testing.T) {
	const table = "\xef\xbb\xbftime, cpu ,mem\n" +
		"2026-10-03T14:00:00+02:00,0.5,100\n" +
		"2026-10-03 12:00:10,,-1e3\n" +
		"1791028820.25,NaN,\"7\"\n"
	got, err := ReadCSV(strings.NewReader(table), CSVConfig{Source: "csv"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	want := []Sample{
		{Source: "csv", Stream: "cpu", Seq: 1, Signal: "cpu", Time: at, Value: 0.5},
		{Source: "csv", Stream: "mem", Seq: 1, Signal: "mem", Time: at, Value: 100},
		{Source: "csv", Stream: "mem", Seq: 2, Signal: "mem", Time: at.Add(10 * time.Second), Value: -1000},
		{Source: "csv", Stream: "cpu", Seq: 3, Signal: "cpu", Time: at.Add(20250 * time.Millisecond), Value: math.NaN()},
		{Source: "csv", Stream: "mem", Seq: 3, Signal: "mem", Time: at.Add(20250 * time.Millisecond), Value: 7},
	}
	if len(got) != len(want) {
		t.Fatalf("%d samples, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Stream != w.Stream || g.Seq != w.Seq || g.Signal != w.Signal || !g.Time.Equal(w.Time) || g.Time.Location() != time.UTC ||
			g.Value != w.Value && !(math.IsNaN(g.Value) && math.IsNaN(w.Value)) || g.Source != w.Source {
			t.Errorf("sample %d: %+v, want %+v", i, g, w)
		}
	}
	named, err := ReadCSV(strings.NewReader("timestamp,value\r\n0,1\r\n"), CSVConfig{Source: "csv", Signal: "latency"})
	if err != nil || len(named) != 1 || named[0].Signal != "latency" || !named[0].Time.Equal(time.Unix(0, 0)) {
		t.Errorf("%+v, %v", named, err)
	}
}

func TestReadCSVFaults(t *testing.T) {
	for _, tc := range []struct{ name, table, signal, want string }{
		{"nothing", "", "", "header"},
		{"no values", "time\n", "", "header"},
		{"a name that is none", "time,a b\n", "", `"a b"`},
		{"two of a name", "time,a,a\n", "", `"a" stands twice`},
		{"one name for two columns", "time,a,b\n", "latency", "2 columns"},
		{"short row", "time,a\n0,1\n0\n", "", "row 2"},
		{"long row", "time,a\n0,1,2\n", "", "row 1"},
		{"a quote left open", "time,a\n0,\"1\n", "", "row 1"},
		{"no number", "time,a\n0,1\n1,one\n", "", "row 2, column 2"},
		{"out of range", "time,a\n0,1e999\n", "", "row 1, column 2"},
		{"no time", "time,a\nnoon,1\n", "", "row 1"},
		{"no such day", "time,a\n2026-02-30 00:00:00,1\n", "", "row 1"},
		{"before 1970", "time,a\n1969-12-31T23:59:59Z,1\n", "", "row 1"},
		{"negative seconds", "time,a\n-1,1\n", "", "row 1"},
		{"seconds too far", "time,a\n9999999999,1\n", "", "row 1"},
		{"ten digits", "time,a\n1.0000000001,1\n", "", "row 1"},
		{"an exponent", "time,a\n1e9,1\n", "", "row 1"},
		{"a point and no digits", "time,a\n1.,1\n", "", "row 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadCSV(strings.NewReader(tc.table), CSVConfig{Source: "csv", Signal: tc.signal})
			if !errors.Is(err, ErrCSV) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%+v, %v; want ErrCSV with %q", got, err, tc.want)
			}
		})
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("timestamp,value\n2014-03-07 03:41:00,45.868\n", "")
	f.Add("t,a,b\n1700000000.5,1,NaN\n", "")
	f.Add("t,a\n2026-10-03T12:00:00Z,\"1\"\n", "x")
	f.Fuzz(func(t *testing.T, table, signal string) {
		samples, err := ReadCSV(strings.NewReader(table), CSVConfig{Source: "csv", Signal: signal})
		if err != nil && !errors.Is(err, ErrCSV) {
			t.Fatal(err)
		}
		for _, s := range samples {
			if s.Seq == 0 || s.Time.Year() < 1970 || s.Time.Year() > 2261 {
				t.Fatalf("%+v", s)
			}
		}
	})
}
