package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// errGoexit is returned for a closure that called runtime.Goexit, as testing.T.FailNow does.
var errGoexit = errors.New("store: the closure ended its goroutine")

// group is the set of calls that share a commit, and its progress.
type group struct {
	db     *DB
	leader *call // first of calls; it runs this function
	calls  []*call
	next   int // first call that has not run
	tx     Tx  // initial state of the closures
	writes WriteSet
	own    WriteSet // of the closure that runs
	began  bool
	light  bool      // its calls may exceed the limit of the memtable, see passLead
	taken  time.Time // when calls was taken from the queue
	failed bool
	ended  bool
	orphan bool            // its first goroutine, that of the leader, has ended
	after  *replog.Pending // the last group in flight, whose state the closures see; nil if they see committed state
	flying *flying         // what commit has begun; nil if it is done
}

// apply runs one closure and, if it succeeds, adds its writes to those of the group.
func (g *group) apply(c *call) {
	tx := g.tx
	g.own.reset() // the last closure may have ended its goroutine
	tx.writes, tx.parent = &g.own, &g.tx
	c.run(&tx)
	if c.err == nil && c.panic == nil {
		c.err = tx.err
	}
	tx.reader, tx.file, tx.writes = nil, nil, nil
	c.bytes = g.own.size()
	if c.err != nil || c.panic != nil {
		c.bytes = 0
		g.tx.closeFile() // a read may have been interrupted
		return
	}
	// The first write set becomes that of the group as it is, which saves the merge for a group of one call.
	if len(g.writes.buckets) == 0 && len(g.writes.attached) == 0 {
		g.writes, g.own = g.own, g.writes
	} else {
		g.writes.merge(&g.own)
	}
}

// run runs the closure and recovers from its panic or Goexit.
func (c *call) run(tx *Tx) {
	// After Goexit, the deferred function runs with nothing to recover and this error stays.
	c.err, c.panic = errGoexit, nil
	// A page of the mapped file that cannot be read is a fault. It must become a panic, not end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		var failed bool
		if c.err, failed = tx.db.failureOf(v); !failed {
			c.err, c.panic = nil, &Panic{v, debug.Stack()}
		}
	}()
	c.err = c.fn(tx)
}

// allowed returns an ErrFenced if the archive allows no writes.
func (db *DB) allowed() error {
	if db.archive == nil {
		return nil
	}
	if err := db.archive.Allow(); err != nil {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return nil
}

// acknowledge fails the calls of a group that is durable if the archive does not allow that they learn so: what was
// allowed when they began may have ended while the disk was slow.
func (g *group) acknowledge() {
	if err := g.db.allowed(); err != nil {
		g.fail(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
}

// stamp attaches a time to the write set of the group, if an archive wants it and the group has writes.
func (g *group) stamp() (at int64) {
	a := g.db.archive
	if a == nil || g.writes.Len() == 0 && len(g.writes.attached) == 0 {
		return 0
	}
	if at = a.Stamp(); at == 0 {
		return 0
	}
	value := binary.LittleEndian.AppendUint64(nil, uint64(at))
	g.writes.attached = append(g.writes.attached, Write{[]byte(stampKey), value})
	return at
}

// appendGroup makes an encoded write set durable, if the store is durable. record has space for the log's header at its
// start.
func (db *DB) appendGroup(record []byte, number uint64) error {
	if db.log == nil {
		return nil
	}
	err := db.log.append(record, number)
	if errors.Is(err, errLogSync) {
		db.failed.CompareAndSwap(nil, &err)
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return err
}

// applyGroup makes an encoded write set visible. The memtable keeps payload, which must not be modified.
func (db *DB) applyGroup(payload []byte, number uint64) {
	m := db.layers.Load().active
	if err := m.insertPayload(db, payload, number); err != nil {
		panic(fmt.Sprintf("store: cannot decode an encoded write set: %v", err))
	}
	m.publish(number)
}

// insertPayload adds the writes of an encoded write set.
func (m *memtable) insertPayload(db *DB, payload []byte, group uint64) error {
	return readPayload(payload, func(b Bucket, w Write) error {
		if b == attachedBucket {
			return db.restore(w)
		}
		i := db.bucketIndex(b)
		if i < 0 {
			return fmt.Errorf("%w: the log has bucket %q", ErrFormat, string(b))
		}
		m.insert(i, w, group)
		return nil
	})
}

// fail sets the error of all calls of the group, also of those whose closures have not run.
func (g *group) fail(err error) {
	g.failed = true
	g.next = len(g.calls)
	for _, c := range g.calls {
		c.err = err
	}
}

// wake ends the waits of the calls that the group has served.
func (g *group) wake() {
	for _, c := range g.calls {
		// The leader runs this function and waits for nothing; or its goroutine was ended by a closure.
		if c != g.leader {
			c.wake <- struct{}{}
		}
	}
}
