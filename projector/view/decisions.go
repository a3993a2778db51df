package view

import (
	"cmp"
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Preregistration is what an experiment will be judged by. Of an id the first
// counts; a later one changes nothing.
type Preregistration struct {
	Namespace  string                           `json:"namespace"`
	PreregID   string                           `json:"prereg_id"`
	EventID    string                           `json:"event_id"`
	Seq        ledger.Seq                       `json:"seq"`
	RecordedAt time.Time                        `json:"recorded_at"`
	Principal  string                           `json:"principal"`
	Committed  *events.PreregistrationCommitted `json:"committed"`
	Repeats    int64                            `json:"repeats"`
}

// Decision is what was decided of a candidate.
type Decision struct {
	Namespace  string                   `json:"namespace"`
	DecisionID string                   `json:"decision_id"`
	EventID    string                   `json:"event_id"`
	Seq        ledger.Seq               `json:"seq"`
	RecordedAt time.Time                `json:"recorded_at"`
	Principal  string                   `json:"principal"`
	Decided    *events.DecisionRecorded `json:"decided"`
	// PreregSeq is the pre-registration that it names, if that was recorded before;
	// 0: it is exploratory. The flags say that it was judged by another metric or
	// another script than that fixed.
	PreregSeq     ledger.Seq `json:"prereg_seq"`
	OtherMetric   bool       `json:"other_metric"`
	OtherAnalysis bool       `json:"other_analysis"`
	Repeats       int64      `json:"repeats"`
}

// Approval is a request for the operator's word, and the answer. Without it the
// answer is no.
type Approval struct {
	ApprovalFacts
	Calls     int64 `json:"calls"`      // tool calls of which an observer names the grant as their cause, and that were let run
	CallsOver int64 `json:"calls_over"` // of them, those made when a limit was passed
	// Passed are the limits that were passed: until and seconds (from the grant on) by
	// ledger time, tool_calls by the calls under it. What else a limit names cannot
	// be told from the ledger.
	Passed []string `json:"passed,omitzero"`
	// Allowed says that what was asked for may be done: it was granted after it was
	// asked for, and no limit was passed.
	Allowed bool `json:"allowed"`
}

// ApprovalFacts are what the records say of one approval.
type ApprovalFacts struct {
	Namespace  string           `json:"namespace"`
	ApprovalID string           `json:"approval_id"`
	Requested  *ApprovalRequest `json:"requested,omitzero"` // nil: granted, and nobody had asked
	Granted    *ApprovalGrant   `json:"granted,omitzero"`
	Repeats    int64            `json:"repeats"`
}

func (a *ApprovalFacts) introducedBy() string {
	if a.Requested == nil {
		return ""
	}
	return a.Requested.EventID
}

// ApprovalRequest is what is asked for.
type ApprovalRequest struct {
	EventID    string        `json:"event_id"`
	Seq        ledger.Seq    `json:"seq"`
	RecordedAt time.Time     `json:"recorded_at"`
	Principal  string        `json:"principal"`
	What       string        `json:"what"`
	Why        string        `json:"why"`
	Limit      *events.Limit `json:"limit,omitzero"`
}

// ApprovalGrant is the operator's word.
type ApprovalGrant struct {
	EventID    string        `json:"event_id"`
	Seq        ledger.Seq    `json:"seq"`
	RecordedAt time.Time     `json:"recorded_at"`
	Principal  string        `json:"principal"`
	Limit      *events.Limit `json:"limit,omitzero"` // nil: as it was asked for
	Note       *string       `json:"note,omitzero"`
}

// FlagChange is one flag.changed.
type FlagChange struct {
	Namespace    string     `json:"namespace"`
	Flag         string     `json:"flag"`
	Seq          ledger.Seq `json:"seq"`
	RecordedAt   time.Time  `json:"recorded_at"`
	Principal    string     `json:"principal"`
	OldValue     *string    `json:"old_value"`
	NewValue     string     `json:"new_value"`
	AppliesTo    *string    `json:"applies_to"` // a namespace; null: everywhere
	DecisionID   *string    `json:"decision_id,omitzero"`
	ConfigSHA256 *string    `json:"config_sha256,omitzero"`
	Reason       *string    `json:"reason,omitzero"`
	// Unrecorded flags an old value that is not the one which the change before
	// left: somebody changed the flag in between.
	Unrecorded bool `json:"unrecorded"`
}

// grantOf is the approval that an event granted.
type grantOf struct {
	Namespace  string `json:"namespace"`
	ApprovalID string `json:"approval_id"`
}

// callUnder is a tool call that names a grant as its cause, by the first record of an
// observer who does.
type callUnder struct {
	Call       callRef    `json:"call"`
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
}

// flagValue is what a flag was last set to.
type flagValue struct {
	Value string `json:"value"`
}

// decisions keeps what was fixed before, decided after, allowed and switched.
//
//	p <namespace> <pre-registration>         Preregistration
//	d <namespace> <decision>                 Decision
//	a <namespace> <approval>                 ApprovalFacts
//	g <event of a grant>                     grantOf
//	c <namespace> <approval> <namespace of the call> <episode> <tool call>  callUnder
//	f <namespace> <seq>                      FlagChange
//	v <namespace> <flag> <where it applies>  flagValue
type decisions struct{}

const (
	preregKind    = "p"
	decisionKind  = "d"
	approvalKind  = "a"
	grantKind     = "g"
	underKind     = "c"
	flagKind      = "f"
	flagValueKind = "v"
)

func (decisions) Name() string { return Decisions }
func (decisions) Version() int { return 3 }

// Apply implements projector.Projection.
func (decisions) Apply(b *projector.Batch, r *projector.Record) error {
	switch r.Event.Data.(type) {
	case *events.PreregistrationCommitted, *events.DecisionRecorded, *events.ApprovalGranted, *events.FlagChanged:
		if r.Role() != roleOperator {
			return forbidden(r)
		}
	case *events.ApprovalRequested:
		if r.Role() != roleAgent && r.Role() != roleHarness {
			return forbidden(r)
		}
	}
	switch d := r.Event.Data.(type) {
	case *events.PreregistrationCommitted:
		v, ok := projector.Edit[Preregistration](b, key(preregKind, r.Namespace, d.PreregID))
		if ok {
			v.Repeats++
			return nil
		}
		addPlace(b, r.Namespace)
		*v = Preregistration{r.Namespace, d.PreregID, r.Event.ID, r.Seq, r.RecordedAt, r.Principal, d, 0}
	case *events.DecisionRecorded:
		decide(b, r, d)
	case *events.ApprovalRequested:
		request(b, r, d)
	case *events.ApprovalGranted:
		grant(b, r, d)
	case *events.FlagChanged:
		changeFlag(b, r, d)
	case *events.ToolCalled:
		if observer(r) && r.Event.CausationID != "" {
			noteCall(b, r, d)
		}
	}
	return nil
}

func decide(b *projector.Batch, r *projector.Record, d *events.DecisionRecorded) {
	v, ok := projector.Edit[Decision](b, key(decisionKind, r.Namespace, d.DecisionID))
	if ok {
		v.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	*v = Decision{
		Namespace: r.Namespace, DecisionID: d.DecisionID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Decided: d,
	}
	if d.PreregID == nil {
		return
	}
	p, ok := projector.View[Preregistration](b, key(preregKind, r.Namespace, *d.PreregID))
	if !ok {
		addOrphan(b, r.Namespace, *d.PreregID, orphanUnknown, r)
		return
	}
	v.PreregSeq = p.Seq
	v.OtherMetric = d.Metric != nil && *d.Metric != p.Committed.Endpoint.Metric
	v.OtherAnalysis = d.AnalysisSHA256 != nil && *d.AnalysisSHA256 != p.Committed.AnalysisSHA256
}

func request(b *projector.Batch, r *projector.Record, d *events.ApprovalRequested) {
	v, _ := projector.Edit[ApprovalFacts](b, key(approvalKind, r.Namespace, d.ApprovalID))
	v.Namespace, v.ApprovalID = r.Namespace, d.ApprovalID
	if v.Requested != nil {
		v.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	v.Requested = &ApprovalRequest{r.Event.ID, r.Seq, r.RecordedAt, r.Principal, d.What, d.Why, d.Limit}
}

// grant keeps the operator's word. One that nobody had asked for grants nothing.
func grant(b *projector.Batch, r *projector.Record, d *events.ApprovalGranted) {
	ns, reason := namespaceOf[ApprovalFacts](b, approvalKind, d.ApprovalID, r)
	if reason != "" {
		addOrphan(b, ns, d.ApprovalID, reason, r)
	}
	addPlace(b, ns)
	v, _ := projector.Edit[ApprovalFacts](b, key(approvalKind, ns, d.ApprovalID))
	v.Namespace, v.ApprovalID = ns, d.ApprovalID
	if v.Granted != nil {
		v.Repeats++
		return
	}
	if g, known := projector.Edit[grantOf](b, key(grantKind, idIn(r.Namespace, r.Event.ID))); !known {
		*g = grantOf{ns, d.ApprovalID}
	}
	v.Granted = &ApprovalGrant{r.Event.ID, r.Seq, r.RecordedAt, r.Principal, d.Limit, d.Note}
}

// noteCall notes a tool call that names a grant as its cause. Whether it was let run
// is what its best witness says, who may be heard later.
func noteCall(b *projector.Batch, r *projector.Record, d *events.ToolCalled) {
	g, ok := projector.View[grantOf](b, key(grantKind, idIn(r.Namespace, r.Event.CausationID)))
	if !ok {
		return
	}
	c, known := projector.Edit[callUnder](b, key(underKind, g.Namespace, g.ApprovalID, r.Namespace, r.Event.EpisodeID, d.ToolCallID))
	if !known {
		*c = callUnder{callRef{r.Namespace, r.Event.EpisodeID, d.ToolCallID}, r.Seq, r.RecordedAt}
	}
}

// limit is what an approval is bounded by: each bound is the grant's, or as it was
// asked for where that states none.
func (a *ApprovalFacts) limit() (l events.Limit) {
	if a.Requested != nil && a.Requested.Limit != nil {
		l = *a.Requested.Limit
	}
	if g := a.Granted.Limit; g != nil {
		l.ToolCalls, l.Seconds, l.Until = or(g.ToolCalls, l.ToolCalls), or(g.Seconds, l.Seconds), or(g.Until, l.Until)
	}
	return l
}

// passed are the limits of a granted approval that are passed at a ledger time, after
// so many calls.
func (a *ApprovalFacts) passed(now time.Time, calls int64) (out []string) {
	if a.Granted == nil {
		return nil
	}
	l := a.limit()
	if until, ok := events.Time(l.Until); ok && now.After(until) {
		out = append(out, "until")
	}
	if l.Seconds != nil && now.Sub(a.Granted.RecordedAt).Seconds() > *l.Seconds {
		out = append(out, "seconds")
	}
	if l.ToolCalls != nil && calls > *l.ToolCalls {
		out = append(out, "tool_calls")
	}
	return out
}

// at is the approval at a ledger time. A grant holds only for a request that stood
// before it.
func (a *ApprovalFacts) at(s *projector.State, now time.Time) (*Approval, error) {
	out := &Approval{ApprovalFacts: *a}
	calls, err := a.callsUnder(s)
	for _, c := range calls {
		out.Calls++
		count(&out.CallsOver, len(a.passed(c.RecordedAt, out.Calls)) > 0)
	}
	out.Passed = a.passed(now, out.Calls)
	out.Allowed = a.Requested != nil && a.Granted != nil && a.Requested.Seq < a.Granted.Seq && len(out.Passed) == 0
	return out, err
}

// callsUnder are the calls that were let run under the approval, each once, in the
// order of records.
func (a *ApprovalFacts) callsUnder(s *projector.State) (calls []callUnder, err error) {
	type id struct {
		namespace string
		first     ledger.Seq
	}
	at := map[id]int{} // of two records of one call, one may name no episode
	err = list(s, Decisions, func(c *callUnder) error {
		t, err := c.Call.load(s)
		if err != nil || !t.Executed() {
			return err
		}
		switch i, known := at[id{t.Namespace, t.FirstSeq}]; {
		case !known:
			at[id{t.Namespace, t.FirstSeq}] = len(calls)
			calls = append(calls, *c)
		case c.Seq < calls[i].Seq:
			calls[i] = *c
		}
		return nil
	}, underKind, a.Namespace, a.ApprovalID)
	slices.SortFunc(calls, func(a, b callUnder) int { return cmp.Compare(a.Seq, b.Seq) })
	return calls, err
}

func changeFlag(b *projector.Batch, r *projector.Record, d *events.FlagChanged) {
	last, had := projector.Edit[flagValue](b, key(flagValueKind, r.Namespace, d.Flag, stated(d.AppliesTo)))
	v, _ := projector.Edit[FlagChange](b, key(flagKind, r.Namespace, projector.SeqKey(r.Seq)))
	*v = FlagChange{
		Namespace: r.Namespace, Flag: d.Flag, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, OldValue: d.OldValue, NewValue: d.NewValue,
		AppliesTo: d.AppliesTo, DecisionID: d.DecisionID, ConfigSHA256: d.ConfigSHA256, Reason: d.Reason,
		Unrecorded: had && d.OldValue != nil && *d.OldValue != last.Value,
	}
	last.Value = d.NewValue
}

// ListPreregistrations calls fn for a namespace's pre-registrations in the order
// of ids.
func ListPreregistrations(s *projector.State, namespace string, fn func(*Preregistration) error) error {
	return list(s, Decisions, fn, preregKind, namespace)
}

// ListDecisions calls fn for a namespace's decisions in the order of ids.
func ListDecisions(s *projector.State, namespace string, fn func(*Decision) error) error {
	return list(s, Decisions, fn, decisionKind, namespace)
}

// ListApprovals calls fn for a namespace's approvals in the order of ids.
func ListApprovals(s *projector.State, namespace string, fn func(*Approval) error) error {
	l, err := s.Ledger()
	if err != nil {
		return err
	}
	return list(s, Decisions, func(f *ApprovalFacts) error {
		a, err := f.at(s, l.Time)
		if err != nil {
			return err
		}
		return fn(a)
	}, approvalKind, namespace)
}

// ListFlags calls fn for a namespace's changes of flags in the order of records.
func ListFlags(s *projector.State, namespace string, fn func(*FlagChange) error) error {
	return list(s, Decisions, fn, flagKind, namespace)
}

// FindPreregistration reads the pre-registrations of an id in all namespaces.
func FindPreregistration(s *projector.State, preregID string) ([]Preregistration, error) {
	return find[Preregistration](s, Decisions, preregKind, preregID)
}

// FindDecision reads the decisions of an id in all namespaces.
func FindDecision(s *projector.State, decisionID string) ([]Decision, error) {
	return find[Decision](s, Decisions, decisionKind, decisionID)
}

// FindApproval reads the approvals of an id in all namespaces.
func FindApproval(s *projector.State, approvalID string) (out []Approval, err error) {
	found, err := find[ApprovalFacts](s, Decisions, approvalKind, approvalID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	l, err := s.Ledger()
	for i := range found {
		if err != nil {
			return nil, err
		}
		var a *Approval
		if a, err = found[i].at(s, l.Time); err == nil {
			out = append(out, *a)
		}
	}
	return out, err
}
