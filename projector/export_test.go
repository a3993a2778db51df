package projector

// Settle hashes up to n chunks, as a runner does that has nothing else to do.
func Settle(r *Runner, n int) error { return r.settleSome(n) }

// Scratch makes a runner that keeps no hashes.
func Scratch(cfg Config) Config {
	cfg.scratch = true
	return cfg
}

// StartsChunk says whether a key is cut before.
func StartsChunk(key string) bool { return startsChunk([]byte(key)) }
