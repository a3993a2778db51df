package criterion

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const mapped = `{"v":1,"sources":[
 {"name":"journal","kind":"journald"},
 {"name":"remote","kind":"journald","directory":"/var/log/journal/remote","rate_limit":"90s"},
 {"name":"app","kind":"otlp","listen":"127.0.0.1:4318","token_file":"/etc/token"}],"signals":[
 {"name":"journal_up_to","source":"journal","kind":"gauge","heartbeat":"journal_up_to",COMMON},
 {"name":"failed","source":"journal","kind":"event","heartbeat":"journal_up_to","match":{"_PID":"1","MESSAGE_ID":"d9b3"},"labels_from":{"unit":"UNIT"},COMMON},
 {"name":"heap","source":"journal","kind":"gauge","heartbeat":"journal_up_to","match":{"_SYSTEMD_UNIT":"x.service"},"value_field":"HEAP",COMMON},
 {"name":"remote_up_to","source":"remote","kind":"gauge","heartbeat":"remote_up_to",COMMON},
 {"name":"alive","source":"app","kind":"gauge","heartbeat":"alive","metric":"app.alive",COMMON},
 {"name":"requests","source":"app","kind":"counter","heartbeat":"alive","metric":"http.requests","metric_unit":"{request}",
  "match":{"resource.attributes.service.name":"shop","scope.name":"lib"},"labels_from":{"route":"attributes.http.route"},COMMON},
 {"name":"slow","source":"app","kind":"counter","heartbeat":"alive","metric":"http.duration","field":"sum",COMMON},
 {"name":"crash","source":"app","kind":"event","heartbeat":"alive","match":{"severity_text":"FATAL","attributes.crash":"true"},COMMON}]}`

func mappedRegistry() string {
	return strings.ReplaceAll(mapped, "COMMON",
		`"unit":"1","writer":"sensor/x","interval":"5s","max_staleness":"50s","coverage_floor":0.9,"max_gap":"20s","allowed_lateness":"30s","max_skew":"5s","lo":null,"hi":null`)
}

func TestMappings(t *testing.T) {
	r, err := ParseRegistry([]byte(mappedRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Source("journal"); s.RateLimit != DefaultRateLimit || s.Directory != "" {
		t.Errorf("%+v", s)
	}
	if s := r.Source("remote"); s.RateLimit != 90*time.Second || s.Directory != "/var/log/journal/remote" {
		t.Errorf("%+v", s)
	}
	gpu := signal("gpu_temperature_celsius", Gauge, "gpu_temperature_celsius")
	gpu.Source, gpu.Writer = "gpu", "sensor/gpu"
	raw, err := AddSignals([]byte(mappedRegistry()), gpu)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseRegistry(raw)
	if err != nil {
		t.Fatal(err)
	}
	failed, _ := again.Signal("failed")
	heap, _ := again.Signal("heap")
	requests, _ := again.Signal("requests")
	slow, _ := again.Signal("slow")
	if failed.Match["_PID"] != "1" || failed.LabelsFrom["unit"] != "UNIT" || heap.ValueField != "HEAP" ||
		requests.Metric != "http.requests" || requests.MetricUnit != "{request}" || slow.Field != FieldSum || again.Source("remote") != r.Source("remote") {
		t.Errorf("a mapping is not kept: %s", raw)
	}
}

func TestMappingsRefused(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"a relative directory", `"directory":"/var`, `"directory":"var`, "/sources/1/directory"},
		{"a long rate limit", `"rate_limit":"90s"`, `"rate_limit":"2h"`, "/sources/1/rate_limit"},
		{"a directory of OTLP", `"token_file":"/etc/token"`, `"directory":"/d"`, "/sources/2/directory"},
		{"OTLP for everyone", `127.0.0.1:4318`, `0.0.0.0:4318`, "/sources/2/listen"},
		{"any entry as an event", `"match":{"_PID":"1","MESSAGE_ID":"d9b3"},"labels_from":{"unit":"UNIT"},`, ``, "/signals/1/match"},
		{"a heartbeat of any entry with labels", `"heartbeat":"journal_up_to","unit"`, `"heartbeat":"journal_up_to","labels_from":{"a":"A"},"unit"`, "/signals/0/match"},
		{"fields that anyone may write", `"_PID":"1",`, ``, "/signals/1/match"},
		{"a field in small letters", `"_PID":"1"`, `"_PID":"1","pid":"1"`, "/signals/1/match"},
		{"an entry's address", `"_PID":"1"`, `"_PID":"1","__CURSOR":"1"`, "/signals/1/match"},
		{"a long value", `"_PID":"1"`, `"_PID":"` + strings.Repeat("1", 257) + `"`, "/signals/1/match"},
		{"a label from no field", `{"unit":"UNIT"}`, `{"unit":"unit"}`, "/signals/1/labels_from/unit"},
		{"a label without a name", `{"unit":"UNIT"}`, `{"":"UNIT"}`, "/signals/1/labels_from"},
		{"an entry as a counter", `"kind":"event","heartbeat":"journal_up_to"`, `"kind":"counter","heartbeat":"journal_up_to"`, "/signals/1/kind"},
		{"a gauge without a value", `,"value_field":"HEAP"`, ``, "/signals/2/value_field"},
		{"a value of no field", `"value_field":"HEAP"`, `"value_field":"heap"`, "/signals/2/value_field"},
		{"a metric in a journal", `"value_field":"HEAP"`, `"metric":"heap"`, "/signals/2/metric"},
		{"a path of nothing", `"scope.name":"lib"`, `"scope.names":"lib"`, "/signals/5/match"},
		{"an attribute without a key", `"scope.name":"lib"`, `"attributes.":"lib"`, "/signals/5/match"},
		{"a point's severity", `"scope.name":"lib"`, `"severity_text":"lib"`, "/signals/5/match"},
		{"a metric as an event", `"kind":"counter","heartbeat":"alive","metric":"http.requests"`, `"kind":"event","heartbeat":"alive","metric":"http.requests"`, "/signals/5/kind"},
		{"another field", `"field":"sum"`, `"field":"p99"`, "/signals/6/field"},
		{"a sum as a gauge", `"kind":"counter","heartbeat":"alive","metric":"http.duration"`, `"kind":"gauge","heartbeat":"alive","metric":"http.duration"`, "/signals/6/kind"},
		{"a field of no metric", `"metric":"http.duration",`, `"match":{"body":"x"},`, "/signals/6/metric"},
		{"any record", `"match":{"severity_text":"FATAL","attributes.crash":"true"},`, ``, "/signals/7/match"},
		{"a record as a gauge", `"kind":"event","heartbeat":"alive","match"`, `"kind":"gauge","heartbeat":"alive","match"`, "/signals/7/kind"},
		{"two own heartbeats", `"heartbeat":"alive","metric":"http.duration"`, `"heartbeat":"slow","metric":"http.duration"`, "/sources/2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(mappedRegistry(), tc.old, tc.new, 1)
			if bad == mappedRegistry() {
				t.Fatal("the case changes nothing")
			}
			if _, err := ParseRegistry([]byte(bad)); !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want ErrRegistry naming %s", err, tc.want)
			}
		})
	}
}
