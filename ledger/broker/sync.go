package broker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SyncMode says when the broker makes an acknowledged message durable.
type SyncMode string

const (
	// SyncAlways: before the acknowledgement. The only mode for a ledger.
	SyncAlways SyncMode = "always"
	// SyncInterval: up to minutes after it.
	SyncInterval SyncMode = "interval"
	// SyncUnknown: an external broker does not tell its clients.
	SyncUnknown SyncMode = "unknown"
)

// SyncMode is the running server's mode.
func (b *Broker) SyncMode() SyncMode {
	srv, err := b.server()
	if err != nil {
		return SyncUnknown
	}
	if c := srv.JetStreamConfig(); c != nil && c.SyncAlways {
		return SyncAlways
	}
	return SyncInterval
}

// ExternalSyncMode asks the monitoring address of an external broker
// (http://host:port). Without one the mode is SyncUnknown.
func ExternalSyncMode(ctx context.Context, monitor string) (SyncMode, error) {
	if monitor == "" {
		return SyncUnknown, nil
	}
	varz, err := url.JoinPath(monitor, "varz")
	if err != nil {
		return SyncUnknown, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, varz, nil)
	if err != nil {
		return SyncUnknown, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return SyncUnknown, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return SyncUnknown, fmt.Errorf("%s: %s", varz, res.Status)
	}
	var answer struct {
		JetStream struct {
			Config *struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	// The answer is the server's, with members that change between versions.
	if err := json.UnmarshalRead(res.Body, &answer, jsontext.AllowDuplicateNames(true)); err != nil {
		return SyncUnknown, fmt.Errorf("%s: %w", varz, err)
	}
	switch c := answer.JetStream.Config; {
	case c == nil:
		return SyncUnknown, fmt.Errorf("%s: the server has no JetStream", varz)
	case c.SyncAlways:
		return SyncAlways, nil
	}
	return SyncInterval, nil
}
