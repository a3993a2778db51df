package projector_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func flip(seq ledger.Seq, at func([]byte) int) func(ledger.Seq, []byte) []byte {
	return func(s ledger.Seq, body []byte) []byte {
		if s != seq {
			return body
		}
		body = append([]byte(nil), body...)
		body[at(body)] ^= 1
		return body
	}
}

func TestHalts(t *testing.T) {
	inEvent := func(b []byte) int { return strings.Index(string(b), `"source":"urn`) + 12 }
	tests := []struct {
		name   string
		folded int // before the change
		change func(l *ledgertest.Ledger)
		want   error
		seq    ledger.Seq // of the evidence
		stands ledger.Seq // the views afterwards
	}{
		{"gap", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				if s == 20 {
					return nil
				}
				return b
			}
		}, projector.ErrGap, 21, 19},
		{"feed ends early", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				if s > 40 {
					return nil
				}
				return b
			}
		}, projector.ErrGap, 41, 40},
		{"flipped byte", 0, func(l *ledgertest.Ledger) { l.Mangle = flip(20, inEvent) }, projector.ErrCorrupt, 21, 20},
		{"flipped byte in prev", 0, func(l *ledgertest.Ledger) {
			l.Mangle = flip(20, func(b []byte) int { return strings.Index(string(b), `"prev":"`) + 8 })
		}, projector.ErrCorrupt, 20, 19},
		{"another's sequence", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				return []byte(strings.Replace(string(b), `{"v":1,"seq":20,`, `{"v":1,"seq":19,`, 1))
			}
		}, projector.ErrCorrupt, 20, 19},
		{"later format", 0, func(l *ledgertest.Ledger) {
			l.Mangle = func(s ledger.Seq, b []byte) []byte {
				return []byte(strings.Replace(string(b), `{"v":1,"seq":20,`, `{"v":2,"seq":20,`, 1))
			}
		}, ledger.ErrUnsupportedVersion, 20, 19},
		{"two successors", 0, func(l *ledgertest.Ledger) {
			l.Truncate(30)
			prev := ledger.Leaf(l.Body(29))
			h := ledger.Header{Seq: 31, Prev: prev, RecordedAt: l.Now(), Principal: "agent/piper", Namespace: "production"}
			l.PutRaw(ledger.AppendRecord(nil, h, []byte(`{"a":1}`)))
		}, projector.ErrFork, 31, 30},
		{"history rewritten under the cursor", 50, func(l *ledgertest.Ledger) {
			l.Truncate(49)
			l.Mix(rand.New(rand.NewPCG(8, 8)), 10)
		}, projector.ErrFork, 50, 50},
		{"cursor past the head", 50, func(l *ledgertest.Ledger) { l.Truncate(48) }, projector.ErrAhead, 50, 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := mixed(5, 60)
			db := mustOpen(t, t.TempDir())
			defer db.Close()
			cfg := projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 7}
			if tt.folded > 0 {
				if err := mustRunner(t, cfg).CatchUp(ctx, ledger.Seq(tt.folded)); err != nil {
					t.Fatal(err)
				}
			}
			tt.change(l)
			r := mustRunner(t, cfg)
			err := r.CatchUp(ctx, 0)
			var link *projector.LinkError
			if !errors.Is(err, tt.want) || !errors.As(err, &link) || link.Seq != tt.seq {
				t.Fatalf("got %v, want %v at %d", err, tt.want, tt.seq)
			}
			st := r.Status()
			if st.Seq != tt.stands || st.Halted != err.Error() {
				t.Errorf("status %+v, want seq %d and the error", st, tt.stands)
			}
		})
	}
}

func acknowledge(l *ledgertest.Ledger, who string, seq ledger.Seq) ledger.Seq {
	return l.Put(who, "production", &events.ForeignAcknowledged{Seq: uint64(seq), SHA256: ledger.Leaf(l.Body(seq)).String()})
}

func foreignOf(t *testing.T, r *projector.Runner) (s projector.LedgerState, list []projector.Foreign) {
	t.Helper()
	err := r.View(func(st *projector.State) (err error) {
		if s, err = st.Ledger(); err != nil {
			return err
		}
		return st.Foreign(func(f projector.Foreign) error { list = append(list, f); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

func TestForeignMessage(t *testing.T) {
	l := mixed(5, 30)
	seq := l.PutRaw([]byte("\x00 somebody else's"))
	db := mustOpen(t, t.TempDir())
	defer db.Close()
	r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All()})
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s, list := foreignOf(t, r)
	if s.Records != 30 || s.Foreign != 1 || s.Unacknowledged != 1 || len(list) != 1 || list[0].Seq != seq || list[0].AcknowledgedAt != 0 {
		t.Errorf("before: %+v %+v", s, list)
	}
	acknowledge(l, "agent/piper", seq) // an agent's word is none
	ack := acknowledge(l, "operator/op", seq)
	l.Mix(rand.New(rand.NewPCG(1, 1)), 10)
	if err := r.CatchUp(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s, list = foreignOf(t, r)
	if s.Records != 42 || s.Foreign != 1 || s.Unacknowledged != 0 || list[0].AcknowledgedAt != ack {
		t.Errorf("after: %+v %+v", s, list)
	}
	if r.Status().Foreign != 1 {
		t.Errorf("status %+v", r.Status())
	}
}

// forge stores a record of somebody else: it parses, but does not link.
func forge(l *ledgertest.Ledger) ledger.Seq {
	head, _ := l.Head(ctx)
	h := ledger.Header{Seq: head + 1, RecordedAt: l.Now(), Principal: "operator/op", Namespace: "production"}
	return l.PutRaw(ledger.AppendRecord(nil, h, []byte(`{"forged":true}`)))
}

func TestForgedRecord(t *testing.T) {
	tests := []struct {
		name  string
		after func(l *ledgertest.Ledger, forged ledger.Seq)
		ok    bool
	}{
		{"nothing follows", func(*ledgertest.Ledger, ledger.Seq) {}, false},
		{"acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			acknowledge(l, "operator/op", f)
			l.Mix(rand.New(rand.NewPCG(1, 1)), 5)
		}, true},
		{"logger restarted, then acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			l.Put("logger/main", "production", &events.LoggerStarted{BootID: "b", HeadSeq: uint64(f), HeadLeaf: l.Leaf().String(), Software: "assay"})
			acknowledge(l, "operator/op", f)
		}, true},
		{"two, both acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			g := forge(l)
			acknowledge(l, "operator/op", g)
			acknowledge(l, "operator/op", f)
		}, true},
		{"two, one acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) {
			forge(l)
			acknowledge(l, "operator/op", f)
			l.Mix(rand.New(rand.NewPCG(1, 1)), 5)
		}, false},
		{"acknowledged by an agent", func(l *ledgertest.Ledger, f ledger.Seq) { acknowledge(l, "agent/piper", f) }, false},
		{"not acknowledged", func(l *ledgertest.Ledger, f ledger.Seq) { l.Mix(rand.New(rand.NewPCG(1, 1)), 5) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := mixed(5, 30)
			forged := forge(l)
			tt.after(l, forged)
			db := mustOpen(t, t.TempDir())
			defer db.Close()
			r := mustRunner(t, projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 1})
			err := r.CatchUp(ctx, 0)
			if tt.ok {
				if err != nil {
					t.Fatal(err)
				}
				if s, list := foreignOf(t, r); s.Unacknowledged != 0 || list[0].Seq != forged {
					t.Errorf("%+v %+v", s, list)
				}
				if got, want := mustDigest(t, r).SHA256, mustReplay(t, l, 0, view.All()...).SHA256; got != want {
					t.Errorf("digest %s, replay %s", got, want)
				}
				return
			}
			var link *projector.LinkError
			if !errors.Is(err, projector.ErrCorrupt) && !errors.Is(err, projector.ErrFork) || !errors.As(err, &link) || link.Seq < forged {
				t.Fatalf("got %v", err)
			}
			if at := r.Status().Seq; at != forged-1 {
				t.Errorf("views at %d, want %d: nothing behind a suspect is committed", at, forged-1)
			}
		})
	}
}
