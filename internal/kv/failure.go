package kv

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"
)

// failure is the store's fail-stop latch and Pebble's logger: where Pebble
// would end the process, the first cause is kept and every later write refused.
type failure struct {
	log  zerolog.Logger
	once sync.Once
	ch   chan struct{}
	// cause is written once, before ch is closed.
	cause error
}

var _ pebble.Logger = (*failure)(nil)

func newFailure(log zerolog.Logger) *failure {
	return &failure{log: log, ch: make(chan struct{})}
}

func (f *failure) set(cause error) {
	f.once.Do(func() {
		f.cause = fmt.Errorf("%w: %w", ErrFailed, cause)
		f.log.Error().Err(cause).Msg("store failed")
		close(f.ch)
	})
}

func (f *failure) err() error {
	select {
	case <-f.ch:
		return f.cause
	default:
		return nil
	}
}

// background hears of failed flushes and compactions. Pebble calls it with its
// lock held and then tries again at once; the pause keeps that from spinning.
func (f *failure) background(err error) {
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	f.set(err)
	time.Sleep(flushRetryPause)
}

// Infof drops Pebble's running commentary.
func (f *failure) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (f *failure) Errorf(format string, args ...any) {
	f.log.Warn().Msgf("pebble: "+format, args...)
}

// Fatalf implements pebble.Logger without ending the process.
func (f *failure) Fatalf(format string, args ...any) { f.set(fmt.Errorf(format, args...)) }
