package azurite_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// TestMain writes an account instead of running tests if LAZULI_WRITE_AZURITE has the connection string of a running
// Azurite. `.ci/azurite-folders` makes the folders in testdata with it.
func TestMain(m *testing.M) {
	if text := os.Getenv("LAZULI_WRITE_AZURITE"); text != "" {
		if err := writeAccount(context.Background(), text, os.Getenv("LAZULI_WRITE_TIMES")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// written are the times and identifiers of an account that the service chose when the account was written. They are
// stored in written.json, beside Azurite's files.
type written struct {
	// Modified and Created have the Last-Modified and creation times of blobs and containers, to the second.
	Modified, Created map[string]time.Time
	// Snapshots has the identifiers of the snapshots of overwritten.txt, oldest first, and of pages.bin.
	Snapshots, PageSnapshots []string
	// Timestamps has the Timestamp property of entities by their RowKey.
	Timestamps map[string]time.Time
	// Messages has the times of the messages by their text.
	Messages map[string]messageTimes
}

type messageTimes struct{ Inserted, Expires, Visible time.Time }

const (
	infiniteLease = "5f0b7d2e-8a4c-4b6e-9a55-0c1d2e3f4a5b"
	longText      = "a text of " + longText1 + longText1
	longText1     = "many words, many words, many words, many words, many words, many words, many words, many words, " +
		"many words, "
	oddName = "folder/näme with space & <markup>.txt"
)

var blobMetadata = map[string]*string{"Owner": to.Ptr("ada"), "stage": to.Ptr("draft 2")}

// block returns n bytes that depend on seed.
func block(seed string, n int) []byte { return bytes.Repeat([]byte(seed), n/len(seed)+1)[:n] }

func body(b []byte) streamBody { return streaming.NopCloser(bytes.NewReader(b)) }

type streamBody = interface {
	Read([]byte) (int, error)
	Seek(int64, int) (int64, error)
	Close() error
}

func blockID(n int) string {
	return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("block-%03d", n)))
}

// writeAccount writes one of everything that Azurite keeps, and stores in the file times what the service chose.
func writeAccount(ctx context.Context, text, times string) error {
	settings, err := connstr.Parse(text)
	if err != nil {
		return err
	}
	blobs, err1 := settings.Blobs(connstr.Options{})
	queues, err2 := settings.Queues(connstr.Options{})
	tables, err3 := settings.Tables(connstr.Options{})
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return err
		}
	}
	w := &written{Modified: map[string]time.Time{}, Created: map[string]time.Time{}, Timestamps: map[string]time.Time{},
		Messages: map[string]messageTimes{}}
	for _, err := range []error{writeBlobs(ctx, w, blobs), writeQueues(ctx, w, queues), writeTables(ctx, w, tables)} {
		if err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(times, append(b, '\n'), 0o644)
}

// steps calls each function until one fails.
func steps(list ...func() error) error {
	for i, f := range list {
		if err := f(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// drop returns a step for a call whose response has no interest.
func drop[R any](f func() (R, error)) func() error {
	return func() error { _, err := f(); return err }
}

func writeBlobs(ctx context.Context, w *written, c *azblob.Client) error {
	box, site, empty := c.ServiceClient().NewContainerClient("box"), c.ServiceClient().NewContainerClient("$web"),
		c.ServiceClient().NewContainerClient("empty")
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	small, over, wide := box.NewBlockBlobClient("small.txt"), box.NewBlockBlobClient("overwritten.txt"),
		box.NewBlockBlobClient("blocks.bin")
	pages, log, open := box.NewPageBlobClient("pages.bin"), box.NewAppendBlobClient("events.log"),
		box.NewBlockBlobClient("uncommitted.bin")
	none, odd, leased := box.NewBlockBlobClient("empty.bin"), box.NewBlockBlobClient(oddName),
		box.NewBlockBlobClient("leased.txt")
	holder, err := lease.NewBlobClient(leased, &lease.BlobClientOptions{LeaseID: to.Ptr(infiniteLease)})
	if err != nil {
		return err
	}
	second := func() error { time.Sleep(1100 * time.Millisecond); return nil } // so that the times of what follows differ
	put := func(b *blockblob.Client, content string, o *blockblob.UploadOptions) func() error {
		return drop(func() (blockblob.UploadResponse, error) { return b.Upload(ctx, body([]byte(content)), o) })
	}
	stage := func(b *blockblob.Client, n int, content []byte) func() error {
		return drop(func() (blockblob.StageBlockResponse, error) { return b.StageBlock(ctx, blockID(n), body(content), nil) })
	}
	append1 := func(content string) func() error {
		return drop(func() (appendblob.AppendBlockResponse, error) {
			return log.AppendBlock(ctx, body([]byte(content)), nil)
		})
	}
	page := func(offset int64, seed string, n int) func() error {
		return drop(func() (pageblob.UploadPagesResponse, error) {
			return pages.UploadPages(ctx, body(block(seed, n)), blob.HTTPRange{Offset: offset, Count: int64(n)}, nil)
		})
	}
	snapshot := func(b *blob.Client, list *[]string, o *blob.CreateSnapshotOptions) func() error {
		return func() error {
			r, err := b.CreateSnapshot(ctx, o)
			if err == nil {
				*list = append(*list, *r.Snapshot)
			}
			return err
		}
	}
	note := func(b *blob.Client, name string) func() error {
		return func() error {
			p, err := b.GetProperties(ctx, nil)
			if err == nil {
				w.Modified["box/"+name], w.Created["box/"+name] = p.LastModified.UTC(), p.CreationTime.UTC()
			}
			return err
		}
	}
	return steps(
		drop(func() (service.SetPropertiesResponse, error) {
			return c.ServiceClient().SetProperties(ctx, &service.SetPropertiesOptions{
				CORS: []*service.CORSRule{{AllowedOrigins: to.Ptr("https://example.org"), AllowedMethods: to.Ptr("GET,PUT"),
					AllowedHeaders: to.Ptr("x-ms-*"),
					ExposedHeaders: to.Ptr("etag"), MaxAgeInSeconds: to.Ptr[int32](300)}},
				DefaultServiceVersion: to.Ptr("2019-12-12"),
				StaticWebsite: &service.StaticWebsite{Enabled: to.Ptr(true), IndexDocument: to.Ptr("index.html"),
					ErrorDocument404Path: to.Ptr("404.html")},
			})
		}),
		drop(func() (container.CreateResponse, error) {
			return box.Create(ctx, &container.CreateOptions{Metadata: map[string]*string{"purpose": to.Ptr("everything")},
				Access: to.Ptr(container.PublicAccessTypeBlob)})
		}),
		drop(func() (container.SetAccessPolicyResponse, error) {
			return box.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{Access: to.Ptr(container.PublicAccessTypeBlob),
				ContainerACL: []*container.SignedIdentifier{{ID: to.Ptr("readers"),
					AccessPolicy: &container.AccessPolicy{Start: to.Ptr(start),
						Expiry: to.Ptr(start.AddDate(10, 0, 0)), Permission: to.Ptr("rl")}}}})
		}),
		drop(func() (container.CreateResponse, error) { return empty.Create(ctx, nil) }),
		drop(func() (container.CreateResponse, error) { return site.Create(ctx, nil) }),
		put(site.NewBlockBlobClient("index.html"), "<h1>hello</h1>",
			&blockblob.UploadOptions{HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/html")}}),
		put(small, "a small text", &blockblob.UploadOptions{Metadata: blobMetadata,
			Tags: map[string]string{"team": "north", "year": "2026"},
			Tier: to.Ptr(blob.AccessTierCool),
			HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/plain; charset=utf-8"),
				BlobContentEncoding: to.Ptr("identity"),
				BlobContentLanguage: to.Ptr("en"), BlobContentDisposition: to.Ptr("attachment"),
				BlobCacheControl: to.Ptr("no-cache")}}),
		put(over, "the first text", nil), second,
		snapshot(over.BlobClient(), &w.Snapshots, nil), second,
		put(over, "the second text", &blockblob.UploadOptions{Metadata: blobMetadata}), second,
		snapshot(over.BlobClient(), &w.Snapshots,
			&blob.CreateSnapshotOptions{Metadata: map[string]*string{"of": to.Ptr("the snapshot")}}), second,
		put(over, "the third text", nil),
		stage(wide, 0, block("first", 3000)), stage(wide, 1, block("2nd", 2000)), stage(wide, 2, block("last", 10)),
		drop(func() (blockblob.CommitBlockListResponse, error) {
			return wide.CommitBlockList(ctx, []string{blockID(2), blockID(0), blockID(1)}, nil)
		}),
		stage(wide, 3, block("not yet", 700)),
		stage(open, 0, block("waits", 900)), stage(open, 1, block("also", 400)),
		put(none, "", nil), put(odd, "a name", nil), put(leased, "held", nil),
		drop(func() (lease.BlobAcquireResponse, error) { return holder.AcquireLease(ctx, -1, nil) }),
		drop(func() (appendblob.CreateResponse, error) {
			return log.Create(ctx, &appendblob.CreateOptions{Metadata: blobMetadata})
		}),
		append1("one\n"), append1("two\n"), append1("three\n"),
		drop(func() (pageblob.CreateResponse, error) {
			return pages.Create(ctx, 64<<10, &pageblob.CreateOptions{SequenceNumber: to.Ptr[int64](7)})
		}),
		page(0, "page", 512), page(8192, "range", 1024), second,
		snapshot(pages.BlobClient(), &w.PageSnapshots, nil), second,
		page(8704, "later", 512), page(32768, "end", 4096),
		drop(func() (pageblob.ClearPagesResponse, error) {
			return pages.ClearPages(ctx, blob.HTTPRange{Offset: 0, Count: 512}, nil)
		}),
		note(small.BlobClient(), "small.txt"), note(over.BlobClient(), "overwritten.txt"),
		note(wide.BlobClient(), "blocks.bin"),
		note(pages.BlobClient(), "pages.bin"), note(log.BlobClient(), "events.log"),
		func() error {
			p, err := box.GetProperties(ctx, nil)
			if err == nil {
				w.Modified["box"] = p.LastModified.UTC()
			}
			return err
		},
	)
}

func writeQueues(ctx context.Context, w *written, c *azqueue.ServiceClient) error {
	orders, idle := c.NewQueueClient("orders"), c.NewQueueClient("idle")
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	put := func(text string, o *azqueue.EnqueueMessageOptions) func() error {
		return func() error {
			r, err := orders.EnqueueMessage(ctx, text, o)
			if err == nil {
				m := r.Messages[0]
				w.Messages[text] = messageTimes{m.InsertionTime.UTC(), m.ExpirationTime.UTC(), m.TimeNextVisible.UTC()}
			}
			return err
		}
	}
	return steps(
		drop(func() (azqueue.CreateResponse, error) {
			return orders.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"owner": to.Ptr("sales")}})
		}),
		drop(func() (azqueue.SetAccessPolicyResponse, error) {
			return orders.SetAccessPolicy(ctx,
				&azqueue.SetAccessPolicyOptions{QueueACL: []*azqueue.SignedIdentifier{{ID: to.Ptr("senders"),
					AccessPolicy: &azqueue.AccessPolicy{Start: to.Ptr(start), Expiry: to.Ptr(start.AddDate(10, 0, 0)),
						Permission: to.Ptr("a")}}}})
		}),
		drop(func() (azqueue.CreateResponse, error) { return idle.Create(ctx, nil) }),
		put("first", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1)}),
		put("second <&> Grüße \U0001F600", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1)}),
		put(longText, &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1)}),
		put("hidden for six days", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1),
			VisibilityTimeout: to.Ptr[int32](6 * 86400)}),
		put("expires in twenty years", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](20 * 365 * 86400)}),
		put("expired", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](1)}),
		drop(func() (azqueue.UpdateMessageResponse, error) {
			got, err := orders.DequeueMessage(ctx, &azqueue.DequeueMessageOptions{VisibilityTimeout: to.Ptr[int32](1)})
			if err != nil {
				return azqueue.UpdateMessageResponse{}, err
			}
			m := got.Messages[0]
			w.Messages["updated"] = messageTimes{m.InsertionTime.UTC(), m.ExpirationTime.UTC(), m.TimeNextVisible.UTC()}
			return orders.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, "updated",
				&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr[int32](0)})
		}),
	)
}

// An entity with every type of property.
const entityTypes = `{"PartitionKey":"p","RowKey":"types","text":"Grüße","flag":true,"int":-7,"double":1.5,"whole@odata.type":"Edm.Double","whole":3,
"long@odata.type":"Edm.Int64","long":"-9007199254740993","time@odata.type":"Edm.DateTime","time":"2026-01-02T03:04:05.1234567Z",
"id@odata.type":"Edm.Guid","id":"c9da6455-213d-42c9-9a79-3e9149a57833","bytes@odata.type":"Edm.Binary","bytes":"AAEC/w==",
"nan@odata.type":"Edm.Double","nan":"NaN","nothing":"","quote":"it's \"quoted\" \\ here"}`

func writeTables(ctx context.Context, w *written, c *aztables.ServiceClient) error {
	things, bare := c.NewClient("Things"), c.NewClient("Bare")
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(text string) func() error {
		return drop(func() (aztables.AddEntityResponse, error) { return things.AddEntity(ctx, []byte(text), nil) })
	}
	return steps(
		drop(func() (aztables.CreateTableResponse, error) { return things.CreateTable(ctx, nil) }),
		drop(func() (aztables.SetAccessPolicyResponse, error) {
			return things.SetAccessPolicy(ctx,
				&aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{{ID: to.Ptr("readers"),
					AccessPolicy: &aztables.AccessPolicy{Start: to.Ptr(start), Expiry: to.Ptr(start.AddDate(10, 0, 0)),
						Permission: to.Ptr("r")}}}})
		}),
		drop(func() (aztables.CreateTableResponse, error) { return bare.CreateTable(ctx, nil) }),
		add(entityTypes), add(`{"PartitionKey":"p","RowKey":"plain","n":1}`),
		add(`{"PartitionKey":"O'Neil","RowKey":"a b","n":2}`),
		add(`{"PartitionKey":"","RowKey":"","n":3}`),
		drop(func() (aztables.UpdateEntityResponse, error) {
			time.Sleep(10 * time.Millisecond)
			return things.UpdateEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"plain","n":4,"more":"merged"}`), nil)
		}),
		func() error {
			for pager := things.NewListEntitiesPager(nil); pager.More(); {
				p, err := pager.NextPage(ctx)
				if err != nil {
					return err
				}
				for _, b := range p.Entities {
					var e struct {
						RowKey    string
						Timestamp time.Time
					}
					if err := json.Unmarshal(b, &e); err != nil {
						return err
					}
					w.Timestamps[e.RowKey] = e.Timestamp
				}
			}
			return nil
		},
	)
}

// newFolders names the folders that .ci/azurite-folders has written, if it runs the tests.
func newFolders() string { return os.Getenv("LAZULI_AZURITE_FOLDERS") }

// testFolders returns the folders of Azurite: the stored ones, or those of this run.
func testFolders(t *testing.T) []string {
	t.Helper()
	if list := newFolders(); list != "" {
		return filepath.SplitList(list)
	}
	list, err := filepath.Glob("testdata/*/written.json")
	if err != nil || len(list) < 3 {
		t.Fatalf("stored folders: %v, %v; want those of three versions", list, err)
	}
	for i, f := range list {
		list[i] = filepath.Dir(f)
	}
	return list
}
