package azurite_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/azurite"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
)

// present is the time at which the tests take place: while the stored messages that expire have not, and after folders
// of this run were written.
func present() time.Time {
	if newFolders() != "" {
		return time.Now()
	}
	return time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
}

func serve(t *testing.T, location string) azurite.Account {
	t.Helper()
	s, err := server.Start(server.Config{Location: location, Now: present, ClientsNow: time.Now,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	a, err := azurite.InProcess(s, "devstoreaccount1")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestImport(t *testing.T) {
	t.Parallel()
	for _, source := range testFolders(t) {
		t.Run(filepath.Base(source), func(t *testing.T) {
			t.Parallel()
			location := filepath.Join(t.TempDir(), "data")
			result := importFolder(t, source, location)
			want := azurite.Result{Containers: 3, Blobs: 9, Snapshots: 3, Uncommitted: 3, Queues: 2, Messages: 5, Expired: 1,
				Tables: 2, Entities: 4}
			if d := cmp.Diff(want, result); d != "" {
				t.Errorf("result (-want +got):\n%s", d)
			}
			report, err := fsck.Check(t.Context(), location, fsck.Options{})
			if err != nil || len(report.Findings) > 0 {
				t.Errorf("fsck: %v, %v", report, err)
			}
			var w written
			text, err := os.ReadFile(filepath.Join(source, "written.json"))
			if err == nil {
				err = json.Unmarshal(text, &w)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkAccount(t, serve(t, location), w, true)
		})
	}
}

// An import through the protocol alone writes the same, but for times.
func TestImportWithoutClock(t *testing.T) {
	t.Parallel()
	f, err := azurite.Open(testFolders(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	a := serve(t, filepath.Join(t.TempDir(), "data"))
	o := azurite.Options{Targets: map[string]azurite.Account{"devstoreaccount1": a},
		Now: present}
	if r, err := f.Import(t.Context(), o); err != nil || r.Missing != nil || r.Blobs != 9 {
		t.Fatalf("%+v, %v", r, err)
	}
	checkAccount(t, a, written{}, false)

	if _, err := f.Import(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it exists in the account") {
		t.Errorf("a second import: %v", err)
	}
}

func importFolder(t *testing.T, source, location string) azurite.Result {
	t.Helper()
	f, err := azurite.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.IntoFolder(t.Context(), location,
		azurite.FolderOptions{Log: slog.New(slog.DiscardHandler), Now: present})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// must returns v, and ends the test if there is an error.
func must[V any](v V, err error) func(t *testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func checkAccount(t *testing.T, a azurite.Account, w written, times bool) {
	t.Helper()
	t.Run("containers", func(t *testing.T) { checkContainers(t, a, w, times) })
	t.Run("blobs", func(t *testing.T) { checkBlobs(t, a, w, times) })
	t.Run("snapshots", func(t *testing.T) { checkSnapshots(t, a, w, times) })
	t.Run("uncommitted", func(t *testing.T) { checkUncommitted(t, a) })
	t.Run("queues", func(t *testing.T) { checkQueues(t, a, w, times) })
	t.Run("tables", func(t *testing.T) { checkTables(t, a, w, times) })
	t.Run("properties", func(t *testing.T) { checkProperties(t, a) })
}

func values(m map[string]*string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[strings.ToLower(k)] = *v
	}
	return out
}

func checkContainers(t *testing.T, a azurite.Account, w written, times bool) {
	box := a.Blobs.ServiceClient().NewContainerClient("box")
	p := must(box.GetProperties(t.Context(), nil))(t)
	if d := cmp.Diff(map[string]string{"purpose": "everything"}, values(p.Metadata)); d != "" ||
		p.BlobPublicAccess == nil || *p.BlobPublicAccess != container.PublicAccessTypeBlob {
		t.Errorf("metadata %s, public access %v", d, p.BlobPublicAccess)
	}
	if times && !p.LastModified.Equal(w.Modified["box"]) {
		t.Errorf("Last-Modified %v, want %v", p.LastModified, w.Modified["box"])
	}
	acl := must(box.GetAccessPolicy(t.Context(), nil))(t)
	if len(acl.SignedIdentifiers) != 1 || *acl.SignedIdentifiers[0].ID != "readers" ||
		*acl.SignedIdentifiers[0].AccessPolicy.Permission != "rl" ||
		acl.SignedIdentifiers[0].AccessPolicy.Expiry.Year() != 2036 {
		t.Errorf("access policies: %+v", acl.SignedIdentifiers)
	}
	var names []string
	for pager := a.Blobs.NewListContainersPager(nil); pager.More(); {
		for _, c := range must(pager.NextPage(t.Context()))(t).ContainerItems {
			names = append(names, *c.Name)
		}
	}
	if want := []string{"$web", "box", "empty"}; !slices.Equal(names, want) {
		t.Errorf("containers %v, want %v", names, want)
	}
}

// download returns the content of a blob, or of a snapshot.
func download(t *testing.T, c *blob.Client) string {
	t.Helper()
	r := must(c.DownloadStream(t.Context(), nil))(t)
	defer r.Body.Close()
	return string(must(io.ReadAll(r.Body))(t))
}

func checkBlobs(t *testing.T, a azurite.Account, w written, times bool) {
	box := a.Blobs.ServiceClient().NewContainerClient("box")
	pages := make([]byte, 64<<10)
	copy(pages[8192:], block("range", 512))
	copy(pages[8704:], block("later", 512))
	copy(pages[32768:], block("end", 4096))
	for _, tc := range []struct {
		name, content string
		kind          blob.BlobType
	}{
		{"small.txt", "a small text", blob.BlobTypeBlockBlob}, {"overwritten.txt", "the third text", blob.BlobTypeBlockBlob},
		{"blocks.bin", string(slices.Concat(block("last", 10), block("first", 3000), block("2nd", 2000))),
			blob.BlobTypeBlockBlob},
		{"pages.bin", string(pages), blob.BlobTypePageBlob}, {"events.log", "one\ntwo\nthree\n", blob.BlobTypeAppendBlob},
		{"empty.bin", "", blob.BlobTypeBlockBlob}, {oddName, "a name", blob.BlobTypeBlockBlob},
		{"leased.txt", "held", blob.BlobTypeBlockBlob},
	} {
		c := box.NewBlobClient(tc.name)
		if got := download(t, c); got != tc.content {
			t.Errorf("%s: content %.60q, want %.60q", tc.name, got, tc.content)
		}
		p := must(c.GetProperties(t.Context(), nil))(t)
		if *p.BlobType != tc.kind {
			t.Errorf("%s is a %s", tc.name, *p.BlobType)
		}
		if want := w.Modified["box/"+tc.name]; times && !want.IsZero() && !p.LastModified.Equal(want) {
			t.Errorf("%s: Last-Modified %v, want %v", tc.name, p.LastModified, want)
		}
		// Azurite gives a blob that is overwritten a new creation time.
		if want := w.Created["box/"+tc.name]; times && !want.IsZero() && tc.name != "overwritten.txt" &&
			!p.CreationTime.Equal(want) {
			t.Errorf("%s: creation time %v, want %v", tc.name, p.CreationTime, want)
		}
	}

	p := must(box.NewBlobClient("small.txt").GetProperties(t.Context(), nil))(t)
	got := []string{*p.ContentType, *p.ContentEncoding, *p.ContentLanguage, *p.ContentDisposition, *p.CacheControl,
		*p.AccessTier}
	if want := []string{"text/plain; charset=utf-8", "identity", "en", "attachment", "no-cache",
		"Cool"}; !slices.Equal(got, want) {
		t.Errorf("headers %q, want %q", got, want)
	}
	if d := cmp.Diff(map[string]string{"owner": "ada", "stage": "draft 2"}, values(p.Metadata)); d != "" {
		t.Errorf("metadata: %s", d)
	}
	if len(p.ContentMD5) != 16 {
		t.Errorf("Content-MD5 %x", p.ContentMD5)
	}
	tags := must(box.NewBlobClient("small.txt").GetTags(t.Context(), nil))(t)
	if len(tags.BlobTagSet) != 2 || *tags.BlobTagSet[0].Value+*tags.BlobTagSet[1].Value != "north2026" {
		t.Errorf("tags %+v", tags.BlobTagSet)
	}
	if p := must(box.NewBlobClient("pages.bin").GetProperties(t.Context(), nil))(t); *p.BlobSequenceNumber != 7 {
		t.Errorf("sequence number %d", *p.BlobSequenceNumber)
	}
	if got := ranges(t, box.NewPageBlobClient("pages.bin")); got != "[8192 9215][32768 36863]" {
		t.Errorf("page ranges %s", got)
	}
	if p := must(box.NewBlobClient("events.log").GetProperties(t.Context(), nil))(t); *p.BlobCommittedBlockCount != 3 ||
		values(p.Metadata)["owner"] != "ada" {
		t.Errorf("append blob: %d blocks, metadata %v", *p.BlobCommittedBlockCount, values(p.Metadata))
	}
	leased := box.NewBlobClient("leased.txt")
	if _, err := leased.Delete(t.Context(), nil); err == nil {
		t.Error("the lease of leased.txt does not protect it")
	}
	o :=
		&blob.SetMetadataOptions{AccessConditions: &blob.AccessConditions{
			LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: to.Ptr(infiniteLease)}}}
	if _, err := leased.SetMetadata(t.Context(), nil, o); err != nil {
		t.Errorf("with the lease: %v", err)
	}
}

// ranges returns the page ranges as text.
func ranges(t *testing.T, c *pageblob.Client) string {
	t.Helper()
	text := ""
	for pager := c.NewGetPageRangesPager(nil); pager.More(); {
		for _, r := range must(pager.NextPage(t.Context()))(t).PageRange {
			text += fmt.Sprintf("[%d %d]", *r.Start, *r.End)
		}
	}
	return text
}

func checkSnapshots(t *testing.T, a azurite.Account, w written, times bool) {
	box := a.Blobs.ServiceClient().NewContainerClient("box")
	list := map[string][]*container.BlobItem{}
	for pager := box.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Snapshots: true,
			Metadata: true}}); pager.More(); {
		for _, b := range must(pager.NextPage(t.Context()))(t).Segment.BlobItems {
			if b.Snapshot != nil && *b.Snapshot != "" {
				list[*b.Name] = append(list[*b.Name], b)
			}
		}
	}
	over := list["overwritten.txt"]
	if len(over) != 2 || len(list) != 2 {
		t.Fatalf("snapshots: %v", list)
	}
	for i, want := range []struct{ content, of, owner string }{{"the first text", "", ""},
		{"the second text", "the snapshot", ""}} {
		c := must(box.NewBlobClient("overwritten.txt").WithSnapshot(*over[i].Snapshot))(t)
		if got := download(t, c); got != want.content {
			t.Errorf("snapshot %d: %q, want %q", i, got, want.content)
		}
		if m := values(over[i].Metadata); m["of"] != want.of || m["owner"] != want.owner {
			t.Errorf("snapshot %d: metadata %v", i, m)
		}
		if times && *over[i].Snapshot != w.Snapshots[i] {
			t.Errorf("snapshot %d is %s, want %s", i, *over[i].Snapshot, w.Snapshots[i])
		}
	}
	pages := list["pages.bin"]
	if len(pages) != 1 || times && *pages[0].Snapshot != w.PageSnapshots[0] {
		t.Fatalf("snapshots of the page blob: %v, want %v", pages, w.PageSnapshots)
	}
	if got := ranges(t, must(box.NewPageBlobClient("pages.bin").WithSnapshot(*pages[0].Snapshot))(
		t)); got != "[0 511][8192 9215]" {
		t.Errorf("page ranges of the snapshot: %s", got)
	}
}

func checkUncommitted(t *testing.T, a azurite.Account) {
	box := a.Blobs.ServiceClient().NewContainerClient("box")
	for name, want := range map[string]string{"blocks.bin": "block-003=700 ",
		"uncommitted.bin": "block-000=900 block-001=400 "} {
		c, got := box.NewBlockBlobClient(name), ""
		for _, b := range must(c.GetBlockList(t.Context(), blockblob.BlockListTypeUncommitted, nil))(t).UncommittedBlocks {
			got += fmt.Sprintf("%s=%d ", unbase64(*b.Name), *b.Size)
		}
		if got != want {
			t.Errorf("%s: uncommitted blocks %q, want %q", name, got, want)
		}
	}
	c := box.NewBlockBlobClient("uncommitted.bin")
	if _, err := c.CommitBlockList(t.Context(), []string{blockID(0), blockID(1)}, nil); err != nil {
		t.Fatal(err)
	}
	if got := download(t, c.BlobClient()); got != string(slices.Concat(block("waits", 900), block("also", 400))) {
		t.Errorf("the committed blocks are %.40q", got)
	}
}

func checkQueues(t *testing.T, a azurite.Account, w written, times bool) {
	orders := a.Queues.NewQueueClient("orders")
	p := must(orders.GetProperties(t.Context(), nil))(t)
	if m := values(p.Metadata); m["owner"] != "sales" || *p.ApproximateMessagesCount != 5 {
		t.Errorf("metadata %v, %d messages", m, *p.ApproximateMessagesCount)
	}
	acl := must(orders.GetAccessPolicy(t.Context(), nil))(t)
	if len(acl.SignedIdentifiers) != 1 || *acl.SignedIdentifiers[0].ID != "senders" ||
		*acl.SignedIdentifiers[0].AccessPolicy.Permission != "a" {
		t.Errorf("access policies: %+v", acl.SignedIdentifiers)
	}
	var texts []string
	for _, m := range must(orders.DequeueMessages(t.Context(),
		&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr[int32](32)}))(t).Messages {
		texts = append(texts, *m.MessageText)
		if want := w.Messages[*m.MessageText]; times &&
			(!m.InsertionTime.Equal(want.Inserted) || want.Expires.Year() < 9000 && !m.ExpirationTime.Equal(want.Expires)) {
			t.Errorf("%.20q: put %v, expires %v, want %v", *m.MessageText, m.InsertionTime, m.ExpirationTime, want)
		}
	}
	slices.Sort(texts)
	if want := []string{longText, "expires in twenty years", "second <&> Grüße \U0001F600",
		"updated"}; !slices.Equal(texts, want) {
		t.Errorf("messages %.30q, want %.30q", texts, want)
	}
	must(a.Queues.NewQueueClient("idle").GetProperties(t.Context(), nil))(t)
}

func checkTables(t *testing.T, a azurite.Account, w written, times bool) {
	things := a.Tables.NewClient("Things")
	acl := must(things.GetAccessPolicy(t.Context(), nil))(t)
	if len(acl.SignedIdentifiers) != 1 || *acl.SignedIdentifiers[0].ID != "readers" {
		t.Errorf("access policies: %+v", acl.SignedIdentifiers)
	}
	entities, stamps := map[string]map[string]any{}, map[string]time.Time{}
	for pager := things.NewListEntitiesPager(nil); pager.More(); {
		for _, text := range must(pager.NextPage(t.Context()))(t).Entities {
			var e map[string]any
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			row := e["RowKey"].(string)
			stamps[row] = must(time.Parse(time.RFC3339Nano, e["Timestamp"].(string)))(t)
			maps.DeleteFunc(e, func(name string, _ any) bool {
				return strings.HasPrefix(name, "odata.") || strings.HasPrefix(name, "Timestamp")
			})
			entities[row] = e
		}
	}
	want := map[string]map[string]any{}
	for _, text := range []string{entityTypes, `{"PartitionKey":"p","RowKey":"plain","n":4,"more":"merged"}`,
		`{"PartitionKey":"O'Neil","RowKey":"a b","n":2}`, `{"PartitionKey":"","RowKey":"","n":3}`} {
		var e map[string]any
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		want[e["RowKey"].(string)] = e
	}
	delete(want["types"], "whole@odata.type") // the service sends 3.0 as it is
	delete(want["types"], "nan@odata.type")
	for _, e := range entities {
		for name := range e {
			if e[name] == "Edm.Double" {
				delete(e, name)
			}
		}
	}
	if d := cmp.Diff(want, entities); d != "" {
		t.Errorf("entities (-want +got):\n%s", d)
	}
	if times {
		if d := cmp.Diff(w.Timestamps, stamps); d != "" {
			t.Errorf("timestamps (-want +got):\n%s", d)
		}
	}
	if must(a.Tables.NewClient("Bare").NewListEntitiesPager(nil).NextPage(t.Context()))(t).Entities != nil {
		t.Error("the empty table has entities")
	}
}

func checkProperties(t *testing.T, a azurite.Account) {
	p := must(a.Blobs.ServiceClient().GetProperties(t.Context(), nil))(t)
	if len(p.CORS) != 1 || *p.CORS[0].AllowedOrigins != "https://example.org" || *p.CORS[0].MaxAgeInSeconds != 300 ||
		p.DefaultServiceVersion == nil ||
		*p.DefaultServiceVersion != "2019-12-12" || !*p.StaticWebsite.Enabled ||
		*p.StaticWebsite.ErrorDocument404Path != "404.html" {
		t.Errorf("properties %+v", p)
	}
}

func unbase64(text string) string {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Content that is missing or cut off is reported, and everything else is imported.
func TestDamagedFolder(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "azurite")
	if err := os.CopyFS(source, os.DirFS(testFolders(t)[0])); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(source, "__blobstorage__", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 30); err != nil {
		t.Fatal(err)
	}
	location := filepath.Join(t.TempDir(), "data")
	r := importFolder(t, source, location)
	if len(r.Missing) < 5 || r.Blobs != 3 || r.Entities != 4 || r.Messages != 5 ||
		!strings.Contains(strings.Join(r.Missing, "\n"), "blob box/blocks.bin: ") {
		t.Errorf("%+v", r)
	}
	a := serve(t, location)
	if got := download(t, a.Blobs.ServiceClient().NewContainerClient("box").NewBlobClient(
		"small.txt")); got != "a small text" {
		t.Errorf("small.txt is %q", got)
	}
	_, err = a.Blobs.ServiceClient().NewContainerClient("box").NewBlobClient("leased.txt").GetProperties(t.Context(), nil)
	if err == nil {
		t.Error("a blob whose content is missing was imported")
	}

	table := filepath.Join(source, "__azurite_db_table__.json")
	text := must(os.ReadFile(table))(t)
	for _, cut := range []int{0, 1, len(text) / 2, len(text) - 1} {
		if err := os.WriteFile(table, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := azurite.Open(source); err == nil || !strings.Contains(err.Error(), "__azurite_db_table__.json: ") {
			t.Errorf("a file cut off at byte %d: %v", cut, err)
		}
	}
}

// A folder of a stranger has links that lead out of it.
func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "azurite")
	if err := os.CopyFS(source, os.DirFS(testFolders(t)[0])); err != nil {
		t.Fatal(err)
	}
	link := func(name string) {
		t.Helper()
		outside := filepath.Join(t.TempDir(), "outside")
		if err := errors.Join(os.Rename(name, outside), os.Symlink(outside, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(must(filepath.Glob(filepath.Join(source, "__blobstorage__", "*")))(t)[0])
	r := importFolder(t, source, filepath.Join(t.TempDir(), "data"))
	if r.Blobs != 1 || !strings.Contains(strings.Join(r.Missing, "\n"), "path escapes from parent") {
		t.Errorf("%+v", r)
	}
	link(filepath.Join(source, "__azurite_db_table__.json"))
	if _, err := azurite.Open(source); err == nil || !strings.Contains(err.Error(), "__azurite_db_table__.json: ") {
		t.Error(err)
	}
}

// An extent's name cannot leave the folder of extents.
func TestExtentNames(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "azurite")
	if err := os.CopyFS(source, os.DirFS(testFolders(t)[0])); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(source, "__azurite_db_blob_extent__.json")
	text := strings.Replace(string(must(os.ReadFile(name))(t)), `"path":"`, `"path":"../`, 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := importFolder(t, source, filepath.Join(t.TempDir(), "data"))
	if r.Blobs != 1 || !strings.Contains(strings.Join(r.Missing, "\n"), `the extent's file has the name "../`) {
		t.Errorf("%+v", r)
	}
}

func TestFolderOfAzuriteIsItsDataFolder(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "azurite")
	if err := os.CopyFS(source, os.DirFS(testFolders(t)[0])); err != nil {
		t.Fatal(err)
	}
	if err := azurite.Check(source, source); err == nil ||
		!strings.Contains(err.Error(), "lazuli import --azurite "+source) {
		t.Errorf("before: %v", err)
	}
	// An import that was killed leaves its stage, which the next one replaces.
	if err := os.MkdirAll(filepath.Join(source, "lazuli-import", "tables.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	importFolder(t, source, source)
	if err := azurite.Check(source, source); err != nil {
		t.Errorf("after: %v", err)
	}
	if !azurite.Is(source) {
		t.Error("Azurite's files are gone")
	}
	f := must(azurite.Open(source))(t)
	if _, err := f.IntoFolder(t.Context(), source, azurite.FolderOptions{}); !errors.Is(err, azurite.ErrNotEmpty) {
		t.Errorf("a second import: %v", err)
	}
	checkTables(t, serve(t, source), written{}, false)
}

func TestCheckFindsImportThatHasNotEnded(t *testing.T) {
	t.Parallel()
	location := t.TempDir()
	if err := azurite.Check(location, location); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(location, "lazuli-import"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := azurite.Check(location, location); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Error(err)
	}
}
