package telemetry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

// rawClient speaks NATS by hand, as a sensor in another language would.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialRaw(t *testing.T, server string) *rawClient {
	t.Helper()
	u, err := url.Parse(server)
	mustDo(t, err)
	conn, err := net.Dial("tcp", u.Host)
	mustDo(t, err)
	t.Cleanup(func() { conn.Close() })
	c := &rawClient{t, conn, bufio.NewReader(conn)}
	c.expect("INFO ")
	c.send("CONNECT {\"verbose\":false,\"pedantic\":true,\"headers\":true}\r\n")
	c.ping()
	return c
}

func (c *rawClient) send(s string) {
	c.t.Helper()
	_, err := c.conn.Write([]byte(s))
	mustDo(c.t, err)
}

func (c *rawClient) expect(prefix string) {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, prefix) {
		c.t.Fatalf("%q, %v; want %s", line, err, prefix)
	}
}

func (c *rawClient) ping() {
	c.t.Helper()
	c.send("PING\r\n")
	c.expect("PONG")
}

func (c *rawClient) publish(source, batch string) {
	c.t.Helper()
	c.send(fmt.Sprintf("PUB %s %d\r\n%s\r\n", Subject(source), len(batch), batch))
}

const gpuRegistry = `{"v":1,"sources":[{"name":"gpu","kind":"nats"}],"signals":[
 {"name":"beat","source":"gpu","unit":"1","kind":"gauge","heartbeat":"beat","writer":"sensor/gpu",
  "interval":"1s","max_staleness":"10s","coverage_floor":1,"max_gap":"2s","allowed_lateness":"0s","max_skew":"0s"},
 {"name":"errors","source":"gpu","unit":"1","kind":"counter","heartbeat":"beat","writer":"sensor/gpu",
  "interval":"1s","max_staleness":"10s","coverage_floor":1,"max_gap":"2s","allowed_lateness":"0s","max_skew":"0s","lo":0}]}`

// A foreign client's batches, in any order, repeated, with NaN and malformed
// ones between them, come to the same verdict; a contradiction comes to none.
func TestForeignClientOverNATS(t *testing.T) {
	nc, js := mustServer(t)
	ctx := testContext(t)
	_, err := js.CreateStream(ctx, bufferConfig(1<<20, time.Hour))
	mustDo(t, err)
	in, err := StartIngress(IngressConfig{Conn: nc, Sources: []string{"gpu"}, Now: func() time.Time { return conformanceStart }, Log: zerolog.Nop()})
	mustDo(t, err)
	reg := mustRegistry(t, gpuRegistry)
	client := dialRaw(t, nc.ConnectedUrl())

	batch := func(stream string, second, value int) string {
		at := conformanceStart.Add(time.Duration(second-20) * time.Second).Format(time.RFC3339)
		return fmt.Sprintf(`{"v":1,"stream":%q,"samples":[{"seq":%d,"signal":"errors","time":%q,"start":"2026-10-03T00:00:00Z","value":%d},{"seq":%d,"signal":"beat","time":%q,"value":1}]}`,
			stream, 2*second+1, at, value, 2*second+2, at)
	}
	sent := 0
	send := func(b string) { client.publish("gpu", b); sent++ }
	for _, second := range []int{3, 0, 1, 2, 5, 4, 4, 4, 7, 6, 9, 8, 0, 10} {
		value := 100
		if second >= 5 {
			value = 103
		}
		send(batch("boot-1", second, value))
	}
	bad := 0
	for _, b := range []string{
		"", "{}", `{"v":1,"stream":"x","samples":[]}`, strings.Replace(batch("x", 1, 1), `"v":1`, `"v":2`, 1),
		strings.Replace(batch("x", 1, 1), `"seq":3`, `"seq":-3`, 1), strings.Replace(batch("x", 1, 1), `"value":1}`, `"value":NaN}`, 1),
		strings.Replace(batch("x", 1, 1), `"seq"`, `"source":"host","seq"`, 1), batch("x", 200, 1),
	} {
		send(b)
		bad++
	}
	send(strings.Replace(batch("boot-0", 5, 1), `"value":1}`, `"value":"NaN"}`, 1))
	client.ping()
	samples := func() []Sample {
		t.Helper()
		for in.Stats().Received < uint64(sent) {
			mustDo(t, ctx.Err())
			time.Sleep(time.Millisecond)
		}
		mustDo(t, in.Flush(ctx))
		var out []Sample
		left := in.Stats().Forwarded
		err := Buffer{js}.Read(ctx, "gpu", 0, func(_ uint64, body []byte) error {
			a, err := ParseArrival("gpu", body)
			out = append(out, a.Samples...)
			if left--; err == nil && left == 0 {
				return context.Canceled
			}
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return out
	}
	judge := func() criterion.ClauseResult {
		return criterion.Evaluate(criterion.Input{
			Criterion: criterion.Criterion{All: []criterion.Clause{{Signal: "errors", Reduce: criterion.ReduceIncrease, Op: criterion.OpEQ, Value: 3}}},
			Registry:  reg, Window: criterion.Span{Start: conformanceStart.Add(-18 * time.Second), End: conformanceStart.Add(-10 * time.Second)},
			Samples: samples(), Closed: true,
		}).Clauses[0]
	}
	if got := judge(); got.Outcome != criterion.True || got.Range != (criterion.Range{Lo: 3, Hi: 3}) {
		t.Errorf("%+v", got)
	}
	if st := in.Stats(); st.Refused != uint64(bad) || st.Received != uint64(sent) || st.Lost+st.Dropped != 0 {
		t.Errorf("%+v, want %d refused of %d", st, bad, sent)
	}
	send(batch("boot-1", 5, 102))
	client.ping()
	if got := judge(); got.Outcome != criterion.Unknown || got.Reason != criterion.SourcesConflict {
		t.Errorf("after a contradiction %+v", got)
	}
}

// hostTicks reads n ticks a second apart.
func hostTicks(h *Host, now *time.Time, n int) []Sample {
	var out []Sample
	for range n {
		out = append(out, h.Read()...)
		*now = now.Add(time.Second)
	}
	return out
}

// A sensor that starts again within a window, also after the clock was set,
// goes on with the same counter; ticks that it misses are a gap.
func TestHostSensorStartsAgain(t *testing.T) {
	raw, err := criterion.DefaultRegistry(time.Second)
	mustDo(t, err)
	reg := mustRegistry(t, string(raw))
	proc := fstest.MapFS{
		"stat": file("btime 1700000000\n"), "vmstat": file("oom_kill 4\n"), "sys/kernel/random/boot_id": file("boot-1\n"),
	}
	now := conformanceStart
	cur := &memoryCursor{}
	open := func() *Host {
		h := NewHost(HostConfig{FS: proc, Now: func() time.Time { return now }})
		mustDo(t, h.PinBoot(cur))
		return h
	}
	stream := 0
	run := func(n int) []Sample {
		stream++
		out := hostTicks(open(), &now, n)
		for i := range out {
			out[i].Stream = fmt.Sprintf("run-%d", stream)
		}
		return out
	}
	judge := func(samples []Sample) criterion.ClauseResult {
		return criterion.Evaluate(criterion.Input{
			Criterion: criterion.Criterion{All: []criterion.Clause{{Signal: criterion.SignalOOMKill, Reduce: criterion.ReduceIncrease, Op: criterion.OpEQ}}},
			Registry:  reg, Window: criterion.Span{Start: conformanceStart.Add(5 * time.Second), End: conformanceStart.Add(25 * time.Second)},
			Samples: samples, Closed: true,
		}).Clauses[0]
	}
	samples := run(15)
	proc["stat"] = file("btime 1700000002\n") // the clock was set by two seconds
	samples = append(samples, run(15)...)
	if got := judge(samples); got.Outcome != criterion.True {
		t.Errorf("%+v", got)
	}
	var missed []Sample
	for _, s := range samples {
		if at := s.Time.Sub(conformanceStart); at < 10*time.Second || at > 15*time.Second {
			missed = append(missed, s)
		}
	}
	if got := judge(missed); got.Outcome != criterion.Unknown || got.Reason != criterion.CoverageShort {
		t.Errorf("with missed ticks %+v", got)
	}
	proc["sys/kernel/random/boot_id"] = file("boot-2\n") // now it is another run of the counter
	now = conformanceStart.Add(15 * time.Second)
	again := append(samples[:0:0], samples[:2*15]...)
	if got := judge(append(again, run(15)...)); got.Outcome != criterion.Unknown {
		t.Errorf("across a reboot %+v", got)
	}
	for _, bad := range []string{"x", `{"v":2,"boot_id":"boot-2"}`, `{"v":1,"other":1}`} {
		if err := open().PinBoot(&memoryCursor{[]byte(bad)}); err == nil {
			t.Errorf("cursor %s was taken", bad)
		}
	}
}
