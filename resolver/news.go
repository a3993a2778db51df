package resolver

import (
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"assay/events"
	"assay/ledger"
)

// news is what records say of others: a fold must know it beforehand. A first fold
// has news of each prediction of the whole ledger, so that they are kept tight.
type news struct {
	foreign    map[ledger.Seq]bool
	stored     table[uuid.UUID, storedEvent] // armed, resolved and amended events, and rollbacks, by their ids
	registries []string                      // hashes that those name
	reached    time.Time                     // cut of the last stored event that a fold called for
	stepped    bool                          // the clock was, and cuts say little of the time between them
}

// storedEvent is what there is to know of a stored event.
type storedEvent struct {
	sum      [16]byte // of its bytes, the first half of their SHA-256
	second   int64    // of its cut, from the Unix epoch
	nano     uint32
	registry uint32 // which it names, of registries; none for others than armed and resolved
	resolved bool   // it is a resolution
	final    bool   // which stands whenever it was made: void, or another engine's
}

const none = math.MaxUint32

func newNews() news { return news{foreign: make(map[ledger.Seq]bool)} }

// sumOf is what news keeps of an event's bytes, to see whether others are the same.
func sumOf(event []byte) (sum [16]byte) {
	whole := sha256.Sum256(event)
	copy(sum[:], whole[:])
	return sum
}

// uuidOf is the id as news holds it; what is no UUID is not in there.
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
	if ev, err = events.Decode(rec.Event); err != nil || role == "resolver" && ev.Data.Common().IsImported() {
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
			n.stored.put(uuidOf(ev.ID), storedEvent{sum: sumOf(rec.Event), registry: none})
		}
	default:
		if role == "resolver" {
			n.learnOwn(ev, rec)
		}
	}
}

// learnOwn notes an event that a fold called for.
func (n *news) learnOwn(ev *events.Event, rec ledger.Record) {
	t := storedEvent{sum: sumOf(rec.Event), registry: none}
	if cut, ok := events.Time(&ev.Time); ok {
		t.second, t.nano = cut.Unix(), uint32(cut.Nanosecond())
		if cut.After(n.reached) {
			n.reached = cut
		}
		switch d := ev.Data.(type) {
		case *events.PredictionArmed:
			t.registry = n.registry(d.RegistrySHA256)
		case *events.PredictionResolved:
			t.registry = n.registry(d.RegistrySHA256)
			t.resolved, t.final = true, d.Verdict == Void || d.Engine != Engine
		}
	}
	n.stored.put(uuidOf(ev.ID), t)
}

// registry is the place of a hash among those that events name.
func (n *news) registry(sha256 string) uint32 {
	i := slices.Index(n.registries, sha256)
	if i < 0 {
		i = len(n.registries)
		n.registries = append(n.registries, strings.Clone(sha256))
	}
	return uint32(i)
}

// find is what there is to know of the stored event of an id.
func (n *news) find(id string) (storedEvent, bool) {
	if i, ok := n.stored.find(uuidOf(id)); ok {
		return n.stored.at(i).value, true
	}
	return storedEvent{}, false
}

// pinned implements MachineConfig.Pinned.
func (n *news) pinned(id string) (sha256 string, ok bool) {
	if t, ok := n.find(id); ok && t.registry != none {
		return n.registries[t.registry], true
	}
	return "", false
}

// isFinal says that a stored resolution stands for good, so that its prediction
// need not be evaluated again: it is none that this engine amends, or the ledger
// has what was called for at records more than events.AmendableFor later, and so all
// that could have been called for in between.
func (n *news) isFinal(resolvedID string) bool {
	t, ok := n.find(resolvedID)
	return ok && t.resolved && (t.final || !n.stepped && events.TooLate(time.Unix(t.second, int64(t.nano)).UTC(), n.reached))
}
