package node

import (
	"strings"
	"testing"
	"time"

	"assay/internal/blob"
	"assay/projector/ui"
	"assay/resolver"
	"assay/resolver/criterion"
)

// Samples of a resolution come from the segments that it names itself, or that its
// manifest names; those that are gone are counted.
func TestEvidenceSamples(t *testing.T) {
	dir := Dir(t.TempDir())
	store, err := blob.Open(dir.Blobs())
	check(t, err)
	put := func(raw []byte) string {
		name, err := store.Put(raw)
		check(t, err)
		return name
	}
	segment := func(at int64, signals ...string) string {
		var samples []criterion.Sample
		for i, signal := range signals {
			samples = append(samples, criterion.Sample{Stream: "b", Seq: uint64(at) + uint64(i), Signal: signal, Time: time.Unix(at, 0).UTC(), Value: 1})
		}
		return put(resolver.EncodeSegment("host", samples))
	}
	one, two, gone := segment(10, "rss", "other"), segment(20, "rss"), strings.Repeat("a", 64)
	manifest := put([]byte("assay-evidence 1\n" + strings.Join([]string{one, gone, two}, "\n") + "\n"))
	u := &UISource{dir: dir}
	for _, tt := range []struct {
		refs              []string
		samples           int
		segments, missing int
	}{
		{[]string{one, two}, 2, 2, 0},
		{[]string{one}, 1, 1, 0},
		{[]string{gone}, 0, 1, 1},
		{[]string{manifest}, 2, 3, 1},
		{nil, 0, 0, 0},
	} {
		var out ui.Evidence
		samples, err := u.samples(tt.refs, map[string]bool{"rss": true}, &out)
		if err != nil || len(samples) != tt.samples || out.Segments != tt.segments || out.Missing != tt.missing || out.Cut {
			t.Errorf("%v: %d samples, %+v, %v", tt.refs, len(samples), out, err)
		}
	}
	var many []string
	for i := range maxDrawnSegments + 3 {
		many = append(many, segment(int64(100+i), "rss"))
	}
	var out ui.Evidence
	samples, err := u.samples(many, map[string]bool{"rss": true}, &out)
	if err != nil || len(samples) != maxDrawnSegments || !out.Cut {
		t.Errorf("%d samples of too many segments, %+v, %v", len(samples), out, err)
	}
	if _, err := u.samples([]string{put([]byte("no segment")), one}, nil, &out); err == nil {
		t.Error("bytes that are no segment are read")
	}
	nowhere := &UISource{dir: Dir(t.TempDir())}
	out = ui.Evidence{}
	if _, err := nowhere.samples([]string{one, two}, nil, &out); err != nil || out.Missing != 2 {
		t.Errorf("without a store: %+v, %v", out, err)
	}
	if got := labelsText(map[string]string{"b": "2", "a": "1"}); got != "a=1, b=2" {
		t.Error(got)
	}
}
