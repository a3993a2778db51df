package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	escape "assay/internal/plain"
	"assay/projector/metric"
)

// longest is how many characters of a text that others wrote a page shows.
const longest = 120

// ours are the characters beyond ASCII that the catalogue and this package write.
const ours = "−–—≥≤²§…·"

// plain is a text as a page may show it: in one line, of bounded length, and of
// printable ASCII and our own signs alone. Whatever else a writer put in a name shows
// as its code point, so that no letter passes for another, and none turns the line
// around.
func plain(s string) string { return clip(s, longest) }

// tail is how much a text that is too long keeps of its end, where the name of a group
// says what it compares.
const tail = 24

// clip is plain with another length.
func clip(s string, most int) string {
	all := []rune(escape.Only(s, ours))
	if len(all) <= most {
		return string(all)
	}
	end := min(tail, most/3)
	return fmt.Sprintf("%s… (%d bytes) …%s", string(all[:most-end]), len(s), string(all[len(all)-end:]))
}

// words is the name of a metric as it is read.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// value is a number in the unit of its metric.
func (f *Figure) value(v *float64) string {
	if v == nil {
		return "n/a"
	}
	switch f.Unit {
	case "share":
		return percent(*v)
	case "USD":
		return dollars(*v)
	case "ms", "s", "days":
		return number(*v) + " " + f.Unit
	}
	return number(*v)
}

func dollars(v float64) string {
	if v < 0 {
		return "−" + dollars(-v)
	}
	return "$" + number(v)
}

func percent(v float64) string { return minusSign(strconv.FormatFloat(100*v, 'f', 1, 64)) + " %" }

// number shows four digits, and no fraction beyond a thousand.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return minusSign(thousands(strconv.FormatFloat(v, 'f', 0, 64)))
	}
	return minusSign(strconv.FormatFloat(v, 'g', 4, 64))
}

func thousands(s string) string {
	start := strings.IndexAny(s, "0123456789")
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func minusSign(s string) string { return strings.ReplaceAll(s, "-", "−") }

// interval is "[low, high]", or nothing.
func (f *Figure) interval(n *metric.Number) string {
	if n.Low == nil || n.High == nil {
		return ""
	}
	low, high := f.value(n.Low), f.value(n.High)
	if f.Unit == "share" {
		low = strings.TrimSuffix(low, " %")
	}
	return "[" + low + ", " + high + "]"
}

// parts are numerator and denominator of a ratio of things, of another value how many
// it is of.
func (f *Figure) parts(n *metric.Number) string {
	switch {
	case n.Denominator == nil:
		return ""
	case f.Form == metric.FormRatio && f.Per == 1:
		return fmt.Sprintf("%d/%d", n.Numerator, *n.Denominator)
	}
	return fmt.Sprintf("n=%d", *n.Denominator)
}

// short is value and parts in one text.
func (f *Figure) short(c *Cell) string {
	if c == nil || c.Value == nil {
		return "n/a"
	}
	return strings.TrimSpace(f.value(c.Value) + " " + f.parts(&c.Number))
}

// compact is a count in four characters.
func compact(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return strconv.FormatInt(n/1_000_000, 10) + "M"
}

// name is a metric's, or a group's.
func (f *Figure) name() string {
	if f.Group == "" {
		return words(f.Metric)
	}
	return "· " + plain(f.Group)
}

// minute is a time of the report without seconds, which a week's bounds do not have.
func minute(text string) string {
	if len(text) < len("2006-01-02T15:04") {
		return text
	}
	return strings.Replace(text[:len("2006-01-02T15:04")], "T", " ", 1) + " UTC"
}
