package telemetry

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"assay/resolver/criterion"
)

// ErrCSV means that bytes are not a table of samples.
var ErrCSV = errors.New("malformed telemetry CSV")

// CSVConfig says what the columns of a table are.
type CSVConfig struct {
	// Source of the samples.
	Source string
	// Signal names the only column of values. Empty takes the names of the
	// columns, of which there may be many.
	Signal string
}

// ReadCSV reads a table with a header row. The first column is the event time,
// as ParseTime reads it. Each other column is a signal; an empty cell is no
// sample, and NaN and the infinities are samples that cover nothing.
//
// A row's identity is its number: a sample has its signal for a stream and the
// row, from 1 below the header, for its place in it. The error is ErrCSV with
// the row. Beside the samples a table says that nothing is missing behind its
// last row: its watermark is unbounded.
func ReadCSV(r io.Reader, cfg CSVConfig) ([]Sample, error) {
	buf := bufio.NewReader(r)
	if head, _ := buf.Peek(len(byteOrderMark)); bytes.Equal(head, byteOrderMark) {
		_, _ = buf.Discard(len(byteOrderMark))
	}
	table := csv.NewReader(buf)
	table.ReuseRecord = true
	header, err := table.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrCSV, noEOF(err))
	}
	signals, err := cfg.signals(header)
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrCSV, err)
	}
	var samples []Sample
	for row := uint64(1); ; row++ {
		cells, err := table.Read()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrCSV, row, err)
		}
		t, err := ParseTime(cells[0])
		if err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrCSV, row, err)
		}
		for i, signal := range signals {
			cell := strings.TrimSpace(cells[i+1])
			if cell == "" {
				continue
			}
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: row %d, column %d: %.40q is not a number", ErrCSV, row, i+2, cell)
			}
			samples = append(samples, Sample{Source: cfg.Source, Stream: signal, Seq: row, Signal: signal, Time: t, Value: v})
		}
	}
}

// byteOrderMark is what some spreadsheets write first.
var byteOrderMark = []byte("\xef\xbb\xbf")

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// signals are the names of the columns behind the first.
func (c CSVConfig) signals(header []string) ([]string, error) {
	if len(header) < 2 {
		return nil, errors.New("want a column of times and at least one of values")
	}
	columns := header[1:]
	if c.Signal != "" {
		if len(columns) != 1 {
			return nil, fmt.Errorf("%d columns of values and one name, %.60q", len(columns), c.Signal)
		}
		columns = []string{c.Signal}
	}
	var out []string
	seen := make(map[string]bool)
	for _, cell := range columns {
		name := strings.TrimSpace(cell)
		switch {
		case !criterion.IsSignal(name):
			return nil, fmt.Errorf("%.60q cannot name a signal", name)
		case seen[name]:
			return nil, fmt.Errorf("column %q stands twice", name)
		}
		seen[name] = true
		out = append(out, name)
	}
	return out, nil
}

// ParseTime reads what a table may have for a time: RFC 3339,
// "2006-01-02 15:04:05" in UTC, or Unix seconds, which may have a fraction.
func ParseTime(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t, err = time.Parse(time.DateTime, s)
	}
	if err != nil {
		t, err = unixTime(s)
	}
	if err != nil || !criterion.IsEventTime(t) {
		return time.Time{}, fmt.Errorf("%.40q is no time: want RFC 3339, 2006-01-02 15:04:05 or Unix seconds", s)
	}
	return t.UTC(), nil
}

// unixTime reads seconds with at most nine fractional digits, exactly.
func unixTime(s string) (time.Time, error) {
	whole, fraction, point := strings.Cut(s, ".")
	sec, err := strconv.ParseUint(whole, 10, 40)
	if err != nil || point && fraction == "" || len(fraction) > 9 {
		return time.Time{}, strconv.ErrSyntax
	}
	nsec, err := strconv.ParseUint((fraction + "000000000")[:9], 10, 32)
	return time.Unix(int64(sec), int64(nsec)), err
}
