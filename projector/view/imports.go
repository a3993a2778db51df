package view

import (
	"errors"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// captureImported is context.capture of what was written down elsewhere and brought
// in later: what it says of the order of things is nobody's observation.
const captureImported = "imported"

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

func isImport(r *projector.Record) bool {
	return deref(r.Event.Data.Common().Capture) == captureImported
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
