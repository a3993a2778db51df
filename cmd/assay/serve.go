package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"assay/cmd/internal/node"
	"assay/resolver/criterion"
)

type serveCmd struct {
	Service  string        `arg:"" enum:"broker,logger,projector,resolver,ingress,sensor,gateway" help:"broker, logger, projector, resolver, ingress, sensor or gateway."`
	NATS     string        `name:"nats" help:"Use the external broker at this address, or several with commas between them. Default: the broker or the cluster that serves DIR." placeholder:"URL"`
	Monitor  string        `help:"Monitoring address of the external broker (http://host:8222), to see that it fsyncs before it acks." placeholder:"URL"`
	CredsDir string        `help:"Directory with the service's credentials. Default: DIR/creds." type:"path" placeholder:"DIR"`
	Node     string        `help:"Which broker of the cluster serve broker is; its directory is DIR/nodes/NAME." placeholder:"NAME"`
	Port     int           `help:"Loopback port of serve broker; clients find it again there after a restart. 0: any free one." default:"4222"`
	Source   string        `help:"Source of the registry that serve sensor reads. Default: this host." placeholder:"NAME"`
	From     string        `help:"Read the journal entries of this file, as journalctl -o json prints them, to its end in place of the source; - is standard input." type:"path" placeholder:"FILE"`
	Watch    []int         `help:"Process that serve sensor reads." placeholder:"PID"`
	Sensor   time.Duration `help:"Time between two readings of serve sensor." default:"1s"`
	Standby  bool          `help:"Run serve logger as one of several: it writes when no other does, and takes over from one that falls silent."`
	Instance string        `help:"Name of this logger among those that stand by on DIR." placeholder:"NAME"`
	Seal     time.Duration `help:"How often serve resolver seals telemetry into the ledger." default:"10s"`
	roomFlags
	metricsFlags
}

func (c *serveCmd) Run(a *app) error {
	if c.Service == "broker" && c.NATS != "" {
		return usageError("serve broker starts the embedded broker; --nats is for the other services")
	}
	if c.Node != "" && c.Service != "broker" {
		return usageError("--node is for serve broker")
	}
	if c.Standby && c.Service != "logger" || c.Instance != "" && !c.Standby {
		return usageError("--standby is for serve logger, and --instance goes with it")
	}
	if c.Source == criterion.HostSource {
		c.Source = ""
	}
	if c.Source != "" && (c.Service != "sensor" || len(c.Watch) > 0) {
		return usageError("--source is for serve sensor, and --watch for the sensor of this host")
	}
	if c.From != "" && c.Source == "" {
		return usageError("--from goes with --source")
	}
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
	input, err := c.input()
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	s, err := node.StartService(a.ctx, node.ServiceConfig{
		Service: c.Service, Source: c.Source, Input: input, Node: c.Node, NATS: c.NATS, Monitor: c.Monitor, CredsDir: c.CredsDir,
		UpConfig: node.UpConfig{
			Dir: a.dir, Port: c.Port, Software: software(), Log: a.log, Watch: c.Watch, Sensor: c.Sensor, Seal: c.Seal,
			LowWater: c.lowWater(), MaxStore: c.maxStore(), Metrics: metrics, Standby: c.Standby, Instance: c.Instance,
		},
	})
	if err != nil {
		return err
	}
	st := s.Status()
	if err := a.print(st, func(w io.Writer) {
		fmt.Fprintf(w, "%s serves %s, broker at %s.\n", c.Service, a.dir, st.URL)
	}); err != nil {
		return err
	}
	go c.reload(a, s, hangups)
	return s.Wait()
}

// reload has the service read its files again at each SIGHUP.
func (c *serveCmd) reload(a *app, s *node.Service, hangups <-chan os.Signal) {
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-hangups:
		}
		if err := s.Reload(); err != nil {
			a.log.Error().Err(err).Str("service", c.Service).Msg("not reloaded: what held before holds on")
		} else {
			a.log.Info().Str("service", c.Service).Msg("reloaded")
		}
	}
}

// input is nil without --from.
func (c *serveCmd) input() (io.Reader, error) {
	switch c.From {
	case "":
		return nil, nil
	case "-":
		return os.Stdin, nil
	}
	f, err := os.Open(c.From)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return f, nil
}
