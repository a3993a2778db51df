package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"assay/cmd/internal/node"
	"assay/ledger/witness"
)

type witnessCmd struct {
	WitnessDir string `help:"Directory of the witness; it needs no other. Default: DIR/witness." type:"path" placeholder:"DIR"`

	Init   witnessInitCmd   `cmd:"" help:"Make a witness: its key and its directory."`
	AddLog witnessAddLogCmd `cmd:"" help:"Trust a log's key. A second key of the same log is trusted beside the first."`
	Serve  witnessServeCmd  `cmd:"" help:"Answer C2SP tlog-witness requests."`
	Status witnessStatusCmd `cmd:"" help:"Say what was cosigned of each log, and which signed checkpoints did not extend it."`
}

func (c *witnessCmd) dir(a *app) witness.Dir {
	if c.WitnessDir != "" {
		return witness.Dir(c.WitnessDir)
	}
	return a.dir.Witness()
}

// witnessError is the exit code of a directory without a witness.
func witnessError(err error) error {
	if errors.Is(err, witness.ErrNotInitialised) {
		return &exitError{exitUsage, err}
	}
	return err
}

type witnessView struct {
	Name string `json:"name"`
	Key  string `json:"key"` // vkey of the cosignatures
	Dir  string `json:"dir"`
	URL  string `json:"url,omitzero"`
}

type witnessInitCmd struct {
	Name string `required:"" help:"Name of the witness, such as witness.example.com/w1."`
}

func (c *witnessInitCmd) Run(a *app, parent *witnessCmd) error {
	d := parent.dir(a)
	vkey, err := witness.Init(d, c.Name)
	if err != nil {
		return err
	}
	v := witnessView{Name: c.Name, Key: vkey, Dir: string(d)}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "witness     %s\nkey         %s\ndirectory   %s\n\nIn the log's witness-policy.txt:\n  witness w1 %s URL\n", v.Name, v.Key, v.Dir, v.Key)
	})
}

type witnessAddLogCmd struct {
	Key string `arg:"" name:"vkey" help:"Verifier key of the log, or a file that holds it: its DIR/logger/key.pub."`
}

func (c *witnessAddLogCmd) Run(a *app, parent *witnessCmd) error {
	key := c.Key
	if raw, err := os.ReadFile(key); err == nil {
		key = string(raw)
	}
	key = strings.TrimSpace(key)
	origin, err := witness.AddLog(parent.dir(a), key)
	if err != nil {
		return witnessError(err)
	}
	v := struct {
		Origin string `json:"origin"`
		Key    string `json:"key"`
	}{origin, key}
	return a.print(v, func(w io.Writer) { fmt.Fprintf(w, "log         %s\nkey         %s\n", v.Origin, v.Key) })
}

type witnessServeCmd struct {
	Listen string `help:"Address to listen on. The protocol has no secrets; put TLS in front of it where the way to it is not trusted." default:"127.0.0.1:7390" placeholder:"HOST:PORT"`
}

func (c *witnessServeCmd) Run(a *app, parent *witnessCmd) error {
	d := parent.dir(a)
	s, err := node.StartWitness(d, c.Listen, a.log)
	if err != nil {
		return witnessError(err)
	}
	v := witnessView{Name: strings.SplitN(s.VKey(), "+", 2)[0], Key: s.VKey(), Dir: string(d), URL: s.URL()}
	if err := a.print(v, func(w io.Writer) { fmt.Fprintf(w, "%s answers at %s.\n", v.Name, v.URL) }); err != nil {
		return err
	}
	return s.Serve(a.ctx)
}

type witnessStatusCmd struct{}

type witnessedLog struct {
	Origin string `json:"origin"`
	Keys   int    `json:"keys"`
	Size   uint64 `json:"size"` // cosigned last; 0 for never
	Root   string `json:"root"`
	Error  string `json:"error,omitzero"` // why its state cannot be trusted
}

type witnessConflict struct {
	Kind   witness.Kind `json:"kind"`
	Origin string       `json:"origin"`
	Size   uint64       `json:"size"`
	At     string       `json:"at"`
	File   string       `json:"file"`
}

func (c *witnessStatusCmd) Run(a *app, parent *witnessCmd) error {
	d := parent.dir(a)
	st, err := witness.ReadStatus(d)
	if err != nil {
		return witnessError(err)
	}
	out := struct {
		witnessView
		Logs      []witnessedLog    `json:"logs"`
		Conflicts []witnessConflict `json:"conflicts"`
	}{witnessView{Name: st.Name, Key: st.VKey, Dir: string(d)}, []witnessedLog{}, []witnessConflict{}}
	holds := true
	for _, l := range st.Logs {
		v := witnessedLog{Origin: l.Origin, Keys: l.Keys, Size: l.Size, Root: l.Root.String()}
		if l.Err != nil {
			v.Error, holds = l.Err.Error(), false
		}
		out.Logs = append(out.Logs, v)
	}
	for _, x := range st.Conflicts {
		holds = holds && x.Kind != witness.SameSize
		out.Conflicts = append(out.Conflicts, witnessConflict{x.Kind, x.Origin, x.Size, x.At.Format(time.RFC3339), x.File})
	}
	if err := a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "witness     %s\nkey         %s\n", out.Name, out.Key)
		for _, l := range out.Logs {
			if l.Error != "" {
				fmt.Fprintf(w, "log         %s: %s\n", visible(l.Origin), visible(l.Error))
				continue
			}
			fmt.Fprintf(w, "log         %s: cosigned %d, root %s, %d keys trusted\n", visible(l.Origin), l.Size, l.Root, l.Keys)
		}
		for _, x := range out.Conflicts {
			fmt.Fprintf(w, "conflict    %s %s of size %d at %s: %s\n", x.Kind, visible(x.Origin), x.Size, x.At, x.File)
		}
	}); err != nil {
		return err
	}
	if !holds {
		return errDoesNotHold
	}
	return nil
}
