package broker

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"assay/internal/principal"
)

// behind is what a door leads to: each connection's bytes are kept, and it
// greets as a server does.
type behind struct {
	mu   sync.Mutex
	seen []*bytes.Buffer
	more chan struct{}
}

const greeting = `INFO {"client_id":7}` + "\r\n"

func (b *behind) enter() (net.Conn, error) {
	near, far := net.Pipe()
	b.mu.Lock()
	defer b.mu.Unlock()
	got := &bytes.Buffer{}
	b.seen = append(b.seen, got)
	go func() {
		_, _ = io.WriteString(near, greeting)
		buf := make([]byte, 1<<16)
		for {
			n, err := near.Read(buf)
			b.mu.Lock()
			got.Write(buf[:n])
			b.mu.Unlock()
			select {
			case b.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return far, nil
}

// passed is how many bytes came through, over all connections.
func (b *behind) passed() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seen {
		n += s.Len()
	}
	return n
}

func (b *behind) await(t *testing.T, n int) {
	t.Helper()
	for b.passed() < n {
		select {
		case <-b.more:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d bytes came through, want %d", b.passed(), n)
		}
	}
}

// newDoor knows two principals, of which flood's limit gives out once and never
// again, and one service.
func newDoor(t *testing.T, once int) (*door, *behind) {
	t.Helper()
	b := &behind{more: make(chan struct{}, 1)}
	d, err := openDoor("127.0.0.1", 0, 1, nil, b.enter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.accounts = map[string]string{"SERVICE": "STORE", "FLOOD": "P_agent_flood", "OTHER": "P_agent_other"}
	d.limiters = map[string]*rate.Limiter{"FLOOD": rate.NewLimiter(0, once), "OTHER": d.newLimiter()}
	d.stranger = rate.NewLimiter(0, once)
	return d, b
}

// come connects as the holder of a key and reads the greeting.
func come(t *testing.T, d *door, key string) (c net.Conn, said int) {
	t.Helper()
	c, err := net.Dial("tcp", d.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != greeting {
		t.Fatalf("greeted with %q: %v", got, err)
	}
	hello := `CONNECT {"verbose":false,"nkey":"` + key + `"}` + "\r\n"
	if _, err := io.WriteString(c, hello); err != nil {
		t.Fatal(err)
	}
	return c, len(hello)
}

// TestDoorHoldsAFloodBack: what a principal may not send yet waits in its own
// connections, all of them together, and nobody else's.
func TestDoorHoldsAFloodBack(t *testing.T) {
	const once, most = 4 << 20, 300 << 10
	for _, key := range []string{"FLOOD", "A STRANGER", ""} {
		t.Run(key, func(t *testing.T) {
			d, b := newDoor(t, once)
			var wg sync.WaitGroup
			for range 2 {
				c, _ := come(t, d, key)
				wg.Go(func() {
					_, _ = c.Write(bytes.Repeat([]byte("PUB intake.agent.piper 100\r\n"+strings.Repeat("x", 100)+"\r\n"), 1<<16))
				})
			}
			b.await(t, 1)
			other, said := come(t, d, "OTHER")
			before := 0
			text := strings.Repeat("y", 2*once)
			if _, err := io.WriteString(other, text); err != nil {
				t.Fatal(err)
			}
			for before = 0; before < said+len(text); {
				b.mu.Lock()
				before = b.seen[2].Len()
				b.mu.Unlock()
				if before < said+len(text) {
					b.await(t, b.passed()+1)
				}
			}
			b.mu.Lock()
			flood, took := b.seen[0].Len()+b.seen[1].Len(), cost(b.seen[0].Bytes())+cost(b.seen[1].Bytes())
			b.mu.Unlock()
			if flood == 0 || flood > most || took > once {
				t.Errorf("%d bytes of the flood came through, which cost %d; want at most %d and %d", flood, took, most, once)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
		})
	}
}

// TestDoorCountsEachLine: of the shortest messages one read costs many times what
// the bucket holds, and comes through when all of it is there.
func TestDoorCountsEachLine(t *testing.T) {
	d, b := newDoor(t, 1<<20)
	const burst, fills = 64 << 10, 10
	d.mu.Lock()
	d.limiters["FLOOD"] = rate.NewLimiter(burst*fills, burst)
	d.mu.Unlock()
	c, said := come(t, d, "FLOOD")
	b.await(t, said)
	began, text := time.Now(), bytes.Repeat([]byte("PUB a 0\r\n\r\n"), 160)
	if _, err := c.Write(text); err != nil {
		t.Fatal(err)
	}
	b.await(t, said+len(text))
	// The bucket was full at most, and has filled since at its rate.
	if took, least := time.Since(began), time.Duration(cost(text)-burst)*time.Second/(burst*fills); took < least {
		t.Errorf("%d bytes in %d messages came through in %s, want %s at least", len(text), 160, took, least)
	}
}

// TestDoorDoesNotHoldServicesBack, and passes every byte on as it is.
func TestDoorDoesNotHoldServicesBack(t *testing.T) {
	d, b := newDoor(t, 100)
	c, said := come(t, d, "SERVICE")
	text := bytes.Repeat([]byte("HPUB x 12 30\r\nNATS/1.0\r\n\r\nhello\r\n\x00\xff"), 1<<14)
	if _, err := c.Write(text); err != nil {
		t.Fatal(err)
	}
	b.await(t, said+len(text))
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.seen[0].Bytes()[said:]; !bytes.Equal(got, text) {
		t.Error("other bytes came through")
	}
}

func TestDoorEndsWithTheClient(t *testing.T) {
	d, _ := newDoor(t, 1<<20)
	c, _ := come(t, d, "OTHER")
	c.Close()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		n := len(d.visits)
		d.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", n)
		}
	}
}

// visited is a door with one client, and the server's end of its visit.
func visited(t *testing.T) (d *door, client, srv net.Conn) {
	t.Helper()
	entered := make(chan net.Conn, 1)
	d, err := openDoor("127.0.0.1", 0, 1, nil, func() (net.Conn, error) {
		near, far := net.Pipe()
		entered <- near
		return far, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err = net.Dial("tcp", d.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	srv = <-entered
	t.Cleanup(func() {
		client.Close()
		srv.Close()
	})
	return d, client, srv
}

// TestDoorClosesOnAClientThatDoesNotRead: the server has left it by then.
func TestDoorClosesOnAClientThatDoesNotRead(t *testing.T) {
	d, c, srv := visited(t)
	defer d.Close()
	d.patience = 100 * time.Millisecond
	wrote := make(chan error, 1)
	go func() {
		var err error
		for err == nil { // until it fills every buffer on the way
			_, err = srv.Write(make([]byte, 1<<16))
		}
		wrote <- err
	}()
	select {
	case <-wrote:
	case <-time.After(20 * time.Second):
		t.Fatal("the door holds on to a client that does not read")
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client is not told")
	}
}

func TestDoorClosesOnAServerThatDoesNotRead(t *testing.T) {
	d, c, _ := visited(t)
	if _, err := io.WriteString(c, "CONNECT {}\r\n"); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for the server")
	}
}

func TestClientKey(t *testing.T) {
	for _, c := range []struct {
		hello, key string
		known      bool
	}{
		{"", "", false},
		{"CONN", "", false},
		{`CONNECT {"nkey":"U1","sig":"x"}` + "\r\n", "U1", true},
		{`connect  {"nkey":"U1"} ` + "\r\nPING\r\n", "U1", true},
		{`CONNECT {"nkey":"U1"}`, "", false},
		{"CONNECT {}\r\n", "", true},
		{"CONNECT {\"nkey\":1}\r\n", "", true},
		{"CONNECT\r\n", "", true},
		{"PING\r\nCONNECT {\"nkey\":\"U1\"}\r\n", "", true},
		{"\r\n", "", true},
		{`CONNECT {"NKEY":"U1"}` + "\r\n", "U1", true},
		{`CONNECT {"nkey":"SERVICE","NKEY":"U1"}` + "\r\n", "U1", true},
		{`CONNECT {"nkey":"SERVICE","nkey":"U1"}` + "\r\n", "U1", true},
		{`CONNECT {"nkey":"U1","nKey":null,"n_key":"SERVICE"}` + "\r\n", "U1", true},
		{strings.Repeat("x", maxHello), "", false},
		{strings.Repeat("x", maxHello+1), "", true},
	} {
		if key, known := clientKey([]byte(c.hello)); key != c.key || known != c.known {
			t.Errorf("%.60q: %q, %v", c.hello, key, known)
		}
	}
}

// TestDoorReadsTheKeyThatTheServerReads: a client that names a service's key and
// its own is let in by the one that it signs with, and held to its limit.
func TestDoorReadsTheKeyThatTheServerReads(t *testing.T) {
	h := startHouse(t)
	own, service := h.credential(t, "agent.piper"), h.credential(t, principal.LoggerStore)
	c, err := net.Dial("tcp", strings.TrimPrefix(h.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	info, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var hello struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(info, "INFO ")), &hello); err != nil {
		t.Fatal(err)
	}
	sig, err := own.Sign([]byte(hello.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`CONNECT {"nkey":%q,"NKEY":%q,"sig":%q,"verbose":false}`+"\r\n", service.Public, own.Public, base64.RawURLEncoding.EncodeToString(sig))
	if _, err := io.WriteString(c, line+"PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := in.ReadString('\n'); err != nil || answer != "PONG\r\n" {
		t.Fatalf("the server answers %q: %v", answer, err)
	}
	if key, _ := clientKey([]byte(line)); key != own.Public {
		t.Errorf("the door takes %s for %s", own.Public, key)
	}
	if d := h.door.Load(); d.limiter(own.Public) == nil || d.limiter(service.Public) != nil {
		t.Error("the agent has no limit, or the service has one")
	}
}

func FuzzClientKey(f *testing.F) {
	f.Add([]byte(`CONNECT {"nkey":"U1"}`+"\r\n"), 5)
	f.Fuzz(func(t *testing.T, hello []byte, at int) {
		key, known := clientKey(hello)
		if known && at >= 0 && at < len(hello) {
			// What is known early stays so.
			if early, sure := clientKey(hello[:at]); sure && len(hello[:at]) <= maxHello && early != key {
				t.Errorf("%q after %d bytes, then %q", early, at, key)
			}
		}
	})
}
