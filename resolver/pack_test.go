package resolver

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"assay/ledger"
	"assay/resolver/criterion"
)

// genText draws texts of every kind that has a form of its own, and almost.
func genText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(packedWords), rapid.String(), rapid.Custom(func(t *rapid.T) string {
		var u uuid.UUID
		copy(u[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		return rapid.SampledFrom([]string{"", "x"}).Draw(t, "more") + u.String()
	}), rapid.Just("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"))
}

// genTime draws times that RFC 3339 can say.
func genTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nano")).UTC()
	})
}

func genShelved(t *rapid.T) *prediction {
	text, at := genText(), genTime()
	p := &prediction{
		key: predKey{text.Draw(t, "principal"), text.Draw(t, "id")}, seq: ledger.Seq(rapid.Uint64().Draw(t, "seq")), eventID: text.Draw(t, "event"),
		episode: text.Draw(t, "episode"), namespace: text.Draw(t, "namespace"), recordedAt: at.Draw(t, "recorded"), p: rapid.Float64().Draw(t, "p"),
		state: Settled, shelved: true, deadline: at.Draw(t, "deadline"), since: at.Draw(t, "since"), until: at.Draw(t, "until"),
		window: criterion.Span{Start: at.Draw(t, "start"), End: at.Draw(t, "end")},
		ruling: ruling{text.Draw(t, "verdict"), text.Draw(t, "reason"), text.Draw(t, "kind")},
		lastID: text.Draw(t, "last"), lastCut: ledger.Seq(rapid.Uint64().Draw(t, "cut")), foreknown: text.Draw(t, "foreknown"),
	}
	if rapid.Bool().Draw(t, "opp") {
		s := text.Draw(t, "opportunity")
		p.opp = &s
	}
	for range rapid.IntRange(0, 3).Draw(t, "clauses") {
		p.knownTo = append(p.knownTo, at.Draw(t, "known"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "reports") {
		p.reports = append(p.reports, report{
			ledger.Seq(rapid.Uint64().Draw(t, "report")), ledger.Leaf([]byte(text.Draw(t, "leaf"))), text.Draw(t, "who"), text.Draw(t, "verdict"), text.Draw(t, "kind"),
		})
	}
	if rapid.Bool().Draw(t, "act") {
		p.act = &action{ledger.Seq(rapid.Uint64().Draw(t, "call")), ledger.Seq(rapid.Uint64().Draw(t, "by")), text.Draw(t, "target"), text.Draw(t, "of"), at.Draw(t, "began"), at.Draw(t, "ended")}
	}
	return p
}

// What is packed comes back as it was; a part of it is nothing.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genShelved(t)
		packed := p.pack()
		got, ok := unpack(packed)
		if !ok || !reflect.DeepEqual(got, p) {
			t.Fatalf("%v\n%+v\nwant\n%+v", ok, got, p)
		}
		if g := glanceAt(packed); g != (glance{p.seq, p.deadline, p.ruling.verdict, p.key.principal}) {
			t.Fatalf("a glance at %+v shows %+v", p, g)
		}
		if _, ok := unpack(packed[:rapid.IntRange(0, len(packed)-1).Draw(t, "cut")]); ok {
			t.Fatal("a part of it is taken")
		}
		if _, ok := unpack(packed + "\x00"); ok {
			t.Fatal("more than it is taken")
		}
	})
}

// Whatever bytes are taken for a packed prediction are read to an end.
func FuzzUnpack(f *testing.F) {
	p := &prediction{key: predKey{"agent/piper", "p"}, recordedAt: epoch, reports: make([]report, 2), act: &action{}, knownTo: []time.Time{epoch}}
	f.Add(p.pack())
	f.Fuzz(func(t *testing.T, packed string) {
		if p, ok := unpack(packed); ok {
			if again, ok := unpack(p.pack()); !ok || !reflect.DeepEqual(again, p) && p.p == p.p {
				t.Fatalf("%+v\nis packed as\n%+v", p, again)
			}
		}
	})
}
