package kv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"assay/internal/kv"
	"assay/internal/kv/kvtest"
)

// TestOpenOnAFailingDisk opens a store that has to replay its log while each
// operation of the disk in turn, and all behind it, fail: Open comes back, and
// on a disk that works nothing is missing.
func TestOpenOnAFailingDisk(t *testing.T) {
	disk := kvtest.NewDisk()
	fill := func(db *kv.DB, key string) error {
		b := db.NewBatch()
		defer b.Close()
		b.Put([]byte(key), []byte("v"))
		return b.Commit(true)
	}
	db, err := kv.Open("store", kv.Options{FS: disk.FS()})
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(db, "k"); err != nil {
		t.Fatal(err)
	}
	crashed := disk.Crash(0, nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	failing, opened := 0, 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for at := 1; at <= 30; at++ {
		for _, outcome := range []kvtest.Outcome{kvtest.Failed, kvtest.Persisted, kvtest.Torn} {
			wg.Go(func() {
				disk := crashed.Crash(0, nil)
				disk.Fail(kvtest.Fault{At: at, Err: syscall.ENOSPC, Outcome: outcome})
				db, err := kv.Open("store", kv.Options{FS: disk.FS()})
				mu.Lock()
				if err == nil {
					opened++
				} else if failing++; !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, kv.ErrFailed) {
					t.Errorf("operation %d: %v", at, err)
				}
				mu.Unlock()
				if err == nil {
					_ = fill(db, fmt.Sprint(at)) // or the store has failed
					_ = db.Close()
				}
				if err != nil {
					// Where the disk works again the store can be opened in the same
					// process, whatever became of the attempt before.
					disk.Fail(kvtest.Fault{})
					if again, err := kv.Open("store", kv.Options{FS: disk.FS()}); err != nil {
						t.Errorf("operation %d, on the mended disk: %v", at, err)
					} else {
						_, err := again.Get([]byte("k"))
						if err = errors.Join(err, again.Close()); err != nil {
							t.Errorf("operation %d, on the mended disk: %v", at, err)
						}
					}
				}
				left := disk.Crash(50, rand.New(rand.NewPCG(uint64(at), uint64(outcome))))
				if db, err = kv.Open("store", kv.Options{FS: left.FS()}); err != nil {
					t.Errorf("operation %d, again: %v", at, err)
					return
				}
				if _, err := db.Get([]byte("k")); err != nil {
					t.Errorf("operation %d, again: %v", at, err)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if failing < 10 || opened < 10 {
		t.Errorf("%d failed, %d did not", failing, opened)
	}
}
