package stats

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// sameEverywhere are the functions behind the results that the package comment
// promises to be the same on every machine.
var sameEverywhere = []string{
	"Wilson", "AgrestiCoull", "Kappa", "Brier", "ECE", "binOf", "AUROC", "RiskCoverage", "McNemar", "Seed",
	"mean", "knownMean", "NewBootstrap", "newBootstrap", "(*Bootstrap).Interval", "(*Bootstrap).between", "Clusters.Compare",
}

var (
	startOfFunction = regexp.MustCompile(`^assay/internal/stats\.(\S+) STEXT`)
	fused           = regexp.MustCompile(`\bFN?M(ADD|SUB)D\b`)
)

// A compiler that fuses finds nothing to fuse in them.
func TestSameOnEveryMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: compiles for another architecture")
	}
	cmd := exec.Command("go", "build", "-gcflags=assay/internal/stats=-S", "assay/internal/stats")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	assembly, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, assembly)
	}
	var function string
	instructions := map[string]int{}
	fusing := map[string]bool{}
	for line := range bytes.Lines(assembly) {
		if m := startOfFunction.FindSubmatch(line); m != nil {
			function = string(m[1])
		}
		instructions[function]++
		if fused.Match(line) {
			fusing[function] = true
		}
	}
	for _, name := range sameEverywhere {
		if instructions[name] == 0 && name != "mean" && name != "binOf" { // which may be part of their callers
			t.Errorf("%s is not in the assembly", name)
		}
		if fusing[name] {
			t.Errorf("%s fuses a multiplication and an addition: convert the product with float64()", name)
		}
	}
	// It is found where nobody has promised anything.
	if !fusing["studentTail"] {
		t.Error("no fused operation was found in studentTail")
	}
}
