package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// chronicle records when a client changed what: the judge of a state that was restored to a moment.
type chronicle struct {
	mu      sync.Mutex
	changes map[string][]change // by the name of an entity, a blob or a message
}

// change is a change of one thing. Its outcome is unknown while acked is zero.
type change struct {
	value        string // "" is absent
	began, acked time.Time
}

// begin records that a change begins, and returns what records its end.
func (c *chronicle) begin(name, value string) (acknowledge func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.changes[name])
	c.changes[name] = append(c.changes[name], change{value: value, began: time.Now()})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changes[name][i].acked = time.Now()
	}
}

// now returns a name's last value as far as it is known.
func (c *chronicle) now(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if list := c.changes[name]; len(list) > 0 {
		return list[len(list)-1].value
	}
	return ""
}

// judge compares a state with that of a moment. What was acknowledged before must be there, what began later must not;
// what was under way may be.
func (c *chronicle) judge(t *testing.T, at time.Time, state map[string]string) {
	t.Helper()
	for name := range state {
		if c.changes[name] == nil {
			t.Errorf("%s exists, and was never written", name)
		}
	}
	present := 0
	for name, list := range c.changes {
		allowed := map[string]bool{"": true}
		for _, x := range list {
			if x.began.After(at) {
				break
			}
			if !x.acked.IsZero() && !x.acked.After(at) {
				clear(allowed)
			}
			allowed[x.value] = true
		}
		if !allowed[state[name]] {
			t.Errorf("%s is %.40q, and must be one of %.200v", name, state[name], allowed)
		}
		if state[name] != "" {
			present++
		}
	}
	t.Logf("%v: %d of %d names exist", at.Format(time.TimeOnly), present, len(c.changes))
}

// scribe changes things of all three services, one after another, and writes the chronicle.
type scribe struct {
	*chronicle
	number int
	step   int
	table  *aztables.Client
	blobs  *container.Client
	queue  *azqueue.QueueClient
}

func (w *scribe) connect(t *testing.T, s *server) {
	t.Helper()
	tables, err := aztables.NewSharedKeyCredential(account, key)
	check.OK(t, err)
	w.table, err = aztables.NewClientWithSharedKey(s.table+fmt.Sprint("/scribe", w.number), tables,
		&aztables.ClientOptions{ClientOptions: s.options()})
	check.OK(t, err)
	blobs, err := container.NewSharedKeyCredential(account, key)
	check.OK(t, err)
	w.blobs, err = container.NewClientWithSharedKeyCredential(s.blob+fmt.Sprint("/scribe", w.number), blobs,
		&container.ClientOptions{ClientOptions: s.options()})
	check.OK(t, err)
	queues, err := azqueue.NewSharedKeyCredential(account, key)
	check.OK(t, err)
	w.queue, err = azqueue.NewQueueClientWithSharedKeyCredential(s.queue+fmt.Sprint("/scribe", w.number), queues,
		&azqueue.ClientOptions{ClientOptions: s.options()})
	check.OK(t, err)
}

// create creates the table, the container and the queue.
func (w *scribe) create(t *testing.T) {
	t.Helper()
	_, err := w.table.CreateTable(t.Context(), nil)
	check.OK(t, err)
	_, err = w.blobs.Create(t.Context(), nil)
	check.OK(t, err)
	_, err = w.queue.Create(t.Context(), nil)
	check.OK(t, err)
}

// write makes one change.
func (w *scribe) write(ctx context.Context, rnd *rand.Rand) error {
	w.step++
	text := fmt.Sprint(w.step, " ", strings.Repeat("x", w.step*37%500))
	item := fmt.Sprint(rnd.IntN(30))
	switch w.step % 4 {
	case 0:
		return w.writeEntity(ctx, item, text, rnd.IntN(5) == 0)
	case 1:
		if w.step%40 == 1 { // beyond what the log carries
			text += strings.Repeat("0123456789", 20_000+rnd.IntN(100_000))
		}
		return w.writeBlob(ctx, item, text, rnd.IntN(5) == 0)
	case 2:
		acknowledge := w.begin(w.name("message", fmt.Sprint(w.step)), "put")
		_, err := w.queue.EnqueueMessage(ctx, fmt.Sprint(w.step), nil)
		if err == nil {
			acknowledge()
		}
		return err
	default:
		return w.takeMessage(ctx)
	}
}

func (w *scribe) name(kind, item string) string { return fmt.Sprint(kind, w.number, "/", item) }

func (w *scribe) writeEntity(ctx context.Context, item, text string, remove bool) (err error) {
	name := w.name("entity", item)
	if remove && w.now(name) != "" {
		acknowledge := w.begin(name, "")
		if _, err = w.table.DeleteEntity(ctx, "p", item, nil); unless(err, "ResourceNotFound") == nil {
			acknowledge()
		}
		return unless(err, "ResourceNotFound") // a change in doubt had not happened
	}
	entity, err := json.Marshal(map[string]string{"PartitionKey": "p", "RowKey": item, "Text": text})
	if err != nil {
		return err
	}
	acknowledge := w.begin(name, text)
	if _, err = w.table.UpsertEntity(ctx, entity, nil); err == nil {
		acknowledge()
	}
	return err
}

func (w *scribe) writeBlob(ctx context.Context, item, text string, remove bool) (err error) {
	name := w.name("blob", item)
	blob := w.blobs.NewBlockBlobClient(item)
	if remove && w.now(name) != "" {
		acknowledge := w.begin(name, "")
		if _, err = blob.Delete(ctx, nil); unless(err, "BlobNotFound") == nil {
			acknowledge()
		}
		return unless(err, "BlobNotFound")
	}
	acknowledge := w.begin(name, text)
	if _, err = blob.Upload(ctx, streaming.NopCloser(bytes.NewReader([]byte(text))), nil); err == nil {
		acknowledge()
	}
	return err
}

func (w *scribe) takeMessage(ctx context.Context) error {
	r, err := w.queue.DequeueMessages(ctx, nil)
	if err != nil || len(r.Messages) == 0 {
		return err
	}
	m := r.Messages[0]
	acknowledge := w.begin(w.name("message", *m.MessageText), "")
	if _, err = w.queue.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err == nil {
		acknowledge()
	}
	return err
}

// read adds what the server has to a state.
func (w *scribe) read(ctx context.Context, state map[string]string) error {
	for pager := w.table.NewListEntitiesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, p := range page.Entities {
			var e struct{ RowKey, Text string }
			if err := json.Unmarshal(p, &e); err != nil {
				return err
			}
			state[w.name("entity", e.RowKey)] = e.Text
		}
	}
	for pager := w.blobs.NewListBlobsFlatPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, b := range page.Segment.BlobItems {
			r, err := w.blobs.NewBlobClient(*b.Name).DownloadStream(ctx, nil)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(r.Body)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				return err
			}
			state[w.name("blob", *b.Name)] = string(text)
		}
	}
	return w.readMessages(ctx, state)
}

// readMessages claims all messages, those that were hidden at the moment included: their timeouts have passed.
func (w *scribe) readMessages(ctx context.Context, state map[string]string) error {
	count, seconds := int32(32), int32(3600)
	for {
		r, err := w.queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &count,
			VisibilityTimeout: &seconds})
		if err != nil {
			return err
		}
		for _, m := range r.Messages {
			state[w.name("message", *m.MessageText)] = "put"
		}
		if len(r.Messages) == 0 {
			p, err := w.queue.GetProperties(ctx, nil)
			if err != nil {
				return err
			}
			// Claims of the last seconds before the moment may still hide messages.
			hidden := int(*p.ApproximateMessagesCount)
			for name, value := range state {
				if value == "put" && strings.HasPrefix(name, w.name("message", "")) {
					hidden--
				}
			}
			if hidden <= 0 {
				return nil
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// A server under load is killed several times while it sends its log to an archive. Each moment that is then restored
// must be the state that clients had at that time, over all services: with several shards they are in different ones.
func TestMomentsOfAnArchive(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"one shard": nil, "five shards": {"--shards", "5"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryMoments(t, flags...)
		})
	}
}

// tryMoments is TestMomentsOfAnArchive of a server with flags.
func tryMoments(t *testing.T, flags ...string) {
	moments, lives := check.Size(3, 50), check.Size(3, 8)
	rnd := rand.New(rand.NewPCG(chosenSeed(), 1))
	t.Logf("seed %d", chosenSeed())
	binary, err := build()
	check.OK(t, err)
	dir := t.TempDir()
	data, place := filepath.Join(dir, "data"), filepath.Join(dir, "place")
	flags = append(flags, "--archive", place, "--archive-every", "150ms")
	c := &chronicle{changes: map[string][]change{}}
	scribes := []*scribe{{chronicle: c, number: 1}, {chronicle: c, number: 2}, {chronicle: c, number: 3}}
	type span struct{ from, to time.Time }
	var spans []span
	for life := range lives {
		s := start(t, binary, data, flags...)
		for _, w := range scribes {
			w.connect(t, s)
			if life == 0 {
				w.create(t)
			}
		}
		if life == 0 {
			awaitBase(t, place)
		}
		from := time.Now()
		writeFor(t, scribes, time.Duration(600+rnd.IntN(1500))*time.Millisecond, rnd, func() {
			if life < lives-1 {
				s.kill(t)
			}
		})
		spans = append(spans, span{from, time.Now()})
		if life == lives-1 {
			s.terminate(t) // sends what there is
		}
	}
	list, err := archive.Reachable(t.Context(), backup.Folder(place))
	check.OK(t, err)
	if len(list) != 1 || list[0].Missing != "" {
		t.Fatalf("the archive has gaps: %+v", list)
	}
	for i := range moments {
		x := spans[i%len(spans)]
		at := x.from.Add(time.Duration(rnd.Int64N(int64(x.to.Sub(x.from)))))
		restored := filepath.Join(dir, fmt.Sprint("restored", i))
		restoreMoment(t, place, at, restored)
		s := start(t, binary, restored)
		state := map[string]string{}
		for _, w := range scribes {
			w.connect(t, s)
			check.OK(t, w.read(t.Context(), state))
		}
		s.terminate(t)
		c.judge(t, at, state)
		check.OK(t, os.RemoveAll(restored))
	}
}

// awaitBase waits for the first base: moments before it cannot be restored.
func awaitBase(t *testing.T, place string) {
	t.Helper()
	check.Eventually(t, func() bool {
		list, err := archive.Reachable(t.Context(), backup.Folder(place))
		return err == nil && len(list) > 0
	}, "no base after a while")
}

// writeFor lets the scribes write for a time, and calls end while they write.
func writeFor(t *testing.T, scribes []*scribe, d time.Duration, rnd *rand.Rand, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range scribes {
		r := rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64()))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := w.write(t.Context(), r); err != nil {
					if refused(err) {
						t.Errorf("the server refused: %v", err)
					}
					return
				}
			}
		})
	}
	pause(ctx, d) // the kill comes at a random time
	end()
	cancel()
	wg.Wait()
}

// restoreMoment restores a moment, whose folder must be clean.
func restoreMoment(t *testing.T, place string, at time.Time, folder string) {
	t.Helper()
	m, err := archive.Open(t.Context(), backup.Folder(place), at, t.TempDir(), nil)
	check.OK(t, err)
	err = backup.RestoreSource(t.Context(), m, folder, backup.RestoreOptions{
		Verify: func(ctx context.Context, path string) error {
			r, err := fsck.Check(ctx, path, fsck.Options{})
			if err == nil && !r.Clean {
				err = fmt.Errorf("not clean: %v", r.Findings)
			}
			return err
		}})
	check.OK(t, errors.Join(err, m.Close()))
}
