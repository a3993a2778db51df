package view

import (
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Opportunity is one entry of the detector's denominator, with where it led.
type Opportunity struct {
	OpportunityFacts
	// RoutedTo is causal_tool, graph, prose or none, and Join says how that
	// is known: exact by opportunity_id, episode by order; "" for none.
	RoutedTo string `json:"routed_to"`
	Join     string `json:"join"`
	Route    *Route `json:"route,omitzero"`
	// Exact and ByEpisode are the best of either join; Route is the one that led
	// further, of equals Exact.
	Exact     *Route `json:"exact,omitzero"`
	ByEpisode *Route `json:"by_episode,omitzero"`
}

// OpportunityFacts are what the detector said of an opportunity.
type OpportunityFacts struct {
	Namespace       string     `json:"namespace"`
	OpportunityID   string     `json:"opportunity_id"`
	EventID         string     `json:"event_id"`
	Seq             ledger.Seq `json:"seq"`
	RecordedAt      time.Time  `json:"recorded_at"`
	Principal       string     `json:"principal"`
	EpisodeID       string     `json:"episode_id,omitzero"`
	Kind            string     `json:"kind"`
	Component       string     `json:"component"`
	DetectorVersion string     `json:"detector_version"`
	TextSpanHash    string     `json:"text_span_hash"`
	Score           *float64   `json:"score,omitzero"`
	Repeats         int64      `json:"repeats"` // later opportunities of the same id
}

// Route is what followed an opportunity.
type Route struct {
	To   string     `json:"to"`
	Seq  ledger.Seq `json:"seq"`
	Type string     `json:"type"` // of the record
	// SelfReported means that only the agent says so: a graph.written of its
	// own, or the claim that is the prose.
	SelfReported bool `json:"self_reported"`
}

// Where an opportunity can lead, and how that is known.
const (
	RoutedCausalTool = "causal_tool"
	RoutedGraph      = "graph"
	RoutedProse      = "prose"
	RoutedNone       = "none"
	JoinExact        = "exact"
	JoinEpisode      = "episode"
)

var routeRank = map[string]int{RoutedProse: 1, RoutedGraph: 2, RoutedCausalTool: 3}

// keep puts the better route in place: the stronger kind, then what was
// observed before what was self-reported, then the earlier.
func keep(have **Route, r Route) {
	if h := *have; h == nil || r.beats(h) {
		*have = &r
	}
}

func (r *Route) beats(o *Route) bool {
	switch {
	case r.To != o.To:
		return routeRank[r.To] > routeRank[o.To]
	case r.SelfReported != o.SelfReported:
		return o.SelfReported
	}
	return r.Seq < o.Seq
}

// follow finds where the opportunity led. The route that led further counts: prose
// that names an opportunity hides no causal call that names none.
func (o *Opportunity) follow(s *projector.State) error {
	err := list(s, Opportunities, func(st *step) error {
		if stands, err := st.stands(s, o); !stands {
			return err
		}
		if st.Join == JoinExact {
			keep(&o.Exact, st.Route)
		} else {
			keep(&o.ByEpisode, st.Route)
		}
		return nil
	}, stepKind, o.Namespace, o.OpportunityID)
	o.RoutedTo = RoutedNone
	if o.Exact != nil {
		o.RoutedTo, o.Join, o.Route = o.Exact.To, JoinExact, o.Exact
	}
	if e := o.ByEpisode; e != nil && routeRank[e.To] > routeRank[o.RoutedTo] {
		o.RoutedTo, o.Join, o.Route = e.To, JoinEpisode, e
	}
	return err
}

func (o *OpportunityFacts) introducedBy() string { return o.EventID }

// step is where a record shows that an opportunity led. A call has one for each
// record in which a witness lets it lead anywhere, and only that of its best witness
// stands.
type step struct {
	Route Route    `json:"route"`
	Join  string   `json:"join"`
	Call  *callRef `json:"call,omitzero"` // that the record is of; nil for a claim or a write to the graph
}

// callRef finds a tool call as a record names it (GetToolCall).
type callRef struct {
	Namespace  string `json:"namespace"`
	EpisodeID  string `json:"episode_id,omitzero"`
	ToolCallID string `json:"tool_call_id"`
}

func (c *callRef) load(s *projector.State) (*ToolCall, error) {
	return GetToolCall(s, c.Namespace, c.EpisodeID, c.ToolCallID)
}

// stands says whether the step is one of the opportunity's. A call is as its best
// witness tells it, whenever that came, and of the episode's opportunity only if
// nobody had seen it before.
func (st *step) stands(s *projector.State, o *Opportunity) (bool, error) {
	if st.Call == nil {
		return true, nil
	}
	t, err := st.Call.load(s)
	if err != nil {
		return false, err
	}
	return t.Observed.Seq == st.Route.Seq && (st.Join == JoinExact || t.FirstObserved > o.Seq), nil
}

// latest is an episode's most recent opportunity.
type latest struct {
	OpportunityID string `json:"opportunity_id"`
}

// opportunities keeps what was detected, and beside it the steps that followed, or that
// named their opportunity before the detector reported it: detectors work out of path.
//
//	p <namespace> <opportunity>                 OpportunityFacts
//	l <namespace> <episode>                     latest
//	t <namespace> <episode> <tool call>         latest, when the call was first seen
//	r <namespace> <opportunity> <join>          step, the best of claims and writes
//	r <namespace> <opportunity> <join> <record> step of a call
type opportunities struct{}

const (
	opportunityKind = "p"
	latestKind      = "l"
	seenKind        = "t"
	stepKind        = "r"
)

func (opportunities) Name() string { return Opportunities }
func (opportunities) Version() int { return 5 }

// Apply implements projector.Projection.
func (opportunities) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.OpportunityDetected:
		if r.Role() != roleDetector && !observer(r) {
			return forbidden(r)
		}
		detected(b, r, d)
	case *events.ToolCalled:
		if observer(r) {
			called(b, r, d)
		}
	case *events.GraphWritten:
		wrote(b, r, RoutedGraph)
	case *events.ClaimRecorded:
		wrote(b, r, RoutedProse)
	}
	return nil
}

func detected(b *projector.Batch, r *projector.Record, d *events.OpportunityDetected) {
	o, ok := projector.Edit[OpportunityFacts](b, key(opportunityKind, r.Namespace, d.OpportunityID))
	if ok {
		o.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	*o = OpportunityFacts{
		Namespace: r.Namespace, OpportunityID: d.OpportunityID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt,
		Principal: r.Principal, EpisodeID: r.Event.EpisodeID, Kind: d.Kind, Component: d.Component,
		DetectorVersion: d.DetectorVersion, TextSpanHash: d.TextSpanHash, Score: d.Score,
	}
	if r.Event.EpisodeID != "" {
		l, _ := projector.Edit[latest](b, key(latestKind, r.Namespace, r.Event.EpisodeID))
		l.OpportunityID = d.OpportunityID
	}
}

// toolRoute goes by the tool's name and, for a tool of any other name, by
// whether it gave edges back.
func toolRoute(tool string, edges int) string {
	switch {
	case strings.HasPrefix(tool, "graph"):
		return RoutedGraph
	case strings.HasPrefix(tool, "causal"), strings.HasPrefix(tool, "counterfactual"), edges > 0:
		return RoutedCausalTool
	}
	return ""
}

// called keeps the step that a call is as an observer tells it; a denied one led
// nowhere.
func called(b *projector.Batch, r *projector.Record, d *events.ToolCalled) {
	last := latestAtCall(b, r, d)
	to := toolRoute(d.Tool, len(d.ReturnedEdges))
	if to == "" || d.Status == callDenied {
		return
	}
	if ns, id, how := joined(b, r, last); id != "" {
		st, _ := projector.Edit[step](b, key(stepKind, ns, id, how, projector.SeqKey(r.Seq)))
		*st = step{Route{To: to, Seq: r.Seq, Type: r.Event.Type}, how, &callRef{r.Namespace, r.Event.EpisodeID, d.ToolCallID}}
	}
}

// wrote keeps the step that a claim or a write to the graph is, if it is the best of
// them.
func wrote(b *projector.Batch, r *projector.Record, to string) {
	if ns, id, how := joined(b, r, latestOf(b, r)); id != "" {
		route := Route{to, r.Seq, r.Event.Type, r.Role() == roleAgent}
		if st, known := projector.Edit[step](b, key(stepKind, ns, id, how)); !known || route.beats(&st.Route) {
			*st = step{Route: route, Join: how}
		}
	}
}

// joined is the opportunity that a record is a step of, "" for none, and how that is
// known. Only a record that names none falls back to that of its episode, the latest
// alone, so that one call never routes several.
func joined(b *projector.Batch, r *projector.Record, latest string) (ns, id, how string) {
	if id = opportunityOf(r.Event); id == "" {
		return r.Namespace, latest, JoinEpisode
	}
	ns, _ = namespaceOf[OpportunityFacts](b, opportunityKind, id, r)
	return ns, id, JoinExact
}

// latestOf is the latest opportunity of the record's episode, "" for none.
func latestOf(b *projector.Batch, r *projector.Record) string {
	if r.Event.EpisodeID == "" {
		return ""
	}
	l, _ := projector.View[latest](b, key(latestKind, r.Namespace, r.Event.EpisodeID))
	return l.OpportunityID
}

// latestAtCall is the latest opportunity of a call's episode when the call was first
// seen, whoever saw it: what another witness says of it later is of the same.
func latestAtCall(b *projector.Batch, r *projector.Record, d *events.ToolCalled) string {
	last := latestOf(b, r)
	if last == "" {
		return ""
	}
	seen, ok := projector.Edit[latest](b, key(seenKind, r.Namespace, r.Event.EpisodeID, d.ToolCallID))
	if !ok {
		seen.OpportunityID = last
	}
	return seen.OpportunityID
}

// GetOpportunity reads one opportunity; kv.ErrNotFound when there is none.
func GetOpportunity(s *projector.State, namespace, opportunityID string) (*Opportunity, error) {
	f, err := projector.Load[OpportunityFacts](s, Opportunities, key(opportunityKind, namespace, opportunityID))
	if err != nil {
		return nil, err
	}
	o := &Opportunity{OpportunityFacts: *f}
	return o, o.follow(s)
}

// FindOpportunity reads the opportunities of an id in all namespaces.
func FindOpportunity(s *projector.State, opportunityID string) (out []Opportunity, err error) {
	found, err := find[OpportunityFacts](s, Opportunities, opportunityKind, opportunityID)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		o := Opportunity{OpportunityFacts: f}
		if err := o.follow(s); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// ListOpportunities calls fn for a namespace's opportunities in the order of ids.
func ListOpportunities(s *projector.State, namespace string, fn func(*Opportunity) error) error {
	return list(s, Opportunities, func(f *OpportunityFacts) error {
		o := &Opportunity{OpportunityFacts: *f}
		if err := o.follow(s); err != nil {
			return err
		}
		return fn(o)
	}, opportunityKind, namespace)
}
