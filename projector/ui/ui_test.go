package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/ledger"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

const prod = "production"

func TestLatest(t *testing.T) {
	l := ledgertest.New()
	for i := range 5000 {
		l.Put("agent/piper", prod, &events.GateChosen{Action: "KNOW"}, ledgertest.Episode(fmt.Sprint("ep-", i%1000)))
	}
	l.PutRaw([]byte("foreign"))
	head := ledger.Seq(5001)
	for _, tt := range []struct {
		name         string
		before       ledger.Seq
		filter       Filter
		want, budget int
		first, n     ledger.Seq // newest found, and how many
		from         ledger.Seq
	}{
		{"the newest", head + 1, Filter{}, 50, 100, 5001, 50, 4952},
		{"a page", 101, Filter{}, 50, 9999, 100, 50, 51},
		{"the beginning", 4, Filter{}, 50, 9999, 3, 3, 1},
		{"nothing before the first", 1, Filter{}, 50, 9999, 0, 0, 1},
		{"an episode", head + 1, Filter{Episode: "ep-999"}, 50, 9999, 5000, 5, 1},
		{"enough of it", head + 1, Filter{Episode: "ep-999"}, 2, 9999, 5000, 2, 4000},
		{"within the budget", head + 1, Filter{Episode: "ep-0"}, 50, 3000, 4001, 2, 2002},
		{"none", head + 1, Filter{Type: "claim.*"}, 50, 3000, 0, 0, 2002},
		{"exactly as many", 101, Filter{Type: "gate.chosen"}, 100, 9999, 100, 100, 1},
	} {
		found, from, err := Latest(t.Context(), l.Read, tt.before, tt.filter, tt.want, tt.budget)
		if err != nil || ledger.Seq(len(found)) != tt.n || from != tt.from || tt.n > 0 && found[0].Seq != tt.first {
			t.Errorf("%s: %d found from %d, %v; first %v", tt.name, len(found), from, err, found)
		}
		for i := 1; i < len(found); i++ {
			if found[i].Seq >= found[i-1].Seq {
				t.Errorf("%s: %d behind %d", tt.name, found[i].Seq, found[i-1].Seq)
			}
		}
	}
	broken := errors.New("broken")
	_, _, err := Latest(t.Context(), func(context.Context, ledger.Seq, ledger.Seq, func(ledger.Seq, []byte) error) error { return broken }, 10, Filter{}, 1, 1)
	if !errors.Is(err, broken) {
		t.Errorf("a read that fails: %v", err)
	}
}

func mustEvent(t *testing.T, body []byte) []byte {
	t.Helper()
	r, err := ledger.ParseRecord(body)
	if err != nil {
		t.Fatal(err)
	}
	return r.Event
}

func TestFilter(t *testing.T) {
	l := ledgertest.New()
	body := l.Body(l.Put("agent/piper", prod, &events.GateChosen{Action: "KNOW"}, ledgertest.Episode("ep")))
	for _, tt := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{Type: "gate.chosen"}, true},
		{Filter{Type: "gate.*"}, true},
		{Filter{Type: "*"}, true},
		{Filter{Type: "gate"}, false},
		{Filter{Type: "gate.chosen", Principal: "agent/piper", Namespace: prod, Episode: "ep"}, true},
		{Filter{Principal: "agent/pip"}, false},
		{Filter{Namespace: "sandbox"}, false},
		{Filter{Episode: "e"}, false},
	} {
		if got := tt.f.Passes(body); got != tt.want {
			t.Errorf("%+v: %v", tt.f, got)
		}
	}
	// What is written with escapes is what it says.
	escaped := l.Body(l.PutEvent("agent/piper", prod, []byte(strings.NewReplacer(`"ep"`, `"\u0065p"`, `"gate.chosen"`, `"gate\u002echosen"`).Replace(string(mustEvent(t, body))))))
	for _, tt := range []struct {
		f    Filter
		want bool
	}{
		{Filter{Type: "gate.chosen"}, true}, {Filter{Type: "gate.*", Episode: "ep"}, true}, {Filter{Episode: "ep2"}, false}, {Filter{Type: "claim.*"}, false},
	} {
		if got := tt.f.Passes(escaped); got != tt.want {
			t.Errorf("%+v, escaped: %v", tt.f, got)
		}
	}
	if (Filter{Principal: "agent/piper"}).Passes([]byte("foreign")) || !(Filter{}).Passes([]byte("foreign")) {
		t.Error("what is no record passes a filter, or does not pass none")
	}
}

// TestRowOfAnImport: an imported record leads to the episode that was imported, not to
// the live one of the same id.
func TestRowOfAnImport(t *testing.T) {
	l := ledgertest.New()
	for capture, want := range map[string]string{"imported": "/episodes/production~imported/ep", "live": "/episodes/production/ep"} {
		seq := l.Put("agent/piper", prod, &events.GateChosen{Context: events.Context{Capture: &capture}, Action: "KNOW"}, ledgertest.Episode("ep"))
		if got := RowOf(seq, l.Body(seq)).To; got != want {
			t.Errorf("%s leads to %s, want %s", capture, got, want)
		}
	}
}

func TestRow(t *testing.T) {
	l := ledgertest.New()
	text := "a\u202eb\nc" + strings.Repeat("W", 5000)
	body := l.Body(l.Put("agent/piper", "bench/x", &events.GateChosen{Action: "KNOW", Reason: &text}, ledgertest.Episode("\u0430/..")))
	r := RowOf(1, body)
	if r.Principal != "agent/piper" || r.Namespace != "bench/x" || r.Type != "gate.chosen" || r.Episode != `\u0430/..` || r.Foreign {
		t.Errorf("%+v", r)
	}
	if r.To != "/episodes/bench%2Fx/%D0%B0%2F.." {
		t.Errorf("the episode's page is %s", r.To)
	}
	if !strings.HasPrefix(r.Data, `action "KNOW" · reason "a\u202eb\nc`) || len(r.Data) > 400 || !strings.HasSuffix(r.Data, " …") {
		t.Errorf("data %q", r.Data)
	}
	f := RowOf(7, []byte("{\x1b[2J"))
	if !f.Foreign || f.Data != `{\u001b[2J` || f.Type != "" {
		t.Errorf("foreign: %+v", f)
	}
}

// A row of live events is pushed out by newer ones when too many come.
func TestBatch(t *testing.T) {
	var b batch
	for i := range liveRows + 25 {
		b.saw(ledger.Seq(i+1), &Row{Seq: ledger.Seq(i + 1)})
	}
	b.saw(99, nil)
	rows, passed, read := b.take()
	if read != 99 || len(rows) != liveRows || passed != 25 || rows[0].Seq != 26 || rows[liveRows-1].Seq != liveRows+25 {
		t.Errorf("%d rows from %d, %d passed", len(rows), rows[0].Seq, passed)
	}
	if rows, passed, _ := b.take(); rows != nil || passed != 0 {
		t.Errorf("%d rows again, %d passed", len(rows), passed)
	}
}

// bookSource is a ledger in memory, of which only records are asked for.
type bookSource struct {
	Source
	book   *ledgertest.Ledger
	signed ledger.Seq
}

func (s *bookSource) State(ctx context.Context) (State, error) {
	head, err := s.book.Head(ctx)
	return State{Head: head, Signed: s.signed}, err
}

func (s *bookSource) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return s.book.Read(ctx, from, to, fn)
}

// listener is a connection with live rows, event by event.
type listener struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Scanner
}

func listen(t *testing.T, url, lastID string) *listener {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	return &listener{t, resp, in}
}

// next is the next event of a name, with its id.
func (l *listener) next(name string) (id, data string) {
	l.t.Helper()
	for l.in.Scan() {
		line := l.in.Text()
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = rest
		}
		if line != "event: "+name {
			continue
		}
		l.in.Scan()
		return id, strings.TrimPrefix(l.in.Text(), "data: ")
	}
	l.t.Fatalf("the stream ends before %s: %v", name, l.in.Err())
	return "", ""
}

func (l *listener) rows() (id string, rows []Row) {
	l.t.Helper()
	id, data := l.next("rows")
	if err := json.Unmarshal([]byte(data), &rows); err != nil {
		l.t.Fatal(err)
	}
	return id, rows
}

func TestLive(t *testing.T) {
	book := ledgertest.New()
	gate := &events.GateChosen{Action: "KNOW"}
	for range liveBehind + 500 {
		book.Put("agent/piper", prod, gate)
	}
	srv := httptest.NewUnstartedServer(nil)
	h, err := New(Config{Source: &bookSource{book: book, signed: 7}, Addr: srv.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = h
	srv.Start()
	defer srv.Close()
	defer srv.CloseClientConnections()

	// Who asks for the head alone takes no place.
	for range maxLive + 1 {
		resp, err := http.Head(srv.URL + "/events/live?after=1")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	// From behind a record on, what comes, each once.
	head := ledger.Seq(liveBehind + 500)
	l := listen(t, fmt.Sprintf("%s/events/live?after=%d", srv.URL, head-3), "")
	id, rows := l.rows()
	if len(rows) != 3 || rows[0].Seq != head-2 || id != fmt.Sprint(head) {
		t.Errorf("%d rows from %d, id %s", len(rows), rows[0].Seq, id)
	}
	if _, data := l.next("state"); !strings.Contains(data, fmt.Sprintf(`"head":%d,"signed":7,"fault":false`, head)) {
		t.Errorf("state %s", data)
	}
	put := time.Now()
	book.Put("agent/piper", prod, gate)
	if _, rows := l.rows(); len(rows) != 1 || rows[0].Seq != head+1 {
		t.Errorf("then %+v", rows)
	}
	t.Logf("a row came after %v", time.Since(put))
	// A connection that comes again goes on where it was, whatever its address says.
	if _, rows := listen(t, srv.URL+"/events/live?after=1", fmt.Sprint(head)).rows(); rows[len(rows)-1].Seq != head+1 || len(rows) != 1 {
		t.Errorf("again %+v", rows)
	}
	// Far behind it begins near the head, shows the last and counts the others.
	l = listen(t, srv.URL+"/events/live?after=0", "")
	_, data := l.next("passed")
	passed, err := strconv.Atoi(data)
	if err != nil || passed < 500 {
		t.Errorf("%s passed by", data)
	}
	// A filter holds, and says nothing of what it leaves out.
	l = listen(t, fmt.Sprintf("%s/events/live?after=%d&type=claim.*", srv.URL, head), "")
	claim := book.Put("agent/piper", prod, &events.ClaimRecorded{ClaimID: "c", Status: "hypothesis"})
	if _, rows := l.rows(); len(rows) != 1 || rows[0].Seq != claim {
		t.Errorf("filtered %+v", rows)
	}
	// There are so many connections and no more.
	for range maxLive {
		listen(t, srv.URL+fmt.Sprintf("/events/live?after=%d", head), "")
	}
	if l := listen(t, srv.URL+fmt.Sprintf("/events/live?after=%d", head), ""); l.resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", l.resp.StatusCode)
	}
}

func TestFigures(t *testing.T) {
	var f figures
	var counts atomic.Int64
	release := make(chan struct{})
	slow := func(context.Context) (int64, error) {
		<-release
		return counts.Add(1), nil
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, ok, err := get(short, &f, "slow", slow); ok || err != nil {
		t.Fatalf("a figure before it was counted: %v, %v", ok, err)
	}
	var all sync.WaitGroup
	for range 10 { // they share the count that is under way
		all.Go(func() { _, _, _ = get(short, &f, "slow", slow) })
	}
	all.Wait()
	close(release)
	deadline := time.Now().Add(time.Minute)
	for {
		v, ok, err := get(t.Context(), &f, "slow", slow)
		if ok && v == 1 && err == nil && counts.Load() == 1 {
			break
		}
		if time.Now().After(deadline) || ok && v != 1 {
			t.Fatalf("%d, %v, %v after %d counts", v, ok, err, counts.Load())
		}
	}
	broken := errors.New("broken")
	if _, _, err := get(t.Context(), &f, "broken", func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("a count that fails: %v", err)
	}
	if rest := f.kept["slow"].next.Sub(f.kept["slow"].at); rest < restFor*time.Millisecond {
		t.Errorf("a figure that took a while is counted again after %v", rest)
	}
	for i := range 3 * maxFigures {
		_, _, _ = get(t.Context(), &f, fmt.Sprint(i), func(context.Context) (int, error) { return i, nil })
	}
	if n := len(f.kept); n > maxFigures {
		t.Errorf("%d figures are kept", n)
	}
}

func TestPlot(t *testing.T) {
	at := func(s float64) time.Time {
		return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
	}
	p := plotOf(Series{
		Signal: "rss", Value: 10, OnValue: true, Test: "max <= 10", Outcome: "false",
		Points: []Point{{at(0), 0}, {at(5), 20}, {at(10), 5}}, Witness: &Point{at(5), 20},
	}, at(2), at(8))
	inside := func(name string, d dot) {
		if !(d.X >= p.Frame.Left && d.X <= p.Frame.Right && d.Y >= p.Frame.Top && d.Y <= p.Frame.Bottom) {
			t.Errorf("%s lies at %v, outside of %v", name, d, p.Frame)
		}
	}
	for _, d := range p.Dots {
		inside("a sample", d)
	}
	inside("the threshold", dot{p.Frame.Left, *p.Threshold})
	inside("the witness", *p.Mark)
	if *p.Mark != p.Dots[1] || p.Mark.Y >= *p.Threshold || p.Dots[0].Y <= *p.Threshold {
		t.Errorf("witness %v, samples %v, threshold %v", *p.Mark, p.Dots, *p.Threshold)
	}
	if mid := (p.Frame.Left + p.Frame.Right) / 2; p.Mark.X != mid || p.X1 != p.Frame.x(0.2) || p.X2 != p.Frame.x(0.8) {
		t.Errorf("the window is [%v, %v], the witness at %v", p.X1, p.X2, p.Mark.X)
	}
	if strings.Count(p.Path, "V") != 2 || !strings.HasPrefix(p.Path, "M64.0 ") {
		t.Errorf("path %q", p.Path)
	}
	for _, want := range []string{"3 samples of rss", "max <= 10: false", "decided by the sample 20 at 2026-12-01 00:00:05.000Z"} {
		if !strings.Contains(p.Summary, want) {
			t.Errorf("%q does not say %q", p.Summary, want)
		}
	}
	// Nothing that can be measured is drawn all the same, without NaN.
	for _, s := range []Series{{}, {OnValue: true, Value: 3}, {Points: []Point{{at(1), 7}}}, {Points: []Point{{at(1), math.MaxFloat64}, {at(1), -math.MaxFloat64}}}} {
		p := plotOf(s, at(0), at(0))
		text := fmt.Sprint(p.Path, p.Dots, p.X1, p.X2, p.Times, p.Values)
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%+v: %s", s, text)
		}
	}
}

func TestDiagram(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	number := func(x float64, n int64) metric.Number { return metric.Number{Value: v(x), Denominator: &n} }
	d := diagramOf([]metric.Bin{
		{Tenth: "0.4–0.5", Stated: number(0.5, 1), Observed: number(0, 1)}, {Tenth: "0.9–1.0", Stated: number(1, 4), Observed: number(1, 4)},
	})
	if len(d.Bars) != 2 || d.Bars[0].X != d.Frame.x(0.5) || d.Bars[0].Y != d.Frame.Bottom || d.Bars[1].X != d.Frame.Right || d.Bars[1].Y != d.Frame.Top || d.Bars[0].R >= d.Bars[1].R {
		t.Errorf("%+v", d.Bars)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 9999: "9999", 33554432: "33.6M", 20000: "20k", -2e9: "-2G", 3.5e13: "35T", 1e300: "1e+300"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestStages(t *testing.T) {
	for typ, want := range map[string]string{
		events.TypeOpportunityDetected: stageOpportunity, events.TypeClaimRecorded: stageClaims, events.TypeHypothesesRecorded: stageClaims,
		events.TypeExperimentExecuted: stageActions, events.TypeToolCalled: stageActions, events.TypePredictionArmed: stagePredictions,
		events.TypePredictionResolved: stageOutcomes, events.TypePredictionResolutionAmended: stageOutcomes, events.TypeFixRechecked: stageOutcomes,
		events.TypeGateChosen: stageOther, "unknown": stageOther,
	} {
		if got := stageOf(typ); got != want {
			t.Errorf("%s is of %s, want %s", typ, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		addr, host string
		want       bool
	}{
		{"127.0.0.1:7777", "127.0.0.1:7777", true},
		{"127.0.0.1:7777", "LocalHost:7777", true},
		{"[::1]:7777", "[::1]:7777", true},
		{"[::1]:7777", "localhost:7777", true},
		{"127.0.0.1:7777", "127.0.0.1:7778", false},
		{"127.0.0.1:7777", "127.0.0.1", false},
		{"127.0.0.1:7777", "127.0.0.2:7777", false},
		{"127.0.0.1:7777", "evil.example:7777", false},
		{"127.0.0.1:7777", "127.0.0.1.evil.example:7777", false},
		{"127.0.0.1:7777", "", false},
		{"10.0.0.1:80", "10.0.0.1:80", true},
		{"10.0.0.1:80", "localhost:80", false},
		{"[::]:80", "10.0.0.1:80", true},
		{"0.0.0.0:80", "[2001:db8::1]:80", true},
		{"0.0.0.0:80", "evil.example:80", false},
	} {
		hosts, err := hostsOf(tt.addr)
		if err != nil || hosts(tt.host) != tt.want {
			t.Errorf("%s asked for as %s: %v, want %v, %v", tt.addr, tt.host, !tt.want, tt.want, err)
		}
	}
}

// An identifier that is cut is made ASCII first: the sign of the cut is ours.
func TestLongIdentifiers(t *testing.T) {
	pages, err := parsePages("pages")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	long := strings.Repeat("\u0440", 100)
	body := metricBody{Explained: &Explained{Explanation: &metric.Explanation{}, Records: []metric.Record{{Item: long}}}}
	if err := pages["metric"].ExecuteTemplate(&out, "main", &page{Body: body}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, `>\u0440\u0440`) || !strings.Contains(text, "… (600 bytes)<") || strings.Contains(text, `\u2026`) {
		t.Errorf("%s", text[strings.Index(text, "<tbody>"):])
	}
}
