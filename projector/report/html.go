package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// shownGroups is how many groups of a metric a page shows; the others stand in the
// JSON.
const shownGroups = 8

// page is a report as it is read: texts that are plain, in the order of the page.
type page struct {
	Namespace, Week, Bounds, Before, Cap string
	Charts                               []chart
	Blocks                               []shownBlock
	Questions                            []shownQuestion
	Stand, Note, Versions                string
}

type chart struct {
	Title, None string
	SVG         template.HTML // of newCanvas, whose texts are escaped
}

type shownBlock struct {
	Title, Of string
	Long      bool // may be broken between columns
	Rows      []row
	Notes     []string
}

type row struct {
	Title, Name, Value, Interval, Parts, Reason, Last, All string
}

type shownQuestion struct {
	Text      string
	Answer    Answer
	Why       string
	Endpoints []string
}

// HTML is the report as one page that needs nothing else: no script, no request, and
// one sheet of A4 when it is printed.
func (r *Report) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, r.page())
	return b.Bytes(), err
}

func (r *Report) page() *page {
	p := &page{Namespace: plain(r.Namespace), Week: plain(r.Week.ID), Cap: clip(r.Cap.Says, 2*longest), Charts: r.charts(), Versions: r.versions()}
	p.Bounds = fmt.Sprintf("%s to %s, %g hours in %s; records %d to %d.",
		minute(r.Week.Start), minute(r.Week.End), r.Week.Hours, plain(r.Week.Zone), r.Week.From, r.Week.Closed-1)
	p.Before = "The ledger closed no week directly before it."
	if w := r.LastWeek; w != nil {
		p.Before = fmt.Sprintf("Last week is %s, records %d to %d.", plain(w.ID), w.From, w.Closed-1)
	}
	for i := range r.Blocks {
		p.Blocks = append(p.Blocks, r.Blocks[i].shown())
	}
	p.Blocks[0].Notes = append(r.runNotes(), p.Blocks[0].Notes...)
	for _, q := range r.Questions {
		s := shownQuestion{Text: q.Text, Answer: q.Answer, Why: clip(q.Why, 2*longest)}
		for i := range q.Endpoints {
			s.Endpoints = append(s.Endpoints, q.Endpoints[i].shown())
		}
		p.Questions = append(p.Questions, s)
	}
	p.Stand, p.Note = r.stand()
	return p
}

func (r *Report) charts() []chart {
	return []chart{
		{"Reliability, whole ledger", "No data: no scorable prediction has a verdict.", template.HTML(reliabilityChart(r.Reliability))},
		{"Resolution coverage by week", "No data: no claim of these weeks is older than seven days.", template.HTML(coverageChart(r.Trend))},
		{"Cost by week", "No data: what these weeks cost is not known.", template.HTML(costChart(r.Trend))},
	}
}

func (b *Block) shown() shownBlock {
	s := shownBlock{Title: b.Title, Of: strings.Join(b.Of, " · ")}
	groups := map[string]int{} // of a metric
	for i := range b.Figures {
		f := &b.Figures[i]
		if groups[f.Metric]++; groups[f.Metric] > shownGroups {
			continue
		}
		if f.Group != "" && groups[f.Metric] == 1 {
			s.Rows = append(s.Rows, row{Title: f.Question, Name: words(f.Metric) + ":"})
		}
		s.Rows = append(s.Rows, f.row())
	}
	for _, name := range sortedKeys(groups) {
		if more := groups[name] - shownGroups; more > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: %d other groups are in the JSON.", words(name), more))
		}
	}
	for _, n := range b.Notes {
		s.Notes = append(s.Notes, clip(n, 2*longest))
	}
	s.Long = len(s.Rows) > 20
	return s
}

func (f *Figure) row() row {
	r := row{
		Title: f.Question, Name: f.name(), Value: f.value(f.Week.Value), Interval: f.interval(&f.Week.Number), Parts: f.parts(&f.Week.Number),
		Last: f.short(f.LastWeek), All: f.short(&f.All),
	}
	if f.Week.Value == nil {
		r.Reason = "not available: " + clip(f.Week.NotAvailable, longest)
	}
	return r
}

// runNotes say what was run last in each split, and with what.
func (r *Report) runNotes() (out []string) {
	or := func(s *string) string {
		if s == nil {
			return "?"
		}
		return clip(*s, 24)
	}
	for _, run := range r.Runs {
		out = append(out, fmt.Sprintf("Last run of %s: %s, arm %s, bench %s, model %s %s, subject %s, scorer %s; isolation %s (record %d, %s).",
			plain(run.Split), clip(run.RunID, 40), clip(run.Arm, 24), or(run.BenchVersion), or(run.Model), or(run.ModelVersion), or(run.Subject),
			clip(or(run.Scorer), 12), run.Isolation, run.Seq, minute(run.RecordedAt)))
	}
	if len(out) == 0 {
		out = append(out, "No bench run is in the ledger.")
	}
	return out
}

// shown is an endpoint in one line.
func (e *Endpoint) shown() string {
	text := e.Text + ": " + string(e.Answer) + ", " + e.Why
	if r := e.Registration; r != nil {
		text += fmt.Sprintf(" (registered as %s in record %d: %s, %s is better, effect %g, margin %g, %d clusters)",
			plain(r.PreregID), r.Seq, plain(r.Measure), plain(r.Better), r.Effect, r.Margin, r.N)
	}
	for _, g := range e.Figures {
		f := Figure{Metric: g.Metric, Group: g.Group}
		text += fmt.Sprintf("; %s %s = %s", g.Metric, plain(g.Group), strings.TrimSpace(f.short(&Cell{Number: g.Number})+" "+f.interval(&g.Number)))
	}
	return text
}

// stand says what the report rests on, and the signed note.
func (r *Report) stand() (text, note string) {
	text = fmt.Sprintf("Computed from the ledger up to record %d (leaf %s).", r.At.Seq, r.At.Leaf)
	switch c := r.Checkpoint; {
	case c == nil:
		text += " No checkpoint was found: nothing of it is known to be signed."
	case c.Covers:
		text += fmt.Sprintf(" All of it is in the checkpoint of size %d, root %s:", c.Size, c.Root)
	default:
		text += fmt.Sprintf(" Of these records only those up to %d are in the last checkpoint, root %s; what comes later is not final:", c.Size, c.Root)
	}
	if r.Checkpoint != nil {
		note = visibleLines(r.Checkpoint.Note)
	}
	return text, note
}

// visibleLines is a note line by line.
func visibleLines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, plain(strings.TrimSuffix(line, "\n")))
	}
	return strings.Join(out, "\n")
}

// versions are those of everything that was computed with.
func (r *Report) versions() string {
	text := fmt.Sprintf("Report %d, catalogue %d, scorer %d; views", r.V, r.Catalogue, r.Scorer)
	for _, v := range r.At.Versions {
		text += fmt.Sprintf(" %s/%d", v.Projection, v.Version)
	}
	if len(r.Repair) > 0 {
		text += "; tools of class repair: " + plain(strings.Join(r.Repair, ", "))
	}
	return text + "."
}
