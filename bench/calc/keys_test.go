package calc

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/answerkeys"
)

// TestKeys feeds the answer keys of others as they are, a row a request, and
// compares every number that both sides have.
func TestKeys(t *testing.T) {
	raw, err := os.ReadFile(answerkeys.Need(t, "stats/stats_keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]jsontext.Value
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, value := range file {
		if name == "note" {
			continue
		}
		var rows []map[string]any
		if err := json.Unmarshal(value, &rows); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, row := range rows {
			row["op"] = name
			if name == "bootstrap" {
				row["n_boot"] = 200_000
			}
			request, err := json.Marshal(row, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			reply := map[string]any{}
			if err := json.Unmarshal(Answer(request, DefaultLimits), &reply); err != nil || reply["ok"] != true {
				t.Errorf("%s\nreply %v, %v", request, reply, err)
				continue
			}
			n := 0
			for field, want := range row {
				if got, ok := reply[field]; ok && !given[name+"."+field] {
					n += agree(t, name+" "+field, got, want, row)
				}
			}
			if n == 0 {
				t.Errorf("%s\nnothing to compare with %v", request, reply)
			}
			compared += n
		}
	}
	if compared < 80 {
		t.Errorf("only %d numbers were compared", compared)
	}
}

// given are the fields of requests that replies repeat.
var given = map[string]bool{"ece.bins": true, "ece.norm": true, "bootstrap.confidence": true}

// agree compares numbers, or lists of them, within what the row says it is good
// for: its tolerance, the decimals that it was printed with, or those that stand
// there. It says how many it compared.
func agree(t *testing.T, what string, got, want any, row map[string]any) int {
	t.Helper()
	if list, ok := want.([]any); ok {
		other, ok := got.([]any)
		if !ok || len(other) != len(list) {
			t.Errorf("%s: got %v, want %v", what, got, want)
			return 0
		}
		n := 0
		for i := range list {
			n += agree(t, what, other[i], list[i], row)
		}
		return n
	}
	g, ok := got.(float64)
	w, isNumber := want.(float64)
	if !ok || !isNumber {
		t.Errorf("%s: got %v, want %v", what, got, want)
		return 0
	}
	tol := 1e-9
	if printed, err := json.Marshal(w); err == nil {
		if _, places, ok := strings.Cut(string(printed), "."); ok && len(places) >= 6 && !strings.Contains(places, "e") {
			tol = max(tol, 0.51*math.Pow10(-len(places)))
		}
	}
	if decimals, ok := row["decimals"].(float64); ok {
		tol = 0.5*math.Pow10(-int(decimals)) + 1e-9
	}
	if given, ok := row["tol"].(float64); ok {
		tol = given
	}
	if _, ok := row["rtol"]; ok {
		tol = 0.02 * math.Abs(w) // of 200,000 resamples
	}
	if math.Abs(g-w) > tol {
		t.Errorf("%s: got %v, want %v within %g", what, g, w, tol)
	}
	return 1
}
