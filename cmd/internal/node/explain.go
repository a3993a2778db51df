package node

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"assay/projector"
	"assay/projector/metric"
)

// ExplainQuery asks for a metric and the records behind it.
type ExplainQuery struct {
	Metric    string
	Namespace string
	Options   metric.Options
	Limit     int // how many records to name
}

// Values is the query as the service takes it.
func (q ExplainQuery) Values() url.Values {
	return url.Values{
		"metric": {q.Metric}, "namespace": {q.Namespace}, "week": {q.Options.Week}, "repair": q.Options.Repair,
		"limit": {strconv.Itoa(q.Limit)},
	}
}

// parseExplain is the reverse of Values.
func parseExplain(r *http.Request) (q ExplainQuery, err error) {
	if err := r.ParseForm(); err != nil {
		return q, &httpError{http.StatusBadRequest, err}
	}
	q = ExplainQuery{Metric: r.Form.Get("metric"), Namespace: r.Form.Get("namespace")}
	q.Options = metric.Options{Week: r.Form.Get("week"), Repair: r.Form["repair"]}
	if q.Limit, err = strconv.Atoi(r.Form.Get("limit")); err != nil {
		return q, &httpError{http.StatusBadRequest, fmt.Errorf("limit: %w", err)}
	}
	return q, nil
}

// Explained is a metric's value, and the first records behind it in the order of the
// views. The value is of all of them.
type Explained struct {
	*metric.Explanation
	Records []metric.Record `json:"records"`
	// More says that there are others beyond the limit.
	More bool `json:"more"`
}

// Explain computes a metric over the views.
func Explain(s *projector.State, q ExplainQuery) (out Explained, err error) {
	out.Records = []metric.Record{}
	out.Explanation, err = metric.Explain(s, q.Metric, q.Namespace, q.Options, func(r metric.Record) error {
		if out.More = len(out.Records) >= q.Limit; !out.More {
			out.Records = append(out.Records, r)
		}
		return nil
	})
	return out, err
}
