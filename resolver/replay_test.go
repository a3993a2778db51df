package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/resolver/criterion"
)

// written is a ledger with what a service wrote into it.
func written(t fataler, source *book, blobs Blobs, advance func(m *memory)) *memory {
	m := newMemory(t)
	for _, body := range source.bodies {
		m.take(body)
		advance(m)
	}
	return m
}

// catchUp has the service, made with the first ledger, keep up with it.
func catchUp(t testing.TB, s **Service, blobs Blobs) func(m *memory) {
	return func(m *memory) {
		if *s == nil {
			*s = serviceOf(t, m, blobs, testRegistry(t))
		}
		m.catchUp(*s)
	}
}

func replayOf(t testing.TB, m *memory, blobs Blobs, to ledger.Seq) (Replayed, error) {
	return Replay(t.Context(), ReplayConfig{Read: m.Read, Last: ledger.Seq(len(m.book.bodies)), To: to, Blobs: blobs, Registry: testRegistry(t)})
}

// Whatever a resolver wrote, a replay of ledger and blobs calls for the same.
func TestReplayFindsTheSame(t *testing.T) {
	blobs := make(memoryBlobs)
	compared, amended := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		source := genBook(rt)
		copyBlobs(rt, source, blobs)
		var s *Service
		m := written(rt, source, blobs, catchUp(t, &s, blobs))
		n := ledger.Seq(len(m.book.bodies))
		for _, to := range []ledger.Seq{0, ledger.Seq(rapid.IntRange(1, int(n)).Draw(rt, "to"))} {
			r, err := replayOf(t, m, blobs, to)
			if err != nil {
				rt.Fatal(err)
			}
			if len(r.Differences) > 0 || len(r.Others) > 0 || r.Pending > 0 || r.SameBytes != r.Compared() {
				rt.Fatalf("to %d of %d: %+v", to, n, r)
			}
			compared += r.Compared()
			amended += r.Amendments
		}
	})
	if compared == 0 || amended == 0 {
		t.Errorf("%d events were compared, %d of them amendments", compared, amended)
	}
}

// rewrite changes the payload of the resolution or amendment of a prediction and
// mends the chain behind it. In the place of one without a pred_id stands a tick,
// in that of a resolution without a verdict another event.
func rewrite(t testing.TB, m *memory, typ string, change func(r *events.PredictionResolved, a *events.PredictionResolutionAmended)) {
	old := m.book.bodies
	m.book.bodies, m.book.head = nil, ledger.Hash{}
	for _, body := range old {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := events.Decode(rec.Event)
		if err != nil {
			t.Fatal(err)
		}
		raw := rec.Event
		if ev.Type == typ || typ == "" {
			r, _ := ev.Data.(*events.PredictionResolved)
			a, _ := ev.Data.(*events.PredictionResolutionAmended)
			change(r, a)
			switch {
			case r != nil && r.PredID == "", a != nil && a.PredID == "":
				m.book.tick(rec.RecordedAt.Sub(epoch).Seconds())
				continue
			case r != nil && r.Verdict == "":
				r.Verdict, ev.ID = Void, events.DerivedID("test", ev.ID).String()
			}
			if raw, err = events.Encode(ev); err != nil {
				t.Fatal(err)
			}
		}
		m.book.event(rec.RecordedAt, rec.Principal, raw)
	}
}

// amendedAt is the cut of the ledger's one amendment.
func amendedAt(t testing.TB, m *memory) ledger.Seq {
	for _, body := range m.book.bodies {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := outcomeOf(rec.Event); ok && o.typ == events.TypePredictionResolutionAmended {
			return o.cut
		}
	}
	t.Fatal("nothing was amended")
	return 0
}

func TestReplayNamesDifferences(t *testing.T) {
	source := func(t *testing.T) *book {
		b := newBook(t)
		b.predict(0, "p", low)
		b.predict(1, "q", strings.Replace(low, `"level"`, `"nothing"`, 1))
		confirmedBy60(b)
		b.seal(3600, 3599, sample("level", 30, 99)) // amends p
		b.tick(3601)
		return b
	}
	const resolved, amended, either = events.TypePredictionResolved, events.TypePredictionResolutionAmended, ""
	of := func(id string, fn func(r *events.PredictionResolved)) func(*events.PredictionResolved, *events.PredictionResolutionAmended) {
		return func(r *events.PredictionResolved, _ *events.PredictionResolutionAmended) {
			if r.PredID == id {
				fn(r)
			}
		}
	}
	withhold := func(resolution, amendment bool) func(*events.PredictionResolved, *events.PredictionResolutionAmended) {
		return func(r *events.PredictionResolved, a *events.PredictionResolutionAmended) { // of p
			if resolution && r != nil && r.PredID == "p" {
				r.PredID = ""
			}
			if amendment && a != nil {
				a.PredID = ""
			}
		}
	}
	for _, tc := range []struct {
		name, typ string
		change    func(*events.PredictionResolved, *events.PredictionResolutionAmended)
		want      []string // pred, field, stored, recomputed
		others    int
		before    bool // the fold ends before the amendment
		pending   int
	}{
		{"nothing", resolved, func(*events.PredictionResolved, *events.PredictionResolutionAmended) {}, nil, 0, false, 0},
		{"a verdict", resolved, of("p", func(r *events.PredictionResolved) { r.Verdict = Refuted }), []string{"p verdict refuted confirmed"}, 0, false, 0},
		{"a reason", resolved, of("q", func(r *events.PredictionResolved) { *r.Reason = "withdrawn" }), []string{"q reason withdrawn invalid"}, 0, false, 0},
		{"a digest", resolved, of("p", func(r *events.PredictionResolved) { r.Evidence.Digest = hexSHA256(nil) }), []string{"p digest " + hexSHA256(nil) + " *"}, 0, false, 0},
		{"a score", resolved, of("p", func(r *events.PredictionResolved) { r.Scorable = false }), []string{"p bytes * *"}, 0, false, 0},
		{"an amendment's verdict", amended, func(_ *events.PredictionResolved, a *events.PredictionResolutionAmended) { a.Verdict = Confirmed }, []string{"p verdict confirmed refuted"}, 0, false, 0},
		{"another resolver of the same rules", resolved, func(r *events.PredictionResolved, _ *events.PredictionResolutionAmended) {
			r.Resolver.ID, r.Resolver.Key = "resolver/other", "UOTHER"
		}, nil, 0, false, 0},
		{"one that is missing", resolved, of("q", func(r *events.PredictionResolved) { r.Verdict = "" }), []string{"q event  prediction.resolved void", "q event prediction.resolved void"}, 0, false, 0},
		{"one that nothing called for", resolved, of("q", func(r *events.PredictionResolved) { r.PredID = "x" }), []string{"q bytes * *"}, 0, false, 0},
		{"another engine", resolved, of("q", func(r *events.PredictionResolved) { r.Engine = "criterion/1" }), nil, 1, false, 0},
		{"a resolution that was left out", resolved, withhold(true, false), []string{"p event  prediction.resolved confirmed"}, 0, false, 0},
		{"the same, to a record before anything that was written later", resolved, withhold(true, false),
			[]string{"p event  prediction.resolved confirmed"}, 0, true, 0},
		{"an amendment that may still come", amended, withhold(false, true), nil, 0, false, 1},
		{"the same before it is called for", amended, withhold(false, true), nil, 0, true, 0},
		{"all of a prediction that may still come", either, withhold(true, true), nil, 0, false, 2},
		{"the same before the amendment is called for", either, withhold(true, true), nil, 0, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			blobs := make(memoryBlobs)
			b := source(t)
			copyBlobs(t, b, blobs)
			var s *Service
			m := written(t, b, blobs, catchUp(t, &s, blobs))
			to := ledger.Seq(0)
			if tc.before {
				to = amendedAt(t, m) - 1
			}
			rewrite(t, m, tc.typ, tc.change)
			r, err := replayOf(t, m, blobs, to)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range r.Differences {
				got = append(got, fmt.Sprint(d.PredID, " ", d.Field, " ", d.Stored, " ", d.Recomputed))
			}
			ok := slices.EqualFunc(got, tc.want, func(got, want string) bool {
				g, w := strings.Fields(got), strings.Fields(want)
				return slices.EqualFunc(g, w, func(g, w string) bool { return w == "*" || g == w })
			})
			if !ok || len(r.Others) != tc.others || r.Pending != tc.pending {
				t.Errorf("%q, %d others and %d pending, want %q, %d and %d", got, len(r.Others), r.Pending, tc.want, tc.others, tc.pending)
			}
		})
	}
}

func TestReplayWithoutEvidence(t *testing.T) {
	blobs := make(memoryBlobs)
	b := newBook(t)
	b.predict(0, "p", low)
	confirmedBy60(b)
	copyBlobs(t, b, blobs)
	var s *Service
	m := written(t, b, blobs, catchUp(t, &s, blobs))

	if _, err := replayOf(t, m, make(memoryBlobs), 0); !errors.Is(err, ErrEvidence) || !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v, want ErrEvidence", err)
	}
	if r, err := replayOf(t, m, blobs, 1); err != nil || r.Seq != 1 || r.Compared() != 0 || len(r.Differences) > 0 {
		t.Errorf("up to record 1: %+v, %v", r, err)
	}
	m.book.bodies[1] = []byte(strings.Replace(string(m.book.bodies[1]), `"pred_id":"p"`, `"pred_id":"q"`, 1))
	if _, err := replayOf(t, m, blobs, 0); !errors.Is(err, ErrBroken) {
		t.Errorf("%v, want ErrBroken", err)
	}
	if r, err := Replay(t.Context(), ReplayConfig{Registry: testRegistry(t), Blobs: blobs}); err != nil || r.Compared() != 0 {
		t.Errorf("an empty ledger: %+v, %v", r, err)
	}
}

// What the resolver has not written yet is pending, not different.
func TestReplayPending(t *testing.T) {
	blobs := make(memoryBlobs)
	m := newMemory(t)
	m.book.predict(0, "p", strings.Replace(low, `"level"`, `"nothing"`, 1))
	if r, err := replayOf(t, m, blobs, 0); err != nil || r.Pending != 1 || len(r.Differences) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A start that folds from record 1 evaluates again what may still be amended, and
// nothing that is past that.
func TestRefoldSkipsWhatIsFinal(t *testing.T) {
	blobs := make(memoryBlobs)
	b := newBook(t)
	b.predict(0, "old", low)
	confirmedBy60(b)
	b.predict(300, "mid", low)
	b.seal(361, 360, ticks(305, 360, 1)...)
	b.seal(366, 365)
	b.seal(7*days, 7*days-1, sample("level", 30, 99)) // amends both but for a moment
	b.predict(7*days+100, "new", low)
	b.seal(7*days+166, 7*days+165, ticks(7*days+105, 7*days+160, 1)...)
	copyBlobs(t, b, blobs)
	var s *Service
	m := written(t, b, blobs, catchUp(t, &s, blobs))

	again := serviceOf(t, m, blobs, testRegistry(t))
	if ok, err := again.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if again.Differed() != 0 || m.signed != len(m.book.bodies) {
		t.Errorf("%d differ, %d records of %d", again.Differed(), len(m.book.bodies), m.signed)
	}
	for id, kept := range map[string]bool{"old": false, "mid": true, "new": true} {
		if p := settledOf(again.machine, id); (p != nil) != kept {
			t.Errorf("%s: kept %v, want %v", id, p != nil, kept)
		}
	}
	// Late telemetry amends what was resolved before the start.
	m.book.seal(7*days+200, 7*days+199, sample("level", 7*days+130, 99))
	copyBlobs(t, m.book, blobs)
	m.sign()
	if ok, err := again.Advance(context.Background()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	last, _ := ledger.ParseRecord(m.book.bodies[len(m.book.bodies)-1])
	ev, err := events.Decode(last.Event)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := ev.Data.(*events.PredictionResolutionAmended); !ok || d.PredID != "new" || d.Verdict != Refuted {
		t.Errorf("%+v", ev.Data)
	}
}

// A resolution of another engine stands, and is not amended by this one.
func TestOtherEnginesStand(t *testing.T) {
	blobs := make(memoryBlobs)
	b := newBook(t)
	b.predict(0, "p", low)
	confirmedBy60(b)
	copyBlobs(t, b, blobs)
	var s *Service
	m := written(t, b, blobs, catchUp(t, &s, blobs))
	rewrite(t, m, events.TypePredictionResolved, func(r *events.PredictionResolved, _ *events.PredictionResolutionAmended) {
		r.Engine, r.Verdict = "criterion/1", Refuted
	})
	m.byID = make(map[string]string)
	m.book.seal(3600, 3599, sample("level", 30, 99))
	copyBlobs(t, m.book, blobs)
	m.sign()
	n := len(m.book.bodies)
	again := serviceOf(t, m, blobs, testRegistry(t))
	if ok, err := again.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if len(m.book.bodies) != n || again.Differed() != 0 {
		t.Errorf("%d new records, %d differ", len(m.book.bodies)-n, again.Differed())
	}
}

// TestReplayOfAnEarlierEngine: what it said of a call that it took for two stands, and
// nothing is called for in its place.
func TestReplayOfAnEarlierEngine(t *testing.T) {
	blobs := make(memoryBlobs)
	b := newBook(t)
	b.call("c", 10, "dispatcher/main", "hook", "kill", "9", "ok", 10)
	b.predict(15, "p", killed)
	b.call("c", 20, "dispatcher/main", "live", "kill", "9", "ok", 20)
	b.seal(96, 95, ticks(35, 95, 1)...)
	b.tick(400)
	copyBlobs(t, b, blobs)
	var s *Service
	m := written(t, b, blobs, catchUp(t, &s, blobs))
	if r, err := replayOf(t, m, blobs, 0); err != nil || r.Resolutions != 1 || r.SameBytes != 1 || len(r.Differences)+len(r.Others) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	rewrite(t, m, events.TypePredictionResolved, func(r *events.PredictionResolved, _ *events.PredictionResolutionAmended) {
		if r.Verdict != Void || text(r.Reason) != "not_executed" {
			t.Fatalf("%s %s", r.Verdict, text(r.Reason))
		}
		r.Engine, r.Verdict, r.Reason = "criterion/3", Confirmed, nil
	})
	r, err := replayOf(t, m, blobs, 0)
	if err != nil || r.Compared() != 0 || len(r.Differences) > 0 || r.Pending != 0 || len(r.Others) != 1 || r.Others[0].Engine != "criterion/3" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReplayPassesOverImports: what another resolver said elsewhere is nothing that this
// ledger calls for.
func TestReplayPassesOverImports(t *testing.T) {
	blobs := make(memoryBlobs)
	b := newBook(t)
	b.predict(0, "p", low)
	confirmedBy60(b)
	copyBlobs(t, b, blobs)
	var s *Service
	m := written(t, b, blobs, catchUp(t, &s, blobs))
	hash := hexSHA256(nil)
	m.book.add(500, "resolver/main", &events.PredictionResolved{
		Context: imported(), PredID: "elsewhere", Verdict: Refuted, Evidence: events.ResolutionEvidence{Refs: []string{}, Digest: hash}, CutSeq: 1, Engine: Engine,
		CriterionSHA256: hash, RegistrySHA256: hash, Foreknowledge: "none", Scorable: true,
		Attribution: events.Attribution{Kind: criterion.TemporalOnly}, Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: byTelemetry, Key: "UKEY"},
	})
	r, err := replayOf(t, m, blobs, 0)
	if err != nil || r.Resolutions != 1 || r.SameBytes != 1 || len(r.Differences)+len(r.Others) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
