package metric

import (
	"assay/events"
	"assay/projector/view"
)

var findingMetrics = []Metric{
	{
		Name:      "finding_tokens",
		Question:  "How much context do delivered findings take?",
		Numerator: "tokens of each delivery of a finding",
		Kind:      Guardrail, Form: FormSum, Unit: "tokens",
		Missing: leftOut,
		Source:  "EP Retrieval economics and safety",
		over:    []view.Listing{view.AllDeliveries},
		count: func(p *pass) error {
			return p.deliveries(func(it item, d *view.Delivery) error { return it.known(d.Tokens, "tokens") })
		},
	},
	{
		Name:      "finding_shadow_tokens",
		Question:  "How much context would the findings of the holdout have taken?",
		Numerator: "shadow tokens of each finding that was withheld for the holdout",
		Kind:      Diagnostic, Form: FormSum, Unit: "tokens",
		Exclusions: imported + "; findings that were withheld for another cause",
		Missing:    leftOut,
		Source:     "EP Retrieval economics and safety",
		over:       []view.Listing{view.AllWithheld},
		count: func(p *pass) error {
			return view.ListWithheld(p.state, p.namespace, func(w *view.Withholding) error {
				it, ok, err := p.item(w.FindingID, "", events.TypeFindingWithheld, w.Seq)
				switch {
				case !ok:
					return err
				case w.Cause != view.WithheldHoldout:
					return it.exclude("withheld: " + w.Cause)
				}
				return it.known(w.ShadowTokens, "tokens")
			})
		},
	},
	{
		Name:        "harmful_ratings",
		Question:    "How often does a finding do harm?",
		Numerator:   "of those, harmful ratings",
		Denominator: "ratings of findings, one a rater and delivery",
		Groups:      "principal who rated",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: "findings that nobody rated are not counted",
		Source:  "EP Retrieval economics and safety",
		over:    []view.Listing{view.AllRatings},
		count: func(p *pass) error {
			return view.ListRatings(p.state, p.namespace, func(r *view.Rating) error {
				it, ok, err := p.item(r.FindingID, r.Principal, events.TypeFindingRated, r.Seq)
				if !ok {
					return err
				}
				return it.putIf(r.Rating == view.RatedHarmful)
			})
		},
	},
	{
		Name:        "quarantined_findings",
		Question:    "How many findings were taken out of delivery after two harmful ratings?",
		Numerator:   "of those, findings with two harmful ratings; they stay in the record",
		Denominator: "findings that were written",
		Groups:      "confidence label",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "EP Retrieval economics and safety",
		over:   []view.Listing{view.AllFindings},
		count: func(p *pass) error {
			return p.findings(func(it item, f *view.Finding) error {
				return it.putBy(f.QuarantinedSeq > 0, ref{f.QuarantinedSeq, events.TypeFindingRated})
			})
		},
	},
	{
		Name:        "quarantined_deliveries",
		Question:    "Does quarantine hold?",
		Numerator:   "of those, deliveries of a finding that was quarantined",
		Denominator: "deliveries of findings",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "EP Retrieval economics and safety",
		over:   []view.Listing{view.AllDeliveries},
		count: func(p *pass) error {
			return p.deliveries(func(it item, d *view.Delivery) error { return it.putIf(d.AfterQuarantine) })
		},
	},
	{
		Name:        "duplicate_findings",
		Question:    "How often is the same conclusion written again?",
		Numerator:   "of those, findings with the claim of an earlier one, in its normal form",
		Denominator: "findings that were written",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "EP Semantic finding contract; C9 Weekly report, source duplication",
		over:   []view.Listing{view.AllFindings},
		count: func(p *pass) error {
			return p.findings(func(it item, f *view.Finding) error {
				it.group = ""
				return it.putIf(f.DuplicateOf != nil)
			})
		},
	},
}

// findings takes up each finding that was written, with its confidence label as
// group.
func (p *pass) findings(fn func(item, *view.Finding) error) error {
	return view.ListFindings(p.state, p.namespace, func(f *view.Finding) error {
		if f.Written == nil {
			return nil
		}
		it, ok, err := p.item(f.FindingID, f.Written.ConfidenceLabel, events.TypeFindingWritten, f.Written.Seq)
		if !ok {
			return err
		}
		return fn(it, f)
	})
}

func (p *pass) deliveries(fn func(item, *view.Delivery) error) error {
	return view.ListDeliveries(p.state, p.namespace, func(d *view.Delivery) error {
		it, ok, err := p.item(d.FindingID, "", events.TypeFindingDelivered, d.Seq)
		if !ok {
			return err
		}
		return fn(it, d)
	})
}
