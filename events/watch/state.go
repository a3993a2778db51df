package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/durable"
	"assay/internal/versioned"
)

// stateVersion is the format of a state file.
const stateVersion = 1

// ErrOtherTable means that a state file is of another table or other columns: what it
// knows says nothing of this one.
var ErrOtherTable = errors.New("the state is of another table")

// row is what is known of a belief: hashes and no content.
type row struct {
	Content string `json:"content"`          // hex SHA-256
	Meta    string `json:"meta,omitzero"`    // hex SHA-256; "" without columns
	Version *int64 `json:"version,omitzero"` // null: none that is a whole number from 1
	Gone    bool   `json:"gone,omitzero"`    // deleted; the rest is as it was
}

// told is an event on its way: made once, so that a repeat sends the same bytes.
type told struct {
	Due   time.Time      `json:"due"`
	Event jsontext.Value `json:"event"`
}

// state is what a watcher keeps. Rows and events that follow from them are saved
// together, before an event is sent: a crash loses no change and tells none twice.
type state struct {
	V       int            `json:"v"`
	Table   Table          `json:"table"`
	Rows    map[string]row `json:"rows"`
	Pending []told         `json:"pending"`
	// Looked is false until the table was read once.
	Looked bool `json:"looked"`
}

// loadState reads a state; a file that is not there is an empty one.
func loadState(path string, t Table) (*state, error) {
	s := &state{V: stateVersion, Table: t, Rows: map[string]row{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var got state
	if err := versioned.Decode(raw, stateVersion, &got); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !got.Table.same(t) {
		return nil, fmt.Errorf("%w: %s is of %+v", ErrOtherTable, path, got.Table)
	}
	if got.Rows == nil {
		got.Rows = map[string]row{}
	}
	return &got, nil
}

func (s *state) save(path string) error {
	raw, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(path, raw, 0o600)
}

// emptyContent stands for the content of what is no longer there.
var emptyContent = func() string { h := sha256.Sum256(nil); return hex.EncodeToString(h[:]) }()

// Reasons that a revision gives.
const (
	reasonDeleted = "the row was deleted"
	reasonReused  = "the id of a deleted row is used again"
	whileAway     = "; it was found at the start, and happened while nobody watched"
)

// diff are the events that lead from what is known to what the table holds, in the
// order of ids. away says that nobody watched meanwhile.
func (s *state) diff(now map[string]row, away bool) (out []events.Payload) {
	ids := slices.Sorted(maps.Keys(now))
	for id, was := range s.Rows {
		if _, there := now[id]; !there && !was.Gone {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		is, there := now[id]
		was, known := s.Rows[id]
		switch {
		case !known:
			out = append(out, &events.BeliefCreated{BeliefID: id, Version: is.Version, ContentSHA256: is.Content})
		case !there:
			out = append(out, revised(id, was, row{Content: emptyContent}, reasonDeleted, away))
		case was.Gone:
			// Whatever version the new row counts is none of the old one's.
			is.Version = nil
			out = append(out, revised(id, row{}, is, reasonReused, away))
		default:
			out = append(out, changed(id, was, is, away)...)
		}
	}
	return out
}

// changed are the events of a row that was there and still is.
func changed(id string, was, is row, away bool) (out []events.Payload) {
	if is.Content != was.Content {
		out = append(out, revised(id, was, is, "", away))
	} else if !same(was.Version, is.Version) {
		d := revised(id, was, is, "", away)
		d.Change = changeMetadata
		out = append(out, d)
	}
	if is.Meta != was.Meta {
		allowed := true
		d := revised(id, row{}, row{Content: is.Content}, "", away)
		d.Change, d.Authorised = changeMetadata, &allowed
		out = append(out, d)
	}
	return out
}

const (
	changeContent  = "content"
	changeMetadata = "metadata"
)

// revised is a change of content. A version that did not change is none that anybody
// saw. What the content was before is told only together with its version: the agent
// may have told of others in between, which the table never showed.
func revised(id string, was, is row, reason string, away bool) *events.BeliefRevised {
	d := &events.BeliefRevised{BeliefID: id, Change: changeContent, ContentSHA256: is.Content}
	if was.Version != nil {
		d.OldVersion, d.OldContentSHA256 = was.Version, &was.Content
	}
	if !same(was.Version, is.Version) {
		d.NewVersion = is.Version
	}
	if reason == "" && away {
		reason = "the row was changed"
	}
	if away {
		reason += whileAway
	}
	if reason != "" {
		d.Reason = &reason
	}
	return d
}

func same(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// take makes what the table holds what is known; what is gone stays known as such.
func (s *state) take(now map[string]row) {
	for id, was := range s.Rows {
		if _, there := now[id]; !there {
			was.Gone = true
			now[id] = was
		}
	}
	s.Rows, s.Looked = now, true
}
