package metric

import (
	"fmt"

	"assay/projector/view"
)

// CatalogueVersion changes whenever a metric of the same views would change.
const CatalogueVersion = 5

// Kind says what a metric is for.
type Kind string

// Kinds of metrics.
const (
	Outcome    Kind = "outcome"    // what is to be reached
	Guardrail  Kind = "guardrail"  // what must not get worse meanwhile
	Diagnostic Kind = "diagnostic" // what explains the others; never a goal
)

// Form says how the records in the two roles become a value.
type Form string

// Forms of a value.
const (
	FormCount  Form = "count"  // the numerator
	FormSum    Form = "sum"    // the numerator; of nothing it is not available
	FormRatio  Form = "ratio"  // numerator ÷ denominator
	FormMean   Form = "mean"   // mean of the numerator's values
	FormMedian Form = "median" // of the numerator's values, nearest rank
	FormP95    Form = "p95"    // of the numerator's values, nearest rank
)

// Method is how an interval is computed.
type Method string

// Methods of an interval.
const (
	Wilson Method = "Wilson 95 %"
	// ClusterBootstrap draws whole clusters, 1,999 times, and takes the percentiles.
	ClusterBootstrap Method = "clustered bootstrap 95 %"
	None             Method = "none"
)

// Metric is one row of the catalogue. What it counts is one function, which both
// its value and the records behind it come from.
type Metric struct {
	Name        string `json:"name"`
	Question    string `json:"question"` // that it answers
	Numerator   string `json:"numerator"`
	Denominator string `json:"denominator,omitzero"`
	Exclusions  string `json:"exclusions"`
	Missing     string `json:"missing_values"` // what becomes of what is not known
	Groups      string `json:"groups,omitzero"`
	Kind        Kind   `json:"kind"`
	Form        Form   `json:"form"`
	Unit        string `json:"unit"`
	Per         int64  `json:"per"`   // counts are in 1/Per of the unit
	Times       int64  `json:"times"` // the value is for so many of the denominator
	Whole       bool   `json:"whole"` // a single unknown part makes the value unknown
	// Detected says that it rests on what the detector found: where its recall is
	// known to be under 0.8 the value carries that caveat.
	Detected bool `json:"detected"`
	// OfCauses says that it takes the edges of the graph for causes: where a census
	// finds that too many are none the value is withheld.
	OfCauses bool `json:"of_causes"`
	// Apart says that the groups are no parts of one number: the value is theirs alone.
	Apart    bool   `json:"apart"`
	Interval Method `json:"interval"`
	Source   string `json:"source"` // section of the requirements

	// over are the listings that it is a sum over: what a value adds follows from the
	// value, what is looked up for it and what pass.ages was asked. None means that it
	// is computed as a whole each time.
	over  []view.Listing
	count func(*pass) error
}

func (m *Metric) quantile() bool { return m.Form == FormMedian || m.Form == FormP95 }

// Find is the metric of a name, else ErrNoMetric.
func Find(name string) (*Metric, error) {
	for _, m := range Catalogue() {
		if m.Name == name {
			return &m, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoMetric, name)
}

// What many rows say.
const (
	imported     = "imported records"
	noneMissing  = "nothing it counts can be unknown"
	leftOut      = "unknown values are left out and counted"
	mustBeKnown  = "one unknown part makes the value unknown"
	youngerThan7 = imported + "; what is not older than seven days"
)

// Catalogue lists every metric. In all of them the first record of an identifier
// counts, what was imported is no live behaviour, and no denominator depends on what
// the agent's router did.
func Catalogue() []Metric {
	rows := [][]Metric{opportunityMetrics, labelMetrics, claimMetrics, predictionMetrics, calibrationMetrics, experimentMetrics, beliefMetrics, findingMetrics, usageMetrics, runMetrics, graphMetrics, armMetrics}
	var all []Metric
	for _, part := range rows {
		for _, m := range part {
			m.Per, m.Times = max(1, m.Per), max(1, m.Times)
			if m.Interval == "" {
				m.Interval = None
			}
			if m.Exclusions == "" {
				m.Exclusions = imported
			}
			if m.Missing == "" {
				m.Missing = noneMissing
			}
			all = append(all, m)
		}
	}
	return all
}
