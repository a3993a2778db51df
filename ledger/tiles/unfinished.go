package tiles

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"assay/ledger"
)

// errUnfinished means that bytes are no state of an export.
var errUnfinished = errors.New("malformed state of an unfinished export")

const unfinishedMagic = "assay unfinished export 1"

// unfinished is the state of an export that is under way: five lines of text,
// the first one unfinishedMagic.
type unfinished struct {
	origin string
	from   uint64 // size of the checkpoint that was in place when it began
	to     uint64 // size of the checkpoint that it works towards
	// at records, a multiple of Width, are in full tiles and bundles that were
	// synced; they have the root.
	at   uint64
	root ledger.Hash
}

func (u unfinished) encode() []byte {
	return fmt.Appendf(nil, "%s\n%s\nfrom %d to %d\nsynced %d\n%s\n", unfinishedMagic, u.origin, u.from, u.to, u.at, u.root)
}

// parseUnfinished reads exactly what encode writes.
func parseUnfinished(raw []byte) (u unfinished, err error) {
	lines := strings.Split(string(raw), "\n")
	if len(lines) != 6 || lines[0] != unfinishedMagic {
		return u, errUnfinished
	}
	u.origin = lines[1]
	numbers := strings.Fields(strings.NewReplacer("from ", "", "to ", "", "synced ", "").Replace(lines[2] + " " + lines[3]))
	if len(numbers) != 3 {
		return u, errUnfinished
	}
	for i, n := range []*uint64{&u.from, &u.to, &u.at} {
		if *n, err = strconv.ParseUint(numbers[i], 10, 64); err != nil {
			return u, errUnfinished
		}
	}
	if u.root, err = ledger.ParseHash(lines[4]); err != nil {
		return u, errUnfinished
	}
	if string(u.encode()) != string(raw) || u.from > u.to || u.at > u.to || u.at%Width != 0 {
		return u, errUnfinished
	}
	return u, nil
}

// UnfinishedSize reads from the content of UnfinishedName how many records the
// export that is under way, or was cut off, will have.
func UnfinishedSize(raw []byte) (uint64, error) {
	u, err := parseUnfinished(raw)
	return u.to, err
}
