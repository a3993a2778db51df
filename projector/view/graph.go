package view

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// GraphEdge is an edge of the agent's causal graph as the last write of it left
// it. Where a write and its provenance block both say something, the block holds.
type GraphEdge struct {
	Namespace     string             `json:"namespace"`
	EdgeID        *string            `json:"edge_id,omitzero"` // nil: known by its ends, relation, polarity and condition
	Cause         string             `json:"cause"`
	Effect        string             `json:"effect"`
	RelationKind  *string            `json:"relation_kind,omitzero"`
	Polarity      *string            `json:"polarity,omitzero"`
	Condition     *string            `json:"condition,omitzero"`
	Status        *string            `json:"status,omitzero"`
	SourceID      *string            `json:"source_id,omitzero"`
	ObservedAt    *string            `json:"observed_at,omitzero"`
	Scope         *string            `json:"scope,omitzero"`
	ContraryIDs   []string           `json:"contrary_ids,omitzero"`
	SourceClaimID *string            `json:"source_claim_id,omitzero"`
	Provenance    *events.Provenance `json:"provenance,omitzero"`

	Op         string     `json:"op"`      // of the last write: add, update, remove
	Present    bool       `json:"present"` // the graph holds it after that write
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	EpisodeID  string     `json:"episode_id,omitzero"`
	// SelfReported means that the last write is known from the agent alone, and
	// ObservedSeq is the last one that a dispatcher saw; 0 for none.
	SelfReported bool       `json:"self_reported"`
	ObservedSeq  ledger.Seq `json:"observed_seq"`
	FirstSeq     ledger.Seq `json:"first_seq"`
	EventID      string     `json:"event_id"` // of the first write
	Writes       int64      `json:"writes"`
	// Unadded flags an update or a removal of an edge that the graph was not
	// known to hold.
	Unadded bool `json:"unadded"`
}

// Name is what a label calls the edge: its id, or without one the event that first
// wrote it.
func (e *GraphEdge) Name() string {
	if e.EdgeID != nil {
		return *e.EdgeID
	}
	return e.EventID
}

// GraphQuery says which edges are asked for.
type GraphQuery struct {
	At            ledger.Seq // as the graph stood behind this record; 0: as it stands now
	Cause, Effect string     // "": any
}

// edgeRef leads from two ends to an edge.
type edgeRef struct {
	Edge string `json:"edge"`
}

// graph keeps every write to the causal graph, each with what it left behind, so
// that it can be asked what the graph held at any record.
//
//	e <namespace> <edge>                   GraphEdge, now
//	w <namespace> <edge> <seq>             GraphEdge, behind that write
//	x <namespace> <cause> <effect> <edge>  edgeRef: this edge has had these ends
type graph struct{}

const (
	edgeKind      = "e"
	edgeWriteKind = "w"
	edgeEndsKind  = "x"

	opAdd    = "add"
	opRemove = "remove"
)

func (graph) Name() string { return Graph }
func (graph) Version() int { return 2 }

// Apply implements projector.Projection.
func (graph) Apply(b *projector.Batch, r *projector.Record) error {
	d, ok := r.Event.Data.(*events.GraphWritten)
	if !ok {
		return nil
	}
	if r.Role() != roleAgent && !observer(r) {
		return forbidden(r)
	}
	id := edgeOf(d)
	e, _ := projector.Edit[GraphEdge](b, key(edgeKind, r.Namespace, id))
	e.Unadded = !e.Present && d.Op != opAdd
	if e.Unadded {
		addOrphan(b, r.Namespace, edgeName(d), orphanUnknown, r)
	}
	if e.Writes == 0 {
		addPlace(b, r.Namespace)
		e.Namespace, e.EdgeID, e.FirstSeq, e.EventID = r.Namespace, d.EdgeID, r.Seq, r.Event.ID
	}
	if d.Op == opAdd {
		e.clear()
	}
	e.say(d)
	e.Op, e.Present, e.Seq, e.RecordedAt, e.Principal, e.EpisodeID = d.Op, d.Op != opRemove, r.Seq, r.RecordedAt, r.Principal, r.Event.EpisodeID
	e.SelfReported = !observer(r)
	if !e.SelfReported {
		e.ObservedSeq = r.Seq
	}
	e.Writes++
	w, _ := projector.Edit[GraphEdge](b, key(edgeWriteKind, r.Namespace, id, projector.SeqKey(r.Seq)))
	*w = *e
	x, _ := projector.Edit[edgeRef](b, key(edgeEndsKind, r.Namespace, d.Cause, d.Effect, id))
	x.Edge = id
	return nil
}

// edgeOf is what an edge is known by: its id, or else all that tells it from
// others. A value that is not known is none of those that are.
func edgeOf(d *events.GraphWritten) string {
	if d.EdgeID != nil {
		return key("i", *d.EdgeID)
	}
	return key("k", d.Cause, d.Effect, stated(d.RelationKind), stated(d.Polarity), stated(d.Condition))
}

// edgeName names an edge to a reader.
func edgeName(d *events.GraphWritten) string {
	if d.EdgeID != nil {
		return *d.EdgeID
	}
	return d.Cause + " -> " + d.Effect
}

// clear forgets what was said of an edge: an add says all of it anew.
func (e *GraphEdge) clear() {
	e.RelationKind, e.Polarity, e.Condition, e.Status, e.SourceID, e.ObservedAt, e.Scope = nil, nil, nil, nil, nil, nil, nil
	e.ContraryIDs, e.SourceClaimID, e.Provenance = nil, nil, nil
}

// say takes up what a write says. What it leaves open stays as it was known.
func (e *GraphEdge) say(d *events.GraphWritten) {
	e.Cause, e.Effect = d.Cause, d.Effect
	e.RelationKind, e.Polarity, e.Condition = or(d.RelationKind, e.RelationKind), or(d.Polarity, e.Polarity), or(d.Condition, e.Condition)
	e.Status, e.SourceID, e.SourceClaimID = or(d.Status, e.Status), or(d.SourceID, e.SourceID), or(d.SourceClaimID, e.SourceClaimID)
	e.Provenance = or(d.Provenance, e.Provenance)
	observedAt, scope, contrary := d.ObservedAt, d.Scope, d.ContraryIDs
	if p := d.Provenance; p != nil {
		scope = or(p.Scope, scope)
		if p.Freshness != nil {
			observedAt = or(p.Freshness.ObservedAt, observedAt)
		}
		if p.Support != nil && p.Support.Against != nil {
			contrary = p.Support.Against
		}
	}
	e.ObservedAt, e.Scope = or(observedAt, e.ObservedAt), or(scope, e.Scope)
	if contrary != nil {
		e.ContraryIDs = contrary
	}
}

// ListGraph calls fn for the edges that a namespace's graph holds, or held behind
// the record that is asked for; projector.ErrAhead when the views are not there
// yet. No edge means that the graph did not hold an answer.
func ListGraph(s *projector.State, namespace string, q GraphQuery, fn func(*GraphEdge) error) error {
	held := func(e *GraphEdge) error {
		if e.Present && (q.Cause == "" || e.Cause == q.Cause) && (q.Effect == "" || e.Effect == q.Effect) {
			return fn(e)
		}
		return nil
	}
	if q.At == 0 && (q.Cause == "" || q.Effect == "") {
		return list(s, Graph, held, edgeKind, namespace)
	}
	if err := checkAt(s, Graph, q.At); err != nil {
		return err
	}
	if q.Cause == "" || q.Effect == "" {
		return asOf(s, Graph, q.At, held, edgeWriteKind, namespace)
	}
	return list(s, Graph, func(x *edgeRef) error {
		return asOf(s, Graph, q.At, held, edgeWriteKind, namespace, x.Edge)
	}, edgeEndsKind, namespace, q.Cause, q.Effect)
}

// ListGraphWrites calls fn for every write to a namespace's graph, with the edge
// as it was behind it, edge by edge in the order of records.
func ListGraphWrites(s *projector.State, namespace string, fn func(*GraphEdge) error) error {
	return list(s, Graph, fn, edgeWriteKind, namespace)
}

// FoundEdge is an edge with all writes of it.
type FoundEdge struct {
	GraphEdge
	History []GraphEdge `json:"history"`
}

// FindEdge reads the edges of an edge id in all namespaces, removed ones as well.
func FindEdge(s *projector.State, edgeID string) ([]FoundEdge, error) {
	id := key("i", edgeID)
	found, err := find[GraphEdge](s, Graph, edgeKind, id)
	var out []FoundEdge
	for _, e := range found {
		f := FoundEdge{GraphEdge: e}
		if f.History, err = all[GraphEdge](s, Graph, edgeWriteKind, e.Namespace, id); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, err
}

// all are the values of a kind whose keys start with the parts.
func all[T any](s *projector.State, projection string, parts ...string) (out []T, err error) {
	err = list(s, projection, func(v *T) error { out = append(out, *v); return nil }, parts...)
	return out, err
}

// checkAt says whether a projection has come to the record that a question is
// about; projector.ErrAhead when it has not.
func checkAt(s *projector.State, projection string, at ledger.Seq) error {
	for _, c := range s.Cursors() {
		if c.Projection == projection && at > c.Seq {
			return fmt.Errorf("%w: record %d, the views stand at %d", projector.ErrAhead, at, c.Seq)
		}
	}
	return nil
}

// asOf calls fn for each thing of which values are kept by record, with the last
// of them at or before the record; 0 is now. Its key is all but the last part of
// theirs.
func asOf[T any](s *projector.State, projection string, at ledger.Seq, fn func(*T) error, parts ...string) error {
	var thing string
	var last *T
	done := func() (err error) {
		if v := last; v != nil {
			last = nil
			err = fn(v)
		}
		return err
	}
	until := projector.SeqKey(at)
	err := projector.Scan(s, projection, prefix(parts...), "", func(k string, v *T) error {
		i := strings.LastIndexByte(k, 0)
		if k[:i] != thing {
			if err := done(); err != nil {
				return err
			}
			thing = k[:i]
		}
		if at == 0 || k[i+1:] <= until {
			last = v
		}
		return nil
	})
	if err == nil {
		err = done()
	}
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}
