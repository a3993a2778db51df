package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	family = "assay spool " // the version and a newline follow
	magic  = family + "1\n"
)

// entryHead is what an entry has before its event.
const entryHead = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// errCut means that the bytes end before what they begin.
	errCut = errors.New("cut off")
	// errAltered means bytes that were never written so.
	errAltered = errors.New("altered")
)

func segmentName(n uint64) string { return fmt.Sprintf("%016x%s", n, suffix) }

func appendHeader(b []byte, principal string) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(principal)))
	b = append(b, principal...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// decodeHeader is where the first entry starts: errCut for a header that was
// not written to its end, ErrUnsupportedVersion, ErrCorrupt, ErrOtherPrincipal.
func decodeHeader(raw []byte, principal string) (int, error) {
	want := appendHeader(nil, principal)
	if got := bytes.TrimRight(raw, "\x00"); len(got) < len(want) && bytes.HasPrefix(want, got) {
		return 0, errCut
	}
	if !bytes.HasPrefix(raw, []byte(magic)) {
		if version, ok := bytes.CutPrefix(raw, []byte(family)); ok {
			return 0, fmt.Errorf("%w: %q, want 1", ErrUnsupportedVersion, bytes.TrimRight(version[:min(8, len(version))], "\n"))
		}
		return 0, fmt.Errorf("%w: no header", ErrCorrupt)
	}
	rest := raw[len(magic):]
	if len(rest) < 2 {
		return 0, fmt.Errorf("%w: short header", ErrCorrupt)
	}
	n := int(binary.BigEndian.Uint16(rest))
	end := len(magic) + 2 + n
	if len(raw) < end+4 || binary.BigEndian.Uint32(raw[end:]) != crc32.Checksum(raw[:end], castagnoli) {
		return 0, fmt.Errorf("%w: checksum of the header", ErrCorrupt)
	}
	if got := string(rest[2 : 2+n]); got != principal {
		return 0, fmt.Errorf("%w: %q, want %q", ErrOtherPrincipal, got, principal)
	}
	return end + 4, nil
}

func entrySize(event []byte) int { return entryHead + len(event) }

func appendEntry(b, event []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(event)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(event, castagnoli))
	return append(b, event...)
}

// decodeEntries calls fn with each event from off on until it says false, and
// returns where the first entry starts that fn did not take. An event whose
// checksum is wrong is nil. errCut means that the bytes end within an entry, or
// in zeros that a file system put there; errAltered that an entry's length is
// wrong, so that what follows cannot be told apart.
func decodeEntries(raw []byte, off int, fn func(event []byte) bool) (end int, err error) {
	for off < len(raw) {
		rest := raw[off:]
		if len(rest) < entryHead {
			return off, errCut
		}
		n := int(binary.BigEndian.Uint32(rest))
		if n == 0 || n > MaxEvent || binary.BigEndian.Uint32(rest[4:]) != crc32.Checksum(rest[:4], castagnoli) {
			if isZero(rest[entryHead:]) {
				return off, errCut
			}
			return off, errAltered
		}
		if len(rest) < entryHead+n {
			return off, errCut
		}
		event := rest[entryHead : entryHead+n]
		if binary.BigEndian.Uint32(rest[8:]) != crc32.Checksum(event, castagnoli) {
			if event[n-1] == 0 && isZero(rest[entryHead+n:]) {
				return off, errCut // its end never reached the disk
			}
			event = nil
		}
		if !fn(event) {
			return off, nil
		}
		off += entryHead + n
	}
	return off, nil
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
