package rules

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestFaultTableNamesTests: docs/faults.md promises tests by name.
func TestFaultTableNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-f", `{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, "assay/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, file := range strings.Fields(string(out)) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(src, -1) {
			have[string(m[1])] = true
		}
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 30 {
		t.Fatalf("the page names only %d tests", len(named))
	}
	for _, m := range named {
		if !have[string(m[1])] {
			t.Errorf("docs/faults.md names %s, which does not exist", m[1])
		}
	}
}
