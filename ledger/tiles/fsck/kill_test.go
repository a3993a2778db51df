package fsck_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"assay/ledger"
	"assay/ledger/tiles"
	"assay/ledger/tiles/tilestest"
)

const (
	killedSize = 3000
	killedEnv  = "ASSAY_TEST_EXPORT_TO" // makes TestKilledExport the process that is killed
)

// TestKilledExport: kill -9 of a process that exports, again and again, and then an
// export that comes through.
func TestKilledExport(t *testing.T) {
	if dir := os.Getenv(killedEnv); dir != "" {
		exportUntilKilled(t, dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "export")
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledExport$")
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		// It says when it begins to write; then it has a few milliseconds.
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(time.Millisecond * time.Duration(5+5*round)))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := os.Stat(filepath.Join(dir, tiles.CheckpointName)); err == nil {
			break // it was done, and the key went with it
		}
	}
	if _, err := os.Stat(filepath.Join(dir, tiles.CheckpointName)); err != nil {
		disk, err := tiles.OpenDisk(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer disk.Close()
		export(t, disk, killedLog(t), killedSize)
	}
	if r := check(t, os.DirFS(dir), ""); r.Verdict != ledger.Unanchored || r.Size != killedSize {
		t.Errorf("%+v", r)
	}
}

// exportUntilKilled exports the same ledger in every process: the key, which has
// no part in the tree, is the only thing that differs.
func exportUntilKilled(t *testing.T, dir string) {
	disk, err := tiles.OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := killedLog(t)
	os.Stdout.WriteString(".")
	export(t, slowDisk{disk}, l, killedSize)
	<-context.Background().Done()
}

func killedLog(t *testing.T) *tilestest.Log {
	l := tilestest.New(t, 0)
	for range killedSize {
		l.Add(`{"type":"ledger.opened","data":{"public_key":"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"}}`)
	}
	return l
}

// slowDisk gives the killer time.
type slowDisk struct{ *tiles.Disk }

func (d slowDisk) WriteFile(name string, data []byte) error {
	time.Sleep(time.Millisecond)
	return d.Disk.WriteFile(name, data)
}
