package report_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"assay/projector/report"
)

// TestMembersAreDocumented: docs/report.md names every member of the JSON, but for those
// of a number, and its version.
func TestMembersAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## The JSON")
	encoded, err := reported(t, rich(t).Ledger, report.Config{Repair: []string{"restart"}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	encoded = regexp.MustCompile(`"excluded": \{[^}]*\}`).ReplaceAll(encoded, []byte(`"excluded": {}`)) // reasons
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +"([a-z_]+)": `).FindAllSubmatch(encoded, -1) {
		name := string(m[1])
		if seen[name] {
			continue
		}
		seen[name] = true
		if !strings.Contains(table, "`"+name+"`") && name != "projection" && name != "version" {
			t.Errorf("%s is not in the table", name)
		}
	}
	if len(seen) < 40 || !strings.Contains(table, "Version 1.") || report.Version != 1 {
		t.Errorf("%d members of version %d", len(seen), report.Version)
	}
}
