package view

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Belief is a belief as the last record that changed it left it.
type Belief struct {
	Namespace  string     `json:"namespace"`
	BeliefID   string     `json:"belief_id"`
	EventID    string     `json:"event_id"` // of the first record of it
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	EpisodeID  string     `json:"episode_id,omitzero"`
	// ObservedSeq is the first record in which a dispatcher tells of it; 0 means
	// that it is known from the agent alone.
	ObservedSeq   ledger.Seq         `json:"observed_seq"`
	Version       *int64             `json:"version,omitzero"`
	ContentSHA256 *string            `json:"content_sha256,omitzero"`
	Rung          *string            `json:"rung,omitzero"`
	ClaimID       *string            `json:"claim_id,omitzero"`
	Provenance    *events.Provenance `json:"provenance,omitzero"`
	// Parents are the beliefs that it rests on, by its lineage or by the
	// transformation that it came out of.
	Parents []string `json:"parents,omitzero"`

	Status         string  `json:"status"` // held, challenged, superseded
	SupersededBy   *string `json:"superseded_by,omitzero"`
	OpenChallenges int64   `json:"open_challenges"` // that no revision has answered
	// The records since which it has been challenged or superseded, that last
	// changed its content, and that last made or revised it; 0 for none.
	ChallengedSeq ledger.Seq `json:"challenged_seq,omitzero"`
	SupersededSeq ledger.Seq `json:"superseded_seq,omitzero"`
	ContentSeq    ledger.Seq `json:"content_seq,omitzero"`
	ReviewedSeq   ledger.Seq `json:"reviewed_seq"`

	ChangedSeq ledger.Seq `json:"changed_seq"` // the record behind which it stands so
	Change     string     `json:"change"`      // that record's type
	Repeats    int64      `json:"repeats"`     // further records of what was known
}

func (v *Belief) introducedBy() string { return v.EventID }

// Statuses of a belief.
const (
	BeliefHeld       = "held"
	BeliefChallenged = "challenged"
	BeliefSuperseded = "superseded"
	BeliefUnknown    = "unknown" // of one that is read, and that nobody recorded
)

// Challenge is one belief.challenged. Whether it called for a revision is for a
// label to say.
type Challenge struct {
	Namespace       string     `json:"namespace"`
	ChallengeID     string     `json:"challenge_id"`
	BeliefID        string     `json:"belief_id"`
	EventID         string     `json:"event_id"`
	Seq             ledger.Seq `json:"seq"`
	RecordedAt      time.Time  `json:"recorded_at"`
	Principal       string     `json:"principal"`
	EpisodeID       string     `json:"episode_id,omitzero"`
	Version         *int64     `json:"version,omitzero"`
	EvidenceIDs     []string   `json:"evidence_ids,omitzero"`
	ContradictionID *string    `json:"contradiction_id,omitzero"`
	Reason          *string    `json:"reason,omitzero"`
	AnsweredSeq     ledger.Seq `json:"answered_seq"` // the first belief.revised that names it; 0: none
	Repeats         int64      `json:"repeats"`
}

func (c *Challenge) introducedBy() string { return c.EventID }

// ContentChange is one change of a belief's content, by whatever it became known.
type ContentChange struct {
	Namespace  string     `json:"namespace"`
	BeliefID   string     `json:"belief_id"`
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	OldSHA256  *string    `json:"old_sha256"` // null: not known
	NewSHA256  string     `json:"new_sha256"`
	OldVersion *int64     `json:"old_version"`
	NewVersion *int64     `json:"new_version"`
	// Versioned says whether it came with a version of its own; null when that
	// cannot be told. False is a silent mutation.
	Versioned *bool `json:"versioned"`
	// By is how it became known: belief.revised tells of it; gap is what a revision
	// found changed before it; the rest saw other content than was recorded.
	By string `json:"by"`
	// Authorised is the policy's word; null where none was asked.
	Authorised *bool `json:"authorised"`
}

// ByGap is a change that a later revision found.
const ByGap = "gap"

// BeliefRead is one belief.read with what was wrong with it at that moment.
type BeliefRead struct {
	Namespace           string     `json:"namespace"`
	BeliefID            string     `json:"belief_id"`
	Seq                 ledger.Seq `json:"seq"`
	RecordedAt          time.Time  `json:"recorded_at"`
	Principal           string     `json:"principal"`
	EpisodeID           string     `json:"episode_id,omitzero"`
	Version             *int64     `json:"version"`
	CurrentVersion      *int64     `json:"current_version"`
	PendingInvalidation *bool      `json:"pending_invalidation"` // the store's own word
	Status              string     `json:"status"`               // of the belief; unknown when nobody recorded it
	// OldVersion: an older version than the current one was given out; null when
	// either is not known.
	OldVersion *bool `json:"old_version"`
	// StaleBy is the first thing that made the belief stale: an ancestor was
	// superseded, challenged or revised after the belief was made or last revised.
	// Other supports may still carry it. StaleCauses counts all of them.
	StaleBy     *StaleCause `json:"stale_by,omitzero"`
	StaleCauses int64       `json:"stale_causes"`
}

// StaleCause is an ancestor that no longer is what a belief was made on.
type StaleCause struct {
	BeliefID string     `json:"belief_id"`
	Cause    string     `json:"cause"` // superseded, challenged, revised
	Seq      ledger.Seq `json:"seq"`   // since when
}

const causeRevised = "revised"

// contentOf is the content of one version of a belief.
type contentOf struct {
	SHA256 string `json:"sha256"`
}

// beliefs keeps what a memory believes, by version, with the ways in which its
// content and lineage changed, and what was read of it.
//
//	b <namespace> <belief>             Belief, now
//	v <namespace> <belief> <seq>       Belief, behind that record
//	w <namespace> <belief> <version>   contentOf
//	c <namespace> <challenge>          Challenge
//	g <namespace> <belief> <seq> <by>  ContentChange
//	l <namespace> <belief> <seq> <n>   LineageStep
//	t <namespace> <transformation>     Transform
//	r <namespace> <seq>                BeliefRead
type beliefs struct{}

const (
	beliefKind        = "b"
	beliefAtKind      = "v"
	beliefContentKind = "w"
	challengeKind     = "c"
	contentChangeKind = "g"
	lineageKind       = "l"
	transformKind     = "t"
	beliefReadKind    = "r"
)

func (beliefs) Name() string { return Beliefs }
func (beliefs) Version() int { return 3 }

// Apply implements projector.Projection.
func (beliefs) Apply(b *projector.Batch, r *projector.Record) error {
	switch r.Event.Data.(type) {
	case *events.BeliefRead, *events.BeliefTransformed:
		if !observer(r) {
			return forbidden(r)
		}
	case *events.BeliefCreated, *events.BeliefChallenged, *events.BeliefRevised, *events.BeliefSuperseded, *events.LineageChanged:
		if r.Role() != roleAgent && !observer(r) {
			return forbidden(r)
		}
	}
	f := believing{b, r}
	switch d := r.Event.Data.(type) {
	case *events.BeliefCreated:
		f.create(d)
	case *events.BeliefChallenged:
		f.challenge(d)
	case *events.BeliefRevised:
		f.revise(d)
	case *events.BeliefSuperseded:
		f.supersede(d)
	case *events.LineageChanged:
		f.changeLineage(d)
	case *events.BeliefRead:
		f.read(d)
	case *events.BeliefTransformed:
		f.transform(d)
	}
	return nil
}

// believing folds one record into the beliefs.
type believing struct {
	b *projector.Batch
	r *projector.Record
}

// place is the namespace of a belief that was recorded before, or the record's.
func (f believing) place(id string) (ns string, known bool) {
	ns, reason := namespaceOf[Belief](f.b, beliefKind, id, f.r)
	if reason != "" {
		addOrphan(f.b, ns, id, reason, f.r)
	}
	return ns, reason == ""
}

// change edits a belief and keeps what it is behind the record.
func (f believing) change(ns, id string, fn func(*Belief)) {
	v, ok := projector.Edit[Belief](f.b, key(beliefKind, ns, id))
	if !ok {
		addPlace(f.b, ns)
		*v = Belief{
			Namespace: ns, BeliefID: id, EventID: f.r.Event.ID, Seq: f.r.Seq, RecordedAt: f.r.RecordedAt,
			Principal: f.r.Principal, EpisodeID: f.r.Event.EpisodeID, ReviewedSeq: f.r.Seq,
		}
	}
	if v.ObservedSeq == 0 && observer(f.r) {
		v.ObservedSeq = f.r.Seq
	}
	fn(v)
	v.Status = BeliefHeld
	switch {
	case v.SupersededSeq > 0:
		v.Status = BeliefSuperseded
	case v.OpenChallenges > 0:
		v.Status = BeliefChallenged
	}
	v.ChangedSeq, v.Change = f.r.Seq, f.r.Event.Type
	at, _ := projector.Edit[Belief](f.b, key(beliefAtKind, ns, id, projector.SeqKey(f.r.Seq)))
	*at = *v
}

func (f believing) create(d *events.BeliefCreated) {
	ns := f.r.Namespace
	if observer(f.r) {
		// An audit of the store tells of a belief where the agent recorded it.
		if at, reason := namespaceOf[Belief](f.b, beliefKind, d.BeliefID, f.r); reason == "" {
			ns = at
		}
	}
	f.change(ns, d.BeliefID, func(v *Belief) {
		if v.Seq != f.r.Seq {
			v.Repeats++
		}
		f.see(v, sighting{version: d.Version, sha256: d.ContentSHA256})
		v.Rung, v.ClaimID = or(v.Rung, d.Rung), or(v.ClaimID, d.ClaimID)
		if v.Provenance == nil && d.Provenance != nil {
			v.Provenance = d.Provenance
			v.rest(d.Provenance.Lineage)
		}
	})
}

// rest takes up the parents that a lineage names; what is not known of it changes
// nothing.
func (v *Belief) rest(l *events.Lineage) {
	if l != nil && l.Parents != nil {
		v.Parents = l.Parents
	}
}

func (f believing) challenge(d *events.BeliefChallenged) {
	ns, known := f.place(d.BeliefID)
	if !known {
		return
	}
	c, ok := projector.Edit[Challenge](f.b, key(challengeKind, ns, d.ChallengeID))
	if ok {
		c.Repeats++
		return
	}
	*c = Challenge{
		Namespace: ns, ChallengeID: d.ChallengeID, BeliefID: d.BeliefID, EventID: f.r.Event.ID, Seq: f.r.Seq, RecordedAt: f.r.RecordedAt,
		Principal: f.r.Principal, EpisodeID: f.r.Event.EpisodeID, Version: d.Version, EvidenceIDs: d.EvidenceIDs,
		ContradictionID: d.ContradictionID, Reason: d.Reason,
	}
	f.change(ns, d.BeliefID, func(v *Belief) {
		if v.OpenChallenges == 0 {
			v.ChallengedSeq = f.r.Seq
		}
		v.OpenChallenges++
	})
}

// answer closes the challenge that a revision names.
func (f believing) answer(v *Belief, challengeID string) {
	k := key(challengeKind, v.Namespace, challengeID)
	if c, ok := projector.View[Challenge](f.b, k); !ok || c.BeliefID != v.BeliefID {
		addOrphan(f.b, v.Namespace, challengeID, orphanUnknown, f.r)
		return
	}
	c, _ := projector.Edit[Challenge](f.b, k)
	if c.AnsweredSeq > 0 {
		return
	}
	c.AnsweredSeq = f.r.Seq
	if v.OpenChallenges--; v.OpenChallenges == 0 {
		v.ChallengedSeq = 0
	}
}

func (f believing) revise(d *events.BeliefRevised) {
	ns, known := f.place(d.BeliefID)
	if !known {
		return
	}
	f.change(ns, d.BeliefID, func(v *Belief) {
		if f.told(v, d.NewVersion, d.ContentSHA256) && d.Change == "content" {
			v.Repeats++ // the other of agent and audit tells of the same revision
		} else {
			f.gap(v, d)
			f.see(v, sighting{version: d.NewVersion, oldVersion: d.OldVersion, sha256: d.ContentSHA256, revision: true, authorised: d.Authorised})
			if d.Change == "content" || !observer(f.r) {
				// An edit of metadata that an audit of the store saw is no review of the belief.
				v.ReviewedSeq = f.r.Seq
			}
		}
		if d.Provenance != nil {
			f.reviseLineage(v, d)
			v.Provenance = d.Provenance
			v.rest(d.Provenance.Lineage)
		}
		if d.ChallengeID != nil {
			f.answer(v, *d.ChallengeID)
		}
	})
}

// told says whether a version, or without one the belief, is known to have this
// content already.
func (f believing) told(v *Belief, version *int64, sha256 string) bool {
	if version == nil {
		return v.ContentSHA256 != nil && *v.ContentSHA256 == sha256
	}
	w, ok := projector.View[contentOf](f.b, contentKey(v, *version))
	return ok && w.SHA256 == sha256
}

func contentKey(v *Belief, version int64) string {
	return key(beliefContentKind, v.Namespace, v.BeliefID, projector.SeqKey(ledger.Seq(version)))
}

// gap takes down that the content had changed before a revision that starts from
// other content than was known.
func (f believing) gap(v *Belief, d *events.BeliefRevised) {
	old := d.OldContentSHA256
	if old == nil || v.ContentSHA256 == nil || f.told(v, nil, *old) || d.OldVersion != nil && f.told(v, d.OldVersion, *old) {
		return
	}
	f.changed(v, ContentChange{
		OldSHA256: v.ContentSHA256, NewSHA256: *old, OldVersion: v.Version, NewVersion: d.OldVersion,
		Versioned: differ(v.Version, d.OldVersion), By: ByGap,
	})
	if d.OldVersion != nil {
		w, _ := projector.Edit[contentOf](f.b, contentKey(v, *d.OldVersion))
		w.SHA256 = *old
	}
	v.ContentSHA256, v.Version, v.ContentSeq = old, or(d.OldVersion, v.Version), f.r.Seq
}

// differ compares what may not be known.
func differ(a, b *int64) *bool {
	if a == nil || b == nil {
		return nil
	}
	is := *a != *b
	return &is
}

// older compares versions that may not be known.
func older(version, current *int64) *bool {
	if version == nil || current == nil {
		return nil
	}
	is := *version < *current
	return &is
}

// sighting is content that a record tells a belief to have.
type sighting struct {
	version    *int64 // nil: not known, or of a revision: none
	oldVersion *int64
	sha256     string
	revision   bool
	authorised *bool
}

// see compares what a record says of a belief's content with what was known.
// Content without a version is compared with the current one; only a revision
// without a version is known to have none.
func (f believing) see(v *Belief, n sighting) {
	c := ContentChange{
		OldSHA256: v.ContentSHA256, NewSHA256: n.sha256, OldVersion: or(n.oldVersion, v.Version), NewVersion: n.version,
		By: f.r.Event.Type, Authorised: n.authorised,
	}
	c.Versioned = differ(c.OldVersion, c.NewVersion)
	current := true
	if n.version == nil {
		if f.told(v, nil, n.sha256) {
			return
		}
		if n.revision {
			c.Versioned = new(bool)
		}
	} else {
		w, had := projector.Edit[contentOf](f.b, contentKey(v, *n.version))
		before := w.SHA256
		w.SHA256 = n.sha256
		current = v.Version == nil || *n.version >= *v.Version
		switch {
		case had && before == n.sha256:
			v.Version = or(v.Version, n.version)
			return
		case had: // this version had other content
			c.OldSHA256, c.OldVersion, c.Versioned = &before, n.version, new(bool)
		case !current: // an older version that nobody told of
			return
		case f.told(v, nil, n.sha256): // a new version of the same content
			v.Version = n.version
			return
		}
	}
	// What is seen for the first time of a belief is no change of it.
	isChange := c.OldSHA256 != nil || n.revision
	if isChange {
		f.changed(v, c)
	}
	if !current {
		return
	}
	v.Version, v.ContentSHA256 = or(n.version, v.Version), &n.sha256
	if isChange {
		v.ContentSeq = f.r.Seq
	}
}

func (f believing) changed(v *Belief, c ContentChange) {
	c.Namespace, c.BeliefID, c.Seq, c.RecordedAt, c.Principal = v.Namespace, v.BeliefID, f.r.Seq, f.r.RecordedAt, f.r.Principal
	at, _ := projector.Edit[ContentChange](f.b, key(contentChangeKind, v.Namespace, v.BeliefID, projector.SeqKey(f.r.Seq), c.By))
	*at = c
}

func (f believing) supersede(d *events.BeliefSuperseded) {
	ns, known := f.place(d.BeliefID)
	if !known {
		return
	}
	f.change(ns, d.BeliefID, func(v *Belief) {
		if v.SupersededSeq > 0 {
			v.Repeats++
			return
		}
		v.SupersededSeq, v.SupersededBy = f.r.Seq, &d.SupersededBy
	})
}

func (f believing) read(d *events.BeliefRead) {
	ns, known := f.place(d.BeliefID)
	n, _ := projector.Edit[BeliefRead](f.b, key(beliefReadKind, ns, projector.SeqKey(f.r.Seq)))
	*n = BeliefRead{
		Namespace: ns, BeliefID: d.BeliefID, Seq: f.r.Seq, RecordedAt: f.r.RecordedAt, Principal: f.r.Principal, EpisodeID: f.r.Event.EpisodeID,
		Version: d.Version, CurrentVersion: d.CurrentVersion, PendingInvalidation: d.PendingInvalidation, Status: BeliefUnknown,
	}
	if !known {
		addPlace(f.b, ns)
		n.OldVersion = older(d.Version, d.CurrentVersion)
		return
	}
	v, _ := projector.View[Belief](f.b, key(beliefKind, ns, d.BeliefID))
	n.Status = v.Status
	n.OldVersion = older(d.Version, or(d.CurrentVersion, v.Version))
	n.StaleBy, n.StaleCauses = f.stale(v)
	if d.ContentSHA256 != nil && d.Version != nil && !f.told(v, d.Version, *d.ContentSHA256) {
		f.change(ns, d.BeliefID, func(v *Belief) { f.see(v, sighting{version: d.Version, sha256: *d.ContentSHA256}) })
	}
}

// stale finds the ancestors that have changed since the belief, and what lies
// between it and them, was last made or revised. An ancestor that gave way to a
// belief which this one rests on, or to it, does not count.
func (f believing) stale(v *Belief) (first *StaleCause, n int64) {
	// since is, for each ancestor, the record behind which a change of it has not
	// been taken up on at least one way down to the belief.
	since := map[string]ledger.Seq{v.BeliefID: 0}
	ancestors := map[string]*Belief{}
	for queue := []*Belief{v}; len(queue) > 0; queue = queue[1:] {
		child := queue[0]
		behind := max(since[child.BeliefID], child.ReviewedSeq)
		for _, id := range child.Parents {
			if was, seen := since[id]; seen && was <= behind {
				continue
			}
			since[id] = behind
			if p, ok := projector.View[Belief](f.b, key(beliefKind, v.Namespace, id)); ok {
				ancestors[id] = p
				queue = append(queue, p)
			}
		}
	}
	var causes []StaleCause
	for id, p := range ancestors {
		take := func(cause string, at ledger.Seq) {
			if at > since[id] {
				causes = append(causes, StaleCause{id, cause, at})
			}
		}
		if _, rests := since[deref(p.SupersededBy)]; !rests {
			take(BeliefSuperseded, p.SupersededSeq)
		}
		take(BeliefChallenged, p.ChallengedSeq)
		take(causeRevised, p.ContentSeq)
	}
	if len(causes) == 0 {
		return nil, 0
	}
	least := slices.MinFunc(causes, func(a, b StaleCause) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.BeliefID, b.BeliefID), cmp.Compare(a.Cause, b.Cause))
	})
	return &least, int64(len(causes))
}

// ListBeliefs calls fn for a namespace's beliefs in the order of ids, as they
// stood behind a record; 0 is now.
func ListBeliefs(s *projector.State, namespace string, at ledger.Seq, fn func(*Belief) error) error {
	if at == 0 {
		return list(s, Beliefs, fn, beliefKind, namespace)
	}
	if err := checkAt(s, Beliefs, at); err != nil {
		return err
	}
	return asOf(s, Beliefs, at, fn, beliefAtKind, namespace)
}

// GetBelief reads a belief as it stood behind a record, 0 is now; kv.ErrNotFound
// when there was none.
func GetBelief(s *projector.State, namespace, beliefID string, at ledger.Seq) (found *Belief, err error) {
	if at == 0 {
		return projector.Load[Belief](s, Beliefs, key(beliefKind, namespace, beliefID))
	}
	if err := checkAt(s, Beliefs, at); err != nil {
		return nil, err
	}
	err = asOf(s, Beliefs, at, func(v *Belief) error { found = v; return nil }, beliefAtKind, namespace, beliefID)
	if err == nil && found == nil {
		err = kv.ErrNotFound
	}
	return found, err
}

// ListChallenges calls fn for a namespace's challenges in the order of ids.
func ListChallenges(s *projector.State, namespace string, fn func(*Challenge) error) error {
	return list(s, Beliefs, fn, challengeKind, namespace)
}

// FindChallenge reads the challenges of an id in all namespaces.
func FindChallenge(s *projector.State, challengeID string) ([]Challenge, error) {
	return find[Challenge](s, Beliefs, challengeKind, challengeID)
}

// ListContentChanges calls fn for a namespace's changes of content, belief by
// belief in the order of records.
func ListContentChanges(s *projector.State, namespace string, fn func(*ContentChange) error) error {
	return list(s, Beliefs, fn, contentChangeKind, namespace)
}

// ListBeliefReads calls fn for a namespace's reads in the order of records.
func ListBeliefReads(s *projector.State, namespace string, fn func(*BeliefRead) error) error {
	return list(s, Beliefs, fn, beliefReadKind, namespace)
}

// FoundBelief is a belief with all that happened to it.
type FoundBelief struct {
	Belief
	History []Belief        `json:"history"`
	Content []ContentChange `json:"content_changes"`
	Lineage []LineageStep   `json:"lineage"`
}

// FindBelief reads the beliefs of an id in all namespaces.
func FindBelief(s *projector.State, beliefID string) ([]FoundBelief, error) {
	found, err := find[Belief](s, Beliefs, beliefKind, beliefID)
	var out []FoundBelief
	for _, v := range found {
		f, errs := FoundBelief{Belief: v}, [3]error{}
		f.History, errs[0] = all[Belief](s, Beliefs, beliefAtKind, v.Namespace, beliefID)
		f.Content, errs[1] = all[ContentChange](s, Beliefs, contentChangeKind, v.Namespace, beliefID)
		f.Lineage, errs[2] = LineageOf(s, v.Namespace, beliefID)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, err
}
