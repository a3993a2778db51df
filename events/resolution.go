package events

import "time"

// AmendableFor is how long after its resolution, by ledger time, a prediction can
// be amended; later amendments are notes without effect.
const AmendableFor = 7 * 24 * time.Hour

// CutTime is the ledger time of the record that brought a resolution or an
// amendment about, which is the event's own time. recordedAt is that of the event's
// record: in between lies however long the resolver was down. A time that cannot
// be read, or lies behind the record, gives way to it.
func CutTime(e *Event, recordedAt time.Time) time.Time {
	if t, ok := Time(&e.Time); ok && t.Before(recordedAt) {
		return t.UTC()
	}
	return recordedAt
}

// TooLate says that an amendment comes after AmendableFor, both by CutTime: what
// the resolver found in time counts whenever it is recorded.
func TooLate(resolved, amended time.Time) bool { return amended.After(resolved.Add(AmendableFor)) }

// IsReport says that a ruling rests on what somebody reported, for telemetry left
// the prediction unknown. A report is no independent evidence.
func (r ResolverIdentity) IsReport() bool { return r.Kind == "operator" || r.Kind == "sandbox" }
