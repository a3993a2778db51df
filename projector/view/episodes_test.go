package view_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestEpisodes(t *testing.T) {
	l := ledgertest.New()
	gate := &events.GateChosen{Action: "KNOW"}
	put := func(who, n string) ledger.Seq {
		return l.Put(who, prod, gate, ledgertest.Episode("ep"), ledgertest.Sequence(n))
	}
	for _, n := range []string{"3", "4", "8", "6", "6", "4", "1", "x", "9"} {
		put(piper, n)
	}
	put(worker, "1") // another source's numbers are its own
	l.Put(piper, prod, gate, ledgertest.Episode("ep"), ledgertest.At(l.Now().Add(view.MaxSkew+time.Second)))
	last := l.Put(piper, prod, gate, ledgertest.Episode("ep"), ledgertest.At(l.Now().Add(view.MaxSkew)))
	l.Put(piper, prod, gate, ledgertest.At(l.Now().Add(time.Hour)))
	l.Put(piper, "sandbox", gate, ledgertest.Episode("ep"))
	fold(t, l, func(s *projector.State) {
		e := must[*view.Episode](t)(view.GetEpisode(s, prod, "ep"))
		if e.FirstSeq != 1 || e.LastSeq != last || e.Records != 12 || e.Counts["gate.chosen"] != 12 || e.Skewed != 1 {
			t.Errorf("%+v", e)
		}
		var got []view.SourceSequence
		if err := view.ListSequences(s, prod, "ep", func(q *view.SourceSequence) error { got = append(got, *q); return nil }); err != nil {
			t.Fatal(err)
		}
		want := view.SourceSequence{
			Namespace: prod, EpisodeID: "ep", Principal: piper, Source: "urn:test:" + piper, First: 1, Last: 9, Records: 8,
			Missing: []view.Range{{2, 2}, {5, 5}, {7, 7}}, Late: 2, Repeats: 2, Malformed: 1,
		}
		if len(got) != 2 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		skews := 0
		if err := view.ListSkews(s, prod, func(*view.Skew) error { skews++; return nil }); err != nil || skews != 2 {
			t.Errorf("%d skewed records, %v", skews, err)
		}
	})
}

// TestSequenceGapsAreBounded: a source that leaves every other number out does
// not make its entry grow for ever.
func TestSequenceGapsAreBounded(t *testing.T) {
	l := ledgertest.New()
	for n := range 200 {
		l.Put(piper, prod, &events.GateChosen{Action: "KNOW"}, ledgertest.Episode("ep"), ledgertest.Sequence(fmt.Sprint(2*n)))
	}
	fold(t, l, func(s *projector.State) {
		if err := view.ListSequences(s, prod, "ep", func(q *view.SourceSequence) error {
			if len(q.Missing) != 64 || q.Forgotten != 199-64 {
				t.Errorf("%d ranges, %d forgotten", len(q.Missing), q.Forgotten)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestListEpisodesAfter(t *testing.T) {
	l := ledgertest.New()
	ids := []string{"a", "a~imported", "b", "b/c", "c\x00d", "c\x01", "é"}
	for _, id := range ids {
		l.Put(piper, prod, &events.GateChosen{Action: "KNOW"}, ledgertest.Episode(id))
		l.Put(piper, "sandbox", &events.GateChosen{Action: "KNOW"}, ledgertest.Episode("other"+id))
		l.Put(piper, prod, &events.GateChosen{Context: events.Context{Capture: ptr("imported")}, Action: "KNOW"}, ledgertest.Episode(id))
	}
	fold(t, l, func(s *projector.State) {
		// Page by page they are those that a listing has, each once.
		var all, paged []string
		if err := view.ListEpisodes(s, prod, func(e *view.Episode) error { all = append(all, e.Namespace+" "+e.EpisodeID); return nil }); err != nil {
			t.Fatal(err)
		}
		for ns, after := prod, ""; ; {
			var page []string
			err := view.ListEpisodesAfter(s, ns, after, func(e *view.Episode) error {
				page = append(page, e.Namespace+" "+e.EpisodeID)
				ns, after = e.Namespace, e.EpisodeID
				if len(page) == 2 {
					return kv.ErrStop
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 || len(paged) > len(all) {
				break
			}
			paged = append(paged, page...)
		}
		if len(all) != 2*len(ids) || !slices.Equal(all, paged) {
			t.Errorf("all %q, page by page %q", all, paged)
		}
	})
}
