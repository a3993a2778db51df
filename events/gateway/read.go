package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/events/publish"
	"assay/internal/otlp"
	"assay/schema"
)

// The media types of POST /v1/events.
const (
	jsonType  = "application/json"
	oneType   = "application/cloudevents+json"
	batchType = "application/cloudevents-batch+json"
	linesType = "application/x-ndjson"
)

const (
	// MaxBody is the largest body of POST /v1/events in bytes.
	MaxBody = publish.MaxMessage
	// MaxItems is how many events one request may have.
	MaxItems = 8192

	readStep = 32 << 10
)

// shape is how a request holds its events, and its answer their receipts.
type shape int

const (
	one    shape = iota // a single object
	array               // a JSON array
	lines               // JSON Lines
	binary              // attributes in headers; answered like one
)

// shapeOf reads the Content-Type.
func shapeOf(h http.Header) (shape, *problem) {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil {
		switch media {
		case oneType:
			return one, nil
		case batchType:
			return array, nil
		case linesType, "application/jsonl", "application/json-lines":
			return lines, nil
		}
	}
	if events.IsBinary(h) {
		return binary, nil
	}
	return 0, refuse(http.StatusUnsupportedMediaType, codeMediaType,
		"want Content-Type %s, %s or %s, or ce-* headers for the binary mode", oneType, batchType, linesType)
}

// readBody reads at most max bytes and takes them from the budget as they come;
// release gives them back. A client that sends slowly holds what it sent.
func readBody(r io.Reader, max int, b *budget) (body []byte, release func(), p *problem) {
	held := 0
	release = func() { b.give(int64(held)) }
	for {
		if len(body) == held {
			step := min(max+1-held, readStep+held)
			if !b.take(int64(step)) {
				return nil, release, refuseFor(http.StatusServiceUnavailable, 1, "busy", "other requests of this principal hold all the memory that it may use")
			}
			held += step
			body = append(make([]byte, 0, held), body...)
		}
		n, err := r.Read(body[len(body):held])
		body = body[:len(body)+n]
		_, over := errors.AsType[*http.MaxBytesError](err)
		switch {
		case len(body) > max, over:
			return nil, release, tooLarge(max)
		case errors.Is(err, otlp.ErrCorrupt):
			return nil, release, corrupt()
		case errors.Is(err, io.EOF):
			return body, release, nil
		case err != nil:
			return nil, release, incomplete()
		}
	}
}

func incomplete() *problem {
	return refuse(http.StatusRequestTimeout, "incomplete_body", "the body did not arrive in whole or in time")
}

func tooLarge(limit int) *problem {
	return refuse(http.StatusRequestEntityTooLarge, string(schema.CodeTooLarge),
		"the body has more than %d bytes, and an event at most %d; upload large content with PUT /v1/blobs and name it by dataref", limit, schema.MaxEvent)
}

// split gives the events of a body, each as the ledger wants it.
func split(s shape, h http.Header, body []byte) ([][]byte, *problem) {
	switch s {
	case array:
		return splitArray(body)
	case lines:
		return splitLines(body)
	case binary:
		event, fault := events.FromBinary(h, body)
		if fault != nil {
			return nil, &problem{http.StatusBadRequest, publish.Refusal{Code: string(fault.Code), Pointer: fault.Pointer, Message: fault.Message}}
		}
		body = event
	}
	return [][]byte{compact(body)}, nil
}

func splitArray(body []byte) ([][]byte, *problem) {
	events := [][]byte{}
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return nil, refuse(http.StatusBadRequest, string(schema.CodeBadJSON), "a batch is a JSON array of events")
	}
	for dec.PeekKind() != ']' {
		if len(events) == MaxItems {
			return nil, tooMany()
		}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, refuse(http.StatusBadRequest, string(schema.CodeBadJSON), "the batch is no JSON: %v", err)
		}
		events = append(events, compact(bytes.Clone(v)))
	}
	_, err := dec.ReadToken()
	if err == nil {
		_, err = dec.ReadToken()
	}
	if !errors.Is(err, io.EOF) {
		return nil, refuse(http.StatusBadRequest, string(schema.CodeBadJSON), "the batch is no JSON array, or more follows it")
	}
	return events, nil
}

func splitLines(body []byte) ([][]byte, *problem) {
	events := [][]byte{}
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(events) == MaxItems {
			return nil, tooMany()
		}
		events = append(events, compact(line))
	}
	return events, nil
}

func tooMany() *problem {
	return refuse(http.StatusRequestEntityTooLarge, "too_many_events", "a request has at most %d events", MaxItems)
}

// messages cuts events into groups that each fit one message to the ledger.
func messages(events [][]byte) [][][]byte {
	var out [][][]byte
	start, size := 0, 0
	for i, e := range events {
		if i > start && (size+len(e) > maxMessage || i-start == maxGroup) {
			out = append(out, events[start:i])
			start, size = i, 0
		}
		size += len(e) + 1
	}
	return append(out, events[start:])
}

const (
	maxMessage = 1 << 20
	maxGroup   = 1000
)

// problem is an answer to a whole request that was not taken.
type problem struct {
	status  int
	refusal publish.Refusal
}

func refuse(status int, code, format string, args ...any) *problem {
	return &problem{status, publish.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// refuseFor is refuse for what may be asked again after so many seconds.
func refuseFor(status int, after float64, code, format string, args ...any) *problem {
	p := refuse(status, code, format, args...)
	p.refusal.RetryAfter = &after
	return p
}

// compact is the event as the ledger wants it; what is no JSON stays as it is,
// for the ledger to refuse and record.
func compact(event []byte) []byte {
	if c, err := schema.Compact(event); err == nil {
		return c
	}
	return event
}
