package node

import (
	"context"
	"net/url"
	"time"

	"assay/projector/report"
)

// reportQuery reads what ReportValues wrote.
func reportQuery(v url.Values) report.Config {
	return report.Config{Namespace: v.Get("namespace"), Week: v.Get("week"), Repair: v["repair"]}
}

// ReportValues is the query of a report as the service takes it.
func ReportValues(c report.Config) url.Values {
	return url.Values{"namespace": {c.Namespace}, "week": {c.Week}, "repair": c.Repair}
}

// signedWithin is how long SignReport waits for a checkpoint: views are at most a
// second ahead of it while the logger runs.
const signedWithin = 3 * time.Second

// SignReport notes the last checkpoint that counts with a report, and waits a little for
// one that covers every record behind it.
func SignReport(ctx context.Context, dir Dir, r *report.Report) error {
	policy, err := LoadPolicy(dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, signedWithin)
	defer stop()
	for {
		cp, err := counting(dir, policy)
		if err != nil {
			return err
		}
		if r.Sign(nil); cp.Size > 0 {
			r.Sign(&cp)
		}
		if r.Checkpoint != nil && r.Checkpoint.Covers {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}
