// Package causaltest draws for the tests of the exact engines what they all are made of.
package causaltest

import "pgregory.net/rapid"

// DrawDistribution draws n probabilities that add to 1, quotients of small whole
// numbers. Some are often 0.
func DrawDistribution(t *rapid.T, n int, name string) []float64 {
	p := make([]float64, n)
	total := 0.0
	for i := range p {
		p[i] = float64(rapid.IntRange(0, 9).Draw(t, name))
		total += p[i]
	}
	if total == 0 {
		p[0], total = 1, 1
	}
	for i := range p {
		p[i] /= total
	}
	return p
}
