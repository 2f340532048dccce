package seed_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/seed"
)

const file = `
tables:
  people:
    - {PartitionKey: smith, RowKey: "1", Name: Jane, Age: 41, Steps: 12345678901, Height: 2.0, Member: true, Gone: null,
       Born: "1984-05-01T00:00:00Z", Born@odata.type: Edm.DateTime, Points: 7, Points@odata.type: Edm.Int64}
  empty: []
queues:
  orders: [first, {text: '{"id":2}', base64: true}, {text: later, visibilityTimeout: 1h, timeToLive: 2h}]
  described: {metadata: {team: shop}}
containers:
  photos:
    publicAccess: blob
    metadata: {origin: seed}
    blobs:
      a/b.txt: hello
      data.bin: {base64: AAEC, contentType: application/x-data, tags: {kind: data}}
      from.txt: {file: from.txt, metadata: {k: v}}
`

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, text string) (*seed.Seed, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seed.yaml")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	check(t, os.WriteFile(filepath.Join(filepath.Dir(path), "from.txt"), []byte("from a file"), 0o600))
	return seed.Load(path, auth.DevelopmentAccount)
}

func TestApply(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := server.Start(server.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop(t.Context())) })
	filled, err := load(t, file)
	check(t, err)
	target := seed.Target{URL: s.InProcessURL, Transport: s.InProcess()}
	check(t, filled.Apply(ctx, target))

	tables, err := aztables.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
	check(t, err)
	people := tables.NewClient("people")
	entity, err := people.GetEntity(ctx, "smith", "1",
		&aztables.GetEntityOptions{Format: to.Ptr(aztables.MetadataFormatFull)})
	check(t, err)
	for _, part := range []string{`"Name":"Jane"`, `"Age":41`, `"Steps":"12345678901","Steps@odata.type":"Edm.Int64"`,
		`"Height":2`, `"Member":true`,
		`"Born":"1984-05-01T00:00:00Z","Born@odata.type":"Edm.DateTime"`, `"Points":"7","Points@odata.type":"Edm.Int64"`} {
		if !strings.Contains(string(entity.Value), part) {
			t.Errorf("the entity lacks %s: %s", part, entity.Value)
		}
	}
	// a Double, not an Int32
	tall, err := people.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: to.Ptr("Height eq 2.0")}).NextPage(ctx)
	check(t, err)
	if len(tall.Entities) != 1 {
		t.Error("the height is no double")
	}
	queues, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
	check(t, err)
	orders := queues.NewQueueClient("orders")
	messages, err := orders.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
	check(t, err)
	if len(messages.Messages) != 2 || *messages.Messages[0].MessageText != "first" ||
		*messages.Messages[1].MessageText != "eyJpZCI6Mn0=" {
		t.Errorf("%d messages are visible, want first and a base64 one", len(messages.Messages))
	}
	blobs, err := azblob.NewClientFromConnectionString(s.ConnectionString(), nil)
	check(t, err)
	for name, want := range map[string]string{"a/b.txt": "hello", "data.bin": "\x00\x01\x02", "from.txt": "from a file"} {
		resp, err := blobs.DownloadStream(ctx, "photos", name, nil)
		check(t, err)
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v; want %q", name, text, err, want)
		}
	}
	props, err := blobs.ServiceClient().NewContainerClient("photos").GetProperties(ctx, nil)
	check(t, err)
	if props.BlobPublicAccess == nil || *props.BlobPublicAccess != "blob" || *props.Metadata["Origin"] != "seed" {
		t.Errorf("container has %v, %v", props.BlobPublicAccess, props.Metadata)
	}
	data := blobs.ServiceClient().NewContainerClient("photos").NewBlobClient("data.bin")
	if p, err := data.GetProperties(ctx, nil); err != nil || *p.ContentType != "application/x-data" || *p.TagCount != 1 {
		t.Errorf("data.bin: %v", err)
	}

	// Again: what was changed and consumed since stays so, and what is missing comes back.
	_, err = people.UpdateEntity(ctx, []byte(`{"PartitionKey":"smith","RowKey":"1","Name":"Joan"}`), nil)
	check(t, err)
	_, err = orders.ClearMessages(ctx, nil)
	check(t, err)
	_, err = blobs.DeleteBlob(ctx, "photos", "a/b.txt", &blob.DeleteOptions{})
	check(t, err)
	check(t, filled.Apply(ctx, target))
	entity, err = people.GetEntity(ctx, "smith", "1", nil)
	check(t, err)
	if !strings.Contains(string(entity.Value), "Joan") {
		t.Errorf("a change was taken back: %s", entity.Value)
	}
	if messages, err = orders.PeekMessages(ctx, nil); err != nil || len(messages.Messages) != 0 {
		t.Errorf("messages were put again: %d, %v", len(messages.Messages), err)
	}
	if _, err := blobs.DownloadStream(ctx, "photos", "a/b.txt", nil); err != nil {
		t.Errorf("a missing blob was not made again: %v", err)
	}
}

func TestLoadRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":      {"tabels: {}", "tabels"},
		"unknown blob key": {"containers: {c1c: {blobs: {b: {txt: x}}}}", "txt"},
		"not YAML":         {"tables: [", "seed.yaml"},
		"number as key": {"tables: {t: [{PartitionKey: 1, RowKey: r}]}",
			"table t, entity 1: PartitionKey must be given, as text"},
		"no key":             {"tables: {t: [{PartitionKey: p}]}", "RowKey must be given"},
		"list as value":      {"tables: {t: [{PartitionKey: p, RowKey: r, V: [1]}]}", "V is neither"},
		"two contents":       {"containers: {c: {blobs: {b: {text: x, base64: AA==}}}}", "only one of"},
		"bad base64":         {"containers: {c: {blobs: {b: {base64: '!'}}}}", "base64 is not valid"},
		"no such file":       {"containers: {c: {blobs: {b: {file: nowhere.txt}}}}", "nowhere.txt does not exist"},
		"access":             {"containers: {c: {publicAccess: everybody}}", `publicAccess "everybody"`},
		"time":               {"queues: {q: [{text: x, visibilityTimeout: soon}]}", `visibilityTimeout "soon"`},
		"large message":      {"queues: {q: [" + strings.Repeat("x", 65<<10) + "]}", "at most 65536"},
		"an account, twice":  {"accounts: {devstoreaccount1: {tables: {a: []}}}\ntables: {b: []}", "given twice"},
		"unknown event key":  {"events: [{nam: x}]", "event subscription 1"},
		"a list of accounts": {"accounts: [devstoreaccount1]", "seed.yaml"},
	} {
		if _, err := load(t, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
	}
	s, err := load(t, "accounts: {one: {tables: {a: []}}, two: {}}")
	if err != nil || strings.Join(s.Accounts(), " ") != "one two" {
		t.Errorf("two accounts: %v", err)
	}
	if _, err := load(t, ""); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

// Directories and access control of an account with a hierarchical namespace; what exists keeps its own.
func TestApplyTree(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	key, err := auth.ParseKey(auth.DevelopmentKey)
	check(t, err)
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}})
	check(t, err)
	s, err := server.Start(server.Config{InMemory: true, Accounts: accounts, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop(t.Context())) })
	filled, err := load(t, `
containers:
  files:
    directories:
      /: {permissions: "0751"}
      raw: {acl: "user::rwx,group::r-x,other::---,default:user:ann:r-x,default:user::rwx,default:group::---,default:other::---"}
      raw/empty: {owner: ann, group: staff}
    blobs:
      raw/a.csv: "a,b"
      raw/b.csv: {text: "a,b", access: {owner: bob, permissions: "0640"}}
`)
	check(t, err)
	target := seed.Target{URL: s.InProcessURL, Transport: s.InProcess()}
	check(t, filled.Apply(ctx, target))
	settings, err := connstr.Parse(s.ConnectionString())
	check(t, err)
	lake, err := settings.Lake(connstr.Options{})
	check(t, err)
	want := func(path, owner, permissions, acl string) {
		t.Helper()
		a, err := laketool.GetAccess(ctx, lake, "files", path)
		check(t, err)
		if a.Owner != owner || a.Permissions != permissions || !strings.HasPrefix(a.ACL, acl) {
			t.Errorf("%s has %+v", path, a)
		}
	}
	want("", "$superuser", "rwxr-x--x", "")
	want("raw", "$superuser", "rwxr-x---+", "user::rwx,group::r-x,other::---,default:")
	want("raw/empty", "ann", "rwxr-x---+", "user::rwx,user:ann:r-x,")
	want("raw/a.csv", "$superuser", "rw-r-----+", "user::rw-,user:ann:r-x,")
	want("raw/b.csv", "bob", "rw-r-----+", "user::rw-,user:ann:r-x,")

	check(t, laketool.SetAccess(ctx, lake, "files", "raw/b.csv", laketool.Access{Owner: "eve"}))
	check(t, laketool.SetAccess(ctx, lake, "files", "", laketool.Access{Permissions: "0700"}))
	check(t, filled.Apply(ctx, target))
	want("raw/b.csv", "eve", "rw-r-----+", "")
	want("", "$superuser", "rwx------", "")

	wrong, err := load(t, "containers:\n  files:\n    directories:\n      new: {acl: nonsense}\n")
	check(t, err)
	if err := wrong.Apply(ctx, target); err == nil || !strings.Contains(err.Error(), "container files: directory new:") {
		t.Errorf("got %v", err)
	}
	if _, err := load(t, "containers:\n  files:\n    directories:\n      new: {acl: a, permissions: b}\n"); err == nil {
		t.Error("two ways to give permissions are accepted")
	}
}

// Access control in an account without a hierarchical namespace ends the start with the reason.
func TestTreeNeedsHierarchicalNamespace(t *testing.T) {
	t.Parallel()
	s, err := server.Start(server.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop(t.Context())) })
	filled, err := load(t, "containers:\n  files:\n    directories:\n      a: {owner: ann}\n")
	check(t, err)
	err = filled.Apply(t.Context(), seed.Target{URL: s.InProcessURL, Transport: s.InProcess()})
	if err == nil || !strings.Contains(err.Error(), "HierarchicalNamespaceNotEnabled") {
		t.Errorf("got %v", err)
	}
}
