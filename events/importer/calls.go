package importer

import (
	"container/list"

	"assay/events"
)

// What is kept of a file while it is read; the oldest goes first.
const (
	maxOpen  = 10_000 // calls without a result so far
	maxDone  = 50_000 // calls that are told
	maxUsage = 1_000  // messages whose usage may still change
)

// queue keeps the newest values in the order in which they came.
type queue[V any] struct {
	limit int
	byKey map[string]*list.Element
	order list.List
}

type queued[V any] struct {
	key string
	v   V
}

func newQueue[V any](limit int) *queue[V] {
	return &queue[V]{limit: limit, byKey: map[string]*list.Element{}}
}

func (q *queue[V]) get(key string) (v V, ok bool) {
	if e, ok := q.byKey[key]; ok {
		return e.Value.(queued[V]).v, true
	}
	return v, false
}

// add puts a value at the end, and gives the oldest where there is one too many.
func (q *queue[V]) add(key string, v V) (oldest V, full bool) {
	q.byKey[key] = q.order.PushBack(queued[V]{key, v})
	if q.order.Len() <= q.limit {
		return oldest, false
	}
	return q.first()
}

// first takes out the oldest.
func (q *queue[V]) first() (v V, ok bool) {
	e := q.order.Front()
	if e == nil {
		return v, false
	}
	out := q.order.Remove(e).(queued[V])
	delete(q.byKey, out.key)
	return out.v, true
}

func (q *queue[V]) remove(key string) {
	if e, ok := q.byKey[key]; ok {
		q.order.Remove(e)
		delete(q.byKey, key)
	}
}

// call is a tool call whose result is awaited.
type call struct {
	draft
	data *events.ToolCalled
}

// calls joins calls with their results, by episode and id.
type calls struct {
	m    *maker
	open *queue[*call]
	done *queue[struct{}]
}

func newCalls(m *maker) *calls {
	return &calls{m, newQueue[*call](maxOpen), newQueue[struct{}](maxDone)}
}

func callKey(episode, id string) string { return episode + "\x00" + id }

// MadeID begins the id of a call to which its source gave none.
const MadeID = "line:"

// begin notes a call. One without an id gets one from its place in the file, which no
// result can name.
func (c *calls) begin(t *call) error {
	if t.data.ToolCallID == "" {
		c.m.mended(mendedMissingID)
		t.data.ToolCallID = MadeID + hashOf(c.m.at(t.at))[:32]
	}
	t.data.ToolCallID = c.m.id(t.data.ToolCallID)
	if t.data.Tool == "" {
		t.data.Tool = "unknown"
	}
	t.data.Tool = *c.m.name(t.data.Tool)
	t.line, t.at = c.m.line, ""
	key := callKey(t.episode, t.data.ToolCallID)
	_, open := c.open.get(key)
	if _, told := c.done.get(key); told || open {
		c.m.mended(mendedRepeat)
		return nil
	}
	if oldest, full := c.open.add(key, t); full {
		return c.unfinished(oldest)
	}
	return nil
}

// find is the open call of an id; nil where there is none, which is counted.
func (c *calls) find(episode, id string) *call {
	if id == "" {
		c.m.mended(mendedLate)
		return nil
	}
	key := callKey(episode, c.m.id(id))
	t, ok := c.open.get(key)
	if !ok {
		if _, told := c.done.get(key); told {
			c.m.mended(mendedRepeat)
		} else {
			c.m.mended(mendedLate)
		}
		return nil
	}
	return t
}

// end tells of a call whose result is known.
func (c *calls) end(t *call) error {
	key := callKey(t.episode, t.data.ToolCallID)
	c.open.remove(key)
	c.done.add(key, struct{}{})
	return c.put(t)
}

// flush tells of the calls that nothing more is known of.
func (c *calls) flush() error {
	for {
		t, ok := c.open.first()
		if !ok {
			return nil
		}
		if err := c.unfinished(t); err != nil {
			return err
		}
	}
}

// unfinished tells of a call without its result.
func (c *calls) unfinished(t *call) error {
	c.m.mended(mendedOpen)
	c.done.add(callKey(t.episode, t.data.ToolCallID), struct{}{})
	return c.put(t)
}

func (c *calls) put(t *call) error {
	t.draft.data = t.data
	return c.m.put(t.draft)
}

// Statuses of a call.
const (
	statusOK      = "ok"
	statusFailed  = "failed"
	statusDenied  = "denied"
	statusUnknown = "unknown"
)
