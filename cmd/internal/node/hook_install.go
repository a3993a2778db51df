package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/hooks"
	"assay/events/hook"
	"assay/events/hook/settings"
	"assay/internal/durable"
	"assay/internal/principal"
)

// HookInstall has a client run assay's hooks, or no longer.
type HookInstall struct {
	Dir     Dir
	Client  hook.Client
	Project string // directory; "" is every project of this user
	As      string // agent/NAME
	Remove  bool
	DryRun  bool // nothing is written
}

// HookInstalled is what became of a client's file.
type HookInstalled struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Command string `json:"command,omitzero"` // that the client runs
	// Advice is what stands in the way of recording, or of doing it fast.
	Advice []string `json:"advice,omitzero"`
	Text   string   `json:"text,omitzero"` // of the file as it would be, of a dry run
}

// Run changes the client's file. What else stands in it keeps its bytes. A
// removal puts back what stood there before the first installation, byte for
// byte, unless the file was changed meanwhile: then only our hooks go.
func (in HookInstall) Run() (out HookInstalled, err error) {
	if out.File, err = in.file(); err != nil {
		return out, err
	}
	state, err := hooks.DefaultDir()
	if err != nil {
		return out, err
	}
	state += "-hooks"
	if !in.DryRun { // one at a time, of one user's
		if err := os.MkdirAll(state, 0o700); err != nil {
			return out, err
		}
		lock, err := durable.WaitLock(filepath.Join(state, "lock"))
		if err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, lock.Unlock()) }()
	}
	old, err := os.ReadFile(out.File)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return out, err
	}
	undo, err := undoOf(state, out.File)
	if err != nil {
		return out, err
	}
	fresh := old
	switch {
	case !in.Remove:
		if out.Command, out.Advice, err = in.command(); err == nil {
			fresh, err = settings.Add(old, in.Client, out.Command)
		}
	case undo.isLast(old):
		fresh = undo.Before
	default:
		fresh, err = settings.Remove(old)
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", out.File, err)
	}
	out.Changed = !bytes.Equal(old, fresh) || absent != (fresh == nil)
	switch {
	case in.DryRun:
		out.Text = string(fresh)
		return out, nil
	case !out.Changed:
		return out, nil
	case in.Remove:
		return out, errors.Join(replace(out.File, fresh), undo.forget())
	}
	if !undo.isLast(old) {
		undo.Before = old
		if absent {
			undo.Before = nil
		}
	}
	undo.After = hashOf(fresh)
	if err := hooks.MakeDrop(string(in.Dir), hooks.DropOf(string(in.Dir), in.As)); err != nil {
		return out, fmt.Errorf("hooks of this user could record nothing: %w; where each service has its user, `gateway.json` names the agent's, and `assay permissions` makes her directory", err)
	}
	// The note first: it counts only for a file of the hash that it names.
	if err := undo.save(); err != nil {
		return out, err
	}
	return out, replace(out.File, fresh)
}

// file is the client's file, as the client finds it. Of a link it is the target.
func (in HookInstall) file() (string, error) {
	folder, name, env := ".claude", "settings.json", "CLAUDE_CONFIG_DIR"
	if in.Client == hook.Codex {
		folder, name, env = ".codex", "hooks.json", "CODEX_HOME"
	}
	dir := os.Getenv(env)
	switch {
	case in.Project != "":
		dir = filepath.Join(in.Project, folder)
	case dir == "":
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, folder)
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	if _, lerr := os.Lstat(path); lerr == nil { // a link that leads nowhere is not ours to replace
		return "", err
	}
	return path, nil
}

// command is what the client is to run: the small program, where it stands beside
// this one, else this one with an advice.
func (in HookInstall) command() (command string, advice []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	dir, err := filepath.Abs(string(in.Dir))
	if err != nil {
		return "", nil, err
	}
	program := []string{filepath.Join(filepath.Dir(self), "assay-hook")}
	if info, err := os.Stat(program[0]); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		advice = append(advice, fmt.Sprintf("there is no %s: every tool call waits several times as long for `assay hook`; put it there (`go build ./cmd/assay-hook`) and install again", program[0]))
		program = []string{self, "hook"}
	}
	if _, err := os.Stat(principal.CredentialPath(in.Dir.Creds(), userOf(in.As))); errors.Is(err, fs.ErrNotExist) {
		advice = append(advice, fmt.Sprintf("there is no credential of %s: what is recorded waits until `assay principal add %s` made one", in.As, in.As))
	}
	return settings.Command(program, in.Client, "--dir", dir, "--as", in.As), advice, nil
}

// replace writes the file, with the mode that it has; nil is no file.
func replace(path string, data []byte) error {
	if data == nil {
		return os.Remove(path)
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, data, mode)
}

// hookUndo is what is kept of a file that was changed, in the state of the user whose
// file it is, beside DIR's default: DIR itself may be another's.
type hookUndo struct {
	path   string
	File   string `json:"file"`
	Before []byte `json:"before"` // base64; null: there was no file
	After  string `json:"after"`  // SHA-256 of what it was made
}

// undoOf is the note of a file, an empty one if there is none.
func undoOf(state, file string) (*hookUndo, error) {
	u := &hookUndo{path: filepath.Join(state, hashOf([]byte(file))[:32]+".json"), File: file}
	raw, err := os.ReadFile(u.path)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, u, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.path, err)
	}
	return u, nil
}

// isLast says whether nobody changed the file since.
func (u *hookUndo) isLast(file []byte) bool { return u.After != "" && u.After == hashOf(file) }

func (u *hookUndo) save() error {
	raw, err := json.Marshal(u, json.FormatNilSliceAsNull(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(u.path, raw, 0o600)
}

func (u *hookUndo) forget() error {
	if err := os.Remove(u.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
