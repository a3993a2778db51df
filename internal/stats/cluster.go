package stats

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// Clusters holds what each arm did in each independent unit of an experiment: by
// the unit's id and the arm's name, one value a run, nil where a run's value is not
// known. Stages, skins and repeated runs of one world are values of one cluster:
// they do not add to the number of independent cases.
type Clusters map[string]map[string][]*float64

// Resampling is how an interval over clusters is made. A metric registers it
// before the data are seen.
type Resampling struct {
	B           int     // resamples
	Confidence  float64 // in (0, 1)
	Method      Method
	MinClusters int // fewer clusters than this, or than 2, give no interval
}

// Suppressed says why there is no interval.
type Suppressed string

// The reasons, the first that holds.
const (
	NoCluster    Suppressed = "no_cluster"        // not one in which both arms are known
	FewClusters  Suppressed = "too_few_clusters"  // fewer than registered
	NoVariation  Suppressed = "no_variation"      // every cluster shows the same difference
	NotFinite    Suppressed = "not_finite"        // sums leave the range of numbers
	FewResamples Suppressed = "too_few_resamples" // for the confidence, or for the correction of BCa
)

// Comparison is the paired difference of two arms.
type Comparison struct {
	Estimate   *float64  // mean over clusters of (mean of a − mean of b)
	Interval   *Interval // nil where Suppressed says why
	Suppressed Suppressed
	Clusters   int // with both arms known
	Incomplete int // left out: an arm is missing, or one of its values unknown
	Seed       uint64
}

// Compare is the difference a − b, bootstrapped over whole clusters. Values are
// averaged within a cluster first, so that a cluster weighs the same however many
// runs it has. What is drawn depends on the ids of the clusters and on B alone:
// every pair of arms over the same clusters sees the same resamples, and a further
// arm changes nothing. Swapping the arms mirrors Percentile and Basic exactly.
//
// A cluster where one of a's or b's values is unknown is left out and counted: the
// mean of what is known would be a guess at the rest.
func (c Clusters) Compare(a, b string, r Resampling) Comparison {
	var ids []string
	var differences []float64
	for _, id := range slices.Sorted(maps.Keys(c)) {
		ma, okA := knownMean(c[id][a])
		mb, okB := knownMean(c[id][b])
		if okA && okB {
			ids = append(ids, id)
			differences = append(differences, ma-mb)
		}
	}
	out := Comparison{Clusters: len(ids), Incomplete: len(c) - len(ids), Seed: Seed(ids)}
	if len(ids) == 0 {
		out.Suppressed = NoCluster
		return out
	}
	estimate := mean(differences)
	if !isFinite(estimate) {
		out.Suppressed = NotFinite
		return out
	}
	out.Estimate = &estimate
	if len(ids) < max(2, r.MinClusters) {
		out.Suppressed = FewClusters
		return out
	}
	bs, ok := newBootstrap(differences, slices.Sorted(slices.Values(differences)), r.B, out.Seed)
	if !ok {
		out.Suppressed = NotFinite
		return out
	}
	if !bs.Varies() {
		out.Suppressed = NoVariation
		return out
	}
	iv, ok := bs.Interval(r.Method, r.Confidence)
	if !ok {
		out.Suppressed = FewResamples
		return out
	}
	out.Interval = &iv
	return out
}

func knownMean(values []*float64) (m float64, ok bool) {
	if len(values) == 0 {
		return 0, false
	}
	var sum float64
	for _, v := range values {
		if v == nil || math.IsNaN(*v) {
			return 0, false
		}
		sum += *v
	}
	return sum / float64(len(values)), true
}

// Seed is the seed of a set of clusters, in any order: the first 53 bits, which
// every reader of JSON keeps, of the SHA-256 over the sorted ids, each after its
// length in bytes as eight bytes, big-endian. Nobody can choose it once the
// clusters are named.
func Seed(ids []string) uint64 {
	h := sha256.New()
	var length [8]byte
	for _, id := range slices.Sorted(slices.Values(ids)) {
		binary.BigEndian.PutUint64(length[:], uint64(len(id)))
		h.Write(length[:])
		h.Write([]byte(id))
	}
	return binary.BigEndian.Uint64(h.Sum(nil)) >> 11
}

// Verdict is what an interval says about a margin.
type Verdict string

// The verdicts. Inconclusive also stands for no interval: not significant is not
// the same.
const (
	NonInferior  Verdict = "noninferior"
	Inferior     Verdict = "inferior"
	Inconclusive Verdict = "inconclusive"
)

// Judge holds the interval of a − b, nil where there is none, against a margin of 0
// or more (ICH E9, section 3.3.2): noninferior if all of it is better than a loss of
// the margin, inferior if all of it is worse, equivalent if all of it lies strictly
// within ±margin. An interval at confidence 1 − 2α makes each a one-sided test at α.
func Judge(iv *Interval, margin float64, higherIsBetter bool) (v Verdict, equivalent bool) {
	if iv == nil {
		return Inconclusive, false
	}
	gain := *iv // of a over b
	if !higherIsBetter {
		gain = Interval{-iv.High, -iv.Low}
	}
	equivalent = gain.Low > -margin && gain.High < margin
	switch {
	case gain.Low > -margin:
		return NonInferior, equivalent
	case gain.High < -margin:
		return Inferior, equivalent
	}
	return Inconclusive, equivalent
}
