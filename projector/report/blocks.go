package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"assay/projector/metric"
)

// layout is what stands on the page, in this order: C9's nine blocks and C8's eight
// lines, each once.
var layout = []struct {
	title   string
	of      []string
	metrics []string
}{
	{"Bench", []string{"C9 Bench", "C8 Bench status"}, []string{
		armScores, "arm_delta_cost", "arm_delta_tokens", "arm_delta_latency", "arm_discordance", "answer_coverage", "protocol_failures",
		"strawman_rate", "time_to_first_useful_action",
	}},
	{"Opportunities", []string{"C9 Coverage", "C8 Inference opportunities"}, []string{
		"opportunities", "incidents", "routing_rate", "useful_per_100_opportunities", "detector_precision", "detector_recall", "trigger_recall",
	}},
	{"Query reliability", []string{"C9 Query reliability"}, []string{"control_passes", "control_false_accepts", "causal_query_p95"}},
	{"Evidence policy", []string{"C8 Evidence policy"}, []string{
		"executed_queries", "infer_when_look_was_better", "unnecessary_queries", "decision_regret",
	}},
	{"Claims and assertions", []string{"C9 Claim support", "C8 Assertion quality"}, []string{
		"claims_with_evidence", "claims_with_rung", "claims_with_competitors", "undelivered_citations", "useful_conclusions",
		"unsupported_commitments", "unsupported_commitments_per_case",
	}},
	{"Experiments", []string{"C9 Experiments"}, []string{
		"experiments_proposed", "experiments_executed", "experiments_discriminating", "experiments_matched",
	}},
	{"Diagnosis and repair", []string{"C9 Diagnosis and repair"}, []string{
		"justified_correct", "lucky_diagnoses", "wrong_diagnoses", "unresolved_diagnoses", "sandbox_success", "canary_success", "competitors_before_first_fix",
	}},
	{"Calibration", []string{"C8 Calibration"}, []string{
		"brier", "log_loss", "calibration_error", "overconfidence", "confirmed_share", "scorable_share",
	}},
	{"Contradictions", []string{"C8 Contradictions"}, []string{
		"contradictions", "valid_contradictions", "verified_dispositions", "false_resolutions", "open_contradiction_age",
	}},
	{"Revision and provenance", []string{"C9 Revision and provenance", "C8 Revision", "C8 Provenance and cost"}, []string{
		"revision_accuracy", "correct_revisions", "stale_beliefs", "stale_retrievals", "collateral_retractions", "unversioned_content_changes",
		"source_duplication", "derived_lineage_lost", "derived_origin_kept",
	}},
	{"Cost", []string{"C9 Cost", "C8 Provenance and cost"}, []string{
		"input_tokens", "cached_tokens", "output_tokens", "cost", "charged", "cost_per_incident", "cost_per_useful_conclusion",
		"tool_calls", "tool_latency", "model_latency", "attempts", "background_share", "ledger_writes", "cpu_time", "gpu_time",
	}},
	{"Resolution coverage", []string{"C9 Resolution coverage", "C8 Calibration"}, []string{
		coverageMetric, "prediction_resolution_coverage", "unresolved_claim_age", "unresolved_prediction_age",
	}},
}

// grouped are the metrics whose groups are parts of one number and shown beside it: false
// accepts of C4 and C5, categories, states of a contradiction, writers.
var grouped = []string{"control_passes", "control_false_accepts", "brier", "contradictions", "derived_lineage_lost"}

// armScores is the metric of the paired differences.
const armScores = "arm_delta_scores"

// shownMetrics are those that a page takes.
func shownMetrics() (names []string) {
	for _, l := range layout {
		names = append(names, l.metrics...)
	}
	return append(names, "stated_probability", "observed_share")
}

func (b *builder) blocks() error {
	for _, l := range layout {
		block := Block{Title: l.title, Of: l.of}
		for _, name := range l.metrics {
			block.Figures = append(block.Figures, b.figures(name)...)
		}
		if block.empty() {
			block.Notes = append(block.Notes, "No data: nothing of this was recorded in "+b.out.Week.ID+".")
		}
		for _, name := range l.metrics {
			e := b.week[name]
			if e.Value == nil {
				e = b.all[name]
			}
			if e.Why != "" && (e.Value != nil || b.catalogue[name].Apart) {
				block.Notes = append(block.Notes, name+": "+e.Why+".")
			}
		}
		b.out.Blocks = append(b.out.Blocks, block)
	}
	bench := &b.out.Blocks[0]
	for _, m := range scorersAlone {
		if !slices.ContainsFunc(b.all[m.metric].Groups, func(g metric.Group) bool { return g.Value != nil }) {
			bench.Notes = append(bench.Notes, fmt.Sprintf("No data: %s, since no scorer gave a value %s. %s", words(m.metric), m.metric, m.why))
		}
	}
	return nil
}

// scorersAlone is what the ledger has by a scorer's word alone, and why.
var scorersAlone = []struct{ metric, why string }{
	{"strawman_rate", "Which hypotheses the evidence left is in the oracle's file, of which the ledger has the hash alone."},
	{"time_to_first_useful_action", "Which action was useful no record says but a score."},
}

// empty says that the week has nothing for any figure.
func (b *Block) empty() bool {
	return !slices.ContainsFunc(b.Figures, func(f Figure) bool {
		return f.Week.Value != nil && (f.Form != metric.FormCount || f.Week.Numerator != 0)
	})
}

// capped says what resolution coverage lets the report say.
func (b *builder) capped() error {
	c := &b.out.Cap
	c.Metric, c.Coverage = coverageMetric, cellOf(b.all[coverageMetric], "")
	switch v := c.Coverage.Value; {
	case v == nil:
		c.Says = "Resolution coverage is not available (" + c.Coverage.NotAvailable + "): nothing here rests on outcomes that are known to be settled, and no question is answered."
	case *v < enoughResolved:
		c.Says = fmt.Sprintf("Resolution coverage is %s, under %.0f %%: whatever rests on outcomes speaks of a settled minority alone, and no question is answered.", resolved(c.Coverage), 100*enoughResolved)
	case *v < 1:
		c.Enough = true
		c.Says = fmt.Sprintf("Resolution coverage is %s: whatever rests on outcomes speaks of the settled claims alone, and the others may be different ones.", resolved(c.Coverage))
	default:
		c.Enough = true
		c.Says = "Every claim older than seven days is settled (" + resolved(c.Coverage) + ")."
	}
	return nil
}

// enoughResolved is the share of old claims under which no question is answered.
const enoughResolved = 0.5

// Cap is what low resolution coverage leaves the report to say (C9: it caps every
// other number).
type Cap struct {
	Metric   string `json:"metric"`   // of Coverage
	Coverage Cell   `json:"coverage"` // over the whole ledger: claims of a week that just closed are too young
	Enough   bool   `json:"enough"`   // for a question to be answered
	Says     string `json:"says"`
}

func resolved(c Cell) string {
	return fmt.Sprintf("%.3g %% (%d/%d)", 100**c.Value, c.Numerator, *c.Denominator)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
