package tiles

import (
	"encoding/binary"
	"errors"
	"fmt"

	"assay/ledger"
)

// MaxBundle is the size in bytes of the largest bundle.
const MaxBundle = Width * (2 + ledger.MaxRecord)

var (
	// ErrBundle means that bytes are no bundle of the wanted number of entries.
	ErrBundle = errors.New("malformed entry bundle")
	// ErrTooLong means that a body is longer than a bundle's entry can be.
	ErrTooLong = errors.New("entry of more than 65535 bytes")
)

// AppendEntry appends a record's body to a bundle; ErrTooLong if it has more
// than ledger.MaxRecord bytes.
func AppendEntry(dst, body []byte) ([]byte, error) {
	if len(body) > ledger.MaxRecord {
		return dst, fmt.Errorf("%w: %d", ErrTooLong, len(body))
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(body)))
	return append(dst, body...), nil
}

// NextEntry splits the first entry off a bundle. Both parts alias it. ErrBundle
// if the bundle ends before the entry does.
func NextEntry(bundle []byte) (body, rest []byte, err error) {
	if len(bundle) < 2 {
		return nil, nil, fmt.Errorf("%w: it ends within a length", ErrBundle)
	}
	n := int(binary.BigEndian.Uint16(bundle))
	if len(bundle)-2 < n {
		return nil, nil, fmt.Errorf("%w: an entry of %d bytes with %d left", ErrBundle, n, len(bundle)-2)
	}
	return bundle[2 : 2+n : 2+n], bundle[2+n:], nil
}

// ReadBundle calls fn for each of the width entries of a bundle; ErrBundle with
// the place if it holds fewer or anything after them. fn has then seen what comes
// before that place. Bodies alias the bundle. An error of fn ends it and is
// returned.
func ReadBundle(bundle []byte, width int, fn func(i int, body []byte) error) error {
	for i := range width {
		body, rest, err := NextEntry(bundle)
		if err != nil {
			return fmt.Errorf("entry %d of %d: %w", i, width, err)
		}
		if err := fn(i, body); err != nil {
			return err
		}
		bundle = rest
	}
	if len(bundle) > 0 {
		return fmt.Errorf("%w: %d bytes after its %d entries", ErrBundle, len(bundle), width)
	}
	return nil
}
