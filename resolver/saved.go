package resolver

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
)

// savedMachine is the state of a Machine but for its settled predictions. What
// follows from it and the criteria is left out: deadlines, windows' ends, who
// watches what, screens.
type savedMachine struct {
	Seq     ledger.Seq        `json:"seq"`
	Now     time.Time         `json:"now"`
	Hold    *savedHold        `json:"hold,omitzero"`
	Skipped int               `json:"skipped,omitzero"`
	Open    []savedPrediction `json:"open"`    // in the order of their records
	Sources []savedSource     `json:"sources"` // by first appearance
}

type savedHold struct {
	Seq ledger.Seq `json:"seq"`
	At  time.Time  `json:"at"`
}

type savedPrediction struct {
	Principal  string     `json:"principal"`
	PredID     string     `json:"pred_id"`
	Seq        ledger.Seq `json:"seq"`
	EventID    string     `json:"event_id"`
	Episode    string     `json:"episode,omitzero"`
	Namespace  string     `json:"namespace"`
	Opp        *string    `json:"opportunity_id,omitzero"`
	RecordedAt time.Time  `json:"recorded_at"`
	Criterion  string     `json:"criterion"` // its bytes
	Registry   string     `json:"registry_sha256"`
	State      State      `json:"state"`
	KnownTo    time.Time  `json:"known_to"`
	Start      time.Time  `json:"start,omitzero"` // of the window, once it opened
}

type savedSource struct {
	Name      string         `json:"name"`
	Watermark time.Time      `json:"watermark"`
	Segments  []savedSegment `json:"segments"`
	Series    []savedSeries  `json:"series"`
}

type savedSegment struct {
	Seq    ledger.Seq `json:"seq"`
	End    time.Time  `json:"end,omitzero"` // of those that a source remembers
	SHA256 string     `json:"sha256"`
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
	s := savedMachine{Seq: m.seq, Now: m.now, Skipped: m.skipped}
	if m.hold != nil {
		s.Hold = &savedHold{m.hold.seq, m.hold.at}
	}
	for _, p := range slices.SortedFunc(maps.Values(m.preds), bySeq) {
		s.Open = append(s.Open, savedPrediction{
			Principal: p.key.principal, PredID: p.key.predID, Seq: p.seq, EventID: p.eventID, Episode: p.episode, Namespace: p.namespace,
			Opp: p.opp, RecordedAt: p.recordedAt, Criterion: string(p.raw), Registry: p.registry.HashString(), State: p.state,
			KnownTo: p.knownTo, Start: p.window.Start,
		})
	}
	for _, src := range m.order {
		out := savedSource{Name: src.name, Watermark: src.watermark}
		for _, seg := range src.segments {
			out.Segments = append(out.Segments, savedSegment{seg.seq, seg.end, seg.sha.String()})
		}
		for _, signal := range slices.Sorted(maps.Keys(src.series)) {
			for _, se := range src.series[signal] {
				out.Series = append(out.Series, se.save(src.name))
			}
		}
		s.Sources = append(s.Sources, out)
	}
	return s
}

func (se *series) save(source string) savedSeries {
	s := savedSeries{
		Signal: se.signal, Labels: se.labels, AnyLabels: se.anyLabels, From: se.from,
		Samples: string(EncodeSegment(source, slices.Clone(se.samples))),
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
func restoreMachine(cfg MachineConfig, s savedMachine, done map[ledger.Hash]struct{}) (*Machine, error) {
	m := NewMachine(cfg)
	m.seq, m.now, m.skipped, m.done = s.Seq, s.Now.UTC(), s.Skipped, done
	if s.Hold != nil {
		m.hold = &hold{s.Hold.Seq, s.Hold.At.UTC()}
	}
	for _, saved := range s.Sources {
		src := m.source(saved.Name)
		src.watermark = saved.Watermark.UTC()
		for _, seg := range saved.Segments {
			sha, err := ledger.ParseHash(seg.SHA256)
			if err != nil {
				return nil, fmt.Errorf("segment of record %d: %w", seg.Seq, err)
			}
			src.segments = append(src.segments, sealed{seg.Seq, seg.End.UTC(), sha})
		}
		for _, se := range saved.Series {
			if err := src.restoreSeries(se); err != nil {
				return nil, fmt.Errorf("series %s of %s: %w", se.Signal, saved.Name, err)
			}
		}
	}
	for _, p := range s.Open {
		if err := m.restorePrediction(p); err != nil {
			return nil, fmt.Errorf("prediction of record %d: %w", p.Seq, err)
		}
	}
	return m, nil
}

func (src *source) restoreSeries(s savedSeries) error {
	_, samples, err := DecodeSegment([]byte(s.Samples))
	if err != nil {
		return err
	}
	if len(samples) != len(s.Brought) {
		return fmt.Errorf("%w: %d samples with %d origins", ErrCorrupt, len(samples), len(s.Brought))
	}
	se := &series{signal: s.Signal, labels: s.Labels, anyLabels: s.AnyLabels, from: s.From.UTC(), watchers: make(map[*prediction]time.Time)}
	src.series[s.Signal] = append(src.series[s.Signal], se)
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
		src.insert(se, samples[i], origins[n])
	}
	return nil
}

func (m *Machine) restorePrediction(s savedPrediction) error {
	p := &prediction{
		key: predKey{s.Principal, s.PredID}, seq: s.Seq, eventID: s.EventID, episode: s.Episode, namespace: s.Namespace, opp: s.Opp,
		recordedAt: s.RecordedAt.UTC(), raw: jsontext.Value(s.Criterion), sha: hexSHA256([]byte(s.Criterion)), state: s.State, knownTo: s.KnownTo.UTC(),
	}
	var err error
	if p.registry, err = m.registry(s.Registry); err != nil {
		return err
	}
	if fault, ok := p.lint(&events.PredictionRecorded{Criterion: p.raw}); !ok {
		return fmt.Errorf("%w: %w", ErrCorrupt, fault)
	}
	m.enter(p)
	switch p.state {
	case AwaitingAction:
		if p.criterion.Action == nil {
			return fmt.Errorf("%w: it awaits no action", ErrCorrupt)
		}
		m.await(p)
		return nil
	case WindowOpen, Evaluable:
	default:
		return fmt.Errorf("%w: its state is %d", ErrCorrupt, p.state)
	}
	m.open(p, s.Start.UTC())
	if p.state == WindowOpen {
		p.src.closing.add(p.window.End.Add(p.limits.Lateness), p)
	}
	// Both series hold all that p needs, so that no segment is loaded.
	return m.watch(p)
}

// settledKey stands for a prediction among the settled.
func settledKey(k predKey) ledger.Hash {
	return sha256.Sum256([]byte(k.principal + "\x00" + k.predID))
}
