package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-json-experiment/json"

	"assay/cmd/internal/browsertest"
	"assay/events"
	"assay/projector/ledgertest"
)

// pages is a command that serves pages, running until stop.
type pages struct {
	t    *testing.T
	url  string // without the key
	key  string
	out  *output
	stop func() // ends the command, which must end well
}

// output is what a running command printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// lines are those that are whole.
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := strings.SplitAfter(o.text.String(), "\n")
	return all[:len(all)-1]
}

// servePagesOf runs `assay --json ARGS` until it is stopped.
func servePagesOf(t *testing.T, args ...string) *pages {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &pages{t: t, out: &output{}}
	var errs output
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, append([]string{"--json"}, args...), strings.NewReader(""), p.out, &errs) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("%v: exit %d\n%s", args, code, strings.Join(errs.lines(), ""))
		}
	})
	t.Cleanup(p.stop)
	for deadline := time.Now().Add(time.Minute); len(p.out.lines()) == 0; {
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("%v: exit %d\n%s", args, code, strings.Join(errs.lines(), ""))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: no address", args)
		}
	}
	var at served
	if err := json.Unmarshal([]byte(p.out.lines()[0]), &at); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at.Address)
	if err != nil {
		t.Fatal(err)
	}
	p.url, p.key = "http://"+u.Host, u.Query().Get("key")
	return p
}

// newSample is a book of which a set of a closed week was sampled.
func newSample(t *testing.T, set string, live func(*book)) *book {
	t.Helper()
	b := &book{ledgertest.New(), t}
	start := events.FormatTime(b.Now())
	live(b)
	b.Put("logger/main", "production", &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: start, End: events.FormatTime(b.Now())})
	out, _ := b.assay(0, "--json", "audit", "sample", "--set", set, "--dry-run")
	var r sampleResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.Put("operator/main", "production", r.Sample)
	return b
}

// hostile is what an agent may write to take a page over.
const hostile = "</dd><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202e\x1b[2J"

// keyed is a set that is labelled whole, once by keyboard and once in the terminal.
type keyed struct {
	set   string
	live  func(*book)
	texts map[string]string // files
	cases [][]step
}

// step are keys that answer a form, and what is typed in the terminal instead. shows is
// on the page before, and hides is not.
type step struct {
	keys         []string
	typed        string
	shows, hides string
}

var allKeyed = []keyed{
	{
		set: "edges",
		live: func(b *book) {
			for i := range 2 {
				id, text := fmt.Sprint("edge-", i), hostile
				b.Put("dispatcher/main", "production", &events.GraphWritten{Op: "add", EdgeID: &id, Cause: "leak", Effect: "oom", RelationKind: &secret, Condition: &text})
			}
		},
		cases: [][]step{
			{{keys: []string{"1", "2", "3", "1", "2", "?", "2", "1"}, typed: "1\n2\n3\n1\n2\n?\n2\n1\n", shows: "leak -> oom", hides: secret}},
			// A key that was wrong is taken back.
			{{keys: []string{"4", "?", "1", "9", "x", "1", kb.Backspace, "2", "1", "1", "1", "?", kb.Backspace, kb.Backspace, "2", "1"}, typed: "4\n?\n1\n2\n1\n1\n2\n1\n"}},
		},
	},
	{
		set: "contradictions",
		live: func(b *book) {
			side := func(id string) events.ContradictionSide { return events.ContradictionSide{Kind: "belief", ID: id} }
			b.Put("agent/piper", "production", &events.ContradictionDetected{ContradictionID: "con-1", Left: side("b-1"), Right: side("b-2"), Detector: &secret})
			b.Put("agent/piper", "production", &events.ContradictionScoped{ContradictionID: "con-1", LeftScope: "left-half", RightScope: hostile})
		},
		cases: [][]step{{
			{keys: []string{"1"}, typed: "1\n", shows: "b-1", hides: "left-half"},
			{keys: []string{"2"}, typed: "2\n", shows: "left-half", hides: secret},
		}},
	},
	{
		set: "detector",
		live: func(b *book) {
			b.Put("detector/main", "production", &events.OpportunityDetected{OpportunityID: "found/1", Kind: "why", DetectorVersion: "1"})
			b.Put("detector/main", "production", &events.DetectorScanned{DetectorVersion: "1", Turns: 2, Positive: 1, Negative: 1, NegativeTurnIDs: []string{"missed-1"}})
		},
		texts: map[string]string{"found%2F1.txt": "why? " + hostile, "missed-1.txt": "why? " + hostile},
		cases: [][]step{
			{{keys: []string{"1", "6"}, typed: "1\n6\n", shows: "why?", hides: "found"}},
			{{keys: []string{"1", "1", kb.Backspace, kb.Backspace, "2"}, typed: "2\n", shows: "why?", hides: "missed"}},
		},
	},
	{
		set: "outcomes",
		live: func(b *book) {
			b.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: "claim-1", Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: hostile}})
			b.Put("operator/op", "production", &events.FixRechecked{ClaimID: "claim-1", Result: "confirmed", Source: "instrument", Direct: true})
		},
		cases: [][]step{{{keys: []string{"?"}, typed: "?\n", shows: "claim-1", hides: "confirmed"}}},
	},
}

// TestLabelsByKeyboard: a whole sample is labelled by keyboard in a real browser, and
// the events are those of the terminal. What agents wrote is text, and nothing that
// answers a question is on the page before the answer.
func TestLabelsByKeyboard(t *testing.T) {
	for _, k := range allKeyed {
		t.Run(k.set, func(t *testing.T) {
			b := newSample(t, k.set, k.live)
			label := []string{"audit", "label", "--set", k.set, "--as", "operator/zoe", "--dry-run"}
			if k.texts != nil {
				texts := t.TempDir()
				for name, text := range k.texts {
					if err := os.WriteFile(filepath.Join(texts, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				label = append(label, "--texts", texts)
			}
			typed := ""
			for _, steps := range k.cases {
				for _, s := range steps {
					typed += s.typed
				}
			}
			want, _ := b.talk(0, typed, append([]string{"--json"}, label...)...)
			if strings.Count(want, "\n") != len(k.cases) {
				t.Fatalf("the terminal says\n%s", want)
			}
			p := servePagesOf(t, append(label, "--pages", "--listen", "0", "--file", b.file())...)
			tab := browsertest.New(t, p.url, p.key)
			tab.Until(`document.activeElement.id === "next"`)
			tab.Press("\r")
			for i, steps := range k.cases {
				tab.Until(fmt.Sprintf(`document.querySelector("h1").textContent === "Case %d of %d"`, i+1, len(k.cases)))
				for j, s := range steps {
					tab.Until(fmt.Sprintf(`document.querySelector("#answers") !== null && document.body.textContent.includes(%q)`, s.shows))
					if j > 0 {
						tab.Until(`document.querySelector("h2").textContent === "What followed"`)
					}
					p.look(tab)
					text := browsertest.Eval[string](tab, `document.documentElement.outerHTML`)
					if s.hides != "" && strings.Contains(text, s.hides) {
						t.Errorf("the page of case %d shows %q", i+1, s.hides)
					}
					tab.Press(s.keys...)
					tab.Press("\r")
				}
			}
			tab.Until(`document.querySelector("main").textContent.includes("All cases have your label.")`)
			p.stop()
			if got := strings.Join(p.out.lines()[1:], ""); got != want {
				t.Errorf("by keyboard\n%s, in the terminal\n%s", got, want)
			}
		})
	}
}

// look checks a case's page as it is rendered: nothing of hostile text acts, the page
// has what a screen reader needs and fits, and the console is silent.
func (p *pages) look(tab *browsertest.Browser) {
	p.t.Helper()
	if browsertest.Eval[bool](tab, `window.hacked !== undefined || document.querySelector("img, main script") !== null || /[\u202e\u001b]/.test(document.body.textContent)`) {
		p.t.Error("hostile text acts")
	}
	if missing := tab.Lacks(); len(missing) > 0 {
		p.t.Errorf("the page lacks %q", missing)
	}
	tab.Do(chromedp.EmulateViewport(360, 740))
	if got := browsertest.Eval[int64](tab, `document.documentElement.scrollWidth`); got > 360 {
		p.t.Errorf("the page is %d wide at 360", got)
	}
	tab.Do(chromedp.EmulateViewport(1200, 740))
	background := `getComputedStyle(document.querySelector("fieldset")).backgroundColor`
	tab.Prefer("dark")
	dark := browsertest.Eval[string](tab, background)
	tab.Prefer("light")
	if browsertest.Eval[string](tab, background) == dark {
		p.t.Errorf("the form is %s in light and dark", dark)
	}
	if said := tab.Said(); len(said) > 0 {
		p.t.Errorf("the console says %q", said)
	}
}

// browse is a client with a jar that has the key.
func (p *pages) browse() *http.Client {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	p.get(c, "/?key="+p.key)
	return c
}

func (p *pages) get(c *http.Client, path string) (status int, body string) {
	p.t.Helper()
	resp, err := c.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.read(resp)
}

func (p *pages) read(resp *http.Response) (status int, body string) {
	p.t.Helper()
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// send posts a form as a browser does from a page of the same host.
func (p *pages) send(c *http.Client, path string, form url.Values) (status int, body string) {
	p.t.Helper()
	req, err := http.NewRequest("POST", p.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", p.url)
	resp, err := c.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.read(resp)
}

// TestLabelsOnPagesAreWritten: labels from pages go into the ledger by the operator's
// credential; whoever stops goes on where she was, on pages or in the terminal, and the
// records say the same whichever it was.
func TestLabelsOnPagesAreWritten(t *testing.T) {
	c, stop := closedWeek(t, "", time.Now().Add(-fortnight), func(c command) {
		c.must(0, "", "principal", "add", "operator/zoe")
	})
	defer stop()
	deadline := time.Now().Add(time.Minute)
	for {
		code, _, errs := c.run("", "audit", "sample")
		if code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(errs)
		}
		time.Sleep(50 * time.Millisecond) // the checkpoint follows once a second
	}
	args := []string{"--dir", c.dir, "audit", "label", "--as", "operator/zoe", "--pages", "--listen", "0"}
	label := func(n int) {
		t.Helper()
		p := servePagesOf(t, args...)
		defer p.stop()
		client := p.browse()
		_, body := p.get(client, "/")
		if !strings.Contains(body, fmt.Sprintf(`id="next" href="/cases/%d"`, n)) {
			t.Fatalf("she does not go on at case %d:\n%s", n, body)
		}
		_, body = p.get(client, fmt.Sprint("/cases/", n))
		_, rest, _ := strings.Cut(body, `name="token" value="`)
		token, _, _ := strings.Cut(rest, `"`)
		status, body := p.send(client, fmt.Sprint("/cases/", n), url.Values{"token": {token}, "commitment_supported": {"yes"}})
		if status != http.StatusOK || !strings.Contains(body, fmt.Sprintf("Case %d of 3", n+1)) {
			t.Fatalf("%d %s", status, body)
		}
		// The first label of a case counts.
		if _, body = p.send(client, fmt.Sprint("/cases/", n), url.Values{"token": {token}, "commitment_supported": {"no"}}); !strings.Contains(body, "The first label counts.") {
			t.Error(body)
		}
		if lines := p.out.lines(); len(lines) != 2 || !strings.Contains(lines[1], `"written":true`) {
			t.Errorf("%q", lines)
		}
	}
	label(1)
	label(2)
	if out := c.must(0, "y\n", "audit", "label", "--as", "operator/zoe"); strings.Count(out, ": record ") != 1 || !strings.Contains(out, "case 3 of 3") {
		t.Error(out)
	}
	if out := c.must(0, "", "audit", "report"); !strings.Contains(out, "labelled 3, by two raters 0") {
		t.Error(out)
	}
	out := c.must(0, "", "tail", "--raw", "--type", "audit.labelled", "--principal", "operator/zoe")
	var data []string
	for line := range strings.Lines(out) {
		_, text, _ := strings.Cut(line, `"data":`)
		for i := range 3 {
			text = strings.ReplaceAll(text, fmt.Sprint("claim-", i), "CLAIM")
		}
		data = append(data, text)
	}
	if len(data) != 3 || data[0] != data[1] || data[1] != data[2] || !strings.Contains(data[0], `"blind":true`) || !strings.Contains(data[0], `"rater":"operator/zoe"`) {
		t.Errorf("%q", data)
	}
}

// TestLabelPagesAreAsked: what the command is asked in vain.
func TestLabelPagesAreAsked(t *testing.T) {
	b := newSample(t, "outcomes", func(b *book) {})
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--dry-run", "--listen", "0.0.0.0:0"}, 2, "others than this host can reach"},
		{[]string{"--dry-run", "--label", "claim-1=yes"}, 2, "--pages asks for the labels"},
		{nil, 2, "an export cannot be written to"},
		{[]string{"--dry-run", "--blind"}, 2, "--blind is for --label and --stdin"},
		{[]string{"--dry-run", "--set", "detector"}, 2, "give the texts of the cases"},
		{[]string{"--dry-run", "--set", "edges"}, 3, "nothing was sampled of the edges"},
		{[]string{"--dry-run", "--week", "2026-W41"}, 3, "closed no such week"},
	} {
		if out, errs := b.assay(tt.code, append([]string{"audit", "label", "--pages"}, tt.args...)...); !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%v: %s%s", tt.args, out, errs)
		}
	}
}
