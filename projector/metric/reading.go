package metric

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// reading is what a score and a metric alike go by: the views of a namespace, and
// which of their records were imported.
type reading struct {
	state     *projector.State
	namespace string
	now       time.Time  // of the ledger
	imports   bool       // there are some
	due       *time.Time // from when on what is read may come to something else, if not nil; zero for never
}

// ages says whether now is behind t, and notes t as due if not.
func (r reading) ages(t time.Time) bool {
	if r.now.After(t) {
		return true
	}
	// What falls due at t itself counts with it: see view.StandingOf.
	if t.Equal(r.now) {
		t = t.Add(1)
	}
	if r.due != nil && (r.due.IsZero() || t.Before(*r.due)) {
		*r.due = t
	}
	return false
}

func readingOf(s *projector.State, namespace string) (reading, error) {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	r := reading{state: s, namespace: namespace}
	l, err := s.Ledger()
	if err != nil {
		return r, err
	}
	r.now = l.Time
	r.imports, err = view.HasImports(s)
	return r, err
}

// isImported says whether a record tells of what happened before it, which is no
// live behaviour and counts nowhere. The answer never changes.
func (r reading) isImported(seq ledger.Seq) (bool, error) {
	if !r.imports {
		return false, nil
	}
	return view.IsImported(r.state.Settled(), seq)
}

// rule leaves a prediction with the rulings that were not imported.
func (r reading) rule(p *view.Prediction) error {
	for _, ruling := range []**view.Resolution{&p.Resolution, &p.Amendment, &p.Report} {
		if *ruling == nil {
			continue
		}
		imported, err := r.isImported((*ruling).Seq)
		if err != nil {
			return err
		}
		if imported {
			*ruling = nil
		}
	}
	if p.Resolution == nil { // without which there is nothing to amend
		p.Amendment, p.Report = nil, nil
	}
	return nil
}

// word is what a source other than the claim's author said of it.
type word struct {
	ref
	known ledger.Seq // the record from which on it was decided
	by    string     // byPrediction or byRecheck
}

// Sources of a word.
const (
	byPrediction = "prediction"
	byRecheck    = "recheck"
)

// past is what was said of a claim, each by the first record that said so and was
// not taken back. What was imported says nothing, and neither does its author.
type past struct {
	settled   *word // a prediction was confirmed or refuted
	confirmed *word // a scorable prediction was confirmed, or a recheck held
	refuted   *word // a prediction was refuted, or the latest recheck did not hold
}

// keepFirst keeps the earlier word.
func keepFirst(have **word, w word) {
	if *have == nil || w.seq < (*have).seq {
		*have = &w
	}
}

// follow finds what was said of a claim, by the predictions made on it and its
// rechecks, in order.
func (r reading) follow(c *view.Claim, promises []view.Prediction, rechecks []view.Recheck) (f past, err error) {
	for i := range promises {
		p := &promises[i]
		imported, err := r.isImported(p.Seq)
		if err == nil {
			err = r.rule(p)
		}
		if err != nil {
			return f, err
		}
		if imported || !decided(p) {
			continue
		}
		w := decision(p)
		keepFirst(&f.settled, w)
		switch {
		case p.Final().Verdict == view.VerdictRefuted:
			keepFirst(&f.refuted, w)
		case scored(p):
			keepFirst(&f.confirmed, w)
		}
	}
	return f, r.followRechecks(c, rechecks, &f)
}

func (r reading) followRechecks(c *view.Claim, rechecks []view.Recheck, f *past) error {
	var last *word // where it did not hold
	for _, v := range rechecks {
		imported, err := r.isImported(v.Seq)
		if err != nil {
			return err
		}
		if imported || !v.Decides() || v.Principal == c.Principal {
			continue
		}
		w := word{ref{v.Seq, events.TypeFixRechecked}, v.Seq, byRecheck}
		if last = &w; v.Result == view.RecheckHeld {
			last = nil
			keepFirst(&f.confirmed, w)
		}
	}
	if last != nil {
		keepFirst(&f.refuted, *last)
	}
	return nil
}

// decision is the ruling by which a prediction has its present verdict: the
// resolution, or the amendment that brought another verdict.
func decision(p *view.Prediction) word {
	r := p.Final()
	if p.Resolution.Verdict == r.Verdict && !p.Resolution.IsReport() {
		r = p.Resolution
	}
	typ := events.TypePredictionResolved
	if r.Cause != "" {
		typ = events.TypePredictionResolutionAmended
	}
	return word{ref{r.Seq, typ}, r.KnownAt(), byPrediction}
}

// Why a confirmed claim is no useful conclusion.
const (
	whyRefuted     = "refuted"
	whyNotAsserted = "not asserted then"
)

// notUseful is why a claim that was confirmed is no useful conclusion, or "". One
// that was asserted when its first confirmation was decided, and that nothing
// refuted, is one, whatever its author makes of it later.
func (r reading) notUseful(c *view.Claim, f past) (string, error) {
	if f.refuted != nil {
		return whyRefuted, nil
	}
	revisions, err := view.RevisionsOf(r.state, c)
	if err != nil || c.StatusBefore(f.confirmed.known, revisions) == view.StatusAsserted {
		return "", err
	}
	return whyNotAsserted, nil
}

// followed says whether anything that was not imported followed an opportunity.
func (r reading) followed(o *view.Opportunity) (bool, error) {
	if o.Route == nil {
		return false, nil
	}
	imported, err := r.isImported(o.Route.Seq)
	return !imported && err == nil, err
}

// executedBefore is what became of an intention that was carried out before it was
// recorded, beside what view.CheckExecution can say.
const executedBefore = "executed_before"

// executionOf is what became of a proposed experiment.
func (r reading) executionOf(e *view.Experiment) (string, error) {
	what, err := view.CheckExecution(r.state, e)
	if err != nil || e.Executed == nil {
		return what, err
	}
	return r.carriedOut(what, e.Executed.Seq, e.Proposed.Seq)
}

// madeOf is what became of a selected query.
func (r reading) madeOf(q *view.Query) (string, error) {
	what, err := view.CheckQuery(r.state, q)
	if err != nil || q.Executed == nil {
		return what, err
	}
	return r.carriedOut(what, q.Executed.Seq, q.Selected.Seq)
}

func (r reading) carriedOut(what string, executed, intended ledger.Seq) (string, error) {
	imported, err := r.isImported(executed)
	switch {
	case err != nil:
		return "", err
	case imported:
		return view.NotExecuted, nil
	case what == view.Executed && executed < intended:
		return executedBefore, nil
	}
	return what, nil
}
