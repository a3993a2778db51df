package world

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// Seed is what everything of a set, a world or an item follows from.
type Seed [32]byte

// SeedOf is the seed that a text names. Who can guess the text knows all answers.
func SeedOf(text string) Seed { return sha256.Sum256([]byte("assay causal worlds 1\n" + text)) }

// Derive is a seed of its own for a part. It tells nothing of s.
func (s Seed) Derive(part string) Seed {
	mac := hmac.New(sha256.New, s[:])
	mac.Write([]byte(part))
	return Seed(mac.Sum(nil))
}

// Rand draws whole numbers. Its bytes are those of chacha8rand (C2SP), and how a number
// is made of them is written here, so that a seed draws the same on any machine and
// with any version of Go.
type Rand struct{ source *rand.ChaCha8 }

// Rand draws from a seed.
func (s Seed) Rand() *Rand { return &Rand{rand.NewChaCha8(s)} }

// Below draws from 0 to n-1.
func (r *Rand) Below(n int) int {
	if n < 1 {
		panic("world: nothing to draw from")
	}
	span := uint64(n)
	over := -span % span // 2^64 mod n: the numbers below it would count once too often
	for {
		if x := r.source.Uint64(); x >= over {
			return int(x % span)
		}
	}
}

// Between draws from low to high, both included.
func (r *Rand) Between(low, high int) int { return low + r.Below(high-low+1) }

// Share draws a number from 0 up to 1, as a multiple of 2^-53.
func (r *Rand) Share() float64 { return float64(r.source.Uint64()>>11) / (1 << 53) }

// Chance is true in k of 1000 draws.
func (r *Rand) Chance(k int) bool { return r.Below(1000) < k }

// Bytes fills b.
func (r *Rand) Bytes(b []byte) {
	for len(b) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], r.source.Uint64())
		b = b[copy(b, word[:]):]
	}
}

// Shuffle brings a list in any order.
func Shuffle[T any](r *Rand, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := r.Below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// Pick draws one of a list.
func Pick[T any](r *Rand, list []T) T { return list[r.Below(len(list))] }
