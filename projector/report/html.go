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

// A page shows at most so many groups of a metric, of arm_delta_scores four times as
// many, and fewer if it would be longer than a sheet of paper; the others stand in the
// JSON.
const (
	shownGroups = 8
	sheet       = 195 // lines of both columns
)

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
	Title, Name, Value, Interval, Parts, Reason, Last, All, AllInterval string

	Head bool // of the groups of a metric that follow
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
	for groups := shownGroups; groups > 0; groups-- {
		lines := 0
		p.Blocks = nil
		for i := range r.Blocks {
			b := r.Blocks[i].shown(groups)
			if i == 0 {
				b.Notes = append(r.runNotes(), b.Notes...)
			}
			p.Blocks = append(p.Blocks, b)
			lines += b.lines()
		}
		if lines <= sheet {
			break
		}
	}
	for _, q := range r.Questions {
		s := shownQuestion{Text: q.Text, Answer: q.Answer}
		if !r.Cap.Enough {
			s.Why = clip(q.Why, longest)
		}
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

// shown is a block as it is read. Of a metric's groups those are left out that have
// no value in any column, and those beyond as many as groups.
func (b *Block) shown(groups int) shownBlock {
	s := shownBlock{Title: b.Title, Of: strings.Join(b.Of, " · ")}
	for i := 0; i < len(b.Figures); {
		f := &b.Figures[i]
		end := i + 1
		for end < len(b.Figures) && b.Figures[end].Metric == f.Metric {
			end++
		}
		s.add(b.Figures[i:end], groups)
		i = end
	}
	for _, n := range b.Notes {
		s.Notes = append(s.Notes, clip(n, 2*longest))
	}
	s.Long = len(s.Rows) > 20
	return s
}

// lines is about how many lines of a column the block takes.
func (s *shownBlock) lines() int {
	const letters = 75 // in a line of a column
	n := 3
	for _, r := range s.Rows {
		n += max(1, (len(r.Name)+22)/23, (len(r.Reason)+34)/35)
	}
	for _, note := range s.Notes {
		n += (len(note) + letters - 1) / letters
	}
	return n
}

// add adds the rows of one metric: itself or a head, and its groups.
func (s *shownBlock) add(figures []Figure, groups int) {
	head := row{Title: figures[0].Question, Name: words(figures[0].Metric), Head: true}
	if figures[0].Group == "" {
		head, figures = figures[0].row(), figures[1:]
	}
	var rows []row
	for i := range figures {
		if f := &figures[i]; f.Week.Value != nil || f.All.Value != nil || f.LastWeek != nil && f.LastWeek.Value != nil {
			rows = append(rows, f.row())
		}
	}
	if head.Name == words(armScores) {
		groups *= 4
	}
	shown := rows[:min(len(rows), groups)]
	left := len(figures) - len(shown)
	switch others := fmt.Sprintf("%d other groups, %d of them with a value, are in the JSON", left, len(rows)-len(shown)); {
	case head.Head && len(rows) == 0:
		head.Reason = fmt.Sprintf("n/a: no group of %d has a value", len(figures))
	case head.Head && left > 0:
		head.Reason = others
	case left > 0:
		s.Notes = append(s.Notes, head.Name+": "+others+".")
	}
	s.Rows = append(append(s.Rows, head), shown...)
}

func (f *Figure) row() row {
	r := row{
		Title: f.Question, Name: f.name(), Value: f.value(f.Week.Value), Interval: f.interval(&f.Week.Number), Parts: f.parts(&f.Week.Number),
		Last: f.short(f.LastWeek), All: f.short(&f.All),
	}
	if f.Group != "" {
		r.AllInterval = f.interval(&f.All.Number)
	}
	if f.Week.Value == nil {
		r.Reason = "n/a: " + clip(f.Week.NotAvailable, longest)
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
	short := func(hash *string) string { // as much of it as tells two apart
		if hash == nil {
			return "?"
		}
		return plain((*hash)[:min(12, len(*hash))])
	}
	for _, run := range r.Runs {
		out = append(out, fmt.Sprintf("Last run of %s: %s, arm %s, bench %s, model %s %s, subject %s, scorer %s; isolation %s (record %d, %s).",
			plain(run.Split), clip(run.RunID, 40), clip(run.Arm, 24), or(run.BenchVersion), or(run.Model), or(run.ModelVersion), or(run.Subject),
			short(run.Scorer), run.Isolation, run.Seq, minute(run.RecordedAt)))
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
