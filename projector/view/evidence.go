package view

import (
	"errors"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// delivery is the first record that showed a piece of evidence, or that showed
// it with a certain content.
type delivery struct {
	Seq ledger.Seq `json:"seq"`
}

// Kinds of the projection of claims.
const (
	deliveryKind = "d"
	contentKind  = "h" // by evidence and hash
)

// deliver notes that evidence was shown, by anybody but an agent.
func deliver(b *projector.Batch, ns string, evidence []string, r *projector.Record) {
	for _, id := range evidence {
		k := key(deliveryKind, ns, id)
		if _, ok := projector.View[delivery](b, k); !ok {
			d, _ := projector.Edit[delivery](b, k)
			d.Seq = r.Seq
		}
	}
}

// deliverContent notes what the dispatcher put before the agent.
func deliverContent(b *projector.Batch, r *projector.Record, d *events.EvidenceDelivered) error {
	if !observer(r) {
		return forbidden(r)
	}
	deliver(b, r.Namespace, []string{d.EvidenceID}, r)
	k := key(contentKind, r.Namespace, d.EvidenceID, d.SHA256)
	if _, ok := projector.View[delivery](b, k); !ok {
		v, _ := projector.Edit[delivery](b, k)
		v.Seq = r.Seq
	}
	return nil
}

// EvidenceUse is a piece of evidence that a record cites: a claim, or what was
// made of a contradiction.
type EvidenceUse struct {
	EvidenceID string `json:"evidence_id"`
	// DeliveredSeq is the first record that delivered it, if that was before the
	// citing one; 0 flags evidence that its author cannot have had.
	DeliveredSeq ledger.Seq `json:"delivered_seq"`
	// SHA256 is the content that a claim pins; nil where none is.
	SHA256 *string `json:"sha256"`
	// ContentSeq is the first record before the citing one that delivered this
	// content; 0 where none did, or none is pinned.
	ContentSeq ledger.Seq `json:"content_seq"`
}

// EvidenceOf are the pieces of evidence that a claim cites, and those of which
// it only pins the content. Delivered is: what an evidence.delivered names; the
// id of a tool call that the dispatcher had recorded in the namespace; an
// evidence id of an outcome, a recheck or an experiment's observation.
func EvidenceOf(s *projector.State, c *Claim) ([]EvidenceUse, error) {
	var out []EvidenceUse
	place := make(map[string]int)
	for _, id := range c.EvidenceIDs {
		if _, ok := place[id]; !ok {
			place[id] = len(out)
			out = append(out, EvidenceUse{EvidenceID: id})
		}
	}
	for _, p := range c.EvidenceSnapshots {
		i, ok := place[p.EvidenceID]
		if !ok {
			i = len(out)
			place[p.EvidenceID] = i
			out = append(out, EvidenceUse{EvidenceID: p.EvidenceID})
		}
		out[i].SHA256 = &p.SHA256
	}
	for i := range out {
		if err := out[i].look(s, c.Namespace, c.Seq); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// look finds the deliveries in a namespace before a record.
func (u *EvidenceUse) look(s *projector.State, namespace string, before ledger.Seq) error {
	calls, err := callsOf(s, namespace, u.EvidenceID)
	if err != nil {
		return err
	}
	for _, t := range calls {
		if seq := t.FirstObserved; seq > 0 && seq < before && (u.DeliveredSeq == 0 || seq < u.DeliveredSeq) {
			u.DeliveredSeq = seq
		}
	}
	seq, err := deliveredAt(s, key(deliveryKind, namespace, u.EvidenceID), before)
	if err != nil {
		return err
	}
	if seq > 0 && (u.DeliveredSeq == 0 || seq < u.DeliveredSeq) {
		u.DeliveredSeq = seq
	}
	if u.SHA256 != nil {
		u.ContentSeq, err = deliveredAt(s, key(contentKind, namespace, u.EvidenceID, *u.SHA256), before)
	}
	return err
}

// ContentsOf are the hashes of the contents in which a piece of evidence had been
// delivered before a record.
func ContentsOf(s *projector.State, namespace, evidenceID string, before ledger.Seq) (hashes []string, err error) {
	start := prefix(contentKind, namespace, evidenceID)
	err = projector.Scan(s, Claims, start, "", func(k string, d *delivery) error {
		if d.Seq < before {
			hashes = append(hashes, unescaper.Replace(k[len(start):]))
		}
		return nil
	})
	return hashes, err
}

// deliveredAt is the record under a key if it is before another, else 0.
func deliveredAt(s *projector.State, k string, before ledger.Seq) (ledger.Seq, error) {
	d, err := projector.Load[delivery](s, Claims, k)
	if errors.Is(err, kv.ErrNotFound) || err == nil && d.Seq >= before {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return d.Seq, nil
}

// UndeliveredEvidence are the evidence ids of a claim that nothing had delivered
// before the claim was recorded.
func UndeliveredEvidence(s *projector.State, c *Claim) (missing []string, err error) {
	uses, err := EvidenceOf(s, c)
	for _, u := range uses {
		if u.DeliveredSeq == 0 {
			missing = append(missing, u.EvidenceID)
		}
	}
	return missing, err
}
