package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/projector/table"
	"assay/projector/table/files"
)

// tablesFlags are those of the exports for analysts.
type tablesFlags struct {
	evidenceFlags
	Out        string   `help:"Where to write; nothing may be there." type:"path" required:"" placeholder:"PATH"`
	Kind       []string `help:"Write this table only: events, foreign_messages, or a kind of list. Can be repeated." placeholder:"KIND"`
	From       uint64   `help:"First record of the table events. Default: 1." default:"1" placeholder:"SEQ"`
	To         uint64   `help:"Last record, which all tables stand at. Default: the last that the checkpoint signs." placeholder:"SEQ"`
	Key        string   `help:"Pinned verifier key, or a file that holds it. Default: DIR/logger/key.pub." placeholder:"KEY"`
	Checkpoint string   `help:"File with the signed checkpoint to export up to. Default: the newest in DIR/logger/checkpoint." type:"existingfile" placeholder:"FILE"`
}

type exportParquetCmd struct{ tablesFlags }

func (c *exportParquetCmd) Run(a *app) error { return c.run(a, files.Parquet) }

type exportJSONLCmd struct{ tablesFlags }

func (c *exportJSONLCmd) Run(a *app) error { return c.run(a, files.JSONL) }

type exportSQLiteCmd struct{ tablesFlags }

func (c *exportSQLiteCmd) Run(a *app) error { return c.run(a, files.SQLite) }

// exportedTables is what was exported, and where. Columns are for the export to tell.
type exportedTables struct {
	Path string `json:"path"`
	files.About
	Tables []exportedTable `json:"tables"`
}

type exportedTable struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
	// File, Bytes and SHA256 are absent in SQLite.
	File   string `json:"file,omitzero"`
	Bytes  int64  `json:"bytes,omitzero"`
	SHA256 string `json:"sha256,omitzero"`
}

func (c *tablesFlags) run(a *app, format files.Format) error {
	for _, k := range c.Kind {
		if !slices.Contains(table.Kinds(), k) {
			return usageError("unknown kind %q, want one of %s", k, strings.Join(table.Kinds(), ", "))
		}
	}
	cfg := node.TablesConfig{Format: format, Path: c.Out, Kinds: c.Kind, From: ledger.Seq(c.From), Software: software(), Log: a.log}
	if len(cfg.Kinds) == 0 {
		cfg.Kinds = table.Kinds()
	}
	// The checkpoint first: what it signs is in the ledger when that is opened.
	cp, err := node.NewestCheckpoint(node.AnchorConfig{Dir: a.dir, Key: c.Key, Checkpoint: c.Checkpoint})
	if err != nil {
		return err
	}
	cfg.Checkpoint, cfg.To = cp, ledger.Seq(cp.Size)
	if c.To != 0 {
		cfg.To = ledger.Seq(c.To)
	}
	if uint64(cfg.To) > cp.Size || cfg.From < 1 || cfg.From > max(cfg.To, 1) {
		return usageError("records %d to %d: the checkpoint signs 1 to %d", cfg.From, cfg.To, cp.Size)
	}
	e, err := c.open(a)
	if err != nil {
		return err
	}
	defer e.Close()
	if (c.evidenceFlags == evidenceFlags{}) {
		if err := node.NoteCopy(a.dir, node.CopyExport, c.Out, uint64(cfg.To)); err != nil {
			return err
		}
	}
	show, end := progress[uint64](a, "exporting")
	cfg.Progress = show
	m, err := node.ExportTables(a.ctx, e, cfg)
	end()
	if errors.Is(err, fs.ErrExist) {
		return usageError("%w: give a path that is free", err)
	}
	if err != nil {
		return err
	}
	out := exportedTables{Path: c.Out, About: m.About}
	for _, t := range m.Tables {
		out.Tables = append(out.Tables, exportedTable{t.Name, t.Rows, t.File, t.Bytes, t.SHA256})
	}
	return a.print(out, func(w io.Writer) { out.print(w) })
}

func (out *exportedTables) print(w io.Writer) {
	fmt.Fprintf(w, "export      %s\norigin      %s\nrecords     %d to %d of %d signed\nroot        %s\n",
		out.Path, visible(out.Origin), out.From, out.To, out.CheckpointSize, out.Root)
	if out.StateDigest != nil {
		fmt.Fprintf(w, "digest      %s\n", *out.StateDigest)
	}
	for _, t := range out.Tables {
		fmt.Fprintf(w, "%-16s %d rows\n", t.Name, t.Rows)
	}
}
