package logger

import (
	"bytes"
	"strings"
	"testing"

	"assay/internal/principal"
	"assay/schema"
)

func agentSource() *Source {
	return &Source{l: &Logger{}, principal: principal.Principal{Role: principal.Agent, Name: "piper", Namespace: "production"}, id: "agent/piper"}
}

func mustGolden(tb testing.TB, typ string) string {
	tb.Helper()
	raw, ok := schema.Example(typ)
	if !ok {
		tb.Fatalf("no example of %s", typ)
	}
	return string(raw)
}

// FuzzGoodBatch holds the one walk over a batch against the parser and the
// check of each event apart: what it accepts, they find too.
func FuzzGoodBatch(f *testing.F) {
	good, other := mustGolden(f, "claim.revised"), mustGolden(f, "tool.called")
	for _, s := range []string{
		`[]`, `[{}]`, `[` + good + `]`, `[` + good + `,` + other + `]`, "[ " + good + " ,\n\t" + other + " ] ", `[` + good + `] x`, `[` + good + `,]`,
		`[` + good, `[` + good + other + `]`, `[` + good + `,,` + other + `]`, `[,` + good + `]`, `[` + good + `,1]`, ` [` + good + `]`, `[` + good + `}`,
		`[` + strings.Replace(good, `"data"`, `"data":{},"data"`, 1) + `]`, `[` + mustGolden(f, "clock.ticked") + `]`,
	} {
		f.Add([]byte(s))
	}
	s := agentSource()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		items, ok := s.goodBatch(raw)
		if !ok {
			return
		}
		parts, why := splitBatch(raw)
		if why != nil {
			t.Fatalf("the parser refuses %q: %s", raw, why.Message)
		}
		if len(parts) != len(items) {
			t.Fatalf("%d events, the parser finds %d in %q", len(items), len(parts), raw)
		}
		for i, it := range items {
			apart := s.check(parts[i])
			if !bytes.Equal(it.raw, apart.raw) || it.checked != apart.checked || (it.refused == nil) != (apart.refused == nil) {
				t.Fatalf("event %d of %q is %+v, apart %+v", i, raw, it, apart)
			}
		}
	})
}

func TestGoodBatch(t *testing.T) {
	s := agentSource()
	good, forbidden := mustGolden(t, "claim.revised"), mustGolden(t, "clock.ticked")
	items, ok := s.goodBatch([]byte("[" + good + " ,\n" + forbidden + "]"))
	if !ok || len(items) != 2 || string(items[0].raw) != good || string(items[1].raw) != forbidden {
		t.Fatalf("%d items, %v", len(items), ok)
	}
	if items[0].refused != nil || items[1].refused == nil || items[1].refused.Code != CodeForbiddenType {
		t.Errorf("refused: %v and %v", items[0].refused, items[1].refused)
	}
	for _, raw := range []string{
		`[]`, `[1]`, `[{}]`, `[`, `[` + good, `[` + good + `,]`, `[` + good + `]]`, `[` + good + good + `]`, `[` + good + `}`, `[` + good + `,{}]`,
		`[` + strings.Repeat(good+",", maxItems) + good + `]`,
	} {
		if items, ok := s.goodBatch([]byte(raw)); ok {
			t.Errorf("%.80s… is taken as %d good events", raw, len(items))
		}
	}
	if items, ok := s.goodBatch([]byte(`[` + strings.Repeat(good+",", maxItems-1) + good + `]`)); !ok || len(items) != maxItems {
		t.Errorf("the largest batch: %d events, %v", len(items), ok)
	}
}
