package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"assay/cmd/internal/browsertest"
	"assay/events"
	"assay/ledger"
	"assay/projector/metric"
)

// browserPages are one of each kind.
func (h *pagesHouse) browserPages() []string {
	return []string{
		"/", "/events", "/events?type=claim.*", "/events/3", "/find?id=claim-1", "/episodes", "/episodes/production/" + pagesEpisode,
		"/predictions", "/predictions?which=unresolved", "/predictions/production/" + pagesPred, "/calibration", "/coverage",
		"/metrics", "/metrics/brier", "/metrics/opportunities", "/reports",
	}
}

func (h *pagesHouse) testBrowser(t *testing.T) {
	b := browsertest.New(t, h.url, h.key)
	for name, part := range map[string]func(*browsertest.Browser){
		"pages": h.testBrowserPages, "hostile": h.testBrowserHostile, "live": h.testBrowserLive, "keyboard": h.testBrowserKeyboard, "report": h.testBrowserReport,
	} {
		h.run(t, name, func(t *testing.T) {
			b.T = t
			part(b)
		})
	}
}

// testBrowserPages opens every kind of page, wide and small, light and dark.
func (h *pagesHouse) testBrowserPages(b *browsertest.Browser) {
	background := `getComputedStyle(document.body).backgroundColor`
	for _, path := range h.browserPages() {
		h.page(path) // its figures are counted
		for _, width := range []int64{1200, 360} {
			b.Do(chromedp.EmulateViewport(width, 740))
			b.Open(path)
			if got := browsertest.Eval[int64](b, `document.documentElement.scrollWidth`); got > width {
				b.T.Errorf("%s is %d wide at %d", path, got, width)
			}
		}
		b.Prefer("light")
		light := browsertest.Eval[string](b, background)
		b.Prefer("dark")
		if dark := browsertest.Eval[string](b, background); dark == light {
			b.T.Errorf("%s is %s in light and dark", path, dark)
		}
		b.Prefer("light")
		if said := b.Said(); len(said) > 0 {
			b.T.Errorf("%s: the console says %q", path, said)
		}
		if missing := b.Lacks(); len(missing) > 0 {
			b.T.Errorf("%s lacks %q", path, missing)
		}
	}
}

// testBrowserReport wants a report shown, and its script not run.
func (h *pagesHouse) testBrowserReport(b *browsertest.Browser) {
	b.Open("/reports/2026-W48.html")
	if title := browsertest.Eval[string](b, `document.title`); title != "report" {
		b.T.Errorf("the report's script ran: its title is %q", title)
	}
	if said := b.Said(); len(said) != 1 || !strings.Contains(said[0], "Blocked script execution") {
		b.T.Errorf("the console says %q", said)
	}
}

// testBrowserHostile opens pages of hostile events: nothing of theirs runs, and no
// rendered text holds a character that nobody sees.
func (h *pagesHouse) testBrowserHostile(b *browsertest.Browser) {
	b.Do(chromedp.EmulateViewport(360, 740))
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
		b.Open(path)
		if browsertest.Eval[bool](b, `window.hacked !== undefined || document.querySelector(".forged, img, main style") !== null`) {
			b.T.Errorf("%s: an event acts", path)
		}
		if got := browsertest.Eval[int64](b, `document.documentElement.scrollWidth`); got > 360 {
			b.T.Errorf("%s is %d wide", path, got)
		}
		text := browsertest.Eval[string](b, `document.body.textContent`)
		if i := strings.IndexFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
		}); i >= 0 {
			b.T.Errorf("%s shows %q", path, text[max(0, i-20):min(len(text), i+20)])
		}
		for _, said := range b.Said() {
			if !strings.Contains(said, "status of 404") { // an id that no path can hold
				b.T.Errorf("%s: the console says %q", path, said)
			}
		}
	}
}

// testBrowserLive wants a row within a second of the ack, not final until it is
// signed, and the filter to hold.
func (h *pagesHouse) testBrowserLive(b *browsertest.Browser) {
	b.Do(chromedp.EmulateViewport(1200, 740))
	b.Open("/events?type=gate.chosen")
	b.Do(chromedp.Sleep(500 * time.Millisecond)) // the stream is open
	best := time.Hour
	for range 5 {
		h.say("agent/piper", &events.ClaimRecorded{ClaimID: "claim-live", Status: "hypothesis", Edge: &events.Edge{Rung: "intervention", Cause: forged, Effect: "y"}})
		receipt := h.say("agent/piper", &events.GateChosen{Action: "KNOW"})
		acked := time.Now()
		badge := fmt.Sprintf(`document.querySelector('#rows span[data-seq="%d"]')`, *receipt.Seq)
		eventually(b.T, "the row is there", func() bool { return browsertest.Eval[bool](b, badge+` !== null`) })
		best = min(best, time.Since(acked))
		eventually(b.T, "the row is signed", func() bool { return browsertest.Eval[string](b, badge+`.textContent`) == "signed" })
	}
	b.T.Logf("a live row came %v after the ack", best)
	if best > time.Second {
		b.T.Errorf("the best of five live rows came %v after the ack", best)
	}
	if browsertest.Eval[bool](b, `[...document.querySelectorAll("#rows tbody tr")].some((r) => r.cells[2].textContent !== "gate.chosen")`) {
		b.T.Error("a live row passed the filter")
	}
	// A tab that nobody sees gives its connection back, misses nothing, and gets nothing
	// twice, what came just before either.
	shown := func(seq uint64) int {
		return browsertest.Eval[int](b, fmt.Sprintf(`document.querySelectorAll('#rows span[data-seq="%d"]').length`, seq))
	}
	last := *h.say("agent/piper", &events.GateChosen{Action: "KNOW"}).Seq
	eventually(b.T, "the last row is there", func() bool { return shown(last) == 1 })
	b.Hide(true)
	var missed []uint64
	for range 3 {
		missed = append(missed, *h.say("agent/piper", &events.GateChosen{Action: "KNOW"}).Seq)
	}
	b.Do(chromedp.Sleep(500 * time.Millisecond))
	if shown(missed[0]) != 0 {
		b.T.Error("a tab that nobody sees goes on")
	}
	b.Hide(false)
	for _, seq := range missed {
		eventually(b.T, "the tab catches up", func() bool { return shown(seq) == 1 })
	}
	if twice := browsertest.Eval[bool](b, `(() => {
		const seqs = [...document.querySelectorAll("#rows span[data-seq]")].map((e) => e.dataset.seq);
		return new Set(seqs).size !== seqs.length;
	})()`); twice {
		b.T.Error("a row is there twice")
	}
	// Hostile rows that come live are text.
	b.Open("/events?type=claim.recorded")
	b.Do(chromedp.Sleep(500 * time.Millisecond))
	receipt := h.say("agent/piper", &events.ClaimRecorded{ClaimID: "claim-live", Status: "hypothesis", Edge: &events.Edge{Rung: "intervention", Cause: "\u202e" + forged, Effect: "y"}})
	row := fmt.Sprintf(`document.querySelector('#rows span[data-seq="%d"]')`, *receipt.Seq)
	eventually(b.T, "the hostile row is there", func() bool { return browsertest.Eval[bool](b, row+` !== null`) })
	text := browsertest.Eval[string](b, row+`.closest("tr").textContent`)
	if !strings.Contains(text, `<tr class=`) || strings.Contains(text, "\u202e") || browsertest.Eval[bool](b, `window.hacked !== undefined || document.querySelector(".forged, img") !== null`) {
		b.T.Errorf("a hostile live row: %q", text)
	}
	if said := b.Said(); len(said) > 0 {
		b.T.Errorf("the console says %q", said)
	}
}

// testBrowserKeyboard tabs through a page: the skip link first, then the navigation,
// the search, and every control in the order in which it stands, each with a mark of
// its focus.
func (h *pagesHouse) testBrowserKeyboard(b *browsertest.Browser) {
	b.Open("/events?type=prediction.recorded")
	var order []string
	for range 20 {
		b.Do(chromedp.KeyEvent("\t"))
		order = append(order, browsertest.Eval[string](b, `(() => {
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
		b.T.Errorf("focus goes\n%q, want\n%q", order, want)
	}
	// Arrows go from row to row.
	b.Open("/metrics")
	b.Do(chromedp.Focus("tbody a"))
	for _, step := range []struct{ key, want string }{
		{kb.ArrowDown, "1"}, {kb.ArrowDown, "2"}, {kb.ArrowUp, "1"}, {kb.End, fmt.Sprint(len(metric.Catalogue()) - 1)}, {kb.ArrowDown, fmt.Sprint(len(metric.Catalogue()) - 1)}, {kb.Home, "0"},
	} {
		b.Do(chromedp.KeyEvent(step.key))
		if at := browsertest.Eval[string](b, `String([...document.querySelectorAll("tbody th a")].indexOf(document.activeElement))`); at != step.want {
			b.T.Errorf("%q leads to row %s, want %s", step.key, at, step.want)
		}
	}
	// The skip link leads past all of that.
	b.Open("/events?type=prediction.recorded")
	b.Do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	if got := browsertest.Eval[string](b, `document.activeElement.id`); got != "main" {
		b.T.Errorf("the skip link leads to %q", got)
	}
	b.Do(chromedp.KeyEvent("\t"))
	if got := browsertest.Eval[string](b, `document.activeElement.id`); got != "type" {
		b.T.Errorf("behind the skip link comes %q", got)
	}
}
