package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	"assay/cmd/internal/node"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"assay": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs the commands as a user does: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	clients, err := filepath.Abs("../../deploy/clients")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ASSAY_DIR", filepath.Join(e.WorkDir, "ledger"))
			e.Setenv("CLIENTS", clients)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":  exitsWith,
			"ready": waitReady,
			"flip":  flipFile,
			"sql":   querySQLite,

			"freeport":  freePort,
			"witnessed": waitWitnessed,
			"talk":      talk,
			"grab":      grab,
			"expand":    expand,
			"client":    clientRuns,
			"hooked":    waitHooked,
			"edit":      editFile,
		},
	})
}

// code N assay …: runs the command and wants the exit code.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// ready: waits until `assay up` answers and, with an argument, until the
// checkpoint and the views have reached that many records.
func waitReady(ts *testscript.TestScript, neg bool, args []string) {
	dir := node.Dir(ts.Getenv("ASSAY_DIR"))
	size := uint64(2)
	if len(args) > 0 {
		n, err := strconv.ParseUint(args[0], 10, 64)
		ts.Check(err)
		size = n
	}
	var err error
	for range 300 {
		var st node.Status
		err = node.Ask(context.Background(), dir.Socket(), "GET", "/status", nil, &st)
		if err == nil {
			size = max(size, st.Logger.Size) // and whatever was taken meanwhile
		}
		if err == nil && st.Logger.CheckpointSize >= size && uint64(st.Projector.Seq) >= size {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("not ready: %v", err)
}

// freeport NAME…: sets each variable to a loopback address that is free.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer ln.Close()
		ts.Setenv(name, ln.Addr().String())
	}
}

// witnessed N: waits until a checkpoint of that many records, or more, has met
// the witness policy.
func waitWitnessed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: witnessed size")
	}
	size, err := strconv.ParseUint(args[0], 10, 64)
	ts.Check(err)
	var st node.Status
	for range 300 {
		err = node.Ask(context.Background(), node.Dir(ts.Getenv("ASSAY_DIR")).Socket(), "GET", "/status", nil, &st)
		if err == nil && st.Logger.Witnessing != nil && st.Logger.Witnessing.Size >= size {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("not witnessed: %v %+v", err, st.Logger)
}

// sql FILE QUERY: prints the rows, their values separated by |. @NAME is the query in
// a file.
func querySQLite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql file query")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	query := args[1]
	if name, ok := strings.CutPrefix(query, "@"); ok {
		query = ts.ReadFile(name)
	}
	rows, err := db.Query(query)
	ts.Check(err)
	defer rows.Close()
	names, err := rows.Columns()
	ts.Check(err)
	values, refs := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		refs[i] = &values[i]
	}
	for rows.Next() {
		ts.Check(rows.Scan(refs...))
		for i, v := range values {
			if i > 0 {
				fmt.Fprint(ts.Stdout(), "|")
			}
			fmt.Fprint(ts.Stdout(), v)
		}
		fmt.Fprintln(ts.Stdout())
	}
	ts.Check(rows.Err())
}

// flip FILE TEXT: changes one bit of the only place in a file that has TEXT.
func flipFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip file text")
	}
	path := ts.MkAbs(args[0])
	raw, err := os.ReadFile(path)
	ts.Check(err)
	if n := strings.Count(string(raw), args[1]); n != 1 {
		ts.Fatalf("%q occurs %d times in %s", args[1], n, args[0])
	}
	raw[strings.Index(string(raw), args[1])] ^= 1
	ts.Check(os.WriteFile(path, raw, 0o600))
}

// talk SOCKET FILE: sends the file to a Unix socket, once somebody answers there,
// and writes what comes back to the file reply.
func talk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: talk socket file")
	}
	var conn net.Conn
	var err error
	for range 300 {
		if conn, err = net.Dial("unix", ts.MkAbs(args[0])); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Check(err)
	defer conn.Close()
	_, err = io.WriteString(conn, ts.ReadFile(args[1]))
	ts.Check(err)
	ts.Check(conn.(*net.UnixConn).CloseWrite())
	reply, err := io.ReadAll(conn)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("reply"), reply, 0o600))
}

// grab VAR REGEXP: sets a variable to the first group of a match in stdout.
func grab(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: grab variable regexp")
	}
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("no match for %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// expand FROM TO: copies a file with the variables in it replaced.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expand from to")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

// client FILE POINT PAYLOAD: runs each command that a client's file names for a point
// as the client does, with the payload, and wants success and nothing on stdout.
func clientRuns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: client file point payload")
	}
	var file struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Command string `json:"command"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &file))
	ran := 0
	for _, group := range file.Hooks[args[1]] {
		for _, h := range group.Hooks {
			if !strings.Contains(h.Command, "assay") {
				continue // another's
			}
			ran++
			cmd := exec.Command("sh", "-c", h.Command)
			cmd.Dir, cmd.Env = ts.MkAbs("."), []string{"PATH=" + ts.Getenv("PATH")}
			cmd.Stdin = strings.NewReader(ts.ReadFile(args[2]))
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				ts.Fatalf("%s: %v: %s", h.Command, err, out)
			}
		}
	}
	if ran != 1 {
		ts.Fatalf("%d hooks of ours at %s", ran, args[1])
	}
}

// hooked N: waits until so many events of agent/piper's hooks were delivered and are in
// the views.
func waitHooked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hooked number")
	}
	want, err := strconv.ParseUint(args[0], 10, 64)
	ts.Check(err)
	var st node.Status
	for range 300 {
		err = node.Ask(context.Background(), node.Dir(ts.Getenv("ASSAY_DIR")).Socket(), "GET", "/status", nil, &st)
		if err == nil && st.Hooks["agent/piper"].Delivered >= want {
			waitReady(ts, false, nil)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("not delivered: %v %+v", err, st.Hooks)
}

// edit FILE: puts a member at the front of a JSON file, as a user does.
func editFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: edit file")
	}
	text := strings.Replace(ts.ReadFile(args[0]), "{", "{ \"mine\": [1,  2],", 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
