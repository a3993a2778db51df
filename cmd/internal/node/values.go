package node

import (
	"net/url"

	"assay/projector"
	"assay/projector/metric"
)

// ValuesQuery asks for metrics without the records behind them.
type ValuesQuery struct {
	Metrics   []string // none for the whole catalogue
	Namespace string
	Options   metric.Options
}

// Values is the query as the service takes it.
func (q ValuesQuery) Values() url.Values {
	return url.Values{"metric": q.Metrics, "namespace": {q.Namespace}, "week": {q.Options.Week}, "repair": q.Options.Repair}
}

func valuesQuery(v url.Values) ValuesQuery {
	return ValuesQuery{v["metric"], v.Get("namespace"), metric.Options{Week: v.Get("week"), Repair: v["repair"]}}
}

// MetricValues is what metrics come to, all at one record.
type MetricValues struct {
	V      int                   `json:"v"` // metric.CatalogueVersion
	Values []*metric.Explanation `json:"values"`
}

// Values computes metrics over the views.
func Values(s *projector.State, q ValuesQuery) (*MetricValues, error) {
	values, err := metric.Values(s, q.Namespace, q.Options, q.Metrics...)
	return &MetricValues{metric.CatalogueVersion, values}, err
}
