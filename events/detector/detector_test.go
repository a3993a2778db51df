package detector

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crypto/sha256"

	"github.com/go-json-experiment/json"
)

func labelled(t testing.TB, name string) (turns []Labelled) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ReadLabelled(f, func(l Labelled) error { turns = append(turns, l); return nil }); err != nil {
		t.Fatal(err)
	}
	return turns
}

func builtIn(t testing.TB) *Detector {
	t.Helper()
	d, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func share(k, n int64) float64 { return float64(k) / float64(n) }

func (q Quality) recall() float64    { return share(q.TruePositive, q.TruePositive+q.FalseNegative) }
func (q Quality) precision() float64 { return share(q.TruePositive, q.TruePositive+q.FalsePositive) }

// TestHeldOut: the built-in weights on turns that training and tuning never saw.
func TestHeldOut(t *testing.T) {
	turns := labelled(t, "heldout.jsonl")
	q, err := builtIn(t).Assess(turns)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: recall %.3f (%d of %d), precision %.3f (%d of %d), kind %.3f", builtIn(t).Version(),
		q.recall(), q.TruePositive, q.TruePositive+q.FalseNegative, q.precision(), q.TruePositive, q.TruePositive+q.FalsePositive, share(q.Kinds, q.TruePositive))
	if len(turns) < 300 || q.recall() < 0.9 || q.precision() < 0.8 {
		t.Errorf("%d turns: %+v; want 300 turns, recall 0.9 and precision 0.8", len(turns), q)
	}
}

// TestHeldOutIsApart: no turn is in both sets.
func TestHeldOutIsApart(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"heldout.jsonl", "train.jsonl"} {
		for _, l := range labelled(t, name) {
			words := strings.ToLower(strings.Join(strings.Fields(l.Text), " "))
			if seen[words] {
				t.Errorf("%s: %q is there twice", name, l.Text)
			}
			seen[words] = true
		}
	}
}

// TestWeightsAreTrained: the built-in weights are what training makes of the turns that
// are in the repository, byte for byte, on any machine.
func TestWeightsAreTrained(t *testing.T) {
	trained, err := Train(labelled(t, "train.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := trained.Weights.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, defaultWeights) {
		t.Error("weights.bin is not what training makes: run assay detect train events/detector/testdata/train.jsonl --out events/detector/weights.bin")
	}
}

// TestTranscripts: the turns of real transcripts, where they are at hand, by the label
// that stands under their hash.
func TestTranscripts(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "keys", "transcripts")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the transcripts are not here")
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "real.json"))
	if err != nil {
		t.Fatal(err)
	}
	var labels map[string]string
	if err := json.Unmarshal(raw, &labels); err != nil {
		t.Fatal(err)
	}
	var q Quality
	for name, format := range map[string]string{
		"claude-code-tool_heavy.jsonl": "claude-code", "holmesgpt-003_cascading_failure.json": "messages", "holmesgpt-004_multiple_root_causes.json": "messages",
	} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		err = Read(f, format, name, func(turn Turn) error {
			role, err := ParseRole(turn.Role)
			if err != nil || role == RoleTool {
				return err
			}
			sum := sha256.Sum256([]byte(turn.Text))
			label, ok := labels[hex.EncodeToString(sum[:16])]
			if !ok {
				t.Errorf("%s: turn %s has no label", name, turn.ID)
			}
			v := builtIn(t).Judge(role, turn.Text)
			q.add(label, v.label())
			return nil
		})
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("recall %.3f (%d of %d), precision %.3f (%d of %d), %d turns", q.recall(), q.TruePositive, q.TruePositive+q.FalseNegative,
		q.precision(), q.TruePositive, q.TruePositive+q.FalsePositive, q.TruePositive+q.FalsePositive+q.FalseNegative+q.TrueNegative)
}

// TestNotInTheirOwnWords: what an author only shows is no opportunity, and beside it
// his own words still are.
func TestNotInTheirOwnWords(t *testing.T) {
	const asked = "Why does the import fail?"
	for name, shown := range map[string]string{
		"fenced code":      "```\n// why does this fail? because of the lock\n```",
		"code not closed":  "```go\n// root cause: the lock\n",
		"quoted lines":     "> What caused the outage?\n> It failed because of the disk.",
		"log":              "2026-01-02T03:04:05Z ERROR root cause: timeout caused by the disk",
		"bare level":       "ERROR failed because of a timeout",
		"trace":            "Caused by: java.io.IOException: disk full",
		"exception":        "TimeoutError: failed because of the proxy",
		"quotation":        `The title is "Why did it fail?"`,
		"typed quotation":  "The title is \u201cWhat caused the crash?\u201d",
		"inline code":      "Run `why did it fail`",
		"structured line":  `{"msg":"failed because of the disk"}`,
		"comment":          "// because the disk is slow",
		"bracketed log":    "[2026-01-02 03:04:05] failed because the disk is full",
		"query":            "SELECT cause FROM incidents WHERE why = 'because'",
		"said not to ask":  "I don't need to know why, just make it compile.",
		"the word as name": "the field is called `root_cause`",
	} {
		t.Run(name, func(t *testing.T) {
			if v := builtIn(t).Judge(RoleOperator, shown); v.Opportunity {
				t.Errorf("%q is taken for %s", shown[v.Start:v.End], v.Kind)
			}
			text := asked + "\n\n" + shown
			v := builtIn(t).Judge(RoleOperator, text)
			if !v.Opportunity || text[v.Start:v.End] != asked || v.Kind != "why" {
				t.Errorf("beside it: %+v, %q", v, text[v.Start:v.End])
			}
		})
	}
}

// TestLex: sentences and the bytes that they stand at.
func TestLex(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"...", nil},
		{"One. Two? Three", []string{"One.", "Two?", "Three"}},
		{"It is 4.2 MB in a.go and so on", []string{"It is 4.2 MB in a.go and so on"}},
		{"A line that\ngoes on.", []string{"A line that\ngoes on."}},
		{"Two:\n1. this\n2) that", []string{"Two:", "1.", "this", "2) that"}},
		{"before\n```\ncode\n```\nbehind", []string{"before", "behind"}},
		{"don\u2019t \u2014 really?!", []string{"don\u2019t \u2014 really?!"}},
		{"an \"open quote", []string{"an \"open quote"}},
		{"see https://x.y/z?q=why for it", []string{"see https://x.y/z?q=why for it"}},
	} {
		var l lexed
		l.lex([]byte(c.text))
		var got []string
		for _, s := range l.sentences {
			got = append(got, c.text[s.start:s.end])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestLongLines: what a sender can do to a line takes no more than its length. Each of
// these would take hours if it were searched once for each mark.
func TestLongLines(t *testing.T) {
	for _, mark := range []string{"\u201c", "\"", "`", "why * ", "if ", ". ", "1", "a:", "://", "()", "not because "} {
		builtIn(t).Judge(RoleAgent, strings.Repeat(mark, 1<<20/len(mark)))
	}
}

func FuzzJudge(f *testing.F) {
	for _, l := range labelled(f, "heldout.jsonl")[:40] {
		f.Add(l.Text)
	}
	f.Add("\u201c\xe2\x80")
	f.Add("```\n~~~")
	f.Fuzz(func(t *testing.T, text string) {
		v := builtIn(t).Judge(RoleAgent, text)
		if v.Start < 0 || v.Start > v.End || v.End > len(text) || v.Score < 0 || v.Score > 1e6 || v.Opportunity != (v.Kind != "") {
			t.Errorf("%q: %+v", text, v)
		}
		if again := builtIn(t).Judge(RoleAgent, text); again != v {
			t.Errorf("%q: %+v, and then %+v", text, v, again)
		}
	})
}

// TestWeightsFile: what is no file of weights is refused, and it is said why.
func TestWeightsFile(t *testing.T) {
	spoil := func(at int) []byte {
		b := bytes.Clone(defaultWeights)
		b[at] ^= 1
		return b
	}
	other := spoil(12) // the patterns' hash, with a checksum that holds
	sum := sha256.Sum256(other[:len(other)-sha256.Size])
	copy(other[len(other)-sha256.Size:], sum[:])
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"empty":          {nil, ErrCorrupt},
		"magic":          {spoil(0), ErrCorrupt},
		"version":        {spoil(9), ErrUnsupportedVersion},
		"a weight":       {spoil(1000), ErrCorrupt},
		"cut off":        {defaultWeights[:len(defaultWeights)-1], ErrCorrupt},
		"other patterns": {other, ErrPatterns},
	} {
		if _, err := New(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestPatternsFile(t *testing.T) {
	for _, text := range []string{"why", "class good: x", "because: x", "why: <good>", "why: *", "why: post-mortem", "why: a b|4"} {
		if _, err := parsePatterns([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	turns := labelled(t, "train.jsonl")
	wrong := slices.Clone(turns)
	wrong[3].Label = "because"
	if _, err := Train(wrong); !errors.Is(err, ErrLabel) {
		t.Errorf("a label that is none: %v", err)
	}
	if _, err := Train(turns[:100]); !errors.Is(err, ErrNoTurns) {
		t.Errorf("one kind alone: %v", err)
	}
}

// BenchmarkJudge is how many turns of about 400 bytes one core judges a second, and how
// well on the held-out ones.
func BenchmarkJudge(b *testing.B) {
	d, turns := builtIn(b), labelled(b, "heldout.jsonl")
	q, err := d.Assess(turns)
	if err != nil {
		b.Fatal(err)
	}
	var texts []string
	for i := range turns { // as long as turns of agents are
		var text strings.Builder
		for k := i; text.Len() < 400; k++ {
			text.WriteString(turns[k%len(turns)].Text + "\n\n")
		}
		texts = append(texts, text.String()[:400])
	}
	for i := 0; b.Loop(); i++ {
		d.Judge(RoleAgent, texts[i%len(texts)])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(q.recall(), "recall")
	b.ReportMetric(q.precision(), "precision")
}
