package resolver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/ledger"
	"assay/resolver/criterion"
)

// Work says which predictions a work list has.
type Work string

// The work lists.
const (
	WorkOpen       Work = "open"       // without a ruling
	WorkDue        Work = "due"        // open, with the window and its lateness behind them
	WorkUnresolved Work = "unresolved" // settled without a verdict, and still amendable
)

// WorkQuery asks for a work list.
type WorkQuery struct {
	Which     Work
	Principal string     // "" asks for every principal's
	After     ledger.Seq // asks for what was recorded behind it
	Limit     int        // of predictions
}

// Waiting is one prediction of a work list and why it waits. It shares nothing
// with the fold, which goes on.
type Waiting struct {
	Principal  string     `json:"principal"`
	PredID     string     `json:"pred_id"`
	Namespace  string     `json:"namespace"`
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	State      string     `json:"state"`
	Why        string     `json:"why"`

	// Action is what is awaited, until ExecuteBy.
	Action    *AwaitedAction `json:"action,omitzero"`
	ExecuteBy *time.Time     `json:"execute_by,omitzero"`
	// The window [WindowOpen, WindowEnd), once it has opened.
	WindowOpen *time.Time `json:"window_open,omitzero"`
	WindowEnd  *time.Time `json:"window_end,omitzero"`
	// Sources are those that are waited for; empty once they have come far enough.
	Sources []AwaitedSource `json:"sources,omitzero"`
	// Reason and Clauses say why an open prediction is unknown now.
	Reason  string          `json:"reason,omitzero"`
	Clauses []UnknownClause `json:"clauses,omitzero"`
	Expires *time.Time      `json:"expires,omitzero"`
	// Reports are the records in which operators reported an outcome. They count
	// only where telemetry leaves the prediction unknown.
	Reports []ledger.Seq `json:"reports,omitzero"`
	// AmendableUntil is up to when a settled one is amended.
	AmendableUntil *time.Time `json:"amendable_until,omitzero"`
}

// AwaitedAction is a tool call; an empty target means any.
type AwaitedAction struct {
	Tool   string `json:"tool"`
	Target string `json:"target,omitzero"`
}

// AwaitedSource is a source whose watermark has not passed the window's end and
// the lateness yet.
type AwaitedSource struct {
	Source        string     `json:"source"`
	Watermark     *time.Time `json:"watermark"` // null before its first segment
	Needed        time.Time  `json:"needed"`
	BehindSeconds *float64   `json:"behind_seconds"` // null without a watermark
}

// UnknownClause is how far the evidence of one clause goes.
type UnknownClause struct {
	Signal   string            `json:"signal"`
	Labels   map[string]string `json:"labels,omitzero"`
	Outcome  string            `json:"outcome"`
	Reason   string            `json:"reason,omitzero"`
	Samples  int               `json:"samples"`
	Occupied int64             `json:"occupied"` // of Cells
	Cells    int64             `json:"cells"`
	Min      float64           `json:"min"`
	Gap      string            `json:"longest_gap"`
	MaxGap   string            `json:"max_gap"`
}

// WorkList is the predictions of a work list by ledger order.
type WorkList struct {
	Seq        ledger.Seq `json:"seq"` // last record folded
	LedgerTime time.Time  `json:"ledger_time"`
	Items      []Waiting  `json:"items"`
	// More says that there are others beyond the limit.
	More bool `json:"more"`
}

// WorkList makes a work list.
func (m *Machine) WorkList(q WorkQuery) WorkList {
	out := WorkList{Seq: m.seq, LedgerTime: m.now, Items: []Waiting{}}
	var list []ref
	add := func(r ref, principal string) {
		if r.seq > q.After && (q.Principal == "" || principal == q.Principal) {
			list = append(list, r)
		}
	}
	if q.Which == WorkUnresolved {
		m.past.unresolved(add)
	} else {
		for _, p := range m.preds {
			if q.Which == WorkOpen || m.isDue(p) {
				add(ref{p.seq, p, 0}, p.key.principal)
			}
		}
	}
	slices.SortFunc(list, ref.compare)
	if out.More = len(list) > q.Limit; out.More {
		list = list[:q.Limit]
	}
	for _, r := range list {
		p := r.p
		if p == nil {
			p = m.past.get(r.nth)
		}
		out.Items = append(out.Items, m.waiting(p))
	}
	return out
}

// unresolved calls fn for the predictions without a verdict that may be amended.
func (p *past) unresolved(fn func(r ref, principal string)) {
	for i, k := range p.list {
		n := p.first + i
		if w := p.watching[n]; w != nil && w.ruling.verdict == Unresolved {
			fn(ref{w.seq, w, 0}, w.key.principal)
		} else if k.terms != nil {
			if g := p.glance(n); g.verdict == Unresolved {
				fn(ref{g.seq, nil, n}, g.principal)
			}
		}
	}
}

// isDue says that nothing but the sources keeps p from its verdict.
func (m *Machine) isDue(p *prediction) bool {
	switch p.state {
	case WindowOpen:
		return !slices.ContainsFunc(p.watches, func(w *watch) bool { return p.window.End.Add(w.limits.Lateness).After(m.now) })
	case Evaluable:
		return true
	}
	return false
}

func (m *Machine) waiting(p *prediction) Waiting {
	w := Waiting{
		Principal: p.key.principal, PredID: p.key.predID, Namespace: p.namespace, Seq: p.seq, RecordedAt: p.recordedAt, State: p.state.String(),
	}
	for _, r := range p.reports {
		w.Reports = append(w.Reports, r.seq)
	}
	deadline := p.deadline
	if p.state == AwaitingAction {
		a := p.criterion.Action
		w.Action, w.ExecuteBy = &AwaitedAction{a.Tool, a.Target}, &deadline
		w.Why = fmt.Sprintf("awaits the dispatcher's %s of %s until %s", a.Tool, cmp.Or(a.Target, "any target"), ledger.FormatTime(deadline))
		return w
	}
	window := p.window
	w.WindowOpen, w.WindowEnd = &window.Start, &window.End
	if p.state == Settled {
		w.Reason, w.AmendableUntil = p.ruling.reason, &deadline
		w.Why = fmt.Sprintf("telemetry left it unknown (%s); `assay confirm` reports an outcome until %s", p.ruling.reason, ledger.FormatTime(deadline))
		if p.ruling.kind != byTelemetry {
			w.Why = "the reports contradict each other, and telemetry left it unknown"
		}
		return w
	}
	w.Expires = &deadline
	m.explain(p, &w)
	return w
}

// explain says what keeps a prediction whose window has opened from its verdict.
func (m *Machine) explain(p *prediction, w *Waiting) {
	ev := p.gather()
	res := criterion.Evaluate(p.input(ev))
	w.Reason = res.Reason.String()
	for i, cr := range res.Clauses {
		of := p.watches[i]
		w.Clauses = append(w.Clauses, UnknownClause{
			Signal: of.clause.Signal, Labels: of.clause.Labels, Outcome: cr.Outcome.String(), Reason: cr.Reason.String(), Samples: cr.Count,
			Occupied: cr.Seen.Occupied, Cells: cr.Seen.Cells, Min: of.limits.Min, Gap: cr.Seen.MaxGap.String(), MaxGap: of.limits.MaxGap.String(),
		})
	}
	w.Sources = m.awaited(p)
	var why []string
	if p.window.End.After(m.now) {
		why = append(why, "its window is open until "+ledger.FormatTime(p.window.End))
	} else {
		for _, s := range w.Sources {
			if s.Watermark == nil {
				why = append(why, "nothing is sealed of "+s.Source)
			} else {
				why = append(why, fmt.Sprintf("%s is sealed up to %s, %.0f s short", s.Source, ledger.FormatTime(*s.Watermark), *s.BehindSeconds))
			}
		}
	}
	if p.state == Evaluable {
		why = append(why, "unknown: "+w.Reason)
		for _, c := range w.Clauses {
			if c.Outcome == criterion.Unknown.String() {
				why = append(why, fmt.Sprintf("%s has %d of %d intervals, longest gap %s", c.Signal, c.Occupied, c.Cells, c.Gap))
			}
		}
	}
	w.Why = strings.Join(append(why, "expires "+ledger.FormatTime(*w.Expires)), "; ")
}

// awaited are the sources whose watermarks p waits for.
func (m *Machine) awaited(p *prediction) []AwaitedSource {
	out := []AwaitedSource{}
	for _, src := range p.sources {
		a := AwaitedSource{Source: src.name}
		for _, w := range p.watches {
			if w.limits.Signal.Source != src.name {
				continue
			}
			if at := p.window.End.Add(w.limits.Lateness); at.After(a.Needed) {
				a.Needed = at
			}
		}
		reached := m.reached(src)
		if !a.Needed.After(reached) {
			continue
		}
		if !src.watermark.IsZero() {
			behind := a.Needed.Sub(reached).Seconds()
			a.Watermark, a.BehindSeconds = &reached, &behind
		}
		out = append(out, a)
	}
	return out
}

// WorkList is the work list of the fold as it stands, which may be behind the
// ledger's head.
func (s *Service) WorkList(q WorkQuery) WorkList {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.WorkList(q)
}
