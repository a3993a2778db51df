package resolver

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"assay/resolver/criterion"
)

var (
	// ErrCorrupt means that bytes are not a segment in its one encoding.
	ErrCorrupt = errors.New("corrupt segment")
	// ErrUnsupportedVersion means a segment of a format that this build does not read.
	ErrUnsupportedVersion = errors.New("unsupported segment version")
)

const (
	segmentMagic = "assay-segment"
	// SegmentVersion is the format that EncodeSegment writes.
	SegmentVersion = 1
)

// EncodeSegment writes one source's samples in their canonical form, JSON
// lines: a header, then each sample by criterion.AppendSample, in the order of
// criterion.Compare, repeats left out.
//
//	{"magic":"assay-segment","v":1,"source":"host","samples":2}
//	{"stream":"b1","seq":7,"signal":"process_up","labels":{"pid":"9"},"time":"…Z","value":1}
//	…
//
// Its checksum is its name, the SHA-256 of these bytes. The samples are sorted
// in place; their own source is taken to be source.
func EncodeSegment(source string, samples []criterion.Sample) []byte {
	compare := func(a, b criterion.Sample) int { return criterion.Compare(&a, &b) }
	slices.SortFunc(samples, compare)
	samples = slices.CompactFunc(samples, func(a, b criterion.Sample) bool { return compare(a, b) == 0 })
	out := appendHeader(make([]byte, 0, 100+160*len(samples)), source, len(samples))
	for i := range samples {
		out = criterion.AppendSample(out, &samples[i])
		out = append(out, '\n')
	}
	return out
}

func appendHeader(dst []byte, source string, samples int) []byte {
	dst = append(dst, `{"magic":"`+segmentMagic+`","v":`...)
	dst = strconv.AppendInt(dst, SegmentVersion, 10)
	dst = append(dst, `,"source":"`...)
	dst = append(dst, source...)
	dst = append(dst, `","samples":`...)
	dst = strconv.AppendInt(dst, int64(samples), 10)
	return append(dst, '}', '\n')
}

type segmentHeader struct {
	Magic   string `json:"magic"`
	V       int64  `json:"v"`
	Source  string `json:"source"`
	Samples int64  `json:"samples"`
}

// DecodeSegment reads what EncodeSegment wrote, and nothing else:
// ErrUnsupportedVersion for another version, ErrCorrupt for anything but its
// one encoding.
func DecodeSegment(raw []byte) (source string, samples []criterion.Sample, err error) {
	head, rest, _ := bytes.Cut(raw, []byte{'\n'})
	var h segmentHeader
	if err := json.Unmarshal(head, &h, json.RejectUnknownMembers(true)); err != nil {
		return "", nil, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	switch {
	case h.Magic != segmentMagic:
		return "", nil, fmt.Errorf("%w: no magic", ErrCorrupt)
	case h.V != SegmentVersion:
		return "", nil, fmt.Errorf("%w %d", ErrUnsupportedVersion, h.V)
	case !criterion.IsSource(h.Source):
		return "", nil, fmt.Errorf("%w: source %q", ErrCorrupt, h.Source)
	}
	samples = make([]criterion.Sample, 0, min(bytes.Count(rest, []byte{'\n'}), int(max(h.Samples, 0))))
	decoder := criterion.NewDecoder(h.Source)
	for line := range bytes.Lines(rest) {
		line, whole := bytes.CutSuffix(line, []byte{'\n'})
		if !whole {
			return "", nil, fmt.Errorf("%w: sample %d is cut off", ErrCorrupt, len(samples))
		}
		s, err := decoder.Sample(line)
		if err != nil {
			return "", nil, fmt.Errorf("%w: sample %d: %w", ErrCorrupt, len(samples), err)
		}
		if n := len(samples); n > 0 && criterion.Compare(&samples[n-1], &s) >= 0 {
			return "", nil, fmt.Errorf("%w: sample %d is out of order", ErrCorrupt, n)
		}
		samples = append(samples, s)
	}
	if want := appendHeader(nil, h.Source, len(samples)); len(raw) == len(head) || !bytes.Equal(want[:len(want)-1], head) {
		return "", nil, fmt.Errorf("%w: its header is not that of %d samples", ErrCorrupt, len(samples))
	}
	return h.Source, samples, nil
}
