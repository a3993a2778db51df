// Package events holds the events of the ledger: the CloudEvents 1.0 envelope,
// one Go type for each payload, and the strict codec between them and bytes.
//
// The JSON Schemas in package schema are the source of truth; the types here
// are how readers of the ledger see what those schemas let in.
package events

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Event is one decoded CloudEvents 1.0 event.
type Event struct {
	ID            string
	Source        string
	Type          string
	Subject       string
	Time          string // RFC 3339, as received; never orders anything
	DataSchema    string
	EpisodeID     string
	Sequence      string // decimal digits; "" when absent
	CausationID   string
	CorrelationID string
	DataRef       string
	Version       int // of the type's schema, from DataSchema

	RawData jsontext.Value // the data member's bytes as received
	Data    Payload
}
