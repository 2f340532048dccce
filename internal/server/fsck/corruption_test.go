package fsck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	must "github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestCorruption flips bits of every kind of file of a data folder, of one that was stopped and of one whose process
// was killed, and starts a server on it. The server must refuse to start, or answer an error, or answer what was
// written; and whatever it does not serve as written, fsck must find. LAZULI_CORRUPTIONS is the number of flips for
// each kind of file (default: a few).
func TestCorruption(t *testing.T) {
	t.Parallel()
	flips := 2
	if n, err := strconv.Atoi(os.Getenv("LAZULI_CORRUPTIONS")); err == nil {
		flips = n
	}
	c := makeCorpus(t, true, false)
	stopped, killed := c.stopped, c.killed
	patterns := []string{"tables.db", "tables.db-log?", "blobs.db", "blobs.db-log?", "extents/*.extent", "extents/*.open",
		"MANIFEST", "encryption-scopes.json"}
	found := map[string]bool{}
	for _, c := range []struct{ state, folder string }{{"stopped", stopped}, {"killed", killed}} {
		image := imageOf(t, c.folder)
		want := answers(t, image.write(t))
		for k, v := range want {
			if strings.HasPrefix(v, "error") {
				t.Fatalf("%s: %s answers %s without damage", c.state, k, v)
			}
		}
		for _, pattern := range patterns {
			files := image.match(t, pattern)
			if len(files) == 0 {
				continue
			}
			found[pattern] = true
			t.Run(c.state+"/"+strings.ReplaceAll(pattern, "/", ","), func(t *testing.T) {
				t.Parallel()
				outcomes := map[string]int{}
				rng := rand.New(rand.NewPCG(3, uint64(len(pattern)*len(c.state))))
				for range flips {
					file := files[rng.IntN(len(files))]
					damaged, at := image.flipOne(file, rng)
					outcomes[examineCorruption(t, damaged, file, at, want)]++
				}
				t.Logf("corruptions of %s: %v", pattern, outcomes)
			})
		}
	}
	for _, pattern := range patterns {
		if !found[pattern] {
			t.Errorf("no folder has a file %s", pattern)
		}
	}
}

// examineCorruption says what becomes of a damaged folder.
func examineCorruption(t *testing.T, damaged folderImage, file string, at int, want map[string]string) string {
	t.Helper()
	r, err := Check(t.Context(), damaged.write(t), Options{})
	found := err != nil || len(r.Findings) > 0
	got := answers(t, damaged.write(t))
	outcome := "as written"
	if got == nil {
		outcome = "refused"
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		switch {
		case got == nil || got[k] == want[k]:
		case strings.HasPrefix(got[k], "error"):
			outcome = "error at read"
		default:
			t.Errorf("%s, offset %d: %s is served as %.80q, and was written as %.80q", file, at, k, got[k], want[k])
			return "served wrong"
		}
	}
	if outcome != "as written" && !found {
		t.Errorf("%s, offset %d: %s, and fsck finds nothing", file, at, outcome)
		return "missed by fsck"
	}
	if outcome == "as written" && found {
		outcome = "as written, found by fsck"
	}
	return outcome
}

// folderImage is the content of a folder's files by their names.
type folderImage map[string]fileImage

// fileImage is the content of a file without the zeros at its end: most files are larger than what is in use.
type fileImage struct {
	used []byte
	size int64
}

func imageOf(t *testing.T, dir string) folderImage {
	t.Helper()
	image := folderImage{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		p, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		image[name] = fileImage{bytes.Clone(bytes.TrimRight(p, "\x00")), int64(len(p))}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// match returns the names of the files that match a pattern and are not empty, in order.
func (image folderImage) match(t *testing.T, pattern string) (names []string) {
	t.Helper()
	for name, f := range image {
		ok, err := filepath.Match(pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if ok && f.size > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// flipOne returns an image with a flipped bit in the part of a file that is in use, and the bit's offset in bytes.
func (image folderImage) flipOne(name string, rng *rand.Rand) (damaged folderImage, at int) {
	used := len(image[name].used)
	at = rng.IntN(max(used, 1))
	if strings.HasSuffix(name, ".db") && rng.IntN(3) == 0 {
		at = min(at/4096*4096+rng.IntN(64), used-1) // heads of pages
	}
	p := bytes.Clone(image[name].used)
	if used == 0 {
		p = []byte{0}
	}
	p[at] ^= 1 << rng.IntN(8)
	damaged = maps.Clone(image)
	damaged[name] = fileImage{p, image[name].size}
	return damaged, at
}

// write writes the files to a new folder.
func (image folderImage) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(must.MemoryDir(t), "data")
	for name, f := range image {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, f.used, 0o600)
		}
		if err == nil {
			err = os.Truncate(path, f.size)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type clients struct {
	queues *azqueue.ServiceClient
	tables *aztables.ServiceClient
	blobs  *azblob.Client
}

func connect(t *testing.T, s *server.Server) clients {
	t.Helper()
	once := azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	tableCred, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := aztables.NewServiceClientWithSharedKey(s.URL(wire.Table, auth.DevelopmentAccount), tableCred,
		&aztables.ClientOptions{ClientOptions: once})
	if err != nil {
		t.Fatal(err)
	}
	blobCred, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := azblob.NewClientWithSharedKeyCredential(s.URL(wire.Blob, auth.DevelopmentAccount), blobCred,
		&azblob.ClientOptions{ClientOptions: once})
	if err != nil {
		t.Fatal(err)
	}
	queueCred, err := azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := azqueue.NewServiceClientWithSharedKeyCredential(s.URL(wire.Queue, auth.DevelopmentAccount), queueCred,
		&azqueue.ClientOptions{ClientOptions: once})
	if err != nil {
		t.Fatal(err)
	}
	return clients{queues, tables, blobs}
}

// scoped are accounts with an encryption scope.
func scoped(t *testing.T) *auth.Accounts {
	t.Helper()
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Scopes: []string{"secret"}},
		*auth.Development().Get(auth.DevelopmentAccount))
	if err != nil {
		t.Fatal(err)
	}
	return accounts
}

// corpus are copies of a folder.
type corpus struct {
	// stopped is the folder after the orderly end of a server, and killed a copy taken while that ran, as a killed process
	// leaves it.
	stopped, killed string
	// stoppedBefore is a copy after an earlier orderly end, and killedBefore one that was taken while the server ran,
	// before its last writes.
	stoppedBefore, killedBefore string
}

// makeCorpus fills a folder with something of everything. large adds messages until their log has several files.
func makeCorpus(t *testing.T, relaxed, large bool) (all corpus) {
	t.Helper()
	all.stopped = filepath.Join(t.TempDir(), "data")
	start := func() *server.Server {
		t.Helper()
		s, err := server.Start(server.Config{Location: all.stopped, Relaxed: relaxed, Accounts: scoped(t)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ctx := t.Context()
	copied := func() string {
		t.Helper()
		to := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(to, os.DirFS(all.stopped)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	s := start()
	if _, err := connect(t, s).tables.CreateTable(ctx, "first", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, s).blobs.CreateContainer(ctx, "first", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, s).blobs.UploadBuffer(ctx, "first", "blob", make([]byte, 100_000), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	all.stoppedBefore = copied()
	s = start()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, s)
	_, err := c.queues.CreateQueue(ctx, "work", nil)
	must(err)
	for i := range 20 {
		_, err := c.queues.NewQueueClient("work").EnqueueMessage(ctx, fmt.Sprint("message ", i), nil)
		must(err)
	}
	if large {
		for i := range 300 {
			_, err := c.queues.NewQueueClient("work").EnqueueMessage(ctx, fmt.Sprint(i, strings.Repeat("x", 60_000)), nil)
			must(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	content := func(n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		return p
	}
	for _, table := range []string{"people", "places"} {
		_, err := c.tables.CreateTable(ctx, table, nil)
		must(err)
		for i := range 60 {
			_, err = c.tables.NewClient(table).AddEntity(ctx,
				fmt.Appendf(nil, `{"PartitionKey":"p%d","RowKey":"%d","Name":"%s"}`, i%3, i, strings.Repeat("x", i*9)), nil)
			must(err)
		}
	}
	_, err = c.blobs.CreateContainer(ctx, "pictures", nil)
	must(err)
	for i, n := range []int{0, 10, 4096, 4096, 30_000, 70_000, 300_000, 1_500_000} {
		_, err := c.blobs.UploadBuffer(ctx, "pictures", fmt.Sprint("blob", i), content(n),
			&azblob.UploadBufferOptions{Metadata: map[string]*string{"n": to.Ptr(fmt.Sprint(n))}})
		must(err)
	}
	_, err = c.blobs.UploadBuffer(ctx, "pictures", "sealed", content(5000),
		&azblob.UploadBufferOptions{CPKScopeInfo: &blob.CPKScopeInfo{EncryptionScope: to.Ptr("secret")}})
	must(err)
	all.killedBefore = copied()
	page := c.blobs.ServiceClient().NewContainerClient("pictures").NewPageBlobClient("pages")
	_, err = page.Create(ctx, 1<<20, nil)
	must(err)
	for _, at := range []int64{0, 65536, 100 * 512, 70 * 512} {
		_, err = page.UploadPages(ctx, readSeekCloser{bytes.NewReader(content(64 << 10))}, azblobRange(at, 64<<10), nil)
		must(err)
	}
	_, err = page.UploadPages(ctx, readSeekCloser{bytes.NewReader(content(512))}, azblobRange(1024, 512), nil)
	must(err)
	_, err = c.tables.NewClient("people").AddEntity(ctx, []byte(`{"PartitionKey":"p1","RowKey":"61"}`), nil)
	must(err)
	all.killed = copied()
	must(s.Stop(context.WithoutCancel(ctx)))
	return all
}

func azblobRange(offset, n int64) (r azblob.HTTPRange) {
	return azblob.HTTPRange{Offset: offset, Count: n}
}

type readSeekCloser struct{ io.ReadSeeker }

func (readSeekCloser) Close() error { return nil }

// answers starts a server and asks for everything, in every way. It returns nil if the server does not start.
func answers(t *testing.T, dir string) map[string]string {
	t.Helper()
	defer os.RemoveAll(filepath.Dir(dir))
	s, err := server.Start(server.Config{Location: dir, Relaxed: true, Accounts: scoped(t),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil
	}
	defer func() { _ = s.Stop(context.WithoutCancel(t.Context())) }()
	ctx := t.Context()
	c := connect(t, s)
	got := map[string]string{}
	note := func(key string, err error, value string) {
		var response *azcore.ResponseError
		switch {
		case err == nil:
			got[key] = strings.ReplaceAll(value, s.URL(wire.Table, auth.DevelopmentAccount), "") // another port each time
		case errors.As(err, &response) && response.StatusCode < http.StatusInternalServerError:
			got[key] = response.ErrorCode
		default:
			got[key] = "error: " + err.Error()
		}
	}
	pager := c.tables.NewListTablesPager(nil)
	var tables []string
	for err == nil && pager.More() {
		var p aztables.ListTablesResponse
		if p, err = pager.NextPage(ctx); err == nil {
			for _, x := range p.Tables {
				tables = append(tables, *x.Name)
			}
		}
	}
	note("tables", err, fmt.Sprint(tables))
	for _, table := range []string{"people", "places"} {
		client := c.tables.NewClient(table)
		var all []string
		pager := client.NewListEntitiesPager(nil)
		var err error
		for err == nil && pager.More() {
			var p aztables.ListEntitiesResponse
			if p, err = pager.NextPage(ctx); err == nil {
				for _, e := range p.Entities {
					all = append(all, string(e))
				}
			}
		}
		note("query "+table, err, strings.Join(all, "\n"))
		for i := range 62 {
			r, err := client.GetEntity(ctx, fmt.Sprint("p", i%3), fmt.Sprint(i), nil)
			note(fmt.Sprintf("entity %s %d", table, i), err, string(r.Value))
		}
	}
	peeked, err := c.queues.NewQueueClient("work").PeekMessages(ctx,
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
	var texts []string
	for _, m := range peeked.Messages {
		texts = append(texts, *m.MessageText)
	}
	count, propErr := c.queues.NewQueueClient("work").GetProperties(ctx, nil)
	if err = errors.Join(err, propErr); err == nil {
		texts = append(texts, fmt.Sprint(*count.ApproximateMessagesCount))
	}
	if d, _ := s.Damage(); d.MessagesSetAside > 0 && err == nil {
		err = fmt.Errorf("%d messages are set aside", d.MessagesSetAside)
	}
	note("messages", err, fmt.Sprint(texts))
	box := c.blobs.ServiceClient().NewContainerClient("pictures")
	var names []string
	err = nil
	list := box.NewListBlobsFlatPager(nil)
	for err == nil && list.More() {
		var p container.ListBlobsFlatResponse
		if p, err = list.NextPage(ctx); err == nil {
			for _, b := range p.Segment.BlobItems {
				names = append(names, fmt.Sprint(*b.Name, *b.Properties.ContentLength, *b.Properties.ETag))
			}
		}
	}
	note("blobs", err, fmt.Sprint(names))
	for _, name := range []string{"blob0", "blob1", "blob2", "blob3", "blob4", "blob5", "blob6", "blob7", "blob8",
		"sealed", "pages"} {
		properties, err := box.NewBlobClient(name).GetProperties(ctx, nil)
		value := ""
		if err == nil {
			value = fmt.Sprint(*properties.ContentLength, *properties.ETag, len(properties.Metadata))
		}
		note("properties of "+name, err, value)
		for _, r := range []azblob.HTTPRange{{}, {Offset: 5, Count: 3}, {Offset: 2000, Count: 1000},
			{Offset: 65_000, Count: 5_000}} {
			key := fmt.Sprintf("content of %s from %d", name, r.Offset)
			x, err := c.blobs.DownloadStream(ctx, "pictures", name, &azblob.DownloadStreamOptions{Range: r})
			sum := sha256.New()
			if err == nil {
				_, err = io.Copy(sum, x.Body)
				_ = x.Body.Close()
			}
			note(key, err, fmt.Sprintf("%x", sum.Sum(nil)))
		}
	}
	return got
}
