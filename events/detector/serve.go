package detector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Message is some turns that a principal sent: one Turn as JSON, or an array.
type Message struct {
	// Principal is who sent it, such as agent/piper, as the broker knows. Its turns are
	// told apart from all others: nobody can speak of another's turns first.
	Principal string
	Data      []byte
	// Respond answers the sender.
	Respond func(Answer)
}

// Answer is what became of a message. Without an Error its turns stand in the ledger;
// without an answer they may not, and are to be sent again.
type Answer struct {
	Scanned   int64  `json:"scanned"`
	Known     int64  `json:"known"`
	Unscanned int64  `json:"unscanned"`
	Error     string `json:"error,omitzero"`
}

// MaxMessage is how many turns a message has at most, so that nobody waits long for
// another's.
const MaxMessage = batchTurns

// Serve takes messages until the context ends or the queue is closed and empty. What
// comes within the time of wait is told in one batch, and answered once it stands in the
// ledger. What cannot be read is answered at once; a ledger that does not answer ends it
// with an error.
func Serve(ctx context.Context, t *Teller, q *Queue, wait time.Duration) error {
	s := server{teller: t}
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil // who has no answer sends again
		case <-due:
			due = nil
			if err := s.flush(ctx); err != nil {
				return err
			}
		case <-q.ready:
			m, ok, closed := q.take()
			if closed {
				return s.flush(ctx)
			}
			if !ok {
				continue
			}
			if err := s.take(ctx, m); err != nil {
				return err
			}
			if due == nil && len(s.answers) > 0 {
				due = time.After(wait)
			}
		}
	}
}

// server is a Teller with the answers that wait for its batch.
type server struct {
	teller  *Teller
	answers []func()
}

func (s *server) take(ctx context.Context, m Message) error {
	answer, err := s.teller.take(ctx, m)
	switch respond := m.Respond; {
	case errors.Is(err, ErrTurn):
		respond(Answer{Error: err.Error()})
		return nil
	case err == nil:
		s.answers = append(s.answers, func() { respond(answer) })
	}
	return err
}

func (s *server) flush(ctx context.Context) error {
	if err := s.teller.Flush(ctx); err != nil {
		return err
	}
	for _, answer := range s.answers {
		answer()
	}
	s.answers = nil
	return nil
}

// take adds a message's turns: all of them, or none if one cannot be told of.
func (t *Teller) take(ctx context.Context, m Message) (a Answer, err error) {
	turns, err := turnsIn(m.Data)
	if err != nil {
		return a, err
	}
	if len(turns) > MaxMessage {
		return a, fmt.Errorf("%w: %d in one message, more than %d", ErrTurn, len(turns), MaxMessage)
	}
	for i := range turns {
		turns[i].source = m.Principal
		if turns[i].Component == "" {
			turns[i].Component = m.Principal
		}
		if _, err := turns[i].check(); err != nil {
			return a, err
		}
	}
	for _, turn := range turns {
		told, err := t.Add(ctx, turn)
		switch {
		case err != nil:
			return a, err
		case told.Known:
			a.Known++
		case told.Unscanned:
			a.Unscanned++
		default:
			a.Scanned++
		}
	}
	return a, nil
}

// turnsIn reads one turn, or an array of turns.
func turnsIn(data []byte) (turns []Turn, err error) {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		err = json.Unmarshal(data, &turns, json.RejectUnknownMembers(true))
	} else {
		turns = make([]Turn, 1)
		err = json.Unmarshal(data, &turns[0], json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTurn, err)
	}
	return turns, nil
}
