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
	h := *have
	if h != nil && (routeRank[h.To] > routeRank[r.To] ||
		routeRank[h.To] == routeRank[r.To] && (!h.SelfReported || r.SelfReported)) {
		return
	}
	*have = &r
}

// derive takes the route that led further: prose that names an opportunity hides no
// causal call that names none.
func (o *Opportunity) derive() {
	o.RoutedTo, o.Join, o.Route = RoutedNone, "", nil
	if o.Exact != nil {
		o.RoutedTo, o.Join, o.Route = o.Exact.To, JoinExact, o.Exact
	}
	if e := o.ByEpisode; e != nil && routeRank[e.To] > routeRank[o.RoutedTo] {
		o.RoutedTo, o.Join, o.Route = e.To, JoinEpisode, e
	}
}

func (o *Opportunity) introducedBy() string { return o.EventID }

// latest is an episode's most recent opportunity.
type latest struct {
	OpportunityID string `json:"opportunity_id"`
}

// early is a route that named its opportunity before the detector reported it:
// detectors work out of path, and an exact join does not depend on order.
type early struct {
	Route *Route `json:"route"`
}

const (
	opportunityKind = "p"
	latestKind      = "l"
	earlyKind       = "y"
	routingKind     = "t" // by episode and tool call: latest, when it was made
)

type opportunities struct{}

func (opportunities) Name() string { return Opportunities }
func (opportunities) Version() int { return 4 }

// Apply implements projector.Projection.
func (opportunities) Apply(b *projector.Batch, r *projector.Record) error {
	if d, ok := r.Event.Data.(*events.OpportunityDetected); ok {
		if r.Role() != roleDetector && !observer(r) {
			return forbidden(r)
		}
		detected(b, r, d)
		return nil
	}
	if route, ok := routeOf(r); ok {
		join(b, r, route)
	}
	return nil
}

func detected(b *projector.Batch, r *projector.Record, d *events.OpportunityDetected) {
	o, ok := projector.Edit[Opportunity](b, key(opportunityKind, r.Namespace, d.OpportunityID))
	if ok {
		o.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	*o = Opportunity{
		Namespace: r.Namespace, OpportunityID: d.OpportunityID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt,
		Principal: r.Principal, EpisodeID: r.Event.EpisodeID, Kind: d.Kind, Component: d.Component,
		DetectorVersion: d.DetectorVersion, TextSpanHash: d.TextSpanHash, Score: d.Score,
	}
	if e, ok := projector.View[early](b, key(earlyKind, r.Namespace, d.OpportunityID)); ok {
		route := *e.Route
		o.Exact = &route
	}
	o.derive()
	if r.Event.EpisodeID != "" {
		l, _ := projector.Edit[latest](b, key(latestKind, r.Namespace, r.Event.EpisodeID))
		l.OpportunityID = d.OpportunityID
	}
}

// routeOf says where a record shows that an opportunity led. A tool call counts
// as the dispatcher saw it; a denied one led nowhere.
func routeOf(r *projector.Record) (Route, bool) {
	route := Route{Seq: r.Seq, Type: r.Event.Type, SelfReported: r.Role() == roleAgent}
	switch d := r.Event.Data.(type) {
	case *events.ToolCalled:
		if !observer(r) || d.Status == callDenied {
			return Route{}, false
		}
		route.To = toolRoute(d.Tool, len(d.ReturnedEdges))
	case *events.GraphWritten:
		route.To = RoutedGraph
	case *events.ClaimRecorded:
		route.To = RoutedProse
	}
	return route, route.To != ""
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

// join gives the route to the opportunity that the record names. Only a record
// that names none falls back to the episode, and then to the latest opportunity
// before it alone, so that one call never routes several.
func join(b *projector.Batch, r *projector.Record, route Route) {
	if id := opportunityOf(r.Event); id != "" {
		ns, reason := namespaceOf[Opportunity](b, opportunityKind, id, r)
		if reason != "" {
			e, _ := projector.Edit[early](b, key(earlyKind, r.Namespace, id))
			keep(&e.Route, route)
			return
		}
		o, _ := projector.Edit[Opportunity](b, key(opportunityKind, ns, id))
		keep(&o.Exact, route)
		o.derive()
		return
	}
	if r.Event.EpisodeID == "" {
		return
	}
	l, ok := projector.View[latest](b, key(latestKind, r.Namespace, r.Event.EpisodeID))
	if !ok {
		return
	}
	if d, isCall := r.Event.Data.(*events.ToolCalled); isCall {
		// What another witness says of the call later is of the same opportunity.
		of, known := projector.Edit[latest](b, key(routingKind, r.Namespace, r.Event.EpisodeID, d.ToolCallID))
		if known {
			l = of
		}
		of.OpportunityID = l.OpportunityID
	}
	o, _ := projector.Edit[Opportunity](b, key(opportunityKind, r.Namespace, l.OpportunityID))
	keep(&o.ByEpisode, route)
	o.derive()
}

// GetOpportunity reads one opportunity; kv.ErrNotFound when there is none.
func GetOpportunity(s *projector.State, namespace, opportunityID string) (*Opportunity, error) {
	return projector.Load[Opportunity](s, Opportunities, key(opportunityKind, namespace, opportunityID))
}

// FindOpportunity reads the opportunities of an id in all namespaces.
func FindOpportunity(s *projector.State, opportunityID string) ([]Opportunity, error) {
	return find[Opportunity](s, Opportunities, opportunityKind, opportunityID)
}

// ListOpportunities calls fn for a namespace's opportunities in the order of ids.
func ListOpportunities(s *projector.State, namespace string, fn func(*Opportunity) error) error {
	return list(s, Opportunities, fn, opportunityKind, namespace)
}
