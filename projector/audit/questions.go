// Package audit is what people make of a published sample: the cases, shown so that
// raters stay blind; their answers, as the events that carry them; and what several
// raters say together.
package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/events"
	"assay/projector/metric"
	"assay/projector/view"
)

// Rubric is the version of the questions below and of what they mean, in
// docs/audits.md. All sets share it: labels of one thing by one rater are of one
// rubric, and metrics read the latest.
const Rubric = "audit-rubric@1"

// Unknown is the answer of a rater who cannot tell.
const Unknown = "?"

// Question is one thing that is asked of a case.
type Question struct {
	Field   string   `json:"field"` // of the event's data, such as edge.direction
	Text    string   `json:"text"`
	Options []string `json:"options"` // the answers beside Unknown
	// After says that it is asked once the case's After was shown, which the
	// questions before it must not be answered by.
	After bool `json:"after"`
	// If is the answer that the question before it needs; "" for any.
	If string `json:"if,omitzero"`

	yes  func(*view.Label) **bool
	word func(*view.Label) **string
}

var yesNo = []string{"yes", "no"}

func ask(field, text string, yes func(*view.Label) **bool) Question {
	return Question{Field: field, Text: text, Options: yesNo, yes: yes}
}

func after(q Question) Question {
	q.After = true
	return q
}

func choose(field, text string, options []string, word func(*view.Label) **string) Question {
	return Question{Field: field, Text: text, Options: options, word: word}
}

// edgeOf is where answers on an edge go.
func edgeOf(l *view.Label) *events.EdgeLabel {
	if l.Edge == nil {
		l.Edge = &events.EdgeLabel{}
	}
	return l.Edge
}

func keeps(field, what string, yes func(*events.EdgeLabel) **bool) Question {
	return ask("edge."+field, "Does the edge keep "+what+"?", func(l *view.Label) **bool { return yes(edgeOf(l)) })
}

var (
	isEligible = ask("eligible", "Was there something here to reason causally about?", func(l *view.Label) **bool { return &l.Eligible })
	whichKind  = Question{
		Field: "opportunity_kind", Text: "Which question was it?", If: "yes",
		Options: []string{"why", "what_if", "which_fix", "root_cause", "will_x_help", "gap"},
		word:    func(l *view.Label) **string { return &l.OpportunityKind },
	}
	isWarranted = ask("abduction_warranted", "Was an abduction called for?", func(l *view.Label) **bool { return &l.AbductionWarranted })
	isSupported = ask("commitment_supported", "Does the evidence of that time bear what was asserted?", func(l *view.Label) **bool { return &l.CommitmentSupported })
	isPreserved = ask("lineage_preserved", "Did the derivation survive the step?", func(l *view.Label) **bool { return &l.LineagePreserved })
	ofEdge      = []Question{
		choose("edge.relation_kind", "What does the source state?", []string{metric.CausalClaim, "correlation", "dependency", "chronology", "part_of", "other"},
			func(l *view.Label) **string { return &edgeOf(l).RelationKind }),
		choose("edge.direction", "Is the direction that of the source?", []string{"right", "reversed", "undirected"},
			func(l *view.Label) **string { return &edgeOf(l).Direction }),
		choose("edge.mechanism", "What does the mechanism rest on?", []string{"asserted", "inferred", "tested"},
			func(l *view.Label) **string { return &edgeOf(l).Mechanism }),
		keeps("keeps_source", "the id of its source", func(e *events.EdgeLabel) **bool { return &e.KeepsSource }),
		keeps("keeps_time", "the time", func(e *events.EdgeLabel) **bool { return &e.KeepsTime }),
		keeps("keeps_scope", "scope and conditions", func(e *events.EdgeLabel) **bool { return &e.KeepsScope }),
		keeps("keeps_confidence", "the confidence", func(e *events.EdgeLabel) **bool { return &e.KeepsConfidence }),
		keeps("keeps_contrary", "contrary evidence", func(e *events.EdgeLabel) **bool { return &e.KeepsContrary }),
	}
	ofContradiction = []Question{
		ask("contradiction_valid", "Is the conflict genuine: one variable, scope and time?", func(l *view.Label) **bool { return &l.ContradictionValid }),
		after(ask("disposition_correct", "Was it closed, scoped or left open rightly?", func(l *view.Label) **bool { return &l.DispositionCorrect })),
	}
	ofChallenge = []Question{
		ask("revision_required", "Does the challenge call for a revision?", func(l *view.Label) **bool { return &l.RevisionRequired }),
		after(ask("revision_correct", "Was what followed right? To keep a belief can be.", func(l *view.Label) **bool { return &l.RevisionCorrect })),
	}
)

// QuestionsOf is what is asked of a kind of thing in a set; nil where nothing is.
func QuestionsOf(set, kind string) []Question {
	switch set {
	case metric.SetOutcomes:
		if kind == view.LabelTurn {
			return []Question{isEligible, isWarranted}
		}
		return []Question{isSupported}
	case metric.SetDetector:
		return []Question{isEligible, whichKind}
	case metric.SetAbduction:
		return []Question{isWarranted}
	case metric.SetEdges:
		return ofEdge
	case metric.SetContradictions:
		return ofContradiction
	case metric.SetChallenges:
		return ofChallenge
	case metric.SetLineage:
		return []Question{isPreserved}
	}
	return nil
}

// ErrAnswer means that an answer is none that a question takes.
var ErrAnswer = errors.New("no answer to the question")

// Set puts an answer into a label.
func (q *Question) Set(l *view.Label, answer string) error {
	switch {
	case answer == Unknown:
		return nil
	case !slices.Contains(q.Options, answer):
		return fmt.Errorf("%w %s: %q; it takes %s or %s", ErrAnswer, q.Field, answer, strings.Join(q.Options, ", "), Unknown)
	case q.yes != nil:
		is := answer == yesNo[0]
		*q.yes(l) = &is
	default:
		*q.word(l) = &answer
	}
	return nil
}

// Get is a label's answer; "" where it has none.
func (q *Question) Get(l *view.Label) string {
	if strings.HasPrefix(q.Field, "edge.") && l.Edge == nil {
		return ""
	}
	if q.word != nil {
		if w := *q.word(l); w != nil {
			return *w
		}
		return ""
	}
	switch is := *q.yes(l); {
	case is == nil:
		return ""
	case *is:
		return yesNo[0]
	default:
		return yesNo[1]
	}
}

// Asked says whether the question is asked behind the answer to the one before it.
func (q *Question) Asked(before string) bool { return q.If == "" || q.If == before }

// Fill puts the answers to a set's questions into a label, by field. What has no
// answer stays unknown; a field that is not asked of the thing is an error, and so is
// an answer to a question that does not arise.
func Fill(l *view.Label, set string, answers map[string]string) error {
	left, before := len(answers), ""
	for _, q := range QuestionsOf(set, l.Kind) {
		a, ok := answers[q.Field]
		if ok {
			left--
			if !q.Asked(before) && a != Unknown {
				return fmt.Errorf("%w %s: it is asked only behind %q", ErrAnswer, q.Field, q.If)
			}
			if err := q.Set(l, a); err != nil {
				return err
			}
		}
		before = a
	}
	if left > 0 {
		var fields []string
		for _, q := range QuestionsOf(set, l.Kind) {
			fields = append(fields, q.Field)
		}
		return fmt.Errorf("%w: of a %s in %s is asked %s", ErrAnswer, l.Kind, set, strings.Join(fields, ", "))
	}
	return nil
}

// Listed reads answers in the order of the questions, with commas between them.
func Listed(set, kind, text string) (map[string]string, error) {
	questions, given := QuestionsOf(set, kind), strings.Split(text, ",")
	if len(given) > len(questions) {
		return nil, fmt.Errorf("%w: %q has %d answers, and %d questions are asked", ErrAnswer, text, len(given), len(questions))
	}
	out := map[string]string{}
	for i, a := range given {
		out[questions[i].Field] = strings.TrimSpace(a)
	}
	return out, nil
}

// Data is the payload that carries a label: of the detector's set opportunity.labelled,
// else audit.labelled.
func Data(set string, l *view.Label) events.Payload {
	component, capture := "assay audit label", "live"
	ctx := events.Context{Component: &component, Capture: &capture, Author: &l.Principal}
	if set == metric.SetDetector {
		return &events.OpportunityLabelled{
			Context: ctx, Kind: l.Kind, ID: l.ID, Stratum: l.Stratum, Eligible: l.Eligible, OpportunityKind: l.OpportunityKind,
			Rater: l.Rater, Blind: l.Blind, RubricVersion: l.RubricVersion, SampleSeq: l.SampleSeq, Note: l.Note,
		}
	}
	return &events.AuditLabelled{
		Context: ctx, SampleSeq: l.SampleSeq, Stratum: l.Stratum, Kind: l.Kind, ID: l.ID, Eligible: l.Eligible,
		AbductionWarranted: l.AbductionWarranted, ContradictionValid: l.ContradictionValid, DispositionCorrect: l.DispositionCorrect,
		RevisionRequired: l.RevisionRequired, RevisionCorrect: l.RevisionCorrect, CommitmentSupported: l.CommitmentSupported,
		LineagePreserved: l.LineagePreserved, Edge: l.Edge, Rater: l.Rater, Blind: l.Blind, RubricVersion: l.RubricVersion, Note: l.Note,
	}
}

// TypeOf is the event type of a set's labels.
func TypeOf(set string) string {
	if set == metric.SetDetector {
		return events.TypeOpportunityLabelled
	}
	return events.TypeAuditLabelled
}
