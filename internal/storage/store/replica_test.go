package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// logName returns the name of the log of the store at path.
func logName(path string) string { return fmt.Sprintf("t%08x", crc32.ChecksumIEEE([]byte(path))) }

// openLog opens a log as the node with the given server does.
func openLog(t testing.TB, c *natscluster.Cluster, server int, name string) *replog.Log {
	t.Helper()
	config := confirmed(t, c, server, replog.Config{Conn: c.Conn(t, server), Name: name, Replicas: c.Size(),
		Ahead:   func() bool { return server != 2 }, // two of three nodes
		Node:    fmt.Sprint("n", server),
		Timeout: logTimeout, Log: slog.New(slog.DiscardHandler)})
	var l *replog.Log
	check.Eventually(t, func() bool {
		var err error
		if l, err = replog.Open(t.Context(), config); err != nil && !errors.Is(err, replog.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	}, "the log %s can be opened", name)
	logsAgain.Store(l, func() *replog.Log { return openLog(t, c, server, name) })
	return l
}

// logsAgain has, by a log, how it is opened again: openAt does so where a store cannot be opened on it, as when the
// servers of a busy machine have no leader at the moment.
var logsAgain sync.Map

// confirmed returns a configuration with which a log confirms the end of its stream as a node with the given server
// does.
func confirmed(t testing.TB, c *natscluster.Cluster, server int, config replog.Config) replog.Config {
	t.Helper()
	index, err := natsserver.NewReadIndex(c.Conn(t, server), c.Running(server))
	if err != nil {
		t.Fatal(err)
	}
	config.End = index.End
	if c.Size() > 1 {
		config.Term = index.Term
		config.Heads = func(ctx context.Context, stream string, from, to uint64) (replog.Heads, error) {
			h, err := index.Heads(ctx, stream, from, to)
			return replog.Heads(h), err
		}
	}
	return config
}

// logTimeout is above the time that a loaded machine needs for an answer, and short enough to wait for.
const logTimeout = 20 * time.Second

// openNodes opens a store on each server of a cluster.
func openNodes(t testing.TB, c *natscluster.Cluster, name string) (nodes []*DB) {
	t.Helper()
	for i := range c.Size() {
		nodes = append(nodes, openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, i, name)}))
	}
	return nodes
}

// increment adds one to the number at a key.
func increment(db *DB, key string) error {
	return db.Update(func(tx *Tx) error {
		n := 0
		_, _ = fmt.Sscan(string(tx.Get("a", []byte(key))), &n)
		tx.Put("a", []byte(key), fmt.Append(nil, n+1))
		return nil
	})
}

func TestNodesSeeEachOthersWrites(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	log := func() *replog.Log { return openLog(t, c, 0, "shared") }
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: log()})
	b := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: log()})
	for i := range 50 {
		nodes := []*DB{a, b}
		put(t, nodes[i%2], "a", "k", fmt.Sprint(i))
		want(t, nodes[1-i%2], "a", "k", fmt.Sprint(i))
	}
}

// A closure that fails or only reads must have seen the current state as well.
func TestClosureWithoutWritesSeesTheCurrentState(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	b := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	for i := range 50 {
		put(t, a, "a", "k", fmt.Sprint(i))
		var got string
		if err := b.Update(func(tx *Tx) error { got = string(tx.Get("a", []byte("k"))); return errAbort }); !errors.Is(err,
			errAbort) {
			t.Fatal(err)
		}
		if got != fmt.Sprint(i) {
			t.Fatalf("read %q, want %d", got, i)
		}
	}
}

func TestConcurrentUpdatesOfNodesAreSerial(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	var nodes []*DB
	for range 3 {
		db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
		db.memtableSize = 4 * entryOverhead
		nodes = append(nodes, db)
	}
	const callers, each = 4, 20
	var wg sync.WaitGroup
	for _, db := range nodes {
		for range callers {
			wg.Go(func() {
				for range each {
					if err := increment(db, "n"); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, db := range nodes {
		want(t, db, "a", "n", fmt.Sprint(len(nodes)*callers*each))
	}
}

// A node that stopped without writing its memtables reads them from the log again.
func TestRestartedNodeReadsTheLog(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Log: openLog(t, c, 0, "shared")})
	db.memtableSize = 8 * entryOverhead
	for i := range 100 {
		put(t, db, "a", fmt.Sprint(i%30), fmt.Sprint(i))
	}
	copied := copyFile(t, path)
	again := openAt(t, copied, Options{Log: openLog(t, c, 0, "shared")})
	for i := 70; i < 100; i++ {
		want(t, again, "a", fmt.Sprint(i%30), fmt.Sprint(i))
	}
}

func TestFileOfANodeIsNotOpenedElsewhere(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Log: openLog(t, c, 0, "one")})
	put(t, db, "a", "k", "v")
	closeChecked(t, db)
	options := Options{Buckets: []Bucket{"a", "b"}}
	if _, err := Open(path, options); !errors.Is(err, ErrReplicated) {
		t.Errorf("open without a log: %v, want ErrReplicated", err)
	}
	options.Log = openLog(t, c, 0, "two")
	if _, err := Open(path, options); !errors.Is(err, ErrOtherLog) {
		t.Errorf("open with another log: %v, want ErrOtherLog", err)
	}
	// The data of a single machine does not become that of a node by itself.
	single := filepath.Join(t.TempDir(), "db")
	db = openAt(t, single, Options{})
	put(t, db, "a", "k", "v")
	closeChecked(t, db)
	options.Log = openLog(t, c, 0, "one")
	if _, err := Open(single, options); !errors.Is(err, ErrOtherLog) {
		t.Errorf("open data of a single machine: %v, want ErrOtherLog", err)
	}
}

// A log that has lost records, as after the loss of all of its servers' files, must not be followed.
func TestNodeAheadOfItsLogDoesNotOpen(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	path := filepath.Join(t.TempDir(), "db")
	log := openLog(t, c, 0, "one")
	db := openAt(t, path, Options{Log: log})
	for i := range 5 {
		put(t, db, "a", fmt.Sprint(i), "v")
	}
	closeChecked(t, db)
	if _, err := c.Conn(t, 0).Request("$JS.API.STREAM.PURGE.LAZULI_LOG_one", nil, logTimeout); err != nil {
		t.Fatal(err)
	}
	// An earlier position: the log would have to reach the later one.
	var f format
	if err := f.readReplica(encodeReplica("id", replog.Position{},
		replog.Position{Seq: 9, Log: 9, Last: 9})); err != nil || f.ahead.Last != 9 {
		t.Fatalf("%+v, %v", f, err)
	}
	unfinished := func() bool {
		db := openAt(t, path, Options{ReadOnly: true})
		defer closeChecked(t, db)
		return db.Unfinished()
	}
	if unfinished() {
		t.Error("a file that was closed has an interrupted checkpoint")
	}
	rewriteReplica(t, path, log.ID(), replog.Position{}, replog.Position{Seq: 9, Log: 9, Last: 9})
	if !unfinished() {
		t.Error("a file with writes of an interrupted checkpoint does not say so")
	}
	if _, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, Log: openLog(t, c, 0, "one")}); err == nil {
		t.Error("a file with writes that the log does not have was opened")
	}
}

func TestWithoutAMajorityNothingIsServed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	c := natscluster.Start(t, 3)
	nodes := openNodes(t, c, "shared")
	put(t, nodes[0], "a", "k", "1")
	c.Stop(1)
	c.Stop(2)
	nodes[0].replica.log.SetTimeout(2 * time.Second)
	if err := nodes[0].View(func(*Tx) error { t.Error("the closure ran"); return nil }); !errors.Is(err, ErrUnavailable) {
		t.Errorf("view: %v, want ErrUnavailable", err)
	}
	if err := increment(nodes[0], "n"); !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
		t.Errorf("update: %v, want ErrUnavailable or ErrUnknown", err)
	}
	nodes[0].replica.local = true
	want(t, nodes[0], "a", "k", "1")
	nodes[0].replica.local = false
	c.Start(1)
	c.Start(2)
	nodes[0].replica.log.SetTimeout(logTimeout)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if err := nodes[0].View(func(*Tx) error { return nil }); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("view after the majority has returned: %v", err)
		}
	}
	put(t, nodes[1], "a", "k", "2")
	want(t, nodes[0], "a", "k", "2")
}

// fillNode writes n entries, and changes and deletes some.
func fillNode(t testing.TB, db *DB, n int) {
	t.Helper()
	for i := 0; i < n; i += 100 {
		err := db.Update(func(tx *Tx) error {
			for j := i; j < min(i+100, n); j++ {
				tx.Put("a", fmt.Appendf(nil, "%06d", j), fmt.Appendf(nil, "value %d", j))
				tx.Put("b", fmt.Appendf(nil, "%06d", j%1000), bytes.Repeat([]byte{byte(j)}, 200))
				if j%7 == 0 {
					tx.Delete("a", fmt.Appendf(nil, "%06d", j/2))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// content returns everything in a store.
func content(t testing.TB, db *DB) string {
	t.Helper()
	h := sha256.New()
	err := db.View(func(tx *Tx) error {
		for _, b := range []Bucket{"a", "b"} {
			c := tx.Scan(b)
			for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
				fmt.Fprintf(h, "%s %q %q\n", b, k, v)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// An empty node, and one that is behind what the log still has, join from a snapshot while another one writes.
func TestNodesJoinFromASnapshotUnderLoad(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	path := filepath.Join(t.TempDir(), "db")
	old := openAt(t, path, Options{Log: openLog(t, c, 0, "shared")})
	put(t, a, "a", "first", "v")
	want(t, old, "a", "first", "v")
	closeChecked(t, old)
	fillNode(t, a, 3000)
	for range 2 { // the log is cut at the snapshot before the last one
		if err := a.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		fillNode(t, a, 3000)
	}
	if held, err := a.replica.log.Holds(t.Context(), replog.Position{}); err != nil || held {
		t.Fatalf("the log was not cut: %v", err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := increment(a, fmt.Sprint("n", i%10)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	joined := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	behind := openAt(t, path, Options{Log: openLog(t, c, 0, "shared")})
	put(t, joined, "a", "by the new node", "1")
	close(stop)
	<-stopped
	for name, db := range map[string]*DB{"new": joined, "old": behind} {
		if got, want := content(t, db), content(t, a); got != want {
			t.Errorf("the %s node has other content", name)
		}
		want(t, db, "a", "by the new node", "1")
	}
	if s, _ := joined.Replication(); s.Snapshot.Seq == 0 || s.Lag != 0 {
		t.Errorf("status %+v", s)
	}
}

// A node whose file is damaged keeps it under another name and joins again.
func TestNodeWithADamagedFileJoinsAgain(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	path := filepath.Join(t.TempDir(), "db")
	b := openAt(t, path, Options{Log: openLog(t, c, 0, "shared")})
	fillNode(t, a, 500)
	want(t, b, "b", "000001", string(bytes.Repeat([]byte{byte(1)}, 200)))
	closeChecked(t, b)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8192 { // both meta pages
		data[i] ^= 0x55
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b = openAt(t, path, Options{Log: openLog(t, c, 0, "shared")})
	if content(t, a) != content(t, b) {
		t.Error("the node has other content")
	}
	if kept, _ := filepath.Glob(path + ".damaged-*"); len(kept) != 1 {
		t.Errorf("kept files: %q", kept)
	}
}

// A node makes a snapshot by itself when the log has become long, and one node only.
func TestSnapshotIsMadeWhenTheLogIsLong(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	b := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	fillNode(t, a, 100)
	if err := a.snapshotIfLong(t.Context(), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := a.replica.log.Snapshot(t.Context()); !errors.Is(err, replog.ErrNoSnapshot) {
		t.Fatalf("snapshot of a short log: %v", err)
	}
	for { // longer than the files, which bbolt makes longer than their content
		size, err := a.replica.log.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if size > max(a.fileSize(), b.fileSize()) {
			break
		}
		put(t, a, "b", "large", string(make([]byte, 4<<20)))
	}
	for _, db := range []*DB{a, b} {
		if err := db.snapshotIfLong(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	made, err := b.replica.log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.replica.log.Snapshot(t.Context())
	if err != nil || again != made {
		t.Errorf("snapshots %+v and %+v, %v", made, again, err)
	}
}

// The log of a queue that is busy and empty stays short: snapshots follow each other as fast as the log grows,
// whichever node makes them, since a complete snapshot removes the claim that reserved it, and each cuts the log.
func TestTheLogOfASmallFileStaysShort(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	b := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	const limit, round = 4 << 20, 1 << 20
	snapshots, longest := map[uint64]bool{}, int64(0)
	bound := func() int64 { return 2*max(limit, a.fileSize(), b.fileSize()) + 2*round }
	for i := 0; int64(i)*round < 3*bound(); i++ {
		put(t, a, "b", "value", string(bytes.Repeat([]byte{byte(i)}, round)))
		db := []*DB{a, b}[i%2]
		if err := db.Update(func(*Tx) error { return nil }); err != nil { // so that b has applied what a has written
			t.Fatal(err)
		}
		if err := db.snapshotIfLong(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		size, err := a.replica.log.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, size)
		snapshots[a.replica.log.Status().Snapshot.Seq] = true
	}
	if longest > bound() {
		t.Errorf("the log had up to %d bytes, want at most %d", longest, bound())
	}
	delete(snapshots, 0) // before the first one
	if len(snapshots) < 3 {
		t.Errorf("%d snapshots were made", len(snapshots))
	}
	if content(t, a) != content(t, b) {
		t.Error("the nodes have different content")
	}
}

// A node whose disk is full does not skip what the log has: nothing is acknowledged that it has not applied, and it
// goes on when there is room again.
func TestAFullNodeAppliesTheLogLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Log: openLog(t, natscluster.Start(t, 1), 0, "shared")})
	db.memtableSize = 4 * entryOverhead
	var full atomic.Bool
	full.Store(true)
	db.fault = func() error {
		if full.Load() {
			return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}
	var err error
	written := 0
	for ; written < 1000; written++ {
		if err = db.Update(putting(fmt.Sprint(written), "v")); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
		t.Errorf("after %d writes: %v, want ErrUnavailable or ErrUnknown", written, err)
	}
	full.Store(false)
	check.Eventually(t, func() bool { return db.Update(putting("after", "v")) == nil }, "the node goes on")
	for i := range written {
		want(t, db, "a", fmt.Sprint(i), "v")
	}
}
