package importer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events/genai"
)

// readOTLP reads exports of spans and log records as the Collector's file exporter
// writes them: in JSON one a line, in protobuf each behind its length, which is four
// bytes with the highest first. A file that is a single export is read as well: JSON
// over as many lines as it likes, or protobuf.
func readOTLP(m *maker, in io.Reader) error {
	r, ok, err := m.unmarked(in)
	if !ok || err != nil {
		return err
	}
	start, err := r.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case objectStart.Match(start):
	case bytes.HasPrefix(start, protoTag):
		return m.otlpWhole(r)
	case len(start) > lengthBytes && bytes.HasPrefix(start[lengthBytes:], protoTag) && binary.BigEndian.Uint32(start) <= MaxLine:
		return m.otlpFrames(r)
	}
	t := &otlpText{m: m}
	if err := m.rawLines(r, t.line); err != nil {
		return err
	}
	return t.flush()
}

// lengthBytes is the size of the length in front of a message.
const lengthBytes = 4

// protoTag begins every export in protobuf that holds anything: field 1, a message. It
// is a newline, so that JSON is looked for first.
var protoTag = []byte{1<<3 | 2}

var objectStart = regexp.MustCompile(`^\s*\{\s*"`)

// otlpWhole reads a file that is one message.
func (m *maker) otlpWhole(in io.Reader) error {
	m.line = 1
	raw, err := io.ReadAll(io.LimitReader(in, MaxLine+1))
	if err != nil {
		return err
	}
	return m.otlpMessage(raw)
}

// otlpFrames reads messages, each behind its length. A line is a message.
func (m *maker) otlpFrames(in io.Reader) error {
	for {
		m.line++
		var head [lengthBytes]byte
		switch _, err := io.ReadFull(in, head[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			m.report.Lines++
			m.bad(badTruncated, "the file ends within a length")
			return nil
		case err != nil:
			return err
		}
		length := int64(binary.BigEndian.Uint32(head[:]))
		var raw bytes.Buffer // grows with what is there, whatever the length claims
		_, err := io.CopyN(&raw, in, min(length, MaxLine+1))
		if err == nil {
			_, err = io.CopyN(io.Discard, in, length-int64(raw.Len()))
		}
		if errors.Is(err, io.EOF) {
			m.report.Lines++
			m.bad(badTruncated, "the file ends within a message of "+strconv.FormatInt(length, 10)+" bytes")
			return nil
		}
		if err != nil {
			return err
		}
		if err := m.otlpMessage(raw.Bytes()); err != nil {
			return err
		}
	}
}

func (m *maker) otlpMessage(raw []byte) error {
	m.report.Lines++
	if len(raw) > MaxLine {
		m.bad(badLong, "a message of more than "+strconv.Itoa(MaxLine)+" bytes")
		return nil
	}
	r, err := genai.Proto(raw, genai.Config{})
	if err != nil {
		m.bad(kindOf(err), err.Error())
		return nil
	}
	return m.otlp(m.line, r)
}

// otlpText reads lines of JSON. What is no export by itself may be a part of one, and
// is held until the next line that is one, or the end.
type otlpText struct {
	m    *maker
	held []byte
	from int64 // the line where it begins
	long bool  // it was too long, and is passed over
}

func (t *otlpText) line(line []byte) error {
	r, mended, err := otlpJSON(line)
	switch {
	case err == nil:
		if err := t.flush(); err != nil {
			return err
		}
		return t.take(t.m.line, r, mended)
	case t.from == 0 && !cut(line):
		t.m.bad(kindOf(err), err.Error())
		return nil
	case t.from == 0:
		t.from = t.m.line
	}
	if len(t.held)+len(line) >= MaxDocument {
		t.held, t.long = nil, true
	}
	if !t.long {
		t.held = append(append(t.held, '\n'), line...)
	}
	return nil
}

// flush reads what is held: one export, or several.
func (t *otlpText) flush() error {
	if t.from == 0 {
		return nil
	}
	held, from, long := t.held, t.from, t.long
	t.held, t.from, t.long = nil, 0, false
	if long {
		t.m.badAt(from, badLong, errLong.Error())
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(held), mending, jsontext.AllowDuplicateNames(true))
	for {
		raw, err := dec.ReadValue()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil { // what comes behind it cannot be told apart from it
			t.m.badAt(from, kindOf(err), err.Error())
			return nil
		}
		r, mended, err := otlpJSON(raw)
		if err != nil {
			t.m.badAt(from, kindOf(err), err.Error())
			continue
		}
		if err := t.take(from, r, mended); err != nil {
			return err
		}
	}
}

func (t *otlpText) take(line int64, r genai.Reading, mended string) error {
	if mended != "" {
		t.m.mended(mended)
	}
	return t.m.otlp(line, r)
}

// otlpJSON reads one export, after a repair if need be.
func otlpJSON(raw []byte) (r genai.Reading, mended string, err error) {
	if r, err = genai.JSON(raw, genai.Config{}); err == nil {
		return r, "", nil
	}
	clean, bad := jsontext.AppendFormat(nil, raw, mending)
	if bad != nil || bytes.Equal(clean, raw) {
		return r, "", err
	}
	if r, err = genai.JSON(clean, genai.Config{}); err != nil {
		return r, "", err
	}
	return r, mendedText(raw), nil
}

// otlp makes events of a reading. Two that say the same are two if their spans or log
// records are.
func (m *maker) otlp(line int64, r genai.Reading) error {
	for _, e := range r.Events {
		if err := m.put(draft{data: e.Data, time: &e.Time, episode: e.EpisodeID, trace: e.CorrelationID, line: line, at: e.ID}); err != nil {
			return err
		}
	}
	if r.Passed > 0 {
		m.report.Left[leftItem] += r.Passed
	}
	if r.Rejected > 0 {
		m.badAt(line, badEvent, r.Why.Error())
		m.report.Bad[badEvent] += r.Rejected - 1
	}
	return nil
}

// leftItem is a span or log record that tells of neither tool, model nor agent.
const leftItem = "item of something else"
