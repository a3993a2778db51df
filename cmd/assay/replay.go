package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

type replayCmd struct {
	evidenceFlags
	To uint64 `help:"Last record. Default: where the live views stand." placeholder:"SEQ"`
}

// replayResult is the outcome of a replay. Match and LiveDigest are null when
// there was nothing to compare with.
type replayResult struct {
	Match      *bool      `json:"match"`
	Digest     string     `json:"digest"`
	LiveDigest *string    `json:"live_digest"`
	Seq        ledger.Seq `json:"seq"`
	Root       string     `json:"root"`
	Parked     int        `json:"parked"`
	Compared   *string    `json:"compared_with"` // the live views, or a snapshot
}

func (c *replayCmd) Run(a *app) error {
	to := ledger.Seq(c.To)
	known, err := c.known(a, to)
	if errors.Is(err, projector.ErrSnapshot) {
		return err // it was read, and does not hold
	}
	if err != nil {
		return notCompared(err)
	}
	if known != nil {
		to = known.digest.Seq
	}
	e, err := c.open(a)
	if err != nil {
		return notCompared(err)
	}
	defer e.Close()
	r, err := a.replay(e, to, known)
	var broken *projector.LinkError
	if errors.As(err, &broken) {
		return err // it was read, and does not hold
	}
	if err != nil {
		return notCompared(err)
	}
	if err := a.print(r, func(w io.Writer) { printReplay(w, r) }); err != nil {
		return err
	}
	switch {
	case r.Match == nil:
		return &exitError{code: exitNotCompare}
	case !*r.Match:
		return errDoesNotHold
	}
	return nil
}

// known is a digest to compare with.
type known struct {
	digest projector.Digest
	where  string
}

// known finds the live views' digest, or a snapshot's at to; nil when there is
// neither of the versions that this build's views have. A directory that is not
// initialised has none.
func (c *replayCmd) known(a *app, to ledger.Seq) (*known, error) {
	if a.dir.Check() != nil {
		return nil, nil
	}
	live, err := a.liveDigest()
	if err != nil {
		return nil, err
	}
	ours := projector.Versions(view.All())
	if live != nil && (to == 0 || to == live.Seq) && slices.Equal(live.Versions, ours) {
		return &known{*live, "live views"}, nil
	}
	snapshots, err := projector.ListSnapshots(a.dir.Snapshots())
	if err != nil {
		return nil, err
	}
	for _, s := range snapshots {
		if s.Problem != "" || s.Manifest.Seq != to || !slices.Equal(s.Manifest.Versions, ours) {
			continue
		}
		m, err := projector.VerifySnapshot(s.Path)
		if err != nil {
			return nil, err
		}
		return &known{m.Digest, "snapshot " + s.Path}, nil
	}
	return nil, nil
}

// liveDigest asks the running projector, or reads the views when none runs;
// nil without views.
func (a *app) liveDigest() (*projector.Digest, error) {
	var d projector.Digest
	err := node.Ask(a.ctx, a.dir.Socket(), "GET", "/digest", nil, &d)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			d, err = s.Digest()
			return err
		})
	}
	if errors.Is(err, node.ErrNoViews) {
		return nil, nil
	}
	return &d, err
}

func (a *app) replay(e node.Evidence, to ledger.Seq, known *known) (replayResult, error) {
	show, end := progress[ledger.Seq](a, "replaying")
	defer end()
	got, err := node.Replay(a.ctx, node.FoldConfig{Evidence: e, To: to, Progress: show, Log: a.log}, nil)
	if err != nil {
		return replayResult{}, err
	}
	r := replayResult{Digest: got.SHA256, Seq: got.Seq, Root: got.Root, Parked: got.Parked}
	if known != nil {
		want := known.digest.SHA256
		match := want == r.Digest && known.digest.Seq == r.Seq
		r.Match, r.LiveDigest, r.Compared = &match, &want, &known.where
	}
	return r, nil
}

func printReplay(w io.Writer, r replayResult) {
	fmt.Fprintf(w, "replayed    %d records, %d parked\nroot        %s\ndigest      %s\n", r.Seq, r.Parked, r.Root, r.Digest)
	switch {
	case r.Match == nil:
		fmt.Fprintln(w, "There was nothing to compare with: no views or snapshot at this record, of the versions that this build has.")
	case *r.Match:
		fmt.Fprintf(w, "match       the same as the %s\n", *r.Compared)
	default:
		fmt.Fprintf(w, "MISMATCH    the %s have %s\n", *r.Compared, *r.LiveDigest)
	}
}
