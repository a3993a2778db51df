package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func set(id string, ps ...float64) *events.HypothesesRecorded {
	d := &events.HypothesesRecorded{SetID: id}
	for i, p := range ps {
		a := events.Alternative{ID: fmt.Sprint("h", i), Edge: &events.AlternativeEdge{Cause: "a", Effect: "b"}}
		if p >= 0 {
			a.P = ptr(p)
		}
		d.Alternatives = append(d.Alternatives, a)
	}
	return d
}

func getCase(t *testing.T, s *projector.State, ns, id string) *view.ShadowCase {
	t.Helper()
	return must[*view.ShadowCase](t)(view.GetShadowCase(s, ns, id))
}

// TestHypothesesAreThoseBeforeTheClaim: an exact name beats the episode's order,
// and what comes later is hindsight.
func TestHypothesesAreThoseBeforeTheClaim(t *testing.T) {
	ep := ledgertest.Episode("ep")
	named := func(id, claim string) *events.HypothesesRecorded {
		d := set(id, 0.5, 0.5)
		d.ClaimID = ptr(claim)
		return d
	}
	asked := func(id, question string) *events.HypothesesRecorded {
		d := set(id, 0.5)
		d.QuestionID = ptr(question)
		return d
	}
	answering := claim("c", "asserted")
	answering.Context = answers("opp")
	for _, tt := range []struct {
		name  string
		build func(l *ledgertest.Ledger)
		set   string
		join  string
		later int64
	}{
		{"none", func(l *ledgertest.Ledger) { l.Put(piper, prod, claim("c", "asserted"), ep) }, "", "", 0},
		{"by the episode", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5), ep)
			l.Put(worker, prod, set("2", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "2", "episode", 0},
		{"another episode", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5), ledgertest.Episode("other"))
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "", "", 0},
		{"another namespace", func(l *ledgertest.Ledger) {
			l.Put(piper, "shadow", set("1", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "", "", 0},
		{"no episode", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5))
			l.Put(piper, prod, claim("c", "asserted"))
		}, "", "", 0},
		{"by the question", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, asked("1", "opp"))
			l.Put(piper, prod, set("2", 0.5), ep)
			l.Put(piper, prod, answering, ep)
		}, "1", "question", 0},
		{"by the claim", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, named("1", "c"))
			l.Put(piper, prod, asked("2", "opp"))
			l.Put(piper, prod, set("3", 0.5), ep)
			l.Put(piper, prod, answering, ep)
		}, "1", "claim", 0},
		{"the latest that names the claim", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, named("1", "c"))
			l.Put(piper, prod, named("2", "c"))
			l.Put(piper, prod, named("1", "c")) // a repeat is no other set
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "2", "claim", 0},
		{"later ones are counted", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(piper, prod, named("2", "c"), ep)
			l.Put(piper, prod, named("3", "c"), ep)
		}, "1", "episode", 2},
		{"the first claim of an id counts", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(piper, prod, set("1", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			tt.build(l)
			fold(t, l, func(s *projector.State) {
				c := getCase(t, s, prod, "c")
				got := ""
				if c.Hypotheses != nil {
					got = c.Hypotheses.SetID
				}
				if got != tt.set || c.Join != tt.join || c.LaterSets != tt.later {
					t.Errorf("set %q by %q, %d later", got, c.Join, c.LaterSets)
				}
			})
		})
	}
}

func TestMassOfHypotheses(t *testing.T) {
	other := func(d *events.HypothesesRecorded, p float64) *events.HypothesesRecorded { d.OtherP = &p; return d }
	for _, tt := range []struct {
		name    string
		d       *events.HypothesesRecorded
		mass    *float64
		unknown int
		over    bool
	}{
		{"none given", set("s", -1, -1), nil, 2, false},
		{"some given", set("s", 0.25, -1), ptr(0.25), 1, false},
		{"none listed", other(set("s", -1), 0), ptr(0.0), 1, false},
		{"one", other(set("s", 0.5, 0.25), 0.25), ptr(1.0), 0, false},
		{"one but for rounding", set("s", 0.1, 0.2, 0.3, 0.4), ptr(1.0), 0, false},
		{"over one", other(set("s", 0.5, 0.5), 0.001), ptr(1.001), 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(piper, prod, tt.d)
			fold(t, l, func(s *projector.State) {
				h := must[[]view.HypothesisSet](t)(view.FindHypotheses(s, "s"))[0]
				if (h.Mass == nil) != (tt.mass == nil) || h.Mass != nil && (*h.Mass-*tt.mass > 1e-12 || *tt.mass-*h.Mass > 1e-12) ||
					h.Unknown != tt.unknown || h.OverOne != tt.over {
					t.Errorf("%+v", h)
				}
			})
		})
	}
}

// TestEvidenceOfAClaim: only what was delivered before the claim counts, and
// only with the content that the claim pins.
func TestEvidenceOfAClaim(t *testing.T) {
	l := ledgertest.New()
	sha := func(c string) string { return strings.Repeat(c, 64) }
	deliver := func(id, content string) ledger.Seq {
		return l.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: id, SourceID: "src", SHA256: sha(content)})
	}
	first := deliver("twice", "a")
	second := deliver("twice", "b")
	deliver("twice", "a")
	l.Put(dispatcher, "shadow", &events.EvidenceDelivered{EvidenceID: "elsewhere", SourceID: "src", SHA256: sha("a")})
	called := l.Put(dispatcher, prod, call("call", "bash"))
	c := claim("c", "asserted")
	c.EvidenceIDs = []string{"twice", "later", "elsewhere", "call", "never", "twice"}
	c.EvidenceSnapshots = []events.EvidenceSnapshot{{EvidenceID: "twice", SHA256: sha("b")}, {EvidenceID: "later", SHA256: sha("a")}, {EvidenceID: "pinned", SHA256: sha("c")}}
	l.Put(piper, prod, c)
	deliver("later", "a")
	deliver("pinned", "c")
	l.Put(piper, prod, &events.EvidenceDelivered{EvidenceID: "own", SourceID: "src", SHA256: sha("a")})
	fold(t, l, func(s *projector.State) {
		var got []string
		for _, u := range getCase(t, s, prod, "c").Evidence {
			got = append(got, fmt.Sprintf("%s %d %v %d", u.EvidenceID, u.DeliveredSeq, u.SHA256 != nil, u.ContentSeq))
		}
		want := []string{
			fmt.Sprintf("twice %d true %d", first, second), "later 0 true 0", "elsewhere 0 false 0", fmt.Sprintf("call %d false 0", called), "never 0 false 0", "pinned 0 true 0",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		h := must[view.ClaimHistory](t)(view.GetClaimHistory(s, must[*view.Claim](t)(view.GetClaim(s, prod, "c"))))
		if !slices.Equal(h.Undelivered, []string{"later", "elsewhere", "never", "pinned"}) {
			t.Errorf("undelivered %v", h.Undelivered)
		}
		if p := parked(t, s); !slices.Equal(p, []string{fmt.Sprintf("claims/%d", l.Now().Sub(ledgertest.Start)/time.Second)}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestPages: the pages of a listing show each of its values once, and of another
// listing nothing.
func TestPages(t *testing.T) {
	l := ledgertest.New()
	const claims = 500
	for i := range claims {
		id := fmt.Sprintf("claim-%d", i)
		l.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: id, Status: "hypothesis"})
		for n := range i % 3 {
			l.Put("agent/piper", "production", &events.HypothesesRecorded{SetID: fmt.Sprintf("set-%d-%d", i, n), ClaimID: &id})
		}
	}
	fold(t, l, func(s *projector.State) {
		pages, err := view.AllClaims.Pages(s, "production")
		if err != nil || len(pages) < 4 {
			t.Fatalf("%d pages, %v", len(pages), err)
		}
		seen := map[string]bool{}
		for _, page := range pages {
			on := s.On(page, view.AllClaims.Whole("production"), view.AllHypotheses.Whole("production"))
			err := view.ListShadowCases(on, "production", func(sc *view.ShadowCase) error {
				var n int
				fmt.Sscanf(sc.Claim.ClaimID, "claim-%d", &n)
				if seen[sc.Claim.ClaimID] || sc.LaterSets != int64(n%3) {
					t.Errorf("%s: seen %v, %d later sets", sc.Claim.ClaimID, seen[sc.Claim.ClaimID], sc.LaterSets)
				}
				seen[sc.Claim.ClaimID] = true
				return nil
			})
			if err == nil {
				err = view.ListHypotheses(on, "production", func(h *view.HypothesisSet) error { return fmt.Errorf("%s is shown", h.SetID) })
			}
			if err != nil {
				t.Error(err)
			}
		}
		if len(seen) != claims {
			t.Errorf("the pages have %d claims of %d", len(seen), claims)
		}
	})
}
