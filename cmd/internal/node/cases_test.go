package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/events"
	"assay/events/publish"
	"assay/ledger/logger"
	"assay/projector/view"
	"assay/schema"
)

const hash64 = "c528cab03ad47ed5fceb01fd4f4557f12d8f2bcb2aa9f6e78087380aab8fde5f"

// caseBook stands in for views and intake.
type caseBook struct {
	found   map[string]view.Found
	written []string         // types, in order; "store" for an oracle
	ids     map[string]bool  // of events
	answer  *publish.Refusal // to every event; nil takes them
}

func (b *caseBook) cases(t *testing.T) Cases {
	return Cases{
		As: "harness/main",
		Find: func(id string) (view.Found, error) {
			if f, ok := b.found[id]; ok {
				return f, nil
			}
			return view.Found{}, fmt.Errorf("%w: %s", ErrNotFound, id)
		},
		Publish: func(_ context.Context, batch [][]byte) ([]publish.Answer, error) {
			out := make([]publish.Answer, len(batch))
			for i, raw := range batch {
				checked, fault := schema.Check(raw)
				if fault != nil {
					t.Fatalf("%v in %s", fault, raw)
				}
				ev, err := events.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if b.ids[ev.ID] {
					t.Errorf("the id %s is used twice", ev.ID)
				}
				b.ids[ev.ID] = true
				b.written = append(b.written, checked.Type)
				out[i].Refusal = b.answer
			}
			return out, nil
		},
	}
}

func newBook() *caseBook { return &caseBook{found: map[string]view.Found{}, ids: map[string]bool{}} }

func caseID(i int) string { return fmt.Sprintf("%024x", i) }

func someCases(n int) (*events.CohortOpened, []*events.CaseCommitted) {
	opened := &events.CohortOpened{CohortID: "k", Split: "validation"}
	var cases []*events.CaseCommitted
	for i := range n {
		opened.Worlds = append(opened.Worlds, caseID(1000+i))
		cases = append(cases, &events.CaseCommitted{CaseID: caseID(i), CohortID: "k", Split: "validation", PublicSHA256: hash64, OracleSHA256: hash64})
	}
	return opened, cases
}

func TestCommitCases(t *testing.T) {
	b := newBook()
	opened, cases := someCases(150)
	got, err := b.cases(t).Commit(t.Context(), opened, cases)
	if err != nil || got != (CasesWritten{Cohort: "k", Opened: true, Written: 150}) || len(b.written) != 151 || b.written[0] != events.TypeCohortOpened {
		t.Errorf("%+v, %v, %d events", got, err, len(b.written))
	}
	// The ledger has them, and the views do not know it yet.
	again := newBook()
	again.answer = &publish.Refusal{Code: string(logger.CodeConflict)}
	if got, err := again.cases(t).Commit(t.Context(), opened, cases); err != nil || got.Written != 150 {
		t.Errorf("%+v, %v", got, err)
	}
	for id := range again.ids {
		if !b.ids[id] {
			t.Errorf("a repeat has the new id %s", id)
		}
	}
	refused := newBook()
	refused.answer = &publish.Refusal{Code: "forbidden_type"}
	if _, err := refused.cases(t).Commit(t.Context(), opened, cases); err == nil || !strings.Contains(err.Error(), "forbidden_type") {
		t.Error(err)
	}
	// What was imported from elsewhere commits to nothing here.
	imported := newBook()
	imported.found[caseID(0)] = view.Found{Cases: []view.Case{{CaseID: caseID(0), Imported: true, Committed: &view.CaseCommitment{}}}}
	if got, err := imported.cases(t).Commit(t.Context(), opened, cases); err != nil || got.Written != 150 {
		t.Errorf("%+v, %v", got, err)
	}
	lost := errors.New("lost")
	failing := newBook().cases(t)
	failing.Find = func(string) (view.Found, error) { return view.Found{}, lost }
	if _, err := failing.Commit(t.Context(), opened, cases); !errors.Is(err, lost) {
		t.Error(err)
	}
}

// Unless all cases may be opened, none is, and no oracle leaves the private part.
func TestRevealCases(t *testing.T) {
	committed := func(cohort, split, oracle string) *view.CaseCommitment {
		return &view.CaseCommitment{Seq: 9, CohortID: cohort, Split: split, PublicSHA256: hash64, OracleSHA256: oracle}
	}
	cohort := func(split string, retired bool) view.Found {
		c := view.Cohort{CohortID: "k", Opened: &view.CohortOpening{Cohort: &events.CohortOpened{CohortID: "k", Split: split}}}
		if retired {
			c.Retired = &view.CohortEnd{Seq: 12}
		}
		return view.Found{Cohorts: []view.Cohort{c}}
	}
	other := strings.Repeat("0", 64)
	for name, tc := range map[string]struct {
		cohort view.Found
		second view.Case // the first is as it should be
		want   error
		stored int
	}{
		"retired":                {cohort("validation", true), view.Case{Committed: committed("k", "validation", hash64)}, nil, 2},
		"dev":                    {cohort("dev", false), view.Case{Committed: committed("k", "dev", hash64)}, nil, 2},
		"one was open":           {cohort("dev", false), view.Case{Committed: committed("k", "dev", hash64), Revealed: &view.CaseOpening{Salt: hash64, OracleRef: "sha256:" + hash64}}, nil, 1},
		"not retired":            {cohort("validation", false), view.Case{Committed: committed("k", "validation", hash64)}, ErrSealed, 0},
		"dev of its own":         {cohort("final", false), view.Case{Committed: committed("k", "dev", hash64)}, ErrSealed, 0},
		"nobody opened it":       {view.Found{}, view.Case{Committed: committed("k", "final", hash64)}, ErrSealed, 0},
		"dev that nobody opened": {view.Found{}, view.Case{Committed: committed("k", "dev", hash64)}, ErrSealed, 0},
		"another oracle":         {cohort("dev", false), view.Case{Committed: committed("k", "dev", other)}, ErrOtherwise, 0},
		"not committed":          {cohort("dev", false), view.Case{}, ErrOtherwise, 0},
		"opened as something":    {cohort("dev", false), view.Case{Committed: committed("k", "dev", hash64), Revealed: &view.CaseOpening{Salt: other}}, ErrOtherwise, 0},
	} {
		b := newBook()
		if len(tc.cohort.Cohorts) > 0 {
			b.found["k"] = tc.cohort
		}
		split := "dev"
		if tc.second.Committed != nil {
			split = tc.second.Committed.Split
		}
		b.found[caseID(0)] = view.Found{Cases: []view.Case{{Committed: committed("k", split, hash64)}}}
		b.found[caseID(1)] = view.Found{Cases: []view.Case{tc.second}}
		var cases []Opening
		for i := range 2 {
			cases = append(cases, Opening{&events.CaseRevealed{CaseID: caseID(i), Salt: hash64, OracleRef: "sha256:" + hash64}, []byte("oracle")})
		}
		got, err := b.cases(t).Reveal(t.Context(), []string{hash64, hash64}, cases, func([]byte) error {
			b.written = append(b.written, "store")
			return nil
		})
		// Oracles first.
		want := append(slices.Repeat([]string{"store"}, tc.stored), slices.Repeat([]string{events.TypeCaseRevealed}, tc.stored)...)
		if !errors.Is(err, tc.want) || !slices.Equal(b.written, want) || got.Written != tc.stored {
			t.Errorf("%s: %+v, %v, %v", name, got, err, b.written)
		}
	}
}
