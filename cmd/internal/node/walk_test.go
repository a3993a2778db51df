package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
	"assay/projector/ledgertest"
	"assay/projector/ui"
)

// signs is a checkpoint over the first n records of a book, which need no signature
// here.
func signs(l *ledgertest.Ledger, n ledger.Seq) ledger.SignedCheckpoint {
	var tree ledger.Tree
	for seq := ledger.Seq(1); seq <= n; seq++ {
		tree.Append(ledger.Leaf(l.Body(seq)))
	}
	return ledger.SignedCheckpoint{Checkpoint: ledger.Checkpoint{Size: uint64(n), Root: tree.Root()}, Raw: []byte("note")}
}

func bookOf(n int) *ledgertest.Ledger {
	l := ledgertest.New()
	for range n {
		l.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"})
	}
	return l
}

func TestWalk(t *testing.T) {
	l := bookOf(700)
	cp := signs(l, 650)
	w := startWalk(t.Context(), bookEvidence{l}, func() (ledger.SignedCheckpoint, error) { return cp, nil }, zerolog.Nop())
	defer w.stop()
	eventually(t, "the checkpoint is found good", func() bool { _, matched, _ := w.state(); return matched == 650 })
	for _, seq := range []ledger.Seq{1, 256, 257, 600, 650} {
		p, err := w.prove(t.Context(), seq)
		if err != nil || string(p.Checkpoint) != "note" || string(p.Body) != string(l.Body(seq)) {
			t.Errorf("record %d: %v", seq, err)
		}
	}
	if _, err := w.prove(t.Context(), 651); !errors.Is(err, ErrNotSigned) {
		t.Errorf("a record behind the checkpoint: %v", err)
	}
}

func TestWalkFindsFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cp    ledger.SignedCheckpoint
		skip  ledger.Seq // is missing
		fault string
	}{
		{"another root", ledger.SignedCheckpoint{Checkpoint: ledger.Checkpoint{Size: 650, Root: ledger.Hash{1}}, Raw: []byte("note")}, 0, "signs root"},
		{"a record is missing", signs(bookOf(700), 650), 300, "records 300 to 300 are missing"},
	} {
		l := bookOf(700)
		w := startWalk(t.Context(), gapped{bookEvidence{l}, tt.skip}, func() (ledger.SignedCheckpoint, error) { return tt.cp, nil }, zerolog.Nop())
		eventually(t, tt.name, func() bool { _, _, fault := w.state(); return strings.Contains(fault, tt.fault) })
		if _, matched, _ := w.state(); matched != 0 {
			t.Errorf("%s: %d records match all the same", tt.name, matched)
		}
		w.stop()
	}
}

// gapped leaves a record out.
type gapped struct {
	Evidence
	skip ledger.Seq
}

func (g gapped) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return g.Evidence.Read(ctx, from, to, func(seq ledger.Seq, body []byte) error {
		if seq == g.skip {
			return nil
		}
		return fn(seq, body)
	})
}

// What is thinned out keeps its peaks, its order and its ends' neighbourhood.
func TestThin(t *testing.T) {
	for _, n := range []int{1, 999, 1000, 1001, 12345} {
		var points []ui.Point
		for i := range n {
			points = append(points, ui.Point{At: time.Unix(int64(i), 0), Value: float64(i % 7)})
		}
		points[n/2].Value, points[n/3].Value = 1e9, -1e9
		got := thin(slices.Clone(points), 1000)
		if len(got) > 1002 || n <= 1000 && len(got) != n {
			t.Errorf("%d of %d points", len(got), n)
		}
		if !slices.IsSortedFunc(got, func(a, b ui.Point) int { return a.At.Compare(b.At) }) {
			t.Errorf("%d points are out of order", n)
		}
		if n > 3 && (!slices.Contains(got, points[n/2]) || !slices.Contains(got, points[n/3])) {
			t.Errorf("a peak of %d points is lost", n)
		}
	}
}
