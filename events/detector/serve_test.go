package detector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServe: what comes within a second is one batch, and is answered once it is told.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		teller := open(t, dir, l)
		defer teller.Close()
		messages := make(chan Message)
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), teller, messages, time.Second) }()
		var answers []string
		send := func(principal, data string) {
			messages <- Message{principal, []byte(data), func(a Answer) {
				answers = append(answers, fmt.Sprintf("%s %d %d %d %d %s", principal, len(l.events), a.Scanned, a.Known, a.Unscanned, a.Error))
			}}
			synctest.Wait()
		}
		const turn = `{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?"}`
		send("agent/piper", turn)
		send("agent/other", "["+turn+`,{"episode":"e","turn_id":"2","role":"assistant","text":"ok"},{"episode":"e","turn_id":"3","role":"tool","text":"ok"}]`)
		if len(answers) > 0 || len(l.events) > 0 {
			t.Errorf("answered before the second was over: %q", answers)
		}
		// One bad turn spoils its message and no other.
		send("agent/other", `[`+strings.Replace(turn, `"1"`, `"9"`, 1)+`,{"episode":"e","turn_id":"10","role":"judge","text":"ok"}]`)
		send("agent/other", `{"episode":"e","turn":1}`)
		if len(answers) != 2 || !strings.Contains(answers[0], `no such role: "judge"`) || !strings.Contains(answers[1], "not a turn") {
			t.Errorf("%q", answers)
		}
		answers = nil
		time.Sleep(time.Second)
		synctest.Wait()
		// Both have a turn 1 of an episode e, and neither can take the other's.
		if got := strings.Join(answers, ", "); got != "agent/piper 3 1 0 0 , agent/other 3 2 0 1 " {
			t.Errorf("%s", got)
		}
		answers = nil
		send("agent/piper", turn)
		close(messages)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := strings.Join(answers, ", "); got != "agent/piper 3 0 1 0 " {
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
	messages := make(chan Message, 1)
	messages <- Message{"agent/piper", []byte(`{"episode":"e","turn_id":"1","role":"user","text":"Why did it fail?"}`), func(a Answer) { t.Errorf("answered: %+v", a) }}
	close(messages)
	err := Serve(context.Background(), teller, messages, time.Second)
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
