package projector

import "assay/internal/kv"

// Settle hashes up to n chunks, as a runner does that has nothing else to do.
func Settle(r *Runner, n int) error { return r.settleSome(n) }

// Stale counts the chunks in the store of which no hash is kept.
func Stale(db *kv.DB) (n int) {
	err := db.Scan([]byte(chunkPrefix), nil, func(_, v []byte) error {
		if len(v) == stampSize {
			n++
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return n
}

// Scratch makes a runner that keeps no hashes.
func Scratch(cfg Config) Config {
	cfg.scratch = true
	return cfg
}

// StartsChunk says whether a key is cut before.
func StartsChunk(key string) bool { return startsChunk([]byte(key)) }

// FewMarks makes a runner that writes down n marks before what is kept is given up.
func FewMarks(cfg Config, n int) Config {
	cfg.maxMarks = n
	return cfg
}

// MarksOf are the marks that a change of a key leaves, and MarkOf is that of a key or
// prefix that was read.
func MarksOf(projection, key string) []uint32 { return appendMarks(nil, markOf(projection), key) }
func MarkOf(projection, key string) uint32    { return mark(projection, key) }
