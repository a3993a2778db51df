package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"assay/cmd/internal/hooks"
	"assay/cmd/internal/node"
	"assay/events/hook"
	"assay/events/publish"
)

type hookCmd struct {
	ClaudeCode claudeCodeHookCmd `cmd:"" name:"claude-code" help:"Record what Claude Code gives its hooks; always ends with 0."`
	Codex      codexHookCmd      `cmd:"" name:"codex" help:"Record what Codex gives its hooks; always ends with 0."`
	Install    hookInstallCmd    `cmd:"" help:"Have a client run these hooks, or no longer."`
	Coverage   hookCoverageCmd   `cmd:"" help:"Hold a client's transcript against the ledger: which tool calls were recorded?"`
}

// hookFlags are for the help, and for a command line with other flags in front; run
// sees to all others.
type hookFlags struct {
	As      string `help:"Record in the name of this agent." placeholder:"agent/NAME" default:"agent/piper"`
	Payload string `arg:"" optional:"" help:"The payload; without it, stdin."`
}

type (
	claudeCodeHookCmd struct{ hookFlags }
	codexHookCmd      struct{ hookFlags }
)

func (c *claudeCodeHookCmd) Run(a *app) error { return c.hear(a, hook.ClaudeCode) }
func (c *codexHookCmd) Run(a *app) error      { return c.hear(a, hook.Codex) }

func (c *hookFlags) hear(a *app, client hook.Client) error {
	args := []string{string(client), "--dir", string(a.dir), "--as", c.As}
	if c.Payload != "" {
		args = append(args, c.Payload)
	}
	hooks.Main(args, a.stdin, a.stderr)
	return nil
}

type hookInstallCmd struct {
	Client  string `arg:"" enum:"claude-code,codex" help:"claude-code or codex."`
	Project string `help:"Only for this project; it must exist." type:"existingdir" xor:"scope" placeholder:"DIR"`
	User    bool   `help:"For all projects of this user. The default." xor:"scope"`
	As      string `help:"Record in the name of this agent." placeholder:"agent/NAME" default:"agent/piper"`
	Remove  bool   `help:"Take the hooks out again." xor:"what"`
	Print   bool   `help:"Print what the file would be, and change nothing." xor:"what"`
}

func (c *hookInstallCmd) Run(a *app) error {
	if !hooks.IsAgent(c.As) {
		return usageError("hooks write as an agent, such as agent/piper, not as %q", c.As)
	}
	if err := a.dir.Check(); err != nil && !c.Remove { // hooks may outlive their ledger
		return err
	}
	in := node.HookInstall{Dir: a.dir, Client: hook.Client(c.Client), Project: c.Project, As: c.As, Remove: c.Remove, DryRun: c.Print}
	out, err := in.Run()
	if err != nil {
		return err
	}
	if c.Print {
		return a.print(out, func(w io.Writer) { fmt.Fprint(w, visible(out.Text)) })
	}
	return a.print(out, func(w io.Writer) {
		switch {
		case !out.Changed:
			fmt.Fprintf(w, "%s is as it should be.\n", visible(out.File))
		case c.Remove:
			fmt.Fprintf(w, "%s runs the hooks no longer.\n", visible(out.File))
		default:
			fmt.Fprintf(w, "%s runs %s\n", visible(out.File), visible(out.Command))
			fmt.Fprintln(w, "in sessions that start from now on. `assay up` or `assay serve gateway` delivers what they record.")
		}
		for _, text := range out.Advice {
			fmt.Fprintf(w, "Note: %s.\n", visible(text))
		}
	})
}

type hookCoverageCmd struct {
	Transcript string `arg:"" help:"Transcript of a session, as the client keeps it." type:"existingfile"`
	Client     string `help:"Whose transcript it is: claude-code or codex." enum:"claude-code,codex" default:"claude-code"`
	Record     bool   `help:"Record the missing calls as imports, so that metrics count them as not captured."`
	As         string `help:"Agent in whose name they are recorded." placeholder:"agent/NAME" default:"agent/piper"`
}

// covered is what coverage found.
type covered struct {
	node.HookCoverage
	Imported int `json:"imported"` // of the missing ones, that the ledger has now as imports
}

func (c *hookCoverageCmd) Run(a *app) error {
	if !hooks.IsAgent(c.As) {
		return usageError("--as: want an agent, such as agent/piper, not %q", c.As)
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	f, err := os.Open(c.Transcript)
	if err != nil {
		return err
	}
	defer f.Close()
	calls, err := node.TranscriptCalls(hook.Client(c.Client), f)
	if err != nil {
		return &exitError{exitNotCompare, err}
	}
	out := covered{}
	if out.HookCoverage, err = node.CoverHooks(a.ctx, a.dir, calls); err != nil {
		return &exitError{exitNotCompare, err}
	}
	if c.Record {
		if out.Imported, err = c.record(a, out.Missing); err != nil {
			return err
		}
	}
	if err := a.print(out, func(w io.Writer) { out.text(w) }); err != nil {
		return err
	}
	switch {
	case out.Ended == 0:
		return &exitError{code: exitNotCompare}
	case len(out.Missing) > 0:
		return errDoesNotHold
	}
	return nil
}

func (c *covered) text(w io.Writer) {
	for _, m := range c.Missing {
		fmt.Fprintf(w, "missing %s %s\n", visible(m.ToolCallID), visible(m.Tool))
	}
	if c.Coverage == nil {
		fmt.Fprintln(w, "No tool call of the transcript has ended: there is nothing to compare.")
		return
	}
	fmt.Fprintf(w, "%d of %d tool calls were recorded (%.3f); %d others have no result yet, %d are recorded as imports.\n",
		c.Recorded, c.Ended, *c.Coverage, c.Open, c.Imported)
}

// record sends the calls as imports and says how many the ledger has.
func (c *hookCoverageCmd) record(a *app, missing []node.TranscriptCall) (int, error) {
	if len(missing) == 0 {
		return 0, nil
	}
	emit := emitCmd{As: c.As}
	client, done, err := emit.dial(a)
	if err != nil {
		return 0, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(a.ctx, 30*time.Second)
	defer cancel()
	var sent []*publish.Pending
	for _, m := range missing {
		sent = append(sent, client.Send(m.Raw))
	}
	for i, p := range sent {
		if _, err := p.Wait(ctx); err != nil {
			return i, err
		}
	}
	return len(sent), nil
}
