package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/plain"
	"assay/ledger"
	"assay/projector/view"
)

// Row is one record on one line. Its texts are harmless on a page or a terminal.
type Row struct {
	Seq        ledger.Seq `json:"seq"`
	RecordedAt string     `json:"recorded_at"`
	At         string     `json:"at"` // RecordedAt to the second
	Principal  string     `json:"principal"`
	Namespace  string     `json:"namespace"`
	Type       string     `json:"type"`
	Episode    string     `json:"episode"`
	Data       string     `json:"data"` // its beginning, without its context
	// To is the address of the episode's page, "" without one.
	To string `json:"to,omitzero"`
	// Foreign says that the logger did not write it: it is no record.
	Foreign bool `json:"foreign,omitzero"`
}

// rowData is how much of the data a row shows.
const rowData = 240

// parsed is a stored message, taken apart.
type parsed struct {
	seq   ledger.Seq
	rec   ledger.Record
	event *events.Event // without its payload; nil if the event does not decode
	err   error         // why it is no record
}

func parse(seq ledger.Seq, body []byte) parsed {
	p := parsed{seq: seq}
	if p.rec, p.err = ledger.ParseRecord(body); p.err != nil {
		return p
	}
	if ev, err := events.DecodeEnvelope(p.rec.Event); err == nil {
		p.event = ev
	}
	return p
}

// RowOf is the row of a stored message.
func RowOf(seq ledger.Seq, body []byte) Row {
	p := parse(seq, body)
	return p.row(body)
}

func (p *parsed) row(body []byte) Row {
	if p.err != nil {
		return Row{Seq: p.seq, Foreign: true, Data: begin(string(body))}
	}
	r := Row{
		Seq: p.seq, RecordedAt: ledger.FormatTime(p.rec.RecordedAt), At: shortTime(p.rec.RecordedAt),
		Principal: plain.ID(p.rec.Principal), Namespace: plain.ID(p.rec.Namespace),
	}
	if p.event == nil {
		r.Data = begin(string(p.rec.Event))
		return r
	}
	r.Type, r.Episode, r.Data = plain.ID(p.event.Type), plain.ID(p.event.EpisodeID), begin(summary(p.event.RawData))
	if r.Episode != "" {
		r.To = pathOf("episodes", p.keptIn(), p.event.EpisodeID)
	}
	return r
}

// keptIn is the namespace in which the views have the record: what was imported is an
// episode of its own beside the live one of the same id.
func (p *parsed) keptIn() string {
	var data struct {
		Context struct {
			Capture *string `json:"capture"`
		} `json:"context"`
	}
	if p.event == nil || !mayBeImport(p.event.RawData) || json.Unmarshal(p.event.RawData, &data) != nil {
		return p.rec.Namespace
	}
	return view.KeptIn(p.rec.Namespace, &events.Context{Capture: data.Context.Capture})
}

// mayBeImport spares most events a look at what they say: the word is there, or
// something escaped that might be it.
func mayBeImport(data []byte) bool {
	return bytes.Contains(data, []byte(`"`+events.WitnessImported+`"`)) || bytes.IndexByte(data, '\\') >= 0
}

// summary are the members of data but its context, which is alike in most events,
// as far as a row shows them.
func summary(data jsontext.Value) string {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if _, err := d.ReadToken(); err != nil {
		return string(data)
	}
	var b strings.Builder
	for d.PeekKind() == '"' && b.Len() <= rowData {
		name, err := d.ReadToken()
		if err != nil {
			return string(data)
		}
		member := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return string(data)
		}
		if member == "context" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" · ")
		}
		b.WriteString(member + " " + string(v))
	}
	return b.String()
}

func begin(s string) string {
	s, cut := plain.Clip(s, rowData)
	if s = plain.Line(s); cut {
		s += " …"
	}
	return s
}

// Filter picks records. An empty member lets everything through.
type Filter struct {
	Type      string // of the event; "claim.*" is all that begin with "claim."
	Principal string
	Namespace string
	Episode   string
}

// IsZero says that it lets everything through.
func (f Filter) IsZero() bool { return f == Filter{} }

// Passes says whether a stored message is picked; what is no record only by the
// filter that picks everything.
func (f Filter) Passes(body []byte) bool {
	if f.IsZero() {
		return true
	}
	_, ok := f.pick(0, body)
	return ok
}

// pick takes a stored message apart if the filter picks it.
func (f Filter) pick(seq ledger.Seq, body []byte) (p parsed, ok bool) {
	if !f.mayPass(body) {
		return p, false
	}
	p = parse(seq, body)
	return p, f.passes(&p)
}

// mayPass is false for most messages that are not picked, at a fraction of what taking
// them apart costs: what the filter wants must stand in the bytes, unless these have an
// escape, by which a text can be written otherwise.
func (f Filter) mayPass(body []byte) bool {
	stem, _ := strings.CutSuffix(f.Type, "*")
	for _, want := range []string{stem, f.Principal, f.Namespace, f.Episode} {
		if want != "" && !bytes.Contains(body, []byte(want)) {
			return bytes.IndexByte(body, '\\') >= 0
		}
	}
	return true
}

func (f Filter) passes(p *parsed) bool {
	if f.IsZero() {
		return true
	}
	if p.err != nil || p.event == nil {
		return false
	}
	typed := f.Type == "" || f.Type == p.event.Type
	if stem, ok := strings.CutSuffix(f.Type, "*"); ok {
		typed = strings.HasPrefix(p.event.Type, stem)
	}
	is := func(want, have string) bool { return want == "" || want == have }
	return typed && is(f.Principal, p.rec.Principal) && is(f.Namespace, p.rec.Namespace) && is(f.Episode, p.event.EpisodeID)
}

func filterOf(v url.Values) Filter {
	return Filter{Type: v.Get("type"), Principal: v.Get("principal"), Namespace: v.Get("namespace"), Episode: v.Get("episode")}
}

func (f Filter) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{"type": f.Type, "principal": f.Principal, "namespace": f.Namespace, "episode": f.Episode} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// lookBack is how many records Latest reads at a time.
const lookBack = 2048

// errEnough ends a read.
var errEnough = errors.New("enough")

// Latest finds the last records before before that f picks, the newest first, want at
// most. It reads no more than budget records; from is the first that it looked at, so
// that a search goes on before it. The bodies are whole.
func Latest(ctx context.Context, read func(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error,
	before ledger.Seq, f Filter, want, budget int,
) (found []Message, from ledger.Seq, err error) {
	if f.IsZero() {
		budget = min(budget, want)
	}
	from = before
	for from > 1 && budget > 0 && len(found) < want {
		to := from - 1
		n := ledger.Seq(min(lookBack, budget))
		first := to - min(n, to) + 1
		var page []Message
		err := read(ctx, first, to, func(seq ledger.Seq, body []byte) error {
			if f.Passes(body) {
				page = append(page, Message{seq, body})
			}
			return nil
		})
		if err != nil {
			return found, from, fmt.Errorf("read records %d to %d: %w", first, to, err)
		}
		slices.Reverse(page)
		if rest := want - len(found); len(page) > rest {
			found = append(found, page[:rest]...)
			return found, page[rest-1].Seq, nil
		}
		found = append(found, page...)
		budget -= int(to - first + 1)
		from = first
	}
	return found, from, nil
}

// Message is a stored message.
type Message struct {
	Seq  ledger.Seq
	Body []byte
}
