package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"assay/projector/metric"
)

// Drawings are SVG of fixed size, in user units. Templates put them together: what is
// computed here are numbers and paths alone, so that no text of others is ever markup.

// frame is the inner rectangle of a plot.
type frame struct{ Left, Top, Right, Bottom float64 }

var plotFrame = frame{64, 14, 744, 170}

const plotWidth, plotHeight = 760.0, 206.0

func (f frame) x(share float64) float64 { return f.Left + share*(f.Right-f.Left) }
func (f frame) y(share float64) float64 { return f.Bottom - share*(f.Bottom-f.Top) }

// W and H are the frame's width and height.
func (f frame) W() float64 { return f.Right - f.Left }
func (f frame) H() float64 { return f.Bottom - f.Top }

// tick is a labelled place of an axis.
type tick struct {
	At     float64
	Text   string
	Anchor string // class of the text: mid or end; "" begins at At
}

// drawing is the telemetry of one resolution.
type drawing struct {
	*Evidence
	Plots []plot
}

// plot is one clause: its samples, the value that they are held against, the window
// and the sample that decided.
type plot struct {
	Series
	Frame         frame
	Width, Height float64
	Path          string // samples joined in order of time
	Dots          []dot  // where there are few
	X1, X2        float64
	Threshold     *float64 // nil where the value is not on the axis of the samples
	Mark          *dot
	Times, Values []tick
	Summary       string // for those who do not see it
}

type dot struct{ X, Y float64 }

// fewPoints is up to how many samples each gets a dot of its own.
const fewPoints = 80

func drawingOf(e *Evidence) *drawing {
	d := &drawing{Evidence: e}
	for _, s := range e.Clauses {
		d.Plots = append(d.Plots, plotOf(s, e.Open, e.End))
	}
	return d
}

func plotOf(s Series, open, end time.Time) plot {
	p := plot{Series: s, Frame: plotFrame, Width: plotWidth, Height: plotHeight}
	from, to := open, end
	lo, hi := math.Inf(1), math.Inf(-1)
	see := func(v float64) { lo, hi = min(lo, v), max(hi, v) }
	for _, pt := range s.Points {
		if pt.At.Before(from) {
			from = pt.At
		}
		if pt.At.After(to) {
			to = pt.At
		}
		see(pt.Value)
	}
	if s.OnValue {
		see(s.Value)
	}
	if math.IsInf(lo, 0) {
		lo, hi = 0, 1
	}
	lo, hi = widen(lo, hi)
	x := func(t time.Time) float64 {
		return p.Frame.x(float64(t.Sub(from)) / float64(max(to.Sub(from), time.Nanosecond)))
	}
	y := func(v float64) float64 { return p.Frame.y((v/2 - lo/2) / (hi/2 - lo/2)) } // hi − lo may overflow
	p.X1, p.X2 = x(open), x(end)
	p.Path = steps(s.Points, x, y)
	if len(s.Points) <= fewPoints {
		for _, pt := range s.Points {
			p.Dots = append(p.Dots, dot{x(pt.At), y(pt.Value)})
		}
	}
	if s.OnValue {
		at := y(s.Value)
		p.Threshold = &at
	}
	if w := s.Witness; w != nil {
		p.Mark = &dot{x(w.At), y(w.Value)}
	}
	for i, anchor := range []string{"", "mid", "mid", "mid", "end"} {
		share := float64(i) / 4
		p.Times = append(p.Times, tick{p.Frame.x(share), clock(from.Add(time.Duration(share*float64(to.Sub(from)))), to.Sub(from)), anchor})
	}
	for i := range 3 {
		share := float64(i) / 2
		p.Values = append(p.Values, tick{p.Frame.y(share), short(lo*(1-share) + hi*share), "end"})
	}
	p.Summary = p.words(open, end)
	return p
}

// words say what the plot shows.
func (p *plot) words(open, end time.Time) string {
	text := fmt.Sprintf("%d samples of %s, window from %s to %s, %s: %s", len(p.Points), p.Signal, stamp(open), stamp(end), p.Test, p.Outcome)
	if w := p.Witness; w != nil {
		text += fmt.Sprintf(", decided by the sample %s at %s", short(w.Value), stamp(w.At))
	}
	return text
}

// widen makes room around a range of values, so that nothing lies on the frame.
func widen(lo, hi float64) (float64, float64) {
	half := hi/2 - lo/2
	if half <= 0 {
		half = max(math.Abs(hi), 1) / 2
	}
	return max(lo-half*0.16, -math.MaxFloat64), min(hi+half*0.16, math.MaxFloat64)
}

// steps joins samples by steps, since a value holds until the next one is taken.
func steps(points []Point, x func(time.Time) float64, y func(float64) float64) string {
	var b strings.Builder
	for i, pt := range points {
		if i == 0 {
			fmt.Fprintf(&b, "M%.1f %.1f", x(pt.At), y(pt.Value))
			continue
		}
		fmt.Fprintf(&b, "H%.1fV%.1f", x(pt.At), y(pt.Value))
	}
	return b.String()
}

// short is a number for an axis.
func short(v float64) string {
	a := math.Abs(v)
	if a >= 1e15 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if a >= unit.of {
			by := unit.of
			if unit.name == "k" {
				by = 1e3
			}
			return strconv.FormatFloat(v/by, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// clock is a time on an axis over a span of that length.
func clock(t time.Time, span time.Duration) string {
	switch {
	case span < 20*time.Second:
		return t.UTC().Format("15:04:05.000")
	case span < 24*time.Hour:
		return t.UTC().Format("15:04:05")
	}
	return t.UTC().Format("01-02 15:04")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

func shortTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// diagram is a reliability diagram.
type diagram struct {
	Size  float64
	Frame frame
	Bars  []reliabilityBar
	Ticks []tick // along x; those along y are the same shares
	Up    []tick
}

type reliabilityBar struct {
	N       int64
	X, Y, R float64 // dot at (mean probability, share), whose area grows with N
}

func diagramOf(bins []metric.Bin) diagram {
	d := diagram{Size: 360, Frame: frame{48, 12, 344, 308}}
	most := int64(1)
	for _, b := range bins {
		most = max(most, *b.Observed.Denominator)
	}
	for _, b := range bins {
		n := *b.Observed.Denominator
		d.Bars = append(d.Bars, reliabilityBar{n, d.Frame.x(*b.Stated.Value), d.Frame.y(*b.Observed.Value), 3 + 8*math.Sqrt(float64(n)/float64(most))})
	}
	for i := range 6 {
		share := float64(i) / 5
		text := strconv.FormatFloat(share, 'f', 1, 64)
		d.Ticks = append(d.Ticks, tick{d.Frame.x(share), text, "mid"})
		d.Up = append(d.Up, tick{d.Frame.y(share), text, "end"})
	}
	return d
}
