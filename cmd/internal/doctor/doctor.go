// Package doctor looks at an installation of assay and says what is well, what
// is not, and what to do about it. It changes nothing: what it tries, it tries
// in ways that leave the ledger as it was.
package doctor

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/ledger/stream"
)

// Result is the outcome of one check.
type Result string

// The results. Unknown means that what is needed for the check could not be
// had: nothing runs, or it belongs to another user.
const (
	OK      Result = "ok"
	Warn    Result = "warn"
	Fail    Result = "fail"
	Unknown Result = "unknown"
)

// Finding is what one check found.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Seen   string `json:"seen"`
	Do     string `json:"do,omitzero"` // empty when nothing is to be done
}

// Report is what an examination found, in the order in which it looked.
type Report struct {
	Dir string `json:"dir"`
	// Asked: a broker or a service answered. Without, everything but the files is
	// unknown.
	Asked    bool      `json:"asked"`
	Findings []Finding `json:"findings"`
}

// Count is how many findings have a result.
func (r Report) Count(result Result) (n int) {
	for _, f := range r.Findings {
		if f.Result == result {
			n++
		}
	}
	return n
}

// Config says what to examine.
type Config struct {
	Dir node.Dir
	// NATS, CredsDir and Monitor are those of an external broker; "" is the
	// broker that runs on Dir, and Dir's credentials.
	NATS, CredsDir, Monitor string
	// Pin is a pin file to hold the checkpoint against; "" is none.
	Pin string
	// LowWater is the room in bytes that disks must have.
	LowWater uint64
	// Software names this build.
	Software string
	// Now is the clock that is compared with ledger time; nil is the system's.
	Now func() time.Time
	// Synchronised says whether the system's clock is kept by NTP; nil asks the
	// kernel.
	Synchronised func() (bool, error)
}

// exam is one examination: what it could get hold of, and what it found.
type exam struct {
	Config
	report Report

	hub      *node.Hub      // nil without a broker that answers
	reader   *nats.Conn     // as read-operator; nil if there is none
	ledger   *stream.Stream // over reader
	statuses []node.Status  // of services that answered on their sockets
	heard    bool           // a logger answered an intake subject
	head     ledger.Seq     // last record of the stream, 0 if unknown
	signed   uint64         // size of the newest checkpoint on file, 0 if unknown
}

// Examine looks at everything. Its error is that of a directory that was never
// initialised or of a cancelled context; what is wrong otherwise is a finding.
func Examine(ctx context.Context, c Config) (Report, error) {
	if err := c.Dir.Check(); err != nil {
		return Report{}, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Synchronised == nil {
		c.Synchronised = synchronised
	}
	if c.CredsDir == "" {
		c.CredsDir = c.Dir.Creds()
	}
	e := &exam{Config: c, report: Report{Dir: string(c.Dir), Findings: []Finding{}}}
	defer func() {
		if e.reader != nil {
			e.reader.Close()
		}
	}()
	for _, look := range []func(context.Context){
		e.files, e.askServices, e.connect, e.config, e.settings, e.checkpoint, e.stream, e.permissions,
		e.services, e.room, e.clock, e.quorum, e.schemas, e.blobs,
	} {
		look(ctx)
		if ctx.Err() != nil {
			return e.report, ctx.Err()
		}
	}
	return e.report, nil
}

func (e *exam) add(check string, r Result, seen, do string) {
	e.report.Findings = append(e.report.Findings, Finding{check, r, seen, do})
}

// patience bounds one question.
const patience = 3 * time.Second

// logger is the status of the active logger, or of any that answered.
func (e *exam) logger() *node.LoggerStatus {
	var found *node.LoggerStatus
	for _, s := range e.statuses {
		if s.Logger != nil && (found == nil || s.Logger.Role == "active") {
			found = s.Logger
		}
	}
	return found
}
