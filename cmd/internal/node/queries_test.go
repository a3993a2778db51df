package node

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"assay/projector/metric"
	"assay/projector/report"
	"assay/projector/view"
)

// TestQueries: what a command asks a service is what the service reads, and
// nothing else is taken for a question.
func TestQueries(t *testing.T) {
	list := ListQuery{Kind: "graph", Namespace: "lab", Limit: MaxListed, Graph: view.GraphQuery{At: 7, Cause: "a", Effect: "b & c"}}
	explain := ExplainQuery{Metric: "m", Namespace: "lab", Options: metric.Options{Week: "2026-W40", Repair: []string{"x", "y"}}, Limit: MaxExplained}
	values := ValuesQuery{Metrics: []string{"m", "n"}, Namespace: "lab", Options: metric.Options{Week: "2026-W40", Repair: []string{"x"}}}
	week := report.Config{Namespace: "lab", Week: "2026-W40", Repair: []string{"x", "y"}}
	prune := PruneQuery{Keep: 1, DryRun: true}
	for _, q := range []struct {
		name string
		sent any
		url.Values
		read    func(url.Values) (any, error)
		refused map[string][]string // values by member; "" leaves it out
	}{
		{
			"list", list, list.Values(), func(v url.Values) (any, error) { return listQuery(v) },
			map[string][]string{"limit": {"", "0", "-1", "10001", "99999999999999999999", "all"}, "at": {"", "-1", "last"}},
		},
		{
			"explain", explain, explain.Values(), func(v url.Values) (any, error) { return explainQuery(v) },
			map[string][]string{"limit": {"", "-1", "100001", "all"}},
		},
		{"values", values, values.Values(), func(v url.Values) (any, error) { return valuesQuery(v), nil }, nil},
		{"report", week, ReportValues(week), func(v url.Values) (any, error) { return reportQuery(v), nil }, nil},
		{
			"prune", prune, prune.Values(), func(v url.Values) (any, error) { return pruneQuery(v) },
			map[string][]string{"keep": {"", "0", "-1", "all"}, "dry_run": {"", "yes", "truth"}},
		},
	} {
		if got, err := q.read(q.Values); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", q.sent) {
			t.Errorf("%s: %+v, %v; want %+v", q.name, got, err, q.sent)
		}
		for member, values := range q.refused {
			for _, value := range values {
				v := maps.Clone(q.Values)
				v.Set(member, value)
				if value == "" {
					v.Del(member)
				}
				if got, err := q.read(v); err == nil || !strings.Contains(err.Error(), member+"=") {
					t.Errorf("%s with %s=%q: %+v, %v", q.name, member, value, got, err)
				}
			}
		}
	}
}

// TestStatusOfErrors: who asks for what is not there, or wrongly, is told so.
func TestStatusOfErrors(t *testing.T) {
	mux := http.NewServeMux()
	for path, err := range map[string]error{
		"bad": badRequest{errors.New("limit")}, "kind": fmt.Errorf("list: %w", view.ErrKind), "metric": fmt.Errorf("explain: %w", metric.ErrNoMetric),
		"none": fmt.Errorf("%w: x", ErrNotFound), "week": ErrNoWeek, "calendar": fmt.Errorf("report: %w", report.ErrWeek), "broken": errors.New("disk"),
	} {
		handle(mux, "GET /"+path, func(*http.Request) (any, error) { return nil, err })
	}
	path := filepath.Join(t.TempDir(), "s.sock")
	s, err := ListenSocket(path, mux)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for what, want := range map[string]int{"bad": 400, "kind": 400, "metric": 400, "none": 404, "week": 404, "calendar": 400, "broken": 500} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/"+what, nil))
		if w.Code != want {
			t.Errorf("%s is answered with %d, want %d", what, w.Code, want)
		}
		if err := Ask(t.Context(), path, "GET", "/"+what, nil, nil); errors.Is(err, ErrNotFound) != (want == 404) {
			t.Errorf("%s reads as %v", what, err)
		}
	}
}
