package gateway

import (
	"math"
	"sync"
	"time"
)

// bucket is a token bucket: rate tokens a second, burst at most.
type bucket struct {
	mu          sync.Mutex
	rate, burst float64
	tokens      float64
	last        time.Time
}

// newBucket is full, as soon as it has a limit.
func newBucket(now time.Time) *bucket { return &bucket{last: now, tokens: math.Inf(1)} }

// limit sets rate and burst; what is left stays, up to the burst.
func (b *bucket) limit(rate, burst float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate, b.burst, b.tokens = rate, burst, min(b.tokens, burst)
}

// take takes one token for a request, or says how long it is until there is one.
func (b *bucket) take(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := now.Sub(b.last); d > 0 {
		b.tokens = min(b.burst, b.tokens+b.rate*d.Seconds())
		b.last = now
	}
	if b.tokens < 1 {
		return b.until(1), false
	}
	b.tokens--
	return 0, true
}

// takeRest takes what a request of n events owes beside its one token, or says
// how long it is until the whole request can be paid. More events than the burst
// are let in when the bucket is full, and leave a debt.
func (b *bucket) takeRest(n float64) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	need := min(n, b.burst)
	if b.tokens+1 < need {
		return b.until(need), false
	}
	b.tokens -= n - 1
	return 0, true
}

func (b *bucket) until(tokens float64) time.Duration {
	return time.Duration((tokens - b.tokens) / b.rate * float64(time.Second))
}

// budget bounds the bytes that one principal's requests hold in memory.
type budget struct {
	mu   sync.Mutex
	left int64
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < n {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}
