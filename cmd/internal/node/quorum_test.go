package node

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
	"assay/ledger/witness"
	"assay/projector/metric"
	"assay/projector/report"
)

// TestCounting: what readers may act on, from the checkpoints that are on file.
func TestCounting(t *testing.T) {
	dir := Dir(t.TempDir())
	files := dir.Logger()
	if err := os.MkdirAll(files.Checkpoints(), 0o700); err != nil {
		t.Fatal(err)
	}
	logKey, vkey := signerFor(t, "example.com/log", note.NewSigner)
	strangerKey, stranger := signerFor(t, "example.com/log", note.NewSigner)
	w, wkey := signerFor(t, "w", func(skey string) (note.Signer, error) { return fnote.NewSignerForCosignatureV1(skey) })
	wkey, err := fnote.VKeyToCosignatureV1(wkey)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := func(size uint64) ledger.Checkpoint {
		return ledger.Checkpoint{Origin: "example.com/log", Size: size, Root: ledger.Hash{byte(size)}}
	}
	signed := func(size uint64, cosigners ...note.Signer) []byte {
		raw, err := ledger.SignCheckpoint(checkpoint(size), logKey)
		if err == nil && len(cosigners) > 0 {
			text := string(raw[:strings.Index(string(raw), "\n\n")+1])
			raw, err = note.Sign(&note.Note{Text: text}, append([]note.Signer{logKey}, cosigners...)...)
		}
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if err := os.WriteFile(files.PublicKey(), []byte(vkey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(signed(8)), "\n\n")
	foreign, err := note.Sign(&note.Note{Text: text + "\n"}, strangerKey, w)
	if err != nil {
		t.Fatal(err)
	}
	asks := "witness w " + wkey + "\nquorum w\n"
	for _, c := range []struct {
		name, policy                string
		latest, cosigned, witnessed []byte
		counts                      uint64
		refused                     bool // by the log's key
		verdict                     ledger.Verdict
		finding                     string
	}{
		{name: "no quorum asked", policy: "quorum none\n", latest: signed(9), counts: 9, verdict: ledger.Consistent},
		{name: "met", policy: asks, latest: signed(9), witnessed: signed(9, w), counts: 9, verdict: ledger.Consistent},
		{name: "behind", policy: asks, latest: signed(9), witnessed: signed(7, w), counts: 7, verdict: ledger.Unanchored,
			finding: `size 9 lacks the quorum "w" of the witness policy: cosigned by nobody, missing w; the newest that has it signs 7`},
		{name: "never", policy: asks, latest: signed(9), verdict: ledger.Unanchored, finding: "missing w; no checkpoint has it"},
		{name: "the policy asks less now", policy: asks, latest: signed(9), cosigned: signed(9, w), counts: 9, verdict: ledger.Consistent},
		{name: "the policy asks another log", policy: "log " + stranger + "\n" + asks, latest: signed(9), witnessed: signed(9, w),
			verdict: ledger.Unanchored, finding: "cannot be held against the witness policy"},
		{name: "its log", policy: "log " + vkey + "\n" + asks, latest: signed(9), witnessed: signed(9, w), counts: 9, verdict: ledger.Consistent},
		{name: "of a log that nobody checked", policy: asks, latest: signed(9), witnessed: foreign, refused: true, verdict: ledger.Unanchored, finding: "signs 8"},
		{name: "damaged", policy: asks, latest: signed(9), witnessed: []byte("x"), verdict: ledger.Unanchored, finding: "no checkpoint has it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for path, raw := range map[string][]byte{files.Latest(): c.latest, files.Cosigned(): c.cosigned, files.Witnessed(): c.witnessed} {
				os.Remove(path)
				if raw != nil {
					if err := os.WriteFile(path, raw, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			p, err := witness.ParsePolicy([]byte(c.policy))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := counting(dir, p); (err != nil) != c.refused || got.Size != c.counts {
				t.Errorf("counts %d (%v), want %d", got.Size, err, c.counts)
			}
			checkReportSigned(t, dir, c.policy, c.counts, c.refused)
			path := filepath.Join(t.TempDir(), "policy")
			if err := os.WriteFile(path, []byte(c.policy), 0o600); err != nil {
				t.Fatal(err)
			}
			q, err := LoadQuorum(t.Context(), AnchorConfig{Dir: dir, Policy: path})
			if err != nil {
				t.Fatal(err)
			}
			size, tail := uint64(9), uint64(1)
			r := ledger.Report{Verdict: ledger.Consistent, Size: 10, CheckpointSize: &size, UnsignedTail: &tail}
			q.Judge(&r)
			finding := ""
			if r.Finding != nil {
				finding = *r.Finding
			}
			if r.Verdict != c.verdict || !strings.Contains(finding, c.finding) || (c.finding == "") != (finding == "") {
				t.Errorf("%s %q, want %s %q", r.Verdict, finding, c.verdict, c.finding)
			}
			// What contradicts a checkpoint stays inconsistent.
			r.Verdict = ledger.Inconsistent
			q.Judge(&r)
			if r.Verdict != ledger.Inconsistent {
				t.Errorf("raised to %s", r.Verdict)
			}
		})
	}
	if got, err := counting(dir, nil); err != nil || got.Size != 9 {
		t.Errorf("without a policy: %d %v", got.Size, err)
	}
	if q, err := LoadQuorum(t.Context(), AnchorConfig{Dir: dir}); q != nil || err != nil {
		t.Errorf("without a policy: %v %v", q, err)
	}
}

// checkReportSigned: a report names the checkpoint that counts, and no other.
func checkReportSigned(t *testing.T, dir Dir, policy string, counts uint64, refused bool) {
	t.Helper()
	check(t, os.WriteFile(dir.Policy(), []byte(policy), 0o600))
	defer os.Remove(dir.Policy())
	now, stop := context.WithCancel(t.Context())
	stop() // it waits for nothing
	r := report.Report{At: metric.Place{Seq: 9}}
	err := SignReport(now, dir, &r)
	switch cp := r.Checkpoint; {
	case refused:
		if err == nil {
			t.Error("a report is signed by a log that nobody checked")
		}
	case err != nil:
		t.Error(err)
	case counts == 0 && cp != nil, counts > 0 && (cp == nil || cp.Size != counts || cp.Covers != (counts >= 9)):
		t.Errorf("the report is signed by %+v, want %d", cp, counts)
	}
}

func signerFor(t *testing.T, name string, open func(string) (note.Signer, error)) (note.Signer, string) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(skey)
	if err != nil {
		t.Fatal(err)
	}
	return s, vkey
}
