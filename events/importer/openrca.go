package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"assay/events"
)

// OpenRCA publishes a file a data set: for each incident the instruction that the
// agent was given, her answer, the truth, and the score that the answer got. No
// answer has a time or a confidence.
var openRCAColumns = []string{"instruction", "prediction", "groundtruth", "passed", "failed", "score", "row_id", "task_index"}

// rcaCause is one root cause, as an answer or the truth names it; "" is a member that
// it does not name.
type rcaCause struct{ Time, Component, Reason string }

// rcaScorer and rcaRules name the scorer of scores from here. Other rules are another
// version.
const (
	rcaScorer = "openrca/1"
	rcaRules  = "root causes are assigned to failures, each to one, so that the most criteria are met; " +
		"component and reason are equal as text, times differ by a minute at most; " +
		"an answer with another number of root causes than there were failures meets none; " +
		"the score is the criteria met by those that the task has"
)

// rcaTask says which criteria a task has.
type rcaTask struct{ time, component, reason bool }

var rcaTasks = map[string]rcaTask{
	"task_1": {time: true},
	"task_2": {reason: true},
	"task_3": {component: true},
	"task_4": {time: true, reason: true},
	"task_5": {time: true, component: true},
	"task_6": {component: true, reason: true},
	"task_7": {time: true, component: true, reason: true},
}

// rcaAnswer finds the root causes in an answer, which is often no JSON.
var rcaAnswer = regexp.MustCompile(`\{\s*(?:"root cause occurrence datetime":\s*"(.*?)")?,?\s*(?:"root cause component":\s*"(.*?)")?,?\s*(?:"root cause reason":\s*"(.*?)")?\s*\}`)

// parseRootCauses reads the root causes that an answer names.
func parseRootCauses(prediction string) (out []rcaCause) {
	for _, m := range rcaAnswer.FindAllStringSubmatch(prediction, -1) {
		out = append(out, rcaCause{m[1], m[2], m[3]})
	}
	return out
}

// maxFailures bounds how many failures of one incident are assigned.
const maxFailures = 12

// scoreRootCauses counts the criteria of a task and those of them that an answer meets;
// ok is false for a task that there is none of, no failure, or too many.
func scoreRootCauses(task string, answer, truth []rcaCause) (met, criteria int, ok bool) {
	t, ok := rcaTasks[task]
	if !ok || len(truth) == 0 || len(truth) > maxFailures {
		return 0, 0, false
	}
	for _, has := range []bool{t.time, t.component, t.reason} {
		if has {
			criteria += len(truth)
		}
	}
	if len(answer) != len(truth) {
		return 0, criteria, true
	}
	// best[used] is the most that the first failures meet, as many as used has bits.
	best := make([]int, 1<<len(truth))
	for used := 1; used < len(best); used++ {
		failure := -1
		for i := range answer {
			if used&(1<<i) != 0 {
				failure++
			}
		}
		for i := range answer {
			if used&(1<<i) != 0 {
				best[used] = max(best[used], best[used&^(1<<i)]+t.meets(answer[i], truth[failure]))
			}
		}
	}
	return best[len(best)-1], criteria, true
}

func (t rcaTask) meets(a, truth rcaCause) (n int) {
	if t.component && a.Component == truth.Component {
		n++
	}
	if t.reason && a.Reason == truth.Reason {
		n++
	}
	if t.time && withinMinute(a.Time, truth.Time) {
		n++
	}
	return n
}

func withinMinute(a, b string) bool {
	x, err := time.Parse(time.DateTime, a)
	y, err2 := time.Parse(time.DateTime, b)
	return err == nil && err2 == nil && x.Sub(y).Abs() <= time.Minute
}

// rcaRow is a row of the file.
type rcaRow struct{ instruction, prediction, groundtruth, passed, failed, score, id, task string }

// truth is what really failed. The file tells of one failure whole; of the others it has
// the criteria alone, as they were passed or failed. Which of the two a criterion was is
// not looked at: that is what the score says.
func (r *rcaRow) truth() []rcaCause {
	var first rcaCause
	for line := range strings.Lines(r.groundtruth) {
		switch k, v, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": "); k {
		case "datetime":
			first.Time = v
		case "component":
			first.Component = v
		case "reason":
			first.Reason = v
		}
	}
	if first == (rcaCause{}) {
		return nil
	}
	task := rcaTasks[r.task]
	times, components, reasons := []string{first.Time}, []string{first.Component}, []string{first.Reason}
	for v := range strings.Lines(r.passed + "\n" + r.failed) {
		v = strings.TrimRight(v, "\r\n")
		of := &reasons
		if _, err := time.Parse(time.DateTime, v); err == nil {
			of = &times
		} else if !strings.Contains(v, " ") { // components are one word, reasons are not
			of = &components
		}
		if v != "" && !slices.Contains(*of, v) {
			*of = append(*of, v)
		}
	}
	n := 1
	for _, of := range []struct {
		has    bool
		values []string
	}{{task.time, times}, {task.component, components}, {task.reason, reasons}} {
		if of.has {
			n = max(n, len(of.values))
		}
	}
	at := func(values []string, i int) string {
		if i < len(values) {
			return values[i]
		}
		return values[0] // of several failures a criterion that is the same is told once
	}
	out := make([]rcaCause, n)
	for i := range out {
		out[i] = rcaCause{at(times, i), at(components, i), at(reasons, i)}
	}
	return out
}

func readOpenRCA(m *maker, in io.Reader) error {
	r, ok, err := m.unmarked(in)
	if !ok || err != nil {
		return err
	}
	limit := &bounded{in: r}
	rows := csv.NewReader(limit)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is empty", ErrFormat)
	}
	if _, ok := errors.AsType[*csv.ParseError](err); ok || errors.Is(err, errLong) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return err
	}
	place := make([]int, len(openRCAColumns))
	for i, column := range openRCAColumns {
		if place[i] = slices.Index(head, column); place[i] < 0 {
			return fmt.Errorf("%w: no column %s", ErrFormat, column)
		}
	}
	for {
		limit.mark = rows.InputOffset()
		record, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		m.report.Lines++
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			m.badAt(int64(wrong.StartLine), badRow, wrong.Error())
			continue
		}
		if errors.Is(err, errLong) {
			m.badAt(m.line+1, badLong, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := rows.FieldPos(0)
		m.line = int64(line)
		fields := make([]string, len(place))
		for i, p := range place {
			fields[i] = record[p]
			if !utf8.ValidString(fields[i]) {
				m.mended(mendedUTF8)
				fields[i] = strings.ToValidUTF8(fields[i], "\ufffd")
			}
		}
		if err := m.rootCauses(&rcaRow{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6], fields[7]}); err != nil {
			return err
		}
	}
}

// rootCauses tells of a row: what the agent claims, what the harness got and made of it,
// and what an operator knows to be true.
func (m *maker) rootCauses(r *rcaRow) error {
	answer, truth := parseRootCauses(r.prediction), r.truth()
	met, criteria, ok := scoreRootCauses(r.task, answer, truth)
	if !ok {
		m.bad(badShape, fmt.Sprintf("row %s: no task %q, or no truth", clip(r.id, 20), clip(r.task, 20)))
		return nil
	}
	caseID := opaque("openrca", r.task, r.instruction, r.id)
	episode := "openrca:" + caseID
	run := "openrca:" + m.run()
	for i, a := range answer {
		for _, f := range []struct{ name, value string }{{"component", a.Component}, {"reason", a.Reason}, {"time", a.Time}} {
			if f.value == "" {
				continue
			}
			if err := m.put(draft{episode: episode, data: &events.ClaimRecorded{
				ClaimID: episode + ":" + strconv.Itoa(i+1) + ":" + f.name, Status: "asserted",
				Proposition: &events.Proposition{Variable: "root cause " + f.name, Value: *m.text(f.value, 2000), Scope: &caseID},
			}}); err != nil {
				return err
			}
		}
	}
	response := &events.ResponseRecorded{
		RunID: run, CaseID: caseID, Status: "parsed", SchemaValid: ptr(len(answer) > 0),
		PromptSHA256: ptr(hashOf(r.instruction)), RawSHA256: ptr(hashOf(r.prediction)),
	}
	switch {
	case strings.TrimSpace(r.prediction) == "":
		response.Status = "empty"
	case len(answer) == 0:
		response.Status = "malformed"
	default:
		response.Answer = &events.Answer{Kind: "answer"}
	}
	if err := m.put(draft{data: response, episode: episode}); err != nil {
		return err
	}
	if err := m.put(draft{data: m.rcaScore(r, run, caseID, met, criteria), episode: episode}); err != nil {
		return err
	}
	for i, t := range truth {
		what := fmt.Sprintf("failure %d of %d: component %s, reason %s, at %s", i+1, len(truth), stated(t.Component), stated(t.Reason), stated(t.Time))
		if err := m.put(draft{episode: episode, data: &events.OutcomeRecorded{What: *m.text(what, 2000), Source: "record"}}); err != nil {
			return err
		}
	}
	return nil
}

func stated(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (m *maker) rcaScore(r *rcaRow, run, caseID string, met, criteria int) *events.ScoreRecorded {
	score := float64(met) / float64(criteria)
	s := &events.ScoreRecorded{
		RunID: run, CaseID: caseID, Scorer: rcaScorer, ScorerSHA256: hashOf(rcaRules), Outcome: ptr("partial"),
		Values: []events.ScoreValue{
			{Metric: "score", Value: &score},
			{Metric: "criteria_met", Value: ptr(float64(met))},
			{Metric: "criteria", Value: ptr(float64(criteria))},
			{Metric: "published_score"},
		},
	}
	switch met {
	case criteria:
		s.Outcome = ptr("correct")
	case 0:
		s.Outcome = ptr("incorrect")
	}
	published, err := strconv.ParseFloat(r.score, 64)
	if err != nil || math.IsNaN(published) || math.IsInf(published, 0) {
		m.mended(mendedNumber)
		return s
	}
	s.Values[3].Value = &published
	if math.Abs(published-score) > 1e-9 {
		m.mended(mendedScore)
	}
	return s
}

// run is the source's name as part of an id.
func (m *maker) run() string {
	name := strings.TrimSuffix(m.cfg.Source, ".csv")
	if name != "" && len(name) <= 64 && events.Identifier(name) == name {
		return name
	}
	return hashOf(name)[:32]
}
