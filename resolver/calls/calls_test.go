package calls

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
)

var epoch = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// word is a record of a call in short: "<who> <namespace> <episode> <id> <tool> <target> <status>",
// where who is dispatcher, hook, otlp, agent or imported and - is nothing.
type word string

// hear has the log take a record of a word, each a second behind the one before.
func hear(l *Log, seq int, w word) (call, before Call, ok bool) {
	f := strings.Fields(strings.ReplaceAll(string(w)+" ", "- ", "\x00 "))
	for i := range f {
		f[i] = strings.Trim(f[i], "\x00")
	}
	principal, capture := "dispatcher/main", f[0]
	switch f[0] {
	case "dispatcher":
		capture = "live"
	case "agent":
		principal, capture = "agent/piper", "hook"
	}
	d := &events.ToolCalled{Context: events.Context{Capture: &capture}, ToolCallID: f[3], Tool: f[4], Status: f[6]}
	if f[5] != "" {
		d.Target = &f[5]
	}
	rec := &ledger.Record{Header: ledger.Header{Seq: ledger.Seq(seq), Principal: principal, Namespace: f[1]}}
	return l.Hear(rec, epoch.Add(time.Duration(seq)*time.Second), &events.Event{EpisodeID: f[2]}, d)
}

// told is the log in short: first record, record that counts, its witness, episode and act of each call.
func told(l *Log) string {
	var out []string
	for _, c := range l.List() {
		out = append(out, fmt.Sprintf("%d:%d %s %s %s %s %s", c.First, c.Seq, c.Witness, c.Episode, c.Tool, c.Target, c.Status))
	}
	return strings.Join(out, "; ")
}

func TestBestWitness(t *testing.T) {
	for _, tc := range []struct {
		name  string
		words []word
		want  string
	}{
		{"a hook behind the dispatcher changes nothing", []word{"dispatcher ns e 1 kill 9 denied", "hook ns e 1 kill 9 ok"}, "1:1 dispatcher e kill 9 denied"},
		{"the dispatcher behind a hook counts whole", []word{"hook ns e 1 kill 9 ok", "dispatcher ns e 1 kill - failed"}, "1:2 dispatcher e kill  failed"},
		{"hook before telemetry", []word{"otlp ns e 1 kill 9 ok", "hook ns e 1 kill 9 failed", "otlp ns e 1 kill 9 ok"}, "1:2 hook e kill 9 failed"},
		{"of one witness the first", []word{"hook ns e 1 kill 9 failed", "hook ns e 1 kill 9 ok"}, "1:1 hook e kill 9 failed"},
		{"an agent is not heard, whatever she says that it is", []word{"agent ns e 1 kill 9 ok"}, ""},
		{"nor is an import", []word{"imported ns e 1 kill 9 ok"}, ""},
		{"another episode", []word{"dispatcher ns e 1 kill 9 ok", "hook ns f 1 kill 9 ok"}, "1:1 dispatcher e kill 9 ok; 2:2 hook f kill 9 ok"},
		{"another namespace", []word{"dispatcher ns e 1 kill 9 ok", "hook other e 1 kill 9 ok"}, "1:1 dispatcher e kill 9 ok; 2:2 hook e kill 9 ok"},
		{"no episode is the first call of the id", []word{"dispatcher ns e 1 kill 9 ok", "dispatcher ns f 1 kill 9 ok", "hook ns - 1 kill 9 ok"},
			"1:1 dispatcher e kill 9 ok; 2:2 dispatcher f kill 9 ok"},
		{"and is told it by another record", []word{"hook ns - 1 kill 9 ok", "dispatcher ns e 1 kill 9 ok", "hook ns e 1 kill 9 ok", "hook ns f 1 kill 9 ok"},
			"1:2 dispatcher e kill 9 ok; 4:4 hook f kill 9 ok"},
		{"a worse one too", []word{"dispatcher ns - 1 kill 9 ok", "hook ns e 1 kill 9 ok", "hook ns f 1 kill 9 ok"},
			"1:1 dispatcher e kill 9 ok; 3:3 hook f kill 9 ok"},
		{"another tool under one id", []word{"dispatcher ns e 1 kill 9 ok", "dispatcher ns e 1 restart 9 ok", "hook ns e 1 restart 9 ok"},
			"1:1 dispatcher e kill 9 ok; 2:2 dispatcher e restart 9 ok"},
		{"another target under one id", []word{"dispatcher ns - 1 kill 9 ok", "dispatcher ns - 1 kill 8 ok"}, "1:1 dispatcher  kill 9 ok; 2:2 dispatcher  kill 8 ok"},
		{"a client's own name of the tool", []word{"hook ns e 1 mcp__kill - ok", "dispatcher ns e 1 kill 9 ok"}, "1:2 dispatcher e kill 9 ok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := NewLog(time.Hour, nil)
			for i, w := range tc.words {
				hear(l, i+1, w)
			}
			if got := told(l); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestHearTellsWhatChanged(t *testing.T) {
	l := NewLog(time.Hour, nil)
	call, before, ok := hear(l, 1, "hook ns e 1 kill 9 ok")
	if !ok || before != (Call{}) || before.Ran() || before.Succeeded() || call.First != 1 || !call.Ran() || !call.Succeeded() {
		t.Errorf("new: %+v, %+v, %v", call, before, ok)
	}
	was := call
	call, before, ok = hear(l, 2, "dispatcher ns e 1 kill 9 denied")
	if !ok || before != was || call.First != 1 || call.Seq != 2 || !call.At.Equal(was.At) || call.Ran() {
		t.Errorf("bettered: %+v, %+v, %v", call, before, ok)
	}
	if call, before, ok = hear(l, 3, "hook ns e 1 kill 9 ok"); ok || call != (Call{}) || before != (Call{}) {
		t.Errorf("worse: %+v, %+v, %v", call, before, ok)
	}
}

// TestCallsAreForgotten: by age, and the oldest where there are too many.
func TestCallsAreForgotten(t *testing.T) {
	l := NewLog(10*time.Second, nil)
	hear(l, 1, "dispatcher ns e 1 kill 9 denied")
	hear(l, 10, "hook ns e 1 kill 9 ok")
	if got := told(l); got != "1:1 dispatcher e kill 9 denied" {
		t.Errorf("nine seconds later %s", got)
	}
	hear(l, 11, "hook ns e 1 kill 9 ok")
	if got := told(l); got != "11:11 hook e kill 9 ok" {
		t.Errorf("ten seconds later %s", got)
	}
	l = NewLog(1e6*time.Second, nil)
	for i := range MaxCalls + 5 {
		hear(l, i+1, word(fmt.Sprintf("hook ns e%d %d kill 9 ok", i%3, i/2)))
	}
	n := 0
	for _, all := range l.byID {
		n += len(all)
	}
	if list := l.List(); len(list) != MaxCalls || list[0].First != 6 || n != MaxCalls || len(l.latest) != MaxCalls {
		t.Errorf("%d calls from %d on, %d by id, %d by episode", len(list), list[0].First, n, len(l.latest))
	}
	hear(l, 3e6, "agent ns e 1 kill 9 ok")
	if len(l.list)+len(l.byID)+len(l.latest) != 0 {
		t.Errorf("%d, %d, %d are left", len(l.list), len(l.byID), len(l.latest))
	}
}

// TestRestoredLogHearsTheSame: a log that is saved and taken up again anywhere.
func TestRestoredLogHearsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		whole, parts := NewLog(20*time.Second, nil), NewLog(20*time.Second, nil)
		for i := range rapid.IntRange(1, 50).Draw(t, "records") {
			w := word(strings.Join([]string{
				pick("who", "dispatcher", "hook", "otlp", "agent"), pick("ns", "a", "b"), pick("episode", "-", "e", "f"), pick("id", "1", "2"),
				pick("tool", "kill", "restart"), pick("target", "-", "9"), pick("status", "ok", "denied"),
			}, " "))
			if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
				raw, err := json.Marshal(parts.List())
				if err != nil {
					t.Fatal(err)
				}
				var list []Call
				if err := json.Unmarshal(raw, &list); err != nil {
					t.Fatal(err)
				}
				parts = NewLog(20*time.Second, list)
			}
			c1, b1, ok1 := hear(whole, i+1, w)
			c2, b2, ok2 := hear(parts, i+1, w)
			if c1 != c2 || b1 != b2 || ok1 != ok2 || !slices.Equal(whole.List(), parts.List()) || !reflect.DeepEqual(whole.latest, parts.latest) {
				t.Fatalf("record %d, %s:\n%s\ntaken up again\n%s", i+1, w, told(whole), told(parts))
			}
		}
	})
}
