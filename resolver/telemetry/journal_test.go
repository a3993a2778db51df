package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/resolver/criterion"
)

const (
	journalA = "0123456789abcdef0123456789abcdef"
	journalB = "fedcba9876543210fedcba9876543210"
	bootA    = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	bootB    = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

const journalRegistry = `{"v":1,"sources":[{"name":"journal","kind":"journald","rate_limit":"10s"}],"signals":[
 {"name":"journal_up_to","source":"journal","unit":"1","kind":"gauge","heartbeat":"journal_up_to","writer":"sensor/journal",
  "interval":"1s","max_staleness":"10s","coverage_floor":0.6,"max_gap":"3s","allowed_lateness":"0s","max_skew":"0s","lo":1,"hi":1},
 {"name":"oom","source":"journal","unit":"1","kind":"event","heartbeat":"journal_up_to","writer":"sensor/journal",
  "interval":"1s","max_staleness":"10s","coverage_floor":0.6,"max_gap":"3s","allowed_lateness":"0s","max_skew":"0s",
  "match":{"_SYSTEMD_UNIT":"x.service","MESSAGE_ID":"fe6faa94e7774663a0da52717891d8ef"},"labels_from":{"result":"RESULT"}},
 {"name":"heap","source":"journal","unit":"KiB","kind":"gauge","heartbeat":"journal_up_to","writer":"sensor/journal",
  "interval":"1s","max_staleness":"10s","coverage_floor":0.6,"max_gap":"2s","allowed_lateness":"0s","max_skew":"0s",
  "match":{"_SYSTEMD_UNIT":"x.service"},"value_field":"HEAP_KB"}]}`

var oom = map[string]any{"_SYSTEMD_UNIT": "x.service", "MESSAGE_ID": "fe6faa94e7774663a0da52717891d8ef", "RESULT": "killed"}

func mustRegistry(t testing.TB, raw string) *criterion.Registry {
	t.Helper()
	reg, err := criterion.ParseRegistry([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func mustJournal(t testing.TB, from JournalState) *Journal {
	t.Helper()
	reg := mustRegistry(t, journalRegistry)
	j, err := NewJournal(reg.Source("journal"), reg.SignalsOf("journal"), from)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// testEntry is an entry before it becomes a line.
type testEntry struct {
	journal, boot string
	seq           uint64
	time          time.Time
	fields        map[string]any
}

func (e testEntry) line(t testing.TB) []byte {
	t.Helper()
	fields := map[string]any{
		"__CURSOR": fmt.Sprintf("s=%s;i=%x;b=%s;m=5;t=%x;x=1f", e.journal, e.seq, e.boot, e.time.UnixMicro()),
		"_BOOT_ID": e.boot, "__REALTIME_TIMESTAMP": fmt.Sprint(e.time.UnixMicro()), "__MONOTONIC_TIMESTAMP": "5",
		"MESSAGE": "text",
	}
	maps.Copy(fields, e.fields)
	raw, err := json.Marshal(fields, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var journalStart = time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)

// testJournal is one entry a second.
func testJournal(seconds int) []testEntry {
	out := make([]testEntry, seconds)
	for i := range out {
		out[i] = testEntry{journalA, bootA, uint64(i + 1), journalStart.Add(time.Duration(i) * time.Second), nil}
	}
	return out
}

func addAll(t testing.TB, j *Journal, entries []testEntry) []Sample {
	t.Helper()
	var out []Sample
	for _, e := range entries {
		got, err := j.Add(e.line(t), e.time)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, got...)
	}
	return out
}

func TestParseJournalEntry(t *testing.T) {
	const meta = `"__CURSOR":"s=` + journalA + `;i=2a;b=` + bootA + `;m=1;t=64e5c2dd6a000;x=7","__REALTIME_TIMESTAMP":"1775000000000000"`
	e, err := parseJournalEntry([]byte(`{` + meta + `,"TEXT":"a","BYTES":[255,104,0],"MANY":["a","b",[99]],"LARGE":null,"MIXED":[null,"x"],"EMPTY":"","ODD":[300],"OBJECT":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if e.journal != journalA || e.boot != bootA || e.seq != 42 || e.time.UnixMicro() != 1775000000000000 {
		t.Errorf("%+v", e)
	}
	for field, want := range map[string][]string{
		"TEXT": {"a"}, "BYTES": {"\xffh\x00"}, "MANY": {"a", "b", "c"}, "LARGE": nil, "MIXED": {"x"}, "EMPTY": {""},
		"ODD": nil, "OBJECT": nil, "MESSAGE": nil,
	} {
		if got := e.values(field); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	e, err = parseJournalEntry([]byte(`{` + meta + `,"__SEQNUM":"43","__SEQNUM_ID":"` + journalB + `","_BOOT_ID":"` + bootB + `"}`))
	if err != nil || e.journal != journalB || e.boot != bootB || e.seq != 43 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{
		``, `x`, `[]`, `{}`, `{` + meta + `} {}`, `{` + meta + `,"A":"1","A":"2"}`, `{"__REALTIME_TIMESTAMP":"1775000000000000"}`,
		`{"__CURSOR":"s=` + journalA + `;i=2a;b=` + bootA + `"}`,
		strings.Replace(`{`+meta+`}`, "1775000000000000", "-1", 1),
		strings.Replace(`{`+meta+`}`, "1775000000000000", "9223372036854775807", 1),
		strings.Replace(`{`+meta+`}`, "i=2a", "i=0", 1), strings.Replace(`{`+meta+`}`, "i=2a", "i=xyz", 1),
		strings.Replace(`{`+meta+`}`, "b=", "c=", 1), strings.Replace(`{`+meta+`}`, "s=0", "s=G", 1),
		`{` + meta + `,"__SEQNUM":"x","__SEQNUM_ID":"` + journalB + `"}`,
	} {
		if e, err := parseJournalEntry([]byte(bad)); !errors.Is(err, ErrEntry) {
			t.Errorf("%s: %+v, %v", bad, e, err)
		}
	}
}

func TestJournalSamples(t *testing.T) {
	entries := testJournal(60)
	entries[20].fields = oom
	entries[21].fields = map[string]any{"_SYSTEMD_UNIT": []string{"y.service", "x.service"}, "HEAP_KB": "512.5"}
	entries[22].fields = map[string]any{"_SYSTEMD_UNIT": "x.service", "HEAP_KB": "much"}
	entries[23].fields = map[string]any{"_SYSTEMD_UNIT": "x.service", "MESSAGE_ID": oom["MESSAGE_ID"], "RESULT": strings.Repeat("r", 257)}
	entries[24].fields = map[string]any{"_SYSTEMD_UNIT": "y.service", "MESSAGE_ID": oom["MESSAGE_ID"]}
	entries[25].fields = map[string]any{"_SYSTEMD_UNIT": "x.service", "MESSAGE_ID": nil}
	entries[26].fields = map[string]any{"_SYSTEMD_UNIT": "x.service", "MESSAGE_ID": oom["MESSAGE_ID"]}
	entries[27].fields = map[string]any{"_SYSTEMD_UNIT": "x.service", "MESSAGE_ID": oom["MESSAGE_ID"], "RESULT": []int{255, 254}}
	j := mustJournal(t, JournalState{})
	var first []Sample
	heartbeats := 0
	for i, e := range entries {
		got, err := j.Add(e.line(t), e.time)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got {
			if s.Signal == "journal_up_to" {
				heartbeats++
				// 10 s for journald's word on what it suppressed, and over the
				// longest max_gap.
				if lag := e.time.Sub(s.Time); lag < 13*time.Second || lag > 14*time.Second {
					t.Errorf("entry %d brings the heartbeat of %v ago", i, lag)
				}
			} else if s.Time.Equal(e.time) {
				first = append(first, s)
			}
		}
	}
	if want := 60 - 14; heartbeats != want {
		t.Errorf("%d heartbeats, want %d", heartbeats, want)
	}
	if len(first) != 3 {
		t.Fatalf("%+v", first)
	}
	for i, want := range []Sample{
		{Seq: 21, Signal: "oom", Labels: map[string]string{"result": "killed"}, Value: 1},
		{Seq: 22, Signal: "heap", Value: 512.5},
		{Seq: 27, Signal: "oom", Value: 1},
	} {
		if s := first[i]; s.Seq != want.Seq || s.Signal != want.Signal || !maps.Equal(s.Labels, want.Labels) || s.Value != want.Value || s.Source != "journal" {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	if j.LeftOut() != 8 || j.Gaps() != 0 || j.Doubt() != "" { // heap: its value six times; oom: its label twice
		t.Errorf("left out %d, gaps %d, %q", j.LeftOut(), j.Gaps(), j.Doubt())
	}
}

// Whatever is read again, after a restart at any entry, has the same identity
// and content, and nothing is missing.
func TestJournalResumes(t *testing.T) {
	entries := testJournal(80)
	for _, i := range []int{3, 30, 31, 55} {
		entries[i].fields = oom
	}
	for i := 40; i < len(entries); i++ { // another boot, whose clock went back
		entries[i].boot = bootB
		entries[i].time = entries[i].time.Add(-5 * time.Second)
	}
	type id struct {
		stream string
		seq    uint64
	}
	whole := map[id]Sample{}
	for _, s := range addAll(t, mustJournal(t, JournalState{}), entries) {
		whole[id{s.Stream, s.Seq}] = s
	}
	for k := range entries {
		j := mustJournal(t, JournalState{})
		got := addAll(t, j, entries[:k])
		state := j.State()
		rest := entries
		if state.Cursor != "" {
			c, err := parseCursor(state.Cursor)
			if err != nil {
				t.Fatal(err)
			}
			rest = entries[c.seq:]
		}
		again := mustJournal(t, state)
		got = append(got, addAll(t, again, rest)...)
		if again.Gaps() != 0 {
			t.Errorf("resumed at %d: %d gaps", k, again.Gaps())
		}
		seen := map[id]bool{}
		for _, s := range got {
			want, ok := whole[id{s.Stream, s.Seq}]
			if ok && criterion.Compare(&s, &want) != 0 {
				t.Fatalf("resumed at %d: %+v, before %+v", k, s, want)
			}
			seen[id{s.Stream, s.Seq}] = true
		}
		for want, s := range whole {
			if !seen[want] && s.Signal != "journal_up_to" {
				t.Errorf("resumed at %d: %+v is missing", k, s)
			}
		}
	}
}

// absence says whether the criterion "no oom in the window" is shown.
func absence(reg *criterion.Registry, samples []Sample, from, to time.Time) criterion.Outcome {
	return criterion.Evaluate(criterion.Input{
		Criterion: criterion.Criterion{All: []criterion.Clause{{
			Signal: "oom", Labels: map[string]string{"result": "killed"}, Reduce: criterion.ReduceCount, Op: criterion.OpEQ,
		}}},
		Registry: reg, Window: criterion.Span{Start: from, End: to}, Samples: samples, Closed: true,
	}).Outcome
}

// Whatever makes entries go missing, no window that holds the time of a
// missing one shows an absence, wherever it lies and whenever the reader was
// started again; and windows far away do show it.
func TestNoAbsenceAcrossAGap(t *testing.T) {
	const n, at = 90, 45
	remove := func(e []testEntry, i int) []testEntry { return slices.Delete(e, i, i+1) }
	for name, c := range map[string]struct {
		change func([]testEntry) []testEntry
		lost   time.Duration // of the missing entry, after the start
	}{
		"removed unread": {func(e []testEntry) []testEntry { return remove(e, at) }, at * time.Second},
		"many removed unread": {func(e []testEntry) []testEntry {
			return slices.Delete(e, at-10, at+10)
		}, at * time.Second},
		"suppressed, told of late": {func(e []testEntry) []testEntry {
			e[at+9].fields = map[string]any{"MESSAGE_ID": journalLoss[0], "N_DROPPED": "7"}
			return e
		}, at * time.Second},
		"kernel messages missed": {func(e []testEntry) []testEntry {
			e[at].fields = map[string]any{"MESSAGE_ID": journalLoss[1]}
			return e
		}, at*time.Second - time.Millisecond},
		"another journal goes on": {func(e []testEntry) []testEntry {
			for i := at; i < len(e); i++ {
				e[i].journal, e[i].seq = journalB, uint64(i-at+1)
			}
			return e
		}, at*time.Second - time.Millisecond},
		"of two series": {func(e []testEntry) []testEntry {
			e[at].fields = maps.Clone(oom)
			e[at].fields["RESULT"] = []string{"killed", "survived"}
			return e
		}, at * time.Second},
		"dated ahead": {func(e []testEntry) []testEntry {
			e[at].time = e[at].time.Add(time.Hour)
			return e
		}, at * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			reg := mustRegistry(t, journalRegistry)
			entries := c.change(testJournal(n))
			lines := make([][]byte, len(entries))
			for i, e := range entries {
				lines[i] = e.line(t)
			}
			for k := 0; k < len(entries); k += 3 {
				checkAbsence(t, reg, startedAgain(t, entries, lines, k), journalStart.Add(c.lost), k)
			}
		})
	}
}

// startedAgain reads the lines with a reader that is replaced after k of them.
func startedAgain(t *testing.T, entries []testEntry, lines [][]byte, k int) []Sample {
	t.Helper()
	var samples []Sample
	read := func(j *Journal, from, to int) {
		for i := from; i < to; i++ {
			now := entries[i].time
			if now.Sub(journalStart) >= time.Hour { // dated ahead
				now = now.Add(-time.Hour)
			}
			got, err := j.Add(lines[i], now)
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, got...)
		}
	}
	first := mustJournal(t, JournalState{})
	read(first, 0, k)
	state := first.State()
	resume := 1 + slices.IndexFunc(lines, func(line []byte) bool { return cursorOf(t, line) == state.Cursor })
	read(mustJournal(t, state), resume, len(lines))
	return samples
}

func cursorOf(t testing.TB, line []byte) string {
	t.Helper()
	e, err := parseJournalEntry(line)
	if err != nil {
		t.Fatal(err)
	}
	return e.cursor
}

func checkAbsence(t *testing.T, reg *criterion.Registry, samples []Sample, lost time.Time, k int) {
	t.Helper()
	for _, length := range []time.Duration{time.Second, 4 * time.Second, 20 * time.Second, 60 * time.Second} {
		for from := lost.Add(-length + time.Millisecond); !from.After(lost); from = from.Add(500 * time.Millisecond) {
			if o := absence(reg, samples, from, from.Add(length)); o == criterion.True {
				t.Fatalf("started again after %d: the window from %v of %v shows an absence across the gap", k, from.Sub(journalStart), length)
			}
		}
	}
	for _, from := range []time.Duration{5 * time.Second, 66 * time.Second} {
		if o := absence(reg, samples, journalStart.Add(from), journalStart.Add(from+8*time.Second)); o != criterion.True {
			t.Errorf("started again after %d: the window from %v does not show an absence: %v", k, from, o)
		}
	}
}

// A line that is no entry, or that is too long, is told by its number.
func TestJournalBadLineIsAGap(t *testing.T) {
	j := mustJournal(t, JournalState{})
	entries := testJournal(40)
	addAll(t, j, entries[:20])
	if _, err := j.Add([]byte(`{"__CURSOR":`), entries[20].time); !errors.Is(err, ErrEntry) {
		t.Errorf("%v", err)
	}
	if j.Gaps() != 0 {
		t.Error("a gap before anything is known to be missing")
	}
	addAll(t, j, entries[21:22])
	if j.Gaps() != 1 || !strings.Contains(j.Doubt(), "missing") {
		t.Errorf("%d gaps, %q", j.Gaps(), j.Doubt())
	}
	addAll(t, j, entries[22:])
	if j.Doubt() != "" {
		t.Errorf("still in doubt: %q", j.Doubt())
	}
}

func TestJournalHoldsAFlood(t *testing.T) {
	j := mustJournal(t, JournalState{})
	e := testEntry{journalA, bootA, 0, journalStart, oom}
	for range maxHeld + 10 {
		e.seq++
		got, err := j.Add(e.line(t), e.time)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got {
			if s.Signal == "journal_up_to" {
				t.Fatal("a heartbeat was sent before its time")
			}
		}
	}
	if j.hold.size > maxHeld || len(j.hold.held) < maxHeld/2-1 {
		t.Errorf("%d held in %d entries", j.hold.size, len(j.hold.held))
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"__CURSOR":"s=` + journalA + `;i=2a;b=` + bootA + `;t=1","__REALTIME_TIMESTAMP":"1775000000000000","_SYSTEMD_UNIT":["x.service",[1,2],null],"HEAP_KB":"1"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		j := mustJournal(t, JournalState{})
		for range 2 {
			samples, err := j.Add(line, journalStart)
			if err != nil && !errors.Is(err, ErrEntry) {
				t.Fatal(err)
			}
			if batches, err := encodeBatches(samples); err == nil {
				for _, b := range batches {
					if _, err := ParseBatch("journal", b); err != nil {
						t.Fatalf("%s: %v", b, err)
					}
				}
			} else {
				t.Fatal(err)
			}
		}
	})
}
