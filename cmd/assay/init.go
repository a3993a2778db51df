package main

import (
	"errors"
	"fmt"
	"io"

	"assay/cmd/internal/node"
	"assay/ledger/broker"
	"assay/ledger/logger"
)

type initCmd struct {
	OfflineDir string   `help:"Where the bootstrap and recovery seeds go; keep it off this machine. Default: DIR-offline." type:"path" placeholder:"DIR"`
	Origin     string   `help:"Name of the log in its checkpoints, such as example.com/ledger. Default: made up from the host's name."`
	TZ         string   `name:"tz" help:"IANA time zone in which the ledger's weeks begin, for good. Default: UTC." placeholder:"ZONE"`
	NATS       string   `name:"nats" help:"Open the ledger on the external broker at this address, which runs on the rendered configuration." placeholder:"URL"`
	Peer       []string `help:"Broker of a cluster, given three times: a name and the address for clients and the other brokers. Makes keys and a directory for each, and stops there: run init again, without, once they run." placeholder:"NAME=HOST[:4222[:6222]]"`
	RenderOnly bool     `help:"Make keys and the broker's configuration and stop: start an external broker on it, then run init again with --nats."`
}

func (c *initCmd) Run(a *app) error {
	if c.OfflineDir == "" {
		c.OfflineDir = string(a.dir) + "-offline"
	}
	if c.NATS != "" && c.RenderOnly {
		return usageError("--nats and --render-only exclude each other")
	}
	peers, err := c.peers()
	if err != nil {
		return err
	}
	if c.TZ != "" && (c.RenderOnly || len(peers) > 0) {
		return usageError("--tz belongs to the init that opens the ledger")
	}
	r, err := node.Init(a.ctx, node.InitConfig{
		Dir: a.dir, OfflineDir: c.OfflineDir, Origin: c.Origin, NATS: c.NATS, Peers: peers, RenderOnly: c.RenderOnly,
		WeekZone: c.TZ, Log: a.log, Software: software(),
	})
	if errors.Is(err, logger.ErrZone) {
		return usageError("%w", err)
	}
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "ledger      %s\norigin      %s\nkey         %s\n", r.Dir, r.Origin, r.Key)
		for _, p := range r.Principals {
			fmt.Fprintf(w, "principal   %s\n", p)
		}
		fmt.Fprintf(w, "broker      %s\n", r.Config)
		if r.WeekZone != "" {
			fmt.Fprintf(w, "weeks       %s\n", r.WeekZone)
		}
		for _, n := range r.Nodes {
			fmt.Fprintf(w, "node        %s at %s:%d, %s\n", n.Name, n.Host, n.Client, n.Dir)
		}
		switch {
		case !r.Opened && len(r.Nodes) > 0:
			fmt.Fprintf(w, "\nCopy each node's directory to the same path on its host, and start there:\n  assay --dir %s serve broker --node NAME\nThen run `assay init` again, which makes the streams and opens the ledger; for a ledger that exists, `assay restore BACKUP`.\n", r.Dir)
			return
		case !r.Opened:
			fmt.Fprintf(w, "\nThe ledger is not open yet. Start the broker:\n  nats-server -c %s\nthen run `assay init --nats URL` with the same directories.\n", r.Config)
			return
		}
		fmt.Fprintf(w, "\nMove %s off this machine: its seeds can change the streams and recover the log's key.\nWrite the key down elsewhere: `assay verify --key` holds the ledger against it.\n", r.OfflineDir)
	})
}

func (c *initCmd) peers() ([]broker.Peer, error) {
	if len(c.Peer) > 0 && (c.NATS != "" || c.RenderOnly) {
		return nil, usageError("--peer lays a cluster out and excludes --nats and --render-only")
	}
	var peers []broker.Peer
	for _, text := range c.Peer {
		p, err := broker.ParsePeer(text)
		if err != nil {
			return nil, usageError("%w", err)
		}
		peers = append(peers, p)
	}
	if n := len(peers); n != 0 && n != broker.ClusterSize {
		return nil, usageError("a cluster has %d brokers: give --peer as often, not %d times", broker.ClusterSize, n)
	}
	return peers, nil
}
