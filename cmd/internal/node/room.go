package node

import (
	"context"
	"errors"
	"syscall"
	"time"

	"assay/ledger/broker"
)

// DefaultLowWater is the room in bytes below which the intake takes nothing
// but the resolver's and the operator's events.
const DefaultLowWater = 256 << 20

// freeBytes is the room on the disk of path that is left to unprivileged users.
func freeBytes(path string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// FreeBytes is the room on the broker's disk that is left to unprivileged users.
func (d Dir) FreeBytes() (uint64, error) { return freeBytes(broker.Dir(d).Store()) }

// loggerRoom is how many bytes the logger may still cause to be written: the
// smallest of the room on the broker's disk, on the logger's own, and what
// limit says is left before the broker's store limit. Where the limit cannot
// be asked for, the disks alone count.
func loggerRoom(dir Dir, limit func() (uint64, error)) func() (uint64, error) {
	return func() (uint64, error) {
		room, err := dir.FreeBytes()
		if err != nil {
			return 0, err
		}
		own, err := freeBytes(string(dir.Logger()))
		if err != nil {
			return 0, err
		}
		room = min(room, own)
		if left, err := limit(); err == nil {
			room = min(room, left)
		}
		return room, nil
	}
}

// askTimeout bounds the question for the store limit: the logger asks it
// between two appends.
const askTimeout = 200 * time.Millisecond

var errLimitUnknown = errors.New("the broker's store limit is unknown")

// storeRoom is what is left before the store limit of the broker on this host.
// A broker in another process tells on its socket, to those who may open it.
func (h *Hub) storeRoom() (uint64, error) {
	switch {
	case h.embedded != nil:
		return h.embedded.StoreRoom()
	case h.local == "":
		return 0, errLimitUnknown
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var st Status
	if err := Ask(ctx, h.local.service("broker"), "GET", "/status", nil, &st); err != nil {
		return 0, err
	}
	if st.Broker == nil || st.Broker.StoreRoom == nil {
		return 0, errLimitUnknown
	}
	return *st.Broker.StoreRoom, nil
}

const (
	roomPoll    = time.Second
	firstReopen = time.Second
	lastReopen  = time.Minute
)

// awaitRoom returns once room is at least mark and pause has passed, or with
// ctx's error. Unknown room is no reason to wait longer.
func awaitRoom(ctx context.Context, room func() (uint64, error), mark uint64, pause time.Duration) error {
	for wait := pause; ; wait = roomPoll {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		if room == nil {
			return nil
		}
		free, err := room()
		if err != nil || free >= mark {
			return nil
		}
	}
}

// fullDisk says whether an error is one that room on the disk mends.
func fullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
