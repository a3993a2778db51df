// Package calls joins what several witnesses tell of one tool call, as a fold over the
// ledger meets it.
//
// A call is one for each namespace, episode and tool_call_id, and the record of its best
// witness counts whole (events.WitnessOf); a record that names no episode is of the call
// that had the id first. An agent's own word of a call and what was imported are not
// heard. Of one witness the first record counts; but where it gives the id to another
// tool or target that is another call, and the records that follow tell of that one, for
// whoever chooses the ids must not be able to hide one act behind another.
//
// A call is known until its first record is as old as the log keeps them, or MaxCalls
// others have come: a record of it that comes later tells of a call of its own.
package calls

import (
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
)

// MaxCalls is how many calls are known at most.
const MaxCalls = 50_000

// Call is a tool call as the best witness so far tells it. The zero Call is one that
// nobody told of.
type Call struct {
	Namespace string     `json:"namespace"`
	Episode   string     `json:"episode,omitzero"`
	ID        string     `json:"id"`
	First     ledger.Seq `json:"first"` // its first record, which is what it is known by
	At        time.Time  `json:"at"`    // ledger time of that
	Seq       ledger.Seq `json:"seq"`   // the record that counts
	Witness   string     `json:"witness"`
	Tool      string     `json:"tool"`
	Target    string     `json:"target,omitzero"` // "" without one
	Status    string     `json:"status"`
}

// Succeeded says that the call did what it was to do.
func (c *Call) Succeeded() bool { return c.Status == "ok" }

// Ran says that the call was let run, whatever came of it.
func (c *Call) Ran() bool { return c.Seq != 0 && c.Status != "denied" }

// Log knows the calls of the last while. It is not safe for concurrent use.
type Log struct {
	keep   time.Duration
	list   []*Call            // by First
	byID   map[callID][]*Call // by First
	latest map[callKey]*Call
}

type callID struct{ namespace, id string }

type callKey struct {
	callID
	episode string // "" of a call of which no record names one
}

func (c *Call) key() callKey { return callKey{callID{c.Namespace, c.ID}, c.Episode} }

// NewLog is a log that knows a call for as long as keep, in ledger time, and those
// that another log had listed.
func NewLog(keep time.Duration, known []Call) *Log {
	l := &Log{keep: keep, byID: make(map[callID][]*Call), latest: make(map[callKey]*Call)}
	for _, c := range known {
		c.At = c.At.UTC()
		l.add(&c)
	}
	return l
}

// List is the calls that are known, in the order of their first records.
func (l *Log) List() []Call {
	out := make([]Call, len(l.list))
	for i, c := range l.list {
		out[i] = *c
	}
	return out
}

// Hear takes a record of a call; now is ledger time. It returns the call as it is told
// from now on and as it was before, the zero Call for one that is new; ok is false for a
// record that changes nothing.
func (l *Log) Hear(rec *ledger.Record, now time.Time, ev *events.Event, d *events.ToolCalled) (call, before Call, ok bool) {
	l.forget(now)
	role, _, _ := strings.Cut(rec.Principal, "/")
	witness := events.WitnessOf(role, &d.Context)
	if events.WitnessRank(witness) >= events.WitnessRank(events.WitnessAgent) {
		return Call{}, Call{}, false
	}
	told := Call{
		Namespace: rec.Namespace, Episode: ev.EpisodeID, ID: d.ToolCallID, First: rec.Seq, At: now,
		Seq: rec.Seq, Witness: witness, Tool: d.Tool, Status: d.Status,
	}
	if d.Target != nil {
		told.Target = *d.Target
	}
	c := l.find(&told)
	if c == nil {
		l.add(&told)
		return told, Call{}, true
	}
	before = *c
	l.join(c, told.Episode)
	if events.WitnessRank(witness) >= events.WitnessRank(c.Witness) {
		return Call{}, Call{}, false
	}
	c.Seq, c.Witness, c.Tool, c.Target, c.Status = told.Seq, told.Witness, told.Tool, told.Target, told.Status
	return *c, before, true
}

// find is the call that a record tells of; nil for a new one.
func (l *Log) find(told *Call) *Call {
	key := told.key()
	c := l.latest[key]
	if c == nil {
		if all := l.byID[key.callID]; len(all) > 0 && events.SameEpisode(all[0].Episode, told.Episode) {
			c = all[0]
		}
	}
	if c != nil && c.Witness == told.Witness && (c.Tool != told.Tool || c.Target != told.Target) {
		return nil
	}
	return c
}

// join gives a call that has no episode the one that a record of it names.
func (l *Log) join(c *Call, episode string) {
	if c.Episode != "" || episode == "" {
		return
	}
	if key := c.key(); l.latest[key] == c {
		delete(l.latest, key)
	}
	c.Episode = episode
	l.latest[c.key()] = c
}

func (l *Log) add(c *Call) {
	l.list = append(l.list, c)
	key := c.key()
	l.byID[key.callID] = append(l.byID[key.callID], c)
	l.latest[key] = c
	if len(l.list) > MaxCalls {
		l.drop()
	}
}

// forget drops the calls that are too old.
func (l *Log) forget(now time.Time) {
	for since := now.Add(-l.keep); len(l.list) > 0 && !l.list[0].At.After(since); {
		l.drop()
	}
}

// drop lets go of the oldest call.
func (l *Log) drop() {
	c := l.list[0]
	l.list[0] = nil
	l.list = l.list[1:]
	key := c.key()
	if l.latest[key] == c {
		delete(l.latest, key)
	}
	if l.byID[key.callID] = l.byID[key.callID][1:]; len(l.byID[key.callID]) == 0 {
		delete(l.byID, key.callID)
	}
}
