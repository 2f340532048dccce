package queue

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/fusedisk"
)

// diskErrors are the errors that the tests of a failing disk use.
var diskErrors = []syscall.Errno{syscall.EIO, syscall.EROFS, syscall.ENOSPC}

// failingDisk is a load on queues whose disk fails, and what was acknowledged.
type failingDisk struct {
	t    *testing.T
	disk *fusedisk.Disk
	n    *testNATS
	s    *Store
	q    *Queue

	put     map[string]bool // acknowledged, and no deletion has begun
	deleted map[string]bool // acknowledged
}

func startOnFailingDisk(t *testing.T) *failingDisk {
	t.Helper()
	f := &failingDisk{t: t, disk: fusedisk.Mount(t), put: make(map[string]bool), deleted: make(map[string]bool)}
	f.n = startNATS(t, natsserver.Config{Dir: f.disk.Dir})
	f.s = open(t, f.n)
	f.q = create(t, f.s, "orders")
	return f
}

// putOne puts a message of 30 KB, so that a sweep sees the beginning of a block.
func (f *failingDisk) putOne(key string) error {
	_, err := f.q.Put([]byte(key+" "+strings.Repeat("x", 30_000)), 0, Forever, epoch)
	if err == nil {
		f.put[key+" "] = true
	}
	return err
}

func (f *failingDisk) deleteOne(m Message) error {
	key := powerKey(m.Body)
	delete(f.put, key)
	err := f.q.Delete(m.ID, m.Receipt, epoch)
	if err == nil {
		f.deleted[key] = true
	}
	return err
}

// load makes changes of every kind and returns the errors of those that failed.
func (f *failingDisk) load(name string) (failed []error) {
	try := func(err error) bool {
		if err != nil {
			failed = append(failed, err)
		}
		return err == nil
	}
	for i := range 4 {
		try(f.putOne(fmt.Sprint(name, "-", i)))
	}
	list, err := f.q.Get(2, time.Minute, epoch)
	try(err)
	for _, m := range list {
		try(f.deleteOne(m))
	}
	temporary := "temporary" + name
	if _, err := f.s.Create("acct", temporary, nil); try(err) {
		q := f.s.Queue("acct", temporary)
		_, err := q.Put([]byte("x"), 0, Forever, epoch)
		try(err)
		try(q.Clear())
		try(f.s.Delete("acct", temporary))
	}
	return failed
}

// healthy returns nil if the server has its disk again and the log its server.
func (f *failingDisk) healthy() error {
	if err := f.n.Healthy(); err != nil {
		return err
	}
	if status, ok := f.s.Database().Replication(); ok && !status.Available {
		return fmt.Errorf("the log is not available: %w", status.Problem)
	}
	return nil
}

// check compares all messages with what was acknowledged.
func (f *failingDisk) check(name string) {
	f.t.Helper()
	list, err := peekEverything(f.q, epoch.Add(time.Hour))
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	found := make(map[string]int)
	for _, m := range list {
		found[powerKey(m.Body)]++
	}
	for key := range f.put {
		if found[key] != 1 {
			f.t.Errorf("%s: message %s is there %d times, want once", name, key, found[key])
		}
	}
	for key := range f.deleted {
		if found[key] != 0 {
			f.t.Errorf("%s: message %s has come back", name, key)
		}
	}
}

// TestADiskThatFails makes JetStream's own calls on its files fail. Changes are refused with the disk's error until it
// works, and the store says that it is not ready. Afterwards it works without a restart, and no acknowledged change is
// lost.
func TestADiskThatFails(t *testing.T) {
	t.Parallel()
	f := startOnFailingDisk(t)
	for k, kinds := range [][]fusedisk.Kind{{fusedisk.Write}, {fusedisk.Sync}, fusedisk.Changes} {
		for _, errno := range diskErrors {
			name := fmt.Sprintf("errno%d-%d", errno, k)
			if failed := f.load(name); failed != nil {
				t.Fatalf("%s: before: %v", name, failed)
			}
			held := getOne(t, f.q, epoch)
			f.disk.Fail(fusedisk.Failure{Err: errno, Kinds: kinds})
			for what, change := range map[string]func() error{
				"Put":    func() error { return f.putOne(name) },
				"Get":    func() error { _, err := f.q.Get(1, time.Minute, epoch); return err },
				"Delete": func() error { return f.deleteOne(*held) },
				"Create": func() error { _, err := f.s.Create("acct", "more"+name, nil); return err },
			} {
				if err := change(); !errors.Is(err, natsserver.ErrStorage) || diskspace.IsFull(err) != (errno == syscall.ENOSPC) {
					t.Errorf("%s: %s: %v; want ErrStorage, which says that the disk is full if it is", name, what, err)
				}
			}
			if f.n.Healthy() == nil {
				t.Errorf("%s: the store says that it is ready", name)
			}
			if f.disk.Heal() == 0 {
				t.Errorf("%s: no call failed: the test shows nothing", name)
			}
			eventually(t, f.healthy)
			f.check(name)
		}
	}
}

// TestAfterAnUnknownOutcome makes one sync of the log fail, after which the outcome of the change is not known, and
// makes other changes at once, until one is accepted. The change is there once or not at all, and it stays so after a
// restart; nothing else is lost or doubled.
func TestAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := startOnFailingDisk(t)
	outcomes := map[bool]int{}
	check := func(name string, unknown map[string]bool) {
		t.Helper()
		f.check(name)
		list, err := peekEverything(f.q, epoch.Add(time.Hour))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := make(map[string]bool)
		for _, m := range list {
			key := powerKey(m.Body)
			if _, failed := unknown[key]; found[key] || !failed && !f.put[key] {
				t.Errorf("%s: message %s is there twice, or was never put", name, key)
			}
			found[key] = true
		}
		for key, was := range unknown {
			if name == "after a restart" && found[key] != was {
				t.Errorf("%s: message %s is there: %v, and was: %v", name, key, found[key], was)
			}
			unknown[key] = found[key]
		}
	}
	unknown := make(map[string]bool)
	for _, errno := range diskErrors {
		for _, kind := range []fusedisk.Kind{fusedisk.Sync, fusedisk.Write} {
			name := fmt.Sprintf("errno%d-%s", errno, kind)
			f.disk.Fail(fusedisk.Failure{Err: errno, Path: "jetstream", Kinds: []fusedisk.Kind{kind}, Once: true})
			for i := 0; ; i++ {
				key := fmt.Sprint(name, "-", i)
				err := f.putOne(key)
				if err == nil && i > 0 {
					break
				}
				if err == nil {
					t.Errorf("%s: the disk has failed, and the change was accepted", name)
				}
				if errors.Is(err, store.ErrUnknown) {
					unknown[key+" "] = false
				}
				if i >= 10_000 {
					t.Fatalf("%s: %v, for ever", name, err)
				}
				time.Sleep(time.Millisecond)
			}
			if f.disk.Heal() != 1 {
				t.Errorf("%s: no call failed: the test shows nothing", name)
			}
			check(name, unknown)
		}
	}
	for _, is := range unknown {
		outcomes[is]++
	}
	t.Logf("unknown outcomes: %d stored, %d not", outcomes[true], outcomes[false])
	if len(unknown) == 0 {
		t.Error("no outcome was unknown: the test shows nothing")
	}
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	f.n.Close()
	f.n = startNATS(t, natsserver.Config{Dir: f.disk.Dir})
	f.s = open(t, f.n)
	f.q = find(t, f.s, "orders")
	check("after a restart", unknown)
	wantConsistent(t, f.s)
}

// failSweepVariable makes [TestEachCallOnADiskFails] let every call fail. Without it, a few calls fail.
const failSweepVariable = "LAZULI_TEST_FAIL_SWEEP"

// TestEachCallOnADiskFails lets the n-th call that changes the disk fail, alone or with all later ones, for n = 1, 2,
// ... until a load makes fewer calls. Changes fail with the disk's error alone, the store recovers, and no acknowledged
// change is lost or undone.
func TestEachCallOnADiskFails(t *testing.T) {
	t.Parallel()
	f := startOnFailingDisk(t)
	step := 25
	if os.Getenv(failSweepVariable) != "" {
		step = 1
	}
	tried, failures := 0, 0
	for i, errno := range diskErrors {
		for _, once := range []bool{true, false} {
			for n := i; ; n += step {
				name := fmt.Sprintf("errno%d-%d-%t", errno, n, once)
				f.disk.Fail(fusedisk.Failure{Err: errno, Kinds: fusedisk.Changes, After: n, Once: once})
				failed := f.load(name)
				calls := f.disk.Heal()
				eventually(t, f.healthy)
				for _, err := range failed {
					// A disk that has failed once works afterwards.
					if !errors.Is(err, natsserver.ErrStorage) && !errors.Is(err, ErrQueueNotFound) &&
						!(once && errors.Is(err, store.ErrUnknown)) {
						t.Errorf("%s: %v, want ErrStorage", name, err)
					}
				}
				f.check(name)
				if t.Failed() {
					t.FailNow()
				}
				if calls == 0 {
					break
				}
				tried++
				failures += len(failed)
			}
		}
	}
	t.Logf("%d times a call failed; %d changes failed; %d messages are left, %d were deleted", tried, failures,
		len(slices.Collect(maps.Keys(f.put))), len(f.deleted))
	if failures == 0 {
		t.Error("no change has failed: the test shows nothing")
	}
}

// TestTheFileFails makes syncs of queues.db fail, while those of the log succeed. Changes are accepted as long as
// memory can hold them, then they are refused, and they are accepted again when the disk works, without a restart.
func TestTheFileFails(t *testing.T) {
	t.Parallel()
	f := startOnFailingDisk(t)
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		f.disk.Fail(fusedisk.Failure{Err: errno, Path: "queues.db", Kinds: []fusedisk.Kind{fusedisk.Sync}})
		var err error
		for i := 0; err == nil && i < 2_000; i++ {
			err = f.putOne(fmt.Sprintf("file%d-%d", errno, i))
		}
		if !errors.Is(err, store.ErrDisk) || diskspace.IsFull(err) != (errno == syscall.ENOSPC) {
			t.Errorf("%v: %v; want ErrDisk, which says that the disk is full if it is", errno, err)
		}
		f.check(errno.Error())
		if f.disk.Heal() == 0 {
			t.Errorf("%v: no call failed: the test shows nothing", errno)
		}
		if err := f.putOne(fmt.Sprintf("after%d", errno)); err != nil {
			t.Errorf("%v: after the disk works again: %v", errno, err)
		}
	}
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	f.s = open(t, f.n)
	f.q = find(t, f.s, "orders")
	f.check("after a restart")
}
