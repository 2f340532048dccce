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

// Queue is a queue that existed when it was looked up: its operations return [ErrQueueNotFound] once it was deleted. It is safe for concurrent
// use. The callers pass the current time.
//
// Its operations: Put (put.go), Get (get.go), Peek (peek.go), Update and Delete (update.go), Clear (clear.go),
// ApproximateCount (count.go).
type Queue struct {
	// Account and Name identify the queue.
	Account, Name string

	store  *Store
	stream string // the stream's name
	prefix string // of the subjects, with a dot at the end

	// changing is held for reading while a change is published and until the index has it. It is held for writing while compaction determines
	// the records that are not needed (compact.go), and until the floor is raised when messages are cleared (clear.go).
	changing sync.RWMutex

	streamless atomic.Bool // the queue has no stream, and no message (stream.go)
	making     sync.Mutex  // held while the stream is created

	synced   atomic.Uint64         // the last record that is known to be on disk
	prepared atomic.Bool           // prepareFloor was done (floor.go)
	lost     atomic.Pointer[error] // wraps ErrDamaged if records were lost and the loss was not accepted; nil otherwise

	mu       sync.Mutex // guards the rest
	index    *index
	nextSlot slot // the lower half of the last slot that this process created
	loading  loadState
	progress chan struct{} // closed and replaced whenever the index has grown, while loading
	loadErr  error
	followed uint64 // while loading, and if other processes write: all records up to this one have been seen
	// onFollowed is closed when followed changes; nil if no call waits.
	onFollowed chan struct{}
	behind     uint64    // the last record that a refusal has shown, which may not have been followed yet
	floor      uint64    // records before this one are void (floor.go)
	stop       func()    // ends loading and following
	follower   *follower // reads the stream; nil before loading has begun
	gone       bool
	unreadable bool // the stream has a record that cannot be read, and it is unknown whether it is a message's

	marks      [2]mark // if other processes write: the positions that were followed at two times
	logBytes   int64   // approximate size of the stream
	cut        uint64  // the stream is known to begin at or after this record
	compacting bool
	compactAt  int64 // no compaction while the stream is smaller than that
}

// loadState is the progress of loading the index.
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

// subject returns the subject of a slot: prefix and the slot's token.
func (q *Queue) subject(s slot) string {
	var room [256]byte
	return string(s.appendToken(append(room[:0], q.prefix...)))
}

// usable returns nil if the queue's records can be read and written, as far as this process knows.
func (q *Queue) usable(ctx context.Context) error {
	if err := q.loss(); err != nil {
		return err
	}
	if err := q.store.nats.Failed(); err != nil {
		return err
	}
	if err := q.store.nats.Use(q.stream); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return q.prepareFloor(ctx)
}

// apply applies a record to the index.
func (q *Queue) apply(at slot, seq uint64, size int, r *record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.store.shared { // otherwise it is counted when it is followed
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

// recordSize returns the approximate size of a record in its stream, in bytes.
func (q *Queue) recordSize(body int) int { return len(q.prefix) + 320 + body }

// setAside excludes a message whose record cannot be read. Its record stays.
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

// invalidateIndex marks the index for reload after a change whose outcome is unknown. If the stream is followed, it does nothing.
func (q *Queue) invalidateIndex() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.store.shared && q.loading == loaded {
		q.loading = unloaded
	}
}

// reset clears the state of the stream in memory: the server has read its files again.
func (q *Queue) reset() {
	q.mu.Lock()
	stop := q.stop
	q.stop = nil
	q.mu.Unlock()
	if stop != nil {
		stop()
	}
	q.changing.Lock() // no change is in flight
	defer q.changing.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.streamless.Load() {
		return
	}
	q.index = newIndex()
	q.loading, q.loadErr = unloaded, nil
	q.followed, q.cut, q.logBytes, q.unreadable = 0, 0, 0, false
	q.marks = [2]mark{}
	q.synced.Store(0)
	if err := lossOf(q.store.nats, q.stream); err != nil && q.loss() == nil {
		q.setLost(err)
	}
	q.prepared.Store(false)
	q.announce()
}

// streamMissing returns the reason why the stream does not answer: ErrQueueNotFound if the queue was deleted.
func (q *Queue) streamMissing(ctx context.Context) error {
	if q.store.queueGone(ctx, q) {
		return ErrQueueNotFound
	}
	if err := q.store.nats.Failed(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the stream of queue %s has no leader", ErrUnavailable, q.Name)
}

// streamError returns streamMissing if err says that the stream does not exist.
func (q *Queue) streamError(ctx context.Context, err error) error {
	if isNoStream(err) {
		return q.streamMissing(ctx)
	}
	if errors.Is(err, ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// close stops the background work of the queue.
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

// logger returns the logger for background work of this queue.
func (q *Queue) logger() *slog.Logger {
	return q.store.log.With("account", q.Account, "queue", q.Name)
}

// loss returns the reason why the queue is not used: records of it were lost.
func (q *Queue) loss() error {
	if err := q.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// setLost stops the use of the queue, because records of it were lost.
func (q *Queue) setLost(err error) {
	q.lost.Store(&err)
	q.logger().Error("the queue is damaged and is not used until `lazuli fsck --repair` has been run", "err", err)
}

// lossOf returns an ErrDamaged that describes the losses of a stream, or nil.
func lossOf(n *natsserver.Server, stream string) error {
	lost := n.Lost(stream)
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrDamaged, lost[0])
}
