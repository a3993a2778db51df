package kv

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// keepBatch is the size in bytes up to which a batch's buffer is used again.
const keepBatch = 4 << 20

// Batch collects writes that are applied together. Of several writes to a key
// the last wins. A batch is for one goroutine and one commit; sorted keys are
// the cheapest.
type Batch struct {
	d *DB
	b *pebble.Batch
	// err is the first failed Put or Delete, returned by Commit.
	err error
}

// NewBatch starts an empty batch; it must be committed or closed.
func (d *DB) NewBatch() *Batch {
	return &Batch{d: d, b: d.db.NewBatch(pebble.WithMaxRetainedSizeBytes(keepBatch))}
}

// Put sets key to value; both are copied.
func (b *Batch) Put(key, value []byte) { b.keep(b.b.Set(key, value, nil)) }

// Delete removes key; an absent key is no error.
func (b *Batch) Delete(key []byte) { b.keep(b.b.Delete(key, nil)) }

// DeletePrefix removes every key that starts with prefix, which must not be
// empty or all 0xff.
func (b *Batch) DeletePrefix(prefix []byte) {
	end := PrefixEnd(prefix)
	if end == nil {
		b.keep(fmt.Errorf("delete prefix %x: it has no end", prefix))
		return
	}
	b.keep(b.b.DeleteRange(prefix, end, nil))
}

// Len is the size of the batch in bytes.
func (b *Batch) Len() int { return b.b.Len() }

// Commit applies the batch; with sync it is durable on return (see the package
// comment). After an error whether the batch was applied is decided when the
// store is next opened.
func (b *Batch) Commit(sync bool) error {
	if b.err != nil {
		return b.err
	}
	return b.commit(sync)
}

// Close drops the batch; after Commit it only frees memory.
func (b *Batch) Close() error {
	if b.b == nil {
		return nil
	}
	err := b.b.Close()
	b.b = nil
	return err
}

func (b *Batch) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Batch) commit(sync bool) error {
	if err := b.d.enter(); err != nil {
		return err
	}
	defer b.d.leave()
	if err := b.apply(sync); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	if err := b.b.SyncWait(); err != nil {
		b.d.fail.set(err)
	}
	return b.d.Err()
}

// apply hands the batch to the log and the memtable, and asks for the fsync
// without waiting for it, so that other commits need not wait for this one's.
func (b *Batch) apply(sync bool) (err error) {
	b.d.write.Lock()
	defer b.d.write.Unlock()
	if err := b.d.Err(); err != nil {
		return err
	}
	// Pebble panics on a failed write of its log while it holds its own lock;
	// the store is then marked as failed and never entered again.
	defer func() {
		if p := recover(); p != nil {
			b.d.fail.set(fmt.Errorf("commit: %v", p))
			b.b = nil // its pool must not reuse it
			err = b.d.Err()
		}
	}()
	if sync {
		err = b.d.db.ApplyNoSyncWait(b.b, pebble.Sync)
	} else {
		err = b.d.db.Apply(b.b, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return b.d.Err()
}
