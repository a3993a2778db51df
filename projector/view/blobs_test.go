package view_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestBlobs(t *testing.T) {
	a, b, c := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64), "sha256:"+strings.Repeat("c", 64)
	l := ledgertest.New()
	named := func(who, ns, ref string) ledger.Seq {
		return l.Put(who, ns, &events.GateChosen{Action: "KNOW"}, ledgertest.DataRef(ref))
	}
	erase := func(who, ref, reason string) ledger.Seq {
		return l.Put(who, prod, &events.BlobErased{Ref: ref, Reason: reason})
	}
	named(piper, prod, b)                            // 1
	named(piper, prod, a)                            // 2
	named(worker, prod, a)                           // 3
	named(worker, "canary", a)                       // 4
	named(piper, prod, "https://example.com/x")      // 5: not of this store
	named(piper, prod, strings.ToUpper(a))           // 6: nor this
	named(piper, prod, "sha256:"+a)                  // 7
	erase(operator, a, "subject_request")            // 8
	erase(operator, a, "again")                      // 9: the first counts
	erase(operator, c, "never_named")                // 10
	named(piper, prod, a)                            // 11: after the erasure
	forged := erase(piper, b, "an_agent_may_not_do") // 12
	fold(t, l, func(s *projector.State) {
		list := func(ns string) (out []string) {
			if err := view.ListBlobs(s, ns, func(v *view.Blob) error {
				line := fmt.Sprintf("%s %d..%d %d", v.Ref[7:8], v.FirstSeq, v.LastSeq, v.Records)
				if v.Erased != nil {
					line += fmt.Sprintf(" erased at %d: %s", v.Erased.Seq, v.Erased.Reason)
				}
				out = append(out, line)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return out
		}
		if got, want := fmt.Sprint(list(prod)), "[a 2..11 3 erased at 8: subject_request b 1..1 1]"; got != want {
			t.Errorf("production: %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(list("canary")), "[a 4..4 1 erased at 8: subject_request]"; got != want {
			t.Errorf("canary: %s, want %s", got, want)
		}
		if got := must[[]view.Blob](t)(view.FindBlob(s, a)); len(got) != 2 || got[0].Erased == nil || got[0].Erased.Repeats != 1 {
			t.Errorf("find: %+v", got)
		}
		if got := must[[]view.Blob](t)(view.FindBlob(s, c)); len(got) != 0 {
			t.Errorf("find of a blob that no record names: %+v", got)
		}
		if got := must[[]string](t)(view.BlobNamespaces(s)); fmt.Sprint(got) != "[production canary]" {
			t.Errorf("namespaces: %v", got)
		}
		var refs []string
		err := view.ListErasures(s, func(e *view.Erasure) error { refs = append(refs, e.Ref); return nil })
		if err != nil || fmt.Sprint(refs) != fmt.Sprint([]string{a, c}) {
			t.Errorf("erasures: %v, %v", refs, err)
		}
		if got, want := fmt.Sprint(parked(t, s)), fmt.Sprintf("[blobs/%d]", forged); got != want {
			t.Errorf("parked %s, want %s", got, want)
		}
		stop := errors.New("stop")
		if err := view.ListBlobs(s, prod, func(*view.Blob) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("an error of fn: %v", err)
		}
	})
}
