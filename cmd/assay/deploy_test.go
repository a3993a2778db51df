package main

import (
	"io"
	"os"
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
				var all cli
				parser, err := newParser(&all, io.Discard, io.Discard, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := parser.Parse(l.args); err != nil {
					t.Errorf("%s: assay %s: %v", l.from, strings.Join(l.args, " "), err)
				}
			}
		})
	}
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
