package kv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	other := errors.New("other")
	for name, tt := range map[string]struct {
		locked  time.Duration
		then    error
		want    error
		seconds float64
	}{
		"free":          {0, nil, nil, 0},
		"soon":          {5 * time.Second, nil, nil, 5},
		"another error": {time.Second, other, other, 1},
		"never":         {time.Hour, nil, ErrLocked, 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := Wait(t.Context(), func() error {
					if time.Since(start) < tt.locked {
						return fmt.Errorf("open store: %w", ErrLocked)
					}
					return tt.then
				})
				if took := time.Since(start).Seconds(); !errors.Is(err, tt.want) || took != tt.seconds {
					t.Errorf("%v after %v s", err, took)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Wait(ctx, func() error { return ErrLocked }); !errors.Is(err, ErrLocked) {
		t.Errorf("cancelled: %v", err)
	}
}
