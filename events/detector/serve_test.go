package detector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"assay/events"
)

// TestServe: what comes within a second is one batch, and is answered once it is told.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		teller := open(t, dir, l)
		defer teller.Close()
		queue := NewQueue()
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), teller, queue, time.Second) }()
		var mu sync.Mutex
		var answers []string
		taken := func() []string {
			mu.Lock()
			defer mu.Unlock()
			out := answers
			answers = nil
			return out
		}
		send := func(principal, data string) {
			queue.Put(Message{principal, []byte(data), func(a Answer) {
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, fmt.Sprintf("%s %d %d %d %d %s", principal, len(l.events), a.Scanned, a.Known, a.Unscanned, a.Error))
			}})
			synctest.Wait()
		}
		const turn = `{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?"}`
		send("agent/piper", turn)
		send("agent/other", "["+turn+`,{"episode":"e","turn_id":"2","role":"assistant","text":"ok"},{"episode":"e","turn_id":"3","role":"tool","text":"ok"}]`)
		if got := taken(); len(got) > 0 || len(l.events) > 0 {
			t.Errorf("answered before the second was over: %q", got)
		}
		// One bad turn spoils its message and no other.
		send("agent/other", `[`+strings.Replace(turn, `"1"`, `"9"`, 1)+`,{"episode":"e","turn_id":"10","role":"judge","text":"ok"}]`)
		send("agent/other", `{"episode":"e","turn":1}`)
		if got := taken(); len(got) != 2 || !strings.Contains(got[0], `no such role: "judge"`) || !strings.Contains(got[1], "not a turn") {
			t.Errorf("%q", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// Both have a turn 1 of an episode e, and neither can take the other's.
		if got := strings.Join(taken(), ", "); got != "agent/piper 4 1 0 0 , agent/other 4 2 0 1 " {
			t.Errorf("%s", got)
		}
		send("agent/piper", turn)
		queue.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := strings.Join(taken(), ", "); got != "agent/piper 4 0 1 0 " {
			t.Errorf("%s", got)
		}
		if scanned, positive, _, _, _ := l.counted(); scanned != 3 || positive != 2 {
			t.Errorf("%d turns, %d positive", scanned, positive)
		}
	})
}

// TestServeLost: nobody is answered whose turns did not reach the ledger.
func TestServeLost(t *testing.T) {
	l := newLedger(t)
	l.failAt = 1
	dir := t.TempDir()
	teller := open(t, dir, l)
	queue := NewQueue()
	queue.Put(Message{"agent/piper", []byte(`{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?"}`), func(a Answer) { t.Errorf("answered: %+v", a) }})
	queue.Close()
	err := Serve(context.Background(), teller, queue, time.Second)
	if !errors.Is(err, errLost) {
		t.Error(err)
	}
	if err := teller.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tell(t, dir, l, nil); err != nil || len(l.events) != 2 {
		t.Errorf("%d events, %v", len(l.events), err)
	}
}

// TestServeFlood: who sends without end waits for herself alone, and is told so.
func TestServeFlood(t *testing.T) {
	l := newLedger(t)
	teller := open(t, t.TempDir(), l)
	defer teller.Close()
	queue := NewQueue()
	refused := 0
	for i := range 3 * queuedMessages {
		queue.Put(Message{"agent/flood", fmt.Appendf(nil, `{"episode":"e","turn_id":"%d","role":"user","text":"Why did it fail?"}`, i), func(a Answer) {
			if a.Error != "" {
				refused++
			}
		}})
	}
	if refused != 2*queuedMessages {
		t.Errorf("%d refused", refused)
	}
	queue.Put(Message{"agent/piper", []byte(`{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?"}`), func(Answer) {}})
	var order []string
	for {
		m, ok, _ := queue.take()
		if !ok {
			break
		}
		order = append(order, m.Principal)
	}
	if len(order) != queuedMessages+1 || order[1] != "agent/piper" {
		t.Errorf("%d taken, the second of %s", len(order), order[1])
	}
	large := func(sender string) Message {
		return Message{sender, make([]byte, queuedBytes/2+1), func(a Answer) { refused++ }}
	}
	refused = 0
	for _, sender := range []string{"agent/flood", "agent/flood", "agent/piper"} {
		queue.Put(large(sender))
	}
	if refused != 1 {
		t.Errorf("%d of three large messages refused, want the sender's second", refused)
	}
}

// TestServeRefuses: a turn that no event can say, or too many of them, are refused to
// who sent them, and hold up nobody.
func TestServeRefuses(t *testing.T) {
	l := newLedger(t)
	teller := open(t, t.TempDir(), l)
	defer teller.Close()
	queue := NewQueue()
	var answers []string
	send := func(data string) {
		queue.Put(Message{"agent/piper", []byte(data), func(a Answer) { answers = append(answers, a.Error) }})
	}
	turn := func(members string) string {
		return `{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?",` + members + `}`
	}
	for _, data := range []string{
		turn(`"time":"9999-12-31T23:59:59-01:00"`), turn(`"time":"0000-01-01T00:00:00+01:00"`), turn(`"time":"yesterday"`), turn(`"component":"\ud800"`),
		turn(`"component":"` + strings.Repeat("c", maxComponent+1) + `"`), "[" + strings.Repeat(turn(`"time":""`)+",", MaxMessage) + turn(`"time":""`) + "]", "", "null,",
	} {
		send(data)
	}
	send(turn(`"component":"\u0000\u202e","time":"2026-01-01T00:00:00+14:00"`))
	queue.Close()
	if err := Serve(t.Context(), teller, queue, time.Second); err != nil {
		t.Fatal(err)
	}
	for i, a := range answers[:8] {
		if !strings.Contains(a, ErrTurn.Error()) {
			t.Errorf("%d: answered %q", i, a)
		}
	}
	if len(answers) != 9 || answers[8] != "" || len(l.events) != 2 {
		t.Errorf("%q, %d events", answers, len(l.events))
	}
}

// FuzzTake: what a sender's message is taken for, the ledger takes. What it refuses
// would stand before the turns of all others for good.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`[{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?","time":"9999-12-31T23:59:59.9-00:01"}]`))
	f.Add([]byte(`{"episode":" \u0000","turn_id":"\u2028","role":"agent","component":"\u202e","text":"It failed because of \u0001."}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newLedger(t) // fails on an event that breaks its schema
		teller := &Teller{
			Config: Config{Detector: builtIn(t), Author: "detector/main"}, maker: events.Maker{Source: "urn:assay:detect:detector/main"}, seen: map[uuid.UUID]bool{},
		}
		_, err := teller.take(t.Context(), Message{Principal: "agent/piper", Data: data})
		if err != nil && !errors.Is(err, ErrTurn) {
			t.Fatal(err)
		}
		told, err := teller.events()
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range told {
			if err := l.publish(t.Context(), event); err != nil {
				t.Fatal(err)
			}
		}
	})
}
