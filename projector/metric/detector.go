package metric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"assay/events"
	"assay/internal/stats"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// enoughLabels is how many cases of a stratum must be labelled before its share says
// anything, as in the reports of audits.
const enoughLabels = 10

// Detection is what the ledger says of how good the detector is: over all, and by
// version in the order of their first records, so that drift shows.
type Detection struct {
	V         int               `json:"v"` // CatalogueVersion
	Namespace string            `json:"namespace"`
	Week      string            `json:"week,omitzero"` // empty: all of the ledger
	At        Place             `json:"at"`
	All       DetectorQuality   `json:"all"`
	Versions  []DetectorQuality `json:"versions"`
	// Components are who spoke, by name. A turn without an opportunity is known to be of
	// one only where its scan names no other.
	Components []DetectorQuality `json:"components"`
}

// DetectorQuality counts what was scanned and what raters who did not see the verdict
// say of it. What was imported is left out.
type DetectorQuality struct {
	Version   string `json:"detector_version,omitzero"` // empty over all, and of a component
	Component string `json:"component,omitzero"`        // empty over all, and of a version
	Scans     int64  `json:"scans"`
	Turns     int64  `json:"turns"`
	// Inconsistent are scans whose counts contradict each other; they are in no other
	// number.
	Inconsistent int64 `json:"inconsistent"`
	// Strata are the scans' own, such as one for each component, by name.
	Strata []events.ScannedStratum `json:"strata"`
	Kinds  map[string]int64        `json:"kinds"` // of opportunities

	Detected   Labels `json:"detected"`   // opportunities
	Undetected Labels `json:"undetected"` // turns that were scanned without one
	// Unplaced are labelled turns of scans that name several components, of which this
	// is one: they may be this one's.
	Unplaced int64 `json:"unplaced,omitzero"`

	Precision Share `json:"precision"`
	// Recall weighs the two strata by their populations. Its interval is made of theirs
	// at 97.5 % each, so that both hold at 95 %.
	Recall Share `json:"recall"`
	// Caveat is what to keep in mind with figures that rest on the detector.
	Caveat string `json:"caveat,omitzero"`

	first ledger.Seq
}

// Labels are a stratum and what was labelled of it.
type Labels struct {
	Population int64 `json:"population"`
	Labelled   int64 `json:"labelled"`
	Eligible   int64 `json:"eligible"`
}

// Share is an estimate with its 95 % interval; null, with the reason, where the labels
// do not carry it.
type Share struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Why   string   `json:"why,omitzero"`
}

// Detect says how good the detector is in a namespace, over a closed week or, with "",
// all of the ledger. ErrNoWeek if the week was not closed.
func Detect(s *projector.State, namespace, week string) (*Detection, error) {
	out, err := detect(s, namespace, week)
	if err != nil {
		return nil, fmt.Errorf("detector: %w", err)
	}
	return out, nil
}

func detect(s *projector.State, namespace, week string) (*Detection, error) {
	r, err := readingOf(s, namespace)
	if err != nil {
		return nil, err
	}
	p := &pass{reading: r, options: Options{Week: week}, common: &shared{}}
	var stands Explanation
	if err := p.stand(&stands); err != nil {
		return nil, err
	}
	d := detectors{pass: p.quiet(), by: map[string]*DetectorQuality{}, of: map[string]*DetectorQuality{}, scans: map[ledger.Seq]*view.Scan{}}
	if err := d.population(); err != nil {
		return nil, err
	}
	if err := d.labels(); err != nil {
		return nil, err
	}
	out := &Detection{V: CatalogueVersion, Namespace: r.namespace, Week: week, At: stands.At, Versions: []DetectorQuality{}, Components: []DetectorQuality{}}
	d.all.estimate()
	out.All = d.all
	for _, q := range slices.SortedFunc(maps.Values(d.by), func(a, b *DetectorQuality) int { return cmp.Compare(a.first, b.first) }) {
		q.estimate()
		out.Versions = append(out.Versions, *q)
	}
	for _, name := range slices.Sorted(maps.Keys(d.of)) {
		d.of[name].estimate()
		out.Components = append(out.Components, *d.of[name])
	}
	return out, nil
}

// detectors adds up over all, by version and by component.
type detectors struct {
	*pass
	all   DetectorQuality
	by    map[string]*DetectorQuality // versions
	of    map[string]*DetectorQuality // components
	scans map[ledger.Seq]*view.Scan
}

// component is the sum of one.
func (d *detectors) component(name string) *DetectorQuality {
	q, ok := d.of[name]
	if !ok {
		q = &DetectorQuality{Component: name}
		d.of[name] = q
	}
	return q
}

// each calls fn for the two sums that a record of the version counts in.
func (d *detectors) each(version string, seq ledger.Seq, fn func(*DetectorQuality)) {
	q, ok := d.by[version]
	if !ok {
		q = &DetectorQuality{Version: version, first: seq}
		d.by[version] = q
	}
	q.first = min(q.first, seq)
	fn(q)
	fn(&d.all)
}

func (d *detectors) population() error {
	err := view.ListScans(d.state, d.namespace, func(s *view.Scan) error {
		_, ok, err := d.item("", "", events.TypeDetectorScanned, s.Seq)
		if !ok {
			return err
		}
		d.scans[s.Seq] = s
		d.each(s.DetectorVersion, s.Seq, func(q *DetectorQuality) { q.scan(s) })
		d.components(s)
		return nil
	})
	if err != nil {
		return err
	}
	return view.ListOpportunities(d.state, d.namespace, func(o *view.Opportunity) error {
		_, ok, err := d.item("", "", events.TypeOpportunityDetected, o.Seq)
		if !ok {
			return err
		}
		d.each(o.DetectorVersion, o.Seq, func(q *DetectorQuality) { q.found(o) })
		d.component(o.Component).found(o)
		return nil
	})
}

func (q *DetectorQuality) found(o *view.Opportunity) {
	q.Detected.Population++
	if q.Kinds == nil {
		q.Kinds = map[string]int64{}
	}
	q.Kinds[o.Kind]++
}

// components adds a scan to the components that it names.
func (d *detectors) components(s *view.Scan) {
	if s.Inconsistent {
		return
	}
	for _, st := range s.Strata {
		q := d.component(st.Stratum)
		q.Scans++
		q.Turns += st.Turns
		q.Undetected.Population += st.Negative
	}
}

// silent are the components that turns without an opportunity in a scan may be of.
func silent(s *view.Scan) (out []string) {
	for _, st := range s.Strata {
		if st.Negative > 0 {
			out = append(out, st.Stratum)
		}
	}
	return out
}

func (q *DetectorQuality) scan(s *view.Scan) {
	if s.Inconsistent {
		q.Inconsistent++
		return
	}
	q.Scans++
	q.Turns += s.Turns
	q.Undetected.Population += s.Negative
	for _, st := range s.Strata {
		i, found := slices.BinarySearchFunc(q.Strata, st.Stratum, func(have events.ScannedStratum, name string) int { return cmp.Compare(have.Stratum, name) })
		if !found {
			q.Strata = slices.Insert(q.Strata, i, events.ScannedStratum{Stratum: st.Stratum})
		}
		have := &q.Strata[i]
		have.Turns, have.Positive, have.Negative = have.Turns+st.Turns, have.Positive+st.Positive, have.Negative+st.Negative
	}
}

func (d *detectors) labels() error {
	all, err := d.detection()
	if err != nil {
		return err
	}
	for _, k := range all.positive {
		d.each(k.opportunity.DetectorVersion, k.opportunity.Seq, func(q *DetectorQuality) { q.Detected.add(k) })
		d.component(k.opportunity.Component).Detected.add(k)
	}
	for _, k := range all.overseen {
		s := d.scans[k.seq]
		d.each(s.DetectorVersion, k.seq, func(q *DetectorQuality) { q.Undetected.add(k) })
		of := silent(s)
		if len(of) == 1 {
			d.component(of[0]).Undetected.add(k)
			continue
		}
		for _, name := range of {
			d.component(name).Unplaced++
		}
	}
	return nil
}

func (l *Labels) add(k *detected) {
	l.Labelled++
	if k.eligible {
		l.Eligible++
	}
}

// wilson is the interval of the eligible among the labelled, with this error.
func (l *Labels) wilson(alpha float64) stats.Interval {
	iv, _ := stats.Wilson(float64(l.Eligible), float64(l.Labelled), stats.Z(alpha)) // some are labelled
	return iv
}

// share is the eligible among the labelled.
func (l *Labels) share() float64 { return float64(l.Eligible) / float64(l.Labelled) }

// estimate fills in the shares.
func (q *DetectorQuality) estimate() {
	switch {
	case q.Detected.Labelled < enoughLabels:
		q.Precision.Why = fmt.Sprintf("%d detected opportunities are labelled, under %d", q.Detected.Labelled, enoughLabels)
		q.Recall.Why = q.Precision.Why
		return
	case q.Unplaced > 0:
		q.Recall.Why = fmt.Sprintf("%d labelled turns without an opportunity are of scans that name several components", q.Unplaced)
	case q.Undetected.Labelled < enoughLabels:
		q.Recall.Why = fmt.Sprintf("%d turns without an opportunity are labelled, under %d", q.Undetected.Labelled, enoughLabels)
	}
	precision := q.Detected.wilson(0.05)
	q.Precision.set(q.Detected.share(), precision.Low, precision.High)
	if q.Recall.Why != "" {
		return
	}
	recall := func(precision, missed float64) (float64, bool) {
		found, overseen := precision*float64(q.Detected.Population), missed*float64(q.Undetected.Population)
		return found / (found + overseen), found+overseen > 0
	}
	value, ok := recall(q.Detected.share(), q.Undetected.share())
	if !ok {
		q.Recall.Why = "no labelled case was an opportunity"
		return
	}
	found, missed := q.Detected.wilson(0.025), q.Undetected.wilson(0.025)
	low, _ := recall(found.Low, missed.High) // whose sums are above 0, since value's is
	high, _ := recall(found.High, missed.Low)
	q.Recall.set(value, low, high)
	if value < enoughRecall {
		q.Caveat = fmt.Sprintf("the detector finds %.2g of the opportunities that there are, under %.1g", value, enoughRecall)
	}
}

func (s *Share) set(value, low, high float64) { s.Value, s.Low, s.High = &value, &low, &high }
