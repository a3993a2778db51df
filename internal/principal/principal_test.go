package principal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"assay/internal/versioned"
)

func newKey(t testing.TB) string {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestDecode(t *testing.T) {
	key, other := newKey(t), newKey(t)
	one := `{"role":"agent","name":"piper","namespace":"production","nkey":"` + key + `"}`
	wrap := func(ps string) string { return `{"v":1,"principals":[` + ps + `]}` }
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"one", wrap(one), nil},
		{"none", wrap(""), nil},
		{"all members", wrap(`{"role":"sensor","name":"h-1_x","namespace":"bench/r1","nkey":"` + other + `","receipts_seq":false,"rejections_per_second":5,"revoked_at":"2026-10-03T12:00:00Z"}`), nil},
		{"unknown member of the file", `{"v":1,"principals":[],"x":1}`, ErrInvalid},
		{"unknown member of a principal", wrap(strings.Replace(one, `"name"`, `"nome":1,"name"`, 1)), ErrInvalid},
		{"member in another case", wrap(strings.Replace(one, `"name"`, `"Name"`, 1)), ErrInvalid},
		{"duplicate member", wrap(strings.Replace(one, `"name"`, `"role":"agent","name"`, 1)), ErrInvalid},
		{"no version", `{"principals":[]}`, versioned.ErrVersion},
		{"later version", `{"v":2,"principals":[],"new":1}`, versioned.ErrVersion},
		{"version as text", `{"v":"1","principals":[]}`, versioned.ErrVersion},
		{"trailing bytes", wrap(one) + "x", ErrInvalid},
		{"not JSON", `v: 1`, ErrInvalid},
		{"unknown role", wrap(strings.Replace(one, "agent", "king", 1)), ErrInvalid},
		{"logger", wrap(strings.Replace(one, "agent", "logger", 1)), ErrInvalid},
		{"name with a dot", wrap(strings.Replace(one, "piper", "pi.per", 1)), ErrInvalid},
		{"name with a wildcard", wrap(strings.Replace(one, "piper", "*", 1)), ErrInvalid},
		{"no name", wrap(strings.Replace(one, "piper", "", 1)), ErrInvalid},
		{"bad namespace", wrap(strings.Replace(one, "production", "bench/", 1)), ErrInvalid},
		{"harness in production", wrap(strings.Replace(one, "agent", "harness", 1)), ErrInvalid},
		{"no key", wrap(strings.Replace(one, key, "", 1)), ErrInvalid},
		{"broken key", wrap(strings.Replace(one, key, key[:len(key)-1]+"A", 1)), ErrInvalid},
		{"listed twice", wrap(one + "," + strings.Replace(one, key, other, 1)), ErrInvalid},
		{"shared key", wrap(one + "," + strings.Replace(one, "piper", "other", 1)), ErrInvalid},
		{"negative rate", wrap(strings.Replace(one, `"role"`, `"rejections_per_second":-1,"role"`, 1)), ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Decode([]byte(c.in))
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			out, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Decode(out); err != nil || len(again.Principals) != len(f.Principals) {
				t.Fatalf("round trip: %v, %v", again, err)
			}
		})
	}
}

func TestReceiptsSeqDefault(t *testing.T) {
	for in, want := range map[string]bool{"": true, `,"receipts_seq":true`: true, `,"receipts_seq":false`: false} {
		f, err := Decode([]byte(`{"v":1,"principals":[{"role":"agent","name":"a","namespace":"n","nkey":"` + newKey(t) + `"` + in + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Principals[0].ReceiptsSeq; got != want {
			t.Errorf("with %q: %v, want %v", in, got, want)
		}
	}
}

func TestAddAndRevoke(t *testing.T) {
	at := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	with := func(name string) Principal {
		p := New(Agent, name, "production")
		p.NKey = newKey(t)
		return p
	}
	var f File
	for _, c := range []struct {
		name string
		do   func() error
		want error
	}{
		{"revoke from an empty file", func() error { return f.Revoke("agent/a", at) }, ErrUnknown},
		{"add", func() error { return f.Add(with("a")) }, nil},
		{"add again", func() error { return f.Add(with("a")) }, ErrExists},
		{"add without key", func() error { return f.Add(New(Agent, "b", "production")) }, ErrInvalid},
		{"revoke at no time", func() error { return f.Revoke("agent/a", time.Time{}) }, ErrInvalid},
		{"revoke", func() error { return f.Revoke("agent/a", at) }, nil},
		{"revoke again", func() error { return f.Revoke("agent/a", at) }, ErrRevoked},
		{"add a revoked name", func() error { return f.Add(with("a")) }, ErrExists},
	} {
		if err := c.do(); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Fatalf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if p, ok := f.Find("agent/a"); !ok || !p.Revoked() || len(f.Active()) != 0 {
		t.Fatalf("after revocation: %+v, listed %v, active %v", p, ok, f.Active())
	}
}

func TestInitIsIdempotentAndResumes(t *testing.T) {
	dir, offline := Dir(filepath.Join(t.TempDir(), "d")), filepath.Join(t.TempDir(), "off")
	if _, _, err := dir.Init(""); !errors.Is(err, ErrNoOfflineDir) {
		t.Fatalf("without offline directory: %v", err)
	}
	// The interruption above left seeds behind; they must be kept.
	before, err := os.ReadFile(dir.Credential(LoggerStore))
	if err != nil {
		t.Fatal(err)
	}
	f, s, err := dir.Init(offline)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(dir.Credential(LoggerStore)); string(after) != string(before) {
		t.Error("resumed Init replaced a seed")
	}
	if len(f.Principals) != len(Defaults()) {
		t.Errorf("%d principals, want %d", len(f.Principals), len(Defaults()))
	}
	f2, s2, err := dir.Init("")
	if err != nil {
		t.Fatalf("second Init: %v", err)
	}
	if s2.Recovery != s.Recovery || f2.Principals[0] != f.Principals[0] {
		t.Error("second Init changed keys")
	}
	checkSeeds(t, dir, offline, f, s)
}

func checkSeeds(t *testing.T, dir Dir, offline string, f *File, s *Services) {
	t.Helper()
	want := map[string]string{
		CredentialPath(offline, BootstrapStore):     s.Users[BootstrapStore],
		CredentialPath(offline, BootstrapTelemetry): s.Users[BootstrapTelemetry],
		CredentialPath(offline, recovery):           s.Recovery,
	}
	for _, user := range ServiceUsers() {
		want[dir.Credential(user)] = s.Users[user]
	}
	for _, p := range f.Principals {
		want[dir.Credential(p.User())] = p.NKey
	}
	for path, public := range want {
		c, err := LoadCredential(path)
		if err != nil || c.Public != public {
			t.Errorf("%s: key %s, %v; want %s", path, c.Public, err, public)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", path, st.Mode())
		}
	}
	seeds, _ := filepath.Glob(filepath.Join(dir.Creds(), "*"))
	if len(seeds) != len(want)-3 {
		t.Errorf("creds holds %v", seeds)
	}
}

func TestInitKeepsServicesWhoseSeedsWereMoved(t *testing.T) {
	dir := Dir(t.TempDir())
	_, s, err := dir.Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir.Credential(LoggerStore)); err != nil {
		t.Fatal(err)
	}
	if _, again, err := dir.Init(""); err != nil || again.Users[LoggerStore] != s.Users[LoggerStore] {
		t.Fatalf("key changed, %v", err)
	}
	if _, err := os.Stat(dir.Credential(LoggerStore)); err == nil {
		t.Error("a seed was made that fits no recorded key")
	}
}

func TestDirAddAndRevoke(t *testing.T) {
	dir := Dir(t.TempDir())
	if _, _, err := dir.Init(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	p, err := dir.Add(New(Agent, "worker", "bench/r1"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadCredential(dir.Credential(p.User()))
	if err != nil || c.Public != p.NKey || c.User != "agent.worker" {
		t.Fatalf("credential %+v, %v", c, err)
	}
	if _, err := dir.Add(New(Agent, "worker", "bench/r2")); !errors.Is(err, ErrExists) {
		t.Fatalf("second add: %v", err)
	}
	if _, err := dir.Add(New("king", "x", "production")); !errors.Is(err, ErrInvalid) {
		t.Fatalf("unknown role: %v", err)
	}
	if _, err := os.Stat(dir.Credential("king.x")); err == nil {
		t.Error("a refused principal left a seed behind")
	}
	if err := dir.Revoke("agent/worker", time.Now()); err != nil {
		t.Fatal(err)
	}
	f, err := Load(dir.Principals())
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := f.Find("agent/worker"); !ok || !got.Revoked() {
		t.Errorf("revoked principal: %+v, listed %v", got, ok)
	}
	if _, err := os.Stat(dir.Credential(p.User())); err == nil {
		t.Error("the seed of a revoked principal is still there")
	}
}

func TestServicesAreStrict(t *testing.T) {
	dir := Dir(t.TempDir())
	_, s, err := dir.Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(dir.Services())
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	for _, c := range []struct{ name, from, to string }{
		{"unknown member", `"v"`, `"x": 1, "v"`},
		{"other version", `"v": 1`, `"v": 2`},
		{"user missing", LoggerStore, "service.other"},
		{"key used twice", s.Users[Sealer], s.Users[Ingress]},
		{"recovery is a user key", s.Recovery, s.Users[Ingress]},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Fatalf("%s: nothing replaced", c.name)
		}
		if _, err := DecodeServices([]byte(bad)); !errors.Is(err, ErrServices) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestParseCredentialRefuses(t *testing.T) {
	for name, in := range map[string]string{"empty": "", "text": "hello", "public key": newKey(t)} {
		if _, err := ParseCredential("x", []byte(in)); !errors.Is(err, ErrCredential) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What Add accepts, a reader of the file gets back.
func TestEncodeDecodeProperty(t *testing.T) {
	keys := []string{newKey(t), newKey(t), newKey(t), newKey(t)}
	rapid.Check(t, func(t *rapid.T) {
		var f File
		for i := range rapid.IntRange(0, len(keys)).Draw(t, "n") {
			p := New(rapid.SampledFrom(Publishers()).Draw(t, "role"), rapid.StringMatching(`[a-z][a-z0-9_-]{0,31}`).Draw(t, "name"),
				rapid.SampledFrom([]string{"production", "sandbox", "bench/r-1"}).Draw(t, "ns"))
			p.NKey = keys[i]
			p.ReceiptsSeq = rapid.Bool().Draw(t, "seq")
			if f.Add(p) == nil && rapid.Bool().Draw(t, "revoked") {
				if err := f.Revoke(p.ID(), time.Unix(rapid.Int64Range(1, 1<<32).Draw(t, "at"), 0)); err != nil {
					t.Fatal(err)
				}
			}
		}
		data, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Principals {
			if got.Principals[i] != f.Principals[i] {
				t.Fatalf("got %+v, want %+v", got.Principals[i], f.Principals[i])
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"principals":[{"role":"agent","name":"a","namespace":"n","nkey":"` + newKey(f) + `"}]}`))
	f.Add([]byte(`{"v":1,"principals":null}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		file, err := Decode(in)
		if err != nil {
			return
		}
		out, err := file.Encode()
		if err != nil {
			t.Fatalf("accepted %q, cannot encode it: %v", in, err)
		}
		if _, err := Decode(out); err != nil {
			t.Fatalf("own output refused: %v", err)
		}
	})
}

func FuzzDecodeServices(f *testing.F) {
	f.Add([]byte(`{"v":1,"users":{"service.ingress":"` + newKey(f) + `"},"recovery":""}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := DecodeServices(in)
		if err == nil && s.Validate() != nil {
			t.Fatalf("accepted %q", in)
		}
	})
}
