// Command pages measures how long each page of `assay ui` takes on a long ledger.
//
// It fills a ledger, runs `assay up` until everything has caught up and `assay ui` until
// that has read the ledger, and then asks for every kind of page, by turns: the first
// answer stands apart, since figures are not counted yet then. Among the pages are
// those whose work is the most that the bounds allow: a filter that finds nothing, an
// episode that has nothing in the stretch that is searched, a proof.
//
// It prints a table, or with --json one object, and exits 1 when a page took longer
// than it may.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/fill"
	"assay/bench/house"
)

// target is how long a page may take, in milliseconds.
const target = 100

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// Row is one page, in milliseconds until the last byte.
type Row struct {
	Name   string  `json:"name"`
	First  float64 `json:"first"`
	Median float64 `json:"median"` // of those behind the first
	Max    float64 `json:"max"`
	Bytes  int     `json:"bytes"`
	Met    bool    `json:"met"` // First and Max are within the target
}

// Report is what a run found.
type Report struct {
	Records uint64 `json:"records"`
	Rows    []Row  `json:"rows"`
}

type options struct {
	records, rounds    int
	assay, dir, ledger string
	keep, json         bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("pages", flag.ContinueOnError)
	f.IntVar(&o.records, "records", 1_000_000, "records in the ledger")
	f.IntVar(&o.rounds, "rounds", 20, "how often each page is asked for behind the first time")
	f.StringVar(&o.assay, "assay", "", "the assay command (default: built from this tree)")
	f.StringVar(&o.dir, "dir", "", "where the scratch directory is made (default: the system's temporary directory)")
	f.StringVar(&o.ledger, "ledger", "", "go on with the ledger that an earlier run with --keep left in this directory")
	f.BoolVar(&o.keep, "keep", false, "leave the ledger behind and say where")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.records < 1000 || o.rounds < 1 {
		return o, errors.New("want at least 1000 records and one round")
	}
	return o, nil
}

var errMissed = errors.New("a page took longer than it may")

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	scratch, assay, done, err := house.Scratch(ctx, o.ledger, o.dir, "assay-pages-", o.keep, o.assay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	o.assay = assay
	report, err := measure(ctx, o, scratch)
	if err != nil {
		return err
	}
	if o.json {
		err = json.MarshalWrite(out, report, jsontext.WithIndent("  "))
	} else {
		err = report.print(out)
	}
	if err == nil && slices.ContainsFunc(report.Rows, func(r Row) bool { return !r.Met }) {
		err = errMissed
	}
	return err
}

func measure(ctx context.Context, o options, scratch string) (_ *Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills what is left
	h := &house.House{Dir: filepath.Join(scratch, "ledger"), Assay: o.assay}
	if o.ledger == "" {
		if err := h.Run(ctx, "init", "--render-only", "--offline-dir", house.Offline(h.Dir)); err != nil {
			return nil, err
		}
		if err := fill.Fill(ctx, h.Dir, o.records, io.Discard); err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
	}
	up, err := h.Start(ctx, "up")
	if err != nil {
		return nil, err
	}
	report := &Report{}
	if _, err := h.Until(ctx, up, "assay.sock", func(s house.Status) bool {
		if s.Logger == nil || s.Projector == nil || s.Resolver == nil {
			return false
		}
		report.Records = s.Logger.Size
		return s.Logger.Size >= uint64(o.records) && s.Logger.CheckpointSize >= uint64(o.records) && s.Projector.Seq >= uint64(o.records) && s.Resolver.Applied >= uint64(o.records)
	}); err != nil {
		return nil, fmt.Errorf("up: %w", err)
	}
	reports := filepath.Join(scratch, "reports")
	if err := os.MkdirAll(reports, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(reports, "2026-W01.html"), []byte("<!doctype html><title>a report</title>"), 0o600); err != nil {
		return nil, err
	}
	c, pages, err := openPages(ctx, h, reports)
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	all, err := c.all(ctx, report.Records)
	if err != nil {
		return nil, err
	}
	took := make([][]float64, len(all))
	report.Rows = make([]Row, len(all))
	for range o.rounds + 1 {
		for i, p := range all {
			start := time.Now()
			body, err := c.get(ctx, p.path)
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], float64(time.Since(start).Microseconds())/1000)
			report.Rows[i] = Row{Name: p.name, Bytes: len(body)}
		}
	}
	for i := range all {
		report.Rows[i].judge(took[i])
	}
	return report, errors.Join(pages.Stop(syscall.SIGINT), up.Stop(syscall.SIGINT))
}

// judge sets what was measured, in the order of time.
func (r *Row) judge(took []float64) {
	r.First = took[0]
	rest := slices.Sorted(slices.Values(took[1:]))
	r.Median, r.Max = rest[len(rest)/2], rest[len(rest)-1]
	r.Met = max(r.First, r.Max) <= target
}

// client asks for pages as a browser does that has the key.
type client struct {
	http.Client
	url string
}

// openPages runs `assay ui` until it has read the ledger.
func openPages(ctx context.Context, h *house.House, reports string) (*client, *house.Process, error) {
	var out lockedBuffer
	p, err := h.StartTo(ctx, &out, "--json", "ui", "--listen", "0", "--reports", reports)
	if err != nil {
		return nil, nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var c *client
	for {
		select {
		case <-tick.C:
		case <-p.Done:
			return nil, nil, fmt.Errorf("it ended: %w", p.Err())
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		line, whole := strings.CutSuffix(out.String(), "\n")
		if !whole {
			continue
		}
		if c == nil {
			if c, err = newClient(ctx, line); err != nil {
				return nil, nil, err
			}
		}
		body, err := c.get(ctx, "/")
		if err != nil {
			return nil, nil, err
		}
		if bytes.Contains(body, []byte("hash to the signed root")) {
			return c, p, nil
		}
	}
}

// newClient takes the address that the command prints.
func newClient(ctx context.Context, line string) (*client, error) {
	var at struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		return nil, err
	}
	u, err := url.Parse(at.Address)
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	c := &client{http.Client{Jar: jar}, "http://" + u.Host}
	_, err = c.get(ctx, u.RequestURI())
	return c, err
}

func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", c.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

// page is one to ask for.
type page struct{ name, path string }

// all is every kind of page. What it shows lies in the middle of the ledger, where
// nothing is at hand.
func (c *client) all(ctx context.Context, records uint64) ([]page, error) {
	const event = `href="(/events/\d+)"`
	middle := records / 2
	claim, err := c.first(ctx, fmt.Sprintf("/events?type=claim.recorded&before=%d", middle), event)
	if err != nil {
		return nil, err
	}
	episode, err := c.first(ctx, claim, `href="(/episodes/production/[^"]+)"`)
	if err != nil {
		return nil, err
	}
	prediction, err := c.first(ctx, episode, `href="(/predictions/production/[^"]+)"`)
	if err != nil {
		return nil, err
	}
	id, err := c.first(ctx, claim, `claim_id&#34;: &#34;([^&]+)&#34;`)
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("/events/%d", middle)
	return []page{
		{"ledger", "/"},
		{"events", "/events"},
		{"events, in the middle", fmt.Sprintf("/events?before=%d", middle)},
		{"events, a filter that finds many", fmt.Sprintf("/events?type=claim.*&before=%d", middle)},
		{"events, a filter that finds nothing", "/events?episode=none"},
		{"record", at},
		{"record, its bytes", at + "/body"},
		{"record, its proof", at + "/proof"},
		{"record, proof of the first", "/events/1/proof"},
		{"record, proof of the last but one", fmt.Sprintf("/events/%d/proof", records-1)},
		{"find", "/find?id=" + url.QueryEscape(id)},
		{"find, nothing", "/find?id=none"},
		{"episodes", "/episodes"},
		{"episode", episode},
		{"episode, nothing in its stretch", episode + fmt.Sprintf("?from=%d", middle/2)},
		{"predictions", "/predictions"},
		{"predictions without a verdict", "/predictions?which=unresolved"},
		{"prediction", prediction},
		{"calibration", "/calibration"},
		{"coverage", "/coverage"},
		{"metrics", "/metrics"},
		{"metric with few records", "/metrics/contradictions"},
		{"metric with many records", "/metrics/claim_resolution_coverage"},
		{"reports", "/reports"},
		{"report", "/reports/2026-W01.html"},
	}, nil
}

// first is what a pattern's group finds first on a page.
func (c *client) first(ctx context.Context, path, pattern string) (string, error) {
	body, err := c.get(ctx, path)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(pattern).FindSubmatch(body)
	if m == nil {
		return "", fmt.Errorf("%s has nothing like %s", path, pattern)
	}
	return string(m[1]), nil
}

func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%d records; a page may take %d ms\n", r.Records, target)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tfirst ms\tmedian\tmax\tbytes\tmet\t")
	for _, row := range r.Rows {
		met := "NO"
		if row.Met {
			met = "yes"
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%d\t%s\t\n", row.Name, row.First, row.Median, row.Max, row.Bytes, met)
	}
	return w.Flush()
}

// lockedBuffer is written by a process and read beside it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
