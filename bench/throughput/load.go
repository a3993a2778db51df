package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"assay/bench/workload"
)

// maxMessage keeps a message of the largest events below the broker's limit.
const maxMessage = 2000

// load is what the publishers send in one round: for each of three principals
// JSON batches of the events of an agent's day, about 600 bytes each.
type load struct {
	users    []string // role.name
	messages [][][]byte
	events   int
	bytes    int
}

// makeLoad makes the messages of one round.
func makeLoad(m *workload.Mix, records, message int) (*load, error) {
	l := &load{events: records}
	made := 0
	for i, a := range workload.Authors {
		n := records * a.Share / 100
		if i == len(workload.Authors)-1 {
			n = records - made
		}
		made += n
		var messages [][]byte
		for left := n; left > 0; {
			k := min(left, message)
			left -= k
			body := []byte{'['}
			for j := range k {
				raw, _, err := m.Event(a)
				if err != nil {
					return nil, err
				}
				if j > 0 {
					body = append(body, ',')
				}
				body = append(body, raw...)
				l.bytes += len(raw)
			}
			messages = append(messages, append(body, ']'))
		}
		l.users, l.messages = append(l.users, a.User), append(l.messages, messages)
	}
	return l, nil
}

// publish sends the load over one connection a principal, with flight messages
// unanswered on each, and returns when the last receipt is there.
func (l *load) publish(ctx context.Context, h *house, flight int) (sample, error) {
	conns := make([]*nats.Conn, len(l.users))
	for i, user := range l.users {
		nc, err := h.dial(user)
		if err != nil {
			return sample{}, err
		}
		defer nc.Close()
		conns[i] = nc
	}
	var (
		wg     sync.WaitGroup
		once   sync.Once
		failed error
		taken  atomic.Int64
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := start()
	for i, nc := range conns {
		subject := "intake." + l.users[i]
		var next atomic.Int64
		for range flight {
			wg.Go(func() {
				for {
					k := int(next.Add(1)) - 1
					if k >= len(l.messages[i]) || ctx.Err() != nil {
						return
					}
					n, err := request(ctx, nc, subject, l.messages[i][k])
					taken.Add(int64(n))
					if err != nil {
						once.Do(func() { failed = err; cancel() })
					}
				}
			})
		}
	}
	wg.Wait()
	s := watch.stop(l.events)
	if failed == nil && int(taken.Load()) != l.events {
		failed = fmt.Errorf("%d receipts for %d events", taken.Load(), l.events)
	}
	return s, failed
}

// request publishes one message and counts its receipts.
func request(ctx context.Context, nc *nats.Conn, subject string, body []byte) (receipts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	if i := bytes.Index(m.Data, []byte(`"error"`)); i >= 0 {
		return 0, fmt.Errorf("an event was refused: %s", strings.ToValidUTF8(string(m.Data[i:min(len(m.Data), i+200)]), ""))
	}
	return bytes.Count(m.Data, []byte(`"leaf"`)), nil
}
