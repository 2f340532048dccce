package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// A load that uses everything a queue does is recorded with all that it writes, syncs, renames and removes. Then, for
// every one of these operations, the power fails: from what a disk may hold then, the queues are opened, and must have
// what had been acknowledged.

// powerVariable says where the recorded process keeps its queues, and powerLongVariable that all images are wanted.
const (
	powerVariable     = "LAZULI_TEST_POWER_LOAD"
	powerLongVariable = "LAZULI_TEST_POWER_LONG"
)

// powerMark is a line that the recorded process prints before it does something (Done is false) and when it was
// acknowledged.
type powerMark struct {
	Do      string `json:"do"` // put, get, delete, deleteTogether, clear
	Done    bool   `json:"done"`
	Body    string `json:"body,omitempty"` // its first words
	Count   uint32 `json:"count,omitempty"`
	Visible int64  `json:"visible,omitempty"`
}

// TestPowerLoad is the recorded process.
func TestPowerLoad(t *testing.T) {
	dir := os.Getenv(powerVariable)
	if dir == "" {
		t.Skip("is run by TestPowerFailure")
	}
	n, err := natsserver.Start(natsserver.Config{Dir: dir,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	o, err := StoreOptions(ctx, n, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	o.SnapshotLog = 6 << 20 // so that the old end is cut off
	s, err := Open(filepath.Join(dir, "queues.db"), Options{Store: o})
	if err != nil {
		t.Fatal(err)
	}
	l := &powerLoad{t: t, q: create(t, s, "orders"), body: strings.Repeat("x", 60<<10)}
	l.put("old", 2)
	l.get(1)
	for round := range 3 {
		l.put(fmt.Sprint("round", round, "-"), 100)
		l.deleteAll(l.get(90))
	}
	l.clear()
	for round := range 3 {
		l.putTogether(fmt.Sprint(powerBatch, round, "-"), 8)
		l.deleteTogether(l.get(8))
	}
	l.putTogether(powerBatch+"-", 4)
	l.put("after-", 40)
	l.deleteAll(l.get(10))
	l.put("end-", 5)
	l.get(2)
	l.put("last-", 3)
	create(t, s, "other")
	if err := s.Delete("acct", "other"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n.Close()
}

// powerLoad is the recorded process's load.
type powerLoad struct {
	t     *testing.T
	q     *Queue
	body  string
	print sync.Mutex // held while a mark is printed
}

func (l *powerLoad) mark(m powerMark) {
	l.print.Lock()
	defer l.print.Unlock()
	line, err := json.Marshal(m)
	if err != nil {
		l.t.Error(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

// parallel runs do n times, with eight callers.
func (l *powerLoad) parallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	work := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range work {
				do(i)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
}

func (l *powerLoad) put(name string, n int) {
	l.parallel(n, func(i int) {
		key := fmt.Sprintf("%s%d ", name, i)
		l.mark(powerMark{Do: "put", Body: key})
		if _, err := l.q.Put([]byte(key+l.body), 0, Forever, epoch); err != nil {
			l.t.Error(err)
		}
		l.mark(powerMark{Do: "put", Body: key, Done: true})
	})
}

// powerBatch begins the names of messages that are put together, up to a hyphen, and deleted together.
const powerBatch = "together"

func (l *powerLoad) putTogether(name string, n int) {
	var list []NewMessage
	l.markAll("put", n, func(i int) string { return fmt.Sprintf("%s%d ", name, i) }, func(keys []string) error {
		for _, key := range keys {
			list = append(list, NewMessage{Body: []byte(key)})
		}
		_, err := l.q.PutAll(list, Forever, epoch)
		return err
	})
}

func (l *powerLoad) deleteTogether(list []Message) {
	l.markAll("deleteTogether", len(list), func(i int) string { return powerKey(list[i].Body) }, func([]string) error {
		held := make([]Held, len(list))
		for i, m := range list {
			held[i] = Held{m.ID, m.Receipt}
		}
		outcomes, err := l.q.DeleteAll(held, epoch)
		return errors.Join(append(outcomes, err)...)
	})
}

// markAll marks what is done to n messages at once, before and after it.
func (l *powerLoad) markAll(what string, n int, key func(i int) string, do func(keys []string) error) {
	var keys []string
	for i := range n {
		keys = append(keys, key(i))
		l.mark(powerMark{Do: what, Body: keys[i]})
	}
	if err := do(keys); err != nil {
		l.t.Error(err)
	}
	for _, key := range keys {
		l.mark(powerMark{Do: what, Body: key, Done: true})
	}
}

func powerKey(body []byte) string {
	key, _, _ := strings.Cut(string(body), " ")
	return key + " "
}

func (l *powerLoad) get(n int) (all []Message) {
	for len(all) < n {
		list, err := l.q.Get(min(8, n-len(all)), time.Hour, epoch)
		if err != nil || len(list) == 0 {
			l.t.Fatal(len(list), err)
		}
		for _, m := range list {
			l.mark(powerMark{Do: "get", Body: powerKey(m.Body), Count: m.DequeueCount, Visible: m.NextVisible, Done: true})
		}
		all = append(all, list...)
	}
	return all
}

func (l *powerLoad) deleteAll(list []Message) {
	l.parallel(len(list), func(i int) {
		key := powerKey(list[i].Body)
		l.mark(powerMark{Do: "delete", Body: key})
		if err := l.q.Delete(list[i].ID, list[i].Receipt, epoch); err != nil {
			l.t.Error(err)
		}
		l.mark(powerMark{Do: "delete", Body: key, Done: true})
	})
}

func (l *powerLoad) clear() {
	l.mark(powerMark{Do: "clear"})
	if err := l.q.Clear(); err != nil {
		l.t.Error(err)
	}
	l.mark(powerMark{Do: "clear", Done: true})
}

// powerModel holds what has been acknowledged so far.
type powerModel struct {
	messages map[string]*powerMessage
}

type powerMessage struct {
	put       bool // acknowledged
	mayBeGone bool // deleting or clearing has begun
	gone      bool // deleting or clearing was acknowledged
	clearing  bool // it was acknowledged before a clear began
	alone     bool // its deletion is a call of its own, so that it may be gone before others of its batch
	count     uint32
	visible   int64
}

func (p *powerModel) take(m powerMark) {
	k := p.messages[m.Body]
	if k == nil && m.Body != "" {
		k = new(powerMessage)
		p.messages[m.Body] = k
	}
	switch {
	case m.Do == "put" && m.Done:
		k.put = true
	case m.Do == "get":
		k.count, k.visible = max(k.count, m.Count), max(k.visible, m.Visible)
	case m.Do == "delete" || m.Do == "deleteTogether":
		k.mayBeGone, k.gone = true, k.gone || m.Done
		k.alone = m.Do == "delete"
	case m.Do == "clear" && !m.Done:
		for _, k := range p.messages {
			k.mayBeGone, k.clearing = true, k.put
		}
	case m.Do == "clear":
		for _, k := range p.messages {
			k.gone = k.gone || k.clearing
		}
	}
}

// check compares what a disk has with what was acknowledged.
func (p *powerModel) check(found map[string]State) (lost, back, wrong []string) {
	for key, k := range p.messages {
		s, ok := found[key]
		switch {
		case k.put && !k.mayBeGone && !ok:
			lost = append(lost, key)
		case k.gone && ok:
			back = append(back, key)
		case ok && (s.DequeueCount < k.count || s.NextVisible < k.visible):
			wrong = append(wrong, key)
		}
	}
	// Of what was put or deleted together, all is there or nothing.
	together, there := make(map[string]int), make(map[string]int)
	for key, k := range p.messages {
		batch, _, _ := strings.Cut(key, "-")
		if !strings.HasPrefix(batch, powerBatch) || k.alone {
			continue
		}
		if together[batch]++; found[key] != (State{}) {
			there[batch]++
		}
	}
	for batch, n := range there {
		if n != together[batch] {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d messages", batch, n, together[batch]))
		}
	}
	return lost, back, wrong
}

// openImage opens the queues of a folder and returns what is in the queue.
func openImage(dir string) (map[string]State, error) {
	n, err := natsserver.Start(natsserver.Config{Dir: dir, Relaxed: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer n.Close()
	o, err := StoreOptions(ctx, n, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	s, err := Open(filepath.Join(dir, "queues.db"), Options{Store: o, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	found := make(map[string]State)
	q := s.Queue("acct", "orders")
	if _, err := q.Properties(ctx, epoch, false); errors.Is(err, ErrQueueNotFound) {
		return found, nil
	} else if err != nil {
		return nil, err
	}
	var wrong []error
	if _, err := Check(s.db, noValues, func(err error) { wrong = append(wrong, err) }); err != nil || wrong != nil {
		return nil, errors.Join(append(wrong, err)...)
	}
	now := epoch.Add(time.Minute)
	for {
		list, err := q.Get(32, time.Hour, now)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			m.DequeueCount--
			m.NextVisible = 0
			found[powerKey(m.Body)] = m.State
		}
	}
	list, err := peekEverything(q, now)
	for _, m := range list {
		if _, got := found[powerKey(m.Body)]; !got {
			found[powerKey(m.Body)] = m.State
		}
	}
	if n, _ := s.Damage(); n > 0 {
		return nil, fmt.Errorf("%d messages were set aside", n)
	}
	return found, err
}

// No acknowledged change is lost when the power fails, at whichever operation.
func TestPowerFailure(t *testing.T) {
	if err := crashimage.Available(); err != nil {
		t.Skip(err)
	}
	long := os.Getenv(powerLongVariable) != ""
	if testing.Short() && !long {
		t.Skip("takes a minute")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "queues")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPowerLoad$", "-test.v=false")
	cmd.Env = append(os.Environ(), powerVariable+"="+dir)
	recording, err := crashimage.Record(dir, filepath.Join(t.TempDir(), "trace"), cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := &powerTest{t: t, long: long, model: &powerModel{messages: make(map[string]*powerMessage)},
		seen: [crashimage.Variants]int{-1, -1, -1, -1, -1}}
	// How many syncs the load takes depends on the machine: on a slow one, more changes share a sync.
	syncs := 0
	for _, e := range recording.Events {
		if powerSync(e) {
			syncs++
		}
	}
	p.every = max(1, syncs/check.Size(36, 300))
	if err := recording.Replay(p.step); err != nil {
		t.Fatal(err)
	}
	kinds := make(map[crashimage.Kind]int)
	for _, e := range recording.Events {
		kinds[e.Kind]++
	}
	t.Logf("%d operations (%v): %d images of the disk, checked %d times", len(recording.Events), kinds, p.images, p.checks)
	if p.removed == 0 || kinds[crashimage.Sync] < 50 || p.images < 25 {
		t.Errorf("%d blocks were removed, with %v: the load does not show what it should", p.removed, kinds)
	}
}

// powerTest checks images.
type powerTest struct {
	t     *testing.T
	long  bool
	model *powerModel

	synced, every int // syncs so far, and of how many of them one is checked

	found          [crashimage.Variants]map[string]State
	seen           [crashimage.Variants]int // the state of the disk that found is of
	images, checks int
	removed        int
}

func (p *powerTest) step(n int, e crashimage.Event, d *crashimage.Disk) error {
	if e.Kind == crashimage.Remove && strings.HasSuffix(e.Path, ".blk") {
		p.removed++
	}
	if e.Kind == crashimage.Print {
		for line := range strings.Lines(string(e.Data)) {
			var m powerMark
			if json.Unmarshal([]byte(line), &m) == nil && m.Do != "" {
				p.model.take(m)
			}
		}
	}
	if powerSync(e) {
		p.synced++
	}
	for v := range crashimage.Variants {
		if d.Changed[v] != p.seen[v] && p.wanted(n, e, v) {
			dir := filepath.Join(p.t.TempDir(), "image")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			if err := d.Write(dir, v, uint64(n)); err != nil {
				return err
			}
			found, err := openImage(dir)
			os.RemoveAll(filepath.Dir(dir))
			if err != nil {
				return fmt.Errorf("after %d operations, the last of which was %.200v, an image of %v: %w", n, e, v, err)
			}
			p.found[v], p.seen[v] = found, d.Changed[v]
			p.images++
		}
		if d.Changed[v] != p.seen[v] || p.found[v] == nil {
			continue // of another state of the disk
		}
		p.checks++
		if lost, back, wrong := p.model.check(p.found[v]); len(lost)+len(back)+len(wrong) > 0 {
			return fmt.Errorf("after %d operations, the last of which was %.200v, an image of %v: lost %v, back %v, wrong %v",
				n, e, v, lost, back, wrong)
		}
	}
	return nil
}

// powerSync reports whether an operation makes something durable that must be there after a failure.
func powerSync(e crashimage.Event) bool {
	return e.Kind == crashimage.Sync && !strings.HasSuffix(e.Path, "index.db")
}

// wanted reports whether an image is checked. The long form checks all. The short one checks some of the syncs, and
// leaves most out where a write was added that has not been synced, since a later sync is checked.
func (p *powerTest) wanted(n int, e crashimage.Event, v crashimage.Variant) bool {
	if p.long {
		return true
	}
	block := strings.Contains(e.Path, ".blk")
	oneOf := func(m int) bool { return rand.New(rand.NewPCG(uint64(n), uint64(v))).IntN(m) == 0 }
	switch {
	case e.Kind == crashimage.Sync && v == crashimage.Synced:
		return powerSync(e) && p.synced%p.every == 0
	case e.Kind == crashimage.Remove, e.Kind == crashimage.Rename:
		return block
	case e.Kind == crashimage.Write, e.Kind == crashimage.Sync:
		return oneOf(check.Size(300, 90))
	}
	return false
}
