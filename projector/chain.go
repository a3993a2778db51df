package projector

import (
	"errors"
	"fmt"

	"assay/events"
	"assay/ledger"
)

// chain checks that each message links to the one before it.
//
// A body that is no record was written by somebody else: it is foreign, has no
// effect, and the chain goes on through its leaf. A record that does not fit
// its place may be foreign too, or be what a corruption left behind. Which one
// only the operator can say, by acknowledging it, and the logger lets nothing
// but that in. So such a message is a suspect: nothing is committed until its
// acknowledgement follows, and any other record instead is the end.
type chain struct {
	seq      ledger.Seq
	leaf     ledger.Hash
	parent   ledger.Hash // prev of the record at seq
	tree     ledger.Tree
	suspects []suspect
}

type suspect struct {
	seq  ledger.Seq
	leaf ledger.Hash
	err  *LinkError
}

// step is what the chain says about a message.
type step int

const (
	stepRecord  step = iota // a record in its place
	stepForeign             // no effect
)

// next takes the message behind the last one. An error ends the feed; the
// reason says why a message is foreign.
func (c *chain) next(it *item) (s step, reason string, err error) {
	if want := c.seq + 1; it.at != want {
		return 0, "", &LinkError{Seq: it.at, Kind: ErrGap, What: "sequence", Want: fmt.Sprint(want), Got: fmt.Sprint(it.at)}
	}
	bad := c.check(it)
	switch {
	case bad != nil:
		s, reason = stepForeign, bad.Error()
		c.suspects = append(c.suspects, suspect{it.at, it.Leaf, bad})
	case it.parseErr != nil:
		s, reason = stepForeign, it.parseErr.Error()
	default:
		if err := c.answer(it); err != nil {
			return 0, "", err
		}
	}
	c.advance(it)
	return s, reason, nil
}

func (c *chain) advance(it *item) {
	c.seq, c.leaf, c.parent = it.at, it.Leaf, it.Prev
	c.tree.Append(it.Leaf)
}

// check compares a parsed record with its place.
func (c *chain) check(it *item) *LinkError {
	switch {
	case errors.Is(it.parseErr, ledger.ErrUnsupportedVersion):
		return &LinkError{Seq: it.at, Kind: ledger.ErrUnsupportedVersion, What: "record", Want: "version 1", Got: it.parseErr.Error()}
	case it.parseErr != nil:
		return nil
	case it.Seq != it.at:
		return &LinkError{Seq: it.at, Kind: ErrCorrupt, What: "seq", Want: fmt.Sprint(it.at), Got: fmt.Sprint(it.Seq)}
	case it.Prev == c.leaf:
		return nil
	}
	kind := ErrCorrupt
	if c.seq > 0 && it.Prev == c.parent {
		kind = ErrFork // this record and the one before it name the same predecessor
	}
	return &LinkError{Seq: it.at, Kind: kind, What: "prev", Want: c.leaf.String(), Got: it.Prev.String()}
}

// answer lets a record pass while there are suspects only if it acknowledges
// one, or is the logger's own word about its restart or clock.
func (c *chain) answer(it *item) error {
	if len(c.suspects) == 0 {
		return nil
	}
	if it.Event != nil {
		if ack, ok := it.Event.Data.(*events.ForeignAcknowledged); ok && it.Role() == "operator" {
			for i, s := range c.suspects {
				if uint64(s.seq) == ack.Seq && s.leaf.String() == ack.SHA256 {
					c.suspects = append(c.suspects[:i:i], c.suspects[i+1:]...)
					return nil
				}
			}
		}
	}
	if it.Role() == "logger" {
		return nil
	}
	return c.suspects[0].err
}

// settled is nil unless a suspect waits for its acknowledgement.
func (c *chain) settled() error {
	if len(c.suspects) > 0 {
		return c.suspects[0].err
	}
	return nil
}
