package stream

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// What servers answer: a leader, one that a majority left a moment ago, and one
// of those that wait for an election.
func TestWhoseHeadCounts(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   bool
	}{
		"alone":               {`{"config":{"num_replicas":1},"state":{"last_seq":7}}`, true},
		"alone, of a cluster": {`{"config":{"num_replicas":1},"cluster":{"leader":"n1"}}`, true},
		"leader":              {`{"config":{"num_replicas":3},"cluster":{"leader":"n1","replicas":[{"name":"n2","current":true,"active":60000000},{"name":"n3","current":true,"active":990000000}]}}`, true},
		"leader of two":       {`{"config":{"num_replicas":3},"cluster":{"leader":"n1","replicas":[{"name":"n2","active":60000000},{"name":"n3","offline":true,"active":99000000000}]}}`, true},
		"cut off":             {`{"config":{"num_replicas":3},"cluster":{"leader":"n1","replicas":[{"name":"n2","current":true,"active":3100000000},{"name":"n3","current":true,"active":3100000000}]}}`, false},
		"never heard of them": {`{"config":{"num_replicas":3},"cluster":{"leader":"n1","replicas":[{"name":"n2","active":0},{"name":"n3","active":0}]}}`, false},
		"no leader":           {`{"config":{"num_replicas":3},"cluster":{"replicas":[{"name":"n2","active":60000000},{"name":"n3","active":60000000}]}}`, false},
		"says nothing":        {`{"config":{"num_replicas":3}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var i info
			if err := json.Unmarshal([]byte(c.answer), &i); err != nil {
				t.Fatal(err)
			}
			if got := i.led(); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
