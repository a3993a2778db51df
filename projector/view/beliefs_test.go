package view_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// sha is a content hash that tests can tell apart.
func sha(n int) string { return fmt.Sprintf("%064x", n) }

func belief(id string, version int64, content int, parents ...string) *events.BeliefCreated {
	return &events.BeliefCreated{BeliefID: id, Version: &version, ContentSHA256: sha(content), Provenance: &events.Provenance{
		Origin: ptr("derived"), Lineage: &events.Lineage{Parents: parents},
	}}
}

func revised(id string, version int64, content int) *events.BeliefRevised {
	return &events.BeliefRevised{BeliefID: id, Change: "content", NewVersion: &version, ContentSHA256: sha(content)}
}

// TestBeliefAsOf: what was believed is answered for every record.
func TestBeliefAsOf(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, belief("a", 1, 10))                                                                  // 1
	l.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "c1", BeliefID: "a"})                          // 2
	l.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "c2", BeliefID: "a"})                          // 3
	r := revised("a", 2, 20)                                                                                //
	r.ChallengeID = ptr("c1")                                                                               //
	l.Put(piper, prod, r)                                                                                   // 4
	r = revised("a", 3, 30)                                                                                 //
	r.ChallengeID = ptr("c2")                                                                               //
	l.Put(piper, prod, r)                                                                                   // 5
	l.Put(dispatcher, prod, belief("a", 3, 30))                                                             // 6: an audit of the store
	l.Put(piper, prod, &events.BeliefSuperseded{BeliefID: "a", SupersededBy: "b"})                          // 7
	l.Put(piper, prod, &events.BeliefSuperseded{BeliefID: "a", SupersededBy: "z"})                          // 8: the first counts
	l.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "c1", BeliefID: "a"})                          // 9: told again
	l.Put(piper, prod, &events.BeliefChallenged{ChallengeID: "c3", BeliefID: "nobody"})                     // 10: an orphan
	l.Put(piper, prod, &events.BeliefRevised{BeliefID: "nobody", Change: "content", ContentSHA256: sha(1)}) // 11: another
	r = revised("a", 4, 40)
	r.ChallengeID = ptr("c9")
	l.Put(piper, prod, r)                                 // 12: answers nothing
	l.Put(piper, prod, &events.BeliefRead{BeliefID: "a"}) // 13: no logger takes that
	fold(t, l, func(s *projector.State) {
		for at, want := range map[int]string{
			1: "held v1", 2: "challenged v1", 3: "challenged v1", 4: "challenged v2", 5: "held v3", 6: "held v3", 7: "superseded v3", 11: "superseded v3", 12: "superseded v4",
		} {
			var got string
			if err := view.ListBeliefs(s, prod, ledger.Seq(at), func(v *view.Belief) error {
				got += fmt.Sprintf("%s v%d", v.Status, *v.Version)
				return nil
			}); err != nil || got != want {
				t.Errorf("at %d: %q %v, want %q", at, got, err, want)
			}
		}
		v := must[*view.Belief](t)(view.GetBelief(s, prod, "a", 0))
		if *v.SupersededBy != "b" || v.ObservedSeq != 6 || v.OpenChallenges != 0 || v.Repeats != 2 || v.ContentSeq != 12 {
			t.Errorf("%+v", v)
		}
		if v := must[*view.Belief](t)(view.GetBelief(s, prod, "a", 5)); v.ObservedSeq != 0 || v.SupersededBy != nil {
			t.Errorf("at 5: %+v", v)
		}
		if _, err := view.GetBelief(s, prod, "nobody", 5); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("nobody's: %v", err)
		}
		answered := map[string]uint64{}
		if err := view.ListChallenges(s, prod, func(c *view.Challenge) error { answered[c.ChallengeID] = uint64(c.AnsweredSeq); return nil }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(answered) != "map[c1:4 c2:5]" {
			t.Errorf("answered %v", answered)
		}
		if o := orphans(t, s, view.Beliefs, prod); !slices.Equal(o, []string{"10 nobody unknown", "11 nobody unknown", "12 c9 unknown"}) {
			t.Errorf("orphans %q", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"beliefs/13"}) {
			t.Errorf("parked %v", p)
		}
	})
}

// TestContentChanges: every change of content is found once, by whatever it
// becomes known, and is versioned, silent or not known to be either.
func TestContentChanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(put func(who string, d events.Payload))
		want string // by, old>new, versioned
	}{
		{"a new version", func(put func(string, events.Payload)) { put(piper, revised("a", 2, 20)) }, "[belief.revised 10>20 true]"},
		{"no version", func(put func(string, events.Payload)) {
			put(dispatcher, &events.BeliefRevised{BeliefID: "a", Change: "content", ContentSHA256: sha(20)})
		}, "[belief.revised 10>20 false]"},
		{"the old version", func(put func(string, events.Payload)) { put(piper, revised("a", 1, 20)) }, "[belief.revised 10>20 false]"},
		{"told by agent and audit", func(put func(string, events.Payload)) {
			put(piper, revised("a", 2, 20))
			d := revised("a", 2, 20)
			d.OldContentSHA256, d.OldVersion = ptr(sha(10)), ptr(int64(1))
			put(dispatcher, d)
		}, "[belief.revised 10>20 true]"},
		{"back to what it was", func(put func(string, events.Payload)) {
			put(piper, revised("a", 2, 20))
			put(piper, revised("a", 3, 10))
		}, "[belief.revised 10>20 true belief.revised 20>10 true]"},
		{"metadata alone", func(put func(string, events.Payload)) {
			put(piper, &events.BeliefRevised{BeliefID: "a", Change: "metadata", ContentSHA256: sha(10), Authorised: ptr(true)})
		}, "[]"},
		{"a new version of the same content", func(put func(string, events.Payload)) { put(piper, revised("a", 2, 10)) }, "[]"},
		{"an edit that is called metadata", func(put func(string, events.Payload)) {
			put(piper, &events.BeliefRevised{BeliefID: "a", Change: "metadata", ContentSHA256: sha(20)})
		}, "[belief.revised 10>20 false]"},
		{"found by the next revision", func(put func(string, events.Payload)) {
			d := revised("a", 2, 30)
			d.OldContentSHA256, d.OldVersion = ptr(sha(20)), ptr(int64(1))
			put(piper, d)
		}, "[belief.revised 20>30 true gap 10>20 false]"},
		{"found by the next revision, of a version that nobody told of", func(put func(string, events.Payload)) {
			d := revised("a", 3, 30)
			d.OldContentSHA256, d.OldVersion = ptr(sha(20)), ptr(int64(2))
			put(piper, d)
		}, "[belief.revised 20>30 true gap 10>20 true]"},
		{"found by a read, once", func(put func(string, events.Payload)) {
			for range 2 {
				put(dispatcher, &events.BeliefRead{BeliefID: "a", Version: ptr(int64(1)), ContentSHA256: ptr(sha(20))})
			}
		}, "[belief.read 10>20 false]"},
		{"a read of no known version", func(put func(string, events.Payload)) {
			put(dispatcher, &events.BeliefRead{BeliefID: "a", ContentSHA256: ptr(sha(20))})
		}, "[]"}, // it may be an older one
		{"a read of an older version", func(put func(string, events.Payload)) {
			put(piper, revised("a", 2, 20))
			put(dispatcher, &events.BeliefRead{BeliefID: "a", Version: ptr(int64(1)), ContentSHA256: ptr(sha(10))})
		}, "[belief.revised 10>20 true]"},
		{"found by an audit", func(put func(string, events.Payload)) { put(dispatcher, belief("a", 1, 20)) }, "[belief.created 10>20 false]"},
		{"rewritten, as a version that is not known", func(put func(string, events.Payload)) {
			put(dispatcher, &events.BeliefTransformed{TransformID: "t", Op: "rewritten", Outputs: []events.BeliefOutput{{BeliefID: "a", ContentSHA256: ptr(sha(20))}}})
		}, "[belief.transformed 10>20 unknown]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(piper, prod, belief("a", 1, 10))
			tt.then(func(who string, d events.Payload) { l.Put(who, prod, d) })
			fold(t, l, func(s *projector.State) {
				got := []string{}
				if err := view.ListContentChanges(s, prod, func(c *view.ContentChange) error {
					versioned := "unknown"
					if c.Versioned != nil {
						versioned = fmt.Sprint(*c.Versioned)
					}
					var before, after int
					fmt.Sscanf(*c.OldSHA256, "%x", &before)
					fmt.Sscanf(c.NewSHA256, "%x", &after)
					got = append(got, fmt.Sprintf("%s %d>%d %s", c.By, before, after, versioned))
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(got) != tt.want {
					t.Errorf("%v, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestStaleReads: what rests on something that changed since is stale, however far
// down, until it is looked at again.
func TestStaleReads(t *testing.T) {
	gone := func(id, by string) events.Payload { return &events.BeliefSuperseded{BeliefID: id, SupersededBy: by} }
	challenge := func(id string) events.Payload { return &events.BeliefChallenged{ChallengeID: "c-" + id, BeliefID: id} }
	for _, tt := range []struct {
		name string
		then []events.Payload // behind a (1) <- m (2) <- d (3)
		want string           // of a read of d
	}{
		{"nothing happened", nil, "held 0"},
		{"the parent is superseded", []events.Payload{gone("m", "x")}, "held 1 m superseded@4"},
		{"far above", []events.Payload{gone("a", "x")}, "held 1 a superseded@4"},
		{"challenged", []events.Payload{challenge("a")}, "held 1 a challenged@4"},
		{"revised", []events.Payload{revised("a", 2, 11)}, "held 1 a revised@4"},
		{"the first of two; m was revised with a in mind", []events.Payload{challenge("m"), gone("a", "x"), revised("m", 2, 22)}, "held 2 m challenged@4"},
		{"looked at since", []events.Payload{gone("a", "x"), revised("d", 2, 33)}, "held 0"},
		{"the one between was looked at, and changed", []events.Payload{gone("a", "x"), revised("m", 2, 22)}, "held 1 m revised@5"},
		{"the one between was looked at, and kept", []events.Payload{gone("a", "x"), &events.BeliefRevised{
			BeliefID: "m", Change: "metadata", ContentSHA256: sha(2),
		}}, "held 0"},
		{"only the challenge was answered", []events.Payload{challenge("a"), &events.BeliefRevised{
			BeliefID: "a", Change: "metadata", ContentSHA256: sha(1), ChallengeID: ptr("c-a"),
		}}, "held 0"}, // the ancestor was kept as it was
		{"superseded by the belief itself", []events.Payload{gone("m", "d")}, "held 0"},
		{"a cycle", []events.Payload{&events.LineageChanged{BeliefID: "a", NewLineage: &events.Lineage{Parents: []string{"d"}}}, gone("a", "x")}, "held 1 a superseded@5"},
		{"no longer a parent", []events.Payload{gone("m", "x"), &events.LineageChanged{BeliefID: "d", NewLineage: &events.Lineage{Parents: []string{}}}}, "held 0"},
		{"itself superseded", []events.Payload{gone("d", "x")}, "superseded 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(piper, prod, belief("a", 1, 1))
			l.Put(piper, prod, belief("m", 1, 2, "a"))
			l.Put(piper, prod, belief("d", 1, 3, "m", "not recorded"))
			for _, d := range tt.then {
				l.Put(piper, prod, d)
			}
			l.Put(dispatcher, prod, &events.BeliefRead{BeliefID: "d", Version: ptr(int64(1)), PendingInvalidation: ptr(false)})
			l.Put(piper, prod, gone("d", "later")) // changes nothing of what was read
			fold(t, l, func(s *projector.State) {
				var got []string
				if err := view.ListBeliefReads(s, prod, func(r *view.BeliefRead) error {
					text := fmt.Sprintf("%s %d", r.Status, r.StaleCauses)
					if r.StaleBy != nil {
						text += fmt.Sprintf(" %s %s@%d", r.StaleBy.BeliefID, r.StaleBy.Cause, r.StaleBy.Seq)
					}
					got = append(got, text)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, []string{tt.want}) {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestReadVersions: an old version is one that the store, or else the ledger, knows
// a newer one of.
func TestReadVersions(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, belief("a", 2, 1))
	read := func(id string, version, current *int64) {
		l.Put(dispatcher, prod, &events.BeliefRead{BeliefID: id, Version: version, CurrentVersion: current})
	}
	one, two, three := ptr(int64(1)), ptr(int64(2)), ptr(int64(3))
	read("a", one, nil)
	read("a", two, nil)
	read("a", two, three)
	read("a", nil, two)
	read("a", three, nil) // the ledger is behind the store
	read("nobody", one, two)
	read("nobody", one, nil)
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListBeliefReads(s, prod, func(r *view.BeliefRead) error {
			old := "?"
			if r.OldVersion != nil {
				old = fmt.Sprint(*r.OldVersion)
			}
			got = append(got, r.Status+" "+old)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"held true", "held false", "held true", "held ?", "held false", "unknown true", "unknown ?"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestLineage: losses go to the writer who made them.
func TestLineage(t *testing.T) {
	l := ledgertest.New()
	seen := belief("seen", 1, 1)
	seen.Provenance.Origin = ptr("observation")
	l.Put(piper, prod, belief("derived", 1, 2, "seen"))
	l.Put(piper, prod, seen)
	out := func(id string, origin *string, from ...string) events.BeliefOutput {
		return events.BeliefOutput{BeliefID: id, From: from, Provenance: &events.Provenance{Origin: origin}}
	}
	l.Put(dispatcher, prod, &events.BeliefTransformed{
		TransformID: "t", Op: "summarised", Writer: ptr("nightly/2"),
		Inputs: []events.BeliefInput{{BeliefID: "derived"}, {BeliefID: "seen"}, {BeliefID: "unread"}, {BeliefID: "forgotten"}},
		Outputs: []events.BeliefOutput{
			out("kept", ptr("derived"), "derived"),
			out("relabelled", ptr("observation"), "derived", "seen"),
			out("unlabelled", nil, "derived"),
			out("lost", ptr("derived")), // rests on any of the inputs
			out("plain", ptr("observation"), "seen"),
			out("unsure", ptr("derived"), "seen", "unread", "elsewhere"),
		},
	})
	l.Put(dispatcher, prod, &events.BeliefTransformed{TransformID: "t", Op: "merged", Outputs: []events.BeliefOutput{out("again", nil)}}) // the first counts
	l.Put(piper, prod, &events.LineageChanged{BeliefID: "derived", NewLineage: &events.Lineage{Parents: []string{}}, Context: events.Context{Component: ptr("memory")}})
	l.Put(piper, prod, &events.LineageChanged{BeliefID: "derived"}) // not known what to
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListLineageByWriter(s, prod, func(w *view.WriterLineage) error {
			got = append(got, fmt.Sprintf("%s: %d lost %d ?%d, derived %d lost %d origin %d ?%d", w.Writer, w.Steps, w.Lost, w.LostUnknown, w.Derived, w.DerivedLost, w.OriginLost, w.OriginUnknown))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []string{
			"agent/piper: 1 lost 0 ?1, derived 1 lost 0 origin 0 ?1",
			"memory: 1 lost 1 ?0, derived 1 lost 1 origin 0 ?1",
			"nightly/2: 6 lost 1 ?0, derived 4 lost 1 origin 1 ?1",
		}; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		tr := must[[]view.Transform](t)(view.FindTransform(s, "t"))[0]
		if fmt.Sprint(tr.Dropped) != "[forgotten]" || tr.Repeats != 1 || len(tr.Outputs) != 6 {
			t.Errorf("%+v", tr)
		}
		f := must[[]view.FoundBelief](t)(view.FindBelief(s, "unsure"))[0]
		if len(f.Lineage) != 1 || f.Lineage[0].Derived != nil || fmt.Sprint(f.Lineage[0].Foreign) != "[elsewhere]" || fmt.Sprint(f.Parents) != "[seen unread elsewhere]" {
			t.Errorf("%+v", f)
		}
		if f = must[[]view.FoundBelief](t)(view.FindBelief(s, "derived"))[0]; fmt.Sprint(f.Lineage[0].Missing) != "[seen]" || len(f.Parents) != 0 || *f.Provenance.Origin != "derived" {
			t.Errorf("%+v", f)
		}
	})
}

// TestParents: a belief rests on what its last form says, and where that says
// nothing on what was known.
func TestParents(t *testing.T) {
	l := ledgertest.New()
	rewrite := func(id string, lineage *events.Lineage, from ...string) {
		l.Put(dispatcher, prod, &events.BeliefTransformed{TransformID: id, Op: "rewritten", Outputs: []events.BeliefOutput{
			{BeliefID: "a", From: from, Provenance: &events.Provenance{Lineage: lineage}},
		}})
	}
	l.Put(piper, prod, belief("a", 1, 1, "x"))
	rewrite("t2", nil, "a", "y")
	rewrite("t3", &events.Lineage{Parents: []string{"z", "y"}}, "y", "y")
	rewrite("t4", nil)
	rewrite("t5", &events.Lineage{Parents: []string{"w"}})
	l.Put(piper, prod, &events.BeliefRevised{BeliefID: "a", Change: "metadata", ContentSHA256: sha(1), Provenance: &events.Provenance{}})
	l.Put(piper, prod, &events.BeliefRevised{BeliefID: "a", Change: "metadata", ContentSHA256: sha(1), Provenance: &events.Provenance{Lineage: &events.Lineage{Parents: []string{}}}})
	fold(t, l, func(s *projector.State) {
		for at, want := range []string{1: "[x]", 2: "[y]", 3: "[y z]", 4: "[y z]", 5: "[w]", 6: "[w]", 7: "[]"} {
			if at == 0 {
				continue
			}
			if v := must[*view.Belief](t)(view.GetBelief(s, prod, "a", ledger.Seq(at))); fmt.Sprint(v.Parents) != want {
				t.Errorf("at %d: %v, want %s", at, v.Parents, want)
			}
		}
	})
}

// TestBeliefsStayInTheirNamespace: an audit's word counts where the belief was
// recorded.
func TestBeliefsStayInTheirNamespace(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, "sandbox", belief("a", 1, 1))
	l.Put(dispatcher, prod, belief("a", 1, 1))
	l.Put(dispatcher, prod, &events.BeliefRevised{BeliefID: "a", Change: "content", ContentSHA256: sha(2)})
	l.Put(piper, prod, &events.BeliefRevised{BeliefID: "a", Change: "content", ContentSHA256: sha(3)}) // an agent acts in its own
	fold(t, l, func(s *projector.State) {
		found := must[[]view.FoundBelief](t)(view.FindBelief(s, "a"))
		if len(found) != 1 || found[0].Namespace != "sandbox" || *found[0].ContentSHA256 != sha(2) || found[0].ObservedSeq != 2 || len(found[0].History) != 3 {
			t.Errorf("%+v", found)
		}
		if o := orphans(t, s, view.Beliefs, prod); !slices.Equal(o, []string{"4 a unknown"}) {
			t.Errorf("orphans %q", o)
		}
	})
}

// TestBeliefWithoutVersion: of a store that counts no versions it is not known whether
// what a first look found changed came with one; what its watcher saw change did not,
// unless the agent told of it first.
func TestBeliefWithoutVersion(t *testing.T) {
	l := ledgertest.New()
	seen := func(content int) ledger.Seq {
		return l.Put("dispatcher/audit", prod, &events.BeliefCreated{BeliefID: "b", ContentSHA256: sha(content)})
	}
	changed := func(content int) ledger.Seq {
		return l.Put("dispatcher/audit", prod, &events.BeliefRevised{BeliefID: "b", Change: "content", ContentSHA256: sha(content)})
	}
	seen(1)
	seen(1)
	first := seen(2) // by a watcher that knew nothing
	l.Put(piper, prod, revised("b", 7, 3))
	changed(3) // what the agent told of
	silent := changed(4)
	l.Put("dispatcher/audit", prod, &events.BeliefRevised{BeliefID: "b", Change: "metadata", ContentSHA256: sha(4), Authorised: ptr(true)})
	fold(t, l, func(s *projector.State) {
		var got []string
		err := view.ListContentChanges(s, prod, func(c *view.ContentChange) error {
			versioned := "unknown"
			if c.Versioned != nil {
				versioned = fmt.Sprint(*c.Versioned)
			}
			got = append(got, fmt.Sprintf("%d %s", c.Seq, versioned))
			return nil
		})
		want := []string{fmt.Sprintf("%d unknown", first), "4 unknown", fmt.Sprintf("%d false", silent)}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	})
}

// TestStoresEditIsNoReview: what an audit of the store saw edited leaves a belief as stale
// as it was; the agent's own edit is a review.
func TestStoresEditIsNoReview(t *testing.T) {
	for editor, stale := range map[string]bool{"dispatcher/audit": true, piper: false} {
		l := ledgertest.New()
		l.Put(piper, prod, belief("base", 1, 1))
		l.Put(piper, prod, belief("b", 1, 2, "base"))
		l.Put(piper, prod, revised("base", 2, 3))
		l.Put(editor, prod, &events.BeliefRevised{BeliefID: "b", Change: "metadata", ContentSHA256: sha(2), Authorised: ptr(true)})
		l.Put("dispatcher/main", prod, &events.BeliefRead{BeliefID: "b"})
		fold(t, l, func(s *projector.State) {
			err := view.ListBeliefReads(s, prod, func(r *view.BeliefRead) error {
				if (r.StaleBy != nil) != stale {
					t.Errorf("edited by %s: %+v", editor, r.StaleBy)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
