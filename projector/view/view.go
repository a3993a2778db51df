// Package view holds the projections that scores, reports and `assay show` read,
// one file each, with the functions that read them.
//
// All views are kept by namespace. A record of an agent acts in its own
// namespace only. What a resolver, operator, dispatcher or detector says about
// a claim, prediction, experiment or opportunity counts in the namespace of the
// event that it refers to: of those in which the identifier was recorded, the
// one whose recording event the envelope's causationid names, or the only one,
// or the record's own; if none of these decides, the record is listed as an
// orphan and has no effect. Of two records that claim one identifier in a
// namespace the first counts and the others are counted as repeats.
//
// What was imported into a namespace is kept in another, whose name ends in
// "~imported": imported records act on each other alone, and so do live ones, but
// for a label, which may be of what was imported.
//
// Facts are kept and effects flagged: nothing that a principal sends is
// repaired, and null stays unknown. Collections that a principal could let grow
// without bound have a key for each element, so that no value grows with the
// number of records.
package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Names of the projections.
const (
	Abductions     = "abductions"
	Beliefs        = "beliefs"
	Blobs          = "blobs"
	Canaries       = "canaries"
	Cases          = "cases"
	Claims         = "claims"
	Contradictions = "contradictions"
	Decisions      = "decisions"
	Episodes       = "episodes"
	Experiments    = "experiments"
	Findings       = "findings"
	Graph          = "graph"
	IDs            = "ids"
	Imports        = "imports"
	Labels         = "labels"
	Offers         = "offers"
	Opportunities  = "opportunities"
	Predictions    = "predictions"
	Queries        = "queries"
	Rejections     = "rejections"
	Results        = "results"
	Runs           = "runs"
	Scans          = "scans"
	Shadow         = "shadow"
	ToolCalls      = "toolcalls"
	Usages         = "usage"
	Weeks          = "weeks"
)

// Roles whose word decides something here.
const (
	roleAgent      = "agent"
	roleDetector   = "detector"
	roleDispatcher = "dispatcher"
	roleHarness    = "harness"
	roleLogger     = "logger"
	roleOperator   = "operator"
	roleResolver   = "resolver"
)

// ErrRole means that a record was written by a role that may not write it. The
// logger refuses such events; one that is in the ledger all the same is parked.
var ErrRole = errors.New("role may not write this type")

// forbidden is ErrRole for a record.
func forbidden(r *projector.Record) error {
	return fmt.Errorf("%w: %s by %s", ErrRole, r.Event.Type, r.Principal)
}

// All are the projections of this package. But for those that say where records,
// ids and contents are, and what the logger itself says, they keep imports apart.
func All() []projector.Projection {
	all := []projector.Projection{blobs{}, ids{}, imports{}, rejections{}}
	for _, p := range []projector.Projection{
		abductions{}, beliefs{}, canaries{}, cases{}, claims{}, contradictions{}, decisions{}, episodes{}, experiments{}, findings{}, graph{},
		labels{}, offers{}, opportunities{}, predictions{}, queries{}, results{}, runs{}, scans{}, shadow{}, toolCalls{}, usages{}, weeks{},
	} {
		all = append(all, apart{p})
	}
	slices.SortFunc(all, func(p, q projector.Projection) int { return strings.Compare(p.Name(), q.Name()) })
	return all
}

// key joins parts so that no two lists of parts share a key and prefixes are
// those of whole parts. The second part is the namespace; what is apart in it
// stands between it and the rest, so that a prefix of the one is one of both.
func key(parts ...string) string {
	if len(parts) > 1 && isApart(parts[1]) {
		parts = slices.Replace(slices.Clone(parts), 1, 2, RecordedIn(parts[1]), importedMark)
	}
	n := 0
	for _, p := range parts {
		n += len(p) + 1
	}
	var b strings.Builder
	b.Grow(n)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(0)
		}
		if strings.IndexByte(p, 0) >= 0 || strings.IndexByte(p, 1) >= 0 {
			p = escaper.Replace(p)
		}
		b.WriteString(p)
	}
	return b.String()
}

// escaper keeps the separator out of the parts.
var (
	escaper   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescaper = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

// prefix is the start of every key that begins with the parts.
func prefix(parts ...string) string { return key(parts...) + "\x00" }

// deref is the string, or "" for unknown, where the two need not be told apart.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// stated tells what is not known, "", from all that is, for keys.
func stated(s *string) string {
	if s == nil {
		return ""
	}
	return "=" + *s
}

// places are the namespaces in which a projection has anything, in the order of
// their first record.
type places struct {
	Namespaces []string `json:"namespaces"`
}

const placesKey = "n"

// addPlace notes that the projection has something in the record's namespace.
func addPlace(b *projector.Batch, ns string) {
	if v, _ := projector.View[places](b, placesKey); slices.Contains(v.Namespaces, ns) {
		return
	}
	v, _ := projector.Edit[places](b, placesKey)
	v.Namespaces = append(v.Namespaces, ns)
}

// hasPlace says whether a projection has anything in a namespace.
func hasPlace(s *projector.State, projection, namespace string) (bool, error) {
	known, err := projector.Load[places](s, projection, placesKey)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil && slices.Contains(known.Namespaces, namespace), err
}

// Reasons for which a record that refers to something is an orphan.
const (
	orphanUnknown   = "unknown"   // nothing with that identifier was recorded before
	orphanAmbiguous = "ambiguous" // several namespaces have one
)

// recorded is a value that an event introduced.
type recorded interface {
	// introducedBy is the id of that event; "" when there was none.
	introducedBy() string
}

// namespaceOf finds the namespace of the kind of thing that the record refers to
// by id; the reason is empty when it is known.
func namespaceOf[T any, P interface {
	*T
	recorded
}](b *projector.Batch, kind, id string, r *projector.Record) (ns, reason string) {
	has := func(ns string) (eventID string, ok bool) {
		v, ok := projector.View[T](b, key(kind, ns, id))
		eventID = P(v).introducedBy()
		return eventID, ok && eventID != ""
	}
	_, own := has(r.Namespace)
	if r.Role() == roleAgent {
		if own {
			return r.Namespace, ""
		}
		return r.Namespace, orphanUnknown
	}
	known, _ := projector.View[places](b, placesKey)
	var found []string
	for _, ns := range known.Namespaces {
		if isApart(ns) != isApart(r.Namespace) {
			continue
		}
		eventID, ok := has(ns)
		if !ok {
			continue
		}
		if eventID == r.Event.CausationID {
			return ns, ""
		}
		found = append(found, ns)
	}
	switch {
	case len(found) == 0:
		return r.Namespace, orphanUnknown
	case len(found) == 1:
		return found[0], ""
	case own:
		return r.Namespace, ""
	}
	return r.Namespace, orphanAmbiguous
}

// find reads every value that an identifier has, one a namespace.
func find[T any](s *projector.State, projection, kind, id string) ([]T, error) {
	known, err := projector.Load[places](s, projection, placesKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []T
	for _, ns := range known.Namespaces {
		t, err := projector.Load[T](s, projection, key(kind, ns, id))
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *t)
	}
	return out, nil
}

// Listing is what a function such as ListClaims goes through.
type Listing struct{ projection, kind string }

// The listings that scores and metrics are sums over.
var (
	AllAbductions     = Listing{Abductions, abductionKind}
	AllBeliefReads    = Listing{Beliefs, beliefReadKind}
	AllClaims         = Listing{Claims, claimKind}
	AllContentChanges = Listing{Beliefs, contentChangeKind}
	AllContradictions = Listing{Contradictions, contradictionKind}
	AllDeliveries     = Listing{Findings, findingDelivery}
	AllExperiments    = Listing{Experiments, experimentKind}
	AllFindings       = Listing{Findings, findingKind}
	AllHypotheses     = Listing{Shadow, setKind}
	AllLineage        = Listing{Beliefs, lineageKind}
	AllOpportunities  = Listing{Opportunities, opportunityKind}
	AllPredictions    = Listing{Predictions, predictionKind}
	AllQueries        = Listing{Queries, queryKind}
	AllRatings        = Listing{Findings, ratingKind}
	AllTold           = Listing{Usages, usageKind}
	AllToolCalls      = Listing{ToolCalls, callKind}
	AllWithheld       = Listing{Findings, withheldKind}
)

// Whole is the namespace's listing as one page.
func (l Listing) Whole(namespace string) projector.Page {
	p := prefix(l.kind, namespace)
	return projector.Page{Projection: l.projection, Prefix: p, From: p}
}

// Pages cuts a namespace's listing. The List function of projector.State.On sees
// one page.
func (l Listing) Pages(s *projector.State, namespace string) ([]projector.Page, error) {
	return s.Pages(l.projection, prefix(l.kind, namespace))
}

// list calls fn for the values of a kind whose keys start with the parts.
func list[T any](s *projector.State, projection string, fn func(*T) error, parts ...string) error {
	return projector.Scan(s, projection, prefix(parts...), "", func(_ string, v *T) error { return fn(v) })
}

// Orphan is a record that refers to something it has no effect on.
type Orphan struct {
	Seq       ledger.Seq `json:"seq"`
	Principal string     `json:"principal"`
	Type      string     `json:"type"`
	ID        string     `json:"id"` // what it refers to
	Reason    string     `json:"reason"`
}

const orphanPrefix = "o"

func addOrphan(b *projector.Batch, ns, id, reason string, r *projector.Record) {
	o, _ := projector.Edit[Orphan](b, key(orphanPrefix, ns, projector.SeqKey(r.Seq)))
	*o = Orphan{Seq: r.Seq, Principal: r.Principal, Type: r.Event.Type, ID: id, Reason: reason}
}

// Orphans lists the orphans of a projection in a namespace.
func Orphans(s *projector.State, projection, namespace string, fn func(*Orphan) error) error {
	return list(s, projection, fn, orphanPrefix, namespace)
}

// observer says whether the record's writer sees what tools really do: the
// dispatcher, or the harness where it stands in for it.
func observer(r *projector.Record) bool {
	switch r.Role() {
	case roleDispatcher:
		return true
	case roleHarness:
		ns := RecordedIn(r.Namespace)
		return ns == "sandbox" || strings.HasPrefix(ns, "bench/")
	}
	return false
}

// Found is everything that one identifier names.
type Found struct {
	Events           []ledger.Seq         `json:"events"`
	Claims           []FoundClaim         `json:"claims"`
	Predictions      []FoundPrediction    `json:"predictions"`
	Opportunities    []Opportunity        `json:"opportunities"`
	Experiments      []Experiment         `json:"experiments"`
	ToolCalls        []ToolCall           `json:"tool_calls"`
	Hypotheses       []HypothesisSet      `json:"hypotheses"`
	Queries          []Query              `json:"queries"`
	Canaries         []FoundCanary        `json:"canaries"`
	Edges            []FoundEdge          `json:"edges,omitzero"`
	Beliefs          []FoundBelief        `json:"beliefs,omitzero"`
	Challenges       []Challenge          `json:"challenges,omitzero"`
	Transforms       []Transform          `json:"transforms,omitzero"`
	Contradictions   []FoundContradiction `json:"contradictions,omitzero"`
	Findings         []FoundFinding       `json:"findings,omitzero"`
	Runs             []FoundRun           `json:"runs,omitzero"`
	Cohorts          []Cohort             `json:"cohorts,omitzero"`
	Cases            []Case               `json:"cases,omitzero"`
	Preregistrations []Preregistration    `json:"preregistrations,omitzero"`
	Decisions        []Decision           `json:"decisions,omitzero"`
	Approvals        []Approval           `json:"approvals,omitzero"`
	Abductions       []Abduction          `json:"abductions,omitzero"`
	Probes           []Probe              `json:"probes,omitzero"`
}

// FoundClaim is a claim with everything that happened to it.
type FoundClaim struct {
	Claim
	History ClaimHistory `json:"history"`
}

// FoundPrediction is a prediction with its amendments, those without effect included.
type FoundPrediction struct {
	Prediction
	Amendments []Resolution `json:"amendments"`
}

// Empty says that the identifier names nothing.
func (f *Found) Empty() bool {
	return len(f.Events)+len(f.Claims)+len(f.Predictions)+len(f.Opportunities)+len(f.Experiments)+len(f.ToolCalls)+
		len(f.Hypotheses)+len(f.Queries)+len(f.Canaries)+
		len(f.Edges)+len(f.Beliefs)+len(f.Challenges)+len(f.Transforms)+
		len(f.Contradictions)+len(f.Findings)+len(f.Runs)+len(f.Cohorts)+len(f.Cases)+
		len(f.Preregistrations)+len(f.Decisions)+len(f.Approvals)+len(f.Abductions)+len(f.Probes) == 0
}

// Find looks an id up in all namespaces: of an event, or of anything that Found
// has a list for.
func Find(s *projector.State, id string) (f Found, err error) {
	steps := []func() error{
		func() (err error) { f.Events, err = FindEvent(s, id); return err },
		func() (err error) { f.Claims, err = findClaims(s, id); return err },
		func() (err error) { f.Predictions, err = findPredictions(s, id); return err },
		func() (err error) { f.Opportunities, err = FindOpportunity(s, id); return err },
		func() (err error) { f.Experiments, err = FindExperiment(s, id); return err },
		func() (err error) { f.ToolCalls, err = FindToolCall(s, id); return err },
		func() (err error) { f.Hypotheses, err = FindHypotheses(s, id); return err },
		func() (err error) { f.Queries, err = FindQuery(s, id); return err },
		func() (err error) { f.Canaries, err = findCanaries(s, id); return err },
		func() (err error) { f.Edges, err = FindEdge(s, id); return err },
		func() (err error) { f.Beliefs, err = FindBelief(s, id); return err },
		func() (err error) { f.Challenges, err = FindChallenge(s, id); return err },
		func() (err error) { f.Transforms, err = FindTransform(s, id); return err },
		func() (err error) { f.Contradictions, err = FindContradiction(s, id); return err },
		func() (err error) { f.Findings, err = FindFinding(s, id); return err },
		func() (err error) { f.Runs, err = FindRun(s, id); return err },
		func() (err error) { f.Cohorts, err = FindCohort(s, id); return err },
		func() (err error) { f.Cases, err = FindCase(s, id); return err },
		func() (err error) { f.Preregistrations, err = FindPreregistration(s, id); return err },
		func() (err error) { f.Decisions, err = FindDecision(s, id); return err },
		func() (err error) { f.Approvals, err = FindApproval(s, id); return err },
		func() (err error) { f.Abductions, err = FindAbduction(s, id); return err },
		func() (err error) { f.Probes, err = FindProbe(s, id); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Found{}, err
		}
	}
	return f, nil
}

// Named are identifiers by the kind of what they name.
type Named struct {
	Claims, Predictions, Opportunities, Experiments, Hypotheses []string
}

// FindNamed finds what Find would of identifiers whose kind is known, kind by kind in
// their order; what names nothing is left out.
func FindNamed(s *projector.State, n Named) (f Found, err error) {
	err = errors.Join(
		findEach(s, n.Claims, &f.Claims, findClaims),
		findEach(s, n.Predictions, &f.Predictions, findPredictions),
		findEach(s, n.Opportunities, &f.Opportunities, FindOpportunity),
		findEach(s, n.Experiments, &f.Experiments, FindExperiment),
		findEach(s, n.Hypotheses, &f.Hypotheses, FindHypotheses),
	)
	return f, err
}

func findEach[T any](s *projector.State, ids []string, to *[]T, find func(*projector.State, string) ([]T, error)) error {
	for _, id := range ids {
		found, err := find(s, id)
		if err != nil {
			return err
		}
		*to = append(*to, found...)
	}
	return nil
}

func findClaims(s *projector.State, id string) (out []FoundClaim, err error) {
	found, err := FindClaim(s, id)
	for i := range found {
		h, err := GetClaimHistory(s, &found[i])
		if err != nil {
			return nil, err
		}
		out = append(out, FoundClaim{found[i], h})
	}
	return out, err
}

func findPredictions(s *projector.State, id string) (out []FoundPrediction, err error) {
	found, err := FindPrediction(s, id)
	for _, p := range found {
		f := FoundPrediction{Prediction: p}
		err := ListAmendments(s, p.Namespace, id, func(r *Resolution) error {
			f.Amendments = append(f.Amendments, *r)
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, err
}

// opportunityOf is the opportunity that an event says it answers, or "".
func opportunityOf(e *events.Event) string { return deref(e.Data.Common().OpportunityID) }
