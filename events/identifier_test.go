package events_test

import (
	"strings"
	"testing"

	"assay/events"
	"assay/schema"
)

func TestIdentifier(t *testing.T) {
	const hash = "sha256:c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65" // of "a b"
	long := strings.Repeat("a", 128)
	for id, want := range map[string]string{"": "", "a": "a", "toolu_01": "toolu_01", "a/b:c-d.e": "a/b:c-d.e", long: long, "a b": hash} {
		if got := events.Identifier(id); got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
	for _, id := range []string{"-a", "é", "a\n", long + "a"} {
		if got := events.Identifier(id); !strings.HasPrefix(got, "sha256:") || len(got) != len(hash) {
			t.Errorf("%q is %q", id, got)
		}
	}
}

// TestIdentifiersAreTheSchemas: what is not hashed the ledger takes.
func TestIdentifiersAreTheSchemas(t *testing.T) {
	raw, ok := schema.Shared("common")
	if !ok || !strings.Contains(string(raw), `"pattern": "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$"`) {
		t.Error("the schema's identifiers have another pattern")
	}
	for id, want := range map[string]bool{
		"a": true, "0": true, "toolu_01.A:b/c-d": true, strings.Repeat("x", 128): true,
		"_a": false, "/a": false, "..": false, "a b": false, "a\x00": false, "ä": false, strings.Repeat("x", 129): false,
	} {
		if (events.Identifier(id) == id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}
