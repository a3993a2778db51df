package witness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// testWitness signs without a server.
type testWitness struct {
	signer note.Signer
	vkey   string
}

func newWitness(tb testing.TB, name string) testWitness {
	tb.Helper()
	skey, logKey, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := fnote.NewSignerForCosignatureV1(skey)
	if err != nil {
		tb.Fatal(err)
	}
	vkey, err := fnote.VKeyToCosignatureV1(logKey)
	if err != nil {
		tb.Fatal(err)
	}
	return testWitness{signer, vkey}
}

func cosigned(tb testing.TB, raw []byte, by ...testWitness) []byte {
	tb.Helper()
	text := string(raw[:strings.LastIndex(string(raw), "\n\n")+1])
	raw = slices.Clone(raw)
	for _, w := range by {
		signed, err := note.Sign(&note.Note{Text: text}, w.signer)
		if err != nil {
			tb.Fatal(err)
		}
		raw = append(raw, signed[len(text)+1:]...)
	}
	return raw
}

func TestParsePolicyRefuses(t *testing.T) {
	log, w1, w2 := newLog(t, testOrigin), newWitness(t, "w1"), newWitness(t, "w2")
	renamed := newLog(t, "x")
	lkey, err := publicKey(log.vkey)
	if err != nil {
		t.Fatal(err)
	}
	wkey, err := publicKey(w1.vkey)
	if err != nil {
		t.Fatal(err)
	}
	base := "witness a " + w1.vkey + "\nwitness b " + w2.vkey + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no quorum"},
		{"only comments", "# quorum none\n", "no quorum"},
		{"no newline", "quorum none", "not ended by a newline"},
		{"carriage return", "quorum none\r\n", "control character 0x0d"},
		{"delete", "# \x7f\nquorum none\n", "control character 0x7f"},
		{"nul", "# \x00\nquorum none\n", "control character 0x00"},
		{"vertical tab", "quorum\vnone\n", "control character"},
		{"unknown keyword", "quorums none\n", "unknown keyword"},
		{"keyword in capitals", "Quorum none\n", "unknown keyword"},
		{"two quorums", "quorum none\nquorum none\n", "line 2: a second quorum"},
		{"quorum of two", base + "quorum a b\n", "want: quorum NAME"},
		{"quorum undefined", base + "quorum c\n", "not defined"},
		{"quorum before its definition", "quorum a\n" + base, "line 1"},
		{"log without key", "log\nquorum none\n", "want: log"},
		{"log with too much", "log " + log.vkey + " u x\nquorum none\n", "want: log"},
		{"log key malformed", "log x\nquorum none\n", "log key"},
		{"log key of a witness", "log " + w1.vkey + "\nquorum none\n", "log key"},
		{"log twice", "log " + log.vkey + "\nlog " + log.vkey + "\nquorum none\n", "line 2: the key"},
		{"log twice under two names", "log " + log.vkey + "\nlog " + vkeyOf(t, "example.com/again", 1, lkey) + "\nquorum none\n", "line 2: the key"},
		{"witness without key", "witness a\nquorum none\n", "want: witness"},
		{"witness key of a log", "witness a " + renamed.vkey + "\nquorum a\n", "makes no cosignatures"},
		{"witness key with another id", "witness a " + strings.Replace(w1.vkey, "w1+", "w1+0", 1) + "\nquorum a\n", "witness key"},
		{"witness key of another name", "witness a " + strings.Replace(w1.vkey, "w1", "w9", 1) + "\nquorum a\n", "its id is"},
		{"witness name twice", "witness a " + w1.vkey + "\nwitness a " + w2.vkey + "\nquorum a\n", "is taken"},
		{"witness key twice", "witness a " + w1.vkey + "\nwitness b " + w1.vkey + "\nquorum a\n", "the key"},
		{"witness key twice under two names", "witness a " + w1.vkey + "\nwitness b " + vkeyOf(t, "w9", typeEd25519, wkey) + "\nquorum a\n", "the key"},
		{"witness named none", "witness none " + w1.vkey + "\nquorum none\n", "is taken"},
		{"group named none", base + "group none any a\nquorum none\n", "is taken"},
		{"group named as a witness", base + "group a any b\nquorum a\n", "is taken"},
		{"group of itself", base + "group g any g\nquorum g\n", "not defined above"},
		{"group without members", base + "group g any\nquorum a\n", "want: group"},
		{"group with none", base + "group g any none\nquorum g\n", "not defined above"},
		{"group before its member", "group g any a\n" + base + "quorum g\n", "line 1"},
		{"member twice", base + "group g any a a\nquorum g\n", "belongs to a group already"},
		{"member of two groups", base + "group g any a\ngroup h any a\nquorum g\n", "belongs to a group already"},
		{"threshold 0", base + "group g 0 a b\nquorum g\n", "threshold"},
		{"threshold too high", base + "group g 3 a b\nquorum g\n", "threshold"},
		{"threshold negative", base + "group g -1 a b\nquorum g\n", "threshold"},
		{"threshold with a sign", base + "group g +1 a b\nquorum g\n", "threshold"},
		{"threshold in hex", base + "group g 0x1 a b\nquorum g\n", "threshold"},
		{"threshold in words", base + "group g most a b\nquorum g\n", "threshold"},
		{"too long", strings.Repeat("#\n", maxPolicy/2+1) + "quorum none\n", "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParsePolicy([]byte(c.text))
			if !errors.Is(err, ErrBadPolicy) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want ErrBadPolicy with %q", err, c.want)
			}
		})
	}
}

func TestSatisfied(t *testing.T) {
	log := newLog(t, testOrigin).grow(t, 5, "a")
	other := newLog(t, "example.com/other").grow(t, 5, "a")
	w := []testWitness{}
	lines := "log " + log.vkey + "\n"
	for i := range 5 {
		w = append(w, newWitness(t, fmt.Sprint("witness.example/", i)))
		lines += fmt.Sprintf("\twitness  w%d\t%s  https://w%d.example \n", i, w[i].vkey, i)
	}
	two := lines + "group x 2 w0 w1 w2\ngroup y any w3 w4\ngroup xy all x y\n"
	raw := log.checkpoint(t, 5)
	for _, c := range []struct {
		name, policy string
		note         []byte
		ok           bool
		cosigners    []string
		missing      []string
	}{
		{"none", lines + "quorum none\n", raw, true, nil, nil},
		{"one witness", lines + "quorum w1\n", cosigned(t, raw, w[1]), true, []string{"w1"}, nil},
		{"another witness", lines + "quorum w1\n", cosigned(t, raw, w[2]), false, []string{"w2"}, []string{"w1"}},
		{"nobody", lines + "quorum w1\n", raw, false, nil, []string{"w1"}},
		{"groups", two + "quorum xy\n", cosigned(t, raw, w[2], w[0], w[4]), true, []string{"w0", "w2", "w4"}, []string{"w1", "w3"}},
		{"one of two", two + "quorum xy\n", cosigned(t, raw, w[0], w[3], w[4]), false, []string{"w0", "w3", "w4"}, []string{"w1", "w2"}},
		{"x without y", two + "quorum xy\n", cosigned(t, raw, w[0], w[1], w[2]), false, []string{"w0", "w1", "w2"}, []string{"w3", "w4"}},
		{"only x is asked", two + "quorum x\n", cosigned(t, raw, w[0], w[1]), true, []string{"w0", "w1"}, []string{"w2"}},
		{"twice the same", two + "quorum x\n", cosigned(t, raw, w[0], w[0]), false, []string{"w0"}, []string{"w1", "w2"}},
		{"a stranger", lines + "quorum w1\n", cosigned(t, raw, newWitness(t, "witness.example/1")), false, nil, []string{"w1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParsePolicy([]byte(c.policy))
			if err != nil {
				t.Fatal(err)
			}
			ok, cosigners, err := p.Satisfied(c.note)
			if err != nil || ok != c.ok || !slices.Equal(cosigners, c.cosigners) {
				t.Fatalf("%v %v %v, want %v %v", ok, cosigners, err, c.ok, c.cosigners)
			}
			if missing := p.Missing(cosigners); !slices.Equal(missing, c.missing) {
				t.Fatalf("missing %v, want %v", missing, c.missing)
			}
		})
	}
	p, err := ParsePolicy([]byte(lines + "quorum w1\n"))
	if err != nil {
		t.Fatal(err)
	}
	signed := cosigned(t, raw, w[1])
	flipped := slices.Clone(signed)
	flipped[strings.Index(string(flipped), "\n5\n")+1] = '4'
	for name, raw := range map[string][]byte{
		"another log":         cosigned(t, other.checkpoint(t, 5), w[1]),
		"only the witness":    cosigned(t, raw[:strings.LastIndex(string(raw), "\n\n")+2], w[1]),
		"altered":             flipped,
		"no note":             []byte("hello\n"),
		"nothing":             nil,
		"a size with a zero":  cosigned(t, resigned(t, log, strings.Replace(textOf(raw), "\n5\n", "\n05\n", 1)), w[1]),
		"a root with a slash": resigned(t, log, testOrigin+"\n5\n////\n"),
	} {
		if ok, _, err := p.Satisfied(raw); ok || !errors.Is(err, ErrBadNote) {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	// Without log lines the caller knows the log.
	free, err := ParsePolicy([]byte(strings.SplitN(lines, "\n", 2)[1] + "quorum w1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := free.Satisfied(signed); !ok || err != nil {
		t.Errorf("without log lines: %v %v", ok, err)
	}
	if ok, _, err := free.Satisfied(raw); ok || err != nil {
		t.Errorf("without log lines or cosignatures: %v %v", ok, err)
	}
	path := filepath.Join(t.TempDir(), "policy")
	if _, err := LoadPolicy(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func textOf(raw []byte) string { return string(raw[:strings.LastIndex(string(raw), "\n\n")+1]) }

func resigned(tb testing.TB, l *testLog, text string) []byte {
	tb.Helper()
	raw, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// TestMLDSA: a policy may name witnesses whose cosignatures are ML-DSA-44.
func TestMLDSA(t *testing.T) {
	skey, vkey, err := fnote.GenerateMLDSAKey("witness.example/pq")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := fnote.NewSignerForCosignatureV1(skey)
	if err != nil {
		t.Fatal(err)
	}
	log := newLog(t, testOrigin).grow(t, 5, "a")
	p, err := ParsePolicy([]byte("witness pq " + vkey + "\nquorum pq\n"))
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := p.Satisfied(cosigned(t, log.checkpoint(t, 5), testWitness{signer, vkey})); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
}

func FuzzPolicy(f *testing.F) {
	log, w1 := newLog(f, testOrigin).grow(f, 3, "a"), newWitness(f, "w1")
	raw := cosigned(f, log.checkpoint(f, 3), w1)
	f.Add([]byte("log " + log.vkey + "\nwitness a " + w1.vkey + " http://x\ngroup g any a\nquorum g\n"))
	f.Add([]byte("# c\n \tquorum none\n"))
	f.Add([]byte("group g 1 a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePolicy(text)
		if err != nil {
			if !errors.Is(err, ErrBadPolicy) {
				t.Fatalf("%v", err)
			}
			return
		}
		ok, cosigners, err := p.Satisfied(raw)
		all := []string{}
		for _, w := range p.Witnesses {
			all = append(all, w.Name)
		}
		if ok && err == nil && p.Quorum() != none && len(cosigners) == 0 {
			t.Fatal("satisfied by nobody")
		}
		// Everybody together always meets a quorum: thresholds are possible.
		signed := map[string]bool{none: true}
		for _, n := range all {
			signed[n] = true
		}
		if !p.met(signed) || len(p.Missing(all)) != 0 {
			t.Fatal("a quorum that nobody can meet")
		}
	})
}
