package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"assay/events/watch"
)

type watchCmd struct {
	SQLite watchSQLiteCmd `cmd:"" name:"sqlite" help:"Watch a table of an SQLite database for direct changes of what an agent believes."`
}

type watchSQLiteCmd struct {
	DB            string        `arg:"" help:"Database; it is only read." type:"path"`
	Table         string        `help:"Table or view with one belief a row." required:""`
	ID            string        `help:"Column that tells beliefs apart." required:"" placeholder:"COL"`
	Content       []string      `help:"Columns with the content; a change of one is a change of the belief." required:"" placeholder:"COL"`
	Meta          []string      `help:"Columns that may be edited without a revision. Columns that are not named are not looked at." placeholder:"COL"`
	VersionColumn string        `help:"Column in which the store counts versions, whole numbers from 1." placeholder:"COL"`
	Prefix        string        `help:"What stands before the id in the ledger, such as belief-." placeholder:"TEXT"`
	As            string        `help:"Dispatcher in whose name it is told." default:"dispatcher/main" placeholder:"ROLE/NAME"`
	Every         time.Duration `help:"Time between two questions whether somebody committed." default:"1s"`
	Grace         time.Duration `help:"How long a change waits for the agent's own word of it." default:"10s"`
	Once          bool          `help:"Look once, tell, and end."`
	State         string        `help:"File that keeps the hashes of what was seen. Default: one in DIR/watch for database, table and --as." type:"path" placeholder:"FILE"`
	NATS          string        `name:"nats" help:"Publish to the broker at this address." placeholder:"URL"`
	CredsDir      string        `help:"Directory with the credential of --as, for --nats." type:"path" placeholder:"DIR"`
	NKey          string        `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
}

// watched is what a watch did until it ended.
type watched struct {
	State   string `json:"state"`
	Rows    int    `json:"rows"` // that the table held at the last look
	Looks   int64  `json:"looks"`
	Sent    int64  `json:"sent"`
	Waiting int    `json:"waiting"` // events that the next run sends
}

func (c *watchSQLiteCmd) Run(a *app) error {
	switch {
	case !strings.HasPrefix(c.As, "dispatcher/"):
		return usageError("only a dispatcher tells what it saw of a store, not %s", c.As)
	case c.Every <= 0 || c.Grace < 0:
		return usageError("--every must be positive, and --grace not negative")
	case !watch.IsPrefix(c.Prefix):
		return usageError("%q cannot begin an id", c.Prefix)
	case c.NATS != "" && c.State == "":
		return usageError("--nats needs --state: without it the state stands in DIR")
	}
	if c.State == "" {
		if err := a.dir.Check(); err != nil {
			return err
		}
		of := sha256.Sum256([]byte(c.DB + "\x00" + c.Table + "\x00" + c.As))
		c.State = filepath.Join(string(a.dir), "watch", hex.EncodeToString(of[:8])+".json")
	}
	emit := emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}
	client, done, err := emit.dial(a)
	if err != nil {
		return err
	}
	defer done()
	w, err := watch.Open(watch.Config{
		Table: watch.Table{Path: c.DB, Name: c.Table, ID: c.ID, Content: c.Content, Meta: c.Meta, Version: c.VersionColumn, Prefix: c.Prefix},
		State: c.State, Author: c.As, Interval: c.Every, Grace: c.Grace, Log: a.log,
		Publish: func(ctx context.Context, event []byte) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			_, err := client.Publish(ctx, event)
			return err
		},
	})
	if err != nil {
		return err
	}
	defer w.Close()
	if c.Once {
		err = w.Once(a.ctx)
	} else {
		err = w.Run(a.ctx)
	}
	if err != nil {
		return err
	}
	out := watched{c.State, w.Rows(), w.Looks, w.Sent, w.Waiting()}
	return a.print(out, func(out io.Writer) {
		fmt.Fprintf(out, "%d rows, looked at %d times; %d events sent, %d waiting in %s\n", w.Rows(), w.Looks, w.Sent, w.Waiting(), visible(c.State))
	})
}
