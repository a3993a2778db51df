package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/view"
)

// Case is a drawn case as a rater sees it. What would give away the detector's
// verdict, another rater's label or where the agent stands is not in Before: neither
// stratum, verdicts, confidences and statuses, nor the relation that the agent calls
// an edge.
type Case struct {
	events.AuditCase
	Stratum string `json:"stratum"`
	// Hidden says that the id would tell a detected turn from another, and must not be
	// shown: such a case is known by its text alone.
	Hidden bool   `json:"hidden"`
	Before []Fact `json:"before"`
	After  []Fact `json:"after,omitzero"` // for the questions that ask for what followed
}

// Fact is one line of a case.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Cases are those of a sample in one order over all strata, that of the seed, so that
// the order does not tell the strata apart. The views stand where the week was closed:
// a rater sees nothing later.
func Cases(s *projector.State, d *events.AuditSampled) ([]Case, error) {
	seed, err := ledger.ParseHash(d.Seed)
	if err != nil {
		return nil, err
	}
	set := metric.SetOf(d)
	var out []Case
	for _, st := range d.Strata {
		for _, c := range st.Cases {
			out = append(out, Case{AuditCase: c, Stratum: st.Stratum, Hidden: set == metric.SetDetector || set == metric.SetAbduction})
		}
	}
	slices.SortFunc(out, func(a, b Case) int {
		x, y := metric.Rank(seed, a.Kind, a.ID), metric.Rank(seed, b.Kind, b.ID)
		return cmp.Or(bytes.Compare(x[:], y[:]), cmp.Compare(a.Seq, b.Seq))
	})
	r := reader{s: s, namespace: d.Namespace}
	for i := range out {
		if out[i].Hidden {
			continue
		}
		if err := r.read(&out[i]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", out[i].Kind, out[i].ID, err)
		}
	}
	return out, nil
}

// reader looks up what a case is.
type reader struct {
	s         *projector.State
	namespace string
	edges     map[string]*view.GraphEdge // by name, once they were needed
}

func (r *reader) read(c *Case) error {
	switch c.Kind {
	case view.LabelClaim:
		v, err := view.GetClaim(r.s, r.namespace, c.ID)
		if err != nil {
			return err
		}
		return r.claim(c, v)
	case view.LabelPrediction:
		v, err := view.GetPrediction(r.s, r.namespace, c.ID)
		if err != nil {
			return err
		}
		c.show("predicted", v.PredictedEffect)
		c.show("action", v.Action)
		c.show("episode", v.EpisodeID)
	case view.LabelEdge:
		return r.edge(c)
	case view.LabelContradiction:
		return r.contradiction(c)
	case view.LabelChallenge:
		return r.challenge(c)
	case view.LabelTransform:
		return r.transform(c)
	case view.LabelBelief:
		return r.lineage(c)
	}
	return nil // of a turn the ledger has its id alone
}

// fact is a line of a case; what is not known is none.
func fact(name string, value any) (Fact, bool) {
	switch v := value.(type) {
	case string:
		return Fact{name, v}, v != ""
	case *string:
		if v == nil {
			return Fact{}, false
		}
		return Fact{name, *v}, true
	case []string:
		return Fact{name, strings.Join(v, ", ")}, len(v) > 0
	}
	raw, err := json.Marshal(value, json.Deterministic(true))
	return Fact{name, string(raw)}, err == nil && string(raw) != "null"
}

func (c *Case) show(name string, value any) {
	if f, ok := fact(name, value); ok {
		c.Before = append(c.Before, f)
	}
}

func (c *Case) follow(name string, value any) {
	if f, ok := fact(name, value); ok {
		c.After = append(c.After, f)
	}
}

// claim shows what was asserted, and on which evidence of that time.
func (r *reader) claim(c *Case, v *view.Claim) error {
	switch {
	case v.Edge != nil:
		c.show("asserted", fmt.Sprintf("%s -> %s (%s)", v.Edge.Cause, v.Edge.Effect, v.Edge.Rung))
		c.show("polarity", v.Edge.Polarity)
		c.show("condition", v.Edge.Condition)
		c.show("mediators", v.Edge.Mediators)
	case v.Proposition != nil:
		c.show("asserted", fmt.Sprintf("%s = %s", v.Proposition.Variable, v.Proposition.Value))
		c.show("scope", v.Proposition.Scope)
	}
	c.show("assumptions", v.Assumptions)
	c.show("episode", v.EpisodeID)
	used, err := view.EvidenceOf(r.s, v)
	for _, u := range used {
		text := u.EvidenceID + ", which nobody had delivered"
		if u.DeliveredSeq > 0 {
			text = fmt.Sprintf("%s, delivered in record %d", u.EvidenceID, u.DeliveredSeq)
		}
		c.show("evidence", text)
	}
	return err
}

// edge shows what the graph keeps, but for what the agent calls the relation and what
// she says that it rests on.
func (r *reader) edge(c *Case) error {
	if r.edges == nil {
		r.edges = map[string]*view.GraphEdge{}
		err := view.ListGraph(r.s, r.namespace, view.GraphQuery{}, func(e *view.GraphEdge) error {
			if e.Namespace == r.namespace {
				r.edges[e.Name()] = e
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	e := r.edges[c.ID]
	if e == nil {
		return fmt.Errorf("the graph does not hold it behind the sample's record")
	}
	c.show("edge", e.Cause+" -> "+e.Effect)
	c.show("polarity", e.Polarity)
	c.show("condition", e.Condition)
	c.show("source", e.SourceID)
	c.show("observed at", e.ObservedAt)
	c.show("scope", e.Scope)
	c.show("contrary", e.ContraryIDs)
	if p := e.Provenance; p != nil {
		c.show("lineage", p.Lineage)
		c.show("support", p.Support)
		c.show("freshness", p.Freshness)
	}
	return nil
}

func (r *reader) contradiction(c *Case) error {
	all, err := view.FindContradiction(r.s, c.ID)
	for _, v := range all {
		if v.Namespace != r.namespace {
			continue
		}
		c.show("left", v.Left)
		c.show("right", v.Right)
		c.show("variable", v.Variable)
		c.show("scope", v.Scope)
		c.show("valid time", v.ValidTime)
		c.show("episode", v.EpisodeID)
		c.follow("state", v.State)
		for _, st := range v.Steps {
			c.follow(st.To, fmt.Sprintf("record %d by %s", st.Seq, st.Principal))
			c.follow("  resolution", st.Resolution)
			c.follow("  left scope", st.LeftScope)
			c.follow("  right scope", st.RightScope)
			c.follow("  cause", st.Cause)
			c.follow("  evidence", st.EvidenceIDs)
			c.follow("  reason", st.Reason)
		}
	}
	return err
}

func (r *reader) challenge(c *Case) error {
	all, err := view.FindChallenge(r.s, c.ID)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Namespace != r.namespace {
			continue
		}
		c.show("belief", v.BeliefID)
		c.show("version", v.Version)
		c.show("evidence", v.EvidenceIDs)
		c.show("contradiction", v.ContradictionID)
		c.show("reason", v.Reason)
		c.show("episode", v.EpisodeID)
		if v.AnsweredSeq == 0 {
			c.follow("answered", "by no revision")
		} else {
			c.follow("answered", fmt.Sprintf("by the revision in record %d", v.AnsweredSeq))
		}
		b, err := view.GetBelief(r.s, r.namespace, v.BeliefID, 0)
		if err != nil {
			return err
		}
		c.follow("status", b.Status)
		c.follow("version", b.Version)
		c.follow("content", b.ContentSHA256)
		c.follow("superseded by", b.SupersededBy)
	}
	return nil
}

func (r *reader) transform(c *Case) error {
	all, err := view.FindTransform(r.s, c.ID)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Namespace != r.namespace {
			continue
		}
		c.show("operation", v.Op)
		c.show("writer", v.Writer)
		for _, in := range v.Inputs {
			c.show("input", in)
		}
		for _, id := range slices.Compact(slices.Sorted(slices.Values(v.Outputs))) {
			steps, err := view.LineageOf(r.s, r.namespace, id)
			if err != nil {
				return err
			}
			for _, st := range steps {
				if st.Seq == v.Seq {
					rests := "nothing that it names"
					if len(st.From) > 0 {
						rests = strings.Join(st.From, ", ")
					}
					c.show("output", id+", which rests on "+rests)
				}
			}
		}
		c.show("dropped", v.Dropped)
	}
	return nil
}

// lineage shows what a belief says of its derivation now, and by whom it was changed.
func (r *reader) lineage(c *Case) error {
	b, err := view.GetBelief(r.s, r.namespace, c.ID, ledger.Seq(c.Seq))
	if err != nil {
		return err
	}
	before, err := view.GetBelief(r.s, r.namespace, c.ID, ledger.Seq(c.Seq)-1)
	switch {
	case errors.Is(err, kv.ErrNotFound):
	case err != nil:
		return err
	case before.Provenance != nil:
		c.show("lineage before", before.Provenance.Lineage)
	}
	c.show("changed by", fmt.Sprintf("%s in record %d", b.Change, c.Seq))
	if b.Provenance != nil {
		c.show("lineage after", b.Provenance.Lineage)
	}
	c.show("parents", b.Parents)
	return nil
}
