package versioned

import (
	"errors"
	"testing"
)

func TestDecode(t *testing.T) {
	type file struct {
		V int    `json:"v"`
		A string `json:"a"`
	}
	for _, c := range []struct {
		name, in string
		ok       bool
		version  bool // the error is ErrVersion
	}{
		{"whole", `{"v":3,"a":"x"}`, true, false},
		{"in any order", ` {"a":"x", "v":3} `, true, false},
		{"an older format", `{"v":2,"a":"x"}`, false, true},
		{"a newer one, which has more", `{"v":4,"a":"x","b":1}`, false, true},
		{"no version", `{"a":"x"}`, false, true},
		{"null", `{"v":null,"a":"x"}`, false, true},
		{"as text", `{"v":"3","a":"x"}`, false, true},
		{"in other digits", `{"v":3.0,"a":"x"}`, false, true},
		{"an unknown member", `{"v":3,"a":"x","b":1}`, false, false},
		{"a member in another case", `{"v":3,"A":"x"}`, false, false},
		{"a member twice", `{"v":3,"a":"x","a":"x"}`, false, false},
		{"the version twice", `{"v":3,"v":3,"a":"x"}`, false, false},
		{"something behind it", `{"v":3,"a":"x"} {}`, false, false},
		{"another type", `{"v":3,"a":1}`, false, false},
		{"no object", `[3]`, false, false},
		{"nothing", ``, false, false},
	} {
		var f file
		err := Decode([]byte(c.in), 3, &f)
		if (err == nil) != c.ok || errors.Is(err, ErrVersion) != c.version {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.ok && f != (file{3, "x"}) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
