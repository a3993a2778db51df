package crash

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/resolver"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

// blow is a signal to a service, a pause after the one before it.
type blow struct {
	pause   time.Duration
	service string
	signal  syscall.Signal
}

func (b blow) String() string { return fmt.Sprintf("%v %v %s", b.pause, b.signal, b.service) }

// blowsOf is the plan of a round: it follows from the seed alone. Each round
// meets the resolver, mostly with kill -9; a stop leaves a saved fold behind,
// from which a later start goes on. The first rounds meet every service.
func blowsOf(seed uint64, round int) []blow {
	rng := rand.New(rand.NewPCG(seed, uint64(round)))
	others := []string{"broker", "logger", "ingress", "sensor"}
	targets := []string{"resolver", others[round%len(others)]}
	if round >= len(others) {
		targets = targets[:1]
		for range rng.IntN(3) {
			targets = append(targets, slices.Concat(others, []string{"resolver", "resolver"})[rng.IntN(6)])
		}
	}
	rng.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	var out []blow
	for _, service := range targets {
		b := blow{time.Duration(rng.IntN(1500)) * time.Millisecond, service, syscall.SIGKILL}
		if service == "resolver" && rng.IntN(4) == 0 {
			b.signal = syscall.SIGTERM
		}
		out = append(out, b)
	}
	return out
}

// hostRegistry are the host sensor's signals, with demands that survive every
// service being away for a while: what is tested is that the resolver loses
// nothing, not that a gap is one.
func hostRegistry(t testing.TB) []byte {
	t.Helper()
	var signals []criterion.Signal
	for _, name := range []string{criterion.SignalHeartbeat, criterion.SignalProcessUp, criterion.SignalProcessRSS} {
		signals = append(signals, criterion.Signal{
			Name: name, Source: criterion.HostSource, Unit: "1", Kind: criterion.Gauge, Heartbeat: criterion.SignalHeartbeat, Writer: "sensor/host",
			Interval: 500 * time.Millisecond, MaxStaleness: 10 * time.Second, CoverageFloor: 0.02, MaxGap: time.Minute,
			AllowedLateness: time.Second, Lo: math.Inf(-1), Hi: math.Inf(1),
		})
	}
	raw, err := criterion.AddSignals([]byte(`{"v":1,"signals":[]}`), signals...)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// script publishes the same predictions in every round and knows their verdicts.
type script struct {
	h             *house
	mine, child   map[string]string // labels of two processes that live
	agent, worker *publish.Client
	operator      *publish.Client
	want          map[string]string // verdict and, where it is certain, reason by pred_id
	reported      map[string]string // the verdict that a report amends that to
}

func newScript(h *house, child int) *script {
	h.t.Helper()
	s := &script{h: h, want: map[string]string{}, reported: map[string]string{}}
	host := telemetry.NewHost(telemetry.HostConfig{})
	for pid, labels := range map[int]*map[string]string{os.Getpid(): &s.mine, child: &s.child} {
		p, err := host.Watch(pid)
		if err != nil {
			h.t.Fatal(err)
		}
		*labels = p.Labels()
	}
	s.agent = publish.New(h.connect("agent.piper"), "agent/piper")
	s.worker = publish.New(h.connect("dispatcher.main"), "dispatcher/main")
	s.operator = publish.New(h.connect("operator.main"), "operator/main")
	return s
}

func (s *script) send(c *publish.Client, payloads ...events.Payload) {
	s.h.t.Helper()
	var batch [][]byte
	for _, p := range payloads {
		e, err := events.Maker{Source: "urn:crash"}.New(p)
		if err != nil {
			s.h.t.Fatal(err)
		}
		raw, err := events.Encode(e)
		if err != nil {
			s.h.t.Fatal(err)
		}
		batch = append(batch, raw)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := c.PublishBatch(ctx, batch)
	if err != nil {
		s.h.t.Fatalf("publish: %v", err)
	}
	for _, a := range answers {
		if a.Refusal != nil {
			s.h.t.Fatalf("refused: %v", a.Refusal)
		}
	}
}

// criterionOf is about one series in a window of eight seconds: longer than a
// service is away. An action makes the window wait for it.
func criterionOf(signal string, labels map[string]string, clause, action, expires string) string {
	l, err := json.Marshal(labels, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	anchor := criterion.AnchorRecorded
	if action != "" {
		action, anchor = `"action":`+action+`,`, criterion.AnchorActionEnd
	}
	return fmt.Sprintf(`{"criterion_version":1,%s"window":{"anchor":%q,"offset":"500ms","length":"8s"},"all":[{"signal":%q,"labels":%s,%s}],"expires_after":%q}`,
		action, anchor, signal, l, clause, expires)
}

// round publishes the predictions of a round and what they wait for.
func (s *script) round(round int) {
	s.h.t.Helper()
	var batch []events.Payload
	predict := func(name, criterion, want string) string {
		id := fmt.Sprintf("%s-%d", name, round)
		batch = append(batch, &events.PredictionRecorded{PredID: id, PredictedEffect: "x", P: 0.7, Criterion: jsontext.Value(criterion)})
		s.want[id] = want
		return id
	}
	action := func(target, by string) string {
		return fmt.Sprintf(`{"tool":"restart","target":"%s-%d","execute_by":%q}`, target, round, by)
	}
	const up, late = criterion.SignalProcessUp, "1h"
	always := `"reduce":"max","op":"<=","value":1`
	predict("up", criterionOf(up, s.mine, always, "", late), "confirmed")
	predict("beat", criterionOf(criterion.SignalHeartbeat, nil, `"reduce":"min","op":">=","value":1`, "", late), "confirmed")
	predict("mean", criterionOf(up, s.child, `"reduce":"avg","op":">=","value":1`, "", late), "confirmed")
	predict("seen", criterionOf(up, s.child, `"reduce":"count","op":">=","value":1`, "", late), "confirmed")
	predict("down", criterionOf(up, s.mine, `"reduce":"max","op":"<=","value":0`, "", late), "refuted")
	predict("large", criterionOf(criterion.SignalProcessRSS, s.child, `"reduce":"min","op":">=","value":1e15`, "", late), "refuted")
	predict("absent", criterionOf(up, map[string]string{"pid": "0"}, always, "", "2s"), "unresolved")
	predict("unknown", criterionOf("no_such_signal", nil, always, "", late), "void invalid")
	predict("idle", criterionOf(up, s.mine, always, action("idle", "2s"), late), "void not_executed")
	predict("failed", criterionOf(up, s.mine, always, action("failed", "1h"), late), "void action_failed")
	predict("acted", criterionOf(up, s.child, always, action("acted", "1h"), late), "confirmed")
	gone := predict("gone", criterionOf(up, s.mine, always, action("gone", "1h"), late), "void withdrawn")
	s.send(s.agent, batch...)
	s.send(s.agent, &events.PredictionWithdrawn{PredID: gone})
	for target, status := range map[string]string{"failed": "failed", "acted": "ok"} {
		end, target := events.FormatTime(time.Now()), fmt.Sprintf("%s-%d", target, round)
		s.send(s.worker, &events.ToolCalled{ToolCallID: target, Tool: "restart", Target: &target, Status: status, EndedAt: &end})
	}
}

// report publishes an operator's word on predictions of every round, once they are
// settled: it amends what telemetry left unknown, and nothing else.
func (s *script) report(rounds int) {
	s.h.t.Helper()
	whose, verdict := "agent/piper", resolver.Confirmed
	var batch []events.Payload
	for round := range rounds {
		for _, name := range []string{"absent", "down", "unknown"} {
			id := fmt.Sprintf("%s-%d", name, round)
			batch = append(batch, &events.OutcomeRecorded{What: "seen", Source: "operator_report", PredID: &id, PredPrincipal: &whose, Verdict: &verdict})
			if name == "absent" {
				s.reported[id] = verdict
			}
		}
	}
	s.send(s.operator, batch...)
}

// Kill -9 of the resolver, and of all that it lives on, at any time: each
// prediction has one resolution, the one that its evidence gives, and the
// amendments that late telemetry and a report bring about, in the bytes that a fold
// of the ledger from record 1 makes. From the first round on the resolver starts
// with a saved fold.
func TestResolutionsSurviveKills(t *testing.T) {
	t.Parallel()
	rounds := envInt(t, "ASSAY_RESOLVE_ROUNDS", 3)
	seed := uint64(envInt(t, "ASSAY_CRASH_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("ASSAY_RESOLVE_ROUNDS=%d ASSAY_CRASH_SEED=%d", rounds, seed)
	h := newHouse(t)
	if err := os.WriteFile(h.dir.Registry(), hostRegistry(t), 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "3600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })

	services := map[string]*process{"broker": h.serve("broker", "--port", strconv.Itoa(h.port))}
	h.awaitServed("broker")
	services["logger"] = h.serve("logger")
	h.awaitServed("logger")
	services["ingress"], services["resolver"] = h.serve("ingress"), h.serve("resolver", "--seal", "1s")
	services["sensor"] = h.serve("sensor", "--sensor", "250ms", "--watch", strconv.Itoa(os.Getpid()), "--watch", strconv.Itoa(child.Process.Pid))
	h.awaitServed("ingress", "resolver", "sensor")

	s := newScript(h, child.Process.Pid)
	began, done := time.Now(), map[string]int{}
	for round := range rounds {
		plan := blowsOf(seed, round)
		t.Logf("round %d: %v", round, plan)
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, b := range plan {
				time.Sleep(b.pause)
				for deadline := time.Now().Add(patience); !services[b.service].hit(b.signal); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Errorf("%s is never there to be met", b.service)
						return
					}
				}
				done[b.signal.String()+" "+b.service]++
			}
		})
		s.round(round)
		wg.Wait()
		if round == 0 {
			h.saveFold(services["resolver"])
			done["terminated resolver"]++
		}
		time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, 1<<32|uint64(round))).IntN(2000)) * time.Millisecond)
	}
	h.awaitSettled()
	s.report(rounds)
	if services["resolver"].kill() {
		done["killed resolver"]++
	}
	h.awaitSettled()
	took := time.Since(began)
	for _, name := range []string{"sensor", "ingress", "resolver", "logger", "broker"} {
		services[name].stop()
	}
	if raw, err := os.ReadFile(services["resolver"].log); err != nil || bytes.Contains(raw, []byte("folding from record 1")) {
		t.Errorf("a saved fold was not taken up: %v", err)
	}
	report := mustDecode[ledger.Report](t, h.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.UnsignedTail == nil || *report.UnsignedTail != 0 {
		t.Errorf("verify: %+v", report)
	}
	verdicts, same := s.check()
	t.Logf("%d rounds in %.1fs: %v; %d predictions, verdicts %v; %d events of the resolver's, each in the bytes of a fold from record 1; %d records",
		rounds, took.Seconds(), done, len(s.want), verdicts, same, report.Size)
}

// saveFold stops the resolver once its fold has predictions, so that the start after
// it finds them saved.
func (h *house) saveFold(r *process) {
	h.t.Helper()
	h.awaitServed("broker", "logger")
	h.await("a fold with predictions", func() bool {
		st, ok := h.status("resolver")
		return ok && st.Resolver.Open+st.Resolver.Amendable > 0
	})
	h.await("the resolver to be stopped", func() bool { return r.hit(syscall.SIGTERM) })
	h.await("its saved fold", func() bool {
		_, err := os.Stat(filepath.Join(h.dir.Resolver(), "state"))
		return err == nil
	})
}

// awaitSettled waits until no prediction is open that the ledger has by now.
func (h *house) awaitSettled() {
	h.t.Helper()
	size := ledger.Seq(0)
	h.await("every prediction to be settled", func() bool {
		if lg, ok := h.status("logger"); size == 0 && ok && lg.Logger.State == logger.Serving {
			size = ledger.Seq(lg.Logger.Size)
		}
		st, ok := h.status("resolver")
		return ok && size > 0 && st.Resolver.Applied >= size && st.Resolver.Open == 0 && !st.Resolver.LedgerTime.IsZero()
	})
}

// check holds every prediction and every event of the resolver's against the
// script and against a fold of the whole ledger.
func (s *script) check() (verdicts map[string]int, same int) {
	t := s.h.t
	t.Helper()
	emitted := s.fold()
	verdicts = map[string]int{}
	resolved, reported := map[string]int{}, map[string]int{}
	s.h.each(func(rec ledger.Record) error {
		ev, err := events.Decode(rec.Event)
		if err != nil {
			return err
		}
		switch d := ev.Data.(type) {
		case *events.PredictionResolved:
			resolved[d.PredID]++
			verdict := d.Verdict
			if d.Verdict == resolver.Void {
				verdict += " " + *d.Reason
			}
			verdicts[verdict]++
			if want := s.want[d.PredID]; verdict != want {
				t.Errorf("%s is %s, want %s: %s", d.PredID, verdict, want, d.Evidence.Summary)
			}
		case *events.PredictionResolutionAmended:
			want := s.want[d.PredID] // late telemetry may only change why something is unknown
			if d.Cause == "operator_report" {
				reported[d.PredID]++
				want = s.reported[d.PredID]
			}
			verdicts["amended to "+d.Verdict]++
			if d.Verdict != want {
				t.Errorf("%s is amended to %s (%s), want %q: %s", d.PredID, d.Verdict, d.Cause, want, d.Evidence.Summary)
			}
		case *events.PredictionArmed:
		default:
			return nil
		}
		if want, ok := emitted[ev.ID]; !ok {
			t.Errorf("record %d: the fold makes no %s %s", rec.Seq, ev.Type, ev.ID)
		} else if !bytes.Equal(want, rec.Event) {
			t.Errorf("record %d is\n%s\nthe fold makes\n%s", rec.Seq, rec.Event, want)
		} else {
			same++
		}
		delete(emitted, ev.ID)
		return nil
	})
	for id, raw := range emitted {
		t.Errorf("not in the ledger: %s %s", id, raw)
	}
	for id := range s.want {
		if n := resolved[id]; n != 1 {
			t.Errorf("%s has %d resolutions", id, n)
		}
	}
	for id := range s.reported {
		if n := reported[id]; n != 1 {
			t.Errorf("%s has %d amendments by a report", id, n)
		}
	}
	return verdicts, same
}

// fold is what a machine that knows nothing but ledger and blobs makes of them,
// by event id.
func (s *script) fold() map[string][]byte {
	t := s.h.t
	t.Helper()
	registry, err := node.LoadRegistry(s.h.dir)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.OpenExisting(s.h.dir.Blobs())
	if err != nil {
		t.Fatal(err)
	}
	who, err := principal.LoadCredential(principal.CredentialPath(s.h.dir.Creds(), "resolver.main"))
	if err != nil {
		t.Fatal(err)
	}
	m := resolver.NewMachine(resolver.MachineConfig{
		Registry: registry, Segments: resolver.BlobSegments{Blobs: blobs}, Source: resolver.DefaultSource,
		Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: who.Public},
	})
	emitted := map[string][]byte{}
	s.h.each(func(rec ledger.Record) error {
		out, err := m.Apply(rec)
		for _, e := range out {
			emitted[e.ID] = e.Event
		}
		return err
	})
	return emitted
}
