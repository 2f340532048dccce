package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/shops"
)

// shardAccounts are the accounts of a server with shards, which are spread over all of four shards.
func shardAccounts(t *testing.T) (names []string, accounts *auth.Accounts) {
	t.Helper()
	names, accounts, err := spreadAccounts()
	check.OK(t, err)
	return names, accounts
}

// spreadAccounts is shardAccounts in a process of its own.
func spreadAccounts() (names []string, accounts *auth.Accounts, err error) {
	names = shops.Names(12)
	accounts, err = shops.Accounts(names, otherKey)
	return names, accounts, err
}

// startShards starts a server with a number of shards.
func startShards(t *testing.T, c Config) (s *Server, tenants map[string]*tenant) {
	t.Helper()
	names, accounts := shardAccounts(t)
	c.Accounts, c.Log = accounts, slog.New(slog.DiscardHandler)
	s = check.Must(Start(c))(t)
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	tenants = map[string]*tenant{}
	for _, name := range names {
		tenants[name] = newTenant(t, s.ConnectionStringOf(name, otherKey))
	}
	return s, tenants
}

// apart returns two accounts whose blobs are in different shards.
func apart(t *testing.T, s *Server) (from, to string) {
	t.Helper()
	names, _ := shardAccounts(t)
	open := s.services.Load()
	for _, to = range names[1:] {
		if open.of(wire.Blob, names[0]) != open.of(wire.Blob, to) {
			return names[0], to
		}
	}
	t.Fatal("all accounts are in one shard")
	return "", ""
}

// Accounts have their data however many shards there are, also after a restart, and each shard has that of some.
func TestShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			c := Config{Location: t.TempDir(), Shards: shards, Relaxed: true}
			s, tenants := startShards(t, c)
			for name, x := range tenants {
				x.fill(t, "of"+name)
			}
			check.OK(t, s.Ready())
			for n := range shards {
				of := s.services.Load().list()[n]
				commits, _ := of.tables.State.Commits()
				usage := check.Must(of.blobs.State.Maintenance.Usage())(t)
				if commits == 0 || usage.Groups == 0 {
					t.Errorf("nothing was written to shard %d: %d groups of tables, %+v", n, commits, usage)
				}
			}
			check.OK(t, s.Stop(t.Context()))
			// The number of shards is that of the folder, where it is not given.
			c.Shards = 0
			s, tenants = startShards(t, c)
			if got := len(s.services.Load().list()); got != shards {
				t.Fatalf("%d shards after a restart", got)
			}
			for name, x := range tenants {
				for other := range tenants {
					want := ""
					if other == name {
						want = "bqt"
					}
					if got := x.has(t, "of"+other); got != want {
						t.Errorf("%s has %q of what %s has made, want %q", name, got, other, want)
					}
				}
			}
		})
	}
}

// A server that has become idle writes its databases' memtables to their files, of all shards, and has everything as
// before.
func TestWriteOut(t *testing.T) {
	t.Parallel()
	s, tenants := startShards(t, Config{Location: t.TempDir(), Shards: 2, Relaxed: true})
	for name, x := range tenants {
		x.fill(t, "of"+name)
	}
	if !s.writeOut() {
		t.Error("nothing was written")
	}
	for n, of := range s.services.Load().list() {
		// Work in the background may have written something since, but not the tables.
		if wrote, err := of.tables.State.Database().WriteOut(); wrote || err != nil {
			t.Errorf("the tables of shard %d were not written: %v, %v", n, wrote, err)
		}
	}
	for name, x := range tenants {
		if got := x.has(t, "of"+name); got != "bqt" {
			t.Errorf("%s has %q of what it has made", name, got)
		}
	}
	check.OK(t, s.Stop(t.Context()))
	if s.writeOut() {
		t.Error("a stopped server wrote")
	}
}

// A folder has one number of shards for good, and what does not know shards does not open it.
func TestNumberOfShardsIsFixed(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s, _ := startShards(t, Config{Location: path, Shards: 2, Relaxed: true})
	check.OK(t, s.Stop(t.Context()))
	for _, shards := range []int{1, 3} {
		s, err := Start(Config{Location: path, Shards: shards, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			check.OK(t, s.Stop(t.Context()))
		}
		if !errors.Is(err, datadir.ErrShards) || !strings.Contains(fmt.Sprint(err), "has 2 shards") {
			t.Errorf("with %d shards: %v", shards, err)
		}
	}
	for what, open := range map[string]func() (*datadir.Dir, error){
		"Open":         func() (*datadir.Dir, error) { return datadir.Open(path) },
		"OpenExisting": func() (*datadir.Dir, error) { return datadir.OpenExisting(path) },
	} {
		if d, err := open(); !errors.Is(err, datadir.ErrShards) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				check.OK(t, d.Close())
			}
		}
	}
	for name, c := range map[string]Config{
		"in memory": {InMemory: true, Shards: 2},
		"too many":  {Location: t.TempDir(), Shards: shardmap.Max + 1},
		"negative":  {Location: t.TempDir(), Shards: -1},
	} {
		if s, err := Start(c); err == nil {
			check.OK(t, s.Stop(t.Context()))
			t.Errorf("%s: taken", name)
		}
	}
}

// A name of a host gives the account as well, and what has no account gets the same answer as with one shard.
func TestAddressesOfShards(t *testing.T) {
	t.Parallel()
	answers := map[int]map[string]string{}
	for _, shards := range []int{1, 4} {
		s, tenants := startShards(t, Config{Location: t.TempDir(), Shards: shards, Relaxed: true})
		answers[shards] = map[string]string{}
		for name, x := range tenants {
			x.fill(t, "things")
			container := x.blobs.ServiceClient().NewContainerClient("things")
			url := check.Must(container.GetSASURL(sas.ContainerPermissions{Read: true, List: true},
				time.Now().Add(time.Hour), nil))(t)
			_, query, _ := strings.Cut(url, "?")
			for host, path := range map[string]string{
				name + ".blob.localhost": "/things/blob", name + "-secondary.blob.localhost": "/things/blob",
				"127.0.0.1": "/" + name + "/things/blob", name + ".dfs.localhost": "/things/blob",
			} {
				answers[shards][host+path] = rawGet(t, s, host, path+"?"+query)
			}
		}
		for _, path := range []string{"/", "//", "/UPPER/things", "/x", "/nobodyhere/things/blob", "/%73hop00/things"} {
			answers[shards][path] = rawGet(t, s, "127.0.0.1", path)
		}
	}
	for address, want := range answers[1] {
		if got := answers[4][address]; got != want {
			t.Errorf("%s: %q with 4 shards, and %q with one", address, got, want)
		}
		if strings.Contains(address, "blob.localhost/things") && want != "200 things" {
			t.Errorf("%s: %q", address, want)
		}
	}
}

// rawGet sends a request for a path to the Blob service, with the name of a host, and returns status and body without
// what differs from request to request.
func rawGet(t *testing.T, s *Server, host, path string) string {
	t.Helper()
	r := check.Must(http.NewRequestWithContext(t.Context(), http.MethodGet,
		strings.TrimSuffix(s.URL(wire.Blob, ""), "/")+path, nil))(t)
	r.Host = host
	resp, err := s.Client().Do(r)
	check.OK(t, err)
	defer resp.Body.Close()
	body := check.Must(io.ReadAll(resp.Body))(t)
	if code := resp.Header.Get("x-ms-error-code"); code != "" {
		return fmt.Sprint(resp.StatusCode, " ", code)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}

// A copy has the bytes of a source in another shard: at once, in the background, from a SAS, with conditions; a caller
// who may not read the source is refused as with one shard.
func TestCopiesBetweenShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s, tenants := startShards(t, Config{Location: t.TempDir(), Shards: 4, Relaxed: true})
			source, target := apart(t, s)
			if shards == 1 { // the same accounts in one shard
				_, tenants = startShards(t, Config{Location: t.TempDir(), Relaxed: true})
			}
			content := bytes.Repeat([]byte("a sentence. "), 10_000)
			ctx := t.Context()
			check.Must(tenants[source].blobs.CreateContainer(ctx, "from", nil))(t)
			check.Must(tenants[target].blobs.CreateContainer(ctx, "goal", nil))(t)
			from := tenants[source].blobs.ServiceClient().NewContainerClient("from").NewBlockBlobClient("text")
			check.Must(from.UploadBuffer(ctx, content, &blockblob.UploadBufferOptions{Tags: map[string]string{"a": "b"},
				Metadata: map[string]*string{"who": to.Ptr("me")}}))(t)
			signed := check.Must(from.GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(time.Hour), nil))(t)
			box := tenants[target].blobs.ServiceClient().NewContainerClient("goal")
			same := func(name string) {
				t.Helper()
				got := check.Must(box.NewBlobClient(name).DownloadStream(ctx, nil))(t)
				text := check.Must(io.ReadAll(got.Body))(t)
				if !bytes.Equal(text, content) {
					t.Errorf("%s has %d other bytes", name, len(text))
				}
			}
			check.Must(box.NewBlockBlobClient("put").UploadBlobFromURL(ctx, signed, nil))(t)
			same("put")
			check.Must(box.NewBlobClient("sync").CopyFromURL(ctx, signed, nil))(t)
			same("sync")
			check.Must(box.NewBlobClient("later").StartCopyFromURL(ctx, signed, nil))(t)
			check.Eventually(t, func() bool {
				p := check.Must(box.NewBlobClient("later").GetProperties(ctx, nil))(t)
				return *p.CopyStatus == blob.CopyStatusTypeSuccess && *p.Metadata["Who"] == "me"
			}, "the copy has not ended")
			same("later")
			// Without a credential for the source, and with a condition that does not hold.
			for what, err := range map[string]error{
				"no credential": second(box.NewBlobClient("no").CopyFromURL(ctx, from.URL(), nil)),
				"etag": second(box.NewBlobClient("no").CopyFromURL(ctx, signed, &blob.CopyFromURLOptions{
					SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{
						SourceIfMatch: to.Ptr(azcore.ETag(`"0x1"`))}})),
				"tags": second(box.NewBlockBlobClient("no").UploadBlobFromURL(ctx, signed,
					&blockblob.UploadBlobFromURLOptions{SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{
						SourceIfTags: to.Ptr(`"a"='c'`)}})),
			} {
				if err == nil {
					t.Errorf("%s: copied", what)
				}
			}
			if _, err := box.NewBlobClient("no").GetProperties(ctx, nil); err == nil {
				t.Error("a refused copy has made a blob")
			}
		})
	}
}

// second is the error of a call with a result.
func second[A any](_ A, err error) error { return err }

// The files of a shard are in its folder, and those of shard 0 where a server without shards has its files.
func TestFilesOfShards(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s, _ := startShards(t, Config{Location: path, Shards: 2, Relaxed: true})
	check.OK(t, s.Stop(t.Context()))
	for _, name := range []string{"tables.db", "blobs.db", "queues.db", "extents", "shards/01/tables.db",
		"shards/01/blobs.db", "shards/01/queues.db", "shards/01/extents",
		"queues/jetstream/$G/streams/LAZULI_LOG_queues", "queues/jetstream/$G/streams/LAZULI_LOG_queues-s01"} {
		if !exists(filepath.Join(path, filepath.FromSlash(name))) {
			t.Errorf("%s is missing", name)
		}
	}
}

// Snapshots have all shards, and a file of a shard that is missing is a loss, not an empty shard.
func TestStateOfShards(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s, tenants := startShards(t, Config{Location: path, Shards: 4, Relaxed: true})
	for _, x := range tenants {
		x.fill(t, "first")
	}
	check.OK(t, s.Save(t.Context(), "a", false))
	for _, x := range tenants {
		x.fill(t, "second")
	}
	deleted := check.Must(s.Reset(t.Context(), Scope{Prefix: "first"}))(t)
	if deleted[wire.Blob] != len(tenants) || deleted[wire.Queue] != len(tenants) || deleted[wire.Table] != len(tenants) {
		t.Errorf("deleted %v", deleted)
	}
	check.OK(t, s.Restore(t.Context(), "a"))
	for name, x := range tenants {
		if first, later := x.has(t, "first"), x.has(t, "second"); first != "bqt" || later != "" {
			t.Errorf("%s has %q of before the snapshot, and %q of later", name, first, later)
		}
	}
	check.OK(t, s.Stop(t.Context()))
	for _, name := range []string{"tables.db", "blobs.db", "queues.db"} {
		file := filepath.Join(path, "shards", "02", name)
		check.OK(t, os.Rename(file, file+".away"))
		_, err := Start(Config{Location: path, Log: slog.New(slog.DiscardHandler)})
		var content *datadir.ContentError
		if !errors.As(err, &content) || !strings.Contains(err.Error(), "shards/02/"+name) {
			t.Errorf("without %s: %v", name, err)
		}
		check.OK(t, os.Rename(file+".away", file))
	}
}

// The events of all services of an account are delivered, wherever its shards are, and after a restart as well. The
// logs of Storage Analytics are written for each account.
func TestEventsOfShards(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := Config{Location: t.TempDir(), Shards: 4, Relaxed: true, Events: true}
	s, tenants := startShards(t, c)
	on := true
	for name, x := range tenants {
		x.fill(t, "things")
		check.Must(x.queues.CreateQueue(ctx, "events", nil))(t)
		check.Must(s.Events().Add(ctx, events.Subscription{Name: "all", Account: name, EndpointType: events.StorageQueue,
			Endpoint: "events", IncludedEventTypes: []string{changes.MessagePut, changes.EntityInserted,
				"Microsoft.Storage.BlobCreated"}}))(t)
		check.Must(x.queues.SetProperties(ctx, &azqueue.SetPropertiesOptions{Logging: &azqueue.Logging{
			Version: to.Ptr("1.0"), Read: to.Ptr(false), Write: &on, Delete: &on,
			RetentionPolicy: &azqueue.RetentionPolicy{Enabled: to.Ptr(false)}}}))(t)
	}
	for round := 1; round <= 2; round++ {
		for name, x := range tenants {
			check.Must(x.queues.NewQueueClient("things").EnqueueMessage(ctx, name, nil))(t)
			check.Must(x.tables.NewClient("things").UpsertEntity(ctx,
				fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"new%d"}`, round), nil))(t)
			check.Must(x.blobs.UploadBuffer(ctx, "things", "other", []byte("x"), nil))(t)
		}
		check.Must(s.Events().Flush(ctx))(t)
		for name, x := range tenants {
			p := check.Must(x.queues.NewQueueClient("events").GetProperties(ctx, nil))(t)
			if n := int(*p.ApproximateMessagesCount); n != 3*round {
				t.Errorf("round %d: %s has %d events, want %d", round, name, n, 3*round)
			}
		}
		check.OK(t, s.Stop(ctx))
		c.Shards = 0
		s, tenants = startShards(t, c)
		if list := s.Events().List(); len(list) != len(tenants) {
			t.Errorf("%d subscriptions after a restart", len(list))
		}
	}
	for name, x := range tenants {
		page := check.Must(x.blobs.NewListBlobsFlatPager("$logs", nil).NextPage(ctx))(t)
		if len(page.Segment.BlobItems) == 0 {
			t.Errorf("%s has no logs", name)
		}
	}
}

// Accounts that are added while the server runs are found with any number of shards, and are deleted with what they
// have in all of them.
func TestAddedAccountsOfShards(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := startManaged(t, Config{Location: path, Shards: 4, Relaxed: true, AccountGrace: time.Millisecond})
	tenants := map[string]*tenant{}
	for i := range 8 {
		name := fmt.Sprintf("new%02d", i)
		keys := check.Must(s.AccountManager().Add(name, []string{otherKey}, nil))(t)
		tenants[name] = newTenant(t, s.ConnectionStringOf(name, keys[0]))
		tenants[name].fill(t, "things")
	}
	// What is left of an account in one shard keeps it from being removed.
	x := tenants["new00"]
	check.Must(x.blobs.DeleteContainer(t.Context(), "things", nil))(t)
	check.Must(x.queues.DeleteQueue(t.Context(), "things", nil))(t)
	if err := s.AccountManager().Remove("new00", false); !errors.Is(err, accounts.ErrHasData) {
		t.Errorf("an account with a table is removed: %v", err)
	}
	for name := range tenants {
		if name != "new01" {
			check.OK(t, s.AccountManager().Remove(name, true))
		}
	}
	check.Eventually(t, func() bool {
		check.OK(t, s.AccountManager().End(t.Context()))
		list, _, err := s.AccountManager().List("new", "", 100)
		check.OK(t, err)
		return len(list) == 1
	}, "accounts are left")
	check.OK(t, s.Stop(t.Context()))
	s = startManaged(t, Config{Location: path, Relaxed: true})
	for name := range tenants {
		want := ""
		if name == "new01" {
			want = "bqt"
		} else {
			check.Must(s.AccountManager().Add(name, []string{otherKey}, nil))(t)
		}
		if got := newTenant(t, s.ConnectionStringOf(name, otherKey)).has(t, "things"); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}
