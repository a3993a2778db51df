package metric

import (
	"fmt"
	"strconv"
	"strings"
)

// Text is the score for a terminal, one metric a line with what it is made of.
func (s *Score) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-22s "+format+"\n", append([]any{name}, args...)...)
	}
	r, u, c, p := s.Routing, s.Useful, s.Coverage.Claims, s.Coverage.Predictions
	line("namespace", "%s at record %d, by scorer %d", s.Namespace, s.Inputs.Seq, s.V)
	if len(s.Inputs.Outdated) > 0 {
		line("REBUILDING", "%s: the score reads an older version of it until the new one is built", strings.Join(s.Inputs.Outdated, ", "))
	}
	line("routing rate", "%s (causal tool %d, graph %d, prose %d, none %d; self-reported %d; joined exactly %d, by episode %d)",
		r.Rate, r.CausalTool, r.Graph, r.Prose, r.None, r.SelfReported, r.Exact, r.Episode)
	line("useful conclusions", "%d (by prediction %d, by recheck %d; of %d claims, asserted now %d, refuted all the same %d, asserted too late %d)",
		u.Count, u.ByPrediction, u.ByRecheck, u.Claims, u.Asserted, u.Refuted, u.AssertedAfter)
	line("  per 100 opportunities", "%s (%d conclusions, %d opportunities)", number(u.Per100.Value), u.Per100.Numerator, u.Per100.Denominator)
	line("claims resolved", "%s (without prediction %d; younger than 7 days %d)", c.Rate, c.WithoutPrediction, c.Young)
	line("predictions resolved", "%s (void %d, unresolved %d of which reported %d, not due %d; younger than 7 days %d)", p.Rate, p.Void, p.Unresolved, p.Reported, p.NotDue, p.Young)
	line("predictions of any age", "%d: confirmed %d, refuted %d, void %d, unresolved %d, open %d",
		p.Total.Recorded, p.Total.Confirmed, p.Total.Refuted, p.Total.Void, p.Total.Unresolved, p.Total.Open)
	k := s.Calibration
	line("Brier", "%s n=%d (unscorable %d)", k.Brier, k.N, k.Unscorable)
	line("log loss", "%s n=%d (clamped %d)", k.LogLoss, k.N, k.Clamped)
	x := s.Experiments
	line("experiments executed", "%s (without call %d, denied %d, before proposal %d, unproposed %d)",
		x.Rate, x.WithoutCall, x.Denied, x.BeforeProposal, x.Unproposed)
	h := s.Shadow
	line("claims with alternatives", "%s (competing %d; joined by claim %d, question %d, episode %d; sets %d, over one %d, later %d)",
		h.WithAlternatives, h.Competing, h.ByClaim, h.ByQuestion, h.ByEpisode, h.Sets, h.OverOne, h.LaterSets)
	line("  on evidence", "undelivered %d, other content %d", h.Undelivered, h.OtherContent)
	line("  standing", "apparent success %d (also contradicted %d), contradicted %d, unresolved %d, open %d",
		h.Standing.Success, h.Standing.Both, h.Standing.Contradicted, h.Standing.Unresolved, h.Standing.Open)
	line("queries executed", "%s (without call %d, denied %d, before selection %d, unselected %d; chosen off the menu %d)",
		h.Queries.Rate, h.Queries.WithoutCall, h.Queries.Denied, h.Queries.BeforeSelection, h.Queries.Unselected, h.Queries.Unlisted)
	t := s.Cost
	line("tokens", "input %s, cached %s, output %s", t.InputTokens, t.CachedTokens, t.OutputTokens)
	if s.Imported > 0 {
		line("imported", "%d, which are no live behaviour and in no figure", s.Imported)
	}
	line("cost", "USD %s (known for %d of %d; self-reported %d)", number(t.USD.Sum), t.USD.Known, t.USD.Total, t.SelfReported)
	return b.String()
}

// String is the value with its parts, such as "0.25 (1/4)".
func (r Ratio) String() string {
	return fmt.Sprintf("%s (%d/%d)", number(r.Value), r.Numerator, r.Denominator)
}

// String is the value and, if there is something to fill in, its bounds.
func (l Loss) String() string {
	if l.Best == nil {
		return number(l.Value)
	}
	return fmt.Sprintf("%s, with the unresolved filled in %s to %s,", number(l.Value), number(l.Best), number(l.Worst))
}

func number(v *float64) string {
	if v == nil {
		return "undefined"
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}
