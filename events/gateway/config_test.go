package gateway_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/events/gateway"
	"assay/internal/versioned"
)

func TestFile(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"uid", `{"v":1,"callers":[{"uid":0,"principal":"agent/a"}]}`, nil},
		{"everything", `{"v":1,"socket":"/s","mode":"0600","tcp":"[::1]:0","connections":1,"spool_bytes":1,"blob_bytes":1,"callers":[{"user":"x","principal":"agent/a","rate":1.5,"burst":3},{"token_file":"f","principal":"agent/a"}]}`, nil},
		{"another version", `{"v":2,"callers":[]}`, versioned.ErrVersion},
		{"no version", `{"callers":[{"uid":0,"principal":"agent/a"}]}`, versioned.ErrVersion},
		{"no callers", `{"v":1,"callers":[]}`, gateway.ErrConfig},
		{"unknown member", `{"v":1,"x":1,"callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"unknown member of a caller", `{"v":1,"callers":[{"uid":0,"principal":"agent/a","namespace":"x"}]}`, gateway.ErrConfig},
		{"twice", `{"v":1,"v":1,"callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"uid and user", `{"v":1,"callers":[{"uid":0,"user":"x","principal":"agent/a"}]}`, gateway.ErrConfig},
		{"nobody", `{"v":1,"callers":[{"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"negative uid", `{"v":1,"callers":[{"uid":-1,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"the logger", `{"v":1,"callers":[{"uid":0,"principal":"logger/x"}]}`, gateway.ErrConfig},
		{"no principal", `{"v":1,"callers":[{"uid":0,"principal":"piper"}]}`, gateway.ErrConfig},
		{"negative rate", `{"v":1,"callers":[{"uid":0,"principal":"agent/a","rate":-1}]}`, gateway.ErrConfig},
		{"small burst", `{"v":1,"callers":[{"uid":0,"principal":"agent/a","burst":0.5}]}`, gateway.ErrConfig},
		{"token without tcp", `{"v":1,"callers":[{"token_file":"x","principal":"agent/a"}]}`, gateway.ErrConfig},
		{"every address", `{"v":1,"tcp":":80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"any address", `{"v":1,"tcp":"0.0.0.0:80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"another host", `{"v":1,"tcp":"192.0.2.1:80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"a name", `{"v":1,"tcp":"localhost:80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"bad mode", `{"v":1,"mode":"rw","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"more behind", `{"v":1,"callers":[{"uid":0,"principal":"agent/a"}]} {}`, gateway.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := gateway.Decode([]byte(c.in)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if err := gateway.Own().Validate(); err != nil {
		t.Error(err)
	}
}

func TestStartRefuses(t *testing.T) {
	own := uint32(os.Getuid())
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := func(callers ...gateway.Caller) *gateway.File {
		return &gateway.File{TCP: "127.0.0.1:0", Callers: callers}
	}
	for name, f := range map[string]*gateway.File{
		"a principal without a way":    file(gateway.Caller{UID: &own, Principal: "agent/nobody"}),
		"a uid twice":                  file(gateway.Caller{UID: &own, Principal: "agent/piper"}, gateway.Caller{UID: &own, Principal: "agent/piper"}),
		"no such user":                 file(gateway.Caller{User: "no-such-user-here", Principal: "agent/piper"}),
		"no token file":                file(gateway.Caller{TokenFile: "missing", Principal: "agent/piper"}),
		"a short token":                file(gateway.Caller{TokenFile: write("short", "abc\n", 0o600), Principal: "agent/piper"}),
		"two tokens":                   file(gateway.Caller{TokenFile: write("two", strings.Repeat("x", 40)+"\n"+strings.Repeat("y", 40), 0o600), Principal: "agent/piper"}),
		"a token that others may read": file(gateway.Caller{TokenFile: write("open", strings.Repeat("x", 40), 0o644), Principal: "agent/piper"}),
	} {
		g, err := gateway.Start(gateway.Config{
			File: f, Dir: dir, Socket: filepath.Join(dir, "s"), Publishers: map[string]gateway.Publisher{"agent/piper": &ledger{}},
		})
		if err == nil {
			t.Errorf("%s: started", name)
			g.Close()
		}
	}
	// A socket that is in use is not taken from whoever has it; one left over is.
	d := open(t, nil)
	cfg := gateway.Config{File: gateway.Own(), Socket: d.socket, Publishers: map[string]gateway.Publisher{"agent/piper": &ledger{}}}
	if _, err := gateway.Start(cfg); err == nil {
		t.Error("two gateways on one socket")
	}
	if a := d.post(structured, gate(t)); a.status != 200 {
		t.Errorf("the first one: %d", a.status)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"callers":[{"uid":0,"principal":"agent/a"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		file, err := gateway.Decode(in)
		if err == nil && file.Validate() != nil {
			t.Fatalf("accepted %q", in)
		}
	})
}
