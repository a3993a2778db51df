package metric

import (
	"errors"

	"assay/events"
	"assay/internal/kv"
	"assay/projector/view"
)

var experimentMetrics = []Metric{
	{
		Name:      "experiments_proposed",
		Question:  "How many experiments did the agent mean to run?",
		Numerator: "proposed experiments; an intention is no execution",
		Kind:      Diagnostic, Form: FormCount, Unit: "experiments",
		Source: "C9 Weekly report, Experiments",
		over:   []view.Listing{view.AllExperiments},
		count: func(p *pass) error {
			return p.proposals(func(it item, _ *view.Experiment) error { return it.numerator(it.ref) })
		},
	},
	{
		Name:        "experiments_executed",
		Question:    "How many of the proposed experiments were run?",
		Numerator:   "of those, experiments executed after the proposal, by a tool call that the dispatcher saw and did not deny",
		Denominator: "proposed experiments",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C9 Separate intent, action and outcome",
		over:   []view.Listing{view.AllExperiments},
		count: func(p *pass) error {
			return p.proposals(func(it item, e *view.Experiment) error {
				ran, err := p.ran(e)
				if err == nil {
					err = it.denominator()
				}
				if err != nil || !ran {
					return err
				}
				return it.numerator(executed(e))
			})
		},
	},
	{
		Name:        "experiments_discriminating",
		Question:    "How many experiments could tell live claims apart?",
		Numerator:   "of those, experiments for which two claims that were live at the proposal predict different outcomes",
		Denominator: "executed experiments",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; what was not executed",
		Missing:    "a claim without a predicted outcome tells nothing apart",
		Source:     "C9 Weekly report, Experiments",
		over:       []view.Listing{view.AllExperiments},
		count: func(p *pass) error {
			return p.executions(func(it item, e *view.Experiment) error {
				if err := it.put(Denominator, executed(e), 1, ""); err != nil {
					return err
				}
				tells, err := p.tellsApart(e)
				if err != nil || !tells {
					return err
				}
				return it.numerator(it.ref)
			})
		},
	},
	{
		Name:        "experiments_matched",
		Question:    "How often did an experiment come out as a claim had predicted?",
		Numerator:   "of those, experiments whose observed outcome is one of the predicted",
		Denominator: "executed experiments with a predicted and an observed outcome",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; what was not executed, predicted or observed",
		Source:     "C9 Weekly report, Experiments",
		over:       []view.Listing{view.AllExperiments},
		count: func(p *pass) error {
			return p.executions(func(it item, e *view.Experiment) error {
				switch {
				case len(e.Proposed.Predicted) == 0:
					return it.exclude("nothing predicted")
				case e.Observed == nil:
					return it.exclude("not observed")
				}
				it.ref = ref{e.Observed.Seq, events.TypeExperimentObserved}
				switch imported, err := p.isImported(it.seq); {
				case err != nil:
					return err
				case imported:
					return it.exclude(whyImported)
				}
				matched := false
				for _, o := range e.Proposed.Predicted {
					matched = matched || o.Outcome == e.Observed.Outcome
				}
				return it.putIf(matched)
			})
		},
	},
	{
		Name:        "executed_queries",
		Question:    "Does intended evidence acquisition happen?",
		Numerator:   "of those, queries executed after the selection, by a tool call that the dispatcher saw and did not deny",
		Denominator: "queries that the agent selected",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C8 8.2, Executed diagnostic queries",
		over:   []view.Listing{view.AllQueries},
		count:  (*pass).queries,
	},
	{
		Name:        "canary_success",
		Question:    "How many bounded rollouts ended without a rollback?",
		Numerator:   "of those, canaries that the operator ended",
		Denominator: "canaries that are over",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; canaries that run, or were refused because another ran",
		Missing:    "canaries have no namespace: those of every one are counted",
		Source:     "C9 Weekly report, Diagnosis and repair",
		count: func(p *pass) error {
			return view.ListCanaries(p.state, func(c *view.Canary) error {
				it, ok, err := p.item(c.CanaryID, "", events.TypeCanaryStarted, c.Seq)
				switch {
				case !ok:
					return err
				case c.State == view.CanaryRunning, c.State == view.CanaryRefused:
					return it.exclude(c.State)
				}
				if err := it.denominator(); err != nil || c.State != view.CanaryOver {
					return err
				}
				return it.numerator(ref{c.Ended.Seq, events.TypeCanaryEnded})
			})
		},
	},
}

// proposals takes up each experiment that was proposed.
func (p *pass) proposals(fn func(item, *view.Experiment) error) error {
	return view.ListExperiments(p.state, p.namespace, func(e *view.Experiment) error {
		if e.Proposed == nil {
			return nil
		}
		it, ok, err := p.item(e.ExpID, "", events.TypeExperimentProposed, e.Proposed.Seq)
		if !ok {
			return err
		}
		return fn(it, e)
	})
}

// executions takes up each experiment that was proposed and then run.
func (p *pass) executions(fn func(item, *view.Experiment) error) error {
	return p.proposals(func(it item, e *view.Experiment) error {
		ran, err := p.ran(e)
		switch {
		case err != nil:
			return err
		case !ran:
			return it.exclude("not executed")
		}
		return fn(it, e)
	})
}

func executed(e *view.Experiment) ref { return ref{e.Executed.Seq, events.TypeExperimentExecuted} }

// ran says whether an experiment was run after its proposal.
func (p *pass) ran(e *view.Experiment) (bool, error) {
	what, err := p.executionOf(e)
	return what == view.Executed, err
}

// tellsApart says whether claims that were live at the proposal predict different
// outcomes: recorded before it, and not retracted.
func (p *pass) tellsApart(e *view.Experiment) (bool, error) {
	outcomes := map[string]bool{}
	for _, o := range e.Proposed.Predicted {
		c, err := view.GetClaim(p.state, e.Namespace, o.ClaimID)
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		revisions, err := view.RevisionsOf(p.state, c)
		if err != nil {
			return false, err
		}
		if was := c.StatusBefore(e.Proposed.Seq, revisions); was == view.StatusAsserted || was == view.StatusHypothesis {
			outcomes[o.Outcome] = true
		}
	}
	return len(outcomes) > 1, nil
}

func (p *pass) queries() error {
	return view.ListQueries(p.state, p.namespace, func(q *view.Query) error {
		if q.Selected == nil {
			return nil
		}
		it, ok, err := p.item(q.QueryID, "", events.TypeQuerySelected, q.Selected.Seq)
		if !ok {
			return err
		}
		what, err := p.madeOf(q)
		if err == nil {
			err = it.denominator()
		}
		if err != nil || what != view.Executed {
			return err
		}
		return it.numerator(ref{q.Executed.Seq, events.TypeQueryExecuted})
	})
}
