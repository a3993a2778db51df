package resolver

import (
	"crypto/sha256"
	"strings"
	"time"
	"unique"

	"github.com/google/uuid"

	"assay/events"
	"assay/ledger"
)

// news is what records say of others: a fold must know it beforehand.
type news struct {
	foreign map[ledger.Seq]bool
	pins    map[uuid.UUID]string      // id of an armed or resolved event → registry hash
	stored  map[uuid.UUID]ledger.Hash // id of an armed, resolved or amended event → SHA-256 of its bytes
	known   map[uuid.UUID]knownResolution
	reached time.Time // cut of the last stored event that a fold called for
	stepped bool      // the clock was, and cuts say little of the time between them
}

// knownResolution is a stored resolution.
type knownResolution struct {
	cut   time.Time
	final bool // whenever it was made: void, or another engine's
}

func newNews() news {
	return news{
		foreign: make(map[ledger.Seq]bool), pins: make(map[uuid.UUID]string),
		stored: make(map[uuid.UUID]ledger.Hash), known: make(map[uuid.UUID]knownResolution),
	}
}

// uuidOf is the id as the maps hold it; what is no UUID is in none of them.
func uuidOf(id string) uuid.UUID {
	u, err := uuid.Parse(id)
	if err != nil {
		return uuid.Nil
	}
	return u
}

// learn notes what a record says of others: that they are foreign, and that a
// prediction is armed, resolved or amended, or a canary rolled back, already.
func (n *news) learn(body []byte) {
	rec, err := ledger.ParseRecord(body)
	if err != nil {
		return // the fold judges it
	}
	role, _, _ := strings.Cut(rec.Principal, "/")
	if role != "operator" && role != "resolver" && role != "logger" {
		return
	}
	ev, err := events.DecodeEnvelope(rec.Event)
	if err != nil {
		return
	}
	switch ev.Type {
	case events.TypeForeignAcknowledged, events.TypeClockStepped, events.TypePredictionArmed, events.TypePredictionResolved,
		events.TypePredictionResolutionAmended, events.TypeRollbackTriggered:
	default:
		return
	}
	if ev, err = events.Decode(rec.Event); err != nil {
		return
	}
	switch d := ev.Data.(type) {
	case *events.ForeignAcknowledged:
		if role == "operator" && d.Seq < uint64(rec.Seq) {
			n.foreign[ledger.Seq(d.Seq)] = true
		}
	case *events.ClockStepped:
		n.stepped = true
	case *events.RollbackTriggered:
		if role == "resolver" {
			n.stored[uuidOf(ev.ID)] = sha256.Sum256(rec.Event)
		}
	default:
		if role == "resolver" {
			n.learnOwn(ev, rec)
		}
	}
}

// learnOwn notes an event that a fold called for.
func (n *news) learnOwn(ev *events.Event, rec ledger.Record) {
	id := uuidOf(ev.ID)
	n.stored[id] = sha256.Sum256(rec.Event)
	cut, ok := events.Time(&ev.Time)
	if !ok {
		return
	}
	if cut.After(n.reached) {
		n.reached = cut
	}
	switch d := ev.Data.(type) {
	case *events.PredictionArmed:
		n.pins[id] = unique.Make(d.RegistrySHA256).Value()
	case *events.PredictionResolved:
		n.pins[id] = unique.Make(d.RegistrySHA256).Value()
		n.known[id] = knownResolution{cut, d.Verdict == Void || d.Engine != Engine}
	}
}

// pinned implements MachineConfig.Pinned.
func (n *news) pinned(id string) (sha256 string, ok bool) {
	sha256, ok = n.pins[uuidOf(id)]
	return sha256, ok
}

// isFinal says that a stored resolution stands for good, so that its prediction
// need not be evaluated again: it is none that this engine amends, or the ledger
// has what was called for at records more than events.AmendableFor later, and so all
// that could have been called for in between.
func (n *news) isFinal(resolvedID string) bool {
	k, ok := n.known[uuidOf(resolvedID)]
	return ok && (k.final || !n.stepped && events.TooLate(k.cut, n.reached))
}
