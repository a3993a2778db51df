package view_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
	"assay/schema"
)

const (
	piper      = "agent/piper"
	worker     = "agent/worker"
	detector   = "detector/main"
	dispatcher = "dispatcher/main"
	resolver   = "resolver/main"
	operator   = "operator/op"
	prod       = "production"
	hash64     = "3f0c1d5e9a7b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9010203040506"
)

func ptr[T any](v T) *T { return &v }

// fold runs the ledger through all views, with tiny commits, and hands them over.
func fold(t *testing.T, l *ledgertest.Ledger, fn func(s *projector.State)) {
	t.Helper()
	db, err := kv.Open(t.TempDir(), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	err = r.View(func(s *projector.State) error { fn(s); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryType: what any role may write is folded without a word, counted in its
// episode, found by its id, and comes out the same again.
func TestEveryType(t *testing.T) {
	l, where := ledgertest.New(), map[schema.Role]string{schema.RoleHarness: "bench/run-1"}
	type place struct{ ns, typ string }
	want, ids := map[place]int64{}, map[string]ledger.Seq{}
	for _, typ := range schema.Types() {
		raw, _ := schema.Example(typ)
		for _, role := range schema.Writers(typ) {
			ns := cmp.Or(where[role], prod)
			e := must[*events.Event](t)(events.Decode(raw))
			e.ID, e.EpisodeID = l.NextID(), "ep"
			ids[e.ID] = l.Put(string(role)+"/main", ns, e.Data, ledgertest.ID(e.ID), ledgertest.Episode("ep"), ledgertest.DataRef(e.DataRef))
			want[place{ns, typ}]++
		}
	}
	fold(t, l, func(s *projector.State) {
		if p := parked(t, s); p != nil {
			t.Errorf("parked %v", p)
		}
		got := map[place]int64{}
		for _, ns := range []string{prod, "bench/run-1"} {
			for typ, n := range must[*view.Episode](t)(view.GetEpisode(s, ns, "ep")).Counts {
				got[place{ns, typ}] = n
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		for id, seq := range ids {
			if f := must[view.Found](t)(view.Find(s, id)); !slices.Equal(f.Events, []ledger.Seq{seq}) {
				t.Errorf("%s: %v, want %d", id, f.Events, seq)
			}
		}
		again, err := projector.Replay(context.Background(), projector.ReplayConfig{Source: l, Projections: view.All(), Dir: t.TempDir()})
		if live := must[projector.Digest](t)(s.Digest()); err != nil || again.SHA256 != live.SHA256 {
			t.Errorf("live %v, replayed %v, %v", live, again.Digest, err)
		}
	})
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func parked(t *testing.T, s *projector.State) (out []string) {
	t.Helper()
	if err := s.Parked(func(p projector.Parked) error {
		out = append(out, fmt.Sprintf("%s/%d", p.Projection, p.Seq))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func orphans(t *testing.T, s *projector.State, projection, ns string) (out []string) {
	t.Helper()
	if err := view.Orphans(s, projection, ns, func(o *view.Orphan) error {
		out = append(out, fmt.Sprintf("%d %s %s", o.Seq, o.ID, o.Reason))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func opportunity(id string) *events.OpportunityDetected {
	return &events.OpportunityDetected{OpportunityID: id, Kind: "why", Component: "worker", DetectorVersion: "1", TextSpanHash: hash64}
}

func call(id, tool string) *events.ToolCalled {
	return &events.ToolCalled{ToolCallID: id, Tool: tool, Status: "ok"}
}

func answers(opp string) events.Context { return events.Context{OpportunityID: ptr(opp)} }

func claim(id, status string) *events.ClaimRecorded {
	return &events.ClaimRecorded{ClaimID: id, Status: status, Edge: &events.Edge{Rung: "intervention", Cause: "a", Effect: "b"}}
}

func prediction(id, claimID string, p float64) *events.PredictionRecorded {
	d := &events.PredictionRecorded{PredID: id, PredictedEffect: "x", P: p, Criterion: jsontext.Value(`{}`)}
	if claimID != "" {
		d.ClaimID = &claimID
	}
	return d
}

func resolved(id, verdict string) *events.PredictionResolved {
	return &events.PredictionResolved{
		PredID: id, Verdict: verdict, Evidence: events.ResolutionEvidence{Refs: []string{}, Digest: hash64}, Engine: "e",
		Foreknowledge: "none", Scorable: true, Attribution: events.Attribution{Kind: "temporal_only"},
	}
}

func TestForbiddenRolesAreParked(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, prediction("p", "", 0.5))
	l.Put(piper, prod, resolved("p", "confirmed"))                                      // 2
	l.Put(operator, prod, &events.PredictionArmed{PredID: "p", RegistrySHA256: hash64}) // 3
	l.Put(dispatcher, prod, &events.FixRechecked{ClaimID: "c", Result: "confirmed"})    // 4
	l.Put(piper, prod, opportunity("o"))                                                // 5
	l.Put(piper, prod, &events.ExperimentExecuted{ExpID: "e", ToolCallID: "t"})
	l.Put("harness/h", prod, opportunity("o2"))                                                        // 7
	l.Put("harness/h", "bench/r1", opportunity("o3"))                                                  // allowed
	l.Put(piper, prod, &events.IntakeRejected{Principal: piper, Code: "malformed", Size: 1, Count: 1}) // 9
	fold(t, l, func(s *projector.State) {
		want := []string{"claims/4", "experiments/6", "opportunities/5", "opportunities/7", "predictions/2", "predictions/3", "rejections/9"}
		if got := parked(t, s); !reflect.DeepEqual(got, want) {
			t.Errorf("parked %v, want %v", got, want)
		}
		if p := must[*view.Prediction](t)(view.GetPrediction(s, prod, "p")); p.Final() != nil || p.State != "recorded" {
			t.Errorf("%+v", p)
		}
	})
}

// TestNamespaceOfReferred: the resolver has one namespace, predictions several.
func TestNamespaceOfReferred(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, "sandbox", prediction("only", "", 0.5))
	l.Put(piper, "sandbox", prediction("both", "", 0.5))
	inProd := l.NextID()
	l.Put(piper, prod, prediction("both", "", 0.5))
	l.Put(piper, "sandbox", prediction("two", "", 0.5))
	inCanary := l.NextID()
	l.Put(piper, "canary", prediction("two", "", 0.5))
	l.Put(resolver, prod, resolved("only", "confirmed"))
	l.Put(resolver, prod, resolved("both", "confirmed"))
	l.Put(resolver, prod, resolved("two", "refuted"))                                    // which?
	l.Put(resolver, prod, resolved("two", "confirmed"), ledgertest.CausedBy(inCanary))   // that one
	l.Put(resolver, "sandbox", resolved("both", "refuted"), ledgertest.CausedBy(inProd)) // a duplicate of production's
	l.Put(piper, prod, &events.PredictionWithdrawn{PredID: "only"})                      // an agent acts in its own
	fold(t, l, func(s *projector.State) {
		for _, tt := range []struct{ ns, id, state string }{
			{"sandbox", "only", "resolved"},
			{"sandbox", "both", "recorded"},
			{prod, "both", "resolved"},
			{"sandbox", "two", "recorded"},
			{"canary", "two", "resolved"},
		} {
			if p := must[*view.Prediction](t)(view.GetPrediction(s, tt.ns, tt.id)); p.State != tt.state || p.Namespace != tt.ns {
				t.Errorf("%s in %s: %+v", tt.id, tt.ns, p)
			}
		}
		if got := orphans(t, s, view.Predictions, prod); len(got) != 2 || !strings.HasSuffix(got[0], "two ambiguous") || !strings.HasSuffix(got[1], "only unknown") {
			t.Errorf("orphans %q", got)
		}
		if found := must[[]view.Prediction](t)(view.FindPrediction(s, "two")); len(found) != 2 || found[0].Namespace != "sandbox" {
			t.Errorf("%+v", found)
		}
	})
}

func TestRejections(t *testing.T) {
	l := ledgertest.New()
	put := func(who, code string, count, size int64) {
		l.Put("logger/main", prod, &events.IntakeRejected{Principal: who, Code: code, Count: count, Size: size})
	}
	put(piper, "malformed", 1, 100)
	put(piper, "rate", 500, 90_000)
	put(piper, "malformed", 2, 50)
	put(worker, "malformed", 1, 7)
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListRejected(s, prod, func(r *view.Rejected) error {
			got = append(got, fmt.Sprintf("%s %s %d/%d %d..%d", r.Principal, r.Code, r.Count, r.Bytes, r.FirstSeq, r.LastSeq))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := "[agent/piper malformed 3/150 1..3 agent/piper rate 500/90000 2..2 agent/worker malformed 1/7 4..4]"; fmt.Sprint(got) != want {
			t.Errorf("%v", got)
		}
		n := 0
		if err := view.ListRejections(s, prod, func(*view.Rejection) error { n++; return nil }); err != nil || n != 4 {
			t.Errorf("%d single rejections, %v", n, err)
		}
	})
}

// TestIDsStayApart: the bytes of an event id are the agent's to choose.
func TestIDsStayApart(t *testing.T) {
	l := ledgertest.New()
	const parked = "21706172-6b65-642f-8000-000000000000" // "!parked/" in bytes
	l.Put(piper, prod, &events.GateChosen{Action: "KNOW"}, ledgertest.ID(parked))
	fold(t, l, func(s *projector.State) {
		if n := must[int](t)(s.CountParked()); n != 0 {
			t.Errorf("%d parked", n)
		}
		if f := must[[]ledger.Seq](t)(view.FindEvent(s, parked)); len(f) != 1 || f[0] != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// TestFindEventOverBlocks: positions hold across blocks and messages without an
// event.
func TestFindEventOverBlocks(t *testing.T) {
	l := ledgertest.New()
	at := map[string]ledger.Seq{}
	for i := range 300 {
		if i%50 == 13 {
			l.PutRaw([]byte("somebody else's"))
		}
		id := l.NextID()
		at[id] = l.Put(piper, prod, &events.GateChosen{Action: "KNOW"})
	}
	fold(t, l, func(s *projector.State) {
		for id, seq := range at {
			if f := must[[]ledger.Seq](t)(view.FindEvent(s, id)); len(f) != 1 || f[0] != seq {
				t.Fatalf("%s: %v, want %d", id, f, seq)
			}
		}
		if f := must[[]ledger.Seq](t)(view.FindEvent(s, "00000000-0000-0000-0000-000000000000")); len(f) != 0 {
			t.Errorf("the zero id: %v", f)
		}
	})
}

func TestFind(t *testing.T) {
	l := ledgertest.New()
	shared := l.NextID()
	l.Put(piper, prod, claim("same", "asserted"))
	l.Put(worker, "sandbox", prediction("same", "", 0.5), ledgertest.ID(shared)) // ids are unique per principal
	l.Put(dispatcher, "canary", call("same", "bash"))
	l.Put(detector, prod, opportunity("same"))
	l.Put(piper, prod, &events.ExperimentProposed{ExpID: "same"})
	fold(t, l, func(s *projector.State) {
		f := must[view.Found](t)(view.Find(s, "same"))
		if len(f.Claims) != 1 || len(f.Predictions) != 1 || len(f.ToolCalls) != 1 || len(f.Opportunities) != 1 || len(f.Experiments) != 1 || len(f.Events) != 0 {
			t.Errorf("%+v", f)
		}
		f = must[view.Found](t)(view.Find(s, shared))
		if want := []ledger.Seq{1, 2}; !reflect.DeepEqual(f.Events, want) {
			t.Errorf("%+v", f.Events)
		}
		f = must[view.Found](t)(view.Find(s, "nothing"))
		if !f.Empty() {
			t.Errorf("%+v", f)
		}
		if _, err := view.GetClaim(s, prod, "nothing"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("absent claim: %v", err)
		}
	})
}

// FindNamed is Find of each identifier for the kind that is asked for.
func TestFindNamed(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(5, 6)), 600)
	fold(t, l, func(s *projector.State) {
		ids := func(list func(*projector.State, string, func(string)) error) (out []string) {
			if err := list(s, prod, func(id string) { out = append(out, id) }); err != nil {
				t.Fatal(err)
			}
			if len(out) == 0 {
				t.Fatal("the ledger has none of a kind")
			}
			return append(out[:min(3, len(out))], "nothing")
		}
		n := view.Named{
			Claims: ids(func(s *projector.State, ns string, fn func(string)) error {
				return view.ListClaims(s, ns, func(c *view.Claim) error { fn(c.ClaimID); return nil })
			}),
			Predictions: ids(func(s *projector.State, ns string, fn func(string)) error {
				return view.ListPredictions(s, ns, func(p *view.Prediction) error { fn(p.PredID); return nil })
			}),
			Opportunities: ids(func(s *projector.State, ns string, fn func(string)) error {
				return view.ListOpportunities(s, ns, func(o *view.Opportunity) error { fn(o.OpportunityID); return nil })
			}),
		}
		var want view.Found
		for _, id := range n.Claims {
			want.Claims = append(want.Claims, must[view.Found](t)(view.Find(s, id)).Claims...)
		}
		for _, id := range n.Predictions {
			want.Predictions = append(want.Predictions, must[view.Found](t)(view.Find(s, id)).Predictions...)
		}
		for _, id := range n.Opportunities {
			want.Opportunities = append(want.Opportunities, must[view.Found](t)(view.Find(s, id)).Opportunities...)
		}
		if got := must[view.Found](t)(view.FindNamed(s, n)); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
