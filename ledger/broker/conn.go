package broker

import (
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
)

// Dial connects to a broker at url, or to one of several with commas between
// them, with the credential. It keeps reconnecting
// for ever, unless the broker refuses the credential twice.
func Dial(url string, c principal.Credential, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append(connOptions(c), opts...)...)
}

func connOptions(c principal.Credential) []nats.Option {
	return []nats.Option{
		nats.Name(c.User),
		nats.Nkey(c.Public, c.Sign),
		nats.CustomInboxPrefix(inboxOf(c.User)),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		// A broker that falls silent is left after nine seconds.
		nats.PingInterval(3 * time.Second),
		// Errors are met where they matter, as a refused request; the
		// client's default would print them.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// ReadURL returns the address of the broker that runs in DIR.
func ReadURL(dir string) (string, error) {
	data, err := os.ReadFile(Dir(dir).URLFile())
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// ReadAPI is the JetStream of a connection in a READ account: the requests that
// read LEDGER, and no others.
func ReadAPI(nc *nats.Conn) (jetstream.JetStream, error) {
	return jetstream.NewWithAPIPrefix(nc, ReadPrefix)
}
