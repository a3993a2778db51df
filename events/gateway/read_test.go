package gateway

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestMessages: whatever the sizes, the groups are the events in order, and
// each fits a message.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 1000, 400_000, maxMessage, MaxBody}), 0, 40).Draw(t, "sizes")
		many := rapid.IntRange(0, 3*maxGroup).Draw(t, "small ones")
		var events [][]byte
		for _, n := range sizes {
			events = append(events, make([]byte, n))
		}
		for range many {
			events = append(events, []byte("{}"))
		}
		var joined [][]byte
		for _, m := range messages(events) {
			size := 0
			for _, e := range m {
				size += len(e) + 1
			}
			if len(m) > maxGroup || len(m) > 1 && size > maxMessage+len(m) {
				t.Fatalf("%d events of %d bytes in a message", len(m), size)
			}
			joined = append(joined, m...)
		}
		if !slices.EqualFunc(joined, events, func(a, b []byte) bool { return len(a) == len(b) }) {
			t.Fatalf("%d events, %d came out", len(events), len(joined))
		}
	})
}

// FuzzSplit: a body gives bounded events or a problem, and what a batch gives
// joins to the same array.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[{"a":1}, {"b":[2]}]`, "{}\n{}\n", `[`, `[{"a":"\ud800"}]`} {
		for shape := range 4 {
			f.Add(shape, []byte(s), "value%20")
		}
	}
	f.Fuzz(func(t *testing.T, n int, body []byte, header string) {
		s := shape(uint(n) % 4)
		h := http.Header{"Ce-Id": {header}, "Ce-Specversion": {"1.0"}, "Content-Type": {jsonType}}
		events, p := split(s, h, body)
		if p != nil {
			if p.status/100 != 4 || p.refusal.Code == "" {
				t.Fatalf("%+v", p)
			}
			return
		}
		if len(events) > MaxItems {
			t.Fatalf("%d events", len(events))
		}
		switch s {
		case array:
			joined := append(append([]byte{'['}, bytes.Join(events, []byte{','})...), ']')
			lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
			if !jsontext.Value(joined).IsValid(lenient...) {
				t.Fatalf("%q gives %q", body, events)
			}
		case binary:
			// The body cannot name attributes: those of the headers come first and
			// the data last.
			if len(events) != 1 || !strings.HasPrefix(string(events[0]), `{"specversion":"1.0","id":`) {
				t.Fatalf("%q gives %q", body, events)
			}
			members := 0
			dec := jsontext.NewDecoder(bytes.NewReader(events[0]), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
			if _, err := dec.ReadToken(); err != nil {
				t.Fatal(err)
			}
			for dec.PeekKind() == '"' {
				_, _ = dec.ReadToken()
				if err := dec.SkipValue(); err != nil {
					t.Fatalf("%q: %v", events[0], err)
				}
				members++
			}
			if members > 4 {
				t.Fatalf("%q has %d members", events[0], members)
			}
		}
	})
}
