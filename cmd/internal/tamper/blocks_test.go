package tamper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/cmd/internal/node"
)

// TestRemovedBlocks: a block file of the broker's store that is gone takes many
// records with it, and the broker serves what is left without a word.
func TestRemovedBlocks(t *testing.T) {
	l := newLab(t, 160, 58000)
	whole := &bench{l, t, l.dir}
	first := whole.firstRecords()
	if len(first) < 3 {
		t.Fatalf("blocks that begin with records %v: too few for the test", first)
	}
	n := len(l.bodies)
	for _, index := range []bool{true, false} {
		for block, seq := range first {
			name := fmt.Sprintf("block %d of %d, index.db kept %v", block+1, len(first), index)
			t.Run(name, func(t *testing.T) {
				b := &bench{l, t, node.Dir(filepath.Join(t.TempDir(), "copy"))}
				copyDir(t, l.dir, b.dir)
				check(t, os.Remove(filepath.Join(b.msgs(), fmt.Sprintf("%d.blk", block+1))))
				if !index {
					check(t, os.Remove(filepath.Join(b.msgs(), "index.db")))
				}
				got := b.look()
				for _, verify := range []string{got.verify, got.pin} {
					if want := fmt.Sprintf(" %d", seq); !strings.HasSuffix(verify, want) || !strings.HasPrefix(verify, "sequence") && !strings.HasPrefix(verify, "end") {
						t.Errorf("verify: %s, want%s", verify, want)
					}
				}
				if got.logger != "corrupt" && got.logger != "behind" {
					t.Errorf("logger: %s", got.logger)
				}
				if !strings.HasPrefix(got.replay, "gap") && got.replay != fmt.Sprintf("ahead %d", n) {
					t.Errorf("replay: %s", got.replay)
				}
				t.Log(strings.Join(got.cells(), " | "))
			})
		}
	}
}

// firstRecords are the numbers of the first record in each of the broker's
// blocks.
func (b *bench) firstRecords() []int {
	b.t.Helper()
	var out []int
	for block := 1; ; block++ {
		raw, err := os.ReadFile(filepath.Join(b.msgs(), fmt.Sprintf("%d.blk", block)))
		if os.IsNotExist(err) {
			return out
		}
		check(b.t, err)
		for i, body := range b.bodies {
			if bytes.Contains(raw, body) {
				out = append(out, i+1)
				break
			}
		}
	}
}
