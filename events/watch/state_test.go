package watch

import (
	"fmt"
	"maps"
	"os"
	"testing"

	"pgregory.net/rapid"

	"assay/events"
)

// TestEventsLeadToTheTable: whatever a table goes through, who follows the events knows
// its contents and versions at each look, and there is one event of content for each row
// whose content changed, came or went.
func TestEventsLeadToTheTable(t *testing.T) {
	rows := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.Custom(func(t *rapid.T) row {
		r := row{Content: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content"), Meta: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "meta")}
		if n := rapid.Int64Range(0, 2).Draw(t, "version"); n > 0 {
			r.Version = &n
		}
		return r
	}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		s := state{Rows: map[string]row{}}
		content, before := map[string]string{}, map[string]row{}
		for range rapid.IntRange(1, 8).Draw(t, "looks") {
			now := rows.Draw(t, "rows")
			told, of := s.diff(now, rapid.Bool().Draw(t, "away")), map[string]int{}
			for _, d := range told {
				switch d := d.(type) {
				case *events.BeliefCreated:
					if _, known := content[d.BeliefID]; known {
						t.Fatalf("%s was created twice", d.BeliefID)
					}
					content[d.BeliefID] = d.ContentSHA256
					of[d.BeliefID]++
				case *events.BeliefRevised:
					if d.Change == changeContent {
						of[d.BeliefID]++
					} else if d.ContentSHA256 != content[d.BeliefID] {
						t.Fatalf("an edit of metadata changes %s to %s", d.BeliefID, d.ContentSHA256)
					}
					content[d.BeliefID] = d.ContentSHA256
				}
			}
			for _, id := range []string{"a", "b", "c", "d"} {
				was, had := before[id]
				is, has := now[id]
				want := 0
				if had != has || has && was.Content != is.Content {
					want = 1
				}
				if of[id] != want {
					t.Fatalf("%d events of the content of %s, from %v to %v", of[id], id, was, is)
				}
				if has && content[id] != is.Content || !has && content[id] != "" && content[id] != emptyContent {
					t.Fatalf("%s is told as %s, and is %v", id, content[id], is)
				}
			}
			before = maps.Clone(now)
			s.take(now)
			if again := s.diff(maps.Clone(before), false); len(again) > 0 {
				t.Fatalf("the same table has changed: %+v", again)
			}
		}
	})
}

// TestCrashBehindTheReceipt: what was sent and not noted is sent again, byte for byte.
func TestCrashBehindTheReceipt(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one")
	c := config(t, s.table(), l)
	for i := range 3 {
		s.insert(fmt.Sprint("b", i), "one")
	}
	w := mustOpen(t, c)
	if err := w.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(c.State)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	first := l.ids
	l.ids = nil
	if err := os.WriteFile(c.State, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	w = mustOpen(t, c)
	defer mustClose(t, w)
	once(t, w)
	if fmt.Sprint(l.ids) != fmt.Sprint(first) || len(first) != 3 {
		t.Errorf("sent again %v, first %v", l.ids, first)
	}
}
