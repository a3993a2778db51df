package broker

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"
)

// Unauthenticated is the account of refused connections in Refusals.
const Unauthenticated = "(unauthenticated)"

// serverLog passes the server's log on to zerolog and counts in it what the
// server refused: that never reaches the logger's intake, so the log is the
// only place where it can be counted.
type serverLog struct {
	log zerolog.Logger
	// accountOf names the account whose key the connection of that number named;
	// "" for unknown.
	accountOf func(id uint64) string

	mu       sync.Mutex
	refusals map[string]uint64 // by account
	fatal    string            // what ended the server's start
}

func newServerLog(log zerolog.Logger, accountOf func(id uint64) string) *serverLog {
	return &serverLog{log: log, accountOf: accountOf, refusals: map[string]uint64{}}
}

// Noticef and the others implement the server's Logger.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }

func (l *serverLog) Warnf(format string, v ...any) { l.log.Warn().Msgf(format, v...) }

func (l *serverLog) Debugf(format string, v ...any) { l.log.Debug().Msgf(format, v...) }

func (l *serverLog) Tracef(format string, v ...any) { l.log.Trace().Msgf(format, v...) }

// Fatalf does not end the process: the one who starts the server asks fatalError.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	l.fatal = fmt.Sprintf(format, v...)
	l.mu.Unlock()
	l.log.Error().Msgf(format, v...)
}

func (l *serverLog) Errorf(format string, v ...any) {
	account, id, ok := refusedAccount(format)
	if !ok {
		l.log.Error().Msgf(format, v...)
		return
	}
	if id != 0 {
		account = cmp.Or(l.accountOf(id), account)
	}
	l.mu.Lock()
	l.refusals[account]++
	n := l.refusals[account]
	l.mu.Unlock()
	// A flood must not fill the log: the 1st, 2nd, 4th, 8th … are told.
	if bits.OnesCount64(n) == 1 {
		l.log.Warn().Str("account", account).Uint64("refused", n).Msgf(format, v...)
	}
}

func (l *serverLog) fatalError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *serverLog) clearFatal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = ""
}

func (l *serverLog) counts() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.refusals)
}

// clientLine splits what the server says of a client:
//
//	<address> - cid:<n>[ - "<version:language:name>"][ - "<account>/nkey:<key>"] - <message>
//
// Name and message are the client's to choose, so the line is read from the
// left, quoted part by quoted part: the server quotes the name as Go does. It
// is applied to the format and not to the formatted text, which a name with
// verbs such as %[1]q could rewrite.
var clientLine = regexp.MustCompile(`^[^"]*? - cid:(\d+)((?: - "(?:[^"\\]|\\.)*")*) - ([^"].*)$`)

var quotedPart = regexp.MustCompile(` - "((?:[^"\\]|\\.)*)"`)

// overLimit is said of a connection whose key the server found right, before it
// says whose it is.
const overLimit = "maximum account active connections exceeded"

var refusalMessages = []string{
	"Publish Violation", "Subscription Violation",
	"authentication error", "%v - %s", // of an unknown and of a named user
	"%s: %d vs %d", // maximum payload exceeded
	"maximum subscriptions exceeded", overLimit,
}

// refusedAccount says of which account a log line reports a refusal. id is not 0
// where the line says no account, but the key that the connection of that number
// named was found right.
func refusedAccount(format string) (account string, id uint64, ok bool) {
	m := clientLine.FindStringSubmatch(format)
	if m == nil {
		return "", 0, false
	}
	refusal := false
	for _, text := range refusalMessages {
		refusal = refusal || strings.HasPrefix(m[3], text)
	}
	if !refusal {
		return "", 0, false
	}
	// The account is in the last quoted part, once the client is known.
	if parts := quotedPart.FindAllStringSubmatch(m[2], -1); len(parts) > 0 {
		if account, _, ok := strings.Cut(parts[len(parts)-1][1], "/nkey:"); ok {
			return account, 0, true
		}
	}
	if strings.HasPrefix(m[3], overLimit) {
		id, _ = strconv.ParseUint(m[1], 10, 64)
	}
	return Unauthenticated, id, true
}
