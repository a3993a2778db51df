package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/projector"
	"assay/projector/view"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

// Identifiers of the story. They are opaque to everyone but its reader.
const (
	opportunity = "opp-memory-1"
	claimHog    = "claim-hog"
	claimLimit  = "claim-idle"
	experiment  = "exp-kill-hog"
	toolCall    = "call-kill-1"

	predGone    = "pred-gone-after-kill"
	predSmall   = "pred-memory-stays-small"
	predRestart = "pred-restart-helps"
	predGPU     = "pred-gpu-stays-cool"
)

const (
	alarmMiB  = 64  // the detector speaks at this much
	smallMiB  = 32  // what the wrong prediction promises
	bigEnough = 128 // the hog has this much before anyone acts
)

// story is the incident while it happens.
type story struct {
	cfg   Config
	up    *node.Up
	hog   *exec.Cmd
	proc  telemetry.Process
	eyes  *telemetry.Host // the detector's and dispatcher's own look at /proc
	piper *actor
	cast  map[string]*actor
}

// incident plays the story and returns once every prediction is closed.
func incident(ctx context.Context, cfg Config, up *node.Up) (err error) {
	s := &story{cfg: cfg, up: up, eyes: telemetry.NewHost(telemetry.HostConfig{}), cast: map[string]*actor{}}
	defer s.end()
	for id, user := range map[string]string{
		"agent/piper": "agent.piper", "detector/main": "detector.main", "dispatcher/main": "dispatcher.main",
		"resolver/main": "resolver.main", "operator/main": "operator.main",
	} {
		if s.cast[id], err = newActor(up.Hub, id, user, "episode-memory"); err != nil {
			return err
		}
	}
	s.piper = s.cast["agent/piper"]
	for _, act := range []func(context.Context) error{
		s.spawn, s.detect, s.claim, s.promise, s.overstep, s.waitForWrongOne, s.kill, s.conclude, s.waitForVerdicts,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) end() {
	if s.hog != nil {
		_ = s.hog.Process.Kill() // an error means that it has ended
		_ = s.hog.Wait()
	}
	for _, a := range s.cast {
		if a != nil {
			a.close()
		}
	}
}

// spawn starts the hog and points the host sensor at it.
func (s *story) spawn(ctx context.Context) (err error) {
	if s.hog, err = startHog(); err != nil {
		return err
	}
	pid := s.hog.Process.Pid
	s.cfg.Say("started a memory hog, pid %d: at most %d MiB and %s", pid, hogMaxMiB, hogMaxLife)
	if s.proc, err = s.up.Tele.Host.Watch(pid); err != nil {
		return err
	}
	_, err = s.eyes.Watch(pid)
	return err
}

// rss is the hog's resident memory in MiB as /proc says now; ok is false when
// it cannot be read.
func (s *story) rss() (mib float64, ok bool) {
	for _, v := range s.eyes.Read() {
		if v.Signal == criterion.SignalProcessRSS {
			return v.Value / (1 << 20), true
		}
	}
	return 0, false
}

// until polls a condition.
func until(ctx context.Context, what string, ok func() (bool, error)) error {
	for {
		done, err := ok()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// detect is the detector: it sees memory grow and records the opportunity,
// knowing nothing of what the agent will do about it.
func (s *story) detect(ctx context.Context) error {
	var seen float64
	err := until(ctx, "the hog has memory", func() (bool, error) {
		mib, ok := s.rss()
		seen = mib
		return ok && mib >= alarmMiB, nil
	})
	if err != nil {
		return err
	}
	s.cfg.Say("the detector saw %.0f MiB resident and recorded an opportunity", seen)
	_, err = s.cast["detector/main"].say(ctx, &events.OpportunityDetected{
		Context: live("rss-threshold", ""), OpportunityID: opportunity, Kind: "root_cause", Component: "rss-threshold",
		DetectorVersion: "1", TextSpanHash: hashText(fmt.Sprintf("rss of pid %d above %d MiB", s.proc.PID, alarmMiB)),
	})
	return err
}

// claim is Piper's first word: two competing claims and an experiment that
// tells them apart.
func (s *story) claim(ctx context.Context) error {
	context := live("piper", opportunity)
	edge := func(cause string) *events.Edge {
		return &events.Edge{Rung: "intervention", Cause: cause, Effect: "host.memory.used", Polarity: ptr("positive")}
	}
	s.cfg.Say("Piper, who holds only a write-only credential, made two competing claims and proposed an experiment")
	return s.piper.all(ctx,
		&events.GateChosen{Context: context, Action: "TEST", OfferedTools: []string{"kill", "restart"}, Reason: ptr("two causes fit what is seen")},
		&events.ClaimRecorded{
			Context: context, ClaimID: claimHog, Edge: edge("process.hog"), RawConfidence: ptr(0.7), Status: "hypothesis",
			CompetingIDs: []string{claimLimit}, Action: ptr("TEST"), Assumptions: []string{"nothing else restarts the process"},
		},
		&events.ClaimRecorded{
			Context: context, ClaimID: claimLimit, Edge: edge("page.cache"), RawConfidence: ptr(0.3), Status: "hypothesis",
			CompetingIDs: []string{claimHog}, Action: ptr("TEST"),
		},
		&events.ExperimentProposed{
			Context: context, ExpID: experiment, Discriminates: []string{claimHog, claimLimit},
			Predicted: []events.PredictedOutcome{{ClaimID: claimHog, Outcome: "memory is released"}, {ClaimID: claimLimit, Outcome: "memory stays in use"}},
		},
	)
}

// promise is Piper's predictions, each with a criterion that telemetry settles.
func (s *story) promise(ctx context.Context) error {
	labels := fmt.Sprintf(`{"pid":"%d","start":"%d"}`, s.proc.PID, s.proc.Start)
	prediction := func(id, claim, action, effect string, p float64, criterion string) *events.PredictionRecorded {
		out := &events.PredictionRecorded{
			Context: live("piper", opportunity), PredID: id, ClaimID: &claim, PredictedEffect: effect, P: p, Criterion: []byte(criterion),
		}
		if action != "" {
			out.Action = &action
		}
		return out
	}
	s.cfg.Say("Piper made four promises: one right, one wrong, one never carried out, one about a sensor that is silent")
	return s.piper.all(ctx,
		prediction(predGone, claimHog, "kill the hog", "the process is gone after the kill", 0.9,
			`{"criterion_version":1,"action":{"tool":"kill","target":"hog","execute_by":"20s"},`+
				`"window":{"anchor":"action_end","offset":"1s","length":"4s"},`+
				`"all":[{"signal":"process_up","labels":`+labels+`,"reduce":"max","op":"==","value":0}],"expires_after":"20s"}`),
		prediction(predSmall, claimLimit, "", fmt.Sprintf("the process stays below %d MiB", smallMiB), 0.8,
			`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"1s","length":"3s"},`+
				`"all":[{"signal":"process_rss_bytes","labels":`+labels+`,"reduce":"max","op":"<=","value":`+fmt.Sprint(smallMiB<<20)+`}],"expires_after":"20s"}`),
		prediction(predRestart, claimHog, "restart the service", "a restart releases the memory", 0.6,
			`{"criterion_version":1,"action":{"tool":"restart","target":"svc/hog","execute_by":"3s"},`+
				`"window":{"anchor":"action_end","offset":"1s","length":"4s"},`+
				`"all":[{"signal":"oom_kill","labels":{},"reduce":"increase","op":"==","value":0}]}`),
		prediction(predGPU, claimHog, "", "the GPU stays cool", 0.95,
			`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"1s","length":"2s"},`+
				`"all":[{"signal":"`+silent+`","labels":{},"reduce":"max","op":"<=","value":90}],"expires_after":"3s"}`),
	)
}

// overstep sends what the ledger must refuse: bytes that are no event, and a
// verdict that Piper would like to write for herself.
func (s *story) overstep(ctx context.Context) error {
	malformed, err := s.piper.refused(ctx, []byte(`{"specversion":"1.0","type":"claim.recorded","data":{`))
	if err != nil {
		return err
	}
	ev, err := s.piper.maker.New(&events.PredictionResolved{
		Context: live("piper", ""), PredID: predSmall, Verdict: "confirmed",
		Evidence: events.ResolutionEvidence{Refs: []string{}, Digest: hashText(""), Summary: "because I say so"},
		CutSeq:   1, Engine: "piper", CriterionSHA256: hashText(""), RegistrySHA256: hashText(""),
		Foreknowledge: "none", Scorable: true, Attribution: events.Attribution{Kind: "temporal_only"},
		Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: "forged"},
	})
	if err != nil {
		return err
	}
	raw, err := events.Encode(ev)
	if err != nil {
		return err
	}
	forged, err := s.piper.refused(ctx, raw)
	if err != nil {
		return err
	}
	s.cfg.Say("refused and recorded: a malformed event (%s) and a forged resolution (%s)", malformed, forged)
	if malformed != "bad_json" || forged != "forbidden_type" {
		return fmt.Errorf("refused for other reasons: %s, %s", malformed, forged)
	}
	return nil
}

// waitForWrongOne lets the hog grow until the wrong promise is refuted: its
// window must not be cut short by the kill.
func (s *story) waitForWrongOne(ctx context.Context) error {
	return until(ctx, "the wrong prediction is refuted", func() (bool, error) {
		mib, ok := s.rss()
		if !ok {
			return false, errors.New("the hog ended before anyone acted")
		}
		v, err := s.verdict(predSmall)
		return mib >= bigEnough && v != "", err
	})
}

// verdict is a prediction's verdict in the views; "" while it is open.
func (s *story) verdict(pred string) (verdict string, err error) {
	err = s.up.Views.Runner().View(func(st *projector.State) error {
		found, err := view.FindPrediction(st, pred)
		if err == nil && len(found) == 1 && found[0].Resolution != nil {
			verdict = found[0].Resolution.Verdict
		}
		return err
	})
	if errors.Is(err, projector.ErrNoState) {
		err = nil
	}
	return verdict, err
}

// kill is the dispatcher: it runs the tool and records what it really did.
func (s *story) kill(ctx context.Context) error {
	started := time.Now()
	if err := s.hog.Process.Kill(); err != nil {
		return fmt.Errorf("kill the hog: %w", err)
	}
	err := s.hog.Wait()
	ended := time.Now()
	s.cfg.Say("the dispatcher killed the hog (%v)", err)
	context := live("dispatcher", opportunity)
	context.ToolCallID = ptr(toolCall)
	return s.cast["dispatcher/main"].all(ctx,
		&events.ToolCalled{
			Context: context, ToolCallID: toolCall, Tool: "kill", Target: ptr("hog"), Status: "ok",
			StartedAt: timestamp(started), EndedAt: timestamp(ended),
			ArgsHash: ptr(hashText(fmt.Sprintf("kill -9 %d", s.proc.PID))), ResultHash: ptr(hashText(fmt.Sprint(err))),
			LatencyMS: ptr(float64(ended.Sub(started).Microseconds()) / 1000),
		},
		&events.ExperimentExecuted{Context: context, ExpID: experiment, ToolCallID: toolCall},
	)
}

// conclude revises the claims on what was observed, and then has the fix rechecked
// by somebody who is not Piper: what she asserts only afterwards is hindsight.
func (s *story) conclude(ctx context.Context) error {
	if _, up := s.rss(); up {
		return errors.New("the hog is still there after the kill")
	}
	observed := "no live process has the hog's pid and start time"
	if _, err := s.cast["resolver/main"].say(ctx, &events.ExperimentObserved{
		Context: live("resolver", opportunity), ExpID: experiment, Observed: observed, EvidenceIDs: []string{toolCall},
	}); err != nil {
		return err
	}
	s.cfg.Say("Piper revised her claims: one asserted, one retracted")
	if err := s.piper.all(ctx,
		&events.ClaimRevised{Context: live("piper", opportunity), ClaimID: claimHog, OldStatus: "hypothesis", NewStatus: "asserted", TriggerEvidenceID: ptr(toolCall)},
		&events.ClaimRevised{Context: live("piper", opportunity), ClaimID: claimLimit, OldStatus: "hypothesis", NewStatus: "retracted", TriggerEvidenceID: ptr(toolCall)},
	); err != nil {
		return err
	}
	_, err := s.cast["operator/main"].say(ctx, &events.FixRechecked{
		Context: live("operator", opportunity), ClaimID: claimHog, Result: "confirmed", Source: "instrument", Direct: true, ToolCallID: ptr(toolCall),
	})
	return err
}

// waitForVerdicts returns when the resolver has closed everything.
func (s *story) waitForVerdicts(ctx context.Context) error {
	s.cfg.Say("waiting for the resolver, which knows only what /proc said")
	said := map[string]bool{}
	return until(ctx, "every prediction is resolved", func() (bool, error) {
		all := []string{predGone, predSmall, predRestart, predGPU}
		for _, id := range all {
			v, err := s.verdict(id)
			if err != nil {
				return false, err
			}
			if v != "" && !said[id] {
				said[id] = true
				s.cfg.Say("  %-12s %s", v, strings.TrimPrefix(id, "pred-"))
			}
		}
		return len(said) == len(all), nil
	})
}
