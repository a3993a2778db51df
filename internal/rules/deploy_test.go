package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	deployDir = "../../deploy"
	// maxExposure is systemd's own figure for what a unit leaves open, of ten.
	maxExposure = 2.0
)

// units copies the unit files to a directory of the test's, with a command that
// exists here.
func units(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob(filepath.Join(deployDir, "systemd", "*"))
	if err != nil || len(files) < 9 {
		t.Fatalf("unit files %v: %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "=/usr/local/bin/assay", "=/bin/true")
		names = append(names, filepath.Base(f))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, names
}

func needsSystemd(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIPPED: there is no systemd-analyze here (Debian package systemd)")
	}
}

func TestUnitsAreValid(t *testing.T) {
	needsSystemd(t)
	dir, names := units(t)
	cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, names...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

func TestUnitsAreHardened(t *testing.T) {
	needsSystemd(t)
	dir, names := units(t)
	for _, name := range names {
		if filepath.Ext(name) != ".service" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", filepath.Join(dir, name)).CombinedOutput()
			m := exposure.FindSubmatch(out)
			if err != nil || m == nil {
				t.Fatalf("systemd-analyze security: %v\n%s", err, out)
			}
			score, err := strconv.ParseFloat(string(m[1]), 64)
			if err != nil || score > maxExposure {
				t.Errorf("exposure %s, %v; want at most %.1f\n%s", m[1], err, maxExposure, out)
			}
		})
	}
}

// Each unit runs as a user that the sysusers file makes.
func TestUnitsHaveUsers(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(deployDir, "sysusers.d", "assay.conf"))
	if err != nil {
		t.Fatal(err)
	}
	dir, names := units(t)
	seen := map[string]string{}
	for _, name := range names {
		unit, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(unit)) {
			user, ok := strings.CutPrefix(strings.TrimSpace(line), "User=")
			if !ok {
				continue
			}
			if !strings.Contains(string(raw), "\nu "+user+" ") {
				t.Errorf("%s runs as %s, whom nobody makes", name, user)
			}
			// The sensors of a host share a user: their credentials do.
			service, _, _ := strings.Cut(strings.TrimSuffix(name, ".service"), "@")
			if other := seen[user]; other != "" && other != service {
				t.Errorf("%s and %s run as the same user", name, other)
			}
			seen[user] = service
		}
	}
	if len(seen) < 7 {
		t.Errorf("users %v", seen)
	}
}
