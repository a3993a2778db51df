package view_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func edges(t *testing.T, s *projector.State, q view.GraphQuery) (out []string) {
	t.Helper()
	if err := view.ListGraph(s, prod, q, func(e *view.GraphEdge) error {
		out = append(out, fmt.Sprintf("%s>%s %s@%d", e.Cause, e.Effect, str(e.Status), e.Seq))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func str(s *string) string {
	if s == nil {
		return "?"
	}
	return *s
}

// TestGraphAsOf: what the graph held is answered for every record, whatever
// became of the edge since.
func TestGraphAsOf(t *testing.T) {
	l := ledgertest.New()
	write := func(who, op string, d events.GraphWritten) ledger.Seq {
		d.Op = op
		return l.Put(who, prod, &d)
	}
	one := func(status string) events.GraphWritten {
		return events.GraphWritten{EdgeID: ptr("e1"), Cause: "leak", Effect: "oom", Status: ptr(status)}
	}
	write(dispatcher, "add", one("asserted"))                                                                    // 1
	write(dispatcher, "add", events.GraphWritten{Cause: "leak", Effect: "oom"})                                  // 2: another edge, without an id
	write(piper, "update", one("tested"))                                                                        // 3: by her own word
	write(dispatcher, "update", events.GraphWritten{EdgeID: ptr("e1"), Cause: "leak", Effect: "swap"})           // 4: has other ends from here on
	write(dispatcher, "remove", events.GraphWritten{EdgeID: ptr("e1"), Cause: "leak", Effect: "swap"})           // 5
	write(dispatcher, "add", events.GraphWritten{Cause: "leak", Effect: "oom", Polarity: ptr("")})               // 6: "" is not null
	write(dispatcher, "update", events.GraphWritten{EdgeID: ptr("old"), Cause: "disk", Effect: "lag"})           // 7: of before the ledger
	l.Put(dispatcher, "sandbox", &events.GraphWritten{Op: "add", Cause: "leak", Effect: "oom", Scope: ptr("x")}) // 8: no matter of production
	write(resolver, "add", events.GraphWritten{Cause: "x", Effect: "y"})                                         // 9: no logger takes that
	fold(t, l, func(s *projector.State) {
		for _, tt := range []struct {
			q    view.GraphQuery
			want string
		}{
			{view.GraphQuery{At: 1}, "[leak>oom asserted@1]"},
			{view.GraphQuery{At: 3}, "[leak>oom tested@3 leak>oom ?@2]"},
			{view.GraphQuery{At: 4}, "[leak>swap tested@4 leak>oom ?@2]"}, // an update says nothing of the status
			{view.GraphQuery{At: 5}, "[leak>oom ?@2]"},
			{view.GraphQuery{}, "[disk>lag ?@7 leak>oom ?@2 leak>oom ?@6]"},
			{view.GraphQuery{At: 3, Cause: "leak", Effect: "oom"}, "[leak>oom tested@3 leak>oom ?@2]"},
			{view.GraphQuery{At: 4, Cause: "leak", Effect: "oom"}, "[leak>oom ?@2]"},
			{view.GraphQuery{At: 4, Cause: "leak", Effect: "swap"}, "[leak>swap tested@4]"},
			{view.GraphQuery{Cause: "leak", Effect: "swap"}, "[]"},
			{view.GraphQuery{At: 4, Effect: "swap"}, "[leak>swap tested@4]"},
			{view.GraphQuery{Cause: "disk"}, "[disk>lag ?@7]"},
			{view.GraphQuery{Cause: "oom", Effect: "leak"}, "[]"}, // a direction is part of the answer
		} {
			if got := fmt.Sprint(edges(t, s, tt.q)); got != tt.want {
				t.Errorf("%+v: %s, want %s", tt.q, got, tt.want)
			}
		}
		if err := view.ListGraph(s, prod, view.GraphQuery{At: 10}, nil); !errors.Is(err, projector.ErrAhead) {
			t.Errorf("a record that is not there yet: %v", err)
		}
		e := must[[]view.FoundEdge](t)(view.FindEdge(s, "e1"))[0]
		if e.Present || e.Writes != 4 || len(e.History) != 4 || !e.History[1].SelfReported || e.History[1].ObservedSeq != 1 || e.ObservedSeq != 5 {
			t.Errorf("%+v", e)
		}
		if !must[[]view.FoundEdge](t)(view.FindEdge(s, "old"))[0].Unadded {
			t.Error("an update of an edge that nobody added is not flagged")
		}
		if o := orphans(t, s, view.Graph, prod); !slices.Equal(o, []string{"7 old unknown"}) {
			t.Errorf("orphans %v", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"graph/9"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestGraphProvenance: where both say something the block holds, an update leaves
// what it does not say, and an add says everything anew.
func TestGraphProvenance(t *testing.T) {
	l := ledgertest.New()
	d := events.GraphWritten{
		Op: "add", EdgeID: ptr("e"), Cause: "a", Effect: "b", Scope: ptr("host"), ObservedAt: ptr("2026-10-01T00:00:00Z"), ContraryIDs: []string{"x"},
		Provenance: &events.Provenance{
			Origin: ptr("derived"), Scope: ptr("cluster"), Freshness: &events.Freshness{ObservedAt: ptr("2026-10-02T00:00:00Z")},
			Support: &events.Support{Against: []string{"y", "z"}},
		},
	}
	l.Put(dispatcher, prod, &d)
	l.Put(dispatcher, prod, &events.GraphWritten{Op: "update", EdgeID: ptr("e"), Cause: "a", Effect: "b", Scope: ptr("rack")})
	l.Put(dispatcher, prod, &events.GraphWritten{Op: "add", EdgeID: ptr("e"), Cause: "a", Effect: "b"})
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListGraphWrites(s, prod, func(e *view.GraphEdge) error {
			got = append(got, fmt.Sprint(str(e.Scope), " ", str(e.ObservedAt), " ", e.ContraryIDs, " ", e.Provenance != nil))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := []string{"cluster 2026-10-02T00:00:00Z [y z] true", "rack 2026-10-02T00:00:00Z [y z] true", "? ? [] false"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
