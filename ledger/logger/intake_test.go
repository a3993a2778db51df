package logger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/schema"
)

// TestOwnEventsAreValid: whatever was sent, what the logger writes about it
// obeys the schemas, and no answer is missing or not JSON.
func TestOwnEventsAreValid(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	good := string(gate(t))
	id := idOf(t, []byte(good))
	in := func(member string) string { return strings.Replace(good, `"data":{`, `"data":{`+member+`,`, 1) }
	hostile := map[string]string{
		"empty":                  "",
		"not JSON":               "garbage",
		"invalid UTF-8":          "\xff\xfe",
		"invalid UTF-8 in name":  in("\"\xff\":1"),
		"control bytes in name":  in(`"\u0000\u001b[2J\n":1`),
		"long name":              in(`"` + strings.Repeat("n", 5000) + `":1`),
		"long name of slashes":   in(`"` + strings.Repeat("/~", 3000) + `":1`),
		"long name of two bytes": in(`"x` + strings.Repeat("é", 3000) + `":1`),
		"quotes in name":         in(`"\"},{\"":1`),
		"deep":                   in(`"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40)),
		"lone surrogate":         in(`"\ud800":1`),
		"duplicate":              in(`"action":"KNOW"`),
		"id is no UUID":          strings.Replace(good, id, strings.Repeat("x", 2000), 1),
		"id is a number":         strings.Replace(good, `"`+id+`"`, "7", 1),
		"type is hostile":        strings.Replace(good, "gate.chosen", `\"> *`, 1),
		"type is reserved":       strings.Replace(good, "gate.chosen", "logger.started", 2),
		"too large":              in(`"x":"` + strings.Repeat("x", 64000) + `"`),
		"batch that breaks off":  "[" + good,
		"batch of invalid UTF-8": "[\"\xff\",\xff]",
		"batch, then more":       "[" + good + "] x",
	}
	n := 0
	for name, raw := range hostile {
		h.clock.pass(2 * time.Second) // room for a record of its own
		body := s.submit(principal.Agent, []byte(raw)).raw()
		var a answer
		if err := json.Unmarshal(body, &a); err != nil || a.Error == nil || a.Error.RetryAfter != nil {
			t.Errorf("%s: %v %.300s", name, err, body)
		}
		n++
	}
	for _, header := range []string{"Nats-\xff\xfe", "Nats-" + strings.Repeat("h", 1<<20), "nats-\"\n"} {
		h.clock.pass(2 * time.Second)
		p := &promise{t: t, body: make(chan []byte, 8)}
		s.sources[principal.Agent].RefuseHeader([]byte(good), header, p.reply)
		if a := p.wait(); a.code() != "forbidden_header" || len(a.Error.Message) > 300 {
			t.Errorf("%.20q: %+v", header, a)
		}
		n++
	}
	h.clock.pass(11 * time.Second)
	h.clock.move(time.Second, time.Hour)
	s.must(principal.Agent, []byte(good))
	s.stop()
	h.fullySigned()
	for _, b := range h.s.all() {
		r, err := ledger.ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, fault := schema.Check(r.Event); fault != nil {
			t.Errorf("record %d: %v: %s", r.Seq, fault, r.Event)
		}
	}
	rejected := own[*events.IntakeRejected](h)
	if len(rejected) != n {
		t.Errorf("%d rejections have %d records", n, len(rejected))
	}
	for _, p := range rejected {
		if p.HMAC == nil || p.Count != 1 || p.Principal != "agent/piper" {
			t.Errorf("%+v", p)
		}
	}
}

func TestOneRequestOverSeveralAppends(t *testing.T) {
	h := newHouse(t)
	h.s.max = 5000
	s := h.start()
	raws := gates(t, 7000)
	if size := len(batchOf(raws)); size > 2<<20+200<<10 {
		t.Fatalf("%d bytes", size)
	}
	h.s.then(fault{outcome: prefix, k: 4321}, fault{outcome: misleading}, fault{outcome: unacked})
	answers := s.submitBatch(principal.Agent, raws).all(len(raws))
	s.stop()
	h.fullySigned()
	at := h.positions()
	for i, raw := range raws {
		if seqs := at[string(raw)]; len(seqs) != 1 || uint64(seqs[0]) != answers[i].Seq {
			t.Fatalf("event %d: receipt %d, stored at %v", i, answers[i].Seq, seqs)
		}
	}
	if n := h.s.len(); n != 2+len(raws) {
		t.Errorf("%d records", n)
	}
}

func TestAppendsKeepTheLimit(t *testing.T) {
	h := newHouse(t)
	h.s.max = 37
	s := h.start()
	s.submitBatch(principal.Agent, gates(t, 200)).all(200)
	s.stop()
	h.fullySigned() // memStream notes an append over its limit
}

// TestAFloodDelaysItsAuthor: the queues are served in turn.
func TestAFloodDelaysItsAuthor(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	release := s.held()
	var flood, few []*promise
	for _, raw := range gates(t, 400) {
		flood = append(flood, s.submit(principal.Agent, raw))
	}
	for range 5 {
		few = append(few, s.submit(principal.Dispatcher, encode(t, &events.ToolCalled{ToolCallID: "c", Tool: "restart", Status: "ok"})))
	}
	large := s.submitBatch(principal.Agent, gates(t, 300))
	release()
	for i, p := range few {
		// One of ours after each of theirs, behind what was sent before.
		if a := p.wait(); a.Error != nil || a.Seq > uint64(3+3+2*(i+1)) {
			t.Errorf("%d: %+v", i, a)
		}
	}
	for _, p := range flood {
		if a := p.wait(); a.Error != nil {
			t.Errorf("%+v", a)
		}
	}
	large.all(300)
	s.stop()
	h.fullySigned()
}

func TestAFullQueueIsItsAuthorsAlone(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	release := s.held()
	raw := encode(t, &events.GateChosen{Action: "KNOW"})
	var waiting []*promise
	var refused answer
	for i := range 40_000 { // 16 MiB at more than 512 bytes each are fewer
		p := s.submit(principal.Agent, raw)
		if !p.waits() {
			refused = p.wait()
			break
		}
		if i%1000 == 0 {
			waiting = append(waiting, p)
		}
	}
	if refused.code() != "unavailable" || refused.Error.RetryAfter == nil || *refused.Error.RetryAfter <= 0 {
		t.Fatalf("%+v", refused)
	}
	other := s.submit(principal.Dispatcher, mustToolOf(t))
	if !other.waits() {
		t.Errorf("another principal: %+v", other.wait())
	}
	s.sources[principal.Agent].Submit(raw, nil) // no room, no reply: counted
	release()
	if a := other.wait(); a.Error != nil {
		t.Errorf("%+v", a)
	}
	for _, p := range waiting {
		if a := p.wait(); a.Error != nil {
			t.Errorf("%+v", a)
		}
	}
	await(t, "an empty queue", func() bool { return s.l.Status().Waiting == 0 })
	s.must(principal.Agent, gate(t))
	s.stop()
	h.fullySigned()
	// The event itself, one gate in the way, the last one and the tool.
	if n := h.s.len(); n != 2+1+1+1+1+1 {
		t.Errorf("%d records", n)
	}
	counted := own[*events.IntakeRejected](h)
	if len(counted) != 1 || counted[0].Code != "unavailable" || counted[0].Count != 1 || counted[0].Size != int64(len(raw)) {
		t.Errorf("%+v", counted)
	}
}

func mustToolOf(t tb) []byte {
	return encode(t, &events.ToolCalled{ToolCallID: "c", Tool: "restart", Status: "ok"})
}

// TestNothingIsDroppedSilently: what was refused without a record of its own
// is counted, a stop included.
func TestNothingIsDroppedSilently(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	const each = 100
	for i := range each {
		s.sources[principal.Agent].Submit([]byte("garbage"), nil)
		s.sources[principal.Dispatcher].Submit([]byte("["+strings.Repeat("1,", i)+"1]"), nil)
	}
	s.sources[principal.Detector].CountDropped(7)
	s.sources[principal.Detector].CountDropped(5)
	s.sources[principal.Detector].Close() // what it left is still counted
	await(t, "an empty queue", func() bool { return s.l.Status().Waiting == 0 })
	s.stop()
	h.fullySigned()
	total, size := map[string]int64{}, map[string]int64{}
	records := 0
	for _, p := range own[*events.IntakeRejected](h) {
		total[p.Principal+" "+p.Code] += p.Count
		size[p.Principal+" "+p.Code] += p.Size
		records++
	}
	want := map[string]int64{"agent/piper bad_json": each, "dispatcher/main not_an_object": each * (each + 1) / 2, "detector/main dropped": 12}
	if fmt.Sprint(total) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", total, want)
	}
	if size["agent/piper bad_json"] != each*int64(len("garbage")) || size["dispatcher/main not_an_object"] != each*(each+1)/2 {
		t.Errorf("sizes %v", size)
	}
	if records > 50 {
		t.Errorf("%d records", records)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	tiny := func(n int) []byte { return []byte("[" + strings.Repeat("1,", n-1) + "1]") }
	if a := s.ask(principal.Agent, tiny(8193)); a.code() != "too_large" {
		t.Errorf("%+v", a)
	}
	s.submit(principal.Agent, tiny(8192)).all(8192)
	// Refusals with long pointers would not fit the broker's payload.
	const n = 3300
	long := []byte(`{"` + strings.Repeat("n", 600) + `":1}`)
	p := s.submitBatch(principal.Agent, slices.Repeat([][]byte{long}, n))
	for _, a := range p.all(n) {
		if a.Error == nil || a.Error.Code == "" || a.Error.Pointer != "" {
			t.Fatalf("%+v", *a.Error)
		}
	}
	if size := len(p.raw()); size > 2<<20 {
		t.Errorf("an answer of %d bytes", size)
	}
	for _, empty := range []string{"[]", "[ ]"} {
		if body := s.submit(principal.Agent, []byte(empty)).raw(); string(body) != "[]" {
			t.Errorf("%s: %s", empty, body)
		}
	}
	if body := s.submit(principal.Agent, []byte("[\n"+string(gate(t))+" ,\t"+string(gate(t))+"\n]")); body.all(2)[1].Error != nil {
		t.Errorf("white space between the events: %s", body.raw())
	}
}

// TestStopUnderLoad: a stop does not wait for the publishers to pause, and
// answers whatever waits.
func TestStopUnderLoad(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	sent, ps := [][]byte{}, []*promise{}
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				raw := gate(t)
				p := s.submit(principal.Agent, raw)
				mu.Lock()
				sent, ps = append(sent, raw), append(ps, p)
				mu.Unlock()
			}
		})
	}
	await(t, "load", func() bool { return h.s.len() > 500 })
	if err := s.end(); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
	h.fullySigned()
	at, acked := h.positions(), 0
	for i, p := range ps {
		a := p.wait()
		switch {
		case a.Error == nil:
			acked++
			if seqs := at[string(sent[i])]; len(seqs) != 1 || uint64(seqs[0]) != a.Seq {
				t.Fatalf("receipt %d, stored at %v", a.Seq, seqs)
			}
		case a.code() != "unavailable":
			t.Fatalf("%+v", *a.Error)
		case len(at[string(sent[i])]) != 0:
			t.Fatalf("stored and not acked, though nothing was undecided")
		}
	}
	if acked < 400 || acked == len(ps) {
		t.Errorf("%d of %d acked", acked, len(ps))
	}
}

func TestStopWhileUndecided(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	for range 100 {
		h.s.then(fault{outcome: lost})
	}
	one := s.submit(principal.Agent, gate(t))
	s.awaitState(logger.Undecided)
	two := s.submit(principal.Agent, gate(t))
	if err := s.end(); err != nil {
		t.Error(err)
	}
	for _, p := range []*promise{one, two} {
		if a := p.wait(); a.code() != "unavailable" || a.Error.RetryAfter == nil {
			t.Errorf("%+v", a)
		}
	}
	if r := h.audit(); r.Verdict != ledger.Consistent || r.Size != 2 || *r.UnsignedTail != 0 {
		t.Errorf("%+v", r)
	}
}

// TestTheBrokerGoesAway: over a real broker that restarts twice, every event
// is acked in the end, and stored once.
func TestTheBrokerGoesAway(t *testing.T) {
	e := newEnv(t)
	var err error
	if e.cfg.Stream, err = stream.New(e.Connect(principal.LoggerStore), stream.Config{Timeout: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	r := e.start()
	const workers, each = 8, 40
	nc := e.Connect("agent.piper")
	var wg sync.WaitGroup
	var mu sync.Mutex
	receipts := map[string]answer{}
	progress := make(chan struct{}, workers*each)
	for range workers {
		wg.Go(func() {
			for range each {
				raw := gate(t)
				a, err := insist(nc, raw)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				receipts[string(raw)] = a
				mu.Unlock()
				progress <- struct{}{}
			}
		})
	}
	for range 2 {
		for range workers * each / 4 {
			<-progress
		}
		if err := e.Broker.Restart(e.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	await(t, "serving", func() bool { return r.Status().State == logger.Serving })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	e.mustBeConsistent(2 + workers*each)
	for i, b := range e.bodies() {
		rec, err := ledger.ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := receipts[string(rec.Event)]; ok {
			if a.Seq != uint64(i+1) || a.Leaf != rec.Leaf().String() {
				t.Errorf("record %d, receipt %+v", i+1, a)
			}
			delete(receipts, string(rec.Event))
		}
	}
	if len(receipts) != 0 {
		t.Errorf("%d receipts for nothing", len(receipts))
	}
}

// insist publishes until there is a receipt.
func insist(nc *nats.Conn, raw []byte) (a answer, err error) {
	for range 200 {
		var m *nats.Msg
		if m, err = nc.Request("intake.agent.piper", raw, time.Second); err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		a = answer{}
		if err = json.Unmarshal(m.Data, &a); err != nil || a.Error == nil {
			return a, err
		}
		if err = errors.New(a.Error.Message); a.Error.RetryAfter == nil {
			return a, err
		}
	}
	return a, err
}

// TestStopWithCountsAndNoBroker: a stop does not wait for ever to write down
// what was counted, and still signs.
func TestStopWithCountsAndNoBroker(t *testing.T) {
	h := newHouse(t)
	s := h.start()
	s.must(principal.Agent, gate(t))
	s.sources[principal.Agent].CountDropped(3)
	h.s.then(slices.Repeat([]fault{{outcome: lost}}, 1000)...)
	s.stop()
	h.fullySigned()
}
