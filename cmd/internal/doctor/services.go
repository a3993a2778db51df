package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"

	"assay/cmd/internal/node"
	"assay/ledger/logger"
)

// askServices asks every socket of the directory for its status.
func (e *exam) askServices(ctx context.Context) {
	const check = "services"
	sockets, err := e.Dir.StatusSockets()
	if err != nil {
		e.add(check, Unknown, err.Error(), "")
		return
	}
	var names []string
	for _, path := range sockets {
		st, err := e.ask(ctx, path)
		switch {
		case err == nil:
			e.statuses = append(e.statuses, st)
			names = append(names, st.Services)
		case errors.Is(err, fs.ErrNotExist): // a link to where it would be
		case errors.Is(err, syscall.EACCES):
			e.add(check, Unknown, fmt.Sprintf("%s is another user's", path), "run doctor as that user, or as root, to see what it says")
		case errors.Is(err, syscall.ECONNREFUSED):
			e.add(check, Warn, fmt.Sprintf("nobody answers on %s: a service was killed and not started again", path), "start it again")
		default:
			e.add(check, Fail, fmt.Sprintf("%s: %v", path, err), "")
		}
	}
	if len(names) > 0 {
		e.report.Asked = true
		e.add(check, OK, strings.Join(names, ", ")+" answer", "")
	} else {
		e.add(check, Unknown, "no service answers on "+e.Dir.Run(), "")
	}
	for _, s := range e.statuses {
		if s.Software != e.Software {
			e.add("software", Warn, fmt.Sprintf("%s runs %q, this is %q", s.Services, s.Software, e.Software), "restart the service with the newer build")
		}
	}
}

func (e *exam) ask(ctx context.Context, path string) (st node.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path) // Ask does not tell why it cannot
	if err != nil {
		return st, err
	}
	c.Close()
	return st, node.Ask(ctx, path, "GET", "/status", nil, &st)
}

// services says how each service does.
func (e *exam) services(context.Context) {
	missing := map[string]bool{"logger": true, "projector": true, "resolver": true, "telemetry": true}
	for _, s := range e.statuses {
		if s.Broker != nil {
			e.embedded(s.Broker)
		}
		if s.Logger != nil {
			delete(missing, "logger")
			e.judgeLogger(s.Logger)
		}
		if s.Projector != nil {
			delete(missing, "projector")
			e.projector(s.Projector)
		}
		if s.Resolver != nil {
			delete(missing, "resolver")
			e.resolver(s.Resolver)
		}
		if s.Telemetry != nil {
			delete(missing, "telemetry")
			e.telemetry(s.Telemetry)
		}
		if s.Gateway != nil { // it is nobody's fault to have none
			e.gateway(s.Gateway)
		}
		for _, id := range slices.Sorted(maps.Keys(s.Hooks)) {
			e.hooks(id, s.Hooks[id])
		}
	}
	for _, name := range []string{"logger", "projector", "resolver", "telemetry"} {
		if missing[name] {
			e.absent(name)
		}
	}
}

// absent is about a service that did not answer on this host.
func (e *exam) absent(name string) {
	switch {
	case e.hub == nil:
		e.add(name, Unknown, "it does not answer here", "")
	case name != "logger":
		e.add(name, Warn, "the broker runs, and no "+name+" answers on this host", "start it, unless it runs elsewhere or as another user")
	case e.heard:
		e.add(name, OK, "it answers the intake; its status is not to be had here", "")
	default:
		e.add(name, Fail, "the broker runs, and no logger answers the intake: nothing is recorded", "start `assay serve logger`, and see its log if it ends again")
	}
}

func (e *exam) embedded(b *node.BrokerStatus) {
	const check = "broker store"
	switch {
	case b.State != "serving":
		e.add(check, Fail, b.State+": "+b.Detail, "make room on the disk; the broker is restarted by itself once there is")
	case b.Restarts > 0:
		e.add(check, Warn, fmt.Sprintf("restarted %d times, the last time because: %s", b.Restarts, b.Restarted), "see the disk's room and health")
	default:
		e.add(check, OK, "it takes writes", "")
	}
}

func (e *exam) judgeLogger(l *node.LoggerStatus) {
	const check = "logger"
	seen := fmt.Sprintf("%s, %d records, %d events wait", l.State, l.Size, l.Waiting)
	if l.Detail != "" {
		seen += ": " + l.Detail
	}
	switch l.State {
	case logger.Serving, logger.StandingBy:
		e.add(check, OK, seen, "")
	case logger.LowDisk:
		e.add(check, Fail, seen, "make room on the disks; the intake resumes by itself")
	case logger.ForeignIn:
		e.add(check, Fail, seen, "find out who wrote it, then `assay foreign ack SEQ`")
	case logger.Undecided:
		e.add(check, Warn, seen, "see whether the broker answers; the append is repeated until it is decided")
	default:
		e.add(check, Fail, seen, "see the logger's log")
	}
	if l.Warning != "" {
		e.add(check, Warn, l.Warning, "look into it: the logger works on")
	}
}

// lagging is how far a reader may be behind before it is worth a word.
const lagging = 10_000

func (e *exam) projector(p *node.ProjectorStatus) {
	const check = "projector"
	seen := fmt.Sprintf("at %d of %d", p.Seq, p.Head)
	switch {
	case p.Halted != "":
		e.add(check, Fail, seen+", halted: "+p.Halted, "run `assay verify`: the views stand still because the ledger or their store is not whole")
	case len(p.Rebuilding) > 0:
		e.add(check, Warn, seen+", rebuilding "+strings.Join(p.Rebuilding, ", "), "wait: a new version of a view is built beside the old one")
	case p.Lag > lagging:
		e.add(check, Warn, fmt.Sprintf("%s: %d records behind", seen, p.Lag), "wait, and look whether it catches up")
	default:
		e.add(check, OK, seen, "")
	}
	if p.Parked > 0 {
		e.add(check, Warn, fmt.Sprintf("%d records could not be applied", p.Parked), "`assay list parked` names them and why")
	}
}

func (e *exam) resolver(r *node.ResolverStatus) {
	const check = "resolver"
	seen := fmt.Sprintf("at %d, %d predictions open", r.Applied, r.Open)
	if uint64(r.Applied)+lagging < e.signed {
		e.add(check, Warn, fmt.Sprintf("%s; %d records are signed", seen, e.signed), "wait, and look whether it catches up")
	} else {
		e.add(check, OK, seen, "")
	}
	if r.Differed > 0 {
		e.add(check, Warn, fmt.Sprintf("%d stored events differ from what this build would write", r.Differed), "nothing, after a change of registry or engine; the stored ones stand")
	}
	if r.Skipped > 0 {
		e.add(check, Warn, fmt.Sprintf("%d records do not decode", r.Skipped), "upgrade the resolver: a newer build wrote them")
	}
	if r.Unsaid > 0 {
		e.add(check, Fail, fmt.Sprintf("%d rollbacks that the ledger calls for are not written", r.Unsaid), "end the canary by hand (`canary.ended`); the resolver's log names record and rule")
	}
}

func (e *exam) telemetry(t *node.TelemetryStatus) {
	const check = "telemetry"
	seen := fmt.Sprintf("%d batches received, %d refused, %d lost, %d dropped", t.Received, t.Refused, t.Lost, t.Dropped)
	if t.Lost+t.Dropped > 0 {
		e.add(check, Warn, seen, "see whether the broker was away; predictions over the gap stay unresolved")
		return
	}
	e.add(check, OK, seen, "")
}

func (e *exam) hooks(id string, h node.HookStatus) {
	check := "hooks of " + id
	seen := fmt.Sprintf("%d delivered, %d waiting, %d refused", h.Delivered, h.Waiting, h.Refused)
	switch {
	case h.Trouble != "":
		e.add(check, Fail, seen+"; nothing is delivered: "+h.Trouble, "mend that: what waits stays where it is")
	case h.Strange > 0:
		e.add(check, Warn, fmt.Sprintf("%s; %d entries are named like events and are none", seen, h.Strange), "see DIR/hooks/AGENT/*.event, and remove what is no file")
	case h.Errors+h.Refused > 0:
		e.add(check, Warn, fmt.Sprintf("%s; %d times something was not recorded, the last: %s", seen, h.Errors, h.LastError),
			"see errors.log in DIR/hooks/AGENT and DIR/gateway/hooks/AGENT, and remove both, and *.refused, once that is dealt with")
	default:
		e.add(check, OK, seen, "")
	}
}

func (e *exam) gateway(g *node.GatewayStatus) {
	const check = "gateway"
	well := true
	for _, id := range slices.Sorted(maps.Keys(g.Spools)) {
		s := g.Spools[id]
		seen := fmt.Sprintf("%d events in %d of %d bytes are spooled for %s", s.Events, s.Bytes, s.Limit, id)
		switch {
		case s.Bytes >= s.Limit:
			e.add(check, Fail, seen+": it is full, and takes nothing more", "see why the ledger does not take them")
		case s.Trouble != "":
			e.add(check, Fail, seen+", and not delivered: "+s.Trouble, "see to it, and start the gateway again")
		case s.Refused > 0:
			e.add(check, Warn, fmt.Sprintf("the ledger refused %d events of %s that were spooled", s.Refused, id), "`assay list rejections` says why")
		case s.Events > 0:
			e.add(check, Warn, seen, "they are delivered when the ledger takes them again")
		default:
			continue
		}
		well = false
	}
	if well {
		e.add(check, OK, fmt.Sprintf("%d requests, nothing is spooled", g.Requests), "")
	}
}
