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
