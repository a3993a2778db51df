package main

import (
	"assay/cmd/internal/hooks"
	"assay/cmd/internal/node"
	"assay/events/mcp"
)

type mcpCmd struct {
	As string `help:"Record in the name of this agent." placeholder:"agent/NAME" default:"agent/piper"`
}

func (c *mcpCmd) Run(a *app) error {
	if !hooks.IsAgent(c.As) {
		return usageError("only an agent records over MCP, such as agent/piper, not %q", c.As)
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	r := node.NewRecorder(a.dir, c.As)
	defer r.Close()
	return mcp.Serve(a.ctx, mcp.Config{As: c.As, Version: software(), Publish: r.Publish}, a.stdin, a.stdout)
}
