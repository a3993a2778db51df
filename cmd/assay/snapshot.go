package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"assay/cmd/internal/node"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

type snapshotCmd struct {
	Create snapshotCreateCmd `cmd:"" default:"1" help:"Write the running views to DIR/snapshots, without stopping them."`
	List   snapshotListCmd   `cmd:"" help:"List the snapshots."`
	Verify snapshotVerifyCmd `cmd:"" help:"Compute the digest of snapshots again, from their bytes and with --replay from the ledger."`
	Diff   snapshotDiffCmd   `cmd:"" help:"Say which views and keys differ between two snapshots, and which records lie between."`
	Prune  snapshotPruneCmd  `cmd:"" help:"Remove snapshots, but for the latest and the last of each closed week."`
}

type snapshotCreateCmd struct{}

func (c *snapshotCreateCmd) Run(a *app) error {
	var v node.SnapshotResult
	if err := node.Ask(a.ctx, a.dir.Socket(), "POST", "/snapshot", nil, &v); err != nil {
		return err
	}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "snapshot    %s\nrecord      %d\nroot        %s\ndigest      %s\n", v.Path, v.Seq, v.Root, v.SHA256)
	})
}

type snapshotListCmd struct{}

func (c *snapshotListCmd) Run(a *app) error {
	if err := a.dir.Check(); err != nil {
		return err
	}
	list, err := projector.ListSnapshots(a.dir.Snapshots())
	if err != nil {
		return err
	}
	if list == nil {
		list = []projector.SnapshotInfo{}
	}
	return a.print(list, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "no snapshots")
		}
		for _, s := range list {
			printSnapshot(w, s)
		}
	})
}

func printSnapshot(w io.Writer, s projector.SnapshotInfo) {
	m := s.Manifest
	fmt.Fprintf(w, "%-8d  %s\n", m.Seq, s.Path)
	if s.Problem != "" {
		fmt.Fprintf(w, "          %s\n", visible(s.Problem))
		return
	}
	at := "before the first record"
	if m.LedgerTime != nil {
		at = *m.LedgerTime
	}
	fmt.Fprintf(w, "          ledger time %s, %d bytes, scorer %d\n          digest      %s\n          views      ", at, m.Bytes, m.Scorer, m.SHA256)
	for _, v := range m.Versions {
		fmt.Fprintf(w, " %s/%d", v.Projection, v.Version)
	}
	fmt.Fprintln(w)
}

type snapshotVerifyCmd struct {
	evidenceFlags
	Snapshot []string `arg:"" optional:"" help:"Record number, name or path of a snapshot, or latest. Default: all."`
	Replay   bool     `help:"Rebuild the views from record 1 too and compare."`
}

// snapshotVerdict is what was found of one snapshot. Holds and Replayed are null
// where there was nothing to compare with.
type snapshotVerdict struct {
	Path     string     `json:"path"`
	Seq      ledger.Seq `json:"seq"`
	Holds    *bool      `json:"holds"`    // its bytes are those of its manifest
	Replayed *bool      `json:"replayed"` // the ledger leads to its digest
	Digest   string     `json:"digest"`
	Finding  *string    `json:"finding"`

	manifest projector.Manifest
	code     int // of the exit
}

func (v *snapshotVerdict) say(code int, format string, args ...any) {
	v.code, v.Finding = code, ptr(fmt.Sprintf(format, args...))
}

func (c *snapshotVerifyCmd) Run(a *app) error {
	list, err := c.chosen(a)
	if err != nil {
		return err
	}
	var e node.Evidence
	if c.Replay {
		if e, err = c.open(a); err != nil {
			return notCompared(err)
		}
		defer e.Close()
	}
	out := make([]snapshotVerdict, 0, len(list))
	for _, s := range list {
		out = append(out, verifySnapshot(s))
	}
	if e != nil {
		replaySnapshots(a, e, out)
	}
	worst := exitHolds
	if len(list) == 0 {
		worst = exitNotCompare
	}
	for _, v := range out {
		if worst == exitHolds || v.code == exitDoesNot {
			worst = v.code
		}
	}
	err = a.print(out, func(w io.Writer) {
		for _, v := range out {
			v.text(w)
		}
		if len(out) == 0 {
			fmt.Fprintln(w, "no snapshots")
		}
	})
	if err == nil && worst != exitHolds {
		err = &exitError{code: worst}
	}
	return err
}

func (c *snapshotVerifyCmd) chosen(a *app) ([]projector.SnapshotInfo, error) {
	if len(c.Snapshot) == 0 {
		if err := a.dir.Check(); err != nil {
			return nil, err
		}
		return projector.ListSnapshots(a.dir.Snapshots())
	}
	var list []projector.SnapshotInfo
	for _, ref := range c.Snapshot {
		s, err := a.findSnapshot(ref)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// findSnapshot is projector.FindSnapshot; a snapshot that is not there is a
// mistake of the caller.
func (a *app) findSnapshot(ref string) (projector.SnapshotInfo, error) {
	s, err := projector.FindSnapshot(a.dir.Snapshots(), ref)
	switch {
	case errors.Is(err, projector.ErrNoSnapshot):
		return s, &exitError{exitUsage, err}
	case err != nil:
		return s, notCompared(err)
	}
	return s, nil
}

// verifySnapshot holds a snapshot's bytes against its manifest.
func verifySnapshot(s projector.SnapshotInfo) snapshotVerdict {
	v := snapshotVerdict{Path: s.Path, Seq: s.Manifest.Seq, Digest: s.Manifest.SHA256, code: exitHolds}
	m, err := projector.VerifySnapshot(s.Path)
	switch {
	case errors.Is(err, projector.ErrSnapshot):
		v.Holds = ptr(false)
		v.say(exitDoesNot, "%v", err)
	case err != nil:
		v.say(exitNotCompare, "%v", err)
	default:
		v.Holds, v.manifest = ptr(true), m
	}
	return v
}

// replaySnapshots holds what is right in itself against the ledger, which is read
// once for all of them. Where it breaks, no snapshot behind that is replayed.
func replaySnapshots(a *app, e node.Evidence, all []snapshotVerdict) {
	waiting := map[ledger.Seq][]*snapshotVerdict{}
	for i := range all {
		v := &all[i]
		switch {
		case v.Holds == nil || !*v.Holds:
		case v.Seq == 0:
			v.say(exitNotCompare, "it stands before the first record")
		case !slices.Equal(projector.Versions(view.All()), v.manifest.Versions):
			v.say(exitNotCompare, "its views are of other versions than this build's, which cannot replay them")
		default:
			waiting[v.Seq] = append(waiting[v.Seq], v)
		}
	}
	show, end := progress[ledger.Seq](a, "replaying")
	defer end()
	f := node.FoldConfig{Evidence: e, Progress: show, Log: a.log}
	err := node.ReplayThrough(a.ctx, f, slices.Sorted(maps.Keys(waiting)), func(got projector.Replayed) error {
		for _, v := range waiting[got.Seq] {
			v.Replayed = ptr(got.SHA256 == v.manifest.SHA256 && got.Root == v.manifest.Root)
			if !*v.Replayed {
				v.say(exitDoesNot, "the ledger leads to digest %s and root %s", got.SHA256, got.Root)
			}
		}
		delete(waiting, got.Seq)
		return nil
	})
	var broken *projector.LinkError
	for _, same := range waiting {
		for _, v := range same {
			if v.say(exitNotCompare, "%v", err); errors.As(err, &broken) { // it was read, and does not hold
				v.Replayed, v.code = ptr(false), exitDoesNot
			}
		}
	}
}

func (v *snapshotVerdict) text(w io.Writer) {
	word := "holds"
	switch {
	case v.Holds == nil:
		word = "unread"
	case !*v.Holds || v.Replayed != nil && !*v.Replayed:
		word = "MISMATCH"
	case v.Replayed != nil:
		word = "replayed"
	}
	fmt.Fprintf(w, "%-10s  record %d, digest %s\n            %s\n", word, v.Seq, v.Digest, v.Path)
	if v.Finding != nil {
		fmt.Fprintf(w, "            %s\n", visible(*v.Finding))
	}
}

type snapshotDiffCmd struct {
	evidenceFlags
	A       string `arg:"" help:"Record number, name or path of a snapshot."`
	B       string `arg:"" help:"The other one, or latest."`
	Keys    int    `help:"How many keys of each view to name." default:"20" placeholder:"N"`
	Records bool   `help:"Read the ledger and name the types of the records between."`
}

// snapshotDiff is what two snapshots have otherwise.
type snapshotDiff struct {
	A       projector.SnapshotInfo `json:"a"`
	B       projector.SnapshotInfo `json:"b"`
	Equal   bool                   `json:"equal"`
	Views   []projector.ViewDiff   `json:"views"` // that differ
	Records recordRange            `json:"records"`
}

// recordRange is the records behind the older snapshot up to the newer.
type recordRange struct {
	From  ledger.Seq       `json:"from,omitzero"`
	To    ledger.Seq       `json:"to,omitzero"`
	Count int64            `json:"count"`
	Types map[string]int64 `json:"types,omitzero"` // "" counts foreign messages
}

func (c *snapshotDiffCmd) Run(a *app) (err error) {
	if c.Keys < 0 {
		return usageError("--keys is %d", c.Keys)
	}
	out := snapshotDiff{Views: []projector.ViewDiff{}}
	if out.A, err = a.findSnapshot(c.A); err != nil {
		return err
	}
	if out.B, err = a.findSnapshot(c.B); err != nil {
		return err
	}
	if out.A.Path != out.B.Path {
		if err := out.compare(c.Keys); err != nil {
			return notCompared(err)
		}
	}
	from, to := out.A.Manifest.Seq, out.B.Manifest.Seq
	if from > to {
		from, to = to, from
	}
	if from < to {
		out.Records = recordRange{From: from + 1, To: to, Count: int64(to - from)}
	}
	if c.Records && from < to {
		if err := c.count(a, &out.Records); err != nil {
			return err
		}
	}
	out.Equal = len(out.Views) == 0
	if err := a.print(out, out.text); err != nil {
		return err
	}
	if !out.Equal {
		return errDoesNotHold
	}
	return nil
}

func (d *snapshotDiff) compare(keys int) error {
	return projector.ReadSnapshot(d.A.Path, func(a *projector.State) error {
		return projector.ReadSnapshot(d.B.Path, func(b *projector.State) error {
			list, err := projector.DiffStates(a, b, keys)
			for _, v := range list {
				if !v.Equal() {
					d.Views = append(d.Views, v)
				}
			}
			return err
		})
	})
}

func (c *snapshotDiffCmd) count(a *app, r *recordRange) error {
	e, err := c.open(a)
	if err != nil {
		return notCompared(err)
	}
	defer e.Close()
	r.Types = make(map[string]int64)
	if err := node.EachType(a.ctx, e, r.From, r.To, func(t string) { r.Types[t]++ }); err != nil {
		return notCompared(err)
	}
	return nil
}

func (d snapshotDiff) text(w io.Writer) {
	if d.Records.Count > 0 {
		fmt.Fprintf(w, "records     %d to %d (%d)\n", d.Records.From, d.Records.To, d.Records.Count)
		for _, t := range slices.Sorted(maps.Keys(d.Records.Types)) {
			name := t
			if t == "" {
				name = "(foreign)"
			}
			fmt.Fprintf(w, "  %-28s %d\n", visible(name), d.Records.Types[t])
		}
	}
	if d.Equal {
		fmt.Fprintln(w, "equal       every view is the same")
	}
	for _, v := range d.Views {
		if v.VersionA == nil || v.VersionB == nil || *v.VersionA != *v.VersionB {
			fmt.Fprintf(w, "%-14s  version %s, then %s: not comparable\n", v.Projection, versionText(v.VersionA), versionText(v.VersionB))
			continue
		}
		fmt.Fprintf(w, "%-14s  added %d, changed %d, removed %d\n", v.Projection, v.Added, v.Changed, v.Removed)
		for _, k := range v.Keys {
			fmt.Fprintf(w, "  %-8s %s\n", k.What, visible(k.Key))
		}
		if more := v.Added + v.Changed + v.Removed - int64(len(v.Keys)); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
}

func versionText(v *int) string {
	if v == nil {
		return "none"
	}
	return strconv.Itoa(*v)
}

type snapshotPruneCmd struct {
	Keep   int  `help:"How many of the latest to keep." default:"7" placeholder:"N"`
	DryRun bool `help:"Say what would be removed; remove nothing."`
}

func (c *snapshotPruneCmd) Run(a *app) error {
	if c.Keep < 1 {
		return usageError("--keep is %d: the latest stays in any case", c.Keep)
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	out := []projector.Pruned{}
	q := node.PruneQuery{Keep: c.Keep, DryRun: c.DryRun}
	err := node.Ask(a.ctx, a.dir.Socket(), "POST", "/snapshot/prune", q.Values(), &out)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			out, err = node.PruneSnapshots(a.dir, s, q)
			return err
		})
	}
	if errors.Is(err, kv.ErrLocked) {
		return fmt.Errorf("%w: somebody reads the views", err)
	}
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		for _, p := range out {
			word := "kept"
			switch {
			case p.Removed && c.DryRun:
				word = "would go"
			case p.Removed:
				word = "removed"
			}
			fmt.Fprintf(w, "%-8s  record %d: %s\n          %s\n", word, p.Manifest.Seq, visible(p.Why), p.Path)
		}
		if len(out) == 0 {
			fmt.Fprintln(w, "no snapshots")
		}
	})
}
