package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// commandLine is one of assay's that a shipped file has, without the program.
type commandLine struct {
	from string
	args []string
}

// TestDeployedCommands: every command line of assay's that a unit, a container, a
// script or a page about deploying has is one that this build takes.
func TestDeployedCommands(t *testing.T) {
	for name, c := range map[string]struct {
		lines []commandLine
		least int // how many there are, so that none is overlooked
	}{
		"units":   {unitCommands(t), 12},
		"compose": {composeCommands(t), 11},
		"script":  {scriptCommands(t, "../../deploy/cluster/netns.sh"), 8},
		"pages":   {slices.Concat(pageCommands(t, "../../deploy/README.md"), pageCommands(t, "../../docs/cluster.md")), 25},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.lines) < c.least {
				t.Errorf("only %d command lines", len(c.lines))
			}
			for _, l := range c.lines {
				checkTaken(t, l)
			}
		})
	}
}

// TestDeployedMCP: what clients of the Model Context Protocol are given starts the server.
func TestDeployedMCP(t *testing.T) {
	const dir = "../../deploy/mcp/"
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	var file struct {
		Servers map[string]server `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(mustText(t, dir+"mcp.json")), &file); err != nil {
		t.Fatal(err)
	}
	codex := regexp.MustCompile(`(?m)^\[mcp_servers\.assay\]\ncommand = "assay"\nargs = (\[.*\])$`).FindStringSubmatch(mustText(t, dir+"codex.toml"))
	var args []string
	if codex == nil || json.Unmarshal([]byte(codex[1]), &args) != nil {
		t.Fatalf("codex.toml starts %q", codex)
	}
	if s := file.Servers["assay"]; s.Command != "assay" || !slices.Equal(s.Args, args) {
		t.Errorf("mcp.json starts %+v, codex.toml %q", s, args)
	}
	if got := checkTaken(t, commandLine{"codex.toml", args}); got != "mcp" {
		t.Errorf("codex.toml starts assay %s", got)
	}
}

// TestDeployedMetrics runs the loop of deploy/README.md over the units: every service
// that Prometheus's configuration scrapes is started with the port that stands there.
func TestDeployedMetrics(t *testing.T) {
	_, loop, ok := strings.Cut(mustText(t, "../../deploy/README.md"), "```sh\nport=")
	loop, _, ok2 := strings.Cut(loop, "systemctl")
	if !ok || !ok2 {
		t.Fatal("the page has no loop")
	}
	units := t.TempDir()
	if err := os.CopyFS(units, os.DirFS("../../deploy/systemd")); err != nil {
		t.Fatal(err)
	}
	script := "port=" + strings.ReplaceAll(loop, "/etc/systemd/system", units)
	if out, err := exec.Command("sh", "-euc", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	targets := regexp.MustCompile(`targets: \["([0-9.:]+)"\]\n +labels: \{service: (\w+)\}`).FindAllStringSubmatch(mustText(t, "../../deploy/prometheus/prometheus.yml"), -1)
	if made, err := filepath.Glob(units + "/*.d/metrics.conf"); err != nil || len(made) != len(targets) || len(made) < 7 {
		t.Errorf("%d targets, and drop-ins %v, %v", len(targets), made, err)
	}
	for _, target := range targets {
		lines := strings.Split(mustText(t, units+"/assay-"+target[2]+".service.d/metrics.conf"), "\n")
		unit := mustText(t, units+"/assay-"+target[2]+".service")
		if len(lines) != 4 || lines[0] != "[Service]" || lines[1] != "ExecStart=" || lines[3] != "" {
			t.Fatalf("%s: %q", target[2], lines)
		}
		before, port, ok := strings.Cut(lines[2], " --metrics ")
		if !ok || port != target[1] || !strings.Contains(unit, "\n"+before+"\n") {
			t.Errorf("%s: %q, want its unit's command on %s", target[2], lines[2], target[1])
		}
		args, _ := strings.CutPrefix(lines[2], "ExecStart=/usr/local/bin/assay ")
		checkTaken(t, commandLine{target[2], strings.Fields(args)})
	}
}

// checkTaken wants a command line that this build takes, and says which command it is.
func checkTaken(t *testing.T, l commandLine) string {
	t.Helper()
	var all cli
	parser, err := newParser(&all, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	got, err := parser.Parse(l.args)
	if err != nil {
		t.Errorf("%s: assay %s: %v", l.from, strings.Join(l.args, " "), err)
		return ""
	}
	return got.Command()
}

func mustText(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// unitCommands are what systemd starts.
func unitCommands(t *testing.T) (out []commandLine) {
	t.Helper()
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("%i", "n1", "${LISTEN}", "127.0.0.1:7000")
	for _, path := range units {
		found := false
		for line := range strings.Lines(mustText(t, path)) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=/usr/local/bin/assay ")
			if ok {
				found = true
				out = append(out, commandLine{filepath.Base(path), strings.Fields(fill.Replace(command))})
			}
		}
		if !found {
			t.Errorf("%s starts nothing", path)
		}
	}
	return out
}

var (
	yamlList   = regexp.MustCompile(`(?m)^ *(command|entrypoint): \[(.*)\]$`)
	runService = regexp.MustCompile(`(?m)^# +docker compose run --rm init(.*)$`)
	entrypoint = regexp.MustCompile(`(?m)^ENTRYPOINT (\[.*\])$`)
)

// composeCommands are what the containers start, and what the comment says to run.
func composeCommands(t *testing.T) (out []commandLine) {
	t.Helper()
	file, image := mustText(t, "../../deploy/cluster/compose.yaml"), entrypoint.FindStringSubmatch(mustText(t, "../../deploy/cluster/Dockerfile"))
	var start []string
	if image == nil || json.Unmarshal([]byte(image[1]), &start) != nil || len(start) == 0 || start[0] != "assay" {
		t.Fatalf("the image starts %v", image)
	}
	var init []string
	for _, m := range yamlList.FindAllStringSubmatch(file, -1) {
		args := strings.Split(m[2], ", ")
		if m[1] == "command" {
			args = slices.Concat(start, args)
		} else {
			init = args
		}
		if args[0] != "assay" {
			t.Errorf("compose.yaml starts %v", args)
		}
		out = append(out, commandLine{"compose.yaml", args[1:]})
	}
	for _, m := range runService.FindAllStringSubmatch(file, -1) {
		out = append(out, commandLine{"compose.yaml", slices.Concat(init[1:], strings.Fields(m[1]))})
	}
	return out
}

// scriptCommands are those of a shell script that names the program $assay.
func scriptCommands(t *testing.T, path string) (out []commandLine) {
	t.Helper()
	text := strings.ReplaceAll(mustText(t, path), "\\\n", " ")
	hosts := regexp.MustCompile(`\$\(host [^)]*\)`)
	fill := strings.NewReplacer(`"`, "", "$dir", "/d", "$n", "n1")
	for line := range strings.Lines(text) {
		_, command, ok := strings.Cut(line, `"$assay" `)
		if !ok {
			continue
		}
		command, _, _ = strings.Cut(command, ">")
		out = append(out, commandLine{filepath.Base(path), strings.Fields(fill.Replace(hosts.ReplaceAllString(command, "10.0.0.1")))})
	}
	return out
}

// pageCommands are the commands in a page's code: whole lines of a block, or what
// stands between two backticks. Places that the reader fills get a value.
func pageCommands(t *testing.T, path string) (out []commandLine) {
	t.Helper()
	var code []string
	for i, part := range strings.Split(mustText(t, path), "```") {
		if i%2 == 1 {
			code = append(code, strings.Split(part, "\n")...)
			continue
		}
		for j, span := range strings.Split(part, "`") {
			if j%2 == 1 {
				code = append(code, strings.ReplaceAll(span, "\n", " "))
			}
		}
	}
	fill := strings.NewReplacer("…", "x", "--to N", "--to 1", "restore BACKUP", "restore .")
	for _, line := range code {
		line, _, _ = strings.Cut(line, " # ")
		for command := range strings.SplitSeq(line, "&&") {
			command = strings.TrimSpace(command)
			if _, rest, ok := strings.Cut(command, "-- assay "); ok && strings.HasPrefix(command, "runuser ") {
				command = "assay " + rest
			}
			if args, ok := strings.CutPrefix(command, "assay "); ok && !strings.HasPrefix(args, "_") {
				out = append(out, commandLine{filepath.Base(path), strings.Fields(fill.Replace(args))})
			}
		}
	}
	return out
}
