package detector

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Weights are what training comes to. The numbers are fixed-point, so that they come
// out the same on every machine.
type Weights struct {
	// Threshold is the score, in units of 1/scale before the logistic function, from
	// which on a turn holds an opportunity.
	Threshold int32
	// heads[0] tells opportunities from other sentences, heads[1+k] Kinds[k] from the
	// other kinds.
	heads [heads][buckets]int16
}

const (
	// heads: one for the verdict and one a kind.
	heads = 1 + 6
	// buckets is how many features are told apart; others share one.
	buckets     = 1 << 13
	scale       = 1 << 12 // a weight of 1
	weightsForm = 1
)

var magic = [8]byte{'a', 's', 's', 'a', 'y', 'd', 't', 'w'}

var (
	// ErrCorrupt means that a file of weights is not what was written.
	ErrCorrupt = errors.New("weights are corrupt")
	// ErrUnsupportedVersion means that the file is of another version of the format.
	ErrUnsupportedVersion = errors.New("weights of an unsupported version")
	// ErrPatterns means that the weights were trained on other patterns or by another
	// version of the method.
	ErrPatterns = errors.New("weights were trained on other patterns")
)

//go:embed weights.bin
var defaultWeights []byte

// method is the version of everything in code that a verdict depends on: how a text is
// cut, what its features are. It is raised with each change of them.
const method = "d2"

// patternsHash is what weights are trained on beside the turns.
func patternsHash() [sha256.Size]byte {
	return sha256.Sum256(append([]byte(method+"\n"), patternText...))
}

// MarshalBinary writes the weights:
//
//	8   magic "assaydtw"
//	2   version, big-endian like all that follows
//	32  SHA-256 of method and patterns
//	4   threshold
//	2n  weights, head by head
//	32  SHA-256 of all before
func (w *Weights) MarshalBinary() ([]byte, error) {
	out := make([]byte, 0, weightsSize)
	out = append(out, magic[:]...)
	out = binary.BigEndian.AppendUint16(out, weightsForm)
	hash := patternsHash()
	out = append(out, hash[:]...)
	out = binary.BigEndian.AppendUint32(out, uint32(w.Threshold))
	for h := range w.heads {
		for _, v := range w.heads[h] {
			out = binary.BigEndian.AppendUint16(out, uint16(v))
		}
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), nil
}

const (
	headerSize  = 8 + 2 + sha256.Size + 4
	weightsSize = headerSize + 2*heads*buckets + sha256.Size
)

// UnmarshalBinary reads what MarshalBinary wrote.
func (w *Weights) UnmarshalBinary(data []byte) error {
	switch {
	case len(data) < headerSize || [8]byte(data[:8]) != magic:
		return fmt.Errorf("%w: not a file of weights", ErrCorrupt)
	case binary.BigEndian.Uint16(data[8:]) != weightsForm:
		return fmt.Errorf("%w: %d", ErrUnsupportedVersion, binary.BigEndian.Uint16(data[8:]))
	case len(data) != weightsSize:
		return fmt.Errorf("%w: %d bytes, not %d", ErrCorrupt, len(data), weightsSize)
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return fmt.Errorf("%w: the checksum differs", ErrCorrupt)
	}
	if [sha256.Size]byte(body[10:]) != patternsHash() {
		return ErrPatterns
	}
	w.Threshold = int32(binary.BigEndian.Uint32(body[headerSize-4:]))
	at := body[headerSize:]
	for h := range w.heads {
		for i := range w.heads[h] {
			w.heads[h][i] = int16(binary.BigEndian.Uint16(at))
			at = at[2:]
		}
	}
	return nil
}

// score is a head's sum over features, in units of 1/scale. However long a sentence is,
// it is as far on the side to which it leans as an int32 goes.
func (w *Weights) score(head int, features []uint16) int32 {
	weights, sum := &w.heads[head], int64(0)
	for _, f := range features {
		sum += int64(weights[f])
	}
	return int32(max(math.MinInt32, min(math.MaxInt32, sum)))
}

// logistic is the probability of a score, in millionths. Beyond 16 it is one of the ends.
func logistic(score int64) int64 {
	score = max(-16*scale, min(16*scale, score))
	return int64(math.Round(1e6 / (1 + exp(-float64(score)/scale))))
}

// exp is e to the x, for x of some tens, from its series at x/1024. Unlike math.Exp it has the same bits
// on every machine: no product is fused with a sum.
func exp(x float64) float64 {
	x /= 1024
	e := 1 + float64(x/5)
	for _, n := range [...]float64{4, 3, 2, 1} {
		e = 1 + float64(x/n*e)
	}
	for range 10 {
		e *= e
	}
	return e
}
