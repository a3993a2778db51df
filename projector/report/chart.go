package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"assay/projector/metric"
)

// Charts are drawn in a box of fixed size; colours come from the page, by class. Every
// number is written with one decimal, so that the same figures give the same bytes.
const (
	chartWidth, chartHeight = 240, 150
	left, right, top, foot  = 34, 8, 14, 26
	plotWidth               = chartWidth - left - right
	plotHeight              = chartHeight - top - foot
)

// canvas is an SVG that is being drawn. Values of both axes run from 0 to 1.
type canvas struct{ strings.Builder }

func newCanvas(title string) *canvas {
	c := &canvas{}
	fmt.Fprintf(c, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, chartHeight, title)
	return c
}

func x(v float64) float64 { return left + v*plotWidth }
func y(v float64) float64 { return top + (1-v)*plotHeight }

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x(x1), y(y1), x(x2), y(y2))
}

func (c *canvas) dot(v, w, r float64) {
	fmt.Fprintf(c, `<circle class="dot" cx="%.1f" cy="%.1f" r="%.1f"/>`, x(v), y(w), r)
}

func (c *canvas) text(anchor string, px, py float64, s string) {
	fmt.Fprintf(c, `<text text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, px, py, html.EscapeString(plain(s)))
}

// axes draws a frame with ticks of the vertical axis, and what both show.
func (c *canvas) axes(ticks [3]string, across string) {
	for i, t := range ticks {
		v := float64(i) / 2
		c.line("grid", 0, v, 1, v)
		c.text("end", left-4, y(v)+3, t)
	}
	c.line("axis", 0, 0, 0, 1)
	c.line("axis", 0, 0, 1, 0)
	c.text("middle", x(0.5), chartHeight-3, across)
}

func (c *canvas) end() string {
	c.WriteString("</svg>")
	return c.String()
}

// count says above the plot how many a point is of.
func (c *canvas) count(v float64, n int64) {
	c.text("middle", x(v), top-4, compact(n))
}

// reliabilityChart sets what happened against what was said, with the interval and how
// many there are at each point; "" without data.
func reliabilityChart(bins []metric.Bin) string {
	if len(bins) == 0 {
		return ""
	}
	c := newCanvas("Reliability diagram: share of predictions that were confirmed, by stated probability")
	c.axes([3]string{"0 %", "50 %", "100 %"}, "stated probability; dashed: what it promises")
	c.text("end", left-4, top-4, "n")
	for _, v := range []float64{0, 0.5, 1} {
		c.text("middle", x(v), y(0)+10, fmt.Sprintf("%.1f", v))
	}
	c.line("ideal", 0, 0, 1, 1)
	for _, b := range bins {
		p, share := *b.Stated.Value, *b.Observed.Value
		if b.Observed.Low != nil {
			c.line("whisker", p, *b.Observed.Low, p, *b.Observed.High)
		}
		c.dot(p, share, 2.6)
		if tenth, err := strconv.ParseFloat(b.Tenth[:min(3, len(b.Tenth))], 64); err == nil {
			c.count(tenth+0.05, *b.Observed.Denominator)
		}
	}
	return c.end()
}

// coverageChart is resolution coverage week by week; "" where no week has any.
func coverageChart(points []Point) string {
	c := newCanvas("Resolution coverage of claims by week")
	c.axes([3]string{"0 %", "50 %", "100 %"}, "week in which the claims were made")
	c.text("end", left-4, top-4, "n")
	seen, last := false, -1
	for i, p := range points {
		n := p.Coverage
		c.week(i, points)
		if n.Value == nil {
			continue
		}
		seen = true
		at := slot(i, points)
		if last >= 0 && last == i-1 {
			c.line("trend", slot(last, points), *points[last].Coverage.Value, at, *n.Value)
		}
		if n.Low != nil {
			c.line("whisker", at, *n.Low, at, *n.High)
		}
		c.dot(at, *n.Value, 2.6)
		c.count(at, *n.Denominator)
		last = i
	}
	if !seen {
		return ""
	}
	return c.end()
}

// costChart is what each week cost; "" where no week's is known.
func costChart(points []Point) string {
	most, seen := 0.0, false
	for _, p := range points {
		if v := p.Cost.Value; v != nil {
			most, seen = max(most, *v), true
		}
	}
	if !seen {
		return ""
	}
	scale := round(most)
	c := newCanvas("Cost by week in US dollars")
	c.axes([3]string{"$0", dollars(scale / 2), dollars(scale)}, "week of use")
	width := math.Min(0.6/float64(len(points)), 0.12)
	for i, p := range points {
		c.week(i, points)
		at := slot(i, points)
		if p.Cost.Value == nil {
			c.text("middle", x(at), y(0)-3, "n/a")
			continue
		}
		h := *p.Cost.Value / scale
		fmt.Fprintf(c, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x(at-width/2), y(h), width*plotWidth, h*plotHeight)
		if len(points) <= 6 || i == len(points)-1 {
			c.text("middle", min(x(at), x(1)-12), y(h)-3, dollars(*p.Cost.Value))
		}
	}
	return c.end()
}

// slot is the middle of a week's part of the horizontal axis.
func slot(i int, points []Point) float64 { return (float64(i) + 0.5) / float64(len(points)) }

// week labels every week, or every second one where there are many.
func (c *canvas) week(i int, points []Point) {
	every := (len(points) + 5) / 6
	if (len(points)-1-i)%every == 0 {
		_, week, _ := strings.Cut(points[i].Week, "-")
		c.text("middle", x(slot(i, points)), y(0)+10, week)
	}
}

// round is the next of 1, 2, 5, 10, 20, … at or above v, and 1 for 0.
func round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}
