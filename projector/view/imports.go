package view

import (
	"errors"
	"strings"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// importedMark ends the namespace in which views keep what was imported into
// another: "production~imported". No namespace has a tilde, and no id but an episode's.
const importedMark = "~imported"

// apart is a projection that keeps what was imported apart from what is live, in a
// namespace of its own: neither takes an identifier from the other, moves it,
// closes it or stands in its episode. A listing of a namespace has both, for their
// keys begin alike (key).
type apart struct{ projector.Projection }

// Apply implements projector.Projection.
func (p apart) Apply(b *projector.Batch, r *projector.Record) error {
	if isImport(r) {
		moved := *r
		moved.Namespace += importedMark
		r = &moved
	}
	return p.Projection.Apply(b, r)
}

func isImport(r *projector.Record) bool {
	return r.Event.Data.Common().IsImported()
}

// KeptIn is the namespace in which views keep what a record of a namespace says, by the
// context of its event.
func KeptIn(ns string, c *events.Context) string {
	if c.IsImported() {
		return ns + importedMark
	}
	return ns
}

// isApart says whether a namespace holds what was imported into another.
func isApart(ns string) bool { return strings.HasSuffix(ns, importedMark) }

// RecordedIn is the namespace in which the records of a row's namespace stand: that
// into which it was imported, else itself.
func RecordedIn(ns string) string { return strings.TrimSuffix(ns, importedMark) }

// twinIn is the namespace of what has the same identifiers on the other side: of what
// is live that of its import, and the other way round.
func twinIn(ns string) string {
	if isApart(ns) {
		return RecordedIn(ns)
	}
	return ns + importedMark
}

// idIn is an identifier of what has no namespace, as it stands in keys: one that an
// imported record names is another than a live one.
func idIn(ns, id string) string {
	if isApart(ns) {
		return id + importedMark
	}
	return id
}

// imports marks the records that were imported, of all namespaces.
//
//	i <record>   imported
type imports struct{}

// imported is a mark.
type imported struct{}

const importKind = "i"

func (imports) Name() string { return Imports }
func (imports) Version() int { return 1 }

// Apply implements projector.Projection.
func (imports) Apply(b *projector.Batch, r *projector.Record) error {
	if isImport(r) {
		projector.Edit[imported](b, key(importKind, projector.SeqKey(r.Seq)))
	}
	return nil
}

// HasImports says whether any record was imported.
func HasImports(s *projector.State) (has bool, err error) {
	err = list(s, Imports, func(*imported) error {
		has = true
		return kv.ErrStop
	}, importKind)
	return has, err
}

// IsImported says whether a record was imported: it tells of what happened before
// it was recorded, and is no live behaviour.
func IsImported(s *projector.State, seq ledger.Seq) (bool, error) {
	_, err := projector.Load[imported](s, Imports, key(importKind, projector.SeqKey(seq)))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
