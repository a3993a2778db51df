package projector

import "hash/maphash"

const (
	filterFirst   = 1 << 10 // lines of the first block: 64 KiB
	filterLargest = 1 << 16 // lines of the largest: 4 MiB
	lineKeys      = 25      // keys a line: about one false "maybe" in 3000
	lineProbes    = 7       // of nine bits each
)

// filterLine is what a processor fetches at once.
type filterLine [8]uint64

// keyFilter knows which keys a projection that is built from record 1 cannot
// have yet, so that a new key costs no read of the store: most keys are new.
// It is a Bloom filter in blocks of growing size, of which a key touches one line
// each, and never says no for a key that was added. A false maybe costs the search
// of every table, some 60 µs.
type keyFilter struct {
	seed   maphash.Seed
	blocks [][]filterLine
	room   int // keys that the last block still takes
}

func newKeyFilter() *keyFilter { return &keyFilter{seed: maphash.MakeSeed()} }

func (f *keyFilter) add(key string) {
	if f.room == 0 {
		lines := min(filterFirst<<(2*len(f.blocks)), filterLargest)
		f.blocks = append(f.blocks, make([]filterLine, lines))
		f.room = lines * lineKeys
	}
	f.room--
	h := maphash.String(f.seed, key)
	line := lineOf(f.blocks[len(f.blocks)-1], h)
	for bits := spread(h); bits > 1; bits >>= 9 {
		line[bits>>6&7] |= 1 << (bits & 63)
	}
}

// mayHave is false only for keys that were never added.
func (f *keyFilter) mayHave(key string) bool {
	h := maphash.String(f.seed, key)
	for _, block := range f.blocks {
		if lineOf(block, h).mayHave(spread(h)) {
			return true
		}
	}
	return false
}

func lineOf(block []filterLine, h uint64) *filterLine { return &block[h&uint64(len(block)-1)] }

func (l *filterLine) mayHave(bits uint64) bool {
	for ; bits > 1; bits >>= 9 {
		if l[bits>>6&7]&(1<<(bits&63)) == 0 {
			return false
		}
	}
	return true
}

// spread makes of a hash, whose 16 low bits choose the line, the places in it: nine
// bits each, behind a one that ends them.
func spread(h uint64) uint64 {
	return h>>16*0x9e3779b97f4a7c15>>(64-9*lineProbes) | 1<<(9*lineProbes)
}
