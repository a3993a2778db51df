package node

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"assay/events"
	"assay/ledger"
	"assay/projector/metric"
)

// browser is a tab of a real headless Chromium that has the key.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu      sync.Mutex
	console []string // what the console said that is no mere information
}

func newBrowser(t *testing.T, h *pagesHouse) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("SKIPPED: there is no Chromium here (Debian package chromium)")
	}
	b := &browser{t: t, url: h.url}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.ExecPath(path))...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	check(t, chromedp.Listen(b.ctx, b.hear))
	b.open("/?key=" + h.key)
	return b
}

// hear collects exceptions, errors of the console, and what the browser itself notes,
// violations of the policy among it.
func (b *browser) hear(ev any) {
	text := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = ev.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		text = string(ev.Type)
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s %s", ev.Entry.Source, ev.Entry.Text)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.console = append(b.console, text)
}

func (b *browser) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.console
	b.console = nil
	return out
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	check(b.t, chromedp.Do(ctx, actions...))
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

// eval is the value of an expression on the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// prefer emulates a scheme of colours, light or dark.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	check(b.t, err)
}

// browserPages are one of each kind.
func (h *pagesHouse) browserPages() []string {
	return []string{
		"/", "/events", "/events?type=claim.*", "/events/3", "/find?id=claim-1", "/episodes", "/episodes/production/" + pagesEpisode,
		"/predictions", "/predictions?which=unresolved", "/predictions/production/" + pagesPred, "/calibration", "/coverage",
		"/metrics", "/metrics/brier", "/metrics/opportunities", "/reports",
	}
}

func (h *pagesHouse) testBrowser(t *testing.T) {
	b := newBrowser(t, h)
	for name, part := range map[string]func(*browser){
		"pages": h.testBrowserPages, "hostile": h.testBrowserHostile, "live": h.testBrowserLive, "keyboard": h.testBrowserKeyboard, "report": h.testBrowserReport,
	} {
		h.run(t, name, func(t *testing.T) {
			b.t = t
			part(b)
		})
	}
}

// testBrowserPages opens every kind of page, wide and small, light and dark.
func (h *pagesHouse) testBrowserPages(b *browser) {
	background := `getComputedStyle(document.body).backgroundColor`
	for _, path := range h.browserPages() {
		h.page(path) // its figures are counted
		for _, width := range []int64{1200, 360} {
			b.do(chromedp.EmulateViewport(width, 740))
			b.open(path)
			if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
				b.t.Errorf("%s is %d wide at %d", path, got, width)
			}
		}
		b.prefer("light")
		light := eval[string](b, background)
		b.prefer("dark")
		if dark := eval[string](b, background); dark == light {
			b.t.Errorf("%s is %s in light and dark", path, dark)
		}
		b.prefer("light")
		if said := b.said(); len(said) > 0 {
			b.t.Errorf("%s: the console says %q", path, said)
		}
		// What a screen reader needs: one heading of the page, a language, landmarks,
		// a label for each control, a name for each picture and each table.
		if missing := eval[[]string](b, `(() => {
			const out = [];
			if (document.querySelectorAll("h1").length !== 1) out.push("one h1");
			if (!document.documentElement.lang) out.push("lang");
			for (const s of ["main", "nav[aria-label]", "header"]) if (!document.querySelector(s)) out.push(s);
			for (const e of document.querySelectorAll("input, select")) if (!e.labels.length) out.push("label of " + e.id);
			for (const e of document.querySelectorAll("svg")) if (!e.querySelector(":scope > title")) out.push("title of a drawing");
			for (const e of document.querySelectorAll(".scroll")) if (!e.getAttribute("aria-label") || e.tabIndex !== 0) out.push("a region that scrolls");
			for (const e of document.querySelectorAll("thead th")) if (!e.scope) out.push("scope of a head");
			const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
			if (new Set(ids).size !== ids.length) out.push("ids that are unique");
			return out;
		})()`); len(missing) > 0 {
			b.t.Errorf("%s lacks %q", path, missing)
		}
	}
}

// testBrowserReport wants a report shown, and its script not run.
func (h *pagesHouse) testBrowserReport(b *browser) {
	b.open("/reports/2026-W48.html")
	if title := eval[string](b, `document.title`); title != "report" {
		b.t.Errorf("the report's script ran: its title is %q", title)
	}
	if said := b.said(); len(said) != 1 || !strings.Contains(said[0], "Blocked script execution") {
		b.t.Errorf("the console says %q", said)
	}
}

// testBrowserHostile opens pages of hostile events: nothing of theirs runs, and no
// rendered text holds a character that nobody sees.
func (h *pagesHouse) testBrowserHostile(b *browser) {
	b.do(chromedp.EmulateViewport(360, 740))
	var paths []string
	kinds := map[string]int{}
	h.crawl(360, func(path, _ string) {
		kind := strings.SplitN(path, "/", 3)[1]
		if kind, _, _ = strings.Cut(kind, "?"); kinds[kind] < 8 {
			kinds[kind]++
			paths = append(paths, path)
		}
	})
	for before := ledger.Seq(60); before < 400; before += 60 {
		paths = append(paths, fmt.Sprintf("/events?before=%d", before))
	}
	for _, path := range paths {
		b.open(path)
		if eval[bool](b, `window.hacked !== undefined || document.querySelector(".forged, img, main style") !== null`) {
			b.t.Errorf("%s: an event acts", path)
		}
		if got := eval[int64](b, `document.documentElement.scrollWidth`); got > 360 {
			b.t.Errorf("%s is %d wide", path, got)
		}
		text := eval[string](b, `document.body.textContent`)
		if i := strings.IndexFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
		}); i >= 0 {
			b.t.Errorf("%s shows %q", path, text[max(0, i-20):min(len(text), i+20)])
		}
		for _, said := range b.said() {
			if !strings.Contains(said, "status of 404") { // an id that no path can hold
				b.t.Errorf("%s: the console says %q", path, said)
			}
		}
	}
}

// testBrowserLive wants a row within a second of the ack, not final until it is
// signed, and the filter to hold.
func (h *pagesHouse) testBrowserLive(b *browser) {
	b.do(chromedp.EmulateViewport(1200, 740))
	b.open("/events?type=gate.chosen")
	b.do(chromedp.Sleep(500 * time.Millisecond)) // the stream is open
	best := time.Hour
	for range 5 {
		h.say("agent/piper", &events.ClaimRecorded{ClaimID: "claim-live", Status: "hypothesis", Edge: &events.Edge{Rung: "intervention", Cause: forged, Effect: "y"}})
		receipt := h.say("agent/piper", &events.GateChosen{Action: "KNOW"})
		acked := time.Now()
		badge := fmt.Sprintf(`document.querySelector('#rows span[data-seq="%d"]')`, *receipt.Seq)
		eventually(b.t, "the row is there", func() bool { return eval[bool](b, badge+` !== null`) })
		best = min(best, time.Since(acked))
		eventually(b.t, "the row is signed", func() bool { return eval[string](b, badge+`.textContent`) == "signed" })
	}
	b.t.Logf("a live row came %v after the ack", best)
	if best > time.Second {
		b.t.Errorf("the best of five live rows came %v after the ack", best)
	}
	if eval[bool](b, `[...document.querySelectorAll("#rows tbody tr")].some((r) => r.cells[2].textContent !== "gate.chosen")`) {
		b.t.Error("a live row passed the filter")
	}
	// A tab that nobody sees gives its connection back, misses nothing, and gets nothing
	// twice, what came just before either.
	shown := func(seq uint64) int {
		return eval[int](b, fmt.Sprintf(`document.querySelectorAll('#rows span[data-seq="%d"]').length`, seq))
	}
	last := *h.say("agent/piper", &events.GateChosen{Action: "KNOW"}).Seq
	eventually(b.t, "the last row is there", func() bool { return shown(last) == 1 })
	b.hide(true)
	var missed []uint64
	for range 3 {
		missed = append(missed, *h.say("agent/piper", &events.GateChosen{Action: "KNOW"}).Seq)
	}
	b.do(chromedp.Sleep(500 * time.Millisecond))
	if shown(missed[0]) != 0 {
		b.t.Error("a tab that nobody sees goes on")
	}
	b.hide(false)
	for _, seq := range missed {
		eventually(b.t, "the tab catches up", func() bool { return shown(seq) == 1 })
	}
	if twice := eval[bool](b, `(() => {
		const seqs = [...document.querySelectorAll("#rows span[data-seq]")].map((e) => e.dataset.seq);
		return new Set(seqs).size !== seqs.length;
	})()`); twice {
		b.t.Error("a row is there twice")
	}
	// Hostile rows that come live are text.
	b.open("/events?type=claim.recorded")
	b.do(chromedp.Sleep(500 * time.Millisecond))
	receipt := h.say("agent/piper", &events.ClaimRecorded{ClaimID: "claim-live", Status: "hypothesis", Edge: &events.Edge{Rung: "intervention", Cause: "\u202e" + forged, Effect: "y"}})
	row := fmt.Sprintf(`document.querySelector('#rows span[data-seq="%d"]')`, *receipt.Seq)
	eventually(b.t, "the hostile row is there", func() bool { return eval[bool](b, row+` !== null`) })
	text := eval[string](b, row+`.closest("tr").textContent`)
	if !strings.Contains(text, `<tr class=`) || strings.Contains(text, "\u202e") || eval[bool](b, `window.hacked !== undefined || document.querySelector(".forged, img") !== null`) {
		b.t.Errorf("a hostile live row: %q", text)
	}
	if said := b.said(); len(said) > 0 {
		b.t.Errorf("the console says %q", said)
	}
}

// hide has the page believe that nobody sees it, or that somebody does again.
func (b *browser) hide(hidden bool) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		Object.defineProperty(document, "hidden", { value: %v, configurable: true });
		document.dispatchEvent(new Event("visibilitychange"));
		return true;
	})()`, hidden))
}

// testBrowserKeyboard tabs through a page: the skip link first, then the navigation,
// the search, and every control in the order in which it stands, each with a mark of
// its focus.
func (h *pagesHouse) testBrowserKeyboard(b *browser) {
	b.open("/events?type=prediction.recorded")
	var order []string
	for range 20 {
		b.do(chromedp.KeyEvent("\t"))
		order = append(order, eval[string](b, `(() => {
			const e = document.activeElement;
			const s = getComputedStyle(e);
			const name = e.id || e.getAttribute("aria-label") || e.textContent.trim();
			return name + (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2 ? " WITHOUT A MARK" : "");
		})()`))
	}
	want := []string{
		"Skip to content", "assay", "Ledger", "Events", "Episodes", "Predictions", "Calibration", "Coverage", "Metrics", "Reports",
		"find", "Find", "type", "principal", "namespace", "episode", "Filter", "Clear", "Records",
	}
	if !slices.Equal(order[:len(want)], want) {
		b.t.Errorf("focus goes\n%q, want\n%q", order, want)
	}
	// Arrows go from row to row.
	b.open("/metrics")
	b.do(chromedp.Focus("tbody a"))
	for _, step := range []struct{ key, want string }{
		{kb.ArrowDown, "1"}, {kb.ArrowDown, "2"}, {kb.ArrowUp, "1"}, {kb.End, fmt.Sprint(len(metric.Catalogue()) - 1)}, {kb.ArrowDown, fmt.Sprint(len(metric.Catalogue()) - 1)}, {kb.Home, "0"},
	} {
		b.do(chromedp.KeyEvent(step.key))
		if at := eval[string](b, `String([...document.querySelectorAll("tbody th a")].indexOf(document.activeElement))`); at != step.want {
			b.t.Errorf("%q leads to row %s, want %s", step.key, at, step.want)
		}
	}
	// The skip link leads past all of that.
	b.open("/events?type=prediction.recorded")
	b.do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	if got := eval[string](b, `document.activeElement.id`); got != "main" {
		b.t.Errorf("the skip link leads to %q", got)
	}
	b.do(chromedp.KeyEvent("\t"))
	if got := eval[string](b, `document.activeElement.id`); got != "type" {
		b.t.Errorf("behind the skip link comes %q", got)
	}
}
