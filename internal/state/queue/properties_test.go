package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// What is stored with a queue is that of the queue alone, and there is nothing of a queue that is missing.
func TestPropertiesOfQueues(t *testing.T) {
	t.Parallel()
	s := memory(t)
	create(t, s, "orders")
	create(t, s, "other")
	policies := json.RawMessage(`[{"id":"reader"}]`)
	check.OK(t, s.SetPolicies("acct", "orders", policies))
	check.OK(t, s.SetMetadata("acct", "orders", []Meta{{"a", "b"}}))
	for name, want := range map[string]string{"orders": string(policies), "other": ""} {
		if got := check.Must(s.Policies("acct", name))(t); string(got) != want {
			t.Errorf("the policies of %s are %q, want %q", name, got, want)
		}
	}
	check.OK(t, s.SetPolicies("acct", "orders", nil))
	if got := check.Must(s.Policies("acct", "orders"))(t); got != nil {
		t.Errorf("policies that were removed are %q", got)
	}
	p := check.Must(s.Queue("acct", "orders").Properties(ctx, epoch, false))(t)
	if len(p.Metadata) != 1 || p.Metadata[0] != (Meta{"a", "b"}) {
		t.Errorf("the metadata is %v", p.Metadata)
	}
	_, missing := s.Policies("acct", "missing")
	_, ofAccount := s.Policies("acct2", "orders")
	for name, err := range map[string]error{"policies": missing, "policies of another account": ofAccount,
		"set policies": s.SetPolicies("acct", "missing", policies), "set metadata": s.SetMetadata("acct", "missing", nil),
		"delete": s.Delete("acct", "missing"), "clear": s.Queue("acct", "missing").Clear()} {
		if !errors.Is(err, ErrQueueNotFound) {
			t.Errorf("%s: %v, want ErrQueueNotFound", name, err)
		}
	}
	if err := s.SetPolicies("acct", "orders", json.RawMessage("{")); err == nil {
		t.Error("policies that are no JSON are stored")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "queues.db"), Options{}); err == nil {
		t.Error("a store without a log was opened")
	}
}

// Messages that cannot be read are counted once each, of all queues, and no longer when their queue is gone.
func TestMessagesSetAsideAreCounted(t *testing.T) {
	t.Parallel()
	s := memory(t)
	const each = 3
	for _, name := range []string{"orders", "other"} {
		q := create(t, s, name)
		for range each {
			putOne(t, q, "text", epoch)
		}
	}
	check.OK(t, s.db.Update(func(tx *store.Tx) error {
		var keys [][]byte
		c := tx.Cursor(bucketMessages)
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			keys = append(keys, append([]byte(nil), k...))
		}
		for _, k := range keys {
			tx.Put(bucketMessages, k, []byte("x"))
		}
		return nil
	}))
	for range 2 {
		for i, name := range []string{"orders", "other"} {
			list, err := s.Queue("acct", name).Peek(32, epoch)
			check.OK(t, err)
			if messages, queues := s.Damage(); len(list) > 0 || messages < each*(i+1) || messages > 2*each || queues != 0 {
				t.Errorf("%s: %d messages were found, %d messages and %d queues are damaged", name, len(list), messages, queues)
			}
		}
	}
	if messages, _ := s.Damage(); messages != 2*each {
		t.Errorf("%d messages are set aside, want %d", messages, 2*each)
	}
	check.OK(t, s.Delete("acct", "orders"))
	if messages, _ := s.Damage(); messages != each {
		t.Errorf("without a queue %d messages are set aside, want %d", messages, each)
	}
	check.OK(t, s.Queue("acct", "other").Clear())
	if messages, _ := s.Damage(); messages != 0 {
		t.Errorf("without messages %d are set aside", messages)
	}
}

// Damage of the log of a stopped server is reported, and what precedes it is read.
func TestADamagedLogIsReported(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{Dir: t.TempDir()})
	s := open(t, n)
	q := create(t, s, "orders")
	check.OK(t, s.Close())
	older := check.Must(os.ReadFile(n.path()))(t)
	s = open(t, n)
	q = find(t, s, q.Name)
	for i := range 20 {
		_, err := q.Put(fmt.Append(nil, i, strings.Repeat("x", 1000)), 0, Forever, epoch)
		check.OK(t, err)
	}
	check.OK(t, s.Close())
	n.Close()
	check.OK(t, os.WriteFile(n.path(), older, 0o600))
	blocks, err := filepath.Glob(filepath.Join(StreamDir(n.dir, LogName), "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	log := check.Must(os.ReadFile(blocks[0]))(t)
	log[len(log)/2] ^= 1
	check.OK(t, os.WriteFile(blocks[0], log, 0o600))
	reported := 0
	db := check.Must(OpenFolder(n.path(), n.dir, func(jetstreamfiles.Damage) { reported++ }))(t)
	found, err := Check(db, noValues, func(err error) { t.Errorf("check: %v", err) })
	check.OK(t, errors.Join(err, db.Close()))
	if reported == 0 || found.Messages == 0 || found.Messages >= 20 {
		t.Errorf("%d damages were reported, %d messages of 20 were read", reported, found.Messages)
	}
}
