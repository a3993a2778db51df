// Command assay keeps and checks the tamper-evident record of what an AI agent
// claimed and promised, and of what then really happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // the logger's weeks must not depend on the host's files

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"assay/cmd/internal/hooks"
	"assay/cmd/internal/node"
	"assay/events/hook"
	"assay/events/importer"
	"assay/internal/principal"
	"assay/projector/metric"
	"assay/projector/view"
)

// The exit codes of every command.
const (
	exitHolds      = 0
	exitDoesNot    = 1 // a check failed, an event was refused, or an error
	exitUsage      = 2
	exitNotCompare = 3 // there was nothing to compare with
)

// exitError ends the command with a code; its message may be empty when the
// command has said everything.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// errDoesNotHold is the silent form of exit 1: the output says why.
var errDoesNotHold = &exitError{code: exitDoesNot}

type cli struct {
	Dir     string           `help:"Directory of the ledger. Default: $$XDG_STATE_HOME/assay." type:"path" env:"ASSAY_DIR" placeholder:"DIR"`
	JSON    bool             `help:"Print the result as JSON." name:"json"`
	Verbose bool             `help:"Log more to stderr." short:"v"`
	Version kong.VersionFlag `help:"Print the version."`

	Init        initCmd        `cmd:"" help:"Make a ledger: keys, principals, broker configuration, streams, record 1."`
	Principal   principalCmd   `cmd:"" help:"Add, list or revoke those who may publish."`
	Permissions permissionsCmd `cmd:"" help:"Give every file of the directory to the user of the service that it belongs to."`
	Up          upCmd          `cmd:"" help:"Run every service in one process on an embedded broker (one user: no boundary)."`
	Serve       serveCmd       `cmd:"" help:"Run one service alone."`
	Emit        emitCmd        `cmd:"" help:"Publish events from stdin, one JSON object a line, and print their receipts."`
	Hook        hookCmd        `cmd:"" help:"Record an agent's tool calls from her client's hooks; install them; hold transcripts against the ledger."`
	MCP         mcpCmd         `cmd:"" name:"mcp" help:"Serve an agent the recording of claims, predictions and revisions over MCP, on stdin and stdout."`
	Import      importCmd      `cmd:"" help:"Import what other programs wrote down: transcripts, evaluation logs, answers with their scores."`
	Status      statusCmd      `cmd:"" help:"Say what the running services do."`
	Doctor      doctorCmd      `cmd:"" help:"Examine the installation: broker, permissions, files, clock, disk, services; say what to do."`
	Schema      schemaCmd      `cmd:"" help:"List and show event types."`
	Tail        tailCmd        `cmd:"" help:"Print records as they come, or export them."`
	Top         topCmd         `cmd:"" help:"Watch the running services: rates, lag, open predictions, refusals."`
	UI          uiCmd          `cmd:"" name:"ui" help:"Serve read-only pages on loopback: ledger, events, episodes, predictions, metrics."`
	Show        showCmd        `cmd:"" help:"Show a record, an event, a claim or a prediction."`
	List        listCmd        `cmd:"" help:"List what the views hold: predictions, claims, rejections and the like."`
	Verify      verifyCmd      `cmd:"" help:"Check every link, the Merkle root and the checkpoints."`
	Prove       proveCmd       `cmd:"" help:"Write the proof that a record is in the log, or that the log only grew."`
	Check       checkCmd       `cmd:"" help:"Check a proof file offline, with nothing but the log's public key."`
	Export      exportCmd      `cmd:"" help:"Write the ledger as files: C2SP tlog-tiles that other tools can check, or tables for analysts."`
	Fsck        fsckCmd        `cmd:"" help:"Check an export from its files alone."`
	Replay      replayCmd      `cmd:"" help:"Rebuild every view from record 1 and compare the digest."`
	Snapshot    snapshotCmd    `cmd:"" help:"Write the running views to DIR/snapshots; replay --to compares with it."`
	Predictions predictionsCmd `cmd:"" help:"List predictions that wait for their verdict, or have none, and say why."`
	Confirm     confirmCmd     `cmd:"" help:"Report the outcome of a prediction as an operator; it counts where telemetry says nothing."`
	Resolve     resolveCmd     `cmd:"" help:"Recompute every resolution from ledger and segments and compare it with the stored one."`
	Score       scoreCmd       `cmd:"" help:"Compute the metrics, with their denominators."`
	Metrics     metricsCmd     `cmd:"" help:"List the catalogue of metrics: what each asks, counts, leaves out and does with what is unknown."`
	Explain     explainCmd     `cmd:"" help:"Compute a metric and show the records behind it, with a proof of each on request."`
	Report      reportCmd      `cmd:"" help:"Write what a closed week comes to, as one page, Markdown and JSON."`
	Criterion   criterionCmd   `cmd:"" help:"Check a prediction's criterion, or try it on telemetry."`
	Audit       auditCmd       `cmd:"" help:"Draw the week's cases that people label, label them, and say what the raters make of them."`
	Watch       watchCmd       `cmd:"" help:"Watch the store of an agent's memory, and tell of what changes underneath her."`
	Detect      detectCmd      `cmd:"" help:"Find the opportunities to reason about causes in transcripts, and say how well that goes."`
	Canary      canaryCmd      `cmd:"" help:"Look at bounded rollouts and what rolled them back."`
	Key         keyCmd         `cmd:"" help:"List and change the key that signs the ledger."`
	Foreign     foreignCmd     `cmd:"" help:"Deal with messages that the logger did not write."`
	Witness     witnessCmd     `cmd:"" help:"Cosign the checkpoints of logs, as long as each extends the one before it."`
	Blob        blobCmd        `cmd:"" help:"Store, print and list content that events name by their dataref."`
	Erase       eraseCmd       `cmd:"" help:"Remove the content of a blob; the ledger, which holds its hash alone, stays whole."`
	Backup      backupCmd      `cmd:"" help:"Copy ledger, blobs and configuration to a directory, or bring the copy that is there up to date."`
	Restore     restoreCmd     `cmd:"" help:"Check a backup and bring the ledger back from it."`
	Calc        calcCmd        `cmd:"" help:"Answer exact questions, one JSON object a line (docs/calc.md)."`
	Bench       benchCmd       `cmd:"" help:"Make and check benchmark worlds with exact answers."`
	Demo        demoCmd        `cmd:"" help:"Run a real incident on this host, from event to recomputed score."`
	DemoHog     hogCmd         `cmd:"" hidden:""`
}

// app is what every command gets.
type app struct {
	ctx    context.Context
	dir    node.Dir
	json   bool
	log    zerolog.Logger
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[0] == "hook" && hook.IsClient(args[1]) {
		// Not parsed: no wrong flag, nor anything else, may stand in an agent's way.
		hooks.Main(args[1:], stdin, stderr)
		return exitHolds
	}
	// Nor may one with flags in front: 2 would tell the client to block the call.
	wrong := exitUsage
	if i := slices.Index(args, "hook"); i >= 0 && i+1 < len(args) && hook.IsClient(args[i+1]) {
		wrong = exitHolds
	}
	var c cli
	exited := -1
	parser, err := newParser(&c, stdout, stderr, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return exitDoesNot
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 { // --help or --version
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "assay: %v\n", err)
		return wrong
	}
	a := &app{ctx: ctx, json: c.JSON, stdin: stdin, stdout: stdout, stderr: stderr, log: newLog(stderr, c.Verbose)}
	if c.Dir == "" {
		dir, err := hooks.DefaultDir()
		if err != nil {
			fmt.Fprintln(stderr, "assay:", err)
			return wrong
		}
		c.Dir = dir
	}
	a.dir = node.Dir(c.Dir)
	return exitCode(stderr, kctx.Run(a))
}

// newParser reads command lines into c; exit is called for --help and --version.
func newParser(c *cli, stdout, stderr io.Writer, exit func(code int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("assay"),
		kong.Description("The tamper-evident record of what an agent claimed, and of what then happened."),
		kong.Writers(stdout, stderr),
		kong.Vars{"version": software(), "kinds": strings.Join(view.Kinds(), ", "), "sets": strings.Join(metric.Sets(), ", "), "formats": strings.Join(importer.Formats(), ", ")},
		kong.ValueFormatter(helpOf),
		kong.Exit(exit),
		kong.UsageOnError(),
	)
}

// helpOf is the help of a flag or argument. One whose place holder says what it is like
// names its default, which kong shows only in the place of that.
func helpOf(v *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(v)
	if v.Flag == nil || v.Flag.PlaceHolder == "" || !v.HasDefault || v.Default == "" || strings.Contains(help, "efault") {
		return help
	}
	return help + " Default: " + v.Default + "."
}

func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return exitHolds
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{exitDoesNot, err}
		if errors.Is(err, node.ErrNotInitialised) || errors.Is(err, principal.ErrInvalid) {
			e.code = exitUsage
		}
	}
	if e.err != nil {
		fmt.Fprintf(stderr, "assay: %v\n", err)
	}
	return e.code
}

func newLog(stderr io.Writer, verbose bool) zerolog.Logger {
	level := zerolog.WarnLevel
	if verbose {
		level = zerolog.InfoLevel
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: stderr, NoColor: !isTerminal(stderr), TimeFormat: "15:04:05.000"}).
		Level(level).With().Timestamp().Logger()
}

// software names this build.
func software() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "assay (unknown build)"
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
	}
	return "assay " + version
}
