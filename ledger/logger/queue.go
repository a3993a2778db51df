package logger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/principal"
	"assay/schema"
)

const (
	// maxQueued bounds what one principal may have waiting, in bytes of memory.
	maxQueued = 16 << 20
	// itemCost is the memory of an event that waits, beside its bytes.
	itemCost = 512
	// maxItems is how many events one JSON batch may hold. Two MiB of valid
	// events are fewer.
	maxItems = 8192
	// maxReply leaves room for the protocol in the broker's 2 MiB payload.
	maxReply = 2<<20 - 4096
	// floodMemory is for how long a principal that overflowed its queue counts as
	// flooding.
	floodMemory = 2 * time.Second
	// maxHeaderName is how much of a refused header's name is told.
	maxHeaderName = 64
)

// Codes that the logger adds to those of schema.Check.
const (
	CodeForbiddenType   schema.Code = "forbidden_type"
	CodeForbiddenHeader schema.Code = "forbidden_header"
	CodeConflict        schema.Code = "conflict"
	CodeUnavailable     schema.Code = "unavailable"
	CodeDropped         schema.Code = "dropped" // by the broker, before the logger saw it
)

// RejectionCodes lists the codes under which an event is refused for good.
func RejectionCodes() []schema.Code {
	return append(schema.Codes(), CodeForbiddenType, CodeForbiddenHeader, events.CodeBadHeader, CodeConflict)
}

// refusal is the error that an intake answers.
type refusal struct {
	Code    schema.Code `json:"code"`
	Pointer string      `json:"pointer"`
	Message string      `json:"message"`
	// RetryAfter is in seconds; null when the same bytes will never be taken.
	RetryAfter *float64 `json:"retry_after"`
}

func unavailable(message string) *refusal {
	after := 1.0
	return &refusal{Code: CodeUnavailable, Message: message, RetryAfter: &after}
}

var errFull = unavailable("too much of this principal is waiting")

var errStopping = unavailable("the logger is stopping")

func (r *refusal) encode() []byte {
	out, err := json.Marshal(struct {
		Error *refusal `json:"error"`
	}{r}, jsontext.AllowInvalidUTF8(true)) // a message may quote what was sent
	if err != nil {
		return []byte(`{"error":{"code":"` + string(r.Code) + `","pointer":"","message":"","retry_after":null}}`)
	}
	return out
}

// shorten drops pointer and message of an encoded refusal. Receipts stay.
func shorten(answer []byte) []byte {
	var a struct {
		Error *refusal `json:"error"`
	}
	if json.Unmarshal(answer, &a) != nil || a.Error == nil {
		return answer
	}
	a.Error.Pointer, a.Error.Message = "", ""
	return a.Error.encode()
}

// request is one intake message, split and checked.
type request struct {
	source *Source
	items  []item
	array  bool          // the message was a JSON array, and so is the reply
	reply  func([]byte)  // nil when nobody waits
	size   int           // bytes of the message
	came   time.Duration // monotonic; for the observer

	answers [][]byte
	left    int
}

func newRequest(s *Source, size int, items ...item) *request {
	return &request{source: s, size: size, came: s.l.now(), items: items, answers: make([][]byte, len(items)), left: len(items)}
}

// cost is the memory that the request takes while it waits.
func (r *request) cost() int { return r.size + itemCost*len(r.items) }

type item struct {
	raw     []byte
	checked schema.Checked
	refused *refusal
}

// answer settles item i and, when it was the last one, sends the reply.
func (r *request) answer(i int, body []byte) {
	r.answers[i] = body
	if r.left--; r.left > 0 || r.reply == nil || r.source.l.queues.muted.Load() {
		return
	}
	if !r.array {
		r.reply(r.answers[0])
		return
	}
	out := joinAnswers(r.answers)
	if len(out) > maxReply {
		for i, a := range r.answers {
			r.answers[i] = shorten(a)
		}
		out = joinAnswers(r.answers)
	}
	r.reply(out)
}

func joinAnswers(answers [][]byte) []byte {
	out := append([]byte{'['}, bytes.Join(answers, []byte{','})...)
	return append(out, ']')
}

// Source is the intake of one principal. Its requests wait in a queue of its
// own, and the queues are served in turn, so that a flood delays its author.
type Source struct {
	l         *Logger
	principal principal.Principal
	id        string

	// The rest is guarded by the queues' mutex.
	waiting []*request
	at      int // next item of waiting[0]
	cost    int // of what waits
	limiter limiter
	gone    bool
}

// countKey says what a counting record counts.
type countKey struct {
	principal string
	code      schema.Code
}

func (k countKey) compare(o countKey) int {
	return cmp.Or(cmp.Compare(k.principal, o.principal), cmp.Compare(k.code, o.code))
}

type count struct {
	events int64
	bytes  int64
}

// limiter is a token bucket over the monotonic clock.
type limiter struct {
	perSecond float64
	tokens    float64
	last      time.Duration
}

const defaultRejections = 10

func (b *limiter) allow(now time.Duration) bool {
	b.tokens = min(2*b.perSecond, b.tokens+b.perSecond*(now-b.last).Seconds())
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// queues is what waits for the writer.
type queues struct {
	mu       sync.Mutex
	sources  []*Source
	turn     int
	items    int
	wake     chan struct{}
	rejected map[schema.Code]uint64
	counted  map[countKey]count // refused without a record of their own
	stopped  bool
	flooded  time.Duration // monotonic time at which a principal's queue was last full; 0 never
	closed   *refusal      // what everything is answered while an append is undecided for long
	muted    atomic.Bool   // another logger answers

	unavailable atomic.Uint64 // events that were refused for now
	dropped     atomic.Uint64 // messages of CountDropped
}

// AddSource opens the intake of a principal.
func (l *Logger) AddSource(p principal.Principal) *Source {
	rate := float64(p.RejectionsPerSecond)
	if rate == 0 {
		rate = defaultRejections
	}
	s := &Source{l: l, principal: p, id: p.ID()}
	s.limiter = limiter{perSecond: rate, tokens: 2 * rate, last: l.cfg.Clock.Monotonic()}
	l.queues.mu.Lock()
	defer l.queues.mu.Unlock()
	l.queues.sources = append(l.queues.sources, s)
	return s
}

// Close ends the intake; what waits is still served.
func (s *Source) Close() {
	q := &s.l.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	s.gone = true
}

// Submit checks one intake message and queues it. reply gets the answer, once,
// from another goroutine; nil when the sender wants none. Submit does not wait.
func (s *Source) Submit(raw []byte, reply func([]byte)) {
	if (len(raw) == 0 || raw[0] != '[') && s.flooded(raw, reply) {
		return
	}
	r := s.parse(raw)
	r.reply = reply
	s.l.queues.add(r)
}

// SubmitBinary is Submit for a message in CloudEvents' binary content mode, which
// holds one event.
func (s *Source) SubmitBinary(header map[string][]string, body []byte, reply func([]byte)) {
	if s.flooded(body, reply) {
		return
	}
	var r *request
	raw, fault := events.FromBinary(header, body)
	if fault == nil {
		if compact, err := schema.Compact(raw); err == nil {
			raw = compact
		}
		r = newRequest(s, len(raw), s.check(raw))
	} else {
		r = s.whole(body, &refusal{Code: fault.Code, Pointer: fault.Pointer, Message: fault.Message})
	}
	r.reply = reply
	s.l.queues.add(r)
}

// flooded refuses a message that is not worth a look: checking what a flood sends
// would take others' time.
func (s *Source) flooded(raw []byte, reply func([]byte)) bool {
	if !s.l.queues.full(s, len(raw)+itemCost) {
		return false
	}
	r := s.whole(raw, errFull)
	r.reply = reply
	s.l.queues.refuse(r, errFull)
	return true
}

// RefuseHeader answers a message that carries headers which the intake does
// not take; it is recorded like any other refused event.
func (s *Source) RefuseHeader(raw []byte, name string, reply func([]byte)) {
	if len(name) > maxHeaderName {
		name = name[:maxHeaderName]
	}
	r := s.whole(raw, &refusal{Code: CodeForbiddenHeader, Message: "header " + name + " is not taken: publish the event's JSON alone"})
	r.reply = reply
	s.l.queues.add(r)
}

// CountDropped notes that the broker dropped n messages of this principal
// before they reached the logger.
func (s *Source) CountDropped(n int64) {
	s.l.queues.dropped.Add(uint64(n))
	s.l.queues.count(s, CodeDropped, n, 0)
}

// whole is a request of one item that is refused.
func (s *Source) whole(raw []byte, why *refusal) *request {
	return newRequest(s, len(raw), item{raw: raw, refused: why})
}

func (s *Source) parse(raw []byte) *request {
	if len(raw) == 0 || raw[0] != '[' {
		return newRequest(s, len(raw), s.check(raw))
	}
	items, ok := s.goodBatch(raw)
	if !ok {
		parts, why := splitBatch(raw)
		if why != nil {
			return s.whole(raw, why)
		}
		items = make([]item, len(parts))
		for i, p := range parts {
			items[i] = s.check(p)
		}
	}
	r := newRequest(s, len(raw), items...)
	r.array = true
	return r
}

// goodBatch reads a JSON array of good events only, each of them once; ok is
// false for any other.
func (s *Source) goodBatch(raw []byte) (items []item, ok bool) {
	const usual = 512 // bytes of an event
	items = make([]item, 0, min(len(raw)/usual+1, maxItems))
	for i := skipSpace(raw, 1); len(items) < maxItems; i = skipSpace(raw, i+1) {
		checked, n, ok := schema.CheckFirst(raw[i:])
		if !ok {
			return nil, false
		}
		items = append(items, s.allowed(raw[i:i+n:i+n], checked))
		i = skipSpace(raw, i+n)
		switch {
		case i == len(raw):
			return nil, false
		case raw[i] == ']':
			return items, skipSpace(raw, i+1) == len(raw)
		case raw[i] != ',':
			return nil, false
		}
	}
	return nil, false
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// splitBatch cuts a CloudEvents JSON batch into the bytes of its events. An
// array that does not parse is refused whole: nothing after the fault could be
// told apart. The parts alias raw.
func splitBatch(raw []byte) ([][]byte, *refusal) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	bad := func(err error) *refusal {
		return &refusal{Code: schema.CodeBadJSON, Message: "batch: " + err.Error()}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, bad(err)
	}
	var out [][]byte
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, bad(err)
		}
		if len(out) == maxItems {
			return nil, &refusal{Code: schema.CodeTooLarge, Message: fmt.Sprintf("a batch holds at most %d events", maxItems)}
		}
		end := int(dec.InputOffset())
		out = append(out, raw[end-len(v):end:end])
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, bad(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, bad(errors.New("more follows the array"))
	}
	return out, nil
}

// check holds one event against the schema and the principal's role.
func (s *Source) check(raw []byte) item {
	checked, fault := schema.Check(raw)
	if fault != nil {
		return item{raw: raw, checked: checked, refused: &refusal{Code: fault.Code, Pointer: fault.Pointer, Message: fault.Message}}
	}
	return s.allowed(raw, checked)
}

// allowed holds a good event against the principal's role.
func (s *Source) allowed(raw []byte, checked schema.Checked) item {
	it := item{raw: raw, checked: checked}
	if !schema.MayWrite(schema.Role(s.principal.Role), checked.Type, s.principal.Namespace) {
		it.refused = &refusal{
			Code: CodeForbiddenType, Pointer: "/type",
			Message: "a principal of role " + string(s.principal.Role) + " may not write " + checked.Type + " in this namespace",
		}
	}
	return it
}

// mute takes nothing more and answers nobody.
func (q *queues) mute() {
	q.muted.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
}

// add queues the request, or answers that there is no room.
func (q *queues) add(r *request) {
	q.mu.Lock()
	s := r.source
	full := q.overflows(s, r.cost())
	why := q.closed
	switch {
	case q.stopped || s.gone:
		why = errStopping
	case full && why == nil:
		why = errFull
	}
	if why != nil {
		q.mu.Unlock()
		q.refuse(r, why)
		return
	}
	if len(r.items) == 0 {
		q.mu.Unlock()
		if r.reply != nil {
			r.reply([]byte("[]"))
		}
		return
	}
	s.waiting = append(s.waiting, r)
	s.cost += r.cost()
	q.items += len(r.items)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// full says that a request of this cost would be refused for want of room.
func (q *queues) full(s *Source, cost int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.stopped && !s.gone && q.closed == nil && q.overflows(s, cost)
}

// overflows says so too, and notes it, with the lock held.
func (q *queues) overflows(s *Source, cost int) bool {
	full := s.cost > 0 && s.cost+cost > maxQueued
	if full {
		q.flooded = s.l.cfg.Clock.Monotonic()
	}
	return full
}

// refuse answers every item that has no answer yet. What nobody waits for is
// counted, so that nothing is dropped silently.
func (q *queues) refuse(r *request, why *refusal) {
	body := why.encode()
	for i := range r.answers {
		if r.answers[i] == nil {
			q.refuseItem(r, i, why.Code, body)
		}
	}
}

// refuseItem answers one item with body, or counts it if nobody waits.
func (q *queues) refuseItem(r *request, i int, code schema.Code, body []byte) {
	if code == CodeUnavailable {
		q.unavailable.Add(1)
	}
	if r.reply == nil {
		q.count(r.source, code, 1, int64(len(r.items[i].raw)))
	}
	r.answer(i, body)
}

// take gives the next item: one of each principal in turn, so that nobody's event
// waits for the whole of another's message. ok is false when nothing waits.
func (q *queues) take() (r *request, i int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range q.sources {
		q.turn %= len(q.sources)
		s := q.sources[q.turn]
		q.turn++
		if len(s.waiting) == 0 {
			continue
		}
		r, i = s.waiting[0], s.at
		q.items--
		if s.at++; s.at == len(r.items) {
			s.waiting[0] = nil
			s.waiting, s.at = s.waiting[1:], 0
			s.cost -= r.cost()
		}
		return r, i, true
	}
	return nil, 0, false
}

// flooding says whether a principal sends more than its queue holds.
func (q *queues) flooding(now time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flooded > 0 && now-q.flooded < floodMemory
}

func (q *queues) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items
}

// allow says whether the source may have a rejection record of its own now.
func (q *queues) allow(s *Source, now time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.limiter.allow(now)
}

// count adds refused events to the principal's next counting record.
func (q *queues) count(s *Source, code schema.Code, events, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counted == nil {
		q.counted = map[countKey]count{}
	}
	c := q.counted[countKey{s.id, code}]
	q.counted[countKey{s.id, code}] = count{c.events + events, c.bytes + bytes}
}

func (q *queues) noteRejected(code schema.Code) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rejected == nil {
		q.rejected = map[schema.Code]uint64{}
	}
	q.rejected[code]++
}

func (q *queues) rejectedByCode() map[string]uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[string]uint64, len(q.rejected))
	for c, n := range q.rejected {
		out[string(c)] = n
	}
	return out
}

// drainCounts empties the counters and drops closed sources.
func (q *queues) drainCounts(fn func(k countKey, c count)) {
	q.mu.Lock()
	counted := q.counted
	q.counted = nil
	q.sources = slices.DeleteFunc(q.sources, func(s *Source) bool { return s.gone && len(s.waiting) == 0 })
	q.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(counted), countKey.compare) {
		fn(k, counted[k])
	}
}

// close answers everything that waits, and what comes until open. Only the
// writer calls it: items that were taken are its own to answer.
func (q *queues) close(why *refusal) {
	type rest struct {
		r    *request
		from int
	}
	q.mu.Lock()
	q.closed = why
	var all []rest
	for _, s := range q.sources {
		for i, r := range s.waiting {
			all = append(all, rest{r, 0})
			if i == 0 {
				all[len(all)-1].from = s.at
			}
		}
		s.waiting, s.at, s.cost = nil, 0, 0
	}
	q.items = 0
	q.mu.Unlock()
	body := why.encode()
	for _, a := range all {
		for i := a.from; i < len(a.r.items); i++ {
			q.refuseItem(a.r, i, why.Code, body)
		}
	}
}

// open takes requests again.
func (q *queues) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = nil
}

// refuseAll answers everything that waits and takes nothing more.
func (q *queues) refuseAll(why *refusal) {
	q.mu.Lock()
	q.stopped = true
	var all []*request
	for _, s := range q.sources {
		all = append(all, s.waiting...)
		s.waiting, s.at, s.cost = nil, 0, 0
	}
	q.items = 0
	q.mu.Unlock()
	for _, r := range all {
		q.refuse(r, why)
	}
}
