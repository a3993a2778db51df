package main

import (
	"assay/bench/calc"
	"assay/cmd/internal/node"
)

type calcCmd struct {
	Serve   string  `help:"Answer on a Unix socket instead of stdin and stdout, on every connection, until interrupted." type:"path" placeholder:"SOCKET"`
	MaxCost float64 `help:"Refuse requests that cost more elementary steps than this." default:"1e9"`
}

func (c *calcCmd) Run(a *app) error {
	limits := calc.DefaultLimits
	limits.Cost = c.MaxCost
	if !(limits.Cost > 0) {
		return usageError("--max-cost must be positive")
	}
	if c.Serve != "" {
		ln, err := node.ListenUnix(c.Serve)
		if err != nil {
			return err
		}
		return calc.Serve(a.ctx, ln, limits)
	}
	ended := make(chan error, 1)
	go func() { ended <- calc.Run(a.stdin, a.stdout, limits) }()
	select {
	case err := <-ended:
		return err
	case <-a.ctx.Done(): // a read of stdin does not end with it
		return nil
	}
}
