package importer

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/jsonfault"
)

// inspectEval is the head of a log of Inspect.
type inspectEval struct {
	ID      str              `json:"eval_id"`
	Created str              `json:"created"`
	Task    str              `json:"task"`
	Model   str              `json:"model"` // provider/model
	Scorers []jsontext.Value `json:"scorers"`
}

type inspectSample struct {
	ID     str            `json:"id"`
	Epoch  num            `json:"epoch"`
	UUID   str            `json:"uuid"`
	Input  jsontext.Value `json:"input"`
	Output struct {
		Model   str `json:"model"`
		Choices []struct {
			Message struct {
				Content jsontext.Value `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	} `json:"output"`
	Scores map[string]inspectScore `json:"scores"`
	Usage  map[string]inspectUsage `json:"model_usage"`
	Total  num                     `json:"total_time"` // seconds
	Error  jsontext.Value          `json:"error"`
	Limit  *struct {
		Type str `json:"type"`
	} `json:"limit"`
	Events []inspectEvent `json:"events"`
}

type inspectScore struct {
	Value  jsontext.Value `json:"value"`
	Answer str            `json:"answer"`
}

type inspectUsage struct {
	Input   num `json:"input_tokens"`
	Output  num `json:"output_tokens"`
	Total   num `json:"total_tokens"`
	Read    num `json:"input_tokens_cache_read"`
	Written num `json:"input_tokens_cache_write"`
}

// inspectEvent has the members of a model's and a tool's event.
type inspectEvent struct {
	Event     str `json:"event"`
	Timestamp str `json:"timestamp"`
	Completed str `json:"completed"`

	Model   str  `json:"model"`
	Retries num  `json:"retries"`
	Cache   str  `json:"cache"`
	Pending flag `json:"pending"`
	Output  struct {
		Model   str `json:"model"`
		Choices []struct {
			Message struct {
				ID str `json:"id"`
			} `json:"message"`
		} `json:"choices"`
		Usage *inspectUsage `json:"usage"`
		Time  num           `json:"time"` // seconds
	} `json:"output"`

	ID        str            `json:"id"`
	Function  str            `json:"function"`
	Arguments jsontext.Value `json:"arguments"`
	Result    jsontext.Value `json:"result"`
	Error     jsontext.Value `json:"error"` // of a model a text, of a tool an object
}

type inspect struct {
	m     *maker
	in    *bounded
	eval  inspectEval
	run   string
	calls *calls
}

// readInspect reads a log as JSON: an object whose head stands before its samples,
// which are read one after the other.
func readInspect(m *maker, in io.Reader) error {
	r, ok, err := m.unmarked(in)
	if !ok || err != nil {
		return err
	}
	s := &inspect{m: m, in: &bounded{in: r}, calls: newCalls(m)}
	err = s.log(jsontext.NewDecoder(s.in, mending, jsontext.AllowDuplicateNames(true)))
	_, syntactic := errors.AsType[*jsontext.SyntacticError](err)
	kind := ""
	switch {
	case err == nil:
		return s.calls.flush()
	case errors.Is(err, io.ErrUnexpectedEOF):
		kind = badTruncated
	case errors.Is(err, errLong):
		kind = badLong
	case syntactic:
		kind = badJSON
	default:
		return err
	}
	// What stands behind the place cannot be told any more.
	m.badAt(m.line+1, kind, jsonfault.Text(err))
	return s.calls.flush()
}

// next is the next value, whole.
func (s *inspect) next(dec *jsontext.Decoder) (jsontext.Value, error) {
	s.in.mark = dec.InputOffset()
	v, err := dec.ReadValue()
	return v.Clone(), err
}

// skip passes over the next value without holding it.
func (s *inspect) skip(dec *jsontext.Decoder) error {
	for depth := dec.StackDepth(); ; {
		s.in.mark = dec.InputOffset()
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		if dec.StackDepth() <= depth {
			return nil
		}
	}
}

func (s *inspect) log(dec *jsontext.Decoder) error {
	tok, err := dec.ReadToken()
	if errors.Is(err, io.EOF) || err == nil && tok.Kind() != '{' {
		return fmt.Errorf("%w: it is no object", ErrFormat)
	}
	for err == nil && dec.PeekKind() != '}' {
		if tok, err = dec.ReadToken(); err != nil {
			break
		}
		switch name := tok.String(); {
		case name == "eval":
			err = s.head(dec)
		case name == "samples" && dec.PeekKind() == '[':
			err = s.samples(dec)
		default:
			s.m.left("member " + name)
			err = s.skip(dec)
		}
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	return err
}

func (s *inspect) head(dec *jsontext.Decoder) error {
	raw, err := s.next(dec)
	if err != nil {
		return err
	}
	var ok bool
	if s.eval, ok = part[inspectEval](raw); !ok {
		s.m.bad(badShape, "eval has another shape")
	}
	return nil
}

func (s *inspect) samples(dec *jsontext.Decoder) error {
	s.run = s.m.id(string(s.eval.ID))
	if s.run == "" {
		s.m.mended(mendedMissingID)
		s.run = "source:" + hashOf(s.m.cfg.Source)[:32]
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		raw, err := s.next(dec)
		if err != nil {
			return err
		}
		s.m.line++
		s.m.report.Lines++
		v, ok := decode[inspectSample](s.m, raw)
		if !ok {
			continue
		}
		if err := s.sample(v); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

func (s *inspect) sample(v *inspectSample) error {
	if v.ID == "" {
		s.m.mended(mendedMissingID)
		v.ID = str("place " + strconv.FormatInt(s.m.line, 10))
	}
	epoch := s.m.number(v.Epoch.v)
	episode := events.Identifier(string(v.UUID))
	if episode == "" {
		episode = opaque("inspect", s.run, string(v.ID), fmt.Sprint(v.Epoch.v))
	}
	var at *string
	s.m.last = time.Time{} // samples run side by side
	for i := range v.Events {
		e := &v.Events[i]
		if e.Event != "model" && e.Event != "tool" {
			s.m.left("event " + string(e.Event))
			continue
		}
		started := s.m.timestamp(string(e.Timestamp))
		if started != nil {
			at = started
		}
		var err error
		if e.Event == "model" {
			err = s.model(e, episode, started)
		} else {
			err = s.tool(e, episode, started)
		}
		if err != nil {
			return err
		}
	}
	if at == nil {
		at = s.m.timestamp(string(s.eval.Created))
	}
	return s.judged(v, epoch, episode, at)
}

// optional is a time that need not be there.
func (m *maker) optional(s str) *string {
	if s == "" {
		return nil
	}
	return m.timestamp(string(s))
}

func (s *inspect) model(e *inspectEvent, episode string, started *string) error {
	if e.Cache == "read" {
		s.m.left("model call answered from a cache")
		return nil
	}
	u := &events.UsageRecorded{
		Model: s.m.name(string(e.Model)), ModelVersion: s.m.name(string(e.Output.Model)), Status: ptr(statusOK),
		StartedAt: started, EndedAt: s.m.optional(e.Completed), LatencyMS: s.m.seconds(e.Output.Time),
	}
	switch {
	case e.Pending.is():
		u.Status = ptr(statusUnknown)
	case len(e.Error) > 0 && e.Error.Kind() != 'n':
		u.Status = ptr(statusFailed)
	}
	if n := s.m.number(e.Retries.v); n != nil {
		u.Attempts = ptr(*n + 1)
	}
	if e.Output.Usage != nil {
		u.Tokens, u.UsageConvention = s.m.inspectTokens(e.Output.Usage)
	}
	d := draft{data: u, time: started, episode: episode}
	if len(e.Output.Choices) > 0 {
		u.MessageID = s.m.name(string(e.Output.Choices[0].Message.ID))
	}
	if u.MessageID == nil {
		s.m.mended(mendedMissingID)
		d.at = s.m.unless(started)
	}
	return s.m.put(d)
}

// seconds is a number of seconds in milliseconds.
func (m *maker) seconds(v num) *float64 {
	if v.v == nil {
		return nil
	}
	return m.amount(ptr(*v.v * 1000))
}

// inspectTokens are the tokens of a usage. Whether its input includes what was cached
// differs by provider, and follows from the total.
func (m *maker) inspectTokens(u *inspectUsage) (*events.Tokens, *string) {
	t := &events.Tokens{Input: m.number(u.Input.v), Output: m.number(u.Output.v), Cached: m.number(u.Read.v)}
	total, written := m.number(u.Total.v), m.number(u.Written.v)
	if t.Input == nil || t.Output == nil || total == nil {
		return t, nil
	}
	switch *total - *t.Output - *t.Input {
	case 0:
		return t, ptr(includesCached)
	case *sum(t.Cached, written, ptr(int64(0))):
		t.Input = sum(t.Input, written)
		return t, ptr(excludesCached)
	}
	return t, nil
}

func (s *inspect) tool(e *inspectEvent, episode string, started *string) error {
	t := &call{draft{time: started, episode: episode, at: string(e.Timestamp)}, &events.ToolCalled{
		ToolCallID: string(e.ID), Tool: string(e.Function), Status: statusUnknown,
		StartedAt: started, EndedAt: s.m.optional(e.Completed), ArgsHash: contentHash(e.Arguments),
	}}
	if err := s.calls.begin(t); err != nil || e.Pending.is() {
		return err
	}
	t, open := s.calls.open.get(callKey(episode, t.data.ToolCallID))
	if !open {
		return nil // it was told before
	}
	t.data.ResultHash = contentHash(e.Result)
	t.data.Status = statusOK
	if len(e.Error) > 0 && e.Error.Kind() != 'n' {
		of, _ := part[struct {
			Type str `json:"type"`
		}](e.Error)
		switch of.Type {
		case "timeout":
			t.data.Status = "timeout"
		case "approval":
			t.data.Status = statusDenied
		default:
			t.data.Status = statusFailed
		}
	}
	return s.calls.end(t)
}

// judged tells of a sample's response and of what each scorer made of it.
func (s *inspect) judged(v *inspectSample, epoch *int64, episode string, at *string) error {
	caseID := opaque("inspect", string(s.eval.Task), string(v.ID))
	provider, model, _ := strings.Cut(string(s.eval.Model), "/")
	text := ""
	if len(v.Output.Choices) > 0 {
		text = contentText(v.Output.Choices[0].Message.Content)
	}
	r := &events.ResponseRecorded{
		RunID: s.run, CaseID: caseID, RunIndex: epoch, Status: "parsed", PromptSHA256: contentHash(v.Input),
		Provider: s.m.name(provider), Model: s.m.name(model), ModelVersion: s.m.name(string(v.Output.Model)),
		ElapsedMS: s.m.seconds(v.Total), Cost: s.m.inspectCost(v.Usage),
	}
	if text != "" {
		r.RawSHA256 = ptr(hashOf(text))
	}
	switch {
	case len(v.Error) > 0 && v.Error.Kind() != 'n':
		r.Status = "crash"
	case v.Limit != nil && (v.Limit.Type == "time" || v.Limit.Type == "working"):
		r.Status = "timeout"
	case text == "":
		r.Status = "empty"
	}
	names := slices.Sorted(maps.Keys(v.Scores))
	if r.Status == "parsed" {
		r.Answer = &events.Answer{Kind: "answer"}
		for _, name := range names {
			if r.Answer.Label == nil {
				r.Answer.Label = s.m.name(string(v.Scores[name].Answer))
			}
		}
	}
	if err := s.m.put(draft{data: r, time: at, episode: episode}); err != nil {
		return err
	}
	for _, name := range names {
		score := &events.ScoreRecorded{
			RunID: s.run, CaseID: caseID, RunIndex: epoch, Scorer: *s.m.name(name), ScorerSHA256: s.scorer(name),
		}
		score.Outcome, score.Values = inspectValues(name, v.Scores[name].Value)
		if err := s.m.put(draft{data: score, time: at, episode: episode}); err != nil {
			return err
		}
	}
	return nil
}

// inspectCost is what the models of a sample used together; nil where they are several
// and one is not known.
func (m *maker) inspectCost(usage map[string]inspectUsage) *events.Cost {
	if len(usage) != 1 {
		return nil
	}
	for _, u := range usage {
		t, convention := m.inspectTokens(&u)
		c := &events.Cost{OutputTokens: t.Output, CachedTokens: t.Cached}
		switch {
		case convention == nil:
		case *convention == includesCached:
			c.InputTokens = t.Input
		default:
			c.InputTokens = whole(t.Input, t.Cached)
		}
		return c
	}
	return nil
}

// scorer is the hash of how the log describes a scorer; of its name where it does not.
func (s *inspect) scorer(name string) string {
	for _, raw := range s.eval.Scorers {
		d, _ := part[struct {
			Name str `json:"name"`
		}](raw)
		if string(d.Name) == name {
			return *contentHash(raw)
		}
	}
	return hashOf(name)
}

// inspectGrades are the letters that scorers give, with the numbers that Inspect's
// own metrics take them for.
var inspectGrades = map[str]struct {
	outcome string
	value   float64
}{"C": {"correct", 1}, "P": {"partial", 0.5}, "I": {"incorrect", 0}, "N": {"no_answer", 0}}

// inspectValues are the values of a score: a letter, a number, true or false, or
// several of them by name.
func inspectValues(name string, raw jsontext.Value) (outcome *string, values []events.ScoreValue) {
	values = []events.ScoreValue{}
	if several, ok := part[map[string]jsontext.Value](raw); ok && raw.Kind() == '{' {
		for _, k := range slices.Sorted(maps.Keys(several)) {
			if len(values) < 64 {
				_, v := inspectValue(several[k])
				values = append(values, events.ScoreValue{Metric: clip(k, 256), Value: v})
			}
		}
		return nil, values
	}
	outcome, v := inspectValue(raw)
	return outcome, append(values, events.ScoreValue{Metric: clip(name, 256), Value: v})
}

func inspectValue(raw jsontext.Value) (outcome *string, value *float64) {
	switch raw.Kind() {
	case '0':
		n, _ := part[num](raw)
		return nil, n.v
	case 't', 'f':
		if raw.Kind() == 't' {
			return nil, ptr(1.0)
		}
		return nil, ptr(0.0)
	case '"':
		letter, _ := part[str](raw)
		if g, ok := inspectGrades[letter]; ok {
			return &g.outcome, &g.value
		}
	}
	return nil, nil
}
