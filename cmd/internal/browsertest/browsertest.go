// Package browsertest opens pages in a real headless Chromium, for tests.
package browsertest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is a tab that has the key of the pages at a URL.
type Browser struct {
	T *testing.T // of the subtest that uses it

	ctx context.Context
	url string

	mu      sync.Mutex
	console []string // what the console said that is no mere information
}

// New opens the pages with their key. Without a Chromium the test is skipped.
func New(t *testing.T, url, key string) *Browser {
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
	b := &Browser{T: t, url: url}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.ExecPath(path))...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b.check(chromedp.Listen(b.ctx, b.hear))
	b.Open("/?key=" + key)
	return b
}

func (b *Browser) check(err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}

// hear collects exceptions, errors of the console, and what the browser itself notes,
// violations of the policy among it.
func (b *Browser) hear(ev any) {
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

// Said is what the console said since it was last asked.
func (b *Browser) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.console
	b.console = nil
	return out
}

// Do runs actions, within a minute.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	b.check(chromedp.Do(ctx, actions...))
}

// Open goes to a page.
func (b *Browser) Open(path string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(b.url + path))
}

// Eval is the value of an expression on the page.
func Eval[T any](b *Browser, expression string) T {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.T.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Press presses keys one after the other.
func (b *Browser) Press(keys ...string) {
	b.T.Helper()
	for _, key := range keys {
		b.Do(chromedp.KeyEvent(key))
	}
}

// Until waits for an expression to be true, on this page or on one that comes instead.
func (b *Browser) Until(expression string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && ok {
			return
		}
		select {
		case <-ctx.Done():
			b.T.Fatalf("never: %s: %v", expression, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Prefer emulates a scheme of colours, light or dark.
func (b *Browser) Prefer(scheme string) {
	b.T.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.check(err)
}

// Hide has the page believe that nobody sees it, or that somebody does again.
func (b *Browser) Hide(hidden bool) {
	b.T.Helper()
	Eval[bool](b, fmt.Sprintf(`(() => {
		Object.defineProperty(document, "hidden", { value: %v, configurable: true });
		document.dispatchEvent(new Event("visibilitychange"));
		return true;
	})()`, hidden))
}

// Lacks is what a screen reader needs and the page has not: one heading of the page, a
// language, landmarks, a label for each control, a name for each picture and table.
func (b *Browser) Lacks() []string {
	b.T.Helper()
	return Eval[[]string](b, `(() => {
		const out = [];
		if (document.querySelectorAll("h1").length !== 1) out.push("one h1");
		if (!document.documentElement.lang) out.push("lang");
		for (const s of ["main", "nav[aria-label]", "header"]) if (!document.querySelector(s)) out.push(s);
		for (const e of document.querySelectorAll("input:not([type=hidden]), select")) if (!e.labels.length) out.push("label of " + e.id);
		for (const e of document.querySelectorAll("svg")) if (!e.querySelector(":scope > title")) out.push("title of a drawing");
		for (const e of document.querySelectorAll(".scroll")) if (!e.getAttribute("aria-label") || e.tabIndex !== 0) out.push("a region that scrolls");
		for (const e of document.querySelectorAll("thead th")) if (!e.scope) out.push("scope of a head");
		const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
		if (new Set(ids).size !== ids.length) out.push("ids that are unique");
		return out;
	})()`)
}
