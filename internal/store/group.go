package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

const (
	// maxGroup bounds the calls of one group.
	maxGroup = 1024
	// maxGroupBytes ends a group early, so that nobody waits for a commit of unbounded size.
	maxGroupBytes = 32 << 20

	// fillPercent is how full bbolt leaves the pages that it splits. Its own 0.5 wastes half of the file on ascending
	// keys.
	fillPercent = 0.8
)

// Panic is the value with which Update panics in its caller when the closure panicked. The stack is that of the
// closure, which may have run in another goroutine.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// errGoexit is what a closure gets that called runtime.Goexit, as testing.T.FailNow does.
var errGoexit = errors.New("store: the closure ended its goroutine")

// call is one Update that waits.
type call struct {
	fn      func(*Tx) error
	err     error
	panic   *Panic
	promote bool          // set before wake: lead the next group
	wake    chan struct{} // a group has served the call, or it is promoted
}

// Update runs fn, which may read and write, and returns once its writes are durable. If fn returns an error, nothing
// of it has been written and Update returns that error.
//
// fn may run twice, and may run in another goroutine: it must have no effects but on the transaction and on variables
// that it sets anew on each run. It sees what earlier closures of its group wrote although that is not yet on disk;
// therefore, if the commit fails, every closure of the group gets the error, also one that returned an error of its
// own. If fn panics, Update panics with a *Panic and nothing of fn is written. fn must not call View or Update of the
// same DB, and should not end its goroutine (runtime.Goexit, testing.T.FailNow).
//
// Errors: those of fn, ErrClosed, ErrKey, ErrFailed, or what the operating system answered: then nothing has been
// written, unless the error is also ErrFailed: then the writes may be found after the next Open, or not.
func (db *DB) Update(fn func(*Tx) error) error {
	c := &call{fn: fn}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return ErrClosed
	}
	db.queue = append(db.queue, c)
	if db.leading {
		c.wake = make(chan struct{}, 1)
		db.mu.Unlock()
		<-c.wake
	} else {
		// There is nobody before us, so the queue is ours.
		db.leading = true
		c.promote = true
		db.mu.Unlock()
	}
	if c.promote {
		(&group{db: db, leader: c}).run()
	}
	if c.panic != nil {
		panic(c.panic)
	}
	return c.err
}

// group is the calls that share a bbolt transaction, and its progress.
type group struct {
	db      *DB
	leader  *call // first of calls, not to be woken
	calls   []*call
	next    int // first call that has not run
	bolt    *bolt.Tx
	open    []*bolt.Bucket
	bytes   int
	wrote   bool
	touched int
	began   bool
	ended   bool
}

// run takes the queue, runs its closures, commits, hands the lead to the first of those who came meanwhile, and wakes
// the calls it served.
func (g *group) run() {
	defer func() {
		if !g.ended {
			// A closure ended this goroutine. The others of the group must not notice.
			go g.run()
		}
	}()
	if !g.began {
		g.began = true
		g.take()
		g.begin()
	}
	for g.bolt != nil && g.next < len(g.calls) && g.bytes < maxGroupBytes {
		c := g.calls[g.next]
		g.next++
		if err := g.apply(c); err != nil {
			g.abort(err)
		}
	}
	if g.bolt != nil {
		g.commit()
	}
	g.ended = true
	g.finish()
}

func (g *group) take() {
	g.db.mu.Lock()
	n := min(len(g.db.queue), maxGroup)
	g.calls = g.db.queue[:n:n]
	g.db.queue = g.db.queue[n:]
	g.db.mu.Unlock()
}

func (g *group) begin() {
	if cause := g.db.failed.Load(); cause != nil {
		g.fail(fmt.Errorf("%w: %w", ErrFailed, *cause))
		return
	}
	tx, err := g.db.bolt.Begin(true)
	if err != nil {
		g.fail(closedOr(err))
		return
	}
	g.bolt = tx
	g.open = make([]*bolt.Bucket, len(g.db.buckets))
}

// apply runs one closure and, if it succeeds, gives its writes to bbolt. Its error is one of bbolt, which ends the
// group; that of the closure is in c.
func (g *group) apply(c *call) error {
	tx := &Tx{db: g.db, bolt: g.bolt, open: g.open, writes: &WriteSet{}}
	defer func() {
		g.touched += tx.touched
		tx.bolt, tx.touched = nil, 0
	}()
	c.run(tx)
	if c.err == nil && c.panic == nil {
		c.err = tx.err
	}
	if c.err != nil || c.panic != nil || len(tx.writes.buckets) == 0 {
		return nil
	}
	n := tx.writes.Len()
	if n == 0 {
		return nil
	}
	g.wrote = true
	g.bytes += tx.writes.bytes
	tx.touch(n * touchSeek)
	return tx.writes.apply(tx.bucket)
}

// run runs the closure and contains what it does to its goroutine.
func (c *call) run(tx *Tx) {
	c.err = errGoexit
	defer func() {
		if v := recover(); v != nil {
			c.err, c.panic = nil, &Panic{v, debug.Stack()}
		}
	}()
	c.err = c.fn(tx)
}

func (g *group) commit() {
	if !g.wrote {
		_ = g.bolt.Rollback()
		return
	}
	before := g.db.fileSize()
	if err := g.commitBolt(); err != nil {
		g.db.judge(err, before)
		g.fail(fmt.Errorf("store: commit: %w", err))
	}
}

// commitBolt turns a panic of bbolt into an error: the callers of the group must not wait for ever.
func (g *group) commitBolt() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
			func() {
				defer func() { _ = recover() }()
				_ = g.bolt.Rollback()
			}()
		}
	}()
	if g.db.fault != nil {
		if err := g.db.fault(g.bolt); err != nil {
			_ = g.bolt.Rollback()
			return err
		}
	}
	return g.bolt.Commit()
}

func (g *group) abort(err error) {
	_ = g.bolt.Rollback()
	g.bolt = nil
	g.fail(fmt.Errorf("store: %w", err))
}

// fail gives everyone in the group the error of the group, also those whose closures have not run.
func (g *group) fail(err error) {
	g.next = len(g.calls)
	for _, c := range g.calls {
		c.err = err
	}
}

func (g *group) finish() {
	db := g.db
	served, rest := g.calls[:g.next], g.calls[g.next:]
	db.mu.Lock()
	if len(rest) > 0 {
		db.queue = append(rest[:len(rest):len(rest)], db.queue...)
	}
	if len(db.queue) > 0 {
		heir := db.queue[0]
		heir.promote = true
		heir.wake <- struct{}{}
	} else {
		db.queue = nil
		db.leading = false
		db.idle.Broadcast()
	}
	db.mu.Unlock()
	for _, c := range served {
		if c != g.leader {
			c.wake <- struct{}{}
		}
	}
	db.trim.add(g.touched)
}

func (db *DB) fileSize() int64 {
	st, err := os.Stat(db.path)
	if err != nil {
		return -1
	}
	return st.Size()
}

// judge decides whether the store may go on after a commit has failed with err.
//
// It may if a write was refused, say for lack of space: bbolt writes to free pages first, and forgets about them. It
// may not if a sync failed: the kernel reports that once, then takes the pages for clean, and a later sync would
// succeed without them.
func (db *DB) judge(err error, sizeBefore int64) {
	var refused *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.As(err, &refused):
		// A write; all others come without a path.
	case !errors.As(err, &errno) && db.fileSize() == sizeBefore && db.readable():
		// The file could not grow: bbolt tries that before it writes.
	default:
		db.failed.Store(&err)
	}
}

func (db *DB) readable() bool {
	return db.bolt.View(func(*bolt.Tx) error { return nil }) == nil
}
