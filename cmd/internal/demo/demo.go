// Package demo plays a real incident on this host through the whole pipeline:
// a process takes memory, an agent with a write-only credential makes claims
// and promises about it, and the resolver closes them from what /proc said.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/view"
	"assay/resolver/criterion"
)

// Pace of the demo: the sensor's interval, and how often telemetry is sealed.
const (
	sensorEvery = 500 * time.Millisecond
	sealEvery   = time.Second
	deadline    = 50 * time.Second
	silent      = "gpu_temperature_celsius" // registered; its sensor says nothing
	namespace   = "production"
)

// Config says where the demo runs.
type Config struct {
	// Dir must not exist or be empty.
	Dir      node.Dir
	Software string
	// Say is told what happens, line by line.
	Say func(format string, args ...any)
	Log zerolog.Logger
}

// Result is what the demo measured.
type Result struct {
	Dir         string        `json:"dir,omitzero"` // where it can be looked at
	Seconds     float64       `json:"seconds"`
	Records     uint64        `json:"records"`
	Rejected    int64         `json:"rejected"`
	Predictions Verdicts      `json:"predictions"`
	Resolved    []Resolved    `json:"resolved"`
	Verify      Verified      `json:"verify"`
	Tamper      Tampered      `json:"tamper"`
	Replay      Replayed      `json:"replay"`
	Score       *metric.Score `json:"score"`
}

// Verdicts counts predictions by verdict.
type Verdicts struct {
	Confirmed  int `json:"confirmed"`
	Refuted    int `json:"refuted"`
	Void       int `json:"void"`
	Unresolved int `json:"unresolved"`
}

// Resolved is one prediction and how it ended.
type Resolved struct {
	PredID  string  `json:"pred_id"`
	P       float64 `json:"p"`
	Promise string  `json:"promise"`
	Verdict string  `json:"verdict"` // open when the resolver has not closed it
	Reason  *string `json:"reason"`
}

// Verified is the audit of the untouched ledger.
type Verified struct {
	Verdict ledger.Verdict `json:"verdict"`
	Size    uint64         `json:"size"`
	Root    string         `json:"root"`
	Finding *string        `json:"finding,omitzero"`
}

// Tampered is the audit of a copy with one flipped byte.
type Tampered struct {
	Verdict     ledger.Verdict `json:"verdict"`
	FirstBadSeq *ledger.Seq    `json:"first_bad_seq"`
	Finding     *string        `json:"finding"`
	FlippedSeq  ledger.Seq     `json:"flipped_seq"` // where the byte was flipped
}

// Replayed compares a replay from record 1 with the views that the services left.
type Replayed struct {
	Match      bool       `json:"match"`
	Digest     string     `json:"digest"`
	LiveDigest string     `json:"live_digest"`
	Seq        ledger.Seq `json:"seq"`
}

// ErrNotAsPromised means that the demo ran but did not show what it is for.
var ErrNotAsPromised = errors.New("the demo did not come out as it must")

// Run plays the incident and checks its own outcome: an error that wraps
// ErrNotAsPromised comes with the result.
func Run(ctx context.Context, cfg Config) (Result, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := prepare(ctx, cfg); err != nil {
		return Result{}, err
	}
	if err := play(ctx, cfg); err != nil {
		return Result{}, err
	}
	r := Result{Dir: string(cfg.Dir)}
	if err := r.measure(ctx, cfg); err != nil {
		return r, err
	}
	r.Seconds = time.Since(start).Seconds()
	return r, r.check()
}

// prepare makes a ledger whose registry knows the demo's pace and one sensor
// that will stay silent.
func prepare(ctx context.Context, cfg Config) error {
	if entries, err := os.ReadDir(string(cfg.Dir)); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: the demo needs a fresh directory", cfg.Dir)
	}
	reg, err := criterion.DefaultRegistry(sensorEvery)
	if err != nil {
		return err
	}
	reg, err = criterion.AddSignals(reg, criterion.Signal{
		Name: silent, Source: "gpu", Unit: "celsius", Kind: criterion.Gauge, Heartbeat: silent, Writer: "sensor/gpu",
		Interval: sensorEvery, MaxStaleness: 10 * sensorEvery, CoverageFloor: 0.8, MaxGap: 4 * sensorEvery,
		AllowedLateness: 2 * sensorEvery, MaxSkew: sensorEvery / 10, Lo: 0, Hi: 150,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(cfg.Dir), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(cfg.Dir.Registry(), reg, 0o644); err != nil {
		return err
	}
	cfg.Say("making a ledger in %s", cfg.Dir)
	_, err = node.Init(ctx, node.InitConfig{
		Dir: cfg.Dir, OfflineDir: filepath.Join(string(cfg.Dir), "offline-demo-only"),
		Software: cfg.Software, Log: cfg.Log,
	})
	return err
}

// play runs the services for the time of the incident.
func play(ctx context.Context, cfg Config) (err error) {
	up, err := node.StartUp(ctx, node.UpConfig{
		Dir: cfg.Dir, Software: cfg.Software, Log: cfg.Log, Sensor: sensorEvery, Seal: sealEvery,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.Stop()) }()
	return incident(ctx, cfg, up)
}

// measure reads everything back from the files that the services left.
func (r *Result) measure(ctx context.Context, cfg Config) error {
	cfg.Say("stopped every service; checking what they left")
	e, err := node.OpenEvidence(ctx, node.EvidenceConfig{Dir: cfg.Dir, Log: cfg.Log})
	if err != nil {
		return err
	}
	defer e.Close()
	anchor, err := node.LoadAnchor(node.AnchorConfig{Dir: cfg.Dir})
	if err != nil {
		return err
	}
	report, err := node.Verify(ctx, e, anchor, nil)
	if err != nil {
		return err
	}
	r.Records = report.Size
	r.Verify = Verified{report.Verdict, report.Size, report.Root, report.Finding}
	if err := node.OpenViews(cfg.Dir, r.readViews); err != nil {
		return err
	}
	got, err := node.Replay(ctx, node.FoldConfig{Evidence: e, To: r.Replay.Seq, Log: cfg.Log}, nil)
	if err != nil {
		return err
	}
	r.Replay.Digest = got.SHA256
	r.Replay.Match = got.SHA256 == r.Replay.LiveDigest && got.Seq == r.Replay.Seq
	return r.tamper(ctx, cfg, e, anchor)
}

// readViews takes score, verdicts and digest from the stored views.
func (r *Result) readViews(s *projector.State) (err error) {
	if r.Score, err = metric.Compute(s, namespace); err != nil {
		return err
	}
	d, err := s.Digest()
	if err != nil {
		return err
	}
	r.Replay.LiveDigest, r.Replay.Seq = d.SHA256, d.Seq
	err = view.ListRejected(s, namespace, func(v *view.Rejected) error {
		r.Rejected += v.Count
		return nil
	})
	if err != nil {
		return err
	}
	return view.ListPredictions(s, namespace, func(p *view.Prediction) error {
		r.note(p)
		return nil
	})
}

// check holds the result against what the demo promises to show.
func (r *Result) check() error {
	var errs []error
	must := func(ok bool, what string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(what, args...))
		}
	}
	p := r.Predictions
	must(p.Confirmed > 0 && p.Refuted > 0 && p.Void > 0 && p.Unresolved > 0, "predictions: %+v, want at least one of each", p)
	must(r.Rejected >= 2, "%d rejections, want the malformed and the forged event", r.Rejected)
	must(r.Verify.Verdict == ledger.Consistent, "verify: %s", r.Verify.Verdict)
	must(r.Replay.Match, "replay: digest %s, the views have %s", r.Replay.Digest, r.Replay.LiveDigest)
	must(r.Tamper.Verdict == ledger.Inconsistent && r.Tamper.FirstBadSeq != nil && *r.Tamper.FirstBadSeq == r.Tamper.FlippedSeq,
		"tamper: %s, a byte of record %d was flipped", r.Tamper.Verdict, r.Tamper.FlippedSeq)
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrNotAsPromised, errors.Join(errs...))
	}
	return nil
}

// note counts a prediction's verdict.
func (r *Result) note(p *view.Prediction) {
	out := Resolved{PredID: p.PredID, P: p.P, Promise: p.PredictedEffect, Verdict: "open"}
	if res := p.Resolution; res != nil {
		out.Verdict, out.Reason = res.Verdict, res.Reason
		switch res.Verdict {
		case "confirmed":
			r.Predictions.Confirmed++
		case "refuted":
			r.Predictions.Refuted++
		case "void":
			r.Predictions.Void++
		case "unresolved":
			r.Predictions.Unresolved++
		}
	}
	r.Resolved = append(r.Resolved, out)
}

func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
