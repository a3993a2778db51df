package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/node"
)

type keyCmd struct {
	List    keyListCmd    `cmd:"" help:"List the log's keys with the checkpoints that each signs."`
	Rotate  keyRotateCmd  `cmd:"" help:"Make a new key, signed by the one in force. The logger must be stopped; its next start takes the key."`
	Recover keyRecoverCmd `cmd:"" help:"Make a new key in place of a lost or stolen one, signed by the recovery seed. The logger must be stopped."`
}

type keyListCmd struct{}

func (c *keyListCmd) Run(a *app) error {
	keys, err := node.Keys(a.dir)
	if err != nil {
		return err
	}
	return a.print(keys, func(w io.Writer) {
		for _, k := range keys {
			fmt.Fprintf(w, "%-8s  %s  %s\n", k.State, keyRange(k), k.Key)
		}
	})
}

func keyRange(k node.KeyRange) string {
	switch {
	case k.From == 0:
		return "from the logger's next start on"
	case k.To == 0:
		return fmt.Sprintf("from size %d on", k.From)
	}
	return fmt.Sprintf("sizes %d to %d", k.From, k.To)
}

type keyRotateCmd struct{}

func (c *keyRotateCmd) Run(a *app) error {
	k, err := node.RotateKey(a.dir)
	if err != nil {
		return err
	}
	return a.prepared(k)
}

type keyRecoverCmd struct {
	RecoverySeed string `required:"" help:"File with the recovery seed that init wrote to the offline directory." type:"path" placeholder:"FILE"`
}

func (c *keyRecoverCmd) Run(a *app) error {
	k, err := node.RecoverKey(a.dir, c.RecoverySeed)
	if err != nil {
		return err
	}
	return a.prepared(k)
}

func (a *app) prepared(k node.KeyRange) error {
	return a.print(k, func(w io.Writer) {
		fmt.Fprintf(w, "%s\nThe logger's next start records the change and signs with this key. Pin it where the old one is pinned.\n", k.Key)
	})
}
