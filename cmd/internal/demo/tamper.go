package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/ledger/broker"
)

// tamper copies the ledger's directory, flips one byte of one record in the
// copy's store and audits that copy with the untouched anchor.
func (r *Result) tamper(ctx context.Context, cfg Config, e node.Evidence, anchor ledger.Anchor) error {
	target := ledger.Seq(r.Records / 2)
	var body []byte
	err := e.Read(ctx, target, target, func(_ ledger.Seq, b []byte) error {
		body = b
		return nil
	})
	if err != nil {
		return err
	}
	copied, err := os.MkdirTemp("", "assay-tampered-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	if err := os.CopyFS(copied, os.DirFS(string(cfg.Dir))); err != nil && !errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	if err := flip(broker.Dir(copied).Store(), body); err != nil {
		return err
	}
	cfg.Say("flipped one byte of record %d in a copy", target)
	bad, err := node.OpenEvidence(ctx, node.EvidenceConfig{Dir: node.Dir(copied), Log: cfg.Log})
	if err != nil {
		return err
	}
	defer bad.Close()
	report, err := node.Verify(ctx, bad, anchor, nil)
	if err != nil {
		return err
	}
	r.Tamper = Tampered{report.Verdict, report.FirstBadSeq, report.Finding, target}
	return nil
}

// flip changes one bit in the middle of the stored bytes of a record.
func flip(store string, body []byte) error {
	found := false
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || found || filepath.Ext(path) != ".blk" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(raw, body)
		if at < 0 {
			return nil
		}
		found = true
		raw[at+len(body)/2] ^= 1
		return os.WriteFile(path, raw, 0o600)
	})
	if err == nil && !found {
		err = errors.New("the record's bytes are in no block file")
	}
	return err
}
