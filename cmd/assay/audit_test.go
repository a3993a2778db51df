package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/projector/audit"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// book is a plain export of a ledger that has closed a week.
type book struct {
	*ledgertest.Ledger
	t *testing.T
}

func newBook(t *testing.T) *book {
	b := &book{ledgertest.New(), t}
	start := events.FormatTime(b.Now())
	for i := range 3 {
		claim := fmt.Sprint("claim-", i)
		b.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: claim, Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}})
		b.Put("operator/op", "production", &events.FixRechecked{ClaimID: claim, Result: "confirmed", Source: "instrument", Direct: true})
	}
	b.Put("logger/main", "production", &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: start, End: events.FormatTime(b.Now())})
	return b
}

// file writes the records out.
func (b *book) file() string {
	head, err := b.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var lines bytes.Buffer
	for seq := range head {
		lines.Write(append(b.Body(seq+1), '\n'))
	}
	path := filepath.Join(b.t.TempDir(), "records")
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// sampled is the event that samples the week.
func (b *book) sampled() string {
	e, err := node.OpenEvidence(b.t.Context(), node.EvidenceConfig{File: b.file()})
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := node.DrawAudit(b.t.Context(), node.AuditConfig{Evidence: e, Namespace: "production", Set: metric.SetOutcomes, Log: zerolog.Nop()})
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := a.Event("operator/main")
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

// assay runs a command and wants its exit code.
func (b *book) assay(code int, args ...string) (stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	if got := run(b.t.Context(), append(args, "--file", b.file()), nil, &out, &errs); got != code {
		b.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

func TestAuditSampleOfAnExport(t *testing.T) {
	b := newBook(t)
	out, _ := b.assay(0, "audit", "sample", "--dry-run", "--wanted", "apparent_success=2")
	for _, want := range []string{"2026-W40, closed by record 7\n", "apparent_success: 2 of 3\n  claim", "unresolved: 0 of 0\n", "\nnot published\n", b.Leaf().String()} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = b.assay(0, "--json", "audit", "sample", "--dry-run", "--week", "2026-W40")
	var r sampleResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Published || len(r.Sample.Strata) != 3 || r.Sample.Strata[0].Population != 3 {
		t.Errorf("%v: %s", err, out)
	}
	if _, errs := b.assay(3, "audit", "sample", "--dry-run", "--week", "2026-W41"); !strings.Contains(errs, "closed no such week") {
		t.Error(errs)
	}
	b.PutEvent("operator/main", "production", []byte(b.sampled()))
	out, _ = b.assay(0, "audit", "sample", "--dry-run")
	if !strings.Contains(out, "\npublished   record 8 ") {
		t.Error(out)
	}
	_, errs := b.assay(1, "audit", "sample", "--dry-run", "--wanted", "apparent_success=2")
	if !strings.Contains(errs, "were sampled by operator/main in record 8, and otherwise: stratum 1") {
		t.Error(errs)
	}
}

func TestAuditCheckOfAnExport(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(event string) string
		code   int
		want   string
	}{
		{"as it must be", func(e string) string { return e }, 0, "match       record 8 (operator/main)"},
		{"another population", func(e string) string { return strings.Replace(e, `"population":3`, `"population":4`, 1) }, 1, "MISMATCH    record 8 (operator/main)"},
		{"other rules", func(e string) string { return strings.Replace(e, metric.SampleMethod, "audit/9", 1) }, 3, "by other rules (audit/9)"},
		{"of another week", func(e string) string { return strings.Replace(e, `"2026-W40"`, `"2026-W41"`, 1) }, 3, "nothing was sampled of the outcomes of 2026-W40"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.PutEvent("operator/main", "production", []byte(c.change(b.sampled())))
			if out, _ := b.assay(c.code, "audit", "check"); !strings.Contains(out, c.want) {
				t.Error(out)
			}
			out, _ := b.assay(c.code, "--json", "audit", "check", "--week", "2026-W40")
			var r checkResult
			if err := json.Unmarshal([]byte(out), &r); err != nil || (r.Match != nil) != (c.code < 2) || (len(r.Differences) > 0) != (c.code == 1) || r.Drawn == nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// newCensus is a book whose edges, of a closed week, have a published sample.
func newCensus(t *testing.T) *book {
	b := &book{ledgertest.New(), t}
	start := events.FormatTime(b.Now())
	for i := range 3 {
		id := fmt.Sprint("edge-", i)
		b.Put("dispatcher/main", "production", &events.GraphWritten{Op: "add", EdgeID: &id, Cause: "leak", Effect: "oom", RelationKind: &secret})
	}
	b.Put("logger/main", "production", &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: start, End: events.FormatTime(b.Now())}) // 4
	out, _ := b.assay(0, "--json", "audit", "sample", "--set", "edges", "--dry-run")
	var r sampleResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Sample.Strata[0].Population != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	b.Put("operator/main", "production", r.Sample) // 5
	return b
}

// secret is what the agent calls the relation.
var secret = "tell-tale"

// talk runs a command with an input.
func (b *book) talk(code int, stdin string, args ...string) (stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	if got := run(b.t.Context(), append(args, "--file", b.file()), strings.NewReader(stdin), &out, &errs); got != code {
		b.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// write takes up the labels that a dry run prints.
func (b *book) write(out string) (n int) {
	b.t.Helper()
	for line := range strings.Lines(out) {
		var got struct {
			Event *events.AuditLabelled `json:"event"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			b.t.Fatalf("%v: %s", err, line)
		}
		if got.Event != nil {
			b.Put(*got.Event.Author, "production", got.Event)
			n++
		}
	}
	return n
}

// TestAuditLabelInTheTerminal: a rater answers, goes on where she broke off, and sees
// nothing of what the agent or the other rater says.
func TestAuditLabelInTheTerminal(t *testing.T) {
	b := newCensus(t)
	all := "1\nright\nnonsense\nas\ny\nn\n?\nno\nyes\n"
	out, errs := b.talk(0, all+"2\nq\n", "--json", "audit", "label", "--set", "edges", "--dry-run", "--as", "operator/zoe")
	for _, want := range []string{"case 1 of 3", "case 2 of 3", "leak -> oom", "What does the source state?", `"nonsense" is no answer`} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
	if strings.Contains(errs+out, secret) || strings.Contains(errs, "case 3") {
		t.Errorf("%s", errs)
	}
	var got struct {
		Event events.AuditLabelled `json:"event"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	e := got.Event.Edge
	if *e.RelationKind != "causal_claim" || *e.Direction != "right" || *e.Mechanism != "asserted" || !*e.KeepsSource || *e.KeepsTime || e.KeepsScope != nil || *e.KeepsConfidence || !*e.KeepsContrary {
		t.Errorf("%s", out)
	}
	if d := got.Event; d.Rater != "operator/zoe" || !d.Blind || *d.SampleSeq != 5 || *d.Stratum != "edge" || d.RubricVersion != audit.Rubric {
		t.Errorf("%s", out)
	}
	if b.write(out) != 1 {
		t.Fatal(out)
	}
	// She goes on at the second case; for bob all three are open, and he sees no label.
	if _, errs := b.talk(0, "s\nq\n", "audit", "label", "--set", "edges", "--dry-run", "--as", "operator/zoe"); strings.Contains(errs, "case 1 of") || !strings.Contains(errs, "case 3 of 3") {
		t.Error(errs)
	}
	if out, errs := b.talk(0, "", "audit", "label", "--set", "edges", "--dry-run", "--as", "operator/bob"); !strings.Contains(errs, "case 1 of 3") || strings.Contains(out+errs, "zoe") {
		t.Error(out, errs)
	}
}

// TestAuditLabelByScript: labels come from flags and lines; what is wrong writes none.
func TestAuditLabelByScript(t *testing.T) {
	b := newCensus(t)
	label := []string{"--json", "audit", "label", "--set", "edges", "--dry-run"}
	for _, tt := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"an answer that is none", "", []string{"--label", "edge-0=causal"}, 1, "it takes causal_claim, correlation"},
		{"too many answers", "", []string{"--label", "edge-0=causal_claim,right,tested,yes,yes,yes,yes,yes,yes"}, 2, "9 answers, and 8 questions"},
		{"no case", "", []string{"--label", "edge-9=causal_claim"}, 1, `"edge-9" is no case of the edges of 2026-W40`},
		{"one of two", "", []string{"--label", "edge-0=causal_claim", "--label", "edge-9=causal_claim"}, 1, "no case"},
		{"an unknown member", `{"id":"edge-0","answer":{}}`, []string{"--stdin"}, 1, "line 1"},
		{"twice", "{\"id\":\"edge-0\"}\n\n{\"id\":\"edge-0\"}\n", []string{"--stdin"}, 1, "edge-0 is labelled twice"},
		{"another kind", `{"id":"edge-0","kind":"claim"}`, []string{"--stdin"}, 1, "no case"},
	} {
		if out, errs := b.talk(tt.code, tt.stdin, append(label, tt.args...)...); !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%s: %s%s", tt.name, out, errs)
		}
	}
	out, _ := b.talk(0, "", append(label, "--label", "edge-0=correlation,?,tested", "--label", "edge-1=causal_claim")...)
	if strings.Count(out, `"blind":false`) != 2 || b.write(out) != 2 {
		t.Fatal(out)
	}
	out, _ = b.talk(0, `{"id":"edge-2","kind":"edge","answers":{"edge.relation_kind":"causal_claim","edge.keeps_time":"no"},"note":"from the log"}`, append(label, "--stdin", "--blind", "--as", "operator/bob")...)
	if !strings.Contains(out, `"blind":true`) || !strings.Contains(out, `"note":"from the log"`) || !strings.Contains(out, `"keeps_time":false`) || b.write(out) != 1 {
		t.Fatal(out)
	}
	// The same again is no new label, and something else is refused: the first counts.
	if out, _ := b.talk(0, "", append(label, "--label", "edge-1=causal_claim")...); !strings.Contains(out, `"written":false,"seq":7`) {
		t.Error(out)
	}
	if _, errs := b.talk(1, "", append(label, "--label", "edge-1=other")...); !strings.Contains(errs, "edge-1 has your label in record 7, which says otherwise of edge.relation_kind") {
		t.Error(errs)
	}
	out, _ = b.assay(0, "--json", "audit", "report")
	var r struct {
		Reports []*audit.Report `json:"reports"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Reports) != 1 || len(r.Reports[0].Raters) != 2 || r.Reports[0].Strata[0].Labelled != 3 || r.Reports[0].Census.Share != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, _ := b.assay(0, "audit", "report", "--set", "edges", "--week", "2026-W40"); !strings.Contains(out, "edge               3 of 3 drawn; labelled 3, by two raters 0") {
		t.Error(out)
	}
	if _, errs := b.assay(3, "audit", "report", "--set", "detector"); !strings.Contains(errs, "nothing was sampled of the detector") {
		t.Error(errs)
	}
	if _, errs := b.assay(3, "audit", "report", "--week", "2026-W41"); !strings.Contains(errs, "closed no such week") {
		t.Error(errs)
	}
	if _, errs := b.assay(3, "audit", "label", "--set", "lineage", "--dry-run"); !strings.Contains(errs, "nothing was sampled of the lineage of 2026-W40") {
		t.Error(errs)
	}
}

// TestDetectorIsLabelledByTextAlone: neither kind nor id of a case reaches the rater.
func TestDetectorIsLabelledByTextAlone(t *testing.T) {
	b := &book{ledgertest.New(), t}
	start := events.FormatTime(b.Now())
	b.Put("detector/main", "production", &events.OpportunityDetected{OpportunityID: "found/1", Kind: "why", DetectorVersion: "1"})
	b.Put("detector/main", "production", &events.DetectorScanned{DetectorVersion: "1", Turns: 2, Positive: 1, Negative: 1, NegativeTurnIDs: []string{"missed-1"}})
	b.Put("logger/main", "production", &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: start, End: events.FormatTime(b.Now())})
	out, _ := b.assay(0, "--json", "audit", "sample", "--set", "detector", "--dry-run")
	var r sampleResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	b.Put("operator/main", "production", r.Sample)
	texts := t.TempDir()
	label := []string{"audit", "label", "--set", "detector", "--dry-run", "--texts", texts}
	if _, errs := b.talk(1, "", label...); !strings.Contains(errs, "the text of a case") {
		t.Error(errs)
	}
	for name, text := range map[string]string{"found%2F1.txt": "why did it restart?", "missed-1.txt": "hello \x1b[2J"} {
		if err := os.WriteFile(filepath.Join(texts, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs := b.talk(0, "y\nwhy\ny\ngap\n", label...)
	if strings.Contains(errs+out, "found") || strings.Contains(errs+out, "missed") || strings.Contains(errs, "\x1b") || !strings.Contains(errs, "why did it restart?") {
		t.Error(errs, out)
	}
	out, _ = b.talk(0, "n\nn\n", append([]string{"--json"}, label...)...)
	if strings.Count(out, `"eligible":false`) != 2 || strings.Contains(out, "opportunity_kind") {
		t.Error(out)
	}
	again, errs := b.talk(0, "n\nn\n", "--json", "detect", "label", "--dry-run", "--texts", texts)
	if again != out || !strings.Contains(errs, "2 cases of 2026-W40, drawn by the seed "+r.Sample.Seed) {
		t.Error(errs, again)
	}
}

// TestTurnsOfOutcomesAreNotBlind: the set says that the detector found nothing in them.
func TestTurnsOfOutcomesAreNotBlind(t *testing.T) {
	b := &book{ledgertest.New(), t}
	start := events.FormatTime(b.Now())
	b.Put("detector/main", "production", &events.DetectorScanned{DetectorVersion: "1", Turns: 1, Negative: 1, NegativeTurnIDs: []string{"turn-1"}})
	b.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: "claim-1", Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}})
	b.Put("operator/op", "production", &events.FixRechecked{ClaimID: "claim-1", Result: "confirmed", Source: "instrument", Direct: true})
	b.Put("logger/main", "production", &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: start, End: events.FormatTime(b.Now())})
	b.PutEvent("operator/main", "production", []byte(b.sampled()))
	out, _ := b.talk(0, "", "--json", "audit", "label", "--dry-run", "--blind", "--label", "turn-1=yes,no", "--label", "claim-1=yes")
	claim, turn, _ := strings.Cut(out, "\n")
	if !strings.Contains(claim, `"id":"claim-1"`) || !strings.Contains(claim, `"blind":true`) || !strings.Contains(turn, `"id":"turn-1"`) || !strings.Contains(turn, `"blind":false`) {
		t.Error(out)
	}
}
