package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
	"assay/ledger/logger"
)

// AnchorConfig says what to trust: the key and checkpoints of DIR, or pins.
type AnchorConfig struct {
	Dir Dir
	// Key is a note verifier key, or a file that holds one; "" takes DIR's.
	Key string
	// Checkpoint is a file with a signed checkpoint; "" takes DIR's.
	Checkpoint string
}

// LoadAnchor collects what an audit may trust. The key never comes from the
// ledger itself. What is absent is left out, so that the audit answers
// "unanchored"; what is there but broken is kept as Anchor.Broken.
func LoadAnchor(c AnchorConfig) (ledger.Anchor, error) {
	var a ledger.Anchor
	key, err := loadKey(c)
	if err != nil || key == nil {
		return a, err
	}
	a.Key = key.vkey
	if c.Checkpoint != "" {
		raw, err := os.ReadFile(c.Checkpoint)
		if err != nil {
			return a, err
		}
		cp, err := ledger.OpenCheckpoint(raw, key.verifier)
		if err != nil {
			return a, fmt.Errorf("%s: %w", c.Checkpoint, err)
		}
		a.Checkpoints = []ledger.Checkpoint{cp}
		return a, nil
	}
	a.Checkpoints, err = logger.LoadCheckpoints(c.Dir.Logger(), key.verifier)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	a.Broken = err
	return a, nil
}

type pinnedKey struct {
	vkey     string
	verifier note.Verifier
}

// loadKey is nil when there is neither a pin nor a key in DIR.
func loadKey(c AnchorConfig) (*pinnedKey, error) {
	if c.Key == "" {
		vkey, v, err := logger.LoadVerifier(c.Dir.Logger())
		if errors.Is(err, logger.ErrNotInitialised) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return &pinnedKey{vkey, v}, nil
	}
	text := c.Key
	if raw, err := os.ReadFile(c.Key); err == nil {
		text = string(raw)
	}
	text = strings.TrimSpace(text)
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", text, err)
	}
	return &pinnedKey{text, v}, nil
}

// Verify audits the evidence up to its present end. progress is called now
// and then with the number of records read.
func Verify(ctx context.Context, e Evidence, a ledger.Anchor, progress func(done, total ledger.Seq)) (ledger.Report, error) {
	last, err := e.Head(ctx)
	if err != nil {
		return ledger.Report{}, err
	}
	// Checkpoints that were signed while this runs are not yet read.
	d := ledger.NewAuditor(a)
	if last > 0 {
		err = e.Read(ctx, 1, last, func(seq ledger.Seq, body []byte) error {
			d.Add(seq, body)
			if progress != nil && seq%4096 == 0 {
				progress(seq, last)
			}
			return nil
		})
	}
	if err != nil {
		return ledger.Report{}, err
	}
	return d.Report(), nil
}
