// Package projector folds the ledger into views.
//
// A Projection is a pure function from the ordered records to key-values: no
// clock, network or randomness. The Runner reads the stored messages, checks
// every link of the chain as it goes, and commits the views and the cursor that
// says how far they came in one batch, so that a crash only rewinds. The state
// at a record is a function of the ledger up to it alone: how the records were
// batched, restarts and rebuilds never show. Replay computes it again from
// record 1; the state digest is what the two are compared by.
//
// # Keys
//
//	a/<name>             the version of the projection that readers see
//	c/<name>/<version>   its cursor
//	s/<name>/<version>/… its state
//	d/<name>/<version>/… the hashes of its chunks, each under the chunk's first key
//	f                    the Merkle frontier at the record that readers see
//	b                    the Merkle frontier at the record up to which one is built
//	k, k/…, l/…          what is kept beside the views (kept.go)
//
// # Rebuilding
//
// A projection whose version changed, or that is new, is built under its own
// version while readers keep what is there, whole and at one record: nothing
// else is folded meanwhile. It becomes what they see, and what it replaces is
// deleted, in the very commit that brings it level. A crash goes on from the
// last commit; a build that was given up is deleted by the next one that ends.
//
// # State digest, format 2
//
// SHA-256 over
//
//	0x01
//	'P' ‖ len(name) ‖ name ‖ version                      for each projection in the order of names
//	'C' ‖ SHA-256(0x00 ‖ {len(key) ‖ key ‖ len(value) ‖ value}…)   for each chunk of its keys in order
//
// where keys are relative to the projection and numbers are eight bytes,
// big-endian. A chunk begins at the first key and at each whose CRC-32C ends in
// six zero bits (chunks.go).
package projector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
)

var (
	// ErrGap means that the feed left out a message, or ended too early.
	ErrGap = errors.New("gap in the feed")
	// ErrFork means that the ledger is not the one that was folded before, or
	// that two records claim the same predecessor.
	ErrFork = errors.New("the ledger forked")
	// ErrAhead means that a cursor, or the record that was asked for, is past
	// the end of the ledger: it was cut back or replaced.
	ErrAhead = errors.New("past the end of the ledger")
	// ErrCorrupt means that a message is not the record that its place in the
	// chain requires.
	ErrCorrupt = ledger.ErrCorrupt
	// ErrPartialApply means that a projection returned an error after it had
	// changed state, which would leave half of a record in the view.
	ErrPartialApply = errors.New("projection failed after it had changed its state")
	// ErrUneven means that the projections stand at different records, because
	// one of them is being built.
	ErrUneven = errors.New("views are being rebuilt")
	// ErrNoState means that the store holds no views.
	ErrNoState = errors.New("no views yet")
)

// LinkError is a broken link of the chain with its evidence. It wraps ErrGap,
// ErrFork, ErrAhead, ErrCorrupt or ledger.ErrUnsupportedVersion.
type LinkError struct {
	Seq       ledger.Seq // where it was found
	Kind      error
	What      string // what was compared
	Want, Got string
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("message %d: %v: %s is %s, want %s", e.Seq, e.Kind, e.What, e.Got, e.Want)
}

func (e *LinkError) Unwrap() error { return e.Kind }

// Record is one record of the ledger as projections see it. It is valid during
// Apply; strings may be kept.
type Record struct {
	ledger.Record
	Leaf ledger.Hash
	// Event is decoded; the embedded Record.Event has its bytes.
	Event *events.Event
	// EventTime is the event's own time; zero when it cannot be parsed.
	EventTime time.Time
}

// Role is the role of the principal who sent the event.
func (r *Record) Role() string { return RoleOf(r.Principal) }

// RoleOf is the part of a principal's name before the slash.
func RoleOf(principal string) string {
	role, _, _ := strings.Cut(principal, "/")
	return role
}

// Projection folds records into state. Apply must not depend on anything but
// the batch and the record. An error parks the record for this projection; it
// must be returned before the first Edit of the call.
type Projection interface {
	// Name is lower-case letters and underscores; it never changes.
	Name() string
	// Version changes whenever Apply would produce another state.
	Version() int
	Apply(b *Batch, r *Record) error
}

// Cursor says how far a projection came.
type Cursor struct {
	Projection string
	Version    int
	Seq        ledger.Seq  // last message folded; 0 before the first
	Leaf       ledger.Hash // of the message at Seq
	chunked    bool        // the hashes of its chunks are kept
}

// Source is the ordered feed of stored messages.
type Source interface {
	// Head is the sequence of the last stored message; 0 when there is none.
	Head(ctx context.Context) (ledger.Seq, error)
	// Read calls fn for each stored message from from to to in order; with to 0
	// it goes on with new messages until ctx ends. Bodies belong to fn, and an
	// error of fn ends the read.
	Read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error
}

// SeqKey writes a sequence so that keys sort as the sequences do.
func SeqKey(seq ledger.Seq) string { return fmt.Sprintf("%020d", uint64(seq)) }
