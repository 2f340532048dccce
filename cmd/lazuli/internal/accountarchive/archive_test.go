package accountarchive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

var ctx = context.Background()

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func open(t *testing.T, options ...lazulitest.Option) accountarchive.Account {
	t.Helper()
	return account(t, lazulitest.Start(t, options...).ConnectionString(), connstr.Options{})
}

func account(t *testing.T, connection string, o connstr.Options) accountarchive.Account {
	t.Helper()
	s := must(connstr.Parse(connection))(t)
	return accountarchive.Account{Address: s.BlobEndpoint, Tables: must(s.Tables(o))(t), Queues: must(s.Queues(o))(t),
		Blobs: must(s.Blobs(o))(t), Lake: must(s.Lake(o))(t)}
}

func body(data []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(data)) }

func noise(n int) []byte {
	out := make([]byte, 0, n+sha256.Size)
	for i := 0; len(out) < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, n, i))
		out = append(out, sum[:]...)
	}
	return out[:n]
}

// fill makes tables, queues and containers with everything that an archive has.
func fill(t *testing.T, a accountarchive.Account) {
	t.Helper()
	must(a.Tables.CreateTable(ctx, "People", nil))(t)
	must(a.Tables.CreateTable(ctx, "empty", nil))(t)
	people := a.Tables.NewClient("People")
	expiry := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	must(people.SetAccessPolicy(ctx,
		&aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{{ID: to.Ptr("readers"),
			AccessPolicy: &aztables.AccessPolicy{Permission: to.Ptr("r"), Expiry: &expiry}}}}))(t)
	for p := range 3 {
		var batch []aztables.TransactionAction
		for r := range 60 {
			entity := fmt.Sprintf(
				`{"PartitionKey":"p%d","RowKey":"%04d","Whole":1,"Half":0.5,"One":1,"One@odata.type":"Edm.Double",
				"Big":"9007199254740993","Big@odata.type":"Edm.Int64",
				"At":"2020-01-02T03:04:05.1234567Z","At@odata.type":"Edm.DateTime",
				"Text":"täxt & <b>\u0001","Bytes":"AAEC","Bytes@odata.type":"Edm.Binary","No":false,
				"ID":"7f4a7b4e-0d4e-4a2f-9f5e-3a5a5a5a5a5a","ID@odata.type":"Edm.Guid",
				"Inf":"Infinity","Inf@odata.type":"Edm.Double"}`, p, r)
			batch = append(batch, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: []byte(entity)})
		}
		must(people.SubmitTransaction(ctx, batch, nil))(t)
	}
	must(people.UpsertEntity(ctx, []byte(`{"PartitionKey":"p1","RowKey":"","X":1}`), nil))(t)
	for _, row := range []string{"a'b", "a''b", "'"} {
		must(people.AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"it's","RowKey":%q,"X":1}`, row), nil))(t)
	}

	q := a.Queues.NewQueueClient("jobs")
	must(q.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"ownerOf": to.Ptr("me")}}))(t)
	for i := range 40 {
		must(q.EnqueueMessage(ctx, fmt.Sprintf("message %d äöü &<>", i),
			&azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1)}))(t)
	}
	must(q.EnqueueMessage(ctx, "bGF0ZXI=", &azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr[int32](3600)}))(t)
	must(a.Queues.NewQueueClient("none").Create(ctx, nil))(t)

	service := a.Blobs.ServiceClient()
	box := service.NewContainerClient("box")
	must(box.Create(ctx, &container.CreateOptions{Access: to.Ptr(container.PublicAccessTypeBlob),
		Metadata: map[string]*string{"oneTwo": to.Ptr("1")}}))(t)
	must(box.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{Access: to.Ptr(container.PublicAccessTypeBlob),
		ContainerACL: []*container.SignedIdentifier{{ID: to.Ptr("w"),
			AccessPolicy: &container.AccessPolicy{Permission: to.Ptr("rw"), Expiry: &expiry}}}}))(t)
	must(service.NewContainerClient("nothing").Create(ctx, nil))(t)
	for i, name := range []string{"plain", ".../escape", "a//b/", "ä ö%41+?#&.txt", "empty"} {
		must(box.NewBlockBlobClient(name).Upload(ctx, body(noise(100*(4-i))), nil))(t)
	}
	must(box.NewBlockBlobClient("full").Upload(ctx, body(noise(1000)),
		&blockblob.UploadOptions{Tier: to.Ptr(blob.AccessTierCool), Tags: map[string]string{"k": "v w", "l": ""},
			Metadata: map[string]*string{"mixedCase": to.Ptr("n"), "lower": to.Ptr("l")},
			HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("a/b"), BlobContentEncoding: to.Ptr("gzip"),
				BlobContentLanguage:    to.Ptr("de"),
				BlobContentDisposition: to.Ptr("inline"), BlobCacheControl: to.Ptr("no-cache")}}))(t)
	must(box.NewBlockBlobClient("large").UploadBuffer(ctx, noise(19<<20),
		&blockblob.UploadBufferOptions{BlockSize: 5 << 20}))(t)
	log := box.NewAppendBlobClient("log")
	must(log.Create(ctx, &appendblob.CreateOptions{Metadata: map[string]*string{"x": to.Ptr("y")}}))(t)
	for range 2 {
		must(log.AppendBlock(ctx, body(noise(3<<20)), nil))(t)
	}
	must(log.Seal(ctx, nil))(t)
	page := box.NewPageBlobClient("page")
	must(page.Create(ctx, 1<<30, &pageblob.CreateOptions{SequenceNumber: to.Ptr[int64](7)}))(t)
	for _, at := range []int64{0, 512, 5 << 20, 1<<30 - 4096} {
		must(page.UploadPages(ctx, body(noise(512)), blob.HTTPRange{Offset: at, Count: 512}, nil))(t)
	}
	history := box.NewBlockBlobClient("history")
	for i := range 4 {
		must(history.Upload(ctx, body(fmt.Append(nil, "state ", i)),
			&blockblob.UploadOptions{Metadata: map[string]*string{"n": to.Ptr(fmt.Sprint(i))}}))(t)
		if i < 3 {
			must(history.CreateSnapshot(ctx, nil))(t)
		}
	}
}

// dump has the state of an account, as the client libraries show it, without what services choose: times, ETags and
// identifiers.
func dump(t *testing.T, a accountarchive.Account) map[string]any {
	t.Helper()
	out := map[string]any{}
	note := func(key string, v any) {
		data := must(json.Marshal(v))(t)
		out[key] = string(data)
	}
	for tables := a.Tables.NewListTablesPager(nil); tables.More(); {
		for _, table := range must(tables.NextPage(ctx))(t).Tables {
			client := a.Tables.NewClient(*table.Name)
			note("table "+*table.Name, must(client.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers)
			for entities := client.NewListEntitiesPager(nil); entities.More(); {
				for _, e := range must(entities.NextPage(ctx))(t).Entities {
					var m map[string]any
					if err := json.Unmarshal(e, &m); err != nil {
						t.Fatal(err)
					}
					delete(m, "Timestamp")
					delete(m, "odata.etag")
					note(fmt.Sprintf("entity %s %s/%s", *table.Name, m["PartitionKey"], m["RowKey"]), m)
				}
			}
		}
	}
	for queues := a.Queues.NewListQueuesPager(
		&azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: true}}); queues.More(); {
		for _, q := range must(queues.NextPage(ctx))(t).Queues {
			client := a.Queues.NewQueueClient(*q.Name)
			p := must(client.GetProperties(ctx, nil))(t)
			note("queue "+*q.Name, []any{q.Metadata, *p.ApproximateMessagesCount})
			for i, m := range must(client.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](32)}))(
				t).Messages {
				note(fmt.Sprintf("message %s %d", *q.Name, i), []any{*m.MessageText, m.ExpirationTime.Year() > 9000})
			}
		}
	}
	service := a.Blobs.ServiceClient()
	for containers := service.NewListContainersPager(
		&azblob.ListContainersOptions{Include: azblob.ListContainersInclude{Metadata: true}}); containers.More(); {
		for _, c := range must(containers.NextPage(ctx))(t).ContainerItems {
			client := service.NewContainerClient(*c.Name)
			p := must(client.GetProperties(ctx, nil))(t)
			note("container "+*c.Name, []any{c.Metadata, p.BlobPublicAccess,
				must(client.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers})
			dumpBlobs(t, client, *c.Name, note)
		}
	}
	return out
}

func dumpBlobs(t *testing.T, client *container.Client, name string, note func(string, any)) {
	t.Helper()
	snapshots := map[string]int{}
	for pager := client.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Snapshots: true, Tags: true,
			Metadata: true}}); pager.More(); {
		for _, item := range must(pager.NextPage(ctx))(t).Segment.BlobItems {
			key, b := fmt.Sprintf("blob %s/%s", name, *item.Name), client.NewBlobClient(*item.Name)
			if item.Snapshot != nil {
				snapshots[key]++
				b = must(b.WithSnapshot(*item.Snapshot))(t)
				key += fmt.Sprint(" snapshot ", snapshots[key])
			}
			p := item.Properties
			h := sha256.New()
			if *p.ContentLength < 1<<29 {
				r := must(b.DownloadStream(ctx, nil))(t)
				must(io.Copy(h, r.Body))(t)
				_ = r.Body.Close()
			} else {
				for _, at := range []int64{0, 512, 1024, 5 << 20, 1<<30 - 4096, 1<<30 - 512} {
					r := must(b.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: at, Count: 512}}))(t)
					must(io.Copy(h, r.Body))(t)
				}
			}
			tags := []string{}
			if item.BlobTags != nil {
				for _, tag := range item.BlobTags.BlobTagSet {
					tags = append(tags, *tag.Key+"="+*tag.Value)
				}
				sort.Strings(tags)
			}
			note(key, []any{p.BlobType, *p.ContentLength, hex.EncodeToString(h.Sum(nil)), p.ContentType, p.ContentEncoding,
				p.ContentLanguage, p.ContentDisposition, p.CacheControl,
				p.ContentMD5, item.Metadata, tags, p.AccessTier, p.AccessTierInferred, p.BlobSequenceNumber, p.IsSealed})
		}
	}
}

func export(t *testing.T, a accountarchive.Account, s accountarchive.Selection) string {
	t.Helper()
	dir := t.TempDir() + "/archive"
	must(accountarchive.Export(ctx, a, dir, s, accountarchive.Options{}))(t)
	return dir
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	from, into := open(t), open(t)
	fill(t, from)
	dir := export(t, from, accountarchive.Selection{})
	must(accountarchive.Verify(dir))(t)
	r := must(accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{}))(t)
	if d := cmp.Diff(dump(t, from), dump(t, into)); d != "" {
		t.Error(d)
	}
	if want := 184 + 41 + 13; r.Items != want || r.Missing != 0 || r.Expired != 0 {
		t.Errorf("%+v, want %d items", r, want)
	}
	page := into.Blobs.ServiceClient().NewContainerClient("box").NewPageBlobClient("page")
	ranges := must(page.NewGetPageRangesPager(nil).NextPage(ctx))(t).PageRange
	if len(ranges) != 3 {
		t.Errorf("%d ranges", len(ranges))
	}
	if left, err := filepath.Glob(dir + "/import-*"); len(left) > 0 || err != nil {
		t.Error(left, err)
	}
}

// An export and an import that are interrupted again and again end with the same result.
func TestInterruptions(t *testing.T) {
	t.Parallel()
	from, into := open(t), open(t)
	fill(t, from)
	dir := t.TempDir() + "/archive"
	interrupted := func(run func(context.Context, accountarchive.Options) error) (times int) {
		for ; ; times++ {
			c, cancel := context.WithCancel(ctx)
			lines := 0
			err := run(c, accountarchive.Options{SegmentBytes: 1000, Progress: func(string) {
				if lines++; lines == 2 {
					cancel()
				}
			}})
			cancel()
			if err == nil {
				return times
			}
			if !errors.Is(err, context.Canceled) || times > 1000 {
				t.Fatal(err)
			}
		}
	}
	if n := interrupted(func(c context.Context, o accountarchive.Options) error {
		_, err := accountarchive.Export(c, from, dir, accountarchive.Selection{}, o)
		return err
	}); n < 5 {
		t.Errorf("the export was interrupted %d times", n)
	}
	items := 0
	for _, r := range must(accountarchive.Verify(dir))(t).Resources {
		for _, s := range r.Segments {
			items += s.Items
		}
	}
	if want := 184 + 41 + 13; items != want {
		t.Errorf("%d items in the archive, want %d", items, want)
	}
	if n := interrupted(func(c context.Context, o accountarchive.Options) error {
		_, err := accountarchive.Import(c, into, dir, accountarchive.ImportOptions{Options: o})
		return err
	}); n < 5 {
		t.Errorf("the import was interrupted %d times", n)
	}
	if d := cmp.Diff(dump(t, from), dump(t, into)); d != "" {
		t.Error(d)
	}
}

// transport is a client that sends requests through a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

// An import that is interrupted while a container is made takes it for its own when it continues.
func TestInterruptedWhileMade(t *testing.T) {
	t.Parallel()
	from := open(t)
	must(from.Blobs.CreateContainer(ctx, "box", nil))(t)
	must(from.Blobs.UploadBuffer(ctx, "box", "a", []byte("content"), nil))(t)
	dir := export(t, from, accountarchive.Selection{})
	c, cancel := context.WithCancel(ctx)
	into := account(t, lazulitest.Start(t).ConnectionString(), connstr.Options{
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			answer, err := http.DefaultClient.Do(r)
			if r.Method == http.MethodPut && err == nil {
				cancel()
				err = r.Context().Err()
			}
			return answer, err
		})})
	_, err := accountarchive.Import(c, into, dir, accountarchive.ImportOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not interrupted: %v", err)
	}
	must(accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{}))(t)
}

func TestVersionsOfBlobs(t *testing.T) {
	t.Parallel()
	from := open(t, lazulitest.WithBlobVersions())
	box := from.Blobs.ServiceClient().NewContainerClient("box")
	must(box.Create(ctx, nil))(t)
	for _, name := range []string{"a", "deleted"} {
		for i := range 3 {
			must(box.NewBlockBlobClient(name).Upload(ctx, body(fmt.Append(nil, name, i)), nil))(t)
		}
	}
	must(box.NewBlobClient("deleted").Delete(ctx, nil))(t)
	dir := export(t, from, accountarchive.Selection{Versions: true})
	versions := func(a accountarchive.Account) (list []string) {
		client := a.Blobs.ServiceClient().NewContainerClient("box")
		for pager := client.NewListBlobsFlatPager(
			&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Versions: true}}); pager.More(); {
			for _, item := range must(pager.NextPage(ctx))(t).Segment.BlobItems {
				b := client.NewBlobClient(*item.Name)
				if item.VersionID != nil {
					b = must(b.WithVersionID(*item.VersionID))(t)
				}
				content := must(io.ReadAll(must(b.DownloadStream(ctx, nil))(t).Body))(t)
				list = append(list, fmt.Sprint(string(content), item.IsCurrentVersion != nil && *item.IsCurrentVersion))
			}
		}
		return list
	}
	into := open(t, lazulitest.WithBlobVersions())
	r := must(accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{}))(t)
	if d := cmp.Diff(versions(from), versions(into)); d != "" || r.LostVersions != 0 || r.Items != 6 {
		t.Errorf("%+v %s", r, d)
	}
	plain := open(t)
	r = must(accountarchive.Import(ctx, plain, dir, accountarchive.ImportOptions{}))(t)
	if d := cmp.Diff([]string{"a2false"}, versions(plain)); d != "" || r.LostVersions != 5 || r.Items != 1 {
		t.Errorf("%+v %s", r, d)
	}
}

// What the protocol does not show is in the manifest, and does not end the export.
func TestWhatCannotBeExported(t *testing.T) {
	t.Parallel()
	a := open(t)
	box := a.Blobs.ServiceClient().NewContainerClient("box")
	must(box.Create(ctx, nil))(t)
	must(box.NewBlockBlobClient("archived").Upload(ctx, body([]byte("x")),
		&blockblob.UploadOptions{Tier: to.Ptr(blob.AccessTierArchive)}))(t)
	must(box.NewBlockBlobClient("plain").Upload(ctx, body([]byte("x")), nil))(t)
	q := a.Queues.NewQueueClient("jobs")
	must(q.Create(ctx, nil))(t)
	for range 3 {
		must(q.EnqueueMessage(ctx, "x", nil))(t)
	}
	must(q.DequeueMessage(ctx, nil))(t)
	m := must(accountarchive.Export(ctx, a, t.TempDir()+"/archive", accountarchive.Selection{Receive: true},
		accountarchive.Options{}))(t)
	var missing []string
	for _, r := range m.Resources {
		for _, x := range r.Missing {
			missing = append(missing, r.Name+": "+x.Item+": "+x.Reason)
		}
	}
	want := []string{"jobs: 1 of 3 messages: Peek Messages and Get Messages do not show them",
		"box: archived: BlobArchived"}
	if d := cmp.Diff(want, missing); d != "" || m.Missing() != 2 {
		t.Error(d)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	from, into := open(t), open(t)
	fill(t, from)
	dir := export(t, from, accountarchive.Selection{Only: []string{"container/box", "table"}})
	must(accountarchive.Import(ctx, into, dir,
		accountarchive.ImportOptions{Selection: accountarchive.Selection{Only: []string{"table/People"}}}))(t)
	for key := range dump(t, into) {
		if !strings.HasPrefix(key, "table People") && !strings.HasPrefix(key, "entity People") {
			t.Errorf("%s was imported", key)
		}
	}
	for _, only := range []string{"tables", "container/", "container/a/b", ""} {
		if _, err := accountarchive.Export(ctx, from, t.TempDir(), accountarchive.Selection{Only: []string{only}},
			accountarchive.Options{}); err == nil {
			t.Errorf("%q is taken", only)
		}
	}
	if _, err := accountarchive.Export(ctx, from, t.TempDir(), accountarchive.Selection{Only: []string{"table/none"}},
		accountarchive.Options{}); err == nil || !strings.Contains(err.Error(), "no table none") {
		t.Error(err)
	}
}

// What exists is not written into unless that is asked for.
func TestImportIntoAnAccountInUse(t *testing.T) {
	t.Parallel()
	a := open(t)
	box := a.Blobs.ServiceClient().NewContainerClient("box")
	must(box.Create(ctx, nil))(t)
	b := box.NewBlockBlobClient("b")
	must(b.Upload(ctx, body([]byte("old")), nil))(t)
	dir := export(t, a, accountarchive.Selection{})
	must(b.Upload(ctx, body([]byte("new")), nil))(t)
	content := func() string {
		return string(must(io.ReadAll(must(b.DownloadStream(ctx, nil))(t).Body))(t))
	}
	for range 2 { // a second try is not a continuation
		if _, err := accountarchive.Import(ctx, a, dir, accountarchive.ImportOptions{}); err == nil ||
			!strings.Contains(err.Error(), "--overwrite") || content() != "new" {
			t.Fatal(err, content())
		}
	}
	must(accountarchive.Import(ctx, a, dir, accountarchive.ImportOptions{Overwrite: true}))(t)
	if content() != "old" {
		t.Error(content())
	}
}

// A file that is damaged, cut or missing is found before anything of it is written.
func TestDamage(t *testing.T) {
	t.Parallel()
	from := open(t)
	fill(t, from)
	dir := export(t, from, accountarchive.Selection{Only: []string{"table/People", "queue/jobs", "container/nothing",
		"container/box"}})
	var files []string
	if err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(files) != 5 { // manifest, sums, and three segments
		t.Fatal(files)
	}
	into := open(t)
	for _, path := range files {
		data := must(os.ReadFile(path))(t)
		for name, broken := range map[string]func() error{
			"a flipped bit":  func() error { d := bytes.Clone(data); d[len(d)/2] ^= 1; return os.WriteFile(path, d, 0o600) },
			"a cut file":     func() error { return os.WriteFile(path, data[:len(data)-1], 0o600) },
			"a longer file":  func() error { return os.WriteFile(path, append(bytes.Clone(data), 0), 0o600) },
			"a missing file": func() error { return os.Remove(path) },
		} {
			if err := broken(); err != nil {
				t.Fatal(err)
			}
			// or the import continues behind what it wrote before
			for _, journal := range must(filepath.Glob(dir + "/import-*"))(t) {
				if err := os.Remove(journal); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := accountarchive.Verify(dir); !errors.Is(err, accountarchive.ErrArchive) &&
				!errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %s: %v", path, name, err)
			}
			_, err := accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{Overwrite: true})
			if !errors.Is(err, accountarchive.ErrArchive) {
				t.Errorf("%s: %s: import: %v", path, name, err)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{Overwrite: true}))(t)
}

// Archives whose hashes are right, and which yet are not of the format.
func TestForgedArchives(t *testing.T) {
	t.Parallel()
	into := open(t)
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	archive := func(resource string) string {
		return `{"format":"lazuli-account-archive","version":1,"resources":[` + resource + `]}`
	}
	const oneByte = `{"name":"x","type":"BlockBlob","length":1}`
	for name, c := range map[string]struct{ manifest, kind, file, content string }{
		"not JSON":           {manifest: "x"},
		"another format":     {manifest: `{"format":"x","version":1}`},
		"a later version":    {manifest: `{"format":"lazuli-account-archive","version":2}`},
		"no kind":            {manifest: archive(`{"kind":"share","name":"x"}`)},
		"a file outside":     {kind: "table", file: "../outside", content: "x"},
		"an absolute file":   {kind: "table", file: "/etc/hostname", content: "x"},
		"not an entity":      {kind: "table", file: "data", content: "x"},
		"no keys":            {kind: "table", file: "data", content: `{"PartitionKey":"a"}`},
		"not a message":      {kind: "queue", file: "data", content: "[]"},
		"an overlong line":   {kind: "queue", file: "data", content: strings.Repeat("x", 17<<20)},
		"no blobs":           {kind: "container", file: "data", content: "x"},
		"half a tar archive": {kind: "container", file: "data", content: tarOf("00000001.json", oneByte)},
		"another length": {kind: "container", file: "data",
			content: tarOf("00000001.json", oneByte, "00000001.data", "")},
		"no type of blob": {kind: "container", file: "data",
			content: tarOf("00000001.json", `{"name":"x","type":"x","length":1}`, "00000001.data", "x")},
		"a huge description": {kind: "container", file: "data",
			content: tarOf("00000001.json", strings.Repeat(" ", 5<<20), "00000001.data", "x")},
		"a huge blob": {kind: "container", file: "data", content: hugeTar()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.kind != "" {
				c.manifest = archive(fmt.Sprintf(`{"kind":%q,"name":"forged%s","segments":[{"file":%q,"bytes":%d,"sha256":%q}]}`,
					c.kind, sum(name)[:8], c.file, len(c.content), sum(c.content)))
			}
			for file, content := range map[string]string{"manifest.json": c.manifest,
				"SHA256SUMS": sum(c.manifest) + "  manifest.json\n", "data": c.content} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{}); !errors.Is(err,
				accountarchive.ErrArchive) {
				t.Error(err)
			}
		})
	}
}

// An archive of a stranger has links in the places of what an import reads and writes beside the manifest.
func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	from, into := open(t), open(t)
	must(from.Tables.CreateTable(ctx, "Linked", nil))(t)
	dir := export(t, from, accountarchive.Selection{})
	target := sha256.Sum256([]byte(into.Address))
	journal := filepath.Join(dir, "import-"+hex.EncodeToString(target[:4])+".json")
	outside := filepath.Join(t.TempDir(), "outside")
	for _, name := range []string{journal, journal + ".part", filepath.Join(dir, "SHA256SUMS")} {
		if err := os.WriteFile(outside, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name, name+".was"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, name); err != nil {
			t.Fatal(err)
		}
		if _, err := accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{}); err == nil {
			t.Errorf("%s is a link, and the import succeeds", filepath.Base(name))
		}
		if got := string(must(os.ReadFile(outside))(t)); got != "{}" {
			t.Errorf("%s is a link, and the file where it leads has %q", filepath.Base(name), got)
		}
		if err := errors.Join(os.Remove(name), ignore(os.Rename(name+".was", name))); err != nil {
			t.Fatal(err)
		}
	}
	must(accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{Overwrite: true}))(t)
}

// ignore returns nil for a file that does not exist.
func ignore(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func TestFoldersThatAreNoArchives(t *testing.T) {
	t.Parallel()
	a := open(t)
	must(a.Tables.CreateTable(ctx, "People", nil))(t)
	other := t.TempDir()
	if err := os.WriteFile(other+"/mine", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := accountarchive.Export(ctx, a, other, accountarchive.Selection{}, accountarchive.Options{}); err == nil ||
		!strings.Contains(err.Error(), "other files") {
		t.Error(err)
	}
	dir := export(t, a, accountarchive.Selection{})
	if _, err := accountarchive.Export(ctx, a, dir, accountarchive.Selection{}, accountarchive.Options{}); err == nil ||
		!strings.Contains(err.Error(), "whole archive") {
		t.Error(err)
	}
	if err := os.Remove(dir + "/SHA256SUMS"); err != nil {
		t.Fatal(err)
	}
	if _, err := accountarchive.Import(ctx, a, dir, accountarchive.ImportOptions{}); !errors.Is(err,
		accountarchive.ErrArchive) || !strings.Contains(err.Error(), "not finished") {
		t.Error(err)
	}
	if _, err := accountarchive.Export(ctx, open(t), dir, accountarchive.Selection{},
		accountarchive.Options{}); err == nil || !strings.Contains(err.Error(), "has an export of") {
		t.Error(err)
	}
	if _, err := accountarchive.Export(ctx, a, dir, accountarchive.Selection{Versions: true},
		accountarchive.Options{}); err == nil || !strings.Contains(err.Error(), "other options") {
		t.Error(err)
	}
	for folder, says := range map[string]string{other: "did not write " + other, other + "/nosuch": "no folder"} {
		_, imported := accountarchive.Import(ctx, a, folder, accountarchive.ImportOptions{})
		_, verified := accountarchive.Verify(folder)
		for _, err := range []error{imported, verified} {
			if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err,
				accountarchive.ErrArchive) != (folder == other) {
				t.Errorf("%s: %v", folder, err)
			}
		}
	}
}

// An export that fails because of its options, before it has anything, does not keep the folder from the right ones.
func TestExportAgainWithOtherOptions(t *testing.T) {
	t.Parallel()
	a := open(t)
	must(a.Tables.CreateTable(ctx, "People", nil))(t)
	dir := t.TempDir()
	if _, err := accountarchive.Export(ctx, a, dir, accountarchive.Selection{Only: []string{"table/Peeple"}},
		accountarchive.Options{}); err == nil || !strings.Contains(err.Error(), "has no table Peeple") {
		t.Error(err)
	}
	must(accountarchive.Export(ctx, a, dir, accountarchive.Selection{Only: []string{"table/People"}},
		accountarchive.Options{}))(t)
}
