package table

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// The tables that are not views.
const (
	Events  = "events"
	Foreign = "foreign_messages"
)

var foreignPlan = planOf[projector.Foreign]()

const absent = "the event has none, or its envelope cannot be read"

// eventColumns are those of the table Events, in the order in which EventRow fills them.
var eventColumns = []Column{
	{Name: "seq", Type: Int, Unit: "record number", Meaning: "place in the ledger, from 1"},
	{Name: "leaf", Type: Text, Unit: "hex", Meaning: "SHA-256 of 0x00 and the record's bytes: link of the chain and Merkle leaf"},
	{Name: "prev", Type: Text, Unit: "hex", Meaning: "leaf of the stored message before it; 64 zeros for the first"},
	{Name: "recorded_at", Type: Text, Unit: "RFC 3339, UTC", Meaning: "the logger's clock"},
	{Name: "recorded_at_ns", Type: Int, Nullable: true, Unit: "ns since 1970-01-01 UTC", Null: "it is beyond 1678 to 2262", Meaning: "the logger's clock"},
	{Name: "principal", Type: Text, Meaning: "role/name of the connection that published it"},
	{Name: "namespace", Type: Text, Meaning: common["namespace"]},
	{Name: "id", Type: Text, Nullable: true, Null: absent, Meaning: "the event's own id"},
	{Name: "source", Type: Text, Nullable: true, Null: absent, Meaning: "where it arose, by its author's word"},
	{Name: "type", Type: Text, Nullable: true, Null: absent, Meaning: "type of the event, such as claim.recorded; also one that this build does not know"},
	{Name: "version", Type: Int, Nullable: true, Null: absent, Meaning: "version of the type's schema"},
	{Name: "subject", Type: Text, Nullable: true, Null: absent, Meaning: "what it is about, by its author's word"},
	{Name: "time", Type: Text, Nullable: true, Unit: "RFC 3339", Null: absent, Meaning: "the event's own time as received; it orders nothing"},
	{Name: "time_ns", Type: Int, Nullable: true, Unit: "ns since 1970-01-01 UTC", Null: "time is NULL, cannot be read, or is beyond 1678 to 2262", Meaning: "the event's own time; it orders nothing"},
	{Name: "episodeid", Type: Text, Nullable: true, Null: absent, Meaning: common["episode_id"]},
	{Name: "sequence", Type: Text, Nullable: true, Unit: "decimal digits", Null: absent, Meaning: "the source's own number of the event"},
	{Name: "causationid", Type: Text, Nullable: true, Null: absent, Meaning: "id of the event that brought it about"},
	{Name: "correlationid", Type: Text, Nullable: true, Null: absent, Meaning: "id that events share which belong together"},
	{Name: "dataref", Type: Text, Nullable: true, Null: absent, Meaning: "hash of content that is stored beside the ledger"},
	{Name: "extensions", Type: JSON, Nullable: true, Null: "there are none", Meaning: "attributes of the envelope that have no column here, as received"},
	{Name: "data", Type: JSON, Nullable: true, Null: "the envelope cannot be read", Meaning: "the payload's bytes as received"},
	{Name: "unreadable", Type: Text, Nullable: true, Null: "the envelope can be read", Meaning: "why the envelope cannot be read"},
	{Name: "event_base64", Type: Text, Nullable: true, Unit: "base64", Null: "the envelope can be read, and the other columns hold all of it", Meaning: "the event's bytes as received"},
}

func eventTable() *Table {
	return &Table{Name: Events, Meaning: "A record of the ledger with its event.", Columns: slices.Clone(eventColumns)}
}

// EventRow lays a record out; the row has as many values as Of(Events) has columns.
func EventRow(row Row, r *ledger.Record) {
	clear(row)
	row[0], row[1], row[2] = int64(r.Seq), r.Leaf().String(), r.Prev.String()
	row[3], row[4], row[5], row[6] = ledger.FormatTime(r.RecordedAt), nanos(r.RecordedAt), r.Principal, r.Namespace
	e, err := events.DecodeEnvelope(r.Event)
	var rest any
	if err == nil {
		rest, err = extensions(r.Event)
	}
	if err != nil {
		row[21], row[22] = strings.ToValidUTF8(err.Error(), "\uFFFD"), base64.StdEncoding.EncodeToString(r.Event)
		return
	}
	row[7], row[8], row[9], row[10], row[11] = known(e.ID), known(e.Source), known(e.Type), int64(e.Version), known(e.Subject)
	row[12] = known(e.Time)
	if t, err := time.Parse(time.RFC3339Nano, e.Time); err == nil {
		row[13] = nanos(t)
	}
	row[14], row[15], row[16] = known(e.EpisodeID), known(e.Sequence), known(e.CausationID)
	row[17], row[18], row[19], row[20] = known(e.CorrelationID), known(e.DataRef), rest, string(e.RawData)
}

func known(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// extensions are the attributes of an envelope that are no column of Events
// and not the same for all events, as one object; nil when there are none.
func extensions(raw []byte) (any, error) {
	var b bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := tok.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if isColumn(name, value) {
			continue
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		sep := byte(',')
		if b.Len() == 0 {
			sep = '{'
		}
		b.WriteByte(sep)
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
	}
	if b.Len() == 0 {
		return nil, nil
	}
	b.WriteByte('}')
	return b.String(), nil
}

// isColumn says of an attribute that a row shows it, or that it says nothing.
func isColumn(name string, value jsontext.Value) bool {
	switch name {
	case "id", "source", "type", "subject", "time", "dataschema", "episodeid", "sequence", "causationid", "correlationid", "dataref", "data", "specversion":
		return true
	case "datacontenttype":
		return string(value) == `"`+events.ContentType+`"`
	}
	return false
}
