package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"assay/internal/otlp"
	"assay/resolver/criterion"
)

const (
	// MaxOTLPBody is the largest request in bytes, also after decompression.
	MaxOTLPBody = 2 << 20

	otlpRetryAfter = time.Second
)

// OTLPConfig is one otlp source.
type OTLPConfig struct {
	Source  criterion.Source
	Signals []criterion.Signal // of the source
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// OTLP receives metrics and logs by OTLP over HTTP, as protobuf or JSON: POST
// /v1/metrics and /v1/logs. What no signal of the registry asks for is taken
// and passed over; of what one asks for and that cannot be a sample the number
// and the first reason stand in the answer, as a partial success.
//
// Where log records are asked for, heartbeats are held back (hold) for the allowed
// lateness of the own one, the time in which a record of before may still come.
// Log records that were refused, each or as a request, are a gap of that lateness
// before, and so is the time before the start of this process. Points are no such
// gap: that a series lacks some shows in its own coverage.
type OTLP struct {
	tally
	cfg     OTLPConfig
	signals otlpSignals
	own     criterion.Signal // the own heartbeat

	mu   sync.Mutex // held while a request is taken
	hold hold
}

// NewOTLP makes the receiver.
func NewOTLP(cfg OTLPConfig) *OTLP {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	o := &OTLP{cfg: cfg, signals: newOTLPSignals(cfg.Source.Name, cfg.Signals), own: criterion.OwnHeartbeat(cfg.Signals)}
	if len(o.signals.logs) > 0 {
		o.hold = newHold(cfg.Signals, o.own.AllowedLateness)
		o.hold.begin(cfg.Now())
	}
	return o
}

// Run implements Adapter: it serves the source's own door.
func (o *OTLP) Run(ctx context.Context, out Sink) error {
	return serveDoor(ctx, o.cfg.Source.Listen, o.Handler(out))
}

// Handler answers 200 once the broker has what a request brought, but for its
// heartbeats, and 503 if it cannot be reached, after which the sender sends the
// same again.
func (o *OTLP) Handler(out Sink) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(otlp.Metrics, o.receive(out, o.metrics))
	mux.Handle(otlp.Logs, o.receive(out, o.logs))
	refuse := func(w http.ResponseWriter, r *http.Request, code int, why string) {
		c, _ := codecOf(r)
		o.refuse(w, c, refusal{code: code, cause: errors.New(why)})
		if code >= http.StatusInternalServerError { // whoever sent it was allowed to
			o.lost(r, why)
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusNotFound, "want /v1/metrics or /v1/logs")
	})
	return door(o.cfg.Source, MaxOTLPBody, refuse, mux)
}

// refusal is a status other than 200.
type refusal struct {
	code  int
	cause error
	retry bool
}

func (r refusal) Error() string { return r.cause.Error() }

// metrics decodes a request and returns its samples and the answer.
func (o *OTLP) metrics(c otlp.Codec, body []byte) (otlpYield, otlp.Message, error) {
	req, resp := pmetricotlp.NewExportRequest(), pmetricotlp.NewExportResponse()
	if err := c.Unmarshal(otlp.MetricsSignal, body, otlp.MaxMessages, req); err != nil {
		return otlpYield{}, nil, err
	}
	y := o.signals.metricSamples(req.Metrics(), o.cfg.Now())
	if y.rejected > 0 {
		resp.PartialSuccess().SetRejectedDataPoints(y.rejected)
		resp.PartialSuccess().SetErrorMessage(y.why.Error())
	}
	return y, resp, nil
}

func (o *OTLP) logs(c otlp.Codec, body []byte) (otlpYield, otlp.Message, error) {
	req, resp := plogotlp.NewExportRequest(), plogotlp.NewExportResponse()
	if err := c.Unmarshal(otlp.LogsSignal, body, otlp.MaxMessages, req); err != nil {
		return otlpYield{}, nil, err
	}
	y := o.signals.logSamples(req.Logs(), o.cfg.Now())
	if y.rejected > 0 {
		resp.PartialSuccess().SetRejectedLogRecords(y.rejected)
		resp.PartialSuccess().SetErrorMessage(y.why.Error())
	}
	return y, resp, nil
}

type take func(otlp.Codec, []byte) (otlpYield, otlp.Message, error)

func (o *OTLP) receive(out Sink, take take) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := codecOf(r)
		var answer []byte
		if err == nil {
			answer, err = o.exchange(r, c, out, take)
		}
		if err != nil {
			o.refuse(w, c, err)
			o.lost(r, err.Error())
			return
		}
		w.Header().Set("Content-Type", c.ContentType)
		_, _ = w.Write(answer) // a sender that is gone sends it again
	})
}

// codecOf is that of the request, and JSON beside an error.
func codecOf(r *http.Request) (otlp.Codec, error) {
	c, err := otlp.CodecOf(r.Header)
	if err != nil {
		err = refusal{code: http.StatusUnsupportedMediaType, cause: err}
	}
	return c, err
}

// exchange reads, decodes and hands over one request.
func (o *OTLP) exchange(r *http.Request, c otlp.Codec, out Sink, take take) ([]byte, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	y, resp, err := take(c, body)
	if err != nil {
		return nil, refusal{code: http.StatusBadRequest, cause: fmt.Errorf("not decodable: %w", err)}
	}
	o.note(func(st *AdapterStats) { st.LeftOut += uint64(y.unnamed); st.Refused += uint64(y.rejected) })
	if y.rejected > 0 {
		o.cfg.Log.Warn().Err(y.why).Str("source", o.cfg.Source.Name).Int64("rejected", y.rejected).Msg("OTLP partly refused")
		o.gap(r, y.why.Error())
	}
	now := o.cfg.Now().UTC()
	samples, beats := o.hold.split(y.samples)
	due, n := o.hold.due(now)
	if all := slices.Concat(samples, due); len(all) > 0 {
		if err := out.Send(r.Context(), all); err != nil {
			return nil, refusal{http.StatusServiceUnavailable, err, true}
		}
		o.sent(all, o.own.Name)
	}
	o.hold.drop(n)
	for _, b := range beats {
		o.hold.add(held{time: b.Time, beats: []Sample{b}})
	}
	o.note(func(st *AdapterStats) { st.Error, st.Doubt = "", o.hold.doubt(now) })
	return c.Marshal(resp)
}

// lost says that a request was not taken.
func (o *OTLP) lost(r *http.Request, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gap(r, why)
}

// gap says that log records of the lateness before now may be missing, which
// only logs are asked for.
func (o *OTLP) gap(r *http.Request, why string) {
	if r.URL.Path != otlp.Logs || len(o.signals.logs) == 0 {
		return
	}
	now := o.cfg.Now().UTC()
	// The sender's clock dates both records and heartbeats.
	o.hold.gap(now.Add(-o.hold.lateness-o.own.MaxSkew), now.Add(o.own.MaxSkew), "log records were refused: "+why)
	o.note(func(st *AdapterStats) { st.Doubt = o.hold.doubt(now) })
}

// readBody is bounded before and after decompression.
func readBody(r *http.Request) ([]byte, error) {
	body, err := otlp.Unpack(r.Header, r.Body) // which the door bounds
	if errors.Is(err, otlp.ErrMediaType) {
		return nil, refusal{code: http.StatusUnsupportedMediaType, cause: err}
	}
	if err != nil {
		return nil, bodyRefusal(err)
	}
	raw, err := io.ReadAll(io.LimitReader(body, MaxOTLPBody+1))
	if err != nil {
		return nil, bodyRefusal(err)
	}
	if len(raw) > MaxOTLPBody {
		return nil, bodyRefusal(&http.MaxBytesError{Limit: MaxOTLPBody})
	}
	return raw, nil
}

func bodyRefusal(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refusal{code: http.StatusRequestEntityTooLarge, cause: fmt.Errorf("the limit of a request is %d bytes, also after decompression", MaxOTLPBody)}
	}
	return refusal{code: http.StatusBadRequest, cause: fmt.Errorf("read the body: %w", err)}
}

// refuse answers with a google.rpc.Status.
func (o *OTLP) refuse(w http.ResponseWriter, c otlp.Codec, err error) {
	r, ok := errors.AsType[refusal](err)
	if !ok {
		r = refusal{code: http.StatusInternalServerError, cause: err}
	}
	o.note(func(st *AdapterStats) {
		if r.retry {
			st.Failed++
			st.Error = r.cause.Error()
		} else {
			st.Refused++
		}
	})
	if r.retry {
		w.Header().Set("Retry-After", strconv.Itoa(int(otlpRetryAfter/time.Second)))
	}
	o.cfg.Log.Warn().Err(r.cause).Str("source", o.cfg.Source.Name).Int("status", r.code).Msg("OTLP request refused")
	w.Header().Set("Content-Type", c.ContentType)
	w.WriteHeader(r.code)
	_, _ = w.Write(c.Status(r.cause.Error()))
}
