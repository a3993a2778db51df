package schema

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestWriters(t *testing.T) {
	for _, c := range []struct {
		role      Role
		typ       string
		namespace string
		want      bool
	}{
		{RoleAgent, "claim.recorded", "production", true},
		{RoleAgent, "claim.recorded", "bench/run-1", true},
		{RoleAgent, "tool.called", "production", true},
		{RoleAgent, "prediction.resolved", "production", false},
		{RoleAgent, "prediction.resolved", "sandbox", false},
		{RoleAgent, "opportunity.detected", "bench/run-1", false},
		{RoleAgent, "outcome.recorded", "production", false},
		{RoleAgent, "intake.rejected", "production", false},
		{RoleDispatcher, "tool.called", "production", true},
		{RoleDispatcher, "experiment.executed", "shadow", true},
		{RoleDispatcher, "claim.recorded", "sandbox", false},
		{RoleDetector, "opportunity.detected", "production", true},
		{RoleResolver, "prediction.resolved", "production", true},
		{RoleResolver, "experiment.observed", "bench/run-1", true},
		{RoleResolver, "clock.confirmed", "production", false},
		{RoleOperator, "outcome.recorded", "production", true},
		{RoleOperator, "fix.rechecked", "production", true},
		{RoleOperator, "prediction.resolved", "production", false},
		{RoleOperator, "ledger.foreign_acknowledged", "production", true},
		{RoleLogger, "ledger.opened", "production", true},
		{RoleLogger, "clock.confirmed", "production", false},
		{RoleSensor, "telemetry.sealed", "production", false},
		{RoleHarness, "tool.called", "sandbox", true},
		{RoleHarness, "tool.called", "bench/run-1", true},
		{RoleHarness, "tool.called", "canary", false},
		{RoleHarness, "tool.called", "production", false},
		{RoleHarness, "tool.called", "shadow", false},
		{RoleHarness, "tool.called", "bench", false},
		{RoleHarness, "tool.called", "", false},
		{RoleHarness, "graph.written", "sandbox", true},
		{RoleHarness, "opportunity.detected", "bench/run-1", true},
		{RoleHarness, "opportunity.detected", "production", false},
		{RoleHarness, "claim.recorded", "bench/run-1", false},
		{RoleHarness, "prediction.resolved", "bench/run-1", false},
		{RoleAgent, "belief.created", "production", true},
		{RoleAgent, "belief.read", "production", false},
		{RoleAgent, "tools.offered", "production", false},
		{RoleAgent, "opportunity.labelled", "production", false},
		{RoleAgent, "audit.labelled", "production", false},
		{RoleAgent, "score.recorded", "bench/run-1", false},
		{RoleAgent, "finding.rated", "production", true},
		{RoleAgent, "finding.withheld", "production", false},
		{RoleAgent, "approval.requested", "production", true},
		{RoleAgent, "approval.granted", "production", false},
		{RoleDispatcher, "belief.revised", "production", true},
		{RoleDispatcher, "usage.recorded", "canary", true},
		{RoleDispatcher, "abduction.started", "production", false},
		{RoleDispatcher, "contradiction.resolved", "production", false},
		{RoleDispatcher, "run.started", "sandbox", false},
		{RoleOperator, "contradiction.resolved", "production", true},
		{RoleOperator, "price.recorded", "production", true},
		{RoleOperator, "case.revealed", "production", false},
		{RoleOperator, "run.started", "production", false},
		{RoleHarness, "belief.read", "bench/run-1", true},
		{RoleHarness, "belief.read", "canary", false},
		{RoleHarness, "finding.delivered", "sandbox", true},
		{RoleHarness, "run.started", "bench/run-1", true},
		{RoleHarness, "run.started", "canary", true},
		{RoleHarness, "run.started", "production", false},
		{RoleHarness, "cohort.retired", "shadow", false},
		{RoleHarness, "episode.recorded", "canary", true},
		{RoleHarness, "contradiction.resolved", "bench/run-1", false},
		{RoleHarness, "abduction.started", "bench/run-1", false},
		{RoleHarness, "preregistration.committed", "bench/run-1", false},
		{RoleHarness, "opportunity.labelled", "bench/run-1", false},
		{RoleAgent, "claim.invented", "production", false},
		{"root", "claim.recorded", "production", false},
	} {
		if got := MayWrite(c.role, c.typ, c.namespace); got != c.want {
			t.Errorf("MayWrite(%s, %s, %q) = %v", c.role, c.typ, c.namespace, got)
		}
	}
	for _, typ := range Types() {
		w := Writers(typ)
		if len(w) == 0 {
			t.Errorf("%s has no writers", typ)
			continue
		}
		w[0] = "changed"
		if Writers(typ)[0] == "changed" {
			t.Errorf("%s: Writers gives away its table", typ)
		}
	}
	if Writers("claim.invented") != nil {
		t.Error("an unknown type has writers")
	}
}

func TestUnknownType(t *testing.T) {
	for _, typ := range []string{"", "common", "envelope", "criterion", "claim.invented", "../schema"} {
		_, raw := Raw(typ)
		_, example := Example(typ)
		_, version := Version(typ)
		if raw || example || version {
			t.Errorf("%q is taken for a type", typ)
		}
	}
}

func TestEverySchemaFileIsListed(t *testing.T) {
	names, err := fs.Glob(files, "json/*.json")
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{"common", "criterion", "envelope"}, Types()...)
	if len(names) != len(want) {
		t.Errorf("%d files, want %d", len(names), len(want))
	}
	for _, typ := range want {
		if !slices.Contains(names, "json/"+typ+".json") {
			t.Errorf("no schema file for %s", typ)
		}
	}
	if !slices.IsSorted(Types()) {
		t.Error("types are not in order")
	}
}

// TestCatalogue: docs/events.md names every type once, with its writers.
func TestCatalogue(t *testing.T) {
	page, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_]+)` \\| ([a-z, ]+) \\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2]
	}
	for _, typ := range Types() {
		var writers []string
		for _, w := range Writers(typ) {
			writers = append(writers, string(w))
		}
		if want := strings.Join(writers, ", "); rows[typ] != want {
			t.Errorf("%s: writers %q on the page, want %q", typ, rows[typ], want)
		}
		if version, _ := Version(typ); version != 1 {
			t.Errorf("%s is at version %d, and the page says that all are at 1", typ, version)
		}
		delete(rows, typ)
	}
	for typ := range rows {
		t.Errorf("the page has a row of %s, which is no type", typ)
	}
}

// TestDigest computes the digest again from the files on disk.
func TestDigest(t *testing.T) {
	names, err := filepath.Glob("json/*.json")
	if err != nil || len(names) < len(Types()) {
		t.Fatalf("%d schema files, %v", len(names), err)
	}
	var all []byte
	for _, name := range names { // Glob sorts
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = fmt.Appendf(all, "%s\x00%d\x00%s", filepath.Base(name), len(raw), raw)
	}
	if got, want := Digest(), fmt.Sprintf("%x", sha256.Sum256(all)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestExamplesAreCompact(t *testing.T) {
	for _, typ := range Types() {
		raw := mustExample(t, typ)
		got, err := Compact(raw)
		if err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: %v\n%s\n%s", typ, err, raw, got)
		}
	}
}

func TestCompact(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{" { \"a\" :\t[ 1.0e2 ,\r\n -0 ] } \n", `{"a":[1.0e2,-0]}`},
		{`{"a b":" \" \\ "}`, `{"a b":" \" \\ "}`},
		{`"\u0041 \/ é"`, `"\u0041 \/ é"`},
		{"7", "7"},
	} {
		got, err := Compact([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("Compact(%q) = %q, %v", c.in, got, err)
		}
	}
	for _, in := range []string{"", " ", "{", "{}{}", `{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, "nul", "01"} {
		if got, err := Compact([]byte(in)); err == nil {
			t.Errorf("Compact(%q) = %q", in, got)
		}
	}
}

func FuzzCompact(f *testing.F) {
	f.Add([]byte(` {"a" : [1, "x y\\\" "]} `))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Compact(raw)
		if err != nil {
			return
		}
		want := jsontext.Value(bytes.Clone(raw))
		if err := want.Canonicalize(); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		have := jsontext.Value(bytes.Clone(got))
		if err := have.Canonicalize(); err != nil || !bytes.Equal(want, have) {
			t.Errorf("%q became %q: %v", raw, got, err)
		}
		if again, err := Compact(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("not idempotent: %q, %q", got, again)
		}
	})
}

func TestFaultError(t *testing.T) {
	var err error = &Fault{Code: CodeBadValue, Pointer: "/data/p", Message: "greater than 1"}
	if got := fmt.Sprint(err); got != "bad_value at /data/p: greater than 1" {
		t.Error(got)
	}
	if got := (&Fault{Code: CodeBadJSON, Message: "no JSON value"}).Error(); !strings.HasPrefix(got, "bad_json: ") {
		t.Error(got)
	}
}
