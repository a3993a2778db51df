package view_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// TestImportsMoveNothingLive: beside each record of a busy ledger stands an import
// that says the same of the same ids, or a tick of the clock. What is live is the
// same in both in every view, whether imports came before or behind it.
func TestImportsMoveNothingLive(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("imported first %v", first), func(t *testing.T) {
			from := ledgertest.New()
			from.Mix(rand.New(rand.NewPCG(7, 7)), 8000)
			from.Put("harness/h", "bench/run-0", &events.EpisodeRecorded{Arm: ptr("full")}, ledgertest.Episode("e"), ledgertest.At(ledgertest.Start.AddDate(1, 0, 0)))
			with, without := liveRows(t, beside(t, from, first, true)), liveRows(t, beside(t, from, first, false))
			for _, kind := range view.Kinds() {
				if len(without[kind]) == 0 && !slices.Contains([]string{"blobs", "weeks"}, kind) {
					t.Errorf("the ledger has no %s", kind)
				}
				for i := range max(len(with[kind]), len(without[kind])) {
					if i >= len(with[kind]) || i >= len(without[kind]) || with[kind][i] != without[kind][i] {
						t.Errorf("%s: with imports %d, without %d, first\n%s\n%s", kind, len(with[kind]), len(without[kind]),
							at(with[kind], i), at(without[kind], i))
						break
					}
				}
			}
		})
	}
}

func at(rows []string, i int) string {
	if i < len(rows) {
		return rows[i]
	}
	return "none"
}

// beside is the ledger with another record before or behind each.
func beside(t *testing.T, from *ledgertest.Ledger, first, imported bool) *ledgertest.Ledger {
	t.Helper()
	last, err := from.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := ledgertest.New()
	for seq := ledger.Seq(1); seq <= last; seq++ {
		r, err := ledger.ParseRecord(from.Body(seq))
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(r.Event)
		if err != nil {
			t.Fatal(err)
		}
		other := func() {
			if role := projector.RoleOf(r.Principal); !imported || role == "logger" {
				to.Put("logger/main", "production", &events.ClockTicked{})
				return
			}
			e.Data.Common().Capture = ptr("imported")
			e.ID = to.NextID()[:35] + "f"
			raw, err := events.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			to.PutEvent(r.Principal, r.Namespace, raw)
		}
		if first {
			other()
		}
		to.PutEvent(r.Principal, r.Namespace, r.Event)
		if !first {
			other()
		}
	}
	return to
}

// liveRows are the rows of every kind that are not apart, but for what was seen by
// imports as well.
func liveRows(t *testing.T, l *ledgertest.Ledger) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	fold(t, l, func(s *projector.State) {
		for _, kind := range view.Kinds() {
			if kind == "blobs" || kind == "weeks" { // which say where records stand, and their hashes
				continue
			}
			for _, ns := range []string{prod, "canary", "bench/run-0", "bench/run-1"} {
				err := view.List(s, kind, ns, func(v any) error {
					switch v := v.(type) {
					case *view.ToolCall:
						v.SeenBy = slices.DeleteFunc(v.SeenBy, func(s view.Sighting) bool { return s.Witness == events.WitnessImported })
					case *view.EpisodeReport:
						v.Others = 0
					}
					raw, err := json.Marshal(v, json.Deterministic(true))
					if err != nil {
						return err
					}
					var row struct {
						Seq ledger.Seq `json:"seq"`
					}
					if err := json.Unmarshal(raw, &row); err != nil {
						return err
					}
					imported, err := view.IsImported(s, row.Seq)
					if text := string(raw); !imported && !strings.Contains(text, `~imported"`) && !strings.Contains(text, `"imported":true`) {
						out[kind] = append(out[kind], text)
					}
					return err
				})
				if err != nil {
					t.Fatal(kind, err)
				}
			}
		}
	})
	return out
}
