// Package rules holds the tests that keep the house in order: which room may
// import which, and who may touch which library.
package rules

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rooms maps each room to the rooms of ours that it may import. A room covers
// the packages below it unless they have a line of their own; a package may
// always import what is below it.
var rooms = map[string][]string{
	"schema":              {},
	"schema/internal/gen": {"schema"},
	"events":              {"schema"},
	"events/publish":      {"schema", "internal"},
	"events/gateway":      {"events", "events/genai", "events/publish", "schema", "internal", "internal/otlp"},
	"events/genai":        {"events", "schema", "internal/otlp"},
	"events/watch":        {"events", "events/publish", "internal"},
	"events/hook":         {"events"},
	"events/drop":         {"internal"},
	"events/mcp":          {"events", "events/publish", "schema"},
	"events/importer":     {"events", "events/genai", "schema", "internal/jsonfault", "internal/otlp"},
	"events/detector":     {"events", "internal", "internal/jsonfault"},
	"ledger":              {"schema"},
	"ledger/stream":       {"ledger"},
	"ledger/broker":       {"ledger", "internal"},
	"ledger/tiles":        {"ledger", "internal"},
	"ledger/tiles/fsck":   {"ledger", "ledger/tiles"},
	"ledger/witness":      {"ledger", "internal"},
	"ledger/logger":       {"events", "schema", "ledger", "ledger/stream", "ledger/witness", "internal"},
	"projector":           {"events", "ledger", "internal"},
	"projector/view":      {"projector", "events", "ledger", "internal"},
	"projector/metric":    {"projector", "projector/view", "events", "ledger", "internal", "internal/stats"},
	"projector/audit":     {"projector", "projector/view", "projector/metric", "events", "ledger", "internal", "internal/stats"},
	"projector/ui":        {"projector/audit", "projector/metric", "projector/view", "events", "ledger", "internal"},
	"projector/report":    {"projector", "projector/metric", "projector/view", "events", "ledger", "internal"},
	"projector/table":     {"projector", "projector/view", "events", "ledger", "internal"},
	"resolver":            {"events", "ledger", "ledger/stream", "internal"},
	"resolver/criterion":  {"ledger", "schema", "internal/stats"},
	"resolver/telemetry":  {"resolver/criterion", "ledger/stream", "internal/otlp"},
	"internal":            {"ledger"},
	"internal/jsonfault":  {},
	"internal/otlp":       {},
	"internal/stats":      {},
	"internal/tms":        {},
	"cmd":                 {"*"},
	"bench":               {"*"},
	"bench/calc":          {"bench/causal", "internal/jsonfault", "internal/stats", "internal/tms"},
	"bench/causal":        {},
	"bench/causal/record": {"bench/causal", "internal"},
	"bench/causal/item":   {"bench/causal", "bench/causal/record"},
	"bench/causal/label":  {"bench/causal", "bench/causal/record", "bench/causal/item"},
	// The second opinion shares nothing with the first.
	"bench/causal/montecarlo": {},
	"bench/causal/set":        {"bench/causal", "bench/causal/record", "bench/causal/item", "bench/causal/label", "bench/causal/montecarlo", "internal", "internal/stats"},
}

// libraries names those who may import a library directly.
var libraries = map[string][]string{
	"github.com/cockroachdb/pebble": {"internal/kv"},
	"github.com/nats-io/nats.go": {
		"ledger/stream", "ledger/broker", "ledger/logger", "events/publish", "resolver/telemetry", "cmd", "bench",
	},
	"github.com/nats-io/nats-server":  {"ledger/broker", "bench"},
	"gonum.org/v1/gonum":              {"internal/stats", "bench"},
	"github.com/prometheus":           {"cmd/internal/metrics", "resolver/telemetry"},
	"github.com/parquet-go":           {"projector/table/files"},
	"github.com/modelcontextprotocol": {"events/mcp"},
	"modernc.org/sqlite":              {"projector/table/files", "events/watch"}, // written for analysts; an agent's store, read alone
	"encoding/json":                   {"ledger/broker"},                         // the door reads a CONNECT as the server does
	"go.opentelemetry.io/collector":   {"events/genai", "events/gateway", "internal/otlp", "resolver/telemetry"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "assay/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []pkg
	dec := jsontext.NewDecoder(bytes.NewReader(out))
	for dec.PeekKind() == '{' {
		var p pkg
		if err := json.UnmarshalDecode(dec, &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// roomOf is the longest room that covers the package.
func roomOf(path string, known func(string) bool) string {
	for p := path; p != ""; {
		if known(p) {
			return p
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	return ""
}

func isRoom(p string) bool { _, ok := rooms[p]; return ok }

func covers(list []string, path string) bool {
	return slices.ContainsFunc(list, func(r string) bool {
		return r == "*" || path == r || strings.HasPrefix(path, r+"/")
	})
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "assay/")
		room := roomOf(path, isRoom)
		if room == "" {
			t.Errorf("%s stands in no room", path)
			continue
		}
		for _, imp := range p.Imports {
			ours, ok := strings.CutPrefix(imp, "assay/")
			if !ok || strings.HasPrefix(ours, path+"/") {
				continue
			}
			target := roomOf(ours, isRoom)
			if target == room || slices.Contains(rooms[room], target) || slices.Contains(rooms[room], "*") {
				continue
			}
			t.Errorf("%s imports %s: the room %s may import only %v", path, ours, room, rooms[room])
		}
	}
}

// TestHooksLinkLittle: an agent waits for assay-hook at every tool call, and whatever
// it links is initialised each time.
func TestHooksLinkLittle(t *testing.T) {
	may := []string{"assay/cmd/assay-hook", "assay/cmd/internal/hooks", "assay/events", "assay/events/hook", "assay/events/drop", "assay/schema", "assay/internal/durable"}
	libraries := []string{"github.com/go-json-experiment/json", "github.com/google/uuid", "golang.org/x/sys"}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "assay/cmd/assay-hook").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if !slices.Contains(may, path) && !covers(libraries, path) {
			t.Errorf("assay-hook links %s", path)
		}
	}
	out, err = exec.Command("go", "list", "-deps", "assay/cmd/assay-hook").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if path == "net/http" || path == "crypto/tls" {
			t.Errorf("assay-hook links %s", path)
		}
	}
}

func TestLibrariesStayInTheirRooms(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "assay/")
		for _, imp := range p.Imports {
			for lib, users := range libraries {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !covers(users, path) {
					t.Errorf("%s imports %s, which only %v may", path, imp, users)
				}
			}
		}
	}
}

// TestDetectorIsApart: what counts opportunities shares nothing with what acts on them.
// Commands alone import it, and it imports nothing that could ask a model or a network.
func TestDetectorIsApart(t *testing.T) {
	const detector = "assay/events/detector"
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, detector) && !strings.HasPrefix(p.ImportPath, "assay/cmd/") {
			t.Errorf("%s imports the detector", p.ImportPath)
		}
		if p.ImportPath == detector && slices.ContainsFunc(p.Imports, func(i string) bool { return i == "net" || strings.HasPrefix(i, "net/") || i == "os/exec" }) {
			t.Errorf("the detector imports %v", p.Imports)
		}
	}
}
