package main

import (
	"fmt"
	"io"
	"time"

	"assay/cmd/internal/node"
)

type upCmd struct {
	Port    int           `help:"Loopback port of the broker. 0: any free one." default:"0"`
	Watch   []int         `help:"Process whose memory and life the host sensor reads." placeholder:"PID"`
	Sensor  time.Duration `help:"Time between two readings of the host sensor; the registry's interval should match." default:"1s"`
	Sources bool          `help:"Read the registry's sources too, those of Prometheus, Alertmanager and the like; each needs its principal sensor/NAME."`
	Seal    time.Duration `help:"How often telemetry is sealed into the ledger." default:"10s"`
	Gateway bool          `help:"Run the HTTP gateway too, as DIR/gateway.json says; without that file this user is agent/piper."`
	roomFlags
	metricsFlags
}

func (c *upCmd) Run(a *app) error {
	if c.Sensor <= 0 || c.Seal <= 0 {
		return usageError("--sensor and --seal must be positive")
	}
	if err := c.check(); err != nil {
		return err
	}
	metrics, err := c.address()
	if err != nil {
		return err
	}
	u, err := node.StartUp(a.ctx, node.UpConfig{
		Dir: a.dir, Port: c.Port, Software: software(), Log: a.log, Watch: c.Watch, Sensor: c.Sensor, Seal: c.Seal,
		LowWater: c.lowWater(), MaxStore: c.maxStore(), Gateway: c.Gateway, Sources: c.Sources, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	s := u.Status()
	if err := a.print(s, func(w io.Writer) {
		fmt.Fprintf(w, "assay is up on %s, broker at %s.\n", a.dir, s.URL)
		fmt.Fprintln(w, "Every service runs as this one user: whoever can read this directory can forge anything.")
		fmt.Fprintln(w, "That is fit for trying assay out, not for evidence: give each service its own user.")
	}); err != nil {
		return err
	}
	return u.Wait()
}
