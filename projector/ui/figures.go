package ui

import (
	"context"
	"sync"
	"time"
)

// figures keeps what takes a pass over the views: a page shows what was counted
// last, which says of which record it is, while it is counted again. One is counted
// at a time, and none so often that counting takes more than a twentieth of the time.
type figures struct {
	mu    sync.Mutex
	kept  map[string]*figure
	count sync.Mutex // is held by the count under way
}

type figure struct {
	value any
	err   error
	at    time.Time     // when it was counted; zero before
	next  time.Time     // before which it is not counted again
	busy  chan struct{} // closed when the count under way ends; nil without one
	used  time.Time
}

const (
	// fresh is how long a figure is shown at least without counting again, and
	// restFor how many times as long as its count took.
	fresh   = 2 * time.Second
	restFor = 20
	// waitFor is how long a page waits for its figures, all together, before it shows
	// what there is.
	waitFor = 50 * time.Millisecond
	// countFor is how long a count may take.
	countFor = time.Minute
	// maxFigures are kept; the one that was not asked for longest goes.
	maxFigures = 64
)

// get is the figure of a name, waited for until wait ends. ok is false while it was
// never counted: the page says so and comes back.
func get[T any](wait context.Context, f *figures, name string, count func(context.Context) (T, error)) (v T, ok bool, err error) {
	g, busy := f.ask(name, func(ctx context.Context) (any, error) { return count(ctx) })
	if busy != nil {
		select {
		case <-busy:
		case <-wait.Done():
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
	now := time.Now()
	g.used = now
	if g.busy == nil && now.After(g.next) {
		g.busy = make(chan struct{})
		go f.run(g, count)
	}
	return g, g.busy
}

func (f *figures) run(g *figure, count func(context.Context) (any, error)) {
	f.count.Lock()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), countFor)
	v, err := count(ctx)
	cancel()
	f.count.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	g.value, g.err, g.at, g.next = v, err, now, now.Add(max(fresh, restFor*now.Sub(begun)))
	close(g.busy)
	g.busy = nil
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
