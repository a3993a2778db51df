package events_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/schema"
)

func TestFromBinary(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string][]string
		body   string
		want   string // the event, or the code and pointer of the fault
	}{
		"all there is": {map[string][]string{"Ce-Specversion": {"1.0"}, "Ce-Id": {"a"}, "ce-type": {"t.u"}, "CE-Zed": {"z"}, "ce-source": {"/s"}, "Content-Type": {"application/json; charset=utf-8"}, "Accept": {"x"}}, `{"a":1}`,
			`{"specversion":"1.0","id":"a","source":"/s","type":"t.u","zed":"z","datacontenttype":"application/json","data":{"a":1}}`},
		"quoted and escaped": {map[string][]string{"ce-id": {`"a\"b"`}, "ce-subject": {"Euro%20%E2%82%AC%20%F0%9F%98%80"}}, "", `{"id":"a\"b","subject":"Euro € 😀"}`},
		"another JSON":       {map[string][]string{"ce-id": {"a"}, "content-type": {"application/x+json"}}, `1`, `{"id":"a","datacontenttype":"application/x+json","data":1}`},
		"bytes":              {map[string][]string{"ce-id": {"a"}, "content-type": {"text/plain"}}, `x`, `{"id":"a","datacontenttype":"text/plain","data_base64":"eA=="}`},
		"nothing":            {nil, "", `{}`},
		"hostile name":       {map[string][]string{"ce-\"\xff": {"x"}}, "", "bad_header /\"\ufffd"},
		"name too long":      {map[string][]string{"ce-" + strings.Repeat("n", 21): {"x"}}, "", "bad_header /" + strings.Repeat("n", 21)},
		"no name":            {map[string][]string{"ce-": {"x"}}, "", "bad_header /"},
		"twice":              {map[string][]string{"ce-id": {"x"}, "Ce-Id": {"x"}}, "", "bad_header /id"},
		"two values":         {map[string][]string{"ce-id": {"x", "x"}}, "", "bad_header /id"},
		"data":               {map[string][]string{"ce-data": {"x"}}, "", "bad_header /data"},
		"content type":       {map[string][]string{"ce-datacontenttype": {"x"}}, "", "bad_header /datacontenttype"},
		"bad escape":         {map[string][]string{"ce-id": {"%f"}}, "", "bad_header /id"},
		"no UTF-8":           {map[string][]string{"ce-id": {"%ff"}}, "", "bad_header /id"},
		"two types":          {map[string][]string{"Content-Type": {"application/json"}, "content-type": {"text/plain"}}, `{}`, "bad_header /datacontenttype"},
		"a type of two":      {map[string][]string{"Content-Type": {"application/json", "text/plain"}}, `{}`, "bad_header /datacontenttype"},
		"a type of bytes":    {map[string][]string{"Content-Type": {"text/plain\xff"}}, `{}`, "bad_header /datacontenttype"},
		"the first fault":    {map[string][]string{"ce-zed": {"%f"}, "ce-b": {"%f"}, "ce-id": {"a", "b"}}, "", "bad_header /b"},
		"an escaped quote":   {map[string][]string{"ce-id": {"a%22%2C%22type%22%3A%22b"}}, "", `{"id":"a\",\"type\":\"b"}`},
		"escaped once":       {map[string][]string{"ce-id": {"a%2541"}}, "", `{"id":"a%41"}`},
		"a version of old":   {map[string][]string{"ce-specversion": {"0.3"}, "ce-id": {"a"}}, "", `{"specversion":"0.3","id":"a"}`},
		"more than a value":  {map[string][]string{"content-type": {"application/json"}}, `1,"id":"x"`, "bad_json /data"},
	} {
		raw, fault := events.FromBinary(c.header, []byte(c.body))
		got := string(raw)
		if fault != nil {
			got = string(fault.Code) + " " + fault.Pointer
		} else if !jsontext.Value(raw).IsValid() {
			t.Errorf("%s: no JSON: %s", name, raw)
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestIsBinary: the Content-Type comes first, as the specification has it.
func TestIsBinary(t *testing.T) {
	for _, c := range []struct {
		header map[string][]string
		want   bool
	}{
		{nil, false},
		{map[string][]string{"Content-Type": {"application/json"}}, false},
		{map[string][]string{"CE-SpecVersion": {"1.0"}}, true},
		{map[string][]string{"ce-specversion": {"1.0"}, "Content-Type": {"application/json"}}, true},
		{map[string][]string{"ce-specversion": {"1.0"}, "content-type": {"Application/CloudEvents+json; charset=utf-8"}}, false},
		{map[string][]string{"ce-specversion": {"1.0"}, "content-type": {"application/cloudevents-batch+json"}}, false},
	} {
		if got := events.IsBinary(c.header); got != c.want {
			t.Errorf("%v: %t", c.header, got)
		}
	}
}

// TestBinaryIsStructured: every golden event comes out of the binary mode as it is.
func TestBinaryIsStructured(t *testing.T) {
	for _, typ := range schema.Types() {
		raw, _ := schema.Example(typ)
		e, err := events.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		header := map[string][]string{"ce-specversion": {"1.0"}, "Content-Type": {events.ContentType}}
		for name, value := range map[string]string{
			"id": e.ID, "source": e.Source, "type": e.Type, "subject": e.Subject, "time": e.Time, "dataschema": e.DataSchema, "episodeid": e.EpisodeID,
			"sequence": e.Sequence, "causationid": e.CausationID, "correlationid": e.CorrelationID, "dataref": e.DataRef,
		} {
			if value != "" {
				header["ce-"+name] = []string{value}
			}
		}
		out, fault := events.FromBinary(header, e.RawData)
		if fault != nil {
			t.Errorf("%s: %v", typ, fault)
			continue
		}
		got, want := jsontext.Value(out), jsontext.Value(raw)
		if err := got.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if err := want.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s:\n got %s\nwant %s", typ, got, want)
		}
	}
}
