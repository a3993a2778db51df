package metric

import (
	"assay/events"
	"assay/projector/view"
)

var beliefMetrics = []Metric{
	{
		Name:        "unversioned_content_changes",
		Question:    "How often was a belief's content changed without a new version?",
		Numerator:   "of those, changes that came without a version of their own: silent mutations",
		Denominator: "changes of a belief's content, by whatever they became known; edits of metadata are none",
		Groups:      "principal who told of it",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: leftOut,
		Source:  "C8 8.2, Unversioned content changes",
		over:    []view.Listing{view.AllContentChanges},
		count: func(p *pass) error {
			return view.ListContentChanges(p.state, p.namespace, func(c *view.ContentChange) error {
				typ := c.By
				if typ == view.ByGap {
					typ = events.TypeBeliefRevised
				}
				it, ok, err := p.item(c.BeliefID, c.Principal, typ, c.Seq)
				switch {
				case !ok:
					return err
				case c.Versioned == nil:
					return it.exclude(unknown + "version")
				}
				return it.putIf(!*c.Versioned)
			})
		},
	},
	{
		Name:        "stale_retrievals",
		Question:    "How often was a belief put before the agent that rests on something that no longer stands?",
		Numerator:   "of those, reads of a belief of which an ancestor was superseded, challenged or revised since it was made or last revised",
		Denominator: "reads of beliefs that somebody had recorded",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported,
		Missing:    leftOut,
		Source:     "C8 14, Revision: stale descendant retrieval",
		over:       []view.Listing{view.AllBeliefReads},
		count: func(p *pass) error {
			return view.ListBeliefReads(p.state, p.namespace, func(r *view.BeliefRead) error {
				it, ok, err := p.item(r.BeliefID, "", events.TypeBeliefRead, r.Seq)
				switch {
				case !ok:
					return err
				case r.Status == view.BeliefUnknown:
					return it.exclude(unknown + "belief")
				}
				return it.putIf(r.StaleBy != nil)
			})
		},
	},
	{
		Name:        "derived_lineage_lost",
		Question:    "How often does what was derived lose its lineage on the way?",
		Numerator:   "of those, outputs that name no input, or of which evidence or parents that were known are gone",
		Denominator: "steps whose outcome rests on something derived",
		Groups:      "writer",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: leftOut,
		Source:  "C8 8.2, Derived lineage lost; 14, Lineage preservation by writer",
		over:    []view.Listing{view.AllLineage},
		count: func(p *pass) error {
			return p.derived(func(it item, st *view.LineageStep) error { return it.putKnown(st.Lost, "lineage") })
		},
	},
	{
		Name:        "derived_origin_kept",
		Question:    "Is what rests on something derived still called derived?",
		Numerator:   "of those, steps whose outcome is called derived",
		Denominator: "steps whose outcome rests on something derived",
		Groups:      "writer",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: leftOut,
		Source:  "C8 7.7; 9, E2",
		over:    []view.Listing{view.AllLineage},
		count: func(p *pass) error {
			return p.derived(func(it item, st *view.LineageStep) error { return it.putKnown(st.OriginKept, "origin") })
		},
	},
	{
		Name:      "contradictions",
		Question:  "How many conflicts were detected?",
		Numerator: "detected contradictions, each pair once while one of it is open",
		Groups:    "state in which they stand",
		Kind:      Diagnostic, Form: FormCount, Unit: "contradictions",
		Exclusions: imported + "; duplicates of an open one",
		Source:     "C8 14, Contradictions",
		over:       []view.Listing{view.AllContradictions},
		count: func(p *pass) error {
			return p.contradictions(func(it item, _ *view.Contradiction) error { return it.numerator(it.ref) })
		},
	},
	{
		Name:        "valid_contradictions",
		Question:    "How many of the detected conflicts are genuine?",
		Numerator:   "of those, contradictions that raters call valid",
		Denominator: "contradictions of which raters who have no part in them agree",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; duplicates of an open one",
		Missing:    leftOut + ": without a label, or with labels that differ, it is not known",
		Source:     "C8 8.1; 14, Contradictions",
		over:       []view.Listing{view.AllContradictions},
		count: func(p *pass) error {
			return p.contradictions(func(it item, c *view.Contradiction) error {
				it.group = ""
				return it.putKnown(c.Valid, "validity")
			})
		},
	},
	{
		Name:        "verified_dispositions",
		Question:    "How many genuine conflicts were dealt with on evidence?",
		Numerator:   "of those, contradictions whose present state rests on evidence that a dispatcher delivered, or a resolver or operator recorded; an honest unresolved is one",
		Denominator: "contradictions that raters call valid",
		Groups:      "state in which they stand",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; duplicates of an open one; invalid ones",
		Missing:    leftOut + ": without a label, or with labels that differ, validity is not known",
		Source:     "C8 8.2, Verified resolutions",
		over:       []view.Listing{view.AllContradictions},
		count: func(p *pass) error {
			return p.contradictions(func(it item, c *view.Contradiction) error {
				switch {
				case c.Valid == nil:
					return it.exclude(unknown + "validity")
				case !*c.Valid:
					return it.exclude("not valid")
				}
				return it.putBy(c.Verified, ref{c.StateSeq, "contradiction." + c.RecordedState})
			})
		},
	},
	{
		Name:        "false_resolutions",
		Question:    "How many conflicts were closed for no good reason, or not for good?",
		Numerator:   "of those, contradictions that were ever closed without verified evidence, or in a way that did not last",
		Denominator: "contradictions that were ever resolved or scoped",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; duplicates of an open one",
		Source:     "C8 14, Contradictions",
		over:       []view.Listing{view.AllContradictions},
		count: func(p *pass) error {
			return p.contradictions(func(it item, c *view.Contradiction) error {
				it.group = ""
				if c.ClosedSeq == 0 {
					return nil
				}
				return it.putIf(c.FalseClosings > 0)
			})
		},
	},
	{
		Name:      "open_contradiction_age",
		Question:  "How long have open conflicts been waiting?",
		Numerator: "age by ledger time of contradictions that are neither resolved nor scoped",
		Kind:      Diagnostic, Form: FormMedian, Unit: "days", Per: 86400,
		Exclusions: imported + "; duplicates of an open one; closed ones",
		Source:     "C8 14, Contradictions",
		over:       []view.Listing{view.AllContradictions},
		count: func(p *pass) error {
			return p.contradictions(func(it item, c *view.Contradiction) error {
				it.group = ""
				if !c.Open {
					return it.exclude("closed")
				}
				return it.waits(c.RecordedAt)
			})
		},
	},
}

// derived takes up each step whose outcome rests on something derived, with the
// writer as group.
func (p *pass) derived(fn func(item, *view.LineageStep) error) error {
	return view.ListLineage(p.state, p.namespace, func(st *view.LineageStep) error {
		it, ok, err := p.item(st.BeliefID, st.Writer, st.By, st.Seq)
		switch {
		case !ok:
			return err
		case st.Derived == nil:
			return it.exclude(unknown + "origin of what it rests on")
		case !*st.Derived:
			return nil
		}
		return fn(it, st)
	})
}

// contradictions takes up each contradiction, with its state as group.
func (p *pass) contradictions(fn func(item, *view.Contradiction) error) error {
	return view.ListContradictions(p.state, p.namespace, func(c *view.Contradiction) error {
		it, ok, err := p.item(c.ContradictionID, c.State, events.TypeContradictionDetected, c.Seq)
		switch {
		case !ok:
			return err
		case c.DuplicateOf != nil:
			return it.exclude("duplicate")
		case c.Open && c.RevisitBy != nil:
			p.ages(*c.RevisitBy)
		}
		return fn(it, c)
	})
}
