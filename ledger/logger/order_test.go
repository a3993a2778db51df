package logger_test

import (
	"bytes"
	"slices"
	"testing"

	"assay/internal/principal"
)

// TestIDsInAnyOrder publishes ids that fall and rise: however the index is
// spared, an id is taken once, before and after a restart.
func TestIDsInAnyOrder(t *testing.T) {
	h := newHouse(t)
	raws := gates(t, 9)
	slices.Reverse(raws[:4])
	slices.Reverse(raws[2:8])
	other := func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"KNOW"`), []byte(`"ASK"`), 1) }
	s := h.start()
	first := make([]answer, len(raws))
	for i, raw := range raws {
		first[i] = s.must(principal.Agent, raw)
	}
	check := func() {
		t.Helper()
		for i, raw := range raws {
			if again := s.must(principal.Agent, raw); again.Leaf != first[i].Leaf {
				t.Errorf("event %d was taken twice", i)
			}
			s.mustRefuse(principal.Agent, other(raw), "conflict")
		}
	}
	check()
	s.stop()
	s = h.start()
	check()
	s.stop()
}
