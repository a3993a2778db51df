package projector

import "hash/maphash"

const (
	filterFirst   = 1 << 19 // bits of the first block
	filterLargest = 1 << 25 // bits of the largest
	filterBits    = 20      // bits a key: about one false "maybe" in 10,000
	filterProbes  = 10
)

// keyFilter knows which keys a projection that is built from record 1 cannot
// have yet, so that a new key costs no read of the store: most keys are new.
// It is a Bloom filter in blocks of growing size (a false maybe costs the search of
// every table, some 60 µs), and never says no for a key
// that was added.
type keyFilter struct {
	seed   maphash.Seed
	blocks [][]uint64
	room   int // keys that the last block still takes
}

func newKeyFilter() *keyFilter { return &keyFilter{seed: maphash.MakeSeed()} }

func (f *keyFilter) add(key string) {
	if f.room == 0 {
		bits := min(filterFirst<<(2*len(f.blocks)), filterLargest)
		f.blocks = append(f.blocks, make([]uint64, bits/64))
		f.room = bits / filterBits
	}
	f.room--
	h := maphash.String(f.seed, key)
	block := f.blocks[len(f.blocks)-1]
	for i := range uint64(filterProbes) {
		at := probe(h, i) & uint64(len(block)*64-1)
		block[at/64] |= 1 << (at % 64)
	}
}

// mayHave is false only for keys that were never added.
func (f *keyFilter) mayHave(key string) bool {
	h := maphash.String(f.seed, key)
	for _, block := range f.blocks {
		if blockMayHave(block, h) {
			return true
		}
	}
	return false
}

func blockMayHave(block []uint64, h uint64) bool {
	for i := range uint64(filterProbes) {
		at := probe(h, i) & uint64(len(block)*64-1)
		if block[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

// probe derives the i-th position by double hashing.
func probe(h, i uint64) uint64 { return h + i*(h>>32|1) }
