package ui

import (
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/plain"
	"assay/ledger"
	"assay/projector/metric"
)

// parsePages makes a template of each file of a directory, together with its layout and
// the parts that all pages share.
func parsePages(dir string) (map[string]*template.Template, error) {
	names, err := fs.Glob(files, dir+"/*.html")
	if err != nil {
		return nil, err
	}
	pages := make(map[string]*template.Template)
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := template.New(name).Funcs(funcs).ParseFS(files, dir+"/layout.html", "pages/parts.html", file)
		if err != nil {
			return nil, err
		}
		pages[name] = t
	}
	return pages, nil
}

var funcs = template.FuncMap{
	"id":       plain.ID,
	"brief":    brief,
	"when":     func(t time.Time) string { return shortTime(t) },
	"stamp":    stamp,
	"event":    eventPath,
	"path":     pathOf,
	"figure":   figureOf,
	"counted":  countedOf,
	"ratio":    ratioOf,
	"opt":      optional,
	"signed":   func(s State, seq ledger.Seq) bool { return seq <= s.Signed },
	"diagram":  diagramOf,
	"list":     func(v ...any) []any { return v },
	"px":       func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) },
	"minus":    func(v float64) float64 { return -v },
	"deref":    func(v *float64) float64 { return *v },
	"add":      func(a, b float64) float64 { return a + b },
	"beyond":   func(s State) ledger.Seq { return s.Head - min(s.Head, s.Signed) },
	"number":   short,
	"sections": func() []section { return sections },
}

// section is an entry of the navigation; Pages are the templates that belong to it.
type section struct {
	Path, Name string
	Pages      []string
}

// Has says whether the page of this name belongs to it.
func (s section) Has(name string) bool { return slices.Contains(s.Pages, name) }

var sections = []section{
	{"/", "Ledger", []string{"ledger"}},
	{"/events", "Events", []string{"events", "event", "find"}},
	{"/episodes", "Episodes", []string{"episodes", "episode"}},
	{"/predictions", "Predictions", []string{"predictions", "prediction"}},
	{"/calibration", "Calibration", []string{"calibration"}},
	{"/coverage", "Coverage", []string{"coverage"}},
	{"/metrics", "Metrics", []string{"metrics", "metric"}},
	{"/reports", "Reports", []string{"reports"}},
}

// brief is a text on one line, of limit bytes at most.
func brief(limit int, s any) string {
	text := fmt.Sprint(s)
	if p, ok := s.(*string); ok {
		if p == nil {
			return "not stated"
		}
		text = *p
	}
	out, cut := plain.Clip(text, limit)
	if out = plain.Line(out); cut {
		out += fmt.Sprintf(" … (%d bytes)", len(text))
	}
	return out
}

// optional is a number that may be unknown.
func optional(v *float64) string {
	if v == nil {
		return "not known"
	}
	return strconv.FormatFloat(*v, 'g', 6, 64)
}

// figureOf is a number with what it is made of, as explain has it.
func figureOf(n metric.Number) string {
	if n.Value == nil {
		return "not available"
	}
	text := strconv.FormatFloat(*n.Value, 'g', 6, 64)
	if n.Low != nil && n.High != nil {
		text += fmt.Sprintf(" [%.4g, %.4g]", *n.Low, *n.High)
	}
	return text
}

// countedOf is what a metric's value is made of, in whole parts of its unit.
func countedOf(name string, n metric.Number) string {
	text := strconv.FormatInt(n.Numerator, 10)
	if n.Denominator != nil {
		text += "/" + strconv.FormatInt(*n.Denominator, 10)
	}
	if m, err := metric.Find(name); err == nil && m.Per > 1 {
		text += fmt.Sprintf(" in 1/%d", m.Per)
	}
	return text
}

func ratioOf(r metric.Ratio) string {
	if r.Value == nil {
		return fmt.Sprintf("not available (%d/%d)", r.Numerator, r.Denominator)
	}
	return fmt.Sprintf("%.4g (%d/%d)", *r.Value, r.Numerator, r.Denominator)
}
