package accountarchive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"

	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

func (i *importer) createContainer(ctx context.Context, r *Resource) error {
	client := i.account.Blobs.ServiceClient().NewContainerClient(r.Name)
	o := &container.CreateOptions{Metadata: ptr.Values(r.Metadata)}
	if r.Access != "" {
		o.Access = to.Ptr(container.PublicAccessType(r.Access))
	}
	if _, err := client.Create(ctx, o); err != nil {
		return err
	}
	if err := i.setAccess(ctx, r.Name, "", r.Root); err != nil {
		return err
	}
	if len(r.Policies) == 0 {
		return nil
	}
	set := &container.SetAccessPolicyOptions{Access: o.Access}
	for _, p := range r.Policies {
		set.ContainerACL = append(set.ContainerACL,
			&container.SignedIdentifier{ID: &p.ID,
				AccessPolicy: &container.AccessPolicy{Start: optional(p.Start), Expiry: optional(p.Expiry),
					Permission: &p.Permission}})
	}
	_, err := client.SetAccessPolicy(ctx, set)
	return err
}

// containerSegment writes the blobs of a segment. Each is there as a whole or not at all, apart from page and append
// blobs, which are written in parts, and large files over those of the dfs endpoint, which are empty first.
func (i *importer) containerSegment(ctx context.Context, r *Resource, s Segment) error {
	f, err := openSegment(i.dir, s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	client := i.account.Blobs.ServiceClient().NewContainerClient(r.Name)
	reader := blobReader{tar.NewReader(bufio.NewReaderSize(f, 256<<10))}
	var last *Blob
	for {
		b, content, err := reader.next()
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", s.File, err)
		}
		// Versions of a blob that is deleted.
		if last != nil && last.Version != "" && !i.unversioned && (b == nil || b.Name != last.Name) {
			if _, err := client.NewBlobClient(last.Name).Delete(ctx, nil); err != nil {
				return fmt.Errorf("blob %s: %w", last.Name, err)
			}
		}
		if b == nil {
			return nil
		}
		if last = b; b.Version != "" && i.unversioned {
			i.result.LostVersions++
			continue
		}
		if err = ctx.Err(); err == nil {
			err = i.blob(ctx, client, b, content)
		}
		if err == nil && b.Snapshot == "" {
			err = i.setAccess(ctx, r.Name, b.Name, b.Access)
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", b.title(), err)
		}
	}
}

// setAccess gives a path the access control that it had. An account without a hierarchical namespace has none.
func (i *importer) setAccess(ctx context.Context, container, path string, a *laketool.Access) error {
	if a == nil {
		return nil
	}
	if i.tree == nil {
		tree, err := i.account.hierarchical(ctx)
		if err != nil {
			return err
		}
		i.tree = &tree
	}
	if !*i.tree {
		i.result.LostAccess++
		return nil
	}
	if strings.ContainsAny(a.Permissions, "tT") { // the sticky bit, which a list does not have
		if err := laketool.SetAccess(ctx, i.account.Lake, container, path,
			laketool.Access{Permissions: strings.TrimSuffix(a.Permissions, "+")}); err != nil {
			return err
		}
	}
	return laketool.SetAccess(ctx, i.account.Lake, container, path,
		laketool.Access{Owner: a.Owner, Group: a.Group, ACL: a.ACL})
}

func (i *importer) blob(ctx context.Context, client *container.Client, b *Blob, content io.Reader) (err error) {
	var version *string
	switch b.Type {
	case "PageBlob":
		version, err = writePages(ctx, client.NewPageBlobClient(b.Name), b, content)
	case "AppendBlob":
		version, err = writeAppends(ctx, client.NewAppendBlobClient(b.Name), b, content)
	case "BlockBlob":
		version, err = writeBlocks(ctx, client.NewBlockBlobClient(b.Name), b, content)
	default:
		return invalid("%q is no type of blob", b.Type)
	}
	switch {
	case err != nil:
		return err
	case b.Version != "" && version == nil:
		i.unversioned = true
		i.result.LostVersions++
		_, err := client.NewBlobClient(b.Name).Delete(ctx, nil) // it would pass for the blob itself
		return err
	case b.Snapshot != "":
		ctx, cancel := lasting(ctx)
		defer cancel()
		_, err = client.NewBlobClient(b.Name).CreateSnapshot(ctx, nil)
	}
	i.result.Items++
	return err
}

// lasting returns the context of a request that replaces a blob, or takes its snapshot. An interruption waits for it:
// if it were given up, it could be carried out after the next run has written the same blob, and undo that.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), creation)
}

func (b *Blob) headers() *blob.HTTPHeaders {
	return &blob.HTTPHeaders{BlobContentType: ptr.Text(b.ContentType), BlobContentEncoding: ptr.Text(b.ContentEncoding),
		BlobContentLanguage:    ptr.Text(b.ContentLanguage),
		BlobContentDisposition: ptr.Text(b.ContentDisposition), BlobCacheControl: ptr.Text(b.CacheControl),
		BlobContentMD5: b.MD5}
}

func (b *Blob) tier() *blob.AccessTier {
	if b.Tier == "" {
		return nil
	}
	return to.Ptr(blob.AccessTier(b.Tier))
}

const (
	// blockSize is the size of blocks, and of the largest blob that is written with one request. Larger blobs have larger
	// blocks if they would need more than maxBlocks.
	blockSize = 8 << 20
	maxBlocks = 50_000
	// maxBlockSize bounds the memory for a block, and so a blob to 6 TiB.
	maxBlockSize = 128 << 20
	// partSize is the size of what is appended, or written to pages, at once.
	partSize = 4 << 20
)

func writeBlocks(ctx context.Context, client *blockblob.Client, b *Blob, content io.Reader) (version *string,
	err error) {
	size := max(blockSize, (b.Length+maxBlocks-1)/maxBlocks)
	if size > maxBlockSize {
		return nil, invalid("a blob of %d bytes", b.Length)
	}
	buf := make([]byte, min(size, b.Length))
	if b.Length <= size {
		if _, err := io.ReadFull(content, buf); err != nil {
			return nil, err
		}
		headers := *b.headers()
		if len(headers.BlobContentMD5) != md5.Size {
			headers.BlobContentMD5 = nil // Put Blob computes one
		}
		ctx, cancel := lasting(ctx)
		defer cancel()
		r, err := client.Upload(ctx, streaming.NopCloser(bytes.NewReader(buf)),
			&blockblob.UploadOptions{HTTPHeaders: &headers, Metadata: ptr.Values(b.Metadata), Tags: b.Tags, Tier: b.tier(),
				TransactionalValidation: transferMD5(buf)})
		return r.VersionID, err
	}
	var ids []string
	for left := b.Length; left > 0; left -= int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), left)]
		if _, err := io.ReadFull(content, buf); err != nil {
			return nil, err
		}
		id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32([]byte("lazuli-import-"), uint32(len(ids))))
		stage := func() error {
			_, err := client.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(buf)),
				&blockblob.StageBlockOptions{TransactionalValidation: transferMD5(buf)})
			return err
		}
		err := stage()
		if len(ids) == 0 && bloberror.HasCode(err, "BlobOperationNotSupported") {
			// A file that the dfs endpoint made takes no blocks, until it is overwritten.
			if _, err = client.Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)), nil); err == nil {
				err = stage()
			}
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	commit, cancel := lasting(ctx)
	defer cancel()
	r, err := client.CommitBlockList(commit, ids,
		&blockblob.CommitBlockListOptions{HTTPHeaders: b.headers(), Metadata: ptr.Values(b.Metadata), Tags: b.Tags,
			Tier: b.tier()})
	return r.VersionID, err
}

// transferMD5 lets the service check that it received what was sent.
func transferMD5(data []byte) blob.TransferValidationType {
	sum := md5.Sum(data)
	return blob.TransferValidationTypeMD5(sum[:])
}

func writeAppends(ctx context.Context, client *appendblob.Client, b *Blob, content io.Reader) (version *string,
	err error) {
	create, cancel := lasting(ctx)
	defer cancel()
	r, err := client.Create(create, &appendblob.CreateOptions{HTTPHeaders: b.headers(), Metadata: ptr.Values(b.Metadata),
		Tags: b.Tags})
	if err != nil {
		return nil, err
	}
	buf := make([]byte, min(partSize, b.Length))
	for left := b.Length; left > 0; left -= int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), left)]
		if _, err := io.ReadFull(content, buf); err != nil {
			return nil, err
		}
		if _, err := client.AppendBlock(ctx, streaming.NopCloser(bytes.NewReader(buf)),
			&appendblob.AppendBlockOptions{TransactionalValidation: transferMD5(buf),
				AppendPositionAccessConditions: &appendblob.AppendPositionAccessConditions{AppendPosition: to.Ptr(
					b.Length - left)}}); err != nil {
			return nil, err
		}
	}
	if b.Sealed {
		_, err = client.Seal(ctx, nil)
	}
	return r.VersionID, err
}

func writePages(ctx context.Context, client *pageblob.Client, b *Blob, content io.Reader) (version *string, err error) {
	create, cancel := lasting(ctx)
	defer cancel()
	r, err := client.Create(create, b.Length,
		&pageblob.CreateOptions{HTTPHeaders: b.headers(), Metadata: ptr.Values(b.Metadata), Tags: b.Tags,
			SequenceNumber: &b.Sequence})
	if err != nil {
		return nil, err
	}
	buf := make([]byte, partSize)
	for _, rng := range b.Ranges {
		for at, end := rng[0], rng[0]+rng[1]; at < end; {
			part := buf[:min(partSize, end-at)]
			if _, err := io.ReadFull(content, part); err != nil {
				return nil, err
			}
			if _, err := client.UploadPages(ctx, streaming.NopCloser(bytes.NewReader(part)),
				blob.HTTPRange{Offset: at, Count: int64(len(part))},
				&pageblob.UploadPagesOptions{TransactionalValidation: transferMD5(part)}); err != nil {
				return nil, err
			}
			at += int64(len(part))
		}
	}
	return r.VersionID, nil
}
