package detector

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
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

// plus are the counts of two sets of turns.
func (q Quality) plus(o Quality) Quality {
	return Quality{
		q.TruePositive + o.TruePositive, q.FalsePositive + o.FalsePositive, q.FalseNegative + o.FalseNegative, q.TrueNegative + o.TrueNegative, q.Kinds + o.Kinds,
	}
}

func (q Quality) String() string {
	return fmt.Sprintf("recall %.3f (%d of %d), precision %.3f (%d of %d), kind %.3f, %d turns", q.recall(), q.TruePositive, q.TruePositive+q.FalseNegative,
		q.precision(), q.TruePositive, q.TruePositive+q.FalsePositive, share(q.Kinds, q.TruePositive), q.TruePositive+q.FalsePositive+q.FalseNegative+q.TrueNegative)
}

// TestHeldOut: the built-in weights on turns that training and tuning never saw.
func TestHeldOut(t *testing.T) {
	turns := labelled(t, "heldout.jsonl")
	q, err := builtIn(t).Assess(turns)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", builtIn(t).Version(), q)
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

// onTranscripts is how well the built-in weights do on the turns of real transcripts, by
// the label that stands under the hash of each; false where they are not at hand.
func onTranscripts(t testing.TB) (q Quality, ok bool) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "keys", "transcripts")
	if _, err := os.Stat(dir); err != nil {
		return q, false
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "real.json"))
	if err != nil {
		t.Fatal(err)
	}
	var labels map[string]string
	if err := json.Unmarshal(raw, &labels); err != nil {
		t.Fatal(err)
	}
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
			q.add(label, builtIn(t).Judge(role, turn.Text).label())
			return nil
		})
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return q, true
}

// TestTranscripts: real transcripts, where they are at hand, alone and together with the
// held-out turns.
func TestTranscripts(t *testing.T) {
	q, ok := onTranscripts(t)
	if !ok {
		t.Skip("the transcripts are not here")
	}
	t.Logf("transcripts: %s", q)
	heldOut, err := builtIn(t).Assess(labelled(t, "heldout.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	joint := q.plus(heldOut)
	t.Logf("with the held-out turns: %s", joint)
	if joint.recall() < 0.9 || joint.precision() < 0.8 {
		t.Errorf("%+v; want recall 0.9 and precision 0.8", joint)
	}
}

// TestNotInTheirOwnWords: what an author only shows is no opportunity, and beside it
// his own words still are.
func TestNotInTheirOwnWords(t *testing.T) {
	const asked = "Why does the import fail?"
	for name, shown := range map[string]string{
		"fenced code":      "```\n// why does this fail? because of the lock\n```",
		"code not closed":  "```go\n// root cause: the lock\n",
		"fence in fence":   "````\n```\nwhy does this fail? because of the lock\n```\nThe root cause is the lock.\n````",
		"other fence":      "~~~\n```\nThe root cause is the lock.\n~~~",
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
		{"```ls```\nbehind it", []string{"```ls```\nbehind it"}},
		{"```\ncode\n``` more code\n`````\nbehind", []string{"behind"}},
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

// TestScore: a sentence as long as a message can hold leans to the side that its words do.
func TestScore(t *testing.T) {
	w := new(Weights)
	w.heads[0][1], w.heads[0][2] = math.MaxInt16, math.MinInt16
	for feature, want := range map[uint16]int32{1: math.MaxInt32, 2: math.MinInt32} {
		if got := w.score(0, slices.Repeat([]uint16{feature}, 1<<20)); got != want {
			t.Errorf("a million times %d: %d, want %d", w.heads[0][feature], got, want)
		}
	}
	last := int64(0)
	for _, c := range []struct{ score, want int64 }{
		{math.MinInt64, 0}, {math.MinInt32, 0}, {-17 * scale, 0}, {-scale, 268941}, {0, 500000}, {scale, 731059}, {17 * scale, 1e6}, {math.MaxInt32, 1e6}, {math.MaxInt64, 1e6},
	} {
		got := logistic(c.score)
		if got != c.want || got < last {
			t.Errorf("logistic of %d is %d, want %d", c.score, got, c.want)
		}
		last = got
	}
}

// verdicts is, by version, the hash of what the built-in detector says of the turns of
// training, each by each role. Where it differs for a version that is here, code that
// verdicts depend on was changed, or the machine reckons otherwise: the first needs
// another method.
var verdicts = map[string]string{"d2-693868e4fb4a": "d79619a2fd28fffefa0b8901b608a703267ba7d4f1a0d6a6230f16f2f34ed062"}

func TestVerdictsAreFrozen(t *testing.T) {
	d, h := builtIn(t), sha256.New()
	turns := labelled(t, "train.jsonl")
	for i, l := range turns {
		next := turns[(i+1)%len(turns)].Text
		for _, role := range []Role{RoleOperator, RoleAgent} {
			for _, text := range []string{l.Text, l.Text + "\n" + next, "> " + next + "\n\n" + strings.ToUpper(l.Text)} {
				fmt.Fprintf(h, "%+v\n", d.Judge(role, text))
			}
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != verdicts[d.Version()] {
		t.Errorf("%s: %s, want %q", d.Version(), got, verdicts[d.Version()])
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
// well on the held-out ones, and where they are at hand on those and real transcripts.
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
	if real, ok := onTranscripts(b); ok {
		joint := q.plus(real)
		b.ReportMetric(joint.recall(), "joint-recall")
		b.ReportMetric(joint.precision(), "joint-precision")
	}
}
