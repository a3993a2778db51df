package detector

import (
	"fmt"
	"sync"
)

// What of one sender may wait: the rest is refused, so that it takes neither the memory
// nor the place of what others send.
const (
	queuedMessages = 64
	queuedBytes    = 8 << 20
)

// Queue holds the messages that wait, those of each sender in their order, and take goes
// from sender to sender: who floods waits for herself alone. It may be used by several
// goroutines.
type Queue struct {
	mu     sync.Mutex
	lines  map[string]*line
	order  []string // senders with messages, the next one first
	closed bool
	// ready is full while there is something to take, or nothing will ever be.
	ready chan struct{}
}

// line is what waits of one sender.
type line struct {
	messages []Message
	bytes    int
}

// NewQueue makes an empty one.
func NewQueue() *Queue { return &Queue{lines: map[string]*line{}, ready: make(chan struct{}, 1)} }

func (q *Queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Put takes a message in, or answers it that too many wait.
func (q *Queue) Put(m Message) {
	if !q.put(m) {
		m.Respond(Answer{Error: fmt.Sprintf("too much of %s waits already: send again later", m.Principal)})
	}
}

func (q *Queue) put(m Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	ln, waits := q.lines[m.Principal]
	if !waits {
		ln = new(line)
	} else if len(ln.messages) >= queuedMessages || ln.bytes+len(m.Data) > queuedBytes {
		return false
	}
	ln.messages, ln.bytes = append(ln.messages, m), ln.bytes+len(m.Data)
	if !waits {
		q.lines[m.Principal] = ln
		q.order = append(q.order, m.Principal)
	}
	q.signal()
	return true
}

// Close says that nothing more comes; what waits is still taken.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// take is the next message; false where none waits, and closed that none will come.
func (q *Queue) take() (m Message, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return m, false, q.closed
	}
	sender := q.order[0]
	ln := q.lines[sender]
	m = ln.messages[0]
	ln.messages, ln.bytes = ln.messages[1:], ln.bytes-len(m.Data)
	q.order = q.order[1:]
	if len(ln.messages) > 0 {
		q.order = append(q.order, sender)
	} else {
		delete(q.lines, sender)
	}
	if len(q.order) > 0 || q.closed {
		q.signal()
	}
	return m, true, false
}
