package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

var ctx = context.Background()

// putOne puts a message that lives for an hour.
func putOne(t testing.TB, q *Queue, body string, now time.Time) Message {
	t.Helper()
	m, err := q.Put(ctx, []byte(body), 0, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// getOne claims one message for a minute; nil if none exists.
func getOne(t testing.TB, q *Queue, now time.Time) *Message {
	t.Helper()
	list, err := q.Get(ctx, 1, time.Minute, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func count(t testing.TB, q *Queue, now time.Time) int {
	t.Helper()
	n, err := q.ApproximateCount(ctx, now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testLifeOfAMessage(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	now := epoch
	sent := putOne(t, q, "hello", now)
	if sent.Inserted != now.UnixNano() || sent.Expires != now.Add(time.Hour).UnixNano() || sent.NextVisible != sent.Inserted || sent.Receipt == 0 {
		t.Errorf("put %+v", sent)
	}
	peeked, err := q.Peek(ctx, 5, now)
	if err != nil || len(peeked) != 1 || peeked[0].ID != sent.ID || string(peeked[0].Body) != "hello" || peeked[0].DequeueCount != 0 {
		t.Errorf("peeked %+v, %v", peeked, err)
	}
	first := getOne(t, q, now)
	if first == nil || first.ID != sent.ID || string(first.Body) != "hello" || first.DequeueCount != 1 ||
		first.NextVisible != now.Add(time.Minute).UnixNano() || first.Inserted != sent.Inserted || first.Expires != sent.Expires {
		t.Fatalf("got %+v", first)
	}
	if again := getOne(t, q, now.Add(time.Minute-1)); again != nil {
		t.Errorf("handed out %+v within its visibility timeout", again)
	}
	if peeked, _ := q.Peek(ctx, 5, now); len(peeked) != 0 {
		t.Errorf("peeked %+v within its visibility timeout", peeked)
	}
	wantErr(t, "deleting with the receipt of Put", q.Delete(ctx, sent.ID, sent.Receipt, now), ErrReceiptMismatch)

	// Its time runs out: the receipt stays good until somebody else gets the message.
	now = now.Add(time.Minute)
	changed, err := q.Update(ctx, first.ID, first.Receipt, nil, 0, now)
	if err != nil || string(changed.Body) != "hello" || changed.DequeueCount != 1 || changed.NextVisible != now.UnixNano() {
		t.Errorf("updated %+v, %v", changed, err)
	}
	_, err = q.Update(ctx, first.ID, first.Receipt, nil, 0, now)
	wantErr(t, "updating with a receipt that was replaced", err, ErrReceiptMismatch)
	second := getOne(t, q, now)
	if second == nil || second.DequeueCount != 2 {
		t.Fatalf("got %+v", second)
	}
	wantErr(t, "deleting with the receipt of Update", q.Delete(ctx, sent.ID, changed.Receipt, now), ErrReceiptMismatch)
	if changed, err = q.Update(ctx, second.ID, second.Receipt, []byte(""), time.Second, now); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	third := getOne(t, q, now)
	if third == nil || len(third.Body) != 0 || third.DequeueCount != 3 {
		t.Fatalf("got %+v, want an empty body", third)
	}
	if n := count(t, q, now); n != 1 {
		t.Errorf("%d messages", n)
	}
	if err := q.Delete(ctx, third.ID, third.Receipt, now); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "deleting again", q.Delete(ctx, third.ID, third.Receipt, now), ErrMessageNotFound)
	_, err = q.Update(ctx, third.ID, third.Receipt, nil, 0, now)
	wantErr(t, "updating what is gone", err, ErrMessageNotFound)
	if n := count(t, q, now); n != 0 {
		t.Errorf("%d messages after deleting the only one", n)
	}
}

func testExpiredMessagesNeverAppear(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	m, err := q.Put(ctx, []byte("x"), 0, 10*time.Second, epoch)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := q.Put(ctx, []byte("y"), 0, Forever, epoch)
	if err != nil {
		t.Fatal(err)
	}
	late := epoch.Add(10 * time.Second)
	if list, err := q.Peek(ctx, 32, late); err != nil || len(list) != 1 || list[0].ID != kept.ID {
		t.Errorf("peeked %v, %v", list, err)
	}
	wantErr(t, "deleting", q.Delete(ctx, m.ID, m.Receipt, late), ErrMessageNotFound)
	_, err = q.Update(ctx, m.ID, m.Receipt, nil, 0, late)
	wantErr(t, "updating", err, ErrMessageNotFound)
	if n := count(t, q, late); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	if got, err := q.Get(ctx, 32, time.Second, late); err != nil || len(got) != 1 || got[0].ID != kept.ID {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = q.Put(ctx, nil, time.Minute, time.Minute, epoch)
	wantErr(t, "putting what expires before it is visible", err, ErrPastExpiry)
}

func testGetManyInOrder(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	for i := range 40 {
		putOne(t, q, fmt.Sprint(i), epoch.Add(time.Duration(i)))
	}
	now := epoch.Add(time.Second)
	list, err := q.Get(ctx, 32, time.Minute, now)
	if err != nil || len(list) != 32 {
		t.Fatalf("got %d, %v", len(list), err)
	}
	for i, m := range list {
		if string(m.Body) != fmt.Sprint(i) {
			t.Errorf("message %d is %s", i, m.Body)
		}
	}
	if list, err = q.Get(ctx, 32, time.Minute, now); err != nil || len(list) != 8 {
		t.Errorf("got %d, %v; want the other 8", len(list), err)
	}
}

func testClear(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	old := putOne(t, q, "a", epoch)
	putOne(t, q, "b", epoch)
	claimed := getOne(t, q, epoch)
	if err := q.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if n := count(t, q, epoch); n != 0 {
		t.Errorf("%d messages", n)
	}
	wantErr(t, "deleting what was cleared", q.Delete(ctx, claimed.ID, claimed.Receipt, epoch), ErrMessageNotFound)
	wantErr(t, "deleting what was cleared", q.Delete(ctx, old.ID, old.Receipt, epoch), ErrMessageNotFound)
	putOne(t, q, "c", epoch)
	if m := getOne(t, q, epoch); m == nil || string(m.Body) != "c" {
		t.Errorf("got %v", m)
	}
}

func testQueuesInTheCatalog(t *testing.T, s *Store) {
	meta := func(pairs ...string) (list []Meta) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, Meta{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	if created, err := s.Create(ctx, "acct", "q-a", meta("Key", "v")); !created || err != nil {
		t.Fatal(created, err)
	}
	if created, err := s.Create(ctx, "acct", "q-a", meta("key", "v")); created || err != nil {
		t.Errorf("again with the same metadata: %v, %v", created, err)
	}
	_, err := s.Create(ctx, "acct", "q-a", nil)
	wantErr(t, "again with other metadata", err, ErrQueueExists)
	for _, name := range []string{"q-c", "q-b", "r"} {
		create(t, s, name)
	}
	if _, err := s.Create(ctx, "other", "q-z", nil); err != nil {
		t.Fatal(err)
	}
	names := func(list []Listed) string {
		var all []string
		for _, l := range list {
			all = append(all, l.Name)
		}
		return strings.Join(all, " ")
	}
	list, next := s.List("acct", "q-", "", 2)
	if names(list) != "q-a q-b" || next != "q-c" || len(list[0].Metadata) != 1 {
		t.Errorf("listed %v, next %q", list, next)
	}
	if list, next = s.List("acct", "q-", next, 2); names(list) != "q-c" || next != "" {
		t.Errorf("listed %v, next %q", list, next)
	}
	if err := s.SetMetadata(ctx, "acct", "q-a", nil); err != nil {
		t.Error(err)
	}
	if m, err := s.Metadata(ctx, "acct", "q-a"); err != nil || len(m) != 0 {
		t.Errorf("metadata %v, %v", m, err)
	}
	wantErr(t, "metadata of no queue", s.SetMetadata(ctx, "acct", "none", nil), ErrQueueNotFound)
	wantErr(t, "deleting no queue", s.Delete(ctx, "acct", "none"), ErrQueueNotFound)
	_, err = s.Queue(ctx, "acct", "none")
	wantErr(t, "finding no queue", err, ErrQueueNotFound)
	if err := s.SetProperties(ctx, "acct", []byte("p")); err != nil || string(s.Properties("acct")) != "p" || s.Properties("other") != nil {
		t.Errorf("properties: %v, %q, %q", err, s.Properties("acct"), s.Properties("other"))
	}
}

func testDeletedQueueCanBeMadeAgainAtOnce(t *testing.T, s *Store) {
	old := create(t, s, "orders")
	m := putOne(t, old, "a", epoch)
	if err := s.Delete(ctx, "acct", "orders"); err != nil {
		t.Fatal(err)
	}
	// Who still holds the queue that was hears that it is gone.
	_, err := old.Put(ctx, nil, 0, Forever, epoch)
	wantErr(t, "putting", err, ErrQueueNotFound)
	wantErr(t, "deleting", old.Delete(ctx, m.ID, m.Receipt, epoch), ErrQueueNotFound)
	wantErr(t, "clearing", old.Clear(ctx), ErrQueueNotFound)
	q := create(t, s, "orders")
	if n := count(t, q, epoch); n != 0 {
		t.Errorf("%d messages in a new queue", n)
	}
	wantErr(t, "deleting a message of the queue that was", q.Delete(ctx, m.ID, m.Receipt, epoch), ErrMessageNotFound)
	putOne(t, q, "b", epoch)
	if m := getOne(t, q, epoch); m == nil || string(m.Body) != "b" {
		t.Errorf("got %v", m)
	}
}

// What was acknowledged is there after a restart: bodies, receipts, visibility, dequeue counts, deletions.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir})
	s := open(t, n)
	q := create(t, s, "orders")
	var sent []Message
	for i := range 100 {
		sent = append(sent, putOne(t, q, fmt.Sprint("body ", i), epoch.Add(time.Duration(i))))
	}
	now := epoch.Add(time.Second)
	claimed, err := q.Get(ctx, 10, time.Minute, now)
	if err != nil || len(claimed) != 10 {
		t.Fatal(len(claimed), err)
	}
	for _, m := range claimed[:5] {
		if err := q.Delete(ctx, m.ID, m.Receipt, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetMetadata(ctx, "acct", "orders", []Meta{{Name: "a", Value: "b"}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	n.Close()

	s = open(t, startNATS(t, natsserver.Config{Dir: dir}))
	if m, err := s.Metadata(ctx, "acct", "orders"); err != nil || len(m) != 1 {
		t.Errorf("metadata %v, %v", m, err)
	}
	q = find(t, s, "orders")
	wantErr(t, "deleting what was deleted", q.Delete(ctx, claimed[0].ID, claimed[0].Receipt, now), ErrMessageNotFound)
	if err := q.Delete(ctx, claimed[5].ID, claimed[5].Receipt, now); err != nil {
		t.Errorf("a receipt from before the restart: %v", err)
	}
	seen := make(map[ID]Message)
	for {
		list, err := q.Get(ctx, 32, time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			seen[m.ID] = m
		}
	}
	for i, m := range sent {
		got, ok := seen[m.ID]
		if want := i >= 10; ok != want {
			t.Errorf("message %d handed out: %v, want %v", i, ok, want)
		} else if want && (!bytes.Equal(got.Body, m.Body) || got.DequeueCount != 1) {
			t.Errorf("message %d is %+v", i, got)
		}
	}
	if n := count(t, q, now); n != 94 {
		t.Errorf("%d messages, want 94", n)
	}
	list, err := q.Get(ctx, 32, time.Hour, now.Add(time.Minute))
	if err != nil || len(list) != 4 {
		t.Fatalf("%d messages came back after their visibility timeout, %v; want 4", len(list), err)
	}
	if list[0].DequeueCount != 2 {
		t.Errorf("dequeue count %d, want 2", list[0].DequeueCount)
	}
}

// A process that is killed between making a stream and entering the queue, or between taking the queue out and
// removing the stream, leaves a stream that the next start removes.
func TestOrphansAreRemoved(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{})
	s := open(t, n)
	create(t, s, "orders")
	orphan := s.streamConfig("acct", "lost", "0123456789")
	if _, err := s.js.CreateStream(ctx, orphan); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, n)
	if _, err := s.js.Stream(ctx, orphan.Name); !isNoStream(err) {
		t.Errorf("the stream is still there: %v", err)
	}
	putOne(t, find(t, s, "orders"), "a", epoch)
}

// Concurrent callers get every message once, and all changes arrive.
func testConcurrentCallers(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	const total = 500
	done := make(chan map[ID]int)
	for range 8 {
		go func() {
			for range total / 8 {
				if _, err := q.Put(ctx, []byte("x"), 0, Forever, epoch); err != nil {
					t.Error(err)
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		go func() {
			seen := make(map[ID]int)
			for misses := 0; misses < 20; {
				list, err := q.Get(ctx, 4, time.Hour, epoch)
				if err != nil {
					t.Error(err)
					break
				}
				if len(list) == 0 {
					misses++
					time.Sleep(time.Millisecond)
				}
				for _, m := range list {
					seen[m.ID]++
					if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
						t.Error(err)
					}
				}
			}
			done <- seen
		}()
	}
	all := make(map[ID]int)
	for range 16 {
		for id, n := range <-done {
			all[id] += n
		}
	}
	for m := getOne(t, q, epoch); m != nil; m = getOne(t, q, epoch) {
		all[m.ID]++
		if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
			t.Error(err)
		}
	}
	for id, n := range all {
		if n != 1 {
			t.Errorf("%s was handed out %d times", id, n)
		}
	}
	if len(all) != total/8*8 || count(t, q, epoch) != 0 {
		t.Errorf("%d messages were handed out, %d are left; want %d and none", len(all), count(t, q, epoch), total/8*8)
	}
}

// A record that JetStream does not deliver, though nobody removed it, is not taken for a deleted message.
func TestUnreadableMessagesAreKept(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q := create(t, s, "orders")
	if _, err := q.Put(ctx, nil, time.Minute, Forever, epoch); err != nil { // so that the stream begins before the others
		t.Fatal(err)
	}
	putOne(t, q, "1", epoch)
	broken := putOne(t, q, "2", epoch)
	putOne(t, q, "3", epoch)
	stream, err := s.js.Stream(ctx, q.stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(ctx, uint64(broken.Receipt)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "3"} {
		if m := getOne(t, q, epoch); m == nil || string(m.Body) != want {
			t.Errorf("got %v, want %s", m, want)
		}
	}
	if n := count(t, q, epoch); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
	_, err = q.Update(ctx, broken.ID, broken.Receipt, nil, 0, epoch)
	wantErr(t, "updating it", err, ErrDamaged)
	if q.SetAside() != 1 {
		t.Errorf("%d messages are set aside, want 1", q.SetAside())
	}
}

// A front-end that lags has slots as free that others have used: Put takes a new slot before it gives up.
func TestPutWhereFreeSlotsAreUsed(t *testing.T) {
	t.Parallel()
	q := create(t, open(t, startNATS(t, natsserver.Config{})), "orders")
	now := time.Now()
	putOne(t, q, "first", now)
	q.mu.Lock()
	for i := range slot(2 * putRounds) {
		q.index.applyFree(slot(1)<<32|slotHex|(i+1), 1) // its record is not the first one
	}
	q.mu.Unlock()
	putOne(t, q, "second", now)
	if n := count(t, q, now); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}
