package calc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestGraphErrors(t *testing.T) {
	const xy = `"nodes":["X","Y","U"],"directed":[["X","Y"]],"latent":["U"]`
	for name, tc := range map[string]struct{ line, want string }{
		"no nodes":                {`{"op":"d_separated"}`, `bad_request","pointer":"/nodes"`},
		"node twice":              {`{"op":"d_separated","nodes":["A","B","A"]}`, `bad_request","pointer":"/nodes/2"`},
		"unknown end":             {`{"op":"d_separated","nodes":["A"],"directed":[["A","B"]]}`, `bad_request","pointer":"/directed/0/1"`},
		"three ends":              {`{"op":"d_separated","nodes":["A"],"directed":[["A","A","A"]]}`, `bad_request","pointer":"/directed/0`},
		"a cycle":                 {`{"op":"identify","nodes":["A","B"],"directed":[["A","B"],["B","A"]],"outcome":["A"]}`, `cyclic_graph","pointer":"/directed/1"`},
		"loop of two ends":        {`{"op":"d_separated","nodes":["A"],"bidirected":[["A","A"]]}`, `bad_request","pointer":"/bidirected/0"`},
		"unknown latent":          {`{"op":"d_separated","nodes":["A"],"latent":["B"]}`, `bad_request","pointer":"/latent/0"`},
		"unknown x":               {`{"op":"d_separated",` + xy + `,"x":["X","Z"],"y":"Y"}`, `bad_request","pointer":"/x/1"`},
		"no treatment":            {`{"op":"adjustment",` + xy + `,"outcome":"Y","criterion":"backdoor"}`, `bad_request","pointer":"/treatment"`},
		"no criterion":            {`{"op":"adjustment",` + xy + `,"treatment":"X","outcome":"Y"}`, `bad_request","pointer":"/criterion"`},
		"treated outcome":         {`{"op":"frontdoor",` + xy + `,"treatment":"X","outcome":["Y","X"]}`, `bad_request","pointer":"/outcome/1"`},
		"unknown in set":          {`{"op":"frontdoor",` + xy + `,"treatment":"X","outcome":"Y","set":["Q"]}`, `bad_request","pointer":"/set/0"`},
		"two treatments":          {`{"op":"instruments",` + xy + `,"treatment":["X","U"],"outcome":"Y"}`, `bad_request","pointer":"/treatment/1"`},
		"latent outcome":          {`{"op":"identify",` + xy + `,"outcome":"U"}`, `bad_request","pointer":"/outcome/0"`},
		"done and given":          {`{"op":"identify",` + xy + `,"do":"X","outcome":"Y","given":"X"}`, `bad_request","pointer":"/given/0"`},
		"nothing asked":           {`{"op":"identify",` + xy + `,"do":"X"}`, `bad_request","pointer":"/outcome"`},
		"no such variable":        {`{"op":"estimate","nodes":["A"],"network":{"variables":{},"cpts":{}},"target":"A"}`, `bad_request","pointer":"/nodes"`},
		"no such state":           {`{"op":"estimate","nodes":["A","B"],"network":{"variables":{"A":["0"],"B":["0"]},"cpts":{"A":{"rows":[[1]]},"B":{"rows":[[1]]}}},"target":"A","do":{"B":"1"}}`, `bad_request","pointer":"/do/B"`},
		"undefined":               {`{"op":"estimate","nodes":["A","B"],"directed":[["A","B"]],"network":{"variables":{"A":["0","1"],"B":["0"]},"cpts":{"A":{"rows":[[1,0]]},"B":{"rows":[[1]]}}},"target":"B","do":{"A":"1"}}`, `zero_probability","pointer":""`},
		"no value":                {`{"op":"identify_counterfactual",` + xy + `,"available":"both","gamma":[{"var":"Y"}]}`, `bad_request","pointer":"/gamma/0/value"`},
		"unknown world":           {`{"op":"identify_counterfactual",` + xy + `,"available":"both","gamma":[{"var":"Y","value":1,"do":{"a/b":1}}]}`, `bad_request","pointer":"/gamma/0/do/a~1b"`},
		"nothing available":       {`{"op":"identify_counterfactual",` + xy + `,"gamma":[]}`, `bad_request","pointer":"/available"`},
		"node past n":             {`{"op":"essential_graph","n":2,"dag":[[1,2],[2,3]]}`, `bad_request","pointer":"/dag/1/1"`},
		"cycle of numbers":        {`{"op":"essential_graph","n":2,"dag":[[1,2],[2,1]]}`, `bad_request","pointer":"/dag/1"`},
		"longer cycle":            {`{"op":"essential_graph","n":3,"dag":[[1,2],[2,3],[3,1]]}`, `cyclic_graph","pointer":"/dag/2"`},
		"target past n":           {`{"op":"essential_graph","n":2,"dag":[],"intervention_targets":[[],[1,0]]}`, `bad_request","pointer":"/intervention_targets/1/1"`},
		"two edges":               {`{"op":"extensions","n":2,"directed":[[1,2]],"undirected":[[1,2]]}`, `bad_request","pointer":"/undirected/0"`},
		"empty class":             {`{"op":"experiment_target","n":4,"undirected":[[1,2],[2,3],[3,4],[1,4]]}`, `bad_request","pointer":""`},
		"unknown variable":        {`{"op":"cpdag_from_independencies","variables":["A"],"independent":[["A","B",[]]]}`, `bad_request","pointer":"/independent/0/1"`},
		"given one of the two":    {`{"op":"cpdag_from_independencies","variables":["A","B"],"independent":[["A","B",["A"]]]}`, `bad_request","pointer":"/independent/0/2/0"`},
		"independent of itself":   {`{"op":"cpdag_from_independencies","variables":["A"],"independent":[["A","A",[]]]}`, `bad_request","pointer":"/independent/0/1"`},
		"relation to itself":      {`{"op":"mec_relation","variables":["A"],"independent":[],"relation":"directly_causes","x":"A","y":"A"}`, `bad_request","pointer":"/y"`},
		"rule that is not there":  {`{"op":"tms","steps":[{"op":"remove","rule":{"head":"a"}}]}`, `bad_request","pointer":"/steps/0/rule"`},
		"rule without head":       {`{"op":"tms","steps":[{"op":"add","rule":{}}]}`, `bad_request","pointer":"/steps/0/rule"`},
		"no assumption":           {`{"op":"jtms","assumptions":["a"],"steps":[{"op":"enable","node":"b"}]}`, `bad_request","pointer":"/steps/0/node"`},
		"assumption twice":        {`{"op":"atms","assumptions":["a","a"],"steps":[]}`, `bad_request","pointer":"/assumptions/1"`},
		"justification of nobody": {`{"op":"atms","assumptions":[],"steps":[{"op":"justify"}]}`, `bad_request","pointer":"/steps/0/head"`},
	} {
		if got := string(Answer([]byte(tc.line), DefaultLimits)); !strings.Contains(got, `"ok":false,"error":{"code":"`+tc.want) {
			t.Errorf("%s: got  %s\nwant %s", name, got, tc.want)
		}
	}
}

// What would take too long is refused before any work.
func TestGraphLimits(t *testing.T) {
	var nodes, arrows []string
	for i := range 40 {
		nodes = append(nodes, `"`+strings.Repeat("v", i+1)+`"`)
		arrows = append(arrows, `[`+nodes[i]+`,"X"]`)
	}
	graph := `"nodes":["X","Y",` + strings.Join(nodes, ",") + `],"directed":[["X","Y"],` + strings.Join(arrows, ",") + `],"treatment":"X","outcome":"Y"`
	var complete []string
	for a := range 20 {
		for b := range a {
			complete = append(complete, fmt.Sprintf("[%d,%d]", b+1, a+1))
		}
	}
	pdag := `"n":20,"directed":[],"undirected":[` + strings.Join(complete, ",") + `]`
	for _, line := range []string{
		`{"op":"adjustment","criterion":"backdoor",` + graph + `}`,
		`{"op":"frontdoor",` + graph + `}`,
		`{"op":"instruments",` + graph + `}`,
		`{"op":"extensions",` + pdag + `}`,
		`{"op":"experiment_target",` + pdag + `}`,
	} {
		if got := codeOf(t, string(Answer([]byte(line), DefaultLimits))); got != "too_large" {
			t.Errorf("%.40s: %q", line, got)
		}
	}
	if got := string(Answer([]byte(`{"op":"adjustment","criterion":"backdoor","set":[],`+graph+`}`), DefaultLimits)); !strings.Contains(got, `"valid":true`) {
		t.Errorf("one set of a large graph: %s", got)
	}
	// A treatment, and 13 outcomes each of which a common cause joins to the next.
	chain := []string{`["X",` + nodes[0] + `]`}
	for i := range 12 {
		chain = append(chain, `[`+nodes[i]+`,`+nodes[i+1]+`]`)
	}
	outcome := strings.Join(nodes[:13], ",")
	line := `{"op":"identify","nodes":["X",` + outcome + `],"directed":[["X",` + nodes[12] + `]],"bidirected":[` + strings.Join(chain, ",") + `],"do":"X","outcome":[` + outcome + `]}`
	if got := string(Answer([]byte(line), DefaultLimits)); !strings.Contains(got, `"identifiable":false,"witness":null,"unavailable":"too_large"`) {
		t.Errorf("a proof about 14 variables: %s", got)
	}
	want := `"class_size":2432902008176640000` // 20!
	if got := string(Answer([]byte(`{"op":"essential_graph","n":20,"dag":[`+strings.Join(complete, ",")+`]}`), DefaultLimits)); !strings.Contains(got, want) {
		t.Errorf("a large class: %s", got)
	}
}

// keyRows are the rows of a list in a file of answer keys.
func keyRows(t *testing.T, file, list string) (rows []map[string]any) {
	t.Helper()
	lists := map[string]jsontext.Value{}
	readKey(t, file, &lists)
	if err := json.Unmarshal(lists[list], &rows); err != nil || len(rows) == 0 {
		t.Fatalf("%s of %s: %d rows, %v", list, file, len(rows), err)
	}
	return rows
}

// askOf asks a row with more members.
func askOf(t *testing.T, row, more map[string]any) map[string]any {
	t.Helper()
	request := maps.Clone(row)
	maps.Copy(request, more)
	return ask(t, request)
}

// canonical sorts lists of lists at every depth, so that sets of sets compare.
func canonical(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = canonical(x)
	}
	text := func(x any) string {
		raw, _ := json.Marshal(x, json.Deterministic(true))
		return string(raw)
	}
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	return out
}

func TestIdentificationKeys(t *testing.T) {
	for _, row := range keyRows(t, "identification/identification.json", "identification") {
		reply := askOf(t, row, map[string]any{"op": "identify"})
		if reply["identifiable"] != row["identifiable"] || (reply["witness"] == nil) != (row["identifiable"] == true) {
			t.Errorf("%v: %v", row["id"], reply)
		}
	}
	// The published label of this one is wrong: the keys hold the proof.
	exact := map[string]string{"remove_tautology": "not_identifiable"}
	for _, row := range keyRows(t, "identification/identification.json", "counterfactual_identification") {
		reply := askOf(t, row, map[string]any{"op": "identify_counterfactual"})
		want := row["result"]
		if e, ok := exact[row["id"].(string)]; ok {
			want = e
		}
		if reply["result"] != want || reply["value"] != row["value"] {
			t.Errorf("%v: %v, want %v %v", row["id"], reply, want, row["value"])
		}
	}
}

func TestGraphKeys(t *testing.T) {
	for _, row := range keyRows(t, "identification/identification.json", "d_separation") {
		for field, want := range map[string]bool{"separated": true, "connected": false} {
			for _, triple := range row[field].([]any) {
				xyz := triple.([]any)
				if reply := askOf(t, row, map[string]any{"op": "d_separated", "x": xyz[0], "y": xyz[1], "given": xyz[2]}); reply["separated"] != want {
					t.Errorf("%v %v: %v", row["id"], xyz, reply)
				}
			}
		}
	}
	for _, row := range keyRows(t, "identification/adjustment.json", "adjustment") {
		reply := askOf(t, row, map[string]any{"op": "adjustment"})
		if !alike(canonical(reply["minimal_sets"]), canonical(row["minimal_recomputed"])) || reply["count"] != row["n_valid_recomputed"] {
			t.Errorf("%v: %v", row["id"], reply)
		}
	}
	for _, row := range keyRows(t, "identification/adjustment.json", "frontdoor") {
		reply := askOf(t, row, map[string]any{"op": "frontdoor"})
		if !alike(canonical(reply["minimal_sets"]), canonical(row["valid_frontdoor_sets"])) {
			t.Errorf("%v: %v", row["id"], reply)
		}
	}
}

func TestClassKeys(t *testing.T) {
	for _, row := range keyRows(t, "structure/structure.json", "essential_graphs") {
		reply := askOf(t, row, map[string]any{"op": "essential_graph"})
		if !alike(canonical(reply["directed"]), canonical(row["essential_directed"])) || !alike(canonical(reply["undirected"]), canonical(row["essential_undirected"])) ||
			reply["class_size"] != row["equivalence_class_size_recomputed"] {
			t.Errorf("%v: %v", row["id"], reply)
		}
	}
	for _, row := range keyRows(t, "structure/structure.json", "pdag_extensions") {
		want, ok := row["all_extensions"]
		if !ok {
			want = row["all_extensions_recomputed"]
		}
		// The order within an edge matters.
		set := func(v any) (out []string) {
			for _, dag := range v.([]any) {
				var edges []string
				for _, e := range dag.([]any) {
					raw, _ := json.Marshal(e)
					edges = append(edges, string(raw))
				}
				slices.Sort(edges)
				out = append(out, strings.Join(edges, " "))
			}
			slices.Sort(out)
			return out
		}
		if reply := askOf(t, row, map[string]any{"op": "extensions"}); !slices.Equal(set(reply["all_extensions"]), set(want)) {
			t.Errorf("%v: %v", row["id"], reply)
		}
	}
	premises := keyRows(t, "corr2cause/train_sample.json", "premises")
	for _, premise := range premises {
		if reply := askOf(t, premise, map[string]any{"op": "cpdag_from_independencies"}); reply["mec_size"] != premise["mec_size"] {
			t.Errorf("premise %v: %v", premise["id"], reply)
		}
	}
	for _, row := range keyRows(t, "corr2cause/train_sample.json", "items") {
		premise := premises[int(row["premise"].(float64))]
		if premise["id"] != row["premise"] {
			t.Fatalf("row %v: premise %v", row["row"], premise["id"])
		}
		reply := askOf(t, premise, map[string]any{"op": "mec_relation", "relation": row["relation"], "x": row["x"], "y": row["y"]})
		if reply["value"] != (row["exact_path_semantics"] == 1.0) {
			t.Errorf("row %v: %v", row["row"], reply)
		}
	}
}

func TestMaintenanceKeys(t *testing.T) {
	for _, row := range keyRows(t, "tms/tms.json", "nonmonotonic") {
		in := askOf(t, row, map[string]any{"op": "tms"})["in"].([]any)
		for i, s := range row["steps"].([]any) {
			want, ok := s.(map[string]any)["stable_models_recomputed"]
			if !ok {
				continue
			}
			if !slices.ContainsFunc(want.([]any), func(m any) bool { return alike(canonical(m), canonical(in[i])) }) {
				t.Errorf("%v, step %d: %v, want one of %v", row["id"], i+1, in[i], want)
			}
		}
	}
	for _, row := range keyRows(t, "tms/tms.json", "assumption_based") {
		reply := askOf(t, row, map[string]any{"op": "jtms"})
		for i, s := range row["steps"].([]any) {
			step := s.(map[string]any)
			under := reply["assumptions_of"].([]any)[i].(map[string]any)
			if !alike(reply["in"].([]any)[i], canonical(step["expected_in"])) {
				t.Errorf("%v, step %d: %v", row["id"], i+1, reply["in"])
			}
			for node, want := range step["assumptions_of"].(map[string]any) {
				if !alike(canonical(under[node]), canonical(want)) {
					t.Errorf("%v, step %d: %s under %v, want %v", row["id"], i+1, node, under[node], want)
				}
			}
		}
	}
	for _, row := range keyRows(t, "tms/tms.json", "atms") {
		reply := askOf(t, row, map[string]any{"op": "atms"})
		for i, s := range row["steps"].([]any) {
			step := s.(map[string]any)
			for node, want := range step["labels"].(map[string]any) {
				if got := reply["labels"].([]any)[i].(map[string]any)[node]; !alike(canonical(got), canonical(want)) {
					t.Errorf("%v, step %d: label of %s %v, want %v", row["id"], i+1, node, got, want)
				}
			}
		}
	}
}
