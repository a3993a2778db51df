package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/ledger"
)

// The streams.
const (
	LedgerStream     = "LEDGER"     // subject ledger.<type>: the records
	QuarantineStream = "QUARANTINE" // subject quarantine.>: raw bytes of what was refused
	TelemetryStream  = "TELEMETRY"  // subject buffer.<sensor>: samples until they are sealed
)

const (
	quarantineBytes = 64 << 20
	telemetryBytes  = 1 << 30
	// MinStore is the smallest store limit in bytes: the server sets aside what
	// the streams with a bound may take, and the ledger needs some beside it.
	MinStore = quarantineBytes + telemetryBytes + 64<<20
	// Shortest window that the server takes. Its de-duplication forgets and
	// would be a second, weaker notion of "the same event"; nobody sends
	// Nats-Msg-Id.
	duplicates = 100 * time.Millisecond
)

func ledgerConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: LedgerStream, Subjects: []string{"ledger.>"}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardNew, MaxMsgSize: ledger.MaxRecord, Duplicates: duplicates,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, AllowAtomicPublish: true,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, Replicas: replicas,
	}
}

func quarantineConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: QuarantineStream, Subjects: []string{"quarantine.>"}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardOld, MaxBytes: quarantineBytes, Duplicates: duplicates, AllowDirect: true,
		MaxMsgs: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, Replicas: replicas,
	}
}

func telemetryConfig(replicas int) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name: TelemetryStream, Subjects: []string{"buffer.>"}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardOld, MaxBytes: telemetryBytes, Duplicates: duplicates, AllowDirect: true,
		MaxMsgs: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, Replicas: replicas,
	}
	if replicas == 1 {
		// The buffer alone may lose its last moments: what counts is sealed.
		// The server does not offer it for copies.
		c.PersistMode = jetstream.AsyncPersistMode
	}
	return c
}

func configOf(stream string, replicas int) (jetstream.StreamConfig, bool) {
	switch stream {
	case LedgerStream:
		return ledgerConfig(replicas), true
	case QuarantineStream:
		return quarantineConfig(replicas), true
	case TelemetryStream:
		return telemetryConfig(replicas), true
	}
	return jetstream.StreamConfig{}, false
}

// CreateStreams makes the streams, or sets those that exist to the wanted
// configuration. The connections are those of the users bootstrap.store and
// bootstrap.telemetry. Each stream gets replicas copies: 1 on a broker that is
// alone, ClusterSize in a cluster. It may be repeated.
func CreateStreams(ctx context.Context, store, telemetry *nats.Conn, replicas int) error {
	for _, s := range []struct {
		nc      *nats.Conn
		configs []jetstream.StreamConfig
	}{
		{store, []jetstream.StreamConfig{ledgerConfig(replicas), quarantineConfig(replicas)}},
		{telemetry, []jetstream.StreamConfig{telemetryConfig(replicas)}},
	} {
		js, err := jetstream.New(s.nc)
		if err != nil {
			return err
		}
		for _, want := range s.configs {
			if err := ensureStream(ctx, js, want); err != nil {
				return fmt.Errorf("stream %s: %w", want.Name, err)
			}
		}
	}
	return nil
}

func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	ds, err := CheckStreams(ctx, js, want.Replicas, want.Name)
	if err != nil {
		return err
	}
	if len(ds) == 0 {
		return nil
	}
	if ds[0].Setting == settingExists {
		_, err = js.CreateStream(ctx, want)
	} else {
		_, err = js.UpdateStream(ctx, want)
	}
	if err != nil {
		return err
	}
	ds, err = CheckStreams(ctx, js, want.Replicas, want.Name)
	if err == nil && len(ds) > 0 {
		err = fmt.Errorf("the broker kept another setting: %s", ds[0])
	}
	return err
}

const settingExists = "exists"

// Deviation is a stream setting that is not what assay relies on.
type Deviation struct {
	Stream  string `json:"stream"`
	Setting string `json:"setting"`
	Want    string `json:"want"`
	Got     string `json:"got"`
}

// Missing says that the stream does not exist.
func (d Deviation) Missing() bool { return d.Setting == settingExists }

func (d Deviation) String() string {
	return fmt.Sprintf("stream %s: %s is %s, want %s", d.Stream, d.Setting, d.Got, d.Want)
}

// CheckStreams compares the named streams with what CreateStreams makes; the
// connection must be allowed to ask for their STREAM.INFO. A stream may have
// more copies than replicas. One that is missing is one deviation of the
// setting "exists".
func CheckStreams(ctx context.Context, js jetstream.JetStream, replicas int, streams ...string) ([]Deviation, error) {
	var out []Deviation
	for _, name := range streams {
		want, ok := configOf(name, replicas)
		if !ok {
			return nil, fmt.Errorf("no stream of assay's is named %q", name)
		}
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			out = append(out, Deviation{Stream: name, Setting: settingExists, Want: "true", Got: "false"})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask for stream %s: %w", name, err)
		}
		out = append(out, compare(want, s.CachedInfo().Config)...)
	}
	return out, nil
}

// compare lists every setting that could lose, change or hide a message.
func compare(want, got jetstream.StreamConfig) []Deviation {
	var out []Deviation
	check := func(setting string, w, g any) {
		if ws, gs := fmt.Sprint(w), fmt.Sprint(g); ws != gs {
			out = append(out, Deviation{Stream: want.Name, Setting: setting, Want: ws, Got: gs})
		}
	}
	check("subjects", want.Subjects, got.Subjects)
	check("storage", want.Storage, got.Storage)
	check("retention", want.Retention, got.Retention)
	check("discard", want.Discard, got.Discard)
	check("discard_new_per_subject", want.DiscardNewPerSubject, got.DiscardNewPerSubject)
	check("max_msgs", want.MaxMsgs, got.MaxMsgs)
	check("max_bytes", want.MaxBytes, got.MaxBytes)
	check("max_age", want.MaxAge, got.MaxAge)
	check("max_msgs_per_subject", want.MaxMsgsPerSubject, got.MaxMsgsPerSubject)
	check("max_msg_size", want.MaxMsgSize, got.MaxMsgSize)
	check("max_consumers", want.MaxConsumers, got.MaxConsumers)
	check("no_ack", want.NoAck, got.NoAck)
	check("duplicate_window", want.Duplicates, got.Duplicates)
	check("sealed", want.Sealed, got.Sealed)
	check("deny_delete", want.DenyDelete, got.DenyDelete)
	check("deny_purge", want.DenyPurge, got.DenyPurge)
	check("allow_direct", want.AllowDirect, got.AllowDirect)
	check("allow_atomic", want.AllowAtomicPublish, got.AllowAtomicPublish)
	check("allow_batched", want.AllowBatchPublish, got.AllowBatchPublish)
	check("allow_rollup_hdrs", want.AllowRollup, got.AllowRollup)
	check("allow_msg_ttl", want.AllowMsgTTL, got.AllowMsgTTL)
	check("subject_delete_marker_ttl", want.SubjectDeleteMarkerTTL, got.SubjectDeleteMarkerTTL)
	check("allow_msg_counter", want.AllowMsgCounter, got.AllowMsgCounter)
	check("allow_msg_schedules", want.AllowMsgSchedules, got.AllowMsgSchedules)
	if got.Replicas == 1 { // copies are not persisted in any other mode
		check("persist_mode", want.PersistMode, got.PersistMode)
	}
	if got.Replicas < want.Replicas {
		check("num_replicas", want.Replicas, got.Replicas)
	}
	check("first_seq", want.FirstSeq, max(got.FirstSeq, 1)-1) // the server says 1 or nothing
	check("compression", want.Compression, got.Compression)
	check("mirror", want.Mirror != nil, got.Mirror != nil)
	check("sources", len(want.Sources), len(got.Sources))
	check("republish", want.RePublish != nil, got.RePublish != nil)
	check("subject_transform", want.SubjectTransform != nil, got.SubjectTransform != nil)
	return out
}
