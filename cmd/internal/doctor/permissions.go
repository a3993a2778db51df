package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger/broker"
)

// attempt is something that a user must be refused by the broker itself. Were
// it allowed, it would still do nothing: requests that change carry a payload
// that JetStream does not take, and messages a condition that no stream meets.
type attempt struct {
	subscribe bool
	subject   string
	payload   string
	allowed   []string // users who may, and for whom it is not tried
}

// garbage is neither JSON nor empty, so that no JetStream request takes it.
const garbage = "x"

// nowhere stands in subjects that nobody listens to and no stream needs.
const nowhere = "assay-doctor"

func forbidden(detectors []string) []attempt {
	var out []attempt
	add := func(subject, payload string, allowed ...string) {
		out = append(out, attempt{subject: subject, payload: payload, allowed: allowed})
	}
	hear := func(subject string, allowed ...string) {
		out = append(out, attempt{subscribe: true, subject: subject, allowed: allowed})
	}
	for _, prefix := range []string{"$JS.API", broker.ReadPrefix} {
		for _, op := range []string{"STREAM.DELETE", "STREAM.PURGE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "STREAM.RESTORE", "STREAM.SNAPSHOT"} {
			add(prefix+"."+op+"."+broker.LedgerStream, garbage)
		}
	}
	for _, name := range []string{broker.QuarantineStream, broker.TelemetryStream} {
		add("$JS.API.STREAM.DELETE."+name, garbage)
		add("$JS.API.STREAM.PURGE."+name, garbage)
		add("$JS.API.STREAM.UPDATE."+name, garbage)
	}
	readers := []string{principal.ReadProjector, principal.ReadResolver, principal.ReadOperator}
	add("$JS.API.STREAM.CREATE."+nowhere, garbage)
	add("$JS.API.STREAM.INFO."+broker.LedgerStream, "", principal.LoggerStore)
	add("$JS.API.STREAM.MSG.GET."+broker.LedgerStream, garbage, principal.LoggerStore)
	add(broker.ReadPrefix+".STREAM.INFO."+broker.LedgerStream, "", readers...)
	add("$SYS.REQ.SERVER.PING", "")
	add("ledger."+nowhere, garbage, principal.LoggerStore)
	add("quarantine."+nowhere, garbage, principal.LoggerStore)
	add("buffer."+nowhere, garbage, principal.Ingress)
	add("telemetry."+nowhere, garbage)
	add("_R_."+nowhere, garbage, append(detectors, principal.LoggerIntake, principal.Ingress)...)
	add(broker.TranscriptSubject(nowhere), garbage)
	hear(">")
	hear("$SYS.>")
	hear("$JS.>")
	hear("ledger.>")
	hear("quarantine.>")
	hear("buffer.>")
	hear("intake.>", principal.LoggerIntake)
	hear("telemetry.>", principal.Ingress)
	hear("transcript.>", detectors...)
	return out
}

// trial is what one user is tried for.
type trial struct {
	user string
	// asks are requests that must be answered, hears subjects that must be
	// open to it.
	asks, hears []string
	intake      bool // asks[0] is its intake
	mayNot      []attempt
}

// trials lists the users: principals that are not revoked, then services.
func trials(active []principal.Principal) []trial {
	var out []trial
	var detectors []string
	for _, p := range active {
		if p.Role == principal.Detector {
			detectors = append(detectors, p.User())
		}
	}
	mayNot := forbidden(detectors)
	add := func(t trial) {
		for _, a := range mayNot {
			if !slices.Contains(a.allowed, t.user) {
				t.mayNot = append(t.mayNot, a)
			}
		}
		// Somebody else's intake: an empty batch, which is no event.
		for _, p := range active {
			if p.User() != t.user {
				t.mayNot = append(t.mayNot, attempt{subject: broker.IntakeSubject(p), payload: "[]"})
				break
			}
		}
		out = append(out, t)
	}
	for _, p := range active {
		t := trial{user: p.User(), asks: []string{broker.IntakeSubject(p)}, intake: true}
		if p.Role == principal.Detector {
			t.hears = []string{"transcript." + nowhere + "." + nowhere}
		}
		add(t)
	}
	info := func(stream string) string { return "$JS.API.STREAM.INFO." + stream }
	add(trial{user: principal.LoggerStore, asks: []string{info(broker.LedgerStream), info(broker.QuarantineStream)}})
	add(trial{user: principal.LoggerIntake, hears: []string{"intake." + nowhere + "." + nowhere}})
	add(trial{user: principal.Ingress, asks: []string{info(broker.TelemetryStream)}, hears: []string{"telemetry." + nowhere}})
	add(trial{user: principal.Sealer, asks: []string{info(broker.TelemetryStream)}})
	for _, user := range []string{principal.ReadProjector, principal.ReadResolver, principal.ReadOperator} {
		add(trial{user: user, asks: []string{broker.ReadPrefix + ".STREAM.INFO." + broker.LedgerStream}})
	}
	return out
}

// permissions tries what each user must and must not be able to do, with its
// own credential.
func (e *exam) permissions(ctx context.Context) {
	const check = "permissions"
	file, err := principal.Load(principal.Dir(e.Dir).Principals())
	if err != nil {
		e.add(check, unreadable(err), err.Error(), "")
		return
	}
	all := trials(file.Active())
	found, heard := make([][]Finding, len(all)), make([]bool, len(all))
	var wg sync.WaitGroup
	for i, t := range all {
		wg.Go(func() { found[i], heard[i] = e.try(ctx, t) })
	}
	wg.Wait()
	for i := range all {
		e.report.Findings = append(e.report.Findings, found[i]...)
		e.heard = e.heard || heard[i]
	}
	if e.hub == nil {
		e.add(check, Unknown, "no broker to try them on", "")
	}
}

// try runs a trial; heard says that a logger answered the intake.
func (e *exam) try(ctx context.Context, t trial) (found []Finding, heard bool) {
	check := "permissions of " + t.user
	add := func(r Result, seen, do string) { found = append(found, Finding{check, r, seen, do}) }
	path := principal.CredentialPath(e.CredsDir, t.user)
	switch _, err := principal.LoadCredential(path); {
	case errors.Is(err, fs.ErrNotExist):
		add(Warn, "no credential at "+path, "if its owner does not hold it either, it is lost: revoke and add a principal, and for a service see `assay restore`")
		return found, false
	case err != nil:
		add(unreadable(err), err.Error(), "")
		return found, false
	case e.hub == nil:
		return nil, false
	}
	v := &violations{seen: map[refusal]bool{}}
	closed := make(chan struct{})
	nc, err := e.dial(t.user, nats.Name("assay doctor as "+t.user), nats.ErrorHandler(v.note),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		add(Fail, err.Error(), "the broker must know the credential: reload it, or restart it on DIR/broker/nats.conf")
		return found, false
	}
	defer nc.Close()
	answered, problems, silent := askAll(ctx, nc, t, v)
	if err := v.attempt(nc, t.mayNot, closed); err != nil {
		add(Unknown, fmt.Sprintf("the connection broke while they were tried: %v", err), "")
		return found, t.intake && answered > 0
	}
	for _, subject := range t.hears {
		if v.has(refusal{true, subject}) {
			problems = append(problems, "may not subscribe to "+subject)
		}
	}
	for _, a := range t.mayNot {
		if !v.has(a.refusal()) {
			problems = append(problems, "may "+a.verb()+" "+a.subject)
		}
	}
	switch do := "make the broker's configuration anew with `assay init --render-only`, and restart it"; {
	case len(problems) > 0:
		add(Fail, strings.Join(problems, "; "), do)
	case len(silent) > 0:
		add(Unknown, fmt.Sprintf("nobody answers %s; %d forbidden operations were refused", strings.Join(silent, ", "), len(t.mayNot)), "")
	default:
		add(OK, fmt.Sprintf("%d operations allowed, %d refused", answered+len(t.hears), len(t.mayNot)), "")
	}
	return found, t.intake && answered > 0
}

func (a attempt) verb() string {
	if a.subscribe {
		return "subscribe to"
	}
	return "publish to"
}

// askAll tries what must be allowed.
func askAll(ctx context.Context, nc *nats.Conn, t trial, v *violations) (answered int, problems, silent []string) {
	for _, subject := range t.hears {
		if _, err := nc.SubscribeSync(subject); err != nil {
			problems = append(problems, fmt.Sprintf("subscribe to %s: %v", subject, err))
		}
	}
	for _, subject := range t.asks {
		var payload []byte
		if t.intake {
			payload = []byte("[]") // a batch without events: an answer, and no record
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		v.endOn(refusal{false, subject}, cancel)
		m, err := nc.RequestWithContext(ctx, subject, payload)
		cancel()
		switch {
		case v.has(refusal{false, subject}):
			problems = append(problems, "may not publish to "+subject)
		case err != nil:
			silent = append(silent, subject)
		case t.intake && string(m.Data) != "[]":
			problems = append(problems, fmt.Sprintf("%s answers %.80q to a batch without events", subject, m.Data))
		default:
			answered++
		}
	}
	return answered, problems, silent
}

// refusal is what the broker says no to.
type refusal struct {
	subscribe bool
	subject   string
}

func (a attempt) refusal() refusal { return refusal{a.subscribe, a.subject} }

// violations collects what the broker refused on one connection.
type violations struct {
	mu   sync.Mutex
	seen map[refusal]bool
	// waits is the request under way; its refusal ends it, since no answer comes.
	waits refusal
	end   func()
}

// note implements nats.ErrHandler. The text is the server's: it says which of
// the two it is and ends with the subject in quotes.
func (v *violations) note(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	if parts := strings.Split(err.Error(), `"`); len(parts) >= 3 {
		r := refusal{strings.Contains(parts[0], "Subscription"), parts[1]}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.seen[r] = true
		if v.end != nil && r == v.waits {
			v.end()
		}
	}
}

func (v *violations) endOn(r refusal, end func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits, v.end = r, end
}

func (v *violations) has(r refusal) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen[r]
}

// attempt makes the attempts and closes the connection, which hands over every
// refusal that was read; the flush has read all.
func (v *violations) attempt(nc *nats.Conn, attempts []attempt, closed <-chan struct{}) error {
	for _, a := range attempts {
		if a.subscribe {
			if _, err := nc.SubscribeSync(a.subject); err != nil {
				return err
			}
			continue
		}
		m := &nats.Msg{Subject: a.subject, Data: []byte(a.payload)}
		if a.payload == garbage {
			m.Header = nats.Header{"Nats-Expected-Stream": {nowhere}} // no stream is named so
		}
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	if err := nc.FlushTimeout(patience); err != nil {
		return err
	}
	nc.Close()
	<-closed
	return nil
}
