package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"assay/internal/answerkeys"
)

const alertRules = `groups:
- name: probe
  rules:
  - {alert: Watchdog, expr: vector(1)}
  - {alert: LevelHigh, expr: probe_level > 80, labels: {severity: page}}
`

const alertRoutes = `route: {receiver: assay, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1s}
receivers:
- name: assay
  webhook_configs: [{url: 'http://%s/', send_resolved: true}]
`

// TestDeployedAlertmanager: Alertmanager's own tool takes the configuration that is
// shipped.
func TestDeployedAlertmanager(t *testing.T) {
	tool := mustFind(t, "amtool", "prometheus-alertmanager")
	if out, err := exec.Command(tool, "check-config", "../../../deploy/prometheus/alertmanager.yml").CombinedOutput(); err != nil {
		t.Errorf("amtool: %v\n%s", err, out)
	}
}

// TestAlertmanager takes an alert of a real Prometheus through a real
// Alertmanager and the whole path.
func TestAlertmanager(t *testing.T) {
	mustFind(t, "prometheus", "prometheus")
	path := mustFind(t, "prometheus-alertmanager", "prometheus-alertmanager")
	if _, err := os.Stat("/usr/share/prometheus/alertmanager/default.tmpl"); err != nil {
		t.Skipf("SKIPPED: Debian's Alertmanager does not start without its templates: %v", err)
	}
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		check(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	rules, watchdog := fmt.Sprintf("%q", write("rules.yml", alertRules)), "Watchdog"
	if real, ok := answerkeys.Find(t, "telemetry/promtool_rules.yml"); ok {
		rules, watchdog = fmt.Sprintf("%s, %q", rules, real), "AlwaysFiring" // which is one too
	}
	door, amAddr, promAddr := freeAddress(t), freeAddress(t), freeAddress(t)
	am := newProgram(t, path, "http://"+amAddr+"/-/ready", "--config.file="+write("am.yml", fmt.Sprintf(alertRoutes, door)),
		"--storage.path="+filepath.Join(dir, "am"), "--web.listen-address="+amAddr, "--cluster.listen-address=", "--log.level=warn")
	s := newTarget(t)
	startPrometheus(t, promAddr, s.URL, fmt.Sprintf("rule_files: [%s]\nalerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}\n", rules, amAddr))

	limits := fmt.Sprintf(signalLimits, "alerts", "4s")
	alert := func(signal, name, kind string) string {
		return fmt.Sprintf(`{"name":%q,"source":"alerts","unit":"1","kind":%q,"heartbeat":"watchdog","match":{"alertname":%q},`, signal, kind, name) + limits + `}`
	}
	o := observe(t, `{"name":"alerts","kind":"alertmanager","listen":"`+door+`"}`,
		alert("watchdog", watchdog, "gauge")+","+alert("level_high", "LevelHigh", "event"), "alerts")
	o.sealed("alerts", time.Now())

	const labels = `"labels":{"instance":"probe","job":"target","severity":"page"}`
	quiet, _ := o.predict(16*time.Second, `{"signal":"level_high",`+labels+`,"reduce":"count","op":"==","value":0}`, "1m")
	o.want(quiet, "confirmed")
	fires, _ := o.predict(60*time.Second, `{"signal":"level_high",`+labels+`,"reduce":"max","op":"==","value":0}`, "1m")
	ends, _ := o.predict(60*time.Second, `{"signal":"level_high",`+labels+`,"reduce":"min","op":"<=","value":0}`, "1m")
	s.change(t, 2, func() {})
	s.change(t, 3, func() { s.level = 90 })
	o.want(fires, "refuted")
	s.change(t, 3, func() { s.level = 50 })
	o.want(ends, "confirmed")

	// Without Alertmanager nothing says that nothing fired. Heartbeats lag behind
	// by lateness and max_gap, 13 s.
	silent, end := o.predict(40*time.Second, `{"signal":"level_high",`+labels+`,"reduce":"count","op":"==","value":0}`, "3s")
	s.change(t, 24, func() {})
	am.kill()
	o.sealed("host", end.Add(5*time.Second))
	if at := o.up.Judge.Stats().Watermarks["alerts"]; !at.Before(end) {
		t.Errorf("Alertmanager is dead and sealed up to %v", at)
	}
	o.want(silent, "unresolved coverage_short")
	if st := o.up.Tele.SourcesOf()["alerts"]; st.Refused > 0 || st.LeftOut > 0 || st.Sent == 0 {
		t.Errorf("%+v", st)
	}
}
