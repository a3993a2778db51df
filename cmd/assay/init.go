package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/node"
)

type initCmd struct {
	OfflineDir string `help:"Where the bootstrap and recovery seeds go; keep it off this machine. Default: DIR-offline." type:"path" placeholder:"DIR"`
	Origin     string `help:"Name of the log in its checkpoints, such as example.com/ledger. Default: made up from the host's name."`
	NATS       string `name:"nats" help:"Open the ledger on the external broker at this address, which runs on the rendered configuration." placeholder:"URL"`
	RenderOnly bool   `help:"Make keys and the broker's configuration and stop: start an external broker on it, then run init again with --nats."`
}

func (c *initCmd) Run(a *app) error {
	if c.OfflineDir == "" {
		c.OfflineDir = string(a.dir) + "-offline"
	}
	if c.NATS != "" && c.RenderOnly {
		return usageError("--nats and --render-only exclude each other")
	}
	r, err := node.Init(a.ctx, node.InitConfig{
		Dir: a.dir, OfflineDir: c.OfflineDir, Origin: c.Origin, NATS: c.NATS, RenderOnly: c.RenderOnly,
		Log: a.log, Software: software(),
	})
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "ledger      %s\norigin      %s\nkey         %s\n", r.Dir, r.Origin, r.Key)
		for _, p := range r.Principals {
			fmt.Fprintf(w, "principal   %s\n", p)
		}
		fmt.Fprintf(w, "broker      %s\n", r.Config)
		if !r.Opened {
			fmt.Fprintf(w, "\nThe ledger is not open yet. Start the broker:\n  nats-server -c %s\nthen run `assay init --nats URL` with the same directories.\n", r.Config)
			return
		}
		fmt.Fprintf(w, "\nMove %s off this machine: its seeds can change the streams and recover the log's key.\nWrite the key down elsewhere: `assay verify --key` holds the ledger against it.\n", r.OfflineDir)
	})
}
