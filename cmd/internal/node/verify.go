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
	// Key is a note verifier key, or a file that holds one; "" takes the pin's,
	// then DIR's.
	Key string
	// Checkpoint is a file with a signed checkpoint; "" takes DIR's.
	Checkpoint string
	// Pin is what is remembered of this log; nil for nothing.
	Pin *Pin
	// Policy is a file with the witness policy that LoadQuorum asks for; ""
	// takes DIR's, if it has one.
	Policy string
}

// LoadAnchor collects what an audit may trust. The key never comes from the
// ledger itself. What is absent is left out, so that the audit answers
// "unanchored"; what is there but broken is kept as Anchor.Broken.
func LoadAnchor(c AnchorConfig) (a ledger.Anchor, err error) {
	if a.Key, err = loadKey(c); err != nil {
		return a, err
	}
	if c.Pin != nil {
		a.Checkpoints = []ledger.Checkpoint{*c.Pin.Head()}
	}
	if c.Checkpoint != "" {
		cp, err := ReadCheckpoint(c.Checkpoint)
		if err != nil {
			return a, err
		}
		a.Signed = []ledger.SignedCheckpoint{cp}
		return a, nil
	}
	a.Signed, err = logger.ReadCheckpoints(c.Dir.Logger())
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	a.Broken = err
	return a, nil
}

// ReadCheckpoint reads a file with a signed checkpoint. The signature is not
// checked.
func ReadCheckpoint(path string) (ledger.SignedCheckpoint, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ledger.SignedCheckpoint{}, err
	}
	cp, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		return cp, fmt.Errorf("%s: %w", path, err)
	}
	return cp, nil
}

// loadKey is "" when there is neither a pin nor a key in DIR.
func loadKey(c AnchorConfig) (string, error) {
	if c.Key == "" && c.Pin != nil {
		return c.Pin.Key, nil
	}
	if c.Key == "" {
		vkey, _, err := logger.LoadVerifier(c.Dir.Logger())
		if errors.Is(err, logger.ErrNotInitialised) {
			return "", nil
		}
		return vkey, err
	}
	return parseKey(c.Key)
}

// parseKey reads a verifier key, or the file that holds it.
func parseKey(text string) (string, error) {
	if raw, err := os.ReadFile(text); err == nil {
		text = string(raw)
	}
	text = strings.TrimSpace(text)
	if _, err := note.NewVerifier(text); err != nil {
		return "", fmt.Errorf("key %q: %w", text, err)
	}
	return text, nil
}

// LoadKey is the key to check a file with: nil when there is none to trust.
func LoadKey(c AnchorConfig) (note.Verifier, error) {
	text, err := loadKey(c)
	if err != nil || text == "" {
		return nil, err
	}
	return note.NewVerifier(text)
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
	var lost *ledger.LostError
	if errors.As(err, &lost) {
		d.Lost(lost.Last)
		err = nil
	}
	if err != nil {
		return ledger.Report{}, err
	}
	return d.Report(), nil
}
