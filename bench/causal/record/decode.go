package record

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"assay/internal/versioned"
)

//go:embed schema/*.json
var files embed.FS

// Record is one of the five.
type Record interface {
	PublicCase | PrivateOracle | AgentResponse | ToolEvent | RunManifest
}

// Names lists the records.
func Names() []string {
	return []string{"public_case", "private_oracle", "agent_response", "tool_event", "run_manifest"}
}

// Schema is the schema file of a record; ok is false where there is none of the name.
func Schema(name string) (raw []byte, ok bool) {
	raw, err := files.ReadFile("schema/" + name + ".json")
	return raw, err == nil
}

// Fault is where a record breaks its schema.
type Fault struct {
	Pointer string // JSON Pointer
	Message string
}

func (f *Fault) Error() string { return fmt.Sprintf("at %q: %s", f.Pointer, f.Message) }

// Decode reads a record. Its errors are versioned.ErrVersion, a *Fault, or those of
// bad JSON: also of a name that stands twice, and of what follows the record.
func Decode[T Record](line []byte) (T, error) {
	var out T
	var doc any
	if err := json.Unmarshal(line, &doc); err != nil { // finds repeated names too
		return out, err
	}
	if object, ok := doc.(map[string]any); ok && object["v"] != float64(Version) {
		return out, fmt.Errorf("%w %v, want %d", versioned.ErrVersion, object["v"], Version)
	}
	if err := compiled()[nameOf(&out)].Validate(doc); err != nil {
		return out, fault(err)
	}
	return out, json.Unmarshal(line, &out, json.RejectUnknownMembers(true))
}

// Encode is a record as a line without its end: equal records have equal bytes.
func Encode(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }

func nameOf(r any) string {
	switch r.(type) {
	case *PublicCase:
		return "public_case"
	case *PrivateOracle:
		return "private_oracle"
	case *AgentResponse:
		return "agent_response"
	case *ToolEvent:
		return "tool_event"
	case *RunManifest:
		return "run_manifest"
	}
	panic(fmt.Sprintf("%T is no record", r))
}

// compiled are the schemas by name.
var compiled = sync.OnceValue(func() map[string]*jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range append(Names(), "common") {
		raw, _ := Schema(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err == nil {
			err = c.AddResource("urn:assay:bench:"+name+":1", doc)
		}
		if err != nil {
			panic(fmt.Sprintf("schema/%s.json: %v", name, err))
		}
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range Names() {
		out[name] = c.MustCompile("urn:assay:bench:" + name + ":1")
	}
	return out
})

// fault is the first leaf of what the library found.
func fault(err error) error {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err
	}
	for len(v.Causes) > 0 {
		v = v.Causes[0]
	}
	var pointer strings.Builder
	for _, part := range v.InstanceLocation {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	message := v.Error()
	if k, ok := v.ErrorKind.(*kind.AdditionalProperties); ok {
		message = "unknown member " + strings.Join(k.Properties, ", ")
	} else if i := strings.LastIndex(message, ": "); i >= 0 {
		message = message[i+2:]
	}
	return &Fault{pointer.String(), message}
}
