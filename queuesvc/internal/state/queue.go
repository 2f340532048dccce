package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// Queue is one queue that exists, or did when it was looked up: its operations answer [ErrQueueNotFound] once it was
// deleted. It is safe for concurrent use. Times are the callers'.
//
// Its operations: Put (put.go), Get (get.go), Peek (peek.go), Update and Delete (update.go), Clear (clear.go),
// ApproximateCount (count.go).
type Queue struct {
	// Account and Name are the queue's address.
	Account, Name string

	store  *Store
	stream string // the stream's name
	prefix string // of the subjects, with a dot at the end

	// changing is held for reading while a change is published and until the index has it, and for writing while it is
	// decided which records nobody needs (compact.go).
	changing sync.RWMutex

	streamless atomic.Bool // there is no stream, and no message (stream.go)
	making     sync.Mutex  // held while the stream is made

	synced   atomic.Uint64 // the last record that is known to be on disk
	prepared atomic.Bool   // the stream begins where the floor says (floor.go)
	lost     error         // wraps ErrDamaged where records were lost that nobody has accepted

	mu       sync.Mutex // guards the rest
	index    *index
	nextSlot slot // the lower half of the last slot that was made here
	loading  loadState
	progress chan struct{} // closed and replaced whenever the index has grown, while loading
	loadErr  error
	followed uint64 // while loading, and where others write: everything up to this record has been seen
	floor    uint64 // records before this one are void (floor.go)
	stop     func() // ends loading and following
	gone     bool

	marks      [2]mark // where others write: how far was followed when
	logBytes   int64   // about how large the stream is
	cut        uint64  // the stream is known to begin at or after this record
	compacting bool
	compactAt  int64 // no compaction while the stream is smaller than that
}

// loadState says how much of the stream the index knows.
type loadState uint8

const (
	unloaded loadState = iota
	loading
	loaded
)

func newQueue(s *Store, account, name, stream, prefix string) *Queue {
	return &Queue{Account: account, Name: name, store: s, stream: stream, prefix: prefix, index: newIndex(),
		progress: make(chan struct{})}
}

func (q *Queue) subject(s slot) string { return q.prefix + s.token() }

// usable returns nil if the queue's records can be read and written, as far as is known.
func (q *Queue) usable(ctx context.Context) error {
	if q.lost != nil {
		return q.lost
	}
	if err := q.store.nats.Failed(); err != nil {
		return err
	}
	return q.prepareFloor(ctx)
}

// apply takes a record over into the index.
func (q *Queue) apply(at slot, seq uint64, size int, r *record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.store.shared { // else it is counted when it is followed
		q.logBytes += int64(size)
	}
	q.applyLocked(at, seq, size, r)
	q.compactIfDue()
}

func (q *Queue) applyLocked(at slot, seq uint64, size int, r *record) {
	if r.kind == recordTombstone || seq < q.floor {
		q.index.applyFree(at, seq)
	} else {
		q.index.apply(at, seq, size, &r.state)
	}
}

// recordSize is about how many bytes a record takes in its stream.
func (q *Queue) recordSize(body int) int { return len(q.prefix) + 320 + body }

// setAside takes a message out of circulation whose record cannot be read. Its record stays.
func (q *Queue) setAside(at slot, seq uint64, cause error) {
	q.mu.Lock()
	news := seq >= q.floor && q.index.setAside(at, seq)
	q.mu.Unlock()
	if news {
		q.logger().Error("a message cannot be read and is set aside; `lazuli fsck` shows it", "slot", at.token(), "record", seq, "err", cause)
	}
}

// sync returns when the record with a sequence, and all before it, are on disk.
func (q *Queue) sync(ctx context.Context, seq uint64) error {
	if err := q.store.nats.Sync(q.stream); err != nil {
		if q.store.queueGone(ctx, q) {
			return ErrQueueNotFound
		}
		if failed := q.store.nats.Failed(); failed != nil {
			return failed
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for {
		old := q.synced.Load()
		if old >= seq || q.synced.CompareAndSwap(old, seq) {
			return nil
		}
	}
}

// invalidateIndex marks the index for reload after a change whose outcome is unknown. Where the stream is followed, that is not
// needed.
func (q *Queue) invalidateIndex() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.store.shared && q.loading == loaded {
		q.loading = unloaded
	}
}

// reset forgets what is known of the stream: the server has read its files again.
func (q *Queue) reset() {
	q.mu.Lock()
	stop := q.stop
	q.stop = nil
	q.mu.Unlock()
	if stop != nil {
		stop()
	}
	q.changing.Lock() // no change is on its way
	defer q.changing.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.streamless.Load() {
		return
	}
	q.index = newIndex()
	q.loading, q.loadErr = unloaded, nil
	q.followed, q.cut, q.logBytes = 0, 0, 0
	q.marks = [2]mark{}
	q.synced.Store(0)
	q.prepared.Store(false)
	q.announce()
}

// streamMissing returns why the stream does not answer: ErrQueueNotFound if the queue was deleted.
func (q *Queue) streamMissing(ctx context.Context) error {
	if q.store.queueGone(ctx, q) {
		return ErrQueueNotFound
	}
	if err := q.store.nats.Failed(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the stream of queue %s has no leader", ErrUnavailable, q.Name)
}

// streamError is streamMissing if err says that there is no stream.
func (q *Queue) streamError(ctx context.Context, err error) error {
	if isNoStream(err) {
		return q.streamMissing(ctx)
	}
	if errors.Is(err, ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// close ends what runs in the background for the queue.
func (q *Queue) close(gone bool) {
	q.mu.Lock()
	q.gone = q.gone || gone
	stop := q.stop
	q.stop = nil
	q.loading = loaded
	q.loadErr = ErrQueueNotFound
	if gone {
		q.index = newIndex()
	}
	q.announce()
	q.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// logger for what happens in the background of this queue.
func (q *Queue) logger() *slog.Logger {
	return q.store.log.With("account", q.Account, "queue", q.Name)
}

// lossOf is an ErrDamaged that says what was lost of a stream, or nil.
func lossOf(n *natsserver.Server, stream string) error {
	lost := n.Lost(stream)
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrDamaged, lost[0])
}
