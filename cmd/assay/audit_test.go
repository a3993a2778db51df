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
	a, err := node.DrawAudit(b.t.Context(), node.AuditConfig{Evidence: e, Namespace: "production", Log: zerolog.Nop()})
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
	out, _ := b.assay(0, "audit", "sample", "--dry-run", "--successes", "2")
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
	b.PutEvent("operator/main", "production", []byte(b.sampled()))
	out, _ = b.assay(0, "audit", "sample", "--dry-run")
	if !strings.Contains(out, "\npublished   record 8 ") {
		t.Error(out)
	}
	_, errs := b.assay(1, "audit", "sample", "--dry-run", "--successes", "2")
	if !strings.Contains(errs, "was sampled by operator/main in record 8, and otherwise: stratum 1") {
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
		{"of another week", func(e string) string { return strings.Replace(e, `"2026-W40"`, `"2026-W41"`, 1) }, 3, "nothing was sampled of 2026-W40"},
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
