// Package broker is the NATS server under the ledger: its accounts and
// permissions, its configuration file, the streams, and the embedded server.
//
// # Accounts
//
// A publisher's reply subject makes acks and JetStream answers land in any
// subject of the same account, and allow_responses overrides an explicit deny.
// So each party gets an account of its own, allow-lists only, and what crosses
// is one service import each:
//
//	P_<role>_<name>  one a principal; publishes intake.<role>.<name>, a sensor also
//	                 telemetry.<name>, agents and dispatchers also transcript.<detector>;
//	                 hears nothing but its own inbox, a detector also transcript.>
//	INTAKE           the logger's intake: hears intake.>, answers on _R_.>, the
//	                 subjects that the server makes up for replies across accounts
//	STORE            JetStream with LEDGER and QUARANTINE; the logger's store user
//	TELEMETRY        JetStream with the buffer; ingress and sealer
//	READ_<who>       import the JetStream requests that read LEDGER, as ledger-read.…
//
// No service user may create, update, purge or delete a stream: DenyDelete does
// not stop STREAM.DELETE nor a destructive STREAM.UPDATE. Two bootstrap users,
// whose seeds are kept offline, create and update the streams. Nobody logs in
// to the system account.
//
// A reader asks for a consumer with any delivery subject of STORE that is no
// subject of LEDGER and none of JetStream's own: it could copy records into
// QUARANTINE, which is bounded, but it changes nothing in LEDGER.
package broker

import (
	"slices"
	"strings"

	"assay/internal/principal"
)

const (
	// ReadPrefix takes the place of $JS.API in the READ accounts.
	ReadPrefix = "ledger-read"

	storeAccount     = "STORE"
	intakeAccount    = "INTAKE"
	telemetryAccount = "TELEMETRY"
	principalPrefix  = "P_"
	readPrefix       = "READ_"

	// A principal that opens ever more connections or subscriptions must not
	// use up the broker's.
	principalMaxConns = 256
	principalMaxSubs  = 1024
)

// IntakeSubject is where the principal publishes its events.
func IntakeSubject(p principal.Principal) string { return "intake." + p.User() }

// TelemetrySubject is where the sensor of this name publishes its samples.
func TelemetrySubject(name string) string { return "telemetry." + name }

// TranscriptSubject is where agents and dispatchers send turns to the detector of this
// name.
func TranscriptSubject(detector string) string { return "transcript." + detector }

// HeardTranscript is where the detector hears the turns of this principal.
func HeardTranscript(p principal.Principal) string { return "transcript." + p.User() }

// speaks says whether the principal has a transcript to send.
func speaks(p principal.Principal) bool {
	return p.Role == principal.Agent || p.Role == principal.Dispatcher
}

// AccountOf is the name of the principal's account.
func AccountOf(p principal.Principal) string {
	return principalPrefix + string(p.Role) + "_" + p.Name
}

// PrincipalOf is the role/name of a principal's account; false for the others.
// Roles hold no underscore, so the first one after the prefix ends the role.
func PrincipalOf(account string) (string, bool) {
	rest, ok := strings.CutPrefix(account, principalPrefix)
	if !ok {
		return "", false
	}
	role, name, ok := strings.Cut(rest, "_")
	return role + "/" + name, ok
}

// inboxOf is the inbox prefix of a user: users that share an account while
// assay runs must not hear each other's answers.
func inboxOf(user string) string {
	switch user {
	case principal.Ingress:
		return "_INBOX.ingress"
	case principal.Sealer:
		return "_INBOX.sealer"
	}
	return "_INBOX"
}

type account struct {
	name      string
	jetStream bool
	limited   bool // by principalMaxConns and principalMaxSubs
	users     []user
	exports   []export
	imports   []service
}

// user has allow-lists only. Neither may be empty: to the server an empty list
// allows everything.
type user struct {
	nkey               string
	publish, subscribe []string
}

type export struct {
	subject string
	to      []string // accounts
	// stream lets one request have many answers. The server then keeps the
	// reply's mapping for two minutes after the last answer, so it is for
	// requests that are few.
	stream bool
}

type service struct {
	account, subject string
	as               string // subject in the importing account; "" for the same
}

// layout is every account of the broker, in a fixed order.
func layout(f *principal.File, s *principal.Services) []account {
	store, reads := storeAccounts(s)
	intake := account{name: intakeAccount, users: []user{{
		nkey:      s.Users[principal.LoggerIntake],
		publish:   []string{"_R_.>"},
		subscribe: []string{"intake.>"},
	}}}
	telemetry := telemetryUsers(s)
	active := f.Active()
	slices.SortFunc(active, func(a, b principal.Principal) int { return strings.Compare(a.ID(), b.ID()) })
	var principals []account
	for _, p := range active {
		own := account{name: AccountOf(p), limited: true}
		u := user{nkey: p.NKey, publish: []string{IntakeSubject(p)}, subscribe: []string{"_INBOX.>"}}
		own.imports = append(own.imports, service{account: intakeAccount, subject: IntakeSubject(p)})
		intake.exports = append(intake.exports, export{subject: IntakeSubject(p), to: []string{own.name}})
		if p.Role == principal.Sensor {
			subject := TelemetrySubject(p.Name)
			u.publish = append(u.publish, subject)
			own.imports = append(own.imports, service{account: telemetryAccount, subject: subject})
			telemetry.exports = append(telemetry.exports, export{subject: subject, to: []string{own.name}})
		}
		transcripts(active, p, &own, &u)
		own.users = []user{u}
		principals = append(principals, own)
	}
	return slices.Concat([]account{store, intake, telemetry}, reads, principals)
}

// transcripts lets a detector hear each principal that speaks, and one that speaks send
// to each detector: the subject that the detector hears names who sent it.
func transcripts(active []principal.Principal, p principal.Principal, own *account, u *user) {
	for _, other := range active {
		switch {
		case p.Role == principal.Detector && speaks(other):
			own.exports = append(own.exports, export{subject: HeardTranscript(other), to: []string{AccountOf(other)}})
		case speaks(p) && other.Role == principal.Detector:
			subject := TranscriptSubject(other.Name)
			u.publish = append(u.publish, subject)
			own.imports = append(own.imports, service{account: AccountOf(other), subject: HeardTranscript(p), as: subject})
		}
	}
	if p.Role == principal.Detector {
		u.publish = append(u.publish, "_R_.>")
		u.subscribe = append(u.subscribe, "transcript.>")
	}
}

// readRequests are the JetStream requests that read a stream, without prefix.
func readRequests(stream string) []export {
	return []export{
		{subject: "STREAM.INFO." + stream},
		{subject: "STREAM.MSG.GET." + stream},
		{subject: "DIRECT.GET." + stream},
		{subject: "CONSUMER.CREATE." + stream + ".>"},
		{subject: "CONSUMER.INFO." + stream + ".*"},
		{subject: "CONSUMER.DELETE." + stream + ".*"},
		{subject: "CONSUMER.MSG.NEXT." + stream + ".*", stream: true},
	}
}

func subjects(prefix string, requests []export) []string {
	var out []string
	for _, r := range requests {
		out = append(out, prefix+"."+r.subject)
	}
	return out
}

const jsAPI = "$JS.API"

func manage(streams ...string) []string {
	var out []string
	for _, s := range streams {
		out = append(out, jsAPI+".STREAM.CREATE."+s, jsAPI+".STREAM.UPDATE."+s, jsAPI+".STREAM.INFO."+s)
	}
	return out
}

func storeAccounts(s *principal.Services) (store account, reads []account) {
	requests := readRequests(LedgerStream)
	store = account{name: storeAccount, jetStream: true, users: []user{{
		nkey: s.Users[principal.LoggerStore],
		publish: slices.Concat([]string{"ledger.>", "quarantine.>"}, subjects(jsAPI, requests),
			[]string{jsAPI + ".STREAM.INFO." + QuarantineStream}),
		subscribe: []string{"_INBOX.>"},
	}, {
		nkey:      s.Users[principal.BootstrapStore],
		publish:   manage(LedgerStream, QuarantineStream),
		subscribe: []string{"_INBOX.>"},
	}}}
	var names []string
	for _, who := range []string{principal.ReadProjector, principal.ReadResolver, principal.ReadOperator} {
		read := account{
			name:  readPrefix + strings.TrimPrefix(who, "service.read-"),
			users: []user{{nkey: s.Users[who], publish: subjects(ReadPrefix, requests), subscribe: []string{"_INBOX.>"}}},
		}
		for _, r := range requests {
			read.imports = append(read.imports, service{
				account: storeAccount, subject: jsAPI + "." + r.subject, as: ReadPrefix + "." + r.subject})
		}
		reads, names = append(reads, read), append(names, read.name)
	}
	for _, r := range requests {
		store.exports = append(store.exports, export{subject: jsAPI + "." + r.subject, to: names, stream: r.stream})
	}
	return store, reads
}

func telemetryUsers(s *principal.Services) account {
	return account{name: telemetryAccount, jetStream: true, users: []user{{
		nkey:      s.Users[principal.Ingress],
		publish:   []string{"buffer.>", "_R_.>", jsAPI + ".STREAM.INFO." + TelemetryStream},
		subscribe: []string{"telemetry.>", inboxOf(principal.Ingress) + ".>"},
	}, {
		nkey:      s.Users[principal.Sealer],
		publish:   subjects(jsAPI, readRequests(TelemetryStream)),
		subscribe: []string{inboxOf(principal.Sealer) + ".>"},
	}, {
		nkey:      s.Users[principal.BootstrapTelemetry],
		publish:   manage(TelemetryStream),
		subscribe: []string{"_INBOX.>"},
	}}}
}
