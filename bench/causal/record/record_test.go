package record

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/internal/versioned"
)

const (
	publicCase = `{"v":1,"case_id":"00112233445566778899aabb","world_id":"10112233445566778899aabb","episode_id":"20112233445566778899aabb","bench_version":"0.1.0","family":"confounding","rung":"intervention","skin":"linux","stage":1,"question":"What if?","query":{"kind":"probability","target":{"oom_kill":1},"do":{"swap":1}},"evidence":[{"id":"x1","kind":"mechanism","ref":"sha256:` + hash + `"}],"assumptions":[],"allowed_tools":["calc"],"permitted_interventions":[{"id":"e1","cost":2,"do":{"swap":0},"observe":"oom_kill"}],"actions":[{"id":"fix","loss":{"a":1}}],"hypotheses":["a"],"answer_format":["status","value"]}`

	privateOracle = `{"v":1,"case_id":"00112233445566778899aabb","world_id":"10112233445566778899aabb","scm_hash":"` + hash + `","seed":"` + hash + `","motif":"fork","topic":"association","model":{"nodes":[{"name":"swap","parents":[],"tables":[{"p":1,"table":[0]}]}],"latent":[]},"status":"answer","value":0.374,"tol":0.02,"estimand":"P(a)","rungs":{"rung1":0.5,"rung2":0.374,"resampled":null,"abduced":0.374},"wrong":{"rung1":0.5},"pair":{"id":"00112233445566778899aabb","label":"confounding_neglect","twin":false},"variant":"base"}`

	agentResponse = `{"v":1,"case_id":"00112233445566778899aabb","arm":"piper_current","stage":1,"status":"answer","value":0.37,"low":0.3,"high":0.4,"label":"yes","set":["a","b"],"hypotheses":[{"id":"a","p":0.5}],"confidence":0.7,"experiment":"e1","action":"fix","edges":[{"cause":"a","effect":"b","directed":true,"sign":"positive","condition":"when c","mediators":["m"]}],"retracted":["x1"],"claim_text":"a causes b","t":"2026-10-03T14:02:11Z"}`

	toolEvent = `{"v":1,"case_id":"00112233445566778899aabb","arm":"a1","seq":4,"tool":"causal","args":{},"result_hash":"` + hash + `","failed":false,"tokens_in":812,"tokens_out":96,"latency_ms":340,"cost_usd":0.0004}`

	runManifest = `{"v":1,"run_id":"r1","bench_version":"0.1.0","generator_commit":"abc","scorer_hash":"` + hash + `","harness_hash":"` + hash + `","set_hash":"` + hash + `","model":"m","arm":"a1","split":"dev","world_ids":["10112233445566778899aabb"],"budget":{"tokens":20000,"tool_calls":12},"exclusions":[{"case_id":"00112233445566778899aabb","reason":"crash"}]}`

	hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// roundTrip decodes a record and gets its bytes back.
func roundTrip[T Record](t *testing.T, line string) {
	t.Helper()
	r, err := Decode[T]([]byte(line))
	if err != nil {
		t.Errorf("%v: %.60s", err, line)
		return
	}
	got, err := Encode(r)
	if err != nil || string(got) != line {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, line)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	roundTrip[PublicCase](t, publicCase)
	roundTrip[PrivateOracle](t, privateOracle)
	roundTrip[AgentResponse](t, agentResponse)
	roundTrip[ToolEvent](t, toolEvent)
	roundTrip[RunManifest](t, runManifest)
	// The least that a response is: what is not said is absent.
	roundTrip[AgentResponse](t, `{"v":1,"case_id":"00112233445566778899aabb","arm":"a0","stage":1,"status":"abstain","t":"2026-10-03T14:02:11Z"}`)
}

func refused[T Record](t *testing.T, name, line, old, new, pointer string) {
	t.Helper()
	if !strings.Contains(line, old) {
		t.Fatalf("%s: there is no %s", name, old)
	}
	_, err := Decode[T]([]byte(strings.Replace(line, old, new, 1)))
	var f *Fault
	if !errors.As(err, &f) || f.Pointer != pointer {
		t.Errorf("%s: %v, want a fault at %q", name, err, pointer)
	}
}

func TestRecordsAreStrict(t *testing.T) {
	refused[PublicCase](t, "an unknown member", publicCase, `"stage":1`, `"stage":1,"answer":1`, "")
	refused[PublicCase](t, "a name that says something", publicCase, `"00112233445566778899aabb"`, `"w0412-q3"`, "/case_id")
	refused[PublicCase](t, "an unknown rung", publicCase, `"intervention"`, `"magic"`, "/rung")
	refused[PublicCase](t, "no such kind", publicCase, `"kind":"probability"`, `"kind":"guess"`, "/query/kind")
	refused[PublicCase](t, "a blob without a hash", publicCase, `sha256:`, `file:`, "/evidence/0/ref")
	refused[PublicCase](t, "a negative cost", publicCase, `"cost":2`, `"cost":-2`, "/permitted_interventions/0/cost")
	refused[PublicCase](t, "null", publicCase, `"stage":1`, `"stage":null`, "/stage")
	refused[PrivateOracle](t, "no probability", privateOracle, `"rung2":0.374`, `"rung2":1.374`, "/rungs/rung2")
	refused[PrivateOracle](t, "half a value", privateOracle, `"table":[0]`, `"table":[0.5]`, "/model/nodes/0/tables/0/table/0")
	refused[PrivateOracle](t, "an abstaining truth", privateOracle, `"status":"answer"`, `"status":"abstain"`, "/status")
	refused[AgentResponse](t, "an unknown status", agentResponse, `"status":"answer"`, `"status":"sure"`, "/status")
	refused[AgentResponse](t, "confidence over 1", agentResponse, `"confidence":0.7`, `"confidence":7`, "/confidence")
	refused[AgentResponse](t, "a sign that is none", agentResponse, `"positive"`, `"up"`, "/edges/0/sign")
	refused[AgentResponse](t, "no time", agentResponse, `"2026-10-03T14:02:11Z"`, `"yesterday"`, "/t")
	refused[ToolEvent](t, "the zeroth call", toolEvent, `"seq":4`, `"seq":0`, "/seq")
	refused[ToolEvent](t, "a count with a fraction", toolEvent, `"tokens_in":812`, `"tokens_in":8.5`, "/tokens_in")
	refused[RunManifest](t, "an unknown split", runManifest, `"split":"dev"`, `"split":"train"`, "/split")
	refused[RunManifest](t, "a hash too short", runManifest, `"set_hash":"0123`, `"set_hash":"`, "/set_hash")

	if _, err := Decode[ToolEvent]([]byte(strings.Replace(toolEvent, `"v":1`, `"v":2`, 1))); !errors.Is(err, versioned.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	refused[ToolEvent](t, "no record", toolEvent, toolEvent, `[1]`, "")
	for name, line := range map[string]string{
		"a member twice":      strings.Replace(toolEvent, `"seq":4`, `"seq":4,"seq":4`, 1),
		"a member twice deep": strings.Replace(publicCase, `"target":{"oom_kill":1}`, `"target":{"oom_kill":1,"oom_kill":1}`, 1),
		"something behind":    toolEvent + "{}",
		"bad UTF-8":           strings.Replace(toolEvent, `"causal"`, "\"ca\xffusal\"", 1),
		"nothing":             "",
	} {
		_, errA := Decode[ToolEvent]([]byte(line))
		_, errB := Decode[PublicCase]([]byte(line))
		if errA == nil || errB == nil {
			t.Errorf("%s: %v, %v", name, errA, errB)
		}
	}
}

// TestSchemasAreTheTypes: each member of a type is one of its schema, and the other way
// round.
func TestSchemasAreTheTypes(t *testing.T) {
	for name, r := range map[string]any{"public_case": PublicCase{}, "private_oracle": PrivateOracle{}, "agent_response": AgentResponse{}, "tool_event": ToolEvent{}, "run_manifest": RunManifest{}} {
		raw, ok := Schema(name)
		if !ok {
			t.Fatalf("no schema of %s", name)
		}
		var schema struct {
			Required   []string       `json:"required"`
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		typ := reflect.TypeOf(r)
		for i := range typ.NumField() {
			member, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if _, ok := schema.Properties[member]; !ok {
				t.Errorf("%s: the schema has no %s", name, member)
			}
			if must := slices.Contains(schema.Required, member); must != (options == "") {
				t.Errorf("%s: %s is required: %v", name, member, must)
			}
		}
		if len(schema.Properties) != typ.NumField() {
			t.Errorf("%s: the schema has %d members, the type %d", name, len(schema.Properties), typ.NumField())
		}
	}
	if _, ok := Schema("nothing"); ok {
		t.Error("there is no such schema")
	}
}

func TestMarginal(t *testing.T) {
	j := Joint{Variables: []string{"A", "B", "C"}, P: []float64{.01, .02, .03, .04, .1, .2, .25, .35}}
	for _, tc := range []struct {
		of   []int
		want []float64
	}{{[]int{0}, []float64{.1, .9}}, {[]int{2}, []float64{.39, .61}}, {[]int{0, 2}, []float64{.04, .06, .35, .55}}} {
		got := j.Marginal(tc.of)
		for i, w := range tc.want {
			if d := got[i] - w; d > 1e-15 || d < -1e-15 {
				t.Errorf("%v: %v, want %v", tc.of, got, tc.want)
				break
			}
		}
	}
}
