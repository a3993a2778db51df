package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"assay/bench/workload"
)

// Targets of DESIGN.md's table.
const (
	appendTarget = 0.8
	sqliteTarget = 1.0
	verifyTarget = 0.8
	replayTarget = 0.3
	fsckTarget   = 0.5
)

// measure runs the wanted rows. All but the bare sides work on one ledger,
// which grows from round to round.
func measure(ctx context.Context, o options, scratch string, report *Report) (err error) {
	h, err := openHouse(ctx, scratch, "assay")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	l, err := h.startLogger(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	m := workload.New()
	if err := appendRows(ctx, o, scratch, h, l, m, report); err != nil {
		return err
	}
	if o.wants("ack") {
		bare, err := openHouse(ctx, scratch, "ack")
		if err != nil {
			return err
		}
		row, err := ackRow(ctx, o, h, bare, m)
		if err = errors.Join(err, bare.close()); err != nil {
			return err
		}
		report.Rows = append(report.Rows, row)
	}
	if err := l.awaitSigned(ctx); err != nil {
		return err
	}
	if o.wants("fsck") {
		if err := h.export(ctx); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		kind, against string
		target        float64
		note          string
	}{
		{"verify", "bare", verifyTarget, "links, Merkle root, checkpoints against a bare read"},
		{"replay", "bare", replayTarget, "all views against a bare read"},
		{"fsck", "sha256", fsckTarget, "every link, tile and the root of an export against SHA-256 of its bundles on one core"},
	} {
		if !o.wants(r.kind) {
			continue
		}
		row, err := h.readRow(ctx, o, r.kind, r.against, r.target, r.note)
		if err != nil {
			return err
		}
		report.Rows = append(report.Rows, row)
	}
	return nil
}

// appendRows fills the ledger and, where wanted, compares each round.
func appendRows(ctx context.Context, o options, scratch string, h *house, l *running, m *workload.Mix, report *Report) error {
	rounds := o.rounds
	var lite *sqlite
	switch o.only {
	case "ack":
		return nil
	case "verify", "replay", "fsck":
		rounds = 1
	}
	if o.wants("sqlite") {
		var err error
		if lite, err = buildSQLite(ctx, scratch); errors.Is(err, errNoSQLite) {
			report.Skipped["sqlite"] = err.Error()
		} else if err != nil {
			return err
		}
	}
	var logged, bare, rows side
	var note string
	if o.wants("append") || lite != nil {
		// Not counted: the memory of this process grows in it, which the bare side
		// would find grown.
		if _, _, _, err := loggedAppend(ctx, o, h, l, m, false); err != nil {
			return err
		}
	}
	for i := range rounds {
		before := l.Status().Size
		a, sizes, bytes, err := loggedAppend(ctx, o, h, l, m, o.cpuProfile != "" && i == 0)
		if err != nil {
			return err
		}
		logged = append(logged, a)
		note = fmt.Sprintf("%d-byte events, %d atomic batches of %.0f on average", bytes/a.records, len(sizes), float64(a.records)/float64(len(sizes)))
		if !o.wants("append") && lite == nil {
			continue
		}
		msgs, err := collect(ctx, h, before+1, a.records)
		if err != nil {
			return err
		}
		if o.wants("append") {
			b, err := bareAppend(ctx, scratch, msgs, sizes)
			if err != nil {
				return err
			}
			bare = append(bare, b)
		}
		if lite != nil {
			b, err := lite.insert(ctx, scratch, msgs)
			if err != nil {
				return err
			}
			rows = append(rows, b)
		}
	}
	if len(bare) > 0 {
		report.Rows = append(report.Rows, rateRow("append", logged, bare, appendTarget, note))
	}
	if len(rows) > 0 {
		report.Rows = append(report.Rows, rateRow("sqlite", logged, rows, sqliteTarget, "WAL, synchronous=FULL, triggers, index, 1000 rows a transaction"))
	}
	return nil
}

// loggedAppend publishes one round through the logger and says how the logger
// cut it.
func loggedAppend(ctx context.Context, o options, h *house, l *running, m *workload.Mix, profile bool) (s sample, sizes []int, bytes int, err error) {
	load, err := makeLoad(m, o.records, o.message)
	if err != nil {
		return s, nil, 0, err
	}
	l.tally.take()
	if profile {
		f, err := os.Create(o.cpuProfile + "append.pprof")
		if err != nil {
			return s, nil, 0, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return s, nil, 0, err
		}
		defer pprof.StopCPUProfile()
	}
	s, err = load.publish(ctx, h, o.flight)
	return s, l.tally.take(), load.bytes, err
}
