package criterion

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// sourced is a registry with one source of each kind that an adapter of this
// package's knowledge reads.
const sourced = `{"v":1,"sources":[
 {"name":"prom","kind":"prometheus","url":"http://127.0.0.1:9090","step":"5s"},
 {"name":"alerts","kind":"alertmanager","listen":"127.0.0.1:9095"}],"signals":[
 {"name":"prom_up_to","source":"prom","unit":"1","kind":"gauge","heartbeat":"prom_up_to",COMMON},
 {"name":"up_node","source":"prom","unit":"1","kind":"gauge","heartbeat":"up_node","selector":"up{job=\"node\"}",COMMON},
 {"name":"oom_kills","source":"prom","unit":"1","kind":"counter","heartbeat":"prom_up_to","selector":"node_vmstat_oom_kill","start":"node_boot_time_seconds",COMMON},
 {"name":"load","source":"prom","unit":"1","kind":"gauge","heartbeat":"prom_up_to","query":"sum(node_load1)",COMMON},
 {"name":"crashes","source":"prom","unit":"1","kind":"event","heartbeat":"up_node","selector":"crashed",COMMON},
 {"name":"watchdog","source":"alerts","unit":"1","kind":"gauge","heartbeat":"watchdog","match":{"alertname":"Watchdog"},COMMON},
 {"name":"memory_alert","source":"alerts","unit":"1","kind":"event","heartbeat":"watchdog","match":{"alertname":"high_memory_load"},COMMON}]}`

func sourcedRegistry() string {
	return strings.ReplaceAll(sourced, "COMMON",
		`"writer":"sensor/x","interval":"5s","max_staleness":"50s","coverage_floor":0.9,"max_gap":"20s","allowed_lateness":"30s","max_skew":"5s","lo":null,"hi":null`)
}

func TestSources(t *testing.T) {
	r, err := ParseRegistry([]byte(sourcedRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	prom := r.Source("prom")
	if prom.Kind != PrometheusKind || prom.Step != 5*time.Second || prom.QueryOffset != DefaultQueryOffset {
		t.Errorf("%+v", prom)
	}
	if r.Source("host").Kind != HostKind || r.Source("gpu").Kind != NATSKind || r.Source("alerts").Listen != "127.0.0.1:9095" {
		t.Error("kinds are told wrongly")
	}
	if got := r.SignalsOf("alerts"); len(got) != 2 || got[1].Match["alertname"] != "high_memory_load" || !got[0].IsOwnHeartbeat() || got[1].IsOwnHeartbeat() {
		t.Errorf("%+v", got)
	}

	gpu := signal("gpu_temperature_celsius", Gauge, "gpu_temperature_celsius")
	gpu.Source, gpu.Writer = "gpu", "sensor/gpu"
	raw, err := AddSignals([]byte(sourcedRegistry()), gpu)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseRegistry(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again.Source("prom") != prom || again.Source("alerts") != r.Source("alerts") {
		t.Errorf("sources are not kept: %s", raw)
	}
	for _, name := range []string{"oom_kills", "load", "memory_alert"} {
		a, _ := r.Signal(name)
		b, ok := again.Signal(name)
		if !ok || a.Query != b.Query || a.Selector != b.Selector || a.Start != b.Start || a.Match["alertname"] != b.Match["alertname"] {
			t.Errorf("%s became %+v", name, b)
		}
	}
	if got := again.Sources(); !slices.Equal(got, []string{"alerts", "gpu", "prom"}) {
		t.Errorf("sources %v", got)
	}
}

func TestSourcesRefused(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"unknown kind", `"kind":"prometheus"`, `"kind":"graphite"`, "/sources/0/kind"},
		{"unknown member", `"step":"5s"`, `"steps":"5s"`, "steps"},
		{"bad name", `"name":"prom","kind"`, `"name":"Prom","kind"`, "/sources/0/name"},
		{"twice", `"name":"alerts","kind":"alertmanager","listen":"127.0.0.1:9095"`, `"name":"prom","kind":"nats"`, "/sources/1/name"},
		{"of no signal", `"name":"alerts","kind"`, `"name":"alarms","kind"`, "/signals/5/match"},
		{"another host", `"name":"alerts","kind":"alertmanager","listen":"127.0.0.1:9095"`, `"name":"alerts","kind":"host"`, "/sources/1/kind"},
		{"member of another kind", `"step":"5s"`, `"listen":"127.0.0.1:1"`, "/sources/0/listen"},
		{"no url", `"url":"http://127.0.0.1:9090",`, ``, "/sources/0/url"},
		{"no scheme", `http://127.0.0.1:9090`, `127.0.0.1:9090`, "/sources/0/url"},
		{"plain http to elsewhere", `http://127.0.0.1:9090`, `http://prom.example:9090`, "plain_http"},
		{"password in the url", `http://127.0.0.1:9090`, `http://me:secret@127.0.0.1:9090`, "password_file"},
		{"step below a second", `"step":"5s"`, `"step":"500ms"`, "/sources/0/step"},
		{"user without password", `"step":"5s"`, `"user":"me"`, "/sources/0/user"},
		{"two ways to log in", `"step":"5s"`, `"user":"me","password_file":"p","token_file":"t"`, "/sources/0/token_file"},
		{"listens to everyone", `127.0.0.1:9095`, `0.0.0.0:9095`, "/sources/1/listen"},
		{"listens nowhere", `"listen":"127.0.0.1:9095"`, `"listen":"9095"`, "/sources/1/listen"},
		{"query on an alert", `"match":{"alertname":"high_memory_load"}`, `"query":"up"`, "/signals/6/query"},
		{"alert without match", `,"match":{"alertname":"high_memory_load"}`, ``, "/signals/6/match"},
		{"alert sampled", `"kind":"event","heartbeat":"watchdog"`, `"kind":"gauge","heartbeat":"watchdog"`, "/signals/6/kind"},
		{"query and selector", `"query":"sum(node_load1)"`, `"query":"sum(node_load1)","selector":"x"`, "/signals/3/query"},
		{"neither", `"query":"sum(node_load1)",`, ``, "/signals/3/query"},
		{"start of a gauge", `"query":"sum(node_load1)"`, `"selector":"x","start":"y"`, "/signals/3/start"},
		{"event under the own heartbeat", `"kind":"event","heartbeat":"up_node"`, `"kind":"event","heartbeat":"prom_up_to"`, "/signals/4/heartbeat"},
		{"ticks faster than the step", `"step":"5s"`, `"step":"6s"`, "/signals/0/interval"},
		{"no own heartbeat", `"heartbeat":"prom_up_to",`, `"heartbeat":"prom_up_to","selector":"x",`, "/sources/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(sourcedRegistry(), tc.old, tc.new, 1)
			_, err := ParseRegistry([]byte(bad))
			if bad == sourcedRegistry() {
				t.Fatal("the case changes nothing")
			}
			if !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want ErrRegistry naming %s", err, tc.want)
			}
		})
	}
	remote := strings.Replace(sourcedRegistry(), `http://127.0.0.1:9090"`, `http://prom.example:9090/prefix","plain_http":true`, 1)
	if _, err := ParseRegistry([]byte(remote)); err != nil {
		t.Errorf("plain http that is asked for: %v", err)
	}
	hasty := strings.ReplaceAll(sourcedRegistry(), `"allowed_lateness":"30s"`, `"allowed_lateness":"0s"`)
	if _, err := ParseRegistry([]byte(hasty)); !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), "/signals/5/allowed_lateness") {
		t.Errorf("a Watchdog that vouches at once: %v", err)
	}
	var rest []string
	for line := range strings.Lines(sourcedRegistry()) {
		if !strings.Contains(line, `"source":"prom"`) || strings.Contains(line, `"name":"prom_up_to"`) {
			rest = append(rest, line)
		}
	}
	if _, err := ParseRegistry([]byte(strings.Join(rest, ""))); !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), "asks nothing") {
		t.Errorf("a heartbeat alone: %v", err)
	}
	skewed := strings.Replace(sourcedRegistry(), `"query":"sum(node_load1)","writer":"sensor/x","interval":"5s","max_staleness":"50s","coverage_floor":0.9,"max_gap":"20s","allowed_lateness":"30s","max_skew":"5s"`,
		`"query":"sum(node_load1)","writer":"sensor/x","interval":"5s","max_staleness":"50s","coverage_floor":0.9,"max_gap":"20s","allowed_lateness":"30s","max_skew":"1s"`, 1)
	if _, err := ParseRegistry([]byte(skewed)); !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), "/signals/3/max_skew") {
		t.Errorf("a grid coarser than the skew: %v", err)
	}
}

// The page's example is a registry.
func TestDocumentedRegistry(t *testing.T) {
	page, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	example = strings.Replace(example, `,
   {"name":"alerts","kind":"alertmanager","listen":"127.0.0.1:9095"}`, "", 1) // its signals stand further down
	if _, err := ParseRegistry([]byte(example)); err != nil {
		t.Errorf("%v\n%s", err, example)
	}
}
