package node

import (
	"net/url"
	"testing"

	"assay/resolver"
)

func TestWorkQuery(t *testing.T) {
	good := map[string]string{"which": "due", "principal": "agent/piper", "after": "7", "limit": "1000"}
	for _, tc := range []struct {
		name, member, value string
		ok                  bool
	}{
		{"as it is asked for", "", "", true},
		{"the first page", "after", "0", true},
		{"every principal's", "principal", "", true},
		{"another list", "which", "all", false},
		{"no list", "which", "", false},
		{"no limit", "limit", "", false},
		{"nothing", "limit", "0", false},
		{"more than a page", "limit", "1001", false},
		{"far more than a page", "limit", "99999999999999999999", false},
		{"no place", "after", "", false},
		{"before the first record", "after", "-1", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := url.Values{}
			for member, value := range good {
				v.Set(member, value)
			}
			if tc.member != "" {
				v.Set(tc.member, tc.value)
			}
			q, err := workQuery(v)
			if (err == nil) != tc.ok {
				t.Fatalf("%+v, %v", q, err)
			}
			if want := (resolver.WorkQuery{Which: resolver.WorkDue, Principal: "agent/piper", After: 7, Limit: 1000}); tc.member == "" && q != want {
				t.Errorf("%+v, want %+v", q, want)
			}
		})
	}
}
