package resolver

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/ledger"
	"assay/resolver/calls"
)

// savedMachine is the state of a Machine but for the names of its settled
// predictions and those of them that are on the shelves, which savedPast writes.
// What follows from it and the criteria is left out: windows' ends
// and baselines, who watches and waits for what, screens, shelves.
type savedMachine struct {
	Seq     ledger.Seq        `json:"seq"`
	Now     time.Time         `json:"now"`
	Hold    *savedHold        `json:"hold,omitzero"`
	Skipped int               `json:"skipped,omitzero"`
	TooLate int               `json:"too_late,omitzero"`
	Open    []savedPrediction `json:"open"`    // in the order of their records
	Past    []savedPrediction `json:"past"`    // settled, with series yet, in the order of that
	First   int               `json:"first"`   // number of the first settled one that may be amended
	Sources []savedSource     `json:"sources"` // by first appearance
	Calls   []calls.Call      `json:"calls"`   // by their first records
	Actions []savedAction     `json:"actions"` // by the records that count
	Gone    time.Time         `json:"gone,omitzero"`
}

type savedHold struct {
	Seq ledger.Seq `json:"seq"`
	At  time.Time  `json:"at"`
}

type savedPrediction struct {
	Principal  string        `json:"principal"`
	PredID     string        `json:"pred_id"`
	Seq        ledger.Seq    `json:"seq"`
	EventID    string        `json:"event_id"`
	Episode    string        `json:"episode,omitzero"`
	Namespace  string        `json:"namespace"`
	Opp        *string       `json:"opportunity_id,omitzero"`
	RecordedAt time.Time     `json:"recorded_at"`
	P          float64       `json:"p"`
	Criterion  string        `json:"criterion"` // its bytes
	Registry   string        `json:"registry_sha256"`
	State      State         `json:"state"`
	KnownTo    []time.Time   `json:"known_to"`
	Reports    []savedReport `json:"reports,omitzero"`
	Act        *savedAction  `json:"act,omitzero"`
	Start      time.Time     `json:"start,omitzero"` // of the window, once it opened
	Since      time.Time     `json:"since,omitzero"` // as Start
	Settled    *savedRuling  `json:"settled,omitzero"`
}

type savedReport struct {
	Seq     ledger.Seq `json:"seq"`
	Leaf    string     `json:"leaf"`
	Who     string     `json:"who"`
	Verdict string     `json:"verdict"`
	Kind    string     `json:"kind"`
}

type savedAction struct {
	Call      ledger.Seq `json:"call"`
	Seq       ledger.Seq `json:"seq"`
	Target    string     `json:"target,omitzero"`
	Namespace string     `json:"namespace,omitzero"`
	Start     time.Time  `json:"start"`
	End       time.Time  `json:"end"`
}

type savedRuling struct {
	Verdict   string     `json:"verdict"`
	Reason    string     `json:"reason,omitzero"`
	Kind      string     `json:"kind"`
	LastID    string     `json:"last_id"`
	LastCut   ledger.Seq `json:"last_cut"`
	Foreknown string     `json:"foreknowledge"`
	Until     time.Time  `json:"until"` // it can be amended
	Nth       int        `json:"nth"`   // of all that are settled
}

type savedSource struct {
	Name      string         `json:"name"`
	Watermark time.Time      `json:"watermark"`
	Forgotten time.Time      `json:"forgotten,omitzero"`
	Segments  []savedSegment `json:"segments"`
	Series    []savedSeries  `json:"series"`
}

type savedSegment struct {
	Seq      ledger.Seq `json:"seq"`
	Earliest time.Time  `json:"earliest,omitzero"`
	End      time.Time  `json:"end,omitzero"` // of those that a source remembers
	Samples  int64      `json:"samples,omitzero"`
	SHA256   string     `json:"sha256"`
}

// savedSeries has its samples as a segment, and for each the place in Origins
// of the segment that brought it first.
type savedSeries struct {
	Signal    string            `json:"signal"`
	Labels    map[string]string `json:"labels,omitzero"`
	AnyLabels bool              `json:"any_labels,omitzero"`
	From      time.Time         `json:"from"`
	Samples   string            `json:"samples"`
	Origins   []savedSegment    `json:"origins"`
	Brought   []int             `json:"brought"`
}

// save is the machine's state after its last record.
func (m *Machine) save() savedMachine {
	s := savedMachine{Seq: m.seq, Now: m.now, Skipped: m.skipped, TooLate: m.tooLate, First: m.past.first, Gone: m.actions.gone}
	if m.hold != nil {
		s.Hold = &savedHold{m.hold.seq, m.hold.at}
	}
	for _, p := range slices.SortedFunc(maps.Values(m.preds), bySeq) {
		s.Open = append(s.Open, p.save())
	}
	for _, n := range slices.Sorted(maps.Keys(m.past.watching)) {
		s.Past = append(s.Past, m.past.watching[n].save())
	}
	s.Calls = m.calls.List()
	for _, a := range m.actions.list {
		s.Actions = append(s.Actions, a.save())
	}
	for _, src := range m.order {
		out := savedSource{Name: src.name, Watermark: src.watermark, Forgotten: src.forgotten}
		for _, seg := range src.segments {
			out.Segments = append(out.Segments, savedSegment{seg.seq, seg.earliest, seg.end, seg.samples, seg.sha.String()})
		}
		for _, signal := range slices.Sorted(maps.Keys(src.series)) {
			by := src.series[signal]
			if by.any != nil {
				out.Series = append(out.Series, by.any.save())
			}
			for _, key := range slices.Sorted(maps.Keys(by.exact)) {
				out.Series = append(out.Series, by.exact[key].save())
			}
		}
		s.Sources = append(s.Sources, out)
	}
	return s
}

func (p *prediction) save() savedPrediction {
	s := savedPrediction{
		Principal: p.key.principal, PredID: p.key.predID, Seq: p.seq, EventID: p.eventID, Episode: p.episode, Namespace: p.namespace,
		Opp: p.opp, RecordedAt: p.recordedAt, P: p.p, Criterion: string(p.raw), Registry: p.registry.HashString(), State: p.state,
		KnownTo: p.knownTo, Start: p.window.Start, Since: p.since,
	}
	for _, r := range p.reports {
		s.Reports = append(s.Reports, savedReport{r.seq, r.leaf.String(), r.who, r.verdict, r.kind})
	}
	if p.act != nil {
		a := p.act.save()
		s.Act = &a
	}
	if p.state == Settled {
		s.Settled = &savedRuling{p.ruling.verdict, p.ruling.reason, p.ruling.kind, p.lastID, p.lastCut, p.foreknown, p.deadline, p.nth}
	}
	return s
}

func (a *action) save() savedAction {
	return savedAction{a.call, a.seq, a.target, a.namespace, a.start, a.end}
}

func (s savedAction) action() action {
	return action{s.Call, s.Seq, s.Target, s.Namespace, s.Start.UTC(), s.End.UTC()}
}

func (se *series) save() savedSeries {
	s := savedSeries{
		Signal: se.signal, Labels: se.labels, AnyLabels: se.anyLabels, From: se.from,
		Samples: string(EncodeSegment(se.src.name, slices.Clone(se.samples))),
	}
	places := make(map[origin]int)
	for _, o := range se.origins {
		i, ok := places[o]
		if !ok {
			i = len(s.Origins)
			places[o] = i
			s.Origins = append(s.Origins, savedSegment{Seq: o.seq, SHA256: o.sha.String()})
		}
		s.Brought = append(s.Brought, i)
	}
	return s
}

// restoreMachine is the machine that save was called on.
func restoreMachine(cfg MachineConfig, s savedMachine, settled *savedPast) (*Machine, error) {
	m := NewMachine(cfg)
	m.seq, m.now, m.skipped, m.tooLate = s.Seq, s.Now.UTC(), s.Skipped, s.TooLate
	if s.Hold != nil {
		m.hold = &hold{s.Hold.Seq, s.Hold.At.UTC()}
	}
	m.calls = calls.NewLog(horizon, s.Calls)
	for _, a := range s.Actions {
		m.actions.note(a.action())
	}
	m.actions.gone = s.Gone.UTC()
	for _, saved := range s.Sources {
		if err := m.source(saved.Name).restore(saved); err != nil {
			return nil, err
		}
	}
	if err := m.restorePast(settled); err != nil {
		return nil, err
	}
	for _, p := range slices.Concat(s.Open, s.Past) {
		if err := m.restorePrediction(p); err != nil {
			return nil, fmt.Errorf("prediction of record %d: %w", p.Seq, err)
		}
	}
	return m, nil
}

// restorePast puts the settled predictions on their shelves.
func (m *Machine) restorePast(s *savedPast) error {
	m.past.names, m.past.first, m.past.list = s.names, s.first, s.list
	clauses := make(map[*terms]int, len(s.terms))
	for _, t := range s.terms {
		r, err := m.registry(t.registry.String())
		if err != nil {
			return err
		}
		p := &prediction{raw: jsontext.Value(t.raw), registry: r}
		if err := p.parse(); err != nil {
			return err
		}
		t.terms.termsKey = termsKey{t.raw, r}
		if m.terms[t.termsKey] != nil {
			return fmt.Errorf("%w: terms come twice", ErrCorrupt)
		}
		m.findShelves(t.terms, p)
		clauses[t.terms] = len(p.watches)
	}
	var shelved []placed // by until, so that each has its place behind those before
	for i, k := range s.list {
		if k.terms == nil {
			continue
		}
		n := s.first + i
		p, ok := unpack(k.packed)
		if !ok || settledKey(p.key) != s.names.at(n).key || len(p.knownTo) != clauses[k.terms] {
			return fmt.Errorf("%w: settled prediction %d is not what was packed", ErrCorrupt, n)
		}
		shelved = append(shelved, placed{stampOf(p.since), stampOf(p.until), n})
	}
	slices.SortStableFunc(shelved, func(a, b placed) int { return cmp.Compare(a.until, b.until) })
	for _, e := range shelved {
		m.putOnShelves(e, s.list[e.nth-s.first].terms)
	}
	m.past.live = len(shelved)
	return nil
}

func (src *source) restore(s savedSource) error {
	src.watermark, src.forgotten = s.Watermark.UTC(), s.Forgotten.UTC()
	for _, seg := range s.Segments {
		sha, err := ledger.ParseHash(seg.SHA256)
		if err != nil {
			return fmt.Errorf("segment of record %d: %w", seg.Seq, err)
		}
		src.segments = append(src.segments, sealed{seg.Seq, seg.Earliest.UTC(), seg.End.UTC(), seg.Samples, sha})
	}
	for _, se := range s.Series {
		if err := src.restoreSeries(se); err != nil {
			return fmt.Errorf("series %s of %s: %w", se.Signal, s.Name, err)
		}
	}
	return nil
}

func (src *source) restoreSeries(s savedSeries) error {
	_, samples, err := DecodeSegment([]byte(s.Samples))
	if err != nil {
		return err
	}
	if len(samples) != len(s.Brought) {
		return fmt.Errorf("%w: %d samples with %d origins", ErrCorrupt, len(samples), len(s.Brought))
	}
	se, fresh := src.find(s.Signal, s.Labels, s.AnyLabels)
	if !fresh {
		return fmt.Errorf("%w: saved twice", ErrCorrupt)
	}
	se.from = s.From.UTC()
	var origins []origin
	for _, o := range s.Origins {
		sha, err := ledger.ParseHash(o.SHA256)
		if err != nil {
			return err
		}
		origins = append(origins, origin{o.Seq, sha})
	}
	for i, n := range s.Brought {
		if n < 0 || n >= len(origins) {
			return fmt.Errorf("%w: no origin %d", ErrCorrupt, n)
		}
		se.insert(samples[i], origins[n])
	}
	return nil
}

func (m *Machine) restorePrediction(s savedPrediction) error {
	p := &prediction{
		key: predKey{s.Principal, s.PredID}, seq: s.Seq, eventID: s.EventID, episode: s.Episode, namespace: s.Namespace, opp: s.Opp,
		recordedAt: s.RecordedAt.UTC(), p: s.P, raw: jsontext.Value(s.Criterion), state: s.State,
	}
	for _, t := range s.KnownTo {
		p.knownTo = append(p.knownTo, t.UTC())
	}
	for _, r := range s.Reports {
		leaf, err := ledger.ParseHash(r.Leaf)
		if err != nil {
			return err
		}
		p.reports = append(p.reports, report{r.Seq, leaf, r.Who, r.Verdict, r.Kind})
	}
	if s.Act != nil {
		a := s.Act.action()
		p.act = &a
	}
	var err error
	if p.registry, err = m.registry(s.Registry); err != nil {
		return err
	}
	if err := p.parse(); err != nil {
		return err
	}
	if len(p.knownTo) != len(p.watches) {
		return fmt.Errorf("%w: %d watermarks for %d clauses", ErrCorrupt, len(p.knownTo), len(p.watches))
	}
	return m.resume(p, s)
}

// resume puts a restored prediction where its state belongs.
func (m *Machine) resume(p *prediction, s savedPrediction) error {
	switch {
	case p.state == AwaitingAction && p.criterion.Action != nil:
		m.enter(p)
		m.await(p)
		return nil
	case p.state != WindowOpen && p.state != Evaluable && (p.state != Settled || s.Settled == nil):
		return fmt.Errorf("%w: its state is %d", ErrCorrupt, p.state)
	}
	p.place(s.Start.UTC())
	p.since = s.Since.UTC()
	m.pin(p)
	if p.state == Settled {
		r := s.Settled
		p.ruling, p.lastID, p.lastCut, p.foreknown = ruling{r.Verdict, r.Reason, r.Kind}, r.LastID, r.LastCut, r.Foreknown
		p.nth, p.deadline = r.Nth, r.Until.UTC()
		if p.nth < m.past.first || p.nth >= m.past.names.len() || m.past.names.at(p.nth).key != settledKey(p.key) || m.past.list[p.nth-m.past.first].terms != nil {
			return fmt.Errorf("%w: it is not settled as the %d-th", ErrCorrupt, p.nth)
		}
		m.past.watching[p.nth] = p
		m.past.live++
	} else {
		m.enter(p)
		m.schedule(p, p.window.End.Add(p.criterion.ExpiresAfter))
	}
	m.waitFor(p, false)
	// Its series hold all that it needs, so that no segment is loaded.
	if err := m.watch(p); err != nil {
		return err
	}
	p.attend()
	return nil
}

// settledKey stands for a prediction among the settled.
func settledKey(k predKey) ledger.Hash {
	return sha256.Sum256([]byte(k.principal + "\x00" + k.predID))
}
