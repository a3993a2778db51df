package item

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/bench/causal/record"
)

// terms lists values, by name: "a=1,b=0".
func terms(v record.Values) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		out = append(out, fmt.Sprintf("%s=%d", name, v[name]))
	}
	return strings.Join(out, ",")
}

func words(v record.Values) string {
	return strings.ReplaceAll(strings.ReplaceAll(terms(v), ",", " and "), "=", " = ")
}

func formula(rung string, q record.Query) string {
	of := terms(q.Target)
	var behind []string
	if rung == counterfactual {
		of += " with " + terms(q.Do) + " set"
		behind = append(behind, terms(q.Factual))
	} else if len(q.Do) > 0 {
		behind = append(behind, "do("+terms(q.Do)+")")
	}
	if len(q.Given) > 0 {
		behind = append(behind, terms(q.Given))
	}
	if len(behind) == 0 {
		return "P(" + of + ")"
	}
	return "P(" + of + "|" + strings.Join(behind, ",") + ")"
}

// wording picks a sentence: of the plain or of the other words, and of those the one
// that names the condition first or the target first.
func (f *Frame) wording(key string, plain, others [2]string) string {
	if f.others {
		plain = others
	}
	return f.skin.Setting + " " + plain[f.dress.Derive("wording "+key).Rand().Below(2)]
}

func (f *Frame) ask(key, rung string, q record.Query) string {
	target, given, do, factual := words(q.Target), words(q.Given), words(q.Do), words(q.Factual)
	switch {
	case rung == observation && given == "":
		return f.wording(key, [2]string{
			"What is the probability that " + target + "?", "How probable is " + target + "?"}, [2]string{
			"Say how likely " + target + " is.", "Which share of cases has " + target + "?"})
	case rung == observation:
		return f.wording(key, [2]string{
			"Among the cases with " + given + ", what is the probability that " + target + "?",
			"What is the probability that " + target + " among the cases with " + given + "?"}, [2]string{
			"You see that " + given + ". How likely is " + target + "?",
			"How likely is " + target + " once you see that " + given + "?"})
	case rung == intervention:
		if given != "" {
			given = ", among the cases that then have " + given
		}
		return f.wording(key, [2]string{
			"If " + do + " is forced from outside" + given + ", what is the probability that " + target + "?",
			"What is the probability that " + target + " if " + do + " is forced from outside" + given + "?"}, [2]string{
			"Somebody reaches in and makes sure that " + do + given + ". How likely is " + target + "?",
			"How likely is " + target + " when somebody reaches in and makes sure that " + do + given + "?"})
	}
	return f.wording(key, [2]string{
		"In one episode " + factual + " was observed. Had " + do + " been forced in that same episode, what is the probability that " + target + " would have held?",
		"What is the probability that " + target + " would have held in an episode in which " + factual + " was observed, had " + do + " been forced in that same episode?"}, [2]string{
		"It happened that " + factual + ". Take this very case, with all its luck, but with " + do + " made so: how likely is " + target + "?",
		"How likely would " + target + " be in a case that went " + factual + ", with all its luck kept, but with " + do + " made so?"})
}

func (f *Frame) askCauses(key string, q record.Query) string {
	held := ""
	if len(q.Do) > 0 {
		held = " while " + words(q.Do) + " is held"
	}
	return f.wording(key, [2]string{
		"Does forcing " + q.Treatment + " change the probability of " + q.Outcome + held + "? Answer yes or no.",
		"Is the probability of " + q.Outcome + " changed by forcing " + q.Treatment + held + "? Answer yes or no."}, [2]string{
		"Would reaching in at " + q.Treatment + " make any difference to " + q.Outcome + held + ": yes or no?",
		"Would " + q.Outcome + " be any different for reaching in at " + q.Treatment + held + ": yes or no?"})
}

var effects = map[string]string{
	"ate": "average total effect",
	"ett": "average total effect, among the cases in which the treatment is 1 of itself,",
	"nde": "natural direct effect (through no other variable, these being as they are under treatment 0)",
	"nie": "natural indirect effect (through the other variables alone, the treatment itself staying 0)",
}

func (f *Frame) askEffect(key string, q record.Query) string {
	e := effects[q.Effect]
	return f.wording(key, [2]string{
		"For treatment " + q.Treatment + " set to 1 instead of 0, what is the " + e + " on the probability that " + q.Outcome + " = 1?",
		"On the probability that " + q.Outcome + " = 1, what is the " + e + " of setting " + q.Treatment + " to 1 instead of 0?"}, [2]string{
		"By how much does " + q.Treatment + " = 1, against 0, move the chance of " + q.Outcome + " = 1, as " + e + "?",
		"By how much is the chance of " + q.Outcome + " = 1 moved by " + q.Treatment + " = 1, against 0, as " + e + "?"})
}

func (f *Frame) say(key, plain, others string) string {
	return f.wording(key, [2]string{plain, plain}, [2]string{others, others})
}
