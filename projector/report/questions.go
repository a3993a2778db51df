package report

import (
	"fmt"
	"slices"
	"strings"

	"assay/ledger"
	"assay/projector/metric"
	"assay/projector/view"
)

// Answer is what a question comes to.
type Answer string

// Answers.
const (
	Yes          Answer = "yes"
	No           Answer = "no"
	Inconclusive Answer = "inconclusive" // which is no evidence of equality
)

// Question is one of the three that the report ends with. It is yes if every endpoint
// is, no if one is, else inconclusive; and inconclusive wherever resolution coverage
// is too low.
type Question struct {
	Text      string     `json:"text"`
	Answer    Answer     `json:"answer"`
	Why       string     `json:"why"`
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is what a question is bound to: a difference of two arms that was
// registered before it was measured, outside of dev. With the signs turned so that
// more is better it is
//
//	yes  if the interval lies at the registered effect or above it
//	no   if it lies below 0, or inside the margin on both sides
//
// and else inconclusive. The margin is the one registered for the same measure as a
// guardrail, or the effect itself.
type Endpoint struct {
	Text         string        `json:"text"`
	Answer       Answer        `json:"answer"`
	Why          string        `json:"why"`
	Registration *Registration `json:"registration"` // null where there is none
	// Figures are what it rests on: groups of arm_delta_scores over the whole ledger.
	Figures []EndpointFigure `json:"figures"`
}

// Registration is the latest one before the first record of what it is about.
type Registration struct {
	PreregID string     `json:"prereg_id"`
	Seq      ledger.Seq `json:"seq"`
	Measure  string     `json:"measure"`
	Better   string     `json:"better"` // higher, lower
	Effect   float64    `json:"useful_effect"`
	Margin   float64    `json:"margin"`
	N        int64      `json:"n"` // clusters
}

// EndpointFigure is a group of a metric.
type EndpointFigure struct {
	Metric string `json:"metric"`
	Group  string `json:"group"`
	metric.Number
	Answer Answer `json:"answer"`
	Why    string `json:"why"`
}

// asked are the three questions with their endpoints. An endpoint without a pair is
// about any pair that a registration names with one of the measures.
var asked = []struct {
	text      string
	endpoints []wanted
}{
	{"Does Piper understand causation better?", []wanted{{
		"accuracy in generated worlds, abstention scored, A2 − A1", [2]string{"A2", "A1"}, nil,
	}}},
	{"Does her graph or tool contribute?", []wanted{{
		"graph against the same facts as text, same worlds, A10 − A9", [2]string{"A10", "A9"}, nil,
	}}},
	{"Do real decisions improve at acceptable cost?", []wanted{
		{"expected repair loss", [2]string{}, []string{"repair_loss", "expected_repair_loss", "decision_regret", "regret"}},
		{"sandbox repair success per dollar", [2]string{}, []string{"success_per_dollar", "repair_success_per_dollar", "sandbox_success_per_dollar"}},
	}},
}

type wanted struct {
	text     string
	pair     [2]string
	measures []string
}

// minus stands between the arms of a pair, in the names of groups.
const minus = " − "

// deciding are the splits that decide, the first that has a figure.
var deciding = []string{"final", "validation"}

// pair is a group of arm_delta_scores: "<measure>, <split>[, surface]: <a> − <b>".
type pair struct {
	measure, split string
	arms           [2]string
}

var splits = []string{"dev", "validation", "final", "canary", "no split"}

// parsePair reads the name of a group. One that can be read in two ways, since a
// measure or a surface names a split too, is none.
func parsePair(group string) (p pair, ok bool) {
	i := strings.LastIndex(group, ": ")
	if i < 0 {
		return p, false
	}
	parts := strings.Split(group[:i], ", ")
	for n, part := range parts {
		if !slices.Contains(splits, part) {
			continue
		}
		if ok {
			return pair{}, false
		}
		p.measure, p.split, ok = strings.Join(parts[:n], ", "), part, true
	}
	var arms bool
	p.arms[0], p.arms[1], arms = strings.Cut(group[i+2:], minus)
	return p, ok && arms
}

// measures says whether the pair's measure is the one of that name, of any scorer.
func (p pair) measures(name string) bool {
	return p.measure == name || strings.HasSuffix(p.measure, " "+name)
}

func (b *builder) questions() error {
	registered, err := metric.RegistrationsOf(b.state, b.namespace)
	if err != nil {
		return err
	}
	first := map[string]ledger.Seq{} // record of each group
	_, err = metric.Explain(b.state, armScores, b.namespace, metric.Options{}, func(r metric.Record) error {
		if seq, ok := first[r.Group]; r.Role != metric.Excluded && (!ok || r.Seq < seq) {
			first[r.Group] = r.Seq
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range asked {
		q := Question{Text: a.text, Answer: Yes}
		for _, w := range a.endpoints {
			e := b.endpoint(w, registered, first)
			q.Endpoints = append(q.Endpoints, e)
			q.Answer = join(q.Answer, e.Answer)
		}
		switch {
		case !b.out.Cap.Enough:
			q.Answer, q.Why = Inconclusive, "resolution coverage is too low for an answer"
		default:
			for _, e := range q.Endpoints {
				if e.Answer == q.Answer {
					q.Why = e.Text + ": " + e.Why
					break
				}
			}
		}
		b.out.Questions = append(b.out.Questions, q)
	}
	return nil
}

// join is what two endpoints come to together.
func join(a, b Answer) Answer {
	switch {
	case a == No || b == No:
		return No
	case a == Inconclusive || b == Inconclusive:
		return Inconclusive
	}
	return Yes
}

// endpoint binds an endpoint to its registration and figures.
func (b *builder) endpoint(w wanted, registered []view.Preregistration, first map[string]ledger.Seq) Endpoint {
	e := Endpoint{Text: w.text, Answer: Inconclusive, Figures: []EndpointFigure{}}
	late := false
	for i := range slices.Backward(registered) {
		r := &registered[i]
		if !w.takes(r) {
			continue
		}
		groups := b.groupsOf(w, r)
		if slices.ContainsFunc(groups, func(g metric.Group) bool { seq, ok := first[g.Name]; return ok && seq < r.Seq }) {
			late = true
			continue
		}
		e.Registration = registrationOf(r)
		e.judge(groups)
		return e
	}
	e.Why = "no effect was registered"
	if late {
		e.Why = "the effect was registered after the first measurement"
	}
	return e
}

// takes says whether a registration is about the endpoint.
func (w wanted) takes(r *view.Preregistration) bool {
	if len(w.measures) > 0 && !slices.ContainsFunc(w.measures, func(name string) bool {
		return r.Committed.Endpoint.Metric == name || strings.HasSuffix(r.Committed.Endpoint.Metric, " "+name)
	}) {
		return false
	}
	return len(w.pairs(r)) > 0
}

// pairs are those of a registration that the endpoint is about: each arm with the
// first.
func (w wanted) pairs(r *view.Preregistration) (out [][2]string) {
	control := r.Committed.Arms[0]
	for _, arm := range r.Committed.Arms[1:] {
		if p := [2]string{arm, control}; w.pair == [2]string{} || w.pair == p {
			out = append(out, p)
		}
	}
	return out
}

// groupsOf are the differences that decide an endpoint under a registration.
func (b *builder) groupsOf(w wanted, r *view.Preregistration) (out []metric.Group) {
	for _, split := range deciding {
		for _, g := range b.all[armScores].Groups {
			p, ok := parsePair(g.Name)
			if ok && p.split == split && p.measures(r.Committed.Endpoint.Metric) && slices.Contains(w.pairs(r), p.arms) {
				out = append(out, g)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

func registrationOf(r *view.Preregistration) *Registration {
	d := r.Committed
	out := &Registration{PreregID: r.PreregID, Seq: r.Seq, Measure: d.Endpoint.Metric, Better: d.Endpoint.Better, Effect: d.Endpoint.UsefulEffect, Margin: d.Endpoint.UsefulEffect, N: d.N}
	for _, g := range d.Guardrails {
		if g.Metric == d.Endpoint.Metric {
			out.Margin = g.Margin
		}
	}
	return out
}

// judge answers by the figures: they must agree.
func (e *Endpoint) judge(groups []metric.Group) {
	if len(groups) == 0 {
		e.Why = "no data: nothing was measured of it on validation or final worlds since it was registered"
		return
	}
	for i, g := range groups {
		f := EndpointFigure{Metric: armScores, Group: g.Name, Number: g.Number}
		f.Answer, f.Why = e.Registration.judge(g.Number)
		e.Figures = append(e.Figures, f)
		switch {
		case i == 0:
			e.Answer, e.Why = f.Answer, f.Why
		case f.Answer != e.Answer:
			e.Answer, e.Why = Inconclusive, "scorers or models do not agree"
		}
	}
}

func (r *Registration) judge(n metric.Number) (Answer, string) {
	if n.Value == nil || n.Low == nil || n.High == nil {
		return Inconclusive, "no interval: too few clusters, or fewer than were registered"
	}
	low, high := *n.Low, *n.High
	if r.Better == "lower" {
		low, high = -high, -low
	}
	switch {
	case low >= r.Effect && low > 0:
		return Yes, fmt.Sprintf("the whole interval reaches the registered effect of %g", r.Effect)
	case high < 0:
		return No, "the whole interval lies on the wrong side"
	case low > -r.Margin && high < r.Margin:
		return No, fmt.Sprintf("the whole interval lies inside the registered margin of %g", r.Margin)
	}
	return Inconclusive, fmt.Sprintf("the interval neither reaches the registered effect of %g nor lies inside the margin of %g", r.Effect, r.Margin)
}
