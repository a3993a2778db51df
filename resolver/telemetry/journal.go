package telemetry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/resolver/criterion"
)

// ErrEntry means that a line is no journal entry in JSON.
var ErrEntry = errors.New("malformed journal entry")

// maxJournals is how many journals are told apart that stand mixed in one.
const maxJournals = 64

// journalLoss are the MESSAGE_IDs by which journald says that it has less than
// it was given.
var journalLoss = []string{
	"a596d6fe7bfa4994828e72309e95d61e", // a unit's messages were suppressed
	"e9bf28e6e834481bb6f48f548ad13606", // kernel messages were missed
}

// journalEntry is one entry. The number counts within the journal of that id,
// across boots and files.
type journalEntry struct {
	cursor  string
	journal string // 32 hex digits
	seq     uint64
	boot    string // 32 hex digits
	time    time.Time
	fields  map[string]jsontext.Value
}

// parseJournalEntry reads a line of journalctl -o json. Journal, number and
// boot are those of the members that say so, else of the cursor
// (s=<journal>;i=<number in hex>;b=<boot>;…), as before systemd 254.
func parseJournalEntry(line []byte) (journalEntry, error) {
	var e journalEntry
	if err := json.Unmarshal(line, &e.fields); err != nil {
		return e, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	e.cursor = e.one("__CURSOR")
	c, err := parseCursor(e.cursor)
	if err != nil {
		return e, err
	}
	e.journal, e.seq, e.boot = c.journal, c.seq, c.boot
	if id, n := e.one("__SEQNUM_ID"), e.one("__SEQNUM"); id != "" && n != "" {
		e.journal = id
		if e.seq, err = strconv.ParseUint(n, 10, 64); err != nil {
			return e, fmt.Errorf("%w: __SEQNUM %.40q", ErrEntry, n)
		}
	}
	if boot := e.one("_BOOT_ID"); boot != "" {
		e.boot = boot
	}
	us, err := strconv.ParseInt(e.one("__REALTIME_TIMESTAMP"), 10, 64)
	e.time = time.UnixMicro(us).UTC()
	switch {
	case err != nil || !criterion.IsEventTime(e.time):
		return e, fmt.Errorf("%w: no __REALTIME_TIMESTAMP", ErrEntry)
	case !isID128(e.journal) || !isID128(e.boot) || e.seq == 0:
		return e, fmt.Errorf("%w: no identity in %.200q", ErrEntry, e.cursor)
	}
	return e, nil
}

// journalCursor is what a cursor says of its entry.
type journalCursor struct {
	journal, boot string
	seq           uint64
	time          time.Time
}

func parseCursor(s string) (journalCursor, error) {
	var c journalCursor
	for part := range strings.SplitSeq(s, ";") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "s":
			c.journal = value
		case "b":
			c.boot = value
		case "i":
			n, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				return c, fmt.Errorf("%w: cursor %.200q", ErrEntry, s)
			}
			c.seq = n
		case "t":
			us, err := strconv.ParseInt(value, 16, 64)
			if err != nil {
				return c, fmt.Errorf("%w: cursor %.200q", ErrEntry, s)
			}
			c.time = time.UnixMicro(us).UTC()
		}
	}
	if s == "" {
		return c, fmt.Errorf("%w: no cursor", ErrEntry)
	}
	return c, nil
}

func isID128(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 32
}

// one is the value of a field that has one; "" for any other.
func (e *journalEntry) one(field string) string {
	if v := e.values(field); len(v) == 1 {
		return v[0]
	}
	return ""
}

// values are those of a field: a string, an array of bytes where it is not
// printable, null where it is too large to be shown, or an array of such.
// What is too large is left out; nothing that a registry can name is.
func (e *journalEntry) values(field string) []string {
	raw, ok := e.fields[field]
	if !ok {
		return nil
	}
	if s, ok := journalValue(raw); ok {
		return []string{s}
	}
	var list []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []string
	for _, raw := range list {
		if s, ok := journalValue(raw); ok {
			out = append(out, s)
		}
	}
	return out
}

func journalValue(raw jsontext.Value) (string, bool) {
	switch raw.Kind() {
	case '"':
		var s string
		return s, json.Unmarshal(raw, &s) == nil
	case '[':
		var numbers []uint16 // of uint8 the library makes base64
		if json.Unmarshal(raw, &numbers) != nil {
			return "", false
		}
		out := make([]byte, len(numbers))
		for i, n := range numbers {
			if n > math.MaxUint8 {
				return "", false
			}
			out[i] = byte(n)
		}
		return string(out), true
	}
	return "", false
}

// JournalState is where a journal was read up to. A reader that resumes from
// it repeats what came after, with the same identities.
type JournalState struct {
	V      int64     `json:"v"` // 1
	Cursor string    `json:"cursor"`
	Until  time.Time `json:"until,omitzero"` // no entry before it shows the journal whole
}

// Journal turns the entries of a journal, in the journal's order, into
// samples: one for each entry that matches a signal, and heartbeats.
//
// A sample is identified by journal, boot and number of its entry, never by
// time. A heartbeat is the time of an entry, of any that came where it has no
// match. It vouches for the entries around it, so it is held back (hold) until
// nothing can be found missing there any more:
//
//   - journald tells of messages that it suppressed up to its rate-limit
//     interval later, once their unit speaks again;
//   - numbers that are left out mean entries that were removed unread, or lines
//     that could not be read.
type Journal struct {
	source  string
	signals []criterion.Signal
	own     *criterion.Signal // the heartbeat that any entry is, nil for none
	spacing time.Duration     // between two marks of how far it was read

	last   map[string]uint64 // newest number by journal
	prev   time.Time         // of the entry before
	mark   time.Time         // the newest
	hold   hold              // with journald's rate-limit interval for lateness
	cursor string            // everything up to it is vouched for
	read   string            // newest entry

	leftOut uint64
}

// NewJournal makes the reader of a journald source with its signals, which goes
// on from a state; the zero state is a start without one.
func NewJournal(src criterion.Source, signals []criterion.Signal, from JournalState) (*Journal, error) {
	j := &Journal{
		source: src.Name, last: make(map[string]uint64), hold: newHold(signals, src.RateLimit),
		spacing: criterion.OwnHeartbeat(signals).Interval / 4, cursor: from.Cursor, read: from.Cursor,
	}
	j.hold.until = from.Until
	for _, s := range signals {
		if len(s.Match) == 0 {
			j.own = &s
			continue
		}
		j.signals = append(j.signals, s)
	}
	if from.Cursor == "" {
		return j, nil
	}
	c, err := parseCursor(from.Cursor)
	if err != nil {
		return nil, fmt.Errorf("resume journal: %w", err)
	}
	j.last[c.journal], j.prev = c.seq, c.time
	return j, nil
}

// State is where a reader may resume once the samples of every Add are sent.
func (j *Journal) State() JournalState { return JournalState{1, j.cursor, j.hold.until} }

// Read is the cursor of the newest entry, "" for none.
func (j *Journal) Read() string { return j.read }

// LeftOut counts matching entries that no sample can stand for, Gaps the places
// at which entries are missing.
func (j *Journal) LeftOut() uint64 { return j.leftOut }
func (j *Journal) Gaps() uint64    { return j.hold.gaps }

// Doubt says why heartbeats are withheld; nothing while they are not.
func (j *Journal) Doubt() string { return j.hold.doubt(j.prev) }

// Add takes the next line, at the clock's time, and returns the samples to
// send. ErrEntry needs no more care: the number that is missing then makes the
// line a gap.
func (j *Journal) Add(line []byte, now time.Time) ([]Sample, error) {
	e, err := parseJournalEntry(line)
	if err != nil {
		return nil, err
	}
	j.read = e.cursor
	if !j.follows(&e) {
		j.gap(j.prev, e.time, "entries are missing")
	}
	if e.time.Sub(now) > DefaultMaxAhead {
		// The clock went back since. Nobody takes a sample of that time.
		j.gap(j.prev, now, "an entry is dated ahead of the clock")
		j.prev = now
		return nil, nil
	}
	if slices.Contains(journalLoss, e.one("MESSAGE_ID")) {
		j.gap(e.time.Add(-j.hold.lateness), e.time, "journald dropped messages")
	}
	j.prev = e.time
	h := held{mark: e.cursor, time: e.time}
	for i := range j.signals {
		j.match(&j.signals[i], &e, &h)
	}
	tick := e.time.Sub(j.mark).Abs() >= j.spacing
	if tick {
		j.mark = e.time
		if j.own != nil {
			h.beats = append(h.beats, j.sample(j.own, &e, nil, 1))
		}
	}
	if tick || len(h.samples) > 0 || len(h.beats) > 0 {
		j.hold.add(h)
	}
	due, n := j.hold.due(e.time)
	if n > 0 {
		j.cursor = j.hold.drop(n)
	}
	return slices.Concat(h.samples, due), nil
}

// follows says whether no entry is missing before e. What was read before may
// come again. Of a journal that appears nobody knows what came before, unless
// nothing was read at all.
func (j *Journal) follows(e *journalEntry) bool {
	last, known := j.last[e.journal]
	first := len(j.last) == 0
	if !known && len(j.last) >= maxJournals {
		clear(j.last)
	}
	j.last[e.journal] = max(last, e.seq)
	return first || known && e.seq-1 <= last
}

// gap withholds the heartbeats around a time in which entries are missing.
func (j *Journal) gap(from, to time.Time, why string) {
	j.hold.gap(from, to, fmt.Sprintf("%s between %s and %s", why, from.Format(time.RFC3339), to.Format(time.RFC3339)))
}

// match adds the entry's sample of a signal, if it is one.
func (j *Journal) match(s *criterion.Signal, e *journalEntry, h *held) {
	for field, want := range s.Match {
		if !slices.Contains(e.values(field), want) {
			return
		}
	}
	value := 1.0
	if s.ValueField != "" {
		var err error
		if value, err = strconv.ParseFloat(e.one(s.ValueField), 64); err != nil {
			j.leftOut++ // a tick without a sample is a gap already
			return
		}
	}
	labels := make(map[string]string)
	for name, field := range s.LabelsFrom {
		values := e.values(field)
		slices.Sort(values)
		switch values = slices.Compact(values); {
		case len(values) > 1:
			// It belongs to a series, and nobody can say to which.
			j.leftOut++
			j.gap(e.time, e.time, "an entry has several values for the label "+name)
			return
		case len(values) == 1:
			labels[name] = values[0]
		}
	}
	if criterion.CheckLabels(labels) != nil {
		j.leftOut++ // of a series that no criterion can name
		return
	}
	sample := j.sample(s, e, labels, value)
	if j.hold.beats[s.Name] {
		h.beats = append(h.beats, sample)
		return
	}
	h.samples = append(h.samples, sample)
}

func (j *Journal) sample(s *criterion.Signal, e *journalEntry, labels map[string]string, value float64) Sample {
	return Sample{
		Source: j.source, Stream: streamOf("journal", s.Name, labels, e.journal+"\n"+e.boot), Seq: e.seq,
		Signal: s.Name, Labels: labels, Time: e.time, Value: value,
	}
}
