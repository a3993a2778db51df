// Command sqlite inserts the records of a file, one a line, into a new SQLite
// database as an append-only table, durably, and prints how long that took. It
// is what assay's append is compared with, in a module of its own so that assay
// does not depend on the driver.
package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

const rowsPerTransaction = 1000

const tables = `
CREATE TABLE ledger (
  seq       INTEGER PRIMARY KEY,
  principal TEXT NOT NULL,
  id        TEXT NOT NULL,
  body      BLOB NOT NULL
);
CREATE UNIQUE INDEX ledger_id ON ledger (principal, id);
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
`

type row struct {
	principal, id string
	body          []byte
}

func main() {
	input := flag.String("input", "", "file of records, one a line")
	path := flag.String("db", "", "database to create")
	flag.Parse()
	if err := run(*input, *path); err != nil {
		fmt.Fprintln(os.Stderr, "sqlite:", err)
		os.Exit(1)
	}
}

func run(input, path string) error {
	rows, err := readRows(input)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", path+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := checkSettings(db); err != nil {
		return err
	}
	if _, err := db.Exec(tables); err != nil {
		return err
	}
	wall, cpu := time.Now(), cpuTime()
	for first := 0; first < len(rows); first += rowsPerTransaction {
		if err := insert(db, first, rows[first:min(len(rows), first+rowsPerTransaction)]); err != nil {
			return err
		}
	}
	out := struct {
		Rows   int           `json:"rows"`
		WallNS time.Duration `json:"wall_ns"`
		CPUNS  time.Duration `json:"cpu_ns"`
	}{len(rows), time.Since(wall), cpuTime() - cpu}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func checkSettings(db *sql.DB) error {
	var mode string
	var synchronous int
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := db.QueryRow("PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	if mode != "wal" || synchronous != 2 {
		return fmt.Errorf("journal_mode %s, synchronous %d; want wal and 2", mode, synchronous)
	}
	return nil
}

func insert(db *sql.DB, first int, rows []row) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after Commit
	stmt, err := tx.Prepare("INSERT INTO ledger (seq, principal, id, body) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i, r := range rows {
		if _, err := stmt.Exec(first+i+1, r.principal, r.id, r.body); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// readRows reads records and what the index is over. The members' places are
// fixed by the record format.
func readRows(path string) ([]row, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for line := range bytes.Lines(raw) {
		body := bytes.TrimSuffix(line, []byte("\n"))
		rows = append(rows, row{principal: member(body, "principal"), id: member(body, "id"), body: body})
	}
	return rows, nil
}

func member(body []byte, name string) string {
	_, rest, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
