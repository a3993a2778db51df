package causal_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	startOfPackage = regexp.MustCompile(`^# (\S+)`)
	complaint      = regexp.MustCompile(`(?m)^\S+\.go:\d+:.*$`)
	fused          = regexp.MustCompile(`\tFN?M(ADD|SUB)[SD]\t`)
)

// A processor that multiplies and adds in one operation rounds once where others
// round twice: the answer keys of a world must be the same on both. Where the compiler
// may fuse, a product is converted with float64().
func TestSameOnEveryMachine(t *testing.T) {
	const control = "assay/internal/stats" // which has fused operations, and says so
	cmd := exec.Command("go", "build", "-gcflags=-S", "assay/bench/causal/...", control)
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	assembly, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, bytes.Join(complaint.FindAll(assembly, -1), []byte("\n")))
	}
	found := map[string][]string{} // by package
	name := ""
	for line := range bytes.Lines(assembly) {
		if m := startOfPackage.FindSubmatch(line); m != nil {
			name = string(m[1])
			found[name] = nil
		}
		if fused.Match(line) {
			found[name] = append(found[name], string(line))
		}
	}
	for _, name := range []string{"elim", "bayes", "scm", "decide", "graph", "identify", "classes", "world", "item", "record", "set", "montecarlo"} {
		lines, ok := found["assay/bench/causal/"+name]
		if !ok {
			t.Errorf("%s is not in the assembly", name)
		}
		if len(lines) > 0 {
			t.Errorf("%s has fused operations:\n%s", name, strings.Join(lines, ""))
		}
	}
	if len(found[control]) == 0 {
		t.Errorf("no fused operation was found in %s", control)
	}
}
