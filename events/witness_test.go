package events

import "testing"

func TestWitnessOf(t *testing.T) {
	for _, tc := range []struct {
		role    string
		capture string
		want    string
	}{
		{"dispatcher", "", WitnessDispatcher},
		{"dispatcher", "live", WitnessDispatcher},
		{"dispatcher", WitnessHook, WitnessHook},
		{"dispatcher", WitnessOTLP, WitnessOTLP},
		{"dispatcher", WitnessImported, WitnessImported},
		{"harness", "live", WitnessDispatcher},
		{"harness", WitnessHook, WitnessHook},
		{"agent", "", WitnessAgent},
		{"agent", WitnessHook, WitnessAgent}, // an agent that says so is still an agent
		{"agent", WitnessOTLP, WitnessAgent},
		{"agent", WitnessImported, WitnessImported},
		{"operator", "live", WitnessAgent},
	} {
		c := &Context{Capture: &tc.capture}
		if tc.capture == "" {
			c.Capture = nil
		}
		if got := WitnessOf(tc.role, c); got != tc.want {
			t.Errorf("%s, %q: %s, want %s", tc.role, tc.capture, got, tc.want)
		}
	}
	for i, w := range []string{WitnessDispatcher, WitnessHook, WitnessOTLP, WitnessAgent, WitnessImported} {
		if got := WitnessRank(w); got != i {
			t.Errorf("%s has rank %d, want %d", w, got, i)
		}
	}
}
