package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/node"
)

type permissionsCmd struct {
	Prefix   string   `help:"What the names of the users and groups begin with." default:"assay" placeholder:"NAME"`
	Instance []string `help:"Logger that stands by here, as in serve logger --standby --instance; may be repeated. Those that ran already are known." placeholder:"NAME"`
	Check    bool     `help:"Change nothing: list what is not as it should be, and exit 1 if anything is."`
}

func (c *permissionsCmd) Run(a *app) error {
	found, err := node.Permissions(node.PermissionsConfig{Dir: a.dir, Prefix: c.Prefix, Instances: c.Instance, Check: c.Check})
	if err != nil {
		return err
	}
	if err := a.print(found, func(w io.Writer) {
		for _, d := range found {
			fmt.Fprintf(w, "%s: %s, was %s\n", visible(d.Path), d.Want, d.Got)
		}
	}); err != nil {
		return err
	}
	if c.Check && len(found) > 0 {
		return errDoesNotHold
	}
	return nil
}
