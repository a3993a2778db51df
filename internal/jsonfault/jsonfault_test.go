package jsonfault

import (
	"testing"

	"github.com/go-json-experiment/json"
)

func TestText(t *testing.T) {
	type part struct {
		On    *bool   `json:"on"`
		Count int64   `json:"count"`
		Size  uint32  `json:"size"`
		Share float64 `json:"share"`
		Name  string  `json:"name"`
	}
	type whole struct {
		Parts []part `json:"parts"`
	}
	for raw, want := range map[string]string{
		`7`:                                          "want an object",
		`{"parts":{}}`:                               "at /parts: want a list",
		`{"parts":[{},{"on":1}]}`:                    "at /parts/1/on: want true or false",
		`{"parts":[{"count":"1"}]}`:                  "at /parts/0/count: want a whole number",
		`{"parts":[{"size":1.5}]}`:                   "at /parts/0/size: want a whole number",
		`{"parts":[{"size":-1}]}`:                    "at /parts/0/size: want a whole number",
		`{"parts":[{"share":[]}]}`:                   "at /parts/0/share: want a number",
		`{"parts":[{"name":"x"`:                      `unexpected EOF within "/parts/0" after offset 21`,
		`{"parts":[{"name":{}}]}`:                    "at /parts/0/name: want a text",
		`{"parts":[],"other":1}`:                     `at /other: unknown object member name`,
		`{"parts":[{"count":9e99}]}`:                 "at /parts/0/count: want a whole number",
		`{"parts":[{"count":7}],}`:                   "invalid character ',' at start of value after offset 22",
		`{"parts":[],"parts":[]}`:                    `duplicate object member name "parts"`,
		`{"parts":[{"count":99999999999999999999}]}`: "at /parts/0/count: value out of range",
	} {
		var v whole
		err := json.Unmarshal([]byte(raw), &v, json.RejectUnknownMembers(true))
		if err == nil {
			t.Errorf("%s is taken", raw)
			continue
		}
		if got := Text(err); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
