// Package importer reads what other programs wrote down of an agent's work, and
// makes events of it: transcripts, evaluation logs, answers with their scores.
// It is pure: a reader goes in, events come out, in the order of the file.
//
// What is made is the same whenever the same file is read: an event's id follows
// from its content (maker.put), so that whoever publishes a file twice, or again
// after a crash, gets the first receipts and adds nothing. Every event says that
// it was imported (context.capture), which means that its place in the ledger
// proves nothing about when it was said.
//
// No line is fatal. A line that cannot be read is reported with its number, one
// that could be read only after something was mended is counted, and what a
// format has that no event type can hold is counted as left out.
package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/schema"
)

// Limits of what is read at once, in bytes.
const (
	// MaxLine is the longest line, and the longest element of a list.
	MaxLine = 16 << 20
	// MaxDocument is the largest file of a format that is one document.
	MaxDocument = 64 << 20
)

// What a report holds at most; all is counted.
const (
	maxListed = 100 // bad lines
	maxLeft   = 100 // kinds of what was left out; the others are one
)

// unknownTime is the envelope's time where the source has none: an envelope has to
// have one, and it has to be the same at the next import.
const unknownTime = "1970-01-01T00:00:00Z"

// ErrFormat means that a file is not of the format at all.
var ErrFormat = errors.New("not of this format")

// format is one kind of file.
type format struct {
	name string
	// read reads all of in. What it returns as an error ends the import: the reader's
	// own, the sink's, and ErrFormat.
	read func(m *maker, in io.Reader) error
}

// formats is the table of formats. One that is added here is read by the command.
var formats = []format{
	{"claude-code", readClaude},
	{"codex", readCodex},
	{"handoff", readHandoff},
	{"holmesgpt", readHolmes},
	{"inspect", readInspect},
	{"jsonl", readOwn},
	{"openrca", readOpenRCA},
	{"otlp", readOTLP},
}

// Formats lists the names of the formats.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// Config says how a file is read.
type Config struct {
	Format string
	// Source names the file where its content has no name of its own. The same file
	// under another name is then another one.
	Source string
	// May says which event types the principal may write. The others are left out.
	May func(typ string) bool
	// Keep stores content that does not belong into the ledger itself, such as what a
	// user typed, and gives its dataref: the same for the same content. Nil: it is
	// left out.
	Keep func(content string) (ref string, err error)
	// Put takes an event in its final form, which schema.Check accepts.
	Put func(e Event) error
}

// Event is an event with the line that completed it.
type Event struct {
	Line int64 // from 1; of a document's element, its place
	Type string
	Raw  []byte
}

// Report is what was made of a file.
type Report struct {
	Lines  int64            `json:"lines"` // or elements of a document; empty lines are none
	Events map[string]int64 `json:"events"`
	// Left counts what no event was made of: types that the principal may not write,
	// and what of a format has no event type.
	Left map[string]int64 `json:"left"`
	// Mended counts lines that were read after a repair, and members that had to be
	// left unknown or changed, by kind.
	Mended map[string]int64 `json:"mended"`
	Bad    map[string]int64 `json:"bad"`    // lines that were not read, by kind
	Listed []Fault          `json:"listed"` // the first bad lines
}

// Fault is a bad line.
type Fault struct {
	Line    int64  `json:"line"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Count is how many bad lines there are.
func (r *Report) Count() (n int64) {
	for _, k := range r.Bad {
		n += k
	}
	return n
}

// Read reads a file of one format. The report is good beside an error too: what was
// put before it is put.
func Read(in io.Reader, cfg Config) (Report, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == cfg.Format })
	if i < 0 {
		return Report{}, fmt.Errorf("%q is no format: want one of %s", cfg.Format, strings.Join(Formats(), ", "))
	}
	m := &maker{cfg: cfg, report: Report{
		Events: map[string]int64{}, Left: map[string]int64{}, Mended: map[string]int64{}, Bad: map[string]int64{}, Listed: []Fault{},
	}}
	err := formats[i].read(m, in)
	return m.report, err
}

// maker makes the events of one file.
type maker struct {
	cfg    Config
	report Report
	line   int64
	last   time.Time // of the line before
}

// Kinds of repairs.
const (
	mendedBOM       = "bom"            // a byte order mark before the first line
	mendedNUL       = "nul"            // zero bytes around a line
	mendedUTF8      = "bad_utf8"       // each bad byte is U+FFFD
	mendedSurrogate = "lone_surrogate" // half of a pair is U+FFFD
	mendedID        = "changed_id"     // an id that the ledger cannot hold is its hash
	mendedMissingID = "missing_id"     // one was made from the place in the file
	mendedTime      = "bad_time"       // unknown
	mendedNoTime    = "no_time"        // the envelope has 1970, all others are null
	mendedBack      = "clock_back"     // kept as it is
	mendedCut       = "cut_text"       // longer than the ledger's text may be
	mendedNumber    = "bad_number"     // a count that is none; unknown
	mendedOpen      = "no_result"      // a call without its result; its status is unknown
	mendedLate      = "late_result"    // a result without its call; left out
	mendedRepeat    = "repeated"       // a call or result that came before; the first counts
	mendedScore     = "other_score"    // our scorer differs from the published score
)

// Kinds of bad lines.
const (
	badJSON      = "bad_json"
	badDuplicate = "duplicate_key"
	badTruncated = "truncated" // it ends within the value
	badLong      = "too_long"
	badUTF16     = "utf16"
	badShape     = "bad_shape" // JSON, but not what the format has there
	badEvent     = "bad_event" // what was made of it breaks a rule of the schema
	badRow       = "bad_row"
)

func (m *maker) mended(kind string)    { m.report.Mended[kind]++ }
func (m *maker) bad(kind, text string) { m.badAt(m.line, kind, text) }

// left counts what no event is made of. Its name is often the file's own word, of which
// only so many are told apart.
func (m *maker) left(what string) {
	what = clip(what, 64)
	if _, known := m.report.Left[what]; !known && len(m.report.Left) >= maxLeft {
		what = "other"
	}
	m.report.Left[what]++
}

func (m *maker) badAt(line int64, kind, text string) {
	m.report.Bad[kind]++
	if len(m.report.Listed) < maxListed {
		m.report.Listed = append(m.report.Listed, Fault{line, kind, clip(text, 300)})
	}
}

// draft is an event before it has an id.
type draft struct {
	data    events.Payload
	time    *string // nil: unknown
	episode string
	trace   string // the envelope's correlationid; "" is none
	content string // to be kept by dataref; "" is none
	line    int64  // 0: the current one
	// at tells apart what would else be one event said twice, where nothing in the
	// event does: a place in the file.
	at string
}

// at is the current place in the file.
func (m *maker) at(part ...string) string {
	return strings.Join(append([]string{m.cfg.Source, strconv.FormatInt(m.line, 10)}, part...), "\x00")
}

// unless is the place in the file where there is no time to tell two alike apart.
func (m *maker) unless(at *string) string {
	if at != nil {
		return ""
	}
	return m.at()
}

// put gives an event its id and hands it on. The id is a hash of all that the event
// says: the same fact is the same event, whatever file it is read from, and what
// was told otherwise is another event rather than a conflict.
func (m *maker) put(d draft) error {
	typ := d.data.Type()
	if !m.cfg.May(typ) {
		m.left(typ)
		return nil
	}
	imported := "imported"
	d.data.Common().Capture = &imported
	data, err := json.Marshal(d.data)
	if err != nil {
		return fmt.Errorf("import %s: %w", typ, err)
	}
	e := &events.Event{Type: typ, Source: "urn:assay:import:" + m.cfg.Format, EpisodeID: d.episode, CorrelationID: d.trace, Time: unknownTime, RawData: data}
	if d.time != nil {
		e.Time = *d.time
	}
	version, _ := schema.Version(typ)
	e.DataSchema = events.DataSchema(typ, version)
	if d.content != "" && m.cfg.Keep != nil {
		if e.DataRef, err = m.cfg.Keep(d.content); err != nil {
			return fmt.Errorf("import %s: %w", typ, err)
		}
	}
	e.ID = events.DerivedID("import", m.cfg.Format, typ, e.Time, e.EpisodeID, e.DataRef, string(data), d.at).String()
	raw, err := events.Encode(e)
	if err != nil {
		return fmt.Errorf("import %s: %w", typ, err)
	}
	line := d.line
	if line == 0 {
		line = m.line
	}
	return m.send(line, typ, raw)
}

// send checks an event as the ledger will and hands it on.
func (m *maker) send(line int64, typ string, raw []byte) error {
	if _, fault := schema.Check(raw); fault != nil {
		m.badAt(line, badEvent, typ+": "+fault.Error())
		return nil
	}
	m.report.Events[typ]++
	return m.cfg.Put(Event{Line: line, Type: typ, Raw: raw})
}

// timestamp is a time as the ledger writes it; nil where there is none or it is none.
func (m *maker) timestamp(s string) *string {
	if s == "" {
		m.mended(mendedNoTime)
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		m.mended(mendedTime)
		return nil
	}
	if t.Before(m.last) {
		m.mended(mendedBack)
	}
	m.last = t
	out := events.FormatTime(t)
	return &out
}

// id is an identifier as the ledger can hold it; "" stays what it is.
func (m *maker) id(s string) string {
	id := events.Identifier(s)
	if id != s {
		m.mended(mendedID)
	}
	return id
}

// known is id, nil for "".
func (m *maker) known(s string) *string {
	if s = m.id(s); s == "" {
		return nil
	}
	return &s
}

// name is a short name, cut where it is longer than one may be; nil for "".
func (m *maker) name(s string) *string { return m.text(s, 256) }

// text is inline text of at most limit characters; nil for "".
func (m *maker) text(s string, limit int) *string {
	if s == "" {
		return nil
	}
	out := clip(s, limit)
	if out != s {
		m.mended(mendedCut)
	}
	return &out
}

// clip cuts a text at a number of characters.
func clip(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}
		n++
	}
	return s
}

// number is a count in a JSON number; nil where it is unknown or no count.
func (m *maker) number(v *float64) *int64 {
	if v == nil {
		return nil
	}
	if *v < 0 || *v > 1<<53 || *v != float64(int64(*v)) {
		m.mended(mendedNumber)
		return nil
	}
	n := int64(*v)
	return &n
}

// amount is a number that is not negative; nil where it is unknown or negative.
func (m *maker) amount(v *float64) *float64 {
	if v != nil && *v < 0 {
		m.mended(mendedNumber)
		return nil
	}
	return v
}

// sum adds what is stated; nil where nothing is.
func sum(parts ...*int64) *int64 {
	var total *int64
	for _, p := range parts {
		if p == nil {
			continue
		}
		if total == nil {
			total = new(int64)
		}
		*total += *p
	}
	return total
}

// whole adds two counts; nil where one of them is unknown.
func whole(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return ptr(*a + *b)
}

func hashOf[T ~string | ~[]byte](content T) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}

// opaque is a case id that follows from what the case is.
func opaque(parts ...string) string {
	id := events.DerivedID(append([]string{"case"}, parts...)...)
	return hex.EncodeToString(id[:])
}

func ptr[T any](v T) *T { return &v }
