package view

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// LineageStep is a belief's lineage passing through a writer: an output of a
// transformation, or a change of what a belief says of its derivation.
type LineageStep struct {
	Namespace   string     `json:"namespace"`
	BeliefID    string     `json:"belief_id"`
	Seq         ledger.Seq `json:"seq"`
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	Writer      string     `json:"writer"` // as the record names it, else its component, else the principal
	By          string     `json:"by"`     // the record's type
	TransformID *string    `json:"transform_id,omitzero"`
	Op          *string    `json:"op,omitzero"`
	From        []string   `json:"from,omitzero"`    // inputs that the output rests on
	Foreign     []string   `json:"foreign,omitzero"` // of them those that were no inputs
	// Derived says whether anything that it rests on was derived; null when the
	// origin of some is not known.
	Derived *bool `json:"derived"`
	// Lost means that an output names no input, or that evidence or parents which
	// were known before are gone; null when the lineage before or after is not
	// known. Missing are these.
	Lost    *bool    `json:"lost"`
	Missing []string `json:"missing,omitzero"`
	// OriginKept says of what rests on something derived that it is still called
	// derived; null when its origin is not known, or nothing below it is derived.
	OriginKept *bool `json:"origin_kept"`
	Authorised *bool `json:"authorised"` // the policy's word; null where none was asked
}

// Transform is one step of consolidation. Of an id the first counts.
type Transform struct {
	Namespace   string               `json:"namespace"`
	TransformID string               `json:"transform_id"`
	EventID     string               `json:"event_id"`
	Seq         ledger.Seq           `json:"seq"`
	RecordedAt  time.Time            `json:"recorded_at"`
	Principal   string               `json:"principal"`
	Op          string               `json:"op"`
	Writer      *string              `json:"writer,omitzero"`
	Inputs      []events.BeliefInput `json:"inputs"`
	Outputs     []string             `json:"outputs"` // belief ids
	Dropped     []string             `json:"dropped"` // inputs that no output rests on
	Repeats     int64                `json:"repeats"`
}

func (t *Transform) introducedBy() string { return t.EventID }

const originDerived = "derived"

func (f believing) transform(d *events.BeliefTransformed) {
	ns := f.r.Namespace
	t, ok := projector.Edit[Transform](f.b, key(transformKind, ns, d.TransformID))
	if ok {
		t.Repeats++
		return
	}
	addPlace(f.b, ns)
	*t = Transform{
		Namespace: ns, TransformID: d.TransformID, EventID: f.r.Event.ID, Seq: f.r.Seq, RecordedAt: f.r.RecordedAt, Principal: f.r.Principal,
		Op: d.Op, Writer: d.Writer, Inputs: d.Inputs, Outputs: []string{}, Dropped: []string{},
	}
	inputs, used := make([]string, 0, len(d.Inputs)), make(map[string]bool)
	for _, in := range d.Inputs {
		inputs = append(inputs, in.BeliefID)
	}
	for i := range d.Outputs {
		t.Outputs = append(t.Outputs, d.Outputs[i].BeliefID)
		for _, id := range d.Outputs[i].From {
			used[id] = true
		}
		f.output(ns, d, &d.Outputs[i], inputs, i)
	}
	for _, id := range inputs {
		if !used[id] {
			t.Dropped = append(t.Dropped, id)
		}
	}
}

// output takes up one belief that a transformation gave out.
func (f believing) output(ns string, d *events.BeliefTransformed, o *events.BeliefOutput, inputs []string, place int) {
	lost := len(o.From) == 0
	step := LineageStep{TransformID: &d.TransformID, Op: &d.Op, From: o.From, Lost: &lost}
	rests := inputs
	if !lost {
		rests = o.From
	}
	for _, id := range o.From {
		if !slices.Contains(inputs, id) {
			step.Foreign = append(step.Foreign, id)
		}
	}
	step.Derived = f.derived(ns, rests)
	if step.Derived != nil && *step.Derived && o.Provenance != nil && o.Provenance.Origin != nil {
		kept := *o.Provenance.Origin == originDerived
		step.OriginKept = &kept
	}
	f.step(ns, o.BeliefID, deref(d.Writer), place, step)
	f.change(ns, o.BeliefID, func(v *Belief) {
		if o.ContentSHA256 != nil {
			f.see(v, sighting{version: o.Version, sha256: *o.ContentSHA256})
		}
		v.Provenance, v.ReviewedSeq = or(o.Provenance, v.Provenance), f.r.Seq
		if o.Provenance != nil {
			v.rest(o.Provenance.Lineage)
		}
		if !lost {
			v.Parents = parentsOf(o)
		}
	})
}

// parentsOf are the beliefs that an output rests on: the inputs that it names, and
// the parents of its lineage. It does not rest on what it was before.
func parentsOf(o *events.BeliefOutput) (out []string) {
	named := o.From
	if o.Provenance != nil && o.Provenance.Lineage != nil {
		named = slices.Concat(named, o.Provenance.Lineage.Parents)
	}
	for _, id := range named {
		if id != o.BeliefID && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// derived says whether one of the beliefs is known to be derived; nil when none is
// and the origin of some is not known.
func (f believing) derived(ns string, ids []string) *bool {
	is, open := false, len(ids) == 0
	for _, id := range ids {
		v, ok := projector.View[Belief](f.b, key(beliefKind, ns, id))
		switch {
		case !ok || v.Provenance == nil || v.Provenance.Origin == nil:
			open = true
		case *v.Provenance.Origin == originDerived:
			is = true
		}
	}
	if open && !is {
		return nil
	}
	return &is
}

// step keeps a step, with what the record says of its writer.
func (f believing) step(ns, beliefID, writer string, place int, st LineageStep) {
	st.Namespace, st.BeliefID, st.Seq, st.RecordedAt, st.Principal, st.By = ns, beliefID, f.r.Seq, f.r.RecordedAt, f.r.Principal, f.r.Event.Type
	st.Writer = cmp.Or(writer, deref(f.r.Event.Data.Common().Component), f.r.Principal)
	at, _ := projector.Edit[LineageStep](f.b, key(lineageKind, ns, beliefID, projector.SeqKey(f.r.Seq), strconv.Itoa(place)))
	*at = st
}

func (f believing) changeLineage(d *events.LineageChanged) {
	ns, known := f.place(d.BeliefID)
	if !known {
		return
	}
	f.change(ns, d.BeliefID, func(v *Belief) {
		st := LineageStep{Authorised: d.Authorised}
		st.compare(or(d.OldLineage, v.lineage()), d.NewLineage)
		st.origin(v)
		f.step(ns, d.BeliefID, "", 0, st)
		if d.NewLineage == nil {
			return
		}
		var p events.Provenance
		if v.Provenance != nil {
			p = *v.Provenance
		}
		p.Lineage = d.NewLineage
		v.Provenance = &p
		v.rest(d.NewLineage)
	})
}

// reviseLineage keeps a step when a revision brings another lineage.
func (f believing) reviseLineage(v *Belief, d *events.BeliefRevised) {
	st := LineageStep{Authorised: d.Authorised}
	st.compare(v.lineage(), d.Provenance.Lineage)
	st.origin(v)
	if st.Derived != nil && *st.Derived && d.Provenance.Origin != nil {
		kept := *d.Provenance.Origin == originDerived
		st.OriginKept = &kept
	}
	if st.Lost != nil || st.OriginKept != nil {
		f.step(v.Namespace, v.BeliefID, "", 0, st)
	}
}

func (v *Belief) lineage() *events.Lineage {
	if v.Provenance == nil {
		return nil
	}
	return v.Provenance.Lineage
}

// origin says whether the belief itself was derived.
func (st *LineageStep) origin(v *Belief) {
	if v.Provenance != nil && v.Provenance.Origin != nil {
		is := *v.Provenance.Origin == originDerived
		st.Derived = &is
	}
}

// compare finds the evidence and the parents that a lineage no longer names. A
// list that is not known cannot be compared.
func (st *LineageStep) compare(before, after *events.Lineage) {
	if before == nil || after == nil {
		return
	}
	for _, l := range [][2][]string{{before.EvidenceIDs, after.EvidenceIDs}, {before.Parents, after.Parents}} {
		if l[0] == nil || l[1] == nil {
			continue
		}
		if st.Lost == nil {
			st.Lost = new(bool)
		}
		for _, id := range l[0] {
			if !slices.Contains(l[1], id) {
				st.Missing = append(st.Missing, id)
				*st.Lost = true
			}
		}
	}
}

// ListLineage calls fn for a namespace's steps, belief by belief in the order of
// records.
func ListLineage(s *projector.State, namespace string, fn func(*LineageStep) error) error {
	return list(s, Beliefs, fn, lineageKind, namespace)
}

// LineageOf are the steps of one belief, in order.
func LineageOf(s *projector.State, namespace, beliefID string) ([]LineageStep, error) {
	return all[LineageStep](s, Beliefs, lineageKind, namespace, beliefID)
}

// ListTransforms calls fn for a namespace's transformations in the order of ids.
func ListTransforms(s *projector.State, namespace string, fn func(*Transform) error) error {
	return list(s, Beliefs, fn, transformKind, namespace)
}

// FindTransform reads the transformations of an id in all namespaces.
func FindTransform(s *projector.State, transformID string) ([]Transform, error) {
	return find[Transform](s, Beliefs, transformKind, transformID)
}

// WriterLineage is how one writer treats lineage.
type WriterLineage struct {
	Namespace string `json:"namespace"`
	Writer    string `json:"writer"`
	Steps     int64  `json:"steps"`
	// Of all steps: those that lost lineage, and those of which it is not known.
	Lost        int64 `json:"lost"`
	LostUnknown int64 `json:"lost_unknown"`
	// Of those that rest on something derived: how many, how many of them lost
	// their lineage, are called something else since, or have no known origin.
	Derived       int64 `json:"derived"`
	DerivedLost   int64 `json:"derived_lost"`
	OriginLost    int64 `json:"origin_lost"`
	OriginUnknown int64 `json:"origin_unknown"`
}

// ListLineageByWriter calls fn for each writer of a namespace in the order of names,
// and then for those of what was imported.
func ListLineageByWriter(s *projector.State, namespace string, fn func(*WriterLineage) error) error {
	sums := map[string]*WriterLineage{}
	err := ListLineage(s, namespace, func(st *LineageStep) error {
		w := sums[key(st.Namespace, st.Writer)]
		if w == nil {
			w = &WriterLineage{Namespace: st.Namespace, Writer: st.Writer}
			sums[key(st.Namespace, st.Writer)] = w
		}
		w.Steps++
		lost := st.Lost != nil && *st.Lost
		count(&w.Lost, lost)
		count(&w.LostUnknown, st.Lost == nil)
		if st.Derived != nil && *st.Derived {
			w.Derived++
			count(&w.DerivedLost, lost)
			count(&w.OriginUnknown, st.OriginKept == nil)
			count(&w.OriginLost, st.OriginKept != nil && !*st.OriginKept)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if err := fn(sums[name]); err != nil {
			return err
		}
	}
	return nil
}
