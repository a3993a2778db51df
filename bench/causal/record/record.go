// Package record holds the records of C9's benchmark: what the agent is shown, what
// the evaluator keeps, what came back, which tools were used, and what was run.
//
// schema/<name>.json (JSON Schema 2020-12) is the source of truth for each; Decode
// reads one strictly. A record names its version in v. Absent means that a member
// does not apply, or is not known; it is never written as 0 or null.
package record

import (
	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// Version of all five records.
const Version = 1

// Values are variables with what they are.
type Values = map[string]int

// PublicCase is a case as the agent gets it.
type PublicCase struct {
	V            int    `json:"v"`
	CaseID       string `json:"case_id"`
	WorldID      string `json:"world_id"`
	EpisodeID    string `json:"episode_id"` // cases of one episode share what the agent remembers
	BenchVersion string `json:"bench_version"`
	Family       string `json:"family"`
	Rung         string `json:"rung"`
	Skin         string `json:"skin"`
	Stage        int    `json:"stage"` // of the episode, from 1
	Question     string `json:"question"`
	Query        Query  `json:"query"` // the question, for programs
	// Evidence is all that has been delivered by this stage, in the order of delivery.
	Evidence     []Evidence   `json:"evidence"`
	Assumptions  []string     `json:"assumptions"`
	AllowedTools []string     `json:"allowed_tools"`
	Experiments  []Experiment `json:"permitted_interventions,omitempty"`
	Actions      []Action     `json:"actions,omitempty"`
	Hypotheses   []string     `json:"hypotheses,omitempty"`
	AnswerFormat []string     `json:"answer_format"` // the members of the answer that are asked for
}

// The kinds of a Query.
const (
	Probability = "probability" // P(target | given), on the rung
	Effect      = "effect"      // of a treatment on an outcome, as docs/calc.md has them
	Causes      = "causes"      // whether the treatment has an effect on the outcome in any world of the model: yes or no
	Bounds      = "bounds"      // of a probability of causation
	Links       = "links"       // the effects of the mechanism: direct, with sign and condition, or through others
	Structure   = "structure"   // the class of graphs that the evidence identifies
	Diagnosis   = "diagnosis"   // which hypothesis is true
	Choice      = "choice"      // which permitted intervention tells most
	Repair      = "repair"      // which action loses least
)

// Query is a question.
type Query struct {
	Kind      string `json:"kind"`
	Target    Values `json:"target,omitempty"`
	Given     Values `json:"given,omitempty"`
	Do        Values `json:"do,omitempty"`
	Factual   Values `json:"factual,omitempty"`
	Effect    string `json:"effect,omitzero"`
	Quantity  string `json:"quantity,omitzero"`
	Treatment string `json:"treatment,omitzero"`
	Outcome   string `json:"outcome,omitzero"`
}

// SCM is a query of kind Probability, for the engine.
func (q Query) SCM() scm.Query {
	return scm.Query{Target: q.Target, Given: q.Given, Do: q.Do, Factual: q.Factual}
}

// Evidence is a blob.
type Evidence struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Ref  string `json:"ref"` // sha256: and the hex hash of the bytes
}

// The kinds of Evidence.
const (
	KindMechanism = "mechanism" // Mechanism
	KindJoint     = "joint"     // Joint
	KindSamples   = "samples"   // Samples
	KindTelemetry = "telemetry" // Telemetry
)

// Experiment is something that may be done to learn more: Do is set, then Observe is
// looked at.
type Experiment struct {
	ID      string  `json:"id"`
	Cost    float64 `json:"cost"`
	Do      Values  `json:"do,omitempty"`
	Observe string  `json:"observe"`
}

// Action is a repair. Loss is what it loses, its cost included, if a hypothesis is true.
type Action struct {
	ID   string             `json:"id"`
	Loss map[string]float64 `json:"loss"`
}

// Mechanism is a whole model, as the op scm of docs/calc.md takes it.
type Mechanism struct {
	Nodes  []scm.Node `json:"nodes"`
	Latent []string   `json:"latent"`
}

// Joint is an observed distribution, the last variable fastest, perhaps with the graph
// it is known to come from.
type Joint struct {
	Variables  []string    `json:"variables"`
	P          []float64   `json:"p"`
	Graph      bool        `json:"graph"` // whether the two lists are the graph
	Directed   [][2]string `json:"directed"`
	Bidirected [][2]string `json:"bidirected"`
	// Targets lists the sets of variables that were held by experiments, whose outcomes
	// agree with the graphs asked for.
	Targets [][]string `json:"targets,omitempty"`
}

// Samples counts how often each combination of values was seen.
type Samples struct {
	Variables []string `json:"variables"`
	Counts    []int    `json:"counts"` // the last variable fastest
}

// Telemetry is what was seen of one episode, in the order in which it arrived.
type Telemetry struct {
	Seen []Reading `json:"seen"`
}

// Reading is one variable's value, and who reports it.
type Reading struct {
	At       int    `json:"at"` // arrival, in seconds
	Variable string `json:"variable"`
	Value    int    `json:"value"`
	Source   string `json:"source,omitzero"`
}

// The statuses of answers, and of what is true.
const (
	Answer          = "answer"
	NotIdentifiable = "not_identifiable"
	Abstain         = "abstain"
	NeedInfo        = "need_info"
)

// PrivateOracle is what is true of a case.
type PrivateOracle struct {
	V       int        `json:"v"`
	CaseID  string     `json:"case_id"`
	WorldID string     `json:"world_id"`
	SCMHash string     `json:"scm_hash"` // of Model's bytes
	Seed    string     `json:"seed"`     // the world's
	Motif   string     `json:"motif"`
	Topic   string     `json:"topic"` // the family of C9's table, which the public one may hide
	Model   Mechanism  `json:"model"`
	Status  string     `json:"status"`
	Value   *float64   `json:"value,omitzero"`
	Low     *float64   `json:"low,omitzero"`
	High    *float64   `json:"high,omitzero"`
	Label   string     `json:"label,omitzero"`
	Tol     float64    `json:"tol"`
	Formula string     `json:"estimand"`
	Rungs   *scm.Rungs `json:"rungs,omitzero"`
	// Wrong are values that known mistakes give, by mistake; each is farther than tol from
	// Value.
	Wrong   map[string]float64 `json:"wrong,omitempty"`
	Edges   *Edges             `json:"edges,omitzero"`
	Links   []Link             `json:"links,omitempty"`
	Witness *Witness           `json:"witness,omitzero"`
	Hash    string             `json:"witness_hash,omitzero"`
	Factual *world.Episode     `json:"factual_episode,omitzero"`
	Live    *Live              `json:"live,omitzero"`
	// Stale is the answer of the stage before, where this stage changes it.
	Stale *float64 `json:"stale,omitzero"`
	// Deliveries are what the allowed tools answer, in the order of Evidence's kinds: the
	// harness serves them, the public case has none.
	Deliveries []Delivery `json:"deliveries,omitempty"`
	Pair       *Pair      `json:"pair,omitzero"`
	Variant    string     `json:"variant"`          // base, skin, renamed, paraphrased or tools
	Of         string     `json:"of,omitzero"`      // the case that this is a variant of
	CFLink     string     `json:"cf_link,omitzero"` // the interventional case beside a counterfactual one
}

// Pair joins a case that a mistake gets wrong with its twin, where the same mistake
// does no harm.
type Pair struct {
	ID    string `json:"id"`
	Label string `json:"label"` // of C9's taxonomy
	Twin  bool   `json:"twin"`
}

// Edges are a class of graphs.
type Edges struct {
	Directed   [][2]string `json:"directed"`
	Undirected [][2]string `json:"undirected"`
}

// Link is an effect of one variable on another.
type Link struct {
	Cause  string `json:"cause"`
	Effect string `json:"effect"`
	Direct bool   `json:"direct"`
	Sign   string `json:"sign"` // positive, negative or mixed
	// Condition has the values of other direct causes without which there is no effect.
	Condition Values `json:"condition,omitempty"`
	// Mediators are the observed variables on directed paths between the two.
	Mediators []string `json:"mediators,omitempty"`
}

// Witness is two models with the same observed distribution and other answers.
type Witness struct {
	Models [2]Mechanism `json:"models"`
	Values [2]float64   `json:"values"`
	Gap    float64      `json:"gap"`
}

// Live is what the evidence delivered so far says about the hypotheses.
type Live struct {
	Cause             string             `json:"cause"`     // the variable whose value is the hypothesis
	Delivered         Values             `json:"delivered"` // seen in the episode
	True              string             `json:"true"`
	Posterior         map[string]float64 `json:"posterior"`
	IdentifiedSet     []string           `json:"identified_set"`
	Descendants       []string           `json:"descendants"` // symptoms, none of them a root cause
	EIGBits           map[string]float64 `json:"eig_bits,omitempty"`
	InformationRegret map[string]float64 `json:"information_regret,omitempty"`
	ExpectedLoss      map[string]float64 `json:"expected_loss,omitempty"`
	Regret            map[string]float64 `json:"regret,omitempty"`
	// NetValue is by how much each experiment lowers the expected loss of the best action,
	// less its cost: what pays is positive.
	NetValue map[string]float64 `json:"net_value,omitempty"`
}

// Delivery is what a tool answers.
type Delivery struct {
	Tool string `json:"tool"`
	Kind string `json:"kind"`
	Ref  string `json:"ref"`
	// Content is the blob itself, which is not among the public ones.
	Content jsontext.Value `json:"content"`
}

// Sealed is a line of oracles.jsonl. The manifest has SHA-256(salt ‖ SHA-256(oracle)),
// both as bytes; an oracle is committed to as the ledger's case.committed wants it.
type Sealed struct {
	V      int            `json:"v"`
	Salt   string         `json:"salt"`
	Oracle jsontext.Value `json:"oracle"`
}

// AgentResponse is what an agent answered.
type AgentResponse struct {
	V          int          `json:"v"`
	CaseID     string       `json:"case_id"`
	Arm        string       `json:"arm"`
	Stage      int          `json:"stage"`
	Status     string       `json:"status"`
	Value      *float64     `json:"value,omitzero"`
	Low        *float64     `json:"low,omitzero"`
	High       *float64     `json:"high,omitzero"`
	Label      *string      `json:"label,omitzero"`
	Set        []string     `json:"set,omitzero"`
	Hypotheses []Hypothesis `json:"hypotheses,omitzero"`
	Confidence *float64     `json:"confidence,omitzero"`
	Experiment *string      `json:"experiment,omitzero"`
	Action     *string      `json:"action,omitzero"`
	Edges      []Edge       `json:"edges,omitzero"`
	Retracted  []string     `json:"retracted,omitzero"` // evidence or hypotheses given up
	ClaimText  *string      `json:"claim_text,omitzero"`
	T          string       `json:"t"`
}

// Hypothesis is one with the agent's probability.
type Hypothesis struct {
	ID string   `json:"id"`
	P  *float64 `json:"p,omitzero"`
}

// Edge is a claimed mechanism.
type Edge struct {
	Cause     string   `json:"cause"`
	Effect    string   `json:"effect"`
	Directed  bool     `json:"directed"`
	Sign      *string  `json:"sign,omitzero"`      // positive, negative or mixed
	Condition *string  `json:"condition,omitzero"` // under which it holds
	Mediators []string `json:"mediators,omitzero"`
}

// ToolEvent is one call of a tool.
type ToolEvent struct {
	V          int            `json:"v"`
	CaseID     string         `json:"case_id"`
	Arm        string         `json:"arm"`
	Seq        int            `json:"seq"` // in the case, from 1
	Tool       string         `json:"tool"`
	Args       jsontext.Value `json:"args"`
	ResultHash *string        `json:"result_hash,omitzero"`
	Failed     bool           `json:"failed"`
	TokensIn   *int           `json:"tokens_in,omitzero"`
	TokensOut  *int           `json:"tokens_out,omitzero"`
	LatencyMS  *float64       `json:"latency_ms,omitzero"`
	CostUSD    *float64       `json:"cost_usd,omitzero"`
}

// RunManifest is a run before its first case.
type RunManifest struct {
	V               int         `json:"v"`
	RunID           string      `json:"run_id"`
	BenchVersion    string      `json:"bench_version"`
	GeneratorCommit string      `json:"generator_commit"`
	ScorerHash      string      `json:"scorer_hash"`
	HarnessHash     string      `json:"harness_hash"`
	SetHash         string      `json:"set_hash"` // of the set's manifest.json
	Model           string      `json:"model"`
	Arm             string      `json:"arm"`
	Split           string      `json:"split"`
	WorldIDs        []string    `json:"world_ids"`
	Budget          Budget      `json:"budget"`
	Exclusions      []Exclusion `json:"exclusions"`
}

// Budget is what a case may use.
type Budget struct {
	Tokens    int `json:"tokens"`
	ToolCalls int `json:"tool_calls"`
}

// Exclusion is a case that was left out, and why.
type Exclusion struct {
	CaseID string `json:"case_id"`
	Reason string `json:"reason"`
}

// Marginal is the distribution of some of the variables, given by their places in
// rising order, the last fastest.
func (j Joint) Marginal(variables []int) []float64 {
	out := make([]float64, 1<<len(variables))
	n := len(j.Variables)
	for cell, p := range j.P {
		at := 0
		for _, v := range variables {
			at = at<<1 | cell>>(n-1-v)&1
		}
		out[at] += p
	}
	return out
}
