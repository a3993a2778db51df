package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/events/genai"
	"assay/internal/otlp"
	"assay/internal/principal"
	"assay/schema"
)

// MaxOTLP is the largest export request in bytes, also after decompression.
const MaxOTLP = 4 << 20

// export is one request of a signal: what it reads, and what it is answered.
type export struct {
	signal  otlp.Signal
	request otlp.Message
	read    func(genai.Config) genai.Reading
	// partly makes the answer say how many items were rejected, and the notice.
	partly func(rejected int64, notice string)
	answer otlp.Message
}

func tracesExport() export {
	req, resp := ptraceotlp.NewExportRequest(), ptraceotlp.NewExportResponse()
	return export{
		signal: otlp.TracesSignal, request: req, answer: resp,
		read: func(cfg genai.Config) genai.Reading { return genai.Spans(req.Traces(), cfg) },
		partly: func(rejected int64, notice string) {
			resp.PartialSuccess().SetRejectedSpans(rejected)
			resp.PartialSuccess().SetErrorMessage(notice)
		},
	}
}

func logsExport() export {
	req, resp := plogotlp.NewExportRequest(), plogotlp.NewExportResponse()
	return export{
		signal: otlp.LogsSignal, request: req, answer: resp,
		read: func(cfg genai.Config) genai.Reading { return genai.Logs(req.Logs(), cfg) },
		partly: func(rejected int64, notice string) {
			resp.PartialSuccess().SetRejectedLogRecords(rejected)
			resp.PartialSuccess().SetErrorMessage(notice)
		},
	}
}

// otlp takes an export request of the signal. Its answer is 200 once each item's
// event has a receipt or is spooled, was rejected for good or says nothing; as
// long as one is undecided it is 503, and the exporter sends the same again, which
// makes the same events.
func (g *Gateway) otlp(signal func() export) handler {
	return func(w http.ResponseWriter, r *http.Request, a *account) *problem {
		c, err := otlp.CodecOf(r.Header)
		if err != nil {
			return unsupported(err)
		}
		body, release, p := readExport(r, a)
		defer release()
		if p != nil {
			return p
		}
		x := signal()
		reading, p := a.decode(c, x, body)
		if p != nil {
			return p
		}
		rejected, notice, p := g.deliver(r, a, reading)
		if p != nil {
			return p
		}
		if notice != "" {
			x.partly(rejected, notice)
		}
		out, err := c.Marshal(x.answer)
		if err != nil {
			return refuse(http.StatusInternalServerError, "internal", "encode the answer")
		}
		write(w, http.StatusOK, c.ContentType, out)
		return nil
	}
}

// readExport reads a body, unpacked, within the caller's memory.
func readExport(r *http.Request, a *account) (body []byte, release func(), p *problem) {
	if r.ContentLength > MaxOTLP {
		return nil, func() {}, tooLargeExport()
	}
	unpacked, err := otlp.Unpack(r.Header, http.MaxBytesReader(nil, r.Body, MaxOTLP))
	switch {
	case errors.Is(err, otlp.ErrMediaType):
		return nil, func() {}, unsupported(err)
	case errors.Is(err, otlp.ErrCorrupt):
		return nil, func() {}, corrupt()
	case err != nil:
		return nil, func() {}, incomplete()
	}
	if body, release, p = readBody(unpacked, MaxOTLP, &a.memory); p != nil && p.status == http.StatusRequestEntityTooLarge {
		p = tooLargeExport()
	}
	return body, release, p
}

// decode reads one request of the caller at a time: decoded, it is many times as
// large.
func (a *account) decode(c otlp.Codec, x export, body []byte) (genai.Reading, *problem) {
	role, _, err := principal.ParseID(a.id)
	if err != nil {
		return genai.Reading{}, refuse(http.StatusInternalServerError, "internal", "%v", err)
	}
	a.decoding.Lock()
	defer a.decoding.Unlock()
	if err := c.Unmarshal(x.signal, body, otlp.MaxMessages, x.request); err != nil {
		return genai.Reading{}, refuse(http.StatusBadRequest, codeBadBody, "not decodable: %v", err)
	}
	reading := x.read(genai.Config{Role: schema.Role(role), Max: MaxItems})
	if len(reading.Events) > MaxItems {
		return genai.Reading{}, tooMany()
	}
	return reading, nil
}

func unsupported(err error) *problem {
	return refuse(http.StatusUnsupportedMediaType, codeMediaType, "%v", err)
}

func corrupt() *problem {
	return refuse(http.StatusBadRequest, codeBadBody, "the body is not what its Content-Encoding says")
}

func tooLargeExport() *problem {
	return refuse(http.StatusRequestEntityTooLarge, string(schema.CodeTooLarge), "an export request has at most %d bytes, also unpacked: make the exporter's batches smaller", MaxOTLP)
}

// deliver publishes what was read. The notice says what was rejected or left out,
// and is "" if nothing was.
func (g *Gateway) deliver(r *http.Request, a *account, reading genai.Reading) (rejected int64, notice string, p *problem) {
	batch := make([][]byte, len(reading.Events))
	for i, e := range reading.Events {
		batch[i] = e.Raw
	}
	if len(batch) > 1 {
		if p := a.owes(a.bucket.takeRest(float64(len(batch)))); p != nil {
			return 0, "", p
		}
	}
	answers, err := publishAll(r.Context(), a.publisher, batch)
	if p := g.undelivered(answers, err); p != nil {
		return 0, "", p
	}
	if _, retry := g.tally(answers); retry != nil {
		return 0, "", refuseFor(http.StatusServiceUnavailable, *retry, codeUnavailable, "the ledger has not decided all of it yet: send the same again")
	}
	rejected, notice = reading.Rejected, reading.Notice()
	for i, answer := range answers {
		if answer.Refusal == nil {
			continue
		}
		if rejected++; rejected == reading.Rejected+1 {
			e := reading.Events[i]
			notice = strings.TrimPrefix(fmt.Sprintf("%s; first refused by the ledger: %s of trace %q: %v", notice, e.Type, e.CorrelationID, answer.Refusal), "; ")
		}
	}
	return rejected, strings.ToValidUTF8(notice, "\ufffd"), nil
}

// refuseOTLP answers in the request's own encoding, with a google.rpc.Status.
func refuseOTLP(w http.ResponseWriter, r *http.Request, p *problem) {
	c, _ := otlp.CodecOf(r.Header)
	write(w, p.status, c.ContentType, c.Status(strings.ToValidUTF8(p.refusal.Code+": "+p.refusal.Message, "\ufffd")))
}

// metricsElsewhere tells an exporter that sends all its signals to one endpoint
// where this one goes.
func metricsElsewhere(http.ResponseWriter, *http.Request, *account) *problem {
	return refuse(http.StatusNotFound, "not_found", "metrics are telemetry and go to the address of an otlp source")
}
