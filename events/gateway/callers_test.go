package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/events/gateway"
	"assay/internal/otlp"
	"assay/internal/usertest"
)

func TestRate(t *testing.T) {
	d := open(t, func(c *gateway.Config) {
		c.File.Callers[0].Rate, c.File.Callers[0].Burst = 2, 4
	})
	lines := func(n int) string {
		var out []string
		for range n {
			out = append(out, gate(t))
		}
		return strings.Join(out, "\n")
	}
	steps := []struct {
		advance time.Duration
		events  int
		status  int
		after   string
	}{
		{0, 3, 200, ""},
		{0, 1, 200, ""},
		{0, 1, 429, "1"},
		{500 * time.Millisecond, 1, 200, ""},
		{0, 1, 429, "1"},
		{time.Hour, 4, 200, ""},
		{time.Hour, 9, 200, ""}, // more than a burst: let in when the bucket is full, and paid for
		{time.Second, 1, 429, "2"},
		{3 * time.Second, 1, 200, ""},
	}
	for i, s := range steps {
		d.clock.advance(s.advance)
		a := d.post(ndjson, lines(s.events))
		if a.status != s.status || a.header.Get("Retry-After") != s.after || (s.status == 429) != (a.code() == "rate_limited") {
			t.Errorf("step %d: %d, Retry-After %q, %s", i, a.status, a.header.Get("Retry-After"), a.body)
		}
	}
	if d.Stats().Refused["rate_limited"] != 3 {
		t.Errorf("%+v", d.Stats())
	}
}

func TestCallersByUID(t *testing.T) {
	d := open(t, nil)
	if c, err := usertest.Dial(t, d.socket, otherUID); err == nil { // skips unless root
		c.Close()
	}
	hers := gate(t)
	if a := d.do(otherUID, "POST", "/v1/events", structured, hers); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := d.other.taken(); len(got) != 1 || got[0] != hers || len(d.piper.taken()) != 0 {
		t.Errorf("other has %q, piper %q", got, d.piper.taken())
	}
	for _, c := range [][2]string{{"POST", "/v1/events"}, {"PUT", "/v1/blobs"}} {
		if a := d.do(unknownUID, c[0], c[1], structured, gate(t)); a.status != 403 || a.code() != "unknown_caller" {
			t.Errorf("%s of an unknown user: %d %s", c[1], a.status, a.body)
		}
	}
	if len(d.piper.taken()) != 0 || len(d.other.taken()) != 1 {
		t.Error("an unknown user's event was taken")
	}
}

// TestManyConnections: one user's thousand connections are cut to his share,
// and do not stop another.
func TestManyConnections(t *testing.T) {
	d := open(t, nil)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range 1000 {
		c, err := net.Dial("unix", d.socket)
		if err != nil { // the backlog is full
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if os.Getuid() == 0 {
		if a := d.do(otherUID, "POST", "/v1/events", structured, gate(t)); a.status != 200 {
			t.Errorf("another user: %d %s", a.status, a.body)
		}
	} else {
		t.Log("not root: another user is not tried")
	}
	for deadline := time.Now().Add(time.Minute); d.Stats().Refused["too_many_connections"] < 1000-gateway.DefaultConnections; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", d.Stats())
		}
	}
	if st := d.Stats(); st.Refused["too_many_connections"] != 1000-gateway.DefaultConnections || st.Connections > gateway.DefaultConnections+1 {
		t.Errorf("%+v", st) // the other user's may be closing still
	}
	for _, c := range held {
		c.Close()
	}
	for deadline := time.Now().Add(time.Minute); d.Stats().Connections > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", d.Stats().Connections)
		}
	}
	if a := d.post(structured, gate(t)); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// TestReload: another file holds from the next request on, over the connections
// that are there; a wrong one changes nothing.
func TestReload(t *testing.T) {
	d := open(t, nil)
	dials := 0
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return net.Dial("unix", d.socket)
	}}}
	defer client.CloseIdleConnections()
	post := func() answer { return do(t, client, "http://gateway/v1/events", "POST", structured, gate(t)) }
	if a := post(); a.status != 200 || len(d.piper.taken()) != 1 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	own := uint32(os.Getuid())
	file := func(callers ...gateway.Caller) *gateway.File { return &gateway.File{Mode: "0666", Callers: callers} }
	late := &ledger{}
	publishers := map[string]gateway.Publisher{"agent/other": d.other, "agent/late": late}
	if err := d.Reload(file(gateway.Caller{UID: &own, Principal: "agent/late", Rate: 1, Burst: 3}), publishers); err != nil {
		t.Fatal(err)
	}
	if a := post(); a.status != 200 || len(late.taken()) != 1 || len(d.piper.taken()) != 1 {
		t.Errorf("as another principal: %d %s", a.status, a.body)
	}

	wrong := map[string]*gateway.File{
		"nobody":          file(),
		"twice":           file(gateway.Caller{UID: &own, Principal: "agent/late"}, gateway.Caller{UID: &own, Principal: "agent/other"}),
		"no publisher":    file(gateway.Caller{UID: &own, Principal: "agent/late"}, gateway.Caller{UID: new(uint32), Principal: "agent/piper2"}),
		"no such user":    file(gateway.Caller{User: "nobody-of-that-name", Principal: "agent/late"}),
		"another mode":    {Mode: "0600", Callers: file(gateway.Caller{UID: &own, Principal: "agent/late"}).Callers},
		"another socket":  {Mode: "0666", Socket: d.socket + "2", Callers: file(gateway.Caller{UID: &own, Principal: "agent/late"}).Callers},
		"another address": {Mode: "0666", TCP: "127.0.0.1:0", Callers: file(gateway.Caller{UID: &own, Principal: "agent/late"}).Callers},
	}
	for name, f := range wrong {
		if err := d.Reload(f, publishers); !errors.Is(err, gateway.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One event of the burst is spent, two are left: nothing reset the rate.
	for i, status := range []int{200, 200, 429} {
		if a := post(); a.status != status {
			t.Errorf("event %d after the wrong files: %d %s", i+1, a.status, a.body)
		}
	}
	few := file(gateway.Caller{UID: &own, Principal: "agent/late", Rate: 100})
	few.Connections, few.BlobBytes = 1, 10
	if err := d.Reload(few, publishers); err != nil {
		t.Fatal(err)
	}
	if a := post(); a.status != 429 {
		t.Errorf("what was left of the rate is forgotten: %d %s", a.status, a.body)
	}
	d.clock.advance(time.Second)
	if a := post(); a.status != 200 || len(late.taken()) != 4 {
		t.Errorf("at the new rate: %d %s", a.status, a.body)
	}
	if a := do(t, client, "http://gateway/v1/blobs", "PUT", "", "more than ten bytes"); a.status != 413 {
		t.Errorf("a blob over the new limit: %d %s", a.status, a.body)
	}
	if a := d.do(int(own), "POST", "/v1/events", structured, gate(t)); a.code() != "too_many_connections" {
		t.Errorf("a second connection: %d %s", a.status, a.body)
	}
	if dials != 1 {
		t.Errorf("the client had to connect %d times", dials)
	}
}

// TestSlowClients: whoever does not send what he announced is cut off.
func TestSlowClients(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.HeaderTimeout, c.BodyTimeout = time.Second, 200*time.Millisecond })
	for name, sent := range map[string]string{
		"nothing":                        "",
		"half a header":                  "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-",
		"half a body":                    "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: " + structured + "\r\nContent-Length: 1000\r\n\r\n{",
		"half an export, chunk by chunk": "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: " + otlp.JSON + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"half a gzip":                    "POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: " + otlp.Protobuf + "\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n" + zipped(t, "{}")[:4],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("unix", d.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, sent); err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(c)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("still served")
			}
			if strings.HasPrefix(name, "half") && name != "half a header" && !bytes.Contains(raw, []byte("408")) {
				t.Errorf("%q", raw)
			}
		})
	}
}

// TestMemoryIsEachPrincipalsOwn: bodies that never end hold their principal's
// memory alone, on every route that reads one.
func TestMemoryIsEachPrincipalsOwn(t *testing.T) {
	for _, c := range []struct {
		path, contentType string
		most              int // bytes of a body
		refused           uint64
	}{
		{"/v1/events", structured, gateway.MaxBody, 5}, // of twelve: seven times two MiB fit
		{"/v1/traces", otlp.Protobuf, gateway.MaxOTLP, 9},
	} {
		t.Run(c.path, func(t *testing.T) {
			d := open(t, nil)
			body := strings.Repeat(" ", c.most-1)
			for range 12 {
				conn, err := net.Dial("unix", d.socket)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", c.path, c.contentType, c.most)
				go io.WriteString(conn, body)
			}
			// The others are refused, and what they held is free again.
			for deadline := time.Now().Add(time.Minute); d.Stats().Refused["busy"] < c.refused; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%+v", d.Stats())
				}
			}
			if a := d.post(structured, gate(t)); a.status != 200 {
				t.Errorf("a small one: %d %s", a.status, a.body)
			}
			if os.Getuid() != 0 {
				return
			}
			if a := d.do(otherUID, "POST", "/v1/events", structured, gate(t)); a.status != 200 {
				t.Errorf("another user: %d %s", a.status, a.body)
			}
			if a := d.do(otherUID, "POST", "/v1/traces", otlp.Protobuf, encoded(t, otlp.Protobuf, spans("restart"))); a.status != 200 {
				t.Errorf("another user's spans: %d %s", a.status, a.body)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	token := strings.Repeat("t0ken", 8)
	dir := t.TempDir()
	path := filepath.Join(dir, "other.token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, func(c *gateway.Config) {
		c.File.TCP = "127.0.0.1:0"
		c.File.Callers = append(c.File.Callers, gateway.Caller{TokenFile: path, Principal: "agent/other"})
	})
	url := "http://" + d.TCPAddr() + "/v1/events"
	for _, c := range []struct {
		name, header string
		status       int
	}{
		{"none", "", 401},
		{"another", "Bearer " + strings.Repeat("x", 40), 401},
		{"a part", "Bearer " + token[:39], 401},
		{"no scheme", token, 401},
		{"empty", "Bearer ", 401},
		{"the token", "Bearer " + token, 200},
	} {
		if a := do(t, http.DefaultClient, url, "POST", structured, gate(t), "Authorization", c.header); a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if len(d.other.taken()) != 1 || len(d.piper.taken()) != 0 {
		t.Errorf("other %d, piper %d", len(d.other.taken()), len(d.piper.taken()))
	}
	// The socket's callers need no token, and one does not help there.
	if a := d.post(structured, gate(t), "Authorization", "Bearer "+token); a.status != 200 || len(d.piper.taken()) != 1 {
		t.Errorf("on the socket: %d", a.status)
	}
}

// TestKeepAlive: one connection serves one request after another.
func TestKeepAlive(t *testing.T) {
	d := open(t, nil)
	c, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for range 3 {
		body := gate(t)
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", structured, len(body), body)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Stats().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
}
