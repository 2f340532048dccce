package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

var ctx = context.Background()

// putOne puts a message that lives for an hour.
func putOne(t testing.TB, q *Queue, body string, now time.Time) Message {
	t.Helper()
	m, err := q.Put([]byte(body), 0, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// getOne claims one message for a minute; nil if none exists.
func getOne(t testing.TB, q *Queue, now time.Time) *Message {
	t.Helper()
	list, err := q.Get(1, time.Minute, now)
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

func count(t interface{ Fatal(...any) }, q *Queue, now time.Time) int {
	p, err := q.Properties(ctx, now, false)
	if err != nil {
		t.Fatal(err)
	}
	return p.Messages
}

func testLifeOfAMessage(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	now := epoch
	sent := putOne(t, q, "hello", now)
	if sent.Inserted != now.UnixNano() || sent.Expires != now.Add(time.Hour).UnixNano() ||
		sent.NextVisible != sent.Inserted || sent.Receipt == (Receipt{}) {
		t.Errorf("put %+v", sent)
	}
	peeked, err := q.Peek(5, now)
	if err != nil || len(peeked) != 1 || peeked[0].ID != sent.ID || string(peeked[0].Body) != "hello" ||
		peeked[0].DequeueCount != 0 {
		t.Errorf("peeked %+v, %v", peeked, err)
	}
	first := getOne(t, q, now)
	if first == nil || first.ID != sent.ID || string(first.Body) != "hello" || first.DequeueCount != 1 ||
		first.NextVisible != now.Add(time.Minute).UnixNano() || first.Inserted != sent.Inserted ||
		first.Expires != sent.Expires {
		t.Fatalf("got %+v", first)
	}
	if again := getOne(t, q, now.Add(time.Minute-1)); again != nil {
		t.Errorf("handed out %+v within its visibility timeout", again)
	}
	if peeked, _ := q.Peek(5, now); len(peeked) != 0 {
		t.Errorf("peeked %+v within its visibility timeout", peeked)
	}
	wantErr(t, "deleting with the receipt of Put", q.Delete(sent.ID, sent.Receipt, now), ErrReceiptMismatch)

	// Its time runs out: the receipt stays good until another caller gets the message.
	now = now.Add(time.Minute)
	changed, err := q.Update(first.ID, first.Receipt, nil, 0, now)
	if err != nil || string(changed.Body) != "hello" || changed.DequeueCount != 1 ||
		changed.NextVisible != now.UnixNano() {
		t.Errorf("updated %+v, %v", changed, err)
	}
	_, err = q.Update(first.ID, first.Receipt, nil, 0, now)
	wantErr(t, "updating with a receipt that was replaced", err, ErrReceiptMismatch)
	second := getOne(t, q, now)
	if second == nil || second.DequeueCount != 2 {
		t.Fatalf("got %+v", second)
	}
	wantErr(t, "deleting with the receipt of Update", q.Delete(sent.ID, changed.Receipt, now), ErrReceiptMismatch)
	if changed, err = q.Update(second.ID, second.Receipt, []byte(""), time.Second, now); err != nil {
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
	if err := q.Delete(third.ID, third.Receipt, now); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "deleting again", q.Delete(third.ID, third.Receipt, now), ErrMessageNotFound)
	_, err = q.Update(third.ID, third.Receipt, nil, 0, now)
	wantErr(t, "updating what is gone", err, ErrMessageNotFound)
	if n := count(t, q, now); n != 0 {
		t.Errorf("%d messages after deleting the only one", n)
	}
}

func testExpiredMessagesNeverAppear(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	m, err := q.Put([]byte("x"), 0, 10*time.Second, epoch)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := q.Put([]byte("y"), 0, Forever, epoch)
	if err != nil {
		t.Fatal(err)
	}
	late := epoch.Add(10 * time.Second)
	if list, err := q.Peek(32, late); err != nil || len(list) != 1 || list[0].ID != kept.ID {
		t.Errorf("peeked %v, %v", list, err)
	}
	wantErr(t, "deleting", q.Delete(m.ID, m.Receipt, late), ErrMessageNotFound)
	_, err = q.Update(m.ID, m.Receipt, nil, 0, late)
	wantErr(t, "updating", err, ErrMessageNotFound)
	if n := count(t, q, late); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	if got, err := q.Get(32, time.Second, late); err != nil || len(got) != 1 || got[0].ID != kept.ID {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = q.Put(nil, time.Minute, time.Minute, epoch)
	wantErr(t, "putting what expires before it is visible", err, ErrPastExpiry)
}

func testGetManyInOrder(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	for i := range 40 {
		putOne(t, q, fmt.Sprint(i), epoch.Add(time.Duration(i)))
	}
	now := epoch.Add(time.Second)
	list, err := q.Get(32, time.Minute, now)
	if err != nil || len(list) != 32 {
		t.Fatalf("got %d, %v", len(list), err)
	}
	for i, m := range list {
		if string(m.Body) != fmt.Sprint(i) {
			t.Errorf("message %d is %s", i, m.Body)
		}
	}
	if list, err = q.Get(32, time.Minute, now); err != nil || len(list) != 8 {
		t.Errorf("got %d, %v; want the other 8", len(list), err)
	}
}

func testClear(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	old := putOne(t, q, "a", epoch)
	putOne(t, q, "b", epoch)
	claimed := getOne(t, q, epoch)
	if err := q.Clear(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, q, epoch); n != 0 {
		t.Errorf("%d messages", n)
	}
	wantErr(t, "deleting what was cleared", q.Delete(claimed.ID, claimed.Receipt, epoch), ErrMessageNotFound)
	wantErr(t, "deleting what was cleared", q.Delete(old.ID, old.Receipt, epoch), ErrMessageNotFound)
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
	if created, err := s.Create("acct", "q-a", meta("Key", "v")); !created || err != nil {
		t.Fatal(created, err)
	}
	if created, err := s.Create("acct", "q-a", meta("key", "v")); created || err != nil {
		t.Errorf("again with the same metadata: %v, %v", created, err)
	}
	_, err := s.Create("acct", "q-a", nil)
	wantErr(t, "again with other metadata", err, ErrQueueExists)
	for _, name := range []string{"q-c", "q-b", "r"} {
		create(t, s, name)
	}
	if _, err := s.Create("other", "q-z", nil); err != nil {
		t.Fatal(err)
	}
	names := func(list []Listed) string {
		var all []string
		for _, l := range list {
			all = append(all, l.Name)
		}
		return strings.Join(all, " ")
	}
	list, next, err := s.List("acct", "q-", "", 2, true)
	if err != nil || names(list) != "q-a q-b" || next != "q-c" || len(list[0].Metadata) != 1 {
		t.Errorf("listed %v, next %q", list, next)
	}
	if list, next, err = s.List("acct", "q-", next, 2, true); err != nil || names(list) != "q-c" || next != "" {
		t.Errorf("listed %v, next %q", list, next)
	}
	if err := s.SetMetadata("acct", "q-a", nil); err != nil {
		t.Error(err)
	}
	if p, err := s.Queue("acct", "q-a").Properties(ctx, epoch, false); err != nil || len(p.Metadata) != 0 {
		t.Errorf("properties %v, %v", p, err)
	}
	wantErr(t, "metadata of no queue", s.SetMetadata("acct", "none", nil), ErrQueueNotFound)
	wantErr(t, "deleting no queue", s.Delete("acct", "none"), ErrQueueNotFound)
	_, err = s.Queue("acct", "none").Properties(ctx, epoch, false)
	wantErr(t, "finding no queue", err, ErrQueueNotFound)
	if err := s.ChangeProperties("acct", func([]byte) ([]byte, error) { return []byte("p"), nil }); err != nil {
		t.Fatal(err)
	}
	stored := make(map[string]string)
	if err := s.EachProperties(func(account string,
		value []byte) error {
		stored[account] = string(value)
		return nil
	}); err != nil || len(stored) != 1 || stored["acct"] != "p" {
		t.Errorf("properties: %v, %v", stored, err)
	}
}

func testDeletedQueueCanBeMadeAgainAtOnce(t *testing.T, s *Store) {
	old := create(t, s, "orders")
	m := putOne(t, old, "a", epoch)
	if err := s.Delete("acct", "orders"); err != nil {
		t.Fatal(err)
	}
	// Who still holds the queue that was hears that it is gone.
	_, err := old.Put(nil, 0, Forever, epoch)
	wantErr(t, "putting", err, ErrQueueNotFound)
	wantErr(t, "deleting", old.Delete(m.ID, m.Receipt, epoch), ErrQueueNotFound)
	wantErr(t, "clearing", old.Clear(), ErrQueueNotFound)
	q := create(t, s, "orders")
	if n := count(t, q, epoch); n != 0 {
		t.Errorf("%d messages in a new queue", n)
	}
	wantErr(t, "deleting a message of the queue that was", q.Delete(m.ID, m.Receipt, epoch), ErrMessageNotFound)
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
	claimed, err := q.Get(10, time.Minute, now)
	if err != nil || len(claimed) != 10 {
		t.Fatal(len(claimed), err)
	}
	for _, m := range claimed[:5] {
		if err := q.Delete(m.ID, m.Receipt, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetMetadata("acct", "orders", []Meta{{Name: "a", Value: "b"}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	n.Close()

	s = open(t, startNATS(t, natsserver.Config{Dir: dir}))
	q = find(t, s, "orders")
	if p, err := q.Properties(ctx, now, false); err != nil || len(p.Metadata) != 1 {
		t.Errorf("properties %v, %v", p, err)
	}
	wantErr(t, "deleting what was deleted", q.Delete(claimed[0].ID, claimed[0].Receipt, now), ErrMessageNotFound)
	if err := q.Delete(claimed[5].ID, claimed[5].Receipt, now); err != nil {
		t.Errorf("a receipt from before the restart: %v", err)
	}
	seen := make(map[ID]Message)
	for {
		list, err := q.Get(32, time.Hour, now)
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
	list, err := q.Get(32, time.Hour, now.Add(time.Minute))
	if err != nil || len(list) != 4 {
		t.Fatalf("%d messages came back after their visibility timeout, %v; want 4", len(list), err)
	}
	if list[0].DequeueCount != 2 {
		t.Errorf("dequeue count %d, want 2", list[0].DequeueCount)
	}
}

// Concurrent callers get every message once, and all changes arrive.
func testConcurrentCallers(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	const total = 500
	done := make(chan map[ID]int)
	for range 8 {
		go func() {
			for range total / 8 {
				if _, err := q.Put([]byte("x"), 0, Forever, epoch); err != nil {
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
				list, err := q.Get(4, time.Hour, epoch)
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
					if err := q.Delete(m.ID, m.Receipt, epoch); err != nil {
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
		if err := q.Delete(m.ID, m.Receipt, epoch); err != nil {
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

// Callers share the buffers of records: each message has the text that its caller has put.
func TestPutsAtOnceKeepTheirTexts(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "q")
	const callers, rounds, together = 8, 20, 4
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for round := range rounds {
				list := make([]NewMessage, together)
				for i := range list {
					text := fmt.Sprint(caller, "/", round, "/", i, " ")
					list[i].Body = []byte(strings.Repeat(text, 1+(caller+round+i)%40))
				}
				if _, err := q.PutAll(list, time.Hour, epoch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	found := map[string]bool{}
	for at := (Position{}); ; {
		list, next, err := q.PeekAll(32, at, epoch)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			text, _, _ := strings.Cut(string(m.Body), " ")
			if strings.Trim(strings.ReplaceAll(string(m.Body), text, ""), " ") != "" {
				t.Fatalf("a message has the texts of several: %s", m.Body)
			}
			found[text] = true
		}
		if at = next; at == (Position{}) {
			break
		}
	}
	if len(found) != callers*rounds*together {
		t.Errorf("%d different messages of %d", len(found), callers*rounds*together)
	}
}
