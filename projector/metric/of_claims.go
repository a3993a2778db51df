package metric

import (
	"slices"

	"assay/events"
	"assay/projector/view"
)

var claimMetrics = []Metric{
	{
		Name:      "useful_conclusions",
		Question:  "How many verified useful causal conclusions were there?",
		Numerator: "claims, each once, at their first scorable confirmation or confirmed fix recheck, that were asserted when that was decided and that nothing refuted",
		Groups:    "what confirmed it",
		Kind:      Outcome, Form: FormCount, Unit: "conclusions",
		Exclusions: imported + "; confirmed claims that were not asserted then, or that anything refuted",
		Source:     "C9 What counts as useful",
		over:       []view.Listing{view.AllClaims},
		count:      func(p *pass) error { return p.useful(Numerator, true) },
	},
	{
		Name:        "useful_per_100_opportunities",
		Question:    "How many useful conclusions were there for every 100 opportunities?",
		Numerator:   "useful_conclusions",
		Denominator: "opportunities that the detector found",
		Kind:        Outcome, Form: FormRatio, Times: 100, Unit: "conclusions for 100 opportunities",
		Exclusions: imported + "; confirmed claims that were not asserted then, or that anything refuted",
		Detected:   true,
		Source:     "C9 What counts as useful",
		over:       []view.Listing{view.AllClaims, view.AllOpportunities},
		count: func(p *pass) error {
			if err := p.useful(Numerator, false); err != nil {
				return err
			}
			return p.opportunities(func(it item, _ *view.Opportunity) error {
				it.group = ""
				return it.denominator()
			})
		},
	},
	{
		Name:        "claim_resolution_coverage",
		Question:    "How many claims were settled by telemetry? Low coverage caps every other number.",
		Numerator:   "of those, claims of which any prediction is confirmed or refuted",
		Denominator: "claims older than seven days by ledger time",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: youngerThan7,
		Missing:    "void and unresolved predictions resolve nothing, and their claims stay in the denominator",
		Source:     "C9 Weekly report, Resolution coverage; C8 13",
		over:       []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.claims(func(it item, c *view.Claim) error {
				if !p.isOld(c.RecordedAt) {
					return it.exclude("not older than seven days")
				}
				f, err := p.follow(c)
				if err == nil {
					err = it.denominator()
				}
				if err != nil || f.settled == nil {
					return err
				}
				return it.numerator(f.settled.ref)
			})
		},
	},
	{
		Name:      "unresolved_claim_age",
		Question:  "How long have the claims that nothing settled been waiting?",
		Numerator: "age by ledger time of claims of which no prediction is confirmed or refuted",
		Kind:      Diagnostic, Form: FormMedian, Unit: "days", Per: 86400,
		Exclusions: imported + "; settled claims",
		Source:     "C8 13",
		over:       []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.claims(func(it item, c *view.Claim) error {
				f, err := p.follow(c)
				if err != nil {
					return err
				}
				if f.settled != nil {
					return it.exclude("settled")
				}
				return it.waits(c.RecordedAt)
			})
		},
	},
	{
		Name:        "claims_with_evidence",
		Question:    "How many causal claims name what they rest on?",
		Numerator:   "of those, claims with an evidence id",
		Denominator: "claims of a causal edge",
		Groups:      "rung",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; claims of a value",
		Source:     "C9 Weekly report, Claim support",
		over:       []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.edges(func(it item, c *view.Claim) error { return it.putIf(len(c.EvidenceIDs) > 0) })
		},
	},
	{
		Name:        "claims_with_rung",
		Question:    "How many claims say on which rung they stand?",
		Numerator:   "of those, claims of a causal edge, which names its rung",
		Denominator: "claims",
		Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C9 Weekly report, Claim support",
		over:   []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.claims(func(it item, c *view.Claim) error { return it.putIf(c.Edge != nil && c.Edge.Rung != "") })
		},
	},
	{
		Name:        "claims_with_competitors",
		Question:    "How many causal claims were made with other causes on record?",
		Numerator:   "of those, claims that name a competitor, or before which a set of two alternatives or more was recorded",
		Denominator: "claims of a causal edge",
		Groups:      "rung",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; claims of a value",
		Source:     "C9 Weekly report, Claim support",
		over:       []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.edges(func(it item, c *view.Claim) error {
				if len(c.CompetingIDs) > 0 {
					return it.putIf(true)
				}
				h, _, err := view.HypothesesBefore(p.state.Settled(), c)
				if err == nil {
					err = it.denominator()
				}
				if err != nil || h == nil || len(h.Alternatives) < 2 {
					return err
				}
				return it.numerator(ref{h.Seq, events.TypeHypothesesRecorded})
			})
		},
	},
	{
		Name:        "undelivered_citations",
		Question:    "How much cited evidence had nobody put before the agent?",
		Numerator:   "of those, pieces that nothing had delivered before the claim",
		Denominator: "pieces of evidence that claims cite, each once a claim",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C8 7.3, Invalid citation",
		over:   []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.claims(func(it item, c *view.Claim) error {
				uses, err := view.EvidenceOf(p.state.Settled(), c)
				for _, u := range uses {
					if err == nil {
						err = it.putIf(u.DeliveredSeq == 0)
					}
				}
				return err
			})
		},
	},
	{
		Name:        "revision_accuracy",
		Question:    "Does the agent let go of what was contradicted?",
		Numerator:   "of those, claims that were retracted after it, or weakened from asserted to hypothesis",
		Denominator: "claims that were not retracted when a prediction on them was first refuted, or the latest recheck did not hold",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; claims that were retracted before",
		Missing:    "whether other challenges require a revision is for labels to say; they are not counted",
		Source:     "C9 Sub-capabilities, Model revision; C8 8.2",
		over:       []view.Listing{view.AllClaims},
		count:      (*pass).revisions,
	},
	{
		Name:        "stale_beliefs",
		Question:    "How much of what the agent asserts was contradicted?",
		Numerator:   "of those, claims of which a prediction is refuted, or that did not hold when last rechecked",
		Denominator: "claims that are asserted now",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C9 Revision items; Weekly report, Revision and provenance",
		over:   []view.Listing{view.AllClaims},
		count: func(p *pass) error {
			return p.claims(func(it item, c *view.Claim) error {
				if c.Status != view.StatusAsserted {
					return nil
				}
				f, err := p.follow(c)
				if err == nil {
					err = it.denominator()
				}
				if err != nil || f.refuted == nil {
					return err
				}
				return it.numerator(f.refuted.ref)
			})
		},
	},
	{
		Name:        "source_duplication",
		Question:    "How often is one report taken for several?",
		Numerator:   "of those, claims of which two pieces have the same content",
		Denominator: "claims that cite two pieces of evidence or more whose content is known as it was delivered before",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; claims that cite less",
		Missing:    leftOut,
		Source:     "C9 Weekly report, Revision and provenance; Failure taxonomy, Source duplication",
		over:       []view.Listing{view.AllClaims},
		count:      (*pass).duplication,
	},
	{
		Name:        "collateral_retractions",
		Question:    "Does the agent let go of what was confirmed and not contradicted?",
		Numerator:   "of those, claims that had been confirmed and never contradicted",
		Denominator: "claims that were retracted, each at its first retraction",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Source: "C9 Sub-capabilities, Model revision; Weekly report",
		over:   []view.Listing{view.AllClaims},
		count:  (*pass).collateral,
	},
}

// claims takes up each claim.
func (p *pass) claims(fn func(item, *view.Claim) error) error {
	return view.ListClaims(p.state, p.namespace, func(c *view.Claim) error {
		it, ok, err := p.item(c.ClaimID, "", events.TypeClaimRecorded, c.Seq)
		if !ok {
			return err
		}
		return fn(it, c)
	})
}

// edges takes up each claim of a causal edge, with its rung as group.
func (p *pass) edges(fn func(item, *view.Claim) error) error {
	return p.claims(func(it item, c *view.Claim) error {
		if c.Edge == nil {
			return it.exclude("not of an edge")
		}
		it.group = c.Edge.Rung
		return fn(it, c)
	})
}

// follow finds what was said of a claim.
func (p *pass) follow(c *view.Claim) (past, error) {
	promises, err := view.PromisesOf(p.state, c)
	if err != nil {
		return past{}, err
	}
	rechecks, err := view.RechecksOf(p.state, c)
	if err != nil {
		return past{}, err
	}
	return p.reading.follow(c, promises, rechecks)
}

// claimBy takes a claim up by a later record of it.
func (p *pass) claimBy(c *view.Claim, group string, by ref) (it item, ok bool, err error) {
	if it, ok, err = p.item(c.ClaimID, group, by.typ, by.seq); !ok {
		return it, false, err
	}
	imported, err := p.isImported(c.Seq)
	if err == nil && imported {
		err = it.exclude(whyImported)
	}
	return it, !imported && err == nil, err
}

// useful counts the useful conclusions in a role: the record that confirmed one
// says of which week it is.
func (p *pass) useful(role Role, grouped bool) error {
	return view.ListClaims(p.state, p.namespace, func(c *view.Claim) error {
		f, err := p.follow(c)
		if err != nil || f.confirmed == nil {
			return err
		}
		group := ""
		if grouped {
			group = f.confirmed.by
		}
		it, ok, err := p.claimBy(c, group, f.confirmed.ref)
		if !ok {
			return err
		}
		why, err := p.notUseful(c, f)
		switch {
		case err != nil:
			return err
		case why != "":
			return it.exclude(why)
		}
		return it.put(role, it.ref, 1, "")
	})
}

func (p *pass) duplication() error {
	return p.claims(func(it item, c *view.Claim) error {
		ids := slices.Compact(slices.Sorted(slices.Values(c.EvidenceIDs)))
		if len(ids) < 2 {
			return nil
		}
		known, repeated, seen := 0, false, map[string]bool{}
		for _, id := range ids {
			hashes, err := view.ContentsOf(p.state, c.Namespace, id, c.Seq)
			if err != nil {
				return err
			}
			if len(hashes) > 0 {
				known++
			}
			for _, h := range hashes {
				repeated = repeated || seen[h]
				seen[h] = true
			}
		}
		if known < 2 {
			return it.exclude(unknown + "content")
		}
		return it.putIf(repeated)
	})
}

func (p *pass) revisions() error {
	return view.ListClaims(p.state, p.namespace, func(c *view.Claim) error {
		f, err := p.follow(c)
		if err != nil || f.refuted == nil {
			return err
		}
		it, ok, err := p.claimBy(c, "", f.refuted.ref)
		if !ok {
			return err
		}
		revisions, err := view.RevisionsOf(p.state, c)
		if err != nil {
			return err
		}
		was := c.StatusBefore(f.refuted.seq, revisions)
		if was != view.StatusAsserted && was != view.StatusHypothesis {
			return it.exclude("not held then")
		}
		if err := it.denominator(); err != nil {
			return err
		}
		at := slices.IndexFunc(revisions, func(r view.Revision) bool {
			return r.Seq > f.refuted.seq && (r.NewStatus == view.StatusRetracted || was == view.StatusAsserted && r.NewStatus == view.StatusHypothesis)
		})
		if at < 0 {
			return nil
		}
		return it.numerator(ref{revisions[at].Seq, events.TypeClaimRevised})
	})
}

func (p *pass) collateral() error {
	return view.ListClaims(p.state, p.namespace, func(c *view.Claim) error {
		revisions, err := view.RevisionsOf(p.state, c)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(revisions, func(r view.Revision) bool { return r.NewStatus == view.StatusRetracted })
		if at < 0 {
			return nil
		}
		it, ok, err := p.claimBy(c, "", ref{revisions[at].Seq, events.TypeClaimRevised})
		if !ok {
			return err
		}
		f, err := p.follow(c)
		if err == nil {
			err = it.denominator()
		}
		if err != nil || f.refuted != nil || f.confirmed == nil || f.confirmed.seq > it.seq {
			return err
		}
		return it.numerator(f.confirmed.ref)
	})
}
