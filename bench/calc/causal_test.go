package calc

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/internal/answerkeys"
)

// A request about a network, a model or a decision that has no answer says what is
// wrong, and where.
func TestCausalErrors(t *testing.T) {
	network := func(cpts string) string {
		return `{"op":"posterior","target":"A","network":{"variables":{"A":["t","f"],"B":["t","f"]},"cpts":{` + cpts + `}}`
	}
	sound := network(`"A":{"rows":[[1,0]]},"B":{"parents":["A"],"rows":[[0.9,0.1],[0.3,0.7]]}`)
	model := func(rest string) string {
		return `{"op":"scm","nodes":[{"name":"X","tables":[{"p":0.4,"table":[0]},{"p":0.6,"table":[1]}]},{"name":"Y","parents":["X"],"tables":[{"p":1,"table":[0,1]}]}],` + rest + `}`
	}
	drill := func(rest string) string {
		return `{"op":"decision","states":["dry","wet"],"prior":{"dry":0.5,"wet":0.5},` + rest + `}`
	}
	const utility = `"utility":{"drill":{"dry":-70,"wet":100}}`
	path := filepath.Join(t.TempDir(), "a.bif")
	if err := os.WriteFile(path, []byte("network a {}\nvariable A { type discrete [ 2 ] { t, f }; }\nprobability ( A ) { table 0.5, 0.501; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ line, code, pointer, message string }{
		"no network":              {`{"op":"posterior","target":"A"}`, "bad_request", "/network", "a network is required"},
		"two networks":            {sound + `,"bif":"a.bif"}`, "bad_request", "/bif", "want either network or bif"},
		"no target":               {strings.Replace(sound, `"target":"A"`, `"target":[]`, 1) + `}`, "bad_request", "/target", "a target is required"},
		"target is a number":      {strings.Replace(sound, `"target":"A"`, `"target":1`, 1) + `}`, "bad_request", "/target", "want a list"},
		"target is null":          {strings.Replace(sound, `"target":"A"`, `"target":[null]`, 1) + `}`, "bad_request", "/target/0", "null is not a value"},
		"no probabilities":        {network(`"A":{"rows":[[1,0]]}`) + `}`, "bad_request", "/network/cpts", `there are no probabilities of "B"`},
		"another variable":        {network(`"A":{"rows":[[1,0]]},"a/b~":{}`) + `}`, "bad_request", "/network/cpts/a~1b~0", "there is no such variable"},
		"a null row":              {network(`"A":{"rows":[[1,null]]},"B":{}`) + `}`, "bad_request", "/network/cpts/A/rows/0/1", "null is not a value"},
		"off by 1e-3":             {network(`"A":{"rows":[[0.5,0.501]]},"B":{"rows":[[1,0]]}`) + `}`, "bad_request", "/network/cpts/A/rows/0", "the probabilities add to 1.001, not to 1"},
		"cyclic network":          {network(`"A":{"parents":["B"],"rows":[[1,0],[1,0]]},"B":{"parents":["A"],"rows":[[1,0],[1,0]]}`) + `}`, "cyclic_graph", "/network/cpts/A/parents", "the variable is its own ancestor"},
		"a variable twice":        {`{"op":"posterior","network":{"variables":{"A":[],"A":[]}}}`, "bad_json", "", ""},
		"impossible evidence":     {sound + `,"evidence":{"A":"f"}}`, "zero_probability", "/evidence", "the condition has probability 0"},
		"impossible findings":     {sound + `,"virtual_evidence":{"A":[0,1]}}`, "zero_probability", "/virtual_evidence", "the condition has probability 0"},
		"impossible together":     {sound + `,"virtual_evidence":{"B":[1,1]},"evidence":{"A":"f"}}`, "zero_probability", "", "the condition has probability 0"},
		"unknown state":           {sound + `,"evidence":{"A":"x"}}`, "bad_request", "/evidence/A", `the variable has no state "x"`},
		"state is a number":       {sound + `,"do":{"A":1}}`, "bad_request", "/do/A", "want a text"},
		"a finding of another":    {sound + `,"virtual_evidence":{"Q":[1,1]}}`, "bad_request", "/virtual_evidence/Q", "there is no such variable"},
		"no file":                 {`{"op":"posterior","target":"A","bif":"none.bif"}`, "bad_request", "/bif", "stat none.bif: no such file or directory"},
		"a folder":                {`{"op":"posterior","target":"A","bif":"."}`, "bad_request", "/bif", ". is no file"},
		"a file off by 1e-3":      {`{"op":"posterior","target":"A","bif":"` + path + `"}`, "bad_request", "/bif", "line 3, column 21: the probabilities add to 1.001, not to 1"},
		"commas in names":         {`{"op":"posterior","target":["A","B"],"network":{"variables":{"A":["x","x,y"],"B":["y,z","z"]},"cpts":{"A":{"rows":[[0.5,0.5]]},"B":{"rows":[[0.5,0.5]]}}}}`, "bad_request", "/target", `two joint states are both written "x,y,z": their names have commas`},
		"unknown effect":          {strings.Replace(sound, `"posterior"`, `"effect"`, 1) + `,"kind":"cde","treatment":"A","outcome":"B"}`, "bad_request", "/kind", "want one of ate, ett, nde, nie, marginal, correlation"},
		"effect on itself":        {strings.Replace(sound, `"posterior"`, `"effect"`, 1) + `,"kind":"ate","treatment":"A","outcome":"A"}`, "bad_request", "/outcome", "the outcome is the treatment"},
		"effect without support":  {strings.Replace(sound, `"posterior"`, `"effect"`, 1) + `,"kind":"correlation","treatment":"A","outcome":"B"}`, "zero_probability", "/treatment", "the condition has probability 0"},
		"no nodes":                {`{"op":"scm","rung":1,"target":{"X":1}}`, "bad_request", "/nodes", "a list of nodes is required"},
		"no name":                 {`{"op":"scm","rung":1,"nodes":[{}],"target":{"X":1}}`, "bad_request", "/nodes/0/name", "a name is required"},
		"no probability":          {`{"op":"scm","rung":1,"nodes":[{"name":"X","tables":[{"table":[0]}]}],"target":{"X":1}}`, "bad_request", "/nodes/0/tables/0/p", "a number is required"},
		"half a value":            {`{"op":"scm","rung":1,"nodes":[{"name":"X","tables":[{"p":1,"table":[0.5]}]}],"target":{"X":1}}`, "bad_request", "/nodes/0/tables/0/table/0", "want a whole number"},
		"a null value":            {model(`"rung":1,"target":{"Y":null}`), "bad_request", "/target/Y", "null is not a value"},
		"a node twice":            {`{"op":"scm","rung":1,"nodes":[{"name":"X","tables":[{"p":1,"table":[0]}]},{"name":"X","tables":[{"p":1,"table":[0]}]}],"target":{"X":1}}`, "bad_request", "/nodes/1/name", `there are two nodes named "X"`},
		"cyclic model":            {`{"op":"scm","rung":1,"nodes":[{"name":"X","parents":["X"],"tables":[{"p":1,"table":[0,1]}]}],"target":{"X":1}}`, "cyclic_graph", "/nodes/0/parents", "the node is its own ancestor"},
		"model off by 1e-3":       {`{"op":"scm","rung":1,"nodes":[{"name":"X","tables":[{"p":0.999,"table":[0]}]}],"target":{"X":1}}`, "bad_request", "/nodes/0/tables", "the probabilities add to 0.999, not to 1"},
		"no rung":                 {model(`"target":{"Y":1}`), "bad_request", "/rung", "a number is required"},
		"a fourth rung":           {model(`"rung":4,"target":{"Y":1}`), "bad_request", "/rung", "want at most 3"},
		"nothing asked":           {model(`"rung":1`), "bad_request", "/target", "a target is required"},
		"no such value":           {model(`"rung":3,"target":{"Y":1},"do":{"X":2}`), "bad_request", "/do/X", "the values are 0 to 1, not 2"},
		"impossible facts":        {model(`"rung":3,"target":{"Y":1},"factual":{"X":1,"Y":0}`), "zero_probability", "/factual", "the condition has probability 0"},
		"impossible condition":    {model(`"rung":2,"target":{"Y":1},"do":{"X":1},"given":{"X":0}`), "zero_probability", "/given", "the condition has probability 0"},
		"no states":               {`{"op":"decision"}`, "bad_request", "/states", "at least one state is required"},
		"a state twice":           {`{"op":"decision","states":["a","a"],"prior":{"a":1}}`, "bad_request", "/states/1", "there are two states of this name"},
		"no prior":                {`{"op":"decision","states":["a","b"],"prior":{"a":1}}`, "bad_request", "/prior", `there is no number for state "b"`},
		"a prior off by 1e-3":     {`{"op":"decision","states":["a","b"],"prior":{"a":0.5,"b":0.499}}`, "bad_request", "/prior", "the probabilities add to 0.999, not to 1"},
		"a prior too many":        {`{"op":"decision","states":["a"],"prior":{"a":1,"b":0}}`, "bad_request", "/prior", "there are 2 numbers for 1 states"},
		"an empty menu":           {drill(`"utility":{}`), "bad_request", "/utility", "at least one action is required"},
		"menu is a list":          {drill(`"utility":[1]`), "bad_request", "/utility", "want an object"},
		"an action twice":         {drill(`"utility":{"a":{},"a":{}}`), "bad_json", "", ""},
		"no utility of a state":   {drill(`"utility":{"a":{"dry":1}}`), "bad_request", "/utility/a", `there is no number for state "wet"`},
		"a null utility":          {drill(`"utility":{"a":{"dry":1,"wet":null}}`), "bad_request", "/utility/a/wet", "null is not a value"},
		"a query without cost":    {drill(utility + `,"queries":[{"id":"q","likelihood":{"dry":{"o":1},"wet":{"o":1}}}]`), "bad_request", "/queries/0/cost", "a number is required"},
		"a query without a state": {drill(utility + `,"queries":[{"id":"q","cost":1,"likelihood":{"dry":{"o":1}}}]`), "bad_request", "/queries/0/likelihood", `there is no likelihood in state "wet"`},
		"a query off by 1e-3":     {drill(utility + `,"queries":[{"id":"q","cost":1,"likelihood":{"dry":{"o":1},"wet":{"o":0.5,"p":0.499}}}]`), "bad_request", "/queries/0/likelihood/wet", "the probabilities add to 0.999, not to 1"},
		"a query below 0":         {drill(utility + `,"queries":[{"id":"q","cost":1,"likelihood":{"dry":{"o":1},"wet":{"o":1.5,"p":-0.5}}}]`), "bad_request", "/queries/0/likelihood/wet/o", "want a probability, not 1.5"},
		"a query twice":           {drill(utility + `,"queries":[{"id":"q","cost":1,"likelihood":{"dry":{"o":1},"wet":{"o":1}}},{"id":"q","cost":1,"likelihood":{"dry":{"o":1},"wet":{"o":1}}}]`), "bad_request", "/queries/1/id", "there are two queries of this name"},
		"no data":                 {`{"op":"bounds","quantity":"pn"}`, "bad_request", "", "want joint, experimental, or both"},
		"no such value of xy":     {`{"op":"bounds","quantity":"pn","joint":{"xy":1}}`, "bad_request", "/joint/xy", "want 00, 01, 10 or 11: the values of X and Y"},
		"a joint off by 1e-3":     {`{"op":"bounds","quantity":"pn","joint":{"00":0.5,"11":0.501}}`, "bad_request", "/joint", "the probabilities add to 1.001, not to 1"},
		"half a trial":            {`{"op":"bounds","quantity":"pn","experimental":{"y_do1":1}}`, "bad_request", "/experimental/y_do0", "a number is required"},
		"nobody asked":            {`{"op":"bounds","quantity":"pn","joint":{"00":1}}`, "zero_probability", "/joint", "the condition has probability 0"},
	} {
		var got struct {
			Error struct {
				Code    string `json:"code"`
				Pointer string `json:"pointer"`
				Message string `json:"message"`
			} `json:"error"`
		}
		reply := Answer([]byte(tc.line), DefaultLimits)
		if err := json.Unmarshal(reply, &got); err != nil {
			t.Fatal(err)
		}
		if e := got.Error; e.Code != tc.code || e.Pointer != tc.pointer || e.Message != tc.message && tc.message != "" {
			t.Errorf("%s: %s\nwant %s at %q: %s", name, reply, tc.code, tc.pointer, tc.message)
		}
	}
}

// What a request may list, and make of it, is limited whatever it costs.
func TestCausalLimits(t *testing.T) {
	var variables, cpts, targets []string
	for i := range 21 {
		variables, targets = append(variables, fmt.Sprintf(`"v%d":["t","f"]`, i)), append(targets, fmt.Sprintf(`"v%d"`, i))
		cpts = append(cpts, fmt.Sprintf(`"v%d":{"rows":[[0.5,0.5]]}`, i))
	}
	var prior, outcomes, states []string
	for i := range 1025 {
		states, prior = append(states, fmt.Sprintf(`"s%d"`, i)), append(prior, fmt.Sprintf(`"s%d":%v`, i, 1.0/1025))
		outcomes = append(outcomes, fmt.Sprintf(`"s%d":{"o%d":1}`, i, i))
	}
	list := func(parts []string) string { return strings.Join(parts, ",") }
	// A node of 4,096 values with two such parents has 2^24 rows, more than a line may
	// list; one with a single parent has 2^12 rows of 2^12 values, 2^24 entries.
	wide := strings.Repeat(",4095", 4096)[1:]
	node := func(name, parents, table string) string {
		return fmt.Sprintf(`{"name":"%s","parents":[%s],"tables":[{"p":1,"table":[%s]}]}`, name, parents, table)
	}
	var rules []string // which an assumption gives a reason to
	for i := range 1000 {
		rules = append(rules, fmt.Sprintf(`{"op":"justify","head":"h%d","ante":"a"}`, i))
	}
	enable := slices.Repeat([]string{`{"op":"enable","node":"a"}`}, 600)
	for name, tc := range map[string]struct{ line, pointer string }{
		"beliefs":      {fmt.Sprintf(`{"op":"jtms","assumptions":["a"],"justifications":[%s],"steps":[%s]}`, list(rules), list(enable)), "/steps/524"}, // 2,001 a step
		"environments": {fmt.Sprintf(`{"op":"atms","assumptions":["a"],"steps":[%s,%s]}`, list(rules), list(rules)), "/steps/1548"},                    // 500,500 are listed by the first 1,000
		"joint states": {fmt.Sprintf(`{"op":"posterior","target":[%s],"network":{"variables":{%s},"cpts":{%s}}}`, list(targets), list(variables), list(cpts)), "/target"},
		"outcomes":     {fmt.Sprintf(`{"op":"decision","states":[%s],"prior":{%s},"utility":{"a":{%s}},"queries":[{"id":"q","cost":1,"likelihood":{%s}}]}`, list(states), list(prior), list(prior), list(outcomes)), "/queries/0"},
		"mechanisms":   {fmt.Sprintf(`{"op":"scm","rung":1,"target":{"a":1},"nodes":[%s,%s,%s,%s]}`, node("a", "", "4095"), node("b", `"a"`, wide), node("c", `"b"`, wide), node("d", `"c"`, wide)), "/nodes"},
	} {
		reply := string(Answer([]byte(tc.line), DefaultLimits))
		if want := `"code":"too_large","pointer":"` + tc.pointer + `"`; !strings.Contains(reply, want) {
			t.Errorf("%s: %.300s\nwant %s", name, reply, want)
		}
	}
}

// In what order variables are listed makes no difference, not in the last bit.
func TestListingOrder(t *testing.T) {
	const head, tail = `{"op":"posterior","target":"C","evidence":{"A":"t"},"network":{`, `}}`
	variables, cpts := `"variables":{%s}`, `"cpts":{%s}`
	a, b, c := `"A":["t","f"]`, `"B":["t","f"]`, `"C":["t","f"]`
	pa, pb, pc := `"A":{"parents":["B"],"rows":[[0.1,0.9],[0.7,0.3]]}`, `"B":{"rows":[[0.3,0.7]]}`, `"C":{"parents":["A","B"],"rows":[[0.1,0.9],[0.2,0.8],[0.3,0.7],[0.6,0.4]]}`
	list := func(parts ...string) string { return strings.Join(parts, ",") }
	one := head + fmt.Sprintf(variables, list(a, b, c)) + "," + fmt.Sprintf(cpts, list(pa, pb, pc)) + tail
	other := head + fmt.Sprintf(cpts, list(pc, pa, pb)) + "," + fmt.Sprintf(variables, list(c, b, a)) + tail
	x, y := Answer([]byte(one), DefaultLimits), Answer([]byte(other), DefaultLimits)
	if string(x) != string(y) || !strings.Contains(string(x), `"ok":true`) {
		t.Errorf("%s\n%s", x, y)
	}
}

// The cost of a question about a network is known before any work.
func TestCausalCost(t *testing.T) {
	// Thirty binary variables, each a child of all of the first 12.
	var variables, cpts []string
	for i := range 30 {
		variables = append(variables, fmt.Sprintf(`"v%d":["t","f"]`, i))
		if i < 20 {
			cpts = append(cpts, fmt.Sprintf(`"v%d":{"rows":[[0.5,0.5]]}`, i))
			continue
		}
		parents, rows := []string{}, strings.Repeat(",[0.5,0.5]", 1<<10)[1:]
		for p := range 10 {
			parents = append(parents, fmt.Sprintf(`"v%d"`, (p+2*(i-20))%20))
		}
		cpts = append(cpts, fmt.Sprintf(`"v%d":{"parents":[%s],"rows":[%s]}`, i, strings.Join(parents, ","), rows))
	}
	line := fmt.Sprintf(`{"op":"posterior","target":"v0","evidence":{"v29":"t","v27":"t","v25":"t","v23":"t","v20":"t"},"network":{"variables":{%s},"cpts":{%s}}}`, strings.Join(variables, ","), strings.Join(cpts, ","))
	reply := string(Answer([]byte(line), Limits{Cost: 1e4, Line: 1 << 20}))
	if !strings.Contains(reply, `"code":"too_large","pointer":"","message":"the answer costs `) {
		t.Errorf("past the cost: %s", reply)
	}
	if reply := string(Answer([]byte(line), Limits{Cost: 1e8, Line: 1 << 20})); !strings.Contains(reply, `"ok":true`) {
		t.Errorf("within the cost: %s", reply)
	}
}

func readKey(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(answerkeys.Need(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// ask sends a request, which must be answered.
func ask(t *testing.T, request map[string]any) map[string]any {
	t.Helper()
	line, err := json.Marshal(request, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	reply := map[string]any{}
	if err := json.Unmarshal(Answer(line, DefaultLimits), &reply); err != nil || reply["ok"] != true {
		t.Errorf("%s\nreply %v, %v", line, reply, err)
	}
	return reply
}

// Posteriors that others published.
func TestPublishedPosteriors(t *testing.T) {
	var key struct {
		Networks map[string]map[string]any `json:"networks"`
		Queries  []struct {
			Network  string         `json:"network"`
			Kind     string         `json:"kind"`
			Target   any            `json:"target"`
			Evidence map[string]any `json:"evidence"`
			Virtual  map[string]any `json:"virtual_evidence"`
			Do       map[string]any `json:"do"`
			Expected any            `json:"expected"`
			Tol      float64        `json:"tol"`
		} `json:"queries"`
	}
	readKey(t, "bayesnet/posteriors.json", &key)
	compared := 0
	for i, q := range key.Queries {
		if q.Kind == "frontdoor" || q.Kind == "id_functional" {
			continue // these ask about a graph
		}
		request := map[string]any{"op": "posterior", "target": q.Target, "evidence": q.Evidence, "virtual_evidence": q.Virtual, "do": q.Do}
		if q.Kind == "evidence_probability" {
			request["op"] = q.Kind
		}
		for _, field := range []string{"evidence", "virtual_evidence", "do"} {
			if m := request[field].(map[string]any); m == nil {
				delete(request, field)
			}
		}
		if file, ok := strings.CutPrefix(q.Network, "file:"); ok {
			request["bif"] = answerkeys.Need(t, "bayesnet/"+file)
		} else {
			request["network"] = key.Networks[q.Network]
		}
		got := ask(t, request)["value"]
		expected, isMap := q.Expected.(map[string]any)
		if !isMap {
			expected, got = map[string]any{"": q.Expected}, map[string]any{"": got}
		}
		for state, want := range expected {
			have, ok := got.(map[string]any)[state].(float64)
			if !ok || math.Abs(have-want.(float64)) > q.Tol {
				t.Errorf("query %d of %s: %s is %v, want %v within %g", i, q.Network, state, got, want, q.Tol)
			}
			compared++
		}
	}
	if compared < 39 {
		t.Errorf("only %d numbers were compared", compared)
	}
}

// The effects that CLadder publishes for its models, and not those that it has wrong:
// it multiplies the marginals of dependent parents.
func TestPublishedEffects(t *testing.T) {
	var models []struct {
		ID          int                `json:"model_id"`
		Params      map[string]any     `json:"params"`
		GroundTruth map[string]float64 `json:"groundtruth"`
	}
	readKey(t, "cladder/test-model-meta.json", &models)
	var checked struct {
		Wrong map[string][]struct {
			ID    int     `json:"model_id"`
			Exact float64 `json:"exact"`
		} `json:"value_wrong_models"`
	}
	readKey(t, "cladder/checked_labels.json", &checked)
	compared, wrong := 0, 0
	for _, m := range models {
		variables, cpts := map[string]any{}, map[string]any{}
		for key, value := range m.Params {
			name, given, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(key, "p("), ")"), " | ")
			parents := []string{}
			if given != "" {
				parents = strings.Split(given, ", ")
			}
			var rows [][]float64
			for _, p := range flatten(value) {
				rows = append(rows, []float64{1 - p, p})
			}
			variables[name], cpts[name] = []string{"0", "1"}, map[string]any{"parents": parents, "rows": rows}
		}
		if variables["X"] == nil || variables["Y"] == nil {
			continue
		}
		network := map[string]any{"variables": variables, "cpts": cpts}
		for kind, key := range map[string]string{"ate": "ATE(Y | X)", "ett": "ETT(Y | X)", "nde": "NDE(Y | X)", "nie": "NIE(Y | X)", "marginal": "P(Y=1)"} {
			want, ok := m.GroundTruth[key]
			if !ok {
				continue
			}
			for _, w := range checked.Wrong[key] {
				if w.ID == m.ID {
					want = w.Exact
					wrong++
				}
			}
			got := ask(t, map[string]any{"op": "effect", "network": network, "kind": kind, "treatment": "X", "outcome": "Y"})["value"]
			if have, ok := got.(float64); !ok || math.Abs(have-want) > 1e-9 {
				t.Errorf("model %d: %s is %v, want %v", m.ID, kind, got, want)
			}
			compared++
		}
	}
	if compared < 1000 || wrong < 10 {
		t.Errorf("only %d effects were compared, %d of them published wrong", compared, wrong)
	}
}

// flatten lists the numbers of nested lists.
func flatten(v any) (out []float64) {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		for _, x := range v {
			out = append(out, flatten(x)...)
		}
	}
	return out
}

// Decision problems of textbooks, with their values.
func TestPublishedDecisions(t *testing.T) {
	var key struct {
		Problems []map[string]any `json:"problems"`
	}
	readKey(t, "voi/decision_voi.json", &key)
	compared := 0
	for _, p := range key.Problems {
		derived, ok := p["derived"].(map[string]any)
		if !ok {
			continue // a problem of several stages
		}
		p["op"] = "decision"
		got := ask(t, p)
		if got["best_action"] != derived["best_terminal_action"] {
			t.Errorf("%s: best action %v, want %v", p["id"], got["best_action"], derived["best_terminal_action"])
		}
		same := func(what string, have, want any) {
			if h, ok := have.(float64); !ok || math.Abs(h-want.(float64)) > 1e-9 {
				t.Errorf("%s: %s is %v, want %v", p["id"], what, have, want)
			}
			compared++
		}
		same("utility", got["utility"], derived["best_terminal_utility"])
		same("evpi", got["evpi"], derived["evpi"])
		for i, q := range p["queries"].([]any) {
			want, have := q.(map[string]any)["derived"].(map[string]any), got["queries"].([]any)[i].(map[string]any)
			for _, field := range []string{"evsi", "net_voi", "eig_bits"} {
				same(field, have[field], want[field])
			}
			for name, o := range want["outcomes"].(map[string]any) {
				outcome := have["outcomes"].(map[string]any)[name].(map[string]any)
				same(name, outcome["utility_after_cost"], o.(map[string]any)["utility_after_cost"])
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d numbers were compared", compared)
	}
}
