package main

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/projector/view"
)

type canaryCmd struct {
	List canaryListCmd `cmd:"" help:"List the canaries with where they stand."`
	Show canaryShowCmd `cmd:"" help:"Show a canary, its bounds and what rolled it back."`
}

type canaryListCmd struct{}

func (c *canaryListCmd) Run(a *app) error {
	const most = 10_000
	listed, err := a.list(node.ListQuery{Kind: view.Canaries, Limit: most})
	if err != nil {
		return err
	}
	var all []view.Canary
	for _, item := range listed.Items {
		var v view.Canary
		if err := json.Unmarshal(item, &v); err != nil {
			return err
		}
		all = append(all, v)
	}
	return a.print(listed, func(w io.Writer) {
		for _, v := range all {
			fmt.Fprintf(w, "%-24s %-12s %s: %d of %d calls this week, %d in all; rollbacks %d\n",
				visible(v.CanaryID), v.State, visible(v.Policy), v.ThisWeek, v.CapPerWeek, v.Executed, v.Rollbacks)
		}
		if listed.More {
			fmt.Fprintf(a.stderr, "there are more than %d\n", most)
		}
	})
}

type canaryShowCmd struct {
	ID string `arg:"" help:"Canary."`
}

func (c *canaryShowCmd) Run(a *app) error {
	found, err := a.find(c.ID)
	if err == nil && len(found.Canaries) == 0 {
		err = fmt.Errorf("%w: no canary is called %q", node.ErrNotFound, c.ID)
	}
	if err != nil {
		return err
	}
	return a.printJSON(found.Canaries[0])
}
