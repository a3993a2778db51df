package resolver

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"assay/resolver/criterion"
)

func TestSegment(t *testing.T) {
	a, b := sample("level", 5, 1), sample("beat", 3, 2)
	b.Labels = map[string]string{"z": "1", "a": "2"}
	raw := EncodeSegment("s", []criterion.Sample{a, b, a})
	again := EncodeSegment("s", []criterion.Sample{b, a})
	if !bytes.Equal(raw, again) {
		t.Errorf("order or repeats change the bytes:\n%s%s", raw, again)
	}
	source, samples, err := DecodeSegment(raw)
	if err != nil || source != "s" || len(samples) != 2 || criterion.Compare(&samples[0], &b) != 0 || criterion.Compare(&samples[1], &a) != 0 {
		t.Errorf("%s %+v %v", source, samples, err)
	}
	lines := strings.SplitAfter(string(raw), "\n")
	for name, bad := range map[string]string{
		"empty":            "",
		"no magic":         strings.Replace(string(raw), "assay-segment", "segment", 1),
		"a count too many": strings.Replace(string(raw), `"samples":2`, `"samples":3`, 1),
		"swapped":          lines[0] + lines[2] + lines[1],
		"doubled":          lines[0] + lines[1] + lines[1] + lines[2],
		"cut off":          string(raw[:len(raw)-1]),
		"another spelling": strings.Replace(string(raw), `"value":1}`, `"value":1.0}`, 1),
		"trailing":         string(raw) + "\n",
		"source":           strings.Replace(string(raw), `"source":"s"`, `"source":"S"`, 1),
	} {
		if _, _, err := DecodeSegment([]byte(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	if _, _, err := DecodeSegment([]byte(strings.Replace(string(raw), `"v":1`, `"v":2`, 1))); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("version 2: %v", err)
	}
}

func FuzzDecodeSegment(f *testing.F) {
	f.Add(EncodeSegment("s", []criterion.Sample{
		{Source: "s", Stream: "b", Seq: 1, Signal: "level", Time: epoch, Value: 1.5},
		{Source: "s", Stream: "b", Seq: 2, Signal: "total", Labels: map[string]string{"a": "b"}, Time: epoch, Start: epoch, Value: 2},
	}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		source, samples, err := DecodeSegment(raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(EncodeSegment(source, samples), raw) {
			t.Fatal("accepted what is not canonical")
		}
	})
}
