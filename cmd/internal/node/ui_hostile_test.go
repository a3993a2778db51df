package node

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"assay/ledger"
	"assay/schema"
)

// Hostile texts. Each could act if it were shown as it is.
const forged = `"></td></tr><tr class="forged"><th>999</th><td>signed</td></tr></table><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><style>*{display:none}</style>`

func hostileTexts() map[string][]string {
	return map[string][]string{
		"markup":     {forged, forged[:120], "<b>x</b>"},
		"template":   {"{{.State}}${hacked}javascript:window.hacked=1", "javascript:hacked"},
		"bidi":       {"safe\u202egnp.exe\u2066\u2069\u200e\u200b\ufeff", "a\u202eb"},
		"control":    {"a\x00b\x1b[2J\x07\r\u0085\u2028", "a\x1b[2Jb\u2028", "a\u2028b"},
		"homoglyphs": {"\u0430gent/\u0440iper \u2024\uff0e", "\u0440iper"},
		"long":       {strings.Repeat("W", 60000), strings.Repeat("W", 4000), strings.Repeat("W", 1000), strings.Repeat("W", 200)},
	}
}

// hostile are the examples of all event types that somebody but the logger and the
// resolver writes, with one of the texts at a time wherever the schema lets it.
func hostile(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for kind, texts := range hostileTexts() {
		for _, typ := range schema.Types() {
			example, ok := schema.Example(typ)
			if !ok {
				t.Fatalf("no example of %s", typ)
			}
			if raw, changed := poison(t, example, texts); changed {
				out[kind+" "+typ] = raw
			}
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d hostile events", len(out))
	}
	return out
}

// poison puts the first of the texts that the schema takes into each string of an
// event, the ids of events and names of members left out.
func poison(t *testing.T, raw []byte, texts []string) (out []byte, changed bool) {
	t.Helper()
	var doc map[string]any
	check(t, json.Unmarshal(raw, &doc))
	encode := func() []byte {
		b, err := json.Marshal(doc, json.Deterministic(true))
		check(t, err)
		return b
	}
	id, err := uuid.NewV7()
	check(t, err)
	doc["id"] = id.String()
	try := func(set func(string), was string) {
		for _, text := range texts {
			set(text)
			if b := encode(); len(b) < 60_500 {
				if _, fault := schema.Check(b); fault == nil {
					changed = true
					return
				}
			}
		}
		set(was)
	}
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		switch v := v.(type) {
		case string:
			try(func(s string) { set(s) }, v)
		case []any:
			for i := range v {
				walk(v[i], func(x any) { v[i] = x })
			}
		case map[string]any:
			for k := range v {
				walk(v[k], func(x any) { v[k] = x })
			}
		}
	}
	for _, member := range []string{"source", "subject", "episodeid", "causationid", "correlationid", "data"} {
		if v, ok := doc[member]; ok {
			walk(v, func(x any) { doc[member] = x })
		}
	}
	out = encode()
	if _, fault := schema.Check(out); fault != nil {
		t.Fatalf("%v: %s", fault, out)
	}
	return out, changed
}

// attack publishes all hostile events that a principal here may write.
func (h *pagesHouse) attack() (sent int) {
	h.t.Helper()
	writers := map[schema.Role]string{"agent": "agent/piper", "detector": "detector/main", "dispatcher": "dispatcher/main", "operator": "operator/main", "harness": "harness/main"}
	all := hostile(h.t)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_, typ, _ := strings.Cut(name, " ")
		if strings.HasPrefix(typ, "ledger.") || strings.HasPrefix(typ, "clock.") {
			continue // they govern the log itself
		}
		for _, role := range schema.Writers(typ) {
			who, ok := writers[role]
			if !ok {
				continue
			}
			if _, err := h.publish(who, all[name]); err == nil {
				sent++
			}
			break
		}
	}
	if sent < 150 {
		h.t.Fatalf("only %d hostile events were taken", sent)
	}
	return sent
}

var (
	hrefs = regexp.MustCompile(`(?:href|data-live)="(/[^"#]*)"`)
	tags  = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)
	rows  = regexp.MustCompile(`<tr[ >]`)
)

// crawl gets every page that others lead to, limit at most, and calls fn with each.
func (h *pagesHouse) crawl(limit int, fn func(path, body string)) (visited []string) {
	h.t.Helper()
	queue, seen := []string{"/"}, map[string]bool{"/": true}
	kinds := map[string]int{}
	for len(queue) > 0 && len(visited) < limit {
		path := queue[0]
		queue = queue[1:]
		if strings.HasPrefix(path, "/static/") || strings.HasPrefix(path, "/events/live") {
			continue
		}
		status, body := h.get(path)
		if status != http.StatusOK && status != http.StatusNotFound {
			h.t.Errorf("%s: %d %s", path, status, body)
			continue
		}
		visited = append(visited, path)
		if strings.HasSuffix(path, "/proof") || strings.HasSuffix(path, "/body") || strings.HasPrefix(path, "/reports/") {
			continue
		}
		fn(path, body)
		for _, m := range hrefs.FindAllStringSubmatch(body, -1) {
			next := html.UnescapeString(m[1])
			kind := strings.Join(strings.SplitN(next, "/", 3)[:2], "/")
			if kind, _, _ = strings.Cut(kind, "?"); seen[next] || kinds[kind] >= limit/6 {
				continue
			}
			kinds[kind]++
			seen[next] = true
			queue = append(queue, next)
		}
	}
	return visited
}

// checkInert fails where a page holds anything of what was written into events that
// acts.
func checkInert(t *testing.T, path, body string) {
	t.Helper()
	for i, r := range body {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			t.Errorf("%s holds %U: %q", path, r, body[max(0, i-40):min(len(body), i+40)])
			return
		}
	}
	if n := strings.Count(body, "<script"); n != 1 {
		t.Errorf("%s has %d scripts", path, n)
	}
	for _, tag := range tags.FindAllString(body, -1) {
		// Inside a tag of ours a text stands between quotes, its own quotes escaped.
		bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, "")
		for _, acts := range []string{"forged", "onerror", "<img", "<style", "javascript:"} {
			if strings.Contains(bare, acts) {
				t.Errorf("%s has the tag %q", path, tag)
			}
		}
		if strings.Contains(tag, `href="javascript`) || strings.Contains(tag, ` style="`) {
			t.Errorf("%s has the tag %q", path, tag)
		}
	}
}

// testHostile crawls all pages that lead to one another, over events that attack them.
func (h *pagesHouse) testHostile(t *testing.T) {
	kinds := map[string]int{}
	visited := h.crawl(360, func(path, body string) {
		checkInert(t, path, body)
		kind := strings.SplitN(path, "/", 3)[1]
		kind, _, _ = strings.Cut(kind, "?")
		kinds[kind]++
	})
	for _, kind := range []string{"", "events", "episodes", "predictions", "metrics", "find", "calibration", "coverage", "reports"} {
		if kinds[kind] == 0 {
			t.Errorf("the crawl saw no page %q: %v", kind, kinds)
		}
	}
	if len(visited) < 150 {
		t.Errorf("only %d pages", len(visited))
	}
	// The page of each record shows all of it.
	st, err := h.source.State(t.Context())
	check(t, err)
	for seq := ledger.Seq(1); seq <= st.Head; seq++ {
		path := fmt.Sprintf("/events/%d", seq)
		_, body := h.get(path)
		checkInert(t, path, body)
	}
	// A page of rows has as many as it found records, whatever they hold.
	for before := ledger.Seq(60); before < 400; before += 60 {
		body := h.page(fmt.Sprintf("/events?before=%d", before))
		if n := len(rows.FindAllString(body, -1)); n != 51 {
			t.Errorf("before %d: %d rows of 50 records and a head", before, n)
		}
	}
	// Identifiers are in ASCII, so that none looks like another.
	body := h.page("/events?type=claim.recorded")
	for _, r := range tags.ReplaceAllString(body[strings.Index(body, "<tbody>"):], "") {
		if r > 0x7f && !strings.ContainsRune("…·→", r) && !unicode.Is(unicode.Cyrillic, r) && r != '\uff0e' && r != '\u2024' {
			t.Errorf("%q", r)
		}
	}
	found := regexp.MustCompile(`<td class="nowrap"><a href="/episodes/[^"]*">([^<]*)</a>`).FindAllStringSubmatch(body, -1)
	if len(found) == 0 {
		t.Error("no episode of a hostile claim")
	}
	for _, m := range found {
		for _, r := range html.UnescapeString(m[1]) {
			if r > '~' && r != '…' {
				t.Errorf("the episode's id %q is not in ASCII", m[1])
			}
		}
	}
}
