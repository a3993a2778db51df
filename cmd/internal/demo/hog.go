package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// The hog's bounds: it never takes more memory nor lives longer, whatever
// happens to the demo around it.
const (
	hogMaxMiB  = 192
	hogMaxLife = 30 * time.Second
	hogStep    = 8 // MiB
	hogPause   = 100 * time.Millisecond
)

// HogCommand is the hidden command that runs Hog in a process of its own.
const HogCommand = "demo-hog"

// Hog takes and touches memory step by step up to mib, holds it, and returns
// after life; both are capped.
func Hog(ctx context.Context, mib int, life time.Duration) {
	mib, life = min(mib, hogMaxMiB), min(life, hogMaxLife)
	debug.SetGCPercent(-1)
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	var held [][]byte
	for len(held)*hogStep < mib {
		block := make([]byte, hogStep<<20)
		for i := 0; i < len(block); i += os.Getpagesize() {
			block[i] = 1 // resident, not only reserved
		}
		held = append(held, block)
		select {
		case <-ctx.Done():
			return
		case <-time.After(hogPause):
		}
	}
	<-ctx.Done()
	runtime.KeepAlive(held)
}

// startHog runs the hog as a child of this process.
func startHog() (*exec.Cmd, error) {
	cmd := &exec.Cmd{
		// The name is kept, since a binary may serve several.
		Path: "/proc/self/exe",
		Args: []string{os.Args[0], HogCommand, strconv.Itoa(hogMaxMiB), hogMaxLife.String()},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the memory hog: %w", err)
	}
	return cmd, nil
}
