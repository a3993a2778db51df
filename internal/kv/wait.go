package kv

import (
	"context"
	"errors"
	"time"
)

const (
	patience = 30 * time.Second
	askAgain = 20 * time.Millisecond
)

// Wait calls fn again as long as it gives ErrLocked, for half a minute at most: who
// reads a store that does not change is soon done with it.
func Wait(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := fn()
		if !errors.Is(err, ErrLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgain):
		}
	}
}
