package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/fulldisk"
)

// While the disk takes no writes, changes are refused at once and the store says that it is not ready. When it takes
// them again, so do the queues, by themselves, and what was acknowledged before is there.
func TestAFullDiskAndAfter(t *testing.T) {
	t.Parallel()
	if !fulldisk.Alone(t) {
		return
	}
	n := startNATS(t, natsserver.Config{Dir: t.TempDir()})
	s := open(t, n)
	q, other := create(t, s, "orders"), create(t, s, "others")
	put := make(map[string]bool)
	body := strings.Repeat("x", 1000)
	for i := range 20 {
		key := fmt.Sprint(i, " ")
		putOne(t, q, key+body, epoch)
		put[key] = true
	}
	putOne(t, other, "x", epoch)
	held := getOne(t, q, epoch)
	for round := range 2 {
		lift := fulldisk.Limit(t, 60_000)
		var err error
		for i := 0; err == nil; i++ {
			if i > 100 {
				t.Fatal("the disk is not full: the test shows nothing")
			}
			key := fmt.Sprint(round, "-", i, " ")
			if _, err = q.Put([]byte(key+body), 0, Forever, epoch); err == nil {
				put[key] = true
			}
		}
		wantErr(t, "putting on a full disk", err, natsserver.ErrStorage)
		if n.Healthy() == nil {
			t.Error("the store says that it is ready")
		}
		for range 100 { // each of which took 30 seconds once
			_, err := other.Put([]byte("x"), 0, Forever, epoch)
			wantErr(t, "putting into another queue", err, natsserver.ErrStorage)
			_, err = q.Get(1, time.Minute, epoch)
			wantErr(t, "getting", err, natsserver.ErrStorage)
			wantErr(t, "deleting", q.Delete(held.ID, held.Receipt, epoch), natsserver.ErrStorage)
			_, err = s.Create("acct", "more", nil)
			wantErr(t, "creating a queue", err, natsserver.ErrStorage)
		}
		lift()
		eventually(t, n.Healthy)
	}
	if err := q.Delete(held.ID, held.Receipt, epoch); err != nil {
		t.Error(err)
	}
	delete(put, powerKey(held.Body))
	found := make(map[string]bool)
	for {
		list, err := q.Get(32, time.Hour, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			found[powerKey(m.Body)] = true
		}
	}
	for key := range put {
		if !found[key] {
			t.Errorf("message %s is lost", key)
		}
	}
	putOne(t, create(t, s, "more"), "x", epoch)
	wantConsistent(t, s)
}
