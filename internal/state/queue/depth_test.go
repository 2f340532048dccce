package queue

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// depthVariable makes [BenchmarkDepth] measure the folder that it names, in a process of its own: the one that has
// filled the folder holds memory for that.
const depthVariable = "LAZULI_BENCH_DEPTH"

// depthLife is the time to live of the messages: that of the service by default.
const depthLife = 7 * 24 * time.Hour

// putBatch puts n messages of 100 bytes in one transaction, for depths that callers would take hours to reach.
func (q *Queue) putBatch(n int, visibility time.Duration, now time.Time) error {
	body := make([]byte, 100)
	return q.update("put", func(tx *store.Tx, id queueID) error {
		counted := readCounters(tx, id)
		for range n {
			s, err := next(nil, Event{Kind: Put, Visibility: visibility, TTL: depthLife}, now.UnixNano())
			if err != nil {
				return err
			}
			binary.BigEndian.PutUint64(body, counted.next)
			c := content{s.Inserted, s.Expires, rand.Uint64(), body}
			tx.Put(bucketMessages, messageKey(id, counted.next), c.encode())
			change := q.changing(tx, id, 1)
			change.place(counted.next, s.NextVisible, s.Expires)
			counted.next++
			counted.messages++
		}
		tx.Put(bucketCounters, id.key(), counted.encode())
		return nil
	})
}

// deepen puts n messages.
func deepen(b *testing.B, q *Queue, n int, visibility time.Duration) {
	b.Helper()
	for left := n; left > 0; left -= 1000 {
		if err := q.putBatch(min(left, 1000), visibility, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDepth makes three queues: one with b.N messages, one with as many, up to 1,000,000, of which all but 1,000
// are hidden, and one with 1,000. A new process opens them and measures the start, its memory, and requests to each
// queue; it then clears the first. -benchtime 10000000x is the figure of the design; it needs some 12 GB of disk.
func BenchmarkDepth(b *testing.B) {
	if dir := os.Getenv(depthVariable); dir != "" {
		measureDepth(b, dir)
		return
	}
	if b.N == 1 && testing.Short() {
		return
	}
	dir := b.TempDir()
	n := startNATS(b, natsserver.Config{Dir: dir})
	s, err := tryOpen(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	deepen(b, create(b, s, "deep"), b.N, 0)
	hidden := create(b, s, "hidden")
	deepen(b, hidden, min(b.N, 1_000_000)-1000, 6*time.Hour)
	deepen(b, hidden, 1000, 0)
	deepen(b, create(b, s, "short"), 1000, 0)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	n.Close()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "fill-ns/msg")
	if b.N == 1 {
		return // of finding out how often to run
	}
	child := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkDepth$", "-test.benchtime=1x")
	child.Env = append(os.Environ(), depthVariable+"="+dir)
	out, err := child.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	fmt.Printf("\n%s\n", out)
}

// resident returns the anonymous and the mapped memory of this process in MiB.
func resident() (anonymous, mapped int) {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			n, _ := strconv.Atoi(f[1])
			switch f[0] {
			case "RssAnon:":
				anonymous = n >> 10
			case "RssFile:":
				mapped = n >> 10
			}
		}
	}
	return anonymous, mapped
}

func measureDepth(b *testing.B, dir string) {
	memory := func(when string) {
		anonymous, mapped := resident()
		fmt.Printf("%-34s %4d MiB anonymous, %4d MiB mapped\n", when, anonymous, mapped)
	}
	timed := func(what string, n int, do func()) {
		began := time.Now()
		for range n {
			do()
		}
		fmt.Printf("%-34s %v\n", what, time.Since(began)/time.Duration(n))
	}
	var s *Store
	timed("start", 1, func() {
		n, err := natsserver.Start(natsserver.Config{Dir: dir})
		if err == nil {
			b.Cleanup(n.Close)
			s, err = tryOpen(b.Context(), &testNATS{n, dir})
		}
		if err != nil {
			b.Fatal(err)
		}
	})
	b.Cleanup(func() { _ = s.Close() })
	memory("after the start")
	get := func(q *Queue, delete bool) func() {
		return func() {
			now := time.Now()
			list, err := q.Get(1, time.Hour, now)
			if err == nil && len(list) == 1 && delete {
				err = q.Delete(list[0].ID, list[0].Receipt, now)
			}
			if err != nil || len(list) != 1 {
				b.Fatalf("%d messages, %v", len(list), err)
			}
		}
	}
	peek := func(q *Queue) func() {
		return func() {
			if list, err := q.Peek(32, time.Now()); err != nil || len(list) != 32 {
				b.Fatalf("%d messages, %v", len(list), err)
			}
		}
	}
	for _, name := range []string{"short", "deep", "hidden", "short", "deep", "hidden"} {
		q := s.Queue("acct", name)
		timed(name+": peek at 32", 300, peek(q))
		timed(name+": get and delete", 400, get(q, true))
	}
	for range 200 { // what is left is hidden
		q := s.Queue("acct", "hidden")
		if list, err := q.Get(32, time.Hour, time.Now()); err != nil || len(list) == 0 {
			break
		}
	}
	timed("hidden: get without an answer", 300, func() {
		if list, err := s.Queue("acct", "hidden").Get(32, time.Hour, time.Now()); err != nil || len(list) > 0 {
			b.Fatalf("%d messages, %v", len(list), err)
		}
	})
	memory("after these requests")
	timed("clear", 1, func() {
		if err := s.Queue("acct", "deep").Clear(); err != nil {
			b.Fatal(err)
		}
	})
	most := 0
	timed("until the records are gone", 1, func() {
		for began, more := time.Now(), true; more && time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			if err := s.db.ViewLocal(func(tx *store.Tx) error {
				k, _ := tx.Cursor(bucketGarbage).Seek([]byte{0})
				more = k != nil
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			anonymous, _ := resident()
			most = max(most, anonymous)
		}
	})
	memory("after they are gone")
	fmt.Printf("%-34s %4d MiB anonymous\n", "at most meanwhile", most)
	debug.FreeOSMemory()
	memory("after a garbage collection")
}
