// Package eventstest makes events for tests.
package eventstest

import "assay/events"

// TB is a test, or one round of a property.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Encode is an event with a payload, as it is sent.
func Encode(tb TB, p events.Payload) []byte {
	tb.Helper()
	ev, err := events.Maker{Source: "urn:test"}.New(p)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := events.Encode(ev)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// Gate is a small event that every agent may send.
func Gate(tb TB) []byte {
	tb.Helper()
	return Encode(tb, &events.GateChosen{Action: "KNOW"})
}
