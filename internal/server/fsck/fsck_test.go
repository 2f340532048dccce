package fsck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	must "github.com/lazuli-storage/lazuli/internal/test/check"
)

// populate makes a data folder with something of everything and returns its path.
func populate(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := server.Start(server.Config{Location: dir, Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	url := func(svc wire.Service) string { return s.URL(svc, auth.DevelopmentAccount) }

	tableCred, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	must(err)
	tables, err := aztables.NewServiceClientWithSharedKey(url(wire.Table), tableCred, nil)
	must(err)
	_, err = tables.CreateTable(ctx, "people", nil)
	must(err)
	for i := range 20 {
		_, err = tables.NewClient("people").AddEntity(ctx,
			fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%d","Name":"x"}`, i), nil)
		must(err)
	}

	blobCred, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	must(err)
	blobs, err := azblob.NewClientWithSharedKeyCredential(url(wire.Blob), blobCred, nil)
	must(err)
	_, err = blobs.CreateContainer(ctx, "pictures", nil)
	must(err)
	for i := range 10 {
		_, err = blobs.UploadBuffer(ctx, "pictures", fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 10_000*i), nil)
		must(err)
	}
	_, err = blobs.DeleteBlob(ctx, "pictures", "9", nil)
	must(err)

	queueCred, err := azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	must(err)
	queues, err := azqueue.NewServiceClientWithSharedKeyCredential(url(wire.Queue), queueCred, nil)
	must(err)
	_, err = queues.CreateQueue(ctx, "work", nil)
	must(err)
	for range 7 {
		_, err = queues.NewQueueClient("work").EnqueueMessage(ctx, "hello", nil)
		must(err)
	}
	must(s.Stop(context.WithoutCancel(ctx)))
	return dir
}

func checkDir(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Check(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A folder that was written by a clock that was ahead is clean, with a warning.
func TestFolderOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	dir := populate(t)
	at := time.Now().Add(24 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "blobs.db"), at, at); err != nil {
		t.Fatal(err)
	}
	r := checkDir(t, dir)
	if !r.Clean || r.Warnings != 1 || !strings.Contains(r.Findings[0].What, "ahead of this one") {
		t.Errorf("findings: %v", r.Findings)
	}
}

func TestCleanFolder(t *testing.T) {
	t.Parallel()
	dir := populate(t)
	before := listing(t, dir)
	r := checkDir(t, dir)
	if !r.Clean || len(r.Findings) != 0 {
		t.Errorf("findings: %v", r.Findings)
	}
	if r.Tables.Tables != 1 || r.Tables.Entities != 20 {
		t.Errorf("tables: %+v", r.Tables)
	}
	b := r.Blobs
	if b.Containers != 1 || b.Blobs != 9 || b.LiveBytes != 360_000 || b.DeadBytes != 90_000 || b.TornBytes != 0 ||
		b.Extents == 0 ||
		b.Bytes != b.LiveBytes+b.DeadBytes+b.HeaderBytes {
		t.Errorf("blobs: %+v", b)
	}
	if r.Queues.Queues != 1 || r.Queues.Messages != 7 || r.Queues.Bytes == 0 {
		t.Errorf("queues: %+v", r.Queues)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the check changed the folder from\n%s\nto\n%s", before, after)
	}
	var text, js bytes.Buffer
	if err := errors.Join(r.WriteText(&text), json.NewEncoder(&js).Encode(r)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(text.String(), "\nclean (0 warnings)\n") {
		t.Errorf("the text ends differently:\n%s", text.String())
	}
	var back Report
	if err := json.Unmarshal(js.Bytes(), &back); err != nil || !back.Clean || back.Blobs != r.Blobs ||
		!strings.Contains(js.String(), `"findings":[]`) {
		t.Errorf("the JSON does not read back: %v\n%s", err, js.String())
	}
}

// listing is all files with their sizes and times.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "LOCK" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Size(), info.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDamage spoils a copy of the folder in one way at a time.
func TestDamage(t *testing.T) {
	t.Parallel()
	clean := populate(t)
	extents, err := filepath.Glob(filepath.Join(clean, "extents", "*.extent"))
	if err != nil || len(extents) == 0 {
		t.Fatal(extents, err)
	}
	extent := filepath.Join("extents", filepath.Base(extents[0]))
	blocks, err := filepath.Glob(filepath.Join(clean, "queues", "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	for _, c := range []struct {
		name     string
		damage   func(dir string) error
		where    string // part of a finding's Where
		what     string // part of the same finding's What
		severity Severity
	}{
		{"tables.db is gone", remove("tables.db"), "tables.db", "missing", Error},
		{"tables.db is short", truncate("tables.db", 16<<10), "tables.db", "truncated", Error},
		{"tables.db is text", overwrite("tables.db", "hello"), "tables.db", "", Error},
		{"an entity is spoilt", inStore("tables.db", tablesBuckets, "entities", spoil), "tables.db", "", Error},
		{"an entity has a strange key", inStore("tables.db", tablesBuckets, "entities", stray), "tables.db", "", Error},
		{"blobs.db is gone", remove("blobs.db"), "blobs.db", "missing", Error},
		{"blobs.db has a hole", flipRoot("blobs.db"), "blobs.db", "", Error},
		{"an extent is gone", remove(extent), "blobs.db", "missing", Error},
		{"an extent has a wrong bit", flip(extent, 2000, 1), "blobs.db", "", Error},
		{"a finished extent has a tail", appendTo(extent, "tail"), "extents", "4 bytes are not intact", Warning},
		{"an extent that nobody knows", create(filepath.Join("extents", "x.txt")), "x.txt", "no extent", Warning},
		{"a file that nobody knows", create("notes.txt"), "notes.txt", "not part", Warning},
		{"a queue's records are gone", removeAll(filepath.Join("queues", "jetstream")), "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(clean)); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			r := checkDir(t, dir)
			if c.severity == "" {
				return // it must end, no more
			}
			if r.Clean != (c.severity == Warning) {
				t.Errorf("clean is %v", r.Clean)
			}
			for _, f := range r.Findings {
				if strings.Contains(f.Where, c.where) && strings.Contains(f.What, c.what) && f.Severity == c.severity {
					return
				}
			}
			t.Errorf("nothing about %q at %q was found; findings: %v", c.what, c.where, r.Findings)
		})
	}
}

var tablesBuckets = []store.Bucket{"entities"}

func remove(name string) func(string) error {
	return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
}

func removeAll(name string) func(string) error {
	return func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) }
}

func truncate(name string, size int64) func(string) error {
	return func(dir string) error { return os.Truncate(filepath.Join(dir, name), size) }
}

func overwrite(name, text string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
}

func create(name string) func(string) error { return overwrite(name, "x") }

func appendTo(name, text string) func(string) error {
	return func(dir string) error {
		p, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), append(p, text...), 0o600)
	}
}

// flip changes n bytes from offset.
func flip(name string, offset, n int) func(string) error {
	return func(dir string) error {
		p, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for i := range n {
			p[offset+i] ^= 0xff
		}
		return os.WriteFile(filepath.Join(dir, name), p, 0o600)
	}
}

// flipRoot changes all of the page that a database begins with. A page of a fixed number may be free, and then holds
// nothing.
func flipRoot(name string) func(string) error {
	return func(dir string) error {
		db, err := bbolt.Open(filepath.Join(dir, name), 0o600, &bbolt.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		var page int
		err = db.View(func(tx *bbolt.Tx) error {
			page = int(tx.Cursor().Bucket().Root())
			return nil
		})
		size := db.Info().PageSize
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
		return flip(name, page*size, size)(dir)
	}
}

// inStore changes a bucket through the store itself, so that only the service's checker can notice.
func inStore(name string, buckets []store.Bucket, b store.Bucket,
	change func(tx *store.Tx, b store.Bucket, k, v []byte)) func(string) error {
	return func(dir string) error {
		db, err := store.Open(filepath.Join(dir, name), store.Options{Buckets: buckets})
		if err != nil {
			return err
		}
		err = db.Update(func(tx *store.Tx) error {
			k, v := tx.Cursor(b).Seek(nil)
			if k == nil {
				return errors.New("the bucket is empty: the test shows nothing")
			}
			change(tx, b, k, v)
			return nil
		})
		return errors.Join(err, db.Close())
	}
}

func spoil(tx *store.Tx, b store.Bucket, k, v []byte) { tx.Put(b, k, v[:len(v)-1]) }

func stray(tx *store.Tx, b store.Bucket, k, v []byte) { tx.Put(b, []byte("\xffstray"), v) }

func TestFolderThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Check(t.Context(), filepath.Join(dir, "nowhere"), Options{}); !errors.Is(err, datadir.ErrNotFound) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := Check(t.Context(), dir, Options{}); !errors.Is(err, datadir.ErrNotFound) {
		t.Errorf("an empty folder: %v", err)
	}
	d, err := datadir.Open(filepath.Join(dir, "used"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), d.Path(), Options{}); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("a folder in use: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// Nothing was stored yet.
	if r := checkDir(t, d.Path()); !r.Clean {
		t.Errorf("a new folder: %v", r.Findings)
	}
}

// TestRepairCountsWhatIsLost overwrites pages of a database. The repair must say how many entities are lost, in which
// table and range of keys, and where the damaged file is; the server then serves the others.
func TestRepairCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	config := server.Config{Location: dir, Relaxed: true}
	s, err := server.Start(config)
	must.OK(t, err)
	people := func(s *server.Server) *aztables.Client {
		t.Helper()
		cred, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
		must.OK(t, err)
		c, err := aztables.NewServiceClientWithSharedKey(s.URL(wire.Table, auth.DevelopmentAccount), cred, nil)
		must.OK(t, err)
		return c.NewClient("people")
	}
	ctx := t.Context()
	_, err = people(s).CreateTable(ctx, nil)
	must.OK(t, err)
	const entities = 2000
	for at := 0; at < entities; at += 100 {
		var batch []aztables.TransactionAction
		for i := at; i < at+100; i++ {
			batch = append(batch, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%05d","Name":"%0200d"}`, i, i)})
		}
		_, err := people(s).SubmitTransaction(ctx, batch, nil)
		must.OK(t, err)
	}
	must.OK(t, s.Stop(context.WithoutCancel(ctx)))
	path := filepath.Join(dir, "tables.db")
	p, err := os.ReadFile(path)
	must.OK(t, err)
	zeroed := 0
	for at := 4 * 4096; at < len(p) && zeroed < 10; at += 4096 {
		if bytes.Count(p[at:at+4096], []byte("RowKey")) == 0 &&
			bytes.Contains(p[at:at+4096], bytes.Repeat([]byte("0"), 150)) && p[at+8] == 2 {
			clear(p[at : at+4096]) // a leaf
			zeroed++
		}
	}
	if zeroed != 10 {
		t.Fatalf("%d leaves", zeroed)
	}
	must.OK(t, os.WriteFile(path, p, 0o600))
	if r := checkDir(t, dir); r.Clean {
		t.Error("clean with zeroed pages")
	}
	r, err := Check(ctx, dir, Options{Repair: true})
	must.OK(t, err)
	counted := 0
	for _, text := range r.Lost {
		var n int
		if _, err := fmt.Sscanf(text, "tables.db: about %d records of entities, from table devstoreaccount1/people, "+
			"PartitionKey \"p\", RowKey", &n); err != nil {
			t.Errorf("%q does not name what is lost: %v", text, err)
		}
		counted += n
	}
	aside, err := filepath.Glob(filepath.Join(dir, "damaged", "*", "tables.db"))
	if err != nil || len(aside) != 1 || !strings.Contains(strings.Join(r.Repaired, " "), filepath.Dir(aside[0])) {
		t.Errorf("%v does not name the folder with the damaged file, %v", r.Repaired, aside)
	}
	s, err = server.Start(config)
	must.OK(t, err)
	left := 0
	for pager := people(s).NewListEntitiesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		must.OK(t, err)
		left += len(page.Entities)
	}
	must.OK(t, s.Stop(context.WithoutCancel(ctx)))
	lost := entities - left
	t.Logf("%d of %d entities are lost; the repair has said about %d", lost, entities, counted)
	if lost == 0 || counted < lost*2/3 || counted > lost*3/2 {
		t.Errorf("%d entities are lost, and the repair counts %d", lost, counted)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	c := &check{o: Options{MaxFindings: 2}}
	for range 5 {
		c.found(Error, "here", "x")
	}
	if r := c.report; len(r.Findings) != 2 || r.Omitted != 3 || r.Errors != 5 {
		t.Errorf("%+v", r)
	}
}

// TestEachLossIsReportedOnce damages the texts of all messages: a repair names each of them, and does not count them
// again when it puts their queue in order.
func TestEachLossIsReportedOnce(t *testing.T) {
	t.Parallel()
	dir := populate(t)
	path := filepath.Join(dir, "queues.db")
	p := must.Must(os.ReadFile(path))(t)
	must.OK(t, os.WriteFile(path, bytes.ReplaceAll(p, []byte("hello"), []byte("hullo")), 0o600)) // in former pages as well
	r := must.Must(Check(t.Context(), dir, Options{Repair: true}))(t)
	if len(r.Lost) != 7 || !r.Clean || r.Queues.Messages != 0 {
		t.Errorf("lost: %q, clean %v, %d messages are left; want 7, true, 0", r.Lost, r.Clean, r.Queues.Messages)
	}
}
