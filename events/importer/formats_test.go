package importer

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/events"
	"assay/internal/answerkeys"
	"assay/schema"
)

func byCall(r *result) map[string]*events.ToolCalled {
	out := map[string]*events.ToolCalled{}
	for _, c := range of[*events.ToolCalled](r) {
		out[c.ToolCallID] = c
	}
	return out
}

func statuses(r *result) map[string]string {
	out := map[string]string{}
	for id, c := range byCall(r) {
		out[id] = c.Status
	}
	return out
}

func TestClaudeCode(t *testing.T) {
	r := readSample(t, "claude-code", schema.RoleDispatcher)
	check(t, "statuses", statuses(r), map[string]string{"toolu_1": "ok", "toolu_2": "denied", "toolu_3": "failed", "toolu_4": "unknown"})
	check(t, "mended", r.Mended, map[string]int64{mendedOpen: 1})
	c := byCall(r)["toolu_1"]
	check(t, "started", c.StartedAt, ptr("2026-03-01T10:00:03Z"))
	check(t, "ended", c.EndedAt, ptr("2026-03-01T10:00:05Z"))
	check(t, "args", c.ArgsHash, ptr(hashOf(`{"command":"df -h"}`)))
	check(t, "result", c.ResultHash, ptr(hashOf("full")))
	check(t, "latency", c.LatencyMS, ptr(1500.0))
	check(t, "message", c.MessageID, ptr("msg_1"))
	open := byCall(r)["toolu_4"]
	if open.EndedAt != nil || open.ResultHash != nil {
		t.Errorf("a call without a result has one: %+v", open)
	}
	for _, e := range r.events {
		check(t, "episode of "+e.Type, e.EpisodeID, "s1")
	}
	check(t, "kept", r.kept, []string{"why is the queue full?"})
}

// TestUsageIsOfMessages: each line of a message repeats its usage, and the last has it
// whole; what was written to the cache is input that was read in full.
func TestUsageIsOfMessages(t *testing.T) {
	spent := of[*events.UsageRecorded](readSample(t, "claude-code", schema.RoleDispatcher))
	if len(spent) != 2 {
		t.Fatalf("%d messages with usage, want 2", len(spent))
	}
	check(t, "message", spent[0].MessageID, ptr("msg_1"))
	check(t, "tokens", *spent[0].Tokens, events.Tokens{Input: ptr(int64(103)), Cached: ptr(int64(1000)), Output: ptr(int64(40))})
	check(t, "convention", spent[0].UsageConvention, ptr("input_excludes_cached"))
	// What was written to the cache is not stated, and so all input is not known.
	check(t, "tokens without a cache", *spent[1].Tokens, events.Tokens{Output: ptr(int64(2))})
	if spent[0].CostUSD != nil {
		t.Error("a cost that nobody stated")
	}
}

// TestRepeatedLines: a resumed session tells its beginning again.
func TestRepeatedLines(t *testing.T) {
	once := sample(t, "claude-code")
	one := read(t, "claude-code", schema.RoleDispatcher, bytes.NewReader(once))
	two := read(t, "claude-code", schema.RoleDispatcher, bytes.NewReader(slices.Concat(once, once)))
	check(t, "calls", two.Events["tool.called"], one.Events["tool.called"])
	check(t, "usage", two.Events["usage.recorded"], one.Events["usage.recorded"])
	ids := map[string]bool{}
	for _, e := range two.events {
		ids[e.ID] = true
	}
	if len(ids) != len(one.events) {
		t.Errorf("%d different events, want %d", len(ids), len(one.events))
	}
}

// TestOpenCallsAreBounded: a call that is open for too long is told as unknown, and its
// late result is counted.
func TestOpenCallsAreBounded(t *testing.T) {
	var in strings.Builder
	for i := range maxOpen + 1 {
		fmt.Fprintf(&in, `{"type":"assistant","sessionId":"s","timestamp":"2026-03-01T10:00:00Z","message":{"content":[{"type":"tool_use","id":"t%d","name":"x","input":{}}]}}`+"\n", i)
	}
	for _, i := range []int{0, maxOpen} {
		fmt.Fprintf(&in, `{"type":"user","sessionId":"s","timestamp":"2026-03-01T10:00:00Z","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":"c"}]}}`+"\n", i)
	}
	r := read(t, "claude-code", schema.RoleAgent, strings.NewReader(in.String()))
	got := statuses(r)
	if len(got) != maxOpen+1 || got["t0"] != "unknown" || got[fmt.Sprint("t", maxOpen)] != "ok" {
		t.Errorf("%d calls, the first %s, the last %s", len(got), got["t0"], got[fmt.Sprint("t", maxOpen)])
	}
	check(t, "mended", r.Mended, map[string]int64{mendedOpen: maxOpen, mendedRepeat: 1})
}

func TestCodex(t *testing.T) {
	r := readSample(t, "codex", schema.RoleDispatcher)
	check(t, "statuses", statuses(r), map[string]string{"call_1": "failed", "call_2": "ok", "call_3": "unknown", "call_4": "ok", "ws_1": "ok"})
	check(t, "latency", byCall(r)["call_2"].LatencyMS, ptr(1500.0))
	check(t, "args", byCall(r)["call_1"].ArgsHash, ptr(hashOf(`{"cmd":"make"}`)))
	check(t, "kept", r.kept, []string{"build it"})
	check(t, "mended", r.Mended, map[string]int64{mendedRepeat: 1})
	spent := of[*events.UsageRecorded](r)
	if len(spent) != 2 {
		t.Fatalf("%d usages, want 2", len(spent))
	}
	check(t, "tokens", *spent[0].Tokens, events.Tokens{Input: ptr(int64(100)), Cached: ptr(int64(80)), Output: ptr(int64(10))})
	check(t, "convention", spent[0].UsageConvention, ptr("input_includes_cached"))
	check(t, "unknown cached", *spent[1].Tokens, events.Tokens{Input: ptr(int64(200)), Output: ptr(int64(10))})
	check(t, "model", spent[0].Model, ptr("model-y"))
	session := of[*events.EpisodeRecorded](r)[0]
	check(t, "session", session.SessionID, ptr("r1"))
}

// TestHandoff: the producer is told of once, and an unknown cost stays unknown.
func TestHandoff(t *testing.T) {
	r := readSample(t, "handoff", schema.RoleHarness)
	ids := map[string]*events.EpisodeRecorded{}
	for _, e := range r.events {
		ids[e.ID] = e.Data.(*events.EpisodeRecorded)
	}
	if len(r.events) != 4 || len(ids) != 3 {
		t.Fatalf("%d events, %d of them different", len(r.events), len(ids))
	}
	all := of[*events.EpisodeRecorded](r)
	producer, consumer := all[0], all[1]
	check(t, "producer's arm", producer.Arm, nil)
	check(t, "producer's uncached tokens", producer.UncachedInputTokens, ptr(int64(12)))
	check(t, "producer's cost", producer.CostUSD, ptr(0.5))
	check(t, "consumer's arm", consumer.Arm, ptr("empty"))
	check(t, "consumer's pair", consumer.PairID, ptr("task-1-1"))
	check(t, "consumer's cost", consumer.CostUSD, nil)
	check(t, "consumer's total", consumer.TotalTokens, nil)
	check(t, "delivered", consumer.DeliveredTokens, ptr(int64(0)))
	check(t, "injection", all[3].InjectionID, ptr("inj-1"))
	check(t, "correct", []bool{*all[1].Correct, *all[3].Correct}, []bool{false, true})
}

func TestHolmesGPT(t *testing.T) {
	r := readSample(t, "holmesgpt", schema.RoleAgent)
	// No result of such a chat says how its call ended.
	check(t, "statuses", statuses(r), map[string]string{"call_1": "unknown", "call_2": "unknown"})
	check(t, "results", []*string{byCall(r)["call_1"].ResultHash, byCall(r)["call_2"].ResultHash}, []*string{ptr(hashOf("timeouts")), nil})
	var causes []string
	for _, c := range of[*events.ClaimRecorded](r) {
		causes = append(causes, c.Proposition.Variable+": "+c.Proposition.Value)
		if c.RawConfidence != nil || c.CalibratedConfidence != nil {
			t.Error("a confidence that nobody stated")
		}
	}
	check(t, "claims", causes, []string{"root cause: A leak in the client", "root cause: Disk full"})
	for _, e := range r.events {
		check(t, "time", e.Time, unknownTime)
	}
	without := read(t, "holmesgpt", schema.RoleAgent, strings.NewReader(`[{"role":"assistant","content":"It is the disk."}]`))
	check(t, "a conclusion in no line of its own", of[*events.ClaimRecorded](without)[0].Proposition.Variable, "conclusion")
	open := read(t, "holmesgpt", schema.RoleAgent, strings.NewReader(`[{"role":"assistant","content":"Root cause: x"},{"role":"user","content":"no"}]`))
	check(t, "a word that was not the last", len(of[*events.ClaimRecorded](open)), 0)
}

func TestInspect(t *testing.T) {
	r := readSample(t, "inspect", schema.RoleHarness)
	check(t, "statuses", statuses(r), map[string]string{"tc1": "ok", "tc2": "timeout"})
	spent := of[*events.UsageRecorded](r)[0]
	check(t, "tokens", *spent.Tokens, events.Tokens{Input: ptr(int64(60)), Cached: ptr(int64(40)), Output: ptr(int64(2))})
	check(t, "convention", spent.UsageConvention, ptr("input_excludes_cached"))
	check(t, "attempts", spent.Attempts, ptr(int64(2)))
	check(t, "started", spent.StartedAt, ptr("2026-03-01T14:00:01Z"))
	answers := of[*events.ResponseRecorded](r)
	check(t, "statuses of responses", []string{answers[0].Status, answers[1].Status}, []string{"parsed", "crash"})
	check(t, "elapsed", answers[0].ElapsedMS, ptr(500.0))
	check(t, "all input", answers[0].Cost.InputTokens, ptr(int64(100)))
	check(t, "label", answers[0].Answer.Label, ptr("2"))
	if answers[0].CaseID == answers[1].CaseID {
		t.Error("two cases have one id")
	}
	scores := of[*events.ScoreRecorded](r)
	if len(scores) != 2 {
		t.Fatalf("%d scores", len(scores))
	}
	check(t, "scorers", []string{scores[0].Scorer, scores[1].Scorer}, []string{"length", "match"})
	check(t, "grade", scores[1].Outcome, ptr("correct"))
	check(t, "value", scores[1].Values, []events.ScoreValue{{Metric: "match", Value: ptr(1.0)}})
	check(t, "a described scorer", scores[1].ScorerSHA256, hashOf(`{"name":"match","options":{}}`))
	check(t, "a scorer that is not described", scores[0].ScorerSHA256, hashOf("length"))
}

func TestInspectBroken(t *testing.T) {
	whole := string(sample(t, "inspect"))
	for name, tt := range map[string]struct {
		in   string
		bad  map[string]int64
		want int64 // samples
	}{
		"cut within a sample": {whole[:strings.Index(whole, `{"id":"b"`)+20], map[string]int64{badTruncated: 1}, 1},
		"no JSON any more":    {strings.Replace(whole, `{"id":"b"`, `{"id":?`, 1), map[string]int64{badJSON: 1}, 1},
		"sample of a shape":   {strings.Replace(whole, `"events":[`, `"events":7,"x":[`, 1), map[string]int64{badShape: 1}, 1},
		"no time":             {strings.ReplaceAll(whole, `"timestamp"`, `"when"`), map[string]int64{}, 2},
	} {
		r := read(t, "inspect", schema.RoleHarness, strings.NewReader(tt.in))
		check(t, name, r.Bad, tt.bad)
		check(t, name+": samples", r.Events["response.recorded"], tt.want)
	}
	for _, in := range []string{"", "[]", "7"} {
		if _, err := tryRead(t, "inspect", schema.RoleHarness, strings.NewReader(in)); err == nil {
			t.Errorf("%q was taken for a log", in)
		}
	}
}

func TestInspectTokens(t *testing.T) {
	n := func(v float64) num { return num{&v} }
	for name, tt := range map[string]struct {
		u     inspectUsage
		how   *string
		input int64
	}{
		"nothing cached": {inspectUsage{Input: n(10), Output: n(2), Total: n(12), Read: n(0)}, ptr(includesCached), 10},
		"included":       {inspectUsage{Input: n(10), Output: n(2), Total: n(12), Read: n(8)}, ptr(includesCached), 10},
		"excluded":       {inspectUsage{Input: n(10), Output: n(2), Total: n(23), Read: n(8), Written: n(3)}, ptr(excludesCached), 13},
		"no total":       {inspectUsage{Input: n(10), Output: n(2), Read: n(8)}, nil, 10},
		"another total":  {inspectUsage{Input: n(10), Output: n(2), Total: n(99), Read: n(8)}, nil, 10},
	} {
		m := &maker{report: Report{Mended: map[string]int64{}}}
		tokens, how := m.inspectTokens(&tt.u)
		check(t, name, how, tt.how)
		check(t, name+": input", tokens.Input, &tt.input)
	}
}

// TestOwn: events of the ledger's own keep their bytes, but for the word that they were
// imported.
func TestOwn(t *testing.T) {
	r := readSample(t, "jsonl", schema.RoleAgent)
	check(t, "events", r.Events, map[string]int64{"gate.chosen": 3})
	check(t, "left", r.Left, map[string]int64{"usage.recorded": 1})
	check(t, "bad", r.Bad, map[string]int64{"bad_value": 1})
	check(t, "id", r.events[1].ID, "01920f5e-7b17-7d2a-8e3f-0a1b2c3d4e5f")
	if want := `"data":{"action":"ASK","context":{"stage":"gate","capture":"imported"}}`; !strings.Contains(string(r.raw[1]), want) {
		t.Errorf("%s has no %s", r.raw[1], want)
	}
	check(t, "time", []string{r.events[0].Time, r.events[1].Time}, []string{unknownTime, "2026-03-01T10:00:00Z"})
	check(t, "a stage beside it", r.events[2].Data.Common().Stage, ptr("gate"))
	for in, kind := range map[string]string{
		`{"type":"gate.chosen","data":{"context":{},"action":"TEST","reason":"\ud800"}}`:     "lone_surrogate",
		`{"type":"gate.chosen","data":{"context":{},"action":"TEST","reason":"` + "\xe9\"}}": "bad_utf8",
		`{"type":"gate.chosen","data":{"context":{},"context":{},"action":"TEST"}}`:          "duplicate_key",
		`{"type":"gate.chosen","data":{"action":"TEST"}}`:                                    "missing_field",
		`{"type":"gate.chosen","data":[]}`:                                                   "wrong_type",
		`{"type":"gate.chosen","data":{"context":7,"action":"TEST"}}`:                        "wrong_type",
		`{"type":"gate.told","data":{}}`:                                                     "missing_field", // there is no version of it to add
		`[]`:                                                                                 "not_an_object",
		`{"type":"gate.chosen"`:                                                              badTruncated,
	} {
		r := read(t, "jsonl", schema.RoleAgent, strings.NewReader(in))
		check(t, in, r.Bad, map[string]int64{kind: 1})
	}
}

// TestScoreRootCauses: the rules of the scorer, one by one.
func TestScoreRootCauses(t *testing.T) {
	a := rcaCause{"2026-03-01 10:00:00", "db-1", "disk full"}
	b := rcaCause{"2026-03-01 11:00:00", "db-2", "packet loss"}
	at := func(c rcaCause, time string) rcaCause { c.Time = time; return c }
	for _, tt := range []struct {
		name, task    string
		answer, truth []rcaCause
		met, criteria int
	}{
		{"all", "task_7", []rcaCause{a}, []rcaCause{a}, 3, 3},
		{"in another order", "task_7", []rcaCause{b, a}, []rcaCause{a, b}, 6, 6},
		{"one of two", "task_3", []rcaCause{a, a}, []rcaCause{a, b}, 1, 2},
		{"the best assignment", "task_6", []rcaCause{{"", "db-1", "packet loss"}, {"", "db-2", "packet loss"}}, []rcaCause{b, a}, 3, 4},
		{"a minute", "task_1", []rcaCause{at(a, "2026-03-01 10:01:00")}, []rcaCause{a}, 1, 1},
		{"more than a minute", "task_1", []rcaCause{at(a, "2026-03-01 10:01:01")}, []rcaCause{a}, 0, 1},
		{"no time", "task_1", []rcaCause{at(a, "noon")}, []rcaCause{a}, 0, 1},
		{"other members do not count", "task_2", []rcaCause{{"", "x", "disk full"}}, []rcaCause{a}, 1, 1},
		{"too few", "task_7", []rcaCause{a}, []rcaCause{a, b}, 0, 6},
		{"too many", "task_7", []rcaCause{a, b}, []rcaCause{a}, 0, 3},
		{"none", "task_7", nil, []rcaCause{a}, 0, 3},
	} {
		met, criteria, ok := scoreRootCauses(tt.task, tt.answer, tt.truth)
		if !ok || met != tt.met || criteria != tt.criteria {
			t.Errorf("%s: %d of %d, %v; want %d of %d", tt.name, met, criteria, ok, tt.met, tt.criteria)
		}
	}
	for name, ok := range map[string]bool{"no task": func() bool { _, _, ok := scoreRootCauses("task_8", []rcaCause{a}, []rcaCause{a}); return ok }(),
		"no truth": func() bool { _, _, ok := scoreRootCauses("task_1", []rcaCause{a}, nil); return ok }()} {
		if ok {
			t.Errorf("%s has a score", name)
		}
	}
}

func values(s *events.ScoreRecorded) map[string]float64 {
	out := map[string]float64{}
	for _, v := range s.Values {
		if v.Value != nil {
			out[v.Metric] = *v.Value
		}
	}
	return out
}

func TestOpenRCA(t *testing.T) {
	r := readSample(t, "openrca", schema.RoleHarness)
	check(t, "mended", r.Mended, map[string]int64{})
	var scores []string
	for _, s := range of[*events.ScoreRecorded](r) {
		v := values(s)
		scores = append(scores, fmt.Sprintf("%s %g/%g %g=%g", *s.Outcome, v["criteria_met"], v["criteria"], v["score"], v["published_score"]))
	}
	check(t, "scores", scores, []string{"correct 1/1 1=1", "partial 2/4 0.5=0.5", "incorrect 0/1 0=0"})
	var answers []string
	for _, a := range of[*events.ResponseRecorded](r) {
		answers = append(answers, a.Status)
	}
	check(t, "answers", answers, []string{"parsed", "parsed", "malformed"})
	head := "instruction,prediction,groundtruth,passed,failed,score,row_id,task_index\n"
	for in, want := range map[string]map[string]int64{
		head + "a,b\n":                           {badRow: 1},
		head + "a,b,component: x,,,0,1,task_9\n": {badShape: 1},
		head + "a,b,nothing,,,0,1,task_1\n":      {badShape: 1},
		head + "a,\"b\"c,component: x,,,0,1,task_3\n" + "a,b,component: x,,x,0,1,task_3\n":       {badRow: 1},
		"\ufeff" + strings.ReplaceAll(head, "\n", "\r\n") + "a,b,component: x,,x,0,1,task_3\r\n": {},
	} {
		check(t, in, read(t, "openrca", schema.RoleHarness, strings.NewReader(in)).Bad, want)
	}
	differs := read(t, "openrca", schema.RoleHarness, strings.NewReader(head+"a,b,component: x,,x,1,1,task_3\n"))
	check(t, "a published score that is another", differs.Mended, map[string]int64{mendedScore: 1})
	for _, in := range []string{"", "a,b\n1,2\n"} {
		if _, err := tryRead(t, "openrca", schema.RoleHarness, strings.NewReader(in)); err == nil {
			t.Errorf("%q was taken for OpenRCA's", in)
		}
	}
}

// TestPublishedScores recomputes what others published, row by row and in all, from the
// answers and the truth alone.
func TestPublishedScores(t *testing.T) {
	rows, full, total := 0, 0, 0.0
	for _, name := range []string{"agent-Bank.csv", "agent-Market-cloudbed-1.csv"} {
		f, err := os.Open(answerkeys.Need(t, "rca/openrca/"+name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := read(t, "openrca", schema.RoleHarness, f)
		check(t, name+": bad", r.Bad, map[string]int64{})
		check(t, name+": mended", r.Mended, map[string]int64{})
		for i, s := range of[*events.ScoreRecorded](r) {
			v := values(s)
			published, ok := v["published_score"]
			if !ok || math.Abs(v["score"]-published) > 1e-9 {
				t.Errorf("%s, row %d: %v, published %v", name, i, v["score"], published)
			}
			rows++
			total += v["score"]
			if v["score"] == 1 {
				full++
			}
		}
	}
	if rows != 206 || full != 23 || math.Abs(total-39.41666666666667) > 1e-9 {
		t.Errorf("%d rows, %d fully right, %v in all; want 206, 23 and 39.4167", rows, full, total)
	}
}

// TestTranscriptsOfOthers reads real files whole.
func TestTranscriptsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		file, format string
		role         schema.Role
		want         map[string]int64
		calls        map[string]int
	}{
		{"claude-code-tool_heavy.jsonl", "claude-code", schema.RoleDispatcher, map[string]int64{"tool.called": 6, "usage.recorded": 4, "episode.recorded": 7}, map[string]int{"ok": 6}},
		{"claude-to-codex-controls.jsonl", "handoff", schema.RoleHarness, map[string]int64{"episode.recorded": 10}, map[string]int{}},
		{"holmesgpt-003_cascading_failure.json", "holmesgpt", schema.RoleAgent, map[string]int64{"tool.called": 16, "claim.recorded": 1}, map[string]int{"unknown": 16}},
		{"holmesgpt-004_multiple_root_causes.json", "holmesgpt", schema.RoleAgent, map[string]int64{"tool.called": 22, "claim.recorded": 2}, map[string]int{"unknown": 22}},
		{"inspect-popularity.json", "inspect", schema.RoleHarness, map[string]int64{"response.recorded": 3, "score.recorded": 3, "usage.recorded": 3}, map[string]int{}},
	} {
		f, err := os.Open(answerkeys.Need(t, "transcripts/"+tt.file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := read(t, tt.format, tt.role, f)
		check(t, tt.file, r.Events, tt.want)
		check(t, tt.file+": bad", r.Bad, map[string]int64{})
		calls := map[string]int{}
		for _, s := range statuses(r) {
			calls[s]++
		}
		check(t, tt.file+": calls", calls, tt.calls)
	}
	// Two of three answers are right, by the log's own accuracy.
	f, err := os.Open(answerkeys.Need(t, "transcripts/inspect-popularity.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	outcomes := map[string]int{}
	for _, s := range of[*events.ScoreRecorded](read(t, "inspect", schema.RoleHarness, f)) {
		outcomes[*s.Outcome]++
	}
	if !maps.Equal(outcomes, map[string]int{"correct": 2, "incorrect": 1}) {
		t.Errorf("outcomes %v", outcomes)
	}
}

// lines repeats a session of its own number until it has given n bytes.
type lines struct {
	n, session int
	rest       []byte
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.n <= 0 {
			return 0, io.EOF
		}
		l.session++
		for i := range 20 {
			l.rest = fmt.Appendf(l.rest, `{"type":"assistant","uuid":"a","sessionId":"s%d","version":"1","timestamp":"2026-03-01T10:00:00Z","message":{"id":"m%d-%d","model":"m","content":[{"type":"tool_use","id":"t%d-%d","name":"Bash","input":{"command":"x"}}],"usage":{"input_tokens":3,"output_tokens":4}}}`+"\n", l.session, l.session, i, l.session, i)
			if i%2 == 0 {
				l.rest = fmt.Appendf(l.rest, `{"type":"user","uuid":"u","sessionId":"s%d","version":"1","timestamp":"2026-03-01T10:00:00Z","message":{"content":[{"type":"tool_result","tool_use_id":"t%d-%d","content":"%s"}]}}`+"\n", l.session, l.session, i, strings.Repeat("y", 2000))
			}
		}
	}
	n := copy(p, l.rest)
	l.rest, l.n = l.rest[n:], l.n-n
	return n, nil
}

// TestMemoryIsBounded: what is held does not grow with the file, though half of the
// calls never end.
func TestMemoryIsBounded(t *testing.T) {
	held := func(size int) (calls, usages int) {
		m := &maker{cfg: Config{Format: "claude-code", May: func(string) bool { return true }, Put: func(Event) error { return nil }}, report: Report{
			Events: map[string]int64{}, Left: map[string]int64{}, Mended: map[string]int64{}, Bad: map[string]int64{},
		}}
		c := &claude{m, newCalls(m), newQueue[*draft](maxUsage), newQueue[struct{}](maxUsage)}
		if err := eachLine(m, &lines{n: size}, c.line); err != nil {
			t.Fatal(err)
		}
		if m.report.Lines < int64(size/2500) || m.report.Count() > 0 {
			t.Fatalf("%d lines, bad %v", m.report.Lines, m.report.Bad)
		}
		return c.calls.open.order.Len(), c.usage.order.Len() + c.sessions.order.Len()
	}
	calls, usages := held(40 << 20)
	if calls != maxOpen || usages != 2*maxUsage {
		t.Errorf("%d open calls and %d messages and sessions are held; at most %d and %d may be, and the file has more", calls, usages, maxOpen, 2*maxUsage)
	}
}
