package azurite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// How many bytes one Append Block (in versions before 2022-11-02) and one Put Page may have.
const maxAppend, maxPages = 4 << 20, 4 << 20

// container returns the client of a container, or nil if its account is left out.
func (i *importer) container(account, name string) *container.Client {
	a, ok := i.Targets[account]
	if !ok || a.Blobs == nil {
		return nil
	}
	return a.Blobs.ServiceClient().NewContainerClient(name)
}

// blobName identifies a blob with its snapshots.
type blobName struct{ account, container, name string }

func (n blobName) String() string { return "blob " + n.container + "/" + n.name }

func (i *importer) planContainers() {
	versions := map[blobName][]blobDoc{}
	first := map[[2]string]time.Time{} // of each container
	var order []blobName
	for _, b := range i.blobs {
		if b.Deleted || !b.Committed {
			continue
		}
		n := blobName{b.Account, b.Container, b.Name}
		if versions[n] == nil {
			order = append(order, n)
		}
		versions[n] = append(versions[n], b)
		in := [2]string{b.Account, b.Container}
		first[in] = earliest(first[in], b.Properties.CreationTime, b.Properties.LastModified)
	}
	for _, c := range i.containers {
		client := i.container(c.Account, c.Name)
		if client == nil {
			continue
		}
		item := "container " + c.Name
		created := earliest(first[[2]string{c.Account, c.Name}], c.Properties.LastModified, c.Meta.created())
		i.plan(created, item, &i.result.Containers, func(ctx context.Context) error {
			_, err := client.Create(ctx, &container.CreateOptions{Metadata: ptr.Values(c.Metadata), Access: access(c)})
			if bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
				return errExists
			}
			return err
		})
		i.plan(c.Properties.LastModified, item, nil, func(ctx context.Context) error {
			// also for Last-Modified
			_, err := client.SetMetadata(ctx, &container.SetMetadataOptions{Metadata: ptr.Values(c.Metadata)})
			return err
		})
		if len(c.ACL) > 0 {
			i.plan(c.Properties.LastModified, item, nil, func(ctx context.Context) error {
				var list []*container.SignedIdentifier
				for _, p := range c.ACL {
					start, expiry, err := p.times()
					if err != nil {
						return unreadable{err}
					}
					list = append(list, &container.SignedIdentifier{ID: &p.ID,
						AccessPolicy: &container.AccessPolicy{Start: start, Expiry: expiry,
							Permission: ptr.Text(p.AccessPolicy.Permission)}})
				}
				_, err := client.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{Access: access(c), ContainerACL: list})
				return err
			})
		}
	}
	for _, n := range order {
		if client := i.container(n.account, n.container); client != nil {
			i.planBlob(client, n, versions[n])
		}
	}
}

func access(c containerDoc) *container.PublicAccessType {
	if c.Properties.PublicAccess == "" {
		return nil
	}
	return to.Ptr(container.PublicAccessType(c.Properties.PublicAccess))
}

// planBlob writes the contents of a blob in the order of their times, and makes each snapshot of the content that it
// has.
func (i *importer) planBlob(client *container.Client, n blobName, list []blobDoc) {
	base := slices.IndexFunc(list, func(b blobDoc) bool { return b.Snapshot == "" })
	slices.SortStableFunc(list, func(a, b blobDoc) int { // the blob itself is last
		if a.Snapshot == "" || b.Snapshot == "" {
			return -cmp.Compare(a.Snapshot, b.Snapshot)
		}
		return cmp.Compare(a.Snapshot, b.Snapshot)
	})
	if base < 0 {
		for _, b := range list {
			i.result.Missing = append(i.result.Missing, fmt.Sprintf("%v: snapshot %s has no blob", n, b.Snapshot))
		}
		return
	}
	last := list[len(list)-1]
	written, failed := time.Time{}, false
	for v, b := range list {
		item, count := n.String(), &i.result.Blobs
		if b.Snapshot != "" {
			item, count = item+", snapshot "+b.Snapshot, nil
		}
		// A blob that did not change since its last snapshot was written for it.
		if v == 0 || !b.Properties.LastModified.Equal(written) {
			source := b
			if last.Properties.LastModified.Equal(b.Properties.LastModified) {
				source = last // the snapshot may have other metadata
			}
			written = b.Properties.LastModified
			if v == 0 && b.Properties.CreationTime.Before(written) && i.SetTime != nil {
				i.plan(b.Properties.CreationTime, item, nil, func(ctx context.Context) error {
					if source.Properties.BlobType != string(blob.BlobTypeBlockBlob) {
						return i.write(ctx, client, source, true)
					}
					_, err := client.NewBlockBlobClient(n.name).Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)), nil)
					return err
				})
			}
			i.plan(written, item, nil, func(ctx context.Context) error {
				err := i.write(ctx, client, source, false)
				failed = err != nil
				return err
			})
		}
		if b.Snapshot == "" {
			i.plan(written, item, count, func(context.Context) error {
				if failed {
					return errReported
				}
				return nil
			})
			continue
		}
		at, err := parseTime(b.Snapshot)
		if err != nil {
			i.result.Missing = append(i.result.Missing, fmt.Sprintf("%s: %v", item, err))
			continue
		}
		i.plan(at, item, &i.result.Snapshots, func(ctx context.Context) error {
			if failed {
				return unreadable{fmt.Errorf("its content was not imported")}
			}
			_, err := client.NewBlobClient(n.name).CreateSnapshot(ctx,
				&blob.CreateSnapshotOptions{Metadata: ptr.Values(b.Metadata)})
			return err
		})
	}
}

// write replaces a blob by the content, the headers, the metadata, the tags and the tier of b. With empty it leaves the
// content out.
func (i *importer) write(ctx context.Context, client *container.Client, b blobDoc, empty bool) error {
	p := b.Properties
	headers := &blob.HTTPHeaders{BlobContentType: ptr.Text(p.ContentType),
		BlobContentEncoding: ptr.Text(p.ContentEncoding),
		BlobContentLanguage: ptr.Text(p.ContentLanguage), BlobContentDisposition: ptr.Text(p.ContentDisposition),
		BlobCacheControl: ptr.Text(p.CacheControl), BlobContentMD5: p.ContentMD5}
	metadata, tags := ptr.Values(b.Metadata), map[string]string{}
	for _, t := range b.Tags.Set {
		tags[t.Key] = t.Value
	}
	var tier *blob.AccessTier
	// As in the archive: an inferred tier is the account's default.
	if p.AccessTier != "" && !p.AccessTierInferred {
		tier = to.Ptr(blob.AccessTier(p.AccessTier))
	}
	switch p.BlobType {
	case string(blob.BlobTypePageBlob):
		target := client.NewPageBlobClient(b.Name)
		// Empty blobs are written at the time of creation, for that time alone; the content follows at its own.
		if _, err := target.Create(ctx, p.ContentLength,
			&pageblob.CreateOptions{HTTPHeaders: headers, Metadata: metadata, Tags: tags,
				SequenceNumber: to.Ptr(p.BlobSequenceNumber)}); err != nil || empty {
			return err
		}
		return i.writePages(ctx, target, b)
	case string(blob.BlobTypeAppendBlob):
		target := client.NewAppendBlobClient(b.Name)
		if _, err := target.Create(ctx,
			&appendblob.CreateOptions{HTTPHeaders: headers, Metadata: metadata, Tags: tags}); err != nil || empty {
			return err
		}
		for _, block := range b.Blocks {
			if err := i.each(block.Content, maxAppend, func(body io.ReadSeekCloser, _, _ int64) error {
				_, err := target.AppendBlock(ctx, body, nil)
				return err
			}); err != nil {
				return err
			}
		}
		// Sealed last: a sealed blob takes no blocks.
		if p.IsSealed {
			_, err := target.Seal(ctx, nil)
			return err
		}
		return nil
	}
	target := client.NewBlockBlobClient(b.Name)
	// Azurite stores a blob of one Put Blob as content, and one of a block list as blocks; the target gets it by the same
	// operation, so that its block list is the same.
	if b.Content != nil {
		return i.content(*b.Content, func(body io.ReadSeekCloser) error {
			_, err := target.Upload(ctx, body,
				&blockblob.UploadOptions{HTTPHeaders: headers, Metadata: metadata, Tags: tags, Tier: tier})
			return err
		})
	}
	names := make([]string, 0, len(b.Blocks))
	for _, block := range b.Blocks {
		if err := i.stage(ctx, target, block); err != nil {
			return err
		}
		names = append(names, block.Name)
	}
	_, err := target.CommitBlockList(ctx, names,
		&blockblob.CommitBlockListOptions{HTTPHeaders: headers, Metadata: metadata, Tags: tags, Tier: tier})
	return err
}

func (i *importer) stage(ctx context.Context, target *blockblob.Client, block blockDoc) error {
	if _, err := base64.StdEncoding.DecodeString(block.Name); err != nil {
		return unreadable{fmt.Errorf("block %s: %w", block.Name, err)}
	}
	return i.content(block.Content, func(body io.ReadSeekCloser) error {
		_, err := target.StageBlock(ctx, block.Name, body, nil)
		return err
	})
}

func (i *importer) writePages(ctx context.Context, target *pageblob.Client, b blobDoc) error {
	for _, r := range b.Pages {
		if r.Content.ID == zeros {
			continue
		}
		if r.End-r.Start+1 != r.Content.Count {
			return unreadable{fmt.Errorf("the range from byte %d to %d has content of %d bytes", r.Start, r.End,
				r.Content.Count)}
		}
		if err := i.each(r.Content, maxPages, func(body io.ReadSeekCloser, offset, n int64) error {
			_, err := target.UploadPages(ctx, body, blob.HTTPRange{Offset: r.Start + offset, Count: n}, nil)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// content calls f with the content of a chunk.
func (i *importer) content(c chunk, f func(io.ReadSeekCloser) error) error {
	if c.Count == 0 {
		return f(streaming.NopCloser(bytes.NewReader(nil)))
	}
	body, file, err := i.blobContent.open(c)
	if err != nil {
		return unreadable{err}
	}
	defer file.Close()
	return f(streaming.NopCloser(body))
}

// each calls f with parts of a chunk that have at most limit bytes, and their offsets in the chunk.
func (i *importer) each(c chunk, limit int64, f func(body io.ReadSeekCloser, offset, n int64) error) error {
	for offset := int64(0); offset < c.Count; offset += limit {
		n := min(limit, c.Count-offset)
		if err := i.content(chunk{c.ID, c.Offset + offset, n},
			func(body io.ReadSeekCloser) error { return f(body, offset, n) }); err != nil {
			return err
		}
	}
	return nil
}

func (i *importer) planUncommitted() {
	for _, b := range i.blocks {
		if client := i.container(b.Account, b.Container); client != nil {
			n := blobName{b.Account, b.Container, b.Blob}
			i.plan(i.now, fmt.Sprintf("%v, uncommitted block %s", n, b.Name), &i.result.Uncommitted,
				func(ctx context.Context) error {
					return i.stage(ctx, client.NewBlockBlobClient(b.Blob), b)
				})
		}
	}
}

// planLeases acquires leases without end. Others have at most a minute left.
func (i *importer) planLeases() {
	for _, c := range i.containers {
		client := i.container(c.Account, c.Name)
		// A lease of a minute would have ended by the time the server starts.
		if client == nil || c.Properties.LeaseState != "leased" || c.Properties.LeaseDuration != "infinite" {
			continue
		}
		i.plan(i.now, "lease of container "+c.Name, nil, func(ctx context.Context) error {
			holder, err := lease.NewContainerClient(client, &lease.ContainerClientOptions{LeaseID: &c.LeaseID})
			if err == nil {
				_, err = holder.AcquireLease(ctx, -1, nil)
			}
			return err
		})
	}
	// Leases come last of all (i.now): a leased blob would refuse the writes of the import.
	for _, b := range i.blobs {
		client := i.container(b.Account, b.Container)
		if client == nil || b.Snapshot != "" || b.Deleted || b.Properties.LeaseState != "leased" ||
			b.Properties.LeaseDuration != "infinite" {
			continue
		}
		i.plan(i.now, fmt.Sprintf("lease of blob %s/%s", b.Container, b.Name), nil, func(ctx context.Context) error {
			holder, err := lease.NewBlobClient(client.NewBlobClient(b.Name), &lease.BlobClientOptions{LeaseID: &b.LeaseID})
			if err == nil {
				_, err = holder.AcquireLease(ctx, -1, nil)
			}
			return err
		})
	}
}
