package main

import (
	"fmt"
	"io"
	"strings"

	"assay/schema"
)

type schemaCmd struct {
	List    schemaListCmd    `cmd:"" help:"List the event types and who may write them."`
	Show    schemaShowCmd    `cmd:"" help:"Print the JSON Schema of a type."`
	Example schemaExampleCmd `cmd:"" help:"Print an event of a type that the ledger takes."`
}

type schemaListCmd struct{}

type typeView struct {
	Type    string        `json:"type"`
	Version int           `json:"version"`
	Writers []schema.Role `json:"writers"`
}

func (c *schemaListCmd) Run(a *app) error {
	var views []typeView
	for _, t := range schema.Types() {
		v, _ := schema.Version(t)
		views = append(views, typeView{t, v, schema.Writers(t)})
	}
	return a.print(views, func(w io.Writer) {
		for _, v := range views {
			roles := make([]string, len(v.Writers))
			for i, r := range v.Writers {
				roles[i] = string(r)
			}
			fmt.Fprintf(w, "%-34s v%d  %s\n", v.Type, v.Version, strings.Join(roles, ", "))
		}
	})
}

type schemaShowCmd struct {
	Type string `arg:"" help:"Event type, such as claim.recorded."`
}

func (c *schemaShowCmd) Run(a *app) error {
	raw, ok := schema.Raw(c.Type)
	if !ok {
		return usageError("unknown type %q; `assay schema list` names them", c.Type)
	}
	if a.json {
		compact, err := schema.Compact(raw)
		if err != nil {
			return err
		}
		raw = append(compact, '\n')
	}
	_, err := a.stdout.Write(raw)
	return err
}

type schemaExampleCmd struct {
	Type string `arg:"" help:"Event type, such as claim.recorded."`
}

func (c *schemaExampleCmd) Run(a *app) error {
	raw, ok := schema.Example(c.Type)
	if !ok {
		return usageError("unknown type %q; `assay schema list` names them", c.Type)
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n", strings.TrimSpace(string(raw)))
	return err
}
