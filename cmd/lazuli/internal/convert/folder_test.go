package convert

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// accounts is the development account with versions, a change feed and an encryption scope.
func accounts(t *testing.T) *auth.Accounts {
	t.Helper()
	key := check.Must(auth.ParseKey(auth.DevelopmentKey))(t)
	return check.Must(auth.NewManagedAccounts(
		accountprops.Blob{ChangeFeed: true, Versioning: true, Scopes: []string{"secret"}},
		auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}}))(t)
}

// alone serves a folder without a cluster while fn runs.
func alone(t *testing.T, folder string, fn func(account)) {
	t.Helper()
	s := check.Must(server.Start(server.Config{Location: folder, Accounts: accounts(t),
		Log: slog.New(slog.DiscardHandler)}))(t)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	fn(open(t, s.ConnectionString()))
}

// account are the clients of an account.
type account struct {
	blobs  *azblob.Client
	queues *azqueue.ServiceClient
	tables *aztables.ServiceClient
}

func open(t *testing.T, connection string) account {
	t.Helper()
	retry := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 20, RetryDelay: 100 * time.Millisecond,
		MaxRetryDelay: time.Second}}
	return account{
		blobs: check.Must(azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: retry}))(t),
		queues: check.Must(azqueue.NewServiceClientFromConnectionString(connection,
			&azqueue.ClientOptions{ClientOptions: retry}))(t),
		tables: check.Must(aztables.NewServiceClientFromConnectionString(connection,
			&aztables.ClientOptions{ClientOptions: retry}))(t),
	}
}

// received is the message that fill has received.
type received struct{ id, receipt string }

const leaseID = "3f1a6c1e-0d56-4c55-9d4e-0b6f2f0a8f11"

// blocks is the content of a blob whose content is not part of the metadata's log.
var blocks = bytes.Repeat([]byte("0123456789abcdef"), 20<<10)

// fill makes data of each kind.
func fill(t *testing.T, a account) (r received) {
	t.Helper()
	ctx := t.Context()
	people := a.tables.NewClient("people")
	check.Must(people.CreateTable(ctx, nil))(t)
	for i := range 5 {
		check.Must(people.AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%d","Age":%d}`, i, i), nil))(t)
	}
	check.Must(a.tables.NewClient("Empty").CreateTable(ctx, nil))(t)

	check.Must(a.blobs.ServiceClient().SetProperties(ctx, &service.SetPropertiesOptions{
		DeleteRetentionPolicy: &service.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(7))}}))(t)
	c := a.blobs.ServiceClient().NewContainerClient("pictures")
	check.Must(c.Create(ctx, &container.CreateOptions{Metadata: map[string]*string{"of": to.Ptr("birds")}}))(t)
	put := func(name string, content []byte, o *blockblob.UploadOptions) *blockblob.Client {
		b := c.NewBlockBlobClient(name)
		check.Must(b.Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), o))(t)
		return b
	}
	put("small", []byte("small"), &blockblob.UploadOptions{Metadata: map[string]*string{"a": to.Ptr("b")},
		Tags: map[string]string{"k": "v"}})
	put("large", blocks, nil)
	put("scoped", []byte("in a scope"),
		&blockblob.UploadOptions{CPKScopeInfo: &blob.CPKScopeInfo{EncryptionScope: to.Ptr("secret")}})
	leased := put("leased", []byte("leased"), nil)
	l := check.Must(lease.NewBlobClient(leased, &lease.BlobClientOptions{LeaseID: to.Ptr(leaseID)}))(t)
	check.Must(l.AcquireLease(ctx, -1, nil))(t)
	changed := put("changed", []byte("before"), nil)
	check.Must(changed.CreateSnapshot(ctx, nil))(t)
	put("changed", []byte("after"), nil)
	check.Must(put("deleted", []byte("deleted"), nil).Delete(ctx, nil))(t)
	check.Must(c.NewBlockBlobClient("uncommitted").StageBlock(ctx, base64.StdEncoding.EncodeToString([]byte("one")),
		streaming.NopCloser(strings.NewReader("block")), nil))(t)

	orders := a.queues.NewQueueClient("orders")
	check.Must(orders.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"a": to.Ptr("b")}}))(t)
	check.Must(a.queues.NewQueueClient("empty").Create(ctx, nil))(t)
	for i := range 4 {
		check.Must(orders.EnqueueMessage(ctx, fmt.Sprint("message ", i), nil))(t)
	}
	got := check.Must(orders.DequeueMessages(ctx,
		&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(2)),
			VisibilityTimeout: to.Ptr(int32(7 * 24 * 3600))}))(t)
	check.Must(orders.DeleteMessage(ctx, *got.Messages[0].MessageID, *got.Messages[0].PopReceipt, nil))(t)
	return received{*got.Messages[1].MessageID, *got.Messages[1].PopReceipt}
}

// describe returns everything that a client can see of the data, one line for each item.
func describe(t *testing.T, a account) string {
	t.Helper()
	ctx := t.Context()
	var lines []string
	add := func(kind string, v any) { lines = append(lines, kind+" "+string(check.Must(json.Marshal(v))(t))) }
	for p := a.tables.NewListTablesPager(nil); p.More(); {
		for _, table := range check.Must(p.NextPage(ctx))(t).Tables {
			add("table", *table.Name)
			for p := a.tables.NewClient(*table.Name).NewListEntitiesPager(nil); p.More(); {
				for _, e := range check.Must(p.NextPage(ctx))(t).Entities {
					lines = append(lines, "entity "+string(e)) // with Timestamp, and the ETag
				}
			}
		}
	}
	add("properties", check.Must(a.blobs.ServiceClient().GetProperties(ctx, nil))(t).DeleteRetentionPolicy)
	for p := a.blobs.NewListContainersPager(
		&azblob.ListContainersOptions{Include: azblob.ListContainersInclude{Metadata: true, Deleted: true}}); p.More(); {
		for _, c := range check.Must(p.NextPage(ctx))(t).ContainerItems {
			add("container", []any{c.Name, c.Metadata, c.Properties.ETag, c.Properties.LastModified})
		}
	}
	pictures := a.blobs.ServiceClient().NewContainerClient("pictures")
	list := pictures.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Deleted: true, Metadata: true, Snapshots: true,
			Tags: true, UncommittedBlobs: true, Versions: true}})
	for list.More() {
		for _, b := range check.Must(list.NextPage(ctx))(t).Segment.BlobItems {
			add("blob", b)
			client := pictures.NewBlobClient(*b.Name)
			if b.Snapshot != nil {
				client = check.Must(client.WithSnapshot(*b.Snapshot))(t)
			} else if b.VersionID != nil {
				client = check.Must(client.WithVersionID(*b.VersionID))(t)
			}
			if b.Properties.ETag == nil || b.Deleted != nil && *b.Deleted {
				continue
			}
			body := check.Must(client.DownloadStream(ctx, nil))(t).Body
			content := check.Must(io.ReadAll(body))(t)
			check.OK(t, body.Close())
			add("content", fmt.Sprintf("%s %d %x", *b.Name, len(content), md5.Sum(content)))
		}
	}
	add("blocks", check.Must(pictures.NewBlockBlobClient("uncommitted").GetBlockList(ctx, blockblob.BlockListTypeAll,
		nil))(t).BlockList)
	for p := a.queues.NewListQueuesPager(
		&azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: true}}); p.More(); {
		for _, q := range check.Must(p.NextPage(ctx))(t).Queues {
			add("queue", q)
			count := check.Must(a.queues.NewQueueClient(*q.Name).GetProperties(ctx, nil))(t).ApproximateMessagesCount
			add("messages", count)
			peeked := check.Must(a.queues.NewQueueClient(*q.Name).PeekMessages(ctx,
				&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))}))(t)
			for _, m := range peeked.Messages {
				add("message", m)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// compare fails if two descriptions differ.
func compare(t *testing.T, where, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	has, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range wants {
		if !slices.Contains(has, line) {
			t.Errorf("%s lacks: %.600s", where, line)
		}
	}
	for _, line := range has {
		if !slices.Contains(wants, line) {
			t.Errorf("%s has: %.600s", where, line)
		}
	}
}
