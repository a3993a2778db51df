package metric

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector/view"
)

// perCase is in how many parts a labelled case is counted that stands for others.
const perCase = 1_000_000

// enoughRecall is the recall of the detector under which figures that rest on what
// it found carry a caveat (C9).
const enoughRecall = 0.8

var labelMetrics = []Metric{
	{
		Name:        "detector_precision",
		Question:    "How much of what the detector finds is an opportunity?",
		Numerator:   "of those, opportunities that the raters call eligible",
		Denominator: "detected opportunities of which the raters who did not see the verdict agree",
		Groups:      "detector version",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; labels that were not blind",
		Missing:    leftOut + ": raters who could not tell, or differ",
		Source:     "C9 Denominators that do not depend on the router; C8 8.2",
		count: func(p *pass) error {
			d, err := p.detection()
			if err != nil {
				return err
			}
			for _, c := range d.positive {
				c.group = c.opportunity.DetectorVersion
				if err := c.putBy(c.eligible, c.by); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name:        "detector_recall",
		Question:    "How many of the opportunities that there are does the detector find?",
		Numerator:   "of those, detected opportunities, each labelled one standing for as many as were detected for each labelled",
		Denominator: "eligible cases by the raters' word: detected opportunities, and turns that were scanned without one, each standing for as many as there are for each labelled",
		Kind:        Guardrail, Form: FormRatio, Unit: "share",
		Exclusions: imported + "; labels that were not blind; turns that no scan names as negative; scans whose counts contradict each other",
		Missing:    leftOut + "; not available unless turns without an opportunity are labelled too",
		Source:     "C9 Denominators that do not depend on the router; C8 8.2",
		count:      func(p *pass) error { return p.recall(func(*detected) bool { return true }) },
	},
	{
		Name:        "trigger_recall",
		Question:    "How many of the opportunities that there are led to a causal tool or to the graph?",
		Numerator:   "of those, detected opportunities that were routed",
		Denominator: "as of detector_recall",
		Kind:        Outcome, Form: FormRatio, Unit: "share",
		Exclusions: imported + "; labels that were not blind; turns that no scan names as negative; scans whose counts contradict each other",
		Missing:    leftOut + "; not available unless turns without an opportunity are labelled too",
		Source:     "C8 8.2, Trigger recall",
		count: func(p *pass) error {
			return p.recall(func(d *detected) bool { return routed(d.opportunity) })
		},
	},
	{
		Name:        "engagement",
		Question:    "Is the abduction module entered when it is called for?",
		Numerator:   "of those, opportunities that an abduction names, or that one without a question followed in the episode",
		Denominator: "opportunities and turns for which raters say that an abduction was warranted",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; those for which none was warranted",
		Missing:    leftOut + ": raters who could not tell, or differ",
		Source:     "C8 8.2, Engagement",
		count:      (*pass).engagement,
	},
	{
		Name:        "unsupported_commitments",
		Question:    "How many of the audited assertions does the evidence of their time not bear?",
		Numerator:   "of those, commitments that the raters call unsupported",
		Denominator: "claims and predictions whose commitment was audited",
		Groups:      "kind",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Missing: leftOut + ": raters who could not tell, or differ",
		Source:  "C8 7.3; 8.2, Unsupported commitments",
		count: func(p *pass) error {
			return p.commitments(func(it item, _ string, supported bool) error { return it.putIf(!supported) })
		},
	},
	{
		Name:        "unsupported_commitments_per_case",
		Question:    "How many unsupported assertions are there in an audited case?",
		Numerator:   "commitments that the raters call unsupported",
		Denominator: "episodes with an audited commitment",
		Kind:        Outcome, Form: FormRatio, Unit: "commitments a case",
		Exclusions: imported + "; commitments without an episode",
		Missing:    leftOut + ": raters who could not tell, or differ",
		Source:     "C8 7.3; 8.2, Unsupported commitments",
		count: func(p *pass) error {
			seen := map[string]bool{}
			return p.commitments(func(it item, episode string, supported bool) error {
				it.group = ""
				if episode == "" {
					return it.exclude("no episode")
				}
				if !seen[episode] {
					seen[episode] = true
					c := it
					c.id = episode
					if err := c.denominator(); err != nil {
						return err
					}
				}
				if supported {
					return nil
				}
				return it.numerator(it.ref)
			})
		},
	},
	{
		Name:        "correct_revisions",
		Question:    "What becomes of challenges that call for a revision?",
		Numerator:   "of those, challenges of which raters say that what followed was right",
		Denominator: "challenges of which raters say that they called for a revision",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; challenges that called for none: to keep a belief is no failure then",
		Missing:    leftOut + ": raters who could not tell, or differ",
		Source:     "C8 8.2, Correct revisions",
		count: func(p *pass) error {
			return p.labelled(func(c *labelled) error {
				required, requiredBy := c.say(func(l *view.Label) *bool { return l.RevisionRequired })
				if c.Kind != view.LabelChallenge || requiredBy == nil {
					return nil
				}
				it, ok, err := p.labelItem(c, "", requiredBy)
				switch {
				case !ok:
					return err
				case required == nil:
					return it.exclude(unknown + "need")
				case !*required:
					return it.exclude("none required")
				}
				right, by := c.say(func(l *view.Label) *bool { return l.RevisionCorrect })
				if right == nil {
					return it.exclude(unknown + "outcome")
				}
				return it.putBy(*right, ref{by.Seq, by.Type})
			})
		},
	},
}

// labelled is what raters say of one thing under the latest rubric.
type labelled struct{ *view.LabelledCase }

// labelled takes up everything that was labelled in the namespace, in the order of
// kinds and ids. Of several rubrics the one whose first label came last counts. A
// label that was imported is none.
func (p *pass) labelled(fn func(*labelled) error) error {
	if p.common.labels == nil {
		var all []*labelled
		if err := p.readLabels(func(c *labelled) error { all = append(all, c); return nil }); err != nil {
			return err
		}
		p.common.labels = &all
	}
	for _, c := range *p.common.labels {
		if err := fn(c); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) readLabels(fn func(*labelled) error) error {
	var last *view.LabelledCase
	done := func() error {
		if last == nil {
			return nil
		}
		return fn(&labelled{last})
	}
	err := view.ListLabelled(p.state, p.namespace, func(c *view.LabelledCase) error {
		if err := p.dropImported(c); err != nil || len(c.Labels) == 0 {
			return err
		}
		if last == nil || last.Kind != c.Kind || last.ID != c.ID {
			if err := done(); err != nil {
				return err
			}
			last = c
		} else if firstLabel(c) > firstLabel(last) {
			last = c
		}
		return nil
	})
	if err != nil {
		return err
	}
	return done()
}

// firstLabel is the first record of a case's labels, which stand in the order of raters.
func firstLabel(c *view.LabelledCase) ledger.Seq {
	return slices.MinFunc(c.Labels, func(a, b view.Label) int { return cmp.Compare(a.Seq, b.Seq) }).Seq
}

func (p *pass) dropImported(c *view.LabelledCase) error {
	kept := c.Labels[:0]
	for _, l := range c.Labels {
		imported, err := p.isImported(l.Seq)
		if err != nil {
			return err
		}
		if !imported {
			kept = append(kept, l)
		}
	}
	c.Labels = kept
	return nil
}

// say is what the raters answer, and the first label that answers: nil and that
// label when they differ, nil and nil when none answers.
func (c *labelled) say(of func(*view.Label) *bool) (answer *bool, by *view.Label) {
	differ := false
	for i := range c.Labels {
		l := &c.Labels[i]
		v := of(l)
		if v == nil || l.Orphan != "" {
			continue
		}
		if by == nil || l.Seq < by.Seq {
			by = l
		}
		differ = differ || answer != nil && *answer != *v
		answer = v
	}
	if differ {
		answer = nil
	}
	return answer, by
}

// blind keeps the labels of raters who did not see the detector's verdict.
func (c *labelled) blind() *labelled {
	out := *c.LabelledCase
	out.Labels = slices.DeleteFunc(slices.Clone(c.Labels), func(l view.Label) bool { return !l.Blind })
	return &labelled{&out}
}

// detected is a case of the detector with the raters' word.
type detected struct {
	item
	opportunity *view.Opportunity // nil: a turn without one
	eligible    bool
	by          ref // the label
}

// detection is what the detector found and scanned, and what of it was labelled.
type detection struct {
	found, negative    int64 // opportunities and turns without one, in all
	positive, overseen []*detected
}

func (p *pass) detection() (d detection, err error) {
	var cases []*labelled
	overseen := map[string]bool{}
	err = p.labelled(func(c *labelled) error {
		cases = append(cases, c)
		if c.Kind == view.LabelTurn {
			overseen[c.ID] = true
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	turns := map[string]ledger.Seq{}
	if len(overseen) > 0 { // else nothing is made of what there is in all
		if turns, err = p.population(&d, overseen); err != nil {
			return d, err
		}
	}
	for _, c := range cases {
		k := &detected{}
		switch c.Kind {
		case view.LabelOpportunity:
			o, err := view.GetOpportunity(p.state, c.Namespace, c.ID)
			if errors.Is(err, kv.ErrNotFound) {
				continue
			}
			if err != nil {
				return d, err
			}
			k.id, k.ref, k.opportunity = c.ID, ref{o.Seq, events.TypeOpportunityDetected}, o
		case view.LabelTurn:
			seq, scanned := turns[c.ID]
			if !scanned {
				continue
			}
			k.id, k.ref = c.ID, ref{seq, events.TypeDetectorScanned}
		default:
			continue
		}
		if err := p.judge(&d, k, c); err != nil {
			return d, err
		}
	}
	return d, nil
}

// population counts what was found and scanned in all, and finds the first scan that
// names each of the turns.
func (p *pass) population(d *detection, of map[string]bool) (map[string]ledger.Seq, error) {
	found, err := p.numerator(&opportunityMetrics[allOpportunities])
	if err != nil {
		return nil, err
	}
	d.found = found
	turns := map[string]ledger.Seq{}
	err = view.ListScans(p.state, p.namespace, func(s *view.Scan) error {
		_, ok, err := p.quiet().item("", "", events.TypeDetectorScanned, s.Seq)
		if !ok || s.Inconsistent {
			return err
		}
		d.negative += s.Negative
		for _, id := range s.NegativeTurnIDs {
			if _, known := turns[id]; of[id] && !known {
				turns[id] = s.Seq
			}
		}
		return nil
	})
	return turns, err
}

// judge takes a labelled case up.
func (p *pass) judge(d *detection, k *detected, c *labelled) error {
	it, ok, err := p.item(k.id, "", k.typ, k.seq)
	if !ok {
		return err
	}
	k.item = it
	eligible := func(l *view.Label) *bool { return l.Eligible }
	if _, any := c.say(eligible); any == nil {
		return nil // it was labelled for something else
	}
	says, by := c.blind().say(eligible)
	switch {
	case by == nil:
		return it.exclude("not blind")
	case says == nil:
		return it.exclude(unknown + "eligibility")
	}
	k.eligible, k.by = *says, ref{by.Seq, by.Type}
	if k.opportunity != nil {
		d.positive = append(d.positive, k)
	} else {
		d.overseen = append(d.overseen, k)
	}
	return nil
}

// quiet is a pass that has counted and noted nothing, and whose records nobody wants.
func (p *pass) quiet() *pass {
	q := *p
	q.fn, q.sums, q.why, q.bounds = nil, sums{}, "", nil
	return &q
}

// recall counts eligible cases, each for as many as its stratum has for each that
// was labelled, and of the detected ones those that hit is true of.
func (p *pass) recall(hit func(*detected) bool) error {
	d, err := p.detection()
	if err != nil {
		return err
	}
	if len(d.overseen) == 0 {
		p.why = "no turn that the detector found nothing in was labelled"
		return nil
	}
	for _, stratum := range []struct {
		cases      []*detected
		population int64
	}{{d.positive, d.found}, {d.overseen, d.negative}} {
		weight := weightOf(stratum.population, len(stratum.cases))
		for _, k := range stratum.cases {
			if !k.eligible {
				continue
			}
			if err := k.put(Denominator, k.by, weight, ""); err != nil {
				return err
			}
			if k.opportunity == nil || !hit(k) {
				continue
			}
			if err := k.amount(k.ref, weight); err != nil {
				return err
			}
		}
	}
	return nil
}

// weightOf is how many of a population one of n labelled cases stands for, in
// 1/perCase.
func weightOf(population int64, n int) int64 {
	if n == 0 {
		return 0
	}
	return int64(math.Round(float64(population) / float64(n) * perCase))
}

// caveat says of a figure that rests on what the detector found how little that is.
func (p *pass) caveat() (string, error) {
	q := p.quiet()
	if err := q.recall(func(*detected) bool { return true }); err != nil {
		return "", err
	}
	all := q.sums.all().All
	num, _ := all.Num.int64()
	den, _ := all.Den.int64()
	if r := float64(num) / float64(den); den > 0 && r < enoughRecall {
		return fmt.Sprintf("the detector finds %.2g of the opportunities that there are, under %.1g", r, enoughRecall), nil
	}
	return "", nil
}

func (p *pass) engagement() error {
	byQuestion, byEpisode := map[string]ref{}, map[string][]ref{}
	err := view.ListAbductions(p.state, p.namespace, func(a *view.Abduction) error {
		if a.Started == nil {
			return nil
		}
		if imported, err := p.isImported(a.Started.Seq); err != nil || imported {
			return err
		}
		at, named := ref{a.Started.Seq, events.TypeAbductionStarted}, false
		for _, id := range []*string{a.Started.QuestionID, a.Started.OpportunityID} {
			if id == nil {
				continue
			}
			named = true
			if have, ok := byQuestion[*id]; !ok || at.seq < have.seq {
				byQuestion[*id] = at
			}
		}
		if !named {
			byEpisode[a.Started.EpisodeID] = append(byEpisode[a.Started.EpisodeID], at)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.labelled(func(c *labelled) error {
		if c.Kind != view.LabelOpportunity && c.Kind != view.LabelTurn {
			return nil
		}
		warranted, by := c.say(func(l *view.Label) *bool { return l.AbductionWarranted })
		if by == nil {
			return nil
		}
		it, ok, err := p.labelItem(c, "", by)
		switch {
		case !ok:
			return err
		case warranted == nil:
			return it.exclude(unknown + "need")
		case !*warranted:
			return it.exclude("not warranted")
		}
		if err := it.denominator(); err != nil {
			return err
		}
		if at, ok := byQuestion[c.ID]; ok {
			return it.numerator(at)
		}
		at, err := p.abductionAfter(c, byEpisode)
		if err != nil || at == nil {
			return err
		}
		return it.numerator(*at)
	})
}

// abductionAfter is the first abduction without a question that an opportunity's
// episode has after it; nil without one, and for turns, whose episode is not known.
func (p *pass) abductionAfter(c *labelled, byEpisode map[string][]ref) (first *ref, err error) {
	if c.Kind != view.LabelOpportunity {
		return nil, nil
	}
	seq, episode, err := p.placeOf(c)
	if err != nil || episode == "" {
		return nil, err
	}
	for _, at := range byEpisode[episode] {
		if at.seq > seq && (first == nil || at.seq < first.seq) {
			first = &at
		}
	}
	return first, nil
}

// commitments takes up each audited claim and prediction by its first label, with
// its kind as group, and says of which episode it is and whether it is supported.
func (p *pass) commitments(fn func(it item, episode string, supported bool) error) error {
	return p.labelled(func(c *labelled) error {
		says, by := c.say(func(l *view.Label) *bool { return l.CommitmentSupported })
		if by == nil || c.Kind != view.LabelClaim && c.Kind != view.LabelPrediction {
			return nil
		}
		it, ok, err := p.labelItem(c, c.Kind, by)
		switch {
		case !ok:
			return err
		case says == nil:
			return it.exclude(unknown + "support")
		}
		_, episode, err := p.placeOf(c)
		if err != nil {
			return err
		}
		return fn(it, episode, *says)
	})
}

// labelItem takes up what was labelled by the first label that answers; what was
// itself imported is excluded.
func (p *pass) labelItem(c *labelled, group string, by *view.Label) (it item, ok bool, err error) {
	if it, ok, err = p.item(c.ID, group, by.Type, by.Seq); !ok {
		return it, false, err
	}
	seq, _, err := p.placeOf(c)
	if err != nil {
		return it, false, err
	}
	imported, err := p.isImported(seq)
	if err == nil && imported {
		err = it.exclude(whyImported)
	}
	return it, !imported && err == nil, err
}

// placeOf is the record of what was labelled and its episode; 0 and "" for a turn,
// which has no record of its own, and for what is not there.
func (p *pass) placeOf(c *labelled) (seq ledger.Seq, episode string, err error) {
	switch c.Kind {
	case view.LabelOpportunity:
		var o *view.Opportunity
		if o, err = view.GetOpportunity(p.state, c.Namespace, c.ID); err == nil {
			seq, episode = o.Seq, o.EpisodeID
		}
	case view.LabelClaim:
		var v *view.Claim
		if v, err = view.GetClaim(p.state, c.Namespace, c.ID); err == nil {
			seq, episode = v.Seq, v.EpisodeID
		}
	case view.LabelPrediction:
		var v *view.Prediction
		if v, err = view.GetPrediction(p.state, c.Namespace, c.ID); err == nil {
			seq, episode = v.Seq, v.EpisodeID
		}
	case view.LabelChallenge:
		var all []view.Challenge
		all, err = view.FindChallenge(p.state, c.ID)
		for _, v := range all {
			if v.Namespace == c.Namespace {
				seq = v.Seq
			}
		}
	}
	if errors.Is(err, kv.ErrNotFound) {
		err = nil
	}
	return seq, episode, err
}
