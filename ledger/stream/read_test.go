package stream

import (
	"testing"

	"assay/ledger"
)

func TestPositionOf(t *testing.T) {
	for name, c := range map[string]struct {
		reply   string
		seq     ledger.Seq
		pending uint64
		bad     bool
	}{
		"short":         {reply: "$JS.ACK.LEDGER.abc.1.42.7.1700000000000000000.9", seq: 42, pending: 9},
		"long":          {reply: "$JS.ACK.hub.ACCHASH.LEDGER.abc.1.42.7.1700000000000000000.9", seq: 42, pending: 9},
		"long, token":   {reply: "$JS.ACK._.ACCHASH.LEDGER.abc.1.42.7.1700000000000000000.0.xyz", seq: 42},
		"none":          {bad: true},
		"other subject": {reply: "_INBOX.a.b.c.d.e.f.g.h", bad: true},
		"too short":     {reply: "$JS.ACK.LEDGER.abc.1.42.7.17", bad: true},
		"no number":     {reply: "$JS.ACK.LEDGER.abc.1.x.7.17.9", bad: true},
		"no pending":    {reply: "$JS.ACK.LEDGER.abc.1.42.7.17.", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			seq, pending, err := positionOf(c.reply)
			if (err != nil) != c.bad {
				t.Fatal(err)
			}
			if err == nil && (seq != c.seq || pending != c.pending) {
				t.Errorf("seq %d, pending %d; want %d, %d", seq, pending, c.seq, c.pending)
			}
		})
	}
}
