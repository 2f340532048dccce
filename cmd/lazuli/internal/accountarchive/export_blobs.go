package accountarchive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"

	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

func (e *exporter) containers(ctx context.Context) (names []string, err error) {
	if e.account.Blobs == nil {
		return nil, nil
	}
	pager := e.account.Blobs.NewListContainersPager(
		&azblob.ListContainersOptions{Include: azblob.ListContainersInclude{Metadata: true}})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.ContainerItems {
			names = append(names, ptr.Value(c.Name))
			if len(c.Metadata) > 0 {
				e.metadata[KindContainer+"/"+ptr.Value(c.Name)] = texts(c.Metadata)
			}
		}
	}
	return names, nil
}

// container exports the blobs of a container, each with its snapshots, oldest first.
func (e *exporter) container(ctx context.Context, r *Resource) error {
	client := e.account.Blobs.ServiceClient().NewContainerClient(r.Name)
	from := Position{}
	if r.Next != nil {
		from = *r.Next
	} else if err := e.describe(ctx, client, r); err != nil {
		return err
	}
	w := e.newSegmentWriter(r, "tar")
	defer w.abandon()
	end := func() error { // two empty blocks
		if w.file == nil {
			return nil
		}
		return tar.NewWriter(w).Close()
	}
	err := e.groups(ctx, client, from, func(group []*container.BlobItem, at Position) error {
		for _, item := range group {
			if err := e.blob(ctx, client, w, item); err != nil {
				return fmt.Errorf("blob %s: %w", ptr.Value(item.Name), err)
			}
		}
		if !w.full() {
			return nil
		}
		if err := end(); err != nil {
			return err
		}
		return e.segment(w, at)
	})
	if err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	return w.end()
}

func (e *exporter) describe(ctx context.Context, client *container.Client, r *Resource) error {
	properties, err := client.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	// From the list of containers: the headers of Get Container Properties have lost the case of the names.
	r.Metadata = e.metadata[KindContainer+"/"+r.Name]
	r.Access = string(ptr.Value(properties.BlobPublicAccess))
	if tree, err := e.account.hierarchical(ctx); err != nil {
		return err
	} else if tree {
		root, err := laketool.GetAccess(ctx, e.account.Lake, r.Name, "")
		if err != nil {
			return err
		}
		r.Root = &root
	}
	acl, err := client.GetAccessPolicy(ctx, nil)
	// An account key or SAS that may not read policies must not end the export; policies notes it as missing.
	if err := e.policies(r, err); err != nil {
		return err
	}
	for _, p := range acl.SignedIdentifiers {
		q := ptr.Value(p.AccessPolicy)
		r.Policies = append(r.Policies, newPolicy(p.ID, q.Start, q.Expiry, q.Permission))
	}
	return nil
}

func texts(m map[string]*string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = ptr.Value(v)
	}
	return out
}

// hierarchical reports whether the account has a hierarchical namespace, and a client for it. A service that does not
// say so has none.
func (a *Account) hierarchical(ctx context.Context) (bool, error) {
	if a.Lake == nil {
		return false, nil
	}
	info, err := a.Blobs.ServiceClient().GetAccountInfo(ctx, nil)
	var re *azcore.ResponseError
	if errors.As(err, &re) {
		return false, nil // Azurite, or a token without that permission
	}
	return ptr.Value(info.IsHierarchicalNamespaceEnabled), err
}

// listPage is the number of blobs in a page of the listing.
const listPage = 500

// groups calls each with the records of one name at a time, in the order in which they are to be written again, and the
// position behind them. A group can be spread over pages.
func (e *exporter) groups(ctx context.Context, client *container.Client, from Position,
	each func([]*container.BlobItem, Position) error) error {
	tree, err := e.account.hierarchical(ctx)
	if err != nil {
		return err
	}
	o := &container.ListBlobsFlatOptions{MaxResults: to.Ptr[int32](listPage),
		Include: container.ListBlobsInclude{Metadata: true, Tags: !tree, Snapshots: true, Versions: e.Versions && !tree,
			Permissions: tree}}
	if from.Marker != "" {
		o.Marker = &from.Marker
	}
	pager := client.NewListBlobsFlatPager(o)
	marker, skip := from.Marker, from.After != ""
	var group []*container.BlobItem
	start := marker // of the page in which the group begins
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		slices.SortStableFunc(group, func(a, b *container.BlobItem) int { return cmp.Compare(order(a), order(b)) })
		list := group
		group = nil
		return each(list, Position{Marker: start, After: ptr.Value(list[0].Name)})
	}
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		items := page.Segment.BlobItems
		if skip {
			items = behind(items, from.After)
			skip = false
		}
		for _, item := range items {
			if len(group) > 0 && ptr.Value(group[0].Name) != ptr.Value(item.Name) {
				if err := flush(); err != nil {
					return err
				}
			}
			if len(group) == 0 {
				start = marker
			}
			group = append(group, item)
		}
		marker = ptr.Value(page.NextMarker)
	}
	return flush()
}

// behind returns the items behind those of a name, or of all lesser names if the name is gone.
func behind(items []*container.BlobItem, name string) []*container.BlobItem {
	last := -1
	for i, item := range items {
		if ptr.Value(item.Name) == name {
			last = i
		}
	}
	if last >= 0 {
		return items[last+1:]
	}
	return slices.DeleteFunc(items, func(item *container.BlobItem) bool { return ptr.Value(item.Name) < name })
}

// order sorts the records of a blob: snapshots and previous versions by their time, the blob itself last.
func order(item *container.BlobItem) string {
	switch {
	case item.Snapshot != nil:
		return *item.Snapshot
	case item.VersionID != nil && !ptr.Value(item.IsCurrentVersion):
		return *item.VersionID
	}
	return "~"
}

// blob exports one record. One that cannot be read is noted as missing, one that was deleted meanwhile is left out.
func (e *exporter) blob(ctx context.Context, client *container.Client, w *segmentWriter,
	item *container.BlobItem) error {
	b := describeBlob(item)
	bc := client.NewBlobClient(b.Name)
	var err error
	switch {
	case b.Snapshot != "":
		bc, err = bc.WithSnapshot(b.Snapshot)
	case b.Version != "":
		bc, err = bc.WithVersionID(b.Version)
	}
	if err != nil {
		return err
	}
	content, err := e.openContent(ctx, client, bc, b)
	var re *azcore.ResponseError
	switch {
	case errors.As(err, &re) && re.StatusCode == 404 && re.ErrorCode == "BlobNotFound":
		return nil
	case errors.As(err, &re) && (re.StatusCode == 409 || re.StatusCode == 403):
		// archived, encrypted with the client's key, or not permitted
		w.resource.Missing = append(w.resource.Missing, Missing{Item: b.title(), Reason: re.ErrorCode})
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = content.Close() }()
	sum := md5.New()
	if err := writeBlob(w, w.items+1, b, io.TeeReader(content, sum)); err != nil {
		return err
	}
	if b.Type == "BlockBlob" && len(b.MD5) == md5.Size && !bytes.Equal(sum.Sum(nil), b.MD5) {
		return fmt.Errorf("%s: the content does not have the blob's Content-MD5", b.title())
	}
	w.items++
	return nil
}

// title names a record.
func (b *Blob) title() string {
	switch {
	case b.Snapshot != "":
		return b.Name + "?snapshot=" + b.Snapshot
	case b.Version != "":
		return b.Name + "?versionid=" + b.Version
	}
	return b.Name
}

func describeBlob(item *container.BlobItem) *Blob {
	b := &Blob{Name: ptr.Value(item.Name), Snapshot: ptr.Value(item.Snapshot)}
	// The current version is the blob itself, and is imported by name.
	if item.VersionID != nil && !ptr.Value(item.IsCurrentVersion) && b.Snapshot == "" {
		b.Version = *item.VersionID
	}
	if p := item.Properties; p != nil {
		b.Type = string(ptr.Value(p.BlobType))
		b.Sealed, b.Sequence = ptr.Value(p.IsSealed), ptr.Value(p.BlobSequenceNumber)
		// Only an account with directories has access control, and a snapshot has that of its blob.
		if p.ACL != nil && b.Snapshot == "" {
			b.Access = &laketool.Access{Owner: ptr.Value(p.Owner), Group: ptr.Value(p.Group),
				Permissions: ptr.Value(p.Permissions),
				ACL:         *p.ACL}
		}
		// An inferred tier is the account's default. Written back it would become the blob's own.
		if p.AccessTier != nil && !ptr.Value(p.AccessTierInferred) && b.Type == "BlockBlob" {
			b.Tier = string(*p.AccessTier)
		}
	}
	b.Metadata = texts(item.Metadata)
	if item.BlobTags != nil {
		for _, t := range item.BlobTags.BlobTagSet {
			if b.Tags == nil {
				b.Tags = map[string]string{}
			}
			b.Tags[ptr.Value(t.Key)] = ptr.Value(t.Value)
		}
	}
	return b
}

// openContent begins to read the content and completes b from the answer, so that both are of one state of the blob.
func (e *exporter) openContent(ctx context.Context, client *container.Client, bc *blob.Client, b *Blob) (io.ReadCloser,
	error) {
	if b.Type == "PageBlob" {
		return e.openPages(ctx, client, bc, b)
	}
	r, err := bc.DownloadStream(ctx, nil)
	if err != nil {
		return nil, err
	}
	b.fill(&r)
	return r.NewRetryReader(ctx, nil), nil
}

// fill takes the properties over from an answer.
func (b *Blob) fill(r *blob.DownloadStreamResponse) {
	b.Type, b.Length = string(ptr.Value(r.BlobType)), ptr.Value(r.ContentLength)
	b.ContentType, b.ContentEncoding, b.ContentLanguage = ptr.Value(r.ContentType), ptr.Value(r.ContentEncoding),
		ptr.Value(r.ContentLanguage)
	b.ContentDisposition, b.CacheControl, b.MD5 = ptr.Value(r.ContentDisposition), ptr.Value(r.CacheControl), r.ContentMD5
	b.Modified, b.ETag = ptr.Value(r.LastModified).UTC(), string(ptr.Value(r.ETag))
	// Of the metadata, the listing has the case of the names. The values are those of the answer, unless a name is new.
	now := make(map[string]string, len(r.Metadata))
	for name, v := range r.Metadata {
		for listed := range b.Metadata {
			if strings.EqualFold(listed, name) {
				name = listed
			}
		}
		now[name] = ptr.Value(v)
	}
	b.Metadata = now
}

const (
	// maxRanges bounds the ranges of a page blob in its description.
	maxRanges = 10_000
	// pageChunk is the size of a read of pages.
	pageChunk = 4 << 20
)

// openPages reads the ranges of a page blob that were written. Reads of one state are bound by its ETag.
func (e *exporter) openPages(ctx context.Context, client *container.Client, bc *blob.Client, b *Blob) (io.ReadCloser,
	error) {
	p, err := bc.GetProperties(ctx, nil)
	if err != nil {
		return nil, err
	}
	b.fill(&blob.DownloadStreamResponse{DownloadResponse: blob.DownloadResponse{BlobType: p.BlobType,
		ContentLength: p.ContentLength, ContentType: p.ContentType,
		ContentEncoding: p.ContentEncoding, ContentLanguage: p.ContentLanguage, ContentDisposition: p.ContentDisposition,
		CacheControl: p.CacheControl,
		ContentMD5:   p.ContentMD5, LastModified: p.LastModified, ETag: p.ETag, Metadata: p.Metadata}})
	b.Sequence = ptr.Value(p.BlobSequenceNumber)
	same := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: p.ETag}}
	pages := client.NewPageBlobClient(b.Name)
	if b.Snapshot != "" {
		pages, err = pages.WithSnapshot(b.Snapshot)
	} else if b.Version != "" {
		pages, err = pages.WithVersionID(b.Version)
	}
	if err != nil {
		return nil, err
	}
	pager := pages.NewGetPageRangesPager(&pageblob.GetPageRangesOptions{AccessConditions: same})
	var ranges [][2]int64
	for gap := int64(0); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.PageRange {
			ranges = join(ranges, ptr.Value(r.Start), ptr.Value(r.End)+1, gap)
		}
		for len(ranges) > maxRanges { // with some zeros between them as well
			gap = max(2*gap, 64<<10)
			all := ranges
			ranges = nil
			for _, r := range all {
				ranges = join(ranges, r[0], r[0]+r[1], gap)
			}
		}
	}
	b.Ranges = ranges
	return io.NopCloser(&pageReader{ctx: ctx, client: bc, same: same, ranges: slices.Clone(ranges)}), nil
}

// join adds a range to a list, to the last one if no more than gap bytes are between them.
func join(ranges [][2]int64, start, end, gap int64) [][2]int64 {
	if n := len(ranges) - 1; n >= 0 && start-(ranges[n][0]+ranges[n][1]) <= gap {
		ranges[n][1] = end - ranges[n][0]
		return ranges
	}
	return append(ranges, [2]int64{start, end - start})
}

// pageReader reads ranges of a blob, one chunk at a time.
type pageReader struct {
	ctx    context.Context
	client *blob.Client
	same   *blob.AccessConditions
	ranges [][2]int64
	chunk  bytes.Reader
}

func (r *pageReader) Read(p []byte) (int, error) {
	for r.chunk.Len() == 0 {
		if len(r.ranges) == 0 {
			return 0, io.EOF
		}
		next := &r.ranges[0]
		// A range of a page blob may be a terabyte; it is read in pieces that fit in memory.
		n := min(next[1], pageChunk)
		answer, err := r.client.DownloadStream(r.ctx,
			// On condition of the ETag: pieces of two states of the blob would make a blob that never was.
			&blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: next[0], Count: n}, AccessConditions: r.same})
		if err != nil {
			return 0, err
		}
		body := answer.NewRetryReader(r.ctx, nil)
		// One byte more than asked for, to notice an answer that is too long.
		data, err := io.ReadAll(io.LimitReader(body, n+1))
		_ = body.Close()
		if err != nil {
			return 0, err
		}
		if int64(len(data)) != n {
			return 0, fmt.Errorf("%d bytes for a range of %d", len(data), n)
		}
		r.chunk.Reset(data)
		if next[0], next[1] = next[0]+n, next[1]-n; next[1] == 0 {
			r.ranges = r.ranges[1:]
		}
	}
	return r.chunk.Read(p)
}
