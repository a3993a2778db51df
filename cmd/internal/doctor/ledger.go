package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/schema"
)

const (
	// An idle log grows by a tick every ten seconds and is signed a second
	// later; these allow for a slow disk.
	lateSignature  = 30 * time.Second
	staleSignature = 5 * time.Minute
	// ahead is how far ledger time may be ahead of the system's clock.
	ahead = 2 * time.Second
)

// checkpoint holds the newest checkpoint on file against older ones, the
// logger's memory, the pin, and the stream.
func (e *exam) checkpoint(ctx context.Context) {
	const check = "checkpoint"
	files := e.Dir.Logger()
	ring, err := logger.LoadKeyring(files)
	if err != nil {
		e.add(check, unreadable(err), err.Error(), "")
		return
	}
	raw, err := os.ReadFile(files.Latest())
	if err != nil {
		do := "the logger refuses to start without: restore logger/checkpoint from a backup"
		e.add(check, unreadable(err), err.Error(), do)
		return
	}
	cp, err := ring.OpenCheckpoint(raw)
	if err != nil {
		e.add(check, Fail, fmt.Sprintf("%s: %v", files.Latest(), err), "restore logger/checkpoint from a backup, and find out who changed it")
		return
	}
	e.signed = cp.Size
	const rolledBack = "an older copy of logger/checkpoint was put in place: find out who did, and run `assay verify --pin`"
	sound := true
	fail := func(seen, do string) { sound = false; e.add(check, Fail, seen, do) }
	if all, err := logger.LoadCheckpoints(files); err != nil {
		e.add(check, Warn, err.Error(), "run `assay verify`, which says what is wrong with it")
	} else if len(all) > 0 && all[0].Size > cp.Size {
		fail(fmt.Sprintf("the newest checkpoint signs %d records, an older file %d: it was rolled back", cp.Size, all[0].Size), rolledBack)
	}
	if l := e.logger(); l != nil && l.CheckpointSize > cp.Size {
		fail(fmt.Sprintf("the checkpoint on file signs %d records, the running logger signed %d: it was rolled back", cp.Size, l.CheckpointSize), rolledBack)
	}
	e.pin(cp)
	if e.reader != nil {
		if info, err := e.info(ctx); err == nil && info.State.Last < cp.Size {
			fail(fmt.Sprintf("the stream ends at %d, but %d records are signed: records are gone", info.State.Last, cp.Size),
				"stop the logger, keep the store as it is, and bring the records back with `assay restore`")
		}
	}
	if sound {
		e.age(cp, files)
	}
}

// age says how old the signature is, where a logger should renew it.
func (e *exam) age(cp ledger.Checkpoint, files logger.Files) {
	const check = "checkpoint"
	info, err := os.Stat(files.Latest())
	if err != nil {
		e.add(check, unreadable(err), err.Error(), "")
		return
	}
	age := e.Now().Sub(info.ModTime())
	seen := fmt.Sprintf("%d records are signed, %s ago", cp.Size, age.Round(time.Second))
	l := e.logger()
	const do = "see the logger's state and log: it signs every second that the ledger grew"
	switch {
	case l == nil:
		e.add(check, OK, seen+"; no logger on this host renews it", "")
	case age > staleSignature:
		e.add(check, Fail, seen, do)
	case age > lateSignature:
		e.add(check, Warn, seen, do)
	default:
		e.add(check, OK, seen, "")
	}
}

// pin holds the newest checkpoint against what is remembered of the log.
func (e *exam) pin(cp ledger.Checkpoint) {
	const check = "pin"
	if e.Pin == "" {
		return
	}
	p, err := node.LoadPin(e.Pin)
	switch {
	case err != nil:
		e.add(check, unreadable(err), err.Error(), "")
	case p == nil:
		e.add(check, Unknown, "no pin at "+e.Pin, "`assay verify --pin "+e.Pin+"` makes it")
	case p.Origin != cp.Origin:
		e.add(check, Fail, fmt.Sprintf("the pin is of the log %s, the checkpoint of %s", p.Origin, cp.Origin), "see which directory this is")
	case cp.Size < p.Size:
		e.add(check, Fail, fmt.Sprintf("%d records are signed, %d are remembered: the ledger was rolled back", cp.Size, p.Size), "run `assay verify --pin "+e.Pin+"`")
	case cp.Size == p.Size && cp.Root.String() != p.Root:
		e.add(check, Fail, fmt.Sprintf("another ledger of %d records is remembered: a fork", p.Size), "run `assay verify --pin "+e.Pin+"`")
	default:
		e.add(check, OK, fmt.Sprintf("%d records are remembered, %d signed; `assay verify --pin` checks that the one extends the other", p.Size, cp.Size), "")
	}
}

// quorum holds the checkpoints against the witness policy.
func (e *exam) quorum(ctx context.Context) {
	const check = "witnesses"
	q, err := node.LoadQuorum(ctx, node.AnchorConfig{Dir: e.Dir})
	switch {
	case err != nil:
		e.add(check, unreadable(err), err.Error(), "see witness-policy.txt")
		return
	case q == nil:
		e.add(check, OK, "no witness policy: a checkpoint counts with the log's own signature", "")
		return
	}
	r := ledger.Report{Verdict: ledger.Consistent, Size: max(e.signed, uint64(e.head)), CheckpointSize: &e.signed}
	if q.Judge(&r); r.Verdict == ledger.Consistent {
		e.add(check, OK, "the newest checkpoint meets the policy", "")
	} else {
		e.add(check, Fail, *r.Finding, "see `assay status` for the witness that fails; the resolver acts on nothing newer meanwhile")
	}
	l := e.logger()
	if l == nil || l.Witnessing == nil {
		return
	}
	for _, w := range l.Witnessing.Witnesses {
		if w.Error != "" {
			e.add(check, Warn, w.Name+": "+w.Error, "see whether this witness runs and knows the log's key")
		}
	}
}

// clock compares the system's clock with ledger time.
func (e *exam) clock(ctx context.Context) {
	const check = "clock"
	switch synced, err := e.Synchronised(); {
	case err != nil:
		e.add(check, Unknown, fmt.Sprintf("whether NTP keeps the clock: %v", err), "")
	case !synced:
		e.add(check, Warn, "the kernel says that nothing keeps the system's clock", "run an NTP client such as chrony; windows of predictions are read on this clock")
	default:
		e.add(check, OK, "the system's clock is synchronised", "")
	}
	at, ok := e.ledgerTime(ctx)
	if !ok {
		e.add(check, Unknown, "ledger time is unknown", "")
		return
	}
	behind := e.Now().Sub(at)
	switch l := e.logger(); {
	case behind < -ahead:
		e.add(check, Fail, fmt.Sprintf("the system's clock is %s behind ledger time %s", -behind.Round(time.Millisecond), ledger.FormatTime(at)),
			"set the clock; ledger time stands still until it has caught up, and never goes back")
	case l != nil && l.State == logger.Serving && behind > lateSignature:
		e.add(check, Warn, fmt.Sprintf("the last record is %s old though the logger serves", behind.Round(time.Second)), "see the logger's log")
	default:
		e.add(check, OK, fmt.Sprintf("the last record is of %s ago", behind.Round(time.Second)), "")
	}
}

func (e *exam) ledgerTime(ctx context.Context) (time.Time, bool) {
	if l := e.logger(); l != nil && l.LedgerTime != "" {
		at, err := time.Parse(time.RFC3339Nano, l.LedgerTime)
		return at, err == nil
	}
	if e.ledger == nil || e.head == 0 {
		return time.Time{}, false
	}
	body, err := e.ledger.Get(ctx, e.head)
	if err != nil {
		return time.Time{}, false
	}
	r, err := ledger.ParseRecord(body)
	return r.RecordedAt, err == nil
}

// synchronised asks the kernel; it needs no privilege.
func synchronised() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, err
}

// schemas compares this build's event types with those of the ledger's opening.
func (e *exam) schemas(ctx context.Context) {
	const check = "schemas"
	if e.ledger == nil {
		e.add(check, Unknown, "record 1 cannot be read", "")
		return
	}
	body, err := e.ledger.Get(ctx, 1)
	if err != nil {
		e.add(check, Fail, fmt.Sprintf("record 1: %v", err), "run `assay verify`")
		return
	}
	opened, err := opening(body)
	switch {
	case err != nil:
		e.add(check, Fail, fmt.Sprintf("record 1: %v", err), "run `assay verify`")
	case opened.SchemaSHA256 != schema.Digest():
		e.add(check, Warn, fmt.Sprintf("the ledger was opened with schemas %.12s by %s; this build has %.12s", opened.SchemaSHA256, opened.Software, schema.Digest()),
			"nothing, if a newer build added event types; readers must be at least as new as the newest writer")
	default:
		e.add(check, OK, "the ledger was opened with this build's event types", "")
	}
}

var errNoOpening = errors.New("it does not open a ledger")

func opening(body []byte) (*events.LedgerOpened, error) {
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return nil, err
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		return nil, err
	}
	opened, ok := ev.Data.(*events.LedgerOpened)
	if !ok {
		return nil, errNoOpening
	}
	return opened, nil
}
