package main

import "assay/cmd/internal/node"

// metricsFlags say where a service shows its metrics beside its socket.
type metricsFlags struct {
	Metrics       string `help:"Serve /metrics, /healthz and /readyz over TCP as well. Without a host, on loopback." placeholder:"[HOST:]PORT"`
	MetricsPublic bool   `help:"Let --metrics name an address that other hosts can reach. There is no password."`
}

func (f metricsFlags) address() (string, error) {
	addr, err := node.ListenAddress(f.Metrics, f.MetricsPublic)
	if err != nil {
		return "", usageError("--metrics: %w; there is no password, and --metrics-public allows other addresses than loopback", err)
	}
	return addr, nil
}
