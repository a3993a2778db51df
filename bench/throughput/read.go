package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	processes "assay/bench/house"
	"assay/internal/heap"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/projector"
	"assay/projector/view"
)

// readCommand is the hidden command of the reading processes:
// throughput read bare|verify|replay|sha256|fsck DIR [PROFILE].
const readCommand = "read"

// readResult is what a reading process prints.
type readResult struct {
	Records int     `json:"records"`
	WallNS  int64   `json:"wall_ns"`
	CPUNS   int64   `json:"cpu_ns"`
	PeakMiB float64 `json:"peak_mib"`
}

func readMain(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("read: want bare, verify, replay, sha256 or fsck, and a directory")
	}
	heap.Bound()
	dir := args[1]
	fn := map[string]func(context.Context, string) (int, error){"sha256": readSHA256, "fsck": readFsck}[args[0]]
	if fn == nil {
		kind := map[string]func(context.Context, string, *stream.Stream, jetstream.JetStream) (int, error){
			"bare": readBare, "verify": readVerify, "replay": readReplay,
		}[args[0]]
		if kind == nil {
			return fmt.Errorf("read: no kind %q", args[0])
		}
		nc, s, js, err := openReading(dir)
		if err != nil {
			return err
		}
		defer nc.Close()
		fn = func(ctx context.Context, dir string) (int, error) { return kind(ctx, dir, s, js) }
	}
	if len(args) > 2 {
		f, err := os.Create(args[2])
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	watch := start()
	n, err := fn(context.Background(), dir)
	if err != nil {
		return err
	}
	t := watch.stop(n)
	return json.MarshalWrite(out, readResult{n, int64(t.wall), int64(t.cpu), processes.UsageOf(os.Getpid()).PeakMiB})
}

// openReading connects as an operator who reads.
func openReading(dir string) (*nats.Conn, *stream.Stream, jetstream.JetStream, error) {
	url, err := broker.ReadURL(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := principal.LoadCredential(principal.Dir(dir).Credential(principal.ReadOperator))
	if err != nil {
		return nil, nil, nil, err
	}
	nc, err := broker.Dial(url, c)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := stream.New(nc, stream.Config{APIPrefix: broker.ReadPrefix})
	var js jetstream.JetStream
	if err == nil {
		js, err = broker.ReadAPI(nc)
	}
	if err != nil {
		nc.Close()
		return nil, nil, nil, err
	}
	return nc, s, js, nil
}

// readBare counts the messages up to the head.
func readBare(ctx context.Context, _ string, s *stream.Stream, js jetstream.JetStream) (int, error) {
	head, err := s.Head(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	err = consume(ctx, js, 1, func(jetstream.Msg) bool {
		n++
		return n == int(head.Last)
	})
	return n, err
}

// readVerify audits the ledger as `assay verify` does.
func readVerify(ctx context.Context, dir string, s *stream.Stream, _ jetstream.JetStream) (int, error) {
	files := logger.Files(filepath.Join(dir, "logger"))
	vkey, _, err := logger.LoadVerifier(files)
	if err != nil {
		return 0, err
	}
	checkpoints, err := logger.LoadCheckpoints(files)
	if err != nil {
		return 0, err
	}
	head, err := s.Head(ctx)
	if err != nil {
		return 0, err
	}
	d := ledger.NewAuditor(ledger.Anchor{Key: vkey, Checkpoints: checkpoints})
	if err := s.Read(ctx, 1, head.Last, func(seq ledger.Seq, body []byte) error {
		d.Add(seq, body)
		return nil
	}); err != nil {
		return 0, err
	}
	r := d.Report()
	if r.Verdict != ledger.Consistent || r.Size != uint64(head.Last) || len(checkpoints) == 0 {
		return 0, fmt.Errorf("verify: %s at %d records of %d", r.Verdict, r.Size, head.Last)
	}
	return int(r.Size), nil
}

type source struct{ *stream.Stream }

// Head implements projector.Source.
func (s source) Head(ctx context.Context) (ledger.Seq, error) {
	h, err := s.Stream.Head(ctx)
	return h.Last, err
}

// readReplay rebuilds every view as `assay replay` does.
func readReplay(ctx context.Context, dir string, s *stream.Stream, _ jetstream.JetStream) (int, error) {
	r, err := projector.Replay(ctx, projector.ReplayConfig{Source: source{s}, Projections: view.All(), Dir: dir})
	if err != nil {
		return 0, err
	}
	if r.Parked > 0 || r.Foreign > 0 {
		return 0, fmt.Errorf("replay: %d records were parked and %d are foreign", r.Parked, r.Foreign)
	}
	return int(r.Records), nil
}

// read runs one reading process against the house. The processor time is that
// of both processes.
func (h *house) read(ctx context.Context, kind, profile string) (sample, float64, error) {
	self, err := os.Executable()
	if err != nil {
		return sample{}, 0, err
	}
	args := []string{readCommand, kind, h.dir}
	if profile != "" {
		args = append(args, profile)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	before := cpuTime()
	if err := cmd.Run(); err != nil {
		return sample{}, 0, fmt.Errorf("read %s: %w", kind, err)
	}
	served := cpuTime() - before
	var r readResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return sample{}, 0, fmt.Errorf("read %s: %w", kind, err)
	}
	return sample{records: r.Records, wall: time.Duration(r.WallNS), cpu: time.Duration(r.CPUNS) + served}, r.PeakMiB, nil
}

// readRow alternates the kind of reading that is the measure with kind.
func (h *house) readRow(ctx context.Context, o options, kind, against string, target float64, note string) (Row, error) {
	var ours, bare side
	peak := 0.0
	for i := range o.rounds {
		profile := ""
		if o.cpuProfile != "" && i == 0 {
			profile = o.cpuProfile + kind + ".pprof"
		}
		b, _, err := h.read(ctx, against, "")
		if err != nil {
			return Row{}, err
		}
		a, mib, err := h.read(ctx, kind, profile)
		if err != nil {
			return Row{}, err
		}
		bare, ours, peak = append(bare, b), append(ours, a), max(peak, mib)
	}
	r := rateRow(kind, ours, bare, target, fmt.Sprintf("%s; %d records, peak memory %.0f MiB", note, ours[0].records, peak))
	r.PeakMiB = peak
	return r, nil
}
