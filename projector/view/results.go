package view

import (
	"errors"
	"strconv"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Response is what came back for a case at a stage of a run. Of several for one
// repetition the first counts, malformed ones included.
type Response struct {
	Namespace  string                   `json:"namespace"`
	Seq        ledger.Seq               `json:"seq"`
	RecordedAt time.Time                `json:"recorded_at"`
	Principal  string                   `json:"principal"`
	Response   *events.ResponseRecorded `json:"response"`
	// Undelivered is the evidence that the answer cites and that was not put before
	// the agent; nil when there is no answer, or it is not known what was delivered.
	Undelivered []string `json:"undelivered,omitzero"`
	// Mass sums the shares of the answer's distribution; nil when it has none.
	Mass    *float64 `json:"mass"`
	Repeats int64    `json:"repeats"`
}

// Score is what one scorer made of one response. Of several by one scorer the first
// counts.
type Score struct {
	Namespace  string                `json:"namespace"`
	Seq        ledger.Seq            `json:"seq"`
	RecordedAt time.Time             `json:"recorded_at"`
	Principal  string                `json:"principal"`
	Score      *events.ScoreRecorded `json:"score"`
	// ResponseSeq is the response that it is of; 0 when there is none before it, or
	// it names another: it counts nowhere.
	ResponseSeq ledger.Seq `json:"response_seq"`
	Repeats     int64      `json:"repeats"`
}

// Control is one case of the control matrix. Of several of one run, condition,
// variant and case the first counts.
type Control struct {
	Namespace  string                  `json:"namespace"`
	Seq        ledger.Seq              `json:"seq"`
	RecordedAt time.Time               `json:"recorded_at"`
	Principal  string                  `json:"principal"`
	Control    *events.ControlRecorded `json:"control"`
	Repeats    int64                   `json:"repeats"`
}

// Probe is one probe of the instrument. Of an id the first counts.
type Probe struct {
	Namespace  string                `json:"namespace"`
	Seq        ledger.Seq            `json:"seq"`
	RecordedAt time.Time             `json:"recorded_at"`
	Principal  string                `json:"principal"`
	Probe      *events.ProbeRecorded `json:"probe"`
	Repeats    int64                 `json:"repeats"`
}

// EpisodeReport is what the best witness reports of an episode, or of one tool call
// in it (episode.recorded), of equals the first.
type EpisodeReport struct {
	Namespace  string                  `json:"namespace"`
	EpisodeID  string                  `json:"episode_id,omitzero"`
	ToolCallID *string                 `json:"tool_call_id,omitzero"`
	Witness    string                  `json:"witness"` // dispatcher or harness itself, hook, otlp, imported
	Seq        ledger.Seq              `json:"seq"`
	RecordedAt time.Time               `json:"recorded_at"`
	Principal  string                  `json:"principal"`
	Report     *events.EpisodeRecorded `json:"report"`
	Others     int64                   `json:"others"` // further reports of the same, without effect
}

// results keeps what runs gave out.
//
//	r <namespace> <run> <case> <stage> <repetition>           Response
//	s <namespace> <run> <case> <stage> <repetition> <scorer>  Score
//	c <namespace> <run> <condition> <variant> <case>          Control
//	p <namespace> <probe>                                     Probe
//	e <namespace> <episode> <tool call>, or <seq>             EpisodeReport
type results struct{}

const (
	responseKind      = "r"
	scoreKind         = "s"
	controlKind       = "c"
	probeKind         = "p"
	episodeReportKind = "e"
)

func (results) Name() string { return Results }
func (results) Version() int { return 2 }

// Apply implements projector.Projection.
func (results) Apply(b *projector.Batch, r *projector.Record) error {
	switch r.Event.Data.(type) {
	case *events.ResponseRecorded, *events.ScoreRecorded, *events.ControlRecorded, *events.ProbeRecorded:
		if r.Role() != roleHarness {
			return forbidden(r)
		}
	case *events.EpisodeRecorded:
		if r.Role() != roleHarness && r.Role() != roleDispatcher {
			return forbidden(r)
		}
	}
	switch d := r.Event.Data.(type) {
	case *events.ResponseRecorded:
		respond(b, r, d)
	case *events.ScoreRecorded:
		score(b, r, d)
	case *events.ControlRecorded:
		v, ok := projector.Edit[Control](b, key(controlKind, r.Namespace, d.RunID, d.Condition, stated(d.Variant), d.CaseID))
		if ok {
			v.Repeats++
			return nil
		}
		*v = Control{r.Namespace, r.Seq, r.RecordedAt, r.Principal, d, 0}
	case *events.ProbeRecorded:
		v, ok := projector.Edit[Probe](b, key(probeKind, r.Namespace, d.ProbeID))
		if ok {
			v.Repeats++
			return nil
		}
		addPlace(b, r.Namespace)
		*v = Probe{r.Namespace, r.Seq, r.RecordedAt, r.Principal, d, 0}
	case *events.EpisodeRecorded:
		report(b, r, d)
	}
	return nil
}

// repetition is the part of a key that tells stages and repetitions apart.
func repetition(stage, index *int64) string {
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	return key(number(stage), number(index))
}

func responseKey(ns, run, caseID string, stage, index *int64) string {
	return key(responseKind, ns, run, caseID, repetition(stage, index))
}

func respond(b *projector.Batch, r *projector.Record, d *events.ResponseRecorded) {
	v, ok := projector.Edit[Response](b, responseKey(r.Namespace, d.RunID, d.CaseID, d.Stage, d.RunIndex))
	if ok {
		v.Repeats++
		return
	}
	*v = Response{Namespace: r.Namespace, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Response: d}
	if d.Answer == nil {
		return
	}
	if d.DeliveredIDs != nil {
		v.Undelivered = without(d.Answer.EvidenceIDs, d.DeliveredIDs)
	}
	if len(d.Answer.Distribution) > 0 {
		v.Mass = new(float64)
		for _, share := range d.Answer.Distribution {
			*v.Mass += share.P
		}
	}
}

func score(b *projector.Batch, r *projector.Record, d *events.ScoreRecorded) {
	v, ok := projector.Edit[Score](b, key(scoreKind, r.Namespace, d.RunID, d.CaseID, repetition(d.Stage, d.RunIndex), d.ScorerSHA256))
	if ok {
		v.Repeats++
		return
	}
	*v = Score{Namespace: r.Namespace, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Score: d}
	of, ok := projector.View[Response](b, responseKey(r.Namespace, d.RunID, d.CaseID, d.Stage, d.RunIndex))
	if ok && (d.ResponseSeq == nil || ledger.Seq(*d.ResponseSeq) == of.Seq) {
		v.ResponseSeq = of.Seq
		return
	}
	addOrphan(b, r.Namespace, d.CaseID, orphanUnknown, r)
}

func report(b *projector.Batch, r *projector.Record, d *events.EpisodeRecorded) {
	of := stated(d.Context.ToolCallID)
	if r.Event.EpisodeID == "" && of == "" {
		of = projector.SeqKey(r.Seq) // of nothing that it could be joined by
	}
	v, ok := projector.Edit[EpisodeReport](b, key(episodeReportKind, r.Namespace, r.Event.EpisodeID, of))
	if ok {
		v.Others++
		if events.WitnessRank(witnessOf(r)) >= events.WitnessRank(v.Witness) {
			return
		}
	}
	v.Witness = witnessOf(r)
	v.Namespace, v.EpisodeID, v.ToolCallID = r.Namespace, r.Event.EpisodeID, d.Context.ToolCallID
	v.Seq, v.RecordedAt, v.Principal, v.Report = r.Seq, r.RecordedAt, r.Principal, d
}

// join counts the imports of what is reported live with it. Such an import is no
// report of its own.
func (v *EpisodeReport) join(s *projector.State) (known bool, err error) {
	of := stated(v.ToolCallID)
	if v.EpisodeID == "" && of == "" {
		return false, nil
	}
	twin, err := projector.Load[EpisodeReport](s, Results, key(episodeReportKind, twinIn(v.Namespace), v.EpisodeID, of))
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return false, nil
	case err != nil || isApart(v.Namespace):
		return err == nil, err
	}
	v.Others += 1 + twin.Others
	return false, nil
}

// ListResponses calls fn for a namespace's responses, run by run and case by case.
func ListResponses(s *projector.State, namespace string, fn func(*Response) error) error {
	return list(s, Results, fn, responseKind, namespace)
}

// ListScores calls fn for a namespace's scores, run by run and case by case.
func ListScores(s *projector.State, namespace string, fn func(*Score) error) error {
	return list(s, Results, fn, scoreKind, namespace)
}

// ListControls calls fn for a namespace's controls, run by run and condition by
// condition.
func ListControls(s *projector.State, namespace string, fn func(*Control) error) error {
	return list(s, Results, fn, controlKind, namespace)
}

// ListProbes calls fn for a namespace's probes in the order of ids.
func ListProbes(s *projector.State, namespace string, fn func(*Probe) error) error {
	return list(s, Results, fn, probeKind, namespace)
}

// FindProbe reads the probes of an id in all namespaces.
func FindProbe(s *projector.State, probeID string) ([]Probe, error) {
	return find[Probe](s, Results, probeKind, probeID)
}

// ListEpisodeReports calls fn for a namespace's reports in the order of episodes; an
// import of what is reported live is none.
func ListEpisodeReports(s *projector.State, namespace string, fn func(*EpisodeReport) error) error {
	imports, err := HasImports(s)
	if err != nil {
		return err
	}
	return list(s, Results, func(v *EpisodeReport) error {
		if imports {
			if known, err := v.join(s); err != nil || known {
				return err
			}
		}
		return fn(v)
	}, episodeReportKind, namespace)
}
