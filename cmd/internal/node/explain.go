package node

import (
	"net/url"
	"strconv"

	"assay/internal/kv"
	"assay/projector"
	"assay/projector/metric"
)

// MaxExplained is how many records Explain names at most, as MaxListed is for List;
// they are short.
const MaxExplained = 100_000

// ExplainQuery asks for a metric and the records behind it.
type ExplainQuery struct {
	Metric    string
	Namespace string
	Options   metric.Options
	Limit     int // how many records to name, from 0 to MaxExplained
}

// Values is the query as the service takes it.
func (q ExplainQuery) Values() url.Values {
	return url.Values{
		"metric": {q.Metric}, "namespace": {q.Namespace}, "week": {q.Options.Week}, "repair": q.Options.Repair,
		"limit": {strconv.Itoa(q.Limit)},
	}
}

// explainQuery reads what Values wrote.
func explainQuery(v url.Values) (q ExplainQuery, err error) {
	q = ExplainQuery{Metric: v.Get("metric"), Namespace: v.Get("namespace"), Options: metric.Options{Week: v.Get("week"), Repair: v["repair"]}}
	q.Limit, err = limitOf(v, 0, MaxExplained)
	return q, err
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
		if out.More = len(out.Records) >= q.Limit; out.More {
			return kv.ErrStop
		}
		out.Records = append(out.Records, r)
		return nil
	})
	return out, err
}
