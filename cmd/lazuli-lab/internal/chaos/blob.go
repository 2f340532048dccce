package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/google/uuid"
)

const (
	blobsOfEach   = 8 // of each type
	pageBlobBytes = 64 << 10
	pageBytes     = 512
	// maxAppended is the size from which an append blob is created again instead of appended to.
	maxAppended = 256 << 10
	// largeBytes is the size of the few large blobs, which need several records.
	largeBytes = 1_300_000
)

// blobState holds what a blob has. The zero value is a blob that does not exist. Slices are not modified.
type blobState struct {
	kind    blob.BlobType
	content []byte
	version string // its metadata v
	lease   string // ID of its lease, which has no end
	etag    azcore.ETag
}

func (s *blobState) exists() bool { return s.kind != "" }

// same compares all but the ETag and the ID of the lease.
func (s *blobState) same(t *blobState) bool {
	return s.kind == t.kind && s.version == t.version && (s.lease == "") == (t.lease == "") &&
		bytes.Equal(s.content, t.content)
}

// modelBlob is the model of one blob.
type modelBlob struct {
	now      blobState
	past     map[[sha256.Size]byte]bool // contents that it has had
	staged   []stagedBlock              // acknowledged blocks that are not committed
	appended []byte                     // what the last Append Block sent
	doubt    *blobState                 // what the request in progress makes of it
}

type stagedBlock struct {
	id      string
	content []byte
}

// blobClient writes the blobs of a container.
type blobClient struct {
	name      string
	container *container.Client
	version   int
	blobs     map[string]*modelBlob
}

func newBlobClient(i int) *blobClient {
	c := &blobClient{name: fmt.Sprint("chaos", i), blobs: map[string]*modelBlob{}}
	for i := range blobsOfEach {
		for _, kind := range []string{"block", "append", "page"} {
			c.blobs[kind+strconv.Itoa(i)] = &modelBlob{past: map[[sha256.Size]byte]bool{}}
		}
	}
	return c
}

// sample implements owner.
func (c *blobClient) sample(rnd *rand.Rand) []byte {
	names := slices.Sorted(maps.Keys(c.blobs))
	content := c.blobs[names[rnd.IntN(len(names))]].now.content
	if len(content) < 64 {
		return nil
	}
	at := rnd.IntN(len(content) - 32)
	if text := content[at : at+32]; len(bytes.Trim(text, "\x00")) > 0 { // pages that were not written are zero
		return text
	}
	return nil
}

func openContainer(p *process, name string) (*container.Client, error) {
	s, err := service.NewClientFromConnectionString(p.Connection, &service.ClientOptions{ClientOptions: p.options()})
	if err != nil {
		return nil, err
	}
	return s.NewContainerClient(name), nil
}

func (c *blobClient) connect(p *process) (err error) {
	c.container, err = openContainer(p, c.name)
	return err
}

func (c *blobClient) setup(ctx context.Context) error {
	_, err := c.container.Create(ctx, nil)
	return err
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := 0; i < n; i += 8 {
		v := rnd.Uint64()
		for j := i; j < min(i+8, n); j++ {
			p[j] = byte(v)
			v >>= 8
		}
	}
	return p
}

// size chooses a size: most are small, some are of several records.
func size(rnd *rand.Rand) int {
	switch rnd.IntN(40) {
	case 0:
		return largeBytes + rnd.IntN(100_000)
	case 1, 2, 3, 4:
		return 4096 + rnd.IntN(100_000)
	}
	return rnd.IntN(4096)
}

func body(p []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(p)) }

// conditions are those of a write: the lease, and in half of all cases the ETag.
func conditions(s *blobState, rnd *rand.Rand) *blob.AccessConditions {
	a := &blob.AccessConditions{}
	if s.lease != "" {
		a.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: &s.lease}
	}
	if s.exists() && s.etag != "" && rnd.IntN(2) == 0 {
		a.ModifiedAccessConditions = &blob.ModifiedAccessConditions{IfMatch: &s.etag}
	}
	return a
}

func (c *blobClient) step(ctx context.Context, rnd *rand.Rand) error {
	c.version++
	kind := []string{"block", "block", "append", "page"}[rnd.IntN(4)]
	// Few names: requests have to meet blobs that exist, and each name gets a long history.
	name := kind + strconv.Itoa(rnd.IntN(blobsOfEach))
	b := c.blobs[name]
	// Only on blobs that exist: the other requests would be answered 404, which says nothing about what was kept.
	if b.now.exists() {
		switch rnd.IntN(20) {
		case 0, 1:
			return c.remove(ctx, name, b, rnd)
		case 2, 3:
			return c.lease(ctx, name, b)
		case 4:
			return c.mustFail(ctx, name, b)
		case 5, 6:
			got, err := c.read(ctx, name)
			if err != nil {
				return err
			}
			return c.compare(name, b, got)
		}
	}
	switch kind {
	case "block":
		return c.stepBlock(ctx, name, b, rnd)
	case "append":
		return c.stepAppend(ctx, name, b, rnd)
	default:
		return c.stepPage(ctx, name, b, rnd)
	}
}

// metadata is that of write c.version.
func (c *blobClient) metadata() (version string, m map[string]*string) {
	version = strconv.Itoa(c.version)
	return version, map[string]*string{"v": &version}
}

func (c *blobClient) stepBlock(ctx context.Context, name string, b *modelBlob, rnd *rand.Rand) error {
	client := c.container.NewBlockBlobClient(name)
	version, metadata := c.metadata()
	next := b.now
	next.kind, next.version = blob.BlobTypeBlockBlob, version
	switch n := rnd.IntN(6); {
	case n < 2 && len(b.staged) < 5:
		block := stagedBlock{base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%08d", c.version)),
			randomBytes(rnd, 1+size(rnd))}
		o := &blockblob.StageBlockOptions{}
		if b.now.lease != "" {
			o.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: &b.now.lease}
		}
		if _, err := client.StageBlock(ctx, block.id, body(block.content), o); err != nil {
			return err // a block that may be there is not used: its ID is unique
		}
		b.staged = append(b.staged, block)
		return nil
	case n < 4 && len(b.staged) > 0:
		var ids []string
		next.content = nil
		for _, block := range b.staged {
			ids = append(ids, block.id)
			next.content = append(next.content, block.content...)
		}
		b.doubt = &next
		r, err := client.CommitBlockList(ctx, ids,
			&blockblob.CommitBlockListOptions{Metadata: metadata, AccessConditions: conditions(&b.now, rnd)})
		return b.done(err, r.ETag)
	}
	next.content = randomBytes(rnd, size(rnd))
	b.doubt = &next
	r, err := client.Upload(ctx, body(next.content),
		&blockblob.UploadOptions{Metadata: metadata, AccessConditions: conditions(&b.now, rnd)})
	return b.done(err, r.ETag)
}

func (c *blobClient) stepAppend(ctx context.Context, name string, b *modelBlob, rnd *rand.Rand) error {
	client := c.container.NewAppendBlobClient(name)
	next := b.now
	if !b.now.exists() || len(b.now.content) > maxAppended {
		version, metadata := c.metadata()
		next.kind, next.version, next.content = blob.BlobTypeAppendBlob, version, nil
		b.appended, b.doubt = nil, &next
		r, err := client.Create(ctx, &appendblob.CreateOptions{Metadata: metadata, AccessConditions: conditions(&b.now, rnd)})
		return b.done(err, r.ETag)
	}
	b.appended = randomBytes(rnd, 1+rnd.IntN(5000))
	next.content = bytes.Join([][]byte{b.now.content, b.appended}, nil)
	b.doubt = &next
	r, err := client.AppendBlock(ctx, body(b.appended),
		&appendblob.AppendBlockOptions{AccessConditions: conditions(&b.now, rnd)})
	return b.done(err, r.ETag)
}

func (c *blobClient) stepPage(ctx context.Context, name string, b *modelBlob, rnd *rand.Rand) error {
	client := c.container.NewPageBlobClient(name)
	next := b.now
	if !b.now.exists() {
		version, metadata := c.metadata()
		next.kind, next.version, next.content = blob.BlobTypePageBlob, version, make([]byte, pageBlobBytes)
		// The model knows the request before the server does: if the process dies, the check after the restart accepts both
		// states.
		b.doubt = &next
		r, err := client.Create(ctx, pageBlobBytes,
			&pageblob.CreateOptions{Metadata: metadata, AccessConditions: conditions(&b.now, rnd)})
		return b.done(err, r.ETag)
	}
	pages := pageBlobBytes / pageBytes
	first := rnd.IntN(pages)
	count := 1 + rnd.IntN(min(pages-first, 24))
	at := blob.HTTPRange{Offset: int64(first) * pageBytes, Count: int64(count) * pageBytes}
	// b.now keeps its bytes: it is still the right state if the request did not happen.
	next.content = bytes.Clone(b.now.content)
	part := next.content[at.Offset : at.Offset+at.Count]
	b.doubt = &next
	if rnd.IntN(4) == 0 {
		clear(part)
		r, err := client.ClearPages(ctx, at, &pageblob.ClearPagesOptions{AccessConditions: conditions(&b.now, rnd)})
		return b.done(err, r.ETag)
	}
	copy(part, randomBytes(rnd, len(part)))
	r, err := client.UploadPages(ctx, body(part), at,
		&pageblob.UploadPagesOptions{AccessConditions: conditions(&b.now, rnd)})
	return b.done(err, r.ETag)
}

func (c *blobClient) remove(ctx context.Context, name string, b *modelBlob, rnd *rand.Rand) error {
	b.doubt = &blobState{}
	_, err := c.container.NewBlobClient(name).Delete(ctx, &blob.DeleteOptions{AccessConditions: conditions(&b.now, rnd)})
	return b.done(err, nil)
}

// lease takes a lease without an end, or releases the one that the blob has.
func (c *blobClient) lease(ctx context.Context, name string, b *modelBlob) error {
	next := b.now
	next.lease = uuid.NewString()
	if b.now.lease != "" {
		next.lease = ""
	}
	l, err := lease.NewBlobClient(c.container.NewBlobClient(name),
		&lease.BlobClientOptions{LeaseID: to.Ptr(next.lease + b.now.lease)})
	if err != nil {
		return err
	}
	b.doubt = &next
	if next.lease == "" {
		_, err = l.ReleaseLease(ctx, nil)
	} else {
		_, err = l.AcquireLease(ctx, -1, nil)
	}
	if err != nil {
		return err
	}
	b.now, b.doubt = next, nil // neither changes the ETag
	return nil
}

// mustFail deletes a leased blob without its lease, or any blob under an ETag that it does not have.
func (c *blobClient) mustFail(ctx context.Context, name string, b *modelBlob) error {
	o := &blob.DeleteOptions{AccessConditions: &blob.AccessConditions{}}
	if b.now.lease == "" {
		o.AccessConditions.ModifiedAccessConditions = &blob.ModifiedAccessConditions{IfMatch: to.Ptr(
			azcore.ETag(`"0x8D0000000000000"`))}
	}
	_, err := c.container.NewBlobClient(name).Delete(ctx, o)
	return expect(err, "blob: delete of "+name+" against its lease or ETag", http.StatusPreconditionFailed)
}

// done makes the request in progress part of the model if it was acknowledged.
func (b *modelBlob) done(err error, etag *azcore.ETag) error {
	if err != nil {
		return err
	}
	b.commit()
	if etag != nil {
		b.now.etag = *etag
	}
	return nil
}

func (b *modelBlob) commit() {
	b.past[sha256.Sum256(b.now.content)] = true
	if b.now.version != b.doubt.version { // written or deleted as a whole
		b.staged = nil
	}
	b.now, b.doubt = *b.doubt, nil
	b.now.etag = ""
}

// read returns the state of a blob.
func (c *blobClient) read(ctx context.Context, name string) (*blobState, error) {
	r, err := c.container.NewBlobClient(name).DownloadStream(ctx, nil)
	if status(err) == http.StatusNotFound {
		return &blobState{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	s := &blobState{kind: *r.BlobType, etag: *r.ETag}
	for k, v := range r.Metadata {
		if http.CanonicalHeaderKey(k) == "V" {
			s.version = *v
		}
	}
	if r.LeaseState != nil && *r.LeaseState == lease.StateTypeLeased {
		s.lease = "some"
	}
	s.content, err = io.ReadAll(r.Body)
	return s, err
}

// compare compares a blob with the model.
func (c *blobClient) compare(name string, b *modelBlob, got *blobState) error {
	want := &b.now
	k := Wrong
	switch {
	case got.same(want) && (want.etag == "" || got.etag == want.etag):
		return nil
	case !got.exists():
		k = Lost
	case !want.exists():
		k = Resurrected
	case bytes.Equal(got.content, bytes.Join([][]byte{want.content, b.appended}, nil)) && len(b.appended) > 0:
		k = Doubled
	case older(got.version, want.version), !bytes.Equal(got.content, want.content) && b.past[sha256.Sum256(got.content)]:
		k = Stale
	}
	return broken(k, "blob: %s/%s is %v, acknowledged was %v", c.name, name, got, want)
}

// older reports whether version a was written before version b.
func older(a, b string) bool {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	return errA == nil && errB == nil && m < n
}

// String describes the state without its content.
func (s *blobState) String() string {
	if !s.exists() {
		return "absent"
	}
	return fmt.Sprintf("a %s of %d bytes (SHA-256 %.4x), v=%s, leased: %v, ETag %s", s.kind, len(s.content),
		sha256.Sum256(s.content), s.version, s.lease != "", s.etag)
}

func (c *blobClient) check(ctx context.Context, out *checker, _ bool) {
	c.checkList(ctx, out)
	for name, b := range c.blobs {
		got, err := c.read(ctx, name)
		if err != nil {
			out.add(err)
			continue
		}
		if b.doubt != nil {
			if got.same(b.doubt) {
				b.commit()
			} else {
				b.staged = nil // the request may have been rejected after it discarded them
			}
			b.doubt = nil
		}
		if err := c.compare(name, b, got); err != nil {
			out.add(err)
			continue
		}
		b.now.etag = got.etag
	}
}

// checkList looks for blobs that the model does not know, and for names that are listed twice.
func (c *blobClient) checkList(ctx context.Context, out *checker) {
	listed := map[string]bool{}
	for pager := c.container.NewListBlobsFlatPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			out.add(err)
			return
		}
		for _, item := range page.Segment.BlobItems {
			// Twice in one list: an index with two entries for a blob, which reading it by name would never show.
			if listed[*item.Name] {
				out.found(Doubled, "blob: %s/%s is listed twice", c.name, *item.Name)
			}
			listed[*item.Name] = true
		}
	}
	for name := range listed {
		if b := c.blobs[name]; b == nil {
			out.found(Wrong, "blob: %s/%s is listed and was never written", c.name, name)
			// A blob whose deletion is in doubt may be listed or not; reading it by name decides.
		} else if !b.now.exists() && b.doubt == nil {
			out.found(Resurrected, "blob: %s/%s is listed and was deleted", c.name, name)
		}
	}
	for name, b := range c.blobs {
		if b.now.exists() && b.doubt == nil && !listed[name] {
			out.found(Lost, "blob: %s/%s is not listed", c.name, name)
		}
	}
}
