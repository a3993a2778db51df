package ui

import (
	"context"
	"sync"
	"time"
)

// figures keeps what takes a pass over the views: a page shows what was counted
// last, which says of which record it is, while it is counted again. Each figure is
// counted by one goroutine at a time, and few at once.
type figures struct {
	mu   sync.Mutex
	kept map[string]*figure
}

type figure struct {
	value any
	err   error
	at    time.Time     // when it was counted; zero before
	busy  chan struct{} // closed when the count under way ends; nil without one
	used  time.Time
}

const (
	// fresh is how long a figure is shown without counting again.
	fresh = 2 * time.Second
	// waitFor is how long a page waits for a figure before it shows what there is.
	waitFor = 60 * time.Millisecond
	// countFor is how long a count may take.
	countFor = time.Minute
	// maxFigures are kept; the one that was not asked for longest goes.
	maxFigures = 64
)

// get is the figure of a name. ok is false while it was never counted: the page says
// so and comes back.
func get[T any](ctx context.Context, f *figures, name string, count func(context.Context) (T, error)) (v T, ok bool, err error) {
	g, busy := f.ask(name, func(ctx context.Context) (any, error) { return count(ctx) })
	if busy != nil {
		select {
		case <-busy:
		case <-time.After(waitFor):
		case <-ctx.Done():
			return v, false, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.at.IsZero() {
		return v, false, nil
	}
	v, _ = g.value.(T)
	return v, true, g.err
}

// ask finds the figure and sees to it that it is counted if it is not fresh.
func (f *figures) ask(name string, count func(context.Context) (any, error)) (*figure, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.kept[name]
	if g == nil {
		if f.kept == nil {
			f.kept = make(map[string]*figure)
		}
		f.forget()
		g = &figure{}
		f.kept[name] = g
	}
	g.used = time.Now()
	if g.busy == nil && time.Since(g.at) > fresh {
		g.busy = make(chan struct{})
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), countFor)
			defer cancel()
			v, err := count(ctx)
			f.mu.Lock()
			defer f.mu.Unlock()
			g.value, g.err, g.at = v, err, time.Now()
			close(g.busy)
			g.busy = nil
		}()
	}
	return g, g.busy
}

// forget makes room for one more.
func (f *figures) forget() {
	for len(f.kept) >= maxFigures {
		oldest := ""
		for name, g := range f.kept {
			if g.busy == nil && (oldest == "" || g.used.Before(f.kept[oldest].used)) {
				oldest = name
			}
		}
		if oldest == "" {
			return
		}
		delete(f.kept, oldest)
	}
}
